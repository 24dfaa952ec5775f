//! Snapshots are taken of a volume under load, while nodes are killed and come back; and all of them are read, at any node.

use crate::healing::await_in_sync;
use crate::load::Load;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, World};
use amita::nodes;
use amita_control::admin::{self, TakingState};
use amita_harness::nbd::Client;
use amita_metadata::{Call, Client as Metadata};
use amita_types::SnapshotId;
use amita_types::map::{self, Snapshot, SnapshotState};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where the diary lies, and how many blocks it has.
const DIARY_AT: u64 = 32 << 20;
const PAGES: u64 = 48;
const BLOCK: u64 = 4096;

/// A cluster that programs without snapshots have made.
fn as_before(meta: &Metadata) {
    let mut cluster = admin::cluster(meta).expect("the cluster's record");
    cluster.version = map::SNAPSHOTS_SINCE - 1;
    let value = serde_json::to_vec(&cluster).expect("plain data");
    amita_metadata::Transact::txn(meta, &Call::put(map::cluster_key(), value)).expect("the operator may");
}

fn take(meta: &Metadata, name: &str) -> (Snapshot, Duration) {
    let began = Instant::now();
    let labels = BTreeMap::from([("by".to_owned(), "a test".to_owned())]);
    let wish = admin::ask_snapshot(meta, VOLUME, name, labels, Duration::from_secs(1)).expect("it may be wished");
    loop {
        match admin::snapshot_state(meta, &wish).expect("the metadata answers") {
            TakingState::Taken(snapshot) => return (snapshot, began.elapsed()),
            TakingState::Waiting => std::thread::sleep(Duration::from_millis(1)),
            other => panic!("{name}: {other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{name} is not taken");
    }
}

/// One who writes 1, 2, 3, ... into one block after the other, round and round, each when the one before is acknowledged. So what
/// a snapshot has of it says up to which one it goes, and that nothing is missing before.
struct Diary {
    written: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    writer: JoinHandle<()>,
}

impl Diary {
    fn begin(gateway: SocketAddr) -> Diary {
        let mut client = Client::open(gateway, VOLUME, PATIENCE).expect("the volume opens");
        let (written, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, told) = (Arc::clone(&written), Arc::clone(&ends));
        let writer = std::thread::spawn(move || {
            let mut entry = 0u64;
            while !told.load(Ordering::Relaxed) {
                entry += 1;
                let page = entry.to_le_bytes().repeat(BLOCK as usize / 8);
                let at = DIARY_AT + entry % PAGES * BLOCK;
                client.write(at, &page).expect("it is written");
                count.store(entry, Ordering::SeqCst);
            }
            client.close();
        });
        Diary { written, ends, writer }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    fn finish(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.writer.join().expect("every write was acknowledged");
    }
}

/// What a snapshot has of the diary, read at a node: the entry on each page.
fn read(node: SocketAddr, name: &str) -> Vec<u64> {
    let mut client = Client::open(node, &format!("{VOLUME}@{name}"), PATIENCE).expect("the snapshot opens");
    let mut bytes = vec![0; (PAGES * BLOCK) as usize];
    for (page, bytes) in (0..).zip(bytes.chunks_exact_mut(BLOCK as usize)) {
        client.read(DIARY_AT + page * BLOCK, bytes).expect("it can be read");
    }
    client.close();
    let pages = bytes.chunks_exact(BLOCK as usize);
    pages
        .map(|page| {
            let entry = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
            assert_eq!(
                page,
                entry.to_le_bytes().repeat(BLOCK as usize / 8),
                "a page is of one entry"
            );
            entry
        })
        .collect()
}

/// It is the diary as it was when it ended with one of these entries.
fn check(name: &str, pages: &[u64], between: (u64, u64)) {
    let last = pages.iter().copied().max().unwrap_or(0);
    assert!(
        between.0 <= last && last <= between.1,
        "{name} goes up to entry {last}, and was taken between {between:?}"
    );
    for (page, &entry) in (0u64..).zip(pages) {
        // The newest entry of this page up to the last one.
        let back = (last + PAGES - page) % PAGES;
        let right = last.saturating_sub(back);
        assert_eq!(entry, right, "{name}: page {page} of a diary that ends with {last}");
    }
}

#[test]
fn snapshots_are_taken_and_read_under_load_and_while_nodes_fail() {
    let mut world = World::of(4);
    let gateway = world.cluster.add_gateway("gateway").expect("a gateway");
    let meta = world.cluster.metadata_client().expect("the metadata");
    as_before(&meta);
    let early = world.amita(&["volume", "snapshot", "create", VOLUME, "early"]);
    assert!(!early.status.success(), "older programs may be about");
    assert!(early.text.contains("version is 1"), "{}", early.text);
    assert_eq!(
        world.json(&["cluster", "version"])["nodes"]["n1"],
        map::METADATA_VERSION
    );
    world.amita_done(&["cluster", "finalize"]);

    // Nobody has it open: it is opened for the snapshot.
    let first = world.json(&[
        "volume",
        "snapshot",
        "create",
        VOLUME,
        "of-nothing",
        "--label",
        "by=a test",
    ]);
    assert_eq!(
        (&first["number"], &first["labels"]["by"]),
        (&1.into(), &"a test".into())
    );

    let nodes: Vec<SocketAddr> = world.cluster.nodes().iter().map(|node| node.nbd).collect();
    let load = Load::start(&world, gateway, None);
    let diary = Diary::begin(nodes[gateway]);
    let mut last = SnapshotId(1);
    let mut times = Vec::new();
    let mut kept: Vec<(String, Vec<u64>)> = Vec::new();
    for round in 0..30 {
        if round == 10 {
            world.cluster.kill_node(1);
        }
        if round == 20 {
            world.cluster.start_node(1).expect("it starts again");
            world.cluster.await_node(1).expect("it serves again");
        }
        let name = format!("s{round}");
        let before = diary.written();
        let (snapshot, time) = take(&meta, &name);
        // One may be under way.
        let after = diary.written() + 1;
        assert!(snapshot.number > last, "numbers only grow");
        assert!(matches!(snapshot.state, SnapshotState::Sealed(_)));
        last = snapshot.number;
        times.push(time);
        // Where the volume is owned, and where it is not.
        let at = if round % 2 == 0 { gateway } else { 0 };
        let pages = read(nodes[at], &name);
        check(&name, &pages, (before, after));
        kept.push((name, pages));
    }
    assert!(!load.has_ended(), "fio goes on");
    load.finish();
    diary.finish();
    times.sort_unstable();
    eprintln!(
        "a snapshot takes {:?}, the slowest {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );

    // The one that was away has them too: it is one of the two that are left.
    await_in_sync(&world);
    world.cluster.kill_node(0);
    for (name, pages) in &kept {
        assert_eq!(read(nodes[1], name), *pages, "{name} has changed");
    }
    assert_eq!(read(nodes[2], "of-nothing"), vec![0; PAGES as usize]);

    let info = world.done("nbdinfo", &[&format!("nbd://{}/{VOLUME}@s3", nodes[gateway])]);
    assert!(info.contains("is_read_only: true"), "{info}");
    let mut client = Client::open(nodes[gateway], &format!("{VOLUME}@s3"), PATIENCE).expect("it opens");
    let error = client.write(0, &[0; BLOCK as usize]).unwrap_err();
    assert!(!error.to_string().is_empty());
    client.close();
    for unknown in [format!("{VOLUME}@none"), "none@s3".to_owned(), format!("{VOLUME}@")] {
        let error = Client::open(nodes[gateway], &unknown, PATIENCE).map(drop).unwrap_err();
        assert!(error.to_string().contains("no volume"), "{unknown}: {error}");
    }

    let all = world.json(&["volume", "snapshot", "list", VOLUME]);
    let all: Vec<&str> = all
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["name"].as_str().expect("a name"))
        .collect();
    assert_eq!((all.len(), all[0], all[30]), (31, "of-nothing", "s29"));
    let twice = world.amita(&["volume", "snapshot", "create", VOLUME, "s3"]);
    assert_eq!(twice.status.code(), Some(5));
    assert!(twice.text.contains("exists"), "{}", twice.text);
    let none = world.amita(&["volume", "snapshot", "delete", VOLUME, "s99"]);
    assert_eq!(none.status.code(), Some(4));
    assert!(
        none.text.contains("there is no snapshot") && none.text.contains("there are 31, and none"),
        "{}",
        none.text
    );

    delete_all_but(&world, &all, "s17");
    let (_, pages) = kept.iter().find(|(name, _)| name == "s17").expect("it was taken");
    assert_eq!(read(nodes[1], "s17"), *pages, "the one that stays has changed");
    let gone = Client::open(nodes[1], &format!("{VOLUME}@s3"), PATIENCE)
        .map(drop)
        .unwrap_err();
    assert!(gone.to_string().contains("no volume"), "{gone}");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

/// So many snapshots, where the environment's AMITA_SNAPSHOTS says nothing else.
const MANY: usize = 500;
/// A node is killed each so many snapshots, and comes back after half of them.
const BETWEEN_KILLS: usize = 50;
/// Of so many snapshots, one stays.
const ONE_STAYS: usize = 3;
/// A store's: what fio writes between two snapshots, some 4 MiB, is held by each that stays, on three of four nodes; and half as much again.
const ROOM_BYTES: u64 = 2 << 30;

/// As a soak: snapshots without end under fio's verified load and a diary, nodes that die and return one after the other, snapshots
/// that are deleted in between, and every one that stays read at every node.
#[test]
#[ignore = "takes minutes: scripts/soak runs it"]
fn five_hundred_snapshots_of_a_volume_under_load() {
    let many = std::env::var("AMITA_SNAPSHOTS").map_or(MANY, |many| many.parse().expect("a number"));
    let mut world = World::of_size(4, ROOM_BYTES);
    let gateway = world.cluster.add_gateway("gateway").expect("a gateway");
    let meta = world.cluster.metadata_client().expect("the metadata");
    let nodes: Vec<SocketAddr> = world.cluster.nodes().iter().map(|node| node.nbd).collect();
    let load = Load::start(&world, gateway, None);
    let diary = Diary::begin(nodes[gateway]);
    let mut kept: Vec<(String, Vec<u64>)> = Vec::new();
    let mut deleted = 0;
    for round in 0..many {
        let victim = round / BETWEEN_KILLS % 4;
        match round % BETWEEN_KILLS {
            10 => world.cluster.kill_node(victim),
            35 => {
                world.cluster.start_node(victim).expect("it starts again");
                world.cluster.await_node(victim).expect("it serves again");
            }
            // Three copies on four nodes: the next one may go when this one is whole.
            49 => await_in_sync(&world),
            _ => {}
        }
        let name = format!("s{round}");
        let before = diary.written();
        take(&meta, &name);
        let after = diary.written() + 1;
        // Through its owner; through a node that lives.
        let at = if round % 2 == 0 { gateway } else { (victim + 1) % 4 };
        let pages = read(nodes[at], &name);
        check(&name, &pages, (before, after));
        kept.push((name, pages));
        if round % ONE_STAYS != 0 {
            // Not always the newest, and not always the oldest.
            let (name, pages) = kept.remove(round * 7 % kept.len());
            assert_eq!(read(nodes[gateway], &name), pages, "{name} has changed");
            admin::delete_snapshot(&meta, VOLUME, &name).expect("it is deleted");
            deleted += 1;
        }
        assert!(!load.has_ended(), "fio goes on");
    }
    load.finish();
    diary.finish();
    // Whoever is still away comes back.
    for node in 0..4 {
        if world.cluster.nodes()[node].process.is_none() {
            world.cluster.start_node(node).expect("it starts again");
            world.cluster.await_node(node).expect("it serves again");
        }
    }
    await_in_sync(&world);
    for away in 0..4 {
        // Each in its turn is not there, so that each copy is read.
        world.cluster.kill_node(away);
        for (name, pages) in &kept {
            assert_eq!(read(nodes[(away + 1) % 4], name), *pages, "{name} has changed");
        }
        world.cluster.start_node(away).expect("it starts again");
        world.cluster.await_node(away).expect("it serves again");
        await_in_sync(&world);
    }
    eprintln!(
        "{many} snapshots, {deleted} of them deleted, {} read at each node",
        kept.len()
    );
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

/// Their space comes back at the nodes that run: what is left is the volume, and one snapshot.
fn delete_all_but(world: &World, all: &[&str], stays: &str) {
    let pages: Vec<String> = ["n2", "n3", "n4"]
        .map(|name| crate::observe::metrics_of(world, name))
        .into();
    let free = || {
        let pages = pages.iter().map(|page| nodes::get(page, "/metrics").expect("the page"));
        let of_page = |page: String| {
            let lines = page.lines().filter(|line| line.starts_with("amita_store_free_bytes{"));
            let values = lines.map(|line| line.rsplit_once(' ').expect("a value").1);
            values.map(|value| value.parse::<f64>().expect("a number")).sum::<f64>()
        };
        pages.map(of_page).sum::<f64>()
    };
    let before = free();
    for name in all.iter().filter(|name| **name != stays) {
        world.amita_done(&["volume", "snapshot", "delete", VOLUME, name]);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while free() <= before {
        assert!(Instant::now() < until, "nothing comes back: {before} bytes are free");
        std::thread::sleep(Duration::from_millis(100));
    }
}
