//! A store in miniature. It obeys the store's side of the protocol: versions in an unbroken row (R1), durable fences
//! that drain (R6), leases (R4), credits (R7), least versions and answers to resends (R8). Its log lives in memory;
//! a crash keeps everything that was answered and any part, from the front, of what was not. What it does while it is
//! brought up to date is in `resync`.

use super::resync::Fix;
use amita_reactor::Slice;
use amita_testkit::Random;
use amita_types::message::{
    AllocationAnswer, AllocationRequest, Answer, AnswerBody, Change, ChangesAnswer, ChangesRequest, ClearRequest,
    DataAnswer, FenceRequest, OpenRequest, OpenedAnswer, Problem, ReadRequest, Refusal, Request, RequestBody,
    RollRequest, Run, SettleRequest, SettledAnswer, Sums, WriteRequest,
};
use amita_types::{BLOCK_BYTES, BlockIndex, Epoch, Generation, GroupIndex, StoreId, Version, VolumeId};
use std::collections::{BTreeMap, VecDeque};

/// How long a read lease lasts, in milliseconds.
pub const LEASE_MS: u16 = 60;
const LEASE_NS: u64 = LEASE_MS as u64 * 1_000_000;
/// Entries that one answer lists: few, so that a roll-forward has pages.
const PAGE: usize = 2;
/// Credits that a link should have.
const WINDOW: u64 = 12;

pub type Block = Option<(Slice, u32)>;
/// A chunk: the volume and the index in it.
pub type Key = (VolumeId, u64);

#[derive(Clone, Debug)]
pub struct Entry {
    pub version: Version,
    pub data: Block,
}

/// One record of the log.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Adopt {
        group: GroupIndex,
        epoch: Epoch,
        in_sync: bool,
        volume: VolumeId,
        generation: Generation,
    },
    Chunk {
        chunk: Key,
        previous: Version,
        version: Version,
        entries: Vec<(u16, Entry)>,
    },
    /// The history goes on elsewhere: at a version that is not the chunk's (R5).
    Join {
        chunk: Key,
        generation: Generation,
        at: Version,
    },
    Mend {
        chunk: Key,
        fixes: Vec<Fix>,
    },
    Whole {
        chunk: Key,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    pub version: Version,
    pub incomplete: Option<Version>,
    pub blocks: BTreeMap<u16, (Version, Option<u32>)>,
}

/// A chunk as it is in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub version: Version,
    /// Where it is not whole: the version at which it was.
    pub incomplete: Option<Version>,
    pub applied: Vec<Version>,
    /// Whose history it follows at present, and since which version.
    pub follows: (Generation, Version),
    pub blocks: BTreeMap<u16, Entry>,
}

impl Held {
    fn seen(&self) -> Chunk {
        let blocks = self.blocks.iter();
        Chunk {
            version: self.version,
            incomplete: self.incomplete,
            blocks: blocks
                .map(|(&block, entry)| (block, (entry.version, entry.data.as_ref().map(|data| data.1))))
                .collect(),
        }
    }
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
    /// Each group's epoch, and whether we are in sync by it.
    pub(super) epochs: BTreeMap<GroupIndex, (Epoch, bool)>,
    generations: BTreeMap<VolumeId, Generation>,
    /// Everything durable, in order.
    log: Vec<Record>,
    /// With what is accepted and not durable.
    pub(super) accepted: BTreeMap<Key, Held>,
    pub(super) durable: BTreeMap<Key, Held>,
    pending: VecDeque<Pending>,
    /// Fences that wait for leases to run out.
    fences: Vec<(u64, Request)>,
    rolling: BTreeMap<Key, Rolling>,
    /// R4: after a start, for all volumes; and the end of each one's lease.
    lease_until: u64,
    leases: BTreeMap<VolumeId, u64>,
    /// Blocks that it can hold in all; credits of the links come out of it.
    pub capacity: u64,
    /// By link and sequencer.
    credits: BTreeMap<(u64, u64), u64>,
    pub answers: Vec<(u64, Answer, Slice)>,
    pub wants_flush: bool,
    /// Refusals that tell of a sequencer's fault.
    pub wrong_predecessors: u64,
    pub no_space: u64,
    pub busy_percent: u64,
    pub damage_percent: u64,
    /// Nothing moves until then.
    pub frozen_until: u64,
    /// Blocks that were sent to be replaced, and were the same already.
    pub useless: u64,
}

impl Store {
    pub fn new(id: StoreId, capacity: u64) -> Store {
        Store {
            id,
            up: true,
            incarnation: 0,
            epochs: BTreeMap::new(),
            generations: BTreeMap::new(),
            log: Vec::new(),
            accepted: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: VecDeque::new(),
            fences: Vec::new(),
            rolling: BTreeMap::new(),
            lease_until: 0,
            leases: BTreeMap::new(),
            capacity,
            credits: BTreeMap::new(),
            answers: Vec::new(),
            wants_flush: false,
            wrong_predecessors: 0,
            no_space: 0,
            busy_percent: 0,
            damage_percent: 0,
            frozen_until: 0,
            useless: 0,
        }
    }

    /// What it holds durably, for comparison: versions and checksums.
    pub fn content(&self, chunk: Key) -> Chunk {
        self.durable.get(&chunk).map(Held::seen).unwrap_or_default()
    }

    /// The same, with what it has accepted.
    pub fn content_accepted(&self, chunk: Key) -> Chunk {
        self.accepted.get(&chunk).map(Held::seen).unwrap_or_default()
    }

    fn generation(&self, volume: VolumeId) -> Generation {
        self.generations.get(&volume).copied().unwrap_or(Generation(0))
    }

    fn leased(&self, volume: VolumeId) -> u64 {
        self.lease_until.max(self.leases.get(&volume).copied().unwrap_or(0))
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The earliest time at which a fence that waits may go on.
    pub fn fence_due(&self) -> Option<u64> {
        let due = self
            .fences
            .iter()
            .map(|fence| self.leased(fence.1.scope.volume) + 1)
            .min();
        due.map(|due| due.max(self.frozen_until))
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
        self.generations.clear();
        self.leases.clear();
        for record in std::mem::take(&mut self.log) {
            self.accept_record(&record);
            self.log.push(record);
        }
        self.durable = self.accepted.clone();
        // R4: it may have granted leases before it stopped.
        self.lease_until = now + LEASE_NS;
    }

    pub fn link_closed(&mut self, link: u64) {
        self.credits.retain(|account, _| account.0 != link);
        self.fences.retain(|fence| fence.0 != link);
        for pending in &mut self.pending {
            pending.answers.retain(|answer| answer.0 != link);
        }
        self.answers.retain(|answer| answer.0 != link);
    }

    pub(super) fn accept_record(&mut self, record: &Record) {
        if let Record::Adopt {
            group,
            epoch,
            in_sync,
            volume,
            generation,
        } = record
        {
            self.epochs.insert(*group, (*epoch, *in_sync));
            self.generations.insert(*volume, *generation);
        }
        apply(&mut self.accepted, record);
    }

    pub(super) fn used(&self) -> u64 {
        let of = |held: &Held| held.blocks.values().filter(|entry| entry.data.is_some()).count() as u64;
        let durable: u64 = self.durable.values().map(of).sum();
        let waiting: u64 = self
            .pending
            .iter()
            .map(|pending| match &pending.record {
                Record::Chunk { entries, .. } => {
                    entries.iter().filter(|(_, entry)| entry.data.is_some()).count() as u64
                }
                Record::Mend { fixes, .. } => fixes.iter().filter(|fix| fix.has_data()).count() as u64,
                Record::Adopt { .. } | Record::Join { .. } | Record::Whole { .. } => 0,
            })
            .sum();
        durable + waiting
    }

    pub(super) fn answer(
        &mut self,
        now: u64,
        link: u64,
        request: &Request,
        result: Result<AnswerBody, Refusal>,
        payload: Slice,
    ) {
        let volume = request.scope.volume;
        let ours = request.scope.generation == self.generation(volume) && result.is_ok();
        // R4: whoever has refused a newer owner's fence grants no more leases to the old one.
        let refusing = self.fences.iter().any(|fence| fence.1.scope.volume == volume);
        let lease_ms = if ours && !refusing { LEASE_MS } else { 0 };
        if lease_ms > 0 {
            self.leases.insert(volume, now + LEASE_NS);
        }
        let free = self.free();
        let credit = self.credits.entry((link, request.id.0 >> 40)).or_default();
        let grant = WINDOW.saturating_sub(*credit).min(free);
        *credit += grant;
        let answer = Answer {
            trace: None,
            id: request.id,
            store: self.id,
            lease_ms,
            credit_blocks: grant as u32,
            waited: Default::default(),
            result,
        };
        self.answers.push((link, answer, payload));
    }

    /// Blocks that are neither used nor promised to anybody.
    pub(super) fn free(&self) -> u64 {
        let reserved: u64 = self.credits.values().sum();
        self.capacity.saturating_sub(self.used() + reserved)
    }

    pub(super) fn refuse(&mut self, now: u64, link: u64, request: &Request, refusal: Refusal) {
        self.answer(now, link, request, Err(refusal), Slice::default());
    }

    pub fn request(&mut self, now: u64, random: &mut Random, link: u64, request: Request, payload: Slice) {
        let scope = request.scope;
        let known = self.epochs.get(&scope.group.index).copied();
        let (epoch, in_sync) = known.map_or((None, false), |(epoch, in_sync)| (Some(epoch), in_sync));
        let generation = self.generation(scope.volume);
        if scope.generation < generation {
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
        if let RequestBody::Fence(_) = &request.body {
            return self.fence(now, link, request);
        }
        if scope.generation > generation || epoch != Some(scope.epoch) {
            return self.refuse(now, link, &request, Refusal::NotFenced);
        }
        match &request.body {
            RequestBody::Fence(_) => unreachable!(),
            RequestBody::Open(OpenRequest { chunk }) => {
                let held = self.accepted.get(&(scope.volume, chunk.0)).cloned().unwrap_or_default();
                // What is under way counts, and is waited for.
                let opened = OpenedAnswer {
                    version: held.version,
                    incomplete: held.incomplete,
                    ..OpenedAnswer::NOTHING
                };
                self.answer_behind(now, link, request, AnswerBody::Opened(opened));
            }
            RequestBody::Write(_) | RequestBody::Clear(_) => self.write(now, link, request, &payload),
            RequestBody::Read(ReadRequest {
                chunk,
                range,
                least,
                versions,
                newest: _,
            }) => {
                let held = self.durable.get(&(scope.volume, chunk.0)).cloned().unwrap_or_default();
                if !in_sync || held.incomplete.is_some() {
                    return self.refuse(now, link, &request, Refusal::Incomplete);
                }
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
                let mut runs = Vec::new();
                for block in range.iter() {
                    let entry = held.blocks.get(&block.0);
                    version = version.max(entry.map_or(Version::NONE, |entry| entry.version));
                    match entry.and_then(|entry| entry.data.as_ref()) {
                        Some((data, sum)) => {
                            any = true;
                            sums.push(*sum);
                            let version = entry.map_or(Version::NONE, |entry| entry.version);
                            runs.push(Run { blocks: 1, version });
                            bytes.extend_from_slice(data);
                        }
                        None => {
                            let version = Version::NONE;
                            runs.push(Run { blocks: 1, version });
                            sums.push(amita_types::crc32c(&[0; BLOCK_BYTES as usize]));
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
                if !any || !versions {
                    runs.clear();
                }
                let runs = runs.into();
                self.answer(
                    now,
                    link,
                    &request,
                    Ok(AnswerBody::Data(DataAnswer { version, sums, runs })),
                    Slice::copy_from(&bytes),
                );
            }
            RequestBody::Changes(ChangesRequest { chunk, since, from }) => {
                let held = self.durable.get(&(scope.volume, chunk.0)).cloned().unwrap_or_default();
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
                    Ok(AnswerBody::Changes(ChangesAnswer { entries, more })),
                    Slice::default(),
                );
            }
            RequestBody::Roll(_) if !in_sync => self.refuse(now, link, &request, Refusal::Incomplete),
            RequestBody::Roll(_) => self.roll(now, link, request, &payload),
            RequestBody::RenewLease => self.answer(now, link, &request, Ok(AnswerBody::LeaseRenewed), Slice::default()),
            RequestBody::Settle(SettleRequest { want, back }) => {
                let (want, back) = (u64::from(*want), u64::from(*back));
                let credit = self.credits.entry((link, request.id.0 >> 40)).or_default();
                assert!(back <= *credit, "R7: no sequencer has more than it was granted");
                *credit -= back;
                let full = want > *credit + self.free();
                self.answer(
                    now,
                    link,
                    &request,
                    Ok(AnswerBody::Settled(SettledAnswer { full })),
                    Slice::default(),
                );
            }
            RequestBody::Chunks(_) => self.list_chunks(now, link, &request),
            RequestBody::Join(_) => self.join(now, link, request),
            RequestBody::Mend(_) => self.mend(now, link, request, &payload),
            RequestBody::Whole(_) => self.whole(now, link, request),
            RequestBody::Verify(_) => self.verify(now, link, &request),
            RequestBody::RetainSnapshots(_)
            | RequestBody::Clone(_)
            | RequestBody::Inherit(_)
            | RequestBody::States(_)
            | RequestBody::Frame(_)
            | RequestBody::Put(_)
            | RequestBody::Close(_)
            | RequestBody::Mark(_)
            | RequestBody::Differ(_)
            | RequestBody::Restore(_) => {
                unreachable!("a sequencer asks for none of them, of a volume that has no snapshots")
            }
            RequestBody::Allocation(AllocationRequest { chunk, least, newest }) => {
                let held = self.durable.get(&(scope.volume, chunk.0));
                if !in_sync || held.is_some_and(|held| held.incomplete.is_some()) {
                    return self.refuse(now, link, &request, Refusal::Incomplete);
                }
                let version = held.map_or(Version::NONE, |held| held.version);
                if version < *least {
                    return self.refuse(now, link, &request, Refusal::Behind { current: version });
                }
                let version = newest.is_some().then_some(version);
                let mut allocated = Box::new([0u64; 16]);
                if let Some(held) = held {
                    for (block, _) in held.blocks.iter().filter(|(_, entry)| entry.data.is_some()) {
                        allocated[usize::from(block / 64)] |= 1 << (block % 64);
                    }
                }
                self.answer(
                    now,
                    link,
                    &request,
                    Ok(AnswerBody::Allocation(AllocationAnswer { allocated, version })),
                    Slice::default(),
                );
            }
        }
    }

    fn fence(&mut self, now: u64, link: u64, request: Request) {
        let RequestBody::Fence(FenceRequest {
            in_sync,
            syncing,
            given_back,
            ..
        }) = &request.body
        else {
            unreachable!()
        };
        if !in_sync.contains(&self.id) && !syncing.contains(&self.id) {
            let what = Problem::Members;
            return self.refuse(now, link, &request, Refusal::Invalid { what });
        }
        let volume = request.scope.volume;
        let known = self.generation(volume);
        let is_given_back = *given_back == Some(known);
        if request.scope.generation > known && !is_given_back && now <= self.leased(volume) {
            self.fences.push((link, request));
            return;
        }
        self.adopt(now, link, request);
    }

    fn adopt(&mut self, now: u64, link: u64, request: Request) {
        let scope = request.scope;
        let generation = self.generation(scope.volume);
        if scope.generation < generation {
            return self.refuse(now, link, &request, Refusal::Fenced { generation });
        }
        let RequestBody::Fence(FenceRequest { in_sync, .. }) = &request.body else {
            unreachable!()
        };
        let in_sync = in_sync.contains(&self.id);
        let mut known = scope.generation == generation;
        if let Some(&(epoch, was)) = self.epochs.get(&scope.group.index) {
            if scope.epoch < epoch {
                // It waited for leases, and another volume's sequencer has brought a newer epoch meanwhile.
                return self.refuse(now, link, &request, Refusal::StaleEpoch { epoch });
            }
            assert!(
                epoch != scope.epoch || in_sync == was,
                "an epoch has one set of members"
            );
            known &= epoch == scope.epoch;
        } else {
            known = false;
        }
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
            in_sync,
            volume: scope.volume,
            generation: scope.generation,
        };
        if scope.generation > generation {
            self.rolling.retain(|chunk, _| chunk.0 != scope.volume);
        }
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Fenced);
    }

    /// Leases may have run out.
    pub fn fences_go_on(&mut self, now: u64) {
        let (due, wait) = std::mem::take(&mut self.fences)
            .into_iter()
            .partition(|fence| now > self.leased(fence.1.scope.volume));
        self.fences = wait;
        for (link, request) in due {
            self.adopt(now, link, request);
        }
    }

    pub(super) fn push(&mut self, record: Record, link: u64, request: Request, body: AnswerBody) {
        self.pending.push_back(Pending {
            record,
            answers: vec![(link, request)],
            body,
        });
        self.wants_flush = true;
    }

    /// Answers when everything that was accepted before is durable: at once if it is.
    pub(super) fn answer_behind(&mut self, now: u64, link: u64, request: Request, body: AnswerBody) {
        if self.pending.is_empty() {
            return self.answer(now, link, &request, Ok(body), Slice::default());
        }
        // An empty record carries it.
        let chunk = (request.scope.volume, u64::MAX);
        let fixes = Vec::new();
        self.push(Record::Mend { chunk, fixes }, link, request, body);
    }

    /// What is pending becomes durable, and is answered in the order of the log.
    pub fn flush(&mut self, now: u64) {
        for pending in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &pending.record);
            self.log.push(pending.record);
            for (link, request) in pending.answers {
                // Even if drained under an old owner: it is durable, and the old owner may know.
                self.answer(now, link, &request, Ok(pending.body.clone()), Slice::default());
            }
        }
        self.wants_flush = false;
    }

    fn write(&mut self, now: u64, link: u64, request: Request, payload: &Slice) {
        let (chunk, version, previous, entries) = match &request.body {
            RequestBody::Write(WriteRequest {
                chunk,
                offset_bytes,
                length_bytes,
                version,
                previous,
                sums,
            }) => {
                assert_eq!(payload.len(), *length_bytes as usize);
                let held = self.accepted.get(&(request.scope.volume, chunk.0));
                let mut entries = Vec::new();
                let (mut at, mut place) = (0, *offset_bytes as usize);
                for sum in sums {
                    let (block, inside) = (place / BLOCK_BYTES as usize, place % BLOCK_BYTES as usize);
                    let end = payload.len().min(at + BLOCK_BYTES as usize - inside);
                    let piece = payload.slice(at..end);
                    assert_eq!(amita_types::crc32c(&piece), *sum);
                    let mut data = (piece, *sum);
                    if end - at < BLOCK_BYTES as usize {
                        // A part of a block: merged with what is there.
                        let old = held.and_then(|held| held.blocks.get(&(block as u16))?.data.as_ref());
                        let mut bytes = old.map_or_else(|| vec![0; BLOCK_BYTES as usize], |old| old.0.to_vec());
                        bytes[inside..inside + end - at].copy_from_slice(&data.0);
                        let sum = amita_types::crc32c(&bytes);
                        data = (Slice::copy_from(&bytes), sum);
                    }
                    entries.push((
                        block as u16,
                        Entry {
                            version: *version,
                            data: Some(data),
                        },
                    ));
                    place += end - at;
                    at = end;
                }
                (*chunk, *version, *previous, entries)
            }
            RequestBody::Clear(ClearRequest {
                chunk,
                range,
                version,
                previous,
            }) => {
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
        let chunk: Key = (request.scope.volume, chunk.0);
        let held = self.accepted.entry(chunk).or_default();
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
                    && (*other, *same) == (chunk, version)
                {
                    pending.answers.push((link, request));
                    return;
                }
            }
            return self.answer(now, link, &request, Ok(AnswerBody::Done), Slice::default());
        }
        if held.version != previous {
            let current = held.version;
            self.wrong_predecessors += 1;
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
            chunk,
            previous,
            version,
            entries,
        };
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Done);
    }

    fn roll(&mut self, now: u64, link: u64, request: Request, payload: &Slice) {
        let RequestBody::Roll(RollRequest {
            chunk,
            version,
            previous,
            entries,
            first,
            last,
        }) = &request.body
        else {
            unreachable!()
        };
        let (chunk, version, previous, last) = ((request.scope.volume, chunk.0), *version, *previous, *last);
        let current = self.accepted.get(&chunk).map_or(Version::NONE, |held| held.version);
        if current != previous {
            self.wrong_predecessors += 1;
            return self.refuse(now, link, &request, Refusal::WrongPredecessor { current });
        }
        let rolling = self.rolling.entry(chunk).or_default();
        if *first {
            rolling.entries.clear();
        }
        let mut at = 0;
        for change in entries {
            let data = change.sum.map(|sum| {
                let data = payload.slice(at..at + BLOCK_BYTES as usize);
                at += BLOCK_BYTES as usize;
                assert_eq!(amita_types::crc32c(&data), sum);
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
            chunk,
            previous,
            version,
            entries,
        };
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Done);
    }
}

/// What a record does to the chunks.
fn apply(chunks: &mut BTreeMap<Key, Held>, record: &Record) {
    match record {
        Record::Adopt { .. } => {}
        Record::Chunk {
            chunk,
            previous,
            version,
            entries,
        } => {
            let held = chunks.entry(*chunk).or_default();
            if held.follows.0 != version.generation() {
                held.follows = (version.generation(), *previous);
            }
            held.version = *version;
            held.applied.push(*version);
            held.blocks.extend(entries.iter().cloned());
        }
        Record::Join { chunk, generation, at } => {
            let held = chunks.entry(*chunk).or_default();
            held.incomplete = Some(held.incomplete.unwrap_or(held.version));
            held.version = *at;
            held.applied.clear();
            held.follows = (*generation, *at);
        }
        Record::Mend { fixes, .. } if fixes.is_empty() => {}
        Record::Mend { chunk, fixes } => {
            let held = chunks.entry(*chunk).or_default();
            for fix in fixes {
                fix.carry_out(&mut held.blocks);
            }
        }
        Record::Whole { chunk } => chunks.entry(*chunk).or_default().incomplete = None,
    }
}
