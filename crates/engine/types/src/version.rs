//! The version of a chunk: (generation, counter), packed so that integer order is version order.

use crate::id::Generation;
use std::fmt;

/// A chunk's version: 24 bits of generation above 40 bits of counter.
///
/// The counter goes up by one with each write of the chunk, also across generations; the generation is the writing
/// sequencer's. Two histories that part ways therefore never meet in one version (rule R1). [`Version::NONE`] is a
/// chunk that was never written.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// How far apart two versions of a chunk can be that in-sync copies hold, at most: what is more is a lie, or damage.
///
/// An acknowledged write is on every in-sync copy, a sequencer has at most 64 writes of a chunk without an acknowledgement,
/// and the next one makes the copies equal before it gives out a version of its own. So honest copies are never more than 64
/// writes apart; the rest is room for windows of other builds. And it is so little that nobody can use the counters up by it:
/// 2^40 counters are 2^24 times as much, and each step costs a roll-forward under a generation or an epoch of its own.
pub const MAX_AHEAD: u64 = 1 << 16;

impl Version {
    /// A chunk that was never written.
    pub const NONE: Version = Version(0);
    const COUNTER_BITS: u32 = 40;
    /// The largest counter.
    pub const COUNTER_MAX: u64 = (1 << Self::COUNTER_BITS) - 1;

    /// Packs the two parts; `None` when one is out of its range.
    #[must_use]
    pub fn new(generation: Generation, counter: u64) -> Option<Version> {
        (generation <= Generation::MAX && counter <= Self::COUNTER_MAX)
            .then(|| Version(u64::from(generation.0) << Self::COUNTER_BITS | counter))
    }

    /// The generation of the sequencer that gave this version out.
    #[must_use]
    pub fn generation(self) -> Generation {
        Generation((self.0 >> Self::COUNTER_BITS) as u32)
    }

    /// The count of writes of the chunk up to and with this one.
    #[must_use]
    pub fn counter(self) -> u64 {
        self.0 & Self::COUNTER_MAX
    }

    /// May a copy that is in sync be at `self`, and another one at `before`? The counter goes on with every write, across
    /// generations too, so the later version has the larger counter, by [`MAX_AHEAD`] at most.
    #[must_use]
    pub fn may_follow(self, before: Version) -> bool {
        let ahead = self.counter().checked_sub(before.counter());
        self == before || (self > before && ahead.is_some_and(|ahead| (1..=MAX_AHEAD).contains(&ahead)))
    }

    /// The version that `generation`'s next write of the chunk gets; `None` when the counter is used up.
    #[must_use]
    pub fn next(self, generation: Generation) -> Option<Version> {
        Version::new(generation, self.counter() + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation(), self.counter())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
