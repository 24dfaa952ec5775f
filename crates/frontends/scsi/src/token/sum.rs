//! Sums by which it is seen whether what a token represents is still what it was.
//!
//! A sum is that of all words, each multiplied by a factor of its own, which is made of its place and of a seed that only the sealed token has:
//! two different contents have one sum once in 2^64 times, and nobody can look for such a pair. Zeros add nothing, so that what is not
//! mapped need not be read. Parts can be summed in any order, and cut anywhere between two words.

/// Bytes of a word.
const WORD_BYTES: usize = 8;
/// What of a sum a token keeps: the high bits, which depend on all of every word.
pub(super) const SUM_BYTES: usize = 12;

/// The sum of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u128);

impl Sum {
    /// Adds the sum of other bytes.
    pub fn add(&mut self, other: Sum) {
        self.0 = self.0.wrapping_add(other.0);
    }

    pub(super) fn encode(self) -> [u8; SUM_BYTES] {
        let mut bytes = [0; SUM_BYTES];
        bytes.copy_from_slice(&self.0.to_be_bytes()[..SUM_BYTES]);
        bytes
    }
}

/// Makes the sums of one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summer {
    seed: [u64; 2],
}

impl Summer {
    pub(super) fn new(seed: [u8; 16]) -> Summer {
        let [high, low] = [seed[..8].first_chunk(), seed[8..].first_chunk()];
        Summer {
            seed: [high, low].map(|half| half.copied().map_or(0, u64::from_be_bytes)),
        }
    }

    /// The sum of these bytes, of which the first is byte `at` of what the token represents: a multiple of eight.
    #[must_use]
    pub fn sum(&self, at: u64, data: &[u8]) -> Sum {
        let (words, rest) = data.as_chunks::<WORD_BYTES>();
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let words = words.iter().chain((!rest.is_empty()).then_some(&last));
        let first = at / WORD_BYTES as u64;
        let sum = (first..).zip(words).fold(0_u128, |sum, (place, word)| {
            let product = self.factor(place).wrapping_mul(u128::from(u64::from_le_bytes(*word)));
            sum.wrapping_add(product)
        });
        Sum(sum)
    }

    /// The factor of the word at that place.
    fn factor(&self, place: u64) -> u128 {
        let [high, low] = self
            .seed
            .map(|seed| mixed(seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
        u128::from(high) << 64 | u128::from(low)
    }
}

/// A number that depends on all bits of another: the last step of the generator SplitMix64.
fn mixed(mut number: u64) -> u64 {
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
