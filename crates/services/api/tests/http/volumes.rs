//! Volumes: made, changed, deleted and had back.

use super::world::{Said, World, volume};
use amita_control::admin::{self, DataKeys};
use amita_crypt::{Binding, DataKey, Provider, SealedFile, WrappedKey, WrappingKey, Zeroizing};
use amita_identity::OperatorRole;
use amita_metadata::{Call, Transact};
use amita_types::ClusterId;
use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use std::sync::Arc;

use OperatorRole::{Auditor, Operator, Tenant, Viewer};

#[tokio::test]
async fn a_volume_is_limited_and_what_cannot_be_kept_is_refused() {
    let world = World::new();
    let made = world.ask(Operator, "POST", "/api/v1/volumes", Some(volume("a"))).await;
    made.done(201);
    let path = "/api/v1/volumes/a/limits";
    let none = json!({ "read": null, "write": null, "both": null });
    let shown = world.ask(Viewer, "GET", path, None).await.done(200);
    assert_eq!(shown.body, json!({ "iops": none, "bandwidth": none }));
    let wanted = json!({ "bandwidth": { "write": { "rate": 1000, "peak": { "rate": 20_000_000, "seconds": 9 } } } });
    let set = world.ask(Operator, "PUT", path, Some(wanted)).await.done(200);
    let write = &set.body["bandwidth"]["write"];
    assert_eq!((&write["rate"], &write["peak"]["seconds"]), (&1000.into(), &9.into()));
    // A tenth of a second of the peak, and a piece.
    assert_eq!(write["burst"], 2_000_000 + (256 << 10));
    let small = json!({ "iops": { "read": { "rate": 1000, "burst": 7 } } });
    let refused = world.ask(Operator, "PUT", path, Some(small)).await;
    let text = refused.body.to_string();
    assert!(text.contains("read-iops") && text.contains("at least 102"), "{text}");
    let kept = world.ask(Viewer, "GET", path, None).await.done(200);
    assert_eq!(kept.body, set.body);
    world.ask(Viewer, "DELETE", path, None).await.is(403, "denied");
    let cleared = world.ask(Operator, "DELETE", path, None).await.done(200);
    assert_eq!(cleared.body, shown.body);
}

#[tokio::test]
async fn a_volume_stands_before_others_and_what_cannot_be_is_refused() {
    let world = World::new();
    let made = world.ask(Operator, "POST", "/api/v1/volumes", Some(volume("a"))).await;
    made.done(201);
    let path = "/api/v1/volumes/a/priority";
    let shown = world.ask(Viewer, "GET", path, None).await.done(200);
    let none = json!({ "reservation": null, "weight": null, "latency_target_us": null });
    assert_eq!(shown.body, none);
    let wanted = json!({ "reservation": 50 << 20, "weight": 200 });
    let set = world.ask(Operator, "PUT", path, Some(wanted)).await.done(200);
    let kept = json!({ "reservation": 50 << 20, "weight": 200, "latency_target_us": null });
    assert_eq!(set.body, kept);
    let heavy = json!({ "weight": 1001 });
    let refused = world.ask(Operator, "PUT", path, Some(heavy)).await;
    let text = refused.body.to_string();
    assert!(text.contains("1 to 1000"), "{text}");
    assert_eq!(world.ask(Viewer, "GET", path, None).await.done(200).body, kept);
    world.ask(Viewer, "DELETE", path, None).await.is(403, "denied");
    assert_eq!(world.ask(Operator, "DELETE", path, None).await.done(200).body, none);
}

/// Keys that nobody needs to know.
#[derive(Debug)]
struct Maker;

impl DataKeys for Maker {
    fn make(&self, _: ClusterId, _: Option<&WrappingKey>, binding: &Binding) -> Result<WrappedKey, String> {
        let random = &mut amita_keys::system_random;
        let mut file = SealedFile::new(vec![Zeroizing::new([7; 32])]).ok_or("there is a key")?;
        let wrapped = file.wrap(binding, &DataKey::generate(random), random);
        let wrapped = wrapped.map_err(|why| why.to_string())?;
        wrapped.done().ok_or_else(|| "nobody is asked".to_owned())
    }
}

#[tokio::test]
async fn a_node_that_has_volume_keys_makes_encrypted_volumes_and_their_copies() {
    let wanted = |name: &str| {
        let mut wanted = volume(name);
        wanted["encrypted"] = true.into();
        Some(wanted)
    };
    let world = World::new();
    let refused = world.ask(Operator, "POST", "/api/v1/volumes", wanted("a")).await;
    assert!(
        refused.body["detail"].to_string().contains("--volume-keys"),
        "{refused:?}"
    );
    refused.is(409, "wrong-state");
    let world = world.wrapping(Arc::new(Maker));
    let made = world
        .ask(Operator, "POST", "/api/v1/volumes", wanted("a"))
        .await
        .done(201);
    assert_eq!(
        (&made.body["encrypted"], &made.body["locked"]),
        (&true.into(), &Value::Null)
    );
    let plain = world.ask(Operator, "POST", "/api/v1/volumes", Some(volume("b"))).await;
    assert_eq!(plain.done(201).body["encrypted"], false);
    for (of, name, asked, is) in [
        ("a", "c", false, true),
        ("b", "d", true, true),
        ("b", "e", false, false),
    ] {
        let copy = json!({ "name": name, "pool": "main", "encrypted": asked });
        let path = format!("/api/v1/volumes/{of}/copies");
        world.ask(Operator, "POST", &path, Some(copy)).await.done(202);
        let shown = world.ask(Viewer, "GET", &format!("/api/v1/volumes/{name}"), None).await;
        assert_eq!(shown.done(200).body["encrypted"], is, "{name}");
    }
}

#[tokio::test]
async fn a_volume_is_made_for_a_tenant() {
    let world = World::new().wrapping(Arc::new(Maker));
    for (name, encrypted, tenant) in [
        ("a", true, json!("acme")),
        ("b", false, json!("acme")),
        ("c", true, Value::Null),
    ] {
        let mut wanted = volume(name);
        wanted["encrypted"] = encrypted.into();
        wanted["tenant"] = tenant.clone();
        let made = world.ask(Operator, "POST", "/api/v1/volumes", Some(wanted));
        assert_eq!(made.await.done(201).body["tenant"], tenant, "{name}");
        for path in [format!("{name}/tenant"), name.to_owned()] {
            let whose = world.ask(Viewer, "GET", &format!("/api/v1/volumes/{path}"), None).await;
            assert_eq!(whose.done(200).body["tenant"], tenant, "{path}");
        }
    }
    let nobodys = world.ask(Operator, "DELETE", "/api/v1/volumes/b/tenant", None);
    nobodys.await.done(200);
    let listed = world.ask(Viewer, "GET", "/api/v1/volumes", None).await.done(200);
    let tenants: Vec<&Value> = listed.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| &volume["tenant"])
        .collect();
    assert_eq!(tenants, [&json!("acme"), &Value::Null, &Value::Null], "{listed:?}");
    let mut wanted = volume("d");
    wanted["tenant"] = "../acme".into();
    let refused = world.ask(Operator, "POST", "/api/v1/volumes", Some(wanted)).await;
    assert!(refused.body["detail"].to_string().contains("tenant"), "{refused:?}");
    assert_ne!(refused.status, 201);
}

/// A file of another cluster's.
#[derive(Debug)]
struct Foreign;

impl DataKeys for Foreign {
    fn make(&self, _: ClusterId, _: Option<&WrappingKey>, _: &Binding) -> Result<WrappedKey, String> {
        Err("the file of volume keys is not the cluster's".to_owned())
    }
}

/// What lacks is the node's, and not in the request: at another node the same is done.
#[tokio::test]
async fn a_node_without_the_clusters_volume_keys_says_so_and_makes_nothing() {
    let world = World::new().wrapping(Arc::new(Maker));
    let mut wanted = volume("a");
    wanted["encrypted"] = true.into();
    let made = world.ask(Operator, "POST", "/api/v1/volumes", Some(wanted.clone()));
    made.await.done(201);
    let meta = Arc::clone(&world.meta) as Arc<dyn Transact + Send + Sync>;
    let world = world.through(meta);
    let copy = json!({ "name": "b", "pool": "main", "encrypted": false });
    let path = "/api/v1/volumes/a/copies";
    let refused = world.ask(Operator, "POST", path, Some(copy.clone())).await;
    assert!(
        refused.body["detail"].to_string().contains("--volume-keys"),
        "{refused:?}"
    );
    refused.is(409, "wrong-state");
    let world = world.wrapping(Arc::new(Foreign));
    world
        .ask(Operator, "POST", path, Some(copy))
        .await
        .is(409, "wrong-state");
    wanted["name"] = "b".into();
    let refused = world.ask(Operator, "POST", "/api/v1/volumes", Some(wanted)).await;
    assert!(refused.body["detail"].to_string().contains("not the cluster's"));
    refused.is(409, "wrong-state");
    let none = world.ask(Viewer, "GET", "/api/v1/volumes/b", None).await;
    none.is(404, "not-found");
}

#[tokio::test]
async fn a_volume_is_made_shown_changed_and_listed() {
    let world = World::new();
    let made = world
        .ask(Operator, "POST", "/api/v1/volumes", Some(volume("a")))
        .await
        .done(201);
    assert_eq!(made.body["name"], "a");
    assert_eq!(made.body["labels"]["team"], "db");
    let shown = world.ask(Viewer, "GET", "/api/v1/volumes/a", None).await.done(200);
    assert_eq!((&shown.body, &shown.tag), (&made.body, &made.tag));
    assert_eq!(admin::volume(&*world.meta, "a").unwrap().size_bytes, 1 << 30);

    let change = json!({ "size_bytes": 2u64 << 30, "protected": true, "labels": { "team": null, "tier": "gold" } });
    let tag = shown.tag.unwrap();
    let changed = world
        .ask_if(Operator, "PATCH", "/api/v1/volumes/a", Some(change.clone()), Some(&tag))
        .await
        .done(200);
    assert_eq!(changed.body["size_bytes"], 2u64 << 30);
    assert_eq!(
        (&changed.body["protected"], &changed.body["labels"]),
        (&true.into(), &json!({ "tier": "gold" }))
    );
    // Somebody else looked at it before.
    let late = world
        .ask_if(Operator, "PATCH", "/api/v1/volumes/a", Some(change), Some(&tag))
        .await;
    late.is(412, "changed");

    for name in ["c", "b"] {
        world
            .ask(Operator, "POST", "/api/v1/volumes", Some(volume(name)))
            .await
            .done(201);
    }
    let first = world
        .ask(Viewer, "GET", "/api/v1/volumes?limit=2", None)
        .await
        .done(200);
    let names = |said: &Said| -> Vec<Value> {
        let items = said.body["items"].as_array().unwrap();
        items.iter().map(|item| item["name"].clone()).collect()
    };
    assert_eq!(
        (names(&first), &first.body["next"]),
        (vec!["a".into(), "b".into()], &"b".into())
    );
    let rest = world
        .ask(Viewer, "GET", "/api/v1/volumes?limit=2&after=b", None)
        .await
        .done(200);
    assert_eq!((names(&rest), &rest.body["next"]), (vec!["c".into()], &Value::Null));
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_code_and_changes_nothing() {
    let world = World::new();
    let before = world.meta.lock().unwrap().revision();
    let refused = [
        (Operator, "GET", "/api/v1/volumes/none", None, 404, "not-found"),
        (Operator, "GET", "/api/v1/nothing", None, 404, "not-found"),
        (Operator, "GET", "/api/v1/volumes?limit=0", None, 400, "bad-request"),
        (Operator, "DELETE", "/api/v1/volumes", None, 405, "method-not-allowed"),
        (
            Operator,
            "POST",
            "/api/v1/volumes",
            Some(json!({ "name": "a" })),
            400,
            "bad-request",
        ),
        (
            Operator,
            "POST",
            "/api/v1/volumes",
            Some(json!("a")),
            400,
            "bad-request",
        ),
    ];
    for (role, method, path, body, status, code) in refused {
        world.ask(role, method, path, body).await.is(status, code);
    }
    assert_eq!(world.meta.lock().unwrap().revision(), before);
    let mut bad = volume("-x");
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(bad.clone()))
        .await
        .is(422, "bad-setting");
    bad["name"] = "a".into();
    bad["more"] = 1.into();
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(bad))
        .await
        .is(400, "bad-request");
    let mut elsewhere = volume("a");
    elsewhere["pool"] = "none".into();
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(elsewhere))
        .await
        .is(404, "not-found");
    assert!(admin::volumes(&*world.meta).unwrap().is_empty());
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(volume("a")))
        .await
        .done(201);
    world
        .ask(Operator, "POST", "/api/v1/volumes", Some(volume("a")))
        .await
        .is(409, "exists");
}

#[tokio::test]
async fn who_may_not_is_refused_and_it_is_written_down() {
    let world = World::new();
    let nobody = Request::get("/api/v1/volumes").body(Body::empty()).unwrap();
    world.send(None, nobody).await.is(401, "unauthenticated");
    for role in [Viewer, Auditor] {
        world.ask(role, "GET", "/api/v1/health", None).await.done(200);
        world
            .ask(role, "POST", "/api/v1/volumes", Some(volume("a")))
            .await
            .is(403, "denied");
    }
    world
        .ask(Tenant, "GET", "/api/v1/volumes", None)
        .await
        .is(403, "denied");
    assert!(admin::volumes(&*world.meta).unwrap().is_empty());
    let log = world.meta.txn(&Call::prefix(amita_control::audit::prefix())).unwrap();
    let refusals = log
        .values(0)
        .iter()
        .filter(|record| String::from_utf8_lossy(&record.value).contains("refused"));
    assert_eq!(refusals.count(), 3);
}
