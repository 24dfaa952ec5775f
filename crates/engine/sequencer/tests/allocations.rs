//! A warm sequencer allocates nothing for a write or a read.

use amita_reactor::{Slice, Time};
use amita_sequencer::{Config, Effect, IoId, Opened, Sequencer};
use amita_testkit::allocations::{self, Counting};
use amita_types::io::Op;
use amita_types::map::{self, PoolKind};
use amita_types::message::{
    AllocationAnswer, Answer, AnswerBody, DataAnswer, OpenedAnswer, Request, RequestBody, SettledAnswer, Sums,
};
use amita_types::{BLOCK_BYTES, Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, Version, VolumeId};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn opened() -> Opened {
    let members: Vec<StoreId> = (1..=3).map(StoreId).collect();
    Opened {
        reservation: None,
        given_back: None,
        volume: map::Volume {
            id: VolumeId(9),
            name: "v".to_owned(),
            pool: "p".to_owned(),
            size_bytes: 64 << 20,
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
            groups: 4,
            chunk_bytes: 4 << 20,
        },
        generation: Generation(1),
        owner: NodeId(1),
        groups: (0..4)
            .map(|index| {
                let group = map::Group {
                    syncing: Vec::new(),
                    index: GroupIndex(index),
                    epoch: Epoch(1),
                    members: members.clone(),
                    in_sync: members.clone(),
                };
                (group, 1)
            })
            .collect(),
    }
}

/// Stores that say yes, in the order in which they are asked.
struct Stores {
    now: Time,
    requests: Vec<Request>,
    next: Vec<Request>,
    block: Slice,
    sum: u32,
    done: usize,
}

impl Stores {
    fn settle(&mut self, sequencer: &mut Sequencer) {
        loop {
            for effect in sequencer.effects() {
                match effect {
                    Effect::Send { request, .. } => self.next.push(request),
                    Effect::Done { result, .. } => {
                        assert_eq!(result, Ok(()));
                        self.done += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            std::mem::swap(&mut self.requests, &mut self.next);
            if self.requests.is_empty() {
                return;
            }
            self.now.0 += 20_000;
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
                        let mut sums = Sums::new();
                        sums.push(self.sum);
                        AnswerBody::Data(DataAnswer {
                            version: Version::NONE,
                            sums,
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
                    credit_blocks: 4,
                    result: Ok(body),
                };
                sequencer.answer(self.now, answer, payload);
            }
        }
    }
}

fn round(sequencer: &mut Sequencer, stores: &mut Stores) {
    for index in 0..64u64 {
        let offset = index * 12_345 % 16_000 * u64::from(BLOCK_BYTES);
        let io = IoId(index);
        let length = BLOCK_BYTES;
        match index % 3 {
            0 => sequencer.submit(stores.now, io, Op::Write { offset, length }, stores.block.clone()),
            1 => sequencer.submit(stores.now, io, Op::Read { offset, length }, Slice::default()),
            _ => sequencer.submit(
                stores.now,
                io,
                Op::Clear {
                    offset,
                    length: u64::from(length),
                },
                Slice::default(),
            ),
        }
        if index % 16 == 15 {
            stores.settle(sequencer);
        }
    }
    // All rounds together stay below a second: the look at the stores' health, once a second, takes memory of its own.
    stores.now.0 += 10_000_000;
    if sequencer.deadline().is_some_and(|due| due <= stores.now) {
        sequencer.tick(stores.now);
    }
    stores.settle(sequencer);
}

#[test]
fn a_warm_sequencer_allocates_nothing() {
    let block = Slice::copy_from(&[5; BLOCK_BYTES as usize]);
    let mut stores = Stores {
        now: Time(1_000_000_000),
        requests: Vec::with_capacity(1024),
        next: Vec::with_capacity(1024),
        sum: crc32c_of(&block),
        block,
        done: 0,
    };
    let mut sequencer = Sequencer::new(Config::default(), opened(), 1 << 40, stores.now);
    for store in 1..=3 {
        sequencer.store_up(stores.now, StoreId(store));
    }
    for _ in 0..3 {
        round(&mut sequencer, &mut stores);
    }
    let before = allocations::count();
    for _ in 0..50 {
        round(&mut sequencer, &mut stores);
    }
    let allocated = allocations::count() - before;
    assert_eq!(stores.done, 53 * 64);
    assert_eq!(allocated, 0, "{allocated} allocations for {} I/Os", 50 * 64);
}

/// CRC-32C, bit by bit: the test stands apart from the crate's own.
fn crc32c_of(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
