//! Chunks whose history was once another one (rule R5).
//!
//! A store that was away comes back with chunks that are older than those of the others, or that have gone another way.
//! Such a chunk *joins* the owner's history at a version that its blocks do not have: it is **incomplete** since the version
//! at which it was last whole, takes changes, and serves nothing, until the owner has replaced what differs and says that
//! it is whole.
//!
//! Three things follow from that for good. The versions of a chunk's entries do not say any more which of them its newest
//! snapshot has, too: the chunk is *loose*, and what is replaced is looked up in that snapshot's own leaf. While a chunk is
//! incomplete nothing of it is kept for a snapshot, because it would not be what the volume was. And what it had kept for
//! snapshots before may belong to the history that was given up: up to that snapshot it is *unsure*.

use super::{Chunk, ChunkKey, Entry, Index, LEAF_ENTRIES, Leaf, Location};
use crate::format::checkpoint::PastItem;
use amita_types::{BlockRange, SnapshotId, Version};

/// What is known of a chunk that has joined.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    /// Incomplete: the version at which it was last whole.
    base: Option<Version>,
    /// What it has for snapshots up to this one may not be what they were.
    unsure: SnapshotId,
}

impl Chunk {
    /// Has it states whose entries versions do not tell from its own, or will it have when what was accepted is durable?
    fn may_be_loose(&self) -> bool {
        (self.loose || self.loose_soon) && self.states.is_some()
    }
}

impl Index {
    /// Where the chunk is incomplete: the version at which it was last whole.
    pub fn incomplete(&self, key: ChunkKey) -> Option<Version> {
        if !self.chunk(key).incomplete {
            return None;
        }
        self.pasts.get(&key.0).and_then(|past| past.base)
    }

    /// Up to which snapshot what the chunk has may not be what they were.
    pub fn unsure(&self, key: ChunkKey) -> SnapshotId {
        if !self.chunk(key).loose {
            return SnapshotId::HEAD;
        }
        self.pasts.get(&key.0).map_or(SnapshotId::HEAD, |past| past.unsure)
    }

    /// The chunk's history goes on at another version; it was last whole at `base`.
    pub fn join(&mut self, key: ChunkKey, base: Version, snapshot: SnapshotId) {
        let chunk = self.chunk_mut(key);
        chunk.loose = true;
        chunk.incomplete = true;
        chunk.snapshot = chunk.snapshot.max(snapshot);
        let unsure = chunk.snapshot;
        let past = self.pasts.entry(key.0).or_default();
        past.base = Some(base);
        past.unsure = past.unsure.max(unsure);
    }

    /// A change of an incomplete chunk names a snapshot: nothing is kept for it.
    pub(super) fn skip_snapshot(&mut self, key: ChunkKey, snapshot: SnapshotId) {
        let chunk = self.chunk_mut(key);
        if snapshot <= chunk.snapshot {
            return;
        }
        chunk.snapshot = snapshot;
        self.pasts.entry(key.0).or_default().unsure = snapshot;
    }

    /// It is whole.
    pub fn whole(&mut self, key: ChunkKey) {
        self.chunk_mut(key).incomplete = false;
        if let Some(past) = self.pasts.get_mut(&key.0) {
            past.base = None;
            if past.unsure == SnapshotId::HEAD {
                self.pasts.remove(&key.0);
            }
        }
    }

    /// Entries of the chunk were replaced by ones that may be older than its newest snapshot.
    pub fn loosen(&mut self, key: ChunkKey) {
        let chunk = self.chunk_mut(key);
        chunk.loose |= chunk.states.is_some();
    }

    /// Does the newest state refer to what the chunk refers to? Where the chunk's history was always the same one, an entry
    /// that is not newer than the state was there when it was made. The chunk's part is its own already.
    pub(super) fn in_a_state(&self, key: ChunkKey, block: usize, entry: Entry) -> bool {
        let chunk = self.chunk(key);
        let Some(newest) = chunk.states().last() else {
            return false;
        };
        if !chunk.loose {
            return entry.version <= newest.version;
        }
        match newest.part((block / LEAF_ENTRIES) as u8) {
            None => true,
            // Nobody knows: what a lost leaf held stays in use.
            Some(leaf) if leaf.is_lost() => true,
            Some(&leaf) => self.entry_of(leaf, block % LEAF_ENTRIES).slot == entry.slot,
        }
    }

    /// Which leaves of its states a change of these blocks needs besides the chunk's own ([`Index::missing`]). Empty but for
    /// chunks that have joined, or were mended, and have snapshots.
    pub fn missing_of_states(&self, key: ChunkKey, range: BlockRange) -> Vec<Location> {
        let chunk = self.chunk(key);
        if !chunk.may_be_loose() {
            return Vec::new();
        }
        let first = (usize::from(range.first.0) / LEAF_ENTRIES) as u8;
        let end = (range.end() as usize).div_ceil(LEAF_ENTRIES) as u8;
        // Of all of them: the newest one may be dropped before the change is made.
        let states = chunk.states().iter();
        let own = states.flat_map(|state| state.parts.iter().map(|(part, _)| (state.serial, *part)));
        own.filter(|(_, part)| (first..end).contains(part))
            .map(|(serial, part)| Location {
                chunk: key,
                serial,
                part,
            })
            .filter(|&at| matches!(self.leaf(at), Leaf::Away(_) | Leaf::Loading))
            .collect()
    }

    /// What a checkpoint says of it.
    pub(super) fn past_item(&self, key: ChunkKey) -> Option<PastItem> {
        let past = self.pasts.get(&key.0)?;
        Some(PastItem {
            base: past.base,
            unsure: past.unsure,
        })
    }

    /// Takes it over from a checkpoint.
    pub fn load_past(&mut self, key: ChunkKey, item: PastItem) {
        let chunk = self.chunk_mut(key);
        chunk.loose = true;
        chunk.incomplete = item.base.is_some();
        self.pasts.insert(
            key.0,
            Past {
                base: item.base,
                unsure: item.unsure,
            },
        );
    }
}
