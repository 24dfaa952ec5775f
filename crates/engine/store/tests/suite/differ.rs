//! What was changed between two snapshots, or since one: compared with every byte, and with what was written in between.

use crate::common::{BLOCK, Requester, Rig, Rng, version};
use crate::trim::holdings_and_marks;
use amita_reactor::Slice;
use amita_store::State;
use amita_types::io::Differs;
use amita_types::message::{
    AnswerBody, ClearRequest, DifferRequest, DiffersAnswer, Problem, Refusal, RequestBody, RetainSnapshotsRequest,
};
use amita_types::{BlockRange, ChunkIndex, SnapshotId, Version};
use std::collections::BTreeMap;

const BLOCKS: usize = 1024;
const CHUNKS: usize = 3;

/// A block: what it holds (every byte of it; 0: nothing), and by which change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    fill: u8,
    change: u64,
}

type View = Vec<Vec<Cell>>;

struct Test {
    rig: Rig,
    asker: Requester,
    counters: [u64; CHUNKS],
    changes: u64,
    head: View,
    /// By number, from 1 on, as they were taken; `None`: deleted.
    snapshots: Vec<Option<View>>,
    /// Those that were deleted, and of which the mark is kept.
    marks: BTreeMap<usize, View>,
}

fn version_or_none(counter: u64) -> Version {
    match counter {
        0 => Version::NONE,
        counter => version(1, counter),
    }
}

impl Test {
    fn new() -> Test {
        let mut test = Test {
            rig: Rig::fresh(64 << 20, true),
            asker: Requester::new(1),
            counters: [0; CHUNKS],
            changes: 0,
            head: vec![vec![Cell::default(); BLOCKS]; CHUNKS],
            snapshots: Vec::new(),
            marks: BTreeMap::new(),
        };
        test.asker.fence(&mut test.rig).expect("the first one");
        test
    }

    fn ask(&mut self, at: usize, body: RequestBody, payload: &[u8]) -> Result<AnswerBody, Refusal> {
        let mut request = self.asker.request(body);
        request.scope.snapshot = SnapshotId(at as u32);
        let told = self.asker.ask(&mut self.rig, request, Slice::copy_from(payload));
        told.answer.result
    }

    /// The next change of a chunk: its version, and the one before.
    fn next(&mut self, chunk: usize) -> (Version, Version) {
        let previous = version_or_none(self.counters[chunk]);
        self.counters[chunk] += 1;
        self.changes += 1;
        (version(1, self.counters[chunk]), previous)
    }

    fn put(&mut self, chunk: usize, first: u16, count: u16, fill: u8) {
        let change = self.changes;
        self.head[chunk][usize::from(first)..][..usize::from(count)].fill(Cell { fill, change });
    }

    fn write(&mut self, chunk: usize, first: u16, count: u16, fill: u8) {
        let (next, previous) = self.next(chunk);
        let bytes = vec![fill; BLOCK * usize::from(count)];
        let offset = u32::from(first) * BLOCK as u32;
        let request = self.asker.write_request(chunk as u64, offset, &bytes, next, previous);
        let done = self.ask(self.snapshots.len(), request.body, &bytes);
        assert_eq!(done, Ok(AnswerBody::Done));
        self.put(chunk, first, count, fill);
    }

    fn clear(&mut self, chunk: usize, first: u16, count: u16) {
        let (version, previous) = self.next(chunk);
        let body = RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(chunk as u64),
            range: BlockRange::new(first, count),
            version,
            previous,
        });
        assert_eq!(self.ask(self.snapshots.len(), body, &[]), Ok(AnswerBody::Done));
        self.put(chunk, first, count, 0);
    }

    /// The store drops by itself what is not there any more.
    fn sweep(&mut self) {
        let live: Vec<u32> = (1..)
            .zip(&self.snapshots)
            .filter_map(|(number, view)| view.as_ref().map(|_| number))
            .collect();
        let marked: Vec<u32> = self.marks.keys().map(|number| *number as u32).collect();
        let holdings = holdings_and_marks(self.snapshots.len() as u32, &live, &marked);
        self.rig.store.sweep(self.rig.now, Some(holdings));
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

    /// A snapshot is deleted but for its mark.
    fn mark(&mut self, number: usize) {
        if let Some(view) = self.snapshots[number - 1].take() {
            self.marks.insert(number, view);
        }
        self.sweep();
    }

    fn delete(&mut self, number: usize) {
        self.snapshots[number - 1] = None;
        let numbers = (1..).zip(&self.snapshots);
        let live = numbers.filter(|(_, view)| view.is_some());
        let live: Vec<SnapshotId> = live.map(|(number, _)| SnapshotId(number)).collect();
        for chunk in 0..CHUNKS as u64 {
            let body = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
                chunk: ChunkIndex(chunk),
                head: true,
                above: SnapshotId(0),
                to: SnapshotId(self.snapshots.len() as u32),
                live: live.clone(),
            });
            assert_eq!(self.ask(0, body, &[]), Ok(AnswerBody::Done));
        }
    }

    fn remount(&mut self) {
        self.rig.run();
        let image = self.rig.disk.view.clone();
        self.rig = self.rig.reopened(image);
        self.rig.run();
        assert_eq!(*self.rig.store.state(), State::Serving);
        self.asker.fence(&mut self.rig).expect("it owns the volume");
    }

    fn differ(&mut self, chunk: usize, since: usize, at: usize) -> Result<Differs, Refusal> {
        let body = RequestBody::Differ(DifferRequest {
            chunk: ChunkIndex(chunk as u64),
            since: SnapshotId(since as u32),
            least: Version::NONE,
            newest: None,
        });
        match self.ask(at, body, &[])? {
            AnswerBody::Differs(DiffersAnswer { differs, .. }) => Ok(*differs),
            other => panic!("{other:?}"),
        }
    }

    /// Compares a view (0: the head) with an older one.
    fn check(&mut self, since: usize, at: usize) {
        let known = self.snapshots[since - 1].as_ref().or_else(|| self.marks.get(&since));
        let older = known.cloned().expect("it lives, or is marked");
        let newer = match at {
            0 => self.head.clone(),
            at => self.snapshots[at - 1].clone().expect("it lives"),
        };
        for chunk in 0..CHUNKS {
            let differs = self.differ(chunk, since, at).expect("both live");
            for block in 0..BLOCKS {
                let bit = |words: &[u64; 16]| words[block / 64] >> (block % 64) & 1 == 1;
                let (before, now) = (older[chunk][block], newer[chunk][block]);
                let changed = before.change != now.change;
                assert!(
                    changed || before.fill == now.fill,
                    "what differs was written in between"
                );
                let expected = (changed, changed && now.fill != 0);
                let found = (bit(&differs.changed), bit(&differs.allocated));
                assert_eq!(found, expected, "chunk {chunk} block {block} from {since} to {at}");
            }
        }
    }

    fn check_all(&mut self) {
        let live = (1..=self.snapshots.len()).filter(|number| self.snapshots[number - 1].is_some());
        let live: Vec<usize> = live.collect();
        let known: Vec<usize> = live.iter().chain(self.marks.keys()).copied().collect();
        for since in known {
            for &at in live.iter().filter(|at| **at > since).chain(&[0]) {
                self.check(since, at);
            }
        }
    }
}

/// The same with marks, which come and go.
#[test]
fn random_histories_with_marks() {
    let mut most = 0;
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let mut test = Test::new();
        for step in 0..200 {
            let chunk = rng.below(if step < 100 { 2 } else { CHUNKS });
            let first = rng.below(BLOCKS) as u16;
            match rng.below(20) {
                0..10 => {
                    let count = (1 + rng.below(8) as u16).min(1024 - first);
                    test.write(chunk, first, count, rng.next() as u8 | 1);
                }
                10 => test.clear(chunk, first & 0x380, 128),
                11..14 => test.snapshots.push(Some(test.head.clone())),
                14..16 if !test.snapshots.is_empty() => {
                    let number = 1 + rng.below(test.snapshots.len());
                    test.mark(number);
                }
                16 if !test.snapshots.is_empty() => {
                    let number = rng.below(test.snapshots.len());
                    test.snapshots[number] = None;
                    test.sweep();
                }
                17 if rng.chance(2) => {
                    let number = test.marks.keys().copied().nth(rng.below(test.marks.len().max(1)));
                    number.map(|number| test.marks.remove(&number));
                    test.sweep();
                }
                18 if rng.chance(3) => test.remount(),
                _ => {}
            }
            most = most.max(test.marks.len());
            if step % 40 == 39 {
                test.check_all();
            }
        }
        test.remount();
        test.check_all();
        test.snapshots.iter_mut().for_each(|view| *view = None);
        test.sweep();
        test.check_all();
        test.marks.clear();
        test.sweep();
        assert_eq!(test.rig.store.held_states().count(), 0);
    }
    assert!(most >= 4, "there were {most} marks at one time");
}

#[test]
fn random_histories() {
    for seed in 0..12 {
        let mut rng = Rng(seed);
        let mut test = Test::new();
        for step in 0..160 {
            // Chunk 2 is made late, chunk 1 now and then.
            let chunk = rng.below(if step < 100 { 2 } else { CHUNKS });
            let first = rng.below(BLOCKS) as u16;
            match rng.below(20) {
                0..10 => {
                    let count = (1 + rng.below(8) as u16).min(1024 - first);
                    test.write(chunk, first, count, rng.next() as u8 | 1);
                }
                10..13 => {
                    let count = (1 + rng.below(300) as u16).min(1024 - first);
                    test.clear(chunk, first, count);
                }
                // Whole leaves.
                13 => test.clear(chunk, first & 0x380, 128),
                14 if rng.chance(2) => test.clear(chunk, 0, 1024),
                14 | 15 => test.snapshots.push(Some(test.head.clone())),
                16 if !test.snapshots.is_empty() => {
                    let number = 1 + rng.below(test.snapshots.len());
                    test.delete(number);
                }
                17 if rng.chance(3) => test.remount(),
                _ => {}
            }
            if step % 40 == 39 {
                test.check_all();
            }
        }
        test.remount();
        test.check_all();
        test.check_all();
    }
}

#[test]
fn the_same_bytes_again_are_a_change() {
    let mut test = Test::new();
    test.write(0, 5, 1, 7);
    test.clear(1, 0, 1024);
    test.snapshots.push(Some(test.head.clone()));
    test.write(0, 5, 1, 7);
    test.check_all();
    test.snapshots.push(Some(test.head.clone()));
    test.clear(1, 128, 128);
    test.write(2, 0, 1, 1);
    test.check_all();
}

#[test]
fn what_cannot_be_compared() {
    let mut test = Test::new();
    test.write(0, 5, 1, 7);
    for _ in 0..3 {
        test.snapshots.push(Some(test.head.clone()));
        test.write(0, 6, 1, 8);
    }
    let wrong = Err(Refusal::Invalid {
        what: Problem::Snapshot,
    });
    for (since, at) in [(0, 0), (0, 2), (2, 2), (3, 2)] {
        assert_eq!(test.differ(0, since, at), wrong, "from {since} to {at}");
    }
    test.check(1, 3);
    test.delete(2);
    assert_eq!(test.differ(0, 2, 3), wrong, "it is gone");
    assert_eq!(test.differ(0, 1, 2), wrong, "it is gone");
    test.check_all();
    // One that stands for no state of its own is as good as the next.
    test.snapshots
        .extend([Some(test.head.clone()), Some(test.head.clone())]);
    test.write(0, 9, 1, 9);
    test.check_all();
}
