//! What the cores of a node say to one another, and what the directory on core 0 has them do.

use super::Core;
use crate::directory::{Asker, Effect};
use crate::faults::Fault;
use crate::forwarder::{Pending, Work};
use crate::mail::{CoreMessage, DirectoryMessage, IoMessage, NodeMessage, Origin, ReservationMessage, VolumeMessage};
use amita_fabric::Message;
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::Opened;
use amita_types::{Generation, NodeId, StoreId, VolumeId};

impl Core {
    pub(super) fn on_mail(&mut self, driver: &mut dyn Driver, message: CoreMessage) {
        if !message.is_of_io() {
            self.clock.stir();
        }
        match message {
            CoreMessage::Io(message) => self.on_io_mail(driver, message),
            CoreMessage::Volume(message) => self.on_volume_mail(driver, message),
            CoreMessage::Directory(message) => self.on_directory_mail(driver.now(), message),
            CoreMessage::Reservation(message) => self.on_reservation_mail(driver, message),
            CoreMessage::Node(message) => self.on_node_mail(driver, message),
        }
    }

    fn on_io_mail(&mut self, driver: &mut dyn Driver, message: IoMessage) {
        let now = driver.now();
        match message {
            IoMessage::ToStore { link, request, payload } => {
                if request.trace.is_some() {
                    self.shards.traces.touch();
                }
                self.pass_to_store(now, link, request, payload);
            }
            IoMessage::FromStore { link, answer, payload } => self.answer_from_store(now, link, answer, payload),
            IoMessage::ToPeer { link, message, payload } => self.peers.send(link, message, payload, &mut self.control),
            IoMessage::ToSequencer { answer, payload } => self.pass_to_sequencer(now, answer, payload),
            IoMessage::Piece {
                origin,
                volume,
                op,
                payload,
            } => {
                if self.is_old_of_another_core(now, &origin) {
                    let work = Work::Io(op);
                    self.refuse_old(Pending {
                        origin,
                        work,
                        payload,
                        since: now,
                    });
                } else {
                    self.sequence(now, origin, volume, op, payload);
                }
            }
            IoMessage::Done {
                origin,
                core,
                result,
                payload,
            } => {
                self.shards.traces.acknowledge(&origin, core);
                self.ended(driver, &origin, result, payload);
            }
            IoMessage::Acknowledged { trace, at } => self.shards.traces.close(at, trace),
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
            Volume::EndShard { volume, why } => {
                if let Some(generation) = self.shards.generation(volume) {
                    self.drop_shard(driver, volume, generation, &why, false);
                }
                let core = self.config.core;
                self.mail.send(0, DirectoryMessage::ShardEnded { volume, core });
            }
            Volume::Sought { volume, way } => self.on_sought(now, volume, way),
            Volume::Leave {
                volume,
                generation,
                attempt,
            } => self.on_leave(volume, generation, attempt),
            Volume::Stay { volume } => {
                self.shards.stay(volume);
                self.settle_route(now, volume);
            }
            Volume::Scrub { volume, generation } => self.shards.scrub(now, volume, generation),
            Volume::Reply { link, message } => self.peers.send(link, message, Slice::default(), &mut self.control),
        }
    }

    /// On core 0.
    fn on_directory_mail(&mut self, now: Time, message: DirectoryMessage) {
        use DirectoryMessage as Directory;
        match message {
            Directory::Open { origin, name } => self.directory.open(now, origin, &name),
            Directory::Close { volume } => self.directory.close(volume),
            Directory::ShardMade { volume, generation } => self.directory.shard_made(volume, generation),
            Directory::ShardEnded { volume, core } => {
                self.directory.shard_ended(volume, core);
                self.directory.carry_out_closings(now, &self.view);
            }
            Directory::Seek { core, volume, lost } => self.directory.seek(now, core, volume, &lost, &self.view),
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
                volume,
                generation,
                hand_over,
            } => {
                let asker = Asker { core, link, tag };
                self.directory.release(now, asker, volume, generation, hand_over);
            }
            Directory::Released { tag, outcome } => self.directory.released(tag, outcome),
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
                report,
            } => self.directory.scrubbed(volume, generation, core, report),
        }
    }

    fn on_reservation_mail(&mut self, driver: &mut dyn Driver, message: ReservationMessage) {
        match message {
            ReservationMessage::Reserve {
                origin,
                volume,
                payload,
            } => self.wait_for_route(driver.now(), volume, origin, Work::Reserve, payload),
            ReservationMessage::ReserveHere {
                origin,
                volume,
                command,
            } => self.on_reserve(origin, volume, command),
            ReservationMessage::Reserved { origin, result } => self.on_reserved(driver, origin, result),
            ReservationMessage::Adopt { volume, adopted } => self.shards.adopt(volume, adopted),
            ReservationMessage::Adopted { volume, core } => {
                self.reservations.adopted(volume, core);
                self.carry_out_reservations();
            }
        }
    }

    fn on_node_mail(&mut self, driver: &mut dyn Driver, message: NodeMessage) {
        use NodeMessage as Node;
        let now = driver.now();
        match message {
            Node::HostGone { core, front } => self.forwarder.forget(core, Some(front)),
            Node::DropHosts => drop(self.drop_hosts(driver)),
            Node::Nvme { connection, tag, call } => self.nvme.ask_register(&mut self.mail, connection, tag, call),
            Node::NvmeReply { front, tag, word } => {
                let reply = Box::new(word);
                self.fronts
                    .event(driver, front, frontend::Event::Register { tag, reply });
            }
            Node::Catalog(catalog) => self.nvme.adopt(catalog),
            Node::StoreServes { store, core } => {
                self.stores.node.serves(store, core);
                self.shards.store_up(now, store);
            }
            Node::StoreUnmounted => self.stores.node.unmounted(),
            Node::LinkClosed { link } => self.stores.link_closed(now, link),
            Node::PeerUp { peer, link } => {
                self.peers.on_up(peer, link);
                for store in self.view.stores_of(peer) {
                    self.shards.store_up(now, store);
                }
                self.settle_routes(now);
            }
            Node::PeerDown { peer } => {
                self.peers.on_down(now, peer);
                for store in self.view.stores_of(peer) {
                    self.shards.store_down(now, store);
                }
                self.take_back(now, peer);
            }
            Node::PeerRefused { peer, core, refused } => self.peers.on_refused(&mut self.mail, peer, core, refused),
            Node::PeerLost { peer } => {
                if self.peers.on_lost(peer) {
                    for store in self.view.stores_of(peer) {
                        self.shards.store_lost(now, store);
                    }
                    self.look_at_owners(now);
                }
            }
            Node::Record(record) => self.on_record(now, &record),
            Node::Metadata { call, result } => self.on_metadata(now, call, result),
        }
    }

    fn on_opened(
        &mut self,
        driver: &mut dyn Driver,
        origin: &Origin,
        result: Result<frontend::VolumeInfo, frontend::OpenError>,
    ) {
        let opened = result.as_ref().ok().map(|info| info.id);
        let tag = origin.tag;
        let told = self
            .fronts
            .event(driver, origin.front, frontend::Event::Opened { tag, result });
        // The host went away while its volume was being opened: it uses nothing.
        if let Some(volume) = opened.filter(|_| !told) {
            self.mail.send(0, DirectoryMessage::Close { volume });
        }
    }

    fn on_leave(&mut self, volume: VolumeId, generation: Generation, attempt: u64) {
        if self.shards.generation(volume) == Some(generation) {
            return self.shards.leave(volume, attempt);
        }
        self.tell_left(volume, generation, attempt);
    }

    fn make_shard(&mut self, driver: &mut dyn Driver, opened: Opened) {
        let now = driver.now();
        let (volume, generation) = (opened.volume.id, opened.generation);
        if self.shards.was_dropped(volume, generation) {
            // The word of its end came by another ring, and was quicker: it counts as made and dropped.
            self.mail.send(0, DirectoryMessage::ShardMade { volume, generation });
            return self.settle_route(now, volume);
        }
        if let Some(older) = self.shards.generation(volume)
            && !self.config.faults.has(Fault::ForgetOldShard)
        {
            // Another core has found it lost, and its word is on another ring: the directory was quicker, and the volume is
            // ours again. What is under way under the older generation ends now, by the same steps; its word then finds
            // nothing to do.
            let why = "another gateway took the volume over for a moment";
            self.drop_shard(driver, volume, older, why, false);
        }
        let local: Vec<StoreId> = self.stores.node.all().collect();
        let of = |peers: &mut dyn Iterator<Item = NodeId>| -> Vec<StoreId> {
            peers.flat_map(|peer| self.view.stores_of(peer)).collect()
        };
        let up = [local.clone(), of(&mut self.peers.up())].concat();
        let lost = of(&mut self.peers.lost());
        let warning = self.shards.make(now, opened, &local, &up, &lost);
        // All cores have read the same.
        if let Some(warning) = warning.filter(|_| self.config.core == 0) {
            self.control.warn(warning);
        }
        self.mail.send(0, DirectoryMessage::ShardMade { volume, generation });
        self.settle_route(now, volume);
    }

    fn drop_shard(
        &mut self,
        driver: &mut dyn Driver,
        volume: VolumeId,
        generation: Generation,
        why: &str,
        handed_over: bool,
    ) {
        if self.config.core == 0 {
            self.directory.lost(driver.now(), volume, generation);
            self.reservations.lost(volume, generation);
            self.carry_out_reservations();
        }
        self.shards.note_dropped(volume, generation);
        if self.shards.generation(volume) != Some(generation) {
            return;
        }
        self.shards.stop(volume);
        // Its pending I/O ends as lost before it goes.
        self.hand_out_effects(driver);
        self.shards.remove(volume);
        if handed_over {
            return self.settle_route(driver.now(), volume);
        }
        let why = why.to_owned();
        self.fronts.event_to_all(driver, || frontend::Event::Lost {
            volume,
            why: why.clone(),
        });
    }

    /// What the directory has others do.
    pub(super) fn carry_out_directory(&mut self) -> bool {
        let mut moved = false;
        self.nvme.note(self.directory.take_changed());
        while let Some(effect) = self.directory.next() {
            moved = true;
            self.on_directory_effect(effect);
        }
        self.nvme.note(self.directory.take_changed());
        if self.nvme.is_due() {
            self.make_catalog();
        }
        moved
    }

    fn on_directory_effect(&mut self, effect: Effect) {
        use VolumeMessage as Volume;
        match effect {
            Effect::Call { call, request } => self.control.call(call, request),
            Effect::Ask {
                node,
                tag,
                volume,
                generation,
                hand_over,
            } => match self.peers.link_to(node) {
                Some(route) => {
                    let message = Message::Release {
                        tag,
                        volume,
                        generation,
                        hand_over,
                    };
                    let (mail, control) = (&mut self.mail, &mut self.control);
                    self.peers.send_by(route, message, Slice::default(), mail, control);
                }
                None => self.directory.unreachable(tag),
            },
            Effect::MakeShards { opened } => self.mail.broadcast(|| Volume::MakeShard { opened: opened.clone() }),
            Effect::Scrub { volume, generation } => self.mail.broadcast(|| Volume::Scrub { volume, generation }),
            Effect::DropShards {
                volume,
                generation,
                why,
                handed_over,
            } => self.mail.broadcast(|| Volume::DropShard {
                volume,
                generation,
                why: why.clone(),
                handed_over,
            }),
            Effect::EndShards { volume, why } => self.mail.broadcast(|| Volume::EndShard {
                volume,
                why: why.clone(),
            }),
            Effect::Leave {
                volume,
                generation,
                attempt,
            } => self.mail.broadcast(|| Volume::Leave {
                volume,
                generation,
                attempt,
            }),
            Effect::Stay { volume } => self.mail.broadcast(|| Volume::Stay { volume }),
            Effect::Sought { core, volume, way } => self.mail.send(core, Volume::Sought { volume, way }),
            Effect::Opened { origin, result } => {
                self.mail
                    .send(usize::from(origin.core), Volume::Opened { origin, result });
            }
            Effect::Reply { core, link, message } => self.mail.send(core, Volume::Reply { link, message }),
        }
    }
}
