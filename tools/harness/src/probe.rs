//! The pause probe: one writer at depth 1 that notes when each write was acknowledged. The longest time without an
//! acknowledgement is the pause. When its gateway goes it opens the volume by the next one, as a host would.

use crate::cluster::Cluster;
use crate::nbd::Client;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long one wait for a gateway may take before the probe asks the next one. Longer than any pause that is to be
/// measured, and it never counts as one: a gateway that is dead refuses at once.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two attempts to find a gateway.
const RETRY: Duration = Duration::from_millis(5);
const WRITE_BYTES: usize = 4096;
/// Writes before the kill, so that the path is warm and the gap has a left side.
const BEFORE: Duration = Duration::from_millis(500);
/// Writes after it: longer than any pause that is still a pause.
const AFTER: Duration = Duration::from_secs(4);

/// A pause that the probe has seen.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// From the acknowledgement before it to the one after.
    pub length: Duration,
    /// What 999 of 1000 gaps stayed below before anything was done.
    pub usual: Duration,
    /// How many writes were acknowledged in all.
    pub writes: u64,
    /// How often it had to open the volume again.
    pub reopened: u32,
}

/// Probes the volume at the given gateways, kills a node, and measures.
///
/// # Errors
/// When no write is acknowledged after the kill.
pub fn across_a_kill(
    cluster: &mut Cluster,
    gateways: Vec<SocketAddr>,
    volume: &str,
    offset: u64,
    victim: usize,
) -> Result<Pause> {
    let probe = Probe::start(gateways, volume, offset)?;
    interrupt::sleep(BEFORE)?;
    let killed = Instant::now();
    cluster.kill_node(victim);
    interrupt::sleep(AFTER)?;
    probe.finish(killed)
}

/// A running probe. Ends when it is dropped.
#[derive(Debug)]
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Ack>>>>,
    reopened: Arc<std::sync::atomic::AtomicU32>,
}

#[derive(Clone, Copy, Debug)]
struct Ack {
    at: Instant,
}

impl Probe {
    /// Starts writing one block at `offset` over and over.
    ///
    /// # Errors
    /// When no gateway opens the volume.
    pub fn start(gateways: Vec<SocketAddr>, export: &str, offset: u64) -> Result<Probe> {
        let stop = Arc::new(AtomicBool::new(false));
        let reopened = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let first = *gateways
            .first()
            .ok_or_else(|| Failure::new("the probe was given no gateway"))?;
        let client = Client::open(first, export, PATIENCE)
            .map_err(|error| Failure::new(format!("the probe cannot open {export} at {first}: {error}")))?;
        let (stop_too, reopened_too, export) = (Arc::clone(&stop), Arc::clone(&reopened), export.to_owned());
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || write_until(&stop_too, client, &gateways, &export, offset, &reopened_too))
            .map_err(|error| Failure::new(format!("cannot start the probe's thread: {error}")))?;
        Ok(Probe {
            stop,
            thread: Some(thread),
            reopened,
        })
    }

    /// Ends the probe: the longest gap between two acknowledgements of which the later one came after `since`.
    ///
    /// # Errors
    /// When writing failed for good.
    pub fn finish(mut self, since: Instant) -> Result<Pause> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self
            .thread
            .take()
            .ok_or_else(|| Failure::new("the probe has ended already"))?;
        let acks = thread
            .join()
            .map_err(|_| Failure::new("the probe's thread panicked"))??;
        let length = longest_gap(&acks, since)
            .ok_or_else(|| Failure::new("no write of the probe was acknowledged after the kill: writes stand still"))?;
        Ok(Pause {
            length,
            usual: usual_gap(&acks, since),
            writes: acks.len() as u64,
            reopened: self.reopened.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever drops it without asking is on the way out of a failure of its own.
            let _ = thread.join();
        }
    }
}

fn longest_gap(acks: &[Ack], since: Instant) -> Option<Duration> {
    acks.windows(2)
        .filter(|pair| pair[1].at >= since)
        .map(|pair| pair[1].at - pair[0].at)
        .max()
}

/// The gap that 999 of 1000 before `since` stay below.
fn usual_gap(acks: &[Ack], since: Instant) -> Duration {
    let before = acks.windows(2).filter(|pair| pair[1].at < since);
    let mut gaps: Vec<Duration> = before.map(|pair| pair[1].at - pair[0].at).collect();
    gaps.sort_unstable();
    let at = gaps.len().saturating_sub(1).min(gaps.len() * 999 / 1000);
    gaps.get(at).copied().unwrap_or_default()
}

fn write_until(
    stop: &AtomicBool,
    first: Client,
    gateways: &[SocketAddr],
    export: &str,
    offset: u64,
    reopened: &std::sync::atomic::AtomicU32,
) -> Result<Vec<Ack>> {
    let mut acks = Vec::with_capacity(1 << 16);
    let mut client = Some(first);
    let mut gateway = 0;
    let mut failing_since: Option<Instant> = None;
    let mut block = [0u8; WRITE_BYTES];
    while !stop.load(Ordering::Relaxed) {
        block[..8].copy_from_slice(&(acks.len() as u64).to_le_bytes());
        let outcome = match &mut client {
            Some(open) => open.write(offset, &block),
            None => {
                gateway = (gateway + 1) % gateways.len();
                Client::open(gateways[gateway], export, PATIENCE).map(|open| {
                    client = Some(open);
                    reopened.fetch_add(1, Ordering::Relaxed);
                })
            }
        };
        match outcome {
            Ok(()) if failing_since.is_some() => failing_since = None,
            Ok(()) => acks.push(Ack { at: Instant::now() }),
            Err(error) => {
                client = None;
                let since = *failing_since.get_or_insert_with(Instant::now);
                if since.elapsed() > 2 * PATIENCE {
                    return Err(Failure::new(format!("no gateway takes the probe's writes: {error}")));
                }
                std::thread::sleep(RETRY);
            }
        }
    }
    if let Some(open) = client {
        open.close();
    }
    Ok(acks)
}
