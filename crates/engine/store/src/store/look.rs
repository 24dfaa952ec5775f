//! What others ask a store, and what the offline tools look at ([`crate::offline`]): nothing here changes anything.

#[cfg(any(test, feature = "planted"))]
use super::check;
use super::{Store, Times};
use crate::allocator::Allocator;
use crate::fences::Fences;
use crate::format::Slot;
use crate::format::superblock::Superblock;
use crate::index::Index;
use crate::memo;
use crate::offline::{self, GroupLook, VolumeLook};
use crate::slot_map::SlotMap;
use amita_types::{ChunkId, SnapshotId, VolumeId};

impl Store {
    /// The chunks that the store holds, in no order: for checkers.
    pub fn held_chunks(&self) -> impl Iterator<Item = ChunkId> + '_ {
        let there = self.index.keys().map(|key| self.index.chunk(key));
        there.filter(|chunk| chunk.is_there()).map(|chunk| chunk.id)
    }

    /// What the chunks are kept as for snapshots, in no order: the chunk, and above which snapshot and up to which one.
    /// For checkers.
    pub fn held_states(&self) -> impl Iterator<Item = (ChunkId, SnapshotId, SnapshotId)> + '_ {
        let there = self.index.keys().map(|key| self.index.chunk(key));
        there.flat_map(|chunk| {
            let kept = chunk.kept_for();
            kept.map(|(above, to)| (chunk.id, above, to))
        })
    }

    /// The marks that it holds of chunks, and the snapshots that each stands for: those above the first, up to the last.
    pub fn held_marks(&self) -> impl Iterator<Item = (ChunkId, SnapshotId, SnapshotId)> + '_ {
        self.index.keys().flat_map(|key| {
            let chunk = self.index.chunk(key).id;
            self.index.marks(key).map(move |mark| (chunk, mark.above, mark.to))
        })
    }

    pub(crate) fn look_index(&self) -> &Index {
        &self.index
    }

    /// The map of slots.
    pub(crate) fn look_slot_map(&self) -> &SlotMap {
        &self.space.map
    }

    /// What may be written.
    pub(crate) fn look_allocator(&self) -> &Allocator {
        &self.space.allocator
    }

    /// Slots that the checkpoint on the disk names, and nothing else.
    pub(crate) fn look_retired(&self) -> impl Iterator<Item = Slot> + '_ {
        self.checkpoint.retired_slots()
    }

    /// What it knows of ownership.
    pub(crate) fn look_fences(&self) -> &Fences {
        &self.fences
    }

    /// The superblock that a mount has written.
    pub(crate) fn look_superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The number of the first page of the log that is not there yet, and the checksum of the one before it.
    pub(crate) fn look_log_end(&self) -> (u64, u32) {
        (self.log.end.page, self.log.end.sum)
    }

    /// Requests that it has taken and not answered.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.waiting_requests()
    }

    /// The groups that the store knows, without the memo's own.
    #[must_use]
    pub fn known_groups(&self) -> Vec<GroupLook> {
        let mut groups = offline::groups_of(self);
        groups.retain(|look| !memo::is_memo(look.group));
        groups
    }

    /// The volumes whose owners the store knows, without the memo's own.
    #[must_use]
    pub fn known_volumes(&self) -> Vec<VolumeLook> {
        let mut volumes = offline::volumes_of(self);
        volumes.retain(|look| look.volume != memo::VOLUME);
        volumes
    }

    /// The volumes that the store knows to be deleted: the first and the last number of each range, ascending.
    #[must_use]
    pub fn known_deleted(&self) -> Vec<(VolumeId, VolumeId)> {
        offline::deleted_of(self)
    }

    /// The revision of the newest holdings that the store has nothing beyond; `None`: it is at work, or was told nothing yet.
    #[must_use]
    pub fn swept(&self) -> Option<u64> {
        self.sweep.done()
    }

    /// How many volumes, groups and chunks it has looked at since the store was opened.
    #[must_use]
    pub fn sweep_looks(&self) -> u64 {
        self.sweep.looks()
    }

    /// How long answers take.
    #[must_use]
    pub fn times(&self) -> &Times {
        &self.env.times
    }

    /// Sums and counts. Panics where one is wrong. A store that does not serve has nothing to be checked.
    #[cfg(any(test, feature = "planted"))]
    pub fn check_sums(&self) {
        check::sums(self);
    }

    /// Walks through everything and panics where something does not hold that must hold between events.
    #[cfg(any(test, feature = "planted"))]
    pub fn check(&self) {
        check::all(self);
    }
}
