use super::*;

fn sample(seed: u64) -> Run {
    assert!(seed != 13, "seed thirteen");
    let failure = (seed == 7).then(|| "seven".to_owned());
    let mut coverage = Coverage::new();
    coverage.hit("ran");
    Run {
        trace: seed * 3,
        coverage,
        failure,
    }
}

#[test]
fn failures_and_panics_are_found_and_sorted() {
    let one = run_all(0..20, None, 1, 10, sample, |_| {});
    let two = run_all(0..20, None, 2, 10, sample, |_| {});
    for summary in [&one, &two] {
        assert_eq!(summary.runs, 20);
        assert_eq!(summary.coverage.count("ran"), 19);
        assert_eq!(
            summary.failures.iter().map(|(seed, _)| *seed).collect::<Vec<_>>(),
            [7, 13]
        );
        assert!(
            summary.failures[1].1.contains("seed thirteen"),
            "{}",
            summary.failures[1].1
        );
    }
    assert_eq!(one.trace, two.trace, "the order of the threads does not show");
}
