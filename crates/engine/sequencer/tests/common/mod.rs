//! What the benchmark and the test of allocations share: an opened volume of three copies, and stores that say yes.

use amita_reactor::{Slice, Time};
use amita_sequencer::{Effect, Opened, Sequencer};
use amita_types::map::{self, PoolKind};
use amita_types::message::{
    AllocationAnswer, Answer, AnswerBody, DataAnswer, OpenedAnswer, Request, RequestBody, SettledAnswer, Sums,
};
use amita_types::{Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, Version, VolumeId};

const CHUNK_BYTES: u32 = 4 << 20;
/// Who serves all stores.
pub const SERVER: NodeId = NodeId(2);

/// A volume of so many chunks, in a pool of three stores.
pub fn opened(chunks: u64, groups: u32) -> Opened {
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
        keys: None,
        volume: map::Volume {
            generation: Generation(1),
            owner: Some(NodeId(1)),
            ..map::Volume::new(VolumeId(9), "v", "p", chunks * u64::from(CHUNK_BYTES))
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
            groups,
            chunk_bytes: CHUNK_BYTES,
        },
        generation: Generation(1),
        owner: NodeId(1),
        groups: (0..groups).map(|index| (group(index), 1)).collect(),
    }
}

/// Stores that say yes, in the order in which they are asked.
pub struct Stores {
    pub now: Time,
    /// I/Os that have ended.
    pub done: u64,
    /// What every block holds.
    pub block: Slice,
    sum: u32,
    credit_blocks: u32,
    requests: Vec<Request>,
    next: Vec<Request>,
}

impl Stores {
    /// `sum`: the CRC-32C of `block`; with each answer they grant `credit_blocks`.
    pub fn new(block: Slice, sum: u32, credit_blocks: u32) -> Stores {
        Stores {
            now: Time(1_000_000_000),
            done: 0,
            block,
            sum,
            credit_blocks,
            requests: Vec::with_capacity(1024),
            next: Vec::with_capacity(1024),
        }
    }

    /// Answers everything until nothing is asked any more; each round of messages takes `trip_ns`.
    pub fn settle(&mut self, sequencer: &mut Sequencer, trip_ns: u64) {
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
            self.now.0 += trip_ns;
            for request in self.requests.drain(..) {
                let mut payload = Slice::default();
                let body = match request.body {
                    RequestBody::Fence(_) => AnswerBody::Fenced,
                    RequestBody::Open(_) => AnswerBody::Opened(OpenedAnswer {
                        version: Version::NONE,
                        incomplete: None,
                        ..OpenedAnswer::NOTHING
                    }),
                    RequestBody::Read(_) => {
                        payload = self.block.clone();
                        let mut sums = Sums::new();
                        sums.push(self.sum);
                        AnswerBody::Data(DataAnswer {
                            version: Version::NONE,
                            sums,
                            runs: Box::default(),
                        })
                    }
                    RequestBody::RenewLease => AnswerBody::LeaseRenewed,
                    RequestBody::Settle(_) => AnswerBody::Settled(SettledAnswer { full: false }),
                    RequestBody::Allocation(_) => AnswerBody::Allocation(AllocationAnswer {
                        allocated: Box::default(),
                        version: None,
                    }),
                    _ => AnswerBody::Done,
                };
                let answer = Answer {
                    trace: None,
                    id: request.id,
                    store: request.store,
                    lease_ms: 250,
                    credit_blocks: self.credit_blocks,
                    waited: Default::default(),
                    result: Ok(body),
                };
                sequencer.answer(self.now, SERVER, answer, payload);
            }
        }
    }
}
