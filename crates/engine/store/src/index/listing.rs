//! Ordered lists of a volume's chunks, made when somebody asks and kept while somebody goes on asking.
//!
//! The index finds a chunk by its hash; who brings a store up to date wants all chunks of a volume, group by group and page
//! by page. The list has 16 bytes a chunk, in the order in which it is asked for, so that a page costs a search. Chunks that
//! are made meanwhile are put in their places before the next page; those that are forgotten are left out by whoever looks
//! them up.

use amita_reactor::Time;
use amita_types::{ChunkId, ChunkIndex, GroupIndex, VolumeId};
use std::time::Duration;

/// Lists that are kept at once: as many volumes as are brought up to date together.
const MAX_LISTS: usize = 8;
/// A list that nobody asked for so long is dropped.
const KEPT: Duration = Duration::from_secs(30);

/// Which chunks are listed, and how they are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkFilter {
    pub volume: VolumeId,
    /// The volume by whose number its chunks are hashed to groups (rule D8).
    pub place: VolumeId,
    /// Groups of the pool.
    pub groups: u32,
    /// Cores of the gateway.
    pub cores: u16,
}

/// A chunk's place in a list: group, core, index.
pub(super) type Place = (GroupIndex, u16, ChunkIndex);

#[derive(Debug)]
struct List {
    filter: ChunkFilter,
    used: Time,
    places: Vec<Place>,
    /// Some of them are not in their places yet.
    unsorted: bool,
}

/// All lists that are kept.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    lists: Vec<List>,
}

impl ChunkFilter {
    fn place(&self, chunk: ChunkId) -> Place {
        let core = chunk.core(usize::from(self.cores)) as u16;
        let place = ChunkId {
            volume: self.place,
            ..chunk
        };
        (place.group(self.groups), core, chunk.index)
    }
}

impl Listings {
    /// A chunk was made.
    pub(super) fn note(&mut self, chunk: ChunkId) {
        for list in &mut self.lists {
            if list.filter.volume == chunk.volume {
                list.places.push(list.filter.place(chunk));
                list.unsorted = true;
            }
        }
    }

    /// Drops what nobody has asked for of late.
    pub fn drop_old(&mut self, now: Time) {
        self.lists.retain(|list| list.used.plus(KEPT) > now);
    }

    pub(super) fn bytes(&self) -> u64 {
        let places = self.lists.iter().map(|list| list.places.capacity());
        (places.sum::<usize>() * size_of::<Place>()) as u64
    }

    /// The chunks of a group and a core from index `from` on, ascending; some may not be there any more, or not yet. `all`
    /// are those that are known.
    pub(super) fn list(
        &mut self,
        now: Time,
        filter: ChunkFilter,
        (group, core, from): Place,
        all: impl Iterator<Item = ChunkId>,
    ) -> impl Iterator<Item = ChunkIndex> {
        let at = match self.lists.iter().position(|list| list.filter == filter) {
            Some(at) => at,
            None => self.make(now, filter, all),
        };
        let list = &mut self.lists[at];
        list.used = now;
        if std::mem::take(&mut list.unsorted) {
            // A merge of what is sorted with a few behind it.
            list.places.sort();
            list.places.dedup();
        }
        let first = list.places.partition_point(|&place| place < (group, core, from));
        let rest = list.places[first..].iter();
        rest.take_while(move |place| (place.0, place.1) == (group, core))
            .map(|place| place.2)
    }

    fn make(&mut self, now: Time, filter: ChunkFilter, all: impl Iterator<Item = ChunkId>) -> usize {
        let mut places: Vec<Place> = all
            .filter(|id| id.volume == filter.volume)
            .map(|id| filter.place(id))
            .collect();
        places.sort_unstable();
        let lists = &mut self.lists;
        if lists.len() == MAX_LISTS {
            let oldest = (0..lists.len()).min_by_key(|&at| lists[at].used).unwrap_or(0);
            lists.swap_remove(oldest);
        }
        lists.push(List {
            filter,
            used: now,
            places,
            unsorted: false,
        });
        lists.len() - 1
    }
}
