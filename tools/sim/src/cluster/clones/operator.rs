//! What the operator does with clones: they are flattened, made smaller, cloned again and deleted.

use super::revert::Known;
use super::{LOOK, PATIENCE};
use crate::cluster::Cluster;
use crate::cluster::deletion::seconds;
use crate::cluster::operator::Desk;
use crate::cluster::records::json;
use crate::cluster::shrink::Whose;
use crate::faults::Member;
use amita_control::admin::{self, AdminError, Deletion, TakingState};
use amita_metadata::Call;
use amita_reactor::Time;
use amita_types::GroupId;
use amita_types::map;
use std::collections::BTreeMap;
use std::time::Duration;

impl Cluster {
    /// The operator has a clone flattened.
    pub(super) fn flatten_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let ending = self.clones.ending;
        let guest = &mut self.clones.guests[index];
        if guest.flatten_at.is_none_or(|at| now < at) || guest.deletion.is_some() || guest.flattening {
            return Ok(());
        }
        if self.clones.setup.late && !ending {
            if !self.is_called_whole(index) {
                self.clones.guests[index].flatten_at = Some(now.plus(LOOK));
                return Ok(());
            }
            self.coverage.hit("clone.flatten_late");
        }
        let guest = &mut self.clones.guests[index];
        guest.flatten_at = None;
        if ending {
            return Ok(());
        }
        let desk = Desk::new(&mut self.metadata, now);
        let asked = admin::flatten_volume(&desk, &guest.name, Duration::from_nanos(now.0));
        let asked = asked.map_err(|why| format!("{} cannot be flattened: {why}", guest.name))?;
        guest.flattening = true;
        self.clones.flat_looks = now.plus(LOOK * 4);
        if self.setup.plants.flatten_unmade {
            let made = map::Flatten {
                done: asked.chunks,
                ..asked
            };
            let key = map::flatten_key(made.volume);
            self.metadata.operate(now, &Call::put(key, json(&made)));
        } else if index.is_multiple_of(2) {
            let paused = map::Paused {
                by: "operator".to_owned(),
                at: now.0 / 1_000_000_000,
            };
            let desk = Desk::new(&mut self.metadata, now);
            let is_paused = admin::pause_flatten(&desk, asked.volume, Some(&paused));
            if is_paused.map_err(|why| format!("a flattening cannot be paused: {why}"))? {
                self.clones.guests[index].paused = Some(asked.done);
                self.coverage.hit("clone.flatten_paused");
            }
        }
        let name = self.clones.guests[index].name.clone();
        self.tell(|| format!("{name} is being flattened"));
        self.coverage.hit("clone.flatten");
        Ok(())
    }

    /// The operator makes a clone smaller.
    pub(super) fn shrink_clone(&mut self, now: Time, index: usize) {
        let guest = &mut self.clones.guests[index];
        if guest.shrink_at.is_none_or(|at| now < at) || guest.deletion.is_some() || guest.rests {
            return;
        }
        guest.shrink_at = None;
        let (name, blocks) = (guest.name.clone(), guest.blocks);
        self.begin_shrink(now, Whose::Guest(index), name, blocks);
    }

    /// Is a member that comes back called whole for a clone by its owner, and not in sync yet?
    pub(super) fn is_called_whole(&self, index: usize) -> bool {
        let guest = &self.clones.guests[index];
        let pool = self.clones.roots[guest.root].pool;
        let found = self.metadata.state().get(&map::whole_key(pool, guest.id));
        let whole = found.and_then(|found| found.json::<map::Whole>().ok());
        let mut members = whole.into_iter().flat_map(|whole| whole.members);
        members.any(|member| {
            let id = GroupId {
                pool,
                index: member.group,
            };
            let syncs = |own: &map::Syncing| (own.store, own.since) == (member.store, member.since);
            self.group(id).is_ok_and(|group| group.syncing.iter().any(syncs))
        })
    }

    /// Those that were paused go on. Nobody has gone on with them meanwhile.
    fn resume_flattens(&mut self, now: Time) -> Result<(), String> {
        for index in 0..self.clones.guests.len() {
            let Some(done) = self.clones.guests[index].paused.take() else {
                continue;
            };
            let volume = self.clones.guests[index].id;
            let found = self.metadata.state().get(&map::flatten_key(volume));
            let record = found.and_then(|found| found.json::<map::Flatten>().ok());
            if let Some(record) = record.filter(|record| record.done != done) {
                return Err(format!("a flattening that was paused at {done} went on: {record:?}"));
            }
            let desk = Desk::new(&mut self.metadata, now);
            let goes_on = admin::pause_flatten(&desk, volume, None);
            if goes_on.map_err(|why| format!("a flattening cannot be resumed: {why}"))? {
                self.coverage.hit("clone.flatten_resumed");
            }
        }
        Ok(())
    }

    /// Clones of which all is made let go of their parents, and what they were made from may go.
    pub(super) fn end_flattens(&mut self, now: Time) -> Result<(), String> {
        let is_due = self.clones.guests.iter().any(|guest| guest.flattening);
        if !is_due || now < self.clones.flat_looks {
            return Ok(());
        }
        self.clones.flat_looks = now.plus(LOOK * 4);
        self.resume_flattens(now)?;
        let desk = Desk::new(&mut self.metadata, now);
        let ended = admin::end_flattens(&desk).map_err(|why| format!("no flattening ends: {why}"))?;
        if let Some((volume, why)) = ended.failed.first() {
            return Err(format!("the flattening of volume {volume} cannot end: {why}"));
        }
        for index in 0..self.clones.guests.len() {
            let guest = &self.clones.guests[index];
            let state = self.metadata.state();
            if !guest.flattening || state.get(&map::flatten_key(guest.id)).is_some() {
                continue;
            }
            let record = state.get(&map::volume_key(&guest.name));
            let record: Option<map::Volume> = record.and_then(|found| found.json().ok());
            let (id, name, from) = (guest.id, guest.name.clone(), guest.from.clone());
            self.clones.guests[index].flattening = false;
            let Some(record) = record else { continue };
            if !record.parents.is_empty() {
                return Err(format!("{name} is flat, and its record names {:?}", record.parents));
            }
            self.coverage.hit("clone.flattened");
            self.tell(|| format!("{name} is flat"));
            if self.clones.setup.late {
                // He begins, and another owner opens its chunks.
                let to = self.clones.flats.below(self.setup.gateways() as u64) as Member;
                self.plan_move(now, (id, name.clone()), to);
            }
            let desk = Desk::new(&mut self.metadata, now);
            match admin::delete_snapshot(&desk, &from.0, &from.1) {
                Ok(gone) => {
                    let volume = self.number_of(gone.volume);
                    self.snapshots.forget(volume, gone.number);
                    self.coverage.hit(match gone.hidden {
                        true => "clone.parent_hidden",
                        false => "clone.parent_gone",
                    });
                    self.tell(|| format!("{}@{} is deleted", from.0, from.1));
                }
                // It, or its volume, was deleted before.
                Err(AdminError::NoSuch { .. }) => {}
                Err(why) => return Err(format!("{}@{} cannot be deleted: {why}", from.0, from.1)),
            }
        }
        Ok(())
    }

    /// What is hidden goes when nothing was cloned from it any more.
    pub(super) fn purge_hidden(&mut self, now: Time) -> Result<(), String> {
        if self.clones.hidden == 0 || now < self.clones.looks {
            return Ok(());
        }
        self.clones.looks = now.plus(LOOK * 20);
        let desk = Desk::new(&mut self.metadata, now);
        let purged = admin::purge_what_is_due(&desk, 8, Duration::from_secs(seconds(now)));
        let purged = purged.map_err(|why| format!("nothing hidden is purged: {why}"))?;
        if let Some((what, why)) = purged.failed.first() {
            return Err(format!("{what} cannot be purged: {why}"));
        }
        let left = self.count_hidden();
        let before = std::mem::replace(&mut self.clones.hidden, left);
        self.coverage
            .add("clone.hidden_gone", u64::from(before.saturating_sub(left)));
        Ok(())
    }

    /// A guest has stopped: a snapshot of his volume is taken, and cloned.
    pub(super) fn clone_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let most = self.clones.setup.most;
        let (made, ending) = (self.clones.made, self.clones.ending);
        let guest = &mut self.clones.guests[index];
        let name = guest.name.clone();
        if let Some(wish) = guest.wish.clone() {
            if guest.clone_at.is_some_and(|at| now < at) {
                return Ok(());
            }
            guest.clone_at = Some(now.plus(LOOK));
            let desk = Desk::new(&mut self.metadata, now);
            let state = admin::snapshot_state(&desk, &wish).map_err(|why| why.to_string())?;
            let taken = match &state {
                TakingState::Waiting if !ending => return Ok(()),
                TakingState::Waiting => {
                    admin::drop_snapshot_wish(&desk, &wish).map_err(|why| why.to_string())?;
                    return Ok(());
                }
                TakingState::Taken(snapshot) => Some(snapshot),
                _ => None,
            };
            let guest = &mut self.clones.guests[index];
            (guest.wish, guest.clone_at) = (None, None);
            guest.turns.know(taken.map(|snapshot| Known::of(guest, snapshot)));
            if taken.is_some() && made < most {
                let mut inherited = guest.inherited.clone();
                for (block, possible) in &guest.own {
                    inherited.extend(possible.first().copied().flatten().map(|write| (*block, write)));
                }
                let root = guest.root;
                self.make_clone(now, (&name, &wish.name), root, inherited)?;
            }
            return Ok(());
        }
        if guest.clone_at.is_none_or(|at| at > now) || guest.deletion.is_some() || guest.rests {
            return Ok(());
        }
        let settled = guest.own.values().all(|possible| possible.len() == 1) && guest.under_way.is_empty();
        if !settled || made >= most || ending {
            // What he does not know nobody can be judged by.
            let is_waiting = !guest.under_way.is_empty() && !ending;
            guest.clone_at = is_waiting.then(|| now.plus(LOOK));
            return Ok(());
        }
        let desk = Desk::new(&mut self.metadata, now);
        let wished = admin::ask_snapshot(&desk, &name, "again", BTreeMap::new(), Duration::from_nanos(now.0));
        let guest = &mut self.clones.guests[index];
        match wished {
            Ok(wish) => (guest.wish, guest.clone_at) = (Some(wish), Some(now.plus(LOOK))),
            Err(_) => guest.clone_at = None,
        }
        Ok(())
    }

    /// The operator deletes a clone, for good.
    pub(super) fn delete_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let guest = &mut self.clones.guests[index];
        if guest.delete_at.is_none_or(|at| now < at) || guest.wish.is_some() || guest.rests {
            return Ok(());
        }
        if guest.deletion.is_none() {
            let deletion = Deletion::new(&guest.name, true, seconds(now));
            guest.deletion = Some((deletion, now, now.plus(PATIENCE)));
            self.hang_up_clone(now, index);
        }
        let guest = &mut self.clones.guests[index];
        let Some((mut deletion, at, until)) = guest.deletion.take() else {
            return Ok(());
        };
        if now < at {
            guest.deletion = Some((deletion, at, until));
            return Ok(());
        }
        let desk = Desk::new(&mut self.metadata, now);
        let step = match deletion.step(&desk) {
            Ok(None) if now < until => {
                guest.deletion = Some((deletion, now.plus(LOOK), until));
                return Ok(());
            }
            Ok(None) => deletion.give_up(&desk).map(Some),
            step => step,
        };
        guest.delete_at = None;
        match step {
            Ok(deleted) => {
                guest.deleted = true;
                let is_hidden = deleted.as_ref().is_some_and(|deleted| deleted.hidden);
                self.coverage.hit(match is_hidden {
                    true => "clone.hidden",
                    false => "clone.deleted",
                });
                let name = guest.name.clone();
                self.tell(|| format!("{name} is deleted"));
                self.clones.hidden = self.count_hidden();
                Ok(())
            }
            Err(why) => Err(format!("{} cannot be deleted: {why}", guest.name)),
        }
    }

    /// The operator deletes those that there are, each when nothing holds it any more; are there any?
    pub(in crate::cluster) fn delete_clones(&mut self) -> bool {
        let now = self.world.now();
        let guests = self.clones.guests.iter_mut().filter(|guest| !guest.deleted);
        let left = guests.map(|guest| {
            guest.wish = None;
            guest.delete_at.get_or_insert(now);
        });
        left.count() > 0 || self.clones.hidden > 0
    }
}
