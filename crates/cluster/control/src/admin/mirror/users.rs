//! Who uses the volumes of a mirror.

use super::super::deletion::clients_of;
use super::super::lun::{Besides, is_lun, lun_use};
use super::super::namespace::use_of;
use super::super::subsystem::all_subsystems;
use super::super::target::all_targets;
use super::super::{AdminError, Result, node_name};
use super::point::mirrored_volume;
use amita_metadata::Transact;
use amita_types::SnapshotId;
use amita_types::map::{Mirror, Volume};

/// Fails where hosts use a volume of a mirror, which get errors where it is demoted: first where one may be used by NVMe or iSCSI, for who does is known by
/// no count of its owner's. Then the owner of each is asked, as before a deletion: it is its owner also when nobody uses it, and lets go of it then.
///
/// # Errors
/// Hosts use one, or one is a namespace or a LUN, or a record that nobody can read may make it one; its owner does not say; a volume is gone; the metadata is
/// away or refuses.
pub(super) fn none_uses(meta: &dyn Transact, mirror: &Mirror, pause: &mut dyn FnMut() -> bool) -> Result<()> {
    let volumes = mirror.volumes.iter();
    let volumes: Result<Vec<Volume>> = volumes.map(|volume| mirrored_volume(meta, mirror, volume.id)).collect();
    let volumes = volumes?;
    // All of them: an owner that is asked lets go of what it takes for unused.
    none_is_offered(meta, &volumes)?;
    for found in volumes {
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

/// Is none of them, as it is now, a namespace or a LUN? Their snapshots are read on behind a demotion.
fn none_is_offered(meta: &dyn Transact, volumes: &[Volume]) -> Result<()> {
    let (subsystems, targets) = (all_subsystems(meta)?, all_targets(meta)?);
    for volume in volumes {
        let name = &volume.name;
        if let Some((subsystem, namespace)) = use_of(&subsystems, name, volume.id, SnapshotId::HEAD)? {
            return Err(AdminError::Attached {
                volume: name.clone(),
                subsystem,
                nsid: namespace.nsid,
            });
        }
        if let Some((target, lun)) = lun_use(&targets, name, volume.id, SnapshotId::HEAD)? {
            return Err(is_lun(name, target, lun, Besides::Force));
        }
    }
    Ok(())
}
