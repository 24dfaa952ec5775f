//! A node's clock is wrong. It is moved by libfaketime, which is fetched and not installed.

use crate::prometheus::fetched;
use crate::world::{Plan, World};
use amita_harness::scratch::Scratch;
use std::path::Path;

/// Lines of a shell with which what follows has the clock that the file says; monotonic time goes on.
fn faked(file: &Path) -> String {
    let library = fetched("libfaketime", "usr/lib/*/faketime/libfaketimeMT.so.1");
    format!(
        "export LD_PRELOAD='{}' FAKETIME_TIMESTAMP_FILE='{}' FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
         FAKETIME_DISABLE_SHM=1 NO_FAKE_STAT=1",
        library.display(),
        file.display()
    )
}

fn set(file: &Path, offset: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{offset}\n")).expect("written");
    std::fs::rename(new, file).expect("renamed");
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_clock_is_wrong() {
    let scratch = Scratch::make("alerts", None, None, 3 << 30).expect("folders");
    let clock = scratch.folder().join("clock");
    set(&clock, "+0s");
    let plan = Plan {
        begins: format!("if [ \"$1 $3\" = 'serve n3' ]; then {}; fi", faked(&clock)),
        ..Plan::default()
    };
    let mut world = World::on(plan, scratch, |_| {}, |_| {});
    let instance = world.instance(2);
    world.fault("a node's clock is set ahead by 60 s");
    set(&clock, "+60s");
    world.fires("AmitaClockSkew", &instance);
    world.mended();
    set(&clock, "+0s");
    world.ends("AmitaClockSkew");
    world.is_quiet();
}
