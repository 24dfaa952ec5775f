//! What differs between two views of a chunk.
//!
//! Versions tell it exactly: an entry that a resync or a repair has brought has the version of the write that made it (rule S5).
//! Leaves that both views share are not looked at.

use super::{ChunkKey, Entry, Index, LEAF_ENTRIES, Location, PARTS, View};
use amita_types::io::Differs;

impl Index {
    /// The leaves of the parts that two views do not share: where the newer one has it, and the older one. `None` in place of the
    /// older view: the chunk was made later.
    pub fn apart(
        &self,
        key: ChunkKey,
        newer: View,
        older: Option<View>,
    ) -> impl Iterator<Item = (Location, Option<Location>)> + '_ {
        let chunk = self.chunk(key);
        // Nothing was changed between them.
        let is_same = older.is_some_and(|older| chunk.version(older) == chunk.version(newer));
        let parts = if is_same { 0 } else { PARTS };
        (0..parts)
            .map(move |part| {
                let older = older.map(|older| self.location(key, older, part));
                (self.location(key, newer, part), older)
            })
            .filter(|(newer, older)| *older != Some(*newer))
    }

    /// Which entries have another version in the newer view. The leaves that [`Index::apart`] names are in memory.
    pub fn differs(&self, key: ChunkKey, newer: View, older: Option<View>) -> Differs {
        let mut differs = Differs::default();
        for (newer, older) in self.apart(key, newer, older) {
            let before = older.map(|older| *self.leaf_ref(older));
            let now = *self.leaf_ref(newer);
            for at in 0..LEAF_ENTRIES {
                let entry = self.cache.entry(now, at);
                let old = before.map_or(Entry::NEVER, |before| self.cache.entry(before, at));
                if entry.version != old.version {
                    let block = usize::from(newer.part) * LEAF_ENTRIES + at;
                    let (word, bit) = (block / 64, 1 << (block % 64));
                    differs.changed[word] |= bit;
                    differs.allocated[word] |= if entry.has_data() { bit } else { 0 };
                }
            }
        }
        differs
    }
}
