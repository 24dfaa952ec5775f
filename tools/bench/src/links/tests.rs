//! What is compared with what.

use super::judge;
use crate::case::{Case, Front, Mix, Placement};
use crate::report::Figures;
use crate::turns::{Sample, Turn};

fn sample(cpu_us: f64, iops: f64) -> Sample {
    Sample {
        cpu_us,
        latency_us: 2.0 * cpu_us,
        iops,
    }
}

fn judged(mix: Mix, depth: u32, turns: &[Turn]) -> Figures {
    let case = Case {
        placement: Placement::OneCore,
        ..Case::new(Front::Libamita, mix, depth)
    };
    let mut figures = Figures::default();
    judge(&case, turns, &mut figures);
    figures
}

#[test]
fn each_turn_is_compared_with_itself_and_the_middle_one_counts() {
    // The machine was twice as slow in the second turn, for all, and somebody disturbed `auth` in the third.
    let turns = [
        vec![sample(8.0, 1000.0), sample(8.5, 950.0), sample(9.0, 900.0)],
        vec![sample(16.0, 500.0), sample(17.0, 470.0), sample(18.0, 450.0)],
        vec![sample(8.0, 1000.0), sample(90.0, 10.0), sample(9.0, 900.0)],
    ];
    let figures = judged(Mix::Write, 32, &turns);
    let of = |name: &str| {
        let found = figures.all().iter().find(|figure| figure.name == name);
        found.unwrap_or_else(|| panic!("no {name}: {figures:?}")).clone()
    };
    let added = of("links.write.4k.qd32.one_core.auth.added_cpu_us");
    assert_eq!((added.value, added.target, added.holds), (1.0, Some(1.0), Some(true)));
    let left = of("links.write.4k.qd32.one_core.auth.rate_left");
    assert_eq!((left.value, left.target, left.holds), (0.94, Some(0.85), Some(true)));
    // What was chosen by whoever wants it is not judged.
    assert_eq!(of("links.write.4k.qd32.one_core.secret.rate_left").target, None);
    assert_eq!(of("links.write.4k.qd32.one_core.insecure.cpu_us").value, 8.0);
}

#[test]
fn a_read_has_less_room_than_a_write() {
    let turns = [vec![sample(4.0, 1000.0), sample(4.5, 800.0), sample(5.0, 700.0)]];
    let figures = judged(Mix::Read, 32, &turns);
    let missed: Vec<&str> = figures
        .all()
        .iter()
        .filter(|figure| figure.holds == Some(false))
        .map(|figure| figure.name.as_str())
        .collect();
    assert_eq!(
        missed,
        [
            "links.read.4k.qd32.one_core.auth.added_cpu_us",
            "links.read.4k.qd32.one_core.auth.rate_left"
        ]
    );
    // One at a time is mostly waiting.
    assert!(
        judged(Mix::Read, 1, &turns)
            .all()
            .iter()
            .all(|figure| figure.target.is_none())
    );
}
