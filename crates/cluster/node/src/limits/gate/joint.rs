//! Limits of many volumes together at one gate: a tenant's, or a pool's.
//!
//! # The story
//! A tenant may do 1,000 operations a second, and twenty volumes of it are in use here. A piece of I/O passes when no limit of its volume, of its tenant,
//! or of its pool holds it, and takes tokens of each. Whoever lacks tokens of the tenant is lined up there, by how much of its work has passed
//! (start-time fair queueing), so that one with a thousand requests has no more than one with ten.
//!
//! A volume of which the tenant has tokens may lack those of its pool. It keeps nobody from passing who needs as much less than there is; but where it is the
//! first in line, what its next request needs is kept for it. By that it passes in the end: who is first of all lines that there are is first in each of its own.
//!
//! A line may be long, and all that stand in front may wait for the same pool. So it is looked behind the first ones as well, a stretch each time, from where the
//! last look has ended.

use super::bank::Bank;
use super::lanes::Lanes;
use amita_qos::limits::{BUCKETS, LARGEST_BYTES};
use amita_qos::{Cost, Limits};
use amita_reactor::driver::Time;
use amita_types::VolumeId;
use arrayvec::ArrayVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A volume is under so many at most: its tenant's, its pool's.
pub(super) const MAX_JOINTS: usize = 2;
/// Volumes in line that are looked at at once: so many in front, and so many behind them.
pub(super) const LOOKED_AT: usize = 64;
/// What an operation is beside its bytes, for turns.
const OPERATION_BYTES: u128 = 16 << 10;

pub(super) type JointNumber = u32;
pub(super) type JointNumbers = ArrayVec<JointNumber, MAX_JOINTS>;
/// Where a volume is in line: its tag, and itself.
pub(super) type Place = (u128, VolumeId);
/// Those that are looked at.
pub(super) type Looked = ArrayVec<VolumeId, { 2 * LOOKED_AT }>;

/// What has passed the limits of a tenant or of a pool on this core, and how many volumes of it wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JointCounts {
    /// Operations that have passed: reads, writes.
    pub operations: [u64; 2],
    /// And their bytes.
    pub bytes: [u64; 2],
    /// Volumes of which something waits.
    pub waiting: u64,
}

impl JointCounts {
    /// What another core counts of the same.
    pub fn add(&mut self, other: &JointCounts) {
        for way in 0..2 {
            self.operations[way] += other.operations[way];
            self.bytes[way] += other.bytes[way];
        }
        self.waiting += other.waiting;
    }
}

#[derive(Debug)]
pub(super) struct Joint {
    pub name: Arc<str>,
    pub limits: Box<Limits>,
    pub bank: Bank,
    /// Volumes that their own limits do not hold.
    pub line: BTreeSet<Place>,
    /// From here on it is looked behind the first ones the next time.
    behind: Place,
    /// The tag of the one that passed last.
    pub turn: u128,
    pub due: Option<Time>,
    /// Since when all who were asked for its tokens could not be reached.
    pub failing: Option<Time>,
    /// Who lends them, by the record: its term, and the volume whose owner does.
    pub seat: (u32, Option<VolumeId>),
    counts: JointCounts,
}

impl Joint {
    pub fn new(name: Arc<str>, limits: Limits) -> Joint {
        Joint {
            name,
            limits: Box::new(limits),
            bank: Bank::new(),
            line: BTreeSet::new(),
            behind: Place::default(),
            turn: 0,
            due: None,
            failing: None,
            seat: (0, None),
            counts: JointCounts::default(),
        }
    }

    /// A piece of a volume passes whose tag is that.
    pub fn pass(&mut self, now: Time, cost: Cost, tag: u128) {
        self.bank.spend(now, cost);
        let way = cost.direction as usize;
        self.counts.operations[way] += u64::from(cost.operations);
        self.counts.bytes[way] += u64::from(cost.bytes);
        self.turn = self.turn.max(tag);
    }

    pub fn counts(&self) -> JointCounts {
        JointCounts {
            waiting: self.line.len() as u64,
            ..self.counts
        }
    }

    /// Who is looked at now: the first in line, and some behind them.
    pub fn looked_at(&self) -> Looked {
        let mut found: Looked = self.line.iter().take(LOOKED_AT).map(|(_, volume)| *volume).collect();
        if let Some(from) = self.from() {
            found.extend(self.line.range(from..).take(LOOKED_AT).map(|(_, volume)| *volume));
        }
        found
    }

    /// Where the stretch behind the first ones begins; none: there is none.
    fn from(&self) -> Option<Place> {
        if self.line.len() <= LOOKED_AT {
            return None;
        }
        let first = *self.line.iter().nth(LOOKED_AT)?;
        let is_there = self.line.last().is_some_and(|last| *last >= self.behind);
        Some(if is_there { first.max(self.behind) } else { first })
    }

    /// None of them passes: the next look goes on behind them.
    pub fn look_on(&mut self) {
        let next = self.from().and_then(|from| self.line.range(from..).nth(LOOKED_AT));
        self.behind = next.copied().unwrap_or_default();
    }

    /// The first in line, if that is another one that is to pass before who is at that place.
    pub fn before(&self, place: Place) -> Option<VolumeId> {
        let first = *self.line.first()?;
        (first < place).then_some(first.1)
    }
}

/// What a piece of I/O is, for turns.
pub(super) fn work(cost: Cost) -> u128 {
    u128::from(cost.operations) * OPERATION_BYTES + u128::from(cost.bytes)
}

/// What the next pieces of a volume need, by the places of limits.
pub(super) fn needs(lanes: &Lanes) -> [u64; BUCKETS] {
    let mut kept = [0; BUCKETS];
    for cost in [0, 1].into_iter().filter_map(|lane| lanes.head(lane)) {
        for (place, counts_bytes) in amita_qos::limits::own(cost.direction) {
            let tokens = if counts_bytes { cost.bytes } else { cost.operations };
            kept[place] += u64::from(tokens).min(LARGEST_BYTES);
        }
    }
    kept
}
