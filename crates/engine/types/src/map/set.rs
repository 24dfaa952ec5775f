//! The records of sets of snapshots: of several volumes, at one moment (S4 of `docs/protocol.md`, "Snapshots and clones").

use super::PREFIX;
use super::lineage::{SnapshotWish, check_labels, check_name};
use crate::id::{SetId, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most volumes of a set.
pub const MAX_SET_VOLUMES: usize = 1_024;

/// `/amita/sets/SET_ID`: snapshots of several volumes are wanted, at one moment. The owners of the volumes take them, and the owner
/// of the first one leads. The record decides: where it is ready each of the snapshots is one, and else none is. It goes when all of
/// them are sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSet {
    /// Its number. Given once and never reused.
    pub id: SetId,
    /// What each of its snapshots is called.
    pub name: String,
    /// When it was asked for, in seconds since 1970.
    pub asked_at: u64,
    /// What the operator says of each of its snapshots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Of which volumes, in order of their numbers.
    pub volumes: Vec<SetVolume>,
    /// How far it has come.
    pub state: SetState,
}

/// A volume of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetVolume {
    /// Its number.
    pub id: VolumeId,
    /// Its name when the set was asked for.
    pub name: String,
}

/// How far a set has come. From `taking` it becomes one of the others, and that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetState {
    /// Nothing is decided.
    Taking,
    /// All owners have held until all had adopted: each of its snapshots is one, and never changes any more.
    Ready,
    /// None of its snapshots is one.
    Void(Voided),
}

/// Why a set has come to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voided {
    /// For the operator.
    pub why: String,
    /// The same, asked for anew, may well be taken.
    pub again: bool,
}

impl SnapshotSet {
    /// Can it be?
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_labels(&self.labels)?;
        if self.volumes.is_empty() || self.volumes.len() > MAX_SET_VOLUMES {
            return Err(format!(
                "{} volumes; a set has at least one and at most {MAX_SET_VOLUMES}",
                self.volumes.len()
            ));
        }
        let pairs = self.volumes.windows(2);
        match pairs.into_iter().find(|pair| pair[0].id >= pair[1].id) {
            Some(pair) => Err(format!("volume {:?} is named twice, or out of order", pair[1].name)),
            None => Ok(()),
        }
    }

    /// The volume whose owner leads.
    #[must_use]
    pub fn first(&self) -> Option<VolumeId> {
        self.volumes.first().map(|volume| volume.id)
    }

    /// Is this volume in it?
    #[must_use]
    pub fn has(&self, volume: VolumeId) -> bool {
        self.volumes.binary_search_by_key(&volume, |found| found.id).is_ok()
    }

    /// The wish for the snapshot of one of its volumes, whose name is this by now.
    #[must_use]
    pub fn wish(&self, volume: &str) -> SnapshotWish {
        SnapshotWish {
            volume: volume.to_owned(),
            name: self.name.clone(),
            asked_at: self.asked_at,
            labels: self.labels.clone(),
            refused: None,
            hold_ms: None,
        }
    }

    /// The same, come to nothing.
    #[must_use]
    pub fn voided(&self, why: impl Into<String>, again: bool) -> SnapshotSet {
        SnapshotSet {
            state: SetState::Void(Voided { why: why.into(), again }),
            ..self.clone()
        }
    }
}

/// The prefix of all sets.
#[must_use]
pub fn sets_prefix() -> String {
    format!("{PREFIX}sets/")
}
/// The key of a set.
#[must_use]
pub fn set_key(set: SetId) -> String {
    format!("{}{set}", sets_prefix())
}

#[cfg(test)]
mod tests;
