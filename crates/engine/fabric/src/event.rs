//! What the fabric tells its node, and how it says no.

use crate::codec::{DecodeError, EncodeError};
use crate::message::Message;
use amita_reactor::Slice;
use amita_types::NodeId;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// One connection of this core to a peer. Never reused for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u64);

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// Something that happened on the network.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A link is up: the two ends have agreed. On an outgoing link requests can be sent; on an incoming one they may come.
    Up {
        link: Link,
        /// The node at the other end.
        peer: NodeId,
        /// Of its present life.
        session: u64,
        /// Did this end connect?
        outgoing: bool,
    },
    /// A link that was up is gone, and with it everything that was queued or unanswered on it: requests may have been
    /// carried out or not, and are sent again on the next link (R8); answers to requests that came on it go nowhere.
    Down {
        link: Link,
        /// The node at the other end.
        peer: NodeId,
        /// Had this end connected?
        outgoing: bool,
        why: DownReason,
    },
    /// A message came. Those of one link come in the order in which the peer sent them.
    Message {
        link: Link,
        /// The node at the other end.
        from: NodeId,
        message: Message,
        /// Its payload; empty where it has none.
        payload: Slice,
    },
    /// An attempt to connect failed. It is repeated, and so is this event.
    Unreachable {
        /// Whom this end meant to reach.
        peer: NodeId,
        /// The host is there and said that nobody listens: the node's process is dead. False: nothing is known.
        certain: bool,
    },
    /// The peer refuses to speak with this node, or this node with it: they cannot work together until somebody has
    /// changed something. It is tried again; the event comes again only when the reason changes.
    Refused {
        peer: NodeId,
        /// In words, for a person.
        reason: String,
    },
    /// Somebody connected who could not prove who he is, or called himself a node that his certificate does not let him be. At
    /// most one of each is told a second.
    Stranger {
        address: SocketAddr,
        /// In words, for a person.
        reason: String,
    },
}

/// Why a link is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownReason {
    /// The peer closed it, without a word.
    Closed,
    /// The peer closed it, and said why.
    PeerSaid(String),
    /// The operating system says that it is broken.
    Broken(io::ErrorKind),
    /// Nothing was heard for too long, though something was expected.
    Silent,
    /// The peer does not read what it is sent.
    Stalled,
    /// The peer broke the protocol.
    Violation(Violation),
    /// A newer connection of the peer has taken its place.
    Replaced,
    /// The peer is not to be believed any more: its certificate was revoked, or is over.
    Distrusted,
    /// This end closed it: the peer was forgotten, has moved, or the node wanted it.
    Dropped,
}

impl DownReason {
    /// May it be the network that is wrong? Whoever closes a connection, or resets it, was reached.
    pub(crate) fn is_of_network(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match self {
            DownReason::Silent | DownReason::Stalled => true,
            DownReason::Broken(kind) => !matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset),
            _ => false,
        }
    }
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DownReason::Closed => f.write_str("the peer closed the connection"),
            DownReason::PeerSaid(reason) => write!(f, "the peer closed the connection: {reason}"),
            DownReason::Broken(kind) => write!(f, "the connection broke: {kind}"),
            DownReason::Silent => f.write_str("nothing was heard from the peer for too long"),
            DownReason::Stalled => f.write_str("the peer does not read what it is sent"),
            DownReason::Violation(violation) => write!(f, "the peer broke the protocol: {violation}"),
            DownReason::Replaced => f.write_str("a newer connection of the peer took its place"),
            DownReason::Distrusted => f.write_str("the peer's certificate was revoked, or is over"),
            DownReason::Dropped => f.write_str("this end closed the connection"),
        }
    }
}

/// What a peer did that the protocol forbids.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// It sent something that is no frame.
    #[error(transparent)]
    Frame(#[from] DecodeError),
    /// It sent a frame that has no place there.
    #[error("{0}")]
    Unexpected(&'static str),
    /// It sent more requests than the window allows.
    #[error("a request beyond the window of {requests} requests and {bytes} bytes")]
    Window {
        /// The window.
        requests: u32,
        /// The window.
        bytes: u32,
    },
    /// It answered what was not asked, or with more than was asked.
    #[error("an answer to request {id} of {payload_bytes} bytes that was not asked for")]
    Answer {
        /// The request named.
        id: u64,
        payload_bytes: usize,
    },
}

/// A message that was not taken. Nothing of it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The link is gone (its [`Event::Down`] has been or is to be drained).
    #[error("the link is gone")]
    Closed,
    /// The link's window and the queue before it are full: wait for answers.
    #[error("the link's window and the queue before it are full")]
    Full,
    /// Requests go out on outgoing links only, and answers on incoming ones.
    #[error("requests go out on outgoing links, answers on incoming ones")]
    WrongWay,
    /// An answer to a request that did not come on this link or is answered already.
    #[error("the link has no such unanswered request")]
    NotAsked,
    /// No receiver would accept the message.
    #[error("the message cannot be sent: {0}")]
    Invalid(#[from] EncodeError),
}
