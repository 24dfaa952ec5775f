//! What commands about policies of snapshots and of backups have in common.

use crate::logging::timestamp;
use amita_control::admin::{AdminError, KeepChange};
use amita_control::policy::schedule::Schedule;
use amita_terminal::output;
use amita_types::map::{Keep, Target};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Times ahead that `show` tells.
const NEXT: usize = 5;

/// Which snapshots are kept.
#[derive(Debug, clap::Args)]
pub struct KeepArguments {
    /// Keep so many of the newest
    #[arg(long, value_name = "COUNT")]
    pub keep_last: Option<u32>,
    /// Keep the newest of each of so many hours
    #[arg(long, value_name = "COUNT")]
    pub keep_hourly: Option<u32>,
    /// Keep the newest of each of so many days
    #[arg(long, value_name = "COUNT")]
    pub keep_daily: Option<u32>,
    /// Keep the newest of each of so many weeks, from Monday on
    #[arg(long, value_name = "COUNT")]
    pub keep_weekly: Option<u32>,
    /// Keep the newest of each of so many months
    #[arg(long, value_name = "COUNT")]
    pub keep_monthly: Option<u32>,
    /// Keep the newest of each of so many years
    #[arg(long, value_name = "COUNT")]
    pub keep_yearly: Option<u32>,
}

impl KeepArguments {
    pub(crate) fn change(&self) -> KeepChange {
        KeepChange {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
        }
    }
}

/// What two flags say of which one is the other's contrary; none: neither was given.
pub(crate) fn either(yes: bool, no: bool) -> Option<bool> {
    match (yes, no) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The next times of a schedule; none where it is none.
fn times_of(schedule: &str, zone: &str, from: u64, count: usize) -> Vec<u64> {
    let Ok(schedule) = Schedule::parse(schedule, zone) else {
        return Vec::new();
    };
    let mut at = from;
    let each = std::iter::from_fn(|| {
        at = schedule.next_after(at)?;
        Some(at)
    });
    each.take(count).collect()
}

/// The next times of a policy, in seconds since 1970. `after`: those up to then have been dealt with.
pub(crate) fn next_times(paused: bool, schedule: &str, zone: &str, after: u64) -> Vec<u64> {
    match paused {
        true => Vec::new(),
        false => times_of(schedule, zone, after.max(now().as_secs()), NEXT),
    }
}

/// A sentence that says when a policy runs next.
pub(crate) fn next_run(paused: bool, schedule: &str, zone: &str) -> String {
    let times = times_of(schedule, zone, now().as_secs(), 1);
    match (paused, times.first()) {
        (true, _) => "It is paused.".to_owned(),
        (false, Some(at)) => format!("The next run is due at {}.", timestamp(*at, 0)),
        (false, None) => "No run is due any more.".to_owned(),
    }
}

/// The same as `show` has it, a line for each of those times.
pub(crate) fn next_lines(paused: bool, next: &[u64]) -> String {
    if paused {
        return "next run  none: it is paused\n".to_owned();
    }
    let heads = std::iter::once("next run").chain(std::iter::repeat(""));
    let lines = heads.zip(next);
    lines
        .map(|(head, next)| format!("{head:<10}{}\n", timestamp(*next, 0)))
        .collect()
}

/// The volumes that a policy is for; `volume`: the name of the one that it is for alone.
pub(crate) fn meant(target: &Target, volume: Option<&str>) -> String {
    match (target, volume) {
        (Target::Volume(_), Some(name)) => format!("volume {name}"),
        (Target::Volume(id), None) => format!("volume number {id}, which is deleted"),
        (Target::Volumes(ids), _) => format!("{} volumes by name", ids.len()),
        (Target::Label { key, value }, _) => format!("label {key}={value}"),
        (Target::Pool(pool), _) => format!("pool {pool}"),
    }
}

pub(crate) fn keeps(keep: &Keep) -> String {
    let rules = keep.rules().into_iter().filter(|(_, count)| *count > 0);
    let rules: Vec<String> = rules.map(|(rule, count)| format!("{count} {rule}")).collect();
    rules.join(", ")
}

/// Records of policies that are not listed, because nobody can read them.
pub(crate) fn tell_unreadable(records: Vec<(String, AdminError)>) {
    for (key, why) in records {
        output::beside(&format!("{key} cannot be read, and nobody carries it out: {why}"));
    }
}

pub(crate) fn parse_label(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE".to_owned()),
    }
}
