//! Volumes of a mirror become larger and smaller as its points are.

use super::ends::in_a_pass;
use super::*;
use amita_types::map::{Flatten, Shrink};
use std::collections::BTreeMap;

const SMALL: u64 = 512 << 20;

fn mark_of(meta: &dyn Transact, volume: &Volume) -> Option<Shrink> {
    about(meta, volume.id).unwrap().shrink
}

/// It was being made smaller when it was closed, and whoever did that has gone.
fn is_marked(meta: &dyn Transact, volume: &Volume) {
    let mut known = about(meta, volume.id).unwrap();
    known.shrink = Some(Shrink {
        size_bytes: SMALL,
        generation: volume.generation,
    });
    put(meta, map::about_key(volume.id), &known);
}

/// A far end in a pass, which has opened a volume.
fn opened() -> (Mutex<State>, u64, Volume) {
    let far = in_a_pass();
    let claim = claim(&far);
    open(&far, "db");
    let opened = volume(&far, "db").unwrap();
    (far, claim, opened)
}

#[test]
fn whoever_has_a_closed_volume_alone_makes_it_as_small_as_the_point_is() {
    let (far, claim, db) = opened();
    let mirror = record(&far);
    is_marked(&far, &db);
    let flatten = Flatten {
        volume: db.id,
        asked_at: 1,
        chunks: 256,
        done: 200,
        ails: None,
        paused: None,
    };
    put(&far, map::flatten_key(db.id), &flatten);
    let small = shrink_mirrored(&far, &db, SMALL, (&mirror, claim)).unwrap().unwrap();
    assert_eq!(
        small,
        Volume {
            size_bytes: SMALL,
            ..db.clone()
        }
    );
    assert_eq!(volume(&far, "db").unwrap(), small);
    assert_eq!(mark_of(&far, &db), None);
    let (flatten, _) = get::<Flatten>(&far, &map::flatten_key(db.id)).unwrap().unwrap();
    let chunks = SMALL.div_ceil(u64::from(pools(&far).unwrap()[0].chunk_bytes));
    assert_eq!((flatten.chunks, flatten.done), (chunks, chunks.min(200)));
    // Once: it is another one by now.
    shrink_mirrored(&far, &db, SMALL, (&mirror, claim)).unwrap_err();
}

#[test]
fn who_is_not_alone_with_it_or_has_lost_the_mirror_leaves_it_as_large_as_it_is() {
    let (far, claim, db) = opened();
    let mirror = record(&far);
    let is_refused = |meta: &Mutex<State>, volume: &Volume| {
        let refused = shrink_mirrored(meta, volume, SMALL, (&mirror, claim)).unwrap_err();
        assert!(refused.to_string().contains("the pass is tried again"), "{refused}");
    };
    // Another one has opened it since, and may have written.
    open(&far, "db");
    is_refused(&far, &db);
    let db = volume(&far, "db").unwrap();
    // What is being taken of it has the size of before.
    let lineage = Lineage {
        taking: true,
        ..db.lineage
    };
    put(&far, map::volume_key("db"), &Volume { lineage, ..db.clone() });
    is_refused(&far, &db);
    put(&far, map::volume_key("db"), &db);
    // Hosts may have it.
    put(
        &far,
        map::volume_key("db"),
        &Volume {
            closed: None,
            ..db.clone()
        },
    );
    is_refused(&far, &db);
    put(&far, map::volume_key("db"), &db);
    put(&far, map::mirror_runner_key("dr"), &"n2");
    assert_eq!(shrink_mirrored(&far, &db, SMALL, (&mirror, claim)).unwrap(), None);
    assert_eq!(volume(&far, "db").unwrap().size_bytes, 1 << 30);
}

/// Else it never grows again: whoever was at it cannot end it, for the volume is closed.
#[test]
fn one_that_was_being_made_smaller_when_it_was_closed_grows_by_a_pass() {
    let (far, claim, db) = opened();
    is_marked(&far, &db);
    let grown = resize_mirrored(&far, "db", 2 << 30, (&record(&far), claim)).unwrap();
    assert_eq!(grown.map(|grown| grown.size_bytes), Some(2 << 30));
    assert_eq!(mark_of(&far, &db), None);
}

/// One that stood still while another one has made it smaller, as a later point has it, or while it was promoted.
#[test]
fn who_has_lost_the_mirror_or_finds_the_volume_open_makes_it_no_larger() {
    let (far, claim, db) = opened();
    let mirror = record(&far);
    put(
        &far,
        map::volume_key("db"),
        &Volume {
            closed: None,
            ..db.clone()
        },
    );
    let refused = resize_mirrored(&far, "db", 2 << 30, (&mirror, claim)).unwrap_err();
    assert!(refused.to_string().contains("open to hosts"), "{refused}");
    put(&far, map::volume_key("db"), &db);
    put(&far, map::mirror_runner_key("dr"), &"n2");
    assert_eq!(resize_mirrored(&far, "db", 2 << 30, (&mirror, claim)).unwrap(), None);
    assert_eq!(volume(&far, "db").unwrap(), db);
}

/// T2: the point's size is a part of it.
#[test]
fn who_goes_back_to_a_point_has_its_size() {
    let far = in_a_pass();
    let claim = claim(&far);
    resize_mirrored(&far, "db", 2 << 30, (&record(&far), claim))
        .unwrap()
        .unwrap();
    force_mirror(&far, "dr").unwrap();
    let point = record(&far).standing.points[0].clone();
    open(&far, "db");
    let owned = volume(&far, "db").unwrap();
    let before = Snapshot {
        number: SnapshotId(owned.lineage.number.0 + 1),
        name: "before".to_owned(),
        size_bytes: owned.size_bytes,
        protected: false,
        labels: BTreeMap::new(),
        set: None,
        state: SnapshotState::Sealed(owned.generation),
        ..snapshot(&far, "db", &point.snapshots).unwrap()
    };
    let named = map::SnapshotName::new(owned.host(), owned.id, before.number);
    put(&far, map::snapshot_key(owned.id, before.number), &before);
    put(&far, map::snapshot_name_key(owned.host(), "before"), &named);
    let lineage = Lineage {
        number: before.number,
        sealed: before.number,
        ..owned.lineage
    };
    put(&far, map::volume_key("db"), &Volume { lineage, ..owned });
    let owned = volume(&far, "db").unwrap();
    let revert = Revert {
        volume: &owned,
        to: &snapshot(&far, "db", &point.snapshots).unwrap(),
        before: &before,
        keep: false,
        now: NOW,
        keys: None,
        mirror: Some(ID),
    };
    assert_eq!(revert_volume(&far, &revert).unwrap().size_bytes, 1 << 30);
}
