use super::*;

fn entry(block: u16, version: u64, has_data: bool) -> Change {
    Change {
        block: BlockIndex(block),
        version: Version(version),
        sum: has_data.then_some(7),
    }
}

#[test]
fn other_versions_are_changes_and_what_was_cleared_has_no_data() {
    let older = [entry(0, 1, true), entry(1, 2, true), entry(2, 3, true)];
    let newer = [entry(0, 1, true), entry(1, 4, false), entry(70, 5, true)];
    let differs = compared(&older, &newer);
    assert!((0..1024).filter(|block| has(&differs.changed, *block)).eq([1, 2, 70]));
    assert!((0..1024).filter(|block| has(&differs.allocated, *block)).eq([70]));
}

#[test]
fn each_view_is_compared_with_the_next_the_first_and_the_last() {
    assert_eq!(pairs(1).count(), 0);
    assert!(pairs(2).eq([(0, 1)]));
    assert!(pairs(4).eq([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]));
    assert!(!pairs(5).any(|pair| pair == (1, 3)));
}
