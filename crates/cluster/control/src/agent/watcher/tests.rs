use super::{BETWEEN_SAVES, BETWEEN_WARNINGS, Known, SAVE_AGAIN, beginnings, wanted};
use crate::agent::{Notice, Sink};
use crate::past::{List, Past, PastFile};
use crate::records::{alerts_prefix, inventory_prefix};
use crate::{audit, events};
use amita_metadata::{Batch, Event, KeyValue, Record};
use amita_types::map;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const RIGHT: &str = "/amita/exports/3";
const OTHER: &str = "/amita/volumes/3";

#[test]
fn all_records_are_read_once_and_the_logs_never() {
    let read = |key: &str| beginnings().filter(|beginning| key.starts_with(beginning)).count();
    let keys = [
        map::cluster_key(),
        map::exports_prefix(),
        map::subsystems_prefix(),
        map::node_key("a"),
        map::volume_key("a"),
        map::life_key(),
        map::mounts_prefix(),
    ];
    for key in keys {
        assert_eq!(read(&key), 1, "{key}");
    }
    assert_eq!(read(&events::prefix()), 0);
    assert_eq!(read(&audit::prefix()), 0);
}

/// Whatever changes while it is watched, what is read after a break goes on from what was heard.
#[test]
fn what_is_read_goes_on_from_what_was_heard() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, _) = sink();
    // Of every kind of record that the metadata may hold: those known, and any that may come.
    let named = [
        events::prefix(),
        audit::prefix(),
        alerts_prefix(),
        inventory_prefix(),
        map::exports_prefix(),
        map::node_key("a"),
        map::volume_key("a"),
    ];
    let letters =
        ('a'..='z').flat_map(|first| ('a'..='z').map(move |second| format!("{}{first}{second}", map::PREFIX)));
    for key in named.into_iter().chain(letters) {
        let key = format!("{key}x");
        let put = |revision| {
            KeyValue::from(Record {
                key: key.clone(),
                value: Vec::new(),
                create_revision: revision,
                mod_revision: revision,
                version: 1,
                lease: None,
            })
        };
        let read = |revision, record: Option<KeyValue>| {
            wanted(List {
                revision,
                records: record.into_iter().collect(),
            })
        };
        let mut known = known(folder.path());
        known.past.adopt(read(2, Some(put(2))), false);
        let heard = Batch {
            revision: 3,
            events: vec![Event::Put(put(3))],
        };
        known.hear(heard, &sink);
        assert_eq!(known.past.judge(&read(4, Some(put(3)))), Ok(()), "{key} was changed");
        known.hear(deleted(&key, 5), &sink);
        assert_eq!(known.past.judge(&read(6, None)), Ok(()), "{key} was deleted");
    }
}

/// What is kept in that folder, of metadata at revision 1.
fn known(folder: &Path) -> Known {
    let mut past = Past::new(None);
    let list = List {
        revision: 1,
        records: Vec::new(),
    };
    past.adopt(list, false);
    Known {
        past,
        file: Some(PastFile::in_folder(folder, "a")),
        saved: None,
        due: None,
        said: None,
        held: Vec::new(),
        refused: None,
        is_told: true,
    }
}

fn sink() -> (Sink, Receiver<Notice>) {
    let (to, from) = channel();
    let sink: Sink = Arc::new(move |notice| drop(to.send(notice)));
    (sink, from)
}

fn deleted(key: &str, mod_revision: u64) -> Batch {
    let key = key.to_owned();
    Batch {
        revision: mod_revision,
        events: vec![Event::Delete { key, mod_revision }],
    }
}

fn keys(told: &[Event]) -> Vec<&str> {
    told.iter().map(Event::key).collect()
}

#[test]
fn a_right_is_told_when_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = known(folder.path());
    let (sink, _) = sink();
    let kept = |known: &Known| {
        known
            .file
            .as_ref()
            .unwrap()
            .load()
            .unwrap()
            .map_or(0, |past| past.revision())
    };
    assert_eq!(keys(&known.hear(deleted(OTHER, 2), &sink)), [OTHER]);
    assert_eq!(kept(&known), 0, "that is in no hurry");
    assert_eq!(keys(&known.hear(deleted(RIGHT, 3), &sink)), [RIGHT]);
    assert_eq!(kept(&known), 3);
    // One that comes at once waits a little, and what comes after it does not overtake it.
    known.saved = Some(Instant::now() + Duration::from_secs(60));
    assert_eq!(known.hear(deleted(RIGHT, 4), &sink), []);
    assert_eq!(known.hear(deleted(OTHER, 5), &sink), []);
    assert!(known.pause(Duration::MAX) <= BETWEEN_SAVES);
    assert_eq!(kept(&known), 3);
    assert_eq!(keys(&known.keep(&sink)), [RIGHT, OTHER]);
    assert_eq!(kept(&known), 5);
    assert_eq!(keys(&known.hear(deleted(OTHER, 6), &sink)), [OTHER]);
}

#[test]
fn what_cannot_be_kept_is_tried_again_and_said_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = known(&folder.path().join("gone"));
    let (sink, said) = sink();
    for _ in 0..3 {
        known.save(&sink);
        assert!(known.pause(Duration::MAX) <= SAVE_AGAIN);
    }
    assert_eq!(said.try_iter().count(), 1);
    known.said = Instant::now().checked_sub(BETWEEN_WARNINGS);
    known.save(&sink);
    assert_eq!(said.try_iter().count(), 1);
    // Whoever hears nothing is no better off.
    assert_eq!(keys(&known.hear(deleted(RIGHT, 3), &sink)).len() + known.held.len(), 1);
    assert_eq!(keys(&known.keep(&sink)), [RIGHT]);
    std::fs::create_dir(folder.path().join("gone")).unwrap();
    known.save(&sink);
    assert!(known.due.is_none());
}
