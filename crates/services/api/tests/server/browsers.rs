//! What a page of another site cannot have a browser do.

use super::world::World;
use serde_json::json;

#[test]
fn a_page_of_another_site_changes_nothing() {
    let world = World::new();
    let wanted = json!({ "name": "v", "pool": "main", "size_bytes": 1 << 20 });
    for line in [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        world
            .send(0, "POST", "/api/v1/volumes", &[line], Some(&wanted))
            .is(403, "cross-site");
        world
            .send(0, "DELETE", "/api/v1/volumes/v", &[line, "If-Match: *"], None)
            .is(403, "cross-site");
        // A gateway would own the volume for these.
        for path in ["/api/v1/volumes/v/export", "/api/v1/volumes/v/diff?from=s"] {
            world
                .send(0, "GET", path, &[line, "Accept: */*"], None)
                .is(403, "cross-site");
        }
        // What only looks is not kept from anybody who may.
        world.send(0, "GET", "/api/v1/volumes", &[line], None).done(200);
    }
    assert_eq!(world.audited(), 0, "nobody was asked");
    let own = format!("Origin: http://{}", world.address(0));
    world
        .send(
            0,
            "POST",
            "/api/v1/volumes",
            &[&own, "Sec-Fetch-Site: same-origin"],
            Some(&wanted),
        )
        .done(201);
}

#[test]
fn a_name_that_somebody_lets_point_here_is_not_answered() {
    let world = World::new();
    for host in ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example"] {
        let line = format!("Host: {host}");
        world
            .send(0, "GET", "/api/v1/volumes", &[&line], None)
            .is(421, "misdirected");
    }
    for host in ["localhost", "LOCALHOST:1", "[::1]:9", "10.0.0.1"] {
        let line = format!("Host: {host}");
        world.send(0, "GET", "/api/v1/volumes", &[&line], None).done(200);
    }
}

#[test]
fn every_answer_says_what_may_be_done_with_it() {
    let world = World::new();
    for (path, status) in [("/api/v1/health", 200), ("/openapi.json", 200), ("/nowhere", 404)] {
        let said = world.ask("GET", path, None).done(status);
        assert_eq!(said.header("x-frame-options"), Some("DENY"), "{said:?}");
        assert_eq!(said.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(said.header("cache-control"), Some("no-store"));
        assert_eq!(said.header("access-control-allow-origin"), None);
        let policy = said.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
    }
}
