//! Traces of I/Os go to a collector of OpenTelemetry: each of them once, whole, also when it was away; and it keeps nobody waiting.

use crate::observe::metrics_of;
use crate::posted::Posted;
use crate::world::{VOLUME, World, eventually};
use amita::nodes;
use amita_node::observe::{Exchange, Fate};
use amita_otlp::proto::{ExportTraceServiceRequest, KeyValue, Span, SpanKind, Value};
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::thread;

/// Nobody but the collector may see it.
const TOKEN: &str = "hunter2-lets-in";

/// What was taken.
type Taken = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// Takes all that comes. It ends with the process.
fn collect(listener: TcpListener) -> Taken {
    let taken = Taken::default();
    let all = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let all = Arc::clone(&all);
            thread::spawn(move || {
                while let Some(request) = take(&stream) {
                    all.lock().expect("nobody panicked").push(request);
                }
            });
        }
    });
    taken
}

/// A request, which is answered at once.
fn take(mut stream: &TcpStream) -> Option<ExportTraceServiceRequest> {
    let posted = Posted::read(stream)?;
    assert!(posted.head.starts_with("POST /v1/traces HTTP/1.1"), "{}", posted.head);
    assert_eq!(posted.header("content-type").as_deref(), Some("application/x-protobuf"));
    assert_eq!(posted.header("x-token").as_deref(), Some(TOKEN));
    let request = ExportTraceServiceRequest::decode(&posted.body[..]).expect("protobuf");
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()?;
    Some(request)
}

fn value(all: &[KeyValue], key: &str) -> Option<Value> {
    let found = all.iter().find(|one| one.key == key)?;
    found.value.clone()?.value
}

fn text(all: &[KeyValue], key: &str) -> String {
    match value(all, key) {
        Some(Value::String(text)) => text,
        other => panic!("{key} is {other:?} in {all:?}"),
    }
}

/// The traces of the volume's writes, each with its node and its spans, by their ids.
fn writes(taken: &Taken) -> BTreeMap<Vec<u8>, (String, Vec<Span>)> {
    let mut traces: BTreeMap<Vec<u8>, (String, Vec<Span>)> = BTreeMap::new();
    for request in taken.lock().expect("nobody panicked").iter() {
        for resource in &request.resource_spans {
            let told = &resource.resource.as_ref().expect("a resource").attributes;
            assert_eq!(text(told, "service.name"), "amita");
            assert_eq!(text(told, "service.version"), env!("CARGO_PKG_VERSION"));
            let node = text(told, "amita.node.name");
            for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
                let (_, spans) = traces
                    .entry(span.trace_id.clone())
                    .or_insert_with(|| (node.clone(), Vec::new()));
                spans.push(span.clone());
            }
        }
    }
    traces.retain(|_, (_, spans)| {
        let root = spans
            .iter()
            .find(|span| span.parent_span_id.is_empty())
            .expect("a root");
        root.name == "write" && value(&root.attributes, "amita.volume.name") == Some(Value::String(VOLUME.to_owned()))
    });
    traces
}

/// What a node has counted of this.
fn count(world: &World, node: &str, metric: &str) -> u64 {
    let page = nodes::get(&metrics_of(world, node), "/metrics").expect("the page");
    let value = page
        .lines()
        .find_map(|line| line.strip_prefix(metric))
        .expect("the metric");
    value.trim().parse().expect("a count")
}

fn traces(world: &World, fate: Fate) -> u64 {
    count(
        world,
        "n1",
        &format!("amita_otlp_traces_total{{outcome=\"{}\"}}", fate.name()),
    )
}

#[test]
fn traces_reach_a_collector_that_was_away_each_once_and_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let headers = folder.path().join("headers").display().to_string();
    std::fs::write(&headers, format!("X-Token: {TOKEN}\n")).expect("written");
    std::fs::set_permissions(&headers, std::fs::Permissions::from_mode(0o600)).expect("private");
    // It has a place, and takes no connections yet.
    let address = SocketAddr::from(([127, 0, 0, 1], amita_harness::ports::free()));
    let url = format!("http://{address}");
    let world = World::serving(&[
        "--trace-one-in",
        "1",
        "--otlp-endpoint",
        &url,
        "--otlp-headers",
        &headers,
        "--otlp-compression",
        "none",
    ]);
    let mut client = world.open(0);
    for block in 0..8 {
        client.write(block * 4096, &[7; 4096]).expect("written");
    }
    eventually("nobody is there to take them", || {
        let failed = format!("amita_otlp_requests_total{{outcome=\"{}\"}}", Exchange::Failed.name());
        count(&world, "n1", &failed) > 0
    });
    let taken = collect(TcpListener::bind(address).expect("the port is still free"));
    eventually("all of them arrive", || writes(&taken).len() == 8);
    for block in 8..16 {
        client.write(block * 4096, &[7; 4096]).expect("written");
    }
    eventually("so do the next ones", || writes(&taken).len() == 16);
    let stores = world.json(&["disk", "list"]);
    let node_of: BTreeMap<&str, &str> = stores
        .as_array()
        .expect("stores")
        .iter()
        .map(|store| {
            (
                store["id"].as_str().expect("an id"),
                store["node_name"].as_str().expect("a name"),
            )
        })
        .collect();
    let mut offsets = BTreeSet::new();
    for (node, spans) in writes(&taken).values() {
        assert_eq!(node, "n1");
        let ids: BTreeSet<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
        assert_eq!(ids.len(), spans.len(), "each span once: {spans:?}");
        let (roots, others): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.parent_span_id.is_empty());
        assert_eq!(roots.len(), 1, "{spans:?}");
        assert!(
            others.iter().all(|span| ids.contains(span.parent_span_id.as_slice())),
            "{spans:?}"
        );
        assert!(
            spans
                .iter()
                .all(|span| span.start_time_unix_nano <= span.end_time_unix_nano)
        );
        assert_eq!(value(&roots[0].attributes, "amita.io.size"), Some(Value::Int(4096)));
        assert_eq!(text(&roots[0].attributes, "amita.outcome"), "ok");
        let Some(Value::Int(offset)) = value(&roots[0].attributes, "amita.io.offset") else {
            panic!("no offset: {spans:?}")
        };
        assert!(offsets.insert(offset), "the write at {offset} came twice");
        // Each store's work is beneath the request to it, and under its node's name.
        let work: Vec<&Span> = spans.iter().filter(|span| span.name == "store").collect();
        assert_eq!(work.len(), 3, "{spans:?}");
        for span in work {
            let id = text(&span.attributes, "amita.store.id");
            assert_eq!(text(&span.attributes, "amita.store.node"), node_of[id.as_str()]);
            let is_here = node_of[id.as_str()] == "n1";
            let kind = if is_here { SpanKind::Internal } else { SpanKind::Server };
            assert_eq!(span.kind, i32::from(kind), "{span:?}");
            let request = spans.iter().find(|request| request.span_id == span.parent_span_id);
            assert_eq!(request.expect("its request").name, "request");
        }
    }
    assert_eq!(offsets, (0..16).map(|block| block * 4096).collect());
    assert!(traces(&world, Fate::Accepted) >= 16);
    for fate in [Fate::Overwritten, Fate::Full, Fate::Refused, Fate::Late] {
        assert_eq!(traces(&world, fate), 0, "{fate:?}");
    }
    // What the nodes say, and what a command line shows.
    for node in 0..3 {
        let log = std::fs::read_to_string(world.cluster.node_log(node)).expect("a log");
        assert!(log.contains(&format!("traces of I/Os go to {url}/v1/traces")), "{log}");
        assert!(!log.contains("hunter2"), "{log}");
    }
    drop(client);
    world.end(&["cannot be told of traces of I/Os"]);
}

#[test]
fn a_collector_that_cannot_be_is_refused_before_the_node_starts() {
    let world = World::metadata_only(1);
    let folder = tempfile::tempdir().expect("a folder");
    let headers = folder.path().join("headers").display().to_string();
    std::fs::write(&headers, "X-Token: hunter2\n").expect("written");
    std::fs::set_permissions(&headers, std::fs::Permissions::from_mode(0o644)).expect("open to all");
    for (arguments, why) in [
        (&["--otlp-endpoint", "https://me:hunter2@otel"][..], "password"),
        (&["--otlp-endpoint", "otel:4318"], "https://"),
        (&["--otlp-endpoint", "http://192.0.2.1:4318"], "--insecure-network"),
        (
            &["--otlp-endpoint", "http://127.0.0.1:1", "--otlp-headers", &headers],
            "chmod 600",
        ),
        (
            &["--otlp-endpoint", "https://127.0.0.1:1", "--otlp-ca", &headers],
            "no certificate",
        ),
        (&["--otlp-headers", &headers], "--otlp-endpoint"),
    ] {
        let said = world.amita(&[&["serve", "--name", "n9"][..], arguments].concat());
        assert!(
            said.text.contains(why) && !said.text.contains("hunter2"),
            "{arguments:?}: {}",
            said.text
        );
        assert!(said.success().is_err(), "{arguments:?}");
    }
    world.end(&[]);
}
