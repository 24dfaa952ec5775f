//! What a part of a chunk holds, and for whom: for those who count (`store/count`).
//!
//! The states of a chunk and at last the chunk itself, oldest first, are its *views*. Those that follow one another and have one
//! leaf in common are a [`Stretch`]: what is in the leaf, all of them have.

use super::leaves::HEAD;
use super::{ChunkKey, Entry, Index, LEAF_ENTRIES, Location, Seen, View};
use amita_types::SnapshotId;

/// Who sees something: the chunk itself, and which of a volume's snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    pub head: bool,
    /// How many snapshots: 0, 1, or 2 for more.
    pub snapshots: u8,
    /// Which, if it is one.
    pub only: SnapshotId,
}

impl Holders {
    /// Of a view that stands for the snapshots above `above` up to `to`; `live` are those that there are, ascending.
    fn of_state(above: SnapshotId, to: SnapshotId, live: &[SnapshotId]) -> Holders {
        let first = live.partition_point(|number| *number <= above);
        let end = live.partition_point(|number| *number <= to).max(first);
        Holders {
            head: false,
            snapshots: (end - first).min(2) as u8,
            only: live[first..end].first().copied().unwrap_or_default(),
        }
    }

    /// And these.
    pub fn and(self, others: Holders) -> Holders {
        Holders {
            head: self.head || others.head,
            snapshots: (self.snapshots + others.snapshots).min(2),
            only: if self.snapshots == 0 { others.only } else { self.only },
        }
    }
}

/// Views that follow one another and have one leaf in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Where that is.
    pub at: Location,
    pub holders: Holders,
}

impl Index {
    /// The stretches of a part, oldest first.
    pub fn stretches(&self, key: ChunkKey, part: usize, live: &[SnapshotId]) -> Vec<Stretch> {
        let chunk = self.chunk(key);
        let part = part as u8;
        let at = |to| Location { chunk: key, to, part };
        let mut own = chunk
            .history()
            .into_iter()
            .flat_map(|history| history.leaves_of(part))
            .peekable();
        let mut stretches = Vec::new();
        let mut holders = Holders::default();
        for state in chunk.states() {
            holders = holders.and(Holders::of_state(state.above, state.to, live));
            if own.next_if(|(to, _)| *to == state.to).is_some() {
                stretches.push(Stretch {
                    at: at(state.to),
                    holders: std::mem::take(&mut holders),
                });
            }
        }
        holders.head = !chunk.deleted;
        stretches.push(Stretch { at: at(HEAD), holders });
        stretches
    }

    /// The leaf in which a snapshot sees a part; `None`: the chunk has nothing for it, or does not keep it.
    pub fn leaf_seen(&self, key: ChunkKey, part: usize, snapshot: SnapshotId) -> Option<Location> {
        let (chunk, part) = (self.chunk(key), part as u8);
        let to = match chunk.seen(snapshot) {
            Seen::As(View::Head) => HEAD,
            Seen::As(View::State(place)) => {
                let own = chunk
                    .history()
                    .and_then(|history| history.seen_in(chunk.states()[place].to, part));
                own.unwrap_or(HEAD)
            }
            Seen::Unborn | Seen::NotKept => return None,
        };
        Some(Location { chunk: key, to, part })
    }

    /// Was no block of this part ever written, as far as is kept?
    pub fn has_nothing(&self, key: ChunkKey, part: usize) -> bool {
        let chunk = self.chunk(key);
        let own = chunk.history().and_then(|history| history.leaves_of(part as u8).next());
        own.is_none() && chunk.parts[part].is_never()
    }

    /// The entries of a leaf that is in memory. It does not count as used by that: who counts looks at all of them.
    pub fn look_at_entries(&self, at: Location, mut each: impl FnMut(usize, Entry)) {
        let leaf = *self.leaf_ref(at);
        for entry in 0..LEAF_ENTRIES {
            each(entry, self.cache.look(leaf, entry));
        }
    }
}
