//! Which slots are free, and which come back later.
//!
//! Three levels of bits: a free slot, 64 slots of which one is free, 4096 slots of which one is free. Blocks are taken
//! from where the last ones were taken on (next fit), contiguous where that can be had with little looking, because a
//! pass writes what it takes with one device write per run.

use crate::format::Slot;
use crate::format::record::Run;
use std::collections::VecDeque;

/// Free runs that are looked at for one that is long enough, before the longest of them is taken.
const MAX_PROBES: usize = 16;

/// The free slots of a store.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// One bit for each slot, one level above the other.
    levels: [Vec<u64>; 3],
    slots: u32,
    free: u32,
    cursor: u32,
}

/// What stands in its place until a mount knows the slots.
impl Default for Allocator {
    fn default() -> Allocator {
        Allocator::new(1)
    }
}

impl Allocator {
    /// All of `slots` free.
    pub fn new(slots: u32) -> Allocator {
        let mut count = slots as usize;
        let levels = [(); 3].map(|()| {
            let mut words = vec![u64::MAX; count.div_ceil(64)];
            if !count.is_multiple_of(64) {
                *words.last_mut().expect("at least one slot") = (1 << (count % 64)) - 1;
            }
            count = words.len();
            words
        });
        Allocator {
            levels,
            slots,
            free: slots,
            cursor: 0,
        }
    }

    /// Those free of `slots` whose bit in `held` is not set.
    pub fn besides(held: &[u64], slots: u32) -> Allocator {
        let mut allocator = Allocator::new(slots);
        let mut free = 0;
        for (word, held) in allocator.levels[0].iter_mut().zip(held) {
            *word &= !held;
            free += word.count_ones();
        }
        allocator.free = free;
        for level in 1..allocator.levels.len() {
            let (below, above) = allocator.levels.split_at_mut(level);
            let below = below[level - 1].chunks(64);
            for (word, below) in above[0].iter_mut().zip(below) {
                let bits = below.iter().enumerate();
                *word = bits.fold(0, |word, (bit, below)| word | u64::from(*below != 0) << bit);
            }
        }
        allocator
    }

    pub fn memory_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64 * 8).sum()
    }

    pub fn free(&self) -> u32 {
        self.free
    }

    /// One bit for each slot: is it free?
    pub fn words(&self) -> &[u64] {
        &self.levels[0]
    }

    pub fn is_free(&self, slot: Slot) -> bool {
        self.levels[0][slot.0 as usize / 64] >> (slot.0 % 64) & 1 == 1
    }

    /// Takes one certain slot; `false` when it is not free.
    pub fn claim(&mut self, slot: Slot) -> bool {
        if slot.0 >= self.slots || !self.is_free(slot) {
            return false;
        }
        self.unset(slot.0);
        self.free -= 1;
        true
    }

    /// What must hold between events: each level says where the one below has a free slot.
    #[cfg(any(test, feature = "planted"))]
    pub fn check(&self) {
        let free: u32 = self.levels[0].iter().map(|word| word.count_ones()).sum();
        assert_eq!(free, self.free, "free slots are counted");
        for pair in self.levels.windows(2) {
            for (at, below) in pair[0].iter().enumerate() {
                let says = pair[1][at / 64] >> (at % 64) & 1 == 1;
                assert_eq!(says, *below != 0, "word {at} of a level, and the level above it");
            }
        }
    }

    fn unset(&mut self, slot: u32) {
        let mut at = slot as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// Gives slots back; `false`: one of them was free already, or is none of the store's.
    pub fn give(&mut self, run: Run) -> bool {
        let mut right = true;
        for slot in run.slot.0..run.slot.0.saturating_add(run.count) {
            if slot >= self.slots || self.is_free(Slot(slot)) {
                right = false;
                continue;
            }
            let mut at = slot as usize;
            for level in &mut self.levels {
                level[at / 64] |= 1 << (at % 64);
                at /= 64;
            }
            self.free += 1;
        }
        right
    }

    /// The first free slot from `from` on, up to the end.
    fn next_free(&self, from: u32) -> Option<u32> {
        let at = from as usize;
        if let Some(bit) = next_bit(&self.levels[0], at, at / 64 + 1) {
            return Some(bit as u32);
        }
        let at = at / 64 + 1;
        let word = match next_bit(&self.levels[1], at, at / 64 + 1) {
            Some(word) => word,
            None => {
                let above = next_bit(&self.levels[2], at / 64 + 1, self.levels[2].len())?;
                next_bit(&self.levels[1], above * 64, above + 1)?
            }
        };
        next_bit(&self.levels[0], word * 64, word + 1).map(|bit| bit as u32)
    }

    /// How many slots from `from` on are free, up to `most`.
    fn run_length(&self, from: u32, most: u32) -> u32 {
        let mut length = 0;
        while length < most {
            let at = from + length;
            if at >= self.slots {
                break;
            }
            let used = !(self.levels[0][at as usize / 64] >> (at % 64));
            let here = used.trailing_zeros().min(64 - at % 64);
            length += here;
            if at % 64 + here < 64 {
                break;
            }
        }
        length.min(most)
    }

    /// The first slots inside a run that are free and follow one another; none, at its end, if none is.
    pub fn free_run(&self, run: Run) -> Run {
        let end = run.slot.0.saturating_add(run.count).min(self.slots);
        match self.next_free(run.slot.0).filter(|&first| first < end) {
            Some(first) => Run {
                slot: Slot(first),
                count: self.run_length(first, end - first),
            },
            None => Run {
                slot: Slot(run.slot.0 + run.count),
                count: 0,
            },
        }
    }

    /// Takes `count` slots in as few runs as can be had cheaply, and appends them to `runs`. The caller has seen that
    /// as many are free (rule R7: space is settled before a write is accepted).
    pub fn take(&mut self, count: u32, runs: &mut Vec<Run>) {
        assert!(count <= self.free, "{count} slots wanted, {} are free", self.free);
        let mut left = count;
        while left > 0 {
            let run = self.find(left);
            for slot in run.slot.0..run.slot.0 + run.count {
                self.unset(slot);
            }
            self.free -= run.count;
            self.cursor = run.slot.0 + run.count;
            left -= run.count;
            match runs.last_mut() {
                Some(last) if last.slot.0 + last.count == run.slot.0 => last.count += run.count,
                _ => runs.push(run),
            }
        }
    }

    fn find(&self, want: u32) -> Run {
        let mut best = Run {
            slot: Slot(0),
            count: 0,
        };
        let mut from = self.cursor;
        let mut wrapped = false;
        for _ in 0..MAX_PROBES {
            let Some(slot) = self.next_free(from) else {
                if wrapped {
                    break;
                }
                wrapped = true;
                from = 0;
                continue;
            };
            let length = self.run_length(slot, want);
            if length > best.count {
                best = Run {
                    slot: Slot(slot),
                    count: length,
                };
                if length == want {
                    break;
                }
            }
            from = slot + length;
        }
        assert!(best.count > 0, "{} slots are free, and none was found", self.free);
        best
    }
}

/// The first set bit from bit `from` on, in words below `end`.
fn next_bit(words: &[u64], from: usize, end: usize) -> Option<usize> {
    let mut at = from / 64;
    let mut mask = u64::MAX << (from % 64);
    while at < end.min(words.len()) {
        let word = words[at] & mask;
        if word != 0 {
            return Some(at * 64 + word.trailing_zeros() as usize);
        }
        mask = u64::MAX;
        at += 1;
    }
    None
}

/// Slots that nothing refers to any more, but that may not be written yet.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    queue: VecDeque<Waiting>,
    slots: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    run: Run,
    /// The log's position behind the record that freed it.
    position: u64,
    /// Reads below this one may be under way on it.
    reads: u64,
}

impl Freed {
    /// How many slots wait.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// All of them, in the order in which they come back.
    #[cfg(any(test, feature = "planted"))]
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.queue.iter().map(|waiting| waiting.run)
    }

    pub fn push(&mut self, slot: Slot, position: u64, reads: u64) {
        self.slots += 1;
        match self.queue.back_mut() {
            Some(last)
                if last.position == position && last.reads == reads && last.run.slot.0 + last.run.count == slot.0 =>
            {
                last.run.count += 1;
            }
            _ => self.queue.push_back(Waiting {
                run: Run { slot, count: 1 },
                position,
                reads,
            }),
        }
    }

    /// The next run that may be reused: the durable verified mark is beyond the record that freed it (rule D1), and
    /// every read that was under way then has ended (rule D6).
    pub fn pop(&mut self, mark: u64, oldest_read: u64) -> Option<Run> {
        let first = *self.queue.front()?;
        if first.position > mark || first.reads > oldest_read {
            return None;
        }
        self.queue.pop_front();
        self.slots -= first.run.count;
        Some(first.run)
    }

    /// The log's position that the mark must reach for the first of them to be reusable.
    pub fn next_position(&self) -> Option<u64> {
        self.queue.front().map(|first| first.position)
    }
}

/// Which reads are under way: a window of their numbers.
#[derive(Debug, Default)]
pub(crate) struct ReadWindow {
    first: u64,
    ended: VecDeque<bool>,
}

impl ReadWindow {
    /// A read begins; returns its number.
    pub fn begin(&mut self) -> u64 {
        self.ended.push_back(false);
        self.next() - 1
    }

    /// The number of the next read.
    pub fn next(&self) -> u64 {
        self.first + self.ended.len() as u64
    }

    pub fn end(&mut self, read: u64) {
        self.ended[(read - self.first) as usize] = true;
        while self.ended.front() == Some(&true) {
            self.ended.pop_front();
            self.first += 1;
        }
    }

    /// Every read below this one has ended.
    pub fn oldest(&self) -> u64 {
        self.first
    }
}

#[cfg(test)]
mod tests;
