//! What is known of a volume, and to whom it is served, goes to its new number where it gets one: by a revert, and by a move to another pool.

use super::subsystem::{put, unchanged};
use super::{Result, get};
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, About, Export, Tenancy};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Has the call take it over, if none of it has changed until then, and returns what is to go afterwards. `known` makes of what is known by the
/// old number what is known by the new one.
pub(super) fn carry(
    meta: &dyn Transact,
    call: &mut Call,
    old: VolumeId,
    new: VolumeId,
    known: impl FnOnce(About) -> About,
) -> Result<Vec<Op>> {
    let mut needless = vec![Op::Delete {
        key: map::move_key(old),
    }];
    let about = |found: About| known(About { volume: new, ..found });
    let is_known = take_over(
        meta,
        call,
        &mut needless,
        [map::about_key(old), map::about_key(new)],
        about,
    )?;
    if !is_known {
        // The target of a move has labels of its own.
        call.then.push(Op::Delete {
            key: map::about_key(new),
        });
    }
    let export = |found: Export| Export { volume: new, ..found };
    take_over(
        meta,
        call,
        &mut needless,
        [map::export_key(old), map::export_key(new)],
        export,
    )?;
    let tenancy = |found: Tenancy| Tenancy { volume: new, ..found };
    take_over(
        meta,
        call,
        &mut needless,
        [map::tenancy_key(old), map::tenancy_key(new)],
        tenancy,
    )?;
    Ok(needless)
}

/// Takes one record from a key to another one. Is there any?
fn take_over<T: Serialize + DeserializeOwned>(
    meta: &dyn Transact,
    call: &mut Call,
    needless: &mut Vec<Op>,
    [from, to]: [String; 2],
    renumber: impl FnOnce(T) -> T,
) -> Result<bool> {
    let found = get::<T>(meta, &from)?;
    let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
    call.compares.push(unchanged(&from, revision));
    let Some((record, _)) = found else {
        return Ok(false);
    };
    call.then.push(put(to, &renumber(record)));
    needless.push(Op::Delete { key: from });
    Ok(true)
}
