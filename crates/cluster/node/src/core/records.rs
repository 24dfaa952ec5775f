//! What a core hears from the control plane, records of the metadata above all.

use super::context::Context;
use super::views::VIEWS;
use super::{Core, flattens, hosts, joints, limits, observe, reserve, snapshots, wishes};
use crate::authority::AUTHORITY;
use crate::control::{FromCore, Record, ToCore};
use crate::faults::Fault;
use crate::mail::NodeMessage;
use crate::reporter::REPORTER;
use crate::reservations::Adopted;
use crate::shards::{DIRECTORY, Shards};
use crate::token;
use crate::view::{Change, View};
use amita_fabric::Addresses;
use amita_fabric::secure::Recorded;
use amita_frontend::Event;
use amita_metadata as meta;
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::CallId;
use amita_types::map::{self, Group};
use amita_types::{Generation, NodeId, PoolId, StoreId, VolumeId};
use std::net::SocketAddr;

/// All that the control plane has said since the last pass.
pub(super) fn take_in(core: &mut Core, driver: &mut dyn Driver) {
    while let Some(message) = core.cx.control.inbox.pop_front() {
        core.cx.clock.stir();
        on_control(core, driver, message);
    }
}

fn on_control(core: &mut Core, driver: &mut dyn Driver, message: ToCore) {
    let now = core.cx.clock.began();
    match message {
        ToCore::Observe(question) => core
            .observing
            .ask(driver.now(), &core.cx.shards, &core.forwarding.gate, question),
        ToCore::Kept(question) => observe::tell_kept(core, driver, &question),
        ToCore::Sessions(question) => observe::tell_sessions(core, driver, &question),
        ToCore::Links(question) => observe::tell_links(core, driver, &question),
        ToCore::Steer { node, network } => core.cx.peers.steer(node, network),
        ToCore::DropHosts(dropped) => {
            if !core.cx.config.faults.has(Fault::KeepWhenLapsed) {
                hosts::drop_all(&mut core.cx, &mut core.fronts, &mut core.forwarding.forwarder, driver);
            }
            // Whoever asks may have lost patience.
            let _ = dropped.send(core.cx.config.core);
        }
        ToCore::Metadata { call, result } => metadata(core, now, call, result),
        ToCore::Record(record) => {
            core.cx.tell_others(|| NodeMessage::Record(record.clone()));
            apply(core, now, &record);
        }
        ToCore::Settled => {
            core.nvme.settle();
            core.iscsi.settle();
            core.named.settle();
            core.locks.settle(now);
        }
        ToCore::Recall(store) => core.cx.stores.recall(store),
        ToCore::Keep { content, stores } => core.cx.stores.keep(&content, &stores),
        ToCore::Hold { holdings, stores } => core.cx.stores.hold(now, holdings.as_ref(), &stores),
        ToCore::Admit { store, path, mount } => core.cx.stores.admit(store, &path, mount),
        ToCore::Retire { path, why } => core.cx.stores.retire(&path, why),
        ToCore::Recheck => {
            core.cx.peers.fabric.recheck(driver, now);
            core.fronts.event_to_all(driver, || Event::Trust);
        }
        ToCore::Computed { front, tag, result } => {
            core.fronts.event(driver, front, Event::Computed { tag, result });
        }
        ToCore::Describe => {
            let text = observe::describe(core, now);
            core.cx.control.tell(FromCore::Description(text));
        }
    }
}

/// A call to the metadata has ended, for the part of this node that the call names.
pub(super) fn metadata(core: &mut Core, now: Time, call: CallId, result: Result<meta::Reply, meta::Error>) {
    let caller = token::id_core(call.0);
    if caller != core.cx.config.core {
        return core.cx.mail.send(caller, NodeMessage::Metadata { call, result });
    }
    match token::id_shard(call.0) {
        VIEWS if core.views.has_asked(call) => core.views.answered(call, result),
        VIEWS if core.seats.has_asked(call) => joints::answered(core, now, call, result.as_ref().ok()),
        VIEWS => core.doubts.answered(call, result),
        AUTHORITY => core.cx.inquiry.answered(now, call, result.as_ref().ok()),
        REPORTER => core.reporter.ended(now, result.is_ok()),
        DIRECTORY if core.reservations.answered(call, &result) => {
            reserve::carry_out(&mut core.cx, &mut core.reservations);
        }
        DIRECTORY if core.snapshots.answered(now, call, &result) => snapshots::carry_out(core, now),
        DIRECTORY if core.sets.answered(now, call, &result) => {}
        DIRECTORY if core.flattens.answered(now, call) => flattens::carry_out(core, now),
        DIRECTORY if core.wishes.answered(now, call, &result) => wishes::carry_out(core),
        DIRECTORY => core.directory.metadata(now, call, result),
        _ => core.cx.shards.metadata(now, call, result),
    }
}

/// A record of the metadata is there, or has changed.
pub(super) fn apply(core: &mut Core, now: Time, record: &Record) {
    let change = core.cx.view.apply(record);
    match change {
        Change::Reservation(..) => {
            core.nvme.note_reservation(now);
            core.iscsi.note_reservation(now);
        }
        Change::Space { .. } => core.iscsi.note_space(now),
        _ => {
            core.nvme.note(change.concerns_hosts());
            core.iscsi.note(change.concerns_initiators());
        }
    }
    core.named.note(change.concerns_exports());
    for (old, new) in core.cx.view.take_switched() {
        switched(core, now, old, new);
    }
    for (volume, name) in core.cx.view.take_deleted() {
        if core.cx.config.core == 0 {
            core.directory.deleted(now, volume, &name, &core.cx.view);
        }
        limits::changed(core, now, volume);
    }
    match change {
        Change::Nothing | Change::Hosts | Change::Initiators | Change::Export | Change::Space { keys: false } => {}
        Change::Reservation(volume, revision) => {
            reservation_changed(&core.cx.view, &mut core.cx.shards, volume, revision);
            core.locks.stir(now);
        }
        Change::Nodes { now: nodes, refused } => {
            for (node, addresses) in nodes {
                node_changed(&mut core.cx, now, node, addresses);
            }
            if let Some(why) = refused {
                core.cx.control.warn(why);
            }
        }
        Change::Store { store, node, moved } => store_changed(&mut core.cx, now, store, node, moved),
        Change::Group(group, pool) => group_changed(core, now, &group, pool),
        Change::Life => {
            core.locks.stir(now);
            core.directory.stir(now);
            core.forwarding.nodes_changed(&mut core.cx, now);
        }
        Change::Scrub | Change::Move(_) | Change::Space { keys: true } => core.directory.stir(now),
        Change::Volume(volume, generation) => {
            // A deleted one that was cloned is opened though nobody uses it.
            let record = core.cx.view.volume_of(volume);
            if record.is_some_and(|record| map::is_hidden(&record.name) || !record.parents.is_empty()) {
                core.directory.stir(now);
            }
            volume_changed(core, now, volume, generation);
        }
        Change::Flatten => {
            core.directory.stir(now);
            flattens::look(core, now);
        }
        Change::SnapshotWish => {
            core.directory.stir(now);
            snapshots::look(core, now);
        }
        Change::Closing => {
            if core.cx.config.core == 0 {
                core.directory.carry_out_closings(now, &core.cx.view);
            }
        }
        Change::Joint(name) => limits::joint_changed(core, now, &name),
        Change::Tenancy(volume) => limits::changed(core, now, volume),
        Change::Health => core.reporter.stir(now),
        Change::Recovery(settings) => core.cx.shards.set_recovery(&settings),
        Change::Unreadable(why) => core.cx.control.warn(why),
    }
}

/// A volume has moved to another pool: what waits for what it was goes on with what it is.
fn switched(core: &mut Core, now: Time, old: VolumeId, new: VolumeId) {
    if core.cx.config.core == 0 {
        core.directory.switched(now, old, new, &core.cx.view);
    }
    if !core.cx.config.faults.has(Fault::SlowForGood) {
        core.cx.slowed.free(old);
    }
    limits::moved(core, now, old, new);
    core.forwarding.owner_changed(&mut core.cx, now, old);
}

fn reservation_changed(view: &View, shards: &mut Shards, volume: VolumeId, revision: u64) {
    let state = Some(view.reservation(volume).cloned().unwrap_or_default());
    shards.reservation_changed(volume, Adopted { revision, state });
}

fn node_changed(cx: &mut Context, now: Time, node: NodeId, addresses: Option<Addresses>) {
    let recorded = cx.view.node_record(node).map(|record| Recorded {
        name: record.name.clone(),
        is_gateway: record.client || record.gateway,
    });
    cx.peers.fabric.set_name(node, recorded);
    match (cx.view.node_record(node), addresses) {
        (Some(record), None) => cx.control.warn(format!(
            "node {node} ({}) records {:?} as its fabric, which is no ADDRESS:PORT: it is not spoken to until it does",
            record.name, record.fabric
        )),
        (Some(record), Some(Addresses { second: None, .. })) => {
            if let Some(second) = &record.fabric2 {
                cx.control.warn(format!(
                    "node {node} ({}) records {second:?} as its fabric by a second network, which is no ADDRESS:PORT: it is spoken \
                     to by the first one alone",
                    record.name
                ));
            }
        }
        _ => {}
    }
    if node != cx.config.node && cx.peers.holds(node) {
        // Each core of a peer listens on a port of its own: dial the one with our number, so that the
        // connections are spread over its cores.
        let cores = cx.view.node_record(node).map_or(1, |record| record.cores.max(1));
        let lane = (cx.config.core as u32 % cores) as u16;
        let of_lane = |address: SocketAddr| SocketAddr::new(address.ip(), address.port().saturating_add(lane));
        let addresses = addresses.map(|Addresses { first, second }| Addresses {
            first: of_lane(first),
            second: second.map(of_lane),
        });
        let may = |address: &SocketAddr| cx.config.dials_others || address.ip().to_canonical().is_loopback();
        if let Some(other) = addresses.and_then(|all| all.each().find(|address| !may(address))) {
            cx.control.warn(format!(
                "node {node} is on another machine ({other}), which is not spoken to without an identity: pass --identity DIR, \
                 or --insecure-network in a network of the cluster's own"
            ));
        }
        let first = addresses.filter(|all| may(&all.first));
        let addresses = first.map(|Addresses { first, second }| Addresses {
            first,
            second: second.filter(may),
        });
        cx.peers.fabric.set_peer(now, node, addresses);
    }
}

fn store_changed(cx: &mut Context, now: Time, store: StoreId, node: NodeId, moved: bool) {
    // A record is rewritten for much that concerns no link: a duty, a weight, a size. To be told of a new link
    // where the old one stands would have sequencers begin anew on it, with credits that the store does not
    // count anew, and with answers on the way that belong to what was before.
    let moved = moved || cx.config.faults.has(Fault::UpAtEachRecord);
    if moved && node != cx.config.node && cx.peers.link_to(node).is_some() {
        cx.store_up(now, store, node);
    }
}

fn group_changed(core: &mut Core, now: Time, group: &Group, pool: PoolId) {
    if !group.syncing.is_empty() {
        core.reporter.stir(now);
        core.directory.stir(now);
    }
    core.cx.shards.hint(now, pool, group);
}

fn volume_changed(core: &mut Core, now: Time, volume: VolumeId, generation: Generation) {
    core.directory.stir(now);
    core.cx.shards.hint_volume(now, volume, generation);
    if let Some(record) = core.cx.view.volume_of(volume) {
        let (generation, size_bytes) = (record.generation, record.size_bytes);
        if core.cx.config.core == 0 {
            core.directory.named(now, volume, &record.name, &core.cx.view);
        }
        core.cx.shards.shed_parents(now, volume, &record.parents);
        core.cx.shards.resized(volume, generation, size_bytes);
        core.directory.resized(volume, generation, size_bytes);
    }
    limits::changed(core, now, volume);
    core.forwarding.owner_changed(&mut core.cx, now, volume);
    if core.cx.view.is_of_an_open_set(volume) {
        snapshots::look(core, now);
    }
}
