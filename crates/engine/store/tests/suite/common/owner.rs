//! One who owns the volume and does everything that an owner does, with the model beside it.

use super::model::{Change, Model};
use super::trace::{Event, Right};
use super::{BLOCK, Requester, Rig, Rng};
use amita_reactor::Slice;
use amita_types::message::{self, AnswerBody, ClearRequest, Refusal, RequestBody, RollRequest};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, RequestId, Version};
use std::collections::HashMap;

/// Blocks of a chunk: as many as one read brings.
pub const BLOCKS: u16 = super::check::BLOCKS;
/// Chunks that are written.
pub const CHUNKS: u64 = 4;
/// Blocks of a chunk that are written but by the largest writes: the rest of a small store stays free.
const USED: usize = 22;

/// What an owner asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One block.
    Small,
    /// Some blocks.
    Middle,
    /// All blocks of chunk 0: the largest write that there is.
    Large,
    /// Bytes, within a block or across some.
    Part,
    Clear,
    /// A roll-forward, in two parts.
    Roll,
}

const ACTS: [Act; 12] = [
    Act::Small,
    Act::Small,
    Act::Small,
    Act::Small,
    Act::Middle,
    Act::Middle,
    Act::Part,
    Act::Part,
    Act::Part,
    Act::Clear,
    Act::Clear,
    Act::Roll,
];

pub struct Owner {
    pub asker: Requester,
    pub model: Model,
    pub known: Option<Right>,
    pub rng: Rng,
    /// Changes that were refused because of the device; with `None`, none may be.
    pub refused: Option<Vec<Refusal>>,
    asked: HashMap<RequestId, (u64, Version)>,
}

impl Owner {
    pub fn new(seed: u64) -> Owner {
        let mut asker = Requester::new(1);
        asker.blocks_per_chunk = BLOCKS;
        Owner {
            asker,
            model: Model::new(usize::from(BLOCKS)),
            known: None,
            rng: Rng(seed),
            refused: None,
            asked: HashMap::new(),
        }
    }

    pub fn right(&self) -> Right {
        Right {
            generation: self.asker.generation,
            epoch: self.asker.epoch,
        }
    }

    pub fn any_act(&mut self) -> Act {
        // One in twenty-five, because it takes as much space as all the rest.
        if self.rng.chance(25) {
            return Act::Large;
        }
        ACTS[self.rng.below(ACTS.len())]
    }

    /// Asks for something.
    pub fn act(&mut self, rig: &mut Rig, act: Act) {
        let chunk = if act == Act::Large {
            0
        } else {
            self.rng.below(CHUNKS as usize) as u64
        };
        self.act_on(rig, act, chunk);
    }

    pub fn act_on(&mut self, rig: &mut Rig, act: Act, chunk: u64) {
        let previous = self.model.chunk(chunk).last();
        let version = previous.next(self.asker.generation).expect("few writes");
        let first = self.rng.below(USED);
        let left = USED - first;
        match act {
            Act::Small => self.write(rig, chunk, version, first * BLOCK, BLOCK),
            Act::Middle => {
                let count = 1 + self.rng.below(left);
                self.write(rig, chunk, version, first * BLOCK, count * BLOCK);
            }
            Act::Large => self.write(rig, chunk, version, 0, usize::from(BLOCKS) * BLOCK),
            Act::Part => {
                let from = first * BLOCK + 512 * self.rng.below(8);
                let length = 1 + self.rng.below((USED * BLOCK - from).min(2 * BLOCK));
                self.write(rig, chunk, version, from, length);
            }
            Act::Clear => {
                let count = 1 + self.rng.below(left) as u16;
                self.clear(rig, chunk, first as u16, count);
            }
            Act::Roll => self.roll(rig, chunk, version),
        }
    }

    /// Blocks of a chunk are cleared.
    pub fn clear(&mut self, rig: &mut Rig, chunk: u64, first: u16, count: u16) {
        let previous = self.model.chunk(chunk).last();
        let version = previous.next(self.asker.generation).expect("few writes");
        let request = self.asker.request(RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(chunk),
            range: BlockRange::new(first, count),
            version,
            previous,
        }));
        self.send(rig, request, &[], chunk, version, Change::Clear { first, count });
    }

    fn write(&mut self, rig: &mut Rig, chunk: u64, version: Version, offset: usize, length: usize) {
        let bytes = self.rng.bytes(length);
        self.write_bytes(rig, chunk, version, offset, bytes);
    }

    /// Sends a write.
    pub fn write_bytes(&mut self, rig: &mut Rig, chunk: u64, version: Version, offset: usize, bytes: Vec<u8>) {
        let previous = self.model.chunk(chunk).last();
        let offset = offset as u32;
        let request = self.asker.write_request(chunk, offset, &bytes, version, previous);
        let change = Change::Write {
            offset,
            bytes: bytes.clone(),
        };
        self.send(rig, request, &bytes, chunk, version, change);
    }

    fn roll(&mut self, rig: &mut Rig, chunk: u64, next: Version) {
        let previous = self.model.chunk(chunk).last();
        let version = Version(next.0 + self.rng.below(5) as u64);
        let mut entries = Vec::new();
        for block in 0..USED as u16 {
            if self.rng.chance(3) {
                let data = (!self.rng.chance(4)).then(|| self.rng.bytes(BLOCK));
                entries.push((block, data, Version(version.0 - self.rng.below(2) as u64)));
            }
        }
        let half = self.rng.below(entries.len() + 1);
        let parts: Vec<_> = [&entries[..half], &entries[half..]]
            .into_iter()
            .enumerate()
            .map(|(at, part)| {
                let changes = part.iter().map(|(block, data, version)| message::Change {
                    block: BlockIndex(*block),
                    version: *version,
                    sum: data.as_ref().map(|data| amita_types::crc32c(data)),
                });
                let request = self.asker.request(RequestBody::Roll(RollRequest {
                    chunk: ChunkIndex(chunk),
                    version,
                    previous,
                    entries: changes.collect(),
                    first: at == 0,
                    last: at == 1,
                }));
                let payload: Vec<u8> = part.iter().filter_map(|(_, data, _)| data.clone()).flatten().collect();
                (request, payload)
            })
            .collect();
        let [(first, first_payload), (last, last_payload)] = parts.try_into().expect("two parts");
        // The first part is answered when it has been taken, and changes nothing.
        rig.send(self.asker.link, first, Slice::copy_from(&first_payload));
        self.send(rig, last, &last_payload, chunk, version, Change::Roll(entries));
    }

    fn send(
        &mut self,
        rig: &mut Rig,
        request: message::Request,
        payload: &[u8],
        chunk: u64,
        version: Version,
        change: Change,
    ) {
        let previous = self.model.chunk(chunk).last();
        self.asked.insert(request.id, (chunk, version));
        note(
            rig,
            Event::Sent {
                chunk,
                version,
                previous,
                change: change.clone(),
            },
        );
        self.model.chunk(chunk).send(version, previous, change);
        rig.send(self.asker.link, request, Slice::copy_from(payload));
        self.listen(rig);
    }

    /// Takes the answers to changes that have come; leaves the others.
    pub fn listen(&mut self, rig: &mut Rig) {
        for told in std::mem::take(&mut rig.told) {
            let Some((chunk, version)) = self.asked.remove(&told.answer.id) else {
                rig.told.push(told);
                continue;
            };
            match (told.answer.result, &mut self.refused) {
                (Ok(AnswerBody::Done), _) => {
                    self.model.chunk(chunk).acknowledge(version);
                    note(rig, Event::Acknowledged { chunk, version });
                }
                (Err(Refusal::NoSpace | Refusal::Busy), _) => {
                    assert_eq!(self.model.chunk(chunk).last(), version, "refused at once");
                    self.model.chunk(chunk).take_back();
                    note(rig, Event::Refused { chunk });
                }
                // It may be there, or not.
                (Err(refusal @ Refusal::Poisoned), Some(refused)) => refused.push(refusal),
                (Err(refusal @ (Refusal::Damaged { .. } | Refusal::WrongPredecessor { .. })), Some(refused)) => {
                    self.model.chunk(chunk).drop_from(version);
                    refused.push(refusal);
                }
                (other, _) => panic!("a change was answered with {other:?}"),
            }
        }
    }

    /// Ends some operation of the device, whichever; says whether there was one.
    pub fn complete_one(&mut self, rig: &mut Rig) -> bool {
        if rig.flights.is_empty() {
            return false;
        }
        let at = self.rng.below(rig.flights.len());
        rig.complete(at);
        self.listen(rig);
        true
    }

    pub fn end_pass(&mut self, rig: &mut Rig) {
        rig.store.end_pass(rig.now);
        rig.pump();
        self.listen(rig);
    }

    /// Until nothing is under way.
    pub fn settle(&mut self, rig: &mut Rig) {
        loop {
            self.end_pass(rig);
            if !self.complete_one(rig) {
                return;
            }
        }
    }

    /// Takes the volume over under a newer generation, or after the group's next epoch, with everything under way.
    pub fn fence(&mut self, rig: &mut Rig, newer_generation: bool) {
        let mut right = self.right();
        if newer_generation {
            right.generation = Generation(right.generation.0 + 1);
        } else {
            right.epoch = Epoch(right.epoch.0 + 1);
        }
        self.fence_as(rig, right);
    }

    /// Has this right adopted.
    pub fn fence_as(&mut self, rig: &mut Rig, right: Right) {
        note(rig, Event::Fence(right));
        self.asker.generation = right.generation;
        self.asker.epoch = right.epoch;
        let request = self.asker.fence_request();
        let id = request.id;
        rig.send(self.asker.link, request, Slice::default());
        for _ in 0..100_000 {
            if let Some(told) = rig.take(self.asker.link, id) {
                assert_eq!(told.answer.result, Ok(AnswerBody::Fenced));
                self.listen(rig);
                self.known = Some(right);
                return note(rig, Event::Fenced(right));
            }
            self.end_pass(rig);
            if !self.complete_one(rig)
                && let Some(at) = rig.store.deadline()
            {
                rig.now = rig.now.max(at);
                rig.store.tick(rig.now);
                rig.pump();
            }
        }
        panic!("a fence is never answered");
    }

    /// After a mount: asks where each chunk is, and believes it.
    pub fn settle_chunks(&mut self, rig: &mut Rig) {
        self.asked.clear();
        self.fence_as(rig, self.right());
        for chunk in 0..CHUNKS {
            let version = self.asker.open(rig, chunk);
            self.model.chunk(chunk).settle(version);
            note(rig, Event::Settled { chunk, version });
        }
    }

    /// Forgets what it has asked for: the store is another one now.
    pub fn forget(&mut self, link: u64) {
        self.asked.clear();
        let right = self.right();
        self.asker = Requester::new(link);
        self.asker.blocks_per_chunk = BLOCKS;
        self.asker.generation = right.generation;
        self.asker.epoch = right.epoch;
    }
}

fn note(rig: &mut Rig, event: Event) {
    if let Some(trace) = &mut rig.trace {
        trace.events.push(event);
    }
}
