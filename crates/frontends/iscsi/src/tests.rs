//! An initiator by hand against fronts over volumes in memory: bytes in, bytes out.

mod commands;
mod copies;
mod discovery;
mod functions;
mod hostile;
mod ignored;
mod limits;
mod locks;
mod login;
mod reservations;
mod resets;
mod sessions;
mod silence;
mod tokens;
mod transfer;

use crate::memory::Board;
use crate::text::{Text, parse};
use crate::wire::{BHS_BYTES, Header, NO_TAG, opcode, padded, split};
use crate::{Catalog, Config, Initiator, IscsiFront, Port, Secret};
use amita_frontend::front::{CloseReason, Flow, Front};
use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::service::{Event, FrontId};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use amita_scsi::unit::{Access, Alua, Group, Target, Unit};
use amita_types::{NodeId, SnapshotId, VolumeId, crc32c};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const TARGET: &str = "iqn.2026-01.test:disks";
const INITIATOR: &str = "iqn.2026-01.test:host";
const PROVING: &str = "iqn.2026-01.test:proving";
const SECRET: &str = "a secret of the host";
/// Logical unit 0 has blocks of 512 bytes, 1 of 4 KiB.
const BLOCKS: [u32; 2] = [512, 4096];

/// A gateway: its storage, its settings, its clock.
struct World {
    service: MemoryService,
    board: Board,
    volumes: Volumes,
    port: Rc<Port>,
    pool: Pool,
    now: Time,
    /// Where hosts connect from.
    peer: IpAddr,
    /// Is I/O carried out as soon as it is submitted?
    runs: bool,
    next: u64,
}

fn access(name: &str) -> Arc<Access> {
    Arc::new(Access {
        name: name.into(),
        mask: None,
    })
}

fn unit(number: u16, volume: VolumeId) -> Arc<Unit> {
    Arc::new(Unit {
        number,
        volume,
        snapshot: SnapshotId::HEAD,
        name: format!("vol{number}"),
        size_bytes: 16 * MIB,
        chunk_bytes: 1 << 20,
        block_bytes: BLOCKS[usize::from(number)],
        uuid: [number as u8 + 1; 16],
        access: vec![(3, Alua::Optimized)],
        preferred: None,
        space: None,
    })
}

fn catalog(volumes: &Volumes) -> Catalog {
    let units = (0..2).map(|number| {
        let volume = volumes.add(&format!("vol{number}"), 16 * MIB, 1 << 20, false);
        unit(number, volume)
    });
    let target = Target {
        name: TARGET.into(),
        groups: vec![3],
        units: units.collect(),
        initiators: vec![access(INITIATOR), access(PROVING)],
        any_initiator: false,
        explicit_access: false,
    };
    let initiator = |name: &str, secret: Option<&str>| {
        Arc::new(Initiator {
            name: name.into(),
            user: "user".into(),
            chap: secret.map(|secret| Secret::new(secret.as_bytes().to_vec())),
            chap_target: None,
            target_user: None,
        })
    };
    let portals = ["192.0.2.1:3260", "[2001:db8::1]:3260"];
    let portals = portals.iter().map(|portal| portal.parse().expect("an address"));
    Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            node: NodeId(1),
            revision: 1,
            groups: vec![Group {
                tag: 3,
                node: NodeId(1),
                name: "n1".into(),
                alive: true,
            }],
            targets: vec![Arc::new(target)],
            ..amita_scsi::Catalog::default()
        }),
        portals: BTreeMap::from([(3, portals.collect())]),
        initiators: vec![initiator(INITIATOR, None), initiator(PROVING, Some(SECRET))],
        details: BTreeMap::new(),
    }
}

impl World {
    fn with(config: Config) -> World {
        let pool = Pool::heap();
        let volumes = Volumes::new();
        let catalog = catalog(&volumes);
        let board = Board::default();
        let mut service = MemoryService::new(volumes.clone(), pool.clone());
        board.serve(&mut service);
        let world = World {
            service,
            board,
            volumes,
            port: Rc::new(Port::new(config)),
            pool,
            now: Time(0),
            peer: [192, 0, 2, 99].into(),
            runs: true,
            next: 1,
        };
        world.set(catalog);
        world
    }

    fn new() -> World {
        World::with(Config::default())
    }

    fn set(&self, catalog: Catalog) {
        let catalog = Arc::new(catalog);
        self.board.set_catalog(catalog.clone());
        self.port.set_catalog(catalog);
    }

    /// Changes the settings, and tells these hosts' fronts.
    fn change(&mut self, hosts: &mut [&mut Host], change: impl FnOnce(&mut Catalog, &mut Target)) {
        let mut catalog = Catalog::clone(&self.port.catalog());
        let mut scsi = amita_scsi::Catalog::clone(&catalog.scsi);
        let mut target = Target::clone(&scsi.targets[0]);
        change(&mut catalog, &mut target);
        scsi.revision += 1;
        scsi.targets[0] = Arc::new(target);
        catalog.scsi = Arc::new(scsi);
        self.set(catalog);
        for host in hosts {
            self.service.events.push_back((host.id, Event::Settings));
            host.settle(self);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
    }

    fn volume(&self, number: u16) -> VolumeId {
        self.port.catalog().scsi.targets[0].unit(number).expect("a unit").volume
    }
}

/// One connection, the front that serves it, and what it has sent.
struct Host {
    id: FrontId,
    front: IscsiFront,
    inbox: Inbox,
    outbox: Outbox,
    /// What the target sent and the host has not looked at.
    output: Vec<u8>,
    closed: Option<CloseReason>,
    /// Does the host fetch what it is sent?
    fetches: bool,
    digests: (bool, bool),
    cmd_sn: u32,
    /// The StatSN that comes next.
    stat_sn: u32,
    max_cmd_sn: u32,
    next_tag: u32,
}

/// A PDU that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pdu {
    header: Header,
    data: Vec<u8>,
}

impl Pdu {
    fn kind(&self) -> u8 {
        self.header.opcode()
    }

    /// The status of a response, and the sense key with its code and qualifier.
    fn status(&self) -> (u8, [u8; 3]) {
        assert_eq!(self.kind(), opcode::SCSI_RESPONSE, "{self:?}");
        let sense = match self.data.get(2..) {
            Some(sense) if sense.len() >= 14 => [sense[2] & 0xf, sense[12], sense[13]],
            _ => [0; 3],
        };
        (self.header.0[3], sense)
    }

    /// The residual: its flags and its count.
    fn residual(&self) -> (u8, u32) {
        (self.header.flags() & 6, self.header.u32_at(44))
    }
}

/// A PDU as bytes.
fn pdu(header: Header, data: &[u8], digests: (bool, bool)) -> Vec<u8> {
    let header = header.with_data_bytes(data.len());
    let mut bytes = header.0.to_vec();
    if digests.0 {
        bytes.extend(crc32c(&header.0).to_le_bytes());
    }
    let mut data = data.to_vec();
    data.resize(padded(data.len()), 0);
    bytes.extend(&data);
    if digests.1 && !data.is_empty() {
        bytes.extend(crc32c(&data).to_le_bytes());
    }
    bytes
}

/// Bytes that differ from place to place.
fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// READ (10) or WRITE (10) of so many blocks.
fn cdb10(operation: u8, lba: u32, count: u16) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}

const TEST_UNIT_READY: [u8; 16] = [0; 16];
const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;

/// A command: for logical unit `lun`, with its length and the flags F, R, W.
fn command(lun: u16, flags: u8, length: u32, cdb: [u8; 16]) -> Header {
    let mut header = Header::new(opcode::SCSI_COMMAND, flags | 1).with_target_tag(length);
    header.0[8..10].copy_from_slice(&lun.to_be_bytes());
    header.0[32..48].copy_from_slice(&cdb);
    header
}

fn read(lun: u16, lba: u32, count: u16) -> Header {
    let length = u32::from(count) * BLOCKS[usize::from(lun)];
    command(lun, 0xc0, length, cdb10(READ, lba, count))
}

fn write(lun: u16, lba: u32, count: u16) -> Header {
    let length = u32::from(count) * BLOCKS[usize::from(lun)];
    command(lun, 0xa0, length, cdb10(WRITE, lba, count))
}

/// What a command brought.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    status: u8,
    sense: [u8; 3],
    residual: (u8, u32),
    data: Vec<u8>,
}

const GOOD: (u8, [u8; 3]) = (0, [0; 3]);

impl Outcome {
    fn told(&self) -> (u8, [u8; 3]) {
        (self.status, self.sense)
    }
}

impl Host {
    /// A connection that has said nothing.
    fn open(world: &mut World) -> Host {
        let id = FrontId(world.next);
        world.next += 1;
        let front = IscsiFront::accept(world.port.clone(), id, world.now, (world.peer, 4321).into());
        Host {
            id,
            front,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            output: Vec::new(),
            closed: None,
            fetches: true,
            digests: (false, false),
            cmd_sn: 1000,
            stat_sn: 0,
            max_cmd_sn: 0,
            next_tag: 1,
        }
    }

    /// The header of a login request from one stage to another.
    fn login_header(&self, stage: u8, next: u8, isid: u8) -> Header {
        let flags = stage << 2 | if stage == next { 0 } else { 0x80 | next };
        let mut header = Header::new(0x40 | opcode::LOGIN, flags)
            .with_task_tag(7)
            .with_u16(20, 1)
            .with_u32(24, self.cmd_sn);
        header.0[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, isid]);
        header
    }

    /// Logs in with these keys beside the names, in one request; its answer.
    fn login_with(&mut self, world: &mut World, initiator: &str, isid: u8, keys: &[(&str, &str)]) -> Pdu {
        let mut text = Text::new();
        text.push("InitiatorName", initiator);
        text.push("TargetName", TARGET);
        keys.iter().for_each(|(key, value)| text.push(key, value));
        let header = self.login_header(1, 3, isid);
        self.send(world, &pdu(header, text.as_bytes(), (false, false)));
        self.output_of_login()
    }

    fn output_of_login(&mut self) -> Pdu {
        let (header, data, rest) = split(&self.output, false, false);
        assert_eq!(header.opcode(), opcode::LOGIN_RESPONSE);
        assert!(rest.is_empty());
        self.output.clear();
        self.stat_sn = header.u32_at(24).wrapping_add(1);
        self.max_cmd_sn = header.u32_at(32);
        Pdu { header, data }
    }

    /// A session with these keys agreed on, whose unit attentions are over.
    fn session_of(world: &mut World, isid: u8, keys: &[(&str, &str)]) -> Host {
        let mut host = Host::open(world);
        let answer = host.login_with(world, INITIATOR, isid, keys);
        assert_eq!((answer.header.0[36], answer.header.0[37]), (0, 0), "{answer:?}");
        let pairs = parse(&answer.data).expect("a text");
        let has = |key| pairs.contains(&(key, "CRC32C"));
        host.digests = (has("HeaderDigest"), has("DataDigest"));
        host.begin(world);
        for lun in 0..2 {
            for _ in 0..3 {
                host.run(world, command(lun, 0x80, 0, TEST_UNIT_READY), &[]);
            }
        }
        host
    }

    /// Sends its first command, and answers the question that it is asked by that.
    fn begin(&mut self, world: &mut World) {
        self.give(world, command(0, 0x80, 0, TEST_UNIT_READY), &[]);
        let said = self.pdus();
        let asked = said[0].header;
        assert_eq!(
            (said.len(), said[0].kind(), asked.task_tag()),
            (2, opcode::NOP_IN, NO_TAG)
        );
        self.pong(world, asked.target_tag());
    }

    /// Answers a question.
    fn pong(&mut self, world: &mut World, question: u32) {
        let header = Header::new(0x40 | opcode::NOP_OUT, 0x80)
            .with_task_tag(NO_TAG)
            .with_target_tag(question)
            .with_u32(24, self.cmd_sn)
            .with_u32(28, self.stat_sn);
        self.send(world, &pdu(header, &[], self.digests));
    }

    fn session(world: &mut World) -> Host {
        Host::session_of(world, 1, &[("MaxRecvDataSegmentLength", "262144")])
    }

    fn judge(&mut self, flow: Flow) {
        if let Flow::Close { reason } = flow {
            self.closed.get_or_insert(reason);
        }
    }

    /// Offers input as long as it is wanted; how much was taken.
    fn receive(&mut self, world: &mut World, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.closed.is_none() && self.front.wants_input() {
            let mut buffer = self
                .inbox
                .start_receive(&world.pool, self.front.receive_bytes())
                .expect("memory");
            let count = (bytes.len() - taken).min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[taken..taken + count]);
            self.inbox.received(buffer, count);
            taken += count;
            let flow = self.front.received(
                world.now,
                &mut self.inbox,
                &mut self.outbox,
                &world.pool,
                &mut world.service,
            );
            self.judge(flow);
        }
        taken
    }

    fn send(&mut self, world: &mut World, bytes: &[u8]) {
        let mut sent = 0;
        for _ in 0..100_000 {
            sent += self.receive(world, &bytes[sent..]);
            self.settle(world);
            if sent == bytes.len() || self.closed.is_some() || !self.front.wants_input() {
                return;
            }
        }
        panic!("it never takes everything");
    }

    fn deliver(&mut self, world: &mut World) -> bool {
        world.service.collect(self.id);
        let mut any = false;
        for _ in 0..world.service.events.len() {
            let Some((id, event)) = world.service.events.pop_front() else {
                break;
            };
            if id != self.id {
                world.service.events.push_back((id, event));
                continue;
            }
            any = true;
            if self.closed.is_none() {
                let flow = self
                    .front
                    .event(world.now, event, &mut self.outbox, &world.pool, &mut world.service);
                self.judge(flow);
            }
        }
        any
    }

    fn end_pass(&mut self, world: &mut World) {
        if self.closed.is_some() {
            return;
        }
        let flow = self.front.end_pass(
            world.now,
            &mut self.inbox,
            &mut self.outbox,
            &world.pool,
            &mut world.service,
        );
        self.judge(flow);
    }

    /// The connection is gone, as whoever has it says.
    fn gone(&mut self, world: &mut World) {
        self.front.closed(&mut world.service);
    }

    fn tick(&mut self, world: &mut World) {
        if self.closed.is_none() {
            let flow = self
                .front
                .tick(world.now, &mut self.outbox, &world.pool, &mut world.service);
            self.judge(flow);
        }
        self.settle(world);
    }

    fn fetch(&mut self) -> bool {
        let Some(segments) = self.outbox.next_send() else {
            return false;
        };
        segments
            .iter()
            .for_each(|segment| self.output.extend_from_slice(segment));
        self.outbox.sent(segments);
        true
    }

    /// Everything happens until nothing does.
    fn settle(&mut self, world: &mut World) {
        for _ in 0..1_000_000 {
            if world.runs {
                world.service.run();
            }
            let mut any = self.deliver(world);
            self.end_pass(world);
            any |= self.fetches && self.fetch();
            any |= world.runs && !world.service.queue.is_empty();
            if !any {
                self.end_pass(world);
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// The connection is gone.
    fn close(mut self, world: &mut World) {
        self.front.closed(&mut world.service);
    }

    /// All PDUs that were sent. Their sequence numbers are as they have to be.
    fn pdus(&mut self) -> Vec<Pdu> {
        let mut pdus = Vec::new();
        let output = std::mem::take(&mut self.output);
        let mut rest = &output[..];
        while rest.len() >= BHS_BYTES {
            let (header, data, behind) = split(rest, self.digests.0, self.digests.1);
            rest = behind;
            let pdu = Pdu { header, data };
            self.check_numbers(&pdu);
            pdus.push(pdu);
        }
        assert!(rest.is_empty(), "a PDU was cut");
        pdus
    }

    fn check_numbers(&mut self, pdu: &Pdu) {
        let header = &pdu.header;
        let has_status = match pdu.kind() {
            opcode::DATA_IN => header.flags() & 1 != 0,
            opcode::R2T => false,
            opcode::NOP_IN => header.task_tag() != NO_TAG,
            _ => true,
        };
        let says_next = matches!(pdu.kind(), opcode::R2T | opcode::NOP_IN);
        if has_status || says_next {
            assert_eq!(header.u32_at(24), self.stat_sn, "StatSN of {pdu:?}");
        }
        self.stat_sn = self.stat_sn.wrapping_add(u32::from(has_status));
        let told = header.u32_at(32);
        assert!(
            !crate::wire::is_before(told, self.max_cmd_sn),
            "MaxCmdSN never becomes less"
        );
        self.max_cmd_sn = told;
    }

    /// The one PDU that was sent.
    fn one(&mut self) -> Pdu {
        let mut pdus = self.pdus();
        assert_eq!(pdus.len(), 1, "{pdus:?}, closed: {:?}", self.closed);
        pdus.remove(0)
    }

    /// With the next tag and the next CmdSN.
    fn numbered(&mut self, header: Header) -> Header {
        let tag = self.next_tag;
        self.next_tag += 1;
        let header = header.with_task_tag(tag).with_u32(24, self.cmd_sn);
        let header = header.with_u32(28, self.stat_sn);
        if !header.is_immediate() {
            self.cmd_sn = self.cmd_sn.wrapping_add(1);
        }
        header
    }

    /// Sends a command with data; its tag.
    fn give(&mut self, world: &mut World, header: Header, data: &[u8]) -> u32 {
        let header = self.numbered(header);
        let bytes = pdu(header, data, self.digests);
        self.send(world, &bytes);
        header.task_tag()
    }

    fn data_out(&self, tag: u32, transfer: u32, number: u32, offset: u32, data: &[u8], is_last: bool) -> Vec<u8> {
        let header = Header::new(opcode::DATA_OUT, if is_last { 0x80 } else { 0 })
            .with_task_tag(tag)
            .with_target_tag(transfer)
            .with_u32(36, number)
            .with_u32(40, offset);
        pdu(header, data, self.digests)
    }

    /// Carries out a command, and sends of its data what is asked for.
    fn run(&mut self, world: &mut World, header: Header, data: &[u8]) -> Outcome {
        let tag = self.give(world, header, &[]);
        self.follow(world, tag, data)
    }

    /// The same, with its first data.
    fn run_with(&mut self, world: &mut World, header: Header, data: &[u8], immediate: usize) -> Outcome {
        let tag = self.give(world, header, &data[..immediate]);
        self.follow(world, tag, data)
    }

    fn follow(&mut self, world: &mut World, tag: u32, data: &[u8]) -> Outcome {
        let mut read = Vec::new();
        for _ in 0..10_000 {
            let mut answers = Vec::new();
            for pdu in self.pdus() {
                assert_eq!(pdu.header.task_tag(), tag, "{pdu:?}");
                match pdu.kind() {
                    opcode::R2T => {
                        let (offset, length) = (pdu.header.u32_at(40), pdu.header.u32_at(44));
                        let piece = &data[offset as usize..(offset + length) as usize];
                        answers.extend(self.data_out(tag, pdu.header.target_tag(), 0, offset, piece, true));
                    }
                    opcode::DATA_IN => {
                        assert_eq!(pdu.header.u32_at(40) as usize, read.len(), "data in order");
                        read.extend(&pdu.data);
                        if pdu.header.flags() & 1 != 0 {
                            return Outcome {
                                status: pdu.header.0[3],
                                sense: [0; 3],
                                residual: pdu.residual(),
                                data: read,
                            };
                        }
                    }
                    _ => {
                        let (status, sense) = pdu.status();
                        return Outcome {
                            status,
                            sense,
                            residual: pdu.residual(),
                            data: read,
                        };
                    }
                }
            }
            assert!(!answers.is_empty(), "no answer; closed: {:?}", self.closed);
            self.send(world, &answers);
        }
        panic!("it never ends");
    }
}
