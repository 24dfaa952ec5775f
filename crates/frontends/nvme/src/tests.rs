//! A host by hand against fronts over volumes in memory: bytes in, bytes out.

mod access;
mod commands;
mod connect;
mod discovery;
mod errors;
mod fused;
mod handshake;
mod hostile;
mod limits;
mod protected;
mod reserve;
mod resumed;
mod silence;
mod transfer;
mod withdrawal;

use super::command::COMMAND_BYTES;
use super::wire::{kind, u16_at, u32_at};
use super::{Ana, Catalog, Config, HostAccess, Namespace, NvmeFront, Port, Subsystem};
use crate::memory::Board;
use amita_frontend::front::{CloseReason, Flow, Front};
use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::service::{Event, FrontId};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use amita_types::{NodeId, SnapshotId, VolumeId, crc32c};
use std::rc::Rc;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const NQN: &str = "nqn.2026-01.test:a";
const HOST: &str = "nqn.2026-01.test:host";
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// A gateway: its storage, its settings, its clock.
struct World {
    service: MemoryService,
    board: Board,
    volumes: Volumes,
    port: Rc<Port>,
    pool: Pool,
    now: Time,
    /// Where hosts connect from.
    peer: std::net::IpAddr,
    /// Is I/O carried out as soon as it is submitted?
    runs: bool,
    next: u64,
}

impl World {
    fn with(config: Config) -> World {
        let pool = Pool::heap();
        let volumes = Volumes::new();
        let namespace = |nsid: u32, block_bytes| {
            let name = format!("vol{nsid}");
            let volume = volumes.add(&name, 16 * MIB, 1 << 20, false);
            Arc::new(Namespace {
                nsid,
                volume,
                snapshot: SnapshotId::HEAD,
                name,
                size_bytes: 16 * MIB,
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
        let catalog = Catalog {
            node: NodeId(3),
            revision: 1,
            discovery_nqn: "nqn.2026-01.test:discovery".into(),
            subsystems: vec![Arc::new(Subsystem {
                nqn: NQN.into(),
                serial: "1".into(),
                gateways: vec![NodeId(3)],
                any_host: false,
                tls_required: false,
                hosts: vec![Arc::new(host)],
                namespaces: vec![namespace(1, 4096), namespace(2, 512)],
                ana_changes: 0,
            })],
            gateways: Vec::new(),
            ..Catalog::default()
        };
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
            peer: [127, 0, 0, 1].into(),
            runs: true,
            next: 1,
        };
        world.set(catalog);
        world
    }

    fn new() -> World {
        World::with(Config::default())
    }

    /// Changes the settings.
    fn change(&mut self, hosts: &mut [&mut Host], change: impl FnOnce(&mut Subsystem)) {
        let mut catalog = Catalog::clone(&self.port.catalog());
        change(Arc::make_mut(&mut catalog.subsystems[0]));
        catalog.revision += 1;
        self.set(catalog);
        for host in hosts {
            self.service.events.push_back((host.id, Event::Settings));
            host.settle(self);
        }
    }

    fn set(&self, catalog: Catalog) {
        let catalog = Arc::new(catalog);
        self.board.set_catalog(catalog.clone());
        self.port.set_catalog(catalog);
    }
}

/// One connection, the front that serves it, and what it has sent.
struct Host {
    id: FrontId,
    front: NvmeFront,
    inbox: Inbox,
    outbox: Outbox,
    /// What the target sent and the host has not looked at.
    output: Vec<u8>,
    closed: Option<CloseReason>,
    /// Does the host fetch what it is sent?
    fetches: bool,
    header_digest: bool,
    data_digest: bool,
    controller: u16,
    host_id: u8,
}

/// A PDU that was sent, its digests checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pdu {
    kind: u8,
    flags: u8,
    /// Behind the common header.
    header: Vec<u8>,
    data: Vec<u8>,
}

impl Pdu {
    fn id(&self) -> u16 {
        match self.kind {
            kind::RESPONSE => u16_at(&self.header, 12),
            _ => u16_at(&self.header, 0),
        }
    }

    /// Of a response: type of status and status code.
    fn status(&self) -> (u8, u8) {
        assert_eq!(self.kind, kind::RESPONSE, "{self:?}");
        let field = u16_at(&self.header, 14) >> 1;
        ((field >> 8 & 7) as u8, field as u8)
    }

    fn result(&self) -> u32 {
        u32_at(&self.header, 0)
    }

    /// Of a termination: its status and its information.
    fn fatal(&self) -> (u16, u32) {
        assert_eq!(self.kind, kind::C2H_TERMINATE, "{self:?}");
        (u16_at(&self.header, 0), u32_at(&self.header, 2))
    }
}

/// A command, field by field.
#[derive(Clone, Copy)]
struct Sqe([u8; COMMAND_BYTES]);

impl Sqe {
    fn new(opcode: u8, id: u16, nsid: u32) -> Sqe {
        let mut bytes = [0; COMMAND_BYTES];
        bytes[0] = opcode;
        bytes[1] = 1 << 6;
        bytes[2..4].copy_from_slice(&id.to_le_bytes());
        bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
        Sqe(bytes).transport(0)
    }

    fn dword(mut self, n: usize, value: u32) -> Sqe {
        self.0[4 * n..4 * n + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn fuse(mut self, fuse: u8) -> Sqe {
        self.0[1] |= fuse;
        self
    }

    /// Data by PDUs.
    fn transport(mut self, length: usize) -> Sqe {
        self.0[24..32].fill(0);
        self.0[39] = 0x5a;
        self.dword(8, length as u32)
    }

    /// Data in the capsule.
    fn capsule(mut self, length: usize) -> Sqe {
        self.0[24..32].fill(0);
        self.0[39] = 0x01;
        self.dword(8, length as u32)
    }

    /// A range of blocks.
    fn blocks(self, first: u64, count: u32) -> Sqe {
        self.dword(10, first as u32)
            .dword(11, (first >> 32) as u32)
            .dword(12, count - 1)
    }
}

fn read(id: u16, nsid: u32, first: u64, count: u32) -> Sqe {
    let block = if nsid == 1 { 4096 } else { 512 };
    Sqe::new(2, id, nsid)
        .blocks(first, count)
        .transport(count as usize * block)
}

fn write(id: u16, nsid: u32, first: u64, count: u32) -> Sqe {
    Sqe(read(id, nsid, first, count).0).opcode(1)
}

impl Sqe {
    fn opcode(mut self, opcode: u8) -> Sqe {
        self.0[0] = opcode;
        self
    }
}

fn pdu(kind: u8, flags: u8, header: &[u8], data: &[u8], digests: (bool, bool)) -> Vec<u8> {
    let (header_digest, data_digest) = (digests.0, digests.1 && !data.is_empty());
    let hlen = 8 + header.len();
    let offset = hlen + if header_digest { 4 } else { 0 };
    let length = offset + data.len() + if data_digest { 4 } else { 0 };
    let flags = flags | u8::from(header_digest) | u8::from(data_digest) << 1;
    let mut bytes = vec![kind, flags, hlen as u8, if data.is_empty() { 0 } else { offset as u8 }];
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend(header);
    if header_digest {
        bytes.extend(crc32c(&bytes).to_le_bytes());
    }
    bytes.extend(data);
    if data_digest {
        bytes.extend(crc32c(data).to_le_bytes());
    }
    bytes
}

fn hello(alignment: u8, digests: u8, max_r2t: u32) -> Vec<u8> {
    let mut header = vec![0, 0, alignment, digests];
    header.extend((max_r2t - 1).to_le_bytes());
    header.resize(120, 0);
    pdu(kind::IC_REQUEST, 0, &header, &[], (false, false))
}

fn connect_data(subsystem: &str, host: &str, host_id: u8, controller: u16) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].fill(host_id);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    data
}

fn connect_command(queue: u16, entries: u16, attributes: u8) -> Sqe {
    let mut command = Sqe::new(0x7f, 0, 1).capsule(1024);
    command.0[42..44].copy_from_slice(&queue.to_le_bytes());
    command.0[44..46].copy_from_slice(&(entries - 1).to_le_bytes());
    command.0[46] = attributes;
    command
}

/// Bytes that differ from place to place.
fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

impl Host {
    /// A connection that has said nothing.
    fn open(world: &mut World) -> Host {
        let id = FrontId(world.next);
        world.next += 1;
        let mut outbox = Outbox::new();
        let address = "127.0.0.1:4420".parse().unwrap();
        let front = NvmeFront::accept(
            world.port.clone(),
            id,
            0,
            world.now,
            address,
            (world.peer, 4321).into(),
            &mut outbox,
        );
        Host {
            id,
            front,
            inbox: Inbox::new(),
            outbox,
            output: Vec::new(),
            closed: None,
            fetches: true,
            header_digest: false,
            data_digest: false,
            controller: 0,
            host_id: 1,
        }
    }

    /// One that has said hello.
    fn greeted(world: &mut World, alignment: u8, digests: u8, max_r2t: u32) -> Host {
        let mut host = Host::open(world);
        host.send(world, &hello(alignment, digests, max_r2t));
        let answer = host.pdus();
        assert_eq!(answer.len(), 1, "{answer:?}");
        assert_eq!(answer[0].kind, kind::IC_RESPONSE);
        host.header_digest = digests & 1 != 0;
        host.data_digest = digests & 2 != 0;
        host
    }

    /// An admin queue whose controller is enabled.
    fn admin(world: &mut World) -> Host {
        Host::admin_of(world, 1)
    }

    /// The same, of the host with that identifier.
    fn admin_of(world: &mut World, host_id: u8) -> Host {
        let mut host = Host::greeted(world, 0, 0, 1);
        host.host_id = host_id;
        let data = connect_data(NQN, HOST, host_id, 0xffff);
        host.command_with(world, connect_command(0, 32, 0), &data);
        let answer = host.one();
        assert_eq!(answer.status(), (0, 0));
        host.controller = answer.result() as u16;
        host.property_set(world, 0x14, 0x0046_0001);
        host
    }

    fn property_set(&mut self, world: &mut World, offset: u32, value: u32) {
        let command = Sqe::new(0x7f, 0, 0).dword(11, offset).dword(12, value);
        self.command(world, command);
        assert_eq!(self.one().status(), (0, 0));
    }

    /// An I/O queue of that controller.
    fn io_with(world: &mut World, admin: &Host, queue: u16, digests: u8, max_r2t: u32, attributes: u8) -> Host {
        let mut host = Host::greeted(world, 0, digests, max_r2t);
        let data = connect_data(NQN, HOST, admin.host_id, admin.controller);
        host.command_with(world, connect_command(queue, 128, attributes), &data);
        let answer = host.one();
        assert_eq!(answer.status(), (0, 0), "{answer:?}");
        host.controller = admin.controller;
        host
    }

    fn io(world: &mut World, admin: &Host) -> Host {
        Host::io_with(world, admin, 1, 0, 1, 0)
    }

    fn digests(&self) -> (bool, bool) {
        (self.header_digest, self.data_digest)
    }

    fn capsule(&self, command: Sqe, data: &[u8]) -> Vec<u8> {
        pdu(kind::COMMAND, 0, &command.0, data, self.digests())
    }

    fn data_pdu(&self, id: u16, tag: u16, offset: u32, data: &[u8], last: bool) -> Vec<u8> {
        let mut header = id.to_le_bytes().to_vec();
        header.extend(tag.to_le_bytes());
        header.extend(offset.to_le_bytes());
        header.extend((data.len() as u32).to_le_bytes());
        header.extend([0; 4]);
        let flags = if last { 4 } else { 0 };
        pdu(kind::H2C_DATA, flags, &header, data, self.digests())
    }

    fn command(&mut self, world: &mut World, command: Sqe) {
        let bytes = self.capsule(command, &[]);
        self.send(world, &bytes);
    }

    fn command_with(&mut self, world: &mut World, command: Sqe, data: &[u8]) {
        let bytes = self.capsule(command, data);
        self.send(world, &bytes);
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

    /// All PDUs that were sent.
    fn pdus(&mut self) -> Vec<Pdu> {
        let mut pdus = Vec::new();
        while self.output.len() >= 8 {
            let bytes = &self.output;
            let (kind, flags, hlen, pdo) = (bytes[0], bytes[1], usize::from(bytes[2]), usize::from(bytes[3]));
            let length = u32_at(bytes, 4) as usize;
            assert!(length >= hlen && bytes.len() >= length, "a PDU was cut");
            let bytes: Vec<u8> = self.output.drain(..length).collect();
            let is_plain = matches!(kind, kind::IC_RESPONSE | kind::C2H_TERMINATE);
            let mut end = hlen;
            assert_eq!(flags & 1 != 0, self.header_digest && !is_plain);
            if flags & 1 != 0 {
                assert_eq!(crc32c(&bytes[..hlen]), u32_at(&bytes, hlen), "header digest");
                end += 4;
            }
            let data = match kind {
                kind::C2H_TERMINATE => bytes[hlen..].to_vec(),
                kind::C2H_DATA => {
                    assert!(pdo >= end && pdo <= length);
                    assert!(bytes[end..pdo].iter().all(|byte| *byte == 0), "padding is zero");
                    let digest = if flags & 2 != 0 { 4 } else { 0 };
                    assert_eq!(flags & 2 != 0, self.data_digest);
                    let data = bytes[pdo..length - digest].to_vec();
                    if digest > 0 {
                        assert_eq!(crc32c(&data), u32_at(&bytes, length - 4), "data digest");
                    }
                    assert_eq!(data.len(), u32_at(&bytes, 16) as usize, "DATAL");
                    data
                }
                _ => {
                    assert_eq!(length, end);
                    Vec::new()
                }
            };
            let header = bytes[8..hlen].to_vec();
            pdus.push(Pdu {
                kind,
                flags,
                header,
                data,
            });
        }
        assert!(self.output.is_empty());
        pdus
    }

    /// The one PDU that was sent.
    fn one(&mut self) -> Pdu {
        let mut pdus = self.pdus();
        assert_eq!(pdus.len(), 1, "{pdus:?}, closed: {:?}", self.closed);
        pdus.remove(0)
    }

    /// Carries out a command with its data, whichever way; its status, and what it read.
    fn run(&mut self, world: &mut World, command: Sqe, data: &[u8]) -> ((u8, u8), Vec<u8>) {
        let id = u16_at(&command.0, 2);
        match command.0[39] {
            0x01 => self.command_with(world, command, data),
            _ => self.command(world, command),
        }
        let mut read = Vec::new();
        for _ in 0..10_000 {
            let mut answers = Vec::new();
            for pdu in self.pdus() {
                assert_eq!(pdu.id(), id, "{pdu:?}");
                match pdu.kind {
                    kind::R2T => {
                        let (tag, offset) = (u16_at(&pdu.header, 2), u32_at(&pdu.header, 4));
                        let length = u32_at(&pdu.header, 8) as usize;
                        let piece = &data[offset as usize..offset as usize + length];
                        answers.extend(self.data_pdu(id, tag, offset, piece, true));
                    }
                    kind::C2H_DATA => {
                        assert_eq!(u32_at(&pdu.header, 4) as usize, read.len(), "data in order");
                        read.extend(&pdu.data);
                        if pdu.flags & 8 != 0 {
                            return ((0, 0), read);
                        }
                    }
                    _ => return (pdu.status(), read),
                }
            }
            assert!(!answers.is_empty(), "no answer; closed: {:?}", self.closed);
            self.send(world, &answers);
        }
        panic!("it never ends");
    }

    /// Is the connection over, with this fatal error?
    fn ends_with(&mut self, world: &mut World, status: u16, info: u32) {
        self.settle(world);
        let last = self.pdus().pop().expect("a C2HTermReq");
        assert_eq!(last.fatal(), (status, info));
        assert!(
            matches!(self.closed, Some(CloseReason::Protocol(_))),
            "{:?}",
            self.closed
        );
    }
}

fn volume(world: &World, nsid: u32) -> VolumeId {
    world.port.catalog().subsystems[0].namespace(nsid).unwrap().volume
}
