//! What the cores of a node say to one another, and what the directory on core 0 has them do.

use super::Core;
use crate::control::FromCore;
use crate::directory::Asker;
use crate::faults::Fault;
use crate::forwarder::{Pending, Work};
use crate::mail::CoreMessage;
use amita_fabric::Message;
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::driver::Driver;
use amita_types::{StoreId, VolumeId};

impl Core {
    pub(super) fn on_mail(&mut self, driver: &mut dyn Driver, message: CoreMessage) {
        let now = driver.now();
        self.stirred |= !message.is_of_io();
        match message {
            CoreMessage::ToStore { link, request, payload } => {
                if request.trace.is_some() {
                    self.shards.traces.touch();
                }
                self.pass_to_store(now, link, request, payload);
            }
            CoreMessage::FromStore { link, answer, payload } => self.answer_from_store(now, link, answer, payload),
            CoreMessage::ToPeer { link, message, payload } => self.send_on(link, message, payload),
            CoreMessage::ToSequencer { answer, payload } => self.pass_to_sequencer(now, answer, payload),
            CoreMessage::Piece {
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
                    self.submit(now, origin, volume, op, payload);
                }
            }
            CoreMessage::Acknowledged { trace, at } => self.shards.traces.close(at, trace),
            CoreMessage::Done {
                origin,
                core,
                result,
                payload,
            } => {
                self.shards.traces.acknowledge(&origin, core);
                self.ended(driver, &origin, result, payload);
            }
            CoreMessage::Listed { origin, exports } => {
                self.fronts.event(
                    driver,
                    origin.front,
                    frontend::Event::Listed {
                        tag: origin.tag,
                        result: Ok(exports),
                    },
                );
            }
            CoreMessage::Opened { origin, result } => {
                let opened = result.as_ref().ok().map(|info| info.id);
                let event = frontend::Event::Opened {
                    tag: origin.tag,
                    result,
                };
                let told = self.fronts.event(driver, origin.front, event);
                // The host went away while its volume was being opened: it uses nothing.
                if let Some(volume) = opened.filter(|_| !told) {
                    self.mail.send(0, CoreMessage::Close { volume });
                }
            }
            CoreMessage::Open { origin, name } => self.directory.open(now, origin, &name),
            CoreMessage::Close { volume } => self.directory.close(volume),
            CoreMessage::MakeShard { opened } => self.make_shard(driver, *opened),
            CoreMessage::ShardMade { volume, generation } => self.directory.shard_made(volume, generation),
            CoreMessage::Whole {
                volume,
                generation,
                core,
                member,
            } => self.directory.whole(volume, generation, core, member),
            CoreMessage::Scrub { volume, generation } => self.shards.scrub(now, volume, generation),
            CoreMessage::Scrubbed {
                volume,
                generation,
                core,
                report,
            } => self.directory.scrubbed(volume, generation, core, report),
            CoreMessage::DropShard {
                volume,
                generation,
                why,
                handed_over,
            } => self.drop_shard(driver, volume, generation, &why, handed_over),
            CoreMessage::EndShard { volume, why } => {
                if let Some(generation) = self.shards.generation(volume) {
                    self.drop_shard(driver, volume, generation, &why, false);
                }
                let core = self.config.core;
                self.mail.send(0, CoreMessage::ShardEnded { volume, core });
            }
            CoreMessage::ShardEnded { volume, core } => {
                self.directory.shard_ended(volume, core);
                self.directory.carry_out_closings(now, &self.view);
            }
            CoreMessage::Seek { core, volume, lost } => self.directory.seek(now, core, volume, &lost, &self.view),
            CoreMessage::DropHosts => drop(self.drop_hosts(driver)),
            CoreMessage::HostGone { core, front } => self.forwarder.forget(core, Some(front)),
            CoreMessage::Sought { volume, way } => self.on_sought(now, volume, way),
            CoreMessage::Leave {
                volume,
                generation,
                attempt,
            } => {
                if self.shards.generation(volume) == Some(generation) {
                    self.shards.leave(volume, attempt);
                } else {
                    let core = self.config.core;
                    self.mail.send(
                        0,
                        CoreMessage::Left {
                            volume,
                            generation,
                            attempt,
                            core,
                        },
                    );
                }
            }
            CoreMessage::Stay { volume } => {
                self.shards.stay(volume);
                self.settle_route(now, volume);
            }
            CoreMessage::Left {
                volume,
                generation,
                attempt,
                core,
            } => self.directory.left(now, volume, (generation, attempt), core),
            CoreMessage::Reserve {
                origin,
                volume,
                payload,
            } => self.wait_for_route(now, volume, origin, Work::Reserve, payload),
            CoreMessage::ReserveHere {
                origin,
                volume,
                command,
            } => self.on_reserve(origin, volume, command),
            CoreMessage::Reserved { origin, result } => self.on_reserved(driver, origin, result),
            CoreMessage::Adopt { volume, adopted } => self.on_adopt(volume, adopted),
            CoreMessage::Adopted { volume, core } => {
                self.reservations.adopted(volume, core);
                self.run_reservations();
            }
            CoreMessage::Nvme { connection, tag, call } => self.on_nvme(connection, tag, call),
            CoreMessage::NvmeReply { front, tag, word } => {
                let reply = Box::new(word);
                self.fronts
                    .event(driver, front, frontend::Event::Register { tag, reply });
            }
            CoreMessage::Catalog(catalog) => self.on_catalog(catalog),
            CoreMessage::StoreServes { store, core } => {
                // One that was mounted anew is there already.
                if !self.local.contains(&(store, core)) {
                    self.local.push((store, core));
                }
                self.shards.store_up(now, store);
            }
            CoreMessage::StoreUnmounted => self.unmounted += 1,
            CoreMessage::LinkClosed { link } => self.stores.link_closed(now, link),
            CoreMessage::PeerUp { peer, link } => self.on_peer_up(now, peer, link),
            CoreMessage::PeerDown { peer } => self.on_peer_down(now, peer),
            CoreMessage::PeerRefused { peer, core, refused } => self.on_peer_refused(peer, core, refused),
            CoreMessage::PeerLost { peer } => self.on_peer_lost(now, peer),
            CoreMessage::Release {
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
            CoreMessage::Reply { link, message } => self.send_on(link, message, Slice::default()),
            CoreMessage::Released { tag, outcome } => self.directory.released(tag, outcome),
            CoreMessage::Record(record) => self.on_record(now, &record),
            CoreMessage::Metadata { call, result } => self.on_metadata(now, call, result),
        }
    }

    fn make_shard(&mut self, driver: &mut dyn Driver, opened: amita_sequencer::Opened) {
        let now = driver.now();
        let (volume, generation) = (opened.volume.id, opened.generation);
        if self.dropped.get(&volume).is_some_and(|dropped| generation <= *dropped) {
            // The word of its end came by another ring, and was quicker: it counts as made and dropped.
            self.mail.send(0, CoreMessage::ShardMade { volume, generation });
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
        let local: Vec<StoreId> = self.local.iter().map(|(store, _)| *store).collect();
        let mut up = local.clone();
        for peer in self.peers.up().collect::<Vec<_>>() {
            up.extend(self.stores_of(peer));
        }
        let mut lost = Vec::new();
        for peer in self.peers.lost().collect::<Vec<_>>() {
            lost.extend(self.stores_of(peer));
        }
        let warning = self.shards.make(now, opened, &local, &up, &lost);
        // All cores have read the same.
        let warning = warning.filter(|_| self.config.core == 0);
        self.to_control.extend(warning.map(FromCore::Warning));
        self.mail.send(0, CoreMessage::ShardMade { volume, generation });
        self.settle_route(now, volume);
    }

    fn drop_shard(
        &mut self,
        driver: &mut dyn Driver,
        volume: VolumeId,
        generation: amita_types::Generation,
        why: &str,
        handed_over: bool,
    ) {
        if self.config.core == 0 {
            self.directory.lost(driver.now(), volume, generation);
            self.reservations.lost(volume, generation);
            self.run_reservations();
        }
        let dropped = self.dropped.entry(volume).or_default();
        *dropped = generation.max(*dropped);
        if self.shards.generation(volume) != Some(generation) {
            return;
        }
        self.shards.stop(volume);
        // Its pending I/O ends as lost before it goes.
        self.route_wants(driver);
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

    pub(super) fn route_directory(&mut self) -> bool {
        use crate::directory::Act;
        let mut moved = false;
        self.catalog_due |= self.directory.take_changed();
        while let Some(act) = self.directory.next() {
            moved = true;
            match act {
                Act::Call { call, request } => self.to_control.push(FromCore::Metadata { call, request }),
                Act::Ask {
                    node,
                    tag,
                    volume,
                    generation,
                    hand_over,
                } => match self.peers.route(node) {
                    Some((link, holder)) => {
                        let message = Message::Release {
                            tag,
                            volume,
                            generation,
                            hand_over,
                        };
                        self.send_by(holder, link, message, Slice::default());
                    }
                    None => self.directory.unreachable(tag),
                },
                Act::MakeShards { opened } => {
                    self.mail
                        .broadcast(|| CoreMessage::MakeShard { opened: opened.clone() });
                }
                Act::Scrub { volume, generation } => {
                    self.mail.broadcast(|| CoreMessage::Scrub { volume, generation });
                }
                Act::DropShards {
                    volume,
                    generation,
                    why,
                    handed_over,
                } => {
                    self.mail.broadcast(|| CoreMessage::DropShard {
                        volume,
                        generation,
                        why: why.clone(),
                        handed_over,
                    });
                }
                Act::EndShards { volume, why } => {
                    self.mail.broadcast(|| CoreMessage::EndShard {
                        volume,
                        why: why.clone(),
                    });
                }
                Act::Leave {
                    volume,
                    generation,
                    attempt,
                } => {
                    self.mail.broadcast(|| CoreMessage::Leave {
                        volume,
                        generation,
                        attempt,
                    });
                }
                Act::Stay { volume } => self.mail.broadcast(|| CoreMessage::Stay { volume }),
                Act::Sought { core, volume, way } => self.mail.send(core, CoreMessage::Sought { volume, way }),
                Act::Opened { origin, result } => {
                    self.mail
                        .send(usize::from(origin.core), CoreMessage::Opened { origin, result });
                }
                Act::Reply { core, link, message } => self.mail.send(core, CoreMessage::Reply { link, message }),
            }
        }
        self.catalog_due |= self.directory.take_changed();
        if self.catalog_due {
            self.make_catalog();
        }
        moved
    }
}
