//! Who gets what: the routes between the parts of a core, and between cores.

use super::Core;
use crate::control::FromCore;
use crate::fronts::Ask;
use crate::mail::{CoreMessage, Origin};
use crate::shards::{Declined, Want};
use crate::stores::refusal;
use crate::token;
use amita_fabric::{Event, Link, Message};
use amita_frontend as frontend;
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::Effect;
use amita_store::LinkId;
use amita_types::io::{IoError, Op, Payload};
use amita_types::message::{Answer, Refusal, Request};
use amita_types::{ChunkId, ChunkIndex, StoreId, TraceId, VolumeId};

impl Core {
    /// Lets the parts hand each other what they have until nobody has anything left.
    pub(super) fn route(&mut self, driver: &mut dyn Driver) {
        loop {
            let mut moved = false;
            self.forget_hosts();
            moved |= self.route_fabric(driver.now());
            moved |= self.route_asks(driver);
            self.shards.traces.refine(driver);
            moved |= self.route_wants(driver);
            moved |= self.route_stores(driver);
            moved |= self.route_directory();
            while let Some(message) = self.mail.take_own() {
                self.on_mail(driver, message);
                moved = true;
            }
            if self.drop_all_hosts {
                self.drop_everywhere(driver);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    fn route_fabric(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(event) = self.fabric.next_event() {
            moved = true;
            match event {
                Event::Message { link, message, payload } => self.on_message(now, link, message, payload),
                Event::Up {
                    link,
                    peer,
                    outgoing: true,
                    ..
                } => self.link_up(peer, link),
                Event::Up { link, peer, .. } => self.receiving.link_opened(link, peer),
                Event::Down {
                    link, peer, outgoing, ..
                } => {
                    if outgoing {
                        self.forwarder.link_closed(link);
                        self.link_down(peer);
                    } else {
                        self.incoming_closed(now, link);
                    }
                }
                Event::Unreachable { peer, certain } => self.on_unreachable(now, peer, certain),
                Event::Refused { peer, reason } => {
                    self.to_control.push(FromCore::Warning(format!(
                        "node {peer} refused the connection: {reason}"
                    )));
                }
                // A kind of event that this build does not know concerns no request.
                _ => {}
            }
        }
        moved
    }

    /// A peer's link closed: the stores take the credits back that it had.
    fn incoming_closed(&mut self, now: Time, link: Link) {
        self.receiving.link_closed(link);
        let link = token::peer_link(self.config.core, link);
        self.stores.link_closed(now, link);
        for core in 0..self.config.cores {
            if core != self.config.core {
                self.mail.send(core, CoreMessage::LinkClosed { link });
            }
        }
    }

    fn on_message(&mut self, now: Time, link: Link, message: Message, payload: Slice) {
        match message {
            Message::Request(request) => {
                if request.trace.is_some() {
                    self.shards.traces.touch();
                }
                self.pass_to_store(now, token::peer_link(self.config.core, link), request, payload);
            }
            Message::Answer(answer) => self.pass_to_sequencer(now, answer, payload),
            Message::Release {
                tag,
                volume,
                generation,
                hand_over,
            } => {
                let core = self.config.core;
                self.mail.send(
                    0,
                    CoreMessage::Release {
                        core,
                        link,
                        tag,
                        volume,
                        generation,
                        hand_over,
                    },
                );
            }
            Message::Released { tag, outcome } => self.mail.send(0, CoreMessage::Released { tag, outcome }),
            Message::Forward(request) => self.on_forward(now, link, request, payload),
            Message::Forwarded(answer) => self.on_forwarded(now, link, answer, payload),
        }
    }

    /// A request, from wherever, to a store of this node.
    pub(super) fn pass_to_store(&mut self, now: Time, link: LinkId, request: Request, payload: Slice) {
        if self.stores.serves(request.store) {
            self.stores.request(now, link, request, payload, &mut self.replies);
            return;
        }
        match self.local.iter().find(|(store, _)| *store == request.store) {
            Some(&(_, core)) if core != self.config.core => {
                self.mail.send(core, CoreMessage::ToStore { link, request, payload });
            }
            _ => {
                let why = if self.may_still_come() || self.stores.awaits(request.store) {
                    Refusal::Busy
                } else {
                    Refusal::NoSuchStore
                };
                self.replies.push((link, refusal(&request, why), Slice::default()));
            }
        }
    }

    /// Is a store of this node still being mounted? Then nobody knows yet that one that is asked for is none of them: to
    /// say so would cost a good store its place.
    fn may_still_come(&self) -> bool {
        self.local.len() + self.unmounted < self.config.stores
    }

    pub(super) fn pass_to_sequencer(&mut self, now: Time, answer: Answer, payload: Slice) {
        let core = token::id_core(answer.id.0);
        if core == self.config.core {
            self.shards.answer(now, answer, payload);
        } else if core < self.config.cores {
            self.mail.send(core, CoreMessage::ToSequencer { answer, payload });
        }
    }

    /// A store's answer, to whoever asked.
    pub(super) fn answer_from_store(&mut self, now: Time, link: LinkId, answer: Answer, payload: Slice) {
        let core = token::link_core(link);
        if core != self.config.core {
            self.mail.send(core, CoreMessage::FromStore { link, answer, payload });
        } else if let Some(peer) = token::link_peer(link) {
            match self.fabric.send(peer, Message::Answer(answer), payload) {
                // A link that broke meanwhile has nobody to answer: the asker sends again by a new one (R8).
                Ok(()) | Err(amita_fabric::SendError::Closed | amita_fabric::SendError::NotAsked) => {}
                // An answer that is never sent would hold a place in the window for good.
                Err(why) => self.give_up(peer, &why.to_string()),
            }
        } else {
            self.shards.answer(now, answer, payload);
        }
    }

    fn route_stores(&mut self, driver: &mut dyn Driver) -> bool {
        let now = driver.now();
        let mut replies = std::mem::take(&mut self.replies);
        self.stores.run(driver, &mut replies);
        let mut moved = !replies.is_empty();
        for (link, answer, payload) in replies.drain(..) {
            self.answer_from_store(now, link, answer, payload);
        }
        // Nothing answers while answers are handed out, so the vector that was taken can be put back.
        let late = std::mem::replace(&mut self.replies, replies);
        for (link, answer, payload) in late {
            self.answer_from_store(now, link, answer, payload);
            moved = true;
        }
        moved
    }

    /// Tells of stores that began to serve, or that cannot.
    pub(super) fn announce_stores(&mut self) {
        if !self.stores.has_news() {
            return;
        }
        self.stirred = true;
        self.reporter.stir_space(self.pass_began);
        let before = self.to_control.len();
        self.stores.announce(self.pass_began, &mut self.to_control);
        let serving: Vec<StoreId> = self.to_control[before..]
            .iter()
            .filter_map(|told| match told {
                FromCore::StoreServes { store, .. } => Some(*store),
                _ => None,
            })
            .collect();
        let unmounted = |told: &&FromCore| matches!(told, FromCore::StoreFailed { store: None, .. });
        for _ in 0..self.to_control[before..].iter().filter(unmounted).count() {
            self.mail.broadcast(|| CoreMessage::StoreUnmounted);
        }
        let core = self.config.core;
        for store in serving {
            self.mail.broadcast(|| CoreMessage::StoreServes { store, core });
        }
    }

    fn route_asks(&mut self, driver: &mut dyn Driver) -> bool {
        let mut moved = false;
        let mut now = driver.now();
        while let Some(ask) = self.fronts.asks.queue.pop_front() {
            moved = true;
            let origin = |front, tag| Origin {
                core: self.config.core as u16,
                front,
                tag,
                arrived: self.pass_began,
                parsed: now,
                trace: TraceId::NONE,
                host: frontend::HostKey::NONE,
                generation: amita_types::Generation(0),
            };
            match ask {
                Ask::List { front, tag } => {
                    let exports = self.exports();
                    self.mail.send(
                        self.config.core,
                        CoreMessage::Listed {
                            origin: origin(front, tag),
                            exports,
                        },
                    );
                }
                Ask::Open { front, tag, name } => {
                    self.mail.send(
                        0,
                        CoreMessage::Open {
                            origin: origin(front, tag),
                            name,
                        },
                    );
                }
                Ask::Close { volume } => self.mail.send(0, CoreMessage::Close { volume }),
                Ask::Submit {
                    front,
                    tag,
                    volume,
                    op,
                    payload,
                    host,
                } => {
                    let mut origin = origin(front, tag);
                    origin.host = host;
                    origin.trace = self.shards.traces.sample(now);
                    if origin.trace.is_some() {
                        driver.refresh();
                        now = driver.now();
                        origin.parsed = now;
                    }
                    self.pass_to_shard(now, origin, volume, op, payload);
                }
                Ask::Reserve {
                    front,
                    tag,
                    volume,
                    host,
                    command,
                } => {
                    let mut origin = origin(front, tag);
                    origin.host = host;
                    self.ask_reservation(now, origin, volume, &command);
                }
                Ask::Nvme { front, tag, call } => {
                    let core = self.config.core as u16;
                    let connection = frontend::ConnectionId { core, front };
                    self.mail.send(0, CoreMessage::Nvme { connection, tag, call });
                }
            }
        }
        moved
    }

    fn exports(&self) -> Vec<frontend::Export> {
        self.view
            .volumes()
            .map(|volume| frontend::Export {
                name: volume.name.clone(),
                size_bytes: volume.size_bytes,
                read_only: false,
                description: format!("volume {} in pool {}", volume.id, volume.pool),
            })
            .collect()
    }

    /// A piece of I/O, to the core that sequences its chunk: at most one hop.
    pub(super) fn pass_to_shard(&mut self, now: Time, origin: Origin, volume: VolumeId, op: Op, payload: Slice) {
        let core = if self.config.cores == 1 {
            0
        } else {
            // Every core has a shard of each open volume, which knows its chunk size.
            let Some(chunk_bytes) = self.shards.chunk_bytes(volume) else {
                return self.away(now, origin, volume, op, payload);
            };
            ChunkId {
                volume,
                index: ChunkIndex(op.offset() / u64::from(chunk_bytes)),
            }
            .core(self.config.cores)
        };
        if core == self.config.core {
            self.submit(now, origin, volume, op, payload);
        } else {
            self.mail.send(
                core,
                CoreMessage::Piece {
                    origin,
                    volume,
                    op,
                    payload,
                },
            );
        }
    }

    pub(super) fn submit(&mut self, now: Time, origin: Origin, volume: VolumeId, op: Op, payload: Slice) {
        match self.shards.submit(now, origin, volume, op, payload) {
            Ok(()) => {}
            Err(Declined::Elsewhere(payload)) => self.away(now, origin, volume, op, payload),
            Err(Declined::Reserved) => self.done(origin, Err(IoError::Reserved), Payload::None),
        }
    }

    pub(super) fn done(&mut self, origin: Origin, result: Result<(), IoError>, payload: Payload) {
        let core = self.config.core as u16;
        self.mail.send(
            usize::from(origin.core),
            CoreMessage::Done {
                origin,
                core,
                result,
                payload,
            },
        );
    }

    pub(super) fn route_wants(&mut self, driver: &mut dyn Driver) -> bool {
        let now = driver.now();
        let mut wants = std::mem::take(&mut self.wants);
        let moved = self.shards.run(now, &mut wants);
        for want in wants.drain(..) {
            match want {
                Want::Done(origin, result, payload) if usize::from(origin.core) == self.config.core => {
                    self.shards.traces.acknowledge(&origin, origin.core);
                    self.ended(driver, &origin, result, payload);
                }
                Want::Done(origin, result, payload) => self.done(origin, result, payload),
                Want::Effect(effect) => self.on_effect(now, effect),
                Want::Whole(volume, generation, member) => {
                    let core = self.config.core;
                    self.mail.send(
                        0,
                        CoreMessage::Whole {
                            volume,
                            generation,
                            core,
                            member,
                        },
                    );
                }
                Want::Scrubbed(volume, generation, report) => {
                    let core = self.config.core;
                    self.mail.send(
                        0,
                        CoreMessage::Scrubbed {
                            volume,
                            generation,
                            core,
                            report,
                        },
                    );
                }
                Want::Lost(volume, generation, why) => {
                    self.mail.broadcast(|| CoreMessage::DropShard {
                        volume,
                        generation,
                        why: why.clone(),
                        handed_over: false,
                    });
                }
            }
        }
        self.wants = wants;
        moved
    }

    /// An I/O that came in on this core has ended.
    pub(super) fn ended(
        &mut self,
        driver: &mut dyn Driver,
        origin: &Origin,
        result: Result<(), IoError>,
        payload: Payload,
    ) {
        if !crate::forwarder::is_host(origin.front) {
            return self.forward_done(driver.now(), origin.tag, result, payload);
        }
        let event = frontend::Event::Done {
            tag: origin.tag,
            result,
            payload,
        };
        self.fronts.event(driver, origin.front, event);
    }

    fn on_effect(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Send {
                store,
                request,
                payload,
            } => self.send(now, store, request, payload),
            Effect::Meta { call, request } => self.to_control.push(FromCore::Metadata { call, request }),
            Effect::Warn(warning) => self.to_control.push(FromCore::Warning(warning.to_string())),
            Effect::Done { .. } | Effect::Whole { .. } | Effect::Scrubbed { .. } | Effect::Stop { .. } => {
                unreachable!("taken out by Shards::run")
            }
        }
    }

    /// A sequencer's request to a store, wherever it is.
    fn send(&mut self, now: Time, store: StoreId, request: Request, payload: Slice) {
        let local = self.local.iter().any(|(local, _)| *local == store);
        if request.trace.is_some() {
            self.shards.traces.sent(now, request.trace, store, local);
        }
        if local {
            self.pass_to_store(now, token::local_link(self.config.core), request, payload);
            return;
        }
        // A store that cannot be reached now: the sequencer sends again when it hears that it can (R8).
        let Some((link, holder)) = self.view.node_of(store).and_then(|node| self.peers.route(node)) else {
            return;
        };
        self.send_by(holder, link, Message::Request(request), payload);
    }

    /// Over a link of this core, or of the one that holds it.
    pub(super) fn send_by(&mut self, holder: usize, link: Link, message: Message, payload: Slice) {
        if holder == self.config.core {
            self.send_on(link, message, payload);
        } else {
            self.mail.send(holder, CoreMessage::ToPeer { link, message, payload });
        }
    }

    pub(super) fn send_on(&mut self, link: Link, message: Message, payload: Slice) {
        match self.fabric.send(link, message, payload) {
            Ok(()) | Err(amita_fabric::SendError::Closed) => {}
            // Hopelessly behind, or not to be said: breaking the link is safe (everything unanswered is sent again in
            // order), dropping one message is not.
            Err(why) => self.give_up(link, &why.to_string()),
        }
    }

    pub(super) fn give_up(&mut self, link: Link, why: &str) {
        self.to_control
            .push(FromCore::Warning(format!("a connection is given up: {why}")));
        self.breaks.push(link);
    }
}
