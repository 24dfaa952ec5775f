//! Who may do what: the generation of each volume, the epoch of each group, and the leases granted (rules R2, R4, R6).
//!
//! A takeover reaches a store as a fence with a newer generation. The store waits until the lease that it granted the
//! old owner has run out, and gives no further one while it waits (else the takeover starves: R4). Then it *closes* the
//! volume: the older generation is refused, and what was accepted under it is logged; the fence is logged behind all of
//! that, so that its answer, in log order, says that everything older is durable (R6).

use crate::format::record::Fence;
use amita_reactor::Time;
use amita_types::message::{MemberSet, Refusal, Scope};
use amita_types::{Epoch, Generation, GroupId, NodeId, StoreId, VolumeId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Names a volume that the store knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeKey(pub u32);

/// A volume, as its fences left it.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub id: VolumeId,
    /// The durable generation.
    pub generation: Generation,
    pub owner: NodeId,
    /// The generation that is being adopted, above `generation` while older writes drain.
    pub closing: Generation,
    /// The lease of the owner: no newer generation is accepted before.
    lease_until: Time,
    /// Fences of newer generations that wait: no lease is granted.
    pub newer_waiting: u32,
    /// Accepted writes that are not in the log yet.
    pub unlogged: u32,
}

/// A group, as its fences left it.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub id: GroupId,
    pub epoch: Epoch,
    pub in_sync: MemberSet,
    pub syncing: MemberSet,
    pub blocks_per_chunk: u16,
    /// Is this store in sync? Else it serves nothing (rule R5).
    serves: bool,
    /// Does the group name this store at all?
    pub holds: bool,
}

/// What a request may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    pub volume: VolumeKey,
    /// Blocks of a chunk.
    pub blocks: u32,
    /// Is this store in sync?
    pub serves: bool,
}

/// What a store knows of ownership.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// Which store this is.
    own: StoreId,
    volumes: Vec<Volume>,
    by_volume: FxHashMap<VolumeId, VolumeKey>,
    /// Volumes that are deleted, for good: the first and the last number of each range. They stay for ever, so that no
    /// owner of old can come back; as numbers are never given twice, the ranges grow together, and there are never more
    /// of them than volumes that live, and one.
    deleted: BTreeMap<VolumeId, VolumeId>,
    /// How many of `volumes` are among them.
    dead: usize,
    groups: Vec<Group>,
    by_group: FxHashMap<GroupId, u32>,
    /// After a start no newer generation is accepted before this: leases of before the start may still hold (R4).
    not_before: Time,
}

/// What is to be done with a fence now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is what the store has: answer.
    Equal,
    /// It is too late.
    Refuse(Refusal),
    /// Leases run until then.
    Wait(Time),
    /// Older writes are on their way to the log.
    Drain,
    Log,
}

impl Fences {
    /// Which store this is.
    pub fn set_own(&mut self, own: StoreId) {
        self.own = own;
    }

    /// No newer generation of a known volume is accepted before.
    pub fn not_before(&mut self, time: Time) {
        self.not_before = time;
    }

    pub fn volume(&self, key: VolumeKey) -> &Volume {
        &self.volumes[key.0 as usize]
    }

    /// A change of the volume's owner is in the log, or dropped: a fence need not wait for it any more (rule R6).
    pub fn logged(&mut self, volume: Option<VolumeKey>) {
        if let Some(volume) = volume {
            let volume = self.volume_mut(volume);
            assert!(volume.unlogged > 0, "each accepted change is counted once");
            volume.unlogged -= 1;
        }
    }

    pub fn volume_mut(&mut self, key: VolumeKey) -> &mut Volume {
        &mut self.volumes[key.0 as usize]
    }

    pub fn find(&self, volume: VolumeId) -> Option<VolumeKey> {
        self.by_volume.get(&volume).copied()
    }

    /// Are both known?
    pub fn knows(&self, volume: VolumeId, group: GroupId) -> bool {
        self.by_volume.contains_key(&volume) && self.by_group.contains_key(&group)
    }

    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub fn group(&self, group: GroupId) -> Option<&Group> {
        self.by_group.get(&group).map(|&at| &self.groups[at as usize])
    }

    /// May this request be looked at?
    pub fn check(&self, scope: &Scope) -> Result<Right, Refusal> {
        let Some(&group) = self.by_group.get(&scope.group) else {
            return Err(Refusal::NotFenced);
        };
        let group = &self.groups[group as usize];
        if scope.epoch < group.epoch {
            return Err(Refusal::StaleEpoch { epoch: group.epoch });
        }
        let Some(key) = self.find(scope.volume) else {
            return Err(self.unknown(scope.volume));
        };
        if !group.holds {
            // Nobody who knows this epoch asks here: the chunks may be going.
            return Err(Refusal::Incomplete);
        }
        let volume = self.volume(key);
        let newest = volume.generation.max(volume.closing);
        if scope.generation < newest {
            return Err(Refusal::Fenced { generation: newest });
        }
        if scope.epoch > group.epoch || scope.generation > volume.generation {
            return Err(Refusal::NotFenced);
        }
        Ok(Right {
            volume: key,
            blocks: u32::from(group.blocks_per_chunk),
            serves: group.serves,
        })
    }

    /// The lease that goes with an answer, in milliseconds; from now on it holds (R4).
    pub fn lease(&mut self, key: VolumeKey, generation: Generation, now: Time, lease: Duration) -> u16 {
        let volume = self.volume_mut(key);
        if volume.generation != generation || volume.closing > generation || volume.newer_waiting > 0 {
            return 0;
        }
        volume.lease_until = volume.lease_until.max(now.plus(lease));
        u16::try_from(lease.as_millis()).unwrap_or(u16::MAX)
    }

    /// What is to be done with this fence? `given_back`: the generation whose owner has ended and holds to no lease any
    /// more; `leases` is false where rule R4 is switched off.
    pub fn judge(&mut self, fence: &Fence, given_back: Option<Generation>, now: Time, leases: bool) -> Verdict {
        let group_epoch = self
            .by_group
            .get(&fence.group)
            .map(|&group| self.groups[group as usize].epoch);
        if let Some(epoch) = group_epoch
            && fence.epoch < epoch
        {
            return Verdict::Refuse(Refusal::StaleEpoch { epoch });
        }
        let Some(key) = self.find(fence.volume) else {
            // No lease was ever granted on a volume that is not known.
            return match self.unknown(fence.volume) {
                Refusal::NotFenced => Verdict::Log,
                refusal => Verdict::Refuse(refusal),
            };
        };
        let not_before = self.not_before;
        let volume = self.volume_mut(key);
        if volume.closing == Generation::DELETED {
            let generation = Generation::DELETED;
            return Verdict::Refuse(Refusal::Fenced { generation });
        }
        if fence.generation < volume.generation {
            let generation = volume.generation;
            return Verdict::Refuse(Refusal::Fenced { generation });
        }
        if fence.generation == volume.generation {
            return if group_epoch == Some(fence.epoch) {
                Verdict::Equal
            } else {
                Verdict::Log
            };
        }
        if volume.closing < fence.generation {
            let until = volume.lease_until.max(not_before);
            // Whatever lease was granted, before the last start too, was granted to the generation that is known: an
            // older one's leases had run out before it was adopted. If another one's were given back, this one's owner
            // may still read.
            let is_given_back = given_back == Some(volume.generation);
            if leases && !is_given_back && now < until {
                return Verdict::Wait(until);
            }
            volume.closing = fence.generation;
        }
        if volume.unlogged > 0 {
            Verdict::Drain
        } else {
            Verdict::Log
        }
    }

    /// A fence is durable (or read from the log).
    pub fn adopt(&mut self, fence: &Fence) {
        match fence.deleted() {
            Some(range) => self.adopt_deleted(range),
            None => self.adopt_volume(fence.volume, fence.generation, fence.owner),
        }
        self.adopt_group(fence);
    }

    /// What is said of a volume that has no fence: it was never heard of, or it is deleted.
    fn unknown(&self, volume: VolumeId) -> Refusal {
        match self.is_deleted(volume) {
            true => Refusal::Fenced {
                generation: Generation::DELETED,
            },
            false => Refusal::NotFenced,
        }
    }

    /// Is this volume durably known to be deleted?
    pub fn is_deleted(&self, volume: VolumeId) -> bool {
        let below = self.deleted.range(..=volume).next_back();
        below.is_some_and(|(_, last)| volume <= *last)
    }

    /// The volumes that are, as ranges.
    pub fn deleted(&self) -> &BTreeMap<VolumeId, VolumeId> {
        &self.deleted
    }

    /// The first range of them from this number on.
    pub fn deleted_from(&self, volume: VolumeId) -> Option<(VolumeId, VolumeId)> {
        let around = self.deleted.range(..=volume).next_back();
        let around = around.filter(|(_, last)| **last >= volume);
        let next = around.or_else(|| self.deleted.range(volume..).next());
        next.map(|(&first, &last)| (first.max(volume), last))
    }

    /// A volume turns out to be deleted: from now on nothing is accepted for it.
    pub fn close_deleted(&mut self, key: VolumeKey) {
        self.volume_mut(key).closing = Generation::DELETED;
    }

    /// These are durably deleted.
    pub fn adopt_deleted(&mut self, range: RangeInclusive<VolumeId>) {
        let (mut first, mut last) = range.into_inner();
        // Whichever is less: the numbers, or what is known.
        let few = last.0 - first.0 < self.volumes.len() as u64;
        let known: Vec<VolumeKey> = match few {
            true => (first.0..=last.0).filter_map(|id| self.find(VolumeId(id))).collect(),
            false => {
                let within = |volume: &Volume| first <= volume.id && volume.id <= last;
                let keys = (0..).zip(&self.volumes).filter(|(_, volume)| within(volume));
                keys.map(|(key, _)| VolumeKey(key)).collect()
            }
        };
        for key in known {
            let volume = self.volume_mut(key);
            let new = volume.generation != Generation::DELETED;
            (volume.generation, volume.closing) = (Generation::DELETED, Generation::DELETED);
            self.dead += usize::from(new);
        }
        // It grows together with those that it touches.
        let touched = self.deleted.range(..=VolumeId(last.0.saturating_add(1)));
        let touched: Vec<(VolumeId, VolumeId)> = touched
            .rev()
            .take_while(|(_, end)| end.0.saturating_add(1) >= first.0)
            .map(|(&start, &end)| (start, end))
            .collect();
        for (start, end) in touched {
            self.deleted.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.deleted.insert(first, last);
    }

    /// How many lines a checkpoint needs for volumes.
    pub fn volume_lines(&self) -> usize {
        self.volumes.len() - self.dead + self.deleted.len()
    }

    pub fn adopt_volume(&mut self, id: VolumeId, generation: Generation, owner: NodeId) {
        match self.find(id) {
            // An older page of the log is replayed onto a newer checkpoint.
            _ if self.is_deleted(id) => {}
            Some(key) => {
                let volume = self.volume_mut(key);
                if generation >= volume.generation {
                    volume.generation = generation;
                    volume.owner = owner;
                }
            }
            None => {
                self.by_volume.insert(id, VolumeKey(self.volumes.len() as u32));
                self.volumes.push(Volume {
                    id,
                    generation,
                    owner,
                    closing: Generation(0),
                    lease_until: Time(0),
                    newer_waiting: 0,
                    unlogged: 0,
                });
            }
        }
    }

    pub fn adopt_group(&mut self, fence: &Fence) {
        let group = Group {
            id: fence.group,
            epoch: fence.epoch,
            in_sync: fence.in_sync.clone(),
            syncing: fence.syncing.clone(),
            serves: fence.in_sync.contains(&self.own),
            holds: fence.in_sync.contains(&self.own) || fence.syncing.contains(&self.own),
            blocks_per_chunk: fence.blocks_per_chunk,
        };
        match self.by_group.get(&fence.group) {
            Some(&at) if self.groups[at as usize].epoch <= fence.epoch => self.groups[at as usize] = group,
            Some(_) => {}
            None => {
                self.by_group.insert(fence.group, self.groups.len() as u32);
                self.groups.push(group);
            }
        }
    }
}

#[cfg(test)]
mod tests;
