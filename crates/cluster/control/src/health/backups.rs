//! What is so of policies of backups, and of the repositories that they verify.

use super::{Fact, Kind, Picture};
use crate::backups::BackupStatus;
use crate::backups::standing::VERIFICATION_TOO_LATE;
use crate::backups::task::BackupTaskStatus;
use amita_types::map::{BackupPolicy, BackupTask, BackupVerified, BackupWork};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Tasks that have failed, one by one, beyond which it is told how many more there are.
const MAX_FAILED_TASKS: usize = 16;

impl Picture<'_> {
    pub(super) fn of_backups(&self, facts: &mut Vec<Fact>) {
        for found in self.backups {
            let name = &found.policy.name;
            let show = format!("See `amita backup policy show {name}`.");
            let runs_key = amita_types::map::backup_runs_key(found.policy.id);
            let unreadable = self.unreadable.iter().find(|(key, _)| *key == runs_key);
            let of_runs =
                unreadable.map(|(_, why)| crate::backups::unreadable_runs(&found.policy, &why.escape_debug()));
            if let Some(why) = found.fault.as_ref().or(of_runs.as_ref()) {
                let text = format!("Backup policy {name} does nothing: {why}.");
                facts.push(Fact::new(Kind::BackupFailing, [name], text, &show));
            } else if let Some((failed, why)) = found.failing() {
                // What a repository has said is a part of it.
                let first = why.first().map_or("", String::as_str).escape_debug().to_string();
                let more = match failed {
                    0 | 1 => String::new(),
                    more => format!(" So did {} more.", more - 1),
                };
                let text = format!("Backup policy {name} fails: {}.{more}", first.trim_end_matches('.'));
                facts.push(Fact::new(Kind::BackupFailing, [name], text, &show));
            } else if let Some(why) = &found.clock {
                let text = format!("Backup policy {name} goes by clocks that do not agree: {why}.");
                let advice = format!("Set the clocks of the nodes right. {show}");
                facts.push(Fact::new(Kind::BackupFailing, [name], text, &advice));
            }
            if found.is_late() {
                let what = match found.runs.as_ref().and_then(|runs| runs.run.as_ref()) {
                    Some(_) => "does not end",
                    None => "has not begun",
                };
                let text = format!(
                    "Backup policy {name} is late: a run that was due {} s ago {what}.",
                    found.late_s
                );
                facts.push(Fact::new(Kind::BackupLate, [name], text, &show));
            }
            self.of_verification(found, facts);
        }
    }

    pub(super) fn of_backup_tasks(&self, facts: &mut Vec<Fact>) {
        self.of_failed_backup_tasks(facts);
        self.of_late_backup_tasks(facts);
    }

    /// Each by itself, for each is something that somebody has asked for and has not; the newest ones, where there are many.
    fn of_failed_backup_tasks(&self, facts: &mut Vec<Fact>) {
        let mut failed: Vec<&BackupTaskStatus> = self.backup_tasks.iter().collect();
        failed.retain(|found| found.has_failed_of_late(self.at));
        failed.sort_by_key(|found| Reverse((found.run.end.map(|end| end.at), found.task.id)));
        let more = failed.len().saturating_sub(MAX_FAILED_TASKS);
        for (number, found) in failed.into_iter().take(MAX_FAILED_TASKS).enumerate() {
            let name = &found.task.name;
            // What a repository has said is a part of it.
            let why = found.run.why.first().map_or("", String::as_str).escape_debug();
            let why = why.to_string();
            let more = match more {
                1.. if number + 1 == MAX_FAILED_TASKS => {
                    format!(" So have {more} more, before (`amita backup task list`).")
                }
                _ => String::new(),
            };
            let text = format!(
                "Backup task {name} has failed, and {}: {}.{more}",
                not_done(&found.task),
                why.trim_end_matches('.')
            );
            let advice = format!(
                "See `amita backup task show {name}`; it is told for a day, or until the task is removed (`amita backup task remove {name}`)."
            );
            facts.push(Fact::new(
                Kind::BackupTaskFailed,
                [name, &found.task.repository],
                text,
                &advice,
            ));
        }
    }

    /// Together, by their repositories: where no node has the key file, all of its tasks wait for the same.
    fn of_late_backup_tasks(&self, facts: &mut Vec<Fact>) {
        let mut late: BTreeMap<&str, Vec<&BackupTaskStatus>> = BTreeMap::new();
        for found in self.backup_tasks.iter().filter(|found| found.is_late(self.at)) {
            late.entry(&found.task.repository).or_default().push(found);
        }
        for (repository, mut tasks) in late {
            tasks.sort_by_key(|found| (Reverse(found.late_s(self.at)), found.task.id));
            let (first, others) = (tasks[0], tasks.len() - 1);
            let (name, late) = (&first.task.name, first.late_s(self.at));
            let what = not_done(&first.task);
            let mut text = match (&first.runner, first.run.attempts) {
                (Some(node), _) => {
                    format!(
                        "Backup task {name} has not come to its end at node {node}, {late} s behind its limit: {what}."
                    )
                }
                (None, 0) => format!("Backup task {name} has waited {late} s for a node: {what}."),
                (None, _) => {
                    format!("Backup task {name} has had no node for {late} s, since its last attempt: {what}.")
                }
            };
            match others {
                0 => {}
                1 => text.push_str(&format!(" One more task of repository {repository} does not move.")),
                _ => text.push_str(&format!(" {others} more tasks of repository {repository} do not move.")),
            }
            let advice = format!(
                "See `amita backup task show {name}`, and `amita backup repository list` for the nodes that may be at it; `amita backup task cancel {name}` takes \
                 it back."
            );
            facts.push(Fact::new(Kind::BackupTaskLate, [repository, name], text, &advice));
        }
    }

    fn of_verification(&self, found: &BackupStatus, facts: &mut Vec<Fact>) {
        let (policy, name) = (&found.policy, &found.policy.name);
        let show = format!("See `amita backup policy show {name}`.");
        let Some(verification) = &found.verification else {
            return;
        };
        if let Some(record) = verification.record.as_ref().filter(|record| is_damaged(record)) {
            let (text, object) = damage(policy, record);
            let objects = [name.as_str(), &record.repository].into_iter().chain(object);
            let until = match (record.repository == policy.repository, &policy.verify) {
                (false, _) => format!(
                    "until the policy begins to verify {}, which it uses now, or is deleted",
                    policy.repository
                ),
                (true, Some(_)) if !policy.paused => {
                    "until what is damaged was read again and found whole, or is gone".to_owned()
                }
                (true, Some(_)) => format!(
                    "until the policy, which is paused, goes on (`amita backup policy set {name} --resume`) and reads it again, or is deleted"
                ),
                (true, None) => format!(
                    "until the policy, which does not verify any more, does so again (`amita backup policy set {name} --verify PATTERN`), or is deleted"
                ),
            };
            let advice = format!(
                "{show} `amita backup verify --give-up` and then `amita backup run --full` put again what the volumes still have; points that are not whole can be \
                 pruned. It is told {until}."
            );
            facts.push(Fact::new(Kind::BackupDamaged, objects, text, &advice));
        }
        let why = verification
            .fault
            .clone()
            .or_else(|| verification.failing.as_ref().map(|why| why.escape_debug().to_string()));
        let repository = &policy.repository;
        let text = match (why, verification.is_overdue()) {
            (Some(why), _) => why.trim_end_matches('.').to_owned(),
            (None, true) if verification.late_s <= VERIFICATION_TOO_LATE => format!(
                "not all of it is read in time: the round that is under way was to have ended {} s ago; read more each time (--verify-sample), or more often",
                verification.slow_s
            ),
            (None, true) => format!(
                "a verification that was due {} s ago has not come to its end",
                verification.late_s
            ),
            (None, false) => return,
        };
        let text = format!("Backup policy {name} does not verify repository {repository} as it should: {text}.");
        facts.push(Fact::new(Kind::BackupUnverified, [name, repository], text, &show));
    }
}

/// What is not there, for the task is not done.
fn not_done(task: &BackupTask) -> String {
    match &task.work {
        BackupWork::Backup(work) => format!("volume {} is not backed up", work.name),
        BackupWork::Restore(work) => format!("volume {} is not restored", work.to),
        BackupWork::Forget(work) => format!("point {} is not given up", work.point),
    }
}

fn is_damaged(record: &BackupVerified) -> bool {
    record.damaged() > 0 || record.lost() > 0
}

/// In a sentence, and the object that is named. What a repository has said is a part of it.
fn damage<'a>(policy: &BackupPolicy, record: &'a BackupVerified) -> (String, Option<&'a str>) {
    let (repository, name) = (&record.repository, &policy.name);
    let first = record.damage.first();
    let mut text = match *repository == policy.repository {
        true => format!("Repository {repository} is damaged, as policy {name} has found"),
        false => format!(
            "Repository {repository}, which backup policy {name} used before {}, is damaged, as it had found",
            policy.repository
        ),
    };
    let more = record.damaged() - u64::from(first.is_some());
    match (first, more, record.points_lost.first()) {
        (Some(first), 0, _) => text.push_str(&format!(": {}", first.why.escape_debug())),
        (Some(first), ..) => text.push_str(&format!(": {}, and {more} objects more", first.why.escape_debug())),
        (None, 1.., _) => text.push_str(&format!(": {more} objects, which are not known by name")),
        (None, 0, Some(point)) => text.push_str(&format!(": {}", point.why.escape_debug())),
        (None, 0, None) => {}
    }
    match record.points_lost.first() {
        None if record.looked_at.is_none() || record.points_owed => {
            text.push_str("; which points need what is damaged was not looked at yet.");
        }
        None if record.lost() > 0 => text.push_str(&format!("; {} points are not whole.", record.lost())),
        None => text.push_str("; all points are whole, as far as was read."),
        Some(point) => {
            let name = point.name.escape_debug();
            text.push_str(&format!("; point {} ({name}) is not whole", point.point));
            match record.lost() - 1 {
                0 => text.push('.'),
                more => text.push_str(&format!(", nor are {more} others.")),
            }
        }
    }
    (text, first.map(|first| first.object.as_str()))
}
