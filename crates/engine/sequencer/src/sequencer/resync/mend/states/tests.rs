use super::*;
use amita_types::{ChunkIndex, Generation};

fn version(counter: u64) -> Version {
    Version::new(Generation(1), counter).expect("in range")
}

fn state(above: u32, to: u32) -> StateInfo {
    StateInfo {
        above: SnapshotId(above),
        to: SnapshotId(to),
        version: version(u64::from(to)),
        open: false,
        mark: false,
    }
}

fn page(states: Vec<StateInfo>, more: Option<u32>) -> StatesAnswer {
    StatesAnswer {
        number: SnapshotId(9),
        born: SnapshotId(0),
        states,
        more: more.map(SnapshotId),
    }
}

#[test]
fn a_list_of_states_goes_on_where_the_last_one_ended() {
    let none = SnapshotId::HEAD;
    assert!(is_list(none, &page(vec![state(0, 1), state(1, 4), state(5, 6)], None)));
    assert!(is_list(none, &page(vec![state(0, 1), state(1, 4)], Some(4))));
    assert!(is_list(SnapshotId(4), &page(vec![state(5, 6)], None)));
    assert!(is_list(none, &page(Vec::new(), None)));
    // It overlaps, stands for nothing, or would go on for ever.
    assert!(!is_list(none, &page(vec![state(0, 2), state(1, 4)], None)));
    assert!(!is_list(none, &page(vec![state(2, 2)], None)));
    assert!(!is_list(SnapshotId(4), &page(vec![state(3, 6)], None)));
    assert!(!is_list(none, &page(Vec::new(), Some(0))));
    assert!(!is_list(SnapshotId(4), &page(Vec::new(), Some(4))));
    assert!(!is_list(none, &page(vec![state(0, 1)], Some(3))));
}

#[test]
fn what_is_kept_of_many_states_is_said_in_parts_without_a_gap() {
    let kept: Vec<StateInfo> = (0..300).map(|n| state(2 * n, 2 * n + 1)).collect();
    let parts = retained(ChunkIndex(7), &kept);
    assert_eq!(parts.len(), 4);
    let mut above = SnapshotId::HEAD;
    for part in &parts {
        assert!(part.head && part.live.len() <= MAX_SNAPSHOTS && part.above == above && part.to > above);
        assert!(part.live.iter().all(|live| part.above < *live && *live <= part.to));
        above = part.to;
    }
    assert_eq!(above, SnapshotId(u32::MAX));
    assert_eq!(parts.iter().map(|part| part.live.len()).sum::<usize>(), 300);
    assert_eq!(retained(ChunkIndex(7), &[]).len(), 1);
}

#[test]
fn a_window_is_what_differs_and_no_more_than_a_message_takes() {
    let change = |block: u16, counter: u64| Change {
        block: BlockIndex(block),
        version: version(counter),
        sum: Some(1),
    };
    let source = [change(1, 1), change(2, 2), change(9, 1)];
    let target = [change(2, 1), change(3, 1), change(9, 1)];
    let part = Part::of(&source, &target, 8);
    let never = Change {
        block: BlockIndex(3),
        version: Version::NONE,
        sum: None,
    };
    assert_eq!((part.end, part.entries), (8, vec![change(1, 1), change(2, 2), never]));
    let source: Vec<Change> = (0..32).map(|n| change(2 * n, 1)).collect();
    let target: Vec<Change> = (0..32).map(|n| change(2 * n + 1, 1)).collect();
    let part = Part::of(&source, &target, 64);
    assert_eq!((part.end, part.entries.len()), (32, MAX_CHANGES));
}
