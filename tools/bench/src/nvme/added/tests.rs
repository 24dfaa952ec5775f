//! What is subtracted from what.

use super::{Sample, Turn, median};
use std::time::Duration;

fn sample(cpu_us: f64, latency_us: f64) -> Sample {
    Sample {
        cpu_us,
        latency_us,
        ..Sample::default()
    }
}

#[test]
fn the_library_and_the_round_trip_are_subtracted() {
    let turn = Turn {
        local: sample(9.0, 70.0),
        nvme: sample(12.5, 110.0),
        trip: Duration::from_micros(28),
    };
    assert_eq!(turn.added_cpu_us(), 3.5);
    assert_eq!(turn.added_latency_us(), 12.0);
}

#[test]
fn the_middle_one_counts_and_not_what_was_disturbed() {
    assert_eq!(median([3.0, 900.0, 2.0].into_iter()), 3.0);
    assert_eq!(median([1.0, 4.0].into_iter()), 4.0);
    assert_eq!(median([-1.0].into_iter()), -1.0);
    assert_eq!(median(std::iter::empty()), 0.0);
}
