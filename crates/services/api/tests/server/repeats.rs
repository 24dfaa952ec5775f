//! What is sent twice with one key is done once.

use super::world::World;
use serde_json::json;

const KEY: &str = "Idempotency-Key: 8e03978e-40d5-43e8-bc93-6894a57f9324";

#[test]
fn a_request_that_is_sent_again_to_another_node_has_the_same_answer() {
    let world = World::new();
    let wanted = json!({ "name": "v", "pool": "main", "size_bytes": 1 << 20 });
    let first = world
        .send(0, "POST", "/api/v1/volumes", &[KEY], Some(&wanted))
        .done(201);
    assert_eq!(first.header("idempotency-replayed"), None);
    let before = world.audited();
    let again = world
        .send(1, "POST", "/api/v1/volumes", &[KEY], Some(&wanted))
        .done(201);
    assert_eq!((&again.body, again.header("etag")), (&first.body, first.header("etag")));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(world.audited(), before, "nothing was done");
    // Without the key it is another request.
    world
        .send(1, "POST", "/api/v1/volumes", &[], Some(&wanted))
        .is(409, "exists");
}

#[test]
fn a_key_is_for_one_request_of_one_asker() {
    let world = World::new();
    let wanted = |name: &str| json!({ "name": name, "pool": "main", "size_bytes": 1 << 20 });
    world
        .send(0, "POST", "/api/v1/volumes", &[KEY], Some(&wanted("a")))
        .done(201);
    world
        .send(0, "POST", "/api/v1/volumes", &[KEY], Some(&wanted("b")))
        .is(422, "key-reused");
    world
        .send(0, "PATCH", "/api/v1/volumes/a", &[KEY], Some(&json!({})))
        .is(422, "key-reused");
    // Another one's key is another key.
    let token = json!({ "name": "other", "role": "operator" });
    let token = world.ask("POST", "/api/v1/tokens", Some(&token)).done(201).body;
    let line = format!("Authorization: Bearer {}", token["secret"].as_str().unwrap());
    world
        .send(0, "POST", "/api/v1/volumes", &[KEY, &line], Some(&wanted("b")))
        .done(201);
    let long = format!("Idempotency-Key: {}", "x".repeat(256));
    for bad in ["Idempotency-Key:", &long] {
        world
            .send(0, "POST", "/api/v1/volumes", &[bad], Some(&wanted("c")))
            .is(400, "bad-request");
    }
}

#[test]
fn a_refusal_is_not_kept() {
    let world = World::new();
    let wanted = json!({ "name": "clone", "pool": "main", "size_bytes": 1 << 20 });
    world.ask("POST", "/api/v1/volumes", Some(&wanted)).done(201);
    for server in [0, 1] {
        let said = world
            .send(server, "POST", "/api/v1/volumes", &[KEY], Some(&wanted))
            .is(409, "exists");
        assert_eq!(said.header("idempotency-replayed"), None);
    }
    // Nothing was done under the key: it is free.
    let other = json!({ "name": "other", "pool": "main", "size_bytes": 1 << 20 });
    world.send(1, "POST", "/api/v1/volumes", &[KEY], Some(&other)).done(201);
}

#[test]
fn who_may_change_nothing_keeps_nothing() {
    let world = World::new();
    let token = json!({ "name": "viewer", "role": "viewer" });
    let token = world.ask("POST", "/api/v1/tokens", Some(&token)).done(201).body;
    let line = format!("Authorization: Bearer {}", token["secret"].as_str().unwrap());
    let wanted = json!({ "name": "v", "pool": "main", "size_bytes": 1 << 20 });
    let audited = world.audited();
    for number in 0..60 {
        let key = format!("Idempotency-Key: {number}");
        world
            .send(0, "POST", "/api/v1/volumes", &[&key, &line], Some(&wanted))
            .is(403, "denied");
    }
    let reply =
        amita_metadata::Transact::txn(&world.client, &amita_metadata::Call::prefix("/amita/api/answers/")).unwrap();
    assert!(reply.values(0).is_empty());
    // And what was done is not washed out of the audit log by what was refused.
    assert!(
        (1..40).contains(&(world.audited() - audited)),
        "{}",
        world.audited() - audited
    );
}

#[test]
fn requests_that_come_at_the_same_time_are_done_once() {
    let world = World::new();
    let wanted = json!({ "name": "v", "pool": "main", "size_bytes": 1 << 20 });
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|index| {
                scope.spawn({
                    let (world, wanted) = (&world, &wanted);
                    move || {
                        world
                            .send(index % 2, "POST", "/api/v1/volumes", &[KEY], Some(wanted))
                            .status
                    }
                })
            })
            .collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    // Who comes while it is being done is told so; nobody is told that the volume exists.
    assert!(statuses.contains(&201), "{statuses:?}");
    let made = |said: &amita_control::audit::Bounds| said.head.map_or(0, |head| head.seq);
    assert_eq!(
        made(&amita_control::audit::bounds(&world.client).unwrap()),
        2,
        "one change was audited"
    );
    let again = world
        .send(0, "POST", "/api/v1/volumes", &[KEY], Some(&wanted))
        .done(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let world = World::new();
    let wanted = json!({ "name": "v".repeat(300 << 10), "pool": "main", "size_bytes": 4096 });
    for headers in [&[KEY][..], &[]] {
        world
            .send(0, "POST", "/api/v1/volumes", headers, Some(&wanted))
            .is(413, "too-large");
    }
}
