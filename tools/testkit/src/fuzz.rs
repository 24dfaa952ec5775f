//! Fuzz targets on stable, without coverage: a target is a plain function of any bytes that panics where a rule is broken. The
//! crate `fuzz` at the root of the repository runs the same functions under libFuzzer.
//!
//! A test of a crate runs some thousand inputs in `make test` ([`bounded`]) and as many as there is time for in `make soak`
//! ([`soak`]). An input has a number, and is made of it and of the target's seeds: a number that once brought a target down is
//! kept, and runs first for ever. It is the same input only as long as the seeds are.

use crate::Random;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is run.
pub type Target = fn(&[u8]);

/// The most bytes of an input that comes of no seed.
const MOST_BYTES: u64 = 600;
/// The most changes of a seed.
const MOST_CHANGES: u64 = 6;
/// Numbers on which length checks and additions break.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Where a target takes its decisions from; zeros when there is nothing left.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// A number below `end`, which is not zero; of one byte.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// A number below `end`, which is not zero; of four bytes.
    pub fn place(&mut self, end: usize) -> usize {
        self.u32() as usize % end
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number on which something may break, or any.
    pub fn edge(&mut self) -> u64 {
        match self.below(2 * EDGES.len()) {
            at if at < EDGES.len() => EDGES[at],
            _ => self.u64(),
        }
    }

    /// So many bytes, or as many as there are left.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let front = self.take(N);
        bytes[..front.len()].copy_from_slice(front);
        bytes
    }
}

/// The input of a number: any bytes, or one of the seeds with some changes.
#[must_use]
pub fn input(number: u64, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut random = Random::new(number);
    if seeds.is_empty() || random.percent(20) {
        let length = random.below(MOST_BYTES);
        return (0..length).map(|_| random.below(256) as u8).collect();
    }
    let mut bytes = random.pick(seeds).clone();
    for _ in 0..random.within(1, MOST_CHANGES) {
        change(&mut bytes, seeds, &mut random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() as u64 + 1) as usize;
    let end = (at + random.within(1, 16) as usize).min(bytes.len());
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        3 => {
            let noise: Vec<u8> = (at..end).map(|_| random.below(256) as u8).collect();
            bytes.splice(at..at, noise);
        }
        4 => {
            // The rest of another one.
            let other = random.pick(seeds);
            let from = random.below(other.len() as u64 + 1) as usize;
            bytes.splice(at.., other[from..].iter().copied());
        }
        5 => {
            let edge = *random.pick(&EDGES);
            let wide = [edge.to_le_bytes(), edge.to_be_bytes()];
            let wide = random.pick(&wide);
            let length = end - at;
            bytes[at..end]
                .iter_mut()
                .zip(&wide[..length.min(8)])
                .for_each(|(byte, new)| *byte = *new);
        }
        _ => bytes[at..end]
            .iter_mut()
            .take(1)
            .for_each(|byte| *byte ^= 1 << random.below(8)),
    }
}

fn run(target: impl Fn(&[u8]) + RefUnwindSafe, number: u64, seeds: &[Vec<u8>]) {
    let input = input(number, seeds);
    if catch_unwind(|| target(&input)).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("input {number} brings it down: {hex}");
    }
}

/// Runs the seeds as they are, the inputs of these numbers, which have found faults, and those of `0..count`.
///
/// # Panics
/// Where the target does.
pub fn bounded(target: Target, seeds: &[Vec<u8>], found: &[u64], count: u64) {
    for (at, seed) in seeds.iter().enumerate() {
        assert!(catch_unwind(|| target(seed)).is_ok(), "seed {at} brings it down");
    }
    for number in found.iter().copied().chain(0..count) {
        run(target, number, seeds);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs inputs for `AMITA_FUZZ_SECONDS` (60 without) from number `AMITA_FUZZ_FIRST` on (another one each time without).
///
/// # Panics
/// Where the target does.
pub fn soak(target: Target, seeds: &[Vec<u8>]) {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = number("AMITA_FUZZ_FIRST").unwrap_or(clock.as_nanos() as u64);
    let until = Instant::now() + Duration::from_secs(number("AMITA_FUZZ_SECONDS").unwrap_or(60));
    let mut count = 0;
    while Instant::now() < until {
        run(target, first.wrapping_add(count), seeds);
        count += 1;
    }
    println!("{count} inputs from {first}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_of_a_number_is_the_same_each_time_and_another_one_of_another() {
        let seeds = [b"one seed".to_vec(), b"and another".to_vec(), Vec::new()];
        let inputs: std::collections::BTreeSet<Vec<u8>> = (0..1000).map(|number| input(number, &seeds)).collect();
        assert!(inputs.len() > 500, "{} of 1000 are different", inputs.len());
        assert!((0..1000).all(|number| input(number, &seeds) == input(number, &seeds)));
        assert!((0..100).any(|number| !input(number, &[]).is_empty()));
    }

    #[test]
    fn a_target_that_panics_is_told_with_its_input() {
        let target: Target = |input| assert!(!input.starts_with(b"bad"));
        bounded(target, &[b"good".to_vec()], &[], 100);
        let told = catch_unwind(|| bounded(|_| panic!("always"), &[], &[7], 0)).unwrap_err();
        let told = told.downcast_ref::<String>().expect("a text");
        assert!(told.starts_with("input 7 brings it down: "), "{told}");
        assert!(catch_unwind(|| bounded(target, &[b"bad".to_vec()], &[], 0)).is_err());
    }

    #[test]
    fn decisions_end_in_zeros() {
        let mut input = Input(&[1, 2, 3]);
        assert_eq!((input.byte(), input.u32(), input.u64()), (1, 0x0302, 0));
        assert!(input.is_empty() && input.take(5).is_empty());
        assert_eq!((input.below(3), input.place(5)), (0, 0));
    }
}
