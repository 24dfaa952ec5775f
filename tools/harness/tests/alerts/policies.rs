//! Snapshots that policies cannot take.

use crate::world::{Plan, VOLUME, World, eventually};

fn has_run(world: &World, policy: &str) -> bool {
    world.json(&["snapshot-policy", "show", policy])["runs"]["taken"].as_u64() > Some(0)
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_policy_fails() {
    let mut world = World::of(Plan::default());
    world.done(&["volume", "create", "plain", "--pool", "demo", "--size", "8M"]);
    let create = ["snapshot-policy", "create", "often", "--volume", "plain"];
    world.done(&[&create[..], &["--schedule", "* * * * * *", "--keep-last", "2"]].concat());
    eventually("it runs", || has_run(&world, "often"));
    world.is_quiet();
    world.fault("the volume of a policy is deleted");
    world.done(&["volume", "delete", "plain", "--yes"]);
    world.fires("AmitaPolicyFailing", "often");
    world.mended();
    world.done(&["volume", "undelete", "plain"]);
    world.ends("AmitaPolicyFailing");
    world.is_quiet();
}

/// The limit is 600 s, which is waited for.
#[test]
#[ignore = "eleven minutes: scripts/soak runs it"]
fn a_run_of_a_policy_does_not_end() {
    let mut world = World::of(Plan::default());
    let create = ["snapshot-policy", "create", "often", "--volume", VOLUME];
    world.done(&[&create[..], &["--schedule", "* * * * * *", "--keep-last", "2"]].concat());
    eventually("it runs", || has_run(&world, "often"));
    world.is_quiet();
    world.fault("two nodes of three are killed: a snapshot waits for their copies");
    world.cluster.kill_node(1);
    world.cluster.kill_node(2);
    // As long as the limit is, and then as everything else.
    std::thread::sleep(std::time::Duration::from_secs(600));
    world.fires("AmitaPolicyLate", "often");
    world.mended();
    world.start_node(1);
    world.start_node(2);
    world.ends("AmitaPolicyLate");
}
