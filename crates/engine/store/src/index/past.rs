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

use super::{Chunk, ChunkKey};
use crate::format::checkpoint::PastItem;
use amita_types::{SnapshotId, Version};
use rustc_hash::FxHashMap;

/// What is known of a chunk that has joined.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    /// Incomplete: the version at which it was last whole.
    base: Option<Version>,
    /// What it has for snapshots up to this one may not be what they were.
    unsure: SnapshotId,
}

/// Chunks that are incomplete, or were (rule R5).
#[derive(Debug, Default)]
pub(super) struct Pasts {
    of: FxHashMap<u32, Past>,
}

impl Pasts {
    /// Where the chunk is incomplete: the version at which it was last whole.
    pub fn base(&self, key: ChunkKey, chunk: &Chunk) -> Option<Version> {
        if !chunk.incomplete {
            return None;
        }
        self.of.get(&key.0).and_then(|past| past.base)
    }

    /// Up to which snapshot what the chunk has may not be what they were.
    pub fn unsure(&self, key: ChunkKey, chunk: &Chunk) -> SnapshotId {
        if !chunk.loose {
            return SnapshotId::HEAD;
        }
        self.of.get(&key.0).map_or(SnapshotId::HEAD, |past| past.unsure)
    }

    /// The chunk's history goes on at another version; it was last whole at `base`.
    pub fn join(&mut self, key: ChunkKey, chunk: &mut Chunk, base: Version, snapshot: SnapshotId) {
        chunk.loose = true;
        chunk.incomplete = true;
        chunk.snapshot = chunk.snapshot.max(snapshot);
        let past = self.of.entry(key.0).or_default();
        past.base = Some(base);
        past.unsure = past.unsure.max(chunk.snapshot);
    }

    /// A change of an incomplete chunk names a snapshot: nothing is kept for it.
    pub fn skip_snapshot(&mut self, key: ChunkKey, chunk: &mut Chunk, snapshot: SnapshotId) {
        if snapshot <= chunk.snapshot {
            return;
        }
        chunk.snapshot = snapshot;
        self.of.entry(key.0).or_default().unsure = snapshot;
    }

    pub fn whole(&mut self, key: ChunkKey, chunk: &mut Chunk) {
        chunk.incomplete = false;
        if let Some(past) = self.of.get_mut(&key.0) {
            past.base = None;
            if past.unsure == SnapshotId::HEAD {
                self.of.remove(&key.0);
            }
        }
    }

    pub fn forget(&mut self, key: ChunkKey) {
        self.of.remove(&key.0);
    }

    /// What a checkpoint says of it.
    pub fn item(&self, key: ChunkKey) -> Option<PastItem> {
        let past = self.of.get(&key.0)?;
        Some(PastItem {
            base: past.base,
            unsure: past.unsure,
        })
    }

    /// Takes it over from a checkpoint.
    pub fn load(&mut self, key: ChunkKey, chunk: &mut Chunk, item: PastItem) {
        chunk.loose = true;
        chunk.incomplete = item.base.is_some();
        let past = Past {
            base: item.base,
            unsure: item.unsure,
        };
        self.of.insert(key.0, past);
    }

    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn bytes(&self) -> usize {
        self.of.capacity() * (size_of::<(u32, Past)>() + 1)
    }
}
