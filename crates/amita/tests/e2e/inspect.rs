//! An inspection of a cluster of real processes, and what is packed for whoever helps.

use crate::world::{A_NODE_IS_GONE, WRITES_WAIT, World, eventually};
use amita_inspect::inventory::facts_key;
use amita_metadata::{Call, Client};
use amita_types::NodeId;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const HOST: &str = "nqn.2026-01.io.test:inspected";
/// A name with a password in it, as an operator's log may have it.
const IN_A_LOG: &str = "cannot reach https://root:correct-horse-battery@etcd1:2379, trying again";

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name]
        .as_array()
        .unwrap_or_else(|| panic!("no list {name} in {value}"))
}

/// An inspection for which all nodes have told, and have compared their clocks.
fn inspected(world: &World) -> Value {
    let mut report = Value::Null;
    eventually("all nodes have told what their machines are like", || {
        report = world.json(&["inspect"]);
        let blind = list(&report, "not_looked_at").iter();
        let waits = |blind: &Value| {
            let why = blind["why"].as_str().unwrap_or_default();
            why.contains("has not told") || why.contains("seen each other's clock")
        };
        !blind.clone().any(waits)
    });
    report
}

#[test]
fn a_healthy_cluster_is_inspected_and_nothing_worse_than_a_notice_is_found() {
    let world = World::with_volume();
    let report = inspected(&world);
    // What this very machine has is not the cluster's: a worn disk, swap.
    let own = |found: &&Value| !["wear", "disks", "machine"].contains(&found["check"].as_str().unwrap_or_default());
    let worse: Vec<&Value> = list(&report, "findings")
        .iter()
        .filter(own)
        .filter(|found| found["severity"] != "notice")
        .collect();
    assert!(worse.is_empty(), "{worse:#?}");
    for check in list(&report, "checks") {
        let seen = check["looked_at"].as_u64().expect("a number") + check["not_looked_at"].as_u64().expect("a number");
        assert!(seen > 0, "{check}");
    }
    let looked = |name: &str| {
        let check = list(&report, "checks").iter().find(|check| check["check"] == name);
        check.and_then(|check| check["looked_at"].as_u64()).expect("a check")
    };
    // Three nodes, whose clocks were compared with both others, and a kernel for each.
    assert!(
        looked("clocks") >= 6 && looked("kernel") >= 3 && looked("machine") >= 3,
        "{report:#}"
    );
    // All of them are on this machine, and that is seen.
    let one = list(&report, "findings")
        .iter()
        .find(|found| found["code"] == "one-machine");
    let one = one.unwrap_or_else(|| panic!("{report:#}"));
    assert!(
        one["reason"].as_str().expect("a reason").contains("n1, n2, n3"),
        "{one}"
    );

    let check = world.amita(&["inspect", "--check"]);
    let (word, code) = match report["worst"].as_str() {
        Some("critical") => ("CRITICAL", 2),
        Some("warning") => ("WARNING", 1),
        _ => ("OK", 0),
    };
    assert_eq!(check.status.code(), Some(code), "{}", check.text);
    assert!(
        check.text.starts_with(&format!("{word} - ")) && check.text.contains(" | critical="),
        "{}",
        check.text
    );
    let page = world.file("report.html");
    world.amita_done(&["inspect", "--html", &page.display().to_string()]);
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(
        html.contains("Content-Security-Policy") && html.contains("one-machine"),
        "{html}"
    );
    let again = world.amita(&["inspect", "--html", &page.display().to_string()]);
    assert_eq!(again.status.code(), Some(5), "{}", again.text);
    // What it says is explained, and the API says the same.
    let explained = world.json(&["explain", "one-machine"]);
    assert_eq!(explained[0]["sort"], "finding", "{explained}");
    let answer = by_api(&world);
    assert_eq!(answer["worst"], report["worst"], "{answer}");
    assert_eq!(list(&answer, "checks").len(), list(&report, "checks").len());
    world.end(&[]);
}

fn by_api(world: &World) -> Value {
    let nodes = world.json(&["node", "list"]);
    let url = format!("https://{}/api/v1/inspect", nodes[0]["api"].as_str().expect("an API"));
    let operator = world.operator();
    let file = |name: &str| Path::new(&operator).join(name).display().to_string();
    let said = world.done(
        "curl",
        &[
            "--silent",
            "--show-error",
            "--insecure",
            "--fail",
            "--max-time",
            "30",
            "--cert",
            &file("cert.pem"),
            "--key",
            &file("key.pem"),
            &url,
        ],
    );
    serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}"))
}

/// Every secret that this cluster has: what was shown once, and what lies in files.
fn secrets(world: &World) -> Vec<(String, String)> {
    let seal = world.file("seal.key").display().to_string();
    world.amita_done(&["host", "seal-key", &seal]);
    let keys = world
        .host_with_keys(HOST, &seal)
        .map(|key| ("a host's key".to_owned(), key));
    let mut all: Vec<(String, String)> = keys.into();
    let token = world.json(&["token", "create", "ci", "--role", "viewer"]);
    let secret = token["secret"].as_str().expect("a secret").to_owned();
    let last = secret.rsplit('.').next().expect("a part").to_owned();
    all.extend([("a token".to_owned(), secret), ("a token's end".to_owned(), last)]);
    all.push(("a password".to_owned(), "correct-horse-battery".to_owned()));
    for file in files(world.folder()) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let is_key = text.contains("PRIVATE KEY") || file.ends_with("seal.key");
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| is_key && line.len() >= 24 && !line.starts_with("-----"));
        all.extend(lines.map(|line| (file.display().to_string(), line.to_owned())));
    }
    let of_files = all.iter().filter(|(whose, _)| whose.contains("key.pem")).count();
    assert!(
        of_files >= 4,
        "the keys of nodes, of the metadata and of the operator: {all:?}"
    );
    all
}

/// Small ones: stores are none.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.metadata() {
            Ok(kind) if kind.is_dir() => found.extend(files(&path)),
            Ok(kind) if kind.is_file() && kind.len() < 64 << 10 => found.push(path),
            _ => {}
        }
    }
    found
}

/// The files of a bundle, unpacked.
fn unpacked(world: &World, archive: &Path, name: &str) -> (PathBuf, String) {
    let folder = world.file(name);
    std::fs::create_dir(&folder).expect("a folder");
    let (archive, to) = (archive.display().to_string(), folder.display().to_string());
    world.done("tar", &["-xzf", &archive, "-C", &to]);
    let mut all = String::new();
    for file in files(&folder) {
        all.push_str(&format!("{}\n", file.display()));
        all.push_str(&std::fs::read_to_string(&file).expect("text"));
    }
    (folder.join("amita-support"), all)
}

fn manifest(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("manifest.json")).expect("a manifest");
    serde_json::from_str(&text).expect("JSON")
}

fn has_no_secret(all: &str, secrets: &[(String, String)]) {
    for (whose, secret) in secrets {
        assert!(!all.contains(secret.as_str()), "{whose} is in the bundle");
    }
    for marker in [
        "PRIVATE KEY",
        "BEGIN CERT",
        "DHHC-1:",
        "NVMeTLSkey-1:",
        "amita-api-1.",
        "\"kept\"",
        "\"dhchap",
        "AMITA_",
    ] {
        assert!(!all.contains(marker), "{marker} is in the bundle");
    }
}

#[test]
fn a_bundle_has_what_helps_and_no_secret_also_when_parts_are_down() {
    let mut world = World::with_volume();
    let secrets = secrets(&world);
    inspected(&world);
    let log = world.file("own.log");
    let key = std::fs::read_to_string(Path::new(&world.operator()).join("key.pem")).expect("a key");
    std::fs::write(&log, format!("{IN_A_LOG}\n{key}\n{}\n", secrets[0].1)).expect("a log");
    let log = log.display().to_string();

    let dry = world.amita_done(&["support-bundle", "--dry-run", "--log-file", &log]);
    assert!(
        dry.contains("records/volumes.json") && dry.contains("Nothing was written"),
        "{dry}"
    );
    let archive = world.file("one.tar.gz");
    world.amita_done(&[
        "support-bundle",
        "--output",
        &archive.display().to_string(),
        "--log-file",
        &log,
    ]);
    let (folder, all) = unpacked(&world, &archive, "one");
    has_no_secret(&all, &secrets);
    let whole = manifest(&folder);
    let names: Vec<&str> = list(&whole, "files")
        .iter()
        .map(|file| file["name"].as_str().expect("a name"))
        .collect();
    for name in [
        "status.json",
        "inspect.json",
        "records/events.json",
        "records/inventories.json",
        "settings.json",
        "nodes/n1/metrics.txt",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(list(&whole, "not_got"), &[] as &[Value], "{whole:#}");
    assert!(
        all.contains(HOST) && all.contains("etcd1:2379, trying again"),
        "what is no secret stays"
    );
    let wrong = world.amita(&["support-bundle", "--output", "x.zip"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", wrong.text);

    // A dead node, and then no metadata.
    world.cluster.kill_node(2);
    let second = world.file("two.tar.gz");
    eventually("the node is seen to be dead", || {
        let status = world.json(&["status"]);
        list(&status, "nodes").iter().any(|node| node["alive"] == false)
    });
    world.amita_done(&["support-bundle", "--output", &second.display().to_string()]);
    let (folder, all) = unpacked(&world, &second, "two");
    has_no_secret(&all, &secrets);
    let missing = manifest(&folder)["not_got"].to_string();
    assert!(
        missing.contains("figures of node n3") && missing.contains("does not live"),
        "{missing}"
    );
    world.cluster.kill_metadata();
    let third = world.file("three.tar.gz");
    let said = world.amita_done(&[
        "support-bundle",
        "--output",
        &third.display().to_string(),
        "--log-file",
        &log,
    ]);
    assert!(said.contains("not got: everything that the metadata has"), "{said}");
    let (folder, all) = unpacked(&world, &third, "three");
    has_no_secret(&all, &secrets);
    assert!(list(&manifest(&folder), "files").len() >= 3, "{all}");
    let unexpected = world.unexpected_lines(&[A_NODE_IS_GONE, WRITES_WAIT, &["metadata"][..]].concat());
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

/// The node's record says that the disk beneath its store is worn: no machine has such a disk for a test. It is there until the node tells
/// something else.
fn wear_out(client: &Client, node: u32, later_s: u64) {
    let key = facts_key(NodeId(node));
    let found = client.txn(&Call::get(key.as_str())).expect("the metadata");
    let mut record: Value = found.value(0).expect("a record").json().expect("JSON");
    record["taken_at"] = json!(record["taken_at"].as_u64().expect("a time") + later_s);
    record["disks"][0]["device"] = json!({"is": {
        "name": "nvme9n1", "model": "Example D7", "serial": "S1",
        "rotational": {"is": false}, "flushed": {"is": false}, "read_only": {"is": false},
        "health": {"is": {
            "warnings": 0, "temperature_c": 30, "warns_at_c": 70, "spare_percent": 100, "spare_least_percent": 10,
            "used_percent": 103, "on_hours": 50_000, "media_errors": 0, "volatile_cache": false,
        }},
    }});
    client
        .txn(&Call::put(key, serde_json::to_vec(&record).expect("JSON")))
        .expect("the metadata");
}

fn events(world: &World, kind: &str) -> Vec<Value> {
    let text = world.amita_done(&["events", "--json", "--kind", kind]);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// What the cluster says of a disk that predicts its failure.
fn failing(world: &World) -> Option<Value> {
    let status = world.json(&["status"]);
    let fact = list(&status, "facts")
        .iter()
        .find(|fact| fact["name"] == "disk-failing");
    fact.cloned()
}

/// The store of that node, as `amita disk list` has it.
fn store_of(world: &World, node: u64) -> Value {
    let stores = world.json(&["disk", "list"]);
    let own = stores
        .as_array()
        .expect("a list")
        .iter()
        .find(|store| store["node"] == node);
    own.unwrap_or_else(|| panic!("{stores}")).clone()
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_disk_that_predicts_its_failure_is_proposed_to_be_drained_and_drained_where_that_is_wanted() {
    let world = World::of(4);
    inspected(&world);
    let node = world.json(&["node", "list"])[0]["id"].as_u64().expect("a number");
    let number = u32::try_from(node).expect("a node");
    let store = store_of(&world, node)["id"].as_str().expect("an id").to_owned();
    let client = world.cluster.metadata_client().expect("the metadata");
    wear_out(&client, number, 0);

    let mut fact = None;
    eventually("the disk is said to fail", || {
        fact = failing(&world);
        fact.is_some()
    });
    let fact = fact.expect("a fact");
    let (text, advice) = (fact["text"].to_string(), fact["advice"].to_string());
    assert!(text.contains("103 % of its life") && text.contains("nvme9n1"), "{fact}");
    assert!(
        text.contains("it would be drained now"),
        "a dry run says what would be done: {fact}"
    );
    assert!(advice.contains(&format!("amita disk drain {store}")), "{fact}");
    let told = events(&world, "disk-failing");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["objects"][0], store.as_str(), "{told:?}");
    let report = world.json(&["inspect"]);
    let codes: Vec<&Value> = list(&report, "findings").iter().map(|found| &found["code"]).collect();
    assert!(
        codes.contains(&&json!("disk-worn")) && codes.contains(&&json!("disk-failing")),
        "{codes:?}"
    );
    assert_ne!(store_of(&world, node)["duty"], "draining", "nothing was done");

    let set = world.json(&["recovery", "set", "--sick-disks", "drain"]);
    assert_eq!(set["sick_disks"], "drain", "{set}");
    // Whatever a node tells, the coordinator looks; a second reading says the same.
    wear_out(&client, number, 700);
    eventually("the store is drained", || store_of(&world, node)["duty"] == "draining");
    eventually("and that is said", || {
        failing(&world).is_some_and(|fact| fact["text"].to_string().contains("The cluster drains it"))
    });
    let audit = world.amita_done(&["audit", "list", "--json"]);
    assert!(audit.contains("disk.drain") && audit.contains("coordinator"), "{audit}");
    eventually("it holds nothing any more", || store_of(&world, node)["named"] == 0);
    assert_eq!(events(&world, "disk-failing").len(), 1, "an incident is told once");
    world.end(&["predicts its failure"]);
}
