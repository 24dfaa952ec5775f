use super::*;

#[test]
fn pauses_double_up_to_the_last_with_a_quarter_of_jitter() {
    let (first, last) = (Duration::from_millis(10), Duration::from_secs(1));
    let mut jitter = Jitter::new(1);
    let mut different = std::collections::BTreeSet::new();
    for failures in 0..100 {
        let whole = Duration::from_millis(10 << failures.min(20)).min(last);
        let pause = pause(first, last, failures, &mut jitter);
        assert!(
            pause >= whole * 3 / 4 && pause <= whole * 5 / 4,
            "{failures}: {pause:?}"
        );
        different.insert(pause);
    }
    assert!(different.len() > 90, "the jitter differs");
}

#[test]
fn the_same_seed_gives_the_same_pauses() {
    let run = |seed| {
        let mut jitter = Jitter::new(seed);
        [(); 5].map(|()| pause(Duration::from_millis(10), Duration::from_secs(1), 3, &mut jitter))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
