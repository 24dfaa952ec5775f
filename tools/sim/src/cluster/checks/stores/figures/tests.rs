use super::*;
use amita_types::message::Change;

fn entry(block: u16, version: u64, has_data: bool) -> Change {
    Change {
        block: BlockIndex(block),
        version: Version(version),
        sum: has_data.then_some(7),
    }
}

#[test]
fn views_share_what_one_write_has_left() {
    let mut expected = Expected::default();
    expected.add(&vec![
        (SnapshotId(1), Some(vec![entry(0, 1, true), entry(1, 2, true)])),
        (
            SnapshotId(2),
            Some(vec![entry(0, 1, true), entry(1, 3, true), entry(2, 4, true)]),
        ),
        (
            SnapshotId::HEAD,
            Some(vec![entry(0, 5, false), entry(1, 3, true), entry(2, 6, true)]),
        ),
    ]);
    assert_eq!((expected.used, expected.held, expected.most), (2, 5, 7));
    // Block 0 as of version 1 is both snapshots', so it is nobody's own.
    let own: Vec<(SnapshotId, u64)> = expected.unique.into_iter().collect();
    assert_eq!(own, [(SnapshotId(1), 1), (SnapshotId(2), 1)]);
    assert!(!expected.is_unknown);
}

#[test]
fn a_list_that_is_damaged_says_nothing() {
    let mut expected = Expected::default();
    expected.add(&vec![(SnapshotId::HEAD, None)]);
    assert!(expected.is_unknown);
}
