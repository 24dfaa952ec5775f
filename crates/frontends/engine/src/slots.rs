//! Requests under way, for any protocol: a slab whose slots are named in the tags of their pieces.
//!
//! A tag is `generation:26 | slot:12 | piece:26`. The generation changes when a slot is freed, so an answer that comes
//! for a request that is gone finds nothing. Values stay in their slots when these are freed, and are reused with the
//! memory that they hold: a warm slab does not allocate.

#[cfg(test)]
mod tests;

const PIECE_BITS: u32 = 26;
const SLOT_BITS: u32 = 12;
const GENERATION_MASK: u32 = (1 << 26) - 1;

/// The most requests that a slab can hold.
pub const MAX_SLOTS: usize = 1 << SLOT_BITS;
/// The largest number of a piece. (64 MiB: the offset inside a request of the longest kind serves as its number.)
pub const MAX_PIECE: u32 = (1 << PIECE_BITS) - 1;

/// A slot of a [`Slots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(u16);

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    busy: bool,
    value: T,
}

/// A slab of requests.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    limit: usize,
}

impl<T: Default> Slots<T> {
    /// A slab of at most `limit` requests. Memory is taken as it is needed and then kept.
    ///
    /// # Panics
    /// When `limit` is above [`MAX_SLOTS`]: settings are checked when they are read.
    #[must_use]
    pub fn new(limit: usize) -> Slots<T> {
        assert!(
            limit <= MAX_SLOTS,
            "{limit} requests are more than a tag can name ({MAX_SLOTS})"
        );
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
            limit,
        }
    }

    /// How many are busy.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Is none busy?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Are all busy?
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Takes a free slot; its value is what the last user left there. `None` when all are busy.
    pub fn take(&mut self) -> Option<(SlotId, &mut T)> {
        if self.is_full() {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    busy: false,
                    value: T::default(),
                });
                (self.slots.len() - 1) as u16
            }
        };
        let slot = &mut self.slots[usize::from(index)];
        assert!(!slot.busy, "a free slot is not busy");
        slot.busy = true;
        Some((SlotId(index), &mut slot.value))
    }

    /// Frees a slot. Tags that name it find nothing from now on.
    ///
    /// # Panics
    /// When it is not busy.
    pub fn free(&mut self, id: SlotId) {
        let slot = &mut self.slots[usize::from(id.0)];
        assert!(slot.busy, "slot {} is freed twice", id.0);
        slot.busy = false;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(id.0);
    }

    /// The value of a busy slot.
    ///
    /// # Panics
    /// When the slot is free.
    pub fn get_mut(&mut self, id: SlotId) -> &mut T {
        let slot = &mut self.slots[usize::from(id.0)];
        assert!(slot.busy, "slot {} is free", id.0);
        &mut slot.value
    }

    /// The value of a slot that may have been freed.
    pub fn busy_mut(&mut self, id: SlotId) -> Option<&mut T> {
        let slot = self.slots.get_mut(usize::from(id.0)).filter(|slot| slot.busy)?;
        Some(&mut slot.value)
    }

    /// The values of all slots, free ones too.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|slot| &slot.value)
    }

    /// The first busy slot with such a value.
    pub fn position(&self, is_meant: impl Fn(&T) -> bool) -> Option<SlotId> {
        let index = self.slots.iter().position(|slot| slot.busy && is_meant(&slot.value))?;
        Some(SlotId(index as u16))
    }

    /// The busy slots with such a value.
    pub fn all(&self, is_meant: impl Fn(&T) -> bool) -> Vec<SlotId> {
        let slots = (0u16..).zip(&self.slots);
        let meant = slots.filter(|(_, slot)| slot.busy && is_meant(&slot.value));
        meant.map(|(index, _)| SlotId(index)).collect()
    }

    /// The least of what `key` gives for the busy slots.
    pub fn oldest<K: Ord>(&self, key: impl Fn(&T) -> K) -> Option<K> {
        let busy = self.slots.iter().filter(|slot| slot.busy);
        busy.map(|slot| key(&slot.value)).min()
    }

    /// The tag of a piece.
    ///
    /// # Panics
    /// When the piece's number is above [`MAX_PIECE`].
    #[must_use]
    pub fn tag(&self, id: SlotId, piece: u32) -> u64 {
        assert!(piece <= MAX_PIECE, "a tag has no room for piece {piece}");
        let generation = u64::from(self.slots[usize::from(id.0)].generation);
        generation << (SLOT_BITS + PIECE_BITS) | u64::from(id.0) << PIECE_BITS | u64::from(piece)
    }

    /// The busy slot and the piece that a tag names.
    #[must_use]
    pub fn find(&self, tag: u64) -> Option<(SlotId, u32)> {
        let index = (tag >> PIECE_BITS) as u16 & (MAX_SLOTS as u16 - 1);
        let slot = self.slots.get(usize::from(index))?;
        let generation = (tag >> (SLOT_BITS + PIECE_BITS)) as u32;
        (slot.busy && slot.generation == generation).then_some((SlotId(index), tag as u32 & MAX_PIECE))
    }
}
