//! A seeded source of numbers. Everything that happens by chance in a simulation is drawn from one of these, so that a
//! seed replays exactly.

use amita_types::layout::mix;

/// SplitMix64 (Steele, Lea, Flood, 2014). Small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The source of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random {
            state: mix(seed ^ 0x5eed_5eed_5eed_5eed),
        }
    }

    /// A source of its own, named by `purpose`, so that one part's draws do not shift another's.
    #[must_use]
    pub fn fork(&self, purpose: u64) -> Random {
        Random {
            state: mix(self.state ^ mix(purpose.wrapping_add(0x9e37_79b9_7f4a_7c15))),
        }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `end` (0 when `end` is 0). The bias is below 2^-32 for every `end` used here.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number of `first ..= last`.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which are not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
