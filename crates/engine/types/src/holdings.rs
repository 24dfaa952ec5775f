//! What the metadata says that stores may hold, as of one revision: from it a store learns which of its chunks nothing
//! needs any more (`docs/protocol.md`, "Giving space back").
//!
//! Three facts are in it, and none can become untrue again, so that it does no harm to act on them late: a volume whose
//! number was given out and that is not there any more is deleted for good (numbers are never given twice); so is a snapshot of
//! a volume (S9); and at this epoch a group had these members (a store that adopts an epoch refuses all older ones).

use crate::id::{Epoch, GroupId, PoolId, SnapshotId, StoreId, VolumeId};
use crate::layout::{ChunkId, ChunkIndex};
use crate::message::MemberSet;
use std::sync::Arc;

/// What stores may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The metadata's revision.
    pub revision: u64,
    /// Volumes up to this number were given out. Of one with a larger number nothing is known.
    pub given: VolumeId,
    /// The volumes that there are, in order of their number.
    pub volumes: Arc<[HeldVolume]>,
    /// The snapshots of the volumes that ever had one, in order of their number.
    pub snapshots: Vec<Arc<HeldSnapshots>>,
    /// The groups of all pools, in order.
    pub groups: Vec<Arc<HeldGroup>>,
}

/// The snapshots that a volume has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldSnapshots {
    /// The volume.
    pub volume: VolumeId,
    /// Numbers up to this one were given out. Of a larger one nothing is known.
    pub given: SnapshotId,
    /// Those that there are, ascending.
    pub live: Arc<[SnapshotId]>,
    /// Those of which only a mark is there, ascending: what was changed since is to be told, and nothing else.
    pub marked: Arc<[SnapshotId]>,
}

/// A volume that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldVolume {
    /// Its number.
    pub id: VolumeId,
    /// The number by which its chunks are hashed to groups: of a clone, that of the volume at its root (D8).
    pub place: VolumeId,
    /// Its pool, and how many groups that has; `None`: not known, so that nothing is known of where its chunks belong.
    pub pool: Option<(PoolId, u32)>,
}

/// Who holds a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldGroup {
    /// The group.
    pub id: GroupId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The stores that should hold it. One that is away for a while stays among them, and what it has is worth keeping.
    pub members: Vec<StoreId>,
    /// Those that are in sync.
    pub in_sync: MemberSet,
    /// Those that are being brought up to date.
    pub syncing: MemberSet,
}

impl HeldSnapshots {
    /// Is one gone that was there, or that was given out since; or a mark?
    fn has_lost(&self, before: &HeldSnapshots) -> bool {
        let is_marked = |mark: &SnapshotId| self.marked.binary_search(mark).is_ok();
        if !before.marked.iter().all(is_marked) {
            return true;
        }
        let there = before
            .live
            .iter()
            .chain(self.live.iter().filter(|live| **live > before.given));
        let all = before.live.len() as u64 + u64::from(self.given.0.saturating_sub(before.given.0));
        let kept = there.filter(|live| self.live.binary_search(live).is_ok()).count();
        (kept as u64) < all
    }
}

impl HeldGroup {
    /// Has the store anything to do with the group?
    #[must_use]
    pub fn names(&self, store: StoreId) -> bool {
        self.members.contains(&store) || self.in_sync.contains(&store) || self.syncing.contains(&store)
    }
}

impl Holdings {
    /// Is this volume there?
    #[must_use]
    pub fn volume(&self, volume: VolumeId) -> Option<&HeldVolume> {
        let at = self.volumes.binary_search_by_key(&volume, |held| held.id).ok()?;
        Some(&self.volumes[at])
    }

    /// The snapshots of a volume; `None`: it never had one, or nothing is known.
    #[must_use]
    pub fn snapshots(&self, volume: VolumeId) -> Option<&HeldSnapshots> {
        let at = self.snapshots.binary_search_by_key(&volume, |held| held.volume).ok()?;
        Some(&self.snapshots[at])
    }

    /// Has a volume lost a snapshot since `before`, so that chunks may hold what nobody needs?
    #[must_use]
    pub fn has_lost_snapshots(&self, before: &Holdings) -> bool {
        self.snapshots.iter().any(|now| match before.snapshots(now.volume) {
            Some(then) => !std::ptr::eq(then, now.as_ref()) && now.has_lost(then),
            None => now.has_lost(&HeldSnapshots::default()),
        })
    }

    /// A group as it was.
    #[must_use]
    pub fn group(&self, group: GroupId) -> Option<&HeldGroup> {
        let at = self.groups.binary_search_by_key(&group, |held| held.id).ok()?;
        Some(&self.groups[at])
    }

    /// The group that a chunk of a volume that there is lies in, as far as its pool is known.
    #[must_use]
    pub fn group_of(&self, volume: VolumeId, index: ChunkIndex) -> Option<GroupId> {
        let held = self.volume(volume)?;
        let (pool, groups) = held.pool?;
        let place = ChunkId {
            volume: held.place,
            index,
        };
        let index = place.group(groups);
        Some(GroupId { pool, index })
    }

    /// Where this volume is deleted: the first and the last of the numbers around it that all are of deleted volumes, at most
    /// `most` of them.
    #[must_use]
    pub fn deleted(&self, volume: VolumeId, most: u64) -> Option<(VolumeId, VolumeId)> {
        if volume > self.given || volume == VolumeId(0) {
            return None;
        }
        let next = self.volumes.binary_search_by_key(&volume, |held| held.id).err()?;
        let before = next.checked_sub(1).map_or(0, |before| self.volumes[before].id.0);
        let behind = self.volumes.get(next).map_or(self.given.0 + 1, |held| held.id.0);
        // What is above is left to the next one, so that neighbours end up in one range whichever is met first.
        let first = (before + 1).max(volume.0.saturating_sub(most / 2));
        let last = (behind - 1)
            .min(self.given.0)
            .min(first + most.max(1) - 1)
            .max(volume.0);
        Some((VolumeId(first), VolumeId(last)))
    }
}

#[cfg(test)]
mod tests;
