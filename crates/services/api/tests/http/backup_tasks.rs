//! Tasks of backups: asked for again they are what there is; and the points of a repository.

use super::every;
use super::world::World;
use amita_api::{
    Api, Asking, BackupPointFound, BackupPointVolumeFound, Code, DataPath, Diff, Differences, Going, Image, Imported,
    MirrorRead, Problem, Revert, Reverted, Sink, Source, router,
};
use amita_control::admin;
use amita_identity::OperatorRole::{Admin, Operator, Viewer};
use amita_metadata::{Call, Transact};
use amita_types::map::{self, BackupRepository, BackupTaskMade, BackupTaskPlace, BackupTaskRun};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn backup(of: &str) -> Value {
    json!({ "name": "t", "repository": "off-site", "backup": { "volume": of } })
}

async fn ask(world: &World, body: Value) -> super::world::Said {
    world.ask(Operator, "POST", "/api/v1/backup-tasks", Some(body)).await
}

#[tokio::test]
async fn a_task_that_is_asked_for_again_is_the_one_that_there_is() {
    let world = every::world();
    let made = ask(&world, backup("db")).await.done(202).body;
    assert_eq!(made["state"], "waiting");
    assert_eq!(
        made["backup"],
        json!({ "volume": "db", "snapshot": null, "full": false })
    );
    assert_eq!((&made["restore"], &made["node"]), (&Value::Null, &Value::Null));
    let again = ask(&world, backup("db")).await.done(202).body;
    assert_eq!(made, again);
    ask(&world, backup("other")).await.is(409, "exists");
    let snapshot = json!({ "name": "s", "repository": "off-site", "backup": { "volume": "db", "snapshot": "monday" } });
    let made = ask(&world, snapshot).await.done(202).body;
    assert_eq!(made["backup"]["snapshot"], "monday");
    let gone = json!({ "name": "u", "repository": "off-site", "backup": { "volume": "db", "snapshot": "none" } });
    ask(&world, gone).await.is(404, "not-found");
}

#[tokio::test]
async fn a_task_is_for_one_thing() {
    let world = every::world();
    let both = json!({
        "name": "t", "repository": "off-site", "backup": { "volume": "db" }, "forget": { "point": 3 }
    });
    for wrong in [json!({ "name": "t", "repository": "off-site" }), both] {
        let said = ask(&world, wrong).await;
        assert!(said.status.is_client_error(), "{said:?}");
        assert!(
            said.body["detail"].as_str().unwrap().contains("one of them only"),
            "{said:?}"
        );
    }
    let onto = json!({ "name": "t", "repository": "off-site", "restore": { "point": 3, "to": "db", "pool": "main" } });
    ask(&world, onto).await.is(409, "exists");
    let viewer = world
        .ask(Viewer, "POST", "/api/v1/backup-tasks", Some(backup("db")))
        .await;
    viewer.is(403, "denied");
}

#[tokio::test]
async fn a_restore_in_the_clear_takes_an_administrator_and_says_so_in_the_audit_log() {
    let world = every::world();
    let wanted = |encrypted: Value| {
        json!({ "name": "t", "repository": "off-site",
            "restore": { "point": 3, "to": "new", "pool": "main", "encrypted": encrypted } })
    };
    let refused = ask(&world, wanted(json!(false))).await;
    let why = refused.body["detail"].as_str().unwrap().to_owned();
    assert!(
        why.contains("volume.decrypt") && why.contains("only admin") && why.contains("an operator"),
        "{why}"
    );
    refused.is(403, "denied");
    assert!(admin::backup_task(&*world.meta, "t").is_err());
    let body = Some(wanted(json!(false)));
    let made = world.ask(Admin, "POST", "/api/v1/backup-tasks", body).await;
    assert_eq!(made.done(202).body["restore"]["encrypted"], false);
    let log = amita_control::audit::page(&*world.meta, 1).unwrap();
    let told = log
        .iter()
        .filter(|(_, line)| line.contains("\"volume.decrypt\""))
        .count();
    // Once refused, once begun and once done.
    assert_eq!(told, 3, "{log:?}");
    // As it was, or encrypted, is the daily work.
    let again = world.ask(Admin, "POST", "/api/v1/backup-tasks/t/cancel", None).await;
    again.done(202);
    world
        .ask(Operator, "DELETE", "/api/v1/backup-tasks/t", None)
        .await
        .done(204);
    ask(&world, wanted(Value::Null)).await.done(202);
}

#[tokio::test]
async fn how_far_a_task_is_and_what_it_came_to_is_told() {
    let world = every::world();
    ask(&world, backup("db")).await.done(202);
    let task = admin::backup_task(&*world.meta, "t").unwrap().task;
    let put = |key: String, value: Vec<u8>| world.meta.txn(&Call::put(key, value)).unwrap().revision;
    let claim = put(map::backup_task_runner_key(task.id), b"\"n1\"".to_vec());
    let place = BackupTaskPlace {
        done_bytes: 4096,
        total_bytes: 1 << 30,
        step: "volume db is backed up".to_owned(),
        at: 7,
    };
    admin::note_backup_task_place(&*world.meta, task.id, claim, &place).unwrap();
    let shown = || async {
        world
            .ask(Viewer, "GET", "/api/v1/backup-tasks/t", None)
            .await
            .done(200)
            .body
    };
    let running = shown().await;
    assert_eq!((&running["state"], &running["node"]), (&json!("running"), &json!("n1")));
    assert_eq!(running["progress"]["done_bytes"], 4096);
    let remove = world.ask(Operator, "DELETE", "/api/v1/backup-tasks/t", None).await;
    assert_eq!(remove.status, 409, "{remove:?}");
    let mut run = BackupTaskRun {
        attempts: 2,
        node: "n1".to_owned(),
        made: Some(BackupTaskMade {
            point: 17,
            point_name: "task t/1/x".to_owned(),
            taken_at: 5,
            sent_bytes: 99,
            ..BackupTaskMade::default()
        }),
        ..BackupTaskRun::default()
    };
    amita_control::backups::task::done(&mut run, 77);
    put(map::backup_task_run_key(task.id), serde_json::to_vec(&run).unwrap());
    let done = shown().await;
    assert_eq!((&done["state"], &done["ended_at"]), (&json!("done"), &json!(77)));
    assert_eq!(
        (&done["result"]["point"], &done["result"]["sent_bytes"]),
        (&json!(17), &json!(99))
    );
    assert_eq!(done["progress"], Value::Null);
    let cancel = world.ask(Operator, "POST", "/api/v1/backup-tasks/t/cancel", None).await;
    assert_eq!(cancel.status, 409, "{cancel:?}");
    world
        .ask(Operator, "DELETE", "/api/v1/backup-tasks/t", None)
        .await
        .done(204);
    world
        .ask(Viewer, "GET", "/api/v1/backup-tasks/t", None)
        .await
        .is(404, "not-found");
}

#[tokio::test]
async fn a_task_that_nobody_can_read_is_listed_as_that_and_removed() {
    let world = every::world();
    ask(&world, backup("db")).await.done(202);
    let newer = br#"{"id":70,"name":"a","repository":"off-site","work":{"mirror":{}},"asked_at":5,"limit_s":60}"#;
    for (name, record) in [("a", &newer[..]), ("z", b"\xff{")] {
        let put = Call::put(map::backup_task_key(name), record.to_vec());
        world.meta.txn(&put).unwrap();
    }
    let list = || async {
        let said = world.ask(Viewer, "GET", "/api/v1/backup-tasks", None).await.done(200);
        said.body["items"].as_array().unwrap().clone()
    };
    let all = list().await;
    let states: Vec<(&str, &str)> = all
        .iter()
        .map(|task| (task["name"].as_str().unwrap(), task["state"].as_str().unwrap()))
        .filter(|(name, _)| ["a", "t", "z"].contains(name))
        .collect();
    assert_eq!(states, [("a", "unreadable"), ("t", "waiting"), ("z", "unreadable")]);
    assert_eq!((&all[0]["id"], &all[0]["asked_at"]), (&json!(70), &json!(5)));
    let path = |name: &str| format!("/api/v1/backup-tasks/{name}");
    for name in ["a", "z"] {
        let shown = world.ask(Viewer, "GET", &path(name), None).await;
        let why = shown.body["detail"].as_str().unwrap();
        assert!(why.contains(&format!("amita backup task remove {name}")), "{why}");
        assert_eq!(shown.status, 409, "{shown:?}");
        world.ask(Operator, "DELETE", &path(name), None).await.done(204);
        world.ask(Viewer, "GET", &path(name), None).await.is(404, "not-found");
    }
    assert_eq!(list().await.len(), all.len() - 2);
}

/// A node that has a repository of three points.
#[derive(Debug, Default)]
struct Path {
    /// The repository answers nothing.
    is_silent: AtomicBool,
    /// So many have asked it.
    asked: AtomicUsize,
}

fn no_data<T>() -> Result<T, Problem> {
    Err(Problem::new(Code::Internal, "no data is asked for here"))
}

impl DataPath for Path {
    fn revert(&self, _: &Asking, _: &Revert<'_>) -> Result<Reverted, Problem> {
        no_data()
    }

    fn diff(&self, _: &Asking, _: &Diff<'_>) -> Result<Differences, Problem> {
        no_data()
    }

    fn export(&self, _: &Asking, _: &str, _: &mut dyn Sink, _: &Going) -> Result<(), Problem> {
        no_data()
    }

    fn import(&self, _: &Asking, _: &Image<'_>, _: Box<dyn Source>) -> Result<Imported, Problem> {
        no_data()
    }

    fn mirror(&self, _: &Asking, _: &MirrorRead<'_>, _: &mut dyn Sink, _: &Going) -> Result<(), Problem> {
        no_data()
    }

    fn backup_points(
        &self,
        repository: &BackupRepository,
        volume: Option<&str>,
    ) -> Result<Vec<BackupPointFound>, Problem> {
        assert_eq!(repository.address, "/backup");
        self.asked.fetch_add(1, Ordering::SeqCst);
        while self.is_silent.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let point = |number: u64| BackupPointFound {
            number,
            name: format!("weekly/1/{number}"),
            taken_at: 1000 + number,
            volumes: vec![BackupPointVolumeFound {
                name: volume.unwrap_or("db").to_owned(),
                cluster: "c".to_owned(),
                uuid: "u".to_owned(),
                size_bytes: 1 << 30,
                encrypted: false,
                parent: (number > 2).then_some(2),
            }],
        };
        Ok([2, 9, 10].map(point).into())
    }
}

#[tokio::test]
async fn the_points_of_a_repository_are_told_in_pieces_by_a_node_that_opens_it() {
    let path = "/api/v1/backup-repositories/off-site/points";
    let world = every::world();
    world.ask(Viewer, "GET", path, None).await.is(421, "misdirected");
    let api = Api::new(Arc::clone(&world.meta) as Arc<dyn Transact + Send + Sync>).with_data(Arc::new(Path::default()));
    let world = world.by(router(api));
    let first = world
        .ask(Admin, "GET", &format!("{path}?limit=2"), None)
        .await
        .done(200)
        .body;
    let numbers = |page: &Value| -> Vec<u64> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["point"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&first), [2, 9]);
    assert_eq!(first["items"][1]["volumes"][0]["parent"], 2);
    let next = first["next"].as_str().unwrap();
    let rest = world
        .ask(Viewer, "GET", &format!("{path}?limit=2&after={next}&volume=log"), None)
        .await;
    let rest = rest.done(200).body;
    assert_eq!((numbers(&rest), &rest["next"]), (vec![10], &Value::Null));
    assert_eq!(rest["items"][0]["volumes"][0]["name"], "log");
    let none = "/api/v1/backup-repositories/none/points";
    world.ask(Viewer, "GET", none, None).await.is(404, "not-found");
}

#[tokio::test]
async fn a_repository_that_does_not_answer_holds_up_no_volume() {
    let path = Arc::new(Path::default());
    path.is_silent.store(true, Ordering::SeqCst);
    let world = every::world();
    let api = Api::new(Arc::clone(&world.meta) as Arc<dyn Transact + Send + Sync>)
        .with_data(Arc::clone(&path) as Arc<dyn DataPath>);
    let world = world.by(router(api));
    let list = || world.ask(Viewer, "GET", "/api/v1/backup-repositories/off-site/points", None);
    let compare = async {
        while path.asked.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let compared = world
            .ask(Admin, "GET", "/api/v1/volumes/db/diff?from=monday", None)
            .await;
        path.is_silent.store(false, Ordering::SeqCst);
        compared
    };
    let (first, second, compared) = tokio::join!(list(), list(), compare);
    // It came to the volume's data, of which there is none here.
    compared.is(500, "internal");
    first.done(200);
    second.done(200);
}
