//! How what waits for an owner, or is with it, ends: as the owner has answered, or because nobody can be asked.

use super::wire::{code, error_from_wire, payload_from_wire, reservation_from_wire, tokens_from_wire};
use crate::core::clock::Clock;
use crate::core::context::Context;
use crate::core::limits;
use crate::core::parents::PARENTS;
use crate::core::reserve;
use crate::faults::Fault;
use crate::forwarder::{Answered, Forwarder, Pending, State, Work, is_host};
use crate::view::View;
use amita_fabric::{Forwarded, Link};
use amita_frontend::reservation::Refusal;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::{IoError, Payload};
use amita_types::{SnapshotId, VolumeId};

/// Nobody can be asked for the volume: what waits for it ends.
pub(super) fn all_waiting(cx: &mut Context, forwarder: &mut Forwarder, volume: VolumeId) {
    forwarder.set(volume, State::Unknown);
    while let Some(pending) = forwarder.next_pending(volume) {
        tell(cx, pending, Err(IoError::Unavailable), Payload::None);
    }
}

/// The volume was deleted: hosts' I/O that waits for it ends. What its clones need of it goes on. So do reads of its snapshots, where it is
/// what another one was before that was reverted.
pub(super) fn of_hosts(cx: &mut Context, forwarder: &mut Forwarder, volume: VolumeId) {
    let record = cx.view.volume_of(volume).filter(|record| record.is_former());
    let of = record.and_then(|_| cx.view.volume_with(volume));
    let is_read = of.is_some_and(|of| !of.is_deleted());
    let reads = |pending: &Pending| pending.origin.snapshot != SnapshotId::HEAD && !pending.work.writes();
    for pending in forwarder.take_others(volume, |pending| {
        pending.origin.front == PARENTS || is_read && reads(pending)
    }) {
        tell(cx, pending, Err(IoError::Unavailable), Payload::None);
    }
}

/// Is it of the volume itself, which a mirror may close, and not of a snapshot? Who reads one of a limited volume needs its tokens.
pub(super) fn is_of_the_volume(pending: &Pending) -> bool {
    pending.origin.snapshot == SnapshotId::HEAD && !matches!(pending.work, Work::Lend | Work::GiveBack)
}

/// Is it something else for which a way is looked for?
pub(super) fn is_looked_for_when_closed(pending: &Pending) -> bool {
    !is_of_the_volume(pending) && pending.work != Work::GiveBack
}

/// Nobody can be asked for the volume: what is wanted of its snapshots ends. Hosts that it was closed to rest until then.
pub(super) fn all_but_of_the_volume(cx: &mut Context, forwarder: &mut Forwarder, volume: VolumeId, until: Time) {
    forwarder.set(volume, State::Resting(until));
    for pending in forwarder.take_others(volume, is_of_the_volume) {
        tell(cx, pending, Err(IoError::Unavailable), Payload::None);
    }
}

/// The volume is closed to hosts: what is wanted of the volume itself ends. Its snapshots are read.
pub(super) fn of_the_volume(cx: &mut Context, forwarder: &mut Forwarder, volume: VolumeId) {
    for pending in forwarder.take_others(volume, |pending| !is_of_the_volume(pending)) {
        tell(cx, pending, Err(IoError::Closed), Payload::None);
    }
}

/// Nobody is looked for to whom tokens are only given back: they lapse. Nothing else waits then: true.
pub(super) fn of_givers(cx: &mut Context, forwarder: &mut Forwarder, volume: VolumeId) -> bool {
    for pending in forwarder.take_others(volume, |pending| pending.work != Work::GiveBack) {
        tell(cx, pending, Err(IoError::Busy), Payload::None);
    }
    forwarder.front(volume).is_none()
}

/// What nobody will say any more what became of it, and what has waited for too long.
pub(super) fn given_up(cx: &mut Context, forwarder: &mut Forwarder, now: Time) {
    for (pending, unknown) in forwarder.take_given_up(now) {
        let why = if unknown { IoError::Lost } else { IoError::Unavailable };
        tell(cx, pending, Err(why), Payload::None);
    }
}

/// Whoever asked is told.
pub(super) fn tell(cx: &mut Context, pending: Pending, result: Result<(), IoError>, payload: Payload) {
    match pending.work {
        Work::Io(_) => cx.done(pending.origin, result, payload),
        Work::Reserve => {
            let why = match result {
                Err(IoError::Lost) => Refusal::Unknown,
                _ => Refusal::Unavailable,
            };
            reserve::ended(&mut cx.mail, pending.origin, Err(why));
        }
        Work::Lend | Work::GiveBack => {
            let why = result.err().unwrap_or(IoError::Unavailable);
            limits::ended(&mut cx.mail, pending.origin, Err(why));
        }
    }
}

/// It was not begun: its host may try another path, the other gateway may look again.
pub(in crate::core) fn refuse_old(cx: &mut Context, pending: Pending) {
    let why = match is_host(pending.origin.front) {
        true => IoError::Unavailable,
        false => IoError::Busy,
    };
    tell(cx, pending, Err(why), Payload::None);
}

/// The owner has carried it out.
pub(super) fn done(
    cx: &mut Context,
    forwarder: &mut Forwarder,
    link: Link,
    answer: &Forwarded,
    answered: Answered,
    payload: Slice,
) {
    let Answered { volume, pending, .. } = answered;
    if pending.work == Work::Reserve {
        return match reservation_from_wire(answer, &payload) {
            Ok(result) => reserve::ended(&mut cx.mail, pending.origin, result),
            Err(why) => {
                // It was carried out, and nobody can read how it ended.
                tell(cx, pending, Err(IoError::Lost), Payload::None);
                cx.peers.give_up(link, why, &mut cx.control);
            }
        };
    }
    if matches!(pending.work, Work::Lend | Work::GiveBack) {
        return match tokens_from_wire(answer, &payload) {
            Ok(lent) => limits::ended(&mut cx.mail, pending.origin, Ok(lent)),
            Err(why) => {
                tell(cx, pending, Err(IoError::Lost), Payload::None);
                cx.peers.give_up(link, why, &mut cx.control);
            }
        };
    }
    match payload_from_wire(pending.work, answer, payload) {
        Ok(found) => tell(cx, pending, Ok(()), found),
        Err(why) => {
            // Bytes were changed on the way: nothing that came by this link is to be believed.
            forwarder.put_again(volume, pending);
            cx.peers.give_up(link, why, &mut cx.control);
        }
    }
}

/// The owner has not carried it out, or not wholly: it ends so, or is tried again.
pub(super) fn undone(cx: &mut Context, forwarder: &mut Forwarder, now: Time, link: Link, code: u8, answered: Answered) {
    let Answered {
        volume,
        pending,
        again,
        dated,
        ..
    } = answered;
    let faults = cx.config.faults;
    let once = pending.work.writes() && !faults.has(Fault::CarryOutAgain);
    match code {
        // It may have been carried out, or be on the stores in part: to do it once more could undo what another host has done since.
        code::LOST if once => tell(cx, pending, Err(IoError::Lost), Payload::None),
        // This process may know nothing of the first one.
        code::NOT_OWNER | code::NOT_LIVING | code::BUSY | code::CHECKSUM if once && again => {
            tell(cx, pending, Err(IoError::Lost), Payload::None);
        }
        // More time has passed by the owner's clock than here: this machine may have stood still, and the host gone on.
        code::STALE if dated && !faults.has(Fault::DateAgain) => {
            tell(cx, pending, Err(IoError::Unavailable), Payload::None);
        }
        // The lease has lapsed: hosts may have gone on long ago.
        code::NOT_LIVING if forwarder.is_known_by(link) && !faults.has(Fault::KeepWhenLapsed) => {
            forwarder.put_again(volume, pending);
            halt(forwarder, &mut cx.clock);
        }
        code::LOST | code::NOT_OWNER | code::NOT_LIVING | code::BUSY | code::CHECKSUM
            if pending.work == Work::GiveBack =>
        {
            tell(cx, pending, Err(IoError::Busy), Payload::None);
        }
        // The owner has no use for it now, or no longer: somebody else may, or it itself a little later.
        code::LOST | code::NOT_OWNER | code::NOT_LIVING | code::BUSY | code::CHECKSUM => {
            // What must not be done twice and was not begun may be.
            if pending.is_for_once() && code == code::LOST {
                tell(cx, pending, Err(IoError::Lost), Payload::None);
            } else {
                forwarder.put_again(volume, pending);
            }
            forwarder.pause(now, volume);
            cx.clock.stir();
        }
        // Now its clock is known.
        code::STALE => forwarder.put_again(volume, pending),
        // The owner has not heard yet that the volume has grown.
        code::OUT_OF_RANGE if is_inside(&cx.view, volume, pending.work) => {
            forwarder.put_again(volume, pending);
            forwarder.pause(now, volume);
            cx.clock.stir();
        }
        other => tell(cx, pending, Err(error_from_wire(other)), Payload::None),
    }
}

/// Hosts are dropped on all cores before anything else is sent.
pub(super) fn halt(forwarder: &mut Forwarder, clock: &mut Clock) {
    forwarder.halt();
    clock.stir();
}

/// Does an I/O lie inside the volume, as far as this core knows it?
fn is_inside(view: &View, volume: VolumeId, work: Work) -> bool {
    let known = view.volume_of(volume);
    let (offset, length) = work.range();
    let end = offset.saturating_add(length);
    known.is_some_and(|volume| end <= volume.size_bytes)
}
