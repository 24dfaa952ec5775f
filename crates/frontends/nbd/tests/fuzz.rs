//! A bounded run of the fuzz target on stable, without coverage: see `fuzz/mod.rs`.

#[path = "fuzz/mod.rs"]
mod fuzz;

use amita_testkit::fuzz::{bounded, input, soak as run_on};

#[test]
fn connections_that_go_wrong() {
    bounded(fuzz::nbd, &[], &[], 5000);
}

#[test]
fn connections_get_behind_the_handshake() {
    let answered: usize = (0..500).map(|number| fuzz::connection(&input(number, &[]))).sum();
    assert!(answered > 700, "{answered} requests were answered");
}

#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    run_on(fuzz::nbd, &[]);
}
