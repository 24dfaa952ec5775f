//! What the store could have been, measured beside what it is: the figures of `docs/decisions/011` to `013`.
//!
//! `cargo bench -p amita-store --bench alternatives [-- cleaner] [-- journal] [-- index]`. Files lie in the target
//! folder's temporary one (a disk; `AMITA_BENCH_DIR` names another) and in `/dev/shm`.

#[path = "alternatives/cleaner.rs"]
mod cleaner;
#[path = "alternatives/hollow.rs"]
mod hollow;
#[path = "alternatives/index.rs"]
mod index;
#[path = "alternatives/journal.rs"]
mod journal;

use std::path::PathBuf;
use std::time::Duration;

/// CPU time of this process: all threads, the kernel's work for it included.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        amita_types::layout::mix(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Which of `n` blocks is written next.
enum Pick {
    Uniform(u64),
    Zipf(Zipf),
}

/// Zipf's distribution, as YCSB draws it (Gray et al., "Quickly generating billion-record synthetic databases", 1994), its
/// ranks spread over the blocks.
struct Zipf {
    n: u64,
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Zipf {
        let zeta = |n: u64| (1..=n).map(|rank| 1.0 / (rank as f64).powf(theta)).sum::<f64>();
        let whole = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta(2) / whole);
        Zipf {
            n,
            theta,
            zeta: whole,
            eta,
        }
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        let u = (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        (rank as u64).min(self.n - 1)
    }
}

impl Pick {
    fn all(n: u64) -> [(&'static str, Pick); 2] {
        [
            ("uniform", Pick::Uniform(n)),
            ("Zipf 0.99", Pick::Zipf(Zipf::new(n, 0.99))),
        ]
    }

    fn block(&self, rng: &mut Rng) -> u64 {
        match self {
            Pick::Uniform(n) => rng.below(*n),
            // A prime that does not divide the number of blocks: a permutation.
            Pick::Zipf(zipf) => zipf.rank(rng) * 2_654_435_761 % zipf.n,
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Where files are put: (what it is, the folder).
fn folders() -> [(&'static str, PathBuf); 2] {
    let disk =
        std::env::var_os("AMITA_BENCH_DIR").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    [("memory", PathBuf::from("/dev/shm")), ("disk", disk)]
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let all: [(&str, fn()); 3] = [
        ("cleaner", cleaner::run),
        ("journal", journal::run),
        ("index", index::run),
    ];
    for (name, run) in all {
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            run();
        }
    }
}
