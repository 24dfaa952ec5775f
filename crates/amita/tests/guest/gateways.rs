//! The scenarios against a cluster of real processes.

use crate::cluster::Gateways;
use crate::host::Host;
use crate::scenarios::{absence, access, database, disk, moves, paths, postgres, reservations, snapshot};
use crate::steps::Steps;

const MIB: u64 = 1 << 20;

#[test]
fn a_disk() {
    let mut target = Gateways::start(320 * MIB).expect("a cluster");
    let host = Host::boot("alpha", 4);
    let mut steps = Steps::of("a disk", &[&host]);
    steps.step("discover", || disk::discover(&host, &target));
    steps.step("connect-all", || disk::connect_all(&host, &target));
    steps.step("identify", || disk::identify(&host, &target));
    steps.step("eight queues", || disk::eight_queues(&host, &target, ""));
    steps.step("digests", || disk::digests(&host, &target));
    steps.step("ext4", || disk::file_system(&host, &target, "ext4"));
    steps.step("xfs", || disk::file_system(&host, &target, "xfs"));
    steps.step("discard", || disk::discard(&host, &target));
    steps.step("grow", || disk::grow(&host, &mut target, 384 * MIB));
    steps.step("disconnect under load", || disk::disconnect_under_load(&host, &target));
    steps.step("20 reconnects", || disk::reconnects(&host, &target));
    steps.finish();
    target.end();
}

#[test]
fn paths_go_and_come() {
    let mut target = Gateways::start(320 * MIB).expect("a cluster");
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("paths", &[&host]);
    steps.step("planned move", || {
        target.play(|target| paths::planned_move(&host, target))
    });
    steps.step("a gateway killed", || {
        target.play(|target| paths::gateway_killed(&host, target))
    });
    steps.step("a frozen gateway", || {
        target.play(|target| paths::frozen_gateway(&host, target))
    });
    steps.finish();
    target.end();
}

#[test]
#[ignore = "eleven minutes without a gateway, and a reboot: for a soak"]
fn the_only_gateway_is_away_for_eleven_minutes_and_the_host_is_rebooted() {
    let mut target = Gateways::start(64 * MIB).expect("a cluster");
    let patient = target.further("patient", 64 * MIB).expect("a second subsystem");
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("a long absence", &[&host]);
    steps.step("eleven minutes without a gateway", || {
        target.play(|target| absence::only_gateway(&host, target, &patient))
    });
    steps.step("a reboot with the disk mounted", || absence::reboot(&host, &target));
    steps.finish();
    drop(host);
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("after the reboot", &[&host]);
    steps.step("what was written before it", || absence::after_reboot(&host, &target));
    steps.finish();
    // After ten minutes others are to take the place of its store, and there are none.
    target.end_expecting(&["the rule cannot be met"]);
}

#[test]
#[ignore = "six moves, in each of which a node is killed: for a soak"]
fn a_disk_moves_between_pools_while_nodes_are_killed() {
    let times = std::env::var("AMITA_FIRE_ROUNDS").ok();
    let times = times.and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut target = Gateways::start(64 * MIB).expect("a cluster");
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("moves between pools", &[&host]);
    steps.step("nodes are killed", || {
        target.play(|target| moves::nodes_killed(&host, target, times))
    });
    steps.finish();
    target.end();
}

#[test]
fn a_snapshot() {
    let mut target = Gateways::start(64 * MIB).expect("a cluster");
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("a snapshot", &[&host]);
    steps.step("mounted read-only", || snapshot::mounted(&host, &mut target));
    steps.finish();
    target.end();
}

#[test]
#[ignore = "thirty snapshots of each: for a soak"]
fn snapshots_under_load_for_long() {
    snapshots_of_file_systems(30);
}

/// So many of each.
fn snapshots_of_file_systems(snapshots: usize) {
    let mut target = Gateways::start(320 * MIB).expect("a cluster");
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("snapshots under load", &[&host]);
    for kind in ["ext4", "xfs"] {
        steps.step(kind, || {
            snapshot::file_system_under_load(&host, &mut target, kind, snapshots)
        });
    }
    steps.finish();
    target.end();
}

#[test]
#[ignore = "a minute of the database and what is around it: for a soak"]
fn a_database_for_a_minute() {
    let mut target = Gateways::start(320 * MIB).expect("a cluster");
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("a database", &[&host]);
    steps.step("MariaDB", || database::mariadb(&host, &mut target, 60));
    steps.finish();
    target.end();
}

#[test]
#[ignore = "fifty sets of snapshots of a database and its log: for a soak"]
fn a_database_and_its_log_are_snapshotted_as_one() {
    const VOLUME_BYTES: u64 = 320 * MIB;
    let rounds = std::env::var("AMITA_GUEST_SETS").ok();
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(50);
    let mut target = Gateways::start(VOLUME_BYTES).expect("a cluster");
    let host = Host::boot("alpha", 2);
    let mut steps = Steps::of("a database and its log", &[&host]);
    steps.step("PostgreSQL", || {
        postgres::sets_under_load(&host, &mut target, rounds, VOLUME_BYTES)
    });
    steps.finish();
    target.end();
}

#[test]
fn who_may_connect() {
    let mut target = Gateways::start(64 * MIB).expect("a cluster");
    let (alpha, beta) = (Host::boot("alpha", 2), Host::boot("beta", 2));
    let mut steps = Steps::of("who may connect, and who may write", &[&alpha, &beta]);
    steps.step("reservations", || {
        target.play(|target| reservations::two_hosts(&alpha, &beta, target))
    });
    target.guard("vault", 64 * MIB).expect("a second subsystem");
    steps.step("host not allowed", || access::host_not_allowed(&alpha, &mut target));
    steps.step("autoconnect", || access::autoconnect(&alpha, &mut target));
    steps.step("CHAP", || access::chap(&alpha, &mut target));
    steps.step("TLS", || access::tls(&alpha, &mut target));
    steps.finish();
    target.end();
}
