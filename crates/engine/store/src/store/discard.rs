//! The device is told which slots hold nothing any more, so that a flash disk need not carry them along, and a file that is
//! thinly provided gives them back.
//!
//! Only runs that are worth it are discarded, one at a time, and as long as one is under way its slots are nobody's: a late
//! discard must not erase a new block (rule D6). So only slots are discarded that nothing has spoken for (rule R7). A
//! discard leaves a hole in a regular file, and a write into a hole is only durable after a flush (rule D3), whatever the
//! device says: so files are discarded only if that was asked for, and from then on every write is flushed.

use super::Store;
use super::io::Io;
use crate::allocator::Allocator;
use crate::config::{Config, Discard};
use crate::faults::{Fault, Faults};
use crate::format::PAGE_BYTES;
use crate::format::record::Run;
use amita_reactor::FileInfo;
use std::collections::VecDeque;
use std::io;

/// Shorter runs are left: a flash disk forgets in larger units, and each discard is a command of its own.
const LEAST_SLOTS: u32 = 16;
/// A discard of a file makes its writes wait: longer runs are cut.
const MOST_SLOTS: u32 = 256;
/// Runs that wait; beyond that they are forgotten.
const MAX_WAITING: usize = 4096;

/// What is discarded, and what will be.
#[derive(Debug, Default)]
pub(super) struct Discards {
    waiting: VecDeque<Run>,
    under_way: Option<Run>,
    /// The device does not take them.
    off: bool,
}

impl Discards {
    /// Is the device to be told, and does it take it?
    pub fn are_wanted(&self, config: &Config, file: &FileInfo) -> bool {
        let may = match config.discard {
            Discard::Never => false,
            Discard::Devices => !file.discard_makes_holes && !file.inline,
            Discard::Always => true,
        };
        may && file.discard && !self.off
    }

    /// Slots have become free.
    pub fn note(&mut self, run: Run) {
        let room = self.waiting.len() < MAX_WAITING;
        match self.waiting.back_mut() {
            Some(last) if last.slot.0 + last.count == run.slot.0 => last.count += run.count,
            Some(last) if run.slot.0 + run.count == last.slot.0 => {
                last.slot = run.slot;
                last.count += run.count;
            }
            _ if room => self.waiting.push_back(run),
            _ => {}
        }
    }

    /// The next run, of at most so many slots, that is free still.
    fn next(&mut self, allocator: &Allocator, most: u32) -> Option<Run> {
        while let Some(run) = self.waiting.pop_front() {
            if run.count < LEAST_SLOTS {
                continue;
            }
            // What was taken in the meantime divides it.
            let free = allocator.free_run(run);
            let count = free.count.min(most);
            let now = Run { count, ..free };
            let done = now.slot.0 + now.count - run.slot.0;
            if done < run.count {
                self.waiting.push_front(Run {
                    slot: run.slot.plus(done),
                    count: run.count - done,
                });
            }
            if now.count >= LEAST_SLOTS {
                return Some(now);
            }
        }
        None
    }

    /// The run that is being discarded: nobody else's (rule D6).
    #[cfg(any(test, feature = "planted"))]
    pub fn under_way(&self) -> Option<Run> {
        self.under_way
    }

    /// Slots that are being discarded, and nobody's.
    pub fn slots(&self, faults: Faults) -> u64 {
        match self.under_way {
            Some(run) if !faults.has(Fault::DiscardUnpinned) => u64::from(run.count),
            _ => 0,
        }
    }
}

/// Discards the next run that is free still.
pub(super) fn step(store: &mut Store) {
    let (space, env, config) = (&mut store.space, &mut store.env, &store.config);
    if space.discards.under_way.is_some() || !space.discards.are_wanted(config, &env.file) {
        return;
    }
    let geometry = &store.superblock.geometry;
    let spare = space.spare_slots(&store.index, geometry.slots);
    let most = spare.min(u64::from(MOST_SLOTS)) as u32;
    if most < LEAST_SLOTS {
        return;
    }
    let Some(run) = space.discards.next(&space.allocator, most) else {
        return;
    };
    if !config.faults.has(Fault::DiscardUnpinned) {
        for n in 0..run.count {
            let taken = space.allocator.claim(run.slot.plus(n));
            assert!(taken, "only what is free is discarded");
        }
    }
    space.discards.under_way = Some(run);
    // Rule D3.
    let unflushed = config.faults.has(Fault::HolesUnflushed);
    env.file.volatile_cache |= env.file.discard_makes_holes && !unflushed;
    let bytes = u64::from(run.count) * PAGE_BYTES as u64;
    env.start_discard(Io::Discard, geometry.slot_offset(run.slot), bytes);
}

/// A discard ended. One that failed has changed nothing that matters: nobody reads these slots before they are written.
pub(super) fn ended(store: &mut Store, result: &io::Result<()>) {
    let space = &mut store.space;
    space.discards.off |= result.is_err();
    if let Some(run) = space.discards.under_way.take()
        && !store.config.faults.has(Fault::DiscardUnpinned)
    {
        let given = space.allocator.give(run);
        assert!(given, "nobody else has what is being discarded");
    }
}
