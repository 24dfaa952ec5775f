//! The REST API of the nodes that ship, as curl meets it: by a certificate, by a token, and by nothing.

use crate::world::{VOLUME, World, eventually};
use amita_identity::Role;
use serde_json::{Value, json};
use std::path::Path;

/// Where each node's API is.
pub fn urls(world: &World) -> Vec<String> {
    let nodes = world.json(&["node", "list"]);
    let apis = nodes
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| node["api"].as_str().expect("an API"));
    apis.map(|api| format!("https://{api}")).collect()
}

/// What curl prints: the status behind the body.
pub fn curl(world: &World, arguments: &[&str]) -> (u16, Value) {
    let usual = [
        "--silent",
        "--show-error",
        "--insecure",
        "--max-time",
        "30",
        "--write-out",
        "\n%{http_code}",
    ];
    let said = world.done("curl", &[&usual[..], arguments].concat());
    let (body, status) = said.rsplit_once('\n').expect("a status");
    (
        status.parse().expect("a number"),
        serde_json::from_str(body).unwrap_or(Value::Null),
    )
}

#[test]
fn a_certificate_or_a_token_is_who_somebody_is_at_every_node() {
    let world = World::with_volume();
    let urls = urls(&world);
    assert_eq!(urls.len(), 3);
    let operator = world.operator();
    let file = |name: &str| Path::new(&operator).join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let volumes = format!("{}/api/v1/volumes", urls[0]);
    // Who shows nothing is nobody.
    let (status, said) = curl(&world, &[&volumes]);
    assert_eq!((status, &said["code"]), (401, &json!("unauthenticated")), "{said}");
    // By a certificate.
    let (status, said) = curl(&world, &["--cert", &cert, "--key", &key, &volumes]);
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["items"][0]["name"], json!(VOLUME), "{said}");
    // A client's certificate is no operator's.
    let client = world.identity(Role::Client, "app").expect("an identity");
    let part = |name: &str| Path::new(&client).join(name).display().to_string();
    let refused = world.tool(
        "curl",
        &[
            "--silent",
            "--insecure",
            "--cert",
            &part("cert.pem"),
            "--key",
            &part("key.pem"),
            &volumes,
        ],
    );
    assert!(!refused.text.contains(VOLUME), "{}", refused.text);
    // By a token, at another node; what it does is in the audit log under its name.
    let token = world.json(&["token", "create", "ci", "--role", "operator"]);
    let line = format!("Authorization: Bearer {}", token["secret"].as_str().expect("a secret"));
    let body = json!({ "name": "made", "pool": "demo", "size_bytes": 4 << 20 }).to_string();
    let post = [
        "--header",
        "Content-Type: application/json",
        "--header",
        "Idempotency-Key: 1",
        "--data",
        &body,
    ];
    for url in &urls[1..] {
        let volumes = format!("{url}/api/v1/volumes");
        let (status, said) = curl(
            &world,
            &[&["--header", line.as_str()], &post[..], &[volumes.as_str()]].concat(),
        );
        assert_eq!((status, &said["name"]), (201, &json!("made")), "{said}");
    }
    let shown = world.json(&["volume", "show", "made"]);
    assert_eq!(shown["size_bytes"], json!(4 << 20), "{shown}");
    let audit = world.amita_done(&["audit", "list"]);
    let made = audit
        .lines()
        .filter(|line| line.contains("volume.create") && line.contains("token ci"));
    assert_eq!(made.count(), 2, "begun and done, once: {audit}");
    // What is told is what is.
    let (status, said) = curl(&world, &["--header", &line, &format!("{}/api/v1/health", urls[1])]);
    assert_eq!((status, &said["health"]), (200, &json!("ok")), "{said}");
    let (status, said) = curl(&world, &["--header", &line, &format!("{}/openapi.json", urls[2])]);
    assert_eq!((status, &said["openapi"]), (200, &json!("3.1.0")));
    // A token that is revoked is good for nothing soon.
    let id = token["id"].as_str().expect("an id");
    world.amita_done(&["token", "revoke", &id[..8]]);
    eventually("the token is not taken", || {
        curl(&world, &["--header", &line, &volumes]).0 == 401
    });
    world.end(&[]);
}

#[test]
fn without_an_identity_it_is_on_loopback_only_and_off_is_off() {
    let world = World::plain();
    let open = world.amita(&["serve", "--name", "x", "--fabric", "127.0.0.1:0", "--api", "0.0.0.0:0"]);
    assert!(
        open.text.contains("--api 0.0.0.0:0") && open.text.contains("loopback"),
        "{}",
        open.text
    );
    let node = world.serve("g", &["--fabric", "127.0.0.1:0"]);
    let api = || {
        // There is no cluster before the node has made it.
        let listed = world.amita(&["node", "list", "--json"]);
        let nodes: Value = serde_json::from_str(&listed.text).ok()?;
        nodes[0]["api"].as_str().map(str::to_owned)
    };
    eventually("the node says where its API is", || api().is_some());
    let api = api().expect("an API");
    let (status, said) = curl(&world, &[&format!("http://{api}/api/v1/self")]);
    assert_eq!((status, &said["role"]), (200, &json!("admin")), "{said}");
    let (status, said) = curl(
        &world,
        &["--header", "Host: evil.example", &format!("http://{api}/api/v1/self")],
    );
    assert_eq!((status, &said["code"]), (421, &json!("misdirected")), "{said}");
    drop(node);
    world.end(&[]);
}
