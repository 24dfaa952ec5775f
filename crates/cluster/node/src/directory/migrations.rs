//! Volumes that move, to another pool or to other data keys: while their owner holds, and when they have moved.
//!
//! Who has opened a volume here goes on with it by what it is then: this node owns that by its record already, and opens it at
//! once, for as many users as there were.

use super::{Directory, Effect, State, Waiting};
use crate::view::View;
use amita_reactor::driver::Time;
use amita_sequencer::Consent;
use amita_types::VolumeId;
use std::collections::{BTreeMap, BTreeSet};

/// Why what a volume was is closed.
const HAS_MOVED: &str = "it has moved, to another pool or to another data key";

/// What is on its way.
#[derive(Default)]
pub(super) struct Migrations {
    /// What is open here, and begins nothing of hosts.
    holds: BTreeSet<VolumeId>,
    /// How many use what a volume has become, of those that used what it was.
    users: BTreeMap<VolumeId, u64>,
}

impl Migrations {
    pub fn hold(&mut self, volume: VolumeId, holds: bool) {
        match holds {
            true => _ = self.holds.insert(volume),
            false => _ = self.holds.remove(&volume),
        }
    }

    pub fn holds(&self, volume: VolumeId) -> bool {
        self.holds.contains(&volume)
    }

    /// One of those uses it no more.
    pub fn leave(&mut self, volume: VolumeId) {
        if let Some(users) = self.users.get_mut(&volume) {
            *users -= 1;
            if *users == 0 {
                self.users.remove(&volume);
            }
        }
    }

    /// Has somebody used what it was, and nobody opened what it is here since?
    pub fn has_users(&self, volume: VolumeId) -> bool {
        self.users.contains_key(&volume)
    }

    /// It is gone.
    pub fn forget(&mut self, volume: VolumeId) {
        self.users.remove(&volume);
        self.holds.remove(&volume);
    }

    /// How many have used what it was; they are counted by who asks from now on.
    pub fn users_of(&mut self, volume: VolumeId) -> u64 {
        self.users.remove(&volume).unwrap_or_default()
    }
}

impl Directory {
    /// Its owner begins nothing of hosts from now on, or lets go.
    pub fn hold(&mut self, volume: VolumeId, holds: bool) {
        self.migrations.hold(volume, holds);
    }

    /// So many go on with what their volume has become.
    fn join(&mut self, volume: VolumeId, more: u64) {
        let open = self.volumes.values_mut().find_map(|state| match state {
            State::Open { info, users, .. } if info.id == volume => Some(users),
            _ => None,
        });
        match open {
            Some(users) => *users += more,
            None if more > 0 => *self.migrations.users.entry(volume).or_default() += more,
            None => {}
        }
    }

    /// The volume has moved: its name stands for `new`.
    pub fn switched(&mut self, now: Time, old: VolumeId, new: VolumeId, view: &View) {
        let open = self.volumes.iter().find_map(|(name, state)| match state {
            State::Open {
                info,
                generation,
                users,
                ..
            } if info.id == old => Some((name.clone(), *generation, *users)),
            _ => None,
        });
        // Of a move before this one, which has not come to its end here.
        let waiting = self.migrations.users_of(old);
        let Some((name, generation, users)) = open else {
            self.join(new, waiting);
            // On its way here, or from here: that comes to nothing.
            return self.close_if_open(now, old, HAS_MOVED, view);
        };
        self.volumes.remove(&name);
        self.upkeep.claims.lost(old, generation);
        self.migrations.hold(old, false);
        self.effects.push_back(Effect::DropShards {
            volume: old,
            generation,
            why: HAS_MOVED.to_owned(),
            handed_over: true,
        });
        self.join(new, users + waiting);
        if !self.openers.is_full() {
            self.begin(now, &name, Waiting::default(), (Consent::Asked, false));
        }
        self.changed = true;
    }
}
