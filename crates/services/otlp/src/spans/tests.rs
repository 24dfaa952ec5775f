//! What an I/O becomes.

use super::*;
use crate::proto::Value;
use amita_types::{TraceId, VolumeId};
use arrayvec::ArrayVec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The wall clock where the process's one was 0.
const ZERO: u64 = 1_700_000_000_000_000_000;

pub(crate) fn source() -> Source {
    Source {
        cluster: ClusterId(0x11),
        node: NodeId(3),
        name: "n1".to_owned(),
        version: "0.1.0",
        start: [7; 16],
    }
}

/// One of which nothing is known but its beginning and its end.
pub(crate) fn trace(op: Op) -> Trace {
    Trace {
        id: TraceId::NONE,
        number: 1,
        is_slow: false,
        volume: VolumeId(7),
        op,
        error: None,
        arrived: Time(1_000),
        parsed: Time(0),
        queued: Time(0),
        sequenced: Time(0),
        answered: Time(0),
        done: Time(0),
        acknowledged: Time(61_000),
        last: None,
        missed: None,
        legs: ArrayVec::new(),
    }
}

pub(crate) fn kept(trace: Trace) -> Kept {
    Kept {
        core: 2,
        trace,
        volume: Some("disk0".to_owned()),
        nodes: vec![(StoreId(1), "n1".to_owned()), (StoreId(2), "n2".to_owned())],
        zero_unix_ns: ZERO,
    }
}

fn write() -> Op {
    Op::Write {
        offset: 8192,
        length: 4096,
    }
}

/// A traced write of two stores: one here, and one of another node, which answers last.
fn whole() -> Trace {
    let leg = |store, sent, left, answered, answered_ns| Leg {
        store: StoreId(store),
        sent: Time(sent),
        left: Time(left),
        answered: Time(answered),
        stages: Some(StoreTrace {
            id: TraceId(5),
            issued_ns: 1_000,
            data_ns: 3_000,
            log_ns: 2_500,
            durable_ns: 3_500,
            answered_ns,
        }),
    };
    let mut one = trace(write());
    (one.id, one.number) = (TraceId(5), 42);
    one.parsed = Time(2_000);
    one.queued = Time(2_000);
    one.sequenced = Time(6_000);
    one.answered = Time(51_000);
    one.done = Time(53_000);
    one.last = Some(StoreId(2));
    one.legs.push(leg(1, 6_000, 6_000, 21_000, 4_000));
    one.legs.push(leg(2, 6_000, 10_000, 51_000, 11_000));
    one
}

fn attributes(span: &Span) -> BTreeMap<String, Value> {
    let each = span.attributes.iter().map(|attribute| {
        let value = attribute.value.clone().and_then(|value| value.value);
        (attribute.key.clone(), value.expect("a value"))
    });
    each.collect()
}

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

/// Name, kind, beginning and end of each span beneath that one, in nanoseconds of the process.
fn beneath(spans: &[Span], parent: &Span) -> Vec<(String, i32, u64, u64)> {
    let children = spans.iter().filter(|span| span.parent_span_id == parent.span_id);
    let each = children.map(|span| {
        let (from, to) = (span.start_time_unix_nano - ZERO, span.end_time_unix_nano - ZERO);
        (span.name.clone(), span.kind, from, to)
    });
    each.collect()
}

#[test]
fn a_write_is_its_stages_its_requests_and_what_the_stores_did() {
    let (internal, server, client) = (1, 2, 3);
    let spans = source().spans(&kept(whole()));
    let root = &spans[0];
    assert_eq!((root.name.as_str(), root.kind, &root.status), ("write", server, &None));
    assert_eq!(root.parent_span_id, Vec::<u8>::new());
    assert_eq!(
        (root.start_time_unix_nano - ZERO, root.end_time_unix_nano - ZERO),
        (1_000, 61_000)
    );
    let named = |name: &str, kind, from, to| (name.to_owned(), kind, from, to);
    assert_eq!(
        beneath(&spans, root),
        [
            named("parse", internal, 1_000, 2_000),
            named("sequence", internal, 2_000, 6_000),
            named("send", internal, 6_000, 10_000),
            named("stores", internal, 10_000, 51_000),
            named("order", internal, 51_000, 53_000),
            named("acknowledge", internal, 53_000, 61_000),
        ],
        "there was no hop"
    );
    let stores = spans.iter().find(|span| span.name == "stores").expect("it");
    assert_eq!(
        beneath(&spans, stores),
        [
            named("request", internal, 6_000, 21_000),
            named("request", client, 10_000, 51_000)
        ],
        "the first store is in this process"
    );
    let requests: Vec<&Span> = spans.iter().filter(|span| span.name == "request").collect();
    // The way of the other one is 41 - 11 us: it begins after half of that.
    assert_eq!(beneath(&spans, requests[1]), [named("store", server, 25_000, 36_000)]);
    assert_eq!(attributes(requests[1])["amita.way_ns"], Value::Int(30_000));
    assert_eq!(attributes(requests[1])["amita.store.node"], text("n2"));
    let works: Vec<&Span> = spans.iter().filter(|span| span.name == "store").collect();
    assert_eq!(
        beneath(&spans, works[1]),
        [
            named("issue", internal, 25_000, 26_000),
            named("data", internal, 26_000, 28_000),
            named("log", internal, 26_000, 27_500),
            named("flush", internal, 28_000, 28_500),
            named("answer", internal, 28_500, 36_000),
        ]
    );
    assert_eq!(works[1].flags, SAMPLED | HAS_IS_REMOTE | IS_REMOTE);
    assert_eq!((works[0].flags, works[0].kind), (SAMPLED | HAS_IS_REMOTE, internal));
    assert_eq!(
        attributes(root),
        BTreeMap::from(
            [
                ("amita.volume.id", text("7")),
                ("amita.volume.name", text("disk0")),
                ("amita.operation", text("write")),
                ("amita.io.offset", Value::Int(8192)),
                ("amita.io.size", Value::Int(4096)),
                ("amita.outcome", text("ok")),
                ("amita.slow", Value::Bool(false)),
                ("amita.sampled", Value::Bool(true)),
                ("amita.trace.id", Value::Int(5)),
                ("amita.core", Value::Int(2)),
                ("amita.last_store.id", text("00000000-0000-0000-0000-000000000002")),
                ("amita.last_store.node", text("n2")),
                ("disk.io.direction", text("write")),
            ]
            .map(|(key, value)| (key.to_owned(), value))
        )
    );
}

#[test]
fn a_slow_one_that_was_not_traced_says_what_is_known_and_who_was_missed() {
    let mut one = trace(Op::Read { offset: 0, length: 512 });
    one.is_slow = true;
    one.parsed = Time(1_000);
    one.sequenced = Time(1_000);
    one.answered = Time(60_000);
    one.done = Time(61_000);
    one.missed = Some(StoreId(9));
    one.error = Some(IoError::NoSpace);
    let spans = source().spans(&kept(one.clone()));
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["read", "stores", "order"]);
    let status = spans[0].status.clone().expect("it failed");
    assert_eq!(status.code, i32::from(StatusCode::Error));
    assert!(status.message.contains("no space left"), "{status:?}");
    let told = attributes(&spans[0]);
    assert_eq!(told["error.type"], text("no_space"));
    assert_eq!(
        (&told["amita.outcome"], &told["amita.slow"]),
        (&text("no_space"), &Value::Bool(true))
    );
    assert_eq!(
        told["amita.missed_store.id"],
        text("00000000-0000-0000-0000-000000000009")
    );
    assert!(!told.contains_key("amita.trace.id") && !told.contains_key("amita.missed_store.node"));
    // A request that was never answered lasts until the end, and says why.
    one.legs.push(Leg {
        store: StoreId(9),
        sent: Time(2_000),
        left: Time(0),
        answered: Time(0),
        stages: None,
    });
    let spans = source().spans(&kept(one));
    let request = spans.iter().find(|span| span.name == "request").expect("it");
    assert_eq!(
        (request.start_time_unix_nano, request.end_time_unix_nano),
        (ZERO + 2_000, ZERO + 61_000)
    );
    assert_eq!(attributes(request)["error.type"], text("evicted"));
    assert_eq!(attributes(request)["amita.store.answered"], Value::Bool(false));
    assert_eq!(
        request.status.as_ref().map(|status| status.code),
        Some(StatusCode::Error.into())
    );
}

#[test]
fn the_node_is_the_resource() {
    let wrapped = source().wrap(Vec::new());
    let resource = wrapped.resource.expect("it");
    let keys: Vec<&str> = resource.attributes.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "service.name",
            "service.version",
            "service.instance.id",
            "amita.cluster.id",
            "amita.node.name",
            "amita.node.id"
        ]
    );
    assert_eq!(resource.attributes[0], KeyValue::text("service.name", "amita"));
    assert_eq!(
        resource.attributes[2],
        KeyValue::text("service.instance.id", "00000000-0000-0000-0000-000000000011/n1")
    );
    let scope = wrapped.scope_spans[0].scope.clone().expect("it");
    assert_eq!((scope.name.as_str(), scope.version.as_str()), ("amita.io", "0.1.0"));
}

#[test]
fn errors_have_names() {
    let names = [IoError::OutOfRange, IoError::Lost, IoError::NoSpace].map(error_type);
    assert_eq!(names, ["out_of_range", "lost", "no_space"]);
}

#[test]
fn ids_are_the_traces_own() {
    let one = source();
    let mut ids = BTreeSet::new();
    for core in 0..4 {
        ids.extend((1..=100).map(|number| one.trace_id(core, number)));
    }
    let mut others = vec![one.clone(); 3];
    others[0].start = [8; 16];
    others[1].node = NodeId(4);
    others[2].cluster = ClusterId(0x12);
    ids.extend(others.iter().map(|other| other.trace_id(0, 1)));
    assert_eq!(ids.len(), 403);
    assert!(ids.iter().all(|id| id.len() == 16));
    assert_eq!(one.trace_id(1, 7), one.trace_id(1, 7));
}

fn moment() -> impl Strategy<Value = Time> {
    prop_oneof![Just(Time(0)), (1u64..100_000).prop_map(Time)]
}

fn any_leg(store: u128) -> impl Strategy<Value = Leg> {
    let told = (any::<u16>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let told = proptest::option::of(told.prop_map(|(issued, data, log, durable, answered)| StoreTrace {
        id: TraceId(1),
        issued_ns: issued.into(),
        data_ns: data,
        log_ns: log,
        durable_ns: durable,
        answered_ns: answered,
    }));
    (moment(), moment(), moment(), told).prop_map(move |(sent, left, answered, stages)| Leg {
        store: StoreId(store),
        sent,
        left,
        answered,
        stages,
    })
}

prop_compose! {
    fn any_trace()(
        at in proptest::array::uniform7(moment()),
        legs in (any_leg(1), any_leg(2), any_leg(3)),
        count in 0usize..4,
        last in proptest::option::of(1u128..4),
        missed in proptest::option::of(1u128..4),
        number in 1u64..1000,
    ) -> Trace {
        let mut one = trace(write());
        [one.arrived, one.parsed, one.queued, one.sequenced, one.answered, one.done, one.acknowledged] = at;
        one.number = number;
        one.legs = [legs.0, legs.1, legs.2].into_iter().take(count).collect();
        (one.last, one.missed) = (last.map(StoreId), missed.map(StoreId));
        one
    }
}

proptest! {
    /// Whatever is known of an I/O, its spans are one tree, with ids of their own, that end after they begin.
    #[test]
    fn spans_are_one_tree(one in any_trace()) {
        let spans = source().spans(&kept(one));
        let ids: BTreeSet<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
        prop_assert_eq!(ids.len(), spans.len());
        let roots = spans.iter().filter(|span| span.parent_span_id.is_empty()).count();
        prop_assert!(roots == 1 && spans[0].parent_span_id.is_empty());
        for span in &spans {
            prop_assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
            prop_assert_eq!(&span.trace_id, &spans[0].trace_id);
            prop_assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
            prop_assert!(span.start_time_unix_nano >= ZERO);
            prop_assert!(span.parent_span_id.is_empty() || ids.contains(span.parent_span_id.as_slice()));
            prop_assert!(!span.name.is_empty());
            let keys: BTreeSet<&str> = span.attributes.iter().map(|one| one.key.as_str()).collect();
            prop_assert_eq!(keys.len(), span.attributes.len());
        }
        // What lies beneath a store's work, or a request, lies within it.
        for inner in spans.iter().filter(|span| ["store", "issue", "data", "log", "flush", "answer"].contains(&span.name.as_str())) {
            let outer = spans.iter().find(|span| span.span_id == inner.parent_span_id).expect("it");
            prop_assert!(inner.start_time_unix_nano >= outer.start_time_unix_nano);
            if inner.name == "store" {
                prop_assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano);
            }
        }
    }
}
