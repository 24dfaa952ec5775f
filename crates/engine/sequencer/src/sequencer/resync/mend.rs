//! One chunk at a member that is being brought up to date: its entries are compared with those of an in-sync member, and
//! what differs is replaced (R1, R5).
//!
//! The member joins the chunk's history first, so that it misses nothing from then on. It tells since which version its copy
//! is incomplete; all entries up to [`MAX_WRITES_PER_CHUNK`] writes before that version are surely the same everywhere,
//! because no more than those can have been without an acknowledgement. Newer ones are listed, from the member and from a
//! source, a window of blocks at a time. A block whose entry differs (in its version, or in its checksum: a write of a part
//! of a block merges with what the member has) is read from the source, and sent to replace exactly the entry that was
//! listed: a write that came in between wins, and the block is compared again. When nothing differs any more the copy is
//! whole, as of the writes that were sent before.
//!
//! The same is done with a member that is in sync, to look at its copy (see `scrub`): all of it is read and checked there.
//!
//! Here is the course of it, from stage to stage; one window of it is in `window`, and what the chunk was for its snapshots in
//! `states`, or, where it is looked at only, in `look`. Where its member is in doubt, `proof` says what comes of it.

mod look;
mod proof;
mod states;
mod window;

use super::progress::Tallies;
use super::scrub::Scrubs;
use crate::config::MAX_WRITES_PER_CHUNK;
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::pace::{Level, Pass};
use crate::sequencer::context::Context;
use crate::sequencer::join::{self, passes_by_itself};
use crate::sequencer::state::ChunkState;
use crate::sequencer::{care, doubt, group, open};
use crate::table::{ChunkSlot, GroupSlot, MendSlot, SyncSlot, Table, TaskSlot};
use crate::task::{Kind, MendStep, SyncStep, Tasks};
use amita_reactor::{Slice, Time};
use amita_types::message::{
    AnswerBody, ChangesAnswer, DataAnswer, MendedAnswer, OpenRequest, OpenedAnswer, Problem, Purpose, Refusal,
    RequestBody, VerifiedAnswer, WholeRequest,
};
use amita_types::{BlockIndex, SnapshotId, Version};
use look::Views;
use states::States;
use std::time::Duration;
use window::{Listing, Window};

/// After so many comparisons that found the chunk changing, its writes are held while it is compared.
const HOLD_AFTER: u32 = 6;
/// A look at an in-sync member that comes to nothing so often is given up.
const MAX_ATTEMPTS: u32 = 8;
/// How long a chunk that could not be dealt with is left alone.
const PAUSE: Duration = Duration::from_millis(20);
/// How long, where it cannot be opened or no copy of it is intact.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// What a chunk's copy is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sequencer) enum Mode {
    /// Its member is brought up to date: its place among those that are.
    Sync(SyncSlot),
    /// All of it is checked (see `scrub`).
    Scrub,
    /// Its member is in doubt: nothing is changed (see `doubts`).
    Doubt,
    /// The neighbourhood of a block that was found damaged is checked; of a snapshot, the block is replaced.
    Repair(BlockIndex, SnapshotId),
}

/// Whose copy of what, and what for.
#[derive(Clone, Copy, Debug)]
pub(in crate::sequencer) struct Subject {
    pub mode: Mode,
    pub group: GroupSlot,
    pub position: Position,
    pub chunk: ChunkSlot,
}

/// One chunk under way.
#[derive(Debug)]
pub(in crate::sequencer) struct Mending {
    slot: MendSlot,
    subject: Subject,
    stage: Stage,
    scan: Scan,
    not_before: Time,
    /// Members whose copy is damaged.
    bad_sources: Members,
    /// Times that a look at an in-sync member had to begin again.
    attempts: u32,
    /// Its tasks that are awaited.
    tasks: Vec<TaskSlot>,
    /// The leave for the window that is under way; and whether there was one to begin.
    pass: Option<Pass>,
    begun: bool,
    /// The number that the version carries at which the copy is whole, and the one that its first write carried.
    numbers: (SnapshotId, SnapshotId),
    /// The member's states are damaged: all of them are brought anew.
    afresh: bool,
}

/// How the chunk is compared, from its first block to the last.
#[derive(Debug, Default)]
struct Scan {
    /// Entries above this one are compared.
    since: Version,
    /// Everything up to here must be on the source before it is listed.
    mark: Version,
    /// The first block of the window.
    from: BlockIndex,
    /// Something was seen that must be compared again.
    dirty: bool,
    /// Times that it was begun at the first block.
    passes: u32,
    /// Times that the window was listed once more, because it was being written.
    relisted: u32,
}

#[derive(Debug)]
enum Stage {
    /// Until the chunk is open; whether it was asked to be opened.
    Opening { asked: bool },
    /// Until the member has joined the chunk's history.
    Joining,
    /// It was asked since when it is incomplete.
    Asking,
    /// Until what was under way is on the source.
    Settling,
    /// The source was asked what it has, and both for their entries.
    Listing(Listing),
    /// The source was asked for the blocks that differ.
    Fetching(Window),
    /// The member was sent them.
    Putting(Window),
    /// The member was sent what has rotted, to replace it where it lies.
    Restoring(Window),
    /// What only snapshots have is looked at.
    Views(Box<Views>),
    /// Nothing differs any more but what it was for its snapshots.
    Compared,
    /// Its states are compared and brought.
    States(Box<States>),
    /// Until everything was sent to the member.
    Finishing,
    /// It was told that its copy is whole.
    Telling,
}

/// What comes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sequencer) enum After {
    GoesOn,
    /// The copy is whole.
    Whole,
    /// A look at an in-sync member has ended; `seen`: it was a look at all.
    Looked {
        seen: bool,
    },
    /// The same: it has found that the member does not have what the other one has, and nothing that is under way will change that.
    Differs,
}

/// All chunks under way.
#[derive(Debug, Default)]
pub(in crate::sequencer) struct Mendings {
    table: Table<MendSlot, Option<Mending>>,
    /// How many of them are in use.
    active: usize,
}

impl Mendings {
    pub fn start(&mut self, now: Time, mode: Mode, group: GroupSlot, position: Position, chunk: ChunkSlot) {
        self.active += 1;
        self.table.put_with(|slot| Mending {
            slot,
            subject: Subject {
                mode,
                group,
                position,
                chunk,
            },
            stage: Stage::Opening { asked: false },
            scan: Scan::default(),
            not_before: now,
            bad_sources: Members::NONE,
            attempts: 0,
            tasks: Vec::new(),
            pass: None,
            begun: false,
            numbers: (SnapshotId::HEAD, SnapshotId::HEAD),
            afresh: false,
        });
    }

    /// Is the chunk under way for this member that is brought up to date?
    pub fn compares(&self, of: SyncSlot, chunk: ChunkSlot) -> bool {
        let mut all = self.table.iter().flatten();
        all.any(|mending| mending.subject.mode == Mode::Sync(of) && mending.subject.chunk == chunk)
    }

    /// What must hold between events.
    #[cfg(any(test, feature = "planted"))]
    pub fn check(&self, tasks: &Tasks) {
        let mut active = 0;
        for slot in self.table.keys() {
            let Some(mending) = &self.table[slot] else { continue };
            active += 1;
            assert_eq!(mending.slot, slot, "it knows its place");
            for &task in &mending.tasks {
                let own = matches!(tasks[task].kind, Kind::Sync(SyncStep::Mend(of, _)) if of == slot);
                assert!(own, "what it waits for is asked for it");
            }
        }
        assert_eq!(active, self.active);
    }

    pub fn active(&self) -> usize {
        self.active
    }

    pub fn keys(&self) -> impl Iterator<Item = MendSlot> + use<> {
        self.table.keys()
    }

    pub fn get(&mut self, of: MendSlot) -> Option<&mut Mending> {
        self.table[of].as_mut()
    }

    /// Is one of these members, which is in sync, looked at?
    pub fn looks_at(&mut self, of: MendSlot, group: GroupSlot, positions: Members) -> bool {
        self.get(of).is_some_and(|mending| {
            let subject = mending.subject;
            mending.is_look() && subject.group == group && positions.has(subject.position)
        })
    }

    /// A look at an in-sync member has ended.
    pub fn end_look(&mut self, cx: &mut Context, of: MendSlot) -> Option<Subject> {
        let mending = self.table[of].take()?;
        self.active -= 1;
        orphan(&mut cx.tasks, mending.tasks);
        Some(mending.subject)
    }

    /// A member's copy is whole.
    pub fn end_whole(&mut self, cx: &mut Context, of: MendSlot) -> Option<Subject> {
        let mending = self.table[of].take()?;
        cx.counters.mended += 1;
        self.active -= 1;
        let_go(cx, mending.subject.chunk);
        Some(mending.subject)
    }

    /// The member that is brought up to date is gone.
    pub fn drop_of(&mut self, cx: &mut Context, sync: SyncSlot) {
        for of in self.table.keys() {
            let Some(mending) = self.table[of].take_if(|mending| mending.subject.mode == Mode::Sync(sync)) else {
                continue;
            };
            self.active -= 1;
            orphan(&mut cx.tasks, mending.tasks);
            let_go(cx, mending.subject.chunk);
        }
    }
}

/// Answers to these tasks come to nothing.
fn orphan(tasks: &mut Tasks, slots: Vec<TaskSlot>) {
    for slot in slots {
        tasks[slot].kind = Kind::Orphan;
    }
}

/// The chunk's writes are held no longer.
fn let_go(cx: &mut Context, chunk: ChunkSlot) {
    if std::mem::take(&mut cx.chunks[chunk].held_back) {
        cx.intake.is_due = true;
    }
}

/// Versions up to this one are the same wherever the copy was once whole at `base`.
fn common(base: Version) -> Version {
    let counter = base.counter().saturating_sub(u64::from(MAX_WRITES_PER_CHUNK));
    Version::new(base.generation(), counter).expect("smaller than a version that there is")
}

impl Mending {
    fn is_look(&self) -> bool {
        !matches!(self.subject.mode, Mode::Sync(_))
    }

    /// Goes on where nothing is awaited but a change of the chunk or of the member.
    pub fn advance(&mut self, cx: &mut Context, now: Time) -> After {
        // Each turn either ends in a wait or reaches a later stage.
        loop {
            if self.not_before > now {
                cx.agenda.put_off(self.not_before);
                return After::GoesOn;
            }
            if !self.may_begin(cx, now) {
                return After::GoesOn;
            }
            let after = match self.stage {
                Stage::Opening { asked } => self.open(cx, now, asked),
                Stage::Joining => self.join(cx, now),
                Stage::Settling => Some(self.list(cx, now)),
                Stage::Compared => Some(self.begin_states(cx, now)),
                Stage::States(_) => Some(self.bring(cx, now)),
                Stage::Views(_) => Some(self.look_on(cx, now)),
                Stage::Finishing => Some(self.finish(cx, now)),
                Stage::Asking
                | Stage::Listing(_)
                | Stage::Fetching(_)
                | Stage::Putting(_)
                | Stage::Restoring(_)
                | Stage::Telling => Some(After::GoesOn),
            };
            if let Some(after) = after {
                return after;
            }
        }
    }

    /// Has it leave to begin? What waits for others for long keeps nobody from working meanwhile.
    fn may_begin(&mut self, cx: &mut Context, now: Time) -> bool {
        let waits = matches!(
            self.stage,
            Stage::Opening { .. } | Stage::Joining | Stage::Settling | Stage::Compared | Stage::Finishing
        );
        if waits {
            self.pass.take_if(|pass| pass.is_old(now));
        }
        self.begun || self.has_leave(cx, now, false)
    }

    /// Leave for the window that comes next, or a moment to ask again; `held`: clients' writes wait for it.
    fn has_leave(&mut self, cx: &mut Context, now: Time, held: bool) -> bool {
        if self.pass.is_some() {
            return true;
        }
        let level = match self.subject.mode {
            Mode::Sync(_) => care::level(cx, self.subject.group),
            Mode::Scrub => Level::Scrub,
            Mode::Repair(..) | Mode::Doubt => Level::Degraded,
        };
        self.pass = care::window(cx, now, level, held);
        self.begun |= self.pass.is_some();
        self.pass.is_some()
    }

    /// `None`: it has reached another stage.
    fn open(&mut self, cx: &mut Context, now: Time, asked: bool) -> Option<After> {
        let chunk = self.subject.chunk;
        match cx.chunks[chunk].state {
            ChunkState::Open => {
                let issued = cx.chunks[chunk].log.issued;
                match self.subject.mode {
                    Mode::Sync(_) => self.stage = Stage::Joining,
                    Mode::Scrub | Mode::Doubt => self.look_from(BlockIndex(0), issued),
                    Mode::Repair(block, at) if at > SnapshotId::HEAD && look::restores(cx) => {
                        self.repair_view(block, at)
                    }
                    Mode::Repair(block, _) => self.look_from(block, issued),
                }
                None
            }
            ChunkState::Waiting | ChunkState::Opening(_) => Some(After::GoesOn),
            // That came to nothing: no intact copy was found. Perhaps later.
            ChunkState::Closed if asked => Some(self.begin_again(cx, now, LONG_PAUSE)),
            ChunkState::Closed => {
                self.stage = Stage::Opening { asked: true };
                open::want(cx, now, chunk);
                Some(After::GoesOn)
            }
        }
    }

    /// An in-sync member is looked at as it is.
    fn look_from(&mut self, block: BlockIndex, issued: Version) {
        self.scan.since = Version::NONE;
        self.scan.from = block;
        self.scan.mark = issued;
        self.stage = Stage::Settling;
    }

    fn join(&mut self, cx: &mut Context, now: Time) -> Option<After> {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let state = &cx.chunks[chunk];
        if !matches!(state.state, ChunkState::Open) {
            // It is caught up, and will be open again: a chunk that was open never closes.
            self.stage = Stage::Opening { asked: false };
            return None;
        }
        if !cx.can_send(group, position) || state.lag.stalled.has(position) {
            return Some(After::GoesOn);
        }
        if !state.history.joined.has(position) {
            // Behind nothing: whatever it is sent from now on comes after what was given out last.
            let at = (state.log.issued, state.log.number);
            join::first(cx, now, chunk, position, at);
            return Some(After::GoesOn);
        }
        let body = RequestBody::Open(OpenRequest { chunk: state.index });
        self.stage = Stage::Asking;
        self.send(cx, now, position, MendStep::Ask, body, Slice::default());
        Some(After::GoesOn)
    }

    /// Tells the member that its copy is whole.
    fn finish(&mut self, cx: &mut Context, now: Time) -> After {
        let Subject {
            group, position, chunk, ..
        } = self.subject;
        let state = &cx.chunks[chunk];
        if !cx.can_send(group, position) || state.lag.stalled.has(position) {
            return After::GoesOn;
        }
        let (number, born) = self.numbers;
        if number != state.log.number {
            // A write with a newer number was sent since the states were listed: there is one more.
            return self.begin_again(cx, now, PAUSE);
        }
        let body = RequestBody::Whole(WholeRequest {
            chunk: state.index,
            version: state.log.issued,
            number,
            born,
        });
        self.stage = Stage::Telling;
        self.send(cx, now, position, MendStep::Whole, body, Slice::default());
        After::GoesOn
    }

    fn send(
        &mut self,
        cx: &mut Context,
        now: Time,
        position: Position,
        step: MendStep,
        body: RequestBody,
        payload: Slice,
    ) {
        let slot = self.task(cx, now, position, step);
        cx.send(now, slot, position, body, payload);
    }

    /// Asks what the chunk was for a snapshot.
    fn send_view(
        &mut self,
        cx: &mut Context,
        now: Time,
        (position, at): (Position, SnapshotId),
        step: MendStep,
        body: RequestBody,
    ) {
        self.send_to_view(cx, now, (position, at), step, (body, Slice::default()));
    }

    /// The same, and something travels beside it.
    fn send_to_view(
        &mut self,
        cx: &mut Context,
        now: Time,
        (position, at): (Position, SnapshotId),
        step: MendStep,
        (body, payload): (RequestBody, Slice),
    ) {
        let slot = self.task(cx, now, position, step);
        cx.send_at(now, slot, position, at, body, payload);
    }

    /// What is asked of stores for it is for this.
    fn purpose(&self, cx: &Context) -> Purpose {
        let Subject { group, chunk, mode, .. } = &self.subject;
        match mode {
            // Clients' writes wait for it.
            Mode::Sync(_) if cx.chunks[*chunk].held_back => Purpose::Client,
            Mode::Sync(_) => match care::level(cx, *group) {
                Level::Rebalance => Purpose::Move,
                Level::Scrub => Purpose::Scrub,
                Level::Critical | Level::Degraded => Purpose::Recovery,
            },
            Mode::Scrub => Purpose::Scrub,
            Mode::Repair(..) | Mode::Doubt => Purpose::Recovery,
        }
    }

    /// A request of the step, to be sent to a member.
    fn task(&mut self, cx: &mut Context, now: Time, position: Position, step: MendStep) -> TaskSlot {
        let Subject { group, chunk, .. } = self.subject;
        let kind = Kind::Sync(SyncStep::Mend(self.slot, step));
        let slot = cx.tasks.add(kind, group, Some(chunk));
        cx.tasks[slot].purpose = self.purpose(cx);
        self.tasks.push(slot);
        cx.expect(now, slot, position);
        slot
    }

    /// A task is not awaited any more.
    pub fn forget_task(&mut self, slot: TaskSlot) {
        self.tasks.retain(|&task| task != slot);
    }

    /// An answer to the question that the step asks.
    pub fn answered(
        &mut self,
        cx: &mut Context,
        (scrubs, tallies): (&mut Scrubs, &mut Tallies),
        now: Time,
        step: MendStep,
        body: AnswerBody,
        payload: &Slice,
    ) -> After {
        match (step, body) {
            (MendStep::Sure, AnswerBody::Opened(opened)) => self.sure(cx, scrubs, now, opened),
            (MendStep::Held, AnswerBody::Opened(opened)) => self.held(cx, scrubs, now, opened),
            (_, AnswerBody::Opened(OpenedAnswer { incomplete, .. })) => self.asked(cx, now, incomplete),
            (MendStep::States(of_source), AnswerBody::States(page)) => self.listed_states(cx, now, of_source, page),
            (MendStep::StateOf(of_source), AnswerBody::Changes(ChangesAnswer { entries, more })) => {
                self.listed_state(cx, now, of_source, (entries, more))
            }
            (MendStep::StateData(range), AnswerBody::Data(DataAnswer { sums, .. })) => {
                self.state_data(cx, now, range, &sums, payload)
            }
            (MendStep::Views, AnswerBody::States(page)) => self.listed_views(cx, now, page),
            (MendStep::Look, AnswerBody::Verified(VerifiedAnswer { damaged, more, .. })) => {
                self.view_verified(cx, scrubs, now, damaged, more)
            }
            (MendStep::ViewData(_), AnswerBody::Data(DataAnswer { version, sums, .. })) => {
                self.view_fetched(cx, now, (version, &sums, payload))
            }
            (MendStep::Restore(block), AnswerBody::Mended(MendedAnswer { skipped })) => {
                self.restored(cx, scrubs, now, (block, skipped.is_empty()))
            }
            (MendStep::Put, AnswerBody::Mended(MendedAnswer { skipped })) => self.state_put(cx, tallies, now, &skipped),
            (MendStep::Drop | MendStep::Frame | MendStep::Close | MendStep::Mark, AnswerBody::Done) => {
                self.state_done(cx, now)
            }
            (step, AnswerBody::Changes(ChangesAnswer { entries, more })) => {
                let is_source = step == MendStep::Source;
                self.listed(cx, scrubs, now, is_source, (entries, more))
            }
            (_, AnswerBody::Verified(VerifiedAnswer { entries, damaged, more })) => {
                self.verified(cx, scrubs, now, (entries, more), damaged)
            }
            (MendStep::Fetch(range), AnswerBody::Data(DataAnswer { version, sums, .. })) => {
                self.fetched(cx, now, range, version, &sums, payload)
            }
            (_, AnswerBody::Mended(MendedAnswer { skipped })) => self.mended(cx, (scrubs, tallies), now, &skipped),
            _ => After::Whole,
        }
    }

    /// The member says whether its copy is whole.
    fn asked(&mut self, cx: &mut Context, now: Time, incomplete: Option<Version>) -> After {
        let Some(base) = incomplete else {
            return After::Whole;
        };
        let trust_base = cx.config.faults.has(Fault::TrustBase);
        self.scan.since = if trust_base { base } else { common(base) };
        self.begin_pass(cx, now)
    }

    /// Compares the chunk from its first block on.
    fn begin_pass(&mut self, cx: &mut Context, now: Time) -> After {
        self.scan.passes += 1;
        self.scan.dirty = false;
        self.scan.from = BlockIndex(0);
        self.stage = Stage::Settling;
        let chunk = &mut cx.chunks[self.subject.chunk];
        let settling = !cx.config.faults.has(Fault::NoSettling);
        self.scan.mark = if settling { chunk.log.issued } else { Version::NONE };
        if self.scan.passes > HOLD_AFTER && !std::mem::replace(&mut chunk.held_back, true) {
            cx.counters.mend_held += 1;
        }
        self.advance(cx, now)
    }

    pub fn refused(
        &mut self,
        cx: &mut Context,
        scrubs: &mut Scrubs,
        now: Time,
        (position, step): (Position, MendStep),
        refusal: &Refusal,
    ) -> After {
        let at_target = position == self.subject.position;
        if let (MendStep::Restore(block), Refusal::Damaged { .. }) = (step, refusal) {
            return self.not_restored(cx, scrubs, now, block);
        }
        if let (MendStep::Restore(_), Refusal::Busy) = (step, refusal) {
            // Another's restore of the place is under way, or one of ours that was given up: it ends, however slow the disk is.
            self.attempts = self.attempts.saturating_sub(1);
            return self.begin_again(cx, now, PAUSE);
        }
        if matches!(self.stage, Stage::Views(_)) {
            return self.view_refused(cx, now, position, refusal);
        }
        match refusal {
            Refusal::Damaged { block } if !at_target => self.source_damaged(cx, now, position, *block),
            Refusal::Damaged { .. } if self.is_bringing() && !self.afresh => {
                self.afresh = true;
                self.begin_again(cx, now, PAUSE)
            }
            // The source has trimmed the state meanwhile, or the member lost it with the rest of a history.
            Refusal::Invalid {
                what: Problem::Snapshot,
            } if self.is_bringing() => self.begin_again(cx, now, PAUSE),
            // R8: one in sync, which is looked at or compared with, lacks what it has acknowledged, or is not whole.
            Refusal::Behind { .. } | Refusal::Incomplete
                if cx.groups[self.subject.group].members.current.has(position) =>
            {
                self.found_short(cx, now, position, refusal)
            }
            // A write that it refused is to come again before what was sent behind it.
            Refusal::WrongPredecessor { .. } if at_target => self.begin_again(cx, now, PAUSE),
            other if passes_by_itself(other) => self.begin_again(cx, now, PAUSE),
            // What cannot be repaired is as bad as before, and not worse.
            _ if self.is_look() => After::Looked { seen: false },
            other => {
                let group = self.subject.group;
                cx.warn_refused(group, cx.groups[group].members[position], other);
                group::evict_soon(cx, group, position);
                self.begin_again(cx, now, LONG_PAUSE)
            }
        }
    }

    /// A member in sync does not have what it must.
    fn found_short(&mut self, cx: &mut Context, now: Time, position: Position, refusal: &Refusal) -> After {
        let Subject { group, chunk, .. } = self.subject;
        cx.warn_refused(group, cx.groups[group].members[position], refusal);
        match refusal {
            Refusal::Behind { .. } => doubt::lacks(cx, now, chunk, position),
            _ => group::evict_soon(cx, group, position),
        }
        if position != self.subject.position {
            self.bad_sources.add(position);
        }
        self.begin_again(cx, now, PAUSE)
    }

    /// Are states under way?
    fn is_bringing(&self) -> bool {
        matches!(self.stage, Stage::States(_))
    }

    /// The source has no intact copy of a block: another one is asked.
    fn source_damaged(&mut self, cx: &mut Context, now: Time, source: Position, block: BlockIndex) -> After {
        self.bad_sources.add(source);
        cx.found_damage(self.subject.group, source, self.subject.chunk, block);
        self.begin_again(cx, now, Duration::ZERO)
    }

    /// A task's answer will not come.
    pub fn lost(&mut self, cx: &mut Context, now: Time) -> After {
        match self.stage {
            Stage::Views(_) => self.look_again(cx, now),
            _ => self.begin_again(cx, now, PAUSE),
        }
    }

    /// From the start, after a while; what is under way comes to nothing.
    fn begin_again(&mut self, cx: &mut Context, now: Time, pause: Duration) -> After {
        cx.counters.mend_restarts += 1;
        let until = now.plus(pause);
        self.stage = Stage::Opening { asked: false };
        self.pass = None;
        self.not_before = until;
        self.attempts += 1;
        if self.is_look() && self.attempts > MAX_ATTEMPTS {
            return After::Looked { seen: false };
        }
        self.scan.passes = 0;
        orphan(&mut cx.tasks, std::mem::take(&mut self.tasks));
        if !self.is_look() {
            // A look holds nothing: what is held is held for a member that is brought up to date.
            let_go(cx, self.subject.chunk);
        }
        cx.agenda.put_off(until);
        cx.agenda.arm(until);
        After::GoesOn
    }
}

#[cfg(test)]
mod tests;
