//! Evictions, and reading records back: one call to the metadata at a time.
//!
//! An eviction is one transaction over all touched groups that lose a member (R12), at most 60 of them: it compares
//! each group's record *and the volume's* (R2: a deposed sequencer changes nothing and learns that it is deposed), and
//! reads all of them back where it fails. A call whose outcome is unknown is read back before anything is built on it
//! (R6). While the metadata is away I/O goes on, and what waits for a change waits.

use super::state::ChunkState;
use super::{Sequencer, call_id};
use crate::config::{Config, MAX_EVICTION_GROUPS};
use crate::faults::Fault;
use crate::io::{CallId, Effect, StopReason, Warning};
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot};
use amita_metadata::{Call, Compare, Error, KeyValue, Op, Reply};
use amita_reactor::Time;
use amita_reactor::buggify::{Point, narrow};
use amita_types::map;
use amita_types::{Epoch, Generation, GroupIndex};
use std::time::Duration;

/// Groups of one eviction, at most.
fn most_evicted() -> usize {
    if narrow(Point::OneEviction) {
        1
    } else {
        MAX_EVICTION_GROUPS
    }
}

/// The sequencer's dealings with the metadata.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Some group may have to lose a member: to be looked for.
    pub evictions: bool,
    /// Some group's record is to be read again.
    rereads: bool,
    /// The call under way.
    call: Option<Under>,
    /// No call before then: the last one failed or brought nothing new.
    not_before: Time,
    pause: Duration,
    count: u64,
    warned: bool,
}

#[derive(Debug)]
struct Under {
    id: CallId,
    /// The groups it concerns, with the records that an eviction puts; none for a call that only reads.
    groups: Vec<(GroupSlot, Option<map::Group>)>,
}

impl Metadata {
    pub fn new(config: &Config) -> Metadata {
        Metadata {
            evictions: false,
            rereads: false,
            call: None,
            not_before: Time(0),
            pause: config.meta_pause,
            count: 0,
            warned: false,
        }
    }

    /// Is nothing under way and nothing wanted?
    pub fn is_quiet(&self) -> bool {
        self.call.is_none() && !self.evictions && !self.rereads
    }

    /// When a call is to be made that had to wait.
    pub fn due(&self) -> Option<Time> {
        ((self.evictions || self.rereads) && self.call.is_none()).then_some(self.not_before)
    }
}

impl Sequencer {
    /// The record of a group may have changed, as a watch says. Only a hint: it is read (R6).
    pub fn hint(&mut self, now: Time, group: GroupIndex, epoch: Epoch, syncing: bool) {
        if self.stopped {
            return;
        }
        let slot = GroupSlot::of(group);
        if let Some(state) = self.groups.get_mut(slot)
            && epoch > state.record.epoch
        {
            if state.touched {
                self.reread(slot);
            } else {
                // Many groups may change at once, and most are not in use: it is read when it is touched.
                state.hinted = true;
                if syncing {
                    // Somebody is to be brought up to date.
                    self.groups.to_touch.push(slot);
                }
            }
        }
        self.finish(now);
    }

    /// The volume's record may have changed, as a watch says. Only a hint: it is read.
    pub fn hint_volume(&mut self, now: Time, generation: Generation) {
        if self.stopped {
            return;
        }
        // The volume's record is read together with any group's.
        if generation > self.owned.generation
            && let Some(group) = self.groups.keys().next()
        {
            self.reread(group);
        }
        self.finish(now);
    }

    /// Has the group's record read again, by a call that starts from now on.
    pub(super) fn reread(&mut self, group: GroupSlot) {
        self.groups[group].reread = true;
        self.metadata.rereads = true;
    }

    /// Makes the next call, if there is need and nothing against it.
    pub(super) fn reconfigure(&mut self, now: Time) {
        if self.stopped || !(self.metadata.evictions || self.metadata.rereads) || self.metadata.call.is_some() {
            return;
        }
        if now < self.metadata.not_before {
            return self.arm(self.metadata.not_before);
        }
        if self.metadata.evictions {
            let batch = self.evictions();
            self.metadata.evictions = batch.len() == most_evicted();
            if !batch.is_empty() {
                return self.call_eviction(batch);
            }
        }
        if self.metadata.rereads {
            self.call_reread();
        }
    }

    /// Which touched groups lose whom, as far as that is lawful: an in-sync set never shrinks below the pool's least
    /// (R10). Who cannot apply what it should goes before who is only away, and of those who went first.
    fn evictions(&mut self) -> Vec<(GroupSlot, Members)> {
        let mut batch = Vec::new();
        for index in 0..self.groups.touched.len() {
            let group = self.groups.touched[index];
            let state = &self.groups[group];
            if state.reread || state.rereading {
                // Its record is in doubt: when it has been read, evictions are looked for again.
                continue;
            }
            let mut unfit: Vec<Position> = state
                .current
                .iter()
                .filter(|&position| state.to_evict.has(position) || self.stores[state.members[position]].lost)
                .collect();
            // Who is being brought up to date goes at any time; it is left to the coordinator while nothing waits for it.
            let mut leaving = Members::NONE;
            for position in state.syncing.iter() {
                let lost = self.stores[state.members[position]].lost && state.entered.has(position);
                if lost || state.to_evict.has(position) {
                    leaving.add(position);
                }
            }
            if unfit.is_empty() && leaving.is_empty() {
                continue;
            }
            unfit.sort_by_key(|&position| {
                (
                    !state.to_evict.has(position),
                    self.stores[state.members[position]].lost_at,
                )
            });
            for position in unfit {
                let left = self.groups[group].current.without(leaving).count() - 1;
                if left >= self.owned.min_copies || (left > 0 && self.config.faults.has(Fault::IgnoreMinCopies)) {
                    leaving.add(position);
                } else {
                    self.warn_missed(group, position);
                }
            }
            if !leaving.is_empty() {
                batch.push((group, leaving));
                if batch.len() == most_evicted() {
                    break;
                }
            }
        }
        batch
    }

    fn warn_missed(&mut self, group: GroupSlot, position: Position) {
        let state = &mut self.groups[group];
        if state.missed.has(position) {
            return;
        }
        state.missed.add(position);
        self.groups.stuck.insert(group);
        let state = &self.groups[group];
        self.effects.push_back(Effect::Warn(Warning::BelowMinCopies {
            group: state.id,
            store: self.stores[state.members[position]].id,
            in_sync: state.current.count(),
            min_copies: self.owned.min_copies,
        }));
    }

    fn call_eviction(&mut self, batch: Vec<(GroupSlot, Members)>) {
        let volume_key = map::volume_key(&self.owned.volume.name);
        let mut call = Call::default();
        if !self.config.faults.has(Fault::SkipGenerationCheck) {
            call.compares.push(Compare::ModRevision {
                key: volume_key.clone(),
                equals: self.owned.revision,
            });
        }
        call.otherwise.push(Op::Get { key: volume_key });
        let mut groups = Vec::with_capacity(batch.len());
        for (group, leaving) in batch {
            let state = &self.groups[group];
            let key = map::group_key(state.id.pool, state.id.index);
            let mut record = state.record.clone();
            record.epoch = record.epoch.next();
            record.in_sync = state
                .current
                .without(leaving)
                .iter()
                .map(|position| self.stores[state.members[position]].id)
                .collect();
            let gone = |store| {
                let mut places = state.syncing.and(leaving).iter();
                places.any(|position| self.stores[state.members[position]].id == store)
            };
            record.syncing.retain(|syncing| !gone(syncing.store));
            call.compares.push(Compare::ModRevision {
                key: key.clone(),
                equals: state.revision,
            });
            call.then.push(Op::Put {
                key: key.clone(),
                value: serde_json::to_vec(&record).expect("a record of numbers and texts"),
                lease: None,
            });
            call.otherwise.push(Op::Get { key });
            groups.push((group, Some(record)));
        }
        self.call(call, groups);
    }

    fn call_reread(&mut self) {
        let mut call = Call::get(map::volume_key(&self.owned.volume.name));
        let mut groups = Vec::new();
        self.metadata.rereads = false;
        for group in self.groups.keys() {
            let state = &mut self.groups[group];
            if !state.reread {
                continue;
            }
            if groups.len() == MAX_EVICTION_GROUPS {
                self.metadata.rereads = true;
                break;
            }
            state.reread = false;
            state.rereading = true;
            call.then.push(Op::Get {
                key: map::group_key(state.id.pool, state.id.index),
            });
            groups.push((group, None));
            self.cover_checks(group);
        }
        if !groups.is_empty() {
            self.call(call, groups);
        }
    }

    fn call(&mut self, request: Call, groups: Vec<(GroupSlot, Option<map::Group>)>) {
        self.metadata.count += 1;
        let id = call_id(self.owned.id_base, self.metadata.count);
        self.metadata.call = Some(Under { id, groups });
        self.effects.push_back(Effect::Meta { call: id, request });
    }

    /// The metadata has answered.
    pub fn meta(&mut self, now: Time, call: CallId, result: Result<Reply, Error>) {
        if self.stopped || self.metadata.call.as_ref().is_none_or(|under| under.id != call) {
            return;
        }
        let under = self.metadata.call.take().expect("looked at above");
        match result {
            Ok(reply) => {
                self.metadata.pause = self.config.meta_pause;
                self.metadata.warned = false;
                self.replied(now, under.groups, &reply);
            }
            Err(error) => self.call_failed(now, under.groups, error),
        }
        self.finish(now);
    }

    fn call_failed(&mut self, now: Time, groups: Vec<(GroupSlot, Option<map::Group>)>, error: Error) {
        let unknown = matches!(error, Error::Unknown { .. });
        if unknown && self.config.faults.has(Fault::TrustUnknown) && groups.iter().all(|(_, record)| record.is_some()) {
            return self.take_for_done(now, groups);
        }
        for (group, record) in groups {
            self.groups[group].rereading = false;
            if record.is_none() || unknown {
                // R6: what may have been done is read back; what was to be read still is.
                self.reread(group);
            }
            if record.is_some() {
                self.metadata.evictions = true;
                self.counters.unknown += u64::from(unknown);
            }
        }
        if !unknown && !std::mem::replace(&mut self.metadata.warned, true) {
            self.effects.push_back(Effect::Warn(Warning::Metadata { error }));
        }
        self.back_off(now);
    }

    fn back_off(&mut self, now: Time) {
        self.metadata.not_before = now.plus(self.metadata.pause);
        self.metadata.pause = (self.metadata.pause * 2).min(self.config.meta_pause_most);
    }

    fn replied(&mut self, now: Time, groups: Vec<(GroupSlot, Option<map::Group>)>, reply: &Reply) {
        let evicted = reply.succeeded && groups.iter().any(|(_, record)| record.is_some());
        if evicted {
            // The compares held: the generation was ours when the epochs moved (R2).
            for (group, record) in groups {
                self.counters.evicted += 1;
                self.adopt(
                    now,
                    group,
                    record.expect("an eviction's groups all have one"),
                    reply.revision,
                );
                if self.stopped {
                    return;
                }
            }
            return;
        }
        // What was read, in one transaction: the volume first, then the groups.
        if !self.check_volume(reply.value(0)) {
            return;
        }
        let mut news = false;
        for (index, (group, record)) in groups.into_iter().enumerate() {
            let was_race = record.is_some();
            self.groups[group].rereading = false;
            self.groups[group].in_doubt = false;
            let state = &self.groups[group];
            let before = state.record.epoch;
            let key = map::group_key(state.id.pool, state.id.index);
            let read = reply.value(index + 1).ok_or_else(|| "it is gone".to_owned());
            let read = read.and_then(|value| {
                let record = value.json::<map::Group>().map_err(|error| error.to_string())?;
                Ok((record, value.mod_revision))
            });
            match read {
                Ok((record, revision)) => self.adopt(now, group, record, revision),
                Err(why) => self.stop(StopReason::Metadata { what: key, why }),
            }
            if self.stopped {
                return;
            }
            let moved = self.groups[group].record.epoch > before;
            news |= moved;
            self.counters.adopted += u64::from(moved);
            self.counters.lost_races += u64::from(was_race);
            self.metadata.evictions = true;
            if !moved {
                news |= self.finish_checks(now, group);
                self.send_fence(now, group);
            }
        }
        if !news {
            // A store knows of a newer epoch than the metadata does, or a compare failed for another reason: no haste.
            self.back_off(now);
        }
    }

    /// R2: with every new epoch the generation is read; if it is no longer ours, nothing is acknowledged any more.
    fn check_volume(&mut self, value: Option<&KeyValue>) -> bool {
        if self.config.faults.has(Fault::SkipGenerationCheck) {
            return true;
        }
        let what = map::volume_key(&self.owned.volume.name);
        let Some(value) = value else {
            self.stop(StopReason::Metadata {
                what,
                why: "it is gone: was the volume deleted?".to_owned(),
            });
            return false;
        };
        match value.json::<map::Volume>() {
            Err(error) => self.stop(StopReason::Metadata {
                what,
                why: error.to_string(),
            }),
            Ok(volume) if volume.id != self.owned.volume.id => self.stop(StopReason::Metadata {
                what,
                why: format!("it is another volume now, number {}", volume.id),
            }),
            Ok(volume) if volume.generation > self.owned.generation => self.stop(StopReason::Deposed {
                generation: volume.generation,
            }),
            Ok(volume) if volume.generation < self.owned.generation => self.stop(StopReason::Metadata {
                what,
                why: format!(
                    "its generation went from {} back to {}",
                    self.owned.generation, volume.generation
                ),
            }),
            Ok(volume) => {
                self.owned.volume = volume;
                self.owned.revision = value.mod_revision;
                return true;
            }
        }
        false
    }

    // ---- the check at the end of a roll-forward (R6) ----

    /// A call starts that reads the group: it counts for roll-forwards that have ended by now.
    fn cover_checks(&mut self, group: GroupSlot) {
        for index in 0..self.groups[group].opening.len() {
            let chunk = self.groups[group].opening[index];
            if let ChunkState::Opening(opening) = &mut self.chunks[chunk].state {
                opening.cover_check();
            }
        }
    }

    /// The group was read and has not moved: roll-forwards that had ended before may count. Were there any?
    fn finish_checks(&mut self, now: Time, group: GroupSlot) -> bool {
        let mut any = false;
        let mut index = 0;
        while let Some(&chunk) = self.groups[group].opening.get(index) {
            let version = match &self.chunks[chunk].state {
                ChunkState::Opening(opening) => opening.checked(),
                _ => None,
            };
            match version {
                // Leaves the list: the next one stands in its place.
                Some(version) => {
                    any = true;
                    self.chunk_opened(now, chunk, version);
                }
                None => index += 1,
            }
        }
        any
    }

    /// Asks for the check.
    pub(super) fn want_check(&mut self, chunk: ChunkSlot) {
        self.reread(self.chunks[chunk].group);
    }
}
