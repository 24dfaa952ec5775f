//! Mirrors of two volumes: what is closed, sealed, reverted and opened, and in which order.

use super::*;
use amita_types::map::{Closed, Lineage, Pool, PoolKind, SetState, Snapshot, SnapshotSet, SnapshotState, Volume};
use amita_types::placement::Level;
use amita_types::{Generation, NodeId, PoolId, SnapshotId};

const VOLUMES: [(&str, VolumeId); 2] = [("db", VolumeId(5)), ("log", VolumeId(6))];

fn put(meta: &dyn Transact, key: String, value: &impl serde::Serialize) {
    let value = serde_json::to_vec(value).expect("JSON");
    meta.txn(&Call::put(key, value)).expect("a model");
}

/// The metadata of an end that is this, whose volumes gateways have open; or which are closed for the mirror.
fn with_volumes(own: Mirror, is_closed: bool) -> (Mutex<State>, u64) {
    let volumes = VOLUMES.iter().map(|(name, id)| MirrorVolume {
        name: (*name).to_owned(),
        id: *id,
    });
    let (meta, claim) = meta(&Mirror {
        volumes: volumes.collect(),
        ..own
    });
    let pool = Pool {
        failure_domain: Level::Node,
        class: None,
        id: PoolId(1),
        name: "main".to_owned(),
        kind: PoolKind::Replicated {
            copies: 1,
            min_copies: 1,
        },
        groups: 1,
        chunk_bytes: 4 << 20,
    };
    put(&meta, map::pool_key("main"), &pool);
    for (name, id) in VOLUMES {
        let closed = Closed {
            mirror: MirrorId(77),
            name: "dr".to_owned(),
            since: Generation(3),
        };
        let volume = Volume {
            generation: Generation(3),
            owner: (!is_closed).then_some(NodeId(1)),
            closed: is_closed.then(|| Box::new(closed)),
            ..Volume::new(id, name, "main", 1 << 30)
        };
        put(&meta, map::volume_key(name), &volume);
    }
    (meta, claim)
}

fn volume(meta: &dyn Transact, name: &str) -> Volume {
    admin::volume(meta, name).expect("a volume")
}

fn are_closed(meta: &dyn Transact) -> [bool; 2] {
    VOLUMES.map(|(name, _)| volume(meta, name).closed.is_some())
}

/// A gateway opens the volume.
fn open(meta: &dyn Transact, name: &str) {
    let found = volume(meta, name);
    let generation = found.generation.next().expect("another one");
    put(meta, map::volume_key(name), &Volume { generation, ..found });
}

/// The owner of this volume takes what is asked for, under the generation that it has; and the set goes with the last one.
fn take(meta: &dyn Transact, name: &str, is_last: bool) {
    let reply = meta.txn(&Call::prefix(map::sets_prefix())).expect("a model");
    let sets = reply
        .values(0)
        .iter()
        .filter_map(|found| found.json::<SnapshotSet>().ok());
    let set = sets
        .into_iter()
        .find(|set| set.state == SetState::Taking)
        .expect("a set");
    let found = volume(meta, name);
    assert!(set.has(found.id), "{set:?}");
    let number = SnapshotId(found.lineage.number.0 + 1);
    let snapshot = Snapshot {
        volume: found.id,
        number,
        name: set.name.clone(),
        size_bytes: found.size_bytes,
        taken_at: set.asked_at,
        labels: set.labels.clone(),
        protected: false,
        state: SnapshotState::Sealed(found.generation),
        set: Some(set.id),
        clones: 0,
        hidden: false,
        mark: false,
    };
    let key = map::snapshot_key(found.id, number);
    assert!(meta.txn(&Call::get(key.clone())).expect("a model").value(0).is_none());
    put(meta, key, &snapshot);
    let of_name = map::SnapshotName::new(found.host(), found.id, number);
    put(meta, map::snapshot_name_key(found.host(), &set.name), &of_name);
    let lineage = Lineage {
        number,
        sealed: number,
        ..found.lineage
    };
    put(meta, map::volume_key(name), &Volume { lineage, ..found });
    if is_last {
        let gone = Call {
            then: vec![amita_metadata::Op::Delete {
                key: map::set_key(set.id),
            }],
            ..Call::default()
        };
        meta.txn(&gone).expect("a model");
    }
}

/// T1, T5: of all volumes, and under generations that came after the closing.
#[test]
fn the_last_point_is_whole_and_cut_behind_the_closing() {
    let (meta, claim) = with_volumes(record(standing(MirrorRole::Demoting, 2, &[])), false);
    let (there, time) = (There::default(), Time::is(NOW));
    let (mut turn, mut hands) = (Turn::new("dr", claim), Did::new());
    let mut goes = || turn.turn(&meta, Some(&there), &mut hands, &time);
    let soon = Ok(Turned::Rest(SOON));
    assert_eq!(goes(), soon);
    assert_eq!(are_closed(&meta), [true, true]);
    open(&meta, "db");
    take(&meta, "db", false);
    assert_eq!(goes(), soon);
    assert_eq!(
        now_is(&meta).standing.role,
        MirrorRole::Demoting,
        "one volume is no point"
    );
    open(&meta, "log");
    take(&meta, "log", true);
    assert_eq!(goes(), Ok(Turned::Again));
    let after = now_is(&meta);
    assert!(after.standing.handed, "{after:?}");
    let last = after
        .standing
        .point
        .and_then(|point| after.standing.find(point))
        .expect("a last point");
    for (name, _) in VOLUMES {
        let taken = admin::snapshot(&meta, name, &last.snapshots).expect("taken");
        assert!(
            taken.protected && taken.state == SnapshotState::Sealed(Generation(5)),
            "{taken:?}"
        );
    }
    assert_eq!(there.looks.get(), 0, "hosts wait, and it may be dead");
}

#[test]
fn what_an_owner_of_before_has_sealed_is_no_last_point() {
    let (meta, claim) = with_volumes(record(standing(MirrorRole::Demoting, 2, &[])), false);
    let (mut turn, mut hands) = (Turn::new("dr", claim), Did::new());
    let mut goes = || turn.turn(&meta, None, &mut hands, &Time::is(NOW));
    assert_eq!(goes(), Ok(Turned::Rest(SOON)));
    open(&meta, "db");
    take(&meta, "db", false);
    // Under the generation that the closing has raised, which nobody opened it by.
    take(&meta, "log", true);
    assert_eq!(goes(), Ok(Turned::Rest(SOON)));
    let after = now_is(&meta);
    assert!(
        after.standing.role == MirrorRole::Demoting && after.cutting.is_none() && after.standing.points.is_empty(),
        "{after:?}"
    );
}

/// At point 2-1, and in the middle of a pass to the next one when it was promoted.
fn promoted_in_a_pass() -> Mirror {
    Mirror {
        begun: Some(name(2, 2)),
        ..record(Standing {
            point: Some(name(2, 1)),
            ..standing(MirrorRole::Promoting, 3, &[point(name(2, 1), 90)])
        })
    }
}

/// T2, T15; and neither an end that may be dead, nor other mirrors' passes, hold it up.
#[test]
fn one_that_is_promoted_in_a_pass_goes_back_with_all_volumes_and_then_opens_them() {
    let (meta, claim) = with_volumes(promoted_in_a_pass(), true);
    let time = Rc::new(Time::is(NOW));
    let there = There {
        slow: Some((Rc::clone(&time), Duration::from_secs(15))),
        ..There::default()
    };
    let mut turn = Turn::new("dr", claim);
    let mut hands = Did {
        has_room: false,
        reverts: Some((Rc::clone(&time), Duration::from_secs(1))),
        ..Did::new()
    };
    let mut goes = || turn.turn(&meta, Some(&there), &mut hands, &*time);
    assert_eq!((goes(), goes()), (Ok(Turned::Again), Ok(Turned::Again)));
    assert_eq!(are_closed(&meta), [true, true]);
    assert_eq!(goes(), Ok(Turned::Rest(SOON)), "what they are now is taken first");
    for (name, _) in VOLUMES {
        open(&meta, name);
        take(&meta, name, name == "log");
    }
    assert_eq!(goes(), Ok(Turned::Again));
    assert_eq!(now_is(&meta).standing.role, MirrorRole::Promoting);
    assert_eq!(goes(), Ok(Turned::Again));
    assert_eq!(now_is(&meta).standing.role, MirrorRole::Primary);
    assert_eq!(are_closed(&meta), [false, false]);
    assert_eq!(there.looks.get(), 0);
    // Now there is time for it.
    assert_eq!((goes(), there.looks.get()), (Ok(EVERY), 1));
    assert_eq!(
        hands.done.into_inner(),
        ["revert 5 to 2-1 false", "revert 6 to 2-1 false"]
    );
}

/// A fail-over that takes long looks at times, and waits for an end that is dead at most once in a while.
#[test]
fn who_waits_for_a_dead_end_between_its_steps_does_so_once_a_minute() {
    let (meta, claim) = with_volumes(promoted_in_a_pass(), true);
    let time = Rc::new(Time::is(NOW));
    let there = There {
        slow: Some((Rc::clone(&time), Duration::from_secs(15))),
        ..There::default()
    };
    let mut turn = Turn::new("dr", claim);
    let mut hands = Did {
        reverts: Some((Rc::clone(&time), Duration::from_secs(70))),
        ..Did::new()
    };
    let mut looks = Vec::new();
    for _ in 0..3 {
        turn.turn(&meta, Some(&there), &mut hands, &*time).expect("it goes on");
        looks.push(there.looks.get());
    }
    // Both reverts are done, and the set is waited for: many turns, and no look.
    for _ in 0..8 {
        let done = turn.turn(&meta, Some(&there), &mut hands, &*time);
        assert_eq!(done, Ok(Turned::Rest(SOON)));
    }
    looks.push(there.looks.get());
    assert_eq!(looks, [0, 1, 2, 2]);
}

/// What fails is tried again by somebody, who looks at nothing before either: a later epoch is heard of all the same.
#[test]
fn one_whose_steps_fail_hears_of_a_later_epoch() {
    let own = Mirror {
        odd: true,
        ..promoted_in_a_pass()
    };
    let (meta, claim) = with_volumes(own, true);
    let there = There::is(standing(MirrorRole::Primary, 4, &[]));
    let (mut turn, mut hands) = (Turn::new("dr", claim), Did::new());
    let failed = turn.turn(&meta, Some(&there), &mut hands, &Time::is(NOW));
    assert!(failed.is_err_and(|why| why.what == "as planned"));
    assert_eq!(there.looks.get(), 1);
    let done = turn.turn(&meta, Some(&there), &mut hands, &Time::is(NOW));
    assert_eq!(
        (done, now_is(&meta).standing.role),
        (Ok(Turned::Again), MirrorRole::Deposed)
    );
    assert_eq!(are_closed(&meta), [true, true]);
}

/// T11, T12: what it was is kept, for nobody has said that it is worth nothing; and it is closed before.
#[test]
fn one_that_goes_back_by_an_operators_word_keeps_what_it_is() {
    let own = Mirror {
        returning: Some(Returning {
            to: Some(name(2, 1)),
            done: vec![VolumeId(5)],
            were: Vec::new(),
            given_up: false,
        }),
        seen: saw(standing(MirrorRole::Primary, 3, &[point(name(2, 1), 90)])),
        ..record(standing(MirrorRole::Deposed, 2, &[point(name(2, 1), 90)]))
    };
    let (meta, claim) = with_volumes(own, false);
    let (mut turn, time) = (Turn::new("dr", claim), Rc::new(Time::is(NOW)));
    let mut hands = Did {
        has_room: false,
        reverts: Some((Rc::clone(&time), Duration::ZERO)),
        ..Did::new()
    };
    let there = There::default();
    let done = turn.turn(&meta, Some(&there), &mut hands, &*time);
    assert_eq!((done, there.looks.get()), (Ok(Turned::Again), 0));
    assert_eq!(are_closed(&meta), [true, true]);
    assert_eq!(hands.done.into_inner(), ["revert 6 to 2-1 true"]);
    assert_eq!(
        now_is(&meta).returning.map(|returning| returning.done),
        Some(vec![VolumeId(5), VolumeId(6)])
    );
}
