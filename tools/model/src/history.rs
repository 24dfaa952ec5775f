//! Versions, and what a chunk holds at each of them.

use crate::config::Rule;
use crate::state::{BLOCKS, Chunk, Entry, Id, NONE, Replication, State};

/// (generation, counter).
pub type Version = (u8, u8);

impl Replication {
    /// The version of a write; of write 0: that of a chunk that was never written.
    #[must_use]
    pub fn version(&self, s: &State, id: Id) -> Version {
        if id == 0 {
            return (0, 0);
        }
        let write = &s.writes[usize::from(id) - 1];
        let generation = if write.q == NONE {
            0
        } else {
            self.generation(usize::from(write.q))
        };
        (
            if self.off.holds(Rule::Generations) {
                generation
            } else {
                0
            },
            write.counter,
        )
    }

    /// Whether `old` is `new`, or one of those that `new` follows.
    #[must_use]
    pub fn follows(&self, s: &State, new: Id, old: Id) -> bool {
        let mut at = new;
        while at != old {
            if at == 0 {
                return false;
            }
            at = s.writes[usize::from(at) - 1].after;
        }
        true
    }

    /// What a chunk holds at a version: the writes up to it, one after the other.
    #[must_use]
    pub fn content(&self, s: &State, at: Id) -> [Entry; BLOCKS] {
        let mut blocks = [Entry::default(); BLOCKS];
        let mut id = at;
        while id != 0 {
            let write = &s.writes[usize::from(id) - 1];
            let kind = self.kind(write);
            let entry = &mut blocks[kind.block];
            if entry.last == 0 {
                entry.last = id;
            }
            for sector in 0..2 {
                if kind.sectors & (1 << sector) != 0 && entry.sectors[sector] == 0 {
                    entry.sectors[sector] = id;
                }
            }
            id = write.after;
        }
        blocks
    }

    /// Applies a write to a chunk, whatever is there.
    pub fn apply(&self, s: &State, chunk: &mut Chunk, id: Id) {
        let kind = self.kind(&s.writes[usize::from(id) - 1]);
        let entry = &mut chunk.blocks[kind.block];
        entry.last = id;
        for sector in 0..2 {
            if kind.sectors & (1 << sector) != 0 {
                entry.sectors[sector] = id;
            }
        }
        chunk.stream = id;
    }

    /// The chunk that a write belongs to.
    #[must_use]
    pub fn chunk_of(&self, s: &State, id: Id) -> usize {
        self.kind(&s.writes[usize::from(id) - 1]).chunk
    }
}
