use super::*;
use amita_types::VolumeId;
use amita_types::map::{About, Attempt, Import};
use std::collections::BTreeMap;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn with_volume() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "a", "main", 4096).unwrap();
    meta
}

#[test]
fn labels_are_set_and_taken_away() {
    let meta = with_volume();
    let volume = volume(&meta, "a").unwrap();
    assert_eq!(about(&meta, volume.id).unwrap(), About::of(volume.id));
    label_volume(&meta, "a", &labels(&[("team", "db"), ("tier", "1")]), &[]).unwrap();
    label_volume(&meta, "a", &labels(&[("tier", "2")]), &["team".to_owned()]).unwrap();
    assert_eq!(about(&meta, volume.id).unwrap().labels, labels(&[("tier", "2")]));
    let status = status(&meta).unwrap();
    assert_eq!(status.volumes[0].labels, labels(&[("tier", "2")]));
    let bad = label_volume(&meta, "a", &labels(&[("x", "\u{1b}[2J")]), &[]);
    assert!(matches!(bad, Err(AdminError::BadSetting { .. })), "{bad:?}");
    let gone = label_volume(&meta, "b", &labels(&[("x", "y")]), &[]);
    assert!(matches!(gone, Err(AdminError::NoSuch { .. })), "{gone:?}");
}

#[test]
fn what_is_known_of_a_volume_goes_with_it() {
    let meta = with_volume();
    let known = About {
        created_at: Some(7),
        ..About::of(VolumeId(0))
    };
    let volume = make_volume(&meta, "b", "main", 4096, Some(&known)).unwrap();
    let found = about(&meta, volume.id).unwrap();
    assert_eq!((found.volume, found.created_at), (volume.id, Some(7)));
    delete_volume(&meta, "b", false, 9, &mut || false).unwrap();
    assert_eq!(about(&meta, volume.id).unwrap(), About::of(volume.id));
}

fn image(attempt: u128) -> Import {
    Import {
        format: "raw".to_owned(),
        image_bytes: 4096,
        modified_ns: 1,
        done_bytes: 0,
        ails: None,
        attempt: Some(Attempt::from_u128(attempt)),
    }
}

fn at(done_bytes: u64, import: &Import) -> Import {
    Import {
        done_bytes,
        ..import.clone()
    }
}

fn is_taken(done: Result<About>) {
    assert!(matches!(done, Err(AdminError::ImportTaken { .. })), "{done:?}");
}

#[test]
fn an_import_notes_its_place_in_its_own_volume_only() {
    let meta = with_volume();
    let first = volume(&meta, "a").unwrap();
    label_volume(&meta, "a", &labels(&[("team", "db")]), &[]).unwrap();
    begin_import(&meta, &first, &image(1)).unwrap();
    note_import(&meta, &first, &at(4000, &image(1))).unwrap();
    assert_eq!(about(&meta, first.id).unwrap().import, Some(at(4000, &image(1))));
    let ended = end_import(&meta, &first, &image(1)).unwrap();
    assert_eq!((ended.import, ended.labels), (None, labels(&[("team", "db")])));
    delete_volume(&meta, "a", false, 9, &mut || false).unwrap();
    create_volume(&meta, "a", "main", 4096).unwrap();
    let other = begin_import(&meta, &first, &image(1));
    assert!(matches!(other, Err(AdminError::NoSuch { .. })), "{other:?}");
}

#[test]
fn who_was_at_an_import_before_says_nothing_of_it_any_more() {
    let meta = with_volume();
    let found = volume(&meta, "a").unwrap();
    let mark = || about(&meta, found.id).unwrap().import;
    let first = image(1);
    begin_import(&meta, &found, &first).unwrap();
    note_import(&meta, &found, &at(55, &first)).unwrap();
    // It stands still, and another one goes on with what it saw; what the first one has written and noted until then counts.
    let seen = mark().unwrap();
    note_import(&meta, &found, &at(56, &first)).unwrap();
    let second = take_import(&meta, &found, &seen, Attempt::from_u128(2)).unwrap();
    assert_eq!((second.done_bytes, second.attempt), (56, image(2).attempt));
    // What lies behind was cleared since: it is not as far as the first one knows it to be, and not whole.
    is_taken(note_import(&meta, &found, &at(60, &first)));
    is_taken(end_import(&meta, &found, &first));
    assert_eq!(mark().unwrap(), second);
    // A third one that has decided by the same mark, and opened the volume before the second did.
    let third = take_import(&meta, &found, &seen, Attempt::from_u128(3));
    assert!(matches!(third, Err(AdminError::ImportTaken { .. })), "{third:?}");
    note_import(&meta, &found, &at(70, &second)).unwrap();
    end_import(&meta, &found, &second).unwrap();
    // Hosts may use it by now.
    is_taken(note_import(&meta, &found, &at(60, &first)));
    is_taken(note_import(&meta, &found, &at(80, &second)));
    is_taken(end_import(&meta, &found, &first));
    assert_eq!(mark(), None);
    let late = take_import(&meta, &found, &seen, Attempt::from_u128(4));
    assert!(matches!(late, Err(AdminError::ImportTaken { .. })), "{late:?}");
}

#[test]
fn who_has_stood_still_since_it_opened_the_volume_begins_no_import_in_it() {
    let meta = with_volume();
    let late = volume(&meta, "a").unwrap();
    let now = map::Volume {
        generation: late.generation.next().unwrap(),
        ..late.clone()
    };
    meta.txn(&Call::put(map::volume_key("a"), json(&now))).unwrap();
    is_taken(begin_import(&meta, &late, &image(1)));
    assert_eq!(about(&meta, late.id).unwrap().import, None);
    begin_import(&meta, &now, &image(2)).unwrap();
    // One that begins anew has it, whoever was at it.
    begin_import(&meta, &now, &image(3)).unwrap();
    is_taken(end_import(&meta, &now, &image(2)));
    assert_eq!(about(&meta, now.id).unwrap().import, Some(image(3)));
}

/// A program that does not know of attempts drops them where it goes on with an import.
#[test]
fn what_a_program_of_before_goes_on_with_is_nobody_elses() {
    let meta = with_volume();
    let found = volume(&meta, "a").unwrap();
    let first = image(1);
    begin_import(&meta, &found, &first).unwrap();
    let older = Import {
        attempt: None,
        ..at(100, &first)
    };
    let noted = About {
        import: Some(older.clone()),
        ..About::of(found.id)
    };
    meta.txn(&Call::put(map::about_key(found.id), json(&noted))).unwrap();
    is_taken(note_import(&meta, &found, &at(200, &first)));
    let next = take_import(&meta, &found, &older, Attempt::from_u128(2)).unwrap();
    assert_eq!(next, at(100, &image(2)));
}
