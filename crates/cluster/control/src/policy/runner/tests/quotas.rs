//! Pools that may have no more snapshots.

use super::*;

/// A quota holds for policies as for people.
#[test]
fn a_quota_holds_and_is_told() {
    let mut rig = Rig::new();
    rig.volumes(3);
    let policy = rig.of_all("p", "0 * * * *", 5);
    admin::set_quota(&rig.meta, "main", |quota| quota.snapshots = Some(2)).unwrap();
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed), (2, 1));
    assert!(
        last.why[0].contains("the quota of pool main has no room: 2 of 2 snapshots"),
        "{:?}",
        last.why
    );
    assert!(rig.wishes().is_empty());
    admin::set_quota(&rig.meta, "main", |quota| quota.snapshots = None).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.runs(&policy).last.unwrap().taken, 3);
}

#[test]
fn quotas_bind_policies_as_they_bind_operators() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "v1");
    let policy = rig.of_all("p", "0 * * * *", 5);
    let quota = map::Quota {
        snapshots: Some(2),
        ..map::Quota::none(amita_types::PoolId(1))
    };
    rig.put(map::quota_key(quota.pool), &quota);
    rig.at(MONDAY);
    for hour in 1..=3 {
        rig.at(MONDAY + hour * HOUR);
    }
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((rig.names(db).len(), last.taken, last.failed), (2, 0, 1));
    assert!(
        last.why[0].contains("the quota of pool main has no room"),
        "{:?}",
        last.why
    );
    // What no rule keeps goes all the same, and makes room.
    let keep = KeepChange {
        last: Some(1),
        ..KeepChange::default()
    };
    let change = PolicyChange {
        keep,
        ..PolicyChange::default()
    };
    admin::set_policy(&rig.meta, "p", &change).unwrap();
    rig.at(MONDAY + 4 * HOUR);
    assert_eq!(rig.names(db), ["p-20240101T020000Z"]);
    rig.at(MONDAY + 5 * HOUR);
    assert_eq!(rig.names(db), ["p-20240101T050000Z"]);
}

/// Counts how often all volumes are read.
struct Counting<'a> {
    meta: &'a Mutex<State>,
    counts: std::cell::Cell<usize>,
}

impl Transact for Counting<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, amita_metadata::Error> {
        let all = map::volume_key("");
        let is_count = call
            .then
            .iter()
            .any(|op| matches!(op, Op::Prefix { key } if *key == all));
        self.counts.set(self.counts.get() + usize::from(is_count));
        self.meta.txn(call)
    }
}

/// Until the run is at its end, with the budget of a real one; how often all volumes were read.
fn counts_of_a_run(rig: &mut Rig, policy: &Policy) -> usize {
    let mut counts = 0;
    let before = rig.runs(policy).runs;
    for _ in 0..2000 {
        let meta = Counting {
            meta: &rig.meta,
            counts: std::cell::Cell::default(),
        };
        let clock = rig.clock();
        rig.runner.step(&meta, Some(NODE), clock).unwrap();
        counts += meta.counts.get();
        rig.own();
        rig.steady += BUSY;
        if rig.runs(policy).runs > before {
            return counts;
        }
    }
    panic!("it does not end");
}

/// A cluster of many volumes is not read anew for each of them.
#[test]
fn many_volumes_are_counted_once_and_not_one_by_one() {
    let mut rig = Rig::new();
    rig.volumes(300);
    let policy = rig.of_all("p", "0 * * * *", 1);
    admin::set_quota(&rig.meta, "main", |quota| quota.snapshots = Some(450)).unwrap();
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    let counts = counts_of_a_run(&mut rig, &policy);
    assert!(counts <= 4, "{counts}");
    assert_eq!(rig.runs(&policy).last.unwrap().taken, 300);
    // Of the second run only some find room; where snapshots go meanwhile that is looked at again.
    rig.wall = MONDAY + 2 * HOUR;
    let counts = counts_of_a_run(&mut rig, &policy);
    assert!(counts <= 60, "{counts}");
    assert_eq!(rig.runs(&policy).last.unwrap().taken, 300);
    // Where there is no room at all nothing goes either, and it is not counted for each volume that there is none.
    admin::set_quota(&rig.meta, "main", |quota| quota.snapshots = Some(300)).unwrap();
    rig.wall = MONDAY + 3 * HOUR;
    let counts = counts_of_a_run(&mut rig, &policy);
    assert!(counts <= 8, "{counts}");
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed), (0, 300));
}

/// What others ask for in between is counted.
#[test]
fn an_operators_snapshot_counts_in_the_middle_of_a_run() {
    let mut rig = Rig::new();
    rig.volumes(20);
    let policy = rig.of_all("p", "0 * * * *", 5);
    let db = rig.volume(21, "db");
    admin::set_quota(&rig.meta, "main", |quota| quota.snapshots = Some(20)).unwrap();
    rig.at(MONDAY);
    rig.wall = MONDAY + HOUR;
    rig.step();
    rig.own();
    let wish = admin::ask_snapshot(&rig.meta, "db", "by-hand", BTreeMap::new(), Duration::from_secs(MONDAY));
    assert!(wish.is_ok(), "{wish:?}");
    rig.settle();
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed), (19, 2), "{:?}", last.why);
    assert_eq!(rig.names(db), ["by-hand"]);
    assert_eq!(admin::asked(&rig.meta, "main").unwrap().snapshots, 20);
}
