//! Whether a node's clock agrees with those of others, as far as policies of backups go.
//!
//! A clock that is ahead finds runs due that are not: it would deal with times before they come, and those whose clocks are right would count anew
//! from where they are, and so on without an end. So a node rests whose clock is ahead, by more than [`MOST_BACK`], of what another node has noted
//! *just now*: it has seen that record become another one, from one look to the next. Which of the two is right it cannot know; the one that is behind
//! makes the runs, each once, and the other one tells.
//!
//! It rests until another node notes something by a clock that agrees, its own clock is set, or [`RESTS`] have passed since it last saw that they do
//! not agree: whoever is alone backs up in the end.

use crate::policy::runner::MOST_BACK;
use amita_types::map::{BackupRuns, PolicyId};
use std::collections::BTreeMap;
use std::time::Duration;

/// What has become another record since a look that was so long ago was written by and by.
const FRESH: Duration = Duration::from_secs(300);
/// A clock that goes by so much more, or less, than time passes has been set.
const SET: Duration = Duration::from_secs(60);
/// For so long a node rests behind the last word by which its clock is ahead.
pub const RESTS: Duration = Duration::from_secs(6 * 3600);

/// What time it is: by the clock, since 1970, and by what no one sets, since whenever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// By the clock.
    pub clock: Duration,
    /// How much time has passed.
    pub passed: Duration,
}

/// What is known of other nodes' clocks.
#[derive(Debug, Default)]
pub struct Clocks {
    looked: Option<Time>,
    /// Revisions of records.
    seen: BTreeMap<PolicyId, u64>,
    /// When it was last seen that this node's clock is ahead.
    ahead: Option<Duration>,
}

impl Clocks {
    /// Looks at the records that there are: of each the policy, the revision, and what it says. The node by whose word this node's clock is ahead,
    /// and by how many seconds; none: nothing new is known.
    pub fn look<'a>(
        &mut self,
        node: &str,
        records: impl IntoIterator<Item = (PolicyId, u64, &'a BackupRuns)>,
        now: Time,
    ) -> Option<(String, u64)> {
        let before = self.looked.replace(now);
        let (passed, was_set) = before.map_or((Duration::MAX, false), |before| {
            let passed = now.passed.saturating_sub(before.passed);
            let should = before.clock.saturating_add(passed);
            (passed, now.clock.abs_diff(should) > SET)
        });
        if was_set {
            self.ahead = None;
        }
        let is_fresh = passed <= FRESH && !was_set;
        let mut seen = BTreeMap::new();
        let mut found = None;
        for (policy, revision, runs) in records {
            let is_new = is_fresh && self.seen.get(&policy) != Some(&revision);
            seen.insert(policy, revision);
            if !is_new || runs.noted_at == 0 || runs.noted_by.is_empty() || runs.noted_by == node {
                continue;
            }
            let ahead = now.clock.as_secs().saturating_sub(runs.noted_at);
            if ahead > MOST_BACK {
                self.ahead = Some(now.passed);
                found = Some((runs.noted_by.clone(), ahead));
            } else if found.is_none() {
                self.ahead = None;
            }
        }
        self.seen = seen;
        found
    }

    /// Does this node begin nothing, because its clock is ahead?
    #[must_use]
    pub fn rests(&self, passed: Duration) -> bool {
        self.ahead.is_some_and(|since| passed.saturating_sub(since) < RESTS)
    }
}
