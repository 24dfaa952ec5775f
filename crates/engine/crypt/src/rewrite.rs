//! Re-encryption in the background: what was written with an older key is written again, while the volume is used.
//!
//! The key is new from the raise on (S14), so everything that hosts write has it. What is older the owner goes through chunk by chunk:
//! a block whose version is of an earlier era is compared with itself and written, in its turn among the chunk's writes. The mark in the
//! volume's record says how far that has got: *no block of the volume below it is of an earlier era*. That cannot become untrue, for
//! what is written later has the new key, and a member that is brought up to date gets what the others have. So the next owner goes on
//! from the mark, or from before it, and does no more than look at blocks a second time.
//!
//! Snapshots are not written to: they keep their keys until they go, and the old key with them ([`KeyRing::retired`]).

use amita_types::map::KeyRing;
use amita_types::message::Run;
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Generation, Version};
use serde::{Deserialize, Serialize};

/// How far the volume has been written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// The first generation of the key that everything is to have.
    pub from: Generation,
    /// Every chunk before this one has it.
    pub next: ChunkIndex,
}

impl Rewrite {
    /// From the beginning, to the newest key of the ring; one that was under way to an earlier key ends with it. `None`: there is one key
    /// only.
    #[must_use]
    pub fn begin(ring: &KeyRing) -> Option<Rewrite> {
        (ring.eras().len() > 1).then(|| Rewrite {
            from: ring.newest().from,
            next: ChunkIndex(0),
        })
    }

    /// Is a block of this version to be written again?
    #[must_use]
    pub fn is_stale(&self, version: Version) -> bool {
        version != Version::NONE && version.generation() < self.from
    }

    /// What is to be written again, of blocks from `first` on that a read has found in these versions.
    #[must_use]
    pub fn stale(&self, first: BlockIndex, runs: &[Run]) -> Vec<BlockRange> {
        let mut ranges: Vec<BlockRange> = Vec::new();
        let mut at = first.0;
        for run in runs.iter().filter(|run| run.blocks > 0) {
            if self.is_stale(run.version) {
                match ranges.last_mut() {
                    Some(last) if last.end() == u32::from(at) => last.count += run.blocks,
                    _ => ranges.push(BlockRange::new(at, run.blocks)),
                }
            }
            at = at.saturating_add(run.blocks);
        }
        ranges
    }

    /// Nothing stale is left in this chunk, and all that was written again is acknowledged. `true`: the mark has moved. Chunks may end in
    /// any order; the mark moves by the next one only.
    pub fn done(&mut self, chunk: ChunkIndex) -> bool {
        let is_next = chunk == self.next;
        if is_next {
            self.next.0 += 1;
        }
        is_next
    }

    /// Has all of a volume of so many chunks been written again?
    #[must_use]
    pub fn is_done(&self, chunks: u64) -> bool {
        self.next.0 >= chunks
    }
}

#[cfg(test)]
mod tests;
