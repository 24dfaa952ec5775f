//! Slots with more users than a byte can say.

use super::*;
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
        // Around the end of a byte the power fails after every clone.
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
        // All but two go, and the power fails on the way down, too.
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
