//! The log is read again: the chain of its pages, the batches below the mark, and the data of those beyond it.
//!
//! Accepted records are applied in their order. A record may need leaves that are not in memory: then they are read, and
//! with them those that the following records need, so that a mount reads at the speed of the device.

mod needs;

use super::commit::MAX_UNVERIFIED_PAGES;
use super::io::Io;
use super::log::Position;
use super::mount::{AfterApply, Mount, Phase};
use super::{Store, leaves};
use crate::error::MountError;
use crate::faults::Fault;
use crate::format::page::LogPage;
use crate::format::record::{Record, RecordReader, RollEntry};
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{ChunkKey, Entry, Framed, Leaf, Location};
use amita_reactor::BufMut;
use amita_types::{BlockIndex, BlockRange, ChunkId, SnapshotId, Version};
use needs::{counts, is_in_checkpoint, needed, release, runs_of};
use rustc_hash::FxHashSet;
use std::io;

/// Leaves that are read at once.
const LEAVES_AT_ONCE: usize = 256;

/// A batch that was read and whose data may have to be.
#[derive(Debug)]
pub(super) struct ReadBatch {
    pub first: u64,
    pub end: Position,
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

impl Mount {
    pub(super) fn log_read(&mut self, store: &mut Store, buffer: &[u8]) -> Result<(), MountError> {
        for page in buffer.chunks_exact(PAGE_BYTES) {
            if !self.log_page(store, page)? {
                self.applying.then = AfterApply::Lookahead(self.chain.next.page);
                self.phase = Phase::Apply;
                return Ok(());
            }
        }
        self.applying.then = AfterApply::Log;
        self.phase = Phase::Apply;
        Ok(())
    }

    /// Takes one page of the log; `false`: it is not the next one of the chain.
    fn log_page(&mut self, store: &mut Store, bytes: &[u8]) -> Result<bool, MountError> {
        let superblock = store.superblock;
        let unchecked = store.config.faults.has(Fault::ChainUnchecked);
        let Some(page) = LogPage::decode(bytes, store.env.id) else {
            return Ok(false);
        };
        let header = page.header;
        let of_mount = if header.sequence >= superblock.mount_start {
            header.mount == superblock.mount
        } else {
            header.mount < superblock.mount
        };
        let in_batch = match self.chain.partial_pages {
            (0, _) => header.index == 0,
            partial => partial == (header.index, header.pages),
        };
        let chained = unchecked || (header.previous_sum == self.chain.next.sum && of_mount);
        if header.sequence != self.chain.next.page || !chained || !in_batch {
            return Ok(false);
        }
        let damaged = |what: &str| MountError::LogDamaged {
            offset: superblock.geometry.log_page_offset(header.sequence),
            sequence: header.sequence,
            what: what.into(),
        };
        for record in RecordReader::new(page.records) {
            self.chain.partial.push(record.map_err(damaged)?);
        }
        self.chain.next.page += 1;
        self.chain.next.sum = page.sum;
        self.chain.mark = self.chain.mark.max(header.mark);
        self.chain.partial_pages = (header.index + 1, header.pages);
        if header.index + 1 == header.pages {
            self.chain.partial_pages = (0, 0);
            self.chain.unverified.push_back(ReadBatch {
                first: self.chain.next.page - u64::from(header.pages),
                end: self.chain.next,
                records: std::mem::take(&mut self.chain.partial),
            });
        }
        if self
            .chain
            .unverified
            .back()
            .is_some_and(|last| last.end.page - self.chain.end.page > MAX_UNVERIFIED_PAGES)
        {
            return Err(damaged("it should say that older pages are verified"));
        }
        self.accept_verified(store);
        Ok(true)
    }

    /// Accepts the batches that the mark covers.
    fn accept_verified(&mut self, store: &mut Store) {
        while self
            .chain
            .unverified
            .front()
            .is_some_and(|batch| batch.end.page <= self.chain.mark)
            && let Some(batch) = self.chain.unverified.pop_front()
        {
            self.accept_batch(store, batch);
        }
    }

    fn accept_batch(&mut self, store: &mut Store, batch: ReadBatch) {
        self.chain.end = batch.end;
        store.report.records_replayed += batch.records.len() as u64;
        let first = batch.first;
        self.applying
            .accepted
            .extend(batch.records.into_iter().map(|record| (record, first)));
    }

    /// Applies accepted records; `true`: it goes on when leaves were read.
    pub(super) fn apply_accepted(&mut self, store: &mut Store) -> Result<bool, MountError> {
        loop {
            if self.applying.leaves_reading > 0 {
                return Ok(true);
            }
            let Some((record, first)) = self.applying.accepted.pop_front() else {
                return Ok(false);
            };
            let mut missing = Vec::new();
            needed(&store.index, self, &record, first, &mut missing);
            if missing.is_empty() {
                self.replay(store, record, first)?;
                if let Some(slot) = store.space.map.wrong {
                    return Err(MountError::Inconsistent {
                        what: format!("page {first} of the log and the map of slots disagree on slot {slot}"),
                    });
                }
                continue;
            }
            // What those behind it need, as far as it can be said now, is read with it.
            let mut seen: FxHashSet<Location> = missing.iter().copied().collect();
            let mut more = Vec::new();
            for (record, first) in &self.applying.accepted {
                needed(&store.index, self, record, *first, &mut more);
                missing.extend(more.drain(..).filter(|&at| seen.insert(at)));
                if missing.len() >= LEAVES_AT_ONCE {
                    break;
                }
            }
            self.applying.accepted.push_front((record, first));
            self.applying.leaves_reading = missing.len();
            for at in missing {
                let Leaf::Away(slot) = store.index.leaf(at) else {
                    unreachable!("only those were looked for")
                };
                let mem = store.index.load_begin(at);
                let buffer = store.env.take_surely(PAGE_BYTES);
                let offset = store.superblock.geometry.slot_offset(slot);
                store.env.start_read(Io::Leaf { mem }, offset, buffer);
            }
            return Ok(true);
        }
    }

    /// A leaf that a record needs was read. One that cannot be read is lost with all that it held, and the store goes on
    /// without it: what it held is refused as damaged until it is repaired.
    pub(super) fn leaf_read(
        &mut self,
        store: &mut Store,
        mem: u32,
        buffer: &BufMut,
        result: &io::Result<()>,
    ) -> Result<(), MountError> {
        let at = store.index.loading(mem).0;
        let wrong =
            result.is_err() || leaves::decode(&store.env, &store.index, &store.superblock, mem, buffer).is_none();
        if wrong {
            let failed = self.applying.read_again.entry(at).or_default();
            let pause = match result {
                // What is read and is wrong may be the way's fault, once.
                Ok(()) if *failed > 0 => None,
                _ => Mount::read_pause(*failed),
            };
            *failed += 1;
            if let Some(pause) = pause {
                store.report.read_again += 1;
                self.applying.leaves_again.push((mem, store.env.now.plus(pause)));
                return Ok(());
            }
            if let Err(error) = result
                && !store.config.faults.has(Fault::UnreadableIsTorn)
            {
                // It may be whole: a mount without it would forget for good what it holds.
                if let Some(slot) = store.index.page_of(at) {
                    self.reading.offset = store.superblock.geometry.slot_offset(slot);
                }
                return Err(self.device_failed("a read", error));
            }
        }
        if leaves::take(&mut store.env, &mut store.index, &store.superblock, mem, buffer, result).is_err() {
            store.index.lose(at);
            store.report.leaves_lost += 1;
            // Its page is in the map of slots, whatever the log says further on; unless a map that is newer than the
            // chunk's line knows that the chunk has gone.
            for slot in std::mem::take(&mut store.index.released_pages) {
                if store.space.map.has(slot) {
                    store.space.map.release(slot);
                }
                store.checkpoint.retire(slot);
            }
        }
        self.applying.leaves_reading -= 1;
        if self.applying.leaves_reading == 0 {
            return self.next_step(store);
        }
        Ok(())
    }

    /// Reads the leaves again whose pause is over.
    pub(super) fn read_leaves_again(&mut self, store: &mut Store) {
        let now = store.env.now;
        let due: Vec<u32> = self
            .applying
            .leaves_again
            .extract_if(.., |(_, at)| *at <= now)
            .map(|(mem, _)| mem)
            .collect();
        for mem in due {
            let at = store.index.loading(mem).0;
            let buffer = store.env.take_surely(PAGE_BYTES);
            let slot = store.index.page_of(at).expect("a leaf that is being read has a page");
            let offset = store.superblock.geometry.slot_offset(slot);
            store.env.start_read(Io::Leaf { mem }, offset, buffer);
        }
    }

    /// The chunk of a record, if the record is not in the checkpoint already (rule D5).
    fn replayed_chunk(
        &mut self,
        store: &mut Store,
        id: ChunkId,
        previous: Version,
        first: u64,
    ) -> Result<Option<ChunkKey>, MountError> {
        if is_in_checkpoint(&store.index, self, id, first) {
            return Ok(None);
        }
        let key = store.index.touch(id);
        self.loaded.positions.resize(store.index.end() as usize, 0);
        let durable = store.index.chunk(key).durable;
        if durable != previous && !store.config.faults.has(Fault::AnyPredecessor) {
            return Err(MountError::Inconsistent {
                what: format!(
                    "chunk {id} is at {durable}, and page {first} of the log has a write that follows {previous}"
                ),
            });
        }
        Ok(Some(key))
    }

    fn replay(&mut self, store: &mut Store, record: Record, first: u64) -> Result<(), MountError> {
        match (step_of(&record), record) {
            (Some((chunk, previous, next)), change) => {
                if let Some(key) = self.replayed_chunk(store, chunk, previous, first)? {
                    self.replay_change(store, key, change, first)?;
                    let chunk = store.index.chunk_mut(key);
                    chunk.durable = next;
                    chunk.accepted.version = next;
                    chunk.accepted.snapshot = chunk.snapshot;
                    chunk.accepted.state = chunk.newest_state();
                }
            }
            (None, Record::Fence(fence)) => store.fences.adopt(&fence),
            (
                None,
                Record::Drop {
                    chunk,
                    snapshot,
                    kept_for,
                },
            ) => {
                if let Some(key) = store.index.find(chunk)
                    && !is_in_checkpoint(&store.index, self, chunk, first)
                {
                    self.replay_drop(store, key, snapshot, kept_for, first);
                }
            }
            (None, Record::Mark { chunk, mark }) => {
                if let Some(key) = store.index.find(chunk)
                    && !is_in_checkpoint(&store.index, self, chunk, first)
                {
                    store.index.set_mark(key, mark);
                }
            }
            (None, _) => unreachable!("every other record has a step"),
        }
        Ok(())
    }

    /// What a record makes of its chunk, but for the version.
    fn replay_change(
        &mut self,
        store: &mut Store,
        key: ChunkKey,
        change: Record,
        first: u64,
    ) -> Result<(), MountError> {
        match change {
            Record::Write {
                version,
                snapshot,
                range,
                runs,
                sums,
                ..
            } => {
                store.index.begin_change(key, snapshot);
                let mut blocks = range.iter().zip(sums);
                for run in runs {
                    check_slot(store, run.slot, run.count)?;
                    for n in 0..run.count {
                        let Some((block, sum)) = blocks.next() else { break };
                        let slot = run.slot.plus(n);
                        self.replay_entry(store, key, block, Entry { slot, sum, version }, first, User::First);
                    }
                }
            }
            Record::Clear {
                version,
                snapshot,
                range,
                ..
            } => {
                store.index.begin_change(key, snapshot);
                self.replay_clear(store, key, range, version, first);
            }
            Record::Roll { snapshot, entries, .. } => {
                store.index.begin_change(key, snapshot);
                self.replay_entries(store, key, entries, first, User::First)?;
            }
            Record::Clone { origin, entries, .. } => {
                store.index.begin_change(key, SnapshotId::HEAD);
                store.index.set_origin(key, origin);
                self.replay_entries(store, key, entries, first, User::Another)?;
            }
            Record::Join { base, snapshot, .. } => store.index.join(key, base, snapshot),
            Record::Mend { entries, .. } => {
                self.replay_entries(store, key, entries, first, User::First)?;
                store.index.chunk_mut(key).loosen();
            }
            Record::Whole { born, .. } => store.index.end_whole(key, born),
            Record::Frame { above, to, state, .. } => match store.index.chunk(key).framed(above, to, state) {
                Framed::Fits => store.index.frame(key, above, to, state),
                Framed::There | Framed::Taken => {
                    return Err(MountError::Inconsistent {
                        what: format!("page {first} of the log makes a state up to snapshot {to} that is there"),
                    });
                }
            },
            Record::Put { to, entries, own, .. } => self.replay_put(store, key, to, &entries, &own, first)?,
            Record::Close { to, .. } => store.index.close(key, to),
            Record::Fence(_) | Record::Drop { .. } | Record::Mark { .. } => unreachable!("none has a step"),
        }
        Ok(())
    }

    fn replay_clear(&mut self, store: &mut Store, key: ChunkKey, range: BlockRange, version: Version, first: u64) {
        let lost = range.iter().any(|block| store.index.is_lost(key, block));
        if lost {
            for block in range.iter() {
                self.replay_entry(store, key, block, Entry::cleared(version), first, User::First);
            }
        } else {
            let (map, mount) = (&mut store.space.map, &*self);
            store
                .index
                .clear(key, range, version, |slot| release(map, mount, slot, first));
        }
        self.retire_replayed(store, first);
    }

    fn replay_drop(
        &mut self,
        store: &mut Store,
        key: ChunkKey,
        snapshot: SnapshotId,
        kept_for: SnapshotId,
        first: u64,
    ) {
        let (map, mount) = (&mut store.space.map, &*self);
        let mut free = |slot| release(map, mount, slot, first);
        store.index.keep_for(key, kept_for);
        store.index.drop_of(key, snapshot, &mut free);
        self.retire_replayed(store, first);
        let chunk = store.index.chunk(key);
        if chunk.deleted && chunk.state_count() == 0 {
            store.checkpoint.forgotten.push((chunk.id, first + 1));
            store.index.forget(key);
            self.loaded.positions[key.0 as usize] = 0;
        }
    }

    fn replay_put(
        &mut self,
        store: &mut Store,
        key: ChunkKey,
        to: SnapshotId,
        entries: &[RollEntry],
        own: &[bool],
        first: u64,
    ) -> Result<(), MountError> {
        for entry in entries.iter().filter(|entry| entry.slot != Slot::NONE) {
            check_slot(store, entry.slot, 1)?;
        }
        let (map, mount) = (&mut store.space.map, &*self);
        store
            .index
            .put_entries(key, to, entries, &mut |slot| release(map, mount, slot, first));
        for (entry, _) in entries.iter().zip(own).filter(|(_, own)| **own) {
            let used_again = store.report.leaves_lost > 0 && store.space.map.has(entry.slot);
            if counts(self, entry.slot, first) && !used_again {
                store.space.map.claim(entry.slot);
            }
        }
        self.retire_replayed(store, first);
        Ok(())
    }

    fn replay_entries(
        &mut self,
        store: &mut Store,
        key: ChunkKey,
        entries: Vec<RollEntry>,
        first: u64,
        user: User,
    ) -> Result<(), MountError> {
        for entry in entries {
            if entry.slot != Slot::NONE {
                check_slot(store, entry.slot, 1)?;
            }
            let new = Entry {
                slot: entry.slot,
                sum: if entry.slot == Slot::NONE { 0 } else { entry.sum },
                version: entry.version,
            };
            self.replay_entry(store, key, entry.block, new, first, user);
        }
        Ok(())
    }

    /// One block gets its entry, and the map of slots what follows from it, where it is not there already.
    fn replay_entry(
        &mut self,
        store: &mut Store,
        key: ChunkKey,
        block: BlockIndex,
        entry: Entry,
        first: u64,
        user: User,
    ) {
        if !store.index.is_lost(key, block)
            && let Some(old) = store.index.set(key, block, entry)
        {
            release(&mut store.space.map, self, old, first);
        }
        let counted = counts(self, entry.slot, first);
        // Where a leaf is lost nobody knows which slots were given back from it before they were used again.
        let used_again = store.report.leaves_lost > 0 && entry.has_data() && store.space.map.has(entry.slot);
        match user {
            _ if !entry.has_data() || !counted => {}
            User::First if used_again => {}
            User::First => {
                store.space.map.claim(entry.slot);
            }
            User::Another => {
                store.space.map.share(entry.slot);
            }
        }
    }

    /// Pages of leaves that replay has made needless: the checkpoint on the disk names them still.
    fn retire_replayed(&mut self, store: &mut Store, first: u64) {
        let pages = std::mem::take(&mut store.index.released_pages);
        for slot in pages {
            release(&mut store.space.map, self, slot, first);
            store.checkpoint.retire(slot);
        }
    }

    /// Is there a page behind the end of the chain that says that what is missing was durable? Then it is damage.
    pub(super) fn lookahead_read(&mut self, store: &mut Store, first: u64, buffer: &[u8]) -> Result<(), MountError> {
        let superblock = store.superblock;
        let mut sequence = first;
        for bytes in buffer.chunks_exact(PAGE_BYTES) {
            if let Some(page) = LogPage::decode(bytes, store.env.id) {
                let header = page.header;
                let proof = header.sequence == sequence && header.mount == superblock.mount;
                if proof && header.sequence >= superblock.mount_start {
                    self.chain.mark = self.chain.mark.max(header.mark);
                    // Something is missing before it; whether it was durable the marks say (rule D4).
                    store.report.ended_short = true;
                }
            }
            sequence += 1;
        }
        self.phase = Phase::Lookahead(sequence);
        Ok(())
    }

    /// Starts to read back the data of the next batch, or ends the replay.
    pub(super) fn verify_next(&mut self, store: &mut Store) -> Result<(), MountError> {
        let geometry = store.superblock.geometry;
        loop {
            // What the chain has is all there is: a mark beyond it says that durable pages are missing (D4).
            let read_end = self
                .chain
                .unverified
                .back()
                .map_or(self.chain.end, |batch| batch.end)
                .page;
            if self.chain.mark > read_end && !store.config.faults.has(Fault::EndAtFirstBad) {
                let (sequence, mark) = (self.chain.next.page, self.chain.mark);
                return Err(MountError::LogDamaged {
                    offset: geometry.log_page_offset(sequence),
                    sequence,
                    what: format!("it cannot be read, but all pages below {mark} were durable"),
                });
            }
            if let Some((run, _)) = self.to_verify.front() {
                let (offset, bytes) = (geometry.slot_offset(run.slot), run.count as usize * PAGE_BYTES);
                self.read(store, offset, bytes);
                return Ok(());
            }
            if self.verifying {
                // All data of the batch was whole.
                self.verifying = false;
                if let Some(batch) = self.chain.unverified.pop_front() {
                    store.report.records_verified += batch.records.len() as u64;
                    self.applying.then = AfterApply::Verify;
                    self.phase = Phase::Apply;
                    self.accept_batch(store, batch);
                }
                return self.next_step(store);
            }
            let Some(batch) = self.chain.unverified.front() else {
                // A batch that was cut off among its own pages.
                store.report.ended_short |= self.chain.next.page > self.chain.end.page;
                return self.finish(store);
            };
            self.verifying = true;
            let covered = batch.end.page <= self.chain.mark || store.config.faults.has(Fault::ReplayUnverified);
            if !covered {
                self.to_verify = runs_of(&batch.records, geometry.slots, &store.index);
            }
        }
    }

    /// A run of blocks was read back.
    pub(super) fn verify_read(&mut self, store: &mut Store, buffer: &[u8], readable: bool) -> Result<(), MountError> {
        let Some((_, sums)) = self.to_verify.pop_front() else {
            return Ok(());
        };
        let mut blocks = buffer.chunks_exact(PAGE_BYTES).zip(&sums);
        let whole = readable && blocks.all(|(block, &sum)| amita_types::crc32c(block) == sum);
        if !whole {
            // The end of the log: what a crash left unfinished. Nothing from here on was acknowledged.
            store.report.ended_short = true;
            store.report.batches_dropped = self.chain.unverified.len() as u64;
            self.chain.unverified.clear();
            self.to_verify.clear();
            self.verifying = false;
        }
        Ok(())
    }
}

fn check_slot(store: &Store, slot: Slot, count: u32) -> Result<(), MountError> {
    let slots = store.superblock.geometry.slots;
    if slot.0.checked_add(count).is_none_or(|end| end > slots) {
        return Err(MountError::Inconsistent {
            what: format!("a record of the log names slot {slot} of {slots}"),
        });
    }
    Ok(())
}

/// The chunk of a record, the version that it must have, and the one that it gets. What drops a chunk has neither.
fn step_of(record: &Record) -> Option<(ChunkId, Version, Version)> {
    match *record {
        Record::Write {
            chunk,
            version,
            previous,
            ..
        }
        | Record::Clear {
            chunk,
            version,
            previous,
            ..
        }
        | Record::Join {
            chunk,
            version,
            previous,
            ..
        } => Some((chunk, previous, version)),
        Record::Roll {
            chunk,
            version,
            previous,
            last,
            ..
        } => Some((chunk, previous, if last { version } else { previous })),
        Record::Clone {
            chunk, version, last, ..
        } => Some((chunk, Version::NONE, if last { version } else { Version::NONE })),
        Record::Mend { chunk, version, .. }
        | Record::Whole { chunk, version, .. }
        | Record::Frame { chunk, version, .. }
        | Record::Put { chunk, version, .. }
        | Record::Close { chunk, version, .. } => Some((chunk, version, version)),
        Record::Fence(_) | Record::Drop { .. } | Record::Mark { .. } => None,
    }
}
