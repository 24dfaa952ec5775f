//! What the other end of a mirror may ask, and that it may nothing else; and who may manage mirrors.

use super::data::{asked, with_data};
use super::every::{operations, put, snapshot, world};
use super::world::{CLUSTER, Said, World};
use amita_control::admin;
use amita_control::mirror::{TOKEN_FIELD, token_bound_to};
use amita_identity::ApiToken;
use amita_identity::OperatorRole::{Admin, Auditor, Operator, Viewer};
use amita_keys::SealKey;
use amita_metadata::Transact;
use amita_metadata::model::State;
use amita_types::map::{self, Mirror};
use amita_types::{ClusterId, MirrorId};
use axum::body::{Body, to_bytes};
use http::{Request, header};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Duration;

const OWN: MirrorId = MirrorId(0x77);
pub const OTHER: MirrorId = MirrorId(0x78);
const FAR: ClusterId = ClusterId(33);
const SIZE: u64 = 1 << 30;

fn now() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
}

/// The primary of a mirror of these volumes.
pub fn add(meta: &Mutex<State>, name: &str, id: MirrorId, volumes: &[&str]) {
    let volumes = volumes.iter().map(|name| {
        let found = admin::volume(meta, name).unwrap();
        json!({ "name": name, "id": found.host() })
    });
    let record = json!({
        "id": id, "name": name, "role": "primary", "epoch": 0, "volumes": volumes.collect::<Vec<_>>(), "peer": {},
        "interval_s": 60, "keep": 3,
    });
    put(meta, map::mirror_key(name), &record);
}

fn change(world: &World, by: impl FnOnce(&mut Mirror)) {
    let mut record = admin::mirror_by_id(&*world.meta, OWN).unwrap();
    by(&mut record);
    put(&world.meta, map::mirror_key(&record.name), &record);
}

/// A world in which volume `db` is mirrored, and has one point, of its snapshot `monday`.
fn mirrored() -> World {
    let world = world();
    add(&world.meta, "own", OWN, &["db"]);
    let point = json!({ "epoch": 0, "number": 1, "cut_at": now().as_secs(), "snapshots": "monday" });
    change(&world, |record| {
        record.standing.points = vec![serde_json::from_value(point).unwrap()];
        record.number = 1;
        record.limit_bytes_per_s = Some(1 << 20);
    });
    world
}

/// A token for the other end of that.
fn token(world: &World) -> (String, String) {
    let record = admin::mirror_by_id(&*world.meta, OWN).unwrap();
    let (made, secret) = admin::create_mirror_token(&*world.meta, &record, "alice", now()).unwrap();
    (made.id, secret.to_text().to_string())
}

fn request(token: &str, method: &str, path: &str, body: Option<&Value>) -> Request<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json");
    request
        .body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())))
        .unwrap()
}

async fn ask(world: &World, token: &str, method: &str, rest: &str, body: Option<Value>) -> Said {
    let path = format!("/api/v1/mirror-links/{OWN}{rest}");
    world.send(None, request(token, method, &path, body.as_ref())).await
}

fn told(cluster: ClusterId) -> Value {
    json!({
        "cluster": cluster, "addresses": ["n1.far.example:7480"], "authority": "PEM",
        "token": ApiToken::generate().to_text().to_string(),
    })
}

/// What is asked of a link, each with a body that can be read.
fn questions(id: MirrorId) -> Vec<(&'static str, String, Option<Value>)> {
    let at = |rest: &str| format!("/api/v1/mirror-links/{id}{rest}");
    vec![
        ("GET", at(""), None),
        ("PUT", at("/peer"), Some(told(FAR))),
        ("POST", at("/points"), Some(json!({ "epoch": 0 }))),
        ("POST", at("/decline"), Some(json!({ "epoch": 0 }))),
        ("POST", at("/token"), Some(json!({}))),
        ("GET", at("/points/0-1/volumes/db/data"), None),
    ]
}

#[tokio::test]
async fn its_token_is_good_for_its_own_links_and_for_nothing_else_that_there_is() {
    let world = mirrored();
    let (_, token) = token(&world);
    let mut others = 0;
    for operation in operations() {
        if operation.path.starts_with("/api/v1/mirror-links/") {
            continue;
        }
        others += 1;
        let path: Vec<&str> = operation
            .path
            .split('/')
            .map(|part| if part.starts_with('{') { "own" } else { part })
            .collect();
        let said = world
            .send(None, request(&token, &operation.method, &path.join("/"), None))
            .await;
        assert_eq!(said.status, 403, "{}: {said:?}", operation.id);
    }
    assert!(others > 100, "{others}");
    let own = OWN.to_string();
    for path in [
        "/openapi.json".to_owned(),
        "/api/v1/mirror-links".to_owned(),
        "/api/v1/mirror-links/".to_owned(),
        format!("/api/v1/mirror-links/{}", &own[..35]),
        format!("/api/v1/mirror-links/{own}0"),
        format!("/api/v1/mirrors/{own}"),
        format!("/mirror-links/{own}"),
    ] {
        let said = world.send(None, request(&token, "GET", &path, None)).await;
        assert_eq!(said.status, 403, "{path}: {said:?}");
    }
    for (method, path, body) in questions(OTHER) {
        world
            .send(None, request(&token, method, &path, body.as_ref()))
            .await
            .is(403, "denied");
    }
    ask(&world, &token, "GET", "", None).await.done(200);
}

#[tokio::test]
async fn nobody_else_asks_by_links() {
    let world = mirrored();
    for role in [Admin, Operator, Viewer, Auditor] {
        for (method, path, body) in questions(OWN) {
            let said = world.ask(role, method, &path, body).await;
            said.is(403, "denied");
        }
    }
    let paths = questions(OWN).len();
    let links = operations().into_iter();
    let links = links.filter(|operation| operation.path.starts_with("/api/v1/mirror-links/"));
    assert_eq!(links.count(), paths, "each is tried");
    // A token of that role that is bound to nothing, or one of another role that is bound, lets nobody in.
    for (role, mirror) in [("mirror", None), ("admin", Some(OWN))] {
        let secret = ApiToken::generate();
        let record = map::ApiToken {
            id: secret.id(),
            name: "x".to_owned(),
            role: role.to_owned(),
            kept: secret.kept(),
            made_by: "x".to_owned(),
            made_at: now().as_secs(),
            ends_at: now().as_secs() + 600,
            mirror,
        };
        put(&world.meta, map::api_token_key(&record.id), &record);
        let said = ask(&world, &secret.to_text(), "GET", "", None).await;
        said.is(401, "unauthenticated");
    }
    // Nor is one made by hand.
    let wanted = json!({ "name": "x", "role": "mirror" });
    world
        .ask(Admin, "POST", "/api/v1/tokens", Some(wanted))
        .await
        .is(422, "bad-setting");
}

#[tokio::test]
async fn it_is_shown_what_the_end_is_without_a_secret() {
    let world = mirrored();
    let (id, token) = token(&world);
    let said = ask(&world, &token, "GET", "", None).await.done(200).body;
    assert_eq!(said["cluster"], json!(CLUSTER));
    assert_eq!(said["mirror"], json!(OWN));
    assert_eq!(
        said["volumes"],
        json!([{ "name": "db", "size_bytes": SIZE, "encrypted": false }])
    );
    assert_eq!(
        (&said["standing"]["role"], &said["standing"]["points"][0]["number"]),
        (&json!("primary"), &json!(1))
    );
    let link: amita_api::mirror::MirrorLink = serde_json::from_value(said).unwrap();
    assert!(link.clock.abs_diff(now().as_secs()) < 60);
    admin::revoke_mirror_tokens(&*world.meta, OWN).unwrap();
    assert!(admin::tokens(&*world.meta).unwrap().iter().all(|token| token.id != id));
}

#[tokio::test]
async fn the_first_cluster_that_says_so_is_the_other_end() {
    let world = mirrored();
    let (_, token) = token(&world);
    // Without a sealing key another node is to be asked.
    ask(&world, &token, "PUT", "/peer", Some(told(FAR)))
        .await
        .is(421, "misdirected");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seal.key");
    let key = SealKey::generate();
    key.save(&file).unwrap();
    let world = world.sealing(&file);
    let mut bad = Vec::new();
    for (field, value) in [
        ("addresses", json!([])),
        ("addresses", json!(["n1"])),
        ("addresses", json!(["n1:0"])),
        ("addresses", json!(["n 1:7"])),
        ("authority", json!("x".repeat(40 << 10))),
        ("token", json!("amita-api-1.x")),
        ("cluster", json!(CLUSTER)),
    ] {
        let mut body = told(FAR);
        body[field] = value;
        bad.push(body);
    }
    for body in bad {
        ask(&world, &token, "PUT", "/peer", Some(body))
            .await
            .is(422, "bad-setting");
    }
    for _ in 0..2 {
        let body = told(FAR);
        ask(&world, &token, "PUT", "/peer", Some(body.clone())).await.done(204);
        let record = admin::mirror_by_id(&*world.meta, OWN).unwrap();
        assert_eq!(record.peer.cluster, Some(FAR));
        assert_eq!(record.peer.addresses, ["n1.far.example:7480"]);
        let opened = key
            .unseal(&token_bound_to(OWN), TOKEN_FIELD, &record.peer.token)
            .unwrap();
        assert_eq!(json!(*opened), body["token"]);
    }
    let before = admin::mirror_by_id(&*world.meta, OWN).unwrap();
    ask(&world, &token, "PUT", "/peer", Some(told(ClusterId(34))))
        .await
        .is(409, "wrong-state");
    assert_eq!(admin::mirror_by_id(&*world.meta, OWN).unwrap(), before);
    // The log tells that there is a token, and not even the sealed one.
    let log = world.ask(Admin, "GET", "/api/v1/audit?limit=100", None).await.done(200);
    let log = log.body.to_string();
    assert!(
        log.contains("mirror.peer") && !log.contains(&before.peer.token),
        "{log}"
    );
    let shown = world.ask(Viewer, "GET", "/api/v1/mirrors/own", None).await.done(200);
    assert_eq!(shown.body["peer"]["cluster"], json!(FAR));
    assert!(!shown.body.to_string().contains("seal"), "{shown:?}");
}

#[tokio::test]
async fn a_young_point_is_told_and_an_older_one_is_followed_by_another() {
    let world = mirrored();
    let (_, token) = token(&world);
    let points = || ask(&world, &token, "POST", "/points", Some(json!({ "epoch": 0 })));
    let records = || {
        amita_control::audit::bounds(&*world.meta)
            .unwrap()
            .head
            .map_or(0, |head| head.seq)
    };
    let before = records();
    let young = points().await.done(200).body;
    assert_eq!(
        (&young["point"]["number"], &young["point"]["snapshots"]),
        (&json!(1), &json!("monday"))
    );
    assert_eq!(records(), before, "nothing is begun");
    ask(&world, &token, "POST", "/points", Some(json!({ "epoch": 2 })))
        .await
        .is(409, "wrong-state");
    change(&world, |record| record.standing.points[0].cut_at -= 60);
    assert_eq!(points().await.done(202).body, json!({}));
    let record = admin::mirror_by_id(&*world.meta, OWN).unwrap();
    let cutting = record.cutting.expect("it is being cut");
    assert_eq!(cutting.snapshots, "mirror-own-00000000-0-2");
    assert_eq!(records(), before + 2, "that it is begun is told");
    // Asked again, it is gone on with, and told no more.
    points().await.done(202);
    assert_eq!(records(), before + 2);
    assert_eq!(admin::mirror_by_id(&*world.meta, OWN).unwrap().cutting, Some(cutting));
}

#[tokio::test]
async fn a_demotion_is_declined_when_it_was_seen() {
    let world = mirrored();
    let (_, token) = token(&world);
    let decline = |epoch: u64| {
        let standing = json!({ "role": "secondary", "epoch": epoch, "handed": true });
        ask(
            &world,
            &token,
            "POST",
            "/decline",
            Some(json!({ "epoch": epoch, "standing": standing })),
        )
    };
    // This one is primary.
    decline(1).await.is(409, "wrong-state");
    change(&world, |record| {
        record.standing.role = map::MirrorRole::Secondary;
        record.standing.epoch = amita_types::MirrorEpoch(1);
    });
    let unseen = decline(1).await;
    assert!(
        unseen.body["detail"].as_str().unwrap().contains("ask again"),
        "{unseen:?}"
    );
    unseen.is(409, "wrong-state");
    ask(
        &world,
        &token,
        "POST",
        "/decline",
        Some(json!({ "epoch": 1, "standing": { "role": "primary", "epoch": 1 } })),
    )
    .await
    .is(400, "bad-request");
    let seen = json!({
        "role": "secondary", "epoch": 1, "handed": true, "point": { "epoch": 1, "number": 4 }, "at": 5, "clock": 5,
    });
    change(&world, |record| {
        record.seen = Some(serde_json::from_value(seen).unwrap())
    });
    let link = decline(1).await.done(200).body;
    assert_eq!(link["standing"]["declined"], json!(1));
    // And again.
    decline(1).await.done(200);
}

#[tokio::test]
async fn only_points_of_its_volumes_are_read() {
    let world = mirrored();
    snapshot(&world.meta, "disk", "monday");
    let (world, path, go) = with_data(world);
    let (id, token) = token(&world);
    let read = |rest: &str| {
        let rest = rest.to_owned();
        let (world, token) = (&world, &token);
        async move { ask(world, token, "GET", &rest, None).await }
    };
    for (rest, status, code) in [
        // Another volume, whatever snapshots it has.
        ("/points/0-1/volumes/disk/data", 404, "not-found"),
        ("/points/0-1/volumes/db@monday/data", 404, "not-found"),
        ("/points/0-2/volumes/db/data", 409, "wrong-state"),
        ("/points/0-1/volumes/db/data?base=0-7", 409, "wrong-state"),
        ("/points/monday/volumes/db/data", 400, "bad-request"),
        ("/points/0-1/volumes/db/data?base=monday", 400, "bad-request"),
        ("/points/0-1/volumes/db/data?after=1073741825", 400, "bad-request"),
        ("/points/0-1/volumes/db/data?snapshot=monday", 400, "bad-request"),
    ] {
        read(rest).await.is(status, code);
    }
    assert_eq!(asked(&path), Vec::<String>::new());
    let begin = |rest: &str| {
        let uri = format!("/api/v1/mirror-links/{OWN}/points/0-1/volumes/db/data{rest}");
        world.begin(Viewer, request(&token, "GET", &uri, None))
    };
    let one = begin("?after=4096&base=0-1").await;
    assert_eq!(one.status(), 200);
    assert_eq!(asked(&path), ["mirror db@monday Some(\"monday\") 4096 Some(1048576)"]);
    go.send(()).unwrap();
    assert_eq!(&to_bytes(one.into_body(), 100).await.unwrap()[..], b"frames");
    // So many at once; others are told to ask elsewhere.
    let mut all = Vec::new();
    while all.len() < 4 {
        let next = begin("").await;
        match next.status().as_u16() {
            200 => all.push(next),
            // The place of the first one is not free yet.
            429 => tokio::time::sleep(Duration::from_millis(5)).await,
            other => panic!("{other}"),
        }
    }
    assert_eq!(begin("").await.status(), 429);
    // What is read ends with the token.
    admin::revoke_token(&*world.meta, &id).unwrap();
    for copy in all {
        to_bytes(copy.into_body(), 100).await.unwrap_err();
    }
    let log = world.ask(Admin, "GET", "/api/v1/audit?limit=100", None).await.done(200);
    assert!(log.body.to_string().contains("mirror.read"), "{log:?}");
}

#[tokio::test]
async fn a_token_is_renewed_in_its_last_week() {
    let world = mirrored();
    let (id, token) = token(&world);
    let renew = || ask(&world, &token, "POST", "/token", Some(json!({})));
    let same = renew().await.done(200).body;
    assert_eq!(same["token"], json!(token));
    let key = map::api_token_key(&id);
    let mut record: map::ApiToken = {
        let reply = world.meta.txn(&amita_metadata::Call::get(key.clone())).unwrap();
        reply.value(0).unwrap().json().unwrap()
    };
    assert_eq!(same["ends_at"], json!(record.ends_at));
    record.ends_at = now().as_secs() + 3600;
    put(&world.meta, key, &record);
    // Another node, which has not heard of the token yet.
    let world = elsewhere(world);
    let renewed = ask(&world, &token, "POST", "/token", Some(json!({})))
        .await
        .done(200)
        .body;
    assert_ne!(renewed["token"], json!(token));
    assert!(renewed["ends_at"].as_u64().unwrap() > record.ends_at);
    for token in [token.as_str(), renewed["token"].as_str().unwrap()] {
        ask(&world, token, "GET", "", None).await.done(200);
    }
    // Not without end.
    let mut last = 200;
    for _ in 0..10 {
        last = ask(&world, &token, "POST", "/token", Some(json!({})))
            .await
            .status
            .as_u16();
    }
    assert_eq!(last, 409);
    // With the mirror they go.
    world.ask(Admin, "DELETE", "/api/v1/mirrors/own", None).await.done(204);
    assert!(admin::tokens(&*world.meta).unwrap().is_empty());
}

/// The same, at another node.
fn elsewhere(world: World) -> World {
    let meta = std::sync::Arc::clone(&world.meta);
    world.through(meta)
}

#[tokio::test]
async fn the_cluster_tells_how_many_there_are() {
    let world = world();
    let count = |body: &Value| body["counts"]["mirrors"].as_u64().unwrap();
    let before = count(&world.ask(Viewer, "GET", "/api/v1/cluster", None).await.done(200).body);
    add(&world.meta, "one-more", OWN, &["db"]);
    let after = count(&world.ask(Viewer, "GET", "/api/v1/cluster", None).await.done(200).body);
    assert_eq!(after, before + 1);
}

#[tokio::test]
async fn mirrors_are_managed_by_who_may() {
    let world = mirrored();
    let at = |rest: &str| format!("/api/v1/mirrors/own{rest}");
    let force = |confirm: &str| Some(json!({ "force": true, "confirm": confirm }));
    for (who, rest) in [(Operator, "/promote"), (Viewer, "/promote")] {
        world.ask(who, "POST", &at(rest), force("own")).await.is(403, "denied");
    }
    world.ask(Operator, "DELETE", &at(""), None).await.is(403, "denied");
    world
        .ask(Admin, "POST", &at("/promote"), force("other"))
        .await
        .is(422, "bad-setting");
    for bad in [
        json!({ "interval_s": 9 }),
        json!({ "keep": 255 }),
        json!({ "limit_bytes_per_second": 1000 }),
    ] {
        world
            .ask(Operator, "PATCH", &at(""), Some(bad))
            .await
            .is(422, "bad-setting");
    }
    let wanted = json!({ "interval_s": 10, "limit_bytes_per_second": null, "alert_after_s": 90 });
    let set = world.ask(Operator, "PATCH", &at(""), Some(wanted)).await.done(200).body;
    assert_eq!(
        (&set["interval_s"], &set["limit_bytes_per_second"], &set["late_after_s"]),
        (&json!(10), &json!(null), &json!(90))
    );
    // Its owner lives, and does not say who uses it.
    let mut volume = admin::volume(&*world.meta, "db").unwrap();
    volume.owner = Some(admin::nodes(&*world.meta).unwrap()[0].id);
    put(&world.meta, map::volume_key("db"), &volume);
    let refused = world.ask(Operator, "POST", &at("/demote"), Some(json!({}))).await;
    assert!(
        refused.body["detail"]
            .as_str()
            .unwrap()
            .contains("db is open on node n1"),
        "{refused:?}"
    );
    refused.is(409, "in-use");
    let demoted = world
        .ask(Operator, "POST", &at("/demote"), Some(json!({ "force": true })))
        .await
        .done(202)
        .body;
    assert_eq!(demoted["role"], json!("demoting"));
    let closed = admin::volume(&*world.meta, "db").unwrap();
    assert!(closed.closed.is_some() && closed.generation > volume.generation);
    // The primary answers: it is to be demoted there.
    change(&world, |record| {
        record.standing.role = map::MirrorRole::Secondary;
        let seen = json!({ "role": "primary", "epoch": 0, "at": now().as_secs(), "clock": 0 });
        record.seen = Some(serde_json::from_value(seen).unwrap());
    });
    world
        .ask(Admin, "POST", &at("/promote"), force("own"))
        .await
        .is(409, "wrong-state");
    change(&world, |record| {
        record.standing.role = map::MirrorRole::Deposed;
    });
    let dry = world
        .ask(Operator, "POST", &at("/resync"), Some(json!({ "dry_run": true })))
        .await
        .done(202)
        .body;
    assert_eq!(
        (&dry["common"], &dry["mirror"]["role"]),
        (&json!(null), &json!("deposed"))
    );
}
