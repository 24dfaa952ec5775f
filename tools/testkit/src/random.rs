//! A seeded source of numbers. Everything that happens by chance in a simulation is drawn from one of these, so that a
//! seed replays exactly.

/// SplitMix64's finalizer.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

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

    /// A share: at least 0, below 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
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

#[cfg(test)]
mod tests {
    use super::Random;

    /// Every seed of the simulator is a name for what these numbers make of it.
    #[test]
    fn the_numbers_of_a_seed_are_for_ever() {
        let mut random = Random::new(7);
        let drawn = [random.bits(), random.bits(), random.fork(1).bits()];
        assert_eq!(
            drawn,
            [0xaa5a_b4c0_249b_01bc, 0x6868_0def_b00c_7cc4, 0x5f3f_9fd7_9182_243a]
        );
    }

    #[test]
    fn shares_are_even() {
        let mut random = Random::new(0);
        let mean = (0..10_000).map(|_| random.share()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }

    #[test]
    fn ranges_are_kept() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!(random.below(3) < 3);
            assert!((5..=7).contains(&random.within(5, 7)));
            assert!((0.0..1.0).contains(&random.share()));
            assert!([4, 5].contains(random.pick(&[4, 5])));
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.percent(0) && random.percent(100));
    }
}
