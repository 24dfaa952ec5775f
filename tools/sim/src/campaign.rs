//! Many seeds: run on all the machine's cores, each seed in one thread from its first event to its last.
//!
//! A panic anywhere (an assertion of the product's that did not hold) is a failure of its seed like any other.

use crate::coverage::Coverage;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// How the run of one seed ended.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// A hash of everything that happened: equal for equal seeds.
    pub trace: u64,
    /// Which paths were taken.
    pub coverage: Coverage,
    /// What is wrong, if anything.
    pub failure: Option<String>,
}

/// How many of them ended.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub runs: u64,
    /// The seeds that failed and why, in their order.
    pub failures: Vec<(u64, String)>,
    /// All counts together.
    pub coverage: Coverage,
    /// For each path how many seeds took it, and the first of them.
    pub takers: BTreeMap<&'static str, (u64, u64)>,
    /// The exclusive or of all traces mixed with their seeds: equal for equal sets of seeds.
    pub trace: u64,
}

impl Summary {
    fn add(&mut self, seed: u64, one: Run) {
        self.runs += 1;
        self.coverage.merge(&one.coverage);
        for (path, _) in one.coverage.iter().filter(|(_, times)| *times > 0) {
            self.taken(path, 1, seed);
        }
        self.trace ^= amita_types::layout::mix(one.trace ^ amita_types::layout::mix(seed));
        self.failures.extend(one.failure.map(|why| (seed, why)));
    }

    fn taken(&mut self, path: &'static str, seeds: u64, first: u64) {
        let (taken, least) = self.takers.entry(path).or_insert((0, first));
        *taken += seeds;
        *least = first.min(*least);
    }

    /// With what came of other seeds.
    pub fn merge(&mut self, other: Summary) {
        self.runs += other.runs;
        self.failures.extend(other.failures);
        self.failures.sort();
        self.coverage.merge(&other.coverage);
        for (path, (seeds, first)) in other.takers {
            self.taken(path, seeds, first);
        }
        self.trace ^= other.trace;
    }
}

/// Failures after which a campaign stops: the first few say enough.
pub const MAX_FAILURES: u64 = 10;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs one seed; a panic becomes its failure, with the place and the calls that led there.
pub fn run_caught(seed: u64, run: impl FnOnce(u64) -> Run) -> Run {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CATCHING.with_borrow(|catching| *catching) {
                let calls = std::backtrace::Backtrace::force_capture().to_string();
                let ours: Vec<&str> = calls.lines().filter(|line| line.contains("amita_")).take(24).collect();
                PANIC.set(Some(format!("{info}\n{}", ours.join("\n"))));
            } else {
                before(info);
            }
        }));
    });
    CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
    CATCHING.set(false);
    result.unwrap_or_else(|_| {
        let what = PANIC.take().unwrap_or_else(|| "panicked".to_owned());
        Run {
            failure: Some(what),
            ..Run::default()
        }
    })
}

/// Runs all seeds on `jobs` threads, until `max_failures` of them have failed, or to a moment. `progress` is told how many have ended; it is called by all threads.
pub fn run_all(
    seeds: Range<u64>,
    until: Option<Instant>,
    jobs: usize,
    max_failures: u64,
    run: impl Fn(u64) -> Run + Sync,
    progress: impl Fn(u64) + Sync,
) -> Summary {
    run_each(seeds, |seed| seed, until, jobs, max_failures, run, progress)
}

/// The same for seeds that are listed.
pub fn run_listed(seeds: &[u64], jobs: usize, max_failures: u64, run: impl Fn(u64) -> Run + Sync) -> Summary {
    let seed = |place: u64| seeds[usize::try_from(place).expect("a place in a list is a usize")];
    run_each(0..seeds.len() as u64, seed, None, jobs, max_failures, run, |_| {})
}

fn run_each(
    places: Range<u64>,
    seed: impl Fn(u64) -> u64 + Sync,
    until: Option<Instant>,
    jobs: usize,
    max_failures: u64,
    run: impl Fn(u64) -> Run + Sync,
    progress: impl Fn(u64) + Sync,
) -> Summary {
    let next = AtomicU64::new(places.start);
    let ended = AtomicU64::new(0);
    let enough = AtomicBool::new(false);
    let failures = AtomicU64::new(0);
    let worker = || {
        let mut summary = Summary::default();
        while !enough.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= places.end || until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let seed = seed(place);
            let one = run_caught(seed, &run);
            if one.failure.is_some() && failures.fetch_add(1, Ordering::Relaxed) + 1 >= max_failures {
                enough.store(true, Ordering::Relaxed);
            }
            summary.add(seed, one);
            progress(ended.fetch_add(1, Ordering::Relaxed) + 1);
        }
        summary
    };
    let mut whole = Summary::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            whole.merge(worker.join().expect("a worker catches the panics of its runs"));
        }
    });
    whole
}

#[cfg(test)]
mod tests;
