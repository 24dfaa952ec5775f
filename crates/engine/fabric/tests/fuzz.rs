//! A bounded run of the fuzz targets on stable, without coverage: see `fuzz/mod.rs`.

mod common;
#[path = "fuzz/mod.rs"]
mod fuzz;
#[allow(dead_code)]
#[path = "sim/world.rs"]
mod world;

use amita_testkit::fuzz::{bounded, input, soak as run_on};
use fuzz::Seen;

#[test]
fn heads_are_read_in_one_way_or_not_at_all() {
    bounded(fuzz::head, &fuzz::heads(), &[], 100_000);
}

#[test]
fn a_dialler_that_goes_wrong_harms_nobody() {
    bounded(fuzz::dialler, &[], &[], 3000);
}

#[test]
fn an_acceptor_that_goes_wrong_harms_nobody() {
    bounded(fuzz::acceptor, &[], &[], 3000);
}

#[test]
fn a_stranger_is_not_heard() {
    bounded(fuzz::stranger, &[], &[], 3000);
}

#[test]
fn conversations_get_somewhere_and_go_wrong() {
    let played = |play: fn(&[u8]) -> Seen| {
        let all = (0..300).map(|number| play(&input(number, &[])));
        all.fold(Seen::default(), |sum, one| Seen {
            downs: sum.downs + one.downs,
            requests: sum.requests + one.requests,
            answers: sum.answers + one.answers,
        })
    };
    let (call, called) = (played(fuzz::call), played(fuzz::be_called));
    assert!(call.downs > 150 && call.requests > 200, "{call:?}");
    assert!(called.downs > 150 && called.answers > 100, "{called:?}");
}

/// As long as `AMITA_FUZZ_SECONDS` says, each.
#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    run_on(fuzz::head, &fuzz::heads());
    run_on(fuzz::dialler, &[]);
    run_on(fuzz::acceptor, &[]);
    run_on(fuzz::stranger, &[]);
}
