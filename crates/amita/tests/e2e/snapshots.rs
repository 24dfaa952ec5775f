//! Snapshots are taken of a volume under load, while nodes are killed and come back. (Nothing reads them yet: what they hold is judged
//! by the simulator.)

use crate::load::Load;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, VOLUME, World};
use amita_control::admin::{self, TakingState};
use amita_metadata::{Call, Client};
use amita_types::SnapshotId;
use amita_types::map::{self, Snapshot, SnapshotState};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// As an upgrade's last step allows them.
fn allow_snapshots(meta: &Client) {
    let mut cluster = admin::cluster(meta).expect("the cluster's record");
    cluster.version = map::SNAPSHOTS_SINCE;
    let value = serde_json::to_vec(&cluster).expect("plain data");
    amita_metadata::Transact::txn(meta, &Call::put(map::cluster_key(), value)).expect("the operator may");
}

fn take(meta: &Client, name: &str) -> (Snapshot, Duration) {
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

#[test]
fn snapshots_are_taken_under_load_and_while_nodes_fail() {
    let mut world = World::of(4);
    let gateway = world.cluster.add_gateway("gateway").expect("a gateway");
    let meta = world.cluster.metadata_client().expect("the metadata");
    let early = admin::ask_snapshot(&meta, VOLUME, "early", BTreeMap::new(), Duration::ZERO);
    assert!(
        early.unwrap_err().to_string().contains("version"),
        "older programs may be about"
    );
    allow_snapshots(&meta);

    // Nobody has it open: it is opened for the snapshot.
    let (first, _) = take(&meta, "of-nothing");
    assert_eq!((first.number, first.name.as_str()), (SnapshotId(1), "of-nothing"));

    let load = Load::start(&world, gateway, None);
    let mut last = first.number;
    let mut times = Vec::new();
    for round in 0..30 {
        if round == 10 {
            world.cluster.kill_node(1);
        }
        if round == 20 {
            world.cluster.start_node(1).expect("it starts again");
            world.cluster.await_node(1).expect("it serves again");
        }
        let (snapshot, time) = take(&meta, &format!("s{round}"));
        assert!(snapshot.number > last, "numbers only grow");
        assert!(matches!(snapshot.state, SnapshotState::Sealed(_)));
        last = snapshot.number;
        times.push(time);
    }
    assert!(!load.has_ended(), "fio goes on");
    load.finish();
    times.sort_unstable();
    eprintln!(
        "a snapshot takes {:?}, the slowest {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );

    let all = admin::snapshots(&meta, VOLUME).expect("the metadata answers");
    assert_eq!(all.len(), 31);
    let twice = admin::ask_snapshot(&meta, VOLUME, "s3", BTreeMap::new(), Duration::ZERO);
    assert!(twice.unwrap_err().to_string().contains("exists"));
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}
