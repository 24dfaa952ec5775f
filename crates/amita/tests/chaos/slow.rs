//! What is slow and not dead: a disk that takes many times as long as the others, and a link that recovery fills.

use crate::directed::{BLOCK, VOLUME, block, open, read};
use crate::plan::Fault;
use crate::world::{PATIENCE, Shape, World, disks_missing};
use amita_harness::fio::{self, Job, Running};
use amita_terminal::interrupt;
use amita_types::StoreId;
use serde_json::Value;
use std::time::Duration;

const PIECE: usize = 1 << 20;

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let found = interrupt::poll(PATIENCE, Duration::from_millis(100), || Ok(look()));
    found
        .expect("not interrupted")
        .unwrap_or_else(|| panic!("never: {what}"))
}

fn json(world: &World, arguments: &[&str]) -> Value {
    let text = world.done(&[arguments, &["--json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// Reads and writes at the first gateway, far fewer than a slow disk can do: by them stores are compared.
fn load(world: &World) -> Running {
    let job = Job {
        name: "load".to_owned(),
        target: fio::nbd(&world.cluster.uri(0, VOLUME)),
        pattern: "randrw",
        block_bytes: BLOCK as u32,
        depth: 8,
        offset_bytes: 16 << 20,
        size_bytes: 8 << 20,
        run: Some(10 * PATIENCE),
        more: vec!["--rate_iops=80,80".to_owned()],
        also: Vec::new(),
    };
    job.start(world.folder()).expect("fio starts")
}

/// In how many groups this store is in sync, how many have two members in sync or more, and how many there are.
fn groups(world: &World, store: StoreId) -> (usize, usize, usize) {
    let groups = world.observer.groups().expect("the metadata answers");
    let with = groups.iter().filter(|(group, _)| group.in_sync.contains(&store));
    let enough = groups.iter().filter(|(group, _)| group.in_sync.len() >= 2);
    (with.count(), enough.count(), groups.len())
}

/// A FUSE file on memory answers within tenths of a millisecond: this is fifty times as long, and more.
const SLOW: Duration = Duration::from_millis(20);

#[test]
#[ignore = "a store is compared with its peers for many seconds: scripts/soak runs it"]
fn a_slow_disk_is_told_of_and_its_groups_go_on_without_it() {
    if let Some(why) = disks_missing() {
        println!("left out, since no disk can be made slow: {why}");
        return;
    }
    let shape = Shape {
        disks: true,
        etcd: false,
    };
    let mut world = World::start(shape, 8);
    world.make_volume(VOLUME, "32M");
    world.done(&["recovery", "set", "--slow-stores", "propose", "--slow-after", "5"]);
    let blocks = 64;
    let mut client = open(&world, 0);
    for number in 0..blocks {
        client.write(number * BLOCK as u64, &block(number, 1)).expect("written");
    }
    let node = world.observer.node(&world.cluster.nodes()[2].name).expect("its number");
    let stores = world.observer.stores().expect("the metadata answers");
    let slow = stores.iter().find(|store| store.node == node).expect("its store").id;
    let mut load = load(&world);
    let facts = |world: &World| json(world, &["status"])["facts"].as_array().expect("facts").clone();
    assert!(facts(&world).iter().all(|fact| fact["name"] != "store-slow"));
    world.begin(Fault::SlowDisk(2, SLOW));
    let fact = eventually("the store is called slow", || {
        facts(&world).into_iter().find(|fact| fact["name"] == "store-slow")
    });
    assert!(
        fact.to_string().contains(&slow.to_string()),
        "it is {slow}, and not: {fact}"
    );
    world.done(&["recovery", "set", "--slow-stores", "evict"]);
    eventually("the coordinator takes it out", || {
        (world.said("it is evicted, and tried again later") > 0).then_some(())
    });
    eventually("all groups go on without it", || {
        let (with, enough, all) = groups(&world, slow);
        (with == 0 && enough == all).then_some(())
    });
    assert!(!load.has_ended().expect("asked"), "fio ended in the middle of it");
    drop(load);
    for number in (0..blocks).step_by(2) {
        client
            .write(number * BLOCK as u64, &block(number, 2))
            .expect("written without it");
    }
    client.close();
    world.finish(Fault::SlowDisk(2, SLOW));
    let mut client = open(&world, 1);
    for number in 0..blocks {
        let round = if number % 2 == 0 { 2 } else { 1 };
        assert!(read(&mut client, number) == block(number, round), "block {number}");
    }
    client.close();
    world.end(&[]);
}

/// Recovery gives way to nobody, and everything that nodes say to one another waits behind what it moves. The metadata, which keeps
/// the leases, is reached by another way.
#[test]
#[ignore = "a rebuild that takes many seconds: scripts/soak runs it"]
fn a_rebuild_that_fills_its_link_costs_no_lease_and_no_place_in_sync() {
    const LINK_BYTES_PER_S: u64 = 8 << 20;
    const PIECES: u64 = 96;
    const LOST: [&str; 2] = ["no longer holds its lease", "evicted"];
    let mut world = World::serving(Shape::default(), 9, &["--lease", "2"]);
    world.make_volume(VOLUME, "128M");
    // A store behind a link that is full is slow indeed.
    world.done(&["recovery", "set", "--slow-stores", "off"]);
    world.done(&["recovery", "set", "--mode", "limits"]);
    let node = world.observer.node(&world.cluster.nodes()[2].name).expect("its number");
    let stores = world.observer.stores().expect("the metadata answers");
    let store = stores.iter().find(|store| store.node == node).expect("its store").id;
    let piece = |number: u64| block(number, 1).repeat(PIECE / BLOCK);
    let mut client = open(&world, 0);
    world.begin(Fault::Kill(2));
    for number in 0..PIECES {
        client
            .write(number * PIECE as u64, &piece(number))
            .expect("written without it");
    }
    eventually("its lease has ended, and no group counts on it", || {
        (world.said(LOST[0]) > 0 && groups(&world, store).0 == 0).then_some(())
    });
    world.narrow(2, LINK_BYTES_PER_S);
    world.finish(Fault::Kill(2));
    world.cluster.await_node(2).expect("it serves again");
    let before = LOST.map(|words| world.said(words));
    let mut rounds = 0;
    eventually("it has everything again", || {
        rounds += 1;
        let number = 127 * (PIECE / BLOCK) as u64;
        client
            .write(number * BLOCK as u64, &block(number, rounds))
            .expect("written meanwhile");
        assert!(read(&mut client, number) == block(number, rounds), "in round {rounds}");
        let (_, enough, all) = groups(&world, store);
        assert_eq!(enough, all, "a group has lost a member in round {rounds}");
        world.observer.is_whole().expect("the metadata answers").then_some(())
    });
    println!("{rounds} writes while {PIECES} MiB were brought");
    let after = LOST.map(|words| world.said(words));
    assert_eq!(after, before, "{LOST:?} were said meanwhile");
    let nodes = json(&world, &["node", "list"]);
    let alive = nodes.as_array().expect("nodes").iter();
    assert_eq!(alive.filter(|node| node["alive"] == true).count(), 3, "{nodes}");
    world.narrow(2, 0);
    client.close();
    // What was brought is needed, and read.
    world.begin(Fault::Kill(0));
    let mut client = open(&world, 2);
    let mut bytes = vec![0; PIECE];
    for number in 0..PIECES {
        client.read(number * PIECE as u64, &mut bytes).expect("read");
        assert!(bytes == piece(number), "piece {number} by the node that returned");
    }
    client.close();
    world.heal(&[]);
    world.end(&[]);
}
