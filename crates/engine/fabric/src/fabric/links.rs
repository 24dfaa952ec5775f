//! Links that come in, and the end of all links.

use super::{Fabric, Slot};
use crate::codec::{Hello, Refuse, RefuseCode, encode_hello, encode_refuse};
use crate::connection::{Connection, Phase};
use crate::event::{DownReason, Event, Link, Violation};
use crate::handshake::{hello, judge};
use crate::window::Window;
use amita_reactor::{Driver, SocketId};
use amita_types::NodeId;

impl Fabric {
    /// Somebody has connected. He gets a small receive block, and some time to say who he is.
    pub(super) fn accepted(&mut self, driver: &mut dyn Driver, socket: SocketId) {
        self.counters.accepted += 1;
        let now = self.now;
        if self.strangers.len() >= self.config.limits.handshakes || self.connections() >= self.config.limits.connections
        {
            self.drop_oldest_stranger(driver);
        }
        let make = |link, socket| Connection::new(link, socket, Phase::AwaitHello, NodeId::default(), now);
        let Some(link) = self.place(socket, make) else {
            self.counters.strangers += 1;
            return driver.close(socket);
        };
        self.strangers.push_back(link);
        self.due_by(now.plus(self.config.timeouts.handshake));
        self.touch(link);
    }

    fn drop_oldest_stranger(&mut self, driver: &mut dyn Driver) {
        if let Some(&oldest) = self.strangers.front() {
            self.end(driver, oldest, DownReason::Dropped, None);
        }
    }

    /// An incoming connection's `Hello`.
    pub(super) fn greeted(&mut self, driver: &mut dyn Driver, link: Link, theirs: &Hello) {
        let version = match judge(&self.config, theirs, None) {
            Ok(version) => version,
            Err(refuse) => {
                self.counters.refused += 1;
                return self.end(driver, link, DownReason::Dropped, Some(refuse));
            }
        };
        let peer = theirs.node;
        // First of all, so that making room for it does not make room by it.
        self.strangers.retain(|other| *other != link);
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
            self.lost(peer, link, phase == Phase::Up, since);
        } else if phase == Phase::Up {
            self.unanswered -= unanswered;
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
            None => self.remove(driver, link),
            Some(refuse) => {
                self.scratch.clear();
                encode_refuse(&mut self.scratch, &refuse);
                self.append_scratch(link);
                self.due_by(now.plus(self.config.timeouts.handshake));
                // Those that say goodbye are bounded together with those that have not said hello.
                if !self.strangers.contains(&link) {
                    if self.strangers.len() >= self.config.limits.handshakes {
                        self.drop_oldest_stranger(driver);
                    }
                    self.strangers.push_back(link);
                }
            }
        }
    }

    /// Closes the socket and forgets the connection. What is under way on it ends in completions that find nothing.
    pub(super) fn remove(&mut self, driver: &mut dyn Driver, link: Link) {
        let slot = Slot::of(link.0);
        let Some(connection) = self
            .slots
            .get_mut(slot.index())
            .and_then(|slot| slot.take_if(|found| found.link == link))
        else {
            return;
        };
        driver.close(connection.socket);
        self.free.push(slot);
        self.strangers.retain(|other| *other != link);
    }
}
