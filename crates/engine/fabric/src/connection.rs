//! One connection: its buffers, its window, and when it is heard of next.

mod sending;

use crate::config::Timeouts;
use crate::event::Link;
use crate::limits::{FORWARD_BYTES, FORWARD_REQUESTS, OUTBOX_BYTES, RECEIVE_CLASSES, RECEIVE_QUIET};
use crate::message::Message;
use crate::records::Records;
use crate::secure::{Handshake, Peer, Protection};
use crate::window::Window;
use amita_reactor::{Inbox, Outbox, Pool, Slice, SocketId, Time};
use amita_types::NodeId;
use amita_types::link::Network;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The two ends prove who they are.
    Proving,
    /// Accepted: the peer's `Hello` is to come.
    AwaitHello,
    /// Made by this end: `Hello` is sent, the peer's `Welcome` is to come.
    AwaitWelcome,
    /// Both have agreed.
    Up,
    /// The last frame (`Refuse`) is queued; nothing is read any more.
    Closing,
}

/// What stands between a connection and whoever is at its other end.
#[derive(Debug)]
pub(crate) enum Guard {
    /// Nothing: the peer is believed.
    Open,
    /// The handshake, and the bytes that it has taken.
    Proving(Box<dyn Handshake + Send>, usize),
    /// It is over.
    Proven(Box<Proven>),
}

/// Who is at the other end, and what keeps the link his.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) peer: Peer,
    pub(crate) records: Records,
}

impl Guard {
    /// The peer, if it has proven who it is.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        match self {
            Guard::Proven(proven) => Some(&proven.peer),
            Guard::Open | Guard::Proving(..) => None,
        }
    }
}

/// A request that waits for the window.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) message: Message,
    pub(crate) payload: Slice,
    pub(crate) id: u64,
    pub(crate) charge: u32,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: Link,
    pub(crate) socket: SocketId,
    pub(crate) phase: Phase,
    pub(crate) guard: Guard,
    /// Of whoever connected; none where this end did.
    pub(crate) address: Option<SocketAddr>,
    /// Did this end connect?
    pub(crate) outgoing: bool,
    /// By which network: of the peer's two where this end has connected, else of this end's.
    pub(crate) network: Network,
    /// The other end; known from the start for an outgoing one, else from its hello.
    pub(crate) peer: NodeId,
    /// Which of the links between the two nodes, and the peer's core and life: from its hello.
    pub(crate) index: u16,
    pub(crate) core: u16,
    pub(crate) session: u64,
    /// The protocol version agreed on.
    pub(crate) version: u8,

    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// A receive is under way.
    pub(crate) receiving: bool,
    /// There was no memory for a receive.
    pub(crate) starved: bool,
    /// The frame at the front of the inbox is not worth a look before there are so many bytes.
    pub(crate) wanted: usize,
    /// Which of [`RECEIVE_CLASSES`] the next block has.
    pub(crate) class: usize,
    /// The inbox has a large block: it is given back when the connection goes quiet.
    pub(crate) large: bool,
    /// Stands in the list of connections to be seen to at the end of the pass.
    pub(crate) dirty: bool,

    /// What is in flight on this link: requests sent and not answered (outgoing), or received and not answered.
    pub(crate) window: Window,
    /// Forwarded requests in flight on this link, in the direction of its requests.
    pub(crate) forwards: Window,
    /// Requests that wait for the window.
    pub(crate) queue: VecDeque<Waiting>,
    pub(crate) queue_bytes: usize,
    /// Requests for release that this end has sent, and that the peer has, without an answer so far.
    pub(crate) releases_sent: u32,
    pub(crate) releases_received: u32,

    /// When the present phase began.
    pub(crate) since: Time,
    /// When bytes last came in.
    pub(crate) heard: Time,
    /// When something became outstanding that had not been.
    pub(crate) asked: Time,
    /// Something is outstanding (for the comparison at the end of a pass).
    pub(crate) busy: bool,
    /// When the ping was sent that is unanswered.
    pub(crate) pinged: Option<Time>,
    /// Has the peer another network than the one that this goes by?
    pub(crate) has_other: bool,
    /// Is it to be called by that one when a ping is not answered soon? Not twice for one ping.
    pub(crate) may_doubt: bool,
    /// The peer's last ping is to be answered. (Only the last: whoever floods gets one answer a pass.)
    pub(crate) pong: Option<u64>,
    /// When the send under way began.
    pub(crate) sending_since: Time,
    /// When a paused peer was last told that this end lives.
    pub(crate) told: Time,
}

/// What is due on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing before this time.
    At(Time),
    /// To ask whether the peer is there.
    Ping,
    /// To call the peer by its other network: this one says nothing.
    Doubt,
    /// To tell the peer, which is not read at present, that this end is there.
    Tell,
    /// To give up: the handshake, or saying goodbye, took too long.
    TooSlow,
    /// To give up: silence.
    Silent,
    /// To give up: a send does not end.
    Stalled,
}

impl Connection {
    /// One that came in, or (with `callee`) was made.
    pub(crate) fn new(link: Link, socket: SocketId, callee: Option<NodeId>, guard: Guard, now: Time) -> Connection {
        let outgoing = callee.is_some();
        Connection {
            link,
            socket,
            phase: match guard {
                Guard::Open if outgoing => Phase::AwaitWelcome,
                Guard::Open => Phase::AwaitHello,
                Guard::Proving(..) | Guard::Proven(_) => Phase::Proving,
            },
            guard,
            address: None,
            outgoing,
            network: Network::First,
            peer: callee.unwrap_or_default(),
            index: 0,
            core: 0,
            session: 0,
            version: 0,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            receiving: false,
            starved: false,
            wanted: 0,
            class: 0,
            large: false,
            dirty: false,
            window: Window::default(),
            forwards: Window::new(FORWARD_REQUESTS, FORWARD_BYTES),
            queue: VecDeque::new(),
            queue_bytes: 0,
            releases_sent: 0,
            releases_received: 0,
            since: now,
            heard: now,
            asked: now,
            busy: false,
            pinged: None,
            has_other: false,
            may_doubt: false,
            pong: None,
            sending_since: now,
            told: now,
        }
    }

    /// Is an answer expected from the peer? (On an incoming link the dialler does the asking.)
    pub(crate) fn is_outstanding(&self) -> bool {
        self.outgoing
            && (self.window.requests() > 0
                || self.forwards.requests() > 0
                || !self.queue.is_empty()
                || self.releases_sent > 0
                || self.pinged.is_some())
    }

    /// May more be read? An incoming link is not while too much of it, or of all (`paused`), is unanswered or unsent.
    /// An outgoing link always is: what comes on it was asked for, and two ends that wait for each other to read would
    /// wait for ever.
    pub(crate) fn may_read(&self, paused: bool) -> bool {
        match self.phase {
            Phase::Proving | Phase::AwaitHello | Phase::AwaitWelcome => true,
            Phase::Up => self.outgoing || (!paused && self.outbox.queued_bytes() <= OUTBOX_BYTES),
            Phase::Closing => false,
        }
    }

    /// Queues a frame, protected as the link is. `head` is changed.
    pub(crate) fn put(&mut self, pool: &Pool, head: &mut Vec<u8>, payload: Slice) {
        let proven = match &mut self.guard {
            Guard::Proven(proven) => proven,
            Guard::Open => {
                self.outbox.append(pool, head);
                return self.outbox.push(payload);
            }
            Guard::Proving(..) => {
                debug_assert!(false, "a frame before the handshake is over");
                return;
            }
        };
        let records = &mut proven.records;
        let (tag, payload) = match records.protection() {
            Protection::Auth => (records.authenticate(head, &payload), payload),
            Protection::Secret if payload.is_empty() => (records.encrypt(head, &[], &mut []), payload),
            Protection::Secret => match pool.take(payload.len()) {
                Some(mut block) => {
                    let tag = records.encrypt(head, &payload, &mut block[..payload.len()]);
                    (tag, block.split_to(payload.len()))
                }
                // What is asked and answered must go out also when the pool is exhausted.
                None => {
                    let mut block = vec![0; payload.len()];
                    let tag = records.encrypt(head, &payload, &mut block);
                    (tag, Slice::copy_from(&block))
                }
            },
        };
        head.extend_from_slice(&tag);
        self.outbox.append(pool, head);
        self.outbox.push(payload);
    }

    /// Bytes came in, into a buffer of `capacity`: chooses the size of the next block. Authenticated peers only get the
    /// large ones.
    pub(crate) fn heard(&mut self, now: Time, bytes: usize, capacity: usize) {
        if now.since(self.heard) > RECEIVE_QUIET || self.phase != Phase::Up {
            self.class = 0;
        } else if bytes == capacity {
            self.class = (self.class + 1).min(RECEIVE_CLASSES.len() - 1);
        }
        self.heard = now;
    }

    /// What is due at `now`, and if nothing, when.
    pub(crate) fn due(&self, now: Time, timeouts: &Timeouts, paused: bool) -> Due {
        if self.phase != Phase::Up {
            let end = self.since.plus(timeouts.handshake);
            return if end <= now { Due::TooSlow } else { Due::At(end) };
        }
        if self.outgoing {
            return self.due_outgoing(now, timeouts);
        }
        let mut next = Time(u64::MAX);
        if self.outbox.is_sending() {
            // Whoever asks has to read the answers. (On an outgoing link it may be in order that the peer does not
            // read: it has too much to do, and says that it lives.)
            next = self.sending_since.plus(timeouts.stall);
            if next <= now {
                return Due::Stalled;
            }
        }
        if self.may_read(paused) {
            let silence = self.heard.max(self.told).plus(patience(timeouts));
            if silence <= now {
                Due::Silent
            } else {
                Due::At(next.min(silence))
            }
        } else {
            let tell = self.heard.max(self.told).plus(timeouts.quiet);
            if tell <= now {
                Due::Tell
            } else {
                Due::At(next.min(tell))
            }
        }
    }

    /// The end that made the link asks whether the other is there, and gives up only when a ping was not answered: a core
    /// that was held up, and comes late to all its deadlines, begins with a ping and not with a verdict.
    fn due_outgoing(&self, now: Time, timeouts: &Timeouts) -> Due {
        match self.pinged {
            Some(pinged) => {
                let silence = timeouts.silence.saturating_sub(timeouts.quiet);
                let end = pinged.plus(silence).max(self.heard.plus(timeouts.silence));
                let doubt = pinged.plus(timeouts.quiet).max(self.heard.plus(timeouts.quiet * 2));
                match self.may_doubt {
                    _ if end <= now => Due::Silent,
                    true if doubt <= now => Due::Doubt,
                    true => Due::At(doubt.min(end)),
                    false => Due::At(end),
                }
            }
            None => {
                let pause = if self.is_outstanding() {
                    timeouts.quiet
                } else {
                    timeouts.idle_ping
                };
                let ask = self.heard.max(self.asked).plus(pause);
                if ask <= now { Due::Ping } else { Due::At(ask) }
            }
        }
    }
}

/// How long the acceptor of a link waits for any sign of the dialler, which pings when idle: two pings may be lost in a
/// stall of the network that the link survives.
fn patience(timeouts: &Timeouts) -> Duration {
    timeouts.idle_ping * 2 + timeouts.silence
}
