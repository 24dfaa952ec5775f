use super::*;
use proptest::prelude::*;

fn at(text: &str) -> u64 {
    text.parse::<Timestamp>().unwrap().as_second().try_into().unwrap()
}

fn shown(unix: u64) -> String {
    Timestamp::from_second(unix.try_into().unwrap()).unwrap().to_string()
}

fn schedule(pattern: &str, zone: &str) -> Schedule {
    Schedule::parse(pattern, zone).unwrap()
}

/// The next times behind one.
fn next(pattern: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let schedule = schedule(pattern, zone);
    let mut now = at(from);
    let each = std::iter::from_fn(|| {
        now = schedule.next_after(now)?;
        Some(shown(now))
    });
    each.take(count).collect()
}

#[test]
fn a_leap_day_comes_every_four_years_and_not_in_2100() {
    assert_eq!(
        next("30 3 29 2 *", "UTC", "2024-02-29T03:30:00Z", 2),
        ["2028-02-29T03:30:00Z", "2032-02-29T03:30:00Z"]
    );
    assert_eq!(
        next("0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", 1),
        ["2104-02-29T00:00:00Z"]
    );
    assert_eq!(
        next("0 0 L * *", "UTC", "2024-01-31T12:00:00Z", 3),
        ["2024-02-29T00:00:00Z", "2024-03-31T00:00:00Z", "2024-04-30T00:00:00Z"]
    );
    assert_eq!(
        next("59 23 31 12 *", "UTC", "2023-12-31T23:59:00Z", 1),
        ["2024-12-31T23:59:00Z"]
    );
}

/// On 31 March 2024 clocks in Berlin went from two to three, on 27 October from three to two.
#[test]
fn what_is_due_in_an_hour_that_is_left_out_is_due_behind_it() {
    assert_eq!(
        next("30 2 * * *", "Europe/Berlin", "2024-03-30T02:00:00Z", 2),
        ["2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"],
        "at three o'clock, which is one o'clock UTC, and then at half past two again"
    );
    assert_eq!(
        next("*/30 * * * *", "Europe/Berlin", "2024-03-31T00:10:00Z", 4),
        [
            "2024-03-31T00:30:00Z",
            "2024-03-31T01:00:00Z",
            "2024-03-31T01:30:00Z",
            "2024-03-31T02:00:00Z"
        ],
        "what comes every so often does not care"
    );
}

#[test]
fn what_is_due_in_an_hour_that_comes_twice_is_due_once() {
    assert_eq!(
        next("30 2 * * *", "Europe/Berlin", "2024-10-26T12:00:00Z", 2),
        ["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"]
    );
    assert_eq!(
        next("0 * * * *", "Europe/Berlin", "2024-10-26T23:30:00Z", 4),
        [
            "2024-10-27T00:00:00Z",
            "2024-10-27T01:00:00Z",
            "2024-10-27T02:00:00Z",
            "2024-10-27T03:00:00Z"
        ],
        "each hour, also the one that comes again"
    );
}

#[test]
fn days_and_weeks_are_those_of_the_zone() {
    let (berlin, utc) = (Zone::named("Europe/Berlin").unwrap(), Zone::named("UTC").unwrap());
    let late = at("2024-05-31T22:30:00Z");
    let (here, there) = (berlin.periods(late).unwrap(), utc.periods(late).unwrap());
    assert_eq!((here.month, there.month), ((2024, 6), (2024, 5)));
    // 30 December 2024 is in the first week of 2025.
    let monday = utc.periods(at("2024-12-30T00:00:00Z")).unwrap();
    let sunday = utc.periods(at("2024-12-29T23:59:59Z")).unwrap();
    assert_eq!((sunday.week, monday.week), ((2024, 52), (2025, 1)));
    assert_eq!((sunday.year, monday.year), (2024, 2024));
    assert_eq!(utc.periods(u64::MAX), None);
}

#[test]
fn what_cannot_be_is_refused_with_what_would_be_right() {
    for (pattern, zone, said) in [
        ("", "UTC", "five fields are wanted"),
        ("* * * *", "UTC", "five fields are wanted"),
        ("0 0 12 * * * 2030", "UTC", "five fields are wanted"),
        ("61 * * * *", "UTC", "five fields are wanted"),
        ("a b c d e", "UTC", "five fields are wanted"),
        ("\u{1b}[2J", "UTC", "five fields are wanted"),
        ("@never", "UTC", "five fields are wanted"),
        ("0 2 * * *", "Berlin", "there is no time zone \"Berlin\""),
        ("0 2 * * *", "", "there is no time zone \"\""),
        ("0 2 * * *", "../../etc/passwd", "there is no time zone"),
    ] {
        let why = Schedule::parse(pattern, zone).unwrap_err();
        assert!(why.contains(said), "{pattern:?} {zone:?}: {why}");
    }
    assert_eq!(
        schedule("0 0 31 2 *", "UTC").next_after(0),
        None,
        "no February has 31 days"
    );
    assert_eq!(schedule("* * * * *", "UTC").next_after(u64::MAX), None);
}

#[test]
fn a_policy_has_no_schedule_that_never_comes() {
    assert_eq!(Schedule::check("0 0 29 2 *", "UTC"), Ok(()));
    let why = Schedule::check("0 0 30 2 *", "UTC").unwrap_err();
    assert!(why.contains("never comes"), "{why}");
    let why = Schedule::check("* * * *", "UTC").unwrap_err();
    assert!(why.contains("five fields are wanted"), "{why}");
}

#[test]
fn times_between_are_counted() {
    let minutes = schedule("* * * * *", "UTC");
    let from = at("2024-02-28T23:58:00Z");
    assert_eq!(minutes.last_between(from, from), None);
    assert_eq!(minutes.last_between(from, from + 59), None);
    assert_eq!(minutes.last_between(from, from + 60), Some((from + 60, 0)));
    assert_eq!(minutes.last_between(from, from + 200), Some((from + 180, 2)));
    let (last, passed) = minutes.last_between(0, from + 30).unwrap();
    assert_eq!((last, passed), (from, MOST_COUNTED), "since 1970: not one by one");
}

/// Patterns and zones as people write them.
fn any_schedule() -> impl Strategy<Value = (String, &'static str)> {
    let pattern = prop::sample::select(vec![
        "* * * * *",
        "*/7 * * * *",
        "30 * * * *",
        "30 2 * * *",
        "0 3 * * *",
        "15 1,2,3 * * *",
        "0 0 * * MON",
        "0 0 1 * *",
        "45 23 L * *",
        "0 12 29 2 *",
        "0 2 * * 7#L",
        "*/20 * * * * *",
        "0 0 13 * 5",
        "@daily",
        "@weekly",
    ]);
    let zone = prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/Sao_Paulo",
        "Pacific/Apia",
    ]);
    (pattern.prop_map(str::to_owned), zone)
}

proptest! {
    /// Whatever the pattern and the zone: times go forward, and are the same from wherever they are looked for.
    #[test]
    fn times_go_forward((pattern, zone) in any_schedule(), from in 0u64..4_000_000_000, ahead in 1u64..200_000) {
        let Ok(schedule) = Schedule::parse(&pattern, zone) else { return Ok(()) };
        let Some(next) = schedule.next_after(from) else { return Ok(()) };
        prop_assert!(next > from);
        // From any second in between it is the same one.
        let between = from + ahead % (next - from);
        prop_assert_eq!(schedule.next_after(between), Some(next), "{} from {} and {}", pattern, shown(from), shown(between));
        // The last one up to some time is the one behind which no other comes by then.
        let until = next + ahead;
        let (last, passed) = schedule.last_between(from, until).expect("there is one");
        prop_assert!((next..=until).contains(&last));
        prop_assert!(schedule.next_after(last).is_none_or(|behind| behind > until) || passed == MOST_COUNTED);
        // One after the other or all at once is the same, so nothing is run twice and nothing is left out.
        let middle = from + (until - from) / 2;
        let first = schedule.last_between(from, middle);
        let second = schedule.last_between(first.map_or(from, |(at, _)| at), until);
        let runs = |found: Option<(u64, u64)>| found.map_or(0, |(_, passed)| passed + 1);
        if runs(first) <= MOST_COUNTED && runs(second) <= MOST_COUNTED && passed < MOST_COUNTED {
            prop_assert_eq!(runs(first) + runs(second), passed + 1);
        }
    }
}
