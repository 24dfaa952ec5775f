//! What a volume's owner does for who asks: here a thread that does it in the metadata.

use super::every::snapshot;
use super::world::{World, volume};
use amita_control::admin;
use amita_identity::OperatorRole::{Operator, Viewer};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, SnapshotWish};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_snapshot_is_there_when_its_owner_has_taken_it() {
    let world = World::new();
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(volume("db")))
        .await
        .done(201);
    let id = admin::volume(&*world.meta, "db").unwrap().id;
    let meta = Arc::clone(&world.meta);
    let owner = std::thread::spawn(move || {
        let key = map::snapshot_wish_key(id);
        loop {
            if let Some(found) = meta.txn(&Call::get(key.as_str())).unwrap().value(0) {
                let wish: SnapshotWish = found.json().unwrap();
                snapshot(&meta, "db", &wish.name);
                let done = Call {
                    then: vec![Op::Delete { key }],
                    ..Call::default()
                };
                return meta.txn(&done).unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let wanted = json!({ "name": "now", "labels": { "why": "upgrade" } });
    let taken = world
        .ask(Operator, "POST", "/api/v1/volumes/db/snapshots", Some(wanted.clone()))
        .await
        .done(201);
    assert!(owner.join().unwrap().succeeded);
    assert_eq!(
        (&taken.body["name"], &taken.body["size_bytes"]),
        (&"now".into(), &(1u64 << 30).into())
    );
    world
        .ask(Operator, "POST", "/api/v1/volumes/db/snapshots", Some(wanted))
        .await
        .is(409, "exists");
    let all = world
        .ask(Viewer, "GET", "/api/v1/volumes/db/snapshots?limit=1", None)
        .await
        .done(200);
    assert_eq!((&all.body["items"][0], all.body["next"].is_null()), (&taken.body, true));

    // What is protected stays; what is deleted for a time is had back with its snapshots.
    let path = "/api/v1/volumes/db/snapshots/now";
    world
        .ask(Operator, "PATCH", path, Some(json!({ "protected": true })))
        .await
        .done(200);
    world
        .ask_if(Operator, "DELETE", path, None, Some("*"))
        .await
        .is(409, "in-use");
    let gone = world
        .ask_if(Operator, "DELETE", "/api/v1/volumes/db", None, Some("*"))
        .await
        .done(200);
    world.ask(Viewer, "GET", path, None).await.is(404, "not-found");
    let deleted = format!("/api/v1/deleted-volumes/{}", gone.body["id"]);
    let shown = world.ask(Viewer, "GET", &deleted, None).await.done(200);
    assert_eq!(
        (&shown.body["name"], &shown.body["purge_at"]),
        (&"db".into(), &gone.body["purge_at"])
    );
    let back = format!("{deleted}/undelete");
    world
        .ask(Operator, "POST", &back, Some(json!({ "name": "again" })))
        .await
        .done(200);
    let there = world
        .ask(Viewer, "GET", "/api/v1/volumes/again/snapshots/now", None)
        .await
        .done(200);
    assert_eq!(there.body["protected"], true);
    world.ask(Viewer, "GET", &deleted, None).await.is(404, "not-found");
}

#[tokio::test]
async fn a_wish_that_nobody_carries_out_is_taken_back() {
    let world = World::new();
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(volume("db")))
        .await
        .done(201);
    let wanted = json!({ "name": "now" });
    world
        .ask(Operator, "POST", "/api/v1/volumes/db/snapshots", Some(wanted))
        .await
        .is(504, "not-in-time");
    let id = admin::volume(&*world.meta, "db").unwrap().id;
    let left = world.meta.txn(&Call::get(map::snapshot_wish_key(id))).unwrap();
    assert!(left.value(0).is_none());
}

#[tokio::test]
async fn lists_are_cut_by_labels_nodes_and_numbers() {
    let world = World::new();
    let mut gold = volume("a");
    gold["labels"]["tier"] = "gold".into();
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(gold))
        .await
        .done(201);
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(volume("b")))
        .await
        .done(201);
    let count = async |path: &str| {
        let said = world.ask(Viewer, "GET", path, None).await.done(200);
        said.body["items"].as_array().unwrap().len()
    };
    assert_eq!(count("/api/v1/volumes?label=team%3Ddb").await, 2);
    assert_eq!(count("/api/v1/volumes?label=team%3Ddb&label=tier%3Dgold").await, 1);
    assert_eq!(count("/api/v1/volumes?pool=none").await, 0);
    world
        .ask(Viewer, "GET", "/api/v1/volumes?label=team", None)
        .await
        .is(400, "bad-request");
    assert_eq!(
        (count("/api/v1/stores").await, count("/api/v1/stores?node=n2").await),
        (3, 1)
    );
    world
        .ask(Viewer, "GET", "/api/v1/events?kind=none", None)
        .await
        .is(400, "bad-request");

    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/pools/main/groups?limit=13{after}");
        let piece = world.ask(Viewer, "GET", &path, None).await.done(200).body;
        seen.extend(
            piece["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|group| group["index"].as_u64().unwrap()),
        );
        match piece["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..64).collect::<Vec<u64>>());
}
