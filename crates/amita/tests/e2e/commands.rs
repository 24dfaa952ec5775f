//! The operator's commands, as scripts use them.

use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, eventually};
use amita_harness::nbd::Client;
use amita_harness::shipped;

#[test]
fn listings_are_json_that_says_the_same_as_the_tables() {
    let world = World::with_volume();
    let nodes = world.json(&["node", "list"]);
    let names: Vec<&str> = nodes
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|node| node["name"].as_str())
        .collect();
    assert_eq!(names, ["n1", "n2", "n3"], "{nodes}");
    assert!(
        nodes
            .as_array()
            .expect("a list")
            .iter()
            .all(|node| node["alive"] == true),
        "{nodes}"
    );
    let disks = world.json(&["disk", "list"]);
    assert_eq!(disks.as_array().map(Vec::len), Some(3), "{disks}");
    let pools = world.json(&["pool", "list"]);
    assert_eq!(pools[0]["name"], "demo", "{pools}");
    assert_eq!(pools[0]["kind"]["copies"], 3, "{pools}");
    let volumes = world.json(&["volume", "list"]);
    assert_eq!(volumes[0]["name"], VOLUME, "{volumes}");
    assert_eq!(volumes[0]["size_bytes"], VOLUME_BYTES, "{volumes}");
    let status = world.json(&["status"]);
    assert_eq!(status["health"], "ok", "{status}");

    let table = world.amita_done(&["node", "list"]);
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    assert!(world.amita_done(&["volume", "list"]).contains(VOLUME));
    assert!(world.amita_done(&["pool", "list"]).contains("demo"));
    assert!(world.amita_done(&["status"]).contains("health  ok"));
    world.end(&[]);
}

#[test]
fn a_node_is_ready_when_it_has_caught_up() {
    let mut world = World::with_volume();
    let path = world.cluster.nodes()[2].stores[0].display().to_string();
    let is_ready = |world: &World| world.amita(&["node", "ready", "n3", "--store", &path]).status.code() == Some(0);
    assert!(is_ready(&world));
    let said = world.json(&["node", "ready", "n3"]);
    assert!(said["ready"] == true && said["serving"] == true, "{said}");
    assert_eq!(said["stores"][0]["path"], *path, "{said}");
    let other = world.amita(&["node", "ready", "n3", "--store", "/dev/none"]);
    assert_eq!(other.status.code(), Some(5), "{}", other.text);
    assert!(
        other.text.contains("knows no store of it at /dev/none"),
        "{}",
        other.text
    );
    // Away, and what is written meanwhile is lacking when it is back.
    assert!(world.cluster.stop_node(2), "the node ends in order");
    let away = world.amita(&["node", "ready", "n3"]);
    assert_eq!(away.status.code(), Some(5), "{}", away.text);
    assert!(away.text.contains("is not ready"), "{}", away.text);
    world.cluster.start_node(2).expect("it starts again");
    world.cluster.await_node(2).expect("it serves");
    eventually("the node is ready", || is_ready(&world));
    assert_eq!(world.amita(&["node", "ready", "n9"]).status.code(), Some(4));
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn a_volume_is_made_used_and_deleted() {
    let world = World::with_volume();
    world.amita_done(&["volume", "create", "second", "--pool", "demo", "--size", "8M"]);
    world.cluster.offer_by_nbd("second").expect("it is exported");
    assert_eq!(world.json(&["volume", "list"]).as_array().map(Vec::len), Some(2));
    let uri = world.uri(1).replace(VOLUME, "second");
    assert_eq!(world.done("nbdinfo", &["--size", &uri]).trim(), "8388608");
    // A client uses it at a gateway: both are named.
    let client = Client::open(world.cluster.nodes()[1].nbd, "second", PATIENCE).expect("the volume opens");
    let refused = world.amita(&["volume", "delete", "second"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("n2"), "{}", refused.text);
    world.amita_done(&["volume", "delete", "--force", "second"]);
    drop(client);
    assert_eq!(world.json(&["volume", "list"]).as_array().map(Vec::len), Some(1));
    let gone = world.amita(&["volume", "delete", "second"]);
    assert_eq!(gone.status.code(), Some(4), "{}", gone.text);
    world.end(&[]);
}

#[test]
fn a_pool_that_cannot_be_is_refused() {
    let world = World::with_volume();
    for (arguments, code) in [
        (&["pool", "create", "wide", "--copies", "4", "--min-copies", "2"][..], 1),
        (&["pool", "create", "odd", "--copies", "2", "--min-copies", "3"], 2),
        (&["pool", "create", "demo", "--copies", "3", "--min-copies", "2"], 5),
        (&["pool", "create", "a/b", "--copies", "3", "--min-copies", "2"], 2),
    ] {
        let refused = world.amita(arguments);
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {}", refused.text);
    }
    assert_eq!(world.json(&["pool", "list"]).as_array().map(Vec::len), Some(1));
    world.end(&[]);
}

#[test]
fn status_tells_of_a_dead_node() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    world.cluster.kill_node(2);
    client.write(0, &[1; 4096]).expect("written");
    client.close();
    let found = amita_terminal::interrupt::poll(
        std::time::Duration::from_secs(30),
        std::time::Duration::from_millis(200),
        || {
            let status = world.json(&["status"]);
            let dead = status["nodes"]
                .as_array()
                .expect("a list")
                .iter()
                .any(|node| node["alive"] == false);
            Ok((status["health"] == "degraded" && dead).then_some(status))
        },
    );
    let status = found.expect("polled").expect("status never noticed the dead node");
    assert_eq!(status["nodes"].as_array().map(Vec::len), Some(3), "{status}");
    let text = world.amita_done(&["status"]);
    assert!(text.contains("Node n3 does not hold its lease"), "{text}");
    assert!(text.contains("lack a copy"), "{text}");
    world.end(A_NODE_IS_GONE);
}

/// With `AMITA_TEST_BINARY`, as `make test` has it, everything here drives what ships: release, and without anything of the
/// simulator's.
#[test]
fn the_binary_under_test_is_the_one_that_ships() {
    let scratch = crate::world::scratch(1 << 20);
    let said = amita_harness::tool::run(scratch.folder(), binary(), ["--version"], PATIENCE);
    let said = said.expect("it runs").success().expect("it says its version").text;
    let build = said.lines().find_map(|line| line.strip_prefix("build: "));
    if std::env::var_os(shipped::VARIABLE).is_some() {
        assert_eq!(build, Some("release"), "{said}");
    } else {
        println!(
            "{} is not set; the binary under test is a build: {build:?}",
            shipped::VARIABLE
        );
        assert!(build.is_some(), "{said}");
    }
}
