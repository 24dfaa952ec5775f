//! Volumes are made what they were at a snapshot: every byte, in volumes that grew, and where the command was killed on its way.

use crate::images::amita;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, pattern};
use amita_control::admin;
use amita_harness::nbd::{Client, NbdRequest};
use amita_harness::process::Process;
use amita_harness::tool;
use amita_identity::Role;
use serde_json::Value;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

pub fn open(world: &World, node: usize, export: &str) -> Client {
    let until = Instant::now() + PATIENCE;
    loop {
        match Client::open(world.cluster.nodes()[node].nbd, export, PATIENCE) {
            // Who had it a moment ago may not have left yet.
            Err(why) if why.to_string().contains("in use through") && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened.unwrap_or_else(|why| panic!("{export} does not open: {why}")),
        }
    }
}

/// Writes to the volume, and to what is expected of it.
pub fn write(client: &mut Client, content: &mut [u8], offset: u64, bytes: &[u8]) {
    for (at, piece) in (offset..).step_by(MIB as usize).zip(bytes.chunks(MIB as usize)) {
        client.write(at, piece).expect("written");
    }
    content[offset as usize..][..bytes.len()].copy_from_slice(bytes);
}

fn trim(client: &mut Client, content: &mut [u8], offset: u64, bytes: u64) {
    let request = NbdRequest::Trim {
        offset,
        bytes: bytes as u32,
    };
    client.ask(request).expect("asked");
    client.answer().expect("answered").result.expect("trimmed");
    content[offset as usize..][..bytes as usize].fill(0);
}

/// Everything, byte by byte.
pub fn compare(world: &World, node: usize, export: &str, content: &[u8]) {
    let mut client = open(world, node, export);
    assert_eq!(client.size_bytes(), content.len() as u64, "{export}");
    let mut found = vec![0; MIB as usize];
    for (at, expected) in (0..).step_by(MIB as usize).zip(content.chunks(MIB as usize)) {
        client.read(at, &mut found[..expected.len()]).expect("it is read");
        let differs = found.iter().zip(expected).position(|(one, other)| one != other);
        assert_eq!(differs.map(|byte| at + byte as u64), None, "{export} differs there");
    }
    client.close();
}

/// A revert that must succeed, and what it says as JSON.
fn revert(world: &World, snapshot: &str, more: &[&str]) -> Value {
    let object = format!("{VOLUME}@{snapshot}");
    let arguments = [&["volume", "revert", &object, "--json"], more].concat();
    let until = Instant::now() + PATIENCE;
    loop {
        let said = amita(world, &arguments);
        if said.text.contains("in use through") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let said = said.success().expect("it is reverted");
        // What it warns of a node that is away stands in between.
        let lines = said.text.lines().filter(|line| !line.starts_with("amita: "));
        let json: String = lines.collect();
        return serde_json::from_str(&json).unwrap_or_else(|why| panic!("no JSON ({why}): {}", said.text));
    }
}

fn figure(said: &Value, name: &str) -> u64 {
    said[name].as_u64().unwrap_or_else(|| panic!("no {name}: {said}"))
}

fn kept(said: &Value) -> String {
    let name = said["kept"].as_str().unwrap_or_else(|| panic!("none is kept: {said}"));
    assert!(name.starts_with("before-revert-"), "{said}");
    name.to_owned()
}

fn snapshots(world: &World) -> Vec<Value> {
    let listed = world.json(&["volume", "snapshot", "list", VOLUME]);
    listed.as_array().cloned().expect("a list")
}

#[test]
fn every_byte_is_what_it_was() {
    let world = World::with_volume();
    let mut client = world.open(0);
    let mut was = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut was, 0, &pattern(1, 20 << 20));
    write(&mut client, &mut was, 40 * MIB, &pattern(2, 1 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);

    let mut is = was.clone();
    write(&mut client, &mut is, 3 * MIB + BLOCK, &pattern(3, 6 << 20));
    write(&mut client, &mut is, 30 * MIB, &pattern(4, 64 << 10));
    trim(&mut client, &mut is, 12 * MIB, 4 * MIB);
    write(&mut client, &mut is, 40 * MIB + 2 * BLOCK, &pattern(5, BLOCK as usize));
    let same = was[..BLOCK as usize].to_vec();
    write(&mut client, &mut is, 0, &same);
    client.close();
    world.amita_done(&["volume", "resize", VOLUME, "--size", "96M"]);
    is.resize(96 << 20, 0);
    let mut client = open(&world, 0, VOLUME);
    write(&mut client, &mut is, 63 * MIB, &pattern(6, 2 << 20));
    write(&mut client, &mut is, 80 * MIB, &pattern(7, BLOCK as usize));

    let object = format!("{VOLUME}@a");
    let refused = amita(&world, &["volume", "revert", &object]);
    assert!(!refused.status.success(), "{}", refused.text);
    assert!(refused.text.contains("in use through"), "{}", refused.text);
    client.close();

    let planned = revert(&world, "a", &["--dry-run"]);
    assert_eq!((&planned["dry_run"], &planned["kept"]), (&true.into(), &Value::Null));
    assert_eq!(snapshots(&world).len(), 1, "nothing is changed");
    compare(&world, 1, VOLUME, &is);
    let done = revert(&world, "a", &[]);
    for (name, expected) in [
        ("changed_bytes", 11 * MIB + (64 << 10) + 2 * BLOCK),
        ("written_bytes", 10 * MIB + 2 * BLOCK),
        ("zeroed_bytes", MIB + (64 << 10)),
        ("behind_bytes", MIB + BLOCK),
        ("size_bytes", 96 * MIB),
        ("snapshot_size_bytes", VOLUME_BYTES),
    ] {
        assert_eq!(figure(&planned, name), expected, "{name} of {planned}");
        assert_eq!(figure(&done, name), expected, "{name} of {done}");
    }
    assert_eq!(done["resumed"], false, "{done}");
    let before = kept(&done);
    let mut grown = was.clone();
    grown.resize(96 << 20, 0);
    compare(&world, 1, VOLUME, &grown);
    compare(&world, 2, &object, &was);
    compare(&world, 0, &format!("{VOLUME}@{before}"), &is);
    let listed = snapshots(&world);
    let label = &listed
        .iter()
        .find(|found| found["name"] == *before)
        .expect("it is listed")["labels"];
    assert_eq!(label["amita:revert"], "a", "{listed:?}");
    let shown = world.json(&["volume", "show", VOLUME]);
    assert!(shown["revert"].is_null(), "{shown}");
    assert_eq!(
        figure(&shown, "used_bytes"),
        21 * MIB,
        "what is cleared takes nothing: {shown}"
    );

    // Once more it is the same, and what it was before is to be had too.
    let again = revert(&world, "a", &["--no-snapshot"]);
    assert!(again["kept"].is_null(), "{again}");
    compare(&world, 0, VOLUME, &grown);
    let back = revert(&world, &before, &["--no-snapshot"]);
    assert_eq!(figure(&back, "behind_bytes"), 0, "{back}");
    compare(&world, 2, VOLUME, &is);
    world.end(&[]);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let world = World::with_volume();
    let mut client = world.open(0);
    let mut content = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut content, 0, &pattern(1, 1 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    write(&mut client, &mut content, 0, &pattern(2, 1 << 20));
    client.close();
    let object = format!("{VOLUME}@a");
    let refused = |arguments: &[&str], code: i32, says: &str| {
        let refused = amita(&world, &[&["volume", "revert"], arguments].concat());
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {}", refused.text);
        assert!(refused.text.contains(says), "{arguments:?}: {}", refused.text);
    };
    refused(&[VOLUME], 2, "VOLUME@SNAPSHOT");
    refused(&["@a"], 2, "VOLUME@SNAPSHOT");
    refused(&[&format!("{object}@a")], 2, "VOLUME@SNAPSHOT");
    refused(&[&format!("{VOLUME}@none")], 4, "none");
    refused(&["none@a"], 4, "none");
    // An operator reads and writes nothing.
    let operator = world.amita(&["volume", "revert", &object]);
    assert_eq!(operator.status.code(), Some(2), "{}", operator.text);
    assert!(operator.text.contains("--client-identity"), "{}", operator.text);

    world.amita_done(&["volume", "protect", VOLUME]);
    refused(&[&object, "--no-snapshot"], 5, "is protected");
    world.amita_done(&["volume", "protect", VOLUME, "--off"]);
    world.cluster.offer_by_nvme(VOLUME).expect("a namespace");
    refused(&[&object], 5, "is namespace 1");
    world.amita_done(&["namespace", "remove", VOLUME, "1"]);
    world.amita_done(&["nbd", "unexport", VOLUME]);
    world.amita_done(&["nbd", "export", VOLUME, "--any-client", "--read-only"]);
    refused(&[&object], 5, "for reading only");
    assert_eq!(snapshots(&world).len(), 1, "none was taken");
    compare(&world, 1, VOLUME, &content);
    world.amita_done(&["nbd", "unexport", VOLUME]);
    world.amita_done(&["volume", "delete", VOLUME, "--force"]);
    refused(&[&object], 5, "recycle bin");
    world.end(&[]);
}

/// The command, on its way.
fn started(world: &World, object: &str) -> Process {
    let (operator, gateway) = (world.operator(), world.identity(Role::Gateway, "copier"));
    let gateway = gateway.expect("a cluster whose nodes prove who they are");
    let arguments = [
        "volume",
        "revert",
        object,
        "--metadata",
        world.cluster.endpoint(),
        "--identity",
        &operator,
        "--client-identity",
        &gateway,
    ];
    tool::start(world.folder(), binary(), arguments).expect("it starts")
}

/// Is the volume marked as one that is being reverted?
fn has_mark(world: &World) -> bool {
    let meta = world.cluster.metadata_client().expect("the metadata");
    let id = admin::volume(&meta, VOLUME).expect("the volume").id;
    let about = admin::about(&meta, id).expect("what is known of it");
    about.revert.is_some()
}

/// The command, when it has begun to write.
fn begun(world: &World, object: &str) -> Process {
    let meta = world.cluster.metadata_client().expect("the metadata");
    let id = admin::volume(&meta, VOLUME).expect("the volume").id;
    let until = Instant::now() + PATIENCE;
    let mut process = started(world, object);
    while admin::about(&meta, id).expect("what is known of it").revert.is_none() {
        if process.ended().expect("it can be asked").is_some() {
            // Who had the volume a moment ago may not have left yet.
            let words = process.last_words();
            assert!(words.contains("in use through"), "it ended: {words}");
            process = started(world, object);
        }
        assert!(Instant::now() < until, "it does not begin: {}", process.last_words());
        std::thread::sleep(Duration::from_millis(1));
    }
    process
}

/// Starts the command, and kills it as soon as it has begun. Was it on its way then?
fn killed(world: &World, object: &str) -> bool {
    let mut process = begun(world, object);
    process.kill();
    has_mark(world)
}

#[test]
fn one_that_is_killed_says_so_and_is_ended_by_the_same_command() {
    let mut world = World::with_volume();
    let bytes = 56 << 20;
    let mut was = vec![0; VOLUME_BYTES as usize];
    let mut client = world.open(0);
    write(&mut client, &mut was, MIB, &pattern(1, bytes));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let mut is = was.clone();
    write(&mut client, &mut is, 2 * MIB, &pattern(2, bytes));
    client.close();
    let object = format!("{VOLUME}@a");
    // One that was too fast to be killed has reverted it, which is no harm: it is made what it was, and begun anew.
    let mut tries = 0;
    while !killed(&world, &object) {
        tries += 1;
        assert!(tries < 5, "it always ends before it is killed");
        let mut client = open(&world, 0, VOLUME);
        write(&mut client, &mut is, 2 * MIB, &pattern(2, bytes));
        client.close();
        for found in snapshots(&world).iter().filter(|found| found["name"] != "a") {
            let name = found["name"].as_str().expect("a name");
            world.amita_done(&["volume", "snapshot", "delete", VOLUME, name]);
        }
    }

    let shown = world.amita_done(&["volume", "show", VOLUME]);
    assert!(
        shown.contains(&format!("to a is not at its end: `amita volume revert {object}`")),
        "{shown}"
    );
    let status = world.json(&["status"]);
    let facts = status["facts"].as_array().expect("facts");
    let fact = facts.iter().find(|fact| fact["name"] == "revert-unfinished");
    assert_eq!(fact.expect("it is told")["objects"], serde_json::json!([VOLUME]));
    // What the end needs stays, and hosts do not get half of it.
    let kept_before: Vec<Value> = snapshots(&world);
    assert_eq!(kept_before.len(), 2, "{kept_before:?}");
    for found in &kept_before {
        let name = found["name"].as_str().expect("a name");
        let refused = world.amita(&["volume", "snapshot", "delete", VOLUME, name]);
        assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
        assert!(refused.text.contains("is not at its end"), "{}", refused.text);
    }
    world.amita_done(&["subsystem", "create", "s", "--any-host"]);
    let refused = world.amita(&["namespace", "add", "s", VOLUME]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("is not at its end"), "{}", refused.text);

    let done = revert(&world, "a", &[]);
    assert_eq!(done["resumed"], true, "{done}");
    let first = kept_before.iter().find(|found| found["name"] != "a");
    assert_eq!(
        first.expect("it was taken")["name"],
        *kept(&done),
        "no other one is taken"
    );
    compare(&world, 1, VOLUME, &was);
    compare(&world, 0, &format!("{VOLUME}@{}", kept(&done)), &is);
    let shown = world.json(&["volume", "show", VOLUME]);
    assert!(shown["revert"].is_null(), "{shown}");

    // A node that dies is no interruption.
    let mut client = open(&world, 0, VOLUME);
    write(&mut client, &mut was.clone(), 2 * MIB, &pattern(3, bytes));
    client.close();
    let mut process = begun(&world, &object);
    world.cluster.kill_node(2);
    let status = process.wait(PATIENCE).expect("it ends");
    assert!(status.success(), "{}", process.last_words());
    compare(&world, 1, VOLUME, &was);
    world.amita_done(&["volume", "snapshot", "delete", VOLUME, "a"]);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}
