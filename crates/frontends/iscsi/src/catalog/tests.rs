use super::*;
use amita_frontend::reservation::State;
use amita_scsi::Group;
use amita_types::{NodeId, VolumeId};

fn catalog() -> Catalog {
    let group = |tag, node, alive| Group {
        tag,
        node: NodeId(node),
        name: format!("n{node}"),
        alive,
    };
    let portal = |text: &str| text.parse().expect("an address");
    Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            node: NodeId(2),
            groups: vec![group(1, 1, true), group(2, 2, false), group(3, 3, false)],
            ..amita_scsi::Catalog::default()
        }),
        portals: BTreeMap::from([
            (1, vec![portal("192.0.2.1:3260"), portal("[2001:db8::1]:3260")]),
            (2, vec![portal("192.0.2.2:3260")]),
            (3, vec![portal("192.0.2.3:3260")]),
        ]),
        ..Catalog::default()
    }
}

#[test]
fn portals_of_gateways_that_live() {
    let catalog = catalog();
    let target = Target {
        name: "iqn.2026-01.test:t".into(),
        groups: vec![1, 2, 3, 9],
        units: Vec::new(),
        initiators: Vec::new(),
        any_initiator: true,
        explicit_access: false,
    };
    let told: Vec<String> = catalog
        .portals_of(&target)
        .map(|(portal, tag)| target_address(portal, Some(tag)))
        .collect();
    // This gateway lives, whatever is known of it.
    assert_eq!(told, ["192.0.2.1:3260,1", "[2001:db8::1]:3260,1", "192.0.2.2:3260,2"]);
    assert_eq!(catalog.tag(), Some(2));
    assert_eq!(catalog.target_here("iqn.2026-01.test:t"), None);
}

#[test]
fn initiators_are_found_by_their_names() {
    let initiator = |name: &str, secret: Option<&[u8]>| {
        Arc::new(Initiator {
            name: name.into(),
            user: "user".into(),
            chap: secret.map(|secret| Secret::new(secret.to_vec())),
            chap_target: None,
            target_user: None,
        })
    };
    let catalog = Catalog {
        initiators: vec![initiator("iqn.a", None), initiator("iqn.b", Some(b"secret"))],
        ..Catalog::default()
    };
    assert!(catalog.initiator("iqn.a").is_some() && catalog.chap("iqn.a").is_none());
    assert_eq!(
        catalog.chap("iqn.b").map(|(_, secret)| secret.as_bytes()),
        Some(&b"secret"[..])
    );
    assert!(catalog.initiator("iqn.c").is_none());
    assert_eq!(
        format!("{:?}", catalog.chap("iqn.b").map(|(_, secret)| secret)),
        "Some((secret))"
    );
}

#[test]
fn targets_that_want_a_proof_are_barred_without() {
    let target = |name: &str, any_initiator| {
        Arc::new(Target {
            name: name.into(),
            groups: vec![1],
            units: Vec::new(),
            initiators: Vec::new(),
            any_initiator,
            explicit_access: false,
        })
    };
    let strict = TargetDetail {
        chap_required: true,
        ..TargetDetail::default()
    };
    let mut catalog = Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            targets: vec![target("iqn.a", true), target("iqn.b", true), target("iqn.c", false)],
            ..amita_scsi::Catalog::default()
        }),
        details: ["iqn.a", "iqn.c", "iqn.d"]
            .map(|name| (name.to_owned(), strict.clone()))
            .into(),
        ..Catalog::default()
    };
    let common = Common::of(&catalog, &Common::default());
    assert_eq!(common.barring.names("iqn.host"), ["iqn.a"]);
    // What has nothing to do with who may log in is no news, whatever it is.
    let mut scsi = amita_scsi::Catalog::clone(&catalog.scsi);
    Arc::make_mut(&mut scsi.targets[0]).explicit_access = true;
    catalog.scsi = Arc::new(scsi.clone());
    let again = Common::of(&catalog, &common);
    assert!(Arc::ptr_eq(&again.barring, &common.barring));
    Arc::make_mut(&mut scsi.targets[2])
        .initiators
        .push(Arc::new(amita_scsi::Access {
            name: "iqn.host".into(),
            mask: None,
        }));
    catalog.scsi = Arc::new(scsi);
    let other = Common::of(&catalog, &again);
    assert_eq!(other.barring.names("iqn.host"), ["iqn.a", "iqn.c"]);
    assert_eq!(other.barring.names("iqn.guest"), ["iqn.a"]);
    catalog.details.clear();
    assert!(Common::of(&catalog, &other).barring.names("iqn.host").is_empty());
}

#[test]
fn what_was_reset_is_found_once_for_all_sessions() {
    let with = |counts: &[(u64, u64)]| {
        let state = |&(volume, resets)| {
            let state = State {
                resets,
                ..State::default()
            };
            (VolumeId(volume), Arc::new(state))
        };
        Catalog {
            scsi: Arc::new(amita_scsi::Catalog {
                reservations: counts.iter().map(state).collect(),
                ..amita_scsi::Catalog::default()
            }),
            ..Catalog::default()
        }
    };
    let first = Common::of(&with(&[(1, 0), (2, 3)]), &Common::default());
    assert_eq!(first.resets.iter().collect::<Vec<_>>(), [(&VolumeId(2), &3)]);
    // A volume that is reserved, and was never reset, is none of their news.
    let reserved = Common::of(&with(&[(1, 0), (2, 3), (4, 0)]), &first);
    assert!(Arc::ptr_eq(&reserved.resets, &first.resets));
    for counts in [&[(2, 4)][..], &[(2, 3), (4, 1)], &[]] {
        assert!(!Arc::ptr_eq(&Common::of(&with(counts), &first).resets, &first.resets));
    }
}
