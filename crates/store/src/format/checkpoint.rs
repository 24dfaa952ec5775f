//! The pages of a checkpoint: the whole state, as it was when each part of it was written down.
//!
//! A checkpoint is fuzzy: while it is written, I/O goes on. Every chunk carries the position of the log up to which it
//! is in the checkpoint, and replay applies only later records to it (rule D5). The free map is not stored: it follows
//! from the entries, which are all read.

use super::disk::on_disk;
use super::record::{Fence, RawFence, get_fence, put_fence};
use super::{FORMAT_VERSION, PAGE_BODY_BYTES, PAGE_BYTES, Sealed, Slot, page, seal, sealed};
use amita_cluster::message::MAX_MEMBERS;
use amita_cluster::{ChunkId, ChunkIndex, NodeId, StoreId, Version, VolumeId};

/// The first four bytes of a page of a checkpoint.
pub const MAGIC: u32 = u32::from_le_bytes(*b"ACKP");

on_disk! {
    /// The header of a page of a checkpoint.
    ///
    /// ```text
    ///   0 magic "ACKP"    4 version    8 store UUID (low half)   16 checkpoint    24 index
    ///  32 bytes of items 34 reserved  40 items ...                              4092 crc
    /// ```
    pub struct Header [40] {
        /// [`MAGIC`].
        magic: u32,
        /// [`FORMAT_VERSION`] of the writer.
        version: u32,
        /// The low half of the store's UUID.
        store: u64,
        /// Which checkpoint.
        checkpoint: u64,
        /// The page's place in it.
        index: u64,
        /// Bytes of items that follow.
        used: u16,
        /// Zero.
        reserved: u16,
        /// Zero.
        reserved_2: u32,
    }
}

/// Kinds of items.
mod kind {
    pub const GROUP: u16 = 1;
    pub const VOLUME: u16 = 2;
    pub const CHUNK: u16 = 3;
    pub const CLEARED: u16 = 4;
    pub const ENTRIES: u16 = 5;
}

on_disk! {
    /// What every item begins with.
    pub struct Head [4] {
        /// The kind.
        kind: u16,
        /// Bytes of the item, these included.
        bytes: u16,
    }
}

on_disk! {
    /// A volume's fence.
    pub struct RawVolume [16] {
        /// The volume.
        volume: u64,
        /// Its generation.
        generation: u32,
        /// Its owner.
        owner: u32,
    }
}

on_disk! {
    /// A chunk; the items that follow, up to the next one, are its blocks.
    pub struct RawChunk [32] {
        /// The volume.
        volume: u64,
        /// The index.
        chunk: u64,
        /// Its version.
        version: u64,
        /// Log pages below this one are in it (rule D5).
        position: u64,
    }
}

on_disk! {
    /// A whole map page of which every block was cleared by one write.
    pub struct RawCleared [12] {
        /// The version of that write.
        version: u64,
        /// Which map page of the chunk.
        page: u32,
    }
}

on_disk! {
    /// Entries of one map page of the chunk, in order of their blocks: 16 bytes each that has data, then 8 bytes each
    /// that was cleared.
    pub struct RawEntries [20] {
        /// Which map page.
        page: u32,
        /// One bit for each block that has data here.
        data: u64,
        /// One bit for each block that was cleared.
        cleared: u64,
    }
}

on_disk! {
    /// A block with data.
    pub struct RawData [16] {
        /// Where.
        slot: u32,
        /// CRC-32C.
        sum: u32,
        /// The version of the write.
        version: u64,
    }
}

const ITEMS_BYTES: usize = PAGE_BODY_BYTES - Header::BYTES;

/// Bytes that a chunk takes at most besides its map pages.
pub const CHUNK_BYTES: u64 = (Head::BYTES + RawChunk::BYTES) as u64;
/// Bytes that a wholly cleared map page takes.
pub const CLEARED_BYTES: u64 = (Head::BYTES + RawCleared::BYTES) as u64;
/// Bytes that a map page takes besides its entries; twice, because a page may be divided where a page of the
/// checkpoint ends.
pub const MAP_PAGE_BYTES: u64 = 2 * (Head::BYTES + RawEntries::BYTES) as u64;
/// Bytes of an entry with data; one that was cleared takes half of it.
pub const ENTRY_BYTES: u64 = RawData::BYTES as u64;
/// Bytes of a volume's fence.
pub const VOLUME_BYTES: u64 = (Head::BYTES + RawVolume::BYTES) as u64;
/// Bytes of a group's.
pub const GROUP_BYTES: u64 = (Head::BYTES + RawFence::BYTES + MAX_MEMBERS * 16) as u64;

/// Bytes of items that `pages` pages surely hold, whatever the items are: each page may end in a rest that the next
/// item does not fit.
#[must_use]
pub fn capacity_bytes(pages: u64) -> u64 {
    pages * (ITEMS_BYTES as u64 - GROUP_BYTES)
}

/// Fills the pages of a checkpoint, one after the other.
#[derive(Debug)]
pub struct PageWriter<'a> {
    out: &'a mut [u8],
    store: StoreId,
    checkpoint: u64,
    /// The number of the first page in `out`.
    first: u64,
    pages: usize,
    used: usize,
    last_sum: u32,
}

/// What a [`PageWriter`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Pages.
    pub pages: usize,
    /// The checksum of the last of them.
    pub last_sum: u32,
}

impl<'a> PageWriter<'a> {
    /// Writes pages from number `first` on into `out`, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn new(out: &'a mut [u8], store: StoreId, checkpoint: u64, first: u64) -> PageWriter<'a> {
        assert!(out.len().is_multiple_of(PAGE_BYTES) && !out.is_empty());
        PageWriter {
            out,
            store,
            checkpoint,
            first,
            pages: 0,
            used: 0,
            last_sum: 0,
        }
    }

    /// Bytes of items that surely still fit.
    #[must_use]
    pub fn space(&self) -> u64 {
        let left = (self.out.len() / PAGE_BYTES - self.pages) as u64;
        capacity_bytes(left).saturating_sub(self.used as u64)
    }

    fn item(&mut self, kind: u16, bytes: usize) -> &mut [u8] {
        let bytes = Head::BYTES + bytes;
        if self.used + bytes > ITEMS_BYTES {
            self.close();
        }
        let start = self.pages * PAGE_BYTES + Header::BYTES + self.used;
        self.used += bytes;
        let item = &mut self.out[start..start + bytes];
        Head {
            kind,
            bytes: bytes as u16,
        }
        .put(item);
        &mut item[Head::BYTES..]
    }

    fn close(&mut self) {
        let page = &mut self.out[self.pages * PAGE_BYTES..][..PAGE_BYTES];
        Header {
            magic: MAGIC,
            version: FORMAT_VERSION,
            store: page::tag(self.store),
            checkpoint: self.checkpoint,
            index: self.first + self.pages as u64,
            used: self.used as u16,
            reserved: 0,
            reserved_2: 0,
        }
        .put(page);
        page[Header::BYTES + self.used..].fill(0);
        self.last_sum = seal(page);
        self.pages += 1;
        self.used = 0;
    }

    /// A group's fence; of a [`Fence`] without its volume.
    pub fn group(&mut self, fence: &Fence) {
        let bytes = RawFence::BYTES + fence.in_sync.len() * 16;
        put_fence(fence, self.item(kind::GROUP, bytes));
    }

    /// A volume's fence.
    pub fn volume(&mut self, volume: VolumeId, generation: u32, owner: NodeId) {
        RawVolume {
            volume: volume.0,
            generation,
            owner: owner.0,
        }
        .put(self.item(kind::VOLUME, RawVolume::BYTES));
    }

    /// A chunk; its blocks follow.
    pub fn chunk(&mut self, chunk: ChunkId, version: Version, position: u64) {
        RawChunk {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            version: version.0,
            position,
        }
        .put(self.item(kind::CHUNK, RawChunk::BYTES));
    }

    /// A map page that was cleared whole.
    pub fn cleared(&mut self, page: u32, version: Version) {
        RawCleared {
            version: version.0,
            page,
        }
        .put(self.item(kind::CLEARED, RawCleared::BYTES));
    }

    /// The entries of a map page: (slot, sum, version) of each block, `None` for one that was never written, and
    /// [`Slot::NONE`] for one that was cleared.
    pub fn entries(&mut self, page: u32, entries: impl Iterator<Item = Option<(Slot, u32, Version)>>) {
        let mut group = EntryGroup::default();
        for (block, entry) in entries.enumerate() {
            let Some(entry) = entry else { continue };
            let fixed = Head::BYTES + RawEntries::BYTES;
            if self.used + fixed + group.bytes + RawData::BYTES > ITEMS_BYTES {
                self.entry_group(page, &group);
                group = EntryGroup::default();
                if self.used + fixed + 4 * RawData::BYTES > ITEMS_BYTES {
                    self.close();
                }
            }
            group.push(block, entry);
        }
        self.entry_group(page, &group);
    }

    fn entry_group(&mut self, page: u32, group: &EntryGroup) {
        if group.data | group.cleared == 0 {
            return;
        }
        let out = self.item(kind::ENTRIES, RawEntries::BYTES + group.bytes);
        RawEntries {
            page,
            data: group.data,
            cleared: group.cleared,
        }
        .put(out);
        let mut at = RawEntries::BYTES;
        let bits = |mask: u64| (0..64).filter(move |bit| mask >> bit & 1 == 1);
        for block in bits(group.data) {
            let (slot, sum, version) = group.entries[block];
            RawData {
                slot: slot.0,
                sum,
                version: version.0,
            }
            .put(&mut out[at..]);
            at += RawData::BYTES;
        }
        for block in bits(group.cleared) {
            out[at..at + 8].copy_from_slice(&group.entries[block].2.0.to_le_bytes());
            at += 8;
        }
    }

    /// Closes the page that is open.
    #[must_use]
    pub fn finish(mut self) -> Filled {
        if self.used > 0 {
            self.close();
        }
        Filled {
            pages: self.pages,
            last_sum: self.last_sum,
        }
    }
}

struct EntryGroup {
    data: u64,
    cleared: u64,
    bytes: usize,
    entries: [(Slot, u32, Version); 64],
}

impl Default for EntryGroup {
    fn default() -> EntryGroup {
        EntryGroup {
            data: 0,
            cleared: 0,
            bytes: 0,
            entries: [(Slot::NONE, 0, Version::NONE); 64],
        }
    }
}

impl EntryGroup {
    fn push(&mut self, block: usize, entry: (Slot, u32, Version)) {
        if entry.0 == Slot::NONE {
            self.cleared |= 1 << block;
            self.bytes += 8;
        } else {
            self.data |= 1 << block;
            self.bytes += RawData::BYTES;
        }
        self.entries[block] = entry;
    }
}

/// An item, read from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A group's fence (its volume, generation and owner mean nothing).
    Group(Fence),
    /// A volume's fence.
    Volume(RawVolume),
    /// A chunk.
    Chunk {
        /// Which.
        chunk: ChunkId,
        /// Its version.
        version: Version,
        /// Log pages below this one are in it.
        position: u64,
    },
    /// A map page of the last chunk that was cleared whole.
    Cleared {
        /// Which.
        page: u32,
        /// By which write.
        version: Version,
    },
    /// Entries of a map page of the last chunk.
    Entries(Entries<'a>),
}

/// Entries of a map page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries<'a> {
    /// Which map page.
    pub page: u32,
    data: u64,
    cleared: u64,
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// (block in the map page, slot, sum, version).
    pub fn iter(self) -> impl Iterator<Item = (u32, Slot, u32, Version)> + 'a {
        let bits = |mask: u64| (0..64).filter(move |bit| mask >> bit & 1 == 1);
        let (with_data, cleared) = self.bytes.split_at(self.data.count_ones() as usize * RawData::BYTES);
        let with_data = bits(self.data)
            .zip(with_data.chunks_exact(RawData::BYTES))
            .filter_map(|(block, bytes)| {
                RawData::get(bytes).map(|raw| (block, Slot(raw.slot), raw.sum, Version(raw.version)))
            });
        let cleared = bits(self.cleared).zip(cleared.chunks_exact(8)).map(|(block, bytes)| {
            let version = u64::from_le_bytes(bytes.try_into().expect("cut into 8"));
            (block, Slot::NONE, 0, Version(version))
        });
        with_data.chain(cleared)
    }
}

/// Reads the items of a checkpoint's page that came from a disk. What follows an error means nothing.
#[derive(Clone, Debug)]
pub struct PageReader<'a> {
    rest: &'a [u8],
    /// The page's checksum.
    pub sum: u32,
}

impl<'a> PageReader<'a> {
    /// Page `index` of checkpoint `checkpoint`; an error says what is wrong.
    pub fn new(page: &'a [u8], store: StoreId, checkpoint: u64, index: u64) -> Result<PageReader<'a>, &'static str> {
        let Sealed { body, sum } = sealed(page).ok_or("its checksum is wrong")?;
        let header = Header::get(body).ok_or("it is too short")?;
        if header.magic != MAGIC {
            return Err("it is no page of a checkpoint");
        }
        if header.version > FORMAT_VERSION || header.store != page::tag(store) {
            return Err("it is of another store or a newer version");
        }
        if header.checkpoint != checkpoint || header.index != index {
            return Err("it belongs to another checkpoint or another place");
        }
        let items = body.get(Header::BYTES..Header::BYTES + usize::from(header.used));
        Ok(PageReader {
            rest: items.ok_or("its items do not fit it")?,
            sum,
        })
    }

    fn read(&mut self) -> Result<Item<'a>, &'static str> {
        const CUT: &str = "an item is cut off";
        let head = Head::get(self.rest).ok_or(CUT)?;
        let bytes = self.rest.get(..usize::from(head.bytes)).ok_or(CUT)?;
        let body = bytes.get(Head::BYTES..).ok_or(CUT)?;
        self.rest = &self.rest[bytes.len()..];
        match head.kind {
            kind::GROUP => get_fence(body).map(Item::Group),
            kind::VOLUME => RawVolume::get(body).map(Item::Volume).ok_or(CUT),
            kind::CHUNK => {
                let raw = RawChunk::get(body).ok_or(CUT)?;
                Ok(Item::Chunk {
                    chunk: ChunkId {
                        volume: VolumeId(raw.volume),
                        index: ChunkIndex(raw.chunk),
                    },
                    version: Version(raw.version),
                    position: raw.position,
                })
            }
            kind::CLEARED => {
                let raw = RawCleared::get(body).ok_or(CUT)?;
                Ok(Item::Cleared {
                    page: raw.page,
                    version: Version(raw.version),
                })
            }
            kind::ENTRIES => {
                let raw = RawEntries::get(body).ok_or(CUT)?;
                let bytes = &body[RawEntries::BYTES..];
                let expected = raw.data.count_ones() as usize * RawData::BYTES + raw.cleared.count_ones() as usize * 8;
                if bytes.len() != expected || raw.data & raw.cleared != 0 {
                    return Err("entries have the wrong length");
                }
                Ok(Item::Entries(Entries {
                    page: raw.page,
                    data: raw.data,
                    cleared: raw.cleared,
                    bytes,
                }))
            }
            _ => Err("an item is of an unknown kind"),
        }
    }
}

impl<'a> Iterator for PageReader<'a> {
    type Item = Result<Item<'a>, &'static str>;

    fn next(&mut self) -> Option<Result<Item<'a>, &'static str>> {
        (!self.rest.is_empty()).then(|| self.read())
    }
}
