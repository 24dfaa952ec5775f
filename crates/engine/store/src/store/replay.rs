//! The log is read again: the chain of its pages, the batches below the mark, and the data of those beyond it.
//!
//! Accepted records are applied in their order. A record may need leaves that are not in memory: then they are read, and
//! with them those that the following records need, so that a mount reads at the speed of the device.

mod needs;

use super::commit::MAX_UNVERIFIED_PAGES;
use super::mount::{AfterApply, Phase};
use super::{Store, io::Io};
use crate::error::MountError;
use crate::faults::Fault;
use crate::format::page::LogPage;
use crate::format::record::{Record, RecordReader, RollEntry};
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{ChunkKey, Entry, Leaf, Location};
use amita_reactor::BufMut;
use amita_types::{BlockIndex, ChunkId, SnapshotId, Version};
use needs::{counts, is_in_checkpoint, needed, release, runs_of};
use rustc_hash::FxHashSet;
use std::io;

/// Leaves that are read at once.
const LEAVES_AT_ONCE: usize = 256;

/// A batch that was read and whose data may have to be.
#[derive(Debug)]
pub(super) struct ReadBatch {
    pub first: u64,
    pub end: u64,
    pub last_sum: u32,
    pub records: Vec<Record>,
}

/// Whose a slot is that a record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    /// It was free until then.
    First,
    /// A clone's: it is in use.
    Another,
}

impl Store {
    pub(super) fn log_read(&mut self, buffer: &[u8]) -> Result<(), MountError> {
        for page in buffer.chunks_exact(PAGE_BYTES) {
            if !self.log_page(page)? {
                if let Some(mount) = &mut self.mount {
                    mount.then = AfterApply::Lookahead(mount.next);
                    mount.phase = Phase::Apply;
                }
                return Ok(());
            }
        }
        if let Some(mount) = &mut self.mount {
            mount.then = AfterApply::Log;
            mount.phase = Phase::Apply;
        }
        Ok(())
    }

    /// Takes one page of the log; `false`: it is not the next one of the chain.
    fn log_page(&mut self, bytes: &[u8]) -> Result<bool, MountError> {
        let superblock = self.superblock;
        let unchecked = self.config.faults.has(Fault::ChainUnchecked);
        let Some(mount) = &mut self.mount else { return Ok(false) };
        let Some(page) = LogPage::decode(bytes, self.env.id) else {
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
        self.accept_verified();
        Ok(true)
    }

    /// Accepts the batches that the mark covers.
    fn accept_verified(&mut self) {
        while let Some(mount) = &mut self.mount
            && mount.unverified.front().is_some_and(|batch| batch.end <= mount.mark)
            && let Some(batch) = mount.unverified.pop_front()
        {
            self.accept_batch(batch);
        }
    }

    fn accept_batch(&mut self, batch: ReadBatch) {
        if let Some(mount) = &mut self.mount {
            mount.end = batch.end;
            mount.end_sum = batch.last_sum;
            self.report.records_replayed += batch.records.len() as u64;
            let first = batch.first;
            mount
                .accepted
                .extend(batch.records.into_iter().map(|record| (record, first)));
        }
    }

    /// Applies accepted records; `true`: it goes on when leaves were read.
    pub(super) fn apply_accepted(&mut self) -> Result<bool, MountError> {
        loop {
            let Some(mount) = &mut self.mount else { return Ok(false) };
            if mount.leaves_reading > 0 {
                return Ok(true);
            }
            let Some((record, first)) = mount.accepted.pop_front() else {
                return Ok(false);
            };
            let mut missing = Vec::new();
            needed(&self.index, mount, &record, first, &mut missing);
            if missing.is_empty() {
                self.replay(record, first)?;
                if let Some(slot) = self.space.map.wrong {
                    return Err(MountError::Inconsistent {
                        what: format!("page {first} of the log and the map of slots disagree on slot {slot}"),
                    });
                }
                continue;
            }
            // What those behind it need, as far as it can be said now, is read with it.
            let mut seen: FxHashSet<Location> = missing.iter().copied().collect();
            let mut more = Vec::new();
            for (record, first) in &mount.accepted {
                needed(&self.index, mount, record, *first, &mut more);
                missing.extend(more.drain(..).filter(|&at| seen.insert(at)));
                if missing.len() >= LEAVES_AT_ONCE {
                    break;
                }
            }
            mount.accepted.push_front((record, first));
            mount.leaves_reading = missing.len();
            for at in missing {
                let Leaf::Away(slot) = self.index.leaf(at) else {
                    unreachable!("only those were looked for")
                };
                let mem = self.index.load_begin(at);
                let buffer = self.env.take_surely(PAGE_BYTES);
                let offset = self.superblock.geometry.slot_offset(slot);
                self.env.start_read(Io::Leaf { mem }, offset, buffer);
            }
            return Ok(true);
        }
    }

    /// A leaf that a record needs was read. One that cannot be read is lost with all that it held, and the store goes on
    /// without it: what it held is refused as damaged until it is repaired.
    pub(super) fn mount_leaf_read(&mut self, mem: u32, buffer: &BufMut, result: &io::Result<()>) {
        let at = self.index.loading(mem).0;
        let wrong = result.is_err() || self.read_leaf(mem, buffer).is_none();
        if let Some(mount) = &mut self.mount
            && wrong
        {
            let failed = mount.read_again.entry(at).or_default();
            let pause = match result {
                // What is read and is wrong may be the way's fault, once.
                Ok(()) if *failed > 0 => None,
                _ => Store::read_pause(*failed),
            };
            *failed += 1;
            if let Some(pause) = pause {
                self.report.read_again += 1;
                mount.leaves_again.push((mem, self.env.now.plus(pause)));
                return;
            }
            if let Err(error) = result
                && !self.config.faults.has(Fault::UnreadableIsTorn)
            {
                // It may be whole: a mount without it would forget for good what it holds.
                if let Some(slot) = self.index.page_of(at) {
                    mount.offset = self.superblock.geometry.slot_offset(slot);
                }
                return self.mount_device_failed("a read", error);
            }
        }
        if self.take_leaf(mem, buffer, result).is_err() {
            self.index.lose(at);
            self.report.leaves_lost += 1;
            // Its page is in the map of slots, whatever the log says further on; unless a map that is newer than the
            // chunk's line knows that the chunk has gone.
            for slot in std::mem::take(&mut self.index.released_pages) {
                if self.space.map.has(slot) {
                    self.space.map.release(slot);
                }
                self.checkpoint.retire(slot);
            }
        }
        let Some(mount) = &mut self.mount else { return };
        mount.leaves_reading -= 1;
        if mount.leaves_reading == 0 {
            self.mount_step(Ok(()));
        }
    }

    /// Reads the leaves again whose pause is over.
    pub(super) fn read_leaves_again(&mut self) {
        let now = self.env.now;
        let Some(mount) = &mut self.mount else { return };
        let due: Vec<u32> = mount
            .leaves_again
            .extract_if(.., |(_, at)| *at <= now)
            .map(|(mem, _)| mem)
            .collect();
        for mem in due {
            let at = self.index.loading(mem).0;
            let buffer = self.env.take_surely(PAGE_BYTES);
            let slot = self.index.page_of(at).expect("a leaf that is being read has a page");
            let offset = self.superblock.geometry.slot_offset(slot);
            self.env.start_read(Io::Leaf { mem }, offset, buffer);
        }
    }

    /// The chunk of a record, if the record is not in the checkpoint already (rule D5).
    fn replayed_chunk(&mut self, id: ChunkId, previous: Version, first: u64) -> Result<Option<ChunkKey>, MountError> {
        let Some(mount) = &mut self.mount else { return Ok(None) };
        if is_in_checkpoint(&self.index, mount, id, first) {
            return Ok(None);
        }
        let key = self.index.touch(id);
        mount.positions.resize(self.index.end() as usize, 0);
        let durable = self.index.chunk(key).durable;
        if durable != previous && !self.config.faults.has(Fault::AnyPredecessor) {
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
        match record {
            Record::Fence(fence) => self.fences.adopt(&fence),
            Record::Write {
                chunk,
                version,
                previous,
                snapshot,
                range,
                runs,
                sums,
            } => {
                let Some(key) = self.replayed_chunk(chunk, previous, first)? else {
                    return Ok(());
                };
                self.index.begin_change(key, snapshot);
                let mut blocks = range.iter().zip(sums);
                for run in runs {
                    self.check_slot(run.slot, run.count)?;
                    for n in 0..run.count {
                        let Some((block, sum)) = blocks.next() else { break };
                        let slot = run.slot.plus(n);
                        self.replay_entry(key, block, Entry { slot, sum, version }, first, User::First);
                    }
                }
                self.replayed(key, version);
            }
            Record::Clear {
                chunk,
                version,
                previous,
                snapshot,
                range,
            } => {
                let Some(key) = self.replayed_chunk(chunk, previous, first)? else {
                    return Ok(());
                };
                self.index.begin_change(key, snapshot);
                let lost = range.iter().any(|block| self.index.is_lost(key, block));
                if lost {
                    for block in range.iter() {
                        self.replay_entry(key, block, Entry::cleared(version), first, User::First);
                    }
                } else {
                    let (held, mount) = (&mut self.space.map, &self.mount);
                    self.index
                        .clear(key, range, version, |slot| release(held, mount.as_deref(), slot, first));
                }
                self.retire_replayed(first);
                self.replayed(key, version);
            }
            Record::Roll {
                chunk,
                version,
                previous,
                snapshot,
                entries,
                last,
            } => {
                let Some(key) = self.replayed_chunk(chunk, previous, first)? else {
                    return Ok(());
                };
                self.index.begin_change(key, snapshot);
                self.replay_entries(key, entries, first, User::First)?;
                self.replayed(key, if last { version } else { previous });
            }
            Record::Clone {
                chunk,
                origin,
                version,
                entries,
                last,
            } => {
                let Some(key) = self.replayed_chunk(chunk, Version::NONE, first)? else {
                    return Ok(());
                };
                self.index.begin_change(key, SnapshotId::HEAD);
                self.index.set_origin(key, origin);
                self.replay_entries(key, entries, first, User::Another)?;
                self.replayed(key, if last { version } else { Version::NONE });
            }
            Record::Join {
                chunk,
                version,
                previous,
                base,
                snapshot,
            } => {
                let Some(key) = self.replayed_chunk(chunk, previous, first)? else {
                    return Ok(());
                };
                self.index.join(key, base, snapshot);
                self.replayed(key, version);
            }
            Record::Mend {
                chunk,
                version,
                entries,
            } => {
                let Some(key) = self.replayed_chunk(chunk, version, first)? else {
                    return Ok(());
                };
                self.replay_entries(key, entries, first, User::First)?;
                self.index.loosen(key);
                self.replayed(key, version);
            }
            Record::Whole { chunk, version } => {
                let Some(key) = self.replayed_chunk(chunk, version, first)? else {
                    return Ok(());
                };
                self.index.whole(key);
                self.replayed(key, version);
            }
            Record::Drop {
                chunk,
                snapshot,
                kept_for,
            } => {
                let known = self
                    .mount
                    .as_ref()
                    .is_some_and(|mount| is_in_checkpoint(&self.index, mount, chunk, first));
                if let Some(key) = self.index.find(chunk)
                    && !known
                {
                    let (held, mount) = (&mut self.space.map, &self.mount);
                    let mut free = |slot| release(held, mount.as_deref(), slot, first);
                    self.index.keep_for(key, kept_for);
                    self.index.drop_of(key, snapshot, &mut free);
                    self.retire_replayed(first);
                    let chunk = self.index.chunk(key);
                    if chunk.deleted && chunk.state_count() == 0 {
                        self.checkpoint.forgotten.push((chunk.id, first + 1));
                        self.index.forget(key);
                        if let Some(mount) = &mut self.mount {
                            mount.positions[key.0 as usize] = 0;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn replayed(&mut self, key: ChunkKey, version: Version) {
        let chunk = self.index.chunk_mut(key);
        chunk.durable = version;
        chunk.accepted = version;
        chunk.accepted_snapshot = chunk.snapshot;
        chunk.accepted_state = chunk.newest_state();
    }

    fn replay_entries(
        &mut self,
        key: ChunkKey,
        entries: Vec<RollEntry>,
        first: u64,
        user: User,
    ) -> Result<(), MountError> {
        for entry in entries {
            if entry.slot != Slot::NONE {
                self.check_slot(entry.slot, 1)?;
            }
            let new = Entry {
                slot: entry.slot,
                sum: if entry.slot == Slot::NONE { 0 } else { entry.sum },
                version: entry.version,
            };
            self.replay_entry(key, entry.block, new, first, user);
        }
        Ok(())
    }

    /// One block gets its entry, and the map of slots what follows from it, where it is not there already.
    fn replay_entry(&mut self, key: ChunkKey, block: BlockIndex, entry: Entry, first: u64, user: User) {
        if !self.index.is_lost(key, block)
            && let Some(old) = self.index.set(key, block, entry)
        {
            release(&mut self.space.map, self.mount.as_deref(), old, first);
        }
        let counted = self.mount.as_ref();
        let counted = counted.is_some_and(|mount| counts(mount, entry.slot, first));
        // Where a leaf is lost nobody knows which slots were given back from it before they were used again.
        let used_again = self.report.leaves_lost > 0 && entry.has_data() && self.space.map.has(entry.slot);
        match user {
            _ if !entry.has_data() || !counted => {}
            User::First if used_again => {}
            User::First => {
                self.space.map.claim(entry.slot);
            }
            User::Another => {
                self.space.map.share(entry.slot);
            }
        }
    }

    /// Pages of leaves that replay has made needless: the checkpoint on the disk names them still.
    fn retire_replayed(&mut self, first: u64) {
        let pages = std::mem::take(&mut self.index.released_pages);
        for slot in pages {
            release(&mut self.space.map, self.mount.as_deref(), slot, first);
            self.checkpoint.retire(slot);
        }
    }

    /// Is there a page behind the end of the chain that says that what is missing was durable? Then it is damage.
    pub(super) fn lookahead_read(&mut self, first: u64, buffer: &[u8]) -> Result<(), MountError> {
        let superblock = self.superblock;
        let Some(mount) = &mut self.mount else { return Ok(()) };
        let mut sequence = first;
        for bytes in buffer.chunks_exact(PAGE_BYTES) {
            if let Some(page) = LogPage::decode(bytes, self.env.id) {
                let header = page.header;
                let proof = header.sequence == sequence && header.mount == superblock.mount;
                if proof && header.sequence >= superblock.mount_start {
                    mount.mark = mount.mark.max(header.mark);
                    // Something is missing before it; whether it was durable the marks say (rule D4).
                    self.report.ended_short = true;
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
            if mount.mark > read_end && !self.config.faults.has(Fault::EndAtFirstBad) {
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
                    mount.then = AfterApply::Verify;
                    mount.phase = Phase::Apply;
                    self.accept_batch(batch);
                }
                return self.mount_next();
            }
            let Some(batch) = mount.unverified.front() else {
                // A batch that was cut off among its own pages.
                self.report.ended_short |= mount.next > mount.end;
                return self.mount_finish();
            };
            mount.verifying = true;
            let covered = batch.end <= mount.mark || self.config.faults.has(Fault::ReplayUnverified);
            if !covered {
                mount.to_verify = runs_of(&batch.records, geometry.slots, &self.index);
            }
        }
    }

    /// A run of blocks was read back.
    pub(super) fn verify_read(&mut self, buffer: &[u8], readable: bool) -> Result<(), MountError> {
        let Some(mount) = &mut self.mount else { return Ok(()) };
        let Some((_, sums)) = mount.to_verify.pop_front() else {
            return Ok(());
        };
        let mut blocks = buffer.chunks_exact(PAGE_BYTES).zip(&sums);
        let whole = readable && blocks.all(|(block, &sum)| amita_types::crc32c(block) == sum);
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
