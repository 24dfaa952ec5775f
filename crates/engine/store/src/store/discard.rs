//! The device is told which slots hold nothing any more, so that a flash disk need not carry them along, and a file that is
//! thinly provided gives them back.
//!
//! Only runs that are worth it are discarded, one at a time, and as long as one is under way its slots are nobody's: a late
//! discard must not erase a new block (rule D6). So only slots are discarded that nothing has spoken for (rule R7). A
//! discard leaves a hole in a regular file, and a write into a hole is only durable after a flush (rule D3), whatever the
//! device says: so files are discarded only if that was asked for, and from then on every write is flushed.

use super::io::Io;
use super::{Effect, Store};
use crate::config::Discard;
use crate::faults::Fault;
use crate::format::PAGE_BYTES;
use crate::format::record::Run;
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

fn discards(store: &Store) -> bool {
    let may = match store.config.discard {
        Discard::Never => false,
        Discard::Devices => !store.env.file.discard_makes_holes && !store.env.file.inline,
        Discard::Always => true,
    };
    may && store.env.file.discard && !store.space.discards.off
}

/// Slots have become free.
pub(super) fn note_free(store: &mut Store, run: Run) {
    if !discards(store) {
        return;
    }
    let waiting = &mut store.space.discards.waiting;
    let room = waiting.len() < MAX_WAITING;
    match waiting.back_mut() {
        Some(last) if last.slot.0 + last.count == run.slot.0 => last.count += run.count,
        Some(last) if run.slot.0 + run.count == last.slot.0 => {
            last.slot = run.slot;
            last.count += run.count;
        }
        _ if room => waiting.push_back(run),
        _ => {}
    }
}

/// Discards the next run that is free still.
pub(super) fn step(store: &mut Store) {
    if store.space.discards.under_way.is_some() || !discards(store) {
        return;
    }
    let most = store
        .space
        .discardable_slots(&store.index, &store.superblock)
        .min(u64::from(MOST_SLOTS)) as u32;
    if most < LEAST_SLOTS {
        return;
    }
    while let Some(run) = store.space.discards.waiting.pop_front() {
        if run.count < LEAST_SLOTS {
            continue;
        }
        // What was taken in the meantime divides it.
        let free = store.space.allocator.free_run(run);
        let count = free.count.min(most);
        let now = Run { count, ..free };
        let done = now.slot.0 + now.count - run.slot.0;
        if done < run.count {
            store.space.discards.waiting.push_front(Run {
                slot: run.slot.plus(done),
                count: run.count - done,
            });
        }
        if now.count < LEAST_SLOTS {
            continue;
        }
        if !store.config.faults.has(Fault::DiscardUnpinned) {
            for n in 0..now.count {
                let taken = store.space.allocator.claim(now.slot.plus(n));
                assert!(taken, "only what is free is discarded");
            }
        }
        store.space.discards.under_way = Some(now);
        // Rule D3.
        let unflushed = store.config.faults.has(Fault::HolesUnflushed);
        store.env.file.volatile_cache |= store.env.file.discard_makes_holes && !unflushed;
        store.env.counters.discarded_bytes += u64::from(now.count) * PAGE_BYTES as u64;
        let offset = store.superblock.geometry.slot_offset(now.slot);
        let io = store.env.ios.begin(store.env.now, Io::Discard);
        store.env.effects.push_back(Effect::Discard {
            io,
            offset,
            bytes: u64::from(now.count) * PAGE_BYTES as u64,
        });
        return;
    }
}

/// A discard ended. One that failed has changed nothing that matters: nobody reads these slots before they are written.
pub(super) fn ended(store: &mut Store, result: &io::Result<()>) {
    store.space.discards.off |= result.is_err();
    if let Some(run) = store.space.discards.under_way.take()
        && !store.config.faults.has(Fault::DiscardUnpinned)
    {
        let given = store.space.allocator.give(run);
        assert!(given, "nobody else has what is being discarded");
    }
}

/// Those slots: nobody else's (rule D6).
#[cfg(any(test, feature = "planted"))]
pub(super) fn discard_under_way(store: &Store) -> Option<Run> {
    store.space.discards.under_way
}

/// Slots that are being discarded.
pub(super) fn discarding(store: &Store) -> u64 {
    match store.space.discards.under_way {
        Some(run) if !store.config.faults.has(Fault::DiscardUnpinned) => u64::from(run.count),
        _ => 0,
    }
}
