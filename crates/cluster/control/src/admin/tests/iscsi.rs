//! Targets, LUNs and gateways, and what else a volume may be used for at the same time.

use super::nvme::Meanwhile;
use super::*;
use amita_types::map::{IscsiLun, IscsiTarget, MAX_LUN_NUMBER, Snapshot, SnapshotName, SnapshotState};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;

pub(super) const LINUX: &str = "iqn.1993-08.org.debian:01:9c11913aa8b";
pub(super) const ESX: &str = "iqn.1998-01.com.vmware:esx-1:1234567890:64";

pub(super) fn made(name: &str) -> TargetSpec {
    TargetSpec {
        name: name.to_owned(),
        ..TargetSpec::default()
    }
}

pub(super) fn of(volume: &str) -> LunSpec {
    LunSpec {
        of: volume.to_owned(),
        number: None,
        block_bytes: 512,
        shared: false,
    }
}

/// Three nodes, a pool, volumes `a`, `b` and `c`, and a target `t`.
pub(super) fn ground() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for name in ["a", "b", "c"] {
        create_volume(&meta, name, "main", 1 << 30).unwrap();
    }
    create_target(&meta, &made("t")).unwrap();
    meta
}

pub(super) fn subsystem(meta: &dyn Transact) {
    let spec = SubsystemSpec {
        name: "s".to_owned(),
        ..SubsystemSpec::default()
    };
    create_subsystem(meta, &spec).unwrap();
}

/// A sealed snapshot of a volume, as its owner leaves it.
pub(super) fn snap(meta: &dyn Transact, volume_name: &str, name: &str) {
    let mut volume = volume(meta, volume_name).unwrap();
    volume.generation = volume.generation.next().unwrap();
    let number = SnapshotId(1);
    (volume.lineage.number, volume.lineage.sealed) = (number, number);
    let taken = Snapshot {
        volume: volume.id,
        number,
        name: name.to_owned(),
        size_bytes: 1 << 20,
        taken_at: 1,
        labels: BTreeMap::new(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(volume.generation),
    };
    let named = SnapshotName { number, data: None };
    for call in [
        Call::put(map::volume_key(volume_name), json(&volume)),
        Call::put(map::snapshot_key(volume.id, number), json(&taken)),
        Call::put(map::snapshot_name_key(volume.id, name), json(&named)),
    ] {
        meta.txn(&call).unwrap();
    }
}

pub(super) fn rewrite(meta: &dyn Transact, name: &str, change: impl Fn(&mut IscsiTarget)) {
    let mut found = target(meta, name).unwrap();
    change(&mut found);
    meta.txn(&Call::put(map::iscsi_target_key(name), json(&found))).unwrap();
}
#[test]
fn a_target_denies_everybody_and_has_a_name_of_its_own() {
    let meta = ground();
    let first = target(&meta, "t").unwrap();
    assert_eq!(first.iqn, "iqn.2026-11.io.amita:00000000:t");
    assert!(!first.any_initiator && first.initiators.is_empty() && first.gateways.is_empty());
    let odd = create_target(&meta, &made("My_Web.1")).unwrap();
    assert_eq!(odd.iqn, "iqn.2026-11.io.amita:00000000:my-web.1");
    assert_eq!(
        targets(&meta).unwrap().readable,
        [odd, first.clone()],
        "in order of their names"
    );
    assert_eq!(
        create_target(&meta, &made("t")),
        Err(AdminError::Exists {
            what: "target",
            name: "t".to_owned()
        })
    );
    // Two names that are one by RFC 3722.
    let same = TargetSpec {
        iqn: Some(first.iqn.to_ascii_uppercase()),
        ..made("other")
    };
    let said = create_target(&meta, &same).unwrap_err().to_string();
    assert!(said.contains("is the iSCSI name of target t"), "{said}");
    let said = create_target(&meta, &made("my-web.1")).unwrap_err().to_string();
    assert!(said.contains("is the iSCSI name of target My_Web.1"), "{said}");
    for (iqn, why) in [
        ("nqn.2014-08.org.example:x", "does not begin"),
        ("iqn.2014-08.org.example:a_b", "contains '_'"),
        ("eui.0123", "not 16 hexadecimal"),
    ] {
        let bad = TargetSpec {
            iqn: Some(iqn.to_owned()),
            ..made("other")
        };
        let said = create_target(&meta, &bad).unwrap_err().to_string();
        assert!(said.contains(why), "{iqn}: {said}");
    }
    let twice = TargetSpec {
        gateways: ["n2", "n1", "n2"].map(str::to_owned).to_vec(),
        ..made("twice")
    };
    assert_eq!(create_target(&meta, &twice).unwrap().gateways, ["n2", "n1"]);
    let said = target(&meta, "").unwrap_err().to_string();
    assert!(said.starts_with("there is no target named \"\"; there are"), "{said}");
    let nowhere = TargetSpec {
        gateways: vec!["n9".to_owned()],
        ..made("other")
    };
    let said = create_target(&meta, &nowhere).unwrap_err().to_string();
    assert_eq!(said, "there is no node named n9; there are n1, n2, n3");
    let longest = default_iqn(ClusterId(u128::MAX), &"x".repeat(128));
    assert_eq!(check_iscsi_name("target", &longest), Ok(longest.clone()));
    assert!(matches!(
        create_target(&meta, &made(&"x".repeat(129))),
        Err(AdminError::BadName { .. })
    ));
}

#[test]
fn a_target_changes_and_goes() {
    let meta = ground();
    let change = TargetChange {
        gateways: Some(vec!["n2".to_owned()]),
        any_initiator: Some(true),
        chap_required: Some(true),
        initiators_move: Some(true),
        space_warning: Some(SpaceWarning::At(80)),
    };
    let changed = set_target(&meta, "t", &change).unwrap();
    assert!(changed.any_initiator && changed.chap_required && changed.initiators_move);
    assert_eq!(
        (changed.gateways.as_slice(), changed.space_warning_percent),
        (&["n2".to_owned()][..], Some(80))
    );
    let back = TargetChange {
        gateways: Some(Vec::new()),
        space_warning: Some(SpaceWarning::NearFull),
        ..TargetChange::default()
    };
    let changed = set_target(&meta, "t", &back).unwrap();
    assert!(
        changed.chap_required && changed.initiators_move && changed.gateways.is_empty(),
        "what is not named stays"
    );
    assert_eq!(changed.space_warning_percent, None);
    for percent in [0, 2, 101] {
        let change = TargetChange {
            space_warning: Some(SpaceWarning::At(percent)),
            ..TargetChange::default()
        };
        let said = set_target(&meta, "t", &change).unwrap_err().to_string();
        assert!(said.contains("choose 3 to 100"), "{said}");
    }
    add_lun(&meta, "t", &of("a")).unwrap();
    let refused = delete_target(&meta, "t", false).unwrap_err();
    assert!(matches!(refused, AdminError::HasLuns { luns: 1, .. }), "{refused}");
    delete_target(&meta, "t", true).unwrap();
    let said = target(&meta, "t").unwrap_err().to_string();
    assert_eq!(
        said,
        "there is no target named t; there are no targets at all: make one with `amita target create`"
    );
    volume(&meta, "a").expect("its volumes stay");
}

#[test]
fn two_targets_made_at_once_do_not_share_a_name() {
    let meta = ground();
    let of = |name: &str| TargetSpec {
        iqn: Some("iqn.2014-08.org.example:one".to_owned()),
        ..made(name)
    };
    for at in 0..4 {
        let name = format!("theirs{at}");
        let act = |meta: &dyn Transact| drop(create_target(meta, &of(&name)).unwrap());
        let result = create_target(&Meanwhile::new(&meta, at, &act), &of("ours"));
        assert!(matches!(result, Err(AdminError::BadSetting { .. })), "{at}: {result:?}");
        delete_target(&meta, &name, false).unwrap();
    }
}

#[test]
fn a_lun_has_a_number_from_0_on_and_names_that_stay() {
    let meta = ground();
    let a = add_lun(&meta, "t", &of("a")).unwrap();
    let wanted = LunSpec {
        number: Some(MAX_LUN_NUMBER),
        block_bytes: 4096,
        ..of("b")
    };
    let b = add_lun(&meta, "t", &wanted).unwrap();
    let c = add_lun(&meta, "t", &of("c")).unwrap();
    assert_eq!(
        (a.number, b.number, c.number),
        (0, 16_383, 1),
        "behind the highest none is left"
    );
    assert!(map::naa(&a.uuid) != map::naa(&b.uuid) && map::naa(&b.uuid) != map::naa(&c.uuid));
    let listed = luns_of(&meta, "t").unwrap();
    let names: Vec<String> = listed.iter().map(LunStatus::of).collect();
    assert_eq!(names, ["a", "c", "b"]);
    assert_eq!(listed[0].size_bytes, Some(1 << 30));
    assert_eq!(remove_lun(&meta, "t", MAX_LUN_NUMBER).unwrap(), b);
    create_target(&meta, &made("u")).unwrap();
    let again = add_lun(&meta, "u", &of("b")).unwrap();
    assert_eq!((again.number, again.uuid), (0, b.uuid), "the same disk elsewhere");
    assert_eq!(lun_of(&meta, "b").unwrap().1.unwrap().target, "u");
    // By NVMe it is the same disk, too.
    remove_lun(&meta, "u", 0).unwrap();
    subsystem(&meta);
    assert_eq!(add_namespace(&meta, "s", "b", None, 512).unwrap().uuid, b.uuid);
}

#[test]
fn luns_that_cannot_be() {
    let meta = ground();
    create_target(&meta, &made("u")).unwrap();
    let fifth = LunSpec {
        number: Some(5),
        ..of("a")
    };
    add_lun(&meta, "t", &fifth).unwrap();
    let refused = |target: &str, spec: &LunSpec| add_lun(&meta, target, spec).unwrap_err().to_string();
    let with = |number: Option<u16>, block_bytes: u32| LunSpec {
        number,
        block_bytes,
        ..of("b")
    };
    assert!(refused("t", &with(Some(5), 512)).contains("has a LUN 5 already"));
    assert!(refused("t", &with(Some(MAX_LUN_NUMBER + 1), 512)).contains("choose 0 to 16383"));
    assert!(refused("t", &with(None, 520)).contains("choose 512 or 4096"));
    assert!(refused("t", &of("x")).contains("no volume named x; there are a, b, c"));
    assert!(refused("x", &of("b")).contains("no target named x; there are t, u"));
    let said = refused("u", &of("a"));
    assert!(
        said.contains("volume a is LUN 5 of target t") && !said.contains("--force"),
        "{said}"
    );
    let said = remove_lun(&meta, "t", 6).unwrap_err().to_string();
    assert_eq!(said, "there is no LUN named 6; there is 5");
}

#[test]
fn a_target_is_full_at_its_limit() {
    let meta = ground();
    let first = add_lun(&meta, "t", &of("a")).unwrap();
    rewrite(&meta, "t", |found| {
        for number in 1..1024 {
            let mut lun = first.clone();
            lun.number = number;
            lun.volume = VolumeId(10_000 + u64::from(number));
            lun.uuid = map::Namespace::uuid_of(ClusterId(9), lun.volume);
            found.luns.push(lun);
        }
    });
    assert_eq!(target(&meta, "t").unwrap().luns.len(), MAX_LUNS);
    let said = add_lun(&meta, "t", &of("b")).unwrap_err().to_string();
    assert_eq!(
        said,
        "target t has 1024 LUNs, and more are not possible: take away first what is not needed"
    );
    remove_lun(&meta, "t", 17).unwrap();
    assert_eq!(add_lun(&meta, "t", &of("b")).unwrap().number, 1024);
}

#[test]
fn a_volume_is_one_lun_whoever_is_faster() {
    let meta = ground();
    create_target(&meta, &made("u")).unwrap();
    for at in 0..7 {
        let name = format!("v{at}");
        create_volume(&meta, &name, "main", 1 << 20).unwrap();
        let act = |meta: &dyn Transact| {
            add_lun(meta, "u", &of(&name)).unwrap();
        };
        let ours = add_lun(&Meanwhile::new(&meta, at, &act), "t", &of(&name));
        let all = luns(&meta).unwrap().readable;
        let uses: Vec<&str> = all
            .iter()
            .filter(|known| known.volume_name.as_deref() == Some(&name))
            .map(|known| known.target.as_str())
            .collect();
        assert_eq!(uses, [if ours.is_ok() { "t" } else { "u" }], "{at}: {ours:?}");
    }
}

#[test]
fn a_volume_that_initiators_may_use_is_not_deleted_whoever_is_faster() {
    let meta = ground();
    add_lun(&meta, "t", &of("a")).unwrap();
    let refused = delete(&meta, "a", false).unwrap_err();
    assert!(matches!(refused, AdminError::IsLun { lun: 0, .. }), "{refused}");
    assert!(
        refused
            .to_string()
            .ends_with("(`amita lun remove t 0`), or use --force"),
        "{refused}"
    );
    delete(&meta, "a", true).unwrap();
    assert!(target(&meta, "t").unwrap().luns.is_empty(), "and with it the LUN");

    // A LUN that comes at whatever point of the deletion: either it is refused, or the deletion is.
    for at in 0..8 {
        let name = format!("v{at}");
        create_volume(&meta, &name, "main", 1 << 20).unwrap();
        let act = |meta: &dyn Transact| drop(add_lun(meta, "t", &of(&name)));
        let deleted = delete(&Meanwhile::new(&meta, at, &act), &name, false).is_ok();
        assert_eq!(volume(&meta, &name).is_ok(), !deleted);
        let all = luns(&meta).unwrap().readable;
        assert!(
            all.iter().all(|known| known.volume_name.is_some()),
            "{at}: a LUN without a volume"
        );
    }
}

#[test]
fn what_is_a_lun_is_neither_made_smaller_nor_reverted_and_its_snapshot_stays() {
    let meta = ground();
    snap(&meta, "a", "monday");
    let lun = add_lun(&meta, "t", &of("a@monday")).unwrap();
    assert_eq!(lun.snapshot.map(|snapshot| snapshot.size_bytes), Some(1 << 20));
    let listed = luns(&meta).unwrap().readable;
    assert_eq!(
        (listed[0].of().as_str(), listed[0].size_bytes),
        ("a@monday", Some(1 << 20))
    );
    let refused = delete_snapshot(&meta, "a", "monday").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "snapshot a@monday is LUN 0 of target t: initiators may use it; take it out first (`amita lun remove t 0`)"
    );
    let refused = delete(&meta, "a", false).unwrap_err().to_string();
    assert!(
        refused.starts_with("snapshot a@monday is LUN 0 of target t"),
        "{refused}"
    );

    // The volume itself is another LUN, and another disk.
    let head = add_lun(&meta, "t", &of("a")).unwrap();
    assert_ne!(map::naa(&head.uuid), map::naa(&lun.uuid));
    let found = volume(&meta, "a").unwrap();
    let refused = begin_shrink(&meta, &found, 1 << 20).unwrap_err();
    assert!(matches!(refused, AdminError::IsLun { lun: 1, .. }), "{refused}");
    let to = snapshot(&meta, "a", "monday").unwrap();
    let refused = may_revert(&meta, &found, &to, None).unwrap_err();
    assert!(matches!(refused, AdminError::IsLun { lun: 1, .. }), "{refused}");
    remove_lun(&meta, "t", 1).unwrap();
    may_revert(&meta, &found, &to, None).unwrap();
    begin_shrink(&meta, &found, 1 << 20).unwrap();
    let refused = add_lun(&meta, "t", &of("a")).unwrap_err();
    assert!(matches!(refused, AdminError::Shrinking { .. }), "{refused}");
}

#[test]
fn no_volume_is_written_by_two_protocols_unless_that_is_said() {
    let meta = ground();
    subsystem(&meta);
    let export = ExportSpec {
        any_client: true,
        ..ExportSpec::default()
    };
    let shared_export = ExportSpec {
        shared: true,
        ..export.clone()
    };
    let shared = |volume: &str| LunSpec {
        shared: true,
        ..of(volume)
    };
    let is_refused = |result: std::result::Result<(), AdminError>, hint: &str| {
        let refused = result.unwrap_err();
        assert!(matches!(refused, AdminError::WrittenBeside { .. }), "{refused}");
        assert!(refused.to_string().contains(hint), "{refused}");
    };
    // First by NVMe, by NBD; then by iSCSI.
    add_namespace(&meta, "s", "a", None, 4096).unwrap();
    export_volume(&meta, "b", &export).unwrap();
    is_refused(
        add_lun(&meta, "t", &of("a")).map(drop),
        "`amita namespace remove s 1`), or use --shared",
    );
    is_refused(
        add_lun(&meta, "t", &of("b")).map(drop),
        "`amita nbd unexport b`), or use --shared",
    );
    add_lun(&meta, "t", &shared("a")).unwrap();
    add_lun(&meta, "t", &shared("b")).unwrap();
    // First by iSCSI.
    let c = add_lun(&meta, "t", &of("c")).unwrap();
    is_refused(
        add_namespace(&meta, "s", "c", None, 4096).map(drop),
        "`amita lun remove t 2`)",
    );
    is_refused(
        export_volume(&meta, "c", &export).map(drop),
        "`amita lun remove t 2`), or use --shared",
    );
    export_volume(&meta, "c", &shared_export).unwrap();
    remove_lun(&meta, "t", c.number).unwrap();
    // An export that is shared is asked nothing more.
    add_lun(&meta, "t", &of("c")).unwrap();
    // Reading beside others needs nobody's leave.
    snap(&meta, "c", "monday");
    add_lun(&meta, "t", &of("c@monday")).unwrap();
    add_namespace(&meta, "s", "c@monday", None, 4096).unwrap();
}

#[test]
fn the_owners_portals_come_first_and_then_those_of_nodes_that_live() {
    let meta = ground();
    let portal = |number: u8| std::net::SocketAddr::from(([192, 0, 2, number], 3260));
    for (name, node, portals) in [
        ("n0", NodeId(77), vec![portal(7)]),
        ("n1", NodeId(1), vec![portal(1), portal(2)]),
        ("n2", NodeId(2), vec![portal(3)]),
        ("n3", NodeId(3), Vec::new()),
    ] {
        register_iscsi_gateway(&meta, name, node, 1, &portals).unwrap();
    }
    let found = target(&meta, "t").unwrap();
    let places = |target: &IscsiTarget, owner| -> Vec<(String, bool, bool)> {
        let portals = target_portals(&meta, target, owner).unwrap();
        portals
            .into_iter()
            .map(|portal| (portal.address, portal.owner, portal.alive))
            .collect()
    };
    let of = |address: &str, owner, alive| (address.to_owned(), owner, alive);
    assert_eq!(
        places(&found, Some(NodeId(2))),
        [
            of("192.0.2.3", true, true),
            of("192.0.2.1", false, true),
            of("192.0.2.2", false, true),
            of("192.0.2.7", false, false)
        ]
    );
    let only = TargetChange {
        gateways: Some(vec!["n1".to_owned()]),
        ..TargetChange::default()
    };
    let found = set_target(&meta, "t", &only).unwrap();
    assert_eq!(places(&found, None).len(), 2);
}

/// A version that speaks no iSCSI does not know that there is something to take back.
#[test]
fn portals_that_another_program_has_said_are_not_told_while_it_does_not_run() {
    let meta = ground();
    let portal = |number: u8| std::net::SocketAddr::from(([192, 0, 2, number], 3260));
    let (old, new) = (1, 5);
    register_iscsi_gateway(&meta, "n1", NodeId(1), old, &[portal(1)]).unwrap();
    register_iscsi_gateway(&meta, "n2", NodeId(2), old, &[portal(2)]).unwrap();
    let live = |session: u64, pid| {
        let live = Live {
            stores: None,
            session,
            pid,
            version: map::METADATA_VERSION,
        };
        meta.txn(&Call::put(map::live_key(NodeId(1)), json(&live))).unwrap();
    };
    let told = || -> Vec<(String, bool)> {
        let portals = target_portals(&meta, &target(&meta, "t").unwrap(), None).unwrap();
        portals
            .into_iter()
            .map(|portal| (portal.address, portal.alive))
            .collect()
    };
    let shown = || {
        let found = status(&meta).unwrap().nodes;
        found.into_iter().find(|node| node.node.name == "n1").unwrap().iscsi
    };
    let (first, second) = ("192.0.2.1".to_owned(), "192.0.2.2".to_owned());
    assert_eq!(told(), [(first.clone(), true), (second.clone(), true)]);
    // It has stopped: that is where it will be again.
    live(0, STOPPED);
    assert_eq!(told(), [(second.clone(), true), (first.clone(), false)]);
    assert_eq!(shown(), ["192.0.2.1:3260"]);
    live(new, 1);
    assert_eq!(told(), [(second.clone(), true)]);
    assert!(shown().is_empty());
    // And back, by the same tag.
    let again = register_iscsi_gateway(&meta, "n1", NodeId(1), new, &[portal(1)]).unwrap();
    assert_eq!(again.unwrap().tag, 1);
    assert_eq!(told(), [(first, true), (second, true)]);
    assert_eq!(shown(), ["192.0.2.1:3260"]);
}

#[test]
fn a_gateway_keeps_the_tag_of_its_portal_group() {
    let meta = ground();
    let portal = |number: u8| std::net::SocketAddr::from(([192, 0, 2, number], 3260));
    assert_eq!(
        register_iscsi_gateway(&meta, "n1", NodeId(1), 1, &[]),
        Ok(None),
        "it never spoke iSCSI"
    );
    let first = register_iscsi_gateway(&meta, "n1", NodeId(1), 1, &[portal(1), portal(2)])
        .unwrap()
        .unwrap();
    assert_eq!(
        (first.tag, first.portals.as_slice()),
        (1, &["192.0.2.1:3260".to_owned(), "192.0.2.2:3260".to_owned()][..])
    );
    let second = register_iscsi_gateway(&meta, "n2", NodeId(2), 1, &[portal(3)])
        .unwrap()
        .unwrap();
    assert_eq!(second.tag, 2);
    // It moves, and listens nowhere: its paths are known by the same tag.
    let moved = register_iscsi_gateway(&meta, "n1", NodeId(1), 1, &[portal(9)])
        .unwrap()
        .unwrap();
    assert_eq!((moved.tag, moved.portals.len()), (1, 1));
    let silent = register_iscsi_gateway(&meta, "n1", NodeId(1), 1, &[]).unwrap().unwrap();
    assert_eq!((silent.tag, silent.portals.len()), (1, 0));
    assert_eq!(iscsi_gateways(&meta).unwrap(), [silent, second]);
    let many: Vec<std::net::SocketAddr> = (0..=16).map(portal).collect();
    assert!(matches!(
        register_iscsi_gateway(&meta, "n1", NodeId(1), 1, &many),
        Err(AdminError::Full { most: MAX_PORTALS, .. })
    ));
    // Another node under its name, once it was removed: another path.
    let anew = register_iscsi_gateway(&meta, "n1", NodeId(7), 1, &[portal(1)])
        .unwrap()
        .unwrap();
    assert_eq!((anew.tag, anew.node), (3, NodeId(7)));
}

#[test]
fn a_node_that_goes_takes_its_portals_along() {
    let meta = ground();
    let node = register_node(&meta, "n4", "127.0.0.1:1", None, 2).unwrap();
    let portal = std::net::SocketAddr::from(([192, 0, 2, 4], 3260));
    register_iscsi_gateway(&meta, "n4", node.id, 1, &[portal]).unwrap();
    remove_node(&meta, "n4").unwrap();
    assert!(iscsi_gateways(&meta).unwrap().is_empty());
}

/// `amita serve` goes on without iSCSI then: by this error it knows.
#[test]
fn no_tag_is_given_while_a_gateways_record_cannot_be_read() {
    let meta = ground();
    let rubbish = Call::put(map::iscsi_gateway_key("n1"), b"{}".to_vec());
    meta.txn(&rubbish).unwrap();
    let portal = std::net::SocketAddr::from(([192, 0, 2, 1], 3260));
    // What nobody can read may have the tag that the other one would get.
    for (name, node) in [("n1", NodeId(1)), ("n2", NodeId(2))] {
        let refused = register_iscsi_gateway(&meta, name, node, 1, &[portal]).unwrap_err();
        assert!(
            matches!(
                &refused,
                AdminError::Metadata(amita_metadata::Error::Refused {
                    reason: amita_metadata::Refusal::BadRecord { key, .. }
                }) if key.ends_with("/n1")
            ),
            "{refused}"
        );
    }
    assert_eq!(
        register_iscsi_gateway(&meta, "n3", NodeId(3), 1, &[]),
        Ok(None),
        "it speaks none"
    );
}

/// The last tag was given; then those are free that nobody has.
#[test]
fn tags_are_given_round_and_round() {
    let meta = ground();
    let portal = std::net::SocketAddr::from(([192, 0, 2, 1], 3260));
    let first = register_iscsi_gateway(&meta, "n1", NodeId(1), 1, &[portal])
        .unwrap()
        .unwrap();
    let counter = map::counter_key("iscsi-portal-groups");
    meta.txn(&Call::put(counter, json(&u64::from(u16::MAX - 1)))).unwrap();
    let tags = ["n2", "n3"].map(|name| {
        register_iscsi_gateway(&meta, name, NodeId(5), 1, &[portal])
            .unwrap()
            .unwrap()
            .tag
    });
    assert_eq!((first.tag, tags), (1, [u16::MAX, 2]));
}

#[test]
fn status_counts_what_there_is_and_names_a_record_that_nobody_can_read() {
    let meta = ground();
    let counts = |meta: &dyn Transact| status(meta).unwrap().iscsi;
    assert_eq!(
        counts(&meta),
        IscsiCounts {
            targets: 1,
            ..IscsiCounts::default()
        }
    );
    add_lun(&meta, "t", &of("a")).unwrap();
    allow_initiator(&meta, "t", LINUX, &Mask::All).unwrap();
    for (name, node, portals) in [
        ("n1", 1, vec![std::net::SocketAddr::from(([192, 0, 2, 1], 3260))]),
        // Of a node that is gone, under the name of one that is there.
        ("n2", 99, vec![std::net::SocketAddr::from(([192, 0, 2, 9], 3260))]),
        ("n3", 3, vec![std::net::SocketAddr::from(([192, 0, 2, 3], 3260))]),
    ] {
        register_iscsi_gateway(&meta, name, NodeId(node), 1, &portals).unwrap();
    }
    let n3 = Op::Delete {
        key: map::live_key(NodeId(3)),
    };
    let dies = Call {
        then: vec![n3],
        ..Call::default()
    };
    meta.txn(&dies).unwrap();
    let all = IscsiCounts {
        gateways: 2,
        alive: 1,
        targets: 1,
        luns: 1,
        initiators: 1,
    };
    assert_eq!(counts(&meta), all);
    let portals: Vec<_> = status(&meta)
        .unwrap()
        .nodes
        .into_iter()
        .map(|node| node.iscsi)
        .collect();
    assert_eq!(
        portals,
        [
            vec!["192.0.2.1:3260".to_owned()],
            vec![],
            vec!["192.0.2.3:3260".to_owned()]
        ]
    );
    let unserved = |meta: &dyn Transact| {
        status(meta)
            .unwrap()
            .facts
            .iter()
            .any(|fact| fact.name == "target-unserved")
    };
    assert!(!unserved(&meta));
    register_iscsi_gateway(&meta, "n1", NodeId(1), 1, &[]).unwrap();
    assert!(unserved(&meta), "the one that listens does not live");
    assert_eq!(
        (counts(&meta).gateways, counts(&meta).alive),
        (1, 0),
        "it listens nowhere"
    );
    let key = map::iscsi_initiator_key(LINUX);
    meta.txn(&Call::put(key.clone(), "rubbish")).unwrap();
    let found = status(&meta).unwrap();
    assert!(
        found.warnings.iter().any(|line| line.contains(&key)),
        "{:?}",
        found.warnings
    );
}

/// The disk that has the number just now.
pub(super) fn hide(meta: &dyn Transact, target_name: &str, initiator: &str, number: u16) -> Result<IscsiTarget> {
    let of_nobody = IscsiLun {
        number,
        volume: VolumeId(0),
        uuid: map::Namespace::uuid_of(ClusterId(9), VolumeId(0)),
        block_bytes: 512,
        snapshot: None,
        shared: false,
    };
    let lun = target(meta, target_name)?.lun(number).cloned();
    hide_disk(meta, target_name, initiator, &lun.unwrap_or(of_nobody))
}

/// Whatever operators do, in whatever order: no volume is two LUNs, no list names a number that there is not, and all is in order.
#[test]
fn records_stay_sound_whatever_is_done() {
    const TARGETS: [&str; 3] = ["t", "u", "w"];
    const VOLUMES: [&str; 4] = ["a", "b", "c", "a@monday"];
    let meta = ground();
    snap(&meta, "a", "monday");
    let (mut done, mut refused) = (0, 0);
    let mut random = amita_testkit::Random::new(18);
    for step in 0..3000 {
        let target_name = *random.pick(&TARGETS);
        let initiator_name = *random.pick(&[LINUX, ESX, "eui.02004567a425678d"]);
        let number = random.below(6) as u16;
        let force = random.percent(30);
        let volume_name = *random.pick(&VOLUMES);
        let spec = LunSpec {
            number: random.percent(50).then_some(number),
            shared: random.percent(20),
            ..of(volume_name)
        };
        let mask = match random.below(3) {
            0 => Mask::All,
            1 => Mask::Also(number),
            _ => Mask::These(vec![number, random.below(6) as u16]),
        };
        let result = match random.below(9) {
            0 => create_target(&meta, &made(target_name)).map(drop),
            1 => delete_target(&meta, target_name, force).map(drop),
            2 | 3 => add_lun(&meta, target_name, &spec).map(drop),
            4 => remove_lun(&meta, target_name, number).map(drop),
            5 | 6 => allow_initiator(&meta, target_name, initiator_name, &mask).map(drop),
            7 => hide(&meta, target_name, initiator_name, number).map(drop),
            _ => remove_initiator(&meta, initiator_name, force).map(drop),
        };
        match result {
            Ok(()) => done += 1,
            Err(AdminError::TooManyRaces { .. } | AdminError::Damaged { .. }) => panic!("{step}: {result:?}"),
            Err(_) => refused += 1,
        }
        let known: BTreeSet<String> = initiators(&meta)
            .unwrap()
            .readable
            .into_iter()
            .map(|known| known.name)
            .collect();
        let mut names = BTreeSet::new();
        for target in targets(&meta).unwrap().readable {
            let numbers: Vec<u16> = target.luns.iter().map(|lun| lun.number).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{step}: {numbers:?}");
            for lun in &target.luns {
                assert!(names.insert(map::naa(&lun.uuid)), "{step}: one disk is two LUNs");
            }
            let allowed: Vec<&str> = target
                .initiators
                .iter()
                .map(|access| access.initiator.as_str())
                .collect();
            assert!(allowed.is_sorted_by(|a, b| a < b), "{step}: {allowed:?}");
            for access in &target.initiators {
                assert!(
                    known.contains(&access.initiator),
                    "{step}: {} is allowed and not known",
                    access.initiator
                );
                let seen = access.luns.as_deref().unwrap_or_default();
                assert!(seen.is_sorted_by(|a, b| a < b), "{step}: {seen:?}");
                assert!(
                    seen.iter().all(|lun| numbers.contains(lun)),
                    "{step}: {seen:?} of {numbers:?}"
                );
            }
        }
    }
    assert!(done > 300 && refused > 300, "{done}, {refused}");
}
