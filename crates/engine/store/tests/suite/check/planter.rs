//! Changes what an image says, with right checksums all the way up.

use crate::common::BLOCK;
use amita_store::Entry;
use amita_store::format::checkpoint::{
    ChunkItem, Item, LeafPlace, Leaves, OlderItem, PageWriter, PastItem, RawVolume, SLOTS_PER_ITEM, StateItem,
};
use amita_store::format::record::{Fence, Mark};
use amita_store::format::superblock::{OFFSETS, Superblock};
use amita_store::format::{PAGE_BYTES, Slot, leaf};
use amita_store::offline::{checkpoint_items, newest, superblocks};
use amita_types::{ChunkId, NodeId, Version};

/// An item of the checkpoint.
#[derive(Clone, Debug)]
pub enum Line {
    Group(Fence),
    Volume(RawVolume),
    Chunk(ChunkItem),
    Origin(ChunkId),
    Past(PastItem),
    State(StateItem),
    Older(OlderItem),
    Mark(Mark),
    Cleared(u32, Version),
    Slots {
        position: u64,
        first: u32,
        bits: Vec<u64>,
        shared: Vec<(Slot, u32)>,
    },
}

/// An image that is being changed.
#[derive(Clone)]
pub struct Planter {
    pub image: Vec<u8>,
    pub superblock: Superblock,
    pub lines: Vec<Line>,
}

impl Planter {
    pub fn new(image: &[u8]) -> Planter {
        let superblock = newest(&superblocks(&image)).expect("a store");
        let mut lines = Vec::new();
        checkpoint_items(&image, &superblock, &mut |_, item| {
            lines.push(match item.expect("a whole checkpoint") {
                Item::Group(fence) => Line::Group(fence),
                Item::Volume(volume) => Line::Volume(volume),
                Item::Chunk(chunk) => Line::Chunk(chunk),
                Item::Origin(origin) => Line::Origin(origin),
                Item::Past(past) => Line::Past(past),
                Item::State(state) => Line::State(state),
                Item::Older(older) => Line::Older(older),
                Item::Mark(mark) => Line::Mark(mark),
                Item::Cleared { first, version, .. } => Line::Cleared(first / 128, version),
                Item::Slots { position, first, bits } => Line::Slots {
                    position,
                    first,
                    bits: bits.words().collect(),
                    shared: Vec::new(),
                },
                Item::Shared(counts) => {
                    let Some(Line::Slots { shared, .. }) = lines.last_mut() else {
                        panic!("counts without slots")
                    };
                    shared.extend(counts.iter());
                    return;
                }
            });
        });
        assert!(!lines.is_empty(), "the image has a checkpoint");
        Planter {
            image: image.to_vec(),
            superblock,
            lines,
        }
    }

    /// Writes the checkpoint and both superblocks anew.
    pub fn finish(mut self) -> Vec<u8> {
        let checkpoint = &mut self.superblock.checkpoint;
        let mut out = vec![0; self.superblock.geometry.checkpoint_pages as usize * PAGE_BYTES];
        let mut writer = PageWriter::new(&mut out, self.superblock.store, checkpoint.id, 0);
        for line in &self.lines {
            match line {
                Line::Group(fence) => writer.group(fence),
                Line::Volume(raw) => {
                    writer.volume(amita_types::VolumeId(raw.volume), raw.generation, NodeId(raw.owner))
                }
                Line::Chunk(item) => writer.chunk(item),
                Line::Origin(origin) => writer.origin(*origin),
                Line::Past(past) => writer.past(*past),
                Line::State(item) => writer.state(item),
                Line::Older(item) => writer.older(item),
                Line::Mark(mark) => writer.mark(mark),
                Line::Cleared(part, version) => writer.cleared(*part, *version),
                Line::Slots {
                    position,
                    first,
                    bits,
                    shared,
                } => {
                    writer.slots(*position, *first, bits);
                    writer.shared(shared);
                }
            }
        }
        let filled = writer.finish();
        checkpoint.pages = filled.pages as u64;
        checkpoint.last_sum = filled.last_sum;
        let start = self.superblock.geometry.checkpoint_offsets[checkpoint.area as usize] as usize;
        self.image[start..start + out.len()].copy_from_slice(&out);
        let superblock = self.superblock;
        for copy in 0..2 {
            self.put_superblock(copy, &superblock);
        }
        self.image
    }

    pub fn put_superblock(&mut self, copy: usize, superblock: &Superblock) {
        let at = OFFSETS[copy] as usize;
        self.image[at..at + PAGE_BYTES].copy_from_slice(&superblock.encode());
    }

    pub fn slot_at(&self, slot: Slot) -> usize {
        self.superblock.geometry.slot_offset(slot) as usize
    }

    fn at(&self, chunk: ChunkId) -> usize {
        let is_it = |line: &Line| matches!(line, Line::Chunk(item) if item.chunk == chunk);
        self.lines
            .iter()
            .position(is_it)
            .expect("the chunk is in the checkpoint")
    }

    pub fn chunk(&mut self, chunk: ChunkId) -> &mut ChunkItem {
        let at = self.at(chunk);
        match &mut self.lines[at] {
            Line::Chunk(item) => item,
            _ => unreachable!(),
        }
    }

    /// Which line has a state of a chunk.
    pub fn state_line(&self, chunk: ChunkId, n: usize) -> usize {
        let from = self.at(chunk);
        let states = (from..self.lines.len()).filter(|&at| matches!(self.lines[at], Line::State(_)));
        states.into_iter().nth(n).expect("a state")
    }

    pub fn state(&mut self, chunk: ChunkId, n: usize) -> &mut StateItem {
        let at = self.state_line(chunk, n);
        match &mut self.lines[at] {
            Line::State(item) => item,
            _ => unreachable!(),
        }
    }

    fn leaves(&mut self, chunk: ChunkId, state: Option<usize>) -> &mut Leaves {
        match state {
            None => &mut self.chunk(chunk).leaves,
            Some(n) => &mut self.state(chunk, n).leaves,
        }
    }

    /// The slot of a leaf.
    pub fn leaf(&mut self, chunk: ChunkId, state: Option<usize>) -> Slot {
        match self.leaves(chunk, state)[0] {
            (0, LeafPlace::At(slot, _)) => slot,
            other => panic!("its first leaf is {other:?}"),
        }
    }

    pub fn set_leaf(&mut self, chunk: ChunkId, place: LeafPlace) {
        self.leaves(chunk, None)[0].1 = place;
    }

    /// The entries of a leaf.
    pub fn entries(&mut self, chunk: ChunkId, state: Option<usize>) -> Vec<Entry> {
        let at = self.leaf(chunk, state);
        let at = self.slot_at(at);
        let raw = self.image[at + leaf::Header::BYTES..].chunks_exact(leaf::RawEntry::BYTES);
        let raw = raw.take(128).filter_map(leaf::RawEntry::get);
        raw.map(|raw| Entry {
            slot: Slot(raw.slot),
            sum: raw.sum,
            version: Version(raw.version),
        })
        .collect()
    }

    /// Writes a leaf anew, for a checkpoint; returns the page's checksum.
    pub fn write_leaf(&mut self, slot: Slot, chunk: ChunkId, checkpoint: u64, entries: &[Entry]) -> u32 {
        let at = self.slot_at(slot);
        let page = &mut self.image[at..at + BLOCK];
        leaf::encode(
            page,
            self.superblock.store,
            chunk,
            0,
            checkpoint,
            entries.iter().copied(),
        )
    }

    /// Changes a leaf, and what names it.
    pub fn edit(&mut self, chunk: ChunkId, state: Option<usize>, change: impl FnOnce(&mut [Entry])) {
        let slot = self.leaf(chunk, state);
        let mut entries = self.entries(chunk, state);
        change(&mut entries);
        let checkpoint = self.superblock.checkpoint.id;
        let sum = self.write_leaf(slot, chunk, checkpoint, &entries);
        self.leaves(chunk, state)[0].1 = LeafPlace::At(slot, sum);
    }

    fn slots(&mut self, slot: Slot) -> (&mut Vec<u64>, &mut Vec<(Slot, u32)>) {
        let first_of = slot.0 / SLOTS_PER_ITEM * SLOTS_PER_ITEM;
        let found = self.lines.iter_mut().find_map(|line| match line {
            Line::Slots {
                first, bits, shared, ..
            } if *first == first_of => Some((bits, shared)),
            _ => None,
        });
        found.expect("the map is whole")
    }

    /// Says in the map of slots whether a slot is in use.
    pub fn set_held(&mut self, slot: Slot, held: bool) {
        let bit = slot.0 % SLOTS_PER_ITEM;
        let (bits, _) = self.slots(slot);
        bits[bit as usize / 64] &= !(1 << (bit % 64));
        bits[bit as usize / 64] |= u64::from(held) << (bit % 64);
    }

    pub fn is_held(&mut self, slot: Slot) -> bool {
        let bit = slot.0 % SLOTS_PER_ITEM;
        self.slots(slot).0[bit as usize / 64] >> (bit % 64) & 1 == 1
    }

    /// Says how many users a slot has.
    pub fn set_users(&mut self, slot: Slot, users: u32) {
        let (_, shared) = self.slots(slot);
        shared.retain(|(other, _)| *other != slot);
        if users > 1 {
            shared.push((slot, users - 1));
            shared.sort_unstable_by_key(|(slot, _)| *slot);
        }
    }
}
