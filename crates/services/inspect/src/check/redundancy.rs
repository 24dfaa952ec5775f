//! Whether one failure would take more than it should: of copies, of machines, of the metadata, of the ways of hosts.

use super::{named, nodes, told};
use crate::code::{Check, Code};
use crate::gather::Facts;
use crate::inventory::Inventory;
use crate::sheet::{Place, Severity, Sheet};
use amita_control::admin::{NodeStatus, PoolStatus};
use amita_types::map::{PoolKind, StoreDuty};
use amita_types::placement::Level;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(facts: &Facts, sheet: &mut Sheet) {
    let told = told(facts, &[Check::Redundancy, Check::Metadata], sheet);
    let on_one = machines(&told, sheet);
    for pool in &facts.status.pools {
        sheet.look(Check::Redundancy);
        copies(facts, pool, on_one, sheet);
    }
    metadata(&told, on_one, sheet);
    gateways(facts, on_one, sheet);
}

/// Which nodes share a machine; true: all that tell are on one, so that nothing else can be spared either.
fn machines(told: &[(&str, &Inventory)], sheet: &mut Sheet) -> bool {
    let mut machines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, inventory) in told {
        if let Some(boot) = sheet.look_at(Check::Redundancy, Place::node(node), &inventory.host.boot_id) {
            machines.entry(boot).or_default().push(node);
        }
    }
    for nodes in machines.values().filter(|nodes| nodes.len() > 1) {
        let reason = format!(
            "{} run on one machine (the same kernel, started once)",
            named(nodes.iter().copied())
        );
        sheet.find(
            Code::OneMachine,
            Place::new("node", named(nodes.iter().copied())),
            reason,
        );
    }
    machines.len() == 1
}

/// What concerns the failure of a machine is a notice where there is but one: that has been said.
fn softly(code: Code, on_one: bool) -> Severity {
    if on_one { Severity::Notice } else { code.severity() }
}

fn copies(facts: &Facts, pool: &PoolStatus, on_one: bool, sheet: &mut Sheet) {
    let PoolKind::Replicated { copies, min_copies } = pool.pool.kind else {
        return sheet.blind(
            Check::Redundancy,
            Place::new("pool", &pool.pool.name),
            "its kind is of a newer version",
        );
    };
    let place = || Place::new("pool", &pool.pool.name);
    if copies < 2 {
        return sheet.find(
            Code::CopiesSingle,
            place(),
            format!("it keeps {copies} copy of each block"),
        );
    }
    let what = format!("it keeps {copies} copies, and writes need {min_copies} of them");
    if min_copies >= copies {
        sheet.find(Code::MinCopiesAll, place(), what);
    } else if min_copies < 2 {
        sheet.find(Code::MinCopiesOne, place(), what);
    }
    let level = pool.pool.failure_domain;
    if level == Level::Disk {
        let reason = format!("its failure domain is a disk: {copies} copies may lie on one node");
        return sheet.find_as(
            Code::CopiesOnOneNode,
            softly(Code::CopiesOnOneNode, on_one),
            place(),
            reason,
        );
    }
    let domains = domains(facts, pool, level);
    // Fewer than copies are a fact of the status.
    if domains == usize::from(copies) {
        let reason = format!("{copies} copies, and {domains} {level}s with stores that may take one");
        sheet.find(Code::NoSpareDomain, place(), reason);
    }
}

/// Failure domains that have a store which may hold groups of a pool.
fn domains(facts: &Facts, pool: &PoolStatus, level: Level) -> usize {
    let of: BTreeMap<_, &NodeStatus> = nodes(facts).map(|found| (found.node.id, found)).collect();
    let takes = facts.status.stores.iter().filter(|found| {
        let store = &found.store;
        store.weight > 0
            && store.duty == StoreDuty::Normal
            && pool.pool.class.as_ref().is_none_or(|class| *class == store.class)
    });
    let domain = |node: &NodeStatus| {
        let node = &node.node;
        match level {
            Level::Site => (node.site.clone(), String::new(), 0),
            Level::Rack => (node.site.clone(), node.rack.clone(), 0),
            Level::Node | Level::Disk => (String::new(), String::new(), node.id.0),
        }
    };
    let all: BTreeSet<_> = takes
        .filter_map(|found| of.get(&found.store.node).map(|node| domain(node)))
        .collect();
    all.len()
}

fn metadata(told: &[(&str, &Inventory)], on_one: bool, sheet: &mut Sheet) {
    let mut single = Vec::new();
    for (node, inventory) in told {
        sheet.look(Check::Metadata);
        if inventory.metadata_addresses < 2 {
            single.push(*node);
        }
    }
    if !single.is_empty() {
        let reason = format!(
            "one address of the metadata was given to {}",
            named(single.iter().copied())
        );
        sheet.find_as(
            Code::MetadataOneAddress,
            softly(Code::MetadataOneAddress, on_one),
            Place::cluster(),
            reason,
        );
    }
}

/// Of subsystems and targets that have something to lose.
fn gateways(facts: &Facts, on_one: bool, sheet: &mut Sheet) {
    for subsystem in facts.subsystems.iter().filter(|found| !found.namespaces.is_empty()) {
        let what = format!("{} namespaces", subsystem.namespaces.len());
        let place = Place::new("subsystem", &subsystem.name);
        let serves = |found: &NodeStatus| found.node.nvme.is_some();
        ways(facts, (&subsystem.gateways, serves), (place, &what, on_one), sheet);
    }
    for target in facts.targets.iter().filter(|found| !found.luns.is_empty()) {
        let what = format!("{} LUNs", target.luns.len());
        let place = Place::new("target", &target.name);
        let serves = |found: &NodeStatus| !found.iscsi.is_empty();
        ways(facts, (&target.gateways, serves), (place, &what, on_one), sheet);
    }
}

/// How many of the gateways that may (none named: all) do serve it?
fn ways(
    facts: &Facts,
    (gateways, serves): (&[String], impl Fn(&NodeStatus) -> bool),
    (place, what, on_one): (Place, &str, bool),
    sheet: &mut Sheet,
) {
    sheet.look(Check::Paths);
    let is_way = |found: &&NodeStatus| {
        let is_named = gateways.is_empty() || gateways.contains(&found.node.name);
        is_named && found.alive && serves(found)
    };
    let ways: Vec<&str> = nodes(facts)
        .filter(is_way)
        .map(|found| found.node.name.as_str())
        .collect();
    // That there is none is a fact of the status.
    if let [only] = ways.as_slice() {
        let reason = format!("of {what}, {only} is the only gateway that lives");
        sheet.find_as(Code::GatewaySingle, softly(Code::GatewaySingle, on_one), place, reason);
    }
}
