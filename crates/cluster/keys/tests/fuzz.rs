//! A bounded run of the fuzz targets on stable, without coverage: see `fuzz/mod.rs`.

#[path = "fuzz/mod.rs"]
mod fuzz;

use amita_testkit::fuzz::{bounded, soak as run_on};

#[test]
fn texts_of_keys() {
    bounded(fuzz::keys, &fuzz::seeds(), &[], 6_000);
}

#[test]
fn files_of_sealing_keys() {
    bounded(fuzz::file, &fuzz::seeds(), &[], 3_000);
}

#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    run_on(fuzz::keys, &fuzz::seeds());
    run_on(fuzz::file, &fuzz::seeds());
}
