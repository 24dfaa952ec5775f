//! Opening a chunk, on its first touch (R6).
//!
//! Every in-sync member is asked for its version, all of them fenced, so that what they say stays true. Equal, as it
//! nearly always is: the chunk is whole at that version. Else the longest has everything that was ever acknowledged,
//! and what it has more is carried out on the others (see `roll`). Whatever disturbs (a link, an epoch, a refusal)
//! starts the opening again from the first question; nothing of it is half done on a store, because a roll-forward is
//! applied there by one record.

use super::Sequencer;
use super::roll::Roll;
use super::state::ChunkState;
use crate::config::MAX_OPENINGS;
use crate::faults::Fault;
use crate::io::{Effect, StopReason, Warning};
use crate::members::{ByPosition, Members, Position};
use crate::table::{ChunkSlot, GroupSlot, Key, ListPlace, TaskSlot};
use crate::task::{Kind, List, Step};
use amita_reactor::buggify::{Point, narrow};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Payload};
use amita_types::message::{AnswerBody, ChangesAnswer, DataAnswer, OpenRequest, OpenedAnswer, Refusal, RequestBody};
use amita_types::{ChunkId, Epoch, Version};

/// Where an opening stands.
#[derive(Debug)]
pub(super) enum Phase {
    Asking,
    Rolling(Roll),
    /// Rolled forward; the group's epoch is read once more.
    Checking,
}

/// An opening under way.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) phase: Phase,
    /// All answers belong to it.
    pub(super) epoch: Epoch,
    pub(super) versions: ByPosition<Version>,
    pub(super) longest: Version,
    /// Its requests under way.
    pub(super) tasks: Vec<TaskSlot>,
    /// The read of the metadata that is the check has been started.
    covered: bool,
}

/// Chunks that are being opened at one time, at most.
fn most_openings() -> usize {
    if narrow(Point::OneOpening) { 1 } else { MAX_OPENINGS }
}

impl Opening {
    pub(super) fn cover_check(&mut self) {
        self.covered |= matches!(self.phase, Phase::Checking);
    }

    pub(super) fn roll(&mut self) -> &mut Roll {
        match &mut self.phase {
            Phase::Rolling(roll) => roll,
            other => panic!("a roll-forward was expected, not {other:?}"),
        }
    }

    /// The version to open at, when the check was read.
    pub(super) fn checked(&self) -> Option<Version> {
        (matches!(self.phase, Phase::Checking) && self.covered).then_some(self.longest)
    }
}

impl Sequencer {
    /// The chunk is to be opened, now or when its group is fenced.
    pub(super) fn want_open(&mut self, now: Time, chunk: ChunkSlot) {
        if matches!(self.chunks[chunk].state, ChunkState::Closed) {
            let group = self.chunks[chunk].group;
            self.enter_opening(chunk);
            self.touch(now, group);
            self.open_chunks(now, group);
            self.arm_silence_of(now, group);
        }
    }

    /// The chunk waits for its turn to be opened.
    pub(super) fn enter_opening(&mut self, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        let number = state.group;
        state.state = ChunkState::Waiting;
        let group = &mut self.groups[number];
        state.opening_at = Some(ListPlace::new(group.opening.len()));
        group.opening.push(chunk);
        group.waiting.push_back(chunk);
        self.note_opening(number);
    }

    /// Starts every opening that waits, if the group is fenced.
    pub(super) fn open_chunks(&mut self, now: Time, group: GroupSlot) {
        if !self.is_fenced(group) || !self.groups[group].paused.is_empty() {
            return;
        }
        while self.groups.openings < most_openings() {
            let Some(chunk) = self.groups[group].waiting.pop_front() else {
                return;
            };
            self.ask(now, chunk);
        }
        let state = &mut self.groups[group];
        if !state.waiting.is_empty() && !std::mem::replace(&mut state.starved, true) {
            self.groups.starved.push_back(group);
        }
    }

    /// Where openings have ended others may begin, in the order in which their groups had to wait. (A group that is not
    /// fenced just now is looked at when it is.)
    pub(super) fn retry_openings(&mut self, now: Time) {
        while !self.groups.starved.is_empty() && self.groups.openings < most_openings() {
            if let Some(group) = self.groups.starved.pop_front() {
                self.groups[group].starved = false;
                self.open_chunks(now, group);
            }
        }
    }

    fn ask(&mut self, now: Time, chunk: ChunkSlot) {
        let state = &self.chunks[chunk];
        let (index, number) = (state.index, state.group);
        let group = &self.groups[number];
        let (epoch, members) = (group.record.epoch, group.current.and(group.ready));
        let slot = self.tasks.add(Kind::Open(Step::Ask), number, Some(chunk));
        self.groups.openings += 1;
        self.chunks[chunk].state = ChunkState::Opening(Box::new(Opening {
            phase: Phase::Asking,
            epoch,
            versions: ByPosition::filled(Version::NONE),
            longest: Version::NONE,
            tasks: vec![slot],
            covered: false,
        }));
        for position in members.iter() {
            self.expect(now, slot, position);
            self.send(
                now,
                slot,
                position,
                RequestBody::Open(OpenRequest { chunk: index }),
                Slice::default(),
            );
        }
    }

    /// The opening that a task belongs to.
    pub(super) fn opening(&mut self, chunk: ChunkSlot) -> &mut Opening {
        match &mut self.chunks[chunk].state {
            ChunkState::Opening(opening) => opening,
            other => panic!("an opening's requests end with it, and the chunk is {other:?}"),
        }
    }

    /// An answer to one of an opening's requests.
    pub(super) fn opening_answered(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        body: AnswerBody,
        payload: &Slice,
    ) {
        let chunk = self.tasks[slot].chunk();
        let Kind::Open(step) = self.tasks[slot].kind else {
            unreachable!("the caller has looked")
        };
        let group = self.tasks[slot].group;
        let epoch = self.groups[group].record.epoch;
        assert_eq!(self.opening(chunk).epoch, epoch, "an opening ends with its epoch (R6)");
        match (step, body) {
            (Step::Ask, AnswerBody::Opened(OpenedAnswer { version, incomplete })) => {
                if incomplete.is_some() {
                    // It is not in sync, whatever the record says (R5).
                    self.misbehaved(
                        now,
                        slot,
                        position,
                        "an incomplete copy, though it is in sync".to_owned(),
                    );
                    return;
                }
                if version.generation() > self.owned.generation {
                    let generation = version.generation();
                    return self.stop(StopReason::Deposed { generation });
                }
                self.settle(slot, position);
                self.opening(chunk).versions[position] = version;
                if self.tasks[slot].waiting.is_empty() {
                    self.end_task(slot, chunk);
                    self.compare(now, chunk);
                }
            }
            (Step::List, AnswerBody::Changes(ChangesAnswer { entries, more })) => {
                self.settle(slot, position);
                self.end_task(slot, chunk);
                self.listed(now, chunk, position, entries, more);
            }
            (Step::Fetch(range), AnswerBody::Data(DataAnswer { sums, .. })) => {
                self.settle(slot, position);
                self.end_task(slot, chunk);
                self.fetched(now, chunk, position, range, &sums, payload);
            }
            (Step::Roll, AnswerBody::Done) => {
                self.settle(slot, position);
                self.end_task(slot, chunk);
                self.rolled(now, chunk);
            }
            (_, body) => self.misbehaved(
                now,
                slot,
                position,
                format!("an answer that was not asked for: {body:?}"),
            ),
        }
    }

    pub(super) fn end_task(&mut self, slot: TaskSlot, chunk: ChunkSlot) {
        self.tasks.remove(slot);
        self.opening(chunk).tasks.retain(|&task| task != slot);
    }

    /// All members have said what they hold.
    fn compare(&mut self, now: Time, chunk: ChunkSlot) {
        let group = self.chunks[chunk].group;
        let mut members = self.groups[group].current;
        if self.config.faults.has(Fault::ServeHalfFenced) {
            members = members.and(self.groups[group].ready);
        }
        let opening = self.opening(chunk);
        let longest = members
            .iter()
            .map(|position| opening.versions[position])
            .max()
            .unwrap_or(Version::NONE);
        opening.longest = longest;
        let mut claims = members.iter().map(|position| opening.versions[position]);
        if !claims.all(|version| longest.may_follow(version)) && !self.config.faults.has(Fault::AnyJump) {
            return self.implausible(now, chunk, members);
        }
        let opening = self.opening(chunk);
        let mut shorter = Members::NONE;
        for position in members.iter() {
            if opening.versions[position] < longest {
                shorter.add(position);
            }
        }
        if shorter.is_empty() || self.config.faults.has(Fault::OpenWithoutRoll) {
            // Nothing was changed, and every member was fenced at this epoch when it answered: no further check.
            return self.chunk_opened(now, chunk, longest);
        }
        self.start_roll(now, chunk, members, shorter);
    }

    /// In-sync members claim versions that are further apart than any history makes them. Which of them is wrong nobody
    /// here can tell: what the longest has may be a lie, and what the others have may be too little. So nothing is changed.
    fn implausible(&mut self, now: Time, chunk: ChunkSlot, members: Members) {
        let group = self.chunks[chunk].group;
        let versions = self.opening(chunk).versions;
        let claims = members.iter().map(|position| {
            let store = self.id_of(group, position);
            format!("store {store} is at version {}", versions[position])
        });
        let why = format!(
            "its copies cannot be of one history ({})",
            claims.collect::<Vec<_>>().join(", ")
        );
        self.warn_implausible(chunk, why);
        self.opening_failed(now, chunk, IoError::Damaged);
    }

    /// Says once why the chunk's I/O fails.
    pub(super) fn warn_implausible(&mut self, chunk: ChunkSlot, why: String) {
        if !std::mem::replace(&mut self.chunks[chunk].implausible, true) {
            let chunk = ChunkId {
                volume: self.owned.volume.id,
                index: self.chunks[chunk].index,
            };
            self.effects
                .push_back(Effect::Warn(Warning::Implausible { chunk, why }));
        }
    }

    /// The chunk is whole at `version` on every member.
    pub(super) fn chunk_opened(&mut self, now: Time, chunk: ChunkSlot, version: Version) {
        self.drop_opening(chunk);
        self.leave_opening(chunk);
        let state = &mut self.chunks[chunk];
        state.state = ChunkState::Open;
        state.bad_sources = Members::NONE;
        state.implausible = false;
        if state.catching {
            self.caught_up(now, chunk, version);
        } else {
            self.counters.opened += 1;
            state.issued = version;
            state.committed = version;
        }
        self.advance_chunk(now, chunk);
    }

    fn leave_opening(&mut self, chunk: ChunkSlot) {
        let group = self.chunks[chunk].group;
        let place = self.chunks[chunk]
            .opening_at
            .take()
            .expect("a chunk that opens is in the list");
        let opening = &mut self.groups[group].opening;
        let gone = opening.swap_remove(place.at());
        assert_eq!(gone, chunk, "a chunk that opens is in the list");
        if let Some(&moved) = opening.get(place.at()) {
            self.chunks[moved].opening_at = Some(place);
        }
    }

    /// No member has an intact copy of what must be rolled forward: I/O that waits fails, the next touch tries again.
    pub(super) fn opening_failed(&mut self, now: Time, chunk: ChunkSlot, error: IoError) {
        self.drop_opening(chunk);
        self.leave_opening(chunk);
        if self.chunks[chunk].catching {
            return self.catch_up_failed(now, chunk);
        }
        let state = &mut self.chunks[chunk];
        state.state = ChunkState::Closed;
        state.bad_sources = Members::NONE;
        let queues = [
            std::mem::take(&mut state.queued_writes),
            std::mem::take(&mut state.queued_clears),
            std::mem::take(&mut state.queued_reads),
            std::mem::take(&mut state.queued_compares),
            std::mem::take(&mut state.compared),
        ];
        state.comparing = None;
        for mut queue in queues {
            self.fail_queue(&mut queue, error);
        }
    }

    fn fail_queue(&mut self, queue: &mut List, error: IoError) {
        while let Some(slot) = queue.head() {
            self.tasks.unlink(queue, slot);
            let course = self.course(slot);
            let io = match self.tasks.remove(slot) {
                Kind::Write(write) => write.io,
                Kind::Read(read) => read.io,
                other => unreachable!("queues hold I/O, not {other:?}"),
            };
            self.done(io, Err(error), Payload::None, course);
        }
    }

    pub(super) fn opening_refused(&mut self, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
        let chunk = self.tasks[slot].chunk();
        let group = self.tasks[slot].group;
        match refusal {
            Refusal::StaleEpoch { .. }
            | Refusal::NotFenced
            | Refusal::Fenced { .. }
            | Refusal::Busy
            | Refusal::Poisoned
            | Refusal::NoSuchStore => {}
            Refusal::Damaged { block } => {
                self.found_damage(group, position, chunk, *block);
                let as_source = matches!(self.tasks[slot].kind, Kind::Open(Step::List | Step::Fetch(_)));
                if as_source {
                    self.chunks[chunk].bad_sources.add(position);
                } else {
                    // It cannot take what the others have, so it goes; where that may not be, I/O is not kept waiting.
                    self.evict_soon(group, position);
                    if self.groups[group].current.count() <= self.owned.min_copies {
                        return self.opening_failed(now, chunk, IoError::Damaged);
                    }
                    self.pause(now, group, position, self.config.busy_pause * 10);
                }
            }
            other => {
                // R7: who cannot take what is valid is evicted.
                self.warn_refused(group, self.groups[group].members[position], other);
                self.evict_soon(group, position);
                self.pause(now, group, position, self.config.busy_pause * 10);
            }
        }
        self.restart_opening(now, chunk);
    }

    /// From the first question, when the group is fenced (which it may well be).
    pub(super) fn restart_opening(&mut self, now: Time, chunk: ChunkSlot) {
        let group = self.chunks[chunk].group;
        if self.drop_opening(chunk) {
            self.groups[group].waiting.push_back(chunk);
        }
        self.open_chunks(now, group);
    }

    /// Ends what is asked for a chunk's opening; false where nothing was, and the chunk waits. From now on it does, and
    /// whoever calls puts it with those that wait, or has it leave.
    fn drop_opening(&mut self, chunk: ChunkSlot) -> bool {
        let ChunkState::Opening(opening) = std::mem::replace(&mut self.chunks[chunk].state, ChunkState::Waiting) else {
            return false;
        };
        self.groups.openings -= 1;
        for slot in opening.tasks {
            self.settle_all(slot);
            self.tasks.remove(slot);
        }
        true
    }

    /// All openings of a group wait for its fence again.
    pub(super) fn reset_openings(&mut self, group: GroupSlot) {
        for index in 0..self.groups[group].opening.len() {
            let chunk = self.groups[group].opening[index];
            if self.drop_opening(chunk) {
                self.groups[group].waiting.push_back(chunk);
            }
        }
    }

    /// A new request of an opening, to one member.
    pub(super) fn opening_send(
        &mut self,
        now: Time,
        chunk: ChunkSlot,
        position: Position,
        step: Step,
        body: RequestBody,
        payload: Slice,
    ) {
        let group = self.chunks[chunk].group;
        let slot = self.tasks.add(Kind::Open(step), group, Some(chunk));
        self.opening(chunk).tasks.push(slot);
        self.expect(now, slot, position);
        self.send(now, slot, position, body, payload);
    }
}
