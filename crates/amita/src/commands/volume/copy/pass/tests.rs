//! Which extents are brought together.

use super::*;

fn extent(offset: u64, length: u64, is_zero: bool) -> Extent {
    Extent {
        offset,
        length,
        is_zero,
    }
}

/// Nothing is left out, nothing comes twice, and the order stays: how far a pass is rests on it.
#[test]
fn parts_have_all_of_it_in_its_order_and_keep_to_what_may_be_had() {
    let all = [
        extent(0, 10, false),
        extent(10, 1000, true),
        extent(1010, 25, false),
        extent(2000, 5, false),
    ];
    let mut left = VecDeque::from(all);
    let mut parts = Vec::new();
    loop {
        let part = part(&mut left, 16);
        if part.is_empty() {
            break;
        }
        parts.push(part);
    }
    let expected = [
        vec![extent(0, 10, false), extent(10, 1000, true), extent(1010, 6, false)],
        vec![extent(1016, 16, false)],
        vec![extent(1032, 3, false), extent(2000, 5, false)],
    ];
    assert_eq!(parts, expected);
}
