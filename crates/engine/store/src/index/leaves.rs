//! Leaves in memory: flat, packed, or on the disk only.
//!
//! A leaf that is being changed is flat: 128 entries of 16 bytes. One that is as the disk has it is packed where that
//! makes it half as large or smaller: runs of slots that follow one another with one version, and four bytes of
//! checksum a block. Where memory is short, a clock goes round over those that the disk has, and drops what was not
//! used since it came by last.

#[cfg(any(test, feature = "planted"))]
mod check;

use super::arena::Flat;
use super::{ChunkKey, Entry, Index, LEAF_BYTES, LEAF_ENTRIES, LOST, LeafRef, OpSlot, PARTS, View};
use crate::format::Slot;
use crate::format::checkpoint::LeafPlace;
use amita_types::{BlockIndex, BlockRange, Version};

/// Not in memory.
pub(super) const NO_MEM: u32 = u32::MAX;
/// In place of a state's serial number: the chunk itself.
pub(super) const HEAD: u32 = 0;

/// Which leaf: of the chunk itself (serial 0) or of one of its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    pub chunk: ChunkKey,
    pub serial: u32,
    pub part: u8,
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

/// A leaf in memory.
#[derive(Debug)]
pub(super) struct Mem {
    pub at: Location,
    data: Data,
    /// Has it changed since it was written?
    dirty: bool,
    /// Was it used since the clock came by?
    used: std::cell::Cell<bool>,
    /// Is its page being written? Then it cannot be read back yet.
    writing: bool,
}

impl Mem {
    /// Has it changed since it was written?
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }
}

#[derive(Debug)]
enum Data {
    Free,
    Loading,
    Flat(u32),
    Packed(Box<Packed>),
    /// Every block was cleared by this write. Stands in the checkpoint's directory, so it needs no page.
    Cleared(Version),
}

/// Runs, and a checksum for each block that has data.
#[derive(Debug)]
struct Packed {
    runs: Vec<PackedRun>,
    sums: Vec<u32>,
}

/// Blocks that follow one another with one version, in slots that follow one another or without any.
#[derive(Clone, Copy, Debug)]
struct PackedRun {
    version: Version,
    slot: Slot,
    /// The first block.
    first: u8,
    /// How many, less one.
    more: u8,
    /// Its first checksum.
    sum: u16,
}

const _: () = assert!(size_of::<PackedRun>() == 16 && LEAF_ENTRIES <= 256);

impl Packed {
    /// `None`: it would be more than half as large as the leaf.
    fn of(entries: &Flat) -> Option<Packed> {
        let mut runs: Vec<PackedRun> = Vec::new();
        let mut sums = Vec::new();
        let most = LEAF_BYTES as usize / 2;
        for (block, entry) in entries.iter().enumerate() {
            let follows = runs.last().is_some_and(|run| {
                let more = block as u32 - u32::from(run.first);
                let slot = match run.slot {
                    Slot::NONE => Slot::NONE,
                    Slot(first) => Slot(first.wrapping_add(more)),
                };
                run.version == entry.version && slot == entry.slot
            });
            if follows {
                runs.last_mut().expect("looked at above").more += 1;
            } else {
                runs.push(PackedRun {
                    version: entry.version,
                    slot: entry.slot,
                    first: block as u8,
                    more: 0,
                    sum: sums.len() as u16,
                });
            }
            if entry.has_data() {
                sums.push(entry.sum);
            }
            if runs.len() * size_of::<PackedRun>() + sums.len() * 4 > most {
                return None;
            }
        }
        runs.shrink_to_fit();
        sums.shrink_to_fit();
        Some(Packed { runs, sums })
    }

    fn entry(&self, block: usize) -> Entry {
        let at = self.runs.partition_point(|run| usize::from(run.first) <= block) - 1;
        let run = self.runs[at];
        let more = block - usize::from(run.first);
        if run.slot == Slot::NONE {
            return Entry::cleared(run.version);
        }
        Entry {
            slot: run.slot.plus(more as u32),
            sum: self.sums[usize::from(run.sum) + more],
            version: run.version,
        }
    }

    fn bytes(&self) -> u64 {
        (size_of::<Packed>() + self.runs.len() * size_of::<PackedRun>() + self.sums.len() * 4) as u64
    }
}

impl Index {
    pub(super) fn leaf_ref(&self, at: Location) -> &LeafRef {
        let chunk = self.chunk(at.chunk);
        if at.serial == HEAD {
            return &chunk.parts[usize::from(at.part)];
        }
        let state = chunk.states().iter().find(|state| state.serial == at.serial);
        state
            .and_then(|state| state.part(at.part))
            .expect("the caller knows that it is there")
    }

    pub(super) fn leaf_ref_mut(&mut self, at: Location) -> &mut LeafRef {
        let chunk = &mut self.chunks[at.chunk.0];
        if at.serial == HEAD {
            return &mut chunk.parts[usize::from(at.part)];
        }
        let states = chunk.states.as_mut().expect("the caller knows that it is there");
        let state = states.iter_mut().find(|state| state.serial == at.serial);
        state
            .and_then(|state| state.part_mut(at.part))
            .expect("the caller knows that it is there")
    }

    /// What is known of a leaf?
    pub fn leaf(&self, at: Location) -> Leaf {
        let leaf = *self.leaf_ref(at);
        if leaf.mem != NO_MEM {
            return match self.mems[leaf.mem].data {
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

    pub(super) fn entry_of(&self, leaf: LeafRef, at: usize) -> Entry {
        if leaf.mem == NO_MEM {
            assert!(leaf.is_never(), "a leaf is used that is not in memory");
            return Entry::NEVER;
        }
        let mem = &self.mems[leaf.mem];
        mem.used.set(true);
        match &mem.data {
            Data::Flat(flat) => self.arena.get(*flat)[at],
            Data::Packed(packed) => packed.entry(at),
            Data::Cleared(version) => Entry::cleared(*version),
            Data::Free | Data::Loading => panic!("a leaf is used that is not in memory"),
        }
    }

    /// All entries of a leaf that is in memory.
    pub fn entries_of(&self, at: Location) -> impl Iterator<Item = Entry> + '_ {
        let leaf = *self.leaf_ref(at);
        (0..LEAF_ENTRIES).map(move |entry| self.entry_of(leaf, entry))
    }

    fn new_mem(&mut self, at: Location, data: Data) -> u32 {
        let mem = Mem {
            at,
            data,
            dirty: false,
            used: std::cell::Cell::new(true),
            writing: false,
        };
        match self.free_mems.pop() {
            Some(place) => {
                self.mems[place] = mem;
                place
            }
            None => {
                let place = self.mems.push(mem);
                // Room for all, so that giving one back never allocates.
                if self.free_mems.capacity() <= place as usize {
                    self.free_mems.reserve(place as usize + 1024 - self.free_mems.len());
                }
                place
            }
        }
    }

    fn free_mem(&mut self, mem: u32) {
        let place = &mut self.mems[mem];
        if place.dirty {
            place.dirty = false;
            self.dirty -= 1;
        }
        match std::mem::replace(&mut place.data, Data::Free) {
            Data::Flat(flat) => self.arena.give(flat),
            Data::Packed(packed) => self.packed_bytes -= packed.bytes(),
            Data::Free | Data::Loading | Data::Cleared(_) => {}
        }
        self.free_mems.push(mem);
    }

    fn mark_dirty(&mut self, mem: u32) {
        let place = &mut self.mems[mem];
        if !place.dirty {
            place.dirty = true;
            self.dirty += 1;
        }
    }

    /// Makes a leaf in memory flat.
    fn flatten(&mut self, mem: u32) -> u32 {
        if let Data::Flat(flat) = self.mems[mem].data {
            return flat;
        }
        let flat = self.arena.take();
        match std::mem::replace(&mut self.mems[mem].data, Data::Flat(flat)) {
            Data::Packed(packed) => {
                self.packed_bytes -= packed.bytes();
                let entries = self.arena.get_mut(flat);
                for (block, entry) in entries.iter_mut().enumerate() {
                    *entry = packed.entry(block);
                }
            }
            Data::Cleared(version) => *self.arena.get_mut(flat) = [Entry::cleared(version); LEAF_ENTRIES],
            Data::Free | Data::Loading | Data::Flat(_) => panic!("a leaf is changed that is not in memory"),
        }
        flat
    }

    /// The chunk's own leaf of a part, to be changed: a state that shared it keeps it as it was.
    pub(super) fn own(&mut self, key: ChunkKey, part: usize) -> &mut Flat {
        let at = Location {
            chunk: key,
            serial: HEAD,
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
                let flat = self.arena.take();
                *self.arena.get_mut(flat) = [Entry::NEVER; LEAF_ENTRIES];
                self.new_mem(at, Data::Flat(flat))
            }
            (NO_MEM, Some(old)) => {
                let flat = self.arena.take();
                if let Data::Flat(from) = self.mems[old.mem].data {
                    self.arena.copy(from, flat);
                } else {
                    for entry in 0..LEAF_ENTRIES {
                        self.arena.get_mut(flat)[entry] = self.entry_of(old, entry);
                    }
                }
                self.new_mem(at, Data::Flat(flat))
            }
            (mem, _) => mem,
        };
        self.leaf_ref_mut(at).mem = mem;
        let flat = self.flatten(mem);
        self.mark_dirty(mem);
        self.mems[mem].used.set(true);
        self.arena.get_mut(flat)
    }

    /// If the newest state shares this leaf of the chunk's, it gets it, and the chunk has none: returns what it was.
    fn share(&mut self, at: Location) -> Option<LeafRef> {
        let chunk = &mut self.chunks[at.chunk.0];
        let newest = chunk.states.as_mut()?.last_mut()?;
        if newest.part(at.part).is_some() {
            return None;
        }
        let leaf = std::mem::replace(&mut chunk.parts[usize::from(at.part)], LeafRef::NEVER);
        newest.put(at.part, leaf);
        let serial = newest.serial;
        self.state_parts += 1;
        if leaf.mem != NO_MEM {
            self.mems[leaf.mem].at.serial = serial;
        }
        Some(leaf)
    }

    /// Every block of a part is cleared by one write.
    pub(super) fn clear_part(&mut self, key: ChunkKey, part: usize, version: Version, freed: &mut impl FnMut(Slot)) {
        let at = Location {
            chunk: key,
            serial: HEAD,
            part: part as u8,
        };
        if self.share(at).is_none() {
            let leaf = *self.leaf_ref(at);
            // What a lost leaf held stays in use until it is known again.
            if !leaf.is_lost() {
                for block in 0..LEAF_ENTRIES {
                    let entry = self.entry_of(leaf, block);
                    if entry.has_data() && !self.in_a_state(key, part * LEAF_ENTRIES + block, entry) {
                        freed(entry.slot);
                    }
                }
            }
            self.release_leaf(at);
        }
        let mem = self.new_mem(at, Data::Cleared(version));
        self.leaf_ref_mut(at).mem = mem;
        self.mark_dirty(mem);
    }

    /// A leaf is needed no more; its page goes to `released_pages`.
    pub(super) fn release_leaf(&mut self, at: Location) {
        let leaf = std::mem::replace(self.leaf_ref_mut(at), LeafRef::NEVER);
        self.release_ref(leaf);
    }

    pub(super) fn release_ref(&mut self, leaf: LeafRef) {
        if leaf.mem != NO_MEM {
            self.free_mem(leaf.mem);
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
        let mem = self.new_mem(at, Data::Loading);
        self.leaf_ref_mut(at).mem = mem;
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
        let at = self.mems[mem].at;
        (at, self.leaf_ref(at).sum)
    }

    /// It was read; `None`: it cannot be.
    pub fn load_end(&mut self, mem: u32, entries: Option<&Flat>) {
        let at = self.mems[mem].at;
        let Some(entries) = entries else {
            self.leaf_ref_mut(at).mem = NO_MEM;
            return self.free_mem(mem);
        };
        match Packed::of(entries) {
            Some(packed) => {
                self.packed_bytes += packed.bytes();
                self.mems[mem].data = Data::Packed(Box::new(packed));
            }
            None => {
                let flat = self.arena.take();
                *self.arena.get_mut(flat) = *entries;
                self.mems[mem].data = Data::Flat(flat);
            }
        }
        self.mems[mem].used.set(true);
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
        for _ in 0..most.min(self.mems.len()) {
            if self.leaf_bytes() <= budget {
                return;
            }
            let mem = self.hand % self.mems.len();
            self.hand = (mem + 1) % self.mems.len();
            let place = &self.mems[mem];
            let droppable = matches!(place.data, Data::Flat(_) | Data::Packed(_)) && !place.dirty && !place.writing;
            // Changes that are under way have made sure that their leaves are here.
            if !droppable || self.chunk(place.at.chunk).first_pending != OpSlot::NONE {
                continue;
            }
            if place.used.replace(false) {
                continue;
            }
            let at = place.at;
            assert!(self.leaf_ref(at).slot != Slot::NONE, "what is dropped is on the disk");
            self.leaf_ref_mut(at).mem = NO_MEM;
            self.free_mem(mem);
        }
    }

    /// Leaves of a chunk and its states that have changed and need a page.
    pub fn dirty_leaves(&self, key: ChunkKey, out: &mut Vec<Location>) {
        out.clear();
        let chunk = self.chunk(key);
        let states = chunk
            .states()
            .iter()
            .flat_map(|state| state.parts.iter().map(move |&(part, leaf)| (state.serial, part, leaf)));
        let own = (0..PARTS as u8).zip(chunk.parts).map(|(part, leaf)| (HEAD, part, leaf));
        for (serial, part, leaf) in states.chain(own) {
            if leaf.mem != NO_MEM && self.mems[leaf.mem].dirty {
                out.push(Location {
                    chunk: key,
                    serial,
                    part,
                });
            }
        }
    }

    /// Was every block of the leaf cleared by one write?
    pub fn cleared_whole(&self, at: Location) -> Option<Version> {
        let mem = self.leaf_ref(at).mem;
        match self.mems[mem].data {
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
        self.dirty -= 1;
        let place = &mut self.mems[mem];
        place.dirty = false;
        place.writing = page.is_some();
    }

    /// Its page is on the disk: it may be dropped. It is packed, where that saves something.
    pub fn settle(&mut self, at: Location, slot: Slot) {
        // It may have been changed, moved to a state or given back since.
        let chunk = self.chunk(at.chunk);
        let refs = chunk.states().iter().filter_map(|state| state.part(at.part));
        let mut refs = refs.chain(std::iter::once(&chunk.parts[usize::from(at.part)]));
        let Some(leaf) = refs.find(|leaf| leaf.slot == slot).copied() else {
            return;
        };
        if leaf.mem == NO_MEM {
            return;
        }
        let place = &mut self.mems[leaf.mem];
        place.writing = false;
        if let Data::Flat(flat) = place.data
            && !place.dirty
            && let Some(packed) = Packed::of(self.arena.get(flat))
        {
            self.arena.give(flat);
            self.packed_bytes += packed.bytes();
            self.mems[leaf.mem].data = Data::Packed(Box::new(packed));
        }
    }

    /// Where a leaf stands in a checkpoint: nowhere, if it was cleared whole (that is an item of its own).
    pub(super) fn leaf_place(&self, leaf: LeafRef) -> Result<LeafPlace, Version> {
        if leaf.mem != NO_MEM
            && let Data::Cleared(version) = self.mems[leaf.mem].data
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
        let mem = self.new_mem(at, Data::Cleared(version));
        self.leaf_ref_mut(at).mem = mem;
        true
    }
}
