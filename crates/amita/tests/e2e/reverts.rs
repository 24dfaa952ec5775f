//! Volumes are made what they were at a snapshot, at once: every byte, forth and back, in volumes that grew, and where the command was killed on
//! its way.

use crate::images::amita;
use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, eventually, pattern,
};
use amita_control::admin;
use amita_harness::nbd::{Client, NbdRequest};
use amita_harness::process::Process;
use amita_harness::tool;
use amita_identity::Role;
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A node that did not run for a second, as on a machine under load, drops its connections: another one is opened then.
fn is_dropped(why: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        why.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}

fn opened<T>(mut open: impl FnMut() -> io::Result<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match open() {
            // Who had it a moment ago may not have left yet.
            Err(why) if (is_dropped(&why) || why.to_string().contains("in use through")) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened.unwrap_or_else(|why| panic!("it does not open: {why}")),
        }
    }
}

pub fn open(world: &World, node: usize, export: &str) -> Client {
    opened(|| Client::open(world.cluster.nodes()[node].nbd, export, PATIENCE))
}

/// Writes to the volume, and to what is expected of it.
pub fn write(client: &mut Client, content: &mut [u8], offset: u64, bytes: &[u8]) {
    let until = Instant::now() + PATIENCE;
    for (at, piece) in (offset..).step_by(MIB as usize).zip(bytes.chunks(MIB as usize)) {
        // What became of the one before is unknown, and it was the same.
        while let Err(why) = client.write(at, piece) {
            assert!(is_dropped(&why) && Instant::now() < until, "it is not written: {why}");
            opened(|| client.reopen());
        }
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
    let until = Instant::now() + PATIENCE;
    for (at, expected) in (0..).step_by(MIB as usize).zip(content.chunks(MIB as usize)) {
        while let Err(why) = client.read(at, &mut found[..expected.len()]) {
            assert!(
                is_dropped(&why) && Instant::now() < until,
                "{export}: it is not read: {why}"
            );
            client = open(world, node, export);
        }
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
#[ignore = "as long as several others: scripts/soak runs it"]
fn every_byte_is_what_it_was_forth_and_back() {
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
    client.close();
    world.amita_done(&["volume", "label", VOLUME, "team=db"]);
    world.amita_done(&["volume", "resize", VOLUME, "--size", "96M"]);
    is.resize(96 << 20, 0);
    let mut client = open(&world, 0, VOLUME);
    write(&mut client, &mut is, 63 * MIB, &pattern(6, 2 << 20));

    let object = format!("{VOLUME}@a");
    let refused = amita(&world, &["volume", "revert", &object]);
    assert!(!refused.status.success(), "{}", refused.text);
    assert!(refused.text.contains("in use through"), "{}", refused.text);
    client.close();

    let planned = revert(&world, "a", &["--dry-run"]);
    assert_eq!((&planned["dry_run"], &planned["kept"]), (&true.into(), &Value::Null));
    assert_eq!(snapshots(&world).len(), 1, "nothing is changed");
    compare(&world, 1, VOLUME, &is);
    // One that reads the snapshot goes on.
    let mut reader = open(&world, 2, &object);
    let mut block = vec![0; BLOCK as usize];
    reader.read(0, &mut block).expect("it is read");

    let done = revert(&world, "a", &[]);
    assert_eq!(figure(&done, "size_bytes"), 96 * MIB, "{done}");
    assert_eq!(figure(&done, "snapshot_size_bytes"), VOLUME_BYTES, "{done}");
    assert_eq!(figure(&done, "levels"), 1, "{done}");
    let before = kept(&done);
    reader.read(40 * MIB, &mut block).expect("it is read still");
    assert_eq!(block, was[40 * MIB as usize..][..BLOCK as usize]);
    reader.close();
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
    assert_eq!(shown["labels"]["team"], "db", "{shown}");
    assert!(shown.get("parent").is_none(), "{shown}");
    assert_eq!(figure(&shown, "used_bytes"), 21 * MIB, "{shown}");
    assert_eq!(figure(&shown, "clones"), 0, "{shown}");

    // It is written to, and made what it was before; and again what it was then, each with all that is there.
    let mut client = open(&world, 0, VOLUME);
    let mut third = grown.clone();
    write(&mut client, &mut third, 7 * MIB, &pattern(8, 3 << 20));
    write(&mut client, &mut third, 90 * MIB, &pattern(9, 1 << 20));
    client.close();
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "c"]);
    let back = revert(&world, &before, &["--no-snapshot"]);
    assert!(back["kept"].is_null(), "{back}");
    compare(&world, 2, VOLUME, &is);
    let again = revert(&world, "c", &["--no-snapshot"]);
    assert_eq!(figure(&again, "levels"), 2, "{again}");
    compare(&world, 1, VOLUME, &third);
    compare(&world, 0, &object, &was);
    compare(&world, 2, &format!("{VOLUME}@{before}"), &is);
    let names: Vec<Value> = snapshots(&world).iter().map(|found| found["name"].clone()).collect();
    assert_eq!(names, ["a".into(), Value::from(before.clone()), "c".into()]);

    // A name is of one of them; and what differs across a revert nobody knows.
    let refused = world.amita(&["volume", "snapshot", "create", VOLUME, "a"]);
    assert!(refused.text.contains("exists"), "{}", refused.text);
    let refused = amita(&world, &["volume", "diff", &object, VOLUME]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(
        refused.text.contains("was reverted between a and now"),
        "{}",
        refused.text
    );

    // What was is copied and cloned as ever.
    let file = world.file("image").display().to_string();
    amita(&world, &["volume", "export", &object, &file])
        .success()
        .expect("exported");
    assert!(std::fs::read(&file).expect("an image") == was, "the image differs");
    world.amita_done(&["volume", "clone", &object, "copy"]);
    world.cluster.offer_by_nbd("copy").expect("it is exported");
    compare(&world, 1, "copy", &was);
    world.amita_done(&["volume", "snapshot", "protect", VOLUME, "a"]);
    world.amita_done(&["volume", "rename", VOLUME, "other"]);
    compare(&world, 0, "other", &third);
    compare(&world, 1, "other@a", &was);
    world.end(&[]);
}

fn held(world: &World) -> Option<u64> {
    world.json(&["pool", "show", "demo"])["held_bytes"].as_u64()
}

fn raw_used(world: &World) -> Option<u64> {
    let pool = world.json(&["pool", "show", "demo"]);
    (pool["all_stores_known"] == true)
        .then(|| pool["used_bytes"].as_u64())
        .flatten()
}

/// Deleted it has all with it, is had back with all, and leaves nothing when it is gone for good.
#[test]
fn all_of_it_goes_with_it_and_nothing_else_does() {
    let world = World::with_volume();
    eventually("stores tell how full they are", || raw_used(&world).is_some());
    let empty = raw_used(&world).expect("they do");
    let mut client = world.open(0);
    let mut was = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut was, 0, &pattern(1, 8 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let mut is = was.clone();
    write(&mut client, &mut is, 2 * MIB, &pattern(2, 3 << 20));
    client.close();
    assert_eq!(held(&world), Some(11 * MIB));
    let before = kept(&revert(&world, "a", &[]));
    assert_eq!(held(&world), Some(11 * MIB), "no block was written");
    let mut client = open(&world, 1, VOLUME);
    let mut third = was.clone();
    write(&mut client, &mut third, 5 * MIB, &pattern(3, 2 << 20));
    client.close();
    assert_eq!(held(&world), Some(13 * MIB));
    let shown = world.json(&["volume", "show", VOLUME]);
    assert_eq!(figure(&shown, "used_bytes"), 8 * MIB, "{shown}");
    assert_eq!(figure(&shown, "held_bytes"), 13 * MIB, "{shown}");
    let again = revert(&world, "a", &["--no-snapshot"]);
    assert!(again["kept"].is_null(), "{again}");
    eventually("what nothing needs goes by itself", || held(&world) == Some(11 * MIB));

    world.amita_done(&["volume", "delete", VOLUME, "--force"]);
    assert_eq!(held(&world), Some(11 * MIB));
    world.amita_done(&["volume", "undelete", VOLUME]);
    world.cluster.offer_by_nbd(VOLUME).expect("it is exported");
    compare(&world, 0, VOLUME, &was);
    compare(&world, 1, &format!("{VOLUME}@{before}"), &is);
    assert_eq!(snapshots(&world).len(), 2);

    // The last snapshot of what it was: what only that had comes back, and what the volume comes from stays.
    world.amita_done(&["volume", "snapshot", "delete", VOLUME, &before]);
    world.amita_done(&["volume", "snapshot", "delete", VOLUME, "a"]);
    compare(&world, 2, VOLUME, &was);
    world.amita_done(&["volume", "flatten", VOLUME]);
    eventually("the volume alone is left", || held(&world) == Some(8 * MIB));
    compare(&world, 1, VOLUME, &was);

    world.amita_done(&["volume", "snapshot", "create", VOLUME, "b"]);
    revert(&world, "b", &[]);
    world.amita_done(&["volume", "delete", VOLUME, "--now", "--snapshots", "--force"]);
    eventually("all of it is gone", || {
        held(&world) == Some(0)
            && world
                .json(&["volume", "list", "--deleted"])
                .as_array()
                .is_some_and(Vec::is_empty)
    });
    // But for pages of the stores' indexes.
    eventually("and its space is back", || {
        raw_used(&world).is_some_and(|now| now < empty + (256 << 10))
    });
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

#[test]
fn one_that_is_killed_has_done_all_or_nothing() {
    let world = World::with_volume();
    let mut was = vec![0; VOLUME_BYTES as usize];
    let mut client = world.open(0);
    write(&mut client, &mut was, MIB, &pattern(1, 4 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let mut is = was.clone();
    write(&mut client, &mut is, 2 * MIB, &pattern(2, 4 << 20));
    client.close();
    let object = format!("{VOLUME}@a");
    let meta = world.cluster.metadata_client().expect("the metadata");
    let first = admin::volume(&meta, VOLUME).expect("the volume").id;
    let mut reverted = 0;
    // Ever later: before it has the volume, when it has taken the snapshot, and afterwards.
    for pause in [0, 150, 300, 450, 600, 900, 1500] {
        let mut process = started(&world, &object);
        std::thread::sleep(Duration::from_millis(pause));
        process.kill();
        let now = admin::volume(&meta, VOLUME).expect("the volume").id;
        match now == first {
            true => compare(&world, 1, VOLUME, &is),
            false => {
                reverted += 1;
                compare(&world, 1, VOLUME, &was);
                break;
            }
        }
    }
    if reverted == 0 {
        revert(&world, "a", &[]);
    }
    compare(&world, 0, VOLUME, &was);
    let kept = snapshots(&world);
    let newest = kept.last().expect("some were taken")["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    assert!(newest.starts_with("before-revert-"), "{kept:?}");
    compare(&world, 2, &format!("{VOLUME}@{newest}"), &is);
    // A command is killed at any moment, while it connects as well; what it left of its lease runs out.
    world.end(&["was not let in", "no longer holds its lease"]);
}

/// A node is away while the volume is reverted, and written to; it comes back, and has all of it.
#[test]
fn a_node_that_was_away_has_all_of_it_again() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    let mut was = vec![0; VOLUME_BYTES as usize];
    write(&mut client, &mut was, 0, &pattern(1, 8 << 20));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "a"]);
    let mut is = was.clone();
    write(&mut client, &mut is, 2 * MIB, &pattern(2, 4 << 20));
    world.cluster.kill_node(2);
    write(&mut client, &mut is, 7 * MIB, &pattern(3, 2 << 20));
    client.close();
    let before = kept(&revert(&world, "a", &[]));
    let mut client = open(&world, 1, VOLUME);
    let mut third = was.clone();
    write(&mut client, &mut third, 4 * MIB, &pattern(4, 1 << 20));
    world.cluster.start_node(2).expect("it starts");
    eventually("it is in sync again", || {
        let pools = world.json(&["pool", "list"]);
        let counts = &pools[0]["group_counts"];
        counts["whole"] == pools[0]["groups"] && counts["syncing"] == 0
    });
    client.close();
    // Now from that one alone, and another one.
    world.cluster.kill_node(0);
    compare(&world, 2, VOLUME, &third);
    compare(&world, 1, &format!("{VOLUME}@a"), &was);
    compare(&world, 2, &format!("{VOLUME}@{before}"), &is);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}
