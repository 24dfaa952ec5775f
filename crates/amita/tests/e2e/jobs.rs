//! Jobs are listed, paused, resumed and taken back by their ids.

use crate::world::World;
use serde_json::{Value, json};

fn events(world: &World, kind: &str) -> usize {
    let told = world.amita_done(&["events", "--kind", kind, "--json"]);
    told.lines().filter(|line| !line.is_empty()).count()
}

/// Three nodes and three copies: the drain has nowhere to go, and lasts for as long as it is wanted.
#[test]
fn a_drain_is_paused_resumed_and_taken_back_by_its_job() {
    let world = World::with_volume();
    assert_eq!(world.json(&["job", "list"]), json!([]));
    let stores = world.json(&["disk", "list"]);
    let store = stores[0]["id"].as_str().expect("a store").to_owned();
    world.amita_done(&["disk", "drain", &store]);
    let id = format!("drain-{store}");
    let running = world.json(&["job", "show", &id]);
    assert_eq!(running["state"], "running", "{running}");
    assert_eq!(running["actions"], json!(["cancel", "pause"]), "{running}");

    let paused = world.json(&["job", "pause", &id]);
    assert_eq!(paused["state"], "paused", "{paused}");
    assert_eq!(paused["actions"], json!(["cancel", "resume"]), "{paused}");
    assert!(
        paused["paused"]["by"].as_str().is_some_and(|by| !by.is_empty()),
        "{paused}"
    );
    assert_eq!(world.json(&["job", "pause", &id]), paused, "once is enough");
    let shown = world.amita_done(&["job", "show", &id]);
    assert!(shown.contains("It was paused by"), "{shown}");
    let status = world.amita_done(&["status"]);
    assert!(
        status.contains(&format!("The drain of store {store} stands still")),
        "{status}"
    );
    let told = |name: &str| {
        let status = world.json(&["status"]);
        let facts = status["facts"].as_array().expect("facts").iter();
        facts.filter(|fact| fact["name"] == name).count()
    };
    assert_eq!((told("job-paused"), told("job-overdue")), (1, 0));
    let listed = world.amita_done(&["job", "list"]);
    assert!(listed.contains(&id) && listed.contains("cancel, resume"), "{listed}");

    let resumed = world.json(&["job", "resume", &id]);
    assert_eq!(
        (&resumed["state"], &resumed["paused"]),
        (&json!("running"), &Value::Null)
    );
    assert_eq!((events(&world, "job-paused"), events(&world, "job-resumed")), (1, 1));
    assert_eq!(told("job-paused"), 0, "it goes on");
    world.amita_done(&["job", "cancel", &id]);
    assert_eq!(world.json(&["job", "list"]), json!([]));
    let gone = world.amita(&["job", "pause", &id]);
    assert_eq!(gone.status.code(), Some(4), "{}", gone.text);
    let records = world.amita_done(&["audit", "list"]);
    for action in ["job.pause", "job.resume", "disk.drain"] {
        assert!(records.contains(action), "{action}: {records}");
    }
    world.end(&["the rule cannot be met"]);
}
