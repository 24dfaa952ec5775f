//! A bounded run of the fuzz target on stable, without coverage: see `fuzz/mod.rs`.

#[path = "fuzz/mod.rs"]
mod fuzz;

use amita_testkit::fuzz::{bounded, soak as run_on};

#[test]
fn commands_and_parameter_lists() {
    bounded(fuzz::scsi, &fuzz::seeds(), &[], 20_000);
}

#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    run_on(fuzz::scsi, &fuzz::seeds());
}
