//! The log: how far it is written, applied and verified, and the batches under way.

use super::env::Env;
use super::io::Io;
use super::space::Space;
use super::trace::Course;
use crate::format::Geometry;
use crate::format::record::Run;
use crate::index::OpSlot;
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{BufMut, Segments, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Room of a new vector of pieces.
const FIRST_SEGMENTS: usize = 64;
/// Vectors kept for use again.
const MAX_SPARE: usize = 64;

/// A place between two pages of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The number of the page behind it.
    pub page: u64,
    /// The checksum of the page before it.
    pub sum: u32,
}

/// What is under way in the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Behind the last page.
    pub end: Position,
    /// What is before it is durable, and what it says is in the index.
    pub applied: Position,
    /// A durable page says that all below this one is verified (rule D1).
    pub durable_mark: u64,
    /// The position behind the last record: the mark should get there.
    pub mark_wanted: u64,
    /// The first page that replay would need.
    pub tail: u64,
    /// Batches under way, oldest first.
    pub batches: VecDeque<Batch>,
    /// The number of the first of them.
    first_batch: u64,
    /// Does a batch wait for space in the log?
    pub full: bool,
    /// Is a flush under way?
    flushing: bool,
    /// When the last batch was written or became durable.
    last_activity: Time,
    pub spare: Spare,
}

/// A batch under way.
#[derive(Debug)]
pub(super) struct Batch {
    /// Behind its last page.
    pub end: Position,
    /// The mark that its pages carry.
    pub mark: u64,
    /// Its changes.
    pub ops: Vec<OpSlot>,
    pub stage: Stage,
    /// When it passed which step.
    pub course: Course,
}

/// How far a batch has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// So many device writes have not ended.
    Writing(u32),
    /// It is written, and no flush covers it yet.
    Written,
    /// A flush that covers it is under way.
    Flushing,
    Durable,
}

/// Memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Spare {
    segments: Vec<Segments>,
    ops: Vec<Vec<OpSlot>>,
    /// Where the blocks of a batch go.
    pub runs: Vec<Run>,
    /// For payload that must be copied.
    pub staging: Vec<BufMut>,
}

impl Spare {
    pub fn recycle(&mut self, mut data: Segments) {
        data.clear();
        if self.segments.len() < MAX_SPARE {
            self.segments.push(data);
        }
    }

    fn recycle_ops(&mut self, mut ops: Vec<OpSlot>) {
        ops.clear();
        if self.ops.len() < MAX_SPARE {
            self.ops.push(ops);
        }
    }

    pub fn segments(&mut self) -> Segments {
        let spare = self.segments.pop();
        spare.unwrap_or_else(|| Segments::with_capacity(FIRST_SEGMENTS))
    }

    pub fn ops(&mut self) -> Vec<OpSlot> {
        self.ops.pop().unwrap_or_default()
    }
}

impl Log {
    /// What a mount has found.
    pub fn resume(&mut self, end: Position, tail: u64) {
        self.end = end;
        self.applied = end;
        self.tail = tail;
        self.durable_mark = end.page;
        self.mark_wanted = end.page;
    }

    /// Nothing of what is under way matters any more.
    pub fn abandon(&mut self) {
        self.batches.clear();
    }

    pub fn pages_used(&self) -> u64 {
        self.end.page - self.tail
    }

    pub fn pages_left(&self, geometry: &Geometry) -> u64 {
        geometry.log_pages - self.pages_used()
    }

    /// The number of the batch that comes next.
    pub fn next_batch(&self) -> u64 {
        self.first_batch + self.batches.len() as u64
    }

    /// A batch is on its way to the device; the log ends with it.
    pub fn push(&mut self, now: Time, end: Position, ops: Vec<OpSlot>, writes: u32) {
        self.end = end;
        self.last_activity = now;
        self.batches.push_back(Batch {
            end,
            mark: self.applied.page,
            ops,
            stage: Stage::Writing(writes),
            course: Course {
                issued: now,
                ..Course::default()
            },
        });
    }

    /// A part of a batch is written; `true`: the batch is durable by that.
    pub fn written(&mut self, now: Time, batch: u64, log: bool, volatile_cache: bool) -> bool {
        // A poisoned store has forgotten its batches.
        let Some(at) = batch.checked_sub(self.first_batch) else {
            return false;
        };
        let Some(batch) = self.batches.get_mut(at as usize) else {
            return false;
        };
        match log {
            true => batch.course.log = now,
            false => batch.course.data = now,
        }
        batch.stage = match batch.stage {
            Stage::Writing(1) if volatile_cache => Stage::Written,
            Stage::Writing(1) => Stage::Durable,
            Stage::Writing(writes) => Stage::Writing(writes - 1),
            stage => unreachable!("a write ended of a batch that is {stage:?}"),
        };
        if batch.stage == Stage::Durable {
            batch.course.durable = now;
        }
        batch.stage == Stage::Durable
    }

    /// Starts the flush that all batches share which are written and not flushed yet.
    pub fn flush(&mut self, env: &mut Env) {
        if !env.file.volatile_cache || self.flushing {
            return;
        }
        for batch in &mut self.batches {
            if batch.stage == Stage::Written {
                batch.stage = Stage::Flushing;
                self.flushing = true;
            }
        }
        if self.flushing {
            env.start_flush(Io::Flush);
        }
    }

    /// The flush ended: what was written when it began is durable.
    pub fn flushed(&mut self, now: Time) {
        self.flushing = false;
        for batch in &mut self.batches {
            if batch.stage == Stage::Flushing {
                batch.stage = Stage::Durable;
                batch.course.durable = now;
            }
        }
    }

    /// Takes out the first batch if it is durable.
    pub fn pop_durable(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front_if(|batch| batch.stage == Stage::Durable)?;
        self.first_batch += 1;
        Some(batch)
    }

    /// What a batch says is in the index.
    pub fn retired(&mut self, now: Time, batch: Batch) {
        self.spare.recycle_ops(batch.ops);
        self.applied = batch.end;
        self.last_activity = now;
        // The batch's pages carry this mark, and are durable now.
        self.durable_mark = self.durable_mark.max(batch.mark);
    }

    /// A checkpoint holds what is before `tail`: that is never replayed again (rule D1).
    pub fn cut(&mut self, tail: u64) {
        self.tail = tail;
        self.durable_mark = self.durable_mark.max(tail);
    }

    /// Should a page be written only to move the mark? When the store is idle for a while, so that a crash finds
    /// nothing to read back, or at once when freed slots are needed that wait for it (rule D1).
    pub fn mark_due(&self, now: Time, idle: Duration, space: &Space, slots: u32) -> bool {
        if !self.batches.is_empty() || self.mark_wanted <= self.durable_mark {
            return false;
        }
        let scarce = space.allocator.free() < slots / 8;
        let waiting = space
            .freed
            .next_position()
            .is_some_and(|position| position > self.durable_mark);
        (scarce && waiting) || buggify(Point::EarlyMark) || self.mark_deadline(idle).is_some_and(|at| at <= now)
    }

    /// When the mark is to be moved, in a store to which nothing comes for so long.
    pub fn mark_deadline(&self, idle: Duration) -> Option<Time> {
        let wanted = self.batches.is_empty() && self.mark_wanted > self.durable_mark;
        wanted.then(|| self.last_activity.plus(idle))
    }
}
