//! The bytes on the disk: types, sizes, encoding and checking. `docs/format.md` is normative; a change here is a change
//! there, and of [`FORMAT_VERSION`] where older programs would read it wrongly.
//!
//! Everything is little-endian. Every structure is a page of 4 KiB that begins with a magic number and ends with the
//! CRC-32C of all that comes before it:
//!
//! ```text
//!   0                                                      4092   4096
//!   +-------+---------+----------------------------------+------+
//!   | magic | version | ...                              | crc  |
//!   +-------+---------+----------------------------------+------+
//! ```
//!
//! The file, in order:
//!
//! ```text
//!   +--------------+--------------+-----+--------------+--------------+-----------------+
//!   | superblock A | superblock B | log | checkpoint 0 | checkpoint 1 | slots of 4 KiB  |
//!   | at 0         | at 32 KiB    |     |              |              |                 |
//!   +--------------+--------------+-----+--------------+--------------+-----------------+
//!   0                             64 KiB
//! ```

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod checkpoint;
mod disk;
pub mod geometry;
pub mod leaf;
mod mkfs;
pub mod page;
mod place;
pub mod record;
pub mod states;
pub mod superblock;

pub use disk::{Sealed, seal, sealed};
pub use geometry::{Geometry, MIN_STORE_BYTES, Slot};
pub use mkfs::{Format, FormatParams, format};
pub use place::Place;

use amita_types::BLOCK_BYTES;

/// The version of the format that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of a page: of the log, a checkpoint or a superblock; as many as a slot has.
pub const PAGE_BYTES: usize = BLOCK_BYTES as usize;

/// Where a page's checksum begins.
pub const PAGE_BODY_BYTES: usize = PAGE_BYTES - 4;

/// A count or a length that its page bounds.
fn narrow<T: TryFrom<usize>>(count: usize) -> T {
    T::try_from(count).unwrap_or_else(|_| panic!("a page bounds what it counts, and not {count}"))
}

#[cfg(test)]
mod tests;
