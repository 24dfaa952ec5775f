//! Sessions of iSCSI initiators out of any bytes: valid ones that go wrong at some point. Used by `tests/fuzz.rs` on stable.
//!
//! What must hold: nothing panics (the storage in memory checks what the fronts ask of it), no connection holds more than its limits,
//! every command of an initiator that keeps to the rules is answered once at the most, and when all connections are gone, so are
//! all sessions.

pub mod login;

use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::{Event, Flow, Front, FrontId};
use amita_iscsi::memory::Board;
use amita_iscsi::{Catalog, Config, IscsiFront, Port, TargetDetail, Wishes};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use amita_scsi::TokenKeys;
use amita_scsi::unit::{Alua, Group, Target, Unit};
use amita_types::io::{IoError, Op};
use amita_types::{NodeId, SnapshotId, crc32c};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const TARGET: &str = "iqn.2026-01.test:disks";
const VOLUME_BYTES: u64 = 4 << 20;
/// Connections at once.
const MAX_CONNECTIONS: usize = 4;
/// Bytes that are under way between the counters: receive blocks, a piece or two, text.
const SLACK: usize = 1 << 20;
const NO_TAG: u32 = u32::MAX;
/// RECEIVE ROD TOKEN INFORMATION of one token.
const INFORMATION_BYTES: usize = 32 + 4 + 2 + 512;

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
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}

/// Data that was asked for.
#[derive(Clone, Copy)]
struct Asked {
    tag: u32,
    transfer: u32,
    offset: u32,
    length: u32,
}

struct Connection {
    id: FrontId,
    front: IscsiFront,
    inbox: Inbox,
    outbox: Outbox,
    /// Sent by the target and not looked at.
    output: Vec<u8>,
    asked: Vec<Asked>,
    /// Commands whose unasked data is not complete: their tag, and how much of it has been sent in how many PDUs.
    open: Vec<(u32, u32, u32)>,
    /// The last token that it was told.
    token: Vec<u8>,
    /// Commands that are not answered.
    unanswered: BTreeSet<u32>,
    next_tag: u32,
    cmd_sn: u32,
    max_cmd_sn: u32,
    digests: (bool, bool),
    logged_in: bool,
    /// The initiator has broken a rule: what it gets is not looked at.
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
    let unit = |number: u16, block_bytes| {
        let name = format!("vol{number}");
        let volume = volumes.add(&name, VOLUME_BYTES, 1 << 20, false);
        Arc::new(Unit {
            number,
            volume,
            snapshot: SnapshotId::HEAD,
            name,
            size_bytes: VOLUME_BYTES,
            chunk_bytes: 1 << 20,
            block_bytes,
            uuid: [number as u8 + 1; 16],
            access: vec![(1, Alua::Optimized), (2, Alua::NonOptimized)],
            preferred: None,
            space: None,
        })
    };
    Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            node: NodeId(1),
            revision: 1,
            groups: [1, 2]
                .map(|tag: u16| Group {
                    tag,
                    node: NodeId(u32::from(tag)),
                    name: format!("n{tag}"),
                    alive: true,
                })
                .to_vec(),
            targets: vec![Arc::new(Target {
                name: TARGET.into(),
                groups: vec![1, 2],
                units: vec![unit(0, 512), unit(1, 4096)],
                initiators: Vec::new(),
                any_initiator: true,
                explicit_access: true,
            })],
            tokens: TokenKeys::new(&[[5; 32]]).map(Arc::new),
            ..amita_scsi::Catalog::default()
        }),
        portals: BTreeMap::from([(1, vec!["192.0.2.1:3260".parse().expect("an address")])]),
        ..Catalog::default()
    }
}

fn config() -> Config {
    // Low, so that short sessions reach them.
    Config {
        wishes: Wishes {
            initial_r2t: false,
            ..Wishes::default()
        },
        commands: 16,
        read_bytes: 512 << 10,
        write_bytes: 256 << 10,
        gather_bytes: 256 << 10,
        pieces: 16,
        ..Config::default()
    }
}

fn pdu(mut header: [u8; 48], data: &[u8], digests: (bool, bool)) -> Vec<u8> {
    header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    let mut bytes = header.to_vec();
    if digests.0 {
        bytes.extend(crc32c(&header).to_le_bytes());
    }
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(4), 0);
    bytes.extend(&data);
    if digests.1 && !data.is_empty() {
        bytes.extend(crc32c(&data).to_le_bytes());
    }
    bytes
}

fn set(header: &mut [u8], at: usize, value: u32) {
    header[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Connection {
    fn judge(&mut self, flow: Flow) {
        self.is_closed |= flow != Flow::Go;
    }

    /// Takes what the target has sent, and looks at it.
    fn fetch(&mut self) {
        while let Some(segments) = self.outbox.next_send() {
            for segment in &segments {
                self.output.extend_from_slice(segment);
            }
            self.outbox.sent(segments);
        }
        let output = std::mem::take(&mut self.output);
        let mut rest = &output[..];
        while !rest.is_empty() {
            assert!(rest.len() >= 48 && rest[4] == 0, "the target sends whole PDUs");
            let header = &rest[..48];
            let data = (word(header, 4) & 0x00ff_ffff) as usize;
            let has_digests = self.logged_in && header[0] != 0x23;
            let digest = |is_there: bool| if is_there { 4 } else { 0 };
            let length = 48
                + digest(has_digests && self.digests.0)
                + data.next_multiple_of(4)
                + digest(has_digests && self.digests.1 && data > 0);
            assert!(rest.len() >= length, "the target sends whole PDUs");
            let begin = 48 + digest(has_digests && self.digests.0);
            let text = &rest[begin..begin + data];
            self.look(header, text);
            rest = &rest[length..];
        }
    }

    fn look(&mut self, header: &[u8], text: &[u8]) {
        let (kind, tag) = (header[0], word(header, 16));
        if kind != 0x23 {
            self.max_cmd_sn = word(header, 32);
        }
        let ended = match kind {
            0x21 => true,
            0x25 => header[1] & 1 != 0,
            0x31 => {
                self.asked.push(Asked {
                    tag,
                    transfer: word(header, 20),
                    offset: word(header, 40),
                    length: word(header, 44),
                });
                false
            }
            0x23 => {
                if header[36] == 0 && header[1] & 0x83 == 0x83 {
                    self.logged_in = true;
                    let has = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
                    self.digests = (has(b"HeaderDigest=CRC32C\0"), has(b"DataDigest=CRC32C\0"));
                }
                false
            }
            0x20 | 0x22 | 0x24 | 0x26 | 0x32 | 0x3f => false,
            other => panic!("a PDU of type {other:x}"),
        };
        if kind == 0x25 && text.len() == INFORMATION_BYTES && text[4] == 0x10 {
            self.token = text[38..].to_vec();
        }
        if ended {
            let was_open = self.unanswered.remove(&tag);
            assert!(was_open || self.is_dirty, "task {tag} is answered once");
            self.asked.retain(|asked| asked.tag != tag);
        }
    }
}

impl World {
    fn new() -> World {
        let (pool, volumes) = (Pool::heap(), Volumes::new());
        let catalog = Arc::new(catalog(&volumes));
        let mut service = MemoryService::new(volumes, pool.clone());
        let port = Rc::new(Port::new(config()));
        port.set_clock(Box::new(|| 1_800_000_000));
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
        let limit = 4 * config().read_bytes + 2 * config().write_bytes + config().gather_bytes + SLACK;
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
        let front = IscsiFront::accept(self.port.clone(), id, self.now, ([192, 0, 2, 9], 999).into());
        let choice = input.byte();
        let digests = (choice & 1 != 0, choice & 2 != 0);
        self.connections.push(Connection {
            id,
            front,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            output: Vec::new(),
            asked: Vec::new(),
            open: Vec::new(),
            token: Vec::new(),
            unanswered: BTreeSet::new(),
            next_tag: 1,
            cmd_sn: 1,
            max_cmd_sn: 16,
            digests,
            logged_in: false,
            is_dirty: false,
            is_closed: false,
        });
        let digest = |is_wanted: bool| if is_wanted { "CRC32C" } else { "None" };
        let kind = match choice & 0x70 {
            0x70 => "SessionType=Discovery\0".to_owned(),
            _ => format!("TargetName={TARGET}\0"),
        };
        let mut text = format!(
            "InitiatorName=iqn.2026-01.test:h{}\0{kind}HeaderDigest={}\0DataDigest={}\0InitialR2T={}\0ImmediateData={}\0FirstBurstLength={}\0\
             MaxOutstandingR2T=4\0MaxRecvDataSegmentLength={}\0iSCSIProtocolLevel=2\0",
            choice >> 7,
            digest(digests.0),
            digest(digests.1),
            if choice & 4 != 0 { "Yes" } else { "No" },
            if choice & 8 != 0 { "No" } else { "Yes" },
            [512, 4096, 65_536][input.below(3)],
            [512, 8192, 262_144][input.below(3)],
        )
        .into_bytes();
        if input.byte() == 0xff {
            let at = input.below(text.len());
            text[at] = input.byte();
        }
        let mut header = [0; 48];
        (header[0], header[1]) = (0x43, 0x87);
        header[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, input.byte() % 3]);
        set(&mut header, 24, 1);
        let at = self.connections.len() - 1;
        self.send(at, &pdu(header, &text, (false, false)));
        self.deliver();
        self.connections[at].fetch();
    }

    /// A command of any kind, with as much data as it likes.
    fn command(&mut self, at: usize, input: &mut Input<'_>) {
        const OPERATIONS: [(u8, u8); 20] = [
            (0x28, 0x40),
            (0x2a, 0x20),
            (0x28, 0x40),
            (0x2a, 0x20),
            (0x88, 0x40),
            (0x8a, 0x20),
            (0x89, 0x20),
            (0x42, 0x20),
            (0x93, 0x20),
            (0x2f, 0),
            (0x12, 0x40),
            (0xa0, 0x40),
            (0x1a, 0x40),
            (0x15, 0x20),
            (0x5f, 0x20),
            (0x5e, 0x40),
            (0x9e, 0x40),
            (0x8b, 0x20),
            (0x83, 0x20),
            (0, 0),
        ];
        let connection = &mut self.connections[at];
        let (operation, direction) = OPERATIONS[input.below(OPERATIONS.len())];
        let choice = input.byte();
        let mut header = [0; 48];
        header[0] = 0x01;
        header[9] = input.byte() % 3;
        let count = u32::from(input.byte() % 80);
        let cdb = &mut header[32..48];
        cdb[0] = operation;
        match operation {
            0x28 | 0x2a | 0x2f => {
                cdb[3..5].copy_from_slice(&[choice & 1, input.byte()]);
                cdb[8] = count as u8;
            }
            0x88 | 0x8a | 0x93 | 0x8b => {
                cdb[8..10].copy_from_slice(&[choice & 1, input.byte()]);
                cdb[13] = count as u8;
            }
            0x89 => {
                cdb[9] = input.byte();
                cdb[13] = (count % 17) as u8;
            }
            _ => {
                for byte in &mut cdb[1..15] {
                    *byte = if input.byte() & 3 == 0 { input.byte() } else { 0 };
                }
            }
        }
        let block = if header[9] == 0 { 512 } else { 4096 };
        let mut length = match operation {
            0x89 => 2 * (count % 17) * block,
            0x93 => block,
            0x28 | 0x2a | 0x88 | 0x8a | 0x8b => count * block,
            _ => u32::from(input.byte()) * 2,
        };
        if choice & 0xc0 == 0xc0 {
            length = length.wrapping_add(input.word() % 5000);
        }
        let writes = direction == 0x20;
        let is_last = !writes || choice & 2 == 0;
        header[1] = direction | u8::from(is_last) << 7 | [1, 1, 1, 2, 3, 0][input.below(6)];
        if choice & 4 != 0 && choice & 8 != 0 {
            header[0] |= 0x40;
        }
        set(&mut header, 20, length);
        let tag = connection.next_tag;
        connection.next_tag += 1;
        set(&mut header, 16, tag);
        set(&mut header, 24, connection.cmd_sn);
        let is_immediate = header[0] & 0x40 != 0;
        // What is beyond the window is sent seldom: it is ignored, and its number comes again.
        let is_beyond = !is_immediate && connection.max_cmd_sn.wrapping_sub(connection.cmd_sn) > 1 << 31;
        if is_beyond && input.byte() & 7 != 0 {
            return;
        }
        if !is_immediate && !is_beyond {
            connection.cmd_sn = connection.cmd_sn.wrapping_add(1);
        }
        // (The window may have grown meanwhile: then it is answered.)
        connection.unanswered.insert(tag);
        let most = length.min([0, 512, 4096, 65_536, 100][input.below(5)]);
        let data = vec![input.byte(); if writes { most as usize } else { 0 }];
        if !is_last && !is_beyond {
            connection.open.push((tag, data.len() as u32, 0));
        }
        let bytes = pdu(header, &data, connection.digests);
        self.send(at, &bytes);
    }

    /// A token is asked for, told of, handed in as it is or with another byte; or another gateway is wanted. Lists come with their commands.
    fn token(&mut self, at: usize, input: &mut Input<'_>) {
        let connection = &mut self.connections[at];
        let mut range = vec![0; 16];
        (range[6], range[7], range[11]) = (input.byte() & 7, input.byte(), input.byte());
        range[10] = input.byte() & 7;
        let mut header = [0; 48];
        (header[0], header[1]) = (0x01, 0xa1);
        header[9] = input.byte() % 2;
        let cdb = &mut header[32..48];
        let mut list = Vec::new();
        match input.below(4) {
            0 => {
                (cdb[0], cdb[1]) = (0x83, 0x10);
                list.resize(16, 0);
                (list[1], list[15]) = (30, 16);
                list.extend(range);
            }
            1 => {
                (cdb[0], cdb[1]) = (0x83, 0x11);
                list.resize(536, 0);
                (list[0], list[1], list[535]) = (2, 0x26, 16);
                list[15] = input.byte() & 15;
                if connection.token.len() == 512 {
                    list[16..528].copy_from_slice(&connection.token);
                }
                if input.byte() & 3 == 0 {
                    list[16 + input.below(256) * 2] ^= input.byte();
                }
                list.extend(range);
            }
            2 => {
                (cdb[0], cdb[1]) = (0x84, 0x07);
                header[1] = 0xc1;
            }
            _ => {
                (cdb[0], cdb[1]) = (0xa4, 0x0a);
                list.extend([0, 0, 0, 0, input.byte() & 3, 0, 0, input.byte() & 3]);
            }
        }
        let cdb = &mut header[32..48];
        match (cdb[0], list.len()) {
            (0xa4, bytes) => cdb[9] = bytes as u8,
            (_, 0) => cdb[12] = 4,
            (_, bytes) => cdb[12..14].copy_from_slice(&(bytes as u16).to_be_bytes()),
        }
        let length = if list.is_empty() { 1024 } else { list.len() as u32 };
        set(&mut header, 20, length);
        let tag = connection.next_tag;
        connection.next_tag += 1;
        set(&mut header, 16, tag);
        set(&mut header, 24, connection.cmd_sn);
        if connection.max_cmd_sn.wrapping_sub(connection.cmd_sn) > 1 << 31 {
            return;
        }
        connection.cmd_sn = connection.cmd_sn.wrapping_add(1);
        connection.unanswered.insert(tag);
        let bytes = pdu(header, &list, connection.digests);
        self.send(at, &bytes);
    }

    /// Data that was asked for, or that comes unasked.
    fn data(&mut self, at: usize, input: &mut Input<'_>) {
        let connection = &mut self.connections[at];
        let mut header = [0; 48];
        header[0] = 0x05;
        let choice = input.byte();
        let length;
        if choice & 1 == 0 && !connection.open.is_empty() {
            let place = input.below(connection.open.len());
            let (tag, offset, number) = connection.open[place];
            length = [0, 512, 1000, 4096][input.below(4)];
            let is_last = choice & 6 != 0;
            header[1] = u8::from(is_last) << 7;
            set(&mut header, 16, tag);
            set(&mut header, 20, NO_TAG);
            set(&mut header, 36, number);
            set(&mut header, 40, offset);
            match is_last {
                true => _ = connection.open.remove(place),
                false => connection.open[place] = (tag, offset + length, number + 1),
            }
        } else if !connection.asked.is_empty() {
            // In the order in which it was asked for, of each task.
            let place = input.below(connection.asked.len());
            let tag = connection.asked[place].tag;
            let place = connection
                .asked
                .iter()
                .position(|asked| asked.tag == tag)
                .unwrap_or(place);
            let asked = connection.asked.remove(place);
            length = asked.length;
            header[1] = 0x80;
            set(&mut header, 16, asked.tag);
            set(&mut header, 20, asked.transfer);
            set(&mut header, 40, asked.offset);
        } else {
            return;
        }
        let bytes = pdu(header, &vec![choice; length as usize], connection.digests);
        self.send(at, &bytes);
    }

    /// Task management, pings, text, logout, and what there is not.
    fn other(&mut self, at: usize, input: &mut Input<'_>) {
        let connection = &mut self.connections[at];
        let mut header = [0; 48];
        let choice = input.below(8);
        header[0] = 0x40 | [0x02, 0x02, 0x02, 0x00, 0x04, 0x06, 0x10, 0x1d][choice];
        header[1] = 0x80;
        let mut data = Vec::new();
        match choice {
            0..=2 => {
                header[1] |= input.byte() % 13;
                header[9] = input.byte() % 3;
                set(&mut header, 20, u32::from(input.byte()));
                set(&mut header, 32, u32::from(input.byte()));
            }
            3 => {
                set(&mut header, 20, NO_TAG);
                data = vec![7; input.below(200)];
            }
            4 => {
                set(&mut header, 20, NO_TAG);
                data = b"SendTargets=\0MaxRecvDataSegmentLength=1024\0".to_vec();
            }
            5 => header[1] |= input.byte() % 4,
            _ => {}
        }
        if choice == 5 && input.byte() & 3 != 0 {
            // Sessions are to last a little.
            return;
        }
        set(&mut header, 16, connection.next_tag);
        connection.next_tag += 1;
        set(&mut header, 24, connection.cmd_sn);
        let bytes = pdu(header, &data, connection.digests);
        self.send(at, &bytes);
    }

    /// Bytes that are changed, or any bytes.
    fn garbage(&mut self, at: usize, input: &mut Input<'_>) {
        let connection = &mut self.connections[at];
        connection.is_dirty = true;
        let mut header = [0; 48];
        header.iter_mut().for_each(|byte| *byte = input.byte());
        if input.byte() & 1 == 0 {
            header[4] = 0;
            set(&mut header, 24, connection.cmd_sn);
        }
        let data = vec![input.byte(); input.below(100)];
        let bytes = pdu(header, &data, connection.digests);
        self.send(at, &bytes);
    }

    fn settings(&mut self, input: &mut Input<'_>) {
        let mut catalog = Catalog::clone(&self.port.catalog());
        let mut scsi = amita_scsi::Catalog::clone(&catalog.scsi);
        let mut target = Target::clone(&scsi.targets[0]);
        match input.below(4) {
            0 => _ = target.units.pop_if(|unit| unit.number == 1),
            1 => {
                let detail = TargetDetail {
                    leaving: true,
                    ..TargetDetail::default()
                };
                catalog.details.insert(TARGET.into(), detail);
            }
            2 => catalog.details.clear(),
            _ => target.any_initiator = input.byte() & 7 != 0,
        }
        scsi.targets[0] = Arc::new(target);
        scsi.revision += 1;
        catalog.scsi = Arc::new(scsi);
        let catalog = Arc::new(catalog);
        self.board.set_catalog(catalog.clone());
        self.port.set_catalog(catalog);
        for connection in &self.connections {
            self.service.events.push_back((connection.id, Event::Settings));
        }
    }
}

/// One history out of these bytes.
pub fn iscsi(data: &[u8]) {
    let mut input = Input(data);
    let mut world = World::new();
    world.open(&mut input);
    while !input.0.is_empty() {
        let at = match world.connections.len() {
            0 => {
                world.open(&mut input);
                continue;
            }
            count => input.below(count),
        };
        match input.below(16) {
            0 => world.open(&mut input),
            1..=5 => world.command(at, &mut input),
            6..=7 => world.data(at, &mut input),
            8 => world.other(at, &mut input),
            9 => {
                if input.byte() & 7 == 0 {
                    world.garbage(at, &mut input);
                }
            }
            10..=11 => {
                // In any order.
                for _ in 0..input.below(6) {
                    if !world.service.queue.is_empty() {
                        let place = input.below(world.service.queue.len());
                        world.service.run_one(place);
                    }
                }
                world.deliver();
            }
            12 => {
                world.service.run();
                world.deliver();
            }
            13 => {
                world.connections[at].fetch();
                world.end_pass(at);
            }
            14 => {
                world.service.fault = match input.below(4) {
                    0 => Some((u64::from(input.byte()) << 12, IoError::Busy)),
                    1 => Some((u64::from(input.byte()) << 12, IoError::NoSpace)),
                    _ => None,
                };
                world.now = world.now.plus(Duration::from_millis(u64::from(input.byte())));
                world.tick();
            }
            _ => match input.byte() & 7 {
                0 => world.settings(&mut input),
                1 => {
                    let mut gone = world.connections.remove(at);
                    gone.front.closed(&mut world.service);
                }
                2..=5 => world.token(at, &mut input),
                _ => {}
            },
        }
        world.check_memory();
    }
    // Everything comes to its end.
    world.service.fault = None;
    for _ in 0..200 {
        world.now = world.now.plus(Duration::from_millis(5));
        world.tick();
        world.service.run();
        world.deliver();
        for at in 0..world.connections.len() {
            world.connections[at].fetch();
            world.end_pass(at);
        }
    }
    for mut connection in std::mem::take(&mut world.connections) {
        connection.front.closed(&mut world.service);
    }
    assert_eq!(world.board.sessions(), 0);
}
