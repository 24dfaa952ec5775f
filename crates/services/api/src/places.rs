//! Places for connections: so many in all, and so many of one address.

use amita_audit::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Taken = HashMap<IpAddr, usize>;

/// Places.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    most_of_address: usize,
    taken: Arc<Mutex<Taken>>,
}

/// A place; dropped, it is free again.
#[derive(Debug)]
pub(crate) struct Place {
    of: IpAddr,
    taken: Arc<Mutex<Taken>>,
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    pub(crate) fn new(most: usize, most_of_address: usize) -> Places {
        Places {
            most,
            most_of_address,
            taken: Arc::default(),
        }
    }

    /// None: there is none for this address.
    pub(crate) fn take(&self, of: IpAddr) -> Option<Place> {
        let of = network(of);
        let mut taken = lock(&self.taken);
        let all: usize = taken.values().sum();
        let own = taken.get(&of).copied().unwrap_or_default();
        if all >= self.most || own >= self.most_of_address {
            return None;
        }
        taken.insert(of, own + 1);
        Some(Place {
            of,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        match taken.get_mut(&self.of) {
            Some(1) | None => drop(taken.remove(&self.of)),
            Some(own) => *own -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_have_all_places() {
        let [one, other] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        let places = Places::new(3, 2);
        let first = [places.take(one), places.take(one)];
        assert!(first.iter().all(Option::is_some));
        assert!(places.take(one).is_none());
        let second = places.take(other);
        assert!(second.is_some());
        assert!(places.take(other).is_none(), "all are taken");
        drop(first);
        assert!(places.take(one).is_some());
        drop(second);
        assert!(lock(&places.taken).is_empty());
    }
}
