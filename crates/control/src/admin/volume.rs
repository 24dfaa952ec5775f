//! Volumes: their names and sizes, and who may delete them.

use super::namespace::{remove_namespace, use_of};
use super::subsystem::{put, subsystems, unchanged, uses_guard};
use super::{AdminError, RACES, Result, check_name, get, list, next_number, pools, put_if};
use amita_cluster::map::{self, Pool, Volume};
use amita_cluster::{BLOCK_BYTES, Generation, VolumeId};
use amita_meta::{Call, Op, Transact};

/// The largest volume.
pub const MAX_VOLUME_BYTES: u64 = 1 << 56;

/// All volumes by name.
///
/// # Errors
/// As [`super::nodes`].
pub fn volumes(meta: &dyn Transact) -> Result<Vec<Volume>> {
    list(meta, &map::volume_key(""))
}

/// Makes a volume. It is thin: no space is taken before it is written.
///
/// # Errors
/// A bad name or size, no such pool, a name that is taken; the metadata is away or refuses.
pub fn create_volume(meta: &dyn Transact, name: &str, pool: &str, size_bytes: u64) -> Result<Volume> {
    check_name("volume", name)?;
    check_size(name, size_bytes)?;
    if get::<Pool>(meta, &map::pool_key(pool))?.is_none() {
        let there = pools(meta)?.into_iter().map(|pool| pool.name).collect();
        return Err(AdminError::NoSuch {
            what: "pool",
            name: pool.to_owned(),
            there,
        });
    }
    let key = map::volume_key(name);
    if get::<Volume>(meta, &key)?.is_some() {
        return Err(AdminError::Exists {
            what: "volume",
            name: name.to_owned(),
        });
    }
    let volume = Volume {
        id: VolumeId(next_number(meta, "volumes")?),
        name: name.to_owned(),
        pool: pool.to_owned(),
        size_bytes,
        generation: Generation(0),
        owner: None,
    };
    if put_if(meta, &key, 0, &volume)? {
        Ok(volume)
    } else {
        Err(AdminError::Exists {
            what: "volume",
            name: name.to_owned(),
        })
    }
}

pub(super) fn check_size(name: &str, size_bytes: u64) -> Result<()> {
    let bad = |why: String| {
        Err(AdminError::BadSetting {
            what: "volume",
            name: name.to_owned(),
            why,
        })
    };
    let block = u64::from(BLOCK_BYTES);
    if size_bytes == 0 || size_bytes > MAX_VOLUME_BYTES {
        return bad(format!(
            "a size of {size_bytes} bytes; choose {block} to {MAX_VOLUME_BYTES}"
        ));
    }
    if !size_bytes.is_multiple_of(block) {
        let down = size_bytes / block * block;
        return bad(format!(
            "a size of {size_bytes} bytes is no multiple of {block}; the nearest are {down} and {}",
            down + block
        ));
    }
    Ok(())
}

/// A volume by name.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn volume(meta: &dyn Transact, name: &str) -> Result<Volume> {
    find_volume(meta, name).map(|(volume, _)| volume)
}

pub(super) fn find_volume(meta: &dyn Transact, name: &str) -> Result<(Volume, u64)> {
    match get::<Volume>(meta, &map::volume_key(name))? {
        Some(found) => Ok(found),
        None => {
            let there = volumes(meta)?.into_iter().map(|volume| volume.name).collect();
            Err(AdminError::NoSuch {
                what: "volume",
                name: name.to_owned(),
                there,
            })
        }
    }
}

/// Deletes a volume's record, with what the operator wished for it and who had reserved it. A gateway that has it open finds
/// out with its next change of membership; its chunks on the stores stay until space reclamation knows of deleted volumes.
///
/// # Errors
/// There is none of that name, or it is a namespace or owned by a node that lives (and `force` is not given; with it the
/// namespace goes too); the metadata is away.
pub fn delete_volume(meta: &dyn Transact, name: &str, force: bool) -> Result<Volume> {
    let guard_key = map::counter_key("namespaces");
    for _ in 0..RACES {
        let (guard, guard_revision) = uses_guard(meta)?;
        let (volume, revision) = find_volume(meta, name)?;
        let subsystems = subsystems(meta)?;
        let used = use_of(&subsystems, volume.id);
        if let Some((subsystem, namespace)) = used.as_ref().filter(|_| !force) {
            return Err(AdminError::Attached {
                volume: name.to_owned(),
                subsystem: subsystem.clone(),
                nsid: namespace.nsid,
            });
        }
        if let Some(owner) = volume.owner.filter(|_| !force)
            && super::status::lives(meta)?.alive(owner)
        {
            return Err(AdminError::InUse {
                name: name.to_owned(),
                owner,
            });
        }
        if let Some((subsystem, namespace)) = used {
            // First the hosts lose the disk, then it goes.
            match remove_namespace(meta, &subsystem, namespace.nsid) {
                Ok(_) | Err(AdminError::NoSuch { .. }) => continue,
                Err(why) => return Err(why),
            }
        }
        let key = map::volume_key(name);
        let gone = [key.clone(), map::move_key(volume.id), map::reservation_key(volume.id)];
        let mut then: Vec<Op> = gone.into_iter().map(|key| Op::Delete { key }).collect();
        then.push(put(guard_key.clone(), &(guard + 1)));
        let call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&guard_key, guard_revision)],
            then,
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(volume);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}
