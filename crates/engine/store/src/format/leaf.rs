//! A leaf: the page that says where the blocks of one part of a chunk are. It lies in a slot, like data; the checkpoint
//! names its slot and its checksum.

use super::disk::on_disk;
use super::{FORMAT_VERSION, PAGE_BODY_BYTES, PAGE_BYTES, Sealed, Slot, narrow, page, seal, sealed};
use crate::index::{Entry, LEAF_ENTRIES};
use amita_types::{ChunkId, StoreId, Version};

/// The first four bytes of a leaf.
pub const MAGIC: u32 = u32::from_le_bytes(*b"ALEF");

on_disk! {
    /// The header of a leaf.
    ///
    /// ```text
    ///   0 magic "ALEF"    4 version    8 store UUID (low half)   16 volume    24 chunk
    ///  32 checkpoint     40 part      42 entries                 44 reserved
    ///  48 entries of 16 bytes: slot (u32), checksum (u32), version (u64) ... 4092 crc
    /// ```
    pub struct Header [48] {
        /// [`MAGIC`].
        magic: u32,
        /// [`FORMAT_VERSION`] of the writer.
        version: u32,
        /// The low half of the store's UUID.
        store: u64,
        volume: u64,
        chunk: u64,
        /// The checkpoint that it was written for.
        checkpoint: u64,
        /// Which part of the chunk: its blocks are `128 * part` to `128 * part + 127`.
        part: u16,
        /// How many entries follow: 128.
        entries: u16,
        /// Zero.
        reserved: u32,
    }
}

on_disk! {
    /// A block's entry. A slot of 2^32 - 1: no data; then a version of 0: never written, any other: cleared by that write.
    pub struct RawEntry [16] {
        /// Where.
        slot: u32,
        /// CRC-32C, bound to the block's place.
        sum: u32,
        /// The version of the write.
        version: u64,
    }
}

const _: () = assert!(Header::BYTES + LEAF_ENTRIES * RawEntry::BYTES <= PAGE_BODY_BYTES);

/// Writes a leaf into `page`; returns the page's checksum.
pub fn encode(
    page: &mut [u8],
    store: StoreId,
    chunk: ChunkId,
    part: usize,
    checkpoint: u64,
    entries: impl Iterator<Item = Entry>,
) -> u32 {
    assert_eq!(page.len(), PAGE_BYTES, "a leaf is a page");
    Header {
        magic: MAGIC,
        version: FORMAT_VERSION,
        store: page::tag(store),
        volume: chunk.volume.0,
        chunk: chunk.index.0,
        checkpoint,
        part: narrow(part),
        entries: narrow(LEAF_ENTRIES),
        reserved: 0,
    }
    .put(page);
    let mut at = Header::BYTES;
    for entry in entries {
        RawEntry {
            slot: entry.slot.0,
            sum: entry.sum,
            version: entry.version.0,
        }
        .put(&mut page[at..]);
        at += RawEntry::BYTES;
    }
    page[at..PAGE_BODY_BYTES].fill(0);
    seal(page)
}

/// A leaf that came from a disk. An error says what is wrong: it is not the page of this checksum, or not this part's.
pub fn decode(
    page: &[u8],
    store: StoreId,
    chunk: ChunkId,
    part: usize,
    expected: u32,
    slots: u32,
) -> Result<Box<[Entry; LEAF_ENTRIES]>, &'static str> {
    let Sealed { body, sum } = sealed(page).ok_or("its checksum is wrong")?;
    if sum != expected {
        return Err("it is not the page that was written there");
    }
    let header = Header::get(body).ok_or("it is too short")?;
    if header.magic != MAGIC || header.version > FORMAT_VERSION || header.store != page::tag(store) {
        return Err("it is no leaf of this store");
    }
    let place = (header.volume, header.chunk, usize::from(header.part));
    if place != (chunk.volume.0, chunk.index.0, part) || usize::from(header.entries) != LEAF_ENTRIES {
        return Err("it is another chunk's leaf, or another part's");
    }
    let mut entries = Box::new([Entry::NEVER; LEAF_ENTRIES]);
    let raw = body[Header::BYTES..].chunks_exact(RawEntry::BYTES);
    for (entry, raw) in entries.iter_mut().zip(raw.filter_map(RawEntry::get)) {
        *entry = Entry {
            slot: Slot(raw.slot),
            sum: raw.sum,
            version: Version(raw.version),
        };
        if entry.has_data() && raw.slot >= slots {
            return Err("it names a slot outside the store");
        }
    }
    Ok(entries)
}
