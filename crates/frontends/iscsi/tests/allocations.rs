//! A warm session allocates nothing for an I/O.

use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::{Flow, Front, FrontId};
use amita_iscsi::memory::Board;
use amita_iscsi::{Catalog, Config, IscsiFront, Port};
use amita_reactor::{Inbox, Outbox, Pool, PoolConfig, Time};
use amita_scsi::unit::{Alua, Group, Target, Unit};
use amita_testkit::allocations::{self, Counting};
use amita_types::{NodeId, SnapshotId};
use std::rc::Rc;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TARGET: &str = "iqn.2026-01.test:disks";

struct Host {
    front: IscsiFront,
    inbox: Inbox,
    outbox: Outbox,
    pool: Pool,
    sent: usize,
    /// The beginning of what was sent last.
    last: [u8; 48],
    cmd_sn: u32,
    transfers: u32,
}

impl Host {
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
                while let Some((_, event)) = service.events.pop_front() {
                    let flow = self.front.event(now, event, &mut self.outbox, &self.pool, service);
                    assert_eq!(flow, Flow::Go);
                }
                let flow = self
                    .front
                    .end_pass(now, &mut self.inbox, &mut self.outbox, &self.pool, service);
                assert_eq!(flow, Flow::Go);
                while let Some(segments) = self.outbox.next_send() {
                    let first = &segments[0];
                    let count = first.len().min(48);
                    self.last[..count].copy_from_slice(&first[..count]);
                    self.sent += segments.iter().map(|segment| segment.len()).sum::<usize>();
                    self.outbox.sent(segments);
                }
            }
        }
    }

    /// A command with its data: READ (10) or WRITE (10) of blocks of 4 KiB.
    fn command(&mut self, batch: &mut Vec<u8>, operation: u8, lba: u32, count: u16, data: &[u8]) -> u32 {
        let mut header = [0; 48];
        header[0] = 0x01;
        header[1] = 0x81 | if operation == 0x28 { 0x40 } else { 0x20 };
        header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        header[16..20].copy_from_slice(&self.cmd_sn.to_be_bytes());
        header[20..24].copy_from_slice(&(u32::from(count) * 4096).to_be_bytes());
        header[24..28].copy_from_slice(&self.cmd_sn.to_be_bytes());
        header[32] = operation;
        header[34..38].copy_from_slice(&lba.to_be_bytes());
        header[39..41].copy_from_slice(&count.to_be_bytes());
        batch.extend(header);
        batch.extend(data);
        self.cmd_sn += 1;
        self.cmd_sn - 1
    }

    /// The answer to the next R2T.
    fn data_out(&mut self, batch: &mut Vec<u8>, tag: u32, offset: u32, data: &[u8]) {
        self.transfers += 1;
        let mut header = [0; 48];
        (header[0], header[1]) = (0x05, 0x80);
        header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        header[16..20].copy_from_slice(&tag.to_be_bytes());
        header[20..24].copy_from_slice(&self.transfers.to_be_bytes());
        header[40..44].copy_from_slice(&offset.to_be_bytes());
        batch.extend(header);
        batch.extend(data);
    }

    /// Of each kind some at once: with their data, by R2T, with a part of it, reads.
    fn batch(&mut self) -> Vec<u8> {
        let data = vec![0x5a; 8192];
        let mut batch = Vec::new();
        for index in 0..20 {
            self.command(&mut batch, 0x2a, index * 2, 1, &data[..4096]);
            self.command(&mut batch, 0x28, index * 2, 1, &[]);
            let write = self.command(&mut batch, 0x2a, 1024 + index * 8, 2, &[]);
            self.data_out(&mut batch, write, 0, &data);
            let write = self.command(&mut batch, 0x2a, 2048 + index * 8, 2, &data[..4096]);
            self.data_out(&mut batch, write, 4096, &data[..4096]);
        }
        self.command(&mut batch, 0x28, 0, 256, &[]);
        batch
    }
}

fn catalog(volumes: &Volumes) -> Catalog {
    let unit = Unit {
        number: 0,
        volume: volumes.add("vol", 16 << 20, 4 << 20, false),
        snapshot: SnapshotId::HEAD,
        name: "vol".into(),
        size_bytes: 16 << 20,
        chunk_bytes: 4 << 20,
        block_bytes: 4096,
        uuid: [1; 16],
        access: vec![(1, Alua::Optimized)],
        preferred: None,
        space: None,
    };
    Catalog {
        scsi: Arc::new(amita_scsi::Catalog {
            node: NodeId(1),
            revision: 1,
            groups: vec![Group {
                tag: 1,
                node: NodeId(1),
                name: "n1".into(),
                alive: true,
            }],
            targets: vec![Arc::new(Target {
                name: TARGET.into(),
                groups: vec![1],
                units: vec![Arc::new(unit)],
                initiators: Vec::new(),
                any_initiator: true,
                explicit_access: false,
            })],
            ..amita_scsi::Catalog::default()
        }),
        ..Catalog::default()
    }
}

#[test]
fn a_warm_session_does_not_allocate() {
    let pool = Pool::new(PoolConfig::with_total(64 << 20)).expect("memory");
    let volumes = Volumes::new();
    let catalog = Arc::new(catalog(&volumes));
    let port = Rc::new(Port::new(Config::default()));
    port.set_catalog(catalog.clone());
    let mut service = MemoryService::new(volumes, pool.clone());
    let board = Board::default();
    board.serve(&mut service);
    board.set_catalog(catalog);
    let mut host = Host {
        front: IscsiFront::accept(port, FrontId(1), Time(0), ([127, 0, 0, 1], 9).into()),
        inbox: Inbox::new(),
        outbox: Outbox::new(),
        pool,
        sent: 0,
        last: [0; 48],
        cmd_sn: 1,
        // The question that comes with the first command has the first tag.
        transfers: 1,
    };
    let text = format!("InitiatorName=iqn.2026-01.test:h\0TargetName={TARGET}\0MaxRecvDataSegmentLength=262144\0");
    let mut login = vec![0; 48];
    (login[0], login[1], login[7], login[27]) = (0x43, 0x87, text.len() as u8, 1);
    login.extend(text.as_bytes());
    login.resize(login.len().next_multiple_of(4), 0);
    host.pass(&login, &mut service);
    assert_eq!((host.last[0], host.last[36]), (0x23, 0), "it has logged in");
    // Unit attentions, and each slot grows until it has had the longest command once.
    for _ in 0..4 {
        let mut batch = Vec::new();
        host.command(&mut batch, 0x28, 0, 1, &[]);
        host.pass(&batch, &mut service);
    }
    for _ in 0..60 {
        let batch = host.batch();
        host.pass(&batch, &mut service);
    }
    let batches: Vec<Vec<u8>> = (0..10).map(|_| host.batch()).collect();
    let (before, sent) = (allocations::count(), host.sent);
    for batch in &batches {
        host.pass(batch, &mut service);
    }
    assert_eq!(allocations::count() - before, 0);
    assert!(host.sent - sent > 10 << 20, "the answers were sent");
}
