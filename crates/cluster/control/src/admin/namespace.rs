//! Namespaces: volumes under a number in a subsystem.

use super::subsystem::{find_subsystem, put, subsystems, unchanged, uses_guard};
use super::volume::find_volume;
use super::{AdminError, RACES, Result, cluster, get, volumes};
use amita_metadata::{Call, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, Export, Namespace, Subsystem, Volume};
use serde::Serialize;

/// Namespaces of a subsystem, at most; it is the highest number of one as well.
pub const MAX_NAMESPACES: u32 = 1024;
/// What a logical block may have.
pub const BLOCK_SIZES: [u32; 2] = [512, 4096];

/// A namespace, with what it is a namespace of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceStatus {
    /// Its subsystem's name.
    pub subsystem: String,
    /// Its record.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// The volume's name; none: the volume was deleted.
    pub volume_name: Option<String>,
    /// The volume's size.
    pub size_bytes: Option<u64>,
}

/// The namespaces of a subsystem, or of all of them.
///
/// # Errors
/// No such subsystem; the metadata is away.
pub fn namespaces(meta: &dyn Transact, name: Option<&str>) -> Result<Vec<NamespaceStatus>> {
    let subsystems = match name {
        Some(name) => vec![find_subsystem(meta, name)?.0],
        None => subsystems(meta)?,
    };
    let volumes = volumes(meta)?;
    let status = |subsystem: &Subsystem, namespace: &Namespace| {
        let volume = volumes.iter().find(|volume| volume.id == namespace.volume);
        NamespaceStatus {
            subsystem: subsystem.name.clone(),
            namespace: namespace.clone(),
            volume_name: volume.map(|volume| volume.name.clone()),
            size_bytes: volume.map(|volume| volume.size_bytes),
        }
    };
    Ok(subsystems
        .iter()
        .flat_map(|subsystem| {
            subsystem
                .namespaces
                .iter()
                .map(|namespace| status(subsystem, namespace))
        })
        .collect())
}

/// Makes a volume a namespace of a subsystem; `nsid`: its number, or the one after the highest. Hosts that are connected see
/// it at once.
///
/// # Errors
/// No such subsystem or volume, a number or size that cannot be, or is taken; a volume that is a namespace already; the
/// metadata is away or refuses.
pub fn add_namespace(
    meta: &dyn Transact,
    subsystem: &str,
    volume: &str,
    nsid: Option<u32>,
    block_bytes: u32,
) -> Result<Namespace> {
    let bad = |why: String| AdminError::BadSetting {
        what: "subsystem",
        name: subsystem.to_owned(),
        why,
    };
    if let Some(nsid) = nsid.filter(|nsid| !(1..=MAX_NAMESPACES).contains(nsid)) {
        return Err(bad(format!(
            "{nsid} is no number of a namespace; choose 1 to {MAX_NAMESPACES}"
        )));
    }
    if !BLOCK_SIZES.contains(&block_bytes) {
        return Err(bad(format!("blocks of {block_bytes} bytes; choose 512 or 4096")));
    }
    let cluster = cluster(meta)?.id;
    let guard_key = map::counter_key("namespaces");
    for _ in 0..RACES {
        let (guard, guard_revision) = uses_guard(meta)?;
        let (mut found, revision) = find_subsystem(meta, subsystem)?;
        let (target, volume_revision) = find_volume(meta, volume)?;
        if let Some((user, namespace)) = use_of(&subsystems(meta)?, target.id) {
            return Err(AdminError::Attached {
                volume: volume.to_owned(),
                subsystem: user,
                nsid: namespace.nsid,
            });
        }
        if get::<Export>(meta, &map::export_key(target.id))?.is_some_and(|(export, _)| !export.shared) {
            return Err(AdminError::Exported {
                volume: volume.to_owned(),
                subsystem: subsystem.to_owned(),
            });
        }
        let taken = |nsid: u32| found.namespaces.iter().any(|known| known.nsid == nsid);
        let nsid = match nsid {
            Some(nsid) if taken(nsid) => {
                return Err(bad(format!("it has a namespace {nsid} already; choose another number")));
            }
            Some(nsid) => nsid,
            None => free_number(&found).ok_or_else(|| AdminError::Full {
                what: "subsystem",
                name: subsystem.to_owned(),
                of: "namespaces",
                most: MAX_NAMESPACES as usize,
            })?,
        };
        let namespace = Namespace {
            nsid,
            volume: target.id,
            uuid: Namespace::uuid_of(cluster, target.id),
            block_bytes,
        };
        found.namespaces.push(namespace.clone());
        found.namespaces.sort_by_key(|known| known.nsid);
        let key = map::subsystem_key(subsystem);
        let call = Call {
            compares: vec![
                unchanged(&guard_key, guard_revision),
                unchanged(&key, revision),
                unchanged(&map::volume_key(volume), volume_revision),
            ],
            then: vec![put(key, &found), put(guard_key.clone(), &(guard + 1))],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(namespace);
        }
    }
    Err(AdminError::TooManyRaces { key: guard_key })
}

/// The number after the highest, so that a number does not stand for another disk soon; where there is none, the lowest
/// that is free.
fn free_number(subsystem: &Subsystem) -> Option<u32> {
    let highest = subsystem.namespaces.last().map_or(0, |last| last.nsid);
    if highest < MAX_NAMESPACES {
        return Some(highest + 1);
    }
    (1..=MAX_NAMESPACES).find(|nsid| subsystem.namespaces.iter().all(|known| known.nsid != *nsid))
}

/// The subsystem and the namespace that a volume is, if it is one.
pub(super) fn use_of(subsystems: &[Subsystem], volume: VolumeId) -> Option<(String, Namespace)> {
    subsystems.iter().find_map(|subsystem| {
        let mut namespaces = subsystem.namespaces.iter();
        let namespace = namespaces.find(|namespace| namespace.volume == volume)?;
        Some((subsystem.name.clone(), namespace.clone()))
    })
}

/// Which namespace a volume is, if it is one.
///
/// # Errors
/// No such volume; the metadata is away.
pub fn namespace_of(meta: &dyn Transact, volume: &str) -> Result<(Volume, Option<NamespaceStatus>)> {
    let (found, _) = find_volume(meta, volume)?;
    let used = use_of(&subsystems(meta)?, found.id);
    let status = used.map(|(subsystem, namespace)| NamespaceStatus {
        subsystem,
        namespace,
        volume_name: Some(found.name.clone()),
        size_bytes: Some(found.size_bytes),
    });
    Ok((found, status))
}

/// Takes a namespace out of a subsystem. Its volume stays; hosts that are connected lose the disk.
///
/// # Errors
/// No such subsystem or namespace; the metadata is away or refuses.
pub fn remove_namespace(meta: &dyn Transact, subsystem: &str, nsid: u32) -> Result<Namespace> {
    let guard_key = map::counter_key("namespaces");
    for _ in 0..RACES {
        let (guard, guard_revision) = uses_guard(meta)?;
        let (mut found, revision) = find_subsystem(meta, subsystem)?;
        let Some(at) = found.namespaces.iter().position(|known| known.nsid == nsid) else {
            let there = found.namespaces.iter().map(|known| known.nsid.to_string()).collect();
            return Err(AdminError::NoSuch {
                what: "namespace",
                name: nsid.to_string(),
                there,
            });
        };
        let namespace = found.namespaces.remove(at);
        let key = map::subsystem_key(subsystem);
        let call = Call {
            compares: vec![unchanged(&guard_key, guard_revision), unchanged(&key, revision)],
            then: vec![put(key, &found), put(guard_key.clone(), &(guard + 1))],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(namespace);
        }
    }
    Err(AdminError::TooManyRaces { key: guard_key })
}
