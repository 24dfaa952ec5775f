//! What is made of a host's answers.

use super::host::Seen;
use super::{Stretch, Turn, Work, judge};
use crate::report::{Figure, Figures};
use std::time::{Duration, Instant};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn a_stretch_has_its_own_answers_and_the_gap_that_ends_behind_it() {
    let zero = Instant::now();
    let seen = Seen {
        answers: [0, 10, 20, 30, 90, 100, 110, 400, 410].map(|at| zero + ms(at)).to_vec(),
        retries: 0,
    };
    let within = |from, to| seen.within(zero + ms(from), zero + ms(to), ms(7));
    let early = within(15, 105);
    assert_eq!((early.ios, early.gap, early.cpu), (4, ms(60), ms(7)));
    // Nobody knew at its end how long this one was to be.
    let late = within(105, 200);
    assert_eq!((late.ios, late.gap, late.length), (1, ms(290), ms(95)));
    // It had begun before.
    assert_eq!(within(150, 300).ios, 0);
    assert_eq!(within(150, 300).gap, ms(290));
    assert_eq!(within(500, 600).gap, ms(100));
    assert!((early.iops() - 4.0 / 0.09).abs() < 1e-6);
}

/// A host that did 1,000 I/Os in a second for 100 ms of CPU, and then so many for so much.
fn turn(ios: usize, cpu: Duration, gap: Duration) -> Turn {
    let stretch = |ios, cpu, gap| Stretch {
        length: ms(1000),
        ios,
        gap,
        cpu,
    };
    Turn {
        before: stretch(1000, ms(100), ms(2)),
        beside: stretch(ios, cpu, gap),
        took: ms(2000),
        retries: 0,
    }
}

fn judged(work: Work, turns: &[Turn]) -> Vec<Figure> {
    let mut figures = Figures::default();
    judge(work, ("moving.x", "x"), 100_000_000, turns, &mut figures);
    figures.all().to_vec()
}

fn of<'a>(figures: &'a [Figure], name: &str) -> &'a Figure {
    let found = figures.iter().find(|figure| figure.name == format!("moving.x.{name}"));
    found.unwrap_or_else(|| panic!("no {name}: {figures:?}"))
}

#[test]
fn the_middle_turn_is_judged() {
    let turns = [
        turn(600, ms(500), ms(700)),
        turn(800, ms(480), ms(40)),
        turn(900, ms(490), ms(30)),
    ];
    let figures = judged(Work::Migrate, &turns);
    let left = of(&figures, "iops_left");
    assert_eq!((left.value, left.target, left.holds), (0.8, Some(0.7), Some(true)));
    let pause = of(&figures, "pause_ms");
    assert_eq!((pause.value, pause.target, pause.holds), (40.0, Some(50.0), Some(true)));
    assert_eq!(of(&figures, "mb_s").value, 50.0);
    assert_eq!(of(&figures, "usual_gap_ms").value, 2.0);
    // What 800 I/Os took before is not the move's.
    assert!((of(&figures, "cpu_ms_per_mb").value - 4.0).abs() < 1e-9);
    assert!(figures.iter().all(|figure| !figure.name.ends_with("retries")));
}

#[test]
fn a_copy_has_no_switch_and_repeated_ios_are_told() {
    let mut repeated = turn(600, ms(500), ms(700));
    repeated.retries = 2;
    let figures = judged(Work::Copy, &[repeated, repeated]);
    assert_eq!(of(&figures, "pause_ms").target, None);
    assert_eq!(of(&figures, "iops_left").holds, Some(false));
    assert_eq!(of(&figures, "retries").value, 4.0);
}
