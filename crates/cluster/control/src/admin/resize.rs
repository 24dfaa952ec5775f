//! Volumes grow; [`super::shrink`] makes them smaller. `docs/decisions/019-resize.md` says why the size stands in the volume's own record.

use super::copy::none_copies;
use super::mirror::none_closed_to;
use super::quota::{Wanted, charge};
use super::shrink::{none_shrinks, without_mark};
use super::subsystem::{put, unchanged};
use super::volume::{check_size, find_volume};
use super::{AdminError, Result, get, tries};
use amita_metadata::{Call, Transact};
use amita_types::MirrorId;
use amita_types::map::{self, Snapshot, Volume};

/// Makes a volume larger. The owner goes on: its number of ownership does not change.
///
/// # Errors
/// No such volume, one that is to be a copy and is none yet, a size that cannot be, or that is smaller than what it has; the metadata is away or refuses.
pub fn resize_volume(meta: &dyn Transact, name: &str, size_bytes: u64) -> Result<Volume> {
    resize_for(meta, name, size_bytes, None)
}

/// The same by a runner of this mirror, which may make larger what is closed for it. Where it was being made smaller before it was closed, it is no more.
///
/// # Errors
/// As [`resize_volume`].
pub fn resize_mirrored(meta: &dyn Transact, name: &str, size_bytes: u64, mirror: MirrorId) -> Result<Volume> {
    resize_for(meta, name, size_bytes, Some(mirror))
}

fn resize_for(meta: &dyn Transact, name: &str, size_bytes: u64, runs: Option<MirrorId>) -> Result<Volume> {
    check_size(name, size_bytes)?;
    let key = map::volume_key(name);
    for _ in tries(meta) {
        let (old, revision) = find_volume(meta, name)?;
        none_copies(meta, &old)?;
        none_closed_to(&old, runs)?;
        if size_bytes < old.size_bytes {
            return Err(AdminError::BadSetting {
                what: "volume",
                name: name.to_owned(),
                why: format!(
                    "it has {} bytes, and {size_bytes} are fewer: what lies behind would be lost for good. Make what is in it \
                     (a file system) smaller first, have no host use it, and say --shrink",
                    old.size_bytes
                ),
            });
        }
        if runs.is_none() {
            none_shrinks(meta, name, old.id)?;
        }
        let new = Volume {
            size_bytes,
            ..old.clone()
        };
        if new == old {
            return Ok(new);
        }
        // The comparison keeps what a takeover writes meanwhile: generation and owner are those that were read.
        let mut call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &new)],
            otherwise: Vec::new(),
        };
        let wanted = Wanted {
            provisioned_bytes: size_bytes - old.size_bytes,
            ..Wanted::default()
        };
        if runs.is_some() {
            without_mark(meta, &map::about_key(old.id), &mut call)?;
        }
        grow_taking(meta, &new, &mut call)?;
        charge(meta, &old.pool, wanted)?.into_call(&mut call);
        if meta.txn(&call)?.succeeded {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// A snapshot that is being taken grows along: what is written behind the old end before the cut is part of it, and whoever reads,
/// clones, carries or backs it up looks no further than its record says.
fn grow_taking(meta: &dyn Transact, volume: &Volume, call: &mut Call) -> Result<()> {
    if !volume.lineage.taking {
        return Ok(());
    }
    let key = map::snapshot_key(volume.id, volume.lineage.number);
    if let Some((snapshot, revision)) = get::<Snapshot>(meta, &key)? {
        let snapshot = Snapshot {
            size_bytes: snapshot.size_bytes.max(volume.size_bytes),
            ..snapshot
        };
        call.compares.push(unchanged(&key, revision));
        call.then.push(put(key, &snapshot));
    }
    Ok(())
}
