//! A client with every right that works all the time that attackers are at it: it writes, reads back and compares.

use crate::world::{PATIENCE, VOLUME, World, stamped};
use amita_harness::nbd::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Its blocks of the volume, from the volume's beginning.
const BLOCKS: u64 = 64;
const BLOCK: u64 = 4096;

/// It ends when it is dropped; [`Bystander::unharmed`] says how it fared.
pub struct Bystander {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Bystander {
    /// Opens the volume at a node, and begins.
    pub fn start(world: &World, node: usize) -> Bystander {
        Bystander::with(world.open(node))
    }

    /// The same by the node's Unix socket.
    pub fn by_socket(world: &World, node: usize) -> Bystander {
        Bystander::with(by_socket(world, node))
    }

    fn with(mut client: Client) -> Bystander {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, done) = (Arc::clone(&stop), Arc::clone(&rounds));
        let thread = std::thread::spawn(move || {
            let mut read = vec![0; BLOCK as usize];
            let mut round = 0;
            while !over.load(Ordering::Acquire) {
                let offset = round % BLOCKS * BLOCK;
                client
                    .write(offset, &stamped(offset, round))
                    .expect("the bystander writes");
                // What it wrote now, and what it wrote longest ago.
                for at in [round, (round + 1).saturating_sub(BLOCKS)] {
                    let offset = at % BLOCKS * BLOCK;
                    client.read(offset, &mut read).expect("the bystander reads");
                    assert!(
                        read == stamped(offset, at),
                        "block {offset} is not what was written in round {at}"
                    );
                }
                round += 1;
                done.store(round, Ordering::Release);
            }
            client.close();
        });
        Bystander {
            stop,
            rounds,
            thread: Some(thread),
        }
    }

    /// Waits until it has written and read several times more: it is not held up for ever.
    pub fn goes_on(&mut self) {
        let (before, until) = (self.rounds.load(Ordering::Acquire), Instant::now() + PATIENCE);
        while self.rounds.load(Ordering::Acquire) < before + 5 {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return self.end();
            }
            assert!(Instant::now() < until, "the bystander is held up");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it: all that it did was right. At another node everything that it wrote last is there.
    pub fn unharmed(self, world: &World, other: usize) {
        let rounds = self.settled();
        check(world.open(other), rounds);
    }

    /// The same by the other node's Unix socket.
    pub fn unharmed_by_socket(self, world: &World, other: usize) {
        let rounds = self.settled();
        check(by_socket(world, other), rounds);
    }

    fn settled(mut self) -> u64 {
        self.goes_on();
        self.end();
        self.rounds.load(Ordering::Acquire)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the bystander was harmed");
            }
        }
    }
}

/// What was written last is there.
fn check(mut client: Client, rounds: u64) {
    let mut read = vec![0; BLOCK as usize];
    for round in rounds.saturating_sub(BLOCKS)..rounds {
        let offset = round % BLOCKS * BLOCK;
        client.read(offset, &mut read).expect("read");
        assert!(
            read == stamped(offset, round),
            "{VOLUME}: block {offset} at another gateway"
        );
    }
    client.close();
}

/// Opens the volume at a node's socket, once nobody has it open elsewhere.
fn by_socket(world: &World, node: usize) -> Client {
    let until = Instant::now() + PATIENCE;
    loop {
        match Client::open_socket(&world.socket(node), VOLUME, PATIENCE) {
            Err(why) if why.to_string().contains("in use through") && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened.expect("the volume opens"),
        }
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.end();
    }
}
