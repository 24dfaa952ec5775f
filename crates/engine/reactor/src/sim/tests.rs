use super::*;
use crate::driver::{Completion, Driver, Outcome, Token, Wait};
use crate::{Inbox, Outbox, Pool, Segments, Slice};
use std::io;
use std::net::SocketAddr;

/// Runs until nothing more happens; what each node's driver completes is collected.
struct Bench {
    world: World,
    drivers: BTreeMap<u32, SimDriver>,
    done: BTreeMap<u32, Vec<Completion>>,
}

impl Bench {
    fn new(seed: u64, nodes: u32) -> Bench {
        let mut world = World::new(seed, SimConfig::default());
        let drivers = (1..=nodes).map(|node| (node, world.driver(node))).collect();
        Bench {
            world,
            drivers,
            done: BTreeMap::new(),
        }
    }

    fn driver(&mut self, node: u32) -> &mut SimDriver {
        self.drivers.get_mut(&node).unwrap()
    }

    fn restart(&mut self, node: u32) {
        let driver = self.world.driver(node);
        self.drivers.insert(node, driver);
    }

    /// Runs for a time.
    fn run(&mut self, length: Duration) {
        let until = self.world.now().plus(length);
        while let Some(node) = self.world.next_until(until) {
            let driver = self.drivers.get_mut(&node).unwrap();
            driver.poll(Wait::No, self.done.entry(node).or_default());
        }
        assert_eq!(self.world.now(), until);
    }

    fn done(&mut self, node: u32) -> Vec<Completion> {
        self.done.remove(&node).unwrap_or_default()
    }

    /// Connects node 1 to node 2 and gives both sockets.
    fn connect(&mut self) -> (crate::SocketId, crate::SocketId) {
        let address = SocketAddr::new(node_ip(2), 0);
        let (_, address) = self.driver(2).listen(address, Token(1)).unwrap();
        self.driver(1).connect(address, Token(2));
        self.run(Duration::from_millis(10));
        let connected = match &self.done(1)[..] {
            [
                Completion {
                    token: Token(2),
                    outcome: Outcome::Connected { result: Ok(socket) },
                },
            ] => *socket,
            other => panic!("{other:?}"),
        };
        let accepted = match &self.done(2)[..] {
            [
                Completion {
                    token: Token(1),
                    outcome: Outcome::Accepted { socket, peer },
                },
            ] => {
                assert_eq!(peer.ip(), node_ip(1));
                *socket
            }
            other => panic!("{other:?}"),
        };
        (connected, accepted)
    }

    fn count(&self, fault: &str) -> u64 {
        self.world.coverage()[fault]
    }

    fn receive(&mut self, node: u32, socket: crate::SocketId, bytes: usize) {
        let buffer = Pool::heap().take(bytes).unwrap();
        self.driver(node).receive(socket, buffer, Token(77));
    }

    /// Receives on a socket until nothing more comes for a while; the bytes, and how the stream stands.
    fn drain(&mut self, node: u32, socket: crate::SocketId) -> (Vec<u8>, Option<io::Result<usize>>) {
        let mut bytes = Vec::new();
        loop {
            self.receive(node, socket, 64 << 10);
            self.run(Duration::from_millis(50));
            let mut end = None;
            let mut some = false;
            for completion in self.done(node) {
                match completion.outcome {
                    Outcome::Received {
                        buffer,
                        result: Ok(count),
                    } if count > 0 => {
                        bytes.extend_from_slice(&buffer[..count]);
                        some = true;
                    }
                    Outcome::Received { result, .. } => end = Some(result),
                    _ => {}
                }
            }
            if end.is_some() || !some {
                return (bytes, end);
            }
        }
    }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

mod accepts;
mod discards;
mod disks;
mod nets;
mod replay;
