//! A warm connection allocates nothing for an I/O.

use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::{Flow, Front, FrontId, Who};
use amita_nbd::{Config, NbdFront};
use amita_reactor::{Inbox, Outbox, Pool, PoolConfig, Time};
use amita_testkit::allocations::{self, Counting};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Host {
    front: NbdFront,
    inbox: Inbox,
    outbox: Outbox,
    pool: Pool,
    service: MemoryService,
    sent: usize,
}

impl Host {
    fn pass(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut buffer = self.inbox.start_receive(&self.pool, 256 << 10).expect("memory");
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.inbox.received(buffer, count);
            let (now, service) = (Time(0), &mut self.service);
            assert_eq!(
                self.front
                    .received(now, &mut self.inbox, &mut self.outbox, &self.pool, service),
                Flow::Go
            );
            for _ in 0..64 {
                let service = &mut self.service;
                service.run();
                while let Some((_, event)) = service.events.pop_front() {
                    assert_eq!(
                        self.front.event(now, event, &mut self.outbox, &self.pool, service),
                        Flow::Go
                    );
                }
                let flow = self
                    .front
                    .end_pass(now, &mut self.inbox, &mut self.outbox, &self.pool, service);
                assert_eq!(flow, Flow::Go);
                while let Some(segments) = self.outbox.next_send() {
                    self.sent += segments.iter().map(|segment| segment.len()).sum::<usize>();
                    self.outbox.sent(segments);
                }
            }
        }
    }
}

fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0];
    bytes.extend(command.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    if command == 1 {
        bytes.extend(vec![0x5a; length as usize]);
    }
    bytes
}

#[test]
fn a_warm_connection_does_not_allocate() {
    for structured in [false, true] {
        let pool = Pool::new(PoolConfig::with_total(64 << 20)).expect("memory");
        let volumes = Volumes::new();
        volumes.add("vol", 16 << 20, 4 << 20, false);
        let mut outbox = Outbox::new();
        let front = NbdFront::accept(
            Arc::new(Config::default()),
            FrontId(1),
            Who::Local,
            Time(0),
            &mut outbox,
        );
        let service = MemoryService::new(volumes, pool.clone());
        let mut host = Host {
            front,
            inbox: Inbox::new(),
            outbox,
            pool,
            service,
            sent: 0,
        };
        host.pass(b"\0\0\0\x03");
        if structured {
            host.pass(b"IHAVEOPT\0\0\0\x08\0\0\0\0");
        }
        host.pass(b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03vol\0\0");
        // 32 of each kind at once, small and long, with partial blocks.
        let mut batch = Vec::new();
        for i in 0..32 {
            batch.extend(request(1, i * 8192, 4096));
            batch.extend(request(0, i * 8192, 4096));
            batch.extend(request(0, i * 8192 + 512, 9000));
            batch.extend(request(6, (1 << 20) + i * 8192 + 100, 20_000));
            batch.extend(request(4, (2 << 20) + i * 8192, 8192));
        }
        batch.extend(request(1, 4096, 1 << 20));
        batch.extend(request(0, 4096, 1 << 20));
        batch.extend(request(0, 0, 8 << 20));
        for _ in 0..4 {
            host.pass(&batch);
        }
        let (before, sent) = (allocations::count(), host.sent);
        for _ in 0..10 {
            host.pass(&batch);
        }
        assert_eq!(allocations::count() - before, 0, "structured: {structured}");
        assert!(host.sent - sent > 10 << 20, "the replies were sent");
    }
}
