//! The changes of a pass become one batch: their data, and beside it one or several pages of the log, in parallel.
//!
//! Several batches may be under way at once; they become durable in their order (`durable`). The blocks of a batch lie
//! in as few runs as the allocator finds, so that a pass is two device writes where free space allows.

use super::change::Change;
use super::env::Env;
use super::io::Io;
use super::log::{Log, Position};
use super::op::Ops;
use super::pages::{Pages, record_bytes, seal_pages};
use super::space::Space;
use super::{Store, fence, space};
use crate::State;
use crate::config::Config;
use crate::faults::Fault;
use crate::fences::Fences;
use crate::format::page::{Header, MAX_BATCH_PAGES, RECORDS_BYTES};
use crate::format::record::{MAX_RECORD_BYTES, Run};
use crate::format::superblock::Superblock;
use crate::format::{FORMAT_VERSION, PAGE_BYTES, Slot, page};
use crate::index::{Index, OpSlot};
use amita_reactor::buggify::{Point, buggify, narrow};
use amita_reactor::{BufMut, Segments, Slice};
use amita_types::{BLOCK_BYTES, MAX_BLOCKS_PER_CHUNK, MAX_IO_BLOCKS};
use arrayvec::ArrayVec;

/// Batches under way at once: enough to keep a disk busy while the next ones are collected.
pub(super) const MAX_BATCHES: usize = 8;
/// How many pages can be in flight.
const IN_FLIGHT_PAGES: u64 = (MAX_BATCHES * MAX_BATCH_PAGES) as u64;
/// The mark is never further behind: a page is written with all marked that is durable, and at most so many pages are
/// not. (Twice, because the page that carries the mark is itself in flight.)
pub(super) const MAX_UNVERIFIED_PAGES: u64 = 2 * IN_FLIGHT_PAGES;
/// How far behind a bad page of the log a mount looks for proof that it was durable: some pages further on the mark
/// must have passed it.
pub(super) const LOOKAHEAD_PAGES: u64 = 2 * MAX_UNVERIFIED_PAGES;
/// Changes of one batch: what one pass brings under load.
const MAX_BATCH_OPS: usize = 256;
/// Blocks of one batch: a whole chunk's roll-forward, and what small writes come with it.
const MAX_BATCH_BLOCKS: u32 = MAX_BLOCKS_PER_CHUNK + MAX_IO_BLOCKS;
/// Bytes of records that surely fit a page, whatever the records are.
const SURE_RECORDS_BYTES: usize = RECORDS_BYTES - MAX_RECORD_BYTES;
/// Bytes of records of one batch.
const MAX_BATCH_BYTES: usize = (MAX_BATCH_PAGES - 1) * SURE_RECORDS_BYTES;
/// Pieces of one device write: well below the kernel's limit of 1024.
const MAX_SEGMENTS: usize = 512;
/// Bytes of one staging buffer, for payload that the device cannot take as it lies: a class of the pool.
const STAGING_BYTES: usize = 128 << 10;

impl Log {
    /// Writes the first changes that are ready: their data, and the pages of the log. `false`: not now.
    fn write_batch(&mut self, with: &mut Batching<'_>) -> bool {
        let Selection { ops, blocks, pages } = select(with.ops);
        assert!(pages <= MAX_BATCH_PAGES, "a batch of {ops} changes takes {pages} pages");
        if self.pages_left(&with.superblock.geometry) < pages as u64 {
            self.full = true;
            with.env.counters.log_waits += 1;
            return false;
        }
        let buffer = with.env.take_surely(pages * PAGE_BYTES);
        self.take_staging(ops, with);
        let mut batch_ops = self.spare.ops();
        batch_ops.extend(with.ops.ready.drain(..ops));

        let mut runs = std::mem::take(&mut self.spare.runs);
        runs.clear();
        with.space.allocator.take(blocks, &mut runs);
        with.space.claims.reserved -= u64::from(blocks);
        deal(with.ops, &batch_ops, &runs);
        let mut writes = self.write_data(&batch_ops, &runs, with);
        self.spare.runs = runs;
        self.spare.staging.clear();

        for &key in &batch_ops {
            // What is dropped in several steps counts until the last one is durable (rule R6).
            if !matches!(with.ops.get(key).change, Change::RetainSnapshots(_)) {
                with.fences.logged(with.ops.get(key).volume());
            }
        }
        let end = self.write_pages(buffer, &batch_ops, &mut writes, with);
        self.mark_wanted = end.page;
        with.env.counters.batches += 1;
        self.push(with.env.now, end, batch_ops, writes);
        true
    }

    /// A page without records.
    fn write_mark(&mut self, with: &mut Batching<'_>) {
        let buffer = with.env.take_surely(PAGE_BYTES);
        with.env.counters.mark_pages += 1;
        let mut writes = 0;
        let end = self.write_pages(buffer, &[], &mut writes, with);
        with.env.counters.batches += 1;
        self.push(with.env.now, end, Vec::new(), writes);
    }

    /// Takes memory for the payload that must be copied because the device wants another alignment.
    fn take_staging(&mut self, ops: usize, with: &mut Batching<'_>) {
        let alignment = with.env.file.alignment as usize;
        if alignment <= 1 {
            return;
        }
        let mut bytes = 0;
        for &key in with.ops.ready.iter().take(ops) {
            let copied = with
                .ops
                .get(key)
                .change
                .slices()
                .filter(|slice| !is_aligned(slice, alignment));
            bytes += copied.map(|slice| slice.len()).sum::<usize>();
        }
        with.env.counters.copied_blocks += (bytes / PAGE_BYTES) as u64;
        while bytes > 0 {
            let buffer = with.env.take_surely(bytes.min(STAGING_BYTES));
            bytes -= buffer.len();
            self.spare.staging.push(buffer);
        }
        self.spare.staging.reverse();
    }

    /// Starts a write for each run; returns how many.
    fn write_data(&mut self, ops: &[OpSlot], runs: &[Run], with: &mut Batching<'_>) -> u32 {
        let alignment = with.env.file.alignment as usize;
        let batch = self.next_batch();
        let mut writes = 0;
        let mut left = runs.iter();
        let mut offset = 0;
        let mut room = 0;
        let mut segments = self.spare.segments();
        let mut segment_bytes = 0;
        for &key in ops {
            let mut at = 0;
            while let Some(mut slice) = with.ops.get(key).change.slice(at) {
                at += 1;
                let copy = !is_aligned(&slice, alignment);
                while !slice.is_empty() {
                    if room == 0 || segments.len() == MAX_SEGMENTS {
                        if segment_bytes > 0 {
                            let full = std::mem::replace(&mut segments, self.spare.segments());
                            with.env.start_write(Io::Batch { batch, log: false }, offset, full);
                            writes += 1;
                            offset += segment_bytes as u64;
                            segment_bytes = 0;
                        }
                        if room == 0 {
                            let run = left.next().expect("as many slots were taken as there are blocks");
                            offset = with.superblock.geometry.slot_offset(run.slot);
                            room = run.count as usize * PAGE_BYTES;
                        }
                    }
                    let bytes = room.min(slice.len());
                    let piece = slice.split_to(bytes);
                    room -= bytes;
                    segment_bytes += bytes;
                    if copy {
                        stage(&mut self.spare.staging, &piece, &mut segments);
                    } else {
                        push_joined(&mut segments, piece);
                    }
                }
            }
        }
        if segment_bytes > 0 {
            with.env.start_write(Io::Batch { batch, log: false }, offset, segments);
            writes += 1;
        } else {
            self.spare.recycle(segments);
        }
        assert!(
            room == 0 && left.next().is_none(),
            "every slot that was taken is written"
        );
        with.env.counters.data_bytes += runs.iter().map(|run| u64::from(run.count * BLOCK_BYTES)).sum::<u64>();
        writes
    }

    /// Fills and starts the pages of a batch; returns where it ends.
    fn write_pages(
        &mut self,
        mut buffer: BufMut,
        ops: &[OpSlot],
        writes: &mut u32,
        with: &mut Batching<'_>,
    ) -> Position {
        let mut pages = Pages {
            buffer: &mut buffer,
            used: ArrayVec::new(),
        };
        pages.used.push((0, 0));
        for &key in ops {
            pages.add(with.ops.get(key), with.index);
        }
        let used = std::mem::take(&mut pages.used);
        let header = Header {
            magic: page::MAGIC,
            version: FORMAT_VERSION,
            store: page::tag(with.env.id),
            mount: with.superblock.mount,
            sequence: self.end.page,
            mark: if with.config.faults.has(Fault::MarkEverything) {
                self.end.page
            } else {
                self.applied.page
            },
            previous_sum: self.end.sum,
            index: 0,
            pages: used.len() as u16,
            used: 0,
            records: 0,
            reserved: 0,
        };
        let sum = seal_pages(&mut buffer, header, &used);
        buffer.truncate(used.len() * PAGE_BYTES);
        with.env.counters.log_pages += used.len() as u64;

        let batch = self.next_batch();
        let geometry = with.superblock.geometry;
        let until_end = (geometry.log_pages - self.end.page % geometry.log_pages) as usize;
        let mut rest = buffer.freeze();
        let mut sequence = self.end.page;
        for count in [until_end.min(used.len()), used.len().saturating_sub(until_end)] {
            if count > 0 {
                let mut segments = self.spare.segments();
                segments.push(rest.split_to(count * PAGE_BYTES));
                with.env.start_write(
                    Io::Batch { batch, log: true },
                    geometry.log_page_offset(sequence),
                    segments,
                );
                *writes += 1;
                sequence += count as u64;
            }
        }
        let page = self.end.page + used.len() as u64;
        Position { page, sum }
    }
}

/// What a batch is made from.
struct Batching<'a> {
    env: &'a mut Env,
    ops: &'a mut Ops,
    space: &'a mut Space,
    fences: &'a mut Fences,
    index: &'a Index,
    superblock: &'a Superblock,
    config: &'a Config,
}

/// How much the next batch will hold.
struct Selection {
    ops: usize,
    blocks: u32,
    pages: usize,
}

/// Writes what can be logged.
pub(super) fn run(store: &mut Store) {
    debug_assert!(
        matches!(store.state, State::Serving),
        "only a store that serves writes to its log"
    );
    store.log.full = false;
    let most = if narrow(Point::OneBatch) { 1 } else { MAX_BATCHES };
    while store.log.batches.len() < most && !store.ops.ready.is_empty() {
        // What changes leaves that cannot be dropped waits for the checkpoint that writes them.
        if space::leaves_full(store) || !write_batch(store) {
            return;
        }
        // A fence that waited for these changes to be logged follows them (rule R6).
        fence::advance(store);
    }
    let (geometry, idle) = (&store.superblock.geometry, store.config.idle_mark_after);
    let due = store.log.mark_due(store.env.now, idle, &store.space, geometry.slots);
    if due && store.log.pages_left(geometry) > 0 {
        let (log, mut with) = batching(store);
        log.write_mark(&mut with);
    }
}

fn write_batch(store: &mut Store) -> bool {
    let (log, mut with) = batching(store);
    log.write_batch(&mut with)
}

/// The log, and what it writes from.
fn batching(store: &mut Store) -> (&mut Log, Batching<'_>) {
    let with = Batching {
        env: &mut store.env,
        ops: &mut store.ops,
        space: &mut store.space,
        fences: &mut store.fences,
        index: &store.index,
        superblock: &store.superblock,
        config: &store.config,
    };
    (&mut store.log, with)
}

/// What the next batch will hold.
fn select(all: &Ops) -> Selection {
    let (mut ops, mut blocks, mut bytes) = (0, 0, 0);
    let most = if buggify(Point::SmallBatch) { 1 } else { MAX_BATCH_OPS };
    for &key in all.ready.iter().take(most) {
        let op = all.get(key);
        let more = record_bytes(op);
        if ops > 0 && (blocks + op.claim.blocks > MAX_BATCH_BLOCKS || bytes + more > MAX_BATCH_BYTES) {
            break;
        }
        ops += 1;
        blocks += op.claim.blocks;
        bytes += more;
    }
    let pages = if bytes <= RECORDS_BYTES {
        1
    } else {
        bytes.div_ceil(SURE_RECORDS_BYTES)
    };
    Selection { ops, blocks, pages }
}

/// Deals the slots out to the changes, in their order.
fn deal(all: &mut Ops, ops: &[OpSlot], runs: &[Run]) {
    let mut runs = runs.iter().copied();
    let mut run = Run {
        slot: Slot(0),
        count: 0,
    };
    for &key in ops {
        let op = all.get_mut(key);
        let mut left = op.claim.blocks;
        while left > 0 {
            if run.count == 0 {
                run = runs.next().expect("as many slots were taken as there are blocks");
            }
            let count = left.min(run.count);
            op.runs.push(Run { slot: run.slot, count });
            run = Run {
                slot: run.slot.plus(count),
                count: run.count - count,
            };
            left -= count;
        }
        if let Some(roll) = op.change.entries_mut() {
            let mut slots = op.runs.iter().flat_map(|run| (0..run.count).map(|n| run.slot.plus(n)));
            for (entry, &with_data) in roll.entries.iter_mut().zip(&roll.with_data) {
                if with_data {
                    entry.slot = slots.next().expect("a slot for each block of data");
                }
            }
        }
    }
}

fn is_aligned(slice: &Slice, alignment: usize) -> bool {
    alignment <= 1 || (slice.as_ptr().addr().is_multiple_of(alignment) && slice.len().is_multiple_of(alignment))
}

/// Copies a piece to memory that the device can take.
fn stage(staging: &mut Vec<BufMut>, mut piece: &[u8], segments: &mut Segments) {
    while !piece.is_empty() {
        let buffer = staging.last_mut().expect("the bytes to be copied were counted");
        let count = buffer.len().min(piece.len());
        let (now, later) = piece.split_at(count);
        buffer[..count].copy_from_slice(now);
        push_joined(segments, buffer.split_to(count));
        if buffer.is_empty() {
            staging.pop();
        }
        piece = later;
    }
}

fn push_joined(segments: &mut Segments, slice: Slice) {
    match segments.last_mut() {
        Some(last) => {
            if let Err(slice) = last.join(slice) {
                segments.push(slice);
            }
        }
        None => segments.push(slice),
    }
}
