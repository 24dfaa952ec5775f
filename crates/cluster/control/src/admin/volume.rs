//! Volumes: their names and sizes.

use super::keys::{DataKeys, NewKey, Whose};
use super::quota::{Wanted, charge};
use super::subsystem::{put, unchanged};
use super::{AdminError, Result, check_name, cluster, get, list, names_under, parse, tries};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, Pool, Volume};
use amita_types::{BLOCK_BYTES, VolumeId};

/// The largest volume.
pub const MAX_VOLUME_BYTES: u64 = 1 << 56;

/// The most volumes of a cluster, with those that are deleted and kept: their records go into the copy of the metadata that each store
/// has.
pub const MAX_VOLUMES: usize = 65_536;

/// All volumes by name, but for those that are deleted.
///
/// # Errors
/// As [`super::nodes`].
pub fn volumes(meta: &dyn Transact) -> Result<Vec<Volume>> {
    let mut all = with_deleted(meta)?;
    all.retain(|volume| !map::is_hidden(&volume.name));
    Ok(all)
}

/// All volumes by name, also those that are deleted and kept for a time.
///
/// # Errors
/// As [`super::nodes`].
pub fn with_deleted(meta: &dyn Transact) -> Result<Vec<Volume>> {
    list(meta, &map::volume_key(""))
}

/// These volumes, and behind each what it was before it was reverted.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn with_former(meta: &dyn Transact, volumes: &[Volume]) -> Result<Vec<Volume>> {
    let mut all = Vec::with_capacity(volumes.len());
    for volume in volumes {
        all.push(volume.clone());
        if volume.former.is_empty() {
            continue;
        }
        let keys = volume
            .former
            .iter()
            .map(|data| map::volume_key(&map::hidden_name(*data)));
        let reply = meta.txn(&Call {
            then: keys.map(|key| Op::Get { key }).collect(),
            ..Call::default()
        })?;
        // One that went a moment ago had nothing that anybody needs.
        for found in (0..volume.former.len()).filter_map(|index| reply.value(index)) {
            all.push(parse(found)?);
        }
    }
    Ok(all)
}

/// Makes a volume. It is thin: no space is taken before it is written.
///
/// # Errors
/// A bad name or size, no such pool, a name that is taken; the metadata is away or refuses.
pub fn create_volume(meta: &dyn Transact, name: &str, pool: &str, size_bytes: u64) -> Result<Volume> {
    make_volume(meta, name, pool, size_bytes, None)
}

/// The same, with what is known of it from the start; its number is told then.
///
/// # Errors
/// As [`create_volume`]; or labels that cannot be.
pub fn make_volume(
    meta: &dyn Transact,
    name: &str,
    pool: &str,
    size_bytes: u64,
    about: Option<&map::About>,
) -> Result<Volume> {
    make_volume_of(meta, None, (name, pool, size_bytes), about, None)
}

/// The same, of this tenant from the start, encrypted where `keys` are given: its data key was never wrapped by anything but the tenant's key, where he has one.
///
/// # Errors
/// As [`make_volume`]; or no tenant is called so; no key can be made.
pub fn make_volume_of(
    meta: &dyn Transact,
    tenant: Option<&str>,
    (name, pool, size_bytes): (&str, &str, u64),
    about: Option<&map::About>,
    keys: Option<&dyn DataKeys>,
) -> Result<Volume> {
    make(
        meta,
        name,
        (pool, Wanted::volume(size_bytes, 0)),
        size_bytes,
        about,
        (keys, &|| Whose::named(tenant)),
        &|_| Call::default(),
    )
}

/// The same, encrypted from its first write on, with a key that these make.
///
/// # Errors
/// As [`make_volume`]; or a cluster whose version does not know of it; no key can be made.
pub fn make_encrypted_volume(
    meta: &dyn Transact,
    name: &str,
    pool: &str,
    size_bytes: u64,
    about: Option<&map::About>,
    keys: &dyn DataKeys,
) -> Result<Volume> {
    make_volume_of(meta, None, (name, pool, size_bytes), about, Some(keys))
}

/// For whom something is made, and by what its key is made, if it has one: whose that is is asked for each attempt.
pub(super) type For<'a> = (Option<&'a dyn DataKeys>, &'a dyn Fn() -> Result<Whose>);

/// The same, encrypted where these are given, and with it what `more` says, in one transaction.
pub(super) fn make_volume_and(
    meta: &dyn Transact,
    name: &str,
    pool: &str,
    size_bytes: u64,
    about: Option<&map::About>,
    keys: For<'_>,
    more: &dyn Fn(&mut Volume) -> Vec<Op>,
) -> Result<Volume> {
    let pool = (pool, Wanted::volume(size_bytes, 0));
    make(meta, name, pool, size_bytes, about, keys, &|volume| Call {
        then: more(volume),
        ..Call::default()
    })
}

/// Makes the target of a move, whose name says its number, and with it what `with` says; none: what that compares has changed. So much of the pool
/// is asked for by it.
pub(super) fn make_target(
    meta: &dyn Transact,
    (pool, wanted): (&str, Wanted),
    size_bytes: u64,
    about: &map::About,
    keys: For<'_>,
    with: &dyn Fn(&Volume) -> Call,
) -> Result<Option<Volume>> {
    match make(meta, TARGET, (pool, wanted), size_bytes, Some(about), keys, &|volume| {
        with(volume)
    }) {
        Ok(made) => Ok(Some(made)),
        Err(AdminError::Changed | AdminError::TooManyRaces { .. }) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The same as [`make_volume_and`], if these hold; else it is [`AdminError::Changed`].
#[allow(clippy::too_many_arguments)]
pub(super) fn make_volume_held(
    meta: &dyn Transact,
    name: &str,
    pool: &str,
    size_bytes: u64,
    about: Option<&map::About>,
    keys: Option<&dyn DataKeys>,
    held: &[Compare],
    more: &dyn Fn(&mut Volume) -> Vec<Op>,
) -> Result<Volume> {
    let pool = (pool, Wanted::volume(size_bytes, 0));
    make(
        meta,
        name,
        pool,
        size_bytes,
        about,
        (keys, &|| Whose::named(None)),
        &|volume| Call {
            compares: held.to_vec(),
            then: more(volume),
            ..Call::default()
        },
    )
}

/// Stands for the name of the target of a move: no name that anybody gives is so.
const TARGET: &str = "~";

fn make(
    meta: &dyn Transact,
    name: &str,
    (pool, wanted): (&str, Wanted),
    size_bytes: u64,
    about: Option<&map::About>,
    (keys, whose): For<'_>,
    more: &dyn Fn(&mut Volume) -> Call,
) -> Result<Volume> {
    let is_target = name == TARGET;
    if !is_target {
        check_name("volume", name)?;
    }
    check_size(name, size_bytes)?;
    let bad = |why: String| AdminError::BadSetting {
        what: "volume",
        name: name.to_owned(),
        why,
    };
    about.map_or(Ok(()), map::About::check).map_err(bad)?;
    pool_revision(meta, pool)?;
    if get::<Volume>(meta, &map::volume_key(name))?.is_some() {
        return Err(AdminError::Exists {
            what: "volume",
            name: name.to_owned(),
        });
    }
    believable(meta)?;
    let counter = map::counter_key("volumes");
    for _ in tries(meta) {
        // Whoever deletes a pool sees to it that no volume comes into it meanwhile.
        let pool_stays = unchanged(&map::pool_key(pool), pool_revision(meta, pool)?);
        let whose = whose()?;
        let charge = charge(meta, pool, wanted)?;
        // Last of all that is read, as all others who make a volume write it: what is read behind it is time in which they are faster.
        let (last, revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
        has_room(meta, last)?;
        let id = VolumeId(last + 1);
        let name = if is_target {
            map::moving_name(id)
        } else {
            name.to_owned()
        };
        let key = map::volume_key(&name);
        let new_key = match keys {
            Some(keys) => {
                let key = NewKey::make(meta, Some(keys), (id, id), cluster(meta)?.version, &whose);
                Some(key.map_err(|why| why.of(&name))?)
            }
            None => None,
        };
        let mut volume = Volume {
            keys: new_key.as_ref().map(NewKey::ring),
            ..Volume::new(id, &name, pool, size_bytes)
        };
        // Both at once: a number that was given out, and whose volume is not there, is a deleted volume's (R13). The number is
        // written last, so that nobody who is told one by one sees it before its volume; and nobody sees that before what it is to be.
        let Call {
            mut compares, mut then, ..
        } = more(&mut volume);
        let held = compares.clone();
        compares.extend(whose.held().iter().cloned());
        // Whose the target of a move is, is said by what it is to be; that goes to it with the name.
        then.extend(whose.given(id).filter(|_| !is_target));
        compares.extend([unchanged(&counter, revision), unchanged(&key, 0), pool_stays]);
        then.push(put(key.clone(), &volume));
        then.extend(about.map(|about| {
            let about = map::About {
                volume: volume.id,
                ..about.clone()
            };
            put(map::about_key(volume.id), &about)
        }));
        then.push(put(counter.clone(), &volume.id.0));
        let mut call = Call {
            compares,
            then,
            otherwise: Vec::new(),
        };
        if let Some(key) = new_key {
            key.into_call(&mut call);
        }
        charge.into_call(&mut call);
        if meta.txn(&call)?.succeeded {
            return Ok(volume);
        }
        if get::<Volume>(meta, &key)?.is_some() {
            return Err(AdminError::Exists { what: "volume", name });
        }
        // What was looked at before is not looked at again here.
        let looked_at = Call {
            compares: held,
            then: Vec::new(),
            otherwise: Vec::new(),
        };
        if !looked_at.compares.is_empty() && !meta.txn(&looked_at)?.succeeded {
            return Err(AdminError::Changed);
        }
    }
    Err(AdminError::TooManyRaces { key: counter })
}

/// The revision of a pool's record.
fn pool_revision(meta: &dyn Transact, pool: &str) -> Result<u64> {
    match get::<Pool>(meta, &map::pool_key(pool))? {
        Some((_, revision)) => Ok(revision),
        None => Err(AdminError::NoSuch {
            what: "pool",
            name: pool.to_owned(),
            there: names_under(meta, &map::pool_key(""))?,
        }),
    }
}

/// So many records of volumes there are, whether they can be read or not.
fn there_are(meta: &dyn Transact) -> Result<usize> {
    Ok(meta.txn(&Call::prefix(map::volume_key("")))?.values(0).len())
}

/// May there be one more volume, when the last one was given this number?
pub(super) fn has_room(meta: &dyn Transact, last: u64) -> Result<()> {
    // There are no more than were ever made: mostly nothing need be counted.
    if last < MAX_VOLUMES as u64 || there_are(meta)? < MAX_VOLUMES {
        return Ok(());
    }
    Err(AdminError::Full {
        what: "cluster",
        name: super::cluster(meta)?.id.to_string(),
        of: "volumes",
        most: MAX_VOLUMES,
    })
}

/// While somebody suspects the metadata of being older than what stores know, its numbers may be those of other volumes, and what
/// it says is there or not there may be wrong.
pub(super) fn believable(meta: &dyn Transact) -> Result<()> {
    let suspects: Vec<map::Suspect> = list(meta, &map::suspect_prefix())?;
    match suspects.into_iter().next() {
        Some(suspect) => Err(AdminError::Suspected { why: suspect.why }),
        None => Ok(()),
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

/// The same, also one that is deleted and kept for a time, by the name that it has meanwhile.
pub(super) fn find_kept(meta: &dyn Transact, name: &str) -> Result<(Volume, u64)> {
    get::<Volume>(meta, &map::volume_key(name))?.ok_or_else(|| AdminError::NoSuch {
        what: "volume",
        name: name.to_owned(),
        there: Vec::new(),
    })
}

pub(super) fn find_volume(meta: &dyn Transact, name: &str) -> Result<(Volume, u64)> {
    match get::<Volume>(meta, &map::volume_key(name))?.filter(|_| !map::is_hidden(name)) {
        Some(found) => Ok(found),
        None => {
            let there = names_under(meta, &map::volume_key(""))?;
            Err(AdminError::NoSuch {
                what: "volume",
                name: name.to_owned(),
                there,
            })
        }
    }
}
