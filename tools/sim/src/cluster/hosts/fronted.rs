//! Hosts that reach gateways as real ones do: through the product's NVMe/TCP, iSCSI and NBD fronts, over connections of the
//! simulated network, from a place of their own in it. What such a host does is in [`linux`](super::linux),
//! [`initiator`](super::initiator), [`nbd`](super::nbd) and [`program`](super::program); here are its sockets, and what the history is told.

use super::initiator::wire::Command;
use super::initiator::{self, Initiator};
use super::linux::{self, Bio, End, HostEffect, Linux};
use super::nbd::{self, Nbd, Order};
use super::program::Program;
use super::{CLOSING_HOST, Hosts, Refused, request};
use crate::cluster::checks::Owner;
use crate::cluster::node::{NBD_PORT, NVME_PORT, host_place, place, portal};
use crate::cluster::setup::{Fronted, Protocol};
use crate::cluster::{Setup, volume_id, volume_name};
use crate::history::{History, Kind, OperationId};
use crate::stamp::{SECTOR_BYTES, SECTORS_PER_BLOCK};
use crate::workload::{IoRequest, Workload};
use amita_nbd::wire::Errno;
use amita_nvme_host::wire::status;
use amita_nvme_host::{Request, Transfer, commands};
use amita_reactor::sim::{SimDriver, World};
use amita_reactor::{Completion, Driver, Outcome, Slice, SocketId, Time, Token, Wait};
use amita_types::io::{IoError, Op, Payload};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

const CONNECT: u64 = 1;
const RECEIVE: u64 = 2;
const SEND: u64 = 3;
/// What a host receives into at once.
const RECEIVE_BYTES: usize = 64 << 10;

/// What speaks.
pub(super) enum Client {
    Nvme(Box<Linux>),
    Iscsi(Box<Initiator>),
    Nbd(Box<Nbd>),
    Program(Box<Program>),
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&match self {
            Client::Nvme(linux) => linux.describe(),
            Client::Iscsi(initiator) => initiator.describe(),
            Client::Nbd(nbd) => nbd.describe(),
            Client::Program(program) => program.describe(),
        })
    }
}

#[derive(Debug, Default)]
struct Socket {
    id: Option<SocketId>,
    sending: bool,
    outbox: Vec<u8>,
}

/// A host with sockets.
pub struct FrontedHost {
    driver: SimDriver,
    pub(super) client: Client,
    sockets: BTreeMap<u64, Socket>,
    cores: Vec<usize>,
    /// Is what a connection has queued still sent when it is closed?
    lingers: bool,
    completions: Vec<Completion>,
    abandoned: BTreeSet<OperationId>,
}

impl std::fmt::Debug for FrontedHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.client.fmt(f)
    }
}

impl FrontedHost {
    /// The host of that number. It says what it does, if it `tells`.
    pub fn new(world: &mut World, setup: &Setup, settings: &Fronted, number: u32, tells: bool) -> FrontedHost {
        let volume = u64::from(number) % setup.volumes;
        let client = match settings.protocol_of(number) {
            Protocol::Nvme => Client::Nvme(Box::new(Linux::new(linux::Settings {
                number,
                nsid: volume as u32 + 1,
                paths: setup.gateways(),
                queues: settings.queues,
                keep_alive: settings.keep_alive,
                tells: !setup.plants.keep_silent_hosts,
                io_timeout: settings.io_timeout,
                reconnect: settings.reconnect,
                round_robin: settings.round_robin,
                registers: settings.registers(number).then(|| initiator::key(number)),
            }))),
            Protocol::Iscsi => {
                let iscsi = settings.iscsi;
                Client::Iscsi(Box::new(Initiator::new(initiator::Settings {
                    number,
                    lun: volume as u16,
                    gateways: (0..setup.gateways()).map(|path| portal(path, 0)).collect(),
                    nop: settings.keep_alive,
                    io_timeout: settings.io_timeout,
                    reconnect: settings.reconnect,
                    replacement: iscsi.replacement,
                    polling: iscsi.polling,
                    round_robin: settings.round_robin,
                    digests: iscsi.digests,
                    initial_r2t: iscsi.initial_r2t,
                    proves: iscsi.proves,
                    reinstates: iscsi.reinstates,
                    reserves: iscsi.reserves,
                    multibus: iscsi.multibus,
                    scratch: setup.scratch().map(|scratch| {
                        let [from, to] = [volume, scratch].map(volume_id);
                        initiator::Scratch::new(number, from, to, scratch as u16)
                    }),
                    tells,
                })))
            }
            Protocol::Nbd => Client::Nbd(Box::new(Nbd::new(nbd::Settings {
                export: volume_name(volume),
                paths: setup.gateways(),
                first: volume as usize,
                io_timeout: settings.io_timeout,
                reconnect: settings.reconnect,
            }))),
            Protocol::Client => {
                let at = |path| SocketAddr::new(amita_reactor::sim::node_ip(place(path, 0)), NBD_PORT);
                let mut nodes: Vec<SocketAddr> = (0..setup.gateways()).map(at).collect();
                nodes.rotate_left(volume as usize % setup.gateways());
                let resend_at_once = setup.plants.resend_at_once;
                let (export, patience) = (volume_name(volume), settings.patience);
                Client::Program(Box::new(Program::new(export, nodes, patience, resend_at_once)))
            }
        };
        FrontedHost {
            driver: world.driver(host_place(number)),
            client,
            sockets: BTreeMap::new(),
            cores: setup.cores.clone(),
            lingers: settings.lingers || settings.protocol_of(number) != Protocol::Nvme,
            completions: Vec::new(),
            abandoned: BTreeSet::new(),
        }
    }

    /// What it waits for, and somebody wants to know.
    pub fn pending(&self) -> Vec<OperationId> {
        let mut pending = match &self.client {
            Client::Nvme(linux) => linux.pending(),
            Client::Iscsi(initiator) => initiator.pending(),
            Client::Nbd(nbd) => nbd.pending(),
            Client::Program(program) => program.pending(),
        };
        pending.retain(|id| !self.abandoned.contains(id));
        pending
    }

    /// Nobody waits for these any more. It goes on with them all the same.
    pub fn abandon(&mut self, operations: &BTreeSet<OperationId>) {
        self.abandoned.extend(operations);
    }

    pub fn deadline(&self) -> Option<Time> {
        match &self.client {
            Client::Nvme(linux) => linux.deadline(),
            Client::Iscsi(initiator) => initiator.deadline(),
            Client::Nbd(nbd) => nbd.deadline(),
            Client::Program(program) => program.deadline(),
        }
    }

    fn violation(&self) -> Option<&String> {
        match &self.client {
            Client::Nvme(linux) => linux.violation.as_ref(),
            Client::Iscsi(initiator) => initiator.violation.as_ref(),
            Client::Nbd(nbd) => nbd.violation.as_ref(),
            Client::Program(_) => None,
        }
    }

    fn next_act(&mut self) -> Option<HostEffect> {
        match &mut self.client {
            Client::Nvme(linux) => linux.acts.pop_front(),
            Client::Iscsi(initiator) => initiator.acts.pop_front(),
            Client::Nbd(nbd) => nbd.acts.pop_front(),
            Client::Program(program) => program.acts.pop_front(),
        }
    }

    fn closed(&mut self, now: Time, conn: u64, is_broken: bool) {
        match &mut self.client {
            Client::Nvme(linux) => linux.closed(now, conn),
            Client::Iscsi(initiator) => initiator.closed(now, conn, is_broken),
            Client::Nbd(nbd) => nbd.closed(now, conn),
            // It has its connections for itself.
            Client::Program(_) => {}
        }
    }

    /// Where the queue of that number is found: queues of a controller are spread over a gateway's cores.
    fn address(&self, path: usize, queue: u16) -> SocketAddr {
        let (core, port) = match &self.client {
            Client::Nvme(_) => (usize::from(queue) % self.cores[path], NVME_PORT),
            Client::Nbd(_) | Client::Program(_) => (0, NBD_PORT),
            // It was told where.
            Client::Iscsi(_) => return portal(path, 0),
        };
        SocketAddr::new(amita_reactor::sim::node_ip(place(path, core)), port)
    }

    /// Takes in what has completed, and gives what NBD requests have read.
    fn take_in(&mut self, now: Time) -> Vec<(OperationId, Vec<u8>)> {
        let mut done = Vec::new();
        let mut completions = std::mem::take(&mut self.completions);
        self.driver.poll(Wait::No, &mut completions);
        if let Client::Program(program) = &mut self.client {
            done = program.pass(&mut self.driver, &mut completions);
        }
        for completion in completions.drain(..) {
            let (conn, kind) = (completion.token.0 >> 8, completion.token.0 & 0xff);
            match completion.outcome {
                Outcome::Connected { result } if kind == CONNECT => match (result, self.sockets.get_mut(&conn)) {
                    (Ok(id), Some(socket)) => {
                        socket.id = Some(id);
                        self.receive(conn, id);
                    }
                    // It was given up meanwhile.
                    (Ok(id), None) => self.driver.close(id),
                    (Err(_), _) => self.closed(now, conn, true),
                },
                Outcome::Received { buffer, result } => match result {
                    Ok(0) | Err(_) => self.closed(now, conn, result.is_err()),
                    Ok(bytes) => {
                        match &mut self.client {
                            Client::Nvme(linux) => linux.received(now, conn, &buffer[..bytes]),
                            Client::Iscsi(initiator) => initiator.received(now, conn, &buffer[..bytes]),
                            Client::Nbd(nbd) => done.extend(nbd.received(now, conn, &buffer[..bytes])),
                            Client::Program(_) => {}
                        }
                        if let Some(id) = self.sockets.get(&conn).and_then(|socket| socket.id) {
                            self.receive(conn, id);
                        }
                    }
                },
                Outcome::Sent { result, .. } => match self.sockets.get_mut(&conn) {
                    Some(socket) if result.is_ok() => socket.sending = false,
                    _ => self.closed(now, conn, true),
                },
                _ => {}
            }
        }
        self.completions = completions;
        done
    }

    /// All connections are gone.
    pub(super) fn close_all(&mut self) {
        for (_, socket) in std::mem::take(&mut self.sockets) {
            if let Some(id) = socket.id {
                self.driver.close(id);
            }
        }
    }

    fn receive(&mut self, conn: u64, id: SocketId) {
        let buffer = self.driver.pool().take(RECEIVE_BYTES).expect("the heap has memory");
        self.driver.receive(id, buffer, Token(conn << 8 | RECEIVE));
    }

    fn flush(&mut self) {
        for (conn, socket) in &mut self.sockets {
            let more = match &mut self.client {
                Client::Nvme(linux) => linux.outbox(*conn),
                Client::Iscsi(initiator) => initiator.outbox(*conn),
                Client::Nbd(nbd) => nbd.outbox(),
                Client::Program(_) => Vec::new(),
            };
            socket.outbox.extend(more);
            if let Some(id) = socket.id
                && !socket.sending
                && !socket.outbox.is_empty()
            {
                socket.sending = true;
                let data = vec![Slice::copy_from(&std::mem::take(&mut socket.outbox))];
                self.driver.send(id, data, Token(conn << 8 | SEND));
            }
        }
    }
}

impl Hosts {
    /// Gives the hosts that use fronts their places in the world.
    pub fn plug_in(&mut self, world: &mut World, setup: &Setup, tells: bool) {
        let Some(settings) = &setup.fronted else { return };
        for host in self.hosts.iter_mut().filter(|host| host.number < CLOSING_HOST) {
            host.fronted = Some(Box::new(FrontedHost::new(world, setup, settings, host.number, tells)));
        }
    }

    /// The hosts that use volumes for themselves leave: others want to open them.
    pub fn unplug(&mut self, world: &mut World) {
        for host in &mut self.hosts {
            let is_nbd = |fronted: &FrontedHost| matches!(fronted.client, Client::Nbd(_) | Client::Program(_));
            if host.fronted.as_deref().is_some_and(is_nbd) {
                world.kill(host_place(host.number));
                host.fronted = None;
            }
        }
    }

    /// A path of an initiator that was not seen to be `right` (by the host's number and the path's), where these gateways own the volumes.
    pub fn wrong_path(&self, owners: &[Option<Owner>], right: &mut BTreeSet<(u32, usize)>) -> Option<String> {
        let mut wrong = None;
        for host in &self.hosts {
            let Some(Client::Iscsi(initiator)) = host.fronted.as_ref().map(|fronted| &fronted.client) else {
                continue;
            };
            let number = host.number;
            let owner = owners.get(host.volume as usize).copied().flatten();
            let mut paths = initiator.paths().enumerate().peekable();
            if paths.peek().is_none() {
                return Some(format!("host {number} knows of no path"));
            }
            for (index, path) in paths {
                let is_true = owner.is_none_or(|owner| (owner.is_open && owner.tag == path.tag) == (path.access == 0));
                if path.works && is_true {
                    right.insert((number, index));
                } else if !right.contains(&(number, index)) {
                    let why = || format!("path {index} of host {number} is {path:?}, and {owner:?} owns the volume");
                    wrong.get_or_insert_with(why);
                }
            }
        }
        wrong
    }

    /// A host's place has something to do.
    pub fn pass(&mut self, now: Time, number: u32, workload: &mut Workload, history: &mut History) {
        let index = number as usize;
        let Some(fronted) = self.hosts.get_mut(index).and_then(|host| host.fronted.as_mut()) else {
            return;
        };
        for (id, data) in fronted.take_in(now) {
            self.fronted_done(now, index, id, Ok(()), data, workload, history);
        }
        self.run_fronted(now, index, workload, history);
    }

    /// Lets time pass for a host with fronts, and does what it wants done.
    pub(super) fn act_fronted(&mut self, now: Time, index: usize, workload: &mut Workload, history: &mut History) {
        let Some(fronted) = &mut self.hosts[index].fronted else {
            return;
        };
        if fronted.deadline().is_some_and(|at| at <= now) {
            match &mut fronted.client {
                Client::Nvme(linux) => linux.tick(now),
                Client::Iscsi(initiator) => initiator.tick(now),
                Client::Nbd(nbd) => nbd.tick(now),
                Client::Program(_) => return self.pass(now, self.hosts[index].number, workload, history),
            }
            self.run_fronted(now, index, workload, history);
        }
    }

    pub(super) fn run_fronted(&mut self, now: Time, index: usize, workload: &mut Workload, history: &mut History) {
        while let Some(fronted) = &mut self.hosts[index].fronted
            && let Some(act) = fronted.next_act()
        {
            match act {
                HostEffect::Connect { conn, path, queue } => {
                    self.coverage.hit("fronted.connects");
                    let address = fronted.address(path, queue);
                    fronted.sockets.insert(conn, Socket::default());
                    fronted.driver.connect(address, Token(conn << 8 | CONNECT));
                }
                HostEffect::Dial { conn, address } => {
                    self.coverage.hit("fronted.connects");
                    fronted.sockets.insert(conn, Socket::default());
                    fronted.driver.connect(address, Token(conn << 8 | CONNECT));
                }
                HostEffect::Over { id } => {
                    self.coverage.hit("iscsi.over");
                    history.over(id);
                }
                HostEffect::Anew { id } => self.ask_anew(now, index, id, history),
                HostEffect::Reserved => self.reserved(index, history),
                HostEffect::Fenced { victim, is_done } => self.fenced(now, victim, is_done, history),
                HostEffect::Close { conn } => {
                    let id = fronted.sockets.remove(&conn).and_then(|socket| socket.id);
                    match id {
                        Some(id) if fronted.lingers => fronted.driver.close(id),
                        Some(id) => fronted.driver.abort(id),
                        None => {}
                    }
                }
                HostEffect::Again { id, lost } => {
                    self.coverage.hit(if lost {
                        "fronted.repeated_after_loss"
                    } else {
                        "fronted.repeated_after_error"
                    });
                    history.sent_again(now, id, lost);
                }
                HostEffect::Ended { id, path, end, data } => {
                    let since = history.get(id).invoked.1;
                    let ended = Ended::of(end, since);
                    if ended.result == Err(IoError::Reserved) && self.fencing.is_some() {
                        self.note_conflict(index, id);
                    } else if let Err(error) = ended.result
                        && error != IoError::Miscompare
                        && end != End::Over
                    {
                        self.refused.push(Refused {
                            error: Some(error),
                            or: ended.or,
                            operation: Some(id),
                            since,
                            at: now,
                            volume: self.hosts[index].volume,
                            member: path,
                            is_shared: true,
                        });
                    }
                    self.fronted_done(now, index, id, ended.result, data, workload, history);
                }
            }
        }
        if let Some(fronted) = &mut self.hosts[index].fronted {
            if let Client::Nvme(linux) = &mut fronted.client {
                let taken = std::mem::take(&mut linux.taken);
                taken.into_iter().for_each(|path| self.coverage.hit(path));
            }
            if let Client::Iscsi(initiator) = &mut fronted.client {
                let taken = std::mem::take(&mut initiator.taken);
                taken.into_iter().for_each(|path| self.coverage.hit(path));
                for what in initiator.told.drain(..) {
                    eprintln!("{:>10} us  host {index}: {what}", now.0 / 1000);
                }
            }
            fronted.flush();
            if let Some(why) = fronted.violation() {
                let why = why.clone();
                self.violation.get_or_insert(why);
            }
        }
    }

    /// What has come to nothing is asked for anew: a write with a stamp of its own, so that the two can be told apart.
    fn ask_anew(&mut self, now: Time, index: usize, id: OperationId, history: &mut History) {
        let before = history.get(id).clone();
        let id = match before.kind {
            Kind::Write => history.repeat(now, id),
            _ => id,
        };
        if let Some(event) = self.fencing.as_ref().and_then(|fencing| fencing.fenced_at(index)) {
            history.asked_when_fenced(id, event);
        }
        let ask = IoRequest {
            id,
            kind: before.kind,
            first: before.first,
            sectors: before.sectors,
        };
        let (op, payload) = request(ask, self.volume_sectors, history);
        let volume = self.hosts[index].volume;
        if let Some(fronted) = &mut self.hosts[index].fronted
            && let Client::Iscsi(initiator) = &mut fronted.client
        {
            initiator.submit(now, scsi_bio(volume as u16, ask, op, &payload));
        }
    }

    /// A host was told that a volume is reserved for others.
    fn note_conflict(&mut self, index: usize, id: OperationId) {
        self.coverage.hit("iscsi.conflict");
        let is_right = self.fencing.as_ref().is_some_and(|fencing| fencing.may_conflict(index));
        if !is_right {
            let why = format!("operation {} met a reservation that its host is registered for", id.0);
            self.violation.get_or_insert(why);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn fronted_done(
        &mut self,
        now: Time,
        index: usize,
        id: OperationId,
        result: Result<(), IoError>,
        data: Vec<u8>,
        workload: &mut Workload,
        history: &mut History,
    ) {
        let payload = match history.get(id).kind {
            Kind::Read => Payload::Data(Slice::copy_from(&data)),
            _ => Payload::None,
        };
        let volume = self.hosts[index].volume;
        self.quiet_since[volume as usize] = now;
        if history.is_barred(id) {
            self.coverage.hit("judge.barred_writes");
        }
        if result.is_ok() && history.is_barred(id) {
            let why = format!("operation {} was carried out for a host that was fenced off", id.0);
            self.violation.get_or_insert(why);
        }
        self.done(now, id, result, payload, history);
        if !self.abandoned.contains(&id) {
            workload.learn(history, id);
            workload.ended(self.hosts[index].number);
        }
    }

    /// Sends what the client asks for.
    pub(super) fn send_fronted(&mut self, now: Time, index: usize, workload: &mut Workload, history: &mut History) {
        let asks: Vec<IoRequest> = self.hosts[index].waiting.drain(..).collect();
        if asks.is_empty() {
            return;
        }
        let sectors = self.volume_sectors;
        let volume = self.hosts[index].volume;
        let Some(fronted) = &mut self.hosts[index].fronted else {
            return;
        };
        let fenced_at = self.fencing.as_ref().and_then(|fencing| fencing.fenced_at(index));
        for ask in asks {
            if let Some(event) = fenced_at {
                history.asked_when_fenced(ask.id, event);
            }
            let (op, payload) = request(ask, sectors, history);
            match &mut fronted.client {
                Client::Iscsi(initiator) => initiator.submit(now, scsi_bio(volume as u16, ask, op, &payload)),
                Client::Nvme(linux) => {
                    let repeatable = matches!(ask.kind, Kind::Read | Kind::Write);
                    linux.submit(
                        now,
                        Bio::new(ask.id, nvme_requests(volume as u32 + 1, op, &payload), repeatable),
                    );
                }
                Client::Nbd(nbd) => nbd.submit(now, order(ask, op, &payload)),
                Client::Program(program) => program.submit(order(ask, op, &payload)),
            }
        }
        if matches!(fronted.client, Client::Program(_)) {
            return self.pass(now, self.hosts[index].number, workload, history);
        }
        self.run_fronted(now, index, workload, history);
    }
}

fn order(ask: IoRequest, op: Op, payload: &[u8]) -> Order {
    Order {
        id: ask.id,
        kind: ask.kind,
        offset: op.offset(),
        length: ask.sectors * SECTOR_BYTES as u32,
        data: payload.to_vec(),
    }
}

/// A request as a command of SCSI, in blocks of a sector: by whichever of those that do the same.
fn scsi_bio(lun: u16, ask: IoRequest, op: Op, payload: &[u8]) -> initiator::Bio {
    const UNMAP: u8 = 0x08;
    const NO_DATA: u8 = 0x01;
    let bytes = SECTOR_BYTES as u64;
    let (block, blocks) = (op.offset() / bytes, (op.length() / bytes) as u32);
    let mut cdb = [0; 16];
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    let (mut write, mut read) = (payload.to_vec(), 0);
    match op {
        Op::Read { length, .. } => (cdb[0], read) = (0x88, length as usize),
        // WRITE SAME (16) of one block.
        Op::Write { .. } if blocks == 1 && ask.id.0.is_multiple_of(2) => cdb[0] = 0x93,
        Op::Write { .. } => cdb[0] = 0x8a,
        Op::CompareAndWrite { .. } => {
            (cdb[0], cdb[13]) = (0x89, blocks as u8);
            cdb[10..13].fill(0);
        }
        Op::Clear { .. } if ask.id.0 % 6 == 5 => (cdb, write) = zeros_by_token(block, blocks, ask.id.0),
        Op::Clear { .. } => match ask.id.0 % 3 {
            0 => {
                // UNMAP, of one range.
                (cdb, cdb[0], cdb[8]) = ([0; 16], 0x42, 24);
                write = vec![0, 22, 0, 16, 0, 0, 0, 0];
                write.extend(block.to_be_bytes());
                write.extend(blocks.to_be_bytes());
                write.extend([0; 4]);
            }
            1 => {
                (cdb[0], cdb[1]) = (0x93, UNMAP);
                write = vec![0; SECTOR_BYTES];
            }
            _ => (cdb[0], cdb[1]) = (0x93, UNMAP | NO_DATA),
        },
        Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => {
            unreachable!("clients do not ask for it")
        }
    }
    let command = Command { lun, cdb, write, read };
    initiator::Bio::new(ask.id, command, matches!(ask.kind, Kind::Read | Kind::Write))
}

/// WRITE USING TOKEN (SBC-3) with the token of zeros, of two ranges where there are two blocks of the volume: its descriptor block, and its list.
/// Ranges are carried out one by one, and blocks are judged as a whole: none is cut.
fn zeros_by_token(block: u64, blocks: u32, list: u32) -> ([u8; 16], Vec<u8>) {
    const TOKEN: [u8; 8] = [0xff, 0xff, 0x00, 0x01, 0, 0, 0x01, 0xf8];
    const RANGES_AT: usize = 536;
    let first = blocks
        .div_ceil(2)
        .next_multiple_of(SECTORS_PER_BLOCK as u32)
        .min(blocks);
    let ranges = [(block, first), (block + u64::from(first), blocks - first)];
    let mut data = vec![0; RANGES_AT];
    data[16..24].copy_from_slice(&TOKEN);
    for (block, blocks) in ranges.into_iter().filter(|(_, blocks)| *blocks > 0) {
        data.extend(block.to_be_bytes());
        data.extend(blocks.to_be_bytes());
        data.extend([0; 4]);
    }
    let length = |from: usize| ((data.len() - from) as u16).to_be_bytes();
    let (all, of_ranges) = (length(2), length(RANGES_AT));
    data[..2].copy_from_slice(&all);
    data[RANGES_AT - 2..RANGES_AT].copy_from_slice(&of_ranges);
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x83, 0x11);
    cdb[6..10].copy_from_slice(&list.to_be_bytes());
    cdb[10..14].copy_from_slice(&(data.len() as u32).to_be_bytes());
    (cdb, data)
}

/// The commands of a request, in blocks of a sector.
fn nvme_requests(nsid: u32, op: Op, payload: &[u8]) -> Vec<Request> {
    let bytes = SECTOR_BYTES as u64;
    let (block, blocks) = (op.offset() / bytes, (op.length() / bytes) as u32);
    match op {
        Op::Read { .. } => vec![commands::read(nsid, block, blocks, SECTOR_BYTES)],
        Op::Write { .. } => vec![commands::write(nsid, block, blocks, payload.to_vec())],
        Op::Clear { .. } => vec![commands::write_zeroes(nsid, block, blocks, true)],
        Op::CompareAndWrite { .. } => {
            let (expected, new) = payload.split_at(payload.len() / 2);
            let compare = commands::compare(nsid, block, blocks, expected.to_vec());
            let write = commands::write(nsid, block, blocks, new.to_vec());
            debug_assert!(matches!(write.transfer, Transfer::Write(_)));
            vec![
                compare.map(|command| command.fused(1)),
                write.map(|command| command.fused(2)),
            ]
        }
        Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => {
            unreachable!("clients do not ask for it")
        }
    }
}

/// What a request's end is to the application.
struct Ended {
    result: Result<(), IoError>,
    /// Or it was this, since then: NBD has one number for both.
    or: Option<(IoError, Time)>,
}

impl Ended {
    fn of(end: End, asked: Time) -> Ended {
        let status = match end {
            End::Status(status) => status,
            End::Unknown | End::Over => return Err(IoError::Lost).into(),
            End::Scsi(verdict) => {
                let result = match (verdict.status, verdict.sense) {
                    (0, _) => Ok(()),
                    (0x18, _) => Err(IoError::Reserved),
                    (2, [3, ..]) => Err(IoError::Damaged),
                    (2, [7, 0x27, 7]) => Err(IoError::NoSpace),
                    (2, [5, 0x21, _]) => Err(IoError::OutOfRange),
                    (2, [0xe, ..]) => Err(IoError::Miscompare),
                    (2, [2, 4, 0x0a]) => Err(IoError::Unavailable),
                    _ => Err(IoError::Invalid),
                };
                return result.into();
            }
            End::Errno(number, connected) => {
                let is = |errno: Errno| number == errno as u32;
                let beyond = Some((IoError::OutOfRange, connected));
                let (error, or) = if is(Errno::Io) {
                    (IoError::Unavailable, Some((IoError::Damaged, asked)))
                } else if is(Errno::NoSpc) {
                    (IoError::NoSpace, beyond)
                } else if is(Errno::Inval) {
                    (IoError::OutOfRange, beyond)
                } else if is(Errno::Shutdown) {
                    (IoError::Lost, None)
                } else {
                    (IoError::Invalid, None)
                };
                return Ended { result: Err(error), or };
            }
        };
        let result = match status.number() {
            _ if status.is_success() => Ok(()),
            status::COMPARE_FAILURE => Err(IoError::Miscompare),
            status::READ_ERROR => Err(IoError::Damaged),
            status::CAPACITY_EXCEEDED => Err(IoError::NoSpace),
            status::LBA_OUT_OF_RANGE => Err(IoError::OutOfRange),
            status::RESERVATION_CONFLICT => Err(IoError::Reserved),
            _ => Err(IoError::Invalid),
        };
        result.into()
    }
}

impl From<Result<(), IoError>> for Ended {
    fn from(result: Result<(), IoError>) -> Ended {
        Ended { result, or: None }
    }
}
