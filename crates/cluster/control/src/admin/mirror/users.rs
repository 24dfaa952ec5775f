//! Who uses the volumes of a mirror.

use super::super::{Result, node_name, status};
use super::point::mirrored_volume;
use amita_metadata::Transact;
use amita_types::map::Mirror;

/// The volumes of a mirror that a gateway has open which lives, each with that gateway's name: hosts that use them get errors where the mirror is
/// demoted.
///
/// # Errors
/// A volume is gone; the metadata is away.
pub fn mirror_users(meta: &dyn Transact, mirror: &Mirror) -> Result<Vec<(String, String)>> {
    let lives = status::lives(meta)?;
    let mut users = Vec::new();
    for volume in &mirror.volumes {
        let found = mirrored_volume(meta, mirror, volume.id)?;
        if let Some(owner) = found.owner.filter(|owner| lives.alive(*owner)) {
            users.push((found.name, node_name(meta, owner)?));
        }
    }
    Ok(users)
}
