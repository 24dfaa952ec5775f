//! Traces to a real collector on loopback, which is willing, unwilling, slow, dead, and alive again.

mod server;

use amita_node::observe::{Exchange, ExportCounters, ExportReport, Fate, KeptTraces, TraceSource};
use amita_node::trace::{Leg, Trace};
use amita_otlp::proto::{
    ExportTracePartialSuccess, ExportTraceServiceResponse, KeyValue, RpcStatus, Span, SpanKind, Value,
};
use amita_otlp::spans::{SCHEMA, SCOPE};
use amita_otlp::{Endpoint, Exporter, Pacing, Settings};
use amita_reactor::Time;
use amita_types::io::{IoError, Op};
use amita_types::trace::StoreTrace;
use amita_types::{ClusterId, NodeId, StoreId, TraceId, VolumeId};
use arrayvec::ArrayVec;
use prost::Message as _;
use server::{Collector, PATIENCE, Reply, Taken, authority};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The wall clock where the process's one was 0, in nanoseconds.
const ZERO: u64 = 1_700_000_000_000_000_000;
/// Nobody may see it.
const TOKEN: &str = "hunter2-is-the-token";

/// A node with one core, which keeps the last eight traces.
#[derive(Clone, Default)]
struct Node {
    kept: Arc<Mutex<Vec<Trace>>>,
    counters: Arc<ExportCounters>,
}

impl Node {
    fn source(&self) -> TraceSource {
        let kept = Arc::clone(&self.kept);
        TraceSource {
            cluster: ClusterId(0x11),
            node: NodeId(3),
            name: "n1".to_owned(),
            collect: Arc::new(move |after: &[u64]| {
                let kept = kept.lock().unwrap();
                let after = after.first().copied().unwrap_or(0);
                let ring = &kept[kept.len().saturating_sub(8)..];
                let now = Time(5_000_000_000);
                let answer = KeptTraces {
                    core: 0,
                    now,
                    last: kept.len() as u64,
                    traces: ring.iter().filter(|trace| trace.number > after).cloned().collect(),
                    volumes: vec![(VolumeId(7), "disk0".to_owned())],
                    nodes: vec![(StoreId(1), "n1".to_owned()), (StoreId(2), "n2".to_owned())],
                };
                vec![(UNIX_EPOCH + Duration::from_nanos(ZERO + now.0), answer)]
            }),
            counters: Arc::clone(&self.counters),
        }
    }

    /// Keeps another one, which begins at that offset of its volume.
    fn keep(&self, offset: u64) {
        self.keep_trace(read_of(offset));
    }

    fn keep_trace(&self, trace: Trace) {
        let mut kept = self.kept.lock().unwrap();
        let number = kept.len() as u64 + 1;
        kept.push(Trace { number, ..trace });
    }

    fn report(&self) -> ExportReport {
        self.counters.report()
    }
}

/// A read that was slow and not traced.
fn read_of(offset: u64) -> Trace {
    Trace {
        id: TraceId::NONE,
        number: 0,
        is_slow: true,
        volume: VolumeId(7),
        op: Op::Read { offset, length: 512 },
        error: None,
        arrived: Time(1_000),
        parsed: Time(1_000),
        queued: Time(1_000),
        sequenced: Time(1_000),
        answered: Time(9_000_000),
        done: Time(9_000_000),
        acknowledged: Time(9_001_000),
        last: Some(StoreId(2)),
        missed: None,
        legs: ArrayVec::new(),
    }
}

/// A traced write to two stores, which failed.
fn write() -> Trace {
    let leg = |store, left, answered| Leg {
        store: StoreId(store),
        sent: Time(4_000),
        left: Time(left),
        answered: Time(answered),
        stages: Some(StoreTrace {
            id: TraceId(77),
            issued_ns: 1_000,
            data_ns: 3_000,
            log_ns: 2_500,
            durable_ns: 3_500,
            answered_ns: 6_000,
        }),
    };
    Trace {
        id: TraceId(77),
        is_slow: false,
        op: Op::Write {
            offset: 8192,
            length: 4096,
        },
        error: Some(IoError::NoSpace),
        parsed: Time(2_000),
        queued: Time(3_000),
        sequenced: Time(4_000),
        answered: Time(25_000),
        done: Time(26_000),
        acknowledged: Time(28_000),
        legs: [leg(1, 4_000, 15_000), leg(2, 5_000, 25_000)].into_iter().collect(),
        ..read_of(0)
    }
}

/// Quick ones, so that tests are.
fn settings(url: &str) -> Settings {
    let mut settings = Settings::new(Endpoint::parse(url).unwrap());
    settings.pacing = Pacing {
        every: Duration::from_millis(5),
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(50),
        ..Pacing::default()
    };
    settings
}

fn headers(folder: &Path, text: &str) -> PathBuf {
    let (path, new) = (folder.join("headers"), folder.join("headers.new"));
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&new, &path).unwrap();
    path
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn spans(taken: &Taken) -> Vec<Span> {
    let resources = taken.message.resource_spans.iter();
    let scopes = resources.flat_map(|resource| &resource.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

/// The roots of what has come: each with the offset of its I/O.
fn offsets(all: &[Taken]) -> Vec<i64> {
    let spans = all.iter().flat_map(spans);
    let roots = spans.filter(|span| span.parent_span_id.is_empty());
    let each = roots.map(|root| match &attributes(&root.attributes)["amita.io.offset"] {
        Value::Int(offset) => *offset,
        other => panic!("{other:?}"),
    });
    each.collect()
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, Value> {
    let each = all
        .iter()
        .map(|one| (one.key.clone(), one.value.clone().unwrap().value.unwrap()));
    let found: BTreeMap<String, Value> = each.collect();
    assert_eq!(found.len(), all.len(), "each key once: {all:?}");
    found
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn named<const N: usize>(all: [(&str, Value); N]) -> BTreeMap<String, Value> {
    all.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

#[test]
fn every_field_is_as_the_definition_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, node) = (Collector::start(), Node::default());
    node.keep_trace(write());
    let mut settings = settings(&collector.url());
    settings.headers = Some(headers(
        folder.path(),
        &format!("Authorization: Bearer {TOKEN}\nX-Tenant: a\n"),
    ));
    settings.check().unwrap();
    let exporter = Exporter::start(settings, node.source()).unwrap();
    let taken = collector.taken(1).remove(0);
    drop(exporter);
    assert_eq!(taken.line, "POST /v1/traces HTTP/1.1");
    let length = taken.headers["content-length"].clone();
    let wanted = [
        ("authorization", format!("Bearer {TOKEN}")),
        ("content-encoding", "gzip".to_owned()),
        ("content-length", length),
        ("content-type", "application/x-protobuf".to_owned()),
        ("host", collector.address().to_string()),
        ("user-agent", format!("amita/{}", env!("CARGO_PKG_VERSION"))),
        ("x-tenant", "a".to_owned()),
    ];
    let wanted = wanted.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(taken.headers, BTreeMap::from(wanted));

    let [resource] = &taken.message.resource_spans[..] else {
        panic!("one node: {taken:?}")
    };
    let uuid = "00000000-0000-0000-0000-000000000011";
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        attributes(&resource.resource.as_ref().unwrap().attributes),
        named([
            ("service.name", text("amita")),
            ("service.version", text(version)),
            ("service.instance.id", text(&format!("{uuid}/n1"))),
            ("amita.cluster.id", text(uuid)),
            ("amita.node.name", text("n1")),
            ("amita.node.id", Value::Int(3)),
        ])
    );
    let [scope] = &resource.scope_spans[..] else {
        panic!("one scope: {taken:?}")
    };
    let made_by = scope.scope.as_ref().unwrap();
    assert_eq!((made_by.name.as_str(), made_by.version.as_str()), (SCOPE, version));
    assert_eq!(
        (resource.schema_url.as_str(), scope.schema_url.as_str()),
        (SCHEMA, SCHEMA)
    );
    check_spans(&scope.spans);
}

/// The whole tree of [`write`], by the names on the way to each span.
fn check_spans(spans: &[Span]) {
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    assert_eq!(by_id.len(), spans.len());
    let store_of = |span: &Span| match attributes(&span.attributes).get("amita.store.node") {
        Some(Value::String(node)) => format!("@{node}"),
        _ => String::new(),
    };
    let path = |span: &Span| {
        let mut path = format!("{}{}", span.name, store_of(span));
        let mut at = span;
        while !at.parent_span_id.is_empty() {
            at = by_id[at.parent_span_id.as_slice()];
            path = format!("{}{}/{path}", at.name, store_of(at));
        }
        path
    };
    let mut found: Vec<(String, i32, u64, u64)> = Vec::new();
    for span in spans {
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert_eq!(span.trace_id, spans[0].trace_id);
        assert_ne!((&span.trace_id, &span.span_id), (&vec![0; 16], &vec![0; 8]));
        let is_remote = span.name == "store" && span.kind == i32::from(SpanKind::Server);
        assert_eq!(span.flags, if is_remote { 0x301 } else { 0x101 }, "{span:?}");
        let (from, to) = (span.start_time_unix_nano - ZERO, span.end_time_unix_nano - ZERO);
        found.push((path(span), span.kind, from, to));
    }
    found.sort();
    let (internal, server, client) = (1, 2, 3);
    // Of n1's 11 us 6 are the store's, and of n2's 20: the way there is half of the rest.
    let mut wanted = vec![
        ("write", server, 1_000, 28_000),
        ("write/parse", internal, 1_000, 2_000),
        ("write/hop", internal, 2_000, 3_000),
        ("write/sequence", internal, 3_000, 4_000),
        ("write/send", internal, 4_000, 5_000),
        ("write/stores", internal, 5_000, 25_000),
        ("write/order", internal, 25_000, 26_000),
        ("write/acknowledge", internal, 26_000, 28_000),
        ("write/stores/request@n1", internal, 4_000, 15_000),
        ("write/stores/request@n1/store@n1", internal, 6_500, 12_500),
        ("write/stores/request@n1/store@n1/issue", internal, 6_500, 7_500),
        ("write/stores/request@n1/store@n1/data", internal, 7_500, 9_500),
        ("write/stores/request@n1/store@n1/log", internal, 7_500, 9_000),
        ("write/stores/request@n1/store@n1/flush", internal, 9_500, 10_000),
        ("write/stores/request@n1/store@n1/answer", internal, 10_000, 12_500),
        ("write/stores/request@n2", client, 5_000, 25_000),
        ("write/stores/request@n2/store@n2", server, 12_000, 18_000),
        ("write/stores/request@n2/store@n2/issue", internal, 12_000, 13_000),
        ("write/stores/request@n2/store@n2/data", internal, 13_000, 15_000),
        ("write/stores/request@n2/store@n2/log", internal, 13_000, 14_500),
        ("write/stores/request@n2/store@n2/flush", internal, 15_000, 15_500),
        ("write/stores/request@n2/store@n2/answer", internal, 15_500, 18_000),
    ];
    wanted.sort();
    let shown: Vec<(&str, i32, u64, u64)> = found.iter().map(|one| (one.0.as_str(), one.1, one.2, one.3)).collect();
    assert_eq!(shown, wanted);
    let of = |wanted: &str| spans.iter().find(|span| path(span) == wanted).unwrap();
    let status = of("write").status.clone().unwrap();
    assert_eq!((status.code, status.message), (2, IoError::NoSpace.to_string()));
    assert_eq!(
        attributes(&of("write").attributes),
        named([
            ("amita.volume.id", text("7")),
            ("amita.volume.name", text("disk0")),
            ("amita.operation", text("write")),
            ("amita.io.offset", Value::Int(8192)),
            ("amita.io.size", Value::Int(4096)),
            ("amita.outcome", text("no_space")),
            ("amita.slow", Value::Bool(false)),
            ("amita.sampled", Value::Bool(true)),
            ("amita.trace.id", Value::Int(77)),
            ("amita.core", Value::Int(0)),
            ("amita.last_store.id", text("00000000-0000-0000-0000-000000000002")),
            ("amita.last_store.node", text("n2")),
            ("disk.io.direction", text("write")),
            ("error.type", text("no_space")),
        ])
    );
    assert_eq!(
        attributes(&of("write/stores/request@n2").attributes),
        named([
            ("amita.store.id", text("00000000-0000-0000-0000-000000000002")),
            ("amita.store.node", text("n2")),
            ("amita.store.answered", Value::Bool(true)),
            ("amita.way_ns", Value::Int(14_000)),
        ])
    );
    assert_eq!(
        attributes(&of("write/stores/request@n2/store@n2").attributes),
        named([
            ("amita.store.id", text("00000000-0000-0000-0000-000000000002")),
            ("amita.store.node", text("n2")),
        ])
    );
    let mut others = spans.iter().filter(|span| path(span) != "write");
    assert!(others.all(|span| span.status.is_none()));
}

#[test]
fn each_trace_is_sent_once_and_those_that_were_pushed_out_are_counted() {
    let (collector, node) = (Collector::start(), Node::default());
    // More than the core keeps, before anybody asks.
    (0..11).for_each(|n| node.keep(n));
    let exporter = Exporter::start(settings(&collector.url()), node.source()).unwrap();
    eventually("the first ones arrive", || node.report().traces(Fate::Accepted) == 8);
    for n in 11..40 {
        node.keep(n);
        eventually("it arrives", || node.report().traces(Fate::Accepted) == n - 2);
    }
    drop(exporter);
    assert_eq!(offsets(&collector.taken(1)), (3..40).collect::<Vec<i64>>());
    let report = node.report();
    assert_eq!(report.traces(Fate::Overwritten), 3);
    assert_eq!((report.waiting, report.rejected_spans), (0, 0));
    let requests = collector.taken(1).len() as u64;
    assert_eq!(report.requests(Exchange::Accepted), requests);
}

#[test]
fn what_is_put_off_is_sent_again_under_the_same_ids() {
    let (collector, node) = (Collector::start(), Node::default());
    let later = |status, head: &str| Reply::Say(status, head.to_owned(), Vec::new());
    collector.will([
        later(429, "Retry-After: 0\r\n"),
        later(502, ""),
        later(503, "Retry-After: Fri, 01 Jan 1999 00:00:00 GMT\r\n"),
        later(504, "Retry-After: soon\r\nConnection: close\r\n"),
        Reply::HangUp,
    ]);
    node.keep_trace(write());
    let exporter = Exporter::start(settings(&collector.url()), node.source()).unwrap();
    eventually("it is taken in the end", || node.report().traces(Fate::Accepted) == 1);
    drop(exporter);
    let taken = collector.taken(6);
    assert!(taken.len() == 6 && taken.iter().all(|one| one.message == taken[0].message));
    let report = node.report();
    assert_eq!(report.requests(Exchange::Deferred), 4);
    assert_eq!(
        report.requests(Exchange::Failed) + report.requests(Exchange::Accepted),
        2
    );
    for fate in [Fate::Refused, Fate::Late, Fate::Full, Fate::Overwritten] {
        assert_eq!(report.traces(fate), 0, "{fate:?}");
    }
}

#[test]
fn a_collector_that_wants_rest_gets_it_and_the_batch_is_given_up_in_time() {
    let (collector, node) = (Collector::start(), Node::default());
    // Far longer than a batch is kept: were it asked again before, there would be a second request.
    collector.will([Reply::Say(503, "Retry-After: 3600\r\n".to_owned(), Vec::new())]);
    let mut settings = settings(&collector.url());
    settings.pacing.patience = Duration::from_millis(50);
    node.keep(1);
    let exporter = Exporter::start(settings, node.source()).unwrap();
    eventually("it is given up", || node.report().traces(Fate::Late) == 1);
    node.keep(2);
    eventually("so is the next one", || node.report().traces(Fate::Late) == 2);
    drop(exporter);
    assert_eq!(offsets(&collector.taken(1)), [1]);
}

#[test]
fn what_is_refused_is_never_sent_again() {
    let (collector, node) = (Collector::start(), Node::default());
    collector.will([
        Reply::message(400, &[]),
        Reply::Say(301, "Location: /v2\r\n".to_owned(), Vec::new()),
    ]);
    let exporter = Exporter::start(settings(&collector.url()), node.source()).unwrap();
    for n in 1..=2 {
        node.keep(n);
        eventually("it is refused", || node.report().traces(Fate::Refused) == n);
    }
    node.keep(3);
    eventually("the next one is taken", || node.report().traces(Fate::Accepted) == 1);
    drop(exporter);
    assert_eq!(offsets(&collector.taken(3)), [1, 2, 3]);
    assert_eq!(node.report().requests(Exchange::Refused), 2);
}

#[test]
fn what_a_collector_takes_in_part_is_counted_and_not_sent_again() {
    let (collector, node) = (Collector::start(), Node::default());
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 4,
            error_message: "too old".to_owned(),
        }),
    };
    collector.will([Reply::message(200, &partial.encode_to_vec())]);
    node.keep(1);
    let exporter = Exporter::start(settings(&collector.url()), node.source()).unwrap();
    eventually("it is taken", || node.report().rejected_spans == 4);
    node.keep(2);
    eventually("so is the next one", || node.report().traces(Fate::Accepted) == 2);
    drop(exporter);
    assert_eq!(offsets(&collector.taken(2)), [1, 2]);
    assert_eq!(node.report().requests(Exchange::Deferred), 0);
}

#[test]
fn a_collector_that_dies_and_returns_gets_what_waited() {
    let node = Node::default();
    let first = Collector::start();
    let address = first.address();
    let exporter = Exporter::start(settings(&first.url()), node.source()).unwrap();
    node.keep(1);
    eventually("it is taken", || node.report().traces(Fate::Accepted) == 1);
    assert_eq!(offsets(&first.taken(1)), [1]);
    drop(first);
    for n in 2..=5 {
        node.keep(n);
    }
    eventually("it is missed", || node.report().requests(Exchange::Failed) > 1);
    let second = Collector::at(address, None);
    eventually("all of them arrive", || node.report().traces(Fate::Accepted) == 5);
    assert_eq!(offsets(&second.taken(1)), [2, 3, 4, 5]);
    drop(exporter);
}

#[test]
fn one_that_says_nothing_costs_a_bounded_queue_and_holds_nobody_up() {
    let (collector, node) = (Collector::start(), Node::default());
    collector.will([Reply::Silence]);
    let mut settings = settings(&collector.url());
    settings.pacing.waiting = 4;
    settings.pacing.timeout = PATIENCE * 10;
    let exporter = Exporter::start(settings, node.source()).unwrap();
    node.keep(1);
    collector.taken(1);
    for n in 2..=20 {
        node.keep(n);
        let seen =
            |report: &ExportReport| report.waiting + report.traces(Fate::Full) + report.traces(Fate::Overwritten);
        eventually("it is seen", || seen(&node.report()) == n - 1);
    }
    let report = node.report();
    assert_eq!(report.waiting, 4, "no more wait");
    assert_eq!(report.traces(Fate::Full) + report.traces(Fate::Overwritten), 15);
    // The request is still under way: the end does not wait for its answer.
    let (ends, ended) = channel();
    let ending = thread::spawn(move || {
        drop(exporter);
        ends.send(()).unwrap();
    });
    ended
        .recv_timeout(PATIENCE)
        .expect("it ends, though nobody has answered");
    ending.join().unwrap();
    assert_eq!(node.report().traces(Fate::Accepted), 0);
}

#[test]
fn one_that_is_slow_is_given_up_on_and_asked_again() {
    let (collector, node) = (Collector::start(), Node::default());
    collector.will([Reply::Silence]);
    let mut settings = settings(&collector.url());
    settings.pacing.timeout = Duration::from_millis(100);
    node.keep(1);
    let exporter = Exporter::start(settings, node.source()).unwrap();
    eventually("it is taken", || node.report().traces(Fate::Accepted) == 1);
    drop(exporter);
    let taken = collector.taken(2);
    assert_eq!(taken[0].message, taken[1].message);
    assert!(node.report().requests(Exchange::Failed) >= 1);
}

#[test]
fn the_end_sends_what_was_kept_last() {
    let (collector, node) = (Collector::start(), Node::default());
    let mut settings = settings(&collector.url());
    // It would be asked for long after the test.
    settings.pacing.every = PATIENCE * 10;
    let exporter = Exporter::start(settings, node.source()).unwrap();
    node.keep(1);
    drop(exporter);
    assert_eq!(offsets(&collector.taken(1)), [1]);
}

#[test]
fn tls_is_by_the_authorities_of_the_file_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (good, config) = authority("localhost");
    let (other, _) = authority("localhost");
    let collector = Collector::at("127.0.0.1:0".parse().unwrap(), Some(config));
    let node = Node::default();
    node.keep(1);
    let mut settings = settings(&format!("https://localhost:{}", collector.address().port()));
    settings.gzip = false;
    settings.authorities = Some(file("ca", &other));
    settings.check().unwrap();
    let exporter = Exporter::start(settings.clone(), node.source()).unwrap();
    eventually("it is not believed", || node.report().requests(Exchange::Failed) > 0);
    drop(exporter);
    assert_eq!(node.report().traces(Fate::Accepted), 0);
    settings.authorities = Some(file("ca", &good));
    let exporter = Exporter::start(settings, node.source()).unwrap();
    eventually("it is taken", || node.report().traces(Fate::Accepted) == 1);
    drop(exporter);
    let taken = collector.taken(1).remove(0);
    assert!(!taken.headers.contains_key("content-encoding"), "{:?}", taken.headers);
    assert_eq!(offsets(&[taken]), [1]);
}

/// Every line that is logged by this process.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LOGGED
            .lock()
            .unwrap()
            .push(format!("{} {}", record.level(), record.args()));
    }

    fn flush(&self) {}
}

#[test]
fn a_token_can_be_exchanged_and_is_never_shown() {
    log::set_logger(&Logger).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let folder = tempfile::tempdir().unwrap();
    let (collector, node) = (Collector::start(), Node::default());
    // Longer than what is shown of a message.
    let long = format!("{TOKEN}-{}", "x".repeat(400));
    let why = RpcStatus {
        code: 16,
        message: format!("nobody is known by Bearer {long}"),
    };
    collector.will([Reply::message(401, &why.encode_to_vec())]);
    let mut settings = settings(&collector.url());
    settings.headers = Some(headers(folder.path(), &format!("Authorization: Bearer {long}\n")));
    assert!(!format!("{settings:?}").contains(TOKEN));
    let exporter = Exporter::start(settings, node.source()).unwrap();
    node.keep(1);
    eventually("it is refused", || node.report().traces(Fate::Refused) == 1);
    headers(folder.path(), &format!("Authorization: Bearer {TOKEN}-2\n"));
    node.keep(2);
    eventually("it is taken", || node.report().traces(Fate::Accepted) == 1);
    // A file that others may read is not read; what it had said before is said on.
    let path = headers(folder.path(), &format!("Authorization: Bearer {TOKEN}-3\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!format!("{exporter:?}").contains(TOKEN));
    drop(exporter);
    let taken = collector.taken(2);
    let told: Vec<&str> = taken.iter().map(|one| one.headers["authorization"].as_str()).collect();
    assert_eq!(told, [format!("Bearer {long}"), format!("Bearer {TOKEN}-2")]);
    let logged = LOGGED.lock().unwrap().join("\n");
    assert!(
        logged.contains("WARN") && logged.contains("it answers 401 Unauthorized (nobody is known by ***)"),
        "{logged}"
    );
    assert!(!logged.contains("hunter2"), "{logged}");
}
