//! The shards of a core, by number and by volume.

use crate::reservations::Adopted;
use crate::usage::Usage;
use amita_reactor::driver::Time;
use amita_sequencer::Sequencer;
use amita_types::{Generation, MirrorId, VolumeId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The sequencer of a volume on this core.
pub(super) struct Shard {
    pub sequencer: Sequencer,
    pub volume: VolumeId,
    pub generation: Generation,
    pub pool: amita_types::PoolId,
    pub chunk_bytes: u32,
    pub dirty: bool,
    /// I/O that has not ended.
    pub under_way: usize,
    /// It is to be handed over, by this attempt: nothing is taken in.
    pub leaving: Option<u64>,
    /// Of it: I/O of the volume itself, and not of its snapshots.
    pub heads: usize,
    /// Nothing of hosts is begun, but reads of snapshots (M2).
    pub on_hold: bool,
    /// That nothing is under way any more was told.
    pub said_drained: bool,
    /// The directory has been told that nothing is under way any more.
    pub said_left: bool,
    /// The mirror for which it is closed to hosts.
    pub closed: Option<MirrorId>,
    /// It was lost, for it was closed to hosts: what of theirs was under way ends so.
    pub ends_closed: bool,
    /// What I/O is held against.
    pub reserved: Option<Adopted>,
    /// The earliest time at which it stands in the list of those that are due.
    pub due: Time,
    pub usage: Usage,
}

/// Not due at any time.
pub(super) const NEVER: Time = Time(u64::MAX);

impl Shard {
    /// Is it to be handed over, and has I/O under way, or has not said yet that it has none?
    pub fn is_still_leaving(&self) -> bool {
        self.leaving.is_some() && !self.said_left
    }

    /// Is it on hold, and was not told that nothing is under way?
    pub fn is_still_draining(&self) -> bool {
        self.on_hold && !self.said_drained
    }

    /// Puts it into the list of those that are due, unless it stands there early enough.
    pub fn note_due(&mut self, number: u16, list: &mut BinaryHeap<Reverse<(Time, u16)>>) {
        if let Some(at) = self.sequencer.deadline()
            && at < self.due
        {
            self.due = at;
            list.push(Reverse((at, number)));
        }
    }
}

/// The shards by their numbers, and the numbers by volume.
#[derive(Default)]
pub(super) struct Table {
    pub shards: FxHashMap<u16, Shard>,
    by_volume: FxHashMap<VolumeId, u16>,
    next: u16,
}

impl Table {
    pub fn number(&self, volume: VolumeId) -> Option<u16> {
        self.by_volume.get(&volume).copied()
    }

    pub fn of(&self, volume: VolumeId) -> Option<&Shard> {
        self.shards.get(self.by_volume.get(&volume)?)
    }

    pub fn of_mut(&mut self, volume: VolumeId) -> Option<&mut Shard> {
        self.shards.get_mut(self.by_volume.get(&volume)?)
    }

    /// A number that no shard has.
    pub fn free_number(&mut self) -> u16 {
        while self.next >= crate::core::VIEWS || self.shards.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    pub fn insert(&mut self, number: u16, shard: Shard) {
        self.by_volume.insert(shard.volume, number);
        self.shards.insert(number, shard);
    }

    pub fn remove(&mut self, volume: VolumeId) -> Option<Shard> {
        let number = self.by_volume.remove(&volume)?;
        self.shards.remove(&number)
    }
}
