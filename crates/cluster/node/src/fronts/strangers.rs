//! Who comes to a gateway, and how many of those are kept that have still to show that they may be here.

use amita_frontend::compute::source_of;
use amita_reactor::Pool;
use amita_reactor::driver::{Driver, LocalPeer};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Sessions of hosts that have still to show that they may be here, on one core: of as many sources as like to connect at once.
/// When one more comes, the oldest of the source that has most of them makes room. Who asks an NVMe gateway only what there is, and has
/// nothing to prove that by, stays one of them.
pub const MAX_STRANGERS: usize = 1024;
/// The same from one [`Source`]; more are closed as they come. Twice the queues of the largest controller.
pub const MAX_STRANGERS_OF_SOURCE: usize = 256;

/// A stranger who takes nothing for so long of what it is told is closed: the kernel has its share of that, and it is 64 KiB at most.
pub(super) const STRANGERS_PATIENCE: Duration = Duration::from_secs(10);

/// Who is at the other end of a session's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Somebody on the network.
    Remote(SocketAddr),
    /// A process of this machine.
    Local(LocalPeer),
}

impl Peer {
    pub fn source(&self) -> Source {
        match self {
            Peer::Remote(address) => Source::Address(source_of(address.ip())),
            Peer::Local(peer) => Source::User(peer.user),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Remote(address) => address.fmt(f),
            Peer::Local(LocalPeer { user, process }) => write!(f, "a Unix socket (user {user}, process {process})"),
        }
    }
}

/// What strangers are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A network ([`source_of`]).
    Address(IpAddr),
    /// A user of this machine.
    User(u32),
}

/// Where sessions receive into and answer from.
pub(super) struct Memory {
    /// For hosts, where that is not the core's whole memory.
    pub hosts: Option<Pool>,
    /// For strangers: what so many hold, who are listened to no more with 16 KiB of answers, is bounded, and none of it is missing
    /// to hosts.
    strangers: Pool,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            hosts: None,
            strangers: Pool::heap(),
        }
    }
}

impl Memory {
    pub fn of<'a>(&'a self, is_stranger: bool, driver: &'a dyn Driver) -> &'a Pool {
        match is_stranger {
            true => &self.strangers,
            false => self.hosts.as_ref().unwrap_or_else(|| driver.pool()),
        }
    }
}

/// The sessions of hosts that have still to show that they may be here, by where they come from, the oldest first.
#[derive(Default)]
pub(super) struct Strangers {
    pub of: FxHashMap<Source, VecDeque<u64>>,
    pub count: usize,
}

impl Strangers {
    /// May one more come from there? If so: which session makes room for it, if one has to.
    pub fn admit(&mut self, source: Source) -> Option<Option<u64>> {
        let own = self.of.get(&source).map_or(0, VecDeque::len);
        if own >= MAX_STRANGERS_OF_SOURCE {
            return None;
        }
        if self.count < MAX_STRANGERS {
            return Some(None);
        }
        Some(self.next_to_go())
    }

    /// Which session makes room for another: the oldest of the source that has most of them.
    pub fn next_to_go(&self) -> Option<u64> {
        let most = self.of.values().max_by_key(|ids| ids.len())?;
        most.front().copied()
    }

    pub fn add(&mut self, source: Source, id: u64) {
        self.of.entry(source).or_default().push_back(id);
        self.count += 1;
    }

    pub fn remove(&mut self, source: Source, id: u64) {
        let Some(ids) = self.of.get_mut(&source) else { return };
        if let Some(at) = ids.iter().position(|known| *known == id) {
            ids.remove(at);
            self.count -= 1;
        }
        if ids.is_empty() {
            self.of.remove(&source);
        }
    }
}
