//! Random operations against a simple model, with power cuts at any moment.

mod common;

use amita_reactor::{Pool, PoolConfig};
use common::play::{Rules, Score, play};

/// Seeds and steps of each: together more than 200,000 steps.
const SEEDS: u64 = 21;
const STEPS: usize = 10_000;

#[test]
fn random_operations_and_power_cuts() {
    let mut score = Score::default();
    for seed in 0..SEEDS {
        println!("seed {seed}");
        score += play(Rules::new(seed, STEPS));
    }
    println!("{score:#?}");
    // The seeds are fixed: what was never met was not tested.
    assert!(score.steps >= 200_000);
    assert!(score.crashes > 500 && score.ended_short > 100 && score.batches_dropped > 100);
    assert!(score.takeovers > 300 && score.no_space > 100 && score.rolls > 500);
    assert!(score.resends > 500 && score.merges > 5_000 && score.checkpoints > 50 && score.marks > 20);
    assert!(score.reads_checked > 10_000 && score.writes_acknowledged > 40_000);
}

#[test]
fn a_larger_store_under_random_operations() {
    let mut rules = Rules::new(1000, 10_000);
    rules.size_bytes = 8 << 20;
    rules.chunks = 40;
    rules.crash_one_in = 1000;
    let score = play(rules);
    assert!(score.crashes > 3 && score.writes_acknowledged > 2_000, "{score:#?}");
}

/// Whatever rots: nothing of it is ever served, nor merged into something that looks whole (rule D7's spirit).
#[test]
fn rot() {
    let mut score = Score::default();
    for seed in 3000..3010 {
        let mut rules = Rules::new(seed, 4_000);
        rules.crash_one_in = usize::MAX;
        rules.rot_one_in = 30;
        score += play(rules);
    }
    println!("{score:#?}");
    assert!(score.damaged > 200 && score.reads_checked > 1_000 && score.writes_acknowledged > 2_000);
}

/// Reads are refused while there is no memory; everything else goes on.
#[test]
fn a_pool_that_is_too_small() {
    let mut score = Score::default();
    for seed in 2000..2004 {
        let mut rules = Rules::new(seed, 5_000);
        rules.pool = Pool::new(PoolConfig {
            classes: vec![(4 << 10, 3), (64 << 10, 1)],
            huge_pages: false,
        })
        .expect("a little memory");
        score += play(rules);
    }
    assert!(
        score.reads_checked > 500 && score.writes_acknowledged > 3_000,
        "{score:#?}"
    );
}

/// As long as wanted: `AMITA_STORE_SEEDS=1000 cargo test --release -p amita-store --test random soak -- --ignored`.
#[test]
#[ignore = "runs as long as it is told to"]
fn soak() {
    let number = |name: &str, otherwise| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(otherwise)
    };
    let (first, count) = (number("AMITA_STORE_FIRST", 100_000), number("AMITA_STORE_SEEDS", 100));
    let mut score = Score::default();
    for seed in first..first + count {
        println!("seed {seed}");
        let mut rules = Rules::new(seed, STEPS);
        if seed % 4 == 3 {
            rules.size_bytes = 4 << 20;
            rules.chunks = 30;
            rules.crash_one_in = 600;
        }
        score += play(rules);
    }
    println!("{score:#?}");
}
