use super::plan::{MADE_UP, Step, end, give_up, note, pause, step};
use super::retention::{Point, given_up};
use super::standing::TOO_LATE;
use super::*;
use crate::policy::runner::MOST_BACK;
use amita_types::VolumeId;
use amita_types::map::{BackupRuns, Keep, PolicyId, Target};
use proptest::prelude::*;

/// Monday, 1 January 2024.
const MONDAY: u64 = 1_704_067_200;
const HOUR: u64 = 3600;

fn hourly() -> BackupPolicy {
    BackupPolicy {
        id: PolicyId(4),
        name: "off-site".to_owned(),
        target: Target::Volume(VolumeId(7)),
        repository: "r".to_owned(),
        schedule: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        keep: Keep {
            last: 2,
            ..Keep::default()
        },
        together: false,
        paused: false,
        since: MONDAY,
        limit_s: 2 * HOUR,
    }
}

/// What has become of a policy that a node has seen on Monday, at midnight.
fn seen(policy: &BackupPolicy) -> BackupRuns {
    match step(policy, &BackupRuns::default(), MONDAY) {
        Step::Note(runs) => runs,
        other => panic!("{other:?}"),
    }
}

fn works(policy: &BackupPolicy, runs: &BackupRuns, now: u64) -> BackupRuns {
    match step(policy, runs, now) {
        Step::Work(runs) => runs,
        other => panic!("{other:?}"),
    }
}

#[test]
fn points_and_sessions_are_a_policys_own_by_name_and_number() {
    let policy = hourly();
    let point = point_name(&policy, MONDAY);
    assert_eq!(point, "off-site/4/20240101T000000Z");
    assert!(is_own(&policy, &point));
    let other = BackupPolicy {
        id: PolicyId(44),
        ..policy.clone()
    };
    assert!(!is_own(&other, &point) && !is_own(&policy, &point_name(&other, MONDAY)));
    for name in [
        "backup-0011-7-aabb",
        "off-site/4",
        "off-site/4/",
        "off-site/4/x/y",
        "off-site/40101T",
    ] {
        assert!(!is_own(&policy, name), "{name}");
    }
    // One name is not the beginning of another one's.
    let (own, of_other) = (session_name(ClusterId(9), &policy), session_name(ClusterId(9), &other));
    assert!(!of_other.starts_with(&own) && own.contains("off-site/4 of"));
}

#[test]
fn a_run_is_made_when_it_is_due_and_counts_from_when_it_is_seen() {
    let policy = hourly();
    let runs = seen(&policy);
    assert_eq!(step(&policy, &runs, MONDAY + 5), Step::Rest(Some(MONDAY + HOUR)));
    let mut runs = works(&policy, &runs, MONDAY + HOUR + 10);
    let run = runs.run.clone().unwrap();
    assert_eq!((run.due, run.attempts, runs.missed), (MONDAY + HOUR, 1, 0));
    end(&mut runs, MONDAY + HOUR + 20);
    assert_eq!(
        (runs.runs, runs.failures, runs.succeeded_at),
        (1, 0, Some(MONDAY + HOUR + 20))
    );
    assert_eq!(
        step(&policy, &runs, MONDAY + HOUR + 30),
        Step::Rest(Some(MONDAY + 2 * HOUR))
    );
}

#[test]
fn what_fails_is_tried_again_with_pauses_until_the_next_time_is_due() {
    let policy = hourly();
    let mut now = MONDAY + HOUR;
    let mut runs = works(&policy, &seen(&policy), now);
    let mut attempts = 1;
    let next = MONDAY + 2 * HOUR;
    loop {
        let run = runs.run.as_mut().unwrap();
        run.failed = 1;
        note(&mut run.why, "the repository is away");
        end(&mut runs, now);
        let at = runs.run.as_ref().and_then(|run| run.again_at).unwrap();
        assert_eq!(at, now + pause(attempts));
        assert_eq!(step(&policy, &runs, now), Step::Rest(Some(at.min(next))));
        if at >= next {
            break;
        }
        now = at;
        runs = works(&policy, &runs, now);
        attempts += 1;
        assert_eq!(
            runs.run.as_ref().map(|run| (run.attempts, run.again_at)),
            Some((attempts, None))
        );
    }
    assert_eq!(attempts, 6);
    let runs = works(&policy, &runs, next);
    assert_eq!((runs.runs, runs.failures, runs.missed), (1, 1, 0));
    let last = runs.last.unwrap();
    assert_eq!((last.due, last.ended, last.failed), (MONDAY + HOUR, Some(next), 1));
    assert_eq!(last.why[0], "the repository is away");
    assert_eq!(runs.run.map(|run| run.due), Some(next));
    assert_eq!((pause(1), pause(2), pause(6), pause(u64::MAX)), (60, 120, 1800, 1800));
}

#[test]
fn a_run_whose_node_has_died_is_gone_on_with_by_whoever_has_the_key_next() {
    let policy = hourly();
    let runs = works(&policy, &seen(&policy), MONDAY + HOUR);
    let again = works(&policy, &runs, MONDAY + HOUR + 90);
    let run = again.run.unwrap();
    assert_eq!((run.due, run.attempts), (MONDAY + HOUR, 2));
    // When the next one is due nobody needs this one.
    let later = works(&policy, &runs, MONDAY + 2 * HOUR);
    assert_eq!(
        (later.run.map(|run| run.due), later.failures),
        (Some(MONDAY + 2 * HOUR), 1)
    );
}

#[test]
fn times_that_pass_are_counted_and_made_up_for_once() {
    let policy = hourly();
    let runs = works(&policy, &seen(&policy), MONDAY + 5 * HOUR + MADE_UP + 1);
    assert_eq!(
        (runs.run.as_ref().map(|run| run.due), runs.missed),
        (Some(MONDAY + 5 * HOUR), 5)
    );
    // A run that takes longer than until the next time has those behind it missed.
    let mut runs = works(&policy, &seen(&policy), MONDAY + HOUR);
    end(&mut runs, MONDAY + 4 * HOUR + 1);
    let runs = works(&policy, &runs, MONDAY + 4 * HOUR + 1);
    assert_eq!((runs.run.map(|run| run.due), runs.missed), (Some(MONDAY + 4 * HOUR), 2));
}

#[test]
fn a_paused_policy_rests_and_its_run_ends() {
    let mut policy = hourly();
    let runs = works(&policy, &seen(&policy), MONDAY + HOUR);
    policy.paused = true;
    let Step::Note(runs) = step(&policy, &runs, MONDAY + HOUR + 5) else {
        panic!()
    };
    assert!(runs.run.is_none() && runs.last.as_ref().is_some_and(|last| last.why[0].contains("paused")));
    assert_eq!(step(&policy, &runs, MONDAY + 9 * HOUR), Step::Rest(None));
    policy.paused = false;
    // Nothing is made up for.
    let Step::Note(runs) = step(&policy, &runs, MONDAY + 9 * HOUR + 1) else {
        panic!()
    };
    assert_eq!(
        step(&policy, &runs, MONDAY + 9 * HOUR + 2),
        Step::Rest(Some(MONDAY + 10 * HOUR))
    );
}

#[test]
fn clocks_that_jump_make_nothing_twice_and_stop_nothing_for_long() {
    let policy = hourly();
    let mut runs = works(&policy, &seen(&policy), MONDAY + 3 * HOUR);
    end(&mut runs, MONDAY + 3 * HOUR);
    // Back by little: it waits until it is where it was.
    assert_eq!(
        step(&policy, &runs, MONDAY + 2 * HOUR + 1),
        Step::Rest(Some(MONDAY + 4 * HOUR))
    );
    // Back by more: times count from there.
    let back = MONDAY + 3 * HOUR - MOST_BACK - 1;
    let Step::Note(anew) = step(&policy, &runs, back) else {
        panic!()
    };
    assert_eq!(anew.after, back);
    assert!(matches!(step(&policy, &anew, back), Step::Rest(Some(_))));
    // A pause that a clock has set that was ahead lasts no longer than the longest one.
    let mut ahead = works(&policy, &seen(&policy), MONDAY + HOUR);
    ahead.run.as_mut().unwrap().again_at = Some(MONDAY + 900 * HOUR);
    works(&policy, &ahead, MONDAY + HOUR + 60);
}

#[test]
fn what_is_late_and_what_fails_is_told() {
    let policy = hourly();
    let of = |runs: Option<BackupRuns>, runner: Option<&str>, now: u64| {
        BackupStatus::of(policy.clone(), runs, runner.map(str::to_owned), None, now)
    };
    // No node has ever seen it.
    assert!(!of(None, None, MONDAY + HOUR).is_late());
    assert!(of(None, None, MONDAY + HOUR + TOO_LATE + 1).is_late());
    let runs = seen(&policy);
    assert_eq!(of(Some(runs.clone()), None, MONDAY + HOUR).late_s, 0);
    assert!(of(Some(runs.clone()), None, MONDAY + HOUR + TOO_LATE + 1).is_late());
    // Under way: it has its limit.
    let mut under_way = works(&policy, &runs, MONDAY + HOUR);
    let long = MONDAY + 3 * HOUR + TOO_LATE;
    assert!(!of(Some(under_way.clone()), Some("n1"), long).is_late());
    assert!(of(Some(under_way.clone()), Some("n1"), long + 1).is_late());
    assert!(
        of(Some(under_way.clone()), None, MONDAY + HOUR + TOO_LATE + 1).is_late(),
        "nobody is at it"
    );
    // One that has failed a few times fails, though it is tried again.
    let run = under_way.run.as_mut().unwrap();
    (run.attempts, run.failed, run.why) = (2, 1, vec!["full".to_owned()]);
    assert_eq!(of(Some(under_way.clone()), None, MONDAY + HOUR).failing(), None);
    under_way.run.as_mut().unwrap().attempts = 3;
    let found = of(Some(under_way.clone()), None, MONDAY + HOUR);
    assert_eq!(found.failing(), Some((1, &["full".to_owned()][..])));
    give_up(&mut under_way, "over", MONDAY + 2 * HOUR);
    assert!(of(Some(under_way.clone()), None, MONDAY + 2 * HOUR).failing().is_some());
    let mut well = works(&policy, &under_way, MONDAY + 2 * HOUR);
    assert!(
        of(Some(well.clone()), Some("n1"), MONDAY + 2 * HOUR)
            .failing()
            .is_some(),
        "until it has worked"
    );
    end(&mut well, MONDAY + 2 * HOUR + 5);
    assert_eq!(of(Some(well), None, MONDAY + 2 * HOUR + 6).failing(), None);
}

fn points(of: &[(u64, &str)]) -> Vec<Point<char>> {
    let point = |(number, volumes): &(u64, &str)| Point {
        number: *number,
        taken_at: MONDAY + number * HOUR,
        volumes: volumes.chars().collect(),
    };
    of.iter().map(point).collect()
}

#[test]
fn a_point_stays_for_any_of_its_volumes() {
    let all = points(&[(2, "b"), (4, "ac"), (6, "b"), (7, "ab"), (9, "a")]);
    let kept = |last| {
        let mut policy = hourly();
        policy.keep.last = last;
        given_up(&policy, &all).unwrap()
    };
    // 7 is the newest of b, 4 of c.
    assert_eq!(kept(1), [2, 6]);
    assert_eq!(kept(2), [2]);
    assert!(kept(3).is_empty());
}

#[test]
fn rules_that_cannot_be_give_up_nothing() {
    let all = points(&[(1, "a"), (2, "a"), (3, "a")]);
    let mut policy = hourly();
    policy.keep.has_others = true;
    assert!(given_up(&policy, &all).is_err());
    policy.keep = Keep::default();
    assert!(given_up(&policy, &all).is_err());
    policy.keep.daily = 7;
    policy.zone = "Mars".to_owned();
    assert!(given_up(&policy, &all).is_err());
}

proptest! {
    /// Whatever the points and the rules: the newest point of each volume stays, and what stays does so also when it is asked again.
    #[test]
    fn the_newest_of_each_volume_stays(
        of in prop::collection::vec((0_u64..2000, prop::collection::vec(prop::sample::select(vec!['a', 'b', 'c']), 1..3)), 0..40),
        last in 0_u32..4, hourly_count in 0_u32..4, daily in 1_u32..4,
    ) {
        let point = |(number, (hours, volumes)): (usize, &(u64, Vec<char>))| Point {
            number: number as u64,
            taken_at: MONDAY + hours * HOUR,
            volumes: volumes.clone(),
        };
        let mut all: Vec<Point<char>> = of.iter().enumerate().map(point).collect();
        let mut policy = hourly();
        policy.keep = Keep { last, hourly: hourly_count, daily, ..Keep::default() };
        let gone = given_up(&policy, &all).unwrap();
        for volume in ['a', 'b', 'c'] {
            let newest = all.iter().filter(|point| point.volumes.contains(&volume)).map(|point| point.number).max();
            prop_assert!(newest.is_none_or(|newest| !gone.contains(&newest)));
        }
        all.retain(|point| !gone.contains(&point.number));
        let kept = all.len();
        prop_assert!(kept + gone.len() == of.len());
    }
}
