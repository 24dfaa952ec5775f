//! What is to be done about a policy, as a function of its records and of what time it is.
//!
//! # A run
//! It is begun when it is due, by whichever node takes the policy's key. What fails is tried again after pauses that double ([`pause`]), until the next time of
//! the schedule is due: then it has failed, and the next run is made instead. So it is with a run whose node has died before it came to its end.
//! Points that it has made stay, and so does what it has put: the next one finds it.
//!
//! Times that have passed while a run was under way, or while nobody was at the policy, are *missed*: they are counted, and one run is made in
//! place of all of them, for the last one.
//!
//! One that an operator asks for is begun at once, is due when it is begun, and is a run as any; what the schedule says stays as it is. Where a run waits to
//! be tried again, that is done at once in its place.
//!
//! # Clocks
//! A time that is dealt with stays so. A clock that goes back a little makes the next run wait until it is where it was. One that goes back by
//! more than [`MOST_BACK`] was wrong before or is wrong now: times count from there. A pause never lasts longer than the longest one, whatever the
//! record says until when.
//!
//! Times that a clock that was ahead has dealt with come again then, and there may be points of their names, made before they came: these are
//! not of the runs to come ([`is_of_run`]), whose points are called otherwise ([`run_name`]). That a node whose clock is ahead of another one's
//! does not deal with them again and again is seen to by [`super::clocks`].

use super::point_name;
use crate::policy::naming;
use crate::policy::runner::MOST_BACK;
use crate::policy::schedule::Schedule;
use amita_types::map::{BackupPolicy, BackupRun, BackupRuns};

/// A run that begins later than this, in seconds, is a missed one that is made up for: nodes without the key file leave it to others for a while.
pub const MADE_UP: u64 = 300;
/// The first pause, and the longest one, in seconds.
const PAUSES_S: (u64, u64) = (60, 1800);
/// Reasons of failures that are kept.
const MOST_REASONS: usize = 8;
/// The most bytes of one.
const MOST_BYTES: usize = 512;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before this time; none: nothing, until the policy is another.
    Rest(Option<u64>),
    /// This is to be noted, and what is to be done then is asked anew.
    Note(BackupRuns),
    /// This is to be noted, and then the run that is in it is made.
    Work(BackupRuns),
}

/// By what a policy's times are counted: where that is another, they count anew.
#[must_use]
pub fn counted(policy: &BackupPolicy) -> String {
    match policy.paused {
        true => "paused".to_owned(),
        false => format!("{} in {}", policy.schedule, policy.zone),
    }
}

/// For how long a run rests that has failed so many times, in seconds.
#[must_use]
pub fn pause(attempts: u64) -> u64 {
    let (first, longest) = PAUSES_S;
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(2_u64.saturating_pow(doublings)).min(longest)
}

/// What is to be done about a policy at this time, in seconds since 1970, by whoever has its key.
#[must_use]
pub fn step(policy: &BackupPolicy, runs: &BackupRuns, now: u64) -> Step {
    let current = counted(policy);
    if runs.schedule != current {
        let mut runs = runs.clone();
        if policy.paused {
            give_up(&mut runs, "the policy was paused before it had come to its end", now);
            runs.asked = policy.asked;
        }
        (runs.schedule, runs.after) = (current, now);
        return Step::Note(runs);
    }
    if policy.paused {
        return Step::Rest(None);
    }
    if runs.after > now.saturating_add(MOST_BACK) {
        let mut runs = runs.clone();
        runs.early = runs.early.max(runs.after);
        runs.after = now;
        return Step::Note(runs);
    }
    if policy.asked > runs.asked {
        return Step::Work(begin_asked(policy, runs, now));
    }
    let Ok(schedule) = Schedule::parse(&policy.schedule, &policy.zone) else {
        return Step::Rest(None);
    };
    let next = schedule.next_after(runs.after);
    let due = next
        .filter(|next| *next <= now)
        .and_then(|_| schedule.last_between(runs.after, now));
    match (&runs.run, due) {
        (Some(run), None) => match run.again_at.filter(|at| is_ahead(*at, now)) {
            Some(at) => Step::Rest(Some(next.map_or(at, |next| next.min(at)))),
            None => Step::Work(go_on(runs, now)),
        },
        (_, Some((due, passed))) => Step::Work(begin(runs, due, passed, now)),
        (None, None) => Step::Rest(next),
    }
}

/// A clock that was ahead has set no pause that lasts for as long as it was.
fn is_ahead(at: u64, now: u64) -> bool {
    at > now && at - now <= PAUSES_S.1
}

fn go_on(runs: &BackupRuns, now: u64) -> BackupRuns {
    let mut runs = runs.clone();
    if let Some(run) = &mut runs.run {
        run.attempts = run.attempts.saturating_add(1);
        run.attempt_began = now;
        run.again_at = None;
    }
    runs
}

fn begin_asked(policy: &BackupPolicy, runs: &BackupRuns, now: u64) -> BackupRuns {
    let mut runs = go_on(runs, now);
    runs.asked = policy.asked;
    runs.run.get_or_insert_with(|| first(now, now));
    runs
}

/// A run at its first attempt.
fn first(due: u64, now: u64) -> BackupRun {
    BackupRun {
        due,
        began: now,
        attempts: 1,
        attempt_began: now,
        ..BackupRun::default()
    }
}

fn begin(runs: &BackupRuns, due: u64, passed: u64, now: u64) -> BackupRuns {
    let mut runs = runs.clone();
    let was_at_one = runs.run.is_some();
    give_up(&mut runs, "the next run was due before it had come to its end", now);
    // One that was late because the one before was not at its end is not missed.
    let is_late = !was_at_one && now - due > MADE_UP;
    runs.missed = runs.missed.saturating_add(passed + u64::from(is_late));
    runs.after = due;
    runs.run = Some(first(due, now));
    runs
}

/// The run that is under way comes to no other end.
pub fn give_up(runs: &mut BackupRuns, why: &str, now: u64) {
    let Some(mut run) = runs.run.take() else { return };
    run.failed = run.failed.max(1);
    // What failed is said first.
    note(&mut run.why, why);
    run.again_at = None;
    run.ended = Some(now);
    runs.runs = runs.runs.saturating_add(1);
    runs.failures = runs.failures.saturating_add(1);
    runs.last = Some(run);
}

/// Everything of the run that could be done is done: it has ended, or is tried again after a pause where something of it failed.
pub fn end(runs: &mut BackupRuns, now: u64) {
    let Some(mut run) = runs.run.take() else { return };
    if run.failed > 0 {
        run.again_at = Some(now.saturating_add(pause(run.attempts)));
        runs.run = Some(run);
        return;
    }
    run.why.clear();
    run.ended = Some(now);
    runs.runs = runs.runs.saturating_add(1);
    runs.succeeded_at = Some(now);
    runs.last = Some(run);
}

/// Its attempt has ended before its end, and has come on: what failed before is over.
pub fn come_on(runs: &mut BackupRuns) {
    if let Some(run) = &mut runs.run {
        (run.failed, run.attempts) = (0, 1);
        run.why.clear();
    }
}

/// Keeps a reason, if there is room for it.
pub fn note(reasons: &mut Vec<String>, why: &str) {
    if reasons.len() < MOST_REASONS && !reasons.iter().any(|known| known == why) {
        reasons.push(why[..why.floor_char_boundary(MOST_BYTES)].to_owned());
    }
}

/// Since when a run is due that is to be made, or gone on with, by what its record says; 0: only something is to be noted, or nothing is known.
/// Who waits longest goes first.
#[must_use]
pub fn due_since(before: &BackupRuns, next: &Step) -> u64 {
    let Step::Work(next) = next else { return 0 };
    let Some(run) = &next.run else { return 0 };
    match before.run.as_ref().filter(|before| before.due == run.due) {
        Some(before) => before.again_at.unwrap_or(before.began.max(before.attempt_began)),
        None => run.due,
    }
}

/// Whoever writes a record says who it is, and what time it is there: so others see whether their clocks agree.
pub fn sign(runs: &mut BackupRuns, node: &str, now: u64) {
    runs.noted_at = now;
    node.clone_into(&mut runs.noted_by);
}

/// Do they say the same, whoever has written them, and when?
#[must_use]
pub fn is_same(one: &BackupRuns, other: &BackupRuns) -> bool {
    let said = BackupRuns {
        noted_at: one.noted_at,
        noted_by: one.noted_by.clone(),
        ..other.clone()
    };
    *one == said
}

/// Is a point that is called as this run's are, and was taken at that time, one of it? Else it was made before the time had come, by a clock that was
/// ahead: the run has none by that.
#[must_use]
pub fn is_of_run(run: &BackupRun, taken_at: u64) -> bool {
    taken_at >= run.began.saturating_sub(MOST_BACK)
}

/// What the points of the run are called that is under way, in a repository with these points: their names, and when they were taken. Where there may
/// be some of that name that are not of the run, it is the name of its time and of when it was begun: whoever goes on with it comes to the same.
#[must_use]
pub fn run_name<'a>(
    policy: &BackupPolicy,
    runs: &BackupRuns,
    points: impl IntoIterator<Item = (&'a str, u64)>,
) -> String {
    let Some(run) = &runs.run else {
        return point_name(policy, 0);
    };
    let name = point_name(policy, run.due);
    let is_of_before = |(called, taken_at): (&str, u64)| called == name && !is_of_run(run, taken_at);
    match run.due <= runs.early || points.into_iter().any(is_of_before) {
        true => format!("{name}-{}", naming::name("", "{time}", run.began)),
        false => name,
    }
}
