//! Who has a number, where more than one record may say it: the same one for everybody who has read the same records.
//!
//! Records whose keys are names say the number of what they are about: a node's, a pool's. A number is given once, and stays with its
//! name; but who may write may say anything. So of several keys that say the same number the one that is there longest has it, by
//! the revision of its creation: who comes later with another's number gains nothing. When that key is deleted the number is the
//! next one's, as when a node is replaced. And a key that is there gets no other's number by being rewritten, however old it is: who
//! has heard what it said before does not hear it.

use std::collections::{BTreeMap, BTreeSet};

/// What records say, by key and by number.
#[derive(Debug)]
pub struct Holders<N, T> {
    records: BTreeMap<String, Claim<N, T>>,
    /// The revisions of the keys' creation, and the keys.
    by_number: BTreeMap<N, BTreeSet<(u64, String)>>,
}

#[derive(Debug)]
struct Claim<N, T> {
    number: N,
    created: u64,
    record: T,
}

impl<N, T> Default for Holders<N, T> {
    fn default() -> Self {
        Holders {
            records: BTreeMap::new(),
            by_number: BTreeMap::new(),
        }
    }
}

impl<N: Copy + Ord + std::fmt::Display, T> Holders<N, T> {
    /// Takes a record in; `created` is the revision of its key's creation.
    ///
    /// # Errors
    /// It is not heard: the number is another key's.
    pub fn put(&mut self, key: &str, created: u64, number: N, record: T) -> Result<(), String> {
        let before = self.records.get(key).filter(|before| before.created == created);
        if let Some(before) = before.filter(|before| before.number != number && self.by_number.contains_key(&number)) {
            return Err(format!(
                "it says number {number}, which is another's, and has number {}",
                before.number
            ));
        }
        self.remove(key);
        let holders = self.by_number.entry(number).or_default();
        holders.insert((created, key.to_owned()));
        let holder = holders.first().map(|(_, holder)| holder.clone());
        let claim = Claim {
            number,
            created,
            record,
        };
        self.records.insert(key.to_owned(), claim);
        match holder {
            Some(holder) if holder != key => Err(format!("it says number {number}, which is that of {holder}")),
            _ => Ok(()),
        }
    }

    /// Its key is gone: the number that it said.
    pub fn remove(&mut self, key: &str) -> Option<N> {
        let gone = self.records.remove(key)?;
        if let Some(holders) = self.by_number.get_mut(&gone.number) {
            holders.remove(&(gone.created, key.to_owned()));
            if holders.is_empty() {
                self.by_number.remove(&gone.number);
            }
        }
        Some(gone.number)
    }

    /// What stands under a key, whether the number is its own or not.
    #[must_use]
    pub fn of(&self, key: &str) -> Option<&T> {
        self.records.get(key).map(|claim| &claim.record)
    }

    /// The record of who has the number.
    #[must_use]
    pub fn get(&self, number: N) -> Option<&T> {
        let (_, key) = self.by_number.get(&number)?.first()?;
        self.records.get(key).map(|claim| &claim.record)
    }

    /// The records of those who have a number, in order of their keys.
    pub fn by_key(&self) -> impl Iterator<Item = &T> {
        let holds = |key: &String, claim: &Claim<N, T>| {
            let holders = self.by_number.get(&claim.number);
            holders
                .and_then(BTreeSet::first)
                .is_some_and(|(_, holder)| holder == key)
        };
        let records = self.records.iter();
        records
            .filter(move |(key, claim)| holds(key, claim))
            .map(|(_, claim)| &claim.record)
    }

    /// The record under a key, if it has its number.
    #[must_use]
    pub fn held(&self, key: &str) -> Option<&T> {
        let claim = self.records.get(key)?;
        let (_, holder) = self.by_number.get(&claim.number)?.first()?;
        (holder == key).then_some(&claim.record)
    }

    /// Who has which number, in order.
    pub fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        let numbers = self.by_number.keys();
        numbers.filter_map(|number| Some((*number, self.get(*number)?)))
    }
}

#[cfg(test)]
mod tests;
