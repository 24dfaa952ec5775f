//! Forwarding: a host's I/O at a gateway that does not own the volume. What is decided where is told in [`crate::forwarder`].
//!
//! Here what waits for a way goes on: to this core's sequencers, or to another gateway (`send.rs`), as far as that can be reached
//! (`reach.rs`); and the owner's answers end it (`end.rs`). The owner's side is `receive.rs`.

mod end;
mod reach;
mod receive;
mod receiving;
mod send;
mod wire;

pub(super) use end::refuse_old;
pub(super) use reach::was_closed_since;
pub(super) use receiving::Receiving;

use super::CoreConfig;
use super::context::Context;
use super::parents::PARENTS;
use super::{reserve, route};
use crate::faults::Fault;
use crate::flattens::FLATTENS;
use crate::forwarder::{FORWARDED, FORWARDS, Forwarder, Pending, State, Work, is_host};
use crate::limits::{Gate, lending_core};
use crate::mail::{LimitMessage, Origin, VolumeRoute};
use crate::token;
use amita_fabric::{Forwarded, Link};
use amita_frontend::HostKey;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::{IoError, Op, Payload};
use amita_types::{NodeId, SnapshotId, VolumeId};
use reach::For;
use std::collections::BTreeSet;
use wire::code;

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

/// Does a front that has opened the volume for itself wait? Its owner is here, and holds, or is about to open what it has moved to.
fn waits_for_a_move(cx: &Context, volume: VolumeId) -> bool {
    // A core whose view is of before the move may have sent it on by the number that it had then.
    let now = cx.view.present(volume);
    let is_coming = || cx.view.owner(now) == Some(cx.config.node) && cx.view.has_moved(now);
    cx.shards.is_on_hold(volume) || is_coming()
}

/// How I/O reaches the gateway that owns its volume.
pub(super) struct Forwarding {
    /// What this core has for other gateways.
    pub(super) forwarder: Forwarder,
    /// What other gateways have for this core.
    pub(super) receiving: Receiving,
    /// Where I/O of limited volumes waits.
    pub(super) gate: Gate,
}

impl Forwarding {
    pub(super) fn new(config: &CoreConfig) -> Forwarding {
        let place = u64::from(config.node.0) << 16 | config.core as u64;
        Forwarding {
            forwarder: Forwarder::new(token::id_base(config.core, FORWARDS)),
            receiving: Receiving::default(),
            gate: Gate::new(place, config.fabric.session, config.faults),
        }
    }

    /// I/O for a volume that is not open here.
    pub(super) fn away(
        &mut self,
        cx: &mut Context,
        now: Time,
        origin: Origin,
        volume: VolumeId,
        op: Op,
        payload: Slice,
    ) {
        let is_here = origin.front != FORWARDED && origin.snapshot == SnapshotId::HEAD;
        if is_here && origin.host == HostKey::NONE && !waits_for_a_move(cx, volume) {
            // A front that has opened the volume for itself: it was lost to another gateway. It knows no other path to it, and what was only lost is
            // asked for again.
            let why = match reach::is_closed(cx, volume) {
                true => IoError::Closed,
                false => IoError::Lost,
            };
            return cx.done(origin, Err(why), Payload::None);
        }
        if origin.front == FORWARDED && cx.shards.generation(volume).is_some() {
            // It is open here under another generation than the sender means, or on its way to another gateway.
            return cx.done(origin, Err(IoError::Busy), Payload::None);
        }
        let work = Work::Io(op);
        self.wait(cx, now, volume, origin, work, payload);
    }

    /// Something for a volume's owner, wherever that is.
    pub(super) fn wait(
        &mut self,
        cx: &mut Context,
        now: Time,
        volume: VolumeId,
        origin: Origin,
        work: Work,
        payload: Slice,
    ) {
        let pending = Pending {
            origin,
            work,
            payload,
            since: now,
        };
        self.forwarder.push(volume, pending);
        self.settle(cx, now, volume);
    }

    /// Hands out what waits for a volume, as far as it can go.
    pub(super) fn settle(&mut self, cx: &mut Context, now: Time, volume: VolumeId) {
        self.settle_some(cx, now, volume, usize::MAX);
    }

    /// Tries again whatever waits; for when something has changed that may let it go on.
    pub(super) fn settle_all(&mut self, cx: &mut Context, now: Time) {
        for node in self.forwarder.with_lost_copies() {
            send::ask_again(cx, &mut self.forwarder, now, node);
        }
        for volume in self.forwarder.round() {
            self.settle_some(cx, now, volume, 1);
        }
        self.go_round(cx, now);
        end::given_up(cx, &mut self.forwarder, now);
    }

    /// What waits goes on by turns, a request of each volume, beginning behind the one that had the last turn: however much
    /// waits for one, another's with the same owner go on.
    fn go_round(&mut self, cx: &mut Context, now: Time) {
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
                match self.settle_some(cx, now, volume, 1) {
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
    fn settle_some(&mut self, cx: &mut Context, now: Time, volume: VolumeId, most: usize) -> Turn {
        // Hosts go before anything else does.
        if self.forwarder.is_halted() || self.forwarder.front(volume).is_none() {
            return Turn::Nothing;
        }
        let volume = self.follow(cx, volume);
        if self.forwarder.front(volume).is_none() {
            return Turn::Nothing;
        }
        let is_deleted = reach::is_deleted(cx, volume);
        if is_deleted {
            end::of_hosts(cx, &mut self.forwarder, volume);
            if self.forwarder.front(volume).is_none() {
                return Turn::Nothing;
            }
        }
        if cx.shards.is_open(volume) {
            self.settle_here(cx, now, volume);
            return Turn::Nothing;
        }
        if cx.shards.is_on_hold(volume) {
            self.lend_on_hold(cx, now, volume);
            if self.forwarder.front(volume).is_none() {
                return Turn::Nothing;
            }
        }
        // What is known here may be late, and a host that hears the last word tries no other path: it is told by who has read the record.
        let is_closed = reach::is_closed(cx, volume);
        let hosts_wait = is_closed && self.forwarder.has_waiting(volume, end::is_of_the_volume);
        // Who comes just behind those that were told so rests, and what else is wanted of it goes on.
        let rests_until = match hosts_wait {
            true => self.forwarder.closed_until(now, volume),
            false => None,
        };
        let whom = match hosts_wait && rests_until.is_none() {
            _ if is_deleted => For::Clones,
            true => For::HostsOfClosed,
            false if is_closed => For::Clones,
            false => For::Hosts,
        };
        let before = self.forwarder.state(volume);
        if let Some(until) = rests_until
            && !matches!(before, State::Asking | State::There(_))
            && !self.forwarder.has_waiting(volume, end::is_looked_for_when_closed)
        {
            self.forwarder.set(volume, State::Resting(until));
            return Turn::Nothing;
        }
        let state = match before {
            State::Pausing(until) if now < until => return Turn::Nothing,
            State::Asking => return Turn::Nothing,
            State::There(node) => State::There(node),
            _ if end::of_givers(cx, &mut self.forwarder, volume) => return Turn::Nothing,
            _ if whom != For::HostsOfClosed && reach::is_out_of_reach(cx, volume) => {
                match rests_until {
                    // Those who rest hear the last word in their turn.
                    Some(until) => end::all_but_of_the_volume(cx, &mut self.forwarder, volume, until),
                    None => end::all_waiting(cx, &mut self.forwarder, volume),
                }
                return Turn::Nothing;
            }
            State::Unknown | State::Pausing(_) | State::Resting(_) => reach::find_route(cx, volume, whom),
        };
        self.forwarder.set(volume, state);
        match state {
            State::There(node) => send::forward(cx, &mut self.forwarder, now, volume, node, most),
            _ => Turn::Nothing,
        }
    }

    /// What waits for a volume that has moved to another pool waits for what it is now. Which of the two is to be looked at.
    fn follow(&mut self, cx: &mut Context, volume: VolumeId) -> VolumeId {
        let now = cx.view.present(volume);
        if now == volume {
            return volume;
        }
        // Clones go on with what it was, and so does who has its chunks made.
        let is_of_it = |pending: &Pending| matches!(pending.origin.front, PARENTS | FLATTENS);
        for pending in self.forwarder.take_others(volume, is_of_it) {
            match is_host(pending.origin.front) {
                true => self.forwarder.push(now, pending),
                // What another gateway has sent was meant for who owned it then: that gateway looks again.
                false => end::refuse_old(cx, pending),
            }
        }
        match self.forwarder.front(volume) {
            Some(_) => volume,
            None => now,
        }
    }

    /// The volume is open here: everything that waits for it goes to its sequencers.
    fn settle_here(&mut self, cx: &mut Context, now: Time, volume: VolumeId) {
        self.forwarder.set(volume, State::Unknown);
        while let Some(pending) = self.forwarder.next_pending(volume) {
            self.begin_here(cx, now, volume, pending);
        }
    }

    /// Its owner is here, and holds for the last pass of a move: hosts wait, and whoever asks for tokens does not. It may be who makes that pass, or
    /// somebody whose tokens are lent by who lends this volume's: they would wait for the hold, and the hold for the pass.
    fn lend_on_hold(&mut self, cx: &mut Context, now: Time, volume: VolumeId) {
        let stays = |pending: &Pending| !matches!(pending.work, Work::Lend | Work::GiveBack);
        for pending in self.forwarder.take_others(volume, stays) {
            self.begin_here(cx, now, volume, pending);
        }
    }

    /// What has waited for a volume that is here is begun, if it may be still.
    fn begin_here(&mut self, cx: &mut Context, now: Time, volume: VolumeId, pending: Pending) {
        if cx.is_old_of_another_core(now, &pending.origin) {
            return end::refuse_old(cx, pending);
        }
        let Pending {
            origin,
            work,
            payload,
            since,
        } = pending;
        if self.receiving.is_orphan(&cx.config, &origin) {
            // It was not begun.
            self.receiving.take(origin.tag, code::STALE);
            return;
        }
        // The other gateway may have no more to do with it by now: it is to send it again, if it has.
        let is_old = !is_host(origin.front) && now > since.plus(cx.config.stale_after);
        match work {
            Work::Io(_) if is_old => cx.done(origin, Err(IoError::Busy), Payload::None),
            Work::Io(op) => route::route(cx, self, now, origin, volume, op, payload),
            Work::Reserve => reserve::here(&mut cx.mail, origin, volume, &payload),
            Work::Lend | Work::GiveBack => cx.mail.send(
                lending_core(volume, cx.config.cores),
                LimitMessage::AskHere {
                    origin,
                    volume,
                    payload,
                },
            ),
        }
    }

    /// The directory has said where a volume's I/O goes.
    pub(super) fn sought(&mut self, cx: &mut Context, now: Time, volume: VolumeId, way: VolumeRoute) {
        match way {
            VolumeRoute::Here => self.forwarder.set(volume, State::Unknown),
            VolumeRoute::There(node) if node == cx.config.node => self.forwarder.pause(now, volume),
            VolumeRoute::There(node) => self.forwarder.set(volume, State::There(node)),
            VolumeRoute::Later => self.forwarder.pause(now, volume),
            VolumeRoute::Locked => self.forwarder.pause_for_keys(now, volume),
            VolumeRoute::Nowhere => end::all_waiting(cx, &mut self.forwarder, volume),
            VolumeRoute::Closed => {
                end::of_the_volume(cx, &mut self.forwarder, volume);
                // Who reads a snapshot looks again.
                self.forwarder.close(now, volume);
            }
        }
        self.settle(cx, now, volume);
    }

    /// An owner has answered, by a link that leads to it.
    pub(super) fn on_forwarded(
        &mut self,
        cx: &mut Context,
        now: Time,
        (link, from): (Link, NodeId),
        answer: Forwarded,
        payload: Slice,
    ) {
        self.forwarder.heard_clock(link, now, answer.clock);
        let Some(answered) = self.forwarder.answered(from, answer.tag) else {
            // Its host has gone, or it has ended otherwise: there is room all the same.
            return self.go_round(cx, now);
        };
        let node = answered.node;
        let stood_still = self
            .forwarder
            .stood_still(node, now, answer.clock, cx.config.stale_after);
        if stood_still && !cx.config.faults.has(Fault::DateAgain) {
            // Before anything else is sent.
            end::halt(&mut self.forwarder, &mut cx.clock);
        }
        match answer.code {
            code::DONE => end::done(cx, &mut self.forwarder, link, &answer, answered, payload),
            _ => end::undone(cx, &mut self.forwarder, now, link, answer.code, answered),
        }
        if answer.code != code::NOT_LIVING {
            self.forwarder.known_by(link);
        }
        self.go_round(cx, now);
    }

    /// A link to an owner broke: what it has may never be answered.
    pub(super) fn link_broke(&mut self, cx: &mut Context, now: Time, node: NodeId) {
        self.forwarder.link_broke(node);
        self.settle_all(cx, now);
    }

    /// A volume may have another owner now.
    pub(super) fn owner_changed(&mut self, cx: &mut Context, now: Time, volume: VolumeId) {
        let owner = cx.view.owner(volume);
        match self.forwarder.state(volume) {
            State::There(node) if owner != Some(node) => {
                self.forwarder.deposed(node, volume);
                self.forwarder.look_anew(volume);
            }
            State::Unknown | State::Pausing(_) | State::Resting(_) => self.forwarder.look_anew(volume),
            State::Asking | State::There(_) => {}
        }
        self.settle(cx, now, volume);
        // What was given up stands in nobody's way any more.
        self.go_round(cx, now);
        end::given_up(cx, &mut self.forwarder, now);
    }

    /// Nodes have come or gone.
    pub(super) fn nodes_changed(&mut self, cx: &mut Context, now: Time) {
        for node in self.forwarder.asked() {
            if !cx.view.lives(node) || cx.peers.is_lost(node) {
                self.forwarder.owner_lost(node);
            }
        }
        for volume in self.forwarder.stalled() {
            if let State::There(node) = self.forwarder.state(volume)
                && (!cx.view.lives(node) || cx.peers.is_lost(node))
            {
                self.forwarder.set(volume, State::Unknown);
            }
        }
        self.settle_all(cx, now);
    }
}
