//! The register of a node's sessions.
//!
//! A session has one connection, so that whoever has it has all of it; what sessions must know of one another goes through
//! here. A login that is complete, and whose initiator has proven what it has to, enters. Where the same initiator port
//! (name and ISID) has a session with the same target already, that one is reinstated (RFC 7143, 6.3.5): it is told to end,
//! and the new one begins when nothing of the old one is under way any more. A reset of a logical unit or of a target goes
//! to every session that it concerns, and is over when all of them have said so (4.2.3).
//!
//! Before a login is complete the register keeps nothing for it, so that strangers take nobody's place. Who has proven
//! nothing may hold some of the places from one address, and not all of them from everywhere.

#[cfg(test)]
mod tests;

use crate::login::Status;
use amita_frontend::ConnectionId;
use amita_frontend::compute::source_of;
use amita_types::VolumeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// Sessions of a node, of all targets: many times what its cores serve well.
pub const MAX_SESSIONS: usize = 16 << 10;
/// Discovery sessions of a node: they are short.
pub const MAX_DISCOVERIES: usize = 2 << 10;
/// Sessions with one target that one [`Holder`] may have: hosts have one a path, or a few.
pub const MAX_SESSIONS_OF_HOLDER: usize = 64;
/// Discovery sessions of one.
pub const MAX_DISCOVERIES_OF_HOLDER: usize = 32;
/// Sessions with one target from one IPv6 network of 64 bits of those that have proven nothing: all hosts of a network for storage are in
/// one, but so are all the addresses that a single host can take.
pub const MAX_SESSIONS_OF_NETWORK: usize = 1024;
/// Sessions, out of [`MAX_SESSIONS`], that only initiators which have proven themselves get.
pub const KEPT_FOR_PROVEN: usize = 4 << 10;

/// An initiator port and a target port: the two ends of a session (4.4).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Party {
    /// The target's name; nothing in a discovery session.
    pub target: String,
    /// The initiator's name.
    pub initiator: String,
    /// The initiator's part of the session's identifier.
    pub isid: [u8; 6],
}

impl Party {
    /// Is it a discovery session?
    #[must_use]
    pub fn is_discovery(&self) -> bool {
        self.target.is_empty()
    }
}

/// Whose a session is, as far as its places are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// An initiator that has proven to be the one of that name.
    Proven(String),
    /// Whoever connects from there: a name that nothing stands behind is anybody's. To discover, a network ([`source_of`]); else an address.
    Unproven(IpAddr),
}

/// What is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The logical unit of that number.
    Unit(u16),
    /// All of the target.
    Target,
    /// All of it, and its sessions end.
    TargetAndSessions,
}

/// How often volumes were reset with a reset, as their owners have counted it; those whose owners were not asked are not among them.
pub type Counts = Arc<[(VolumeId, u64)]>;

/// What a connection asks of the register.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Call {
    /// A login is complete. Answered by [`Reply::Entered`], perhaps after a while, or [`Reply::Refused`].
    Enter { party: Box<Party>, holder: Holder },
    /// Others have to know of a reset. Answered by [`Reply::ResetDone`].
    Reset { scope: Scope, counts: Counts },
    /// A reset that was told is carried out here. Not answered.
    Cleared { ticket: u64 },
    /// A host wants the volume to be owned by the gateway with that tag (SET TARGET PORT GROUPS). Answered by [`Reply::Moving`]. It is for the node to
    /// take that before it comes to a [`Hub`], which moves nothing.
    Move { volume: VolumeId, group: u16 },
    /// The session is over, and nothing of it is under way. Not answered.
    Leave,
}

/// What the register says to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The session is there, by this handle (TSIH).
    Entered { tsih: u16 },
    /// It is not.
    Refused(Status),
    /// The initiator has logged in anew: the session ends, and leaves when nothing of it is under way.
    Reinstated,
    /// Another session of the target has reset something: [`Call::Cleared`] with this ticket when nothing of it is under way.
    Reset { ticket: u64, scope: Scope, counts: Counts },
    /// Every other session has carried the reset out.
    ResetDone,
    /// Will somebody see to it that the volume is moved?
    Moving { is_accepted: bool },
}

#[derive(Debug)]
struct Session {
    party: Party,
    holder: Holder,
    tsih: u16,
    /// Who takes its place when it is over.
    next: Option<(ConnectionId, u64, Holder)>,
}

#[derive(Debug)]
struct Reset {
    asker: ConnectionId,
    tag: u64,
    /// Who has still to carry it out.
    missing: BTreeSet<ConnectionId>,
}

/// The register: on one core of the node, off the path of an I/O.
#[derive(Debug, Default)]
pub struct Hub {
    said: VecDeque<(ConnectionId, u64, Reply)>,
    sessions: BTreeMap<ConnectionId, Session>,
    /// The normal ones by their ends.
    ports: BTreeMap<Party, ConnectionId>,
    /// Connections that wait for the place of another, and which.
    waiting: BTreeMap<ConnectionId, ConnectionId>,
    /// How many places are whose, by target.
    held: BTreeMap<(String, Holder), usize>,
    /// How many of those of initiators that have proven nothing are of a network that is more than one address.
    networks: BTreeMap<(String, IpAddr), usize>,
    /// How many are discovery sessions, and how many are of initiators that have proven nothing.
    discoveries: usize,
    unproven: usize,
    handles: BTreeSet<u16>,
    next_handle: u16,
    resets: BTreeMap<u64, Reset>,
    next_ticket: u64,
}

impl Hub {
    /// A connection asks.
    pub fn call(&mut self, from: ConnectionId, tag: u64, call: Call) {
        match call {
            Call::Enter { party, holder } => self.enter(from, tag, *party, holder),
            Call::Reset { scope, counts } => self.reset(from, tag, scope, &counts),
            Call::Cleared { ticket } => self.cleared(from, ticket),
            Call::Move { .. } => self.say(from, tag, Reply::Moving { is_accepted: false }),
            Call::Leave => self.leave(from),
        }
    }

    /// What is to be said, and to whom; the tag of the call, or 0.
    pub fn next_reply(&mut self) -> Option<(ConnectionId, u64, Reply)> {
        self.said.pop_front()
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn say(&mut self, to: ConnectionId, tag: u64, reply: Reply) {
        self.said.push_back((to, tag, reply));
    }

    /// The network that a normal session is counted by, beside its holder.
    fn network(party: &Party, holder: &Holder) -> Option<(String, IpAddr)> {
        match holder {
            Holder::Unproven(address) if !party.is_discovery() => {
                let network = source_of(*address);
                (network != *address).then(|| (party.target.clone(), network))
            }
            _ => None,
        }
    }

    fn has_room(&self, party: &Party, holder: &Holder) -> bool {
        let held = self.held.get(&(party.target.clone(), holder.clone())).copied();
        let held = held.unwrap_or_default();
        if party.is_discovery() {
            return held < MAX_DISCOVERIES_OF_HOLDER && self.discoveries < MAX_DISCOVERIES;
        }
        let normal = self.sessions.len() - self.discoveries;
        let has_place = match holder {
            Holder::Proven(_) => true,
            Holder::Unproven(_) => self.unproven < MAX_SESSIONS - KEPT_FOR_PROVEN,
        };
        let of_network = Hub::network(party, holder).and_then(|network| self.networks.get(&network));
        let has_place = has_place && of_network.is_none_or(|count| *count < MAX_SESSIONS_OF_NETWORK);
        held < MAX_SESSIONS_OF_HOLDER && normal < MAX_SESSIONS && has_place
    }

    fn enter(&mut self, from: ConnectionId, tag: u64, party: Party, holder: Holder) {
        if self.sessions.contains_key(&from) || self.waiting.contains_key(&from) {
            return self.say(from, tag, Reply::Refused(Status::INITIATOR_ERROR));
        }
        let before = match party.is_discovery() {
            true => None,
            false => self.ports.get(&party).copied(),
        };
        let Some(before) = before else {
            let reply = self.begin(from, party, holder);
            return self.say(from, tag, reply);
        };
        let Some(session) = self.sessions.get_mut(&before) else {
            return;
        };
        // One that is itself not let in yet yields to who comes after it.
        let yielding = session.next.replace((from, tag, holder));
        self.waiting.insert(from, before);
        match yielding {
            Some((other, tag, _)) => {
                self.waiting.remove(&other);
                self.say(other, tag, Reply::Refused(Status::TARGET_ERROR));
            }
            None => self.say(before, 0, Reply::Reinstated),
        }
    }

    fn begin(&mut self, from: ConnectionId, party: Party, holder: Holder) -> Reply {
        if !self.has_room(&party, &holder) {
            return Reply::Refused(Status::OUT_OF_RESOURCES);
        }
        let Some(tsih) = self.free_handle() else {
            return Reply::Refused(Status::OUT_OF_RESOURCES);
        };
        *self.held.entry((party.target.clone(), holder.clone())).or_default() += 1;
        if let Some(network) = Hub::network(&party, &holder) {
            *self.networks.entry(network).or_default() += 1;
        }
        match party.is_discovery() {
            true => self.discoveries += 1,
            false => {
                self.unproven += usize::from(matches!(holder, Holder::Unproven(_)));
                self.ports.insert(party.clone(), from);
            }
        }
        let session = Session {
            party,
            holder,
            tsih,
            next: None,
        };
        self.sessions.insert(from, session);
        Reply::Entered { tsih }
    }

    /// A handle that no session has: not 0, which is none, and not one that was in use a moment ago.
    fn free_handle(&mut self) -> Option<u16> {
        for _ in 0..=u16::MAX {
            self.next_handle = self.next_handle.wrapping_add(1);
            if self.next_handle != 0 && self.handles.insert(self.next_handle) {
                return Some(self.next_handle);
            }
        }
        None
    }

    fn reset(&mut self, from: ConnectionId, tag: u64, scope: Scope, counts: &Counts) {
        let Some(asker) = self.sessions.get(&from).filter(|session| !session.party.is_discovery()) else {
            return self.say(from, tag, Reply::ResetDone);
        };
        let target = &asker.party.target;
        let others = self.sessions.iter();
        let others = others.filter(|(id, session)| **id != from && session.party.target == *target);
        let missing: BTreeSet<ConnectionId> = others.map(|(id, _)| *id).collect();
        if missing.is_empty() {
            return self.say(from, tag, Reply::ResetDone);
        }
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        for other in &missing {
            let counts = counts.clone();
            self.said.push_back((*other, 0, Reply::Reset { ticket, scope, counts }));
        }
        let reset = Reset {
            asker: from,
            tag,
            missing,
        };
        self.resets.insert(ticket, reset);
    }

    fn cleared(&mut self, from: ConnectionId, ticket: u64) {
        let Some(reset) = self.resets.get_mut(&ticket) else {
            return;
        };
        reset.missing.remove(&from);
        if reset.missing.is_empty() {
            let (asker, tag) = (reset.asker, reset.tag);
            self.resets.remove(&ticket);
            self.say(asker, tag, Reply::ResetDone);
        }
    }

    fn leave(&mut self, from: ConnectionId) {
        if let Some(place) = self.waiting.remove(&from) {
            if let Some(session) = self.sessions.get_mut(&place) {
                session.next = None;
            }
            return;
        }
        let Some(session) = self.sessions.remove(&from) else {
            return;
        };
        self.forget(&session);
        // What it has not carried out needs nobody to, and what it has asked for nobody waits for.
        self.resets.retain(|_, reset| reset.asker != from);
        let open: Vec<u64> = self.resets.keys().copied().collect();
        for ticket in open {
            self.cleared(from, ticket);
        }
        if let Some((next, tag, holder)) = session.next {
            self.waiting.remove(&next);
            let reply = self.begin(next, session.party, holder);
            self.say(next, tag, reply);
        }
    }

    fn forget(&mut self, session: &Session) {
        self.handles.remove(&session.tsih);
        match session.party.is_discovery() {
            true => self.discoveries -= 1,
            false => {
                self.unproven -= usize::from(matches!(session.holder, Holder::Unproven(_)));
                self.ports.remove(&session.party);
            }
        }
        give_back(&mut self.held, (session.party.target.clone(), session.holder.clone()));
        if let Some(network) = Hub::network(&session.party, &session.holder) {
            give_back(&mut self.networks, network);
        }
    }
}

/// One place less is counted there.
fn give_back<K: Ord>(counts: &mut BTreeMap<K, usize>, of: K) {
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}
