//! A page of the log.
//!
//! Pages are numbered without end; page `n` lies at place `n % pages` of the circular log. One *batch* is what one pass
//! of the reactor wrote: one or several pages that follow one another, valid only together.

use super::disk::on_disk;
use super::{FORMAT_VERSION, PAGE_BODY_BYTES, PAGE_BYTES, Sealed, sealed};
use amita_types::StoreId;

/// The first four bytes of a page of the log.
pub const MAGIC: u32 = u32::from_le_bytes(*b"ALOG");

/// Bytes of records that fit a page.
pub const RECORDS_BYTES: usize = PAGE_BODY_BYTES - Header::BYTES;

/// The most pages of one batch. Bounds what is in flight, and so how far behind the verified mark can be.
pub const MAX_BATCH_PAGES: usize = 32;

on_disk! {
    /// The header of a page of the log.
    ///
    /// ```text
    ///   0 magic "ALOG"     4 version   8 store UUID (low half)   16 mount number    24 sequence
    ///  32 verified mark   40 checksum of the page before        44 index in the batch
    ///  46 pages of the batch          48 bytes of records       50 records
    ///  52 reserved        56 records ...                        4092 crc
    /// ```
    pub struct Header [56] {
        /// [`MAGIC`].
        magic: u32,
        /// [`FORMAT_VERSION`] of the writer.
        version: u32,
        /// The low half of the store's UUID: a page of another store is none.
        store: u64,
        /// The number of the mount that wrote it (D2).
        mount: u64,
        /// The page's number.
        sequence: u64,
        /// Every page below this one, and its data, was durable when this page was written (D1, D4).
        mark: u64,
        /// The checksum of page `sequence - 1` (D2).
        previous_sum: u32,
        /// This page's place in its batch.
        index: u16,
        /// How many pages the batch has.
        pages: u16,
        /// Bytes of records that follow.
        used: u16,
        /// How many records they are.
        records: u16,
        /// Zero.
        reserved: u32,
    }
}

/// A page of the log that was found valid for its place.
#[derive(Clone, Copy, Debug)]
pub struct LogPage<'a> {
    pub header: Header,
    pub records: &'a [u8],
    /// The page's checksum: its successor names it.
    pub sum: u32,
}

/// What identifies a store's own pages.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the low half is the tag")]
pub fn tag(store: StoreId) -> u64 {
    store.0 as u64
}

impl<'a> LogPage<'a> {
    /// Reads a page that came from a disk: checksum, magic, version, store and sizes are checked; the place in the
    /// chain is the caller's to check. `None` when it is no page of this store's log.
    #[must_use]
    pub fn decode(page: &'a [u8], store: StoreId) -> Option<LogPage<'a>> {
        // The magic first: it is cheap, and most places of a fresh log have none.
        let header = Header::get(page)?;
        if page.len() != PAGE_BYTES || header.magic != MAGIC {
            return None;
        }
        let Sealed { body, sum } = sealed(page)?;
        let right = header.version <= FORMAT_VERSION
            && header.store == tag(store)
            && header.pages > 0
            && header.pages as usize <= MAX_BATCH_PAGES
            && header.index < header.pages
            && header.mark <= header.sequence;
        let records = body.get(Header::BYTES..Header::BYTES + usize::from(header.used))?;
        right.then_some(LogPage { header, records, sum })
    }
}
