//! Attempts that find all points made, so that no gateway is needed: what they do beside that is what is looked at.

use super::super::super::base::Subject;
use super::super::super::by::By;
use super::super::super::key::Key;
use super::super::super::sessions::OfPolicy;
use super::found::{Had, is_left};
use super::*;
use amita_backup::store::Folder;
use amita_backup::{Change, Options, SessionId, Vault, VaultId};
use amita_control::backups::{point_name, session_name, verification_session_name};
use amita_metadata::{KeyValue, Record, model};
use amita_types::map::{BackupRun, Keep, PolicyId, Snapshot, SnapshotName, SnapshotState, Target, Volume};
use amita_types::{ClusterId, Generation, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

mod check;

const CLUSTER: ClusterId = ClusterId(9);
/// Monday, 1 January 2024.
const MONDAY: u64 = 1_704_067_200;
const HOUR: u64 = 3600;

fn policy(name: &str, id: u64) -> BackupPolicy {
    BackupPolicy {
        id: PolicyId(id),
        name: name.to_owned(),
        target: Target::Volumes(vec![VolumeId(1), VolumeId(2)]),
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
        limit_s: HOUR,
        asked: 0,
        verify: None,
    }
}

fn volume(name: &str, id: u64) -> Volume {
    serde_json::from_value(serde_json::json!({
        "id": id, "name": name, "pool": "p", "size_bytes": 1 << 20, "generation": 5
    }))
    .unwrap()
}

/// A cluster with two volumes, a repository in a folder, and a policy that keeps the last two points.
struct World {
    meta: Mutex<model::State>,
    folder: tempfile::TempDir,
    id: VaultId,
    config: Config,
    ends: Ends,
    claim: u64,
}

impl World {
    fn new(lock_days: Option<u64>) -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let key_file = folder.path().join("key");
        let key = Key::make(&key_file).unwrap();
        let store = Arc::new(Folder::open(&store).unwrap());
        let vault = Vault::create(store, key.bytes(), key.cost(), Options::default()).unwrap();
        let mut world = World {
            meta: Mutex::new(model::State::new()),
            id: vault.id(),
            config: Config::new(Vec::new()),
            ends: Ends::new(Arc::new(AtomicBool::new(false)), Duration::from_secs(HOUR)),
            claim: 0,
            folder,
        };
        admin::init_cluster(&world.meta, CLUSTER).unwrap();
        for (name, id) in [("a", 1), ("b", 2)] {
            world.put(map::volume_key(name), &volume(name, id));
        }
        let repository: BackupRepository = serde_json::from_value(serde_json::json!({
            "name": "r", "address": world.path("store"), "key_file": world.path("key"), "lock_days": lock_days
        }))
        .unwrap();
        world.put(map::backup_repository_key("r"), &repository);
        world.put(map::backup_policy_key("p"), &policy("p", 1));
        let runs = BackupRuns {
            schedule: "@hourly in UTC".to_owned(),
            after: MONDAY + 3 * HOUR,
            run: Some(BackupRun {
                due: MONDAY + 3 * HOUR,
                began: MONDAY + 3 * HOUR,
                attempts: 2,
                ..BackupRun::default()
            }),
            ..BackupRuns::default()
        };
        world.put(map::backup_runs_key(PolicyId(1)), &runs);
        world.claim = world.put(map::backup_runner_key(PolicyId(1)), &"n1");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The revision by which it is put.
    fn put(&self, key: String, record: &impl serde::Serialize) -> u64 {
        let call = Call::put(key, serde_json::to_vec(record).unwrap());
        self.meta.txn(&call).unwrap().revision
    }

    fn vault(&self) -> Vault {
        let store = Arc::new(Folder::open(&self.path("store")).unwrap());
        let key = Key::load(&self.path("key")).unwrap();
        Vault::open(store, self.id, key.bytes(), Options::default()).unwrap()
    }

    fn subject(&self, name: &str) -> Subject {
        Subject::find(&By::Node(&self.meta), name).unwrap()
    }

    /// A point of these volumes at this hour, of data of its own.
    fn point(&self, hour: u64, volumes: &[&str]) -> u64 {
        let name = point_name(&policy("p", 1), MONDAY + hour * HOUR);
        let mut vault = self.vault();
        let mut session = vault.begin("a backup").unwrap();
        let mut made = Vec::new();
        for name in volumes {
            let volume = amita_backup::Volume {
                identity: self.subject(name).identity,
                bytes: 1 << 20,
                encrypted: false,
                snapshot: (5, hour),
                parent: None,
                compares: false,
            };
            let bytes = vec![1 + 10 * hour as u8 + (name.as_bytes()[0] - b'a'); 4096];
            let change = Change::Bytes { offset: 0, bytes };
            let mut source = std::iter::once(Ok::<_, std::io::Error>(change));
            made.push(session.backup(&volume, &mut source).unwrap());
        }
        let point = session.publish(&name, (MONDAY + hour * HOUR) as i64, made).unwrap();
        session.end().unwrap();
        point
    }

    fn session(&self, label: &str) -> SessionId {
        self.vault().begin(label).unwrap().id()
    }

    /// A snapshot of the volume says that the vault was another one.
    fn remembers_another_vault(&self, name: &str) {
        let volume = self.subject(name).volume;
        let number = SnapshotId(4);
        let label = format!("{}/1/{}", self.id, "ab".repeat(32));
        let snapshot = Snapshot {
            volume: volume.id,
            number,
            name: "backup-x".to_owned(),
            size_bytes: 1 << 20,
            taken_at: MONDAY,
            labels: BTreeMap::from([("amita-backup".to_owned(), label)]),
            protected: false,
            clones: 0,
            set: None,
            mark: true,
            hidden: false,
            state: SnapshotState::Sealed(Generation(5)),
        };
        self.put(map::snapshot_key(volume.id, number), &snapshot);
        let named = SnapshotName::new(volume.id, volume.id, number);
        self.put(map::snapshot_name_key(volume.id, "backup-x"), &named);
    }

    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            client: &self.meta,
            config: &self.config,
            node: "n1",
            claim: self.claim,
            ends: &self.ends,
            policy: "p",
        }
    }

    /// One attempt: what has become of it, and what it knows of the records then.
    fn back_up(&self) -> (amita_terminal::error::Result<()>, Records, Outcome) {
        let attempt = self.attempt();
        let mut records = attempt.read().unwrap().unwrap();
        let mut outcome = Outcome::default();
        let done = attempt.back_up(&mut records, &mut outcome);
        (done, records, outcome)
    }

    fn points(&self) -> Vec<u64> {
        self.vault().state().points().keys().copied().collect()
    }
}

#[test]
fn what_the_last_attempt_gave_up_and_did_not_remove_is_removed_by_the_next() {
    let world = World::new(None);
    let old = world.point(1, &["a", "b"]);
    world.point(2, &["a", "b"]);
    world.point(3, &["a", "b"]);
    // As an attempt leaves it that has failed between the one and the other.
    world.vault().forget(&[old]).unwrap();
    let mut runs = world.attempt().read().unwrap().unwrap().runs;
    runs.prune_owed = true;
    world.put(map::backup_runs_key(PolicyId(1)), &runs);
    let packs = world.vault().state().packs().0;
    let (done, records, outcome) = world.back_up();
    done.unwrap();
    assert_eq!((outcome.failed, outcome.volumes), (0, 2), "{:?}", outcome.why);
    assert!(!records.runs.prune_owed);
    let left = world.vault().state().packs().0;
    assert!(left < packs, "{left} of {packs}");
}

#[test]
fn that_something_is_to_be_removed_is_noted_before_anything_is_given_up() {
    let world = World::new(None);
    let points: Vec<u64> = (0..4).map(|hour| world.point(hour, &["a", "b"])).collect();
    let (done, records, outcome) = world.back_up();
    done.unwrap();
    assert_eq!(outcome.failed, 0, "{:?}", outcome.why);
    assert_eq!(world.points(), points[2..]);
    assert_eq!((records.runs.forgotten, records.runs.prune_owed), (2, false));
    let noted = world.attempt().read().unwrap().unwrap();
    assert!(
        noted.runs.prune_owed,
        "the end of the attempt takes it back, and nobody else"
    );
}

#[test]
fn what_the_points_need_is_locked_whoever_has_made_them() {
    // A folder locks nothing: that is what it comes to at each attempt, and not only at the one that makes the points.
    let world = World::new(Some(7));
    world.point(3, &["a", "b"]);
    for _ in 0..2 {
        let (done, _, outcome) = world.back_up();
        done.unwrap();
        assert_eq!((outcome.failed, outcome.volumes), (1, 2));
        assert!(
            outcome.why[0].contains("not all that it needs is locked"),
            "{:?}",
            outcome.why
        );
    }
}

#[test]
fn a_run_has_a_volume_that_is_in_any_point_of_it_and_no_other() {
    let world = World::new(None);
    let (a, b) = (world.subject("a"), world.subject("b"));
    let name = point_name(&policy("p", 1), MONDAY + 3 * HOUR);
    let subjects = [a, b];
    let had = |world: &World, cluster| Had::of(world.vault().state(), &name, cluster, &subjects);
    assert_eq!(had(&world, CLUSTER), Had::default());
    let first = world.point(3, &["a"]);
    let one = had(&world, CLUSTER);
    assert!(one.has(&subjects[0]) && !one.has(&subjects[1]));
    assert_eq!(one.point, Some(first));
    let second = world.point(3, &["b"]);
    let both = had(&world, CLUSTER);
    assert!(both.has(&subjects[0]) && both.has(&subjects[1]));
    assert_eq!(both.point, Some(second));
    assert_eq!(had(&world, ClusterId(10)), Had::default());
}

#[test]
fn each_volume_counts_once_though_a_point_has_several() {
    let world = World::new(None);
    world.point(3, &["a", "b"]);
    let (done, _, outcome) = world.back_up();
    done.unwrap();
    assert_eq!(outcome.volumes, 2);
}

#[test]
fn in_a_vault_that_is_not_what_it_was_nobody_is_fenced_and_nothing_given_up() {
    let world = World::new(None);
    let points: Vec<u64> = (0..4).map(|hour| world.point(hour, &["a", "b"])).collect();
    let dead = world.session(&session_name(CLUSTER, &policy("p", 1)));
    world.remembers_another_vault("b");
    let (done, _, outcome) = world.back_up();
    done.unwrap();
    assert_eq!(world.points(), points);
    assert!(world.vault().state().sessions().contains_key(&dead));
    assert!(outcome.notes[0].contains("nothing is given up"), "{:?}", outcome.notes);
}

#[test]
fn the_policys_own_rules_and_key_give_up_and_no_others() {
    let give_up = |world: &World, meanwhile: &dyn Fn()| {
        let points: Vec<u64> = (0..4).map(|hour| world.point(hour, &["a", "b"])).collect();
        let attempt = world.attempt();
        let mut records = attempt.read().unwrap().unwrap();
        meanwhile();
        let mut outcome = Outcome::default();
        assert!(attempt.back_up(&mut records, &mut outcome).is_err());
        assert_eq!(world.points(), points);
        world.ends.why()
    };
    // Another node has the key.
    let world = World::new(None);
    let taken = || {
        world.put(map::backup_runner_key(PolicyId(1)), &"n2");
    };
    assert_eq!(give_up(&world, &taken), Some(Why::Lost));
    // Other rules keep them.
    let world = World::new(None);
    let changed = || {
        let keep = Keep {
            last: 9,
            ..Keep::default()
        };
        let policy = BackupPolicy { keep, ..policy("p", 1) };
        world.put(map::backup_policy_key("p"), &policy);
    };
    assert_eq!(give_up(&world, &changed), Some(Why::Changed));
    // Its time is over.
    let mut world = World::new(None);
    world.ends = Ends::new(Arc::new(AtomicBool::new(false)), Duration::ZERO);
    assert_eq!(give_up(&world, &|| {}), Some(Why::Limit));
}

#[test]
fn sessions_of_policies_that_come_here_no_more_are_over() {
    let world = World::new(None);
    world.point(3, &["a", "b"]);
    let paused = BackupPolicy {
        paused: true,
        ..policy("paused", 2)
    };
    let moved = BackupPolicy {
        repository: "elsewhere".to_owned(),
        ..policy("moved", 3)
    };
    let at_it = BackupPolicy {
        repository: "elsewhere".to_owned(),
        ..policy("at-it", 4)
    };
    for known in [&paused, &moved, &at_it, &policy("other", 5)] {
        world.put(map::backup_policy_key(&known.name), known);
    }
    world.put(map::backup_runner_key(PolicyId(4)), &"n2");
    let begin = |policy: &BackupPolicy| world.session(&session_name(CLUSTER, policy));
    let over = [
        begin(&paused),
        begin(&moved),
        begin(&policy("deleted", 6)),
        begin(&policy("p", 1)),
        // A verification of a policy that verifies no more.
        world.session(&verification_session_name(CLUSTER, &policy("other", 5))),
    ];
    let others = [
        begin(&at_it),
        begin(&policy("other", 5)),
        world.session(&session_name(ClusterId(10), &policy("deleted", 6))),
        world.session("a backup"),
    ];
    world.back_up().0.unwrap();
    let open: Vec<SessionId> = world.vault().state().sessions().keys().copied().collect();
    assert!(over.iter().all(|id| !open.contains(id)), "{open:?}");
    assert_eq!(open, others);
}

#[test]
fn a_policy_that_cannot_be_read_is_not_taken_for_deleted() {
    let record = |key: String, value: &str| {
        KeyValue::from(Record {
            key,
            value: value.as_bytes().to_vec(),
            create_revision: 1,
            mod_revision: 1,
            version: 1,
            lease: None,
        })
    };
    let records = [record(map::backup_policy_key("x"), "{")];
    let session = |name: &str| OfPolicy {
        session: SessionId(3),
        name: name.to_owned(),
        id: PolicyId(7),
        verifies: false,
    };
    assert!(!is_left(&records, "r", &session("x")));
    assert!(is_left(&records, "r", &session("y")));
}

#[test]
fn of_an_attempt_that_does_not_end_is_said_what_it_had_come_to() {
    let world = World::new(None);
    world.ends.comes_to("what no point needs is removed");
    world.attempt().stuck().unwrap();
    let run = world.attempt().read().unwrap().unwrap().runs.run.unwrap();
    assert!(run.why[0].contains("what no point needs is removed"), "{:?}", run.why);
    assert!(
        !run.why[0].contains("answered"),
        "nobody knows whether it is the repository"
    );
}
