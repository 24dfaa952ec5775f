//! Links that come in, and the end of all links.

use super::gate::Source;
use super::{Fabric, Slot};
use crate::codec::{Hello, Refuse, RefuseCode, encode_hello, encode_refuse};
use crate::connection::{Connection, Guard, Phase};
use crate::event::{DownReason, Event, Link, Violation};
use crate::handshake::{hello, judge, judge_name};
use crate::window::Window;
use amita_reactor::{Driver, SocketId};
use amita_types::link::Network;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

impl Fabric {
    /// Somebody has connected. He gets a small receive block, and some time to say, and to prove, who he is.
    pub(super) fn accepted(
        &mut self,
        driver: &mut dyn Driver,
        socket: SocketId,
        address: SocketAddr,
        network: Network,
    ) {
        self.counters.accepted += 1;
        let now = self.now;
        let source = Source::from(address.ip());
        let is_known = self.is_known(address.ip());
        let is_free = self.config.security.is_none() || self.gate.admits(now, source, is_known, &self.config.limits);
        if !is_free {
            self.counters.turned_away += 1;
            return driver.close(socket);
        }
        self.make_room_at_gate(driver, is_known);
        if self.connections() >= self.config.limits.connections
            && let Some(victim) = self.gate.any_victim()
        {
            self.end(driver, victim, DownReason::Dropped, None);
        }
        let guard = match &self.config.security {
            None => Guard::Open,
            Some(security) => match security.handshakes.accept() {
                Ok(handshake) => Guard::Proving(handshake, 0),
                Err(reason) => {
                    self.counters.strangers += 1;
                    self.tell_stranger(address, reason);
                    return driver.close(socket);
                }
            },
        };
        let make = |link, socket| Connection {
            address: Some(address),
            network,
            ..Connection::new(link, socket, None, guard, now)
        };
        let Some(link) = self.place(socket, make) else {
            self.counters.strangers += 1;
            return driver.close(socket);
        };
        self.gate.push(link, source, is_known);
        self.due_by(now.plus(self.config.timeouts.handshake));
        self.touch(link);
    }

    /// Is it the address of a node that this one keeps links to?
    fn is_known(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.peer_addresses().any(|peer| peer.ip().to_canonical() == address)
    }

    fn make_room_at_gate(&mut self, driver: &mut dyn Driver, is_known: bool) {
        if let Some(victim) = self.gate.victim(is_known, &self.config.limits) {
            self.end(driver, victim, DownReason::Dropped, None);
        }
    }

    /// An incoming connection's `Hello`.
    pub(super) fn greeted(&mut self, driver: &mut dyn Driver, link: Link, theirs: &Hello) {
        let judged = judge(&self.config, theirs, None).and_then(|version| {
            let proven = self.connection(link).and_then(|found| found.guard.peer());
            proven.map_or(Ok(()), |peer| judge_name(&self.names, peer, theirs.node))?;
            Ok(version)
        });
        let version = match judged {
            Ok(version) => version,
            Err(refuse) => {
                self.counters.refused += 1;
                if refuse.code == RefuseCode::Identity
                    && let Some(address) = self.connection(link).and_then(|found| found.address)
                {
                    self.tell_liar(address, refuse.reason.clone());
                }
                return self.end(driver, link, DownReason::Dropped, Some(refuse));
            }
        };
        let peer = theirs.node;
        // First of all, so that making room for it does not make room by it.
        self.gate.remove(link);
        self.make_room(driver, theirs);
        let mut ours = hello(&self.config, peer, theirs.link);
        (ours.version_min, ours.version_max) = (version, version);
        let limits = &self.config.limits;
        let window = Window::new(limits.window_requests, limits.window_bytes);
        let now = self.now;
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        connection.phase = Phase::Up;
        connection.peer = peer;
        connection.index = theirs.link;
        connection.core = theirs.core;
        connection.session = theirs.session;
        connection.version = version;
        connection.window = window;
        connection.since = now;
        self.incoming.entry(peer).or_default().push(link);
        self.callers_changed();
        self.scratch.clear();
        encode_hello(&mut self.scratch, &ours, true);
        self.append_scratch(link);
        self.due_by(now.plus(self.config.timeouts.idle_ping));
        self.events.push_back(Event::Up {
            link,
            peer,
            session: theirs.session,
            outgoing: false,
        });
    }

    /// Ends what a new link of the same peer replaces: links of an earlier life of it, the one with the same index, and
    /// the oldest when there are too many.
    fn make_room(&mut self, driver: &mut dyn Driver, theirs: &Hello) {
        let Some(links) = self.incoming.get(&theirs.node) else {
            return;
        };
        let is_replaced = |connection: &Connection| {
            connection.session != theirs.session || (connection.core, connection.index) == (theirs.core, theirs.link)
        };
        let mut replaced: Vec<Link> = links
            .iter()
            .copied()
            .filter(|link| self.connection(*link).is_none_or(is_replaced))
            .collect();
        let too_many = (links.len() - replaced.len() + 1).saturating_sub(self.config.limits.connections_per_peer);
        let kept = links.iter().filter(|link| !replaced.contains(link));
        let oldest: Vec<Link> = kept.copied().take(too_many).collect();
        replaced.extend(oldest);
        for link in replaced {
            let reason = "a newer connection of the same node took its place".to_owned();
            self.end(
                driver,
                link,
                DownReason::Replaced,
                Some(Refuse {
                    code: RefuseCode::Replaced,
                    reason,
                }),
            );
        }
    }

    /// The peer broke the protocol.
    pub(super) fn violation(&mut self, driver: &mut dyn Driver, link: Link, what: Violation) {
        self.counters.violations += 1;
        let refuse = Refuse {
            code: RefuseCode::Violation,
            reason: what.to_string(),
        };
        self.end(driver, link, DownReason::Violation(what), Some(refuse));
    }

    /// Closes a link, on the node's own account. Its [`Event::Down`] follows.
    pub fn close(&mut self, driver: &mut dyn Driver, link: Link) {
        self.end(driver, link, DownReason::Dropped, None);
    }

    /// Ends a connection: at once, or, with something to say, when that is sent.
    pub(super) fn end(&mut self, driver: &mut dyn Driver, link: Link, why: DownReason, last_words: Option<Refuse>) {
        let now = self.now;
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        let phase = connection.phase;
        if phase == Phase::Closing {
            // Nothing more to say.
            return self.remove(driver, link);
        }
        let (peer, outgoing, since) = (connection.peer, connection.outgoing, connection.since);
        let is_cut = why.is_of_network();
        connection.phase = Phase::Closing;
        connection.since = now;
        connection.queue.clear();
        connection.queue_bytes = 0;
        let unanswered = u64::from(std::mem::take(&mut connection.window).bytes());
        if phase == Phase::Up {
            self.events.push_back(Event::Down {
                link,
                peer,
                outgoing,
                why,
            });
        }
        if outgoing {
            let was_up = phase == Phase::Up;
            self.lost(peer, link, was_up, is_cut || !was_up, since);
        } else if phase == Phase::Up {
            self.unanswered -= unanswered;
            self.callers_changed();
            if let Some(links) = self.incoming.get_mut(&peer) {
                links.retain(|other| *other != link);
                if links.is_empty() {
                    self.incoming.remove(&peer);
                }
            }
            self.resume();
        } else {
            self.counters.strangers += 1;
        }
        match last_words {
            None if outgoing && phase != Phase::Up => self.take_back(driver, link),
            None => self.remove(driver, link),
            Some(refuse) => {
                self.scratch.clear();
                encode_refuse(&mut self.scratch, &refuse);
                self.append_scratch(link);
                self.linger(driver, link);
            }
        }
    }

    /// The end of a connection whose peer did not prove who it is, or did not believe this end: what the handshake has to
    /// say about it is queued.
    pub(super) fn end_after_proof(&mut self, driver: &mut dyn Driver, link: Link) {
        let now = self.now;
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        let (peer, since, is_stranger) = (connection.peer, connection.since, !connection.outgoing);
        connection.phase = Phase::Closing;
        connection.since = now;
        if is_stranger {
            self.counters.strangers += 1;
        } else {
            self.lost(peer, link, false, true, since);
        }
        self.linger(driver, link);
    }

    /// Leaves a connection some time to send its last words. Those that say goodbye are bounded together with those that
    /// have not said hello.
    fn linger(&mut self, driver: &mut dyn Driver, link: Link) {
        self.due_by(self.now.plus(self.config.timeouts.handshake));
        if self.gate.contains(link) {
            return;
        }
        // Without an address it is one that this end has called.
        let address = self.connection(link).and_then(|found| found.address);
        let is_known = address.is_none_or(|address| self.is_known(address.ip()));
        let source = address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        self.make_room_at_gate(driver, is_known);
        self.gate.push(link, source.into(), is_known);
    }

    /// Closes the socket and forgets the connection. What is under way on it ends in completions that find nothing.
    pub(super) fn remove(&mut self, driver: &mut dyn Driver, link: Link) {
        if let Some(socket) = self.forget(link) {
            driver.close(socket);
        }
    }

    /// The same for a call that is given up: a hello that is still on its way would end the link that is made instead, when a network
    /// that was cut heals.
    fn take_back(&mut self, driver: &mut dyn Driver, link: Link) {
        if let Some(socket) = self.forget(link) {
            driver.abort(socket);
        }
    }

    /// Forgets the connection; its socket is to be closed.
    fn forget(&mut self, link: Link) -> Option<SocketId> {
        let slot = Slot::of(link.0);
        let place = self.slots.get_mut(slot.index())?;
        let connection = place.take_if(|found| found.link == link)?;
        self.free.push(slot);
        self.gate.remove(link);
        Some(connection.socket)
    }
}
