//! Rare choices inside the code that ships: at named points a simulated run asks whether to do, now, what is lawful and
//! rare: refuse as busy, write a batch of one change, begin a checkpoint, keep a window of one.
//!
//! Faults from outside (disks, networks, power) meet the code in the states that it is usually in. Limits that are
//! reached once in a month hide states of their own; a point makes them usual in some runs. (The idea and the name are
//! FoundationDB's.) Nothing that a point does may be wrong: it only may be slow.
//!
//! Points are compiled only with the feature `buggify`, which the simulator turns on; elsewhere [`buggify`] and
//! [`narrow`] are `false` at compile time. A run is one thread from its first event to its last, so the source is the
//! thread's, armed with the run's seed.

/// Are the points compiled in?
pub const COMPILED_IN: bool = cfg!(feature = "buggify");

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident = $path:literal),* $(,)?) => {
        /// Where a rare choice may be taken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $($(#[$doc])* $name),*
        }

        #[cfg(feature = "buggify")]
        const PATHS: &[&str] = &[$($path),*];
    };
}

points! {
    /// A store answers a request with `Busy`.
    StoreBusy = "buggify.store_busy",
    /// A store's batch holds one change.
    SmallBatch = "buggify.small_batch",
    /// A store has one batch under way at most.
    OneBatch = "buggify.one_batch",
    /// A checkpoint begins.
    EarlyCheckpoint = "buggify.early_checkpoint",
    /// All leaves that can be dropped are.
    DropLeaves = "buggify.drop_leaves",
    /// Few blocks are granted by an answer.
    SmallGrant = "buggify.small_grant",
    /// An answer grants no lease.
    NoLease = "buggify.no_lease",
    /// A page is written only to move the mark.
    EarlyMark = "buggify.early_mark",
    /// A chunk has one write under way at most.
    OneWrite = "buggify.one_write",
    /// One chunk is being opened at most.
    OneOpening = "buggify.one_opening",
    /// An eviction changes one group at most.
    OneEviction = "buggify.one_eviction",
    /// A read goes to any member, not to the nearest.
    ReadAnywhere = "buggify.read_anywhere",
    /// A group's record is read again for no reason.
    Reread = "buggify.reread",
    /// A store that owes an answer is taken for lost.
    LoseStore = "buggify.lose_store",
    /// What one core of a node has for another is held back for a while, as by a core that stands still in the middle
    /// of a pass; what comes from other cores is not.
    SlowMail = "buggify.slow_mail",
}

/// Are the points compiled into this build? For what exists only for them.
pub const IS_BUILT: bool = cfg!(feature = "buggify");

/// Is the rare choice to be taken at this point, this time?
#[cfg(not(feature = "buggify"))]
#[inline(always)]
#[must_use]
pub fn buggify(_: Point) -> bool {
    false
}

/// Is this limit as narrow as can be, in this run?
#[cfg(not(feature = "buggify"))]
#[inline(always)]
#[must_use]
pub fn narrow(_: Point) -> bool {
    false
}

/// Is something held back at this point, this time, and for how long?
#[cfg(not(feature = "buggify"))]
#[inline(always)]
#[must_use]
pub fn slow(_: Point) -> Option<std::time::Duration> {
    None
}

#[cfg(feature = "buggify")]
pub use armed::{arm, buggify, disarm, narrow, slow, steer};

#[cfg(feature = "buggify")]
mod armed {
    use super::{PATHS, Point};
    use crate::sim::Random;
    use std::cell::RefCell;
    use std::time::Duration;

    /// So many of a hundred points are used by a run.
    const USED_PERCENT: u64 = 30;
    /// How often a point that is used says yes, of a thousand; each run draws one of these for each of its points.
    const PER_MILLE: [u64; 4] = [2, 10, 50, 250];

    /// What is held back is held for so long at most; each run draws one of these.
    const SLOWEST_US: [u64; 3] = [100, 2_000, 20_000];
    /// The points up to here draw from the run's first source, those that came later from another one: what runs of the
    /// same seed do elsewhere stays as it was.
    const FIRST_POINTS: usize = Point::LoseStore as usize + 1;

    struct Source {
        slowest: Duration,
        random: Random,
        per_mille: Vec<u64>,
        met: Vec<u64>,
    }

    thread_local! {
        static SOURCE: RefCell<Option<Source>> = const { RefCell::new(None) };
    }

    /// From now on this thread's points are asked.
    pub fn arm(seed: u64) {
        let mut random = Random::new(seed);
        let mut later = Random::new(seed ^ 0x51c0_u64 << 40);
        let per_mille = (0..PATHS.len())
            .map(|point| {
                let random = if point < FIRST_POINTS { &mut random } else { &mut later };
                let (used, rate) = (random.below(100) < USED_PERCENT, random.below(PER_MILLE.len() as u64));
                if used { PER_MILLE[rate as usize] } else { 0 }
            })
            .collect();
        let slowest = SLOWEST_US[later.below(SLOWEST_US.len() as u64) as usize];
        let met = vec![0; PATHS.len()];
        SOURCE.set(Some(Source {
            slowest: Duration::from_micros(slowest),
            random,
            per_mille,
            met,
        }));
    }

    /// A scenario needs this point: it says yes so often of a thousand, and holds back for so long at most. Arms the
    /// thread if nothing else has, with this seed and no other point.
    pub fn steer(seed: u64, point: Point, per_mille: u64, slowest: Duration) {
        SOURCE.with_borrow_mut(|source| {
            let source = source.get_or_insert_with(|| Source {
                slowest,
                random: Random::new(seed),
                per_mille: vec![0; PATHS.len()],
                met: vec![0; PATHS.len()],
            });
            source.slowest = slowest;
            source.per_mille[point as usize] = per_mille;
        });
    }

    /// Is something held back at this point, this time, and for how long?
    #[must_use]
    pub fn slow(point: Point) -> Option<Duration> {
        if !buggify(point) {
            return None;
        }
        SOURCE.with_borrow_mut(|source| {
            let source = source.as_mut()?;
            let most = source.slowest.as_nanos() as u64;
            Some(Duration::from_nanos(1 + source.random.below(most)))
        })
    }

    /// Nothing is done any more. Returns how often each point said yes since [`arm`].
    pub fn disarm() -> Vec<(&'static str, u64)> {
        let source = SOURCE.take();
        source.map_or_else(Vec::new, |source| PATHS.iter().copied().zip(source.met).collect())
    }

    /// Is the rare choice to be taken at this point, this time?
    #[must_use]
    pub fn buggify(point: Point) -> bool {
        SOURCE.with_borrow_mut(|source| {
            let Some(source) = source else { return false };
            let rate = source.per_mille[point as usize];
            let yes = rate > 0 && source.random.below(1000) < rate;
            source.met[point as usize] += u64::from(yes);
            yes
        })
    }

    /// Is this limit as narrow as can be, in this run?
    #[must_use]
    pub fn narrow(point: Point) -> bool {
        SOURCE.with_borrow_mut(|source| {
            let Some(source) = source else { return false };
            let yes = source.per_mille[point as usize] > 0;
            source.met[point as usize] += u64::from(yes);
            yes
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_seed_does_the_same_again_and_nothing_is_done_unarmed() {
            assert!(!buggify(Point::StoreBusy) && !narrow(Point::OneWrite));
            let mut any = 0;
            for seed in 0..50 {
                let play = || {
                    arm(seed);
                    let all: Vec<bool> = (0..200).map(|_| buggify(Point::StoreBusy)).collect();
                    (all, disarm())
                };
                let (one, two) = (play(), play());
                assert_eq!(one, two);
                any += one.1[Point::StoreBusy as usize].1;
            }
            assert!(any > 0 && !buggify(Point::StoreBusy));
        }
    }
}
