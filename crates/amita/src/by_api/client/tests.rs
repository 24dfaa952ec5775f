//! Against small servers on loopback: each does what a node may do.

use super::*;
use crate::by_api::transport::Proof;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a server was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    line: String,
    key: Option<String>,
    token: Option<String>,
    body: String,
}

/// What it does then.
enum Act {
    Answer(u16, Value),
    HangUp,
    Nothing,
}

type Asked = Arc<Mutex<Vec<Request>>>;

/// A server that does the same with each request; what it was asked to carry out.
fn server(does: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) -> (Place, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = Asked::default();
    let (kept, does) = (Arc::clone(&asked), Arc::new(does));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (kept, does) = (Arc::clone(&kept), Arc::clone(&does));
            std::thread::spawn(move || serve(&stream, &kept, &*does));
        }
    });
    (
        Place::parse(&format!("127.0.0.1:{port}"), false).expect("a place"),
        asked,
    )
}

fn serve(stream: &TcpStream, kept: &Asked, does: &dyn Fn(&Request, usize) -> Act) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while let Some(request) = read(&mut reader) {
        let before = if request.line.starts_with("POST") {
            let mut kept = kept.lock().expect("no panic");
            kept.push(request.clone());
            kept.len() - 1
        } else {
            0
        };
        match does(&request, before) {
            Act::Answer(status, body) => {
                let body = body.to_string();
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
                if writer.write_all((head + &body).as_bytes()).is_err() {
                    return;
                }
            }
            Act::HangUp => return,
            Act::Nothing => loop {
                std::thread::park();
            },
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let header = |name: &str| {
        let found = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
        let mut found = found.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").map_or(0, |text| text.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        key: header("idempotency-key"),
        token: header("authorization"),
        body: String::from_utf8(body).expect("text"),
        line: lines.swap_remove(0),
    })
}

fn outcome(text: &str) -> Act {
    Act::Answer(
        200,
        json!({ "exit_code": 0, "stdout": text, "stderr": "", "question": null, "later": 1 }),
    )
}

fn refusal(status: u16, code: &str) -> Act {
    Act::Answer(status, json!({ "code": code, "detail": format!("it is {code}") }))
}

/// Is it the question whether anybody is there?
fn is_greeting(request: &Request) -> bool {
    request.line.starts_with("GET /api/v1/self")
}

fn good() -> (Place, Asked) {
    server(|request, _| match is_greeting(request) {
        true => Act::Answer(200, json!({})),
        false => outcome("done"),
    })
}

/// It greets, and then does that with a command.
fn then(does: impl Fn(usize) -> Act + Send + Sync + 'static) -> (Place, Asked) {
    server(move |request, before| match is_greeting(request) {
        true => Act::Answer(200, json!({})),
        false => does(before),
    })
}

/// Nobody listens there.
fn refusing() -> Place {
    Place::parse("127.0.0.1:1", false).expect("a place")
}

fn sending(places: Vec<Place>, does: Does) -> Sending {
    Sending {
        nodes: Nodes::new(places, Proof::none()),
        files: Sent::default(),
        arguments: vec!["volume".to_owned(), "list".to_owned()],
        does,
    }
}

#[test]
fn where_one_node_is_not_there_the_next_one_is_asked() {
    let silent = server(|_, _| Act::Nothing).0;
    let no_room = server(|_, _| refusal(429, "too-many")).0;
    let without_metadata = server(|_, _| refusal(503, "metadata-away")).0;
    let (there, asked) = good();
    let places = vec![refusing(), silent, no_room, without_metadata, there];
    let done = sending(places, Does::Change).send(None).expect("the last one");
    assert_eq!((done.exit_code, done.stdout.as_str()), (0, "done"));
    let asked = asked.lock().expect("no panic");
    assert_eq!(asked.len(), 1);
    assert!(asked[0].line.starts_with("POST /api/v1/commands "), "{:?}", asked[0]);
    let body: Value = serde_json::from_str(&asked[0].body).expect("JSON");
    assert_eq!(body, json!({ "arguments": ["volume", "list"], "confirmed": null }));
}

#[test]
fn what_may_have_been_done_is_sent_again_with_the_same_key() {
    let (dying, first) = then(|_| Act::HangUp);
    let (there, second) = good();
    let sending = sending(vec![dying, there], Does::Change);
    assert_eq!(sending.send(Some("db")).expect("the second").stdout, "done");
    let (first, second) = (first.lock().expect("no panic"), second.lock().expect("no panic"));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(first[0], second[0]);
    assert!(
        first[0].key.as_ref().is_some_and(|key| key.len() == 36),
        "{:?}",
        first[0]
    );
    drop((first, second));
    // Another command has another one.
    let (there, asked) = good();
    let again = Sending {
        nodes: Nodes::new(vec![there], Proof::none()),
        ..sending
    };
    for _ in 0..2 {
        again.send(None).expect("done");
    }
    let asked = asked.lock().expect("no panic");
    assert_ne!(asked[0].key, asked[1].key);
}

#[test]
fn what_only_looks_has_no_key_and_what_makes_a_secret_is_sent_once() {
    let (dying, _) = then(|_| Act::HangUp);
    let (there, asked) = good();
    sending(vec![dying.clone(), there.clone()], Does::Look)
        .send(None)
        .expect("the second");
    assert_eq!(asked.lock().expect("no panic")[0].key, None);
    let refused = sending(vec![dying, there], Does::Secret).send(None).expect_err("once");
    assert_eq!((refused.kind, refused.code), (Kind::Unreachable, "outcome-unknown"));
    assert!(refused.what.contains("not known whether"), "{refused}");
    assert!(refused.advice.contains("may have been carried out"), "{refused}");
    assert_eq!(asked.lock().expect("no panic").len(), 1);
}

#[test]
fn what_two_nodes_were_lost_by_is_given_to_no_third_one() {
    for (does, code) in [(Does::Change, "outcome-unknown"), (Does::Look, "unreachable")] {
        let (dying, others) = ([then(|_| Act::HangUp), then(|_| Act::HangUp)], good());
        let mut places: Vec<Place> = dying.iter().map(|(place, _)| place.clone()).collect();
        // One that is not there is not lost by it.
        places.insert(1, refusing());
        places.push(others.0);
        let refused = sending(places.clone(), does).send(None).expect_err("two are lost");
        assert_eq!((refused.kind, refused.code), (Kind::Unreachable, code), "{refused}");
        assert!(refused.advice.contains("two were lost"), "{refused}");
        assert_eq!(
            refused.what.lines().count(),
            4,
            "each that was tried, with its reason: {refused}"
        );
        for (_, asked) in &dying {
            assert_eq!(asked.lock().expect("no panic").len(), 1);
        }
        assert!(others.1.lock().expect("no panic").is_empty(), "the third one was asked");
        // One that was lost may have had another reason.
        let one = vec![places[0].clone(), places[3].clone()];
        assert_eq!(sending(one, does).send(None).expect("the second").stdout, "done");
    }
}

#[test]
fn a_command_that_is_being_carried_out_is_waited_for() {
    let (busy, asked) = then(|before| match before {
        0 | 1 => refusal(409, "in-progress"),
        _ => outcome("done at last"),
    });
    let done = sending(vec![busy], Does::Change).send(None).expect("done");
    assert_eq!(done.stdout, "done at last");
    let asked = asked.lock().expect("no panic");
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| request.key == asked[0].key));
}

#[test]
fn where_all_fail_each_is_named_with_its_reason() {
    let older = server(|request, _| match &request.line {
        line if line.starts_with("GET /api ") => Act::Answer(200, json!({ "software": "0.0.9" })),
        line if line.starts_with("POST") => refusal(404, "not-found"),
        _ => Act::Answer(200, json!({})),
    })
    .0;
    let places = vec![refusing(), older.clone()];
    let refused = sending(places.clone(), Does::Change).send(None).expect_err("none");
    assert_eq!(refused.kind, Kind::Unreachable);
    for (place, why) in places.iter().zip(["it cannot be reached", "it has release 0.0.9"]) {
        let line = refused.what.lines().find(|line| line.starts_with(&place.to_string()));
        assert!(line.is_some_and(|line| line.contains(why)), "{place}: {refused}");
    }
    assert!(refused.what.starts_with("no node carries the command out"), "{refused}");
    // One that has refused to hear of it has not done it; one that may have makes it another answer.
    let without_metadata = server(|_, _| refusal(503, "metadata-away")).0;
    let refused = sending(vec![without_metadata], Does::Change)
        .send(None)
        .expect_err("none");
    assert!(refused.what.starts_with("no node carries the command out"), "{refused}");
    let (lost, _) = then(|_| refusal(503, "metadata-away"));
    let refused = sending(vec![lost], Does::Change).send(None).expect_err("none");
    assert!(refused.what.contains("not known whether"), "{refused}");
    let (dying, _) = then(|_| Act::HangUp);
    let refused = sending(vec![dying, older], Does::Change).send(None).expect_err("none");
    assert!(refused.what.contains("not known whether"), "{refused}");
}

#[test]
fn what_a_node_refuses_is_refused_for_all() {
    for (status, code) in [
        (401, "unauthenticated"),
        (403, "denied"),
        (400, "bad-request"),
        (500, "internal"),
    ] {
        let (no, _) = then(move |_| refusal(status, code));
        let (there, asked) = good();
        let refused = sending(vec![no, there], Does::Change).send(None).expect_err(code);
        assert_eq!(refused.code, code);
        assert!(refused.what.contains(&status.to_string()), "{refused}");
        assert!(asked.lock().expect("no panic").is_empty(), "{code}");
    }
    // After one that may have done it, that is said, too.
    let (dying, _) = then(|_| Act::HangUp);
    let (no, _) = then(|_| refusal(403, "denied"));
    let refused = sending(vec![dying, no], Does::Change).send(None).expect_err("denied");
    assert!(refused.advice.contains("may have been carried out"), "{refused}");
}

#[test]
fn a_node_of_another_release_that_does_not_know_a_command_says_so() {
    let (older, _) = server(|request, _| match &request.line {
        line if line.starts_with("GET /api ") => Act::Answer(200, json!({ "software": "0.0.9" })),
        line if line.starts_with("POST") => Act::Answer(
            200,
            json!({ "exit_code": 2, "stdout": "", "stderr": "error: unexpected argument\n", "question": null }),
        ),
        _ => Act::Answer(200, json!({})),
    });
    let done = sending(vec![older], Does::Change).send(None).expect("an answer");
    assert_eq!(done.exit_code, 2);
    assert!(
        done.stderr.contains("unexpected argument") && done.stderr.contains("release 0.0.9"),
        "{done:?}"
    );
}

#[test]
fn a_token_is_shown_with_every_request_and_not_told() {
    let (there, asked) = good();
    let proof = Proof::none().with_token("amita-api-1.x").expect("a token");
    assert_eq!(format!("{proof:?}"), "Proof");
    let sending = Sending {
        nodes: Nodes::new(vec![there], proof),
        ..sending(Vec::new(), Does::Look)
    };
    sending.send(None).expect("done");
    let asked = asked.lock().expect("no panic");
    assert_eq!(asked[0].token.as_deref(), Some("Bearer amita-api-1.x"));
    assert!(Proof::none().with_token("a\nb").is_err());
}

#[test]
fn it_is_clear_by_what_a_command_is_carried_out() {
    use Source::{Environment, Flag, None};
    let given = |command: &str, by_api, metadata| Given {
        command: command.to_owned(),
        by_api,
        metadata,
        ..Given::default()
    };
    for (command, by_api, metadata, sent) in [
        ("volume list", None, Flag, false),
        ("volume list", Flag, None, true),
        ("volume list", Flag, Environment, true),
        ("volume list", Environment, None, true),
        ("volume list", Environment, Flag, false),
        // What is done here is done here.
        ("disk format", Environment, None, false),
        ("explain", Flag, Flag, false),
        ("audit ship", Environment, Environment, false),
        ("top", Environment, Flag, false),
        ("top", Flag, None, true),
        ("volume import", Flag, Environment, true),
    ] {
        let is_sent = is_sent(&given(command, by_api, metadata));
        assert_eq!(is_sent, Ok(sent), "{command} {by_api:?} {metadata:?}");
    }
    for (command, by_api, metadata, says) in [
        ("volume list", Flag, Flag, "by which of them"),
        ("volume list", Environment, Environment, "by which of them"),
        ("audit ship", Flag, None, "is not carried out by nodes"),
        ("audit ship", Environment, None, "is not carried out by nodes"),
        ("recover", Flag, Environment, "disks of this machine"),
    ] {
        let refused = is_sent(&given(command, by_api, metadata)).expect_err(command);
        assert_eq!(refused.kind, Kind::Usage);
        assert!(refused.what.contains(says), "{command}: {refused}");
    }
    let mut watching = given("status", Flag, None);
    watching.written.insert("watch".to_owned());
    assert_eq!(is_sent(&watching), Ok(true), "it is asked again and again");
    let mut resuming = given("volume import", Flag, None);
    resuming.written.insert("resume".to_owned());
    assert!(is_sent(&resuming).is_err_and(|why| why.what.contains("--resume")));
}
