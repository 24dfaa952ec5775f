//! The pages of a checkpoint: fences, the directory of all chunks, and the map of the slots.
//!
//! A checkpoint is fuzzy: while it is written, I/O goes on. Every chunk carries the position of the log up to which it
//! is in the checkpoint, and so does every part of the map of slots; replay applies only later records (rule D5). Where a
//! chunk's blocks are is in its leaves (see [`super::leaf`]), of which only those are written anew that have changed. The
//! map of slots is written after all chunks, so that what a record changed in a chunk that has it already is surely in
//! the map too.

pub(super) mod line;
mod reader;

pub use reader::{Bits, Counts, Item, PageReader};

use super::disk::on_disk;
use super::record::{Fence, Mark, RawFence, put_fence};
use super::{FORMAT_VERSION, PAGE_BODY_BYTES, PAGE_BYTES, Slot, narrow, page, seal};
use crate::index::PARTS;
use amita_types::message::MAX_MEMBERS;
use amita_types::{ChunkId, NodeId, SnapshotId, StoreId, Version, VolumeId};
use arrayvec::ArrayVec;

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

/// Kinds of items. 3 and 5 stood for what was dropped before the first release, and are not used again.
mod kind {
    pub const GROUP: u16 = 1;
    pub const VOLUME: u16 = 2;
    pub const CLEARED: u16 = 4;
    pub const CHUNK: u16 = 6;
    pub const ORIGIN: u16 = 7;
    pub const STATE: u16 = 8;
    pub const SLOTS: u16 = 9;
    pub const SHARED: u16 = 10;
    pub const PAST: u16 = 11;
    pub const COUNTS: u16 = 12;
    pub const STATES: u16 = 13;
    pub const OLDER: u16 = 14;
    pub const MARK: u16 = 15;
}

on_disk! {
    /// What every item begins with.
    pub struct Head [4] {
        kind: u16,
        /// Bytes of the item, these included.
        bytes: u16,
    }
}

on_disk! {
    /// A volume's fence.
    pub struct RawVolume [16] {
        volume: u64,
        generation: u32,
        owner: u32,
    }
}

on_disk! {
    /// A chunk; goes on with a [`RawLeaf`] for each bit of `leaves`. The items that follow, up to the next chunk, belong
    /// to it.
    pub struct RawChunk [48] {
        volume: u64,
        /// The index.
        chunk: u64,
        version: u64,
        /// Log pages below this one are in it (rule D5).
        position: u64,
        /// The volume's newest snapshot when the chunk was made.
        born: u32,
        /// The newest snapshot that a change of it has named.
        snapshot: u32,
        /// See [`flag`].
        flags: u32,
        /// One bit for each part that has a leaf.
        leaves: u32,
    }
}

/// Flags of a [`RawChunk`].
pub mod flag {
    /// The volume was deleted; only snapshots of the chunk are left.
    pub const DELETED: u32 = 1;
    /// There is no such chunk any more: nothing but `position` means anything.
    pub const GONE: u32 = 2;
    /// Versions do not say which entries the chunk shares with its newest snapshot: its history was once another one.
    pub const LOOSE: u32 = 4;
}

on_disk! {
    /// Where a leaf is. `slot` 2^32 - 1: nowhere; then `sum` 0: no block of the part was ever written; 1: it is lost.
    pub struct RawLeaf [8] {
        slot: u32,
        /// Its page's checksum.
        sum: u32,
    }
}

on_disk! {
    /// Where the blocks of the last chunk were first written, if not in itself (rule D8).
    pub struct RawOrigin [16] {
        volume: u64,
        /// The index.
        chunk: u64,
    }
}

on_disk! {
    /// The last chunk is incomplete (rule R5).
    pub struct RawPast [16] {
        /// The version at which it was last whole.
        base: u64,
        /// Zero. (Snapshots up to this one were in doubt, in stores of which none could be taken yet.)
        reserved: u32,
        /// 1; 0: it is whole (the same stores).
        incomplete: u32,
    }
}

on_disk! {
    /// The last chunk as it was for its snapshots above `above` up to `to`; goes on with a [`RawLeaf`] for each bit of
    /// `leaves`: the parts that have changed since. It is read still; what is written is [`line`]s, which say the same.
    pub struct RawState [24] {
        /// The chunk's version then.
        version: u64,
        /// See there.
        above: u32,
        /// See there.
        to: u32,
        /// One bit for each part of its own.
        leaves: u32,
        /// 1: it is being brought (S6), and serves nothing; else 0.
        open: u32,
    }
}

const _: () = assert!(PARTS <= u8::BITS as usize);

on_disk! {
    /// A page that has states of the last chunk, in their place among the others.
    pub struct RawOlder [20] {
        /// Where it is.
        slot: u32,
        /// Its checksum.
        sum: u32,
        /// The oldest of them stands for the snapshots above this one,
        above: u32,
        /// the newest for those up to this one.
        to: u32,
        /// How many they are.
        states: u16,
        /// One bit for each part of which one of them has a leaf.
        parts: u16,
    }
}

on_disk! {
    /// At which version the last chunk was for its snapshots above `above` up to `to`, which are deleted.
    pub struct RawMark [16] {
        version: u64,
        /// See there.
        above: u32,
        /// See there.
        to: u32,
    }
}

on_disk! {
    /// A whole part of the last chunk or state of which every block was cleared by one write.
    pub struct RawCleared [12] {
        /// The version of that write.
        version: u64,
        part: u32,
    }
}

on_disk! {
    /// Which slots are in use, of [`SLOTS_PER_ITEM`] from `first` on: with `form` 0 one bit each follows; 1: none is; 2: all
    /// are.
    pub struct RawSlots [16] {
        /// Log pages below this one are in it (rule D5).
        position: u64,
        first: u32,
        /// How it is said.
        form: u32,
    }
}

on_disk! {
    /// How often slots of the last [`RawSlots`] are used more than once; goes on with `count` times a [`RawCount`].
    pub struct RawShared [8] {
        count: u32,
        /// Zero.
        reserved: u32,
    }
}

on_disk! {
    /// A slot that more than one chunk uses.
    pub struct RawCount [8] {
        slot: u32,
        /// How many use it besides the first.
        more: u32,
    }
}

on_disk! {
    /// The same for [`COUNTS_PER_ITEM`] slots, where a list would be longer; goes on with a byte for each: how many use it besides
    /// the first. Where that is more than a byte holds, the byte is 0 and a [`RawShared`] follows that has it.
    pub struct RawCounts [8] {
        /// The first of the slots.
        first: u32,
        /// Zero.
        reserved: u32,
    }
}

const ITEMS_BYTES: usize = PAGE_BODY_BYTES - Header::BYTES;

/// Slots of one [`RawSlots`].
pub const SLOTS_PER_ITEM: u32 = 4096;
const BITS_BYTES: usize = SLOTS_PER_ITEM as usize / 8;

/// Bytes that a chunk takes at most, its origin included: with each part either a leaf or cleared.
pub const CHUNK_BYTES: u64 =
    (Head::BYTES + RawChunk::BYTES) as u64 + PARTS as u64 * CLEARED_BYTES + (Head::BYTES + RawOrigin::BYTES) as u64;
const CLEARED_BYTES: u64 = (Head::BYTES + RawCleared::BYTES) as u64;
const _: () = assert!(RawLeaf::BYTES as u64 <= CLEARED_BYTES);
/// Bytes that it takes to say that a chunk is or was incomplete.
pub const PAST_BYTES: u64 = (Head::BYTES + RawPast::BYTES) as u64;
/// Bytes that a state takes besides its parts.
pub const STATE_BYTES: u64 = (Head::BYTES + line::MOST_BYTES) as u64;
/// Bytes that a part of a state takes at most.
pub const STATE_PART_BYTES: u64 = CLEARED_BYTES;
/// Bytes that it takes to name a page of states.
pub const OLDER_BYTES: u64 = (Head::BYTES + RawOlder::BYTES) as u64;
/// Bytes that a mark takes.
pub const MARK_BYTES: u64 = (Head::BYTES + RawMark::BYTES) as u64;
// What is spoken for is what its states would take, and what becomes a mark took no less.
const _: () = assert!(MARK_BYTES <= STATE_BYTES);
const _: () = assert!(OLDER_BYTES <= 2 * STATE_BYTES);
/// Bytes of a volume's fence.
pub const VOLUME_BYTES: u64 = (Head::BYTES + RawVolume::BYTES) as u64;
/// Bytes of a group's.
pub const GROUP_BYTES: u64 = (Head::BYTES + RawFence::BYTES + MAX_MEMBERS * 16) as u64;
/// Bytes of one item of the map of slots.
pub const SLOTS_BYTES: u64 = (Head::BYTES + RawSlots::BYTES + BITS_BYTES) as u64;
/// Bytes that a slot with more than one user takes at most.
pub const SHARED_BYTES: u64 = (Head::BYTES + RawShared::BYTES + RawCount::BYTES) as u64;
/// Slots of one [`RawCounts`].
pub const COUNTS_PER_ITEM: u32 = 1024;
const _: () = assert!(SLOTS_PER_ITEM.is_multiple_of(COUNTS_PER_ITEM));
/// Bytes of one item with a count for each slot.
pub const COUNTS_ITEM_BYTES: u64 = (Head::BYTES + RawCounts::BYTES) as u64 + COUNTS_PER_ITEM as u64;
/// Counts that fit one item.
const MAX_COUNTS: usize = 256;
/// No item is longer: so much of a page may be left empty at its end.
const MAX_ITEM_BYTES: usize = Head::BYTES + RawShared::BYTES + MAX_COUNTS * RawCount::BYTES;
const _: () = assert!(SLOTS_BYTES <= MAX_ITEM_BYTES as u64);
const _: () = assert!(COUNTS_ITEM_BYTES <= MAX_ITEM_BYTES as u64);
const _: () = assert!(CHUNK_BYTES <= MAX_ITEM_BYTES as u64);

/// Bytes of items, the map of slots excluded, that `pages` pages surely hold: each page may end in a rest that the next
/// item does not fit. Items of other kinds than the map of slots and its counts are short.
#[must_use]
pub fn capacity_bytes(pages: u64, slots: u32) -> u64 {
    let per_page = ITEMS_BYTES as u64 / SLOTS_BYTES;
    // One more where the first of them meets a page that is not empty.
    let for_slots = u64::from(slots.div_ceil(SLOTS_PER_ITEM)).div_ceil(per_page) + 1;
    pages.saturating_sub(for_slots) * (ITEMS_BYTES as u64 - GROUP_BYTES)
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
    /// The item of states that the next one can be added to.
    states: Option<OpenStates>,
}

/// An item of states that is the last one of its page.
#[derive(Clone, Copy, Debug)]
struct OpenStates {
    /// Where it begins in `out`.
    start: usize,
    /// Of the last of its states.
    to: SnapshotId,
    version: Version,
}

/// What a [`PageWriter`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    pub pages: usize,
    /// The checksum of the last of them.
    pub last_sum: u32,
}

/// How far a [`PageWriter`] that is put aside has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paused {
    pages: usize,
    used: usize,
    last_sum: u32,
}

/// Where the leaf of a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafPlace {
    /// No block of the part was ever written.
    Never,
    /// In this slot, and its page has this checksum.
    At(Slot, u32),
    /// It could not be read when it was needed: what the part held is not known.
    Lost,
}

impl LeafPlace {
    fn raw(self) -> RawLeaf {
        let none = Slot::NONE.0;
        match self {
            LeafPlace::Never => RawLeaf { slot: none, sum: 0 },
            LeafPlace::Lost => RawLeaf { slot: none, sum: 1 },
            LeafPlace::At(slot, sum) => RawLeaf { slot: slot.0, sum },
        }
    }

    fn from(raw: RawLeaf) -> Option<LeafPlace> {
        match (Slot(raw.slot), raw.sum) {
            (Slot::NONE, 0) => Some(LeafPlace::Never),
            (Slot::NONE, 1) => Some(LeafPlace::Lost),
            (Slot::NONE, _) => None,
            (slot, sum) => Some(LeafPlace::At(slot, sum)),
        }
    }
}

/// The leaves of a chunk or a state: (part, where).
pub type Leaves = ArrayVec<(u8, LeafPlace), PARTS>;

/// A chunk's line in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkItem {
    pub chunk: ChunkId,
    pub version: Version,
    /// Log pages below this one are in it.
    pub position: u64,
    /// The volume's newest snapshot when it was made.
    pub born: SnapshotId,
    /// The newest snapshot that a change of it has named.
    pub snapshot: SnapshotId,
    /// See [`flag`].
    pub flags: u32,
    /// Ascending.
    pub leaves: Leaves,
}

/// A chunk that is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastItem {
    /// The version at which it was last whole; `None`: it is whole.
    pub base: Option<Version>,
}

/// A chunk as it was for some snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateItem {
    /// Its version then.
    pub version: Version,
    /// For the snapshots above this one
    pub above: SnapshotId,
    /// up to this one.
    pub to: SnapshotId,
    /// It is being brought (S6).
    pub open: bool,
    /// The parts that have changed since; ascending.
    pub leaves: Leaves,
}

/// Parts that one write each has cleared whole: (part, its version).
pub type Cleared = ArrayVec<(u8, Version), PARTS>;

/// States of a chunk that are in a page of their own ([`super::states`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderItem {
    pub slot: Slot,
    /// The page's checksum.
    pub sum: u32,
    /// The oldest of them stands for the snapshots above this one,
    pub above: SnapshotId,
    /// the newest for those up to this one.
    pub to: SnapshotId,
    /// How many they are; at least one.
    pub states: u16,
    /// One bit for each part of which one of them has a leaf.
    pub parts: u8,
}

impl<'a> PageWriter<'a> {
    /// Writes pages from number `first` on into `out`, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn new(out: &'a mut [u8], store: StoreId, checkpoint: u64, first: u64) -> PageWriter<'a> {
        PageWriter::resume(out, store, checkpoint, first, Paused::default())
    }

    /// Goes on where one was put aside.
    #[must_use]
    pub fn resume(out: &'a mut [u8], store: StoreId, checkpoint: u64, first: u64, paused: Paused) -> PageWriter<'a> {
        assert!(out.len().is_multiple_of(PAGE_BYTES) && !out.is_empty());
        PageWriter {
            out,
            store,
            checkpoint,
            first,
            pages: paused.pages,
            used: paused.used,
            last_sum: paused.last_sum,
            states: None,
        }
    }

    /// Puts it aside, the page that is open too.
    #[must_use]
    pub fn pause(self) -> Paused {
        Paused {
            pages: self.pages,
            used: self.used,
            last_sum: self.last_sum,
        }
    }

    /// Pages that surely hold `bytes` of items.
    #[must_use]
    pub fn pages_for(bytes: u64) -> usize {
        usize::try_from(bytes.div_ceil((ITEMS_BYTES - MAX_ITEM_BYTES) as u64)).unwrap_or(usize::MAX)
    }

    /// Bytes of items that surely still fit.
    #[must_use]
    pub fn space(&self) -> u64 {
        let left = self.out.len() / PAGE_BYTES - self.pages;
        ((left * (ITEMS_BYTES - MAX_ITEM_BYTES)).saturating_sub(self.used)) as u64
    }

    fn item(&mut self, kind: u16, bytes: usize) -> &mut [u8] {
        self.states = None;
        let bytes = Head::BYTES + bytes;
        if self.used + bytes > ITEMS_BYTES {
            self.close();
        }
        let start = self.pages * PAGE_BYTES + Header::BYTES + self.used;
        self.used += bytes;
        let item = &mut self.out[start..start + bytes];
        Head {
            kind,
            bytes: narrow(bytes),
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
            used: narrow(self.used),
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
        let bytes = RawFence::BYTES + (fence.in_sync.len() + fence.syncing.len()) * 16;
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

    /// A chunk; what belongs to it follows.
    pub fn chunk(&mut self, item: &ChunkItem) {
        let out = self.item(kind::CHUNK, RawChunk::BYTES + item.leaves.len() * RawLeaf::BYTES);
        RawChunk {
            volume: item.chunk.volume.0,
            chunk: item.chunk.index.0,
            version: item.version.0,
            position: item.position,
            born: item.born.0,
            snapshot: item.snapshot.0,
            flags: item.flags,
            leaves: mask(&item.leaves),
        }
        .put(out);
        put_leaves(&item.leaves, &mut out[RawChunk::BYTES..]);
    }

    /// Where the last chunk's blocks were first written.
    pub fn origin(&mut self, origin: ChunkId) {
        RawOrigin {
            volume: origin.volume.0,
            chunk: origin.index.0,
        }
        .put(self.item(kind::ORIGIN, RawOrigin::BYTES));
    }

    /// The last chunk is incomplete.
    pub fn past(&mut self, item: PastItem) {
        RawPast {
            base: item.base.unwrap_or_default().0,
            reserved: 0,
            incomplete: u32::from(item.base.is_some()),
        }
        .put(self.item(kind::PAST, RawPast::BYTES));
    }

    /// The last chunk as it was for some snapshots. States that follow one another stand in one item, as far as the page goes.
    pub fn state(&mut self, item: &StateItem) {
        let mut bytes = [0; line::LONGEST_BYTES];
        if let Some(open) = self.states {
            let used = line::put(item, &Cleared::new(), Some((open.to, open.version)), &mut bytes);
            if self.used + used <= ITEMS_BYTES {
                let end = self.pages * PAGE_BYTES + Header::BYTES + self.used;
                self.out[end..end + used].copy_from_slice(&bytes[..used]);
                self.used += used;
                Head {
                    kind: kind::STATES,
                    bytes: narrow(end + used - open.start),
                }
                .put(&mut self.out[open.start..]);
                let (to, version) = (item.to, item.version);
                self.states = Some(OpenStates { to, version, ..open });
                return;
            }
        }
        let used = line::put(item, &Cleared::new(), None, &mut bytes);
        self.item(kind::STATES, used).copy_from_slice(&bytes[..used]);
        self.states = Some(OpenStates {
            start: self.pages * PAGE_BYTES + Header::BYTES + self.used - used - Head::BYTES,
            to: item.to,
            version: item.version,
        });
    }

    /// A page that has states of the last chunk, in their place among the others.
    pub fn older(&mut self, item: &OlderItem) {
        RawOlder {
            slot: item.slot.0,
            sum: item.sum,
            above: item.above.0,
            to: item.to.0,
            states: item.states,
            parts: u16::from(item.parts),
        }
        .put(self.item(kind::OLDER, RawOlder::BYTES));
    }

    /// A mark of the last chunk.
    pub fn mark(&mut self, mark: &Mark) {
        RawMark {
            version: mark.version.0,
            above: mark.above.0,
            to: mark.to.0,
        }
        .put(self.item(kind::MARK, RawMark::BYTES));
    }

    /// A part of the last chunk or state that was cleared whole.
    pub fn cleared(&mut self, part: u32, version: Version) {
        RawCleared {
            version: version.0,
            part,
        }
        .put(self.item(kind::CLEARED, RawCleared::BYTES));
    }

    /// Which of [`SLOTS_PER_ITEM`] slots from `first` on are in use: one bit each, those beyond the store zero.
    pub fn slots(&mut self, position: u64, first: u32, bits: &[u64]) {
        assert_eq!(bits.len() * 8, BITS_BYTES);
        let form = match () {
            () if bits.iter().all(|&word| word == 0) => 1,
            () if bits.iter().all(|&word| word == u64::MAX) => 2,
            () => 0,
        };
        let bytes = if form == 0 { BITS_BYTES } else { 0 };
        let out = self.item(kind::SLOTS, RawSlots::BYTES + bytes);
        RawSlots { position, first, form }.put(out);
        if form == 0 {
            for (place, word) in out[RawSlots::BYTES..].chunks_exact_mut(8).zip(bits) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// Slots of the last [`PageWriter::slots`] that have more than one user, and how many more.
    pub fn shared(&mut self, counts: &[(Slot, u32)]) {
        for counts in counts.chunks(MAX_COUNTS) {
            let out = self.item(kind::SHARED, RawShared::BYTES + counts.len() * RawCount::BYTES);
            RawShared {
                count: narrow(counts.len()),
                reserved: 0,
            }
            .put(out);
            for (place, &(slot, more)) in out[RawShared::BYTES..].chunks_exact_mut(RawCount::BYTES).zip(counts) {
                RawCount { slot: slot.0, more }.put(place);
            }
        }
    }

    /// How many use each of [`COUNTS_PER_ITEM`] slots of the last [`PageWriter::slots`] besides the first; 0 also where
    /// [`PageWriter::shared`] follows and says it.
    pub fn counts(&mut self, first: Slot, counts: impl ExactSizeIterator<Item = u8>) {
        assert_eq!(counts.len(), COUNTS_PER_ITEM as usize);
        let out = self.item(kind::COUNTS, RawCounts::BYTES + COUNTS_PER_ITEM as usize);
        RawCounts {
            first: first.0,
            reserved: 0,
        }
        .put(out);
        for (place, count) in out[RawCounts::BYTES..].iter_mut().zip(counts) {
            *place = count;
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

fn mask(leaves: &Leaves) -> u32 {
    leaves.iter().fold(0, |mask, (part, _)| mask | 1 << part)
}

fn put_leaves(leaves: &Leaves, out: &mut [u8]) {
    for (place, (_, leaf)) in out.chunks_exact_mut(RawLeaf::BYTES).zip(leaves) {
        leaf.raw().put(place);
    }
}

fn get_leaves(mask: u32, bytes: &[u8]) -> Result<Leaves, &'static str> {
    if mask >> PARTS != 0 || bytes.len() != mask.count_ones() as usize * RawLeaf::BYTES {
        return Err("the list of leaves has the wrong length");
    }
    let parts = (0..narrow::<u8>(PARTS)).filter(|part| mask >> part & 1 == 1);
    let leaves = bytes.chunks_exact(RawLeaf::BYTES).filter_map(RawLeaf::get);
    parts
        .zip(leaves)
        .map(|(part, raw)| LeafPlace::from(raw).map(|place| (part, place)))
        .collect::<Option<Leaves>>()
        .ok_or("a leaf is nowhere")
}
