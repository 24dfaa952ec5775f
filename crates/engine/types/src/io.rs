//! One I/O of a volume: what is asked, what it brings back, why it was not done. What front ends, nodes and sequencers say
//! to one another.

pub use crate::changed::{CHANGED_CHUNKS, CHANGED_CHUNKS_BYTES, ChangedChunks, ChangedSearch};
use crate::id::SnapshotId;
use amita_reactor::Slice;

/// One I/O. Offsets and lengths are bytes of the volume; it lies inside one chunk (the front end cuts longer ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads any range of 1 to `MAX_IO_BYTES` bytes that touches at most `MAX_IO_BLOCKS` blocks.
    Read {
        /// The first byte.
        offset: u64,
        /// How many.
        length: u32,
    },
    /// Writes the payload: any range of 1 to `MAX_IO_BYTES` bytes; of an encrypted volume one that touches at most `MAX_IO_BLOCKS` blocks. Durable when
    /// it is done.
    Write {
        /// The first byte.
        offset: u64,
        /// How many; the payload's length.
        length: u32,
    },
    /// Unmaps whole blocks: they read as zeros and take no space. Durable when it is done. One of no bytes changes nothing,
    /// and ends as a write would: it tells whether there is an owner that lets this host write.
    Clear {
        /// The first byte: a multiple of the block.
        offset: u64,
        /// How many: a multiple of the block.
        length: u64,
    },
    /// Writes the second half of the payload if the range holds the first half, as one step that no other I/O comes
    /// between; else ends in [`IoError::Miscompare`]. A range of 1 to half of `MAX_IO_BYTES` bytes. Durable when it is done.
    CompareAndWrite {
        /// The first byte.
        offset: u64,
        /// How many: half of the payload's length.
        length: u32,
    },
    /// Which blocks of the chunk that holds this byte are allocated?
    Allocation {
        /// Any byte of the chunk.
        offset: u64,
    },
    /// Which blocks of the chunk that holds this byte were changed since a snapshot, and have those data?
    Differ {
        /// Any byte of the chunk.
        offset: u64,
        /// An older snapshot than the one that is looked at, sealed.
        since: SnapshotId,
    },
    /// Which chunks may have been changed in a snapshot since an older one? Whoever sequences the chunk that holds this byte answers for those that it
    /// sequences of that chunk's [window](ChangedChunks), by what it has in memory.
    ChangedChunks {
        /// Any byte of the chunk.
        offset: u64,
        /// An older snapshot than the one that is looked at, sealed.
        since: SnapshotId,
    },
}

impl Op {
    /// The first byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match *self {
            Op::Read { offset, .. }
            | Op::Write { offset, .. }
            | Op::Clear { offset, .. }
            | Op::CompareAndWrite { offset, .. }
            | Op::Allocation { offset }
            | Op::Differ { offset, .. }
            | Op::ChangedChunks { offset, .. } => offset,
        }
    }

    /// How many bytes it covers; none for what asks which blocks or chunks there are.
    #[must_use]
    pub fn length(&self) -> u64 {
        match *self {
            Op::Read { length, .. } | Op::Write { length, .. } | Op::CompareAndWrite { length, .. } => {
                u64::from(length)
            }
            Op::Clear { length, .. } => length,
            Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => 0,
        }
    }

    /// Does it change the volume?
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. })
    }
}

/// What an I/O brings back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: a write, a clear, or an error.
    #[default]
    None,
    /// The bytes that were asked for.
    Data(Slice),
    /// That many bytes that are all zero (nothing of the range is allocated).
    Zeros(u32),
    /// One bit a block of the chunk, set where it has data; word 0 holds blocks 0 to 63, from its lowest bit.
    Allocation(Box<[u64; 16]>),
    /// What [`Op::Differ`] asks for.
    Differs(Box<Differs>),
}

/// The blocks of a chunk, one bit each as in [`Payload::Allocation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// Changed since: written, or unmapped, even if with what they held.
    pub changed: [u64; 16],
    /// Of those, what has data; the others are zeros.
    pub allocated: [u64; 16],
}

/// Why an I/O was not done. A write that failed with [`IoError::Lost`] or [`IoError::Closed`] may or may not have happened; one that
/// failed otherwise has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// Beyond the volume's end, or across a chunk's border.
    #[error("the range lies outside the volume or crosses a chunk's border; ask for what the volume's size allows")]
    OutOfRange,
    /// Empty, too long, not of whole blocks where it must be, or a payload of another length.
    #[error("the request is empty, too long or not of whole blocks; the front end must cut it")]
    Invalid,
    /// A store that the write must reach has no space left.
    #[error("no space left on a store that holds this part of the volume; add disks, or trim what is not needed")]
    NoSpace,
    /// The volume is opened for reading only.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// Another gateway owns the volume now, or it was closed: what was under way may or may not have been done.
    #[error("the volume was taken over by another gateway, or closed, while this was under way; open it again")]
    Lost,
    /// No copy can be served at all. (Too few copies for a write is a wait and not this.)
    #[error("no copy of this part of the volume can be reached; bring a store that holds it back")]
    Unavailable,
    /// Every copy fails its checksum.
    #[error("no intact copy of this part of the volume was found; see the log for the stores and blocks concerned")]
    Damaged,
    /// The range does not hold what it was compared with; nothing was written.
    #[error("the data differs from what it was compared with; nothing was written")]
    Miscompare,
    /// Another host has reserved the volume.
    #[error("another host has reserved the volume; see `amita volume reservation`")]
    Reserved,
    /// The volume is closed to hosts, for it is an end of a mirror that is not the one that is written (decision 081). That is no matter of the way to
    /// it: whoever asks again by another one, or keeps what it has until it is let in, would write over what the other end has acknowledged since.
    #[error(
        "the volume is closed to hosts: this cluster is not the end of its mirror that is written; see `amita mirror list`"
    )]
    Closed,
    /// More is under way than the volume may queue; ask again.
    #[error("too many requests are under way on this volume; wait for some to end")]
    Busy,
}
