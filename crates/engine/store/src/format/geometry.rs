//! Where the regions of a store lie.

use super::{PAGE_BYTES, superblock};
use crate::error::FormatError;
use std::fmt;

/// The number of a slot: 4 KiB of data. 32 bits: at most 16 TiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// No slot: the entry of a block that was cleared.
    pub const NONE: Slot = Slot(u32::MAX);

    /// The slot `count` further on.
    #[must_use]
    pub fn plus(self, count: u32) -> Slot {
        Slot(self.0 + count)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fewest slots of a store: less is no store but a toy.
pub const MIN_SLOTS: u32 = 64;
/// The most slots: [`Slot::NONE`] is none.
pub const MAX_SLOTS: u64 = u32::MAX as u64;
/// The fewest pages of the log: it must hold what can be in flight while a checkpoint is written.
pub const MIN_LOG_PAGES: u64 = 64;
/// The most pages of the log (8 GiB): it bounds the time of a mount.
pub const MAX_LOG_PAGES: u64 = 2 << 20;
/// A log has this part of the file: large enough that a whole checkpoint is a small part of what is written between
/// two of them.
const LOG_PART: u64 = 32;
/// Bytes of each checkpoint area for each slot: 16 of an entry, and half as many again for headers and the entries of
/// cleared blocks.
const CHECKPOINT_BYTES_PER_SLOT: u64 = 24;
/// Pages of each checkpoint area on top of that: fences, and the chunks of a store that is small.
const CHECKPOINT_EXTRA_PAGES: u64 = 16;
/// Bytes before the log: the superblocks, and space for what later formats need.
pub const HEAD_BYTES: u64 = 64 << 10;
/// The smallest store that can be formatted, in bytes.
pub const MIN_STORE_BYTES: u64 = 1 << 20;

const PAGE: u64 = PAGE_BYTES as u64;

/// The regions of a store, in bytes from the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Where the log begins.
    pub log_offset: u64,
    pub log_pages: u64,
    /// Where the two checkpoint areas begin.
    pub checkpoint_offsets: [u64; 2],
    pub checkpoint_pages: u64,
    /// Where the slots begin.
    pub slots_offset: u64,
    pub slots: u32,
}

impl Geometry {
    /// Divides a file of `size_bytes`. `log_bytes` overrides the size of the log (tests, and disks for which somebody
    /// knows better).
    pub fn divide(size_bytes: u64, log_bytes: Option<u64>) -> Result<Geometry, FormatError> {
        if !size_bytes.is_multiple_of(PAGE) {
            return Err(FormatError::NotWholeBlocks {
                size_bytes,
                rounded_bytes: size_bytes / PAGE * PAGE,
            });
        }
        let too_small = |least_bytes| FormatError::TooSmall {
            size_bytes,
            least_bytes,
        };
        if size_bytes < MIN_STORE_BYTES {
            return Err(too_small(MIN_STORE_BYTES));
        }
        let log_pages = log_bytes.unwrap_or(size_bytes / LOG_PART) / PAGE;
        let log_pages = log_pages.clamp(MIN_LOG_PAGES, MAX_LOG_PAGES);
        let fixed = HEAD_BYTES + log_pages * PAGE + 2 * (CHECKPOINT_EXTRA_PAGES + 1) * PAGE;
        let per_slot = PAGE + 2 * CHECKPOINT_BYTES_PER_SLOT;
        let slots = size_bytes.saturating_sub(fixed) / per_slot;
        if slots < u64::from(MIN_SLOTS) {
            return Err(too_small(
                (fixed + u64::from(MIN_SLOTS) * per_slot).next_multiple_of(PAGE),
            ));
        }
        if slots > MAX_SLOTS {
            return Err(FormatError::TooLarge {
                size_bytes,
                most_bytes: (fixed + MAX_SLOTS * per_slot) / PAGE * PAGE,
            });
        }
        let checkpoint_pages = (slots * CHECKPOINT_BYTES_PER_SLOT).div_ceil(PAGE) + CHECKPOINT_EXTRA_PAGES;
        let first = HEAD_BYTES + log_pages * PAGE;
        let second = first + checkpoint_pages * PAGE;
        let geometry = Geometry {
            size_bytes,
            log_offset: HEAD_BYTES,
            log_pages,
            checkpoint_offsets: [first, second],
            checkpoint_pages,
            slots_offset: second + checkpoint_pages * PAGE,
            slots: u32::try_from(slots).expect("a division obeys its own rules"),
        };
        geometry.check().expect("a division obeys its own rules");
        Ok(geometry)
    }

    /// Is it one that a store can have? Says what is wrong. (The superblock comes from a disk.)
    pub fn check(&self) -> Result<(), &'static str> {
        let end = |offset: u64, pages: u64| pages.checked_mul(PAGE).and_then(|bytes| offset.checked_add(bytes));
        let offsets = [
            self.log_offset,
            self.checkpoint_offsets[0],
            self.checkpoint_offsets[1],
            self.slots_offset,
        ];
        if !self.size_bytes.is_multiple_of(PAGE) || offsets.iter().any(|offset| !offset.is_multiple_of(PAGE)) {
            return Err("a region does not begin at a multiple of 4096");
        }
        if self.log_offset < superblock::OFFSETS[1] + PAGE {
            return Err("the log overlaps the superblocks");
        }
        if !(MIN_LOG_PAGES..=MAX_LOG_PAGES).contains(&self.log_pages) || self.checkpoint_pages == 0 {
            return Err("the log or the checkpoints have an impossible size");
        }
        if self.slots < MIN_SLOTS || u64::from(self.slots) > MAX_SLOTS {
            return Err("the number of slots is impossible");
        }
        let regions = [
            (self.log_offset, self.log_pages, self.checkpoint_offsets[0]),
            (
                self.checkpoint_offsets[0],
                self.checkpoint_pages,
                self.checkpoint_offsets[1],
            ),
            (self.checkpoint_offsets[1], self.checkpoint_pages, self.slots_offset),
            (self.slots_offset, u64::from(self.slots), self.size_bytes),
        ];
        for (offset, pages, next) in regions {
            if end(offset, pages).is_none_or(|end| end > next) {
                return Err("two regions overlap, or one reaches beyond the end");
            }
        }
        Ok(())
    }

    /// Where the log's page `sequence` lies.
    #[must_use]
    pub fn log_page_offset(&self, sequence: u64) -> u64 {
        self.log_offset + sequence % self.log_pages * PAGE
    }

    /// Where a slot lies.
    #[must_use]
    pub fn slot_offset(&self, slot: Slot) -> u64 {
        assert!(slot.0 < self.slots, "slot {slot} of {}", self.slots);
        self.slots_offset + u64::from(slot.0) * PAGE
    }

    /// Bytes for data.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.slots) * PAGE
    }
}
