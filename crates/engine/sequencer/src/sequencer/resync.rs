//! Resync: members that have missed something are brought up to date, and copies are looked at and repaired.
//!
//! Its state is not in the context: what serves hosts does not look at how far it has come. The two meet in three places: a
//! chunk that is compared may hold its writes back, reads that meet damage ask for a repair, and the next window has its
//! time in the agenda. It is told when a member enters a group or leaves it, gets the answers to what it has asked, and goes
//! on after each event.
//!
//! * `sync`: one member, from its entering to the word that it holds everything: which chunks must be compared.
//! * `mend`: one chunk: compared with another copy, window by window, and mended.
//! * `doubts`: members of which nobody knows what they lack are looked at.
//! * `scrub`: all copies are looked at, and single blocks where a read has met damage; each look is a mending.
//! * `progress`: how far each store has come.

mod doubts;
mod mend;
mod progress;
mod scrub;
mod sync;

pub use progress::SyncProgress;
pub(super) use scrub::Scrubs;

use super::agenda::NEVER;
use super::answer::Misbehaved;
use super::context::Context;
use super::state::ChunkState;
use super::tables::Chunks;
use super::{group, join};
use crate::members::{ByPosition, Members, Position};
use crate::table::{GroupSlot, MendSlot, TaskSlot};
use crate::task::{Kind, SyncStep};
use amita_reactor::{Slice, Time};
use amita_types::message::{AnswerBody, ChunkState as Held, ChunksAnswer, ChunksRequest, Refusal, RequestBody};
use amita_types::{ChunkId, ChunkIndex, Version};
use mend::{After, Mendings, Mode};

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Resync {
    syncs: sync::Syncs,
    mendings: Mendings,
    pub scrubs: Scrubs,
    doubts: doubts::Doubts,
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
        if self.syncs.is_empty() && self.scrubs.is_empty() && self.doubts.is_idle(cx) {
            return;
        }
        self.syncs.seat(cx, now);
        for of in self.syncs.keys() {
            self.syncs.advance(cx, &mut self.mendings, now, of);
        }
        self.scrubs.advance(cx, &mut self.mendings, now);
        self.doubts.advance(cx, &mut self.mendings, now);
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
            After::Looked { .. } | After::Differs => match self.mendings.end_look(cx, of) {
                Some(subject) if subject.mode == Mode::Doubt => self.doubts.compared(cx, &subject, after),
                Some(subject) => {
                    let seen = after == After::Looked { seen: true };
                    self.scrubs.looked(subject.mode, seen);
                }
                None => {}
            },
        }
    }

    /// These members are not syncing any more, or have left: nobody looks at them either.
    pub fn forget(&mut self, cx: &mut Context, group: GroupSlot, positions: Members) {
        for of in self.mendings.keys() {
            if self.mendings.looks_at(of, group, positions) {
                self.mended(cx, of, After::Looked { seen: false });
            }
        }
        self.doubts.forget(group, positions);
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
            (SyncStep::Doubt, AnswerBody::Chunks(ChunksAnswer { chunks, more })) => {
                self.doubts.listed(cx, now, (slot, position), (chunks, more))
            }
            (SyncStep::Chunks(_) | SyncStep::Walk | SyncStep::Doubt, body) => Err(Misbehaved::unasked(&body)),
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
            SyncStep::Doubt => self.doubts.list_again(cx, now, slot),
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
            SyncStep::Doubt => self.doubts.list_again(cx, now, slot),
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

/// Chunks that a member holds, and where the next ones begin.
type Page = (Vec<Held>, Option<ChunkIndex>);

/// Is this a page of a list that begins there and goes on, of what was asked for?
fn check_page(cx: &Context, group: GroupSlot, from: ChunkIndex, (chunks, more): &Page) -> Result<(), Misbehaved> {
    let ordered = chunks.windows(2).all(|pair| pair[0].chunk < pair[1].chunk);
    let onwards = more.is_none_or(|more| chunks.last().is_some_and(|last| last.chunk < more));
    if !ordered || !onwards || chunks.first().is_some_and(|first| first.chunk < from) {
        return Err(Misbehaved("a list of chunks without order".to_owned()));
    }
    // A chunk of another group, or of another core, has other members, or another sequencer: neither is looked at here.
    if chunks.iter().any(|held| !is_listed_here(cx, group, held.chunk)) {
        return Err(Misbehaved("a list of chunks that were not asked for".to_owned()));
    }
    Ok(())
}

/// The chunks that any page lists, up to where all of them go, and where that is. Each with its version where all list it whole at that one.
fn merged(pages: ByPosition<Option<Page>>) -> (Vec<(ChunkIndex, Option<Version>)>, Option<ChunkIndex>) {
    let pages: Vec<Page> = pages.into_iter().flatten().collect();
    let end = pages.iter().filter_map(|(_, more)| *more).min();
    let mut at = vec![0; pages.len()];
    let mut chunks = Vec::new();
    loop {
        let heads = pages.iter().zip(&at).map(|((chunks, _), &at)| chunks.get(at));
        let first = heads.flatten().map(|held| held.chunk).min();
        let Some(index) = first.filter(|index| end.is_none_or(|end| *index < end)) else {
            return (chunks, end);
        };
        let mut version: Option<Version> = None;
        let mut same = true;
        for ((chunks, _), at) in pages.iter().zip(&mut at) {
            match chunks.get(*at).filter(|held| held.chunk == index) {
                Some(held) => {
                    *at += 1;
                    same &= held.incomplete.is_none() && version.is_none_or(|version| version == held.version);
                    version = Some(held.version);
                }
                None => same = false,
            }
        }
        chunks.push((index, version.filter(|_| same)));
    }
}

/// Is a chunk that everybody holds at `version` whole at it? One with our own writes under way is not.
fn is_settled_at(chunks: &Chunks, index: ChunkIndex, version: Version) -> bool {
    match chunks.slot_of(index) {
        None => true,
        Some(chunk) => {
            let chunk = &chunks[chunk];
            !matches!(chunk.state, ChunkState::Open) || chunk.log.issued == version
        }
    }
}
