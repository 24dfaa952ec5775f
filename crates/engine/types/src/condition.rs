//! The records about the condition of a cluster: how full its stores are, and what hosts meet with.
//!
//! Nodes write them, one record a core, when something has changed that a person may want to know; the operator sets from
//! where on a store counts as near full, and as full. Nothing that must be right rests on them.

use crate::id::{NodeId, StoreId, VolumeId};
use crate::map::PREFIX;
use serde::{Deserialize, Serialize};

/// `/amita/condition/NODE_ID/CORE`: what a core of a node has to say of its stores, and of the volumes of its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The stores that it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreSpace>,
    /// What hosts have met with in the last half minute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
}

/// How full a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSpace {
    /// The store.
    pub store: StoreId,
    /// Bytes for data.
    pub capacity_bytes: u64,
    /// Of them, free.
    pub free_bytes: u64,
}

impl StoreSpace {
    /// Bytes that hold something.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.free_bytes)
    }

    /// Of a hundred, rounded down: a store is not full before it is.
    #[must_use]
    pub fn used_percent(&self) -> u8 {
        let used = u128::from(self.used_bytes()) * 100;
        let percent = used.checked_div(u128::from(self.capacity_bytes)).unwrap_or(0);
        u8::try_from(percent).unwrap_or(u8::MAX).min(100)
    }
}

/// What hosts meet with at a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The volume.
    pub volume: VolumeId,
    /// What fails.
    pub what: Failing,
    /// Why, in a sentence: of the last one that failed.
    pub why: String,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failing {
    /// Writes, and blocks that are unmapped.
    Writes,
    /// Reads.
    Reads,
    /// Opening the volume.
    Opening,
    /// Opening it, for want of its keys: only of volumes that are encrypted, which no program has that does not know this.
    Locked,
}

/// `/amita/alerts/failing/CHANNEL`: a channel of alerts that does not take what it is told. Whoever tells writes it, and it is there while
/// that is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingChannel {
    /// The channel's name.
    pub channel: String,
    /// Attempts that have failed one after another.
    pub attempts: u64,
    /// Why the last one did.
    pub why: String,
}

/// How much is to be done about a disk. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskLevel {
    /// It is to be watched, and another one to be ordered.
    Warn,
    /// It predicts its failure: its copies are to be moved away.
    Avoid,
    /// And they are being moved, or have been.
    Isolate,
}

/// `/amita/sick-disks/STORE_ID`: a store whose disk is not well. The node that is coordinator writes it, and it is there while that is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SickDisk {
    /// The store.
    pub store: StoreId,
    /// The disk beneath it, as its machine calls it, and what it calls itself.
    pub disk: String,
    /// What is to be done.
    pub level: DiskLevel,
    /// What was found of it: codes of findings of `amita inspect`, sorted.
    pub codes: Vec<String>,
    /// What was seen, in sentences with their figures.
    pub evidence: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// When this was written, in seconds since 1970.
    pub told_at: u64,
    /// From [`DiskLevel::Avoid`] on: what the cluster has decided, and why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decision: String,
    /// From [`DiskLevel::Avoid`] on: since which reading of the disk that was found at each of them, in seconds since 1970 by the clock of
    /// its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<u64>,
    /// When the cluster has begun to drain it: it does so once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_at: Option<u64>,
    /// Since when less was found than stands here, in seconds since 1970 by the clock of its node; it counts when it stays so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better_since: Option<u64>,
}

/// `/amita/thresholds`: from where on a store is near full, and full. Without the record the defaults hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thresholds {
    /// Percent of a store's capacity: time to add disks.
    pub near_full_percent: u8,
    /// Percent of a store's capacity: writes will fail soon.
    pub full_percent: u8,
    /// Percents of the capacity of a pool's stores together at which it is said, ascending.
    pub pool_percents: [u8; POOL_LEVELS],
}

/// At so many fill levels of a pool something is said.
pub const POOL_LEVELS: usize = 3;

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            near_full_percent: 85,
            full_percent: 95,
            pool_percents: [75, 85, 95],
        }
    }
}

/// What has got over a threshold is below it again only when it is more than so many percent under it, in whole percents: over 85 % it is
/// until it is at 82 %. A store that stands at a threshold does not make an event with each write.
pub const HYSTERESIS_PERCENT: u8 = 2;

/// The lowest threshold: nothing would ever be far enough below a lower one.
pub const LOWEST_PERCENT: u8 = HYSTERESIS_PERCENT + 1;

/// How full something is, as the operator has set what that means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fullness {
    /// There is space.
    #[default]
    Roomy,
    /// Time to add disks.
    NearFull,
    /// Writes will fail soon, or do.
    Full,
}

impl Thresholds {
    /// How full something is at so many percent.
    #[must_use]
    pub fn fullness(&self, percent: u8) -> Fullness {
        match percent {
            percent if percent >= self.full_percent => Fullness::Full,
            percent if percent >= self.near_full_percent => Fullness::NearFull,
            _ => Fullness::Roomy,
        }
    }

    /// The same, of something that was called `before` last: it gets better only more than [`HYSTERESIS_PERCENT`] below.
    #[must_use]
    pub fn fullness_after(&self, before: Fullness, percent: u8) -> Fullness {
        let now = self.fullness(percent);
        let lenient = self.fullness(percent.saturating_add(HYSTERESIS_PERCENT));
        if now >= before { now } else { lenient.min(before) }
    }

    /// How many of the levels of a pool so many percent are at or above.
    #[must_use]
    pub fn pool_level(&self, percent: u8) -> usize {
        self.pool_percents.iter().filter(|level| percent >= **level).count()
    }

    /// The same, of one that was at level `before` last: it goes down as a store does, only more than
    /// [`HYSTERESIS_PERCENT`] below.
    #[must_use]
    pub fn pool_level_after(&self, before: usize, percent: u8) -> usize {
        let now = self.pool_level(percent);
        let lenient = self.pool_level(percent.saturating_add(HYSTERESIS_PERCENT));
        if now >= before { now } else { lenient.min(before) }
    }
}

/// The key of the thresholds.
#[must_use]
pub fn thresholds_key() -> String {
    format!("{PREFIX}thresholds")
}

/// The prefix of the channels that fail.
#[must_use]
pub fn failing_channels_prefix() -> String {
    format!("{PREFIX}alerts/failing/")
}

/// The key of what is said of a channel that fails.
#[must_use]
pub fn failing_channel_key(channel: &str) -> String {
    format!("{}{channel}", failing_channels_prefix())
}

/// The prefix of disks that are not well.
#[must_use]
pub fn sick_disks_prefix() -> String {
    format!("{PREFIX}sick-disks/")
}

/// The key of what is said of the disk beneath a store.
#[must_use]
pub fn sick_disk_key(store: StoreId) -> String {
    format!("{}{store}", sick_disks_prefix())
}

/// The prefix of what nodes have to say.
#[must_use]
pub fn condition_prefix() -> String {
    format!("{PREFIX}condition/")
}

/// The key of what a core of a node has to say.
#[must_use]
pub fn condition_key(node: NodeId, core: usize) -> String {
    format!("{PREFIX}condition/{node}/{core}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_rounded_down_and_need_no_capacity() {
        let space = |capacity_bytes, free_bytes| StoreSpace {
            store: StoreId(1),
            capacity_bytes,
            free_bytes,
        };
        assert_eq!(space(1000, 151).used_percent(), 84);
        assert_eq!(space(1000, 150).used_percent(), 85);
        assert_eq!(space(0, 0).used_percent(), 0);
        assert_eq!(
            space(10, 20).used_percent(),
            0,
            "more free than there is: nothing is used"
        );
        assert_eq!(space(u64::MAX, 0).used_percent(), 100);
    }

    #[test]
    fn a_pool_at_a_level_does_not_flap() {
        let thresholds = Thresholds::default();
        let mut now = 0;
        let levels = [74, 75, 74, 73, 72, 86, 84, 83, 82, 95, 100, 92, 10].map(|percent| {
            now = thresholds.pool_level_after(now, percent);
            now
        });
        assert_eq!(levels, [0, 1, 1, 1, 0, 2, 2, 2, 1, 3, 3, 2, 0]);
    }

    /// Of each threshold that can be set, one percent above and below included: it ends at three percent under it, of stores and pools alike.
    #[test]
    fn stores_and_pools_come_down_at_the_same_percent() {
        for level in LOWEST_PERCENT..=98 {
            let thresholds = Thresholds {
                near_full_percent: level,
                full_percent: 100,
                pool_percents: [level, 99, 100],
            };
            for percent in 0..=level {
                let store = thresholds.fullness_after(Fullness::NearFull, percent) == Fullness::NearFull;
                let pool = thresholds.pool_level_after(1, percent) == 1;
                let stays = percent + HYSTERESIS_PERCENT >= level;
                assert_eq!((store, pool), (stays, stays), "{percent} % of {level} %");
            }
            assert_eq!(thresholds.pool_level_after(1, 0), 0, "{level} % is left again");
        }
    }

    #[test]
    fn a_store_at_a_threshold_does_not_flap() {
        let thresholds = Thresholds::default();
        let mut now = Fullness::Roomy;
        let mut seen = Vec::new();
        for percent in [84, 85, 84, 83, 85, 82, 90, 95, 94, 93, 92, 96, 50, 100, 84] {
            now = thresholds.fullness_after(now, percent);
            seen.push(now);
        }
        use Fullness::{Full, NearFull, Roomy};
        assert_eq!(
            seen,
            [
                Roomy, NearFull, NearFull, NearFull, NearFull, Roomy, NearFull, Full, Full, Full, NearFull, Full,
                Roomy, Full, NearFull
            ]
        );
    }
}
