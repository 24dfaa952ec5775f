//! A bounded run of the fuzz target on stable, without coverage: see `fuzz/mod.rs`.

#[path = "fuzz/mod.rs"]
mod fuzz;

use amita_testkit::fuzz::{bounded, soak as run_on};

#[test]
fn what_objects_hold() {
    bounded(fuzz::parse, &fuzz::seeds(), &[], 30_000);
}

#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    run_on(fuzz::parse, &fuzz::seeds());
}
