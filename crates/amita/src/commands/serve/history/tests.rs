use super::*;
use amita_node::observe::{CorePage, Latency, LegPage, OpPage, StagePage, StorePage, TracePage, VolumePage};

#[test]
fn figures_are_taken_at_whole_multiples() {
    assert_eq!(until_next(Duration::from_millis(20_000)), Duration::from_secs(10));
    assert_eq!(until_next(Duration::from_millis(29_999)), Duration::from_millis(1));
}

#[test]
fn the_folder_is_the_identity_s_unless_another_is_given() {
    let of = |history: Option<&str>| Arguments {
        history: history.map(|text| parse_folder(text).unwrap()),
        history_size: 64 << 20,
    };
    let identity = Some(Path::new("/identity"));
    assert_eq!(of(None).folder(identity), identity);
    assert_eq!(of(None).folder(None), None);
    assert_eq!(of(Some("off")).folder(identity), None);
    assert_eq!(of(Some("/here")).folder(None), Some(Path::new("/here")));
    let small = Arguments {
        history: None,
        history_size: 1 << 20,
    };
    assert!(small.layout().is_err() && of(None).layout().is_ok());
}

#[test]
fn a_trace_of_the_node_is_one_of_the_api() {
    let stage = || {
        vec![StagePage {
            stage: "store".to_owned(),
            ns: 7,
        }]
    };
    let trace = TracePage {
        id: 1,
        ago_ns: 2,
        volume: "db".to_owned(),
        op: "write".to_owned(),
        offset: 3,
        length: 4,
        error: Some("no".to_owned()),
        total_ns: 5,
        stages: stage(),
        last_store: Some("one".to_owned()),
        missed_store: Some("other".to_owned()),
        stores: vec![LegPage {
            store: "one".to_owned(),
            sent_ns: 1,
            answered_ns: Some(2),
            way_ns: 3,
            stages: stage(),
        }],
    };
    let value = serde_json::to_value(&trace).unwrap();
    let read: Trace = serde_json::from_value(value.clone()).unwrap();
    let mut again = serde_json::to_value(&read).unwrap();
    assert_eq!(again.as_object_mut().unwrap().remove("node"), Some("".into()));
    assert_eq!(again, value);
}

#[test]
fn the_counters_of_the_node_are_those_of_the_api() {
    let latency = |sum_ns| Latency {
        sum_ns,
        buckets: vec![(3, 4), (u16::MAX, u64::MAX)],
    };
    let page = NodePage {
        node: 1,
        name: "n1".to_owned(),
        cluster: "c".to_owned(),
        now_ns: 2,
        core_count: 3,
        volumes: vec![VolumePage {
            name: "db".to_owned(),
            in_flight: 4,
            syncing: 5,
            stuck_groups: 6,
            ops: vec![OpPage {
                op: "read".to_owned(),
                bytes: 7,
                errors: 8,
                latency: latency(9),
            }],
        }],
        stores: vec![StorePage {
            id: "s".to_owned(),
            path: "/dev/x".to_owned(),
            serves: true,
            capacity_bytes: 10,
            free_bytes: 11,
            written_bytes: 12,
            reads: latency(13),
            writes: latency(14),
        }],
        cores: vec![CorePage {
            core: 15,
            passes: 16,
            enters: 17,
            file_calls: 18,
            yields: 19,
            blocks: 20,
            blocked_ns: 21,
            cpu_ns: 22,
            ios: 23,
            requests: 24,
        }],
    };
    let value = serde_json::to_value(&page).unwrap();
    let read: NodeCounters = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), value);
    // And back, as `amita top` by the API reads it.
    let page: NodePage = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&page).unwrap(), value);
}
