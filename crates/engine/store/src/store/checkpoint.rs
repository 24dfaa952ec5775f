//! The whole state goes to the disk while I/O goes on, and the log's tail moves behind it.
//!
//! The checkpoint is fuzzy (rule D5): a step writes some chunks as they are now, with the log's position now, and
//! replay applies only later records to them. It is incremental: of a chunk only those leaves are written that have
//! changed since the last one, each into a fresh slot; the directory that says where all leaves are is written whole, into
//! the area that is not in use. The map of slots comes last: what a record of before its chunk's line did to the slots is
//! then surely in it. When all is written and flushed, the superblocks are changed, one after the other; from then on
//! replay begins where the log was when the checkpoint began. Until then the old checkpoint and the old tail hold, and
//! every leaf that the old one names stays where it is.

use super::env::Env;
use super::io::Io;
use super::log::{Log, Position};
use super::space::Space;
use super::superblocks::Superblocks;
use super::{Store, leaves, mount, space};
use crate::State;
use crate::faults::Fault;
use crate::fences::Fences;
use crate::format::checkpoint::{
    CHUNK_BYTES, ChunkItem, GROUP_BYTES, Leaves, PageWriter, Paused, SLOTS_BYTES, SLOTS_PER_ITEM, STATE_BYTES,
    VOLUME_BYTES, flag,
};
use crate::format::record::{Fence, Run};
use crate::format::superblock::{Checkpoint, Superblock};
use crate::format::{PAGE_BYTES, Slot, leaf};
use crate::index::{ChunkKey, Index, LEAST_OF_PAGE, Location};
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{BufMut, Slice};
use amita_types::{ChunkId, Generation, NodeId, SnapshotId, Version, VolumeId};

/// Bytes of the directory that are written at once.
const STEP_BYTES: usize = 128 << 10;
/// Leaves that one step writes: a bound for the work of one pass. A chunk's leaves go together.
const STEP_LEAVES: usize = 32;
/// Pages of states that a chunk gets in one checkpoint at most; with them, too, it goes together.
const STATE_PAGES_AT_ONCE: u64 = 16;
/// Chunks that one step looks at, their states with them: to write one of these down takes about as long as a chunk.
const STEP_CHUNKS: usize = 4096;
/// A checkpoint begins when this part of the log is used: 1/2, so that the other half can fill while it is written.
const BEGIN_AT: u64 = 2;
/// Or when this part of the memory for leaves holds changed ones.
const BEGIN_AT_DIRTY: u64 = 2;

/// Where a checkpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Fences and chunks are being written.
    Items,
    /// The map of slots is being written.
    Slots,
    /// The last pages are being written.
    Last,
    /// All is written, and being flushed.
    Flush,
    /// The superblocks are being changed.
    Superblock,
}

/// The writer of checkpoints; it has the superblocks written when one is complete.
#[derive(Debug, Default)]
pub(super) struct Writer {
    phase: Phase,
    next: Next,
    directory: Directory,
    /// Where the log was when it began: replay begins there.
    tail: Position,
    /// Device writes under way.
    writing: u32,
    /// Leaves whose pages are under way.
    leaves: Vec<(Location, Slot)>,
    dirty: Vec<Location>,
    /// Chunks of which nothing is left, and the log's position then: records of before must not bring them back.
    pub forgotten: Vec<(ChunkId, u64)>,
    retired: Retired,
    /// A checkpoint is wanted for its own sake.
    pub wanted: bool,
    pub superblocks: Superblocks,
}

/// What is written next of each kind.
#[derive(Debug, Default)]
struct Next {
    group: usize,
    volume: usize,
    deleted: VolumeId,
    chunk: u32,
    /// A chunk of which nothing is left.
    gone: usize,
    slot: u32,
}

/// The directory as far as it is written.
#[derive(Debug, Default)]
struct Directory {
    pages: u64,
    /// The checksum of the last page.
    last_sum: u32,
    /// The pages that are being filled.
    filling: Option<(BufMut, Paused)>,
}

/// Pages of leaves that nothing refers to any more, but a checkpoint that can be mounted.
#[derive(Debug, Default)]
struct Retired {
    /// The one on the disk names them, and the next one will not.
    now: Vec<Slot>,
    /// The one that is being written may name them, too.
    later: Vec<Slot>,
}

impl Writer {
    /// Slots that come free with checkpoints.
    pub fn retired(&self) -> u64 {
        (self.retired.now.len() + self.retired.later.len()) as u64
    }

    /// A page that the checkpoint on the disk names, and nothing else.
    pub fn retire(&mut self, slot: Slot) {
        self.retired.now.push(slot);
    }

    pub fn retired_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.retired.now.iter().chain(&self.retired.later).copied()
    }

    pub fn is_under_way(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Pages of leaves that nothing refers to any more: they come free when no checkpoint names them.
    pub fn retire_released(&mut self, index: &mut Index, space: &mut Space) {
        if index.released_pages.is_empty() {
            return;
        }
        for slot in index.released_pages.drain(..) {
            if !space.map.release(slot) {
                // Map and index disagree: the store is about to be poisoned.
                continue;
            }
            if self.phase == Phase::Idle {
                self.retired.now.push(slot);
            } else {
                self.retired.later.push(slot);
            }
        }
    }

    /// Bytes that the lines of forgotten chunks take.
    pub fn forgotten_bytes(&self) -> u64 {
        self.forgotten.len() as u64 * CHUNK_BYTES
    }

    /// It is on the disk, and what the one before named is free.
    fn ended(&mut self, log: &Log, space: &mut Space) {
        self.phase = Phase::Idle;
        self.forgotten.retain(|&(_, position)| position > log.tail);
        let later = std::mem::take(&mut self.retired.later);
        let reads = space.window.next();
        for slot in std::mem::replace(&mut self.retired.now, later) {
            space.freed.push(slot, log.durable_mark, reads);
        }
    }

    fn begin(&mut self, tail: Position) {
        self.phase = Phase::Items;
        self.next = Next::default();
        self.directory = Directory::default();
        self.tail = tail;
        self.wanted = false;
    }

    /// The pages of the directory that are being filled, with space for `bytes` more of items.
    fn room(&mut self, with: &mut Writing<'_>, bytes: u64) -> (BufMut, Paused) {
        if let Some((mut buffer, paused)) = self.directory.filling.take() {
            let writer = PageWriter::resume(&mut buffer, with.env.id, with.id(), self.directory.pages, paused);
            if writer.space() >= bytes {
                return (buffer, paused);
            }
            let filled = writer.finish();
            self.write_directory(with, buffer, filled.pages, filled.last_sum);
        }
        let pages = PageWriter::pages_for(bytes) * PAGE_BYTES;
        (with.env.take_surely(pages.max(STEP_BYTES)), Paused::default())
    }

    /// Writes pages of the directory. If there are more than fit the area, the checkpoint begins again: the index always
    /// fits, but what is written at different times may together be more.
    fn write_directory(&mut self, with: &mut Writing<'_>, mut buffer: BufMut, pages: usize, last_sum: u32) {
        if pages == 0 {
            return;
        }
        buffer.truncate(pages * PAGE_BYTES);
        let geometry = &with.superblock.geometry;
        let first = self.directory.pages;
        self.directory.pages += pages as u64;
        self.directory.last_sum = last_sum;
        if self.directory.pages > geometry.checkpoint_pages {
            return;
        }
        let offset = geometry.checkpoint_offsets[with.area() as usize] + first * PAGE_BYTES as u64;
        self.write(with, offset, vec![buffer.freeze()]);
    }

    fn write(&mut self, with: &mut Writing<'_>, offset: u64, data: Vec<Slice>) {
        self.writing += 1;
        with.env.counters.checkpoint_bytes += data.iter().map(|slice| slice.len() as u64).sum::<u64>();
        with.env.start_write(Io::Checkpoint, offset, data);
    }

    /// Fences, chunks with their changed leaves, and forgotten chunks.
    fn step_items(&mut self, with: &mut Writing<'_>) {
        let (mut buffer, paused) = self.room(with, GROUP_BYTES.max(VOLUME_BYTES));
        let (id, checkpoint, first) = (with.env.id, with.id(), self.directory.pages);
        let mut writer = PageWriter::resume(&mut buffer, id, checkpoint, first, paused);
        while writer.space() >= GROUP_BYTES
            && let Some(group) = with.fences.groups().get(self.next.group)
        {
            writer.group(&Fence {
                volume: VolumeId(0),
                generation: Generation(0),
                owner: NodeId(0),
                group: group.id,
                epoch: group.epoch,
                blocks_per_chunk: group.blocks_per_chunk,
                in_sync: group.in_sync.clone(),
                syncing: group.syncing.clone(),
            });
            self.next.group += 1;
        }
        while writer.space() >= VOLUME_BYTES
            && let Some(volume) = with.fences.volumes().get(self.next.volume)
        {
            if volume.generation < Generation::DELETED {
                writer.volume(volume.id, volume.generation.0, volume.owner);
            }
            self.next.volume += 1;
        }
        let fences = self.next.group >= with.fences.groups().len() && self.next.volume >= with.fences.volumes().len();
        // Ranges may grow together meanwhile: what is left is what is above the last number that was written.
        while fences
            && writer.space() >= VOLUME_BYTES
            && let Some((first, last)) = with.fences.deleted_from(self.next.deleted)
        {
            let more = u32::try_from(last.0 - first.0).unwrap_or(u32::MAX);
            writer.volume(first, Generation::DELETED.0, NodeId(more));
            self.next.deleted = VolumeId((first.0 + u64::from(more)).saturating_add(1));
        }
        let fences = fences && with.fences.deleted_from(self.next.deleted).is_none();
        let paused = writer.pause();
        self.directory.filling = Some((buffer, paused));
        if fences {
            self.step_chunks(with);
        }
        if self.directory.pages > with.superblock.geometry.checkpoint_pages {
            self.begin(with.log.applied);
        }
    }

    fn step_chunks(&mut self, with: &mut Writing<'_>) {
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut runs = Vec::new();
        let mut pages: Vec<BufMut> = Vec::new();
        let mut looked = 0;
        while looked < STEP_CHUNKS {
            let key = ChunkKey(self.next.chunk);
            if key.0 >= with.index.end() {
                break;
            }
            if !with.index.chunk(key).is_there() {
                self.next.chunk += 1;
                looked += 1;
                continue;
            }
            with.index.dirty_leaves(key, &mut dirty);
            let count = dirty.len();
            if !pages.is_empty() && pages.len() + count > STEP_LEAVES {
                break;
            }
            if (with.space.allocator.free() as usize) < count {
                // Slots that were given back come free with the mark; the reserve is there so that some do.
                break;
            }
            self.write_leaves(with, &dirty, &mut runs, &mut pages);
            self.write_states(with, key, &mut runs, &mut pages);
            self.retire_written(with);
            let bytes = with.index.dump_bytes(key);
            let states = bytes.saturating_sub(CHUNK_BYTES) / STATE_BYTES;
            looked += 1 + usize::try_from(states).unwrap_or(STEP_CHUNKS);
            let (mut buffer, paused) = self.room(with, bytes);
            let (id, checkpoint, first) = (with.env.id, with.id(), self.directory.pages);
            let mut writer = PageWriter::resume(&mut buffer, id, checkpoint, first, paused);
            // What is accepted and not durable is not in it: replay brings that.
            with.index.dump(key, with.log.applied.page, &mut writer);
            let paused = writer.pause();
            self.directory.filling = Some((buffer, paused));
            self.next.chunk += 1;
        }
        self.dirty = dirty;
        let mut pages = pages.into_iter().map(BufMut::freeze);
        for run in runs {
            let data: Vec<Slice> = pages.by_ref().take(run.count as usize).collect();
            let offset = with.superblock.geometry.slot_offset(run.slot);
            self.write(with, offset, data);
        }
        if self.next.chunk >= with.index.end() {
            self.step_gone(with);
        }
    }

    /// Gives the changed leaves of a chunk their pages, in memory; `runs` says where `pages` go.
    fn write_leaves(
        &mut self,
        with: &mut Writing<'_>,
        dirty: &[Location],
        runs: &mut Vec<Run>,
        pages: &mut Vec<BufMut>,
    ) {
        for &at in dirty {
            if with.index.cleared_whole(at).is_some() {
                with.index.written(at, None);
                continue;
            }
            let mut page = with.env.take_surely(PAGE_BYTES);
            let chunk = with.index.chunk(at.chunk).id;
            let entries = with.index.entries_of(at);
            let sum = leaf::encode(&mut page, with.env.id, chunk, usize::from(at.part), with.id(), entries);
            let slot = take_slot(with.space, runs);
            with.index.written(at, Some((slot, sum)));
            self.leaves.push((at, slot));
            pages.push(page);
        }
        with.env.counters.leaf_writes += dirty.len() as u64;
    }

    /// Gives a chunk's older states pages of their own, if there are slots to spare; what is in none stands in the directory. All leaves
    /// of the chunk have their pages.
    fn write_states(&mut self, with: &mut Writing<'_>, key: ChunkKey, runs: &mut Vec<Run>, pages: &mut Vec<BufMut>) {
        let Some(recent) = with.recent_states else {
            with.index.remove_state_pages(key, |_| false);
            return;
        };
        with.index.drop_stale_pages(key);
        let slots = with.superblock.geometry.slots;
        let mut left = with.space.spare_slots(with.index, slots).min(STATE_PAGES_AT_ONCE);
        if left == 0 {
            return;
        }
        for mut places in with.index.states_for_pages(key, recent) {
            while places.len() >= LEAST_OF_PAGE && left > 0 {
                let mut page = with.env.take_surely(PAGE_BYTES);
                let mut filled = with.index.fill_state_page(key, places.clone(), with.env.id, &mut page);
                filled.slot = take_slot(with.space, runs);
                places.start += usize::from(filled.states);
                with.index.add_state_page(key, filled);
                with.env.counters.state_pages += 1;
                pages.push(page);
                left -= 1;
            }
        }
    }

    /// What the checkpoint on the disk names, and this one does not, comes free with this one.
    fn retire_written(&mut self, with: &mut Writing<'_>) {
        for slot in with.index.released_pages.drain(..) {
            if with.space.map.release(slot) {
                self.retired.now.push(slot);
            }
        }
    }

    fn step_gone(&mut self, with: &mut Writing<'_>) {
        while let Some(&(chunk, position)) = self.forgotten.get(self.next.gone) {
            let (mut buffer, paused) = self.room(with, CHUNK_BYTES);
            let (id, checkpoint, first) = (with.env.id, with.id(), self.directory.pages);
            let mut writer = PageWriter::resume(&mut buffer, id, checkpoint, first, paused);
            writer.chunk(&ChunkItem {
                chunk,
                version: Version::NONE,
                position,
                born: SnapshotId::HEAD,
                snapshot: SnapshotId::HEAD,
                flags: flag::GONE,
                leaves: Leaves::new(),
            });
            let paused = writer.pause();
            self.directory.filling = Some((buffer, paused));
            self.next.gone += 1;
        }
        self.phase = Phase::Slots;
    }

    /// The map of slots, as of what is durable now.
    fn step_slots(&mut self, with: &mut Writing<'_>) {
        let slots = with.superblock.geometry.slots;
        let mut shared = Vec::new();
        while self.next.slot < slots && self.writing == 0 {
            let first = self.next.slot;
            let bytes = SLOTS_BYTES + with.space.map.item_shared_bytes(first);
            let (mut buffer, paused) = self.room(with, bytes);
            let (id, checkpoint, pages) = (with.env.id, with.id(), self.directory.pages);
            let mut writer = PageWriter::resume(&mut buffer, id, checkpoint, pages, paused);
            writer.slots(with.log.applied.page, first, with.space.map.item(first));
            with.space.map.write_shared(first, &mut writer, &mut shared);
            let paused = writer.pause();
            self.directory.filling = Some((buffer, paused));
            self.next.slot = first.saturating_add(SLOTS_PER_ITEM);
        }
        if self.next.slot >= slots {
            if let Some((mut buffer, paused)) = self.directory.filling.take() {
                let (id, checkpoint, pages) = (with.env.id, with.id(), self.directory.pages);
                let filled = PageWriter::resume(&mut buffer, id, checkpoint, pages, paused).finish();
                self.write_directory(with, buffer, filled.pages, filled.last_sum);
            }
            self.phase = Phase::Last;
        }
        if self.directory.pages > with.superblock.geometry.checkpoint_pages {
            self.begin(with.log.applied);
        }
    }
}

/// Takes a free slot for a page; `runs` says where pages go.
fn take_slot(space: &mut Space, runs: &mut Vec<Run>) -> Slot {
    let before = runs.len();
    space.allocator.take(1, runs);
    // It went to a run of its own, or to the end of the last one.
    let last = runs[runs.len().max(before) - 1];
    let slot = last.slot.plus(last.count - 1);
    space.map.claim(slot);
    slot
}

/// What a checkpoint is written from.
struct Writing<'a> {
    env: &'a mut Env,
    index: &'a mut Index,
    space: &'a mut Space,
    fences: &'a Fences,
    log: &'a Log,
    superblock: &'a Superblock,
    recent_states: Option<usize>,
}

impl Writing<'_> {
    /// The number of the checkpoint that is written.
    fn id(&self) -> u64 {
        id_of_next(self.superblock)
    }

    /// Where it goes.
    fn area(&self) -> u32 {
        area_of_next(self.superblock)
    }
}

fn id_of_next(superblock: &Superblock) -> u64 {
    superblock.checkpoint.id + 1
}

fn area_of_next(superblock: &Superblock) -> u32 {
    1 - superblock.checkpoint.area
}

/// One step of a checkpoint, if one is due or under way.
pub(super) fn step(store: &mut Store) {
    if store.checkpoint.phase == Phase::Idle && is_due(store) {
        store.checkpoint.begin(store.log.applied);
    }
    let mut with = Writing {
        env: &mut store.env,
        index: &mut store.index,
        space: &mut store.space,
        fences: &store.fences,
        log: &store.log,
        superblock: &store.superblock,
        recent_states: store.config.recent_states,
    };
    if store.checkpoint.phase == Phase::Items && store.checkpoint.writing == 0 {
        store.checkpoint.step_items(&mut with);
    }
    if store.checkpoint.phase == Phase::Slots && store.checkpoint.writing == 0 {
        store.checkpoint.step_slots(&mut with);
    }
    if store.checkpoint.phase == Phase::Last && store.checkpoint.writing == 0 {
        close(store);
    }
}

fn is_due(store: &Store) -> bool {
    let used = store.log.end.page - store.log.tail;
    let long = used > store.superblock.geometry.log_pages / BEGIN_AT || store.log.full;
    let heavy = store.index.dirty_bytes() > leaves::budget(&store.config, &store.index, &store.space) / BEGIN_AT_DIRTY;
    let due = long || heavy || space::free_slots_scarce(store) || store.checkpoint.wanted;
    store.log.applied.page > store.log.tail && (due || buggify(Point::EarlyCheckpoint))
}

pub(super) fn written(store: &mut Store) {
    if !matches!(store.state, State::Serving) {
        return;
    }
    store.checkpoint.writing -= 1;
    if store.checkpoint.writing == 0 {
        let mut leaves = std::mem::take(&mut store.checkpoint.leaves);
        for (at, slot) in leaves.drain(..) {
            store.index.settle(at, slot);
        }
        store.checkpoint.leaves = leaves;
    }
}

fn close(store: &mut Store) {
    if store.env.file.volatile_cache && !store.config.faults.has(Fault::CheckpointUnflushed) {
        store.checkpoint.phase = Phase::Flush;
        store.env.start_flush(Io::CheckpointFlush);
    } else {
        flushed(store);
    }
}

pub(super) fn flushed(store: &mut Store) {
    if !matches!(store.state, State::Serving) {
        return;
    }
    store.checkpoint.phase = Phase::Superblock;
    let new = Superblock {
        generation: store.superblock.generation + 1,
        checkpoint: Checkpoint {
            area: area_of_next(&store.superblock),
            id: id_of_next(&store.superblock),
            pages: store.checkpoint.directory.pages,
            last_sum: store.checkpoint.directory.last_sum,
            tail: store.checkpoint.tail.page,
            tail_sum: store.checkpoint.tail.sum,
        },
        ..store.superblock
    };
    store.checkpoint.superblocks.update(&mut store.env, new);
}

pub(super) fn superblock_written(store: &mut Store) {
    if store.env.file.volatile_cache {
        store.env.start_flush(Io::SuperblockFlush);
    } else {
        superblock_flushed(store);
    }
}

pub(super) fn superblock_flushed(store: &mut Store) {
    if !matches!(store.state, State::Serving | State::Mounting) {
        return;
    }
    let Some(new) = store.checkpoint.superblocks.flushed(&mut store.env) else {
        return;
    };
    store.superblock = new;
    if store.mount.is_some() {
        return mount::finished(store);
    }
    // Records before the tail are never replayed again: what they freed can be reused (rule D1).
    store.log.cut(new.checkpoint.tail);
    store.checkpoint.ended(&store.log, &mut store.space);
    store.env.counters.checkpoints += 1;
    space::reclaim(store);
}
