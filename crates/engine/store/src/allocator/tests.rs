//! Tests of the allocator against a plain set of slots.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Step {
    Take(u32),
    Give(usize),
    Claim(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..200u32).prop_map(Step::Take),
        3 => any::<usize>().prop_map(Step::Give),
        1 => (0..9000u32).prop_map(Step::Claim),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    #[test]
    fn it_is_a_set_of_slots(slots in 64..9000u32, steps in steps()) {
        let mut allocator = Allocator::new(slots);
        let mut free: BTreeSet<u32> = (0..slots).collect();
        let mut taken: Vec<Run> = Vec::new();
        for step in steps {
            match step {
                Step::Take(count) => {
                    let count = count.min(allocator.free());
                    let mut runs = Vec::new();
                    allocator.take(count, &mut runs);
                    prop_assert_eq!(runs.iter().map(|run| run.count).sum::<u32>(), count);
                    for run in &runs {
                        for slot in run.slot.0..run.slot.0 + run.count {
                            prop_assert!(free.remove(&slot), "slot {} was not free", slot);
                        }
                    }
                    taken.extend(runs);
                }
                Step::Give(at) if !taken.is_empty() => {
                    let run = taken.swap_remove(at % taken.len());
                    allocator.give(run);
                    free.extend(run.slot.0..run.slot.0 + run.count);
                }
                Step::Give(_) => {}
                Step::Claim(slot) => {
                    let was_free = free.remove(&slot);
                    prop_assert_eq!(allocator.claim(Slot(slot)), was_free);
                    if was_free {
                        taken.push(Run { slot: Slot(slot), count: 1 });
                    }
                }
            }
            prop_assert_eq!(allocator.free() as usize, free.len());
        }
        for slot in 0..slots {
            prop_assert_eq!(allocator.is_free(Slot(slot)), free.contains(&slot));
        }
    }
}

#[test]
fn a_fresh_store_is_one_run() {
    let mut allocator = Allocator::new(100_000);
    let mut runs = Vec::new();
    for _ in 0..100 {
        allocator.take(1000, &mut runs);
    }
    assert_eq!(
        runs,
        [Run {
            slot: Slot(0),
            count: 100_000
        }]
    );
    assert_eq!(allocator.free(), 0);
}

#[test]
fn a_long_run_is_preferred_to_the_first_hole() {
    let mut allocator = Allocator::new(1000);
    let mut runs = Vec::new();
    allocator.take(1000, &mut runs);
    for slot in [10, 20, 30] {
        allocator.give(Run {
            slot: Slot(slot),
            count: 1,
        });
    }
    allocator.give(Run {
        slot: Slot(500),
        count: 40,
    });
    runs.clear();
    allocator.take(32, &mut runs);
    assert_eq!(
        runs,
        [Run {
            slot: Slot(500),
            count: 32
        }]
    );
    runs.clear();
    allocator.take(11, &mut runs);
    assert_eq!(runs.iter().map(|run| run.count).sum::<u32>(), 11);
    assert_eq!(allocator.free(), 0);
}

#[test]
fn a_slot_is_freed_once() {
    let mut allocator = Allocator::new(64);
    let run = |slot| Run {
        slot: Slot(slot),
        count: 1,
    };
    assert!(!allocator.give(run(3)), "it was free");
    assert!(!allocator.give(run(64)), "there is none such");
    assert!(allocator.claim(Slot(3)) && allocator.give(run(3)));
    assert_eq!(allocator.free(), 64);
}

#[test]
fn freed_slots_wait_for_the_mark_and_for_reads() {
    let mut freed = Freed::default();
    let mut window = ReadWindow::default();
    let early = window.begin();
    for slot in [5, 6, 9] {
        freed.push(Slot(slot), 10, window.next());
    }
    let late = window.begin();
    freed.push(Slot(7), 12, window.next());
    assert_eq!(freed.slots(), 4);
    assert_eq!(freed.pop(9, window.oldest()), None, "rule D1");
    assert_eq!(freed.pop(10, window.oldest()), None, "rule D6");
    window.end(early);
    assert_eq!(
        freed.pop(10, window.oldest()),
        Some(Run {
            slot: Slot(5),
            count: 2
        })
    );
    assert_eq!(
        freed.pop(10, window.oldest()),
        Some(Run {
            slot: Slot(9),
            count: 1
        })
    );
    assert_eq!(
        (freed.pop(11, window.oldest()), freed.next_position()),
        (None, Some(12))
    );
    assert_eq!(freed.pop(12, window.oldest()), None);
    window.end(late);
    assert_eq!(
        freed.pop(12, window.oldest()),
        Some(Run {
            slot: Slot(7),
            count: 1
        })
    );
    assert_eq!(freed.slots(), 0);
}

#[test]
fn reads_may_end_in_any_order() {
    let mut window = ReadWindow::default();
    let reads: Vec<u64> = (0..5).map(|_| window.begin()).collect();
    for &at in &[1, 0, 4, 3] {
        window.end(reads[at]);
    }
    assert_eq!(window.oldest(), 2);
    window.end(reads[2]);
    assert_eq!((window.oldest(), window.next()), (5, 5));
}
