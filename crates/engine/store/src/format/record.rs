//! The records of the log.

use super::Slot;
use super::disk::on_disk;
use super::narrow;
use super::page::RECORDS_BYTES;
use amita_types::message::{MAX_MEMBERS, MAX_PIECES, MemberSet};
use amita_types::{
    BlockIndex, BlockRange, ChunkId, Epoch, Generation, GroupId, GroupIndex, NodeId, PoolId, SnapshotId, StoreId,
    Version, VolumeId,
};
use arrayvec::ArrayVec;
use std::ops::RangeInclusive;

mod reader;

pub use reader::RecordReader;

/// Kinds of records. 1 to 3 stood for what was dropped before the first release, and are not used again.
pub mod kind {
    /// A fence was adopted.
    pub const FENCE: u8 = 4;
    /// Blocks got data.
    pub const WRITE: u8 = 5;
    /// Blocks were cleared.
    pub const CLEAR: u8 = 6;
    /// A part of a roll-forward.
    pub const ROLL: u8 = 7;
    /// A snapshot of a chunk is not kept any more, or the chunk itself.
    pub const DROP: u8 = 8;
    /// A part of a clone.
    pub const CLONE: u8 = 9;
    /// The history of a chunk goes on at another version; the chunk is incomplete.
    pub const JOIN: u8 = 10;
    /// Entries of a chunk are replaced one by one.
    pub const MEND: u8 = 11;
    /// A chunk is whole again.
    pub const WHOLE: u8 = 12;
    /// An open state of a chunk is made.
    pub const FRAME: u8 = 13;
    /// Entries of an open state.
    pub const PUT: u8 = 14;
    /// An open state is closed; or, with a number at which it was born, the chunk is whole again.
    pub const CLOSE: u8 = 15;
    /// A chunk gets a mark.
    pub const MARK: u8 = 16;
}

/// Flag of an entry of an open state: its slot gets its first user. Without it a neighbour of the state uses it too.
pub const ENTRY_OWN: u16 = 1;

/// Flag of the last part of a roll-forward or a clone: with it the chunk has the new version.
pub const FLAG_LAST: u8 = 1;

on_disk! {
    /// What every record begins with.
    pub struct Head [4] {
        /// See [`kind`].
        kind: u8,
        /// [`FLAG_LAST`], or zero.
        flags: u8,
        /// Bytes of the record, these included.
        bytes: u16,
    }
}

on_disk! {
    /// A write or a clear, after its [`Head`]. A write goes on with `runs` times a [`RawRun`] and `count` checksums of
    /// four bytes, in the order of the blocks.
    pub struct Blocks [44] {
        volume: u64,
        chunk: u64,
        /// The version that the chunk gets.
        version: u64,
        /// The version that it had.
        previous: u64,
        first: u16,
        /// How many blocks.
        count: u16,
        /// How many runs of slots; 0 in a clear.
        runs: u16,
        /// Zero.
        reserved: u16,
        /// The volume's newest snapshot.
        snapshot: u32,
    }
}

on_disk! {
    /// Slots that follow one another.
    pub struct RawRun [8] {
        /// The first.
        slot: u32,
        count: u32,
    }
}

on_disk! {
    /// A part of a roll-forward, after its [`Head`]; goes on with `count` times a [`RawEntry`]. All parts lie in one
    /// batch, so all of them count or none.
    pub struct Roll [40] {
        volume: u64,
        chunk: u64,
        /// The version that the chunk gets, with the last part.
        version: u64,
        /// The version that it had.
        previous: u64,
        /// Entries that follow.
        count: u16,
        /// Zero.
        reserved: u16,
        /// The volume's newest snapshot.
        snapshot: u32,
    }
}

on_disk! {
    /// A part of a clone, after its [`Head`]; goes on with `count` times a [`RawEntry`], whose slots something else uses
    /// too. All parts lie in one batch.
    pub struct RawClone [44] {
        volume: u64,
        /// The chunk that is made.
        chunk: u64,
        /// Where its blocks were first written: the volume (rule D8).
        origin_volume: u64,
        origin_chunk: u64,
        /// The version that the chunk gets, with the last part.
        version: u64,
        /// Entries that follow.
        count: u16,
        /// Zero.
        reserved: u16,
    }
}

on_disk! {
    /// A snapshot of a chunk, a mark of it, or the chunk itself, is dropped; after its [`Head`].
    pub struct RawDrop [24] {
        volume: u64,
        chunk: u64,
        /// The newest snapshot that it was kept for; 0: the chunk itself.
        snapshot: u32,
        /// Not 0: the chunk is first kept as it is for the snapshots since its last change up to this one.
        kept_for: u32,
    }
}

on_disk! {
    /// A block's entry.
    pub struct RawEntry [20] {
        /// The version of the write that made it.
        version: u64,
        /// Where its data is; `u32::MAX`: cleared.
        slot: u32,
        /// CRC-32C of the block.
        sum: u32,
        block: u16,
        /// [`ENTRY_OWN`] in an open state; else zero.
        flags: u16,
    }
}

on_disk! {
    /// The history of a chunk goes on at another version (rule R5); after its [`Head`].
    pub struct RawJoin [48] {
        volume: u64,
        chunk: u64,
        /// The version that the next change follows.
        version: u64,
        /// The version that it had.
        previous: u64,
        /// The version at which it was last whole.
        base: u64,
        /// The volume's newest snapshot.
        snapshot: u32,
        /// Zero.
        reserved: u32,
    }
}

on_disk! {
    /// Entries that are replaced, after its [`Head`]; goes on with `count` times a [`RawEntry`]. All parts lie in one batch.
    pub struct RawMend [28] {
        volume: u64,
        chunk: u64,
        /// The chunk's version, which stays.
        version: u64,
        /// Entries that follow.
        count: u16,
        /// Zero.
        reserved: u16,
    }
}

on_disk! {
    /// A chunk is whole; after its [`Head`].
    pub struct RawWhole [24] {
        volume: u64,
        chunk: u64,
        /// The version at which it is.
        version: u64,
    }
}

on_disk! {
    /// An open state is made (S6); after its [`Head`].
    pub struct RawFrame [40] {
        volume: u64,
        chunk: u64,
        /// The chunk's version, which stays.
        version: u64,
        /// The state's version.
        state: u64,
        /// For the snapshots above this one
        above: u32,
        /// up to this one.
        to: u32,
    }
}

on_disk! {
    /// An open state gets entries (S6); after its [`Head`]. Goes on with `count` times a [`RawEntry`]. All parts lie in one
    /// batch.
    pub struct RawPut [32] {
        volume: u64,
        chunk: u64,
        /// The chunk's version, which stays.
        version: u64,
        /// The newest snapshot of the state.
        to: u32,
        /// Entries that follow.
        count: u16,
        /// Zero.
        reserved: u16,
    }
}

on_disk! {
    /// A state is closed (S6), or the chunk is whole; after its [`Head`].
    pub struct RawClose [32] {
        volume: u64,
        chunk: u64,
        /// The chunk's version, which stays.
        version: u64,
        /// The newest snapshot of the state; 0: the chunk itself.
        to: u32,
        /// Of the chunk itself: the volume's newest snapshot when it was made; else zero.
        born: u32,
    }
}

on_disk! {
    /// A chunk gets a mark: at which version it was for snapshots that are deleted (S6); after its [`Head`]. Where a state becomes one,
    /// the [`RawDrop`] that follows drops that.
    pub struct RawMark [32] {
        volume: u64,
        chunk: u64,
        /// The chunk's version then.
        version: u64,
        /// For the snapshots above this one
        above: u32,
        /// up to this one.
        to: u32,
    }
}

on_disk! {
    /// A fence, after its [`Head`]; goes on with `members` and then `syncing` times 16 bytes of store UUID.
    pub struct RawFence [40] {
        volume: u64,
        generation: u32,
        /// The node that owns it.
        owner: u32,
        pool: u32,
        /// The group's index in it.
        group: u32,
        /// The group's epoch.
        epoch: u64,
        /// Blocks of the pool's chunks.
        blocks_per_chunk: u16,
        /// How many in-sync stores follow.
        members: u16,
        /// How many stores follow that are being brought up to date.
        syncing: u16,
        /// Zero.
        reserved: u16,
    }
}

/// Slots that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub slot: Slot,
    pub count: u32,
}

/// A fence, as it is logged and kept in a checkpoint (rule R2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub volume: VolumeId,
    pub generation: Generation,
    /// Who owns it.
    pub owner: NodeId,
    pub group: GroupId,
    pub epoch: Epoch,
    /// Blocks of a chunk of the group's pool.
    pub blocks_per_chunk: u16,
    /// The in-sync stores.
    pub in_sync: MemberSet,
    /// The stores that are being brought up to date; with the others at most [`MAX_MEMBERS`].
    pub syncing: MemberSet,
}

impl Fence {
    /// With [`Generation::DELETED`] a fence says that volumes are deleted: from `volume` on, and as many more as `owner` says.
    #[must_use]
    pub fn deleted(&self) -> Option<RangeInclusive<VolumeId>> {
        deleted(self.volume, self.generation, self.owner)
    }
}

/// The volumes that a fence, or a checkpoint's line, says are deleted.
#[must_use]
pub fn deleted(volume: VolumeId, generation: Generation, more: NodeId) -> Option<RangeInclusive<VolumeId>> {
    let last = VolumeId(volume.0.saturating_add(u64::from(more.0)));
    (generation == Generation::DELETED).then_some(volume..=last)
}

/// A block's entry in a roll-forward, a clone or a mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollEntry {
    pub block: BlockIndex,
    /// The version of the write that made it.
    pub version: Version,
    /// Where its data is; [`Slot::NONE`]: cleared.
    pub slot: Slot,
    /// CRC-32C of the block, bound to its place.
    pub sum: u32,
}

/// At which version a chunk was for snapshots that are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// For the snapshots above this one
    pub above: SnapshotId,
    /// up to this one.
    pub to: SnapshotId,
    /// The chunk's version then.
    pub version: Version,
}

/// Entries of a roll-forward or a clone that fit one record.
pub const MAX_ROLL_ENTRIES: usize = (RECORDS_BYTES - Head::BYTES - RawClone::BYTES) / RawEntry::BYTES;
const _: () = assert!(Roll::BYTES <= RawClone::BYTES && RawMend::BYTES <= RawClone::BYTES);
const _: () = assert!(RawPut::BYTES <= RawClone::BYTES);

/// The most bytes of one record; it fits a page.
pub const MAX_RECORD_BYTES: usize = Head::BYTES + Blocks::BYTES + MAX_PIECES * (RawRun::BYTES + 4);
const _: () = assert!(MAX_RECORD_BYTES <= RECORDS_BYTES);
const _: () = assert!(Head::BYTES + RawFence::BYTES + MAX_MEMBERS * 16 <= MAX_RECORD_BYTES);

/// A record, read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Blocks got data.
    Write {
        chunk: ChunkId,
        /// The version that it gets.
        version: Version,
        /// The version that it had.
        previous: Version,
        /// The volume's newest snapshot.
        snapshot: SnapshotId,
        range: BlockRange,
        /// Where the data is: as many slots as blocks.
        runs: ArrayVec<Run, MAX_PIECES>,
        /// CRC-32C of each block, bound to its place.
        sums: ArrayVec<u32, MAX_PIECES>,
    },
    /// Blocks were cleared.
    Clear {
        chunk: ChunkId,
        /// The version that it gets.
        version: Version,
        /// The version that it had.
        previous: Version,
        /// The volume's newest snapshot.
        snapshot: SnapshotId,
        range: BlockRange,
    },
    /// A part of a roll-forward.
    Roll {
        chunk: ChunkId,
        /// The version that it gets with the last part.
        version: Version,
        /// The version that it had.
        previous: Version,
        /// The volume's newest snapshot.
        snapshot: SnapshotId,
        entries: Vec<RollEntry>,
        /// Is it the last part?
        last: bool,
    },
    /// A part of a clone.
    Clone {
        /// The chunk that is made.
        chunk: ChunkId,
        /// Where its blocks were first written.
        origin: ChunkId,
        /// The version that it gets with the last part.
        version: Version,
        /// The entries; something else uses their slots too.
        entries: Vec<RollEntry>,
        /// Is it the last part?
        last: bool,
    },
    /// A snapshot of a chunk, or the chunk itself, is dropped.
    Drop {
        chunk: ChunkId,
        /// The newest snapshot that it was kept for; [`SnapshotId::HEAD`]: the chunk itself.
        snapshot: SnapshotId,
        /// Not [`SnapshotId::HEAD`]: the chunk is first kept as it is, for the snapshots up to this one.
        kept_for: SnapshotId,
    },
    /// A fence was adopted.
    Fence(Fence),
    /// The history of a chunk goes on at another version.
    Join {
        chunk: ChunkId,
        /// The version that the next change follows.
        version: Version,
        /// The version that it had.
        previous: Version,
        /// The version at which it was last whole.
        base: Version,
        /// The volume's newest snapshot.
        snapshot: SnapshotId,
    },
    /// A part of a mend.
    Mend {
        chunk: ChunkId,
        /// Its version, which stays.
        version: Version,
        /// The new entries. With [`Version::NONE`]: as if the block had never been written.
        entries: Vec<RollEntry>,
    },
    /// A chunk is whole.
    Whole {
        chunk: ChunkId,
        version: Version,
        /// The volume's newest snapshot when it was made, where that was not known.
        born: Option<SnapshotId>,
    },
    /// An open state is made.
    Frame {
        chunk: ChunkId,
        /// Its version, which stays.
        version: Version,
        above: SnapshotId,
        to: SnapshotId,
        /// The state's version.
        state: Version,
    },
    /// An open state gets entries.
    Put {
        chunk: ChunkId,
        /// Its version, which stays.
        version: Version,
        to: SnapshotId,
        entries: Vec<RollEntry>,
        /// Of each: its slot gets its first user.
        own: Vec<bool>,
    },
    /// A state is closed.
    Close {
        chunk: ChunkId,
        /// Its version, which stays.
        version: Version,
        to: SnapshotId,
    },
    /// A chunk gets a mark.
    Mark { chunk: ChunkId, mark: Mark },
}

/// Bytes that a write of `blocks` blocks in `runs` runs takes.
#[must_use]
pub fn write_bytes(blocks: usize, runs: usize) -> usize {
    Head::BYTES + Blocks::BYTES + runs * RawRun::BYTES + blocks * 4
}

/// Bytes that a roll-forward of `entries` entries takes as one record.
#[must_use]
pub fn roll_bytes(entries: usize) -> usize {
    Head::BYTES + Roll::BYTES + entries * RawEntry::BYTES
}

/// Bytes that a clone of `entries` entries takes as one record.
#[must_use]
pub fn clone_bytes(entries: usize) -> usize {
    Head::BYTES + RawClone::BYTES + entries * RawEntry::BYTES
}

/// Bytes that a mend of `entries` entries takes as one record.
#[must_use]
pub fn mend_bytes(entries: usize) -> usize {
    Head::BYTES + RawMend::BYTES + entries * RawEntry::BYTES
}

/// Bytes that a drop takes.
pub const DROP_BYTES: usize = Head::BYTES + RawDrop::BYTES;
/// Bytes that a join takes.
pub const JOIN_BYTES: usize = Head::BYTES + RawJoin::BYTES;
/// Bytes that it takes to say that a chunk is whole.
pub const WHOLE_BYTES: usize = Head::BYTES + RawWhole::BYTES;

/// Bytes that a frame takes.
pub const FRAME_BYTES: usize = Head::BYTES + RawFrame::BYTES;
/// Bytes that it takes to say that a state is closed, or a chunk whole that was born at a number.
pub const CLOSE_BYTES: usize = Head::BYTES + RawClose::BYTES;

/// Bytes that a mark takes.
pub const MARK_BYTES: usize = Head::BYTES + RawMark::BYTES;

/// Bytes that `entries` entries of a state take.
#[must_use]
pub fn put_bytes(entries: usize) -> usize {
    Head::BYTES + RawPut::BYTES + entries * RawEntry::BYTES
}

/// What a record says of its chunk.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub chunk: ChunkId,
    /// The version that it gets.
    pub version: Version,
    /// The version that it had.
    pub previous: Version,
    /// The volume's newest snapshot.
    pub snapshot: SnapshotId,
}

/// Appends records to a page's space for them.
#[derive(Debug)]
pub struct RecordWriter<'a> {
    out: &'a mut [u8],
    at: usize,
    records: u16,
}

impl<'a> RecordWriter<'a> {
    /// Writes into `out`, from `at` on; `records` are there already.
    #[must_use]
    pub fn resume(out: &'a mut [u8], at: usize, records: u16) -> RecordWriter<'a> {
        RecordWriter { out, at, records }
    }

    /// Bytes used and records written.
    #[must_use]
    pub fn used(&self) -> (usize, u16) {
        (self.at, self.records)
    }

    /// Is there space for `bytes` more?
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.at + bytes <= self.out.len().min(RECORDS_BYTES)
    }

    fn head(&mut self, kind: u8, flags: u8, bytes: usize) {
        assert!(self.fits(bytes), "the caller has seen to the space");
        Head {
            kind,
            flags,
            bytes: narrow(bytes),
        }
        .put(&mut self.out[self.at..]);
        self.at += Head::BYTES;
        self.records += 1;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// A write; `sums` has one for each block of `range`.
    pub fn write(&mut self, change: &Change, range: BlockRange, runs: &[Run], sums: &[u32]) {
        assert_eq!(usize::from(range.count), sums.len(), "a checksum for each block");
        debug_assert_eq!(runs.iter().map(|run| run.count as usize).sum::<usize>(), sums.len());
        self.head(kind::WRITE, 0, write_bytes(sums.len(), runs.len()));
        self.blocks(change, range, runs.len());
        for run in runs {
            RawRun {
                slot: run.slot.0,
                count: run.count,
            }
            .put(&mut self.out[self.at..]);
            self.at += RawRun::BYTES;
        }
        for sum in sums {
            self.bytes(&sum.to_le_bytes());
        }
    }

    pub fn clear(&mut self, change: &Change, range: BlockRange) {
        self.head(kind::CLEAR, 0, Head::BYTES + Blocks::BYTES);
        self.blocks(change, range, 0);
    }

    fn blocks(&mut self, change: &Change, range: BlockRange, runs: usize) {
        Blocks {
            volume: change.chunk.volume.0,
            chunk: change.chunk.index.0,
            version: change.version.0,
            previous: change.previous.0,
            first: range.first.0,
            count: range.count,
            runs: narrow(runs),
            reserved: 0,
            snapshot: change.snapshot.0,
        }
        .put(&mut self.out[self.at..]);
        self.at += Blocks::BYTES;
    }

    /// A part of a roll-forward.
    pub fn roll(&mut self, change: &Change, entries: &[RollEntry], last: bool) {
        let flags = if last { FLAG_LAST } else { 0 };
        self.head(kind::ROLL, flags, roll_bytes(entries.len()));
        Roll {
            volume: change.chunk.volume.0,
            chunk: change.chunk.index.0,
            version: change.version.0,
            previous: change.previous.0,
            count: narrow(entries.len()),
            reserved: 0,
            snapshot: change.snapshot.0,
        }
        .put(&mut self.out[self.at..]);
        self.at += Roll::BYTES;
        self.entries(entries);
    }

    /// A part of a clone.
    pub fn clone(&mut self, chunk: ChunkId, origin: ChunkId, version: Version, entries: &[RollEntry], last: bool) {
        let flags = if last { FLAG_LAST } else { 0 };
        self.head(kind::CLONE, flags, clone_bytes(entries.len()));
        RawClone {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            origin_volume: origin.volume.0,
            origin_chunk: origin.index.0,
            version: version.0,
            count: narrow(entries.len()),
            reserved: 0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawClone::BYTES;
        self.entries(entries);
    }

    fn entries(&mut self, entries: &[RollEntry]) {
        self.flagged(entries, std::iter::repeat(0));
    }

    fn flagged(&mut self, entries: &[RollEntry], flags: impl Iterator<Item = u16>) {
        for (entry, flags) in entries.iter().zip(flags) {
            RawEntry {
                version: entry.version.0,
                slot: entry.slot.0,
                sum: entry.sum,
                block: entry.block.0,
                flags,
            }
            .put(&mut self.out[self.at..]);
            self.at += RawEntry::BYTES;
        }
    }

    /// A snapshot of a chunk is dropped, or the chunk itself.
    pub fn drop(&mut self, chunk: ChunkId, snapshot: SnapshotId, kept_for: SnapshotId) {
        assert!(
            snapshot == SnapshotId::HEAD || kept_for == SnapshotId::HEAD,
            "only of the chunk itself a state is made"
        );
        self.head(kind::DROP, 0, DROP_BYTES);
        RawDrop {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            snapshot: snapshot.0,
            kept_for: kept_for.0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawDrop::BYTES;
    }

    /// The history of a chunk goes on at another version; it was last whole at `base`.
    pub fn join(&mut self, change: &Change, base: Version) {
        self.head(kind::JOIN, 0, JOIN_BYTES);
        RawJoin {
            volume: change.chunk.volume.0,
            chunk: change.chunk.index.0,
            version: change.version.0,
            previous: change.previous.0,
            base: base.0,
            snapshot: change.snapshot.0,
            reserved: 0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawJoin::BYTES;
    }

    /// A part of a mend.
    pub fn mend(&mut self, chunk: ChunkId, version: Version, entries: &[RollEntry]) {
        self.head(kind::MEND, 0, mend_bytes(entries.len()));
        RawMend {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            version: version.0,
            count: narrow(entries.len()),
            reserved: 0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawMend::BYTES;
        self.entries(entries);
    }

    /// A chunk is whole.
    pub fn whole(&mut self, chunk: ChunkId, version: Version) {
        self.head(kind::WHOLE, 0, WHOLE_BYTES);
        RawWhole {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            version: version.0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawWhole::BYTES;
    }

    /// A chunk is whole; it was made when `born` was the volume's newest snapshot.
    pub fn whole_born(&mut self, chunk: ChunkId, version: Version, born: SnapshotId) {
        self.close_of(chunk, version, SnapshotId::HEAD, born);
    }

    /// A state is closed.
    pub fn close(&mut self, chunk: ChunkId, version: Version, to: SnapshotId) {
        self.close_of(chunk, version, to, SnapshotId::HEAD);
    }

    fn close_of(&mut self, chunk: ChunkId, version: Version, to: SnapshotId, born: SnapshotId) {
        self.head(kind::CLOSE, 0, CLOSE_BYTES);
        RawClose {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            version: version.0,
            to: to.0,
            born: born.0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawClose::BYTES;
    }

    /// An open state is made, of version `state`.
    pub fn frame(&mut self, chunk: ChunkId, version: Version, (above, to): (SnapshotId, SnapshotId), state: Version) {
        self.head(kind::FRAME, 0, FRAME_BYTES);
        RawFrame {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            version: version.0,
            state: state.0,
            above: above.0,
            to: to.0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawFrame::BYTES;
    }

    /// An open state gets entries; slots of those in `own` get their first user.
    pub fn put(&mut self, chunk: ChunkId, version: Version, to: SnapshotId, entries: &[RollEntry], own: &[bool]) {
        self.head(kind::PUT, 0, put_bytes(entries.len()));
        RawPut {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            version: version.0,
            to: to.0,
            count: narrow(entries.len()),
            reserved: 0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawPut::BYTES;
        let flag = |own: &bool| if *own { ENTRY_OWN } else { 0 };
        self.flagged(entries, own.iter().map(flag));
    }

    /// A chunk gets a mark.
    pub fn mark(&mut self, chunk: ChunkId, mark: &Mark) {
        self.head(kind::MARK, 0, MARK_BYTES);
        RawMark {
            volume: chunk.volume.0,
            chunk: chunk.index.0,
            version: mark.version.0,
            above: mark.above.0,
            to: mark.to.0,
        }
        .put(&mut self.out[self.at..]);
        self.at += RawMark::BYTES;
    }

    pub fn fence(&mut self, fence: &Fence) {
        self.head(kind::FENCE, 0, fence_bytes(fence));
        let end = self.at + fence_bytes(fence) - Head::BYTES;
        put_fence(fence, &mut self.out[self.at..end]);
        self.at = end;
    }
}

/// Bytes that a fence takes as a record.
#[must_use]
pub fn fence_bytes(fence: &Fence) -> usize {
    Head::BYTES + RawFence::BYTES + (fence.in_sync.len() + fence.syncing.len()) * 16
}

/// Writes a fence without its head.
pub(super) fn put_fence(fence: &Fence, out: &mut [u8]) {
    RawFence {
        volume: fence.volume.0,
        generation: fence.generation.0,
        owner: fence.owner.0,
        pool: fence.group.pool.0,
        group: fence.group.index.0,
        epoch: fence.epoch.0,
        blocks_per_chunk: fence.blocks_per_chunk,
        members: narrow(fence.in_sync.len()),
        syncing: narrow(fence.syncing.len()),
        reserved: 0,
    }
    .put(out);
    let members = fence.in_sync.iter().chain(&fence.syncing);
    for (member, place) in members.zip(out[RawFence::BYTES..].chunks_exact_mut(16)) {
        place.copy_from_slice(&member.0.to_le_bytes());
    }
}

/// Reads a fence without its head.
pub(super) fn get_fence(bytes: &[u8]) -> Result<Fence, &'static str> {
    let raw = RawFence::get(bytes).ok_or("a fence is cut off")?;
    let members = &bytes[RawFence::BYTES..];
    let count = usize::from(raw.members) + usize::from(raw.syncing);
    if count > MAX_MEMBERS || members.len() != count * 16 {
        return Err("a fence names too many members, or is cut off");
    }
    let (in_sync, syncing) = members.split_at(usize::from(raw.members) * 16);
    if raw.generation > Generation::MAX.0 {
        return Err("a fence has an impossible generation");
    }
    let blocks = u32::from(raw.blocks_per_chunk);
    if !blocks.is_power_of_two() || blocks > amita_types::MAX_BLOCKS_PER_CHUNK {
        return Err("a fence has an impossible number of blocks in a chunk");
    }
    let id = |bytes: &[u8]| StoreId(u128::from_le_bytes(bytes.try_into().expect("cut into 16")));
    Ok(Fence {
        volume: VolumeId(raw.volume),
        generation: Generation(raw.generation),
        owner: NodeId(raw.owner),
        group: GroupId {
            pool: PoolId(raw.pool),
            index: GroupIndex(raw.group),
        },
        epoch: Epoch(raw.epoch),
        blocks_per_chunk: raw.blocks_per_chunk,
        in_sync: in_sync.chunks_exact(16).map(id).collect(),
        syncing: syncing.chunks_exact(16).map(id).collect(),
    })
}
