//! What a record needs, and what it does to the map of slots.

use crate::format::checkpoint::SLOTS_PER_ITEM;
use crate::format::record::{Record, Run};
use crate::format::{Place, Slot};
use crate::index::{Index, Leaf, Location, View};
use crate::slot_map::SlotMap;
use crate::store::mount::{Mount, STEP_PAGES};
use amita_types::{BlockRange, ChunkId, SnapshotId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Is what the record says of the chunk in the checkpoint already (rule D5)?
pub(super) fn is_in_checkpoint(index: &Index, mount: &Mount, chunk: ChunkId, first: u64) -> bool {
    let position = match index.find(chunk) {
        Some(key) => mount.loaded.positions.get(key.0 as usize),
        // It went before its turn came in the checkpoint: what was before must not bring it back. (Where it went later, the
        // checkpoint has it, and its records take it away again.)
        None => mount.loaded.gone.get(&chunk),
    };
    position.is_some_and(|&position| first < position)
}

/// Is what a record of page `first` does to a slot still to be done in the map of slots?
pub(super) fn counts(mount: &Mount, slot: Slot, first: u64) -> bool {
    let position = mount.loaded.slot_positions.get((slot.0 / SLOTS_PER_ITEM) as usize);
    position.is_some_and(|&position| first >= position)
}

pub(super) fn release(held: &mut SlotMap, mount: &Mount, slot: Slot, first: u64) {
    if counts(mount, slot, first) {
        held.release(slot);
    }
}

/// The leaves that a record changes and that must be read first.
pub(super) fn needed(index: &Index, mount: &Mount, record: &Record, first: u64, out: &mut Vec<Location>) {
    let of_blocks = |chunk: ChunkId, range: BlockRange, out: &mut Vec<Location>| {
        if let Some(key) = index.find(chunk)
            && !is_in_checkpoint(index, mount, chunk, first)
        {
            out.extend(
                index
                    .missing(key, View::Head, range)
                    .filter(|&at| index.leaf(at) != Leaf::Lost),
            );
            out.extend(index.missing_of_states(key, range));
        }
    };
    match record {
        Record::Fence(_)
        | Record::Join { .. }
        | Record::Whole { .. }
        | Record::Frame { .. }
        | Record::Close { .. }
        | Record::Mark { .. } => {}
        Record::Put { chunk, to, entries, .. } => {
            if let Some(key) = index.find(*chunk)
                && !is_in_checkpoint(index, mount, *chunk, first)
                && let Some(place) = index.state_to(key, *to)
            {
                let needed = index.needed_to_put(key, place, entries.iter().map(|entry| entry.block));
                let away = |at: &Location| matches!(index.leaf(*at), Leaf::Away(_));
                for at in needed.into_iter().filter(away) {
                    if !out.contains(&at) {
                        out.push(at);
                    }
                }
            }
        }
        Record::Write { chunk, range, .. } | Record::Clear { chunk, range, .. } => of_blocks(*chunk, *range, out),
        Record::Roll { chunk, entries, .. }
        | Record::Clone { chunk, entries, .. }
        | Record::Mend { chunk, entries, .. } => {
            let blocks = || entries.iter().map(|entry| entry.block.0);
            if let (Some(low), Some(high)) = (blocks().min(), blocks().max()) {
                of_blocks(*chunk, BlockRange::new(low, high - low + 1), out);
            }
        }
        Record::Drop {
            chunk,
            snapshot,
            kept_for,
        } => {
            // Its leaves go to a new state as they are.
            if *kept_for > SnapshotId::HEAD {
                return;
            }
            let Some(key) = index.find(*chunk) else { return };
            if is_in_checkpoint(index, mount, *chunk, first) {
                return;
            }
            let place = match *snapshot {
                SnapshotId::HEAD => None,
                to => match index.state_to(key, to) {
                    Some(place) => Some(place),
                    None => return,
                },
            };
            let needed = index.needed_to_drop(key, place);
            for at in needed {
                if matches!(index.leaf(at), Leaf::Away(_)) && !out.contains(&at) {
                    out.push(at);
                }
            }
        }
    }
}

/// Where the data of these records lies, in runs that can be read at once, with each block's plain checksum. A slot that is
/// impossible has no data that could be whole: it is left out here and refused when the record is applied. What a clone
/// uses was whole before.
pub(super) fn runs_of(records: &[Record], slots: u32, index: &Index) -> VecDeque<(Run, Vec<u32>)> {
    let mut runs: VecDeque<(Run, Vec<u32>)> = VecDeque::new();
    let mut add = |slot: Slot, sum: u32| match runs.back_mut() {
        _ if slot.0 >= slots => {}
        Some((run, sums)) if run.slot.0 + run.count == slot.0 && u64::from(run.count) < STEP_PAGES => {
            run.count += 1;
            sums.push(sum);
        }
        _ => runs.push_back((Run { slot, count: 1 }, vec![sum])),
    };
    let mut origins: FxHashMap<ChunkId, ChunkId> = FxHashMap::default();
    let place = |origins: &FxHashMap<ChunkId, ChunkId>, chunk: ChunkId| {
        let known = || index.find(chunk).map_or(chunk, |key| index.origin(key));
        Place::of(origins.get(&chunk).copied().unwrap_or_else(known))
    };
    for record in records {
        match record {
            Record::Write {
                chunk,
                range,
                runs,
                sums,
                ..
            } => {
                let place = place(&origins, *chunk);
                let slots = runs.iter().flat_map(|run| (0..run.count).map(|n| run.slot.plus(n)));
                for ((block, slot), &sum) in range.iter().zip(slots).zip(sums) {
                    add(slot, place.bind(block, sum));
                }
            }
            Record::Roll { chunk, entries, .. } | Record::Mend { chunk, entries, .. } => {
                let place = place(&origins, *chunk);
                for entry in entries.iter().filter(|entry| entry.slot != Slot::NONE) {
                    add(entry.slot, place.bind(entry.block, entry.sum));
                }
            }
            Record::Put {
                chunk, entries, own, ..
            } => {
                let place = place(&origins, *chunk);
                for (entry, _) in entries.iter().zip(own).filter(|(_, own)| **own) {
                    add(entry.slot, place.bind(entry.block, entry.sum));
                }
            }
            Record::Clone { chunk, origin, .. } => {
                origins.insert(*chunk, *origin);
            }
            Record::Clear { .. }
            | Record::Fence(_)
            | Record::Drop { .. }
            | Record::Join { .. }
            | Record::Whole { .. }
            | Record::Frame { .. }
            | Record::Close { .. }
            | Record::Mark { .. } => {}
        }
    }
    runs
}
