//! A load that costs as little as it can itself, so that what is measured is the target.
//!
//! One thread drives all queues, one connection each, without blocking: it takes all that has come, starts as many
//! commands as have ended, and sends them with one system call. Nothing is allocated or copied per command: each place
//! of a queue has its capsule (with its data) ready, of which only the block's number changes, and data that were read
//! are counted, not kept. With one queue it sleeps in `recv` itself, as a plain client does; with several in `poll`.

mod queue;

use crate::wire::Digests;
use crate::{Controller, Error, Host, Settings, commands};
use amita_testkit::histogram::Histogram;
use queue::Lane;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// What to load a target with.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where, and how. (Digests are not for a load.)
    pub settings: Settings,
    pub host: Host,
    /// The namespace.
    pub nsid: u32,
    /// Bytes of each command: whole blocks. Writes of more than a capsule holds are refused.
    pub bytes: usize,
    /// Commands in flight on each queue.
    pub depth: u16,
    pub queues: u16,
    /// Of a hundred commands so many read.
    pub read_percent: u8,
    /// The commands go to the first so many bytes of the namespace; none: to all of it.
    pub span_bytes: Option<u64>,
    pub duration: Duration,
    /// Where the random order begins.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Commands that succeeded.
    pub operations: u64,
    /// Commands that did not.
    pub errors: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// CPU time of the thread that made the load.
    pub cpu: Duration,
    /// Of the commands.
    pub latency: Histogram,
}

/// Runs a load, on the calling thread.
///
/// # Errors
/// When the target cannot be reached or breaks the protocol, and for a load that is not possible.
pub fn load(load: &Load) -> Result<Loaded, Error> {
    if load.settings.initialize.digests != Digests::NONE {
        return Err(Error::Controller("a load has no digests".into()));
    }
    let mut controller = Controller::connect(&load.settings, &load.host)?;
    controller.enable()?;
    controller
        .call(&commands::queues(load.queues.max(1)))?
        .good("Set Features, Number of Queues")?;
    let namespace = controller.namespace(load.nsid)?;
    let block_bytes = namespace.block_bytes();
    if load.bytes == 0 || !load.bytes.is_multiple_of(block_bytes) {
        return Err(Error::Controller(format!(
            "{} bytes are not blocks of {block_bytes}",
            load.bytes
        )));
    }
    let in_capsule = controller.identify()?.in_capsule_bytes();
    if load.read_percent < 100 && load.bytes > in_capsule {
        return Err(Error::Controller(format!(
            "a capsule holds {in_capsule} bytes, not {}",
            load.bytes
        )));
    }
    let blocks = (load.bytes / block_bytes) as u64;
    let all = namespace.blocks() * block_bytes as u64;
    let places = load.span_bytes.unwrap_or(all).min(all) / load.bytes as u64;
    if places == 0 {
        return Err(Error::Controller(format!(
            "the namespace is smaller than {} bytes",
            load.bytes
        )));
    }
    let mut lanes = Vec::with_capacity(usize::from(load.queues));
    for number in 1..=load.queues.max(1) {
        let stream = queue::connect(&mut controller, &load.settings, number, load.depth + 1)?;
        lanes.push(Lane::new(stream, load, blocks, places, u64::from(number)));
    }
    run(load, &mut lanes)
}

fn run(load: &Load, lanes: &mut [Lane]) -> Result<Loaded, Error> {
    let cpu = thread_cpu();
    let start = Instant::now();
    let end = start + load.duration;
    let mut latency = Histogram::default();
    for lane in lanes.iter_mut() {
        lane.fill(Instant::now());
        lane.send()?;
    }
    let alone = lanes.len() == 1;
    while lanes.iter().any(|lane| lane.busy() > 0) {
        let blocking = alone && !lanes[0].unsent();
        if !blocking {
            wait(lanes, load.settings.timeout)?;
        }
        for lane in lanes.iter_mut() {
            let came = lane.receive(blocking)?;
            if came {
                let now = Instant::now();
                lane.take(now, &mut latency)?;
                if now < end {
                    lane.fill(now);
                }
            }
            lane.send()?;
        }
    }
    Ok(Loaded {
        operations: lanes.iter().map(|lane| lane.operations).sum(),
        errors: lanes.iter().map(|lane| lane.errors).sum(),
        elapsed: start.elapsed(),
        cpu: thread_cpu() - cpu,
        latency,
    })
}

/// Sleeps until a lane can go on.
fn wait(lanes: &[Lane], timeout: Duration) -> Result<(), Error> {
    let mut waiting: Vec<PollFd<'_>> = lanes
        .iter()
        .map(|lane| {
            let flags = if lane.unsent() {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            PollFd::new(lane.socket(), flags)
        })
        .collect();
    let timeout = Timespec::try_from(timeout).map_err(|_| Error::Timeout("a time that is not too long"))?;
    match poll(&mut waiting, Some(&timeout)) {
        Ok(0) => Err(Error::Timeout("completions")),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::Io(error.into())),
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
