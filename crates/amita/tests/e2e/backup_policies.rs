//! Policies back volumes up by the nodes themselves: while a node that is at a run is killed, and while the repository is away.

use crate::observe::metrics_of;
use crate::repositories::{Repository, number};
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, VOLUME, World, eventually, pattern};
use amita::nodes;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

fn policy(world: &World, name: &str) -> Value {
    world.json(&["backup", "policy", "show", name])
}

fn count(value: &Value, key: &str) -> u64 {
    value["runs"][key].as_u64().unwrap_or(0)
}

fn has_fact(world: &World, name: &str, about: &str) -> bool {
    let facts = world.json(&["status"])["facts"].clone();
    let mut facts = facts.as_array().expect("facts").iter();
    facts.any(|fact| fact["name"] == name && fact["objects"][0] == about)
}

/// The names of all points, the oldest first.
fn points(world: &World, repository: &Repository) -> Vec<String> {
    let all = repository.json(world, &["list"]);
    let all = all.as_array().expect("a list").iter();
    all.map(|point| point["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// A repository that the cluster knows, and a policy that backs the volume up into it every few seconds.
pub fn prepared(world: &World, more: &[&str]) -> Repository {
    let repository = Repository::new(world);
    let (folder, key) = (
        repository.folder.to_str().expect("plain"),
        repository.key.to_str().expect("plain"),
    );
    world.amita_done(&[
        "backup",
        "repository",
        "add",
        "off-site",
        "--address",
        folder,
        "--key-file",
        key,
    ]);
    let create = [
        "backup", "policy", "create", "often", "--volume", VOLUME, "--to", "off-site",
    ];
    world.amita_done(&[&create[..], &["--schedule", "*/3 * * * * *", "--keep-last", "2"], more].concat());
    repository
}

#[test]
fn policies_back_up_and_give_up_what_no_rule_keeps() {
    let world = World::of(3);
    let mut repository = prepared(&world, &["--paused"]);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 4 << 20));
    let by_hand = repository.json(&world, &["run", VOLUME]);
    world.amita_done(&["backup", "policy", "set", "often", "--resume"]);
    eventually("it runs", || count(&policy(&world, "often"), "runs") >= 4);
    repository.write(&mut client, 5 * MIB, &pattern(2, 1 << 20));
    let since = count(&policy(&world, "often"), "runs");
    eventually("it runs on", || count(&policy(&world, "often"), "runs") >= since + 2);
    let shown = policy(&world, "often");
    assert_eq!(
        (count(&shown, "failures"), &shown["volumes"]),
        (0, &json!([VOLUME])),
        "{shown}"
    );
    assert!(
        count(&shown, "forgotten") >= 1 && count(&shown, "sent_bytes") > 0,
        "{shown}"
    );
    // What changed is all that was read but for the first time, and a piece of it had been put by hand.
    assert!(count(&shown, "read_bytes") < 30 * MIB, "{shown}");

    let page = |node: usize| {
        let page = metrics_of(&world, &format!("n{}", node + 1));
        nodes::get(&page, "/metrics").expect("the page")
    };
    eventually("the node that leads tells of it", || {
        (0..3).any(|node| {
            let text = page(node);
            let has = |name: &str| {
                text.lines()
                    .any(|line| line.starts_with(&format!("{name}{{policy=\"often\"}}")))
            };
            has("amita_backup_runs_total") && has("amita_backup_success_timestamp_seconds")
        })
    });

    // Asked for, beside a schedule by which nothing is due; the other policy's settings have ended what was under way.
    world.amita_done(&["backup", "policy", "set", "often", "--schedule", "@yearly"]);
    eventually("nothing is under way", || {
        let shown = policy(&world, "often");
        shown["runs"]["run"].is_null() && shown["runner"].is_null()
    });
    let before = count(&policy(&world, "often"), "runs");
    ask_for(&world, "run");
    eventually("one is made", || count(&policy(&world, "often"), "runs") == before + 1);
    // Paused, it holds still: two of its own, and the one by hand.
    world.amita_done(&["backup", "policy", "set", "often", "--pause"]);
    let refused = world.amita(&["backup", "policy", "run", "often"]);
    assert!(refused.text.contains("--resume"), "{}", refused.text);
    eventually("it holds still", || {
        let shown = policy(&world, "often");
        shown["runs"]["run"].is_null() && shown["runner"].is_null()
    });
    let all = points(&world, &repository);
    let own: Vec<&String> = all.iter().filter(|name| name.starts_with("often/")).collect();
    assert!((2..=3).contains(&own.len()) && all.len() == own.len() + 1, "{all:?}");
    let listed = repository.json(&world, &["list"]);
    assert_eq!(listed[0]["point"], by_hand["point"], "{listed}");
    repository
        .amita(&world, &["verify", "--whole"])
        .success()
        .expect("it is whole");
    let image = world.file("back.raw");
    repository
        .alone(
            &world,
            &["restore", "latest", "--to-file", image.to_str().expect("plain")],
        )
        .success()
        .expect("restored");
    repository.compare(&image);

    // What is in use is not forgotten; what a policy has made stays when it goes.
    let held = world.amita(&["backup", "repository", "remove", "off-site"]);
    assert_eq!(held.status.code(), Some(5), "{}", held.text);
    world.amita_done(&["backup", "policy", "delete", "often"]);
    world.amita_done(&["backup", "repository", "remove", "off-site"]);
    assert_eq!(points(&world, &repository), all);
    let audit = world.amita_done(&["audit", "list"]);
    for action in [
        "backup-repository.add",
        "backup-policy.create",
        "backup-policy.set",
        "backup-policy.run",
        "backup-policy.delete",
    ] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
    drop(client);
    world.end(&[]);
}

/// A run, or a verification. A node that notes that the policy was changed has it for a moment.
pub(crate) fn ask_for(world: &World, what: &str) {
    eventually("it is asked for", || {
        world.amita(&["backup", "policy", what, "often"]).status.success()
    });
}

/// A verification that is asked for, and what is known when it has ended.
fn verified(world: &World) -> Value {
    let runs = |shown: &Value| shown["verification"]["record"]["runs"]["runs"].as_u64().unwrap_or(0);
    let before = runs(&policy(world, "often"));
    ask_for(world, "verify");
    eventually("it has ended", || {
        let shown = policy(world, "often");
        runs(&shown) > before && shown["verification"]["runner"].is_null()
    });
    policy(world, "often")["verification"].clone()
}

#[test]
fn what_a_verification_finds_damaged_is_told_until_it_is_whole() {
    let world = World::of(2);
    let mut repository = prepared(&world, &["--paused", "--verify", "@yearly", "--verify-sample", "100%"]);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 4 << 20));
    drop(client);
    world.amita_done(&["backup", "policy", "set", "often", "--schedule", "@yearly", "--resume"]);
    ask_for(&world, "run");
    eventually("a point is made", || count(&policy(&world, "often"), "points") == 1);
    let clean = verified(&world);
    assert!(
        clean["record"]["damage"].is_null() && clean["record"]["rounds"] == 1,
        "{clean}"
    );
    let listed = world.amita_done(&["backup", "policy", "list"]);
    assert!(!listed.contains("DAMAGED") && !listed.contains("never"), "{listed}");

    // The last one: whoever looks at the first alone finds nothing.
    let mut packs = repository.objects("packs");
    assert!(packs.len() >= 2, "{packs:?}");
    let pack = packs.pop().expect("the last one");
    let flip = || {
        let mut bytes = std::fs::read(&pack).expect("read");
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&pack, bytes).expect("written");
    };
    flip();
    let name = pack.file_name().and_then(|name| name.to_str()).expect("plain");
    let found = verified(&world);
    assert_eq!(number(&found["record"]["runs"], "failures"), 0, "{found}");
    assert!(
        found["record"]["points_lost"][0]["name"]
            .as_str()
            .expect("a name")
            .starts_with("often/"),
        "{found}"
    );
    let facts = world.json(&["status"])["facts"].clone();
    let fact = facts
        .as_array()
        .expect("facts")
        .iter()
        .find(|fact| fact["name"] == "backup-damaged");
    let objects = &fact.expect("it is told")["objects"];
    assert_eq!(
        (&objects[0], &objects[1]),
        (&json!("often"), &json!("off-site")),
        "{objects}"
    );
    assert!(objects[2].as_str().expect("an object").ends_with(name), "{objects}");
    let shown = world.amita_done(&["backup", "policy", "show", "often"]);
    assert!(shown.contains("DAMAGED") && shown.contains(name), "{shown}");
    assert!(world.amita_done(&["backup", "policy", "list"]).contains("DAMAGED"));
    eventually("the node that leads tells of it", || {
        (1..=2).any(|node| {
            let page = nodes::get(&metrics_of(&world, &format!("n{node}")), "/metrics").expect("the page");
            page.contains("amita_backup_damaged_objects{policy=\"often\"} 1")
        })
    });
    // Nothing was put in its place, and another backup makes it no better.
    ask_for(&world, "run");
    eventually("a point is made", || count(&policy(&world, "often"), "points") == 2);
    assert!(has_fact(&world, "backup-damaged", "often"));

    // However little is read, what was damaged is read again.
    world.amita_done(&["backup", "policy", "set", "often", "--verify-sample", "1"]);
    let again = verified(&world);
    assert!(
        again["record"]["damage"][0]["object"]
            .as_str()
            .expect("an object")
            .ends_with(name),
        "{again}"
    );
    flip();
    let mended = verified(&world);
    assert!(
        mended["record"]["damage"].is_null() && mended["record"]["points_lost"].is_null(),
        "{mended}"
    );
    assert!(!has_fact(&world, "backup-damaged", "often"));
    let vault = repository.json(&world, &["show", "latest"]);
    assert_eq!(vault["vault"]["open_sessions"], json!([]));
    world.amita_done(&["backup", "policy", "set", "often", "--no-verify"]);
    let refused = world.amita(&["backup", "policy", "verify", "often"]);
    assert!(refused.text.contains("--verify PATTERN"), "{}", refused.text);
    world.end(&["verification by backup policy often: repository off-site: packs/"]);
}

#[test]
#[ignore = "waits for full minutes of the clock: scripts/soak runs it"]
fn a_run_is_gone_on_with_when_its_node_is_killed() {
    let mut world = World::of(3);
    let mut repository = prepared(&world, &["--paused"]);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 16 << 20));
    drop(client);
    // Slow enough to be caught in the middle, and due once: by then the killed node's lease has ended.
    world.amita_done(&["backup", "repository", "set", "off-site", "--limit-rate", "512K"]);
    world.amita_done(&[
        "backup",
        "policy",
        "set",
        "often",
        "--schedule",
        "* * * * *",
        "--resume",
    ]);
    let mut at = None;
    eventually("a node is at it, and has put something", || {
        let shown = policy(&world, "often");
        at = shown["runner"].as_str().map(str::to_owned);
        at.is_some() && !repository.objects("packs").is_empty()
    });
    let runner = at.expect("a node");
    let due = policy(&world, "often")["runs"]["run"]["due"].clone();
    let node = (0..3)
        .find(|node| runner == format!("n{}", node + 1))
        .expect("one of them");
    world.cluster.kill_node(node);
    world.amita_done(&["backup", "repository", "set", "off-site", "--no-limit"]);
    eventually("another one goes on, and comes to the end", || {
        let last = policy(&world, "often")["runs"]["last"].clone();
        last["failed"] == 0 && last["points"].as_u64() > Some(0)
    });
    let shown = policy(&world, "often");
    let last = &shown["runs"]["last"];
    assert_ne!(last["node"].as_str(), Some(runner.as_str()), "{shown}");
    let all = points(&world, &repository);
    let mut once = all.clone();
    once.dedup();
    assert_eq!(all, once, "a time has one point");
    // The next time may have come in between: then its run has found what was put.
    if last["due"] == due {
        assert!(last["attempts"].as_u64() > Some(1), "{shown}");
    }
    world.amita_done(&["backup", "policy", "set", "often", "--pause"]);
    eventually("it holds still", || policy(&world, "often")["runner"].is_null());
    let vault = repository.json(&world, &["show", "latest"]);
    assert_eq!(
        vault["vault"]["open_sessions"],
        json!([]),
        "the killed node's session is over"
    );
    let image = world.file("back.raw");
    repository
        .alone(
            &world,
            &["restore", "latest", "--to-file", image.to_str().expect("plain")],
        )
        .success()
        .expect("restored");
    repository.compare(&image);
    world.cluster.start_node(node).expect("it starts again");
    world.cluster.await_node(node).expect("it serves again");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
#[ignore = "waits for full minutes of the clock: scripts/soak runs it"]
fn a_repository_that_is_away_holds_up_its_own_policy_alone() {
    let world = World::of(2);
    let repository = prepared(&world, &[]);
    // Another one, into a repository of its own, of two volumes at one moment.
    for volume in ["log", "index"] {
        world.amita_done(&["volume", "create", volume, "--pool", "demo", "--size", "8M"]);
    }
    let other = world.file("other");
    std::fs::create_dir(&other).expect("made");
    let (folder, key) = (other.to_str().expect("plain"), world.file("other.key"));
    let key = key.to_str().expect("plain");
    world.amita_done(&[
        "backup",
        "repository",
        "init",
        "--repository",
        folder,
        "--key-file",
        key,
    ]);
    world.amita_done(&[
        "backup",
        "repository",
        "add",
        "other",
        "--address",
        folder,
        "--key-file",
        key,
    ]);
    let create = [
        "backup", "policy", "create", "pair", "--volume", "index", "--volume", "log", "--to", "other",
    ];
    world.amita_done(
        &[
            &create[..],
            &["--schedule", "*/3 * * * * *", "--keep-last", "2", "--together"],
        ]
        .concat(),
    );
    eventually("both run", || {
        ["often", "pair"]
            .iter()
            .all(|name| count(&policy(&world, name), "points") >= 2)
    });

    let away = world.file("away");
    std::fs::rename(&repository.folder, &away).expect("moved");
    eventually("it fails, and says so", || has_fact(&world, "backup-failing", "often"));
    let shown = world.amita_done(&["backup", "policy", "show", "often"]);
    assert!(shown.contains("Is it mounted?"), "{shown}");
    let before = count(&policy(&world, "pair"), "points");
    eventually("the other one goes on", || {
        count(&policy(&world, "pair"), "points") >= before + 2
    });
    assert!(!has_fact(&world, "backup-failing", "pair"));
    std::fs::rename(&away, &repository.folder).expect("moved back");
    eventually("it works again", || !has_fact(&world, "backup-failing", "often"));
    assert!(count(&policy(&world, "often"), "failures") > 0);
    let pair = policy(&world, "pair");
    assert_eq!(number(&pair["runs"]["last"], "volumes"), 2, "{pair}");
    for name in ["often", "pair"] {
        world.amita_done(&["backup", "policy", "set", name, "--pause"]);
    }
    eventually("both hold still", || {
        ["often", "pair"]
            .iter()
            .all(|name| policy(&world, name)["runner"].is_null())
    });
    repository
        .amita(&world, &["verify", "--whole"])
        .success()
        .expect("it is whole");
    world.end(&[]);
}
