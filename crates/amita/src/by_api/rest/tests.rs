//! What answers mean, and streams against small servers on loopback.

use super::*;
use crate::by_api::transport::Proof;
use http::Method;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;

type Connection = BufReader<TcpStream>;

/// A node that greets whoever comes, and does that with the first line of what else it is asked.
fn node(does: impl Fn(&str, &mut Connection) + Send + Sync + 'static) -> Place {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let does = std::sync::Arc::new(does);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let does = std::sync::Arc::clone(&does);
            std::thread::spawn(move || serve(BufReader::new(stream), &*does));
        }
    });
    Place::parse(&format!("127.0.0.1:{port}"), false).expect("a place")
}

fn serve(mut connection: Connection, does: &dyn Fn(&str, &mut Connection)) {
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match connection.read_line(&mut head) {
                Ok(read) if read > 0 => {}
                _ => return,
            }
        }
        let line = head.lines().next().unwrap_or_default();
        if !line.starts_with("GET /api/v1/self") {
            return does(&head, &mut connection);
        }
        answer(&mut connection, 200, "{}");
    }
}

fn answer(connection: &mut Connection, status: u16, body: &str) {
    let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // Whoever has gone needs no answer.
    let _ = connection.get_mut().write_all(text.as_bytes());
}

fn rest(places: Vec<Place>) -> Rest {
    Rest::new(Nodes::new(places, Proof::none())).expect("an event loop")
}

const FULL: &str = r#"{"code":"too-many","detail":"it copies two"}"#;

fn said(status: u16, body: &Value, is_sent: bool) -> Said {
    Said {
        status,
        retry_after: None,
        tag: None,
        body: body.to_string().into_bytes(),
        is_sent,
    }
}

fn place() -> Place {
    Place::parse("127.0.0.1:1", false).expect("a place")
}

#[test]
fn names_end_no_path_and_no_parameter() {
    assert_eq!(encode("db-1.a_b~c"), "db-1.a_b~c");
    assert_eq!(encode("a/b?c&d%e f"), "a%2Fb%3Fc%26d%25e%20f");
}

#[test]
fn a_node_is_passed_over_for_what_another_one_may_do_and_believed_in_what_it_refuses() {
    let problem = |code: &str, detail: &str| json!({ "code": code, "detail": detail });
    for (status, code, detail) in [
        (429, "too-many", "full"),
        (503, "metadata-away", "away"),
        (421, "misdirected", "not here"),
        (404, "not-found", "there is nothing at this path; look elsewhere"),
        (404, "", ""),
    ] {
        let missed = judge(&place(), said(status, &problem(code, detail), true));
        assert!(
            matches!(missed, Err(Missed::Next { perhaps, .. }) if perhaps == (status == 503)),
            "{status}"
        );
    }
    for (status, code, kind, exit) in [
        (404, "not-found", Kind::NotFound, 4),
        (409, "in-use", Kind::Conflict, 5),
        (412, "changed", Kind::Conflict, 5),
        (403, "denied", Kind::Failed, 1),
        (400, "bad-request", Kind::Usage, 2),
        (504, "not-in-time", Kind::Unreachable, 3),
        (500, "of a newer release", Kind::Failed, 1),
    ] {
        let Err(Missed::Final(failure)) = judge(&place(), said(status, &problem(code, "why"), true)) else {
            panic!("{status} {code}")
        };
        assert_eq!((failure.kind, failure.kind.code()), (kind, exit), "{code}");
        assert!(failure.what.contains("why"), "{failure}");
    }
    assert!(judge(&place(), said(201, &json!({}), true)).is_ok());
}

#[test]
fn what_two_nodes_may_have_done_is_given_to_no_third_one() {
    let lost = || Missed::Next {
        why: "it is gone".to_owned(),
        perhaps: true,
    };
    let mut tried = Tried::default();
    tried.take(&place(), lost(), true).expect("another one is asked");
    let failure = tried.take(&place(), lost(), true).expect_err("no third one");
    assert_eq!((failure.kind, failure.code), (Kind::Unreachable, "outcome-unknown"));
    // What only looks is asked of all.
    let mut tried = Tried::default();
    for _ in 0..5 {
        tried.take(&place(), lost(), false).expect("another one is asked");
    }
    assert!(tried.failure().what.starts_with("no node answers"));
    // After one that may have done it, a refusal is not the whole.
    let mut tried = Tried::default();
    tried.take(&place(), lost(), true).expect("another one is asked");
    let refused = Missed::Final(Failure::new("it exists").kind(Kind::Conflict));
    let failure = tried.take(&place(), refused, true).expect_err("refused");
    assert!(
        failure.what.contains("it is gone") && failure.advice.contains("may have been done"),
        "{failure}"
    );
}

#[test]
fn what_is_cut_off_is_told_and_is_not_the_end() {
    let full = node(|_, connection| answer(connection, 429, FULL));
    let dying = node(|_, connection| {
        let text = b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nabc";
        connection.get_mut().write_all(text).expect("somebody reads");
    });
    let rest = rest(vec![full, dying.clone()]);
    let (index, place, mut coming) = rest.open(&Question::get("/x")).expect("the second has room");
    assert_eq!((index, place, coming.length), (1, dying.to_string(), Some(10)));
    let patience = Duration::from_secs(60);
    let first = rest.next(&mut coming, patience).expect("it comes");
    assert_eq!(first.as_deref(), Some(&b"abc"[..]));
    let cut = rest.next(&mut coming, patience).expect_err("it is not the whole");
    assert!(cut.kind == Kind::Unreachable && cut.what.contains("cut off"), "{cut}");
}

#[test]
fn nothing_is_sent_before_a_node_wants_it() {
    let (tell, told) = channel();
    let full = node(move |head, connection| {
        assert!(head.to_lowercase().contains("expect: 100-continue"), "{head}");
        answer(connection, 429, FULL);
        // Whoever is refused goes away, and has sent nothing.
        let mut rest = Vec::new();
        let _ = connection.read_to_end(&mut rest);
        tell.send(rest).expect("the test waits");
    });
    let wants = node(|head, connection| {
        assert!(head.to_lowercase().contains("content-length: 5"), "{head}");
        connection
            .get_mut()
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .expect("somebody reads");
        let mut body = [0; 5];
        connection.read_exact(&mut body).expect("it comes");
        let body = json!({ "came": String::from_utf8_lossy(&body) }).to_string();
        answer(connection, 200, &body);
    });
    let rest = rest(vec![full, wants.clone()]);
    let question = Question {
        method: Method::PUT,
        ..Question::get("/x")
    };
    let (place, mut sending) = rest.begin(&question, 5).expect("the second wants it");
    assert_eq!(place, wants.to_string());
    for piece in ["he", "llo"] {
        rest.send(&mut sending, Bytes::from_static(piece.as_bytes()))
            .expect("it is taken");
    }
    let said: Value = rest.end(sending).expect("an answer");
    assert_eq!(said, json!({ "came": "hello" }));
    rest.close();
    assert_eq!(told.recv().expect("the first has answered"), Vec::<u8>::new());
}
