//! The index: which chunk has which version, and where each of its blocks is.
//!
//! A chunk's blocks are divided into *map pages* of 64 entries of 16 bytes, which come from an arena on the first touch
//! of their part of the chunk. A map page that was cleared whole is only a version in the chunk's head.
//!
//! The index counts what a checkpoint of it would take ([`Index::checkpoint_bytes`]), so that a store that could not
//! write its checkpoint any more refuses writes before that.

use crate::format::{Slot, checkpoint};
use amita_cluster::{BlockIndex, BlockRange, ChunkId, MAX_BLOCKS_PER_CHUNK, Version};
use rustc_hash::FxHashMap;

/// Entries of a map page.
pub(crate) const PAGE_ENTRIES: u32 = 64;
/// Map pages of a chunk.
pub(crate) const PAGES_PER_CHUNK: usize = (MAX_BLOCKS_PER_CHUNK / PAGE_ENTRIES) as usize;
/// Map pages that the arena grows by: 64 KiB, so that growing never copies entries and is rare.
const SEGMENT_PAGES: usize = 64;
const NO_PAGE: u32 = u32::MAX;

/// A block's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where the data is; [`Slot::NONE`] where there is none.
    pub slot: Slot,
    /// CRC-32C of the block.
    pub sum: u32,
    /// The version of the write that made the entry; [`Version::NONE`]: never written.
    pub version: Version,
}

const _: () = assert!(size_of::<Entry>() == 16, "the budget of memory is 16 bytes a block");

impl Entry {
    pub const NEVER: Entry = Entry {
        slot: Slot::NONE,
        sum: 0,
        version: Version::NONE,
    };

    /// The entry of a block that was cleared: versioned (rule R1), without data.
    pub fn cleared(version: Version) -> Entry {
        Entry {
            version,
            ..Entry::NEVER
        }
    }

    pub fn has_data(self) -> bool {
        self.slot != Slot::NONE
    }

    pub fn is_never(self) -> bool {
        self == Entry::NEVER
    }
}

type MapPage = [Entry; PAGE_ENTRIES as usize];

/// Names a chunk that the index knows; stays the same while the store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkKey(pub u32);

/// A chunk's head.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub id: ChunkId,
    /// The version of the last write that is durable.
    pub durable: Version,
    /// The version of the last write that was accepted; the next one must follow it (rule R1).
    pub accepted: Version,
    /// What the last accepted write followed, and its length in bytes: a resend must be the same (rule R8). Not known
    /// after a mount.
    pub last: Option<(Version, u32)>,
    /// Accepted writes that are not durable yet, oldest first (keys of the store's operations).
    pub first_pending: u32,
    /// The youngest of them.
    pub last_pending: u32,
    /// The oldest of them that waits for what it is merged with; those behind it wait too.
    pub first_waiting: u32,
    /// Reads that wait for a version of this chunk.
    pub waiting_reads: u32,
    pages: [u32; PAGES_PER_CHUNK],
    /// Where there is no map page: the version of the clear that covered it whole.
    cleared: [Version; PAGES_PER_CHUNK],
}

/// No operation.
pub(crate) const NO_OP: u32 = u32::MAX;

/// All chunks of a store.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_id: FxHashMap<ChunkId, ChunkKey>,
    chunks: Vec<Chunk>,
    segments: Vec<Box<[MapPage; SEGMENT_PAGES]>>,
    free_pages: Vec<u32>,
    checkpoint_bytes: u64,
    data_blocks: u64,
}

impl Index {
    pub fn find(&self, id: ChunkId) -> Option<ChunkKey> {
        self.by_id.get(&id).copied()
    }

    /// The chunk, made empty on its first touch.
    pub fn touch(&mut self, id: ChunkId) -> ChunkKey {
        if let Some(key) = self.find(id) {
            return key;
        }
        let key = ChunkKey(self.chunks.len() as u32);
        self.chunks.push(Chunk {
            id,
            durable: Version::NONE,
            accepted: Version::NONE,
            last: None,
            first_pending: NO_OP,
            last_pending: NO_OP,
            first_waiting: NO_OP,
            waiting_reads: 0,
            pages: [NO_PAGE; PAGES_PER_CHUNK],
            cleared: [Version::NONE; PAGES_PER_CHUNK],
        });
        self.by_id.insert(id, key);
        self.checkpoint_bytes += checkpoint::CHUNK_BYTES;
        key
    }

    pub fn chunk(&self, key: ChunkKey) -> &Chunk {
        &self.chunks[key.0 as usize]
    }

    pub fn chunk_mut(&mut self, key: ChunkKey) -> &mut Chunk {
        &mut self.chunks[key.0 as usize]
    }

    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    fn page(&self, page: u32) -> &MapPage {
        let page = page as usize;
        &self.segments[page / SEGMENT_PAGES][page % SEGMENT_PAGES]
    }

    fn page_mut(&mut self, page: u32) -> &mut MapPage {
        let page = page as usize;
        &mut self.segments[page / SEGMENT_PAGES][page % SEGMENT_PAGES]
    }

    /// A block's entry.
    pub fn entry(&self, key: ChunkKey, block: BlockIndex) -> Entry {
        let chunk = self.chunk(key);
        let part = usize::from(block.0) / PAGE_ENTRIES as usize;
        match chunk.pages[part] {
            NO_PAGE => Entry::cleared(chunk.cleared[part]),
            page => self.page(page)[usize::from(block.0) % PAGE_ENTRIES as usize],
        }
    }

    /// Replaces a block's entry; returns the slot that it had, which nothing refers to any more.
    pub fn set(&mut self, key: ChunkKey, block: BlockIndex, entry: Entry) -> Option<Slot> {
        let part = usize::from(block.0) / PAGE_ENTRIES as usize;
        let mut page = self.chunk(key).pages[part];
        if page == NO_PAGE {
            page = self.take_page(key, part);
        }
        let place = &mut self.page_mut(page)[usize::from(block.0) % PAGE_ENTRIES as usize];
        let old = std::mem::replace(place, entry);
        self.checkpoint_bytes = self.checkpoint_bytes - entry_bytes(old) + entry_bytes(entry);
        self.data_blocks = self.data_blocks - u64::from(old.has_data()) + u64::from(entry.has_data());
        old.has_data().then_some(old.slot)
    }

    /// Clears blocks: they keep `version` (rule R1). Slots that nothing refers to any more go to `freed`.
    pub fn clear(&mut self, key: ChunkKey, range: BlockRange, version: Version, mut freed: impl FnMut(Slot)) {
        let mut block = u32::from(range.first.0);
        while block < range.end() {
            let part = (block / PAGE_ENTRIES) as usize;
            let part_end = (part as u32 + 1) * PAGE_ENTRIES;
            if block.is_multiple_of(PAGE_ENTRIES) && part_end <= range.end() {
                self.clear_page(key, part, version, &mut freed);
                block = part_end;
            } else {
                if let Some(slot) = self.set(key, BlockIndex(block as u16), Entry::cleared(version)) {
                    freed(slot);
                }
                block += 1;
            }
        }
    }

    fn clear_page(&mut self, key: ChunkKey, part: usize, version: Version, freed: &mut impl FnMut(Slot)) {
        let page = std::mem::replace(&mut self.chunk_mut(key).pages[part], NO_PAGE);
        if page == NO_PAGE {
            if self.chunk(key).cleared[part] == Version::NONE {
                self.checkpoint_bytes += checkpoint::CLEARED_BYTES;
            }
        } else {
            let entries = std::mem::replace(self.page_mut(page), [Entry::NEVER; PAGE_ENTRIES as usize]);
            for entry in entries {
                self.checkpoint_bytes -= entry_bytes(entry);
                if entry.has_data() {
                    self.data_blocks -= 1;
                    freed(entry.slot);
                }
            }
            self.free_pages.push(page);
            self.checkpoint_bytes -= checkpoint::MAP_PAGE_BYTES;
            self.checkpoint_bytes += checkpoint::CLEARED_BYTES;
        }
        self.chunk_mut(key).cleared[part] = version;
    }

    /// Gives a part of the chunk a map page that says what its head said.
    fn take_page(&mut self, key: ChunkKey, part: usize) -> u32 {
        if self.free_pages.is_empty() {
            let first = (self.segments.len() * SEGMENT_PAGES) as u32;
            self.segments
                .push(Box::new([[Entry::NEVER; PAGE_ENTRIES as usize]; SEGMENT_PAGES]));
            // Room for all pages, so that giving one back never allocates.
            self.free_pages.reserve(self.segments.len() * SEGMENT_PAGES);
            self.free_pages.extend((first..first + SEGMENT_PAGES as u32).rev());
        }
        let page = self.free_pages.pop().expect("the arena has just grown");
        let cleared = std::mem::take(&mut self.chunk_mut(key).cleared[part]);
        if cleared != Version::NONE {
            *self.page_mut(page) = [Entry::cleared(cleared); PAGE_ENTRIES as usize];
            self.checkpoint_bytes -= checkpoint::CLEARED_BYTES;
            self.checkpoint_bytes += u64::from(PAGE_ENTRIES) * entry_bytes(Entry::cleared(cleared));
        }
        self.chunk_mut(key).pages[part] = page;
        self.checkpoint_bytes += checkpoint::MAP_PAGE_BYTES;
        page
    }

    /// Takes over a part of a chunk that was cleared whole, from a checkpoint; `false` when the part is impossible.
    pub fn load_cleared(&mut self, key: ChunkKey, part: u32, version: Version) -> bool {
        if part as usize >= PAGES_PER_CHUNK || self.chunk(key).pages[part as usize] != NO_PAGE {
            return false;
        }
        self.clear_page(key, part as usize, version, &mut |_| {});
        true
    }

    /// Writes a chunk's blocks into a checkpoint.
    pub fn dump(&self, key: ChunkKey, writer: &mut checkpoint::PageWriter<'_>) {
        let chunk = self.chunk(key);
        for part in 0..PAGES_PER_CHUNK {
            match chunk.pages[part] {
                NO_PAGE if chunk.cleared[part] == Version::NONE => {}
                NO_PAGE => writer.cleared(part as u32, chunk.cleared[part]),
                page => {
                    let entries = self.page(page).iter();
                    let items = entries.map(|e| (!e.is_never()).then_some((e.slot, e.sum, e.version)));
                    writer.entries(part as u32, items);
                }
            }
        }
    }

    /// The most bytes that [`Index::dump`] writes for a chunk, its head included.
    pub fn dump_bytes(&self, key: ChunkKey) -> u64 {
        let pages = self.chunk(key).pages.iter().filter(|&&page| page != NO_PAGE).count() as u64;
        let page_bytes = checkpoint::MAP_PAGE_BYTES + u64::from(PAGE_ENTRIES) * checkpoint::ENTRY_BYTES;
        checkpoint::CHUNK_BYTES + PAGES_PER_CHUNK as u64 * checkpoint::CLEARED_BYTES + pages * page_bytes
    }

    /// Every slot that the chunk refers to.
    pub fn slots(&self, key: ChunkKey) -> impl Iterator<Item = Slot> {
        let pages = self.chunk(key).pages.iter().filter(|&&page| page != NO_PAGE);
        pages
            .flat_map(|&page| self.page(page).iter())
            .filter(|entry| entry.has_data())
            .map(|entry| entry.slot)
    }

    /// Bytes that a checkpoint of all chunks takes at most.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    /// Blocks that have data.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        let pages = self.segments.len() * SEGMENT_PAGES * size_of::<MapPage>();
        let heads = self.chunks.capacity() * size_of::<Chunk>();
        let by_id = self.by_id.capacity() * (size_of::<(ChunkId, ChunkKey)>() + 1);
        (pages + heads + by_id) as u64
    }
}

fn entry_bytes(entry: Entry) -> u64 {
    if entry.has_data() {
        checkpoint::ENTRY_BYTES
    } else if entry.is_never() {
        0
    } else {
        checkpoint::ENTRY_BYTES / 2
    }
}

/// The most that one write can add to a checkpoint for each of its blocks: a chunk, a map page and an entry of its own.
pub(crate) const WORST_BYTES_PER_BLOCK: u64 =
    checkpoint::CHUNK_BYTES + checkpoint::MAP_PAGE_BYTES + checkpoint::ENTRY_BYTES;
/// The most that one clear can add: a chunk, two map pages of cleared entries at its ends, and cleared pages between.
pub(crate) const WORST_BYTES_PER_CLEAR: u64 = checkpoint::CHUNK_BYTES
    + 2 * (checkpoint::MAP_PAGE_BYTES + PAGE_ENTRIES as u64 * checkpoint::ENTRY_BYTES / 2)
    + PAGES_PER_CHUNK as u64 * checkpoint::CLEARED_BYTES;
/// The most memory that one block can take: a map page of its own and a chunk's head.
pub(crate) const WORST_MEMORY_PER_BLOCK: u64 = (size_of::<MapPage>() + 2 * size_of::<Chunk>()) as u64;

#[cfg(test)]
mod tests;
