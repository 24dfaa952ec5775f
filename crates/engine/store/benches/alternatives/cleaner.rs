//! Log-structured with a cleaner (Rosenblum and Ousterhout, 1992), simulated: how often is a block written for each time
//! that a host writes it? Beside it the store, the real one, on a device that forgets its data.

use super::hollow::Hollow;
use super::{Pick, Rng};

/// A device of 1 GiB: enough that the number of segments does not matter.
const BLOCKS: u64 = 1 << 18;
/// 2 MiB: 512 blocks.
const SEGMENT_BLOCKS: u64 = 512;
/// The cleaner keeps so many segments free: it needs one to move to, and hosts write to another.
const FREE_SEGMENTS: usize = 4;
const UTILISATIONS: [u64; 4] = [70, 80, 90, 95];
/// The device is written over so often before it is measured, and while it is.
const WARM_UP: u64 = 4;
const MEASURED: u64 = 2;
/// Writes of one pass of the store.
const PASS: usize = 32;

const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// The segment with the fewest live blocks.
    Greedy,
    /// The largest (1 - u) * age / (1 + u).
    CostBenefit,
}

struct Segment {
    blocks: Vec<u32>,
    live: u32,
    /// When one of its blocks was last written by a host.
    written: u64,
}

struct LogStructured {
    policy: Policy,
    segments: Vec<Segment>,
    free: Vec<usize>,
    /// Where each block of the volume is: segment.
    places: Vec<u32>,
    /// When each was last written by a host.
    times: Vec<u64>,
    /// What hosts write to, and what the cleaner moves to: hot and cold apart.
    open: [usize; 2],
    now: u64,
    moved: u64,
}

impl LogStructured {
    fn new(policy: Policy, live: u64) -> LogStructured {
        let count = (BLOCKS / SEGMENT_BLOCKS) as usize;
        let segments = (0..count).map(|_| Segment {
            blocks: Vec::with_capacity(SEGMENT_BLOCKS as usize),
            live: 0,
            written: 0,
        });
        let mut log = LogStructured {
            policy,
            segments: segments.collect(),
            free: (2..count).collect(),
            places: vec![NOWHERE; live as usize],
            times: vec![0; live as usize],
            open: [0, 1],
            now: 0,
            moved: 0,
        };
        (0..live).for_each(|block| log.write(block));
        log
    }

    fn append(&mut self, which: usize, block: u32) {
        if self.segments[self.open[which]].blocks.len() as u64 == SEGMENT_BLOCKS {
            self.open[which] = self.free.pop().expect("the cleaner keeps some free");
        }
        let at = self.open[which];
        let segment = &mut self.segments[at];
        segment.blocks.push(block);
        segment.live += 1;
        segment.written = segment.written.max(self.times[block as usize]);
        self.places[block as usize] = at as u32;
    }

    fn write(&mut self, block: u64) {
        self.now += 1;
        while self.free.len() < FREE_SEGMENTS {
            self.clean();
        }
        let old = self.places[block as usize];
        if old != NOWHERE {
            self.segments[old as usize].live -= 1;
        }
        self.times[block as usize] = self.now;
        self.append(0, block as u32);
    }

    fn clean(&mut self) {
        let full = |at: &usize| !self.open.contains(at) && !self.segments[*at].blocks.is_empty();
        let candidates = (0..self.segments.len()).filter(full);
        let victim = match self.policy {
            Policy::Greedy => candidates.min_by_key(|&at| self.segments[at].live),
            Policy::CostBenefit => {
                let worth = |at: usize| {
                    let segment = &self.segments[at];
                    let used = f64::from(segment.live) / SEGMENT_BLOCKS as f64;
                    (1.0 - used) * (self.now - segment.written) as f64 / (1.0 + used)
                };
                candidates.max_by(|&a, &b| worth(a).total_cmp(&worth(b)))
            }
        };
        let victim = victim.expect("there is a full segment");
        let mut blocks = std::mem::take(&mut self.segments[victim].blocks);
        blocks.retain(|&block| self.places[block as usize] == victim as u32);
        // A block that was written twice into the segment is there twice.
        blocks.sort_unstable();
        blocks.dedup();
        if self.policy == Policy::CostBenefit {
            // Blocks of an age stay together.
            blocks.sort_unstable_by_key(|&block| self.times[block as usize]);
        }
        assert_eq!(blocks.len() as u32, self.segments[victim].live);
        self.segments[victim].live = 0;
        self.segments[victim].written = 0;
        self.moved += blocks.len() as u64;
        blocks.iter().for_each(|&block| self.append(1, block));
        blocks.clear();
        self.segments[victim].blocks = blocks;
        self.free.push(victim);
    }
}

/// Blocks written per block that a host wrote.
fn amplification(policy: Policy, percent: u64, pick: &Pick, live: u64) -> f64 {
    let mut log = LogStructured::new(policy, live);
    let mut rng = Rng(percent);
    for _ in 0..WARM_UP * BLOCKS {
        log.write(pick.block(&mut rng));
    }
    let before = log.moved;
    for _ in 0..MEASURED * BLOCKS {
        log.write(pick.block(&mut rng));
    }
    1.0 + (log.moved - before) as f64 / (MEASURED * BLOCKS) as f64
}

struct Slots {
    /// Bytes written per byte of data: log included, and checkpoints too.
    with_log: f64,
    with_checkpoints: f64,
    /// Device writes of data for one pass of 32 blocks.
    runs: f64,
}

/// The store at the same utilisation of its slots.
fn slots(percent: u64, pick: &Pick, live: u64) -> Slots {
    let size = BLOCKS * 4096;
    let mut hollow = Hollow::new(size, live.div_ceil(1024));
    let slots = u64::from(hollow.geometry.slots);
    let live = live.min(slots * percent / 100);
    let mut rng = Rng(percent);
    let pass = |hollow: &mut Hollow, block: &mut dyn FnMut() -> u64| {
        for _ in 0..PASS {
            hollow.write(block());
        }
        hollow.answers(PASS);
    };
    let mut filled = 0..live;
    while filled.start + PASS as u64 <= live {
        pass(&mut hollow, &mut || filled.next().expect("there are enough"));
    }
    for _ in 0..WARM_UP * BLOCKS / PASS as u64 {
        pass(&mut hollow, &mut || pick.block(&mut rng) % live);
    }
    let (before, writes) = (hollow.store.status().counters, hollow.data_writes);
    let passes = MEASURED * BLOCKS / PASS as u64;
    for _ in 0..passes {
        pass(&mut hollow, &mut || pick.block(&mut rng) % live);
    }
    let after = hollow.store.status().counters;
    let data = (after.data_bytes - before.data_bytes) as f64;
    let device = (after.device_bytes_written - before.device_bytes_written) as f64;
    let checkpoints = (after.checkpoint_bytes - before.checkpoint_bytes) as f64;
    Slots {
        with_log: (device - checkpoints) / data,
        with_checkpoints: device / data,
        runs: (hollow.data_writes - writes) as f64 / passes as f64,
    }
}

pub fn run() {
    println!(
        "\ncleaner: random 4 KiB overwrites, bytes written per byte; segments of 2 MiB, {} MiB device",
        BLOCKS >> 8
    );
    println!(
        "| utilisation | pattern | greedy | cost-benefit | slots and log | with checkpoints | runs per 32 blocks |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for percent in UTILISATIONS {
        let live = BLOCKS * percent / 100;
        for (name, pick) in Pick::all(live) {
            let greedy = amplification(Policy::Greedy, percent, &pick, live);
            let benefit = amplification(Policy::CostBenefit, percent, &pick, live);
            let slots = slots(percent, &pick, live);
            println!(
                "| {percent} % | {name} | {greedy:.2} | {benefit:.2} | {:.3} | {:.3} | {:.1} |",
                slots.with_log, slots.with_checkpoints, slots.runs
            );
        }
    }
}
