//! What is known of a volume beside what it needs to work.
//!
//! It stands in a record of its own. A node of an older version that owns the volume writes the volume's record anew at each
//! takeover, from the fields that it knows: what it does not know would be gone. A key that it does not know it leaves alone.

use super::lineage::check_labels;
use super::{PREFIX, is_false};
use crate::id::{Generation, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// `/amita/about/VOLUME_ID`: what is known of a volume. One of before has no such record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The volume.
    pub volume: VolumeId,
    /// When it was made, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    /// When the data key was made by which all of it was written anew, in seconds since 1970; none: it has the one that it was made with, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyed_at: Option<u64>,
    /// What the operator says of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// It is not to be deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub protected: bool,
    /// An image is copied into it, and is not there whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<Import>,
    /// It is made smaller, and some of what lies behind its new end may be gone. (In clusters of the version that knows snapshots only.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrink: Option<Shrink>,
}

/// An image that is being copied into a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// The image's format.
    pub format: String,
    /// What a machine would see of it, in bytes.
    pub image_bytes: u64,
    /// When its file was changed last, in nanoseconds since 1970; 0: it is no file.
    pub modified_ns: u64,
    /// Everything before is in the volume, and durable.
    pub done_bytes: u64,
    /// Why it has ended before its end; none: it is under way, or whoever was at it could not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
    /// Which attempt has it: a random number that each one puts here once the volume is open, and by which it knows that no other one has had the import
    /// since. None: nobody has yet, or a program that does not know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
}

/// The random number of one who is at an import.
pub type Attempt = Uuid;

/// A shrinking that is not at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrink {
    /// What the volume is to have.
    pub size_bytes: u64,
    /// The volume's generation meanwhile: where it is another one, others have had the volume since.
    pub generation: Generation,
}

impl Import {
    /// May a file be given again, to go on with it? What has come by a pipe or by the API, or was never changed, is known by nothing.
    #[must_use]
    pub fn is_of_a_file(&self) -> bool {
        self.modified_ns != 0
    }

    /// Is it of the same image, as far as that is known?
    #[must_use]
    pub fn is_of(&self, other: &Import) -> bool {
        self.is_of_a_file()
            && self.format == other.format
            && self.image_bytes == other.image_bytes
            && self.modified_ns == other.modified_ns
    }

    /// Is it what the other one was, but for how far it is: the same import, by the same attempt?
    #[must_use]
    pub fn is_as(&self, other: &Import) -> bool {
        let of = |import: &Import| (import.image_bytes, import.modified_ns, import.attempt);
        self.format == other.format && of(self) == of(other)
    }
}

impl About {
    /// Nothing is known.
    #[must_use]
    pub fn of(volume: VolumeId) -> About {
        About {
            volume,
            created_at: None,
            keyed_at: None,
            labels: BTreeMap::new(),
            protected: false,
            import: None,
            shrink: None,
        }
    }

    /// Can it be?
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        check_labels(&self.labels)
    }
}

/// The prefix of what is known of volumes.
#[must_use]
pub fn about_prefix() -> String {
    format!("{PREFIX}about/")
}
/// The key of what is known of a volume.
#[must_use]
pub fn about_key(volume: VolumeId) -> String {
    format!("{PREFIX}about/{volume}")
}

#[cfg(test)]
mod tests;
