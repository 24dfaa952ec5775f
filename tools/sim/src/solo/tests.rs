use super::*;
use crate::campaign::run_caught;

#[test]
fn a_few_seeds_hold() {
    for seed in 0..60 {
        let run = run_caught(seed, run);
        assert_eq!(run.failure, None, "seed {seed}");
    }
}

#[test]
fn a_seed_replays_exactly() {
    let (one, two, other) = (run(5), run(5), run(6));
    assert_eq!((one.trace, one.coverage), (two.trace, two.coverage));
    assert_ne!(one.trace, other.trace);
}

#[test]
fn a_format_writes_every_byte() {
    // D3: a hole in the file could lose acknowledged data; so no byte is left out.
    let params = FormatParams {
        store: STORE,
        cluster: CLUSTER,
        size_bytes: 2 << 20,
        log_bytes: None,
    };
    let mut written = vec![false; 2 << 20];
    for (offset, bytes) in amita_store::format(&params).expect("a possible size") {
        written[offset as usize..offset as usize + bytes.len()].fill(true);
    }
    assert!(written.iter().all(|written| *written));
}
