//! Which of a policy's snapshots of a volume are kept, and why.
//!
//! As restic and borg do it. Each rule is asked by itself, and what any of them keeps stays:
//!
//! * `last` keeps so many of the newest;
//! * `hourly`, `daily`, ... keep the newest of each of the newest so many periods *in which there is one*: periods without any do not
//!   count, so nothing goes because time passes and nothing is taken;
//! * where there are fewer periods than such a rule keeps, it keeps the oldest of all as well.
//!
//! Newer is what has the larger number, and not what has the later time: a clock that was wrong for a while does not make an old
//! snapshot the newest.

use super::schedule::{Periods, Zone};
use amita_types::map::{Keep, Policy, Snapshot};
use amita_types::{SnapshotId, VolumeId};
use serde::Serialize;

/// What becomes of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Of which of its volume's data it is one.
    #[serde(skip)]
    pub data: VolumeId,
    /// Its number.
    pub number: SnapshotId,
    /// Its name.
    pub name: String,
    /// When it was taken, in seconds since 1970.
    pub taken_at: u64,
    /// The rules that keep it; none do: it goes.
    pub kept_by: Vec<&'static str>,
    /// No rule keeps it, and it is protected from being deleted: it stays.
    pub protected: bool,
    /// No rule keeps it, and so many volumes were cloned from it: it is deleted, and stays hidden for as long as they do.
    pub clones: u64,
}

impl Verdict {
    /// Is it to be deleted?
    #[must_use]
    pub fn goes(&self) -> bool {
        self.kept_by.is_empty() && !self.is_left()
    }

    /// Does it stay though no rule keeps it?
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.protected
    }
}

/// Has the policy made this snapshot?
#[must_use]
pub fn is_own(policy: &Policy, snapshot: &Snapshot) -> bool {
    let label = snapshot.labels.get(amita_types::map::POLICY_LABEL);
    label.is_some_and(|label| *label == policy.mark())
}

/// Judges those of a volume's snapshots that the policy has made, the newest first. Of others nothing is said.
///
/// # Errors
/// There is no such time zone; or the rules cannot be, as those of which only a newer program knows what they keep.
pub fn judge(policy: &Policy, snapshots: &[Snapshot]) -> Result<Vec<Verdict>, String> {
    let cannot_be = |why| format!("nothing is deleted, for the policy's rules cannot be: {why}");
    policy.keep.check().map_err(cannot_be)?;
    let zone = Zone::named(&policy.zone)?;
    let mut own: Vec<&Snapshot> = snapshots.iter().filter(|found| is_own(policy, found)).collect();
    own.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.number));
    let times: Vec<u64> = own.iter().map(|snapshot| snapshot.taken_at).collect();
    let reasons = choose(&policy.keep, &zone, &times);
    let judged = own.into_iter().zip(reasons);
    Ok(judged
        .map(|(snapshot, kept_by)| Verdict {
            data: snapshot.volume,
            number: snapshot.number,
            name: snapshot.name.clone(),
            taken_at: snapshot.taken_at,
            protected: snapshot.protected && kept_by.is_empty(),
            clones: if kept_by.is_empty() { snapshot.clones } else { 0 },
            kept_by,
        })
        .collect())
}

/// The rules that keep each of them. `times`: when they were taken, in seconds since 1970, the newest snapshot's first.
#[must_use]
pub fn choose(keep: &Keep, zone: &Zone, times: &[u64]) -> Vec<Vec<&'static str>> {
    let mut kept: Vec<Vec<&'static str>> = vec![Vec::new(); times.len()];
    let periods: Vec<Option<Periods>> = times.iter().map(|time| zone.periods(*time)).collect();
    for reasons in kept.iter_mut().take(keep.last as usize) {
        reasons.push("last");
    }
    each_period(keep.hourly, "hourly", &periods, &mut kept, |periods| periods.hour);
    each_period(keep.daily, "daily", &periods, &mut kept, |periods| periods.day);
    each_period(keep.weekly, "weekly", &periods, &mut kept, |periods| periods.week);
    each_period(keep.monthly, "monthly", &periods, &mut kept, |periods| periods.month);
    each_period(keep.yearly, "yearly", &periods, &mut kept, |periods| periods.year);
    kept
}

/// Keeps the newest of each of the newest `most` periods.
fn each_period<P: Ord>(
    most: u32,
    rule: &'static str,
    periods: &[Option<Periods>],
    kept: &mut [Vec<&'static str>],
    of: impl Fn(&Periods) -> P,
) {
    let mut left = most;
    let mut seen: std::collections::BTreeSet<Option<P>> = std::collections::BTreeSet::new();
    let oldest = periods.len().wrapping_sub(1);
    for (index, found) in periods.iter().enumerate() {
        if left == 0 {
            return;
        }
        let is_first = seen.insert(found.as_ref().map(&of));
        if is_first || index == oldest {
            kept[index].push(rule);
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
