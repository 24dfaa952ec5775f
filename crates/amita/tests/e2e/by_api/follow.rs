//! What goes on until it is ended, by the API: over the death of the node that tells, nothing is lost and nothing comes twice.

use super::apis;
use crate::world::{A_NODE_IS_GONE, World, binary, eventually};
use amita_harness::process::Process;
use amita_harness::tool;
use serde_json::Value;
use std::collections::BTreeSet;

fn begin(world: &World, arguments: &[&str]) -> Process {
    let (by_api, identity) = (apis(world).join(","), world.operator());
    let who = ["--by-api", &by_api, "--identity", &identity];
    tool::start(world.folder(), binary(), [arguments, &who].concat()).expect("it starts")
}

/// The lines of JSON that it has written.
fn lines(process: &Process) -> Vec<String> {
    let said = std::fs::read_to_string(process.log()).expect("a log");
    // What is not at its end is not counted yet.
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().filter(|line| line.starts_with('{'));
    lines.map(str::to_owned).collect()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))
}

/// Ctrl-C is how it ends.
fn end(mut process: Process) {
    let ended = process.stop();
    assert!(ended.is_some_and(|status| status.success()), "{}", process.last_words());
}

#[test]
fn events_are_followed_from_node_to_node_without_one_lost_or_told_twice() {
    let mut world = World::with_volume();
    let before: Vec<String> = world
        .amita_done(&["events", "--json"])
        .lines()
        .map(str::to_owned)
        .collect();
    assert!(!before.is_empty());
    let following = begin(&world, &["events", "--follow", "--json"]);
    let only = begin(
        &world,
        &["events", "--follow", "--json", "--kind", "node-gone", "--object", "n1"],
    );
    eventually("what was kept is told", || lines(&following).len() >= before.len());
    // Both ways tell the same, to a byte and in the same order.
    assert_eq!(lines(&following)[..before.len()], before);
    // The one that tells dies, and its death is told by another one.
    world.cluster.kill_node(0);
    let is_told = |process: &Process| lines(process).iter().any(|line| json(line)["kind"] == "node-gone");
    eventually("its death is told", || is_told(&following) && is_told(&only));
    let all = || -> BTreeSet<String> {
        let said = world.amita_done(&["events", "--json"]);
        said.lines().map(str::to_owned).collect()
    };
    eventually("all is told", || {
        let told: BTreeSet<String> = lines(&following).into_iter().collect();
        all().is_subset(&told)
    });
    let told = lines(&following);
    assert_eq!(
        told.iter().collect::<BTreeSet<_>>().len(),
        told.len(),
        "each once: {told:?}"
    );
    assert!(lines(&only).iter().all(|line| json(line)["kind"] == "node-gone"));
    end(following);
    end(only);
    world.end(A_NODE_IS_GONE);
}

#[test]
fn a_status_is_watched_from_node_to_node() {
    let mut world = World::with_volume();
    let watching = begin(&world, &["status", "--watch", "--json"]);
    eventually("it is told", || !lines(&watching).is_empty());
    let first = json(&lines(&watching)[0]);
    let direct = world.json(&["status"]);
    let fields = |value: &Value| -> Vec<String> { value.as_object().expect("an object").keys().cloned().collect() };
    assert_eq!(fields(&first), fields(&direct));
    world.cluster.kill_node(0);
    eventually("that a node is gone is told by another one", || {
        let last = lines(&watching).pop().expect("a line");
        let nodes = json(&last)["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().any(|node| node["alive"] == false)
    });
    let told = lines(&watching);
    let twice = told.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "only what has changed is told");
    end(watching);
    world.end(A_NODE_IS_GONE);
}
