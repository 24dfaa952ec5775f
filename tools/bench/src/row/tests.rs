use super::{Done, Latency, Row, digits, markdown};
use crate::case::{Case, Front, Mix};
use crate::units::Units;
use crate::usage::{Usage, Used};
use std::time::Duration;

fn used(cpu_ms: u64) -> Used {
    Used {
        cpu: Duration::from_millis(cpu_ms),
        voluntary: 1000,
        involuntary: 500,
    }
}

fn row(mix: Mix) -> Row {
    let usage = Usage {
        length: Duration::from_secs(1),
        by_name: [("client", used(40)), ("n1", used(60))]
            .map(|(name, used)| (name.to_owned(), used))
            .into(),
        ..Usage::default()
    };
    let units = Units {
        p: Duration::from_micros(10),
        r: Duration::from_micros(50),
        cores: 2,
    };
    let latency = Latency {
        mean: 123.456,
        p50: 100.0,
        p99: 200.0,
        p999: 300.0,
        max: 400.0,
    };
    let done = Done {
        iops: 10_000.0,
        read: latency,
        write: latency,
        noise: 0.01,
    };
    Row::new(
        &Case::new(Front::Libamita, mix, 32),
        &done,
        &usage,
        &units,
        Some(4096 * 15_000),
    )
}

#[test]
fn costs_are_per_io_and_split_by_process() {
    let row = row(Mix::Write);
    assert_eq!(
        (row.cpu_us["client"], row.cpu_us["n1"], row.cpu_total_us),
        (4.0, 6.0, 10.0)
    );
    assert_eq!(row.cpu_p, 1.0);
    assert_eq!((row.sleeps, row.preemptions), (0.2, 0.1));
    assert_eq!(row.written_per_byte, Some(1.5));
    assert_eq!(
        (row.read_us, row.write_us.map(|latency| latency.mean)),
        (None, Some(123.5))
    );
    assert_eq!(row.mib_s, 39.06);
}

#[test]
fn a_read_writes_nothing_per_byte_and_a_mix_has_both_latencies() {
    assert_eq!(self::row(Mix::Read).written_per_byte, None);
    let mixed = row(Mix::Mixed);
    assert!(mixed.read_us.is_some() && mixed.write_us.is_some());
    let text = markdown(&[mixed]);
    assert!(text.contains("123 / 123") || text.contains("124 / 124"), "{text}");
}

#[test]
fn what_is_not_measured_is_not_a_zero() {
    let text = markdown(&[row(Mix::Read)]);
    let cells: Vec<&str> = text.lines().last().expect("a row").split('|').map(str::trim).collect();
    assert_eq!((cells[12], cells[15], cells[16]), ("-", "-", "-"), "{text}");
}

#[test]
fn four_digits_are_kept() {
    assert_eq!(
        [123_456.0, 1.234_56, 0.000_123_456, 0.0].map(digits),
        [123_500.0, 1.235, 0.000_123_5, 0.0]
    );
}

#[test]
fn a_row_travels_as_json() {
    let row = row(Mix::Mixed);
    let text = serde_json::to_string(&row).expect("JSON");
    assert!(
        text.len() < 1500,
        "{} bytes are many for a row that is kept",
        text.len()
    );
    assert_eq!(serde_json::from_str::<Row>(&text).expect("read back"), row);
}
