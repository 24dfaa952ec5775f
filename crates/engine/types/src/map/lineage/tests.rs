use super::*;
use crate::id::SetId;
use crate::map::Volume;

fn wish(name: &str) -> SnapshotWish {
    SnapshotWish {
        volume: "db".to_owned(),
        name: name.to_owned(),
        asked_at: 1,
        labels: BTreeMap::new(),
        refused: None,
        hold_ms: None,
    }
}

#[test]
fn a_volume_without_snapshots_has_the_record_that_older_versions_write() {
    let json = r#"{"id":7,"name":"db","pool":"fast","size_bytes":4096,"generation":3}"#;
    let volume: Volume = serde_json::from_str(json).expect("as older versions write it");
    assert_eq!(volume.lineage, Lineage::default());
    assert_eq!(serde_json::to_string(&volume).expect("plain"), json);
}

#[test]
fn the_record_keeps_what_is_known_of_snapshots() {
    let lineage = Lineage {
        number: SnapshotId(5),
        sealed: SnapshotId(3),
        taking: true,
        set: Some(SetId(9)),
        ..Lineage::default()
    };
    let volume = Volume {
        generation: Generation(3),
        lineage,
        ..Volume::new(VolumeId(7), "db", "fast", 4096)
    };
    let json = serde_json::to_string(&volume).expect("plain");
    let read: Volume = serde_json::from_str(&json).expect("what was written");
    assert_eq!(read, volume);
    assert_eq!(read.lineage.check(), Ok(()));
    let astray = Lineage {
        sealed: SnapshotId(6),
        ..lineage
    };
    assert!(astray.check().is_err());
    let both = Lineage {
        sealed: SnapshotId(5),
        ..lineage
    };
    assert!(both.check().is_err(), "what is sealed is not being taken");
    let over = Lineage {
        taking: false,
        ..lineage
    };
    assert!(
        over.check().is_err(),
        "it is of a set while it is being taken, and no longer"
    );
    let ended = |sealed| {
        let mut ended = lineage;
        ended.end(sealed);
        ended.check().map(|()| (ended.number.0, ended.sealed.0))
    };
    assert_eq!((ended(true), ended(false)), (Ok((5, 5)), Ok((5, 3))));
}

#[test]
fn names_of_snapshots_are_those_that_every_protocol_can_carry() {
    for good in [
        "a",
        "2026-11-23T10:00:00+01:00",
        "before_upgrade.1",
        "A".repeat(128).as_str(),
    ] {
        assert_eq!(wish(good).check(), Ok(()), "{good}");
    }
    for bad in ["", "-a", "a b", "a/b", "a@b", "ä", "a\n", "A".repeat(129).as_str()] {
        assert!(wish(bad).check().is_err(), "{bad:?}");
    }
}

#[test]
fn labels_have_bounds() {
    let mut many = wish("a");
    many.labels = (0..33).map(|index| (format!("{index}"), String::new())).collect();
    assert!(many.check().is_err());
    let mut long = wish("a");
    long.labels.insert("k".to_owned(), "v".repeat(257));
    assert!(long.check().is_err());
    let mut control = wish("a");
    control.labels.insert("k".to_owned(), "\u{1b}[2J".to_owned());
    assert!(control.check().is_err());
}

#[test]
fn keys_sort_as_numbers() {
    let key = |number| snapshot_key(VolumeId(1), SnapshotId(number));
    assert!(key(9) < key(10) && key(10) < key(4_000_000_000));
    assert!(key(1).starts_with(&snapshots_prefix(VolumeId(1))));
    assert!(!key(1).starts_with(&snapshots_prefix(VolumeId(2))));
}

#[test]
fn a_name_says_of_which_data_its_snapshot_is() {
    let of_first = SnapshotName::new(VolumeId(3), VolumeId(3), SnapshotId(7));
    assert_eq!(serde_json::to_string(&of_first).expect("plain"), r#"{"number":7}"#);
    assert_eq!(of_first.data(VolumeId(3)), VolumeId(3));
    let of_later = SnapshotName::new(VolumeId(3), VolumeId(9), SnapshotId(8));
    let json = serde_json::to_string(&of_later).expect("plain");
    assert_eq!(json, r#"{"number":8,"data":9}"#);
    let read: SnapshotName = serde_json::from_str(&json).expect("what was written");
    assert_eq!(read.data(VolumeId(3)), VolumeId(9));
}
