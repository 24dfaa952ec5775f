//! Many seeds: run on all the machine's cores, each seed in one thread from its first event to its last.
//!
//! A panic anywhere (an assertion of the product's that did not hold) is a failure of its seed like any other.

use crate::coverage::Coverage;
use std::cell::RefCell;
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
    /// The exclusive or of all traces mixed with their seeds: equal for equal sets of seeds.
    pub trace: u64,
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
    let next = AtomicU64::new(seeds.start);
    let ended = AtomicU64::new(0);
    let enough = AtomicBool::new(false);
    let failures = AtomicU64::new(0);
    let worker = || {
        let mut summary = Summary::default();
        while !enough.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let one = run_caught(seed, &run);
            summary.runs += 1;
            summary.coverage.merge(&one.coverage);
            summary.trace ^= amita_types::layout::mix(one.trace ^ amita_types::layout::mix(seed));
            if let Some(why) = one.failure {
                summary.failures.push((seed, why));
                if failures.fetch_add(1, Ordering::Relaxed) + 1 >= max_failures {
                    enough.store(true, Ordering::Relaxed);
                }
            }
            progress(ended.fetch_add(1, Ordering::Relaxed) + 1);
        }
        summary
    };
    let mut whole = Summary::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            let part = worker.join().expect("a worker catches the panics of its runs");
            whole.runs += part.runs;
            whole.failures.extend(part.failures);
            whole.coverage.merge(&part.coverage);
            whole.trace ^= part.trace;
        }
    });
    whole.failures.sort();
    whole
}

#[cfg(test)]
mod tests;
