//! What is left of snapshots that are deleted, and whose mark was kept: at which version a chunk was.
//!
//! What was changed since a snapshot is what has a newer version than the chunk had then. So for that nothing else is needed of a
//! state: it becomes a mark, which has no leaves, holds no block, and cannot be read. Marks are few (a volume has at most
//! [`MAX_MARKS`](amita_types::map::MAX_MARKS)), and most chunks have none, so they are not among the states.

use super::ChunkKey;
use crate::format::record::Mark;
use amita_types::SnapshotId;
use rustc_hash::FxHashMap;

/// The marks of all chunks.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Of each chunk that has any: ascending.
    of: FxHashMap<u32, Vec<Mark>>,
    count: u64,
}

impl Marks {
    /// The marks of a chunk, oldest first.
    pub fn of(&self, key: ChunkKey) -> impl ExactSizeIterator<Item = Mark> + Clone + '_ {
        let marks = self.of.get(&key.0).map_or(&[][..], Vec::as_slice);
        marks.iter().copied()
    }

    /// A chunk gets one; in place of another one of the same name.
    pub fn set(&mut self, key: ChunkKey, mark: Mark) {
        let marks = self.of.entry(key.0).or_default();
        match marks.binary_search_by_key(&mark.to, |known| known.to) {
            Ok(place) => marks[place] = mark,
            Err(place) => {
                marks.reserve_exact(1);
                marks.insert(place, mark);
                self.count += 1;
            }
        }
    }

    /// The one up to this snapshot goes.
    pub fn remove(&mut self, key: ChunkKey, to: SnapshotId) {
        let Some(marks) = self.of.get_mut(&key.0) else { return };
        if let Ok(place) = marks.binary_search_by_key(&to, |mark| mark.to) {
            marks.remove(place);
            self.count -= 1;
        }
        if marks.is_empty() {
            self.of.remove(&key.0);
        }
    }

    pub fn forget(&mut self, key: ChunkKey) {
        if let Some(marks) = self.of.remove(&key.0) {
            self.count -= marks.len() as u64;
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn bytes(&self) -> usize {
        // A list has the allocator's word beside it, and its place in the table.
        self.of.capacity() * (size_of::<(u32, Vec<Mark>)>() + 1)
            + self.of.len() * 16
            + self.count as usize * size_of::<Mark>()
    }
}
