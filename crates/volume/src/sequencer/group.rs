//! Fencing: a group serves when every in-sync member has durably adopted its epoch and our generation.
//!
//! That happens when the group is first touched, after each change of its epoch, and for one member after each of its
//! reconnections (a store that restarted may not know us any more). Until a member has answered the fence nothing else
//! is sent to it; then everything that it has not answered is sent, in the order of versions.

use super::{Sequencer, UNFIT_PAUSES};
use crate::io::{Effect, StopReason, Warning};
use crate::task::{Kind, Members, NIL};
use amita_cluster::map;
use amita_cluster::message::{MemberSet, Refusal, RequestBody};
use amita_reactor::{Slice, Time};

impl Sequencer {
    /// The first I/O of a group.
    pub(super) fn touch(&mut self, now: Time, group: u32) {
        if self.groups[group as usize].touched {
            return;
        }
        self.groups[group as usize].touched = true;
        self.touched.push(group);
        // R10: all told, the rest evicted first. Who is known to be lost is evicted lazily, here.
        self.metadata.evictions = true;
        if std::mem::take(&mut self.groups[group as usize].hinted) {
            self.reread(group);
        }
        self.send_fence(now, group);
        self.arm_silence(now);
    }

    /// Sends the fence to members that have not adopted it. It is kept for those that cannot be reached.
    pub(super) fn send_fence(&mut self, now: Time, group: u32) {
        let state = &self.groups[group as usize];
        if !state.touched || state.in_doubt {
            // The epoch is in doubt: first it is read.
            return;
        }
        let lacking = state.current.without(state.ready);
        if lacking.is_empty() {
            return;
        }
        if state.fence == NIL {
            let epoch = state.record.epoch;
            let slot = self.tasks.add(Kind::Fence { epoch }, group, NIL);
            self.groups[group as usize].fence = slot;
        }
        let slot = self.groups[group as usize].fence;
        let in_sync = self.in_sync(group, self.groups[group as usize].current);
        for position in lacking.iter() {
            let state = &self.groups[group as usize];
            let up = self.stores[state.members[position] as usize].up;
            let paused = state.paused.has(position);
            if self.tasks[slot].waiting.has(position) && !self.tasks[slot].sent.has(position) {
                // Was sent on a link that has ended.
                self.settle(slot, position);
            }
            if up && !paused && !self.tasks[slot].waiting.has(position) {
                let body = RequestBody::Fence {
                    syncing: Vec::new(),
                    owner: self.owner,
                    in_sync: in_sync.clone(),
                    blocks_per_chunk: self.blocks_per_chunk,
                };
                self.expect(now, slot, position);
                self.send(now, slot, position, body, Slice::default());
            }
        }
    }

    fn in_sync(&self, group: u32, members: Members) -> MemberSet {
        let group = &self.groups[group as usize];
        members
            .iter()
            .map(|position| self.stores[group.members[position] as usize].id)
            .collect()
    }

    /// A member has adopted the fence.
    pub(super) fn fenced(&mut self, now: Time, slot: u32, position: usize) {
        let group = self.tasks[slot].group;
        let Kind::Fence { epoch } = self.tasks[slot].kind else {
            unreachable!("the caller has looked")
        };
        assert_eq!(
            epoch, self.groups[group as usize].record.epoch,
            "a fence ends with its epoch"
        );
        self.settle(slot, position);
        self.groups[group as usize].ready.add(position);
        self.drop_fence_if_done(group);
        self.resend(now, group, position);
        self.open_chunks(now, group);
        self.retry_blocked = true;
    }

    pub(super) fn fence_refused(&mut self, now: Time, slot: u32, position: usize, refusal: &Refusal) {
        let group = self.tasks[slot].group;
        self.settle(slot, position);
        let mut pause = self.config.busy_pause;
        match refusal {
            // Dealt with by whoever looked at the refusal first. The fence is sent again after a moment.
            Refusal::StaleEpoch { .. } | Refusal::Busy | Refusal::NotFenced => {}
            Refusal::Poisoned | Refusal::NoSuchStore => pause *= UNFIT_PAUSES,
            other => {
                pause *= UNFIT_PAUSES;
                self.warn_refused(group, self.groups[group as usize].members[position], other);
                self.doom(group, position);
            }
        }
        self.pause(now, group, position, pause);
    }

    fn drop_fence_if_done(&mut self, group: u32) {
        let state = &mut self.groups[group as usize];
        if state.fence != NIL && state.current.without(state.ready).is_empty() {
            let slot = std::mem::replace(&mut state.fence, NIL);
            self.settle_all(slot);
            self.tasks.remove(slot);
        }
    }

    /// A member must adopt the fence again before anything else is sent to it.
    pub(super) fn unready(&mut self, group: u32, position: usize) {
        self.groups[group as usize].ready.remove(position);
    }

    /// A member cannot go on: the group must.
    pub(super) fn doom(&mut self, group: u32, position: usize) {
        self.groups[group as usize].doomed.add(position);
        self.metadata.evictions = true;
        self.retry_blocked = true;
    }

    /// Are all members fenced that must be before chunks are opened? All that are in sync (R6, R10).
    pub(super) fn is_fenced(&self, group: u32) -> bool {
        let state = &self.groups[group as usize];
        let mut must = state.current;
        if self.config.planted.serve_half_fenced() {
            for position in state.current.iter() {
                if !self.stores[state.members[position] as usize].up {
                    must.remove(position);
                }
            }
        }
        !must.is_empty() && must.without(state.ready).is_empty()
    }

    /// Takes over what the metadata says of a group. The volume's generation was read, or compared, in the same
    /// transaction and is ours (R2).
    pub(super) fn adopt(&mut self, now: Time, group: u32, record: map::Group, revision: u64) {
        let known = &self.groups[group as usize];
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
            if record.in_sync != known.record.in_sync {
                return self.stop(StopReason::Metadata {
                    what: key(),
                    why: format!("its in-sync set changed and its epoch {} did not", record.epoch),
                });
            }
            let known = &mut self.groups[group as usize];
            known.record = record;
            known.revision = revision;
            return;
        }
        let mut current = Members::NONE;
        for &id in &record.in_sync {
            let position = self
                .store_index
                .get(&id)
                .and_then(|&number| self.position(group, number));
            match position {
                Some(position) if self.groups[group as usize].current.has(position) => current.add(position),
                _ => {
                    // Only an owner can bring a member up to date, and we did not.
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

    /// The group's new epoch: who left is awaited no more, who stays must adopt it.
    fn enter(&mut self, now: Time, group: u32, record: map::Group, revision: u64, current: Members) {
        let state = &mut self.groups[group as usize];
        let left = state.current.without(current);
        state.record = record;
        state.revision = revision;
        state.current = current;
        state.ready = Members::NONE;
        state.doomed = state.doomed.and(current);
        state.missed = Members::NONE;
        let fence = std::mem::replace(&mut state.fence, NIL);
        if fence != NIL {
            self.settle_all(fence);
            self.tasks.remove(fence);
        }
        self.reset_openings(group);
        for position in left.iter() {
            let state = &self.groups[group as usize];
            let warning = Warning::Evicted {
                group: state.id,
                store: self.stores[state.members[position] as usize].id,
                epoch: state.record.epoch,
            };
            self.effects.push_back(Effect::Warn(warning));
        }
        self.forget_members(now, group, left);
        // Only now, the generation being known to be ours, is acknowledged what missed only those that left (R2).
        self.commit_group(group);
        self.send_fence(now, group);
        self.retry_blocked = true;
        self.metadata.evictions = true;
    }

    /// What members that left still owe is owed no more, and whatever they answer is not looked at.
    fn forget_members(&mut self, now: Time, group: u32, left: Members) {
        for slot in self.tasks.slots() {
            if self.tasks[slot].group != group {
                continue;
            }
            for position in left.and(self.tasks[slot].waiting).iter() {
                match self.tasks[slot].kind {
                    Kind::Read(_) => self.give_up_on(now, slot, position),
                    Kind::Confirm => self.confirmed(slot, position),
                    Kind::Orphan => self.settle_and_drop(slot, position),
                    Kind::Write(_) => self.settle(slot, position),
                    Kind::Free | Kind::Fence { .. } | Kind::Open(_) => {
                        unreachable!("fences and openings have ended with the epoch")
                    }
                }
            }
        }
        self.pauses
            .retain(|&(_, paused, position)| paused != group || !left.has(position));
        let state = &mut self.groups[group as usize];
        state.paused = state.paused.without(left);
        for index in 0..self.groups[group as usize].busy.len() {
            let chunk = self.groups[group as usize].busy[index];
            let stalled = self.chunks[chunk as usize].stalled.without(left);
            self.chunks[chunk as usize].stalled = stalled;
        }
    }
}
