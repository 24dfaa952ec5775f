//! What a chunk was for snapshots that are deleted goes (rule S9): state by state, as far as the list speaks; what a living snapshot
//! shows stays, whenever the power fails.

use crate::common::{BLOCK, Disk, Fate, Requester, Rig, Rng, VOLUME, image, params, version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::{Config, Faults, State};
use amita_types::holdings::{HeldSnapshots, HeldVolume, Holdings};
use amita_types::message::{
    AnswerBody, DifferRequest, DiffersAnswer, JoinRequest, MarkRequest, Problem, ReadRequest, Refusal, RequestBody,
    StatesRequest, WholeRequest,
};
use amita_types::{BlockRange, ChunkIndex, Epoch, PoolId, SnapshotId, Version};
use std::sync::Arc;
use std::time::Duration;

/// The volume lives, snapshots up to `given` were given out, and these live.
fn holdings(given: u32, live: &[u32]) -> Arc<Holdings> {
    holdings_and_marks(given, live, &[])
}

/// The same, and of these only marks are kept.
pub fn holdings_and_marks(given: u32, live: &[u32], marked: &[u32]) -> Arc<Holdings> {
    let snapshots = HeldSnapshots {
        volume: VOLUME,
        given: SnapshotId(given),
        live: live.iter().copied().map(SnapshotId).collect(),
        marked: marked.iter().copied().map(SnapshotId).collect(),
    };
    Arc::new(Holdings {
        revision: 1,
        given: VOLUME,
        volumes: [HeldVolume {
            id: VOLUME,
            place: VOLUME,
            pool: Some((PoolId(1), 1)),
        }]
        .into(),
        snapshots: vec![Arc::new(snapshots)],
        groups: Vec::new(),
    })
}

struct Test {
    rig: Rig,
    owner: Requester,
    /// The newest write of chunk 0.
    counter: u64,
}

impl Test {
    /// Block n of chunk 0 holds n + 1 from before snapshot 1 on; block n is overwritten, by 100 + n, with the number n, for all
    /// of `numbers`.
    fn new(faults: Faults, numbers: &[u32]) -> Test {
        let config = Config {
            faults,
            ..Config::default()
        };
        let mut rig = Rig::open(
            Disk::new(image(&params(16 << 20)), true),
            config,
            Time(1),
            1,
            Pool::heap(),
        );
        rig.run();
        let mut owner = Requester::new(1);
        owner.fence(&mut rig).expect("the first one");
        let mut test = Test { rig, owner, counter: 0 };
        for block in 0..8 {
            test.write(0, block, block as u8 + 1);
        }
        for &number in numbers {
            test.write(number, number as u16, 100 + number as u8);
        }
        test
    }

    fn write(&mut self, number: u32, block: u16, fill: u8) {
        let previous = match self.counter {
            0 => Version::NONE,
            counter => version(1, counter),
        };
        self.counter += 1;
        let bytes = [fill; BLOCK];
        let offset = u32::from(block) * BLOCK as u32;
        let mut request = self
            .owner
            .write_request(0, offset, &bytes, version(1, self.counter), previous);
        request.scope.snapshot = SnapshotId(number);
        let told = self.owner.ask(&mut self.rig, request, Slice::copy_from(&bytes));
        assert_eq!(told.answer.result, Ok(AnswerBody::Done));
    }

    fn read(&mut self, at: u32, block: u16) -> Result<u8, Refusal> {
        read(&mut self.rig, &mut self.owner, at, block)
    }

    fn sweep(&mut self, given: u32, live: &[u32]) {
        self.sweep_and_mark(given, live, &[]);
    }

    fn sweep_and_mark(&mut self, given: u32, live: &[u32], marked: &[u32]) {
        let holdings = holdings_and_marks(given, live, marked);
        self.rig.store.sweep(self.rig.now, Some(holdings));
        self.rest();
    }

    /// The blocks of the first word that were changed since, in the chunk as it is now, one bit each; none: it is not known.
    fn changed_since(&mut self, since: u32) -> Option<u64> {
        let body = RequestBody::Differ(DifferRequest {
            chunk: ChunkIndex(0),
            since: SnapshotId(since),
            least: Version::NONE,
            newest: None,
        });
        let request = self.owner.request(body);
        match self.owner.ask(&mut self.rig, request, Slice::default()).answer.result {
            Ok(AnswerBody::Differs(DiffersAnswer { differs, .. })) => Some(differs.changed[0]),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => {
                let what = Problem::Snapshot;
                assert_eq!(refusal, Refusal::Invalid { what });
                None
            }
        }
    }

    fn rest(&mut self) {
        for _ in 0..10_000 {
            self.rig.run();
            if self.rig.store.swept() == Some(1) {
                return;
            }
            let at = self.rig.store.deadline().expect("it goes on");
            self.rig.advance(at.since(self.rig.now));
        }
        panic!("the sweep never ends");
    }

    /// Snapshots up to which chunk 0 is kept, each by its newest.
    fn kept(&self) -> Vec<u32> {
        self.rig.store.held_states().map(|(_, _, to)| to.0).collect()
    }

    fn remount(&mut self) {
        self.rig.run();
        let cut = self.rig.cut_as(|_| Fate::Kept);
        crate::common::check::is_clean(&cut, true);
        let mut next = self.rig.reopened(cut);
        next.now = self.rig.now.plus(Duration::from_secs(1));
        next.run();
        assert_eq!(*next.store.state(), State::Serving);
        self.rig = next;
        self.owner.fence(&mut self.rig).expect("it owns the volume");
    }
}

fn read(rig: &mut Rig, owner: &mut Requester, at: u32, block: u16) -> Result<u8, Refusal> {
    let mut request = owner.request(RequestBody::Read(ReadRequest {
        chunk: ChunkIndex(0),
        range: BlockRange::new(block, 1),
        least: Version::NONE,
        versions: false,
        newest: None,
    }));
    request.scope.snapshot = SnapshotId(at);
    let told = owner.ask(rig, request, Slice::default());
    told.answer.result.map(|_| told.payload.first().copied().unwrap_or(0))
}

/// A snapshot shows block n as it was, for numbers above `at`, and as it was overwritten for those below.
fn shows(rig: &mut Rig, owner: &mut Requester, at: u32, numbers: &[u32]) {
    for block in 0..8u16 {
        let overwritten = numbers.contains(&u32::from(block)) && u32::from(block) < at;
        let expected = if overwritten {
            100 + block as u8
        } else {
            block as u8 + 1
        };
        assert_eq!(
            read(rig, owner, at, block),
            Ok(expected),
            "block {block} of snapshot {at}"
        );
    }
}

fn goes_as_far_as_the_list_speaks(faults: Faults) {
    const NUMBERS: [u32; 5] = [1, 2, 4, 5, 6];
    let mut test = Test::new(faults, &NUMBERS);
    assert_eq!(test.kept(), [1, 2, 4, 5, 6]);
    let blocks = test.rig.store.status().blocks;
    // Of 5 and 6 it does not know; 4 stands for 3 as well.
    test.sweep(4, &[1, 3]);
    assert_eq!(test.kept(), [1, 4, 5, 6]);
    assert_eq!(test.rig.store.status().counters.trimmed, 1);
    assert_eq!(
        test.rig.store.status().blocks,
        blocks,
        "snapshot 3 shows block 1 as 2 did, and 4 block 2"
    );
    for at in [1, 3, 4, 5, 6] {
        shows(&mut test.rig, &mut test.owner, at, &NUMBERS);
    }
    assert!(test.read(2, 0).is_err());
    test.sweep(6, &[3]);
    assert_eq!(test.kept(), [4]);
    test.remount();
    assert_eq!(test.kept(), [4]);
    shows(&mut test.rig, &mut test.owner, 3, &NUMBERS);
    test.sweep(6, &[]);
    assert_eq!((test.kept().len(), test.rig.store.status().blocks), (0, 8));
    for block in 0..8 {
        let expected = if NUMBERS.contains(&u32::from(block)) { 100 } else { 1 } + block as u8;
        assert_eq!(test.read(0, block), Ok(expected));
    }
    test.remount();
    assert_eq!(test.rig.store.status().blocks, 8);
}

#[test]
fn what_no_snapshot_needs_goes_as_far_as_the_list_speaks() {
    goes_as_far_as_the_list_speaks(Faults::NONE);
}

/// The chunk as it is has block n overwritten by the write with number n: since snapshot `at` those with such a number.
fn overwritten_since(at: u32, numbers: &[u32]) -> u64 {
    let since = numbers.iter().filter(|number| **number >= at);
    since.fold(0, |bits, number| bits | 1 << number)
}

#[test]
fn a_mark_tells_what_was_changed_and_holds_nothing() {
    marks_tell_what_was_changed(Faults::NONE);
}

fn marks_tell_what_was_changed(faults: Faults) {
    const NUMBERS: [u32; 5] = [1, 2, 4, 5, 6];
    let mut test = Test::new(faults, &NUMBERS);
    // 3 has no state of its own; 6 is what the chunk was before its last write.
    test.sweep_and_mark(6, &[5], &[1, 3, 6]);
    assert_eq!(test.kept(), [5]);
    shows(&mut test.rig, &mut test.owner, 5, &NUMBERS);
    for _ in 0..3 {
        for at in [1, 3, 5, 6] {
            assert_eq!(
                test.changed_since(at),
                Some(overwritten_since(at, &NUMBERS)),
                "since {at}"
            );
        }
        assert_eq!(test.changed_since(2), None, "it is gone, and was not to be marked");
        for at in [1, 3, 6] {
            assert!(test.read(at, 0).is_err(), "a mark has no data");
        }
        test.remount();
    }
    // More is written, and what only marks are left of holds nothing.
    test.write(6, 7, 107);
    assert_eq!(test.changed_since(3), Some(overwritten_since(3, &NUMBERS) | 1 << 7));
    test.sweep_and_mark(6, &[], &[1, 3, 6]);
    assert_eq!((test.kept().len(), test.rig.store.status().blocks), (0, 8));
    test.remount();
    // Marks go one by one.
    test.sweep_and_mark(6, &[], &[3]);
    assert_eq!((test.changed_since(1), test.changed_since(6)), (None, None));
    assert_eq!(test.changed_since(3), Some(overwritten_since(3, &NUMBERS) | 1 << 7));
    test.remount();
    assert_eq!(test.changed_since(3), Some(overwritten_since(3, &NUMBERS) | 1 << 7));
    test.sweep(6, &[]);
    assert_eq!(test.changed_since(3), None);
    test.remount();
    assert_eq!(test.changed_since(3), None);
}

/// Snapshot 2 is marked before the chunk is written again: what would have been kept for it becomes a mark.
#[test]
fn what_comes_after_its_snapshot_is_marked_is_marked() {
    let mut test = Test::new(Faults::NONE, &[1]);
    test.sweep_and_mark(2, &[1], &[2]);
    assert_eq!(test.changed_since(2), Some(0));
    test.write(2, 0, 77);
    test.rest();
    assert_eq!(test.kept(), [1]);
    assert_eq!(test.changed_since(2), Some(1));
    assert_eq!(test.changed_since(1), Some(0b11));
    test.remount();
    assert_eq!(test.changed_since(2), Some(1));
}

/// Snapshot 2 is deleted before the chunk is written again: what would have been kept for it is not.
#[test]
fn what_comes_after_its_snapshot_is_gone_goes_as_well() {
    let mut test = Test::new(Faults::NONE, &[1]);
    test.sweep(2, &[1]);
    test.write(2, 0, 77);
    test.rest();
    assert_eq!(test.kept(), [1]);
    assert_eq!(test.read(0, 0), Ok(77));
    assert_eq!(test.read(1, 0), Ok(1));
    // One that is taken later is kept; so is what was taken and is not told yet.
    test.write(3, 0, 78);
    test.rest();
    assert_eq!(test.kept(), [1, 3]);
}

#[test]
fn what_is_being_brought_up_to_date_is_its_owners() {
    let mut test = Test::new(Faults::NONE, &[1, 2]);
    // Writes went by without it.
    (test.owner.epoch, test.owner.syncing) = (Epoch(2), true);
    test.owner.fence(&mut test.rig).expect("it owns the volume");
    test.counter += 3;
    let join = test.owner.request(RequestBody::Join(JoinRequest {
        chunk: ChunkIndex(0),
        at: version(1, test.counter),
    }));
    let number = SnapshotId(2);
    let ask = |test: &mut Test, mut request: amita_types::message::Request| {
        request.scope.snapshot = number;
        let told = test.owner.ask(&mut test.rig, request, Slice::default());
        told.answer.result.expect("it owns the volume")
    };
    ask(&mut test, join);
    test.rig.store.sweep(test.rig.now, Some(holdings(2, &[2])));
    for _ in 0..100 {
        test.rig.run();
        test.rig.advance(Duration::from_millis(20));
    }
    assert_eq!((test.kept(), test.rig.store.swept()), (vec![1, 2], None));
    let whole = test.owner.request(RequestBody::Whole(WholeRequest {
        chunk: ChunkIndex(0),
        version: version(1, test.counter),
        number,
        born: SnapshotId::HEAD,
    }));
    ask(&mut test, whole);
    test.rest();
    assert_eq!(test.kept(), [2]);
}

/// A member is brought a mark that is deleted while that is under way: it goes when the chunk is whole.
#[test]
fn a_mark_that_is_brought_too_late_goes() {
    let mut test = Test::new(Faults::NONE, &[2]);
    (test.owner.epoch, test.owner.syncing) = (Epoch(2), true);
    test.owner.fence(&mut test.rig).expect("it owns the volume");
    test.counter += 3;
    let (chunk, number, at) = (ChunkIndex(0), SnapshotId(2), version(1, test.counter));
    let ask = |test: &mut Test, body: RequestBody| {
        let mut request = test.owner.request(body);
        request.scope.snapshot = number;
        let told = test.owner.ask(&mut test.rig, request, Slice::default());
        told.answer.result.expect("it owns the volume")
    };
    let marks = |test: &mut Test| {
        let from = SnapshotId::HEAD;
        match ask(test, RequestBody::States(StatesRequest { chunk, from })) {
            AnswerBody::States(listed) => listed.states.iter().filter(|state| state.mark).count(),
            other => panic!("{other:?}"),
        }
    };
    ask(&mut test, RequestBody::Join(JoinRequest { chunk, at }));
    test.sweep(5, &[2]);
    let mark = MarkRequest {
        chunk,
        above: SnapshotId(3),
        to: SnapshotId(4),
        version: version(1, 3),
    };
    ask(&mut test, RequestBody::Mark(mark));
    assert_eq!(marks(&mut test), 1);
    let whole = WholeRequest {
        chunk,
        version: at,
        number,
        born: SnapshotId::HEAD,
    };
    ask(&mut test, RequestBody::Whole(whole));
    test.rest();
    assert_eq!((marks(&mut test), test.kept()), (0, vec![2]));
}

/// A leaf that is wrong is a living snapshot's as well: what needs it waits, and nothing is given up.
#[test]
fn where_a_leaf_is_wrong_nothing_is_given_up() {
    const NUMBERS: [u32; 3] = [1, 2, 3];
    let mut gone = 0;
    for which in 0..4 {
        let mut test = Test::new(Faults::NONE, &NUMBERS);
        // A checkpoint, and a start after it: the leaves are on the disk only.
        for counter in 1..2000 {
            let (next, previous) = (version(1, counter), version(1, counter - 1));
            let previous = if counter == 1 { Version::NONE } else { previous };
            let done = test.owner.write(&mut test.rig, 1, 0, &[9; BLOCK], next, previous);
            done.expect("there is space");
        }
        test.remount();
        let leaves = leaves(&test.rig);
        assert_eq!(leaves.len(), 4, "the chunk's, and one for each state");
        let at = leaves[which] + 100;
        let before = test.rig.disk.view[at..at + 3].to_vec();
        test.rig.disk.rot(at, 3);
        test.rig.store.sweep(test.rig.now, Some(holdings(3, &[2])));
        for _ in 0..200 {
            test.rig.run();
            test.rig.advance(Duration::from_millis(5));
        }
        let waits = test.kept().len() > 1;
        assert_eq!(test.rig.store.swept().is_none(), waits, "what waits is not done");
        gone += 3 - test.kept().len();
        test.rig.disk.write(at as u64, &before);
        if which % 2 == 0 {
            test.rest();
            assert_eq!(test.kept(), [2], "it is tried again");
        }
        test.remount();
        shows(&mut test.rig, &mut test.owner, 2, &NUMBERS);
        for (block, fill) in [(0, 1), (1, 101), (2, 102), (3, 103), (4, 5)] {
            assert_eq!(test.read(0, block), Ok(fill), "leaf {which}, block {block}");
        }
        test.sweep(3, &[2]);
        assert_eq!(test.kept(), [2]);
    }
    assert!((1..8).contains(&gone), "some went and some waited: {gone}");
}

/// Where the leaves of chunk 0 are.
fn leaves(rig: &Rig) -> Vec<usize> {
    let is = |at: &usize| {
        let page = &rig.disk.view[*at..at + BLOCK];
        let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
        page.starts_with(b"ALEF") && (number(16), number(24)) == (VOLUME.0, 0)
    };
    (0..rig.disk.view.len()).step_by(BLOCK).filter(is).collect()
}

/// The power fails at any moment: what lives is there, and the rest goes the next time.
#[test]
fn whenever_the_power_fails_what_lives_is_there() {
    const NUMBERS: [u32; 6] = [1, 2, 3, 4, 5, 6];
    let mut seen = [0; 7];
    for seed in 0..120 {
        let mut rng = Rng(seed);
        let mut test = Test::new(Faults::NONE, &NUMBERS);
        test.rig.store.sweep(test.rig.now, Some(holdings(6, &[2, 5])));
        for _ in 0..rng.below(40) {
            test.rig.store.end_pass(test.rig.now);
            test.rig.pump();
            match test.rig.flights.len() {
                0 => test.rig.advance(Duration::from_millis(1)),
                flights => test.rig.complete(rng.below(flights)),
            }
        }
        let cut = test.rig.cut(&mut rng);
        crate::common::check::is_clean(&cut, true);
        let now = test.rig.now.plus(Duration::from_secs(1));
        test.rig = test.rig.reopened(cut);
        test.rig.now = now;
        test.rig.run();
        assert_eq!(*test.rig.store.state(), State::Serving);
        test.owner.fence(&mut test.rig).expect("it owns the volume");
        let kept = test.kept();
        assert!(kept.contains(&2) && kept.contains(&5), "{kept:?}");
        seen[kept.len()] += 1;
        for at in [2, 5] {
            shows(&mut test.rig, &mut test.owner, at, &NUMBERS);
        }
        test.sweep(6, &[2, 5]);
        assert_eq!(test.kept(), [2, 5]);
        for at in [2, 5] {
            shows(&mut test.rig, &mut test.owner, at, &NUMBERS);
        }
    }
    assert!(
        seen[2] >= 5 && seen[6] >= 5 && seen[3..6].iter().sum::<u32>() >= 5,
        "all were met: {seen:?}"
    );
}

/// The same where marks are left, and go: what is marked is known at every moment, from its state or from its mark.
#[test]
fn whenever_the_power_fails_what_is_marked_is_known() {
    const NUMBERS: [u32; 6] = [1, 2, 3, 4, 5, 6];
    let mut seen = [0; 7];
    for seed in 0..120 {
        let mut rng = Rng(seed);
        let mut test = Test::new(Faults::NONE, &NUMBERS);
        let unmarks = seed % 3 == 0;
        if unmarks {
            test.sweep_and_mark(6, &[2, 5], &[1, 3, 4, 6]);
        }
        let wanted = holdings_and_marks(6, &[2, 5], &[3, 4]);
        test.rig.store.sweep(test.rig.now, Some(wanted));
        for _ in 0..rng.below(40) {
            test.rig.store.end_pass(test.rig.now);
            test.rig.pump();
            match test.rig.flights.len() {
                0 => test.rig.advance(Duration::from_millis(1)),
                flights => test.rig.complete(rng.below(flights)),
            }
        }
        let cut = test.rig.cut(&mut rng);
        crate::common::check::is_clean(&cut, true);
        let now = test.rig.now.plus(Duration::from_secs(1));
        test.rig = test.rig.reopened(cut);
        test.rig.now = now;
        test.rig.run();
        assert_eq!(*test.rig.store.state(), State::Serving);
        test.owner.fence(&mut test.rig).expect("it owns the volume");
        seen[test.kept().len()] += 1;
        for at in [2, 3, 4, 5] {
            assert_eq!(
                test.changed_since(at),
                Some(overwritten_since(at, &NUMBERS)),
                "since {at}"
            );
        }
        test.sweep_and_mark(6, &[2, 5], &[3, 4]);
        assert_eq!(test.kept(), [2, 5]);
        for at in 1..=6 {
            let is_known = (2..=5).contains(&at);
            let expected = is_known.then(|| overwritten_since(at, &NUMBERS));
            assert_eq!(test.changed_since(at), expected, "since {at}");
        }
        for at in [2, 5] {
            shows(&mut test.rig, &mut test.owner, at, &NUMBERS);
        }
    }
    assert!(
        seen[2] >= 40 && seen[3..].iter().sum::<u32>() >= 5,
        "all were met: {seen:?}"
    );
}

#[cfg(feature = "planted")]
#[test]
fn a_store_that_drops_more_is_found() {
    use amita_store::Fault;
    for plant in [Fault::TrimUnlisted, Fault::TrimOfMany] {
        let play = || goes_as_far_as_the_list_speaks(Faults::NONE.with(plant));
        assert!(std::panic::catch_unwind(play).is_err(), "{plant:?} is not found");
    }
    for plant in [Fault::LeavesNoMark, Fault::MarksTooNew] {
        let play = || marks_tell_what_was_changed(Faults::NONE.with(plant));
        assert!(std::panic::catch_unwind(play).is_err(), "{plant:?} is not found");
    }
}
