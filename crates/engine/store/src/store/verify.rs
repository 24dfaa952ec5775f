//! Blocks are read and checked where they lie; nothing of them travels. For scrubbing.
//!
//! Damage is what is looked for, so it is no error here: a block that cannot be read or has another checksum is listed, and
//! so is every block of a leaf that cannot be read.

use super::blocks::BlockRead;
use super::read::{Query, Want};
use super::request::Caller;
use super::{Requester, Store, answer, blocks, read};
use crate::index::{ChunkKey, LEAF_ENTRIES, View};
use amita_types::message::{AnswerBody, Change, MAX_CHANGES, Problem, VerifiedAnswer, VerifyRequest};
use amita_types::{BlockIndex, BlockRange, Version};

/// What a read finds out that only looks.
#[derive(Debug)]
pub(super) struct Verifying {
    pub damaged: Vec<BlockIndex>,
    more: Option<BlockIndex>,
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
    let damaged = Vec::new();
    blocks::start(store, asker, key, view, range, Some(Verifying { damaged, more }));
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
