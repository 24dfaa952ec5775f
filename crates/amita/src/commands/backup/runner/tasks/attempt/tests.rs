//! Attempts that need no gateway: what is found made, what cannot be, what is given up, and what is undone.

use super::super::super::super::key::Key;
use super::*;
use amita_backup::store::Folder;
use amita_backup::{Change, Options, VaultId};
use amita_control::admin::{ExportSpec, SubsystemSpec};
use amita_control::backups::task::{BackupTaskStatus, TaskState};
use amita_metadata::{Op, model};
use amita_types::map::{BACKUP_LABEL, BackupTaskId, BackupTaskOutcome, Closing, Snapshot, SnapshotState};
use amita_types::{ClusterId, Generation, NodeId, SnapshotId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

const CLUSTER: ClusterId = ClusterId(9);
/// Monday, 1 January 2024.
const MONDAY: u64 = 1_704_067_200;

/// A cluster with a volume, and a repository in a folder with a point of it that somebody has made by hand.
struct World {
    meta: Mutex<model::State>,
    folder: tempfile::TempDir,
    id: VaultId,
    config: Config,
    ends: Ends<BackupTask>,
    point: u64,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let key = Key::make(&folder.path().join("key")).unwrap();
        let store = Arc::new(Folder::open(&store).unwrap());
        let vault = Vault::create(store, key.bytes(), key.cost(), Options::default()).unwrap();
        let mut world = World {
            meta: Mutex::new(model::State::new()),
            id: vault.id(),
            config: Config::new(Vec::new()),
            ends: Ends::new(Arc::new(AtomicBool::new(false)), Duration::from_secs(3600)),
            point: 0,
            folder,
        };
        admin::init_cluster(&world.meta, CLUSTER).unwrap();
        world.volume("db", 1, None);
        let repository: BackupRepository = serde_json::from_value(serde_json::json!({
            "name": "r", "address": world.path("store"), "key_file": world.path("key")
        }))
        .unwrap();
        world.put(map::backup_repository_key("r"), &repository);
        world.point = world.make_point("by hand");
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

    fn volume(&self, name: &str, id: u64, import: Option<&str>) {
        let volume: Volume = serde_json::from_value(serde_json::json!({
            "id": id, "name": name, "pool": "p", "size_bytes": 1 << 20, "generation": Generation(0)
        }))
        .unwrap();
        let import = import.map(|format| Import {
            format: format.to_owned(),
            image_bytes: 1 << 20,
            modified_ns: MONDAY * 1_000_000_000,
            done_bytes: 4096,
            ails: None,
            attempt: None,
        });
        let about = About {
            import,
            ..About::of(volume.id)
        };
        self.put(map::about_key(volume.id), &about);
        self.put(map::volume_key(name), &volume);
    }

    fn vault(&self) -> Vault {
        let store = Arc::new(Folder::open(&self.path("store")).unwrap());
        let key = Key::load(&self.path("key")).unwrap();
        Vault::open(store, self.id, key.bytes(), Options::default()).unwrap()
    }

    fn make_point(&self, name: &str) -> u64 {
        let by = By::Node(&self.meta);
        let volume = amita_backup::Volume {
            identity: Subject::find(&by, "db").unwrap().identity,
            bytes: 1 << 20,
            encrypted: false,
            snapshot: (5, 1),
            parent: None,
            compares: false,
        };
        let mut vault = self.vault();
        let mut session = vault.begin("a backup").unwrap();
        let bytes = vec![7; 4096];
        let mut source = std::iter::once(Ok::<_, std::io::Error>(Change::Bytes { offset: 0, bytes }));
        let made = session.backup(&volume, &mut source).unwrap();
        let point = session.publish(name, MONDAY as i64, vec![made]).unwrap();
        session.end().unwrap();
        point
    }

    fn task(&self, work: BackupWork) -> BackupTask {
        let task = BackupTask {
            id: BackupTaskId(7),
            name: "t".to_owned(),
            repository: "r".to_owned(),
            work,
            asked_at: MONDAY,
            limit_s: 3600,
            cancelled: false,
        };
        self.put(map::backup_task_key("t"), &task);
        task
    }

    fn attempt(&self) -> Attempt<'_> {
        self.attempt_by(self.put(map::backup_task_runner_key(BackupTaskId(7)), &"n1"))
    }

    fn attempt_by(&self, claim: u64) -> Attempt<'_> {
        static BAR: std::sync::OnceLock<ProgressBar> = std::sync::OnceLock::new();
        Attempt {
            client: &self.meta,
            config: &self.config,
            node: "n1",
            claim,
            ends: &self.ends,
            task: "t",
            bar: BAR.get_or_init(ProgressBar::hidden),
        }
    }

    fn status(&self) -> BackupTaskStatus {
        admin::backup_task(&self.meta, "t").unwrap()
    }

    fn points(&self) -> Vec<u64> {
        self.vault().state().points().keys().copied().collect()
    }
}

fn backup() -> BackupWork {
    BackupWork::Backup(VolumeBackup {
        volume: VolumeId(1),
        name: "db".to_owned(),
        snapshot: None,
        full: false,
    })
}

fn restore(world: &World, to: &str) -> PointRestore {
    PointRestore {
        point: world.point,
        point_name: None,
        volume: None,
        to: to.to_owned(),
        pool: "p".to_owned(),
        encrypted: None,
        tenant: None,
    }
}

fn forget(point: u64, name: Option<&str>) -> BackupWork {
    BackupWork::Forget(PointForget {
        point,
        point_name: name.map(str::to_owned),
    })
}

/// It has failed for good at the first attempt, and says so.
fn fails(world: &World, says: &str) {
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!(status.state(), TaskState::Failed, "{status:?}");
    assert_eq!((status.run.attempts, status.run.failures), (1, 1));
    assert!(status.run.why[0].contains(says), "{:?}", status.run.why);
}

#[test]
fn a_point_that_an_attempt_before_has_made_is_made() {
    let world = World::new();
    let task = world.task(backup());
    let point = world.make_point(&task::point_name(&task));
    // Its session is open still: its node is dead.
    let open = world.vault().begin(&task::session_name(CLUSTER, &task)).unwrap().id();
    // So is that of one which was cancelled, and removed.
    let other = BackupTask {
        id: BackupTaskId(3),
        ..task.clone()
    };
    let left = world.vault().begin(&task::session_name(CLUSTER, &other)).unwrap().id();
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!(status.state(), TaskState::Done, "{status:?}");
    let sessions = world.vault().state().sessions().len();
    assert_eq!(sessions, 0, "{left} is over");
    let made = status.run.made.unwrap();
    assert_eq!((made.point, made.taken_at, made.size_bytes), (point, MONDAY, 1 << 20));
    assert_eq!(status.run.node, "n1");
    assert!(!world.vault().state().sessions().contains_key(&open));
    // The point that is not its own is none of it.
    assert_eq!(world.points(), [world.point, point]);
}

#[test]
fn a_point_of_which_not_all_is_locked_is_made_and_says_so() {
    let world = World::new();
    let task = world.task(backup());
    let point = world.make_point(&task::point_name(&task));
    // A folder has no locks.
    let repository: BackupRepository = serde_json::from_value(serde_json::json!({
        "name": "r", "address": world.path("store"), "key_file": world.path("key"), "lock_days": 30
    }))
    .unwrap();
    world.put(map::backup_repository_key("r"), &repository);
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!(status.state(), TaskState::Done, "{status:?}");
    assert_eq!(status.run.made.unwrap().point, point);
    let noted = |note: &String| note.contains("not all that it needs is locked");
    assert_eq!(
        status.run.notes.iter().filter(|note| noted(note)).count(),
        1,
        "{:?}",
        status.run.notes
    );
}

#[test]
fn what_a_point_needs_is_locked_by_another_attempt_while_there_is_one() {
    for (kind, why, is_last, again) in [
        (Kind::Unreachable, None, false, true),
        (Kind::Unreachable, None, true, false),
        (Kind::Interrupted, Some(Why::Limit), false, true),
        (Kind::Interrupted, Some(Why::Limit), true, false),
        // Its node ends, or it was taken back: that counts as no failure.
        (Kind::Interrupted, None, true, true),
        (Kind::Interrupted, Some(Why::Changed), true, true),
        (Kind::Failed, None, false, false),
        (Kind::Conflict, None, false, false),
    ] {
        assert_eq!(is_locked_again(kind, why, is_last), again, "{kind:?} {why:?} {is_last}");
    }
}

#[test]
fn a_volume_that_is_gone_is_backed_up_by_no_attempt() {
    let world = World::new();
    world.task(BackupWork::Backup(VolumeBackup {
        volume: VolumeId(99),
        name: "gone".to_owned(),
        snapshot: None,
        full: false,
    }));
    fails(&world, "called gone");
}

#[test]
fn a_repository_that_is_away_is_tried_again() {
    let world = World::new();
    world.task(backup());
    std::fs::rename(world.path("store"), world.path("elsewhere")).unwrap();
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!((status.run.failures, status.has_ended()), (1, false), "{status:?}");
    assert!(status.run.again_at.is_some());
    assert!(status.run.why[0].contains("the repository"), "{:?}", status.run.why);
    // Before that time nothing is done.
    world.attempt().run().unwrap();
    assert_eq!(world.status().run.attempts, 1);
}

#[test]
fn a_node_that_lacks_the_key_file_waits_for_one_that_has_it() {
    let world = World::new();
    world.task(backup());
    std::fs::rename(world.path("key"), world.path("elsewhere")).unwrap();
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!((status.run.attempts, status.run.failures), (0, 0), "{status:?}");
    assert!(!status.has_ended() && status.run.again_at.is_some(), "{status:?}");
    assert!(
        status.run.why[0].contains("node n1 has no key file"),
        "{:?}",
        status.run.why
    );
}

#[test]
fn a_repository_that_is_not_known_any_more_ends_it() {
    let world = World::new();
    world.task(backup());
    let key = map::backup_repository_key("r");
    world
        .meta
        .txn(&Call {
            then: vec![Op::Delete { key }],
            ..Call::default()
        })
        .unwrap();
    fails(&world, "there is no backup repository r");
}

#[test]
fn a_point_is_given_up_once() {
    let world = World::new();
    world.task(forget(world.point, Some("by hand")));
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!(status.state(), TaskState::Done, "{status:?}");
    assert_eq!(status.run.made.unwrap().point_name, "by hand");
    assert!(world.points().is_empty());
    // An attempt that does not know of that comes to the same.
    world.put(map::backup_task_run_key(BackupTaskId(7)), &BackupTaskRun::default());
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!(status.state(), TaskState::Done);
    assert!(status.run.notes[0].contains("any more"), "{:?}", status.run.notes);
}

#[test]
fn a_point_of_another_name_and_one_that_never_was_are_not_given_up() {
    let world = World::new();
    world.task(forget(world.point, Some("another")));
    fails(&world, "and not \"another\"");
    let world = World::new();
    world.task(forget(9999, None));
    fails(&world, "there is no point 9999");
    assert_eq!(world.points(), [world.point]);
}

#[test]
fn in_a_vault_that_was_set_back_nothing_is_given_up() {
    let world = World::new();
    world.task(forget(world.point, Some("by hand")));
    let volume = admin::volume(&world.meta, "db").unwrap();
    // By a session that the journal does not have.
    let label = format!("{}/9999/{}", world.id, "0".repeat(64));
    let mark = Snapshot {
        volume: volume.id,
        number: SnapshotId(4),
        name: "backup-later".to_owned(),
        size_bytes: volume.size_bytes,
        taken_at: 5,
        labels: BTreeMap::from([(BACKUP_LABEL.to_owned(), label)]),
        protected: false,
        clones: 0,
        set: None,
        mark: true,
        hidden: false,
        state: SnapshotState::Sealed(Generation(1)),
    };
    world.put(map::snapshot_key(volume.id, mark.number), &mark);
    let entries = world.vault().state().number();
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!((status.run.failures, status.has_ended()), (1, false), "{status:?}");
    assert_eq!(world.points(), [world.point]);
    assert_eq!(
        world.vault().state().number(),
        entries,
        "nobody is taken for dead either"
    );
}

#[test]
fn who_has_lost_the_key_gives_nothing_up() {
    let world = World::new();
    world.task(forget(world.point, None));
    let before = world.put(map::backup_task_runner_key(BackupTaskId(7)), &"n1");
    world.put(map::backup_task_runner_key(BackupTaskId(7)), &"n2");
    world.attempt_by(before).run().unwrap();
    assert_eq!(world.points(), [world.point]);
    assert_eq!(world.status().run, BackupTaskRun::default());
    // It had it when it began: what the journal says is asked at the very moment.
    world.ends.lose();
    world.attempt().run().unwrap();
    assert_eq!(world.points(), [world.point]);
    assert!(!world.status().has_ended());
}

#[test]
fn who_has_lost_the_key_says_nothing_of_a_volume_and_deletes_none() {
    let world = World::new();
    let task = world.task(BackupWork::Restore(restore(&world, "new")));
    world.volume("new", 2, None);
    let volume = admin::volume(&world.meta, "new").unwrap();
    let import = Import {
        format: format!("backup v point 1 volume 0{}", own_mark(&task)),
        image_bytes: 1 << 20,
        modified_ns: 1,
        done_bytes: 4096,
        ails: None,
        attempt: None,
    };
    let runner = || world.put(map::backup_task_runner_key(task.id), &"n1");
    let (lost, had) = (runner(), runner());
    let is_marked = || admin::about(&world.meta, volume.id).unwrap().import.is_some();
    // It stood still, and another node has filled the volume.
    let late = world.attempt_by(lost);
    admin::begin_import(&late.fenced(&task), &volume, &import).unwrap_err();
    assert!(!is_marked(), "it is whole");
    let now = world.attempt_by(had);
    admin::begin_import(&now.fenced(&task), &volume, &import).unwrap();
    admin::end_import(&late.fenced(&task), &volume, &import).unwrap_err();
    assert!(is_marked(), "it is being filled");
    let run = BackupTaskRun::default();
    late.undo_restore(&task, &run, &restore(&world, "new")).unwrap_err();
    admin::volume(&world.meta, "new").unwrap();
    let left = now.undo_restore(&task, &run, &restore(&world, "new"));
    assert!(matches!(left, Ok(Left::Nothing)), "{left:?}");
    admin::volume(&world.meta, "new").unwrap_err();
}

#[test]
fn what_cannot_be_restored_is_not_tried_again() {
    let world = World::new();
    let none = PointRestore {
        point: 9999,
        ..restore(&world, "new")
    };
    world.task(BackupWork::Restore(none));
    fails(&world, "there is no point 9999");
    let world = World::new();
    let renamed = PointRestore {
        point_name: Some("another".to_owned()),
        ..restore(&world, "new")
    };
    world.task(BackupWork::Restore(renamed));
    fails(&world, "nothing is done with it");
    let world = World::new();
    world.task(BackupWork::Restore(restore(&world, "db")));
    fails(&world, "there is a volume db already");
    // Also one that a command is restoring the same point into.
    let world = World::new();
    let format = format!("backup {} point {} volume 0", world.id, world.point);
    world.volume("new", 2, Some(&format));
    world.task(BackupWork::Restore(restore(&world, "new")));
    fails(&world, "there is a volume new already");
    let world = World::new();
    world.task(BackupWork::Restore(restore(&world, "new")));
    fails(&world, "p");
}

#[test]
fn a_restore_that_has_failed_leaves_nothing_of_its_own() {
    for (format, goes) in [
        (Some("backup v point 1 volume 0, task t/7"), true),
        (Some("backup v point 1 volume 0, task t/8"), false),
        (None, false),
    ] {
        let world = World::new();
        let none = PointRestore {
            point: 9999,
            ..restore(&world, "new")
        };
        world.task(BackupWork::Restore(none));
        world.volume("new", 2, format);
        fails(&world, "there is no point 9999");
        assert_eq!(admin::volume(&world.meta, "new").is_err(), goes, "{format:?}");
    }
}

#[test]
fn a_restore_that_has_come_to_its_end_is_done_also_where_nobody_noted_it() {
    let world = World::new();
    world.task(BackupWork::Restore(restore(&world, "new")));
    world.volume("new", 2, None);
    let run = BackupTaskRun {
        attempts: 1,
        restores_into: Some(VolumeId(2)),
        ..BackupTaskRun::default()
    };
    world.put(map::backup_task_run_key(BackupTaskId(7)), &run);
    world.attempt().run().unwrap();
    let status = world.status();
    assert_eq!(status.state(), TaskState::Done, "{status:?}");
    assert_eq!(status.run.made.unwrap().point, world.point);
}

#[test]
fn what_a_restore_had_begun_to_fill_goes_and_what_is_another_ones_stays() {
    for (format, goes) in [
        (Some("backup v point 1 volume 0, task t/7"), true),
        (Some("backup v point 1 volume 0, task t/8"), false),
        (Some("raw"), false),
        (None, false),
    ] {
        let world = World::new();
        let task = BackupTask {
            cancelled: true,
            ..world.task(BackupWork::Restore(restore(&world, "new")))
        };
        world.volume("new", 2, format);
        world.put(map::backup_task_key("t"), &task);
        world.attempt().run().unwrap();
        let status = world.status();
        assert_eq!(
            status.run.end.map(|end| end.how),
            Some(BackupTaskOutcome::Cancelled),
            "{status:?}"
        );
        assert_eq!(admin::volume(&world.meta, "new").is_err(), goes, "{format:?}");
    }
}

/// The thread of an attempt hangs in a folder, and has the volume open: what becomes of that when the task is undone, and `meanwhile` comes between the
/// question to the volume's owner and its answer.
fn undone_beside_one_that_hangs(meanwhile: impl Fn(&World)) -> (World, Left) {
    let world = World::new();
    let task = world.task(BackupWork::Restore(restore(&world, "new")));
    world.volume("new", 2, Some("backup v point 1 volume 0, task t/7"));
    let node = NodeId(3);
    let open = Volume {
        owner: Some(node),
        ..admin::volume(&world.meta, "new").unwrap()
    };
    world.put(map::volume_key("new"), &open);
    world.put(map::live_key(node), &"n3");
    let key = map::closing_key(open.id);
    let asked = || {
        let reply = world.meta.txn(&Call::get(key.as_str())).unwrap();
        reply.value(0).map(|found| found.json::<Closing>().unwrap())
    };
    let until = |is_so: &dyn Fn() -> bool| {
        let every = Duration::from_millis(5);
        let seen = interrupt::poll(PATIENCE, every, || Ok(is_so().then_some(())));
        seen.unwrap().expect("it is asked");
    };
    let left = std::thread::scope(|scope| {
        let work = restore(&world, "new");
        let (world, task) = (&world, &task);
        let undone = scope.spawn(move || world.attempt().undo_restore(task, &BackupTaskRun::default(), &work));
        until(&|| asked().is_some());
        // Its owner says that a client uses it, and closes it when it is told to all the same.
        let in_use = Closing {
            clients: Some(1),
            ..asked().unwrap()
        };
        assert!(!in_use.force);
        meanwhile(world);
        world.put(key.clone(), &in_use);
        until(&|| undone.is_finished() || asked().is_some_and(|asked| asked.force));
        world
            .meta
            .txn(&Call {
                then: vec![Op::Delete { key: key.clone() }],
                ..Call::default()
            })
            .unwrap();
        undone.join().unwrap().unwrap()
    });
    (world, left)
}

#[test]
fn what_a_thread_that_hangs_was_filling_goes_though_that_has_it_open() {
    let (world, left) = undone_beside_one_that_hangs(|_| {});
    assert!(matches!(left, Left::Nothing), "{left:?}");
    admin::volume(&world.meta, "new").unwrap_err();
}

fn is_made_a_namespace(world: &World) {
    let spec = SubsystemSpec {
        name: "s".to_owned(),
        ..SubsystemSpec::default()
    };
    admin::create_subsystem(&world.meta, &spec).unwrap();
    admin::add_namespace(&world.meta, "s", "new", None, 4096).unwrap();
}

fn is_exported(world: &World) {
    let spec = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    admin::export_volume(&world.meta, "new", &spec).unwrap();
}

/// It is forced away from the thread that hangs, and from nobody else.
#[test]
fn what_hosts_have_got_between_two_steps_of_the_undoing_stays_theirs() {
    for (meanwhile, says) in [
        (is_made_a_namespace as fn(&World), "namespace 1 of subsystem s"),
        (is_exported, "is exported by NBD"),
        (
            |world: &World| drop(admin::protect_volume(&world.meta, "new", true).unwrap()),
            "protected",
        ),
    ] {
        let (world, left) = undone_beside_one_that_hangs(meanwhile);
        let Left::Taken(why) = left else { panic!("{left:?}") };
        assert!(why.contains(says) && why.contains("`amita volume delete new`"), "{why}");
        admin::volume(&world.meta, "new").unwrap();
        let is_namespace = admin::subsystem(&world.meta, "s").is_ok_and(|found| found.namespaces.len() == 1);
        let is_exported = !admin::exports(&world.meta).unwrap().is_empty();
        let is_protected = admin::about(&world.meta, VolumeId(2)).unwrap().protected;
        assert!(is_namespace || is_exported || is_protected, "{says}");
    }
}

/// Nobody tries it again and again: the task has ended, and says what stands there.
#[test]
fn a_task_that_was_taken_back_ends_where_hosts_have_what_it_filled() {
    for is_cancelled in [true, false] {
        let world = World::new();
        let none = PointRestore {
            point: 9999,
            ..restore(&world, "new")
        };
        let task = world.task(BackupWork::Restore(none));
        world.volume("new", 2, Some("backup v point 1 volume 0, task t/7"));
        is_made_a_namespace(&world);
        let task = BackupTask {
            cancelled: is_cancelled,
            ..task
        };
        world.put(map::backup_task_key("t"), &task);
        world.attempt().run().unwrap();
        let status = world.status();
        assert!(status.has_ended(), "{status:?}");
        assert!(
            status.run.notes[0].contains("somebody has begun to use it"),
            "{status:?}"
        );
        admin::volume(&world.meta, "new").unwrap();
    }
}

/// What an import has come to its end with is nobody's to undo.
#[test]
fn what_is_whole_by_then_stays() {
    let (world, left) = undone_beside_one_that_hangs(|world| {
        let volume = admin::volume(&world.meta, "new").unwrap();
        let about = admin::about(&world.meta, volume.id).unwrap();
        admin::end_import(&world.meta, &volume, &about.import.unwrap()).unwrap();
    });
    assert!(matches!(left, Left::Whole), "{left:?}");
    admin::volume(&world.meta, "new").unwrap();
}
