//! What clients saw of each block, and whether it is linearizable.
//!
//! Every write carries a stamp of its own, so the check is simple and exact (Gibbons and Korach, "Testing shared
//! memories", 1997): operations of one stamp form a cluster, whose *zone* reaches from the first end to the last start
//! of its operations. If the end comes first the cluster must own all of that time: such zones may not overlap, and no
//! zone of the other kind may lie inside one.

use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Write(u64),
    Read(u64),
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub block: u64,
    pub invoked: u64,
    /// `None`: its client never learned of the end. Such a write may or may not have happened; such a read is nothing.
    pub completed: Option<u64>,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    stamp: u64,
    /// The first end.
    first_end: u64,
    /// The last start.
    last_start: u64,
}

pub fn check(steps: &[Step]) -> Result<(), String> {
    let mut blocks: Vec<u64> = steps.iter().map(|step| step.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    for block in blocks {
        let of_block: Vec<Step> = steps.iter().filter(|step| step.block == block).copied().collect();
        check_block(&of_block).map_err(|why| format!("block {block}: {why}"))?;
    }
    Ok(())
}

fn check_block(steps: &[Step]) -> Result<(), String> {
    let mut writes: FxHashMap<u64, (u64, Option<u64>)> = FxHashMap::default();
    // Stamp 0 is what was there before anything.
    writes.insert(0, (0, Some(0)));
    for step in steps {
        if let What::Write(stamp) = step.what {
            assert!(
                writes.insert(stamp, (step.invoked, step.completed)).is_none(),
                "stamps are unique"
            );
        }
    }
    let mut zones: FxHashMap<u64, Zone> = FxHashMap::default();
    for step in steps {
        let (What::Read(stamp), Some(completed)) = (step.what, step.completed) else {
            continue;
        };
        let Some(&(invoked, end)) = writes.get(&stamp) else {
            return Err(format!("stamp {stamp} was read and never written"));
        };
        if completed < invoked {
            return Err(format!("stamp {stamp} was read before it was written"));
        }
        let zone = zones.entry(stamp).or_insert(Zone {
            stamp,
            first_end: end.unwrap_or(u64::MAX),
            last_start: invoked,
        });
        zone.first_end = zone.first_end.min(completed);
        zone.last_start = zone.last_start.max(step.invoked);
    }
    for (&stamp, &(invoked, end)) in &writes {
        if let Some(end) = end {
            zones.entry(stamp).or_insert(Zone {
                stamp,
                first_end: end,
                last_start: invoked,
            });
        }
    }
    let (mut forward, backward): (Vec<Zone>, Vec<Zone>) =
        zones.into_values().partition(|zone| zone.first_end < zone.last_start);
    forward.sort_by_key(|zone| zone.first_end);
    for pair in forward.windows(2) {
        if pair[1].first_end < pair[0].last_start {
            return Err(format!(
                "stamps {} and {} were each seen before and after the other",
                pair[0].stamp, pair[1].stamp
            ));
        }
    }
    for inner in &backward {
        let around = forward
            .iter()
            .find(|outer| outer.first_end < inner.last_start && inner.first_end < outer.last_start);
        if let Some(outer) = around {
            return Err(format!(
                "stamp {} was seen before and after stamp {} was written",
                outer.stamp, inner.stamp
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(invoked: u64, completed: u64, what: What) -> Step {
        Step {
            block: 1,
            invoked,
            completed: Some(completed),
            what,
        }
    }

    #[test]
    fn right_histories_pass() {
        let overlapping = [
            step(1, 10, What::Write(1)),
            step(2, 9, What::Write(2)),
            step(3, 4, What::Read(2)),
            step(5, 6, What::Read(1)),
            step(11, 12, What::Read(1)),
        ];
        assert_eq!(check(&overlapping), Ok(()));
        let lost = [
            Step {
                completed: None,
                ..step(1, 0, What::Write(1))
            },
            step(2, 3, What::Read(0)),
        ];
        assert_eq!(check(&lost), Ok(()));
        let late = [
            Step {
                completed: None,
                ..step(1, 0, What::Write(1))
            },
            step(2, 3, What::Read(0)),
            step(4, 5, What::Read(1)),
        ];
        assert_eq!(check(&late), Ok(()));
    }

    #[test]
    fn wrong_histories_fail() {
        let lost = [step(1, 2, What::Write(1)), step(3, 4, What::Read(0))];
        let back = [
            step(1, 20, What::Write(1)),
            step(3, 4, What::Read(1)),
            step(5, 6, What::Read(0)),
        ];
        let never = [step(1, 2, What::Read(7))];
        let early = [step(5, 6, What::Write(1)), step(1, 2, What::Read(1))];
        let overwritten = [
            step(1, 2, What::Write(1)),
            step(3, 4, What::Write(2)),
            step(5, 6, What::Read(1)),
        ];
        let torn = [
            Step {
                completed: None,
                ..step(1, 0, What::Write(1))
            },
            step(2, 3, What::Read(1)),
            step(4, 5, What::Write(2)),
            step(6, 7, What::Read(1)),
        ];
        for wrong in [&lost[..], &back, &never, &early, &overwritten, &torn] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}
