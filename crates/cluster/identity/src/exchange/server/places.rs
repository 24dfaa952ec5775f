//! The places of the authority's server: who is served, and who leaves when there is no room.
//!
//! A stranger who holds connections without a word must not keep machines from the list of what was revoked. So whoever
//! comes gets a place, and where all are taken the one leaves who has had his for longest, of the source that has most of
//! them: an honest exchange takes milliseconds, so it ends long before it would be the oldest of the largest. Whoever has
//! shown a certificate stands in places of their own, where the same holds between names: no stranger pushes them out.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most connections that have shown no certificate.
pub(super) const MAX_STRANGERS: usize = 128;
/// The most that have.
pub(super) const MAX_KNOWN: usize = 64;
/// The most threads: those, and as many that were told to leave and are on their way out as there can be at a time.
const MAX_THREADS: usize = MAX_STRANGERS + MAX_KNOWN + 64;

#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Mutex<Taken>,
    /// Somebody has gone.
    gone: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    strangers: Row<IpAddr>,
    known: Row<String>,
    threads: usize,
}

/// Those of one kind, in the order in which they came.
#[derive(Debug)]
struct Row<S>(VecDeque<Standing<S>>);

#[derive(Debug)]
struct Standing<S> {
    number: u64,
    source: S,
    socket: Arc<TcpStream>,
}

/// One connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// May one more be served? `false`: not within that time.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        let is_full = |taken: &mut Taken| taken.threads >= MAX_THREADS;
        let waited = self.gone.wait_timeout_while(self.lock(), patience, is_full);
        let (taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        taken.threads < MAX_THREADS
    }

    /// A place for who has come from there; where there is none, somebody leaves.
    pub(super) fn stand(self: &Arc<Self>, from: SocketAddr, socket: &Arc<TcpStream>) -> Place {
        let mut taken = self.lock();
        let number = taken.next;
        taken.next += 1;
        taken.threads += 1;
        let standing = Standing {
            number,
            source: source_of(from),
            socket: Arc::clone(socket),
        };
        taken.strangers.enter(standing, MAX_STRANGERS);
        drop(taken);
        Place {
            places: Arc::clone(self),
            number,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// It has shown a certificate with that name.
    pub(super) fn show(&self, name: String) {
        let mut taken = self.places.lock();
        // Who was told to leave meanwhile leaves.
        let Some(stranger) = taken.strangers.take(self.number) else {
            return;
        };
        let standing = Standing {
            number: self.number,
            source: name,
            socket: stranger.socket,
        };
        taken.known.enter(standing, MAX_KNOWN);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.strangers.take(self.number);
        taken.known.take(self.number);
        taken.threads -= 1;
        drop(taken);
        self.places.gone.notify_one();
    }
}

impl<S> Default for Row<S> {
    fn default() -> Row<S> {
        Row(VecDeque::new())
    }
}

impl<S: Clone + Eq + Hash> Row<S> {
    fn enter(&mut self, standing: Standing<S>, most: usize) {
        if self.0.len() >= most
            && let Some(leaves) = self.longest_of_most()
        {
            // Its thread, which waits for it, ends by that.
            let _ = leaves.socket.shutdown(Shutdown::Both);
        }
        self.0.push_back(standing);
    }

    fn take(&mut self, number: u64) -> Option<Standing<S>> {
        let at = self.0.iter().position(|standing| standing.number == number)?;
        self.0.remove(at)
    }

    /// The oldest of the source that has most.
    fn longest_of_most(&mut self) -> Option<Standing<S>> {
        let mut each: HashMap<S, usize> = HashMap::new();
        for standing in &self.0 {
            *each.entry(standing.source.clone()).or_default() += 1;
        }
        let most = each.values().copied().max()?;
        let at = self.0.iter().position(|standing| each[&standing.source] == most)?;
        self.0.remove(at)
    }
}

/// What counts as one source: an address, or the network of a host with IPv6, which has as many addresses as it likes.
fn source_of(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests;
