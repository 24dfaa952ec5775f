//! The reservation of a volume, as its owner keeps it.

use super::{AdminError, Result, get, remove, volume};
use amita_metadata::Transact;
use amita_types::map;
use serde::de::DeserializeOwned;

/// The reservation of a volume; none: nobody has registered. Its form is the storage service's.
///
/// # Errors
/// No such volume, the metadata is away, or the record is not readable.
pub fn reservation<T: DeserializeOwned>(meta: &dyn Transact, name: &str) -> Result<Option<T>> {
    let volume = volume(meta, name)?;
    Ok(get(meta, &map::reservation_key(volume.id))?.map(|(record, _)| record))
}

/// Removes the reservation of a volume and all registrations. Only for a volume that nobody has open: its owner has its own
/// idea of the reservation, and would go on by that.
///
/// # Errors
/// No such volume; one that is owned by a node that lives (and `force` is not given); the metadata is away or refuses.
pub fn clear_reservation(meta: &dyn Transact, name: &str, force: bool) -> Result<bool> {
    let found = volume(meta, name)?;
    if let Some(owner) = found.owner.filter(|_| !force)
        && super::status::lives(meta)?.alive(owner)
    {
        return Err(AdminError::IsOpen {
            name: name.to_owned(),
            node: super::node_name(meta, owner)?,
        });
    }
    remove(meta, &map::reservation_key(found.id))
}
