use super::*;
use crate::Random;

const ALL: Width = Width::MAX;

fn all(stamp: u32) -> Values {
    [Stamp(stamp); SECTORS_PER_BLOCK]
}

fn write(invoked: u64, completed: u64, stamp: u32) -> Step {
    Step {
        invoked,
        completed: Some(completed),
        void_after: None,
        action: Action::Write {
            sectors: ALL,
            stamp: Stamp(stamp),
        },
    }
}

fn unknown(invoked: u64, stamp: u32) -> Step {
    Step {
        completed: None,
        ..write(invoked, 0, stamp)
    }
}

fn read(invoked: u64, completed: u64, stamp: u32) -> Step {
    Step {
        invoked,
        completed: Some(completed),
        void_after: None,
        action: Action::Read {
            sectors: ALL,
            values: all(stamp),
        },
    }
}

#[track_caller]
fn right(steps: &[Step]) {
    assert_eq!(check(steps), Ok(()));
    assert!(brute_force(steps));
}

#[track_caller]
fn wrong(steps: &[Step]) {
    assert!(
        matches!(check(steps), Err(Violation::NoOrder { .. })),
        "{:?}",
        check(steps)
    );
    assert!(!brute_force(steps));
}

/// Every order of every choice of the operations with unknown outcome, one by one: slow, and plainly right.
fn brute_force(steps: &[Step]) -> bool {
    fn extend(steps: &[Step], placed: &mut Vec<bool>, register: &Values) -> bool {
        if steps
            .iter()
            .zip(placed.iter())
            .all(|(step, placed)| *placed || step.completed.is_none())
        {
            return true;
        }
        for index in 0..steps.len() {
            if placed[index] {
                continue;
            }
            let preceded = (0..steps.len()).any(|other| {
                !placed[other]
                    && steps[other]
                        .completed
                        .is_some_and(|completed| completed < steps[index].invoked)
            });
            // It must not come after its void, so not behind what has begun after that.
            let is_void = steps[index]
                .void_after
                .is_some_and(|end| (0..steps.len()).any(|other| placed[other] && steps[other].invoked > end));
            if preceded || is_void {
                continue;
            }
            let mut after = *register;
            match steps[index].action {
                Action::Write { sectors, stamp } => apply(&mut after, sectors, stamp),
                Action::Read { sectors, values } => {
                    if steps[index].completed.is_some() && !agrees(register, sectors, &values) {
                        continue;
                    }
                }
                Action::Again { sectors, stamp } => apply(&mut after, sectors, stamp),
                Action::Compare {
                    sectors,
                    expected,
                    stamp,
                    found_other,
                } => {
                    if agrees(register, sectors, &expected) == found_other {
                        continue;
                    }
                    if !found_other {
                        apply(&mut after, sectors, stamp);
                    }
                }
            }
            placed[index] = true;
            let found = extend(steps, placed, &after);
            placed[index] = false;
            if found {
                return true;
            }
        }
        false
    }
    extend(steps, &mut vec![false; steps.len()], &all(0))
}

/// For every write another that may have happened by its answer.
fn with_repetitions(steps: &[Step]) -> Vec<Step> {
    let again = |step: &Step| match step.action {
        Action::Write { sectors, stamp } if stamp != Stamp::ZERO => Some(Step {
            completed: None,
            void_after: step.completed.or(step.void_after),
            action: Action::Again { sectors, stamp },
            ..*step
        }),
        _ => None,
    };
    steps.iter().copied().chain(steps.iter().filter_map(again)).collect()
}

#[test]
fn plain_histories_are_right() {
    right(&[]);
    right(&[read(1, 2, 0)]);
    right(&[write(1, 2, 1), read(3, 4, 1), write(5, 6, 2), read(7, 8, 2)]);
    // A read beside a write may see either.
    right(&[write(1, 4, 1), read(2, 3, 0)]);
    right(&[write(1, 4, 1), read(2, 3, 1)]);
    // Two writes at once: either may be last.
    right(&[write(1, 4, 1), write(2, 3, 2), read(5, 6, 1)]);
    right(&[write(1, 4, 1), write(2, 3, 2), read(5, 6, 2)]);
    // A clear.
    right(&[
        write(1, 2, 1),
        write(3, 4, 0),
        read(5, 6, 0),
        write(7, 8, 2),
        read(9, 10, 2),
    ]);
}

#[test]
fn a_stale_read_is_wrong() {
    wrong(&[write(1, 2, 1), write(3, 4, 2), read(5, 6, 1)]);
}

#[test]
fn a_lost_write_is_wrong() {
    wrong(&[write(1, 2, 1), read(3, 4, 0)]);
}

#[test]
fn a_read_that_goes_back_is_wrong() {
    // The write is still under way: one read has seen it, the next has not (R3).
    wrong(&[write(1, 10, 1), read(2, 3, 1), read(4, 5, 0)]);
    // The same with a write whose outcome was never known.
    wrong(&[unknown(1, 1), read(2, 3, 1), read(4, 5, 0)]);
}

#[test]
fn a_failed_write_may_appear_late_but_not_vanish() {
    right(&[unknown(1, 1), read(2, 3, 0), read(4, 5, 0)]);
    right(&[unknown(1, 1), read(2, 3, 0), read(4, 5, 1), read(6, 7, 1)]);
    wrong(&[unknown(1, 1), read(2, 3, 0), read(4, 5, 1), read(6, 7, 0)]);
    // It may come after a later write, but then it stays.
    right(&[unknown(1, 1), write(2, 3, 2), read(4, 5, 2), read(6, 7, 1)]);
    wrong(&[unknown(1, 1), write(2, 3, 2), read(4, 5, 1), read(6, 7, 2)]);
}

#[test]
fn clears_of_unknown_outcome_are_optional() {
    right(&[
        write(1, 2, 1),
        unknown(3, 0),
        read(4, 5, 1),
        read(6, 7, 0),
        read(8, 9, 0),
    ]);
    wrong(&[write(1, 2, 1), unknown(3, 0), read(4, 5, 0), read(6, 7, 1)]);
    // Two of them explain two disappearances.
    right(&[
        write(1, 2, 1),
        unknown(3, 0),
        unknown(4, 0),
        read(5, 6, 0),
        write(7, 8, 2),
        read(9, 10, 0),
    ]);
    wrong(&[
        write(1, 2, 1),
        unknown(3, 0),
        read(5, 6, 0),
        write(7, 8, 2),
        read(9, 10, 0),
    ]);
}

#[test]
fn a_value_from_nowhere_is_named() {
    let nowhere = |steps: &[Step], stamp| {
        assert!(
            matches!(check(steps), Err(Violation::FromNowhere { stamp: found, .. }) if found == Stamp(stamp)),
            "{:?}",
            check(steps)
        );
    };
    nowhere(&[write(1, 2, 1), read(3, 4, 9)], 9);
    // Read before it was written.
    nowhere(&[read(1, 2, 1), write(3, 4, 1)], 1);
    // Seen in a sector that the write did not touch.
    let part = Step {
        invoked: 1,
        completed: Some(2),
        void_after: None,
        action: Action::Write {
            sectors: 0b0001,
            stamp: Stamp(1),
        },
    };
    nowhere(&[part, read(3, 4, 1)], 1);
}

#[test]
fn parts_of_a_block_are_one_register() {
    let part = |invoked, completed, sectors, stamp| Step {
        invoked,
        completed: Some(completed),
        void_after: None,
        action: Action::Write {
            sectors,
            stamp: Stamp(stamp),
        },
    };
    let values = |low: u32, high: u32| {
        let mut values = all(high);
        values[..4].fill(Stamp(low));
        values
    };
    let see = |invoked, completed, values| Step {
        invoked,
        completed: Some(completed),
        void_after: None,
        action: Action::Read { sectors: ALL, values },
    };
    right(&[write(1, 2, 1), part(3, 4, 0x0f, 2), see(5, 6, values(2, 1))]);
    // The read-modify-write lost its neighbour.
    wrong(&[write(1, 2, 1), part(3, 4, 0x0f, 2), see(5, 6, values(2, 0))]);
    // A block written as a whole is never seen in halves.
    wrong(&[write(1, 10, 1), see(2, 3, values(1, 0))]);
    // Two parts at once both stay.
    right(&[part(1, 4, 0x0f, 1), part(2, 3, 0xf0, 2), see(5, 6, values(1, 2))]);
    wrong(&[part(1, 4, 0x0f, 1), part(2, 3, 0xf0, 2), see(5, 6, values(0, 2))]);
}

fn compare(invoked: u64, completed: u64, expected: u32, stamp: u32) -> Step {
    Step {
        invoked,
        completed: Some(completed),
        void_after: None,
        action: Action::Compare {
            sectors: ALL,
            expected: all(expected),
            stamp: Stamp(stamp),
            found_other: false,
        },
    }
}

fn miscompare(invoked: u64, completed: u64, expected: u32, stamp: u32) -> Step {
    Step {
        action: Action::Compare {
            sectors: ALL,
            expected: all(expected),
            stamp: Stamp(stamp),
            found_other: true,
        },
        ..compare(invoked, completed, expected, stamp)
    }
}

#[test]
fn a_compare_and_write_is_one_moment() {
    right(&[write(1, 2, 1), compare(3, 4, 1, 2), read(5, 6, 2)]);
    right(&[write(1, 2, 1), miscompare(3, 4, 3, 2), write(5, 6, 3), read(7, 8, 3)]);
    // Two that expect the same cannot both have written.
    wrong(&[compare(1, 4, 0, 1), compare(2, 3, 0, 2)]);
    right(&[compare(1, 4, 0, 1), miscompare(2, 3, 0, 2)]);
    // It found what was there.
    wrong(&[write(1, 2, 1), miscompare(3, 4, 1, 2)]);
    // A write of unknown outcome that nobody has read may be what was found.
    right(&[miscompare(3, 4, 0, 2), unknown(1, 1)]);
    wrong(&[miscompare(1, 2, 0, 2), unknown(3, 1)]);
    // Carried out twice: what it had written was overwritten by what it expects, and it wrote again.
    wrong(&[compare(1, 2, 0, 1), write(3, 4, 0), read(5, 6, 0), read(7, 8, 1)]);
}

#[test]
fn a_write_that_was_repeated_is_void_after_the_answer() {
    let repeated = |invoked, stamp, void: u64| Step {
        void_after: Some(void),
        ..unknown(invoked, stamp)
    };
    // It may have been done or not, before or after the repetition.
    right(&[repeated(1, 1, 4), write(2, 4, 2), read(5, 6, 2)]);
    right(&[repeated(1, 1, 4), write(2, 4, 2), read(5, 6, 1)]);
    right(&[repeated(1, 1, 4), write(2, 4, 2), read(3, 7, 1), read(8, 9, 2)]);
    // But not later than that.
    wrong(&[repeated(1, 1, 4), write(2, 4, 2), read(5, 6, 2), read(7, 8, 1)]);
    wrong(&[repeated(1, 1, 4), write(2, 4, 2), write(5, 6, 3), read(7, 8, 1)]);
    // Nor as what a compare-and-write found.
    wrong(&[repeated(1, 1, 4), write(2, 4, 2), read(5, 6, 2), miscompare(7, 8, 2, 3)]);
    right(&[repeated(1, 1, 4), write(2, 4, 2), miscompare(5, 6, 2, 3)]);
}

#[test]
fn a_write_may_be_carried_out_as_often_as_it_was_sent_before_it_is_answered() {
    let with_others = |steps: &[Step], count: usize| {
        let Action::Write { sectors, stamp } = steps[0].action else {
            panic!("the first is the write")
        };
        let other = Step {
            completed: None,
            void_after: steps[0].completed,
            action: Action::Again { sectors, stamp },
            ..steps[0]
        };
        check(&[steps, &vec![other; count]].concat())
    };
    let steps = [
        write(1, 10, 1),
        read(2, 3, 1),
        compare(4, 5, 1, 2),
        read(6, 7, 2),
        compare(8, 9, 1, 3),
        read(11, 12, 3),
    ];
    wrong(&steps);
    assert_eq!(with_others(&steps, 1), Ok(()));
    // No more often than it was sent.
    let thrice = [
        write(1, 20, 1),
        read(2, 3, 1),
        write(4, 5, 2),
        read(6, 7, 1),
        compare(8, 9, 1, 3),
        read(10, 11, 1),
        write(12, 13, 4),
        read(21, 22, 1),
    ];
    wrong(&thrice);
    assert!(with_others(&thrice, 2).is_err());
    assert_eq!(with_others(&thrice, 3), Ok(()));
    // Not after the answer.
    let late = [write(1, 2, 1), write(3, 4, 2), read(5, 6, 2), read(7, 8, 1)];
    assert!(with_others(&late, 3).is_err());
}

#[test]
fn long_histories_are_quick() {
    // Eight clients keep writing and reading one block; every answer is right.
    let mut random = Random::new(3);
    let mut steps = Vec::new();
    let (mut event, mut register, mut stamp) = (0, 0, 0);
    let mut under_way: Vec<Step> = Vec::new();
    while steps.len() < 3000 {
        event += 1;
        if under_way.len() < 8 && random.percent(60) {
            stamp += 1;
            let mut step = if random.percent(50) {
                write(event, 0, stamp)
            } else {
                read(event, 0, register)
            };
            if let Action::Write { stamp, .. } = step.action {
                register = stamp.0; // Takes effect at once, is answered later.
                if random.percent(3) {
                    step.completed = None;
                    steps.push(step);
                    continue;
                }
            }
            under_way.push(step);
        } else if !under_way.is_empty() {
            let mut step = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
            step.completed = Some(event);
            steps.push(step);
        }
    }
    assert_eq!(check(&steps), Ok(()));
    // One early stale read among them is found.
    let wrong = steps
        .iter()
        .position(|s| matches!(s.action, Action::Read { values, .. } if values[0].0 > 100))
        .unwrap();
    steps[wrong].action = Action::Read {
        sectors: ALL,
        values: all(1),
    };
    assert!(check(&steps).is_err());
}

#[test]
fn many_writes_at_once_are_quick() {
    // Forty writes and some reads at any time on one block, some of parts of it.
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (mut steps, mut under_way) = (Vec::new(), Vec::new());
        let (mut event, mut register, mut stamp) = (0, Values::default(), 0);
        while steps.len() < 400 {
            event += 1;
            if under_way.len() < 40 && random.percent(70) {
                let sectors = *random.pick(&[0xff, 0xff, 0xff, 0x3c, 0x0f]);
                if random.percent(25) {
                    let action = Action::Read {
                        sectors,
                        values: register,
                    };
                    under_way.push(Step {
                        invoked: event,
                        completed: None,
                        void_after: None,
                        action,
                    });
                } else {
                    stamp += 1;
                    let stamp = Stamp(if random.percent(5) { 0 } else { stamp });
                    apply(&mut register, sectors, stamp);
                    let action = Action::Write { sectors, stamp };
                    under_way.push(Step {
                        invoked: event,
                        completed: None,
                        void_after: None,
                        action,
                    });
                }
            } else if !under_way.is_empty() {
                let mut step = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
                step.completed = Some(event);
                steps.push(step);
            }
        }
        steps.extend(under_way);
        assert_eq!(check(&steps), Ok(()), "seed {seed}");
    }
}

/// Twenty writes at once, each of which somebody reads meanwhile: there are a million beginnings, and what is wrong comes at the end.
#[test]
fn what_no_order_explains_at_the_end_is_found_before_all_beginnings_are_tried() {
    let mut steps: Vec<Step> = (1..=20)
        .flat_map(|stamp| [write(1, 100, stamp), read(2, 99, stamp)])
        .collect();
    steps.push(read(101, 102, 7));
    assert_eq!(check(&steps), Ok(()));
    steps.push(read(103, 104, 8));
    let Err(Violation::NoOrder { unplaced, .. }) = check(&steps) else {
        panic!("w8 came after w7 and before it");
    };
    assert_eq!(unplaced, [103]);
}

/// Clients of several gateways whose writes are cut off in numbers, while compare-and-writes find what they do not
/// expect.
#[test]
fn miscompares_among_unknown_writes_are_quick() {
    let mut found = 0;
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut steps, mut under_way) = (Vec::<Step>::new(), Vec::<Step>::new());
        let (mut register, mut stamp) = (0, 0);
        for event in 1..600 {
            if under_way.len() < 12 && random.percent(60) {
                stamp += 1;
                let step = match random.below(4) {
                    0 => read(event, event, register),
                    1 => compare(event, event, register, stamp),
                    2 if register != 1 => miscompare(event, event, 1, stamp),
                    _ => write(event, event, stamp),
                };
                let writes = match step.action {
                    Action::Write { .. } => true,
                    Action::Compare { found_other, .. } => !found_other,
                    _ => false,
                };
                if writes {
                    register = stamp; // Takes effect at once, is answered later.
                }
                under_way.push(step);
            } else if !under_way.is_empty() {
                let mut step = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
                let may_be_lost = matches!(step.action, Action::Write { .. }) && random.percent(70);
                step.completed = (!may_be_lost).then_some(event);
                step.void_after = (may_be_lost && random.percent(50)).then_some(event);
                steps.push(step);
            }
        }
        steps.extend(
            under_way
                .into_iter()
                .map(|step| Step {
                    completed: None,
                    ..step
                })
                .filter(|step| !matches!(step.action, Action::Compare { found_other: true, .. })),
        );
        assert_eq!(check(&steps), Ok(()), "seed {seed}");
        // A read of what was overwritten long before is found among them.
        let old = steps.iter().find_map(|step| match step.action {
            Action::Write { stamp, .. } if step.completed.is_some() && stamp.0 < 20 => Some(stamp.0),
            _ => None,
        });
        let is_late = |step: &Step| matches!(step.action, Action::Read { values, .. } if values[0].0 > stamp / 2);
        let late = steps.iter().position(|step| step.completed.is_some() && is_late(step));
        if let (Some(old), Some(late)) = (old, late) {
            steps[late].action = read(0, 0, old).action;
            assert!(matches!(check(&steps), Err(Violation::NoOrder { .. })), "seed {seed}");
            found += 1;
        }
    }
    assert!(found > 10, "a stale read was tried in {found} histories");
}

#[test]
fn agrees_with_brute_force_on_random_histories() {
    let (mut right, mut wrong, mut unexplained) = (0, 0, 0);
    for seed in 0..60_000 {
        let mut random = Random::new(seed);
        let count = random.within(2, if seed % 8 == 0 { 7 } else { 6 });
        // Random starts and ends: a shuffle of 2 * count events.
        let mut events: Vec<u64> = (1..=2 * count).collect();
        for index in (1..events.len()).rev() {
            events.swap(index, random.below(index as u64 + 1) as usize);
        }
        let halves = [0x0f, 0xf0, 0xff, 0xff, 0xff];
        let written: Vec<(Width, u32)> = (0..count)
            .map(|index| {
                (
                    *random.pick(&halves),
                    if random.percent(15) { 0 } else { index as u32 + 1 },
                )
            })
            .collect();
        let steps: Vec<Step> = (0..count as usize)
            .map(|index| {
                let (a, b) = (events[2 * index], events[2 * index + 1]);
                let action = if random.percent(20) {
                    Action::Compare {
                        sectors: written[index].0,
                        expected: all(random.below(count + 1) as u32),
                        stamp: Stamp(index as u32 + 1),
                        found_other: random.percent(50),
                    }
                } else if random.percent(45) {
                    let (sectors, stamp) = written[index];
                    Action::Write {
                        sectors,
                        stamp: Stamp(stamp),
                    }
                } else {
                    // Mostly stamps that somebody may have written.
                    let mut values = Values::default();
                    for half in values.chunks_mut(4) {
                        half.fill(Stamp(if random.percent(30) {
                            0
                        } else {
                            random.within(1, count) as u32
                        }));
                    }
                    if random.percent(50) {
                        values = [values[0]; SECTORS_PER_BLOCK];
                    }
                    Action::Read {
                        sectors: *random.pick(&halves),
                        values,
                    }
                };
                let must_end = matches!(action, Action::Compare { found_other: true, .. });
                let completed = (must_end || random.percent(80)).then_some(a.max(b));
                let may_be_void = matches!(action, Action::Write { .. });
                Step {
                    invoked: a.min(b),
                    completed,
                    void_after: (completed.is_none() && may_be_void && random.percent(50)).then_some(a.max(b)),
                    action,
                }
            })
            .collect();
        let found = check(&steps).is_ok();
        assert_eq!(found, brute_force(&steps), "seed {seed}: {steps:#?}");
        let twice = with_repetitions(&steps);
        if twice.len() <= 6 {
            assert_eq!(check(&twice).is_ok(), brute_force(&twice), "seed {seed}: {twice:#?}");
        }
        for (steps, is_right) in [(&steps, found), (&twice, check(&twice).is_ok())] {
            if let Ok(reduced) = reduce(steps)
                && let Some(read) = Search::new(&reduced).unexplained()
            {
                assert!(!is_right, "seed {seed}: nothing explains #{read} in {steps:#?}");
                unexplained += 1;
            }
        }
        if found { right += 1 } else { wrong += 1 }
    }
    assert!(
        right > 5_000 && wrong > 5_000,
        "both kinds are tried: {right} right, {wrong} wrong"
    );
    assert!(
        unexplained > 1_000,
        "{unexplained} of the wrong ones show it by a read alone"
    );
}
