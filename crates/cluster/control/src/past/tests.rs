use super::{Doubt, List, News, Past, PastFile};
use amita_metadata::model::State;
use amita_metadata::{Call, Event, KeyValue, Op};
use amita_types::map::{self, Cluster, Life};
use amita_types::{ClusterId, VolumeId};
use std::sync::Mutex;

const OURS: ClusterId = ClusterId(7);
const RIGHT: &str = "/amita/exports/3";
const OTHER: &str = "/amita/groups/1/0000000000";

/// A service of the metadata with a history.
#[derive(Clone)]
struct Meta(State);

impl Meta {
    fn new() -> Meta {
        let mut meta = Meta(State::new());
        meta.cluster(OURS);
        meta
    }

    fn cluster(&mut self, id: ClusterId) {
        let version = map::METADATA_VERSION;
        self.put(
            &map::cluster_key(),
            serde_json::to_vec(&Cluster { id, version }).unwrap(),
        );
    }

    fn put(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.0.txn(&Call::put(key, value)).unwrap();
    }

    fn delete(&mut self, key: &str) {
        let then = vec![Op::Delete { key: key.to_owned() }];
        self.0
            .txn(&Call {
                then,
                ..Call::default()
            })
            .unwrap();
    }

    fn rebuilt(&mut self, number: u64) {
        let lost = Vec::new();
        self.put(&map::life_key(), serde_json::to_vec(&Life { number, lost }).unwrap());
    }

    fn list(&mut self) -> List {
        let call = Call::prefix(map::PREFIX);
        List::of(&call, &self.0.txn(&call).unwrap())
    }

    /// The record of that key, as a watch tells it.
    fn event(&mut self, key: &str) -> Event {
        let list = self.list();
        Event::Put(list.find(key).expect("it is there").clone())
    }
}

fn knowing(meta: &mut Meta) -> Past {
    let mut past = Past::new(Some(OURS));
    past.adopt(meta.list(), false);
    past
}

/// The same, by what is kept over a restart.
fn restarted(past: &Past) -> Past {
    let folder = tempfile::tempdir().unwrap();
    let file = PastFile::in_folder(folder.path(), "n1");
    assert!(file.load().unwrap().is_none());
    file.save(past).unwrap();
    file.load().unwrap().expect("it was kept")
}

fn keys(records: &[KeyValue]) -> Vec<&str> {
    records.iter().map(|record| record.key.as_str()).collect()
}

fn is_older(past: &Past, meta: &mut Meta) -> bool {
    let judged = past.judge(&meta.list());
    let looked = past.look(&Mutex::new(meta.0.clone())).unwrap();
    // What a start looks at is less than all: it never refuses more.
    assert!(judged.is_err() || looked.is_ok(), "{looked:?}");
    match judged {
        Ok(()) => false,
        Err(Doubt::Older { .. }) => true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_goes_on_is_believed_and_only_what_is_new_is_told() {
    let mut meta = Meta::new();
    let mut past = Past::new(None);
    assert_eq!(past.judge(&meta.list()), Ok(()), "nothing is known yet");
    let news = past.adopt(meta.list(), false);
    assert_eq!((keys(&news.there), news.gone), (vec!["/amita/cluster"], vec![]));

    meta.put(RIGHT, "a");
    meta.put(OTHER, "a");
    assert!(past.note(&meta.event(RIGHT)), "it gives a right");
    assert!(!past.note(&meta.event(OTHER)));
    assert_eq!(past.judge(&meta.list()), Ok(()));
    assert_eq!(past.adopt(meta.list(), false), News::default(), "the watch has told it");

    // While nobody watched: one is gone, one changed, one was made anew, one is new.
    meta.put("/amita/nodes/b", "b");
    meta.put("/amita/pools/p", "p");
    past.adopt(meta.list(), false);
    meta.delete(RIGHT);
    meta.put(OTHER, "b");
    meta.delete("/amita/nodes/b");
    meta.put("/amita/nodes/b", "b");
    meta.put("/amita/volumes/v", "v");
    assert_eq!(past.judge(&meta.list()), Ok(()));
    let news = past.adopt(meta.list(), false);
    assert_eq!(news.gone, [RIGHT, "/amita/nodes/b"]);
    assert_eq!(keys(&news.there), [OTHER, "/amita/nodes/b", "/amita/volumes/v"]);

    // Who was told that it was not believed hears everything again, and what is gone.
    meta.delete("/amita/volumes/v");
    let news = past.adopt(meta.list(), true);
    assert_eq!(news.gone, ["/amita/volumes/v"]);
    assert_eq!(news.there.len(), meta.list().records.len());
}

#[test]
fn an_older_copy_is_refused_however_much_is_written_to_it() {
    let mut meta = Meta::new();
    meta.put(RIGHT, "a");
    meta.put(OTHER, "a");
    let mut copy = meta.clone();
    meta.delete(RIGHT);
    meta.put(OTHER, "b");
    let past = knowing(&mut meta);
    for past in [past.clone(), restarted(&past)] {
        assert!(!is_older(&past, &mut meta));
        assert!(is_older(&past, &mut copy), "its revision is lower");
    }
    // Nodes write to it, and so do operators: its revision comes to what was seen, and above.
    for step in 0..10 {
        copy.put("/amita/live/1", step.to_string());
        for past in [past.clone(), restarted(&past)] {
            assert!(is_older(&past, &mut copy));
            let looked = past.look(&Mutex::new(copy.0.clone())).unwrap();
            assert!(matches!(looked, Err(Doubt::Older { .. })), "{looked:?}");
        }
    }
    let said = past.judge(&copy.list()).unwrap_err().to_string();
    assert!(said.contains(RIGHT) && said.contains("recover --from-stores"), "{said}");
}

#[test]
fn a_right_that_was_narrowed_does_not_come_back_either() {
    let mut meta = Meta::new();
    let key = map::subsystem_key("s");
    meta.put(&key, "any host");
    let mut copy = meta.clone();
    let mut past = knowing(&mut meta);
    meta.put(&key, "one host");
    // The watch tells it, and the node is started anew.
    assert!(past.note(&meta.event(&key)));
    for step in 0..10 {
        copy.put("/amita/live/1", step.to_string());
        assert!(is_older(&restarted(&past), &mut copy));
    }
    assert!(!is_older(&restarted(&past), &mut meta));
}

#[test]
fn what_an_operator_gives_and_takes_while_a_node_is_off_is_believed() {
    let mut meta = Meta::new();
    meta.put(RIGHT, "a");
    let past = restarted(&knowing(&mut meta));
    assert_eq!(past.judge(&meta.list()), Ok(()));
    meta.put("/amita/exports/4", "a");
    assert_eq!(past.judge(&meta.list()), Ok(()));
    meta.delete(RIGHT);
    assert_eq!(past.judge(&meta.list()), Ok(()));
    meta.put(RIGHT, "b");
    assert_eq!(past.judge(&meta.list()), Ok(()));
    let mut past = past;
    let news = past.adopt(meta.list(), false);
    assert_eq!(news.gone, [""; 0], "nobody was told of anything before");
    assert_eq!(news.there.len(), meta.list().records.len(), "everything is told");
}

#[test]
fn another_clusters_metadata_and_none_are_refused() {
    let mut meta = Meta::new();
    let past = knowing(&mut meta);
    let mut foreign = Meta::new();
    foreign.cluster(ClusterId(8));
    let mut empty = Meta(State::new());
    for step in 0..10 {
        foreign.put("/amita/live/1", step.to_string());
        empty.put("/amita/live/1", step.to_string());
    }
    for past in [past.clone(), restarted(&past), Past::new(Some(OURS))] {
        for (meta, found) in [(&mut foreign, Some(ClusterId(8))), (&mut empty, None)] {
            let expected = OURS;
            assert_eq!(past.judge(&meta.list()), Err(Doubt::Foreign { found, expected }));
        }
    }
    let looked = past.look(&Mutex::new(empty.0)).unwrap();
    assert!(matches!(looked, Err(Doubt::Foreign { found: None, .. })), "{looked:?}");
}

#[test]
fn rebuilt_metadata_is_another_history() {
    let mut meta = Meta::new();
    meta.put(RIGHT, "a");
    meta.put(OTHER, "a");
    let past = knowing(&mut meta);
    let mut rebuilt = Meta::new();
    rebuilt.rebuilt(1);
    rebuilt.put(RIGHT, "a");

    // While it is at it nobody takes anything over.
    let mut unfinished = rebuilt.clone();
    unfinished.put("/amita/suspect/recovery", "{}");
    for past in [past.clone(), restarted(&past)] {
        assert_eq!(past.judge(&unfinished.list()), Err(Doubt::BeingRebuilt));
    }
    // Who runs begins anew, and then believes it.
    assert_eq!(past.judge(&rebuilt.list()), Err(Doubt::Rebuilt { life: 1 }));
    let mut past = restarted(&past);
    assert_eq!(past.judge(&rebuilt.list()), Ok(()));
    let news = past.adopt(rebuilt.list(), false);
    assert_eq!((news.gone.len(), news.there.len()), (0, 3));
    // And what was before is older, whatever its revision.
    for step in 0..10 {
        meta.put("/amita/live/1", step.to_string());
        assert!(is_older(&past, &mut meta));
        assert!(is_older(&restarted(&past), &mut meta));
    }
}

#[test]
fn what_is_kept_is_whole_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = PastFile::in_folder(folder.path(), "n1");
    let mut meta = Meta::new();
    meta.put(RIGHT, "a");
    let past = knowing(&mut meta);
    // A crash has left a part of one.
    std::fs::write(folder.path().join("new-metadata-seen.n1"), "{\"form").unwrap();
    file.save(&past).unwrap();
    assert_eq!(file.load().unwrap().unwrap().revision(), past.revision());
    let whole = std::fs::read(file.path()).unwrap();
    for length in 0..whole.len() {
        std::fs::write(file.path(), &whole[..length]).unwrap();
        assert!(file.load().is_err(), "{length} bytes of {}", whole.len());
    }
    std::fs::write(
        file.path(),
        String::from_utf8(whole).unwrap().replace("seen 3", "seen 4"),
    )
    .unwrap();
    let why = file.load().unwrap_err().to_string();
    assert!(why.contains("seen 3"), "{why}");
}

/// Else a host that was preempted could come back with the copy.
#[test]
fn a_reservation_that_was_lost_does_not_come_back_either() {
    let mut meta = Meta::new();
    let key = map::reservation_key(VolumeId(3));
    meta.put(&key, "held by one host");
    let mut copy = meta.clone();
    let mut past = knowing(&mut meta);
    meta.put(&key, "held by another host");
    assert!(past.note(&meta.event(&key)));
    for step in 0..10 {
        copy.put("/amita/live/1", step.to_string());
        assert!(is_older(&restarted(&past), &mut copy));
    }
    assert!(!is_older(&restarted(&past), &mut meta));
}

#[test]
fn what_an_earlier_release_has_kept_refuses_no_reservation() {
    let folder = tempfile::tempdir().unwrap();
    let file = PastFile::in_folder(folder.path(), "n1");
    let mut meta = Meta::new();
    meta.put(RIGHT, "a");
    let mut copy = meta.clone();
    let mut past = knowing(&mut meta);
    meta.put(RIGHT, "b");
    past.note(&meta.event(RIGHT));
    file.save(&past).unwrap();
    let kept = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), kept.replace("seen 3", "seen 1")).unwrap();
    // One was made before that, and was not kept.
    let mut older = file.load().unwrap().unwrap();
    let mut now = meta.clone();
    now.put(&map::reservation_key(VolumeId(3)), "held");
    older.pass(now.list().revision);
    assert!(!is_older(&older, &mut now));
    for step in 0..10 {
        copy.put("/amita/live/1", step.to_string());
    }
    assert!(is_older(&older, &mut copy), "what operators have granted is looked at");
}

#[test]
fn an_initiator_that_was_denied_is_not_let_in_by_a_copy() {
    let (target, initiator) = (
        map::iscsi_target_key("db"),
        map::iscsi_initiator_key("iqn.1993-08.org.debian:01:a"),
    );
    for key in [&target, &initiator] {
        let mut meta = Meta::new();
        meta.put(key, "allowed");
        let mut copy = meta.clone();
        let mut past = knowing(&mut meta);
        meta.put(key, "denied");
        assert!(past.note(&meta.event(key)), "it is a right");
        for step in 0..10 {
            copy.put("/amita/live/1", step.to_string());
            assert!(is_older(&restarted(&past), &mut copy));
        }
        assert!(!is_older(&restarted(&past), &mut meta));
    }
    let mut meta = Meta::new();
    let mut past = knowing(&mut meta);
    let gateway = map::iscsi_gateway_key("n1");
    meta.put(&gateway, "listens");
    assert!(!past.note(&meta.event(&gateway)), "where a node listens is none");
}

#[test]
fn what_an_earlier_release_has_kept_refuses_no_target() {
    let folder = tempfile::tempdir().unwrap();
    let file = PastFile::in_folder(folder.path(), "n1");
    let mut meta = Meta::new();
    let held = map::reservation_key(VolumeId(3));
    meta.put(&held, "by one");
    let mut copy = meta.clone();
    let mut past = knowing(&mut meta);
    meta.put(&held, "by another");
    past.note(&meta.event(&held));
    file.save(&past).unwrap();
    let kept = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), kept.replace("seen 3", "seen 2")).unwrap();
    // A target was made before that, and was not kept.
    let mut older = file.load().unwrap().unwrap();
    let mut now = meta.clone();
    now.put(&map::iscsi_target_key("db"), "made");
    older.pass(now.list().revision);
    assert!(!is_older(&older, &mut now));
    for step in 0..10 {
        copy.put("/amita/live/1", step.to_string());
    }
    assert!(is_older(&older, &mut copy), "reservations are looked at");
}

#[test]
fn nodes_in_one_folder_do_not_write_each_others_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut meta = Meta::new();
    meta.put(RIGHT, "a");
    let past = knowing(&mut meta);
    let names = ["db1", "db1.new", "new-db1", "new-metadata-seen.db1"];
    let files = names.map(|name| PastFile::in_folder(folder.path(), name));
    for file in files.iter().chain(files.iter().rev()) {
        file.save(&past).unwrap();
        std::fs::write(folder.path().join("new-metadata-seen.db1"), "a part").unwrap();
    }
    for file in &files {
        assert_eq!(file.load().unwrap().unwrap().revision(), past.revision());
    }
}
