//! What is compared with what.

use super::{NEIGHBOUR_IOPS, NEIGHBOUR_TURN, Sample, TURN, Turn, judge};
use super::{NEIGHBOUR_RAMP, RAMP};
use crate::case::Mix;
use crate::client::FIO_START;
use crate::report::{Figure, Figures};

fn turn(p99_us: [f64; 3], neighbour_iops: f64) -> Turn {
    let sample = |p99_us, neighbour_iops| Sample {
        p99_us,
        iops: 1000.0,
        neighbour_iops,
    };
    [
        sample(p99_us[0], 0.0),
        sample(p99_us[1], neighbour_iops),
        sample(p99_us[2], 30000.0),
    ]
}

fn judged(turns: &[Turn]) -> Vec<Figure> {
    let mut figures = Figures::default();
    judge(Mix::Write, turns, &mut figures);
    figures.all().to_vec()
}

fn of<'a>(figures: &'a [Figure], name: &str) -> &'a Figure {
    let name = format!("neighbours.write.4k.{name}");
    let found = figures.iter().find(|figure| figure.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {figures:?}"))
}

#[test]
fn a_p99_is_compared_with_the_one_alone_of_its_own_turn() {
    // The machine was twice as slow in the second turn, for all.
    let figures = judged(&[
        turn([200.0, 220.0, 900.0], 3900.0),
        turn([400.0, 440.0, 1800.0], 3900.0),
        turn([200.0, 500.0, 900.0], 3900.0),
    ]);
    let limited = of(&figures, "limited.p99_times");
    assert_eq!(
        (limited.value, limited.target, limited.holds),
        (1.1, Some(1.2), Some(true))
    );
    let unlimited = of(&figures, "unlimited.p99_times");
    assert_eq!((unlimited.value, unlimited.target), (4.5, None));
    assert_eq!(of(&figures, "nobody.p99_us").value, 200.0);
    assert_eq!(of(&figures, "unlimited.neighbour_iops").value, 30000.0);
    assert_eq!(figures.iter().filter(|figure| figure.target.is_some()).count(), 3);
}

#[test]
fn a_limit_is_to_be_reached_and_not_to_be_passed() {
    let limit = f64::from(NEIGHBOUR_IOPS);
    let with = |rates: [f64; 3]| judged(&rates.map(|rate| turn([200.0; 3], rate * limit)));
    let holds = |figures: &[Figure]| ["limit.passed", "limit.most"].map(|name| of(figures, name).holds);
    assert_eq!(holds(&with([0.97, 0.99, 0.98])), [Some(true), Some(true)]);
    // What passes at once after a pause is within what is promised.
    assert_eq!(holds(&with([1.01, 1.0, 1.0])), [Some(true), Some(true)]);
    assert_eq!(holds(&with([0.9, 0.9, 0.99])), [Some(false), Some(true)]);
    // Once is too often.
    assert_eq!(holds(&with([1.0, 1.1, 1.0])), [Some(true), Some(false)]);
}

#[test]
fn the_neighbour_is_at_work_for_as_long_as_the_host_is_measured() {
    // The host begins when the neighbour's measured time does.
    let host = FIO_START + RAMP + TURN;
    assert!(host + FIO_START < NEIGHBOUR_TURN && RAMP < NEIGHBOUR_RAMP);
}
