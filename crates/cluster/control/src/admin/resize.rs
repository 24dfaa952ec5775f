//! Volumes grow; [`super::shrink`] makes them smaller. `docs/decisions/019-resize.md` says why the size stands in the volume's own record.

use super::copy::none_copies;
use super::mirror::none_closed_to;
use super::quota::{Wanted, charge};
use super::shrink::{none_shrinks, without_mark};
use super::subsystem::{put, unchanged};
use super::volume::{check_size, find_volume};
use super::{AdminError, Result, get, tries};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, Mirror, Snapshot, Volume};

/// Makes a volume larger. The owner goes on: its number of ownership does not change.
///
/// # Errors
/// No such volume, one that is to be a copy and is none yet, a size that cannot be, or that is smaller than what it has; the metadata is away or refuses.
pub fn resize_volume(meta: &dyn Transact, name: &str, size_bytes: u64) -> Result<Volume> {
    let resized = resize_for(meta, name, size_bytes, None)?;
    // No claim is compared, so none is lost.
    resized.ok_or_else(|| AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

/// The same by whoever holds the claim of a mirror, which may make larger what is closed for it. Where it was being made smaller before it was closed, it
/// is no more. None: the claim is lost. Whoever has it now may have made the volume smaller, as a later point has it.
///
/// # Errors
/// As [`resize_volume`]; it is not closed for this mirror.
pub fn resize_mirrored(
    meta: &dyn Transact,
    name: &str,
    size_bytes: u64,
    (mirror, claim): (&Mirror, u64),
) -> Result<Option<Volume>> {
    resize_for(meta, name, size_bytes, Some((mirror, claim)))
}

fn resize_for(
    meta: &dyn Transact,
    name: &str,
    size_bytes: u64,
    runs: Option<(&Mirror, u64)>,
) -> Result<Option<Volume>> {
    check_size(name, size_bytes)?;
    let key = map::volume_key(name);
    for _ in tries(meta) {
        let (old, revision) = find_volume(meta, name)?;
        none_copies(meta, &old)?;
        none_closed_to(&old, runs.map(|(mirror, _)| mirror.id))?;
        if let Some((mirror, _)) = runs
            && old.closed.is_none()
        {
            let mirror = &mirror.name;
            return Err(AdminError::BadSetting {
                what: "volume",
                name: name.to_owned(),
                why: format!(
                    "it is open to hosts, and a pass of mirror {mirror} makes it larger only where it is closed"
                ),
            });
        }
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
            return Ok(Some(new));
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
        if let Some((mirror, claim)) = runs {
            let key = map::mirror_runner_key(&mirror.name);
            call.compares.push(unchanged(&key, claim));
            call.otherwise.push(Op::Get { key });
            without_mark(meta, &map::about_key(old.id), &mut call)?;
        }
        grow_taking(meta, &new, &mut call)?;
        charge(meta, &old.pool, wanted)?.into_call(&mut call);
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Some(new));
        }
        if let Some((_, claim)) = runs
            && reply.value(0).map(|found| found.mod_revision) != Some(claim)
        {
            return Ok(None);
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
