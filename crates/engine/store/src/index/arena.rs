//! Memory that grows by segments, so that growing never copies what is there.

use super::{Entry, LEAF_ENTRIES};
use std::ops::{Index, IndexMut};

/// Things of a segment.
const SEGMENT: usize = 1024;

/// A vector in segments.
#[derive(Debug)]
pub(super) struct Segmented<T> {
    segments: Vec<Vec<T>>,
    len: u32,
}

impl<T> Default for Segmented<T> {
    fn default() -> Segmented<T> {
        Segmented {
            segments: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Segmented<T> {
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns where it is.
    pub fn push(&mut self, value: T) -> u32 {
        if self.len as usize == self.segments.len() * SEGMENT {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        self.segments.last_mut().expect("made above").push(value);
        self.len += 1;
        self.len - 1
    }

    pub fn bytes(&self) -> u64 {
        (self.segments.len() * SEGMENT * size_of::<T>()) as u64
    }
}

impl<T> Index<u32> for Segmented<T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        &self.segments[at as usize / SEGMENT][at as usize % SEGMENT]
    }
}

impl<T> IndexMut<u32> for Segmented<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.segments[at as usize / SEGMENT][at as usize % SEGMENT]
    }
}

pub(super) type Flat = [Entry; LEAF_ENTRIES];

/// Leaves of a segment: 128 KiB.
const SEGMENT_LEAVES: usize = 64;

/// Memory for leaves.
#[derive(Debug, Default)]
pub(super) struct Arena {
    segments: Vec<Box<[Flat]>>,
    free: Vec<u32>,
}

impl Arena {
    /// A leaf; what is in it means nothing.
    pub fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            let first = (self.segments.len() * SEGMENT_LEAVES) as u32;
            self.segments
                .push(vec![[Entry::NEVER; LEAF_ENTRIES]; SEGMENT_LEAVES].into_boxed_slice());
            // Room for all, so that giving one back never allocates.
            self.free.reserve(self.segments.len() * SEGMENT_LEAVES);
            self.free.extend((first..first + SEGMENT_LEAVES as u32).rev());
        }
        self.free.pop().expect("the arena has just grown")
    }

    pub fn give(&mut self, leaf: u32) {
        self.free.push(leaf);
    }

    pub fn get(&self, leaf: u32) -> &Flat {
        &self.segments[leaf as usize / SEGMENT_LEAVES][leaf as usize % SEGMENT_LEAVES]
    }

    pub fn get_mut(&mut self, leaf: u32) -> &mut Flat {
        &mut self.segments[leaf as usize / SEGMENT_LEAVES][leaf as usize % SEGMENT_LEAVES]
    }

    /// Copies one over another.
    pub fn copy(&mut self, from: u32, to: u32) {
        let entries = *self.get(from);
        *self.get_mut(to) = entries;
    }

    pub fn used_bytes(&self) -> u64 {
        ((self.segments.len() * SEGMENT_LEAVES - self.free.len()) * size_of::<Flat>()) as u64
    }
}
