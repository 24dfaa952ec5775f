//! Messages to real receivers on loopback: an HTTP server that checks signatures, a mail server that speaks SMTP with STARTTLS, syslog by
//! all of its ways.

mod server;

use amita_notify::alert::{Alerts, Condition};
use amita_notify::channel::{Channel, Protection, Secrets, SyslogBy};
use amita_notify::delivery::{Around, Delivery};
use amita_notify::message::{From, Message, compose};
use amita_notify::send::{SIGNATURE, Said, send, sign};
use amita_notify::{ChannelKind, Severity};
use server::{Authority, Secure};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::thread;

/// A message that tells of a node that is down.
fn message() -> Message {
    let down = Condition {
        code: "node-down".to_owned(),
        severity: Severity::Critical,
        object: "n1".to_owned(),
        labels: BTreeMap::from([("node".to_owned(), "n1".to_owned())]),
        what: "Node n1 does not hold its lease: it is down, or cut off.".to_owned(),
        advice: "Start it.".to_owned(),
        at_once: true,
    };
    let mut alerts = Alerts::default();
    alerts.step(&[down], 1000);
    let mut channel = channel(ChannelKind::Syslog {
        by: SyslogBy::Local,
        server: String::new(),
    });
    channel.wait_s = 0;
    let mut delivery = Delivery::default();
    let around = Around {
        channel: &channel,
        alerts: &alerts,
        silences: &[],
        now: 1001,
    };
    delivery.step(around, || "m-1".to_owned());
    let (group, outgoing) = delivery.next().unwrap();
    let from = From {
        cluster: "c0ffee",
        channel: "hook",
        group_by: channel.group_by,
    };
    compose(from, group, outgoing, &delivery, &alerts)
}

fn channel(kind: ChannelKind) -> Channel {
    let mut channel = Channel::new("hook", kind, "eve", 1);
    channel.allow_loopback = true;
    channel
}

fn tell(channel: &Channel, secrets: &Secrets) -> Said {
    send(channel, secrets, &message(), "n2")
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// One request, and what it is answered.
fn take_request(mut stream: impl Read + Write, answer: &str) -> (String, Vec<u8>) {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    let head = loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "a whole request");
        seen.extend_from_slice(&piece[..read]);
        if let Some(at) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
    };
    let text = String::from_utf8(seen[..head].to_vec()).unwrap();
    let length = header(&text, "content-length").parse::<usize>().unwrap();
    let mut body = seen[head + 4..].to_vec();
    while body.len() < length {
        let read = stream.read(&mut piece).unwrap();
        body.extend_from_slice(&piece[..read]);
    }
    stream.write_all(answer.as_bytes()).unwrap();
    stream.flush().unwrap();
    (text, body)
}

fn header(head: &str, name: &str) -> String {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {head}"))
        .1
        .to_owned()
}

fn secrets(path: Option<&str>, key: Option<&str>) -> Secrets {
    let mut secrets = Secrets::default();
    (secrets.path, secrets.key) = (path.map(str::to_owned), key.map(str::to_owned));
    secrets
}

#[test]
fn a_webhook_gets_json_whose_signature_is_right() {
    let (listener, port) = listener();
    let origin = format!("http://127.0.0.1:{port}");
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        take_request(stream, "HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok")
    });
    let said = tell(
        &channel(ChannelKind::Webhook { origin }),
        &secrets(Some("/hook?a=1"), Some("the key")),
    )
    .unwrap();
    assert_eq!(said, "202 Accepted");
    let (head, body) = server.join().unwrap();
    assert!(head.starts_with("POST /hook?a=1 HTTP/1.1\r\n"), "{head}");
    let signature = header(&head, SIGNATURE.as_str());
    let at: u64 = signature
        .strip_prefix("t=")
        .unwrap()
        .split(',')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(signature, sign("the key", at, &body));
    assert_ne!(signature, sign("another", at, &body));
    assert_ne!(signature, sign("the key", at + 1, &body), "the time is signed as well");
    assert_eq!(header(&head, "amita-message-id"), "m-1");
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        json["alerts"][0]["what"],
        "Node n1 does not hold its lease: it is down, or cut off."
    );
    assert_eq!(
        (json["counts"]["firing"].as_u64(), json["alerts"][0]["runbook"].as_str()),
        (Some(1), Some("AmitaNodeDown"))
    );
}

/// The signature by the definition of HMAC (RFC 2104), from another hand: Python's `hmac`.
#[test]
fn a_signature_is_what_others_compute() {
    // hmac.new(b"key", b"1700000000.{}", hashlib.sha256).hexdigest()
    let wanted = "9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";
    assert_eq!(sign("key", 1_700_000_000, b"{}"), format!("t=1700000000,v1={wanted}"));
}

#[test]
fn redirections_and_refusals_are_failures() {
    for (answer, words) in [
        (
            "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
            "redirections are not followed",
        ),
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", "403 Forbidden"),
        ("not HTTP at all\r\n\r\n", "HTTP"),
    ] {
        let (listener, port) = listener();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            take_request(stream, answer);
        });
        let origin = format!("http://127.0.0.1:{port}");
        let why = tell(
            &channel(ChannelKind::Webhook { origin }),
            &secrets(Some("/secret-path"), None),
        )
        .unwrap_err();
        assert!(why.contains(words) && !why.contains("secret-path"), "{why}");
        server.join().unwrap();
    }
}

#[test]
fn this_machine_is_spoken_to_only_where_that_is_allowed() {
    let (listener, port) = listener();
    listener.set_nonblocking(true).unwrap();
    let origin = format!("http://127.0.0.1:{port}");
    let mut channel = channel(ChannelKind::Webhook { origin });
    channel.allow_loopback = false;
    let why = tell(&channel, &Secrets::default()).unwrap_err();
    assert!(why.contains("--allow-loopback"), "{why}");
    channel.kind = ChannelKind::Syslog {
        by: SyslogBy::Tcp,
        server: format!("localhost:{port}"),
    };
    assert!(
        tell(&channel, &Secrets::default())
            .unwrap_err()
            .contains("this machine")
    );
    assert!(listener.accept().is_err(), "nobody knocked");
}

#[test]
fn a_webhook_by_tls_is_believed_by_its_authority_alone() {
    let authority = Authority::new("localhost");
    for (pem, is_good) in [(authority.pem(), true), (Authority::new("localhost").pem(), false)] {
        let (listener, port) = listener();
        let secure = authority.secure();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let Ok(stream) = Secure::accept(&secure, stream) else {
                return false;
            };
            take_request(stream, "HTTP/1.1 204 No Content\r\n\r\n");
            true
        });
        let origin = format!("https://localhost:{port}");
        let mut channel = channel(ChannelKind::Webhook { origin });
        channel.authority = Some(pem);
        let said = tell(&channel, &Secrets::default());
        assert_eq!(said.is_ok(), is_good, "{said:?}");
        assert_eq!(server.join().unwrap(), is_good);
    }
}

fn mail(port: u16, protection: Protection, user: Option<&str>) -> Channel {
    channel(ChannelKind::Mail {
        server: "localhost".to_owned(),
        port,
        protection,
        user: user.map(str::to_owned),
        from: "Amita <amita@example.org>".to_owned(),
        to: vec!["storage@example.org".to_owned(), "night@example.org".to_owned()],
    })
}

#[test]
fn a_mail_goes_by_starttls_with_a_password_that_is_not_said_before() {
    let authority = Authority::new("localhost");
    let (listener, port) = listener();
    let secure = authority.secure();
    let server = thread::spawn(move || server::smtp(&listener, &secure, true));
    let mut channel = mail(port, Protection::Starttls, Some("amita"));
    channel.authority = Some(authority.pem());
    let said = tell(&channel, &secrets(None, Some("pass word"))).unwrap();
    assert!(said.starts_with("250 ") && said.contains("queued as 42"), "{said}");
    let heard = server.join().unwrap();
    assert!(heard.was_secure_at_auth, "the password is behind TLS");
    assert_eq!(heard.password, "\0amita\0pass word");
    assert_eq!(heard.receivers, ["<storage@example.org>", "<night@example.org>"]);
    assert!(
        heard
            .text
            .contains("Subject: [amita critical x1] Node n1 does not hold"),
        "{}",
        heard.text
    );
    assert!(
        heard.text.contains("Message-ID: <m-1.c0ffee@amita.invalid>"),
        "{}",
        heard.text
    );
    assert!(heard.text.contains("Runbook: docs/operating/runbooks/AmitaNodeDown.md"));
}

#[test]
fn a_mail_server_without_starttls_gets_neither_password_nor_mail() {
    let authority = Authority::new("localhost");
    let (listener, port) = listener();
    let secure = authority.secure();
    let server = thread::spawn(move || server::smtp(&listener, &secure, false));
    let mut channel = mail(port, Protection::Starttls, Some("amita"));
    channel.authority = Some(authority.pem());
    let why = tell(&channel, &secrets(None, Some("pass word"))).unwrap_err();
    assert!(!why.contains("pass word"), "{why}");
    let heard = server.join().unwrap();
    assert!(heard.password.is_empty() && heard.text.is_empty(), "{heard:?}");
}

/// The messages of a stream (RFC 6587, section 3.4.1).
fn unframed(mut bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ').expect("a length");
        let length: usize = std::str::from_utf8(&bytes[..space]).unwrap().parse().unwrap();
        all.push(String::from_utf8(bytes[space + 1..=space + length].to_vec()).unwrap());
        bytes = &bytes[space + 1 + length..];
    }
    all
}

fn check_line(line: &str) {
    let parts: Vec<&str> = line.splitn(7, ' ').collect();
    assert_eq!(
        (parts[0], parts[2], parts[3], parts[5]),
        ("<26>1", "n2", "amita", "node-down"),
        "{line}"
    );
    assert_eq!(parts[1].len(), "2026-01-01T00:00:00Z".len(), "{line}");
    assert!(parts[6].starts_with("[alert@64512 message=\"m-1\""), "{line}");
    assert!(line.contains("] \u{feff}Node n1 does not hold its lease"), "{line}");
}

#[test]
fn syslog_goes_by_datagrams_streams_and_tls() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = socket.local_addr().unwrap().to_string();
    let by = |by, server| channel(ChannelKind::Syslog { by, server });
    tell(&by(SyslogBy::Udp, server), &Secrets::default()).unwrap();
    let mut datagram = [0; 4096];
    let length = socket.recv(&mut datagram).unwrap();
    check_line(std::str::from_utf8(&datagram[..length]).unwrap());

    let (plain, port) = listener();
    let server = thread::spawn(move || {
        let mut all = Vec::new();
        plain.accept().unwrap().0.read_to_end(&mut all).unwrap();
        all
    });
    tell(&by(SyslogBy::Tcp, format!("127.0.0.1:{port}")), &Secrets::default()).unwrap();
    let lines = unframed(&server.join().unwrap());
    assert_eq!(lines.len(), 1);
    check_line(&lines[0]);

    let authority = Authority::new("localhost");
    let secure = authority.secure();
    let (listener, port) = listener();
    let server = thread::spawn(move || {
        let mut all = Vec::new();
        let mut stream = Secure::accept(&secure, listener.accept().unwrap().0).unwrap();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    let mut channel = by(SyslogBy::Tls, format!("localhost:{port}"));
    channel.authority = Some(authority.pem());
    tell(&channel, &Secrets::default()).unwrap();
    check_line(&unframed(&server.join().unwrap())[0]);
}

#[test]
fn a_dead_receiver_is_a_failure_and_names_itself() {
    let (listener, port) = listener();
    drop(listener);
    let origin = format!("http://127.0.0.1:{port}");
    let why = tell(&channel(ChannelKind::Webhook { origin }), &Secrets::default()).unwrap_err();
    assert!(why.contains("does not take connections"), "{why}");
    let origin = "https://no-such-host.invalid:443".to_owned();
    let why = tell(&channel(ChannelKind::Webhook { origin }), &Secrets::default()).unwrap_err();
    assert!(why.contains("no-such-host.invalid"), "{why}");
}
