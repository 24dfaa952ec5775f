//! Each finding with its fault in the facts, and none without: the facts are those of a real record of a cluster, four nodes and a pool.

pub(crate) mod planted;

use super::*;
use crate::code::Code;
use crate::gather::gather;
use crate::inventory::{Inventory, Known, Sample, facts_key, tests::healthy};
use amita_control::admin::{self, PoolSpec};
use amita_metadata::model::State;
use amita_metadata::{Call, Transact};
use amita_types::condition::{Condition, StoreSpace, condition_key};
use amita_types::map::{self, Live};
use amita_types::placement::Level;
use amita_types::{ClusterId, NodeId, StoreId};
use planted::{all, each, sata, subsystem, told, worn};
use std::collections::BTreeSet;
use std::sync::Mutex;

pub(crate) const AT: u64 = 1_800_000_000;
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) fn put<T: serde::Serialize>(meta: &dyn Transact, key: String, record: &T) {
    let value = serde_json::to_vec(record).expect("JSON");
    meta.txn(&Call::put(key, value)).expect("memory");
}

/// Four nodes on machines of their own, a store each, a pool with three copies, and nothing wrong.
pub(crate) fn metadata() -> Mutex<State> {
    let meta = Mutex::new(State::new());
    admin::init_cluster(&meta, ClusterId(9)).expect("a cluster");
    for number in 1..=4 {
        let node = admin::register_node(&meta, &format!("n{number}"), "192.0.2.1:1", None, 2).expect("a node");
        let live = Live {
            stores: None,
            session: 1,
            pid: 1,
            version: map::METADATA_VERSION,
        };
        put(&meta, map::live_key(node.id), &live);
        let store = StoreId(u128::from(node.id.0) << 64 | 7);
        admin::register_store(&meta, &admin::store_record(store, node.id, "/dev/x", 64 * GIB)).expect("a store");
        let space = StoreSpace {
            store,
            capacity_bytes: 64 * GIB,
            free_bytes: 48 * GIB,
        };
        let condition = Condition {
            stores: vec![space],
            troubles: Vec::new(),
        };
        put(&meta, condition_key(node.id, 0), &condition);
        let told = healthy(node.id.0, AT).encode();
        meta.txn(&Call::put(facts_key(node.id), told)).expect("memory");
    }
    let pool = PoolSpec {
        name: "main".to_owned(),
        copies: 3,
        min_copies: 2,
        groups: 64,
        chunk_bytes: admin::DEFAULT_CHUNK_BYTES,
        level: Level::Node,
        class: None,
    };
    admin::create_pool(&meta, &pool).expect("a pool");
    meta
}

pub(crate) fn facts() -> Facts {
    gather(&metadata(), AT + 60).expect("facts")
}

#[test]
fn a_healthy_cluster_has_nothing_found_and_everything_looked_at() {
    let report = inspect(&facts());
    assert_eq!(report.findings, [], "{}", report.text());
    for check in &report.checks {
        // There is no subsystem that paths could lead to, but there are links.
        assert!(check.looked_at > 0, "{check:?}");
    }
    assert_eq!(report.not_looked_at, [], "{}", report.text());
    assert!(report.text().contains("nothing found; "), "{}", report.text());
}

#[test]
fn each_fault_is_found_and_nothing_else_is() {
    for (code, severity, place, plant) in all() {
        let mut facts = facts();
        plant(&mut facts);
        let report = inspect(&facts);
        let codes: BTreeSet<&str> = report.findings.iter().map(|found| found.code).collect();
        assert_eq!(codes, BTreeSet::from([code.name()]), "{code:?}: {}", report.text());
        let found = report
            .findings
            .iter()
            .find(|found| found.place.to_string().starts_with(place))
            .unwrap_or_else(|| panic!("{code:?} at {place}: {}", report.text()));
        assert_eq!(found.severity, *severity, "{found:?}");
        assert!(found.severity <= code.severity(), "{found:?}");
        assert!(found.reason.len() > 10 && found.mend == code.mend(), "{found:?}");
        assert_eq!(report.worst, Some(*severity));
    }
}

#[test]
fn every_code_has_its_fault() {
    let planted: BTreeSet<Code> = all().map(|(code, ..)| *code).collect();
    let missing: Vec<&Code> = Code::ALL.iter().filter(|code| !planted.contains(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What a node that has told nothing, or nothing lately, or does not live, is like, nobody knows; and that is said by each check.
#[test]
fn a_node_that_does_not_tell_is_not_well_but_unknown() {
    type Silenced = (&'static str, fn(&mut Facts));
    let silent: [Silenced; 4] = [
        ("has not told", |facts| drop(facts.inventories.remove(&NodeId(1)))),
        ("h old", |facts| told(facts, 1).taken_at = AT - 4 * 3600),
        ("does not live", |facts| facts.status.nodes[0].alive = false),
        ("newer program", |facts| {
            let newer = Inventory::decode(br#"{"version":99}"#).into();
            facts.inventories.insert(NodeId(1), newer);
        }),
    ];
    let checks = [
        Check::Redundancy,
        Check::Metadata,
        Check::Clocks,
        Check::Nics,
        Check::Mtu,
        Check::Kernel,
        Check::Machine,
        Check::Disks,
        Check::Wear,
        Check::Latency,
        Check::Capacity,
        Check::Certificates,
        Check::Settings,
    ];
    for (why, silence) in silent {
        let mut facts = facts();
        silence(&mut facts);
        let report = inspect(&facts);
        for check in checks {
            let blind = report
                .not_looked_at
                .iter()
                .find(|blind| blind.check == check.name() && blind.place == Place::node("n1"));
            let blind = blind.unwrap_or_else(|| panic!("{check:?}, {why}: {}", report.text()));
            assert!(blind.why.contains(why), "{blind:?}");
        }
    }
}

#[test]
fn a_fact_that_is_not_known_is_not_looked_at() {
    fn unknown<T>() -> Known<T> {
        Known::NotKnown("it could not be read".to_owned())
    }
    let mut facts = facts();
    let own = told(&mut facts, 1);
    let host = &mut own.host;
    (host.boot_id, host.kernel, host.uring, host.uring_disabled) = (unknown(), unknown(), unknown(), unknown());
    (host.governors, host.huge_pages, host.swap, host.limits) = (unknown(), unknown(), unknown(), unknown());
    (own.nics, own.certificate, own.clock.synchronised) = (unknown(), unknown(), unknown());
    own.disks[0].latency = unknown();
    own.disks[0].samples.clear();
    let Known::Is(device) = &mut own.disks[0].device else {
        panic!("a device")
    };
    (device.rotational, device.flushed, device.read_only, device.health) = (unknown(), unknown(), unknown(), unknown());
    let report = inspect(&facts);
    assert_eq!(report.findings, [], "{}", report.text());
    let checks: Vec<&str> = report.not_looked_at.iter().map(|blind| blind.check).collect();
    for check in [
        "redundancy",
        "clocks",
        "nics",
        "mtu",
        "kernel",
        "machine",
        "disks",
        "wear",
        "latency",
        "capacity",
        "certificates",
    ] {
        assert!(checks.contains(&check), "{check}: {}", report.text());
    }
    told(&mut facts, 2).disks[0].device = unknown();
    let report = inspect(&facts);
    let blind = |check: &str| {
        report
            .not_looked_at
            .iter()
            .any(|blind| blind.check == check && blind.place.name == "n2//dev/x")
    };
    assert!(blind("disks") && blind("wear"), "{}", report.text());
}

/// Of two clocks that differ nobody can say which is right; and a clock that nobody has compared is not looked at.
#[test]
fn clocks_that_were_not_compared_are_said() {
    let mut facts = facts();
    each(&mut facts, |own| own.clock.seen.clear());
    let report = inspect(&facts);
    let blind = report
        .not_looked_at
        .iter()
        .filter(|blind| blind.check == "clocks")
        .count();
    assert_eq!(blind, 4, "{}", report.text());
    // One direction is no comparison.
    told(&mut facts, 1).clock.seen = healthy(1, AT).clock.seen;
    assert_eq!(inspect(&facts).findings, []);
}

/// What concerns the loss of a machine is no warning where all is on one: that has been said.
#[test]
fn on_one_machine_nothing_can_be_spared_and_nothing_warns() {
    let mut facts = facts();
    each(&mut facts, |own| {
        own.host.boot_id = Known::Is("boot".to_owned());
        own.metadata_addresses = 1;
    });
    facts.status.pools[0].pool.failure_domain = Level::Disk;
    facts.status.nodes[1].node.nvme = Some("127.0.0.1:4420".to_owned());
    facts.subsystems.push(subsystem());
    let report = inspect(&facts);
    let codes: BTreeSet<&str> = report.findings.iter().map(|found| found.code).collect();
    assert_eq!(
        codes,
        BTreeSet::from([
            "one-machine",
            "metadata-one-address",
            "copies-on-one-node",
            "gateway-single"
        ])
    );
    assert_eq!(report.worst, Some(Severity::Notice), "{}", report.text());
}

#[test]
fn what_a_status_says_is_found_with_its_own_word() {
    let mut facts = facts();
    let meta = metadata();
    meta.txn(&Call {
        then: vec![amita_metadata::Op::Delete {
            key: map::live_key(NodeId(4)),
        }],
        ..Call::default()
    })
    .expect("memory");
    facts.status = admin::status(&meta).expect("a status");
    let report = inspect(&facts);
    let down = report
        .findings
        .iter()
        .find(|found| found.code == "node-down")
        .expect("a node is down");
    assert_eq!((down.severity, down.check), (Severity::Warning, "health"));
    assert!(!down.mend.is_empty() && down.place.name.contains("n4"), "{down:?}");
}

#[test]
fn an_empty_cluster_is_not_well_by_silence() {
    let meta = Mutex::new(State::new());
    admin::init_cluster(&meta, ClusterId(9)).expect("a cluster");
    let report = inspect(&gather(&meta, AT).expect("facts"));
    assert_eq!(report.worst, None);
    for check in &report.checks {
        assert!(check.looked_at + check.not_looked_at > 0, "{check:?}");
    }
    assert!(
        report.not_looked_at.iter().any(|blind| blind.check == "wear"),
        "{}",
        report.text()
    );
}

/// What a SATA disk does not tell is not well, but listed.
#[test]
fn what_a_sata_disk_does_not_tell_is_not_looked_at() {
    let mut facts = facts();
    *sata(&mut facts) = crate::inventory::Smart {
        failing: None,
        temperature_c: None,
        used_percent: None,
        reallocated: None,
        pending: None,
        uncorrectable: None,
        ..crate::inventory::tests::smart()
    };
    let report = inspect(&facts);
    assert_eq!(report.findings, [], "{}", report.text());
    for what in ["predicts its failure", "temperature", "how worn", "sectors are bad"] {
        let is_said = |blind: &crate::sheet::NotLooked| blind.check == "wear" && blind.why.contains(what);
        assert!(report.not_looked_at.iter().any(is_said), "{what}: {}", report.text());
    }
    // One that tells everything, and has a past, is looked at whole.
    *sata(&mut facts) = crate::inventory::tests::smart();
    let report = inspect(&facts);
    assert!(
        report.not_looked_at.iter().all(|blind| blind.check != "wear"),
        "{}",
        report.text()
    );
    // Of an error it takes a past to say whether there come more.
    sata(&mut facts).reallocated = Some(3);
    let report = inspect(&facts);
    let blind = report.not_looked_at.iter().find(|blind| blind.check == "wear");
    assert!(
        blind.is_some_and(|blind| blind.why.contains("not enough history")),
        "{}",
        report.text()
    );
}

/// Heat, and memory without a battery, are no failure of the disk.
#[test]
fn a_warning_of_the_place_is_softer_than_one_of_the_disk() {
    let severity = |bits: u8| {
        let mut facts = facts();
        planted::health(&mut facts).warnings = bits;
        inspect(&facts).worst
    };
    assert_eq!(severity(0b01_0010), Some(Severity::Warning));
    for bit in [0, 2, 3, 5] {
        assert_eq!(severity(1 << bit), Some(Severity::Critical), "{bit}");
    }
}

#[test]
fn a_forecast_takes_a_past() {
    let mut facts = facts();
    each(&mut facts, |own| own.disks[0].samples.truncate(1));
    let report = inspect(&facts);
    let blind: Vec<&str> = report.not_looked_at.iter().map(|blind| blind.check).collect();
    assert!(
        blind.contains(&"capacity") && blind.contains(&"latency"),
        "{}",
        report.text()
    );
    let fresh = Sample {
        at: AT,
        used_bytes: None,
        worn_percent: None,
        read_p99_us: None,
        write_p99_us: None,
        reallocated: None,
        pending: None,
        uncorrectable: None,
    };
    each(&mut facts, |own| own.disks[0].samples = vec![fresh]);
    worn(&mut facts, 1, 500);
    let report = inspect(&facts);
    assert!(
        report
            .not_looked_at
            .iter()
            .any(|blind| blind.check == "wear" && blind.why.contains("no pace")),
        "{}",
        report.text()
    );
}
