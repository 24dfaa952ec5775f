//! A sequencer in a vice: what it wants is collected, and what it gets is said by the test.

use crate::io::{CallId, Effect, IoId, Opened, StopReason, Warning};
use crate::{Config, Sequencer, Told};
use amita_metadata::model::State;
use amita_metadata::{Call, Error};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::map::{self, PoolKind};
use amita_types::message::{
    Answer, AnswerBody, ChunkState, ChunksAnswer, DataAnswer, OpenedAnswer, ReadRequest, Refusal, Request, RequestBody,
    SettleRequest, SettledAnswer, Sums,
};
use amita_types::{
    BLOCK_BYTES, BlockIndex, Epoch, Generation, GroupIndex, NodeId, PoolId, SnapshotId, StoreId, Version, VolumeId,
};
use std::time::Duration;

pub const MS: u64 = 1_000_000;
pub const GENERATION: Generation = Generation(3);
/// The blocks of a chunk in these tests.
pub const BLOCKS: u32 = 64;
pub const CHUNK_BYTES: u64 = (BLOCKS * BLOCK_BYTES) as u64;

pub struct Rig {
    pub sequencer: Sequencer,
    pub now: Time,
    pub metadata: State,
    pub sent: Vec<(StoreId, Request, Slice)>,
    pub calls: Vec<(CallId, Call)>,
    pub ended: Vec<(IoId, Result<(), IoError>, Payload)>,
    pub warnings: Vec<Warning>,
    pub scrubbed: Option<amita_types::map::ScrubReport>,
    /// What a scrub that is under way has told so far.
    pub found: amita_types::map::ScrubReport,
    /// Groups of which a scrub has told the end.
    pub scrubbed_groups: Vec<GroupIndex>,
    pub wholes: Vec<(amita_types::GroupId, StoreId, Epoch)>,
    /// How often all stores in sync were said to have adopted the generation.
    pub adopted: u32,
    pub settled: Vec<SnapshotId>,
    pub unsettled: Vec<amita_types::ChunkIndex>,
    pub stopped: Option<StopReason>,
    pub lease_ms: u16,
    pub credit: u32,
    /// Credits that are given back are taken, and nothing is granted for it.
    pub takes_back: bool,
    next_io: u64,
}

pub fn store(number: u128) -> StoreId {
    StoreId(number)
}

/// The node that serves a store.
pub fn server(store: StoreId) -> NodeId {
    NodeId(100 + store.0 as u32)
}

pub fn version(counter: u64) -> Version {
    Version::new(GENERATION, counter).unwrap()
}

pub fn old(counter: u64) -> Version {
    Version::new(Generation(2), counter).unwrap()
}

impl Rig {
    /// `copies` stores, numbered from 1, all up; nothing is fenced yet.
    pub fn new(copies: u8, min_copies: u8) -> Rig {
        Rig::with(copies, min_copies, 1, Config::default())
    }

    pub fn with(copies: u8, min_copies: u8, groups: u32, config: Config) -> Rig {
        let members = |_| (1..=u128::from(copies)).map(store).collect();
        let mut rig = Rig::of(200, groups, (copies, min_copies), members, config, Vec::new());
        for number in 1..=copies {
            rig.up(u128::from(number));
        }
        rig
    }

    /// The same, of a volume that has had so many snapshots.
    pub fn numbered(copies: u8, min_copies: u8, number: SnapshotId, config: Config) -> Rig {
        Rig::changed(copies, min_copies, config, |volume| volume.lineage.number = number)
    }

    /// The same, of a clone.
    pub fn cloned(copies: u8, min_copies: u8, parents: Vec<map::Parent>, config: Config) -> Rig {
        Rig::changed(copies, min_copies, config, |volume| volume.parents = parents)
    }

    /// The same, of an encrypted volume.
    pub fn encrypted(copies: u8, min_copies: u8, ring: &map::KeyRing, config: Config) -> Rig {
        Rig::changed(copies, min_copies, config, |volume| volume.keys = Some(ring.clone()))
    }

    fn changed(copies: u8, min_copies: u8, config: Config, change: impl FnOnce(&mut map::Volume)) -> Rig {
        let mut rig = Rig::with(copies, min_copies, 1, config.clone());
        let mut volume: map::Volume = rig.metadata.get(&map::volume_key("v")).unwrap().json().unwrap();
        change(&mut volume);
        let record = serde_json::to_vec(&volume).unwrap();
        rig.metadata.txn(&Call::put(map::volume_key("v"), record)).unwrap();
        let group = rig.group(0);
        let opened = Opened {
            reservation: None,
            given_back: None,
            keys: volume.keys.as_ref().map(super::at_rest::keychain),
            volume,
            volume_revision: rig.metadata.get(&map::volume_key("v")).unwrap().mod_revision,
            pool: rig.sequencer.cx.owned.pool.clone(),
            generation: GENERATION,
            owner: NodeId(1),
            groups: vec![(group, 2)],
        };
        rig.sequencer = Sequencer::new(config, opened, 7 << 40, rig.now);
        for number in 1..=copies {
            rig.up(u128::from(number));
        }
        rig
    }

    /// A large pool: each group is held by the three stores from its own number on. All stores are up.
    pub fn wide(stores: u32, groups: u32, chunks: u64) -> Rig {
        Rig::wide_clone(stores, groups, chunks, Vec::new())
    }

    /// The same, of a clone.
    pub fn wide_clone(stores: u32, groups: u32, chunks: u64, parents: Vec<map::Parent>) -> Rig {
        let members = |group: u32| {
            let members = (group..group + 3).map(|number| u128::from(number % stores) + 1);
            members.map(store).collect()
        };
        let mut rig = Rig::of(chunks, groups, (3, 2), members, Config::default(), parents);
        for number in 1..=stores {
            rig.up(u128::from(number));
        }
        rig
    }

    fn of(
        chunks: u64,
        groups: u32,
        (copies, min_copies): (u8, u8),
        members: impl Fn(u32) -> Vec<StoreId>,
        config: Config,
        parents: Vec<map::Parent>,
    ) -> Rig {
        let mut metadata = State::new();
        let pool = map::Pool {
            failure_domain: amita_types::placement::Level::Node,
            class: None,
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated { copies, min_copies },
            groups,
            chunk_bytes: BLOCKS * BLOCK_BYTES,
        };
        let volume = map::Volume {
            generation: GENERATION,
            owner: Some(NodeId(1)),
            parents,
            ..map::Volume::new(VolumeId(9), "v", "p", chunks * CHUNK_BYTES)
        };
        let mut put = |key: String, value: Vec<u8>| metadata.txn(&Call::put(key, value)).unwrap().revision;
        let volume_revision = put(map::volume_key("v"), serde_json::to_vec(&volume).unwrap());
        let mut records = Vec::new();
        for index in 0..groups {
            let members = members(index);
            let record = map::Group {
                syncing: Vec::new(),
                index: GroupIndex(index),
                epoch: Epoch(1),
                members: members.clone(),
                in_sync: members,
            };
            let revision = put(
                map::group_key(pool.id, record.index),
                serde_json::to_vec(&record).unwrap(),
            );
            records.push((record, revision));
        }
        let opened = Opened {
            reservation: None,
            given_back: None,
            keys: None,
            volume,
            volume_revision,
            pool,
            generation: GENERATION,
            owner: NodeId(1),
            groups: records,
        };
        let now = Time(1000 * MS);
        Rig {
            sequencer: Sequencer::new(config, opened, 7 << 40, now),
            now,
            metadata,
            sent: Vec::new(),
            calls: Vec::new(),
            ended: Vec::new(),
            warnings: Vec::new(),
            scrubbed: None,
            found: Default::default(),
            scrubbed_groups: Vec::new(),
            wholes: Vec::new(),
            adopted: 0,
            settled: Vec::new(),
            unsettled: Vec::new(),
            stopped: None,
            lease_ms: 250,
            credit: 1000,
            takes_back: true,
            next_io: 0,
        }
    }

    /// One chunk of three copies, open at 2:5 on all of them.
    pub fn open(copies: u8, min_copies: u8) -> Rig {
        let mut rig = Rig::new(copies, min_copies);
        rig.open_chunk();
        rig
    }

    pub fn open_chunk(&mut self) {
        let io = self.read(0, 4096);
        self.answer_fences();
        self.answer_opens(|_| old(5));
        self.answer_reads(old(5));
        assert_eq!(self.result(io), Some(Ok(())));
        self.ended.clear();
    }

    /// Stores 1 and 2 have this write of the chunk, the first above 2:5; 2 ends, is back without it, and refuses the next one, which is returned.
    pub fn forget(&mut self, acknowledged: IoId) -> IoId {
        for number in [1, 2] {
            let writes = self.writes(number);
            self.done(&writes);
        }
        assert_eq!(self.result(acknowledged), Some(Ok(())));
        self.down(2);
        self.up(2);
        self.answer_fences();
        let io = self.clear(8192, 4096);
        let (one, two) = (self.writes(1), self.writes(2));
        self.done(&one);
        self.refuse(&two[0], Refusal::WrongPredecessor { current: old(5) });
        io
    }

    pub fn collect(&mut self) {
        for effect in self.sequencer.effects() {
            match effect {
                Effect::Send {
                    store,
                    request,
                    payload,
                } => self.sent.push((store, request, payload)),
                Effect::Meta { call, request } => self.calls.push((call, request)),
                Effect::Done {
                    io, result, payload, ..
                } => {
                    assert!(self.ended.iter().all(|ended| ended.0 != io), "{io:?} ended twice");
                    self.ended.push((io, result, payload));
                }
                Effect::Whole { group, store, since } => self.wholes.push((group, store, since)),
                Effect::GenerationAdopted => self.adopted += 1,
                Effect::OpenParent { chunk, .. } => self.unsettled.push(chunk),
                Effect::Settled { number } => self.settled.push(number),
                Effect::Scrubbed {
                    group, is_last, report, ..
                } => {
                    self.scrubbed_groups.push(group);
                    self.found += report;
                    if is_last {
                        self.scrubbed = Some(std::mem::take(&mut self.found));
                    }
                }
                Effect::Warn(warning) => self.warnings.push(warning),
                Effect::Stop { reason } => {
                    assert!(self.stopped.is_none());
                    self.stopped = Some(reason);
                }
            }
        }
        if self.takes_back {
            let back = self.take(|_, body| matches!(body, RequestBody::Settle(SettleRequest { want: 0, .. })));
            let credit = std::mem::take(&mut self.credit);
            for request in back {
                self.accept(&request, AnswerBody::Settled(SettledAnswer { full: false }));
            }
            self.credit = credit;
        }
    }

    pub fn up(&mut self, number: u128) {
        self.sequencer.store_up(self.now, store(number), server(store(number)));
        self.collect();
    }

    pub fn down(&mut self, number: u128) {
        self.sequencer.store_down(self.now, store(number));
        self.collect();
        self.sent.retain(|sent| sent.0 != store(number));
    }

    pub fn lost(&mut self, number: u128) {
        self.sequencer.store_lost(self.now, store(number));
        self.collect();
    }

    /// Time passes, with every tick that was asked for.
    pub fn pass_ms(&mut self, ms: u64) {
        let end = self.now.plus(Duration::from_millis(ms));
        let mut ticks = 0;
        while let Some(due) = self.sequencer.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.sequencer.tick(self.now);
            self.collect();
            ticks += 1;
            assert!(ticks < 100_000, "it spins");
        }
        self.now = end;
    }

    pub fn submit(&mut self, op: Op, data: &[u8]) -> IoId {
        self.next_io += 1;
        let io = IoId(self.next_io);
        self.sequencer.submit(self.now, io, op, Slice::copy_from(data));
        self.collect();
        io
    }

    /// Something of a snapshot.
    pub fn scrub(&mut self) {
        self.scrub_from(1, 0);
    }

    /// The scrub of that number begins there, or goes on.
    pub fn scrub_from(&mut self, number: u64, group: u32) {
        self.sequencer.scrub(self.now, number, GroupIndex(group));
        self.collect();
    }

    pub fn submit_at(&mut self, at: SnapshotId, op: Op) -> IoId {
        self.submit_told(at, op, Told::default())
    }

    /// Of which requests to stores tell something.
    pub fn submit_told(&mut self, at: SnapshotId, op: Op, told: Told) -> IoId {
        self.next_io += 1;
        let io = IoId(self.next_io);
        self.sequencer.submit_told(self.now, io, op, Slice::default(), at, told);
        self.collect();
        io
    }

    pub fn read(&mut self, offset: u64, length: u32) -> IoId {
        self.submit(Op::Read { offset, length }, &[])
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> IoId {
        let length = data.len() as u32;
        self.submit(Op::Write { offset, length }, data)
    }

    pub fn clear(&mut self, offset: u64, length: u64) -> IoId {
        self.submit(Op::Clear { offset, length }, &[])
    }

    /// How an I/O ended, if it has.
    pub fn result(&self, io: IoId) -> Option<Result<(), IoError>> {
        self.ended.iter().find(|ended| ended.0 == io).map(|ended| ended.1)
    }

    pub fn payload(&self, io: IoId) -> Payload {
        self.ended
            .iter()
            .find(|ended| ended.0 == io)
            .expect("it has ended")
            .2
            .clone()
    }

    /// Takes the requests that were sent and match.
    pub fn take(&mut self, matches: impl Fn(StoreId, &RequestBody) -> bool) -> Vec<Request> {
        let (taken, left) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|(store, request, _)| matches(*store, &request.body));
        self.sent = left;
        taken.into_iter().map(|(_, request, _)| request).collect()
    }

    /// Takes the writes (and clears) for a store, in the order in which they were sent.
    pub fn writes(&mut self, number: u128) -> Vec<Request> {
        self.take(|to, body| to == store(number) && matches!(body, RequestBody::Write(_) | RequestBody::Clear(_)))
    }

    pub fn reads(&mut self) -> Vec<Request> {
        self.take(|_, body| matches!(body, RequestBody::Read(_)))
    }

    pub fn renewals(&mut self) -> Vec<Request> {
        self.take(|_, body| matches!(body, RequestBody::RenewLease))
    }

    pub fn settles(&mut self) -> Vec<Request> {
        self.take(|_, body| matches!(body, RequestBody::Settle(_)))
    }

    pub fn fences(&mut self) -> Vec<Request> {
        self.take(|_, body| matches!(body, RequestBody::Fence(_)))
    }

    pub fn answer(&mut self, request: &Request, result: Result<AnswerBody, Refusal>, payload: Slice) {
        let lease_ms = if result.is_ok() { self.lease_ms } else { 0 };
        let answer = Answer {
            trace: None,
            id: request.id,
            store: request.store,
            lease_ms,
            credit_blocks: self.credit,
            waited: Default::default(),
            result,
        };
        self.sequencer.answer(self.now, server(request.store), answer, payload);
        self.collect();
    }

    pub fn accept(&mut self, request: &Request, body: AnswerBody) {
        self.answer(request, Ok(body), Slice::default());
    }

    pub fn refuse(&mut self, request: &Request, refusal: Refusal) {
        self.answer(request, Err(refusal), Slice::default());
    }

    pub fn done(&mut self, requests: &[Request]) {
        for request in requests {
            self.accept(request, AnswerBody::Done);
        }
    }

    pub fn answer_fences(&mut self) {
        for request in self.fences() {
            self.accept(&request, AnswerBody::Fenced);
        }
    }

    pub fn answer_opens(&mut self, version: impl Fn(StoreId) -> Version) {
        self.answer_opens_at(|store| (version(store), SnapshotId::HEAD));
    }

    /// The same, of chunks that were written under these numbers.
    pub fn answer_opens_at(&mut self, at: impl Fn(StoreId) -> (Version, SnapshotId)) {
        for request in self.take(|_, body| matches!(body, RequestBody::Open(_))) {
            let (version, number) = at(request.store);
            let opened = OpenedAnswer {
                version,
                number,
                ..OpenedAnswer::NOTHING
            };
            self.accept(&request, AnswerBody::Opened(opened));
        }
    }

    /// A store says which version it has, of a chunk that is whole there.
    pub fn opened_at(&mut self, request: &Request, version: Version) {
        let opened = OpenedAnswer {
            version,
            ..OpenedAnswer::NOTHING
        };
        self.accept(request, AnswerBody::Opened(opened));
    }

    pub fn answer_renewals(&mut self) {
        for request in self.renewals() {
            self.accept(&request, AnswerBody::LeaseRenewed);
        }
    }

    /// Answers every read (and every request for a lease) with blocks full of their index.
    pub fn answer_reads(&mut self, version: Version) {
        for request in self.reads() {
            self.answer_read(&request, version);
        }
        self.answer_renewals();
    }

    pub fn answer_read(&mut self, request: &Request, version: Version) {
        self.answer_with(request, version, |block| block.0 as u8);
    }

    /// The same with blocks full of one byte.
    pub fn answer_blocks(&mut self, request: &Request, version: Version, byte: u8) {
        self.answer_with(request, version, |_| byte);
    }

    fn answer_with(&mut self, request: &Request, version: Version, byte: impl Fn(BlockIndex) -> u8) {
        let RequestBody::Read(ReadRequest { range, .. }) = request.body else {
            panic!("a read was expected")
        };
        let mut bytes = Vec::new();
        let mut sums = Sums::new();
        for block in range.iter() {
            let block = vec![byte(block); BLOCK_BYTES as usize];
            sums.push(amita_types::crc32c(&block));
            bytes.extend(block);
        }
        self.answer(
            request,
            Ok(AnswerBody::Data(DataAnswer {
                version,
                sums,
                runs: Box::default(),
            })),
            Slice::copy_from(&bytes),
        );
    }

    /// Takes the call to the metadata that is under way.
    pub fn call(&mut self) -> (CallId, Call) {
        assert_eq!(self.calls.len(), 1, "one call at a time");
        self.calls.remove(0)
    }

    /// Carries the call out.
    pub fn do_call(&mut self) {
        let (id, call) = self.call();
        let reply = self.metadata.txn(&call).unwrap();
        self.sequencer.meta(self.now, id, Ok(reply));
        self.collect();
    }

    pub fn fail_call(&mut self, done: bool) {
        let (id, call) = self.call();
        if done {
            self.metadata.txn(&call).unwrap();
        }
        let error = Error::Unknown {
            what: "time-out".to_owned(),
            endpoint: "m".to_owned(),
        };
        self.sequencer.meta(self.now, id, Err(error));
        self.collect();
    }

    pub fn refuse_call(&mut self) {
        let (id, _) = self.call();
        let error = Error::Unavailable {
            what: "away".to_owned(),
            endpoints: "m".to_owned(),
        };
        self.sequencer.meta(self.now, id, Err(error));
        self.collect();
    }

    pub fn group(&self, index: u32) -> map::Group {
        self.metadata
            .get(&map::group_key(PoolId(1), GroupIndex(index)))
            .unwrap()
            .json()
            .unwrap()
    }

    /// Another sequencer evicts a store.
    pub fn evict_elsewhere(&mut self, number: u128) {
        let mut group = self.group(0);
        group.epoch = group.epoch.next();
        group.in_sync.retain(|&id| id != store(number));
        let key = map::group_key(PoolId(1), GroupIndex(0));
        self.metadata
            .txn(&Call::put(key, serde_json::to_vec(&group).unwrap()))
            .unwrap();
    }

    /// Another gateway takes the volume.
    pub fn depose(&mut self) {
        let mut volume: map::Volume = self.metadata.get(&map::volume_key("v")).unwrap().json().unwrap();
        volume.generation = volume.generation.next().unwrap();
        volume.owner = Some(NodeId(2));
        self.metadata
            .txn(&Call::put(map::volume_key("v"), serde_json::to_vec(&volume).unwrap()))
            .unwrap();
    }

    /// The coordinator changes the group's record, and a watch tells of it.
    pub fn change_group(&mut self, change: impl FnOnce(&mut map::Group)) {
        let mut group = self.group(0);
        group.epoch = group.epoch.next();
        change(&mut group);
        let key = map::group_key(PoolId(1), GroupIndex(0));
        let call = Call::put(key, serde_json::to_vec(&group).unwrap());
        self.metadata.txn(&call).unwrap();
        self.sequencer
            .hint(self.now, GroupIndex(0), group.epoch, !group.syncing.is_empty());
        self.collect();
        self.do_call();
    }

    /// A store is listed as syncing.
    pub fn list_syncing(&mut self, number: u128) {
        self.change_group(|group| {
            let since = group.epoch;
            group.syncing.push(map::Syncing {
                store: store(number),
                since,
            });
        });
    }

    /// Takes what was sent to a store.
    pub fn sent_to(&mut self, number: u128) -> Vec<Request> {
        self.take(|to, _| to == store(number))
    }

    /// Answers every question for the chunks that there are.
    pub fn answer_chunks(&mut self, chunks: impl Fn(StoreId) -> Vec<ChunkState>) {
        for request in self.take(|_, body| matches!(body, RequestBody::Chunks(_))) {
            let chunks = chunks(request.store);
            self.accept(&request, AnswerBody::Chunks(ChunksAnswer { chunks, more: None }));
        }
    }

    /// Answers a syncing member's question since when the chunk is incomplete: since 2:3.
    pub fn answer_asks(&mut self) {
        for request in self.take(|_, body| matches!(body, RequestBody::Open(_))) {
            let incomplete = Some(old(3));
            self.accept(
                &request,
                AnswerBody::Opened(OpenedAnswer {
                    version: old(5),
                    incomplete,
                    ..OpenedAnswer::NOTHING
                }),
            );
        }
    }
}
