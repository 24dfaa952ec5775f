//! A set is mirrored while fio writes one of its volumes and two others are written by turns, and nodes of either cluster are killed. Then the near end is lost.

use super::{CLOSED, MIRROR, MIRRORED, Pair, await_later, let_in, mirror, point, runner};
use crate::fire::rounds;
use crate::load::{Load, REGION_BYTES, check_written};
use crate::sets::{ByTurns, LOG, last_entry};
use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, WRITES_WAIT, World, eventually, verify_job, within,
};
use amita_harness::nbd::Client;
use amita_harness::observe::Observer;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

const NODES: usize = 3;
const ROUNDS: usize = 4;
/// How often a point is cut.
const INTERVAL: &str = "10s";
/// What a pass in whose middle somebody is to be killed goes at: it takes seconds then.
const SLOWLY: &str = "1M";
/// No later point comes where none has come for so long.
const QUIET: Duration = Duration::from_secs(30);
/// The test of a point is by clones of these names.
const TESTS: [(&str, &str); 2] = [(LOG, "test-log"), (VOLUME, "test-volume")];
/// And that of the volume that fio writes.
const TEST_OF_FIO: &str = "test-fio";

fn delete(world: &World, volume: &str) {
    eventually("it is let go of", || {
        let deleted = world.amita(&["volume", "delete", volume, "--now", "--force"]);
        deleted.status.success()
    });
}

/// The snapshots of the point that the far end is at.
fn snapshots(far: &World) -> String {
    let shown = mirror(far);
    let at = shown["point"].as_str().expect("a point");
    let mut points = shown["points"].as_array().expect("points").iter();
    let snapshot = points.find(|point| point["name"] == at).expect("it is there")["snapshots"].clone();
    snapshot.as_str().expect("a name").to_owned()
}

/// What a volume has where fio writes.
fn region(node: SocketAddr, volume: &str) -> Vec<u8> {
    let mut client = Client::open(node, volume, PATIENCE).expect("it opens");
    let mut bytes = vec![0; REGION_BYTES as usize];
    for (number, part) in (0..).zip(bytes.chunks_mut(1 << 20)) {
        client.read(number << 20, part).expect("it can be read");
    }
    client.close();
    bytes
}

/// What fio's volume has at this point, by a clone that is thrown away: each block is one that fio wrote there; and how many it wrote.
fn fio_at(far: &World, snapshot: &str) -> (Vec<u8>, usize) {
    far.amita_done(&["volume", "clone", &format!("{MIRRORED}@{snapshot}"), TEST_OF_FIO]);
    far.cluster.offer_by_nbd(TEST_OF_FIO).expect("it is offered");
    let bytes = region(far.cluster.nodes()[0].nbd, TEST_OF_FIO);
    far.amita_done(&["nbd", "unexport", TEST_OF_FIO]);
    delete(far, TEST_OF_FIO);
    let blocks = check_written(&bytes);
    (bytes, blocks)
}

/// The point that the far end is at is one moment of both: the last entries of log and volume, by clones that are thrown away; and what fio's volume has, which
/// is not what it had at a point before.
fn check_point(far: &World, before: Option<&[u8]>) -> (u64, u64, Vec<u8>) {
    let snapshot = &snapshots(far);
    let (bytes, blocks) = fio_at(far, snapshot);
    assert!(
        before.is_none_or(|before| blocks > 0 && bytes != before),
        "fio's volume stands still, with {blocks} blocks: {snapshot}"
    );
    let mut last = Vec::new();
    for (volume, test) in TESTS {
        // A later point may have taken its place.
        far.amita_done(&["volume", "clone", &format!("{volume}@{snapshot}"), test]);
        far.cluster.offer_by_nbd(test).expect("it is offered");
    }
    for (_, test) in TESTS {
        last.push(last_entry(far.cluster.nodes()[0].nbd, test));
        far.amita_done(&["nbd", "unexport", test]);
        delete(far, test);
    }
    let (log, volume) = is_one_moment(&last);
    (log, volume, bytes)
}

fn is_one_moment(last: &[u64]) -> (u64, u64) {
    let (log, volume) = (last[0], last[1]);
    assert!(
        log == volume || log == volume + 1,
        "the log goes up to {log}, and the volume, which is written to after it, to {volume}"
    );
    (log, volume)
}

fn bring_back(world: &mut World, node: usize) {
    world.cluster.start_node(node).expect("it starts");
    world.cluster.await_node(node).expect("it serves");
    let observer = Observer::of(&world.cluster).expect("the metadata");
    assert!(
        observer.await_whole(2 * PATIENCE).expect("it answers"),
        "all copies are there again"
    );
}

/// Waits for a pass that begins from now on, has gone through something, and is not done: to which point, and the node that is at it.
fn in_a_pass(far: &World) -> (Value, usize) {
    far.amita_done(&["mirror", "set", MIRROR, "--limit-rate", SLOWLY]);
    // One that is under way may be about to end.
    let before = mirror(far)["pass"]["to"].clone();
    let mut found = None;
    eventually("somebody is in the middle of a pass", || {
        let pass = mirror(far)["pass"].clone();
        let is_in_it = pass["volumes"].as_array().is_some_and(|volumes| {
            let mut done = volumes.iter().filter_map(|volume| volume["done_bytes"].as_u64());
            done.any(|bytes| bytes > 0) && volumes.iter().any(|volume| volume["whole"] == json!(false))
        });
        if is_in_it && pass["to"] != before {
            found = runner(far).map(|node| (pass["to"].clone(), node));
        }
        found.is_some()
    });
    let (to, at_it) = found.expect("a pass");
    let mut nodes = far.cluster.nodes().iter();
    (to, nodes.position(|node| node.name == at_it).expect("a node"))
}

#[test]
#[ignore = "minutes of passes under fio: scripts/soak runs it"]
fn a_set_is_mirrored_under_fio_while_nodes_of_either_end_are_killed_and_one_end_is_lost() {
    let mut pair = Pair::of(NODES, NODES);
    pair.near
        .amita_done(&["volume", "create", LOG, "--pool", "demo", "--size", "64M"]);
    pair.near.cluster.offer_by_nbd(LOG).expect("it is offered");
    // Its name is the other end's.
    delete(&pair.far, VOLUME);
    let file = pair.file();
    let add = ["mirror", "add", MIRROR, VOLUME, LOG, MIRRORED, "--bootstrap", &file];
    pair.near.amita_done(&[&add[..], &["--interval", INTERVAL]].concat());
    pair.join(&[]).success().expect("it joins");
    for volume in [VOLUME, LOG, MIRRORED] {
        pair.far
            .cluster
            .offer_by_nbd(volume)
            .expect("what is closed is offered");
    }

    // All hosts are at the near end's first node, which lives until all of that end is lost.
    let at = pair.near.cluster.nodes()[0].nbd;
    let turns = ByTurns::begin(at, at);
    let load = Load::of(&pair.near, 0, MIRRORED, Some("--rate_iops=500"));
    await_later(&pair.far, &None);
    let (mut least, _, mut had) = check_point(&pair.far, None);
    for round in 0..rounds(ROUNDS) {
        // A node of the near end, one of the far end, or both: the far one is in the middle of a pass then.
        let near = (round % 3 != 1).then_some(1 + round % 2);
        let pass = (round % 3 != 0).then(|| in_a_pass(&pair.far));
        let far = pass.as_ref().map(|(_, node)| *node);
        if let Some(node) = far {
            pair.far.cluster.kill_node(node);
        }
        if let Some(node) = near {
            pair.near.cluster.kill_node(node);
        }
        if let Some((to, _)) = &pass {
            assert_eq!(mirror(&pair.far)["pass"]["to"], *to, "the pass was done before");
            pair.far.amita_done(&["mirror", "set", MIRROR, "--limit-rate", "0"]);
        }
        let before = point(&pair.far);
        println!("round {round}: killed near {near:?}, far {far:?}, at point {before:?}");
        // Points arrive all the same.
        within(3 * PATIENCE, "a later point has arrived", || {
            assert!(!load.has_ended() && !turns.has_ended(), "no host is told of anything");
            point(&pair.far).is_some_and(|now| Some(&now) != before.as_ref())
        });
        if let Some(node) = near {
            bring_back(&mut pair.near, node);
        }
        if let Some(node) = far {
            bring_back(&mut pair.far, node);
        }
        let seen = await_later(&pair.far, &point(&pair.far));
        let (log, volume, now) = check_point(&pair.far, Some(had.as_slice()));
        assert!(
            log > least,
            "the log stands still: it goes up to {log}, and went up to {least}"
        );
        assert!(volume <= turns.written(), "{volume} of {}", turns.written());
        println!("round {round}: point {seen:?} is one moment: log {log}, volume {volume}");
        (least, had) = (log, now);
    }

    // The near end is lost, in the middle of what is written. Until then no host has been told of anything.
    assert!(!load.has_ended() && !turns.has_ended(), "no host is told of anything");
    load.may_be_lost();
    turns.may_be_lost();
    for node in 0..NODES {
        pair.near.cluster.kill_node(node);
    }
    let written = turns.written() + 1;
    turns.finish();
    let passes = load.finish();
    // What goes over is the last point that has come.
    let mut last_point = snapshots(&pair.far);
    loop {
        std::thread::sleep(QUIET);
        let now = snapshots(&pair.far);
        if now == last_point {
            break;
        }
        last_point = now;
    }
    let (at_point, _) = fio_at(&pair.far, &last_point);
    let promote = ["mirror", "promote", MIRROR, "--force", "--seal-key", &pair.far_seal];
    eventually("the far end goes over", || pair.far.amita(&promote).status.success());
    let node = pair.far.cluster.nodes()[1].nbd;
    let last: Vec<u64> = [LOG, VOLUME].iter().map(|volume| last_entry(node, volume)).collect();
    let (log, volume) = is_one_moment(&last);
    assert!(
        least <= log && volume <= written,
        "{log} and {volume}, of {least} to {written}"
    );
    let over = region(node, MIRRORED);
    let blocks = check_written(&over);
    assert!(
        over == at_point && blocks > 0,
        "it is not what the point {last_point} had"
    );
    println!(
        "{passes} passes of fio, {blocks} blocks of which went over; {written} entries were written, and {volume} went over"
    );
    // And it serves: fio writes and checks every block.
    let_in(&pair.far).close();
    let uri = pair.far.cluster.uri(0, MIRRORED);
    eventually("fio has it", || {
        verify_job("over", &uri, 0, REGION_BYTES, 77)
            .run(pair.far.folder(), PATIENCE)
            .is_ok()
    });
    let expected = [CLOSED, A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat();
    let Pair { far, .. } = pair;
    far.end(&expected);
}
