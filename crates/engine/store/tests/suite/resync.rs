//! A store that was away is brought up to date (rule R5): it joins a history, is mended, and is whole.

use crate::common::{BLOCK, Requester, Rig, VOLUME, version};
use amita_reactor::Slice;
use amita_types::message::{
    AllocationRequest, AnswerBody, ChunkState, ChunksAnswer, ChunksRequest, ClearRequest, Expect, FenceRequest,
    JoinRequest, JoinedAnswer, MAX_LISTED_CHUNKS, Mend, MendRequest, MendedAnswer, OpenRequest, OpenedAnswer, Problem,
    Refusal, RequestBody, RetainSnapshotsRequest, RollRequest, VerifiedAnswer, VerifyRequest, WholeRequest,
};
use amita_types::{
    BlockIndex, BlockRange, ChunkId, ChunkIndex, Epoch, Generation, GroupIndex, SnapshotId, Version, crc32c,
};

const CHUNK: ChunkIndex = ChunkIndex(3);

type Result = std::result::Result<AnswerBody, Refusal>;

/// A block, its entry's version, and its checksum if it has data.
type Listed = (u16, Version, Option<u32>);

/// A block whose bytes say which it is.
fn block(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK]
}

fn entry(version: Version, byte: Option<u8>) -> Expect {
    Expect::Entry {
        version,
        sum: byte.map(|byte| crc32c(&block(byte))),
    }
}

const NEVER: Expect = Expect::Entry {
    version: Version::NONE,
    sum: None,
};

/// The owner of a volume, asking a store that is out of date.
struct Test {
    rig: Rig,
    owner: Requester,
}

impl Test {
    /// In sync, with blocks 0 to 3 of the chunk written at versions 1:1 to 1:4 as bytes 1 to 4.
    fn new() -> Test {
        Test::of(8 << 20)
    }

    fn of(size_bytes: u64) -> Test {
        let mut rig = Rig::fresh(size_bytes, false);
        let mut owner = Requester::new(1);
        assert_eq!(owner.fence(&mut rig), Ok(AnswerBody::Fenced));
        let mut test = Test { rig, owner };
        let mut previous = Version::NONE;
        for n in 1..=4 {
            let next = version(1, n);
            test.write(n as u16 - 1, n as u8, next, previous).unwrap();
            previous = next;
        }
        test
    }

    /// A new owner, to whom the store is not in sync.
    fn away(mut self) -> Test {
        self.take_over(true);
        self
    }

    fn take_over(&mut self, syncing: bool) {
        self.owner.generation = Generation(self.owner.generation.0 + 1);
        self.owner.epoch = Epoch(self.owner.epoch.0 + 1);
        self.owner.syncing = syncing;
        assert_eq!(self.owner.fence(&mut self.rig), Ok(AnswerBody::Fenced));
    }

    /// The next epoch of the same owner.
    fn epoch(&mut self, syncing: bool) {
        self.owner.epoch = Epoch(self.owner.epoch.0 + 1);
        self.owner.syncing = syncing;
        assert_eq!(self.owner.fence(&mut self.rig), Ok(AnswerBody::Fenced));
    }

    /// The same after a crash.
    fn crashed(self) -> Test {
        let mut rig = self.rig.reopened(self.rig.disk.durable.clone());
        rig.run();
        assert_eq!(*rig.store.state(), amita_store::State::Serving);
        let mut owner = self.owner;
        assert_eq!(owner.fence(&mut rig), Ok(AnswerBody::Fenced));
        Test { rig, owner }
    }

    fn ask(&mut self, body: RequestBody, payload: &[u8]) -> Result {
        let request = self.owner.request(body);
        self.owner
            .ask(&mut self.rig, request, Slice::copy_from(payload))
            .answer
            .result
    }

    fn write(&mut self, at: u16, byte: u8, new: Version, previous: Version) -> Result {
        let bytes = block(byte);
        self.owner.write(
            &mut self.rig,
            CHUNK.0,
            u32::from(at) * BLOCK as u32,
            &bytes,
            new,
            previous,
        )
    }

    fn read(&mut self, at: u16) -> std::result::Result<u8, Refusal> {
        let (bytes, _) = self.owner.read(&mut self.rig, CHUNK.0, at, 1)?;
        assert_eq!(bytes, block(bytes[0]));
        Ok(bytes[0])
    }

    fn open(&mut self) -> (Version, Option<Version>) {
        match self.ask(RequestBody::Open(OpenRequest { chunk: CHUNK }), &[]) {
            Ok(AnswerBody::Opened(OpenedAnswer {
                version, incomplete, ..
            })) => (version, incomplete),
            other => panic!("{other:?}"),
        }
    }

    fn join(&mut self, at: Version) -> std::result::Result<Option<Version>, Refusal> {
        match self.ask(RequestBody::Join(JoinRequest { chunk: CHUNK, at }), &[])? {
            AnswerBody::Joined(JoinedAnswer { incomplete }) => Ok(incomplete),
            other => panic!("{other:?}"),
        }
    }

    fn whole(&mut self, version: Version) -> Result {
        self.ask(
            RequestBody::Whole(WholeRequest {
                chunk: CHUNK,
                version,
                number: SnapshotId(0),
                born: SnapshotId(0),
            }),
            &[],
        )
    }

    /// (block, expected, version, byte): the blocks that were skipped.
    fn mend(&mut self, entries: &[(u16, Expect, Version, Option<u8>)]) -> std::result::Result<Vec<u16>, Refusal> {
        let (body, payload) = mend(CHUNK, entries);
        match self.ask(body, &payload)? {
            AnswerBody::Mended(MendedAnswer { skipped }) => Ok(skipped.into_iter().map(|block| block.0).collect()),
            other => panic!("{other:?}"),
        }
    }

    /// (block, version, byte's checksum) of what is there, and what is damaged.
    fn verify(&mut self) -> (Vec<Listed>, Vec<u16>) {
        let (mut entries, mut bad) = (Vec::new(), Vec::new());
        let mut from = Some(BlockIndex(0));
        while let Some(at) = from {
            let request = RequestBody::Verify(VerifyRequest {
                chunk: CHUNK,
                from: at,
                least: Version::NONE,
            });
            let Ok(AnswerBody::Verified(VerifiedAnswer {
                entries: found,
                damaged,
                more,
            })) = self.ask(request, &[])
            else {
                panic!("a store always says what it has")
            };
            entries.extend(found.iter().map(|entry| (entry.block.0, entry.version, entry.sum)));
            bad.extend(damaged.iter().map(|block| block.0));
            assert!(more.is_none_or(|more| more > at));
            from = more;
        }
        (entries, bad)
    }
}

fn mend(chunk: ChunkIndex, entries: &[(u16, Expect, Version, Option<u8>)]) -> (RequestBody, Vec<u8>) {
    let payload: Vec<u8> = entries.iter().filter_map(|entry| entry.3).flat_map(block).collect();
    let entries = entries
        .iter()
        .map(|&(at, expect, version, byte)| Mend {
            block: BlockIndex(at),
            expect,
            version,
            sum: byte.map(|byte| crc32c(&block(byte))),
        })
        .collect();
    (RequestBody::Mend(MendRequest { chunk, entries }), payload)
}

#[test]
fn a_syncing_store_takes_writes_and_serves_nothing() {
    let mut test = Test::new().away();
    assert_eq!(test.read(0), Err(Refusal::Incomplete));
    let allocation = RequestBody::Allocation(AllocationRequest {
        chunk: CHUNK,
        least: Version::NONE,
        newest: None,
    });
    assert_eq!(test.ask(allocation.clone(), &[]), Err(Refusal::Incomplete));
    let roll = RequestBody::Roll(RollRequest {
        chunk: CHUNK,
        version: version(1, 5),
        previous: version(1, 4),
        entries: Vec::new(),
        first: true,
        last: true,
    });
    assert_eq!(test.ask(roll, &[]), Err(Refusal::Incomplete));
    assert_eq!(test.open(), (version(1, 4), None));
    assert_eq!(test.write(0, 9, version(2, 5), version(1, 4)), Ok(AnswerBody::Done));
    assert_eq!(test.read(0), Err(Refusal::Incomplete));
    // Restarted, it knows that it is not in sync before anybody tells it.
    let before = test.owner.clone();
    let mut rig = test.rig.reopened(test.rig.disk.durable.clone());
    rig.run();
    let mut test = Test { rig, owner: before };
    assert_eq!(test.read(0), Err(Refusal::Incomplete));
    // In sync again by a newer epoch: what it has is served.
    test.epoch(false);
    assert_eq!(test.read(0), Ok(9));
    assert_eq!(test.read(1), Ok(2));
}

#[test]
fn a_fence_names_the_store_somewhere_and_not_too_many() {
    let mut test = Test::new();
    let fence = |test: &mut Test, in_sync: &[u128], syncing: &[u128]| {
        test.owner.epoch = Epoch(test.owner.epoch.0 + 1);
        let ids = |list: &[u128]| list.iter().map(|&id| amita_types::StoreId(id)).collect::<Vec<_>>();
        let body = RequestBody::Fence(FenceRequest {
            owner: amita_types::NodeId(1),
            in_sync: ids(in_sync).into_iter().collect(),
            syncing: ids(syncing),
            blocks_per_chunk: 1024,
            given_back: None,
        });
        test.ask(body, &[])
    };
    let own = crate::common::STORE.0;
    let members = Err(Refusal::Invalid { what: Problem::Members });
    assert_eq!(fence(&mut test, &[1, 2], &[3]), members);
    assert_eq!(fence(&mut test, &[1, 2, 3, 4, 5], &[6, 7, 8, own]), members);
    assert_eq!(fence(&mut test, &[1, 2, 3, 4, 5], &[6, 7, own]), Ok(AnswerBody::Fenced));
    assert_eq!(test.read(0), Err(Refusal::Incomplete));
}

#[test]
fn a_chunk_that_is_where_it_should_be_stays_whole() {
    let mut test = Test::new().away();
    assert_eq!(test.join(version(1, 4)), Ok(None));
    assert_eq!(test.open(), (version(1, 4), None));
    assert_eq!(test.write(4, 5, version(2, 5), version(1, 4)), Ok(AnswerBody::Done));
    // It has gone on in the asker's history: nothing is done, however often it is asked.
    assert_eq!(test.join(version(1, 4)), Ok(None));
    assert_eq!(test.join(version(2, 5)), Ok(None));
    assert_eq!(test.open(), (version(2, 5), None));
    // What was never there is whole at no version.
    let none = RequestBody::Join(JoinRequest {
        chunk: ChunkIndex(9),
        at: Version::NONE,
    });
    assert_eq!(
        test.ask(none, &[]),
        Ok(AnswerBody::Joined(JoinedAnswer { incomplete: None }))
    );
}

#[test]
fn a_chunk_that_lacks_changes_is_incomplete_until_it_is_said_to_be_whole() {
    let mut test = Test::new().away();
    assert_eq!(test.join(version(1, 7)), Ok(Some(version(1, 4))));
    assert_eq!(test.open(), (version(1, 7), Some(version(1, 4))));
    assert_eq!(test.write(5, 6, version(2, 8), version(1, 7)), Ok(AnswerBody::Done));
    // Asked again, also after a crash, it is what it is.
    assert_eq!(test.join(version(1, 7)), Ok(Some(version(1, 4))));
    let mut test = test.crashed();
    assert_eq!(test.open(), (version(2, 8), Some(version(1, 4))));
    // Only exactly what is expected is replaced.
    let entries = [
        (0, entry(version(1, 1), Some(1)), version(1, 5), Some(50)),
        (1, entry(version(1, 2), Some(9)), version(1, 6), Some(60)),
        (2, entry(version(1, 9), Some(3)), version(1, 6), Some(60)),
        (3, entry(version(1, 4), Some(4)), Version::NONE, None),
        (4, NEVER, version(1, 6), None),
        (5, NEVER, version(1, 7), Some(70)),
        (6, Expect::Upto { version: version(1, 3) }, version(1, 7), Some(70)),
    ];
    assert_eq!(test.mend(&entries), Ok(vec![1, 2, 5]));
    // What is as it should be already is not skipped: a lost answer makes the same mend come again.
    assert_eq!(test.mend(&entries), Ok(vec![1, 2, 5]));
    let wrong = Err(Refusal::WrongPredecessor { current: version(2, 8) });
    assert_eq!(test.whole(version(2, 7)), wrong);
    assert_eq!(test.whole(version(2, 8)), Ok(AnswerBody::Done));
    assert_eq!(test.whole(version(2, 8)), Ok(AnswerBody::Done));
    assert_eq!(test.open(), (version(2, 8), None));
    let mut test = test.crashed();
    assert_eq!(test.open(), (version(2, 8), None));
    let found = test.verify();
    let sum = |byte| Some(crc32c(&block(byte)));
    let expected = vec![
        (0, version(1, 5), sum(50)),
        (1, version(1, 2), sum(2)),
        (2, version(1, 3), sum(3)),
        (4, version(1, 6), None),
        (5, version(2, 8), sum(6)),
        (6, version(1, 7), sum(70)),
    ];
    assert_eq!(found, (expected, vec![]));
    test.epoch(false);
    let bytes: Vec<u8> = (0..8).map(|at| test.read(at).unwrap()).collect();
    assert_eq!(bytes, [50, 2, 3, 0, 0, 6, 70, 0]);
}

#[test]
fn a_history_may_go_back() {
    let mut test = Test::new().away();
    assert_eq!(test.join(version(1, 2)), Ok(Some(version(1, 4))));
    let wrong = Err(Refusal::WrongPredecessor { current: version(1, 2) });
    assert_eq!(test.write(0, 9, version(2, 5), version(1, 4)), wrong);
    assert_eq!(test.write(0, 9, version(2, 3), version(1, 2)), Ok(AnswerBody::Done));
    let mut test = test.crashed();
    assert_eq!(test.open(), (version(2, 3), Some(version(1, 4))));
    // Another owner's history begins elsewhere again; what it was last whole at stays.
    test.take_over(true);
    assert_eq!(test.join(Version::NONE), Ok(Some(version(1, 4))));
    assert_eq!(test.open(), (Version::NONE, Some(version(1, 4))));
    let mut test = test.crashed();
    assert_eq!(test.open(), (Version::NONE, Some(version(1, 4))));
    let entries = [
        (0, entry(version(2, 3), Some(9)), Version::NONE, None),
        (1, entry(version(1, 2), Some(2)), Version::NONE, None),
        (2, entry(version(1, 3), Some(3)), Version::NONE, None),
        (3, entry(version(1, 4), Some(4)), Version::NONE, None),
    ];
    assert_eq!(test.mend(&entries), Ok(vec![]));
    assert_eq!(test.whole(Version::NONE), Ok(AnswerBody::Done));
    assert_eq!(test.open(), (Version::NONE, None));
    assert_eq!(test.write(7, 8, version(3, 1), Version::NONE), Ok(AnswerBody::Done));
    let mut test = test.crashed();
    test.epoch(false);
    let bytes: Vec<u8> = (0..8).map(|at| test.read(at).unwrap()).collect();
    assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 8]);
    crate::common::check::is_clean(&test.rig.disk.durable, true);
}

#[test]
fn a_chunk_that_was_never_there_joins_with_nothing() {
    let mut test = Test::new().away();
    let chunk = ChunkIndex(8);
    let at = version(1, 5);
    let join = RequestBody::Join(JoinRequest { chunk, at });
    let joined = Ok(AnswerBody::Joined(JoinedAnswer {
        incomplete: Some(Version::NONE),
    }));
    assert_eq!(test.ask(join.clone(), &[]), joined);
    let mut test = test.crashed();
    assert_eq!(test.ask(join, &[]), joined);
    let (body, payload) = mend(chunk, &[(9, NEVER, version(1, 5), Some(7))]);
    assert_eq!(
        test.ask(body, &payload),
        Ok(AnswerBody::Mended(MendedAnswer { skipped: vec![] }))
    );
    assert_eq!(
        test.ask(
            RequestBody::Whole(WholeRequest {
                chunk,
                version: at,
                number: SnapshotId(0),
                born: SnapshotId(0)
            }),
            &[]
        ),
        Ok(AnswerBody::Done)
    );
    test.epoch(false);
    let (bytes, found) = test.owner.read(&mut test.rig, chunk.0, 9, 1).unwrap();
    assert_eq!((bytes, found), (block(7), at));
}

#[test]
fn a_store_in_sync_keeps_what_it_has() {
    let mut test = Test::new();
    let members = Err(Refusal::Invalid { what: Problem::Members });
    assert_eq!(test.join(version(1, 9)), members.map(|_: ()| None));
    assert_eq!(test.join(version(1, 4)), Ok(None));
    // It was made whole as far as it went and counted in: its incomplete chunks serve nothing.
    let mut test = test.away();
    assert_eq!(test.join(version(1, 9)), Ok(Some(version(1, 4))));
    test.epoch(false);
    assert_eq!(test.read(0), Err(Refusal::Incomplete));
    assert_eq!(test.open(), (version(1, 9), Some(version(1, 4))));
    assert_eq!(test.whole(version(1, 9)), Ok(AnswerBody::Done));
    assert_eq!(test.read(0), Ok(1));
    // What is not above the chunk's version may be replaced where it is whole, and nothing else.
    let above = [(0, entry(version(1, 1), Some(1)), version(2, 10), Some(5))];
    let wrong = Err(Refusal::Invalid { what: Problem::Version });
    assert_eq!(test.mend(&above), wrong);
    let again = [(0, entry(version(1, 1), Some(1)), version(1, 1), Some(1))];
    assert_eq!(test.mend(&again), Ok(vec![]));
    assert_eq!(test.read(0), Ok(1));
}

#[test]
fn what_is_wrong_with_a_mend_is_said() {
    let mut test = Test::new().away();
    test.join(version(1, 9)).unwrap();
    let invalid = |what| Err(Refusal::Invalid { what });
    let refused = |what| -> Result { Err(Refusal::Invalid { what }) };
    let one = |at, new, byte| [(at, NEVER, new, byte)];
    assert_eq!(test.mend(&one(0, Version::NONE, Some(1))), invalid(Problem::Version));
    assert_eq!(test.mend(&one(0, version(3, 1), Some(1))), invalid(Problem::Version));
    assert_eq!(test.mend(&one(1024, version(1, 1), Some(1))), invalid(Problem::Range));
    let twice = [one(5, version(1, 1), None)[0], one(5, version(1, 1), None)[0]];
    assert_eq!(test.mend(&twice), invalid(Problem::Range));
    let (body, mut payload) = mend(CHUNK, &one(5, version(1, 1), Some(1)));
    payload[7] ^= 1;
    assert_eq!(test.ask(body.clone(), &payload), refused(Problem::Checksum));
    payload.pop();
    assert_eq!(test.ask(body, &payload), refused(Problem::Length));
    // A chunk that is not there gets nothing.
    let (body, payload) = mend(ChunkIndex(77), &one(5, version(1, 1), Some(1)));
    assert_eq!(test.ask(body, &payload), refused(Problem::Version));
    let (body, payload) = mend(
        ChunkIndex(77),
        &[
            (5, NEVER, Version::NONE, None),
            (6, entry(version(1, 1), None), Version::NONE, None),
        ],
    );
    let skipped = vec![];
    assert_eq!(
        test.ask(body, &payload),
        Ok(AnswerBody::Mended(MendedAnswer { skipped }))
    );
}

/// Changes that are accepted and not durable count, in their order.
#[test]
fn a_mend_sees_what_was_accepted_before_it() {
    let mut test = Test::new().away();
    test.join(version(1, 7)).unwrap();
    let link = test.owner.link;
    let mut ids = Vec::new();
    let mut send = |test: &mut Test, body: RequestBody, payload: &[u8]| {
        let request = test.owner.request(body);
        ids.push(request.id);
        test.rig.send(link, request, Slice::copy_from(payload));
    };
    let bytes = vec![7; 100];
    let request = test
        .owner
        .write_request(CHUNK.0, 50, &bytes, version(2, 8), version(1, 7));
    // It merges with the block of before, so that its checksum is known late.
    let mut merged = block(1);
    merged[50..150].fill(7);
    send(&mut test, request.body, &bytes);
    let after = Expect::Entry {
        version: version(2, 8),
        sum: Some(crc32c(&merged)),
    };
    let (body, payload) = mend(
        CHUNK,
        &[
            (0, entry(version(1, 1), Some(1)), version(1, 5), Some(50)),
            (1, entry(version(1, 2), Some(2)), version(1, 6), Some(60)),
        ],
    );
    send(&mut test, body, &payload);
    let (body, payload) = mend(
        CHUNK,
        &[
            (0, after, version(1, 3), Some(33)),
            (1, entry(version(1, 6), Some(60)), version(1, 5), None),
        ],
    );
    send(&mut test, body, &payload);
    let request = test
        .owner
        .write_request(CHUNK.0, 0, &bytes, version(2, 9), version(2, 8));
    send(&mut test, request.body, &bytes);
    send(
        &mut test,
        RequestBody::Whole(WholeRequest {
            chunk: CHUNK,
            version: version(2, 9),
            number: SnapshotId(0),
            born: SnapshotId(0),
        }),
        &[],
    );
    send(&mut test, RequestBody::Open(OpenRequest { chunk: CHUNK }), &[]);
    test.rig.run();
    let mut told = ids.iter().map(|&id| {
        test.rig
            .take(link, id)
            .expect("all are answered")
            .answer
            .result
            .unwrap()
    });
    assert_eq!(told.next(), Some(AnswerBody::Done));
    let skipped = |blocks: &[u16]| {
        AnswerBody::Mended(MendedAnswer {
            skipped: blocks.iter().map(|&block| BlockIndex(block)).collect(),
        })
    };
    assert_eq!(told.next(), Some(skipped(&[0])));
    assert_eq!(told.next(), Some(skipped(&[])));
    assert_eq!(told.next(), Some(AnswerBody::Done));
    assert_eq!(told.next(), Some(AnswerBody::Done));
    let opened = AnswerBody::Opened(OpenedAnswer {
        version: version(2, 9),
        incomplete: None,
        ..OpenedAnswer::NOTHING
    });
    assert_eq!(told.next(), Some(opened));
    test.epoch(false);
    let (bytes, _) = test.owner.read(&mut test.rig, CHUNK.0, 0, 2).unwrap();
    assert_eq!(bytes[..100], [7; 100]);
    assert_eq!(bytes[100..BLOCK], vec![33; BLOCK - 100]);
    assert_eq!(bytes[BLOCK..], block(0));
}

/// A repair on a store that is in sync: the block reads well again (rule D7).
#[test]
fn a_rotten_block_is_mended() {
    let mut test = Test::new();
    test.rig.run();
    let image = test.rig.disk.view.clone();
    let slot = (0..image.len() / BLOCK)
        .rfind(|&at| image[at * BLOCK..(at + 1) * BLOCK] == block(2))
        .unwrap();
    for copy in [&mut test.rig.disk.view, &mut test.rig.disk.durable] {
        copy[slot * BLOCK + 99] ^= 4;
    }
    let damaged = Refusal::Damaged { block: BlockIndex(1) };
    assert_eq!(test.read(1), Err(damaged.clone()));
    let partial = test.owner.write(
        &mut test.rig,
        CHUNK.0,
        BLOCK as u32 + 5,
        &[1, 2, 3],
        version(1, 5),
        version(1, 4),
    );
    assert_eq!(partial, Err(damaged));
    let sum = |byte| Some(crc32c(&block(byte)));
    let (entries, bad) = test.verify();
    assert_eq!((entries[1], bad), ((1, version(1, 2), sum(2)), vec![1]));
    let free = test.rig.store.status().free_bytes;
    let again = [(1, entry(version(1, 2), Some(2)), version(1, 2), Some(2))];
    assert_eq!(test.mend(&again), Ok(vec![]));
    assert_eq!(test.read(1), Ok(2));
    let mut test = test.crashed();
    assert_eq!(test.read(1), Ok(2));
    assert!(test.verify().1.is_empty());
    assert_eq!(test.open(), (version(1, 4), None));
    assert_eq!(test.rig.store.status().free_bytes, free);
    // An unreadable one is damage of that block, too, and no reason to give up the store.
    let start = (slot * BLOCK) as u64;
    let two = test
        .rig
        .disk
        .view
        .chunks(BLOCK)
        .rposition(|bytes| bytes == block(2))
        .unwrap()
        * BLOCK;
    assert_ne!(two as u64, start);
    test.rig.broken = Some(two as u64..two as u64 + 1);
    assert_eq!(test.verify().1, vec![1]);
    assert_eq!(test.read(1), Err(Refusal::Damaged { block: BlockIndex(1) }));
    assert_eq!(test.mend(&again), Ok(vec![]));
    assert_eq!(test.read(1), Ok(2));
}

#[test]
fn chunks_are_listed_group_by_group_and_page_by_page() {
    let mut test = Test::of(256 << 20);
    let list = |test: &mut Test, (core, cores, groups): (u16, u16, u32)| {
        let mut all = Vec::new();
        let mut from = Some(ChunkIndex(0));
        while let Some(at) = from {
            let body = RequestBody::Chunks(ChunksRequest {
                from: at,
                core,
                cores,
                groups,
                place: None,
            });
            let Ok(AnswerBody::Chunks(ChunksAnswer { chunks, more })) = test.ask(body, &[]) else {
                panic!("a list is always given")
            };
            assert!(chunks.len() <= MAX_LISTED_CHUNKS);
            all.extend(chunks);
            from = more;
        }
        all
    };
    let state = |chunk, version| ChunkState {
        chunk,
        version,
        incomplete: None,
    };
    let mut expected = vec![state(CHUNK, version(1, 4))];
    let mut make = |test: &mut Test, index: u64| {
        let chunk = ChunkIndex(index);
        let clear = RequestBody::Clear(ClearRequest {
            chunk,
            range: BlockRange::new(0, 1),
            version: version(1, 1),
            previous: Version::NONE,
        });
        assert_eq!(test.ask(clear, &[]), Ok(AnswerBody::Done));
        expected.push(state(chunk, version(1, 1)));
    };
    for index in 100..400 {
        make(&mut test, index);
    }
    // More of them come while the list is kept, before and behind those that it has.
    assert_eq!(list(&mut test, (0, 1, 1)).len(), 301);
    for index in (10..30).chain(5000..5020) {
        make(&mut test, index);
    }
    expected.sort_unstable_by_key(|state| state.chunk);
    assert_eq!(list(&mut test, (0, 1, 1)), expected);
    for core in 0..3 {
        let found = list(&mut test, (core, 3, 4));
        let own = |state: &&ChunkState| {
            let id = ChunkId {
                volume: VOLUME,
                index: state.chunk,
            };
            id.group(4) == GroupIndex(0) && id.core(3) == usize::from(core)
        };
        let of_core: Vec<ChunkState> = expected.iter().filter(own).copied().collect();
        assert!(of_core.len() > 10);
        assert_eq!(found, of_core);
    }
    // A deleted one is not listed.
    let keep = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
        chunk: expected[3].chunk,
        head: false,
        above: SnapshotId::HEAD,
        to: SnapshotId(u32::MAX),
        live: Vec::new(),
    });
    assert_eq!(test.ask(keep, &[]), Ok(AnswerBody::Done));
    expected.remove(3);
    assert_eq!(list(&mut test, (0, 1, 1)), expected);
    for (core, cores, groups) in [(0, 0, 4), (3, 3, 4), (0, 1, 3), (0, 1, 0)] {
        let body = RequestBody::Chunks(ChunksRequest {
            from: ChunkIndex(0),
            core,
            cores,
            groups,
            place: None,
        });
        let what = Problem::Range;
        assert_eq!(test.ask(body, &[]), Err(Refusal::Invalid { what }));
    }
}

/// What a chunk that was once another one has kept for snapshots goes before it is whole, and what it shares with them stays.
#[test]
fn snapshots_of_another_history_are_not_served() {
    let mut test = Test::new();
    let snapshot = |test: &mut Test, at: u16, byte: u8, new, previous, snapshot| {
        let bytes = block(byte);
        let mut request = test
            .owner
            .write_request(CHUNK.0, u32::from(at) * BLOCK as u32, &bytes, new, previous);
        request.scope.snapshot = SnapshotId(snapshot);
        let told = test.owner.ask(&mut test.rig, request, Slice::copy_from(&bytes));
        assert_eq!(told.answer.result, Ok(AnswerBody::Done));
    };
    let read = |test: &mut Test, at: u16, snapshot| {
        let mut request = test.owner.read_request(CHUNK.0, at, 1, Version::NONE);
        request.scope.snapshot = SnapshotId(snapshot);
        let told = test.owner.ask(&mut test.rig, request, Slice::default());
        told.answer.result.map(|_| told.payload.first().copied().unwrap_or(0))
    };
    snapshot(&mut test, 0, 11, version(1, 5), version(1, 4), 1);
    assert_eq!(read(&mut test, 0, 1), Ok(1));
    let mut test = test.away();
    assert_eq!(test.join(version(1, 3)), Ok(Some(version(1, 5))));
    // Older entries than the snapshot's, put there and replaced again: their slots return, the snapshot's do not.
    let mends = [
        (1, entry(version(1, 2), Some(2)), version(1, 1), Some(21)),
        (2, entry(version(1, 3), Some(3)), version(1, 1), Some(22)),
    ];
    assert_eq!(test.mend(&mends), Ok(vec![]));
    snapshot(&mut test, 1, 31, version(2, 4), version(1, 3), 2);
    snapshot(&mut test, 0, 32, version(2, 5), version(2, 4), 2);
    let mut test = test.crashed();
    // Not at the number that it had before.
    assert_eq!(test.whole(version(2, 5)), Err(Refusal::Busy));
    // The owner knows of no such state: it goes, and what it shares with the chunk stays.
    let drop = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
        chunk: CHUNK,
        head: true,
        above: SnapshotId::HEAD,
        to: SnapshotId(u32::MAX),
        live: Vec::new(),
    });
    assert_eq!(test.ask(drop, &[]), Ok(AnswerBody::Done));
    let whole = RequestBody::Whole(WholeRequest {
        chunk: CHUNK,
        version: version(2, 5),
        number: SnapshotId(2),
        born: SnapshotId(1),
    });
    assert_eq!(test.ask(whole, &[]), Ok(AnswerBody::Done));
    test.epoch(false);
    let mut test = test.crashed();
    snapshot(&mut test, 3, 33, version(2, 6), version(2, 5), 3);
    // It was made after the first snapshot, and what it was for the second is not there.
    assert_eq!(read(&mut test, 0, 1), Ok(0));
    let what = Problem::Snapshot;
    assert_eq!(read(&mut test, 0, 2), Err(Refusal::Invalid { what }));
    assert_eq!(read(&mut test, 3, 3), Ok(4));
    assert_eq!(read(&mut test, 3, 0), Ok(33));
    crate::common::check::is_clean(&test.rig.disk.durable, true);
    // All of it goes, and nothing is left.
    let keep = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
        chunk: CHUNK,
        head: false,
        above: SnapshotId::HEAD,
        to: SnapshotId(u32::MAX),
        live: Vec::new(),
    });
    assert_eq!(test.ask(keep, &[]), Ok(AnswerBody::Done));
    assert_eq!(test.rig.store.status().blocks, 0);
}
