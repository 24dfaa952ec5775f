use super::*;
use amita_types::condition::{DiskLevel, StoreSpace};
use amita_types::map::{Node, PoolKind, Volume};
use amita_types::placement::Level;
use amita_types::{Generation, PoolId, VolumeId};

fn node(number: u32, alive: bool) -> NodeStatus {
    NodeStatus {
        node: Node {
            id: NodeId(number),
            name: format!("n{number}"),
            fabric: "127.0.0.1:1".to_owned(),
            fabric2: None,
            nbd: None,
            nbd_socket: None,
            nvme: None,
            metrics: None,
            api: None,
            cores: 1,
            site: String::new(),
            rack: String::new(),
            maintenance: false,
            client: false,
            gateway: false,
            unprotected: false,
        },
        alive,
        iscsi: Vec::new(),
        iscsi_tag: None,
    }
}

pub(super) fn store(number: u32, used_percent: u64) -> StoreStatus {
    let id = StoreId(u128::from(number));
    StoreStatus {
        store: crate::admin::store_record(id, NodeId(number), "/dev/x", 100 << 20),
        node_name: format!("n{number}"),
        alive: true,
        groups: 1,
        in_sync: 1,
        syncing: 0,
        named: 1,
        space: Some(StoreSpace {
            store: id,
            capacity_bytes: 100 << 20,
            free_bytes: (100 - used_percent) << 20,
        }),
    }
}

fn pool(stores: &[u32]) -> PoolStatus {
    PoolStatus {
        pool: Pool {
            id: PoolId(1),
            name: "main".to_owned(),
            kind: PoolKind::Replicated {
                copies: 2,
                min_copies: 1,
            },
            groups: 8,
            chunk_bytes: 4 << 20,
            failure_domain: Level::Node,
            class: None,
        },
        group_counts: GroupCounts {
            whole: 8,
            ..GroupCounts::default()
        },
        outlook: Outlook::default(),
        stores: stores.iter().map(|&number| StoreId(u128::from(number))).collect(),
        raw_bytes: 0,
        used_bytes: 0,
        fullest_percent: None,
    }
}

pub(super) fn volume(pool: &str) -> VolumeStatus {
    VolumeStatus {
        stable_id: VolumeId(3),
        export: None,
        created_at: None,
        labels: std::collections::BTreeMap::new(),
        protected: false,
        import: None,
        tenant: None,
        encrypted: false,
        data_key_since: None,
        locked: None,
        shrink: None,
        flatten: None,
        parent: None,
        clones: 0,
        volume: Volume {
            generation: Generation(1),
            ..Volume::new(VolumeId(3), "disk0", pool, 4096)
        },
        owner_name: None,
        owner_alive: false,
    }
}

fn target(gateways: &[&str], luns: u16) -> IscsiTarget {
    let lun = |number: u16| amita_types::map::IscsiLun {
        number,
        volume: VolumeId(u64::from(number) + 1),
        snapshot: None,
        uuid: Default::default(),
        block_bytes: 512,
        shared: false,
    };
    IscsiTarget {
        name: "vms".to_owned(),
        iqn: "iqn.2026-11.io.amita:1:vms".to_owned(),
        gateways: gateways.iter().map(ToString::to_string).collect(),
        any_initiator: true,
        chap_required: false,
        initiators_move: false,
        space_warning_percent: None,
        initiators: Vec::new(),
        luns: (0..luns).map(lun).collect(),
    }
}

#[test]
fn a_target_with_luns_needs_a_gateway_that_lives_and_speaks_iscsi() {
    let with_portal = |number: u32, alive: bool| NodeStatus {
        iscsi: vec![format!("192.0.2.{number}:3260")],
        ..node(number, alive)
    };
    let nodes = [with_portal(1, true), with_portal(2, false), node(3, true)];
    for (target, is_served) in [
        (target(&[], 1), true),
        (target(&["n2", "n1"], 1), true),
        (target(&["n2"], 1), false),
        (target(&["n3"], 1), false),
        (target(&["n9"], 1), false),
        (target(&["n2"], 0), true),
    ] {
        let facts = judge(&Picture {
            nodes: &nodes,
            targets: std::slice::from_ref(&target),
            ..Picture::default()
        });
        let told = facts.iter().find(|fact| fact.name == "target-unserved");
        assert_eq!(told.is_none(), is_served, "{target:?}");
        if let Some(fact) = told {
            assert_eq!(fact.objects, ["vms"]);
            assert!(
                fact.text.contains(&target.gateways[0]) && fact.text.contains("--iscsi"),
                "{fact}"
            );
        }
    }
}

pub(super) fn names(facts: &[Fact]) -> Vec<&'static str> {
    facts.iter().map(|fact| fact.name).collect()
}

#[test]
fn all_is_well() {
    let picture = Picture {
        nodes: &[node(1, true), node(2, true)],
        stores: &[store(1, 10), store(2, 84)],
        pools: &[pool(&[1, 2])],
        volumes: &[volume("main")],
        ..Picture::default()
    };
    let facts = judge(&picture);
    assert_eq!((names(&facts), word(&facts)), (vec![], "ok"));
}

#[test]
fn a_sick_network_is_told_by_names_and_before_the_disks_behind_it() {
    let worst = amita_types::link::BadLink {
        peer: NodeId(2),
        network: amita_types::link::Network::First,
        what: amita_types::link::LinkTrouble::Loss,
        sent: 1000,
        lost: 25,
        round_trip_us: 200,
        least_us: 100,
    };
    let finding = |blame| Finding {
        blame,
        outward: (0, 2),
        inward: (2, 2),
        worst: Some((NodeId(1), worst)),
    };
    let slow = SlowStatus {
        store: StoreId(2),
        slow: vec![NodeId(1)],
        well: Vec::new(),
        for_s: 60,
        why: "it crawls".to_owned(),
    };
    let picture = Picture {
        nodes: &[node(1, true), node(2, true)],
        stores: &[store(1, 10), store(2, 10)],
        slow_stores: &[slow],
        networks: &[
            finding(Blame::Node(NodeId(2))),
            finding(Blame::Link(NodeId(1), NodeId(9))),
        ],
        ..Picture::default()
    };
    let facts = judge(&picture);
    let sick: Vec<&Fact> = facts.iter().filter(|fact| fact.name == "network-sick").collect();
    assert_eq!(
        sick[0].text,
        "The network of node n2 is sick: 2 of 2 links that others send to it by are bad; from node n1 to node n2 25 of 1000 \
         segments were lost (2.50 %)."
    );
    assert_eq!(
        (&sick[0].objects, &sick[1].objects),
        (&vec!["n2".to_owned()], &vec!["n1".to_owned(), "9".to_owned()])
    );
    let slow = facts.iter().find(|fact| fact.name == "store-slow").unwrap();
    assert_eq!(slow.advice, "The network of its node is sick: look after that first.");
    assert_eq!(word(&facts), "degraded");
}

/// What an operator met: nothing of this was said, and the health was ok.
#[test]
fn what_keeps_hosts_from_their_data_is_never_ok() {
    let (nodes, stores, pools, volumes) = (
        [node(1, true), node(2, true)],
        [store(1, 10), store(2, 10)],
        [pool(&[1, 2])],
        [volume("main")],
    );
    let well = || Picture {
        nodes: &nodes,
        stores: &stores,
        pools: &pools,
        volumes: &volumes,
        ..Picture::default()
    };
    let suspects = ["the metadata is older than what store 1 knows".to_owned()];
    let facts = judge(&Picture {
        suspects: &suspects,
        ..well()
    });
    assert_eq!((names(&facts), word(&facts)), (vec!["metadata-older"], "blocked"));
    assert_eq!(facts[0].objects, ["disk0"]);

    for (what, name) in [
        (Failing::Writes, "writes-fail"),
        (Failing::Reads, "reads-fail"),
        (Failing::Opening, "opening-fails"),
        (Failing::Locked, "volume-locked"),
    ] {
        let trouble = |volume| Trouble {
            volume: VolumeId(volume),
            what,
            why: "no space left".to_owned(),
        };
        let troubles = [(NodeId(2), trouble(3)), (NodeId(2), trouble(4))];
        let facts = judge(&Picture {
            troubles: &troubles,
            ..well()
        });
        assert_eq!((names(&facts), word(&facts)), (vec![name], "blocked"));
        assert_eq!(facts[0].objects, ["disk0", "n2"], "and not the volume that is gone");
        assert!(facts[0].text.contains("no space left"), "{}", facts[0].text);
    }

    let orphans = [volume("gone")];
    let facts = judge(&Picture {
        volumes: &orphans,
        ..well()
    });
    assert_eq!((names(&facts), word(&facts)), (vec!["pool-missing"], "blocked"));
}

#[test]
fn a_pool_is_as_full_as_the_fullest_of_its_stores() {
    let nodes = [node(1, true), node(2, true), node(3, true)];
    let stores = [store(1, 50), store(2, 91), store(3, 99)];
    let judged = |pools: &[PoolStatus], thresholds| {
        let facts = judge(&Picture {
            nodes: &nodes,
            stores: &stores,
            pools,
            thresholds,
            ..Picture::default()
        });
        (names(&facts), word(&facts), facts.first().map(|fact| fact.text.clone()))
    };
    let usual = Thresholds::default();
    let (found, health, text) = judged(&[pool(&[1, 2])], usual);
    assert_eq!((found, health), (vec!["pool-near-full"], "degraded"));
    assert!(text.unwrap().contains("on n2 at 91 %"));
    let (found, health, text) = judged(&[pool(&[1, 2, 3])], usual);
    assert_eq!((found, health), (vec!["pool-full"], "blocked"));
    let text = text.unwrap();
    assert!(
        text.find("on n3 at 99 %") < text.find("on n2 at 91 %"),
        "the fullest first: {text}"
    );
    assert_eq!(
        judged(&[pool(&[1])], usual).1,
        "ok",
        "a store of another pool does not count"
    );
    let strict = Thresholds {
        near_full_percent: 40,
        full_percent: 50,
        ..usual
    };
    assert_eq!(judged(&[pool(&[1])], strict).0, ["pool-full"]);
}

#[test]
fn the_worst_comes_first_and_says_how_the_cluster_is() {
    let mut missing = pool(&[1, 2]);
    missing.group_counts = GroupCounts {
        degraded: 4,
        waiting: 4,
        below: 4,
        syncing: 1,
        ..GroupCounts::default()
    };
    let facts = judge(&Picture {
        nodes: &[node(1, true), node(2, false)],
        stores: &[store(1, 10)],
        pools: &[missing],
        ..Picture::default()
    });
    assert_eq!(
        names(&facts),
        ["copies-below", "copies-missing", "node-down", "copies-syncing"]
    );
    assert_eq!(word(&facts), "blocked");
    assert!(facts[2].to_string().contains("amita node remove n2"));
}

#[test]
fn a_channel_that_fails_is_a_warning_with_what_its_receiver_said() {
    let failing = [FailingChannel {
        channel: "on-call".to_owned(),
        attempts: 7,
        why: "it answers 503\n.".to_owned(),
    }];
    let facts = judge(&Picture {
        failing_channels: &failing,
        ..Picture::default()
    });
    assert_eq!((names(&facts), word(&facts)), (vec!["channel-fails"], "degraded"));
    assert_eq!(facts[0].objects, ["on-call"]);
    let said = facts[0].to_string();
    assert!(said.contains("7 attempts") && said.contains("503\\n. See"), "{said}");
    assert!(said.contains("`amita notify test on-call`"), "{said}");
}

fn sick(number: u128, level: DiskLevel) -> SickDisk {
    SickDisk {
        store: StoreId(number),
        disk: "sda (Example\n D7)".to_owned(),
        level,
        codes: vec!["disk-worn".to_owned()],
        evidence: "103 % of its life are used".to_owned(),
        since: 1,
        told_at: 1,
        decision: "It would be drained.".to_owned(),
        failing_since: None,
        drained_at: None,
        better_since: None,
    }
}

#[test]
fn a_disk_that_predicts_its_failure_is_a_warning_with_the_command_that_helps() {
    let all = [
        sick(1, DiskLevel::Warn),
        sick(2, DiskLevel::Avoid),
        sick(3, DiskLevel::Isolate),
        // Its record is gone.
        sick(9, DiskLevel::Avoid),
    ];
    let facts = judge(&Picture {
        nodes: &[node(1, true)],
        stores: &[store(1, 10), store(2, 10), store(3, 10)],
        sick_disks: &all,
        ..Picture::default()
    });
    assert_eq!(names(&facts), ["disk-failing", "disk-failing", "disk-aging"]);
    let (avoid, isolate) = (facts[0].to_string(), facts[1].to_string());
    let id = StoreId(2);
    assert!(avoid.contains(&format!("`amita disk drain {id}`")), "{avoid}");
    assert!(
        avoid.contains("103 % of its life are used. It would be drained."),
        "{avoid}"
    );
    assert!(avoid.contains("(sda (Example\\n D7))"), "{avoid}");
    assert!(
        !isolate.contains("disk drain") && isolate.contains("disk forget"),
        "{isolate}"
    );
    assert_eq!(word(&facts), "degraded");
    assert_eq!(word(&facts[2..]), "ok", "one that ages is no reason to worry");
}

#[test]
fn names_are_unique() {
    let all: std::collections::BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(all.len(), Kind::ALL.len());
    assert!(Kind::ALL.iter().all(|kind| !kind.meaning().is_empty()));
}

#[test]
fn nodes_that_believe_the_network_are_named_and_the_cluster_is_well() {
    let mut nodes = [node(1, true), node(2, true)];
    nodes[1].node.unprotected = true;
    let facts = judge(&Picture {
        nodes: &nodes,
        ..Picture::default()
    });
    let found: Vec<_> = facts.iter().map(|fact| (fact.name, fact.objects.clone())).collect();
    assert_eq!(found, [("node-unprotected", vec!["n2".to_owned()])]);
    assert_eq!(word(&facts), "ok");
}
