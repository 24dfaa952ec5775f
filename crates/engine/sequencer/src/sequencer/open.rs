//! Opening a chunk, on its first touch (R6).
//!
//! Every in-sync member is asked for its version, all of them fenced, so that what they say stays true. Equal, as it
//! nearly always is: the chunk is whole at that version. Else the longest has everything that was ever acknowledged,
//! and what it has more is carried out on the others (see `roll`). Whatever disturbs (a link, an epoch, a refusal)
//! starts the opening again from the first question; nothing of it is half done on a store, because a roll-forward is
//! applied there by one record.

use super::answer::Misbehaved;
use super::context::Context;
use super::roll::Roll;
use super::state::ChunkState;
use super::{catch_up, group, parents, pipeline, roll, silence};
use crate::config::MAX_OPENINGS;
use crate::faults::Fault;
use crate::io::{Effect, StopReason, Warning};
use crate::members::{ByPosition, Members, Position};
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, List, Step};
use amita_reactor::buggify::{Point, narrow};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Payload};
use amita_types::message::{
    AnswerBody, ChangesAnswer, DataAnswer, OpenRequest, OpenedAnswer, Problem, Refusal, RequestBody,
};
use amita_types::{Epoch, SnapshotId, Version};

/// Where an opening stands.
#[derive(Debug)]
pub(super) enum Phase {
    Asking,
    /// Members say and make what they inherit (see `parents`).
    Inheriting,
    /// They do not inherit the same: the parent's owner is to open its chunk.
    Unsettled,
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
    /// The snapshot numbers of these versions, and of the longest (S3).
    pub(super) numbers: ByPosition<SnapshotId>,
    pub(super) number: SnapshotId,
    /// What members inherit was asked for; those in sync that had no such chunk.
    pub(super) inherits: bool,
    pub(super) heirs: Members,
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

    /// Is the source asked for a state of the chunk?
    fn asks_state(&self, step: Step) -> bool {
        let at_state = matches!(&self.phase, Phase::Rolling(roll) if roll.to.at > SnapshotId::HEAD);
        at_state && matches!(step, Step::List | Step::Fetch(_))
    }

    /// The version to open at, and its number, when the check was read.
    pub(super) fn checked(&self) -> Option<(Version, SnapshotId)> {
        (matches!(self.phase, Phase::Checking) && self.covered).then_some((self.longest, self.number))
    }
}

/// The chunk is to be opened, now or when its group is fenced.
pub(super) fn want(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    if matches!(cx.chunks[chunk].state, ChunkState::Closed) {
        let group = cx.chunks[chunk].group;
        enter(cx, chunk);
        group::touch(cx, now, group);
        advance(cx, now, group);
        silence::arm_of(cx, now, group);
    }
}

/// The chunk waits for its turn to be opened.
pub(super) fn enter(cx: &mut Context, chunk: ChunkSlot) {
    let state = &mut cx.chunks[chunk];
    let number = state.group;
    state.state = ChunkState::Waiting;
    let group = &mut cx.groups[number];
    state.opening_at = Some(group.openings.all.push(chunk));
    group.openings.waiting.push_back(chunk);
    silence::note_opening(cx, number);
}

/// Starts every opening that waits, if the group is fenced.
pub(super) fn advance(cx: &mut Context, now: Time, group: GroupSlot) {
    if !group::is_fenced(cx, group) || !cx.groups[group].paused.is_empty() {
        return;
    }
    while cx.groups.openings < most_openings() {
        let Some(chunk) = cx.groups[group].openings.waiting.pop_front() else {
            return;
        };
        ask(cx, now, chunk);
    }
    let state = &mut cx.groups[group];
    if !state.openings.waiting.is_empty() && !std::mem::replace(&mut state.openings.starved, true) {
        cx.groups.starved.push_back(group);
    }
}

/// Where openings have ended others may begin, in the order in which their groups had to wait. (A group that is not
/// fenced just now is looked at when it is.)
pub(super) fn retry(cx: &mut Context, now: Time) {
    while !cx.groups.starved.is_empty() && cx.groups.openings < most_openings() {
        if let Some(group) = cx.groups.starved.pop_front() {
            cx.groups[group].openings.starved = false;
            advance(cx, now, group);
        }
    }
}

fn ask(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let state = &cx.chunks[chunk];
    let (index, number) = (state.index, state.group);
    let group = &cx.groups[number];
    let (epoch, members) = (group.record.epoch, group.members.current.and(group.fence.ready));
    let slot = cx.tasks.add(Kind::Open(Step::Ask), number, Some(chunk));
    cx.groups.openings += 1;
    cx.chunks[chunk].state = ChunkState::Opening(Box::new(Opening {
        phase: Phase::Asking,
        epoch,
        versions: ByPosition::filled(Version::NONE),
        longest: Version::NONE,
        numbers: ByPosition::filled(SnapshotId::HEAD),
        number: SnapshotId::HEAD,
        inherits: false,
        heirs: Members::NONE,
        tasks: vec![slot],
        covered: false,
    }));
    for position in members.iter() {
        cx.expect(now, slot, position);
        cx.send(
            now,
            slot,
            position,
            RequestBody::Open(OpenRequest { chunk: index }),
            Slice::default(),
        );
    }
}

/// An answer to one of an opening's requests.
pub(super) fn answered(
    cx: &mut Context,
    now: Time,
    slot: TaskSlot,
    position: Position,
    body: AnswerBody,
    payload: &Slice,
) -> Result<(), Misbehaved> {
    let chunk = cx.tasks[slot].chunk();
    let Kind::Open(step) = cx.tasks[slot].kind else {
        unreachable!("the caller has looked")
    };
    let group = cx.tasks[slot].group;
    let epoch = cx.groups[group].record.epoch;
    assert_eq!(
        cx.chunks.opening(chunk).epoch,
        epoch,
        "an opening ends with its epoch (R6)"
    );
    match (step, body) {
        (
            Step::Ask,
            AnswerBody::Opened(OpenedAnswer {
                version,
                incomplete,
                number,
            }),
        ) => {
            if incomplete.is_some() {
                // It is not in sync, whatever the record says (R5).
                return Err(Misbehaved("an incomplete copy, though it is in sync".to_owned()));
            }
            if version.generation() > cx.owned.generation {
                let generation = version.generation();
                cx.stop(StopReason::Deposed { generation });
                return Ok(());
            }
            cx.settle(slot, position);
            let opening = cx.chunks.opening(chunk);
            opening.versions[position] = version;
            opening.numbers[position] = number;
            if cx.tasks[slot].waiting.is_empty() {
                end_task(cx, slot, chunk);
                compare(cx, now, chunk);
            }
        }
        (Step::Inherit, AnswerBody::Opened(opened)) => {
            cx.settle(slot, position);
            end_task(cx, slot, chunk);
            return parents::told(cx, now, chunk, position, opened);
        }
        (Step::Make(in_sync), AnswerBody::Done) => {
            cx.settle(slot, position);
            end_task(cx, slot, chunk);
            parents::made(cx, now, chunk, in_sync);
        }
        (Step::States, AnswerBody::States(page)) => {
            cx.settle(slot, position);
            end_task(cx, slot, chunk);
            roll::states_listed(cx, now, chunk, position, page);
        }
        (Step::List, AnswerBody::Changes(ChangesAnswer { entries, more })) => {
            cx.settle(slot, position);
            end_task(cx, slot, chunk);
            roll::listed(cx, now, chunk, position, entries, more);
        }
        (Step::Fetch(range), AnswerBody::Data(DataAnswer { sums, .. })) => {
            cx.settle(slot, position);
            end_task(cx, slot, chunk);
            roll::fetched(cx, now, chunk, position, range, &sums, payload);
        }
        (Step::Roll, AnswerBody::Done) => {
            cx.settle(slot, position);
            end_task(cx, slot, chunk);
            roll::rolled(cx, now, chunk);
        }
        (_, body) => return Err(Misbehaved::unasked(&body)),
    }
    Ok(())
}

pub(super) fn end_task(cx: &mut Context, slot: TaskSlot, chunk: ChunkSlot) {
    cx.tasks.remove(slot);
    cx.chunks.opening(chunk).tasks.retain(|&task| task != slot);
}

/// Ends what is asked for a chunk's opening.
pub(super) fn drop_tasks(cx: &mut Context, chunk: ChunkSlot) {
    for slot in std::mem::take(&mut cx.chunks.opening(chunk).tasks) {
        cx.settle_all(slot);
        cx.tasks.remove(slot);
    }
}

/// Does the opening of the chunk wait for that of its parent's?
pub(super) fn is_unsettled(cx: &Context, chunk: ChunkSlot) -> bool {
    matches!(&cx.chunks[chunk].state, ChunkState::Opening(opening) if matches!(opening.phase, Phase::Unsettled))
}

/// It waits for that, and keeps no other chunk from being opened meanwhile.
pub(super) fn rest(cx: &mut Context, chunk: ChunkSlot) {
    cx.chunks.opening(chunk).phase = Phase::Unsettled;
    cx.groups.openings -= 1;
}

/// All members have said what they hold.
pub(super) fn compare(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let group = cx.chunks[chunk].group;
    let mut members = cx.groups[group].members.current;
    if cx.config.faults.has(Fault::ServeHalfFenced) {
        members = members.and(cx.groups[group].fence.ready);
    }
    if parents::ask(cx, now, chunk, members) {
        return;
    }
    let opening = cx.chunks.opening(chunk);
    let longest = members
        .iter()
        .map(|position| opening.versions[position])
        .max()
        .unwrap_or(Version::NONE);
    opening.longest = longest;
    // Copies of one version carry one number (S5): the largest is that of the longest, whoever has it.
    opening.number = members
        .iter()
        .map(|position| opening.numbers[position])
        .max()
        .unwrap_or_default();
    let number = opening.number;
    let mut claims = members.iter().map(|position| opening.versions[position]);
    if !claims.all(|version| longest.may_follow(version)) && !cx.config.faults.has(Fault::AnyJump) {
        return implausible(cx, now, chunk, members);
    }
    if number > cx.cut.number {
        let known = cx.cut.number;
        let why = format!(
            "a copy of it knows snapshot {}, and the volume's record {}; was the metadata restored from an older copy?",
            number.0, known.0
        );
        warn_implausible(cx, chunk, why);
        return fail(cx, now, chunk, IoError::Damaged);
    }
    if cx.chunks[chunk].lag.catching && !catch_up::is_plausible(cx, chunk, longest) {
        // Before the others get what that one claims.
        return fail(cx, now, chunk, IoError::Damaged);
    }
    let opening = cx.chunks.opening(chunk);
    let mut shorter = Members::NONE;
    for position in members.iter() {
        if opening.versions[position] < longest {
            shorter.add(position);
        }
    }
    if shorter.is_empty() || cx.config.faults.has(Fault::OpenWithoutRoll) {
        // Nothing was changed, and every member was fenced at this epoch when it answered: no further check.
        return opened(cx, now, chunk, longest, number);
    }
    roll::start(cx, now, chunk, members, shorter);
}

/// In-sync members claim versions that are further apart than any history makes them. Which of them is wrong nobody
/// here can tell: what the longest has may be a lie, and what the others have may be too little. So nothing is changed.
fn implausible(cx: &mut Context, now: Time, chunk: ChunkSlot, members: Members) {
    let group = cx.chunks[chunk].group;
    let versions = cx.chunks.opening(chunk).versions;
    let claims = members.iter().map(|position| {
        let store = cx.id_of(group, position);
        format!("store {store} is at version {}", versions[position])
    });
    let why = format!(
        "its copies cannot be of one history ({})",
        claims.collect::<Vec<_>>().join(", ")
    );
    warn_implausible(cx, chunk, why);
    fail(cx, now, chunk, IoError::Damaged);
}

/// Says once why the chunk's I/O fails.
pub(super) fn warn_implausible(cx: &mut Context, chunk: ChunkSlot, why: String) {
    if !std::mem::replace(&mut cx.chunks[chunk].implausible, true) {
        let chunk = cx.chunk_id(chunk);
        cx.effects.push_back(Effect::Warn(Warning::Implausible { chunk, why }));
    }
}

/// The chunk is whole at `version` on every member.
pub(super) fn opened(cx: &mut Context, now: Time, chunk: ChunkSlot, version: Version, number: SnapshotId) {
    interrupt(cx, chunk);
    leave(cx, chunk);
    parents::settled(cx, chunk);
    let state = &mut cx.chunks[chunk];
    state.state = ChunkState::Open;
    state.bad_sources = Members::NONE;
    state.implausible = false;
    if state.lag.catching {
        catch_up::end(cx, now, chunk, version);
    } else {
        cx.counters.opened += 1;
        state.log.open_at(version, number);
    }
    pipeline::advance(cx, now, chunk);
}

fn leave(cx: &mut Context, chunk: ChunkSlot) {
    let group = cx.chunks[chunk].group;
    let place = cx.chunks[chunk]
        .opening_at
        .take()
        .expect("a chunk that opens is in the list");
    if let Some(moved) = cx.groups[group].openings.all.remove(place, chunk) {
        cx.chunks[moved].opening_at = Some(place);
    }
}

/// No member has an intact copy of what must be rolled forward: I/O that waits fails, the next touch tries again.
pub(super) fn fail(cx: &mut Context, now: Time, chunk: ChunkSlot, error: IoError) {
    interrupt(cx, chunk);
    leave(cx, chunk);
    parents::settled(cx, chunk);
    if cx.chunks[chunk].lag.catching {
        return catch_up::fail(cx, now, chunk);
    }
    let state = &mut cx.chunks[chunk];
    state.state = ChunkState::Closed;
    state.bad_sources = Members::NONE;
    for mut queue in state.queues.take_all() {
        fail_queue(cx, &mut queue, error);
    }
}

fn fail_queue(cx: &mut Context, queue: &mut List, error: IoError) {
    while let Some(slot) = queue.head() {
        cx.tasks.unlink(queue, slot);
        let course = cx.course(slot);
        let io = match cx.tasks.remove(slot) {
            Kind::Write(write) => write.io,
            Kind::Read(read) => read.io,
            other => unreachable!("queues hold I/O, not {other:?}"),
        };
        cx.done(io, Err(error), Payload::None, course);
    }
}

pub(super) fn refused(cx: &mut Context, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
    let chunk = cx.tasks[slot].chunk();
    let group = cx.tasks[slot].group;
    let Kind::Open(step) = cx.tasks[slot].kind else {
        unreachable!("the caller has looked")
    };
    let inherits = matches!(step, Step::Inherit | Step::Make(_));
    if inherits && parents::refused(cx, now, slot, position, refusal) {
        return;
    }
    match refusal {
        Refusal::StaleEpoch { .. }
        | Refusal::NotFenced
        | Refusal::Fenced { .. }
        | Refusal::Busy
        | Refusal::Poisoned
        | Refusal::NoSuchStore => {}
        Refusal::Damaged { block } => {
            cx.found_damage(group, position, chunk, *block);
            let as_source = matches!(step, Step::States | Step::List | Step::Fetch(_));
            if as_source {
                cx.chunks[chunk].bad_sources.add(position);
            } else {
                // It cannot take what the others have, so it goes; where that may not be, I/O is not kept waiting. One that is
                // only being brought up to date is always spared.
                let is_in_sync = cx.groups[group].members.current.has(position);
                group::evict_soon(cx, group, position);
                if is_in_sync && cx.groups[group].members.current.count() <= cx.owned.min_copies {
                    return fail(cx, now, chunk, IoError::Damaged);
                }
                cx.pause(now, group, position, cx.config.busy_pause * 10);
            }
        }
        // Its state of a snapshot is deleted meanwhile: nobody needs to be brought it.
        Refusal::Invalid {
            what: Problem::Snapshot,
        } if cx.chunks.opening(chunk).asks_state(step) => {}
        other => {
            // R7: who cannot take what is valid is evicted.
            cx.warn_refused(group, cx.groups[group].members[position], other);
            group::evict_soon(cx, group, position);
            cx.pause(now, group, position, cx.config.busy_pause * 10);
        }
    }
    restart(cx, now, chunk);
}

/// From the first question, when the group is fenced (which it may well be).
pub(super) fn restart(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let group = cx.chunks[chunk].group;
    if interrupt(cx, chunk) {
        cx.groups[group].openings.waiting.push_back(chunk);
    }
    advance(cx, now, group);
}

/// Ends what is asked for a chunk's opening; false where nothing was, and the chunk waits. From now on it does, and
/// whoever calls puts it with those that wait, or has it leave.
fn interrupt(cx: &mut Context, chunk: ChunkSlot) -> bool {
    let ChunkState::Opening(opening) = std::mem::replace(&mut cx.chunks[chunk].state, ChunkState::Waiting) else {
        return false;
    };
    if !matches!(opening.phase, Phase::Unsettled) {
        cx.groups.openings -= 1;
    }
    for slot in opening.tasks {
        cx.settle_all(slot);
        cx.tasks.remove(slot);
    }
    true
}

/// All openings of a group wait for its fence again.
pub(super) fn reset(cx: &mut Context, group: GroupSlot) {
    for index in 0..cx.groups[group].openings.all.len() {
        let chunk = cx.groups[group].openings.all[index];
        if interrupt(cx, chunk) {
            cx.groups[group].openings.waiting.push_back(chunk);
        }
    }
}

/// A new request of an opening, to one member: about the volume itself, or what the source has for a snapshot.
pub(super) fn send(
    cx: &mut Context,
    now: Time,
    chunk: ChunkSlot,
    position: Position,
    step: Step,
    body: RequestBody,
    payload: Slice,
) {
    let group = cx.chunks[chunk].group;
    let slot = cx.tasks.add(Kind::Open(step), group, Some(chunk));
    cx.chunks.opening(chunk).tasks.push(slot);
    cx.expect(now, slot, position);
    let number = match step {
        // What it gets is at that version, and carries that one's number.
        Step::Roll => cx.chunks.opening(chunk).roll().to.number,
        Step::List | Step::Fetch(_) => cx.chunks.opening(chunk).roll().to.at,
        _ => SnapshotId::HEAD,
    };
    cx.send_at(now, slot, position, number, body, payload);
}
