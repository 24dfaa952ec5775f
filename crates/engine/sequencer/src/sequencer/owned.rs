//! What a sequencer owns: the volume under its generation, in the pool as it was opened.

use crate::io::Opened;
use amita_crypt::Keychain;
use amita_types::map::{self, PoolKind};
use amita_types::{BLOCK_BYTES, Generation, NodeId};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Owned {
    pub volume: map::Volume,
    /// Of the volume's record in the metadata, as it was opened.
    pub revision: u64,
    /// This gateway.
    pub owner: NodeId,
    pub generation: Generation,
    /// The generation before ours, if its owner has handed the volume over (R4).
    pub given_back: Option<Generation>,
    pub pool: map::Pool,
    /// Those of an encrypted volume (S14).
    pub keys: Option<Arc<Keychain>>,
    pub chunk_bytes: u32,
    pub blocks_per_chunk: u16,
    /// Below so many members in sync nothing is written (R10).
    pub min_copies: usize,
    /// Stands above the low [`ID_BITS`](crate::task::ID_BITS) bits of every id.
    pub id_base: u64,
}

impl Owned {
    /// # Panics
    /// When the pool is of a kind that an [`crate::Opener`] refuses.
    pub fn new(opened: Opened, id_base: u64) -> Owned {
        let PoolKind::Replicated { min_copies, .. } = opened.pool.kind else {
            panic!("the opener refuses other kinds of pools");
        };
        Owned {
            chunk_bytes: opened.pool.chunk_bytes,
            blocks_per_chunk: (opened.pool.chunk_bytes / BLOCK_BYTES) as u16,
            min_copies: usize::from(min_copies),
            volume: opened.volume,
            revision: opened.volume_revision,
            owner: opened.owner,
            generation: opened.generation,
            given_back: opened.given_back,
            pool: opened.pool,
            keys: opened.keys,
            id_base,
        }
    }

    /// The volume's record names these parents: are they fewer than what is known? Its chunks stay where they are.
    pub fn shed(&mut self, parents: &[map::Parent]) -> bool {
        let known = &self.volume.parents;
        if parents.len() >= known.len() || !known.starts_with(parents) {
            return false;
        }
        self.volume.lineage.root = Some(self.volume.place());
        self.volume.parents.truncate(parents.len());
        true
    }

    /// The volume's record says that it has this size; it never shrinks.
    pub fn grow(&mut self, size_bytes: u64) {
        self.volume.size_bytes = size_bytes.max(self.volume.size_bytes);
    }
}
