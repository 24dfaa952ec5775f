//! Tests of the states of a chunk against a plain list that is searched from its beginning.

use super::*;
use crate::format::Slot;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A state is made behind all others, or where there is a gap.
    Make {
        after: usize,
        skip: u32,
        length: u32,
    },
    /// A state gets a leaf, or loses it.
    Leaf {
        which: usize,
        part: u8,
    },
    Drop {
        which: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..40usize, 0..2u32, 1..3u32).prop_map(|(after, skip, length)| Step::Make { after, skip, length }),
        3 => (0..40usize, 0..PARTS as u8).prop_map(|(which, part)| Step::Leaf { which, part }),
        1 => (0..40usize).prop_map(|which| Step::Drop { which }),
    ];
    proptest::collection::vec(step, 1..200)
}

/// (state, the slots of its leaves).
type Plain = Vec<(State, [Option<u32>; PARTS])>;

fn leaf(slot: u32) -> LeafRef {
    LeafRef {
        slot: Slot(slot),
        ..LeafRef::NEVER
    }
}

fn compare(history: &History, plain: &Plain) {
    let states: Vec<State> = plain.iter().map(|(state, _)| *state).collect();
    assert_eq!(history.states(), states);
    let end = states.last().map_or(0, |state| state.to.0) + 3;
    for at in (1..end).map(SnapshotId) {
        let place = states.iter().position(|state| state.above < at && at <= state.to);
        assert_eq!(history.place_for(at), place);
        assert_eq!(history.place_of(at), states.iter().position(|state| state.to == at));
        let above = states.iter().position(|state| state.to > at).unwrap_or(states.len());
        assert_eq!(history.place_above(at), above);
    }
    for part in 0..PARTS {
        for (place, (state, leaves)) in plain.iter().enumerate() {
            let own = history.leaf(state.to, part as u8).map(|leaf| leaf.slot.0);
            assert_eq!(own, leaves[part]);
            let newer = plain[place..].iter().find(|(_, leaves)| leaves[part].is_some());
            let seen_in = newer.map(|(state, _)| state.to);
            assert_eq!(history.seen_in(state.to, part as u8), seen_in);
        }
        let newest = plain.last().is_some_and(|(_, leaves)| leaves[part].is_some());
        assert_eq!(history.newest_has(part as u8), newest);
    }
    let mut each = Vec::new();
    history.each(|state, leaves| {
        let mut slots = [None; PARTS];
        for (part, leaf) in leaves {
            slots[usize::from(*part)] = Some(leaf.slot.0);
        }
        each.push((*state, slots));
    });
    assert_eq!(&each, plain);
    let leaves = plain.iter().flat_map(|(_, leaves)| leaves).flatten().count();
    assert_eq!(history.leaf_count(), leaves);
    let capacity = history.states.capacity() + history.parts.iter().map(Vec::capacity).sum::<usize>();
    let bytes = (size_of::<History>() + capacity * 16) as u64;
    let bound = memory_bytes(1, plain.len() as u64, leaves as u64, 0) + (PARTS * FEW * 16) as u64;
    assert!(bytes <= bound, "{bytes} bytes of {bound}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_a_list_that_is_searched(steps in steps()) {
        let mut history = History::default();
        let mut plain: Plain = Vec::new();
        for (n, step) in (0..).zip(steps) {
            match step {
                Step::Make { after, skip, length } => {
                    let place = after.min(plain.len());
                    let above = match place {
                        0 => skip,
                        place => plain[place - 1].0.to.0 + skip,
                    };
                    let to = above + length;
                    if plain.get(place).is_some_and(|(next, _)| next.above.0 < to) {
                        continue;
                    }
                    let state = State { version: Version(n), above: SnapshotId(above), to: SnapshotId(to) };
                    history.insert(state);
                    plain.insert(place, (state, [None; PARTS]));
                }
                Step::Leaf { which, part } if which < plain.len() => {
                    let (state, leaves) = &mut plain[which];
                    let place = &mut leaves[usize::from(part)];
                    match place.take() {
                        Some(slot) => {
                            let taken = history.take(state.to, part).map(|leaf| leaf.slot.0);
                            prop_assert_eq!(taken, Some(slot));
                        }
                        None => {
                            *place = Some(n as u32);
                            history.put(state.to, part, leaf(n as u32));
                        }
                    }
                }
                Step::Drop { which } if which < plain.len() => {
                    let (state, leaves) = plain.remove(which);
                    for part in 0..PARTS {
                        let Some(slot) = leaves[part] else { continue };
                        match which.checked_sub(1).map(|older| &mut plain[older]) {
                            Some((older, leaves)) if leaves[part].is_none() => {
                                history.hand_down(part as u8, state.to, older.to);
                                leaves[part] = Some(slot);
                            }
                            _ => {
                                prop_assert!(history.take(state.to, part as u8).is_some());
                            }
                        }
                    }
                    let place = history.place_of(state.to);
                    prop_assert_eq!(place, Some(which));
                    history.remove(which);
                }
                Step::Leaf { .. } | Step::Drop { .. } => {}
            }
            compare(&history, &plain);
        }
    }
}

#[test]
fn a_state_that_is_dropped_is_open_no_more() {
    let mut history = History::default();
    for to in 1..4 {
        history.insert(State {
            version: Version(9),
            above: SnapshotId(to - 1),
            to: SnapshotId(to),
        });
    }
    history.set_open(SnapshotId(2));
    history.remove(0);
    assert_eq!(history.open(), Some(SnapshotId(2)));
    history.remove(0);
    assert_eq!(history.open(), None);
}
