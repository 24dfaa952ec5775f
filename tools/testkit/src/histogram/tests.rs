use super::{Histogram, bucket, upper};
use std::time::Duration;

#[test]
fn each_value_lies_in_its_bucket_and_buckets_are_narrow() {
    let mut values: Vec<u64> = (0..4096).collect();
    values.extend((12..42).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << (bit - 1)]));
    for value in values {
        let index = bucket(value) as u64;
        let (low, high) = (if index == 0 { 0 } else { upper(index - 1) + 1 }, upper(index));
        assert!((low..=high).contains(&value), "{value} is not in {low}..={high}");
        assert!(
            (high - low) * 128 <= value.max(1),
            "the bucket of {value} is {low}..={high}"
        );
    }
}

#[test]
fn quantiles_mean_and_maximum_are_those_of_the_values() {
    let mut histogram = Histogram::new();
    for us in 1..=1000u64 {
        histogram.record(us * 1000);
    }
    assert_eq!(histogram.count(), 1000);
    assert_eq!(histogram.mean(), Duration::from_nanos(500_500));
    assert!((histogram.mean_ns() - 500_500.0).abs() < 1e-6);
    assert_eq!(histogram.max(), Duration::from_millis(1));
    for (share, us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
        let found = histogram.quantile(share).as_secs_f64() * 1e6;
        assert!((found / us - 1.0).abs() < 0.01, "{share}: {found} us and not {us}");
    }
}

#[test]
fn of_nothing_all_is_zero() {
    let empty = Histogram::new();
    assert_eq!((empty.mean(), empty.quantile(0.5)), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn what_is_too_long_for_the_last_bucket_keeps_its_maximum() {
    let mut histogram = Histogram::new();
    histogram.record(u64::MAX);
    assert_eq!(histogram.max(), Duration::from_nanos(u64::MAX));
    assert_eq!(histogram.count(), 1);
}

#[test]
fn it_travels_as_json_and_adds_up() {
    let (mut one, mut two) = (Histogram::new(), Histogram::new());
    one.record(10);
    two.record(1_000_000);
    two.record(77);
    let text = serde_json::to_string(&two).expect("JSON");
    let back: Histogram = serde_json::from_str(&text).expect("read back");
    assert_eq!(back, two);
    one.add(&back);
    assert_eq!((one.count(), one.max()), (3, Duration::from_millis(1)));
    assert_eq!(one.quantile(1.0), one.max());
    let broken = r#"{"buckets":[[999999,1]],"sum_ns":1,"max_ns":1}"#;
    assert!(serde_json::from_str::<Histogram>(broken).is_err());
}
