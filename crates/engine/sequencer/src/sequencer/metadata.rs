//! Evictions, and reading records back: one call to the metadata at a time.
//!
//! An eviction is one transaction over all touched groups that lose a member (R12), at most 60 of them: it compares
//! each group's record *and the volume's* (R2: a deposed sequencer changes nothing and learns that it is deposed), and
//! reads all of them back where it fails. A call whose outcome is unknown is read back before anything is built on it
//! (R6). While the metadata is away I/O goes on, and what waits for a change waits.

use super::context::Context;
use super::resync::Resync;
use super::state::{ChunkState, GroupState};
use super::{faults, group, open};
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

/// A call under way.
#[derive(Debug)]
pub(super) struct Under {
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

    /// Names the next call.
    pub fn next_call(&mut self, id_base: u64) -> CallId {
        self.count += 1;
        CallId(id_base | self.count & ((1 << crate::task::ID_BITS) - 1))
    }

    /// Is nothing under way and nothing wanted?
    pub fn is_quiet(&self) -> bool {
        self.call.is_none() && !self.evictions && !self.rereads
    }

    /// The call is not under way any more, if it was.
    pub fn end(&mut self, call: CallId) -> Option<Under> {
        self.call.take_if(|under| under.id == call)
    }

    /// No call for a while; for longer each time.
    fn back_off(&mut self, config: &Config, now: Time) {
        self.not_before = now.plus(self.pause);
        self.pause = (self.pause * 2).min(config.meta_pause_most);
    }

    /// When a call is to be made that had to wait.
    pub fn due(&self) -> Option<Time> {
        ((self.evictions || self.rereads) && self.call.is_none()).then_some(self.not_before)
    }
}

/// The record of a group may have changed, as a watch says. Only a hint: it is read (R6).
pub(super) fn hint(cx: &mut Context, group: GroupIndex, epoch: Epoch, syncing: bool) {
    let slot = GroupSlot::of(group);
    if let Some(state) = cx.groups.get_mut(slot)
        && epoch > state.record.epoch
    {
        if state.is_touched() {
            reread(cx, slot);
        } else {
            // Many groups may change at once, and most are not in use: it is read when it is touched.
            state.state = GroupState::Untouched { hinted: true };
            if syncing {
                // Somebody is to be brought up to date.
                cx.groups.to_touch.push(slot);
            }
        }
    }
}

/// The volume's record may have changed, as a watch says. Only a hint: it is read, together with any group's.
pub(super) fn hint_volume(cx: &mut Context, generation: Generation) {
    if generation > cx.owned.generation
        && let Some(group) = cx.groups.keys().next()
    {
        reread(cx, group);
    }
}

/// Has the group's record read again, by a call that starts from now on.
pub(super) fn reread(cx: &mut Context, group: GroupSlot) {
    cx.groups[group].reread.wanted = true;
    cx.metadata.rereads = true;
}

/// Makes the next call, if there is need and nothing against it.
pub(super) fn advance(cx: &mut Context, now: Time) {
    if cx.stopped || !(cx.metadata.evictions || cx.metadata.rereads) || cx.metadata.call.is_some() {
        return;
    }
    if now < cx.metadata.not_before {
        return cx.agenda.arm(cx.metadata.not_before);
    }
    if cx.metadata.evictions {
        let batch = evictions(cx);
        cx.metadata.evictions = batch.len() == most_evicted();
        if !batch.is_empty() {
            return call_eviction(cx, batch);
        }
    }
    if cx.metadata.rereads {
        call_reread(cx);
    }
}

/// Which touched groups lose whom, as far as that is lawful: an in-sync set never shrinks below the pool's least
/// (R10). Who cannot apply what it should goes before who is only away, and of those who went first. Who is in doubt takes what it is sent:
/// it goes behind both.
fn evictions(cx: &mut Context) -> Vec<(GroupSlot, Members)> {
    let mut batch = Vec::new();
    for index in 0..cx.groups.touched.len() {
        let group = cx.groups.touched[index];
        let state = &cx.groups[group];
        if state.reread.wanted || state.reread.under_way {
            // When its record has been read, evictions are looked for again.
            continue;
        }
        let mut unfit: Vec<Position> = state
            .members
            .current
            .iter()
            .filter(|&position| {
                let must_go = state.to_evict.or(state.doubted);
                must_go.has(position) || cx.stores[state.members[position]].lost
            })
            .collect();
        // Who is being brought up to date goes at any time; it is left to the coordinator while nothing waits for it.
        let mut leaving = Members::NONE;
        for position in state.members.syncing.iter() {
            let lost = cx.stores[state.members[position]].lost && state.members.entered.has(position);
            if lost || state.to_evict.has(position) {
                leaving.add(position);
            }
        }
        if unfit.is_empty() && leaving.is_empty() {
            continue;
        }
        unfit.sort_by_key(|&position| {
            let store = &cx.stores[state.members[position]];
            let serves = !store.lost && !state.to_evict.has(position);
            (serves, !state.to_evict.has(position), store.lost_at)
        });
        for position in unfit {
            let left = cx.groups[group].members.current.without(leaving).count() - 1;
            if left >= cx.owned.min_copies || (left > 0 && cx.config.faults.has(Fault::IgnoreMinCopies)) {
                leaving.add(position);
            } else if !cx.groups[group].doubted.has(position)
                || cx.groups[group].to_evict.has(position)
                || cx.stores[cx.groups[group].members[position]].lost
            {
                // Nothing waits for one that is only in doubt.
                warn_missed(cx, group, position);
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

fn warn_missed(cx: &mut Context, group: GroupSlot, position: Position) {
    let state = &mut cx.groups[group];
    if state.missed.has(position) {
        return;
    }
    state.missed.add(position);
    cx.groups.stuck.insert(group);
    let state = &cx.groups[group];
    cx.effects.push_back(Effect::Warn(Warning::BelowMinCopies {
        group: state.id,
        store: cx.stores[state.members[position]].id,
        in_sync: state.members.current.count(),
        min_copies: cx.owned.min_copies,
    }));
}

fn call_eviction(cx: &mut Context, batch: Vec<(GroupSlot, Members)>) {
    let volume_key = map::volume_key(&cx.owned.volume.name);
    let mut call = Call::default();
    if !cx.config.faults.has(Fault::SkipGenerationCheck) {
        call.compares.push(Compare::ModRevision {
            key: volume_key.clone(),
            equals: cx.owned.revision,
        });
    }
    call.otherwise.push(Op::Get { key: volume_key });
    let mut groups = Vec::with_capacity(batch.len());
    for (group, leaving) in batch {
        let state = &cx.groups[group];
        let key = map::group_key(state.id.pool, state.id.index);
        let mut record = state.record.clone();
        record.epoch = record.epoch.next();
        record.in_sync = state
            .members
            .current
            .without(leaving)
            .iter()
            .map(|position| cx.stores[state.members[position]].id)
            .collect();
        let gone = |store| {
            let mut places = state.members.syncing.and(leaving).iter();
            places.any(|position| cx.stores[state.members[position]].id == store)
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
    start(cx, call, groups);
}

fn call_reread(cx: &mut Context) {
    let mut call = Call::get(map::volume_key(&cx.owned.volume.name));
    let mut groups = Vec::new();
    cx.metadata.rereads = false;
    for group in cx.groups.keys() {
        let state = &mut cx.groups[group];
        if !state.reread.wanted {
            continue;
        }
        if groups.len() == MAX_EVICTION_GROUPS {
            cx.metadata.rereads = true;
            break;
        }
        state.reread.wanted = false;
        state.reread.under_way = true;
        call.then.push(Op::Get {
            key: map::group_key(state.id.pool, state.id.index),
        });
        groups.push((group, None));
        cover_checks(cx, group);
    }
    if !groups.is_empty() {
        start(cx, call, groups);
    }
}

fn start(cx: &mut Context, request: Call, groups: Vec<(GroupSlot, Option<map::Group>)>) {
    let id = cx.metadata.next_call(cx.owned.id_base);
    cx.metadata.call = Some(Under { id, groups });
    cx.effects.push_back(Effect::Meta { call: id, request });
}

/// The metadata has answered the call that was under way.
pub(super) fn answered(cx: &mut Context, resync: &mut Resync, now: Time, under: Under, result: Result<Reply, Error>) {
    match result {
        Ok(reply) => {
            cx.metadata.pause = cx.config.meta_pause;
            cx.metadata.warned = false;
            replied(cx, resync, now, under.groups, &reply);
        }
        Err(error) => call_failed(cx, resync, now, under.groups, error),
    }
}

fn call_failed(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    groups: Vec<(GroupSlot, Option<map::Group>)>,
    error: Error,
) {
    let unknown = matches!(error, Error::Unknown { .. });
    if unknown && cx.config.faults.has(Fault::TrustUnknown) && groups.iter().all(|(_, record)| record.is_some()) {
        return faults::take_for_done(cx, resync, now, groups);
    }
    for (group, record) in groups {
        cx.groups[group].reread.under_way = false;
        if record.is_none() || unknown {
            // R6: what may have been done is read back; what was to be read still is.
            reread(cx, group);
        }
        if record.is_some() {
            cx.metadata.evictions = true;
            cx.counters.unknown += u64::from(unknown);
        }
    }
    if !unknown && !std::mem::replace(&mut cx.metadata.warned, true) {
        cx.effects.push_back(Effect::Warn(Warning::Metadata { error }));
    }
    cx.metadata.back_off(&cx.config, now);
}

fn replied(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    groups: Vec<(GroupSlot, Option<map::Group>)>,
    reply: &Reply,
) {
    let evicted = reply.succeeded && groups.iter().any(|(_, record)| record.is_some());
    if evicted {
        // The compares held: the generation was ours when the epochs moved (R2).
        for (group, record) in groups {
            cx.counters.evicted += 1;
            group::adopt(
                cx,
                resync,
                now,
                group,
                record.expect("an eviction's groups all have one"),
                reply.revision,
            );
            if cx.stopped {
                return;
            }
        }
        return;
    }
    // What was read, in one transaction: the volume first, then the groups.
    if !check_volume(cx, reply.value(0)) {
        return;
    }
    let mut news = false;
    for (index, (group, record)) in groups.into_iter().enumerate() {
        let was_race = record.is_some();
        cx.groups[group].was_read();
        let state = &cx.groups[group];
        let before = state.record.epoch;
        let key = map::group_key(state.id.pool, state.id.index);
        let read = reply.value(index + 1).ok_or_else(|| "it is gone".to_owned());
        let read = read.and_then(|value| {
            let record = value.json::<map::Group>().map_err(|error| error.to_string())?;
            record.check()?;
            Ok((record, value.mod_revision))
        });
        match read {
            Ok((record, revision)) => group::adopt(cx, resync, now, group, record, revision),
            Err(why) => cx.stop(StopReason::Metadata { what: key, why }),
        }
        if cx.stopped {
            return;
        }
        let moved = cx.groups[group].record.epoch > before;
        news |= moved;
        cx.counters.adopted += u64::from(moved);
        cx.counters.lost_races += u64::from(was_race);
        cx.metadata.evictions = true;
        if !moved {
            news |= finish_checks(cx, now, group);
            group::send_fence(cx, now, group);
        }
    }
    if !news {
        // A store knows of a newer epoch than the metadata does, or a compare failed for another reason: no haste.
        cx.metadata.back_off(&cx.config, now);
    }
}

/// R2: with every new epoch the generation is read; if it is no longer ours, nothing is acknowledged any more.
fn check_volume(cx: &mut Context, value: Option<&KeyValue>) -> bool {
    if cx.config.faults.has(Fault::SkipGenerationCheck) {
        return true;
    }
    let what = map::volume_key(&cx.owned.volume.name);
    let Some(value) = value else {
        cx.stop(StopReason::Metadata {
            what,
            why: "it is gone: was the volume deleted?".to_owned(),
        });
        return false;
    };
    match value.json::<map::Volume>() {
        Err(error) => cx.stop(StopReason::Metadata {
            what,
            why: error.to_string(),
        }),
        Ok(volume) if volume.id != cx.owned.volume.id => cx.stop(StopReason::Metadata {
            what,
            why: format!("it is another volume now, number {}", volume.id),
        }),
        Ok(volume) if volume.generation > cx.owned.generation => cx.stop(StopReason::Deposed {
            generation: volume.generation,
        }),
        Ok(volume) if volume.generation < cx.owned.generation => cx.stop(StopReason::Metadata {
            what,
            why: format!(
                "its generation went from {} back to {}",
                cx.owned.generation, volume.generation
            ),
        }),
        Ok(volume) => {
            cx.owned.volume = volume;
            cx.owned.revision = value.mod_revision;
            return true;
        }
    }
    false
}

// ---- the check at the end of a roll-forward (R6) ----

/// A call starts that reads the group: it counts for roll-forwards that have ended by now.
fn cover_checks(cx: &mut Context, group: GroupSlot) {
    for index in 0..cx.groups[group].openings.all.len() {
        let chunk = cx.groups[group].openings.all[index];
        if let ChunkState::Opening(opening) = &mut cx.chunks[chunk].state {
            opening.cover_check();
        }
    }
}

/// The group was read and has not moved: roll-forwards that had ended before may count. Were there any?
fn finish_checks(cx: &mut Context, now: Time, group: GroupSlot) -> bool {
    let mut any = false;
    let mut index = 0;
    while let Some(chunk) = cx.groups[group].openings.all.get(index) {
        let version = match &cx.chunks[chunk].state {
            ChunkState::Opening(opening) => opening.checked(),
            _ => None,
        };
        match version {
            // Leaves the list: the next one stands in its place.
            Some((version, number)) => {
                any = true;
                open::opened(cx, now, chunk, version, number);
            }
            None => index += 1,
        }
    }
    any
}

/// Asks for the check.
pub(super) fn want_check(cx: &mut Context, chunk: ChunkSlot) {
    reread(cx, cx.chunks[chunk].group);
}
