//! All data of a chunk is read and compared with its checksums.

use super::super::{DataFault, Problem, ReadAt, User};
use super::{Checker, PAGE};
use crate::format::{PAGE_BYTES, Place};
use crate::index::Entry;
use amita_types::{BlockIndex, MAX_BLOCKS_PER_CHUNK};

/// Blocks that are read at once.
const MOST_AT_ONCE: usize = 256;

impl<R: ReadAt> Checker<'_, R> {
    /// Compares what the chunk's new entries have in their slots, in the order of the disk.
    pub(super) fn verify(&mut self, place: Place) {
        let mut blocks = std::mem::take(&mut self.to_verify);
        blocks.sort_unstable_by_key(|(_, _, entry)| entry.slot);
        for run in blocks.chunk_by(|a, b| a.2.slot.0 + 1 == b.2.slot.0) {
            for run in run.chunks(MOST_AT_ONCE) {
                self.verify_run(place, run);
            }
        }
        blocks.clear();
        self.to_verify = blocks;
    }

    fn verify_run(&mut self, place: Place, run: &[(User, BlockIndex, Entry)]) {
        let mut buffer = vec![0; run.len() * PAGE_BYTES];
        let start = self.offset(run[0].2.slot);
        let whole = self.offline.reader.read_at(start, &mut buffer).is_ok();
        for ((&(user, block, entry), bytes), n) in run.iter().zip(buffer.chunks_exact_mut(PAGE_BYTES)).zip(0..) {
            let offset = start + n * PAGE;
            let read = if whole {
                Ok(())
            } else {
                self.offline.reader.read_at(offset, bytes)
            };
            self.report.seen.blocks_verified += 1;
            let fault = match read {
                Ok(()) if place.bind(block, amita_types::crc32c(bytes)) == entry.sum => continue,
                Ok(()) => self.data_fault(place, block, entry, bytes),
                Err(error) => DataFault::Device(error.to_string()),
            };
            self.add(Problem::Data {
                user,
                version: entry.version,
                slot: entry.slot,
                offset,
                fault,
            });
        }
    }

    /// Data that does not fit: is it another block's?
    fn data_fault(&self, place: Place, block: BlockIndex, entry: Entry, bytes: &[u8]) -> DataFault {
        let sum = amita_types::crc32c(bytes);
        let others = self.own.values();
        let others = others.filter(|(_, other, _)| *other != block);
        let is_it = |(_, other, known): &&(User, BlockIndex, Entry)| place.bind(*other, sum) == known.sum;
        if let Some((_, other, _)) = others.clone().find(is_it) {
            return DataFault::OfBlock(*other);
        }
        // The entry itself may have come from another block, with its data.
        let all = (0..MAX_BLOCKS_PER_CHUNK as u16).map(BlockIndex);
        if let Some(other) = all.into_iter().find(|&other| place.bind(other, sum) == entry.sum) {
            return DataFault::OfBlock(other);
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return DataFault::Zeros;
        }
        DataFault::Checksum
    }
}
