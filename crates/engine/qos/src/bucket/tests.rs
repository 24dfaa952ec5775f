use super::{Bucket, Limit, LimitError, PARTS};
use crate::faults::{Fault, Faults};
use amita_reactor::Time;
use amita_testkit::Random;
use proptest::prelude::*;

const LARGEST: u64 = 128 << 10;
const SECOND: u64 = 1_000_000_000;

/// Every time that a limit speaks of: what passed up to the first moment of each is compared with what passed up to the last.
#[derive(Default)]
struct Passed {
    moments: Vec<(u64, u128)>,
    sum: u128,
}

impl Passed {
    fn pass(&mut self, now: u64, tokens: u64, limit: &Limit, largest: u64) {
        self.moments.push((now, self.sum));
        self.sum += u128::from(tokens);
        for &(from, before) in &self.moments {
            let most = limit.most(now - from, largest);
            assert!(
                self.sum - before <= most,
                "{} in {} ns, {most} allowed",
                self.sum - before,
                now - from
            );
        }
    }
}

fn limits() -> impl Strategy<Value = Limit> {
    let rate = prop_oneof![1..100_u64, 1..10_000_000_u64, 1..Limit::MAX_RATE];
    let peak = proptest::option::of((1..8_u64, 0..100_u32));
    (rate, 0..4 * LARGEST, peak).prop_map(|(rate, burst, peak)| {
        let limit = Limit::new(rate, burst).unwrap();
        match peak {
            Some((times, seconds)) => limit.with_peak((rate * times).min(Limit::MAX_RATE), seconds).unwrap(),
            None => limit,
        }
    })
}

proptest! {
    /// Whatever is asked whenever: in no time more passes than rate x time + burst, with a peak also peak x time + burst; and what
    /// waits goes at exactly the moment that was said.
    #[test]
    fn never_above_rate_and_burst(limit in limits(), seed: u64) {
        let mut random = Random::new(seed);
        let largest = *random.pick(&[1, 4096, LARGEST]);
        let mut now = random.below(1 << 50);
        let mut bucket = Bucket::new(Time(now), limit, largest, Faults::NONE);
        let mut passed = Passed::default();
        for _ in 0..200 {
            if !bucket.admits(Time(now)) {
                let ready = bucket.ready_at();
                assert!(ready > Time(now));
                assert!(!bucket.clone().admits(Time(ready.0 - 1)), "not before it was said");
                if random.percent(70) {
                    assert!(bucket.admits(ready), "and not later");
                    now = ready.0;
                } else {
                    now += random.below(ready.0 - now);
                    continue;
                }
            }
            let cost = random.within(1, largest);
            bucket.charge(Time(now), cost);
            passed.pass(now, cost, &limit, largest);
            if random.percent(20) {
                now += random.below(SECOND / limit.rate().min(SECOND) + 1000);
            }
        }
    }

    /// However often it is looked at, nothing is lost and nothing is gained.
    #[test]
    fn nothing_drifts(rate in 1..Limit::MAX_RATE, looks in proptest::collection::vec(1..50_u64, 1..300)) {
        let limit = Limit::new(rate, Limit::MAX_BURST).unwrap();
        let mut often = Bucket::new(Time(0), limit, 1, Faults::NONE);
        let mut once = often.clone();
        for bucket in [&mut often, &mut once] {
            bucket.charge(Time(0), Limit::MAX_BURST);
        }
        let mut now = 0;
        for look in looks {
            now += look;
            let _ = often.admits(Time(now));
        }
        let _ = once.admits(Time(now));
        prop_assert_eq!(often.meter.available(), once.meter.available());
        let capacity = (i128::from(Limit::MAX_BURST) - 1) * PARTS + 1;
        let spent = i128::from(Limit::MAX_BURST) * PARTS;
        let expected = capacity.min(capacity - spent + i128::from(rate) * i128::from(now));
        prop_assert_eq!(once.meter.available(), expected);
    }
}

#[test]
fn the_rate_is_reached_to_the_last_token_over_years() {
    let limit = Limit::new(3, 2).unwrap();
    let mut bucket = Bucket::new(Time(0), limit, 1, Faults::NONE);
    let mut now = Time(0);
    for _ in 0..300_001 {
        assert!(bucket.admits(now));
        bucket.charge(now, 1);
        now = bucket.ready_at();
    }
    // The burst, and then one each third of a second, which no clock shows.
    assert_eq!(now, Time(100_000 * SECOND));
    // Five hundred years at the largest rate and with the largest credits.
    let limit = Limit::new(Limit::MAX_RATE / 2, Limit::MAX_BURST).unwrap();
    let limit = limit.with_peak(Limit::MAX_RATE, Limit::MAX_PEAK_S).unwrap();
    let mut bucket = Bucket::new(Time(0), limit, LARGEST, Faults::NONE);
    bucket.charge(Time(0), Limit::MAX_BURST);
    assert!(bucket.admits(Time(500 * 365 * 86_400 * SECOND)));
    assert!(bucket.admits(Time(u64::MAX)));
    assert!(bucket.admits(Time(0)), "a clock that goes back takes nothing");
}

/// A volume of 100 GiB on gp2: 300 operations a second, 3,000 for half an hour out of 5.4 million credits.
#[test]
fn a_peak_lasts_as_long_as_was_said() {
    let limit = Limit::new(300, 300).unwrap().with_peak(3_000, 2_000).unwrap();
    assert_eq!(limit.credits(), 5_400_000 + 300);
    let mut bucket = Bucket::new(Time(0), limit, 1, Faults::NONE);
    let second = |bucket: &mut Bucket, second: u64| {
        let (mut now, mut passed) = (second * SECOND, 0);
        while now < (second + 1) * SECOND {
            if bucket.admits(Time(now)) {
                bucket.charge(Time(now), 1);
                passed += 1;
            } else {
                now = bucket.ready_at().0;
            }
        }
        passed
    };
    let rates: Vec<u64> = (0..2_010).map(|at| second(&mut bucket, at)).collect();
    assert_eq!(
        rates[0],
        300 + 2_999,
        "the burst on top; the last comes as the second ends"
    );
    assert!(
        rates[1..1_999].iter().all(|&rate| rate == 3_000),
        "{:?}",
        &rates[1990..]
    );
    assert!(rates[2_002..].iter().all(|&rate| rate == 300), "{:?}", &rates[1990..]);
    assert_eq!(rates.iter().sum::<u64>(), 2_010 * 300 + 5_400_300 - 1);
    // Idle for an hour: what was earned is there again.
    let later = 2_010 + 3_600;
    let again: u64 = (later..later + 600).map(|at| second(&mut bucket, at)).sum();
    assert_eq!(again, 4_200 * 300);
}

#[test]
fn what_is_larger_than_the_burst_passes_in_the_end_and_is_paid() {
    let limit = Limit::new(1_000_000, 1_000).unwrap();
    let mut bucket = Bucket::new(Time(0), limit, LARGEST, Faults::NONE);
    assert!(bucket.admits(Time(0)));
    bucket.charge(Time(0), LARGEST);
    assert_eq!(bucket.left(), -i128::from(LARGEST));
    assert!(!bucket.admits(Time(LARGEST * 1_000 - 1)));
    assert!(bucket.admits(Time(LARGEST * 1_000)));
}

#[test]
fn limits_change_without_a_jump() {
    let small = Limit::new(1_000, 1_000).unwrap();
    let large = Limit::new(100_000, 100_000).unwrap();
    let mut bucket = Bucket::new(Time(0), small, 1, Faults::NONE);
    bucket.charge(Time(0), 900);
    bucket.set(Time(0), large);
    assert_eq!(bucket.left(), 99, "more room, and empty");
    assert!(bucket.admits(Time(SECOND / 10)));
    assert_eq!(bucket.left(), 10_099);
    bucket.set(Time(SECOND / 10), small);
    assert_eq!(bucket.left(), 999, "as much as there is room for");
    bucket.charge(Time(SECOND / 10), 2_000);
    bucket.set(Time(SECOND / 10), large);
    assert_eq!(bucket.left(), -1_001, "what is owed stays owed");
    // A peak has to be earned, and what it leaves behind is no more than the burst had.
    let peak = small.with_peak(10_000, 100).unwrap();
    let mut bucket = Bucket::new(Time(0), small, 1, Faults::NONE);
    bucket.set(Time(0), peak);
    assert_eq!(bucket.left(), 999);
    let mut bucket = Bucket::new(Time(0), peak, 1, Faults::NONE);
    bucket.charge(Time(0), 999);
    bucket.set(Time(0), small);
    assert_eq!(bucket.left(), 0);
    let mut faulty = Bucket::new(Time(0), small, 1, Faults::NONE.with(Fault::RefillOnChange));
    faulty.charge(Time(0), 900);
    faulty.set(Time(0), large);
    assert!(faulty.left() > 99, "the fault is found");
}

#[test]
fn a_forgotten_debt_is_found() {
    let limit = Limit::new(10, 10).unwrap();
    let mut bucket = Bucket::new(Time(0), limit, 1, Faults::NONE.with(Fault::ForgetDebt));
    let mut passed = 0;
    while passed < 20 && bucket.admits(Time(0)) {
        bucket.charge(Time(0), 1);
        passed += 1;
    }
    assert!(u128::from(passed as u32) > limit.most(0, 1));
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_eq!(Limit::new(0, 1), Err(LimitError::NoRate));
    assert_eq!(Limit::new(Limit::MAX_RATE + 1, 1), Err(LimitError::Rate));
    assert_eq!(Limit::new(1, Limit::MAX_BURST + 1), Err(LimitError::Burst));
    let limit = Limit::new(100, 1).unwrap();
    assert_eq!(limit.with_peak(0, 1), Err(LimitError::NoRate));
    assert_eq!(limit.with_peak(99, 1), Err(LimitError::Peak));
    assert_eq!(limit.with_peak(Limit::MAX_RATE + 1, 1), Err(LimitError::Rate));
    assert_eq!(limit.with_peak(100, Limit::MAX_PEAK_S + 1), Err(LimitError::Lasts));
    assert_eq!(Limit::of_rate(1_000, 1).map(|limit| limit.burst()), Ok(101));
}
