//! The index: which chunk has which version, and where each of its blocks is, now and for each of its snapshots.
//!
//! A chunk's blocks are divided into parts of 128, and each part has a *leaf* of 128 entries of 16 bytes. The heads of all
//! chunks are in memory; leaves are there within a budget: one that is as the last checkpoint has it may be dropped, and
//! costs one read when it is wanted again (`leaves`, `cache`). A snapshot is a *state* of the chunk, which has of its own only the
//! leaves that have changed since (`states`).

mod arena;
mod cache;
#[cfg(any(test, feature = "planted"))]
pub(crate) mod check;
mod differ;
mod figures;
mod history;
mod leaves;
mod listing;
mod marks;
mod older;
mod past;
mod states;

pub(crate) use differ::Since;
pub(crate) use figures::{Holders, Stretch};
pub(crate) use leaves::{Leaf, Location};
pub(crate) use listing::{ChunkFilter, Listings};
pub(crate) use older::{LEAST_OF_PAGE, StatePageLook};
pub(crate) use states::{Framed, Seen, StateLook, View};

use crate::format::checkpoint::{self, LeafPlace, PastItem};
use crate::format::record::{Mark, RollEntry};
use crate::format::{Place, Slot};
use amita_reactor::Time;
use amita_types::{BlockIndex, BlockRange, ChunkId, ChunkIndex, GroupIndex, MAX_BLOCKS_PER_CHUNK, SnapshotId, Version};
use arena::Segmented;
use cache::LeafCache;
use hashbrown::HashTable;
use history::{History, State};
use leaves::NO_MEM;
use marks::Marks;
use past::Pasts;
use rustc_hash::FxHashMap;

/// Entries of a leaf.
pub(crate) const LEAF_ENTRIES: usize = 128;
/// Parts of a chunk, each with a leaf.
pub(crate) const PARTS: usize = MAX_BLOCKS_PER_CHUNK as usize / LEAF_ENTRIES;

/// A block's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the data is; [`Slot::NONE`] where there is none.
    pub slot: Slot,
    /// CRC-32C of the block, bound to its place.
    pub sum: u32,
    /// The version of the write that made the entry; [`Version::NONE`]: never written.
    pub version: Version,
}

const _: () = assert!(size_of::<Entry>() == 16, "the budget of memory is 16 bytes a block");

impl Entry {
    /// Of a block that was never written.
    pub const NEVER: Entry = Entry {
        slot: Slot::NONE,
        sum: 0,
        version: Version::NONE,
    };

    /// The entry of a block that was cleared: versioned (rule R1), without data.
    #[must_use]
    pub fn cleared(version: Version) -> Entry {
        Entry {
            version,
            ..Entry::NEVER
        }
    }

    /// Is there data?
    #[must_use]
    pub fn has_data(self) -> bool {
        self.slot != Slot::NONE
    }
}

impl From<&RollEntry> for Entry {
    fn from(entry: &RollEntry) -> Entry {
        Entry {
            slot: entry.slot,
            sum: entry.sum,
            version: entry.version,
        }
    }
}

/// Names a chunk that the index knows; stays the same until the chunk is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkKey(pub u32);

/// Where a leaf is: on the disk, in memory, in both or in neither.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafRef {
    /// Its page; [`Slot::NONE`]: it has none.
    slot: Slot,
    /// The page's checksum; without a page: 0, or [`LOST`].
    sum: u32,
    /// Its place in memory, or [`NO_MEM`].
    mem: u32,
}

/// In place of a checksum: what the leaf held is not known.
const LOST: u32 = 1;

impl LeafRef {
    const NEVER: LeafRef = LeafRef {
        slot: Slot::NONE,
        sum: 0,
        mem: NO_MEM,
    };

    fn is_never(self) -> bool {
        self.slot == Slot::NONE && self.mem == NO_MEM && self.sum == 0
    }

    fn is_lost(self) -> bool {
        self.slot == Slot::NONE && self.mem == NO_MEM && self.sum == LOST
    }

    fn from(place: LeafPlace) -> LeafRef {
        match place {
            LeafPlace::Never => LeafRef::NEVER,
            LeafPlace::Lost => LeafRef {
                sum: LOST,
                ..LeafRef::NEVER
            },
            LeafPlace::At(slot, sum) => LeafRef { slot, sum, mem: NO_MEM },
        }
    }
}

/// What a chunk has come to with its accepted changes, durable or not.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The version of the last one; the next one must follow it (rule R1).
    pub version: Version,
    /// The version of the newest state, of those too that accepted writes will make.
    pub state: Version,
    /// What the last accepted write followed: a resend must be the same (rule R8).
    last_previous: Version,
    /// And its length in bytes; [`NO_LAST`] after a mount: not known.
    last_length: u32,
    /// The newest snapshot that one of them has named.
    pub snapshot: SnapshotId,
}

impl Accepted {
    /// What the last accepted write followed, and its length in bytes.
    pub fn last(&self) -> Option<(Version, u32)> {
        (self.last_length != NO_LAST).then_some((self.last_previous, self.last_length))
    }

    /// Notes it.
    pub fn set_last(&mut self, last: Option<(Version, u32)>) {
        (self.last_previous, self.last_length) = last.unwrap_or((Version::NONE, NO_LAST));
    }
}

/// The accepted changes of a chunk that are not durable, by their places among all: each knows the next one.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The oldest.
    pub first: OpSlot,
    /// The youngest.
    pub last: OpSlot,
    /// The oldest that waits for something to be read; those behind it wait too.
    pub waiting: OpSlot,
}

/// A chunk's head.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub id: ChunkId,
    /// The version of the last write that is durable.
    pub durable: Version,
    /// What it has come to with all that was accepted.
    pub accepted: Accepted,
    /// Accepted changes that are not durable yet.
    pub queue: Queue,
    /// Reads that wait for a version of this chunk.
    pub waiting_reads: u32,
    /// The volume's newest snapshot when the chunk was made: older ones have nothing of it.
    pub born: SnapshotId,
    /// The newest snapshot that a durable change has named.
    pub snapshot: SnapshotId,
    /// The volume is deleted; only states are left.
    pub deleted: bool,
    /// It is about to be: no change is accepted any more.
    pub deleting: bool,
    /// It lacks changes, and serves nothing (rule R5).
    pub incomplete: bool,
    /// Versions do not say which entries its newest state has, too (see `past`).
    pub loose: bool,
    /// It will be when what was accepted is durable.
    pub loose_soon: bool,
    /// A place that is free for another chunk.
    gone: bool,
    /// What it was for its snapshots, oldest first.
    states: Option<Box<History>>,
    parts: [LeafRef; PARTS],
}

const _: () = assert!(size_of::<Chunk>() == 192, "a store has a head in memory for each chunk");

/// The place of an accepted change among all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpSlot(pub u32);

impl OpSlot {
    /// No change.
    pub const NONE: OpSlot = OpSlot(u32::MAX);
}

const NO_LAST: u32 = u32::MAX;

impl Chunk {
    fn new(id: ChunkId) -> Chunk {
        Chunk {
            id,
            durable: Version::NONE,
            accepted: Accepted {
                version: Version::NONE,
                state: Version::NONE,
                last_previous: Version::NONE,
                last_length: NO_LAST,
                snapshot: SnapshotId::HEAD,
            },
            queue: Queue {
                first: OpSlot::NONE,
                last: OpSlot::NONE,
                waiting: OpSlot::NONE,
            },
            waiting_reads: 0,
            born: SnapshotId::HEAD,
            snapshot: SnapshotId::HEAD,
            deleted: false,
            deleting: false,
            incomplete: false,
            loose: false,
            loose_soon: false,
            gone: false,
            states: None,
            parts: [LeafRef::NEVER; PARTS],
        }
    }

    fn history(&self) -> Option<&History> {
        self.states.as_deref()
    }

    fn states(&self) -> &[State] {
        self.history().map_or(&[], History::states)
    }

    /// Was it ever written, or has it states? What was only accepted is not there yet.
    pub fn is_there(&self) -> bool {
        let written = self.durable > Version::NONE || self.states.is_some();
        // One that joined at no version has what it had before.
        !self.gone && (written || self.incomplete || self.parts.iter().any(|part| !part.is_never()))
    }

    /// Is nothing under way on it?
    pub fn is_idle(&self) -> bool {
        self.queue.first == OpSlot::NONE && self.waiting_reads == 0
    }
}

/// All chunks of a store.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_id: HashTable<u32>,
    chunks: Segmented<Chunk>,
    free_keys: Vec<u32>,
    /// Chunks whose blocks were first written as another chunk's (rule D8).
    origins: FxHashMap<u32, ChunkId>,
    pasts: Pasts,
    marks: Marks,
    /// Ordered lists of chunks, for those who ask for them.
    pub listings: Listings,
    cache: LeafCache,
    /// Pages of leaves and of states.
    pages: u64,
    /// Those that nothing refers to any more; the caller takes them.
    pub released_pages: Vec<Slot>,
    /// States, their own parts, and chunks that have any.
    states: u64,
    state_parts: u64,
    histories: u64,
    /// Pages of states.
    state_pages: u64,
}

impl Index {
    pub fn find(&self, id: ChunkId) -> Option<ChunkKey> {
        let found = self.by_id.find(id.hash(), |&key| self.chunks[key].id == id);
        found.map(|&key| ChunkKey(key))
    }

    /// The chunk, made empty on its first touch.
    pub fn touch(&mut self, id: ChunkId) -> ChunkKey {
        if let Some(key) = self.find(id) {
            return key;
        }
        let chunk = Chunk::new(id);
        let key = match self.free_keys.pop() {
            Some(key) => {
                self.chunks[key] = chunk;
                key
            }
            None => self.chunks.push(chunk),
        };
        self.listings.note(id);
        let chunks = &self.chunks;
        self.by_id.insert_unique(id.hash(), key, |&key| chunks[key].id.hash());
        ChunkKey(key)
    }

    /// A chunk of which nothing is left.
    pub fn forget(&mut self, key: ChunkKey) {
        let chunk = &self.chunks[key.0];
        assert!(chunk.states.is_none() && chunk.is_idle(), "nothing of it is left");
        assert!(
            chunk.parts.iter().all(|part| part.is_never()),
            "its leaves were given back"
        );
        let id = chunk.id;
        if let Ok(entry) = self.by_id.find_entry(id.hash(), |&other| other == key.0) {
            entry.remove();
        }
        self.origins.remove(&key.0);
        self.pasts.forget(key);
        self.marks.forget(key);
        self.chunks[key.0] = Chunk {
            gone: true,
            ..Chunk::new(id)
        };
        self.free_keys.push(key.0);
    }

    pub fn chunk(&self, key: ChunkKey) -> &Chunk {
        &self.chunks[key.0]
    }

    pub fn chunk_mut(&mut self, key: ChunkKey) -> &mut Chunk {
        &mut self.chunks[key.0]
    }

    /// Keys are below this; some of them may be of chunks that are gone.
    pub fn end(&self) -> u32 {
        self.chunks.len()
    }

    /// How many chunks are known.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn keys(&self) -> impl Iterator<Item = ChunkKey> + '_ {
        (0..self.chunks.len())
            .filter(|&key| !self.chunks[key].gone)
            .map(ChunkKey)
    }

    /// Where the blocks of a chunk were first written (rule D8).
    pub fn origin(&self, key: ChunkKey) -> ChunkId {
        let own = || self.chunks[key.0].id;
        self.origins.get(&key.0).copied().unwrap_or_else(own)
    }

    /// How many chunks are clones.
    pub fn origins(&self) -> usize {
        self.origins.len()
    }

    /// Notes it, for a clone.
    pub fn set_origin(&mut self, key: ChunkKey, origin: ChunkId) {
        if origin != self.chunks[key.0].id {
            self.origins.insert(key.0, origin);
        }
    }

    /// Where the chunk is incomplete: the version at which it was last whole.
    pub fn incomplete(&self, key: ChunkKey) -> Option<Version> {
        self.pasts.base(key, self.chunk(key))
    }

    /// The chunk's history goes on at another version, which carries the number `snapshot`; it was last whole at `base`.
    pub fn join(&mut self, key: ChunkKey, base: Version, snapshot: SnapshotId) {
        self.pasts.join(key, &mut self.chunks[key.0], base, snapshot);
    }

    /// The chunk is whole.
    pub fn whole(&mut self, key: ChunkKey) {
        self.pasts.whole(key, &mut self.chunks[key.0]);
    }

    /// The same, and all that it should have for snapshots is there; it was made when `born` was the newest of them.
    pub fn end_whole(&mut self, key: ChunkKey, born: Option<SnapshotId>) {
        self.whole(key);
        let chunk = &mut self.chunks[key.0];
        chunk.born = born.unwrap_or(chunk.born);
        chunk.accepted.state = chunk.accepted.state.max(chunk.newest_state());
    }

    /// Takes a chunk's past over from a checkpoint.
    pub fn load_past(&mut self, key: ChunkKey, item: PastItem) {
        self.pasts.load(key, &mut self.chunks[key.0], item);
    }

    /// The marks of a chunk, oldest first.
    pub fn marks(&self, key: ChunkKey) -> impl ExactSizeIterator<Item = Mark> + Clone + '_ {
        self.marks.of(key)
    }

    /// The mark that stands for a snapshot.
    pub fn mark_for(&self, key: ChunkKey, at: SnapshotId) -> Option<Mark> {
        self.marks(key).find(|mark| mark.above < at && at <= mark.to)
    }

    /// A chunk gets a mark.
    pub fn set_mark(&mut self, key: ChunkKey, mark: Mark) {
        self.marks.set(key, mark);
    }

    /// The chunks of a group and a core from index `from` on, ascending; some may not be there any more, or not yet.
    pub fn list(
        &mut self,
        now: Time,
        filter: ChunkFilter,
        from: (GroupIndex, u16, ChunkIndex),
    ) -> impl Iterator<Item = ChunkIndex> + '_ {
        let chunks = &self.chunks;
        let keys = (0..chunks.len()).filter(|&key| !chunks[key].gone);
        let all = keys.map(|key| chunks[key].id);
        self.listings.list(now, filter, from, all)
    }

    /// What is bound into the checksums of a chunk's blocks.
    pub fn place(&self, key: ChunkKey) -> Place {
        Place::of(self.origin(key))
    }

    /// A block's entry. Its leaf must be in memory.
    pub fn entry(&self, key: ChunkKey, view: View, block: BlockIndex) -> Entry {
        let part = usize::from(block.0) / LEAF_ENTRIES;
        let leaf = self.leaf_ref(self.location(key, view, part));
        self.cache.entry(*leaf, usize::from(block.0) % LEAF_ENTRIES)
    }

    /// Replaces a block's entry; returns the slot that it had, if no state of the chunk refers to it. The leaf must be in
    /// memory.
    pub fn set(&mut self, key: ChunkKey, block: BlockIndex, entry: Entry) -> Option<Slot> {
        let block = usize::from(block.0);
        let place = &mut self.own(key, block / LEAF_ENTRIES)[block % LEAF_ENTRIES];
        let old = std::mem::replace(place, entry);
        (old.has_data() && !self.in_a_state(key, block, old)).then_some(old.slot)
    }

    /// Before a change that names `snapshot`: a new chunk begins with it, another one is kept as it was for the snapshots
    /// since its last change, if there are any.
    pub fn begin_change(&mut self, key: ChunkKey, snapshot: SnapshotId) {
        let chunk = &mut self.chunks[key.0];
        if chunk.incomplete {
            // What it is now is not what the volume was: nothing is kept (S5).
            chunk.snapshot = chunk.snapshot.max(snapshot);
        } else if chunk.durable == Version::NONE && chunk.states.is_none() {
            chunk.born = snapshot;
            chunk.snapshot = snapshot;
        } else if snapshot > chunk.snapshot {
            self.freeze(key, snapshot);
        }
    }

    /// Clears blocks: they keep `version` (rule R1). Slots that nothing of the chunk refers to any more go to `freed`.
    pub fn clear(&mut self, key: ChunkKey, range: BlockRange, version: Version, mut freed: impl FnMut(Slot)) {
        let mut block = u32::from(range.first.0);
        while block < range.end() {
            let part_end = (block / LEAF_ENTRIES as u32 + 1) * LEAF_ENTRIES as u32;
            if block.is_multiple_of(LEAF_ENTRIES as u32) && part_end <= range.end() {
                self.clear_part(key, block as usize / LEAF_ENTRIES, version, &mut freed);
                block = part_end;
            } else {
                if let Some(slot) = self.set(key, BlockIndex(block as u16), Entry::cleared(version)) {
                    freed(slot);
                }
                block += 1;
            }
        }
    }

    /// Bytes that a checkpoint of all chunks takes at most; the map of slots besides.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.len() as u64 * checkpoint::CHUNK_BYTES
            + self.states * checkpoint::STATE_BYTES
            + self.state_parts * checkpoint::STATE_PART_BYTES
            + self.pasts.len() as u64 * checkpoint::PAST_BYTES
            + self.marks.len() * checkpoint::MARK_BYTES
    }

    /// Bytes of memory that cannot be given back: heads, states, and what manages the leaves.
    pub fn fixed_bytes(&self) -> u64 {
        let heads = self.chunks.bytes() + self.by_id.capacity() as u64 * (size_of::<u32>() as u64 + 1);
        let states = history::memory_bytes(self.histories, self.states, self.state_parts, self.state_pages);
        let origins = self.origins.capacity() * (size_of::<(u32, ChunkId)>() + 1);
        heads
            + states
            + (origins + self.pasts.bytes() + self.marks.bytes()) as u64
            + self.listings.bytes()
            + self.cache.fixed_bytes()
    }

    /// Bytes of memory of the leaves that are in it.
    pub fn leaf_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Bytes of memory in all.
    pub fn memory_bytes(&self) -> u64 {
        self.fixed_bytes() + self.leaf_bytes()
    }

    /// Leaves that the disk has not, or has otherwise.
    pub fn dirty(&self) -> u32 {
        self.cache.dirty()
    }

    /// States of all chunks.
    pub fn look_state_count(&self) -> u64 {
        self.states
    }

    /// Bytes of the leaves that cannot be dropped before a checkpoint has written them.
    pub fn dirty_bytes(&self) -> u64 {
        u64::from(self.dirty()) * LEAF_BYTES
    }

    /// Slots that hold leaves, and pages of states.
    pub fn pages(&self) -> u64 {
        self.pages
    }
}

/// The most that one write can add to a checkpoint for each of its blocks: a chunk, or a state and its part.
pub(crate) const WORST_BYTES_PER_BLOCK: u64 =
    checkpoint::CHUNK_BYTES + checkpoint::STATE_BYTES + checkpoint::STATE_PART_BYTES;
/// The most that one clear can add: a chunk, or a state with all its parts.
pub(crate) const WORST_BYTES_PER_CLEAR: u64 =
    checkpoint::CHUNK_BYTES + checkpoint::STATE_BYTES + PARTS as u64 * checkpoint::STATE_PART_BYTES;
/// The most that a chunk can add that joins: a chunk, and what it says of its past.
pub(crate) const WORST_BYTES_PER_JOIN: u64 = checkpoint::CHUNK_BYTES + checkpoint::PAST_BYTES;
/// The most that a chunk of so many blocks can add that is made of another one's state: all its slots are shared from then on.
pub(crate) const fn worst_bytes_per_clone(blocks: u32) -> u64 {
    WORST_BYTES_PER_CLEAR + blocks as u64 * checkpoint::SHARED_BYTES
}
/// The most memory that one block can take for good: a chunk's head, or a state.
pub(crate) const WORST_MEMORY_PER_BLOCK: u64 = 2 * size_of::<Chunk>() as u64;
/// Bytes of a leaf in memory at most.
pub(crate) const LEAF_BYTES: u64 = (LEAF_ENTRIES * size_of::<Entry>()) as u64;

#[cfg(test)]
mod tests;
