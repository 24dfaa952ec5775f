//! Leaves are read when they are wanted, and dropped when memory is short.

use super::env::Env;
use super::io::Io;
use super::read::Query;
use super::space::Space;
use super::{Store, queue, read, snapshot};
use crate::State;
use crate::config::Config;
use crate::format::superblock::Superblock;
use crate::format::{PAGE_BYTES, leaf};
use crate::index::{ChunkKey, Entry, Index, LEAF_ENTRIES, Leaf, Location};
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
    Read(Query),
}

/// All who wait for leaves, by the leaf's place in memory.
#[derive(Debug, Default)]
pub(super) struct LeafWaits {
    by_mem: FxHashMap<u32, Vec<Waiter>>,
    /// How many reads wait.
    pub reads: usize,
}

impl LeafWaits {
    /// Waits for a leaf that is being read.
    pub fn push(&mut self, index: &Index, at: Location, waiter: Waiter) {
        let mem = index.place_in_memory(at);
        self.reads += usize::from(matches!(waiter, Waiter::Read(_)));
        self.by_mem.entry(mem).or_default().push(waiter);
    }

    /// Forgets all of them; returns the reads.
    pub fn drain(&mut self) -> Vec<Query> {
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

/// Memory for leaves.
pub(super) fn budget(config: &Config, index: &Index, space: &Space) -> u64 {
    let fixed = index.fixed_bytes() + space.map.memory_bytes() + space.allocator.memory_bytes();
    config.index_bytes.saturating_sub(fixed).max(LEAST_LEAF_BYTES)
}

/// Makes room where leaves take more than they should.
pub(super) fn evict(config: &Config, index: &mut Index, space: &Space) {
    let budget = if buggify(Point::DropLeaves) {
        0
    } else {
        budget(config, index, space)
    };
    if index.leaf_bytes() > budget {
        index.evict(budget, LOOKED_AT);
    }
}

/// Starts to read these leaves, of which none is here; returns the last of them, to be waited for.
pub(super) fn want(
    env: &mut Env,
    index: &mut Index,
    superblock: &Superblock,
    missing: &[Location],
) -> Result<Location, LostLeaf> {
    if let Some(lost) = missing.iter().find(|&&at| index.leaf(at) == Leaf::Lost) {
        return Err(LostLeaf(first_block(*lost)));
    }
    for &at in missing {
        if let Leaf::Away(slot) = index.leaf(at) {
            let mem = index.load_begin(at);
            env.counters.leaf_reads += 1;
            let buffer = env.take_surely(PAGE_BYTES);
            let offset = superblock.geometry.slot_offset(slot);
            env.start_read(Io::Leaf { mem }, offset, buffer);
        }
    }
    Ok(*missing.last().expect("something is missing"))
}

/// A leaf was read.
pub(super) fn read_done(store: &mut Store, mem: u32, buffer: &BufMut, result: &io::Result<()>) {
    let at = store.index.loading(mem).0;
    let whole = take(&mut store.env, &mut store.index, &store.superblock, mem, buffer, result);
    if !matches!(store.state, State::Serving) {
        return;
    }
    for waiter in store.leaf_waits.by_mem.remove(&mem).unwrap_or_default() {
        match (waiter, whole) {
            (Waiter::Read(read), whole) => {
                store.leaf_waits.reads -= 1;
                read::go_on(store, read, whole);
            }
            (Waiter::Chunk(chunk), Ok(())) => queue::advance(store, chunk),
            (Waiter::Chunk(chunk), Err(_))
                if result.is_ok() && snapshot::drops_wrong_leaf(&store.index, &mut store.ops, chunk, at) =>
            {
                queue::advance(store, chunk);
            }
            (Waiter::Chunk(chunk), Err(lost)) => queue::leaf_failed(store, chunk, lost),
        }
    }
}

/// What a page says, if it is the leaf that belongs there.
pub(super) fn decode(
    env: &Env,
    index: &Index,
    superblock: &Superblock,
    mem: u32,
    page: &[u8],
) -> Option<Box<[Entry; LEAF_ENTRIES]>> {
    let (at, sum) = index.loading(mem);
    let chunk = index.chunk(at.chunk).id;
    let slots = superblock.geometry.slots;
    leaf::decode(page, env.id, chunk, usize::from(at.part), sum, slots).ok()
}

/// Puts what was read in its place, or says which block cannot be known.
pub(super) fn take(
    env: &mut Env,
    index: &mut Index,
    superblock: &Superblock,
    mem: u32,
    buffer: &BufMut,
    result: &io::Result<()>,
) -> Result<(), LostLeaf> {
    let at = index.loading(mem).0;
    let entries = match result {
        Ok(()) => decode(env, index, superblock, mem, buffer),
        Err(_) => None,
    };
    index.load_end(mem, entries.as_deref());
    if entries.is_none() {
        env.counters.damaged += 1;
        return Err(LostLeaf(first_block(at)));
    }
    Ok(())
}

/// The first block of a leaf.
pub(super) fn first_block(at: Location) -> BlockIndex {
    BlockIndex(u16::from(at.part) * LEAF_ENTRIES as u16)
}
