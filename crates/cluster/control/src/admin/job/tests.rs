//! Jobs are paused, resumed and taken back.

use super::super::*;
use super::*;
use crate::events;
use amita_metadata::model::State;
use amita_types::Generation;
use amita_types::map::{Flatten, Scrub, ScrubProgress, ScrubReport};
use amita_types::placement::Level;
use std::sync::Mutex;

const BY: &str = "operator ann";
const VOLUME: amita_types::VolumeId = amita_types::VolumeId(1);
const STORE: StoreId = StoreId(1 << 64 | 7);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn put<T: Serialize>(meta: &dyn Transact, key: String, record: &T) {
    meta.txn(&Call::put(key, serde_json::to_vec(record).unwrap())).unwrap();
}

fn read<T: DeserializeOwned>(meta: &dyn Transact, key: &str) -> T {
    get(meta, key).unwrap().unwrap().0
}

/// A pool, a volume that is flattened and scrubbed, and a store that is drained.
fn busy() -> Mutex<State> {
    let meta = Mutex::new(State::new());
    init_cluster(&meta, ClusterId(9)).unwrap();
    for number in 1..=2_u32 {
        let node = register_node(&meta, &format!("n{number}"), "127.0.0.1:1", None, 2).unwrap();
        let live = map::Live {
            stores: None,
            session: 1,
            pid: 1,
            version: map::METADATA_VERSION,
        };
        put(&meta, map::live_key(node.id), &live);
        let id = StoreId(u128::from(number) << 64 | 7);
        register_store(&meta, &store_record(id, node.id, "/dev/x", 64 << 30)).unwrap();
    }
    let pool = PoolSpec {
        name: "main".to_owned(),
        copies: 1,
        min_copies: 1,
        groups: 8,
        chunk_bytes: DEFAULT_CHUNK_BYTES,
        level: Level::Node,
        class: None,
    };
    create_pool(&meta, &pool).unwrap();
    let volume = create_volume(&meta, "db", "main", 1 << 29).unwrap();
    assert_eq!(volume.id, VOLUME);
    let opened = map::Volume {
        generation: Generation(1),
        ..volume
    };
    put(&meta, map::volume_key("db"), &opened);
    let flatten = Flatten {
        volume: VOLUME,
        asked_at: 10,
        chunks: 128,
        done: 32,
        ails: None,
        paused: None,
    };
    put(&meta, map::flatten_key(VOLUME), &flatten);
    scrub_volume(&meta, "db", at(20)).unwrap();
    let scrub = Scrub {
        progress: Some(ScrubProgress {
            done: 2,
            groups: 8,
            report: ScrubReport {
                copies: 5,
                ..ScrubReport::default()
            },
            unread: Vec::new(),
        }),
        ..scrub_state(&meta, "db").unwrap()
    };
    put(&meta, map::scrub_key(VOLUME), &scrub);
    drain_store(&meta, STORE, false).unwrap();
    meta
}

fn kinds(meta: &dyn Transact) -> Vec<String> {
    let all = events::query(meta, &events::Query::default()).unwrap();
    all.into_iter().map(|event| event.kind).collect()
}

#[test]
fn what_can_wait_stands_still_and_goes_on_where_it_was() {
    let meta = busy();
    let ids: Vec<String> = jobs(&meta, at(40)).unwrap().into_iter().map(|job| job.id).collect();
    assert_eq!(
        ids,
        [format!("drain-{STORE}"), "flatten-1".to_owned(), "scrub-1".to_owned()]
    );
    for id in &ids {
        let before = job(&meta, id, at(40)).unwrap();
        assert_eq!(before.actions, [JobAction::Cancel, JobAction::Pause], "{id}");
        let paused = pause_job(&meta, id, BY, at(50)).unwrap();
        assert_eq!(paused.state, JobState::Paused, "{id}");
        assert_eq!(paused.actions, [JobAction::Cancel, JobAction::Resume], "{id}");
        let who = paused.paused.clone().unwrap();
        assert_eq!((who.by.as_str(), who.at, paused.left_s), (BY, 50, None), "{id}");
        // Again: who was first is kept.
        assert_eq!(pause_job(&meta, id, "operator bob", at(60)).unwrap(), paused, "{id}");
        let resumed = resume_job(&meta, id, BY, at(40)).unwrap();
        assert_eq!(resumed, before, "{id}");
        assert_eq!(resume_job(&meta, id, BY, at(40)).unwrap(), before, "{id}");
    }
    let mut told = kinds(&meta);
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "job-paused",
            "job-paused",
            "job-paused",
            "job-resumed",
            "job-resumed",
            "job-resumed"
        ]
    );
}

#[test]
fn progress_and_time_are_told_of_what_runs() {
    let meta = busy();
    let scrub = job(&meta, "scrub-1", at(40)).unwrap();
    assert_eq!(
        (scrub.done, scrub.total, scrub.unit),
        (Some(2), Some(8), Some(JobUnit::Groups))
    );
    assert_eq!(scrub.left_s, Some(60), "20 s for 2 of 8");
    let flatten = job(&meta, "flatten-1", at(40)).unwrap();
    assert_eq!((flatten.done, flatten.left_s), (Some(32), Some(90)));
}

#[test]
fn asking_for_it_again_has_it_go_on_and_a_store_keeps_it_when_it_registers() {
    let meta = busy();
    for id in [format!("drain-{STORE}"), "scrub-1".to_owned()] {
        pause_job(&meta, &id, BY, at(50)).unwrap();
    }
    let record: Store = read(&meta, &map::store_key(STORE));
    assert!(record.drain_stands_still());
    let told = status(&meta).unwrap().warnings;
    let stands_still = format!("The drain of store {STORE} stands still: {BY} has paused it ");
    assert!(told.iter().any(|line| line.starts_with(&stands_still)), "{told:?}");
    register_store(&meta, &store_record(STORE, record.node, "/dev/x", 64 << 30)).unwrap();
    assert_eq!(read::<Store>(&meta, &map::store_key(STORE)), record);
    let number = scrub_state(&meta, "db").unwrap().requested;
    assert_eq!(scrub_volume(&meta, "db", at(60)).unwrap(), number, "it is the same one");
    assert!(scrub_state(&meta, "db").unwrap().is_due());
    drain_store(&meta, STORE, false).unwrap();
    assert!(!read::<Store>(&meta, &map::store_key(STORE)).drain_stands_still());
    pause_job(&meta, &format!("drain-{STORE}"), BY, at(70)).unwrap();
    drain_store(&meta, STORE, true).unwrap();
    assert_eq!(read::<Store>(&meta, &map::store_key(STORE)).paused, None);
}

#[test]
fn a_scrub_that_is_taken_back_says_what_it_had_found() {
    let meta = busy();
    pause_job(&meta, "scrub-1", BY, at(50)).unwrap();
    let found = job(&meta, "scrub-1", at(50)).unwrap();
    assert_eq!(found.cancelled_by().unwrap(), Action::VolumeScrub);
    cancel_job(&meta, &found).unwrap();
    let scrub = scrub_state(&meta, "db").unwrap();
    assert!(!scrub.is_under_way() && scrub.cancelled);
    assert_eq!((scrub.report.copies, scrub.paused, scrub.progress), (5, None, None));
    assert!(!cancel_scrub(&meta, "db").unwrap(), "there is none");
    let refused = pause_job(&meta, "scrub-1", BY, at(60)).unwrap_err();
    assert!(matches!(refused, AdminError::NoSuch { what: "job", .. }), "{refused}");
    assert_eq!(scrub_volume(&meta, "db", at(70)).unwrap(), scrub.requested + 1);
}

#[test]
fn records_of_before_are_read_and_what_is_not_paused_says_nothing_of_it() {
    let old = r#"{"volume":1,"asked_at":3,"chunks":4,"done":1}"#;
    let flatten: Flatten = serde_json::from_str(old).unwrap();
    assert!(flatten.is_due());
    assert_eq!(serde_json::to_string(&flatten).unwrap(), old);
    let old = r#"{"requested":2,"finished":1,"requested_at":3}"#;
    let scrub: Scrub = serde_json::from_str(old).unwrap();
    assert!(scrub.is_due());
    let said = serde_json::to_string(&scrub).unwrap();
    assert!(
        !said.contains("paused") && !said.contains("progress") && !said.contains("cancelled"),
        "{said}"
    );
}
