//! Sessions of NVMe/TCP hosts out of any bytes: valid ones that go wrong at some point. Used by `tests/fuzz.rs` on stable,
//! and under libFuzzer by the targets in `fuzz/`.
//!
//! What must hold: nothing panics (the storage in memory checks what the fronts ask of it), no connection holds more than
//! its limits, every command of a host that keeps to the rules is answered exactly once, and when all connections are
//! gone, so are all controllers.

use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::{Event, Flow, Front, FrontId};
use amita_nvme::memory::Board;
use amita_nvme::{Ana, Catalog, Config, HostAccess, Namespace, NvmeFront, Port, Subsystem};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use amita_types::io::{IoError, Op};
use amita_types::{NodeId, SnapshotId, crc32c};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const NQN: &str = "nqn.2026-01.test:a";
const HOST: &str = "nqn.2026-01.test:host";
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
const VOLUME_BYTES: u64 = 4 << 20;
/// Connections at once.
const MAX_CONNECTIONS: usize = 4;
/// Bytes that are under way between the counters: receive blocks, a piece or two.
const SLACK: usize = 1 << 20;

/// Where decisions come from.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}

/// Data that was asked for.
struct Asked {
    id: u16,
    tag: u16,
    offset: u32,
    length: u32,
}

struct Connection {
    id: FrontId,
    front: NvmeFront,
    inbox: Inbox,
    outbox: Outbox,
    /// Sent by the target and not looked at.
    output: Vec<u8>,
    asked: Vec<Asked>,
    /// Commands that are not answered.
    open: BTreeSet<u16>,
    next_id: u16,
    controller: u16,
    digests: u8,
    /// It is an I/O queue, and has connected.
    is_io: bool,
    /// The host has broken a rule: what it gets is not looked at.
    is_dirty: bool,
    is_closed: bool,
}

struct World {
    service: MemoryService,
    board: Board,
    port: Rc<Port>,
    pool: Pool,
    now: Time,
    connections: Vec<Connection>,
    next: u64,
}

fn catalog(volumes: &Volumes) -> Catalog {
    let namespace = |nsid: u32, block_bytes| {
        let name = format!("vol{nsid}");
        let volume = volumes.add(&name, VOLUME_BYTES, 1 << 20, false);
        Arc::new(Namespace {
            nsid,
            volume,
            snapshot: SnapshotId::HEAD,
            name,
            size_bytes: VOLUME_BYTES,
            chunk_bytes: 1 << 20,
            block_bytes,
            uuid: [nsid as u8; 16],
            nguid: [nsid as u8; 16],
            ana: Ana::Optimized,
        })
    };
    let host = HostAccess {
        nqn: HOST.into(),
        dhchap: None,
        dhchap_controller: None,
        tls: None,
    };
    Catalog {
        reservations: Default::default(),
        node: NodeId(1),
        revision: 1,
        discovery_nqn: "nqn.2026-01.test:discovery".into(),
        subsystems: vec![Arc::new(Subsystem {
            nqn: NQN.into(),
            serial: "1".into(),
            gateways: vec![NodeId(1)],
            any_host: false,
            tls_required: false,
            hosts: vec![Arc::new(host)],
            namespaces: vec![namespace(1, 4096), namespace(2, 512)],
            ana_changes: 0,
        })],
        ..Catalog::default()
    }
}

fn config() -> Config {
    // Low, so that short sessions reach them.
    Config {
        read_bytes: 512 << 10,
        write_bytes: 512 << 10,
        pieces: 16,
        ..Config::default()
    }
}

/// A PDU: the common header, its own, and data.
fn pdu(kind: u8, flags: u8, own: &[u8], data: &[u8], digests: u8) -> Vec<u8> {
    let header_bytes = 8 + own.len();
    let (header_digest, data_digest) = (digests & 1, if data.is_empty() { 0 } else { digests & 2 });
    let offset = header_bytes + 4 * usize::from(header_digest);
    let length = offset + data.len() + 2 * usize::from(data_digest);
    let data_offset = if data.is_empty() { 0 } else { offset };
    let mut bytes = vec![
        kind,
        flags | header_digest | data_digest,
        header_bytes as u8,
        data_offset as u8,
    ];
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend(own);
    if header_digest != 0 {
        bytes.extend(crc32c(&bytes).to_le_bytes());
    }
    bytes.extend(data);
    if data_digest != 0 {
        bytes.extend(crc32c(data).to_le_bytes());
    }
    bytes
}

fn command(opcode: u8, id: u16, nsid: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = opcode;
    bytes[1] = 0x40;
    bytes[2..4].copy_from_slice(&id.to_le_bytes());
    bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
    bytes[39] = 0x5a;
    bytes
}

fn set(bytes: &mut [u8], dword: usize, value: u32) {
    bytes[4 * dword..4 * dword + 4].copy_from_slice(&value.to_le_bytes());
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

impl Connection {
    fn new_id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.open.insert(self.next_id);
        self.next_id
    }

    fn judge(&mut self, flow: Flow) {
        self.is_closed |= flow != Flow::Go;
    }

    fn capsule(&self, command: &[u8; 64], data: &[u8]) -> Vec<u8> {
        pdu(4, 0, command, data, self.digests)
    }

    /// Takes what the target has sent, and looks at it.
    fn fetch(&mut self) {
        while let Some(segments) = self.outbox.next_send() {
            for segment in &segments {
                self.output.extend_from_slice(segment);
            }
            self.outbox.sent(segments);
        }
        let mut rest = &self.output[..];
        while rest.len() >= 8 {
            let (kind, flags, length) = (rest[0], rest[1], u32_at(rest, 4) as usize);
            assert!(
                length >= usize::from(rest[2]) && rest.len() >= length,
                "the target sends whole PDUs"
            );
            let ended = match kind {
                5 => Some(u16_at(rest, 20)),
                7 if flags & 8 != 0 => Some(u16_at(rest, 8)),
                9 => {
                    self.asked.push(Asked {
                        id: u16_at(rest, 8),
                        tag: u16_at(rest, 10),
                        offset: u32_at(rest, 12),
                        length: u32_at(rest, 16),
                    });
                    None
                }
                1 | 3 | 7 => None,
                other => panic!("a PDU of type {other}"),
            };
            if let Some(id) = ended {
                let was_open = self.open.remove(&id);
                assert!(was_open || self.is_dirty, "command {id} is answered once");
            }
            rest = &rest[length..];
        }
        assert!(rest.is_empty(), "the target sends whole PDUs");
        self.output.clear();
    }
}

impl World {
    fn new() -> World {
        let (pool, volumes) = (Pool::heap(), Volumes::new());
        let catalog = Arc::new(catalog(&volumes));
        let mut service = MemoryService::new(volumes, pool.clone());
        let port = Rc::new(Port::new(config()));
        let board = Board::default();
        board.serve(&mut service);
        board.set_catalog(catalog.clone());
        port.set_catalog(catalog);
        World {
            service,
            board,
            port,
            pool,
            now: Time(0),
            connections: Vec::new(),
            next: 1,
        }
    }

    fn send(&mut self, at: usize, bytes: &[u8]) {
        let connection = &mut self.connections[at];
        let mut rest = bytes;
        // What the target does not want to have is not sent.
        while !rest.is_empty() && !connection.is_closed && connection.front.wants_input() {
            let wanted = connection.front.receive_bytes();
            let mut buffer = connection.inbox.start_receive(&self.pool, wanted).expect("memory");
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            connection.inbox.received(buffer, count);
            let (inbox, outbox) = (&mut connection.inbox, &mut connection.outbox);
            let flow = connection
                .front
                .received(self.now, inbox, outbox, &self.pool, &mut self.service);
            connection.judge(flow);
        }
        // A PDU that is cut because the target does not listen is a broken stream.
        connection.is_dirty |= !rest.is_empty();
        self.end_pass(at);
    }

    fn end_pass(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        if connection.is_closed {
            return;
        }
        let (inbox, outbox) = (&mut connection.inbox, &mut connection.outbox);
        let flow = connection
            .front
            .end_pass(self.now, inbox, outbox, &self.pool, &mut self.service);
        connection.judge(flow);
    }

    /// Events go to their fronts; those of fronts that are gone are dropped.
    fn deliver(&mut self) {
        for connection in &self.connections {
            self.service.collect(connection.id);
        }
        while let Some((id, event)) = self.service.events.pop_front() {
            let Some(at) = self.connections.iter().position(|connection| connection.id == id) else {
                continue;
            };
            let connection = &mut self.connections[at];
            if connection.is_closed {
                continue;
            }
            let flow = connection
                .front
                .event(self.now, event, &mut connection.outbox, &self.pool, &mut self.service);
            connection.judge(flow);
        }
        for at in 0..self.connections.len() {
            self.end_pass(at);
        }
    }

    fn tick(&mut self) {
        for connection in &mut self.connections {
            if connection.is_closed || connection.front.deadline().is_none_or(|at| at > self.now) {
                continue;
            }
            let outbox = &mut connection.outbox;
            let flow = connection.front.tick(self.now, outbox, &self.pool, &mut self.service);
            connection.judge(flow);
        }
    }

    /// Is what each connection holds within its limits?
    fn check_memory(&self) {
        let limit = 3 * config().read_bytes + 2 * config().write_bytes + SLACK;
        for connection in &self.connections {
            let mine = self
                .service
                .queue
                .iter()
                .filter(|submitted| submitted.front() == connection.id);
            let under_way: usize = mine
                .map(|submitted| match submitted.op {
                    Op::Clear { .. } => 0,
                    op => op.length() as usize,
                })
                .sum();
            let held = under_way + connection.outbox.queued_bytes() + connection.inbox.len();
            assert!(held <= limit, "{held} bytes are held");
        }
    }

    fn open(&mut self, input: &mut Input<'_>) {
        if self.connections.len() >= MAX_CONNECTIONS {
            return;
        }
        let id = FrontId(self.next);
        self.next += 1;
        let mut outbox = Outbox::new();
        let address = "127.0.0.1:4420".parse().expect("an address");
        let front = NvmeFront::accept(self.port.clone(), id, 0, self.now, address, address, &mut outbox);
        let choice = input.byte();
        let mut own = [0; 120];
        (own[2], own[3], own[4]) = (choice >> 2 & 31, choice & 3, choice >> 6);
        let mut hello = pdu(0, 0, &own, &[], 0);
        if input.byte() == 0xff {
            let at = input.below(hello.len());
            hello[at] = input.byte();
        }
        self.connections.push(Connection {
            id,
            front,
            inbox: Inbox::new(),
            outbox,
            output: Vec::new(),
            asked: Vec::new(),
            open: BTreeSet::new(),
            next_id: 0,
            controller: 0xffff,
            digests: choice & 3,
            is_io: false,
            is_dirty: false,
            is_closed: false,
        });
        self.send(self.connections.len() - 1, &hello);
    }

    fn connect(&mut self, at: usize, input: &mut Input<'_>) {
        let choice = input.byte();
        let other = input.below(self.connections.len());
        let controller = match choice & 1 {
            0 => 0xffff,
            _ => self.connections[other].controller,
        };
        let connection = &mut self.connections[at];
        let id = connection.new_id();
        let mut sqe = command(0x7f, id, 1);
        let subsystem = if choice & 0xc0 == 0xc0 { DISCOVERY } else { NQN };
        let mut data = vec![0; 1024];
        data[..16].fill(1);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
        data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
        sqe[42] = choice & 1;
        sqe[44] = 31;
        // Flow control or not.
        sqe[46] = choice & 4;
        set(&mut sqe, 12, u32::from(choice >> 3 & 3) * 1000);
        set(&mut sqe, 8, 1024);
        sqe[39] = 0x01;
        if choice & 0x30 == 0x30 {
            let at = input.below(256) * 4;
            data[at] = input.byte();
        }
        let bytes = connection.capsule(&sqe, &data);
        self.send(at, &bytes);
        self.deliver();
        let connection = &mut self.connections[at];
        // The answer to Connect, if that was it, is the last that was sent.
        while let Some(segments) = connection.outbox.next_send() {
            for segment in &segments {
                connection.output.extend_from_slice(segment);
            }
            connection.outbox.sent(segments);
        }
        let tail = 24 + 4 * usize::from(connection.digests & 1);
        if let Some(start) = connection.output.len().checked_sub(tail) {
            let answer = &connection.output[start..];
            let good = answer[0] == 5 && u16_at(answer, 20) == id && u16_at(answer, 22) == 0;
            if good {
                connection.controller = u16_at(answer, 8);
                connection.is_io = choice & 1 == 1;
            }
        }
        connection.fetch();
    }

    /// A command of an I/O queue, mostly sound.
    fn io(&mut self, at: usize, input: &mut Input<'_>) {
        let connection = &mut self.connections[at];
        let id = connection.new_id();
        let opcodes = [2, 1, 2, 1, 1, 5, 0, 8, 9, 12, 0x19, 0x0d, 0x0e, 0x11, 0x15, 4];
        let opcode = opcodes[input.below(opcodes.len())];
        let nsid = 1 + u32::from(input.byte() & 1);
        let block = if nsid == 1 { 4096 } else { 512 };
        let mut sqe = command(opcode, id, nsid);
        let first = u32::from(input.byte()) * 4;
        let count = 1 + u32::from(input.byte());
        set(&mut sqe, 10, first);
        set(&mut sqe, 12, count - 1);
        let mut length = count * block;
        match opcode {
            9 | 0x19 => {
                let ranges = count % 8;
                length = (ranges + 1) * if opcode == 9 { 16 } else { 32 };
                set(&mut sqe, if opcode == 9 { 10 } else { 12 }, ranges);
                set(&mut sqe, 11, if opcode == 9 { 4 } else { 0 });
            }
            0x0d | 0x11 => length = 16,
            0x15 => length = 8,
            0x0e => {
                set(&mut sqe, 10, 63);
                set(&mut sqe, 11, 1);
                length = 256;
            }
            _ => {}
        }
        set(&mut sqe, 8, length);
        let fuse = input.byte();
        if fuse < 32 && matches!(opcode, 1 | 5) {
            sqe[1] |= if opcode == 5 { 1 } else { 2 };
        }
        let mut data = Vec::new();
        if input.byte() & 1 == 1 && length <= 16384 {
            sqe[39] = 0x01;
            data = vec![fuse; length as usize];
            if opcode == 9 {
                data.chunks_exact_mut(16).for_each(|range| range[4..].fill(0));
            }
        }
        let bytes = connection.capsule(&sqe, &data);
        self.send(at, &bytes);
    }

    fn admin(&mut self, at: usize, input: &mut Input<'_>) {
        let connection = &mut self.connections[at];
        let id = connection.new_id();
        let opcodes = [0x06, 0x02, 0x09, 0x0a, 0x0c, 0x18, 0x08, 0x7f, 0x0d];
        let opcode = opcodes[input.below(opcodes.len())];
        let mut sqe = command(opcode, id, u32::from(input.byte() & 3));
        set(&mut sqe, 8, [4096, 64, 512, 0][input.below(4)]);
        set(&mut sqe, 10, u32::from(input.byte()) | u32::from(input.byte()) << 16);
        set(&mut sqe, 11, input.word() & 0x00ff_00ff);
        // Events wait until they happen.
        connection.is_dirty |= opcode == 0x0c;
        let bytes = connection.capsule(&sqe, &[]);
        self.send(at, &bytes);
    }

    /// Enables the controller, or disables it.
    fn property(&mut self, at: usize, value: u32) {
        let connection = &mut self.connections[at];
        let id = connection.new_id();
        let mut sqe = command(0x7f, id, 0);
        set(&mut sqe, 11, 0x14);
        set(&mut sqe, 12, value);
        let bytes = connection.capsule(&sqe, &[]);
        self.send(at, &bytes);
        self.deliver();
    }

    /// Answers an R2T, in one PDU or two.
    fn answer(&mut self, at: usize, input: &mut Input<'_>) {
        let connection = &mut self.connections[at];
        if connection.asked.is_empty() {
            return;
        }
        let index = input.below(connection.asked.len());
        let asked = connection.asked.remove(index);
        let choice = input.byte();
        let cut = match choice {
            0..128 => 0,
            _ => (asked.length / 2) & !3,
        };
        let mut bytes = Vec::new();
        for (from, to) in [(0, cut), (cut, asked.length)] {
            if from == to {
                continue;
            }
            let mut own = asked.id.to_le_bytes().to_vec();
            own.extend(asked.tag.to_le_bytes());
            own.extend((asked.offset + from).to_le_bytes());
            own.extend((to - from).to_le_bytes());
            own.extend([0; 4]);
            let last = if to == asked.length { 4 } else { 0 };
            bytes.extend(pdu(
                6,
                last,
                &own,
                &vec![choice; (to - from) as usize],
                connection.digests,
            ));
        }
        if choice == 0xfe {
            let at = input.below(bytes.len());
            bytes[at] ^= input.byte();
            connection.is_dirty = true;
        }
        self.send(at, &bytes);
    }

    fn settings(&mut self, input: &mut Input<'_>) {
        let mut catalog = Catalog::clone(&self.port.catalog());
        catalog.revision += 1;
        let subsystem = Arc::make_mut(&mut catalog.subsystems[0]);
        match input.below(4) {
            0 => subsystem.namespaces.truncate(1),
            1 => Arc::make_mut(&mut subsystem.namespaces[0]).ana = Ana::Inaccessible,
            2 => Arc::make_mut(&mut subsystem.namespaces[0]).ana = Ana::NonOptimized,
            _ => subsystem.hosts.clear(),
        }
        subsystem.ana_changes += 1;
        let catalog = Arc::new(catalog);
        self.board.set_catalog(catalog.clone());
        self.port.set_catalog(catalog);
        for connection in &self.connections {
            self.service.events.push_back((connection.id, Event::Settings));
        }
        self.deliver();
    }

    fn close(&mut self, at: usize) {
        let mut connection = self.connections.remove(at);
        connection.front.closed(&mut self.service);
    }

    /// Lets everything that is under way end; then each command must have been answered.
    fn finish(&mut self) {
        self.service.fault = None;
        let mut input = Input(&[]);
        for round in 0..10_000 {
            self.now = self.now.plus(Duration::from_millis(2));
            self.tick();
            self.service.run();
            self.deliver();
            let mut idle = self.service.queue.is_empty();
            for at in 0..self.connections.len() {
                self.connections[at].fetch();
                self.end_pass(at);
                while !self.connections[at].asked.is_empty() && !self.connections[at].is_closed {
                    idle = false;
                    self.answer(at, &mut input);
                }
                idle &= self.connections[at].outbox.queued_bytes() == 0;
            }
            if idle && round > 2 {
                break;
            }
        }
        for at in 0..self.connections.len() {
            let connection = &mut self.connections[at];
            if connection.is_closed || connection.is_dirty || !connection.is_io {
                continue;
            }
            // The first of a pair waits for what comes next: a Flush of all namespaces, which is answered at once.
            let id = connection.new_id();
            let bytes = connection.capsule(&command(0, id, u32::MAX), &[]);
            self.send(at, &bytes);
            let connection = &mut self.connections[at];
            connection.fetch();
            if !connection.is_closed && !connection.is_dirty {
                assert!(connection.open.is_empty(), "not answered: {:?}", connection.open);
            }
        }
    }
}

/// A session of up to four connections.
pub fn nvme(input: &[u8]) {
    let mut world = World::new();
    let mut input = Input(input);
    // Most sessions begin well.
    if input.byte() & 7 != 0 {
        world.open(&mut Input(&[input.byte() & 0x43]));
        world.connect(0, &mut Input(&[0]));
        world.property(0, 0x0046_0001);
        world.connections[0].fetch();
        world.open(&mut Input(&[input.byte() & 0x43]));
        world.connect(1, &mut Input(&[1 | input.byte() & 4, 0]));
    }
    while !input.0.is_empty() {
        let what = input.byte();
        if world.connections.is_empty() || what == 255 {
            world.open(&mut input);
            continue;
        }
        let at = input.below(world.connections.len());
        match what {
            0..96 => world.io(at, &mut input),
            96..128 => world.answer(at, &mut input),
            128..144 => {
                let place = input.below(world.service.queue.len().max(1));
                if place < world.service.queue.len() {
                    world.service.run_one(place);
                }
                world.deliver();
            }
            144..160 => {
                world.service.run();
                world.deliver();
            }
            160..176 => world.connections[at].fetch(),
            176..190 => world.admin(at, &mut input),
            190..196 => world.connect(at, &mut input),
            196..200 => world.property(at, if input.byte() & 1 == 0 { 0 } else { 0x0046_0001 }),
            200..206 => {
                let errors = [IoError::Busy, IoError::Lost, IoError::NoSpace, IoError::Damaged];
                let error = errors[input.below(errors.len())];
                let place = u64::from(input.byte()) << 14;
                world.service.fault = Some((place, error)).filter(|_| what < 204);
            }
            206..212 => {
                world.now = world.now.plus(Duration::from_millis(u64::from(input.byte())));
                world.tick();
            }
            212..214 => world.settings(&mut input),
            214..218 => world.close(at),
            218..236 => {
                // A command of any bytes.
                let mut sqe = command(input.byte(), 0, 1);
                for _ in 0..8 {
                    sqe[input.below(64)] = input.byte();
                }
                let connection = &mut world.connections[at];
                connection.is_dirty = true;
                let bytes = connection.capsule(&sqe, &[]);
                world.send(at, &bytes);
            }
            _ => {
                // Any bytes.
                let count = input.below(64).min(input.0.len());
                let (bytes, rest) = input.0.split_at(count);
                world.connections[at].is_dirty = true;
                input.0 = rest;
                world.send(at, bytes);
            }
        }
        world.check_memory();
    }
    world.finish();
    while !world.connections.is_empty() {
        world.close(0);
    }
    assert_eq!(
        world.board.controllers(),
        0,
        "controllers are gone with their connections"
    );
}
