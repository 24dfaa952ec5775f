//! The limits of one thing: a volume, a tenant's share on this core, a pool's. Operations and bytes, of reads, of writes and of
//! both together: up to six buckets, and what passes, passes all of those that are its own.
//!
//! A clear or a trim is a write of no bytes. A front end cuts a host's I/O into pieces of 128 KiB at most; each is an operation, as
//! public clouds count larger I/O as several.

use crate::bucket::{Bucket, Limit};
use crate::faults::Faults;
use amita_reactor::Time;

/// The largest piece of I/O: what front ends cut at.
pub const LARGEST_BYTES: u64 = 128 << 10;

/// Which way an I/O goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the volume.
    Read,
    /// To the volume: writes, clears, compare-and-writes.
    Write,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::Read, Direction::Write];
}

/// What an I/O costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Which way it goes.
    pub direction: Direction,
    /// Operations.
    pub operations: u32,
    /// Bytes that travel.
    pub bytes: u32,
}

impl Cost {
    /// One piece of I/O.
    #[must_use]
    pub fn piece(direction: Direction, bytes: u32) -> Cost {
        Cost {
            direction,
            operations: 1,
            bytes,
        }
    }
}

/// Limits of one measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Of reads.
    pub read: Option<Limit>,
    /// Of writes.
    pub write: Option<Limit>,
    /// Of both together.
    pub both: Option<Limit>,
}

/// What is limited; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Operations.
    pub operations: Measures,
    /// Bytes.
    pub bytes: Measures,
}

/// A bucket's place, by measure and direction.
const OPERATIONS: usize = 0;
const BYTES: usize = 3;
const BOTH: usize = 2;
/// How many limits there can be.
pub const BUCKETS: usize = 6;

/// What the largest I/O costs of the limit at a place of [`Limits::in_order`].
#[must_use]
pub const fn largest(place: usize) -> u64 {
    if place < BYTES { 1 } else { LARGEST_BYTES }
}

impl Limits {
    /// Of operations: reads, writes, both; of bytes the same.
    #[must_use]
    pub fn in_order(&self) -> [Option<Limit>; BUCKETS] {
        let (operations, bytes) = (self.operations, self.bytes);
        [
            operations.read,
            operations.write,
            operations.both,
            bytes.read,
            bytes.write,
            bytes.both,
        ]
    }
}

/// The buckets of one thing that is limited.
#[derive(Clone, Debug)]
pub struct Limiter {
    buckets: [Option<Bucket>; BUCKETS],
    /// For each direction: is there any bucket?
    limited: [bool; 2],
    faults: Faults,
}

impl Limiter {
    /// With full buckets.
    #[must_use]
    pub fn new(now: Time, limits: &Limits, faults: Faults) -> Limiter {
        let mut limiter = Limiter {
            buckets: Default::default(),
            limited: [false; 2],
            faults,
        };
        limiter.set(now, limits);
        limiter
    }

    /// Other limits from now on. What is limited already keeps what it saved and owes; what was not begins with a full bucket.
    pub fn set(&mut self, now: Time, limits: &Limits) {
        for (index, (bucket, limit)) in self.buckets.iter_mut().zip(limits.in_order()).enumerate() {
            match (&mut *bucket, limit) {
                (Some(bucket), Some(limit)) => bucket.set(now, limit),
                (None, Some(limit)) => *bucket = Some(Bucket::new(now, limit, largest(index), self.faults)),
                (_, None) => *bucket = None,
            }
        }
        for direction in Direction::ALL {
            let of = own(direction);
            self.limited[direction as usize] = of.iter().any(|&(index, _)| self.buckets[index].is_some());
        }
    }

    /// May an I/O of that direction pass now?
    #[inline]
    #[must_use]
    pub fn admits(&mut self, now: Time, direction: Direction) -> bool {
        if !self.limited[direction as usize] {
            return true;
        }
        let mut buckets = own(direction).into_iter();
        buckets.all(|(index, _)| self.buckets[index].as_mut().is_none_or(|bucket| bucket.admits(now)))
    }

    /// One passes.
    #[inline]
    pub fn charge(&mut self, now: Time, cost: Cost) {
        if !self.limited[cost.direction as usize] {
            return;
        }
        for (index, counts_bytes) in own(cost.direction) {
            if let Some(bucket) = &mut self.buckets[index] {
                let tokens = if counts_bytes { cost.bytes } else { cost.operations };
                bucket.charge(now, u64::from(tokens));
            }
        }
    }

    /// When the next one of that direction may pass, if no other does meanwhile. [`Limiter::admits`] was asked at the moment from
    /// which this counts.
    #[must_use]
    pub fn ready_at(&self, direction: Direction) -> Time {
        let buckets = own(direction).into_iter();
        let ready = buckets.filter_map(|(index, _)| self.buckets[index].as_ref().map(Bucket::ready_at));
        ready.max().unwrap_or(Time(0))
    }
}

/// The places of the buckets that count a direction, and whether they count bytes.
#[inline]
#[must_use]
pub fn own(direction: Direction) -> [(usize, bool); 4] {
    let way = direction as usize;
    [
        (OPERATIONS + way, false),
        (OPERATIONS + BOTH, false),
        (BYTES + way, true),
        (BYTES + BOTH, true),
    ]
}

#[cfg(test)]
mod tests;
