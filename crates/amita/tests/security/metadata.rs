//! Whoever can put an older copy of the metadata back gets no right back with it.

use crate::world::{PATIENCE, VOLUME, World, eventually, stamped};
use amita_harness::cluster::METADATA_FILE;
use amita_harness::nbd::Client;

/// What nodes say of metadata that is away, and of some that went back.
const EXPECTED: &[&str] = &[
    "metadata",
    "lease",
    "watch",
    "suspect",
    "cannot be reached",
    "a connection is given up",
    "recover --from-stores",
];

#[test]
fn a_right_that_was_taken_away_does_not_come_back_with_older_metadata() {
    let mut world = World::with_volume();
    world.amita_done(&["volume", "create", "second", "--pool", "demo", "--size", "8M"]);
    world.amita_done(&["volume", "export", "second", "--any-client"]);
    let mut theirs = Client::open(world.cluster.nodes()[1].nbd, "second", PATIENCE).expect("it is exported");
    theirs.write(0, b"what was theirs once").expect("written");
    theirs.close();
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");

    // The copy, as a backup or a snapshot has it.
    let (data, copy) = (world.scratch.stores().join(METADATA_FILE), world.file("copy.redb"));
    world.cluster.kill_metadata();
    std::fs::copy(&data, &copy).expect("copied");
    world.cluster.start_metadata().expect("it comes back");
    eventually("the right is taken away", || {
        world.amita(&["volume", "unexport", "second"]).status.success()
    });
    let open = |world: &World, node: usize| Client::open(world.cluster.nodes()[node].nbd, "second", PATIENCE);
    for node in 0..3 {
        eventually("it holds everywhere", || open(&world, node).is_err());
    }
    // Time goes on: what is put back is older by more than nodes write when they come back.
    for _ in 0..20 {
        world.amita_done(&["volume", "export", "second", "--client", "somebody"]);
    }
    world.amita_done(&["volume", "unexport", "second"]);

    world.cluster.kill_metadata();
    std::fs::copy(&copy, &data).expect("put back");
    world.cluster.start_metadata().expect("it comes back");
    let mut tries = 0;
    let has_noticed = |node: usize| {
        let log = std::fs::read_to_string(world.cluster.node_log(node)).expect("a log");
        log.contains("the metadata went back from revision")
    };
    eventually("all nodes notice it", || {
        for node in 0..3 {
            tries += 1;
            let got = open(&world, node).map(drop);
            assert!(got.is_err(), "node {node} serves by a right that was taken away");
        }
        (0..3).all(has_noticed)
    });
    assert!(tries >= 3);
    for node in 0..3 {
        assert!(open(&world, node).is_err(), "node {node}, later");
    }
    // Who has a volume open goes on with what is his.
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 1));
    client.write(4096, &stamped(4096, 2)).expect("written");
    client.read(4096, &mut read).expect("read");
    assert!(read == stamped(4096, 2), "{VOLUME}");
    drop(client);
    world.end(EXPECTED);
}
