//! The records of a volume's snapshots. The numbers are of `docs/protocol.md`, "Snapshots and clones": S1, S2 and S7.

use super::{PREFIX, is_false};
use crate::id::{Generation, SetId, SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The finalized cluster version from which on snapshots are taken: a program that does not know the fields of [`Lineage`]
/// would drop them from a volume's record (S17).
pub const SNAPSHOTS_SINCE: u32 = 2;
/// The most bytes of a snapshot's name.
pub const MAX_SNAPSHOT_NAME: usize = 128;
/// The most labels of a snapshot, and the most bytes of a label's key, or of its value.
pub const MAX_LABELS: usize = 32;
/// The most snapshots of a volume that are marks.
pub const MAX_MARKS: usize = 64;
/// See [`MAX_LABELS`].
pub const MAX_LABEL_BYTES: usize = 256;

/// The label of a snapshot that was taken for a backup: which one.
pub const BACKUP_LABEL: &str = "amita-backup";
/// The label of a mirror's snapshots: its number.
pub const MIRROR_LABEL: &str = "amita:mirror";

/// What a volume's record says of its snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The newest snapshot's number, which every write carries; none was ever given: 0. It never goes down, and a number is
    /// never given again (S1).
    #[serde(default, skip_serializing_if = "is_head")]
    pub number: SnapshotId,
    /// The newest one that is sealed: it never changes any more (S7).
    #[serde(default, skip_serializing_if = "is_head")]
    pub sealed: SnapshotId,
    /// The owner is about to seal `number`. A raise of the generation takes this back: then the number is void (S2).
    #[serde(default, skip_serializing_if = "is_false")]
    pub taking: bool,
    /// `number` is taken for this set, whose record decides (S4): where that is ready the number is sealed, though it does not say so
    /// here yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<SetId>,
    /// By whose number its chunks are hashed to their groups (D8), where no parent says so: it was a clone, or is one of a volume that was.
    #[serde(default, rename = "place", skip_serializing_if = "Option::is_none")]
    pub root: Option<VolumeId>,
    /// It was reverted: the number of the first data that it had, by which hosts know it and under which the names of its snapshots stand
    /// ([`Volume::host`](super::Volume::host)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<VolumeId>,
    /// It is former data: what the volume of this number for hosts was before it was reverted. It has a hidden name, nobody writes to
    /// it, and its snapshots are that volume's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_of: Option<VolumeId>,
    /// It moves to another pool: the number of the volume that is made what it is, and is to take its place (decision 080).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<VolumeId>,
    /// The owner of this generation holds: since before `number` was sealed it has begun nothing of hosts, and begins nothing before it has
    /// taken this back. A raise of the generation takes it back as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,
    /// Whoever had it under this generation has ended all that was under way, and reads nothing of it any more: its read leases are
    /// given back (R4), though nobody was asked. A raise of the generation takes this back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub given_back: bool,
}

impl Snapshot {
    /// Do stores keep only its mark?
    #[must_use]
    pub fn is_only_marked(&self) -> bool {
        self.mark && self.clones == 0
    }
}

impl Lineage {
    /// Can it be?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let Lineage {
            number,
            sealed,
            taking,
            set,
            held,
            ..
        } = self;
        if sealed > number || (*taking && sealed == number) {
            return Err(format!("snapshot {} is sealed of {}", sealed.0, number.0));
        }
        if *held && (sealed != number || *taking) {
            return Err(format!(
                "its owner holds behind snapshot {}, and that is not sealed",
                number.0
            ));
        }
        match set {
            Some(set) if !taking => Err(format!("snapshot {} is of set {set} and is not being taken", number.0)),
            _ => Ok(()),
        }
    }

    /// `number` is what it is about to be no longer: it is sealed, or void.
    pub fn end(&mut self, sealed: bool) {
        if sealed {
            self.sealed = self.number;
        }
        (self.taking, self.set) = (false, None);
    }

    /// Another owner raises the generation: what the one before has said of itself is void.
    pub fn raise(&mut self) {
        (self.held, self.given_back) = (false, false);
    }
}

/// `/amita/snapshots/VOLUME_ID/NUMBER`: a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Of which volume.
    pub volume: VolumeId,
    /// Its number.
    pub number: SnapshotId,
    /// Its name, unique among those of the volume.
    pub name: String,
    /// The volume's size then, in bytes.
    pub size_bytes: u64,
    /// When it was asked for, in seconds since 1970.
    pub taken_at: u64,
    /// What the operator says of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// It is not to be deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub protected: bool,
    /// So many volumes were cloned from it and are there, deleted ones that are kept included: while there are any it stays (S9).
    #[serde(default, skip_serializing_if = "is_none")]
    pub clones: u64,
    /// It was taken with snapshots of other volumes, at one moment (S4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<SetId>,
    /// It was deleted, and its mark was kept: it cannot be read any more, and what was changed since it can be told still. Where volumes were
    /// cloned from it, it stays for them as it is until the last one goes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mark: bool,
    /// It was deleted while volumes that were cloned from it were there: it has no name, and goes when the last of them does (S9).
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// How far it has come.
    pub state: SnapshotState,
}

/// How far a snapshot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotState {
    /// The owner of this generation is taking it. It is void where the volume's record does not say so as well.
    Taking(Generation),
    /// It was sealed by the owner of this generation, and never changes any more.
    Sealed(Generation),
}

/// `/amita/snapshot-names/HOST_ID/NAME`: which snapshot has the name. The key has the number by which hosts know the volume, so that a name
/// is unique among the snapshots of all that the volume ever was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotName {
    /// Its number.
    pub number: SnapshotId,
    /// The data that it is a snapshot of; none: the volume's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<VolumeId>,
}

impl SnapshotName {
    /// The name of a snapshot of this data of a volume that hosts know by that number.
    #[must_use]
    pub fn new(host: VolumeId, data: VolumeId, number: SnapshotId) -> SnapshotName {
        SnapshotName {
            number,
            data: (data != host).then_some(data),
        }
    }

    /// The data that it is a snapshot of.
    #[must_use]
    pub fn data(&self, host: VolumeId) -> VolumeId {
        self.data.unwrap_or(host)
    }
}

/// `/amita/taking/VOLUME_ID`: the operator wants a snapshot. The volume's owner takes it and removes the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotWish {
    /// The volume's name.
    pub volume: String,
    /// The snapshot's.
    pub name: String,
    /// When it was asked for, in seconds since 1970.
    pub asked_at: u64,
    /// What the operator says of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Why it cannot be taken: whoever waits tells the operator, and removes the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The owner holds from before it takes the snapshot, for so many milliseconds at most ([`Lineage::held`]): the last pass of a move is made
    /// meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<u32>,
}

impl SnapshotWish {
    /// May a snapshot have this name and these labels?
    ///
    /// # Errors
    /// What is wrong with them, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_labels(&self.labels)
    }
}

/// May something have these labels?
///
/// # Errors
/// What is wrong with them, and what would be right.
pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    if labels.len() > MAX_LABELS {
        return Err(format!("{} labels; {MAX_LABELS} are the most", labels.len()));
    }
    for (key, value) in labels {
        if key.is_empty() || key.len() > MAX_LABEL_BYTES || value.len() > MAX_LABEL_BYTES {
            return Err(format!("label {key:?}: key and value may have {MAX_LABEL_BYTES} bytes"));
        }
        if key.chars().chain(value.chars()).any(char::is_control) {
            return Err(format!("label {key:?} has a control character"));
        }
    }
    Ok(())
}

/// May a snapshot be called so?
///
/// # Errors
/// What is wrong with the name, and what would be right.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_good = |character: char| character.is_ascii_alphanumeric() || "._:+-".contains(character);
    let begins = name.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if !begins || name.len() > MAX_SNAPSHOT_NAME || !name.chars().all(is_good) {
        return Err(format!(
            "{name:?} cannot be a snapshot's name: up to {MAX_SNAPSHOT_NAME} letters, digits, and . _ : + - behind the first, which \
             is a letter or a digit"
        ));
    }
    Ok(())
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn is_head(number: &SnapshotId) -> bool {
    *number == SnapshotId::HEAD
}

/// The prefix of a volume's snapshots.
#[must_use]
pub fn snapshots_prefix(volume: VolumeId) -> String {
    format!("{PREFIX}snapshots/{volume}/")
}
/// The key of a snapshot: the number has ten digits, so that keys sort as numbers.
#[must_use]
pub fn snapshot_key(volume: VolumeId, number: SnapshotId) -> String {
    format!("{}{:010}", snapshots_prefix(volume), number.0)
}
/// The prefix of the names of the snapshots of a volume that hosts know by this number.
#[must_use]
pub fn snapshot_names_prefix(host: VolumeId) -> String {
    format!("{PREFIX}snapshot-names/{host}/")
}
/// The key of a name of one of its snapshots.
#[must_use]
pub fn snapshot_name_key(host: VolumeId, name: &str) -> String {
    format!("{}{name}", snapshot_names_prefix(host))
}
/// The prefix of the operator's wishes for snapshots.
#[must_use]
pub fn snapshot_wishes_prefix() -> String {
    format!("{PREFIX}taking/")
}
/// The key of the operator's wish for a snapshot of a volume.
#[must_use]
pub fn snapshot_wish_key(volume: VolumeId) -> String {
    format!("{}{volume}", snapshot_wishes_prefix())
}

#[cfg(test)]
mod tests;
