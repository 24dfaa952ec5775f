//! What is sent to the owner of a volume: the first time, and again when a link broke.

use super::wire::{checksum, length_to_wire, work_to_wire};
use super::{Turn, end};
use crate::core::CoreConfig;
use crate::core::context::Context;
use crate::forwarder::{FORWARDED, Forwarder, Pending, Work};
use crate::mail::{IoMessage, LimitMessage, Mail, ReservationMessage};
use amita_fabric::{Forward, Link, Message, SendError};
use amita_reactor::driver::Time;
use amita_types::condition::Failing;
use amita_types::io::{IoError, Payload};
use amita_types::{Generation, NodeId, VolumeId};

/// What came of sending what waits first for a volume.
enum Step {
    Went,
    /// It was not to go, and has ended.
    Ended,
    /// Nothing waits.
    Nothing,
    /// The way to the owner has no room now.
    Full,
}

/// Sends what waits for a volume to its owner, at most so much.
pub(super) fn forward(
    cx: &mut Context,
    forwarder: &mut Forwarder,
    now: Time,
    volume: VolumeId,
    node: NodeId,
    most: usize,
) -> Turn {
    if cx.clock.is_late() || forwarder.is_halted() {
        return Turn::Nothing;
    }
    let (generation, is_encrypted) = match cx.view.volume_of(volume) {
        Some(record) if record.owner == Some(node) => (record.generation, record.keys.is_some()),
        // The directory has read a newer record than this core has heard of.
        _ => {
            forwarder.pause(now, volume);
            return Turn::Nothing;
        }
    };
    if is_encrypted && !cx.config.secret_links {
        refuse_plain(cx, forwarder, volume);
    }
    if ask_again(cx, forwarder, now, node) {
        return Turn::Full;
    }
    let Some(route) = cx.peers.link_to(node) else {
        // It comes up, or the node is found to be lost: both are told.
        if cx.peers.is_lost(node) {
            // Not at once: the directory may know of no other yet.
            forwarder.pause(now, volume);
        }
        return Turn::Nothing;
    };
    let mut went = 0;
    loop {
        if went == most {
            return match forwarder.front(volume) {
                Some(_) => Turn::Went,
                None => Turn::Nothing,
            };
        }
        match front(cx, forwarder, now, volume, node, generation, route) {
            Step::Went => went += 1,
            Step::Ended => {}
            Step::Nothing => return Turn::Nothing,
            Step::Full => return Turn::Full,
        }
    }
}

/// The data of an encrypted volume goes over no link that others could read: its hosts have to come to its owner.
fn refuse_plain(cx: &mut Context, forwarder: &mut Forwarder, volume: VolumeId) {
    for pending in forwarder.take_others(volume, |pending| !pending.work.carries_data()) {
        let failing = match pending.work.writes() {
            true => Failing::Writes,
            false => Failing::Reads,
        };
        let why = "it is encrypted, and is not forwarded to the node that owns it by links that others can read: start all nodes with \
                   `--links secret`";
        cx.shards.note_trouble(volume, failing, why);
        end::tell(cx, pending, Err(IoError::Unavailable), Payload::None);
    }
}

/// Sends what waits first for a volume to its owner, by this core's link or by way of the core that holds it.
fn front(
    cx: &mut Context,
    forwarder: &mut Forwarder,
    now: Time,
    volume: VolumeId,
    node: NodeId,
    generation: Generation,
    (link, holder): (Link, usize),
) -> Step {
    let Some(front) = forwarder.front(volume) else {
        return Step::Nothing;
    };
    let origin = front.origin;
    if cx.is_old_of_another_core(now, &origin) {
        if let Some(pending) = forwarder.next_pending(volume) {
            end::refuse_old(cx, pending);
        }
        return Step::Ended;
    }
    if origin.front == FORWARDED {
        // One hop is all: the gateway that it came from is told to look again.
        forwarder.next_pending(volume);
        cx.done(origin, Err(IoError::Busy), Payload::None);
        return Step::Ended;
    }
    if holder != cx.config.core {
        if let Some(pending) = forwarder.next_pending(volume) {
            pass_to_holder(&mut cx.mail, holder, volume, pending);
        }
        return Step::Went;
    }
    let as_of = forwarder.clock(link, now);
    let message = message(&cx.config, forwarder.next_tag(), volume, generation, front, as_of);
    match cx.peers.fabric.send(link, message, front.payload.clone()) {
        Ok(()) => {
            forwarder.sent(volume, node, generation, as_of > 0);
            Step::Went
        }
        // Answers make room; a link that is gone comes again, or its node is lost.
        Err(SendError::Full | SendError::Closed) => Step::Full,
        Err(why) => {
            cx.control
                .warn(format!("volume {volume} cannot be reached through node {node}: {why}"));
            if let Some(pending) = forwarder.next_pending(volume) {
                end::tell(cx, pending, Err(IoError::Unavailable), Payload::None);
            }
            Step::Ended
        }
    }
}

/// To the core that holds the link to the volume's owner.
fn pass_to_holder(mail: &mut Mail, holder: usize, volume: VolumeId, pending: Pending) {
    let Pending {
        origin, work, payload, ..
    } = pending;
    match work {
        Work::Io(op) => mail.send(
            holder,
            IoMessage::Piece {
                origin,
                volume,
                op,
                payload,
            },
        ),
        Work::Reserve => mail.send(
            holder,
            ReservationMessage::Reserve {
                origin,
                volume,
                payload,
            },
        ),
        Work::Lend | Work::GiveBack => mail.send(
            holder,
            LimitMessage::Ask {
                origin,
                volume,
                work,
                payload,
            },
        ),
    }
}

/// A request as the owner gets it; `as_of`: what its clock shows, 0 if that is not known.
fn message(
    config: &CoreConfig,
    tag: u64,
    volume: VolumeId,
    generation: Generation,
    pending: &Pending,
    as_of: u64,
) -> Message {
    let (offset, _) = pending.work.range();
    Message::Forward(Forward {
        tag,
        session: config.fabric.session,
        host: pending.origin.host.into(),
        volume,
        generation,
        op: work_to_wire(pending.work),
        offset,
        length: length_to_wire(pending.work),
        crc: checksum(&pending.payload),
        as_of,
        snapshot: pending.origin.snapshot,
    })
}

/// Asks an owner again for what was on a link to it that broke, in the order in which that was sent first, and under the same tags.
/// True while there is more: nothing new is sent before that.
pub(super) fn ask_again(cx: &mut Context, forwarder: &mut Forwarder, now: Time, node: NodeId) -> bool {
    let mut after = 0;
    while let Some((tag, volume, generation, pending)) = forwarder.to_ask_again(node, after) {
        let record = cx.view.volume_of(volume);
        if record.is_some_and(|record| record.owner != Some(node) || record.generation != generation) {
            forwarder.give_up(tag);
            cx.clock.stir();
            continue;
        }
        let may_send = !cx.clock.is_late() && !forwarder.is_halted();
        let Some((link, holder)) = cx.peers.link_to(node).filter(|_| may_send) else {
            return true;
        };
        debug_assert_eq!(holder, cx.config.core, "requests are with the core that holds the link");
        let as_of = forwarder.clock(link, now);
        let message = message(&cx.config, tag, volume, generation, pending, as_of);
        match cx.peers.fabric.send(link, message, pending.payload.clone()) {
            Ok(()) => forwarder.asked_again(tag, as_of > 0),
            Err(SendError::Full | SendError::Closed) => return true,
            Err(_) => forwarder.give_up(tag),
        }
        after = tag;
    }
    false
}
