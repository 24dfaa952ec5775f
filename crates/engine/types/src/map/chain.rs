//! A volume that was reverted, and what it was before. The rule is S13 of `docs/protocol.md`, "Snapshots and clones".
//!
//! A revert puts a clone of a snapshot in the place of the volume: under its name, with a number of its own. What the volume was
//! until then is its *former data*, under a hidden name. All that it ever was is its *chain*; the snapshots of the whole chain are
//! the volume's. Each data of a chain counts its snapshots on from where the one before has ended, so that a number is of one snapshot
//! of the volume, and the larger one is the newer.

use super::{SnapshotName, Volume, is_hidden};
use crate::id::VolumeId;

/// The most former data of a volume.
pub const MAX_FORMER: usize = 64;

impl Volume {
    /// The number by which hosts know the volume, whatever data it has: that of its first.
    #[must_use]
    pub fn host(&self) -> VolumeId {
        let lineage = &self.lineage;
        lineage.host.or(lineage.former_of).unwrap_or(self.id)
    }

    /// All that the volume is and was, by number, the newest first.
    pub fn chain(&self) -> impl Iterator<Item = VolumeId> {
        std::iter::once(self.id).chain(self.former.iter().copied())
    }

    /// Is this data the volume's, or was it?
    #[must_use]
    pub fn has_data(&self, data: VolumeId) -> bool {
        self.chain().any(|own| own == data)
    }

    /// The data that a snapshot of this name is of. Where what the name says is not the volume's any more, it has moved to another pool since,
    /// and the name is about to be written anew: its snapshots are, by the same numbers, those of what it is now (decision 080).
    #[must_use]
    pub fn data_of(&self, name: &SnapshotName) -> VolumeId {
        let data = name.data(self.host());
        if self.has_data(data) { data } else { self.id }
    }

    /// Is it what another one was before that was reverted?
    #[must_use]
    pub fn is_former(&self) -> bool {
        self.lineage.former_of.is_some()
    }

    /// Was it deleted, and is it kept?
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        is_hidden(&self.name) && !self.is_former()
    }
}

/// May a volume have been these?
///
/// # Errors
/// What is wrong with them.
pub fn check_chain(volume: &Volume) -> Result<(), String> {
    let former = &volume.former;
    if former.len() > MAX_FORMER {
        return Err(format!("{} times reverted; {MAX_FORMER} are the most", former.len()));
    }
    if volume.is_former() && !(is_hidden(&volume.name) && former.is_empty() && volume.lineage.host.is_none()) {
        return Err("it is former data, and has a name or former data itself".to_owned());
    }
    if !former.is_empty() && volume.lineage.host.is_none() {
        return Err("it has former data, and no number for hosts".to_owned());
    }
    let twice = former.iter().enumerate();
    let mut twice = twice.filter(|(index, data)| **data == volume.id || former[..*index].contains(data));
    match twice.next() {
        Some((_, data)) => Err(format!("it was number {data} twice")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
