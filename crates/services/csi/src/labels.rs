//! What the driver writes on volumes and snapshots (decision 086, "Names and ids"): it is all that it knows of them.

use crate::api::{Snapshot, Volume};
use crate::id::{self, SnapshotId, VolumeId};
use crate::parameters::LUKS_BYTES;
use crate::topology::Reach;
use std::collections::BTreeMap;

/// Whose they are: the driver's name.
pub const DRIVER: &str = "csi.amita.io/driver";
/// The name that was asked for.
pub const NAME: &str = "csi.amita.io/name";
/// Of a snapshot that was taken with others: the name that was asked for them.
pub const GROUP: &str = "csi.amita.io/group";
/// What it began as.
pub const SOURCE: &str = "csi.amita.io/source";
/// How many bytes its pods were to see.
pub const SIZE: &str = "csi.amita.io/size";
/// What becomes of it.
pub const ON_DELETE: &str = "csi.amita.io/on-delete";
/// It is published as its snapshot of the name [`READ_ONLY_SNAPSHOT`].
pub const READ_ONLY: &str = "csi.amita.io/read-only";
/// From where it may be used, if not from everywhere (`topology::Reach`).
pub const ACCESSIBLE_FROM: &str = "csi.amita.io/accessible-from";
/// The node that has made it for one of its pods, and deletes it.
pub const INLINE: &str = "csi.amita.io/inline";
/// Where that node has it mounted: the first digits of a sum of the path, for that may be longer than a label.
pub const INLINE_AT: &str = "csi.amita.io/inline-at";
/// The tenant whose it was made, which the API does not show of a volume.
pub const TENANT: &str = "csi.amita.io/tenant";
/// Its text is encrypted at its node, by a passphrase of a Secret: what lies on it is not what its pods see. It says how many bytes it has for that beside those of [`SIZE`]; where it says
/// another number, it was made when they were among those.
pub const BY_SECRET: &str = "csi.amita.io/encrypted-by-secret";
/// It is being deleted; or was, and has snapshots still.
pub const DELETED: &str = "csi.amita.io/deleted";
/// What a volume is published as that is only read.
pub const READ_ONLY_SNAPSHOT: &str = "csi-read-only";

/// The labels of something.
pub type Labels = BTreeMap<String, String>;

/// One of them.
#[must_use]
pub fn get<'a>(labels: &'a Labels, key: &str) -> &'a str {
    labels.get(key).map_or("", String::as_str)
}

/// The id of a volume of this driver: it stays where it is renamed; none: it is somebody else's.
#[must_use]
pub fn volume_id(driver: &str, volume: &Volume) -> Option<VolumeId> {
    let name = volume
        .labels
        .get(NAME)
        .filter(|_| get(&volume.labels, DRIVER) == driver)?;
    Some(VolumeId {
        number: volume.id,
        name: id::volume_name(name),
    })
}

/// The id of a snapshot of this driver; none: it is somebody else's, or one that the driver has taken for itself.
#[must_use]
pub fn snapshot_id(driver: &str, volume: &VolumeId, snapshot: &Snapshot) -> Option<SnapshotId> {
    let Snapshot { labels, name, .. } = snapshot;
    let is_known = labels.contains_key(NAME) || labels.contains_key(GROUP);
    let is_own = get(labels, DRIVER) == driver && is_known;
    is_own.then(|| SnapshotId {
        volume: volume.clone(),
        name: name.clone(),
    })
}

/// Was it deleted, and is kept for its snapshots?
#[must_use]
pub fn is_deleted(volume: &Volume) -> bool {
    volume.labels.contains_key(DELETED)
}

/// Is it encrypted at its node?
#[must_use]
pub fn is_by_secret(volume: &Volume) -> bool {
    volume.labels.contains_key(BY_SECRET)
}

/// Bytes of it that its pods do not see: the head of LUKS, which lies before the others.
#[must_use]
pub fn head_bytes(volume: &Volume) -> u64 {
    match is_by_secret(volume) {
        true => LUKS_BYTES,
        false => 0,
    }
}

/// What its pods see of so many bytes of it, or of a snapshot of it.
#[must_use]
pub fn seen_of(volume: &Volume, bytes: u64) -> u64 {
    bytes.saturating_sub(head_bytes(volume))
}

/// How many bytes its pods see.
#[must_use]
pub fn seen(volume: &Volume) -> u64 {
    seen_of(volume, volume.size_bytes)
}

/// Was it made with its head beside its size?
#[must_use]
pub fn has_head_beside(volume: &Volume) -> bool {
    get(&volume.labels, BY_SECRET) == LUKS_BYTES.to_string()
}

/// Is it only read?
#[must_use]
pub fn is_read_only(volume: &Volume) -> bool {
    volume.labels.contains_key(READ_ONLY)
}

/// From where it may be used.
#[must_use]
pub fn reach(volume: &Volume) -> Reach {
    Reach::read(get(&volume.labels, ACCESSIBLE_FROM)).unwrap_or_default()
}
