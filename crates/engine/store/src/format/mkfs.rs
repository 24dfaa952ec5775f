//! What a fresh store consists of.

use super::superblock::{Checkpoint, OFFSETS, Superblock};
use super::{Geometry, PAGE_BYTES};
use crate::error::FormatError;
use amita_types::{ClusterId, StoreId};

/// What a store is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatParams {
    /// Its UUID, made for it.
    pub store: StoreId,
    /// Its cluster; nil: it joins the first one that serves it.
    pub cluster: ClusterId,
    /// Bytes of the file or device.
    pub size_bytes: u64,
    /// Bytes of the log, where the usual part of the file is not right.
    pub log_bytes: Option<u64>,
}

/// Bytes of one write of zeros: large, so that a disk runs at full speed, and small enough for a progress bar.
const CHUNK_BYTES: u64 = 1 << 20;

/// The writes that make a store, in order: (offset in bytes, data). All of the file is written, because a file that was
/// never written whole, or was punched, may lose acknowledged data in a crash (rule D3). A flush belongs before the
/// last two writes, the superblocks, and one after them.
#[derive(Clone, Debug)]
pub struct Format {
    superblock: Superblock,
    /// How far the zeros have come; then 0 and 1 past the end stand for the superblocks.
    at: u64,
    superblocks_written: usize,
}

/// The writes that make a store of a file; see [`Format`].
pub fn format(params: &FormatParams) -> Result<Format, FormatError> {
    let geometry = Geometry::divide(params.size_bytes, params.log_bytes)?;
    assert_ne!(params.store, StoreId(0), "a store has a UUID");
    Ok(Format {
        superblock: Superblock {
            generation: 1,
            store: params.store,
            cluster: params.cluster,
            geometry,
            checkpoint: Checkpoint {
                area: 0,
                id: 0,
                pages: 0,
                last_sum: 0,
                tail: 0,
                tail_sum: 0,
            },
            mount: 0,
            mount_start: 0,
        },
        at: 0,
        superblocks_written: 0,
    })
}

impl Format {
    /// What the store will be.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Bytes that are written in all.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.superblock.geometry.size_bytes + (OFFSETS.len() * PAGE_BYTES) as u64
    }

    /// Bytes that have been handed out.
    #[must_use]
    pub fn done_bytes(&self) -> u64 {
        self.at + (self.superblocks_written * PAGE_BYTES) as u64
    }

    /// Are only the superblocks left? Then what came before is to be flushed first.
    #[must_use]
    pub fn zeros_done(&self) -> bool {
        self.at == self.superblock.geometry.size_bytes
    }
}

impl Iterator for Format {
    type Item = (u64, Vec<u8>);

    fn next(&mut self) -> Option<(u64, Vec<u8>)> {
        let size = self.superblock.geometry.size_bytes;
        if self.at < size {
            let offset = self.at;
            let bytes = CHUNK_BYTES.min(size - offset);
            self.at += bytes;
            return Some((
                offset,
                vec![0; usize::try_from(bytes).expect("a write of a formatter is small")],
            ));
        }
        let offset = *OFFSETS.get(self.superblocks_written)?;
        self.superblocks_written += 1;
        Some((offset, self.superblock.encode()))
    }
}
