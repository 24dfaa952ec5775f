//! A host with paths: one writer at depth 1 that notes when each write was acknowledged, and repeats by the next path what
//! one does not take, as a host's multipath driver does.

use amita_nvme_host::wire::Status;
use amita_nvme_host::{Controller, Error, Host, Queue, Settings, commands};
use amita_terminal::error::{Failure, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Entries of a path's queue: depth 1 needs two.
const ENTRIES: u16 = 8;
/// After this without an acknowledgement, writing has failed for good.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before a write is repeated when all paths have refused it.
const RETRY: Duration = Duration::from_millis(1);
const BLOCK_BYTES: usize = 4096;
/// Of a status: it is about the path, not about the command (Base 2.1, 4.2.3.4).
const OF_THE_PATH: u8 = 3;

/// A pause that the host has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// From the acknowledgement before it to the one after.
    pub length: Duration,
    /// What 999 of 1000 gaps stayed below before anything was done.
    pub usual: Duration,
    /// How often a write was repeated.
    pub retries: u32,
}

/// What a host does when a command has not worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Repeats it by another path, which is connected already.
    Elsewhere,
    /// Repeats it by the same path.
    Again,
    /// Hands the error to whoever writes.
    Fail,
}

/// As Linux' multipath does: what is about the path goes elsewhere, what may be repeated is.
#[must_use]
pub fn then(status: Status) -> Then {
    if status.kind == OF_THE_PATH {
        Then::Elsewhere
    } else if status.final_ {
        Then::Fail
    } else {
        Then::Again
    }
}

/// A host that writes; ends when it is dropped.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Written>>>,
}

#[derive(Default)]
struct Written {
    acks: Vec<Instant>,
    retries: u32,
}

/// A controller with one queue. It goes when its connection breaks.
pub struct Path {
    pub queue: Queue,
    _controller: Controller,
}

impl Path {
    /// Connects, with a queue of so many entries.
    ///
    /// # Errors
    /// When the target cannot be reached or breaks the protocol.
    pub fn connect(settings: &Settings, host: &Host, entries: u16) -> std::result::Result<Path, Error> {
        let mut controller = Controller::connect(settings, host)?;
        controller.enable()?;
        controller
            .call(&commands::queues(1))?
            .good("Set Features, Number of Queues")?;
        let queue = controller.io_queue(1, entries)?;
        Ok(Path {
            queue,
            _controller: controller,
        })
    }
}

impl Writer {
    /// Connects by all paths, and writes the first block over and over by the first of them.
    ///
    /// # Errors
    /// When a path does not connect.
    pub fn start(settings: Vec<Settings>, nsid: u32) -> Result<Writer> {
        let host = Host::named("nqn.2026-11.io.amita:bench-paths");
        let connected = settings.iter().map(|one| {
            let path = Path::connect(one, &host, ENTRIES);
            path.map_err(|error| Failure::new(format!("the host cannot connect to {}: {error}", one.address)))
        });
        let paths = connected.map(|path| path.map(Some)).collect::<Result<Vec<_>>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stop_too = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("nvme-host".to_owned())
            .spawn(move || write_until(&stop_too, paths, nsid))
            .map_err(|error| Failure::new(format!("cannot start the host's thread: {error}")))?;
        Ok(Writer {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it: the longest gap between two acknowledgements of which the later one came after `since`.
    ///
    /// # Errors
    /// When a write has failed, or none was acknowledged after that.
    pub fn finish(mut self, since: Instant) -> Result<Pause> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        let thread = thread.ok_or_else(|| Failure::new("the host has ended already"))?;
        let written = thread
            .join()
            .map_err(|_| Failure::new("the host's thread panicked"))??;
        let (length, usual) = gaps(&written.acks, since);
        let length = length.ok_or_else(|| Failure::new("no write of the host was acknowledged any more"))?;
        Ok(Pause {
            length,
            usual,
            retries: written.retries,
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever drops it without asking is on the way out of a failure of its own.
            let _ = thread.join();
        }
    }
}

/// The longest gap that ended after `since`, and what 999 of 1000 before stayed below.
#[must_use]
pub fn gaps(acks: &[Instant], since: Instant) -> (Option<Duration>, Duration) {
    let pairs = acks.windows(2).map(|pair| (pair[1], pair[1] - pair[0]));
    let (before, after): (Vec<_>, Vec<_>) = pairs.partition(|(ended, _)| *ended < since);
    let longest = after.into_iter().map(|(_, gap)| gap).max();
    let mut usual: Vec<Duration> = before.into_iter().map(|(_, gap)| gap).collect();
    usual.sort_unstable();
    let at = usual.len().saturating_sub(1).min(usual.len() * 999 / 1000);
    (longest, usual.get(at).copied().unwrap_or_default())
}

fn write_until(stop: &AtomicBool, mut paths: Vec<Option<Path>>, nsid: u32) -> Result<Written> {
    let mut written = Written {
        acks: Vec::with_capacity(1 << 16),
        ..Written::default()
    };
    let (mut by, mut last) = (0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let mut block = vec![0; BLOCK_BYTES];
        block[..8].copy_from_slice(&(written.acks.len() as u64).to_le_bytes());
        let Some(path) = &mut paths[by] else {
            return Err(Failure::new("the host has no path any more: all connections broke"));
        };
        let went = match path.queue.call(&commands::write(nsid, 0, 1, block)) {
            Ok(done) if done.status.is_success() => {
                last = Instant::now();
                written.acks.push(last);
                continue;
            }
            Ok(done) => (then(done.status), done.status.to_string()),
            Err(error) => {
                paths[by] = None;
                (Then::Elsewhere, error.to_string())
            }
        };
        written.retries += 1;
        if went.0 == Then::Fail || last.elapsed() > PATIENCE {
            return Err(Failure::new(format!("a write of the host failed: {}", went.1)));
        }
        let next = if went.0 == Then::Elsewhere {
            next(by, &paths)
        } else {
            by
        };
        // A path that was not tried yet is tried at once.
        if next <= by && paths[by].is_some() {
            std::thread::sleep(RETRY);
        }
        by = next;
    }
    Ok(written)
}

/// The path after this one that is connected, in a circle; itself, where there is no other.
fn next<T>(by: usize, paths: &[Option<T>]) -> usize {
    let count = paths.len();
    (1..=count)
        .map(|step| (by + step) % count)
        .find(|&other| paths[other].is_some())
        .unwrap_or(by)
}

#[cfg(test)]
mod tests;
