//! Snapshots, clones and deletion, step by step.

mod many;
mod pages;

use crate::common::{BLOCK, Requester, Rig, VOLUME, version};
use amita_reactor::Slice;
use amita_store::{AskedVolume, Count, Question, State};
use amita_types::message::{
    AllocationRequest, AnswerBody, ClearRequest, CloneRequest, DifferRequest, InheritRequest, OpenedAnswer, Problem,
    ReadRequest, Refusal, RequestBody, RetainSnapshotsRequest,
};
use amita_types::{BlockRange, ChunkIndex, Generation, GroupIndex, SnapshotId, Version, VolumeId};
use std::sync::Arc;
use std::time::Duration;

const CLONE: VolumeId = VolumeId(70);
/// Of which there is nothing.
const OTHER: VolumeId = VolumeId(60);
const OF_CLONE: VolumeId = VolumeId(71);

fn version_or_none(counter: u64) -> Version {
    if counter == 0 {
        Version::NONE
    } else {
        version(1, counter)
    }
}

struct Test {
    rig: Rig,
    asker: Requester,
    volume: VolumeId,
    counter: u64,
    snapshot: SnapshotId,
    /// Chunks that were written, a block each, to have a checkpoint.
    elsewhere: u64,
}

impl Test {
    fn new() -> Test {
        Test::sized(4 << 20)
    }

    /// On a store of so many bytes.
    fn sized(bytes: u64) -> Test {
        let rig = Rig::fresh(bytes, true);
        let mut test = Test {
            rig,
            asker: Requester::new(1),
            volume: VOLUME,
            counter: 0,
            snapshot: SnapshotId::HEAD,
            elsewhere: 0,
        };
        test.fence();
        test
    }

    fn fence(&mut self) {
        let mut request = self.asker.fence_request();
        request.scope.volume = self.volume;
        let told = self.asker.ask(&mut self.rig, request, Slice::default());
        assert_eq!(told.answer.result, Ok(AnswerBody::Fenced));
    }

    fn ask(
        &mut self,
        snapshot: SnapshotId,
        body: RequestBody,
        payload: &[u8],
    ) -> Result<(AnswerBody, Vec<u8>), Refusal> {
        let mut request = self.asker.request(body);
        request.scope.snapshot = snapshot;
        request.scope.volume = self.volume;
        let told = self.asker.ask(&mut self.rig, request, Slice::copy_from(payload));
        told.answer.result.map(|body| (body, told.payload.to_vec()))
    }

    fn write(&mut self, block: u16, fill: u8) -> Result<(), Refusal> {
        let bytes = vec![fill; BLOCK];
        let (next, previous) = (version(1, self.counter + 1), version_or_none(self.counter));
        let offset = u32::from(block) * BLOCK as u32;
        let request = self.asker.write_request(0, offset, &bytes, next, previous);
        self.ask(self.snapshot, request.body, &bytes)?;
        self.counter += 1;
        Ok(())
    }

    fn clear(&mut self, first: u16, count: u16) {
        let body = RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(0),
            range: BlockRange::new(first, count),
            version: version(1, self.counter + 1),
            previous: version(1, self.counter),
        });
        self.ask(self.snapshot, body, &[]).unwrap();
        self.counter += 1;
    }

    fn read(&mut self, at: u32, block: u16) -> Result<u8, Refusal> {
        let body = RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(0),
            range: BlockRange::new(block, 1),
            least: Version::NONE,
            versions: false,
            newest: None,
        });
        let (_, bytes) = self.ask(SnapshotId(at), body, &[])?;
        assert!(bytes.iter().all(|&byte| Some(&byte) == bytes.first()));
        Ok(bytes.first().copied().unwrap_or(0))
    }

    fn keep(&mut self, head: bool, to: u32, live: &[u32]) -> Result<(), Refusal> {
        let body = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
            chunk: ChunkIndex(0),
            head,
            above: SnapshotId(0),
            to: SnapshotId(to),
            live: live.iter().copied().map(SnapshotId).collect(),
        });
        self.ask(SnapshotId::HEAD, body, &[]).map(|_| ())
    }

    fn remount(&mut self) {
        self.rig.run();
        let image = self.rig.disk.view.clone();
        self.rig = self.rig.reopened(image);
        self.rig.run();
        assert_eq!(*self.rig.store.state(), State::Serving);
        self.fence();
    }

    /// Writes elsewhere until a checkpoint has passed.
    fn checkpoint(&mut self) {
        let before = self.rig.store.status().counters.checkpoints;
        let mut counter = 0;
        let index = 1000 + self.elsewhere;
        self.elsewhere += 1;
        while self.rig.store.status().counters.checkpoints == before {
            let (next, previous) = (version(1, counter + 1), version_or_none(counter));
            self.asker
                .write(&mut self.rig, index, 0, &[9; BLOCK], next, previous)
                .unwrap();
            counter += 1;
            assert!(counter < 1000);
        }
    }

    fn blocks(&self) -> u64 {
        self.rig.store.status().blocks
    }
}

#[test]
fn a_snapshot_stays_what_it_was() {
    for checkpoints in [false, true] {
        let mut test = Test::new();
        for block in 0..200 {
            test.write(block, 1).unwrap();
        }
        test.snapshot = SnapshotId(1);
        test.write(3, 2).unwrap();
        test.snapshot = SnapshotId(4);
        test.clear(0, 128);
        test.write(150, 3).unwrap();
        if checkpoints {
            test.checkpoint();
        }
        let check = |test: &mut Test| {
            for at in [1, 2, 4] {
                assert_eq!(test.read(at, 4), Ok(1), "{at}");
                assert_eq!(test.read(at, 150), Ok(1), "{at}");
            }
            assert_eq!(test.read(1, 3), Ok(1));
            assert_eq!(test.read(2, 3), Ok(2));
            assert_eq!(test.read(4, 3), Ok(2));
            for now in [0, 5] {
                assert_eq!(test.read(now, 3), Ok(0));
                assert_eq!(test.read(now, 150), Ok(3));
                assert_eq!(test.read(now, 160), Ok(1));
            }
        };
        check(&mut test);
        test.remount();
        check(&mut test);
        let blocks = test.blocks();
        let wrong = Err(Refusal::Invalid {
            what: Problem::Snapshot,
        });
        test.snapshot = SnapshotId(3);
        assert_eq!(test.write(0, 9), wrong, "an older snapshot than the last change named");
        // Nothing is given back that the other one still shows.
        test.keep(true, 4, &[1, 4]).unwrap();
        assert_eq!(test.blocks(), blocks);
        test.keep(true, 4, &[4]).unwrap();
        assert_eq!(test.blocks(), blocks - 1, "block 3 as it was first");
        assert_eq!(test.read(1, 3).map(|_| ()), wrong);
        assert_eq!(test.read(4, 3), Ok(2));
        test.keep(true, 4, &[]).unwrap();
        assert_eq!(test.blocks(), blocks - 1 - 128 - 1);
        assert_eq!(test.read(0, 160), Ok(1));
        test.remount();
        assert_eq!(test.read(0, 160), Ok(1));
        test.keep(false, 4, &[]).unwrap();
        assert_eq!(test.read(0, 160), Ok(0), "as if it had never been written");
        assert_eq!(test.blocks(), u64::from(checkpoints));
        test.remount();
        assert_eq!(test.blocks(), u64::from(checkpoints));
    }
}

/// Rule R8: the store has forgotten some of what it had answered, and what the chunk was before passes for no snapshot.
#[test]
fn who_lacks_some_of_the_chunk_shows_no_snapshot_of_it() {
    let mut test = Test::new();
    test.write(0, 1).unwrap();
    test.snapshot = SnapshotId(1);
    test.write(1, 2).unwrap();
    let asks = |chunk, newest| {
        let (chunk, least) = (ChunkIndex(chunk), Version::NONE);
        let read = ReadRequest {
            chunk,
            range: BlockRange::new(0, 1),
            least,
            versions: false,
            newest,
        };
        let differ = DifferRequest {
            chunk,
            since: SnapshotId(1),
            least,
            newest,
        };
        [
            RequestBody::Allocation(AllocationRequest { chunk, least, newest }),
            RequestBody::Differ(differ),
            RequestBody::Read(read),
        ]
    };
    // Of both snapshots, the one that it has a state for, and the one that its head passes for; and of what was never written here.
    for (at, chunk, current) in [(1, 0, version(1, 2)), (2, 0, version(1, 2)), (2, 1, Version::NONE)] {
        for body in asks(chunk, Some(version(1, 3))) {
            if at == 1 && matches!(body, RequestBody::Differ(_)) {
                continue;
            }
            let refused = Err(Refusal::Behind { current });
            assert_eq!(test.ask(SnapshotId(at), body, &[]), refused);
        }
    }
    test.write(1, 3).unwrap();
    let versions = |test: &mut Test, at, newest| {
        let named = |body| match test.ask(SnapshotId(at), body, &[]).unwrap().0 {
            AnswerBody::Allocation(answer) => answer.version,
            AnswerBody::Differs(answer) => answer.version,
            AnswerBody::Data(_) => None,
            other => panic!("{other:?}"),
        };
        asks(0, newest).map(named)
    };
    let now = Some(version(1, 3));
    assert_eq!(versions(&mut test, 2, now), [now, now, None]);
    assert_eq!(versions(&mut test, 2, None), [None, None, None]);
    // What the chunk itself has at least is said by `least`.
    assert_eq!(versions(&mut test, 0, Some(version(1, 9))), [now, now, None]);
}

#[test]
fn a_clone_shares_slots_and_goes_its_own_way() {
    for checkpoints in [false, true] {
        let mut test = Test::new();
        for block in 0..300 {
            test.write(block, 1).unwrap();
        }
        test.snapshot = SnapshotId(1);
        test.write(3, 2).unwrap();
        let blocks = test.blocks();
        let origin = test.volume;
        test.volume = CLONE;
        test.fence();
        let clone = |test: &mut Test, at: u32| {
            let body = RequestBody::Clone(CloneRequest {
                chunk: ChunkIndex(0),
                origin,
                at: SnapshotId(at),
            });
            test.ask(SnapshotId::HEAD, body, &[]).map(|_| ())
        };
        if checkpoints {
            test.checkpoint();
        }
        let blocks = blocks + u64::from(checkpoints);
        clone(&mut test, 1).unwrap();
        clone(&mut test, 1).unwrap();
        assert_eq!(test.blocks(), blocks, "no data is copied");
        assert_eq!(test.read(0, 3), Ok(1));
        let at = test.counter;
        // The clone goes on from the version that its origin had.
        test.counter = 300;
        test.snapshot = SnapshotId::HEAD;
        test.write(4, 7).unwrap();
        test.write(5, 7).unwrap();
        assert_eq!(test.blocks(), blocks + 2);
        if checkpoints {
            test.checkpoint();
        }
        let blocks = test.blocks();
        let check = |test: &mut Test| {
            assert_eq!(
                (test.read(0, 3), test.read(0, 4), test.read(0, 6)),
                (Ok(1), Ok(7), Ok(1))
            );
            test.volume = origin;
            assert_eq!(
                (test.read(0, 3), test.read(0, 4), test.read(1, 3)),
                (Ok(2), Ok(1), Ok(1))
            );
            test.volume = CLONE;
        };
        check(&mut test);
        test.remount();
        check(&mut test);
        assert_eq!(test.blocks(), blocks);
        // The origin goes: what the clone shows stays.
        test.volume = origin;
        test.counter = at;
        test.keep(false, 1, &[]).unwrap();
        assert_eq!(
            test.blocks(),
            blocks - 3,
            "the blocks that only the origin or its snapshot had"
        );
        test.volume = CLONE;
        assert_eq!(
            (test.read(0, 3), test.read(0, 4), test.read(0, 6)),
            (Ok(1), Ok(7), Ok(1))
        );
        test.remount();
        assert_eq!(
            (test.read(0, 3), test.read(0, 4), test.read(0, 6)),
            (Ok(1), Ok(7), Ok(1))
        );
        test.keep(false, 0, &[]).unwrap();
        assert_eq!(test.blocks(), blocks - 3 - 300);
        assert_eq!(*test.rig.store.state(), State::Serving);
    }
}

impl Test {
    /// What the clone's chunk has from its parents (S8), or it is made so.
    fn inherit(&mut self, make: Version, parents: &[(VolumeId, u32)]) -> Result<AnswerBody, Refusal> {
        let parents = parents.iter().map(|&(volume, at)| (volume, SnapshotId(at)));
        let body = RequestBody::Inherit(InheritRequest {
            chunk: ChunkIndex(0),
            version: make,
            parents: parents.collect(),
        });
        self.ask(SnapshotId::HEAD, body, &[]).map(|(body, _)| body)
    }

    /// The clone's owner, whose generation is above that of what it was cloned from.
    fn own_clone(&mut self, volume: VolumeId) {
        self.volume = volume;
        self.asker.generation = Generation(2);
        self.fence();
    }
}

fn inherited(version: Version) -> Result<AnswerBody, Refusal> {
    Ok(AnswerBody::Opened(OpenedAnswer {
        version,
        ..OpenedAnswer::NOTHING
    }))
}

#[test]
fn a_clone_has_what_its_nearest_parent_has() {
    for checkpoints in [false, true] {
        let mut test = Test::new();
        let origin = test.volume;
        for block in 0..200 {
            test.write(block, 1).unwrap();
        }
        let at_one = version(1, 200);
        test.snapshot = SnapshotId(1);
        test.write(3, 2).unwrap();
        if checkpoints {
            test.checkpoint();
        }
        let blocks = test.blocks();
        let parents = [(OTHER, 1), (origin, 1)];
        test.own_clone(CLONE);
        assert_eq!(
            test.inherit(Version::NONE, &parents),
            inherited(at_one),
            "the nearest has no such chunk"
        );
        assert_eq!(test.inherit(Version::NONE, &[(OTHER, 1)]), inherited(Version::NONE));
        let what = Problem::Version;
        let other = version(1, 199);
        assert_eq!(test.inherit(other, &parents), Err(Refusal::Invalid { what }));
        assert_eq!(test.blocks(), blocks, "asked, and nothing made");
        assert_eq!(test.inherit(at_one, &parents), Ok(AnswerBody::Done));
        assert_eq!(test.inherit(at_one, &parents), Ok(AnswerBody::Done), "once more");
        assert_eq!(test.blocks(), blocks, "no data is copied");
        let check = |test: &mut Test| {
            assert_eq!(
                (test.read(0, 3), test.read(0, 199), test.read(0, 200)),
                (Ok(1), Ok(1), Ok(0))
            );
        };
        check(&mut test);
        // A clone of the clone: its own state counts now, and not that of the root.
        let at = 5 * BLOCK as u32;
        let own = test.asker.write_request(0, at, &[7; BLOCK], version(2, 201), at_one);
        test.ask(SnapshotId(1), own.body, &[7; BLOCK]).unwrap();
        assert_eq!((test.read(0, 5), test.read(1, 5)), (Ok(7), Ok(1)));
        test.volume = OF_CLONE;
        test.asker.generation = Generation(3);
        test.fence();
        let parents = [(CLONE, 2), (origin, 1)];
        assert_eq!(test.inherit(InheritRequest::ANY, &parents), Ok(AnswerBody::Done));
        assert_eq!((test.read(0, 5), test.read(0, 3)), (Ok(7), Ok(1)));
        test.remount();
        assert_eq!((test.read(0, 5), test.read(0, 3)), (Ok(7), Ok(1)));
        assert_eq!(*test.rig.store.state(), State::Serving);
    }
}

#[test]
fn a_busy_parent_keeps_no_clone_waiting() {
    let mut test = Test::new();
    let origin = test.volume;
    for block in 0..100 {
        test.write(block, 1).unwrap();
    }
    let at_one = version(1, 100);
    test.own_clone(CLONE);
    test.volume = origin;
    test.asker.generation = Generation(1);
    // A write with the number of the snapshot is under way at the parent: what was there goes to its state.
    let bytes = vec![5; BLOCK];
    let mut request = test.asker.write_request(0, 0, &bytes, version(1, 101), at_one);
    request.scope.snapshot = SnapshotId(1);
    let id = request.id;
    test.rig.send(test.asker.link, request, Slice::copy_from(&bytes));
    assert!(test.rig.take(test.asker.link, id).is_none(), "it is not durable");
    test.volume = CLONE;
    test.asker.generation = Generation(2);
    let parents = [(origin, 1)];
    assert_eq!(test.inherit(at_one, &parents), Ok(AnswerBody::Done));
    let told = test.rig.take(test.asker.link, id).expect("it is durable");
    assert_eq!(told.answer.result, Ok(AnswerBody::Done));
    assert_eq!((test.read(0, 0), test.read(0, 99)), (Ok(1), Ok(1)));
    test.remount();
    assert_eq!((test.read(0, 0), test.read(0, 99)), (Ok(1), Ok(1)));
    test.volume = origin;
    test.asker.generation = Generation(1);
    assert_eq!((test.read(0, 0), test.read(1, 0)), (Ok(5), Ok(1)));
}

/// Where slots will be free again when the next checkpoint ends, there is one: who asks for a clone's chunk is not put off for ever.
#[test]
fn who_asks_a_full_store_for_a_chunk_is_told_so() {
    let mut test = Test::new();
    let origin = test.volume;
    for block in 0..100 {
        test.write(block, 1).unwrap();
    }
    let (mut counter, mut full) = (0, 0);
    while full < 3 {
        let (next, previous) = (version(1, counter + 1), version_or_none(counter));
        let offset = (counter % 1024) as u32 * BLOCK as u32;
        match test.asker.write(&mut test.rig, 5, offset, &[9; BLOCK], next, previous) {
            Ok(_) => counter += 1,
            Err(Refusal::NoSpace) => full += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    test.own_clone(CLONE);
    let told = (0..500).find_map(|_| {
        test.rig.advance(Duration::from_millis(10));
        match test.inherit(version(1, 100), &[(origin, 1)]) {
            Err(Refusal::Busy) => None,
            told => Some(told),
        }
    });
    let told = told.expect("it is put off for ever");
    assert!(matches!(told, Ok(AnswerBody::Done) | Err(Refusal::NoSpace)), "{told:?}");
}

/// S3: the number belongs to the version.
#[test]
fn what_is_sent_again_with_another_number_is_refused() {
    let mut test = Test::new();
    test.write(0, 1).unwrap();
    let again = |test: &mut Test, number: u32| {
        let request = test
            .asker
            .write_request(0, 0, &[1; BLOCK], version(1, 1), Version::NONE);
        test.ask(SnapshotId(number), request.body, &[1; BLOCK])
            .map(|(body, _)| body)
    };
    assert_eq!(again(&mut test, 0), Ok(AnswerBody::Done));
    let what = Problem::Number;
    assert_eq!(
        again(&mut test, 1),
        Err(Refusal::Invalid { what }),
        "it was given out before snapshot 1"
    );
    test.snapshot = SnapshotId(1);
    test.write(1, 2).unwrap();
    assert_eq!(test.read(1, 0), Ok(1));
    assert_eq!(test.read(1, 1), Ok(0));
}

/// Clones are counted without what they come from, and snapshots of that go while a part is looked at.
#[test]
fn snapshots_go_while_their_clones_are_counted() {
    const SNAPSHOTS: u32 = 65;
    let mut cut_short = 0;
    for stay in 1..40 {
        let mut test = Test::new();
        test.write(0, 1).unwrap();
        for number in 1..=SNAPSHOTS {
            test.snapshot = SnapshotId(number);
            test.write(0, number as u8).unwrap();
        }
        let clones = (1..=SNAPSHOTS).map(|number| AskedVolume {
            volume: VolumeId(100 + u64::from(number)),
            place: Some(VOLUME),
            parents: vec![(VOLUME, SnapshotId(number))],
            ..AskedVolume::default()
        });
        let question = Arc::new(Question {
            number: 1,
            groups: 1,
            speaks_for: [GroupIndex(0)].into_iter().collect(),
            volumes: clones.collect(),
        });
        let step = |test: &mut Test| {
            let count = test.rig.store.count(test.rig.now, &question);
            test.rig.run();
            test.rig.now = test.rig.now.max(test.rig.store.deadline().unwrap_or_default());
            test.rig.run();
            count
        };
        let counting = Count::Counting { percent: 0 };
        assert_eq!(step(&mut test), counting);
        cut_short += u64::from(test.rig.store.count(test.rig.now, &question) == counting);
        let live: Vec<u32> = (1..=stay).collect();
        test.keep(true, SNAPSHOTS, &live).unwrap();
        let figures = loop {
            match step(&mut test) {
                Count::Counting { .. } => {}
                Count::Done(figures) => break figures,
                other => panic!("{other:?}"),
            }
        };
        for (figures, number) in figures.iter().zip(1..) {
            let most = u64::from(number <= stay);
            assert_eq!(
                (figures.used, figures.held, figures.own),
                (most, most, 0),
                "{number} of {stay}"
            );
        }
    }
    assert!(cut_short > 30, "{cut_short}: the part is looked at in several steps");
}
