//! Who may use the API by a token, and for how long.

use super::world::{PATIENCE, World};
use serde_json::json;
use std::time::{Duration, Instant};

fn make(world: &World, role: &str, life_s: u64) -> (String, String) {
    let wanted = json!({ "name": "ci", "role": role, "life_s": life_s });
    let made = world.ask("POST", "/api/v1/tokens", Some(&wanted)).done(201);
    let text = |field: &str| made.body[field].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

#[test]
fn a_token_is_good_for_what_its_role_may_and_the_audit_log_names_its_holder() {
    let world = World::new();
    let volume = json!({ "name": "v", "pool": "main", "size_bytes": 1 << 20 });
    let (_, viewer) = make(&world, "viewer", 60);
    world.ask_by(&viewer, "GET", "/api/v1/volumes", None).done(200);
    world
        .ask_by(&viewer, "POST", "/api/v1/volumes", Some(&volume))
        .is(403, "denied");
    let (id, operator) = make(&world, "operator", 60);
    let before = world.audited();
    world
        .ask_by(&operator, "POST", "/api/v1/volumes", Some(&volume))
        .done(201);
    assert_eq!(world.audited(), before + 2, "it is told of before and after");
    let last = amita_control::audit::record(&world.client, before + 2)
        .unwrap()
        .unwrap();
    assert!(
        last.contains(&format!("token ci ({})", &id[..8])) && last.contains("\"token\""),
        "{last}"
    );
    assert!(last.contains("the API of n1") && last.contains("127.0.0.1"), "{last}");
    // What an operator may not, a token of an operator may not.
    let wanted = json!({ "name": "more", "role": "admin" });
    world
        .ask_by(&operator, "POST", "/api/v1/tokens", Some(&wanted))
        .is(403, "denied");
    let own = world.ask_by(&viewer, "GET", "/api/v1/self", None).done(200).body;
    assert_eq!((&own["role"], &own["proof"]), (&json!("viewer"), &json!("token")));
    assert_eq!(own["may"], json!(["cluster.view"]));
}

#[test]
fn its_secret_is_shown_once_and_is_in_no_record() {
    let world = World::new();
    let (id, secret) = make(&world, "viewer", 60);
    let listed = world.ask("GET", "/api/v1/tokens", None).done(200).body;
    assert_eq!(listed["items"][0]["id"], json!(id));
    let mut everything = listed.to_string();
    let reply = amita_metadata::Transact::txn(&world.client, &amita_metadata::Call::prefix("/amita/")).unwrap();
    for record in reply.values(0) {
        everything.push_str(&String::from_utf8_lossy(&record.value));
    }
    assert!(everything.contains(&id));
    let body = secret.strip_prefix("amita-api-1.").unwrap();
    assert!(
        !everything.contains(body) && !everything.contains(&body[22..]),
        "the secret is nowhere"
    );
    // A key of idempotency would have kept the answer.
    let wanted = json!({ "name": "ci", "role": "viewer" });
    let key = "Idempotency-Key: once";
    world.send(0, "POST", "/api/v1/tokens", &[key], Some(&wanted)).done(201);
    let reply =
        amita_metadata::Transact::txn(&world.client, &amita_metadata::Call::prefix("/amita/api/answers/")).unwrap();
    assert!(reply.values(0).is_empty());
}

#[test]
fn a_token_ends_and_is_revoked() {
    let world = World::new();
    let (_, short) = make(&world, "viewer", 1);
    let until = Instant::now() + PATIENCE;
    while world.ask_by(&short, "GET", "/api/v1/health", None).status == 200 {
        assert!(Instant::now() < until, "a token of one second ends");
        std::thread::sleep(Duration::from_millis(100));
    }
    let refused = world
        .ask_by(&short, "GET", "/api/v1/health", None)
        .is(401, "unauthenticated");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"amita\""));
    let (id, revoked) = make(&world, "viewer", 600);
    world.ask_by(&revoked, "GET", "/api/v1/health", None).done(200);
    world
        .ask("DELETE", &format!("/api/v1/tokens/{}", &id[..12]), None)
        .done(200);
    while world.ask_by(&revoked, "GET", "/api/v1/health", None).status == 200 {
        assert!(
            Instant::now() < until,
            "a token that is revoked is soon good for nothing"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    world
        .ask("DELETE", &format!("/api/v1/tokens/{id}"), None)
        .is(404, "not-found");
}

#[test]
fn what_is_no_token_is_refused_with_what_to_do() {
    let world = World::new();
    let (_, good) = make(&world, "viewer", 60);
    let mut other = good.clone();
    let last = if other.pop() == Some('A') { 'Q' } else { 'A' };
    other.push(last);
    for shown in [
        "Bearer",
        "Bearer x",
        "Basic YTpi",
        &format!("Bearer {other}"),
        "Bearer amita-api-1.AAAA",
    ] {
        let line = format!("Authorization: {shown}");
        let said = world
            .send(0, "GET", "/api/v1/health", &[&line], None)
            .is(401, "unauthenticated");
        assert!(!said.body.to_string().contains(&good), "{said:?}");
    }
    for (wanted, code) in [
        (json!({ "name": "x", "role": "king" }), 422),
        (json!({ "name": "x", "role": "tenant" }), 422),
        (json!({ "name": "x", "role": "mirror" }), 422),
        (json!({ "name": "-x", "role": "viewer" }), 422),
        (json!({ "name": "x", "role": "viewer", "life_s": 0 }), 422),
        (json!({ "name": "x", "role": "viewer", "life_s": 400 * 24 * 3600 }), 422),
        (json!({ "name": "x", "role": "viewer", "for": 1 }), 422),
        (json!({ "name": "x" }), 422),
    ] {
        let said = world.ask("POST", "/api/v1/tokens", Some(&wanted));
        assert!([400, code].contains(&said.status), "{wanted} {said:?}");
    }
}
