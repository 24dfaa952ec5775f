//! What an end is promoted, goes back, and is removed by; and where what it knows is kept.

use super::*;
use crate::admin::mirror::goes_back;
use crate::mirror::{Next, Refused, next};
use amita_types::map::PointName;

/// A volume of it cannot be reverted.
fn is_read_only(meta: &dyn Transact, name: &str) {
    let spec = ExportSpec {
        any_client: true,
        read_only: true,
        ..ExportSpec::default()
    };
    export_volume(meta, name, &spec).unwrap();
}

fn revision(meta: &dyn Transact, key: String) -> u64 {
    let found = meta.txn(&Call::get(key)).unwrap();
    found.value(0).map_or(0, |found| found.mod_revision)
}

/// A far end at point 0-1, which has begun a pass to the next one.
pub(super) fn in_a_pass() -> Mutex<State> {
    let (near, far) = (near(), far());
    let first = cut(&near, 0, 0);
    saw(&far, record(&near).standing);
    let claim = claim(&far);
    begin_pass(&far, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
    let opened = [open(&far, "db"), open(&far, "log")];
    change(&far, |record| {
        for (place, generation) in record.pass.as_mut().unwrap().places.iter_mut().zip(opened) {
            (place.whole, place.generation) = (true, generation);
        }
    });
    arrive(&far, "dr", claim, NOW).unwrap();
    take_sets(&far);
    assert_eq!(arrive(&far, "dr", claim, NOW).unwrap(), Some(true));
    assert_eq!(record(&far).standing.point, Some(first.name));
    cut(&near, 0, 60);
    saw(&far, record(&near).standing);
    begin_pass(&far, "dr", claim, &[1 << 30, 1 << 30]).unwrap().unwrap();
    far
}

/// Who cannot go back is not promoted: else both ends were closed, and none could be opened.
#[test]
fn who_cannot_go_back_to_its_point_is_not_promoted_by_force() {
    let far = in_a_pass();
    is_read_only(&far, "log");
    let refused = force_mirror(&far, "dr").unwrap_err();
    assert!(matches!(refused, AdminError::ReadOnlyExport { .. }), "{refused}");
    assert_eq!(record(&far).standing.role, MirrorRole::Secondary);
    let far = in_a_pass();
    assert_eq!(force_mirror(&far, "dr").unwrap().standing.role, MirrorRole::Promoting);
    // Where nothing was begun nothing goes back.
    let far = in_a_pass();
    change(&far, |record| (record.begun, record.pass) = (None, None));
    is_read_only(&far, "log");
    assert_eq!(force_mirror(&far, "dr").unwrap().standing.role, MirrorRole::Promoting);
}

/// A near end that was deposed, closed, and has one point in common with the other one.
fn deposed() -> (Mutex<State>, PointName) {
    let meta = near();
    let first = cut(&meta, 0, 0);
    depose_mirror(&meta, "dr", MirrorEpoch(1)).unwrap();
    assert!(close_mirrored(&meta, "dr").unwrap());
    saw(
        &meta,
        Standing {
            role: MirrorRole::Primary,
            epoch: MirrorEpoch(1),
            points: vec![first.clone()],
            ..Standing::default()
        },
    );
    (meta, first.name)
}

#[test]
fn nothing_goes_back_where_not_all_can() {
    let (meta, common) = deposed();
    is_read_only(&meta, "log");
    let refused = begin_return(&meta, "dr").unwrap_err();
    assert!(matches!(refused, AdminError::ReadOnlyExport { .. }), "{refused}");
    assert_eq!(record(&meta).returning, None);
    let (meta, _) = deposed();
    assert_eq!(begin_return(&meta, "dr").unwrap(), Some(common));
    let were: Vec<VolumeId> = ["db", "log"].map(|name| volume(&meta, name).unwrap().id).to_vec();
    assert_eq!(record(&meta).returning.unwrap().were, were);
}

#[test]
fn a_resync_is_given_up_by_force_where_nothing_has_gone_back() {
    let (meta, _) = deposed();
    assert!(goes_back(&meta, ID).is_err());
    begin_return(&meta, "dr").unwrap();
    let (found, revision) = goes_back(&meta, ID).unwrap();
    assert_eq!(found.name, "dr");
    let forced = force_mirror(&meta, "dr").unwrap();
    assert_eq!((forced.standing.role, forced.returning), (MirrorRole::Promoting, None));
    // Whoever was about to revert a volume compares a record that is another one by now.
    assert!(goes_back(&meta, ID).is_err());
    assert!(self::revision(&meta, map::mirror_key("dr")) > revision);
    // A volume was reverted, and its runner died before it noted that: by force they would be of two moments.
    let (meta, _) = deposed();
    begin_return(&meta, "dr").unwrap();
    let before = volume(&meta, "log").unwrap();
    let lineage = Lineage {
        host: Some(before.host()),
        ..before.lineage
    };
    let reverted = Volume {
        id: VolumeId(99),
        lineage,
        ..before
    };
    put(&meta, map::volume_key("log"), &reverted);
    assert_eq!(why(force_mirror(&meta, "dr")), Refused::Returning);
    assert_eq!(next(&record(&meta)), Next::Return, "it goes on");
}

fn removed(keep_points: bool) -> (Mutex<State>, Point) {
    let meta = near();
    let point = cut(&meta, 0, 0);
    // Another one is being cut, and the other end was seen.
    assert_eq!(
        cut_point(&meta, "dr", MirrorEpoch(0), NOW + Duration::from_secs(60)).unwrap(),
        Cutting::Waiting
    );
    saw(&meta, Standing::default());
    assert!(snapshot(&meta, "db", &point.snapshots).unwrap().protected);
    remove_mirror(&meta, "dr", keep_points).unwrap();
    let sets: Vec<SnapshotSet> = list(&meta, &map::sets_prefix()).unwrap();
    assert!(!sets.is_empty() && sets.iter().all(|set| matches!(set.state, SetState::Void(_))));
    for key in [
        map::mirror_key("dr"),
        map::mirror_seen_key("dr"),
        map::mirror_id_key(ID),
    ] {
        assert_eq!(revision(&meta, key.clone()), 0, "{key}");
    }
    (meta, point)
}

#[test]
fn a_mirror_that_is_removed_protects_nothing() {
    let (meta, point) = removed(true);
    for name in ["db", "log"] {
        assert!(!snapshot(&meta, name, &point.snapshots).unwrap().protected, "{name}");
        delete_snapshot(&meta, name, &point.snapshots).unwrap();
    }
    let (meta, _) = removed(false);
    for name in ["db", "log"] {
        assert!(snapshots(&meta, name).unwrap().is_empty(), "{name}");
    }
    // Its name and its number are free.
    add_mirror(&meta, &wish(false), &["db".to_owned()]).unwrap();
    assert_eq!(record(&meta).seen, None);
}

fn see(meta: &dyn Transact, claim: u64, standing: &Standing, after: u64) -> Result<Option<Mirror>> {
    let at = NOW.as_secs() + after;
    let seen = Seen {
        standing: standing.clone(),
        at,
        clock: at,
    };
    see_mirror(meta, "dr", claim, &seen)
}

/// What is looked at every few seconds writes nothing that is watched, and little else.
#[test]
fn what_is_seen_has_a_key_of_its_own() {
    let meta = near();
    let claim = claim(&meta);
    let (of_record, of_seen) = (map::mirror_key("dr"), map::mirror_seen_key("dr"));
    assert!(!of_seen.starts_with(&map::mirroring_prefix()));
    let before = revision(&meta, of_record.clone());
    let other = Standing::default();
    see(&meta, claim, &other, 0).unwrap().unwrap();
    let first = revision(&meta, of_seen.clone());
    assert!(first > 0);
    // Whoever has looked knows it at once.
    let fresh = see(&meta, claim, &other, 5).unwrap().unwrap();
    assert_eq!(fresh.seen.unwrap().at, NOW.as_secs() + 5);
    assert_eq!(revision(&meta, of_seen.clone()), first, "it is the same");
    see(&meta, claim, &other, 30).unwrap().unwrap();
    let second = revision(&meta, of_seen.clone());
    assert!(second > first);
    let changed = Standing {
        declined: Some(MirrorEpoch(0)),
        ..other
    };
    see(&meta, claim, &changed, 31).unwrap().unwrap();
    assert!(revision(&meta, of_seen) > second);
    assert_eq!(revision(&meta, of_record), before);
    for found in [
        record(&meta),
        mirrors(&meta).unwrap().remove(0),
        mirror_by_id(&meta, ID).unwrap(),
    ] {
        assert_eq!(found.seen.unwrap().standing, changed);
    }
    assert_eq!(see(&meta, claim + 100, &changed, 90).unwrap(), None);
}

/// One of before has it in its record: it is read there, and moved with the first change.
#[test]
fn a_record_of_before_has_what_was_seen_in_itself() {
    let meta = near();
    let seen = Seen {
        standing: Standing::default(),
        at: 5,
        clock: 5,
    };
    let old = Mirror {
        seen: Some(seen.clone()),
        ..record(&meta)
    };
    put(&meta, map::mirror_key("dr"), &old);
    assert_eq!(record(&meta).seen.as_ref(), Some(&seen));
    let paused = map::Paused {
        by: "somebody".to_owned(),
        at: 1,
    };
    pause_mirror(&meta, "dr", Some(&paused)).unwrap();
    assert_eq!(record(&meta).seen, Some(seen));
    let (kept, _) = get::<Mirror>(&meta, &map::mirror_key("dr")).unwrap().unwrap();
    assert_eq!(kept.seen, None);
    assert!(revision(&meta, map::mirror_seen_key("dr")) > 0);
}

#[test]
fn what_cannot_be_is_not_noted() {
    let meta = near();
    let claim = claim(&meta);
    let absurd = Standing {
        epoch: MirrorEpoch(u64::MAX),
        ..Standing::default()
    };
    assert!(matches!(why(see(&meta, claim, &absurd, 0)), Refused::Absurd(_)));
    assert_eq!(revision(&meta, map::mirror_seen_key("dr")), 0);
    // Nor does the record grow by what the other end says.
    let noted = note_mirror(&meta, "dr", claim, &|record| {
        record.ails = Some("\u{e4}".repeat(1 << 20))
    });
    let ails = noted.unwrap().unwrap().ails.unwrap();
    assert!(ails.len() <= map::MAX_AILS_BYTES && ails.len() > map::MAX_AILS_BYTES - 4);
    for keep in [crate::mirror::MOST_KEPT as u32 + 1, u32::MAX] {
        let many = MirrorWish {
            name: "other",
            id: MirrorId(78),
            keep,
            ..wish(false)
        };
        assert!(
            add_mirror(&near_volumes(), &many, &["db".to_owned()]).is_err(),
            "{keep}"
        );
    }
    let volumes: Vec<String> = (0..=map::MAX_MIRROR_VOLUMES)
        .map(|number| format!("v{number}"))
        .collect();
    let refused = add_mirror(&near_volumes(), &wish(false), &volumes).unwrap_err();
    assert!(refused.to_string().contains("volumes"), "{refused}");
}

/// As many as can be are added by one transaction.
#[test]
fn as_many_volumes_as_can_be_are_mirrored() {
    let meta = near_volumes();
    let volumes: Vec<String> = (0..map::MAX_MIRROR_VOLUMES)
        .map(|number| format!("v{number}"))
        .collect();
    for name in &volumes {
        create_volume(&meta, name, "main", 1 << 20).unwrap();
    }
    assert_eq!(
        add_mirror(&meta, &wish(false), &volumes).unwrap().volumes.len(),
        map::MAX_MIRROR_VOLUMES
    );
}
