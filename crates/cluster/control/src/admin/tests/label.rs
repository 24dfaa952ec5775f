use super::*;
use amita_types::VolumeId;
use amita_types::map::{About, Import};
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

#[test]
fn an_import_notes_its_place_in_its_own_volume_only() {
    let meta = with_volume();
    let first = volume(&meta, "a").unwrap();
    let import = Import {
        format: "raw".to_owned(),
        image_bytes: 4096,
        modified_ns: 1,
        done_bytes: 0,
        ails: None,
    };
    label_volume(&meta, "a", &labels(&[("team", "db")]), &[]).unwrap();
    note_import(&meta, &first, Some(&import)).unwrap();
    assert_eq!(about(&meta, first.id).unwrap().import, Some(import.clone()));
    let ended = note_import(&meta, &first, None).unwrap();
    assert_eq!((ended.import, ended.labels), (None, labels(&[("team", "db")])));
    delete_volume(&meta, "a", false, 9, &mut || false).unwrap();
    create_volume(&meta, "a", "main", 4096).unwrap();
    let other = note_import(&meta, &first, Some(&import));
    assert!(matches!(other, Err(AdminError::NoSuch { .. })), "{other:?}");
}
