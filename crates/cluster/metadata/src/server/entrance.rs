//! How many connections the door takes in a second, and whose: whoever connects more often is not let in by the kernel, and costs
//! nothing ([`amita_reactor::admission`]).

use super::door::MAX_HANDSHAKES;
use amita_reactor::admission::Verdict;
use amita_reactor::uring::Guard;
use amita_reactor::{AcceptLimits, Rate, Time};
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};

/// A handshake costs 100 to 300 us, and what is around it some 100: so strangers take 2 % of a processor in the long run, and a fifth of a
/// second after a pause, when twice as many may come as there are places for. Addresses from which somebody has proven himself
/// are spared that: a script that calls a command a hundred times a second, and a cluster that was started anew.
const ACCEPTS: AcceptLimits = AcceptLimits {
    strangers: Rate {
        per_second: 50,
        burst: 2 * MAX_HANDSHAKES as u32,
    },
    source: Rate {
        per_second: 25,
        burst: MAX_HANDSHAKES as u32,
    },
    known: Rate {
        per_second: 1000,
        burst: 1024,
    },
};

/// Addresses that are kept of those from which somebody has proven himself: the latest.
const MAX_KNOWN: usize = 256;

/// Connections that the kernel holds until they are accepted, while nobody floods.
const BACKLOG: i32 = 1024;

/// What stands before the door.
pub(super) struct Entrance {
    listener: OwnedFd,
    guard: Guard,
    /// The latest is the last.
    known: VecDeque<IpAddr>,
    began: Instant,
}

impl Entrance {
    /// Before this listener.
    pub(super) fn new(listener: &TcpListener) -> io::Result<Entrance> {
        Ok(Entrance {
            listener: listener.as_fd().try_clone_to_owned()?,
            guard: Guard::new(ACCEPTS, RandomState::new().build_hasher().finish(), BACKLOG),
            known: VecDeque::new(),
            began: Instant::now(),
        })
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// Is this one let in?
    pub(super) fn admits(&mut self, stream: &TcpStream, from: SocketAddr) -> bool {
        let now = self.now();
        self.guard.arrive(&self.listener, now, from.ip(), stream) == Verdict::Admit
    }

    /// Somebody has proven himself who came from there.
    pub(super) fn has_shown(&mut self, source: IpAddr) {
        if let Some(index) = self.known.iter().position(|known| *known == source) {
            self.known.remove(index);
            return self.known.push_back(source);
        }
        if self.known.len() == MAX_KNOWN
            && let Some(oldest) = self.known.pop_front()
        {
            self.guard.set_known(&self.listener, oldest, false);
        }
        self.known.push_back(source);
        self.guard.set_known(&self.listener, source, true);
    }

    /// Returns when whoever is kept out may be let in again, and lets him; never, while nobody is kept out.
    pub(super) async fn next_look(&mut self) {
        let Some(due) = self.guard.due() else {
            return std::future::pending().await;
        };
        tokio::time::sleep(due.since(self.now())).await;
        let now = self.now();
        self.guard.look(&self.listener, now);
    }
}

#[cfg(test)]
mod tests;
