//! Who uses the volumes of a mirror.

use super::super::deletion::clients_of;
use super::super::{AdminError, Result, node_name};
use super::point::mirrored_volume;
use amita_metadata::Transact;
use amita_types::map::Mirror;

/// Fails where hosts use a volume of a mirror, which get errors where it is demoted. The owner of each is asked, as before a deletion: it is its owner also
/// when nobody uses it, and lets go of it then.
///
/// # Errors
/// Hosts use one, or its owner does not say; a volume is gone; the metadata is away or refuses.
pub(super) fn none_uses(meta: &dyn Transact, mirror: &Mirror, pause: &mut dyn FnMut() -> bool) -> Result<()> {
    for volume in &mirror.volumes {
        let found = mirrored_volume(meta, mirror, volume.id)?;
        if let Some((owner, clients)) = clients_of(meta, &found.name, pause)? {
            return Err(AdminError::InUse {
                name: found.name,
                node: node_name(meta, owner)?,
                clients,
            });
        }
    }
    Ok(())
}
