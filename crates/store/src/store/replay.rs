//! The log is read again: the chain of its pages, the batches below the mark, and the data of those beyond it.

use super::Store;
use super::commit::MAX_UNVERIFIED_PAGES;
use super::mount::{Phase, STEP_PAGES};
use crate::config::Plant;
use crate::error::MountError;
use crate::format::page::LogPage;
use crate::format::record::{Record, RecordReader, Run};
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{ChunkKey, Entry};
use amita_cluster::{ChunkId, Version};
use std::collections::VecDeque;

/// A batch that was read and whose data may have to be.
#[derive(Debug)]
pub(super) struct ReadBatch {
    pub first: u64,
    pub end: u64,
    pub last_sum: u32,
    pub records: Vec<Record>,
}

impl Store {
    pub(super) fn log_read(&mut self, buffer: &[u8]) -> Result<(), MountError> {
        for page in buffer.chunks_exact(PAGE_BYTES) {
            if !self.log_page(page)? {
                if let Some(mount) = &mut self.mount {
                    mount.phase = Phase::Lookahead(mount.next);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes one page of the log; `false`: it is not the next one of the chain.
    fn log_page(&mut self, bytes: &[u8]) -> Result<bool, MountError> {
        let superblock = self.superblock;
        let unchecked = self.config.planted.has(Plant::ChainUnchecked);
        let Some(mount) = &mut self.mount else { return Ok(false) };
        let Some(page) = LogPage::decode(bytes, self.id) else {
            return Ok(false);
        };
        let header = page.header;
        let of_mount = if header.sequence >= superblock.mount_start {
            header.mount == superblock.mount
        } else {
            header.mount < superblock.mount
        };
        let in_batch = match mount.partial_pages {
            (0, _) => header.index == 0,
            partial => partial == (header.index, header.pages),
        };
        let chained = unchecked || (header.previous_sum == mount.sum && of_mount);
        if header.sequence != mount.next || !chained || !in_batch {
            return Ok(false);
        }
        let damaged = |what: &str| MountError::LogDamaged {
            offset: superblock.geometry.log_page_offset(header.sequence),
            sequence: header.sequence,
            what: what.into(),
        };
        for record in RecordReader::new(page.records) {
            mount.partial.push(record.map_err(damaged)?);
        }
        mount.next += 1;
        mount.sum = page.sum;
        mount.mark = mount.mark.max(header.mark);
        mount.partial_pages = (header.index + 1, header.pages);
        if header.index + 1 == header.pages {
            mount.partial_pages = (0, 0);
            mount.unverified.push_back(ReadBatch {
                first: mount.next - u64::from(header.pages),
                end: mount.next,
                last_sum: page.sum,
                records: std::mem::take(&mut mount.partial),
            });
        }
        if mount
            .unverified
            .back()
            .is_some_and(|last| last.end - mount.end > MAX_UNVERIFIED_PAGES)
        {
            return Err(damaged("it should say that older pages are verified"));
        }
        self.apply_verified()?;
        Ok(true)
    }

    /// Applies the batches that the mark covers.
    fn apply_verified(&mut self) -> Result<(), MountError> {
        while let Some(mount) = &mut self.mount
            && mount.unverified.front().is_some_and(|batch| batch.end <= mount.mark)
            && let Some(batch) = mount.unverified.pop_front()
        {
            self.apply_batch(batch)?;
        }
        Ok(())
    }

    fn apply_batch(&mut self, batch: ReadBatch) -> Result<(), MountError> {
        for record in batch.records {
            self.report.records_replayed += 1;
            self.replay(record, batch.first)?;
        }
        if let Some(mount) = &mut self.mount {
            mount.end = batch.end;
            mount.end_sum = batch.last_sum;
        }
        Ok(())
    }

    /// The chunk of a record, if the record is not in the checkpoint already (rule D5).
    fn replayed_chunk(&mut self, id: ChunkId, previous: Version, first: u64) -> Result<Option<ChunkKey>, MountError> {
        let key = self.index.touch(id);
        let Some(mount) = &mut self.mount else { return Ok(None) };
        mount.positions.resize(self.index.len(), 0);
        if first < mount.positions[key.0 as usize] {
            return Ok(None);
        }
        let durable = self.index.chunk(key).durable;
        if durable != previous && !self.config.planted.has(Plant::AnyPredecessor) {
            return Err(MountError::Inconsistent {
                what: format!(
                    "chunk {id} is at {durable}, and page {first} of the log has a write that follows {previous}"
                ),
            });
        }
        Ok(Some(key))
    }

    fn check_slot(&self, slot: Slot, count: u32) -> Result<(), MountError> {
        let slots = self.superblock.geometry.slots;
        if slot.0.checked_add(count).is_none_or(|end| end > slots) {
            return Err(MountError::Inconsistent {
                what: format!("a record of the log names slot {slot} of {slots}"),
            });
        }
        Ok(())
    }

    fn replay(&mut self, record: Record, first: u64) -> Result<(), MountError> {
        let (key, new_version) = match record {
            Record::Fence(fence) => {
                self.fences.adopt(&fence);
                return Ok(());
            }
            Record::Write {
                chunk,
                version,
                previous,
                range,
                runs,
                sums,
            } => {
                let Some(key) = self.replayed_chunk(chunk, previous, first)? else {
                    return Ok(());
                };
                let mut blocks = range.iter().zip(sums);
                for run in runs {
                    self.check_slot(run.slot, run.count)?;
                    for n in 0..run.count {
                        let Some((block, sum)) = blocks.next() else { break };
                        let slot = run.slot.plus(n);
                        self.index.set(key, block, Entry { slot, sum, version });
                    }
                }
                (key, version)
            }
            Record::Clear {
                chunk,
                version,
                previous,
                range,
            } => {
                let Some(key) = self.replayed_chunk(chunk, previous, first)? else {
                    return Ok(());
                };
                self.index.clear(key, range, version, |_| {});
                (key, version)
            }
            Record::Roll {
                chunk,
                version,
                previous,
                entries,
                last,
            } => {
                let Some(key) = self.replayed_chunk(chunk, previous, first)? else {
                    return Ok(());
                };
                for entry in entries {
                    if entry.slot != Slot::NONE {
                        self.check_slot(entry.slot, 1)?;
                    }
                    let new = Entry {
                        slot: entry.slot,
                        sum: if entry.slot == Slot::NONE { 0 } else { entry.sum },
                        version: entry.version,
                    };
                    self.index.set(key, entry.block, new);
                }
                (key, if last { version } else { previous })
            }
        };
        let chunk = self.index.chunk_mut(key);
        chunk.durable = new_version;
        chunk.accepted = new_version;
        Ok(())
    }

    /// Is there a page behind the end of the chain that says that what is missing was durable? Then it is damage.
    pub(super) fn lookahead_read(&mut self, first: u64, buffer: &[u8]) -> Result<(), MountError> {
        let superblock = self.superblock;
        let Some(mount) = &mut self.mount else { return Ok(()) };
        let mut sequence = first;
        for bytes in buffer.chunks_exact(PAGE_BYTES) {
            if let Some(page) = LogPage::decode(bytes, self.id) {
                let header = page.header;
                let proof = header.sequence == sequence && header.mount == superblock.mount;
                if proof && header.sequence >= superblock.mount_start {
                    mount.mark = mount.mark.max(header.mark);
                }
            }
            sequence += 1;
        }
        mount.phase = Phase::Lookahead(sequence);
        Ok(())
    }

    /// Starts to read back the data of the next batch, or ends the replay.
    pub(super) fn verify_next(&mut self) -> Result<(), MountError> {
        let geometry = self.superblock.geometry;
        loop {
            let Some(mount) = &mut self.mount else { return Ok(()) };
            // What the chain has is all there is: a mark beyond it says that durable pages are missing (D4).
            let read_end = mount.unverified.back().map_or(mount.end, |batch| batch.end);
            if mount.mark > read_end && !self.config.planted.has(Plant::EndAtFirstBad) {
                let (sequence, mark) = (mount.next, mount.mark);
                return Err(MountError::LogDamaged {
                    offset: geometry.log_page_offset(sequence),
                    sequence,
                    what: format!("it cannot be read, but all pages below {mark} were durable"),
                });
            }
            if let Some((run, _)) = mount.to_verify.front() {
                let (offset, bytes) = (geometry.slot_offset(run.slot), run.count as usize * PAGE_BYTES);
                self.mount_read(offset, bytes);
                return Ok(());
            }
            if mount.verifying {
                // All data of the batch was whole.
                mount.verifying = false;
                if let Some(batch) = mount.unverified.pop_front() {
                    self.report.records_verified += batch.records.len() as u64;
                    self.apply_batch(batch)?;
                }
                continue;
            }
            let Some(batch) = mount.unverified.front() else {
                // A batch that was cut off among its own pages.
                self.report.ended_short |= mount.next > mount.end;
                return self.mount_finish();
            };
            mount.verifying = true;
            let covered = batch.end <= mount.mark || self.config.planted.has(Plant::ReplayUnverified);
            if !covered {
                mount.to_verify = runs_of(&batch.records, geometry.slots);
            }
        }
    }

    /// A sector that cannot be read back is one whose write was cut off.
    pub(super) fn verify_read(&mut self, buffer: &[u8], readable: bool) -> Result<(), MountError> {
        let Some(mount) = &mut self.mount else { return Ok(()) };
        let Some((_, sums)) = mount.to_verify.pop_front() else {
            return Ok(());
        };
        let mut blocks = buffer.chunks_exact(PAGE_BYTES).zip(&sums);
        let whole = readable && blocks.all(|(block, &sum)| amita_cluster::crc32c(block) == sum);
        if !whole {
            // The end of the log: what a crash left unfinished. Nothing from here on was acknowledged.
            self.report.ended_short = true;
            self.report.batches_dropped = mount.unverified.len() as u64;
            mount.unverified.clear();
            mount.to_verify.clear();
            mount.verifying = false;
        }
        Ok(())
    }
}

/// Where the data of these records lies, in runs that can be read at once, with each block's checksum. A slot that is
/// impossible has no data that could be whole: it is left out here and refused when the record is applied.
fn runs_of(records: &[Record], slots: u32) -> VecDeque<(Run, Vec<u32>)> {
    let mut runs: VecDeque<(Run, Vec<u32>)> = VecDeque::new();
    let mut add = |slot: Slot, sum: u32| match runs.back_mut() {
        _ if slot.0 >= slots => {}
        Some((run, sums)) if run.slot.0 + run.count == slot.0 && u64::from(run.count) < STEP_PAGES => {
            run.count += 1;
            sums.push(sum);
        }
        _ => runs.push_back((Run { slot, count: 1 }, vec![sum])),
    };
    for record in records {
        match record {
            Record::Write { runs, sums, .. } => {
                let places = runs.iter().flat_map(|run| (0..run.count).map(|n| run.slot.plus(n)));
                places.zip(sums).for_each(|(slot, &sum)| add(slot, sum));
            }
            Record::Roll { entries, .. } => {
                for entry in entries.iter().filter(|entry| entry.slot != Slot::NONE) {
                    add(entry.slot, entry.sum);
                }
            }
            Record::Clear { .. } | Record::Fence(_) => {}
        }
    }
    runs
}
