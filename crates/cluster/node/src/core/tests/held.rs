//! The last pass of a move of a limited volume, while its owner holds (decision 080): hosts wait, and what that pass needs does not.

use super::slowed::Node;
use super::*;
use crate::exports::Usage;
use crate::snapshots::Order;
use amita_frontend::{Source, Who};
use amita_types::SnapshotId;

/// That of the pass that is under way, that of the last pass, and another one.
const PASS: SnapshotId = SnapshotId(4);
const LAST: SnapshotId = SnapshotId(5);
const OTHER: SnapshotId = SnapshotId(2);

/// A volume that moves, may do so many operations a second, and is open here.
fn limited(held: bool) -> Node {
    let mut node = Node::new();
    let limit = map::Limit {
        rate: 1_000,
        burst: 200,
        peak: None,
    };
    let limits = map::Limits {
        iops: map::Measures {
            both: Some(limit),
            ..map::Measures::default()
        },
        ..map::Limits::default()
    };
    let volume = map::Volume {
        limits: Some(Box::new(limits)),
        lineage: map::Lineage {
            number: LAST,
            sealed: LAST,
            moving: Some(VolumeId(8)),
            held,
            ..map::Lineage::default()
        },
        ..opened(Generation(3)).volume
    };
    node.rig.make_shard(3);
    node.put(map::volume_key("v"), Some(&volume), 50);
    node.moves(|record| record.moving.as_mut().unwrap().slowed = None);
    node
}

fn read(node: &mut Node, tag: u64, snapshot: SnapshotId) {
    let front = node.rig.front;
    node.rig.core.fronts.with(front, |_, service| {
        let source = Source {
            volume: VOLUME,
            snapshot,
        };
        let (offset, length) = (0, 4096);
        service.submit(
            front,
            tag,
            source,
            Op::Read { offset, length },
            amita_reactor::Slice::default(),
        );
    });
    node.rig.pass();
}

/// As who the front has asked for what it reads.
fn asked_as(node: &mut Node, who: Who) {
    let usage = node.rig.core.fronts.usage(node.rig.front).unwrap();
    *usage = Some(Usage {
        who,
        open: None,
        unseen: None,
    });
}

/// Longer than stores are waited for before tokens are lent.
fn wait(node: &mut Node) {
    let until = node.rig.world.now().plus(Duration::from_secs(6));
    while node.rig.world.now() < until {
        node.rig.pass();
    }
}

/// What waits for tokens, and what has passed by some.
fn counted(node: &Node) -> (u64, u64) {
    let mut counts = node.rig.core.forwarding.gate.counts();
    let (_, found) = counts.find(|(of, _)| *of == VOLUME).unwrap_or_default();
    (found.waiting, found.operations[0])
}

/// Somebody reads another snapshot; or it is who makes the last pass, and has not heard yet that there is one.
#[test]
fn who_holds_lends_on() {
    let mut node = limited(false);
    let now = node.rig.world.now();
    assert!(
        node.rig
            .core
            .cx
            .shards
            .snapshot(now, VOLUME, Generation(3), Order::Hold)
    );
    read(&mut node, 1, OTHER);
    assert_eq!(counted(&node), (1, 0));
    // The only store that there is cannot be asked: tokens are lent when it was waited for.
    wait(&mut node);
    assert!(node.rig.core.cx.shards.is_on_hold(VOLUME));
    assert_eq!(counted(&node), (0, 1));
}

/// It counts from its opening at the other gateway.
#[test]
fn who_is_about_to_hand_it_over_lends_nothing() {
    let mut node = limited(false);
    let now = node.rig.world.now();
    node.rig
        .core
        .cx
        .shards
        .snapshot(now, VOLUME, Generation(3), Order::Hold);
    node.rig.core.cx.shards.leave(VOLUME, 1);
    read(&mut node, 1, OTHER);
    wait(&mut node);
    assert_eq!(counted(&node), (1, 0));
}

/// Limits are the hosts': what is read because the volume moves waits for no tokens, and takes none.
#[test]
fn what_a_move_reads_does_not_count() {
    let limited = |held| {
        let mut node = limited(held);
        node.rig.core.cx.config.moves = true;
        asked_as(&mut node, Who::Program);
        node
    };
    let mut node = limited(true);
    read(&mut node, 1, PASS);
    read(&mut node, 2, LAST);
    assert_eq!(counted(&node), (0, 0));
    read(&mut node, 3, OTHER);
    assert_eq!(counted(&node), (1, 0));
    // Behind a hold that has ended the snapshot is one as any.
    let mut node = limited(false);
    read(&mut node, 1, LAST);
    assert_eq!(counted(&node), (1, 0));
    // What a copy reads counts.
    let mut node = limited(false);
    node.moves(|record| record.moving = None);
    read(&mut node, 1, PASS);
    assert_eq!(counted(&node), (1, 0));
    // Nobody reads for a move that was taken back, or stands still: whoever reads its snapshot then is a host.
    let mut node = limited(false);
    node.moves(|record| record.cancelled = true);
    read(&mut node, 1, PASS);
    assert_eq!(counted(&node), (1, 0));
}

/// Its name stands in the list of snapshots, and any host that may read the volume may open it.
#[test]
fn a_host_that_reads_the_snapshot_of_a_move_is_held_to_the_limits() {
    for who in [Who::Client("host".into()), Who::Local] {
        for snapshot in [PASS, LAST] {
            let mut node = limited(true);
            node.rig.core.cx.config.moves = true;
            asked_as(&mut node, who.clone());
            read(&mut node, 1, snapshot);
            assert_eq!(counted(&node), (1, 0), "{who:?} {snapshot:?}");
        }
    }
}

/// The API's gateway, or a command's, has opened it by its name to copy it for somebody: that is a part of the program, and no move.
#[test]
fn who_exports_the_snapshot_of_a_move_is_held_to_the_limits() {
    for snapshot in [PASS, LAST] {
        let mut node = limited(true);
        asked_as(&mut node, Who::Program);
        read(&mut node, 1, snapshot);
        assert_eq!(counted(&node), (1, 0), "{snapshot:?}");
    }
}
