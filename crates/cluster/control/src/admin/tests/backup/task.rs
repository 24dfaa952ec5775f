//! Tasks: what is asked for again is what there is, what was taken back ends, and who has lost the key says nothing any more.

use super::*;
use crate::access::Action;
use crate::backups::task::TaskState;
use amita_types::SnapshotId;
use amita_types::map::{
    BackupTask, BackupTaskEnd, BackupTaskId, BackupTaskOutcome, BackupTaskPlace, BackupTaskRun, BackupWork,
    MAX_BACKUP_TASKS, PointForget, PointRestore, Snapshot, SnapshotName, SnapshotState,
};
use std::collections::BTreeMap;

fn of(work: WishedWork) -> BackupTaskWish {
    BackupTaskWish {
        repository: "off-site".to_owned(),
        work,
        limit_s: None,
    }
}

fn back_up(of_what: &str) -> BackupTaskWish {
    of(WishedWork::Backup {
        of: of_what.to_owned(),
        full: false,
    })
}

fn restore(to: &str) -> PointRestore {
    PointRestore {
        point: 9,
        point_name: None,
        volume: None,
        to: to.to_owned(),
        pool: "main".to_owned(),
        encrypted: None,
        tenant: None,
    }
}

fn create(meta: &Mutex<State>, name: &str, wish: &BackupTaskWish) -> Result<BackupTask> {
    create_backup_task(meta, name, wish, NOW)
}

fn snapshot_of(meta: &Mutex<State>, name: &str, state: SnapshotState) {
    let volume = volume(meta, "db").unwrap();
    let snapshot = Snapshot {
        volume: volume.id,
        number: SnapshotId(4),
        name: name.to_owned(),
        size_bytes: volume.size_bytes,
        taken_at: 5,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state,
    };
    let named = SnapshotName {
        number: snapshot.number,
        data: None,
    };
    for (key, value) in [
        (
            map::snapshot_key(volume.id, snapshot.number),
            serde_json::to_vec(&snapshot).unwrap(),
        ),
        (
            map::snapshot_name_key(volume.host(), name),
            serde_json::to_vec(&named).unwrap(),
        ),
    ] {
        meta.txn(&Call::put(key, value)).unwrap();
    }
}

/// A node takes the task's key: the revision by which it did.
fn claimed(meta: &Mutex<State>, task: &BackupTask, node: &str) -> u64 {
    let key = map::backup_task_runner_key(task.id);
    meta.txn(&Call::put(key, serde_json::to_vec(node).unwrap()))
        .unwrap()
        .revision
}

fn made(meta: &Mutex<State>, name: &str) -> u64 {
    let reply = meta.txn(&Call::get(map::backup_task_key(name))).unwrap();
    reply.value(0).unwrap().create_revision
}

fn write_run(meta: &Mutex<State>, task: &BackupTask, run: &BackupTaskRun) {
    let key = map::backup_task_run_key(task.id);
    meta.txn(&Call::put(key, serde_json::to_vec(run).unwrap())).unwrap();
}

fn ended(how: BackupTaskOutcome, at: u64) -> BackupTaskRun {
    BackupTaskRun {
        attempts: 1,
        end: Some(BackupTaskEnd { how, at }),
        ..BackupTaskRun::default()
    }
}

#[test]
fn tasks_that_cannot_be_are_refused() {
    let meta = prepared();
    refused(create(&meta, "a/b", &back_up("db")), "a/b");
    refused(create(&meta, &"x".repeat(65), &back_up("db")), "64 are the most");
    refused(create(&meta, "t", &back_up("dbs")), "db");
    refused(create(&meta, "t", &back_up("db@none")), "none");
    let elsewhere = BackupTaskWish {
        repository: "elsewhere".to_owned(),
        ..back_up("db")
    };
    refused(create(&meta, "t", &elsewhere), "elsewhere");
    let hasty = BackupTaskWish {
        limit_s: Some(1),
        ..back_up("db")
    };
    refused(create(&meta, "t", &hasty), "time limit of 1 s");
    refused(create(&meta, "t", &of(WishedWork::Restore(restore("db")))), "db");
    let nowhere = PointRestore {
        pool: "elsewhere".to_owned(),
        ..restore("new")
    };
    refused(create(&meta, "t", &of(WishedWork::Restore(nowhere))), "elsewhere");
    // No volume can have been called so, and the record would be as long as the request.
    let long = PointRestore {
        volume: Some("x".repeat(4096)),
        ..restore("new")
    };
    let found = create(&meta, "t", &of(WishedWork::Restore(long)));
    assert!(matches!(found, Err(AdminError::BadName { .. })), "{found:?}");
    let none = PointForget {
        point: 0,
        point_name: None,
    };
    refused(create(&meta, "t", &of(WishedWork::Forget(none))), "from 1 on");
    snapshot_of(&meta, "soon", SnapshotState::Taking(Generation(1)));
    refused(create(&meta, "t", &back_up("db@soon")), "there is no snapshot");
    assert!(backup_tasks(&meta).unwrap().0.is_empty());
}

#[test]
fn who_may_restore_may_not_have_it_in_the_clear() {
    let of = |encrypted| {
        let wished = PointRestore {
            encrypted,
            ..restore("new")
        };
        WishedWork::Restore(wished).action()
    };
    assert_eq!(of(Some(false)), Action::VolumeDecrypt);
    assert_eq!([of(None), of(Some(true))], [Action::BackupRestore; 2]);
}

#[test]
fn asked_for_again_it_is_the_one_that_there_is() {
    let meta = prepared();
    snapshot_of(&meta, "monday", SnapshotState::Sealed(Generation(1)));
    let task = create(&meta, "t", &back_up("db@monday")).unwrap();
    match &task.work {
        BackupWork::Backup(backup) => {
            assert_eq!(backup.volume, volume(&meta, "db").unwrap().host());
            assert_eq!(backup.snapshot.as_ref().unwrap().number, SnapshotId(4));
        }
        other => panic!("{other:?}"),
    }
    let later = NOW + Duration::from_secs(60);
    let again = || create_backup_task(&meta, "t", &back_up("db@monday"), later);
    assert_eq!(again().unwrap(), task);
    // Also when it has ended, and what it was for is there no more.
    write_run(&meta, &task, &ended(BackupTaskOutcome::Done, 7));
    meta.txn(&Call {
        then: vec![Op::Delete {
            key: map::volume_key("db"),
        }],
        ..Call::default()
    })
    .unwrap();
    assert_eq!(again().unwrap(), task);
    for other in [
        back_up("db"),
        of(WishedWork::Restore(restore("new"))),
        BackupTaskWish {
            limit_s: Some(60),
            ..back_up("db@monday")
        },
    ] {
        assert!(
            matches!(create(&meta, "t", &other), Err(AdminError::Exists { .. })),
            "{other:?}"
        );
    }
    assert_eq!(backup_tasks(&meta).unwrap().0.len(), 1);
}

#[test]
fn another_of_the_name_of_one_that_was_removed_is_another_task() {
    let meta = prepared();
    let first = create(&meta, "t", &back_up("db")).unwrap();
    refused(remove_backup_task(&meta, "t"), "has not ended");
    write_run(&meta, &first, &ended(BackupTaskOutcome::Failed, 7));
    remove_backup_task(&meta, "t").unwrap();
    assert!(matches!(backup_task(&meta, "t"), Err(AdminError::NoSuch { .. })));
    let second = create(&meta, "t", &back_up("db")).unwrap();
    assert_ne!(first.id, second.id);
    let status = backup_task(&meta, "t").unwrap();
    assert_eq!(status.run, BackupTaskRun::default(), "it begins anew");
}

#[test]
fn what_nobody_has_begun_is_over_when_it_is_taken_back() {
    let meta = prepared();
    create(&meta, "t", &back_up("db")).unwrap();
    cancel_backup_task(&meta, "t", NOW).unwrap();
    let status = backup_task(&meta, "t").unwrap();
    assert_eq!(status.run.end.map(|end| end.how), Some(BackupTaskOutcome::Cancelled));
    // Once more, it is what it is.
    cancel_backup_task(&meta, "t", NOW).unwrap();
}

#[test]
fn what_somebody_is_at_ends_by_whoever_is_at_it() {
    let meta = prepared();
    let task = create(&meta, "t", &of(WishedWork::Restore(restore("new")))).unwrap();
    // Its key is had, and nothing noted yet.
    let claim = claimed(&meta, &task, "n1");
    cancel_backup_task(&meta, "t", NOW).unwrap();
    let status = backup_task(&meta, "t").unwrap();
    assert!(status.task.cancelled && !status.has_ended(), "{status:?}");
    let made = made(&meta, "t");
    let run = ended(BackupTaskOutcome::Cancelled, 8);
    note_backup_task(&meta, &task, made, claim, 0, &run).unwrap().unwrap();
    cancel_backup_task(&meta, "t", NOW).unwrap();
    let done = create(&meta, "u", &back_up("db")).unwrap();
    write_run(&meta, &done, &ended(BackupTaskOutcome::Done, 8));
    refused(cancel_backup_task(&meta, "u", NOW), "it has ended");
}

#[test]
fn who_has_lost_the_key_says_nothing_any_more() {
    let meta = prepared();
    let task = create(&meta, "t", &back_up("db")).unwrap();
    let made = made(&meta, "t");
    let run = BackupTaskRun {
        node: "n1".to_owned(),
        attempts: 1,
        ..BackupTaskRun::default()
    };
    let first = claimed(&meta, &task, "n1");
    let note =
        |claim, revision, run: &BackupTaskRun| note_backup_task(&meta, &task, made, claim, revision, run).unwrap();
    let noted = note(first, 0, &run).unwrap();
    let place = BackupTaskPlace {
        done_bytes: 5,
        total_bytes: 9,
        step: "it is read".to_owned(),
        at: 7,
    };
    assert!(note_backup_task_place(&meta, task.id, first, &place).unwrap());
    assert_eq!(backup_task(&meta, "t").unwrap().place, Some(place.clone()));
    let second = claimed(&meta, &task, "n2");
    assert_eq!(note(first, noted, &run), None);
    assert!(!note_backup_task_place(&meta, task.id, first, &place).unwrap());
    assert_eq!(note(second, 0, &run), None, "it is not what was read");
    // Its end is the end of what says how far it is.
    note(second, noted, &ended(BackupTaskOutcome::Done, 9)).unwrap();
    let reply = meta.txn(&Call::get(map::backup_task_place_key(task.id))).unwrap();
    assert!(reply.value(0).is_none());
    // What a task of before comes to is nothing of one of the same name.
    remove_backup_task(&meta, "t").unwrap();
    create(&meta, "t", &back_up("db")).unwrap();
    assert_eq!(note(second, 0, &run), None);
}

#[test]
fn the_oldest_that_has_ended_makes_room_and_what_goes_on_does_not() {
    let meta = prepared();
    let mut first = None;
    for number in 0..MAX_BACKUP_TASKS {
        let task = create(&meta, &format!("t{number}"), &back_up("db")).unwrap();
        first.get_or_insert(task);
    }
    refused(create(&meta, "more", &back_up("db")), "no more can be");
    let second = backup_task(&meta, "t1").unwrap().task;
    write_run(&meta, &first.unwrap(), &ended(BackupTaskOutcome::Done, 9));
    write_run(&meta, &second, &ended(BackupTaskOutcome::Failed, 3));
    create(&meta, "more", &back_up("db")).unwrap();
    assert!(backup_task(&meta, "t1").is_err());
    assert!(backup_task(&meta, "t0").is_ok());
    assert_eq!(backup_tasks(&meta).unwrap().0.len(), MAX_BACKUP_TASKS);
}

#[test]
fn what_was_removed_and_asked_for_again_makes_no_room() {
    /// Somebody does that with the oldest one when all tasks were read.
    struct Meanwhile<'a>(&'a Mutex<State>, AtomicUsize);
    impl Transact for Meanwhile<'_> {
        fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
            let reply = self.0.txn(call)?;
            let is_list = *call == Call::prefix(map::backup_tasks_prefix());
            if is_list && self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                remove_backup_task(self.0, "t0").unwrap();
                create(self.0, "t0", &back_up("db")).unwrap();
            }
            Ok(reply)
        }
    }
    let meta = prepared();
    for number in 0..MAX_BACKUP_TASKS {
        create(&meta, &format!("t{number}"), &back_up("db")).unwrap();
    }
    let first = backup_task(&meta, "t0").unwrap().task;
    write_run(&meta, &first, &ended(BackupTaskOutcome::Done, 9));
    let meanwhile = Meanwhile(&meta, AtomicUsize::new(0));
    refused(
        create_backup_task(&meanwhile, "more", &back_up("db"), NOW),
        "no more can be",
    );
    assert_ne!(backup_task(&meta, "t0").unwrap().task.id, first.id);
}

#[test]
fn a_repository_stays_known_as_long_as_a_task_is_for_it() {
    let meta = prepared();
    let task = create(&meta, "t", &back_up("db")).unwrap();
    refused(remove_backup_repository(&meta, "off-site"), "have not ended (t)");
    write_run(&meta, &task, &ended(BackupTaskOutcome::Done, 9));
    remove_backup_repository(&meta, "off-site").unwrap();
    // What is known of the task is so still.
    assert!(backup_task(&meta, "t").unwrap().has_ended());
}

#[test]
fn what_nobody_can_read_is_told_and_hides_no_other() {
    let meta = prepared();
    let task = create(&meta, "t", &back_up("db")).unwrap();
    meta.txn(&Call::put(map::backup_task_key("u"), b"{".to_vec())).unwrap();
    meta.txn(&Call::put(map::backup_task_run_key(task.id), b"{".to_vec()))
        .unwrap();
    let (all, unreadable) = backup_tasks(&meta).unwrap();
    assert_eq!((all.len(), unreadable.len()), (1, 1));
    assert_eq!(unreadable[0].name, "u");
    let fault = all[0].fault.as_ref().unwrap();
    assert!(fault.contains("backup task remove t"), "{fault}");
    remove_backup_task(&meta, "t").unwrap();
}

#[test]
fn what_nobody_can_read_is_removed_by_its_name() {
    let meta = prepared();
    let put = |key: String, text: &str| meta.txn(&Call::put(key, text.as_bytes().to_vec())).unwrap();
    for text in [
        "{",
        "7",
        r#"{"id":70,"name":"u","repository":"off-site","work":{"mirror":{}},"asked_at":5,"limit_s":60}"#,
    ] {
        put(map::backup_task_key("u"), text);
        put(map::backup_task_run_key(BackupTaskId(70)), r#"{"attempts":1}"#);
        let told = backup_task(&meta, "u").unwrap_err();
        assert!(matches!(told, AdminError::Unreadable { .. }), "{told:?}");
        refused(Err::<(), _>(told), "(`amita backup task remove u`)");
        refused(create(&meta, "u", &back_up("db")), "cannot be read");
        refused(cancel_backup_task(&meta, "u", NOW), "cannot be read");
        // It may be for any, or says for which.
        refused(remove_backup_repository(&meta, "off-site"), "backup task remove u");
        assert_eq!(remove_backup_task(&meta, "u").unwrap(), None, "{text}");
        assert!(matches!(remove_backup_task(&meta, "u"), Err(AdminError::NoSuch { .. })));
    }
    // Nothing is left of one whose number could be read.
    let run = meta
        .txn(&Call::get(map::backup_task_run_key(BackupTaskId(70))))
        .unwrap();
    assert!(run.value(0).is_none());
    remove_backup_repository(&meta, "off-site").unwrap();
}

#[test]
fn a_record_that_was_copied_by_hand_takes_nothing_of_anothers_along() {
    let meta = prepared();
    let task = create(&meta, "t", &back_up("db")).unwrap();
    write_run(&meta, &task, &ended(BackupTaskOutcome::Done, 9));
    let readable = serde_json::to_string(&task).unwrap();
    // Its name was put right, and its number is the other one's still.
    let renamed = serde_json::to_string(&BackupTask {
        name: "u".to_owned(),
        ..task.clone()
    });
    let garbage = format!(r#"{{"id":{},"asked_at":5}}"#, task.id.0);
    for text in [garbage, readable, renamed.unwrap()] {
        let call = Call::put(map::backup_task_key("u"), text.clone().into_bytes());
        meta.txn(&call).unwrap();
        let (all, unreadable) = backup_tasks(&meta).unwrap();
        let names = all.iter().map(|found| found.task.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["t"], "nobody is shown twice");
        assert_eq!(unreadable.iter().map(|found| &*found.name).collect::<Vec<_>>(), ["u"]);
        refused(backup_task(&meta, "u"), "backup task remove u");
        refused(create(&meta, "u", &back_up("db")), "backup task remove u");
        refused(cancel_backup_task(&meta, "u", NOW), "backup task remove u");
        assert_eq!(remove_backup_task(&meta, "u").unwrap(), None, "{text}");
        assert!(backup_task(&meta, "t").unwrap().has_ended(), "{text}");
    }
}

#[test]
fn what_a_node_is_at_is_not_removed_where_nothing_but_its_number_can_be_read() {
    let meta = prepared();
    let put = |key: String, text: &str| meta.txn(&Call::put(key, text.as_bytes().to_vec())).unwrap();
    put(map::backup_task_key("u"), r#"{"id":70,"repository":7,"asked_at":"x"}"#);
    put(map::backup_task_runner_key(BackupTaskId(70)), r#""n4""#);
    refused(remove_backup_task(&meta, "u"), "node n4 is at it");
}

#[test]
fn what_a_node_of_a_newer_program_is_at_is_not_removed_by_one_that_cannot_read_it() {
    let meta = prepared();
    let newer = r#"{"id":70,"name":"u","repository":"elsewhere","work":{"mirror":{}},"asked_at":5,"limit_s":60}"#;
    let put = |key: String, text: &str| meta.txn(&Call::put(key, text.as_bytes().to_vec())).unwrap();
    put(map::backup_task_key("u"), newer);
    put(map::backup_task_runner_key(BackupTaskId(70)), r#""n4""#);
    refused(remove_backup_task(&meta, "u"), "node n4 is at it");
    let (_, unreadable) = backup_tasks(&meta).unwrap();
    let remains = &unreadable[0].remains;
    assert_eq!((remains.id, remains.asked_at), (Some(BackupTaskId(70)), Some(5)));
    // It is for another repository.
    remove_backup_repository(&meta, "off-site").unwrap();
    let call = Call {
        then: vec![Op::Delete {
            key: map::backup_task_runner_key(BackupTaskId(70)),
        }],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    remove_backup_task(&meta, "u").unwrap();
}

#[test]
fn a_task_that_failed_or_does_not_move_is_a_fact_and_figures_count_all() {
    let meta = prepared();
    // Facts go by the clock of whoever asks.
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let facts = || {
        let all = status(&meta).unwrap().facts.into_iter();
        let of_tasks = all.filter(|fact| fact.name.starts_with("backup-task") || fact.name == "record-unreadable");
        of_tasks
            .map(|fact| (fact.name, fact.objects, fact.text))
            .collect::<Vec<_>>()
    };
    let create = |name: &str, wish: &BackupTaskWish| create_backup_task(&meta, name, wish, now).unwrap();
    let failed = create("failed", &of(WishedWork::Restore(restore("new"))));
    create("waits", &back_up("db"));
    let done = create("done", &back_up("db"));
    assert!(facts().is_empty(), "{:?}", facts());
    let mut run = ended(BackupTaskOutcome::Failed, now.as_secs());
    run.why = vec!["there is no point 9".to_owned()];
    write_run(&meta, &failed, &run);
    write_run(&meta, &done, &ended(BackupTaskOutcome::Done, now.as_secs() + 40));
    // Of another repository, of which no node has the key file: the tasks of this one are seen to.
    let elsewhere = BackupTaskWish {
        repository: "elsewhere".to_owned(),
        ..back_up("db")
    };
    add_backup_repository(&meta, "elsewhere", &place()).unwrap();
    for (name, ago) in [("late", 3600), ("later", 3000), ("last", 2000)] {
        create_backup_task(&meta, name, &elsewhere, now - Duration::from_secs(ago)).unwrap();
    }
    meta.txn(&Call::put(map::backup_task_key("u"), b"{".to_vec())).unwrap();
    let told = facts();
    let names: Vec<(&str, &str)> = told.iter().map(|(name, objects, _)| (*name, &*objects[0])).collect();
    let key = map::backup_task_key("u");
    assert_eq!(
        names,
        [
            ("backup-task-failed", "failed"),
            ("backup-task-late", "elsewhere"),
            ("record-unreadable", &*key)
        ]
    );
    assert!(
        told[0].2.contains("volume new is not restored: there is no point 9."),
        "{told:?}"
    );
    assert_eq!(told[0].1[1], "off-site");
    assert_eq!(told[1].1[1], "late");
    assert!(told[1].2.starts_with("Backup task late has waited 36"), "{told:?}");
    assert!(
        told[1].2.ends_with("2 more tasks of repository elsewhere do not move."),
        "{told:?}"
    );
    let figures = figures(&meta).unwrap().backup_tasks;
    let [backup, restore, forget] = &figures[..] else {
        panic!("{figures:?}")
    };
    let count = |of: &BackupTaskFigures, state: TaskState| {
        let found = of.states.iter().find(|(known, _)| *known == state);
        found.unwrap().1
    };
    assert_eq!(
        (backup.kind, restore.kind, forget.kind),
        ("backup", "restore", "forget")
    );
    assert_eq!(
        [TaskState::Waiting, TaskState::Done].map(|state| count(backup, state)),
        [4, 1]
    );
    // What has ended is not old.
    assert_eq!(backup.oldest, [(TaskState::Waiting, now.as_secs() - 3600)]);
    assert_eq!(restore.oldest, []);
    assert_eq!(
        [TaskState::Failed, TaskState::Done].map(|state| count(restore, state)),
        [1, 0]
    );
    assert_eq!((backup.took_s, restore.took_s, forget.late_s), (Some(40), None, 0));
    assert!(backup.late_s >= 3600, "{backup:?}");
    // Nobody needs to hear of what was removed.
    remove_backup_task(&meta, "failed").unwrap();
    assert!(facts().iter().all(|(name, ..)| *name != "backup-task-failed"));
}

#[test]
fn of_many_that_have_failed_the_newest_are_told_one_by_one() {
    let meta = prepared();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    for number in 0..20 {
        let task = create_backup_task(&meta, &format!("t{number}"), &back_up("db"), now).unwrap();
        let mut run = ended(BackupTaskOutcome::Failed, now.as_secs() - 100 + number);
        run.why = vec!["away".to_owned()];
        write_run(&meta, &task, &run);
    }
    let mut facts = status(&meta).unwrap().facts;
    facts.retain(|fact| fact.name == "backup-task-failed");
    assert_eq!((facts.len(), &*facts[0].objects[0]), (16, "t19"), "{facts:?}");
    let last = &facts[15];
    assert_eq!(last.objects[0], "t4");
    assert!(
        last.text
            .ends_with("away. So have 4 more, before (`amita backup task list`)."),
        "{last:?}"
    );
    assert!(facts[..15].iter().all(|fact| fact.text.ends_with("away.")), "{facts:?}");
}

/// Forty that wait for the two that a node is at are not late one by one.
#[test]
fn who_waits_for_others_of_its_repository_is_no_fact() {
    let meta = prepared();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let long_ago = now - Duration::from_secs(3600);
    let first = create_backup_task(&meta, "first", &back_up("db"), long_ago).unwrap();
    for number in 0..40 {
        create_backup_task(&meta, &format!("t{number}"), &back_up("db"), long_ago).unwrap();
    }
    let late = || {
        let all = status(&meta).unwrap().facts.into_iter();
        all.filter(|fact| fact.name == "backup-task-late").collect::<Vec<_>>()
    };
    let text = late()[0].text.clone();
    assert_eq!(late().len(), 1, "nobody has begun with any");
    assert!(text.contains("40 more tasks of repository off-site"), "{text}");
    let run = BackupTaskRun {
        attempts: 1,
        attempt_began: long_ago.as_secs() + 5,
        ..BackupTaskRun::default()
    };
    write_run(&meta, &first, &run);
    let claim = claimed(&meta, &first, "n1");
    assert_eq!(late(), []);
    // Its node has died this moment: it was at it until then, whenever it has begun.
    let place = BackupTaskPlace {
        at: now.as_secs(),
        ..BackupTaskPlace::default()
    };
    assert!(note_backup_task_place(&meta, first.id, claim, &place).unwrap());
    let call = Call {
        then: vec![Op::Delete {
            key: map::backup_task_runner_key(first.id),
        }],
        ..Call::default()
    };
    meta.txn(&call).unwrap();
    assert_eq!(late(), []);
}
