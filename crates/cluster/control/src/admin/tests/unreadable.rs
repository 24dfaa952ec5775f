//! Records of subsystems, targets, hosts and initiators that nobody can read: what they stop, and how they go.

use super::iscsi::{LINUX, ground, made, of, snap};
use super::*;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:2d1b3b5e-5b0b-4f3a-9d0a-0d4b6e1c7a11";

fn write(meta: &dyn Transact, key: String, value: &[u8]) {
    meta.txn(&Call::put(key, value)).unwrap();
}

/// The record of a target that nobody can read, with the LUNs that are said.
fn of_a_newer_version(luns: &str) -> String {
    format!(r#"{{"name":"odd","iqn":"iqn.2026-11.io.amita:odd","space_warning_percent":{{"at":80}},"luns":{luns}}}"#)
}

fn is_stopped(result: Result<impl std::fmt::Debug>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(why @ AdminError::Unreadable { .. }) => Some(why.to_string()),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn a_record_that_nobody_can_read_stops_what_it_may_speak_of() {
    // Volumes `a`, `b` and `c` are number 1, 2 and 3.
    let whole = of_a_newer_version(r#"[{"number":2,"volume":1,"uuid":7,"block_bytes":3}]"#);
    let cases: [(&[u8], &[&str]); 10] = [
        (whole.as_bytes(), &["a"]),
        // What is cut off may have been any.
        (&whole.as_bytes()[..40], &["a", "b", "c"]),
        (b"", &["a", "b", "c"]),
        (b"\xff\xfe", &["a", "b", "c"]),
        (b"{}", &[]),
        (b"rubbish", &[]),
        // By hand, with a comma too many.
        (br#"{"luns":[{"number":0,"volume":2,},]}"#, &["b"]),
        // Twice, so that either may be meant.
        (br#"{"luns":[{"volume":3}],"luns":[{"volume":1}]}"#, &["a", "c"]),
        // It calls them otherwise, and says them otherwise.
        (br#"{"disks":{"3":"b"}}"#, &["c"]),
        (br#"{"luns":[{"volume":"2"}]}"#, &["b"]),
    ];
    for (record, stopped) in cases {
        for key in [map::iscsi_target_key("odd"), map::subsystem_key("odd")] {
            let meta = ground();
            write(&meta, key.clone(), record);
            for name in ["a", "b", "c"] {
                let said = is_stopped(delete(&meta, name, false));
                let shown = String::from_utf8_lossy(record).into_owned();
                assert_eq!(
                    said.is_some(),
                    stopped.contains(&name),
                    "{shown} of {key}: {name}: {said:?}"
                );
                let Some(said) = said else { continue };
                assert!(
                    said.contains(&key) && said.contains(&format!("may say that {name} is a ")),
                    "{said}"
                );
                assert!(said.contains(" delete odd --force`"), "{said}");
                assert_eq!(is_stopped(delete(&meta, name, true)), Some(said), "whoever forces it");
            }
        }
    }
}

#[test]
fn what_else_goes_by_what_volumes_are_used_for_is_stopped_alike() {
    let meta = ground();
    for name in ["a", "b"] {
        snap(&meta, name, "monday");
    }
    let record = of_a_newer_version(r#"[{"number":0,"volume":1}]"#);
    write(&meta, map::iscsi_target_key("odd"), record.as_bytes());
    let stopped = |what: &str, of_a: Option<String>, of_b: Option<String>| {
        let said = of_a.unwrap_or_else(|| panic!("{what}"));
        assert!(said.contains("the record of target odd"), "{what}: {said}");
        assert_eq!(of_b, None, "{what}");
    };
    let of_snapshot = |name: &str| is_stopped(delete_snapshot(&meta, name, "monday"));
    stopped("a snapshot goes", of_snapshot("a"), of_snapshot("b"));
    let looked = |name: &str| is_stopped(lun_of(&meta, name));
    stopped("it is asked what it is", looked("a"), looked("b"));
    let shown = |name: &str| is_stopped(add_lun(&meta, "t", &of(name)));
    stopped("a LUN is made", shown("a"), shown("b"));
    // Other targets are none the worse for it.
    let luns = target(&meta, "t").unwrap().luns;
    assert_eq!(luns.len(), 1);
    remove_lun(&meta, "t", 0).unwrap();
    set_target(&meta, "t", &TargetChange::default()).unwrap();
    let said = is_stopped(target(&meta, "odd")).unwrap();
    assert!(
        said.contains("cannot be read: ") && said.contains("put it right"),
        "{said}"
    );
    // Who looks sees the others, and hears of that one.
    let listed = targets(&meta).unwrap();
    let names: Vec<&str> = listed.readable.iter().map(|found| found.name.as_str()).collect();
    assert_eq!((names, listed.unreadable.len()), (vec!["t"], 1));
    let luns = crate::admin::luns(&meta).unwrap();
    assert_eq!((luns.readable.len(), luns.unreadable.len()), (0, 1));
    let said = is_stopped(listed.whole()).unwrap();
    assert!(said.contains("target odd"), "{said}");
    // A name is not given twice, as little as an iSCSI name.
    assert!(matches!(
        create_target(&meta, &made("odd")),
        Err(AdminError::Exists { .. })
    ));
    let same = TargetSpec {
        iqn: Some("iqn.2026-11.io.amita:ODD".to_owned()),
        ..made("other")
    };
    let said = is_stopped(create_target(&meta, &same)).unwrap();
    assert!(
        said.contains("may have the iSCSI name iqn.2026-11.io.amita:odd"),
        "{said}"
    );
    create_target(&meta, &made("other")).unwrap();
    let said = target(&meta, "od").unwrap_err().to_string();
    assert!(said.contains("there are odd, other, t"), "{said}");
}

#[test]
fn a_record_that_nobody_can_read_is_taken_away() {
    let meta = ground();
    write(&meta, map::iscsi_target_key("odd"), b"");
    write(&meta, map::subsystem_key("odd"), b"");
    assert!(is_stopped(delete_target(&meta, "odd", false)).is_some());
    assert_eq!(delete_target(&meta, "odd", true), Ok(None));
    let said = is_stopped(delete(&meta, "a", false)).unwrap();
    assert!(said.contains("subsystem delete odd --force"), "{said}");
    assert!(is_stopped(delete_subsystem(&meta, "odd", false)).is_some());
    assert_eq!(delete_subsystem(&meta, "odd", true), Ok(None));
    delete(&meta, "a", false).unwrap();
    let gone = delete_target(&meta, "odd", true);
    assert!(matches!(gone, Err(AdminError::NoSuch { .. })), "{gone:?}");
}

#[test]
fn an_initiator_whose_record_nobody_can_read_goes_when_nothing_lets_it_in() {
    let meta = ground();
    allow_initiator(&meta, "t", LINUX, &Mask::All).unwrap();
    write(&meta, map::iscsi_initiator_key(LINUX), b"{");
    for stopped in [
        is_stopped(initiator(&meta, LINUX)),
        is_stopped(allow_initiator(&meta, "t", LINUX, &Mask::All)),
        is_stopped(set_initiator_keys(&meta, LINUX, &InitiatorKeys::default())),
        is_stopped(remove_initiator(&meta, LINUX, false)),
    ] {
        let said = stopped.unwrap();
        assert!(
            said.contains(&format!("amita initiator remove {LINUX} --force")),
            "{said}"
        );
    }
    // Another one is known for the first time all the same.
    allow_initiator(&meta, "t", "eui.02004567a425678d", &Mask::All).unwrap();
    // A target that may let it in, and cannot be asked to do so no more.
    let record = format!(r#"{{"initiators":["{LINUX}"]}}"#);
    write(&meta, map::iscsi_target_key("odd"), record.as_bytes());
    let said = is_stopped(remove_initiator(&meta, LINUX, true)).unwrap();
    assert!(said.contains("target odd") && said.contains("it may allow"), "{said}");
    delete_target(&meta, "odd", true).unwrap();
    assert_eq!(remove_initiator(&meta, &LINUX.to_ascii_uppercase(), true), Ok(None));
    let found = target(&meta, "t").unwrap();
    assert!(found.access(LINUX).is_none() && found.initiators.len() == 1);
    assert_eq!(initiators(&meta).unwrap().whole().unwrap().len(), 1);
}

#[test]
fn a_host_whose_record_nobody_can_read_goes_when_nothing_lets_it_in() {
    let meta = ground();
    create_subsystem(
        &meta,
        &SubsystemSpec {
            name: "s".to_owned(),
            ..SubsystemSpec::default()
        },
    )
    .unwrap();
    add_host(&meta, HOST, &HostKeys::default()).unwrap();
    allow_host(&meta, "s", HOST).unwrap();
    write(&meta, map::host_key(HOST), br#"{"nqn":7}"#);
    for stopped in [
        is_stopped(host(&meta, HOST)),
        is_stopped(allow_host(&meta, "s", HOST)),
        is_stopped(remove_host(&meta, HOST, false)),
    ] {
        let said = stopped.unwrap();
        assert!(said.contains(&format!("amita host remove {HOST} --force")), "{said}");
    }
    write(&meta, map::subsystem_key("odd"), br#"{"hosts":"\u006eqn"}"#);
    let said = is_stopped(remove_host(&meta, HOST, true)).unwrap();
    assert!(
        said.contains("subsystem odd") && said.contains("it may allow"),
        "{said}"
    );
    delete_subsystem(&meta, "odd", true).unwrap();
    assert_eq!(remove_host(&meta, HOST, true), Ok(None));
    assert!(subsystem(&meta, "s").unwrap().hosts.is_empty());
}
