//! What is under way, each by the slot that it has until it ends.

/// A place in a [`Slab`]. It is used again once what it held was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// As the number of a request, which comes back with its answer.
    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    /// The slot with this number; `None` if no slot has it.
    pub(crate) fn of(number: u64) -> Option<Slot> {
        u32::try_from(number).ok().map(Slot)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Records by their slots. Once it is as large as it was at its fullest, nothing is allocated.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<Slot>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn put(&mut self, record: T) -> Slot {
        if let Some(slot) = self.free.pop() {
            self.slots[slot.index()] = Some(record);
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).expect("far fewer are under way");
        self.slots.push(Some(record));
        Slot(slot)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.slots.get(slot.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.slots.get_mut(slot.index())?.as_mut()
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Option<T> {
        let record = self.slots.get_mut(slot.index())?.take()?;
        self.free.push(slot);
        Some(record)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }
}
