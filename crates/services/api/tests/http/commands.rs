//! Commands that are carried out for who asks: what reaches whoever carries them out, and what does not.

use super::world::World;
use amita_api::{CommandLine, Commands, OnBehalf, Outcome};
use amita_identity::OperatorRole::{self, Admin, Viewer};
use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Answers with what it is asked, and remembers as whom.
#[derive(Debug, Default)]
struct Echo {
    asked: Mutex<Vec<(CommandLine, OnBehalf)>>,
}

impl Commands for Echo {
    fn run(&self, line: &CommandLine, asker: OnBehalf) -> Outcome {
        let is_denied = line.arguments[0] == "forbidden";
        let outcome = Outcome {
            exit_code: u8::from(is_denied),
            stdout: line.arguments.join(" "),
            stderr: "beside\n".to_owned(),
            question: (line.arguments[0] == "destroy" && line.confirmed.is_none())
                .then(|| ("db".to_owned(), "It goes.".to_owned())),
            is_secret: line.arguments[0] == "secret",
            is_denied,
            away: (line.arguments[0] == "away").then(|| "the metadata does not answer".to_owned()),
        };
        self.asked.lock().unwrap().push((line.clone(), asker));
        outcome
    }
}

fn world() -> (World, Arc<Echo>) {
    let echo = Arc::new(Echo::default());
    let commands: Arc<dyn Commands> = Arc::clone(&echo) as Arc<dyn Commands>;
    (World::new().commanding(commands), echo)
}

fn post(body: &Value, key: &str) -> Request<Body> {
    Request::post("/api/v1/commands")
        .header(header::CONTENT_TYPE, "application/json")
        .header("Idempotency-Key", key)
        .body(Body::from(body.to_string()))
        .unwrap()
}

async fn ask(world: &World, role: OperatorRole, body: Value) -> super::world::Said {
    world.ask(role, "POST", "/api/v1/commands", Some(body)).await
}

#[tokio::test]
async fn a_command_is_carried_out_as_who_asks_and_told_as_it_was_said() {
    let (world, echo) = world();
    let said = ask(&world, Viewer, json!({ "arguments": ["volume", "list"] }))
        .await
        .done(200);
    let expected = json!({ "exit_code": 0, "stdout": "volume list", "stderr": "beside\n", "question": null });
    assert_eq!(said.body, expected);
    let said = ask(&world, Admin, json!({ "arguments": ["destroy"] })).await.done(200);
    assert_eq!(said.body["question"], json!({ "name": "db", "lost": "It goes." }));
    let body = json!({ "arguments": ["destroy"], "confirmed": "db" });
    assert_eq!(ask(&world, Admin, body).await.done(200).body["question"], Value::Null);
    let asked = echo.asked.lock().unwrap();
    let of = |at: usize| (&asked[at].0, &asked[at].1);
    assert!(of(0).1.caller.who().name.contains("alice"), "{:?}", of(0));
    assert_eq!(of(0).1.caller.who().role, "viewer");
    assert_eq!(of(1).1.caller.who().role, "admin");
    assert_eq!(
        (of(1).0.confirmed.as_deref(), of(2).0.confirmed.as_deref()),
        (None, Some("db"))
    );
    assert!(
        asked
            .iter()
            .all(|(_, asker)| asker.tells_refusals && asker.ends_at.is_none() && !asker.is_private)
    );
}

#[tokio::test]
async fn what_files_hold_is_taken_by_tls_only_and_told_to_nobody() {
    let (world, echo) = world();
    let body = json!({ "arguments": ["host", "key"], "files": { "key": "hush" } });
    let said = ask(&world, Admin, body).await;
    assert!(!said.body.to_string().contains("hush"), "{said:?}");
    said.is(400, "bad-request");
    assert!(echo.asked.lock().unwrap().is_empty(), "nothing was carried out");
    for wrong in [json!({ "key": 1 }), json!(["key"]), json!("key")] {
        let body = json!({ "arguments": ["host", "key"], "files": wrong });
        ask(&world, Admin, body).await.is(400, "bad-request");
    }
}

#[tokio::test]
async fn what_is_no_command_reaches_nobody() {
    let (world, echo) = world();
    for body in [
        json!({}),
        json!({ "arguments": "volume list" }),
        json!({ "arguments": ["a"], "surplus": 1 }),
    ] {
        ask(&world, Admin, body).await.is(400, "bad-request");
    }
    for arguments in [vec!["x".to_owned(); 1025], vec!["x".repeat((16 << 10) + 1)]] {
        let said = ask(&world, Admin, json!({ "arguments": arguments })).await;
        said.is(413, "too-large");
    }
    let long = "x".repeat((16 << 10) + 1);
    let said = ask(&world, Admin, json!({ "arguments": ["a"], "confirmed": long })).await;
    said.is(413, "too-large");
    assert!(echo.asked.lock().unwrap().is_empty());
    // Where the metadata is away another node may do better: that is no answer.
    let said = ask(&world, Admin, json!({ "arguments": ["away"] })).await;
    said.is(503, "metadata-away");
    // A node that carries none out says so.
    let said = ask(&World::new(), Admin, json!({ "arguments": ["volume", "list"] })).await;
    said.is(404, "not-found");
}

#[tokio::test]
async fn sent_again_it_is_done_once_but_where_its_answer_has_a_secret() {
    let (world, echo) = world();
    let count = || echo.asked.lock().unwrap().len();
    let change = json!({ "arguments": ["volume", "create"] });
    let first = world.send(Some(Admin), post(&change, "one")).await.done(200);
    let again = world.send(Some(Admin), post(&change, "one")).await.done(200);
    assert_eq!((first.body, count()), (again.body, 1));
    // The same key is for the same command.
    let other = json!({ "arguments": ["volume", "delete"] });
    world.send(Some(Admin), post(&other, "one")).await.is(422, "key-reused");
    let secret = json!({ "arguments": ["secret"] });
    for _ in 0..2 {
        world.send(Some(Admin), post(&secret, "two")).await.done(200);
    }
    assert_eq!(count(), 3, "it was kept nowhere");
}

#[tokio::test]
async fn who_is_refused_again_and_again_does_not_fill_the_log() {
    let (world, echo) = world();
    for _ in 0..30 {
        let said = ask(&world, Viewer, json!({ "arguments": ["forbidden"] }))
            .await
            .done(200);
        assert_eq!(said.body["exit_code"], json!(1));
    }
    let asked = echo.asked.lock().unwrap();
    let told = asked.iter().filter(|(_, asker)| asker.tells_refusals).count();
    assert_eq!((told, asked.len()), (20, 30));
}
