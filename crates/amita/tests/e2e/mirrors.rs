//! Volumes are mirrored from one cluster to another one: what is there is there point by point, goes over and back with nothing lost, and where it
//! went over by force both sides of the split are had until somebody has decided.

mod ends;
mod fire;

use crate::images::amita;
use crate::reverts::{compare, open, write};
use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, STORE_BYTES, VOLUME, WRITES_WAIT, World, config, eventually, pattern,
    scratch,
};
use amita_harness::cluster::{Cluster, Metadata};
use amita_harness::nbd::Client;
use amita_harness::{ports, tool};
use amita_keys::SealKey;
use amita_metadata::Call;
use amita_types::map;
use serde_json::{Value, json};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const MIRRORED: &str = "db";
const BYTES: u64 = 24 * MIB;
const MIRROR: &str = "dr";
/// What nodes say of volumes that are closed to hosts, and of an end that is not there.
const CLOSED: &[&str] = &["mirror", "closed"];
/// What a volume answers that is served no more (NBD, "Error values").
const ESHUTDOWN: i32 = 108;

/// A cluster, and the file of its sealing key. Where it has one node, that has the same address for as long as the test runs.
fn cluster(nodes: usize) -> (World, String) {
    let scratch = scratch(nodes as u64 * STORE_BYTES);
    let seal = scratch.folder().join("seal.key");
    SealKey::generate().save(&seal).expect("saved");
    let seal = seal.display().to_string();
    let mut config = config(&scratch, nodes, Metadata::Embedded);
    config.serve_arguments = vec!["--seal-key".to_owned(), seal.clone()];
    if nodes == 1 {
        let api = format!("127.0.0.1:{}", ports::free());
        config.serve_arguments.extend(["--api".to_owned(), api]);
    }
    (World::made(Cluster::start(config), scratch), seal)
}

/// Two clusters. The near one has a volume that is to be mirrored.
struct Pair {
    near: World,
    near_seal: String,
    far: World,
    far_seal: String,
}

impl Pair {
    fn of(near: usize, far: usize) -> Pair {
        let ((near, near_seal), (far, far_seal)) = (cluster(near), cluster(far));
        let bytes = BYTES.to_string();
        near.amita_done(&["volume", "create", MIRRORED, "--pool", "demo", "--size", &bytes]);
        near.cluster.offer_by_nbd(MIRRORED).expect("it is offered");
        Pair {
            near,
            near_seal,
            far,
            far_seal,
        }
    }

    fn file(&self) -> String {
        self.near.file("dr.join").display().to_string()
    }

    fn add(&self) {
        let file = self.file();
        let add = ["mirror", "add", MIRROR, MIRRORED, "--bootstrap", &file];
        self.near.amita_done(&[&add[..], &["--interval", "10s"]].concat());
    }

    fn join(&self, more: &[&str]) -> tool::Output {
        self.join_by(&self.file(), more)
    }

    fn join_by(&self, file: &str, more: &[&str]) -> tool::Output {
        let join = ["mirror", "join", file, "--pool", "demo", "--interval", "10s"];
        self.far
            .amita(&[&join[..], &["--seal-key", &self.far_seal], more].concat())
    }

    /// Both halves.
    fn joined(&self, more: &[&str]) {
        self.add();
        self.join(more).success().expect("it joins");
        self.far
            .cluster
            .offer_by_nbd(MIRRORED)
            .expect("what is closed is offered");
    }
}

fn mirror(world: &World) -> Value {
    world.json(&["mirror", "show", MIRROR])
}

fn role(world: &World) -> Value {
    mirror(world)["role"].clone()
}

/// The point that an end is at.
fn point(world: &World) -> Option<String> {
    mirror(world)["point"].as_str().map(str::to_owned)
}

fn has_fact(world: &World, name: &str) -> bool {
    let facts = world.json(&["status"])["facts"].clone();
    let mut facts = facts.as_array().expect("facts").iter();
    facts.any(|fact| fact["name"] == name && fact["objects"][0] == MIRROR)
}

/// A test fail-over: the volume as the end's point has it, byte by byte, by a clone that is thrown away.
fn compare_point(world: &World, content: &[u8]) {
    let shown = mirror(world);
    let at = shown["point"].as_str().expect("a point");
    let mut points = shown["points"].as_array().expect("points").iter();
    let snapshots = points.find(|point| point["name"] == at).expect("it is there")["snapshots"].clone();
    compare_snapshot(world, snapshots.as_str().expect("a name"), content);
}

fn compare_snapshot(world: &World, snapshot: &str, content: &[u8]) {
    let of = format!("{MIRRORED}@{snapshot}");
    world.amita_done(&["volume", "clone", &of, "test"]);
    world.cluster.offer_by_nbd("test").expect("it is offered");
    compare(world, 0, "test", content);
    world.amita_done(&["nbd", "unexport", "test"]);
    eventually("it is let go of", || {
        world
            .amita(&["volume", "delete", "test", "--now", "--force"])
            .status
            .success()
    });
}

/// Waits until an end is at a point that is a later one than `before`.
fn await_later(world: &World, before: &Option<String>) -> Option<String> {
    let number = |point: &Option<String>| {
        let found = point.as_ref().and_then(|point| point.split_once('-'));
        found.map_or(0, |(_, number)| number.parse::<u64>().expect("a number"))
    };
    let mut now = None;
    eventually("a later point has arrived", || {
        now = point(world);
        number(&now) > number(before)
    });
    now
}

/// Waits for a point that was cut when all of this had been written: the second one from now on.
fn await_all(world: &World) -> Option<String> {
    let next = await_later(world, &point(world));
    await_later(world, &next)
}

/// Hosts are refused, because the volume is closed to them: by the connection, which says so, or by what they write, with the error of a volume that is
/// served no more. What was in its way a moment ago may be told first.
fn is_refused(world: &World) {
    eventually("hosts are refused, and told why", || {
        let opened = Client::open(world.cluster.nodes()[0].nbd, MIRRORED, Duration::from_secs(20));
        match opened {
            Err(why) => why.to_string().contains("closed to hosts"),
            Ok(mut client) => {
                let written = client.write(0, &[1; 4096]);
                let why = written.expect_err("it is closed to hosts");
                why.raw_os_error() == Some(ESHUTDOWN)
            }
        }
    });
}

/// Opens the volume for a host, as soon as it is let in.
fn let_in(world: &World) -> Client {
    let mut client = None;
    eventually("hosts are let in", || {
        let opened = Client::open(world.cluster.nodes()[0].nbd, MIRRORED, PATIENCE);
        client = opened.ok();
        client.is_some()
    });
    client.expect("it is open")
}

#[test]
fn what_is_written_here_is_there_and_goes_over_and_back_with_nothing_lost() {
    let pair = Pair::of(1, 1);
    let (near, far) = (&pair.near, &pair.far);
    let mut client = open(near, 0, MIRRORED);
    let mut content = vec![0; BYTES as usize];
    write(&mut client, &mut content, MIB, &pattern(1, 3 * MIB as usize));
    write(&mut client, &mut content, 20 * MIB, &pattern(2, MIB as usize));
    pair.joined(&[]);
    let first = await_later(far, &None);
    compare_point(far, &content);
    is_refused(far);
    assert_eq!((role(near), role(far)), (json!("primary"), json!("secondary")));
    // What closes the volume is the mirror's, and nobody else takes snapshots or makes it larger.
    let refused = far.amita(&["volume", "resize", MIRRORED, "--size", "64M"]);
    assert!(
        refused.text.contains(MIRROR) && !refused.status.success(),
        "{}",
        refused.text
    );

    // A little is written: it is what travels, at a rate that lets it be seen.
    far.amita_done(&["mirror", "set", MIRROR, "--limit-rate", "64K"]);
    write(&mut client, &mut content, 9 * MIB, &pattern(3, MIB as usize));
    let (mut brought, mut base) = (0, Value::Null);
    eventually("it has been brought", || {
        let shown = mirror(far);
        let volume = &shown["pass"]["volumes"][0];
        if let Some(bytes) = volume["written_bytes"].as_u64().filter(|bytes| *bytes > brought) {
            (brought, base) = (bytes, shown["pass"]["base"].clone());
        }
        brought > 0 && shown["point"] != json!(first)
    });
    assert!(brought <= 2 * MIB, "{brought} bytes were brought for 1 MiB");
    assert!(base.is_string(), "it is compared with the point before");
    far.amita_done(&["mirror", "set", MIRROR, "--limit-rate", "0"]);
    await_all(far);
    compare_point(far, &content);

    // Over, in order. Who uses a volume is named.
    write(&mut client, &mut content, 5 * MIB, &pattern(4, MIB as usize / 2));
    let refused = near.amita(&["mirror", "demote", MIRROR]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(
        refused.text.contains(&format!("{MIRRORED} is in use at node")),
        "{}",
        refused.text
    );
    let refused = far.amita(&["mirror", "promote", MIRROR]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    for more in [&["--seal-key", pair.far_seal.as_str()][..], &[]] {
        // Who has no key goes by what was seen a moment ago.
        let refused = far.amita(&[&["mirror", "promote", MIRROR, "--force", "--yes"], more].concat());
        assert!(refused.text.contains("answers"), "{}", refused.text);
        assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    }
    let demoted = near.json(&["mirror", "demote", MIRROR, "--force"]);
    assert_eq!(demoted["handed"], json!(true), "{demoted}");
    assert!(
        client.write(0, &[1; 4096]).is_err(),
        "a host that is connected is refused"
    );
    drop(client);
    is_refused(near);
    let promoted = far.json(&["mirror", "promote", MIRROR]);
    assert_eq!(promoted["role"], "primary", "{promoted}");
    compare(far, 0, MIRRORED, &content);
    let mut client = let_in(far);
    write(&mut client, &mut content, 13 * MIB, &pattern(5, MIB as usize));
    // The end of before follows by itself.
    eventually("it follows", || {
        role(near) == "secondary" && mirror(near)["handed"] == json!(false)
    });
    await_all(near);
    compare_point(near, &content);

    // A demotion is taken back where the other end was not promoted by it.
    far.amita_done(&["mirror", "demote", MIRROR, "--force"]);
    drop(client);
    let back = far.json(&["mirror", "promote", MIRROR, "--seal-key", &pair.far_seal]);
    assert_eq!(back["role"], "primary", "{back}");
    compare(far, 0, MIRRORED, &content);
    let refused = near.amita(&["mirror", "promote", MIRROR]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);

    // And back.
    far.amita_done(&["mirror", "demote", MIRROR, "--force"]);
    near.amita_done(&["mirror", "promote", MIRROR]);
    compare(near, 0, MIRRORED, &content);
    eventually("the other end follows again", || {
        role(far) == "secondary" && mirror(far)["handed"] == json!(false)
    });
    // It ends where it began.
    let refused = near.amita(&["mirror", "remove", MIRROR, "--delete", "--yes"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    near.amita_done(&["mirror", "remove", MIRROR, "--yes"]);
    assert_eq!(near.amita(&["mirror", "show", MIRROR]).status.code(), Some(4));
    assert_eq!(
        near.json(&["token", "list"]),
        json!([]),
        "its token is good for nothing"
    );
    compare(near, 0, MIRRORED, &content);
    let Pair { near, far, .. } = pair;
    near.end(CLOSED);
    far.end(CLOSED);
}

#[test]
fn by_force_both_sides_of_a_split_are_had_until_somebody_decides() {
    let mut pair = Pair::of(1, 1);
    let mut client = open(&pair.near, 0, MIRRORED);
    let mut common = vec![0; BYTES as usize];
    write(&mut client, &mut common, 2 * MIB, &pattern(1, 2 * MIB as usize));
    pair.joined(&[]);
    await_later(&pair.far, &None);
    // From now on nothing is brought.
    pair.far.amita_done(&["mirror", "pause", MIRROR]);
    let mut here = common.clone();
    write(&mut client, &mut here, 3 * MIB, &pattern(2, MIB as usize));
    drop(client);
    pair.near.cluster.kill_node(0);
    let at = point(&pair.far);
    let promote = ["mirror", "promote", MIRROR, "--force", "--seal-key", &pair.far_seal];
    let promoted = pair.far.json(&promote);
    assert_eq!(
        (&promoted["role"], &promoted["split"]),
        (&json!("primary"), &json!(true))
    );
    assert!(has_fact(&pair.far, "mirror-split"));
    compare(&pair.far, 0, MIRRORED, &common);
    let mut there = common.clone();
    let mut client = let_in(&pair.far);
    write(&mut client, &mut there, 7 * MIB, &pattern(3, MIB as usize));
    pair.far.amita_done(&["mirror", "resume", MIRROR]);

    // It comes back, and asks before it serves: no write of a host is taken beside the other end.
    pair.near.cluster.start_node(0).expect("it starts");
    pair.near.cluster.await_node(0).expect("it serves");
    let (near, far) = (&pair.near, &pair.far);
    assert_eq!(role(near), "deposed");
    let opened = Client::open(near.cluster.nodes()[0].nbd, MIRRORED, PATIENCE);
    assert!(opened.is_err_and(|why| why.to_string().contains("closed to hosts")));
    eventually("and says so", || has_fact(near, "mirror-deposed"));
    is_refused(near);
    let would = near.json(&["mirror", "resync", MIRROR, "--dry-run"]);
    assert_eq!(
        (&would["common"], &would["dry_run"]),
        (&json!(at), &json!(true)),
        "{would}"
    );
    assert_eq!(role(near), "deposed", "nothing was changed");
    let resynced = near.json(&["mirror", "resync", MIRROR]);
    assert_eq!(resynced["mirror"]["role"], "secondary", "{resynced}");
    await_all(near);
    compare_point(near, &there);
    // What was written there is had still.
    let listed = near.json(&["volume", "snapshot", "list", MIRRORED]);
    let mut names = listed
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|found| found["name"].as_str());
    let kept = names.find(|name| name.starts_with("before-revert-"));
    compare_snapshot(near, kept.expect("it was kept"), &here);
    eventually("the ends agree", || {
        !has_fact(far, "mirror-split") && !has_fact(near, "mirror-deposed")
    });
    client.close();
    let expected = [CLOSED, A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat();
    let Pair { near, far, .. } = pair;
    near.end(&expected);
    far.end(&expected);
}

/// The name of the node that is at the mirror; none: nobody is.
fn runner(world: &World) -> Option<String> {
    let meta = world.cluster.metadata_client().expect("the metadata");
    let reply = meta
        .txn(&Call::get(map::mirror_runner_key(MIRROR)))
        .expect("it answers");
    reply.value(0).map(|found| found.json().expect("a name"))
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn where_whoever_is_at_a_pass_is_killed_another_one_goes_on() {
    let mut pair = Pair::of(1, 3);
    let mut client = open(&pair.near, 0, MIRRORED);
    let mut content = vec![0; BYTES as usize];
    for part in 0..8 {
        write(
            &mut client,
            &mut content,
            part * 3 * MIB,
            &pattern(part + 1, MIB as usize),
        );
    }
    client.close();
    // At 128 KiB a second it takes a minute.
    pair.joined(&["--limit-rate", "128K"]);
    let brought = |world: &World| mirror(world)["pass"]["volumes"][0]["written_bytes"].as_u64();
    eventually("something was brought", || {
        brought(&pair.far).is_some_and(|bytes| bytes > 0)
    });
    let first = runner(&pair.far).expect("somebody is at it");
    let mut nodes = pair.far.cluster.nodes().iter();
    let index = nodes.position(|node| node.name == first).expect("a node");
    pair.far.cluster.kill_node(index);
    eventually("another node is at it", || {
        runner(&pair.far).is_some_and(|now| now != first)
    });
    pair.far.cluster.start_node(index).expect("it starts");
    pair.far.cluster.await_node(index).expect("it serves");
    pair.far.amita_done(&["mirror", "set", MIRROR, "--limit-rate", "0"]);
    await_later(&pair.far, &None);
    compare_point(&pair.far, &content);
    let expected = [CLOSED, A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat();
    let Pair { near, far, .. } = pair;
    near.end(&expected);
    far.end(&expected);
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_volume_that_an_operator_reverts_is_brought_whole_and_the_mirror_goes_on() {
    let pair = Pair::of(1, 1);
    let (near, far) = (&pair.near, &pair.far);
    let mut client = open(near, 0, MIRRORED);
    let mut before = vec![0; BYTES as usize];
    write(&mut client, &mut before, 2 * MIB, &pattern(1, 2 * MIB as usize));
    client.close();
    near.amita_done(&["volume", "snapshot", "create", MIRRORED, "good"]);
    let mut client = open(near, 0, MIRRORED);
    let mut bad = before.clone();
    write(&mut client, &mut bad, 9 * MIB, &pattern(2, MIB as usize));
    client.close();
    pair.joined(&[]);
    await_all(far);
    compare_point(far, &bad);
    let good = format!("{MIRRORED}@good");
    eventually("it is reverted", || {
        let said = amita(near, &["volume", "revert", &good]);
        assert!(said.status.success() || said.text.contains("in use"), "{}", said.text);
        said.status.success()
    });
    // What was written since is zeros again, also where it was brought.
    await_all(far);
    compare_point(far, &before);
    assert!(!has_fact(far, "mirror-stalled"));
    let Pair { near, far, .. } = pair;
    near.end(CLOSED);
    far.end(CLOSED);
}

/// The far end becomes as small, and as large again, with zeros where the end was cut off; and an end that is demoted when its volume has become smaller
/// hands that over.
#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_volume_that_becomes_smaller_does_so_at_both_ends_and_grows_again() {
    let pair = Pair::of(1, 1);
    let (near, far) = (&pair.near, &pair.far);
    let mut client = open(near, 0, MIRRORED);
    let mut content = vec![0; BYTES as usize];
    for (at, seed) in [(2, 1), (8, 2), (20, 3)] {
        write(&mut client, &mut content, at * MIB, &pattern(seed, 2 * MIB as usize));
    }
    client.close();
    pair.joined(&[]);
    await_all(far);
    compare_point(far, &content);
    // In the midst of a chunk.
    let small = 9 * MIB + 4096;
    let shrink = || {
        eventually("it is made smaller", || {
            let size = small.to_string();
            let said = amita(near, &["volume", "resize", MIRRORED, "--size", &size, "--shrink"]);
            assert!(said.status.success() || said.text.contains("in use"), "{}", said.text);
            said.status.success()
        });
    };
    let is_small = || far.json(&["volume", "show", MIRRORED])["size_bytes"] == small;
    shrink();
    await_all(far);
    eventually("it is as small at the far end", is_small);
    compare_point(far, &content[..small as usize]);
    content[small as usize..].fill(0);
    near.amita_done(&["volume", "resize", MIRRORED, "--size", &BYTES.to_string()]);
    let mut client = open(near, 0, MIRRORED);
    write(&mut client, &mut content, 22 * MIB, &pattern(4, MIB as usize));
    client.close();
    await_all(far);
    compare_point(far, &content);
    shrink();
    near.amita_done(&["mirror", "demote", MIRROR, "--force"]);
    far.amita_done(&["mirror", "promote", MIRROR]);
    assert!(is_small());
    compare(far, 0, MIRRORED, &content[..small as usize]);
    far.amita_done(&["volume", "resize", MIRRORED, "--size", &BYTES.to_string()]);
    content[small as usize..].fill(0);
    compare(far, 0, MIRRORED, &content);
    let Pair { near, far, .. } = pair;
    near.end(CLOSED);
    far.end(CLOSED);
}

#[test]
fn what_cannot_be_is_refused_and_done_by_halves_it_is_gone_on_with() {
    let pair = Pair::of(1, 1);
    let refused = |said: &tool::Output, code: i32, part: &str| {
        assert_eq!(said.status.code(), Some(code), "{part}: {}", said.text);
        assert!(said.text.contains(part), "{part}: {}", said.text);
    };
    let near = |arguments: &[&str]| pair.near.amita(arguments);
    refused(&near(&["mirror", "add", MIRROR, "none"]), 4, "none");
    refused(
        &near(&["mirror", "add", MIRROR, MIRRORED, "--interval", "5s"]),
        2,
        "10 s are the least",
    );
    refused(&near(&["mirror", "add", MIRROR, MIRRORED, MIRRORED]), 2, "named twice");
    refused(&near(&["mirror", "show", "none"]), 4, "none");
    refused(&near(&["mirror", "set", "none"]), 2, "nothing is to be changed");
    pair.add();
    let file = pair.file();
    refused(
        &near(&["mirror", "add", "again", VOLUME, "--bootstrap", &file]),
        5,
        "there already",
    );
    assert_eq!(
        pair.near.json(&["mirror", "list"]).as_array().map(Vec::len),
        Some(1),
        "nothing came of it"
    );
    refused(&near(&["mirror", "add", "again", MIRRORED]), 2, MIRROR);
    refused(
        &near(&["mirror", "join", &file, "--pool", "demo", "--seal-key", &pair.near_seal]),
        2,
        "of this cluster",
    );

    // Files that are none, or whose token is another one's.
    let text = std::fs::read_to_string(&file).expect("the file");
    let made: Value = serde_json::from_str(&text).expect("JSON");
    let written = |name: &str, text: &str| {
        let path = pair.far.file(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    refused(&pair.join_by(&written("none", "{}"), &[]), 2, "no version");
    let token = pair.near.json(&["token", "create", "other", "--role", "admin"]);
    let other = Value::Object(
        made.as_object()
            .expect("an object")
            .iter()
            .map(|(key, value)| match key.as_str() {
                "token" => (key.clone(), token["secret"].clone()),
                _ => (key.clone(), value.clone()),
            })
            .collect(),
    );
    refused(
        &pair.join_by(&written("token", &other.to_string()), &[]),
        1,
        "the other end answers 403",
    );
    let join = ["mirror", "join", &file, "--pool", "demo"];
    refused(&pair.far.amita(&join), 2, "sealing key");
    refused(&pair.join(&["--name", "a/b"]), 2, "a/b");
    // A name that is taken: of the volume, and of the mirror.
    pair.far
        .amita_done(&["volume", "create", MIRRORED, "--pool", "demo", "--size", "8M"]);
    refused(&pair.join(&[]), 5, MIRRORED);
    pair.far.amita_done(&["volume", "delete", MIRRORED, "--now"]);
    // A pool that may not hold so much; and when it may, it is gone on with.
    let least = (64 * MIB).to_string();
    pair.far.amita_done(&["pool", "quota", "demo", "--provisioned", &least]);
    refused(&pair.join(&[]), 5, "demo");
    let halves = mirror(&pair.far);
    assert_eq!(
        (&halves["volumes"], halves["paused"].is_object()),
        (&json!([]), true),
        "{halves}"
    );
    pair.far.amita_done(&["pool", "quota", "demo", "--none"]);
    pair.join(&[]).success().expect("it goes on");
    // Who is an end already takes another token, and nothing else is changed: no pool has to be named.
    let token = pair.near.file("token.join").display().to_string();
    pair.near
        .amita_done(&["mirror", "token", MIRROR, "--bootstrap", &token]);
    refused(
        &near(&["mirror", "token", MIRROR, "--bootstrap", &token]),
        5,
        "there already",
    );
    refused(&pair.join_by(&token, &["--name", "other"]), 5, "that of the file");
    let before = mirror(&pair.far);
    let again = ["mirror", "join", &token, "--seal-key", &pair.far_seal];
    pair.far.amita_done(&again);
    let after = mirror(&pair.far);
    assert_eq!(
        (&before["volumes"], &before["epoch"]),
        (&after["volumes"], &after["epoch"])
    );
    refused(&pair.far.amita(&["volume", "delete", MIRRORED]), 5, MIRROR);
    refused(&pair.far.amita(&["mirror", "resync", MIRROR]), 5, "deposed");
    refused(&pair.far.amita(&["mirror", "demote", MIRROR]), 5, "primary");
    await_later(&pair.far, &None);
    let Pair { near, far, .. } = pair;
    near.end(CLOSED);
    far.end(CLOSED);
}
