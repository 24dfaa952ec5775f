use super::*;
use std::cell::RefCell;

fn session(number: u64) -> IscsiSession {
    let value = serde_json::json!({
        "node": "n1", "core": 3, "number": number, "initiator": "iqn.2001-04.com.example:host", "proven": true,
        "peer": "192.0.2.9:999", "target": "db", "iqn": "iqn.2026-11.io.amita:01234567:db", "isid": "00023d000001", "tsih": 7,
        "tag": 2, "portal": "192.0.2.1:3260", "since": 1_700_000_000, "silent_seconds": 1, "header_digest": true,
        "data_digest": false, "immediate_data": true, "initial_r2t": true, "max_receive_bytes": 262_144,
        "max_send_bytes": 8192, "max_burst_bytes": 262_144, "first_burst_bytes": 65_536, "max_outstanding_r2t": 1,
        "commands": 128, "under_way": 5,
    });
    serde_json::from_value(value).unwrap()
}

fn arguments() -> Arguments {
    Arguments {
        initiator: None,
        target: None,
        node: None,
        json: false,
    }
}

#[test]
fn a_session_is_a_line() {
    let text = text(&[session(1)]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    for part in [
        "iqn.2001-04.com.example:host (00023d000001)",
        "db",
        "n1",
        "3",
        "192.0.2.1:3260,2",
        "2023-11-14",
        "yes",
        "header",
        "5 of 128",
    ] {
        assert!(lines[1].contains(part), "{part}: {text}");
    }
    assert_eq!(super::text(&[]), "No initiator is logged in.\n");
    let guest = IscsiSession {
        target: None,
        iqn: None,
        portal: None,
        header_digest: false,
        ..session(1)
    };
    assert!(super::text(&[guest]).contains("(discovers)"));
}

#[test]
fn what_is_asked_for_is_what_was_given() {
    let all = Arguments {
        initiator: Some("iqn.a:b&c".to_owned()),
        target: Some("db".to_owned()),
        node: Some("n1".to_owned()),
        ..arguments()
    };
    let asked = path(&all, Some("n1/3/7"));
    assert!(
        asked.starts_with("/api/v1/iscsi/sessions?limit=1000&initiator=iqn.a%3Ab%26c&target=db&node=n1&after="),
        "{asked}"
    );
    assert_eq!(path(&arguments(), None), "/api/v1/iscsi/sessions?limit=1000");
}

#[test]
fn pieces_are_asked_for_until_the_last_and_never_the_same_again() {
    let answer = |next: Option<&str>| Answer {
        items: vec![session(1)],
        missing: Vec::new(),
        next: next.map(str::to_owned),
    };
    let asked = RefCell::new(Vec::new());
    let pieces = |path: &str| {
        asked.borrow_mut().push(path.to_owned());
        Ok(match asked.borrow().len() {
            1 => answer(Some("n1")),
            2 => answer(Some("n2")),
            _ => answer(None),
        })
    };
    show(&arguments(), pieces).unwrap();
    assert_eq!(asked.borrow().len(), 3);
    assert!(asked.borrow()[2].ends_with("&after=n2"));
    let again = RefCell::new(0);
    let endless = |_: &str| {
        *again.borrow_mut() += 1;
        Ok(answer(Some("n1")))
    };
    show(&arguments(), endless).unwrap();
    assert_eq!(*again.borrow(), 2);
}
