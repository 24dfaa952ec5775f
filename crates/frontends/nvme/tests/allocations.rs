//! A warm queue allocates nothing for an I/O.

use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::{Flow, Front, FrontId};
use amita_nvme::memory::Board;
use amita_nvme::{Ana, Catalog, Config, Namespace, NvmeFront, Port, Subsystem};
use amita_reactor::{Inbox, Outbox, Pool, PoolConfig, Time};
use amita_testkit::allocations::{self, Counting};
use amita_types::{NodeId, SnapshotId};
use std::rc::Rc;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NQN: &str = "nqn.2026-01.test:a";
const HOST: &str = "nqn.2026-01.test:host";

struct Host {
    front: NvmeFront,
    id: FrontId,
    inbox: Inbox,
    outbox: Outbox,
    pool: Pool,
    sent: usize,
    /// The beginning of what was sent last.
    last: [u8; 64],
}

impl Host {
    fn open(port: &Rc<Port>, id: u64, pool: &Pool) -> Host {
        let mut outbox = Outbox::new();
        let address = "127.0.0.1:4420".parse().expect("an address");
        let id = FrontId(id);
        let front = NvmeFront::accept(port.clone(), id, 0, Time(0), address, address, &mut outbox);
        Host {
            front,
            id,
            inbox: Inbox::new(),
            outbox,
            pool: pool.clone(),
            sent: 0,
            last: [0; 64],
        }
    }

    fn pass(&mut self, bytes: &[u8], service: &mut MemoryService) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let wanted = self.front.receive_bytes();
            let mut buffer = self.inbox.start_receive(&self.pool, wanted).expect("memory");
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.inbox.received(buffer, count);
            let now = Time(0);
            let flow = self
                .front
                .received(now, &mut self.inbox, &mut self.outbox, &self.pool, service);
            assert_eq!(flow, Flow::Go);
            for _ in 0..64 {
                service.run();
                while let Some((id, event)) = service.events.pop_front() {
                    assert_eq!(id, self.id);
                    let flow = self.front.event(now, event, &mut self.outbox, &self.pool, service);
                    assert_eq!(flow, Flow::Go);
                }
                let flow = self
                    .front
                    .end_pass(now, &mut self.inbox, &mut self.outbox, &self.pool, service);
                assert_eq!(flow, Flow::Go);
                while let Some(segments) = self.outbox.next_send() {
                    let first = &segments[0];
                    let count = first.len().min(64);
                    self.last[..count].copy_from_slice(&first[..count]);
                    self.sent += segments.iter().map(|segment| segment.len()).sum::<usize>();
                    self.outbox.sent(segments);
                }
            }
        }
    }
}

fn capsule(command: [u8; 64], data: &[u8]) -> Vec<u8> {
    let offset = if data.is_empty() { 0 } else { 72 };
    let mut bytes = vec![4, 0, 72, offset];
    bytes.extend((72 + data.len() as u32).to_le_bytes());
    bytes.extend(command);
    bytes.extend(data);
    bytes
}

fn command(opcode: u8, id: u16, first: u32, count: u32, in_capsule: bool) -> [u8; 64] {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1], bytes[4]) = (opcode, 0x40, 1);
    bytes[2..4].copy_from_slice(&id.to_le_bytes());
    bytes[32..36].copy_from_slice(&(count * 4096).to_le_bytes());
    bytes[39] = if in_capsule { 0x01 } else { 0x5a };
    bytes[40..44].copy_from_slice(&first.to_le_bytes());
    bytes[48..52].copy_from_slice(&(count - 1).to_le_bytes());
    bytes
}

fn connect(queue: u8, controller: u16) -> Vec<u8> {
    let mut command = command(0x7f, 0, 0, 1, true);
    command[4] = 1;
    command[32..36].copy_from_slice(&1024u32.to_le_bytes());
    command[40..64].fill(0);
    (command[42], command[44]) = (queue, 127);
    let mut data = [0; 1024];
    data[..16].fill(1);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + NQN.len()].copy_from_slice(NQN.as_bytes());
    data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
    capsule(command, &data)
}

fn catalog(volumes: &Volumes) -> Catalog {
    let volume = volumes.add("vol", 16 << 20, 4 << 20, false);
    let namespace = Namespace {
        nsid: 1,
        volume,
        snapshot: SnapshotId::HEAD,
        name: "vol".into(),
        size_bytes: 16 << 20,
        chunk_bytes: 4 << 20,
        block_bytes: 4096,
        uuid: [1; 16],
        nguid: [1; 16],
        ana: Ana::Optimized,
    };
    Catalog {
        revision: 1,
        node: NodeId(1),
        subsystems: vec![Arc::new(Subsystem {
            nqn: NQN.into(),
            serial: "1".into(),
            gateways: vec![NodeId(1)],
            any_host: true,
            tls_required: false,
            hosts: Vec::new(),
            namespaces: vec![Arc::new(namespace)],
            ana_changes: 0,
        })],
        ..Catalog::default()
    }
}

#[test]
fn a_warm_queue_does_not_allocate() {
    let pool = Pool::new(PoolConfig::with_total(64 << 20)).expect("memory");
    let volumes = Volumes::new();
    let catalog = Arc::new(catalog(&volumes));
    let port = Rc::new(Port::new(Config::default()));
    port.set_catalog(catalog.clone());
    let mut service = MemoryService::new(volumes, pool.clone());
    let board = Board::default();
    board.serve(&mut service);
    board.set_catalog(catalog);
    let mut hello = vec![0; 128];
    (hello[2], hello[4]) = (128, 128);
    let mut admin = Host::open(&port, 1, &pool);
    admin.pass(&hello, &mut service);
    admin.pass(&connect(0, 0xffff), &mut service);
    let controller = u16::from_le_bytes([admin.last[8], admin.last[9]]);
    let mut enable = [0; 64];
    (enable[0], enable[1], enable[2], enable[44]) = (0x7f, 0x40, 1, 0x14);
    enable[48..52].copy_from_slice(&0x0046_0001u32.to_le_bytes());
    admin.pass(&capsule(enable, &[]), &mut service);
    let mut host = Host::open(&port, 2, &pool);
    host.pass(&hello, &mut service);
    host.pass(&connect(1, controller), &mut service);
    assert_eq!(
        (host.last[0], host.last[22], host.last[23]),
        (5, 0, 0),
        "it is connected"
    );
    // 32 of each kind at once: in capsules, by R2T, reads, zeroes, compares.
    let data = vec![0x5a; 4096];
    let mut batch = Vec::new();
    let mut id = 0;
    let mut add = |batch: &mut Vec<u8>, opcode, first, count, data: &[u8]| {
        id += 1;
        batch.extend(capsule(command(opcode, id, first, count, !data.is_empty()), data));
        id
    };
    for index in 0..24 {
        add(&mut batch, 1, index * 2, 1, &data);
        add(&mut batch, 2, index * 2, 1, &[]);
        add(&mut batch, 5, index * 2, 1, &data);
        add(&mut batch, 8, 1000 + index, 3, &[]);
        let write = add(&mut batch, 1, 2000 + index * 8, 2, &[]);
        let mut answer = vec![6, 4, 24, 24];
        answer.extend((24 + 8192u32).to_le_bytes());
        answer.extend(write.to_le_bytes());
        answer.extend([0; 6]);
        answer.extend(8192u32.to_le_bytes());
        answer.extend([0; 4]);
        answer.extend(vec![1; 8192]);
        batch.extend(answer);
    }
    add(&mut batch, 2, 0, 256, &[]);
    // Each slot grows until it has had the longest command once.
    for _ in 0..40 {
        host.pass(&batch, &mut service);
    }
    let (before, sent) = (allocations::count(), host.sent);
    for _ in 0..10 {
        host.pass(&batch, &mut service);
    }
    assert_eq!(allocations::count() - before, 0);
    assert!(host.sent - sent > 10 << 20, "the answers were sent");
}
