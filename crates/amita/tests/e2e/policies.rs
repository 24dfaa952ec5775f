//! Policies take snapshots and delete them, while the node that leads is killed.

use crate::healing::await_in_sync;
use crate::observe::metrics_of;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, World, eventually};
use amita::nodes;
use amita_control::coordinator::election_key;
use amita_harness::nbd::Client;
use amita_metadata::Call;
use std::collections::BTreeSet;

/// What nodes say of policies here.
const POLICIES: &[&str] = &["policy often: ", "policy lost: "];

fn policy(world: &World, name: &str) -> serde_json::Value {
    world.json(&["snapshot-policy", "show", name])
}

fn count(value: &serde_json::Value, key: &str) -> u64 {
    value["runs"][key].as_u64().unwrap_or(0)
}

fn names(world: &World, volume: &str) -> Vec<String> {
    let all = world.json(&["volume", "snapshot", "list", volume]);
    let all = all.as_array().expect("a list").iter();
    all.map(|one| one["name"].as_str().expect("a name").to_owned())
        .collect()
}

fn has_event(world: &World, kind: &str, about: &str) -> bool {
    let told = world.amita_done(&["events", "--kind", kind, "--object", about, "--json"]);
    !told.trim().is_empty()
}

fn has_fact(world: &World, name: &str, about: &str) -> bool {
    let facts = world.json(&["status"])["facts"].clone();
    let facts = facts.as_array().expect("facts").iter();
    facts
        .into_iter()
        .any(|fact| fact["name"] == name && fact["objects"][0] == about)
}

/// Which node leads: its number, from 1.
pub fn leader(world: &World) -> usize {
    let meta = world.cluster.metadata_client().expect("the metadata");
    let mut found = None;
    eventually("somebody leads", || {
        let reply = meta.txn(&Call::get(election_key())).expect("the metadata answers");
        let holder = reply.value(0).and_then(|held| held.json::<serde_json::Value>().ok());
        found = holder.and_then(|holder| holder["node"].as_u64());
        found.is_some()
    });
    found.expect("somebody leads") as usize
}

#[test]
fn snapshots_are_taken_by_policies_whoever_leads() {
    let mut world = World::of(4);
    world.amita_done(&["volume", "label", VOLUME, "tier=gold"]);
    world.amita_done(&["volume", "create", "plain", "--pool", "demo", "--size", "8MiB"]);
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "by-hand"]);
    let bad = world.amita(&[
        "snapshot-policy",
        "create",
        "often",
        "--label",
        "tier=gold",
        "--schedule",
        "every second",
        "--keep-last",
        "3",
    ]);
    assert_eq!(bad.status.code(), Some(2), "{}", bad.text);
    assert!(bad.text.contains("five fields are wanted"), "{}", bad.text);
    let create = [
        "snapshot-policy",
        "create",
        "often",
        "--label",
        "tier=gold",
        "--schedule",
        "* * * * * *",
        "--keep-last",
        "3",
    ];
    world.amita_done(&create);
    let twice = world.amita(&create);
    assert_eq!(twice.status.code(), Some(5), "{}", twice.text);
    eventually("it runs", || count(&policy(&world, "often"), "runs") >= 5);
    let before = policy(&world, "often");
    assert_eq!(before["volumes"], serde_json::json!([VOLUME]));
    assert_eq!(before["runs"]["failures"], 0, "{before}");
    assert_eq!(before["next"].as_array().map(Vec::len), Some(5));
    assert!(names(&world, "plain").is_empty());

    // Whoever leads is killed; the next one goes on.
    let leads = leader(&world);
    let gone = (0..4)
        .find(|node| world.json(&["node", "list"])[*node]["id"] == leads)
        .expect("it is one of them");
    world.cluster.kill_node(gone);
    let since = count(&policy(&world, "often"), "runs");
    eventually("another one goes on", || {
        count(&policy(&world, "often"), "runs") >= since + 5
    });
    assert_ne!(leader(&world), leads);
    eventually("what was missed is told", || {
        has_event(&world, "policy-missed", "often")
    });
    let after = policy(&world, "often");
    assert!(count(&after, "missed") > 0, "{after}");
    assert!(
        count(&after, "taken") >= count(&after, "runs").saturating_sub(1),
        "{after}"
    );
    let page = (0..4).filter(|node| *node != gone).any(|node| {
        let page = metrics_of(&world, &format!("n{}", node + 1));
        let text = nodes::get(&page, "/metrics").expect("the page");
        text.lines()
            .any(|line| line.starts_with("amita_policy_runs_total{policy=\"often\"}"))
    });
    assert!(page, "the node that leads tells of its policies");
    world.cluster.start_node(gone).expect("it starts again");
    world.cluster.await_node(gone).expect("it serves again");

    // Paused, it holds still: three of its own, and the one that was taken by hand.
    world.amita_done(&["snapshot-policy", "set", "often", "--pause"]);
    eventually("it holds still", || policy(&world, "often")["runs"]["run"].is_null());
    let all = names(&world, VOLUME);
    assert!((4..=5).contains(&all.len()), "{all:?}");
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert!(all.contains(&"by-hand".to_owned()));
    let own: Vec<&String> = all.iter().filter(|name| name.starts_with("often-")).collect();
    world.amita_done(&["volume", "snapshot", "protect", VOLUME, own[0]]);
    let dry = world.json(&["snapshot-policy", "set", "often", "--keep-last", "1", "--dry-run"]);
    let verdicts = dry["volumes"][0]["snapshots"].as_array().expect("verdicts").clone();
    assert_eq!(verdicts.len(), own.len(), "the one by hand is not spoken of: {dry}");
    assert_eq!(verdicts[0]["kept_by"], serde_json::json!(["last"]));
    assert_eq!(verdicts[own.len() - 1]["protected"], true, "{dry}");
    assert_eq!(policy(&world, "often")["keep"]["last"], 3, "nothing is changed");
    world.amita_done(&["snapshot-policy", "set", "often", "--keep-last", "1"]);
    let said = world.amita_done(&["snapshot-policy", "prune", "often", "--dry-run"]);
    assert!(said.contains("would go") && said.contains("it is protected"), "{said}");
    assert_eq!(names(&world, VOLUME), all);
    world.amita_done(&["snapshot-policy", "prune", "often"]);
    let left = names(&world, VOLUME);
    assert_eq!(left, ["by-hand", own[0], own[own.len() - 1]]);
    world.amita_done(&["snapshot-policy", "delete", "often"]);
    let none = world.amita(&["snapshot-policy", "show", "often"]);
    assert_eq!(none.status.code(), Some(4), "{}", none.text);
    assert_eq!(names(&world, VOLUME), left, "what it has made stays");
    let audit = world.amita_done(&["audit", "list"]);
    for action in ["create", "set", "prune", "delete"] {
        assert!(audit.contains(&format!("snapshot-policy.{action}")), "{audit}");
    }

    // One whose volume is deleted says so, and goes on when it is back.
    world.amita_done(&[
        "snapshot-policy",
        "create",
        "lost",
        "--volume",
        "plain",
        "--schedule",
        "* * * * * *",
        "--keep-last",
        "2",
    ]);
    eventually("it runs", || count(&policy(&world, "lost"), "taken") > 0);
    world.amita_done(&["volume", "delete", "plain"]);
    eventually("it fails", || {
        has_fact(&world, "policy-fails", "lost") && has_event(&world, "policy-fails", "lost")
    });
    let shown = world.amita_done(&["snapshot-policy", "show", "lost"]);
    assert!(shown.contains("amita volume undelete"), "{shown}");
    world.amita_done(&["volume", "undelete", "plain"]);
    eventually("it works", || {
        has_event(&world, "policy-works", "lost") && !has_fact(&world, "policy-fails", "lost")
    });
    await_in_sync(&world);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, POLICIES].concat());
}

/// What volumes have of each of a policy's runs is one set of all of them, whose owners are several, and whoever leads.
#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_policy_takes_sets_whoever_leads() {
    let mut world = World::of(4);
    for (volume, node) in [("log", 1), ("index", 2)] {
        world.amita_done(&["volume", "create", volume, "--pool", "demo", "--size", "8MiB"]);
        // It is open where it is used.
        world.cluster.offer_by_nbd(volume).expect("it is exported");
        let at = world.cluster.nodes()[node].nbd;
        let mut client = Client::open(at, volume, PATIENCE).expect("the volume opens");
        client.write(0, &[7; 4096]).expect("it is written");
        client.close();
    }
    fn create<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let policy = [
            "snapshot-policy",
            "create",
            "sets",
            "--schedule",
            "*/2 * * * * *",
            "--keep-last",
            "4",
            "--together",
        ];
        [&policy[..], more].concat()
    }
    world.amita_done(&create(&["--volume", VOLUME, "--volume", "log", "--volume", "index"]));
    eventually("it runs", || count(&policy(&world, "sets"), "sets") >= 3);
    let shown = world.amita_done(&["snapshot-policy", "show", "sets"]);
    assert!(shown.contains("of one moment (set "), "{shown}");
    let list = world.amita_done(&["snapshot-policy", "list"]);
    assert!(list.contains("3 volumes by name, together"), "{list}");

    // Whoever leads is killed, and owns one of the volumes perhaps.
    let leads = leader(&world);
    let gone = (0..4)
        .find(|node| world.json(&["node", "list"])[*node]["id"] == leads)
        .expect("it is one of them");
    world.cluster.kill_node(gone);
    let since = count(&policy(&world, "sets"), "sets");
    eventually("another one goes on", || {
        count(&policy(&world, "sets"), "sets") >= since + 3
    });
    assert_ne!(leader(&world), leads);
    let page = (0..4).filter(|node| *node != gone).any(|node| {
        let page = metrics_of(&world, &format!("n{}", node + 1));
        let text = nodes::get(&page, "/metrics").expect("the page");
        text.lines()
            .any(|line| line.starts_with("amita_policy_sets_total{policy=\"sets\",what=\"taken\"}"))
    });
    assert!(page, "the node that leads tells of its sets");
    world.cluster.start_node(gone).expect("it starts again");
    world.cluster.await_node(gone).expect("it serves again");

    world.amita_done(&["snapshot-policy", "set", "sets", "--pause"]);
    eventually("it holds still", || policy(&world, "sets")["runs"]["run"].is_null());
    let sets_of = |volume: &str| -> Vec<(String, u64)> {
        let all = world.json(&["volume", "snapshot", "list", volume]);
        let all = all.as_array().expect("a list").iter();
        let own = all.filter(|one| one["name"].as_str().is_some_and(|name| name.starts_with("sets-")));
        own.map(|one| {
            let (name, set) = (one["name"].as_str(), one["set"].as_u64());
            (name.expect("a name").to_owned(), set.expect("it is of a set"))
        })
        .collect()
    };
    // Who is paused in the middle of a run leaves a set of which some volumes have lost their part already: the oldest.
    let newest = |volume: &str| {
        let all = sets_of(volume);
        assert!((4..=5).contains(&all.len()), "{volume}: {all:?}");
        all[all.len() - 4..].to_vec()
    };
    eventually("all have the newest four", || {
        let of_first = newest(VOLUME);
        newest("log") == of_first && newest("index") == of_first
    });
    world.amita_done(&["snapshot-policy", "delete", "sets"]);
    await_in_sync(&world);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, POLICIES, &["policy sets: "]].concat());
}
