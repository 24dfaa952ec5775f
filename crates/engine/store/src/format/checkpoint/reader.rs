//! Reading items that came from a disk: everything is checked.

use super::{
    BITS_BYTES, COUNTS_PER_ITEM, ChunkItem, Head, Header, MAGIC, OlderItem, PastItem, RawChunk, RawCleared, RawCount,
    RawCounts, RawMark, RawOlder, RawOrigin, RawPast, RawShared, RawSlots, RawState, RawVolume, SLOTS_PER_ITEM,
    StateItem, get_leaves, kind, line,
};
use crate::format::narrow;
use crate::format::record::{Fence, Mark, get_fence};
use crate::format::{FORMAT_VERSION, Sealed, Slot, page, sealed};
use crate::index::LEAF_ENTRIES;
use amita_types::{ChunkId, ChunkIndex, SnapshotId, StoreId, Version, VolumeId};

/// An item, read from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A group's fence (its volume, generation and owner mean nothing).
    Group(Fence),
    /// A volume's fence.
    Volume(RawVolume),
    Chunk(ChunkItem),
    /// Where the last chunk's blocks were first written.
    Origin(ChunkId),
    /// The last chunk's history was once another one.
    Past(PastItem),
    /// The last chunk as it was for some snapshots.
    State(StateItem),
    /// A page that has states of the last chunk.
    Older(OlderItem),
    /// A mark of the last chunk.
    Mark(Mark),
    /// Blocks of the last chunk or state were cleared by one write: the first, how many.
    Cleared {
        /// The first block.
        first: u32,
        count: u32,
        /// By which write.
        version: Version,
    },
    /// Which slots are in use.
    Slots {
        /// Log pages below this one are in it.
        position: u64,
        first: u32,
        /// One bit for each of [`SLOTS_PER_ITEM`].
        bits: Bits<'a>,
    },
    /// Slots of the last part of the map that have more than one user.
    Shared(Counts<'a>),
}

/// One bit for each of [`SLOTS_PER_ITEM`] slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits<'a> {
    /// All the same.
    All(bool),
    Each(&'a [u8]),
}

impl Bits<'_> {
    pub fn words(self) -> impl Iterator<Item = u64> {
        (0..SLOTS_PER_ITEM as usize / 64).map(move |at| match self {
            Bits::All(true) => u64::MAX,
            Bits::All(false) => 0,
            Bits::Each(bytes) => u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("cut into 8")),
        })
    }
}

/// Slots and how many more users each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts<'a> {
    /// A list.
    List(&'a [u8]),
    /// A byte for each slot from this one on; 0: the slot is none of them.
    Each(Slot, &'a [u8]),
}

impl<'a> Counts<'a> {
    /// (slot, how many more), ascending.
    pub fn iter(self) -> impl Iterator<Item = (Slot, u32)> + 'a {
        let (list, first, each) = match self {
            Counts::List(list) => (list, Slot(0), Default::default()),
            Counts::Each(first, each) => (Default::default(), first, each),
        };
        let raw = list.chunks_exact(RawCount::BYTES).filter_map(RawCount::get);
        let each = (first.0..).zip(each).filter(|(_, more)| **more > 0);
        raw.map(|raw| (Slot(raw.slot), raw.more))
            .chain(each.map(|(slot, more)| (Slot(slot), u32::from(*more))))
    }
}

/// Reads the items of a checkpoint's page that came from a disk. What follows an error means nothing.
#[derive(Clone, Debug)]
pub struct PageReader<'a> {
    rest: &'a [u8],
    /// What is left of an item of states, and of which state it goes on.
    states: &'a [u8],
    state: Option<(SnapshotId, Version)>,
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
            states: &[],
            state: None,
            sum,
        })
    }

    fn read(&mut self) -> Result<Item<'a>, &'static str> {
        const CUT: &str = "an item is cut off";
        if !self.states.is_empty() {
            let (item, _) = line::get(&mut self.states, self.state, line::IN_ITEM)?;
            self.state = Some((item.to, item.version));
            return Ok(Item::State(item));
        }
        let head = Head::get(self.rest).ok_or(CUT)?;
        let bytes = self.rest.get(..usize::from(head.bytes)).ok_or(CUT)?;
        let body = bytes.get(Head::BYTES..).ok_or(CUT)?;
        self.rest = &self.rest[bytes.len()..];
        match head.kind {
            kind::GROUP => get_fence(body).map(Item::Group),
            kind::VOLUME => RawVolume::get(body).map(Item::Volume).ok_or(CUT),
            kind::CHUNK => {
                let raw = RawChunk::get(body).ok_or(CUT)?;
                Ok(Item::Chunk(ChunkItem {
                    chunk: id(raw.volume, raw.chunk),
                    version: Version(raw.version),
                    position: raw.position,
                    born: SnapshotId(raw.born),
                    snapshot: SnapshotId(raw.snapshot),
                    flags: raw.flags,
                    leaves: get_leaves(raw.leaves, &body[RawChunk::BYTES..])?,
                }))
            }
            kind::ORIGIN => {
                let raw = RawOrigin::get(body).ok_or(CUT)?;
                Ok(Item::Origin(id(raw.volume, raw.chunk)))
            }
            kind::PAST => {
                let raw = RawPast::get(body).ok_or(CUT)?;
                Ok(Item::Past(PastItem {
                    base: (raw.incomplete != 0).then_some(Version(raw.base)),
                }))
            }
            kind::STATE => {
                let raw = RawState::get(body).ok_or(CUT)?;
                Ok(Item::State(StateItem {
                    version: Version(raw.version),
                    above: SnapshotId(raw.above),
                    to: SnapshotId(raw.to),
                    open: raw.open != 0,
                    leaves: get_leaves(raw.leaves, &body[RawState::BYTES..])?,
                }))
            }
            kind::STATES if body.is_empty() => Err(CUT),
            kind::STATES => {
                (self.states, self.state) = (body, None);
                self.read()
            }
            kind::OLDER => {
                let raw = RawOlder::get(body).ok_or(CUT)?;
                let parts = u8::try_from(raw.parts).map_err(|_| "a page of states has parts that no chunk has")?;
                if raw.states == 0 || raw.above >= raw.to || Slot(raw.slot) == Slot::NONE {
                    return Err("a page of states is nowhere, or has none");
                }
                Ok(Item::Older(OlderItem {
                    slot: Slot(raw.slot),
                    sum: raw.sum,
                    above: SnapshotId(raw.above),
                    to: SnapshotId(raw.to),
                    states: raw.states,
                    parts,
                }))
            }
            kind::MARK => {
                let raw = RawMark::get(body).ok_or(CUT)?;
                if raw.above >= raw.to {
                    return Err("a mark stands for no snapshot");
                }
                Ok(Item::Mark(Mark {
                    above: SnapshotId(raw.above),
                    to: SnapshotId(raw.to),
                    version: Version(raw.version),
                }))
            }
            kind::CLEARED => {
                let raw = RawCleared::get(body).ok_or(CUT)?;
                let count = narrow::<u32>(LEAF_ENTRIES);
                Ok(Item::Cleared {
                    first: raw.part.checked_mul(count).ok_or("a part of a chunk is impossible")?,
                    count,
                    version: Version(raw.version),
                })
            }
            kind::SLOTS => {
                let raw = RawSlots::get(body).ok_or(CUT)?;
                let rest = &body[RawSlots::BYTES..];
                let bits = match (raw.form, rest.len()) {
                    (0, BITS_BYTES) => Bits::Each(rest),
                    (1, 0) => Bits::All(false),
                    (2, 0) => Bits::All(true),
                    _ => return Err("a part of the map of slots has the wrong length"),
                };
                if !raw.first.is_multiple_of(SLOTS_PER_ITEM) {
                    return Err("a part of the map of slots begins at the wrong one");
                }
                Ok(Item::Slots {
                    position: raw.position,
                    first: raw.first,
                    bits,
                })
            }
            kind::SHARED => {
                let raw = RawShared::get(body).ok_or(CUT)?;
                let counts = &body[RawShared::BYTES..];
                if counts.len() as u64 != u64::from(raw.count) * RawCount::BYTES as u64 {
                    return Err("counts have the wrong length");
                }
                Ok(Item::Shared(Counts::List(counts)))
            }
            kind::COUNTS => {
                let raw = RawCounts::get(body).ok_or(CUT)?;
                let counts = &body[RawCounts::BYTES..];
                if counts.len() != COUNTS_PER_ITEM as usize || !raw.first.is_multiple_of(COUNTS_PER_ITEM) {
                    return Err("counts have the wrong length, or begin at the wrong slot");
                }
                Ok(Item::Shared(Counts::Each(Slot(raw.first), counts)))
            }
            _ => Err("an item is of an unknown kind"),
        }
    }
}

fn id(volume: u64, chunk: u64) -> ChunkId {
    ChunkId {
        volume: VolumeId(volume),
        index: ChunkIndex(chunk),
    }
}

impl<'a> Iterator for PageReader<'a> {
    type Item = Result<Item<'a>, &'static str>;

    fn next(&mut self) -> Option<Result<Item<'a>, &'static str>> {
        (!self.rest.is_empty() || !self.states.is_empty()).then(|| self.read())
    }
}
