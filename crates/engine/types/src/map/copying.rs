//! A volume that is made a copy of another one, or of a snapshot of it (decision 080).

use super::{PREFIX, Paused, is_false};
use crate::id::{Generation, SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};

/// `/amita/copies/to/VOLUME_ID`: the volume of this number, the *target*, is to be a copy, and is not one yet. Nobody uses it
/// before it is [`whole`](Copying::whole).
///
/// It is made what snapshots of the source are, one *pass* after the other. Whoever is at it holds the key [`copier_key`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copying {
    /// The target.
    pub volume: VolumeId,
    /// Its name.
    pub name: String,
    /// The number by which hosts know the source.
    pub source: VolumeId,
    /// What was to be copied, as it was asked for: VOLUME, or VOLUME@SNAPSHOT.
    pub of: String,
    /// The name of the snapshot that it is to be in the end.
    pub snapshot: String,
    /// That snapshot is taken for the copy, and goes with its end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub takes: bool,
    /// The older snapshots are copied, too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub snapshots: bool,
    /// At most so many bytes a second are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
    /// When it was asked for, in seconds since 1970.
    pub asked_at: u64,
    /// It is taken back: whoever is at it removes the target, the snapshot that was taken, and this record.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancelled: bool,
    /// The target is a copy, and used as any volume. What is left is the snapshot that was taken for it: whoever is at it removes that, and
    /// this record. It is never [`cancelled`](Self::cancelled) as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole: bool,
    /// It stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Why it does not go on; it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
    /// The volume itself moves: when the target is what it is, that takes its place. None: it is a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
    /// How far it is.
    #[serde(default)]
    pub place: CopyPlace,
}

/// A volume that moves to another pool, or is written anew in its own. When it has moved, the record is [`whole`](Copying::whole).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// The data that the volume has before it has moved, by number.
    pub data: VolumeId,
    /// Snapshots that were taken for the move so far.
    #[serde(default)]
    pub taken: u32,
    /// Last passes that were not made in time: its owner let go.
    #[serde(default)]
    pub late: u32,
    /// It stays in its pool, and is written anew there: by another data key, or encrypted from then on, or in the clear.
    #[serde(default, skip_serializing_if = "is_false")]
    pub same_pool: bool,
    /// Its hosts write no faster than that, so that passes get shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowed: Option<Slowed>,
}

/// Hosts of a volume that moves are slowed: a limit of the volume beside its own (S16). It holds while whoever has set it is at the move still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slowed {
    /// Bytes a second that are written, and as many operations as blocks of those.
    pub bytes_per_s: u64,
    /// The revision of the key ([`copier_key`]) of who has set it.
    pub by: u64,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyPlace {
    /// The number of the snapshot that the copy is to be in the end; none: it is not known yet, or not taken.
    pub last: Option<SnapshotId>,
    /// The target is, or was before the pass that is under way, what the source's snapshot of this number is; 0: it was never written.
    pub base: SnapshotId,
    /// The snapshot of the pass that is under way; 0: none was begun.
    pub pass: SnapshotId,
    /// Everything before is the pass's snapshot's, and durable.
    pub pass_bytes: u64,
    /// What the target holds is not known: a pass was left that had no base, or others have had it. So the next pass writes all of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mixed: bool,
    /// The target's, by the last opening of whoever is, or was, at it: noted when that alone is seen to have raised it, before anything is written.
    /// Where it is more, others may have had the target.
    pub generation: Generation,
    /// Bytes that passes which are done, or were left, have gone through.
    pub passed_bytes: u64,
    /// Bytes that all passes will have gone through, as far as that is known.
    pub total_bytes: u64,
    /// Bytes of data that were written to the target.
    pub written_bytes: u64,
}

impl Copying {
    /// Is somebody to be at it now?
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.cancelled || self.whole || self.paused.is_none()
    }
}

impl CopyPlace {
    /// The target is to be opened, and is of this generation. Where others may have had it, nothing is known of what it holds.
    pub fn found(&mut self, generation: Generation) {
        if generation > self.generation {
            (self.mixed, self.pass_bytes) = (true, 0);
        }
    }

    /// Bytes that were gone through.
    #[must_use]
    pub fn done_bytes(&self) -> u64 {
        self.passed_bytes.saturating_add(self.pass_bytes).min(self.total_bytes)
    }
}

/// The name that the target of a move has before it takes the volume's place: none that anybody gives begins so.
#[must_use]
pub fn moving_name(volume: VolumeId) -> String {
    format!("~{volume}")
}
/// Is it the name of a target of a move?
#[must_use]
pub fn is_moving_name(name: &str) -> bool {
    name.starts_with('~')
}
/// The prefix of copies, and of who is at them.
#[must_use]
pub fn copies_prefix() -> String {
    format!("{PREFIX}copies/")
}
/// The prefix of copies alone.
#[must_use]
pub fn copying_prefix() -> String {
    format!("{}to/", copies_prefix())
}
/// The key of the copy that a volume is to be.
#[must_use]
pub fn copying_key(volume: VolumeId) -> String {
    format!("{}{volume}", copying_prefix())
}
/// `/amita/copies/by/VOLUME_ID`: the name of the node that is at this copy. The key lies on a lease of that node.
#[must_use]
pub fn copier_key(volume: VolumeId) -> String {
    format!("{}by/{volume}", copies_prefix())
}

#[cfg(test)]
mod tests;
