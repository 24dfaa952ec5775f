//! Namespaces: volumes, and snapshots of them, under a number in a subsystem.

use super::copy::{COPY_LABEL, none_copies};
use super::lun::no_unshared_lun;
use super::shrink::none_shrinks;
use super::snapshot::{snapshot as snapshot_of, split};
use super::subsystem::{all_subsystems, find_subsystem, put, subsystems, unchanged, uses_guard};
use super::unreadable::{Known, Listed};
use super::volume::find_volume;
use super::{AdminError, Result, cluster, get, tries, volumes};
use amita_metadata::{Call, Compare, Transact};
use amita_types::map::{self, Export, Namespace, NamespaceSnapshot, Snapshot, Subsystem, Volume};
use amita_types::{SnapshotId, VolumeId};
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
    /// The name of the snapshot of it that it is; none: it is the volume itself, or the snapshot is gone.
    pub snapshot_name: Option<String>,
    /// The volume's size, or the snapshot's.
    pub size_bytes: Option<u64>,
}

impl NamespaceStatus {
    /// What it is: a volume, or a snapshot of one, as commands take it.
    #[must_use]
    pub fn of(&self) -> String {
        let Some(volume) = &self.volume_name else {
            return "(deleted)".to_owned();
        };
        match (&self.snapshot_name, self.namespace.snapshot) {
            (_, None) => volume.clone(),
            (Some(name), Some(_)) => format!("{volume}@{name}"),
            (None, Some(_)) => format!("{volume}@(deleted)"),
        }
    }
}

pub(super) fn status_of(
    meta: &dyn Transact,
    subsystem: &str,
    namespace: &Namespace,
    volume: Option<&Volume>,
) -> Result<NamespaceStatus> {
    let snapshot_name = match namespace.snapshot {
        Some(snapshot) => snapshot_name(meta, namespace.volume, snapshot.number)?,
        None => None,
    };
    let size_of = |volume: &Volume| {
        namespace
            .snapshot
            .map_or(volume.size_bytes, |snapshot| snapshot.size_bytes)
    };
    Ok(NamespaceStatus {
        subsystem: subsystem.to_owned(),
        namespace: namespace.clone(),
        volume_name: volume.map(|volume| volume.name.clone()),
        snapshot_name,
        size_bytes: volume.map(size_of),
    })
}

pub(super) fn snapshot_name(meta: &dyn Transact, volume: VolumeId, number: SnapshotId) -> Result<Option<String>> {
    let found = get::<Snapshot>(meta, &map::snapshot_key(volume, number))?;
    Ok(found.map(|(snapshot, _)| snapshot.name))
}

/// The namespaces of all subsystems that can be read.
///
/// # Errors
/// The metadata is away.
pub fn namespaces(meta: &dyn Transact) -> Result<Listed<NamespaceStatus>> {
    let Listed { readable, unreadable } = subsystems(meta)?;
    let readable = statuses(meta, &readable)?;
    Ok(Listed { readable, unreadable })
}

/// The namespaces of one.
///
/// # Errors
/// No such subsystem; the metadata is away.
pub fn namespaces_of(meta: &dyn Transact, name: &str) -> Result<Vec<NamespaceStatus>> {
    let (subsystem, _) = find_subsystem(meta, name)?;
    statuses(meta, &[subsystem])
}

fn statuses(meta: &dyn Transact, subsystems: &[Subsystem]) -> Result<Vec<NamespaceStatus>> {
    let volumes = volumes(meta)?;
    let mut all = Vec::new();
    for subsystem in subsystems {
        for namespace in &subsystem.namespaces {
            let volume = volumes.iter().find(|volume| volume.has_data(namespace.volume));
            all.push(status_of(meta, &subsystem.name, namespace, volume)?);
        }
    }
    Ok(all)
}

/// Makes a volume, or a snapshot `VOLUME@SNAPSHOT`, a namespace of a subsystem; `nsid`: its number, or the one after the highest.
/// Hosts that are connected see it at once.
///
/// # Errors
/// No such subsystem, volume or snapshot, a number or size that cannot be, or is taken; a volume that is a namespace already, or a LUN
/// that is not shared; the metadata is away or refuses.
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
    for _ in tries(meta) {
        let (guard, guard_revision) = uses_guard(meta)?;
        let (mut found, revision) = find_subsystem(meta, subsystem)?;
        let Disk {
            volume: target,
            data,
            compares,
            snapshot,
        } = find_disk(meta, volume)?;
        let number = snapshot.map_or(SnapshotId::HEAD, |snapshot| snapshot.number);
        if let Some((user, namespace)) = use_of(&all_subsystems(meta)?, volume, data, number)? {
            return Err(AdminError::Attached {
                volume: volume.to_owned(),
                subsystem: user,
                nsid: namespace.nsid,
            });
        }
        // Nobody writes beside somebody else to what can only be read.
        let may_write = snapshot.is_none();
        if may_write && get::<Export>(meta, &map::export_key(target.id))?.is_some_and(|(export, _)| !export.shared) {
            return Err(AdminError::Exported {
                volume: volume.to_owned(),
                subsystem: subsystem.to_owned(),
            });
        }
        if may_write {
            no_unshared_lun(meta, &target, &format!("the hosts of subsystem {subsystem}"), "")?;
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
        // Hosts know a volume by its first number, and a snapshot by that of its data.
        let known_by = if may_write { target.host() } else { data };
        let namespace = Namespace {
            nsid,
            volume: data,
            uuid: Namespace::uuid_of_snapshot(cluster, known_by, number),
            block_bytes,
            snapshot,
        };
        found.namespaces.push(namespace.clone());
        found.namespaces.sort_by_key(|known| known.nsid);
        let key = map::subsystem_key(subsystem);
        let call = Call {
            compares: [
                vec![unchanged(&guard_key, guard_revision), unchanged(&key, revision)],
                compares,
            ]
            .concat(),
            then: vec![put(key, &found), put(guard_key.clone(), &(guard + 1))],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(namespace);
        }
    }
    Err(AdminError::TooManyRaces { key: guard_key })
}

/// What is to be a namespace, or a LUN.
pub(super) struct Disk {
    pub(super) volume: Volume,
    /// Which of its data: of a snapshot, that of which it is one.
    pub(super) data: VolumeId,
    /// Its records are so.
    pub(super) compares: Vec<Compare>,
    pub(super) snapshot: Option<NamespaceSnapshot>,
}

pub(super) fn find_disk(meta: &dyn Transact, name: &str) -> Result<Disk> {
    let (volume_name, snapshot_name) = split(name)?;
    let (volume, revision) = find_volume(meta, volume_name)?;
    none_copies(meta, &volume)?;
    let mut compares = vec![unchanged(&map::volume_key(volume_name), revision)];
    let mut data = volume.id;
    let snapshot = match snapshot_name {
        Some(snapshot) => {
            let found = snapshot_of(meta, volume_name, snapshot)?;
            may_be_served(name, &found)?;
            data = found.volume;
            let key = map::snapshot_key(data, found.number);
            let whole = get::<Snapshot>(meta, &key)?.filter(|(record, _)| !record.mark);
            let Some((_, revision)) = whole else {
                // It was deleted this moment.
                return Err(AdminError::NoSuch {
                    what: "snapshot",
                    name: name.to_owned(),
                    there: Vec::new(),
                });
            };
            compares.push(unchanged(&key, revision));
            Some(NamespaceSnapshot {
                number: found.number,
                size_bytes: found.size_bytes,
            })
        }
        None => {
            compares.push(none_shrinks(meta, name, volume.id)?);
            None
        }
    };
    Ok(Disk {
        volume,
        data,
        compares,
        snapshot,
    })
}

/// A snapshot that was taken for a copy goes with the copy's end, and hosts would keep it from that.
fn may_be_served(name: &str, found: &Snapshot) -> Result<()> {
    match found.labels.get(COPY_LABEL) {
        None => Ok(()),
        Some(copy) => Err(AdminError::BadSetting {
            what: "snapshot",
            name: name.to_owned(),
            why: format!(
                "it was taken for copy-{copy}, and goes with the end of that; take one of your own (`amita volume snapshot create`)"
            ),
        }),
    }
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

/// The subsystem and the namespace that a volume is, or a snapshot of it, if it is one. `of`: as it was named.
pub(super) fn use_of(
    subsystems: &Known<Subsystem>,
    of: &str,
    volume: VolumeId,
    snapshot: SnapshotId,
) -> Result<Option<(String, Namespace)>> {
    let found = find_use(&subsystems.readable, |namespace| namespace.is_of(volume, snapshot));
    if found.is_none() {
        subsystems.none_may_show(of, |known| known == volume)?;
    }
    Ok(found)
}

/// The same for the volume, or any snapshot of it, whatever data it had then.
pub(super) fn any_use_of(subsystems: &Known<Subsystem>, volume: &Volume) -> Result<Option<(String, Namespace)>> {
    let found = find_use(&subsystems.readable, |namespace| volume.has_data(namespace.volume));
    if found.is_none() {
        subsystems.none_may_show(&volume.name, |known| volume.has_data(known))?;
    }
    Ok(found)
}

fn find_use(subsystems: &[Subsystem], is_it: impl Fn(&Namespace) -> bool) -> Option<(String, Namespace)> {
    subsystems.iter().find_map(|subsystem| {
        let namespace = subsystem.namespaces.iter().find(|namespace| is_it(namespace))?;
        Some((subsystem.name.clone(), namespace.clone()))
    })
}

/// Which namespace a volume is, or a snapshot `VOLUME@SNAPSHOT`, if it is one.
///
/// # Errors
/// No such volume or snapshot; the metadata is away.
pub fn namespace_of(meta: &dyn Transact, name: &str) -> Result<(Volume, Option<NamespaceStatus>)> {
    let Disk {
        volume, data, snapshot, ..
    } = find_disk(meta, name)?;
    let number = snapshot.map_or(SnapshotId::HEAD, |snapshot| snapshot.number);
    let status = match use_of(&all_subsystems(meta)?, name, data, number)? {
        Some((subsystem, namespace)) => Some(status_of(meta, &subsystem, &namespace, Some(&volume))?),
        None => None,
    };
    Ok((volume, status))
}

/// Takes a namespace out of a subsystem. Its volume stays; hosts that are connected lose the disk.
///
/// # Errors
/// No such subsystem or namespace; the metadata is away or refuses.
pub fn remove_namespace(meta: &dyn Transact, subsystem: &str, nsid: u32) -> Result<Namespace> {
    let guard_key = map::counter_key("namespaces");
    for _ in tries(meta) {
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
