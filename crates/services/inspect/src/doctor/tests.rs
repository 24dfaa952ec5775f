//! The coordinator's look at disks, on metadata in memory.

use super::*;
use crate::check::tests::{AT, metadata, put as put_record};
use crate::inventory::{Known, facts_key, tests::healthy};
use amita_control::events::{Query, query};
use amita_metadata::model::State;
use amita_types::condition::DiskLevel;
use amita_types::map::StoreDuty;
use amita_types::recovery::SickDisks;
use std::sync::Mutex;

const STORE: StoreId = StoreId(1 << 64 | 7);

/// The first node leads, and its disk is worn so much.
fn worn(percent: u8) -> Mutex<State> {
    let meta = metadata();
    elect(&meta, 1);
    read_worn(&meta, percent, AT);
    meta
}

/// The first node has read its disk then, which was worn so much.
fn read_worn(meta: &dyn Transact, percent: u8, at: u64) {
    let mut own = healthy(1, at);
    let Known::Is(device) = &mut own.disks[0].device else {
        panic!("a device")
    };
    let Known::Is(health) = &mut device.health else {
        panic!("health")
    };
    health.used_percent = percent;
    let call = Call::put(facts_key(NodeId(1)), own.encode());
    meta.txn(&call).expect("memory");
}

fn elect(meta: &dyn Transact, node: u32) {
    put_record(meta, election_key(), &serde_json::json!({ "node": node, "session": 7 }));
}

fn record(meta: &dyn Transact) -> Option<SickDisk> {
    let reply = meta.txn(&Call::get(sick_disk_key(STORE))).expect("memory");
    reply.value(0).map(|found| found.json().expect("a record"))
}

fn kinds(meta: &dyn Transact) -> Vec<String> {
    let all = query(meta, &Query::default()).expect("memory");
    all.into_iter().map(|event| event.kind).collect()
}

fn duty(meta: &dyn Transact) -> StoreDuty {
    let stores = admin::stores(meta).expect("memory");
    let own = stores.into_iter().find(|own| own.id == STORE);
    own.expect("a store").duty
}

#[test]
fn a_disk_that_is_worn_is_noted_told_and_proposed_to_be_drained() {
    let meta = worn(103);
    let mut doctor = Doctor::new(NodeId(1), 1);
    doctor.look(&meta, AT + 60).expect("a look");
    let noted = record(&meta).expect("it is noted");
    assert_eq!(noted.level, DiskLevel::Avoid);
    assert_eq!(noted.codes, ["disk-worn"]);
    assert!(noted.decision.contains("would be drained now"), "{}", noted.decision);
    assert_eq!(
        (duty(&meta), kinds(&meta)),
        (StoreDuty::Normal, vec!["disk-failing".to_owned()])
    );
    let status = admin::status(&meta).expect("a status");
    let fact = status.facts.iter().find(|fact| fact.name == "disk-failing");
    let fact = fact.expect("a fact").to_string();
    assert!(
        fact.contains("103 % of its life") && fact.contains(&format!("`amita disk drain {STORE}`")),
        "{fact}"
    );
    // Nothing is told twice, by this node or by the next one that leads.
    doctor.look(&meta, AT + 360).expect("a look");
    elect(&meta, 2);
    Doctor::new(NodeId(2), 1).look(&meta, AT + 400).expect("a look");
    assert_eq!(kinds(&meta).len(), 1);
}

#[test]
fn nodes_that_do_not_lead_and_metadata_that_is_not_believed_change_nothing() {
    let meta = worn(103);
    Doctor::new(NodeId(2), 1).look(&meta, AT + 60).expect("a look");
    assert_eq!(record(&meta), None);
    let suspect = format!("{}3", map::suspect_prefix());
    put_record(&meta, suspect, &serde_json::json!({ "why": "it is older" }));
    Doctor::new(NodeId(1), 1).look(&meta, AT + 60).expect("a look");
    assert_eq!((record(&meta), kinds(&meta)), (None, Vec::new()));
}

#[test]
fn where_the_operator_wants_it_the_store_is_drained_and_the_audit_log_says_by_whom() {
    let meta = worn(103);
    admin::set_recovery(&meta, |own| own.sick_disks = SickDisks::Drain).expect("a setting");
    let mut doctor = Doctor::new(NodeId(1), 1);
    doctor.look(&meta, AT + 60).expect("a look");
    doctor.look(&meta, AT + 1000).expect("a look");
    assert_eq!(duty(&meta), StoreDuty::Normal, "it was read once");
    read_worn(&meta, 103, AT + 1100);
    doctor.look(&meta, AT + 1200).expect("a look");
    assert_eq!(duty(&meta), StoreDuty::Draining);
    let noted = record(&meta).expect("it is noted");
    assert_eq!((noted.level, noted.drained_at), (DiskLevel::Isolate, Some(AT + 1200)));
    let mut log = String::new();
    amita_control::audit::for_each::<Error>(&meta, 1, |_, text| {
        log.push_str(text);
        Ok(())
    })
    .expect("memory");
    for part in ["disk.drain", "node 1", "coordinator", "done", &STORE.to_string()] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert_eq!(kinds(&meta), ["disk-failing", "disk-decided"]);
    // An operator ends it: it stays so.
    admin::drain_store(&meta, STORE, true).expect("an end");
    doctor.look(&meta, AT + 1600).expect("a look");
    assert_eq!(duty(&meta), StoreDuty::Normal);
    assert_eq!(kinds(&meta), ["disk-failing", "disk-decided", "disk-decided"]);
}

#[test]
fn one_that_is_hindered_is_not_drained_and_says_by_what() {
    let meta = worn(103);
    admin::set_recovery(&meta, |own| own.sick_disks = SickDisks::Drain).expect("a setting");
    // Without it there are three, and one of these is drained.
    let other = StoreId(2 << 64 | 7);
    admin::drain_store(&meta, other, false).expect("a drain");
    Doctor::new(NodeId(1), 1).look(&meta, AT + 60).expect("a look");
    assert_eq!(duty(&meta), StoreDuty::Normal);
    let noted = record(&meta).expect("it is noted");
    assert!(noted.decision.contains("one is at a time"), "{}", noted.decision);
}

/// A node that was deposed after it has looked changes nothing any more.
#[test]
fn one_that_was_deposed_meanwhile_drains_nothing() {
    let meta = worn(103);
    let fence = Compare::ModRevision {
        key: election_key(),
        equals: 1,
    };
    let facts = gather(&meta, AT + 60).expect("facts");
    Doctor::new(NodeId(1), 1).look(&meta, AT + 60).expect("a look");
    let known = record(&meta).expect("it is noted");
    let key = sick_disk_key(STORE);
    let marked = mark(&known, revision_of(&meta, &key).expect("memory"), AT + 60);
    let deed = treat(&meta, &fence, NodeId(1), &facts, (STORE, 1), Some(&marked));
    assert!(
        matches!(&deed, Deed::Hindered(why) if why.contains("tried")),
        "{deed:?}"
    );
    assert_eq!(duty(&meta), StoreDuty::Normal);
    assert_eq!(record(&meta).expect("a record").drained_at, None);
}

/// The coordinator ends between the drain and what it would have written of it.
#[test]
fn a_disk_is_drained_once_also_over_a_crash() {
    let meta = worn(103);
    let mut doctor = Doctor::new(NodeId(1), 1);
    doctor.look(&meta, AT + 60).expect("a look");
    admin::set_recovery(&meta, |own| own.sick_disks = SickDisks::Drain).expect("a setting");
    read_worn(&meta, 103, AT + 1100);
    let facts = gather(&meta, AT + 1200).expect("facts");
    let fence = Compare::ModRevision {
        key: election_key(),
        equals: revision_of(&meta, &election_key()).expect("memory"),
    };
    let known = record(&meta).expect("it is noted");
    let revision = revision_of(&meta, &sick_disk_key(STORE)).expect("memory");
    // Who has read an older record drains nothing.
    let stale = mark(&known, revision + 1, AT + 1200);
    let deed = treat(&meta, &fence, NodeId(1), &facts, (STORE, 1), Some(&stale));
    assert!(matches!(&deed, Deed::Hindered(_)), "{deed:?}");
    assert_eq!(duty(&meta), StoreDuty::Normal);
    let marked = mark(&known, revision, AT + 1200);
    let deed = treat(&meta, &fence, NodeId(1), &facts, (STORE, 1), Some(&marked));
    assert_eq!((deed, duty(&meta)), (Deed::Drained, StoreDuty::Draining));
    assert_eq!(record(&meta).expect("a record").drained_at, Some(AT + 1200));
    admin::drain_store(&meta, STORE, true).expect("an end");
    Doctor::new(NodeId(1), 2).look(&meta, AT + 1300).expect("a look");
    assert_eq!(duty(&meta), StoreDuty::Normal, "it is the operator's");
    let noted = record(&meta).expect("a record");
    assert!(noted.decision.contains("was ended"), "{}", noted.decision);
}

#[test]
fn it_is_time_when_somebody_has_told_something_and_now_and_then() {
    let mut doctor = Doctor::new(NodeId(1), 1);
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    assert!(doctor.is_due(start) && !doctor.is_due(after(299)));
    assert!(doctor.is_due(after(300)));
    doctor.heard();
    assert!(!doctor.is_due(after(309)) && doctor.is_due(after(310)));
    assert!(!doctor.is_due(after(400)), "nobody has told anything since");
    // In a large cluster somebody tells something all the time.
    doctor.among(100);
    doctor.heard();
    assert!(!doctor.is_due(after(409)) && doctor.is_due(after(410)));
}

#[test]
fn what_another_thread_has_heard_is_told_once() {
    let (heard, mut doctor) = (Heard::default(), Doctor::new(NodeId(1), 1));
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    assert!(doctor.is_due(start));
    heard.tell(&mut doctor);
    assert!(!doctor.is_due(after(100)), "nobody has told anything");
    heard.nodes(100);
    heard.facts();
    heard.tell(&mut doctor);
    assert!(!doctor.is_due(after(99)) && doctor.is_due(after(100)));
    heard.tell(&mut doctor);
    assert!(!doctor.is_due(after(299)), "it was told once");
}
