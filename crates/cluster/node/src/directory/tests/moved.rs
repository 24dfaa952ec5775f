//! Volumes that have moved to another pool, and those that use what they have become.

use super::*;

#[test]
fn who_goes_while_what_it_has_moved_to_is_opened_uses_it_no_more() {
    let (mut rig, mut metadata) = moved();
    let opening = rig.openings[0];
    rig.directory.close(opening);
    rig.run(&mut metadata);
    assert!(rig.directory.is_open(MOVED));
    assert_eq!(rig.directory.migrations.users(MOVED), 0);
    let answer = asks_for(&mut rig, MOVED, &View::default());
    assert!(!matches!(answer[..], [ReleaseOutcome::Busy { .. }]), "{answer:?}");
}

/// A core has found that what the volume was is no longer ours, and says so behind the switch: who uses the volume goes on, counted as before, and is
/// told of no loss. When what it has become is lost before it is open he is told, and counted no more.
#[test]
fn who_is_told_of_a_loss_is_counted_no_more_and_who_is_counted_is_told_of_none() {
    let (mut rig, mut metadata) = moved();
    let before = rig.generation;
    assert!(!rig.directory.lost(rig.now, VOLUME, before));
    assert_eq!(rig.directory.migrations.users(MOVED), 1);
    rig.run(&mut metadata);
    let generation = rig.directory.open_generation(MOVED).unwrap();
    let answer = asks_for(&mut rig, MOVED, &View::default());
    assert!(!matches!(answer[..], [ReleaseOutcome::Released]), "{answer:?}");
    assert!(rig.directory.lost(rig.now, MOVED, generation));
    assert!(!rig.directory.lost(rig.now, MOVED, generation), "once");
    assert_eq!(rig.directory.migrations.users(MOVED), 0);
}

#[test]
fn who_uses_a_volume_that_moves_twice_before_it_is_open_is_counted() {
    const AGAIN: VolumeId = VolumeId(9);
    let (mut rig, mut metadata) = moved();
    let before: map::Volume = metadata.get(&map::volume_key("v")).unwrap().json().unwrap();
    let again = map::Volume { id: AGAIN, ..before };
    let call = Call::put(map::volume_key("v"), serde_json::to_vec(&again).unwrap());
    metadata.txn(&call).unwrap();
    rig.directory.switched(rig.now, MOVED, AGAIN, &View::default());
    assert_eq!(rig.directory.migrations.users(MOVED), 0);
    rig.run(&mut metadata);
    assert!(rig.directory.is_open(AGAIN));
    let asker = Requester {
        node: NodeId(2),
        core: 0,
        link: Link(1),
        tag: 3,
    };
    let generation = rig.directory.open_generation(AGAIN).unwrap();
    rig.directory
        .release(rig.now, asker, AGAIN, generation, false, &View::default());
    rig.settle();
    assert_eq!(rig.replies, [ReleaseOutcome::Busy { clients: 1 }]);
}

#[test]
fn who_asks_for_what_a_volume_in_use_moves_to_does_not_have_it() {
    let view = |rig: &Rig, moves: bool| {
        let mut view = View::default();
        let found = rig.metadata.get(&map::volume_key("v")).unwrap();
        let mut record: map::Volume = found.json().unwrap();
        record.lineage.moving = moves.then_some(MOVED);
        view.apply(&Record {
            key: found.key.clone(),
            value: Some(serde_json::to_vec(&record).unwrap()),
            revision: found.mod_revision,
            created: found.create_revision,
        });
        view
    };
    // Whoever asks has read of the switch, and this node has not yet heard of it.
    let mut rig = Rig::new();
    rig.directory.open(rig.now, rig.origin, "v");
    rig.settle();
    let (moving, other) = (view(&rig, true), view(&rig, false));
    assert_eq!(
        asks_for(&mut rig, MOVED, &moving),
        [ReleaseOutcome::Busy { clients: 0 }]
    );
    assert_eq!(asks_for(&mut rig, MOVED, &other), [ReleaseOutcome::NotOwner]);
    // And while this one opens what it is now.
    let (mut rig, mut metadata) = moved();
    let answer = {
        let asker = Requester {
            node: NodeId(2),
            core: 0,
            link: Link(1),
            tag: 2,
        };
        let mut view = View::default();
        let found = metadata.get(&map::volume_key("v")).unwrap();
        view.apply(&Record {
            key: found.key.clone(),
            value: Some(found.value.clone()),
            revision: found.mod_revision,
            created: found.create_revision,
        });
        rig.directory
            .release(rig.now, asker, MOVED, Generation(99), false, &view);
        rig.run(&mut metadata);
        std::mem::take(&mut rig.replies)
    };
    assert_eq!(answer, [ReleaseOutcome::Busy { clients: 0 }]);
    assert!(rig.directory.is_open(MOVED));
}

/// Who has opened a volume for himself goes on with what it has moved to, and keeps it from being taken away as before.
#[test]
fn a_volume_that_has_moved_is_opened_here_for_as_many_as_had_it() {
    let mut rig = Rig::new();
    rig.directory.open(rig.now, rig.origin, "v");
    rig.settle();
    rig.directory.hold(VOLUME, true);
    let mut metadata = has_moved(&mut rig);
    rig.run(&mut metadata);
    assert_eq!(rig.dropped, 1);
    assert!(rig.directory.is_open(MOVED) && !rig.directory.is_open(VOLUME));
    let asker = Requester {
        node: NodeId(2),
        core: 0,
        link: Link(1),
        tag: 1,
    };
    rig.directory
        .release(rig.now, asker, MOVED, rig.generation, false, &View::default());
    rig.settle();
    assert_eq!(rig.replies, [ReleaseOutcome::Busy { clients: 1 }]);
}

/// The volume was opened here for a store that comes back, or for who reads a snapshot: hosts that ask for it are refused all the same.
#[test]
fn a_closed_volume_that_is_open_here_is_for_no_host() {
    for (mirror, is_let_in) in [(None, false), (Some(amita_types::MirrorId(77)), true)] {
        let mut rig = Rig::new();
        let mut metadata = rig.metadata.clone();
        let found = metadata.get(&map::volume_key("v")).unwrap();
        let mut record: map::Volume = found.json().unwrap();
        record.closed = Some(Box::new(map::Closed {
            mirror: amita_types::MirrorId(77),
            name: "dr".to_owned(),
            since: record.generation,
        }));
        record.owner = None;
        let put = Call::put(map::volume_key("v"), serde_json::to_vec(&record).unwrap());
        metadata.txn(&put).unwrap();
        let mut config = OpenerConfig::new(NodeId(1), "");
        config.mirror = mirror;
        rig.directory = Directory::new(NodeId(1), CORES, config);
        let mut asks = |rig: &mut Rig| {
            let mut told = None;
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
                    Effect::Opened { result, .. } => told = Some(result),
                    _ => {}
                }
            }
            told
        };
        type Told = Option<Result<(OpeningId, amita_frontend::VolumeInfo), amita_frontend::OpenError>>;
        let is_refused = |told: Told| match told {
            Some(Ok(_)) => false,
            Some(Err(amita_frontend::OpenError::Refused(why))) => {
                assert!(why.contains("mirror \"dr\""), "{why}");
                true
            }
            other => panic!("{other:?}"),
        };
        // A host asks first, and then one that comes while the volume is opened for another reason, and one when it is open.
        rig.directory.open(rig.now, rig.origin, "v");
        assert_eq!(is_refused(asks(&mut rig)), !is_let_in);
        if is_let_in {
            continue;
        }
        assert!(!rig.directory.is_open(VOLUME));
        let begun = (Consent::Asked, false);
        rig.directory.begin(rig.now, "v", Waiting::default(), begun);
        rig.directory.open(rig.now, rig.origin, "v");
        assert!(is_refused(asks(&mut rig)));
        assert!(rig.directory.is_open(VOLUME));
        rig.directory.open(rig.now, rig.origin, "v");
        assert!(is_refused(asks(&mut rig)));
        let open = rig.directory.volumes.get("v");
        assert!(matches!(open, Some(State::Open { users, .. }) if users.is_empty()));
    }
}
