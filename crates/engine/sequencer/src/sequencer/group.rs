//! Fencing: a group serves when every in-sync member has durably adopted its epoch and our generation.
//!
//! That happens when the group is first touched, after each change of its epoch, and for one member after each of its
//! reconnections (a store that restarted may not know us any more). Until a member has answered the fence nothing else
//! is sent to it; then everything that it has not answered is sent, in the order of versions.

use super::{Sequencer, UNFIT_PAUSES};
use crate::faults::Fault;
use crate::io::{Effect, StopReason, Warning};
use crate::members::{Members, Position};
use crate::table::{GroupSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::{Slice, Time};
use amita_types::StoreId;
use amita_types::map;
use amita_types::message::{FenceRequest, MemberSet, Refusal, RequestBody};

impl Sequencer {
    /// The first I/O of a group.
    pub(super) fn touch(&mut self, now: Time, group: GroupSlot) {
        if self.groups[group].touched {
            return;
        }
        self.groups[group].touched = true;
        self.groups.touched.push(group);
        // R10: all told, the rest evicted first. Who is known to be lost is evicted lazily, here.
        let state = &self.groups[group];
        let mut members = state.all().iter();
        self.metadata.evictions |=
            members.any(|position| state.to_evict.has(position) || self.stores[state.members[position]].lost);
        if std::mem::take(&mut self.groups[group].hinted) {
            self.reread(group);
        }
        self.send_fence(now, group);
        self.arm_silence_of(now, group);
    }

    /// Sends the fence to members that have not adopted it. It is kept for those that cannot be reached.
    pub(super) fn send_fence(&mut self, now: Time, group: GroupSlot) {
        let state = &self.groups[group];
        if !state.touched || state.in_doubt {
            // The epoch is in doubt: first it is read.
            return;
        }
        let lacking = state.all().without(state.ready);
        if lacking.is_empty() {
            return;
        }
        let slot = match state.fence {
            Some(slot) => slot,
            None => {
                let epoch = state.record.epoch;
                let slot = self.tasks.add(Kind::Fence { epoch }, group, None);
                self.groups[group].fence = Some(slot);
                slot
            }
        };
        let in_sync = self.ids_of(group, self.groups[group].current);
        let syncing = self.ids_of(group, self.groups[group].syncing);
        for position in lacking.iter() {
            let state = &self.groups[group];
            let up = self.stores[state.members[position]].up;
            let paused = state.paused.has(position);
            if self.tasks[slot].waiting.has(position) && !self.tasks[slot].sent.has(position) {
                // Was sent on a link that has ended.
                self.settle(slot, position);
            }
            if up && !paused && !self.tasks[slot].waiting.has(position) {
                let body = RequestBody::Fence(FenceRequest {
                    owner: self.owned.owner,
                    in_sync: in_sync.to_vec(),
                    syncing: syncing.to_vec(),
                    blocks_per_chunk: self.owned.blocks_per_chunk,
                    given_back: self.owned.given_back,
                });
                self.expect(now, slot, position);
                self.send(now, slot, position, body, Slice::default());
            }
        }
    }

    fn ids_of(&self, group: GroupSlot, members: Members) -> MemberSet {
        let group = &self.groups[group];
        members
            .iter()
            .map(|position| self.stores[group.members[position]].id)
            .collect()
    }

    /// A member has adopted the fence.
    pub(super) fn fenced(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let group = self.tasks[slot].group;
        let Kind::Fence { epoch } = self.tasks[slot].kind else {
            unreachable!("the caller has looked")
        };
        assert_eq!(epoch, self.groups[group].record.epoch, "a fence ends with its epoch");
        self.settle(slot, position);
        self.groups[group].ready.add(position);
        self.drop_fence_if_done(group);
        if self.groups[group].syncing.has(position) {
            self.member_entered(now, group, position);
        }
        self.resend(now, group, position);
        self.open_chunks(now, group);
        self.intake.is_due = true;
    }

    pub(super) fn fence_refused(&mut self, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
        let group = self.tasks[slot].group;
        self.settle(slot, position);
        let mut pause = self.config.busy_pause;
        match refusal {
            // Dealt with by whoever looked at the refusal first. The fence is sent again after a moment.
            Refusal::StaleEpoch { .. } | Refusal::Busy | Refusal::NotFenced => {}
            Refusal::Poisoned | Refusal::NoSuchStore => pause *= UNFIT_PAUSES,
            other => {
                pause *= UNFIT_PAUSES;
                self.warn_refused(group, self.groups[group].members[position], other);
                self.evict_soon(group, position);
            }
        }
        self.pause(now, group, position, pause);
    }

    fn drop_fence_if_done(&mut self, group: GroupSlot) {
        let state = &mut self.groups[group];
        if state.all().without(state.ready).is_empty()
            && let Some(slot) = state.fence.take()
        {
            self.settle_all(slot);
            self.tasks.remove(slot);
        }
    }

    /// A member must adopt the fence again before anything else is sent to it.
    pub(super) fn unready(&mut self, group: GroupSlot, position: Position) {
        self.groups[group].ready.remove(position);
    }

    /// A member cannot go on: the group must.
    pub(super) fn evict_soon(&mut self, group: GroupSlot, position: Position) {
        self.groups[group].to_evict.add(position);
        self.metadata.evictions = true;
        self.intake.is_due = true;
    }

    /// Are all members fenced that must be before chunks are opened? All that are in sync (R6, R10). Syncing ones need not
    /// be: what they hold is compared when they join a chunk's history, and nobody takes them in before.
    pub(super) fn is_fenced(&self, group: GroupSlot) -> bool {
        let state = &self.groups[group];
        let mut must = state.current;
        if self.config.faults.has(Fault::ServeHalfFenced) {
            must = self.only_reachable(group, must);
        }
        !must.is_empty() && must.without(state.ready).is_empty()
    }

    /// Takes over what the metadata says of a group. The volume's generation was read, or compared, in the same
    /// transaction and is ours (R2).
    pub(super) fn adopt(&mut self, now: Time, group: GroupSlot, record: map::Group, revision: u64) {
        let known = &self.groups[group];
        let key = || map::group_key(known.id.pool, known.id.index);
        if revision == known.revision {
            return;
        }
        if record.epoch < known.record.epoch || revision < known.revision {
            return self.stop(StopReason::Metadata {
                what: key(),
                why: format!("its epoch went from {} back to {}", known.record.epoch, record.epoch),
            });
        }
        if record.epoch == known.record.epoch {
            if record.in_sync != known.record.in_sync || record.syncing != known.record.syncing {
                return self.stop(StopReason::Metadata {
                    what: key(),
                    why: format!("its members changed and its epoch {} did not", record.epoch),
                });
            }
            let known = &mut self.groups[group];
            known.record = record;
            known.revision = revision;
            return;
        }
        let mut current = Members::NONE;
        for &id in &record.in_sync {
            let known = &self.groups[group];
            // A syncing member may be in sync now only if we have said that it holds everything of ours.
            match self.position_of(group, id) {
                Some(position) if known.current.or(known.whole).has(position) => current.add(position),
                _ => {
                    return self.stop(StopReason::Metadata {
                        what: key(),
                        why: format!(
                            "store {id} is in sync since epoch {}, which we did not bring about",
                            record.epoch
                        ),
                    });
                }
            }
        }
        self.enter(now, group, record, revision, current);
    }

    fn position_of(&self, group: GroupSlot, id: StoreId) -> Option<Position> {
        let number = self.stores.slot_of(id)?;
        let position = self.position(group, number)?;
        self.groups[group].all().has(position).then_some(position)
    }

    /// The group's new epoch: who left is awaited no more, who stays must adopt it.
    fn enter(&mut self, now: Time, group: GroupSlot, record: map::Group, revision: u64, current: Members) {
        let mut stays = Members::NONE;
        for syncing in &record.syncing {
            let state = &self.groups[group];
            if let Some(position) = self.position_of(group, syncing.store)
                && state.syncing.has(position)
                && state.since[position] == syncing.since
            {
                stays.add(position);
            }
        }
        self.count_behind(now, group, false);
        self.groups.stuck.remove(&group);
        let state = &mut self.groups[group];
        let left = state.all().without(current.or(stays));
        let evicted = state.current.without(current);
        let arrived = current.without(state.current);
        state.record = record;
        state.revision = revision;
        self.count_behind(now, group, true);
        let state = &mut self.groups[group];
        state.current = current;
        state.syncing = stays;
        state.entered = state.entered.and(stays);
        state.whole = state.whole.and(stays);
        state.ready = Members::NONE;
        state.to_evict = state.to_evict.and(current.or(stays));
        state.missed = Members::NONE;
        if let Some(fence) = state.fence.take() {
            self.settle_all(fence);
            self.tasks.remove(fence);
        }
        self.reset_openings(group);
        for position in evicted.iter() {
            let warning = Warning::Evicted {
                group: self.groups[group].id,
                store: self.id_of(group, position),
                epoch: self.groups[group].record.epoch,
            };
            self.effects.push_back(Effect::Warn(warning));
        }
        self.counters.sync_dropped += left.without(evicted).count() as u64;
        self.counters.sync_promoted += arrived.count() as u64;
        self.forget_syncs(group, left.or(arrived));
        self.forget_members(now, group, left);
        self.seat_newcomers(now, group);
        // Only now, the generation being known to be ours, is acknowledged what missed only those that left (R2).
        self.commit_group(group);
        self.send_fence(now, group);
        self.intake.is_due = true;
        self.metadata.evictions = true;
    }

    /// Gives each syncing member of the record that has none a place.
    pub(super) fn seat_newcomers(&mut self, now: Time, group: GroupSlot) {
        let listed = self.groups[group].record.syncing.clone();
        for map::Syncing { store, since } in listed {
            if self.position_of(group, store).is_some() {
                continue;
            }
            let number = self.store_number(now, store);
            let taken = self.groups[group].all();
            let Some(position) = Position::all().find(|&position| !taken.has(position)) else {
                // More than there may be: it gets no place, and is never said to be whole.
                continue;
            };
            // A store has one place at most: its old one, if it had another, is not its place any more.
            let state = &mut self.groups[group];
            state.members.seat(position, number);
            state.syncing.add(position);
            state.since[position] = since;
            self.clear_place(group, position);
            self.counters.sync_started += 1;
        }
    }

    /// What is remembered of who had the place before is forgotten.
    fn clear_place(&mut self, group: GroupSlot, position: Position) {
        for slot in self.tasks.slots_of(group) {
            let task = &mut self.tasks[slot];
            if task.group != group {
                continue;
            }
            task.sent.remove(position);
            match &mut task.kind {
                Kind::Write(write) => {
                    write.charged.remove(position);
                    write.asked.remove(position);
                }
                Kind::Read(read) => {
                    read.tried.remove(position);
                    read.damaged.remove(position);
                }
                _ => {}
            }
        }
        for &chunk in &self.groups[group].chunks {
            let chunk = &mut self.chunks[chunk];
            chunk.stalled.remove(position);
            chunk.behind.remove(position);
            chunk.bad_sources.remove(position);
            chunk.joined.remove(position);
            chunk.joining.remove(position);
        }
    }

    pub(super) fn id_of(&self, group: GroupSlot, position: Position) -> StoreId {
        let number = self.groups[group].members[position];
        self.stores[number].id
    }

    /// What members that left still owe is owed no more, and whatever they answer is not looked at.
    fn forget_members(&mut self, now: Time, group: GroupSlot, left: Members) {
        for slot in self.tasks.slots_of(group) {
            if self.tasks[slot].group != group {
                continue;
            }
            for position in left.and(self.tasks[slot].waiting).iter() {
                if !self.tasks[slot].waiting.has(position) {
                    // Its end has settled all of it.
                    continue;
                }
                match self.tasks[slot].kind {
                    Kind::Read(_) => self.give_up_on(now, slot, position),
                    Kind::Confirm => self.confirmed(slot, position),
                    Kind::Settle { .. } => self.forget_settle(slot, position),
                    Kind::Orphan => self.settle_and_drop(slot, position),
                    Kind::Join => self.join_lost(slot, position),
                    Kind::Sync(step) => self.sync_lost(now, slot, position, step),
                    Kind::Write(_) => self.forget_write(slot, position),
                    Kind::Free | Kind::Fence { .. } | Kind::Open(_) => {
                        unreachable!("fences and openings have ended with the epoch")
                    }
                }
            }
        }
        self.agenda
            .pauses
            .retain(|&(_, paused, position)| paused != group || !left.has(position));
        let state = &mut self.groups[group];
        state.paused = state.paused.without(left);
        for index in 0..self.groups[group].busy.len() {
            let chunk = self.groups[group].busy[index];
            let stalled = self.chunks[chunk].stalled.without(left);
            self.chunks[chunk].stalled = stalled;
            let behind = self.chunks[chunk].behind.without(left);
            self.chunks[chunk].behind = behind;
        }
    }
}
