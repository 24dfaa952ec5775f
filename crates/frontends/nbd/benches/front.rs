//! The protocol's own share of an I/O: NBD requests of 4 KiB through a front, without sockets and without storage.
//!
//! `batch` is how many requests come with one receive; as many are in flight. The volume answers at once by reference,
//! so what is measured is parsing, slots, replies and buffers.

use amita_frontend::{
    Computation, Event, Flow, Front, FrontId, HostKey, RegisterMessage, Source, StorageService, VolumeInfo, Who,
    reservation,
};
use amita_nbd::{Config, NbdFront};
use amita_reactor::{Inbox, Outbox, Pool, PoolConfig, Slice, Time};
use amita_types::io::{Op, Payload};
use amita_types::{SnapshotId, VolumeId};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_millis(1000);
const LENGTH: u32 = 4096;

/// Answers at once.
struct Instantly {
    data: Slice,
    events: Vec<Event>,
}

impl StorageService for Instantly {
    fn list(&mut self, _: FrontId, tag: u64, _: &Who) {
        self.events.push(Event::Listed {
            tag,
            result: Ok(Vec::new()),
        });
    }
    fn open(&mut self, _: FrontId, tag: u64, name: &str, _: &Who) {
        let id = VolumeId(1);
        let name = name.to_owned();
        let volume = VolumeInfo {
            id,
            snapshot: SnapshotId::HEAD,
            name,
            size_bytes: 1 << 40,
            chunk_bytes: 4 << 20,
            read_only: false,
        };
        self.events.push(Event::Opened {
            tag,
            result: Ok(volume),
        });
    }
    fn bases(&mut self, _: FrontId, _: u64, _: &str, _: Vec<String>, _: &Who) {}
    fn close(&mut self, _: FrontId, _: Source) {}
    fn submit(&mut self, _: FrontId, tag: u64, _: Source, op: Op, _: Slice) {
        let payload = match op {
            Op::Read { length, .. } => Payload::Data(self.data.slice(..length as usize)),
            _ => Payload::None,
        };
        self.events.push(Event::Done {
            tag,
            result: Ok(()),
            payload,
        });
    }
    fn identify(&mut self, _: FrontId, _: HostKey) {}
    fn reserve(&mut self, _: FrontId, _: u64, _: VolumeId, _: HostKey, _: reservation::Command) {}
    fn register(&mut self, _: FrontId, _: u64, _: RegisterMessage) {}
    fn compute(&mut self, _: FrontId, _: u64, _: Computation) {}
}

struct Host {
    front: NbdFront,
    inbox: Inbox,
    outbox: Outbox,
    pool: Pool,
    service: Instantly,
    events: Vec<Event>,
}

impl Host {
    fn new(structured: bool) -> Host {
        let pool = Pool::new(PoolConfig::with_total(64 << 20)).expect("64 MiB");
        let mut outbox = Outbox::new();
        let front = NbdFront::accept(
            Arc::new(Config::default()),
            FrontId(1),
            Who::Local,
            Time(0),
            &mut outbox,
        );
        let data = pool.take(LENGTH as usize).expect("memory").freeze();
        let service = Instantly {
            data,
            events: Vec::new(),
        };
        let mut host = Host {
            front,
            inbox: Inbox::new(),
            outbox,
            pool,
            service,
            events: Vec::new(),
        };
        host.pass(b"\0\0\0\x03");
        if structured {
            host.pass(b"IHAVEOPT\0\0\0\x08\0\0\0\0");
        }
        host.pass(b"IHAVEOPT\0\0\0\x07\0\0\0\x09\0\0\0\x03vol\0\0");
        host
    }

    fn pass(&mut self, bytes: &[u8]) {
        let now = Time(0);
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut buffer = self.inbox.start_receive(&self.pool, 256 << 10).expect("memory");
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.inbox.received(buffer, count);
            let flow = self
                .front
                .received(now, &mut self.inbox, &mut self.outbox, &self.pool, &mut self.service);
            assert_eq!(flow, Flow::Go);
            while !self.service.events.is_empty() {
                std::mem::swap(&mut self.events, &mut self.service.events);
                for event in self.events.drain(..) {
                    let flow = self
                        .front
                        .event(now, event, &mut self.outbox, &self.pool, &mut self.service);
                    assert_eq!(flow, Flow::Go);
                }
                let front = &mut self.front;
                let flow = front.end_pass(now, &mut self.inbox, &mut self.outbox, &self.pool, &mut self.service);
                assert_eq!(flow, Flow::Go);
            }
            while let Some(segments) = self.outbox.next_send() {
                self.outbox.sent(segments);
            }
        }
    }
}

fn request(command: u16, offset: u64) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0];
    bytes.extend(command.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(LENGTH.to_be_bytes());
    if command == 1 {
        bytes.extend(vec![0x5a; LENGTH as usize]);
    }
    bytes
}

fn main() {
    println!("NBD front, 4 KiB, no sockets and no storage: ns of CPU per request (a write's includes its copy in)");
    for (what, command) in [("read", 0), ("write", 1)] {
        for structured in [false, true] {
            for batch in [1u64, 32] {
                let mut host = Host::new(structured);
                let bytes: Vec<u8> = (0..batch)
                    .flat_map(|i| request(command, i * u64::from(LENGTH)))
                    .collect();
                for _ in 0..1000 {
                    host.pass(&bytes);
                }
                let (start, mut count) = (Instant::now(), 0);
                while start.elapsed() < MEASURED {
                    for _ in 0..100 {
                        host.pass(&bytes);
                    }
                    count += 100 * batch;
                }
                let each = start.elapsed().as_nanos() as f64 / count as f64;
                println!("{what:>6}, structured {structured:>5}, batch {batch:>3}: {each:7.0} ns");
            }
        }
    }
}
