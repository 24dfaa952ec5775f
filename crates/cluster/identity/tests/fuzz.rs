//! A bounded run of the fuzz target on stable, without coverage: see `fuzz/mod.rs`.

#[path = "fuzz/mod.rs"]
mod fuzz;

use amita_identity::capability::decode;
use amita_testkit::fuzz::{bounded, input, soak as run_on};

#[test]
fn capabilities() {
    bounded(fuzz::capability, &fuzz::capabilities(), &[], 50_000);
}

/// Most inputs are refused; were all of them, the rules behind that would not be tried.
#[test]
fn some_of_the_inputs_are_capabilities() {
    let seeds = fuzz::capabilities();
    let read = (0..5000)
        .filter(|number| decode(&input(*number, &seeds)).is_ok())
        .count();
    assert!(read > 50, "{read} of 5000");
}

#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    run_on(fuzz::capability, &fuzz::capabilities());
}
