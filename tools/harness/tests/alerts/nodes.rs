//! Nodes that go: one of three, two of three, one again and again, one for maintenance; and a Prometheus that was told of none.

use crate::world::{Plan, VOLUME, World, eventually};

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn one_node_of_three_is_killed() {
    let mut world = World::of(Plan::default());
    world.done(&["subsystem", "create", "shelf", "--any-host", "--gateway", "n3"]);
    world.done(&["namespace", "add", "shelf", VOLUME]);
    world.is_quiet();
    world.fault("a node of three is killed");
    world.cluster.kill_node(2);
    let instance = world.instance(2);
    let alerts = [
        ("AmitaNodeDown", instance.as_str()),
        ("AmitaNodeLeaseLost", "1 nodes"),
        ("AmitaCopiesAtLeast", "no copy to spare"),
        ("AmitaSubsystemUnserved", "1 subsystems"),
        ("AmitaCopiesMissing", "lack a copy"),
        ("AmitaDegraded", "degraded"),
    ];
    world.all_fire(&alerts);
    world.mended();
    world.start_node(2);
    world.all_end(&alerts);
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn two_nodes_of_three_are_killed_under_load() {
    let mut world = World::of(Plan::default());
    let mut client = world.open(0);
    client.write(0, &[1; 4096]).expect("written");
    world.is_quiet();
    world.fault("two nodes of three are killed while a host writes");
    world.cluster.kill_node(1);
    world.cluster.kill_node(2);
    // It is answered when the nodes are back.
    let writer = std::thread::spawn(move || {
        let answered = client.write(0, &[2; 4096]);
        (client, answered)
    });
    let alerts = [
        ("AmitaBlocked", "waits or fails"),
        ("AmitaCopiesBelow", "too few copies"),
        ("AmitaStuckGroups", VOLUME),
        ("AmitaVolumeStuck", VOLUME),
    ];
    world.all_fire(&alerts);
    world.mended();
    world.start_node(1);
    world.start_node(2);
    world.all_end(&alerts);
    let (client, answered) = writer.join().expect("the writer ends");
    answered.expect("written in the end");
    client.close();
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_node_starts_again_and_again() {
    let mut world = World::of(Plan::default());
    world.fault("a node is stopped and started five times");
    for _ in 0..5 {
        let began = "process_start_time_seconds{instance=\"INSTANCE\"}".replace("INSTANCE", &world.instance(1));
        let before = world.prometheus.value(&began);
        assert!(world.cluster.stop_node(1), "it ends in order");
        world.start_node(1);
        eventually("the node's new life was scraped", || {
            world.prometheus.value(&began).is_some_and(|now| Some(now) != before)
        });
    }
    let instance = world.instance(1);
    world.fires("AmitaNodeRestarts", &instance);
    world.mended();
    world.ends("AmitaNodeRestarts");
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn maintenance_is_forgotten_and_prometheus_loses_its_targets() {
    let mut world = World::of(Plan::default());
    world.fault("a node is set into maintenance");
    world.done(&["node", "maintenance", "on", "n2"]);
    world.fires("AmitaMaintenanceForgotten", "in maintenance");
    world.mended();
    world.done(&["node", "maintenance", "off", "n2"]);
    world.ends("AmitaMaintenanceForgotten");
    world.fault("Prometheus is given no target");
    world.prometheus.aim(&[]);
    world.fires("AmitaNothingScraped", "No node of Amita");
    world.mended();
    world.prometheus.aim(&world.targets);
    world.ends("AmitaNothingScraped");
    world.is_quiet();
}

/// A store is drained, and no other may take its copies.
#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_rule_cannot_be_met() {
    let mut world = World::of(Plan::default());
    let stores = world.json(&["disk", "list"]);
    let store = stores[0]["id"].as_str().expect("an id").to_owned();
    world.fault("a store of three is drained, where each node is to hold a copy");
    world.done(&["disk", "drain", &store]);
    world.fires("AmitaRuleUnmet", "cannot be met");
    world.mended();
    world.done(&["disk", "drain", &store, "--undo"]);
    world.ends("AmitaRuleUnmet");
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn recovery_does_not_come_to_an_end() {
    let mut world = World::of(Plan::default());
    for level in ["critical", "degraded"] {
        world.done(&[
            "recovery",
            "set",
            "--mode",
            "limits",
            "--level",
            level,
            "--bandwidth",
            "64K",
        ]);
    }
    world.cluster.kill_node(2);
    eventually("the store was evicted", || {
        let facts = world.json(&["status"])["facts"].clone();
        facts
            .as_array()
            .expect("facts")
            .iter()
            .any(|fact| fact["name"] == "copies-missing")
    });
    let mut client = world.open(0);
    for at in 0..32_u64 {
        client.write(at << 20, &[7; 1 << 20]).expect("written");
    }
    client.close();
    world.fault("recovery is given 64 KiB a second for 32 MiB");
    world.start_node(2);
    world.fires("AmitaSyncingLong", "brought up to date");
    world.mended();
    for level in ["critical", "degraded"] {
        world.done(&["recovery", "set", "--level", level, "--bandwidth", "0"]);
    }
    world.ends("AmitaSyncingLong");
    world.is_quiet();
}
