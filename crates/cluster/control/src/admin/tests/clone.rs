use super::*;
use amita_types::map::{About, SNAPSHOTS_SINCE, Snapshot, SnapshotName, SnapshotState};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

fn cluster_with_volume() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "db", "main", 1 << 30).unwrap();
    own(&meta, "db", 4);
    meta
}

/// The volume was opened so often.
fn own(meta: &dyn Transact, name: &str, generation: u32) {
    let volume = Volume {
        generation: Generation(generation),
        ..volume(meta, name).unwrap()
    };
    meta.txn(&Call::put(map::volume_key(name), json(&volume))).unwrap();
}

/// A sealed snapshot, as an owner leaves it.
fn snap(meta: &dyn Transact, name: &str, number: u32, snapshot: &str) {
    let volume = volume(meta, name).unwrap();
    let number = SnapshotId(number);
    let record = Snapshot {
        volume: volume.id,
        number,
        name: snapshot.to_owned(),
        size_bytes: 1 << 29,
        taken_at: 1,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(volume.generation),
    };
    let named = map::snapshot_name_key(volume.id, snapshot);
    meta.txn(&Call::put(map::snapshot_key(volume.id, number), json(&record)))
        .unwrap();
    meta.txn(&Call::put(named, json(&SnapshotName { number, data: None })))
        .unwrap();
}

fn clone(meta: &dyn Transact, volume: &str, snapshot: &str, name: &str) -> Result<Volume> {
    clone_volume(meta, volume, snapshot, name, &About::of(VolumeId(0)))
}

fn count(meta: &dyn Transact, volume: &str) -> u64 {
    snapshots(meta, volume)
        .unwrap()
        .iter()
        .map(|snapshot| snapshot.clones)
        .sum()
}

fn purge(meta: &dyn Transact, name: &str) -> Result<Deleted> {
    delete_volume(meta, name, false, 9, &mut || false)
}

#[test]
fn a_clone_is_a_record_that_pins_its_snapshot() {
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    let made = clone(&meta, "db", "before", "copy").unwrap();
    let origin = volume(&meta, "db").unwrap();
    assert_eq!((made.size_bytes, &made.pool), (1 << 29, &origin.pool));
    assert_eq!((made.generation, made.owner), (Generation(4), None));
    assert_eq!((made.id, made.place()), (VolumeId(2), origin.id));
    assert_eq!(count(&meta, "db"), 1);
    let status = status(&meta).unwrap();
    let shown = |name: &str| {
        let found = status.volumes.iter().find(|found| found.volume.name == name).unwrap();
        (found.parent.clone(), found.clones)
    };
    assert_eq!(
        (shown("db"), shown("copy")),
        ((None, 1), (Some("db@before".to_owned()), 0))
    );

    // A clone of the clone comes from both, and pins the nearest.
    own(&meta, "copy", 7);
    snap(&meta, "copy", 3, "mine");
    let second = clone(&meta, "copy", "mine", "second").unwrap();
    let parents: Vec<(VolumeId, u32, u32)> = second
        .parents
        .iter()
        .map(|parent| (parent.volume, parent.number.0, parent.generation.0))
        .collect();
    assert_eq!(parents, [(made.id, 3, 7), (origin.id, 1, 4)]);
    assert_eq!(
        (second.place(), count(&meta, "db"), count(&meta, "copy")),
        (origin.id, 1, 1)
    );

    // In order, from the last one on.
    purge(&meta, "second").unwrap();
    assert_eq!((count(&meta, "db"), count(&meta, "copy")), (1, 0));
    purge(&meta, "copy").unwrap();
    assert_eq!(count(&meta, "db"), 0);
    delete_snapshot(&meta, "db", "before").unwrap();
    purge(&meta, "db").unwrap();
}

fn hidden(meta: &dyn Transact, volume: &str) -> Vec<(String, u64)> {
    let all = all_snapshots(meta, volume).unwrap();
    let hidden = all.into_iter().filter(|snapshot| snapshot.hidden);
    hidden.map(|snapshot| (snapshot.name, snapshot.clones)).collect()
}

/// What only a mark is left of has its name still, and is nobody's data; a clone has it whole for as long as it needs it.
#[test]
fn a_deleted_snapshot_may_leave_a_mark() {
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    clone(&meta, "db", "before", "copy").unwrap();
    let origin = volume(&meta, "db").unwrap();
    let live = |meta: &dyn Transact| live_snapshots(meta, &origin).unwrap().len();
    let left = |meta: &dyn Transact| snapshot_or_mark(meta, "db", "before").unwrap();
    let marked = mark_snapshot(&meta, "db", "before").unwrap();
    assert!(marked.mark && !marked.hidden && !marked.is_only_marked());
    assert_eq!((live(&meta), left(&meta).clones), (1, 1), "the clone needs it");
    let is_mark = |result: Result<()>| matches!(result, Err(AdminError::OnlyMark { name }) if name == "db@before");
    assert!(is_mark(clone(&meta, "db", "before", "late").map(drop)));
    assert!(is_mark(snapshot(&meta, "db", "before").map(drop)));
    assert!(is_mark(protect_snapshot(&meta, "db", "before", true).map(drop)));
    assert!(is_mark(mark_snapshot(&meta, "db", "before").map(drop)));
    let taken = ask_snapshot(&meta, "db", "before", BTreeMap::new(), Duration::ZERO);
    assert!(
        matches!(taken, Err(AdminError::Exists { .. })),
        "the name is the mark's"
    );
    purge(&meta, "copy").unwrap();
    assert!(left(&meta).is_only_marked());
    assert_eq!((live(&meta), snapshots(&meta, "db").unwrap().len()), (0, 1));
    // Deleted once more it is gone, and its name is free.
    let gone = delete_snapshot(&meta, "db", "before").unwrap();
    assert!(!gone.mark && !gone.hidden);
    assert!(all_snapshots(&meta, "db").unwrap().is_empty());
    assert!(matches!(
        snapshot_or_mark(&meta, "db", "before"),
        Err(AdminError::NoSuch { .. })
    ));
    // One that has clones is hidden, as if it had never been a mark.
    snap(&meta, "db", 2, "again");
    clone(&meta, "db", "again", "copy").unwrap();
    mark_snapshot(&meta, "db", "again").unwrap();
    let gone = delete_snapshot(&meta, "db", "again").unwrap();
    assert!(gone.hidden && !gone.mark);
    assert_eq!(hidden(&meta, "db"), [("again".to_owned(), 1)]);
}

/// A backup leaves a mark of each volume. It has no data, so that it keeps none of them from going for good.
#[test]
fn a_mark_keeps_no_volume() {
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    snap(&meta, "db", 2, "again");
    mark_snapshot(&meta, "db", "before").unwrap();
    let gone = |snapshots: bool| {
        let fate = Fate::Purge { snapshots, now: 9 };
        carry_out(&meta, Deletion::of("db", false, fate), &mut || false)
    };
    let refused = gone(false).unwrap_err();
    assert!(
        matches!(refused, AdminError::HasSnapshots { snapshots: 1, .. }),
        "{refused}"
    );
    mark_snapshot(&meta, "db", "again").unwrap();
    assert!(!gone(false).unwrap().hidden);
    assert!(meta.txn(&Call::prefix("/amita/snapshot")).unwrap().values(0).is_empty());
    // One that somebody was cloned from is data still, and stays with the volume, hidden, until that has gone.
    create_volume(&meta, "db", "main", 1 << 30).unwrap();
    own(&meta, "db", 4);
    snap(&meta, "db", 1, "before");
    clone(&meta, "db", "before", "copy").unwrap();
    mark_snapshot(&meta, "db", "before").unwrap();
    assert!(gone(false).unwrap().hidden);
    assert!(volume(&meta, "copy").is_ok());
}

#[test]
fn a_volume_has_64_marks_and_not_one_more() {
    let meta = cluster_with_volume();
    for number in 1..=65 {
        snap(&meta, "db", number, &format!("s{number}"));
    }
    for number in 1..=64 {
        mark_snapshot(&meta, "db", &format!("s{number}")).unwrap();
    }
    // Not either where two are marked at one moment.
    delete_snapshot(&meta, "db", "s3").unwrap();
    snap(&meta, "db", 66, "s66");
    let race = overtaken(&meta, Box::new(|meta| drop(mark_snapshot(meta, "db", "s66").unwrap())));
    assert!(mark_snapshot(&race, "db", "s65").is_err());
    let refused = mark_snapshot(&meta, "db", "s65").unwrap_err().to_string();
    assert!(refused.contains("64 marks"), "{refused}");
    delete_snapshot(&meta, "db", "s7").unwrap();
    mark_snapshot(&meta, "db", "s65").unwrap();
    // With its volume all of them go.
    purge(&meta, "db").unwrap();
    assert!(meta.txn(&Call::prefix("/amita/snapshot")).unwrap().values(0).is_empty());
}

#[test]
fn a_deleted_snapshot_is_hidden_until_its_last_clone_goes() {
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    clone(&meta, "db", "before", "copy").unwrap();
    clone(&meta, "db", "before", "other").unwrap();
    let deleted = delete_snapshot(&meta, "db", "before").unwrap();
    assert!(deleted.hidden && deleted.clones == 2);
    // No list has it, nobody clones it, and another one may have its name.
    assert!(snapshots(&meta, "db").unwrap().is_empty());
    assert!(matches!(
        clone(&meta, "db", "before", "late"),
        Err(AdminError::NoSuch { what: "snapshot", .. })
    ));
    snap(&meta, "db", 2, "before");
    assert_eq!(snapshots(&meta, "db").unwrap().len(), 1);
    assert_eq!(
        asked(&meta, "main").unwrap().snapshots,
        1,
        "the quota counts what is not deleted"
    );
    let both: Vec<SnapshotId> = live_snapshots(&meta, &volume(&meta, "db").unwrap())
        .unwrap()
        .iter()
        .map(|live| live.number)
        .collect();
    assert_eq!(both, [SnapshotId(1), SnapshotId(2)], "the stores keep it");
    let of = |name: &str| {
        let all = status(&meta).unwrap().volumes;
        all.into_iter().find(|found| found.volume.name == name).unwrap().parent
    };
    assert_eq!(of("copy").as_deref(), Some("db@before (deleted)"));
    purge(&meta, "copy").unwrap();
    assert_eq!(hidden(&meta, "db"), [("before".to_owned(), 1)]);
    purge(&meta, "other").unwrap();
    assert!(hidden(&meta, "db").is_empty(), "it went with its last clone");
    assert_eq!(
        snapshots(&meta, "db").unwrap().len(),
        1,
        "the newer one of the name is another"
    );
}

#[test]
fn a_volume_that_is_deleted_for_good_is_hidden_until_its_last_clone_goes() {
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    clone(&meta, "db", "before", "copy").unwrap();
    snap(&meta, "copy", 1, "mine");
    clone(&meta, "copy", "mine", "second").unwrap();
    assert!(purge(&meta, "copy").unwrap().hidden);
    assert!(purge(&meta, "db").unwrap().hidden);
    let names = |meta: &dyn Transact| -> Vec<(String, usize)> {
        let all = trash(meta).unwrap();
        all.into_iter()
            .map(|found| (found.trashed.name, found.clones))
            .collect()
    };
    assert_eq!(names(&meta), [("db".to_owned(), 1), ("copy".to_owned(), 1)]);
    let due = || purge_what_is_due(&meta, 8, Duration::from_secs(9)).unwrap().gone.len();
    assert_eq!(due(), 0, "what is held stays");
    let asked = purge_volume(&meta, "copy", 0).unwrap();
    assert_eq!(asked.held_by, ["second"]);
    // The last one lets go of its parent, and that of its own.
    assert!(!purge(&meta, "second").unwrap().hidden);
    assert_eq!((due(), due()), (1, 1));
    assert!(names(&meta).is_empty());
}

#[test]
fn a_deleted_clone_holds_its_parent_until_it_is_purged() {
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    clone(&meta, "db", "before", "copy").unwrap();
    let recycle = |name: &str, purge_at| {
        let fate = Fate::Recycle {
            deleted_at: 5,
            purge_at,
        };
        carry_out(&meta, Deletion::of(name, false, fate), &mut || false).unwrap();
    };
    recycle("copy", 10);
    assert_eq!(count(&meta, "db"), 1);
    assert!(delete_snapshot(&meta, "db", "before").unwrap().hidden);
    // Its parent may be deleted for a time, and is not purged before it.
    recycle("db", 20);
    assert_eq!(
        purge_volume(&meta, "db", 0).unwrap().held_by,
        ["copy (deleted, number 2)"]
    );
    let due = |now| {
        let purged = purge_what_is_due(&meta, 1, Duration::from_secs(now)).unwrap();
        assert!(purged.failed.is_empty(), "{purged:?}");
        purged.gone.into_iter().map(|trashed| trashed.name).collect::<Vec<_>>()
    };
    assert!(due(7).is_empty(), "what is held keeps no turn");
    assert_eq!(due(11), ["copy"]);
    assert_eq!(due(11), ["db"]);
    assert!(trash(&meta).unwrap().is_empty());
}

/// What somebody else does.
pub(super) type Act = Box<dyn FnOnce(&Mutex<State>)>;

/// Somebody else is quicker, between what was read and the transaction.
pub(super) struct Overtaken<'a> {
    meta: &'a Mutex<State>,
    by: std::cell::RefCell<Option<Act>>,
}

pub(super) fn overtaken(meta: &Mutex<State>, by: Act) -> Overtaken<'_> {
    Overtaken {
        meta,
        by: Some(by).into(),
    }
}

impl Transact for Overtaken<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        // What only reads compares nothing.
        if !call.compares.is_empty()
            && let Some(by) = self.by.take()
        {
            by(self.meta);
        }
        self.meta.txn(call)
    }
}

#[test]
fn neither_a_clone_nor_a_deletion_passes_the_other_unseen() {
    // The snapshot goes under the clone.
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    let race = overtaken(
        &meta,
        Box::new(|meta| drop(delete_snapshot(meta, "db", "before").unwrap())),
    );
    let late = clone(&race, "db", "before", "copy").unwrap_err();
    assert!(matches!(late, AdminError::NoSuch { what: "snapshot", .. }), "{late}");
    assert!(volume(&meta, "copy").is_err(), "nothing half done");
    // The volume does.
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    let race = overtaken(&meta, Box::new(|meta| drop(purge(meta, "db").unwrap())));
    assert!(clone(&race, "db", "before", "copy").is_err());
    assert!(volumes(&meta).unwrap().is_empty());
    // A clone is made under either.
    for whole in [false, true] {
        let meta = cluster_with_volume();
        snap(&meta, "db", 1, "before");
        let race = overtaken(
            &meta,
            Box::new(|meta| drop(clone(meta, "db", "before", "copy").unwrap())),
        );
        let is_hidden = match whole {
            true => purge(&race, "db").unwrap().hidden,
            false => delete_snapshot(&race, "db", "before").unwrap().hidden,
        };
        assert!(is_hidden);
        let record: Snapshot = meta
            .lock()
            .unwrap()
            .get(&map::snapshot_key(VolumeId(1), SnapshotId(1)))
            .unwrap()
            .json()
            .unwrap();
        assert_eq!((record.clones, record.hidden), (1, !whole));
    }
}

#[test]
fn what_cannot_be_cloned_is_refused_with_a_reason() {
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    let none = clone(&meta, "db", "after", "copy").unwrap_err().to_string();
    assert!(
        none.contains("there is no snapshot") && none.contains("before"),
        "{none}"
    );
    assert!(matches!(
        clone(&meta, "da", "before", "copy"),
        Err(AdminError::NoSuch { what: "volume", .. })
    ));
    assert!(matches!(
        clone(&meta, "db", "before", "db"),
        Err(AdminError::Exists { .. })
    ));
    assert!(clone(&meta, "db", "before", "").is_err());
    assert_eq!(count(&meta, "db"), 0);
    // Levels end somewhere.
    let deep = Volume {
        parents: (0..64)
            .map(|level| map::Parent {
                volume: VolumeId(1000 + level),
                number: SnapshotId(1),
                generation: Generation(1),
            })
            .collect(),
        ..volume(&meta, "db").unwrap()
    };
    meta.txn(&Call::put(map::volume_key("db"), json(&deep))).unwrap();
    let deepest = clone(&meta, "db", "before", "copy").unwrap_err().to_string();
    assert!(deepest.contains("64 times, which is the most"), "{deepest}");
    // Older programs would drop what the records say.
    let mut record = cluster(&meta).unwrap();
    record.version = SNAPSHOTS_SINCE - 1;
    meta.txn(&Call::put(map::cluster_key(), json(&record))).unwrap();
    let old = clone(&meta, "db", "before", "copy").unwrap_err().to_string();
    assert!(old.contains("the cluster's version is 1"), "{old}");
}

/// As its owner does, when all chunks are made.
fn make(meta: &dyn Transact, volume: VolumeId) {
    let key = map::flatten_key(volume);
    let record: map::Flatten = meta
        .txn(&Call::get(key.clone()))
        .unwrap()
        .value(0)
        .unwrap()
        .json()
        .unwrap();
    let record = map::Flatten {
        done: record.chunks,
        ..record
    };
    meta.txn(&Call::put(key, json(&record))).unwrap();
}

fn parents_of(meta: &dyn Transact, name: &str) -> Vec<u64> {
    let parents = volume(meta, name).unwrap().parents;
    parents.iter().map(|parent| parent.volume.0).collect()
}

#[test]
fn a_flat_clone_holds_nothing_and_lies_where_it_lay() {
    let meta = cluster_with_volume();
    let now = Duration::from_secs(5);
    snap(&meta, "db", 1, "before");
    let copy = clone(&meta, "db", "before", "copy").unwrap();
    snap(&meta, "copy", 1, "mine");
    let second = clone(&meta, "copy", "mine", "second").unwrap();
    snap(&meta, "second", 1, "its");
    clone(&meta, "second", "its", "third").unwrap();
    let refused = flatten_volume(&meta, "db", now).unwrap_err().to_string();
    assert!(refused.contains("it is no clone"), "{refused}");

    // It goes on where it was, and may be taken back.
    let asked = flatten_volume(&meta, "copy", now).unwrap();
    assert_eq!(
        (asked.chunks, asked.done),
        ((1 << 29) / u64::from(DEFAULT_CHUNK_BYTES), 0)
    );
    assert_eq!(flatten_volume(&meta, "copy", 2 * now).unwrap(), asked);
    assert!(end_flattens(&meta).unwrap().flat.is_empty(), "not all chunks are made");
    assert!(!end_flatten(&meta, "copy").unwrap());
    assert_eq!(parents_of(&meta, "copy"), [1]);
    assert!(cancel_flatten(&meta, "copy").unwrap() && !cancel_flatten(&meta, "copy").unwrap());
    assert_eq!(flatten_progress(&meta, "copy").unwrap(), FlattenState::Cancelled);

    delete_snapshot(&meta, "db", "before").unwrap();
    flatten_volume(&meta, "copy", now).unwrap();
    make(&meta, copy.id);
    assert_eq!(end_flattens(&meta).unwrap().flat, ["copy"]);
    assert_eq!(flatten_progress(&meta, "copy").unwrap(), FlattenState::Flat);
    assert!(hidden(&meta, "db").is_empty(), "what it held is gone");
    assert_eq!(parents_of(&meta, "copy"), [0; 0]);
    // What comes from it needs nothing behind it, and all lie where the root's chunks do.
    assert_eq!(
        (parents_of(&meta, "second"), parents_of(&meta, "third")),
        (vec![2], vec![3, 2])
    );
    let fourth = clone(&meta, "copy", "mine", "fourth").unwrap();
    assert_eq!(fourth.parents.len(), 1);
    for name in ["copy", "second", "third", "fourth"] {
        assert_eq!(volume(&meta, name).unwrap().place(), VolumeId(1), "{name}");
    }
    assert_eq!(count(&meta, "copy"), 2);
    // The next level.
    flatten_volume(&meta, "second", now).unwrap();
    make(&meta, second.id);
    assert!(end_flatten(&meta, "second").unwrap());
    assert_eq!((parents_of(&meta, "third"), count(&meta, "copy")), (vec![3], 1));
    assert_eq!(volume(&meta, "third").unwrap().place(), VolumeId(1));
}

/// A clone that is made while its parent lets go names what goes, or does not: never what is gone.
#[test]
fn no_clone_is_made_behind_the_back_of_a_flattening() {
    for before_second in [false, true] {
        let meta = cluster_with_volume();
        snap(&meta, "db", 1, "before");
        let copy = clone(&meta, "db", "before", "copy").unwrap();
        snap(&meta, "copy", 1, "mine");
        if before_second {
            clone(&meta, "copy", "mine", "second").unwrap();
        }
        flatten_volume(&meta, "copy", Duration::from_secs(5)).unwrap();
        make(&meta, copy.id);
        let race = overtaken(
            &meta,
            Box::new(|meta| drop(clone(meta, "copy", "mine", "late").unwrap())),
        );
        assert_eq!(end_flattens(&race).unwrap().flat, ["copy"]);
        assert_eq!(parents_of(&meta, "late"), [2]);
        delete_snapshot(&meta, "db", "before").unwrap();
        purge(&meta, "db").unwrap();
    }
    // And one that is deleted meanwhile is deleted.
    let meta = cluster_with_volume();
    snap(&meta, "db", 1, "before");
    let copy = clone(&meta, "db", "before", "copy").unwrap();
    flatten_volume(&meta, "copy", Duration::from_secs(5)).unwrap();
    make(&meta, copy.id);
    let race = overtaken(&meta, Box::new(|meta| drop(purge(meta, "copy").unwrap())));
    assert!(end_flattens(&race).unwrap().flat.is_empty());
    assert_eq!(count(&meta, "db"), 0);
}

/// The record of the snapshot that the first one holds cannot be read: the second one ends all the same.
#[test]
fn a_flattening_that_cannot_end_keeps_no_other_from_ending() {
    let meta = cluster_with_volume();
    let now = Duration::from_secs(5);
    snap(&meta, "db", 1, "before");
    snap(&meta, "db", 2, "after");
    let stuck = clone(&meta, "db", "before", "stuck").unwrap();
    let copy = clone(&meta, "db", "after", "copy").unwrap();
    for volume in [&stuck, &copy] {
        flatten_volume(&meta, &volume.name, now).unwrap();
        make(&meta, volume.id);
    }
    let key = map::snapshot_key(VolumeId(1), SnapshotId(1));
    meta.txn(&Call::put(key, b"?".to_vec())).unwrap();
    let ended = end_flattens(&meta).unwrap();
    assert_eq!(ended.flat, ["copy"]);
    let failed: Vec<VolumeId> = ended.failed.iter().map(|(volume, _)| *volume).collect();
    assert_eq!(failed, [stuck.id], "and it is told");
    assert_eq!(
        (parents_of(&meta, "stuck"), parents_of(&meta, "copy")),
        (vec![1], vec![])
    );
}
