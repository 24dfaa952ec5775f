//! What the cores of a node say to one another.

use super::locks::LOCKS;
use super::{Core, effects, flattens, forward, hosts, limits, named, records, reserve, route, snapshots, wishes};
use crate::directory::{OpeningId, Requester};
use crate::faults::Fault;
use crate::forwarder::{Pending, Work, is_host};
use crate::mail::{CoreMessage, DirectoryMessage, IoMessage, NodeMessage, Origin, ReservationMessage, VolumeMessage};
use crate::wishes::Asker;
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::Opened;
use amita_types::{Generation, NodeId, StoreId, VolumeId};

impl Core {
    pub(super) fn on_mail(&mut self, driver: &mut dyn Driver, message: CoreMessage) {
        if !message.is_of_io() {
            self.cx.clock.stir();
        }
        match message {
            CoreMessage::Io(message) => self.on_io_mail(driver, message),
            CoreMessage::Volume(message) => self.on_volume_mail(driver, message),
            CoreMessage::Directory(message) => self.on_directory_mail(driver.now(), message),
            CoreMessage::Reservation(message) => self.on_reservation_mail(driver, message),
            CoreMessage::Snapshot(message) => snapshots::on_mail(self, driver.now(), message),
            CoreMessage::Limit(message) => limits::on_mail(self, driver.now(), message),
            CoreMessage::Node(message) => self.on_node_mail(driver, message),
        }
    }

    fn on_io_mail(&mut self, driver: &mut dyn Driver, message: IoMessage) {
        let now = driver.now();
        match message {
            IoMessage::ToStore {
                from,
                link,
                request,
                payload,
            } => {
                if request.trace.is_some() {
                    self.cx.shards.traces.touch();
                }
                self.cx.pass_to_store(now, from, link, request, payload);
            }
            IoMessage::FromStore { link, answer, payload } => self.cx.answer_from_store(now, link, answer, payload),
            IoMessage::ToPeer { link, message, payload } => {
                self.cx.peers.send(link, message, payload, &mut self.cx.control)
            }
            IoMessage::ToSequencer { from, answer, payload } => {
                self.cx.pass_to_sequencer(now, from, answer, payload);
            }
            IoMessage::Piece {
                origin,
                volume,
                op,
                payload,
            } => {
                if self.cx.is_old_of_another_core(now, &origin) {
                    let work = Work::Io(op);
                    forward::refuse_old(
                        &mut self.cx,
                        Pending {
                            origin,
                            work,
                            payload,
                            since: now,
                        },
                    );
                } else {
                    route::sequence(&mut self.cx, &mut self.forwarding, now, origin, volume, op, payload);
                }
            }
            IoMessage::Done {
                origin,
                core,
                result,
                payload,
            } => {
                self.cx.shards.traces.acknowledge(&origin, core);
                self.ended(driver, &origin, result, payload);
            }
            IoMessage::Acknowledged { trace, at } => self.cx.shards.traces.close(at, trace),
        }
    }

    fn on_volume_mail(&mut self, driver: &mut dyn Driver, message: VolumeMessage) {
        use VolumeMessage as Volume;
        let now = driver.now();
        match message {
            Volume::Listed { origin, exports } => {
                let (tag, result) = (origin.tag, Ok(exports));
                self.fronts
                    .event(driver, origin.front, frontend::Event::Listed { tag, result });
            }
            Volume::Opened { origin, result } => self.on_opened(driver, &origin, result),
            Volume::MakeShard { opened } => self.make_shard(driver, *opened),
            Volume::DropShard {
                volume,
                generation,
                why,
                handed_over,
            } => self.drop_shard(driver, volume, generation, &why, handed_over),
            Volume::Lost {
                volume,
                generation,
                why,
                known,
            } => {
                if let Some(generation) = generation.filter(|ended| self.cx.shards.generation(volume) == Some(*ended)) {
                    // What is under way ends first.
                    self.drop_shard(driver, volume, generation, &why, false);
                }
                self.tell_of_loss(driver, known, &why);
            }
            Volume::EndShard {
                volume,
                closing,
                why,
                known,
            } => {
                if let Some(generation) = self.cx.shards.generation(volume) {
                    self.drop_shard(driver, volume, generation, &why, false);
                }
                self.tell_of_loss(driver, known, &why);
                let core = self.cx.config.core;
                let ended = DirectoryMessage::ShardEnded { volume, closing, core };
                self.cx.mail.send(0, ended);
            }
            Volume::VolumeRoute { volume, way } => self.forwarding.sought(&mut self.cx, now, volume, way),
            Volume::Leave {
                volume,
                generation,
                attempt,
            } => self.cx.hand_over(volume, generation, attempt),
            Volume::Stay { volume } => {
                self.cx.shards.stay(volume);
                self.forwarding.settle(&mut self.cx, now, volume);
            }
            Volume::Scrub {
                volume,
                generation,
                order,
            } => self.cx.shards.scrub(now, volume, generation, order),
            Volume::Reply { link, message } => {
                self.cx
                    .peers
                    .send(link, message, Slice::default(), &mut self.cx.control)
            }
        }
    }

    /// On core 0.
    fn on_directory_mail(&mut self, now: Time, message: DirectoryMessage) {
        use DirectoryMessage as Directory;
        match message {
            Directory::Open { origin, name } => self.directory.open(now, origin, &name),
            Directory::Close { opening } => self.directory.close(opening),
            Directory::ShardMade { volume, generation } => self.directory.shard_made(volume, generation),
            Directory::ShardEnded { volume, closing, core } => {
                self.directory.shard_ended(volume, closing, core);
                self.directory.carry_out_closings(now, &self.cx.view);
            }
            Directory::Seek {
                core,
                volume,
                lost,
                for_clones,
            } => self
                .directory
                .seek(now, core, (volume, for_clones), &lost, &self.cx.view),
            Directory::Left {
                volume,
                generation,
                attempt,
                core,
            } => self.directory.left(now, volume, (generation, attempt), core),
            Directory::Release {
                core,
                link,
                tag,
                from,
                volume,
                generation,
                hand_over,
            } => {
                let asker = Requester {
                    node: from,
                    core,
                    link,
                    tag,
                };
                let view = &self.cx.view;
                self.directory.release(now, asker, volume, generation, hand_over, view);
            }
            Directory::Released { tag, from, outcome } => self.directory.released(tag, from, outcome),
            Directory::Whole {
                volume,
                generation,
                core,
                member,
            } => self.directory.whole(volume, generation, core, member),
            Directory::Scrubbed {
                volume,
                generation,
                core,
                number,
                group,
                is_last,
                report,
            } => {
                let (of, place) = ((volume, generation), (number, group, is_last));
                self.directory.scrubbed(now, of, core, place, report);
            }
        }
    }

    fn on_reservation_mail(&mut self, driver: &mut dyn Driver, message: ReservationMessage) {
        match message {
            ReservationMessage::Reserve {
                origin,
                volume,
                payload,
            } => self
                .forwarding
                .wait(&mut self.cx, driver.now(), volume, origin, Work::Reserve, payload),
            ReservationMessage::ReserveHere {
                origin,
                volume,
                command,
            } => reserve::ask(&mut self.cx, &mut self.reservations, origin, volume, *command),
            ReservationMessage::Reserved { origin, result } => self.on_reserved(driver, origin, *result),
            ReservationMessage::Adopt { volume, adopted } => self.cx.shards.adopt(volume, adopted),
            ReservationMessage::Adopted { volume, revision, core } => {
                self.reservations.adopted(volume, revision, core);
                reserve::carry_out(&mut self.cx, &mut self.reservations);
            }
        }
    }

    fn on_node_mail(&mut self, driver: &mut dyn Driver, message: NodeMessage) {
        use NodeMessage as Node;
        let now = driver.now();
        match message {
            Node::HostGone { core, front } => self.forwarding.forwarder.forget(core, Some(front)),
            Node::HostShown { address } => self.fronts.has_shown_elsewhere(driver, address),
            Node::DropHosts => {
                hosts::drop_all(&mut self.cx, &mut self.fronts, &mut self.forwarding.forwarder, driver);
            }
            Node::Nvme { connection, tag, call } => self.nvme.ask_register(&mut self.cx.mail, connection, tag, call),
            Node::NvmeReply { front, tag, word } => {
                let reply = Box::new(word);
                self.fronts
                    .event(driver, front, frontend::Event::Register { tag, reply });
            }
            Node::Computed { front, tag, result } => {
                self.fronts
                    .event(driver, front, frontend::Event::Computed { tag, result });
            }
            Node::Catalog(catalog) => self.nvme.adopt(catalog),
            Node::Iscsi {
                connection,
                tag,
                call: amita_iscsi::Call::Move { volume, group },
            } => wishes::ask(self, now, Asker { connection, tag }, volume, group),
            Node::Iscsi { connection, tag, call } => {
                self.iscsi.ask_register(&mut self.cx.mail, connection, tag, call);
            }
            Node::IscsiReply { front, tag, word } => {
                let reply = Box::new(word);
                self.fronts
                    .event(driver, front, frontend::Event::Register { tag, reply });
            }
            Node::IscsiCatalog(catalog) => self.iscsi.adopt(catalog),
            Node::StoreServes { store, core } => {
                self.cx.stores.node.serves(store, core);
                self.cx.store_up(now, store, self.cx.config.node);
            }
            Node::StoreUnmounted => self.cx.stores.node.unmounted(),
            Node::LinkClosed { link } => self.cx.stores.link_closed(now, link),
            Node::PeerUp { peer, link } => {
                self.cx.peers.on_up(peer, link);
                let stores: Vec<StoreId> = self.cx.view.stores_of(peer).collect();
                for store in stores {
                    self.cx.store_up(now, store, peer);
                }
                self.forwarding.settle_all(&mut self.cx, now);
            }
            Node::PeerDown { peer } => {
                self.cx.peers.on_down(now, peer);
                for store in self.cx.view.stores_of(peer) {
                    self.cx.shards.store_down(now, store);
                }
                self.forwarding.link_broke(&mut self.cx, now, peer);
            }
            Node::PeerRefused { peer, core, refused } => {
                self.cx.peers.on_refused(&mut self.cx.mail, peer, core, refused);
            }
            Node::PeerLost { peer } => {
                if self.cx.peers.on_lost(peer) {
                    for store in self.cx.view.stores_of(peer) {
                        self.cx.shards.store_lost(now, store);
                    }
                    self.forwarding.nodes_changed(&mut self.cx, now);
                }
            }
            Node::Record(record) => records::apply(self, now, &record),
            Node::Metadata { call, result } => records::metadata(self, now, call, result),
        }
    }

    fn on_opened(
        &mut self,
        driver: &mut dyn Driver,
        origin: &Origin,
        result: Result<(OpeningId, frontend::VolumeInfo), frontend::OpenError>,
    ) {
        let opening = result.as_ref().ok().map(|(opening, _)| *opening);
        let result = named::opened(self, origin, driver.now(), result.map(|(_, info)| info));
        match (opening, &result) {
            (Some(opening), Some(Ok(info))) if self.fronts.has(origin.front) => {
                self.fronts.requests.opened(origin.front, info.id, opening);
            }
            // The host went away while its volume was being opened, or may not have it: it uses nothing.
            (Some(opening), _) => self.cx.mail.send(0, DirectoryMessage::Close { opening }),
            (None, _) => {}
        }
        if let Some(result) = result {
            let tag = origin.tag;
            self.fronts
                .event(driver, origin.front, frontend::Event::Opened { tag, result });
        }
    }

    fn make_shard(&mut self, driver: &mut dyn Driver, opened: Opened) {
        let now = driver.now();
        let (volume, generation) = (opened.volume.id, opened.generation);
        if self.cx.shards.was_dropped(volume, generation) {
            // The word of its end came by another ring, and was quicker: it counts as made and dropped.
            self.cx.mail.send(0, DirectoryMessage::ShardMade { volume, generation });
            return self.forwarding.settle(&mut self.cx, now, volume);
        }
        if let Some(older) = self.cx.shards.generation(volume)
            && !self.cx.config.faults.has(Fault::ForgetOldShard)
        {
            // Another core has found it lost, and its word is on another ring: the directory was quicker, and the volume is
            // ours again. What is under way under the older generation ends now, by the same steps; its word then finds
            // nothing to do.
            let why = "another gateway took the volume over for a moment";
            self.drop_shard(driver, volume, older, why, false);
        }
        let local: Vec<StoreId> = self.cx.stores.node.all().collect();
        let of_peer = |peer| self.cx.view.stores_of(peer).map(move |store| (store, peer));
        let here = local.iter().map(|store| (*store, self.cx.config.node));
        let there = self.cx.peers.up().flat_map(of_peer);
        let up: Vec<(StoreId, NodeId)> = here.chain(there.filter(|(store, _)| !local.contains(store))).collect();
        let lost: Vec<StoreId> = self
            .cx
            .peers
            .lost()
            .flat_map(|peer| self.cx.view.stores_of(peer))
            .collect();
        let warning = self.cx.shards.make(now, opened, &local, &up, &lost);
        // What has left the record since it was read was told when there was nobody to hear it.
        if let Some(record) = self.cx.view.volume_of(volume) {
            self.cx.shards.shed_parents(now, volume, &record.parents);
        }
        // All cores have read the same.
        if let Some(warning) = warning.filter(|_| self.cx.config.core == 0) {
            self.cx.control.warn(warning);
        }
        self.cx.mail.send(0, DirectoryMessage::ShardMade { volume, generation });
        self.forwarding.settle(&mut self.cx, now, volume);
    }

    fn drop_shard(
        &mut self,
        driver: &mut dyn Driver,
        volume: VolumeId,
        generation: Generation,
        why: &str,
        handed_over: bool,
    ) {
        if self.cx.config.core == 0 {
            let was_served = self.directory.lost(driver.now(), volume, generation);
            if was_served && !handed_over {
                let known = self.cx.view.known_by(volume);
                self.directory.tell_of_loss(volume, generation, why, known);
            }
            self.snapshots.lost(volume, generation);
            self.reservations.lost(volume, generation);
            reserve::carry_out(&mut self.cx, &mut self.reservations);
        }
        self.lender.lost(volume, generation);
        self.cx.shards.note_dropped(volume, generation);
        if self.cx.shards.generation(volume) != Some(generation) {
            return;
        }
        if handed_over || self.cx.shards.is_on_hold(volume) {
            // What is begun anew does not come back to it.
            self.cx.shards.leave(volume, 0);
        }
        let is_closed = forward::was_closed_since(&self.cx, volume, generation);
        self.cx.shards.stop(volume, is_closed);
        // Its pending I/O ends as lost before it goes.
        self.hand_out_effects(driver);
        self.cx.shards.remove(volume);
        if handed_over {
            self.forwarding.settle(&mut self.cx, driver.now(), volume);
        }
    }

    /// Who has a volume open is told that it is served here no longer, by whichever of these numbers he knows it: those of when the directory counted him no
    /// more.
    ///
    /// It is the directory that says so, and not a core that has ended its sequencer: what one core says of that comes by another ring than the directory's
    /// own word, and may come first. Behind a move the directory counts those who use the volume on as users of what it has become; were they told of a
    /// loss, they would be counted for good. Who is told is counted no more, and who is counted is not told.
    fn tell_of_loss(&mut self, driver: &mut dyn Driver, known: Vec<VolumeId>, why: &str) {
        for known in known {
            self.fronts.lost(driver, known, why);
        }
    }

    /// What the directory has others do.
    pub(super) fn carry_out_effects(&mut self, now: Time) -> bool {
        let mut moved = false;
        self.note_opened(now);
        while let Some(effect) = self.directory.next() {
            moved = true;
            effects::carry_out(&mut self.cx, &mut self.directory, effect);
        }
        self.note_opened(now);
        // Both are asked: a reservation's pause ends with that.
        if self.nvme.is_due(now) | self.iscsi.is_due(now) {
            self.make_catalogs();
        }
        moved
    }

    /// Volumes may have been opened, or given up: hosts see that, and snapshots may be wished of them.
    fn note_opened(&mut self, now: Time) {
        let changed = self.directory.take_changed();
        self.nvme.note(changed);
        self.iscsi.note(changed);
        if changed {
            snapshots::look(self, now);
            flattens::look(self, now);
            self.locks.stir(now);
        }
    }

    /// A command that came in on this core has ended.
    fn on_reserved(&mut self, driver: &mut dyn Driver, origin: Origin, result: reserve::Outcome) {
        if origin.front == LOCKS {
            return self.locks.answered(driver.now(), origin.tag, result.is_ok());
        }
        if !is_host(origin.front) {
            return self
                .forwarding
                .receiving
                .reserved(&mut self.cx, driver.now(), origin.tag, &result);
        }
        let tag = origin.tag;
        self.fronts
            .event(driver, origin.front, frontend::Event::Reserved { tag, result });
    }
}
