//! What an attempt finds in the repository and in the metadata, as functions of what they say.

use super::super::super::base::Subject;
use super::super::super::prune;
use super::super::super::sessions::OfPolicy;
use amita_backup::State;
use amita_control::backups::{is_own, retention};
use amita_metadata::KeyValue;
use amita_terminal::error::{Failure, Result};
use amita_types::ClusterId;
use amita_types::map::{self, BackupPolicy};
use std::collections::BTreeSet;

/// What there is of a run already, of some volumes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Had {
    /// The newest point that has one of them.
    pub point: Option<u64>,
    /// Those of the volumes that are in any point of the run.
    volumes: BTreeSet<[u8; 16]>,
}

impl Had {
    /// By the run's points, which are called so; another cluster's are not this run's.
    pub fn of(state: &State, name: &str, cluster: ClusterId, subjects: &[Subject]) -> Had {
        let own = cluster.0.to_be_bytes();
        let wanted: BTreeSet<[u8; 16]> = subjects.iter().map(|subject| subject.identity.volume).collect();
        let mut had = Had::default();
        for (number, point) in state.points() {
            if point.name != name || point.volumes.iter().any(|volume| volume.identity.cluster != own) {
                continue;
            }
            for volume in point.volumes.iter().map(|volume| volume.identity.volume) {
                if wanted.contains(&volume) {
                    had.point = Some(*number);
                    had.volumes.insert(volume);
                }
            }
        }
        had
    }

    pub fn has(&self, subject: &Subject) -> bool {
        self.volumes.contains(&subject.identity.volume)
    }
}

/// The policy's own points that no rule keeps.
///
/// # Errors
/// The rules cannot be.
pub fn given_up(policy: &BackupPolicy, cluster: ClusterId, state: &State) -> Result<Vec<u64>> {
    let own = cluster.0.to_be_bytes();
    let points: Vec<_> = prune::points(state)
        .filter(|(name, point)| is_own(policy, name) && point.volumes.iter().all(|(cluster, _)| *cluster == own))
        .map(|(_, point)| point)
        .collect();
    retention::given_up(policy, &points).map_err(Failure::new)
}

/// Is nobody at what a policy's session is for, and does nobody come to this repository for it again, who would end what was begun? By all records of backups.
pub fn is_left(records: &[KeyValue], repository: &str, session: &OfPolicy) -> bool {
    let is_there = |key: &str| records.iter().any(|found| found.key == key);
    let runner = match session.verifies {
        true => map::backup_verifier_key(session.id),
        false => map::backup_runner_key(session.id),
    };
    if is_there(&runner) {
        return false;
    }
    let prefix = map::backup_policies_prefix();
    let policies = records.iter().filter(|found| found.key.starts_with(&prefix));
    let mut known = policies.filter_map(|found| found.json::<BackupPolicy>().ok());
    match known.find(|policy| policy.id == session.id) {
        Some(policy) => {
            policy.paused || policy.repository != repository || (session.verifies && policy.verify.is_none())
        }
        // One of that name that cannot be read may be it.
        None => {
            let own = map::backup_policy_key(&session.name);
            let found = records.iter().find(|found| found.key == own);
            found.is_none_or(|found| found.json::<BackupPolicy>().is_ok())
        }
    }
}
