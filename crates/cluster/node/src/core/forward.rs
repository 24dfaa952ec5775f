//! Forwarding: a host's I/O at a gateway that does not own the volume. What is decided where is told in [`crate::forwarder`].

mod hosts;
mod receive;
mod receiving;
mod wire;

pub(super) use receiving::Receiving;

use super::Core;
use crate::faults::Fault;
use crate::forwarder::{Answered, FORWARDED, Pending, State, Work, is_host};
use crate::mail::{DirectoryMessage, IoMessage, Origin, ReservationMessage, Sought};
use amita_fabric::{Forward, Forwarded, Link, Message, SendError};
use amita_frontend::HostKey;
use amita_frontend::reservation::Refusal;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::{IoError, Op, Payload};
use amita_types::{Generation, NodeId, VolumeId};
use std::collections::BTreeSet;
use wire::{checksum, code, error_from_wire, payload_from_wire, reservation_from_wire, work_to_wire};

/// What came of sending what waits for a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// As much went as was to go.
    Went,
    /// The way to the owner has no room now.
    Full,
    /// Nothing more waits that can go now.
    Nothing,
}

/// What came of sending what waits first for a volume.
enum Step {
    /// It went.
    Went,
    /// It was not to go, and has ended.
    Ended,
    /// Nothing waits.
    Nothing,
    /// The way to the owner has no room now.
    Full,
}

impl Core {
    /// I/O for a volume that is not open here.
    pub(super) fn away(&mut self, now: Time, origin: Origin, volume: VolumeId, op: Op, payload: Slice) {
        if origin.host == HostKey::NONE && origin.front != FORWARDED {
            // A front that has opened the volume for itself: it was lost to another gateway.
            return self.done(origin, Err(IoError::Lost), Payload::None);
        }
        if origin.front == FORWARDED && self.shards.generation(volume).is_some() {
            // It is open here under another generation than the sender means, or on its way to another gateway.
            return self.done(origin, Err(IoError::Busy), Payload::None);
        }
        let work = Work::Io(op);
        self.wait_for_route(now, volume, origin, work, payload);
    }

    /// Something for a volume's owner, wherever that is.
    pub(super) fn wait_for_route(&mut self, now: Time, volume: VolumeId, origin: Origin, work: Work, payload: Slice) {
        let pending = Pending {
            origin,
            work,
            payload,
            since: now,
        };
        self.forwarder.push(volume, pending);
        self.settle_route(now, volume);
    }

    /// Has another core of this node taken it in so long ago that it may not be carried out any more (R9)? That core looks
    /// after the connection on which it came, and may stand still since: its host may have gone on by another gateway, and
    /// nobody here would know. What this core itself has taken in it has looked after.
    pub(super) fn is_old_of_another_core(&self, now: Time, origin: &Origin) -> bool {
        usize::from(origin.core) != self.config.core
            && now > origin.arrived.plus(self.config.stale_after)
            && !self.config.faults.has(Fault::AnyAgeBetweenCores)
    }

    /// It was not begun: its host may try another path, the other gateway may look again.
    pub(super) fn refuse_old(&mut self, pending: Pending) {
        let why = match is_host(pending.origin.front) {
            true => IoError::Unavailable,
            false => IoError::Busy,
        };
        self.end_pending(pending, Err(why), Payload::None);
    }

    /// Hands out what waits for a volume, as far as it can go.
    pub(super) fn settle_route(&mut self, now: Time, volume: VolumeId) {
        self.settle_some(now, volume, usize::MAX);
    }

    /// What waits goes on by turns, a request of each volume, beginning behind the one that had the last turn: however much
    /// waits for one, another's with the same owner go on.
    fn go_round(&mut self, now: Time) {
        let mut full: BTreeSet<NodeId> = BTreeSet::new();
        let mut again = true;
        while std::mem::take(&mut again) {
            for volume in self.forwarder.round() {
                let State::There(node) = self.forwarder.state(volume) else {
                    continue;
                };
                if full.contains(&node) {
                    continue;
                }
                match self.settle_some(now, volume, 1) {
                    Turn::Went => again = true,
                    Turn::Full => {
                        full.insert(node);
                    }
                    Turn::Nothing => {}
                }
            }
        }
    }

    /// Hands out what waits for a volume, as far as it can go; to another gateway at most so much.
    fn settle_some(&mut self, now: Time, volume: VolumeId, most: usize) -> Turn {
        // Hosts go before anything else does.
        if self.forwarder.is_halted() || self.forwarder.front(volume).is_none() {
            return Turn::Nothing;
        }
        if self.shards.is_open(volume) {
            self.settle_here(now, volume);
            return Turn::Nothing;
        }
        let state = match self.forwarder.state(volume) {
            State::Pausing(until) if now < until => return Turn::Nothing,
            State::Asking => return Turn::Nothing,
            State::There(node) => State::There(node),
            State::Unknown | State::Pausing(_) if self.is_out_of_reach(volume) => {
                self.end_waiting(volume);
                return Turn::Nothing;
            }
            State::Unknown | State::Pausing(_) => self.find_route(volume),
        };
        self.forwarder.set(volume, state);
        match state {
            State::There(node) => self.forward(now, volume, node, most),
            _ => Turn::Nothing,
        }
    }

    /// The volume is open here: everything that waits for it goes to its sequencers.
    fn settle_here(&mut self, now: Time, volume: VolumeId) {
        self.forwarder.set(volume, State::Unknown);
        while let Some(pending) = self.forwarder.next_pending(volume) {
            if self.is_old_of_another_core(now, &pending.origin) {
                self.refuse_old(pending);
                continue;
            }
            let Pending {
                origin,
                work,
                payload,
                since,
            } = pending;
            if self.is_orphan(&origin) {
                // It was not begun.
                self.receiving.take(origin.tag, code::STALE);
                continue;
            }
            // The other gateway may have no more to do with it by now: it is to send it again, if it has.
            let is_old = !is_host(origin.front) && now > since.plus(self.config.stale_after);
            match work {
                Work::Io(_) if is_old => self.done(origin, Err(IoError::Busy), Payload::None),
                Work::Io(op) => self.route(now, origin, volume, op, payload),
                Work::Reserve => self.reserve_here(origin, volume, &payload),
            }
        }
    }

    /// Nobody can be asked for the volume: what waits for it ends.
    fn end_waiting(&mut self, volume: VolumeId) {
        self.forwarder.set(volume, State::Unknown);
        while let Some(pending) = self.forwarder.next_pending(volume) {
            self.end_pending(pending, Err(IoError::Unavailable), Payload::None);
        }
    }

    /// Was it forwarded by a link that is gone? Then it comes again by the next.
    fn is_orphan(&self, origin: &Origin) -> bool {
        let is_ours = !is_host(origin.front) && usize::from(origin.core) == self.config.core;
        is_ours && !self.receiving.is_connected(origin.tag)
    }

    /// Does another gateway own the volume, and live, that this one alone does not reach (R10)? Then it is not taken from it, and
    /// hosts are to go by another path: two gateways that do not reach each other would take it from one another for ever, and one
    /// whose network is dead would take what it cannot serve. An owner whose port refuses is dead; one that most of the living do not
    /// reach may be deposed by those.
    fn is_out_of_reach(&self, volume: VolumeId) -> bool {
        let owner = self.view.owner(volume).filter(|owner| *owner != self.config.node);
        owner.is_some_and(|owner| {
            self.view.lives(owner)
                && self.peers.is_lost(owner)
                && !self.peers.is_refused(owner)
                && !self.reaches_most()
                && !self.config.faults.has(Fault::DeposeAlone)
        })
    }

    /// Are there links to so many of the living gateways that they are, with this one, more than half?
    fn reaches_most(&self) -> bool {
        let living = self.view.living().filter(|node| !self.view.is_client(*node));
        let (mut reached, mut all) = (0, 0);
        for node in living {
            all += 1;
            reached += usize::from(node == self.config.node || self.peers.link_to(node).is_some());
        }
        2 * reached > all
    }

    /// The way to a volume as this core knows it; or the directory is asked.
    fn find_route(&mut self, volume: VolumeId) -> State {
        let owner = self.view.owner(volume).filter(|owner| *owner != self.config.node);
        if let Some(owner) = owner
            && self.view.lives(owner)
            && self.peers.link_to(owner).is_some()
        {
            return State::There(owner);
        }
        let core = self.config.core;
        let lost = owner.filter(|owner| self.peers.is_lost(*owner));
        let lost = lost
            .map(|owner| (owner, self.peers.is_refused(owner)))
            .into_iter()
            .collect();
        self.mail.send(0, DirectoryMessage::Seek { core, volume, lost });
        State::Asking
    }

    /// Sends what waits for a volume to its owner, at most so much.
    fn forward(&mut self, now: Time, volume: VolumeId, node: NodeId, most: usize) -> Turn {
        if self.clock.is_late() || self.forwarder.is_halted() {
            return Turn::Nothing;
        }
        let generation = match self.view.volume_of(volume) {
            Some(record) if record.owner == Some(node) => record.generation,
            // The directory has read a newer record than this core has heard of.
            _ => {
                self.forwarder.pause(now, volume);
                return Turn::Nothing;
            }
        };
        if self.ask_again(now, node) {
            return Turn::Full;
        }
        let Some(route) = self.peers.link_to(node) else {
            // It comes up, or the node is found to be lost: both are told.
            if self.peers.is_lost(node) {
                // Not at once: the directory may know of no other yet.
                self.forwarder.pause(now, volume);
            }
            return Turn::Nothing;
        };
        let mut went = 0;
        loop {
            if went == most {
                return match self.forwarder.front(volume) {
                    Some(_) => Turn::Went,
                    None => Turn::Nothing,
                };
            }
            match self.forward_front(now, volume, node, generation, route) {
                Step::Went => went += 1,
                Step::Ended => {}
                Step::Nothing => return Turn::Nothing,
                Step::Full => return Turn::Full,
            }
        }
    }

    /// Sends what waits first for a volume to its owner, by this core's link or by way of the core that holds it.
    fn forward_front(
        &mut self,
        now: Time,
        volume: VolumeId,
        node: NodeId,
        generation: Generation,
        (link, holder): (Link, usize),
    ) -> Step {
        let Some(front) = self.forwarder.front(volume) else {
            return Step::Nothing;
        };
        let origin = front.origin;
        if self.is_old_of_another_core(now, &origin) {
            if let Some(pending) = self.forwarder.next_pending(volume) {
                self.refuse_old(pending);
            }
            return Step::Ended;
        }
        if origin.front == FORWARDED {
            // One hop is all: the gateway that it came from is told to look again.
            self.forwarder.next_pending(volume);
            self.done(origin, Err(IoError::Busy), Payload::None);
            return Step::Ended;
        }
        if holder != self.config.core {
            if let Some(pending) = self.forwarder.next_pending(volume) {
                self.pass_to_holder(holder, volume, pending);
            }
            return Step::Went;
        }
        let as_of = self.forwarder.clock(link, now);
        let message = self.forward_message(self.forwarder.next_tag(), volume, generation, front, as_of);
        match self.peers.fabric.send(link, message, front.payload.clone()) {
            Ok(()) => {
                self.forwarder.sent(volume, node, generation, as_of > 0);
                Step::Went
            }
            // Answers make room; a link that is gone comes again, or its node is lost.
            Err(SendError::Full | SendError::Closed) => Step::Full,
            Err(why) => {
                self.control
                    .warn(format!("volume {volume} cannot be reached through node {node}: {why}"));
                if let Some(pending) = self.forwarder.next_pending(volume) {
                    self.end_pending(pending, Err(IoError::Unavailable), Payload::None);
                }
                Step::Ended
            }
        }
    }

    /// To the core that holds the link to the volume's owner.
    fn pass_to_holder(&mut self, holder: usize, volume: VolumeId, pending: Pending) {
        let Pending {
            origin, work, payload, ..
        } = pending;
        match work {
            Work::Io(op) => self.mail.send(
                holder,
                IoMessage::Piece {
                    origin,
                    volume,
                    op,
                    payload,
                },
            ),
            Work::Reserve => self.mail.send(
                holder,
                ReservationMessage::Reserve {
                    origin,
                    volume,
                    payload,
                },
            ),
        }
    }

    /// A request as the owner gets it; `as_of`: what its clock shows, 0 if that is not known.
    fn forward_message(
        &self,
        tag: u64,
        volume: VolumeId,
        generation: Generation,
        pending: &Pending,
        as_of: u64,
    ) -> Message {
        let (offset, length) = pending.work.range();
        Message::Forward(Forward {
            tag,
            session: self.config.fabric.session,
            host: pending.origin.host.0,
            volume,
            generation,
            op: work_to_wire(pending.work),
            offset,
            length,
            crc: checksum(&pending.payload),
            as_of,
        })
    }

    /// Asks an owner again for what was on a link to it that broke, in the order in which that was sent first, and under the same tags.
    /// True while there is more: nothing new is sent before that.
    fn ask_again(&mut self, now: Time, node: NodeId) -> bool {
        let mut after = 0;
        while let Some((tag, volume, generation, pending)) = self.forwarder.to_ask_again(node, after) {
            let record = self.view.volume_of(volume);
            if record.is_some_and(|record| record.owner != Some(node) || record.generation != generation) {
                self.forwarder.give_up(tag);
                self.clock.stir();
                continue;
            }
            let may_send = !self.clock.is_late() && !self.forwarder.is_halted();
            let Some((link, holder)) = self.peers.link_to(node).filter(|_| may_send) else {
                return true;
            };
            debug_assert_eq!(
                holder, self.config.core,
                "requests are with the core that holds the link"
            );
            let as_of = self.forwarder.clock(link, now);
            let message = self.forward_message(tag, volume, generation, pending, as_of);
            match self.peers.fabric.send(link, message, pending.payload.clone()) {
                Ok(()) => self.forwarder.asked_again(tag, as_of > 0),
                Err(SendError::Full | SendError::Closed) => return true,
                Err(_) => self.forwarder.give_up(tag),
            }
            after = tag;
        }
        false
    }

    /// The directory has said where a volume's I/O goes.
    pub(super) fn on_sought(&mut self, now: Time, volume: VolumeId, way: Sought) {
        match way {
            Sought::Here => self.forwarder.set(volume, State::Unknown),
            Sought::There(node) if node == self.config.node => self.forwarder.pause(now, volume),
            Sought::There(node) => self.forwarder.set(volume, State::There(node)),
            Sought::Later => self.forwarder.pause(now, volume),
            Sought::Nowhere => self.end_waiting(volume),
        }
        self.settle_route(now, volume);
    }

    /// Tries again whatever waits; for when something has changed that may let it go on.
    pub(super) fn settle_routes(&mut self, now: Time) {
        for node in self.forwarder.with_lost_copies() {
            self.ask_again(now, node);
        }
        for volume in self.forwarder.round() {
            self.settle_some(now, volume, 1);
        }
        self.go_round(now);
        self.end_given_up(now);
    }

    fn end_given_up(&mut self, now: Time) {
        for (pending, unknown) in self.forwarder.take_given_up(now) {
            let why = if unknown { IoError::Lost } else { IoError::Unavailable };
            self.end_pending(pending, Err(why), Payload::None);
        }
    }

    fn end_pending(&mut self, pending: Pending, result: Result<(), IoError>, payload: Payload) {
        match pending.work {
            Work::Io(_) => self.done(pending.origin, result, payload),
            Work::Reserve => {
                let why = match result {
                    Err(IoError::Lost) => Refusal::Unknown,
                    _ => Refusal::Unavailable,
                };
                self.reserve_ended(pending.origin, Err(why));
            }
        }
    }

    /// An owner has answered.
    pub(super) fn on_forwarded(&mut self, now: Time, link: Link, answer: Forwarded, payload: Slice) {
        self.forwarder.heard_clock(link, now, answer.clock);
        let Some(answered) = self.forwarder.answered(answer.tag) else {
            // Its host has gone, or it has ended otherwise: there is room all the same.
            return self.go_round(now);
        };
        let node = answered.node;
        let stood_still = self
            .forwarder
            .stood_still(node, now, answer.clock, self.config.stale_after);
        if stood_still && !self.config.faults.has(Fault::DateAgain) {
            // Before anything else is sent.
            self.halt();
        }
        match answer.code {
            code::DONE => self.end_done(link, &answer, answered, payload),
            _ => self.end_undone(now, link, answer.code, answered),
        }
        if answer.code != code::NOT_LIVING {
            self.forwarder.known_by(link);
        }
        self.go_round(now);
    }

    /// Hosts are dropped on all cores before anything else is sent.
    fn halt(&mut self) {
        self.forwarder.halt();
        self.clock.stir();
    }

    /// The owner has carried it out.
    fn end_done(&mut self, link: Link, answer: &Forwarded, answered: Answered, payload: Slice) {
        let Answered { volume, pending, .. } = answered;
        if pending.work == Work::Reserve {
            return match reservation_from_wire(answer, &payload) {
                Ok(result) => self.reserve_ended(pending.origin, result),
                Err(why) => {
                    // It was carried out, and nobody can read how it ended.
                    self.end_pending(pending, Err(IoError::Lost), Payload::None);
                    self.peers.give_up(link, why, &mut self.control);
                }
            };
        }
        match payload_from_wire(pending.work, answer, payload) {
            Ok(found) => self.end_pending(pending, Ok(()), found),
            Err(why) => {
                // Bytes were changed on the way: nothing that came by this link is to be believed.
                self.forwarder.put_again(volume, pending);
                self.peers.give_up(link, why, &mut self.control);
            }
        }
    }

    /// The owner has not carried it out, or not wholly: it ends so, or is tried again.
    fn end_undone(&mut self, now: Time, link: Link, code: u8, answered: Answered) {
        let Answered {
            volume,
            pending,
            again,
            dated,
            ..
        } = answered;
        let faults = self.config.faults;
        let once = pending.work.writes() && !faults.has(Fault::CarryOutAgain);
        match code {
            // It may have been carried out, or be on the stores in part: to do it once more could undo what another host has done since.
            code::LOST if once => self.end_pending(pending, Err(IoError::Lost), Payload::None),
            // This process may know nothing of the first one.
            code::NOT_OWNER | code::NOT_LIVING | code::BUSY | code::CHECKSUM if once && again => {
                self.end_pending(pending, Err(IoError::Lost), Payload::None);
            }
            // More time has passed by the owner's clock than here: this machine may have stood still, and the host gone on.
            code::STALE if dated && !faults.has(Fault::DateAgain) => {
                self.end_pending(pending, Err(IoError::Unavailable), Payload::None);
            }
            // The lease has lapsed: hosts may have gone on long ago.
            code::NOT_LIVING if self.forwarder.is_known_by(link) && !faults.has(Fault::KeepWhenLapsed) => {
                self.forwarder.put_again(volume, pending);
                self.halt();
            }
            // The owner has no use for it now, or no longer: somebody else may, or it itself a little later.
            code::LOST | code::NOT_OWNER | code::NOT_LIVING | code::BUSY | code::CHECKSUM => {
                // What must not be done twice and was not begun may be.
                if pending.is_for_once() && code == code::LOST {
                    self.end_pending(pending, Err(IoError::Lost), Payload::None);
                } else {
                    self.forwarder.put_again(volume, pending);
                }
                self.forwarder.pause(now, volume);
                self.clock.stir();
            }
            // Now its clock is known.
            code::STALE => self.forwarder.put_again(volume, pending),
            // The owner has not heard yet that the volume has grown.
            code::OUT_OF_RANGE if self.is_inside(volume, pending.work) => {
                self.forwarder.put_again(volume, pending);
                self.forwarder.pause(now, volume);
                self.clock.stir();
            }
            other => self.end_pending(pending, Err(error_from_wire(other)), Payload::None),
        }
    }

    /// Does an I/O lie inside the volume, as far as this core knows it?
    fn is_inside(&self, volume: VolumeId, work: Work) -> bool {
        let known = self.view.volume_of(volume);
        let (offset, length) = work.range();
        let end = offset.saturating_add(length);
        known.is_some_and(|volume| end <= volume.size_bytes)
    }

    /// A link to an owner broke: what it has may never be answered.
    pub(super) fn take_back(&mut self, now: Time, node: NodeId) {
        self.forwarder.link_broke(node);
        self.settle_routes(now);
    }

    /// A volume may have another owner now.
    pub(super) fn look_again(&mut self, now: Time, volume: VolumeId) {
        let owner = self.view.owner(volume);
        match self.forwarder.state(volume) {
            State::There(node) if owner != Some(node) => {
                self.forwarder.deposed(node, volume);
                self.forwarder.set(volume, State::Unknown);
            }
            State::Pausing(_) => self.forwarder.set(volume, State::Unknown),
            _ => {}
        }
        self.settle_route(now, volume);
        // What was given up stands in nobody's way any more.
        self.go_round(now);
        self.end_given_up(now);
    }

    /// Nodes have come or gone.
    pub(super) fn look_at_owners(&mut self, now: Time) {
        for node in self.forwarder.asked() {
            if !self.view.lives(node) || self.peers.is_lost(node) {
                self.forwarder.owner_lost(node);
            }
        }
        for volume in self.forwarder.stalled() {
            if let State::There(node) = self.forwarder.state(volume)
                && (!self.view.lives(node) || self.peers.is_lost(node))
            {
                self.forwarder.set(volume, State::Unknown);
            }
        }
        self.settle_routes(now);
    }
}
