//! What others ask of a gate: what waits and what has passed.

use super::joint::JointCounts;
use super::lanes::Counts;
use super::{Gate, Held, MOST_TOLD_OF, Whose};
use crate::limits::Asks;
use amita_frontend::FrontId;
use amita_qos::Limits;
use amita_qos::lease::LeaseEpoch;
use amita_reactor::driver::Time;
use amita_types::VolumeId;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::time::Duration;

/// Whose hosts have used it within this time is told of.
const RECENTLY: Duration = Duration::from_secs(600);

impl Gate {
    /// Does anything wait for these limits?
    #[must_use]
    pub fn waits(&self, whose: impl Into<Whose>) -> bool {
        match whose.into() {
            Whose::Volume(volume) => self.volumes.get(&volume).is_some_and(|held| !held.lanes.is_empty()),
            Whose::Joint(number) => self.joints.get(&number).is_some_and(|joint| !joint.line.is_empty()),
        }
    }

    /// Whose I/O waits.
    pub fn fronts(&self) -> impl Iterator<Item = FrontId> {
        let waiting = self.volumes.values().flat_map(|held| held.lanes.each());
        waiting.map(|passage| passage.origin.front)
    }

    /// What is to be asked of who lends these.
    pub fn next_asks(&mut self) -> Option<(Whose, Asks)> {
        self.asks.pop_front()
    }

    /// The name of a tenant's or pool's limits.
    #[must_use]
    pub fn joint_name(&self, number: u32) -> Option<&Arc<str>> {
        self.joints.get(&number).map(|joint| &joint.name)
    }

    /// Volumes that wait for those, in the order in which they are in line.
    pub fn in_line(&self, number: u32) -> impl Iterator<Item = VolumeId> {
        let line = self.joints.get(&number).into_iter().flat_map(|joint| &joint.line);
        line.map(|(_, volume)| *volume)
    }

    /// What is known here of a volume's own limits, and the owner by whose tokens its I/O passes.
    #[must_use]
    pub fn limits(&self, volume: VolumeId) -> Option<(&Limits, LeaseEpoch)> {
        let limits = self.known.get(&volume)?.limits.as_deref()?;
        let epoch = self.volumes.get(&volume).map(|held| held.bank.epoch());
        Some((limits, epoch.unwrap_or_default()))
    }

    /// The names of the limits of tenants and pools that a volume is under.
    pub fn joints_of(&self, volume: VolumeId) -> impl Iterator<Item = &str> {
        let joints = self.known.get(&volume).into_iter().flat_map(|known| &known.joints);
        joints.filter_map(|number| self.joints.get(number).map(|joint| &*joint.name))
    }

    /// Are long leases asked for?
    #[must_use]
    pub fn is_long(&self, volume: VolumeId) -> bool {
        self.volumes.get(&volume).is_some_and(|held| held.bank.is_long())
    }

    /// The limited volumes, in order, and what became of their I/O here.
    pub fn counts(&self) -> impl Iterator<Item = (VolumeId, Counts)> {
        let counts = |id: &VolumeId| {
            self.volumes
                .get(id)
                .map_or_else(Counts::default, |held| held.lanes.counts())
        };
        let mut all: Vec<(VolumeId, Counts)> = self.known.keys().map(|id| (*id, counts(id))).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter()
    }

    /// The limited tenants and pools, in order of their names, and what has passed here.
    pub fn joint_counts(&self) -> impl Iterator<Item = (&Arc<str>, &Limits, JointCounts)> {
        let joints = self.numbers_of_joints.values();
        let joints = joints.filter_map(|number| self.joints.get(number));
        joints.map(|joint| (&joint.name, &*joint.limits, joint.counts()))
    }

    /// Volumes whose own limits are known here, whether or not hosts of this core use them.
    #[must_use]
    pub fn limited(&self) -> usize {
        self.known.values().filter(|known| known.limits.is_some()).count()
    }

    /// Those of them that are to be told of, [`MOST_TOLD_OF`] at most: what hosts of this core wait for, or have used lately, the last ones first, and
    /// then what is open here.
    pub fn told_of(&self, now: Time, open: impl Iterator<Item = VolumeId>) -> Vec<VolumeId> {
        let is_recent = |held: &Held| now.since(held.used) < RECENTLY || !held.lanes.is_empty();
        let used = self.volumes.iter().filter(|(_, held)| is_recent(held));
        let mut used: Vec<(bool, Time, VolumeId)> = used
            .map(|(id, held)| (!held.lanes.is_empty(), held.used, *id))
            .collect();
        used.sort_unstable_by(|one, other| other.cmp(one));
        let mut told: Vec<VolumeId> = used.into_iter().map(|(_, _, id)| id).collect();
        let is_told: FxHashSet<VolumeId> = told.iter().copied().collect();
        let is_due = |id: &VolumeId| self.known.contains_key(id) && !is_told.contains(id);
        let room = MOST_TOLD_OF.saturating_sub(told.len());
        told.extend(open.filter(is_due).take(room));
        told.truncate(MOST_TOLD_OF);
        told
    }

    /// What became of a volume's I/O here; none: it is not limited.
    #[must_use]
    pub fn counts_of(&self, volume: VolumeId) -> Option<Counts> {
        let held = self.known.contains_key(&volume).then(|| self.volumes.get(&volume))?;
        Some(held.map_or_else(Counts::default, |held| held.lanes.counts()))
    }
}
