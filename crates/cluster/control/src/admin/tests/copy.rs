use super::*;
use amita_types::map::{Copying, SNAPSHOTS_SINCE, Snapshot, SnapshotName, SnapshotState, SnapshotWish};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const NOW: Duration = Duration::from_secs(100);

fn two_pools() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let other = PoolSpec {
        name: "other".to_owned(),
        ..spec(2)
    };
    create_pool(&meta, &other).unwrap();
    create_volume(&meta, "db", "main", 64 * MIB).unwrap();
    meta
}

/// A sealed snapshot, as an owner leaves it that has taken the wish for it.
fn snap(meta: &dyn Transact, name: &str, number: u32, size_bytes: u64) {
    snap_of(meta, "db", name, number, size_bytes);
}

fn snap_of(meta: &dyn Transact, of: &str, name: &str, number: u32, size_bytes: u64) {
    let found = volume(meta, of).unwrap();
    let number = SnapshotId(number);
    let wish_key = map::snapshot_wish_key(found.id);
    let wish = get::<SnapshotWish>(meta, &wish_key).unwrap();
    let record = Snapshot {
        volume: found.id,
        number,
        name: name.to_owned(),
        size_bytes,
        taken_at: 1,
        labels: wish.map(|(wish, _)| wish.labels).unwrap_or_default(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(found.generation),
    };
    let call = Call {
        then: vec![
            subsystem::put(map::snapshot_key(found.id, number), &record),
            subsystem::put(
                map::snapshot_name_key(found.host(), name),
                &SnapshotName { number, data: None },
            ),
            Op::Delete { key: wish_key },
        ],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
}

fn wish<'a>(of: &'a str, snapshots: bool) -> CopyWish<'a> {
    CopyWish {
        of,
        name: "new",
        pool: "other",
        snapshots,
        limit_bytes_per_s: None,
        encrypted: false,
        keys: None,
        now: NOW,
    }
}

/// Somebody is at the copy; the claim.
fn claim(meta: &dyn Transact, volume: VolumeId) -> u64 {
    let reply = meta
        .txn(&Call::put(map::copier_key(volume), b"\"n1\"".to_vec()))
        .unwrap();
    reply.revision
}

fn record(meta: &dyn Transact, volume: VolumeId) -> Copying {
    copy_of(meta, volume).unwrap().unwrap()
}

fn is_refused<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(AdminError::Copying { volume, job, .. }) => assert_eq!((&*volume, &*job), ("new", "copy-2")),
        other => panic!("{other:?}"),
    }
}

/// To which snapshot, and what it is compared with.
fn pass(meta: &dyn Transact, volume: VolumeId) -> (u32, Option<String>) {
    match next_pass(meta, &record(meta, volume)).unwrap() {
        Pass::To { snapshot, base, .. } => (snapshot.number.0, base),
        Pass::Done => (0, None),
    }
}

fn place(meta: &dyn Transact, volume: VolumeId, by: impl Fn(&mut map::CopyPlace)) {
    let held = get::<String>(meta, &map::copier_key(volume)).unwrap().unwrap().1;
    let noted = note_copy(meta, volume, held, &|record| by(&mut record.place)).unwrap();
    assert!(noted.is_some());
}

#[test]
fn what_is_no_copy_yet_is_used_by_nobody() {
    let meta = two_pools();
    let made = copy_volume(&meta, &wish("db", false)).unwrap();
    assert_eq!(
        (made.volume, made.takes, &*made.snapshot),
        (VolumeId(2), true, "copy-2")
    );
    let target = volume(&meta, "new").unwrap();
    assert_eq!((target.size_bytes, &*target.pool), (64 * MIB, "other"));
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    is_refused(export_volume(&meta, "new", &spec));
    is_refused(copy_volume(
        &meta,
        &CopyWish {
            name: "third",
            ..wish("new", false)
        },
    ));
    is_refused(delete_volume(&meta, "new", true, 9, &mut || false));
    for fate in [
        Fate::Recycle {
            deleted_at: 1,
            purge_at: 2,
        },
        Fate::Rename { to: "newer".to_owned() },
    ] {
        is_refused(carry_out(&meta, Deletion::of("new", true, fate), &mut || false));
    }
    create_subsystem(
        &meta,
        &SubsystemSpec {
            name: "s".to_owned(),
            ..SubsystemSpec::default()
        },
    )
    .unwrap();
    is_refused(add_namespace(&meta, "s", "new", None, 4096));
    let import = map::Import {
        format: "raw".to_owned(),
        image_bytes: 4096,
        modified_ns: 0,
        done_bytes: 0,
        ails: None,
        attempt: None,
    };
    is_refused(begin_import(&meta, &target, &import));
    is_refused(note_import(&meta, &target, &import));
    // No more is a snapshot of it, by whomever, or a clone of one that is there.
    is_refused(ask_snapshot(&meta, "new", "s", BTreeMap::new(), NOW));
    is_refused(ask_own_snapshot(&meta, "new", "s", BTreeMap::new(), NOW));
    is_refused(may_take_snapshot(&meta, &target));
    let both = ["db".to_owned(), "new".to_owned()];
    is_refused(ask_set(&meta, &both, "s", BTreeMap::new(), NOW));
    let (found, revision) = get::<map::Volume>(&meta, &map::volume_key("new")).unwrap().unwrap();
    let asked = SnapshotWish {
        volume: "new".to_owned(),
        name: "s".to_owned(),
        asked_at: 1,
        labels: BTreeMap::new(),
        refused: None,
        hold_ms: None,
    };
    is_refused(place_wish(
        &meta,
        &asked,
        (&found, revision),
        0,
        &[],
        &mut Tally::default(),
    ));
    snap_of(&meta, "new", "one", 1, 64 * MIB);
    let about = map::About::of(VolumeId(0));
    is_refused(clone_volume(&meta, "new", "one", "third", &about));
    // And its size is its source's.
    is_refused(resize_volume(&meta, "new", 128 * MIB));
    is_refused(may_shrink(&meta, &target, 32 * MIB));
    // The source is used as ever.
    export_volume(&meta, "db", &spec).unwrap();
    resize_volume(&meta, "db", 128 * MIB).unwrap();
    let held = claim(&meta, made.volume);
    assert!(end_copy(&meta, made.volume, held).unwrap());
    export_volume(&meta, "new", &spec).unwrap();
}

#[test]
fn only_who_holds_the_claim_notes_and_ends() {
    let meta = two_pools();
    let volume = copy_volume(&meta, &wish("db", false)).unwrap().volume;
    assert_eq!(
        note_copy(&meta, volume, 1, &|record| record.place.written_bytes = 7).unwrap(),
        None
    );
    let old = claim(&meta, volume);
    place(&meta, volume, |place| place.written_bytes = 7);
    assert_eq!(record(&meta, volume).place.written_bytes, 7);
    // The lease of the first has ended, and another one has come.
    remove(&meta, &map::copier_key(volume)).unwrap();
    let new = claim(&meta, volume);
    assert_eq!(
        note_copy(&meta, volume, old, &|record| record.place.written_bytes = 9).unwrap(),
        None
    );
    assert!(!end_copy(&meta, volume, old).unwrap());
    assert_eq!(record(&meta, volume).place.written_bytes, 7);
    // What the operator says is no claim's.
    assert!(cancel_copy(&meta, volume).unwrap());
    assert!(record(&meta, volume).cancelled);
    assert!(end_copy(&meta, volume, new).unwrap());
    assert!(!cancel_copy(&meta, volume).unwrap());
}

/// Somebody opens the volume of that name.
fn open(meta: &dyn Transact, name: &str) {
    let mut found = volume(meta, name).unwrap();
    found.generation = found.generation.next().unwrap();
    meta.txn(&Call::put(map::volume_key(name), json(&found))).unwrap();
}

#[test]
fn a_copy_is_whole_only_where_nobody_else_had_it_and_nobody_takes_it_back() {
    let meta = two_pools();
    snap(&meta, "one", 1, 64 * MIB);
    let volume = copy_volume(&meta, &wish("db@one", false)).unwrap().volume;
    let held = claim(&meta, volume);
    assert_eq!(
        complete_copy(&meta, volume, held).unwrap(),
        Completion::Anew,
        "no pass is done"
    );
    place(&meta, volume, |place| {
        (place.base, place.generation) = (SnapshotId(1), amita_types::Generation(1));
    });
    open(&meta, "new");
    // Others write into it behind the last pass.
    open(&meta, "new");
    assert_eq!(complete_copy(&meta, volume, held).unwrap(), Completion::Anew);
    assert!(
        record(&meta, volume).place.mixed,
        "nothing that others wrote is blessed"
    );
    assert_eq!(pass(&meta, volume), (1, None), "all of it is written anew");
    place(&meta, volume, |place| {
        (place.mixed, place.generation) = (false, amita_types::Generation(2));
    });
    assert_eq!(complete_copy(&meta, volume, held - 1).unwrap(), Completion::Lost);
    // It stands still, or is taken back, in the moment between the last pass and its end.
    let paused = map::Paused {
        by: "ann".to_owned(),
        at: 1,
    };
    assert!(pause_copy(&meta, volume, Some(&paused)).unwrap());
    assert_eq!(complete_copy(&meta, volume, held).unwrap(), Completion::Anew);
    assert!(pause_copy(&meta, volume, None).unwrap());
    let before = record(&meta, volume);
    assert!(cancel_copy(&meta, volume).unwrap());
    assert_eq!(complete_copy(&meta, volume, held).unwrap(), Completion::Anew);
    assert!(record(&meta, volume).cancelled);
    meta.txn(&Call::put(map::copying_key(volume), json(&before))).unwrap();
    // Of another size it is no copy.
    let mut found = super::volume(&meta, "new").unwrap();
    found.size_bytes = 128 * MIB;
    meta.txn(&Call::put(map::volume_key("new"), json(&found))).unwrap();
    let why = complete_copy(&meta, volume, held).unwrap_err().to_string();
    assert!(
        why.contains("it has 134217728 bytes") && why.contains("job cancel copy-2"),
        "{why}"
    );
    found.size_bytes = 64 * MIB;
    meta.txn(&Call::put(map::volume_key("new"), json(&found))).unwrap();
    assert_eq!(complete_copy(&meta, volume, held).unwrap(), Completion::Whole);
    // From now on it is a volume as any.
    assert!(!cancel_copy(&meta, volume).unwrap() && !record(&meta, volume).cancelled);
    let why = cancel_job(&meta, &job(&meta, "copy-2", NOW).unwrap())
        .unwrap_err()
        .to_string();
    assert!(why.contains("is a copy by now"), "{why}");
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    export_volume(&meta, "new", &spec).unwrap();
    open(&meta, "new");
    assert_eq!(complete_copy(&meta, volume, held).unwrap(), Completion::Whole);
    assert!(record(&meta, volume).is_due(), "what was taken for it goes still");
    assert!(end_copy(&meta, volume, held).unwrap());
}

#[test]
fn the_snapshot_for_it_is_taken_once_protected_and_goes() {
    let meta = two_pools();
    let made = copy_volume(&meta, &wish("db", false)).unwrap();
    assert!(
        next_pass(&meta, &made).is_err(),
        "it is not known of which moment it is"
    );
    let held = claim(&meta, made.volume);
    assert!(
        take_copy_snapshot(&meta, &made, held - 1, NOW).is_err(),
        "another node is at it"
    );
    assert_eq!(take_copy_snapshot(&meta, &made, held, NOW).unwrap(), None);
    // Asked again, by the same or by who comes behind it.
    assert_eq!(take_copy_snapshot(&meta, &made, held, NOW).unwrap(), None);
    snap(&meta, "copy-2", 1, 64 * MIB);
    let taken = take_copy_snapshot(&meta, &made, held, NOW).unwrap().unwrap();
    assert!(taken.protected, "nobody deletes it unknowingly");
    assert_eq!(taken.labels, BTreeMap::from([(COPY_LABEL.to_owned(), "2".to_owned())]));
    assert!(matches!(
        delete_snapshot(&meta, "db", "copy-2"),
        Err(AdminError::Protected { .. })
    ));
    // Another name of the source hides it from nobody.
    let rename = Fate::Rename { to: "base".to_owned() };
    carry_out(&meta, Deletion::of("db", false, rename), &mut || false).unwrap();
    assert_eq!(take_copy_snapshot(&meta, &made, held, NOW).unwrap(), Some(taken));
    remove_copy_snapshot(&meta, &made).unwrap();
    assert_eq!(snapshots(&meta, "base").unwrap(), []);
    remove_copy_snapshot(&meta, &made).unwrap();
}

#[test]
fn a_snapshot_of_that_name_that_others_have_taken_is_left_alone() {
    let meta = two_pools();
    snap(&meta, "copy-2", 1, 64 * MIB);
    let made = copy_volume(&meta, &wish("db", false)).unwrap();
    assert!(matches!(
        take_copy_snapshot(&meta, &made, claim(&meta, made.volume), NOW),
        Err(AdminError::Exists { .. })
    ));
    remove_copy_snapshot(&meta, &made).unwrap();
    assert_eq!(snapshots(&meta, "db").unwrap().len(), 1);
}

#[test]
fn passes_go_from_snapshot_to_snapshot_and_over_what_is_gone() {
    let meta = two_pools();
    for (number, name) in [(1, "one"), (2, "two"), (4, "four"), (5, "five")] {
        snap(&meta, name, number, 64 * MIB);
    }
    let volume = copy_volume(&meta, &wish("db@five", true)).unwrap().volume;
    claim(&meta, volume);
    assert_eq!(record(&meta, volume).place.total_bytes, 4 * 64 * MIB);
    assert_eq!(pass(&meta, volume), (1, None));
    // The first one goes in the middle of its pass: then it is the second, from nothing.
    delete_snapshot(&meta, "db", "one").unwrap();
    assert_eq!(pass(&meta, volume), (2, None));
    place(&meta, volume, |place| place.base = SnapshotId(2));
    assert_eq!(pass(&meta, volume), (4, Some("two".to_owned())));
    delete_snapshot(&meta, "db", "four").unwrap();
    assert_eq!(pass(&meta, volume), (5, Some("two".to_owned())));
    // A mark tells what was changed, too.
    mark_snapshot(&meta, "db", "two").unwrap();
    assert_eq!(pass(&meta, volume), (5, Some("two".to_owned())));
    // What is not known is written whole, and so is what has no base any more.
    place(&meta, volume, |place| place.mixed = true);
    assert_eq!(pass(&meta, volume), (5, None));
    place(&meta, volume, |place| place.mixed = false);
    delete_snapshot(&meta, "db", "two").unwrap();
    assert_eq!(pass(&meta, volume), (5, None));
    place(&meta, volume, |place| place.base = SnapshotId(5));
    assert_eq!(pass(&meta, volume), (0, None), "it is done");
    place(&meta, volume, |place| place.mixed = true);
    assert_eq!(pass(&meta, volume), (5, None), "others have had it before it was ended");
    // Without what it is to be in the end it does not go on.
    place(&meta, volume, |place| {
        (place.base, place.mixed) = (SnapshotId(0), false)
    });
    delete_snapshot(&meta, "db", "five").unwrap();
    assert!(matches!(
        next_pass(&meta, &record(&meta, volume)),
        Err(AdminError::NoSuch { what: "snapshot", .. })
    ));
}

#[test]
fn without_the_older_snapshots_there_is_one_pass() {
    let meta = two_pools();
    snap(&meta, "one", 1, 32 * MIB);
    snap(&meta, "two", 2, 64 * MIB);
    let volume = copy_volume(&meta, &wish("db@two", false)).unwrap().volume;
    assert_eq!(pass(&meta, volume), (2, None));
    assert_eq!(record(&meta, volume).place.total_bytes, 64 * MIB);
    // With them the target begins as large as the first one.
    let all = CopyWish {
        name: "all",
        ..wish("db@two", true)
    };
    copy_volume(&meta, &all).unwrap();
    assert_eq!(super::super::volume(&meta, "all").unwrap().size_bytes, 32 * MIB);
}

#[test]
fn snapshots_of_other_copies_are_not_copied() {
    let meta = two_pools();
    let first = copy_volume(&meta, &wish("db", false)).unwrap();
    take_copy_snapshot(&meta, &first, claim(&meta, first.volume), NOW).unwrap();
    snap(&meta, "copy-2", 1, 64 * MIB);
    let second = copy_volume(
        &meta,
        &CopyWish {
            name: "all",
            ..wish("db", true)
        },
    )
    .unwrap();
    let held = claim(&meta, second.volume);
    take_copy_snapshot(&meta, &second, held, NOW).unwrap();
    snap(&meta, "copy-3", 2, 64 * MIB);
    place(&meta, second.volume, |place| place.last = Some(SnapshotId(2)));
    assert_eq!(pass(&meta, second.volume), (2, None));
}

#[test]
fn bad_wishes_are_refused_and_leave_nothing() {
    let meta = two_pools();
    snap(&meta, "large", 1, 128 * MIB);
    let text = |wish: &CopyWish<'_>| copy_volume(&meta, wish).unwrap_err().to_string();
    assert!(text(&wish("db", true)).contains("smaller between its snapshots"));
    assert!(text(&wish("none", false)).contains("no volume named"));
    assert!(text(&wish("db@none", false)).contains("no snapshot named"));
    assert!(
        text(&CopyWish {
            pool: "none",
            ..wish("db", false)
        })
        .contains("no pool named")
    );
    assert!(
        text(&CopyWish {
            name: "db",
            ..wish("db", false)
        })
        .contains("exists already")
    );
    assert!(
        text(&CopyWish {
            name: ".x",
            ..wish("db", false)
        })
        .contains("no name")
    );
    let slow = CopyWish {
        limit_bytes_per_s: Some(LEAST_LIMIT - 1),
        ..wish("db", false)
    };
    assert!(text(&slow).contains("are the fewest"));
    set_quota(&meta, "other", |quota| quota.provisioned_bytes = Some(MIB)).unwrap();
    assert!(matches!(
        copy_volume(&meta, &wish("db", false)),
        Err(AdminError::OverQuota { .. })
    ));
    let mut found = cluster(&meta).unwrap();
    found.version = SNAPSHOTS_SINCE - 1;
    meta.txn(&Call::put(map::cluster_key(), json(&found))).unwrap();
    assert!(text(&wish("db", false)).contains("copies need 2"));
    assert_eq!(volumes(&meta).unwrap().len(), 1);
    assert_eq!(copies(&meta).unwrap(), []);
}

#[test]
fn a_copys_snapshots_have_the_names_and_labels_of_the_originals() {
    let meta = two_pools();
    snap(&meta, "one", 1, 64 * MIB);
    let key = map::snapshot_key(VolumeId(1), SnapshotId(1));
    let (mut of, _) = get::<Snapshot>(&meta, &key).unwrap().unwrap();
    of.labels = BTreeMap::from([
        ("app".to_owned(), "x".to_owned()),
        (map::POLICY_LABEL.to_owned(), "4".to_owned()),
    ]);
    let made = copy_volume(&meta, &wish("db@one", true)).unwrap();
    let held = claim(&meta, made.volume);
    let take = || take_point(&meta, &made, &of, held, NOW).unwrap();
    assert_eq!(take(), None);
    let (asked, _) = get::<SnapshotWish>(&meta, &map::snapshot_wish_key(VolumeId(2)))
        .unwrap()
        .unwrap();
    assert_eq!(asked.name, "one");
    let labels = [("amita:copied", "1"), ("app", "x")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(asked.labels, BTreeMap::from(labels), "no policy takes it for its own");
    assert_eq!(take(), None, "it is waited for");
}

#[test]
fn what_a_runner_of_before_has_wished_is_not_taken_of_another_pass() {
    let meta = two_pools();
    for (number, name) in [(1, "one"), (2, "two")] {
        snap(&meta, name, number, 64 * MIB);
    }
    let one = snapshot(&meta, "db", "one").unwrap();
    let made = copy_volume(&meta, &wish("db@two", true)).unwrap();
    let old = claim(&meta, made.volume);
    // Its pass to the first one is done; it has wished its point, and dies.
    assert_eq!(take_point(&meta, &made, &one, old, NOW).unwrap(), None);
    remove(&meta, &map::copier_key(made.volume)).unwrap();
    let new = claim(&meta, made.volume);
    let wish_key = map::snapshot_wish_key(made.volume);
    let stands = || get::<SnapshotWish>(&meta, &wish_key).unwrap().is_some();
    assert!(
        !drop_point_wish(&meta, &made, old).unwrap() && stands(),
        "that is for who is at it"
    );
    assert!(drop_point_wish(&meta, &made, new).unwrap() && !stands());
    assert!(drop_point_wish(&meta, &made, new).unwrap(), "there is none");
    // One that only seems to be dead wishes nothing more.
    assert!(take_point(&meta, &made, &one, old, NOW).is_err() && !stands());
    // Its owner has sealed it in the last moment: nobody knows whether of the whole pass.
    take_point(&meta, &made, &one, new, NOW).unwrap();
    snap_of(&meta, "new", "one", 1, 64 * MIB);
    assert!(!drop_points(&meta, &made, old).unwrap());
    assert_eq!(snapshots(&meta, "new").unwrap().len(), 1);
    assert!(drop_points(&meta, &made, new).unwrap());
    assert_eq!(snapshots(&meta, "new").unwrap(), []);
    // What is of a pass that is done stays.
    take_point(&meta, &made, &one, new, NOW).unwrap();
    snap_of(&meta, "new", "one", 2, 64 * MIB);
    assert!(take_point(&meta, &made, &one, new, NOW).unwrap().is_some());
    place(&meta, made.volume, |place| place.base = SnapshotId(1));
    assert!(drop_points(&meta, &record(&meta, made.volume), new).unwrap());
    assert_eq!(snapshots(&meta, "new").unwrap().len(), 1);
}

#[test]
fn what_was_taken_for_it_goes_also_where_its_source_is_deleted_or_has_another_name() {
    let meta = two_pools();
    let made = copy_volume(&meta, &wish("db", false)).unwrap();
    let held = claim(&meta, made.volume);
    take_copy_snapshot(&meta, &made, held, NOW).unwrap();
    // Renamed while the wish stands: no other wish is there for good.
    let wish_key = map::snapshot_wish_key(VolumeId(1));
    let wished = get::<SnapshotWish>(&meta, &wish_key).unwrap().unwrap().0;
    let rename = Fate::Rename { to: "base".to_owned() };
    carry_out(&meta, Deletion::of("db", false, rename), &mut || false).unwrap();
    meta.txn(&Call::put(wish_key.clone(), json(&wished))).unwrap();
    assert_eq!(take_copy_snapshot(&meta, &made, held, NOW).unwrap(), None);
    remove_copy_snapshot(&meta, &made).unwrap();
    assert!(get::<SnapshotWish>(&meta, &wish_key).unwrap().is_none());
    // One of the same name that is somebody else's stays.
    let others = SnapshotWish {
        labels: BTreeMap::new(),
        ..wished
    };
    meta.txn(&Call::put(wish_key.clone(), json(&others))).unwrap();
    remove_copy_snapshot(&meta, &made).unwrap();
    assert!(get::<SnapshotWish>(&meta, &wish_key).unwrap().is_some());
    remove(&meta, &wish_key).unwrap();
    // In the recycle bin its snapshots stay.
    take_copy_snapshot(&meta, &made, held, NOW).unwrap();
    snap_of(&meta, "base", "copy-2", 1, 64 * MIB);
    assert!(take_copy_snapshot(&meta, &made, held, NOW).unwrap().unwrap().protected);
    let recycle = Fate::Recycle {
        deleted_at: 100,
        purge_at: 100_000,
    };
    carry_out(&meta, Deletion::of("base", false, recycle), &mut || false).unwrap();
    assert!(
        take_copy_snapshot(&meta, &made, held, NOW).is_err(),
        "nobody reads it there"
    );
    remove_copy_snapshot(&meta, &made).unwrap();
    undelete_volume(&meta, "base", None).unwrap();
    assert_eq!(snapshots(&meta, "base").unwrap(), []);
}

#[test]
fn what_is_taken_back_takes_no_later_volume_of_its_name_along() {
    let meta = two_pools();
    let made = copy_volume(&meta, &wish("db", false)).unwrap();
    assert!(cancel_copy(&meta, made.volume).unwrap());
    let fate = Fate::Purge {
        snapshots: true,
        now: 9,
    };
    let remove = || {
        let deletion = Deletion::of("new", true, fate.clone()).only(made.volume);
        carry_out(&meta, deletion, &mut || false)
    };
    assert_eq!(remove().unwrap().volume.id, made.volume);
    // Who has stood still since it looked whether the target is there.
    let others = create_volume(&meta, "new", "main", 64 * MIB).unwrap();
    assert!(matches!(remove(), Err(AdminError::NoSuch { .. })));
    assert_eq!(volume(&meta, "new").unwrap().id, others.id);
}

#[test]
fn a_copy_is_as_large_as_its_source_was() {
    let meta = two_pools();
    let made = copy_volume(&meta, &wish("db", false)).unwrap();
    let held = claim(&meta, made.volume);
    let fit = |size| fit_copy(&meta, &made, held, size);
    // Its source was made smaller, or larger, before it was taken.
    assert_eq!(fit(32 * MIB).unwrap().unwrap().size_bytes, 32 * MIB);
    assert_eq!(fit(96 * MIB).unwrap().unwrap().size_bytes, 96 * MIB);
    assert_eq!(fit_copy(&meta, &made, held - 1, 32 * MIB).unwrap(), None);
    open(&meta, "new");
    let why = fit(32 * MIB).unwrap_err().to_string();
    assert!(
        why.contains("was made smaller") && why.contains("job cancel copy-2"),
        "{why}"
    );
    assert_eq!(fit(128 * MIB).unwrap().unwrap().size_bytes, 128 * MIB);
    set_quota(&meta, "other", |quota| quota.provisioned_bytes = Some(128 * MIB)).unwrap();
    assert!(matches!(fit(256 * MIB), Err(AdminError::OverQuota { .. })));
}

#[test]
fn what_is_taken_for_a_copy_is_no_disk_of_hosts() {
    let meta = two_pools();
    let made = copy_volume(&meta, &wish("db", false)).unwrap();
    take_copy_snapshot(&meta, &made, claim(&meta, made.volume), NOW).unwrap();
    snap(&meta, "copy-2", 1, 64 * MIB);
    create_subsystem(
        &meta,
        &SubsystemSpec {
            name: "s".to_owned(),
            ..SubsystemSpec::default()
        },
    )
    .unwrap();
    let why = add_namespace(&meta, "s", "db@copy-2", None, 4096)
        .unwrap_err()
        .to_string();
    assert!(why.contains("goes with the end of that"), "{why}");
}

#[test]
fn a_copy_is_a_job() {
    let meta = two_pools();
    let volume = copy_volume(&meta, &wish("db", false)).unwrap().volume;
    claim(&meta, volume);
    place(&meta, volume, |place| {
        (place.pass_bytes, place.written_bytes) = (16 * MIB, MIB)
    });
    let found = job(&meta, "copy-2", NOW + Duration::from_secs(4)).unwrap();
    assert_eq!((found.kind, &*found.object), (JobKind::Copy, "new"));
    assert_eq!(
        (found.done, found.total, found.left_s),
        (Some(16 * MIB), Some(64 * MIB), Some(12))
    );
    assert_eq!(found.moved_bytes, Some(MIB));
    let paused = pause_job(&meta, "copy-2", "ann", NOW).unwrap();
    assert_eq!(paused.state, JobState::Paused);
    assert!(!record(&meta, volume).is_due());
    cancel_job(&meta, &paused).unwrap();
    let record = record(&meta, volume);
    assert!(record.cancelled && record.is_due(), "also while it stands still");
    let found = job(&meta, "copy-2", NOW).unwrap();
    assert_eq!(found.actions, []);
    assert!(found.ails.is_some_and(|ails| ails.contains("taken back")));
    // Now it may go, by whoever is at it.
    delete_volume(&meta, "new", true, 9, &mut || false).unwrap();
    assert_eq!(copy_target(&meta, &record).unwrap(), None);
}
