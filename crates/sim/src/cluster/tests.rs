use super::*;
use crate::campaign::run_caught;

#[test]
fn a_few_seeds_hold() {
    for seed in 0..20 {
        let run = run_caught(seed, run);
        assert_eq!(run.failure, None, "seed {seed}");
    }
}

/// Seeds that have found faults in what serves hosts with several paths.
#[test]
fn seeds_that_found_faults_hold() {
    // 31: what a gateway had not forwarded yet was forwarded when its host had long gone on by another one.
    // 155: a core asked for the way to a volume for ever, whose new owner it could not reach.
    // 6082: a claim of unknown outcome was written late, in the place of a newer one.
    for seed in [31, 155, 6082] {
        let run = run_caught(seed, run);
        assert_eq!(run.failure, None, "seed {seed}");
    }
}

#[test]
fn a_seed_replays_exactly() {
    let (one, two, other) = (run(3), run(3), run(4));
    assert_eq!((one.trace, one.coverage), (two.trace, two.coverage));
    assert_ne!(one.trace, other.trace);
}

/// Plays a range of seeds: `AMITA_SEEDS=0..500 cargo test -p amita-sim --features planted a_range -- --nocapture`.
#[test]
fn a_range_of_seeds() {
    let Ok(text) = std::env::var("AMITA_SEEDS") else { return };
    let (from, to) = text.split_once("..").expect("FROM..TO");
    let seeds = from.parse().expect("a number")..to.parse().expect("a number");
    let summary = crate::campaign::run_all(seeds, None, 1, 5, run, |_| {});
    println!("{}", summary.coverage);
    assert!(summary.failures.is_empty(), "{:#?}", summary.failures);
}
