//! Questions, and a server that is asked over its socket.

use super::*;
use amita_types::{ClusterId, NodeId};
use std::io::{Read, Write};

fn question(query: &str) -> Result<Question, String> {
    Question::parse(query)
}

#[test]
fn a_question_names_what_it_wants() {
    let plain = question("").unwrap();
    assert_eq!((plain.slow, plain.volume, plain.count), (false, None, TRACES));
    let all = question("slow=1&volume=disk-0&count=3").unwrap();
    assert_eq!((all.slow, all.volume.as_deref(), all.count), (true, Some("disk-0"), 3));
    assert!(question("slow").unwrap().slow);
    assert!(question("count=many").is_err());
    assert!(question("secret=1").is_err());
}

fn get(address: SocketAddr, line: &str) -> String {
    ask_as(address, line, &address.to_string())
}

fn ask_as(address: SocketAddr, line: &str, host: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // In one piece: whoever is refused by the first line is not read any further.
    let request = format!("{line}\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn pages_are_served_and_nothing_else() {
    let empty = NodeReport {
        node: NodeId(3),
        name: "n3".to_owned(),
        cluster: ClusterId(1),
        cores: Vec::new(),
        core_count: 2,
        policies: Vec::new(),
        process: super::super::ProcessReport::default(),
        certificate: None,
        leads: false,
        metadata_silent: Duration::ZERO,
        metadata_older: false,
        figures: None,
        export: crate::observe::ExportReport::default(),
        links: Vec::new(),
    };
    let ask: CollectReport = Arc::new(move |_| empty.clone());
    let server = Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), ask).unwrap();
    let at = server.address();
    let metrics = get(at, "GET /metrics HTTP/1.1");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.contains("\namita_cores_silent 2\n"), "{metrics}");
    assert!(get(at, "GET /top HTTP/1.1").contains("\"name\":\"n3\""));
    assert!(get(at, "GET /traces?slow=1 HTTP/1.1").contains("\"traces\":[]"));
    assert!(get(at, "GET /traces?what=1 HTTP/1.1").starts_with("HTTP/1.1 400"));
    assert!(get(at, "GET /etc/passwd HTTP/1.1").starts_with("HTTP/1.1 404"));
    assert!(get(at, "POST /metrics HTTP/1.1").starts_with("HTTP/1.1 405"));
    for stranger in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
    ] {
        let said = ask_as(at, "GET /top HTTP/1.1", stranger);
        assert!(
            said.starts_with("HTTP/1.1 421") && !said.contains("n3"),
            "{stranger}: {said}"
        );
    }
    let said = get(at, "GET http://evil.example/top HTTP/1.1");
    assert!(said.starts_with("HTTP/1.1 421"), "{said}");
    for own in ["localhost", "LocalHost:1", "[::1]:9100", "10.1.2.3"] {
        assert!(
            ask_as(at, "GET /top HTTP/1.1", own).starts_with("HTTP/1.1 200"),
            "{own}"
        );
    }
    assert!(get(at, "\u{1}\u{2}garbage").starts_with("HTTP/1.1 400"));
    let post = |body: &str| {
        let mut stream = std::net::TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let length = body.len();
        let request = format!(
            "POST /space HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let question =
        |groups: u32| format!("{{\"number\":1,\"groups\":{groups},\"stores\":{{}},\"volumes\":[{{\"id\":7}}]}}");
    let said = post(&question(4));
    assert!(
        said.starts_with("HTTP/1.1 200") && said.contains("\"name\":\"n3\"") && said.contains("\"stores\":[]"),
        "{said}"
    );
    for bad in ["", "{}", "no JSON", &question(3)] {
        let said = post(bad);
        assert!(said.starts_with("HTTP/1.1 400"), "{bad}: {said}");
    }
    drop(server);
    assert!(std::net::TcpStream::connect(at).is_err(), "it has ended");
}
