//! The nodes that this one keeps links to: dialling, and dialling again.

use super::{Fabric, Operation, token};
use crate::backoff::pause;
use crate::codec::{Hello, Refuse, RefuseCode, encode_hello};
use crate::connection::{Connection, Guard, Phase};
use crate::event::{DownReason, Event, Link, Violation};
use crate::handshake::{hello, judge};
use crate::limits::{
    BROKEN_FAILURES, MAX_ATTEMPTS, MAX_WINDOW_BYTES, MAX_WINDOW_REQUESTS, QUICK_REFUSALS, USEFUL_LINK,
};
use crate::window::Window;
use amita_reactor::{Driver, SocketId, Time};
use amita_types::NodeId;
use arrayvec::ArrayVec;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A node that this one keeps links to.
#[derive(Debug)]
pub(super) struct Peer {
    address: SocketAddr,
    /// Those of its links that this core owns.
    lanes: Vec<Lane>,
}

/// One link to a peer, through all its connections.
#[derive(Debug)]
struct Lane {
    /// Which of the links between the two nodes.
    index: u16,
    /// Its connection, up or in the handshake.
    link: Option<Link>,
    up: bool,
    /// Attempts to connect that are under way. More than one when earlier ones took too long: any may still succeed.
    attempts: ArrayVec<Attempt, MAX_ATTEMPTS>,
    /// Attempts that failed since the link was last up for a while.
    failures: u32,
    /// Attempts in a row that the peer's host has refused.
    refusals: u32,
    /// When to try again; `None` while there is a connection, or an attempt that may still be in time.
    due: Option<Time>,
    /// Why the peer or this end refused the last time; told once.
    refused: Option<String>,
}

#[derive(Debug)]
struct Attempt {
    number: u64,
    /// When it will have taken too long; `None` when it has, and that was told.
    patience: Option<Time>,
}

impl Fabric {
    /// Keeps links to a peer at this address, or (with `None`) drops them. A peer that moved is dialled anew.
    pub fn set_peer(&mut self, now: Time, node: NodeId, address: Option<SocketAddr>) {
        self.now = self.now.max(now);
        if let Some(peer) = self.peers.get(&node) {
            if Some(peer.address) == address {
                return;
            }
            self.doomed.extend(peer.lanes.iter().filter_map(|lane| lane.link));
            self.peers.remove(&node);
        }
        if let Some(address) = address {
            let lanes = self.config.own_links().map(|index| Lane {
                index,
                link: None,
                up: false,
                attempts: ArrayVec::new(),
                failures: 0,
                refusals: 0,
                due: Some(now),
                refused: None,
            });
            let lanes = lanes.collect();
            self.peers.insert(node, Peer { address, lanes });
        }
        self.callers_changed();
        self.due_by(now);
    }

    /// The addresses of the nodes that this one keeps links to.
    pub(super) fn peer_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.values().map(|peer| peer.address)
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
                for late in lane
                    .attempts
                    .iter_mut()
                    .filter(|attempt| attempt.patience.is_some_and(|end| end <= now))
                {
                    late.patience = None;
                    events.push_back(Event::Unreachable {
                        peer: node,
                        certain: false,
                    });
                    let timeouts = &config.timeouts;
                    let wait = pause(timeouts.backoff_first, timeouts.backoff_last, lane.failures, jitter);
                    lane.failures = lane.failures.saturating_add(1);
                    lane.due = Some(now.plus(wait));
                }
                if lane.link.is_none() && lane.due.is_some_and(|due| due <= now) {
                    lane.due = None;
                    *attempt += 1;
                    let patience = Some(now.plus(config.timeouts.connect));
                    // When the bound is reached the kernel still tries; its next result is what goes on from here.
                    if lane
                        .attempts
                        .try_push(Attempt {
                            number: *attempt,
                            patience,
                        })
                        .is_ok()
                    {
                        driver.connect(peer.address, token(Operation::Connect, *attempt));
                    }
                }
                next = lane
                    .attempts
                    .iter()
                    .filter_map(|attempt| attempt.patience)
                    .chain(lane.due)
                    .fold(next, Time::min);
            }
        }
        next
    }

    /// An attempt to connect has ended.
    pub(super) fn connected(&mut self, driver: &mut dyn Driver, number: u64, result: io::Result<SocketId>) {
        let now = self.now;
        let found = self.peers.iter_mut().find_map(|(&node, peer)| {
            let lane = peer
                .lanes
                .iter_mut()
                .find(|lane| lane.attempts.iter().any(|attempt| attempt.number == number))?;
            lane.attempts.retain(|attempt| attempt.number != number);
            Some((node, lane.index, lane.link.is_some()))
        });
        match (found, result) {
            (Some((node, index, false)), Ok(socket)) => {
                let guard = match self.guard_to(node) {
                    Ok(guard) => guard,
                    Err(why) => {
                        driver.close(socket);
                        self.cannot_prove(node, index, why);
                        return self.missed(node, index, false);
                    }
                };
                let make = |link, socket| Connection::new(link, socket, Some(node), guard, now);
                match self.place(socket, make) {
                    Some(link) => self.call(driver, link, node, index),
                    None => {
                        driver.close(socket);
                        self.missed(node, index, false);
                    }
                }
            }
            (Some((node, index, false)), Err(error)) => {
                self.missed(node, index, error.kind() == io::ErrorKind::ConnectionRefused);
            }
            // Another attempt was faster, or the peer was forgotten or has moved since.
            (_, Ok(socket)) => driver.close(socket),
            (_, Err(_)) => {}
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
    fn cannot_prove(&mut self, node: NodeId, index: u16, reason: String) {
        let Some(lane) = self.lane_of(node, |lane| lane.index == index) else {
            return;
        };
        if lane.refused.as_ref() != Some(&reason) {
            lane.refused = Some(reason.clone());
            self.events.push_back(Event::Refused { peer: node, reason });
        }
    }

    /// A connection is made: this end proves who it is, and introduces itself.
    fn call(&mut self, driver: &mut dyn Driver, link: Link, node: NodeId, index: u16) {
        if let Some(lane) = self.lane_of(node, |lane| lane.index == index) {
            lane.link = Some(link);
            lane.due = None;
        }
        if let Some(connection) = self.connection_mut(link) {
            connection.index = index;
        }
        self.due_by(self.now.plus(self.config.timeouts.handshake));
        if self.connection(link).is_some_and(|found| found.phase == Phase::Proving) {
            return self.prove(driver, link);
        }
        self.introduce(link, node, index);
    }

    /// Says this end's hello.
    pub(super) fn introduce(&mut self, link: Link, node: NodeId, index: u16) {
        self.scratch.clear();
        encode_hello(&mut self.scratch, &hello(&self.config, node, index), false);
        self.append_scratch(link);
    }

    /// An attempt to connect has failed. While another may still be in time, nothing is known.
    fn missed(&mut self, node: NodeId, index: u16, certain: bool) {
        let Some(lane) = self.lane_of(node, |lane| lane.index == index) else {
            return;
        };
        if lane.attempts.iter().all(|attempt| attempt.patience.is_none()) {
            lane.refusals = if certain { lane.refusals.saturating_add(1) } else { 0 };
            self.events.push_back(Event::Unreachable { peer: node, certain });
            self.dial_again(node, index);
        }
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
        if let Some(lane) = self.lane_of(peer, |lane| lane.link == Some(link)) {
            lane.up = true;
            lane.refusals = 0;
            lane.refused = None;
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

    pub(super) fn tell_refused(&mut self, peer: NodeId, link: Link, reason: String) {
        let Some(lane) = self.lane_of(peer, |lane| lane.link == Some(link)) else {
            return;
        };
        // Neither end changes soon: no need to hurry.
        lane.failures = u32::MAX;
        if lane.refused.as_ref() != Some(&reason) {
            lane.refused = Some(reason.clone());
            self.events.push_back(Event::Refused { peer, reason });
        }
    }

    /// An outgoing connection has ended: it is to be made again.
    pub(super) fn lost(&mut self, peer: NodeId, link: Link, was_up: bool, since: Time) {
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
        let goes_on = lane.link.is_some() || lane.attempts.iter().any(|attempt| attempt.patience.is_some());
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
