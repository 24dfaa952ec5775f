//! What a change changes, by its kind, and what it makes of each block.

use super::join::Say;
use super::mend::MendChange;
use super::snapshot::{CloneChange, Retained};
use crate::format::Place;
use crate::format::record::{Fence, Mark, RollEntry};
use amita_reactor::{BufMut, Slice};
use amita_types::message::Sums;
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, SnapshotId, Version};

const BLOCK: usize = BLOCK_BYTES as usize;

#[derive(Debug)]
pub(super) enum Change {
    Write(WriteChange),
    Clear(BlockRange),
    Roll(Box<RollChange>),
    Fence(Box<Fence>),
    /// States of the chunk, or the chunk itself, are dropped, one after the other.
    RetainSnapshots(Box<Retained>),
    /// The chunk becomes what another one was.
    Clone(Box<CloneChange>),
    /// The chunk's history goes on at another version; it was last whole at this one.
    Join(Version),
    /// Entries are replaced one by one.
    Mend(Box<MendChange>),
    /// The chunk is whole.
    Whole(Ended),
    /// An open state is made: for the snapshots above this one, up to this one, of this version.
    Frame(SnapshotId, SnapshotId, Version),
    /// An open state gets entries.
    Put(Box<PutChange>),
    /// The state up to this snapshot, of this version, is closed.
    Close(SnapshotId, Version),
    /// The chunk gets a mark.
    Mark(Mark),
    /// Nothing is changed; something is said when all before it is durable.
    Say(Say),
}

impl Change {
    /// Entries with their data, where there are any.
    pub fn entries(&self) -> Option<&RollChange> {
        match self {
            Change::Roll(roll) => Some(roll),
            Change::Mend(mend) => Some(&mend.change),
            Change::Put(put) => Some(&put.change),
            _ => None,
        }
    }

    /// Entries of the chunk itself.
    fn head_entries(&self) -> Option<&RollChange> {
        match self {
            Change::Put(_) => None,
            change => change.entries(),
        }
    }

    /// The same as [`Change::entries`], to be changed.
    pub fn entries_mut(&mut self) -> Option<&mut RollChange> {
        match self {
            Change::Roll(roll) => Some(roll),
            Change::Mend(mend) => Some(&mut mend.change),
            Change::Put(put) => Some(&mut put.change),
            _ => None,
        }
    }

    /// Is it no part of the chain of versions, so that it can end without those behind it?
    pub fn is_aside(&self) -> bool {
        match self {
            Change::RetainSnapshots(_)
            | Change::Mend(_)
            | Change::Whole(_)
            | Change::Frame(..)
            | Change::Put(_)
            | Change::Close(..)
            | Change::Mark(_)
            | Change::Say(_) => true,
            Change::Write(_)
            | Change::Clear(_)
            | Change::Roll(_)
            | Change::Fence(_)
            | Change::Clone(_)
            | Change::Join(_) => false,
        }
    }

    /// Takes it out; what stays in its place means nothing.
    pub fn take(&mut self) -> Change {
        std::mem::replace(self, Change::Say(Say::Done))
    }

    /// The write that it is.
    pub fn write_mut(&mut self) -> &mut WriteChange {
        match self {
            Change::Write(write) => write,
            _ => unreachable!("only writes are merged"),
        }
    }

    /// The blocks whose entries it changes lie in here.
    pub fn range(&self) -> BlockRange {
        match self {
            Change::Write(write) => write.range,
            Change::Clear(range) => *range,
            change => match change
                .head_entries()
                .map(|roll| (roll.entries.first(), roll.entries.last()))
            {
                Some((Some(first), Some(last))) => BlockRange::new(first.block.0, last.block.0 - first.block.0 + 1),
                _ => BlockRange::default(),
            },
        }
    }

    /// What this change makes of a block: `None`: it does not touch it; an empty slice: cleared.
    pub fn block(&self, block: BlockIndex) -> Option<Slice> {
        match self {
            Change::Clear(range) => contains(*range, block).then(Slice::default),
            Change::Write(write) => contains(write.range, block).then(|| write.block(block.0 - write.range.first.0)),
            change => change.head_entries()?.block(block),
        }
    }

    /// What this change, of this version, makes of a block's entry: its version, and its bound checksum if it has data.
    /// `None`: it does not touch it.
    pub fn entry(&self, version: Version, block: BlockIndex) -> Option<(Version, Option<u32>)> {
        match self {
            Change::Clear(range) => contains(*range, block).then_some((version, None)),
            Change::Write(write) => contains(write.range, block).then(|| {
                let at = usize::from(block.0 - write.range.first.0);
                (version, Some(write.sums[at]))
            }),
            change => change.head_entries()?.entry(block),
        }
    }

    /// Piece `at` of the change's data, in the order of its slots; it may be empty. `None` behind the last one.
    pub fn slice(&self, at: usize) -> Option<Slice> {
        match self {
            Change::Write(write) => write.slice(at),
            change => change.entries()?.payload.get(at).cloned(),
        }
    }

    /// All pieces.
    pub fn slices(&self) -> impl Iterator<Item = Slice> + '_ {
        (0..).map_while(|at| self.slice(at))
    }

    /// Binds the checksums of its blocks to their place (rule D8).
    pub fn bind_sums(&mut self, place: Place) {
        if let Change::Write(write) = self {
            for (block, sum) in write.range.iter().zip(&mut write.sums) {
                *sum = place.bind(block, *sum);
            }
        }
        if let Some(roll) = self.entries_mut() {
            for (entry, &with_data) in roll.entries.iter_mut().zip(&roll.with_data) {
                if with_data {
                    entry.sum = place.bind(entry.block, entry.sum);
                }
            }
        }
    }
}

/// What is known of a chunk that is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The snapshot number that its version carries.
    pub number: SnapshotId,
    /// The one that its first write carried.
    pub born: SnapshotId,
}

/// Entries of an open state.
#[derive(Debug)]
pub(super) struct PutChange {
    /// The newest snapshot of the state, and its version.
    pub to: SnapshotId,
    pub version: Version,
    /// Those with data get slots of their own; the others' slots are known, once it is ready.
    pub change: RollChange,
    /// One bit for each: it has data, wherever that comes from.
    pub has_sum: u32,
}

fn contains(range: BlockRange, block: BlockIndex) -> bool {
    (u32::from(range.first.0)..range.end()).contains(&u32::from(block.0))
}

/// Blocks get new data.
#[derive(Debug)]
pub(super) struct WriteChange {
    pub range: BlockRange,
    /// Where the payload begins in the chunk.
    pub offset_bytes: u32,
    pub payload: Slice,
    /// CRC-32C of each block (of each piece, until it is merged).
    pub sums: Sums,
    /// What is needed where the first or the last block is not whole.
    pub merge: Option<Box<Merge>>,
}

impl WriteChange {
    /// The first byte of the payload in its block.
    fn head(&self) -> usize {
        self.offset_bytes as usize % BLOCK
    }

    /// The part of block `which` (0: the first, 1: the last) that the payload covers, if not all of it:
    /// (the block's place in the range, first byte in the block, bytes, first byte in the payload).
    pub fn partial(&self, which: usize) -> Option<(u16, usize, usize, usize)> {
        let (head, length) = (self.head(), self.payload.len());
        let last = self.range.count - 1;
        match which {
            0 => {
                let bytes = length.min(BLOCK - head);
                (bytes < BLOCK).then_some((0, head, bytes, 0))
            }
            _ if last == 0 => None,
            _ => {
                let bytes = (head + length) - usize::from(last) * BLOCK;
                (bytes < BLOCK).then_some((last, 0, bytes, length - bytes))
            }
        }
    }

    fn block(&self, at: u16) -> Slice {
        if let Some(Merge {
            merged: [first, last], ..
        }) = self.merge.as_deref()
        {
            if at == 0 && !first.is_empty() {
                return first.clone();
            }
            if at == self.range.count - 1 && !last.is_empty() {
                return last.clone();
            }
        }
        let start = usize::from(at) * BLOCK - self.head();
        self.payload.slice(start..start + BLOCK)
    }

    fn slice(&self, at: usize) -> Option<Slice> {
        match (self.merge.as_deref(), at) {
            (None, 0) => Some(self.payload.clone()),
            (None, _) => None,
            (Some(merge), 1) => {
                let head = self.head();
                let start = if merge.merged[0].is_empty() {
                    0
                } else {
                    (BLOCK - head).min(self.payload.len())
                };
                let tail = if merge.merged[1].is_empty() {
                    0
                } else {
                    (head + self.payload.len()) % BLOCK
                };
                Some(self.payload.slice(start..self.payload.len() - tail))
            }
            (Some(merge), 0) => Some(merge.merged[0].clone()),
            (Some(merge), 2) => Some(merge.merged[1].clone()),
            _ => None,
        }
    }
}

/// A roll-forward, whole.
#[derive(Debug, Default)]
pub(super) struct RollChange {
    /// In order of their block; those that have data get their slots when they are logged.
    pub entries: Vec<RollEntry>,
    /// One bit each: has it data?
    pub with_data: Vec<bool>,
    /// The data, in order of the entries.
    pub payload: Vec<Slice>,
}

impl RollChange {
    /// How many blocks of data it has.
    pub fn blocks(&self) -> u32 {
        self.with_data.iter().filter(|&&data| data).count() as u32
    }

    fn block(&self, block: BlockIndex) -> Option<Slice> {
        let at = self.entries.iter().position(|entry| entry.block == block)?;
        if !self.with_data[at] {
            return Some(Slice::default());
        }
        let mut skip = self.with_data[..at].iter().filter(|&&data| data).count() * BLOCK;
        for slice in &self.payload {
            if skip < slice.len() {
                return Some(slice.slice(skip..skip + BLOCK));
            }
            skip -= slice.len();
        }
        unreachable!("the payload was measured when the roll-forward was accepted")
    }

    fn entry(&self, block: BlockIndex) -> Option<(Version, Option<u32>)> {
        let at = self.entries.iter().position(|entry| entry.block == block)?;
        let entry = self.entries[at];
        Some((entry.version, self.with_data[at].then_some(entry.sum)))
    }
}

/// A sub-block write on its way to whole blocks. Apart from the others' fields, because few writes need it and each
/// change is moved about.
#[derive(Debug, Default)]
pub(super) struct Merge {
    /// The first and the last block, where they are not whole in the payload, merged with what was there.
    pub merged: [Slice; 2],
    /// Memory for them while they are being merged.
    pub base: [Option<BufMut>; 2],
    /// The checksum that a base read from the disk must have.
    pub base_sum: [u32; 2],
    /// Bases being read.
    pub reading: u32,
    /// A base is damaged.
    pub damaged: Option<BlockIndex>,
}
