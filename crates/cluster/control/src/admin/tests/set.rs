use super::*;
use amita_types::map::{
    Quota, SNAPSHOTS_SINCE, SetState, Snapshot, SnapshotName, SnapshotSet, SnapshotState, SnapshotWish,
};
use amita_types::{SetId, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn with_volumes(version: u32) -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for name in ["log", "db"] {
        create_volume(&meta, name, "main", 1 << 30).unwrap();
    }
    let mut record = cluster(&meta).unwrap();
    record.version = version;
    meta.txn(&Call::put(map::cluster_key(), json(&record))).unwrap();
    meta
}

fn ask(meta: &dyn Transact, volumes: &[&str], name: &str) -> Result<SnapshotSet> {
    let volumes: Vec<String> = volumes.iter().map(|name| (*name).to_owned()).collect();
    ask_set(meta, &volumes, name, BTreeMap::new(), NOW)
}

/// As the owners do.
fn seal(meta: &dyn Transact, set: &SnapshotSet, volume: VolumeId) {
    let number = SnapshotId(1);
    let snapshot = Snapshot {
        volume,
        number,
        name: set.name.clone(),
        size_bytes: 1 << 30,
        taken_at: set.asked_at,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: Some(set.id),
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(Generation(1)),
    };
    let name_key = map::snapshot_name_key(volume, &set.name);
    for call in [
        Call::put(map::snapshot_key(volume, number), json(&snapshot)),
        Call::put(name_key, json(&SnapshotName { number, data: None })),
    ] {
        meta.txn(&call).unwrap();
    }
}

fn decide(meta: &dyn Transact, set: &SnapshotSet, state: SetState) {
    let decided = SnapshotSet { state, ..set.clone() };
    meta.txn(&Call::put(map::set_key(set.id), json(&decided))).unwrap();
}

#[test]
fn a_set_is_wished_taken_and_listed() {
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let set = ask(&meta, &["db", "log"], "nightly").unwrap();
    let numbers: Vec<u64> = set.volumes.iter().map(|volume| volume.id.0).collect();
    assert_eq!(
        (set.id, numbers),
        (SetId(1), vec![1, 2]),
        "in the order of their numbers"
    );
    assert_eq!(set_state(&meta, &set).unwrap(), SetTaking::Waiting);
    decide(&meta, &set, SetState::Ready);
    seal(&meta, &set, VolumeId(1));
    assert_eq!(
        set_state(&meta, &set).unwrap(),
        SetTaking::Decided { open: 1 },
        "volume 2 is not sealed, and the set is decided all the same"
    );
    seal(&meta, &set, VolumeId(2));
    let SetTaking::Taken(all) = set_state(&meta, &set).unwrap() else {
        panic!("all are sealed")
    };
    assert_eq!(all.len(), 2);
    // Its record goes then.
    let key = map::set_key(set.id);
    let gone = Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    };
    meta.txn(&gone).unwrap();
    assert!(matches!(set_state(&meta, &set).unwrap(), SetTaking::Taken(_)));
    let sets = taken_sets(&meta).unwrap();
    assert_eq!(sets.len(), 1);
    assert_eq!(
        (sets[0].id, sets[0].volumes.clone()),
        (SetId(1), vec!["log".to_owned(), "db".to_owned()])
    );
    let all = || {
        let found = every_snapshot(&meta).unwrap().into_iter();
        found
            .map(|(volume, snapshot)| format!("{volume}@{}", snapshot.name))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        all(),
        ["db@nightly", "log@nightly"],
        "in the order of their volumes' names"
    );
    delete_snapshot(&meta, "log", "nightly").unwrap();
    assert_eq!(all(), ["db@nightly"]);
    assert_eq!(taken_sets(&meta).unwrap()[0].volumes, ["db"]);
    assert_eq!(
        ask(&meta, &["log"], "next").unwrap().id,
        SetId(2),
        "a number is given once"
    );
}

#[test]
fn what_cannot_be_a_set_is_refused_with_a_reason() {
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let why = |result: Result<SnapshotSet>| result.unwrap_err().to_string();
    assert!(why(ask(&meta, &["db", "db"], "a")).contains("volume \"db\" is named twice"));
    assert!(why(ask(&meta, &[], "a")).contains("0 volumes"));
    assert!(why(ask(&meta, &["db", "nosuch"], "a")).contains("nosuch"));
    assert!(why(ask(&meta, &["db"], "a@b")).contains("cannot be a snapshot's name"));
    let own = BTreeMap::from([("amita:policy".to_owned(), "p".to_owned())]);
    let owned = ask_set(&meta, &["db".to_owned()], "a", own, NOW);
    assert!(why(owned).contains("only Amita itself"));
    let many: Vec<String> = (0..1025).map(|number| format!("v{number}")).collect();
    assert!(why(ask_set(&meta, &many, "a", BTreeMap::new(), NOW)).contains("1025 volumes"));
    // One of a volume at a time, and no name twice.
    let first = ask(&meta, &["db", "log"], "a").unwrap();
    assert!(why(ask(&meta, &["db"], "b")).contains("another set with the volume, \"a\""));
    decide(&meta, &first, SetState::Ready);
    seal(&meta, &first, VolumeId(2));
    assert!(why(ask(&meta, &["db"], "a")).contains("db@a"));
    ask_snapshot(&meta, "log", "c", BTreeMap::new(), NOW).unwrap();
    assert!(why(ask(&meta, &["db", "log"], "d")).contains("another snapshot of the volume, \"c\""));
    let old = with_volumes(SNAPSHOTS_SINCE - 1);
    assert!(why(ask(&old, &["db"], "a")).contains("cluster's version is 1"));
    assert!(
        get::<SnapshotWish>(&old, &map::snapshot_wish_key(VolumeId(1)))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_set_that_is_given_up_is_void_unless_it_is_decided() {
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let set = ask(&meta, &["db", "log"], "a").unwrap();
    drop_set(&meta, &set, "given up").unwrap();
    let SetTaking::Void(voided) = set_state(&meta, &set).unwrap() else {
        panic!("it is given up")
    };
    assert_eq!((voided.why.as_str(), voided.again), ("given up", false));
    let set = ask(&meta, &["db", "log"], "a").unwrap();
    decide(&meta, &set, SetState::Ready);
    drop_set(&meta, &set, "given up").unwrap();
    assert_eq!(set_state(&meta, &set).unwrap(), SetTaking::Decided { open: 2 });
}

/// Metadata in which a set's last snapshot is sealed, and its record goes, while somebody looks at it for the second time.
struct Meanwhile<'a> {
    meta: &'a Mutex<State>,
    set: &'a SnapshotSet,
    calls: std::cell::Cell<u32>,
}

impl Transact for Meanwhile<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<amita_metadata::Reply, amita_metadata::Error> {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() == 2 {
            seal(self.meta, self.set, VolumeId(2));
            let key = map::set_key(self.set.id);
            let gone = Call {
                then: vec![Op::Delete { key }],
                ..Call::default()
            };
            self.meta.txn(&gone)?;
        }
        self.meta.txn(call)
    }
}

#[test]
fn a_set_that_ends_while_it_is_looked_at_is_taken() {
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let set = ask(&meta, &["db", "log"], "a").unwrap();
    decide(&meta, &set, SetState::Ready);
    seal(&meta, &set, VolumeId(1));
    let meanwhile = Meanwhile {
        meta: &meta,
        set: &set,
        calls: std::cell::Cell::new(0),
    };
    let SetTaking::Taken(all) = set_state(&meanwhile, &set).unwrap() else {
        panic!("all are sealed")
    };
    let volumes: Vec<VolumeId> = all.iter().map(|snapshot| snapshot.volume).collect();
    assert_eq!(volumes, [VolumeId(1), VolumeId(2)]);
    assert_eq!(meanwhile.calls.get(), 2, "the set and all its snapshots at one moment");
}

#[test]
fn a_set_of_more_volumes_than_a_transaction_has_questions_is_seen_as_well() {
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let mut set = ask(&meta, &["db", "log"], "a").unwrap();
    set.volumes = (1..=130)
        .map(|id| map::SetVolume {
            id: VolumeId(id),
            name: format!("v{id}"),
        })
        .collect();
    decide(&meta, &set, SetState::Ready);
    (1..130).for_each(|id| seal(&meta, &set, VolumeId(id)));
    assert_eq!(set_state(&meta, &set).unwrap(), SetTaking::Decided { open: 1 });
    seal(&meta, &set, VolumeId(130));
    assert!(matches!(set_state(&meta, &set).unwrap(), SetTaking::Taken(all) if all.len() == 130));
}

/// S4: its owner leads, and there is none any more.
#[test]
fn a_set_whose_first_volume_is_gone_ends_and_its_record_goes() {
    let seconds = Duration::from_secs;
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let set = ask(&meta, &["db", "log"], "a").unwrap();
    let mut sweep = SetSweep::default();
    assert!(sweep.sweep(&meta, seconds(1)).unwrap().is_empty());
    assert_eq!(
        set_state(&meta, &set).unwrap(),
        SetTaking::Waiting,
        "its leader is there"
    );
    // Volume db is prepared, and volume log, the first one, goes.
    let name = |set: Option<SetId>| {
        let (mut db, _) = get::<map::Volume>(&meta, &map::volume_key("db")).unwrap().unwrap();
        (db.lineage.taking, db.lineage.set) = (set.is_some(), set);
        meta.txn(&Call::put(map::volume_key("db"), json(&db))).unwrap();
    };
    name(Some(set.id));
    let gone = Call {
        then: vec![Op::Delete {
            key: map::volume_key("log"),
        }],
        ..Call::default()
    };
    meta.txn(&gone).unwrap();
    assert_eq!(sweep.sweep(&meta, seconds(6)).unwrap().len(), 1);
    let SetTaking::Void(voided) = set_state(&meta, &set).unwrap() else {
        panic!("nobody leads it")
    };
    assert!(voided.why.contains("log was deleted"), "{voided:?}");
    let is_there = || get::<SnapshotSet>(&meta, &map::set_key(set.id)).unwrap().is_some();
    for now in [11, 100, 200] {
        assert!(sweep.sweep(&meta, seconds(now)).unwrap().is_empty());
        assert!(is_there(), "volume db names it: its owner has not withdrawn its number");
    }
    name(None);
    sweep.sweep(&meta, seconds(205)).unwrap();
    assert!(!is_there());
    assert!(ask(&meta, &["db"], "b").is_ok());
}

#[test]
fn a_set_that_nobody_decides_is_void_in_the_end_and_one_that_is_ready_stays_until_all_are_sealed() {
    let seconds = Duration::from_secs;
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let set = ask(&meta, &["db", "log"], "a").unwrap();
    let mut sweep = SetSweep::default();
    assert!(sweep.sweep(&meta, seconds(10)).unwrap().is_empty());
    assert!(sweep.sweep(&meta, seconds(609)).unwrap().is_empty());
    assert_eq!(sweep.sweep(&meta, seconds(610)).unwrap().len(), 1);
    assert!(matches!(set_state(&meta, &set).unwrap(), SetTaking::Void(_)));
    decide(&meta, &set, SetState::Ready);
    assert!(sweep.sweep(&meta, seconds(700)).unwrap().is_empty());
    assert!(sweep.sweep(&meta, seconds(759)).unwrap().is_empty());
    assert!(get::<SnapshotSet>(&meta, &map::set_key(set.id)).unwrap().is_some());
    sweep.sweep(&meta, seconds(760)).unwrap();
    assert!(get::<SnapshotSet>(&meta, &map::set_key(set.id)).unwrap().is_none());
}

#[test]
fn a_set_counts_for_its_pools_quota() {
    let meta = with_volumes(SNAPSHOTS_SINCE);
    let limit = |snapshots| {
        set_quota(&meta, "main", |quota: &mut Quota| quota.snapshots = Some(snapshots)).unwrap();
    };
    limit(1);
    let refused = ask(&meta, &["db", "log"], "a").unwrap_err();
    assert!(
        matches!(refused, AdminError::OverQuota { more: 2, used: 0, .. }),
        "{refused}"
    );
    limit(3);
    ask(&meta, &["db", "log"], "a").unwrap();
    let refused = ask_snapshot(&meta, "db", "b", BTreeMap::new(), NOW).map(|_| ());
    assert!(refused.is_ok(), "three of three");
    let more = create_volume(&meta, "third", "main", 1 << 30).map(|_| ());
    assert!(more.is_ok());
    let refused = ask(&meta, &["third"], "c").unwrap_err();
    assert!(matches!(refused, AdminError::OverQuota { used: 3, .. }), "{refused}");
}
