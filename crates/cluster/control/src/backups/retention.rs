//! Which of a policy's points are given up.
//!
//! The rules are those of snapshot policies ([`crate::policy::retention`]), asked for each volume: a point stays if any of its volumes has it kept. So
//! the newest of each volume stays whatever comes, also of one that the policy is for no more, and nothing goes because time passes.

use crate::policy::retention::choose;
use crate::policy::schedule::Zone;
use amita_types::map::{BackupPolicy, Keep};
use std::collections::{BTreeMap, BTreeSet};

/// A point, as the rules see it. `V` is whatever its volumes are known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point<V> {
    /// Its number: the newer one has the larger.
    pub number: u64,
    /// When it was taken, in seconds since 1970.
    pub taken_at: u64,
    /// Its volumes.
    pub volumes: Vec<V>,
}

/// The numbers of the points that no rule keeps, the oldest first.
///
/// # Errors
/// The rules cannot be, as those of which only a newer program knows what they keep; or there is no such time zone. Nothing is given up then.
pub fn given_up<V: Ord + Clone>(policy: &BackupPolicy, points: &[Point<V>]) -> Result<Vec<u64>, String> {
    let cannot_be = |why| format!("nothing is given up, for the policy's rules cannot be: {why}");
    policy.keep.check().map_err(cannot_be)?;
    let zone = Zone::named(&policy.zone).map_err(cannot_be)?;
    Ok(older(&policy.keep, &zone, points))
}

/// The same for rules that can be.
#[must_use]
pub fn older<V: Ord + Clone>(keep: &Keep, zone: &Zone, points: &[Point<V>]) -> Vec<u64> {
    let mut newest_first: Vec<&Point<V>> = points.iter().collect();
    newest_first.sort_by_key(|point| std::cmp::Reverse(point.number));
    let mut of_volumes: BTreeMap<&V, Vec<&Point<V>>> = BTreeMap::new();
    for point in &newest_first {
        let volumes: BTreeSet<&V> = point.volumes.iter().collect();
        for volume in volumes {
            of_volumes.entry(volume).or_default().push(point);
        }
    }
    let mut kept = BTreeSet::new();
    for of_volume in of_volumes.values() {
        let times: Vec<u64> = of_volume.iter().map(|point| point.taken_at).collect();
        let reasons = choose(keep, zone, &times);
        let stays = of_volume.iter().zip(&reasons).filter(|(_, rules)| !rules.is_empty());
        kept.extend(stays.map(|(point, _)| point.number));
    }
    let goes = newest_first.iter().rev().map(|point| point.number);
    goes.filter(|number| !kept.contains(number)).collect()
}
