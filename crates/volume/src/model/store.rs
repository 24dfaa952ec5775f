//! A store in miniature. It obeys the store's side of the protocol: versions in an unbroken row (R1), durable fences
//! that drain (R6), promises (R4), credits (R7), least versions and answers to resends (R8). Its log lives in memory;
//! a crash keeps everything that was answered and any part, from the front, of what was not.

use super::random::Random;
use amita_cluster::message::{Answer, AnswerBody, Change, MemberSet, Problem, Refusal, Request, RequestBody, Sums};
use amita_cluster::{BLOCK_BYTES, BlockIndex, Epoch, Generation, GroupIndex, StoreId, Version};
use amita_reactor::Slice;
use std::collections::{BTreeMap, VecDeque};

/// For how long a store promises, in milliseconds.
pub const PROMISE_MS: u16 = 60;
const PROMISE_NS: u64 = PROMISE_MS as u64 * 1_000_000;
/// Entries that one answer lists: few, so that a roll-forward has pages.
const PAGE: usize = 2;
/// Credits that a link should have.
const WINDOW: u64 = 12;

pub type Block = Option<(Slice, u32)>;

#[derive(Clone, Debug)]
pub struct Entry {
    pub version: Version,
    pub data: Block,
}

/// One record of the log.
#[derive(Clone, Debug)]
enum Record {
    Adopt {
        group: GroupIndex,
        epoch: Epoch,
        generation: Generation,
    },
    Chunk {
        chunk: u64,
        version: Version,
        entries: Vec<(u16, Entry)>,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    pub version: Version,
    pub blocks: BTreeMap<u16, (Version, Option<u32>)>,
}

/// A chunk as it is in memory.
#[derive(Clone, Debug, Default)]
struct Held {
    version: Version,
    applied: Vec<Version>,
    blocks: BTreeMap<u16, Entry>,
}

#[derive(Debug)]
struct Pending {
    record: Record,
    /// Whom to answer when it is durable; several after a resend.
    answers: Vec<(u64, Request)>,
    body: AnswerBody,
}

#[derive(Debug, Default)]
struct Rolling {
    entries: Vec<(u16, Entry)>,
}

pub struct Store {
    pub id: StoreId,
    pub up: bool,
    pub incarnation: u64,
    epochs: BTreeMap<GroupIndex, Epoch>,
    generation: Generation,
    /// Everything durable, in order.
    log: Vec<Record>,
    /// With what is accepted and not durable.
    accepted: BTreeMap<u64, Held>,
    durable: BTreeMap<u64, Held>,
    pending: VecDeque<Pending>,
    /// Fences that wait for promises to run out.
    fences: Vec<(u64, Request)>,
    rolling: BTreeMap<u64, Rolling>,
    promise_until: u64,
    /// Blocks that it can hold in all; credits of the links come out of it.
    capacity: u64,
    /// By link and sequencer.
    credits: BTreeMap<(u64, u64), u64>,
    pub answers: Vec<(u64, Answer, Slice)>,
    pub wants_flush: bool,
    /// Refusals that tell of a sequencer's fault.
    pub wrong_predecessors: u64,
    pub no_space: u64,
    pub busy_percent: u64,
    pub damage_percent: u64,
}

impl Store {
    pub fn new(id: StoreId, capacity: u64) -> Store {
        Store {
            id,
            up: true,
            incarnation: 0,
            epochs: BTreeMap::new(),
            generation: Generation(0),
            log: Vec::new(),
            accepted: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: VecDeque::new(),
            fences: Vec::new(),
            rolling: BTreeMap::new(),
            promise_until: 0,
            capacity,
            credits: BTreeMap::new(),
            answers: Vec::new(),
            wants_flush: false,
            wrong_predecessors: 0,
            no_space: 0,
            busy_percent: 0,
            damage_percent: 0,
        }
    }

    /// What it holds durably, for comparison: versions and checksums.
    pub fn content(&self, chunk: u64) -> Chunk {
        let held = self.durable.get(&chunk).cloned().unwrap_or_default();
        Chunk {
            version: held.version,
            blocks: held
                .blocks
                .iter()
                .map(|(&block, entry)| (block, (entry.version, entry.data.as_ref().map(|data| data.1))))
                .collect(),
        }
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The earliest time at which a fence that waits may go on.
    pub fn fence_due(&self) -> Option<u64> {
        (!self.fences.is_empty()).then_some(self.promise_until + 1)
    }

    pub fn crash(&mut self, random: &mut Random) {
        self.up = false;
        self.incarnation += 1;
        let survive = random.below(self.pending.len() as u64 + 1) as usize;
        let records: Vec<Record> = self
            .pending
            .drain(..)
            .take(survive)
            .map(|pending| pending.record)
            .collect();
        self.log.extend(records);
        self.fences.clear();
        self.rolling.clear();
        self.credits.clear();
        self.answers.clear();
        self.wants_flush = false;
    }

    /// Forgets durable records, as no store may: what R8's least versions are for.
    pub fn forget(&mut self, random: &mut Random) {
        let keep = self
            .log
            .iter()
            .rposition(|record| matches!(record, Record::Adopt { .. }))
            .map_or(0, |at| at + 1);
        let most = self.log.len() - keep;
        self.log
            .truncate(self.log.len() - random.below(most as u64 + 1) as usize);
    }

    pub fn start(&mut self, now: u64) {
        self.up = true;
        self.accepted.clear();
        self.epochs.clear();
        self.generation = Generation(0);
        for record in std::mem::take(&mut self.log) {
            self.accept_record(&record);
            self.log.push(record);
        }
        self.durable = self.accepted.clone();
        // R4: it may have promised before it stopped.
        self.promise_until = now + PROMISE_NS;
    }

    pub fn link_closed(&mut self, link: u64) {
        self.credits.retain(|account, _| account.0 != link);
        self.fences.retain(|fence| fence.0 != link);
        for pending in &mut self.pending {
            pending.answers.retain(|answer| answer.0 != link);
        }
        self.answers.retain(|answer| answer.0 != link);
    }

    fn accept_record(&mut self, record: &Record) {
        match record {
            Record::Adopt {
                group,
                epoch,
                generation,
            } => {
                self.epochs.insert(*group, *epoch);
                self.generation = *generation;
            }
            Record::Chunk {
                chunk,
                version,
                entries,
            } => {
                let held = self.accepted.entry(*chunk).or_default();
                held.version = *version;
                held.applied.push(*version);
                held.blocks.extend(entries.iter().cloned());
            }
        }
    }

    fn used(&self) -> u64 {
        let of = |held: &Held| held.blocks.values().filter(|entry| entry.data.is_some()).count() as u64;
        let durable: u64 = self.durable.values().map(of).sum();
        let waiting: u64 = self
            .pending
            .iter()
            .map(|pending| match &pending.record {
                Record::Chunk { entries, .. } => {
                    entries.iter().filter(|(_, entry)| entry.data.is_some()).count() as u64
                }
                Record::Adopt { .. } => 0,
            })
            .sum();
        durable + waiting
    }

    fn answer(&mut self, now: u64, link: u64, request: &Request, result: Result<AnswerBody, Refusal>, payload: Slice) {
        let ours = request.scope.generation == self.generation && result.is_ok();
        // R4: whoever has refused a newer owner's fence promises nothing more to the old one.
        let promise_ms = if ours && self.fences.is_empty() { PROMISE_MS } else { 0 };
        if promise_ms > 0 {
            self.promise_until = self.promise_until.max(now + PROMISE_NS);
        }
        let reserved: u64 = self.credits.values().sum();
        let free = self.capacity.saturating_sub(self.used() + reserved);
        let credit = self.credits.entry((link, request.id.0 >> 40)).or_default();
        let grant = WINDOW.saturating_sub(*credit).min(free);
        *credit += grant;
        let answer = Answer {
            id: request.id,
            store: self.id,
            promise_ms,
            credit_blocks: grant as u32,
            result,
        };
        self.answers.push((link, answer, payload));
    }

    fn refuse(&mut self, now: u64, link: u64, request: &Request, refusal: Refusal) {
        self.answer(now, link, request, Err(refusal), Slice::default());
    }

    pub fn request(&mut self, now: u64, random: &mut Random, link: u64, request: Request, payload: Slice) {
        let scope = request.scope;
        let epoch = self.epochs.get(&scope.group.index).copied();
        if scope.generation < self.generation {
            let generation = self.generation;
            return self.refuse(now, link, &request, Refusal::Fenced { generation });
        }
        if let Some(epoch) = epoch
            && scope.epoch < epoch
        {
            return self.refuse(now, link, &request, Refusal::StaleEpoch { epoch });
        }
        if random.percent(self.busy_percent) {
            return self.refuse(now, link, &request, Refusal::Busy);
        }
        if let RequestBody::Fence { in_sync, .. } = &request.body {
            let in_sync = in_sync.clone();
            return self.fence(now, link, request, &in_sync);
        }
        if scope.generation > self.generation || epoch != Some(scope.epoch) {
            return self.refuse(now, link, &request, Refusal::NotFenced);
        }
        match &request.body {
            RequestBody::Fence { .. } => unreachable!(),
            RequestBody::Open { chunk } => {
                let version = self.accepted.get(&chunk.0).map_or(Version::NONE, |held| held.version);
                self.answer(
                    now,
                    link,
                    &request,
                    Ok(AnswerBody::Opened {
                        version,
                        incomplete: None,
                    }),
                    Slice::default(),
                );
            }
            RequestBody::Write { .. } | RequestBody::Clear { .. } => self.write(now, link, request, &payload),
            RequestBody::Read { chunk, range, least } => {
                let held = self.durable.get(&chunk.0).cloned().unwrap_or_default();
                if held.version < *least {
                    let current = held.version;
                    return self.refuse(now, link, &request, Refusal::Behind { current });
                }
                if random.percent(self.damage_percent) {
                    let block = range.first;
                    return self.refuse(now, link, &request, Refusal::Damaged { block });
                }
                let mut version = Version::NONE;
                let mut sums = Sums::new();
                let mut bytes = Vec::new();
                let mut any = false;
                for block in range.iter() {
                    let entry = held.blocks.get(&block.0);
                    version = version.max(entry.map_or(Version::NONE, |entry| entry.version));
                    match entry.and_then(|entry| entry.data.as_ref()) {
                        Some((data, sum)) => {
                            any = true;
                            sums.push(*sum);
                            bytes.extend_from_slice(data);
                        }
                        None => {
                            sums.push(amita_cluster::crc32c(&[0; BLOCK_BYTES as usize]));
                            bytes.resize(bytes.len() + BLOCK_BYTES as usize, 0);
                        }
                    }
                }
                if any && random.percent(self.damage_percent) {
                    // It rots on the way: the checksums tell.
                    bytes[100] ^= 1;
                }
                if !any {
                    sums.clear();
                    bytes.clear();
                }
                self.answer(
                    now,
                    link,
                    &request,
                    Ok(AnswerBody::Data { version, sums }),
                    Slice::copy_from(&bytes),
                );
            }
            RequestBody::Changes { chunk, since, from } => {
                let held = self.durable.get(&chunk.0).cloned().unwrap_or_default();
                let mut entries: Vec<Change> = held
                    .blocks
                    .iter()
                    .filter(|(block, entry)| **block >= from.0 && entry.version > *since)
                    .map(|(&block, entry)| Change {
                        block: BlockIndex(block),
                        version: entry.version,
                        sum: entry.data.as_ref().map(|data| data.1),
                    })
                    .collect();
                let more = entries.get(PAGE).map(|change| change.block);
                entries.truncate(PAGE);
                self.answer(
                    now,
                    link,
                    &request,
                    Ok(AnswerBody::Changes { entries, more }),
                    Slice::default(),
                );
            }
            RequestBody::Roll { .. } => self.roll(now, link, request, &payload),
            RequestBody::Confirm => self.answer(now, link, &request, Ok(AnswerBody::Confirmed), Slice::default()),
            RequestBody::Keep { .. }
            | RequestBody::Clone { .. }
            | RequestBody::Chunks { .. }
            | RequestBody::Join { .. }
            | RequestBody::Mend { .. }
            | RequestBody::Whole { .. }
            | RequestBody::Verify { .. } => {
                unreachable!("a sequencer asks for none of them")
            }
            RequestBody::Allocation { chunk, .. } => {
                let mut allocated = Box::new([0u64; 16]);
                if let Some(held) = self.durable.get(&chunk.0) {
                    for (block, _) in held.blocks.iter().filter(|(_, entry)| entry.data.is_some()) {
                        allocated[usize::from(block / 64)] |= 1 << (block % 64);
                    }
                }
                self.answer(
                    now,
                    link,
                    &request,
                    Ok(AnswerBody::Allocation { allocated }),
                    Slice::default(),
                );
            }
        }
    }

    fn fence(&mut self, now: u64, link: u64, request: Request, in_sync: &MemberSet) {
        if !in_sync.contains(&self.id) {
            let what = Problem::Members;
            return self.refuse(now, link, &request, Refusal::Invalid { what });
        }
        if request.scope.generation > self.generation && now <= self.promise_until {
            self.fences.push((link, request));
            return;
        }
        self.adopt(now, link, request);
    }

    fn adopt(&mut self, now: u64, link: u64, request: Request) {
        let scope = request.scope;
        if scope.generation < self.generation {
            let generation = self.generation;
            return self.refuse(now, link, &request, Refusal::Fenced { generation });
        }
        let known = self.epochs.get(&scope.group.index) == Some(&scope.epoch) && scope.generation == self.generation;
        let pending = self
            .pending
            .iter()
            .any(|pending| matches!(pending.record, Record::Adopt { .. }));
        if known && !pending {
            return self.answer(now, link, &request, Ok(AnswerBody::Fenced), Slice::default());
        }
        // In the log behind all that was accepted earlier: durable with it, or after it.
        let record = Record::Adopt {
            group: scope.group.index,
            epoch: scope.epoch,
            generation: scope.generation,
        };
        if scope.generation > self.generation {
            self.rolling.clear();
        }
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Fenced);
    }

    /// Promises may have run out.
    pub fn fences_go_on(&mut self, now: u64) {
        if now > self.promise_until {
            for (link, request) in std::mem::take(&mut self.fences) {
                self.adopt(now, link, request);
            }
        }
    }

    fn push(&mut self, record: Record, link: u64, request: Request, body: AnswerBody) {
        self.pending.push_back(Pending {
            record,
            answers: vec![(link, request)],
            body,
        });
        self.wants_flush = true;
    }

    /// What is pending becomes durable, and is answered in the order of the log.
    pub fn flush(&mut self, now: u64) {
        for pending in std::mem::take(&mut self.pending) {
            if let Record::Chunk {
                chunk,
                version,
                entries,
            } = &pending.record
            {
                let held = self.durable.entry(*chunk).or_default();
                held.version = *version;
                held.applied.push(*version);
                held.blocks.extend(entries.iter().cloned());
            }
            self.log.push(pending.record);
            for (link, request) in pending.answers {
                if request.scope.generation < self.generation {
                    // Drained under the old owner: it is durable, and the old owner may know.
                }
                self.answer(now, link, &request, Ok(pending.body.clone()), Slice::default());
            }
        }
        self.wants_flush = false;
    }

    fn write(&mut self, now: u64, link: u64, request: Request, payload: &Slice) {
        let (chunk, version, previous, entries) = match &request.body {
            RequestBody::Write {
                chunk,
                offset_bytes,
                length_bytes,
                version,
                previous,
                sums,
            } => {
                assert_eq!(
                    (offset_bytes % BLOCK_BYTES, length_bytes % BLOCK_BYTES),
                    (0, 0),
                    "the model has whole blocks"
                );
                let mut entries = Vec::new();
                for (index, sum) in sums.iter().enumerate() {
                    let at = index * BLOCK_BYTES as usize;
                    let data = payload.slice(at..at + BLOCK_BYTES as usize);
                    assert_eq!(amita_cluster::crc32c(&data), *sum);
                    let block = (offset_bytes / BLOCK_BYTES) as u16 + index as u16;
                    entries.push((
                        block,
                        Entry {
                            version: *version,
                            data: Some((data, *sum)),
                        },
                    ));
                }
                (*chunk, *version, *previous, entries)
            }
            RequestBody::Clear {
                chunk,
                range,
                version,
                previous,
            } => {
                let entries = range
                    .iter()
                    .map(|block| {
                        (
                            block.0,
                            Entry {
                                version: *version,
                                data: None,
                            },
                        )
                    })
                    .collect();
                (*chunk, *version, *previous, entries)
            }
            _ => unreachable!(),
        };
        assert_eq!(version.generation(), request.scope.generation);
        let held = self.accepted.entry(chunk.0).or_default();
        let blocks = entries.iter().filter(|(_, entry)| entry.data.is_some()).count() as u64;
        if held.applied.contains(&version) {
            // R7: a write is charged once on each link that it comes by, so that both sides count the same.
            let credit = self.credits.entry((link, request.id.0 >> 40)).or_default();
            *credit = credit.saturating_sub(blocks);
            // R8: answered once the original is durable.
            for pending in &mut self.pending {
                if let Record::Chunk {
                    chunk: other,
                    version: same,
                    ..
                } = &pending.record
                    && (*other, *same) == (chunk.0, version)
                {
                    pending.answers.push((link, request));
                    return;
                }
            }
            return self.answer(now, link, &request, Ok(AnswerBody::Done), Slice::default());
        }
        if held.version != previous {
            self.wrong_predecessors += 1;
            let current = held.version;
            return self.refuse(now, link, &request, Refusal::WrongPredecessor { current });
        }
        let credit = self.credits.entry((link, request.id.0 >> 40)).or_default();
        let covered = (*credit).min(blocks);
        *credit -= covered;
        let reserved: u64 = self.credits.values().sum();
        if blocks - covered > self.capacity.saturating_sub(self.used() + reserved + covered) {
            self.no_space += 1;
            return self.refuse(now, link, &request, Refusal::NoSpace);
        }
        let record = Record::Chunk {
            chunk: chunk.0,
            version,
            entries,
        };
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Done);
    }

    fn roll(&mut self, now: u64, link: u64, request: Request, payload: &Slice) {
        let RequestBody::Roll {
            chunk,
            version,
            previous,
            entries,
            first,
            last,
        } = &request.body
        else {
            unreachable!()
        };
        let (chunk, version, last) = (*chunk, *version, *last);
        let current = self.accepted.get(&chunk.0).map_or(Version::NONE, |held| held.version);
        if current != *previous {
            self.wrong_predecessors += 1;
            return self.refuse(now, link, &request, Refusal::WrongPredecessor { current });
        }
        let rolling = self.rolling.entry(chunk.0).or_default();
        if *first {
            rolling.entries.clear();
        }
        let mut at = 0;
        for change in entries {
            let data = change.sum.map(|sum| {
                let data = payload.slice(at..at + BLOCK_BYTES as usize);
                at += BLOCK_BYTES as usize;
                assert_eq!(amita_cluster::crc32c(&data), sum);
                (data, sum)
            });
            rolling.entries.push((
                change.block.0,
                Entry {
                    version: change.version,
                    data,
                },
            ));
        }
        assert_eq!(at, payload.len());
        if !last {
            return self.answer(now, link, &request, Ok(AnswerBody::Done), Slice::default());
        }
        let entries = std::mem::take(&mut rolling.entries);
        let record = Record::Chunk {
            chunk: chunk.0,
            version,
            entries,
        };
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Done);
    }
}
