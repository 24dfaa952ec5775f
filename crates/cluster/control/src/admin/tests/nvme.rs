//! Subsystems, namespaces, hosts, and what volumes are used for.

use super::*;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732";

fn made(name: &str) -> SubsystemSpec {
    SubsystemSpec {
        name: name.to_owned(),
        ..SubsystemSpec::default()
    }
}

/// Three nodes, a pool, and volumes `a`, `b` and `c`.
fn ground() -> Mutex<State> {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for name in ["a", "b", "c"] {
        create_volume(&meta, name, "main", 1 << 30).unwrap();
    }
    meta
}

/// Writes a volume's owner, as a takeover does.
fn taken_over(meta: &dyn Transact, name: &str, owner: NodeId) {
    let key = map::volume_key(name);
    let (mut found, revision) = get::<Volume>(meta, &key).unwrap().unwrap();
    found.generation = found.generation.next().unwrap();
    found.owner = Some(owner);
    assert!(put_if(meta, &key, revision, &found).unwrap());
}

/// Metadata in which somebody else does something before the `at`-th call.
pub(super) struct Meanwhile<'a> {
    meta: &'a Mutex<State>,
    calls: AtomicUsize,
    at: usize,
    act: &'a (dyn Fn(&dyn Transact) + Sync),
}

impl<'a> Meanwhile<'a> {
    pub(super) fn new(meta: &'a Mutex<State>, at: usize, act: &'a (dyn Fn(&dyn Transact) + Sync)) -> Meanwhile<'a> {
        let calls = AtomicUsize::new(0);
        Meanwhile { meta, calls, at, act }
    }

    /// How many there were.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Transact for Meanwhile<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            (self.act)(self.meta);
        }
        self.meta.txn(call)
    }
}

#[test]
fn what_is_a_qualified_name() {
    let long = format!("nqn.2014-08.com.example:{}", "x".repeat(MAX_NQN_BYTES - 24));
    assert_eq!(long.len(), MAX_NQN_BYTES);
    for good in [
        HOST,
        "nqn.2014-08.com.example:nvme:nvm-subsystem-sn-d78432",
        "nqn.2014-08.com.vmware:nvme:esx-1",
        "nqn.1991-12.org.a-b.c:\u{e4}",
        &long,
    ] {
        assert_eq!(check_nqn("host", good), Ok(()), "{good}");
    }
    let longer = format!("{long}x");
    for (bad, why) in [
        ("", "does not begin"),
        ("iqn.2014-08.com.example:x", "does not begin"),
        ("nqn.2014-08", "the form is"),
        ("nqn.2014-13.com.example:x", "no year and month"),
        ("nqn.2014-00.com.example:x", "no year and month"),
        ("nqn.14-08.com.example:x", "no year and month"),
        ("nqn.2014-08.com.example", "no ':'"),
        ("nqn.2014-08.com..example:x", "no domain name"),
        ("nqn.2014-08.-com.example:x", "no domain name"),
        ("nqn.2014-08.com.example:", "nothing follows"),
        ("nqn.2014-08.com.example:a b", "contains ' '"),
        ("nqn.2014-08.com.example:a\nb", "contains '\\n'"),
        ("nqn.2014-08.org.nvmexpress.discovery", "every discovery service"),
        ("nqn.2014-08.org.nvmexpress:uuid:4c4c4544", "no UUID"),
        (
            "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e373g",
            "no UUID",
        ),
        (&longer, "at most 223"),
    ] {
        let said = check_nqn("host", bad).unwrap_err().to_string();
        assert!(said.contains(why), "{bad:?}: {said}");
    }
}

#[test]
fn a_subsystem_denies_everybody_and_has_names_of_its_own() {
    let meta = ground();
    let first = create_subsystem(&meta, &made("db")).unwrap();
    assert_eq!(first.nqn, "nqn.2026-11.io.amita:00000000:db");
    assert_eq!(check_nqn("subsystem", &first.nqn), Ok(()));
    assert!(!first.any_host && first.hosts.is_empty() && first.gateways.is_empty());
    let second = create_subsystem(&meta, &made("web")).unwrap();
    assert_ne!(first.serial, second.serial);
    assert_eq!(second.serial.len(), 16);
    assert_eq!(subsystems(&meta).unwrap().readable, [first.clone(), second]);
    assert_eq!(
        create_subsystem(&meta, &made("db")),
        Err(AdminError::Exists {
            what: "subsystem",
            name: "db".to_owned()
        })
    );
    let same_nqn = SubsystemSpec {
        nqn: Some(first.nqn),
        ..made("other")
    };
    let said = create_subsystem(&meta, &same_nqn).unwrap_err().to_string();
    assert!(said.contains("is the qualified name of subsystem db"), "{said}");
    let nowhere = SubsystemSpec {
        gateways: vec!["n1".to_owned(), "n9".to_owned()],
        ..made("other")
    };
    let said = create_subsystem(&meta, &nowhere).unwrap_err().to_string();
    assert_eq!(said, "there is no node named n9; there are n1, n2, n3");
    let nqn_of_a_longer_name = default_nqn(ClusterId(u128::MAX), &"x".repeat(128));
    assert_eq!(check_nqn("subsystem", &nqn_of_a_longer_name), Ok(()));
}

#[test]
fn a_subsystem_changes_and_goes() {
    let meta = ground();
    create_subsystem(&meta, &made("db")).unwrap();
    let change = SubsystemChange {
        gateways: Some(vec!["n2".to_owned()]),
        any_host: Some(true),
        tls_required: Some(true),
    };
    let changed = set_subsystem(&meta, "db", &change).unwrap();
    assert_eq!((changed.any_host, changed.gateways), (true, vec!["n2".to_owned()]));
    assert!(changed.tls_required);
    let back = SubsystemChange {
        gateways: Some(Vec::new()),
        any_host: None,
        tls_required: None,
    };
    let changed = set_subsystem(&meta, "db", &back).unwrap();
    assert_eq!((changed.any_host, changed.gateways), (true, Vec::new()));
    assert!(changed.tls_required, "what is not named stays");
    add_namespace(&meta, "db", "a", None, 4096).unwrap();
    let refused = delete_subsystem(&meta, "db", false).unwrap_err();
    assert!(
        matches!(refused, AdminError::HasNamespaces { namespaces: 1, .. }),
        "{refused}"
    );
    delete_subsystem(&meta, "db", true).unwrap();
    let said = subsystem(&meta, "db").unwrap_err().to_string();
    assert_eq!(
        said,
        "there is no subsystem named db; there are no subsystems at all: make one with `amita subsystem create`"
    );
    volume(&meta, "a").expect("its volumes stay");
}

#[test]
fn two_subsystems_made_at_once_do_not_share_a_qualified_name() {
    let meta = ground();
    let nqn = "nqn.2014-08.com.example:one".to_owned();
    let of = |name: &str| SubsystemSpec {
        nqn: Some(nqn.clone()),
        ..made(name)
    };
    // The third call writes: the list was read before the other one was there.
    for at in 0..4 {
        let name = format!("theirs{at}");
        let act = |meta: &dyn Transact| drop(create_subsystem(meta, &of(&name)).unwrap());
        let raced = Meanwhile {
            meta: &meta,
            calls: AtomicUsize::new(0),
            at,
            act: &act,
        };
        let result = create_subsystem(&raced, &of("ours"));
        assert!(matches!(result, Err(AdminError::BadSetting { .. })), "{at}: {result:?}");
        delete_subsystem(&meta, &name, false).unwrap();
    }
}

#[test]
fn a_namespace_has_a_number_and_a_name_that_stay() {
    let meta = ground();
    create_subsystem(&meta, &made("db")).unwrap();
    let a = add_namespace(&meta, "db", "a", None, 4096).unwrap();
    let b = add_namespace(&meta, "db", "b", Some(7), 512).unwrap();
    let c = add_namespace(&meta, "db", "c", None, 512).unwrap();
    assert_eq!((a.nsid, b.nsid, c.nsid), (1, 7, 8));
    assert_eq!(a.uuid.get_version_num(), 8);
    assert!(a.uuid != b.uuid && b.uuid != c.uuid && a.uuid != c.uuid);
    let listed = namespaces_of(&meta, "db").unwrap();
    let names: Vec<_> = listed.iter().map(|known| known.volume_name.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("b"), Some("c")]);
    assert_eq!(listed[0].size_bytes, Some(1 << 30));
    assert_eq!(remove_namespace(&meta, "db", 7).unwrap(), b);
    create_subsystem(&meta, &made("web")).unwrap();
    let again = add_namespace(&meta, "web", "b", None, 512).unwrap();
    assert_eq!(again.uuid, b.uuid, "the same disk elsewhere");
    assert_eq!(namespace_of(&meta, "b").unwrap().1.unwrap().subsystem, "web");
}

#[test]
fn namespaces_that_cannot_be() {
    let meta = ground();
    create_subsystem(&meta, &made("db")).unwrap();
    create_subsystem(&meta, &made("web")).unwrap();
    add_namespace(&meta, "db", "a", Some(5), 4096).unwrap();
    let refused = |subsystem: &str, volume: &str, nsid: Option<u32>, block: u32| {
        add_namespace(&meta, subsystem, volume, nsid, block)
            .unwrap_err()
            .to_string()
    };
    assert!(refused("db", "b", Some(5), 4096).contains("has a namespace 5 already"));
    assert!(refused("db", "b", Some(0), 4096).contains("no number of a namespace"));
    assert!(refused("db", "b", Some(MAX_NAMESPACES + 1), 4096).contains("choose 1 to 1024"));
    assert!(refused("db", "b", None, 520).contains("choose 512 or 4096"));
    assert!(refused("db", "x", None, 512).contains("no volume named x; there are a, b, c"));
    assert!(refused("x", "b", None, 512).contains("no subsystem named x; there are db, web"));
    assert!(refused("web", "a", None, 512).contains("is namespace 5 of subsystem db"));
    let said = remove_namespace(&meta, "db", 6).unwrap_err().to_string();
    assert_eq!(said, "there is no namespace named 6; there is 5");
}

#[test]
fn a_subsystem_is_full_at_its_limit_and_uses_free_numbers_again() {
    let meta = ground();
    create_subsystem(&meta, &made("db")).unwrap();
    let (mut full, revision) = get::<map::Subsystem>(&meta, &map::subsystem_key("db"))
        .unwrap()
        .unwrap();
    for nsid in 1..=MAX_NAMESPACES {
        full.namespaces.push(map::Namespace {
            nsid,
            volume: amita_types::VolumeId(10_000 + u64::from(nsid)),
            uuid: map::Namespace::uuid_of(ClusterId(9), amita_types::VolumeId(10_000 + u64::from(nsid))),
            block_bytes: 4096,
            snapshot: None,
        });
    }
    assert!(put_if(&meta, &map::subsystem_key("db"), revision, &full).unwrap());
    let said = add_namespace(&meta, "db", "a", None, 4096).unwrap_err().to_string();
    assert_eq!(
        said,
        "subsystem db has 1024 namespaces, and more are not possible: take away first what is not needed"
    );
    remove_namespace(&meta, "db", 17).unwrap();
    assert_eq!(add_namespace(&meta, "db", "a", None, 4096).unwrap().nsid, 17);
}

#[test]
fn a_volume_in_use_is_not_deleted_whoever_is_faster() {
    let meta = ground();
    create_subsystem(&meta, &made("db")).unwrap();
    add_namespace(&meta, "db", "a", None, 4096).unwrap();
    let refused = delete(&meta, "a", false).unwrap_err();
    assert!(matches!(refused, AdminError::Attached { nsid: 1, .. }), "{refused}");
    delete(&meta, "a", true).unwrap();
    assert!(
        subsystem(&meta, "db").unwrap().namespaces.is_empty(),
        "and with it the namespace"
    );

    // A namespace that comes at whatever point of the deletion: either it is refused, or the deletion is.
    for at in 0..6 {
        let name = format!("v{at}");
        create_volume(&meta, &name, "main", 1 << 20).unwrap();
        let act = |meta: &dyn Transact| drop(add_namespace(meta, "db", &name, None, 4096));
        let raced = Meanwhile {
            meta: &meta,
            calls: AtomicUsize::new(0),
            at,
            act: &act,
        };
        let deleted = delete(&raced, &name, false).is_ok();
        let there = volume(&meta, &name).is_ok();
        let used = namespaces(&meta).unwrap().readable;
        assert_eq!(there, !deleted);
        assert!(
            used.iter().all(|known| known.volume_name.is_some()),
            "{at}: a namespace without a volume"
        );
    }
}

#[test]
fn a_volume_is_one_namespace_whoever_is_faster() {
    let meta = ground();
    for name in ["db", "web"] {
        create_subsystem(&meta, &made(name)).unwrap();
    }
    for at in 0..6 {
        let name = format!("v{at}");
        create_volume(&meta, &name, "main", 1 << 20).unwrap();
        let act = |meta: &dyn Transact| {
            add_namespace(meta, "db", &name, None, 4096).unwrap();
        };
        let raced = Meanwhile {
            meta: &meta,
            calls: AtomicUsize::new(0),
            at,
            act: &act,
        };
        let ours = add_namespace(&raced, "web", &name, None, 4096);
        let uses = namespaces(&meta).unwrap().readable;
        let uses = uses
            .iter()
            .filter(|known| known.volume_name.as_deref() == Some(&name))
            .count();
        let happened = raced.calls.load(Ordering::Relaxed) > at;
        assert_eq!(uses, 1, "{at}: {ours:?}");
        assert_eq!(ours.is_err(), happened, "{at}: {ours:?}");
    }
}

#[test]
fn hosts_are_allowed_by_name_and_keep_sealed_keys() {
    let meta = ground();
    create_subsystem(&meta, &made("db")).unwrap();
    let unknown = allow_host(&meta, "db", HOST).unwrap_err().to_string();
    assert!(
        unknown.contains("there are no hosts at all: add one with `amita host add`"),
        "{unknown}"
    );
    let keys = HostKeys {
        dhchap: Secret::Sealed("s1".to_owned()),
        tls: Secret::Sealed("s2".to_owned()),
        ..HostKeys::default()
    };
    let host = add_host(&meta, HOST, &keys).unwrap();
    assert_eq!((host.dhchap.as_deref(), host.tls.as_deref()), (Some("s1"), Some("s2")));
    assert!(matches!(add_host(&meta, HOST, &keys), Err(AdminError::Exists { .. })));
    assert!(matches!(
        add_host(&meta, "host1", &keys),
        Err(AdminError::BadName { .. })
    ));

    allow_host(&meta, "db", HOST).unwrap();
    assert_eq!(allow_host(&meta, "db", HOST).unwrap().hosts, [HOST], "twice is once");
    let refused = remove_host(&meta, HOST, false).unwrap_err();
    assert!(matches!(refused, AdminError::Allowed { .. }), "{refused}");

    let less = HostKeys {
        tls: Secret::Remove,
        dhchap_controller: Secret::Sealed("s3".to_owned()),
        ..HostKeys::default()
    };
    let changed = set_host_keys(&meta, HOST, &less).unwrap();
    assert_eq!((changed.dhchap.as_deref(), changed.tls), (Some("s1"), None));
    let without = HostKeys {
        dhchap: Secret::Remove,
        ..HostKeys::default()
    };
    let said = set_host_keys(&meta, HOST, &without).unwrap_err().to_string();
    assert!(said.contains("the host has to prove itself first"), "{said}");

    deny_host(&meta, "db", HOST).unwrap();
    let said = deny_host(&meta, "db", HOST).unwrap_err().to_string();
    assert!(said.ends_with("no host is"), "{said}");
    allow_host(&meta, "db", HOST).unwrap();
    remove_host(&meta, HOST, true).unwrap();
    assert!(subsystem(&meta, "db").unwrap().hosts.is_empty());
    assert!(hosts(&meta).unwrap().readable.is_empty());
}

/// One that is allowed and not known would have nothing to prove.
#[test]
fn a_host_that_is_let_in_meanwhile_keeps_its_secret_whoever_is_faster() {
    let meta = ground();
    create_subsystem(&meta, &made("db")).unwrap();
    for at in 0..8 {
        add_host(&meta, HOST, &HostKeys::default()).unwrap();
        let act = |meta: &dyn Transact| drop(allow_host(meta, "db", HOST).unwrap());
        let removed = remove_host(&Meanwhile::new(&meta, at, &act), HOST, false);
        let is_allowed = !subsystem(&meta, "db").unwrap().hosts.is_empty();
        assert_eq!(host(&meta, HOST).is_ok(), is_allowed, "{at}: {removed:?}");
        if is_allowed {
            assert!(matches!(removed, Err(AdminError::Allowed { .. })), "{at}: {removed:?}");
            remove_host(&meta, HOST, true).unwrap();
        }
    }
}

#[test]
fn secrets_are_sealed_anew_and_stay_what_others_make_them() {
    let meta = ground();
    let keys = HostKeys {
        dhchap: Secret::Sealed("old:a".to_owned()),
        tls: Secret::Sealed("old:b".to_owned()),
        ..HostKeys::default()
    };
    add_host(&meta, HOST, &keys).unwrap();
    let anew = |_: &'static str, sealed: &str| match sealed.split_once(':') {
        Some((_, text)) => Ok(format!("new:{text}")),
        None => Err(AdminError::NoCluster),
    };
    let act = |meta: &dyn Transact| {
        let other = HostKeys {
            dhchap: Secret::Sealed("old:c".to_owned()),
            tls: Secret::Remove,
            ..HostKeys::default()
        };
        set_host_keys(meta, HOST, &other).unwrap();
    };
    let raced = Meanwhile {
        meta: &meta,
        calls: AtomicUsize::new(0),
        at: 1,
        act: &act,
    };
    let found = reseal_host(&raced, HOST, anew).unwrap().unwrap();
    assert_eq!((found.dhchap.as_deref(), found.tls), (Some("new:c"), None));
    assert_eq!(reseal_host(&meta, "nqn.2014-08.com.example:x", anew), Ok(None));
    let damaged = HostKeys {
        dhchap: Secret::Sealed("old:d".to_owned()),
        tls: Secret::Sealed("damaged".to_owned()),
        ..HostKeys::default()
    };
    set_host_keys(&meta, HOST, &damaged).unwrap();
    assert_eq!(reseal_host(&meta, HOST, anew), Err(AdminError::NoCluster));
    let found = host(&meta, HOST).unwrap();
    assert_eq!(found.dhchap.as_deref(), Some("old:d"), "all or nothing");
}

#[test]
fn a_volume_grows_and_keeps_its_owner() {
    let meta = ground();
    taken_over(&meta, "a", NodeId(2));
    let grown = resize_volume(&meta, "a", 2 << 30).unwrap();
    assert_eq!(
        (grown.size_bytes, grown.generation, grown.owner),
        (2 << 30, Generation(1), Some(NodeId(2)))
    );
    assert_eq!(resize_volume(&meta, "a", 2 << 30).unwrap(), grown, "it has that size");
    let said = resize_volume(&meta, "a", 1 << 30).unwrap_err().to_string();
    assert!(said.contains("--shrink"), "{said}");
    assert!(resize_volume(&meta, "a", (2 << 30) + 1).is_err());
    assert!(matches!(
        resize_volume(&meta, "x", 1 << 30),
        Err(AdminError::NoSuch { .. })
    ));

    // A takeover between the reading and the writing: neither undoes the other.
    let act = |meta: &dyn Transact| taken_over(meta, "a", NodeId(3));
    let raced = Meanwhile {
        meta: &meta,
        calls: AtomicUsize::new(0),
        at: 1,
        act: &act,
    };
    let grown = resize_volume(&raced, "a", 3 << 30).unwrap();
    assert_eq!(
        (grown.size_bytes, grown.generation, grown.owner),
        (3 << 30, Generation(2), Some(NodeId(3)))
    );
    assert_eq!(volume(&meta, "a").unwrap(), grown);
}

fn serve_nvme(meta: &dyn Transact, name: &str) {
    let served = Served {
        fabric: "127.0.0.1:1",
        fabric2: None,
        nbd: None,
        nbd_socket: None,
        nvme: Some("127.0.0.1:4420"),
        metrics: None,
        api: None,
        cores: 1,
        gateway: false,
        unprotected: false,
    };
    register(meta, name, &served).unwrap();
}

#[test]
fn status_counts_and_tells_of_a_subsystem_that_nobody_serves() {
    let meta = ground();
    assert_eq!(status(&meta).unwrap().nvme, NvmeCounts::default());
    serve_nvme(&meta, "n1");
    serve_nvme(&meta, "n2");
    let named = SubsystemSpec {
        gateways: vec!["n3".to_owned()],
        ..made("db")
    };
    create_subsystem(&meta, &named).unwrap();
    let told = |status: &Status| {
        status
            .warnings
            .iter()
            .any(|line| line.contains("no node that lives serves it"))
    };
    assert!(!told(&status(&meta).unwrap()), "there is nothing to serve");
    add_namespace(&meta, "db", "a", None, 4096).unwrap();
    add_host(&meta, HOST, &HostKeys::default()).unwrap();
    let found = status(&meta).unwrap();
    assert!(told(&found), "{:?}", found.warnings);
    let counts = NvmeCounts {
        gateways: 2,
        alive: 2,
        subsystems: 1,
        namespaces: 1,
        hosts: 1,
    };
    assert_eq!(found.nvme, counts);
    let all = SubsystemChange {
        gateways: Some(Vec::new()),
        any_host: None,
        tls_required: None,
    };
    set_subsystem(&meta, "db", &all).unwrap();
    assert!(!told(&status(&meta).unwrap()));
}

#[test]
fn a_wish_for_an_owner_is_followed_to_its_end() {
    let meta = ground();
    taken_over(&meta, "a", NodeId(1));
    let said = move_volume(&meta, "a", "n2").unwrap_err().to_string();
    assert!(said.contains("it is no gateway"), "{said}");
    // One that speaks iSCSI alone is one.
    let portal = ["192.0.2.1:3260".parse().unwrap()];
    register_iscsi_gateway(&meta, "n2", NodeId(2), 1, &portal).unwrap();
    let first = move_volume(&meta, "a", "n2").unwrap();
    assert_eq!(move_state(&meta, &first).unwrap(), MoveState::Waiting);
    register_iscsi_gateway(&meta, "n2", NodeId(2), 1, &[]).unwrap();
    assert!(move_volume(&meta, "a", "n2").is_err(), "and no more");
    serve_nvme(&meta, "n2");
    serve_nvme(&meta, "n3");
    assert!(matches!(
        move_volume(&meta, "a", "n9"),
        Err(AdminError::NoSuch { what: "node", .. })
    ));
    assert!(matches!(
        move_volume(&meta, "x", "n2"),
        Err(AdminError::NoSuch { what: "volume", .. })
    ));

    let wish = move_volume(&meta, "a", "n2").unwrap();
    assert_eq!(move_state(&meta, &wish).unwrap(), MoveState::Waiting);
    // Another wish in its place: the first one is told so.
    let later = move_volume(&meta, "a", "n3").unwrap();
    assert_ne!(wish.number, later.number);
    assert_eq!(
        move_state(&meta, &wish).unwrap(),
        MoveState::Dropped { owner: Some(NodeId(1)) }
    );
    // The gateway carries it out.
    taken_over(&meta, "a", NodeId(3));
    assert_eq!(
        move_state(&meta, &later).unwrap(),
        MoveState::Waiting,
        "until the record is gone"
    );
    let id = volume(&meta, "a").unwrap().id;
    meta.txn(&Call {
        compares: Vec::new(),
        then: vec![Op::Delete { key: map::move_key(id) }],
        otherwise: Vec::new(),
    })
    .unwrap();
    assert_eq!(move_state(&meta, &later).unwrap(), MoveState::Done);

    // It cannot.
    let wish = move_volume(&meta, "a", "n2").unwrap();
    let refused = map::Move {
        refused: Some("no store can be reached".to_owned()),
        ..wish.clone()
    };
    meta.txn(&Call::put(map::move_key(id), json(&refused))).unwrap();
    assert_eq!(
        move_state(&meta, &wish).unwrap(),
        MoveState::Refused("no store can be reached".to_owned())
    );
    assert!(
        get::<map::Move>(&meta, &map::move_key(id)).unwrap().is_none(),
        "told once"
    );

    // It is taken back.
    let wish = move_volume(&meta, "a", "n2").unwrap();
    drop_move(&meta, &wish).unwrap();
    assert_eq!(
        move_state(&meta, &wish).unwrap(),
        MoveState::Dropped { owner: Some(NodeId(3)) }
    );
    // And goes with its volume.
    move_volume(&meta, "a", "n2").unwrap();
    delete(&meta, "a", true).unwrap();
    assert!(get::<map::Move>(&meta, &map::move_key(id)).unwrap().is_none());
}

#[test]
fn a_reservation_is_shown_and_cleared_only_where_nobody_has_the_volume() {
    let meta = ground();
    assert_eq!(reservation::<u32>(&meta, "a").unwrap(), None);
    let id = volume(&meta, "a").unwrap().id;
    meta.txn(&Call::put(map::reservation_key(id), json(&7_u32))).unwrap();
    assert_eq!(reservation::<u32>(&meta, "a").unwrap(), Some(7));
    taken_over(&meta, "a", NodeId(1));
    assert!(matches!(
        clear_reservation(&meta, "a", false),
        Err(AdminError::IsOpen { .. })
    ));
    assert_eq!(clear_reservation(&meta, "a", true), Ok(true));
    assert_eq!(clear_reservation(&meta, "a", true), Ok(false));
    assert_eq!(reservation::<u32>(&meta, "a").unwrap(), None);
}
