//! What a core hears from the control plane, records of the metadata above all, and what it tells it.

use super::{Core, observe};
use crate::control::{FromCore, Record, ToCore};
use crate::faults::Fault;
use crate::mail::NodeMessage;
use crate::reporter::REPORTER;
use crate::reservations::Adopted;
use crate::shards::DIRECTORY;
use crate::token;
use crate::view::Change;
use amita_metadata as meta;
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::CallId;
use amita_types::condition::Failing;
use amita_types::map::Group;
use amita_types::{Generation, NodeId, PoolId, StoreId, VolumeId};
use std::net::SocketAddr;

/// What no longer happens.
fn works_again(failing: Failing) -> &'static str {
    match failing {
        Failing::Writes => "no write has failed",
        Failing::Reads => "no read has failed",
        Failing::Opening => "no opening has failed",
    }
}

/// What happens.
fn fails(failing: Failing) -> &'static str {
    match failing {
        Failing::Writes => "writes fail",
        Failing::Reads => "reads fail",
        Failing::Opening => "it could not be opened",
    }
}

impl Core {
    /// All that the control plane has said since the last pass.
    pub(super) fn take_in_control(&mut self, driver: &mut dyn Driver) {
        while let Some(message) = self.control.inbox.pop_front() {
            self.clock.stir();
            self.on_control(driver, message);
        }
    }

    fn on_control(&mut self, driver: &mut dyn Driver, message: ToCore) {
        let now = self.clock.began();
        match message {
            ToCore::Observe(question) => observe::observe(self, driver, &question),
            ToCore::DropHosts(dropped) => {
                if !self.config.faults.has(Fault::KeepWhenLapsed) {
                    self.drop_hosts(driver);
                }
                // Whoever asks may have lost patience.
                let _ = dropped.send(self.config.core);
            }
            ToCore::Metadata { call, result } => self.on_metadata(now, call, result),
            ToCore::Record(record) => {
                for core in (0..self.config.cores).filter(|core| *core != self.config.core) {
                    self.mail.send(core, NodeMessage::Record(record.clone()));
                }
                self.on_record(now, &record);
            }
            ToCore::Settled => self.nvme.settle(),
            ToCore::Recall(store) => self.stores.recall(store),
            ToCore::Keep { content, stores } => self.stores.keep(&content, &stores),
            ToCore::Hold { holdings, stores } => self.stores.hold(now, holdings.as_ref(), &stores),
            ToCore::Admit { store, path, mount } => self.stores.admit(store, &path, mount),
            ToCore::Retire { path, why } => self.stores.retire(&path, why),
            ToCore::Describe => {
                let text = observe::describe(self, now);
                self.control.tell(FromCore::Description(text));
            }
        }
    }

    /// A call to the metadata has ended, for the part of this node that the call names.
    pub(super) fn on_metadata(&mut self, now: Time, call: CallId, result: Result<meta::Reply, meta::Error>) {
        let core = token::id_core(call.0);
        if core != self.config.core {
            return self.mail.send(core, NodeMessage::Metadata { call, result });
        }
        match token::id_shard(call.0) {
            REPORTER => self.reporter.ended(now, result.is_ok()),
            DIRECTORY if self.reservations.answered(call, &result) => self.carry_out_reservations(),
            DIRECTORY => self.directory.metadata(now, call, result),
            _ => self.shards.metadata(now, call, result),
        }
    }

    /// A record of the metadata is there, or has changed.
    pub(super) fn on_record(&mut self, now: Time, record: &Record) {
        let change = self.view.apply(record);
        self.nvme.note(change.concerns_hosts());
        for volume in self.view.take_deleted() {
            if self.config.core == 0 {
                self.directory.deleted(now, volume);
            }
        }
        match change {
            Change::Nothing | Change::Hosts => {}
            Change::Reservation(volume, revision) => self.on_reservation_record(volume, revision),
            Change::Node(node, address) => self.on_node_record(now, node, address),
            Change::Store { store, node, moved } => self.on_store_record(now, store, node, moved),
            Change::Group(group, pool) => self.on_group_record(now, &group, pool),
            Change::Life => {
                self.directory.stir(now);
                self.look_at_owners(now);
            }
            Change::Scrub | Change::Move(_) => self.directory.stir(now),
            Change::Volume(volume, generation) => self.on_volume_record(now, volume, generation),
            Change::Closing => {
                if self.config.core == 0 {
                    self.directory.carry_out_closings(now, &self.view);
                }
            }
            Change::Health => self.reporter.stir(now),
            Change::Recovery(settings) => self.shards.set_recovery(&settings),
            Change::Unreadable(why) => self.control.warn(why),
        }
    }

    fn on_reservation_record(&mut self, volume: VolumeId, revision: u64) {
        let state = Some(self.view.reservation(volume).cloned().unwrap_or_default());
        self.shards.reservation_changed(volume, Adopted { revision, state });
    }

    fn on_node_record(&mut self, now: Time, node: NodeId, address: Option<SocketAddr>) {
        if node != self.config.node && self.peers.holds(node) {
            // Each core of a peer listens on a port of its own: dial the one with our number, so that the
            // connections are spread over its cores.
            let cores = self.view.node_record(node).map_or(1, |record| record.cores.max(1));
            let lane = (self.config.core as u32 % cores) as u16;
            let address = address.map(|a| SocketAddr::new(a.ip(), a.port().saturating_add(lane)));
            self.peers.fabric.set_peer(now, node, address);
        }
    }

    fn on_store_record(&mut self, now: Time, store: StoreId, node: NodeId, moved: bool) {
        // A record is rewritten for much that concerns no link: a duty, a weight, a size. To be told of a new link
        // where the old one stands would have sequencers begin anew on it, with credits that the store does not
        // count anew, and with answers on the way that belong to what was before.
        let moved = moved || self.config.faults.has(Fault::UpAtEachRecord);
        if moved && node != self.config.node && self.peers.link_to(node).is_some() {
            self.shards.store_up(now, store);
        }
    }

    fn on_group_record(&mut self, now: Time, group: &Group, pool: PoolId) {
        if !group.syncing.is_empty() {
            self.reporter.stir(now);
            self.directory.stir(now);
        }
        self.shards.hint(now, pool, group);
    }

    fn on_volume_record(&mut self, now: Time, volume: VolumeId, generation: Generation) {
        self.directory.stir(now);
        self.shards.hint_volume(now, volume, generation);
        if let Some(record) = self.view.volume_of(volume) {
            let size_bytes = record.size_bytes;
            self.shards.resized(volume, size_bytes);
            self.directory.resized(volume, size_bytes);
        }
        self.look_again(now, volume);
    }

    /// Makes the settings anew that NVMe hosts see, if something may have changed them.
    pub(super) fn make_catalog(&mut self) {
        let (mail, control) = (&mut self.mail, &mut self.control);
        self.nvme.make_catalog(&self.view, &self.directory, mail, control);
    }

    /// Tells of stores that began to serve, or that cannot.
    pub(super) fn announce_stores(&mut self) {
        if !self.stores.has_news() {
            return;
        }
        self.clock.stir();
        self.reporter.stir_space(self.clock.began());
        let before = self.control.outbox.len();
        self.stores.announce(self.clock.began(), &mut self.control.outbox);
        let told = &self.control.outbox[before..];
        let unmounted = |told: &&FromCore| matches!(told, FromCore::StoreFailed { store: None, .. });
        for _ in told.iter().filter(unmounted) {
            self.mail.broadcast(|| NodeMessage::StoreUnmounted);
        }
        let core = self.config.core;
        for what in told {
            if let &FromCore::StoreServes { store, .. } = what {
                self.mail.broadcast(|| NodeMessage::StoreServes { store, core });
            }
        }
    }

    /// Tells of what the parts have noticed: slow stores, volumes that fail, hosts that were turned away.
    pub(super) fn report(&mut self, now: Time) {
        for event in self.shards.health_events() {
            self.control.warn(event.to_string());
            self.reporter.stir(now);
        }
        if self.stores.take_asked() {
            self.reporter.stir_space(now);
        }
        for (volume, failing, why) in self.shards.take_troubles() {
            self.trouble(now, volume, failing, &why);
        }
        for (volume, why) in self.directory.take_unopened() {
            let known = self.view.volumes().find(|known| known.name == volume);
            if let Some(id) = known.map(|known| known.id) {
                self.trouble(now, id, Failing::Opening, &why);
            }
        }
        for ended in self.reporter.ended_troubles(now) {
            let name = self.name_of(ended.0);
            let what = works_again(ended.1);
            self.control.tell(FromCore::VolumeWorks {
                volume: name.clone(),
                text: format!("volume {name}: {what} for half a minute"),
            });
        }
        if let Some(why) = self.fronts.take_turned_away(now) {
            self.control.warn(why);
        }
        if let Some((call, request)) = self.reporter.tick(now, &mut self.shards, &self.view, &self.stores) {
            self.control.call(call, request);
        }
    }

    fn name_of(&self, volume: VolumeId) -> String {
        let found = self.view.volume_of(volume);
        found.map_or_else(|| volume.to_string(), |found| found.name.clone())
    }

    /// Something fails at a volume: it is said when it begins, and stands in the cluster's status until it ends.
    fn trouble(&mut self, now: Time, volume: VolumeId, failing: Failing, why: &str) {
        if self.reporter.trouble(now, volume, failing, why) {
            let volume = self.name_of(volume);
            let what = fails(failing);
            self.control.tell(FromCore::VolumeFails {
                text: format!("volume {volume}: {what}: {why}"),
                volume,
            });
        }
    }
}
