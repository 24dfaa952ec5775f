use super::clocks::{Clocks, RESTS, Time};
use super::plan::{MADE_UP, Step, due_since, end, give_up, is_of_run, is_same, note, pause, run_name, sign, step};
use super::retention::{Point, given_up};
use super::standing::TOO_LATE;
use super::*;
use crate::policy::runner::MOST_BACK;
use amita_types::VolumeId;
use amita_types::map::{BackupRuns, Keep, PolicyId, Target};
use proptest::prelude::*;
use std::time::Duration;

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
        asked: 0,
        verify: None,
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
fn one_that_is_asked_for_is_made_beside_the_schedule_once() {
    let asked = |asked| BackupPolicy { asked, ..hourly() };
    // Also where nobody had seen the policy yet.
    let runs = seen(&asked(1));
    let mut runs = works(&asked(1), &runs, MONDAY + 5);
    let begun = runs.run.clone().expect("a run");
    assert_eq!((begun.due, begun.began, begun.attempts), (MONDAY + 5, MONDAY + 5, 1));
    end(&mut runs, MONDAY + 20);
    assert_eq!((runs.runs, runs.missed, runs.after), (1, 0, MONDAY));
    assert_eq!(step(&asked(1), &runs, MONDAY + 30), Step::Rest(Some(MONDAY + HOUR)));
    // The schedule's own comes all the same, and what waits to be tried again is tried at once.
    let mut runs = works(&asked(1), &runs, MONDAY + HOUR);
    runs.run.as_mut().expect("a run").failed = 1;
    end(&mut runs, MONDAY + HOUR + 1);
    assert!(matches!(step(&asked(1), &runs, MONDAY + HOUR + 2), Step::Rest(Some(_))));
    let again = works(&asked(2), &runs, MONDAY + HOUR + 2);
    let run = again.run.as_ref().expect("a run");
    assert_eq!(
        (run.due, run.attempts, run.again_at, again.asked),
        (MONDAY + HOUR, 2, None, 2)
    );
    // One that is paused deals with nothing, and what was asked for before is not made when it goes on.
    let paused = BackupPolicy {
        paused: true,
        ..asked(3)
    };
    let Step::Note(runs) = step(&paused, &again, MONDAY + HOUR + 3) else {
        panic!("it is noted");
    };
    let runs = match step(&asked(3), &runs, MONDAY + HOUR + 4) {
        Step::Note(runs) => runs,
        other => panic!("{other:?}"),
    };
    assert!(matches!(step(&asked(3), &runs, MONDAY + HOUR + 5), Step::Rest(_)));
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

#[test]
fn each_attempt_has_its_limit_and_a_paused_policy_fails_at_nothing() {
    let mut policy = hourly();
    policy.schedule = "@daily".to_owned();
    let due = MONDAY + 24 * HOUR;
    let mut runs = works(&policy, &seen(&policy), due);
    assert_eq!(runs.run.as_ref().map(|run| run.attempt_began), Some(due));
    note(&mut runs.run.as_mut().unwrap().why, "away");
    runs.run.as_mut().unwrap().failed = 1;
    end(&mut runs, due + 5 * HOUR);
    let again = due + 6 * HOUR;
    let mut runs = works(&policy, &runs, again);
    let run = runs.run.clone().unwrap();
    assert_eq!((run.began, run.attempt_began), (due, again));
    let of = |policy: &BackupPolicy, runs: &BackupRuns, runner: Option<&str>, now| {
        BackupStatus::of(policy.clone(), Some(runs.clone()), runner.map(str::to_owned), None, now)
    };
    assert_eq!(
        of(&policy, &runs, Some("n1"), again + 60).late_s,
        0,
        "the attempt has begun a minute ago"
    );
    assert_eq!(of(&policy, &runs, Some("n1"), again + policy.limit_s + 7).late_s, 7);
    // Nobody is at it: since the last word of it.
    sign(&mut runs, "n1", again + HOUR);
    assert_eq!(of(&policy, &runs, None, again + HOUR + 5).late_s, 5);
    policy.paused = true;
    let Step::Note(paused) = step(&policy, &runs, again + HOUR) else {
        panic!()
    };
    assert!(paused.last.as_ref().is_some_and(|last| last.failed > 0));
    assert_eq!(of(&policy, &paused, None, again + HOUR).failing(), None);
}

#[test]
fn points_that_were_made_before_their_time_are_not_of_the_run() {
    let policy = hourly();
    let noon = MONDAY + 12 * HOUR;
    let mut runs = BackupRuns {
        schedule: "0 * * * * in UTC".to_owned(),
        after: noon - HOUR,
        ..BackupRuns::default()
    };
    runs = works(&policy, &runs, noon + 3);
    let run = runs.run.clone().unwrap();
    assert!(is_of_run(&run, noon + 3) && is_of_run(&run, noon + 3 - MOST_BACK) && is_of_run(&run, noon + HOUR));
    assert!(!is_of_run(&run, noon + 2 - MOST_BACK));
    let usual = point_name(&policy, noon);
    let other = point_name(&policy, noon - HOUR);
    let name = |runs: &BackupRuns, points: &[(&str, u64)]| run_name(&policy, runs, points.iter().copied());
    assert_eq!(name(&runs, &[(&other, 5), (&usual, noon + 4)]), usual);
    let anew = name(&runs, &[(&usual, noon - 2 * HOUR)]);
    assert_eq!(anew, format!("{usual}-20240101T120003Z"));
    assert!(is_own(&policy, &anew));
    // Whoever goes on with it comes to the same.
    let later = works(&policy, &runs, noon + 600);
    assert_eq!(name(&later, &[(&usual, noon - 2 * HOUR), (&anew, noon + 4)]), anew);
    // A clock that was ahead has dealt with noon at ten, and its points say that it was noon then.
    runs.run = None;
    runs.after = noon;
    let Step::Note(reset) = step(&policy, &runs, noon - 2 * HOUR) else {
        panic!()
    };
    assert_eq!((reset.after, reset.early), (noon - 2 * HOUR, noon));
    let again = works(&policy, &reset, noon);
    assert_eq!(again.run.as_ref().map(|run| run.due), Some(noon));
    assert_ne!(name(&again, &[(&usual, noon)]), usual);
    let next = works(&policy, &reset, noon + HOUR);
    assert_eq!(name(&next, &[]), point_name(&policy, noon + HOUR));
}

#[test]
fn a_node_whose_clock_is_ahead_of_what_another_one_notes_rests() {
    let mut runs = BackupRuns::default();
    let id = PolicyId(4);
    let at = |clock: u64, passed: u64| Time {
        clock: Duration::from_secs(clock),
        passed: Duration::from_secs(passed),
    };
    let look = |clocks: &mut Clocks, revision: u64, runs: &BackupRuns, now: Time| {
        clocks.look("n2", [(id, revision, runs)], now)
    };
    let rests = |clocks: &Clocks, passed: u64| clocks.rests(Duration::from_secs(passed));
    // This node's clock is two hours ahead.
    let here = MONDAY + 2 * HOUR;
    let mut clocks = Clocks::default();
    sign(&mut runs, "n1", MONDAY);
    // How old that is nobody knows.
    assert_eq!(look(&mut clocks, 7, &runs, at(here, 100)), None);
    assert_eq!(look(&mut clocks, 7, &runs, at(here + 60, 160)), None);
    assert!(!rests(&clocks, 160));
    // That was written since.
    sign(&mut runs, "n1", MONDAY + 100);
    let told = look(&mut clocks, 8, &runs, at(here + 120, 220));
    assert_eq!(told, Some(("n1".to_owned(), 2 * HOUR + 20)));
    assert!(rests(&clocks, 220) && rests(&clocks, 219 + RESTS.as_secs()));
    assert!(!rests(&clocks, 220 + RESTS.as_secs()), "it may be alone by now");
    assert_eq!(
        look(&mut clocks, 8, &runs, at(here + 180, 280)),
        None,
        "it is told once"
    );
    assert!(rests(&clocks, 280));
    // Its clock was set right.
    assert_eq!(look(&mut clocks, 8, &runs, at(MONDAY + 240, 340)), None);
    assert!(!rests(&clocks, 340));

    // What it notes itself says nothing, nor does what may have been written long ago, nor one that is ahead of this one.
    let mut clocks = Clocks::default();
    look(&mut clocks, 8, &runs, at(here, 100));
    sign(&mut runs, "n2", MONDAY);
    assert_eq!(look(&mut clocks, 9, &runs, at(here + 10, 110)), None);
    sign(&mut runs, "n1", MONDAY);
    assert_eq!(
        look(&mut clocks, 10, &runs, at(here + 1010, 1110)),
        None,
        "the metadata was away"
    );
    sign(&mut runs, "n1", here + 9 * HOUR);
    assert_eq!(look(&mut clocks, 11, &runs, at(here + 1020, 1120)), None);
    assert!(!rests(&clocks, 1120));
    // A record that was not there; and another node that agrees.
    clocks.look("n2", [], at(here + 1030, 1130));
    sign(&mut runs, "n1", MONDAY);
    assert!(look(&mut clocks, 12, &runs, at(here + 1040, 1140)).is_some());
    sign(&mut runs, "n3", here + 1050);
    assert_eq!(look(&mut clocks, 13, &runs, at(here + 1050, 1150)), None);
    assert!(!rests(&clocks, 1150));
}

#[test]
fn clocks_that_do_not_agree_are_told() {
    let policy = hourly();
    let mut runs = seen(&policy);
    let clock = |runs: &BackupRuns| BackupStatus::of(policy.clone(), Some(runs.clone()), None, None, MONDAY).clock;
    sign(&mut runs, "n1", MONDAY + MOST_BACK);
    assert_eq!(clock(&runs), None);
    sign(&mut runs, "n1", MONDAY + MOST_BACK + 1);
    assert!(clock(&runs).is_some_and(|why| why.contains("node n1")));
    sign(&mut runs, "n2", MONDAY);
    runs.early = MONDAY + 2 * HOUR;
    assert!(clock(&runs).is_some_and(|why| why.contains("7200 s")));
    runs.early = MONDAY;
    assert_eq!(clock(&runs), None);
}

#[test]
fn whoever_wrote_it_it_says_the_same_and_waits_since_it_was_due() {
    let policy = hourly();
    let runs = works(&policy, &seen(&policy), MONDAY + HOUR + 5);
    let mut signed = runs.clone();
    sign(&mut signed, "n1", MONDAY + HOUR + 6);
    assert!(is_same(&runs, &signed) && runs != signed);
    signed.points += 1;
    assert!(!is_same(&runs, &signed));
    let since = |before: &BackupRuns, now: u64| due_since(before, &step(&policy, before, now));
    assert_eq!(since(&BackupRuns::default(), MONDAY), 0);
    assert_eq!(since(&seen(&policy), MONDAY + HOUR + 5), MONDAY + HOUR);
    // Its node has died; it has failed, and is tried again.
    assert_eq!(since(&runs, MONDAY + HOUR + 60), MONDAY + HOUR + 5);
    let mut waits = runs.clone();
    waits.run.as_mut().unwrap().again_at = Some(MONDAY + HOUR + 65);
    assert_eq!(since(&waits, MONDAY + HOUR + 90), MONDAY + HOUR + 65);
    assert_eq!(since(&waits, MONDAY + 2 * HOUR), MONDAY + 2 * HOUR);
}

#[test]
fn a_verification_is_overdue_a_day_behind_its_time_or_when_it_fails() {
    use super::standing::VERIFICATION_TOO_LATE;
    use amita_types::map::{BackupVerified, BackupVerify};
    let verify = BackupVerify {
        schedule: "@daily".to_owned(),
        percent: 5,
        since: MONDAY,
        percent_since: 0,
        asked: 0,
    };
    let policy = BackupPolicy {
        verify: Some(verify),
        ..hourly()
    };
    let derived = policy.verification().expect("it verifies");
    let of = |runs: Option<&BackupRuns>, now: u64| {
        let record = runs.map(|runs| BackupVerified {
            runs: runs.clone(),
            ..BackupVerified::default()
        });
        let found = BackupStatus::of(policy.clone(), None, None, None, now);
        found.verified(Ok(record), None, now).verification.expect("it verifies")
    };
    let day = MONDAY + 24 * HOUR;
    // Nobody has seen it.
    assert!(!of(None, day + VERIFICATION_TOO_LATE).is_overdue());
    assert!(of(None, day + VERIFICATION_TOO_LATE + 1).is_overdue());
    let mut runs = seen(&derived);
    assert_eq!(of(Some(&runs), MONDAY).next_at, Some(day));
    for attempt in 0..3 {
        runs = works(&derived, &runs, day + attempt * HOUR);
        let run = runs.run.as_mut().expect("a run");
        (run.failed, run.why) = (1, vec!["the key file is not there".to_owned()]);
        end(&mut runs, day + attempt * HOUR + 1);
        assert_eq!(of(Some(&runs), day + attempt * HOUR + 2).is_overdue(), attempt == 2);
    }
    let mut runs = works(&derived, &runs, day + 3 * HOUR);
    runs.run.as_mut().expect("a run").failed = 0;
    end(&mut runs, day + 4 * HOUR);
    let ended = of(Some(&runs), day + 4 * HOUR);
    assert_eq!((ended.is_overdue(), ended.next_at), (false, Some(day + 24 * HOUR)));
    // A round that does not come to its end though each of them does: with 5 % it takes 20 times, and is told of behind 40.
    let round = |repository: &str, since: u64, paused: bool, now: u64| {
        let record = BackupVerified {
            runs: BackupRuns {
                after: now,
                ..seen(&derived)
            },
            repository: repository.to_owned(),
            round_since: Some(since),
            ..BackupVerified::default()
        };
        let policy = BackupPolicy {
            paused,
            ..policy.clone()
        };
        let found = BackupStatus::of(policy, None, None, None, now).verified(Ok(Some(record)), None, now);
        let found = found.verification.expect("it verifies");
        (found.is_overdue(), found.slow_s)
    };
    let (own, told) = (policy.repository.as_str(), MONDAY + 40 * 24 * HOUR);
    assert_eq!(round(own, MONDAY, false, told - 1), (false, 0));
    assert_eq!(round(own, MONDAY, false, told + 7), (true, 7));
    assert_eq!(
        round(own, MONDAY + HOUR, false, told - 1),
        (false, 0),
        "the last one ended then"
    );
    assert_eq!(round(own, MONDAY, true, told + 7), (false, 0));
    assert_eq!(round("former", MONDAY, false, told + 7), (false, 0));
    // Where more is read each time since, it has the times that this takes.
    let mut more = policy.clone();
    if let Some(verify) = &mut more.verify {
        (verify.percent, verify.percent_since) = (50, told);
    }
    let record = BackupVerified {
        runs: seen(&derived),
        repository: own.to_owned(),
        round_since: Some(MONDAY),
        ..BackupVerified::default()
    };
    for (days, slow) in [(4, 0), (5, 24 * HOUR)] {
        let now = told + days * 24 * HOUR - u64::from(slow == 0);
        let found = BackupStatus::of(more.clone(), None, None, None, now);
        let found = found.verified(Ok(Some(record.clone())), None, now);
        assert_eq!(found.verification.expect("it verifies").slow_s, slow, "{days}");
    }
    // A policy that says nothing of it has none.
    let plain = BackupStatus::of(hourly(), None, None, None, MONDAY);
    assert_eq!(plain.verified(Ok(None), None, MONDAY).verification, None);
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
