//! Tables of what a sequencer knows: vectors with a key type each, of which tests count how often somebody looks at a record.
//!
//! A pool may have thousands of stores and groups, and a volume millions of chunks, while an event concerns a few of them.
//! Whoever walks through a table for each event holds the core up for seconds then, and no small test notices. So tests
//! at such sizes count looks: the same number on every machine, unlike time. Outside of tests a table is its vector.

use amita_types::GroupIndex;
use std::iter::Inspect;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::slice::IterMut;

/// A place in a table of its own type.
pub(crate) trait Key: Copy {
    fn new(at: usize) -> Self;

    fn at(self) -> usize;
}

/// Declares places in tables. Each is four bytes, and so is an `Option` of it.
macro_rules! slots {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        // The complement of the place: only that of the place after the last possible one is zero.
        pub(crate) struct $name(std::num::NonZeroU32);

        impl $crate::table::Key for $name {
            #[inline]
            fn new(at: usize) -> $name {
                let complement = u32::try_from(at).ok().and_then(|at| std::num::NonZeroU32::new(!at));
                $name(complement.expect("tables are bounded far below 2^32 records"))
            }

            #[inline]
            fn at(self) -> usize {
                !self.0.get() as usize
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &$name) -> std::cmp::Ordering {
                $crate::table::Key::at(*self).cmp(&$crate::table::Key::at(*other))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(out, "{}({})", stringify!($name), $crate::table::Key::at(*self))
            }
        }

        const _: () = assert!(size_of::<Option<$name>>() == 4);
    )* };
}

slots! {
    /// A store among those that the sequencer knows.
    StoreSlot,
    /// A group of the pool: its index.
    GroupSlot,
    /// A chunk among those that were touched.
    ChunkSlot,
    /// A task among those under way.
    TaskSlot,
    /// A member that is brought up to date, among those that are.
    SyncSlot,
    /// A chunk that is compared with a copy, among those that are.
    MendSlot,
    /// A store among those that a core watches.
    WatchSlot,
    /// A place in one of the lists of chunks that a group has.
    ListPlace,
}

impl GroupSlot {
    pub fn of(index: GroupIndex) -> GroupSlot {
        GroupSlot::new(index.0 as usize)
    }
}

/// A vector of records by their keys.
#[derive(Debug)]
pub(crate) struct Table<K, T> {
    records: Vec<T>,
    key: PhantomData<K>,
}

impl<K: Key, T> Table<K, T> {
    pub const fn new() -> Table<K, T> {
        Table {
            records: Vec::new(),
            key: PhantomData,
        }
    }

    pub fn push(&mut self, record: T) -> K {
        let key = K::new(self.records.len());
        self.records.push(record);
        key
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn get(&self, key: K) -> Option<&T> {
        look();
        self.records.get(key.at())
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        look();
        self.records.get_mut(key.at())
    }

    /// Of all records there are now.
    pub fn keys(&self) -> impl Iterator<Item = K> + use<K, T> {
        (0..self.records.len()).map(K::new)
    }

    /// The record behind this one, if there is one.
    pub fn after(&self, key: K) -> Option<K> {
        (key.at() + 1 < self.records.len()).then(|| K::new(key.at() + 1))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.records.iter().inspect(|_| look())
    }
}

impl<K: Key, T> Table<K, Option<T>> {
    /// Puts a record to the first place that is free.
    pub fn put(&mut self, record: T) -> K {
        self.put_with(|_| record)
    }

    /// The same for one that knows its place.
    pub fn put_with(&mut self, record: impl FnOnce(K) -> T) -> K {
        match self.records.iter().position(Option::is_none) {
            Some(free) => {
                self.records[free] = Some(record(K::new(free)));
                K::new(free)
            }
            None => self.push(Some(record(K::new(self.records.len())))),
        }
    }
}

impl<K: Key, T> Default for Table<K, T> {
    fn default() -> Table<K, T> {
        Table::new()
    }
}

impl<'a, K, T> IntoIterator for &'a mut Table<K, T> {
    type Item = &'a mut T;
    type IntoIter = Inspect<IterMut<'a, T>, fn(&&'a mut T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter_mut().inspect(|_| look())
    }
}

impl<K: Key, T> Index<K> for Table<K, T> {
    type Output = T;
    #[inline]
    fn index(&self, key: K) -> &T {
        look();
        &self.records[key.at()]
    }
}

impl<K: Key, T> IndexMut<K> for Table<K, T> {
    #[inline]
    fn index_mut(&mut self, key: K) -> &mut T {
        look();
        &mut self.records[key.at()]
    }
}

#[cfg(not(test))]
#[inline(always)]
fn look() {}

#[cfg(test)]
use counting::look;
#[cfg(test)]
pub(crate) use counting::{looks, without_counting};

#[cfg(test)]
mod counting {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    pub fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// How often this thread has looked at a record.
    pub fn looks() -> u64 {
        LOOKS.get()
    }

    /// What only tests do is not counted.
    pub fn without_counting<R>(run: impl FnOnce() -> R) -> R {
        let before = looks();
        let result = run();
        LOOKS.set(before);
        result
    }
}
