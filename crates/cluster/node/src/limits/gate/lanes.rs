//! What waits of one volume at one gate: reads and writes, each in the order of coming; and what has passed.

use super::bank::counts;
use crate::mail::Origin;
use amita_qos::limits::BUCKETS;
use amita_qos::{Cost, Direction};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::VolumeId;
use amita_types::io::Op;
use std::collections::VecDeque;

/// A piece of I/O that waits for tokens, or waits no more.
#[derive(Debug)]
pub struct Passage {
    pub origin: Origin,
    pub volume: VolumeId,
    pub op: Op,
    pub payload: Slice,
    /// When it came.
    pub since: Time,
    pub(super) cost: Cost,
    /// Counts what comes to the gate.
    pub(super) number: u64,
}

/// What has passed a volume's limits on this core, and what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that have passed: reads, writes.
    pub operations: [u64; 2],
    /// And their bytes.
    pub bytes: [u64; 2],
    /// Operations that had to wait.
    pub held: u64,
    /// For so long, together.
    pub held_ns: u64,
    /// Operations that wait.
    pub waiting: u64,
    /// Bytes of those.
    pub waiting_bytes: u64,
}

impl Counts {
    /// What another core counts of the same volume.
    pub fn add(&mut self, other: &Counts) {
        for way in 0..2 {
            self.operations[way] += other.operations[way];
            self.bytes[way] += other.bytes[way];
        }
        self.held += other.held;
        self.held_ns += other.held_ns;
        self.waiting += other.waiting;
        self.waiting_bytes += other.waiting_bytes;
    }
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Passage>,
    operations: u64,
    bytes: u64,
    /// What has passed: operations, bytes, and the number of the last one.
    passed: (u64, u64, u64),
}

impl Lane {
    fn push(&mut self, passage: Passage) {
        self.operations += u64::from(passage.cost.operations);
        self.bytes += u64::from(passage.cost.bytes);
        self.queue.push_back(passage);
    }

    fn pop(&mut self, newest: bool) -> Option<Passage> {
        let passage = match newest {
            true => self.queue.pop_back()?,
            false => self.queue.pop_front()?,
        };
        self.operations -= u64::from(passage.cost.operations);
        self.bytes -= u64::from(passage.cost.bytes);
        Some(passage)
    }

    fn retain(&mut self, keeps: impl Fn(&Passage) -> bool) {
        let all = std::mem::take(&mut self.queue);
        (self.operations, self.bytes) = (0, 0);
        for passage in all {
            if keeps(&passage) {
                self.push(passage);
            }
        }
    }
}

/// How much of a lane is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Another limit holds it, which this one has nothing to do with.
    Nothing,
    /// Another limit holds it: more than its head needs would be lent for nothing.
    Head,
    All,
}

/// Reads, writes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: [Lane; 2],
    held: u64,
    held_ns: u64,
}

impl Lanes {
    pub fn push(&mut self, passage: Passage) {
        self.lanes[passage.cost.direction as usize].push(passage);
    }

    pub fn retain(&mut self, keeps: impl Fn(&Passage) -> bool + Copy) {
        self.lanes.iter_mut().for_each(|lane| lane.retain(keeps));
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.queue.is_empty())
    }

    /// All that waits, in the order in which it came.
    pub fn into_order(self) -> Vec<Passage> {
        let mut all: Vec<Passage> = self.lanes.into_iter().flat_map(|lane| lane.queue).collect();
        all.sort_unstable_by_key(|passage| passage.number);
        all
    }

    pub fn each(&self) -> impl Iterator<Item = &Passage> {
        self.lanes.iter().flat_map(|lane| lane.queue.iter())
    }

    pub fn head(&self, lane: usize) -> Option<Cost> {
        self.lanes[lane].queue.front().map(|head| head.cost)
    }

    /// The lane whose head is older.
    pub fn older(&self) -> usize {
        let number = |lane: usize| self.lanes[lane].queue.front().map_or(u64::MAX, |head| head.number);
        usize::from(number(1) < number(0))
    }

    /// What came first of a lane goes.
    pub fn let_go(&mut self, now: Time, lane: usize, newest: bool) -> Option<Passage> {
        let passage = self.lanes[lane].pop(newest)?;
        let (operations, bytes, last) = &mut self.lanes[lane].passed;
        assert!(
            passage.number > *last,
            "reads, and writes, pass in the order in which they came"
        );
        *operations += u64::from(passage.cost.operations);
        *bytes += u64::from(passage.cost.bytes);
        *last = passage.number;
        let waited = now.since(passage.since).as_nanos() as u64;
        self.held += u64::from(waited > 0);
        self.held_ns += waited;
        Some(passage)
    }

    /// What came until then and waits goes nowhere.
    pub fn end_until(&mut self, since: Time, mut end: impl FnMut(Passage)) {
        for lane in &mut self.lanes {
            while lane.queue.front().is_some_and(|first| first.since <= since) {
                if let Some(passage) = lane.pop(false) {
                    end(passage);
                }
            }
        }
    }

    pub fn counts(&self) -> Counts {
        let [reads, writes] = &self.lanes;
        Counts {
            operations: [reads.passed.0, writes.passed.0],
            bytes: [reads.passed.1, writes.passed.1],
            held: self.held,
            held_ns: self.held_ns,
            waiting: self.lanes.iter().map(|lane| lane.operations).sum(),
            waiting_bytes: self.lanes.iter().map(|lane| lane.bytes).sum(),
        }
    }

    /// What waits for the limit at a place, and what the next one of it costs, where of each lane so much is wanted. The head of a lane that all is
    /// wanted of goes first: by the cost of one that does not go several gates would each be lent a part of what a large one needs, for ever.
    pub fn wanted(&self, place: usize, wants: [Want; 2]) -> (u64, u64) {
        let counts_bytes = place >= BUCKETS / 2;
        let older = self.older();
        let first = match wants[older] != Want::All && wants[1 - older] == Want::All {
            true => 1 - older,
            false => older,
        };
        let (mut waiting, mut next) = (0, 0);
        for lane in [first, 1 - first].into_iter().filter(|lane| counts(place, *lane)) {
            let Some(head) = self.head(lane) else { continue };
            let of_head = tokens(head, counts_bytes);
            waiting += match (wants[lane], counts_bytes) {
                (Want::Nothing, _) => continue,
                (Want::Head, _) => of_head,
                (Want::All, true) => self.lanes[lane].bytes,
                (Want::All, false) => self.lanes[lane].operations,
            };
            if next == 0 {
                next = of_head;
            }
        }
        (waiting, next)
    }
}

pub(super) fn tokens(cost: Cost, counts_bytes: bool) -> u64 {
    u64::from(if counts_bytes { cost.bytes } else { cost.operations })
}

/// What is asked of the record of what is stored moves no bytes of the volume; nor does a clear.
pub(super) fn cost(op: &Op) -> Cost {
    match *op {
        Op::Read { length, .. } => Cost::piece(Direction::Read, length),
        Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => Cost::piece(Direction::Read, 0),
        Op::Write { length, .. } | Op::CompareAndWrite { length, .. } => Cost::piece(Direction::Write, length),
        Op::Clear { .. } => Cost::piece(Direction::Write, 0),
    }
}
