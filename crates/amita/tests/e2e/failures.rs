//! What is killed here is killed with SIGKILL, in the middle of writing.

use crate::healing::await_in_sync;
use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, WRITES_WAIT, World, check_job, eventually, stamped, verify_job,
};
use amita_harness::nbd::Client;
use amita_harness::probe::Probe;
use amita_sim::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_node_killed_under_fio_costs_a_pause_and_no_block() {
    let mut world = World::with_volume();
    let folder = world.folder().to_owned();
    let probe = Probe::start(vec![world.cluster.nodes()[0].nbd], VOLUME, 48 << 20).expect("the probe starts");
    let mut job = verify_job("verify", &world.uri(0), 0, 32 << 20, 11);
    job.more.push("--rate_iops=2000".to_owned());
    let mut fio = job.start(&folder).expect("fio starts");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!fio.has_ended().expect("asked"), "fio ended before the kill");
    let killed = Instant::now();
    world.cluster.kill_node(2);
    let report = fio.finish(PATIENCE).expect("every block is right");
    assert_eq!(report.write.ios, (32 << 20) / 4096);
    let pause = probe.finish(killed).expect("writes go on");
    // No assertion on a time that a busy machine decides; but this is no pause any more.
    assert!(
        pause.length < Duration::from_secs(10),
        "writes stood still for {:?}",
        pause.length
    );
    // Every block again, by another gateway, from what is left.
    check_job("check", &world.uri(1), 0, 32 << 20, 11)
        .run(&folder, PATIENCE)
        .expect("every block is right there too");
    world.end(A_NODE_IS_GONE);
}

#[test]
fn the_owner_killed_in_the_middle_of_writing_loses_nothing_that_it_acknowledged() {
    let mut world = World::with_volume();
    let folder = world.folder().to_owned();
    verify_job("verify", &world.uri(0), 0, 16 << 20, 12)
        .run(&folder, PATIENCE)
        .expect("all blocks are right");
    // A writer that knows what was acknowledged to it, block by block, over and over.
    let region = 32u64 << 20;
    let blocks = 64u64;
    let address = world.cluster.nodes()[0].nbd;
    let written = Arc::new(AtomicU64::new(0));
    let count = written.clone();
    let writer = std::thread::spawn(move || {
        let mut client = Client::open(address, VOLUME, PATIENCE).expect("the volume opens");
        let mut acknowledged = vec![None; blocks as usize];
        for round in 0u64.. {
            for block in 0..blocks {
                let offset = region + block * 4096;
                if client.write(offset, &stamped(offset, round)).is_err() {
                    return (acknowledged, block, round);
                }
                acknowledged[block as usize] = Some(round);
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        unreachable!("it writes until the connection breaks");
    });
    eventually("every block is written more than once", || {
        written.load(Ordering::Relaxed) > 2 * blocks
    });
    world.cluster.kill_node(0);
    let (acknowledged, torn_block, torn_round) = writer.join().expect("the writer ends");

    let mut client = world.open(1);
    for (block, round) in acknowledged.into_iter().enumerate() {
        let offset = region + block as u64 * 4096;
        let mut read = vec![0; 4096];
        client.read(offset, &mut read).expect("read");
        let old = round.map_or_else(|| vec![0; 4096], |round| stamped(offset, round));
        // The one write in flight may have happened or not; all others are known.
        let in_flight = block as u64 == torn_block && read == stamped(offset, torn_round);
        assert!(
            read == old || in_flight,
            "block {block}: not what was acknowledged in round {round:?}"
        );
        // And it must not change any more.
        let mut again = vec![0; 4096];
        client.read(offset, &mut again).expect("read");
        assert!(again == read, "block {block} changed between two reads");
    }
    client.close();
    check_job("check", &world.uri(1), 0, 16 << 20, 12)
        .run(&folder, PATIENCE)
        .expect("all blocks are right");
    world.end(A_NODE_IS_GONE);
}

#[test]
fn a_node_that_returns_after_its_eviction_serves_nothing_stale() {
    let mut world = World::with_volume();
    let offsets: Vec<u64> = (0..256u64).map(|number| number * 128 * 1024).collect();
    let mut client = world.open(0);
    for &offset in &offsets {
        client.write(offset, &stamped(offset, 1)).expect("written");
    }
    world.cluster.kill_node(2);
    for &offset in &offsets {
        client
            .write(offset, &stamped(offset, 2))
            .expect("written without the third");
    }
    client.close();
    world.cluster.start_node(2).expect("it starts again");
    world.cluster.await_node(2).expect("it serves again");
    // By the gateway whose own disk is the stale one: it would be the nearest to read from.
    let mut client = world.open(2);
    for &offset in &offsets {
        let mut read = vec![0; 4096];
        client.read(offset, &mut read).expect("read");
        assert!(read == stamped(offset, 2), "stale data at {offset}");
        client.write(offset, &stamped(offset, 3)).expect("written");
    }
    client.close();
    let mut client = world.open(1);
    for &offset in &offsets {
        let mut read = vec![0; 4096];
        client.read(offset, &mut read).expect("read");
        assert!(read == stamped(offset, 3), "stale data at {offset}");
    }
    client.close();
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn below_min_copies_writes_wait_and_go_on_when_the_copy_is_back() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    world.cluster.kill_node(2);
    client
        .write(0, &stamped(0, 2))
        .expect("written to the two that are left");
    world.cluster.kill_node(1);
    let writer = std::thread::spawn(move || client.write(0, &stamped(0, 3)).map(|()| client));
    std::thread::sleep(Duration::from_secs(3));
    assert!(
        !writer.is_finished(),
        "a write was answered with one copy, where two are the least"
    );
    world.cluster.start_node(1).expect("it starts again");
    world.cluster.await_node(1).expect("it serves again");
    let mut client = writer.join().expect("the writer ends").expect("the write goes on");
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 3));
    client.close();
    let waiting: &[&str] = &["writes wait until it is back"];
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, waiting].concat());
}

#[test]
fn a_whole_cluster_killed_and_started_again_has_everything() {
    let mut world = World::with_volume();
    let folder = world.folder().to_owned();
    verify_job("verify", &world.uri(0), 0, 32 << 20, 13)
        .run(&folder, PATIENCE)
        .expect("all blocks are right");
    for node in 0..3 {
        world.cluster.kill_node(node);
    }
    for node in 0..3 {
        world.cluster.start_node(node).expect("it starts again");
    }
    for node in 0..3 {
        world.cluster.await_node(node).expect("it serves again");
    }
    check_job("check", &world.uri(2), 0, 32 << 20, 13)
        .run(&folder, PATIENCE)
        .expect("all blocks are right");
    // The first that is up again may find the others away.
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat());
}

/// The parts of a cluster: its nodes by their places, and this.
const METADATA: usize = 3;

/// All orders of some parts.
fn orders(parts: &[usize]) -> Vec<Vec<usize>> {
    if parts.is_empty() {
        return vec![Vec::new()];
    }
    let beginning_with = |&first: &usize| {
        let rest: Vec<usize> = parts.iter().copied().filter(|&part| part != first).collect();
        let rests = orders(&rest).into_iter();
        rests.map(move |rest| [vec![first], rest].concat()).collect::<Vec<_>>()
    };
    parts.iter().flat_map(beginning_with).collect()
}

/// For each order: a host writes, everything is killed at once, and its parts start in this order, each some time after the one before.
/// Every block is there, by another gateway each time.
fn cut_and_start(orders: &[Vec<usize>], seed: u64) {
    let mut world = World::serving(&["--lease", "2"]);
    let mut random = Random::new(seed);
    for (round, order) in orders.iter().enumerate() {
        println!("order {order:?} of seed {seed}, {METADATA} is the metadata");
        let stamp = |number: u64| stamped(number << 20, round as u64);
        let mut client = world.open(round % 3);
        for number in 0..64 {
            client.write(number << 20, &stamp(number)).expect("written");
        }
        world.cluster.kill_metadata();
        for node in 0..3 {
            world.cluster.kill_node(node);
        }
        drop(client);
        for &part in order {
            match part {
                METADATA => world.cluster.start_metadata().expect("the metadata starts"),
                node => world.cluster.start_node(node).expect("it starts again"),
            }
            std::thread::sleep(Duration::from_millis(random.below(800)));
        }
        for node in 0..3 {
            world.cluster.await_node(node).expect("it serves again");
        }
        let mut client = world.open((round + 1) % 3);
        for number in 0..64 {
            let mut read = vec![0; 4096];
            client.read(number << 20, &mut read).expect("read");
            assert!(
                read == stamp(number),
                "order {order:?}: what is there at {number} MiB was not written last"
            );
        }
        client.close();
        await_in_sync(&world);
    }
    let waiting: &[&str] = &["metadata", "lease", "watch", "writes wait until it is back"];
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT, waiting].concat());
}

#[test]
fn two_nodes_start_before_the_metadata_and_one_after_it() {
    cut_and_start(&[vec![1, 2, METADATA, 0]], 7);
}

#[test]
#[ignore = "24 orders, some seconds each: scripts/soak runs it"]
fn after_a_power_cut_the_parts_start_in_every_order() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let all = orders(&[0, 1, 2, METADATA]);
    assert_eq!(all.len(), 24);
    cut_and_start(&all, now.expect("a clock after 1970").as_secs());
}
