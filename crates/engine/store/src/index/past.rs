//! Chunks whose history was once another one (rule R5).
//!
//! A store that was away comes back with chunks that are older than those of the others, or that have gone another way.
//! Such a chunk *joins* the owner's history at a version that its blocks do not have: it is **incomplete** since the version
//! at which it was last whole, takes changes, and serves nothing, until the owner has replaced what differs and says that
//! it is whole.
//!
//! Two things follow from that. The versions of a chunk's entries do not say any more, for good, which of them its newest
//! snapshot has, too: the chunk is *loose*, and what is replaced is looked up in that snapshot's own leaf. And while a chunk
//! is incomplete nothing of it is kept for a snapshot, because it would not be what the volume was: the owner brings the
//! states that it lacks, and drops those of the history that was given up, before it says that the chunk is whole (S6).

use super::{Chunk, ChunkKey};
use crate::format::checkpoint::PastItem;
use amita_types::{SnapshotId, Version};
use rustc_hash::FxHashMap;

/// Chunks that are incomplete (rule R5): the version at which each was last whole.
#[derive(Debug, Default)]
pub(super) struct Pasts {
    of: FxHashMap<u32, Version>,
}

impl Pasts {
    /// Where the chunk is incomplete: the version at which it was last whole.
    pub fn base(&self, key: ChunkKey, chunk: &Chunk) -> Option<Version> {
        if !chunk.incomplete {
            return None;
        }
        self.of.get(&key.0).copied()
    }

    /// The chunk's history goes on at another version, which carries the number `snapshot`; it was last whole at `base`.
    pub fn join(&mut self, key: ChunkKey, chunk: &mut Chunk, base: Version, snapshot: SnapshotId) {
        chunk.loose = true;
        chunk.incomplete = true;
        // Also down: the number belongs to the version (S3), and a larger one to a history that was given up.
        chunk.snapshot = snapshot;
        self.of.insert(key.0, base);
    }

    pub fn whole(&mut self, key: ChunkKey, chunk: &mut Chunk) {
        chunk.incomplete = false;
        self.of.remove(&key.0);
    }

    pub fn forget(&mut self, key: ChunkKey) {
        self.of.remove(&key.0);
    }

    /// What a checkpoint says of it.
    pub fn item(&self, key: ChunkKey) -> Option<PastItem> {
        let &base = self.of.get(&key.0)?;
        Some(PastItem { base: Some(base) })
    }

    /// Takes it over from a checkpoint.
    pub fn load(&mut self, key: ChunkKey, chunk: &mut Chunk, item: PastItem) {
        chunk.loose = true;
        chunk.incomplete = item.base.is_some();
        if let Some(base) = item.base {
            self.of.insert(key.0, base);
        }
    }

    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn bytes(&self) -> usize {
        self.of.capacity() * (size_of::<(u32, Version)>() + 1)
    }
}
