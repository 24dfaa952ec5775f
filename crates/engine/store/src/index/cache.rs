//! The leaves that are in memory.
//!
//! One that is being changed is flat: 128 entries of 16 bytes. One that is as the disk has it is packed where that makes it
//! half as large or smaller: runs of slots that follow one another with one version, and four bytes of checksum a block.

#[cfg(any(test, feature = "planted"))]
mod check;

use super::arena::{Arena, Flat, Segmented};
use super::leaves::NO_MEM;
use super::{Entry, LEAF_BYTES, LEAF_ENTRIES, LeafRef, Location};
use crate::format::Slot;
use amita_types::{SnapshotId, Version};

/// A leaf in memory.
#[derive(Debug)]
pub(super) struct Mem {
    pub at: Location,
    pub data: Data,
    /// Has it changed since it was written?
    pub dirty: bool,
    /// Was it used since the clock came by?
    pub used: std::cell::Cell<bool>,
    /// Is its page being written? Then it cannot be read back yet.
    pub writing: bool,
}

#[derive(Debug)]
pub(super) enum Data {
    Free,
    Loading,
    Flat(u32),
    Packed(Box<Packed>),
    /// Every block was cleared by this write. Stands in the checkpoint's directory, so it needs no page.
    Cleared(Version),
}

/// Runs, and a checksum for each block that has data.
#[derive(Debug)]
pub(super) struct Packed {
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
    pub fn of(entries: &Flat) -> Option<Packed> {
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

    pub fn entry(&self, block: usize) -> Entry {
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

    pub fn bytes(&self) -> u64 {
        (size_of::<Packed>() + self.runs.len() * size_of::<PackedRun>() + self.sums.len() * 4) as u64
    }
}

#[derive(Debug, Default)]
pub(crate) struct LeafCache {
    mems: Segmented<Mem>,
    free: Vec<u32>,
    arena: Arena,
    /// Where the hand of the clock is that looks for leaves to be dropped.
    hand: u32,
    /// Bytes of leaves that are packed.
    packed_bytes: u64,
    /// Leaves that the disk has not, or has otherwise.
    dirty: u32,
}

impl LeafCache {
    pub(super) fn get(&self, mem: u32) -> &Mem {
        &self.mems[mem]
    }

    pub(super) fn entry(&self, leaf: LeafRef, at: usize) -> Entry {
        if leaf.mem != NO_MEM {
            self.mems[leaf.mem].used.set(true);
        }
        self.look(leaf, at)
    }

    /// The same, without a word to the clock.
    pub(super) fn look(&self, leaf: LeafRef, at: usize) -> Entry {
        if leaf.mem == NO_MEM {
            assert!(leaf.is_never(), "a leaf is used that is not in memory");
            return Entry::NEVER;
        }
        match &self.mems[leaf.mem].data {
            Data::Flat(flat) => self.arena.get(*flat)[at],
            Data::Packed(packed) => packed.entry(at),
            Data::Cleared(version) => Entry::cleared(*version),
            Data::Free | Data::Loading => panic!("a leaf is used that is not in memory"),
        }
    }

    pub(super) fn add(&mut self, at: Location, data: Data) -> u32 {
        let mem = Mem {
            at,
            data,
            dirty: false,
            used: std::cell::Cell::new(true),
            writing: false,
        };
        match self.free.pop() {
            Some(place) => {
                self.mems[place] = mem;
                place
            }
            None => {
                let place = self.mems.push(mem);
                // Room for all, so that giving one back never allocates.
                if self.free.capacity() <= place as usize {
                    self.free.reserve(place as usize + 1024 - self.free.len());
                }
                place
            }
        }
    }

    pub(super) fn remove(&mut self, mem: u32) {
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
        self.free.push(mem);
    }

    pub(super) fn mark_dirty(&mut self, mem: u32) {
        let place = &mut self.mems[mem];
        if !place.dirty {
            place.dirty = true;
            self.dirty += 1;
        }
    }

    /// Makes a leaf in memory flat.
    pub(super) fn flatten(&mut self, mem: u32) -> u32 {
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

    /// It belongs to another state now.
    pub(super) fn moved(&mut self, leaf: LeafRef, to: SnapshotId) {
        if leaf.mem != NO_MEM {
            self.mems[leaf.mem].at.to = to;
        }
    }

    /// The entries of one that may be changed; its state is flat from now on, and the disk has it otherwise.
    pub(super) fn change(&mut self, mem: u32) -> &mut Flat {
        let flat = self.flatten(mem);
        self.mark_dirty(mem);
        self.mems[mem].used.set(true);
        self.arena.get_mut(flat)
    }

    /// A new one in which no block was ever written.
    pub(super) fn add_blank(&mut self, at: Location) -> u32 {
        let flat = self.arena.take();
        *self.arena.get_mut(flat) = [Entry::NEVER; LEAF_ENTRIES];
        self.add(at, Data::Flat(flat))
    }

    /// A new one like another.
    pub(super) fn add_copy(&mut self, at: Location, old: LeafRef) -> u32 {
        let flat = self.arena.take();
        if let Data::Flat(from) = self.mems[old.mem].data {
            self.arena.copy(from, flat);
        } else {
            for entry in 0..LEAF_ENTRIES {
                self.arena.get_mut(flat)[entry] = self.entry(old, entry);
            }
        }
        self.add(at, Data::Flat(flat))
    }

    /// It was read.
    pub(super) fn fill(&mut self, mem: u32, entries: &Flat) {
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

    /// It goes to a page (or to the directory).
    pub(super) fn written(&mut self, mem: u32, page: bool) {
        self.dirty -= 1;
        let place = &mut self.mems[mem];
        place.dirty = false;
        place.writing = page;
    }

    /// Its page is on the disk. It is packed, where that saves something.
    pub(super) fn settle(&mut self, mem: u32) {
        let place = &mut self.mems[mem];
        place.writing = false;
        if let Data::Flat(flat) = place.data
            && !place.dirty
            && let Some(packed) = Packed::of(self.arena.get(flat))
        {
            self.arena.give(flat);
            self.packed_bytes += packed.bytes();
            self.mems[mem].data = Data::Packed(Box::new(packed));
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.mems.len()
    }

    /// Turns the clock by one; returns the leaf that it points at, if that may be dropped and was not used since it came by
    /// last. `pinned` says of which leaves are needed.
    pub(super) fn turn(&mut self, pinned: impl Fn(Location) -> bool) -> Option<u32> {
        let mem = self.hand % self.mems.len();
        self.hand = (mem + 1) % self.mems.len();
        let place = &self.mems[mem];
        let droppable = matches!(place.data, Data::Flat(_) | Data::Packed(_)) && !place.dirty && !place.writing;
        if !droppable || pinned(place.at) || place.used.replace(false) {
            return None;
        }
        Some(mem)
    }

    /// Bytes of the leaves.
    pub(super) fn bytes(&self) -> u64 {
        self.arena.used_bytes() + self.packed_bytes
    }

    /// Bytes of what manages them.
    pub(super) fn fixed_bytes(&self) -> u64 {
        self.mems.bytes()
    }

    pub(super) fn dirty(&self) -> u32 {
        self.dirty
    }
}
