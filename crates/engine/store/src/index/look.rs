//! What the offline tools look at ([`crate::offline`]): nothing here changes anything.

use super::leaves::{HEAD, NO_MEM};
use super::{ChunkKey, Index, Location};
use crate::format::Slot;
use amita_types::{SnapshotId, Version};

/// A state of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct StateLook {
    pub above: SnapshotId,
    pub to: SnapshotId,
    pub version: Version,
    pub serial: u32,
    /// The parts that are its own.
    pub parts: Vec<u8>,
}

impl Index {
    /// The states of a chunk, oldest first.
    pub fn look_states(&self, key: ChunkKey) -> Vec<StateLook> {
        let states = self.chunk(key).states().iter();
        states
            .map(|state| StateLook {
                above: state.above,
                to: state.to,
                version: state.version,
                serial: state.serial,
                parts: state.parts.iter().map(|(part, _)| *part).collect(),
            })
            .collect()
    }

    /// The page of a leaf, and the checksum that it must have.
    pub fn look_page(&self, at: Location) -> Option<(Slot, u32)> {
        let leaf = self.leaf_ref(at);
        (leaf.slot != Slot::NONE).then_some((leaf.slot, leaf.sum))
    }

    /// Was no block of this part ever written?
    pub fn look_is_never(&self, at: Location) -> bool {
        self.leaf_ref(at).is_never()
    }

    /// Is what is in memory not what the page says?
    pub fn look_is_changed(&self, at: Location) -> bool {
        let mem = self.leaf_ref(at).mem;
        mem != NO_MEM && self.mems[mem].is_dirty()
    }

    /// States of all chunks.
    pub fn look_state_count(&self) -> u64 {
        self.states
    }
}

impl Location {
    /// Is it a leaf of the chunk itself?
    pub fn is_head(self) -> bool {
        self.serial == HEAD
    }
}
