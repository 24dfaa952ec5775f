//! The list of what takes long: it says what the records say, and no more.

use super::every::snapshot;
use super::world::{World, volume};
use amita_control::admin;
use amita_identity::OperatorRole::{Admin, Auditor, Operator, Viewer};
use amita_metadata::{Call, Transact};
use amita_types::map::{self, About, Import, Move, Shrink, Volume};
use amita_types::recovery::{Progress, StoreProgress, progress_prefix};
use amita_types::{Generation, NodeId, StoreId, VolumeId};
use serde_json::{Value, json};
use std::time::Duration;

const STORE: StoreId = StoreId(1 << 64 | 7);
const OTHER_STORE: StoreId = StoreId(2 << 64 | 7);

fn put<T: serde::Serialize>(world: &World, key: String, record: &T) {
    let record = serde_json::to_vec(record).unwrap();
    world.meta.txn(&Call::put(key, record)).unwrap();
}

/// A world in which something of each kind is under way.
async fn busy() -> World {
    let world = World::new();
    let meta = &*world.meta;
    for name in ["db", "image", "less"] {
        world
            .ask(Admin, "POST", "/api/v1/volumes", Some(volume(name)))
            .await
            .done(201);
    }
    let db = Volume {
        generation: Generation(1),
        ..admin::volume(meta, "db").unwrap()
    };
    put(&world, map::volume_key("db"), &db);
    snapshot(meta, "db", "monday");
    admin::scrub_volume(meta, "db", Duration::from_secs(77)).unwrap();
    admin::clone_volume(meta, "db", "monday", "copy", &About::of(VolumeId(0))).unwrap();
    let flatten = admin::flatten_volume(meta, "copy", Duration::from_secs(100)).unwrap();
    let done = map::Flatten { done: 1, ..flatten };
    put(&world, map::flatten_key(done.volume), &done);
    let import = Import {
        format: "raw".to_owned(),
        image_bytes: 1000,
        modified_ns: 0,
        done_bytes: 250,
        ails: None,
        attempt: None,
    };
    let image = admin::volume(meta, "image").unwrap().id;
    let about = About {
        import: Some(import),
        ..About::of(image)
    };
    put(&world, map::about_key(image), &about);
    let less = admin::volume(meta, "less").unwrap().id;
    let shrink = Shrink {
        size_bytes: 4096,
        generation: Generation(0),
    };
    let about = About {
        shrink: Some(shrink),
        ..About::of(less)
    };
    put(&world, map::about_key(less), &about);
    let wish = Move {
        volume: "db".to_owned(),
        to: NodeId(2),
        number: 9,
        refused: Some("it has no room".to_owned()),
    };
    put(&world, map::move_key(db.id), &wish);
    admin::drain_store(meta, STORE, false).unwrap();
    let progress = Progress {
        stores: vec![StoreProgress {
            volume: db.id,
            store: OTHER_STORE,
            groups: 8,
            groups_listed: 8,
            groups_done: 2,
            chunks_listed: 40,
            chunks_to_do: 40,
            chunks_done: 10,
            bytes_moved: 5000,
            elapsed_ms: 1000,
        }],
    };
    put(&world, format!("{}1/0", progress_prefix()), &progress);
    world
}

async fn jobs(world: &World, query: &str) -> Vec<Value> {
    let said = world.ask(Viewer, "GET", &format!("/api/v1/jobs{query}"), None).await;
    said.done(200).body["items"].as_array().unwrap().clone()
}

async fn job(world: &World, kind: &str) -> Value {
    let found = jobs(world, &format!("?kind={kind}")).await;
    assert_eq!(found.len(), 1, "{kind}: {found:?}");
    found.into_iter().next().unwrap()
}

fn some(job: &Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| job[*name].clone()).collect()
}

#[tokio::test]
async fn each_kind_is_told_as_its_record_says() {
    let world = busy().await;
    let counted = ["state", "unit", "done", "total", "left", "actions"];
    let flatten = job(&world, "flatten").await;
    let chunks = flatten["total"].as_u64().unwrap();
    assert_eq!(
        some(&flatten, &counted),
        [
            json!("running"),
            json!("chunks"),
            json!(1),
            json!(chunks),
            json!(chunks - 1),
            json!(["cancel", "pause"])
        ]
    );
    assert_eq!(some(&flatten, &["object", "started_at"]), [json!("copy"), json!(100)]);
    assert!(flatten["left_s"].as_u64().is_some_and(|left| left > 0), "{flatten}");
    let import = job(&world, "import").await;
    // It came by no file: there is nothing to go on with.
    let ails = import["ails"].as_str().unwrap_or_default();
    assert!(ails.contains("send the image again"), "{import}");
    assert_eq!(
        some(&import, &counted),
        [
            json!("stalled"),
            json!("bytes"),
            json!(250),
            json!(1000),
            json!(750),
            json!([])
        ]
    );
    let shrink = job(&world, "shrink").await;
    assert_eq!(
        some(&shrink, &counted),
        [
            json!("stalled"),
            json!(null),
            json!(null),
            json!(null),
            json!(null),
            json!([])
        ]
    );
    let scrub = job(&world, "scrub").await;
    assert_eq!(
        some(&scrub, &["object", "state", "started_at"]),
        [json!("db"), json!("running"), json!(77)]
    );
    let moved = job(&world, "move").await;
    assert_eq!(
        some(&moved, &["state", "ails"]),
        [json!("refused"), json!("it has no room")]
    );
    let drain = job(&world, "drain").await;
    assert_eq!(
        some(&drain, &["object", "unit", "total"]),
        [json!(STORE.to_string()), json!("groups"), json!(null)]
    );
    assert!(drain["left"].as_u64().is_some_and(|left| left > 0), "{drain}");
    let recovery = job(&world, "recovery").await;
    assert_eq!(
        some(
            &recovery,
            &[
                "done",
                "total",
                "left",
                "moved_bytes",
                "bytes_per_second",
                "left_s",
                "left_bytes"
            ]
        ),
        [
            json!(2),
            json!(8),
            json!(6),
            json!(5000),
            json!(5000),
            json!(3),
            json!(15000)
        ]
    );
    assert_eq!(jobs(&world, "").await.len(), 7);
}

#[tokio::test]
async fn they_come_in_pieces_and_each_by_its_id() {
    let world = busy().await;
    let mut after = String::new();
    let mut ids = Vec::new();
    loop {
        let said = world
            .ask(Viewer, "GET", &format!("/api/v1/jobs?limit=3{after}"), None)
            .await
            .done(200);
        ids.extend(
            said.body["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|job| job["id"].clone()),
        );
        let Some(next) = said.body["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let all: Vec<Value> = jobs(&world, "").await.iter().map(|job| job["id"].clone()).collect();
    assert_eq!(ids, all);
    for id in ids {
        let path = format!("/api/v1/jobs/{}", id.as_str().unwrap());
        let said = world.ask(Viewer, "GET", &path, None).await.done(200);
        assert_eq!(said.body["id"], id);
    }
}

#[tokio::test]
async fn what_can_be_taken_back_is_and_nothing_else() {
    let world = busy().await;
    for job in jobs(&world, "").await {
        let id = job["id"].as_str().unwrap();
        let path = format!("/api/v1/jobs/{id}/cancel");
        for role in [Viewer, Auditor] {
            world.ask(role, "POST", &path, None).await.is(403, "denied");
        }
        let can = job["actions"].as_array().unwrap().contains(&json!("cancel"));
        let said = world.ask(Operator, "POST", &path, None).await;
        match can {
            true => drop(said.done(204)),
            false => said.is(409, "wrong-state"),
        }
        let left = world.ask(Viewer, "GET", &format!("/api/v1/jobs/{id}"), None).await;
        match can {
            true => left.is(404, "not-found"),
            false => drop(left.done(200)),
        }
    }
    let left: Vec<Value> = jobs(&world, "").await.iter().map(|job| job["kind"].clone()).collect();
    assert_eq!(left, ["import", "recovery", "shrink"]);
    // It is not to be a clone for ever, nor the store to be drained.
    let clone = world.ask(Viewer, "GET", "/api/v1/volumes/copy/flatten", None).await;
    assert_eq!(clone.done(200).body["state"], "no");
    let store = world.ask(Viewer, "GET", &format!("/api/v1/stores/{STORE}"), None).await;
    assert_eq!(store.done(200).body["draining"], false);
}

#[tokio::test]
async fn what_can_wait_is_paused_and_goes_on_and_nothing_else() {
    let world = busy().await;
    for job in jobs(&world, "").await {
        let id = job["id"].as_str().unwrap();
        let (pause, resume) = (format!("/api/v1/jobs/{id}/pause"), format!("/api/v1/jobs/{id}/resume"));
        for (role, path) in [(Viewer, &pause), (Auditor, &pause), (Viewer, &resume)] {
            world.ask(role, "POST", path, None).await.is(403, "denied");
        }
        let can = job["actions"].as_array().unwrap().contains(&json!("pause"));
        let said = world.ask(Operator, "POST", &pause, None).await;
        if !can {
            said.is(409, "wrong-state");
            world.ask(Operator, "POST", &resume, None).await.is(409, "wrong-state");
            continue;
        }
        let paused = said.done(200).body;
        assert_eq!(
            some(&paused, &["state", "actions"]),
            [json!("paused"), json!(["cancel", "resume"])]
        );
        assert!(
            paused["paused"]["by"].as_str().is_some_and(|by| !by.is_empty()),
            "{paused}"
        );
        assert_eq!(paused["left_s"], json!(null), "nothing is left while nothing goes on");
        let shown = world.ask(Viewer, "GET", &format!("/api/v1/jobs/{id}"), None).await;
        assert_eq!(shown.done(200).body, paused);
        let resumed = world.ask(Operator, "POST", &resume, None).await.done(200).body;
        assert_eq!(
            some(&resumed, &["state", "paused"]),
            [job["state"].clone(), json!(null)]
        );
    }
    let paused = world.ask(Viewer, "GET", "/api/v1/events?kind=job-paused", None).await;
    assert_eq!(paused.done(200).body["items"].as_array().map(Vec::len), Some(3));
    world
        .ask(Operator, "POST", "/api/v1/jobs/flatten-99/pause", None)
        .await
        .is(404, "not-found");
}
