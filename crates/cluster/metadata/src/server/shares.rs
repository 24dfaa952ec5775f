//! Who holds how much of what there is: connections, watches, bytes of answers, requests under way.
//!
//! Everything that a peer can make the server hold is counted twice: for all together, and for its holder: the name in its
//! certificate, or where nobody is asked for one the address that it comes from. So one that wants everything leaves enough for
//! the others.

use super::access::Peer;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

const MIB: usize = 1 << 20;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Good {
    Connections,
    Watches,
    /// Bytes of answers and of watched changes that are not sent yet.
    Bytes,
}

const GOODS: usize = 3;

/// A limit for all, for one holder of a certificate, and for one address where there are none: a whole cluster may run on one
/// machine then.
struct Limits {
    all: usize,
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
                identity: 128,
                address: 512,
            },
            Good::Watches => Limits {
                all: super::engine::MAX_WATCHES,
                identity: 512,
                address: 2048,
            },
            // An answer may have all that a client takes, 256 MiB, once for a holder and twice for all.
            Good::Bytes => Limits {
                all: 640 * MIB,
                identity: 256 * MIB,
                address: 512 * MIB,
            },
        }
    }
}

/// Answers above this leave [`KEPT_FOR_SMALL`] to the others.
const SMALL_BYTES: usize = MIB;
const KEPT_FOR_SMALL: usize = 128 * MIB;
/// Leases of one holder, of [`crate::model::MAX_LEASES`] in all: a node has one, a tool one more.
const LEASES_OF_IDENTITY: usize = 256;
const LEASES_OF_ADDRESS: usize = 2048;
/// Requests that are read and carried out at once. With the most bytes of a request it bounds what strangers can take; more
/// wait.
const REQUESTS: usize = 256;
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
    requests: Semaphore,
    holders: Mutex<HashMap<String, Weak<Holder>>>,
}

/// One of them; its connections share it.
pub(super) struct Holder {
    /// What it is counted as.
    name: Arc<str>,
    is_identity: bool,
    taken: Counts,
    requests: Semaphore,
    all: Arc<All>,
}

/// Something that is held; it is given back when this is dropped.
pub(super) struct Share {
    holder: Arc<Holder>,
    good: Good,
    amount: usize,
}

impl Shares {
    pub(super) fn new() -> Shares {
        Shares(Arc::new(All {
            taken: Counts::default(),
            requests: Semaphore::new(REQUESTS),
            holders: Mutex::default(),
        }))
    }

    /// The holder behind a connection.
    pub(super) fn holder(&self, peer: Option<&Peer>, source: IpAddr) -> Arc<Holder> {
        let name = peer.map_or_else(|| format!("{ADDRESS}{source}"), |peer| peer.name.clone());
        let mut holders = self.0.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holder) = holders.get(&name).and_then(Weak::upgrade) {
            return holder;
        }
        holders.retain(|_, holder| holder.strong_count() > 0);
        let holder = Arc::new(Holder {
            name: name.as_str().into(),
            is_identity: peer.is_some(),
            taken: Counts::default(),
            requests: Semaphore::new(if peer.is_some() {
                REQUESTS_OF_IDENTITY
            } else {
                REQUESTS_OF_ADDRESS
            }),
            all: Arc::clone(&self.0),
        });
        holders.insert(name, Arc::downgrade(&holder));
        holder
    }
}

/// Adds, unless it would be more than `most`.
fn add(count: &AtomicUsize, amount: usize, most: usize) -> bool {
    let added = |now: usize| now.checked_add(amount).filter(|sum| *sum <= most);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
}

impl Holder {
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Is it the name of a holder that was not asked for a certificate?
    pub(super) fn is_address(name: &str) -> bool {
        name.starts_with(ADDRESS)
    }

    pub(super) fn most_leases(&self) -> usize {
        if self.is_identity {
            LEASES_OF_IDENTITY
        } else {
            LEASES_OF_ADDRESS
        }
    }

    /// So much of a good; `None`: it has too much, or all together have.
    pub(super) fn take(self: &Arc<Self>, good: Good, amount: usize) -> Option<Share> {
        let limits = good.limits();
        let own = if self.is_identity {
            limits.identity
        } else {
            limits.address
        };
        let all = if good == Good::Bytes && amount > SMALL_BYTES {
            limits.all - KEPT_FOR_SMALL
        } else {
            limits.all
        };
        if !add(&self.taken[good as usize], amount, own) {
            return None;
        }
        if !add(&self.all.taken[good as usize], amount, all) {
            self.taken[good as usize].fetch_sub(amount, Ordering::Relaxed);
            return None;
        }
        Some(Share {
            holder: Arc::clone(self),
            good,
            amount,
        })
    }

    /// How much it has.
    #[cfg(test)]
    pub(super) fn held(&self, good: Good) -> usize {
        self.taken[good as usize].load(Ordering::Relaxed)
    }

    /// Waits for a place among the requests.
    pub(super) async fn request(&self) -> [tokio::sync::SemaphorePermit<'_>; 2] {
        // Neither is ever closed.
        let own = self.requests.acquire().await.expect("it is open");
        [own, self.all.requests.acquire().await.expect("it is open")]
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for counts in [&self.holder.taken, &self.holder.all.taken] {
            counts[self.good as usize].fetch_sub(self.amount, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_identity::Role;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn peer(name: &str) -> Peer {
        Peer {
            name: name.to_owned(),
            role: Role::Node,
            operator_role: None,
        }
    }

    #[test]
    fn one_holder_gets_its_part_and_gives_it_back() {
        let shares = Shares::new();
        let (one, same) = (
            shares.holder(Some(&peer("a")), HERE),
            shares.holder(Some(&peer("a")), HERE),
        );
        let own = Good::Watches.limits().identity;
        let mut held: Vec<Share> = (0..own)
            .map(|_| one.take(Good::Watches, 1).expect("its part"))
            .collect();
        assert!(same.take(Good::Watches, 1).is_none(), "over all of its connections");
        let other = shares.holder(Some(&peer("b")), HERE);
        assert!(other.take(Good::Watches, 1).is_some(), "others have theirs");
        held.pop();
        assert!(same.take(Good::Watches, 1).is_some());
        drop((held, one, same, other));
        assert_eq!(shares.0.taken[Good::Watches as usize].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn large_answers_leave_room_for_small_ones() {
        let shares = Shares::new();
        let holders: Vec<_> = (0..4)
            .map(|n| shares.holder(Some(&peer(&n.to_string())), HERE))
            .collect();
        let most = Good::Bytes.limits().identity;
        let held: Vec<_> = holders
            .iter()
            .filter_map(|holder| holder.take(Good::Bytes, most))
            .collect();
        assert_eq!(held.len(), 2);
        assert!(holders[3].take(Good::Bytes, SMALL_BYTES + 1).is_none());
        assert!(holders[3].take(Good::Bytes, SMALL_BYTES).is_some());
        assert!(holders[0].take(Good::Bytes, 1).is_none(), "it has its part");
        assert!(holders[3].take(Good::Bytes, usize::MAX).is_none());
    }
}
