//! `If-Match`: of two who have read the same, one is told that the other was faster, whenever that was.

use super::every::{HOST, INITIATOR, OTHER_HOST, OTHER_INITIATOR, SPARE, cases, put, send, tried, world};
use super::world::{Said, World, volume};
use amita_control::admin::{
    self, BackupChange, ChapUser, ExportSpec, InitiatorKeys, PolicyChange, RepositoryChange, SubsystemChange,
    TargetChange,
};
use amita_control::audit;
use amita_identity::OperatorRole::{Admin, Operator, Viewer};
use amita_metadata::model::State;
use amita_metadata::{Call, Error, Op, Reply, Transact};
use amita_types::{NodeId, StoreId, map};
use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Other = Box<dyn FnOnce(&Mutex<State>) + Send>;

/// Has another one do something, once: when all is read that a request decides by, and before it changes anything, or anything more.
struct Meanwhile {
    meta: Arc<Mutex<State>>,
    /// So many changes of the request come before that.
    first: AtomicU32,
    other: Mutex<Option<Other>>,
}

impl Transact for Meanwhile {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        let is_beside = |key: &str| key.starts_with(&audit::prefix()) || key.starts_with(&map::api_answers_prefix());
        let changes = |op: &Op| op.is_write() && !is_beside(op.key());
        let less = |first: u32| first.checked_sub(1);
        if call.then.iter().any(changes)
            && self
                .first
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_err()
            && let Some(other) = self.other.lock().unwrap().take()
        {
            other(&self.meta);
        }
        self.meta.txn(call)
    }
}

fn meeting(world: World, other: Other) -> (World, Arc<Meanwhile>) {
    meeting_after(0, world, other)
}

fn meeting_after(changes: u32, world: World, other: Other) -> (World, Arc<Meanwhile>) {
    let meanwhile = Arc::new(Meanwhile {
        meta: Arc::clone(&world.meta),
        first: AtomicU32::new(changes),
        other: Mutex::new(Some(other)),
    });
    let meta = Arc::clone(&meanwhile) as Arc<dyn Transact + Send + Sync>;
    (world.through(meta), meanwhile)
}

fn label(meta: &Mutex<State>, name: &str) {
    let labels = BTreeMap::from([("by".to_owned(), "another".to_owned())]);
    admin::label_volume(meta, name, &labels, &[]).unwrap();
}

fn grow(meta: &Mutex<State>) {
    admin::resize_volume(meta, "db", 2 << 30).unwrap();
}

fn give_key(meta: &Mutex<State>, nqn: &str) {
    let host = map::Host {
        dhchap: Some("sealed".to_owned()),
        ..admin::host(meta, nqn).unwrap()
    };
    put(meta, map::host_key(nqn), &host);
}

fn give_name(meta: &Mutex<State>, initiator: &str) {
    let keys = InitiatorKeys {
        user: ChapUser::Named("another".to_owned()),
        ..InitiatorKeys::default()
    };
    admin::set_initiator_keys(meta, initiator, &keys).unwrap();
}

/// What another one does to the thing that an operation of this name is tried with.
fn change(meta: &Mutex<State>, operation: &str) {
    let store = StoreId(u128::from(NodeId(1).0) << 64 | 7);
    match operation {
        "changeNode" => {
            admin::place_node(meta, "n1", Some("east"), None).unwrap();
        }
        "removeNode" => {
            admin::place_node(meta, "n4", Some("east"), None).unwrap();
        }
        "changeStore" => {
            admin::weigh_store(meta, store, Some(9)).unwrap();
        }
        "forgetStore" => {
            admin::classify_store(meta, SPARE, "nvme").unwrap();
        }
        "changePool" => admin::set_recycle_time(meta, "main", Duration::from_secs(77)).unwrap(),
        "deletePool" => {
            admin::set_quota(meta, "spare", |quota| quota.volumes = Some(3)).unwrap();
        }
        "changeVolume" => label(meta, "db"),
        "deleteVolume" => label(meta, "other"),
        "changeSnapshot" => {
            admin::protect_snapshot(meta, "db", "monday", true).unwrap();
        }
        "deleteSnapshot" => {
            admin::protect_snapshot(meta, "other", "tuesday", true).unwrap();
        }
        "purgeVolume" => {
            let trashed = admin::trash(meta).unwrap().remove(0).trashed;
            let later = map::Trashed {
                purge_at: trashed.purge_at + 1,
                ..trashed
            };
            put(meta, map::trash_key(later.volume), &later);
        }
        "changeSnapshotPolicy" | "deleteSnapshotPolicy" => {
            let hourly = PolicyChange {
                schedule: Some("@hourly".to_owned()),
                ..PolicyChange::default()
            };
            admin::set_policy(meta, "nightly", &hourly).unwrap();
        }
        "changeBackupPolicy" | "deleteBackupPolicy" => {
            let hourly = BackupChange {
                schedule: Some("@hourly".to_owned()),
                ..BackupChange::default()
            };
            admin::set_backup_policy(meta, "weekly", &hourly, Duration::ZERO).unwrap();
        }
        "changeBackupRepository" | "removeBackupRepository" => {
            let name = if operation == "changeBackupRepository" {
                "off-site"
            } else {
                "unused"
            };
            let moved = RepositoryChange {
                address: Some("/elsewhere".to_owned()),
                ..RepositoryChange::default()
            };
            admin::set_backup_repository(meta, name, &moved).unwrap();
        }
        "exportVolume" | "unexportVolume" => {
            let spec = ExportSpec {
                any_client: true,
                read_only: true,
                ..ExportSpec::default()
            };
            admin::export_volume(meta, "other", &spec).unwrap();
        }
        "changeSubsystem" | "deleteSubsystem" => {
            let name = if operation == "changeSubsystem" { "sub" } else { "empty" };
            let open = SubsystemChange {
                any_host: Some(true),
                ..SubsystemChange::default()
            };
            admin::set_subsystem(meta, name, &open).unwrap();
        }
        "changeHostKeys" => give_key(meta, HOST),
        "removeHost" => give_key(meta, OTHER_HOST),
        "changeTarget" | "deleteTarget" => {
            let name = if operation == "changeTarget" { "tgt" } else { "bare" };
            let open = TargetChange {
                any_initiator: Some(true),
                ..TargetChange::default()
            };
            admin::set_target(meta, name, &open).unwrap();
        }
        "changeInitiatorKeys" => give_name(meta, INITIATOR),
        "removeInitiator" => give_name(meta, OTHER_INITIATOR),
        "changeThresholds" => {
            admin::set_thresholds(meta, |own| own.near_full_percent -= 1).unwrap();
        }
        "changeRecovery" => {
            admin::set_recovery(meta, |own| own.slow_stores.after_s += 1).unwrap();
        }
        "removeChannel" => {
            let mut channel = amita_notify::admin::channel(meta, "hook").unwrap();
            channel.made_at += 1;
            put(meta, amita_notify::records::channel_key("hook"), &channel);
        }
        other => panic!("{other} takes If-Match: say what another one does meanwhile"),
    }
}

async fn show(world: &World, path: &str) -> Said {
    let path = path.strip_suffix("/keys").unwrap_or(path);
    world.ask(Viewer, "GET", path, None).await
}

/// A world in which the operation changes something.
fn world_for(operation: &str) -> World {
    let world = world();
    if operation == "changeHostKeys" {
        let host = map::Host {
            tls: Some("sealed".to_owned()),
            ..admin::host(&*world.meta, HOST).unwrap()
        };
        put(&world.meta, map::host_key(HOST), &host);
    }
    if operation == "changeInitiatorKeys" {
        let initiator = map::IscsiInitiator {
            chap: Some("sealed".to_owned()),
            chap_target: Some("sealed as well".to_owned()),
            ..admin::initiator(&*world.meta, INITIATOR).unwrap()
        };
        put(&world.meta, map::iscsi_initiator_key(INITIATOR), &initiator);
    }
    world
}

#[tokio::test]
async fn another_one_who_comes_between_the_read_and_the_write_is_seen() {
    let mut tried_so = 0;
    for operation in tried().filter(|operation| operation.if_match().is_some()) {
        let id = operation.id.clone();
        let world = world_for(&id);
        let case = cases(&world).remove(id.as_str()).unwrap();
        let tag = show(&world, &case.path).await.done(200).tag.unwrap();
        let (world, meanwhile) = meeting(world, Box::new(move |meta: &Mutex<State>| change(meta, &id)));
        let late = send(&world, Admin, &operation, &case, Some(&tag)).await;
        late.is(412, "changed");
        assert!(meanwhile.other.lock().unwrap().is_none(), "{}", operation.id);
        // It is what the other has made of it, and the answer says by what that is known.
        let now = show(&world, &case.path).await.done(200);
        assert_eq!(late.tag, now.tag, "{}", operation.id);
        assert_ne!(now.tag.as_ref(), Some(&tag), "{}", operation.id);
        // Who has seen that may.
        let done = send(&world, Admin, &operation, &case, now.tag.as_deref()).await;
        let is_protected = operation.id == "deleteSnapshot";
        let status = if is_protected { 409 } else { case.status };
        assert_eq!(done.status.as_u16(), status, "{}: {done:?}", operation.id);
        tried_so += 1;
    }
    assert!(tried_so > 15, "{tried_so}");
}

#[tokio::test]
async fn another_one_who_comes_behind_the_write_is_told() {
    for operation in tried().filter(|operation| operation.if_match().is_some()) {
        let world = world_for(&operation.id);
        let case = cases(&world).remove(operation.id.as_str()).unwrap();
        let tag = show(&world, &case.path).await.done(200).tag.unwrap();
        let done = send(&world, Admin, &operation, &case, Some(&tag)).await;
        assert_eq!(done.status.as_u16(), case.status, "{}: {done:?}", operation.id);
        let late = send(&world, Admin, &operation, &case, Some(&tag)).await;
        let now = show(&world, &case.path).await;
        if now.status == 404 {
            late.is(404, "not-found");
        } else {
            late.is(412, "changed");
            assert_eq!(late.tag, now.tag, "{}", operation.id);
        }
    }
}

/// What a request has done itself is not another's doing.
#[tokio::test]
async fn a_request_that_changes_several_things_goes_through() {
    let world = world();
    let several = [
        (
            "/api/v1/volumes/db",
            json!({ "size_bytes": 2u64 << 30, "labels": { "a": "b" }, "protected": true }),
        ),
        (
            "/api/v1/pools/main",
            json!({ "copies": 2, "recycle_seconds": 60, "quota": { "volumes": 9 } }),
        ),
        (
            "/api/v1/nodes/n1",
            json!({ "maintenance": true, "site": "east", "rack": "r1" }),
        ),
    ];
    for (path, body) in several {
        let tag = show(&world, path).await.done(200).tag;
        let done = world.ask_if(Admin, "PATCH", path, Some(body), tag.as_deref()).await;
        let done = done.done(200);
        assert_eq!(done.tag, show(&world, path).await.tag, "{path}");
    }
}

#[tokio::test]
async fn what_was_done_before_another_one_came_between_stays_and_is_said() {
    let world = world();
    let path = "/api/v1/volumes/db";
    let before = show(&world, path).await.done(200);
    assert_eq!(before.body["protected"], false);
    let (world, meanwhile) = meeting_after(1, world, Box::new(grow));
    let body = json!({ "labels": { "a": "b" }, "protected": true });
    let late = world
        .ask_if(Admin, "PATCH", path, Some(body.clone()), before.tag.as_deref())
        .await;
    late.is(412, "changed");
    assert!(meanwhile.other.lock().unwrap().is_none());
    let said = late.body["detail"].as_str().unwrap();
    assert!(said.ends_with("this was done, and stays: volume.label"), "{said}");
    let now = show(&world, path).await.done(200);
    assert_eq!(
        (
            &now.body["labels"]["a"],
            &now.body["protected"],
            &now.body["size_bytes"]
        ),
        (&json!("b"), &json!(false), &json!(2u64 << 30))
    );
    // Who has seen that asks for the rest, and for the same again.
    assert_eq!(late.tag, now.tag);
    let done = world
        .ask_if(Admin, "PATCH", path, Some(body), late.tag.as_deref())
        .await;
    assert_eq!(done.done(200).body["protected"], true);
}

/// Of a request that is refused for its second thing, the first is done as well.
#[tokio::test]
async fn what_was_done_before_a_refusal_is_said() {
    let world = world();
    let many: BTreeMap<String, String> = (0..100).map(|number| (format!("l{number}"), String::new())).collect();
    let body = json!({ "size_bytes": 2u64 << 30, "labels": many });
    let refused = world
        .ask_if(Admin, "PATCH", "/api/v1/volumes/db", Some(body), None)
        .await;
    refused.is(422, "bad-setting");
    let said = refused.body["detail"].as_str().unwrap();
    assert!(said.ends_with("this was done, and stays: volume.resize"), "{said}");
    let now = show(&world, "/api/v1/volumes/db").await.done(200);
    assert_eq!(now.body["size_bytes"], 2u64 << 30);
}

/// Who asks again with the key of a request that was done has its answer, whatever has become of the thing.
#[tokio::test]
async fn a_key_of_what_was_done_answers_as_then() {
    let world = World::new();
    let made = world
        .ask(Operator, "POST", "/api/v1/volumes", Some(volume("db")))
        .await
        .done(201);
    let tag = made.tag.unwrap();
    let ask = async |world: &World, key: &str, tag: &str, body: Value| {
        let request = Request::patch("/api/v1/volumes/db")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::IF_MATCH, tag)
            .header("Idempotency-Key", key);
        let request = request.body(Body::from(body.to_string())).unwrap();
        world.send(Some(Operator), request).await
    };
    let protect = json!({ "protected": true });
    let first = ask(&world, "one", &tag, protect.clone()).await.done(200);
    label(&world.meta, "db");
    let again = ask(&world, "one", &tag, protect.clone()).await.done(200);
    assert_eq!((&again.body, &again.tag), (&first.body, &first.tag));
    assert_eq!(again.body["labels"], json!({ "team": "db" }));
    // One that came too late has done nothing, and its key is free.
    let free = json!({ "protected": false });
    let late = ask(&world, "two", &tag, free.clone()).await;
    late.is(412, "changed");
    let now = show(&world, "/api/v1/volumes/db").await.done(200).tag;
    assert_eq!(late.tag, now);
    let (world, _) = meeting(world, Box::new(grow));
    let beaten = ask(&world, "two", now.as_deref().unwrap(), free.clone()).await;
    beaten.is(412, "changed");
    let done = ask(&world, "two", beaten.tag.as_deref().unwrap(), free).await.done(200);
    assert_eq!(
        (&done.body["protected"], &done.body["size_bytes"]),
        (&false.into(), &(2u64 << 30).into())
    );
}
