//! The nodes that this one keeps links to: dialling, and dialling again.
//!
//! A link goes by one of its peer's networks and is dialled there as if there were no other. What goes by the other one is *beside* it:
//! a connection that is begun when the first dial fails, when its handshake or a ping is not answered, or to move there
//! ([`Fabric::steer`]), and that waits for nothing and holds up nothing. Whichever is up first has the link, and the other connection is
//! ended before anything is said on the new one: what was unanswered is sent again, as after any reconnection (R8), and at the other end
//! the new hello ends the old connection, if that is still there. Where that is known here before the welcome is, the link waits for it
//! ([`Lane::yields`]).

use super::lane::{Attempt, Lane};
use super::{Fabric, Operation, token};
use crate::addresses::Addresses;
use crate::backoff::pause;
use crate::codec::{Hello, Refuse, RefuseCode, encode_hello};
use crate::connection::{Connection, Guard, Phase};
use crate::event::{DownReason, Event, Link, Violation};
use crate::handshake::{hello, judge};
use crate::limits::{BROKEN_FAILURES, MAX_WINDOW_BYTES, MAX_WINDOW_REQUESTS, QUICK_REFUSALS, USEFUL_LINK};
use crate::window::Window;
use amita_reactor::{Driver, SocketId, Time};
use amita_types::NodeId;
use amita_types::link::Network;
use arrayvec::ArrayVec;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A node that this one keeps links to.
#[derive(Debug)]
pub(super) struct Peer {
    addresses: Addresses,
    /// Those of its links that this core owns.
    lanes: Vec<Lane>,
}

impl Fabric {
    /// Keeps links to a peer at this address, or these two, or (with `None`) drops them. A peer that moved is dialled anew.
    pub fn set_peer(&mut self, now: Time, node: NodeId, addresses: Option<impl Into<Addresses>>) {
        self.now = self.now.max(now);
        let addresses: Option<Addresses> = addresses.map(Into::into);
        match (self.peers.get_mut(&node), addresses) {
            (Some(peer), Some(now_at)) if peer.addresses == now_at => return,
            // Links by the first network stay.
            (Some(peer), Some(now_at)) if peer.addresses.first == now_at.first => {
                peer.addresses = now_at;
                let lanes = peer.lanes.iter_mut();
                self.doomed.extend(lanes.filter_map(|lane| lane.forget_second(now)));
                self.second_changed(node, now_at.second.is_some());
            }
            (known, addresses) => {
                let lanes = known.iter().flat_map(|peer| &peer.lanes);
                self.doomed.extend(lanes.flat_map(Lane::connections));
                self.peers.remove(&node);
                if let Some(addresses) = addresses {
                    let lanes = self.config.own_links().map(|index| Lane::new(index, now));
                    let lanes = lanes.collect();
                    self.peers.insert(node, Peer { addresses, lanes });
                }
            }
        }
        self.callers_changed();
        self.due_by(now);
    }

    /// The peer has a second network now, or none.
    fn second_changed(&mut self, node: NodeId, has_second: bool) {
        let lanes = self.peers.get(&node).into_iter().flat_map(|peer| &peer.lanes);
        let links: Vec<Link> = lanes.filter_map(|lane| lane.link).collect();
        for link in links {
            if let Some(connection) = self.connection_mut(link) {
                (connection.has_other, connection.may_doubt) = (has_second, has_second);
            }
        }
    }

    /// The addresses of the nodes that this one keeps links to.
    pub(super) fn peer_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.values().flat_map(|peer| peer.addresses.each())
    }

    /// Has the links to a peer go by this network of it, each as soon as it is up there: until then, and if it cannot be had there,
    /// it stays where it is. What is not up anywhere is dialled by both, and takes what it gets.
    pub fn steer(&mut self, now: Time, node: NodeId, network: Network) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.addresses.by(network).is_none() {
            return;
        }
        for lane in peer.lanes.iter_mut().filter(|lane| lane.up && lane.network != network) {
            lane.moves = true;
            lane.try_beside(now);
        }
        self.due_by(now);
    }

    /// A ping is not answered: the peer is called by its other network, in case that it is this one.
    pub(super) fn doubt(&mut self, link: Link) {
        let now = self.now;
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        connection.may_doubt = false;
        let peer = connection.peer;
        if let Some(lane) = self.lane_of(peer, |lane| lane.link == Some(link) && lane.beside.is_none()) {
            lane.try_beside(now);
        }
        self.due_by(now);
    }

    /// What was known of the node has changed: what waits to call it again waits no longer.
    pub(super) fn dial_soon(&mut self, node: NodeId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        for lane in peer.lanes.iter_mut().filter(|lane| lane.due.is_some()) {
            lane.failures = 0;
            lane.due = Some(now);
        }
        self.due_by(now);
    }

    /// The link on which requests for the node go out; `None` while there is none, or when this core owns none.
    #[must_use]
    pub fn link_to(&self, node: NodeId) -> Option<Link> {
        self.link_for(node, 0)
    }

    /// The same where this core owns several links to the node: those with the same `lane` keep to one link, so that
    /// what belongs to one chunk keeps its order. `None` while that one is not up; another does not step in.
    #[must_use]
    pub fn link_for(&self, node: NodeId, lane: u64) -> Option<Link> {
        let lanes = &self.peers.get(&node)?.lanes;
        let lane = match lanes.as_slice() {
            [] => return None,
            [only] => only,
            several => &several[usize::try_from(lane % several.len() as u64).expect("below a length")],
        };
        lane.link.filter(|_| lane.up)
    }

    /// Starts what is due, and says when the next is.
    pub(super) fn dial(&mut self, driver: &mut dyn Driver, now: Time) -> Time {
        let Fabric {
            config,
            peers,
            attempt,
            jitter,
            events,
            ..
        } = self;
        let mut next = Time(u64::MAX);
        for (&node, peer) in peers {
            for lane in &mut peer.lanes {
                let has_second = peer.addresses.second.is_some();
                lane.lose_patience(&config.timeouts, jitter, now, has_second, |certain| {
                    events.push_back(Event::Unreachable { peer: node, certain });
                });
                let patience = now.plus(config.timeouts.connect);
                let mut call = |lane: &mut Lane, network: Network| {
                    *attempt += 1;
                    let address = peer.addresses.by(network);
                    let address = address.filter(|_| lane.begin(network, *attempt, patience));
                    if let Some(address) = address {
                        driver.connect(address, token(Operation::Connect, *attempt));
                    }
                    address.is_some()
                };
                if lane.link.is_none() && lane.due.is_some_and(|due| due <= now) {
                    lane.due = None;
                    let network = lane.network;
                    call(lane, network);
                }
                if lane.beside_due.is_some_and(|due| due <= now) {
                    lane.beside_due = None;
                    let other = lane.network.other();
                    if lane.beside.is_none() && !lane.is_calling(other) {
                        lane.beside_refused = false;
                        // It stays where it is if nothing can be begun, and does not move some day.
                        let has_begun = call(lane, other);
                        lane.moves &= has_begun;
                    }
                }
                next = lane
                    .attempts
                    .iter()
                    .filter_map(|attempt| attempt.patience)
                    .chain(lane.due)
                    .chain(lane.beside_due)
                    .fold(next, Time::min);
            }
        }
        next
    }

    /// An attempt to connect has ended.
    pub(super) fn connected(&mut self, driver: &mut dyn Driver, number: u64, result: io::Result<SocketId>) {
        let found = self.peers.iter_mut().find_map(|(&node, peer)| {
            let mut lanes = peer.lanes.iter_mut();
            lanes.find_map(|lane| {
                let place = lane.attempts.iter().position(|attempt| attempt.number == number)?;
                let Attempt { network, .. } = lane.attempts.remove(place);
                Some((node, lane.index, network))
            })
        });
        let found = found.filter(|(node, index, network)| self.wants(*node, *index, *network));
        match (found, result) {
            (Some(call), Ok(socket)) => self.made(driver, socket, call),
            (Some((node, index, network)), Err(error)) => {
                self.missed(node, index, network, error.kind() == io::ErrorKind::ConnectionRefused);
            }
            // Another attempt was faster, or the peer was forgotten or has moved since.
            (None, Ok(socket)) => driver.close(socket),
            (None, Err(_)) => {}
        }
    }

    /// Has the link a use for one more connection by that network?
    fn wants(&self, node: NodeId, index: u16, network: Network) -> bool {
        let mut lanes = self.peers.get(&node).into_iter().flat_map(|peer| &peer.lanes);
        lanes.find(|lane| lane.index == index).is_some_and(|lane| {
            if network == lane.network {
                lane.link.is_none() && !lane.yields
            } else {
                lane.beside.is_none() && self.gives_way(lane)
            }
        })
    }

    /// Is a connection beside it to have the link? Not where it is up and answers, unless it is to move there.
    fn gives_way(&self, lane: &Lane) -> bool {
        let quiet = self.config.timeouts.quiet;
        let is_quiet = |found: &Connection| found.pinged.is_some() && self.now.since(found.heard) >= quiet;
        let is_silent = |link: Link| self.connection(link).is_none_or(is_quiet);
        !lane.up || lane.moves || lane.link.is_none_or(is_silent)
    }

    /// There is a connection to the peer, for a link that wants one.
    fn made(&mut self, driver: &mut dyn Driver, socket: SocketId, (node, index, network): (NodeId, u16, Network)) {
        let now = self.now;
        let guard = match self.guard_to(node) {
            Ok(guard) => guard,
            Err(why) => {
                driver.close(socket);
                self.cannot_prove(node, index, network, why);
                return self.missed(node, index, network, false);
            }
        };
        let peer = self.peers.get(&node);
        let has_other = peer.is_some_and(|peer| peer.addresses.second.is_some());
        let make = |link, socket| Connection {
            network,
            has_other,
            may_doubt: has_other,
            ..Connection::new(link, socket, Some(node), guard, now)
        };
        match self.place(socket, make) {
            Some(link) => self.call(driver, link, node, index),
            None => {
                driver.close(socket);
                self.missed(node, index, network, false);
            }
        }
    }

    /// What stands before a connection to the node.
    fn guard_to(&self, node: NodeId) -> Result<Guard, String> {
        let Some(security) = &self.config.security else {
            return Ok(Guard::Open);
        };
        let recorded = self.names.get(&node).ok_or("its name is not known yet")?;
        Ok(Guard::Proving(security.handshakes.call(recorded)?, 0))
    }

    /// This end has no identity to prove, or does not know whose proof to expect.
    fn cannot_prove(&mut self, node: NodeId, index: u16, network: Network, reason: String) {
        let Some(lane) = self.lane_of(node, |lane| lane.index == index) else {
            return;
        };
        let known = &mut lane.refused[network.index()];
        if known.as_ref() != Some(&reason) {
            *known = Some(reason.clone());
            self.events.push_back(Event::Refused { peer: node, reason });
        }
    }

    /// A connection is made: this end proves who it is, and introduces itself.
    fn call(&mut self, driver: &mut dyn Driver, link: Link, node: NodeId, index: u16) {
        let found = self.connection(link);
        let (network, has_other) = found.map(|found| (found.network, found.has_other)).unzip();
        let is_late = self.now.plus(self.config.timeouts.quiet);
        if has_other == Some(true) {
            self.due_by(is_late);
        }
        if let Some(lane) = self.lane_of(node, |lane| lane.index == index) {
            if network == Some(lane.network) {
                lane.link = Some(link);
                lane.due = None;
                // Somebody on the way may have taken the call for the peer, and say nothing.
                if has_other == Some(true) {
                    lane.try_beside(is_late);
                }
            } else {
                lane.beside = Some(link);
                lane.beside_due = None;
                // Somebody has taken it.
                lane.beside_refused = false;
            }
        }
        if let Some(connection) = self.connection_mut(link) {
            connection.index = index;
        }
        self.due_by(self.now.plus(self.config.timeouts.handshake));
        if self.connection(link).is_some_and(|found| found.phase == Phase::Proving) {
            return self.prove(driver, link);
        }
        self.introduce(driver, link, node, index);
    }

    /// Says this end's hello. The other end takes it for the end of the connection that the link has, so it is not said where that one
    /// is well again, and the new one was begun only because it was not.
    pub(super) fn introduce(&mut self, driver: &mut dyn Driver, link: Link, node: NodeId, index: u16) {
        let mut lanes = self.peers.get(&node).into_iter().flat_map(|peer| &peer.lanes);
        let is_wanted = lanes.find(|lane| lane.has(link)).is_some_and(|lane| {
            let is_its_own = lane.link == Some(link);
            is_its_own || self.gives_way(lane)
        });
        if !is_wanted {
            return self.end(driver, link, DownReason::Dropped, None);
        }
        self.scratch.clear();
        encode_hello(&mut self.scratch, &hello(&self.config, node, index), false);
        self.append_scratch(link);
    }

    /// An attempt to connect has failed. While another may still be in time, nothing is known.
    fn missed(&mut self, node: NodeId, index: u16, network: Network, certain: bool) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let has_second = peer.addresses.second.is_some();
        let Some(lane) = peer.lanes.iter_mut().find(|lane| lane.index == index) else {
            return;
        };
        if network != lane.network {
            if let Some(certain) = lane.beside_failed(now, &self.config.timeouts, certain) {
                self.events.push_back(Event::Unreachable { peer: node, certain });
            }
            return self.due_by(now);
        }
        if lane.is_calling(network) {
            return;
        }
        lane.refusals = if certain { lane.refusals.saturating_add(1) } else { 0 };
        if has_second {
            lane.try_beside(now);
            self.next = self.next.min(now);
        }
        // That the process is dead is known only when its host has said so by both networks.
        lane.withheld = certain && has_second && !lane.beside_refused;
        if !lane.withheld {
            self.events.push_back(Event::Unreachable { peer: node, certain });
        }
        self.dial_again(node, index);
    }

    /// The acceptor's `Welcome`: the link is up.
    pub(super) fn welcomed(&mut self, driver: &mut dyn Driver, link: Link, theirs: &Hello) {
        let Some(connection) = self.connection(link) else {
            return;
        };
        let peer = connection.peer;
        let judged = if theirs.version_min == theirs.version_max {
            judge(&self.config, theirs, Some(peer))
        } else {
            let what = Violation::Unexpected("a welcome that chooses no version");
            return self.violation(driver, link, what);
        };
        let version = match judged {
            Ok(version) => version,
            Err(refuse) => {
                self.counters.refused += 1;
                self.tell_refused(peer, link, format!("this end refuses: {}", refuse.reason));
                return self.end(driver, link, DownReason::Dropped, Some(refuse));
            }
        };
        if self.lane_of(peer, |lane| lane.has(link)).is_none() {
            // The peer was forgotten, or has moved.
            return self.end(driver, link, DownReason::Dropped, None);
        }
        let now = self.now;
        let connection = self.connection_mut(link).expect("looked up above");
        let requests = theirs.window_requests.min(MAX_WINDOW_REQUESTS);
        let bytes = theirs.window_bytes.min(MAX_WINDOW_BYTES);
        connection.window = Window::new(requests, bytes);
        connection.phase = Phase::Up;
        connection.version = version;
        connection.since = now;
        connection.session = theirs.session;
        connection.core = theirs.core;
        let network = connection.network;
        let Some(lane) = self.lane_of(peer, |lane| lane.has(link)) else {
            return;
        };
        let others: ArrayVec<Link, 2> = lane.connections().filter(|other| *other != link).collect();
        (lane.link, lane.network, lane.up) = (Some(link), network, true);
        (lane.beside, lane.beside_due, lane.due) = (None, None, None);
        (lane.moves, lane.beside_refused, lane.withheld) = (false, false, false);
        (lane.yields, lane.refusals) = (false, 0);
        lane.refused = [None, None];
        // Before anything is said on the new one: what is unanswered on the old one is sent again.
        for other in others {
            self.end(driver, other, DownReason::Dropped, None);
        }
        self.due_by(now.plus(self.config.timeouts.idle_ping));
        self.events.push_back(Event::Up {
            link,
            peer,
            session: theirs.session,
            outgoing: true,
        });
    }

    /// The peer does not want this node: said once for each reason.
    pub(super) fn refused(&mut self, driver: &mut dyn Driver, link: Link, refuse: &Refuse) {
        let Some(connection) = self.connection(link) else {
            return;
        };
        let peer = connection.peer;
        if refuse.code != RefuseCode::Unknown {
            self.tell_refused(peer, link, refuse.reason.clone());
        }
        self.end(driver, link, DownReason::PeerSaid(refuse.reason.clone()), None);
    }

    /// The other end says that a newer connection has this one's place: the one beside it, if there is one.
    pub(super) fn replaced(&mut self, link: Link) {
        let Some(peer) = self.connection(link).map(|found| found.peer) else {
            return;
        };
        if let Some(lane) = self.lane_of(peer, |lane| lane.link == Some(link) && lane.beside.is_some()) {
            lane.moves = true;
        }
    }

    pub(super) fn tell_refused(&mut self, peer: NodeId, link: Link, reason: String) {
        let Some(network) = self.connection(link).map(|found| found.network) else {
            return;
        };
        let Some(lane) = self.lane_of(peer, |lane| lane.has(link)) else {
            return;
        };
        if network == lane.network {
            // Neither end changes soon: no need to hurry.
            lane.failures = u32::MAX;
        }
        let known = &mut lane.refused[network.index()];
        if known.as_ref() != Some(&reason) {
            *known = Some(reason.clone());
            self.events.push_back(Event::Refused { peer, reason });
        }
    }

    /// An outgoing connection has ended: it is to be made again. `is_cut`: it may be the network.
    pub(super) fn lost(&mut self, peer: NodeId, link: Link, was_up: bool, is_cut: bool, since: Time) {
        let now = self.now;
        let timeouts = self.config.timeouts.clone();
        if let Some(lane) = self.lane_of(peer, |lane| lane.beside == Some(link)) {
            lane.beside = None;
            let has_yielded = std::mem::take(&mut lane.yields);
            let index = lane.index;
            if let Some(certain) = lane.beside_failed(now, &timeouts, false) {
                self.events.push_back(Event::Unreachable { peer, certain });
            }
            if has_yielded {
                self.dial_again(peer, index);
            }
            return self.due_by(now);
        }
        let has_second = self
            .peers
            .get(&peer)
            .is_some_and(|peer| peer.addresses.second.is_some());
        let beside = self
            .lane_of(peer, |lane| lane.link == Some(link))
            .and_then(|lane| lane.beside);
        let has_greeted = beside
            .and_then(|beside| self.connection(beside))
            .is_some_and(|beside| beside.phase == Phase::AwaitWelcome);
        let lasted = if was_up { self.now.since(since) } else { Duration::ZERO };
        let stable = lasted >= self.config.timeouts.backoff_last;
        let Some(lane) = self.lane_of(peer, |lane| lane.link == Some(link)) else {
            return;
        };
        if stable {
            lane.failures = 0;
        } else if lasted >= USEFUL_LINK {
            // Links that break often must be up together now and then, or no write is answered by all.
            lane.failures = lane.failures.min(BROKEN_FAILURES);
        }
        let index = lane.index;
        lane.link = None;
        lane.up = false;
        // Its last word may have been lost: whoever moves takes the end of the link for that.
        lane.yields = was_up && !is_cut && lane.moves && has_greeted;
        lane.moves = false;
        // Only what is refused from now on counts.
        (lane.beside_refused, lane.withheld) = (false, false);
        if is_cut && has_second {
            lane.try_beside(now);
            self.due_by(now);
        }
        self.dial_again(peer, index);
        if !was_up {
            self.events.push_back(Event::Unreachable { peer, certain: false });
        }
    }

    /// The lane is dialled again after a pause, if nothing else goes on for it.
    fn dial_again(&mut self, peer: NodeId, index: u16) {
        let now = self.now;
        let Fabric {
            config,
            peers,
            jitter,
            next,
            ..
        } = self;
        let Some(peer) = peers.get_mut(&peer) else { return };
        let Some(lane) = peer.lanes.iter_mut().find(|lane| lane.index == index) else {
            return;
        };
        let goes_on = lane.link.is_some() || lane.yields || lane.is_calling(lane.network);
        if goes_on || lane.due.is_some() {
            return;
        }
        let timeouts = &config.timeouts;
        let is_quick = (1..=QUICK_REFUSALS).contains(&lane.refusals);
        let failures = if is_quick { 0 } else { lane.failures };
        let due = now.plus(pause(timeouts.backoff_first, timeouts.backoff_last, failures, jitter));
        lane.failures = lane.failures.saturating_add(u32::from(!is_quick));
        lane.due = Some(due);
        *next = (*next).min(due);
    }

    fn lane_of(&mut self, peer: NodeId, which: impl Fn(&Lane) -> bool) -> Option<&mut Lane> {
        self.peers.get_mut(&peer)?.lanes.iter_mut().find(|lane| which(lane))
    }
}
