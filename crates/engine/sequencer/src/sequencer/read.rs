//! The path of a read: one member is asked; its answer is checked, held until its version is everywhere (R3), and given
//! out when leases prove that nobody can have taken over meanwhile (R4).

use super::answer::Misbehaved;
use super::context::Context;
use super::resync::Scrubs;
use super::{at_rest, care, clear, compare, doubt, group, lease, pipeline};
use crate::faults::Fault;
use crate::io::StopReason;
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, Key, TaskSlot};
use crate::task::{Found, Kind, Read, Told};
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::message::{
    AllocationRequest, DataAnswer, DifferRequest, Problem, ReadRequest, Refusal, RequestBody, Sums,
};
use amita_types::{BLOCK_BYTES, BlockRange, SnapshotId, Version};

/// Submitted, and found valid: queued at its chunk.
pub(super) fn queue(cx: &mut Context, chunk: ChunkSlot, read: Read, told: Told) {
    let compares = read.writes();
    let slot = cx.tasks.add(Kind::Read(read), cx.chunks[chunk].group, Some(chunk));
    (cx.tasks[slot].trace, cx.tasks[slot].purpose) = (told.trace, told.purpose);
    let state = &mut cx.chunks[chunk];
    let queue = match compares {
        true => &mut state.queues.compares,
        false => &mut state.queues.reads,
    };
    cx.tasks.push(queue, slot);
}

/// Sends a read that stands in no list to a member; false when none can be asked now.
pub(super) fn start(cx: &mut Context, now: Time, slot: TaskSlot) -> bool {
    let group = cx.tasks[slot].group;
    let current = cx.groups[group].members.current;
    let read = cx.tasks[slot].read();
    let damaged = read.damaged;
    if !current.is_empty() && current.without(damaged).is_empty() {
        fail(cx, slot, IoError::Damaged);
        return true;
    }
    if doubt::is_in_vain(cx, now, slot) {
        fail(
            cx,
            slot,
            if damaged.is_empty() {
                IoError::Unavailable
            } else {
                IoError::Damaged
            },
        );
        return true;
    }
    let mut chosen = choose(cx, now, slot);
    if chosen.is_none() {
        // Everyone was asked: those with intact copies once more.
        let read = cx.tasks[slot].read();
        read.tried = read.damaged;
        chosen = choose(cx, now, slot);
    }
    if let Some(position) = chosen {
        ask_member(cx, now, slot, position);
    }
    chosen.is_some()
}

fn fail(cx: &mut Context, slot: TaskSlot, error: IoError) {
    let io = cx.tasks[slot].read().io;
    let course = cx.course(slot);
    let chunk = cx.tasks[slot].chunk();
    cx.tasks.remove(slot);
    compare::end(cx, chunk, slot);
    cx.done(io, Err(error), Payload::None, course);
}

/// The member to read from: one in this process if it answers, else the one that owes the fewest answers. One in doubt is asked where no
/// other can be.
fn choose(cx: &mut Context, now: Time, slot: TaskSlot) -> Option<Position> {
    let number = cx.tasks[slot].group;
    let waiting = cx.tasks[slot].waiting;
    let read = cx.tasks[slot].read();
    let out = read.tried.or(read.damaged).or(waiting);
    let out = out.or(doubt::barred(cx, slot));
    let group = &cx.groups[number];
    let mut best: Option<((u8, u32, u32), Position)> = None;
    let mut readable = group.members.current;
    if cx.config.faults.has(Fault::ReadFromSyncing) {
        readable = readable.or(group.members.syncing);
    }
    for position in readable.without(out).without(group.to_evict).iter() {
        let store = &cx.stores[group.members[position]];
        if !cx.can_send(number, position) {
            continue;
        }
        let hangs = store.owed.awaited > 0 && now.since(store.owed.heard) >= cx.config.silent_after();
        let hangs = hangs || cx.care.health().avoids(store.watch);
        // Equals take turns.
        let turn = ((slot.at() + position.at()) % group.members.places()) as u32;
        // One that is silent, or where an operation hangs, is asked last, where it may not be evicted.
        let rank = if store.lost {
            (3, u32::MAX, turn)
        } else if group.doubted.has(position) && !cx.config.faults.has(Fault::TrustDoubted) {
            (2, store.owed.awaited + 1, turn)
        } else if store.local && !hangs && !buggify(Point::ReadAnywhere) {
            (0, 0, 0)
        } else {
            (u8::from(hangs), store.owed.awaited + 1, turn)
        };
        if best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, position));
        }
    }
    best.map(|(_, position)| position)
}

fn ask_member(cx: &mut Context, now: Time, slot: TaskSlot, position: Position) {
    let group = cx.tasks[slot].group;
    let at = cx.tasks[slot].read().at;
    let chunk = &cx.chunks[cx.tasks[slot].chunk()];
    let index = chunk.index;
    // R8: everything acknowledged, and with it (R3) everything that a read has returned. All writes that a sealed snapshot has are
    // (S7): on every member in sync, but for one that lacks what it has answered.
    let mut least = match cx.config.faults.has(Fault::NoLeast) {
        true => Version::NONE,
        false => chunk.log.least_at(at),
    };
    // Who has all of the chunk has all states of it, of whichever snapshots (S5).
    let mut newest = match cx.config.faults.has(Fault::NoLeast) || cx.config.faults.has(Fault::NoNewest) {
        true => Version::NONE,
        false => chunk.log.committed,
    };
    let read = cx.tasks[slot].read();
    if cx.config.faults.has(Fault::BlindMaps) && !read.is_about_data() {
        (least, newest) = (Version::NONE, Version::NONE);
    }
    read.tried.add(position);
    let body = match read.op {
        Op::Differ { since, .. } => RequestBody::Differ(DifferRequest {
            chunk: index,
            since,
            least,
            newest: Some(newest),
        }),
        _ if read.is_about_allocation() => RequestBody::Allocation(AllocationRequest {
            chunk: index,
            least,
            newest: Some(newest),
        }),
        _ => RequestBody::Read(ReadRequest {
            chunk: index,
            range: read.range,
            least,
            versions: cx.owned.keys.is_some(),
            newest: Some(newest).filter(|_| at > SnapshotId::HEAD),
        }),
    };
    cx.tasks.age(slot, now);
    cx.agenda.arm(now.plus(care::hedge_after(cx)));
    cx.expect(now, slot, position);
    cx.send_at(now, slot, position, at, body, Slice::default());
    // Beside the read, so that its answer need not wait for leases (R4); its own member grants one by the answer.
    lease::renew(cx, now, group, Members::one(position), now);
}

/// A member does not answer a read, or not well: it stays with the others.
pub(super) fn give_up_on(cx: &mut Context, now: Time, slot: TaskSlot, position: Position) {
    cx.settle(slot, position);
    go_elsewhere(cx, now, slot);
}

fn go_elsewhere(cx: &mut Context, now: Time, slot: TaskSlot) {
    let task = &mut cx.tasks[slot];
    let chunk = task.chunk();
    if !task.waiting.is_empty() || task.read().found.is_some() {
        return;
    }
    cx.tasks.rest(slot);
    if !start(cx, now, slot) {
        cx.tasks.push(&mut cx.chunks[chunk].queues.reads, slot);
        pipeline::block(cx, chunk);
    }
}

pub(super) fn refused(
    cx: &mut Context,
    scrubs: &mut Scrubs,
    now: Time,
    slot: TaskSlot,
    position: Position,
    refusal: &Refusal,
) {
    let group = cx.tasks[slot].group;
    let chunk = cx.tasks[slot].chunk();
    match refusal {
        Refusal::StaleEpoch { .. }
        | Refusal::NotFenced
        | Refusal::Fenced { .. }
        | Refusal::Busy
        | Refusal::Poisoned
        | Refusal::NoSuchStore => {}
        Refusal::Damaged { block } => {
            cx.found_damage(group, position, chunk, *block);
            let at = cx.tasks[slot].read().at;
            scrubs.want_repair(chunk, position, *block, at);
            cx.tasks[slot].read().damaged.add(position);
        }
        // Of a snapshot: it has been deleted, and is gone there.
        Refusal::Invalid {
            what: Problem::Snapshot,
        } if cx.tasks[slot].read().at > SnapshotId::HEAD || cx.tasks[slot].read().is_about_changes() => {
            cx.tasks[slot].read().damaged.add(position);
        }
        // R8: a member that is behind what it has answered has lost something.
        Refusal::Behind { .. } if cx.groups[group].members.current.has(position) => {
            cx.warn_refused(group, cx.groups[group].members[position], refusal);
            doubt::lacks(cx, now, chunk, position);
        }
        other => {
            // Others are as unfit.
            cx.warn_refused(group, cx.groups[group].members[position], other);
            group::evict_soon(cx, group, position);
        }
    }
    give_up_on(cx, now, slot, position);
}

pub(super) fn data_arrived(
    cx: &mut Context,
    scrubs: &mut Scrubs,
    now: Time,
    slot: TaskSlot,
    position: Position,
    answer: DataAnswer,
    payload: Slice,
) -> Result<(), Misbehaved> {
    let DataAnswer { version, sums, runs } = answer;
    let group = cx.tasks[slot].group;
    let chunk = cx.tasks[slot].chunk();
    let read = cx.tasks[slot].read();
    if read.found.is_some() {
        // The other member was quicker.
        cx.settle(slot, position);
        return Ok(());
    }
    let range = read.range;
    if doubt::barred(cx, slot).has(position) {
        // It was found to lack something while it was asked.
        give_up_on(cx, now, slot, position);
        return Ok(());
    }
    if !is_ours(cx, chunk, version)? {
        return Ok(());
    }
    match damage(range, &sums, &payload) {
        Intact::Yes => {
            let payload = at_rest::open(cx, chunk, range, (version, &runs), payload)?;
            cx.settle(slot, position);
            cx.note_answer(now, slot, position);
            found(cx, now, slot, Found::Data { version, payload });
        }
        Intact::No(block) => {
            // End to end: whatever spoiled it, it is not served.
            cx.found_damage(group, position, chunk, block);
            let at = cx.tasks[slot].read().at;
            scrubs.want_repair(chunk, position, block, at);
            cx.tasks[slot].read().damaged.add(position);
            give_up_on(cx, now, slot, position);
        }
        Intact::Shape => {
            let what = format!(
                "{} bytes and {} sums for {} blocks",
                payload.len(),
                sums.len(),
                range.count
            );
            return Err(Misbehaved(what));
        }
    }
    Ok(())
}

/// Is the version one of the history that we go on with? Else there is an error, or we are not the owner any more.
fn is_ours(cx: &mut Context, chunk: ChunkSlot, version: Version) -> Result<bool, Misbehaved> {
    let generation = version.generation();
    if generation > cx.owned.generation {
        cx.stop(StopReason::Deposed { generation });
        return Ok(false);
    }
    match cx.chunks[chunk].log.may_show(version, cx.owned.generation) {
        true => Ok(true),
        false => Err(Misbehaved(format!("version {version}, which was never given out"))),
    }
}

/// Which blocks are allocated, or differ: of that version.
pub(super) fn map_arrived(
    cx: &mut Context,
    now: Time,
    (slot, position): (TaskSlot, Position),
    version: Option<Version>,
    of: impl FnOnce(Version) -> Found,
) -> Result<(), Misbehaved> {
    let chunk = cx.tasks[slot].chunk();
    let is_first = cx.tasks[slot].read().found.is_none();
    if is_first && doubt::barred(cx, slot).has(position) {
        give_up_on(cx, now, slot, position);
        return Ok(());
    }
    let version = version.filter(|_| !cx.config.faults.has(Fault::BlindMaps));
    if let Some(version) = version.filter(|_| is_first)
        && !is_ours(cx, chunk, version)?
    {
        return Ok(());
    }
    cx.settle(slot, position);
    cx.note_answer(now, slot, position);
    if is_first {
        // One that names no version, of a store of an earlier program, may show anything that was given out.
        let version = version.unwrap_or(cx.chunks[chunk].log.issued);
        found(cx, now, slot, of(version));
    }
    Ok(())
}

fn found(cx: &mut Context, now: Time, slot: TaskSlot, found: Found) {
    let group = cx.tasks[slot].group;
    let chunk = cx.tasks[slot].chunk();
    cx.tasks.rest(slot);
    let since = cx.tasks[slot].steps.first_sent;
    let leased = lease::is_held(cx, now, group, since);
    let version = found.version();
    let read = cx.tasks[slot].read();
    read.found = Some(found);
    read.leased = leased;
    cx.tasks.push(&mut cx.chunks[chunk].held, slot);
    if !leased {
        cx.counters.unleased += 1;
        cx.intake.unleased.push(slot);
    }
    cx.counters.held += u64::from(version > cx.chunks[chunk].log.committed);
    if !leased || !cx.config.confirm_reads {
        lease::renew(cx, now, group, Members::NONE, since);
    }
    give_out(cx, slot);
}

/// Ends a read whose answer is here, if it may be given out.
fn give_out(cx: &mut Context, slot: TaskSlot) {
    let chunk = cx.tasks[slot].chunk();
    let committed = cx.chunks[chunk].log.committed;
    let read = cx.tasks[slot].read();
    let version = read.found.as_ref().expect("a held read has its answer").version();
    if !read.leased || (version > committed && !cx.config.faults.has(Fault::NoHold)) {
        return;
    }
    cx.tasks.unlink(&mut cx.chunks[chunk].held, slot);
    let course = cx.course(slot);
    let (group, trace) = (cx.tasks[slot].group, cx.tasks[slot].trace);
    let asked_at = cx.tasks[slot].asked_at;
    // A second member that was asked still owes its answer.
    let kind = std::mem::replace(&mut cx.tasks[slot].kind, Kind::Orphan);
    if cx.tasks[slot].waiting.is_empty() {
        cx.tasks.remove(slot);
    }
    let Kind::Read(mut read) = kind else {
        unreachable!("held tasks are reads")
    };
    cx.counters.reads += 1;
    if read.writes() {
        let Some(Found::Data { payload, .. }) = read.found.take() else {
            unreachable!("the blocks were read")
        };
        return compare::found(cx, slot, chunk, group, (trace, asked_at), read, &payload, course);
    }
    let payload = payload_of(&mut read);
    if let (Op::Clear { .. }, Payload::Allocation(allocated)) = (read.op, &payload) {
        return clear::looked_instead(cx, chunk, group, trace, &read, allocated, course);
    }
    cx.done(read.io, Ok(()), payload, course);
}

/// The chunk's committed version has moved.
pub(super) fn release_held(cx: &mut Context, chunk: ChunkSlot) {
    let mut cursor = cx.chunks[chunk].held.head();
    while let Some(slot) = cursor {
        cursor = cx.tasks.next(slot);
        give_out(cx, slot);
    }
}

/// Leases have come: reads that waited for them go out.
pub(super) fn recheck_leases(cx: &mut Context, now: Time) {
    let mut index = 0;
    while let Some(&slot) = cx.intake.unleased.get(index) {
        let (group, since) = (cx.tasks[slot].group, cx.tasks[slot].steps.first_sent);
        if lease::is_held(cx, now, group, since) {
            cx.intake.unleased.swap_remove(index);
            cx.tasks[slot].read().leased = true;
            give_out(cx, slot);
        } else {
            index += 1;
            ask_for_leases(cx, now, group, since);
        }
    }
}

/// Asks again where a request for a lease came to nothing, but not without end: a store that lets a new owner in
/// grants no lease any more (R4).
fn ask_for_leases(cx: &mut Context, now: Time, group: GroupSlot, since: Time) {
    let mut besides = Members::NONE;
    for position in lease::grantors(&cx.config, &cx.groups[group]).iter() {
        let number = cx.groups[group].members[position];
        let store = &cx.stores[number];
        let again = store.lease.requested_at.plus(cx.config.busy_pause);
        // One that went well, and was sent before this read was, is followed by the next at once.
        let went_well = cx.config.confirm_reads && store.lease.renewed >= store.lease.requested_at;
        if now < again && !went_well {
            besides.add(position);
            cx.agenda.arm(again);
        }
    }
    lease::renew(cx, now, group, besides, since);
}

/// Reads that have waited long are sent to a second member as well.
pub(super) fn hedge(cx: &mut Context, now: Time) {
    while let Some(slot) = cx.tasks.oldest() {
        if now.since(cx.tasks[slot].asked_at) < care::hedge_after(cx) {
            break;
        }
        match choose(cx, now, slot) {
            Some(position) => {
                cx.counters.hedged += 1;
                cx.care.health().hedged();
                ask_member(cx, now, slot, position);
            }
            None => cx.tasks.age(slot, now),
        }
    }
}

enum Intact {
    Yes,
    No(amita_types::BlockIndex),
    /// Not what was asked for.
    Shape,
}

fn damage(range: BlockRange, sums: &Sums, payload: &[u8]) -> Intact {
    if payload.is_empty() && sums.is_empty() {
        return Intact::Yes;
    }
    let block_bytes = BLOCK_BYTES as usize;
    if sums.len() != usize::from(range.count) || payload.len() != sums.len() * block_bytes {
        return Intact::Shape;
    }
    let mut blocks = range.iter().zip(sums).zip(payload.chunks_exact(block_bytes));
    match blocks.find(|((_, sum), bytes)| amita_types::crc32c(bytes) != **sum) {
        Some(((block, _), _)) => Intact::No(block),
        None => Intact::Yes,
    }
}

/// Cuts what was asked for out of the whole blocks that came.
fn payload_of(read: &mut Read) -> Payload {
    match (read.found.take(), read.op) {
        (Some(Found::Data { payload, .. }), Op::Read { offset, length }) => {
            if payload.is_empty() {
                return Payload::Zeros(length);
            }
            let skip = (offset % u64::from(BLOCK_BYTES)) as usize;
            Payload::Data(payload.slice(skip..skip + length as usize))
        }
        (Some(Found::Allocation { allocated, .. }), _) => Payload::Allocation(allocated),
        (Some(Found::Differs { differs, .. }), _) => Payload::Differs(differs),
        _ => unreachable!("a read that is given out has its answer"),
    }
}
