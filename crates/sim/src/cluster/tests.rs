use super::*;
use crate::campaign::run_caught;

#[test]
fn a_few_seeds_hold() {
    for seed in 0..20 {
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
