//! What `amita-scsi` says that is to be done, on the engine.

pub(super) mod copy;

use super::command::{self, Carried};
use super::protocol::bytes_of;
use super::task::{Fault, Task, Then, Whole, Work, atom_bytes};
use super::{Session, locks, resets, transfer};
use crate::Cx;
use crate::connection::End;
use crate::hub::Call;
use amita_frontend::engine::{Charge, Delivery, Part, PieceState, Plan, Protocol as _, Step, Submission};
use amita_frontend::pieces::{piece_end, pieces, zeroes};
use amita_frontend::reservation::{Access, Refusal, State};
use amita_frontend::slots::SlotId;
use amita_reactor::{Pool, Slice};
use amita_scsi::plan::{Answer, Check, Extent, Io, MAX_ATOMIC_BYTES, MAX_COMPARE_BYTES, Work as Scsi};
use amita_scsi::sense::{Key, Sense, Status, code};
use amita_scsi::token::MAX_SECTIONS;
use amita_scsi::{Sum, TokenWork};
use amita_types::MAX_IO_BYTES;
use amita_types::io::{IoError, Op, Payload};
use copy::Progress;

/// How often a part of an ORWRITE is tried while others write there.
const MAX_TRIES: u64 = 64;

/// Begins what a command asks for.
pub(super) fn begin(
    session: &mut Session,
    slot: SlotId,
    plan: amita_scsi::Plan,
    carried: Carried,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    let own = &mut session.engine.request(slot).own;
    own.wanted = plan.lengths();
    let plan = if own.wanted.out > own.expected.out {
        match shortened(plan, own.expected.out) {
            Some(plan) => plan,
            None => {
                let sense = Sense::new(Key::IllegalRequest, code::INVALID_FIELD_IN_INFORMATION_UNIT);
                own.answer = Some(Answer::check(sense));
                return drain(session, slot, carried.is_last, cx);
            }
        }
    } else {
        plan
    };
    let gathers = match &plan {
        amita_scsi::Plan::Gather { bytes, .. } => *bytes as usize,
        amita_scsi::Plan::Io(io) => whole_bytes(io),
        _ => 0,
    };
    if session.gathering > 0 && session.gathering + gathers > session.port.config().gather_bytes {
        return refuse(session, slot, Status::TaskSetFull, carried.is_last, cx);
    }
    session.gathering += gathers;
    session.engine.request(slot).own.gathers = gathers;
    // The transport's numbers have 32 bits, and no command takes more.
    let out = u32::try_from(plan.lengths().out).unwrap_or(u32::MAX);
    match plan {
        amita_scsi::Plan::Gather { then, .. } => {
            let own = &mut session.engine.request(slot).own;
            own.work = Work::Gather(Whole::List(then));
            own.incoming.end = out;
            transfer::begin(session, slot, carried, cx)
        }
        amita_scsi::Plan::Io(io) if out > 0 => {
            let request = session.engine.request(slot);
            let extent = extent_of(&io.work);
            request.source = io.place.source;
            request.offset = extent.offset;
            request.own.work = match io.work {
                Scsi::WriteAndCheck(_, check) => Work::Write { check: Some(check) },
                Scsi::Check(_, Check::SameBlock) => Work::Gather(Whole::Block),
                Scsi::Check(..) => Work::Compare,
                Scsi::CompareAndWrite(_) => Work::Gather(Whole::CompareAndWrite),
                Scsi::Or(_) => Work::Gather(Whole::Or),
                _ => Work::Write { check: None },
            };
            request.own.incoming.end = out;
            request.own.io = Some(io);
            transfer::begin(session, slot, carried, cx)
        }
        plan => {
            await_the_rest(session, slot, carried.is_last);
            proceed(session, slot, plan, cx)
        }
    }
}

/// What is done of a command of which the host sends only so much: of a write, the whole blocks that come; all else can be done as a whole
/// only. (What initiators make of that they see by the residual, which has what is missing: 11.4.5.)
fn shortened(plan: amita_scsi::Plan, out: u64) -> Option<amita_scsi::Plan> {
    let amita_scsi::Plan::Io(mut io) = plan else {
        return None;
    };
    if !out.is_multiple_of(u64::from(io.place.block_bytes.max(1))) {
        return None;
    }
    match &mut io.work {
        Scsi::Write(extent) | Scsi::WriteAndCheck(extent, _) => extent.length = out,
        _ => return None,
    }
    Some(amita_scsi::Plan::Io(io))
}

/// Bytes of data that I/O needs as a whole: its data-out, or a piece of it that must not be cut.
fn whole_bytes(io: &Io) -> usize {
    let out = io.lengths().out as usize;
    match io.work {
        Scsi::WriteAtomic { .. } => out.min(MAX_ATOMIC_BYTES as usize),
        Scsi::CompareAndWrite(_) | Scsi::Or(_) | Scsi::Check(_, Check::SameBlock) => out,
        Scsi::Fill(extent, _) => extent.length.min(u64::from(MAX_IO_BYTES)) as usize,
        _ => 0,
    }
}

/// The extent of I/O that has one.
fn extent_of(work: &Scsi) -> Extent {
    match work {
        Scsi::Read(extent)
        | Scsi::Write(extent)
        | Scsi::WriteAtomic { extent, .. }
        | Scsi::WriteAndCheck(extent, _)
        | Scsi::Check(extent, _)
        | Scsi::CompareAndWrite(extent)
        | Scsi::Or(extent)
        | Scsi::Fill(extent, _) => *extent,
        Scsi::Zero(_) | Scsi::Touch => Extent::default(),
    }
}

/// Answers a command so, when all has come that comes unasked.
pub(super) fn refuse(
    session: &mut Session,
    slot: SlotId,
    status: Status,
    is_last: bool,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    session.engine.request(slot).own.answer = Some(Answer::of(status));
    drain(session, slot, is_last, cx)
}

/// Ends a command that takes nothing, when all has come that comes unasked.
pub(super) fn drain(session: &mut Session, slot: SlotId, is_last: bool, cx: &mut Cx<'_>) -> Result<(), End> {
    await_the_rest(session, slot, is_last);
    session.engine.request(slot).own.work = Work::Drain;
    command::complete(session, slot, cx)
}

/// A command that takes no data waits for what comes all the same.
fn await_the_rest(session: &mut Session, slot: SlotId, is_last: bool) {
    if !is_last {
        let request = session.engine.request(slot);
        request.own.incoming.unasked = Some(0);
        request.owed += 1;
        session.awaiting_unasked += 1;
    }
}

/// The data of a task is here as a whole.
pub(super) fn gathered(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = session.engine.request(slot);
    let Work::Gather(whole) = request.own.work else {
        return Ok(());
    };
    if request.failure.is_some() {
        return command::complete(session, slot, cx);
    }
    match whole {
        Whole::List(then) => {
            let list = std::mem::take(&mut request.own.whole);
            let plan = command::gathered(session, &then, &list);
            let into = plan.lengths().into;
            session.engine.request(slot).own.wanted.into = into;
            proceed(session, slot, plan, cx)
        }
        Whole::Block => {
            let length = request.own.io.as_ref().map_or(0, |io| extent_of(&io.work).length);
            read(session, slot, length, Work::Check, cx)
        }
        Whole::CompareAndWrite => {
            let data = request.own.whole.clone();
            let (offset, length) = (request.offset, (data.len() / 2) as u32);
            request.own.work = Work::CompareAndWrite;
            request.issued = true;
            let submission = Submission {
                data,
                ..Submission::of(Op::CompareAndWrite { offset, length })
            };
            session.submit(slot, submission, cx);
            Ok(())
        }
        Whole::Or => {
            request.own.work = Work::Or { next: 0 };
            session.start(slot, cx)
        }
    }
}

/// Goes on with what takes nothing (more) from the host.
fn proceed(session: &mut Session, slot: SlotId, plan: amita_scsi::Plan, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = session.engine.request(slot);
    request.own.work = Work::Wait;
    match plan {
        amita_scsi::Plan::Answer(answer) => {
            request.own.answer = Some(answer);
            request.own.work = Work::Drain;
            command::complete(session, slot, cx)
        }
        amita_scsi::Plan::Io(io) => io_without_data(session, slot, io, cx),
        amita_scsi::Plan::Reserve {
            volume,
            host,
            command,
            then,
        } => {
            request.own.then = Some(Box::new(Then::Reserve(then)));
            // It may be carried out until its answer is here: who aborts the task is answered behind that.
            request.owed += 1;
            let (front, tag) = (session.engine.front(), session.engine.tag(slot));
            let command = command.into();
            session.locks.note(volume, &command);
            cx.service.reserve(front, tag, volume, host, command);
            Ok(())
        }
        amita_scsi::Plan::Blocks(status) => {
            request.source = status.place.source;
            request.delivery = Delivery::AnyOrder;
            request.own.work = Work::Blocks;
            request.own.then = Some(Box::new(Then::Blocks(status)));
            session.start(slot, cx)
        }
        amita_scsi::Plan::Copy { segments, then } => {
            if session.copies >= copy::MAX_COPIES {
                request.own.answer = Some(Answer::of(Status::TaskSetFull));
                return command::complete(session, slot, cx);
            }
            session.copies += 1;
            request.delivery = Delivery::AnyOrder;
            request.own.is_copy = true;
            request.own.segments = segments;
            request.own.summer = then.summer();
            let sections = if request.own.summer.is_some() { MAX_SECTIONS } else { 0 };
            request.own.sums.resize(sections, Sum::default());
            request.own.work = Work::Copy(Progress::default());
            request.own.then = Some(Box::new(Then::Copy(then)));
            session.start(slot, cx)
        }
        amita_scsi::Plan::Token(work) => {
            let plan = begin_token(session, *work);
            session.engine.request(slot).own.wanted.into = plan.lengths().into;
            proceed(session, slot, plan, cx)
        }
        amita_scsi::Plan::Move { volume, group } => {
            request.own.then = Some(Box::new(Then::Move));
            request.owed += 1;
            let (front, tag) = (session.engine.front(), session.engine.tag(slot));
            cx.service.register(front, tag, Box::new(Call::Move { volume, group }));
            Ok(())
        }
        amita_scsi::Plan::Ask(asking) => {
            let op = match asking.access {
                Access::Read => Op::Allocation { offset: 0 },
                Access::Write => Op::Clear { offset: 0, length: 0 },
            };
            request.source = asking.place.source;
            request.issued = true;
            request.own.work = Work::Ask;
            request.own.then = Some(Box::new(Then::Ask(asking)));
            session.submit(slot, Submission::of(op), cx);
            Ok(())
        }
        amita_scsi::Plan::Gather { .. } => unreachable!("a list that is here asks for no other"),
    }
}

/// What a token needs: something is read, or copied, or it is refused.
fn begin_token(session: &mut Session, work: TokenWork) -> amita_scsi::Plan {
    let Session {
        port, catalog, nexus, ..
    } = session;
    let now = port.seconds();
    amita_scsi::begun(work, &catalog.scsi, now, &mut |bytes| port.random(bytes), nexus)
}

/// I/O that takes nothing from the host.
fn io_without_data(session: &mut Session, slot: SlotId, io: Io, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = session.engine.request(slot);
    let extent = extent_of(&io.work);
    request.source = io.place.source;
    request.offset = extent.offset;
    let expected = request.own.expected.into;
    let work = match &io.work {
        // What the host does not expect is not read.
        Scsi::Read(extent) => {
            let length = extent.length.min(expected);
            request.own.io = Some(io);
            return read(session, slot, length, Work::Read, cx);
        }
        Scsi::Check(extent, _) => {
            let length = extent.length;
            request.own.io = Some(io);
            return read(session, slot, length, Work::Check, cx);
        }
        Scsi::Zero(_) => Work::Zero { next: 0 },
        Scsi::Fill(extent, block) if extent.length > 0 => {
            let bytes = extent.length.min(u64::from(MAX_IO_BYTES)) as usize;
            let more = bytes.saturating_sub(request.own.gathers);
            if session.gathering + more > session.port.config().gather_bytes.max(bytes) {
                request.own.answer = Some(Answer::of(Status::TaskSetFull));
                return command::complete(session, slot, cx);
            }
            session.gathering += more;
            request.own.gathers += more;
            match pattern(block, bytes, cx.pool) {
                Some(pattern) => request.own.whole = pattern,
                None => request.fail(Fault::Memory, None),
            }
            Work::Fill { next: 0 }
        }
        // A write of nothing: the volume's owner says whether this host may.
        _ => Work::Wait,
    };
    request.own.work = work;
    request.own.io = Some(io);
    match work {
        Work::Wait => {
            request.issued = true;
            session.submit(slot, Submission::of(Op::Clear { offset: 0, length: 0 }), cx);
            Ok(())
        }
        Work::Zero { .. } => {
            // It moves by a window; what the extents hold is cut one by one.
            request.plan = Plan::Zero(zeroes(0, 0, MAX_IO_BYTES, true));
            session.start(slot, cx)
        }
        _ => session.start(slot, cx),
    }
}

/// Reads so much of a task's range; to the host, or for nobody.
fn read(session: &mut Session, slot: SlotId, length: u64, work: Work, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = session.engine.request(slot);
    request.own.work = work;
    if length == 0 {
        return command::complete(session, slot, cx);
    }
    let chunk_bytes = request.own.io.as_ref().map_or(MAX_IO_BYTES, |io| io.place.chunk_bytes);
    request.plan = Plan::Read(pieces(request.offset, length, atom_bytes(chunk_bytes)));
    if work == Work::Read {
        request.delivery = Delivery::InOrder;
    }
    session.start(slot, cx)
}

/// A block again and again: so many bytes.
fn pattern(block: &[u8], bytes: usize, pool: &Pool) -> Option<Slice> {
    let mut pattern = pool.take(bytes)?;
    for part in pattern.chunks_mut(block.len().max(1)) {
        part.copy_from_slice(&block[..part.len()]);
    }
    Some(pattern.freeze())
}

/// Is it done one piece after the other, or by what pieces bring?
pub(super) fn is_stepwise(work: &Work) -> bool {
    matches!(work, Work::Blocks | Work::Copy(_) | Work::CopyPiece(_))
}

/// The next piece of what moves no data over the network.
pub(super) fn step(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Step {
    match session.engine.request(slot).own.work {
        Work::Zero { next } => step_zero(session, slot, next, cx),
        Work::Fill { next } => step_fill(session, slot, next, cx),
        Work::Or { next } => step_or(session, slot, next, cx),
        Work::Blocks => step_blocks(session, slot, cx),
        Work::Copy(progress) => copy::step(session, slot, progress, cx),
        Work::CopyPiece(piece) => copy::step_piece(session, slot, piece, cx),
        _ => Step::Through,
    }
}

fn step_zero(session: &mut Session, slot: SlotId, next: usize, cx: &mut Cx<'_>) -> Step {
    let request = session.engine.request(slot);
    let extent = match &request.own.io {
        Some(Io {
            work: Scsi::Zero(extents),
            place,
        }) => extents.get(next).map(|extent| (*extent, place.chunk_bytes)),
        _ => None,
    };
    if let Some((extent, chunk_bytes)) = extent {
        request.plan = Plan::Zero(zeroes(extent.offset, extent.length, chunk_bytes, true));
        request.own.work = Work::Zero { next: next + 1 };
        return Step::Again;
    }
    if request.has_begun() {
        request.issued = true;
        return Step::Through;
    }
    // Nothing is to be zeroed; but whom a reservation does not let write may not send the command either.
    if let Some(lack) = session.engine.lacks_room_to_step(slot) {
        return lack;
    }
    session.engine.request(slot).issued = true;
    session.submit(slot, Submission::of(Op::Clear { offset: 0, length: 0 }), cx);
    Step::Through
}

/// Where the next piece of a task's extent begins, and how long it is; `most`: at the longest. None: there is none.
fn next_piece(io: Option<&Io>, next: u64, most: u64) -> Option<(u64, u32)> {
    let io = io?;
    let extent = extent_of(&io.work);
    if next >= extent.length {
        return None;
    }
    let offset = extent.offset + next;
    let end = piece_end(offset, extent.end(), atom_bytes(io.place.chunk_bytes)).min(offset + most);
    Some((offset, (end - offset) as u32))
}

fn step_fill(session: &mut Session, slot: SlotId, next: u64, cx: &mut Cx<'_>) -> Step {
    let window = session.engine.limits().window;
    let request = session.engine.request(slot);
    let Some((offset, length)) = next_piece(request.own.io.as_ref(), next, u64::MAX >> 1) else {
        request.issued = true;
        return Step::Through;
    };
    if request.under_way() >= window {
        return Step::Window;
    }
    if !session.engine.may_write(length as usize, cx) {
        return Step::Full;
    }
    session.engine.charge(slot, length as usize);
    let own = &mut session.engine.request(slot).own;
    own.work = Work::Fill {
        next: next + u64::from(length),
    };
    // Pieces begin where a block does.
    let data = own.whole.slice(..length as usize);
    session.submit(slot, Submission::with_data(Op::Write { offset, length }, data), cx);
    Step::Again
}

fn step_or(session: &mut Session, slot: SlotId, next: u64, cx: &mut Cx<'_>) -> Step {
    let window = session.engine.limits().window;
    let request = session.engine.request(slot);
    let Some((offset, length)) = next_piece(request.own.io.as_ref(), next, MAX_COMPARE_BYTES) else {
        request.issued = true;
        return Step::Through;
    };
    if request.under_way() >= window {
        return Step::Window;
    }
    // It is read, and then both what was there and what shall be there goes to the volume.
    if !session.engine.may_read(3 * length as usize, cx) {
        return Step::Full;
    }
    let own = &mut session.engine.request(slot).own;
    own.work = Work::Or {
        next: next + u64::from(length),
    };
    let submission = Submission {
        charge: Charge::Read,
        ..Submission::of(Op::Read { offset, length })
    };
    session.submit(slot, submission, cx);
    Step::Again
}

fn step_blocks(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Step {
    let request = session.engine.request(slot);
    if request.under_way() > 0 {
        return Step::Through;
    }
    let next = match request.own.then.as_deref_mut() {
        Some(Then::Blocks(status)) => status.next(),
        _ => None,
    };
    let Some(offset) = next else {
        request.issued = true;
        return Step::Through;
    };
    session.submit(slot, Submission::of(Op::Allocation { offset }), cx);
    Step::Through
}

/// A piece of what is done one after the other has ended.
pub(super) fn landed(session: &mut Session, slot: SlotId, part: Part<Fault>, cx: &mut Cx<'_>) {
    let own = &mut session.engine.request(slot).own;
    if own.work != Work::Blocks {
        return copy::landed(own, part, cx);
    }
    if let (Ok(()), Some(Then::Blocks(status))) = (part.verdict, own.then.as_deref_mut()) {
        let bits = match &part.payload {
            Payload::Allocation(bits) => Some(&**bits),
            _ => None,
        };
        status.found(bits);
    }
}

/// A piece has ended well: does it go on as another one?
pub(super) fn goes_on(own: &Task, piece: &mut PieceState, payload: &mut Payload, pool: &Pool) -> bool {
    let missed = own.missed.take();
    match (own.work, piece.op) {
        // It is read back.
        (Work::Write { check: Some(_) }, Op::Write { offset, length }) => {
            piece.op = Op::Read { offset, length };
            true
        }
        // Where they differ is looked for.
        (Work::CompareAndWrite, Op::CompareAndWrite { offset, length }) if missed => {
            piece.op = Op::Read { offset, length };
            true
        }
        (Work::Or { .. }, Op::Read { offset, length }) => {
            let held = bytes_of(payload, length, pool);
            let start = own.io.as_ref().map_or(0, |io| extent_of(&io.work).offset);
            let from = (offset - start) as usize;
            let sent = &own.whole[from..from + length as usize];
            let result = held.iter().zip(sent).map(|(one, other)| one | other);
            let both: Vec<u8> = held.iter().copied().chain(result).collect();
            piece.data = Slice::copy_from(&both);
            piece.op = Op::CompareAndWrite { offset, length };
            true
        }
        // Somebody was faster.
        (Work::Or { .. }, Op::CompareAndWrite { offset, length }) if missed => {
            piece.note += 1;
            piece.data = Slice::default();
            piece.op = Op::Read { offset, length };
            true
        }
        _ => false,
    }
}

/// The volume did not hold what a piece was compared with: does it go on all the same?
pub(super) fn goes_on_after_miscompare(work: &Work, piece: &PieceState) -> bool {
    match work {
        Work::CompareAndWrite => true,
        Work::Or { .. } => piece.note < MAX_TRIES,
        _ => false,
    }
}

/// Is there more to do for it when all of it has ended well?
pub(super) fn finishes(work: &Work) -> bool {
    matches!(work, Work::Blocks | Work::Copy(_) | Work::Ask)
}

/// All of it has ended well.
pub(super) fn finish(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = session.engine.request(slot);
    if request.own.work == Work::Ask
        && let Some(Then::Ask(asking)) = request.own.then.take().map(|then| *then)
    {
        // It begins only now.
        request.issued = false;
        let plan = command::asked(session, &asking);
        session.engine.request(slot).own.wanted.into = plan.lengths().into;
        return proceed(session, slot, plan, cx);
    }
    let own = &mut request.own;
    let copied_bytes = match std::mem::replace(&mut own.work, Work::Drain) {
        Work::Copy(progress) => progress.copied_bytes(),
        _ => 0,
    };
    own.answer = match own.then.take().map(|then| *then) {
        Some(Then::Blocks(status)) => Some(status.answer()),
        Some(Then::Copy(then)) => Some(amita_scsi::copied(
            &then,
            copied_bytes,
            &own.sums,
            Ok(()),
            &mut session.nexus,
        )),
        _ => None,
    };
    session.finish(slot, cx)
}

/// What a task is answered that the volume has failed; `at`: the byte of the volume, if it is known.
pub(super) fn failed(session: &mut Session, slot: SlotId, error: IoError, at: Option<u64>) -> Answer {
    let own = &mut session.engine.request(slot).own;
    let then = own.then.take().map(|then| *then);
    match (then, own.work) {
        (Some(Then::Copy(then)), Work::Copy(progress)) => {
            let copied_bytes = progress.copied_bytes();
            return amita_scsi::copied(&then, copied_bytes, &own.sums, Err(error), &mut session.nexus);
        }
        (Some(Then::Blocks(status)), _) => return amita_scsi::failed(&status.place, error, at),
        (Some(Then::Ask(asking)), _) => return amita_scsi::failed(&asking.place, error, at),
        _ => {}
    }
    let Some(io) = &own.io else {
        return Answer::of(Status::Busy);
    };
    if error != IoError::Miscompare {
        return amita_scsi::failed(&io.place, error, at);
    }
    if matches!(io.work, Scsi::Or(_)) {
        // Others were faster, again and again: the host may try later.
        return Answer::of(Status::Busy);
    }
    // Told is the byte of what the host has sent.
    let start = extent_of(&io.work).offset;
    let place = at.map(|at| at.saturating_sub(start));
    amita_scsi::miscompare(match io.work {
        Scsi::Check(_, Check::SameBlock) => place.map(|place| place % u64::from(io.place.block_bytes.max(1))),
        _ => place,
    })
}

/// What became of a wish for a move.
pub(super) fn moving(session: &mut Session, tag: u64, is_accepted: bool, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(slot) = session.engine.find(tag) else {
        return Ok(());
    };
    let request = session.engine.request(slot);
    if let Some(Then::Move) = request.own.then.take().map(|then| *then) {
        request.own.answer = Some(amita_scsi::moved(is_accepted));
        request.owed -= 1;
    }
    command::complete(session, slot, cx)
}

/// What became of a reservation command.
pub(super) fn reserved(
    session: &mut Session,
    tag: u64,
    result: Result<State, Refusal>,
    cx: &mut Cx<'_>,
) -> Result<(), End> {
    if locks::answered(session, tag) || resets::answered(session, tag, &result, cx)? {
        return Ok(());
    }
    let Some(slot) = session.engine.find(tag) else {
        return Ok(());
    };
    let request = session.engine.request(slot);
    if let Some(Then::Reserve(then)) = request.own.then.take().map(|then| *then) {
        let answer = amita_scsi::reserved(&then, &result);
        request.own.wanted.into = answer.data.len() as u64;
        request.own.answer = Some(answer);
        request.owed -= 1;
    }
    command::complete(session, slot, cx)
}
