//! Forwarding: a host's I/O at a gateway that does not own the volume. What is decided where is told in [`crate::forwarder`].

mod receiving;
mod wire;

pub(super) use receiving::Receiving;

use super::Core;
use crate::faults::Fault;
use crate::forwarder::{Answered, FORWARDED, Pending, State, Work, is_host};
use crate::mail::{CoreMessage, Origin, Sought};
use amita_fabric::{Forward, ForwardOp, Forwarded, Link, Message, SendError};
use amita_frontend::HostKey;
use amita_frontend::reservation::{self, Refusal};
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::{Generation, NodeId, TraceId, VolumeId};
use receiving::{Known, Sender};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::{
    checksum, code, error_from_wire, error_to_wire, form, payload_from_wire, reservation_from_wire, work_from_wire,
    work_to_wire,
};

/// How often a core with hosts that other gateways serve as well looks at the clock.
const PULSE: Duration = Duration::from_millis(250);

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

impl Core {
    /// The beginning of a pass: has this core not been running? Then its hosts may have gone to another gateway long ago,
    /// and what they had sent it must not be carried out now (R9).
    pub(super) fn check_pulse(&mut self, driver: &mut dyn Driver) {
        let now = driver.now();
        let due = self.receiving.pulse.filter(|_| !self.config.faults.has(Fault::NoPulse));
        self.receiving.late = due.is_some_and(|at| now > at.plus(PULSE));
        if due.is_none_or(|at| now <= at.plus(self.config.stale_after)) {
            return;
        }
        let dropped = self.drop_hosts(driver);
        for node in self.forwarder.asked() {
            // What was forwarded may not have left yet.
            if let Some((link, holder)) = self.peers.route(node)
                && holder == self.config.core
            {
                self.fabric.close(driver, link);
            }
        }
        self.forwarder.forget(self.config.core as u16, None);
        let links: Vec<Link> = self.receiving.links.drain().collect();
        for link in &links {
            self.fabric.close(driver, *link);
        }
        let text = format!(
            "core {} did not run for {} ms: {dropped} hosts' connections and {} gateways' links were dropped, so that \
             nothing old is carried out; hosts with another path go on by that",
            self.config.core,
            now.since(self.receiving.pulse.unwrap_or(now)).as_millis(),
            links.len(),
        );
        self.to_control.push(crate::control::FromCore::Warning(text));
        self.stirred = true;
    }

    /// The node's lease has lapsed, or the machine stood still: on every core hosts go before anything else is forwarded.
    pub(super) fn drop_everywhere(&mut self, driver: &mut dyn Driver) {
        if !std::mem::take(&mut self.drop_all_hosts) {
            return;
        }
        let dropped = self.drop_hosts(driver);
        let ours = self.config.core;
        for core in (0..self.config.cores).filter(|core| *core != ours) {
            self.mail.send(core, CoreMessage::DropHosts);
        }
        self.settle_routes(driver.now());
        let text = format!(
            "core {ours}: this node was not known as living, or stood still: {dropped} hosts' connections were dropped on this core, and \
             those of the others, so that nothing old is carried out; hosts with another path go on by that"
        );
        self.to_control.push(crate::control::FromCore::Warning(text));
    }

    /// A host of this core has gone, and what it asked for goes with it, wherever in the node it waits (R9).
    pub(super) fn forget_hosts(&mut self) {
        let gone = self.fronts.take_gone();
        if self.config.faults.has(Fault::KeepForGoneHosts) {
            return;
        }
        let ours = self.config.core as u16;
        for front in gone {
            self.forwarder.forget(ours, Some(front));
            for core in (0..self.config.cores).filter(|core| *core != self.config.core) {
                self.mail.send(core, CoreMessage::HostGone { core: ours, front });
            }
        }
    }

    /// The end of a pass: when is the next one to be, at the latest?
    pub(super) fn set_pulse(&mut self, now: Time) {
        if std::mem::take(&mut self.receiving.late) {
            self.settle_routes(now);
        }
        let needed = self.fronts.has_hosts() || !self.receiving.links.is_empty();
        self.receiving.pulse = needed.then(|| now.plus(PULSE));
    }

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
        if self.drop_all_hosts || self.forwarder.front(volume).is_none() {
            return Turn::Nothing;
        }
        if self.shards.is_open(volume) {
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
                    Work::Io(op) => self.pass_to_shard(now, origin, volume, op, payload),
                    Work::Reserve => self.reserve_here(origin, volume, &payload),
                }
            }
            return Turn::Nothing;
        }
        let state = match self.forwarder.state(volume) {
            State::Pausing(until) if now < until => return Turn::Nothing,
            State::Asking => return Turn::Nothing,
            State::There(node) => State::There(node),
            State::Unknown | State::Pausing(_) if self.is_out_of_reach(volume) => {
                self.forwarder.set(volume, State::Unknown);
                while let Some(pending) = self.forwarder.next_pending(volume) {
                    self.end_pending(pending, Err(IoError::Unavailable), Payload::None);
                }
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
            reached += usize::from(node == self.config.node || self.peers.route(node).is_some());
        }
        2 * reached > all
    }

    /// The way to a volume as this core knows it; or the directory is asked.
    fn find_route(&mut self, volume: VolumeId) -> State {
        let owner = self.view.owner(volume).filter(|owner| *owner != self.config.node);
        if let Some(owner) = owner
            && self.view.lives(owner)
            && self.peers.route(owner).is_some()
        {
            return State::There(owner);
        }
        let core = self.config.core;
        let lost = owner.filter(|owner| self.peers.is_lost(*owner));
        let lost = lost
            .map(|owner| (owner, self.peers.is_refused(owner)))
            .into_iter()
            .collect();
        self.mail.send(0, CoreMessage::Seek { core, volume, lost });
        State::Asking
    }

    /// Sends what waits for a volume to its owner, at most so much.
    fn forward(&mut self, now: Time, volume: VolumeId, node: NodeId, most: usize) -> Turn {
        if self.receiving.late || self.drop_all_hosts {
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
        let Some((link, holder)) = self.peers.route(node) else {
            // It comes up, or the node is found to be lost: both are told.
            if self.peers.is_lost(node) {
                // Not at once: the directory may know of no other yet.
                self.forwarder.pause(now, volume);
            }
            return Turn::Nothing;
        };
        let mut went = 0;
        while let Some(front) = self.forwarder.front(volume) {
            if went == most {
                return Turn::Went;
            }
            let origin = front.origin;
            if self.is_old_of_another_core(now, &origin) {
                if let Some(pending) = self.forwarder.next_pending(volume) {
                    self.refuse_old(pending);
                }
                continue;
            }
            if origin.front == FORWARDED {
                // One hop is all: the gateway that it came from is told to look again.
                self.forwarder.next_pending(volume);
                self.done(origin, Err(IoError::Busy), Payload::None);
                continue;
            }
            if holder != self.config.core {
                let Some(pending) = self.forwarder.next_pending(volume) else {
                    return Turn::Nothing;
                };
                let Pending {
                    origin, work, payload, ..
                } = pending;
                went += 1;
                let message = match work {
                    Work::Io(op) => CoreMessage::Piece {
                        origin,
                        volume,
                        op,
                        payload,
                    },
                    Work::Reserve => CoreMessage::Reserve {
                        origin,
                        volume,
                        payload,
                    },
                };
                self.mail.send(holder, message);
                continue;
            }
            let as_of = self.forwarder.clock(link, now);
            let message = Message::Forward(Forward {
                tag: self.forwarder.next_tag(),
                session: self.config.fabric.session,
                host: origin.host.0,
                volume,
                generation,
                op: work_to_wire(front.work),
                offset: front.work.range().0,
                length: front.work.range().1,
                crc: checksum(&front.payload),
                as_of,
            });
            match self.fabric.send(link, message, front.payload.clone()) {
                Ok(()) => {
                    self.forwarder.sent(volume, node, generation, as_of > 0);
                    went += 1;
                }
                // Answers make room; a link that is gone comes again, or its node is lost.
                Err(SendError::Full | SendError::Closed) => return Turn::Full,
                Err(why) => {
                    let text = format!("volume {volume} cannot be reached through node {node}: {why}");
                    self.to_control.push(crate::control::FromCore::Warning(text));
                    if let Some(pending) = self.forwarder.next_pending(volume) {
                        self.end_pending(pending, Err(IoError::Unavailable), Payload::None);
                    }
                }
            }
        }
        Turn::Nothing
    }

    /// Asks an owner again for what was on a link to it that broke, in the order in which that was sent first, and under the same tags.
    /// True while there is more: nothing new is sent before that.
    fn ask_again(&mut self, now: Time, node: NodeId) -> bool {
        let mut after = 0;
        while let Some((tag, volume, generation, pending)) = self.forwarder.to_ask_again(node, after) {
            let record = self.view.volume_of(volume);
            if record.is_some_and(|record| record.owner != Some(node) || record.generation != generation) {
                self.forwarder.give_up(tag);
                self.stirred = true;
                continue;
            }
            let may_send = !self.receiving.late && !self.drop_all_hosts;
            let Some((link, holder)) = self.peers.route(node).filter(|_| may_send) else {
                return true;
            };
            debug_assert_eq!(
                holder, self.config.core,
                "requests are with the core that holds the link"
            );
            let as_of = self.forwarder.clock(link, now);
            let message = Message::Forward(Forward {
                tag,
                session: self.config.fabric.session,
                host: pending.origin.host.0,
                volume,
                generation,
                op: work_to_wire(pending.work),
                offset: pending.work.range().0,
                length: pending.work.range().1,
                crc: checksum(&pending.payload),
                as_of,
            });
            match self.fabric.send(link, message, pending.payload.clone()) {
                Ok(()) => self.forwarder.asked_again(tag, as_of > 0),
                Err(SendError::Full | SendError::Closed) => return true,
                Err(_) => self.forwarder.give_up(tag),
            }
            after = tag;
        }
        false
    }

    /// Ends the connections of this core's hosts, and all that was read from them; how many.
    pub(super) fn drop_hosts(&mut self, driver: &mut dyn Driver) -> usize {
        let dropped = self.fronts.drop_hosts(driver);
        self.forget_hosts();
        dropped
    }

    /// The directory has said where a volume's I/O goes.
    pub(super) fn on_sought(&mut self, now: Time, volume: VolumeId, way: Sought) {
        match way {
            Sought::Here => self.forwarder.set(volume, State::Unknown),
            Sought::There(node) if node == self.config.node => self.forwarder.pause(now, volume),
            Sought::There(node) => self.forwarder.set(volume, State::There(node)),
            Sought::Later => self.forwarder.pause(now, volume),
            Sought::Nowhere => {
                self.forwarder.set(volume, State::Unknown);
                while let Some(pending) = self.forwarder.next_pending(volume) {
                    self.end_pending(pending, Err(IoError::Unavailable), Payload::None);
                }
            }
        }
        self.settle_route(now, volume);
    }

    /// Tells the directory of volumes that are to be handed over, and have nothing under way here.
    pub(super) fn say_left(&mut self) {
        if !self.shards.is_any_leaving() {
            return;
        }
        let core = self.config.core;
        for (volume, generation, attempt) in self.shards.take_left() {
            self.mail.send(
                0,
                CoreMessage::Left {
                    volume,
                    generation,
                    attempt,
                    core,
                },
            );
        }
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
        let Answered {
            volume,
            node,
            pending,
            again,
            dated,
        } = answered;
        let stood_still = self
            .forwarder
            .stood_still(node, now, answer.clock, self.config.stale_after);
        if stood_still && !self.config.faults.has(Fault::DateAgain) {
            // Before anything else is sent.
            self.drop_all_hosts = true;
            self.stirred = true;
        }
        let writes = matches!(
            pending.work,
            Work::Io(Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. })
        );
        match answer.code {
            // It may have been carried out, or be on the stores in part: to do it once more could undo what another host has done since.
            code::LOST if writes && !self.config.faults.has(Fault::CarryOutAgain) => {
                self.end_pending(pending, Err(IoError::Lost), Payload::None);
            }
            // This process may know nothing of the first one.
            code::NOT_OWNER | code::NOT_LIVING | code::BUSY | code::CHECKSUM
                if writes && again && !self.config.faults.has(Fault::CarryOutAgain) =>
            {
                self.end_pending(pending, Err(IoError::Lost), Payload::None);
            }
            // More time has passed by the owner's clock than here: this machine may have stood still, and the host gone on.
            code::STALE if dated && !self.config.faults.has(Fault::DateAgain) => {
                self.end_pending(pending, Err(IoError::Unavailable), Payload::None);
            }
            // The lease has lapsed: hosts may have gone on long ago.
            code::NOT_LIVING if self.forwarder.is_known_by(link) && !self.config.faults.has(Fault::KeepWhenLapsed) => {
                self.forwarder.put_again(volume, pending);
                self.drop_all_hosts = true;
                self.stirred = true;
            }
            // The owner has no use for it now, or no longer: somebody else may, or it itself a little later.
            code::LOST | code::NOT_OWNER | code::NOT_LIVING | code::BUSY | code::CHECKSUM => {
                // What must not be done twice and was not begun may be.
                if pending.is_for_once() && answer.code == code::LOST {
                    self.end_pending(pending, Err(IoError::Lost), Payload::None);
                } else {
                    self.forwarder.put_again(volume, pending);
                }
                self.forwarder.pause(now, volume);
                self.stirred = true;
            }
            // Now its clock is known.
            code::STALE => self.forwarder.put_again(volume, pending),
            // The owner has not heard yet that the volume has grown.
            code::OUT_OF_RANGE if self.is_inside(volume, pending.work) => {
                self.forwarder.put_again(volume, pending);
                self.forwarder.pause(now, volume);
                self.stirred = true;
            }
            code::DONE if pending.work == Work::Reserve => match reservation_from_wire(&answer, &payload) {
                Ok(result) => self.reserve_ended(pending.origin, result),
                Err(why) => {
                    // It was carried out, and nobody can read how it ended.
                    self.end_pending(pending, Err(IoError::Lost), Payload::None);
                    self.give_up(link, why);
                }
            },
            code::DONE => match payload_from_wire(pending.work, &answer, payload) {
                Ok(found) => self.end_pending(pending, Ok(()), found),
                Err(why) => {
                    // Bytes were changed on the way: nothing that came by this link is to be believed.
                    self.forwarder.put_again(volume, pending);
                    self.give_up(link, why);
                }
            },
            other => self.end_pending(pending, Err(error_from_wire(other)), Payload::None),
        }
        if answer.code != code::NOT_LIVING {
            self.forwarder.known_by(link);
        }
        self.go_round(now);
    }

    /// Does an I/O lie inside the volume, as far as this core knows it?
    fn is_inside(&self, volume: VolumeId, work: Work) -> bool {
        let known = self.view.volume_of(volume);
        let (offset, length) = work.range();
        let end = offset.saturating_add(length);
        known.is_some_and(|volume| end <= volume.size_bytes)
    }

    /// Another gateway forwards what a host has asked it for.
    pub(super) fn on_forward(&mut self, now: Time, link: Link, request: Forward, payload: Slice) {
        self.receiving.links.insert(link);
        let Some(tag) = self.receiving.put(Sender {
            link,
            tag: request.tag,
            window: None,
        }) else {
            return self.send_forwarded(now, link, request.tag, code::BUSY, Payload::None);
        };
        let known = self
            .receiving
            .peers
            .get(&link)
            .is_some_and(|(node, _)| self.view.session(*node) == Some(request.session));
        if !known && !self.config.faults.has(Fault::AnySession) {
            return self.answer_forward(now, tag, code::NOT_LIVING, Payload::None);
        }
        let writes = matches!(
            request.op,
            ForwardOp::Write | ForwardOp::Clear | ForwardOp::CompareAndWrite
        );
        let open = self.shards.generation(request.volume);
        let mut window = None;
        if writes && !self.config.faults.has(Fault::NoWindow) {
            let view = &self.view;
            let lives = |session| view.living().any(|node| view.session(node) == Some(session));
            match self.receiving.look_up(link, request.session, request.tag, lives) {
                Known::New(at) => window = Some(at),
                Known::UnderWay => {
                    self.receiving.take(tag, code::BUSY);
                    return;
                }
                Known::Ended(code) => return self.answer_forward(now, tag, code, Payload::None),
            }
            // Of another generation nothing is known here: not even that it was not carried out.
            let other = open.is_some_and(|ours| ours != request.generation);
            if other && !self.config.faults.has(Fault::AnyGeneration) {
                return self.answer_forward(now, tag, code::BUSY, Payload::None);
            }
        }
        let stale_after = self.config.stale_after.as_nanos() as u64;
        let is_fresh = request.as_of > 0 && request.as_of.abs_diff(now.0) <= stale_after;
        if !is_fresh && !self.config.faults.has(Fault::AnyAge) {
            // "Stale" says that it was not carried out, which only the owner under that generation knows.
            let knows = !writes || open == Some(request.generation);
            let code = if knows { code::STALE } else { code::BUSY };
            return self.answer_forward(now, tag, code, Payload::None);
        }
        if checksum(&payload) != request.crc {
            return self.answer_forward(now, tag, code::CHECKSUM, Payload::None);
        }
        let work = work_from_wire(&request).filter(|_| request.generation > Generation(0));
        let Some(work) = work else {
            return self.answer_forward(now, tag, code::INVALID, Payload::None);
        };
        let generation = match self.config.faults.has(Fault::AnyGeneration) {
            true => Generation(0),
            false => request.generation,
        };
        let origin = Origin {
            core: self.config.core as u16,
            front: FORWARDED,
            tag,
            arrived: self.pass_began,
            parsed: now,
            trace: TraceId::NONE,
            host: HostKey(request.host),
            generation,
        };
        if let Some(at) = window {
            self.receiving.take_on(tag, at);
        }
        match work {
            Work::Io(op) => self.pass_to_shard(now, origin, request.volume, op, payload),
            Work::Reserve => self.wait_for_route(now, request.volume, origin, Work::Reserve, payload),
        }
    }

    /// Ends a forwarded command about a reservation.
    pub(super) fn forward_reserved(&mut self, now: Time, tag: u64, result: &Result<reservation::State, Refusal>) {
        let Some(Sender { link, tag, .. }) = self.receiving.take(tag, code::DONE) else {
            return;
        };
        match result {
            Err(Refusal::Unavailable) => return self.send_forwarded(now, link, tag, code::NOT_OWNER, Payload::None),
            Err(Refusal::Unknown) => return self.send_forwarded(now, link, tag, code::LOST, Payload::None),
            _ => {}
        }
        let text = serde_json::to_vec(result).expect("numbers and names");
        let data = Slice::copy_from(&text);
        self.send_answer(now, link, tag, code::DONE, (form::RESERVATION, 0, data));
    }

    /// Ends a forwarded request that came in here.
    pub(super) fn forward_done(&mut self, now: Time, tag: u64, result: Result<(), IoError>, payload: Payload) {
        let code = match result {
            Ok(()) => code::DONE,
            Err(why) => error_to_wire(why),
        };
        self.answer_forward(now, tag, code, payload);
    }

    fn answer_forward(&mut self, now: Time, tag: u64, code: u8, payload: Payload) {
        if let Some(Sender { link, tag, .. }) = self.receiving.take(tag, code) {
            self.send_forwarded(now, link, tag, code, payload);
        }
    }

    fn send_forwarded(&mut self, now: Time, link: Link, tag: u64, code: u8, payload: Payload) {
        let (form, value, data) = match payload {
            Payload::None => (form::NONE, 0, Slice::default()),
            Payload::Zeros(bytes) => (form::ZEROS, bytes, Slice::default()),
            Payload::Data(data) => (form::DATA, 0, data),
            Payload::Allocation(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                (form::ALLOCATION, 0, Slice::copy_from(&bytes))
            }
        };
        self.send_answer(now, link, tag, code, (form, value, data));
    }

    fn send_answer(&mut self, now: Time, link: Link, tag: u64, code: u8, (form, value, data): (u8, u32, Slice)) {
        let answer = Forwarded {
            tag,
            code,
            form,
            value,
            crc: checksum(&data),
            clock: now.0,
        };
        match self.fabric.send(link, Message::Forwarded(answer), data) {
            // A link that broke meanwhile: the other gateway asks again by the next one.
            Ok(()) | Err(SendError::Closed | SendError::NotAsked) => {}
            Err(why) => self.give_up(link, &why.to_string()),
        }
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
