use super::super::super::key::Key;
use super::*;
use crate::commands::worker::LOOK;
use amita_control::backups::task::TaskState;
use amita_metadata::{Record, server};
use amita_types::VolumeId;
use amita_types::map::{BackupTaskEnd, BackupTaskOutcome, BackupWork, VolumeBackup};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

const NOW: u64 = 1_704_067_200;

fn task(id: u64, name: &str) -> BackupTask {
    BackupTask {
        id: BackupTaskId(id),
        name: name.to_owned(),
        repository: "r".to_owned(),
        work: BackupWork::Backup(VolumeBackup {
            volume: VolumeId(1),
            name: "v".to_owned(),
            snapshot: None,
            full: false,
        }),
        asked_at: NOW + id,
        limit_s: 60,
        cancelled: false,
    }
}

fn record(key: String, value: &impl serde::Serialize) -> KeyValue {
    record_of(1, key, value)
}

fn record_of(create_revision: u64, key: String, value: &impl serde::Serialize) -> KeyValue {
    KeyValue::from(Record {
        key,
        value: serde_json::to_vec(value).unwrap(),
        create_revision,
        mod_revision: 1,
        version: 1,
        lease: None,
    })
}

fn wanted(task: &BackupTask) -> KeyValue {
    record(map::backup_task_key(&task.name), task)
}

fn repository(nodes: &[&str]) -> KeyValue {
    let repository: BackupRepository = serde_json::from_value(serde_json::json!({
        "name": "r", "address": "/r", "key_file": "/k", "nodes": nodes
    }))
    .unwrap();
    record(map::backup_repository_key("r"), &repository)
}

fn due(records: &[KeyValue], node: &str) -> Vec<String> {
    let found = Found::of(records, 1);
    let (due, _) = found.due(node, Duration::from_secs(NOW + 100));
    due.into_iter().map(|task| task.name.clone()).collect()
}

#[test]
fn what_nobody_is_at_is_due_in_the_order_in_which_it_was_asked_for() {
    let (first, second, third) = (task(1, "z"), task(2, "a"), task(3, "m"));
    let mut records = vec![repository(&[]), wanted(&third), wanted(&second), wanted(&first)];
    assert_eq!(due(&records, "n1"), ["z", "a", "m"]);
    records.push(record(map::backup_task_runner_key(second.id), &"n2"));
    let ended = BackupTaskRun {
        end: Some(BackupTaskEnd {
            how: BackupTaskOutcome::Done,
            at: NOW,
        }),
        ..BackupTaskRun::default()
    };
    records.push(record(map::backup_task_run_key(third.id), &ended));
    assert_eq!(due(&records, "n1"), ["z"]);
    // What cannot be read may have ended.
    records.push(record(map::backup_task_run_key(first.id), &7));
    assert!(due(&records, "n1").is_empty());
}

/// Copied by hand under another name, it may be called so, or not: a task is carried out once.
#[test]
fn of_two_records_of_one_number_the_older_one_is_a_task() {
    let first = task(1, "z");
    let copied = record_of(2, map::backup_task_key("a"), &first);
    let renamed = BackupTask {
        name: "b".to_owned(),
        ..first.clone()
    };
    let renamed = record_of(3, map::backup_task_key("b"), &renamed);
    assert_eq!(due(&[repository(&[]), copied, renamed, wanted(&first)], "n1"), ["z"]);
}

#[test]
fn a_node_that_may_not_work_with_the_repository_ends_what_was_taken_back_and_begins_nothing() {
    let cancelled = BackupTask {
        cancelled: true,
        ..task(2, "back")
    };
    let records = [repository(&["n2"]), wanted(&task(1, "on")), wanted(&cancelled)];
    assert_eq!(due(&records, "n1"), ["back"]);
    assert_eq!(due(&records, "n2"), ["on", "back"]);
    // A task whose repository is gone fails by whoever looks at it.
    assert_eq!(due(&records[1..], "n1"), ["on", "back"]);
}

#[test]
fn what_is_undone_takes_no_room_of_others() {
    let undone = [true; MOST_UNDONE];
    assert!(has_room(false, undone.into_iter(), 0));
    assert!(!has_room(true, undone.into_iter(), 0));
    let others = [false; MOST];
    assert!(has_room(true, others.into_iter(), MOST_STUCK));
    assert!(!has_room(false, others.into_iter(), 0));
    assert!(!has_room(false, undone.into_iter(), MOST_STUCK));
}

#[test]
fn how_far_a_task_is_wakes_nobody() {
    let one = task(1, "on");
    let records = [wanted(&one), record(map::backup_task_runner_key(one.id), &"n2")];
    let found = Found::of(&records, 1);
    let wakes = |key: String| {
        let batch = Batch {
            revision: 2,
            events: vec![amita_metadata::Event::Put(record(key, &1))],
        };
        found.is_changed_by(&batch)
    };
    assert!(!wakes(map::backup_task_place_key(one.id)));
    assert!(!wakes(map::backup_task_run_key(one.id)));
    assert!(!wakes(map::backup_runs_key(map::PolicyId(1))));
    assert!(wakes(map::backup_task_key("other")));
    assert!(wakes(map::backup_task_runner_key(one.id)));
    assert!(wakes(map::backup_repository_key("r")));
}

#[test]
fn a_task_is_over_where_nobody_is_at_it_and_nobody_will_be() {
    let (one, id) = (task(1, "on"), BackupTaskId(1));
    let mut records = vec![wanted(&one)];
    assert!(!is_over(&records, id), "it waits");
    assert!(is_over(&records, BackupTaskId(2)), "it was removed");
    let run = record(map::backup_task_run_key(id), &BackupTaskRun::default());
    assert!(
        !is_over(&[wanted(&one), run], id),
        "its node has died, and another one goes on"
    );
    let ended = BackupTaskRun {
        end: Some(BackupTaskEnd {
            how: BackupTaskOutcome::Cancelled,
            at: NOW,
        }),
        ..BackupTaskRun::default()
    };
    records.push(record(map::backup_task_run_key(id), &ended));
    assert!(is_over(&records, id));
    records.push(record(map::backup_task_runner_key(id), &"n1"));
    assert!(!is_over(&records, id), "a node ends it");
    // What nobody can read may be any task's.
    records.push(record(map::backup_task_key("u"), &7));
    assert!(!is_over(&records, BackupTaskId(2)));
    let unreadable = [record(map::backup_task_run_key(id), &7)];
    assert!(!is_over(&unreadable, id));
}

/// It is a bucket at a server that takes requests, and answers none.
#[test]
fn what_is_taken_back_does_not_wait_for_a_repository_that_answers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let served = server::start(server::Config::new(here, path("meta"))).unwrap();
    let client = Client::connect(&[served.address().to_string()]).unwrap();
    admin::init_cluster(&client, ClusterId(9)).unwrap();
    Key::make(&path("key")).unwrap();
    std::fs::write(path("login"), "aws_access_key_id = A\naws_secret_access_key = s\n").unwrap();
    std::fs::set_permissions(path("login"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let silent = TcpListener::bind(here).unwrap();
    let repository = serde_json::json!({
        "name": "r", "address": "s3://vaults/of/us", "key_file": path("key"), "s3_credentials": path("login"),
        "s3_endpoint": format!("http://{}", silent.local_addr().unwrap()),
    });
    let put = |key: String, value: &serde_json::Value| {
        client.txn(&Call::put(key, serde_json::to_vec(value).unwrap())).unwrap();
    };
    put(map::backup_repository_key("r"), &repository);
    let one = BackupTask {
        limit_s: 86_400,
        ..task(1, "on")
    };
    put(map::backup_task_key("on"), &serde_json::json!(one));
    let node = start(client.clone(), Config::new(Vec::new()), "n1".to_owned()).unwrap();
    silent.set_nonblocking(true).unwrap();
    let began = Instant::now();
    let asked = loop {
        match silent.accept() {
            Ok(asked) => break asked,
            Err(why) => assert!(
                why.kind() == std::io::ErrorKind::WouldBlock && began.elapsed() < KEYLESS,
                "nobody asks the repository: {why}"
            ),
        }
        std::thread::sleep(LOOK);
    };
    let shown = || admin::backup_task(&client, "on").unwrap();
    assert_eq!(shown().state(), TaskState::Running);
    admin::cancel_backup_task(&client, "on", now()).unwrap();
    let began = Instant::now();
    while !shown().has_ended() && began.elapsed() < KEYLESS {
        std::thread::sleep(LOOK);
    }
    let status = shown();
    assert_eq!(status.state(), TaskState::Cancelled, "{status:?}");
    assert!(
        status.run.notes[0].contains("it was told to end: it was at this last: the repository"),
        "{status:?}"
    );
    drop((node, asked));
}
