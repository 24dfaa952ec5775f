//! What must hold in the index between events; see [`crate::Store::check`].

use super::leaves::{HEAD, NO_MEM};
use super::{ChunkKey, Index, LEAF_ENTRIES, LeafRef, Location, PARTS};
use crate::format::Slot;
use amita_types::{BlockIndex, SnapshotId, StoreId, Version};

/// What a check has met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    leaves: u64,
    /// Leaves that are on the disk only, or that cannot be known.
    away: u64,
    lost: u64,
}

impl Met {
    /// Was every entry seen?
    pub fn is_all_known(self) -> bool {
        self.away + self.lost == 0
    }
}

/// What was counted anew.
#[derive(Default)]
struct Counted {
    met: Met,
    pages: u64,
    mems: u32,
    states: u64,
    state_parts: u64,
    histories: u64,
    state_pages: u64,
}

/// Walks through all chunks, leaves and entries in memory, and panics where one is wrong. `used` is told of every slot in
/// use, and whether it must not have been told of that one before.
pub(crate) fn walk(index: &Index, store: StoreId, mut used: impl FnMut(Slot, bool)) -> Met {
    let mut counted = Counted::default();
    let mut chunks = 0;
    for key in index.keys() {
        chunks += 1;
        let chunk = index.chunk(key);
        assert_eq!(index.find(chunk.id), Some(key), "{} is found by its name", chunk.id);
        assert!(chunk.durable <= chunk.accepted.version || chunk.loose || chunk.loose_soon);
        for part in 0..PARTS as u8 {
            check_leaf(
                index,
                key,
                HEAD,
                part,
                chunk.parts[usize::from(part)],
                &mut counted,
                &mut used,
            );
        }
        if let Some(history) = chunk.history() {
            counted.histories += 1;
            let met = counted.state_parts;
            let mut before = SnapshotId::HEAD;
            history.each(|state, leaves| {
                counted.states += 1;
                let seen = chunk.snapshot.max(chunk.accepted.snapshot);
                assert!(before <= state.above && state.above < state.to);
                assert!(state.to <= seen || chunk.incomplete);
                before = state.to;
                for &(part, leaf) in leaves {
                    counted.state_parts += 1;
                    check_leaf(index, key, state.to, part, leaf, &mut counted, &mut used);
                }
            });
            assert!(before > SnapshotId::HEAD, "there is a state where there is a history");
            let all = history.leaf_count() as u64;
            assert_eq!(
                counted.state_parts - met,
                all,
                "every leaf is a state's, and in its place"
            );
            let mut before = SnapshotId::HEAD;
            for page in history.pages() {
                (counted.pages, counted.state_pages) = (counted.pages + 1, counted.state_pages + 1);
                used(page.slot, true);
                assert!(before <= page.above && page.above < page.to, "pages follow one another");
                before = page.to;
                if !page.stale {
                    index.check_state_page(key, page, store);
                }
            }
            if let Some(open) = history.open() {
                assert!(history.place_of(open).is_some(), "the open state is there");
                assert!(chunk.incomplete, "an open state serves nothing");
            }
        }
    }
    assert_eq!(chunks, index.len(), "every chunk has a name");
    assert_eq!(
        chunks + index.free_keys.len(),
        index.end() as usize,
        "every place has a chunk or is free"
    );
    assert_eq!(counted.pages, index.pages, "pages of leaves and states");
    assert_eq!(
        (
            counted.states,
            counted.state_parts,
            counted.histories,
            counted.state_pages
        ),
        (index.states, index.state_parts, index.histories, index.state_pages),
        "states"
    );
    index.cache.check(counted.mems);
    counted.met
}

fn check_leaf(
    index: &Index,
    key: ChunkKey,
    to: SnapshotId,
    part: u8,
    leaf: LeafRef,
    counted: &mut Counted,
    used: &mut impl FnMut(Slot, bool),
) {
    let at = Location { chunk: key, to, part };
    if leaf.is_never() {
        return;
    }
    counted.met.leaves += 1;
    if leaf.slot != Slot::NONE {
        counted.pages += 1;
        used(leaf.slot, true);
    }
    if leaf.mem == NO_MEM {
        counted.met.away += u64::from(!leaf.is_lost());
        counted.met.lost += u64::from(leaf.is_lost());
        return;
    }
    counted.mems += 1;
    if !index.cache.check_one(leaf.mem, at, leaf.slot == Slot::NONE) {
        counted.met.away += 1;
        return;
    }
    let chunk = index.chunk(key);
    let limit = match chunk.loose || chunk.incomplete || to != HEAD {
        true => Version(u64::MAX),
        false => chunk.durable,
    };
    // Of a chunk with states, and of a clone, others may use the slot too.
    let alone = chunk.states.is_none() && index.origins.is_empty();
    for (block, entry) in index.cache.look_entries(leaf.mem).enumerate() {
        let block = BlockIndex(u16::from(part) * LEAF_ENTRIES as u16 + block as u16);
        assert!(
            entry.version <= limit,
            "block {} of {} has version {}, the chunk {limit}",
            block.0,
            chunk.id,
            entry.version
        );
        if entry.has_data() {
            assert!(entry.version > Version::NONE, "what has data was written");
            used(entry.slot, alone);
        }
    }
}
