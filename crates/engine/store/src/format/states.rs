//! A page of states: what a chunk was for some of its older snapshots. It lies in a slot, like a leaf; the checkpoint names its slot
//! and its checksum in the place of what it says.
//!
//! It is never changed in place. What is to be said anew goes to another slot, or stands in the checkpoint itself.

use super::checkpoint::{Cleared, LeafPlace, StateItem, line};
use super::disk::on_disk;
use super::{FORMAT_VERSION, PAGE_BODY_BYTES, PAGE_BYTES, Sealed, narrow, page, seal, sealed};
use amita_types::{ChunkId, StoreId};

/// The first four bytes of a page of states.
pub const MAGIC: u32 = u32::from_le_bytes(*b"ASTA");

on_disk! {
    /// The header of a page of states.
    ///
    /// ```text
    ///   0 magic "ASTA"    4 version    8 store UUID (low half)   16 volume    24 chunk
    ///  32 bytes of lines 34 states    36 reserved   40 lines ...            4092 crc
    /// ```
    pub struct Header [40] {
        /// [`MAGIC`].
        magic: u32,
        /// [`FORMAT_VERSION`] of the writer.
        version: u32,
        /// The low half of the store's UUID.
        store: u64,
        volume: u64,
        /// The index.
        chunk: u64,
        /// Bytes of lines that follow.
        used: u16,
        /// How many states they are.
        states: u16,
        /// Zero.
        reserved: u32,
    }
}

/// Bytes of lines that fit a page.
pub const LINES_BYTES: usize = PAGE_BODY_BYTES - Header::BYTES;

/// Fills a page of states.
#[derive(Debug)]
pub struct StatesWriter<'a> {
    page: &'a mut [u8],
    used: usize,
    states: usize,
    before: line::Before,
}

impl<'a> StatesWriter<'a> {
    /// Of a page of [`PAGE_BYTES`].
    #[must_use]
    pub fn new(page: &'a mut [u8]) -> StatesWriter<'a> {
        assert_eq!(page.len(), PAGE_BYTES, "states are written into a page");
        StatesWriter {
            page,
            used: 0,
            states: 0,
            before: None,
        }
    }

    /// Adds a state that is newer than those before it; `false`: the page is full.
    pub fn push(&mut self, item: &StateItem, cleared: &Cleared) -> bool {
        assert!(!item.open, "what is open is in no page");
        let mut bytes = [0; line::LONGEST_BYTES];
        let used = line::put(item, cleared, self.before, &mut bytes);
        if self.used + used > LINES_BYTES {
            return false;
        }
        let start = Header::BYTES + self.used;
        self.page[start..start + used].copy_from_slice(&bytes[..used]);
        self.used += used;
        self.states += 1;
        self.before = Some((item.to, item.version));
        true
    }

    /// Closes the page; returns the bytes of its lines and its checksum.
    #[must_use]
    pub fn finish(self, store: StoreId, chunk: ChunkId) -> (u16, u32) {
        assert!(self.states > 0, "a page has a state");
        Header {
            magic: MAGIC,
            version: FORMAT_VERSION,
            store: page::tag(store),
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            used: narrow(self.used),
            states: narrow(self.states),
            reserved: 0,
        }
        .put(self.page);
        self.page[Header::BYTES + self.used..PAGE_BODY_BYTES].fill(0);
        (narrow(self.used), seal(self.page))
    }
}

/// States that came from a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Oldest first, each with its parts that were cleared whole.
    pub states: Vec<(StateItem, Cleared)>,
    /// Bytes of their lines.
    pub used: u16,
}

/// A page of states that came from a disk. An error says what is wrong: it is not the page of this checksum, or not this chunk's.
pub fn decode(page: &[u8], store: StoreId, chunk: ChunkId, expected: u32, slots: u32) -> Result<Decoded, &'static str> {
    let Sealed { body, sum } = sealed(page).ok_or("its checksum is wrong")?;
    if sum != expected {
        return Err("it is not the page that was written there");
    }
    let header = Header::get(body).ok_or("it is too short")?;
    if header.magic != MAGIC || header.version > FORMAT_VERSION || header.store != page::tag(store) {
        return Err("it is no page of states of this store");
    }
    if (header.volume, header.chunk) != (chunk.volume.0, chunk.index.0) {
        return Err("it has another chunk's states");
    }
    let end = Header::BYTES + usize::from(header.used);
    let mut rest = body.get(Header::BYTES..end).ok_or("its states do not fit it")?;
    let mut states: Vec<(StateItem, Cleared)> = Vec::with_capacity(usize::from(header.states).min(LINES_BYTES));
    while !rest.is_empty() {
        let before = states.last().map(|(last, _)| (last.to, last.version));
        let (item, cleared) = line::get(&mut rest, before, line::IN_PAGE)?;
        let outside = |&(_, place): &(u8, LeafPlace)| matches!(place, LeafPlace::At(slot, _) if slot.0 >= slots);
        if item.leaves.iter().any(outside) {
            return Err("it names a slot outside the store");
        }
        if item.above >= item.to || before.is_some_and(|(to, _)| item.above < to) {
            return Err("its states are out of order");
        }
        states.push((item, cleared));
    }
    if states.is_empty() || states.len() != usize::from(header.states) {
        return Err("it has another number of states than it says");
    }
    Ok(Decoded {
        states,
        used: header.used,
    })
}
