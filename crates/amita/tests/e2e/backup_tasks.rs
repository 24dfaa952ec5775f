//! Tasks of backups, by the commands and by the API: one backup, one restore, one point given up; while the node that is at one is killed, and taken back
//! in the middle.

use crate::api::{curl, urls};
use crate::repositories::{Repository, number};
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, World, eventually, pattern};
use amita_harness::nbd::Client;
use amita_metadata::Call;
use amita_types::map;
use serde_json::{Value, json};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// A repository that the cluster knows.
fn prepared(world: &World) -> Repository {
    let repository = Repository::new(world);
    let (folder, key) = (
        repository.folder.to_str().expect("plain"),
        repository.key.to_str().expect("plain"),
    );
    let add = ["backup", "repository", "add", "off-site"];
    world.amita_done(&[&add[..], &["--address", folder, "--key-file", key]].concat());
    repository
}

fn task(world: &World, name: &str) -> Value {
    world.json(&["backup", "task", "show", name])
}

fn begin(world: &World, words: &[&str]) -> Value {
    world.json(&[&["backup", "task"][..], words].concat())
}

/// What a task has come to, which is to be done.
fn done(world: &World, name: &str) -> Value {
    let mut last = Value::Null;
    eventually("the task has ended", || {
        last = task(world, name);
        matches!(last["state"].as_str(), Some("done" | "failed" | "cancelled"))
    });
    assert_eq!(last["state"], "done", "{last}");
    last["run"]["made"].clone()
}

fn volumes(world: &World) -> Vec<String> {
    let all = world.json(&["volume", "list"]);
    let all = all.as_array().expect("a list").iter();
    all.map(|volume| volume["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Restores a point into a file where there is no cluster, and compares.
fn compare(world: &World, repository: &Repository, point: u64, name: &str) {
    let image = world.file(name);
    let (point, to) = (point.to_string(), image.to_str().expect("plain"));
    let restored = repository.alone(world, &["restore", &point, "--to-file", to]);
    restored.success().expect("restored");
    repository.compare(&image);
}

#[test]
fn a_volume_is_backed_up_restored_and_given_up_by_the_nodes() {
    let world = World::of(3);
    let mut repository = prepared(&world);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 4 << 20));
    let first = ["back-up", "first", VOLUME, "--to", "off-site"];
    let begun = begin(&world, &first);
    let made = done(&world, "first");
    let point = number(&made, "point");
    assert!(number(&made, "sent_bytes") > 0, "{made}");
    // In the same words it is the task that there is, and nothing is made again.
    let again = begin(&world, &first);
    assert_eq!(
        (&again["task"]["id"], &again["state"]),
        (&begun["task"]["id"], &json!("done"))
    );
    let other = world.amita(&[
        "backup", "task", "back-up", "first", VOLUME, "--to", "off-site", "--full",
    ]);
    assert_eq!(other.status.code(), Some(5), "{}", other.text);
    compare(&world, &repository, point, "first.raw");

    // A snapshot, behind which the volume goes on; the snapshot stays, and what changed since the first point is all that is read.
    repository.write(&mut client, 5 * MIB, &pattern(2, 1 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "monday"]);
    client.write(9 * MIB, &pattern(3, MIB as usize)).expect("written");
    begin(
        &world,
        &["back-up", "second", &format!("{VOLUME}@monday"), "--to", "off-site"],
    );
    let second = done(&world, "second");
    assert!((MIB..4 * MIB).contains(&number(&second, "read_bytes")), "{second}");
    compare(&world, &repository, number(&second, "point"), "second.raw");
    let kept = world.json(&["volume", "snapshot", "list", VOLUME]);
    let has = |name: &str| {
        kept.as_array()
            .expect("a list")
            .iter()
            .any(|found| found["name"] == name)
    };
    assert!(has("monday"), "{kept}");
    // The next one goes on from that snapshot.
    client.write(9 * MIB, &pattern(4, MIB as usize)).expect("written");
    begin(&world, &["back-up", "third", VOLUME, "--to", "off-site"]);
    let third = done(&world, "third");
    assert!((MIB..4 * MIB).contains(&number(&third, "read_bytes")), "{third}");
    drop(client);

    // Into a new volume, of the snapshot's point.
    let (second_point, name) = (
        number(&second, "point").to_string(),
        second["point_name"].as_str().expect("a name"),
    );
    let restore = |task: &str, name: &str| {
        let words = [
            "restore",
            task,
            &second_point,
            "--from",
            "off-site",
            "--to",
            "back",
            "--pool",
            "demo",
        ];
        begin(&world, &[&words[..], &["--point-name", name]].concat());
    };
    restore("wrong", "another");
    eventually("it has failed", || task(&world, "wrong")["state"] == "failed");
    assert!(!volumes(&world).contains(&"back".to_owned()));
    restore("back", name);
    let restored = done(&world, "back");
    assert!(number(&restored, "written_bytes") >= 5 * MIB, "{restored}");
    world.cluster.offer_by_nbd("back").expect("exported");
    let mut back = Client::open(world.cluster.nodes()[0].nbd, "back", PATIENCE).expect("it opens");
    repository.compare_volume(&mut back);
    drop(back);

    // By the API: what there is, whichever node is asked; and a point is given up.
    let operator = world.operator();
    let file = |name: &str| Path::new(&operator).join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let who = ["--cert", &cert, "--key", &key];
    let ask = |more: &[&str]| curl(&world, &[&who[..], more].concat());
    let points = |url: &str| {
        let (status, page) = ask(&[&format!("{url}/api/v1/backup-repositories/off-site/points")]);
        assert_eq!(status, 200, "{page}");
        let items = page["items"].as_array().expect("a list").clone();
        items.iter().map(|item| number(item, "point")).collect::<Vec<u64>>()
    };
    let urls = urls(&world);
    let all: Vec<u64> = [&made, &second, &third].map(|made| number(made, "point")).into();
    assert_eq!(points(&urls[0]), all);
    let wanted = json!({ "name": "give-up", "repository": "off-site", "forget": { "point": point } }).to_string();
    let json_body = ["--header", "content-type: application/json", "--data", &wanted];
    for _ in 0..2 {
        let (status, said) = ask(&[&json_body[..], &[&format!("{}/api/v1/backup-tasks", urls[1])]].concat());
        assert_eq!(status, 202, "{said}");
    }
    done(&world, "give-up");
    assert_eq!(points(&urls[2]), &all[1..]);
    compare(&world, &repository, number(&second, "point"), "after.raw");
    repository
        .amita(&world, &["verify", "--whole"])
        .success()
        .expect("it is whole");

    world.amita_done(&["backup", "task", "remove", "give-up"]);
    let vault = repository.json(&world, &["show", "latest"]);
    assert_eq!(vault["vault"]["open_sessions"], json!([]));
    let audit = world.amita_done(&["audit", "list"]);
    for action in ["backup.create", "backup.restore", "backup.forget", "backup.remove-task"] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
    world.end(&[]);
}

/// The node that is at a task, when it has come on.
fn runner_of(world: &World, name: &str, is_on: impl Fn(&Value) -> bool) -> usize {
    let mut at = None;
    eventually("a node is at it, and has come on", || {
        let shown = task(world, name);
        at = shown["runner"].as_str().map(str::to_owned);
        at.is_some() && is_on(&shown)
    });
    let runner = at.expect("a node");
    (0..3)
        .find(|node| runner == format!("n{}", node + 1))
        .expect("one of them")
}

#[test]
fn a_task_is_gone_on_with_when_its_node_is_killed() {
    let mut world = World::of(3);
    let mut repository = prepared(&world);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 16 << 20));
    drop(client);
    // Slow enough to be caught in the middle.
    let slow = ["backup", "repository", "set", "off-site", "--limit-rate", "512K"];
    let fast = ["backup", "repository", "set", "off-site", "--no-limit"];
    world.amita_done(&slow);
    begin(&world, &["back-up", "one", VOLUME, "--to", "off-site"]);
    let node = runner_of(&world, "one", |_| !repository.objects("packs").is_empty());
    world.cluster.kill_node(node);
    world.amita_done(&fast);
    let made = done(&world, "one");
    let shown = task(&world, "one");
    assert_ne!(shown["run"]["node"], format!("n{}", node + 1), "{shown}");
    assert!(shown["run"]["attempts"].as_u64() > Some(1), "{shown}");
    let listed = repository.json(&world, &["list"]);
    assert_eq!(listed.as_array().expect("a list").len(), 1, "it is made once: {listed}");
    compare(&world, &repository, number(&made, "point"), "one.raw");
    world.cluster.start_node(node).expect("it starts again");
    world.cluster.await_node(node).expect("it serves again");

    // A restore goes on where it was, into the same volume.
    world.amita_done(&slow);
    let point = number(&made, "point").to_string();
    begin(
        &world,
        &[
            "restore", "back", &point, "--from", "off-site", "--to", "back", "--pool", "demo",
        ],
    );
    let node = runner_of(&world, "back", |shown| {
        shown["place"]["done_bytes"].as_u64() > Some(MIB)
    });
    world.cluster.kill_node(node);
    world.amita_done(&fast);
    done(&world, "back");
    world.cluster.start_node(node).expect("it starts again");
    world.cluster.await_node(node).expect("it serves again");
    world.cluster.offer_by_nbd("back").expect("exported");
    let mut back = Client::open(world.cluster.nodes()[0].nbd, "back", PATIENCE).expect("it opens");
    repository.compare_volume(&mut back);
    drop(back);
    let vault = repository.json(&world, &["show", "latest"]);
    assert_eq!(
        vault["vault"]["open_sessions"],
        json!([]),
        "the killed nodes' sessions are over"
    );
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn what_was_taken_back_leaves_nothing_behind() {
    let world = World::of(2);
    let mut repository = prepared(&world);
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(1, 16 << 20));
    drop(client);
    begin(&world, &["back-up", "whole", VOLUME, "--to", "off-site"]);
    let point = number(&done(&world, "whole"), "point").to_string();
    world.amita_done(&["backup", "repository", "set", "off-site", "--limit-rate", "512K"]);
    let is_over = |name: &str| eventually("it is over", || task(&world, name)["state"] == "cancelled");
    let cancel = |name: &str| world.amita_done(&["backup", "task", "cancel", name]);

    begin(
        &world,
        &[
            "restore", "back", &point, "--from", "off-site", "--to", "back", "--pool", "demo",
        ],
    );
    eventually("it is being filled", || {
        task(&world, "back")["place"]["done_bytes"].as_u64() > Some(0)
    });
    assert!(volumes(&world).contains(&"back".to_owned()));
    let early = world.amita(&["backup", "task", "remove", "back"]);
    assert_eq!(early.status.code(), Some(5), "{}", early.text);
    cancel("back");
    is_over("back");
    assert!(!volumes(&world).contains(&"back".to_owned()));

    // Of what is new something has to be sent.
    let mut client = world.open(0);
    repository.write(&mut client, 0, &pattern(2, 16 << 20));
    drop(client);
    begin(&world, &["back-up", "again", VOLUME, "--to", "off-site"]);
    eventually("a node is at it", || task(&world, "again")["state"] == "running");
    cancel("again");
    is_over("again");
    let listed = repository.json(&world, &["list"]);
    assert_eq!(listed.as_array().expect("a list").len(), 1, "{listed}");
    let left = world.json(&["volume", "snapshot", "list", VOLUME]);
    let is_mark = |found: &Value| found["mark"] == true;
    assert!(left.as_array().expect("a list").iter().all(is_mark), "{left}");

    // What no node may begin is over at once.
    world.amita_done(&["backup", "repository", "set", "off-site", "--key-file", "/nowhere/key"]);
    begin(&world, &["back-up", "never", VOLUME, "--to", "off-site"]);
    cancel("never");
    assert_eq!(task(&world, "never")["state"], "cancelled");
    world.end(&[]);
}

#[test]
fn a_restore_in_the_clear_takes_an_admin_and_a_record_that_nobody_can_read_goes() {
    let world = World::of(1);
    let _repository = prepared(&world);
    let daily = world.operator_with("operator");
    let restore = [
        "backup", "task", "restore", "back", "1", "--from", "off-site", "--to", "back", "--pool", "demo", "--plain",
    ];
    let refused = world.amita(&[&restore[..], &["--identity", &daily]].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    for words in ["volume.decrypt (back)", "only admin"] {
        assert!(refused.text.contains(words), "{words}: {}", refused.text);
    }
    let list = || world.json(&["backup", "task", "list"]);
    assert_eq!(list(), json!([]));

    let client = world.cluster.metadata_client().expect("the metadata");
    let put = Call::put(map::backup_task_key("odd"), b"{".to_vec());
    client.txn(&put).expect("written");
    let shown = list();
    assert_eq!(
        (&shown[0]["state"], &shown[0]["task"]["name"]),
        (&json!("unreadable"), &json!("odd"))
    );
    let text = world.amita_done(&["backup", "task", "list"]);
    assert!(
        text.contains("NOT READABLE") && text.contains("amita backup task remove odd"),
        "{text}"
    );
    let status = world.amita(&["status"]).text;
    assert!(status.contains("amita backup task remove odd"), "{status}");
    world.amita_done(&["backup", "task", "remove", "odd"]);
    assert_eq!(list(), json!([]));
    world.end(&[]);
}
