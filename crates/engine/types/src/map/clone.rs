//! What the record of a clone says of where it comes from. The rules are of `docs/protocol.md`, "Snapshots and clones": S8 and S9.

use super::Volume;
use crate::id::{Generation, SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};

/// The most levels of clones: so many volumes may stand between one and the root that it comes from, the root included.
pub const MAX_LEVELS: usize = 64;

/// A snapshot that a volume was cloned from, directly or by those in between. The nearest one is pinned by the clone, and it pins the
/// next one itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Of which volume.
    pub volume: VolumeId,
    /// Its number there.
    pub number: SnapshotId,
    /// The generation whose owner has sealed it: what is claimed of a store by an older one says nothing of it (S6).
    pub generation: Generation,
}

/// May a volume come from these?
///
/// # Errors
/// What is wrong with them.
pub fn check_parents(volume: &Volume) -> Result<(), String> {
    let parents = &volume.parents;
    if parents.len() > MAX_LEVELS {
        return Err(format!("{} levels of clones; {MAX_LEVELS} are the most", parents.len()));
    }
    for (level, parent) in parents.iter().enumerate() {
        let before = parents[..level].iter().map(|parent| parent.volume);
        if parent.volume == volume.id || before.into_iter().any(|other| other == parent.volume) {
            return Err(format!("it comes from volume {} twice", parent.volume));
        }
        if parent.number == SnapshotId::HEAD {
            return Err(format!("it comes from no snapshot of volume {}", parent.volume));
        }
        if parent.generation > volume.generation {
            let (theirs, ours) = (parent.generation, volume.generation);
            return Err(format!(
                "its generation, {ours}, is older than that of what it comes from, {theirs}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
