//! A host with some I/Os under way, on a thread of this process, that notes when each was answered: its rate within any time, and the
//! longest time without an answer, are of one list.

use crate::case::Mix;
use crate::nvme::gateways::NSID;
use crate::nvme::paths::{Path, Then, then};
use amita_harness::nbd::{self, NbdRequest};
use amita_nvme_host::{Host as Name, Settings, commands};
use amita_terminal::error::{Failure, Result};
use amita_testkit::Random;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const BLOCK_BYTES: usize = 4096;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before an I/O is repeated.
const RETRY: Duration = Duration::from_millis(1);
/// Answers that there is room for from the start, so that a list that grows is no gap.
const ANSWERS: usize = 1 << 20;
const SEED: u64 = 0xA117A;

/// By which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Nbd,
    Nvme,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Nbd => "nbd",
            Way::Nvme => "nvme",
        })
    }
}

/// An open volume.
pub enum Connection {
    Nbd(nbd::Client),
    Nvme(Box<Path>),
}

impl Connection {
    /// # Errors
    /// When the gateway does not open it.
    pub fn nbd(server: SocketAddr, export: &str) -> Result<Connection> {
        let client = nbd::Client::open(server, export, PATIENCE);
        client
            .map(Connection::Nbd)
            .map_err(|why| failed("cannot open the volume", &why))
    }

    /// With a queue for so many commands at once.
    ///
    /// # Errors
    /// When the gateway does not take the connection.
    pub fn nvme(settings: &Settings, depth: u16) -> Result<Connection> {
        let mut settings = settings.clone();
        settings.timeout = PATIENCE;
        // A queue is full with one entry free (Base 2.1, 3.3.1.5).
        let path = Path::connect(&settings, &Name::named("nqn.2026-11.io.amita:bench-moving"), depth + 1);
        let path = path.map(Box::new).map(Connection::Nvme);
        path.map_err(|why| failed("cannot connect", &why))
    }

    /// Begins an I/O of one block.
    fn ask(&mut self, mix: Mix, block: u64, data: &[u8]) -> Result<()> {
        match self {
            Connection::Nbd(client) => {
                let (offset, bytes) = (block * BLOCK_BYTES as u64, BLOCK_BYTES as u32);
                let asked = client.ask(match mix {
                    Mix::Read => NbdRequest::Read { offset, bytes },
                    _ => NbdRequest::Write { offset, data },
                });
                asked.map(drop).map_err(|why| failed("cannot send", &why))
            }
            Connection::Nvme(path) => {
                let asked = path.queue.submit(&match mix {
                    Mix::Read => commands::read(NSID, block, 1, BLOCK_BYTES),
                    _ => commands::write(NSID, block, 1, data.to_vec()),
                });
                asked.map(drop).map_err(|why| failed("cannot send", &why))
            }
        }
    }

    /// Waits for an answer; not a good one: the I/O is to be repeated, as a host's driver does it.
    fn answer(&mut self) -> Result<bool> {
        match self {
            Connection::Nbd(client) => {
                let answered = client.answer().and_then(|answered| answered.result);
                answered.map(|_| true).map_err(|why| failed("an I/O failed", &why))
            }
            Connection::Nvme(path) => {
                let done = path.queue.poll().map_err(|why| failed("an I/O failed", &why))?;
                match then(done.status) {
                    _ if done.status.is_success() => Ok(true),
                    Then::Fail => Err(failed("an I/O failed", &done.status)),
                    Then::Elsewhere | Then::Again => {
                        std::thread::sleep(RETRY);
                        Ok(false)
                    }
                }
            }
        }
    }
}

fn failed(what: &str, why: &dyn fmt::Display) -> Failure {
    Failure::new(format!("the host: {what}: {why}"))
}

/// When a host's I/Os were answered, in this order.
#[derive(Debug, Default)]
pub struct Seen {
    pub answers: Vec<Instant>,
    /// How often one was repeated.
    pub retries: u32,
}

/// A host at work; ends when it is dropped.
pub struct Host {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Seen>>>,
}

impl Host {
    /// Has it read or write the first so many blocks at random, so many at once.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start(connection: Connection, mix: Mix, depth: u16, blocks: u64) -> Result<Host> {
        let stop = Arc::new(AtomicBool::new(false));
        let stop_too = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("host".to_owned())
            .spawn(move || work_until(&stop_too, connection, mix, depth, blocks))
            .map_err(|why| failed("cannot start its thread", &why))?;
        Ok(Host {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it when all that is under way was answered.
    ///
    /// # Errors
    /// When an I/O has failed.
    pub fn finish(mut self) -> Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        let thread = thread.ok_or_else(|| Failure::new("the host has ended already"))?;
        thread.join().map_err(|_| Failure::new("the host's thread panicked"))?
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever drops it without asking is on the way out of a failure of its own.
            let _ = thread.join();
        }
    }
}

fn work_until(stop: &AtomicBool, mut connection: Connection, mix: Mix, depth: u16, blocks: u64) -> Result<Seen> {
    let mut random = Random::new(SEED);
    // Nothing that could be compressed.
    let data: Vec<u8> = (0..BLOCK_BYTES).map(|_| random.bits() as u8).collect();
    let mut seen = Seen {
        answers: Vec::with_capacity(ANSWERS),
        retries: 0,
    };
    for _ in 0..depth {
        connection.ask(mix, random.below(blocks), &data)?;
    }
    let mut under_way = depth;
    while under_way > 0 {
        if connection.answer()? {
            seen.answers.push(Instant::now());
        } else {
            seen.retries += 1;
        }
        if stop.load(Ordering::Relaxed) {
            under_way -= 1;
        } else {
            connection.ask(mix, random.below(blocks), &data)?;
        }
    }
    if let Connection::Nbd(client) = connection {
        client.close();
    }
    Ok(seen)
}
