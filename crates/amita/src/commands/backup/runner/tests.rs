use super::*;
use amita_metadata::Record;
use amita_types::VolumeId;
use amita_types::map::{BackupRun, Keep, Target};

/// Monday, 1 January 2024.
const MONDAY: u64 = 1_704_067_200;

fn policy(name: &str, id: u64) -> BackupPolicy {
    BackupPolicy {
        id: PolicyId(id),
        name: name.to_owned(),
        target: Target::Volume(VolumeId(7)),
        repository: "r".to_owned(),
        schedule: "@hourly".to_owned(),
        zone: "UTC".to_owned(),
        keep: Keep {
            last: 2,
            ..Keep::default()
        },
        together: false,
        paused: false,
        since: MONDAY,
        limit_s: 3600,
        asked: 0,
        verify: None,
    }
}

fn repository(nodes: &[&str]) -> BackupRepository {
    serde_json::from_value(serde_json::json!({"name": "r", "address": "/b", "key_file": "/k", "nodes": nodes})).unwrap()
}

fn record(key: String, value: &impl serde::Serialize, revision: u64) -> KeyValue {
    KeyValue::from(Record {
        key,
        value: serde_json::to_vec(value).unwrap(),
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        lease: None,
    })
}

fn due_of(found: &Found, node: &str, at: u64) -> Vec<String> {
    let (due, _) = found.due(node, Duration::from_secs(at));
    due.into_iter().map(|(_, policy)| policy.name.clone()).collect()
}

#[test]
fn a_node_takes_what_is_due_and_free_and_for_it() {
    let runs = BackupRuns {
        schedule: "@hourly in UTC".to_owned(),
        after: MONDAY,
        ..BackupRuns::default()
    };
    let mut records = vec![
        record(map::backup_repository_key("r"), &repository(&["n1"]), 1),
        record(map::backup_policy_key("a"), &policy("a", 1), 2),
        record(map::backup_policy_key("b"), &policy("b", 2), 3),
        // A copy of the first one, by hand: its number is the other's.
        record(map::backup_policy_key("c"), &policy("c", 1), 4),
        record(map::backup_policy_key("d"), &"no policy", 5),
        record(map::backup_runs_key(PolicyId(1)), &runs, 6),
        record(map::backup_runs_key(PolicyId(2)), &runs, 7),
    ];
    let found = Found::of(Kind::Backup, &records, 9);
    assert_eq!(found.policies.len(), 2);
    let due = MONDAY + 3600;
    assert!(due_of(&found, "n1", due - 1).is_empty());
    assert_eq!(
        found.due("n1", Duration::from_secs(due - 20)).1,
        Duration::from_secs(20)
    );
    assert_eq!(due_of(&found, "n1", due), ["a", "b"]);
    assert!(due_of(&found, "n2", due).is_empty(), "it is not named");
    // Another node is at the first one; of the other nobody can read what became of it.
    records.push(record(map::backup_runner_key(PolicyId(1)), &"n3", 8));
    records.retain(|found| found.key != map::backup_runs_key(PolicyId(2)));
    records.push(record(map::backup_runs_key(PolicyId(2)), &"no runs", 9));
    assert!(due_of(&Found::of(Kind::Backup, &records, 9), "n1", due).is_empty());
}

#[test]
fn a_run_that_waits_is_looked_for_when_it_is_tried_again() {
    let runs = BackupRuns {
        schedule: "@hourly in UTC".to_owned(),
        after: MONDAY,
        run: Some(BackupRun {
            due: MONDAY,
            began: MONDAY,
            attempts: 1,
            again_at: Some(MONDAY + 45),
            ..BackupRun::default()
        }),
        ..BackupRuns::default()
    };
    let records = [
        record(map::backup_policy_key("a"), &policy("a", 1), 2),
        record(map::backup_runs_key(PolicyId(1)), &runs, 6),
    ];
    let found = Found::of(Kind::Backup, &records, 9);
    let (due, waits) = found.due("n1", Duration::from_secs(MONDAY + 5));
    assert!(due.is_empty());
    assert_eq!(waits, Duration::from_secs(40));
    assert_eq!(due_of(&found, "n1", MONDAY + 45), ["a"]);
}

#[test]
fn who_waits_longest_has_its_turn_first() {
    let policies: Vec<BackupPolicy> = (1..=4).map(|id| policy("p", id)).collect();
    let of = |since: [u64; 4]| -> Vec<(u64, &BackupPolicy)> { since.into_iter().zip(&policies).collect() };
    let order = |since: [u64; 4], ago: &dyn Fn(PolicyId) -> Option<Duration>| -> Vec<u64> {
        let turns = in_turn(of(since), Duration::from_secs(MONDAY + 900), ago);
        turns.iter().map(|policy| policy.id.0).collect()
    };
    let since = [MONDAY + 60, MONDAY + 50, MONDAY + 70, MONDAY + 50];
    assert_eq!(order(since, &|_| None), [2, 4, 1, 3]);
    // Two that are always due have been made here just now: the others do not wait for ever.
    let made = |id: PolicyId| [2, 4].contains(&id.0).then_some(Duration::from_secs(id.0));
    assert_eq!(order(since, &made), [1, 3, 4, 2]);
    // What was made here long ago waits since it was due.
    let long_ago = |id: PolicyId| (id.0 == 2).then_some(Duration::from_secs(7200));
    assert_eq!(order(since, &long_ago), [2, 4, 1, 3]);
}

#[test]
fn what_is_due_says_since_when_it_waits() {
    let runs = BackupRuns {
        schedule: "@hourly in UTC".to_owned(),
        after: MONDAY,
        ..BackupRuns::default()
    };
    let records = [
        record(map::backup_policy_key("a"), &policy("a", 1), 2),
        record(map::backup_runs_key(PolicyId(1)), &runs, 6),
    ];
    let found = Found::of(Kind::Backup, &records, 9);
    let (due, _) = found.due("n1", Duration::from_secs(MONDAY + 3900));
    assert_eq!(
        due.iter().map(|(since, _)| *since).collect::<Vec<u64>>(),
        [MONDAY + 3600]
    );
    let readable: Vec<(PolicyId, u64, &BackupRuns)> = found.readable_runs().collect();
    assert_eq!(readable, [(PolicyId(1), 6, &runs)]);
}

#[test]
fn what_the_one_at_a_policy_notes_wakes_nobody_else() {
    let records = [
        record(map::backup_policy_key("a"), &policy("a", 1), 2),
        record(map::backup_policy_key("b"), &policy("b", 2), 3),
        record(map::backup_runner_key(PolicyId(1)), &"n3", 8),
    ];
    let found = Found::of(Kind::Backup, &records, 9);
    let put = |key: String| amita_metadata::Event::Put(record(key, &"x", 10));
    let batch = |events: Vec<amita_metadata::Event>| Batch { revision: 10, events };
    let of_runs = |id: u64| put(map::backup_runs_key(PolicyId(id)));
    assert!(!found.is_changed_by(&batch(vec![of_runs(1)])));
    assert!(!found.is_changed_by(&batch(Vec::new())), "nothing has changed");
    assert!(found.is_changed_by(&batch(vec![of_runs(2)])), "nobody was at it");
    assert!(found.is_changed_by(&batch(vec![of_runs(1), put(map::backup_policy_key("a"))])));
    let ended = amita_metadata::Event::Delete {
        key: map::backup_runner_key(PolicyId(1)),
        mod_revision: 10,
    };
    assert!(found.is_changed_by(&batch(vec![ended])));
    // What the other kind of runs comes to is nothing to this one.
    let of_verifications = || {
        let keys = [
            map::backup_verified_key(PolicyId(2)),
            map::backup_verifier_key(PolicyId(2)),
        ];
        batch(keys.map(put).into())
    };
    assert!(!found.is_changed_by(&of_verifications()));
    let verifications = Found::of(Kind::Verification, &records, 9);
    assert!(verifications.is_changed_by(&of_verifications()) && !verifications.is_changed_by(&batch(vec![of_runs(2)])));
}

#[test]
fn verifications_are_due_by_their_own_schedule_whoever_backs_up() {
    let verify = map::BackupVerify {
        schedule: "@daily".to_owned(),
        percent: 5,
        since: MONDAY,
        percent_since: 0,
        asked: 0,
    };
    let verified = BackupPolicy {
        verify: Some(verify),
        ..policy("a", 1)
    };
    let known = map::BackupVerified {
        runs: BackupRuns {
            schedule: "@daily in UTC".to_owned(),
            after: MONDAY,
            ..BackupRuns::default()
        },
        ..map::BackupVerified::default()
    };
    let mut records = vec![
        record(map::backup_policy_key("a"), &verified, 2),
        record(map::backup_policy_key("b"), &policy("b", 2), 3),
        record(map::backup_runner_key(PolicyId(1)), &"n3", 4),
        record(map::backup_verified_key(PolicyId(1)), &known, 5),
    ];
    let found = Found::of(Kind::Verification, &records, 9);
    let day = MONDAY + 24 * 3600;
    assert!(due_of(&found, "n1", day - 1).is_empty());
    assert_eq!(due_of(&found, "n1", day), ["a"]);
    records.push(record(map::backup_verifier_key(PolicyId(1)), &"n2", 6));
    assert!(due_of(&Found::of(Kind::Verification, &records, 9), "n1", day).is_empty());
    // Whoever backs up does not see it, so that a change of it ends no backup.
    let backups = Found::of(Kind::Backup, &records, 9);
    assert_eq!(backups.policies[&PolicyId(1)], policy("a", 1));
}

#[test]
fn an_attempt_ends_when_what_it_goes_by_is_another() {
    let stop: Arc<AtomicBool> = Arc::default();
    let ends = |limit| Ends::new(Arc::clone(&stop), limit);
    let hour = Duration::from_secs(3600);
    let (known, place) = (policy("a", 1), repository(&[]));
    let own = ends(hour);
    // Nothing is known yet by which it goes.
    own.compare(None, None);
    assert_eq!(own.why(), None);
    own.goes_by(&known, Some(&place));
    own.compare(Some(&known), Some(&place));
    assert_eq!((own.why(), own.overdue()), (None, None));
    let paused = BackupPolicy {
        paused: true,
        ..known.clone()
    };
    own.compare(Some(&paused), Some(&place));
    assert_eq!(own.why(), Some(ends::Why::Changed));
    // Whatever its limit is: who waits for it to end does so from here on.
    assert!(own.overdue().is_some_and(|since| since < hour));
    let moved = ends(hour);
    moved.goes_by(&known, Some(&place));
    moved.compare(Some(&known), None);
    assert_eq!(moved.why(), Some(ends::Why::Changed));
    assert_eq!(ends(Duration::ZERO).why(), Some(ends::Why::Limit));
    assert!(ends(Duration::ZERO).overdue().is_some());
    // A key that is lost counts before all else: then another node may be at it.
    let lost: Arc<AtomicBool> = Arc::default();
    moved.holds(&lost);
    lost.store(true, Ordering::Relaxed);
    assert_eq!(moved.why(), Some(ends::Why::Lost));
    let given_up = ends(Duration::ZERO);
    let key: Arc<AtomicBool> = Arc::default();
    given_up.holds(&key);
    given_up.lose();
    assert!(key.load(Ordering::Relaxed), "its lease is renewed no longer");
    stop.store(true, Ordering::Relaxed);
    assert_eq!(own.why(), Some(ends::Why::Node));
}
