//! A bounded run of the fuzz targets on stable, without coverage: see `fuzz/mod.rs`.

#[path = "fuzz/mod.rs"]
mod fuzz;

use amita_testkit::fuzz::{bounded, soak as run_on};

#[test]
fn records_of_data_keys() {
    bounded(fuzz::wrapped_key, &fuzz::seeds(), &[], 20_000);
}

#[test]
fn answers_of_vault() {
    bounded(fuzz::vault_answer, &fuzz::answers(), &[], 10_000);
}

#[test]
fn answers_of_kmip_servers() {
    bounded(fuzz::kmip_answer, &fuzz::messages(), &[], 20_000);
}

#[test]
#[ignore = "as long as AMITA_FUZZ_SECONDS says; a part of `make soak`"]
fn soak() {
    run_on(fuzz::wrapped_key, &fuzz::seeds());
    run_on(fuzz::vault_answer, &fuzz::answers());
    run_on(fuzz::kmip_answer, &fuzz::messages());
}
