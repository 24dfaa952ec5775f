//! Volumes are copied to another pool while they are written to: the copy is exactly what its snapshots are, also where whoever makes it is killed; and
//! nothing is left of one that is taken back.

use crate::images::amita;
use crate::passes::{is_under_way, nothing_is_left, other_pool, who_is_at};
use crate::reverts::{compare, open, write};
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, VOLUME, VOLUME_BYTES, WRITES_WAIT, World, eventually, pattern};
use amita_control::admin;
use amita_types::VolumeId;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const COPY: &str = "copied";
/// Where one who writes 1, 2, 3, ... does so, block after block, and how many blocks there are.
const DIARY_AT: u64 = 48 << 20;
const PAGES: u64 = 32;

fn snapshot(world: &World, name: &str) {
    world.amita_done(&["volume", "snapshot", "create", VOLUME, name]);
}

fn is_copying(world: &World) -> bool {
    is_under_way(world, "copy")
}

/// What a diary's pages say: up to which entry they go, when nothing before is missing.
fn entries(world: &World, export: &str) -> u64 {
    let mut client = open(world, 0, export);
    let mut found = vec![0; (PAGES * BLOCK) as usize];
    client.read(DIARY_AT, &mut found).expect("it can be read");
    client.close();
    let pages: Vec<u64> = found
        .chunks(BLOCK as usize)
        .map(|page| {
            let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
            assert!(
                (0..BLOCK as usize).step_by(8).all(|at| word(at) == word(0)),
                "half a page"
            );
            word(0)
        })
        .collect();
    let last = *pages.iter().max().expect("pages");
    for (page, entry) in (0..PAGES).zip(&pages) {
        let newest = (last / PAGES * PAGES + page).checked_sub(if page > last % PAGES { PAGES } else { 0 });
        assert_eq!(*entry, newest.unwrap_or(0), "page {page} of {last} entries");
    }
    last
}

#[test]
fn a_copy_is_what_its_snapshots_are_while_others_write() {
    let world = World::with_volume();
    other_pool(&world);
    let mut client = open(&world, 0, VOLUME);
    let mut content = vec![0; VOLUME_BYTES as usize];
    write(
        &mut client,
        &mut content,
        3 * MIB + BLOCK,
        &pattern(1, 2 * MIB as usize),
    );
    write(&mut client, &mut content, 20 * MIB, &pattern(2, MIB as usize));
    snapshot(&world, "one");
    let one = content.clone();
    // Overwritten, unmapped, and new.
    write(
        &mut client,
        &mut content,
        4 * MIB - BLOCK,
        &pattern(3, 3 * BLOCK as usize),
    );
    write(&mut client, &mut content, 20 * MIB, &vec![0; MIB as usize / 2]);
    write(&mut client, &mut content, 40 * MIB, &pattern(4, 64 * BLOCK as usize));
    snapshot(&world, "two");
    let two = content.clone();
    let (written, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, told) = (Arc::clone(&written), Arc::clone(&ends));
    let writer = std::thread::spawn(move || {
        let mut entry = 0u64;
        while !told.load(Ordering::Relaxed) {
            entry += 1;
            let page = entry.to_le_bytes().repeat(BLOCK as usize / 8);
            client
                .write(DIARY_AT + entry % PAGES * BLOCK, &page)
                .expect("no client hears of a copy");
            count.store(entry, Ordering::SeqCst);
        }
        client.close();
    });
    eventually("the diary has been begun", || {
        written.load(Ordering::SeqCst) > 2 * PAGES
    });
    let before = written.load(Ordering::SeqCst);
    let said = world.json(&["volume", "copy", VOLUME, COPY, "--pool", "other", "--snapshots"]);
    assert_eq!((&said["whole"], &said["of"]), (&json!(true), &json!(VOLUME)), "{said}");
    let after = written.load(Ordering::SeqCst);
    eventually("it goes on being written", || written.load(Ordering::SeqCst) > after);
    ends.store(true, Ordering::Relaxed);
    writer.join().expect("every write was acknowledged");
    nothing_is_left(&world, "copy", &["one", "two"]);
    world.cluster.offer_by_nbd(COPY).expect("it is offered now");
    compare(&world, 1, &format!("{COPY}@one"), &one);
    compare(&world, 2, &format!("{COPY}@two"), &two);
    let last = entries(&world, COPY);
    assert!((before..=after + 1).contains(&last), "{last} of {before} to {after}");
    // All else of it is as it was when the diary was begun.
    let mut copy = open(&world, 0, COPY);
    let mut found = vec![0; DIARY_AT as usize];
    for (at, piece) in (0..).step_by(MIB as usize).zip(found.chunks_mut(MIB as usize)) {
        copy.read(at, piece).expect("it can be read");
    }
    copy.close();
    assert!(found == two[..DIARY_AT as usize], "the copy differs before the diary");
    let shown = world.json(&["volume", "show", COPY]);
    assert_eq!(shown["pool"], "other", "{shown}");
    let used = shown["used_bytes"].as_u64().expect("it was counted");
    assert!(used <= 4 * MIB, "holes stay holes: {used}");
    // What was changed between its snapshots is what was changed between the originals.
    let changed = |volume: &str| {
        let said = amita(&world, &["volume", "diff", &format!("{volume}@one"), "two", "--json"]);
        let text = said.success().expect("it is told").text;
        let extents: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("no JSON ({why}): {text}"));
        let bytes = |what: &str| extents[what].as_u64().expect("a number");
        // Zeros that were written are holes in the copy.
        bytes("data_bytes") + bytes("zero_bytes")
    };
    assert_eq!(changed(COPY), changed(VOLUME));
    world.end(&[]);
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn who_makes_a_copy_may_die_and_what_is_taken_back_leaves_nothing() {
    let mut world = World::with_volume();
    other_pool(&world);
    let mut client = open(&world, 0, VOLUME);
    let mut content = vec![0; VOLUME_BYTES as usize];
    for part in 0..6 {
        write(
            &mut client,
            &mut content,
            part * 9 * MIB,
            &pattern(part + 1, MIB as usize),
        );
    }
    client.close();
    // Slow enough to be killed on its way.
    let copy = |name: &str, rate: &str| {
        let said = world.json(&[
            "volume",
            "copy",
            VOLUME,
            name,
            "--pool",
            "other",
            "--limit-rate",
            rate,
            "--no-wait",
        ]);
        assert_eq!(said["whole"], json!(false), "{said}");
        VolumeId(said["id"].as_u64().expect("a number"))
    };
    let id = copy(COPY, "512K");
    assert!(is_copying(&world));
    let mut copying = None;
    eventually("somebody is at it", || {
        copying = who_is_at(&world, id);
        copying.is_some()
    });
    let first = copying.expect("somebody");
    let index = world
        .cluster
        .nodes()
        .iter()
        .position(|node| node.name == first)
        .expect("a node");
    world.cluster.kill_node(index);
    eventually("another node is at it, or has made it", || {
        match who_is_at(&world, id) {
            Some(now) => now != first,
            None => !is_copying(&world),
        }
    });
    // The pool has two copies, and writes to neither where one is away.
    world.cluster.start_node(index).expect("it starts");
    world.cluster.await_node(index).expect("it serves");
    eventually("it is made", || !is_copying(&world));
    nothing_is_left(&world, "copy", &[]);
    world.cluster.offer_by_nbd(COPY).expect("it is offered");
    compare(&world, index, COPY, &content);

    let said = world.json(&[
        "volume",
        "copy",
        VOLUME,
        "never",
        "--pool",
        "other",
        "--limit-rate",
        "64K",
        "--no-wait",
    ]);
    let job = said["job"].as_str().expect("a job").to_owned();
    let paused = world.json(&["job", "pause", &job]);
    assert_eq!(paused["state"], "paused", "{paused}");
    let id = VolumeId(said["id"].as_u64().expect("a number"));
    eventually("nobody is at what is paused", || who_is_at(&world, id).is_none());
    let refused = world.amita(&["nbd", "export", "never", "--any-client"]);
    assert!(refused.text.contains("is being made a copy"), "{}", refused.text);
    let refused = amita(&world, &["volume", "export", "never", "-"]);
    assert!(refused.text.contains("is being made a copy"), "{}", refused.text);
    world.amita_done(&["job", "cancel", &job]);
    eventually("it is removed", || !is_copying(&world));
    nothing_is_left(&world, "copy", &[]);
    let meta = world.cluster.metadata_client().expect("the metadata");
    assert!(admin::volume(&meta, "never").is_err());
    let deleted = world.json(&["volume", "list", "--deleted"]);
    assert_eq!(deleted, json!([]), "it is gone for good");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat());
}

#[test]
fn a_copy_that_has_no_room_waits_for_it() {
    let world = World::of_size(3, 96 * MIB);
    other_pool(&world);
    let mut client = open(&world, 0, VOLUME);
    let mut content = vec![0; VOLUME_BYTES as usize];
    for part in 0..24 {
        write(&mut client, &mut content, part * MIB, &pattern(part + 1, MIB as usize));
    }
    client.close();
    world.amita_done(&["volume", "create", "filler", "--pool", "other", "--size", "128M"]);
    world.cluster.offer_by_nbd("filler").expect("it is offered");
    let mut filler = open(&world, 0, "filler");
    let mut at = 0;
    // Until a store is full, wherever the chunks lie: less than that may leave room for all of the copy.
    while at < 128 * MIB && filler.write(at, &pattern(at, MIB as usize)).is_ok() {
        at += MIB;
    }
    assert!(at < 128 * MIB, "more than the stores have");
    filler.close();
    let said = world.json(&["volume", "copy", VOLUME, COPY, "--pool", "other", "--no-wait"]);
    let job = said["job"].as_str().expect("a job").to_owned();
    eventually("it says that there is no room", || {
        let shown = world.json(&["job", "show", &job]);
        shown["state"] == "stalled" && shown["ails"].as_str().is_some_and(|ails| ails.contains("space"))
    });
    world.amita_done(&["nbd", "unexport", "filler"]);
    world.amita_done(&["volume", "delete", "filler", "--now"]);
    eventually("it goes on by itself", || !is_copying(&world));
    nothing_is_left(&world, "copy", &[]);
    world.cluster.offer_by_nbd(COPY).expect("it is offered");
    compare(&world, 1, COPY, &content);
    world.end(&["is full", "near full", "nearly full", "no space", "has got over"]);
}
