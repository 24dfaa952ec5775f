//! Resync: members that have missed something are brought up to date, and copies are looked at and repaired.
//!
//! Its state is not in the context: what serves hosts does not look at how far it has come. The two meet in three places: a
//! chunk that is compared may hold its writes back, reads that meet damage ask for a repair, and the next window has its
//! time in the agenda. It is told when a member enters a group or leaves it, gets the answers to what it has asked, and goes
//! on after each event.
//!
//! * `sync`: one member, from its entering to the word that it holds everything: which chunks must be compared.
//! * `mend`: one chunk: compared with another copy, window by window, and mended.
//! * `scrub`: all copies are looked at, and single blocks where a read has met damage; each look is a mending.
//! * `progress`: how far each store has come.

mod mend;
mod progress;
mod scrub;
mod sync;

pub use progress::SyncProgress;
pub(super) use scrub::Scrubs;

use super::agenda::NEVER;
use super::answer::Misbehaved;
use super::context::Context;
use super::{group, join};
use crate::members::{Members, Position};
use crate::table::{GroupSlot, MendSlot, TaskSlot};
use crate::task::{Kind, SyncStep};
use amita_reactor::{Slice, Time};
use amita_types::message::{AnswerBody, ChunksAnswer, ChunksRequest, Refusal, RequestBody};
use amita_types::{ChunkId, ChunkIndex};
use mend::{After, Mendings, Mode};

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Resync {
    syncs: sync::Syncs,
    mendings: Mendings,
    pub scrubs: Scrubs,
    pub tallies: progress::Tallies,
}

impl Resync {
    /// What must hold between events.
    #[cfg(any(test, feature = "planted"))]
    pub fn check(&self, tasks: &crate::task::Tasks) {
        self.mendings.check(tasks);
    }

    /// A syncing member has adopted the epoch: it gets all writes from now on.
    pub fn entered(&mut self, cx: &mut Context, now: Time, group: GroupSlot, position: Position) {
        let state = &mut cx.groups[group];
        if !state.members.entered.has(position) {
            state.members.entered.add(position);
            self.syncs.wait(group, position);
            self.tallies.entered(now, cx.id_of(group, position));
        }
    }

    /// Does what can be done for members that are brought up to date, and for copies that are looked at. Called after each
    /// event.
    pub fn advance(&mut self, cx: &mut Context, now: Time) {
        while let Some(group) = cx.groups.to_touch.pop() {
            group::touch(cx, now, group);
        }
        // What is still to be done then is put off again below.
        cx.agenda.background = NEVER;
        for passed_over in cx.parents.take_passed_over() {
            self.syncs.compare_too(cx, &self.mendings, passed_over);
        }
        if self.syncs.is_empty() && self.scrubs.is_empty() {
            return;
        }
        self.syncs.seat(cx, now);
        for of in self.syncs.keys() {
            self.syncs.advance(cx, &mut self.mendings, now, of);
        }
        self.scrubs.advance(cx, &mut self.mendings, now);
        for of in self.mendings.keys() {
            if let Some(mending) = self.mendings.get(of) {
                let after = mending.advance(cx, now);
                self.mended(cx, of, after);
            }
        }
        for of in self.syncs.keys() {
            self.syncs.end(cx, &mut self.mendings, &mut self.tallies, now, of);
        }
        cx.agenda.arm(cx.agenda.background);
    }

    /// What comes of a mending that has gone on.
    fn mended(&mut self, cx: &mut Context, of: MendSlot, after: After) {
        match after {
            After::GoesOn => {}
            After::Whole => {
                let Some(subject) = self.mendings.end_whole(cx, of) else {
                    return;
                };
                if let Mode::Sync(sync) = subject.mode {
                    self.tallies.mended(cx.id_of(subject.group, subject.position));
                    self.syncs.chunk_mended(sync);
                }
            }
            After::Looked { seen } => {
                if let Some(mode) = self.mendings.end_look(cx, of) {
                    self.scrubs.looked(mode, seen);
                }
            }
        }
    }

    /// These members are not syncing any more, or have left: nobody looks at them either.
    pub fn forget(&mut self, cx: &mut Context, group: GroupSlot, positions: Members) {
        for of in self.mendings.keys() {
            if self.mendings.looks_at(of, group, positions) {
                self.mended(cx, of, After::Looked { seen: false });
            }
        }
        let (mendings, tallies) = (&mut self.mendings, &mut self.tallies);
        self.syncs.forget(cx, mendings, tallies, group, positions);
    }

    /// An answer to a request of this part.
    pub fn answered(
        &mut self,
        cx: &mut Context,
        now: Time,
        (slot, position): (TaskSlot, Position),
        step: SyncStep,
        body: AnswerBody,
        payload: Slice,
    ) -> Result<(), Misbehaved> {
        match (step, body) {
            (SyncStep::Chunks(of), AnswerBody::Chunks(ChunksAnswer { chunks, more })) => {
                let tallies = &mut self.tallies;
                self.syncs
                    .listed(cx, tallies, now, (slot, position), of, (chunks, more))
            }
            (SyncStep::Walk, AnswerBody::Chunks(ChunksAnswer { chunks, more })) => {
                self.scrubs.listed(cx, now, slot, position, &chunks, more);
                Ok(())
            }
            (SyncStep::Chunks(_) | SyncStep::Walk, body) => Err(Misbehaved::unasked(&body)),
            (SyncStep::Mend(of, step), body) => {
                if !step.is_answered_by(&body) {
                    return Err(Misbehaved::unasked(&body));
                }
                cx.settle_and_drop(slot, position);
                cx.care.pacer.tell(now);
                if let Some(mending) = self.mendings.get(of) {
                    mending.forget_task(slot);
                    let beside = (&mut self.scrubs, &mut self.tallies);
                    let after = mending.answered(cx, beside, now, step, body, &payload);
                    self.mended(cx, of, after);
                }
                Ok(())
            }
        }
    }

    pub fn refused(
        &mut self,
        cx: &mut Context,
        now: Time,
        slot: TaskSlot,
        position: Position,
        step: SyncStep,
        refusal: &Refusal,
    ) {
        let group = cx.tasks[slot].group;
        match step {
            SyncStep::Chunks(of) => {
                if !join::passes_by_itself(refusal) {
                    cx.warn_refused(group, cx.groups[group].members[position], refusal);
                    group::evict_soon(cx, group, position);
                }
                self.syncs.list_again(cx, now, slot, of);
            }
            SyncStep::Walk => self.scrubs.list_again(cx, now, slot),
            SyncStep::Mend(of, step) => {
                cx.settle_and_drop(slot, position);
                if let Some(mending) = self.mendings.get(of) {
                    mending.forget_task(slot);
                    let after = mending.refused(cx, &mut self.scrubs, now, (position, step), refusal);
                    self.mended(cx, of, after);
                }
            }
        }
    }

    /// The answer will not come.
    pub fn lost(&mut self, cx: &mut Context, now: Time, slot: TaskSlot, position: Position, step: SyncStep) {
        match step {
            SyncStep::Chunks(of) => self.syncs.list_again(cx, now, slot, of),
            SyncStep::Walk => self.scrubs.list_again(cx, now, slot),
            SyncStep::Mend(of, _) => {
                cx.settle_and_drop(slot, position);
                if let Some(mending) = self.mendings.get(of) {
                    mending.forget_task(slot);
                    let after = mending.lost(cx, now);
                    self.mended(cx, of, after);
                }
            }
        }
    }
}

/// Asks members for a page of the group's chunks that they hold, if all of them can be asked.
fn ask_for_chunks(
    cx: &mut Context,
    now: Time,
    (group, members): (GroupSlot, Members),
    step: SyncStep,
    from: ChunkIndex,
) -> bool {
    if !group::is_fenced(cx, group) || !members.iter().all(|member| cx.can_send(group, member)) {
        return false;
    }
    let slot = cx.tasks.add(Kind::Sync(step), group, None);
    let body = RequestBody::Chunks(ChunksRequest {
        from,
        core: cx.config.core,
        cores: cx.config.cores.max(1),
        groups: cx.owned.pool.groups,
        place: Some(cx.owned.volume.place()).filter(|place| *place != cx.owned.volume.id),
    });
    for member in members.iter() {
        cx.expect(now, slot, member);
        cx.send(now, slot, member, body.clone(), Slice::default());
    }
    true
}

/// Is it a chunk that a list of the group's chunks may name, which was asked for by this core?
fn is_listed_here(cx: &Context, group: GroupSlot, index: ChunkIndex) -> bool {
    let id = ChunkId {
        volume: cx.owned.volume.id,
        index,
    };
    let cores = usize::from(cx.config.cores.max(1));
    cx.group_of(index) == group && id.core(cores) == usize::from(cx.config.core)
}
