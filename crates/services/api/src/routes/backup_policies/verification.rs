//! When a policy verifies its repository, and what has come of it.

use amita_control::admin;
use amita_control::backups::Verification;
use amita_types::map;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// When the repository of a policy is verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerifySchedule {
    /// When: as the policy's schedule, in its time zone.
    #[schema(example = "0 4 * * SUN")]
    pub schedule: String,
    /// So many percent of its packs are read each time: those behind what was read the time before.
    pub percent: u32,
}

/// What is said of verification; what is not there stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyChange {
    /// When: as the policy's schedule. An empty one: it is verified no more.
    pub schedule: Option<String>,
    /// So many percent of its packs are read each time, 1 to 100; 5 where it was never said.
    pub percent: Option<u32>,
}

impl VerifyChange {
    /// What is wanted; nothing was said of it where there is none.
    pub fn of(wanted: Option<VerifyChange>) -> admin::VerifyChange {
        let wanted = wanted.unwrap_or_default();
        let is_off = wanted.schedule.as_deref() == Some("");
        admin::VerifyChange {
            schedule: wanted.schedule.filter(|schedule| !schedule.is_empty()),
            percent: wanted.percent,
            is_off,
        }
    }
}

/// An object of a repository that is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DamagedObject {
    /// Its name in the repository.
    pub object: String,
    /// What is wrong with it, in a sentence.
    pub why: String,
    /// When it was found first, in seconds since 1970.
    pub found_at: u64,
}

/// A point that is not whole: a restore of it ends with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct DamagedPoint {
    /// Its number.
    pub point: u64,
    /// Its name.
    pub name: String,
    /// The first thing that it lacks, in a sentence.
    pub why: String,
}

/// A verification of a repository. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerifyRun {
    /// When it was due.
    pub due_at: u64,
    /// When it was begun.
    pub began_at: u64,
    /// When it ended; null: it has not.
    pub ended_at: Option<u64>,
    /// The name of the node that is at it, or was last.
    pub node: String,
    /// How often it was begun, or gone on with.
    pub attempts: u64,
    /// It has failed, and is tried again then; null: it does not wait.
    pub again_at: Option<u64>,
    /// Bytes of packs that had their turn, those that could not be read too.
    pub read_bytes: u64,
    /// Points whose trees were read.
    pub points: u64,
    /// Has it failed? What it finds is no failure.
    pub failed: bool,
    /// Why, in sentences.
    pub why: Vec<String>,
}

impl From<map::BackupVerify> for VerifySchedule {
    fn from(found: map::BackupVerify) -> VerifySchedule {
        VerifySchedule {
            schedule: found.schedule,
            percent: found.percent,
        }
    }
}

impl From<map::BackupRun> for VerifyRun {
    fn from(found: map::BackupRun) -> VerifyRun {
        VerifyRun {
            due_at: found.due,
            began_at: found.began,
            ended_at: found.ended,
            node: found.node,
            attempts: found.attempts,
            again_at: found.again_at,
            read_bytes: found.read_bytes,
            points: found.points,
            failed: found.failed > 0,
            why: found.why,
        }
    }
}

/// How the verification of a policy's repository is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RepositoryVerification {
    /// The repository of which what was read and found is: the former one, where no node has begun to verify the one that the policy uses now; null: nothing was read.
    pub repository: Option<String>,
    /// The name of the node that is at it; null: none is.
    pub runner: Option<String>,
    /// When the next one is due, in seconds since 1970; null: never, or it is paused, or verified no more.
    pub next_at: Option<u64>,
    /// For how long one that is due has not begun, is not gone on with, or does not end within its limit, in seconds.
    pub late_seconds: u64,
    /// For how long a round in which all packs are read goes on that was to have ended, in seconds; 0: it is in time.
    pub slow_seconds: u64,
    /// Is it told: is it a day late, does it fail, is not all read in time, or is something wrong with its record?
    pub overdue: bool,
    /// Why it cannot be made; null: it can, or nobody has tried.
    pub failing: Option<String>,
    /// What is wrong with its record, or with what the policy says of it; null: nothing.
    pub fault: Option<String>,
    /// Verifications that have ended.
    pub runs: u64,
    /// Of them, those that did not come to their end.
    pub failures: u64,
    /// Times that have passed without one.
    pub missed: u64,
    /// Packs that were read.
    pub packs: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// When the last one ended that has come to its end, in seconds since 1970; null: none has.
    pub verified_at: Option<u64>,
    /// All that was in the repository then, in seconds since 1970, has been read since, but for damaged packs that could not be; null: not all has been read yet.
    pub whole_since: Option<u64>,
    /// The one that is under way, or waits to be tried again.
    pub current: Option<VerifyRun>,
    /// The last one that has ended.
    pub last: Option<VerifyRun>,
    /// Objects that were found damaged or missing, and were not found whole since: how many.
    pub damaged_objects: u64,
    /// Points that were not whole when their trees were read last: how many.
    pub damaged_points: u64,
    /// Those that are named, 128 at most.
    pub damage: Vec<DamagedObject>,
    /// Those that are named, 64 at most, the newest first.
    pub points: Vec<DamagedPoint>,
}

impl From<Verification> for RepositoryVerification {
    fn from(found: Verification) -> RepositoryVerification {
        let (overdue, damaged_objects, damaged_points) = (found.is_overdue(), found.damaged(), found.points_lost());
        let map::BackupVerified {
            repository,
            runs,
            whole_since,
            packs,
            damage,
            points_lost,
            ..
        } = found.record.unwrap_or_default();
        RepositoryVerification {
            repository: Some(repository).filter(|name| !name.is_empty()),
            runner: found.runner,
            next_at: found.next_at,
            late_seconds: found.late_s,
            slow_seconds: found.slow_s,
            overdue,
            failing: found.failing,
            fault: found.fault,
            runs: runs.runs,
            failures: runs.failures,
            missed: runs.missed,
            packs,
            read_bytes: runs.read_bytes,
            verified_at: runs.succeeded_at,
            whole_since,
            current: runs.run.map(VerifyRun::from),
            last: runs.last.map(VerifyRun::from),
            damaged_objects,
            damaged_points,
            damage: damage
                .into_iter()
                .map(|damage| DamagedObject {
                    object: damage.object,
                    why: damage.why,
                    found_at: damage.found,
                })
                .collect(),
            points: points_lost
                .into_iter()
                .map(|lost| DamagedPoint {
                    point: lost.point,
                    name: lost.name,
                    why: lost.why,
                })
                .collect(),
        }
    }
}
