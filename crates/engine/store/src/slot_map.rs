//! Which slots are in use, and which of them by more than one chunk (rule D5).
//!
//! What is in use here is what durable records and the leaves' pages refer to. A slot that was given back stays out of the
//! allocator's hands a while longer ([`crate::allocator::Freed`]); one that was just taken is not in use here until its
//! record is durable.

mod counts;

use crate::format::Slot;
use crate::format::checkpoint::{PageWriter, SLOTS_PER_ITEM};
use counts::Counts;

const WORDS_PER_ITEM: usize = SLOTS_PER_ITEM as usize / 64;

/// The slots of a store.
#[derive(Debug, Default)]
pub(crate) struct SlotMap {
    /// One bit each; a whole number of [`SLOTS_PER_ITEM`].
    words: Vec<u64>,
    slots: u32,
    count: u64,
    /// How many use a slot besides the first, where there are any (clones).
    more: Counts,
    /// A slot that was given twice, or given back without having been in use: map and index contradict each other.
    pub wrong: Option<Slot>,
}

impl SlotMap {
    /// None of `slots` in use.
    pub fn new(slots: u32) -> SlotMap {
        SlotMap {
            words: vec![0; slots.div_ceil(SLOTS_PER_ITEM) as usize * WORDS_PER_ITEM],
            slots,
            count: 0,
            more: Counts::new(slots),
            wrong: None,
        }
    }

    pub fn has(&self, slot: Slot) -> bool {
        self.words[slot.0 as usize / 64] >> (slot.0 % 64) & 1 == 1
    }

    /// A slot gets its first user; `false`: it has one.
    pub fn claim(&mut self, slot: Slot) -> bool {
        if slot.0 >= self.slots || self.has(slot) {
            self.wrong = Some(slot);
            return false;
        }
        self.words[slot.0 as usize / 64] |= 1 << (slot.0 % 64);
        self.count += 1;
        true
    }

    /// A slot gets another user; `false`: it has none yet.
    pub fn share(&mut self, slot: Slot) -> bool {
        if slot.0 >= self.slots || !self.has(slot) {
            self.wrong = Some(slot);
            return false;
        }
        self.more.set(slot, self.more.get(slot) + 1);
        true
    }

    /// A slot loses a user; `true`: that was the last one.
    pub fn release(&mut self, slot: Slot) -> bool {
        if slot.0 >= self.slots || !self.has(slot) {
            self.wrong = Some(slot);
            return false;
        }
        let more = self.more.get(slot);
        if more > 0 {
            self.more.set(slot, more - 1);
            return false;
        }
        self.words[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
        self.count -= 1;
        true
    }

    /// How many use a slot that is in use.
    pub fn users(&self, slot: Slot) -> u32 {
        1 + self.more.get(slot)
    }

    /// Slots in use.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Slots with several users.
    pub fn shared(&self) -> u64 {
        self.more.shared()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.words.len() as u64 * 8 + self.more.memory_bytes()
    }

    /// The most memory that it takes to give so many slots another user.
    pub fn worst_bytes_to_share(&self, slots: u64) -> u64 {
        self.more.worst_bytes(slots)
    }

    /// The most that all slots with several users take of a checkpoint.
    pub fn shared_bytes(&self) -> u64 {
        self.more.checkpoint_bytes()
    }

    /// The bits of [`SLOTS_PER_ITEM`] slots from `first` on.
    pub fn item(&self, first: u32) -> &[u64] {
        &self.words[first as usize / 64..][..WORDS_PER_ITEM]
    }

    /// Those of them with several users.
    pub fn item_shared(&self, first: u32) -> impl Iterator<Item = (Slot, u32)> + '_ {
        self.more.iter(item_range(first))
    }

    /// Writes down those of them with several users; `list` is for its use.
    pub fn write_shared(&self, first: u32, writer: &mut PageWriter<'_>, list: &mut Vec<(Slot, u32)>) {
        self.more.write(item_range(first), writer, list);
    }

    /// The most bytes that [`SlotMap::write_shared`] writes.
    pub fn item_shared_bytes(&self, first: u32) -> u64 {
        self.more.write_bytes(item_range(first))
    }

    /// Takes over a part from a checkpoint; `false`: it is impossible.
    pub fn load(&mut self, first: u32, words: impl Iterator<Item = u64>) -> bool {
        if first >= self.slots {
            return false;
        }
        let start = first as usize / 64;
        for (place, word) in self.words[start..][..WORDS_PER_ITEM].iter_mut().zip(words) {
            self.count = self.count - u64::from(place.count_ones()) + u64::from(word.count_ones());
            *place = word;
        }
        // Bits beyond the last slot mean nothing.
        let end = u64::from(first) + u64::from(SLOTS_PER_ITEM);
        for slot in u64::from(self.slots)..end {
            let (word, bit) = ((slot / 64) as usize, slot % 64);
            if self.words[word] >> bit & 1 == 1 {
                self.words[word] &= !(1 << bit);
                self.count -= 1;
            }
        }
        true
    }

    /// Takes over a count from a checkpoint; `false`: it is impossible.
    pub fn load_shared(&mut self, slot: Slot, more: u32) -> bool {
        let fits = slot.0 < self.slots && more > 0 && self.has(slot) && self.more.get(slot) == 0;
        if fits {
            self.more.set(slot, more);
        }
        fits
    }

    /// All words, for the allocator.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

fn item_range(first: u32) -> std::ops::Range<u32> {
    first..first.saturating_add(SLOTS_PER_ITEM)
}

#[cfg(test)]
mod tests;
