use super::*;
use amita_metadata::model::State;
use std::collections::BTreeSet;
use std::sync::Mutex;

fn write(meta: &Mutex<State>, writer: &mut Writer) {
    while let Some(call) = writer.next() {
        meta.txn(&call).unwrap();
        writer.written(&call);
    }
}

#[test]
fn names_are_unique_and_lead_back() {
    let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
    for kind in Kind::ALL {
        assert_eq!(Kind::named(kind.name()), Some(*kind));
        assert!(!kind.meaning().is_empty());
    }
}

#[test]
fn events_are_told_in_order_and_found_by_what_they_are() {
    let meta = Mutex::new(State::new());
    let mut writer = Writer::new(NodeId(3), 77);
    writer.add(Draft::new(Kind::NodeGone, [NodeId(2)], "first"));
    writer.add(Draft::new(Kind::SyncStarted, ["5107e000-1", "5107e000-2"], "second"));
    writer.add(Draft::new(Kind::NodeBack, [NodeId(2)], "third"));
    write(&meta, &mut writer);
    let texts = |query: &Query| -> Vec<String> {
        let found = super::query(&meta, query).unwrap();
        found.into_iter().map(|event| event.text).collect()
    };
    assert_eq!(texts(&Query::default()), ["first", "second", "third"]);
    let kinds = Query {
        kinds: vec!["node-back".to_owned(), "node-gone".to_owned()],
        ..Query::default()
    };
    assert_eq!(texts(&kinds), ["first", "third"]);
    let object = Query {
        object: Some("5107e000-2".to_owned()),
        ..Query::default()
    };
    assert_eq!(texts(&object), ["second"]);
    let later = Query {
        since_ms: u64::MAX,
        ..Query::default()
    };
    assert!(texts(&later).is_empty());
    let all = super::query(&meta, &Query::default()).unwrap();
    assert_eq!(
        (all[0].node, all[0].severity, all[0].kind.as_str()),
        (NodeId(3), Severity::Warning, "node-gone")
    );
}

/// Two processes of one node, in one millisecond.
#[test]
fn keys_never_meet() {
    let meta = Mutex::new(State::new());
    for session in [1, 2] {
        let mut writer = Writer::new(NodeId(1), session);
        for _ in 0..500 {
            writer.add(Draft::new(Kind::NodeWarning, [NodeId(1)], "x"));
        }
        write(&meta, &mut writer);
    }
    assert_eq!(query(&meta, &Query::default()).unwrap().len(), 1000);
}

#[test]
fn what_waits_is_bounded_and_the_newest_is_kept() {
    let mut writer = Writer::new(NodeId(1), 1);
    for number in 0..3000 {
        writer.add(Draft::new(Kind::NodeWarning, [NodeId(1)], number.to_string()));
    }
    let meta = Mutex::new(State::new());
    write(&meta, &mut writer);
    let all = query(&meta, &Query::default()).unwrap();
    assert_eq!((all.len(), all.last().unwrap().text.as_str()), (1024, "2999"));
}

#[test]
fn the_log_is_trimmed_by_count_and_by_age() {
    let meta = Mutex::new(State::new());
    meta.txn(&Call::put("/amita/volumes/v", "x")).unwrap();
    let mut writer = Writer::new(NodeId(1), 1);
    for number in 0..200 {
        writer.add(Draft::new(Kind::NodeWarning, [NodeId(1)], number.to_string()));
    }
    write(&meta, &mut writer);
    let ancient = format!("{}{:013}-1-1", prefix(), 1000);
    meta.txn(&Call::put(ancient, "{}")).unwrap();
    assert_eq!(trim(&meta, 1000, MAX_AGE).unwrap(), 1, "one is too old");
    assert_eq!(trim(&meta, 50, MAX_AGE).unwrap(), 150, "the others are too many");
    let left = query(&meta, &Query::default()).unwrap();
    assert_eq!((left.len(), left[0].text.as_str()), (50, "150"));
    assert!(meta.lock().unwrap().get("/amita/volumes/v").is_some());
}
