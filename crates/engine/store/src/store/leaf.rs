//! Leaves are read when they are wanted, and dropped when memory is short.

use super::read::ParkedRead;
use super::{Store, io::Io};
use crate::State;
use crate::format::{PAGE_BYTES, leaf};
use crate::index::{ChunkKey, Entry, LEAF_BYTES, LEAF_ENTRIES, Leaf, Location};
use amita_reactor::BufMut;
use amita_reactor::buggify::{Point, buggify};
use amita_types::BlockIndex;
use rustc_hash::FxHashMap;
use std::io;

/// Leaves looked at in one pass, to find some that can be dropped.
const LOOKED_AT: u32 = 256;
/// The least memory for leaves, however large the rest is: what is under way must fit.
const LEAST_LEAF_BYTES: u64 = 256 << 10;

/// Who waits for a leaf.
#[derive(Debug)]
pub(super) enum Waiter {
    /// The changes of a chunk.
    Chunk(ChunkKey),
    /// A read.
    Read(ParkedRead),
}

/// All who wait for leaves, by the leaf's place in memory.
#[derive(Debug, Default)]
pub(super) struct LeafWaits {
    by_mem: FxHashMap<u32, Vec<Waiter>>,
    /// How many reads wait.
    pub reads: usize,
}

impl LeafWaits {
    /// Forgets all of them; returns the reads.
    pub fn drain(&mut self) -> Vec<ParkedRead> {
        self.reads = 0;
        let waiters = self.by_mem.drain().flat_map(|(_, waiters)| waiters);
        waiters
            .filter_map(|waiter| match waiter {
                Waiter::Read(read) => Some(read),
                Waiter::Chunk(_) => None,
            })
            .collect()
    }
}

/// Why a leaf cannot be waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostLeaf(pub BlockIndex);

impl Store {
    /// Memory for leaves.
    pub(super) fn leaf_budget(&self) -> u64 {
        let fixed = self.index.fixed_bytes() + self.space.map.memory_bytes() + self.space.allocator.memory_bytes();
        self.config.index_bytes.saturating_sub(fixed).max(LEAST_LEAF_BYTES)
    }

    /// Bytes of leaves that cannot be dropped before a checkpoint has written them.
    pub(super) fn dirty_bytes(&self) -> u64 {
        u64::from(self.index.dirty()) * LEAF_BYTES
    }

    /// Makes room where leaves take more than they should.
    pub(super) fn evict_leaves(&mut self) {
        let budget = if buggify(Point::DropLeaves) {
            0
        } else {
            self.leaf_budget()
        };
        if self.index.leaf_bytes() > budget {
            self.index.evict(budget, LOOKED_AT);
        }
    }

    /// Starts to read these leaves, of which none is here; returns the last of them, to be waited for.
    pub(super) fn want_leaves(&mut self, missing: &[Location]) -> Result<Location, LostLeaf> {
        if let Some(lost) = missing.iter().find(|&&at| self.index.leaf(at) == Leaf::Lost) {
            return Err(LostLeaf(first_block(*lost)));
        }
        for &at in missing {
            if let Leaf::Away(slot) = self.index.leaf(at) {
                let mem = self.index.load_begin(at);
                self.env.counters.leaf_reads += 1;
                let buffer = self.env.take_surely(PAGE_BYTES);
                let offset = self.superblock.geometry.slot_offset(slot);
                self.env.start_read(Io::Leaf { mem }, offset, buffer);
            }
        }
        Ok(*missing.last().expect("something is missing"))
    }

    /// Waits for a leaf that is being read.
    pub(super) fn wait_for_leaf(&mut self, at: Location, waiter: Waiter) {
        let mem = self.index.place_in_memory(at);
        self.leaf_waits.reads += usize::from(matches!(waiter, Waiter::Read(_)));
        self.leaf_waits.by_mem.entry(mem).or_default().push(waiter);
    }

    /// A leaf was read.
    pub(super) fn leaf_read(&mut self, mem: u32, buffer: &BufMut, result: &io::Result<()>) {
        let at = self.index.loading(mem).0;
        let whole = self.take_leaf(mem, buffer, result);
        if !matches!(self.state, State::Serving) {
            return;
        }
        for waiter in self.leaf_waits.by_mem.remove(&mem).unwrap_or_default() {
            match (waiter, whole) {
                (Waiter::Read(read), whole) => {
                    self.leaf_waits.reads -= 1;
                    self.unpark(read, whole.err());
                }
                (Waiter::Chunk(chunk), Ok(())) => self.advance_chunk(chunk),
                (Waiter::Chunk(chunk), Err(_)) if result.is_ok() && self.drops_wrong_leaf(chunk, at) => {
                    self.advance_chunk(chunk);
                }
                (Waiter::Chunk(chunk), Err(lost)) => self.leaf_failed(chunk, lost),
            }
        }
    }

    /// What a page says, if it is the leaf that belongs there.
    pub(super) fn read_leaf(&self, mem: u32, page: &[u8]) -> Option<Box<[Entry; LEAF_ENTRIES]>> {
        let (at, sum) = self.index.loading(mem);
        let chunk = self.index.chunk(at.chunk).id;
        let slots = self.superblock.geometry.slots;
        leaf::decode(page, self.env.id, chunk, usize::from(at.part), sum, slots).ok()
    }

    /// Puts what was read in its place, or says which block cannot be known.
    pub(super) fn take_leaf(&mut self, mem: u32, buffer: &BufMut, result: &io::Result<()>) -> Result<(), LostLeaf> {
        let at = self.index.loading(mem).0;
        let entries = match result {
            Ok(()) => self.read_leaf(mem, buffer),
            Err(_) => None,
        };
        self.index.load_end(mem, entries.as_deref());
        if entries.is_none() {
            self.env.counters.damaged += 1;
            return Err(LostLeaf(first_block(at)));
        }
        Ok(())
    }
}

/// The first block of a leaf.
pub(super) fn first_block(at: Location) -> BlockIndex {
    BlockIndex(u16::from(at.part) * LEAF_ENTRIES as u16)
}
