//! Tables of what a sequencer knows: vectors, of which tests count how often somebody looks at a record.
//!
//! A pool may have thousands of stores and groups, and a volume millions of chunks, while an event concerns a few of them.
//! Whoever walks through a table for each event holds the core up for seconds then, and no small test notices. So tests
//! at such sizes count looks: the same number on every machine, unlike time. Outside of tests a table is its vector.

use std::iter::Inspect;
use std::ops::{Index, IndexMut};
use std::slice::IterMut;

/// A vector.
#[derive(Debug)]
pub(crate) struct Table<T>(Vec<T>);

impl<T> Table<T> {
    pub const fn new() -> Table<T> {
        Table(Vec::new())
    }

    pub fn push(&mut self, record: T) {
        self.0.push(record);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, at: usize) -> Option<&T> {
        look();
        self.0.get(at)
    }

    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        look();
        self.0.get_mut(at)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().inspect(|_| look())
    }
}

impl<'a, T> IntoIterator for &'a mut Table<T> {
    type Item = &'a mut T;
    type IntoIter = Inspect<IterMut<'a, T>, fn(&&'a mut T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut().inspect(|_| look())
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;
    #[inline]
    fn index(&self, at: usize) -> &T {
        look();
        &self.0[at]
    }
}

impl<T> IndexMut<usize> for Table<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        look();
        &mut self.0[at]
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
