//! The way back: superblock, checkpoint, log.
//!
//! 1. The newer valid superblock wins.
//! 2. The checkpoint is read whole: the directory of all chunks, and the map of slots. Each chunk and each part of the map
//!    says up to which page of the log it is. Leaves are read only where the replay changes them.
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

use super::commit::LOOKAHEAD_PAGES;
use super::replay::ReadBatch;
use super::{Store, io::Io};
use crate::State;
use crate::allocator::Allocator;
use crate::error::MountError;
use crate::faults::Fault;
use crate::format::checkpoint::{Item, LeafPlace, PageReader, SLOTS_PER_ITEM, flag};
use crate::format::record::{Record, Run, deleted};
use crate::format::superblock::{self, OFFSETS, Superblock};
use crate::format::{FORMAT_VERSION, Geometry, MIN_STORE_BYTES, PAGE_BYTES};
use crate::index::{ChunkKey, Location};
use crate::slot_map::SlotMap;
use amita_reactor::{BufMut, Time};
use amita_types::{ChunkId, ClusterId, Generation, NodeId, VolumeId};
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
    /// A read of several pages of the log has failed: they are read one by one.
    pub(super) narrow: bool,
    /// Where the read that is under way begins.
    pub(super) offset: u64,
    /// How often it has failed.
    pub(super) failed: usize,
    /// How many bytes it has, while it waits to be started again, and when that is.
    pub(super) again: Option<(usize, Time)>,
    pub(super) superblocks: Vec<Result<Superblock, superblock::Fault>>,
    /// The chunk whose items are being read from the checkpoint, and which state of it (0: itself).
    pub(super) chunk: Option<(ChunkKey, u32)>,
    /// For each chunk: log pages below this are in the checkpoint.
    pub(super) positions: Vec<u64>,
    /// Chunks that were forgotten: log pages below this mean nothing for them.
    pub(super) gone: FxHashMap<ChunkId, u64>,
    /// For each part of the map of slots: log pages below this are in it. [`NO_PART`]: the checkpoint has not had it yet.
    pub(super) slot_positions: Vec<u64>,
    /// The first slot of the last part that was read.
    pub(super) slots_first: u32,
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
    /// The next page of the log, and the checksum of the one before it.
    pub(super) next: u64,
    pub(super) sum: u32,
    /// The records of the batch that is not read whole yet.
    pub(super) partial: Vec<Record>,
    /// How many of its pages are read, and how many it has.
    pub(super) partial_pages: (u16, u16),
    /// Batches that are read whole and not covered by a mark.
    pub(super) unverified: VecDeque<ReadBatch>,
    pub(super) mark: u64,
    /// Where the accepted log ends, and the checksum of its last page.
    pub(super) end: u64,
    pub(super) end_sum: u32,
    /// Blocks of the first unverified batch that are still to be read.
    pub(super) to_verify: VecDeque<(Run, Vec<u32>)>,
    pub(super) verifying: bool,
    /// What the superblocks will say.
    pub(super) new_superblock: Option<Superblock>,
}

impl Store {
    pub(super) fn mount_start(&mut self) {
        self.mount = Some(Box::new(Mount {
            phase: Phase::Superblock(0),
            started: None,
            narrow: false,
            offset: 0,
            failed: 0,
            again: None,
            superblocks: Vec::new(),
            chunk: None,
            positions: Vec::new(),
            gone: FxHashMap::default(),
            slot_positions: Vec::new(),
            slots_first: 0,
            accepted: VecDeque::new(),
            leaves_reading: 0,
            read_again: FxHashMap::default(),
            leaves_again: Vec::new(),
            then: AfterApply::Log,
            next: 0,
            sum: 0,
            partial: Vec::new(),
            partial_pages: (0, 0),
            unverified: VecDeque::new(),
            mark: 0,
            end: 0,
            end_sum: 0,
            to_verify: VecDeque::new(),
            verifying: false,
            new_superblock: None,
        }));
        if self.env.file.size_bytes < PAGE_BYTES as u64 {
            return self.mount_failed(MountError::NotAStore);
        }
        self.mount_read(OFFSETS[0], PAGE_BYTES);
    }

    fn mount_failed(&mut self, error: MountError) {
        self.mount = None;
        self.state = State::Refused(error);
    }

    pub(super) fn mount_device_failed(&mut self, what: &str, error: &io::Error) {
        let offset = self.mount.as_ref().map_or(0, |mount| mount.offset);
        self.mount_failed(MountError::Device {
            offset,
            error: format!("{what} failed: {error}"),
        });
    }

    pub(super) fn mount_read(&mut self, offset: u64, bytes: usize) {
        let buffer = self.env.take_surely(bytes);
        if let Some(mount) = &mut self.mount {
            mount.offset = offset;
            self.env.start_read(Io::Mount, offset, buffer);
        }
    }

    pub(super) fn mount_read_done(&mut self, mut buffer: BufMut, result: io::Result<()>) {
        let now = self.env.now;
        let Some(mount) = &mut self.mount else { return };
        mount.started.get_or_insert(now);
        let torn = self.config.faults.has(Fault::UnreadableIsTorn);
        if let Err(error) = &result {
            match mount.phase {
                Phase::Log | Phase::Lookahead(_) if buffer.len() > PAGE_BYTES => {
                    // Which of them? Read one by one.
                    mount.narrow = true;
                    return self.mount_step(Ok(()));
                }
                Phase::Log | Phase::Lookahead(_) if torn => {
                    mount.narrow = false;
                    buffer.fill(0);
                }
                Phase::Verify if torn => {}
                _ if let Some(&pause) = READ_PAUSES_MS.get(mount.failed) => {
                    // It may have been the way to the device.
                    mount.failed += 1;
                    mount.again = Some((buffer.len(), now.plus(Duration::from_millis(pause))));
                    self.report.read_again += 1;
                    return;
                }
                // The other one says the same: a change is built upon only when both have it.
                Phase::Superblock(_) => {}
                _ => return self.mount_device_failed("a read", error),
            }
        } else {
            mount.narrow = false;
        }
        mount.failed = 0;
        let went = match mount.phase {
            Phase::Superblock(which) => self.superblock_read(which, result.is_ok().then_some(&*buffer)),
            Phase::Checkpoint(first) => self.checkpoint_read(first, &buffer),
            Phase::Log => self.log_read(&buffer),
            Phase::Lookahead(first) => self.lookahead_read(first, &buffer),
            Phase::Verify => self.verify_read(&buffer, result.is_ok()),
            Phase::Apply | Phase::Finish => Ok(()),
        };
        drop(buffer);
        self.mount_step(went);
    }

    /// Reads again what could not be read.
    pub(super) fn mount_read_again(&mut self) {
        let now = self.env.now;
        let Some(mount) = &mut self.mount else { return };
        let offset = mount.offset;
        if let Some((bytes, _)) = mount.again.take_if(|(_, due)| *due <= now) {
            self.mount_read(offset, bytes);
        }
        self.read_leaves_again();
    }

    /// When [`Store::mount_read_again`] is wanted.
    pub(super) fn mount_deadline(&self) -> Option<Time> {
        let mount = self.mount.as_ref()?;
        let again = mount.again.map(|(_, due)| due);
        let leaves = mount.leaves_again.iter().map(|(_, due)| *due);
        again.into_iter().chain(leaves).min()
    }

    /// The pause before a leaf is read again that has failed so often; `None`: it was tried often enough.
    pub(super) fn read_pause(failed: usize) -> Option<Duration> {
        READ_PAUSES_MS.get(failed).map(|&pause| Duration::from_millis(pause))
    }

    pub(super) fn mount_step(&mut self, went: Result<(), MountError>) {
        if let Err(error) = went.and_then(|()| self.mount_next()) {
            self.mount_failed(error);
        }
    }

    /// Starts what the phase needs next.
    pub(super) fn mount_next(&mut self) -> Result<(), MountError> {
        let fixed = self.index.fixed_bytes() + self.space.map.memory_bytes();
        if fixed > self.config.index_bytes {
            let limit_bytes = self.config.index_bytes;
            return Err(MountError::IndexTooLarge { limit_bytes });
        }
        self.evict_leaves();
        let geometry = self.superblock.geometry;
        let checkpoint = self.superblock.checkpoint;
        let file_bytes = self.env.file.size_bytes;
        let Some(mount) = &mut self.mount else { return Ok(()) };
        loop {
            match mount.phase {
                Phase::Superblock(which) => {
                    if OFFSETS[which] + PAGE_BYTES as u64 <= file_bytes {
                        self.mount_read(OFFSETS[which], PAGE_BYTES);
                        return Ok(());
                    }
                    mount.superblocks.push(Err(superblock::Fault::Magic));
                    self.choose_superblock()?;
                    return self.mount_next();
                }
                Phase::Checkpoint(page) if page == checkpoint.pages => mount.phase = Phase::Log,
                Phase::Checkpoint(page) => {
                    let pages = STEP_PAGES.min(checkpoint.pages - page);
                    let start = geometry.checkpoint_offsets[checkpoint.area as usize];
                    self.mount_read(start + page * PAGE_BYTES as u64, pages as usize * PAGE_BYTES);
                    return Ok(());
                }
                Phase::Log => {
                    let pages = log_step(
                        &geometry,
                        mount.narrow,
                        mount.next,
                        checkpoint.tail + geometry.log_pages,
                    );
                    if pages == 0 {
                        mount.phase = Phase::Lookahead(mount.next);
                        continue;
                    }
                    let offset = geometry.log_page_offset(mount.next);
                    self.mount_read(offset, pages as usize * PAGE_BYTES);
                    return Ok(());
                }
                Phase::Lookahead(from) => {
                    let limit = (mount.next + LOOKAHEAD_PAGES).min(checkpoint.tail + geometry.log_pages);
                    let pages = log_step(&geometry, mount.narrow, from, limit);
                    if pages == 0 || self.config.faults.has(Fault::EndAtFirstBad) {
                        mount.phase = Phase::Verify;
                        continue;
                    }
                    self.mount_read(geometry.log_page_offset(from), pages as usize * PAGE_BYTES);
                    return Ok(());
                }
                Phase::Apply => {
                    if self.apply_accepted()? {
                        return Ok(());
                    }
                    let Some(mount) = &mut self.mount else { return Ok(()) };
                    mount.phase = match mount.then {
                        AfterApply::Log => Phase::Log,
                        AfterApply::Lookahead(from) => Phase::Lookahead(from),
                        AfterApply::Verify => Phase::Verify,
                    };
                    return self.mount_next();
                }
                Phase::Verify => return self.verify_next(),
                Phase::Finish => return Ok(()),
            }
        }
    }

    fn superblock_read(&mut self, which: usize, page: Option<&[u8]>) -> Result<(), MountError> {
        let Some(mount) = &mut self.mount else { return Ok(()) };
        mount
            .superblocks
            .push(page.ok_or(superblock::Fault::Unreadable).and_then(Superblock::decode));
        if which + 1 < OFFSETS.len() {
            mount.phase = Phase::Superblock(which + 1);
            return Ok(());
        }
        self.choose_superblock()
    }

    fn choose_superblock(&mut self) -> Result<(), MountError> {
        let Some(mount) = &mut self.mount else { return Ok(()) };
        let superblock = choose(&mount.superblocks)?;
        // The copy that is whole stays so until the other one is.
        self.checkpoint.whole_copy = mount
            .superblocks
            .iter()
            .position(|found| found.as_ref() == Ok(&superblock))
            .unwrap_or(0);
        self.report.superblock_damaged = mount.superblocks.iter().any(Result::is_err);
        let geometry = superblock.geometry;
        if self.env.file.size_bytes < geometry.size_bytes || geometry.size_bytes < MIN_STORE_BYTES {
            return Err(MountError::Truncated {
                found_bytes: self.env.file.size_bytes,
                expected_bytes: geometry.size_bytes,
            });
        }
        if let Some(expected) = self.config.cluster
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
        mount.next = checkpoint.tail;
        mount.sum = checkpoint.tail_sum;
        mount.end = checkpoint.tail;
        mount.end_sum = checkpoint.tail_sum;
        // What the last mount's replay accepted is verified.
        mount.mark = checkpoint.tail.max(superblock.mount_start);
        mount.phase = Phase::Checkpoint(0);
        // A store without a checkpoint is fresh: no slot was in use before its log.
        let position = if checkpoint.pages == 0 { 0 } else { NO_PART };
        mount.slot_positions = vec![position; geometry.slots.div_ceil(SLOTS_PER_ITEM) as usize];
        self.env.id = superblock.store;
        self.fences.set_own(superblock.store);
        self.superblock = superblock;
        self.space.map = SlotMap::new(geometry.slots);
        Ok(())
    }

    fn checkpoint_read(&mut self, first: u64, buffer: &[u8]) -> Result<(), MountError> {
        let checkpoint = self.superblock.checkpoint;
        let start = self.superblock.geometry.checkpoint_offsets[checkpoint.area as usize];
        let mut index = first;
        for page in buffer.chunks_exact(PAGE_BYTES) {
            let damaged = |what: &str| MountError::CheckpointDamaged {
                offset: start + index * PAGE_BYTES as u64,
                what: what.into(),
            };
            let reader = PageReader::new(page, self.env.id, checkpoint.id, index).map_err(damaged)?;
            if index + 1 == checkpoint.pages && reader.sum != checkpoint.last_sum {
                return Err(damaged("it is not the one that the superblock names"));
            }
            for item in reader {
                item.and_then(|item| self.load(&item)).map_err(damaged)?;
            }
            index += 1;
        }
        if let Some(mount) = &mut self.mount {
            mount.phase = Phase::Checkpoint(index);
        }
        Ok(())
    }

    fn load(&mut self, item: &Item<'_>) -> Result<(), &'static str> {
        let slots = self.superblock.geometry.slots;
        let Some(mount) = &mut self.mount else { return Ok(()) };
        match item {
            Item::Group(fence) => self.fences.adopt_group(fence),
            Item::Volume(raw) if raw.generation > Generation::MAX.0 => return Err("a generation is impossible"),
            Item::Volume(raw) => {
                let (volume, generation, owner) = (VolumeId(raw.volume), Generation(raw.generation), NodeId(raw.owner));
                match deleted(volume, generation, owner) {
                    Some(range) => self.fences.adopt_deleted(range),
                    None => self.fences.adopt_volume(volume, generation, owner),
                }
            }
            Item::Chunk(item) if item.flags & flag::GONE != 0 => {
                mount.gone.insert(item.chunk, item.position);
                mount.chunk = None;
            }
            Item::Chunk(item) => {
                let wrong = |(_, place): &(u8, LeafPlace)| matches!(place, LeafPlace::At(slot, _) if slot.0 >= slots);
                if item.leaves.iter().any(wrong) {
                    return Err("a leaf is outside the store");
                }
                let key = self.index.load_chunk(item);
                // One that went while the checkpoint was being written, and came again, stands there as both.
                match mount.positions.get_mut(key.0 as usize) {
                    Some(position) => *position = item.position,
                    None => mount.positions.push(item.position),
                }
                mount.chunk = Some((key, 0));
            }
            Item::Origin(origin) => {
                let (key, _) = mount.chunk.ok_or("an origin without a chunk")?;
                self.index.set_origin(key, *origin);
            }
            Item::Past(item) => {
                let (key, _) = mount.chunk.ok_or("a past without a chunk")?;
                self.index.load_past(key, *item);
            }
            Item::State(item) => {
                let (key, _) = mount.chunk.ok_or("a snapshot without a chunk")?;
                let wrong = |(_, place): &(u8, LeafPlace)| matches!(place, LeafPlace::At(slot, _) if slot.0 >= slots);
                if item.leaves.iter().any(wrong) {
                    return Err("a leaf is outside the store");
                }
                let serial = self
                    .index
                    .load_state(key, item)
                    .ok_or("the snapshots of a chunk are out of order")?;
                mount.chunk = Some((key, serial));
            }
            Item::Cleared { first, version, .. } => {
                let (key, serial) = mount.chunk.ok_or("blocks without a chunk")?;
                if !self.index.load_cleared(key, serial, *first, *version) {
                    return Err("a part of a chunk is impossible");
                }
            }
            Item::Slots { position, first, bits } => {
                if !self.space.map.load(*first, bits.words()) {
                    return Err("a part of the map of slots is outside the store");
                }
                let stale = self.config.faults.has(Fault::FreeMapStale);
                let position = if stale { NO_PART - 1 } else { *position };
                mount.slot_positions[(first / SLOTS_PER_ITEM) as usize] = position;
                mount.slots_first = *first;
            }
            Item::Shared(counts) => {
                let range = mount.slots_first..mount.slots_first.saturating_add(SLOTS_PER_ITEM);
                for (slot, more) in counts.iter() {
                    if !range.contains(&slot.0) || !self.space.map.load_shared(slot, more) {
                        return Err("a count of users is impossible");
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything is read: the allocator gets what is free, and the superblocks get the new mount.
    pub(super) fn mount_finish(&mut self) -> Result<(), MountError> {
        let slots = self.superblock.geometry.slots;
        let partial = |mount: &Mount| mount.slot_positions.contains(&NO_PART);
        if self.mount.as_deref().is_some_and(partial) {
            return Err(MountError::Inconsistent {
                what: "the checkpoint has only a part of the map of slots".to_owned(),
            });
        }
        self.retire_pages();
        let mut allocator = Allocator::besides(self.space.map.words(), slots);
        for slot in self.checkpoint.retired_slots() {
            // The checkpoint that would be mounted after a crash names it.
            allocator.claim(slot);
        }
        self.space.allocator = allocator;
        let Some(mount) = &mut self.mount else { return Ok(()) };
        mount.phase = Phase::Finish;
        self.log.next = mount.end;
        self.log.last_sum = mount.end_sum;
        self.log.applied = mount.end;
        self.log.applied_sum = mount.end_sum;
        self.log.tail = self.superblock.checkpoint.tail;
        self.log.durable_mark = mount.end;
        self.log.mark_wanted = mount.end;
        let joined = self.superblock.cluster == ClusterId::default();
        let new = Superblock {
            generation: self.superblock.generation + 1,
            mount: self.superblock.mount + 1,
            mount_start: mount.end,
            cluster: if joined {
                self.config.cluster.unwrap_or_default()
            } else {
                self.superblock.cluster
            },
            ..self.superblock
        };
        mount.new_superblock = Some(new);
        if self.env.file.volatile_cache {
            // What was accepted may still be in the device's cache: after this it is durable, and the superblock may
            // say so.
            self.env.start_flush(Io::MountFlush);
        } else {
            self.mount_flushed();
        }
        Ok(())
    }

    /// All that the replay accepted is durable.
    pub(super) fn mount_flushed(&mut self) {
        if let Some(new) = self.mount.as_ref().and_then(|mount| mount.new_superblock) {
            self.update_superblocks(new);
        }
    }

    /// The superblocks are durable: the store serves.
    pub(super) fn mount_finished(&mut self) {
        if let Some(mount) = self.mount.take() {
            let started = mount.started.unwrap_or(self.env.now);
            self.report.duration = self.env.now.since(started);
        }
        self.report.bytes_read = self.env.counters.device_bytes_read;
        self.evict_leaves();
        // Promises of before the start may still hold (rule R4).
        if !self.config.faults.has(Fault::PromiseForgotten) {
            self.fences.not_before(self.env.now.plus(self.config.promise));
        }
        self.state = State::Serving;
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
