//! The way of an I/O between the parts of a core and between cores, in the order of the story in `core.rs`; and its end's way back.

use super::context::Context;
use super::forward::Forwarding;
use super::slowed::Waiting;
use super::{Core, flattens, hosts, limits, named, paced, parents, snapshots};
use crate::authority;
use crate::control::FromCore;
use crate::faults::Fault;
use crate::flattens::FLATTENS;
use crate::forwarder::Work;
use crate::fronts::FrontRequest;
use crate::mail::{DirectoryMessage, IoMessage, NodeMessage, Origin, SnapshotMessage, VolumeMessage};
use crate::shards::{Declined, ShardEffect};
use crate::token;
use amita_fabric::{Event, Link, Message};
use amita_frontend::{self as frontend, FrontId, Source, Who, snapshot_named};
use amita_reactor::Slice;
use amita_reactor::driver::{Driver, Time};
use amita_sequencer::Effect;
use amita_store::LinkId;
use amita_types::io::{IoError, Op, Payload};
use amita_types::map::is_hidden;
use amita_types::message::{Answer, BACKUPS_TOLD_SINCE, NEWEST_TOLD_SINCE, Purpose, Refusal, Request, RequestBody};
use amita_types::{ChunkId, ChunkIndex, Generation, NodeId, SnapshotId, StoreId, TraceId, VolumeId};

impl Core {
    /// Lets the parts hand each other what they have until nobody has anything left.
    pub(super) fn exchange(&mut self, driver: &mut dyn Driver) {
        loop {
            let mut moved = false;
            hosts::forget(&mut self.cx, &mut self.fronts, &mut self.forwarding.forwarder);
            moved |= self.hand_out_messages(driver.now());
            // Where a limit is gone, nothing that comes now goes before what has waited for it.
            moved |= limits::go_on(self, driver);
            moved |= paced::go_on(&mut self.cx, &mut self.forwarding, driver.now());
            moved |= self.hand_out_requests(driver);
            self.cx.shards.traces.refine(driver);
            moved |= self.hand_out_effects(driver);
            moved |= self.cx.hand_out_answers(driver);
            moved |= self.carry_out_effects(driver.now());
            while let Some(message) = self.cx.mail.take_own() {
                self.on_mail(driver, message);
                moved = true;
            }
            if self.forwarding.forwarder.is_halted() {
                hosts::drop_everywhere(&mut self.cx, &mut self.fronts, &mut self.forwarding, driver);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// What has come from peers.
    fn hand_out_messages(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(event) = self.cx.peers.fabric.next_event() {
            moved = true;
            match event {
                Event::Message {
                    link,
                    from,
                    message,
                    payload,
                } => self.on_message(now, (link, from), message, payload),
                Event::Up {
                    link, peer, outgoing, ..
                } => {
                    if outgoing {
                        self.cx.peers.link_up(&mut self.cx.mail, peer, link);
                    } else {
                        self.forwarding.receiving.link_opened(link, peer);
                    }
                }
                Event::Down {
                    link, peer, outgoing, ..
                } => {
                    if outgoing {
                        self.forwarding.forwarder.link_closed(link);
                        self.cx.peers.link_down(&mut self.cx.mail, peer);
                    } else {
                        self.forwarding.receiving.link_closed(link);
                        self.cx.incoming_closed(now, link);
                    }
                }
                Event::Unreachable { peer, certain } => {
                    self.cx.clock.stir();
                    self.cx.peers.on_unreachable(&mut self.cx.mail, now, peer, certain);
                }
                Event::Refused { peer, reason } => {
                    self.cx
                        .control
                        .warn(format!("node {peer} refused the connection: {reason}"));
                }
                Event::Stranger { address, reason } => {
                    self.cx.control.warn(format!(
                        "{address} connected to the fabric and could not prove who it is: {reason}"
                    ));
                }
                // A kind of event that this build does not know concerns no request.
                _ => {}
            }
        }
        moved
    }

    /// A peer has sent something, by a link that leads to it.
    fn on_message(&mut self, now: Time, (link, from): (Link, NodeId), message: Message, payload: Slice) {
        match message {
            Message::Request(request) => {
                if request.trace.is_some() {
                    self.cx.shards.traces.touch();
                }
                let link = token::peer_link(self.cx.config.core, link);
                self.cx.pass_to_store(now, from, link, request, payload);
            }
            Message::Answer(answer) => self.cx.pass_to_sequencer(now, from, answer, payload),
            Message::Release {
                tag,
                volume,
                generation,
                hand_over,
            } => {
                let core = self.cx.config.core;
                self.cx.mail.send(
                    0,
                    DirectoryMessage::Release {
                        core,
                        link,
                        tag,
                        from,
                        volume,
                        generation,
                        hand_over,
                    },
                );
            }
            Message::Released { tag, outcome } => {
                self.cx.mail.send(0, DirectoryMessage::Released { tag, from, outcome });
            }
            Message::Cut(cut) => {
                let core = self.cx.config.core;
                self.cx.mail.send(0, SnapshotMessage::Asked { core, link, from, cut });
            }
            Message::CutDone { tag, outcome } => {
                self.cx.mail.send(0, SnapshotMessage::Answered { from, tag, outcome });
            }
            Message::Forward(request) => self.forwarding.on_forward(&mut self.cx, now, link, request, payload),
            Message::Forwarded(answer) => {
                self.forwarding
                    .on_forwarded(&mut self.cx, now, (link, from), answer, payload);
            }
        }
    }

    /// What the front ends of this core ask for.
    fn hand_out_requests(&mut self, driver: &mut dyn Driver) -> bool {
        let mut moved = false;
        let mut now = driver.now();
        while let Some(request) = self.fronts.requests.queue.pop_front() {
            moved = true;
            now = self.hand_out_request(driver, now, request);
        }
        moved
    }

    /// What a front end asks for, to whoever has it. Returns what time it is: the clock is read anew for what is traced.
    fn hand_out_request(&mut self, driver: &mut dyn Driver, mut now: Time, request: FrontRequest) -> Time {
        match request {
            FrontRequest::List { front, tag, who } => {
                let origin = self.cx.origin(now, front, tag);
                named::list(self, now, origin, who);
            }
            FrontRequest::Open { front, tag, name, who } => {
                let origin = self.cx.origin(now, front, tag);
                match who {
                    Who::Program if snapshot_named(&name).is_none() && !is_hidden(&name) => {
                        self.cx.mail.send(0, DirectoryMessage::Open { origin, name });
                    }
                    who => named::ask(self, now, origin, name, who, None),
                }
            }
            FrontRequest::Bases {
                front,
                tag,
                name,
                only,
                who,
            } => {
                let origin = self.cx.origin(now, front, tag);
                named::ask(self, now, origin, name, who, Some(only));
            }
            FrontRequest::Close { opening } => self.cx.mail.send(0, DirectoryMessage::Close { opening }),
            FrontRequest::Submit {
                front,
                tag,
                source,
                op,
                payload,
                host,
            } => {
                let source = self.cx.view.present_source(source);
                let mut origin = self.cx.origin(now, front, tag);
                (origin.host, origin.snapshot) = (host, source.snapshot);
                origin.trace = self.cx.shards.traces.sample(now);
                if origin.trace.is_some() {
                    driver.refresh();
                    now = driver.now();
                    origin.parsed = now;
                }
                if op.is_write() && self.cx.slowed.holds(source.volume) {
                    // The same of what would wait here.
                    if self.fronts.has(front) {
                        let waiting = Waiting { origin, op, payload };
                        self.cx.slowed.hold(source.volume, waiting);
                    }
                    return now;
                }
                if self.forwarding.gate.holds(source.volume) && !self.is_read_for_move(front, source) {
                    // One whose front is gone by now would wait for tokens that nobody is to spend.
                    if self.fronts.has(front) {
                        self.forwarding.gate.hold(now, origin, source.volume, op, payload);
                    }
                    return now;
                }
                route(
                    &mut self.cx,
                    &mut self.forwarding,
                    now,
                    origin,
                    source.volume,
                    op,
                    payload,
                );
            }
            FrontRequest::Reserve {
                front,
                tag,
                volume,
                host,
                command,
            } => {
                let volume = self.cx.view.present(volume);
                let mut origin = self.cx.origin(now, front, tag);
                origin.host = host;
                let (run, core) = (self.cx.config.fabric.session, origin.core);
                let text = serde_json::to_vec(&command.by(run, core, front)).expect("numbers and names");
                self.forwarding.wait(
                    &mut self.cx,
                    now,
                    volume,
                    origin,
                    Work::Reserve,
                    Slice::copy_from(&text),
                );
            }
            FrontRequest::Compute {
                front,
                tag,
                computation,
            } => match &self.desk {
                Some(desk) => desk.compute(front, tag, computation),
                None => {
                    let result = Some(computation.run());
                    let ours = self.cx.config.core;
                    self.cx.mail.send(ours, NodeMessage::Computed { front, tag, result });
                }
            },
            FrontRequest::Nvme { front, tag, call } => {
                let core = self.cx.config.core as u16;
                let connection = frontend::ConnectionId { core, front };
                self.cx.mail.send(0, NodeMessage::Nvme { connection, tag, call });
            }
            FrontRequest::Iscsi { front, tag, call } => {
                let core = self.cx.config.core as u16;
                let connection = frontend::ConnectionId { core, front };
                self.cx.mail.send(0, NodeMessage::Iscsi { connection, tag, call });
            }
        }
        now
    }

    /// Does who moves the volume read it? A host may have opened that snapshot by its name, as any other, and so may a gateway that copies it for somebody
    /// (the API's, a command's): they are held to its limits.
    fn is_read_for_move(&self, front: FrontId, source: Source) -> bool {
        self.cx.config.moves
            && self.fronts.is_programs(front)
            && self.cx.view.is_read_for_move(source.volume, source.snapshot)
    }

    /// What the sequencers of this core have for stores, for whoever asked, and for the directory.
    pub(super) fn hand_out_effects(&mut self, driver: &mut dyn Driver) -> bool {
        let now = driver.now();
        let mut effects = self.cx.shards.take_effects(now);
        let moved = !effects.is_empty();
        for effect in effects.drain(..) {
            match effect {
                ShardEffect::Done(origin, result, payload) if usize::from(origin.core) == self.cx.config.core => {
                    self.cx.shards.traces.acknowledge(&origin, origin.core);
                    self.ended(driver, &origin, result, payload);
                }
                ShardEffect::Done(origin, result, payload) => self.cx.done(origin, result, payload),
                ShardEffect::Again(origin, volume, op) => {
                    let (cx, forwarding) = (&mut self.cx, &mut self.forwarding);
                    route(cx, forwarding, now, origin, volume, op, Slice::default());
                }
                ShardEffect::Sequencer(effect) => self.cx.on_sequencer_effect(now, effect),
                ShardEffect::OpenParent(asked) => parents::read(self, now, asked),
                ShardEffect::Whole(volume, generation, member) => {
                    let core = self.cx.config.core;
                    self.cx.mail.send(
                        0,
                        DirectoryMessage::Whole {
                            volume,
                            generation,
                            core,
                            member,
                        },
                    );
                }
                ShardEffect::Scrubbed(volume, generation, (number, group, is_last), report) => {
                    let core = self.cx.config.core;
                    self.cx.mail.send(
                        0,
                        DirectoryMessage::Scrubbed {
                            volume,
                            generation,
                            core,
                            number,
                            group,
                            is_last,
                            report,
                        },
                    );
                }
                ShardEffect::Snapshot(volume, generation, word) => {
                    snapshots::tell(&mut self.cx, volume, generation, word);
                }
                ShardEffect::Lost(volume, generation, why) => {
                    self.cx.mail.broadcast(|| VolumeMessage::DropShard {
                        volume,
                        generation,
                        why: why.clone(),
                        handed_over: false,
                    });
                }
            }
        }
        self.cx.shards.put_effects(effects);
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
            return self
                .forwarding
                .receiving
                .done(&mut self.cx, driver.now(), origin.tag, result, payload);
        }
        if origin.front == parents::PARENTS {
            return parents::ended(self, driver.now(), origin.tag, result);
        }
        if origin.front == FLATTENS {
            return flattens::ended(self, driver.now(), origin.tag, result);
        }
        let event = frontend::Event::Done {
            tag: origin.tag,
            result,
            payload,
        };
        self.fronts.event(driver, origin.front, event);
    }
}

/// A piece of I/O, to the core that sequences its chunk: at most one hop.
pub(super) fn route(
    cx: &mut Context,
    forwarding: &mut Forwarding,
    now: Time,
    origin: Origin,
    volume: VolumeId,
    op: Op,
    payload: Slice,
) {
    let core = if cx.config.cores == 1 {
        0
    } else {
        // Every core has a shard of each open volume, which knows its chunk size.
        let Some(chunk_bytes) = cx.shards.chunk_bytes(volume) else {
            return forwarding.away(cx, now, origin, volume, op, payload);
        };
        ChunkId {
            volume,
            index: ChunkIndex(op.offset() / u64::from(chunk_bytes)),
        }
        .core(cx.config.cores)
    };
    if core == cx.config.core {
        sequence(cx, forwarding, now, origin, volume, op, payload);
    } else {
        cx.mail.send(
            core,
            IoMessage::Piece {
                origin,
                volume,
                op,
                payload,
            },
        );
    }
}

/// The core that it was to go to: to the volume's sequencer.
pub(super) fn sequence(
    cx: &mut Context,
    forwarding: &mut Forwarding,
    now: Time,
    origin: Origin,
    volume: VolumeId,
    op: Op,
    payload: Slice,
) {
    if let Some(reader) = paced::reader(cx, &origin, volume, &op) {
        return paced::hold(cx, forwarding, now, origin, volume, op, reader);
    }
    let begun = cx.shards.begin(now, origin, volume, op, payload);
    declined(cx, forwarding, now, origin, volume, op, begun);
}

/// What is not begun goes to whoever may begin it, or ends.
pub(super) fn declined(
    cx: &mut Context,
    forwarding: &mut Forwarding,
    now: Time,
    origin: Origin,
    volume: VolumeId,
    op: Op,
    begun: Result<(), Declined>,
) {
    match begun {
        Ok(()) => {}
        Err(Declined::Elsewhere(payload)) => forwarding.away(cx, now, origin, volume, op, payload),
        Err(Declined::Reserved) => cx.done(origin, Err(IoError::Reserved), Payload::None),
        Err(Declined::Closed) => cx.done(origin, Err(IoError::Closed), Payload::None),
    }
}

impl Context {
    /// A request, from wherever, to a store of this node.
    pub(super) fn pass_to_store(&mut self, now: Time, from: NodeId, link: LinkId, request: Request, payload: Slice) {
        if self.stores.serves(request.store) {
            if let Err(why) = self.judge_fence(now, from, link, &request) {
                return self.stores.refuse(link, &request, why);
            }
            return self.stores.request(now, from, link, request, payload);
        }
        match self.stores.node.core_of(request.store) {
            Some(core) if core != self.config.core => {
                let message = IoMessage::ToStore {
                    from,
                    link,
                    request,
                    payload,
                };
                self.mail.send(core, message);
            }
            _ => {
                let may_come = self.stores.node.may_still_come(self.config.stores) || self.stores.awaits(request.store);
                let why = if may_come { Refusal::Busy } else { Refusal::NoSuchStore };
                self.stores.refuse(link, &request, why);
            }
        }
    }

    /// What a peer's fence says, and what it names as a clone's parents, is compared with what this node itself reads in the metadata (R14). This node's own sequencers
    /// have read it by themselves.
    fn judge_fence(&mut self, now: Time, from: NodeId, link: LinkId, request: &Request) -> Result<(), Refusal> {
        if token::link_peer(link).is_none() || self.config.faults.has(Fault::AnyFence) {
            return Ok(());
        }
        let scope = &request.scope;
        let fence = match &request.body {
            RequestBody::Fence(fence) => fence,
            RequestBody::Inherit(inherit) => return authority::judge_parents(&self.view, scope, inherit),
            _ => return Ok(()),
        };
        let by_view = authority::judge(&self.view, from, scope, fence);
        if by_view != Err(Refusal::Busy) || self.config.faults.has(Fault::WatchOnly) {
            return by_view;
        }
        let by_read = self.inquiry.judge(now, &self.view, from, scope, fence);
        if by_read == Err(Refusal::Busy)
            && let Some((call, request)) = self.inquiry.ask(now, &self.view, from, scope)
        {
            self.control.call(call, request);
        }
        by_read
    }

    /// A store's answer that has come from a node, to the core whose sequencer asked. (Whether that node serves the store, the
    /// sequencer compares: R14.)
    pub(super) fn pass_to_sequencer(&mut self, now: Time, from: NodeId, answer: Answer, payload: Slice) {
        let core = token::id_core(answer.id.0);
        if core == self.config.core {
            self.shards.answer(now, from, answer, payload);
        } else if core < self.config.cores {
            self.mail.send(core, IoMessage::ToSequencer { from, answer, payload });
        }
    }

    /// A store's answer, to whoever asked.
    pub(super) fn answer_from_store(&mut self, now: Time, link: LinkId, answer: Answer, payload: Slice) {
        let core = token::link_core(link);
        if core != self.config.core {
            self.mail.send(core, IoMessage::FromStore { link, answer, payload });
        } else if let Some(peer) = token::link_peer(link) {
            let control = &mut self.control;
            self.peers.answer(peer, Message::Answer(answer), payload, control);
        } else {
            self.shards.answer(now, self.config.node, answer, payload);
        }
    }

    /// What the stores of this core have answered.
    fn hand_out_answers(&mut self, driver: &mut dyn Driver) -> bool {
        let now = driver.now();
        self.stores.run(driver);
        let mut replies = self.stores.take_replies();
        let mut moved = !replies.is_empty();
        for (link, answer, payload) in replies.drain(..) {
            self.answer_from_store(now, link, answer, payload);
        }
        // Nothing answers while answers are handed out, so the vector that was taken can be put back.
        for (link, answer, payload) in self.stores.put_replies(replies) {
            self.answer_from_store(now, link, answer, payload);
            moved = true;
        }
        moved
    }

    /// Where something came in that a front end of this core asks for.
    pub(super) fn origin(&self, now: Time, front: FrontId, tag: u64) -> Origin {
        Origin {
            core: self.config.core as u16,
            front,
            tag,
            arrived: self.clock.began(),
            parsed: now,
            kept: self.clock.began(),
            trace: TraceId::NONE,
            host: frontend::HostKey::NONE,
            generation: Generation(0),
            snapshot: SnapshotId::HEAD,
        }
    }

    /// A piece of I/O has ended: the core that it came in on is told.
    pub(super) fn done(&mut self, origin: Origin, result: Result<(), IoError>, payload: Payload) {
        let core = self.config.core as u16;
        self.mail.send(
            usize::from(origin.core),
            IoMessage::Done {
                origin,
                core,
                result,
                payload,
            },
        );
    }

    fn on_sequencer_effect(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Send {
                store,
                request,
                payload,
            } => self.send_to_store(now, store, request, payload),
            Effect::Meta { call, request } => self.control.call(call, request),
            Effect::Warn(warning) => self.control.tell(FromCore::from(warning)),
            Effect::Done { .. }
            | Effect::Whole { .. }
            | Effect::Scrubbed { .. }
            | Effect::OpenParent { .. }
            | Effect::GenerationAdopted
            | Effect::Settled { .. }
            | Effect::Stop { .. } => {
                unreachable!("taken out by Shards::take_effects")
            }
        }
    }

    /// A sequencer's request to a store, wherever it is.
    fn send_to_store(&mut self, now: Time, store: StoreId, mut request: Request, payload: Slice) {
        let local = self.stores.node.core_of(store).is_some();
        if request.trace.is_some() {
            self.shards.traces.sent(now, request.trace, store, local);
        }
        if local {
            let (from, link) = (self.config.node, token::local_link(self.config.core));
            self.pass_to_store(now, from, link, request, payload);
            return;
        }
        // A store that cannot be reached now: the sequencer sends again when it hears that it can (R8).
        if let Some(route) = self.view.node_of(store).and_then(|node| self.peers.link_to(node)) {
            if !self.stores.have_order() {
                // Programs that know no purposes may be at the other end.
                request.purpose = Purpose::Unsaid;
            } else if request.purpose == Purpose::Backup && self.view.cluster_version() < BACKUPS_TOLD_SINCE {
                request.purpose = Purpose::Move;
            }
            if self.view.cluster_version() < NEWEST_TOLD_SINCE {
                request.body.leave_out_newest();
            }
            let (message, mail, control) = (Message::Request(request), &mut self.mail, &mut self.control);
            self.peers.send_by(route, message, payload, mail, control);
        }
    }
}
