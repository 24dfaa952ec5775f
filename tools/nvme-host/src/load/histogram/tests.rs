use super::*;

#[test]
fn a_class_holds_what_it_says_within_a_sixteenth() {
    for ns in (1..5000).chain((12..60).map(|bit| (1u64 << bit) + 12345)) {
        let class = class(ns);
        assert!(upper(class) >= ns, "{ns} is in a class up to {}", upper(class));
        assert!(
            upper(class) as f64 <= ns as f64 * (1.0 + 1.0 / 15.0) + 1.0,
            "{ns} is in a class up to {}",
            upper(class)
        );
    }
}

#[test]
fn quantiles_rise_and_end_at_the_longest() {
    let mut latency = Latency::default();
    for us in 1..=1000 {
        latency.record(Duration::from_micros(us));
    }
    assert_eq!(latency.count(), 1000);
    assert_eq!(latency.max(), Duration::from_micros(1000));
    let half = latency.quantile(0.5).as_micros();
    assert!((500..=532).contains(&half), "the median is {half}");
    assert_eq!(latency.quantile(1.0), latency.max());
    let mut twice = latency.clone();
    twice.merge(&latency);
    assert_eq!((twice.count(), twice.quantile(0.5)), (2000, latency.quantile(0.5)));
}
