//! Volumes that come, go and change meanwhile.

use super::*;

#[test]
fn volumes_are_renamed_deleted_and_come_back_meanwhile() {
    let mut rig = Rig::new();
    let db = rig.volume(1, "db");
    let policy = rig.policy("p", PolicyTarget::Volume("db".to_owned()), "0 * * * *", 5);
    rig.at(MONDAY);
    // It is renamed while its snapshot is wished, which takes the wish away.
    rig.wall = MONDAY + HOUR;
    rig.silent.insert(db);
    rig.step();
    assert_eq!(rig.wishes().len(), 1);
    rig.remove(map::volume_key("db"));
    rig.remove(map::snapshot_wish_key(db));
    rig.volume(1, "ledger");
    // And another one has its name.
    let other = rig.volume(2, "db");
    rig.silent.clear();
    rig.settle();
    assert_eq!(rig.names(db), ["p-20240101T010000Z"]);
    assert!(rig.sealed(other).is_empty());
    // It goes into the recycle bin.
    rig.remove(map::volume_key("ledger"));
    rig.volume(1, &map::hidden_name(db));
    rig.at(MONDAY + 2 * HOUR);
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed, last.gone), (0, 1, 1));
    assert!(last.why[0].contains("amita volume undelete"), "{:?}", last.why);
    rig.remove(map::volume_key(&map::hidden_name(db)));
    rig.volume(1, "ledger");
    rig.at(MONDAY + 3 * HOUR);
    assert_eq!(rig.names(db).len(), 2);
    assert!(rig.sealed(other).is_empty());
    // One of many that goes is nobody's failure.
    let all = rig.of_all("all", "30 * * * *", 5);
    rig.at(MONDAY + 3 * HOUR + 1);
    rig.wall = MONDAY + 3 * HOUR + 30 * MINUTE;
    rig.silent.insert(other);
    rig.step();
    rig.remove(map::volume_key("db"));
    rig.remove(map::snapshot_wish_key(other));
    rig.settle();
    let last = rig.runs(&all).last.unwrap();
    assert_eq!((last.taken, last.failed, last.gone), (1, 0, 1));
}

#[test]
fn labels_say_which_volumes_are_meant_at_the_time() {
    let mut rig = Rig::new();
    rig.volumes(2);
    let label = |name: &str, tier: &str| {
        let labels = BTreeMap::from([("tier".to_owned(), tier.to_owned())]);
        admin::label_volume(&rig.meta, name, &labels, &[]).unwrap();
    };
    label("v1", "gold");
    label("v2", "tin");
    let target = PolicyTarget::Label {
        key: "tier".to_owned(),
        value: "gold".to_owned(),
    };
    rig.policy("gold", target, "0 * * * *", 5);
    rig.at(MONDAY);
    rig.at(MONDAY + HOUR);
    let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    admin::label_volume(&rig.meta, "v2", &labels, &[]).unwrap();
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!((rig.names(VolumeId(1)).len(), rig.names(VolumeId(2)).len()), (2, 1));
}

#[test]
fn what_is_to_be_a_copy_is_no_policys_before_it_is_whole() {
    let mut rig = Rig::new();
    rig.volumes(2);
    let policy = rig.of_all("all", "0 * * * *", 5);
    rig.at(MONDAY);
    let key = map::copying_key(VolumeId(2));
    let mut record = map::Copying {
        volume: VolumeId(2),
        name: "v2".to_owned(),
        source: VolumeId(1),
        of: "v1".to_owned(),
        snapshot: "copy-2".to_owned(),
        takes: true,
        snapshots: false,
        limit_bytes_per_s: None,
        asked_at: 1,
        cancelled: false,
        whole: false,
        paused: None,
        ails: None,
        moving: None,
        place: map::CopyPlace::default(),
    };
    rig.put(key.clone(), &record);
    rig.at(MONDAY + HOUR);
    assert_eq!(rig.names(VolumeId(1)).len(), 1);
    assert!(rig.sealed(VolumeId(2)).is_empty());
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed), (1, 0), "{last:?}");
    record.whole = true;
    rig.put(key, &record);
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.names(VolumeId(2)).len(), 1);
}

#[test]
fn what_is_closed_for_a_mirror_is_no_policys() {
    let mut rig = Rig::new();
    rig.volumes(2);
    let policy = rig.of_all("all", "0 * * * *", 5);
    rig.at(MONDAY);
    let open = admin::volume(&rig.meta, "v2").unwrap();
    let closed = map::Volume {
        closed: Some(Box::new(map::Closed {
            mirror: amita_types::MirrorId(77),
            name: "dr".to_owned(),
            since: open.generation,
        })),
        ..open.clone()
    };
    rig.put(map::volume_key("v2"), &closed);
    rig.at(MONDAY + HOUR);
    assert_eq!((rig.names(VolumeId(1)).len(), rig.names(VolumeId(2)).len()), (1, 0));
    let last = rig.runs(&policy).last.unwrap();
    assert_eq!((last.taken, last.failed), (1, 0), "{last:?}");
    rig.put(map::volume_key("v2"), &open);
    rig.at(MONDAY + 2 * HOUR);
    assert_eq!(rig.names(VolumeId(2)).len(), 1);
}
