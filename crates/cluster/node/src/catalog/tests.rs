use super::{Cataloguer, discovery_nqn};
use crate::control::Record;
use crate::view::View;
use amita_frontend::reservation;
use amita_keys::SealKey;
use amita_nvme::Ana;
use amita_types::map::{self, PoolKind};
use amita_types::{ClusterId, Generation, NodeId, PoolId, SnapshotId, VolumeId};
use serde::Serialize;
use std::sync::Arc;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555";
const NQN: &str = "nqn.2026-11.io.amita:test:db";

fn put(view: &mut View, key: String, record: &impl Serialize) {
    let value = serde_json::to_vec(record).unwrap();
    view.apply(&Record {
        key,
        value: Some(value),
        revision: 1,
        created: 1,
    });
}

fn host(nqn: &str, dhchap: Option<String>) -> map::Host {
    map::Host {
        nqn: nqn.to_owned(),
        dhchap,
        dhchap_controller: None,
        tls: None,
    }
}

fn subsystem(any_host: bool, hosts: &[&str]) -> map::Subsystem {
    map::Subsystem {
        name: "db".to_owned(),
        nqn: NQN.to_owned(),
        serial: "1".to_owned(),
        gateways: Vec::new(),
        any_host,
        tls_required: false,
        hosts: hosts.iter().map(ToString::to_string).collect(),
        namespaces: vec![map::Namespace {
            nsid: 1,
            volume: VolumeId(7),
            uuid: map::Namespace::uuid_of(ClusterId(5), VolumeId(7)),
            block_bytes: 4096,
            snapshot: None,
        }],
    }
}

fn volume(owner: Option<u32>, size_bytes: u64) -> map::Volume {
    map::Volume {
        generation: Generation(1),
        owner: owner.map(NodeId),
        ..map::Volume::new(VolumeId(7), "v", "p", size_bytes)
    }
}

fn view() -> View {
    let mut view = View::default();
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
    put(&mut view, map::subsystem_key("db"), &subsystem(false, &[HOST]));
    put(&mut view, map::host_key(HOST), &host(HOST, None));
    view
}

fn cataloguer(key: Option<SealKey>) -> Cataloguer {
    Cataloguer::new(NodeId(1), ClusterId(5), key.map(Arc::new))
}

#[test]
fn is_made_anew_only_when_something_has_changed() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let first = cataloguer.make(&view, |_| false).expect("the first");
    assert_eq!(
        (first.revision, first.discovery_nqn.clone()),
        (1, discovery_nqn(ClusterId(5)))
    );
    assert!(cataloguer.make(&view, |_| false).is_none());
    put(&mut view, map::volume_key("v"), &volume(Some(1), 2 << 30));
    let second = cataloguer.make(&view, |_| false).expect("it has grown");
    let namespace = second.subsystem(NQN).unwrap().namespace(1).unwrap().clone();
    assert_eq!((second.revision, namespace.size_bytes), (2, 2 << 30));
}

#[test]
fn the_owner_with_the_volume_open_is_the_optimized_way() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let mut state = |view: &View, open: bool| {
        let made = cataloguer.make(view, |_| open).expect("changed");
        let subsystem = made.subsystem(NQN).unwrap().clone();
        (subsystem.namespace(1).unwrap().ana, subsystem.ana_changes)
    };
    assert_eq!(
        state(&view, false),
        (Ana::NonOptimized, 1),
        "its record names us, and it is not open yet"
    );
    assert_eq!(state(&view, true), (Ana::Optimized, 2));
    put(&mut view, map::volume_key("v"), &volume(Some(2), 1 << 30));
    assert_eq!(state(&view, true), (Ana::NonOptimized, 3), "another has taken it");
}

#[test]
fn a_host_without_a_record_is_not_let_in() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    put(&mut view, map::subsystem_key("db"), &subsystem(false, &[HOST, OTHER]));
    let made = cataloguer.make(&view, |_| false).unwrap();
    let subsystem = made.subsystem(NQN).unwrap();
    assert!(subsystem.host(HOST).is_some() && subsystem.host(OTHER).is_none());
}

#[test]
fn secrets_are_opened_with_the_clusters_key() {
    let key = SealKey::generate();
    let sealed = key.seal(HOST, "dhchap", "DHHC-1:00:secret:").unwrap();
    let mut view = view();
    put(&mut view, map::host_key(HOST), &host(HOST, Some(sealed)));
    let made = cataloguer(Some(key)).make(&view, |_| false).unwrap();
    let access = made.subsystem(NQN).unwrap().host(HOST).unwrap().clone();
    assert_eq!(access.dhchap.as_ref().unwrap().0, "DHHC-1:00:secret:");
    assert!(!format!("{access:?}").contains("secret:"), "it is never shown");
}

#[test]
fn a_secret_that_does_not_open_bars_its_host_also_where_any_may_come() {
    let sealed = SealKey::generate().seal(HOST, "dhchap", "DHHC-1:00:secret:").unwrap();
    let mut view = view();
    put(&mut view, map::host_key(HOST), &host(HOST, Some(sealed)));
    put(&mut view, map::subsystem_key("db"), &subsystem(true, &[]));
    for key in [None, Some(SealKey::generate())] {
        let mut cataloguer = cataloguer(key);
        let made = cataloguer.make(&view, |_| false).unwrap();
        let subsystem = made.subsystem(NQN).unwrap();
        let access = subsystem.host(HOST).expect("it is held to its secret").clone();
        assert_eq!(
            access.dhchap.as_ref().map(|secret| secret.0.as_str()),
            Some(""),
            "and none fits"
        );
        assert_eq!(cataloguer.warnings().count(), 1);
        put(&mut view, map::volume_key("v"), &volume(Some(1), 3 << 30));
        cataloguer.make(&view, |_| false);
        assert_eq!(cataloguer.warnings().count(), 0, "it is said once");
    }
}

#[test]
fn a_secret_that_is_replaced_is_forgotten() {
    let (right, wrong) = (SealKey::generate(), SealKey::generate());
    let (mut view, mut cataloguer) = (view(), cataloguer(Some(right.clone())));
    let other = map::Subsystem {
        name: "web".to_owned(),
        nqn: format!("{NQN}-2"),
        ..subsystem(false, &[HOST])
    };
    put(&mut view, map::subsystem_key("web"), &other);
    for turn in 0..10 {
        for (key, opens) in [(&right, true), (&wrong, false)] {
            let sealed = key.seal(HOST, "dhchap", &format!("DHHC-1:00:{turn}:")).unwrap();
            put(&mut view, map::host_key(HOST), &host(HOST, Some(sealed)));
            let made = cataloguer.make(&view, |_| false).expect("another secret");
            for nqn in [NQN, &other.nqn] {
                let access = made.subsystem(nqn).unwrap().host(HOST).unwrap().clone();
                assert_eq!(access.dhchap.as_ref().unwrap().0.is_empty(), !opens, "{turn}");
            }
            assert_eq!(cataloguer.opened.len() + cataloguer.refused.len(), 1, "{turn}");
            assert_eq!(cataloguer.warnings().count(), usize::from(!opens), "{turn}");
        }
    }
}

#[test]
fn a_host_whose_record_cannot_be_read_is_let_in_by_nobody() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    put(&mut view, map::subsystem_key("db"), &subsystem(true, &[]));
    let rubbish = |revision| Record {
        key: map::host_key(OTHER),
        value: Some(b"{\"nqn\":7}".to_vec()),
        revision,
        created: 1,
    };
    let gone = |view: &mut View| {
        view.apply(&Record {
            value: None,
            ..rubbish(9)
        });
    };
    let told = view.apply(&rubbish(1));
    assert!(told.concerns_hosts(), "{told:?}");
    let made = cataloguer.make(&view, |_| false).unwrap();
    let access = made
        .subsystem(NQN)
        .unwrap()
        .host(OTHER)
        .expect("it is no anybody")
        .clone();
    assert_eq!(access.dhchap.as_ref().unwrap().0, "", "no secret fits");
    assert!(
        made.subsystem(NQN).unwrap().host(HOST).is_none(),
        "others have nothing to show"
    );
    // One that can be read counts, and counts on when another one cannot.
    put(&mut view, map::host_key(OTHER), &host(OTHER, None));
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(made.subsystem(NQN).unwrap().host(OTHER).is_none());
    view.apply(&rubbish(3));
    assert!(cataloguer.make(&view, |_| false).is_none());
    // Also where it is named.
    gone(&mut view);
    put(&mut view, map::subsystem_key("db"), &subsystem(false, &[OTHER]));
    view.apply(&rubbish(5));
    let made = cataloguer.make(&view, |_| false).unwrap();
    let access = made.subsystem(NQN).unwrap().host(OTHER).unwrap().clone();
    assert!(access.has_to_prove() && access.dhchap.as_ref().unwrap().0.is_empty());
    gone(&mut view);
    let made = cataloguer.make(&view, |_| false).unwrap();
    assert!(made.subsystem(NQN).unwrap().host(OTHER).is_none());
}

#[test]
fn a_snapshot_is_a_namespace_of_its_own_size() {
    let (mut view, mut cataloguer) = (view(), cataloguer(None));
    let snapshot = SnapshotId(3);
    let mut with_both = subsystem(false, &[HOST]);
    with_both.namespaces.push(map::Namespace {
        nsid: 2,
        volume: VolumeId(7),
        uuid: map::Namespace::uuid_of_snapshot(ClusterId(5), VolumeId(7), snapshot),
        block_bytes: 4096,
        snapshot: Some(map::NamespaceSnapshot {
            number: snapshot,
            size_bytes: 1 << 20,
        }),
    });
    put(&mut view, map::subsystem_key("db"), &with_both);
    let state = reservation::State {
        generation: 1,
        ..reservation::State::default()
    };
    put(&mut view, map::reservation_key(VolumeId(7)), &state);
    let made = cataloguer.make(&view, |_| true).expect("the first");
    let subsystem = made.subsystem(NQN).unwrap().clone();
    let [head, snapshot] = [1, 2].map(|nsid| subsystem.namespace(nsid).unwrap().clone());
    assert!(!head.is_write_protected() && snapshot.is_write_protected());
    assert_eq!((head.size_bytes, snapshot.size_bytes), (1 << 30, 1 << 20));
    assert_ne!((head.uuid, head.nguid), (snapshot.uuid, snapshot.nguid));
    assert_eq!((head.ana, snapshot.ana), (Ana::Optimized, Ana::Optimized));
    // The volume grows, and its snapshot does not.
    put(&mut view, map::volume_key("v"), &volume(Some(1), 2 << 30));
    let made = cataloguer.make(&view, |_| true).expect("it has grown");
    let subsystem = made.subsystem(NQN).unwrap().clone();
    let sizes = [1, 2].map(|nsid| subsystem.namespace(nsid).unwrap().size_bytes);
    assert_eq!(sizes, [2 << 30, 1 << 20]);
    // Clients of NBD are in nobody's way who reads what was.
    assert!(view.is_namespace(VolumeId(7)));
    with_both.namespaces.remove(0);
    put(&mut view, map::subsystem_key("db"), &with_both);
    assert!(!view.is_namespace(VolumeId(7)));
    let made = cataloguer.make(&view, |_| true).expect("another one");
    assert!(made.reservations.is_empty(), "nobody reserves a snapshot");
    // Of a deleted volume nothing is served.
    let record = volume(Some(1), 2 << 30);
    let hidden = map::hidden_name(record.id);
    view.apply(&Record {
        key: map::volume_key("v"),
        value: None,
        revision: 2,
        created: 0,
    });
    let deleted = map::Volume {
        name: hidden.clone(),
        ..record
    };
    put(&mut view, map::volume_key(&hidden), &deleted);
    let made = cataloguer.make(&view, |_| false).expect("it is gone");
    assert!(made.subsystem(NQN).unwrap().namespaces.is_empty());
}
