//! The parts of a core that an I/O goes through, and whom the core speaks to: what most of its functions work on.

use super::CoreConfig;
use super::clock::Clock;
use super::control_plane::ControlPlane;
use super::paced::Paced;
use super::peers::Peers;
use super::slowed::Slowed;
use crate::authority::Inquiry;
use crate::faults::Fault;
use crate::mail::{DirectoryMessage, IoMessage, Mail, NodeMessage, Origin, ReservationMessage, SnapshotMessage};
use crate::shards::Shards;
use crate::snapshots::Word;
use crate::stores::Stores;
use crate::token;
use crate::view::View;
use amita_fabric::Link;
use amita_reactor::driver::{Driver, Time};
use amita_types::{Generation, NodeId, StoreId, VolumeId};

/// What an I/O goes through, and whom a core speaks to.
pub(super) struct Context {
    pub(super) config: CoreConfig,
    pub(super) clock: Clock,
    /// What the metadata says.
    pub(super) view: View,
    /// What was asked of it besides, for fences that are newer than the view.
    pub(super) inquiry: Inquiry,
    pub(super) control: ControlPlane,
    pub(super) mail: Mail,
    pub(super) peers: Peers,
    pub(super) stores: Stores,
    pub(super) shards: Shards,
    /// What is read for copies and moves, and waits.
    pub(super) paced: Paced,
    /// Volumes whose hosts are slowed for a move.
    pub(super) slowed: Slowed,
}

impl Context {
    /// Mail for every other core of this node.
    pub(super) fn tell_others(&mut self, make: impl Fn() -> NodeMessage) {
        for core in (0..self.config.cores).filter(|core| *core != self.config.core) {
            self.mail.send(core, make());
        }
    }

    /// There is a link to a store, and this node at its other end: this very one, where it serves the store itself, whatever
    /// the record says.
    pub(super) fn store_up(&mut self, now: Time, store: StoreId, node: NodeId) {
        let is_here = self.stores.node.core_of(store).is_some();
        let node = if is_here { self.config.node } else { node };
        self.shards.store_up(now, store, node);
    }

    /// A peer's link closed: the stores take the credits back that it had.
    pub(super) fn incoming_closed(&mut self, now: Time, link: Link) {
        let link = token::peer_link(self.config.core, link);
        self.stores.link_closed(now, link);
        self.tell_others(|| NodeMessage::LinkClosed { link });
    }

    /// What goes to stores was handed over to be sent.
    pub(super) fn trace_left(&mut self, driver: &mut dyn Driver) {
        if self.shards.traces.is_hot() {
            driver.refresh();
            self.shards.traces.left(driver.now());
        }
    }

    /// What goes to hosts was handed over to be sent.
    pub(super) fn trace_acknowledged(&mut self, driver: &mut dyn Driver) {
        if self.shards.traces.is_hot() {
            driver.refresh();
            let at = driver.now();
            while let Some((core, trace)) = self.shards.traces.acknowledged(at) {
                self.mail.send(usize::from(core), IoMessage::Acknowledged { trace, at });
            }
        }
    }

    /// Tells the directory of volumes that are to be handed over, and have nothing under way here.
    pub(super) fn say_left(&mut self) {
        if !self.shards.is_any_leaving() {
            return;
        }
        for (volume, generation, attempt) in self.shards.take_left() {
            self.tell_left(volume, generation, attempt);
        }
    }

    /// Tells core 0 of volumes that are on hold, and of which nothing is under way here.
    pub(super) fn say_drained(&mut self) {
        let core = self.config.core;
        for (volume, generation) in self.shards.take_drained() {
            let word = Word::Drained;
            self.mail.send(
                0,
                SnapshotMessage::Word {
                    volume,
                    generation,
                    core,
                    word,
                },
            );
        }
    }

    pub(super) fn tell_left(&mut self, volume: VolumeId, generation: Generation, attempt: u64) {
        let core = self.config.core;
        let left = DirectoryMessage::Left {
            volume,
            generation,
            attempt,
            core,
        };
        self.mail.send(0, left);
    }

    /// Tells core 0 of reservations that nothing under way here offends against any more.
    pub(super) fn say_adopted(&mut self) {
        let core = self.config.core;
        for (volume, revision) in self.shards.take_adopted() {
            let adopted = ReservationMessage::Adopted { volume, revision, core };
            self.mail.send(0, adopted);
        }
    }

    /// The volume is to be handed over: nothing is taken in for it any more.
    pub(super) fn hand_over(&mut self, volume: VolumeId, generation: Generation, attempt: u64) {
        if self.shards.generation(volume) == Some(generation) {
            return self.shards.leave(volume, attempt);
        }
        self.tell_left(volume, generation, attempt);
    }

    /// Has another core of this node taken it in so long ago that it may not be carried out any more (R9)? That core looks
    /// after the connection on which it came, and may stand still since: its host may have gone on by another gateway, and
    /// nobody here would know. What this core itself has taken in it has looked after.
    pub(super) fn is_old_of_another_core(&self, now: Time, origin: &Origin) -> bool {
        usize::from(origin.core) != self.config.core
            && now > origin.kept.plus(self.config.stale_after)
            && !self.config.faults.has(Fault::AnyAgeBetweenCores)
    }
}
