//! The records of a batch are laid out on its pages.

use super::change::Change;
use super::op::Op;
use crate::format::page::{Header, MAX_BATCH_PAGES, RECORDS_BYTES};
use crate::format::record::{self, MAX_ROLL_ENTRIES, RecordWriter, RollEntry};
use crate::format::{PAGE_BODY_BYTES, PAGE_BYTES, seal};
use crate::index::Index;
use amita_reactor::BufMut;
use arrayvec::ArrayVec;
use std::cell::Cell;

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
        if let Change::Fence(fence) = &op.change {
            return self.put(record::fence_bytes(fence), |writer| writer.fence(fence));
        }
        let change = record::Change {
            chunk: index.chunk(op.chunk).id,
            version: op.version,
            previous: op.previous,
            snapshot: op.snapshot,
        };
        match &op.change {
            Change::Fence(_) | Change::Say(_) => unreachable!("taken above, or never logged"),
            Change::Join(base) => self.put(record::JOIN_BYTES, |writer| writer.join(&change, *base)),
            Change::Whole(ended) if ended.born == index.chunk(op.chunk).born => {
                self.put(record::WHOLE_BYTES, |writer| writer.whole(change.chunk, change.version));
            }
            Change::Whole(ended) => self.put(record::CLOSE_BYTES, |writer| {
                writer.whole_born(change.chunk, change.version, ended.born);
            }),
            Change::Frame(above, to, version) => self.put(record::FRAME_BYTES, |writer| {
                writer.frame(change.chunk, change.version, (*above, *to), *version);
            }),
            Change::Put(put) => {
                let done = Cell::new(0);
                self.parts(&put.change.entries, record::put_bytes(0), |writer, entries, _| {
                    let own = &put.change.with_data[done.get()..][..entries.len()];
                    done.set(done.get() + entries.len());
                    writer.put(change.chunk, change.version, put.to, entries, own);
                });
            }
            Change::Close(to, _) => self.put(record::CLOSE_BYTES, |writer| {
                writer.close(change.chunk, change.version, *to);
            }),
            Change::Mend(mend) => self.parts(&mend.change.entries, record::mend_bytes(0), |writer, entries, _| {
                writer.mend(change.chunk, change.version, entries);
            }),
            Change::Write(write) => {
                let bytes = record::write_bytes(write.sums.len(), op.runs.len());
                self.put(bytes, |writer| {
                    writer.write(&change, write.range, &op.runs, &write.sums)
                });
            }
            Change::Clear(range) => self.put(record::write_bytes(0, 0), |writer| writer.clear(&change, *range)),
            Change::Mark(mark) => self.put(record::MARK_BYTES, |writer| writer.mark(change.chunk, mark)),
            Change::RetainSnapshots(keep) => {
                if let Some(mark) = &keep.mark {
                    self.put(record::MARK_BYTES, |writer| writer.mark(change.chunk, mark));
                }
                self.put(record::DROP_BYTES, |writer| {
                    writer.drop(change.chunk, keep.dropping.unwrap_or_default(), keep.kept_for);
                });
            }
            Change::Roll(roll) => self.parts(&roll.entries, record::roll_bytes(0), |writer, entries, last| {
                writer.roll(&change, entries, last);
            }),
            Change::Clone(clone) => self.parts(&clone.entries, record::clone_bytes(0), |writer, entries, last| {
                writer.clone(change.chunk, clone.origin, change.version, entries, last);
            }),
        }
    }

    /// Entries on as many pages as they take, a record on each.
    fn parts(
        &mut self,
        mut rest: &[RollEntry],
        head_bytes: usize,
        write: impl Fn(&mut RecordWriter<'_>, &[RollEntry], bool),
    ) {
        loop {
            let least = head_bytes + rest.len().min(1) * record::RawEntry::BYTES;
            if self.left() < least {
                self.used.push((0, 0));
            }
            let fit = (self.left() - head_bytes) / record::RawEntry::BYTES;
            let (now, later) = rest.split_at(rest.len().min(fit).min(MAX_ROLL_ENTRIES));
            let last = later.is_empty();
            let bytes = head_bytes + now.len() * record::RawEntry::BYTES;
            self.put(bytes, |writer| write(writer, now, last));
            if last {
                return;
            }
            rest = later;
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
        Change::Clear(_) => record::write_bytes(0, 0),
        Change::Write(write) => record::write_bytes(write.sums.len(), write.sums.len()),
        Change::RetainSnapshots(_) => record::DROP_BYTES + record::MARK_BYTES,
        Change::Mark(_) => record::MARK_BYTES,
        Change::Roll(roll) => entries_bytes(roll.entries.len()),
        Change::Clone(clone) => entries_bytes(clone.entries.len()),
        Change::Join(_) => record::JOIN_BYTES,
        Change::Whole(_) | Change::Close(..) => record::CLOSE_BYTES,
        Change::Frame(..) => record::FRAME_BYTES,
        Change::Put(put) => entries_bytes(put.change.entries.len()),
        Change::Mend(mend) => entries_bytes(mend.change.entries.len()),
        Change::Say(_) => unreachable!("what is only said is not logged"),
    }
}

/// The most bytes that a list of entries takes, however it is divided.
fn entries_bytes(entries: usize) -> usize {
    let records = entries / (MAX_ROLL_ENTRIES / 2) + 2;
    record::clone_bytes(entries) + records * record::clone_bytes(0)
}
