use super::IscsiCataloguer;
use crate::control::Record;
use crate::view::View;
use amita_frontend::reservation;
use amita_keys::SealKey;
use amita_scsi::Unit;
use amita_scsi::unit::Alua;
use amita_types::condition::{Condition, StoreSpace, condition_key};
use amita_types::map::{self, IscsiAccess, IscsiGateway, IscsiInitiator, IscsiLun, IscsiTarget, PoolKind};
use amita_types::{ClusterId, Epoch, Generation, GroupIndex, NodeId, PoolId, SnapshotId, StoreId, VolumeId};
use serde::Serialize;
use std::sync::Arc;

const LINUX: &str = "iqn.1993-08.org.debian:01:9c11913aa8b";
const ESX: &str = "iqn.1998-01.com.vmware:esx-1:1234567890:64";
const IQN: &str = "iqn.2026-11.io.amita:test:db";

fn put(view: &mut View, key: String, record: &impl Serialize) {
    let value = serde_json::to_vec(record).unwrap();
    view.apply(&Record {
        key,
        value: Some(value),
        revision: 1,
        created: 1,
    });
}

fn gone(view: &mut View, key: String) {
    view.apply(&Record {
        key,
        value: None,
        revision: 2,
        created: 1,
    });
}

fn live(view: &mut View, node: u32) {
    let live = map::Live {
        session: 1,
        pid: 1,
        stores: None,
        version: map::METADATA_VERSION,
    };
    put(view, map::live_key(NodeId(node)), &live);
}

fn lun(number: u16, snapshot: Option<u32>) -> IscsiLun {
    let snapshot_number = snapshot.map_or(SnapshotId::HEAD, SnapshotId);
    IscsiLun {
        number,
        volume: VolumeId(7),
        uuid: map::Namespace::uuid_of_snapshot(ClusterId(5), VolumeId(7), snapshot_number),
        block_bytes: 512,
        snapshot: snapshot.map(|number| map::NamespaceSnapshot {
            number: SnapshotId(number),
            size_bytes: 1 << 20,
        }),
        shared: false,
    }
}

fn target(luns: Vec<IscsiLun>) -> IscsiTarget {
    IscsiTarget {
        name: "db".to_owned(),
        iqn: IQN.to_owned(),
        gateways: Vec::new(),
        any_initiator: false,
        chap_required: false,
        initiators_move: false,
        space_warning_percent: None,
        initiators: vec![IscsiAccess {
            initiator: LINUX.to_owned(),
            luns: Some(vec![0]),
        }],
        luns,
    }
}

fn volume(owner: Option<u32>, size_bytes: u64) -> map::Volume {
    map::Volume {
        generation: Generation(1),
        owner: owner.map(NodeId),
        ..map::Volume::new(VolumeId(7), "v", "p", size_bytes)
    }
}

fn gateway(node: u32, tag: u16, portals: &[&str]) -> IscsiGateway {
    IscsiGateway {
        node: NodeId(node),
        name: format!("n{node}"),
        tag,
        portals: portals.iter().map(ToString::to_string).collect(),
        session: None,
    }
}

fn initiator(chap: Option<String>, chap_target: Option<String>) -> IscsiInitiator {
    IscsiInitiator {
        name: LINUX.to_owned(),
        chap_user: None,
        chap_target_user: None,
        chap,
        chap_target,
    }
}

/// Volume `v` of node 1, and gateways on nodes 1 and 2, which live, and 3, which does not.
fn view() -> View {
    let mut view = View::default();
    view.keep_space();
    let pool = map::Pool {
        id: PoolId(1),
        name: "p".to_owned(),
        kind: PoolKind::Replicated {
            copies: 3,
            min_copies: 2,
        },
        groups: 8,
        chunk_bytes: 4 << 20,
        failure_domain: amita_types::placement::Level::default(),
        class: None,
    };
    put(&mut view, map::pool_key("p"), &pool);
    put(&mut view, map::volume_key("v"), &volume(Some(1), 1 << 30));
    put(&mut view, map::iscsi_target_key("db"), &target(vec![lun(0, None)]));
    put(&mut view, map::iscsi_initiator_key(LINUX), &initiator(None, None));
    for (node, tag, portals) in [
        (1, 11, vec!["192.0.2.1:3260", "198.51.100.1:3260"]),
        (2, 9, vec!["192.0.2.2:3260"]),
        (3, 12, vec!["192.0.2.3:3260"]),
        (4, 13, Vec::new()),
    ] {
        put(
            &mut view,
            map::iscsi_gateway_key(&format!("n{node}")),
            &gateway(node, tag, &portals),
        );
    }
    live(&mut view, 1);
    live(&mut view, 2);
    view
}

fn cataloguer(key: Option<SealKey>) -> IscsiCataloguer {
    IscsiCataloguer::new(NodeId(1), key.map(Arc::new))
}

fn unit(catalog: &amita_iscsi::Catalog, number: u16) -> Arc<Unit> {
    catalog.scsi.target(IQN).unwrap().unit(number).unwrap().clone()
}

#[test]
fn is_made_anew_only_when_something_has_changed() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let first = cataloguer.make(&view, |_| false).expect("the first");
    assert_eq!(first.scsi.revision, 1);
    assert!(cataloguer.make(&view, |_| false).is_none());
    put(&mut view, map::volume_key("v"), &volume(Some(1), 2 << 30));
    let second = cataloguer.make(&view, |_| false).expect("it has grown");
    assert_eq!((second.scsi.revision, unit(&second, 0).size_bytes), (2, 2 << 30));
    // What is beside the SCSI side counts as well.
    put(
        &mut view,
        map::iscsi_gateway_key("n2"),
        &gateway(2, 9, &["192.0.2.9:3260"]),
    );
    let third = cataloguer.make(&view, |_| false).expect("a portal has moved");
    assert_eq!(
        (third.scsi.revision, third.portals[&9][0].to_string()),
        (3, "192.0.2.9:3260".to_owned())
    );
    // Of a cluster in which there is nothing yet there is a catalog, too: who logs in is told so.
    let empty = IscsiCataloguer::new(NodeId(1), None).make(&View::default(), |_| false);
    assert_eq!(empty.expect("the first").scsi.revision, 1);
}

#[test]
fn a_reservation_changes_that_alone() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let reserve = |view: &mut View, volume: u64, resets: u64| {
        let state = reservation::State {
            resets,
            ..reservation::State::default()
        };
        put(view, map::reservation_key(VolumeId(volume)), &state);
    };
    reserve(&mut view, 7, 1);
    assert!(cataloguer.make_reserved(&view).is_none(), "there are no settings yet");
    let first = cataloguer.make(&view, |_| true).expect("the first");
    assert!(cataloguer.make_reserved(&view).is_none());
    // Of a volume that is no logical unit nobody is told.
    reserve(&mut view, 8, 1);
    assert!(cataloguer.make_reserved(&view).is_none());
    reserve(&mut view, 7, 2);
    let second = cataloguer.make_reserved(&view).expect("it was reset");
    assert_eq!(
        (second.scsi.revision, second.scsi.reservations[&VolumeId(7)].resets),
        (first.scsi.revision + 1, 2)
    );
    let of = |catalog: &amita_iscsi::Catalog| catalog.scsi.target(IQN).expect("a target").clone();
    assert!(Arc::ptr_eq(&of(&second), &of(&first)));
    assert!(cataloguer.make(&view, |_| true).is_none(), "it is what all of it makes");
}

#[test]
fn access_and_preference_follow_the_owner() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let mut state = |view: &View, open: bool| {
        let made = cataloguer.make(view, |_| open).expect("changed");
        let unit = unit(&made, 0);
        let groups: Vec<u16> = made.scsi.groups.iter().map(|group| group.tag).collect();
        assert_eq!(groups, [9, 11, 12], "those that listen, in order");
        ([9, 11, 12].map(|tag| unit.state(tag)), unit.preferred)
    };
    let (ours, theirs, away) = (Alua::Optimized, Alua::NonOptimized, Alua::Unavailable);
    assert_eq!(state(&view, true), ([theirs, ours, away], Some(11)));
    assert_eq!(
        state(&view, false),
        ([theirs, theirs, away], Some(11)),
        "it is not open yet"
    );
    put(&mut view, map::volume_key("v"), &volume(Some(2), 1 << 30));
    assert_eq!(
        state(&view, false),
        ([ours, theirs, away], Some(9)),
        "another has taken it"
    );
    gone(&mut view, map::live_key(NodeId(2)));
    assert_eq!(state(&view, false), ([away, theirs, away], None), "and has died");
    put(&mut view, map::volume_key("v"), &volume(None, 1 << 30));
    live(&mut view, 2);
    assert_eq!(state(&view, false), ([theirs, theirs, away], None));
}

/// Initiators are told of the portals of gateways that live, and of no others.
#[test]
fn a_gateway_lives_while_the_program_does_that_has_said_its_portals() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    cataloguer.make(&view, |_| false).expect("the first");
    let said = |session| IscsiGateway {
        session: Some(session),
        ..gateway(2, 9, &["192.0.2.2:3260"])
    };
    let mut lives = |view: &View| {
        let made = cataloguer.make(view, |_| false).expect("changed");
        let group = made.scsi.groups.iter().find(|group| group.tag == 9).unwrap().clone();
        group.alive
    };
    // Another program than the one that runs: one that was downgraded says nothing of iSCSI.
    put(&mut view, map::iscsi_gateway_key("n2"), &said(5));
    assert!(!lives(&view));
    put(&mut view, map::iscsi_gateway_key("n2"), &said(1));
    assert!(lives(&view));
    gone(&mut view, map::live_key(NodeId(2)));
    assert!(!lives(&view));
}

#[test]
fn a_target_is_served_by_those_that_it_names() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert_eq!(made.scsi.target(IQN).unwrap().groups, [9, 11, 12]);
    assert!(!made.detail(IQN).unwrap().leaving);
    assert_eq!(made.portals[&11].len(), 2);
    let named = IscsiTarget {
        gateways: vec!["n2".to_owned()],
        chap_required: true,
        ..target(vec![lun(0, None)])
    };
    put(&mut view, map::iscsi_target_key("db"), &named);
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert_eq!(made.scsi.target(IQN).unwrap().groups, [9]);
    let detail = made.detail(IQN).unwrap();
    assert!(detail.leaving && detail.chap_required && detail.alias == "db");
}

/// Its initiators are asked to log out, and served until then.
#[test]
fn a_target_that_a_gateway_is_to_serve_no_more() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let before = cataloguer.make(&view, |_| true).unwrap();
    let kept = before.target_kept(IQN).unwrap();
    assert!(Arc::ptr_eq(&kept, before.target_here(IQN).unwrap()));
    let of_other = IscsiTarget {
        gateways: vec!["n2".to_owned()],
        ..target(vec![lun(0, None)])
    };
    put(&mut view, map::iscsi_target_key("db"), &of_other);
    let made = cataloguer.make(&view, |_| true).unwrap();
    assert!(made.target_here(IQN).is_none() && made.detail(IQN).unwrap().leaving);
    let kept = made.target_kept(IQN).unwrap();
    let tag = made.tag().unwrap();
    assert_eq!(kept.units[0].state(tag), Alua::NonOptimized);
    assert_eq!(kept.units.len(), before.scsi.target(IQN).unwrap().units.len());
    assert!(kept.groups.contains(&tag) && kept.groups.is_sorted());
    let elsewhere = made.scsi.target(IQN).unwrap();
    let portals: Vec<u16> = made.portals_of(elsewhere).map(|portal| portal.1).collect();
    assert!(!portals.contains(&tag), "nobody is sent here");
}

/// What has not changed is the same in the memory, too.
#[test]
fn targets_that_stay_as_they_are_are_not_made_anew() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let before = cataloguer.make(&view, |_| true).unwrap();
    let other = IscsiInitiator {
        chap_user: Some("another".to_owned()),
        ..initiator(None, None)
    };
    put(&mut view, map::iscsi_initiator_key(LINUX), &other);
    let made = cataloguer.make(&view, |_| true).unwrap();
    assert_ne!(made.scsi.revision, before.scsi.revision);
    let of = |catalog: &amita_iscsi::Catalog| catalog.scsi.target(IQN).unwrap().clone();
    assert!(Arc::ptr_eq(&of(&made), &of(&before)));
}

#[test]
fn an_initiator_sees_what_its_mask_says_and_others_nothing() {
    let mut view = view();
    put(
        &mut view,
        map::iscsi_target_key("db"),
        &target(vec![lun(0, None), lun(5, Some(3))]),
    );
    let made = cataloguer(None).make(&view, |_| true).unwrap();
    let target = made.scsi.target(IQN).unwrap();
    assert!(target.shows(LINUX, 0) && !target.shows(LINUX, 5));
    assert!(!target.admits(ESX) && !target.shows(ESX, 0));
    let [head, snapshot] = [0, 5].map(|number| unit(&made, number));
    assert!(!head.is_write_protected() && snapshot.is_write_protected());
    assert_eq!((head.size_bytes, snapshot.size_bytes), (1 << 30, 1 << 20));
    assert_ne!(head.uuid, snapshot.uuid);
}

#[test]
fn what_is_gone_is_shown_to_nobody() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let state = reservation::State {
        generation: 1,
        ..reservation::State::default()
    };
    put(&mut view, map::reservation_key(VolumeId(7)), &state);
    let made = cataloguer.make(&view, |_| true).unwrap();
    assert_eq!(made.scsi.reservations[&VolumeId(7)].generation, 1);
    gone(&mut view, map::volume_key("v"));
    let made = cataloguer.make(&view, |_| true).unwrap();
    assert!(made.scsi.target(IQN).unwrap().units.is_empty() && made.scsi.reservations.is_empty());
    gone(&mut view, map::iscsi_target_key("db"));
    let made = cataloguer.make(&view, |_| true).unwrap();
    assert!(made.scsi.targets.is_empty() && made.details.is_empty());
}

#[test]
fn secrets_are_opened_with_the_clusters_key() {
    let key = SealKey::generate();
    let seal = |field: &str, text: &str| Some(key.seal(LINUX, field, text).unwrap());
    let mut view = view();
    let record = IscsiInitiator {
        chap_target_user: Some("amita".to_owned()),
        ..initiator(seal("chap", "secret-of-mine"), seal("chap_target", "secret-of-theirs"))
    };
    put(&mut view, map::iscsi_initiator_key(LINUX), &record);
    let made = cataloguer(Some(key.clone())).make(&view, |_| false).unwrap();
    let (known, secret) = made.chap(LINUX).unwrap();
    assert_eq!(
        (known.user.as_str(), secret.as_bytes()),
        (LINUX, &b"secret-of-mine"[..])
    );
    assert_eq!(known.chap_target.as_ref().unwrap().as_bytes(), b"secret-of-theirs");
    assert_eq!(known.target_user.as_deref(), Some("amita"));
    assert!(!format!("{made:?}").contains("secret-of"), "it is never shown");
    // Whoever wrote both the same past the commands lets nobody in.
    let record = initiator(seal("chap", "the-same-secret"), seal("chap_target", "the-same-secret"));
    put(&mut view, map::iscsi_initiator_key(LINUX), &record);
    let made = cataloguer(Some(key)).make(&view, |_| false).unwrap();
    assert!(made.chap(LINUX).unwrap().1.is_empty());
}

#[test]
fn a_secret_that_does_not_open_bars_its_initiator_also_where_any_may_come() {
    let (right, wrong) = (SealKey::generate(), SealKey::generate());
    let sealed = |key: &SealKey, field: &str| Some(key.seal(LINUX, field, &format!("secret of {field}")).unwrap());
    for record in [
        initiator(sealed(&wrong, "chap"), None),
        // The initiator wants proof that this gateway cannot give.
        initiator(sealed(&right, "chap"), sealed(&wrong, "chap_target")),
    ] {
        let mut view = view();
        put(&mut view, map::iscsi_initiator_key(LINUX), &record);
        let open = IscsiTarget {
            any_initiator: true,
            ..target(vec![lun(0, None)])
        };
        put(&mut view, map::iscsi_target_key("db"), &open);
        let mut cataloguer = cataloguer(Some(right.clone()));
        let made = cataloguer.make(&view, |_| false).unwrap();
        assert!(
            made.chap(LINUX).expect("it is held to its secret").1.is_empty(),
            "and none fits"
        );
        let said: Vec<String> = cataloguer.warnings().collect();
        assert!(said.len() == 1 && !said[0].contains("secret of"), "{said:?}");
        put(&mut view, map::volume_key("v"), &volume(Some(1), 3 << 30));
        cataloguer.make(&view, |_| false);
        assert_eq!(cataloguer.warnings().count(), 0, "it is said once");
    }
}

#[test]
fn a_secret_that_is_replaced_is_forgotten() {
    let (right, wrong) = (SealKey::generate(), SealKey::generate());
    let (mut view, mut cataloguer) = (view(), cataloguer(Some(right.clone())));
    for turn in 0..10 {
        for (key, opens) in [(&right, true), (&wrong, false)] {
            let sealed = key.seal(LINUX, "chap", &format!("secret number {turn}")).unwrap();
            let record = initiator(Some(sealed), None);
            put(&mut view, map::iscsi_initiator_key(LINUX), &record);
            let made = cataloguer.make(&view, |_| false).expect("another secret");
            assert_eq!(!made.chap(LINUX).unwrap().1.is_empty(), opens, "{turn}");
            assert_eq!(cataloguer.opened.len() + cataloguer.refused.len(), 1, "{turn}");
        }
    }
}

#[test]
fn an_initiator_whose_record_cannot_be_read_is_let_in_by_nobody() {
    let (mut view, key) = (view(), map::iscsi_initiator_key(ESX));
    let mut cataloguer = cataloguer(None);
    let rubbish = |revision| Record {
        key: map::iscsi_initiator_key(ESX),
        value: Some(b"{\"name\":7}".to_vec()),
        revision,
        created: 1,
    };
    let told = view.apply(&rubbish(1));
    assert!(told.concerns_initiators(), "{told:?}");
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(made.chap(ESX).unwrap().1.is_empty(), "no secret fits");
    assert!(made.chap(LINUX).is_none(), "others are none the worse for it");
    // One that can be read counts, and counts on when another one cannot.
    let known = IscsiInitiator {
        name: ESX.to_owned(),
        ..initiator(None, None)
    };
    put(&mut view, key.clone(), &known);
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(made.initiator(ESX).is_some() && made.chap(ESX).is_none());
    view.apply(&rubbish(3));
    assert!(cataloguer.make(&view, |_| false).is_none());
    gone(&mut view, key.clone());
    view.apply(&rubbish(5));
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(made.chap(ESX).unwrap().1.is_empty());
    gone(&mut view, key);
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(made.initiator(ESX).is_none());
}

#[test]
fn initiators_are_warned_where_the_pool_is_as_full_as_the_target_says() {
    let mut view = view();
    let group = map::Group {
        index: GroupIndex(0),
        epoch: Epoch(1),
        members: vec![StoreId(1), StoreId(2)],
        in_sync: vec![StoreId(1), StoreId(2)],
        syncing: Vec::new(),
    };
    put(&mut view, map::group_key(PoolId(1), GroupIndex(0)), &group);
    let fill = |view: &mut View, free_bytes: u64| {
        let of = |store: u128, capacity_bytes: u64, free_bytes: u64| StoreSpace {
            store: StoreId(store),
            capacity_bytes,
            free_bytes,
        };
        // The third store is another pool's.
        let condition = Condition {
            stores: vec![of(1, 1000, free_bytes), of(2, 1000, free_bytes), of(3, 1000, 0)],
            troubles: Vec::new(),
        };
        put(view, condition_key(NodeId(1), 0), &condition);
    };
    let mut cataloguer = cataloguer(None);
    assert_eq!(
        unit(&cataloguer.make(&view, |_| true).unwrap(), 0).space,
        None,
        "nobody has told yet"
    );
    fill(&mut view, 200);
    let space = unit(&cataloguer.make(&view, |_| true).unwrap(), 0).space.unwrap();
    assert_eq!(
        (space.used_bytes, space.total_bytes, space.warning_percent),
        (1600, 2000, 85)
    );
    assert!(!space.is_scarce());
    // Less than a percent more is nothing new.
    fill(&mut view, 191);
    assert!(cataloguer.make(&view, |_| true).is_none());
    fill(&mut view, 150);
    assert!(
        unit(&cataloguer.make(&view, |_| true).unwrap(), 0)
            .space
            .unwrap()
            .is_scarce()
    );
    let patient = IscsiTarget {
        space_warning_percent: Some(90),
        ..target(vec![lun(0, None)])
    };
    put(&mut view, map::iscsi_target_key("db"), &patient);
    assert!(
        !unit(&cataloguer.make(&view, |_| true).unwrap(), 0)
            .space
            .unwrap()
            .is_scarce()
    );
}

#[test]
fn initiators_move_volumes_where_the_target_says_so() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(!made.scsi.target(IQN).unwrap().explicit_access);
    let moving = IscsiTarget {
        initiators_move: true,
        ..target(vec![lun(0, None)])
    };
    put(&mut view, map::iscsi_target_key("db"), &moving);
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(made.scsi.target(IQN).unwrap().explicit_access);
}

/// A token that one gateway has made is opened by all that have the cluster's sealing key.
#[test]
fn gateways_with_one_sealing_key_have_one_key_for_tokens() {
    let (view, key) = (view(), Arc::new(SealKey::generate()));
    let tokens = |node: u32, key: Option<&Arc<SealKey>>| {
        let mut cataloguer = IscsiCataloguer::new(NodeId(node), key.cloned());
        cataloguer.make(&view, |_| false).unwrap().scsi.tokens.clone()
    };
    assert!(tokens(1, None).is_some() && tokens(1, None) != tokens(1, None));
    assert_eq!(tokens(1, Some(&key)), tokens(2, Some(&key)));
    assert_ne!(tokens(1, Some(&key)), tokens(1, Some(&Arc::new(SealKey::generate()))));
}

/// Whoever can write the metadata, and means harm, ends no node by it, and has nothing said to initiators that is no name.
#[test]
fn spoiled_records_end_nothing_and_what_is_shown_is_in_order() {
    let records = [
        (
            map::iscsi_target_key("db"),
            serde_json::to_value(target(vec![lun(0, None), lun(5, Some(3))])).unwrap(),
        ),
        (
            map::iscsi_initiator_key(LINUX),
            serde_json::to_value(initiator(Some("sealed:1:AAAA".to_owned()), None)).unwrap(),
        ),
        (
            map::iscsi_gateway_key("n1"),
            serde_json::to_value(gateway(1, 11, &["192.0.2.1:3260"])).unwrap(),
        ),
        (
            map::iscsi_gateway_key("n2"),
            serde_json::to_value(gateway(2, 11, &["192.0.2.2:3260"])).unwrap(),
        ),
    ];
    let others: Vec<serde_json::Value> = records.iter().map(|(_, record)| record.clone()).collect();
    let (mut shown, mut left_out) = (0, 0);
    for seed in 0..500 {
        let mut random = amita_testkit::Random::new(seed);
        let mut view = view();
        let mut cataloguer = cataloguer(None);
        for (key, record) in &records {
            let mut spoiled = record.clone();
            let changes = random.below(4);
            amita_testkit::spoil::spoil(&mut random, &mut spoiled, &others, changes);
            put(&mut view, key.clone(), &spoiled);
        }
        // Another target of the same name, and one that no command makes.
        let twin = IscsiTarget {
            name: "twin\n".to_owned(),
            ..target(Vec::new())
        };
        put(&mut view, map::iscsi_target_key("twin"), &twin);
        let rubbish = IscsiTarget {
            iqn: "iqn.2026-11.io.amita:x\0TargetName=y".to_owned(),
            ..target(Vec::new())
        };
        put(&mut view, map::iscsi_target_key("x"), &rubbish);
        let made = cataloguer.make(&view, |_| true).expect("the first");
        let tags: Vec<u16> = made.scsi.groups.iter().map(|group| group.tag).collect();
        assert!(
            tags.is_sorted_by(|a, b| a < b) && !tags.contains(&0),
            "{seed}: {tags:?}"
        );
        let names: Vec<&str> = made.scsi.targets.iter().map(|target| target.name.as_str()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{seed}: {names:?}");
        assert!(names.iter().all(|name| !name.contains('\0')), "{seed}: {names:?}");
        for target in &made.scsi.targets {
            assert!(target.units.is_sorted_by(|a, b| a.number < b.number), "{seed}");
            assert!(target.units.iter().all(|unit| unit.is_sound()), "{seed}");
            assert!(target.initiators.is_sorted_by(|a, b| a.name < b.name), "{seed}");
            let mut masks = target.initiators.iter().filter_map(|access| access.mask.as_ref());
            assert!(masks.all(|mask| mask.is_sorted()), "{seed}");
            let detail = made.detail(&target.name).expect("each has one");
            assert!(!detail.alias.contains('\n'), "{seed}");
            shown += target.units.len();
            left_out += 2 - target.units.len().min(2);
        }
        assert!(made.initiators.is_sorted_by(|a, b| a.name < b.name), "{seed}");
        assert!(made.chap(LINUX).is_none_or(|(_, secret)| secret.is_empty()), "{seed}");
    }
    assert!(shown > 100 && left_out > 100, "{shown}, {left_out}");
}
