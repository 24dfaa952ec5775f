//! Words of before that come when a volume was lost and is open again, and users of what has moved and cannot be opened yet.

use super::super::openers::MAX_OPENERS;
use super::*;
use amita_metadata as meta;

const BUSY: ReleaseOutcome = ReleaseOutcome::Busy { clients: 0 };

/// Somebody opens the volume: by this number.
fn opens(rig: &mut Rig) -> OpeningId {
    let mut metadata = rig.metadata.clone();
    rig.directory.open(rig.now, rig.origin, "v");
    rig.run(&mut metadata);
    rig.metadata = metadata;
    rig.openings.pop().expect("it is open")
}

fn clients(rig: &mut Rig, volume: VolumeId) -> Vec<ReleaseOutcome> {
    rig.generation = rig.directory.open_generation(volume).unwrap_or(rig.generation);
    asks_for(rig, volume, &View::default())
}

/// Were the word of the first one's end counted, the volume would be given away under the second.
#[test]
fn who_closes_what_was_lost_takes_nobody_off_who_has_opened_it_since() {
    for times in 1..=2 {
        let mut rig = Rig::new();
        let mut before = Vec::new();
        for _ in 0..times {
            before.push(opens(&mut rig));
            let generation = rig.generation;
            assert!(rig.directory.lost(rig.now, VOLUME, generation));
        }
        let (one, other) = (opens(&mut rig), opens(&mut rig));
        for late in before {
            rig.directory.close(late);
        }
        assert_eq!(clients(&mut rig, VOLUME), [ReleaseOutcome::Busy { clients: 2 }]);
        // Said again, it does not count for another one.
        rig.directory.close(one);
        rig.directory.close(one);
        assert_eq!(clients(&mut rig, VOLUME), [ReleaseOutcome::Busy { clients: 1 }]);
        rig.directory.close(other);
        assert_eq!(clients(&mut rig, VOLUME), []);
        assert_eq!(rig.leaves.len(), 1, "nobody uses it");
    }
}

/// The volume is closed, opened anew, and closed again: that a core has ended what it had of the first does not say that it has ended the second.
#[test]
fn a_closing_has_ended_when_the_cores_have_ended_what_it_closes() {
    let mut rig = Rig::new();
    let wish = map::Closing {
        volume: "v".to_owned(),
        owner: NodeId(1),
        force: true,
        clients: None,
    };
    let mut view = View::default();
    view.apply(&Record {
        key: map::closing_key(VOLUME),
        value: Some(serde_json::to_vec(&wish).unwrap()),
        revision: 1,
        created: 1,
    });
    let closes = |rig: &mut Rig| {
        rig.directory.named(rig.now, VOLUME, "w", &View::default());
        match rig.directory.next() {
            Some(Effect::EndShards { closing, .. }) => closing,
            other => panic!("{other:?}"),
        }
    };
    let has_ended = |rig: &mut Rig| {
        rig.directory.carry_out_closings(rig.now, &view);
        rig.directory.next().is_some()
    };
    let first = closes(&mut rig);
    opens(&mut rig);
    let second = closes(&mut rig);
    for core in 0..CORES {
        rig.directory.shard_ended(VOLUME, first, core);
    }
    assert!(!has_ended(&mut rig));
    for core in 0..CORES {
        rig.directory.shard_ended(VOLUME, second, core);
    }
    assert!(has_ended(&mut rig));
}

/// An older sequencer's end is told late. What is open by now goes on holding.
#[test]
fn the_end_of_an_older_sequencer_ends_no_hold() {
    let mut rig = Rig::new();
    rig.directory.hold(VOLUME, true);
    let older = Generation(rig.generation.0 - 1);
    assert!(!rig.directory.lost(rig.now, VOLUME, older));
    assert!(rig.directory.migrations.holds(VOLUME));
    let generation = rig.generation;
    assert!(rig.directory.lost(rig.now, VOLUME, generation));
    assert!(!rig.directory.migrations.holds(VOLUME));
}

/// A gateway that opens the volume right behind the switch of a move has read of it before it hears of it: that what it moved to has another name
/// now is no news, and no deletion.
#[test]
fn what_is_open_by_a_newer_name_does_not_end_with_an_older_one() {
    let (mut rig, mut metadata) = moved();
    // Nor does what is about to be opened.
    rig.directory.deleted(rig.now, MOVED, "~8", &View::default());
    rig.directory.named(rig.now, MOVED, "v", &View::default());
    comes_to_be_open(&mut rig, &mut metadata);
    rig.directory.deleted(rig.now, MOVED, "~8", &View::default());
    rig.directory.named(rig.now, MOVED, "v", &View::default());
    rig.now = rig.now.plus(Duration::from_secs(1));
    rig.directory.tick(rig.now, &View::default());
    rig.settle();
    assert!(rig.directory.is_open(MOVED) && rig.lost.is_empty());
    // Both names have gone while nobody watched.
    rig.directory.deleted(rig.now, MOVED, "~8", &View::default());
    rig.settle();
    assert!(rig.directory.is_open(MOVED) && rig.lost.is_empty());
    rig.now = rig.directory.deadline().expect("it is in doubt");
    rig.directory.tick(rig.now, &View::default());
    let effects = std::iter::from_fn(|| rig.directory.next());
    assert!(
        effects
            .into_iter()
            .any(|effect| matches!(effect, Effect::EndShards { volume: MOVED, .. }))
    );
}

/// Time passes, and the metadata answers nothing.
fn without_metadata(rig: &mut Rig, time: Duration) {
    let until = rig.now.plus(time);
    loop {
        while let Some(effect) = rig.directory.next() {
            match effect {
                Effect::Call { call, .. } => {
                    let away = meta::Error::Unavailable {
                        what: "away".to_owned(),
                        endpoints: String::new(),
                    };
                    rig.directory.metadata(rig.now, call, Err(away));
                }
                Effect::DropShards { .. } => rig.dropped += 1,
                other => panic!("{other:?}"),
            }
        }
        let due = rig.directory.deadline().expect("it goes on trying");
        if due >= until {
            rig.now = until;
            return;
        }
        rig.now = rig.now.max(due);
        rig.directory.tick(rig.now, &View::default());
    }
}

/// It is open at last, for the one that had it.
fn comes_to_be_open(rig: &mut Rig, metadata: &mut Metadata) {
    // An attempt that has waited for long may end, and another one begin.
    for _ in 0..5 {
        rig.now = rig.now.plus(Duration::from_secs(1));
        rig.directory.tick(rig.now, &View::default());
        rig.run(metadata);
    }
    assert!(rig.directory.is_open(MOVED) && rig.lost.is_empty());
    assert_eq!(rig.directory.migrations.users(MOVED), 0, "they are counted once");
    assert_eq!(clients(rig, MOVED), [ReleaseOutcome::Busy { clients: 1 }]);
}

#[test]
fn who_uses_what_has_moved_keeps_it_while_the_metadata_is_away() {
    let (mut rig, mut metadata) = moved();
    without_metadata(&mut rig, Duration::from_secs(60));
    rig.directory
        .release(rig.now, asker(), MOVED, Generation(99), false, &View::default());
    while let Some(effect) = rig.directory.next() {
        if let Effect::Reply {
            message: Message::Released { outcome, .. },
            ..
        } = effect
        {
            rig.replies.push(outcome);
        }
    }
    assert_eq!(std::mem::take(&mut rig.replies), [BUSY]);
    // What was asked of the metadata and not answered is given up.
    without_metadata(&mut rig, Duration::from_secs(4));
    comes_to_be_open(&mut rig, &mut metadata);
}

#[test]
fn who_uses_what_has_moved_keeps_it_while_there_is_no_room_to_open_it() {
    let mut rig = Rig::new();
    opens(&mut rig);
    for number in 0..MAX_OPENERS {
        rig.directory.open(rig.now, rig.origin, &format!("slow{number}"));
    }
    let calls: Vec<_> = std::iter::from_fn(|| rig.directory.next()).collect();
    let mut metadata = has_moved(&mut rig);
    while rig.directory.next().is_some() {}
    assert_eq!(asks_for(&mut rig, MOVED, &View::default()), [BUSY]);
    rig.now = rig.now.plus(Duration::from_secs(1));
    rig.directory.tick(rig.now, &View::default());
    while rig.directory.next().is_some() {}
    assert_eq!(asks_for(&mut rig, MOVED, &View::default()), [BUSY], "still");
    // It is not deleted under who uses it either, unless by force.
    let mut view = View::default();
    for (force, is_refused) in [(false, true), (true, false)] {
        let wish = map::Closing {
            volume: "v".to_owned(),
            owner: NodeId(1),
            force,
            clients: None,
        };
        view.apply(&Record {
            key: map::closing_key(MOVED),
            value: Some(serde_json::to_vec(&wish).unwrap()),
            revision: 1 + u64::from(force),
            created: 1,
        });
        rig.now = rig.now.plus(Duration::from_secs(1));
        rig.directory.carry_out_closings(rig.now, &view);
        let Some(Effect::Call { request, .. }) = rig.directory.next() else {
            panic!("the wish is answered");
        };
        assert_eq!(matches!(request.then[..], [meta::Op::Put { .. }]), is_refused);
    }
    // Others have ended.
    for effect in calls {
        let Effect::Call { call, request } = effect else {
            continue;
        };
        let reply = Metadata::default().txn(&request).unwrap();
        rig.directory.metadata(rig.now, call, Ok(reply));
    }
    while rig.directory.next().is_some() {}
    comes_to_be_open(&mut rig, &mut metadata);
}

/// What becomes of the volume while what it has moved to is being opened, or is to be.
#[test]
fn who_uses_what_has_moved_is_told_when_it_cannot_be_opened() {
    type Step = fn(&mut Rig, &mut Metadata);
    let changes: [(&str, Step); 4] = [
        ("its record is gone", |rig, _| rig.run(&mut Metadata::default())),
        ("it is closed to hosts", |rig, metadata| {
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
            rig.run(metadata);
        }),
        ("it was renamed", |rig, _| {
            rig.directory.named(rig.now, MOVED, "w", &View::default());
        }),
        ("it was deleted", |rig, _| {
            rig.directory.deleted(rig.now, MOVED, "v", &View::default());
        }),
    ];
    for (what, change) in changes {
        let (mut rig, mut metadata) = moved();
        change(&mut rig, &mut metadata);
        rig.settle();
        assert_eq!(rig.lost, [vec![MOVED]], "{what}");
        assert_eq!(rig.directory.migrations.users(MOVED), 0, "{what}");
        // Who has been told closes it, or does not: it is counted nowhere.
        let opening = rig.openings[0];
        rig.directory.close(opening);
        rig.now = rig.now.plus(Duration::from_secs(1));
        rig.directory.tick(rig.now, &View::default());
        rig.settle();
        assert_eq!(rig.lost.len(), 1, "{what}: once");
    }
}
