//! Pasts with known futures, and those that are too short.

use super::*;
use proptest::prelude::*;

fn worn(days: &[(u64, u8)]) -> Vec<Sample> {
    let sample = |(day, percent): &(u64, u8)| Sample {
        at: day * DAY_S,
        used_bytes: None,
        worn_percent: Some(*percent),
        read_p99_us: None,
        write_p99_us: None,
        reallocated: None,
        pending: Some(u64::from(*percent)),
        uncorrectable: None,
    };
    days.iter().map(sample).collect()
}

#[test]
fn wear_goes_on_at_the_pace_of_a_life_within_what_a_percent_hides() {
    let found = wear(50, 2400, &[]).expect("a forecast");
    assert_eq!((found.days, found.is_lately), (100, false));
    // 51 % of a life in the same time at the soonest, 49 % at the latest.
    assert_eq!((found.soonest_days, found.latest_days), (96, Some(104)));
    assert_eq!(wear(100, 2400, &[]).expect("it is worn").days, 0);
    assert_eq!(wear(255, 2400, &[]).expect("it is worn").days, 0);
    let old = wear(2, 10_000_000, &[]).expect("a forecast");
    assert_eq!(old.days, MOST_DAYS);
}

#[test]
fn wear_says_nothing_of_a_short_life() {
    assert!(wear(1, 100_000, &[]).expect_err("a percent").contains("no pace"));
    assert!(wear(50, 100, &[]).expect_err("four days").contains("no pace"));
}

#[test]
fn wear_of_the_last_days_counts_where_it_is_faster_and_long_enough() {
    let fast = worn(&[(1, 40), (4, 43), (8, 47)]);
    let found = wear(47, 40_000, &fast).expect("a forecast");
    // Seven percent a week.
    assert_eq!((found.days, found.is_lately), (53, true));
    for slow in [
        worn(&[(1, 40), (4, 43)]),
        worn(&[(1, 46), (8, 47)]),
        worn(&[(1, 60), (8, 47)]),
    ] {
        assert!(!wear(47, 40_000, &slow).expect("a forecast").is_lately, "{slow:?}");
    }
}

#[test]
fn a_count_grows_where_it_was_looked_often_enough() {
    let days = |counts: &[u64]| -> Vec<Count> {
        let day = |(day, count): (usize, &u64)| (day as u64 * DAY_S, *count);
        counts.iter().enumerate().map(day).collect()
    };
    let grown = growth(&days(&[1, 1, 4, 9])).expect("enough").expect("it grows");
    let expected = Growth {
        grown: 8,
        days: 3,
        times: 2,
        looks: 3,
        in_a_row: 2,
        has_fallen: false,
    };
    assert_eq!(grown, expected);
    assert!(grown.is_steady());
    let steady = |counts: &[u64]| growth(&days(counts)).expect("enough").expect("it grows").is_steady();
    assert!(steady(&[1, 2, 3, 4]), "a little each day");
    assert!(
        !steady(&[0, 1, 1, 2]) && !steady(&[0, 50, 50, 50]),
        "a little now and then, or once"
    );
    assert!(
        !steady(&[0, 1, 0, 1]) && !steady(&[0, 90, 0, 90, 95, 99]),
        "sectors that some firmware shows for moments"
    );
    assert_eq!(growth(&days(&[7, 7, 7, 7])), Ok(None));
    // Sectors that were written anew are good again.
    assert_eq!(growth(&days(&[7, 9, 3])), Ok(None));
    assert_eq!(growth(&days(&[0])), Ok(None), "what has none has not grown");
    for short in [&days(&[1, 2])[..], &[(0, 1), (60, 2), (120, 3)], &[(0, 1)]] {
        let why = growth(short).expect_err("too short");
        assert!(why.contains("not enough history"), "{why}");
    }
    assert!(growth(&[]).is_err());
}

#[test]
fn counts_end_with_what_is_so_now() {
    let past = worn(&[(1, 3), (2, 4), (9, 5)]);
    let all = counts(&past, 8 * DAY_S, 6, |sample| sample.pending);
    // A sample of the future is of a clock that was wrong.
    assert_eq!(all, [(DAY_S, 3), (2 * DAY_S, 4), (8 * DAY_S, 6)]);
    assert_eq!(
        counts(&past, 8 * DAY_S, 6, |sample| sample.reallocated),
        [(8 * DAY_S, 6)]
    );
}

#[test]
fn what_takes_longer_each_day_drifts() {
    let rises = [
        (0, 100),
        (DAY_S, 120),
        (2 * DAY_S, 150),
        (3 * DAY_S, 160),
        (4 * DAY_S, 220),
    ];
    assert_eq!(drift(&rises), Ok(Some(Drift { from: 100, days: 4 })));
    let mut falls = rises;
    falls[2].1 = 110;
    assert_eq!(drift(&falls), Ok(None), "one day was better");
    falls = rises;
    falls[4].1 = 190;
    assert_eq!(drift(&falls), Ok(None), "not twice as long");
    assert!(
        drift(&rises[..4])
            .expect_err("four days")
            .contains("not enough history")
    );
    assert!(drift(&[]).is_err());
}

proptest! {
    #[test]
    fn no_past_makes_a_forecast_panic(
        used in any::<u8>(),
        hours in any::<u64>(),
        counts in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..10),
        days in proptest::collection::vec((0_u64..1 << 40, any::<u8>()), 0..9),
    ) {
        let samples = worn(&days);
        if let Ok(found) = wear(used, hours, &samples) {
            prop_assert!(found.soonest_days <= found.days);
            prop_assert!(found.latest_days.is_none_or(|latest| latest >= found.days));
        }
        if let Ok(Some(found)) = growth(&counts) {
            prop_assert!(found.grown > 0);
        }
        let _ = drift(&counts);
    }
}
