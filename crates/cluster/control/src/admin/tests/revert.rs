//! Reverts: the transaction, what it must not pass, and all that goes from a volume to what it was.

use super::*;
use crate::policy::runner::Clock;
use amita_types::map::{
    About, Export, Flatten, Import, MAX_FORMER, Parent, Shrink, Snapshot, SnapshotName, SnapshotSet, SnapshotState,
    SnapshotWish,
};
use amita_types::{SetId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_800_000_000);
const SIZE: u64 = 1 << 30;

fn cluster_with_volume() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "db", "main", SIZE).unwrap();
    own(&meta, "db");
    meta
}

fn record(meta: &dyn Transact, volume: &Volume) {
    meta.txn(&Call::put(map::volume_key(&volume.name), json(volume)))
        .unwrap();
}

/// The volume is opened once more.
fn own(meta: &dyn Transact, name: &str) -> Volume {
    let before = volume(meta, name).unwrap();
    let now = Volume {
        generation: before.generation.next().unwrap(),
        ..before
    };
    record(meta, &now);
    now
}

/// A sealed snapshot, as the volume's owner leaves it.
fn snap(meta: &dyn Transact, name: &str, snapshot: &str) -> Snapshot {
    let mut volume = volume(meta, name).unwrap();
    let number = SnapshotId(volume.lineage.number.0 + 1);
    (volume.lineage.number, volume.lineage.sealed) = (number, number);
    let taken = Snapshot {
        volume: volume.id,
        number,
        name: snapshot.to_owned(),
        size_bytes: volume.size_bytes,
        taken_at: NOW.as_secs(),
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(volume.generation),
    };
    record(meta, &volume);
    let named = SnapshotName::new(volume.host(), volume.id, number);
    for call in [
        Call::put(map::snapshot_key(volume.id, number), json(&taken)),
        Call::put(map::snapshot_name_key(volume.host(), snapshot), json(&named)),
    ] {
        meta.txn(&call).unwrap();
    }
    taken
}

/// As the command does, with `kept` taken before.
fn revert_by(meta: &dyn Transact, to: &str, kept: &str, keep: bool) -> Result<Volume> {
    let owned = own(meta, "db");
    let before = snap(meta, "db", kept);
    let to = snapshot(meta, "db", to)?;
    let revert = Revert {
        volume: &owned,
        to: &to,
        before: &before,
        keep,
        now: NOW,
        keys: None,
        mirror: None,
    };
    revert_volume(meta, &revert)
}

fn revert(meta: &dyn Transact, to: &str, kept: &str) -> Volume {
    revert_by(meta, to, kept, true).unwrap()
}

/// Does something else before the first transaction that changes something.
struct Racing<'a> {
    meta: &'a Mutex<State>,
    changes: AtomicUsize,
    what: &'a (dyn Fn(&Mutex<State>) + Sync),
}

impl Transact for Racing<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if !call.is_read_only() && self.changes.fetch_add(1, Ordering::Relaxed) == 0 {
            (self.what)(self.meta);
        }
        self.meta.txn(call)
    }
}

fn racing<'a>(meta: &'a Mutex<State>, what: &'a (dyn Fn(&Mutex<State>) + Sync)) -> Racing<'a> {
    Racing {
        meta,
        changes: AtomicUsize::new(0),
        what,
    }
}

fn names(meta: &dyn Transact) -> Vec<String> {
    let all = snapshots(meta, "db").unwrap();
    all.into_iter().map(|snapshot| snapshot.name).collect()
}

fn clone(meta: &dyn Transact, snapshot: &str, name: &str) -> Result<Volume> {
    clone_volume(meta, "db", snapshot, name, &About::of(VolumeId(0)))
}

fn purge(meta: &dyn Transact, name: &str) -> Deleted {
    delete_volume(meta, name, false, NOW.as_secs(), &mut || false).unwrap()
}

/// All that goes by itself goes.
fn sweep(meta: &dyn Transact) -> Vec<VolumeId> {
    let (mut bin, mut former) = (Bin::default(), FormerSweep::default());
    let mut gone = Vec::new();
    for _ in 0..8 {
        let clock = Clock {
            wall: NOW,
            steady: Duration::ZERO,
        };
        let purged = bin.purge_what_is_due(meta, 64, clock).unwrap();
        assert!(purged.failed.is_empty() && purged.warnings.is_empty(), "{purged:?}");
        gone.extend(purged.gone.iter().map(|trashed| trashed.volume));
        let swept = former.sweep(meta).unwrap();
        assert!(swept.failed.is_empty(), "{swept:?}");
        gone.extend(swept.gone.iter().map(|(data, _)| *data));
    }
    gone
}

/// No key of what has gone is left.
fn assert_nothing_is_left(meta: &dyn Transact, of: &[u64]) {
    let all = meta.txn(&Call::prefix(map::PREFIX)).unwrap();
    for found in all.values(0) {
        let path = found.key.strip_prefix(map::PREFIX).unwrap();
        let kind = path.split('/').next().unwrap();
        let of_volume = |id: &u64| {
            path.split('/')
                .skip(1)
                .any(|part| *part == id.to_string() || *part == format!(".{id}"))
        };
        let kinds = [
            "volumes",
            "snapshots",
            "snapshot-names",
            "about",
            "trash",
            "exports",
            "scrub",
            "flattening",
            "taking",
            "whole",
        ];
        assert!(
            !(kinds.contains(&kind) && of.iter().any(of_volume)),
            "{} is left",
            found.key
        );
    }
}

#[test]
fn the_snapshot_is_cloned_in_the_place_of_the_volume() {
    let meta = cluster_with_volume();
    label_volume(&meta, "db", &BTreeMap::from([("team".to_owned(), "x".to_owned())]), &[]).unwrap();
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    export_volume(&meta, "db", &spec).unwrap();
    snap(&meta, "db", "a");
    let made = revert(&meta, "a", "kept");
    let parent = Parent {
        volume: VolumeId(1),
        number: SnapshotId(1),
        generation: Generation(1),
    };
    assert_eq!(volume(&meta, "db").unwrap(), made);
    assert_eq!(
        (made.id, made.host(), &*made.parents),
        (VolumeId(2), VolumeId(1), &[parent][..])
    );
    assert_eq!(
        (made.size_bytes, made.generation, made.owner),
        (SIZE, Generation(2), None)
    );
    assert_eq!(
        (made.lineage.number, made.lineage.sealed),
        (SnapshotId(2), SnapshotId(2))
    );
    assert_eq!((made.place(), made.former.clone()), (VolumeId(1), vec![VolumeId(1)]));
    let (former, _) = get::<Volume>(&meta, &map::volume_key(".1")).unwrap().unwrap();
    assert!(
        former.is_former() && former.host() == VolumeId(1) && former.id == VolumeId(1),
        "{former:?}"
    );
    assert_eq!(map::check_chain(&former), Ok(()));
    // What is known of it, and to whom it is served, goes by the new number.
    assert_eq!(about(&meta, VolumeId(2)).unwrap().labels.len(), 1);
    assert_eq!(get::<About>(&meta, &map::about_key(VolumeId(1))).unwrap(), None);
    let served: Vec<VolumeId> = exports(&meta).unwrap().iter().map(|export| export.volume).collect();
    assert_eq!(served, [VolumeId(2)]);
    // It is no clone, has none, and is one volume.
    let status = status(&meta).unwrap();
    let [shown] = &status.volumes[..] else {
        panic!("{:?}", status.volumes)
    };
    assert_eq!((&shown.parent, shown.clones, shown.export.is_some()), (&None, 0, true));
    assert_eq!((status.deleted_volumes, trash(&meta).unwrap().len()), (0, 0));
    assert!(clones(&meta, &made, None).unwrap().is_empty());
    assert_eq!(names(&meta), ["a", "kept"]);
}

#[test]
fn nothing_is_kept_where_nothing_is_to_be() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    revert_by(&meta, "a", "kept", false).unwrap();
    assert_eq!(names(&meta), ["a"]);
    assert!(snapshot(&meta, "db", "kept").is_err());
    // Unless somebody wants it.
    own(&meta, "db");
    let owned = volume(&meta, "db").unwrap();
    let before = snap(&meta, "db", "later");
    clone(&meta, "later", "copy").unwrap();
    let to = snapshot(&meta, "db", "a").unwrap();
    let revert = Revert {
        volume: &owned,
        to: &to,
        before: &before,
        keep: false,
        now: NOW,
        keys: None,
        mirror: None,
    };
    revert_volume(&meta, &revert).unwrap();
    assert_eq!(names(&meta), ["a", "later"]);
}

#[test]
fn it_goes_forth_and_back_and_all_snapshots_are_the_volumes() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    snap(&meta, "db", "b");
    revert(&meta, "a", "k1");
    snap(&meta, "db", "c");
    // Forth again, to a newer one of what it was; and to one of what it is.
    let made = revert(&meta, "b", "k2");
    assert_eq!(made.former, [VolumeId(2), VolumeId(1)]);
    assert_eq!((made.parents.len(), made.parents[0].number), (1, SnapshotId(2)));
    let made = revert(&meta, "c", "k3");
    let levels: Vec<(u64, u32)> = made
        .parents
        .iter()
        .map(|level| (level.volume.0, level.number.0))
        .collect();
    assert_eq!(levels, [(2, 4), (1, 1)], "{made:?}");
    assert_eq!(made.former, [VolumeId(3), VolumeId(2), VolumeId(1)]);
    assert_eq!(
        names(&meta),
        ["a", "b", "k1", "c", "k2", "k3"],
        "in the order in which they were taken"
    );
    let numbers: Vec<u32> = snapshots(&meta, "db")
        .unwrap()
        .iter()
        .map(|found| found.number.0)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "no number is of two of them");
    assert_eq!((made.host(), made.place()), (VolumeId(1), VolumeId(1)));
    // A name is one among all of them.
    for taken in ["a", "k1", "c", "k3"] {
        let refused = ask_snapshot(&meta, "db", taken, BTreeMap::new(), NOW).unwrap_err();
        assert!(matches!(refused, AdminError::Exists { .. }), "{taken}: {refused}");
    }
    protect_snapshot(&meta, "db", "k1", true).unwrap();
    assert!(delete_snapshot(&meta, "db", "k1").is_err());
    protect_snapshot(&meta, "db", "k1", false).unwrap();
    delete_snapshot(&meta, "db", "k1").unwrap();
    // One that is cloned is one of what it was; the clone comes from the volume.
    let copy = clone(&meta, "b", "copy").unwrap();
    assert_eq!((copy.parents[0].volume, copy.host()), (VolumeId(1), copy.id));
    assert_eq!(clones(&meta, &made, None).unwrap(), ["copy"]);
    let status = status(&meta).unwrap();
    let shown = |name: &str| status.volumes.iter().find(|found| found.volume.name == name).unwrap();
    assert_eq!((shown("copy").parent.as_deref(), shown("db").clones), (Some("db@b"), 1));
    assert_eq!(shown("db").parent, None);
}

#[test]
fn a_clone_that_was_reverted_is_a_clone_still() {
    let meta = cluster_with_volume();
    create_volume(&meta, "image", "main", SIZE).unwrap();
    own(&meta, "image");
    snap(&meta, "image", "v1");
    purge(&meta, "db");
    clone_volume(&meta, "image", "v1", "db", &About::of(VolumeId(0))).unwrap();
    snap(&meta, "db", "a");
    revert(&meta, "a", "k");
    let status = status(&meta).unwrap();
    let shown = |name: &str| status.volumes.iter().find(|found| found.volume.name == name).unwrap();
    assert_eq!(shown("db").parent.as_deref(), Some("image@v1"));
    assert_eq!((shown("image").clones, shown("db").clones), (1, 0));
}

#[test]
fn what_was_done_meanwhile_is_not_passed() {
    let begin = || {
        let meta = cluster_with_volume();
        snap(&meta, "db", "a");
        let owned = own(&meta, "db");
        let before = snap(&meta, "db", "kept");
        let to = snapshot(&meta, "db", "a").unwrap();
        (meta, owned, before, to)
    };
    let try_it = |what: &(dyn Fn(&Mutex<State>) + Sync), says: &str| {
        // Before anything is read, and between that and the transaction.
        for at_once in [true, false] {
            let (meta, owned, before, to) = begin();
            let revert = Revert {
                volume: &owned,
                to: &to,
                before: &before,
                keep: true,
                now: NOW,
                keys: None,
                mirror: None,
            };
            let result = match at_once {
                true => {
                    what(&meta);
                    revert_volume(&meta, &revert)
                }
                false => revert_volume(&racing(&meta, what), &revert),
            };
            let refused = result.unwrap_err().to_string();
            assert!(refused.contains(says), "{says}: {refused}");
            let now = get::<Volume>(&meta, &map::volume_key(".1")).unwrap();
            assert_eq!(now, None, "{says}: nothing is changed");
        }
    };
    let raised = |meta: &Mutex<State>| drop(own(meta, "db"));
    try_it(&raised, "others have had it meanwhile");
    let grown = |meta: &Mutex<State>| drop(resize_volume(meta, "db", 2 * SIZE).unwrap());
    try_it(&grown, "others have had it meanwhile");
    let gone = |meta: &Mutex<State>| drop(delete_snapshot(meta, "db", "a").unwrap());
    try_it(&gone, "db@a");
    let before_is_gone = |meta: &Mutex<State>| drop(delete_snapshot(meta, "db", "kept").unwrap());
    try_it(&before_is_gone, "others have had it meanwhile");
    let another = |meta: &Mutex<State>| {
        delete_snapshot(meta, "db", "a").unwrap();
        snap(meta, "db", "a");
    };
    try_it(&another, "another one by now");
    let shown = |meta: &Mutex<State>| {
        let spec = SubsystemSpec {
            name: "s".to_owned(),
            any_host: true,
            ..SubsystemSpec::default()
        };
        create_subsystem(meta, &spec).unwrap();
        add_namespace(meta, "s", "db", None, 4096).unwrap();
    };
    try_it(&shown, "is namespace 1");
    let wished = |meta: &Mutex<State>| drop(ask_snapshot(meta, "db", "b", BTreeMap::new(), NOW).unwrap());
    try_it(
        &wished,
        "volume db is not reverted: a snapshot of it, \"b\", is being taken",
    );
    let taking = |meta: &Mutex<State>| {
        let key = map::volume_key("db");
        let (mut found, _) = get::<Volume>(meta, &key).unwrap().unwrap();
        found.lineage.taking = true;
        meta.txn(&Call::put(key, json(&found))).unwrap();
    };
    try_it(
        &taking,
        "volume db is not reverted: a snapshot of it, \"kept\", is being taken",
    );
    let read_only = |meta: &Mutex<State>| {
        let spec = ExportSpec {
            any_client: true,
            read_only: true,
            ..ExportSpec::default()
        };
        export_volume(meta, "db", &spec).unwrap();
    };
    try_it(&read_only, "for reading only");
    let reserved = |meta: &Mutex<State>| drop(meta.txn(&Call::put(map::reservation_key(VolumeId(1)), "{}")).unwrap());
    try_it(&reserved, "reserved");
    let deleted = |meta: &Mutex<State>| drop(purge(meta, "db"));
    try_it(&deleted, "no volume");
    let renamed = |meta: &Mutex<State>| {
        let fate = Fate::Rename { to: "b".to_owned() };
        carry_out(meta, Deletion::of("db", false, fate), &mut || true).unwrap();
        create_volume(meta, "db", "main", SIZE).unwrap();
        own(meta, "db");
        own(meta, "db");
    };
    try_it(&renamed, "others have had it meanwhile");
    let of_a_set = |meta: &Mutex<State>| {
        let set = SnapshotSet {
            id: SetId(1),
            name: "s".to_owned(),
            asked_at: 1,
            labels: BTreeMap::new(),
            volumes: vec![map::SetVolume {
                id: VolumeId(1),
                name: "db".to_owned(),
            }],
            state: map::SetState::Taking,
        };
        meta.txn(&Call::put(map::set_key(SetId(1)), json(&set))).unwrap();
        meta.txn(&Call::put(map::counter_key("sets"), "1")).unwrap();
    };
    try_it(
        &of_a_set,
        "volume db is not reverted: a set with it, \"s\", is being taken",
    );
    let marked = |meta: &Mutex<State>| drop(mark_snapshot(meta, "db", "a").unwrap());
    try_it(&marked, "mark");
    let suspected = |meta: &Mutex<State>| {
        let suspect = map::Suspect {
            why: "it is old".to_owned(),
        };
        meta.txn(&Call::put(map::suspect_key(NodeId(1)), json(&suspect)))
            .unwrap();
    };
    let (meta, owned, before, to) = begin();
    suspected(&meta);
    let revert = Revert {
        volume: &owned,
        to: &to,
        before: &before,
        keep: true,
        now: NOW,
        keys: None,
        mirror: None,
    };
    assert!(matches!(
        revert_volume(&meta, &revert),
        Err(AdminError::Suspected { .. })
    ));
}

/// A clone or an export that comes in between is no reason to fail.
#[test]
fn what_may_be_done_meanwhile_is_read_anew() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    let race = |meta: &Mutex<State>| {
        clone(meta, "a", "copy").unwrap();
        label_volume(meta, "db", &BTreeMap::from([("k".to_owned(), "v".to_owned())]), &[]).unwrap();
    };
    let owned = own(&meta, "db");
    let before = snap(&meta, "db", "kept");
    let to = snapshot(&meta, "db", "a").unwrap();
    let revert = Revert {
        volume: &owned,
        to: &to,
        before: &before,
        keep: true,
        now: NOW,
        keys: None,
        mirror: None,
    };
    let made = revert_volume(&racing(&meta, &race), &revert).unwrap();
    assert_eq!(made.id, VolumeId(3));
    assert_eq!(snapshot(&meta, "db", "a").unwrap().clones, 2);
    assert_eq!(about(&meta, made.id).unwrap().labels.len(), 1);
}

#[test]
fn what_was_not_at_its_end_has_none_any_more() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    let import = Import {
        format: "raw".to_owned(),
        image_bytes: 4096,
        modified_ns: 1,
        done_bytes: 0,
        ails: None,
        attempt: None,
    };
    let known = About {
        import: Some(import),
        shrink: Some(Shrink {
            size_bytes: 4096,
            generation: Generation(1),
        }),
        protected: true,
        ..About::of(VolumeId(1))
    };
    meta.txn(&Call::put(map::about_key(VolumeId(1)), json(&known))).unwrap();
    let made = revert(&meta, "a", "k");
    let known = about(&meta, made.id).unwrap();
    assert_eq!((known.import, known.shrink, known.protected), (None, None, true));
}

#[test]
fn a_snapshot_that_is_larger_is_refused() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    let mut found = volume(&meta, "db").unwrap();
    found.size_bytes = SIZE / 2;
    record(&meta, &found);
    let refused = revert_by(&meta, "a", "k", true).unwrap_err().to_string();
    assert!(
        refused.contains("amita volume resize db --size 1073741824"),
        "{refused}"
    );
}

#[test]
fn many_levels_are_flattened_and_too_many_refused() {
    let meta = cluster_with_volume();
    let with_levels = |count: u64| {
        let level = |volume| Parent {
            volume: VolumeId(volume),
            number: SnapshotId(1),
            generation: Generation(1),
        };
        let mut found = volume(&meta, "db").unwrap();
        found.parents = (1001..1001 + count).map(level).collect();
        record(&meta, &found);
    };
    with_levels(30);
    snap(&meta, "db", "a");
    let made = revert(&meta, "a", "k1");
    assert_eq!(made.parents.len(), 31);
    assert_eq!(get::<Flatten>(&meta, &map::flatten_key(made.id)).unwrap(), None);
    snap(&meta, "db", "b");
    let made = revert(&meta, "b", "k2");
    let (flatten, _) = get::<Flatten>(&meta, &map::flatten_key(made.id)).unwrap().unwrap();
    assert_eq!((made.parents.len(), flatten.done, flatten.is_made()), (32, 0, false));
    // It goes on with what takes its place.
    let made = revert(&meta, "a", "k3");
    assert_eq!(made.parents.len(), 31);
    assert!(get::<Flatten>(&meta, &map::flatten_key(made.id)).unwrap().is_some());
    assert_eq!(get::<Flatten>(&meta, &map::flatten_key(VolumeId(3))).unwrap(), None);
    with_levels(64);
    snap(&meta, "db", "c");
    let refused = revert_by(&meta, "c", "k4", true).unwrap_err().to_string();
    assert!(
        refused.contains("64 levels") && refused.contains("flatten db"),
        "{refused}"
    );
}

#[test]
fn it_is_not_reverted_without_end() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    for round in 0..MAX_FORMER {
        revert(&meta, "a", &format!("k{round}"));
    }
    let refused = revert_by(&meta, "a", "last", true).unwrap_err().to_string();
    assert!(refused.contains("reverted 64 times"), "{refused}");
    assert_eq!(snapshots(&meta, "db").unwrap().len(), MAX_FORMER + 2);
    delete_snapshot(&meta, "db", "k5").unwrap();
    assert_eq!(sweep(&meta), [VolumeId(6)], "nothing needs it");
    revert(&meta, "a", "now");
    // All of it goes at once, however much it is.
    purge(&meta, "db");
    let gone = sweep(&meta);
    assert_eq!(gone.len(), MAX_FORMER, "{gone:?}");
    assert_nothing_is_left(&meta, &(1..=66).collect::<Vec<_>>());
}

#[test]
fn former_data_goes_with_its_last_snapshot() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    revert(&meta, "a", "k1");
    snap(&meta, "db", "b");
    revert(&meta, "b", "k2");
    assert!(sweep(&meta).is_empty());
    // What it comes from is hidden, and held by the volume itself.
    assert!(delete_snapshot(&meta, "db", "b").unwrap().hidden);
    delete_snapshot(&meta, "db", "k2").unwrap();
    delete_snapshot(&meta, "db", "k1").unwrap();
    assert!(delete_snapshot(&meta, "db", "a").unwrap().hidden);
    assert!(names(&meta).is_empty());
    assert_eq!(all_snapshots(&meta, "db").unwrap().len(), 2);
    assert!(sweep(&meta).is_empty(), "the volume comes from it");
    // The names are to be had again.
    snap(&meta, "db", "a");
    flatten(&meta, "db");
    assert_eq!(sweep(&meta), [VolumeId(2), VolumeId(1)]);
    let now = volume(&meta, "db").unwrap();
    assert_eq!(
        (now.former.clone(), now.host(), now.place()),
        (Vec::new(), VolumeId(1), VolumeId(1))
    );
    assert_nothing_is_left(&meta, &[2]);
    assert_eq!(names(&meta), ["a"], "the names of the volume's snapshots stay");
    revert(&meta, "a", "k");
    assert_eq!(volume(&meta, "db").unwrap().host(), VolumeId(1));
}

/// What the volume comes from is not needed any more.
fn flatten(meta: &dyn Transact, name: &str) {
    flatten_volume(meta, name, NOW).unwrap();
    let made = volume(meta, name).unwrap();
    let (mut flatten, _) = get::<Flatten>(meta, &map::flatten_key(made.id)).unwrap().unwrap();
    flatten.done = flatten.chunks;
    meta.txn(&Call::put(map::flatten_key(made.id), json(&flatten))).unwrap();
    assert!(end_flatten(meta, name).unwrap());
}

#[test]
fn marks_and_what_is_void_hold_no_former_data() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "old");
    mark_snapshot(&meta, "db", "old").unwrap();
    snap(&meta, "db", "a");
    snap(&meta, "db", "b");
    revert(&meta, "a", "k");
    flatten(&meta, "db");
    // One that was begun by an owner that died.
    let void = Snapshot {
        number: SnapshotId(99),
        name: "void".to_owned(),
        state: SnapshotState::Taking(Generation(1)),
        ..snapshot(&meta, "db", "b").unwrap()
    };
    let named = SnapshotName::new(VolumeId(1), VolumeId(1), void.number);
    for call in [
        Call::put(map::snapshot_key(VolumeId(1), void.number), json(&void)),
        Call::put(map::snapshot_name_key(VolumeId(1), "void"), json(&named)),
    ] {
        meta.txn(&call).unwrap();
    }
    // While a later one is there, something can be compared with the mark.
    mark_snapshot(&meta, "db", "a").unwrap();
    delete_snapshot(&meta, "db", "k").unwrap();
    assert!(sweep(&meta).is_empty());
    let refused = mark_snapshot(&meta, "db", "b").unwrap_err().to_string();
    assert!(refused.contains("reverted since"), "{refused}");
    assert!(sweep(&meta).is_empty(), "nothing is done by halves");
    delete_snapshot(&meta, "db", "b").unwrap();
    assert_eq!(sweep(&meta), [VolumeId(1)]);
    assert!(names(&meta).is_empty());
    assert!(volume(&meta, "db").unwrap().former.is_empty());
    // Their names are to be had again, of the volume's own data.
    snap(&meta, "db", "old");
    mark_snapshot(&meta, "db", "old").unwrap();
}

#[test]
fn where_a_volume_cannot_be_read_no_former_data_goes() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    revert(&meta, "a", "k1");
    revert(&meta, "a", "k2");
    let key = map::volume_key("db");
    let record = meta.txn(&Call::get(key.clone())).unwrap().values(0)[0].value.clone();
    for unreadable in ["{", r#"{"id":3,"name":"db","generation":"new"}"#] {
        meta.txn(&Call::put(key.clone(), unreadable)).unwrap();
        let mut former = FormerSweep::default();
        for _ in 0..2 {
            let swept = former.sweep(&meta).unwrap();
            assert!(swept.gone.is_empty() && swept.failed.is_empty(), "{swept:?}");
        }
    }
    meta.txn(&Call::put(key, record)).unwrap();
    assert!(sweep(&meta).is_empty());
    assert_eq!(names(&meta), ["a", "k1", "k2"]);
}

#[test]
fn deleted_it_keeps_all_and_has_it_back() {
    let meta = cluster_with_volume();
    set_quota(&meta, "main", |quota| quota.volumes = Some(8)).unwrap();
    snap(&meta, "db", "a");
    revert(&meta, "a", "k");
    let counted = asked(&meta, "main").unwrap();
    assert_eq!(
        (counted.volumes, counted.provisioned_bytes, counted.snapshots),
        (1, SIZE, 2)
    );
    let fate = Fate::Recycle {
        deleted_at: NOW.as_secs(),
        purge_at: NOW.as_secs() + 1000,
    };
    carry_out(&meta, Deletion::of("db", false, fate.clone()), &mut || true).unwrap();
    assert_eq!(asked(&meta, "main").unwrap().snapshots, 0);
    assert_eq!(trash(&meta).unwrap().len(), 1);
    assert!(sweep(&meta).is_empty());
    let status = status(&meta).unwrap();
    assert_eq!((status.volumes.len(), status.deleted_volumes), (0, 1));
    // It may lose what nothing needs meanwhile.
    undelete_volume(&meta, "db", None).unwrap();
    assert_eq!(names(&meta), ["a", "k"]);
    assert_eq!(asked(&meta, "main").unwrap().snapshots, 2);
    let made = volume(&meta, "db").unwrap();
    assert_eq!((made.host(), made.former.len()), (VolumeId(1), 1));
    set_quota(&meta, "main", |quota| quota.snapshots = Some(2)).unwrap();
    let refused = ask_snapshot(&meta, "db", "c", BTreeMap::new(), NOW).unwrap_err();
    assert!(matches!(refused, AdminError::OverQuota { .. }), "{refused}");
    carry_out(&meta, Deletion::of("db", false, fate), &mut || true).unwrap();
    assert!(purge_volume(&meta, "db", NOW.as_secs()).unwrap().held_by.is_empty());
    assert_eq!(sweep(&meta), [VolumeId(1)]);
    assert_nothing_is_left(&meta, &[1, 2]);
}

#[test]
fn what_was_cloned_from_former_data_holds_that_alone() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    snap(&meta, "db", "b");
    revert(&meta, "a", "k");
    clone(&meta, "b", "copy").unwrap();
    let refused = |snapshots: bool| {
        let fate = Fate::Purge {
            snapshots,
            now: NOW.as_secs(),
        };
        carry_out(&meta, Deletion::of("db", false, fate), &mut || true)
    };
    let why = refused(false).unwrap_err();
    assert!(matches!(why, AdminError::HasSnapshots { snapshots: 3, .. }), "{why}");
    let gone = purge(&meta, "db");
    assert!(!gone.hidden);
    assert!(sweep(&meta).is_empty(), "the clone needs it");
    let left = trash(&meta).unwrap();
    assert_eq!(
        (left.len(), left[0].trashed.former, left[0].clones),
        (1, true, 1),
        "{left:?}"
    );
    // Nobody has it back: its snapshots have no names.
    for which in ["db", ".1"] {
        undelete_volume(&meta, which, None).unwrap_err();
    }
    // One of that name has nothing to do with it.
    create_volume(&meta, "db", "main", SIZE).unwrap();
    own(&meta, "db");
    assert!(names(&meta).is_empty());
    snap(&meta, "db", "a");
    revert(&meta, "a", "k");
    // By its name the one is meant that can be had back.
    let fate = Fate::Recycle {
        deleted_at: NOW.as_secs(),
        purge_at: NOW.as_secs() + 1000,
    };
    carry_out(&meta, Deletion::of("db", false, fate), &mut || true).unwrap();
    assert_eq!(trash(&meta).unwrap().len(), 2);
    let purged = purge_volume(&meta, "db", NOW.as_secs()).unwrap();
    assert!(!purged.trashed.former && purged.held_by.is_empty(), "{purged:?}");
    purge(&meta, "copy");
    let mut gone = sweep(&meta);
    gone.sort_unstable();
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert!(trash(&meta).unwrap().is_empty());
}

#[test]
fn an_export_and_a_flattening_are_taken_back_though_the_volume_is_reverted_just_then() {
    let meta = cluster_with_volume();
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    export_volume(&meta, "db", &spec).unwrap();
    snap(&meta, "db", "a");
    let reverts = |meta: &Mutex<State>| drop(revert(meta, "a", "k1"));
    assert!(unexport_volume(&racing(&meta, &reverts), "db").unwrap());
    assert!(!unexport_volume(&meta, "db").unwrap());
    flatten_volume(&meta, "db", NOW).unwrap();
    let reverts = |meta: &Mutex<State>| drop(revert(meta, "a", "k2"));
    assert!(cancel_flatten(&racing(&meta, &reverts), "db").unwrap());
    assert!(!cancel_flatten(&meta, "db").unwrap());
}

#[test]
fn a_mark_is_not_protected() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    let marks = |meta: &Mutex<State>| drop(mark_snapshot(meta, "db", "a").unwrap());
    let refused = protect_snapshot(&racing(&meta, &marks), "db", "a", true).unwrap_err();
    assert!(matches!(refused, AdminError::OnlyMark { .. }), "{refused}");
    assert!(!snapshot_or_mark(&meta, "db", "a").unwrap().protected);
}

/// What is left of a volume that is gone, as after a recovery from an older copy, goes too.
#[test]
fn what_nobody_knows_any_more_goes() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    let made = revert(&meta, "a", "k");
    let key = map::snapshot_key(VolumeId(1), SnapshotId(1));
    let (mut pinned, _) = get::<Snapshot>(&meta, &key).unwrap().unwrap();
    pinned.clones = 0;
    meta.txn(&Call::put(key, json(&pinned))).unwrap();
    let call = Call {
        then: vec![Op::Delete {
            key: map::volume_key(&made.name),
        }],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    assert_eq!(sweep(&meta), [VolumeId(1)]);
}

#[test]
fn hosts_go_on_knowing_it() {
    let meta = cluster_with_volume();
    let spec = SubsystemSpec {
        name: "s".to_owned(),
        any_host: true,
        ..SubsystemSpec::default()
    };
    create_subsystem(&meta, &spec).unwrap();
    let was = add_namespace(&meta, "s", "db", None, 4096).unwrap();
    remove_namespace(&meta, "s", was.nsid).unwrap();
    snap(&meta, "db", "a");
    let of_snapshot = add_namespace(&meta, "s", "db@a", None, 4096).unwrap();
    let made = revert(&meta, "a", "k");
    let is = add_namespace(&meta, "s", "db", None, 4096).unwrap();
    assert_eq!((is.uuid, is.volume), (was.uuid, made.id));
    // The snapshot's is what it was; and of another one there is another.
    let shown = namespaces(&meta).unwrap().readable;
    let named: Vec<String> = shown.iter().map(NamespaceStatus::of).collect();
    assert_eq!(named, ["db@a", "db"]);
    let refused = delete_snapshot(&meta, "db", "a").unwrap_err();
    assert!(matches!(refused, AdminError::SnapshotAttached { .. }), "{refused}");
    assert_eq!(namespace_of(&meta, "db@a").unwrap().1.unwrap().namespace, of_snapshot);
    remove_namespace(&meta, "s", is.nsid).unwrap();
    let why = delete_volume(&meta, "db", false, 1, &mut || false)
        .unwrap_err()
        .to_string();
    assert!(why.contains("db@a"), "{why}");
    snap(&meta, "db", "b");
    let other = add_namespace(&meta, "s", "db@b", None, 4096).unwrap();
    let mut uuids = vec![was.uuid, of_snapshot.uuid, other.uuid];
    uuids.sort();
    uuids.dedup();
    assert_eq!(uuids.len(), 3);
}

#[test]
fn a_refused_wish_is_no_wish() {
    let meta = cluster_with_volume();
    snap(&meta, "db", "a");
    let wish = SnapshotWish {
        volume: "db".to_owned(),
        name: "w".to_owned(),
        asked_at: 1,
        labels: BTreeMap::new(),
        refused: Some("no room".to_owned()),
        hold_ms: None,
    };
    let key = map::snapshot_wish_key(VolumeId(1));
    meta.txn(&Call::put(key.clone(), json(&wish))).unwrap();
    revert(&meta, "a", "k");
    assert_eq!(get::<SnapshotWish>(&meta, &key).unwrap(), None);
    assert!(get::<Export>(&meta, &map::export_key(VolumeId(2))).unwrap().is_none());
}
