//! The scenarios against the kernel's own target: they hold for a target that many hosts use, and so does the harness.

use crate::host::Host;
use crate::nvmet::Nvmet;
use crate::scenarios::{database, disk, paths};
use crate::steps::Steps;

const MIB: u64 = 1 << 20;

#[test]
#[ignore = "a boot that tries the scenarios and not the product: for a soak"]
fn a_disk() {
    let host = Host::boot("alpha", 4);
    let mut target = Nvmet::start(&host, 320 * MIB).expect("the kernel's target");
    let mut steps = Steps::of("the kernel's target as a disk", &[&host]);
    steps.step("discover", || disk::discover(&host, &target));
    steps.step("connect-all", || disk::connect_all(&host, &target));
    steps.step("eight queues", || disk::eight_queues(&host, &target, ""));
    steps.step("digests", || disk::digests(&host, &target));
    steps.step("a gateway killed", || paths::gateway_killed(&host, &mut target));
    steps.finish();
}

/// The rest: for whoever works on the scenarios.
#[test]
#[ignore = "the scenarios are tried against our own gateways; here they are tried themselves"]
fn everything_else() {
    let host = Host::boot("alpha", 4);
    let mut target = Nvmet::start(&host, 320 * MIB).expect("the kernel's target");
    let mut steps = Steps::of("the kernel's target, everything else", &[&host]);
    steps.step("identify", || disk::identify(&host, &target));
    steps.step("ext4", || disk::file_system(&host, &target, "ext4"));
    steps.step("xfs", || disk::file_system(&host, &target, "xfs"));
    steps.step("discard", || disk::discard(&host, &target));
    steps.step("grow", || disk::grow(&host, &mut target, 384 * MIB));
    steps.step("planned move", || paths::planned_move(&host, &mut target));
    steps.step("disconnect under load", || disk::disconnect_under_load(&host, &target));
    steps.step("20 reconnects", || disk::reconnects(&host, &target));
    steps.step("MariaDB", || database::mariadb(&host, &mut target, 12));
    steps.finish();
}
