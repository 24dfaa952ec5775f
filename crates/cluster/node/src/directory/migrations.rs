//! Volumes that move, to another pool or to other data keys: while their owner holds, and when they have moved.
//!
//! Who has opened a volume here goes on with it by what it is then: this node owns that by its record already, and opens it at once, for those who had it
//! open. That may take a while: the metadata may be away, or as many volumes are being opened as can be. Until it is open they use it all the same: no other
//! gateway is given it, it is not deleted without force, and its opening is tried again. Where it cannot be opened for another reason than one that passes
//! they are told that it is lost, and use it no more.

use super::openings::{OpeningId, Users};
use super::{Directory, Effect, State, Waiting};
use crate::view::View;
use amita_metadata as meta;
use amita_reactor::driver::Time;
use amita_sequencer::{Consent, OpenError};
use amita_types::VolumeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The pause between attempts to open what a volume has become.
const PAUSE: Duration = Duration::from_millis(500);

/// Those who use what a volume has become, which is not open here yet.
struct Carried {
    /// The volume's name.
    name: String,
    users: Users,
    /// By which numbers they know it.
    known: Vec<VolumeId>,
    /// When it is looked at again whether it is being opened.
    again: Time,
}

/// Why what a volume was is closed.
const HAS_MOVED: &str = "it has moved, to another pool or to another data key";

/// What is on its way.
#[derive(Default)]
pub(super) struct Migrations {
    /// What is open here, and begins nothing of hosts.
    holds: BTreeSet<VolumeId>,
    /// By the number that the volume has now.
    carried: BTreeMap<VolumeId, Carried>,
}

impl Migrations {
    /// Do users go on with that volume, by another name than this one?
    pub fn is_carried_by_another(&self, volume: VolumeId, name: &str) -> bool {
        self.carried.get(&volume).is_some_and(|carried| carried.name != name)
    }

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
    pub fn leave(&mut self, opening: OpeningId) {
        self.carried.retain(|_, carried| {
            carried.users.remove(&opening);
            !carried.users.is_empty()
        });
    }

    /// How many use it that have used what it was, while it is not open here.
    pub fn users(&self, volume: VolumeId) -> u64 {
        self.carried
            .get(&volume)
            .map_or(0, |carried| carried.users.len() as u64)
    }

    /// The volumes that such users have.
    pub fn used(&self) -> impl Iterator<Item = VolumeId> {
        self.carried.keys().copied()
    }

    /// Those who have used what it was: it is open, and they are counted there from now on; or it is lost, and they are told so.
    pub fn take_users(&mut self, volume: VolumeId) -> Users {
        self.carried
            .remove(&volume)
            .map_or_else(Users::new, |carried| carried.users)
    }

    /// When it is to be looked whether something is opened.
    pub fn deadline(&self) -> Option<Time> {
        self.carried.values().map(|carried| carried.again).min()
    }

    /// The volumes of which that is so now, by name.
    fn due(&mut self, now: Time) -> Vec<String> {
        let due = self.carried.values_mut().filter(|carried| carried.again <= now);
        due.map(|carried| {
            carried.again = now.plus(PAUSE);
            carried.name.clone()
        })
        .collect()
    }
}

impl Directory {
    /// Its owner begins nothing of hosts from now on, or lets go.
    pub fn hold(&mut self, volume: VolumeId, holds: bool) {
        self.migrations.hold(volume, holds);
    }

    /// These go on with what their volume has become.
    fn join(&mut self, now: Time, name: &str, volume: VolumeId, more: Users, view: &View) {
        let open = self.volumes.values_mut().find_map(|state| match state {
            State::Open { info, users, .. } if info.id == volume => Some(users),
            _ => None,
        });
        match open {
            Some(users) => users.extend(more),
            None if more.is_empty() => {}
            None => {
                let carried = self.migrations.carried.entry(volume).or_insert_with(|| Carried {
                    name: name.to_owned(),
                    users: Users::new(),
                    known: Vec::new(),
                    again: now,
                });
                carried.users.extend(more);
                carried.known = view.known_by(volume);
            }
        }
    }

    /// The volume has moved: its name stands for `new`.
    pub fn switched(&mut self, now: Time, old: VolumeId, new: VolumeId, view: &View) {
        // Of a move before this one, which has not come to its end here.
        if let Some(before) = self.migrations.carried.remove(&old) {
            self.join(now, &before.name, new, before.users, view);
        }
        let open = self.volumes.iter().find_map(|(name, state)| match state {
            State::Open { info, .. } if info.id == old => Some(name.clone()),
            _ => None,
        });
        let Some((name, state)) = open.and_then(|name| self.volumes.remove_entry(&name)) else {
            // On its way here, or from here: that comes to nothing.
            return self.close_if_open(now, old, HAS_MOVED, view);
        };
        let State::Open { generation, users, .. } = state else {
            unreachable!("it was found open");
        };
        self.upkeep.claims.lost(old, generation);
        self.migrations.hold(old, false);
        self.effects.push_back(Effect::DropShards {
            volume: old,
            generation,
            why: HAS_MOVED.to_owned(),
            handed_over: true,
        });
        self.join(now, &name, new, users, view);
        if !self.openers.is_full() {
            self.begin(now, &name, Waiting::default(), (Consent::Asked, false));
        }
        self.changed = true;
    }

    /// What volumes have become that somebody uses here is opened, where nothing of that is under way.
    pub(super) fn open_what_has_moved(&mut self, now: Time) {
        for name in self.migrations.due(now) {
            if !self.volumes.contains_key(&name) && !self.openers.is_full() {
                self.begin(now, &name, Waiting::default(), (Consent::Asked, false));
            }
        }
    }

    /// Those who have gone on with what their volume has become are told that they do not have it.
    pub(super) fn lose_carried(&mut self, volume: VolumeId, why: &str) {
        if let Some(carried) = self.migrations.carried.remove(&volume) {
            self.effects.push_back(Effect::Lost {
                volume,
                generation: None,
                why: why.to_owned(),
                known: carried.known,
            });
        }
    }

    /// The same where an opening of that name has failed, unless another one may not.
    pub(super) fn lose_carried_to(&mut self, name: &str, why: &OpenError) {
        let passes = match why {
            OpenError::Metadata { error } => {
                matches!(error, meta::Error::Unavailable { .. } | meta::Error::Unknown { .. })
            }
            OpenError::Contended | OpenError::Silent { .. } => true,
            _ => false,
        };
        if passes {
            return;
        }
        let carried = self.migrations.carried.iter();
        let lost: Vec<VolumeId> = carried
            .filter(|(_, carried)| carried.name == name)
            .map(|(volume, _)| *volume)
            .collect();
        for volume in lost {
            self.lose_carried(volume, &why.to_string());
        }
    }

    /// The same where it has another name by now: it is what was renamed, or reverted.
    pub(super) fn lose_renamed(&mut self, volume: VolumeId, name: &str) {
        let carried = self.migrations.carried.get(&volume);
        if carried.is_some_and(|carried| carried.name != name) {
            self.lose_carried(volume, "it was renamed");
        }
    }
}
