//! Initiators of iSCSI: which targets they may log in to, which LUNs they see there, and what they have to prove.

use super::iscsi::{ESX, LINUX, ground, hide, of, rewrite};
use super::nvme::Meanwhile;
use super::*;
use amita_types::map::IscsiAccess;

#[test]
fn initiators_see_what_they_were_allowed_and_nothing_that_comes_later() {
    let meta = ground();
    for name in ["a", "b"] {
        add_lun(&meta, "t", &of(name)).unwrap();
    }
    let found = allow_initiator(&meta, "t", &LINUX.to_ascii_uppercase(), &Mask::These(vec![1, 1])).unwrap();
    let access = |luns: Option<Vec<u16>>| IscsiAccess {
        initiator: LINUX.to_owned(),
        luns,
    };
    assert_eq!(found.initiators, [access(Some(vec![1]))], "in their canonical form");
    assert_eq!(
        initiator(&meta, LINUX).unwrap().chap,
        None,
        "known now, with nothing to prove"
    );
    let found = allow_initiator(&meta, "t", LINUX, &Mask::Also(0)).unwrap();
    assert_eq!(found.initiators, [access(Some(vec![0, 1]))]);
    let said = allow_initiator(&meta, "t", LINUX, &Mask::These(vec![0, 7]))
        .unwrap_err()
        .to_string();
    assert_eq!(said, "there is no LUN named 7; there are 0, 1");
    assert!(matches!(
        allow_initiator(&meta, "t", "host1", &Mask::All),
        Err(AdminError::BadName { .. })
    ));

    // A number that is given to another disk is not shown to who saw the first one.
    remove_lun(&meta, "t", 1).unwrap();
    let again = LunSpec {
        number: Some(1),
        ..of("c")
    };
    add_lun(&meta, "t", &again).unwrap();
    let found = target(&meta, "t").unwrap();
    assert!(found.access(LINUX).unwrap().sees(0) && !found.access(LINUX).unwrap().sees(1));
    remove_lun(&meta, "t", 0).unwrap();
    assert_eq!(
        target(&meta, "t").unwrap().initiators,
        [access(Some(Vec::new()))],
        "none, and not all"
    );

    let found = allow_initiator(&meta, "t", LINUX, &Mask::All).unwrap();
    assert_eq!(found.initiators, [access(None)]);
    let found = allow_initiator(&meta, "t", LINUX, &Mask::Also(1)).unwrap();
    assert_eq!(found.initiators, [access(None)], "all it sees already");

    let open = TargetChange {
        any_initiator: Some(true),
        ..TargetChange::default()
    };
    set_target(&meta, "t", &open).unwrap();
    let found = allow_initiator(&meta, "t", ESX, &Mask::Also(1)).unwrap();
    assert_eq!(
        found.access(ESX).unwrap().luns,
        None,
        "whoever sees all by being anybody goes on to"
    );
}

#[test]
fn a_lun_is_taken_from_one_initiator_and_left_to_others() {
    let meta = ground();
    for name in ["a", "b"] {
        add_lun(&meta, "t", &of(name)).unwrap();
    }
    for name in [LINUX, ESX] {
        allow_initiator(&meta, "t", name, &Mask::All).unwrap();
    }
    let found = hide(&meta, "t", &LINUX.to_ascii_uppercase(), 0).unwrap();
    assert_eq!(found.access(LINUX).unwrap().luns, Some(vec![1]));
    assert_eq!(found.access(ESX).unwrap().luns, None);
    let found = hide(&meta, "t", LINUX, 1).unwrap();
    assert_eq!(found.access(LINUX), None, "it sees nothing, and has no business there");
    assert!(matches!(
        hide(&meta, "t", LINUX, 1),
        Err(AdminError::InitiatorNotAllowed { .. })
    ));
    assert!(matches!(hide(&meta, "t", ESX, 7), Err(AdminError::NoSuch { .. })));

    // Who is named no more where any may log in would see all.
    let open = TargetChange {
        any_initiator: Some(true),
        ..TargetChange::default()
    };
    set_target(&meta, "t", &open).unwrap();
    for refused in [
        hide(&meta, "t", LINUX, 0).unwrap_err(),
        deny_initiator(&meta, "t", LINUX).unwrap_err(),
    ] {
        let said = refused.to_string();
        assert!(
            said.contains("any initiator may log in") && said.contains("--listed-initiators"),
            "{said}"
        );
    }
    let said = allow_initiator(&meta, "t", "host", &Mask::All).unwrap_err().to_string();
    assert!(said.starts_with("\"host\" is no name for an initiator: "), "{said}");
    hide(&meta, "t", ESX, 0).unwrap();
    let found = hide(&meta, "t", ESX, 1).unwrap();
    assert_eq!(found.access(ESX).unwrap().luns, Some(Vec::new()));
}

#[test]
fn a_number_that_is_another_disks_by_now_is_neither_shown_nor_taken_out() {
    let meta = ground();
    let of_a = add_lun(&meta, "t", &of("a")).unwrap();
    let found = allow_initiator(&meta, "t", LINUX, &Mask::Disk(of_a.clone())).unwrap();
    assert_eq!(found.access(LINUX).unwrap().luns, Some(vec![0]));
    for at in 0..6 {
        let act = |meta: &dyn Transact| {
            remove_lun(meta, "t", 0).unwrap();
            add_lun(meta, "t", &of("b")).unwrap();
        };
        let allowed = allow_initiator(&Meanwhile::new(&meta, at, &act), "t", ESX, &Mask::Disk(of_a.clone()));
        let found = target(&meta, "t").unwrap();
        let is_other = found.luns[0].uuid != of_a.uuid;
        assert!(
            !is_other || found.access(ESX).is_none_or(|access| !access.sees(0)),
            "{at}: {allowed:?}"
        );
        if is_other {
            assert!(
                matches!(remove_disk(&meta, "t", &of_a), Err(AdminError::Changed)),
                "{at}"
            );
            remove_lun(&meta, "t", 0).unwrap();
            add_lun(&meta, "t", &of("a")).unwrap();
        }
    }
    assert_eq!(remove_disk(&meta, "t", &of_a).unwrap(), of_a);
    assert!(matches!(remove_disk(&meta, "t", &of_a), Err(AdminError::NoSuch { .. })));
}

#[test]
fn a_disk_is_hidden_and_not_what_has_its_number_by_now() {
    let mut crossed = 0;
    for at in 0..6 {
        let meta = ground();
        let of_a = add_lun(&meta, "t", &of("a")).unwrap();
        add_lun(&meta, "t", &of("c")).unwrap();
        allow_initiator(&meta, "t", LINUX, &Mask::These(vec![0, 1])).unwrap();
        let act = |meta: &dyn Transact| {
            remove_lun(meta, "t", 0).unwrap();
            let number = Some(0);
            add_lun(meta, "t", &LunSpec { number, ..of("b") }).unwrap();
            allow_initiator(meta, "t", LINUX, &Mask::Also(0)).unwrap();
        };
        let hidden = hide_disk(&Meanwhile::new(&meta, at, &act), "t", LINUX, &of_a);
        let found = target(&meta, "t").unwrap();
        if found.luns[0].uuid != of_a.uuid {
            assert!(found.access(LINUX).unwrap().sees(0), "{at}: {hidden:?}");
            crossed += usize::from(hidden == Err(AdminError::Changed));
            assert_eq!(hide_disk(&meta, "t", LINUX, &of_a), Err(AdminError::Changed), "{at}");
        } else {
            assert!(!hidden.unwrap().access(LINUX).unwrap().sees(0), "{at}");
        }
    }
    assert!(crossed > 0);
}

#[test]
fn lists_of_a_target_are_bounded() {
    let meta = ground();
    add_lun(&meta, "t", &of("a")).unwrap();
    rewrite(&meta, "t", |found| {
        found.initiators = (0..MAX_TARGET_INITIATORS)
            .map(|number| IscsiAccess {
                initiator: format!("iqn.2014-08.org.example:{number:04}"),
                luns: None,
            })
            .collect();
    });
    let said = allow_initiator(&meta, "t", LINUX, &Mask::All).unwrap_err().to_string();
    assert_eq!(
        said,
        "target t has 256 initiators, and more are not possible: take away first what is not needed"
    );
    // One that is there may be changed.
    allow_initiator(&meta, "t", "iqn.2014-08.org.example:0007", &Mask::These(vec![0])).unwrap();
    rewrite(&meta, "t", |found| {
        found.initiators.truncate(16);
        for access in &mut found.initiators {
            access.luns = Some((0..1024).collect());
        }
    });
    let said = allow_initiator(&meta, "t", LINUX, &Mask::These(vec![0]))
        .unwrap_err()
        .to_string();
    assert!(said.contains("16384 numbers of LUNs in the lists"), "{said}");
}

#[test]
fn secrets_come_sealed_and_the_targets_needs_the_initiators() {
    let meta = ground();
    let keys = InitiatorKeys {
        user: ChapUser::Named("esx".to_owned()),
        target_user: ChapUser::Named("amita".to_owned()),
        chap: Secret::Sealed("s1".to_owned()),
        chap_target: Secret::Sealed("s2".to_owned()),
        compared: Some((None, None)),
    };
    let found = set_initiator_keys(&meta, &ESX.to_ascii_uppercase(), &keys).unwrap();
    assert_eq!((found.name.as_str(), found.user()), (ESX, "esx"));
    assert_eq!(found.chap_target_user.as_deref(), Some("amita"));
    assert_eq!(
        (found.chap.as_deref(), found.chap_target.as_deref()),
        (Some("s1"), Some("s2"))
    );
    let without = InitiatorKeys {
        chap: Secret::Remove,
        ..InitiatorKeys::default()
    };
    let said = set_initiator_keys(&meta, ESX, &without).unwrap_err().to_string();
    assert!(said.contains("the initiator has to prove itself first"), "{said}");
    let own = InitiatorKeys {
        user: ChapUser::Own,
        target_user: ChapUser::Own,
        chap_target: Secret::Remove,
        ..InitiatorKeys::default()
    };
    let found = set_initiator_keys(&meta, ESX, &own).unwrap();
    assert_eq!(
        (found.user(), found.chap.as_deref(), found.chap_target.as_deref()),
        (ESX, Some("s1"), None)
    );
    for (user, why) in [
        ("", "it is empty"),
        ("a b", "contains ' '"),
        ("\u{e4}", "contains"),
        ("a\n", "contains '\\n'"),
    ] {
        let named = InitiatorKeys {
            user: ChapUser::Named(user.to_owned()),
            ..InitiatorKeys::default()
        };
        let said = set_initiator_keys(&meta, ESX, &named).unwrap_err().to_string();
        assert!(said.contains(why), "{user:?}: {said}");
    }
    // It was compared with what is not there any more.
    let late = InitiatorKeys {
        chap_target: Secret::Sealed("s3".to_owned()),
        compared: Some((Some("s0".to_owned()), None)),
        ..InitiatorKeys::default()
    };
    assert_eq!(set_initiator_keys(&meta, ESX, &late), Err(AdminError::Changed));
    assert_eq!(initiator(&meta, ESX).unwrap().chap_target, None);
    // Nothing is set, and it is known all the same.
    set_initiator_keys(&meta, LINUX, &InitiatorKeys::default()).unwrap();
    let names: Vec<String> = initiators(&meta)
        .unwrap()
        .readable
        .into_iter()
        .map(|known| known.name)
        .collect();
    assert_eq!(names, [LINUX, ESX]);
}

#[test]
fn an_initiator_is_forgotten_when_nothing_lets_it_in() {
    let meta = ground();
    let said = initiator(&meta, LINUX).unwrap_err().to_string();
    assert!(
        said.contains("one is known when it is allowed (`amita initiator allow`)"),
        "{said}"
    );
    allow_initiator(&meta, "t", LINUX, &Mask::All).unwrap();
    let refused = remove_initiator(&meta, LINUX, false).unwrap_err().to_string();
    assert!(refused.contains("is allowed in t"), "{refused}");
    deny_initiator(&meta, "t", LINUX).unwrap();
    let said = deny_initiator(&meta, "t", LINUX).unwrap_err().to_string();
    assert!(said.ends_with("no initiator is"), "{said}");
    allow_initiator(&meta, "t", LINUX, &Mask::All).unwrap();
    remove_initiator(&meta, &LINUX.to_ascii_uppercase(), true).unwrap();
    assert!(target(&meta, "t").unwrap().initiators.is_empty());
    assert!(initiators(&meta).unwrap().readable.is_empty());
}

/// One that is allowed and not known would have nothing to prove.
#[test]
fn an_initiator_that_is_let_in_meanwhile_keeps_its_secret_whoever_is_faster() {
    let meta = ground();
    for at in 0..8 {
        for force in [false, true] {
            let keys = InitiatorKeys {
                chap: Secret::Sealed("sealed".to_owned()),
                ..InitiatorKeys::default()
            };
            set_initiator_keys(&meta, LINUX, &keys).unwrap();
            let act = |meta: &dyn Transact| drop(allow_initiator(meta, "t", LINUX, &Mask::All).unwrap());
            let removed = remove_initiator(&Meanwhile::new(&meta, at, &act), LINUX, force);
            let known = initiator(&meta, LINUX).ok();
            let is_allowed = target(&meta, "t").unwrap().access(LINUX).is_some();
            assert!(known.is_some() || !is_allowed, "{at} {force}: {removed:?}");
            if removed.is_err() {
                assert!(
                    matches!(removed, Err(AdminError::InitiatorAllowed { .. })),
                    "{removed:?}"
                );
                assert!(known.is_some_and(|known| known.chap.is_some()), "{at} {force}");
            }
            if is_allowed {
                deny_initiator(&meta, "t", LINUX).unwrap();
            }
        }
    }
}

#[test]
fn secrets_of_initiators_are_sealed_anew_and_stay_what_others_make_them() {
    let meta = ground();
    let keys = InitiatorKeys {
        chap: Secret::Sealed("old:a".to_owned()),
        chap_target: Secret::Sealed("old:b".to_owned()),
        ..InitiatorKeys::default()
    };
    set_initiator_keys(&meta, LINUX, &keys).unwrap();
    let anew = |_: &'static str, sealed: &str| match sealed.split_once(':') {
        Some((_, text)) => Ok(format!("new:{text}")),
        None => Err(AdminError::NoCluster),
    };
    let act = |meta: &dyn Transact| {
        let other = InitiatorKeys {
            chap: Secret::Sealed("old:c".to_owned()),
            chap_target: Secret::Remove,
            ..InitiatorKeys::default()
        };
        set_initiator_keys(meta, LINUX, &other).unwrap();
    };
    let found = reseal_initiator(&Meanwhile::new(&meta, 1, &act), LINUX, anew)
        .unwrap()
        .unwrap();
    assert_eq!((found.chap.as_deref(), found.chap_target), (Some("new:c"), None));
    assert_eq!(reseal_initiator(&meta, ESX, anew), Ok(None));
}
