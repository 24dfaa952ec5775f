//! Who holds how much of what there is: connections, watches, bytes of answers, requests under way.
//!
//! Everything that a peer can make the server hold is counted twice: for all together, and for its holder: the name in its
//! certificate, or where nobody is asked for one the address that it comes from. So one that wants everything leaves enough for
//! the others. Those who may only read are counted together as well: they are people and their tools, may have any number of
//! names, and the cluster goes on without them.

use super::access::{self, Peer, Touch};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const MIB: usize = 1 << 20;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Good {
    Connections,
    /// Requests with one answer, from their head to the last byte of the answer.
    Calls,
    /// Requests that are streams of watches.
    Streams,
    /// Streams by which leases are renewed: whoever has any number of watches keeps his leases.
    Renewals,
    Watches,
    /// Bytes of answers and of watched changes that are not sent yet.
    Bytes,
}

const GOODS: usize = 6;

/// A limit for all, for those who only read, for one holder of a certificate, and for one address where there are none: a whole
/// cluster may run on one machine then.
struct Limits {
    all: usize,
    readers: usize,
    identity: usize,
    address: usize,
}

impl Good {
    /// The most that any holder may have of it.
    pub(super) fn most(self) -> usize {
        self.limits().address.max(self.limits().identity)
    }

    const fn limits(self) -> Limits {
        match self {
            Good::Connections => Limits {
                all: super::MAX_CONNECTIONS,
                readers: 512,
                identity: 128,
                address: 512,
            },
            // A head of 8 KiB each.
            Good::Calls => Limits {
                all: 4096,
                readers: 1024,
                identity: 512,
                address: 2048,
            },
            // A node has one. Each takes 40 KiB: a message of 4 KiB that may never be whole, what came with it (a frame of 16 KiB),
            // and as much for answers.
            Good::Streams => Limits {
                all: 2048,
                readers: 256,
                identity: 64,
                address: 1024,
            },
            // One for each connection that there may be, and the same memory. Who only reads has no leases, and hears that.
            Good::Renewals => Limits {
                all: super::MAX_CONNECTIONS,
                readers: 32,
                identity: 128,
                address: 512,
            },
            Good::Watches => Limits {
                all: super::engine::MAX_WATCHES,
                readers: 1024,
                identity: 512,
                address: 2048,
            },
            // An answer may have all that a client takes, 256 MiB, once for a holder, once for those who only read, and twice for
            // all.
            Good::Bytes => Limits {
                all: 640 * MIB,
                readers: 320 * MIB,
                identity: 256 * MIB,
                address: 512 * MIB,
            },
        }
    }
}

/// Answers above this leave [`KEPT_FOR_SMALL`] to the others, and to others who only read a part of that.
const SMALL_BYTES: usize = MIB;
const KEPT_FOR_SMALL: usize = 128 * MIB;
const KEPT_FOR_SMALL_READERS: usize = 64 * MIB;
/// Leases of one holder, of [`crate::model::MAX_LEASES`] in all: a node has one, a tool one more.
const LEASES_OF_IDENTITY: usize = 256;
const LEASES_OF_ADDRESS: usize = 2048;
/// Requests that are read and carried out at once. With the most bytes of a request it bounds what strangers can take; more
/// wait.
const REQUESTS: usize = 256;
const REQUESTS_OF_READERS: usize = 96;
const REQUESTS_OF_IDENTITY: usize = 64;
const REQUESTS_OF_ADDRESS: usize = 192;

/// How the name of a holder begins that was not asked for a certificate.
const ADDRESS: &str = "address ";

type Counts = [AtomicUsize; GOODS];

/// All holders.
#[derive(Clone)]
pub(super) struct Shares(Arc<All>);

struct All {
    taken: Counts,
    readers: Counts,
    requests: Arc<Semaphore>,
    readers_requests: Arc<Semaphore>,
    holders: Mutex<HashMap<String, Weak<Own>>>,
}

/// What is counted of one of them, over all of its connections.
struct Own {
    name: Arc<str>,
    is_identity: bool,
    taken: Counts,
    requests: Arc<Semaphore>,
}

/// One of them, as a connection shows it: whoever may write by one certificate may only read by a later one.
pub(super) struct Holder {
    own: Arc<Own>,
    only_reads: bool,
    all: Arc<All>,
}

/// Something that is held; it is given back when this is dropped.
pub(super) struct Share {
    holder: Arc<Holder>,
    good: Good,
    amount: usize,
}

/// A place among the requests; it is given back when this is dropped.
pub(super) struct Place(#[expect(dead_code, reason = "held")] Vec<OwnedSemaphorePermit>);

/// What a request of the engine holds until it is carried out.
#[derive(Clone)]
pub(super) enum Hold {
    Place(#[expect(dead_code, reason = "held")] Arc<Place>),
    Stream(#[expect(dead_code, reason = "held")] Arc<Share>),
}

impl Shares {
    pub(super) fn new() -> Shares {
        Shares(Arc::new(All {
            taken: Counts::default(),
            readers: Counts::default(),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            readers_requests: Arc::new(Semaphore::new(REQUESTS_OF_READERS)),
            holders: Mutex::default(),
        }))
    }

    /// The holder behind a connection.
    pub(super) fn holder(&self, peer: Option<&Peer>, source: IpAddr) -> Arc<Holder> {
        let name = peer.map_or_else(|| format!("{ADDRESS}{source}"), |peer| peer.name.clone());
        Arc::new(Holder {
            own: self.own(name, peer.is_some()),
            only_reads: !access::may(peer, Touch::Leases),
            all: Arc::clone(&self.0),
        })
    }

    fn own(&self, name: String, is_identity: bool) -> Arc<Own> {
        let mut holders = self.0.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = holders.get(&name).and_then(Weak::upgrade) {
            return own;
        }
        holders.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Own {
            name: name.as_str().into(),
            is_identity,
            taken: Counts::default(),
            requests: Arc::new(Semaphore::new(if is_identity {
                REQUESTS_OF_IDENTITY
            } else {
                REQUESTS_OF_ADDRESS
            })),
        });
        holders.insert(name, Arc::downgrade(&own));
        own
    }
}

/// Adds, unless it would be more than `most`.
fn add(count: &AtomicUsize, amount: usize, most: usize) -> bool {
    let added = |now: usize| now.checked_add(amount).filter(|sum| *sum <= most);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
}

impl Holder {
    pub(super) fn name(&self) -> &Arc<str> {
        &self.own.name
    }

    pub(super) fn only_reads(&self) -> bool {
        self.only_reads
    }

    /// Is it the name of a holder that was not asked for a certificate?
    pub(super) fn is_address(name: &str) -> bool {
        name.starts_with(ADDRESS)
    }

    pub(super) fn most_leases(&self) -> usize {
        if self.own.is_identity {
            LEASES_OF_IDENTITY
        } else {
            LEASES_OF_ADDRESS
        }
    }

    /// So much of a good; `None`: it has too much, or all together have.
    pub(super) fn take(self: &Arc<Self>, good: Good, amount: usize) -> Option<Share> {
        let limits = good.limits();
        let own = if self.own.is_identity {
            limits.identity
        } else {
            limits.address
        };
        let (kept, kept_readers) = if good == Good::Bytes && amount > SMALL_BYTES {
            (KEPT_FOR_SMALL, KEPT_FOR_SMALL_READERS)
        } else {
            (0, 0)
        };
        let most = [own, limits.all - kept, limits.readers - kept_readers];
        for (index, (counts, most)) in self.counted().zip(most).enumerate() {
            if !add(&counts[good as usize], amount, most) {
                self.counted().take(index).for_each(|counts| {
                    counts[good as usize].fetch_sub(amount, Ordering::Relaxed);
                });
                return None;
            }
        }
        Some(Share {
            holder: Arc::clone(self),
            good,
            amount,
        })
    }

    /// Where it is counted: as itself, as one of all, and as one of those who only read.
    fn counted(&self) -> impl Iterator<Item = &Counts> {
        let readers = self.only_reads.then_some(&self.all.readers);
        [&self.own.taken, &self.all.taken].into_iter().chain(readers)
    }

    /// How much it has.
    #[cfg(test)]
    pub(super) fn held(&self, good: Good) -> usize {
        self.own.taken[good as usize].load(Ordering::Relaxed)
    }

    /// Waits for a place among the requests.
    pub(super) async fn place(&self) -> Place {
        // Its own first: who waits for more than that keeps others from nothing.
        let readers = self.only_reads.then_some(&self.all.readers_requests);
        let mut held = Vec::with_capacity(3);
        for places in [&self.own.requests]
            .into_iter()
            .chain(readers)
            .chain([&self.all.requests])
        {
            held.push(Arc::clone(places).acquire_owned().await.expect("none is ever closed"));
        }
        Place(held)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for counts in self.holder.counted() {
            counts[self.good as usize].fetch_sub(self.amount, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
