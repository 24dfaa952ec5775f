//! A sequencer that lies: it asks for anything, with whatever values a message can carry (rule R14).

use crate::common::{BLOCK, Requester, Rig, Rng, STORE, sums, version};
use amita_reactor::Slice;
use amita_store::{LinkId, State};
use amita_types::message::{
    AllocationRequest, AnswerBody, Change, ChangesRequest, ChunksRequest, ClearRequest, CloneRequest, Expect,
    FenceRequest, JoinRequest, Mend, MendRequest, OpenRequest, OpenedAnswer, Problem, ReadRequest, Refusal, Request,
    RequestBody, RetainSnapshotsRequest, RollRequest, SettleRequest, VerifyRequest, WholeRequest, WriteRequest,
};
use amita_types::{
    BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, GroupIndex, MAX_AHEAD, NodeId, SnapshotId, StoreId, TraceId,
    Version, VolumeId,
};

const OWNER: NodeId = NodeId(1);
const LIAR: NodeId = NodeId(2);
const CHUNKS: u64 = 4;

/// The owner of [`crate::common::VOLUME`], at its own node.
struct Play {
    rig: Rig,
    owner: Requester,
    rng: Rng,
}

impl Play {
    /// Some chunks are written, each block with its own bytes.
    fn new(seed: u64) -> Play {
        let rig = Rig::fresh(8 << 20, false);
        let mut play = Play {
            rig,
            owner: Requester::new(1),
            rng: Rng(seed),
        };
        let fence = play.owner.fence_request();
        assert_eq!(play.ask(OWNER, fence, &[]), Ok(AnswerBody::Fenced));
        for chunk in 0..CHUNKS {
            assert_eq!(play.write(chunk, 1), Ok(AnswerBody::Done));
        }
        play
    }

    fn ask(&mut self, from: NodeId, request: Request, payload: &[u8]) -> Result<AnswerBody, Refusal> {
        let (id, link) = (request.id, LinkId(u64::from(from.0)));
        let payload = Slice::copy_from(payload);
        self.rig.store.request_from(self.rig.now, from, link, request, payload);
        for _ in 0..1000 {
            self.rig.run();
            if let Some(told) = self.rig.take(link, id) {
                return told.answer.result;
            }
            let at = self
                .rig
                .store
                .deadline()
                .expect("what is not answered waits for something");
            self.rig.now = self.rig.now.max(at);
            self.rig.store.tick(self.rig.now);
        }
        panic!("request {id} is never answered");
    }

    fn bytes(chunk: u64, counter: u64) -> Vec<u8> {
        vec![(chunk * 16 + counter) as u8; BLOCK]
    }

    /// The owner's next write of a chunk.
    fn write(&mut self, chunk: u64, counter: u64) -> Result<AnswerBody, Refusal> {
        let bytes = Play::bytes(chunk, counter);
        let previous = if counter == 1 {
            Version::NONE
        } else {
            version(1, counter - 1)
        };
        let request = self
            .owner
            .write_request(chunk, 0, &bytes, version(1, counter), previous);
        self.ask(OWNER, request, &bytes)
    }

    /// What was acknowledged is there, and the owner goes on.
    fn check(&mut self) {
        assert_eq!(*self.rig.store.state(), State::Serving);
        for chunk in 0..CHUNKS {
            let request = self.owner.read_request(chunk, 0, 1, version(1, 1));
            let (id, link) = (request.id, LinkId(u64::from(OWNER.0)));
            self.rig
                .store
                .request_from(self.rig.now, OWNER, link, request, Slice::default());
            self.rig.run();
            let told = self.rig.take(link, id).expect("reads wait for nothing");
            assert!(
                matches!(told.answer.result, Ok(AnswerBody::Data(_))),
                "{:?}",
                told.answer
            );
            assert_eq!(&told.payload[..], Play::bytes(chunk, 1));
            assert_eq!(self.write(chunk, 2), Ok(AnswerBody::Done));
        }
    }

    /// A number that means something, or none that does.
    fn number(&mut self) -> u64 {
        match self.rng.below(10) {
            0 => u64::MAX,
            1 => u64::MAX - self.rng.next() % 3,
            2 => 1 << (self.rng.below(64)),
            3 => (1 << self.rng.below(64)) - 1,
            4 => self.rng.next(),
            _ => self.rng.next() % 4,
        }
    }

    fn version(&mut self) -> Version {
        match self.rng.below(4) {
            0 => Version(self.number()),
            1 => Version::new(Generation(1), Version::COUNTER_MAX - self.rng.next() % 3).unwrap(),
            _ => version(1, self.rng.next() % 5),
        }
    }

    fn block(&mut self) -> BlockIndex {
        BlockIndex(self.number() as u16)
    }

    fn range(&mut self) -> BlockRange {
        BlockRange::new(self.number() as u16, self.number() as u16)
    }

    fn blocks(&mut self, entries: usize) -> Vec<BlockIndex> {
        let first = self.number() as u16;
        let mut blocks: Vec<BlockIndex> = (0..entries as u16)
            .map(|at| BlockIndex(first.wrapping_add(at)))
            .collect();
        if self.rng.chance(8) {
            blocks.reverse();
        }
        blocks
    }

    /// A request as nobody means it, with a payload that fits it, or nearly.
    fn lie(&mut self) -> (RequestBody, Vec<u8>) {
        let chunk = ChunkIndex(self.number());
        let (some, other, version, previous) = (self.number(), self.number(), self.version(), self.version());
        let body = match self.rng.below(17) {
            0 => RequestBody::Open(OpenRequest { chunk }),
            1 | 2 => return self.lying_write(chunk, version, previous),
            3 => RequestBody::Clear(ClearRequest {
                chunk,
                range: self.range(),
                version,
                previous,
            }),
            4 => RequestBody::Read(ReadRequest {
                chunk,
                range: self.range(),
                least: version,
                versions: false,
                newest: None,
            }),
            5 => RequestBody::Changes(ChangesRequest {
                chunk,
                since: version,
                from: self.block(),
            }),
            6 | 7 => return self.lying_roll(chunk, version, previous),
            8 => RequestBody::RetainSnapshots(RetainSnapshotsRequest {
                chunk,
                head: self.rng.chance(2),
                above: SnapshotId(some as u32),
                to: SnapshotId(other as u32),
                live: (0..self.rng.below(4))
                    .map(|_| SnapshotId(self.number() as u32))
                    .collect(),
            }),
            9 => RequestBody::Clone(CloneRequest {
                chunk,
                origin: VolumeId(if self.rng.chance(2) { 7 } else { some }),
                at: SnapshotId(other as u32),
            }),
            10 => RequestBody::RenewLease,
            11 => RequestBody::Settle(SettleRequest {
                want: some as u32,
                back: other as u32,
            }),
            12 => RequestBody::Chunks(ChunksRequest {
                from: chunk,
                core: some as u16,
                cores: other as u16,
                groups: self.number() as u32,
                place: None,
            }),
            13 => RequestBody::Join(JoinRequest { chunk, at: version }),
            14 => return self.lying_mend(chunk),
            15 => RequestBody::Whole(WholeRequest {
                chunk,
                version,
                number: SnapshotId(some as u32),
                born: SnapshotId(other as u32),
            }),
            16 if self.rng.chance(2) => RequestBody::Allocation(AllocationRequest {
                chunk,
                least: version,
                newest: Some(version),
            }),
            _ => RequestBody::Verify(VerifyRequest {
                chunk,
                from: self.block(),
                least: version,
            }),
        };
        (body, Vec::new())
    }

    fn lying_write(&mut self, chunk: ChunkIndex, version: Version, previous: Version) -> (RequestBody, Vec<u8>) {
        let offset_bytes = self.number() as u32;
        let payload = vec![9; self.rng.below(3 * BLOCK)];
        let next = previous.next(Generation(1)).unwrap_or(version);
        let length = self.number() as u32;
        let body = RequestBody::Write(WriteRequest {
            chunk,
            offset_bytes,
            length_bytes: if self.rng.chance(4) {
                length
            } else {
                payload.len() as u32
            },
            version: if self.rng.chance(4) { version } else { next },
            previous,
            sums: sums(offset_bytes, &payload),
        });
        (body, payload)
    }

    fn lying_roll(&mut self, chunk: ChunkIndex, version: Version, previous: Version) -> (RequestBody, Vec<u8>) {
        let count = self.rng.below(5);
        let blocks = self.blocks(count);
        let payload = vec![3; BLOCK];
        let sum = amita_types::crc32c(&payload);
        let mut entries = Vec::new();
        for block in blocks {
            let (with_data, of) = (self.rng.chance(2), self.version());
            entries.push(Change {
                block,
                version: if self.rng.chance(2) { version } else { of },
                sum: with_data.then_some(sum),
            });
        }
        let data = entries.iter().filter(|entry| entry.sum.is_some()).count();
        let body = RequestBody::Roll(RollRequest {
            chunk,
            version,
            previous,
            entries,
            first: !self.rng.chance(3),
            last: !self.rng.chance(3),
        });
        (body, payload.repeat(data))
    }

    fn lying_mend(&mut self, chunk: ChunkIndex) -> (RequestBody, Vec<u8>) {
        let count = self.rng.below(5);
        let blocks = self.blocks(count);
        let payload = vec![5; BLOCK];
        let sum = amita_types::crc32c(&payload);
        let mut entries = Vec::new();
        for block in blocks {
            let version = self.version();
            let expect = match self.rng.below(4) {
                0 => Expect::Lost,
                1 => Expect::Upto {
                    version: self.version(),
                },
                _ => Expect::Entry {
                    version: self.version(),
                    sum: self.rng.chance(2).then_some(sum),
                },
            };
            entries.push(Mend {
                block,
                expect,
                version,
                sum: self.rng.chance(2).then_some(sum),
            });
        }
        let data = entries.iter().filter(|entry| entry.sum.is_some()).count();
        (RequestBody::Mend(MendRequest { chunk, entries }), payload.repeat(data))
    }

    /// Lies under this volume and generation, as that node, so many times.
    fn lies(&mut self, from: NodeId, as_owner_of: &Requester, times: u64) {
        let link = LinkId(u64::from(from.0));
        for number in 0..times {
            let (body, payload) = self.lie();
            let mut scope = as_owner_of.scope();
            if self.rng.chance(4) {
                scope.snapshot = SnapshotId(self.number() as u32);
            }
            if self.rng.chance(16) {
                scope.group.index = GroupIndex(self.number() as u32);
            }
            let request = Request {
                id: amita_types::RequestId(self.number() << 20 | number),
                store: STORE,
                scope,
                trace: TraceId::NONE,
                purpose: Default::default(),
                body,
            };
            let payload = Slice::copy_from(&payload);
            self.rig.store.request_from(self.rig.now, from, link, request, payload);
            if self.rng.chance(8) {
                self.rig.run();
                self.rig.told.clear();
            }
            if self.rng.chance(64) {
                self.rig.now = self.rig.now.plus(std::time::Duration::from_millis(300));
                self.rig.store.tick(self.rig.now);
            }
        }
        self.rig.run();
        self.rig.told.clear();
        self.rig.store.link_closed(self.rig.now, link);
        self.rig.run();
    }
}

/// It knows the volume, its generation, the group and its epoch: by the metadata, or by what a refusal told it. That is not
/// enough.
#[test]
fn who_is_not_the_owner_changes_nothing_whatever_it_knows() {
    for seed in 0..20 {
        let mut play = Play::new(seed);
        let owner = play.owner.clone();
        play.lies(LIAR, &owner, 2_000);
        play.check();
    }
}

/// It owns another volume in the same group, and may spoil that one.
#[test]
fn an_owner_that_lies_spoils_its_own_volume_only() {
    for seed in 0..20 {
        let mut play = Play::new(seed);
        let mut own = Requester::new(u64::from(LIAR.0));
        own.volume = VolumeId(8);
        let fence = own.fence_request();
        assert_eq!(play.ask(LIAR, fence, &[]), Ok(AnswerBody::Fenced));
        play.lies(LIAR, &own, 2_000);
        play.check();
        // What it has left on the disk can be mounted again.
        play.rig = play.rig.reopened_on(play.rig.disk.clone());
        play.rig.run();
        assert_eq!(*play.rig.store.state(), State::Serving);
    }
}

#[test]
fn a_generation_has_one_owner_and_a_node_fences_for_itself() {
    let mut play = Play::new(1);
    let members = Err(Refusal::Invalid { what: Problem::Members });
    let fence = |play: &mut Play, from: NodeId, owner: NodeId| {
        let body = RequestBody::Fence(FenceRequest {
            owner,
            in_sync: vec![STORE, StoreId(0xabcd_0002)],
            syncing: Vec::new(),
            blocks_per_chunk: 1024,
            given_back: None,
        });
        let request = play.owner.request(body);
        play.ask(from, request, &[])
    };
    assert_eq!(fence(&mut play, LIAR, LIAR), members, "the generation is node 1's");
    assert_eq!(fence(&mut play, LIAR, OWNER), members, "in another's name");
    assert_eq!(fence(&mut play, OWNER, OWNER), Ok(AnswerBody::Fenced));
    let open = play
        .owner
        .request(RequestBody::Open(OpenRequest { chunk: ChunkIndex(0) }));
    assert_eq!(play.ask(LIAR, open, &[]), Err(Refusal::NotFenced));
    // The owner is known by its node after a start as well, and goes on without a fence.
    play.rig = play.rig.reopened_on(play.rig.disk.clone());
    play.rig.run();
    let open = play
        .owner
        .request(RequestBody::Open(OpenRequest { chunk: ChunkIndex(0) }));
    assert_eq!(play.ask(LIAR, open.clone(), &[]), Err(Refusal::NotFenced));
    assert!(matches!(play.ask(OWNER, open, &[]), Ok(AnswerBody::Opened(_))));
    // The next generation is another node's.
    (play.owner.generation, play.owner.epoch) = (Generation(2), Epoch(2));
    assert_eq!(fence(&mut play, LIAR, LIAR), Ok(AnswerBody::Fenced));
    assert_eq!(fence(&mut play, OWNER, OWNER), members);
}

/// A clone shows what its origin held. Whoever owns some volume would read every other one by it.
#[test]
fn a_chunk_is_cloned_by_whoever_owns_both_volumes() {
    let mut play = Play::new(1);
    let bytes = Play::bytes(0, 2);
    let mut snapped = play.owner.write_request(0, 0, &bytes, version(1, 2), version(1, 1));
    snapped.scope.snapshot = SnapshotId(1);
    assert_eq!(play.ask(OWNER, snapped, &bytes), Ok(AnswerBody::Done));
    let clone = |play: &mut Play, node: NodeId, volume: u64, origin: VolumeId| {
        let mut asker = Requester::new(u64::from(node.0));
        asker.volume = VolumeId(volume);
        let fence = asker.fence_request();
        assert_eq!(play.ask(node, fence, &[]), Ok(AnswerBody::Fenced));
        let body = RequestBody::Clone(CloneRequest {
            chunk: ChunkIndex(0),
            origin,
            at: SnapshotId(1),
        });
        let request = asker.request(body);
        let told = play.ask(node, request, &[]);
        let open = asker.request(RequestBody::Open(OpenRequest { chunk: ChunkIndex(0) }));
        (told, play.ask(node, open, &[]))
    };
    let opened = |version| {
        Ok(AnswerBody::Opened(OpenedAnswer {
            version,
            incomplete: None,
            ..OpenedAnswer::NOTHING
        }))
    };
    let origin = play.owner.volume;
    let (told, open) = clone(&mut play, LIAR, 8, origin);
    assert_eq!((told, open), (Err(Refusal::NotFenced), opened(Version::NONE)));
    let (told, _) = clone(&mut play, LIAR, 8, VolumeId(99));
    assert_eq!(told, Err(Refusal::NotFenced), "nor is it told which volumes there are");
    let (told, open) = clone(&mut play, OWNER, 9, origin);
    assert_eq!((told, open), (Ok(AnswerBody::Done), opened(version(1, 1))));
}

/// The owner itself lies, or has lost its memory: no message takes a chunk to the end of its counters (R1).
#[test]
fn no_message_uses_the_counters_of_a_chunk_up() {
    let roll = |play: &mut Play, chunk: u64, version: Version, previous: Version| {
        let body = RequestBody::Roll(RollRequest {
            chunk: ChunkIndex(chunk),
            version,
            previous,
            entries: Vec::new(),
            first: true,
            last: true,
        });
        let request = play.owner.request(body);
        play.ask(OWNER, request, &[])
    };
    let mut play = Play::new(1);
    let of = |counter| Version::new(Generation(1), counter).unwrap();
    let wrong = Err(Refusal::Invalid { what: Problem::Version });
    for counter in [Version::COUNTER_MAX, Version::COUNTER_MAX - 1, MAX_AHEAD + 2] {
        assert_eq!(roll(&mut play, 0, of(counter), of(1)), wrong, "{counter}");
        let bytes = Play::bytes(0, 2);
        let write = play.owner.write_request(0, 0, &bytes, of(counter), of(1));
        assert_eq!(play.ask(OWNER, write, &bytes), wrong, "{counter}");
        let clear = RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(0),
            range: BlockRange::new(0, 1),
            version: of(counter),
            previous: of(1),
        });
        let clear = play.owner.request(clear);
        assert_eq!(play.ask(OWNER, clear, &[]), wrong, "{counter}");
        // Nor does a store in sync begin a history there.
        let at = of(counter);
        let join = play.owner.request(RequestBody::Join(JoinRequest {
            chunk: ChunkIndex(0),
            at,
        }));
        let members = Err(Refusal::Invalid { what: Problem::Members });
        assert_eq!(play.ask(OWNER, join, &[]), members, "{counter}");
    }
    // As far as honest copies can be apart, and room.
    assert_eq!(
        roll(&mut play, CHUNKS, of(MAX_AHEAD), Version::NONE),
        Ok(AnswerBody::Done)
    );
    play.check();
}

#[test]
fn a_fence_with_more_members_than_there_are_is_refused() {
    let mut play = Play::new(1);
    let body = RequestBody::Fence(FenceRequest {
        owner: OWNER,
        in_sync: vec![STORE; 300],
        syncing: vec![STORE; 300],
        blocks_per_chunk: 1024,
        given_back: None,
    });
    let request = play.owner.request(body);
    let members = Err(Refusal::Invalid { what: Problem::Members });
    assert_eq!(play.ask(OWNER, request, &[]), members);
}

/// With the rule switched off whoever knows the generation writes.
#[cfg(feature = "planted")]
#[test]
fn without_the_rule_a_stranger_writes() {
    use crate::common::{Disk, image, params};
    use amita_reactor::{Pool, Time};
    let config = amita_store::Config {
        faults: amita_store::Faults::NONE.with(amita_store::Fault::AnyAsker),
        ..amita_store::Config::default()
    };
    let disk = Disk::new(image(&params(8 << 20)), false);
    let mut rig = Rig::open(disk, config, Time(1), 1, Pool::heap());
    rig.run();
    let mut play = Play {
        rig,
        owner: Requester::new(1),
        rng: Rng(1),
    };
    let fence = play.owner.fence_request();
    assert_eq!(play.ask(OWNER, fence, &[]), Ok(AnswerBody::Fenced));
    let bytes = vec![1; BLOCK];
    let request = play.owner.write_request(0, 0, &bytes, version(1, 1), Version::NONE);
    assert_eq!(play.ask(LIAR, request, &bytes), Ok(AnswerBody::Done));
}
