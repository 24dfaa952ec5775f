//! The superblocks: what the store is, where everything lies, and from where to replay.

use super::disk::on_disk;
use super::{FORMAT_VERSION, Geometry, PAGE_BYTES, narrow, seal, sealed};
use amita_types::{ClusterId, StoreId};

/// Where the two superblocks lie, in bytes. They hold the same: a change is written to the first, flushed, then written
/// to the second and flushed, so that one of them is whole at any moment, and a rotten one harms nothing.
pub const OFFSETS: [u64; 2] = [0, 32 << 10];

/// No counter of a superblock, and no position in the log, is larger: at a million a second that takes 36,000 years.
pub const MAX_COUNTER: u64 = 1 << 60;

/// The first eight bytes of a store.
pub const MAGIC: u64 = u64::from_le_bytes(*b"AMITASTO");

on_disk! {
    /// A superblock, without the checksum at the end of its page.
    ///
    /// ```text
    ///   0 magic "AMITASTO"        8 format version  12 page bytes      16 features (incompatible)
    ///  24 generation             32 store UUID      48 cluster UUID
    ///  64 size                   72 log offset      80 log pages       88 checkpoint offsets (2)
    /// 104 checkpoint pages      112 slots offset   120 slots          124 checkpoint area in use
    /// 128 checkpoint id         136 its pages      144 its last page's checksum  148 tail checksum
    /// 152 log tail (sequence)   160 mount number   168 mount's first page (sequence)
    /// 176 ... zeros ... 4092 crc
    /// ```
    pub struct Raw [176] {
        /// [`MAGIC`].
        magic: u64,
        /// [`FORMAT_VERSION`] of the writer.
        version: u32,
        /// 4096.
        page_bytes: u32,
        /// Bits of features without whose knowledge the store must not be touched.
        features: u64,
        /// Goes up by one with each change; the newer valid superblock wins.
        generation: u64,
        /// The store's UUID.
        store: u128,
        /// The cluster's UUID; nil: not joined.
        cluster: u128,
        /// Bytes of the file when it was formatted.
        size_bytes: u64,
        /// See [`Geometry`].
        log_offset: u64,
        /// See [`Geometry`].
        log_pages: u64,
        /// See [`Geometry`].
        checkpoint_offset_0: u64,
        /// See [`Geometry`].
        checkpoint_offset_1: u64,
        /// See [`Geometry`].
        checkpoint_pages: u64,
        /// See [`Geometry`].
        slots_offset: u64,
        /// See [`Geometry`].
        slots: u32,
        /// Which area holds the checkpoint.
        area: u32,
        /// The checkpoint's number; its pages carry it.
        checkpoint: u64,
        /// How many pages it has; 0: there is none, the store began empty.
        pages_used: u64,
        /// The checksum of its last page.
        last_sum: u32,
        /// The checksum of the log page before `tail`.
        tail_sum: u32,
        /// The first page of the log to replay.
        tail: u64,
        /// Goes up with each mount, before anything else is written; pages of the log carry it (rule D2).
        mount: u64,
        /// The number of the first page that this mount writes: pages below it were accepted, with their data, by the
        /// mount's replay; pages from it on count only if they carry the mount's number.
        mount_start: u64,
    }
}

/// What a superblock says, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Goes up by one with each change.
    pub generation: u64,
    /// The store's UUID.
    pub store: StoreId,
    /// The cluster's UUID; nil: not joined.
    pub cluster: ClusterId,
    /// Where everything lies.
    pub geometry: Geometry,
    pub checkpoint: Checkpoint,
    /// The number of the mount that wrote it.
    pub mount: u64,
    /// The number of the first log page that this mount writes. It is a verified mark (rules D1, D4): all below it was
    /// found whole. And what a crashed mount left behind from here on can never come back (rule D2).
    pub mount_start: u64,
}

/// Where a checkpoint lies, and from where on the log is to be replayed over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which area: 0 or 1.
    pub area: u32,
    pub id: u64,
    /// Its pages; 0: none, an empty store.
    pub pages: u64,
    /// The checksum of its last page.
    pub last_sum: u32,
    /// The first page of the log to replay.
    pub tail: u64,
    /// The checksum of the page before it.
    pub tail_sum: u32,
}

/// Why a page is no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not begin with the magic number.
    #[error("it does not begin as one does")]
    Magic,
    /// The device cannot read it.
    #[error("the device cannot read it")]
    Unreadable,
    /// Its checksum is wrong.
    #[error("its checksum is wrong")]
    Checksum,
    /// Written by a newer version.
    #[error("it was written by a newer version, of format {0}")]
    Newer(u32),
    /// Uses features that are not known.
    #[error("it uses features that this version does not know ({0:#x})")]
    Features(u64),
    /// A field is impossible.
    #[error("what stands in its field {0} cannot be")]
    Field(&'static str),
}

impl Superblock {
    /// The page.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        self.encode_into(&mut page);
        page
    }

    /// Writes the page into `page`, which is [`PAGE_BYTES`] long.
    pub fn encode_into(&self, page: &mut [u8]) {
        let g = &self.geometry;
        let raw = Raw {
            magic: MAGIC,
            version: FORMAT_VERSION,
            page_bytes: narrow(PAGE_BYTES),
            features: 0,
            generation: self.generation,
            store: self.store.0,
            cluster: self.cluster.0,
            size_bytes: g.size_bytes,
            log_offset: g.log_offset,
            log_pages: g.log_pages,
            checkpoint_offset_0: g.checkpoint_offsets[0],
            checkpoint_offset_1: g.checkpoint_offsets[1],
            checkpoint_pages: g.checkpoint_pages,
            slots_offset: g.slots_offset,
            slots: g.slots,
            area: self.checkpoint.area,
            checkpoint: self.checkpoint.id,
            pages_used: self.checkpoint.pages,
            last_sum: self.checkpoint.last_sum,
            tail_sum: self.checkpoint.tail_sum,
            tail: self.checkpoint.tail,
            mount: self.mount,
            mount_start: self.mount_start,
        };
        page.fill(0);
        raw.put(page);
        seal(page);
    }

    /// Reads a page that came from a disk. Version and features are looked at before the rest, because a newer format
    /// may have put other things there.
    pub fn decode(page: &[u8]) -> Result<Superblock, Fault> {
        let raw = Raw::get(page).ok_or(Fault::Magic)?;
        if raw.magic != MAGIC {
            return Err(Fault::Magic);
        }
        sealed(page).ok_or(Fault::Checksum)?;
        if raw.version > FORMAT_VERSION {
            return Err(Fault::Newer(raw.version));
        }
        if raw.features != 0 {
            return Err(Fault::Features(raw.features));
        }
        if raw.version == 0 || raw.page_bytes as usize != PAGE_BYTES {
            return Err(Fault::Field("version or page size"));
        }
        let geometry = Geometry {
            size_bytes: raw.size_bytes,
            log_offset: raw.log_offset,
            log_pages: raw.log_pages,
            checkpoint_offsets: [raw.checkpoint_offset_0, raw.checkpoint_offset_1],
            checkpoint_pages: raw.checkpoint_pages,
            slots_offset: raw.slots_offset,
            slots: raw.slots,
        };
        geometry.check().map_err(Fault::Field)?;
        if raw.area > 1 || raw.pages_used > raw.checkpoint_pages {
            return Err(Fault::Field("checkpoint"));
        }
        // They count up by one; what is near the end was never counted.
        let counters = [raw.generation, raw.mount, raw.checkpoint, raw.tail, raw.mount_start];
        if counters.iter().any(|&counter| counter > MAX_COUNTER) {
            return Err(Fault::Field("counters"));
        }
        if raw.store == 0 {
            return Err(Fault::Field("store UUID"));
        }
        Ok(Superblock {
            generation: raw.generation,
            store: StoreId(raw.store),
            cluster: ClusterId(raw.cluster),
            geometry,
            checkpoint: Checkpoint {
                area: raw.area,
                id: raw.checkpoint,
                pages: raw.pages_used,
                last_sum: raw.last_sum,
                tail: raw.tail,
                tail_sum: raw.tail_sum,
            },
            mount: raw.mount,
            mount_start: raw.mount_start,
        })
    }
}
