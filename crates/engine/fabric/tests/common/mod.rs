//! A node that is nothing but a fabric, with a store that answers everything; and one that speaks raw bytes.
#![allow(dead_code)]

pub mod proof;
pub mod relay;
pub mod sealing;

use amita_fabric::codec::{self, Frame, Hello, PROTOCOL_VERSION};
use amita_fabric::secure::{Handshake, Handshakes, Protection, Recorded, Role, Security, Step};
use amita_fabric::{Addresses, Config, Event, FABRIC_TOKENS, Fabric, Link, Message, ReleaseOutcome, SendError};
use amita_reactor::core::Service;
use amita_reactor::{
    AcceptLimits, Completion, Driver, Inbox, Outbox, Outcome, Pool, Rate, Slice, SocketId, Time, Token, Wait,
};
use amita_types::link::Network;
use amita_types::message::{
    Answer, AnswerBody, DataAnswer, ReadRequest, Request, RequestBody, Scope, Sums, WriteRequest,
};
use amita_types::{
    BLOCK_BYTES, BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, NodeId, RequestId, SnapshotId, StoreId,
    Version, VolumeId,
};
use proof::{Authority, Certificate, StandIn};
use sealing::Sealing;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

pub const CLUSTER: ClusterId = ClusterId(0xa417a);
pub const STORE: StoreId = StoreId(0x5703e);
const TIMER: Token = Token(4 << 56);

pub fn config(node: u32) -> Config {
    let mut config = Config::new(CLUSTER, NodeId(node), 1000 + u64::from(node), Pool::heap());
    config.seed = u64::from(node);
    config
}

/// Takes whoever connects, so that what bounds connections behind that is met.
pub fn takes_all(mut config: Config) -> Config {
    let all = Rate {
        per_second: 1_000_000,
        burst: 1_000_000,
    };
    config.limits.accepts = AcceptLimits {
        strangers: all,
        source: all,
        known: all,
    };
    config
}

/// The same with a certificate as `n` and its number, of this authority.
pub fn secured(node: u32, protection: Protection, authority: &Arc<Authority>) -> Config {
    holding(
        node,
        protection,
        authority,
        authority.certificate(Role::Node, &name(node)),
    )
}

/// The same with this certificate.
pub fn holding(node: u32, protection: Protection, authority: &Arc<Authority>, certificate: Certificate) -> Config {
    secured_by(node, StandIn::new(authority, certificate, protection, node.into()))
}

pub fn secured_by(node: u32, handshakes: StandIn) -> Config {
    let mut config = config(node);
    config.security = Some(Security::new(Arc::new(handshakes)));
    config
}

/// Under which a node is recorded.
pub fn name(node: u32) -> String {
    format!("n{node}")
}

fn request(id: u64, body: RequestBody) -> Message {
    let scope = Scope {
        volume: VolumeId(1),
        generation: Generation(1),
        group: GroupId::default(),
        epoch: Epoch(1),
        snapshot: SnapshotId::HEAD,
    };
    Message::Request(Request {
        id: RequestId(id),
        store: STORE,
        scope,
        trace: amita_types::TraceId::NONE,
        purpose: Default::default(),
        body,
    })
}

/// A write of so many bytes from the start of chunk `id`, whose payload tells its id and length everywhere.
pub fn write(id: u64, length: u32) -> (Message, Slice) {
    let bytes: Vec<u8> = (0..length).map(|at| stamp(id, at)).collect();
    let sums: Sums = bytes.chunks(BLOCK_BYTES as usize).map(amita_types::crc32c).collect();
    let body = RequestBody::Write(WriteRequest {
        chunk: ChunkIndex(id),
        offset_bytes: 0,
        length_bytes: length,
        version: Version(2),
        previous: Version(1),
        sums,
    });
    (request(id, body), Slice::copy_from(&bytes))
}

pub fn stamp(id: u64, at: u32) -> u8 {
    (id as u32).wrapping_mul(31).wrapping_add(at).wrapping_add(at >> 8) as u8
}

pub fn read(id: u64, blocks: u16) -> (Message, Slice) {
    let body = RequestBody::Read(ReadRequest {
        chunk: ChunkIndex(id),
        range: BlockRange::new(0, blocks),
        least: Version::NONE,
        versions: false,
        newest: None,
    });
    (request(id, body), Slice::default())
}

pub fn renew_lease(id: u64) -> (Message, Slice) {
    (request(id, RequestBody::RenewLease), Slice::default())
}

/// Is the payload of this write what [`write`] made?
pub fn is_intact(request: &Request, payload: &[u8]) -> bool {
    let RequestBody::Write(WriteRequest { length_bytes, sums, .. }) = &request.body else {
        return payload.is_empty();
    };
    payload.len() == *length_bytes as usize
        && payload
            .iter()
            .zip(0..)
            .all(|(byte, at)| *byte == stamp(request.id.0, at))
        && payload
            .chunks(BLOCK_BYTES as usize)
            .zip(sums)
            .all(|(piece, sum)| amita_types::crc32c(piece) == *sum)
}

/// The answer of a store that does what it is asked.
pub fn answer(request: &Request) -> (Message, Slice) {
    let (body, payload) = match &request.body {
        RequestBody::Read(ReadRequest { range, .. }) => {
            let block = vec![request.id.0 as u8; BLOCK_BYTES as usize];
            let sums = (0..range.count).map(|_| amita_types::crc32c(&block)).collect();
            let payload = Slice::copy_from(&block.repeat(range.count.into()));
            (
                AnswerBody::Data(DataAnswer {
                    version: Version(1),
                    sums,
                    runs: Box::default(),
                }),
                payload,
            )
        }
        RequestBody::RenewLease => (AnswerBody::LeaseRenewed, Slice::default()),
        _ => (AnswerBody::Done, Slice::default()),
    };
    let answer = Answer {
        id: request.id,
        store: request.store,
        lease_ms: 250,
        credit_blocks: 0,
        waited: Default::default(),
        trace: None,
        result: Ok(body),
    };
    (Message::Answer(answer), payload)
}

/// A node that is nothing but a fabric.
pub struct Node {
    pub fabric: Fabric,
    /// Everything but messages, with the time (of this node's clock).
    pub events: Vec<(Time, Event)>,
    /// Ids of requests in the order in which they came, by link.
    pub requests: Vec<(Link, u64)>,
    /// Ids of answers in the order in which they came, by link.
    pub answers: Vec<(Link, u64)>,
    /// Outcomes of requests for release.
    pub released: Vec<ReleaseOutcome>,
    /// Answer requests at once? Else they are held.
    pub answering: bool,
    pub held: VecDeque<(Link, Request)>,
    /// The most that was held, in requests and in bytes as charged to the window.
    pub most_held: (usize, u32),
    /// What to send, to whom, as soon as there is a link; what does not fit waits.
    pub outgoing: VecDeque<(NodeId, Message, Slice)>,
    /// Sends that were refused as `Full`, and otherwise.
    pub full: u64,
    pub failed: Vec<SendError>,
    /// Payloads that were not what was sent.
    pub damaged: u64,
    /// Passes so far.
    pub passes: u64,
    armed: Option<Time>,
    listen: Option<SocketAddr>,
    peers: Vec<(NodeId, Option<Addresses>)>,
    steered: Vec<(NodeId, Network)>,
    names: Vec<(NodeId, Option<Recorded>)>,
    closing: Vec<Link>,
    rechecking: bool,
}

/// Nodes whose names every node knows from the start.
const NAMED: u32 = 9;

impl Node {
    pub fn new(config: Config) -> Node {
        let mut node = Node::nameless(config);
        for number in 1..=NAMED {
            node.set_name(number, Some(Recorded::node(name(number))));
        }
        node
    }

    /// One that knows no names.
    pub fn nameless(config: Config) -> Node {
        Node {
            fabric: Fabric::new(config),
            events: Vec::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            released: Vec::new(),
            answering: true,
            held: VecDeque::new(),
            most_held: (0, 0),
            outgoing: VecDeque::new(),
            full: 0,
            failed: Vec::new(),
            damaged: 0,
            passes: 0,
            armed: None,
            listen: None,
            peers: Vec::new(),
            steered: Vec::new(),
            names: Vec::new(),
            closing: Vec::new(),
            rechecking: false,
        }
    }

    /// At the next pass.
    pub fn set_name(&mut self, node: u32, recorded: Option<Recorded>) {
        self.names.push((NodeId(node), recorded));
    }

    /// At the next pass.
    pub fn recheck(&mut self) {
        self.rechecking = true;
    }

    /// At the next pass.
    pub fn listen(mut self, address: SocketAddr) -> Node {
        self.listen = Some(address);
        self
    }

    /// At the next pass.
    pub fn peer(mut self, node: u32, address: SocketAddr) -> Node {
        self.set_peer(node, Some(address));
        self
    }

    pub fn set_peer(&mut self, node: u32, address: Option<SocketAddr>) {
        self.peers.push((NodeId(node), address.map(Addresses::from)));
    }

    /// The same with two addresses.
    pub fn set_peer_at(&mut self, node: u32, first: SocketAddr, second: Option<SocketAddr>) {
        self.peers.push((NodeId(node), Some(Addresses { first, second })));
    }

    /// At the next pass.
    pub fn steer(&mut self, node: u32, network: Network) {
        self.steered.push((NodeId(node), network));
    }

    pub fn close(&mut self, link: Link) {
        self.closing.push(link);
    }

    pub fn send(&mut self, node: u32, (message, payload): (Message, Slice)) {
        self.outgoing.push_back((NodeId(node), message, payload));
    }

    /// Answers what is held, the oldest `count` of it.
    pub fn answer_held(&mut self, count: usize) {
        for _ in 0..count.min(self.held.len()) {
            let (link, request) = self.held.pop_front().expect("counted");
            let (message, payload) = answer(&request);
            if let Err(error) = self.fabric.send(link, message, payload) {
                self.failed.push(error);
            }
        }
    }

    /// The events of a kind.
    pub fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| which(event)).count()
    }

    pub fn ups(&self) -> usize {
        self.count(|event| matches!(event, Event::Up { outgoing: true, .. }))
    }

    pub fn when(&self, which: impl Fn(&Event) -> bool) -> Option<Time> {
        self.events
            .iter()
            .find(|(_, event)| which(event))
            .map(|(time, _)| *time)
    }

    fn drain(&mut self, now: Time) {
        let mut messages = Vec::new();
        for event in self.fabric.events() {
            match event {
                Event::Message {
                    link, message, payload, ..
                } => messages.push((link, message, payload)),
                other => self.events.push((now, other)),
            }
        }
        for (link, message, payload) in messages {
            self.message(link, message, &payload);
        }
    }

    fn message(&mut self, link: Link, message: Message, payload: &[u8]) {
        match message {
            Message::Request(request) => {
                self.damaged += u64::from(!is_intact(&request, payload));
                self.requests.push((link, request.id.0));
                self.held.push_back((link, request));
                if self.answering {
                    self.answer_held(usize::MAX);
                }
                let bytes = self
                    .held
                    .iter()
                    .map(|(_, request)| amita_fabric::charge(request, length(request)))
                    .sum();
                self.most_held = (self.most_held.0.max(self.held.len()), self.most_held.1.max(bytes));
            }
            Message::Answer(answer) => {
                if let Ok(AnswerBody::Data(DataAnswer { sums, .. })) = &answer.result {
                    let is_right = payload.iter().all(|byte| *byte == answer.id.0 as u8);
                    self.damaged += u64::from(!is_right || payload.len() != sums.len() * BLOCK_BYTES as usize);
                }
                self.answers.push((link, answer.id.0));
            }
            Message::Release { tag, .. } => {
                let outcome = ReleaseOutcome::Busy { clients: tag as u32 };
                let sent = self
                    .fabric
                    .send(link, Message::Released { tag, outcome }, Slice::default());
                self.failed.extend(sent.err());
            }
            Message::Released { outcome, .. } => self.released.push(outcome),
            Message::Forward(_) | Message::Forwarded(_) | Message::Cut(_) | Message::CutDone { .. } => {}
        }
    }

    fn send_outgoing(&mut self) {
        for _ in 0..self.outgoing.len() {
            let Some((node, message, payload)) = self.outgoing.pop_front() else {
                break;
            };
            let Some(link) = self.fabric.link_to(node) else {
                self.outgoing.push_front((node, message, payload));
                break;
            };
            match self.fabric.send(link, message.clone(), payload.clone()) {
                Ok(()) => {}
                Err(SendError::Full) => {
                    self.full += 1;
                    self.outgoing.push_front((node, message, payload));
                    break;
                }
                Err(other) => self.failed.push(other),
            }
        }
    }
}

fn length(request: &Request) -> usize {
    match &request.body {
        RequestBody::Write(WriteRequest { length_bytes, .. }) => *length_bytes as usize,
        _ => 0,
    }
}

impl Service for Node {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        self.passes += 1;
        let now = driver.now();
        if let Some(address) = self.listen.take() {
            self.fabric.listen(driver, address).expect("the address is free");
        }
        for (node, recorded) in std::mem::take(&mut self.names) {
            self.fabric.set_name(node, recorded);
        }
        if std::mem::take(&mut self.rechecking) {
            self.fabric.recheck(driver, now);
        }
        for (node, address) in std::mem::take(&mut self.peers) {
            self.fabric.set_peer(now, node, address);
        }
        for (node, network) in std::mem::take(&mut self.steered) {
            self.fabric.steer(now, node, network);
        }
        for link in std::mem::take(&mut self.closing) {
            self.fabric.close(driver, link);
        }
        for completion in completions.drain(..) {
            if completion.token == TIMER {
                self.armed = None;
            } else {
                assert_eq!(completion.token.0 >> 56, FABRIC_TOKENS);
                self.fabric.completion(driver, completion);
            }
        }
        if self.fabric.deadline().is_some_and(|due| due <= now) {
            self.fabric.tick(driver);
        }
        self.drain(now);
        self.send_outgoing();
        self.fabric.flush(driver);
        self.drain(now);
        if let Some(due) = self.fabric.deadline()
            && self.armed.is_none_or(|armed| due < armed)
        {
            // An earlier timer than needed may still fire; it does no harm.
            driver.timer(due, TIMER);
            self.armed = Some(due);
        }
        Wait::UntilEvent
    }
}

/// Somebody who speaks raw bytes to an address.
pub struct Raw {
    address: SocketAddr,
    /// How many connections to make.
    connect: usize,
    /// Wait for connections instead.
    listen: bool,
    pub connections: Vec<RawConnection>,
    /// Proves who it is, to whoever has this name.
    proof: Option<(Arc<StandIn>, String)>,
    /// Receive nothing?
    pub deaf: bool,
}

/// One connection of a [`Raw`].
#[derive(Default)]
pub struct RawConnection {
    socket: Option<SocketId>,
    inbox: Inbox,
    outbox: Outbox,
    receiving: bool,
    /// What was received, as frames.
    pub frames: Vec<Frame>,
    /// What was received and is no frame.
    pub garbage: bool,
    /// The peer has closed it.
    pub ended: Option<Time>,
    /// All that was received.
    pub bytes: Vec<u8>,
    handshake: Option<Box<dyn Handshake + Send>>,
    sealing: Option<Sealing>,
}

impl Raw {
    pub fn new(address: SocketAddr, connections: usize) -> Raw {
        Raw {
            address,
            connect: connections,
            listen: false,
            connections: Vec::new(),
            proof: None,
            deaf: false,
        }
    }

    /// One that proves who it is, to node `to`.
    pub fn proving(address: SocketAddr, connections: usize, handshakes: StandIn, to: u32) -> Raw {
        let mut raw = Raw::new(address, connections);
        raw.proof = Some((Arc::new(handshakes), name(to)));
        raw
    }

    /// A frame, protected if the connection is.
    pub fn frame(&mut self, connection: usize, frame: &[u8], head_bytes: usize) {
        let bytes = match &mut self.connections[connection].sealing {
            Some(sealing) => sealing.seal(frame, head_bytes),
            None => frame.to_vec(),
        };
        self.send(connection, &bytes);
    }

    /// Waits for connections at the address.
    pub fn listening(address: SocketAddr) -> Raw {
        let mut raw = Raw::new(address, 0);
        raw.listen = true;
        raw
    }

    pub fn connect(&mut self, more: usize) {
        self.connect += more;
    }

    pub fn send(&mut self, connection: usize, bytes: &[u8]) {
        self.connections[connection].outbox.push(Slice::copy_from(bytes));
    }

    /// Says hello as this node, to node `to`.
    pub fn hello(&mut self, connection: usize, node: u32, to: u32) {
        let mut bytes = Vec::new();
        codec::encode_hello(&mut bytes, &raw_hello(node, to, connection as u16), false);
        self.frame(connection, &bytes, bytes.len());
    }

    pub fn message(&mut self, connection: usize, (message, payload): &(Message, Slice)) {
        let mut bytes = Vec::new();
        codec::encode(&mut bytes, PROTOCOL_VERSION, message, payload.len()).expect("valid");
        let head_bytes = bytes.len();
        bytes.extend_from_slice(payload);
        self.frame(connection, &bytes, head_bytes);
    }
}

pub fn raw_hello(node: u32, to: u32, link: u16) -> Hello {
    Hello {
        cluster: CLUSTER,
        session: 77,
        node: NodeId(node),
        peer: NodeId(to),
        cluster_version: 1,
        window_bytes: 1 << 20,
        window_requests: 100,
        core: 0,
        link,
        version_min: PROTOCOL_VERSION,
        version_max: PROTOCOL_VERSION,
    }
}

impl RawConnection {
    /// Goes on with the handshake, if there is one.
    fn prove(&mut self, protection: Protection) {
        let Some(handshake) = &mut self.handshake else { return };
        let mut out = Vec::new();
        let step = handshake.advance(self.inbox.data(), &mut out);
        self.outbox.push(Slice::copy_from(&out));
        match step {
            Ok((bytes, step)) => {
                self.inbox.skip(bytes);
                if let Step::Done { secrets, .. } = step {
                    self.sealing = Some(Sealing::new(protection, &secrets));
                    self.handshake = None;
                }
            }
            Err(_) => self.garbage = true,
        }
    }

    pub fn is_proven(&self) -> bool {
        self.sealing.is_some()
    }

    fn parse(&mut self) {
        if self.handshake.is_some() || self.garbage {
            return;
        }
        while let Some(sealing) = &mut self.sealing {
            if self.inbox.data().starts_with(&proof::ALERT) {
                self.garbage = true;
                return;
            }
            let Some((_, whole)) = sealing::lengths(self.inbox.data()) else {
                return;
            };
            if self.inbox.len() < whole {
                return self.inbox.need(whole);
            }
            let (frame, whole) = sealing.open(self.inbox.data()).expect("whole");
            self.inbox.skip(whole);
            let agreed = (!self.frames.is_empty()).then_some(PROTOCOL_VERSION);
            let prefix = codec::prefix(&frame, agreed).expect("a frame").expect("whole");
            let head = &frame[..prefix.head_bytes];
            self.frames
                .push(codec::decode(prefix, head).expect("the fabric sends valid frames"));
        }
        loop {
            let agreed = (!self.frames.is_empty()).then_some(PROTOCOL_VERSION);
            let Ok(found) = codec::prefix(self.inbox.data(), agreed) else {
                self.garbage = true;
                return;
            };
            let Some(prefix) = found else { return };
            let whole = prefix.head_bytes + prefix.payload_bytes;
            if self.inbox.len() < whole {
                return self.inbox.need(whole);
            }
            let head = &self.inbox.data()[..prefix.head_bytes];
            codec::check(head).expect("the fabric sends valid frames");
            let frame = codec::decode(prefix, head).expect("the fabric sends valid frames");
            self.frames.push(frame);
            self.inbox.skip(whole);
        }
    }
}

impl Service for Raw {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        let now = driver.now();
        if std::mem::take(&mut self.listen) {
            driver
                .listen(self.address, Token(9 << 56 | 0xff_ffff))
                .expect("the address is free");
        }
        for _ in 0..std::mem::take(&mut self.connect) {
            let at = self.connections.len() as u64;
            self.connections.push(RawConnection::default());
            driver.connect(self.address, Token(9 << 56 | at));
        }
        for Completion { token, outcome } in completions.drain(..) {
            if let Outcome::Accepted { socket, .. } = outcome {
                self.connections.push(RawConnection {
                    socket: Some(socket),
                    ..RawConnection::default()
                });
                continue;
            }
            let connection = &mut self.connections[(token.0 & 0xff_ffff) as usize];
            match outcome {
                Outcome::Connected { result } => match result {
                    Ok(socket) => {
                        connection.socket = Some(socket);
                        if let Some((handshakes, name)) = &self.proof {
                            connection.handshake = handshakes.call(&Recorded::node(name)).ok();
                            connection.prove(handshakes.protection);
                        }
                    }
                    Err(_) => connection.ended = Some(now),
                },
                Outcome::Sent { data, result } => {
                    connection.outbox.sent(data);
                    if result.is_err() {
                        connection.ended = connection.ended.or(Some(now));
                    }
                }
                Outcome::Received { buffer, result } => {
                    connection.receiving = false;
                    let bytes = result.unwrap_or(0);
                    let before = connection.inbox.len();
                    connection.inbox.received(buffer, bytes);
                    connection.bytes.extend_from_slice(&connection.inbox.data()[before..]);
                    if bytes == 0 {
                        connection.ended = connection.ended.or(Some(now));
                    }
                    if let Some((handshakes, _)) = &self.proof {
                        connection.prove(handshakes.protection);
                    }
                    connection.parse();
                }
                other => panic!("{other:?}"),
            }
        }
        let pool = driver.pool().clone();
        for (at, connection) in self.connections.iter_mut().enumerate() {
            let Some(socket) = connection.socket.filter(|_| connection.ended.is_none()) else {
                continue;
            };
            if !self.deaf && !connection.receiving {
                let buffer = connection
                    .inbox
                    .start_receive(&pool, 4096)
                    .expect("the heap has memory");
                connection.receiving = true;
                driver.receive(socket, buffer, Token(9 << 56 | at as u64));
            }
            if let Some(segments) = connection.outbox.next_send() {
                driver.send(socket, segments, Token(9 << 56 | at as u64));
            }
        }
        Wait::UntilEvent
    }
}
