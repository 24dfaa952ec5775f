//! The way back: superblock, checkpoint, log.
//!
//! 1. The newer valid superblock wins.
//! 2. The checkpoint is read whole: the directory of all chunks, and the map of slots; then the pages of states that it names. Each chunk and each part of the
//!    map says up to which page of the log it is. Leaves are read only where the replay changes them.
//! 3. The log is read from the tail on. A page counts if it is whole and names its predecessor's checksum and the
//!    right mount (D2); a batch counts if all its pages do. Batches below the verified mark are applied as they are.
//! 4. A batch beyond the mark counts only if its data is whole, too: it is read back and compared. Batches are under
//!    way in parallel, so the first one that is not whole is the end of the log; nothing behind it was acknowledged,
//!    because answers go out in log order (D2).
//!    A page that the device does not read is another matter than one that is not whole: it may be whole. It is read
//!    again for some seconds, and then the mount is refused (D4).
//! 5. A page that cannot be read although a later one says that it was durable is damage, never the end (D4): writes
//!    are missing, and nobody can say which, so the store is refused.
//! 6. The superblocks get the new mount's number and its first page: what a crashed mount left beyond that page can
//!    never come back, and all before it is verified from now on.

mod states;

use super::commit::LOOKAHEAD_PAGES;
use super::io::Io;
use super::log::Position;
use super::replay::ReadBatch;
use super::{Store, leaves};
use crate::State;
use crate::allocator::Allocator;
use crate::error::MountError;
use crate::faults::Fault;
use crate::format::checkpoint::{Item, LeafPlace, PageReader, SLOTS_PER_ITEM, flag};
use crate::format::record::{Record, Run, deleted};
use crate::format::superblock::{self, OFFSETS, Superblock};
use crate::format::{FORMAT_VERSION, Geometry, MIN_STORE_BYTES, PAGE_BYTES};
use crate::index::{ChunkKey, Location, StatePageLook};
use crate::slot_map::SlotMap;
use amita_reactor::{BufMut, Time};
use amita_types::{ChunkId, ClusterId, Generation, NodeId, SnapshotId, VolumeId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// After so many milliseconds each what could not be read is read again: a bus reset or a path that fails over takes
/// seconds.
const READ_PAUSES_MS: [u64; 8] = [5, 20, 80, 300, 600, 1000, 1000, 2000];

/// Stands for the log position of a part of the map of slots that has not been read.
const NO_PART: u64 = u64::MAX;

/// Bytes of one read.
const STEP_BYTES: usize = 128 << 10;
pub(super) const STEP_PAGES: u64 = (STEP_BYTES / PAGE_BYTES) as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Reading superblock 0 or 1.
    Superblock(usize),
    /// Reading the checkpoint, from this page on.
    Checkpoint(u64),
    /// Reading pages of states, from this one on.
    States(usize),
    /// Reading the log.
    Log,
    /// Reading the leaves that accepted records change, and applying these.
    Apply,
    /// The chain has ended; is there proof that it should go on? From this page on.
    Lookahead(u64),
    /// Reading back data.
    Verify,
    /// Writing the superblocks.
    Finish,
}

/// What follows when accepted records are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterApply {
    Log,
    Lookahead(u64),
    Verify,
}

/// A mount under way.
#[derive(Debug)]
pub(super) struct Mount {
    pub(super) phase: Phase,
    pub(super) started: Option<Time>,
    pub(super) reading: Reading,
    pub(super) superblocks: Vec<Result<Superblock, superblock::Fault>>,
    pub(super) loaded: Loaded,
    pub(super) applying: Applying,
    pub(super) chain: Chain,
    /// Blocks of the first unverified batch that are still to be read.
    pub(super) to_verify: VecDeque<(Run, Vec<u32>)>,
    pub(super) verifying: bool,
    /// What the superblocks will say.
    pub(super) new_superblock: Option<Superblock>,
}

/// The read that is under way.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// A read of several pages of the log has failed: they are read one by one.
    pub(super) narrow: bool,
    /// Where the read that is under way begins.
    pub(super) offset: u64,
    /// How often it has failed.
    pub(super) failed: usize,
    /// How many bytes it has, while it waits to be started again, and when that is.
    pub(super) again: Option<(usize, Time)>,
}

/// What the checkpoint says of what is in it.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// The chunk whose items are being read from the checkpoint, and which state of it ([`SnapshotId::HEAD`]: itself).
    pub(super) chunk: Option<(ChunkKey, SnapshotId)>,
    /// For each chunk: log pages below this are in the checkpoint.
    pub(super) positions: Vec<u64>,
    /// Chunks that were forgotten: log pages below this mean nothing for them.
    pub(super) gone: FxHashMap<ChunkId, u64>,
    /// For each part of the map of slots: log pages below this are in it. [`NO_PART`]: the checkpoint has not had it
    /// yet.
    pub(super) slot_positions: Vec<u64>,
    /// The first slot of the last part that was read.
    pub(super) slots_first: u32,
    /// The pages of states that the checkpoint names, by their slots.
    pub(super) state_pages: Vec<StatePageLook>,
    /// One of them was read and was wrong: it may have been the way's fault, once.
    pub(super) state_page_again: bool,
}

/// Records that are accepted, and the leaves that they wait for.
#[derive(Debug)]
pub(super) struct Applying {
    /// Records that are accepted, in their order, each with the first page of its batch; leaves that they change are
    /// being read.
    pub(super) accepted: VecDeque<(Record, u64)>,
    /// Reads of leaves under way.
    pub(super) leaves_reading: usize,
    /// Leaves that could not be read at once, and how often.
    pub(super) read_again: FxHashMap<Location, usize>,
    /// Those of them that wait to be read again, by their place in memory, and until when.
    pub(super) leaves_again: Vec<(u32, Time)>,
    /// Where to go on when all accepted records are applied.
    pub(super) then: AfterApply,
}

/// The chain of the log's pages.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// Behind the last page that was read.
    pub(super) next: Position,
    /// The records of the batch that is not read whole yet.
    pub(super) partial: Vec<Record>,
    /// How many of its pages are read, and how many it has.
    pub(super) partial_pages: (u16, u16),
    /// Batches that are read whole and not covered by a mark.
    pub(super) unverified: VecDeque<ReadBatch>,
    pub(super) mark: u64,
    /// Where the accepted log ends.
    pub(super) end: Position,
}

pub(super) fn start(store: &mut Store) {
    store.mount = Some(Box::new(Mount::new()));
    go_on(store, |mount, store| {
        if store.env.file.size_bytes < PAGE_BYTES as u64 {
            return Err(MountError::NotAStore);
        }
        mount.read(store, OFFSETS[0], PAGE_BYTES);
        Ok(())
    });
}

/// Lets the mount go on. Where it cannot, the store is refused.
pub(super) fn go_on(store: &mut Store, go_on: impl FnOnce(&mut Mount, &mut Store) -> Result<(), MountError>) {
    let Some(mut mount) = store.mount.take() else { return };
    match go_on(&mut mount, store) {
        Ok(()) => store.mount = Some(mount),
        Err(error) => store.state = State::Refused(error),
    }
}

/// The superblocks are durable: the store serves.
pub(super) fn finished(store: &mut Store) {
    if let Some(mount) = store.mount.take() {
        let started = mount.started.unwrap_or(store.env.now);
        store.report.duration = store.env.now.since(started);
    }
    store.report.bytes_read = store.env.counters.device_bytes_read;
    leaves::evict(&store.config, &mut store.index, &store.space);
    // Leases of before the start may still hold (rule R4).
    if !store.config.faults.has(Fault::LeaseForgotten) {
        store.fences.not_before(store.env.now.plus(store.config.lease));
    }
    store.state = State::Serving;
}

impl Mount {
    fn new() -> Mount {
        Mount {
            phase: Phase::Superblock(0),
            started: None,
            reading: Reading::default(),
            superblocks: Vec::new(),
            loaded: Loaded::default(),
            applying: Applying {
                accepted: VecDeque::new(),
                leaves_reading: 0,
                read_again: FxHashMap::default(),
                leaves_again: Vec::new(),
                then: AfterApply::Log,
            },
            chain: Chain::default(),
            to_verify: VecDeque::new(),
            verifying: false,
            new_superblock: None,
        }
    }

    /// When a pass is wanted, to read something again.
    pub fn deadline(&self) -> Option<Time> {
        let again = self.reading.again.map(|(_, due)| due);
        let leaves = self.applying.leaves_again.iter().map(|(_, due)| *due);
        again.into_iter().chain(leaves).min()
    }

    /// The device has failed: nobody knows what it holds.
    pub(super) fn device_failed(&self, what: &str, error: &io::Error) -> MountError {
        MountError::Device {
            offset: self.reading.offset,
            error: format!("{what} failed: {error}"),
        }
    }

    pub(super) fn read(&mut self, store: &mut Store, offset: u64, bytes: usize) {
        let buffer = store.env.take_surely(bytes);
        self.reading.offset = offset;
        store.env.start_read(Io::Mount, offset, buffer);
    }

    pub(super) fn read_done(
        &mut self,
        store: &mut Store,
        mut buffer: BufMut,
        result: io::Result<()>,
    ) -> Result<(), MountError> {
        let now = store.env.now;
        self.started.get_or_insert(now);
        let torn = store.config.faults.has(Fault::UnreadableIsTorn);
        if let Err(error) = &result {
            match self.phase {
                Phase::Log | Phase::Lookahead(_) | Phase::States(_) if buffer.len() > PAGE_BYTES => {
                    // Which of them? Read one by one.
                    self.reading.narrow = true;
                    return self.next_step(store);
                }
                Phase::Log | Phase::Lookahead(_) if torn => {
                    self.reading.narrow = false;
                    buffer.fill(0);
                }
                Phase::Verify if torn => {}
                _ if let Some(&pause) = READ_PAUSES_MS.get(self.reading.failed) => {
                    // It may have been the way to the device.
                    self.reading.failed += 1;
                    self.reading.again = Some((buffer.len(), now.plus(Duration::from_millis(pause))));
                    store.report.read_again += 1;
                    return Ok(());
                }
                // The other one says the same: a change is built upon only when both have it.
                Phase::Superblock(_) => {}
                _ => return Err(self.device_failed("a read", error)),
            }
        } else {
            self.reading.narrow = false;
        }
        self.reading.failed = 0;
        let went = match self.phase {
            Phase::Superblock(which) => self.superblock_read(store, which, result.is_ok().then_some(&*buffer)),
            Phase::Checkpoint(first) => self.checkpoint_read(store, first, &buffer),
            Phase::States(at) => self.state_pages_read(store, at, &buffer),
            Phase::Log => self.log_read(store, &buffer),
            Phase::Lookahead(first) => self.lookahead_read(store, first, &buffer),
            Phase::Verify => self.verify_read(store, &buffer, result.is_ok()),
            Phase::Apply | Phase::Finish => Ok(()),
        };
        drop(buffer);
        went?;
        self.next_step(store)
    }

    /// Reads again what could not be read.
    pub(super) fn read_again_due(&mut self, store: &mut Store) {
        let now = store.env.now;
        let offset = self.reading.offset;
        if let Some((bytes, _)) = self.reading.again.take_if(|(_, due)| *due <= now) {
            self.read(store, offset, bytes);
        }
        self.read_leaves_again(store);
    }

    /// The pause before a leaf is read again that has failed so often; `None`: it was tried often enough.
    pub(super) fn read_pause(failed: usize) -> Option<Duration> {
        READ_PAUSES_MS.get(failed).map(|&pause| Duration::from_millis(pause))
    }

    /// Starts what the phase needs next.
    pub(super) fn next_step(&mut self, store: &mut Store) -> Result<(), MountError> {
        let fixed = store.index.fixed_bytes() + store.space.map.memory_bytes();
        if fixed > store.config.index_bytes {
            let limit_bytes = store.config.index_bytes;
            return Err(MountError::IndexTooLarge { limit_bytes });
        }
        leaves::evict(&store.config, &mut store.index, &store.space);
        let geometry = store.superblock.geometry;
        let checkpoint = store.superblock.checkpoint;
        let file_bytes = store.env.file.size_bytes;
        loop {
            match self.phase {
                Phase::Superblock(which) => {
                    if OFFSETS[which] + PAGE_BYTES as u64 <= file_bytes {
                        self.read(store, OFFSETS[which], PAGE_BYTES);
                        return Ok(());
                    }
                    self.superblocks.push(Err(superblock::Fault::Magic));
                    self.choose_superblock(store)?;
                    return self.next_step(store);
                }
                Phase::Checkpoint(page) if page == checkpoint.pages => {
                    self.loaded.state_pages = store.index.look_state_pages();
                    self.phase = Phase::States(0);
                }
                Phase::Checkpoint(page) => {
                    let pages = STEP_PAGES.min(checkpoint.pages - page);
                    let start = geometry.checkpoint_offsets[checkpoint.area as usize];
                    self.read(store, start + page * PAGE_BYTES as u64, pages as usize * PAGE_BYTES);
                    return Ok(());
                }
                Phase::States(at) if at == self.loaded.state_pages.len() => {
                    self.loaded.state_pages = Vec::new();
                    self.phase = Phase::Log;
                }
                Phase::States(at) => return self.read_state_pages(store, at),
                Phase::Log => {
                    let pages = log_step(
                        &geometry,
                        self.reading.narrow,
                        self.chain.next.page,
                        checkpoint.tail + geometry.log_pages,
                    );
                    if pages == 0 {
                        self.phase = Phase::Lookahead(self.chain.next.page);
                        continue;
                    }
                    let offset = geometry.log_page_offset(self.chain.next.page);
                    self.read(store, offset, pages as usize * PAGE_BYTES);
                    return Ok(());
                }
                Phase::Lookahead(from) => {
                    let limit = (self.chain.next.page + LOOKAHEAD_PAGES).min(checkpoint.tail + geometry.log_pages);
                    let pages = log_step(&geometry, self.reading.narrow, from, limit);
                    if pages == 0 || store.config.faults.has(Fault::EndAtFirstBad) {
                        self.phase = Phase::Verify;
                        continue;
                    }
                    self.read(store, geometry.log_page_offset(from), pages as usize * PAGE_BYTES);
                    return Ok(());
                }
                Phase::Apply => {
                    if self.apply_accepted(store)? {
                        return Ok(());
                    }
                    self.phase = match self.applying.then {
                        AfterApply::Log => Phase::Log,
                        AfterApply::Lookahead(from) => Phase::Lookahead(from),
                        AfterApply::Verify => Phase::Verify,
                    };
                    return self.next_step(store);
                }
                Phase::Verify => return self.verify_next(store),
                Phase::Finish => return Ok(()),
            }
        }
    }

    fn superblock_read(&mut self, store: &mut Store, which: usize, page: Option<&[u8]>) -> Result<(), MountError> {
        self.superblocks
            .push(page.ok_or(superblock::Fault::Unreadable).and_then(Superblock::decode));
        if which + 1 < OFFSETS.len() {
            self.phase = Phase::Superblock(which + 1);
            return Ok(());
        }
        self.choose_superblock(store)
    }

    fn choose_superblock(&mut self, store: &mut Store) -> Result<(), MountError> {
        let superblock = choose(&self.superblocks)?;
        // The copy that is whole stays so until the other one is.
        store.checkpoint.superblocks.whole_copy = self
            .superblocks
            .iter()
            .position(|found| found.as_ref() == Ok(&superblock))
            .unwrap_or(0);
        store.report.superblock_damaged = self.superblocks.iter().any(Result::is_err);
        let geometry = superblock.geometry;
        if store.env.file.size_bytes < geometry.size_bytes || geometry.size_bytes < MIN_STORE_BYTES {
            return Err(MountError::Truncated {
                found_bytes: store.env.file.size_bytes,
                expected_bytes: geometry.size_bytes,
            });
        }
        if let Some(expected) = store.config.cluster
            && superblock.cluster != ClusterId::default()
            && superblock.cluster != expected
        {
            return Err(MountError::OtherCluster {
                store: superblock.store,
                found: superblock.cluster,
                expected,
            });
        }
        let checkpoint = superblock.checkpoint;
        let tail = Position {
            page: checkpoint.tail,
            sum: checkpoint.tail_sum,
        };
        (self.chain.next, self.chain.end) = (tail, tail);
        // What the last mount's replay accepted is verified.
        self.chain.mark = checkpoint.tail.max(superblock.mount_start);
        self.phase = Phase::Checkpoint(0);
        // A store without a checkpoint is fresh: no slot was in use before its log.
        let position = if checkpoint.pages == 0 { 0 } else { NO_PART };
        self.loaded.slot_positions = vec![position; geometry.slots.div_ceil(SLOTS_PER_ITEM) as usize];
        store.env.id = superblock.store;
        store.fences.set_own(superblock.store);
        store.superblock = superblock;
        store.space.map = SlotMap::new(geometry.slots);
        Ok(())
    }

    fn checkpoint_read(&mut self, store: &mut Store, first: u64, buffer: &[u8]) -> Result<(), MountError> {
        let checkpoint = store.superblock.checkpoint;
        let start = store.superblock.geometry.checkpoint_offsets[checkpoint.area as usize];
        let mut index = first;
        for page in buffer.chunks_exact(PAGE_BYTES) {
            let damaged = |what: &str| MountError::CheckpointDamaged {
                offset: start + index * PAGE_BYTES as u64,
                what: what.into(),
            };
            let reader = PageReader::new(page, store.env.id, checkpoint.id, index).map_err(damaged)?;
            if index + 1 == checkpoint.pages && reader.sum != checkpoint.last_sum {
                return Err(damaged("it is not the one that the superblock names"));
            }
            for item in reader {
                item.and_then(|item| self.load(store, &item)).map_err(damaged)?;
            }
            index += 1;
        }
        self.phase = Phase::Checkpoint(index);
        Ok(())
    }

    fn load(&mut self, store: &mut Store, item: &Item<'_>) -> Result<(), &'static str> {
        let slots = store.superblock.geometry.slots;
        match item {
            Item::Group(fence) => store.fences.adopt_group(fence),
            Item::Volume(raw) if raw.generation > Generation::MAX.0 => return Err("a generation is impossible"),
            Item::Volume(raw) => {
                let (volume, generation, owner) = (VolumeId(raw.volume), Generation(raw.generation), NodeId(raw.owner));
                match deleted(volume, generation, owner) {
                    Some(range) => store.fences.adopt_deleted(range),
                    None => store.fences.adopt_volume(volume, generation, owner),
                }
            }
            Item::Chunk(item) if item.flags & flag::GONE != 0 => {
                self.loaded.gone.insert(item.chunk, item.position);
                self.loaded.chunk = None;
            }
            Item::Chunk(item) => {
                let wrong = |(_, place): &(u8, LeafPlace)| matches!(place, LeafPlace::At(slot, _) if slot.0 >= slots);
                if item.leaves.iter().any(wrong) {
                    return Err("a leaf is outside the store");
                }
                let key = store.index.load_chunk(item);
                // One that went while the checkpoint was being written, and came again, stands there as both.
                match self.loaded.positions.get_mut(key.0 as usize) {
                    Some(position) => *position = item.position,
                    None => self.loaded.positions.push(item.position),
                }
                self.loaded.chunk = Some((key, SnapshotId::HEAD));
            }
            Item::Origin(origin) => {
                let (key, _) = self.loaded.chunk.ok_or("an origin without a chunk")?;
                store.index.set_origin(key, *origin);
            }
            Item::Past(item) => {
                let (key, _) = self.loaded.chunk.ok_or("a past without a chunk")?;
                store.index.load_past(key, *item);
            }
            Item::State(item) => {
                let (key, _) = self.loaded.chunk.ok_or("a snapshot without a chunk")?;
                let wrong = |(_, place): &(u8, LeafPlace)| matches!(place, LeafPlace::At(slot, _) if slot.0 >= slots);
                if item.leaves.iter().any(wrong) {
                    return Err("a leaf is outside the store");
                }
                if !store.index.load_state(key, item) {
                    return Err("the snapshots of a chunk are out of order");
                }
                self.loaded.chunk = Some((key, item.to));
            }
            Item::Older(item) => {
                let (key, _) = self.loaded.chunk.ok_or("a page of states without a chunk")?;
                if item.slot.0 >= slots || !store.index.load_older(key, item) {
                    return Err("a page of states is impossible");
                }
                self.loaded.chunk = Some((key, SnapshotId::HEAD));
            }
            Item::Mark(mark) => {
                let (key, _) = self.loaded.chunk.ok_or("a mark without a chunk")?;
                store.index.set_mark(key, *mark);
            }
            Item::Cleared { first, version, .. } => {
                let (key, state) = self.loaded.chunk.ok_or("blocks without a chunk")?;
                if !store.index.load_cleared(key, state, *first, *version) {
                    return Err("a part of a chunk is impossible");
                }
            }
            Item::Slots { position, first, bits } => {
                if !store.space.map.load(*first, bits.words()) {
                    return Err("a part of the map of slots is outside the store");
                }
                // The map came last: what any part of the checkpoint has of the log was durable when it was finished, and it makes no
                // sense without that (D5).
                self.chain.mark = self.chain.mark.max(*position);
                let stale = store.config.faults.has(Fault::FreeMapStale);
                let position = if stale { NO_PART - 1 } else { *position };
                self.loaded.slot_positions[(first / SLOTS_PER_ITEM) as usize] = position;
                self.loaded.slots_first = *first;
            }
            Item::Shared(counts) => {
                let range = self.loaded.slots_first..self.loaded.slots_first.saturating_add(SLOTS_PER_ITEM);
                for (slot, more) in counts.iter() {
                    if !range.contains(&slot.0) || !store.space.map.load_shared(slot, more) {
                        return Err("a count of users is impossible");
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything is read: the allocator gets what is free, and the superblocks get the new mount.
    pub(super) fn finish(&mut self, store: &mut Store) -> Result<(), MountError> {
        let slots = store.superblock.geometry.slots;
        if self.loaded.slot_positions.contains(&NO_PART) {
            return Err(MountError::Inconsistent {
                what: "the checkpoint has only a part of the map of slots".to_owned(),
            });
        }
        store.checkpoint.retire_released(&mut store.index, &mut store.space);
        let mut allocator = Allocator::besides(store.space.map.words(), slots);
        for slot in store.checkpoint.retired_slots() {
            // The checkpoint that would be mounted after a crash names it.
            allocator.claim(slot);
        }
        store.space.allocator = allocator;
        self.phase = Phase::Finish;
        store.log.resume(self.chain.end, store.superblock.checkpoint.tail);
        let joined = store.superblock.cluster == ClusterId::default();
        let new = Superblock {
            generation: store.superblock.generation + 1,
            mount: store.superblock.mount + 1,
            mount_start: self.chain.end.page,
            cluster: if joined {
                store.config.cluster.unwrap_or_default()
            } else {
                store.superblock.cluster
            },
            ..store.superblock
        };
        self.new_superblock = Some(new);
        if store.env.file.volatile_cache {
            // What was accepted may still be in the device's cache: after this it is durable, and the superblock may
            // say so.
            store.env.start_flush(Io::MountFlush);
        } else {
            self.flushed(store);
        }
        Ok(())
    }

    /// All that the replay accepted is durable.
    pub(super) fn flushed(&mut self, store: &mut Store) {
        if let Some(new) = self.new_superblock {
            store.checkpoint.superblocks.update(&mut store.env, new);
        }
    }
}

/// Pages from `from` on that can be read at once, below `limit` and up to the end of the circle.
fn log_step(geometry: &Geometry, narrow: bool, from: u64, limit: u64) -> u64 {
    let until_end = geometry.log_pages - from % geometry.log_pages;
    let step = if narrow { 1 } else { STEP_PAGES };
    step.min(until_end).min(limit.saturating_sub(from))
}

/// The newer of two valid superblocks; what is wrong when there is none.
fn choose(superblocks: &[Result<Superblock, superblock::Fault>]) -> Result<Superblock, MountError> {
    for fault in superblocks.iter().filter_map(|superblock| superblock.as_ref().err()) {
        match fault {
            superblock::Fault::Newer(found) => {
                return Err(MountError::NewerFormat {
                    found: *found,
                    known: FORMAT_VERSION,
                });
            }
            superblock::Fault::Features(features) => return Err(MountError::UnknownFeatures { features: *features }),
            superblock::Fault::Magic
            | superblock::Fault::Unreadable
            | superblock::Fault::Checksum
            | superblock::Fault::Field(_) => {}
        }
    }
    let newest = superblocks
        .iter()
        .filter_map(|superblock| superblock.as_ref().ok())
        .max_by_key(|s| s.generation);
    if let Some(newest) = newest {
        return Ok(*newest);
    }
    let faults: Vec<superblock::Fault> = superblocks
        .iter()
        .filter_map(|superblock| superblock.as_ref().err())
        .copied()
        .collect();
    if faults.iter().all(|&fault| fault == superblock::Fault::Unreadable) {
        return Err(MountError::Device {
            offset: OFFSETS[0],
            error: "neither superblock can be read".to_owned(),
        });
    }
    if faults.iter().all(|&fault| fault == superblock::Fault::Magic) {
        return Err(MountError::NotAStore);
    }
    let words = |fault: &superblock::Fault| match fault {
        superblock::Fault::Magic => "no magic number".to_owned(),
        superblock::Fault::Unreadable => "unreadable".to_owned(),
        superblock::Fault::Checksum => "wrong checksum".to_owned(),
        superblock::Fault::Field(field) => format!("impossible: {field}"),
        superblock::Fault::Newer(_) | superblock::Fault::Features(_) => "newer".to_owned(),
    };
    Err(MountError::SuperblockDamaged {
        what: faults.iter().map(words).collect::<Vec<_>>().join("; "),
    })
}
