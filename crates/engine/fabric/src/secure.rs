//! Who is at the other end of a link, and what keeps the link his.
//!
//! A protected connection begins with a handshake that is not ours (TLS 1.3 with certificates at both ends, carried out by
//! whoever implements [`Handshakes`]): it proves the two names, and gives two secrets that nobody else has. From then on
//! every frame, from the first `Hello` to the last `Refuse`, is protected by them ([`Protection`], `records.rs`). What a
//! peer may say hangs on its [`Role`] (`codec::Kind::senders`), and which node it may call itself on its name.
//!
//! The trait keeps TLS and its clock and random numbers out of what the simulator runs: there, a handshake of the same shape
//! stands in for it, and everything behind it is the real thing.

use amita_types::NodeId;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What the record layer does for each frame. It is the cluster's choice, and both ends have to agree: the handshake binds
/// it, so that nobody on the way can talk them down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Every frame is authenticated: nothing can be changed, repeated, left out or added on the way. Whoever listens can
    /// read.
    #[default]
    Auth,
    /// And encrypted, but for the sixteen bytes that say its kind and its length.
    Secret,
}

impl Protection {
    /// The name of the protocol that the handshake agrees on (RFC 7301), one for each protection.
    #[must_use]
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Protection::Auth => b"amita-fabric/1 auth",
            Protection::Secret => b"amita-fabric/1 secret",
        }
    }
}

impl FromStr for Protection {
    type Err = String;

    fn from_str(text: &str) -> Result<Protection, String> {
        [Protection::Auth, Protection::Secret]
            .into_iter()
            .find(|protection| protection.to_string() == text)
            .ok_or_else(|| format!("{text:?} is neither `auth` nor `secret`"))
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protection::Auth => "auth",
            Protection::Secret => "secret",
        })
    }
}

/// What a certificate lets its holder be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// Serves stores, and may own volumes.
    Node = 1,
    /// May own and forward volumes; has no stores.
    Gateway = 2,
    /// Uses volumes through nodes, which serve it by NBD (decision 038). It has no link.
    Client = 4,
    /// Changes the cluster.
    Operator = 8,
}

impl Role {
    /// As it stands in names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Gateway => "gateway",
            Role::Client => "client",
            Role::Operator => "operator",
        }
    }
}

/// Several roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// These and no others.
    #[must_use]
    pub const fn of(roles: &[Role]) -> Roles {
        let (mut bits, mut at) = (0, 0);
        while at < roles.len() {
            bits |= roles[at] as u8;
            at += 1;
        }
        Roles(bits)
    }

    /// Is it one of them?
    #[must_use]
    pub const fn has(self, role: Role) -> bool {
        self.0 & role as u8 != 0
    }
}

/// Who is at the other end, as its certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What it may be.
    pub role: Role,
    /// Its name among those of its role, without the cluster's.
    pub name: String,
    /// The certificates that it has shown, the leaf first, as they are on the wire (DER): [`Handshakes::trusts`] looks at
    /// them again.
    pub certificates: Vec<Vec<u8>>,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.as_str(), self.name)
    }
}

/// Between names and what is below them: a process of the gateway `db1` calls itself `db1`, or `db1.` and anything. So does a gateway
/// that runs inside the node `n1`.
const BELOW: char = '.';

/// What is recorded of a node, of that which says who may be it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// It is a gateway or one of its processes, and has no stores: a gateway's certificate makes nobody a node that has some.
    pub is_gateway: bool,
}

impl Recorded {
    /// A node that may have stores.
    pub fn node(name: impl Into<String>) -> Recorded {
        Recorded {
            name: name.into(),
            is_gateway: false,
        }
    }

    /// A gateway, or one of its processes.
    pub fn gateway(name: impl Into<String>) -> Recorded {
        Recorded {
            name: name.into(),
            is_gateway: true,
        }
    }
}

impl Peer {
    /// May it call itself the node that is recorded so?
    #[must_use]
    pub fn may_be(&self, recorded: &Recorded) -> bool {
        if self.name.is_empty() {
            return false;
        }
        let below = recorded.name.strip_prefix(self.name.as_str());
        match self.role {
            // Beside itself it may have gateways of its own: what its API copies and reverts by (decision 067).
            Role::Node => below.is_some_and(|rest| rest.is_empty() || recorded.is_gateway && rest.starts_with(BELOW)),
            Role::Gateway if !recorded.is_gateway => false,
            // Processes come and go, and each has a record of its own.
            Role::Gateway => below.is_some_and(|rest| rest.is_empty() || rest.starts_with(BELOW)),
            Role::Client | Role::Operator => false,
        }
    }
}

/// The two secrets of a link, one for each direction. Wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// Of what this end sends.
    pub send: Zeroizing<[u8; SECRET_BYTES]>,
    /// Of what it receives.
    pub receive: Zeroizing<[u8; SECRET_BYTES]>,
}

/// Bytes of each of them.
pub const SECRET_BYTES: usize = 32;

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// What came of the bytes that a handshake was given.
#[derive(Debug)]
pub enum Step {
    /// It wants more.
    More,
    /// Both ends have proven themselves. What follows in the stream are frames.
    Done {
        /// Who is at the other end.
        peer: Peer,
        /// What the frames are protected by.
        secrets: Secrets,
    },
}

/// One handshake, at one of its ends; without I/O of its own. It draws random numbers and looks at the clock by itself.
pub trait Handshake: fmt::Debug {
    /// Takes bytes that came in (none, at the start of the end that calls), appends to `out` what is to be sent. Returns how
    /// many bytes it took, and never takes one that belongs to a frame.
    ///
    /// # Errors
    /// Why it failed, in words for the log of this end; what the other end may know is in `out`.
    fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Step), String>;
}

/// What makes handshakes: a node's identity, and whom it trusts.
pub trait Handshakes: fmt::Debug + Send + Sync {
    /// What it protects links with.
    fn protection(&self) -> Protection;

    /// For a connection that this end has made, to the node that is recorded so.
    ///
    /// # Errors
    /// This end's identity cannot be used; in words.
    fn call(&self, callee: &Recorded) -> Result<Box<dyn Handshake + Send>, String>;

    /// For a connection that came in.
    ///
    /// # Errors
    /// As [`Handshakes::call`].
    fn accept(&self) -> Result<Box<dyn Handshake + Send>, String>;

    /// Is a peer that has proven itself still to be believed: not revoked since, its certificate not over?
    fn trusts(&self, peer: &Peer) -> bool;
}

/// What a fabric needs for protected links.
#[derive(Clone, Debug)]
pub struct Security {
    /// Makes the handshakes.
    pub handshakes: Arc<dyn Handshakes>,
    /// Frames of one direction after which its key is followed by the next one.
    pub rekey_frames: u64,
}

impl Security {
    /// With the usual count.
    #[must_use]
    pub fn new(handshakes: Arc<dyn Handshakes>) -> Security {
        Security {
            handshakes,
            rekey_frames: crate::limits::REKEY_FRAMES,
        }
    }
}

/// How nodes are recorded.
pub(crate) type Names = std::collections::BTreeMap<NodeId, Recorded>;

#[cfg(test)]
mod tests;
