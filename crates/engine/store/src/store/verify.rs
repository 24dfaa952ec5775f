//! Blocks are read and checked where they lie; nothing of them travels. For scrubbing.
//!
//! Damage is what is looked for, so it is no error here: a block that cannot be read or has another checksum is listed, and
//! so is every block of a leaf that cannot be read.

use super::blocks::{BlockRead, Purpose};
use super::read::{Query, Want};
use super::request::Caller;
use super::{Requester, Store, answer, blocks, read};
use crate::index::{ChunkKey, Entry, Index, LEAF_ENTRIES, Location, PARTS, View};
use amita_types::message::{AnswerBody, Change, MAX_CHANGES, Problem, VerifiedAnswer, VerifyRequest};
use amita_types::{BlockIndex, BlockRange, Version};

/// What a read finds out that only looks.
#[derive(Debug)]
pub(super) struct Verifying {
    pub damaged: Vec<BlockIndex>,
    more: Option<BlockIndex>,
    /// What this view has in the same slot is not looked at.
    but: Option<View>,
}

/// Reads blocks and checks them.
pub(super) fn verify(store: &mut Store, caller: &Caller, request: &VerifyRequest) {
    let (blocks, from) = (caller.blocks(), request.from);
    let first = u32::from(from.0);
    if first >= blocks {
        return store.env.invalid(caller.asker, Problem::Range);
    }
    // Blocks of one leaf: all of it is there, or nothing.
    let leaf_end = (first / LEAF_ENTRIES as u32 + 1) * LEAF_ENTRIES as u32;
    let end = blocks.min(leaf_end).min(first + MAX_CHANGES as u32);
    let range = BlockRange::new(from.0, (end - first) as u16);
    read::look(
        store,
        Query::by(caller, request.chunk, request.least, Want::Verify(range, blocks)),
    );
}

/// The leaf of these blocks is in memory.
pub(super) fn blocks(store: &mut Store, asker: Requester, key: ChunkKey, view: View, range: BlockRange, end: u32) {
    let more = store.index.next_written(key, view, range.end(), end);
    let verifying = Verifying {
        damaged: Vec::new(),
        more,
        but: None,
    };
    blocks::start(store, asker, key, view, range, Purpose::Verify(verifying));
}

/// What a state has elsewhere than the next newer view, of these blocks (S12): what they share is looked at there. The range lies in one
/// leaf; `end`: so many blocks has the chunk.
pub(super) fn state(store: &mut Store, query: Query, key: ChunkKey, place: usize, (range, end): (BlockRange, u32)) {
    let index = &store.index;
    let newer = match place + 1 < index.chunk(key).state_count() {
        true => View::State(place + 1),
        false => View::Head,
    };
    let view = View::State(place);
    let own = |part: usize| index.location(key, view, part) != index.location(key, newer, part);
    let part = usize::from(range.first.0) / LEAF_ENTRIES;
    let next_own = |from: usize| {
        let first = |part: usize| (part * LEAF_ENTRIES) as u32;
        let next = (from..PARTS).find(|&part| own(part)).map(first);
        next.filter(|first| *first < end).map(|first| BlockIndex(first as u16))
    };
    if !own(part) {
        let body = AnswerBody::Verified(VerifiedAnswer {
            entries: Vec::new(),
            damaged: Vec::new(),
            more: next_own(part + 1),
        });
        return answer::give(store, query.asker, body);
    }
    let missing = index.missing(key, view, range).chain(index.missing(key, newer, range));
    let missing: Vec<Location> = missing.collect();
    if !missing.is_empty() {
        return read::wait_for(store, query, &missing);
    }
    let leaf_end = end.min((part as u32 + 1) * LEAF_ENTRIES as u32);
    let mut rest = (range.end() as u16..leaf_end as u16).map(BlockIndex);
    let more = rest.find(|&block| is_elsewhere(index, key, block, index.entry(key, view, block), newer));
    let verifying = Verifying {
        damaged: Vec::new(),
        more: more.or_else(|| next_own(part + 1)),
        but: Some(newer),
    };
    blocks::start(store, query.asker, key, view, range, Purpose::Verify(verifying));
}

/// Has the entry data, and another view has them nowhere or in another slot? The view's leaf is in memory.
fn is_elsewhere(index: &Index, key: ChunkKey, block: BlockIndex, entry: Entry, view: View) -> bool {
    entry.has_data() && index.entry(key, view, block).slot != entry.slot
}

/// The leaf of these blocks cannot be read.
pub(super) fn lost(store: &mut Store, asker: Requester, range: BlockRange, end: u32) {
    let body = AnswerBody::Verified(VerifiedAnswer {
        entries: Vec::new(),
        damaged: range.iter().collect(),
        more: (range.end() < end).then_some(BlockIndex(range.end() as u16)),
    });
    answer::give(store, asker, body);
}

impl Verifying {
    /// Leaves out what is not looked at.
    pub fn sift(&self, index: &Index, key: ChunkKey, first: BlockIndex, entries: &mut [Entry]) {
        let Some(newer) = self.but else { return };
        for (block, entry) in (first.0..).map(BlockIndex).zip(entries) {
            if !is_elsewhere(index, key, block, *entry, newer) {
                *entry = Entry::NEVER;
            }
        }
    }

    /// What came of it.
    pub fn body(mut self, read: &BlockRead) -> AnswerBody {
        let place = read.place.expect("a read under way has a place");
        let blocks = (read.first.0..).map(BlockIndex);
        let entries = blocks
            .zip(&read.entries)
            .filter(|(_, entry)| entry.version > Version::NONE);
        let entries = entries.map(|(block, entry)| Change {
            block,
            version: entry.version,
            sum: entry.has_data().then(|| place.bind(block, entry.sum)),
        });
        self.damaged.sort_unstable();
        AnswerBody::Verified(VerifiedAnswer {
            entries: entries.collect(),
            damaged: self.damaged,
            more: self.more,
        })
    }
}
