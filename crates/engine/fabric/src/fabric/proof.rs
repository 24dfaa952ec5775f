//! Before the first frame of a protected link: both ends prove who they are.

use super::{Fabric, Slot};
use crate::connection::{Connection, Guard, Phase, Proven};
use crate::event::{DownReason, Event, Link};
use crate::handshake::judge_name;
use crate::limits::{MAX_PROOF_BYTES, STRANGER_PAUSE};
use crate::records::Records;
use crate::secure::{Peer, Recorded, Secrets, Step};
use amita_reactor::{Driver, Time};
use amita_types::NodeId;
use std::net::SocketAddr;

impl Fabric {
    /// How a node is recorded; `None`: it is not, any more. To be said before [`Fabric::set_peer`], and of
    /// every node that may call. Links of whoever had that number under another name end with the next pass.
    pub fn set_name(&mut self, node: NodeId, recorded: Option<Recorded>) {
        let Some(recorded) = recorded else {
            self.names.remove(&node);
            return;
        };
        if self.names.get(&node) == Some(&recorded) {
            return;
        }
        let is_another = |connection: &&Connection| {
            let is_of_node = connection.outgoing || connection.phase == Phase::Up;
            let is_it = |peer: &Peer| peer.may_be(&recorded);
            is_of_node && connection.peer == node && !connection.guard.peer().is_none_or(is_it)
        };
        let connections = self.slots.iter().filter_map(Option::as_deref);
        let others = connections.filter(is_another).map(|found| found.link);
        self.doomed.extend(others);
        self.names.insert(node, recorded);
        self.dial_soon(node);
    }

    /// Ends the links of peers that are not to be believed any more. To be called when the list of revoked certificates has
    /// changed, and now and then.
    pub fn recheck(&mut self, driver: &mut dyn Driver, now: Time) {
        self.now = self.now.max(now);
        let Some(security) = self.config.security.clone() else {
            return;
        };
        let distrusted = |slot: &Option<Box<Connection>>| {
            let connection = slot.as_deref()?;
            let peer = connection.guard.peer()?;
            (!security.handshakes.trusts(peer)).then_some(connection.link)
        };
        let links: Vec<Link> = self.slots.iter().filter_map(distrusted).collect();
        for link in links {
            self.end(driver, link, DownReason::Distrusted, None);
        }
    }

    /// Goes on with the handshake, by what has come in.
    pub(super) fn prove(&mut self, driver: &mut dyn Driver, link: Link) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let Fabric { slots, config, .. } = self;
        let found = slots
            .get_mut(Slot::of(link.0).index())
            .and_then(|slot| slot.as_deref_mut())
            .filter(|found| found.link == link);
        let Some(connection) = found else { return };
        let Guard::Proving(handshake, taken) = &mut connection.guard else {
            return;
        };
        let step = handshake
            .advance(connection.inbox.data(), &mut scratch)
            .map(|(bytes, step)| {
                *taken += bytes;
                connection.inbox.skip(bytes);
                step
            });
        let is_long = *taken + connection.inbox.len() > MAX_PROOF_BYTES;
        connection.outbox.append(&config.pool, &scratch);
        self.scratch = scratch;
        self.touch(link);
        match step {
            Ok(Step::More) if is_long => self.unproven(driver, link, "it says too much".to_owned()),
            Ok(Step::More) => {}
            Ok(Step::Done { peer, secrets }) => self.proven(driver, link, peer, secrets),
            Err(reason) => self.unproven(driver, link, reason),
        }
    }

    /// Both ends have proven who they are.
    fn proven(&mut self, driver: &mut dyn Driver, link: Link, peer: Peer, secrets: Secrets) {
        let Some(security) = &self.config.security else {
            return;
        };
        let records = Records::new(security.handshakes.protection(), secrets, security.rekey_frames);
        // The name may have changed since the call, and that whoever answers has it is too much to leave to one place.
        let callee = self
            .connection(link)
            .filter(|found| found.outgoing)
            .map(|found| found.peer);
        if let Some(node) = callee
            && let Err(refuse) = judge_name(&self.names, &peer, node)
        {
            return self.unproven(driver, link, refuse.reason);
        }
        // It was judged by the list of when it showed its certificate, and whoever looks at the links looks past the unfinished ones.
        if !security.handshakes.trusts(&peer) {
            return self.unproven(driver, link, format!("{peer} is not to be believed any more"));
        }
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        connection.guard = Guard::Proven(Box::new(Proven { peer, records }));
        if !connection.outgoing {
            connection.phase = Phase::AwaitHello;
            return;
        }
        connection.phase = Phase::AwaitWelcome;
        let (node, index) = (connection.peer, connection.index);
        self.introduce(driver, link, node, index);
    }

    /// One of the two ends does not believe the other. What it may know was queued by the handshake.
    fn unproven(&mut self, driver: &mut dyn Driver, link: Link, reason: String) {
        self.counters.unproven += 1;
        let Some(connection) = self.connection(link) else {
            return;
        };
        match connection.address {
            Some(address) => self.tell_stranger(address, reason),
            None => {
                let peer = connection.peer;
                self.tell_refused(peer, link, reason);
            }
        }
        self.end_after_proof(driver, link);
    }

    /// Tells of somebody who could not prove who he is.
    pub(super) fn tell_stranger(&mut self, address: SocketAddr, reason: String) {
        self.tell_of(0, address, reason);
    }

    /// Tells of somebody who has a certificate of this cluster, and says that he is another. Strangers, who can keep this end
    /// busy with telling of them, cannot hide him.
    pub(super) fn tell_liar(&mut self, address: SocketAddr, reason: String) {
        self.tell_of(1, address, reason);
    }

    fn tell_of(&mut self, which: usize, address: SocketAddr, reason: String) {
        if self.told[which].is_some_and(|told| self.now.since(told) < STRANGER_PAUSE) {
            return;
        }
        self.told[which] = Some(self.now);
        self.events.push_back(Event::Stranger { address, reason });
    }
}
