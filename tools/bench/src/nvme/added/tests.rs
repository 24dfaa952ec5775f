//! What is subtracted from what.

use super::{Sample, Turn};
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
        remote: sample(12.5, 110.0),
        trip: Duration::from_micros(28),
    };
    assert_eq!(turn.added_cpu_us(), 3.5);
    assert_eq!(turn.added_latency_us(), 12.0);
}
