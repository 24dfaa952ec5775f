//! What is to be done about a task of backups, as a function of its records and of what time it is.
//!
//! A task is begun by whichever node takes its key. Where that node dies, or ends, another one goes on: what is made already is found in the
//! repository by the task's name and number, or in the new volume's record, so that nothing is made twice. What fails is tried again after the pauses of
//! policies ([`super::plan::pause`]), some times; what cannot be done however often it is tried has failed at once. One that was taken back is ended by
//! any node: what a restore has begun to fill goes.

use super::plan;
use super::standing::TOO_LATE;
use crate::policy::naming;
use amita_types::ClusterId;
use amita_types::map::{BackupTask, BackupTaskEnd, BackupTaskOutcome, BackupTaskPlace, BackupTaskRun};
use serde::Serialize;
use std::collections::BTreeMap;

/// A task has failed that has failed so often.
pub const MOST_FAILURES: u64 = 5;
/// One that was begun so often, and has come to no end, ends whatever node begins it.
pub const MOST_ATTEMPTS: u64 = 30;

/// So long it is told that a task has failed, unless its record is removed.
const TOLD_S: u64 = 86_400;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStep {
    /// Nothing before this time; none: it has ended.
    Rest(Option<u64>),
    /// This is to be noted, and then it is worked at.
    Work(BackupTaskRun),
    /// It was taken back: what it has begun is undone, and that is noted ([`cancel`]).
    Undo,
    /// It has failed: this is to be noted.
    Note(BackupTaskRun),
}

/// What is to be done about a task at this time, in seconds since 1970, by whoever has its key.
#[must_use]
pub fn step(task: &BackupTask, run: &BackupTaskRun, now: u64) -> TaskStep {
    if run.end.is_some() {
        return TaskStep::Rest(None);
    }
    if task.cancelled {
        return TaskStep::Undo;
    }
    // A clock that was ahead has set no pause that lasts for as long as it was.
    let longest = now.saturating_add(plan::pause(u64::MAX));
    if let Some(at) = run.again_at.filter(|at| *at > now && *at <= longest) {
        return TaskStep::Rest(Some(at));
    }
    let mut run = run.clone();
    if run.attempts >= MOST_ATTEMPTS {
        plan::note(
            &mut run.why,
            &format!("it was begun {MOST_ATTEMPTS} times, and no node has come to an end with it"),
        );
        ends(&mut run, BackupTaskOutcome::Failed, now);
        return TaskStep::Note(run);
    }
    run.attempts += 1;
    run.attempt_began = now;
    run.again_at = None;
    TaskStep::Work(run)
}

fn ends(run: &mut BackupTaskRun, how: BackupTaskOutcome, now: u64) {
    run.again_at = None;
    run.end = Some(BackupTaskEnd { how, at: now });
}

/// What was wanted is done.
pub fn done(run: &mut BackupTaskRun, now: u64) {
    run.why.clear();
    ends(run, BackupTaskOutcome::Done, now);
}

/// It was taken back, and what it had begun is undone.
pub fn cancel(run: &mut BackupTaskRun, now: u64) {
    ends(run, BackupTaskOutcome::Cancelled, now);
}

/// Would one more failure be the last one?
#[must_use]
pub fn is_last(run: &BackupTaskRun) -> bool {
    run.failures.saturating_add(1) >= MOST_FAILURES
}

/// An attempt has failed: it is tried again after a pause, unless that `is_final`, or has come often enough.
pub fn fail(run: &mut BackupTaskRun, why: &str, is_final: bool, now: u64) {
    let is_final = is_final || is_last(run);
    run.failures = run.failures.saturating_add(1);
    run.why.clear();
    plan::note(&mut run.why, why);
    match is_final {
        true => ends(run, BackupTaskOutcome::Failed, now),
        false => run.again_at = Some(now.saturating_add(plan::pause(run.failures))),
    }
}

/// An attempt could not begin, for somebody is at what it needs: that is no failure, however often it comes.
pub fn wait(run: &mut BackupTaskRun, why: &str, now: u64) {
    run.attempts = run.attempts.saturating_sub(1);
    run.why.clear();
    plan::note(&mut run.why, why);
    run.again_at = Some(now.saturating_add(plan::pause(1)));
}

/// What the point of a task is called: no other task's, no policy's and no command's is.
#[must_use]
pub fn point_name(task: &BackupTask) -> String {
    format!("task {}/{}", task.mark(), naming::name("", "{time}", task.asked_at))
}

/// What sessions are called that work for a task: nobody else's are called so.
#[must_use]
pub fn session_name(cluster: ClusterId, task: &BackupTask) -> String {
    format!("backup task {} of cluster {cluster}", task.mark())
}

/// How a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// No node is at it.
    Waiting,
    /// A node is.
    Running,
    /// It was taken back, and is about to end.
    Cancelling,
    /// What was wanted is done.
    Done,
    /// It has failed.
    Failed,
    /// It was taken back, and has ended.
    Cancelled,
}

impl TaskState {
    /// All of them.
    pub const ALL: [TaskState; 6] = [
        TaskState::Waiting,
        TaskState::Running,
        TaskState::Cancelling,
        TaskState::Done,
        TaskState::Failed,
        TaskState::Cancelled,
    ];

    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            TaskState::Waiting => "waiting",
            TaskState::Running => "running",
            TaskState::Cancelling => "cancelling",
            TaskState::Done => "done",
            TaskState::Failed => "failed",
            TaskState::Cancelled => "cancelled",
        }
    }
}

/// A task, and what has become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackupTaskStatus {
    /// What is wanted.
    pub task: BackupTask,
    /// What has become of it.
    pub run: BackupTaskRun,
    /// The name of the node that is at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// How far it is, as long as a node is at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<BackupTaskPlace>,
    /// What is wrong with its record: no node is at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// When a node was at it last, as far as that was noted, in seconds since 1970; 0: it was not.
    #[serde(skip)]
    pub seen_at: u64,
    /// Nodes are at others of its repository, or were until then ([`line_up`]); 0: they never were.
    #[serde(skip)]
    pub behind_until: u64,
}

/// A node is at few tasks at one time, and the others of a repository wait for that: notes with each until when, as far as is known, nodes are at another
/// one's of its repository. A queue that moves has nobody in it who is late.
pub fn line_up(all: &mut [BackupTaskStatus]) {
    let mut moves: BTreeMap<String, u64> = BTreeMap::new();
    for found in all.iter() {
        let until = match (&found.runner, found.run.end) {
            (_, Some(end)) => end.at,
            // Longer than its limit nobody may be at it, and if one is, that one is late itself.
            (Some(_), None) => found.begun().saturating_add(found.task.limit_s),
            (None, None) if found.run.attempts == 0 => 0,
            (None, None) => found.begun().max(found.seen_at),
        };
        let known = moves.entry(found.task.repository.clone()).or_default();
        *known = until.max(*known);
    }
    for found in all {
        found.behind_until = moves.get(&found.task.repository).copied().unwrap_or(0);
    }
}

impl BackupTaskStatus {
    /// How it is.
    #[must_use]
    pub fn state(&self) -> TaskState {
        match (self.run.end.map(|end| end.how), self.task.cancelled) {
            (Some(BackupTaskOutcome::Done), _) => TaskState::Done,
            (Some(BackupTaskOutcome::Failed), _) => TaskState::Failed,
            (Some(BackupTaskOutcome::Cancelled), _) => TaskState::Cancelled,
            (None, true) => TaskState::Cancelling,
            (None, false) if self.runner.is_some() => TaskState::Running,
            (None, false) => TaskState::Waiting,
        }
    }

    /// Has it ended?
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.run.end.is_some()
    }

    /// When the attempt began that was the last one; before that, when it was asked for.
    fn begun(&self) -> u64 {
        self.task.asked_at.max(self.run.attempt_began)
    }

    /// For so many seconds it has not moved though it should have: no node is at it, or one is for longer than its limit. One that waits for somebody,
    /// for others of its repository ([`line_up`]), or for a node that has the key file, may do so for as long as its limit is.
    #[must_use]
    pub fn late_s(&self, now: u64) -> u64 {
        let BackupTaskStatus { task, run, .. } = self;
        if self.has_ended() || self.fault.is_some() {
            return 0;
        }
        let longest = task.asked_at.saturating_add(task.limit_s);
        // What was taken back is undone beside the others.
        let in_line = match task.cancelled {
            true => 0,
            false => self.behind_until.min(longest),
        };
        let due = match (&self.runner, run.again_at) {
            (Some(_), _) => self.begun().saturating_add(task.limit_s),
            // Whoever finds that it has to wait still puts the next look off.
            (None, Some(_)) if run.attempts == 0 => longest,
            (None, Some(again)) => again.max(in_line),
            // Its node was at it until then, and has died, or ended.
            (None, None) => {
                let seen = self.seen_at.min(self.begun().saturating_add(task.limit_s));
                self.begun().max(seen).max(in_line)
            }
        };
        now.saturating_sub(due)
    }

    /// Is it late enough to be told of?
    #[must_use]
    pub fn is_late(&self, now: u64) -> bool {
        self.late_s(now) > TOO_LATE
    }

    /// Has it failed, within a day? What has failed before is history.
    #[must_use]
    pub fn has_failed_of_late(&self, now: u64) -> bool {
        let end = self.run.end.filter(|end| end.how == BackupTaskOutcome::Failed);
        end.is_some_and(|end| now.saturating_sub(end.at) < TOLD_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::VolumeId;
    use amita_types::map::{BackupTaskId, BackupWork, VolumeBackup};

    const NOW: u64 = 1_704_067_200;

    fn task() -> BackupTask {
        BackupTask {
            id: BackupTaskId(7),
            name: "before-upgrade".to_owned(),
            repository: "off-site".to_owned(),
            work: BackupWork::Backup(VolumeBackup {
                volume: VolumeId(3),
                name: "db".to_owned(),
                snapshot: None,
                full: false,
            }),
            asked_at: NOW,
            limit_s: 3600,
            cancelled: false,
        }
    }

    fn works(run: &BackupTaskRun, now: u64) -> BackupTaskRun {
        match step(&task(), run, now) {
            TaskStep::Work(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_fails_is_tried_again_some_times_and_no_more() {
        let (mut run, mut now) = (BackupTaskRun::default(), NOW);
        for failure in 1..MOST_FAILURES {
            run = works(&run, now);
            assert_eq!((run.attempts, run.attempt_began), (failure, now));
            assert!(!is_last(&run));
            fail(&mut run, "the repository is away", false, now);
            let again = now + plan::pause(failure);
            assert_eq!(step(&task(), &run, now), TaskStep::Rest(Some(again)));
            now = again;
        }
        run = works(&run, now);
        assert!(is_last(&run));
        fail(&mut run, "the repository is away", false, now);
        assert_eq!(run.end.map(|end| end.how), Some(BackupTaskOutcome::Failed));
        assert_eq!(step(&task(), &run, now + 1_000_000), TaskStep::Rest(None));
        assert_eq!(run.why, ["the repository is away"]);
    }

    #[test]
    fn what_cannot_be_has_failed_at_once_and_what_is_done_says_no_reason() {
        let mut run = works(&BackupTaskRun::default(), NOW);
        fail(&mut run, "there is no point 9", true, NOW);
        assert_eq!(run.end.map(|end| end.how), Some(BackupTaskOutcome::Failed));
        let mut run = works(&BackupTaskRun::default(), NOW);
        fail(&mut run, "away", false, NOW);
        let mut run = works(&run, NOW + 3600);
        done(&mut run, NOW + 3601);
        assert!(run.why.is_empty() && run.failures == 1);
        assert_eq!(run.end.map(|end| end.at), Some(NOW + 3601));
    }

    #[test]
    fn a_task_whose_nodes_die_is_gone_on_with_and_not_for_ever() {
        let mut run = BackupTaskRun::default();
        for _ in 0..MOST_ATTEMPTS {
            run = works(&run, NOW);
        }
        match step(&task(), &run, NOW) {
            TaskStep::Note(run) => {
                assert_eq!(run.end.map(|end| end.how), Some(BackupTaskOutcome::Failed));
                assert!(run.why[0].contains("no node has come to an end"), "{:?}", run.why);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_taken_back_is_undone_also_while_it_waits_and_not_once_it_has_ended() {
        let cancelled = BackupTask {
            cancelled: true,
            ..task()
        };
        let mut run = works(&BackupTaskRun::default(), NOW);
        fail(&mut run, "away", false, NOW);
        assert_eq!(step(&cancelled, &run, NOW), TaskStep::Undo);
        cancel(&mut run, NOW);
        assert_eq!(step(&cancelled, &run, NOW), TaskStep::Rest(None));
        let mut run = BackupTaskRun::default();
        done(&mut run, NOW);
        assert_eq!(step(&cancelled, &run, NOW), TaskStep::Rest(None));
    }

    #[test]
    fn who_waits_for_others_fails_at_nothing() {
        let (mut run, mut now) = (BackupTaskRun::default(), NOW);
        for _ in 0..2 * MOST_ATTEMPTS {
            run = works(&run, now);
            wait(&mut run, "policy nightly is at the volume", now);
            let again = now + plan::pause(1);
            assert_eq!(step(&task(), &run, now), TaskStep::Rest(Some(again)));
            now = again;
        }
        assert_eq!((run.attempts, run.failures, run.end), (0, 0, None));
    }

    #[test]
    fn a_clock_that_was_ahead_sets_no_pause_that_lasts() {
        let run = BackupTaskRun {
            again_at: Some(NOW + 1_000_000),
            ..BackupTaskRun::default()
        };
        works(&run, NOW);
    }

    #[test]
    fn its_point_is_no_policys_whatever_that_is_called() {
        let name = point_name(&task());
        assert_eq!(name, "task before-upgrade/7/20240101T000000Z");
        // Names of policies have no spaces.
        assert!(amita_types::name::fault(name.split('/').next().unwrap_or_default()).is_some());
        let session = session_name(ClusterId(9), &task());
        assert!(
            session.starts_with("backup task before-upgrade/7 of cluster "),
            "{session}"
        );
    }

    #[test]
    fn the_state_follows_from_the_records() {
        let mut status = BackupTaskStatus {
            task: task(),
            run: BackupTaskRun::default(),
            runner: None,
            place: None,
            fault: None,
            seen_at: 0,
            behind_until: 0,
        };
        assert_eq!(status.state(), TaskState::Waiting);
        status.runner = Some("n1".to_owned());
        assert_eq!(status.state(), TaskState::Running);
        status.task.cancelled = true;
        assert_eq!(status.state(), TaskState::Cancelling);
        // It was done before anybody saw that it was taken back.
        done(&mut status.run, NOW);
        assert_eq!(status.state(), TaskState::Done);
        assert!(status.has_ended());
    }

    fn status(runner: Option<&str>, run: BackupTaskRun) -> BackupTaskStatus {
        BackupTaskStatus {
            task: task(),
            run,
            runner: runner.map(str::to_owned),
            place: None,
            fault: None,
            seen_at: 0,
            behind_until: 0,
        }
    }

    #[test]
    fn one_whose_node_dies_is_late_from_then_on_and_not_from_when_it_began() {
        let begun = works(&BackupTaskRun::default(), NOW + 60);
        let mut left = status(None, begun);
        assert_eq!(
            left.late_s(NOW + 3000),
            2940,
            "nobody has said when its node was at it last"
        );
        left.seen_at = NOW + 2990;
        assert_eq!(left.late_s(NOW + 3000), 10);
        assert_eq!([3890, 3891].map(|at| left.is_late(NOW + at)), [false, true]);
    }

    #[test]
    fn who_waits_in_a_queue_that_moves_is_not_late() {
        let of = |repository: &str, runner: Option<&str>, run: BackupTaskRun| {
            let mut found = status(runner, run);
            repository.clone_into(&mut found.task.repository);
            found
        };
        let begun = works(&BackupTaskRun::default(), NOW + 60);
        let queue = |first: BackupTaskStatus, others: usize| {
            let mut all = vec![first];
            all.extend((0..others).map(|_| of("r", None, BackupTaskRun::default())));
            line_up(&mut all);
            move |at: u64| all.iter().filter(|found| found.is_late(NOW + at)).count()
        };
        // A node is at the first one, and forty wait for it, for as long as it may last, or they may.
        let late = queue(of("r", Some("n1"), begun.clone()), 40);
        assert_eq!([901, 3600 + 900, 3600 + 961].map(&late), [0, 0, 41]);
        // It is done, and then nobody comes for the others.
        let mut done_late = begun.clone();
        done(&mut done_late, NOW + 2000);
        let late = queue(of("r", None, done_late), 40);
        assert_eq!([2001, 2900, 2901].map(&late), [0, 0, 40]);
        // Others' repositories are no news of this one.
        let late = queue(of("elsewhere", Some("n1"), begun), 40);
        assert_eq!([900, 901].map(&late), [0, 40]);
        // Nobody has begun with any.
        let late = queue(of("r", None, BackupTaskRun::default()), 40);
        assert_eq!([900, 901].map(&late), [0, 41]);
    }

    #[test]
    fn what_does_not_move_is_late_and_what_waits_for_others_is_not() {
        // Nobody has seen it.
        let unseen = status(None, BackupTaskRun::default());
        assert_eq!([NOW, NOW + 901].map(|now| unseen.is_late(now)), [false, true]);
        // A node is at it, for longer than its limit of an hour.
        let begun = works(&BackupTaskRun::default(), NOW + 60);
        let runs = status(Some("n1"), begun.clone());
        assert_eq!([60 + 3600, 60 + 3607].map(|late| runs.late_s(NOW + late)), [0, 7]);
        // It waits for another one, again and again, and then for longer than its limit.
        let mut waits = begun.clone();
        wait(&mut waits, "policy nightly is at the volume", NOW + 3000);
        assert_eq!(
            [3000, 3605].map(|at| status(None, waits.clone()).late_s(NOW + at)),
            [0, 5]
        );
        let mut still = works(&waits, NOW + 3600);
        wait(&mut still, "policy nightly is at the volume", NOW + 4600);
        assert_eq!(status(None, still).late_s(NOW + 4601), 1001);
        // It has failed, and nobody tries it again.
        let mut fails = begun;
        fail(&mut fails, "away", false, NOW + 100);
        let again = fails.again_at.unwrap();
        assert_eq!(status(None, fails.clone()).late_s(again + 9), 9);
        fail(&mut fails, "away", true, NOW + 200);
        let failed = status(None, fails);
        assert_eq!(failed.late_s(NOW + 100_000), 0);
        assert_eq!(
            [300, 200_000].map(|at| failed.has_failed_of_late(NOW + at)),
            [true, false]
        );
    }

    #[test]
    fn a_state_is_called_what_it_is_called_in_records() {
        for state in TaskState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.text());
        }
    }
}
