//! The recycle bin: what goes when its time has come, and which volume is meant.

use super::*;
use crate::policy::runner::Clock;
use amita_types::map::{About, Snapshot, SnapshotName, SnapshotState};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// A cluster in whose bin these are, one after the other.
fn deleted(volumes: &[&str]) -> (Mutex<State>, Vec<VolumeId>) {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let mut numbers = Vec::new();
    for (name, purge_at) in volumes.iter().zip(10..) {
        numbers.push(create_volume(&meta, name, "main", 1 << 30).unwrap().id);
        recycle(&meta, name, purge_at);
    }
    (meta, numbers)
}

fn recycle(meta: &dyn Transact, name: &str, purge_at: u64) {
    let fate = Fate::Recycle {
        deleted_at: 5,
        purge_at,
    };
    carry_out(meta, Deletion::of(name, false, fate), &mut || false).unwrap();
}

fn put(meta: &dyn Transact, key: impl Into<String>, value: impl Into<Vec<u8>>) {
    meta.txn(&Call::put(key, value)).unwrap();
}

fn at(wall: u64, steady: u64) -> Clock {
    Clock {
        wall: Duration::from_secs(wall),
        steady: Duration::from_secs(steady),
    }
}

fn called(purged: &Purged) -> Vec<&str> {
    purged.gone.iter().map(|trashed| trashed.name.as_str()).collect()
}

#[test]
fn one_that_cannot_go_is_told_of_and_stops_no_other() {
    let (meta, numbers) = deleted(&["a", "b", "c", "d", "e"]);
    put(&meta, map::snapshot_key(numbers[0], SnapshotId(1)), "?");
    put(&meta, map::volume_key(&map::hidden_name(numbers[2])), "?");
    let bad = map::trash_key(numbers[3]);
    put(&meta, &bad, "?");
    let mut bin = Bin::default();
    let purged = bin.purge_what_is_due(&meta, 64, at(100, 0)).unwrap();
    assert_eq!(called(&purged), ["b", "e"]);
    let failed: Vec<&str> = purged.failed.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(
        failed,
        [
            bad.as_str(),
            "deleted volume a (number 1)",
            "deleted volume c (number 3)"
        ]
    );
    // The list has what can be read, and that comes back.
    assert_eq!(trash(&meta).unwrap().len(), 1);
    assert_eq!(undelete_volume(&meta, ".1", None).unwrap().name, "a");
    // What all of them would meet is no fault of one.
    let why = "it is old".to_owned();
    put(&meta, map::suspect_key(NodeId(1)), json(&map::Suspect { why }));
    let refused = bin.purge_what_is_due(&meta, 64, at(100, 0)).unwrap_err();
    assert!(matches!(refused, AdminError::Suspected { .. }), "{refused}");
}

/// Counts calls.
struct Counting<'a>(&'a Mutex<State>, AtomicUsize);

impl Transact for Counting<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.txn(call)
    }
}

/// It has a snapshot, from which a volume was cloned.
fn held(meta: &dyn Transact, name: &str) {
    let made = create_volume(meta, name, "main", 1 << 30).unwrap();
    let number = SnapshotId(1);
    let snapshot = Snapshot {
        volume: made.id,
        number,
        name: "s".to_owned(),
        size_bytes: 1 << 30,
        taken_at: 1,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(made.generation),
    };
    put(meta, map::snapshot_key(made.id, number), json(&snapshot));
    let named = json(&SnapshotName { number, data: None });
    put(meta, map::snapshot_name_key(made.id, "s"), named);
    clone_volume(meta, name, "s", &format!("of-{name}"), &About::of(VolumeId(0))).unwrap();
}

/// Those that others were cloned from stay, and are many.
#[test]
fn what_stays_keeps_no_other_from_its_turn() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for number in 0..300 {
        let name = format!("held{number}");
        held(&meta, &name);
        recycle(&meta, &name, 10);
    }
    for number in 0..20 {
        let name = format!("free{number}");
        create_volume(&meta, &name, "main", 1 << 30).unwrap();
        recycle(&meta, &name, 20);
    }
    let seen = Counting(&meta, AtomicUsize::new(0));
    let mut bin = Bin::default();
    let (mut gone, now) = (0, at(100, 0));
    for _ in 0..6 {
        let before = seen.1.load(Ordering::Relaxed);
        let purged = bin.purge_what_is_due(&seen, 8, now).unwrap();
        let calls = seen.1.load(Ordering::Relaxed) - before;
        assert!(calls < 400, "{calls}");
        assert!(
            purged.failed.is_empty() && purged.gone.len() <= 8,
            "{:?}",
            purged.failed
        );
        gone += purged.gone.len();
    }
    assert_eq!((gone, trash(&meta).unwrap().len()), (20, 300));
}

#[test]
fn a_backlog_is_looked_at_no_further_than_need_be() {
    let names: Vec<String> = (0..50).map(|number| format!("v{number}")).collect();
    let (meta, _) = deleted(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let seen = Counting(&meta, AtomicUsize::new(0));
    let purged = purge_what_is_due(&seen, 1, Duration::from_secs(100)).unwrap();
    let calls = seen.1.load(Ordering::Relaxed);
    assert_eq!(called(&purged), ["v0"]);
    assert!(calls < 20, "{calls}");
}

/// What goes for good is what was meant.
#[test]
fn a_number_that_is_the_name_of_another_is_refused() {
    let (meta, numbers) = deleted(&["2", "db", "db", "3x"]);
    assert_eq!(numbers[1], VolumeId(2));
    let refusals = [
        purge_volume(&meta, "2", 0).unwrap_err(),
        undelete_volume(&meta, "2", None).unwrap_err(),
    ];
    for refused in refusals {
        assert!(matches!(refused, AdminError::Ambiguous { .. }), "{refused}");
        let text = refused.to_string();
        assert!(
            text.contains(".1 (called 2)") && text.contains(".2 (called db)"),
            "{text}"
        );
    }
    let refused = purge_volume(&meta, "db", 0).unwrap_err().to_string();
    assert!(refused.contains(".2 (called db), .3 (called db)"), "{refused}");
    assert_eq!(trash(&meta).unwrap().len(), 4, "nothing has gone");
    assert_eq!(purge_volume(&meta, ".2", 0).unwrap().trashed.name, "db");
    assert_eq!(
        undelete_volume(&meta, "2", None).unwrap().id,
        VolumeId(1),
        "its name alone"
    );
    assert_eq!(undelete_volume(&meta, "3", Some("back")).unwrap().id, VolumeId(3));
    for none in [".3", ".x", "2", "."] {
        let refused = purge_volume(&meta, none, 0).unwrap_err();
        assert!(matches!(refused, AdminError::NoSuch { .. }), "{none}: {refused}");
    }
    assert_eq!(purge_volume(&meta, "4", 0).unwrap().trashed.name, "3x");
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The coordinator's clock is a year ahead for a while, or from the beginning.
#[test]
fn a_clock_that_jumps_does_not_empty_the_bin() {
    let (meta, _) = deleted(&["a", "b", "c"]);
    let mut bin = Bin::default();
    let year = 365 * DAY;
    let look = |bin: &mut Bin, wall, steady| bin.purge_what_is_due(&meta, 64, at(wall, steady)).unwrap();
    // What becomes due while somebody looks goes at once.
    assert!(look(&mut bin, 5, 0).gone.is_empty());
    assert_eq!(called(&look(&mut bin, 10, 5)), ["a"]);
    let purged = look(&mut bin, year, 10);
    assert!(purged.gone.is_empty());
    assert!(
        purged.warnings.len() == 1
            && purged.warnings[0].contains("2 deleted volumes were to go more than 10 minutes ago"),
        "{:?}",
        purged.warnings
    );
    // It is told once; and who leads next begins anew.
    let purged = look(&mut bin, year + HOUR - 20, HOUR);
    assert!(purged.gone.is_empty() && purged.warnings.is_empty());
    let mut next = Bin::default();
    assert!(look(&mut next, year + HOUR, 0).gone.is_empty());
    // The clock is set right: nothing was lost, and all goes when its time comes.
    assert!(look(&mut bin, 8, HOUR + 5).gone.is_empty());
    assert_eq!(called(&look(&mut bin, 11, HOUR + 8)), ["b"]);
    // It is right after all.
    let purged = look(&mut next, year + HOUR + 30, HOUR - 1);
    assert!(purged.gone.is_empty());
    assert_eq!(called(&look(&mut next, year + 2 * HOUR, HOUR)), ["c"]);
}

/// The clock of the machine on which the command is given is eight days behind, or ahead.
#[test]
fn who_deletes_need_not_know_what_time_it_is() {
    let now = 1000 * DAY;
    for deleted_at in [now - 8 * DAY, now + 8 * DAY] {
        let (meta, _) = deleted(&[]);
        let mut bin = Bin::default();
        bin.purge_what_is_due(&meta, 64, at(now, 0)).unwrap();
        let made = create_volume(&meta, "db", "main", 1 << 30).unwrap();
        let fate = Fate::Recycle {
            deleted_at,
            purge_at: deleted_at + 7 * DAY,
        };
        carry_out(&meta, Deletion::of("db", false, fate), &mut || false).unwrap();
        let purged = bin.purge_what_is_due(&meta, 64, at(now + 5, 5)).unwrap();
        assert!(purged.gone.is_empty());
        assert!(
            purged.warnings.len() == 1 && purged.warnings[0].contains("whose clock is 691"),
            "{:?}",
            purged.warnings
        );
        let trashed = &trash(&meta).unwrap()[0].trashed;
        assert_eq!(
            (trashed.volume, trashed.deleted_at, trashed.purge_at),
            (made.id, now + 5, now + 5 + 7 * DAY)
        );
        let purged = bin.purge_what_is_due(&meta, 64, at(now + 7 * DAY, 7 * DAY)).unwrap();
        assert!(purged.gone.is_empty() && purged.warnings.is_empty());
        let purged = bin.purge_what_is_due(&meta, 64, at(now + 7 * DAY + 5, 7 * DAY + 5));
        assert_eq!(called(&purged.unwrap()), ["db"]);
    }
}

/// Its owner was away when it was deleted by force, and comes back.
#[test]
fn nobody_closes_a_volume_that_is_there_again() {
    let (meta, numbers) = deleted(&["a", "b"]);
    for number in &numbers {
        let closing = map::Closing {
            volume: "a".to_owned(),
            owner: NodeId(1),
            force: true,
            clients: None,
        };
        put(&meta, map::closing_key(*number), json(&closing));
    }
    undelete_volume(&meta, "a", None).unwrap();
    purge_volume(&meta, "b", 0).unwrap();
    for number in numbers {
        let left = meta.txn(&Call::get(map::closing_key(number))).unwrap();
        assert!(left.value(0).is_none());
    }
}

/// One of another name has a record that nobody can read.
#[test]
fn others_records_keep_nobody_from_having_a_volume_back() {
    let (meta, numbers) = deleted(&["a", "b"]);
    put(&meta, map::trash_key(numbers[0]), "?");
    put(&meta, map::volume_key("bad"), "?");
    assert_eq!(undelete_volume(&meta, "b", None).unwrap().name, "b");
    let refused = volume(&meta, "nothing").unwrap_err().to_string();
    assert_eq!(
        refused, "there is no volume named nothing; there are b, bad",
        "also what cannot be read has a name"
    );
}
