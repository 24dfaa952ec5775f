//! The records of a batch are laid out on its pages.

use super::op::{Change, Op};
use crate::format::page::{Header, MAX_BATCH_PAGES, RECORDS_BYTES};
use crate::format::record::{self, MAX_ROLL_ENTRIES, RecordWriter};
use crate::format::{PAGE_BODY_BYTES, PAGE_BYTES, seal};
use crate::index::Index;
use amita_reactor::BufMut;
use arrayvec::ArrayVec;

/// The pages of a batch while they are being filled.
pub(super) struct Pages<'a> {
    pub buffer: &'a mut BufMut,
    /// Bytes and records of each page.
    pub used: ArrayVec<(usize, u16), MAX_BATCH_PAGES>,
}

impl Pages<'_> {
    /// Space for `bytes` on the page that is open, or on a new one.
    fn put(&mut self, bytes: usize, write: impl FnOnce(&mut RecordWriter<'_>)) {
        if self.left() < bytes {
            self.used.push((0, 0));
        }
        let at = self.used.len() - 1;
        let (used, records) = self.used[at];
        let start = at * PAGE_BYTES + Header::BYTES;
        let mut writer = RecordWriter::resume(&mut self.buffer[start..start + RECORDS_BYTES], used, records);
        write(&mut writer);
        self.used[at] = writer.used();
    }

    fn left(&self) -> usize {
        RECORDS_BYTES - self.used.last().map_or(RECORDS_BYTES, |used| used.0)
    }

    pub fn add(&mut self, op: &Op, index: &Index) {
        let (version, previous) = (op.version, op.previous);
        match &op.change {
            Change::Fence(fence) => self.put(record::fence_bytes(fence), |writer| writer.fence(fence)),
            Change::Write => {
                let chunk = index.chunk(op.chunk).id;
                let bytes = record::write_bytes(op.sums.len(), op.runs.len());
                self.put(bytes, |writer| {
                    writer.write(chunk, version, previous, op.range, &op.runs, &op.sums)
                });
            }
            Change::Clear => {
                let chunk = index.chunk(op.chunk).id;
                self.put(record::write_bytes(0, 0), |writer| {
                    writer.clear(chunk, version, previous, op.range)
                });
            }
            Change::Roll(roll) => {
                let chunk = index.chunk(op.chunk).id;
                let mut rest = &roll.entries[..];
                loop {
                    let least = record::roll_bytes(rest.len().min(1));
                    if self.left() < least {
                        self.used.push((0, 0));
                    }
                    let fit = (self.left() - record::roll_bytes(0)) / record::RawEntry::BYTES;
                    let (now, later) = rest.split_at(rest.len().min(fit).min(MAX_ROLL_ENTRIES));
                    let last = later.is_empty();
                    self.put(record::roll_bytes(now.len()), |writer| {
                        writer.roll(chunk, version, previous, now, last);
                    });
                    if last {
                        break;
                    }
                    rest = later;
                }
            }
        }
    }
}

/// Writes the headers and checksums of a batch's pages, each naming the one before it (rule D2); returns the last
/// checksum.
pub(super) fn seal_pages(buffer: &mut BufMut, first: Header, used: &[(usize, u16)]) -> u32 {
    let mut sum = first.previous_sum;
    for (at, (page, &(bytes, records))) in buffer.chunks_exact_mut(PAGE_BYTES).zip(used).enumerate() {
        Header {
            sequence: first.sequence + at as u64,
            previous_sum: sum,
            index: at as u16,
            used: bytes as u16,
            records,
            ..first
        }
        .put(page);
        page[Header::BYTES + bytes..PAGE_BODY_BYTES].fill(0);
        sum = seal(page);
    }
    sum
}

/// The most bytes of records that a change takes, however its slots lie.
pub(super) fn record_bytes(op: &Op) -> usize {
    match &op.change {
        Change::Fence(fence) => record::fence_bytes(fence),
        Change::Clear => record::write_bytes(0, 0),
        Change::Write => record::write_bytes(op.sums.len(), op.sums.len()),
        Change::Roll(roll) => {
            let records = roll.entries.len() / (MAX_ROLL_ENTRIES / 2) + 2;
            record::roll_bytes(roll.entries.len()) + records * record::roll_bytes(0)
        }
    }
}
