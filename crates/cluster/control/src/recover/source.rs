//! What one store knows, as it is taken from its disk and, by way of a file, from other hosts.

use crate::records::Records;
use amita_types::{ClusterId, Epoch, Generation, GroupId, GroupIndex, PoolId, SnapshotId, StoreId, VolumeId};
use serde::{Deserialize, Serialize};

/// What one store knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub store: StoreId,
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
    /// Where it was looked at.
    pub path: String,
    /// Its copy of the metadata.
    pub copy: Option<Records>,
    /// The groups that it has served.
    pub groups: Vec<KnownGroup>,
    /// The volumes that it has served.
    pub volumes: Vec<KnownVolume>,
    /// The volumes that it knows to be deleted, for good: the first and the last number of each range.
    pub deleted: Vec<(VolumeId, VolumeId)>,
}

impl Source {
    /// Does the store know that this volume is deleted?
    #[must_use]
    pub fn knows_deleted(&self, volume: VolumeId) -> bool {
        let mut ranges = self.deleted.iter();
        ranges.any(|(first, last)| (*first..=*last).contains(&volume))
    }
}

/// A group, as a store knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownGroup {
    pub pool: PoolId,
    /// The index inside the pool.
    pub index: GroupIndex,
    /// The epoch that the store has adopted last.
    pub epoch: Epoch,
    /// Who was in sync then.
    pub in_sync: Vec<StoreId>,
}

impl KnownGroup {
    /// Pool and index.
    #[must_use]
    pub fn id(&self) -> GroupId {
        GroupId {
            pool: self.pool,
            index: self.index,
        }
    }
}

/// A volume, as a store knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownVolume {
    pub volume: VolumeId,
    /// The generation that the store has adopted last.
    pub generation: Generation,
    /// The last chunk that the store holds of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_chunk: Option<u64>,
    /// The newest snapshot that a chunk of it has met here.
    #[serde(default, skip_serializing_if = "is_head")]
    pub number: SnapshotId,
    /// A chunk of it was made from one of another volume: it is a clone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cloned: bool,
    /// The store holds a block of it that no cipher has made: it is not encrypted. Else that is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
}

fn is_head(number: &SnapshotId) -> bool {
    *number == SnapshotId::HEAD
}

/// What the stores of one host know: the file that `amita recover collect` writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The form of the file: [`Bundle::FORM`].
    pub form: String,
    pub stores: Vec<Packed>,
}

/// A [`Source`] in a file: the copy of the metadata as it stands on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    store: StoreId,
    cluster: ClusterId,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy: Option<String>,
    groups: Vec<KnownGroup>,
    volumes: Vec<KnownVolume>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deleted: Vec<(VolumeId, VolumeId)>,
}

impl Bundle {
    /// What [`Bundle::form`] says.
    pub const FORM: &str = "amita-recover 1";

    /// Of these stores.
    #[must_use]
    pub fn new(sources: &[Source]) -> Bundle {
        let stores = sources.iter().map(|source| Packed {
            store: source.store,
            cluster: source.cluster,
            path: source.path.clone(),
            copy: source
                .copy
                .as_ref()
                .map(|copy| String::from_utf8_lossy(&copy.encode()).into_owned()),
            groups: source.groups.clone(),
            volumes: source.volumes.clone(),
            deleted: source.deleted.clone(),
        });
        Bundle {
            form: Bundle::FORM.to_owned(),
            stores: stores.collect(),
        }
    }

    /// The stores.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn sources(self) -> Result<Vec<Source>, String> {
        if self.form != Bundle::FORM {
            return Err(format!("it is of the form {:?}, not {:?}", self.form, Bundle::FORM));
        }
        let unpack = |packed: Packed| {
            let copy = packed.copy.map(|text| Records::decode(text.as_bytes())).transpose()?;
            Ok(Source {
                store: packed.store,
                cluster: packed.cluster,
                path: packed.path,
                copy,
                groups: packed.groups,
                volumes: packed.volumes,
                deleted: packed.deleted,
            })
        };
        self.stores.into_iter().map(unpack).collect()
    }
}
