//! Volumes are cloned from snapshots, written to, cloned again and deleted, while what they come from goes on and nodes fail.

use crate::healing::await_in_sync;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, World, stamped};
use amita_harness::nbd::Client;
use amita_identity::Role;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of a chunk: each of them is touched in a few places.
const CHUNK: u64 = 4 << 20;
const CHUNKS: u64 = 12;

/// Where something is written: three blocks of each chunk.
fn places() -> impl Iterator<Item = u64> {
    (0..CHUNKS).flat_map(|chunk| [0, 77, 1023].map(|block| chunk * CHUNK + block * 4096))
}

fn open(world: &World, node: usize, export: &str) -> Client {
    let until = Instant::now() + PATIENCE;
    loop {
        match Client::open(world.cluster.nodes()[node].nbd, export, PATIENCE) {
            // A client that was closed a moment ago may not have left its gateway yet.
            Err(why) if why.to_string().contains("in use through") && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened.unwrap_or_else(|why| panic!("{export} does not open: {why}")),
        }
    }
}

/// Writes this round to every place that is wanted.
fn write(client: &mut Client, round: u64, wanted: impl Fn(u64) -> bool) {
    for place in places().filter(|place| wanted(*place)) {
        client.write(place, &stamped(place, round)).expect("it is written");
    }
}

/// Every place must hold the round that is expected.
fn check(what: &str, client: &mut Client, round: impl Fn(u64) -> u64) {
    for place in places() {
        let mut found = vec![0; 4096];
        client.read(place, &mut found).expect("it is read");
        let expected = stamped(place, round(place));
        assert!(found == expected, "{what} at {place}: not round {}", round(place));
    }
}

fn in_chunk(place: u64, of: u64) -> bool {
    (place / CHUNK).is_multiple_of(of)
}

fn purge(world: &World, name: &str) {
    world.amita_done(&["volume", "delete", name, "--now", "--force"]);
}

#[test]
fn clones_share_what_they_come_from_and_go_their_own_way() {
    let mut world = World::with_volume();
    let mut origin = open(&world, 0, VOLUME);
    write(&mut origin, 1, |_| true);
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "first"]);
    let made = world.json(&[
        "volume",
        "clone",
        &format!("{VOLUME}@first"),
        "copy",
        "--label",
        "for=tests",
    ]);
    assert_eq!(
        (&made["size_bytes"], &made["parents"][0]["number"]),
        (&(64u64 << 20).into(), &1.into())
    );
    world.cluster.offer_by_nbd("copy").expect("it is exported");
    // The volume goes on meanwhile, also where nothing of the clone was read yet.
    write(&mut origin, 2, |place| !in_chunk(place, 3));
    let mut copy = open(&world, 1, "copy");
    check("the clone", &mut copy, |_| 1);
    write(&mut copy, 3, |place| in_chunk(place, 2));
    write(&mut origin, 4, |place| in_chunk(place, 2));
    let of_copy = |place| if in_chunk(place, 2) { 3 } else { 1 };
    let of_origin = |place| match (in_chunk(place, 2), in_chunk(place, 3)) {
        (true, _) => 4,
        (_, true) => 1,
        _ => 2,
    };
    check("the clone that was written to", &mut copy, of_copy);
    check("its origin", &mut origin, of_origin);
    check("the snapshot", &mut open(&world, 2, &format!("{VOLUME}@first")), |_| 1);

    // A clone of the clone, of which most chunks were never touched in between.
    world.amita_done(&["volume", "snapshot", "create", "copy", "second"]);
    world.amita_done(&["volume", "clone", "copy@second", "third"]);
    world.cluster.offer_by_nbd("third").expect("it is exported");
    write(&mut copy, 5, |_| true);
    let mut third = open(&world, 2, "third");
    write(&mut third, 6, |place| in_chunk(place, 5));
    let of_third = |place| if in_chunk(place, 5) { 6 } else { of_copy(place) };
    check("the clone of the clone", &mut third, of_third);

    let shown = world.json(&["volume", "show", "copy"]);
    assert_eq!(
        (&shown["parent"], &shown["clones"]),
        (&format!("{VOLUME}@first").into(), &1.into()),
        "{shown}"
    );
    assert_eq!(shown["labels"]["for"], "tests");
    let list = world.amita_done(&["volume", "list"]);
    assert!(list.contains("copy@second"), "{list}");
    assert_eq!(world.json(&["volume", "snapshot", "list", VOLUME])[0]["clones"], 1);

    // A node is away while they are written to; then it is one of the two that are left.
    for client in [origin, copy, third] {
        client.close();
    }
    world.cluster.kill_node(2);
    let mut copy = open(&world, 0, "copy");
    write(&mut copy, 7, |place| in_chunk(place, 4));
    world.amita_done(&["volume", "snapshot", "create", "copy", "away"]);
    world.amita_done(&["volume", "clone", "copy@away", "fourth"]);
    world.cluster.offer_by_nbd("fourth").expect("it is exported");
    let mut fourth = open(&world, 0, "fourth");
    write(&mut fourth, 8, |place| in_chunk(place, 6));
    write(&mut copy, 9, |_| true);
    copy.close();
    fourth.close();
    world.cluster.start_node(2).expect("it starts again");
    world.cluster.await_node(2).expect("it serves again");
    await_in_sync(&world);
    world.cluster.kill_node(0);
    check("the snapshot", &mut open(&world, 2, &format!("{VOLUME}@first")), |_| 1);
    check("the origin", &mut open(&world, 2, VOLUME), of_origin);
    check("the clone", &mut open(&world, 2, "copy"), |_| 9);
    check("the clone of the clone", &mut open(&world, 2, "third"), of_third);
    check(
        "the clone of when it was away",
        &mut open(&world, 2, "fourth"),
        |place| match (in_chunk(place, 6), in_chunk(place, 4)) {
            (true, _) => 8,
            (_, true) => 7,
            _ => 5,
        },
    );

    // From the last one on all of it goes.
    for name in ["third", "fourth"] {
        purge(&world, name);
    }
    for (volume, snapshot) in [("copy", "second"), ("copy", "away")] {
        world.amita_done(&["volume", "snapshot", "delete", volume, snapshot]);
    }
    purge(&world, "copy");
    world.amita_done(&["volume", "snapshot", "delete", VOLUME, "first"]);
    check("the origin, alone again", &mut open(&world, 1, VOLUME), of_origin);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

/// What clones need is hidden when it is deleted. Flattened ones need nothing, and all of it goes, also for a node that was away.
#[test]
fn what_clones_need_is_hidden_until_they_are_flat() {
    let mut world = World::with_volume();
    let mut origin = open(&world, 0, VOLUME);
    write(&mut origin, 1, |_| true);
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "first"]);
    let first = format!("{VOLUME}@first");
    world.amita_done(&["volume", "clone", &first, "copy"]);
    write(&mut origin, 2, |_| true);
    world.cluster.offer_by_nbd("copy").expect("it is exported");
    let mut copy = open(&world, 1, "copy");
    write(&mut copy, 3, |place| in_chunk(place, 4));
    let of_copy = |place| if in_chunk(place, 4) { 3 } else { 1 };
    world.amita_done(&["volume", "snapshot", "create", "copy", "second"]);
    world.amita_done(&["volume", "clone", "copy@second", "third"]);
    world.cluster.offer_by_nbd("third").expect("it is exported");

    // Deleted, and held.
    let hidden = world.amita_done(&["volume", "snapshot", "delete", VOLUME, "first"]);
    assert!(hidden.contains("hidden: it is held by a clone"), "{hidden}");
    assert_eq!(
        world.json(&["volume", "snapshot", "list", VOLUME]),
        serde_json::json!([])
    );
    let all = world.json(&["volume", "snapshot", "list", VOLUME, "--all"]);
    assert_eq!(
        (&all[0]["name"], &all[0]["hidden"]),
        (&"first".into(), &true.into()),
        "{all}"
    );
    let refused = world.amita(&["volume", "clone", &first, "late"]);
    assert!(refused.text.contains("there is no snapshot"), "{}", refused.text);
    let none = world.amita(&["volume", "flatten", VOLUME]);
    assert!(none.text.contains("it is no clone"), "{}", none.text);

    // Flat, while its host works and a node is away.
    world.cluster.kill_node(2);
    let flat = world.json(&["volume", "flatten", "copy"]);
    assert_eq!(
        (&flat["flat"], &flat["done_chunks"]),
        (&true.into(), &16.into()),
        "{flat}"
    );
    let shown = world.json(&["volume", "show", "copy"]);
    assert!(shown["parent"].is_null() && shown["flatten"].is_null(), "{shown}");
    assert_eq!(
        world.json(&["volume", "snapshot", "list", VOLUME, "--all"]),
        serde_json::json!([]),
        "the snapshot went with its last pin"
    );
    let parents = &world.json(&["volume", "show", "third"])["parents"];
    assert_eq!(parents.as_array().map(Vec::len), Some(1), "{parents}");
    check("the flat clone", &mut copy, of_copy);
    write(&mut copy, 5, |place| in_chunk(place, 3));
    let of_copy = |place| if in_chunk(place, 3) { 5 } else { of_copy(place) };
    origin.close();
    copy.close();
    world.amita_done(&["nbd", "unexport", VOLUME]);
    let gone = world.amita_done(&["volume", "delete", VOLUME, "--now"]);
    assert!(gone.contains("its space comes back by and by"), "{gone}");

    // Who was away has all of it, without what it came from.
    world.cluster.start_node(2).expect("it starts again");
    world.cluster.await_node(2).expect("it serves again");
    await_in_sync(&world);
    world.cluster.kill_node(0);
    check("the flat clone", &mut open(&world, 2, "copy"), of_copy);
    let of_third = |place| if in_chunk(place, 4) { 3 } else { 1 };
    check("its clone", &mut open(&world, 2, "third"), of_third);

    // A volume that is deleted for good waits for its clone, hidden.
    world.amita_done(&["nbd", "unexport", "copy"]);
    let hidden = world.amita_done(&["volume", "delete", "copy", "--now", "--snapshots", "--force"]);
    assert!(hidden.contains("held by a clone (third)"), "{hidden}");
    let kept = world.json(&["volume", "list", "--deleted"]);
    assert_eq!(
        (&kept[0]["name"], &kept[0]["clones"]),
        (&"copy".into(), &1.into()),
        "{kept}"
    );
    check("its clone", &mut open(&world, 2, "third"), of_third);
    world.amita_done(&["volume", "flatten", "third"]);
    let until = Instant::now() + PATIENCE;
    while world.json(&["volume", "list", "--deleted"]) != serde_json::json!([]) {
        assert!(Instant::now() < until, "it stays though nothing holds it");
        std::thread::sleep(Duration::from_millis(100));
    }
    check("the last one", &mut open(&world, 1, "third"), of_third);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn a_file_system_is_sound_in_its_clone() {
    let world = World::with_volume();
    let folder = world.file("files");
    std::fs::create_dir(&folder).expect("made");
    for number in 0..200u64 {
        std::fs::write(folder.join(format!("file{number}")), stamped(number, number)).expect("written");
    }
    let [image, back] = ["fs.img", "back.img"].map(|name| world.file(name));
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-d"])
        .arg(&folder)
        .arg(&image)
        .arg("24M")
        .output()
        .expect("mke2fs runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let identity = world.identity(Role::Gateway, "copier");
    let copies = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        if let Some(identity) = &identity {
            all.extend(["--client-identity", identity]);
        }
        world.amita_done(&all)
    };
    let [image, back] = [&image, &back].map(|path| path.to_str().expect("plain"));
    copies(&["volume", "import", image, "fs", "--pool", "demo"]);
    world.amita_done(&["volume", "snapshot", "create", "fs", "made"]);
    world.amita_done(&["volume", "clone", "fs@made", "fs-clone"]);
    copies(&["volume", "export", "fs-clone", back, "--force"]);
    world.done("e2fsck", &["-f", "-n", back]);
    let same = std::fs::read(image).expect("read") == std::fs::read(back).expect("read");
    assert!(same, "the clone is not what was imported");
    let refused = world.amita(&["volume", "clone", "fs", "other"]);
    assert!(refused.text.contains("VOLUME@SNAPSHOT"), "{}", refused.text);
    for (name, why) in [("fs@none", "there is no snapshot"), ("none@made", "there is no volume")] {
        let refused = world.amita(&["volume", "clone", name, "other"]);
        assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
        assert!(refused.text.contains(why), "{}", refused.text);
    }
    let twice = world.amita(&["volume", "clone", "fs@made", "fs-clone"]);
    assert_eq!(twice.status.code(), Some(5), "{}", twice.text);
    world.end(&[]);
}
