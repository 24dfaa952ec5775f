//! The sequencer's share of an I/O: nanoseconds of a 4 KiB write to three members, and of a read from one, with stores
//! that answer at once. The CRC-32C of the block (once for a write, once for a read) is part of it.
//!
//! `cargo bench -p amita-sequencer`

use amita_reactor::{Slice, Time};
use amita_sequencer::{Config, Effect, IoId, Opened, Sequencer};
use amita_types::io::Op;
use amita_types::map::{self, PoolKind};
use amita_types::message::{
    AllocationAnswer, Answer, AnswerBody, DataAnswer, OpenedAnswer, Request, RequestBody, SettledAnswer, Sums,
};
use amita_types::{BLOCK_BYTES, Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, Version, VolumeId};
use std::time::Instant;

const DEPTH: u64 = 32;
const ROUNDS: u64 = 20_000;
const CHUNK_BYTES: u64 = 4 << 20;
const CHUNKS: u64 = 64;

fn opened() -> Opened {
    let members: Vec<StoreId> = (1..=3).map(StoreId).collect();
    let group = |index| map::Group {
        syncing: Vec::new(),
        index: GroupIndex(index),
        epoch: Epoch(1),
        members: members.clone(),
        in_sync: members.clone(),
    };
    Opened {
        reservation: None,
        given_back: None,
        volume: map::Volume {
            id: VolumeId(9),
            name: "v".to_owned(),
            pool: "p".to_owned(),
            size_bytes: CHUNKS * CHUNK_BYTES,
            generation: Generation(1),
            owner: Some(NodeId(1)),
        },
        volume_revision: 1,
        pool: map::Pool {
            failure_domain: amita_types::placement::Level::Node,
            class: None,
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated {
                copies: 3,
                min_copies: 2,
            },
            groups: 64,
            chunk_bytes: CHUNK_BYTES as u32,
        },
        generation: Generation(1),
        owner: NodeId(1),
        groups: (0..64).map(|index| (group(index), 1)).collect(),
    }
}

struct Bench {
    sequencer: Sequencer,
    now: Time,
    block: Slice,
    sum: u32,
    requests: Vec<Request>,
    done: u64,
    at: u64,
}

impl Bench {
    /// Answers everything until nothing is asked any more.
    fn settle(&mut self) {
        loop {
            for effect in self.sequencer.effects() {
                match effect {
                    Effect::Send { request, .. } => self.requests.push(request),
                    Effect::Done { result, .. } => {
                        assert_eq!(result, Ok(()));
                        self.done += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if self.requests.is_empty() {
                return;
            }
            self.now.0 += 10_000;
            for request in self.requests.drain(..) {
                let mut payload = Slice::default();
                let body = match request.body {
                    RequestBody::Fence(_) => AnswerBody::Fenced,
                    RequestBody::Open(_) => AnswerBody::Opened(OpenedAnswer {
                        version: Version::NONE,
                        incomplete: None,
                    }),
                    RequestBody::Read(_) => {
                        payload = self.block.clone();
                        AnswerBody::Data(DataAnswer {
                            version: Version::NONE,
                            sums: Sums::from_iter([self.sum]),
                        })
                    }
                    RequestBody::Confirm => AnswerBody::Confirmed,
                    RequestBody::Settle(_) => AnswerBody::Settled(SettledAnswer { full: false }),
                    RequestBody::Allocation(_) => AnswerBody::Allocation(AllocationAnswer {
                        allocated: Box::default(),
                    }),
                    _ => AnswerBody::Done,
                };
                let answer = Answer {
                    trace: None,
                    id: request.id,
                    store: request.store,
                    promise_ms: 250,
                    credit_blocks: 1,
                    result: Ok(body),
                };
                self.sequencer.answer(self.now, answer, payload);
            }
        }
    }

    fn round(&mut self, write: bool) {
        for _ in 0..DEPTH {
            self.at += 1;
            let offset = self.at * 7919 % (CHUNKS * CHUNK_BYTES / u64::from(BLOCK_BYTES)) * u64::from(BLOCK_BYTES);
            let length = BLOCK_BYTES;
            let (op, data) = if write {
                (Op::Write { offset, length }, self.block.clone())
            } else {
                (Op::Read { offset, length }, Slice::default())
            };
            self.sequencer.submit(self.now, IoId(self.at), op, data);
        }
        self.settle();
    }

    fn measure(&mut self, name: &str, write: bool) {
        for _ in 0..ROUNDS / 10 {
            self.round(write);
        }
        let start = Instant::now();
        for _ in 0..ROUNDS {
            self.round(write);
        }
        let each = start.elapsed().as_nanos() as f64 / (ROUNDS * DEPTH) as f64;
        println!("{name:<44} {each:8.0} ns");
    }
}

fn main() {
    let block = Slice::copy_from(&[5; BLOCK_BYTES as usize]);
    let sum = amita_types::crc32c(&block);
    let start = Instant::now();
    for _ in 0..100_000 {
        std::hint::black_box(amita_types::crc32c(std::hint::black_box(&block)));
    }
    println!(
        "{:<44} {:8.0} ns",
        "volume.crc32c.4k",
        start.elapsed().as_nanos() as f64 / 100_000.0
    );
    let now = Time(1_000_000_000);
    let mut bench = Bench {
        sequencer: Sequencer::new(Config::default(), opened(), 1 << 40, now),
        now,
        block,
        sum,
        requests: Vec::new(),
        done: 0,
        at: 0,
    };
    for store in 1..=3 {
        bench.sequencer.store_up(now, StoreId(store));
    }
    bench.measure("volume.write.4k.copies3.qd32.cpu_ns", true);
    bench.measure("volume.read.4k.qd32.cpu_ns", false);
    assert!(bench.done > 0);
}
