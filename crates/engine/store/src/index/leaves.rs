//! Where the leaves are: in memory, on the disk only, in both or in neither.
//!
//! Where memory is short, a clock goes round over those that the disk has, and drops what was not used since it came by
//! last.

use super::arena::Flat;
use super::cache::Data;
use super::{ChunkKey, Entry, Index, LEAF_ENTRIES, LOST, LeafRef, OpSlot, PARTS, View};
use crate::format::Slot;
use crate::format::checkpoint::LeafPlace;
use amita_types::{BlockIndex, BlockRange, SnapshotId, Version};

/// Not in memory.
pub(super) const NO_MEM: u32 = u32::MAX;
/// In place of a state's name: the chunk itself.
pub(super) const HEAD: SnapshotId = SnapshotId::HEAD;

/// Which leaf: of the chunk itself or of one of its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    pub chunk: ChunkKey,
    /// The newest snapshot of the state; [`SnapshotId::HEAD`]: it is of the chunk itself.
    pub to: SnapshotId,
    pub part: u8,
}

impl Location {
    /// Is it a leaf of the chunk itself?
    pub fn is_head(self) -> bool {
        self.to == HEAD
    }
}

/// What is known of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// It can be used.
    Here,
    /// It must be read: from this slot.
    Away(Slot),
    /// It is being read.
    Loading,
    /// What it held is not known.
    Lost,
}

impl Index {
    pub(super) fn leaf_ref(&self, at: Location) -> &LeafRef {
        let chunk = self.chunk(at.chunk);
        if at.is_head() {
            return &chunk.parts[usize::from(at.part)];
        }
        let history = chunk.history();
        history
            .and_then(|history| history.leaf(at.to, at.part))
            .expect("the caller knows that it is there")
    }

    pub(super) fn leaf_ref_mut(&mut self, at: Location) -> &mut LeafRef {
        let chunk = &mut self.chunks[at.chunk.0];
        if at.is_head() {
            return &mut chunk.parts[usize::from(at.part)];
        }
        let history = chunk.states.as_mut();
        history
            .and_then(|history| history.leaf_mut(at.to, at.part))
            .expect("the caller knows that it is there")
    }

    /// The same, of which only the place in memory changes.
    fn mem_mut(&mut self, at: Location) -> &mut u32 {
        let chunk = &mut self.chunks[at.chunk.0];
        if at.is_head() {
            return &mut chunk.parts[usize::from(at.part)].mem;
        }
        let history = chunk.states.as_mut();
        let leaf = history.and_then(|history| history.leaf_to_place(at.to, at.part));
        &mut leaf.expect("the caller knows that it is there").mem
    }

    /// What is known of a leaf?
    pub fn leaf(&self, at: Location) -> Leaf {
        let leaf = *self.leaf_ref(at);
        if leaf.mem != NO_MEM {
            return match self.cache.get(leaf.mem).data {
                Data::Loading => Leaf::Loading,
                _ => Leaf::Here,
            };
        }
        match leaf.slot {
            Slot::NONE if leaf.sum == LOST => Leaf::Lost,
            Slot::NONE => Leaf::Here,
            slot => Leaf::Away(slot),
        }
    }

    /// All entries of a leaf that is in memory.
    pub fn entries_of(&self, at: Location) -> impl Iterator<Item = Entry> + '_ {
        let leaf = *self.leaf_ref(at);
        (0..LEAF_ENTRIES).map(move |entry| self.cache.entry(leaf, entry))
    }

    /// The chunk's own leaf of a part, to be changed: a state that shared it keeps it as it was.
    pub(super) fn own(&mut self, key: ChunkKey, part: usize) -> &mut Flat {
        let at = Location {
            chunk: key,
            to: HEAD,
            part: part as u8,
        };
        let shared = self.share(at);
        let leaf = *self.leaf_ref(at);
        let mem = match (leaf.mem, shared) {
            (NO_MEM, None | Some(LeafRef { mem: NO_MEM, .. })) => {
                assert!(
                    leaf.is_never() && shared.is_none_or(LeafRef::is_never),
                    "a leaf is changed that is not in memory"
                );
                self.cache.add_blank(at)
            }
            (NO_MEM, Some(old)) => self.cache.add_copy(at, old),
            (mem, _) => mem,
        };
        self.leaf_ref_mut(at).mem = mem;
        self.cache.change(mem)
    }

    /// If the newest state shares this leaf of the chunk's, it gets it, and the chunk has none: returns what it was.
    fn share(&mut self, at: Location) -> Option<LeafRef> {
        let chunk = &mut self.chunks[at.chunk.0];
        let history = chunk.states.as_mut()?;
        if history.newest_has(at.part) {
            return None;
        }
        let leaf = std::mem::replace(&mut chunk.parts[usize::from(at.part)], LeafRef::NEVER);
        let to = history.newest()?.to;
        history.put(to, at.part, leaf);
        self.state_parts += 1;
        self.cache.moved(leaf, to);
        Some(leaf)
    }

    /// Every block of a part is cleared by one write.
    pub(super) fn clear_part(&mut self, key: ChunkKey, part: usize, version: Version, freed: &mut impl FnMut(Slot)) {
        let at = Location {
            chunk: key,
            to: HEAD,
            part: part as u8,
        };
        if self.share(at).is_none() {
            let leaf = *self.leaf_ref(at);
            // What a lost leaf held stays in use until it is known again.
            if !leaf.is_lost() {
                for block in 0..LEAF_ENTRIES {
                    let entry = self.cache.entry(leaf, block);
                    if entry.has_data() && !self.in_a_state(key, part * LEAF_ENTRIES + block, entry) {
                        freed(entry.slot);
                    }
                }
            }
            self.release_leaf(at);
        }
        let mem = self.cache.add(at, Data::Cleared(version));
        self.leaf_ref_mut(at).mem = mem;
        self.cache.mark_dirty(mem);
    }

    /// A leaf is needed no more; its page goes to `released_pages`.
    pub(super) fn release_leaf(&mut self, at: Location) {
        let leaf = std::mem::replace(self.leaf_ref_mut(at), LeafRef::NEVER);
        self.release_ref(leaf);
    }

    pub(super) fn release_ref(&mut self, leaf: LeafRef) {
        if leaf.mem != NO_MEM {
            self.cache.remove(leaf.mem);
        }
        if leaf.slot != Slot::NONE {
            self.pages -= 1;
            self.released_pages.push(leaf.slot);
        }
    }

    /// Which leaves of the chunk, seen as `view`, must be in memory for these blocks and are not.
    pub fn missing(&self, key: ChunkKey, view: View, range: BlockRange) -> impl Iterator<Item = Location> + '_ {
        let first = usize::from(range.first.0) / LEAF_ENTRIES;
        let end = (range.end() as usize).div_ceil(LEAF_ENTRIES);
        (first..end)
            .map(move |part| self.location(key, view, part))
            .filter(|&at| self.leaf(at) != Leaf::Here)
    }

    /// The first block from `from` on, below `end`, that may have been written: parts that never were are left out.
    pub fn next_written(&self, key: ChunkKey, view: View, from: u32, end: u32) -> Option<BlockIndex> {
        let mut block = from;
        while block < end {
            let part = block as usize / LEAF_ENTRIES;
            if !self.leaf_ref(self.location(key, view, part)).is_never() {
                return Some(BlockIndex(block as u16));
            }
            block = (part as u32 + 1) * LEAF_ENTRIES as u32;
        }
        None
    }

    /// A leaf begins to be read; until it ends it is [`Leaf::Loading`]. Returns its place in memory.
    pub fn load_begin(&mut self, at: Location) -> u32 {
        let mem = self.cache.add(at, Data::Loading);
        *self.mem_mut(at) = mem;
        mem
    }

    /// The place in memory of a leaf that is there or being read.
    pub fn place_in_memory(&self, at: Location) -> u32 {
        let mem = self.leaf_ref(at).mem;
        assert!(mem != NO_MEM, "only a leaf that is being read is waited for");
        mem
    }

    /// Which leaf is being read, and what its page must have as a checksum.
    pub fn loading(&self, mem: u32) -> (Location, u32) {
        let at = self.cache.get(mem).at;
        (at, self.leaf_ref(at).sum)
    }

    /// It was read; `None`: it cannot be.
    pub fn load_end(&mut self, mem: u32, entries: Option<&Flat>) {
        let at = self.cache.get(mem).at;
        let Some(entries) = entries else {
            *self.mem_mut(at) = NO_MEM;
            return self.cache.remove(mem);
        };
        self.cache.fill(mem, entries);
    }

    /// Is it not known what a block's leaf held?
    pub fn is_lost(&self, key: ChunkKey, block: BlockIndex) -> bool {
        self.chunk(key).parts[usize::from(block.0) / LEAF_ENTRIES].is_lost()
    }

    /// What a leaf held is not known and cannot be found out: until it is repaired it is lost.
    pub fn lose(&mut self, at: Location) {
        self.release_leaf(at);
        self.leaf_ref_mut(at).sum = LOST;
    }

    /// Drops leaves that the disk has and that were not used for a while, until they take no more than `budget` bytes or
    /// `most` were looked at.
    pub fn evict(&mut self, budget: u64, most: u32) {
        for _ in 0..most.min(self.cache.len()) {
            if self.leaf_bytes() <= budget {
                return;
            }
            // Changes that are under way have made sure that their leaves are here.
            let chunks = &self.chunks;
            let pinned = |at: Location| chunks[at.chunk.0].queue.first != OpSlot::NONE;
            let Some(mem) = self.cache.turn(pinned) else { continue };
            let at = self.cache.get(mem).at;
            assert!(self.leaf_ref(at).slot != Slot::NONE, "what is dropped is on the disk");
            *self.mem_mut(at) = NO_MEM;
            self.cache.remove(mem);
        }
    }

    /// Leaves of a chunk and its states that have changed and need a page.
    pub fn dirty_leaves(&self, key: ChunkKey, out: &mut Vec<Location>) {
        out.clear();
        let chunk = self.chunk(key);
        let is_dirty = |leaf: LeafRef| leaf.mem != NO_MEM && self.cache.get(leaf.mem).dirty;
        for part in 0..PARTS as u8 {
            // What is in a page that is not stale has not changed.
            let states = chunk
                .history()
                .into_iter()
                .flat_map(|history| history.leaves_beside_pages(part));
            let own = (HEAD, chunk.parts[usize::from(part)]);
            let dirty = states.chain([own]).filter(|(_, leaf)| is_dirty(*leaf));
            out.extend(dirty.map(|(to, _)| Location { chunk: key, to, part }));
        }
    }

    /// Was every block of the leaf cleared by one write?
    pub fn cleared_whole(&self, at: Location) -> Option<Version> {
        let mem = self.leaf_ref(at).mem;
        match self.cache.get(mem).data {
            Data::Cleared(version) => Some(version),
            _ => None,
        }
    }

    /// A changed leaf goes to a page, or (none) it stands in the directory. Its page of before goes to `released_pages`.
    pub fn written(&mut self, at: Location, page: Option<(Slot, u32)>) {
        let leaf = self.leaf_ref_mut(at);
        let old = std::mem::replace(&mut leaf.slot, page.map_or(Slot::NONE, |(slot, _)| slot));
        leaf.sum = page.map_or(0, |(_, sum)| sum);
        let mem = leaf.mem;
        if old != Slot::NONE {
            self.pages -= 1;
            self.released_pages.push(old);
        }
        self.pages += u64::from(page.is_some());
        self.cache.written(mem, page.is_some());
    }

    /// Its page is on the disk: it may be dropped. It is packed, where that saves something.
    pub fn settle(&mut self, at: Location, slot: Slot) {
        // It may have been changed, moved to a state or given back since. It is mostly where it was, or is the newest state's.
        let chunk = self.chunk(at.chunk);
        let head = chunk.parts[usize::from(at.part)];
        let there = || {
            chunk
                .history()
                .and_then(|history| history.leaf(at.to, at.part))
                .copied()
        };
        let other = || {
            let mut leaves = chunk.history()?.leaves_of(at.part).rev();
            leaves.find(|(_, leaf)| leaf.slot == slot).map(|(_, leaf)| leaf)
        };
        let is_it = |leaf: &LeafRef| leaf.slot == slot;
        let Some(leaf) = Some(head)
            .filter(is_it)
            .or_else(|| there().filter(is_it))
            .or_else(other)
        else {
            return;
        };
        if leaf.mem == NO_MEM {
            return;
        }
        self.cache.settle(leaf.mem);
    }

    /// Where a leaf stands in a checkpoint: nowhere, if it was cleared whole (that is an item of its own).
    pub(super) fn leaf_place(&self, leaf: LeafRef) -> Result<LeafPlace, Version> {
        if leaf.mem != NO_MEM
            && let Data::Cleared(version) = self.cache.get(leaf.mem).data
        {
            return Err(version);
        }
        Ok(match leaf.slot {
            Slot::NONE if leaf.is_lost() => LeafPlace::Lost,
            Slot::NONE => LeafPlace::Never,
            slot => LeafPlace::At(slot, leaf.sum),
        })
    }

    /// Takes over a leaf from a checkpoint; `false`: the part has one already.
    pub(super) fn load_place(&mut self, at: Location, place: LeafPlace) -> bool {
        let leaf = self.leaf_ref_mut(at);
        if !leaf.is_never() {
            return false;
        }
        *leaf = LeafRef::from(place);
        self.pages += u64::from(leaf.slot != Slot::NONE);
        true
    }

    /// Takes over a part that was cleared whole from a checkpoint.
    pub(super) fn load_cleared_part(&mut self, at: Location, version: Version) -> bool {
        if !self.leaf_ref(at).is_never() {
            return false;
        }
        let mem = self.cache.add(at, Data::Cleared(version));
        self.leaf_ref_mut(at).mem = mem;
        true
    }

    /// The page of a leaf, and the checksum that it must have.
    pub fn look_page(&self, at: Location) -> Option<(Slot, u32)> {
        let leaf = self.leaf_ref(at);
        (leaf.slot != Slot::NONE).then_some((leaf.slot, leaf.sum))
    }

    /// Was no block of this part ever written?
    pub fn look_is_never(&self, at: Location) -> bool {
        self.leaf_ref(at).is_never()
    }

    /// Is what is in memory not what the page says?
    pub fn look_is_changed(&self, at: Location) -> bool {
        let mem = self.leaf_ref(at).mem;
        mem != NO_MEM && self.cache.get(mem).dirty
    }
}
