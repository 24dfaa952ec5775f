use super::*;
use amita_types::map::{POLICY_LABEL, PolicyId, SnapshotState, Target};
use amita_types::{Generation, VolumeId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Monday, 1 January 2024.
const MONDAY: u64 = 1_704_067_200;

fn utc() -> Zone {
    Zone::named("UTC").unwrap()
}

fn policy(keep: Keep) -> Policy {
    Policy {
        id: PolicyId(7),
        name: "p".to_owned(),
        target: Target::Pool("main".to_owned()),
        schedule: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        template: "{policy}-{time}".to_owned(),
        keep,
        together: false,
        paused: false,
    }
}

fn snapshot(number: u32, taken_at: u64, mark: Option<&str>) -> Snapshot {
    let labels = mark.map(|mark| (POLICY_LABEL.to_owned(), mark.to_owned()));
    Snapshot {
        volume: VolumeId(1),
        number: SnapshotId(number),
        name: format!("s{number}"),
        size_bytes: 4096,
        taken_at,
        labels: labels.into_iter().collect(),
        protected: false,
        clones: 0,
        set: None,
        mark: false,
        hidden: false,
        state: SnapshotState::Sealed(Generation(1)),
    }
}

fn kept(keep: Keep, times: &[u64]) -> Vec<usize> {
    let reasons = choose(&keep, &utc(), times);
    let kept = reasons.iter().enumerate().filter(|(_, reasons)| !reasons.is_empty());
    kept.map(|(index, _)| index).collect()
}

#[test]
fn the_newest_of_each_period_is_kept() {
    // Every six hours for four days, the newest first: 18, 12, 6 and 0 o'clock of each day.
    let times: Vec<u64> = (0..16).map(|index| MONDAY + 4 * DAY - (index + 1) * 6 * HOUR).collect();
    let daily = |count| Keep {
        daily: count,
        ..Keep::default()
    };
    assert_eq!(kept(daily(2), &times), [0, 4]);
    assert_eq!(kept(daily(4), &times), [0, 4, 8, 12]);
    assert_eq!(
        kept(daily(7), &times),
        [0, 4, 8, 12, 15],
        "and the oldest, where days are lacking"
    );
    let both = Keep {
        last: 3,
        daily: 2,
        ..Keep::default()
    };
    assert_eq!(kept(both, &times), [0, 1, 2, 4]);
    assert_eq!(choose(&both, &utc(), &times)[0], ["last", "daily"], "two rules keep it");
    assert_eq!(kept(Keep::default(), &times), [0; 0]);
    assert_eq!(kept(both, &[]), [0; 0]);
}

/// Periods in which nothing was taken do not count: a policy that stands still loses nothing.
#[test]
fn time_alone_makes_nothing_go() {
    let times = [MONDAY + 900 * DAY, MONDAY + 20 * DAY, MONDAY + DAY, MONDAY];
    let keep = Keep {
        daily: 4,
        ..Keep::default()
    };
    assert_eq!(kept(keep, &times), [0, 1, 2, 3]);
}

/// A snapshot that was taken while the clock was years ahead neither is the newest for ever, nor takes more than its place.
#[test]
fn newer_is_what_was_taken_later_whatever_the_clock_said() {
    let ahead = MONDAY + 3000 * DAY;
    let times = [MONDAY + 2 * HOUR, MONDAY + HOUR, ahead, MONDAY];
    let last = Keep {
        last: 1,
        ..Keep::default()
    };
    assert_eq!(kept(last, &times), [0]);
    let daily = Keep {
        daily: 2,
        ..Keep::default()
    };
    assert_eq!(kept(daily, &times), [0, 2], "the day that comes twice is one day");
}

#[test]
fn only_what_the_policy_has_made_is_judged() {
    let own = policy(Keep {
        last: 1,
        ..Keep::default()
    });
    let mut guarded = snapshot(1, MONDAY, Some("p/7"));
    guarded.protected = true;
    let mut cloned = snapshot(7, MONDAY - 1, Some("p/7"));
    (cloned.number, cloned.clones) = (SnapshotId(0), 2);
    let all = [
        guarded,
        cloned,
        snapshot(2, MONDAY + 1, Some("p/7")),
        snapshot(3, MONDAY + 2, None),
        snapshot(4, MONDAY + 3, Some("p/6")),
        snapshot(5, MONDAY + 4, Some("q/7")),
        snapshot(6, MONDAY + 5, Some("p/7")),
    ];
    let verdicts = judge(&own, &all).unwrap();
    let told: Vec<(u32, bool, bool)> = verdicts
        .iter()
        .map(|verdict| (verdict.number.0, verdict.goes(), verdict.protected))
        .collect();
    assert_eq!(
        told,
        [(6, false, false), (2, true, false), (1, false, true), (0, true, false)]
    );
    assert_eq!((verdicts[3].clones, verdicts[3].is_left()), (2, false));
    for keep in [
        Keep::default(),
        Keep {
            daily: 16_385,
            ..Keep::default()
        },
    ] {
        let wrong = Policy { keep, ..own.clone() };
        assert!(judge(&wrong, &all).is_err(), "rules that cannot be say nothing");
    }
    let wrong = Policy {
        zone: "Nowhere/Else".to_owned(),
        ..own
    };
    assert!(
        judge(&wrong, &all).is_err(),
        "nothing is judged by days that nobody knows"
    );
}

/// The rule in the words of the documentation, as slow as it is plain: of each rule the periods in which there is one, in order of their
/// newest, and of the first so many the newest one each; and the oldest of all, where there are fewer.
fn naive(count: u32, times: &[u64], period: impl Fn(u64) -> String) -> BTreeSet<usize> {
    let mut newest: BTreeMap<String, usize> = BTreeMap::new();
    for (index, time) in times.iter().enumerate() {
        newest.entry(period(*time)).or_insert(index);
    }
    let mut first: Vec<usize> = newest.into_values().collect();
    first.sort_unstable();
    let is_short = first.len() < count as usize;
    first.truncate(count as usize);
    let mut kept: BTreeSet<usize> = first.into_iter().collect();
    if is_short && !times.is_empty() {
        kept.insert(times.len() - 1);
    }
    kept
}

fn format(zone: &'static str, pattern: &'static str) -> impl Fn(u64) -> String {
    let zone = jiff::tz::TimeZone::get(zone).unwrap();
    move |time| {
        let at = jiff::Timestamp::from_second(time.try_into().unwrap()).unwrap();
        at.to_zoned(zone.clone()).strftime(pattern).to_string()
    }
}

fn any_keep() -> impl Strategy<Value = Keep> {
    let count = || prop_oneof![Just(0u32), 1u32..6, Just(1000u32)];
    (count(), count(), count(), count(), count(), count()).prop_map(|(last, hourly, daily, weekly, monthly, yearly)| {
        Keep {
            last,
            hourly,
            daily,
            weekly,
            monthly,
            yearly,
            has_others: false,
        }
    })
}

/// Times of snapshots, the newest first; the clock goes back now and then.
fn any_times() -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![
        5 => 1u64..7200,
        3 => 3600u64..200_000,
        2 => 86_400u64..4_000_000,
        1 => 1u64..90_000_000,
    ];
    let step = (step, prop::bool::weighted(0.05));
    (1_000_000_000u64..2_000_000_000, prop::collection::vec(step, 0..60)).prop_map(|(from, steps)| {
        let mut now = from;
        let mut times: Vec<u64> = steps
            .into_iter()
            .map(|(step, back)| {
                now = if back { now.saturating_sub(step) } else { now + step };
                now
            })
            .collect();
        times.reverse();
        times
    })
}

proptest! {
    #[test]
    fn as_the_rule_is_written(keep in any_keep(), times in any_times(), zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Pacific/Apia"])) {
        let chosen = choose(&keep, &Zone::named(zone).unwrap(), &times);
        let mut expected = vec![BTreeSet::new(); times.len()];
        let rules: [(&'static str, u32, &'static str); 5] = [
            ("hourly", keep.hourly, "%Y-%m-%d %H"),
            ("daily", keep.daily, "%Y-%m-%d"),
            ("weekly", keep.weekly, "%G-%V"),
            ("monthly", keep.monthly, "%Y-%m"),
            ("yearly", keep.yearly, "%Y"),
        ];
        for (rule, count, pattern) in rules {
            for index in naive(count, &times, format(zone, pattern)) {
                expected[index].insert(rule);
            }
        }
        for reasons in expected.iter_mut().take(keep.last as usize) {
            reasons.insert("last");
        }
        for (index, (reasons, expected)) in chosen.iter().zip(&expected).enumerate() {
            let reasons: BTreeSet<&str> = reasons.iter().copied().collect();
            prop_assert_eq!(&reasons, expected, "number {} of {:?}", index, times);
        }
        // Whoever keeps anything keeps the newest.
        if keep.check().is_ok() && !times.is_empty() {
            prop_assert!(!chosen[0].is_empty());
        }
    }

    /// What was kept is kept again: a second look deletes nothing more.
    #[test]
    fn once_is_enough(keep in any_keep(), times in any_times()) {
        let utc = utc();
        let first = choose(&keep, &utc, &times);
        let left: Vec<u64> = times.iter().zip(&first).filter(|(_, why)| !why.is_empty()).map(|(time, _)| *time).collect();
        let second = choose(&keep, &utc, &left);
        prop_assert!(second.iter().all(|why| !why.is_empty()), "{:?} of {:?}", second, left);
    }
}
