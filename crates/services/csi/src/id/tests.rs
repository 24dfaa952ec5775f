use super::*;

#[test]
fn names_that_amita_takes_stay_and_others_are_summed() {
    let claim = "pvc-0f8fad5b-d9cb-469f-a165-70867728950e";
    assert_eq!(volume_name(claim), claim);
    assert_eq!(snapshot_name("snapshot-0f8fad5b-d9cb-469f-a165-70867728950e").len(), 45);
    let long = "x".repeat(57);
    for odd in [long.as_str(), "", "-a", "a b", "ä", "a/b", "csi-gone-7", "csi-x-00"] {
        let name = volume_name(odd);
        assert!(name.starts_with(HASHED) && name.len() == 38, "{odd}: {name}");
        assert_eq!(name, volume_name(odd));
    }
    assert_ne!(volume_name("a b"), volume_name("a  b"));
}

#[test]
fn ids_are_read_as_they_are_written_and_stay_short() {
    let volume = VolumeId {
        number: u64::MAX,
        name: "v".repeat(MAX_VOLUME),
    };
    let snapshot = SnapshotId {
        volume: volume.clone(),
        name: "s".repeat(MAX_SNAPSHOT),
    };
    assert_eq!(VolumeId::parse(&volume.to_string()), Some(volume));
    assert_eq!(SnapshotId::parse(&snapshot.to_string()), Some(snapshot.clone()));
    assert!(snapshot.to_string().len() <= 128);
    let group = GroupId {
        set: 7,
        name: "group-1".to_owned(),
    };
    assert_eq!(GroupId::parse(&group.to_string()), Some(group));
    for odd in ["", "7", "7:", ":a", "x:a", "7:a/b", "-1:a"] {
        assert_eq!(VolumeId::parse(odd), None, "{odd}");
        assert_eq!(SnapshotId::parse(&format!("{odd}@s")), None, "{odd}");
    }
    assert_eq!(SnapshotId::parse("7:a@"), None);
}

#[test]
fn a_node_is_a_host() {
    let text = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let host = node(text).expect("an id");
    assert_eq!(host.to_string(), text);
    assert_eq!(host_of(&host_nqn(host)), Some(host));
    for odd in [
        "some-fake-node-id",
        "",
        "00000000-0000-0000-0000-000000000000",
        "0f8fad5bd9cb469fa16570867728950e",
    ] {
        assert_eq!(node(odd), None, "{odd}");
    }
}

#[test]
fn a_host_is_written_as_an_address_and_read_again() {
    let host = Uuid::from_u128(0x0f8f_ad5b_d9cb_469f_a165_7086_7728_950e);
    assert_eq!(host_cidr(host), "f8f:ad5b:d9cb:469f:a165:7086:7728:950e/128");
    assert_eq!(host_of_cidr(&host_cidr(host)), Some(host));
    assert_eq!(host_of_cidr("f8f:ad5b:d9cb:469f:a165:7086:7728:950e"), Some(host));
    for odd in ["192.0.2.7/32", "2001:db8::/64", "::/128", "x"] {
        assert_eq!(host_of_cidr(odd), None, "{odd}");
    }
    assert_ne!(reservation_key(host), 0);
    assert_eq!(reservation_key(Uuid::from_u128(u128::MAX)), 1);
}

#[test]
fn a_host_has_two_keys() {
    let host = Uuid::from_u128(0x0f8f_ad5b_d9cb_469f_a165_7086_7728_950e);
    assert_ne!(making_key(host), reservation_key(host));
    assert_ne!(making_key(host), making_key(Uuid::from_u128(1)));
    let text = format!("{:#018x}", making_key(host));
    assert_eq!(key_of(&text), Some(making_key(host)));
    assert_eq!((key_of("0xaa"), key_of("x")), (Some(0xaa), None));
    let other = Uuid::from_u128(1);
    let keys = Keys::of(host, Some(7));
    for key in [keys.own, keys.making] {
        assert_eq!(attachment_of(key, host), Some(7));
        assert_eq!(attachment_of(key, other), None);
        assert_eq!(is_making(key, host), key == keys.making);
    }
    // As long as the controller does not say which attachment it is.
    let keys = Keys::of(host, None);
    assert_eq!(keys.own, reservation_key(host));
    assert!(is_making(keys.making, host) && !is_making(keys.making, other) && !is_making(keys.own, host));
    assert_eq!(attachment_of(keys.own, host), None);
}
