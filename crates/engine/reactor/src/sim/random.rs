//! The simulation's one source of chance: SplitMix64, because it is tiny, quick and the same everywhere.

use std::time::Duration;

/// A seeded sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x6a09_e667_f3bc_c909)
    }

    /// 64 even bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound` (0 when that is 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True `permille` times in a thousand.
    pub fn permille(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// A time in a range, both ends included.
    pub fn duration(&mut self, range: (Duration, Duration)) -> Duration {
        let (low, high) = (range.0.as_nanos() as u64, range.1.as_nanos() as u64);
        Duration::from_nanos(low + self.below(high.saturating_sub(low) + 1))
    }
}
