//! Thousands of states of one chunk, and slots with more users than a byte can say.

use super::*;
use crate::common::Rng;
use crate::common::check::is_clean;

/// More than a byte says, with the volume that they are cloned from.
const CLONES: u64 = 300;

fn clone_of(n: u64) -> VolumeId {
    VolumeId(1000 + n)
}

#[test]
fn more_clones_than_a_byte_says() {
    for checkpoints in [false, true] {
        let mut test = Test::sized(16 << 20);
        for block in 0..3 {
            test.write(block, 1).unwrap();
        }
        test.snapshot = SnapshotId(1);
        test.write(0, 2).unwrap();
        let blocks = test.blocks();
        let origin = test.volume;
        let make = |test: &mut Test, n: u64| {
            test.volume = clone_of(n);
            test.fence();
            let body = RequestBody::Clone(CloneRequest {
                chunk: ChunkIndex(0),
                origin,
                at: SnapshotId(1),
            });
            test.ask(SnapshotId::HEAD, body, &[]).map(|_| ()).unwrap();
        };
        // Around the end of a byte the store is mounted anew after every clone.
        for n in 0..CLONES {
            make(&mut test, n);
            if (250..260).contains(&n) {
                if checkpoints && n % 3 == 0 {
                    test.checkpoint();
                }
                test.remount();
            }
        }
        if checkpoints {
            test.checkpoint();
        }
        is_clean(&test.rig.disk.view, true);
        test.remount();
        assert_eq!(test.blocks(), blocks + test.elsewhere, "no data is copied");
        // One of them goes its own way.
        test.volume = clone_of(7);
        (test.counter, test.snapshot) = (3, SnapshotId::HEAD);
        test.write(1, 7).unwrap();
        assert_eq!(test.blocks(), blocks + test.elsewhere + 1);
        // All but two go, and it is mounted anew on the way down, too.
        let mut left: Vec<u64> = (0..CLONES).collect();
        while left.len() > 2 {
            let n = left.swap_remove(left.len() / 2);
            test.volume = clone_of(n);
            test.keep(false, 0, &[]).unwrap();
            if left.len().abs_diff(255) < 5 {
                if checkpoints && left.len().is_multiple_of(3) {
                    test.checkpoint();
                }
                test.remount();
                is_clean(&test.rig.disk.view, true);
            }
        }
        for n in left {
            test.volume = clone_of(n);
            assert_eq!((test.read(0, 0), test.read(0, 2)), (Ok(1), Ok(1)), "{n}");
            test.keep(false, 0, &[]).unwrap();
        }
        test.volume = origin;
        assert_eq!(
            (test.read(0, 0), test.read(1, 0), test.read(0, 1)),
            (Ok(2), Ok(1), Ok(1))
        );
        test.remount();
        is_clean(&test.rig.disk.view, true);
        test.keep(false, 1, &[]).unwrap();
        assert_eq!(test.blocks(), test.elsewhere, "nothing of it is left");
    }
}

/// A chunk and what it was: by its snapshot, the byte that each of the blocks has that are written.
pub(super) struct Past {
    pub test: Test,
    pub now: [u8; 24],
    pub kept: Vec<(u32, [u8; 24])>,
    pub rng: Rng,
}

/// Blocks that are written lie apart, in all parts of the chunk.
pub(super) fn block(n: usize) -> u16 {
    n as u16 * 42
}

impl Past {
    fn new(seed: u64) -> Past {
        Past::on(Test::sized(32 << 20), seed)
    }

    pub fn on(test: Test, seed: u64) -> Past {
        let mut past = Past {
            test,
            now: [0; 24],
            kept: Vec::new(),
            rng: Rng(seed),
        };
        for n in 0..24 {
            past.write(n);
        }
        past
    }

    pub fn write(&mut self, n: usize) {
        let fill = 1 + self.rng.below(250) as u8;
        self.test.write(block(n), fill).unwrap();
        self.now[n] = fill;
    }

    /// A snapshot is taken, and then some blocks are written, or none.
    pub fn step(&mut self) {
        let number = self.test.snapshot.0 + 1;
        self.kept.push((number, self.now));
        self.test.snapshot = SnapshotId(number);
        // Every now and then nothing changes, and one state is for several snapshots.
        for _ in 0..[1, 1, 1, 2, 0][self.rng.below(5)] {
            let n = self.rng.below(24);
            self.write(n);
        }
    }

    /// Reads of some snapshots, and all that were kept where `all` says so, a block or two of each.
    pub fn compare(&mut self, all: bool) {
        let most = self.kept.len();
        for at in 0..most {
            if !all && self.rng.below(most) > 40 {
                continue;
            }
            let (number, bytes) = self.kept[at];
            let n = self.rng.below(24);
            assert_eq!(
                self.test.read(number, block(n)),
                Ok(bytes[n]),
                "snapshot {number}, block {n}"
            );
        }
        for n in 0..24 {
            assert_eq!(self.test.read(0, block(n)), Ok(self.now[n]));
        }
    }

    /// Snapshots go; what is left is said to the store.
    pub fn keep(&mut self, mut stays: impl FnMut(usize) -> bool) {
        let mut at = 0;
        self.kept.retain(|_| {
            at += 1;
            stays(at - 1)
        });
        let live: Vec<u32> = self.kept.iter().map(|(number, _)| *number).collect();
        // A message names some of them: the store is asked stretch by stretch.
        let mut above = 0;
        let end = self.test.snapshot.0;
        for chunk in live.chunks(64).chain([&[][..]]) {
            let to = if chunk.len() == 64 { chunk[63] } else { end };
            let body = RequestBody::RetainSnapshots(RetainSnapshotsRequest {
                chunk: ChunkIndex(0),
                head: true,
                above: SnapshotId(above),
                to: SnapshotId(to),
                live: chunk.iter().copied().map(SnapshotId).collect(),
            });
            self.test.ask(SnapshotId::HEAD, body, &[]).map(|_| ()).unwrap();
            above = to;
            if above == end {
                break;
            }
        }
    }

    pub fn remount(&mut self) {
        self.test.remount();
        is_clean(&self.test.rig.disk.view, true);
    }
}

#[test]
fn two_thousand_states_of_a_chunk() {
    let mut past = Past::new(5);
    for round in 0..4 {
        for _ in 0..500 {
            past.step();
        }
        past.compare(false);
        if round % 2 == 0 {
            past.test.checkpoint();
        }
        past.remount();
        past.compare(false);
    }
    past.compare(true);
    // Every third stays, then those in the middle, then none.
    past.keep(|at| at % 3 == 0);
    past.compare(true);
    past.test.checkpoint();
    past.remount();
    past.compare(true);
    past.keep(|at| (100..120).contains(&at));
    past.remount();
    past.compare(true);
    past.keep(|_| false);
    past.compare(true);
    past.remount();
    past.compare(true);
    assert_eq!(past.test.blocks(), 24 + past.test.elsewhere);
}
