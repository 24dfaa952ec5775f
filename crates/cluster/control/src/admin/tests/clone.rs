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
        state: SnapshotState::Sealed(volume.generation),
    };
    let named = map::snapshot_name_key(volume.id, snapshot);
    meta.txn(&Call::put(map::snapshot_key(volume.id, number), json(&record)))
        .unwrap();
    meta.txn(&Call::put(named, json(&SnapshotName { number }))).unwrap();
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
    delete_volume(meta, name, false, &mut || false)
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

    // What is held does not go, and says by whom.
    let held = delete_snapshot(&meta, "db", "before").unwrap_err();
    assert!(
        matches!(&held, AdminError::HasClones { clones, .. } if clones == &["copy"]),
        "{held}"
    );
    assert!(
        held.to_string()
            .contains("snapshot db@before cannot go: a volume was cloned from it"),
        "{held}"
    );
    let held = purge(&meta, "copy").unwrap_err();
    assert!(matches!(&held, AdminError::HasClones { what: "volume", .. }), "{held}");
    // In order, from the last one on.
    purge(&meta, "second").unwrap();
    assert_eq!((count(&meta, "db"), count(&meta, "copy")), (1, 0));
    purge(&meta, "copy").unwrap();
    assert_eq!(count(&meta, "db"), 0);
    delete_snapshot(&meta, "db", "before").unwrap();
    purge(&meta, "db").unwrap();
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
    let held = delete_snapshot(&meta, "db", "before").unwrap_err().to_string();
    assert!(held.contains("copy (deleted, number 2)"), "{held}");
    // Its parent may be deleted for a time, and is not purged before it.
    recycle("db", 6);
    let held = purge_volume(&meta, "db").unwrap_err();
    assert!(matches!(held, AdminError::HasClones { .. }), "{held}");
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
type Act = Box<dyn FnOnce(&Mutex<State>)>;

/// Somebody else is quicker, between what was read and the transaction.
struct Overtaken<'a> {
    meta: &'a Mutex<State>,
    by: std::cell::RefCell<Option<Act>>,
}

fn overtaken(meta: &Mutex<State>, by: Act) -> Overtaken<'_> {
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
        let held = match whole {
            true => purge(&race, "db").map(drop),
            false => delete_snapshot(&race, "db", "before").map(drop),
        };
        let held = held.unwrap_err();
        assert!(matches!(held, AdminError::HasClones { .. }), "{held}");
        assert_eq!(count(&meta, "db"), 1);
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
