//! What a person says of what no store knows.

use super::RecoverError;
use amita_types::VolumeId;
use std::collections::BTreeSet;

/// Of volumes that no copy of the records names, and of which no store tells whether they were encrypted; and of those that were to be copies,
/// and may have been whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// They were not encrypted: they are opened as they lie.
    pub plain: Vec<VolumeId>,
    /// They were, or nobody knows: their numbers and their chunks are kept, and they are not opened.
    pub closed: Vec<VolumeId>,
    /// They were whole copies, and are used as they lie.
    pub whole: Vec<VolumeId>,
    /// They were not: they are copied again, from the beginning, and what they hold is written over.
    pub unfinished: Vec<VolumeId>,
}

impl Word {
    /// Is one word said of each of these copies, and of no other?
    pub(super) fn decides_copies(&self, asked: &BTreeSet<VolumeId>) -> Result<(), RecoverError> {
        if let Some(&volume) = self.whole.iter().find(|id| self.unfinished.contains(id)) {
            return Err(RecoverError::BothWordsOfCopy { volume });
        }
        let mut words = self.whole.iter().chain(&self.unfinished);
        if let Some(&volume) = words.find(|id| !asked.contains(id)) {
            return Err(RecoverError::NoUndecidedCopy { volume });
        }
        let has_word = |id: &VolumeId| self.whole.contains(id) || self.unfinished.contains(id);
        let volumes: Vec<VolumeId> = asked.iter().copied().filter(|id| !has_word(id)).collect();
        match volumes.is_empty() {
            true => Ok(()),
            false => Err(RecoverError::MayBeWhole { volumes }),
        }
    }

    /// Is one word said of each of these, and of no other?
    pub(super) fn decides(&self, asked: &BTreeSet<VolumeId>) -> Result<(), RecoverError> {
        if let Some(&volume) = self.plain.iter().find(|id| self.closed.contains(id)) {
            return Err(RecoverError::BothWords { volume });
        }
        let mut words = self.plain.iter().chain(&self.closed);
        if let Some(&volume) = words.find(|id| !asked.contains(id)) {
            return Err(RecoverError::NotUndecided { volume });
        }
        let has_word = |id: &VolumeId| self.plain.contains(id) || self.closed.contains(id);
        let volumes: Vec<VolumeId> = asked.iter().copied().filter(|id| !has_word(id)).collect();
        match volumes.is_empty() {
            true => Ok(()),
            false => Err(RecoverError::MayBeEncrypted { volumes }),
        }
    }
}

pub(super) fn numbers(volumes: &[VolumeId]) -> String {
    let numbers: Vec<String> = volumes.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}
