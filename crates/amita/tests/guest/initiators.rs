//! The scenarios of iSCSI against a cluster of real processes.

use crate::cluster::Gateways;
use crate::host::Host;
use crate::scenarios::{chap, commands, database, disk, fencing, initiator, paths, postgres};
use crate::steps::Steps;

const MIB: u64 = 1 << 20;

#[test]
#[ignore = "minutes of an emulated processor: for a soak"]
fn a_disk() {
    let mut target = Gateways::start_portals(320 * MIB).expect("a cluster");
    let host = Host::boot_initiator("alpha", 4);
    let mut steps = Steps::of("a disk by iSCSI", &[&host]);
    steps.step("discover", || initiator::discover(&host, &target));
    steps.step("attach", || initiator::attach(&host, &mut target));
    steps.step("inquire", || initiator::inquire(&host, &target));
    steps.step("a lone LUN", || {
        let iqn = target.lone_lun("alone", 5, 16 * MIB)?;
        initiator::lone_lun(&host, &target, &iqn, 5)
    });
    steps.step("two portals", || initiator::two_portals(&host, &target, ""));
    steps.step("digests", || initiator::digests(&host, &target));
    steps.step("discard", || disk::discard(&host, &target));
    steps.step("commands", || commands::by_hand(&host, &mut target, 64 * MIB));
    steps.finish();
    target.end();
}

#[test]
#[ignore = "file systems, twenty sessions: for a soak"]
fn a_disk_for_longer() {
    let mut target = Gateways::start_portals(320 * MIB).expect("a cluster");
    let host = Host::boot_initiator("alpha", 4);
    let mut steps = Steps::of("a disk by iSCSI, for longer", &[&host]);
    steps.step("ext4", || disk::file_system(&host, &target, "ext4"));
    steps.step("xfs", || disk::file_system(&host, &target, "xfs"));
    steps.step("grow", || disk::grow(&host, &mut target, 384 * MIB));
    steps.step("disconnect under load", || disk::disconnect_under_load(&host, &target));
    steps.step("20 reconnects", || disk::reconnects(&host, &target));
    steps.finish();
    target.end();
}

#[test]
#[ignore = "gateways that are killed, frozen and moved from: for a soak"]
fn paths_go_and_come() {
    let mut target = Gateways::start_portals(320 * MIB).expect("a cluster");
    let host = Host::boot_initiator("alpha", 2);
    let mut steps = Steps::of("paths by iSCSI", &[&host]);
    steps.step("planned move", || {
        target.play(|target| paths::planned_move(&host, target))
    });
    steps.step("a gateway killed", || {
        target.play(|target| paths::gateway_killed(&host, target))
    });
    steps.step("a frozen gateway", || {
        target.play(|target| paths::frozen_gateway(&host, target))
    });
    for (step, kind) in [("ext4 through a death", "ext4"), ("xfs through a death", "xfs")] {
        steps.step(step, || target.play(|target| paths::file_system(&host, target, kind)));
    }
    steps.finish();
    target.end();
}

#[test]
#[ignore = "two guests that fence each other: for a soak"]
fn who_may_write() {
    let mut target = Gateways::start_portals(64 * MIB).expect("a cluster");
    let (alpha, beta) = (Host::boot_initiator("alpha", 2), Host::boot_initiator("beta", 2));
    let mut steps = Steps::of("who may write", &[&alpha, &beta]);
    steps.step("fence_scsi", || {
        target.play(|target| fencing::by_agent(&alpha, &beta, target))
    });
    steps.step("sg_persist", || {
        target.play(|target| fencing::by_hand(&alpha, &beta, target))
    });
    steps.finish();
    target.end();
}

#[test]
#[ignore = "every way of CHAP: for a soak"]
fn who_may_log_in() {
    let mut target = Gateways::start_portals(64 * MIB).expect("a cluster");
    let host = Host::boot_initiator("alpha", 2);
    let mut steps = Steps::of("who may log in", &[&host]);
    target.guard("vault", 64 * MIB).expect("a second target");
    steps.step("initiator not allowed", || chap::not_allowed(&host, &mut target));
    steps.step("CHAP", || chap::chap(&host, &mut target));
    steps.finish();
    target.end();
}

#[test]
#[ignore = "two databases while gateways die: for a soak"]
fn databases() {
    let mut target = Gateways::start_portals(320 * MIB).expect("a cluster");
    let host = Host::boot_initiator("alpha", 2);
    let mut steps = Steps::of("databases by iSCSI", &[&host]);
    steps.step("PostgreSQL", || {
        target.play(|target| postgres::through_a_death(&host, target))
    });
    steps.step("MariaDB", || target.play(|target| database::mariadb(&host, target, 30)));
    steps.finish();
    target.end();
}
