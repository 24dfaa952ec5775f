//! How many connections the door takes in a second, and whose: whoever connects more often is not let in by the kernel, and costs
//! nothing ([`amita_reactor::admission`]).

use super::door::MAX_HANDSHAKES;
use amita_reactor::admission::Verdict;
use amita_reactor::uring::Guard;
use amita_reactor::{AcceptLimits, Rate, Time};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Addresses that are kept of those from which somebody has proven himself: those that have connections, and the latest.
const MAX_KNOWN: usize = 256;

/// Connections that the kernel holds until they are accepted, while nobody floods.
const BACKLOG: i32 = 1024;

/// What stands before the door.
pub(super) struct Entrance {
    listener: OwnedFd,
    guard: Guard,
    /// The latest is the last.
    known: VecDeque<IpAddr>,
    stays: Stays,
    began: Instant,
}

/// How many are inside who have proven themselves, by address.
#[derive(Clone, Default)]
pub(super) struct Stays(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One of them, until it is dropped.
pub(super) struct Stay {
    stays: Stays,
    address: IpAddr,
}

impl Stays {
    /// Somebody comes in from there.
    pub(super) fn begin(&self, address: IpAddr) -> Stay {
        *self.lock().entry(address).or_default() += 1;
        Stay {
            stays: self.clone(),
            address,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut stays = self.stays.lock();
        if let Some(count) = stays.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                stays.remove(&self.address);
            }
        }
    }
}

impl Entrance {
    /// Before this listener.
    pub(super) fn new(listener: &TcpListener) -> io::Result<Entrance> {
        Ok(Entrance {
            listener: listener.as_fd().try_clone_to_owned()?,
            guard: Guard::new(ACCEPTS, RandomState::new().build_hasher().finish(), BACKLOG),
            known: VecDeque::new(),
            stays: Stays::default(),
            began: Instant::now(),
        })
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// Is this one let in? Who is not is told so: the connection is reset when it is dropped.
    pub(super) fn admits(&mut self, stream: &TcpStream, from: SocketAddr) -> bool {
        let now = self.now();
        let is_in = self.guard.arrive(&self.listener, now, from.ip(), stream) == Verdict::Admit;
        if !is_in {
            // Where it fails, closing goes the usual way.
            let _ = stream.set_zero_linger();
        }
        is_in
    }

    /// Of those who have proven themselves.
    pub(super) fn stays(&self) -> Stays {
        self.stays.clone()
    }

    /// Somebody has proven himself who came from there.
    pub(super) fn has_shown(&mut self, address: IpAddr) {
        if let Some(index) = self.known.iter().position(|known| *known == address) {
            self.known.remove(index);
            return self.known.push_back(address);
        }
        if self.known.len() == MAX_KNOWN {
            // Whoever has been away for longest makes room; where all are here, one more is not known.
            let stays = self.stays.lock();
            let Some(index) = self.known.iter().position(|known| !stays.contains_key(known)) else {
                return;
            };
            drop(stays);
            if let Some(longest) = self.known.remove(index) {
                self.guard.set_known(&self.listener, longest, false);
            }
        }
        self.known.push_back(address);
        self.guard.set_known(&self.listener, address, true);
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
