//! The metadata: away at the start, going away, coming back; and a real etcd in its place.

use crate::world::{A_NODE_IS_GONE, PATIENCE, VOLUME, World, check_job, eventually, scratch, stamped, verify_job};
use amita_harness::cluster::Metadata;
use amita_harness::etcd::Etcd;
use std::time::Duration;

/// What the nodes may say while the metadata is away.
const METADATA_IS_AWAY: &[&str] = &["metadata", "lease", "watch"];

#[test]
fn the_same_on_a_real_etcd() {
    let beside = scratch(64 << 20);
    let etcd = Etcd::start(beside.folder(), beside.stores()).expect("etcd starts");
    let mut world = World::on(Metadata::External(etcd.endpoint()));
    let folder = world.folder().to_owned();
    verify_job("verify", &world.uri(0), 0, 16 << 20, 21)
        .run(&folder, PATIENCE)
        .expect("all blocks are right");
    world.cluster.kill_node(2);
    verify_job("again", &world.uri(0), 16 << 20, 16 << 20, 22)
        .run(&folder, PATIENCE)
        .expect("writes go on");
    check_job("check", &world.uri(1), 0, 16 << 20, 21)
        .run(&folder, PATIENCE)
        .expect("all blocks are right");
    check_job("check2", &world.uri(1), 16 << 20, 16 << 20, 22)
        .run(&folder, PATIENCE)
        .expect("all blocks are right");
    // What a person sees in etcd is readable.
    let keys = world.done(
        "etcdctl",
        &["--endpoints", &etcd.endpoint(), "get", "--prefix", "/amita/volumes/"],
    );
    assert!(
        keys.contains(&format!("/amita/volumes/{VOLUME}")) && keys.contains("\"size_bytes\""),
        "{keys}"
    );
    world.end(A_NODE_IS_GONE);
}

#[test]
fn metadata_that_is_away_at_the_start_is_said_with_its_address() {
    let mut world = World::metadata_only(1);
    world.cluster.format_store(0).expect("formatted");
    world.cluster.kill_metadata();
    let endpoint = world.cluster.endpoint().to_owned();
    for arguments in [&["status"][..], &["node", "list"], &["volume", "list"]] {
        let refused = world.amita(arguments);
        assert_eq!(refused.status.code(), Some(3), "{arguments:?}: {}", refused.text);
        assert!(
            refused.text.contains(endpoint.trim_start_matches("https://")),
            "{arguments:?}: {}",
            refused.text
        );
    }
    // A node says so too, and either gives up or serves as soon as the metadata is there.
    world.cluster.start_node(0).expect("it starts");
    eventually("the node says what is away", || {
        let log = std::fs::read_to_string(world.cluster.node_log(0)).unwrap_or_default();
        log.contains(endpoint.trim_start_matches("https://"))
    });
    world.cluster.start_metadata().expect("the metadata is there");
    let gave_up = world.cluster.await_node(0).is_err();
    if gave_up {
        world.cluster.start_node(0).expect("it starts again");
        world.cluster.await_node(0).expect("it serves now");
    }
    world.end(METADATA_IS_AWAY);
}

#[test]
fn io_goes_on_while_the_metadata_is_away_and_changes_after() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    world.cluster.kill_metadata();
    for round in 2..200 {
        client
            .write(round * 8192, &stamped(round * 8192, round))
            .expect("written without metadata");
        let mut read = vec![0; 4096];
        client.read(round * 8192, &mut read).expect("read without metadata");
        assert!(read == stamped(round * 8192, round));
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = world.amita(&["volume", "create", "new", "--pool", "demo", "--size", "1M"]);
    assert_eq!(refused.status.code(), Some(3), "{}", refused.text);
    world.cluster.start_metadata().expect("the metadata is back");
    world.amita_done(&["volume", "create", "new", "--pool", "demo", "--size", "1M"]);
    // And a node that dies now is evicted as if nothing had been.
    world.cluster.kill_node(2);
    client.write(0, &stamped(0, 500)).expect("written");
    client.close();
    world.end(&[METADATA_IS_AWAY, A_NODE_IS_GONE].concat());
}
