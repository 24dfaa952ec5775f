use super::*;
use crate::id::ClusterId;
use crate::map::Namespace;
use std::collections::BTreeSet;

const CLUSTER: ClusterId = ClusterId(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);

fn lun() -> IscsiLun {
    IscsiLun {
        number: 3,
        volume: VolumeId(7),
        uuid: uuid::Uuid::nil(),
        block_bytes: 512,
        snapshot: None,
        shared: false,
    }
}

#[test]
fn records_are_short_and_read_as_they_were_written() {
    let target = IscsiTarget {
        name: "db".to_owned(),
        iqn: "iqn.2026-11.io.amita:12345678:db".to_owned(),
        gateways: Vec::new(),
        any_initiator: false,
        chap_required: false,
        initiators_move: false,
        space_warning_percent: None,
        initiators: vec![IscsiAccess {
            initiator: "iqn.1993-08.org.debian:01:a".to_owned(),
            luns: Some(vec![3]),
        }],
        luns: vec![lun()],
    };
    let text = serde_json::to_string(&target).expect("plain data");
    assert_eq!(
        text,
        r#"{"name":"db","iqn":"iqn.2026-11.io.amita:12345678:db","initiators":[{"initiator":"iqn.1993-08.org.debian:01:a","luns":[3]}],"luns":[{"number":3,"volume":7,"uuid":"00000000-0000-0000-0000-000000000000","block_bytes":512}]}"#
    );
    assert_eq!(
        serde_json::from_str::<IscsiTarget>(&text).expect("it was written"),
        target
    );
    // What a later version adds is no reason not to read it; what is wrong is.
    let later = text.replacen('{', r#"{"later":1,"#, 1);
    assert_eq!(serde_json::from_str::<IscsiTarget>(&later).expect("readable"), target);
    let wrong = text.replace(r#""block_bytes":512"#, r#""block_bytes":"512""#);
    assert!(serde_json::from_str::<IscsiTarget>(&wrong).is_err());
}

#[test]
fn an_initiator_sees_what_its_mask_says() {
    let mut access = IscsiAccess {
        initiator: "iqn.1993-08.org.debian:01:a".to_owned(),
        luns: None,
    };
    assert!(access.sees(0) && access.sees(MAX_LUN_NUMBER));
    access.luns = Some(vec![1, 3]);
    assert!(!access.sees(0) && access.sees(3));
    access.luns = Some(Vec::new());
    assert!(!access.sees(0));
}

#[test]
fn names_of_disks_are_their_own_and_stay() {
    let mut names = BTreeSet::new();
    for volume in (0..1000).chain([1 << 40, 1 << 61]) {
        for snapshot in [0, 1, 2, 1 << 23, u32::MAX] {
            let uuid = Namespace::uuid_of_snapshot(CLUSTER, VolumeId(volume), SnapshotId(snapshot));
            let name = naa_text(&uuid);
            assert!(name.len() == 32 && name.starts_with("602414d"), "{name}");
            assert!(names.insert(name), "volume {volume}, snapshot {snapshot}");
        }
    }
    let uuid = Namespace::uuid_of(CLUSTER, VolumeId(7));
    assert_eq!(uuid.to_string(), "12345678-9abc-8ef0-8fed-cba987654326");
    assert_eq!(naa_text(&uuid), "602414d456789abc8fedcba987654326");
    assert_eq!(naa(&uuid)[..5], [0x60, 0x24, 0x14, 0xd4, 0x56]);
}

#[test]
fn who_has_no_other_name_gives_its_own_for_chap() {
    let mut initiator = IscsiInitiator {
        name: "iqn.1993-08.org.debian:01:a".to_owned(),
        chap_user: None,
        chap_target_user: None,
        chap: None,
        chap_target: None,
    };
    assert_eq!(initiator.user(), "iqn.1993-08.org.debian:01:a");
    initiator.chap_user = Some("esx".to_owned());
    assert_eq!(initiator.user(), "esx");
}
