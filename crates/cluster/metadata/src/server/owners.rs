//! Whose leases there are: nobody may have all of them.

use crate::call::LeaseId;
use std::collections::HashMap;
use std::sync::Arc;

/// The holders of leases, by the names that they are counted as.
#[derive(Debug, Default)]
pub(super) struct Owners {
    owners: HashMap<LeaseId, Arc<str>>,
    counts: HashMap<Arc<str>, usize>,
}

impl Owners {
    pub(super) fn add(&mut self, id: LeaseId, owner: Arc<str>) {
        self.remove(id);
        *self.counts.entry(Arc::clone(&owner)).or_default() += 1;
        self.owners.insert(id, owner);
    }

    pub(super) fn remove(&mut self, id: LeaseId) {
        let Some(owner) = self.owners.remove(&id) else { return };
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
    }

    /// How many it has.
    pub(super) fn count(&self, owner: &str) -> usize {
        self.counts.get(owner).copied().unwrap_or(0)
    }

    /// Whose it is, where that is known.
    pub(super) fn owner(&self, id: LeaseId) -> Option<&Arc<str>> {
        self.owners.get(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_counted_for_their_owner() {
        let mut owners = Owners::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        for id in 1..=3 {
            owners.add(LeaseId(id), Arc::clone(&a));
        }
        owners.add(LeaseId(3), Arc::clone(&b));
        assert_eq!((owners.count("a"), owners.count("b")), (2, 1));
        owners.remove(LeaseId(1));
        owners.remove(LeaseId(1));
        owners.remove(LeaseId(2));
        assert_eq!((owners.count("a"), owners.count("b")), (0, 1));
        assert!(!owners.counts.contains_key("a"));
        assert_eq!(owners.owner(LeaseId(3)), Some(&b));
    }
}
