//! What a disk is, and how it fails.

use std::ops::Range;
use std::time::Duration;

/// What is beneath a disk's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// A device. What was discarded reads as anything.
    #[default]
    Device,
    /// A regular file that has been written full. A discard makes a hole in it.
    File,
    /// A regular file of which nothing has been written: all of it is one hole.
    SparseFile,
}

/// A new disk.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    pub size_bytes: u64,
    /// Offsets and lengths are multiples of this, in bytes.
    pub alignment: u32,
    /// Are completed writes lost by a power cut unless flushed?
    pub volatile_cache: bool,
    /// What [`FileInfo::inline`](crate::FileInfo::inline) says.
    pub inline: bool,
    /// Device or file.
    pub backing: Backing,
    /// Shortest and longest read (without the tail).
    pub read: (Duration, Duration),
    /// Shortest and longest write.
    pub write: (Duration, Duration),
    /// Shortest and longest flush.
    pub flush: (Duration, Duration),
    /// Shortest and longest discard; None where the disk knows none.
    pub discard: Option<(Duration, Duration)>,
}

impl DiskConfig {
    /// An ordinary flash disk of a size, with a volatile cache.
    #[must_use]
    pub fn flash(size_bytes: u64) -> DiskConfig {
        let micros = |low, high| (Duration::from_micros(low), Duration::from_micros(high));
        DiskConfig {
            size_bytes,
            alignment: 4096,
            volatile_cache: true,
            inline: false,
            backing: Backing::Device,
            read: micros(40, 120),
            write: micros(10, 100),
            flush: micros(50, 500),
            discard: Some(micros(50, 2000)),
        }
    }
}

/// How a disk fails from now on. Chances are per mille of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Reads that fail.
    pub read_errors: u32,
    /// Writes that fail: all, nothing or some sectors are there.
    pub write_errors: u32,
    /// Writes for which there is no space (`StorageFull`): a first part of them, or nothing, is there.
    pub no_space: u32,
    /// Writes that end short (`WriteZero`): a first part of them, or nothing, is there.
    pub short_writes: u32,
    /// Flushes that fail.
    pub flush_errors: u32,
    /// Discards that fail.
    pub discard_errors: u32,
    /// Writes that go to another place.
    pub misdirected: u32,
    /// Writes that do nothing.
    pub lost: u32,
    /// Reads that find a bit of what they read rotten, for good.
    pub bit_rot: u32,
    /// Reads that touch one of these ranges (bytes) fail; a write there heals what it covers.
    pub unreadable: Vec<Range<u64>>,
    /// The first read that touches one of these ranges (bytes) finds a bit of it rotten, for good; a write that covers
    /// the range before that heals it.
    pub rotten: Vec<Range<u64>>,
    /// Reads that hang when they should end, until this is zero again; their process's end ends them, too.
    pub read_hangs: u32,
    /// Writes, flushes and discards that do.
    pub write_hangs: u32,
    /// What a failed flush did not make durable is still read, as Linux's cache has it (its pages are clean then): no later
    /// flush brings it to the disk, and a power cut takes it.
    pub ghosts: bool,
    /// Every operation takes this many times as long (0 and 1: no change).
    pub slow_factor: u32,
}
