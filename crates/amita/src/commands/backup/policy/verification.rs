//! Verification by policies of backups: what is said of it, and how it is shown.

use crate::logging::timestamp;
use amita_control::admin::VerifyChange;
use amita_control::backups::{BackupStatus, Verification};
use amita_terminal::size;
use amita_types::map::{BackupRun, BackupVerified, BackupVerify, MAX_DAMAGE};

/// Damaged objects and points that are named to people; JSON has all that are known by name.
const MOST_SHOWN: usize = 10;

/// When a new policy verifies its repository.
#[derive(Debug, clap::Args)]
pub struct VerifyArguments {
    /// Verify the repository at these times, as cron says them: @weekly, "0 4 * * SUN"
    #[arg(long, value_name = "PATTERN")]
    pub verify: Option<String>,
    /// Read so many percent of the packs each time, those behind what was read the time before: 5, unless you say otherwise
    #[arg(long, value_name = "PERCENT", requires = "verify", value_parser = parse_percent)]
    pub verify_sample: Option<u32>,
}

/// When a policy that is there does.
#[derive(Debug, clap::Args)]
pub struct VerifyChangeArguments {
    /// Verify the repository at these times, as cron says them: @weekly, "0 4 * * SUN"
    #[arg(long, value_name = "PATTERN")]
    pub verify: Option<String>,
    /// Read so many percent of the packs each time, those behind what was read the time before
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub verify_sample: Option<u32>,
    /// Verify it no more; what was found damaged stays shown
    #[arg(long, conflicts_with_all = ["verify", "verify_sample"])]
    pub no_verify: bool,
}

impl VerifyArguments {
    pub fn change(&self) -> VerifyChange {
        VerifyChange {
            schedule: self.verify.clone(),
            percent: self.verify_sample,
            is_off: false,
        }
    }
}

impl VerifyChangeArguments {
    pub fn change(&self) -> VerifyChange {
        VerifyChange {
            schedule: self.verify.clone(),
            percent: self.verify_sample,
            is_off: self.no_verify,
        }
    }
}

fn parse_percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<u32>();
    let percent = number.ok().filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| "a whole number of percent from 1 to 100, as 5 or 5%".to_owned())
}

pub fn is_damaged(found: &BackupStatus) -> bool {
    let is_damaged = |found: &Verification| found.damaged() > 0 || found.points_lost() > 0;
    found.verification.as_ref().is_some_and(is_damaged)
}

pub fn is_overdue(found: &BackupStatus) -> bool {
    found.verification.as_ref().is_some_and(Verification::is_overdue)
}

/// When the last one ended, in a list.
pub fn in_list(found: &BackupStatus) -> String {
    let Some(verification) = &found.verification else {
        return String::new();
    };
    let record = verification.record.as_ref();
    match record.and_then(|record| record.runs.succeeded_at) {
        Some(at) => timestamp(at, 0),
        None => "never".to_owned(),
    }
}

/// How it is, in lines.
pub fn text(found: &BackupStatus) -> String {
    let Some(verification) = &found.verification else {
        return String::new();
    };
    let mut out = match &found.policy.verify {
        Some(BackupVerify { schedule, percent, .. }) => {
            format!("verifies  {schedule}: {percent} % of the packs each time\n")
        }
        None => "verifies  no more\n".to_owned(),
    };
    let mut line = |head: &str, text: String| out.push_str(&format!("{head:<10}{text}\n"));
    for why in verification.fault.iter().chain(&verification.failing) {
        line("FAILS", amita_audit::plain(why));
    }
    let Some(record) = &verification.record else {
        line("", "no node has seen that yet".to_owned());
        return out;
    };
    line("", sum(record));
    let current = record.runs.run.as_ref().filter(|_| found.policy.verify.is_some());
    for (head, run) in [("verifying", current), ("verified", record.runs.last.as_ref())] {
        if let Some(run) = run {
            line(head, told(run, verification.runner.as_deref()));
        }
    }
    if let Some(at) = record.whole_since {
        let but = match record.whole_unread {
            0 => String::new(),
            unread => format!(", but for {unread} packs that could not be read or are missing"),
        };
        line(
            "",
            format!("all that was there at {} has been read since{but}", timestamp(at, 0)),
        );
    }
    if verification.slow_s > 0 {
        line(
            "SLOW",
            format!(
                "not all is read in time: the round that is under way was to have ended {} s ago",
                verification.slow_s
            ),
        );
    }
    let is_read = found.policy.verify.is_some() && !found.policy.paused;
    damage(record, is_read, &mut line);
    if !record.repository.is_empty() && record.repository != found.policy.repository {
        let now = &found.policy.repository;
        line(
            "",
            format!(
                "that is of repository {}, which it used before; it is shown until the policy begins to verify {now}",
                record.repository
            ),
        );
    }
    if verification.late_s > 0 {
        line("late", format!("by {} s", verification.late_s));
    }
    if let Some(at) = verification.next_at {
        line("next", timestamp(at, 0));
    }
    out
}

fn sum(record: &BackupVerified) -> String {
    let runs = &record.runs;
    format!(
        "{} verifications, {} failed, {} times missed; {} packs read, {}; {} rounds",
        runs.runs,
        runs.failures,
        runs.missed,
        record.packs,
        size::show(runs.read_bytes),
        record.rounds
    )
}

/// `is_read`: what is damaged is read again.
fn damage(record: &BackupVerified, is_read: bool, line: &mut impl FnMut(&str, String)) {
    if record.damaged() == 0 && record.lost() == 0 {
        if record.runs.succeeded_at.is_some() {
            line("", "nothing is damaged, as far as was read".to_owned());
        }
        return;
    }
    line(
        "DAMAGED",
        format!(
            "{} objects of repository {}; {} points are not whole",
            record.damaged(),
            record.repository,
            record.lost()
        ),
    );
    for damage in record.damage.iter().take(MOST_SHOWN) {
        line(
            "",
            format!(
                "{} (found {})",
                amita_audit::plain(&damage.why),
                timestamp(damage.found, 0)
            ),
        );
    }
    for lost in record.points_lost.iter().take(MOST_SHOWN) {
        let (name, why) = (amita_audit::plain(&lost.name), amita_audit::plain(&lost.why));
        line("", format!("point {} ({name}): {why}", lost.point));
    }
    if record.damaged() > MOST_SHOWN as u64 || record.points_lost.len() > MOST_SHOWN {
        line("", format!("--json names more of them, up to {MAX_DAMAGE} objects"));
    }
    let until = match is_read {
        true => "it is shown until it was read again and found whole, or is gone from the repository",
        false => {
            "it is shown until the policy verifies again, and it was found whole or is gone, or the policy is deleted"
        }
    };
    line("", until.to_owned());
}

fn told(run: &BackupRun, runner: Option<&str>) -> String {
    let mut text = format!(
        "{}: {} read, the trees of {} points",
        super::stands(run, runner),
        size::show(run.read_bytes),
        run.points
    );
    if run.failed > 0 {
        text.push_str(", FAILED");
    }
    for why in &run.why {
        text.push_str(&format!("\n          {}", amita_audit::plain(why)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_is_read_is_said_in_percent() {
        assert_eq!((parse_percent("5%"), parse_percent("100")), (Ok(5), Ok(100)));
        for bad in ["0", "101", "%", "5.5", "-1", "five"] {
            assert!(parse_percent(bad).is_err(), "{bad}");
        }
    }
}
