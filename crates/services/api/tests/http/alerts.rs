//! Channels: their secrets come in, and nothing of them comes out again.

use super::world::World;
use amita_identity::OperatorRole::{Admin, Operator, Viewer};
use serde_json::{Value, json};

const CHANNELS: &str = "/api/v1/channels";

fn webhook(name: &str, secret: Option<&str>) -> Value {
    json!({
        "name": name,
        "webhook": { "url": "https://hooks.example.org/services/hunter2-path", "secret": secret },
    })
}

#[tokio::test]
async fn a_channel_is_shown_without_what_is_secret_of_it() {
    let world = World::new();
    let wanted = webhook("on-call", None);
    let made = world.ask(Admin, "POST", CHANNELS, Some(wanted)).await.done(201);
    assert_eq!(made.body["target"], "https://hooks.example.org:443/...");
    assert_eq!(made.body["least_severity"], "warning");
    let shown = world.ask(Viewer, "GET", CHANNELS, None).await.done(200);
    let audit = world.ask(Admin, "GET", "/api/v1/audit", None).await.done(200);
    for said in [&made.body, &shown.body, &audit.body] {
        assert!(!said.to_string().contains("hunter2"), "{said}");
    }
    assert!(audit.body.to_string().contains("channel.add"), "{audit:?}");
}

#[tokio::test]
async fn a_secret_is_taken_only_where_it_can_be_sealed() {
    let world = World::new();
    let wanted = webhook("signed", Some("hunter2-key"));
    let said = world.ask(Admin, "POST", CHANNELS, Some(wanted.clone())).await;
    said.is(422, "bad-setting");
    assert!(!said.body.to_string().contains("hunter2"), "{said:?}");
    // Whoever may not is told that, and not what is wrong.
    world
        .ask(Operator, "POST", CHANNELS, Some(wanted))
        .await
        .is(403, "denied");
    let shown = world.ask(Viewer, "GET", CHANNELS, None).await.done(200);
    assert_eq!(shown.body["items"], json!([]));
}

#[tokio::test]
async fn a_channel_that_cannot_be_is_refused_with_a_reason() {
    let world = World::new();
    for (wanted, reason) in [
        (json!({ "name": "x" }), "webhook, mail or syslog"),
        (
            json!({ "name": "x", "webhook": { "url": "http://hooks.example.org/" } }),
            "https://",
        ),
        (
            json!({ "name": "x", "webhook": { "url": "https://u:hunter2@h/" } }),
            "a name or a password",
        ),
        (
            json!({ "name": "x", "syslog": { "by": "pigeon" } }),
            "udp, tcp, tls or local",
        ),
        (
            json!({ "name": "x", "syslog": { "by": "tcp", "server": "nowhere" } }),
            "HOST:PORT",
        ),
        (
            json!({ "name": "x", "repeat_s": 1, "syslog": { "by": "local" } }),
            "cannot be repeated",
        ),
    ] {
        let said = world.ask(Admin, "POST", CHANNELS, Some(wanted)).await;
        said.is(422, "bad-setting");
        let text = said.body.to_string();
        assert!(text.contains(reason) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn a_silence_says_which_alerts_why_and_until_when() {
    let world = World::new();
    let now = amita_notify::now();
    for wanted in [
        json!({ "matches": {}, "until": now + 60, "why": "w" }),
        json!({ "matches": { "codes": ["*"] }, "until": now + 91 * 24 * 3600, "why": "w" }),
        json!({ "matches": { "codes": ["*"] }, "until": now + 60, "why": "" }),
    ] {
        let said = world.ask(Operator, "POST", "/api/v1/silences", Some(wanted)).await;
        said.is(422, "bad-setting");
    }
    let wanted = json!({ "matches": { "labels": { "node": "n1" } }, "until": now + 60, "why": "work" });
    let made = world
        .ask(Operator, "POST", "/api/v1/silences", Some(wanted))
        .await
        .done(201);
    assert_eq!(
        (&made.body["holds"], &made.body["matches"]["labels"]["node"]),
        (&json!(true), &json!("n1"))
    );
}
