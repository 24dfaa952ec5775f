mod locked;
mod moved;
mod openings;

use super::{Directory, Effect, OpeningId, Requester, State, Waiting};
use crate::control::Record;
use crate::faults::{Fault, Faults};
use crate::mail::{Origin, VolumeRoute};
use crate::view::View;
use amita_fabric::{Link, Message, ReleaseOutcome};
use amita_frontend::{FrontId, HostKey};
use amita_metadata::Call;
use amita_metadata::model::State as Metadata;
use amita_reactor::driver::Time;
use amita_sequencer::{Consent, OpenerConfig};
use amita_types::map;
use amita_types::{Generation, NodeId, TraceId, VolumeId};
use std::time::Duration;

const VOLUME: VolumeId = VolumeId(7);
const CORES: usize = 3;

/// A directory whose volume is open on all cores.
struct Rig {
    directory: Directory,
    generation: Generation,
    now: Time,
    /// The attempts to hand over that cores were told of.
    leaves: Vec<u64>,
    stays: usize,
    dropped: usize,
    replies: Vec<ReleaseOutcome>,
    /// By which front ends close what they have opened.
    openings: Vec<OpeningId>,
    /// By which numbers they know what they were told is lost.
    lost: Vec<Vec<VolumeId>>,
    origin: Origin,
    pool: map::Pool,
    /// As it was after the first opening.
    metadata: Metadata,
}

impl Rig {
    fn new() -> Rig {
        let mut metadata = Metadata::default();
        let mut put = |key: String, value: Vec<u8>| drop(metadata.txn(&Call::put(key, value)).unwrap());
        let pool = map::Pool {
            failure_domain: amita_types::placement::Level::Node,
            class: None,
            id: amita_types::PoolId(1),
            name: "p".to_owned(),
            kind: map::PoolKind::Replicated {
                copies: 1,
                min_copies: 1,
            },
            groups: 1,
            chunk_bytes: 4 << 20,
        };
        let volume = map::Volume {
            generation: Generation(3),
            ..map::Volume::new(VOLUME, "v", "p", 1 << 30)
        };
        let store = amita_types::StoreId(1);
        let group = map::Group {
            index: amita_types::GroupIndex(0),
            epoch: amita_types::Epoch(1),
            members: vec![store],
            in_sync: vec![store],
            syncing: Vec::new(),
        };
        put(map::volume_key("v"), serde_json::to_vec(&volume).unwrap());
        put(map::pool_key("p"), serde_json::to_vec(&pool).unwrap());
        put(
            map::group_key(pool.id, group.index),
            serde_json::to_vec(&group).unwrap(),
        );
        let node = NodeId(1);
        let origin = Origin {
            core: 0,
            front: FrontId(1),
            tag: 1,
            arrived: Time(0),
            parsed: Time(0),
            kept: Time(0),
            trace: TraceId::NONE,
            host: HostKey::NONE,
            generation: Generation(0),
            snapshot: amita_types::SnapshotId::HEAD,
        };
        let mut rig = Rig {
            origin,
            pool,
            metadata: Metadata::default(),
            directory: Directory::new(node, CORES, OpenerConfig::new(node, "")),
            generation: Generation(0),
            now: Time(1_000_000_000),
            leaves: Vec::new(),
            stays: 0,
            dropped: 0,
            replies: Vec::new(),
            openings: Vec::new(),
            lost: Vec::new(),
        };
        rig.directory.open(rig.now, origin, "v");
        rig.run(&mut metadata);
        assert!(rig.directory.is_open(VOLUME));
        // Whoever has opened it goes again: a volume that nobody uses is handed over.
        let opening = rig.openings.pop().expect("it was opened");
        rig.directory.close(opening);
        rig.metadata = metadata;
        rig
    }

    fn run(&mut self, metadata: &mut Metadata) {
        while let Some(effect) = self.directory.next() {
            match effect {
                Effect::Call { call, request } => {
                    let reply = metadata.txn(&request).unwrap();
                    self.directory.metadata(self.now, call, Ok(reply));
                }
                Effect::MakeShards { opened } => {
                    self.generation = opened.generation;
                    for _ in 0..CORES {
                        self.directory.shard_made(opened.volume.id, opened.generation);
                    }
                }
                Effect::Leave { attempt, .. } => self.leaves.push(attempt),
                Effect::Stay { .. } => self.stays += 1,
                Effect::DropShards { .. } => self.dropped += 1,
                Effect::Reply {
                    message: Message::Released { outcome, .. },
                    ..
                } => self.replies.push(outcome),
                Effect::Opened { result, .. } => self.openings.push(result.expect("nothing is in its way").0),
                Effect::Lost { known, .. } => self.lost.push(known),
                other => panic!("{other:?}"),
            }
        }
    }

    fn settle(&mut self) {
        self.run(&mut Metadata::default());
    }

    /// The operator wishes for the volume at node 2, which asks for it.
    fn ask(&mut self) {
        self.ask_as(2, self.generation, true);
    }

    fn ask_as(&mut self, node: u32, generation: Generation, hand_over: bool) {
        let asker = Requester {
            node: NodeId(node),
            core: 0,
            link: Link(1),
            tag: 1,
        };
        let wish = map::Move {
            volume: "v".to_owned(),
            to: NodeId(2),
            number: 1,
            refused: None,
        };
        let mut view = View::default();
        view.apply(&Record {
            key: map::move_key(VOLUME),
            value: Some(serde_json::to_vec(&wish).unwrap()),
            revision: 1,
            created: 1,
        });
        self.directory
            .release(self.now, asker, VOLUME, generation, hand_over, &view);
        self.settle();
    }

    fn left(&mut self, attempt: u64, core: usize) {
        self.directory.left(self.now, VOLUME, (self.generation, attempt), core);
        self.settle();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
        self.directory.end_late_leaves(self.now);
        self.settle();
    }
}

#[test]
fn a_volume_is_released_when_every_core_has_ended_what_it_had() {
    let mut rig = Rig::new();
    rig.ask();
    let attempt = rig.leaves[0];
    for core in 0..CORES {
        assert!(rig.replies.is_empty(), "core {core} is at work");
        rig.left(attempt, core);
        // Said again, it does not count for another core.
        rig.left(attempt, core);
    }
    assert_eq!(rig.replies, [ReleaseOutcome::Released]);
    assert_eq!(rig.dropped, 1);
}

/// Who is patient asks again while cores end what they have: the volume is on its way to him, and he is told so once, where he asked last.
#[test]
fn who_asks_again_for_what_is_on_its_way_to_him_is_told_once() {
    let mut rig = Rig::new();
    rig.ask_as(3, rig.generation, false);
    rig.ask_as(3, rig.generation, false);
    assert!(rig.replies.is_empty(), "{:?}", rig.replies);
    assert_eq!(rig.leaves.len(), 1);
    let [newest, other] = [(Link(7), 1), (Link(1), 2)].map(|(link, tag)| Requester {
        node: NodeId(3),
        core: 0,
        link,
        tag,
    });
    let view = View::default();
    rig.directory
        .release(rig.now, newest, VOLUME, rig.generation, false, &view);
    rig.settle();
    assert!(rig.replies.is_empty(), "{:?}", rig.replies);
    // Another opening of that node, or of another generation, is another question.
    rig.directory
        .release(rig.now, other, VOLUME, rig.generation, false, &view);
    rig.settle();
    assert_eq!(rig.replies, [ReleaseOutcome::Busy { clients: 0 }]);
    for core in 0..CORES {
        rig.directory
            .left(rig.now, VOLUME, (rig.generation, rig.leaves[0]), core);
    }
    let told = std::iter::from_fn(|| rig.directory.next()).find_map(|effect| match effect {
        Effect::Reply { link, message, .. } => Some((link, message)),
        _ => None,
    });
    assert!(
        matches!(
            told,
            Some((
                Link(7),
                Message::Released {
                    tag: 1,
                    outcome: ReleaseOutcome::Released
                }
            ))
        ),
        "{told:?}"
    );
}

/// The word of core 1 about the first attempt is on its way for long: the volume has stayed since, and that core took
/// I/O in again. Were it counted for the second attempt, the leases of the stores would be given back while core 1
/// serves by them.
#[test]
fn a_late_word_of_an_earlier_attempt_releases_nothing() {
    let mut rig = Rig::new();
    rig.ask();
    let first = rig.leaves[0];
    rig.left(first, 0);
    rig.left(first, 2);
    rig.pass(super::moves::LEAVE_PATIENCE);
    assert_eq!(
        (rig.stays, &rig.replies[..]),
        (1, &[ReleaseOutcome::Busy { clients: 0 }][..])
    );

    rig.ask();
    let second = rig.leaves[1];
    assert_ne!(first, second);
    rig.left(second, 0);
    rig.left(second, 2);
    rig.left(first, 1);
    assert_eq!(rig.replies.len(), 1, "core 1 has I/O under way");
    assert_eq!(rig.dropped, 0);
    rig.left(second, 1);
    assert_eq!(rig.replies[1], ReleaseOutcome::Released);
    assert_eq!(rig.dropped, 1);
}

/// The same with the numbers left out of account: what the rule is for.
#[test]
fn without_numbers_a_late_word_would_release_the_volume() {
    let mut rig = Rig::new();
    rig.directory.faults = Faults::NONE.with(Fault::AnyAttempt);
    rig.ask();
    rig.pass(super::moves::LEAVE_PATIENCE);
    rig.ask();
    let (first, second) = (rig.leaves[0], rig.leaves[1]);
    rig.left(second, 0);
    rig.left(second, 2);
    rig.left(first, 1);
    assert_eq!(rig.replies[1], ReleaseOutcome::Released);
}

/// The three ways in which a peer that lies could take a volume that hosts use: by naming a generation that nobody has, by the
/// name of a wish that is somebody else's, and both at once.
#[test]
fn a_volume_in_use_is_released_to_nobody_who_may_not_have_it() {
    let open = |users: u64| {
        let mut rig = Rig::new();
        for _ in 0..users {
            let origin = rig.origin;
            rig.directory.open(rig.now, origin, "v");
        }
        rig.settle();
        rig
    };
    let mut rig = open(1);
    rig.ask_as(3, Generation::MAX, false);
    rig.ask_as(3, Generation::MAX, true);
    rig.ask_as(3, rig.generation.next().unwrap(), false);
    rig.ask_as(3, rig.generation, false);
    let busy = |clients| ReleaseOutcome::Busy { clients };
    let not = ReleaseOutcome::NotOwner;
    assert_eq!(rig.replies, [not, not, not, busy(1)]);
    assert!(rig.leaves.is_empty() && rig.directory.is_open(VOLUME));
    // NVMe hosts use it without being counted.
    let mut rig = open(0);
    rig.ask_as(3, rig.generation, true);
    assert_eq!(rig.replies, [busy(0)], "the operator wants it at node 2");
    assert!(rig.leaves.is_empty());
    rig.ask_as(2, rig.generation, true);
    assert_eq!(rig.leaves.len(), 1);

    // With the rule switched off one message takes it.
    let mut rig = open(1);
    rig.directory.faults = Faults::NONE.with(Fault::AnyRelease);
    rig.ask_as(3, Generation::MAX, false);
    assert_eq!(rig.leaves.len(), 1);
}

/// Node 5 owns the volume and has said nothing. Whoever else says "released", in its name or by an older answer of it, would make
/// the new owner's stores let it in while node 5 reads by its leases.
#[test]
fn only_the_owner_that_was_asked_releases_a_volume() {
    let mut rig = Rig::new();
    let mut metadata = Metadata::default();
    let mut put = |key: String, value: Vec<u8>| drop(metadata.txn(&Call::put(key, value)).unwrap());
    let volume = map::Volume {
        generation: Generation(6),
        owner: Some(NodeId(5)),
        ..map::Volume::new(VolumeId(8), "w", "p", 1 << 30)
    };
    put(map::volume_key("w"), serde_json::to_vec(&volume).unwrap());
    put(map::pool_key("p"), serde_json::to_vec(&rig.pool).unwrap());
    put(map::live_key(NodeId(5)), b"{}".to_vec());
    let origin = rig.origin;
    rig.directory.open(rig.now, origin, "w");
    let mut asked = None;
    let mut calls = 0;
    let mut turn = |rig: &mut Rig, asked: &mut Option<u64>| {
        while let Some(effect) = rig.directory.next() {
            match effect {
                Effect::Call { call, request } => {
                    calls += 1;
                    let reply = metadata.txn(&request).unwrap();
                    rig.directory.metadata(rig.now, call, Ok(reply));
                }
                Effect::Ask { tag, .. } => *asked = Some(tag),
                _ => {}
            }
        }
        calls
    };
    let before = turn(&mut rig, &mut asked);
    let tag = asked.expect("its owner lives, and is asked");
    rig.directory.released(tag, NodeId(3), ReleaseOutcome::Released);
    rig.directory
        .released(tag ^ 1 << 32, NodeId(5), ReleaseOutcome::Released);
    assert_eq!(turn(&mut rig, &mut asked), before, "node 5 has said nothing");
    rig.directory.released(tag, NodeId(5), ReleaseOutcome::Released);
    assert!(turn(&mut rig, &mut asked) > before, "the generation is raised");
}

/// Another gateway asks for the volume, which this node's record names.
fn asked_by_another(rig: &mut Rig) -> Option<ReleaseOutcome> {
    let mut view = View::default();
    let record = map::Volume {
        generation: rig.generation,
        owner: Some(NodeId(1)),
        ..map::Volume::new(VOLUME, "v", "p", 1 << 30)
    };
    view.apply(&Record {
        key: map::volume_key("v"),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: 1,
        created: 1,
    });
    let asker = Requester {
        node: NodeId(3),
        core: 0,
        link: Link(1),
        tag: 1,
    };
    rig.directory
        .release(rig.now, asker, VOLUME, rig.generation, false, &view);
    let mut said = None;
    while let Some(effect) = rig.directory.next() {
        match effect {
            Effect::Reply {
                message: Message::Released { outcome, .. },
                ..
            } => said = Some(outcome),
            Effect::DropShards { .. } => rig.dropped += 1,
            _ => {}
        }
    }
    said
}

/// The record names this node as soon as the generation is raised, and the groups are still to be read: whoever asks then, and is told
/// that nobody has the volume, deposes this node of what its hosts have just begun to use.
#[test]
fn a_volume_that_is_being_opened_for_somebody_is_in_use() {
    let mut rig = Rig::new();
    rig.ask();
    for core in 0..CORES {
        rig.left(rig.leaves[0], core);
    }
    assert_eq!(
        asked_by_another(&mut rig),
        Some(ReleaseOutcome::NotOwner),
        "nobody has it"
    );
    // For a member that is to be brought up to date, and no host.
    let (name, nobody) = ("v", super::Waiting::default());
    rig.directory.begin(rig.now, name, nobody, (Consent::Asked, false));
    assert_eq!(
        asked_by_another(&mut rig),
        Some(ReleaseOutcome::NotOwner),
        "no host waits here"
    );
    let origin = rig.origin;
    rig.directory.open(rig.now, origin, "v");
    assert_eq!(asked_by_another(&mut rig), Some(ReleaseOutcome::Busy { clients: 0 }));
}

/// A gateway that has just begun has not been told of all records when its first host comes: the volume is in use all the same, from
/// when the record names this node.
#[test]
fn a_volume_that_a_host_waits_for_is_in_use_before_the_records_are_told() {
    for waits in [false, true] {
        let mut rig = Rig::new();
        let mut metadata = std::mem::take(&mut rig.metadata);
        rig.directory = Directory::new(NodeId(1), CORES, OpenerConfig::new(NodeId(1), ""));
        if waits {
            rig.directory.open(rig.now, rig.origin, "v");
        } else {
            rig.directory
                .begin(rig.now, "v", super::Waiting::default(), (Consent::Asked, false));
        }
        let asker = Requester {
            node: NodeId(2),
            core: 0,
            link: Link(1),
            tag: 1,
        };
        // At each step from the raise on: what the metadata has answered and the opener has not heard, and the cores' making.
        let mut calls = 0;
        let mut said = Vec::new();
        while let Some(effect) = rig.directory.next() {
            match effect {
                Effect::Call { call, request } => {
                    let reply = metadata.txn(&request).unwrap();
                    calls += 1;
                    let record = metadata.txn(&Call::get(map::volume_key("v"))).unwrap();
                    let record: map::Volume = record.value(0).unwrap().json().unwrap();
                    if waits && record.owner == Some(NodeId(1)) && record.generation > rig.generation {
                        let view = View::default();
                        rig.directory
                            .release(rig.now, asker, VOLUME, record.generation, false, &view);
                    }
                    rig.directory.metadata(rig.now, call, Ok(reply));
                }
                Effect::MakeShards { opened } => {
                    let generation = opened.generation;
                    rig.directory
                        .release(rig.now, asker, VOLUME, generation, false, &View::default());
                }
                Effect::Reply {
                    message: Message::Released { outcome, .. },
                    ..
                } => said.push(outcome),
                Effect::DropShards { .. } => rig.dropped += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(calls > 0);
        if waits {
            assert!(said.len() > 1, "{said:?}");
            assert!(
                said.iter().all(|said| *said == ReleaseOutcome::Busy { clients: 0 }),
                "{said:?}"
            );
        } else {
            // Who is told so takes it, and what is opened for nobody ends.
            assert_eq!((said, rig.dropped), (vec![ReleaseOutcome::NotOwner], 1));
        }
    }
}

/// Its new owner is on its way. That a member is to be brought up to date is its business now: to take the volume back at once would
/// cut the hosts off for whom it was asked for.
#[test]
fn a_volume_that_was_handed_over_is_not_taken_back_for_upkeep() {
    let mut rig = Rig::new();
    rig.ask_as(2, rig.generation, false);
    for core in 0..CORES {
        rig.left(rig.leaves[0], core);
    }
    assert_eq!(rig.replies, [ReleaseOutcome::Released]);
    let mut view = View::default();
    let mut put = |key: String, value: Vec<u8>| {
        view.apply(&Record {
            key,
            value: Some(value),
            revision: 1,
            created: 1,
        });
    };
    // As it was before: this node has not heard of the new owner.
    for key in [map::volume_key("v"), map::pool_key("p")] {
        let reply = rig.metadata.txn(&Call::get(key.as_str())).unwrap();
        put(key, reply.value(0).unwrap().value.clone());
    }
    let group = map::Group {
        index: amita_types::GroupIndex(0),
        epoch: amita_types::Epoch(2),
        members: Vec::new(),
        in_sync: vec![amita_types::StoreId(1)],
        syncing: vec![map::Syncing {
            store: amita_types::StoreId(2),
            since: amita_types::Epoch(2),
        }],
    };
    put(
        map::group_key(rig.pool.id, group.index),
        serde_json::to_vec(&group).unwrap(),
    );
    put(
        map::live_key(NodeId(1)),
        serde_json::to_vec(&map::Live {
            stores: None,
            session: 1,
            pid: 1,
            version: map::METADATA_VERSION,
        })
        .unwrap(),
    );
    let begun = |rig: &mut Rig| {
        rig.directory.stir(rig.now);
        rig.directory.tick(rig.now, &view);
        std::iter::from_fn(|| rig.directory.next()).any(|effect| matches!(effect, Effect::Call { .. }))
    };
    assert!(!begun(&mut rig), "it is on its way");
    // Who asked for it may have died.
    rig.now = rig.now.plus(Duration::from_secs(3));
    assert!(begun(&mut rig), "nobody has taken it");
}

/// The other gateway takes the volume after it was told that nobody has it here. A host that comes between its question and its raise
/// must not be served by what is about to be deposed.
#[test]
fn who_said_that_he_does_not_have_a_volume_opens_it_anew_for_a_host() {
    for made in [false, true] {
        let mut rig = Rig::new();
        rig.ask();
        for core in 0..CORES {
            rig.left(rig.leaves[0], core);
        }
        let mut metadata = std::mem::take(&mut rig.metadata);
        rig.directory
            .begin(rig.now, "v", super::Waiting::default(), (Consent::Asked, false));
        let mut generation = None;
        while let Some(effect) = rig.directory.next() {
            match effect {
                Effect::Call { call, request } if made => {
                    let reply = metadata.txn(&request).unwrap();
                    rig.directory.metadata(rig.now, call, Ok(reply));
                }
                Effect::MakeShards { opened } => generation = Some(opened.generation),
                _ => {}
            }
        }
        assert_eq!(generation.is_some(), made);
        if let Some(made) = generation {
            // Who has read the record before this node raised it takes nothing.
            let dropped = rig.dropped;
            assert_eq!(asked_by_another(&mut rig), Some(ReleaseOutcome::NotOwner));
            assert_eq!(rig.dropped, dropped);
            rig.generation = made;
        }
        let origin = rig.origin;
        let dropped = rig.dropped;
        let said = asked_by_another(&mut rig);
        assert_eq!(said, Some(ReleaseOutcome::NotOwner));
        assert_eq!(
            rig.dropped - dropped,
            usize::from(made),
            "what the cores have made goes"
        );
        rig.directory.open(rig.now, origin, "v");
        let begun: Vec<Effect> = std::iter::from_fn(|| rig.directory.next()).collect();
        assert!(
            matches!(begun[..], [Effect::Call { .. }]),
            "the record is read again: {begun:?}"
        );
        // What the cores say of the generation that was given up comes late, and opens nothing.
        for _ in 0..CORES {
            rig.directory.shard_made(VOLUME, generation.unwrap_or(Generation(0)));
        }
        assert!(!rig.directory.is_open(VOLUME));
    }
}

/// Node 2 is to have the volume, and this node's cores have I/O of hosts under way. A third node that is told that nobody has the
/// volume takes it away from both.
#[test]
fn a_volume_that_is_handed_over_is_in_use_until_then() {
    let mut rig = Rig::new();
    rig.ask();
    assert_eq!(asked_by_another(&mut rig), Some(ReleaseOutcome::Busy { clients: 0 }));
    for core in 0..CORES {
        rig.left(rig.leaves[0], core);
    }
    assert_eq!(
        rig.replies,
        [ReleaseOutcome::Released],
        "as if the other one had not asked"
    );
    assert_eq!(asked_by_another(&mut rig), Some(ReleaseOutcome::NotOwner));
}

/// A deleted volume that can be had back, and that was cloned: what its clones need is found there, and hosts find nothing.
#[test]
fn of_a_deleted_volume_only_what_its_clones_need_is_served() {
    let mut rig = Rig::new();
    let deleted = VolumeId(8);
    let record = map::Volume {
        generation: Generation(6),
        ..map::Volume::new(deleted, &map::hidden_name(deleted), "p", 1 << 30)
    };
    let mut view = View::default();
    view.apply(&Record {
        key: map::volume_key(&record.name),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: 1,
        created: 1,
    });
    let mut seek = |for_clones| {
        rig.directory.seek(rig.now, 0, (deleted, for_clones), &[], &view);
        std::iter::from_fn(|| rig.directory.next()).collect::<Vec<_>>()
    };
    let nowhere = |effects: &[Effect]| {
        let way = VolumeRoute::Nowhere;
        matches!(effects, [Effect::VolumeRoute { volume, way: found, .. }] if (*volume, *found) == (deleted, way))
    };
    let effects = seek(false);
    assert!(nowhere(&effects), "{effects:?}");
    let effects = seek(true);
    assert!(
        matches!(effects[..], [Effect::Call { .. }]),
        "it is opened: {effects:?}"
    );
    let effects = seek(false);
    assert!(nowhere(&effects), "not for hosts, while it is: {effects:?}");
}

/// Who has it open brings it what the mirror's other end has: the record is read, and it is taken from nobody.
#[test]
fn of_a_closed_volume_the_record_has_the_last_word() {
    for is_open_by_now in [false, true] {
        let mut rig = Rig::new();
        let mut metadata = rig.metadata.clone();
        let mut record: map::Volume = metadata.get(&map::volume_key("v")).unwrap().json().unwrap();
        record.owner = Some(NodeId(2));
        let open = serde_json::to_vec(&record).unwrap();
        record.closed = Some(Box::new(map::Closed {
            mirror: amita_types::MirrorId(77),
            name: "dr".to_owned(),
            since: record.generation,
        }));
        let closed = serde_json::to_vec(&record).unwrap();
        let mut view = View::default();
        view.apply(&Record {
            key: map::volume_key("v"),
            value: Some(closed.clone()),
            revision: 1,
            created: 1,
        });
        let kept = if is_open_by_now { open } else { closed };
        metadata.txn(&Call::put(map::volume_key("v"), kept)).unwrap();
        rig.directory = Directory::new(NodeId(1), CORES, OpenerConfig::new(NodeId(1), ""));
        rig.directory.seek(rig.now, 0, (VOLUME, false), &[], &view);
        let mut ways = Vec::new();
        while let Some(effect) = rig.directory.next() {
            match effect {
                Effect::Call { call, request } => {
                    let reply = metadata.txn(&request).unwrap();
                    rig.directory.metadata(rig.now, call, Ok(reply));
                }
                Effect::MakeShards { opened } => {
                    for _ in 0..CORES {
                        rig.directory.shard_made(VOLUME, opened.generation);
                    }
                }
                Effect::VolumeRoute { way, .. } => ways.push(way),
                _ => {}
            }
        }
        // Its owner of before is gone.
        let wanted = if is_open_by_now {
            VolumeRoute::Here
        } else {
            VolumeRoute::Closed
        };
        assert_eq!(ways, [wanted], "{is_open_by_now}");
    }
}

/// A volume was made smaller before we came to own it, and the watch brings an older record of it behind that.
#[test]
fn a_record_from_before_our_ownership_says_nothing_of_the_size() {
    let mut rig = Rig::new();
    let size = |rig: &Rig| {
        let mut states = rig.directory.volumes.values();
        let found = states.find_map(|state| match state {
            super::State::Open { info, .. } => Some(info.size_bytes),
            _ => None,
        });
        found.expect("it is open")
    };
    rig.directory.resized(VOLUME, Generation(rig.generation.0 - 1), 2 << 30);
    assert_eq!(size(&rig), 1 << 30);
    rig.directory.resized(VOLUME, rig.generation, 2 << 30);
    assert_eq!(size(&rig), 2 << 30);
}

const MOVED: VolumeId = VolumeId(8);

/// One that has a user, and has moved: what it is now is being opened.
fn moved() -> (Rig, Metadata) {
    let mut rig = Rig::new();
    rig.directory.open(rig.now, rig.origin, "v");
    rig.settle();
    let metadata = has_moved(&mut rig);
    (rig, metadata)
}

/// The volume that is open moves.
fn has_moved(rig: &mut Rig) -> Metadata {
    let mut metadata = rig.metadata.clone();
    let before: map::Volume = metadata.get(&map::volume_key("v")).unwrap().json().unwrap();
    let moved = map::Volume { id: MOVED, ..before };
    let call = Call::put(map::volume_key("v"), serde_json::to_vec(&moved).unwrap());
    metadata.txn(&call).unwrap();
    rig.directory.switched(rig.now, VOLUME, MOVED, &View::default());
    metadata
}

/// Another gateway.
fn asker() -> Requester {
    Requester {
        node: NodeId(2),
        core: 0,
        link: Link(1),
        tag: 1,
    }
}

fn asks_for(rig: &mut Rig, volume: VolumeId, view: &View) -> Vec<ReleaseOutcome> {
    rig.directory
        .release(rig.now, asker(), volume, rig.generation, false, view);
    rig.settle();
    std::mem::take(&mut rig.replies)
}
