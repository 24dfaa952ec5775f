//! The metadata is away, was set back, holds what nobody can read, or takes no writes any more.

use crate::world::{PATIENCE, Plan, World, eventually};
use amita_harness::cluster::{METADATA_FILE, Metadata};
use amita_harness::observe::Observer;
use amita_harness::scratch::Scratch;
use amita_harness::{ports, tool};
use amita_metadata::{Call, Client, KeyValue};
use amita_types::map;
use std::net::TcpStream;

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn the_metadata_is_away() {
    let mut world = World::of(Plan::default());
    world.fault("the only metadata server is killed");
    world.cluster.kill_metadata();
    let instance = world.instance(0);
    let alerts = [
        ("AmitaNoCoordinator", "no node is the coordinator"),
        ("AmitaMetadataUnreachable", instance.as_str()),
    ];
    world.all_fire(&alerts);
    world.mended();
    world.cluster.start_metadata().expect("it starts again");
    world.all_end(&alerts);
    world.is_quiet();
}

/// Nobody leads then, so that nobody tells of facts: each node tells what it has found itself.
#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn the_metadata_is_set_back() {
    let mut world = World::of(Plan::default());
    let file = world.scratch.stores().join(METADATA_FILE);
    let (older, newest) = (file.with_extension("older"), file.with_extension("newest"));
    world.cluster.kill_metadata();
    std::fs::copy(&file, &older).expect("copied");
    world.cluster.start_metadata().expect("it starts again");
    // What the copy does not know.
    world.cluster.kill_node(2);
    let mut client = world.open(0);
    for at in 0..64_u64 {
        client.write(at << 20, &[3; 4096]).expect("written without the third");
    }
    client.close();
    world.start_node(2);
    // One that begins on the older copy would know no better, and stay with it.
    let node = Observer::of(&world.cluster)
        .and_then(|seen| seen.node("n3"))
        .expect("a node");
    let process = world.cluster.nodes()[2].process.as_ref().expect("it runs").pid();
    let client = world.cluster.metadata_client().expect("the metadata");
    eventually("the node has joined by its new process", || {
        let reply = client
            .txn(&Call::get(map::live_key(node)))
            .expect("the metadata answers");
        let live = reply.value(0).and_then(|record| record.json::<map::Live>().ok());
        live.is_some_and(|live| live.pid == process)
    });
    world.is_quiet();
    world.fault("the metadata's file is replaced by an older copy");
    world.cluster.kill_metadata();
    std::fs::copy(&file, &newest).expect("copied");
    std::fs::copy(&older, &file).expect("copied");
    world.cluster.start_metadata().expect("it starts again");
    let alerts = [
        ("AmitaNoCoordinator", "no node is the coordinator"),
        ("AmitaMetadataOlder", "older than what stores know"),
    ];
    world.all_fire(&alerts);
    world.mended();
    world.cluster.kill_metadata();
    std::fs::copy(&newest, &file).expect("copied");
    world.cluster.start_metadata().expect("it starts again");
    world.all_end(&alerts);
    world.is_quiet();
}

fn record(client: &Client, key: &str) -> KeyValue {
    let reply = client.txn(&Call::get(key)).expect("the metadata answers");
    reply.value(0).expect("the record").clone()
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_record_cannot_be_read_and_a_version_was_not_finalized() {
    let mut world = World::of(Plan::default());
    let client = world.cluster.metadata_client().expect("the metadata");
    let key = map::pool_key("demo");
    let whole = record(&client, &key).value.to_vec();
    world.fault("a pool's record is overwritten with what is no record");
    client.txn(&Call::put(&key, b"{\"copies\"".to_vec())).expect("written");
    world.fires("AmitaRecordUnreadable", "1 records");
    world.mended();
    client.txn(&Call::put(&key, whole)).expect("written");
    world.ends("AmitaRecordUnreadable");

    let key = map::cluster_key();
    let mut cluster: map::Cluster = record(&client, &key).json().expect("the cluster");
    cluster.version -= 1;
    world.fault("the cluster's version is the one before that of its programs");
    let older = serde_json::to_vec(&cluster).expect("JSON");
    client.txn(&Call::put(&key, older)).expect("written");
    world.fires("AmitaVersionNotFinalized", "newer version");
    world.mended();
    world.done(&["cluster", "finalize"]);
    world.ends("AmitaVersionNotFinalized");
    world.is_quiet();
}

/// An etcd whose space is used up answers who reads, and takes nothing more: nobody can be evicted.
#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn etcd_is_full() {
    let scratch = Scratch::make("alerts", None, None, 3 << 30).expect("folders");
    let [client, peer] = [(); 2].map(|()| format!("http://127.0.0.1:{}", ports::free()));
    let initial = format!("default={peer}");
    let data = scratch.stores().join("etcd").display().to_string();
    let arguments = [
        ("data-dir", data.as_str()),
        ("listen-client-urls", client.as_str()),
        ("advertise-client-urls", client.as_str()),
        ("listen-peer-urls", peer.as_str()),
        ("initial-advertise-peer-urls", peer.as_str()),
        ("initial-cluster", initial.as_str()),
        ("quota-backend-bytes", "16777216"),
        ("log-level", "error"),
    ]
    .map(|(name, value)| format!("--{name}={value}"));
    let _etcd = tool::start(scratch.folder(), "etcd", arguments).expect("etcd starts");
    let address = client.trim_start_matches("http://").to_owned();
    eventually("etcd listens", || TcpStream::connect(&address).is_ok());
    let plan = Plan {
        metadata: Metadata::External(client.clone()),
        ..Plan::default()
    };
    let mut world = World::on(plan, scratch, |_| {}, |_| {});
    let host = world.open(0);
    let meta = world.cluster.metadata_client().expect("the metadata");
    let is_full = (0..64).any(|number| {
        let call = Call::put(format!("/else/{number}"), vec![b'x'; 512 << 10]);
        meta.txn(&call).is_err()
    });
    assert!(is_full, "etcd takes whatever it is given");
    // Nobody can be elected while nothing is written: the one who tells of the cluster is to live on.
    let observer = Observer::of(&world.cluster).expect("the metadata");
    let coordinator = observer.coordinator().expect("the metadata").expect("one is elected");
    let is_led_by = |at: usize| observer.node(&format!("n{}", at + 1)).expect("a node") == coordinator;
    let victim = [1, 2].into_iter().find(|at| !is_led_by(*at)).expect("another one");
    world.fault("etcd takes no writes (its quota is used up), and a node is killed");
    world.cluster.kill_node(victim);
    world.fires("AmitaCopiesWaiting", "wait for a store that is gone");
    world.mended();
    let etcdctl = |arguments: &[&str]| {
        let arguments = [&["--endpoints", client.as_str()][..], arguments].concat();
        let run = tool::run(world.cluster.folder(), "etcdctl", arguments, PATIENCE).expect("etcdctl runs");
        run.success().expect("etcdctl works");
    };
    etcdctl(&["del", "--prefix", "/else/"]);
    let revision = meta.txn(&Call::get("/else/")).expect("it answers").revision;
    meta.compact(revision).expect("compacted");
    etcdctl(&["defrag"]);
    etcdctl(&["alarm", "disarm"]);
    world.ends("AmitaCopiesWaiting");
    host.close();
    world.start_node(victim);
    world.is_quiet();
}
