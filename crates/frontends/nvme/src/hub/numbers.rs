//! Which numbers the controllers of a subsystem have.

use std::collections::BTreeMap;

/// A bit for each number that is taken, 64 of them together: thousands of strangers who ask what there is cost no walk over all of them.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<u16, u64>);

impl Numbers {
    pub fn take(&mut self, number: u16) {
        *self.0.entry(number / 64).or_default() |= 1 << (number % 64);
    }

    pub fn give_back(&mut self, number: u16) {
        if let Some(word) = self.0.get_mut(&(number / 64)) {
            *word &= !(1 << (number % 64));
            if *word == 0 {
                self.0.remove(&(number / 64));
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A free one of `count` from `first` on; the search begins `start` behind that, and goes round.
    pub fn free(&self, first: u16, count: usize, start: usize) -> Option<u16> {
        let (first, start) = (usize::from(first), start % count);
        self.free_in(first + start, first + count)
            .or_else(|| self.free_in(first, first + start))
    }

    fn free_in(&self, mut at: usize, end: usize) -> Option<u16> {
        while at < end {
            let taken = self.0.get(&((at / 64) as u16)).copied().unwrap_or(0);
            let free = !taken & u64::MAX << (at % 64);
            if free != 0 {
                let found = at / 64 * 64 + free.trailing_zeros() as usize;
                return (found < end).then_some(found as u16);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}
