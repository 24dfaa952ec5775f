//! What is durable on a disk: sparse pages.

use super::{PAGE_BYTES, SECTOR_BYTES};
use crate::buf::Segments;
use rustc_hash::FxHashMap;

/// Bytes by page; what was never written is zeros.
#[derive(Default)]
pub(super) struct Contents {
    pages: FxHashMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Contents {
    pub fn store(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut offset = offset;
        while !bytes.is_empty() {
            let within = (offset % PAGE_BYTES as u64) as usize;
            let length = bytes.len().min(PAGE_BYTES - within);
            let page = self
                .pages
                .entry(offset / PAGE_BYTES as u64)
                .or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[within..within + length].copy_from_slice(&bytes[..length]);
            bytes = &bytes[length..];
            offset += length as u64;
        }
    }

    pub fn store_all(&mut self, mut offset: u64, data: &Segments) {
        for piece in data {
            self.store(offset, piece);
            offset += piece.len() as u64;
        }
    }

    /// Stores the sectors of a write for which `keep` says so.
    pub fn store_some(&mut self, offset: u64, data: &Segments, mut keep: impl FnMut(usize) -> bool) {
        let mut sector = 0;
        let mut kept = keep(0);
        let mut done = 0usize;
        for piece in data {
            let mut at = 0;
            while at < piece.len() {
                // The rest of this piece or of this sector, whichever ends first.
                let length = (piece.len() - at).min(SECTOR_BYTES - (offset as usize + done) % SECTOR_BYTES);
                if kept {
                    self.store(offset + done as u64, &piece[at..at + length]);
                }
                at += length;
                done += length;
                if (offset as usize + done).is_multiple_of(SECTOR_BYTES) {
                    sector += 1;
                    kept = keep(sector);
                }
            }
        }
    }

    pub fn load(&self, offset: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let within = (at % PAGE_BYTES as u64) as usize;
            let length = (buffer.len() - done).min(PAGE_BYTES - within);
            match self.pages.get(&(at / PAGE_BYTES as u64)) {
                Some(page) => buffer[done..done + length].copy_from_slice(&page[within..within + length]),
                None => buffer[done..done + length].fill(0),
            }
            done += length;
        }
    }
}
