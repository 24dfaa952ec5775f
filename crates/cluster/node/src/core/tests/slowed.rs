//! Hosts of a volume that moves are slowed by who is at the move, and for no longer (decision 080).

use super::*;
use crate::control::{Record, ToCore};
use crate::core::route;
use crate::forwarder::FORWARDED;
use amita_types::SnapshotId;
use amita_types::map::{CopyPlace, Copying, Moving, Slowed};

const TARGET: VolumeId = VolumeId(8);
/// The revision of the key of who is at it.
const CLAIM: u64 = 5;

pub(super) struct Node {
    pub(super) rig: Rig,
    revision: u64,
}

impl Node {
    /// A volume that moves.
    pub(super) fn new() -> Node {
        let mut node = Node {
            rig: Rig::new(),
            revision: 100,
        };
        let volume = opened(Generation(3)).volume;
        node.put(map::volume_key("v"), Some(&volume), 1);
        node.put(map::copier_key(TARGET), Some(&"a node"), CLAIM);
        node
    }

    pub(super) fn put(&mut self, key: String, value: Option<&dyn erased::Json>, revision: u64) {
        let record = Record {
            key,
            value: value.map(erased::Json::text),
            revision,
            created: 1,
        };
        self.rig.core.control(ToCore::Record(record));
        self.rig.pass();
    }

    pub(super) fn moves(&mut self, change: impl Fn(&mut Copying)) {
        let mut record = Copying {
            volume: TARGET,
            name: map::moving_name(TARGET),
            source: VOLUME,
            of: "v".to_owned(),
            snapshot: "migrate".to_owned(),
            takes: true,
            snapshots: true,
            limit_bytes_per_s: None,
            asked_at: 1,
            cancelled: false,
            whole: false,
            paused: None,
            ails: None,
            moving: Some(Moving {
                data: VOLUME,
                taken: 1,
                late: 0,
                same_pool: false,
                slowed: Some(Slowed {
                    bytes_per_s: 1 << 20,
                    by: CLAIM,
                }),
            }),
            place: CopyPlace {
                pass: SnapshotId(4),
                ..CopyPlace::default()
            },
        };
        change(&mut record);
        self.revision += 1;
        let revision = self.revision;
        self.put(map::copying_key(TARGET), Some(&record), revision);
    }

    fn is_slowed(&self) -> bool {
        self.rig.core.cx.slowed.holds(VOLUME)
    }

    fn wait(&mut self, time: Duration) {
        let until = self.rig.world.now().plus(time);
        while self.rig.world.now() < until {
            self.rig.world.next_until(until);
            self.rig.pass();
        }
    }
}

pub(super) mod erased {
    pub(in crate::core) trait Json {
        fn text(&self) -> Vec<u8>;
    }

    impl<T: serde::Serialize> Json for T {
        fn text(&self) -> Vec<u8> {
            serde_json::to_vec(self).unwrap()
        }
    }
}

fn slowed(record: &mut Copying) -> &mut Option<Slowed> {
    &mut record.moving.as_mut().unwrap().slowed
}

#[test]
fn hosts_are_slowed_while_whoever_wants_it_is_at_the_move() {
    let mut node = Node::new();
    node.moves(|record| *slowed(record) = None);
    assert!(!node.is_slowed());
    node.moves(|_| {});
    assert!(node.is_slowed());
    // His lease has lapsed.
    node.put(map::copier_key(TARGET), None, 200);
    assert!(!node.is_slowed());
    // Another one takes it up, of whom it is not said that he wants it.
    node.put(map::copier_key(TARGET), Some(&"another"), 201);
    assert!(!node.is_slowed());
    node.moves(|record| slowed(record).as_mut().unwrap().by = 201);
    assert!(node.is_slowed());
}

#[test]
fn they_are_not_any_more_when_it_is_taken_back_stands_still_or_is_at_its_end() {
    let mut node = Node::new();
    let ends: [&dyn Fn(&mut Copying); 4] = [
        &|record| record.cancelled = true,
        &|record| record.whole = true,
        &|record| *slowed(record) = None,
        &|record| {
            record.paused = Some(map::Paused {
                by: String::new(),
                at: 1,
            });
        },
    ];
    for end in ends {
        node.moves(|_| {});
        assert!(node.is_slowed());
        node.moves(end);
        assert!(!node.is_slowed());
    }
    node.moves(|_| {});
    assert!(node.is_slowed());
    node.put(map::copying_key(TARGET), None, 300);
    assert!(!node.is_slowed());
}

/// The metadata may be silent, and with it what would say that nobody is at it any more.
#[test]
fn nobody_is_slowed_for_good() {
    let mut node = Node::new();
    node.moves(|_| {});
    node.wait(Duration::from_secs(60));
    assert!(node.is_slowed());
    // A place was noted.
    node.moves(|record| record.place.pass_bytes = 4096);
    node.wait(Duration::from_secs(60));
    assert!(node.is_slowed());
    node.wait(Duration::from_secs(31));
    assert!(!node.is_slowed());
    node.moves(|_| {});
    assert!(node.is_slowed());
}

/// What is read for a pass is told by its snapshot; one for which hosts are slowed does not give way to them.
#[test]
fn what_is_read_for_a_pass_is_known() {
    let mut node = Node::new();
    node.moves(|record| *slowed(record) = None);
    let pass = |node: &Node, snapshot| {
        let cx = &node.rig.core.cx;
        cx.view.pass(VOLUME, SnapshotId(snapshot), |data| cx.slowed.holds(data))
    };
    assert_eq!([4, 3, 0].map(|number| pass(&node, number)), [Some(true), None, None]);
    node.moves(|_| {});
    assert_eq!(pass(&node, 4), Some(false));
    // Whoever slows them has gone, or is not heard of any more.
    node.put(map::copier_key(TARGET), None, 200);
    assert_eq!(pass(&node, 4), Some(true));
    node.put(map::copier_key(TARGET), Some(&"a node"), CLAIM);
    assert_eq!(pass(&node, 4), Some(false));
    node.wait(Duration::from_secs(91));
    assert_eq!(pass(&node, 4), Some(true));
    node.moves(|record| record.moving = None);
    assert_eq!(pass(&node, 4), Some(true), "a copy");
    node.moves(|record| record.whole = true);
    assert_eq!(pass(&node, 4), None);
}

/// Its host writes the same by another path, and something else behind it.
#[test]
fn what_waits_goes_with_its_host() {
    let held = |faults| {
        let mut node = Node::new();
        node.rig.core.cx.config.faults = faults;
        node.moves(|record| slowed(record).as_mut().unwrap().bytes_per_s = 1);
        (1..4).for_each(|tag| node.rig.write(tag));
        assert!(!node.rig.core.holds_for_gone_hosts());
        assert_eq!(node.rig.core.cx.slowed.fronts().count(), 2);
        node.rig.core.fronts.detach(&mut node.rig.driver, node.rig.front);
        node.rig.pass();
        node.rig.core.holds_for_gone_hosts()
    };
    assert!(!held(Faults::NONE));
    assert!(held(Faults::NONE.with(Fault::HoldForGoneHosts)));
}

#[test]
fn nobody_is_slowed_any_more_where_the_volume_has_moved() {
    let mut node = Node::new();
    node.moves(|record| slowed(record).as_mut().unwrap().bytes_per_s = 1);
    (1..4).for_each(|tag| node.rig.write(tag));
    assert_eq!(node.rig.core.waited_for_moves(), 0);
    let lineage = map::Lineage {
        host: Some(VOLUME),
        ..map::Lineage::default()
    };
    let volume = map::Volume {
        id: TARGET,
        lineage,
        ..opened(Generation(4)).volume
    };
    node.put(map::volume_key("v"), Some(&volume), 150);
    assert!(!node.is_slowed());
    assert_eq!(node.rig.core.cx.slowed.fronts().count(), 0);
    assert_eq!(node.rig.core.waited_for_moves(), 2);
    // The move is not at its end yet.
    node.moves(|record| record.place.pass_bytes = 4096);
    assert!(!node.is_slowed());
}

impl Node {
    /// Another gateway reads so much of the snapshot.
    fn read(&mut self, tag: u64) {
        let core = &mut self.rig.core;
        let now = core.cx.clock.began();
        let mut origin = core.cx.origin(now, FORWARDED, tag);
        (origin.snapshot, origin.generation) = (SnapshotId(4), Generation(3));
        let (offset, length) = (0, 4096);
        let (op, payload) = (Op::Read { offset, length }, amita_reactor::Slice::default());
        route::sequence(&mut core.cx, &mut core.forwarding, now, origin, VOLUME, op, payload);
    }

    /// Does something wait, and how many reads have gone by a leave?
    fn waits(&self) -> (bool, u64) {
        let cx = &self.rig.core.cx;
        (cx.paced.deadline().is_some(), cx.shards.pace().started)
    }
}

#[test]
fn what_a_pass_reads_waits_for_its_turn_and_what_does_not_give_way_waits_for_nobody() {
    let mut node = Node::new();
    node.rig.make_shard(3);
    node.moves(|record| *slowed(record) = None);
    (1..5).for_each(|tag| node.read(tag));
    assert_eq!(node.waits(), (true, 1));
    // Hosts are slowed: what waits goes when it is looked at next, without a leave, and what comes goes at once.
    node.moves(|_| {});
    node.wait(Duration::from_millis(10));
    assert_eq!(node.waits(), (false, 1));
    node.read(6);
    assert_eq!(node.waits(), (false, 1));
}

/// A backup's snapshot is known by its label, as is a mirror's, whose lag somebody has set a limit for.
#[test]
fn what_a_backup_reads_waits_for_its_turn_and_what_a_mirror_reads_does_not() {
    for (label, waits) in [
        (map::BACKUP_LABEL, (true, 1)),
        (map::MIRROR_LABEL, (false, 0)),
        ("weekly", (false, 0)),
    ] {
        let mut node = Node::new();
        node.rig.make_shard(3);
        let snapshot = crate::view::labelled(VOLUME, SnapshotId(4), &[label]);
        node.put(map::snapshot_key(VOLUME, SnapshotId(4)), Some(&snapshot), 7);
        (1..5).for_each(|tag| node.read(tag));
        assert_eq!(node.waits(), waits, "{label}");
    }
}
