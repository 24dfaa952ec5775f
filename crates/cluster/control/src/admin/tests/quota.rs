//! How much of a pool may be asked for, and who is refused.

use super::subsystem::put;
use super::*;
use amita_types::map::{Snapshot, SnapshotName, SnapshotState, SnapshotWish};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

const GIB: u64 = 1 << 30;
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn with_quota(change: impl Fn(&mut map::Quota)) -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    set_quota(&meta, "main", change).unwrap();
    meta
}

fn is_over<T: std::fmt::Debug>(result: Result<T>, of: &str) {
    match result {
        Err(error @ AdminError::OverQuota { .. }) => {
            let text = error.to_string();
            assert!(text.contains(of) && text.contains("amita pool quota main --"), "{text}");
        }
        other => panic!("{of}: {other:?}"),
    }
}

#[test]
fn what_would_be_too_much_is_refused_and_nothing_is_done() {
    let meta = with_quota(|quota| quota.provisioned_bytes = Some(4 * GIB));
    create_volume(&meta, "a", "main", 3 * GIB).unwrap();
    is_over(
        create_volume(&meta, "b", "main", 2 * GIB),
        "3221225472 of 4294967296 bytes",
    );
    assert_eq!(volumes(&meta).unwrap().len(), 1);
    create_volume(&meta, "b", "main", GIB).unwrap();
    is_over(resize_volume(&meta, "a", 3 * GIB + 4096), "provisioned size");
    assert_eq!(volume(&meta, "a").unwrap().size_bytes, 3 * GIB);
    assert_eq!(
        resize_volume(&meta, "a", 3 * GIB).unwrap().size_bytes,
        3 * GIB,
        "it asks for nothing"
    );
    // One that is deleted does not count, until it is wanted back.
    let fate = Fate::Recycle {
        deleted_at: NOW.as_secs(),
        purge_at: NOW.as_secs() + 1000,
    };
    let mut deletion = Deletion::of("b", false, fate);
    assert!(deletion.step(&meta).unwrap().is_some());
    create_volume(&meta, "c", "main", GIB).unwrap();
    is_over(undelete_volume(&meta, "b", None), "provisioned size");
    assert_eq!(trash(&meta).unwrap().len(), 1);
    set_quota(&meta, "main", |quota| quota.provisioned_bytes = Some(5 * GIB)).unwrap();
    undelete_volume(&meta, "b", None).unwrap();
    let asked = asked(&meta, "main").unwrap();
    assert_eq!(
        (asked.provisioned_bytes, asked.volumes, asked.snapshots),
        (5 * GIB, 3, 0)
    );
    // A quota takes nothing away, and other pools have their own.
    set_quota(&meta, "main", |quota| {
        (quota.provisioned_bytes, quota.volumes) = (None, Some(1));
    })
    .unwrap();
    is_over(create_volume(&meta, "d", "main", 4096), "3 of 1 volumes");
    create_pool(
        &meta,
        &PoolSpec {
            name: "other".to_owned(),
            ..spec(3)
        },
    )
    .unwrap();
    create_volume(&meta, "d", "other", 100 * GIB).unwrap();
    set_quota(&meta, "main", |quota| *quota = map::Quota::none(quota.pool)).unwrap();
    create_volume(&meta, "e", "main", 100 * GIB).unwrap();
    assert!(quota(&meta, "nowhere").is_err() && set_quota(&meta, "nowhere", |_| {}).is_err());
}

/// Programs from before would not heed it.
#[test]
fn an_older_cluster_gets_no_quota() {
    let meta = with_quota(|_| {});
    let mut record = cluster(&meta).unwrap();
    record.version = map::SNAPSHOTS_SINCE - 1;
    meta.txn(&Call::put(map::cluster_key(), json(&record))).unwrap();
    let refused = set_quota(&meta, "main", |quota| quota.volumes = Some(1))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("pool main: the cluster's version is 1, and quotas need 2"),
        "{refused}"
    );
    assert_eq!(quota(&meta, "main").unwrap().volumes, None);
}

/// Does something else before the first transaction that changes something.
struct Racing<'a> {
    inner: &'a Mutex<State>,
    once: Mutex<Option<Race>>,
}

type Race = Box<dyn FnOnce(&Mutex<State>) + Send>;

impl Transact for Racing<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let changes = call.then.iter().any(Op::is_write);
        if changes && let Some(race) = self.once.lock().unwrap().take() {
            race(self.inner);
        }
        self.inner.txn(call)
    }
}

fn racing(meta: &Mutex<State>, race: impl FnOnce(&Mutex<State>) + Send + 'static) -> Racing<'_> {
    Racing {
        inner: meta,
        once: Mutex::new(Some(Box::new(race))),
    }
}

/// Two who were judged by the same figures: one of them passes, whatever both ask for.
#[test]
fn two_at_once_cannot_pass_together() {
    let with_volume = || {
        let meta = with_quota(|quota| quota.provisioned_bytes = Some(4 * GIB));
        create_volume(&meta, "a", "main", GIB).unwrap();
        meta
    };
    let create = |meta: &Mutex<State>| {
        create_volume(meta, "first", "main", 2 * GIB).unwrap();
    };
    let grow = |meta: &Mutex<State>| {
        resize_volume(meta, "a", 3 * GIB).unwrap();
    };
    let races: [fn(&Mutex<State>); 2] = [create, grow];
    for race in races {
        let meta = with_volume();
        is_over(
            create_volume(&racing(&meta, race), "second", "main", 2 * GIB),
            "provisioned",
        );
        let meta = with_volume();
        create_volume(&meta, "b", "main", 4096).unwrap();
        is_over(resize_volume(&racing(&meta, race), "b", 2 * GIB), "provisioned");
        assert!(asked(&meta, "main").unwrap().provisioned_bytes <= 4 * GIB);
    }
    // And one who found no quota, where one is set meanwhile.
    let meta = with_quota(|_| {});
    let set = |meta: &Mutex<State>| {
        set_quota(meta, "main", |quota| quota.volumes = Some(0)).unwrap();
    };
    is_over(create_volume(&racing(&meta, set), "a", "main", 4096), "0 of 0 volumes");
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    is_over(create_volume(&racing(&meta, set), "a", "main", 4096), "0 of 0 volumes");
}

fn wish(meta: &dyn Transact, volume: &str, name: &str) -> Result<SnapshotWish> {
    ask_snapshot(meta, volume, name, BTreeMap::new(), NOW)
}

/// As the owner does.
fn take(meta: &dyn Transact, volume_name: &str, number: u32) {
    let mut found = volume(meta, volume_name).unwrap();
    let (wish, _) = get::<SnapshotWish>(meta, &map::snapshot_wish_key(found.id))
        .unwrap()
        .unwrap();
    seal(meta, &found, number, &wish.name);
    found.lineage.number = SnapshotId(number);
    found.lineage.sealed = SnapshotId(number);
    let then = vec![
        Op::Delete {
            key: map::snapshot_wish_key(found.id),
        },
        put(map::volume_key(volume_name), &found),
    ];
    meta.txn(&Call {
        then,
        ..Call::default()
    })
    .unwrap();
}

fn seal(meta: &dyn Transact, volume: &Volume, number: u32, name: &str) {
    let number = SnapshotId(number);
    let snapshot = Snapshot {
        volume: volume.id,
        number,
        name: name.to_owned(),
        size_bytes: volume.size_bytes,
        taken_at: NOW.as_secs(),
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(Generation(1)),
    };
    let then = vec![
        put(map::snapshot_key(volume.id, number), &snapshot),
        put(
            map::snapshot_name_key(volume.id, name),
            &SnapshotName { number, data: None },
        ),
    ];
    meta.txn(&Call {
        then,
        ..Call::default()
    })
    .unwrap();
}

#[test]
fn snapshots_of_all_volumes_count_with_those_that_are_wished_for() {
    let meta = with_quota(|quota| quota.snapshots = Some(2));
    for name in ["a", "b", "c"] {
        create_volume(&meta, name, "main", GIB).unwrap();
    }
    wish(&meta, "a", "s").unwrap();
    let race = |meta: &Mutex<State>| {
        wish(meta, "b", "s").unwrap();
    };
    is_over(wish(&racing(&meta, race), "c", "s"), "2 of 2 snapshots");
    take(&meta, "a", 1);
    take(&meta, "b", 1);
    is_over(wish(&meta, "a", "t"), "2 of 2 snapshots");
    delete_snapshot(&meta, "b", "s").unwrap();
    wish(&meta, "a", "t").unwrap();
    assert_eq!(asked(&meta, "main").unwrap().snapshots, 2);
}

/// Notes what is read, and does something right after the first read of snapshots.
struct Watched<'a> {
    inner: &'a Mutex<State>,
    read: Mutex<Vec<String>>,
    calls: AtomicUsize,
    once: Mutex<Option<Race>>,
}

impl Transact for Watched<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let reply = self.inner.txn(call);
        let prefixes = call.then.iter().filter_map(|op| match op {
            Op::Prefix { key } => Some(key.clone()),
            _ => None,
        });
        let mut read = self.read.lock().unwrap();
        read.extend(prefixes);
        let of_snapshots = |key: &String| key.starts_with(&format!("{}snapshots/", map::PREFIX));
        if read.iter().any(of_snapshots)
            && let Some(race) = self.once.lock().unwrap().take()
        {
            race(self.inner);
        }
        reply
    }
}

fn watched(meta: &Mutex<State>, race: Option<Race>) -> Watched<'_> {
    Watched {
        inner: meta,
        read: Mutex::new(Vec::new()),
        calls: AtomicUsize::new(0),
        once: Mutex::new(race),
    }
}

/// What a quota costs does not grow with the number of volumes, and who asks for none of what it limits does not pay.
#[test]
fn only_what_is_limited_is_counted_and_all_of_it_at_once() {
    let meta = with_quota(|quota| quota.snapshots = Some(1000));
    for number in 0..100 {
        create_volume(&meta, &format!("v{number}"), "main", GIB).unwrap();
        wish(&meta, &format!("v{number}"), "s").unwrap();
    }
    create_volume(&meta, "last", "main", GIB).unwrap();
    let seen = watched(&meta, None);
    wish(&seen, "last", "s").unwrap();
    let calls = seen.calls.load(Ordering::Relaxed);
    assert!(calls < 16, "{calls}");
    assert_eq!(asked(&meta, "main").unwrap().snapshots, 101);
    // Volumes are not limited, nor their sizes.
    let seen = watched(&meta, None);
    resize_volume(&seen, "last", 2 * GIB).unwrap();
    create_volume(&seen, "more", "main", GIB).unwrap();
    let read = seen.read.into_inner().unwrap();
    let all = [map::volume_key(""), format!("{}snapshots/", map::PREFIX)];
    assert!(
        !read.iter().any(|key| all.iter().any(|all| key.starts_with(all))),
        "{read:?}"
    );
    // Where they are, no snapshot is read for them, nor they for snapshots.
    set_quota(&meta, "main", |quota| {
        (quota.snapshots, quota.volumes) = (None, Some(102));
    })
    .unwrap();
    let seen = watched(&meta, None);
    wish(&seen, "more", "s").unwrap();
    assert!(!seen.read.lock().unwrap().contains(&all[0]));
    is_over(create_volume(&seen, "another", "main", GIB), "102 of 102 volumes");
    let of_snapshots = |key: &String| key.starts_with(&all[1]);
    assert!(!seen.read.lock().unwrap().iter().any(of_snapshots));
}

/// It is wished for before, and taken after: it is one all the time.
#[test]
fn a_snapshot_that_is_sealed_while_it_is_counted_counts() {
    let meta = with_quota(|quota| quota.snapshots = Some(1));
    for name in ["a", "b"] {
        create_volume(&meta, name, "main", GIB).unwrap();
    }
    wish(&meta, "a", "s").unwrap();
    let seal: Race = Box::new(|meta| take(meta, "a", 1));
    is_over(wish(&watched(&meta, Some(seal)), "b", "s"), "1 of 1 snapshots");
    assert_eq!(snapshots(&meta, "a").unwrap().len(), 1, "it was sealed");
    is_over(wish(&meta, "b", "s"), "1 of 1 snapshots");
}

/// Who wished it has given up meanwhile; its owner seals it all the same.
#[test]
fn a_snapshot_that_is_being_taken_counts_though_nobody_wishes_it_any_more() {
    let meta = with_quota(|quota| quota.snapshots = Some(1));
    let mut found = create_volume(&meta, "a", "main", GIB).unwrap();
    create_volume(&meta, "b", "main", GIB).unwrap();
    let wished = wish(&meta, "a", "s").unwrap();
    let begun = |taking: bool, meta: &dyn Transact| {
        let mut volume = found.clone();
        (volume.lineage.number, volume.lineage.taking) = (SnapshotId(1), taking);
        meta.txn(&Call::put(map::volume_key("a"), json(&volume))).unwrap();
    };
    begun(true, &meta);
    seal(&meta, &found, 1, "s");
    let key = map::snapshot_key(found.id, SnapshotId(1));
    let (mut record, _) = get::<Snapshot>(&meta, &key).unwrap().unwrap();
    record.state = SnapshotState::Taking(Generation(1));
    meta.txn(&Call::put(key, json(&record))).unwrap();
    drop_snapshot_wish(&meta, &wished).unwrap();
    is_over(wish(&meta, "b", "s"), "1 of 1 snapshots");
    // It was begun by an owner who is gone: it is void, and is none.
    begun(false, &meta);
    wish(&meta, "b", "s").unwrap();
    found.lineage.number = SnapshotId(1);
    assert_eq!(asked(&meta, "main").unwrap().snapshots, 1);
}

#[test]
fn records_that_nobody_can_read_do_not_stop_who_asks() {
    let meta = with_quota(|quota| {
        (quota.snapshots, quota.volumes) = (Some(2), Some(9));
    });
    let own = create_volume(&meta, "a", "main", GIB).unwrap();
    meta.txn(&Call::put(map::volume_key("bad"), "?")).unwrap();
    create_volume(&meta, "b", "main", GIB).unwrap();
    // One of a volume that is known is one, whatever it says.
    meta.txn(&Call::put(map::snapshot_key(own.id, SnapshotId(1)), "?"))
        .unwrap();
    wish(&meta, "b", "s").unwrap();
    assert_eq!(asked(&meta, "main").unwrap().snapshots, 2);
}

/// At least so many that the issue asks for; the next one is refused, and what is there is listed and deleted.
#[test]
fn a_volume_has_16384_snapshots_and_not_one_more() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let mut found = create_volume(&meta, "v", "main", GIB).unwrap();
    let most = u32::try_from(MAX_VOLUME_SNAPSHOTS).unwrap();
    for number in 1..most {
        seal(&meta, &found, number, &format!("s{number}"));
    }
    found.lineage.number = SnapshotId(most - 1);
    found.lineage.sealed = found.lineage.number;
    let call = Call::put(map::volume_key("v"), json(&found));
    meta.txn(&call).unwrap();
    wish(&meta, "v", "last").unwrap();
    take(&meta, "v", most);
    assert_eq!(snapshots(&meta, "v").unwrap().len(), most as usize);
    assert_eq!(
        live_snapshots(&meta, &volume(&meta, "v").unwrap()).unwrap().len(),
        most as usize
    );
    let refused = wish(&meta, "v", "more").unwrap_err().to_string();
    assert!(
        refused.contains("snapshot v@more: the volume has 16384 snapshots, and 16384 are the most")
            && refused.contains("delete some"),
        "{refused}"
    );
    delete_snapshot(&meta, "v", "s77").unwrap();
    wish(&meta, "v", "more").unwrap();
    take(&meta, "v", most + 1);
    assert!(wish(&meta, "v", "again").is_err());
}

#[test]
fn a_cluster_has_so_many_volumes_and_pools_and_not_one_more() {
    let meta = cluster_of(1);
    let small = |name: String| PoolSpec {
        name,
        groups: 1,
        min_copies: 1,
        ..spec(1)
    };
    for number in 0..MAX_POOLS {
        create_pool(&meta, &small(format!("p{number}"))).unwrap();
    }
    let refused = create_pool(&meta, &small("more".to_owned())).unwrap_err().to_string();
    assert!(
        refused.contains("has 256 pools, and more are not possible"),
        "{refused}"
    );
    let first = create_volume(&meta, "first", "p0", GIB).unwrap();
    let most = MAX_VOLUMES as u64;
    for number in 2..=most {
        let name = format!("v{number}");
        let volume = Volume {
            id: VolumeId(number),
            name: name.clone(),
            ..first.clone()
        };
        meta.txn(&Call::put(map::volume_key(&name), json(&volume))).unwrap();
    }
    meta.txn(&Call::put(map::counter_key("volumes"), json(&most))).unwrap();
    let refused = create_volume(&meta, "more", "p0", GIB).unwrap_err().to_string();
    assert!(
        refused.contains("has 65536 volumes, and more are not possible"),
        "{refused}"
    );
    delete(&meta, "v77", false).unwrap();
    assert_eq!(create_volume(&meta, "more", "p0", GIB).unwrap().id, VolumeId(most + 1));
    assert!(create_volume(&meta, "again", "p0", GIB).is_err());
}
