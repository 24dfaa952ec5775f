//! The links of one core. The story stands at the top of the crate; here is the state, and how links come and go.

mod callers;
mod gate;
mod lane;
mod links;
mod paths;
mod peers;
mod proof;
mod receive;
mod send;
mod time;

use crate::backoff::Jitter;
use crate::config::Config;
use crate::connection::{Connection, Phase};
use crate::event::{Event, Link};
use crate::secure::Names;
use amita_reactor::{Completion, Driver, Outcome, SocketId, Time, Token};
use amita_types::NodeId;
use amita_types::link::Network;
use callers::Callers;
use gate::Gate;
pub use paths::LinkPath;
use peers::Peer;
use std::collections::{BTreeMap, VecDeque};

/// The top byte of every token that the fabric starts operations with.
pub const FABRIC_TOKENS: u64 = 1;

/// Bits of a link's number that say where in the table of connections it stands; those above count up for ever.
const SLOT_BITS: u32 = 20;
/// Bits of a token below the operation.
const TOKEN_BITS: u32 = 52;
const TOKEN_MASK: u64 = (1 << TOKEN_BITS) - 1;

/// A place in the table of connections.
#[derive(Clone, Copy, Debug)]
struct Slot(u32);

impl Slot {
    /// The one that the number of a link, or of a token, names.
    fn of(number: u64) -> Slot {
        Slot(u32::try_from(number & ((1 << SLOT_BITS) - 1)).expect("masked"))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a token was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Operation {
    Accept = 0,
    Connect = 1,
    Send = 2,
    Receive = 3,
}

/// A token of the fabric; `number` names the link or the attempt (its low bits: a stale completion of a connection whose
/// place was taken over more than four billion times meanwhile is not a case).
fn token(operation: Operation, number: u64) -> Token {
    Token(FABRIC_TOKENS << 56 | (operation as u64) << TOKEN_BITS | number & TOKEN_MASK)
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that came in.
    pub accepted: u64,
    /// Of those, ended before a valid hello: garbage, silence, or too many of them.
    pub strangers: u64,
    /// Closed at once: more handshakes than their rate allows.
    pub turned_away: u64,
    /// Handshakes that failed, of either direction: no certificate, or none to be believed.
    pub unproven: u64,
    /// Frames whose tag was wrong.
    pub forged: u64,
    /// Hellos refused, by this end.
    pub refused: u64,
    /// Links ended because the peer broke the protocol.
    pub violations: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    /// Sends started: what a message costs depends on how many share one.
    pub sends: u64,
    /// Bytes of messages that were queued to be sent.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Pings sent.
    pub pings: u64,
    /// How often reading was paused because too much was unanswered.
    pub pauses: u64,
}

/// The links of one core.
///
/// A pass of the core goes: give every completion whose token has [`FABRIC_TOKENS`] as its top byte to
/// [`Fabric::completion`], drain [`Fabric::events`], [`Fabric::send`] what follows, and end with [`Fabric::flush`]
/// (after which there may be events again). [`Fabric::tick`] is due at [`Fabric::deadline`]; completions come first, so that a core which was held up does not
/// take what waits in its sockets for silence.
#[derive(Debug)]
pub struct Fabric {
    config: Config,
    /// Connections, by the low bits of their link.
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<Slot>,
    /// The next link's number above its slot.
    serial: u64,
    /// Who is known to the driver.
    callers: Callers,

    /// The nodes that this one keeps links to.
    peers: BTreeMap<NodeId, Peer>,
    /// The names under which nodes are recorded, for those that prove who they are.
    names: Names,
    /// When a stranger was last told of, and when somebody who lies about his name.
    told: [Option<Time>; 2],
    /// The number of the last attempt to connect.
    attempt: u64,
    jitter: Jitter,
    /// Links that came in, of each peer, oldest first.
    incoming: BTreeMap<NodeId, Vec<Link>>,
    /// Incoming connections without a hello, and those that are saying goodbye.
    gate: Gate,
    /// Links to be closed at the next opportunity: their peer was forgotten or has moved.
    doomed: Vec<Link>,

    /// Unanswered bytes over all incoming links.
    unanswered: u64,
    /// Too many; no incoming link is read.
    paused: bool,

    events: VecDeque<Event>,
    /// Connections that have something to send, or to read into.
    dirty: Vec<Link>,
    /// The list of the pass before, for reuse.
    spare: Vec<Link>,
    /// Where heads are encoded.
    scratch: Vec<u8>,
    now: Time,
    /// Nothing is due before.
    next: Time,
    counters: Counters,
}

impl Fabric {
    /// A fabric without links.
    #[must_use]
    pub fn new(config: Config) -> Fabric {
        let seed = config.seed ^ u64::from(config.node.0) << 32 ^ u64::from(config.core);
        let salt = seed ^ config.session;
        Fabric {
            config,
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            callers: Callers::default(),
            peers: BTreeMap::new(),
            names: Names::new(),
            told: [None; 2],
            attempt: 0,
            jitter: Jitter::new(seed),
            incoming: BTreeMap::new(),
            gate: Gate::new(salt),
            doomed: Vec::new(),
            unanswered: 0,
            paused: false,
            events: VecDeque::new(),
            dirty: Vec::new(),
            spare: Vec::new(),
            scratch: Vec::new(),
            now: Time::default(),
            next: Time(u64::MAX),
            counters: Counters::default(),
        }
    }

    /// The end of an operation that the fabric started.
    pub fn completion(&mut self, driver: &mut dyn Driver, completion: Completion) {
        debug_assert_eq!(
            completion.token.0 >> 56,
            FABRIC_TOKENS,
            "a token of another part of the node"
        );
        self.now = driver.now();
        let number = completion.token.0 & TOKEN_MASK;
        match completion.outcome {
            Outcome::Accepted { socket, peer } => {
                let is_second = number == Network::Second.index() as u64;
                let network = if is_second { Network::Second } else { Network::First };
                self.accepted(driver, socket, peer, network);
            }
            // The driver goes on accepting; a peer whose connection was lost by it comes again.
            Outcome::AcceptFailed { .. } => {}
            Outcome::Connected { result } => self.connected(driver, number, result),
            Outcome::Sent { data, result } => self.sent(driver, number, data, result),
            Outcome::Received { buffer, result } => self.received(driver, number, buffer, result),
            // The fabric starts nothing else.
            _ => {}
        }
    }

    /// The oldest of what happened and was not taken yet.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What happened since the last call, in order.
    pub fn events(&mut self) -> std::collections::vec_deque::Drain<'_, Event> {
        self.events.drain(..)
    }

    /// When [`Fabric::tick`] is due; at once while there are events to drain (those of a flush, say), so that a core
    /// which waits for the deadline never sleeps on them.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        if !self.events.is_empty() {
            return Some(self.now);
        }
        (self.next != Time(u64::MAX)).then_some(self.next)
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many links are up, of either direction.
    #[must_use]
    pub fn links(&self) -> usize {
        let up = |slot: &&Option<Box<Connection>>| slot.as_ref().is_some_and(|found| found.phase == Phase::Up);
        self.slots.iter().filter(up).count()
    }

    fn connection(&self, link: Link) -> Option<&Connection> {
        let slot = Slot::of(link.0).index();
        self.slots
            .get(slot)?
            .as_deref()
            .filter(|connection| connection.link == link)
    }

    fn connection_mut(&mut self, link: Link) -> Option<&mut Connection> {
        let slot = Slot::of(link.0).index();
        self.slots
            .get_mut(slot)?
            .as_deref_mut()
            .filter(|connection| connection.link == link)
    }

    /// The connection that a token names.
    fn link_of(&self, number: u64) -> Option<Link> {
        let slot = Slot::of(number).index();
        let link = self.slots.get(slot)?.as_deref()?.link;
        (link.0 & TOKEN_MASK == number).then_some(link)
    }

    /// How many connections there are, of all kinds.
    fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A place for a connection with this socket; `None` when all are taken.
    fn place(&mut self, socket: SocketId, make: impl FnOnce(Link, SocketId) -> Connection) -> Option<Link> {
        if self.connections() >= self.config.limits.connections.min(1 << SLOT_BITS) {
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Slot(u32::try_from(self.slots.len() - 1).expect("as many as a link can name"))
        });
        self.serial += 1;
        let link = Link(self.serial << SLOT_BITS | u64::from(slot.0));
        self.slots[slot.index()] = Some(Box::new(make(link, socket)));
        Some(link)
    }

    /// The connection is to be seen to at the end of the pass.
    fn touch(&mut self, link: Link) {
        if let Some(connection) = self.connection_mut(link)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(link);
        }
    }

    fn due_by(&mut self, time: Time) {
        self.next = self.next.min(time);
    }
}
