//! What differs between two views of a chunk.
//!
//! Versions tell it exactly: an entry that a resync or a repair has brought has the version of the write that made it (rule S5).
//! Leaves that both views share are not looked at.

use super::{ChunkKey, Entry, Index, LEAF_ENTRIES, Location, PARTS, View};
use amita_types::Version;
use amita_types::io::Differs;

/// Since when changes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Since then.
    As(View),
    /// The chunk was made later.
    Unborn,
    /// Since it was at this version; no more than that is known of it.
    Mark(Version),
}

impl Index {
    /// The leaves of the parts that two views do not share: where the newer one has it, and the older one, if there is one.
    pub fn apart(
        &self,
        key: ChunkKey,
        newer: View,
        older: Since,
    ) -> impl Iterator<Item = (Location, Option<Location>)> + '_ {
        let chunk = self.chunk(key);
        let now = chunk.version(newer);
        let (older, is_same) = match older {
            Since::As(older) => (Some(older), chunk.version(older) == now),
            Since::Unborn => (None, false),
            Since::Mark(then) => (None, now <= then),
        };
        // Nothing was changed between them.
        let parts = if is_same { 0 } else { PARTS };
        (0..parts)
            .map(move |part| {
                let older = older.map(|older| self.location(key, older, part));
                (self.location(key, newer, part), older)
            })
            .filter(|(newer, older)| *older != Some(*newer))
    }

    /// Which entries have another version in the newer view; or a newer one than there was at a mark. The leaves that [`Index::apart`] names are in memory.
    pub fn differs(&self, key: ChunkKey, newer: View, since: Since) -> Differs {
        let mut differs = Differs::default();
        for (newer, older) in self.apart(key, newer, since) {
            let before = older.map(|older| *self.leaf_ref(older));
            let now = *self.leaf_ref(newer);
            for at in 0..LEAF_ENTRIES {
                let entry = self.cache.entry(now, at);
                let old = before.map_or(Entry::NEVER, |before| self.cache.entry(before, at));
                let is_changed = match since {
                    Since::Mark(then) => entry.version > then,
                    Since::As(_) | Since::Unborn => entry.version != old.version,
                };
                if is_changed {
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
