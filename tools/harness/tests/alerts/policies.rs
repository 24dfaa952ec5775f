//! Snapshots that policies cannot take.

use crate::world::{Plan, World, eventually};

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
