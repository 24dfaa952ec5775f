//! Policies of backups: what nodes back up by themselves, and which of it is kept.
//!
//! * [`clocks`]: whether those of nodes agree.
//! * [`plan`]: what is to be done about a policy now, and what is written of it.
//! * [`retention`]: which of its points are given up.
//! * [`standing`]: how policies are, for whoever asks.
//! * [`task`]: what is to be done about what somebody wants once, and how that is.
//! * [`verification`]: what is known of the repository that a policy verifies by schedule.
//!
//! # What rests on what
//! A run is a time of the schedule. The names of its points follow from policy and time ([`point_name`]), so that whoever goes on with a run finds
//! in the repository what is made already, and nothing is made twice. A point is a policy's own if its name begins with the policy's name *and
//! number*, and all its volumes are of this cluster. No other one is ever given up by it.
//!
//! One node is at a policy: it holds a key on a lease, and each note compares it. A session of the repository says for which policy it works
//! ([`session_name`]), so that whoever has the key fences all that were begun for that policy before. Where one that has lost its key begins another session
//! all the same, the repository's journal decides: a point of a policy is made only if there is none of its name for the volume. So neither a
//! clock, nor a lease, nor a node that is taken for dead by mistake has two points made of one time.
//!
//! Verifications are runs of their own schedule, at a key of their own, so that neither waits for the other: what is due, tried again and late is what
//! [`plan`] says of [`BackupPolicy::verification`]. They write nothing into a repository but the sessions by which what they read is not swept meanwhile, and
//! these are fenced as those of backups are ([`verification_session_name`]).
//!
//! Schedules, time zones and rules are those of snapshot policies ([`crate::policy`]); clocks that jump are dealt with as there.

pub mod clocks;
pub mod plan;
pub mod retention;
pub mod standing;
pub mod task;
pub mod verification;

pub use standing::{BackupStatus, Verification};

use crate::policy::naming;
use amita_types::ClusterId;
use amita_types::map::{self, BackupPolicy};

/// What the points of a policy are called that are due at a time, in seconds since 1970: in UTC.
#[must_use]
pub fn point_name(policy: &BackupPolicy, due: u64) -> String {
    format!("{}/{}", policy.mark(), naming::name("", "{time}", due))
}

/// Is a point of that name this policy's, in a repository where all its volumes are of this cluster?
#[must_use]
pub fn is_own(policy: &BackupPolicy, point: &str) -> bool {
    let time = point
        .strip_prefix(&policy.mark())
        .and_then(|rest| rest.strip_prefix('/'));
    time.is_some_and(|time| !time.is_empty() && !time.contains('/'))
}

/// What sessions are called that work for a policy: nobody else's are called so.
#[must_use]
pub fn session_name(cluster: ClusterId, policy: &BackupPolicy) -> String {
    format!("backup policy {} of cluster {cluster}", policy.mark())
}

/// What sessions are called that verify for a policy.
#[must_use]
pub fn verification_session_name(cluster: ClusterId, policy: &BackupPolicy) -> String {
    format!("verification by policy {} of cluster {cluster}", policy.mark())
}

/// What has become of a policy's verifications is not known, and not guessed.
#[must_use]
pub fn unreadable_verified(policy: &BackupPolicy, why: &dyn std::fmt::Display) -> String {
    format!(
        "the record of its verifications, {}, cannot be read: {why}; `amita backup policy set {} --resume` begins it anew",
        map::backup_verified_key(policy.id),
        policy.name
    )
}

/// A policy says nothing of verification, and no operator has said that it is to say so.
#[must_use]
pub fn lost_verify(policy: &BackupPolicy) -> String {
    let name = &policy.name;
    format!(
        "it was to, and the policy says nothing of that any more: a program that does not know of verification has written it; `amita backup policy set {name} --verify PATTERN` \
         has it verify again, and `--no-verify` says that it is not to"
    )
}

/// What has become of a policy is not known, and not guessed.
#[must_use]
pub fn unreadable_runs(policy: &BackupPolicy, why: &dyn std::fmt::Display) -> String {
    format!(
        "the record of its runs, {}, cannot be read: {why}; `amita backup policy set {} --resume` begins it anew",
        map::backup_runs_key(policy.id),
        policy.name
    )
}

#[cfg(test)]
mod tests;
