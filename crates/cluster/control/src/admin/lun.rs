//! LUNs: volumes, and snapshots of them, under a number in a target.

use super::namespace::{Disk, find_disk, snapshot_name, use_of};
use super::subsystem::{all_subsystems, put, unchanged, uses_guard};
use super::target::{all_targets, find_target, targets};
use super::unreadable::{Known, Listed};
use super::{AdminError, BLOCK_SIZES, Result, cluster, get, tries, volumes};
use amita_metadata::{Call, Transact};
use amita_types::map::{self, Export, IscsiLun, IscsiTarget, MAX_LUN_NUMBER, Namespace, Volume};
use amita_types::{SnapshotId, VolumeId};
use serde::Serialize;

/// LUNs of a target, at most: what an ESXi host sees altogether.
pub const MAX_LUNS: usize = 1024;

/// What a LUN is made as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunSpec {
    /// The volume's name, or `VOLUME@SNAPSHOT`.
    pub of: String,
    /// Its number; none: the one after the highest.
    pub number: Option<u16>,
    /// Bytes of a logical block: 512 or 4096.
    pub block_bytes: u32,
    /// Also while the volume is a namespace, or exported by NBD.
    pub shared: bool,
}

/// A LUN, with what it is one of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LunStatus {
    /// Its target's name.
    pub target: String,
    /// Its record.
    #[serde(flatten)]
    pub lun: IscsiLun,
    /// The volume's name; none: the volume was deleted.
    pub volume_name: Option<String>,
    /// The name of the snapshot of it that it is; none: it is the volume itself, or the snapshot is gone.
    pub snapshot_name: Option<String>,
    /// The volume's size, or the snapshot's.
    pub size_bytes: Option<u64>,
}

impl LunStatus {
    /// What it is: a volume, or a snapshot of one, as commands take it.
    #[must_use]
    pub fn of(&self) -> String {
        let Some(volume) = &self.volume_name else {
            return "(deleted)".to_owned();
        };
        match (&self.snapshot_name, self.lun.snapshot) {
            (_, None) => volume.clone(),
            (Some(name), Some(_)) => format!("{volume}@{name}"),
            (None, Some(_)) => format!("{volume}@(deleted)"),
        }
    }
}

pub(super) fn lun_status(
    meta: &dyn Transact,
    target: &str,
    lun: &IscsiLun,
    volume: Option<&Volume>,
) -> Result<LunStatus> {
    let snapshot_name = match lun.snapshot {
        Some(snapshot) => snapshot_name(meta, lun.volume, snapshot.number)?,
        None => None,
    };
    let size_of = |volume: &Volume| lun.snapshot.map_or(volume.size_bytes, |snapshot| snapshot.size_bytes);
    Ok(LunStatus {
        target: target.to_owned(),
        lun: lun.clone(),
        volume_name: volume.map(|volume| volume.name.clone()),
        snapshot_name,
        size_bytes: volume.map(size_of),
    })
}

/// The LUNs of all targets that can be read.
///
/// # Errors
/// The metadata is away.
pub fn luns(meta: &dyn Transact) -> Result<Listed<LunStatus>> {
    let Listed { readable, unreadable } = targets(meta)?;
    let readable = statuses(meta, &readable)?;
    Ok(Listed { readable, unreadable })
}

/// The LUNs of one.
///
/// # Errors
/// No such target; the metadata is away.
pub fn luns_of(meta: &dyn Transact, name: &str) -> Result<Vec<LunStatus>> {
    let (target, _) = find_target(meta, name)?;
    statuses(meta, &[target])
}

fn statuses(meta: &dyn Transact, targets: &[IscsiTarget]) -> Result<Vec<LunStatus>> {
    let volumes = volumes(meta)?;
    let mut all = Vec::new();
    for target in targets {
        for lun in &target.luns {
            let volume = volumes.iter().find(|volume| volume.has_data(lun.volume));
            all.push(lun_status(meta, &target.name, lun, volume)?);
        }
    }
    Ok(all)
}

/// The bytes of a logical block that a LUN of this volume, or snapshot, has where nobody wishes others: 512, as most initiators want it;
/// 4096 of an encrypted one, whose blocks are encrypted whole (S15).
///
/// # Errors
/// No such volume or snapshot; the metadata is away.
pub fn usual_block_bytes(meta: &dyn Transact, of: &str) -> Result<u32> {
    let is_encrypted = find_disk(meta, of)?.volume.keys.is_some();
    Ok(if is_encrypted { 4096 } else { 512 })
}

/// Makes a volume, or a snapshot, a LUN of a target. Initiators that are logged in and may see it are told.
///
/// # Errors
/// No such target, volume or snapshot, a number or size that cannot be, or is taken; a volume that is a LUN already, or a namespace, or
/// exported by NBD (unless it is to be shared); the metadata is away or refuses.
pub fn add_lun(meta: &dyn Transact, target: &str, spec: &LunSpec) -> Result<IscsiLun> {
    let bad = |why: String| AdminError::BadSetting {
        what: "target",
        name: target.to_owned(),
        why,
    };
    if let Some(number) = spec.number.filter(|number| *number > MAX_LUN_NUMBER) {
        return Err(bad(format!(
            "{number} is no number of a LUN; choose 0 to {MAX_LUN_NUMBER} (0 to 254 for Windows)"
        )));
    }
    if !BLOCK_SIZES.contains(&spec.block_bytes) {
        return Err(bad(format!("blocks of {} bytes; choose 512 or 4096", spec.block_bytes)));
    }
    let cluster = cluster(meta)?.id;
    let guard_key = map::counter_key("namespaces");
    for _ in tries(meta) {
        let (guard, guard_revision) = uses_guard(meta)?;
        let (mut found, revision) = find_target(meta, target)?;
        let Disk {
            volume,
            data,
            compares,
            snapshot,
        } = find_disk(meta, &spec.of)?;
        let number = snapshot.map_or(SnapshotId::HEAD, |snapshot| snapshot.number);
        let all = all_targets(meta)?;
        if let Some((user, lun)) = lun_use(&all, &spec.of, data, number)? {
            return Err(is_lun(&spec.of, user, lun, Besides::Nothing));
        }
        if snapshot.is_none() && !spec.shared {
            written_by_others(meta, &volume, target)?;
        }
        let number = free_number(&found, spec.number, &bad)?;
        // Initiators know a volume by its first number, and a snapshot by that of its data.
        let known_by = if snapshot.is_none() { volume.host() } else { data };
        let snapshot_number = snapshot.map_or(SnapshotId::HEAD, |snapshot| snapshot.number);
        let uuid = Namespace::uuid_of_snapshot(cluster, known_by, snapshot_number);
        let is_same = |lun: &&IscsiLun| map::naa(&lun.uuid) == map::naa(&uuid);
        if let Some(other) = all.readable.iter().flat_map(|target| &target.luns).find(is_same) {
            // Two disks of one name would be taken for two paths to one disk.
            let naa = map::naa_text(&uuid);
            let why = format!(
                "{} would have the name {naa}, which volume number {} has",
                spec.of, other.volume
            );
            return Err(bad(why));
        }
        let lun = IscsiLun {
            number,
            volume: data,
            uuid,
            block_bytes: spec.block_bytes,
            snapshot,
            shared: spec.shared,
        };
        found.luns.push(lun.clone());
        found.luns.sort_by_key(|known| known.number);
        let key = map::iscsi_target_key(target);
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
            return Ok(lun);
        }
    }
    Err(AdminError::TooManyRaces { key: guard_key })
}

/// Who has a volume by another protocol, and would write to it beside initiators without either's knowing.
fn written_by_others(meta: &dyn Transact, volume: &Volume, target: &str) -> Result<()> {
    let beside = |used: String, instead: String| AdminError::WrittenBeside {
        volume: volume.name.clone(),
        used,
        by: format!("the initiators of target {target}"),
        instead,
    };
    if let Some((subsystem, namespace)) = use_of(&all_subsystems(meta)?, &volume.name, volume.id, SnapshotId::HEAD)? {
        let nsid = namespace.nsid;
        return Err(beside(
            format!("namespace {nsid} of subsystem {subsystem}"),
            format!("take it out first (`amita namespace remove {subsystem} {nsid}`), or use --shared"),
        ));
    }
    let export = get::<Export>(meta, &map::export_key(volume.id))?;
    if export.is_some_and(|(export, _)| !export.shared) {
        return Err(beside(
            "exported by NBD".to_owned(),
            format!(
                "take the export away first (`amita nbd unexport {}`), or use --shared",
                volume.name
            ),
        ));
    }
    Ok(())
}

/// May the volume be used by another protocol as well, by `by`? Not where it is a LUN that is not shared.
pub(super) fn no_unshared_lun(meta: &dyn Transact, volume: &Volume, by: &str, instead: &str) -> Result<()> {
    let all = all_targets(meta)?;
    match lun_use(&all, &volume.name, volume.id, SnapshotId::HEAD)?.filter(|(_, lun)| !lun.shared) {
        None => Ok(()),
        Some((target, lun)) => Err(AdminError::WrittenBeside {
            volume: volume.name.clone(),
            used: format!("LUN {} of target {target}", lun.number),
            by: by.to_owned(),
            instead: format!(
                "take it out first (`amita lun remove {target} {}`){instead}",
                lun.number
            ),
        }),
    }
}

/// The wanted number, if it is free; where none is wanted, the one after the highest, so that a number does not stand for another disk
/// soon; where there is none, the lowest that is free.
fn free_number(target: &IscsiTarget, wanted: Option<u16>, bad: &impl Fn(String) -> AdminError) -> Result<u16> {
    if target.luns.len() >= MAX_LUNS {
        return Err(AdminError::Full {
            what: "target",
            name: target.name.clone(),
            of: "LUNs",
            most: MAX_LUNS,
        });
    }
    if let Some(wanted) = wanted {
        return match target.lun(wanted) {
            None => Ok(wanted),
            Some(_) => Err(bad(format!(
                "it has a LUN {wanted} already; choose another number, or none, for the next one"
            ))),
        };
    }
    let next = match target.luns.last() {
        None => Some(0),
        Some(last) if last.number < MAX_LUN_NUMBER => Some(last.number + 1),
        Some(_) => (0..=MAX_LUN_NUMBER).find(|number| target.lun(*number).is_none()),
    };
    Ok(next.expect("fewer LUNs than numbers"))
}

/// The target's name, and the LUN of it, that a volume is, or a snapshot of it, if it is one. `of`: as it was named.
pub(super) fn lun_use<'a>(
    targets: &'a Known<IscsiTarget>,
    of: &str,
    volume: VolumeId,
    snapshot: SnapshotId,
) -> Result<Option<(&'a str, &'a IscsiLun)>> {
    let found = find_use(&targets.readable, |lun| lun.is_of(volume, snapshot));
    if found.is_none() {
        targets.none_may_show(of, |known| known == volume)?;
    }
    Ok(found)
}

/// The same for the volume, or any snapshot of it, whatever data it had then.
pub(super) fn any_lun_use<'a>(
    targets: &'a Known<IscsiTarget>,
    volume: &Volume,
) -> Result<Option<(&'a str, &'a IscsiLun)>> {
    let found = find_use(&targets.readable, |lun| volume.has_data(lun.volume));
    if found.is_none() {
        targets.none_may_show(&volume.name, |known| volume.has_data(known))?;
    }
    Ok(found)
}

fn find_use(targets: &[IscsiTarget], is_it: impl Fn(&IscsiLun) -> bool) -> Option<(&str, &IscsiLun)> {
    targets.iter().find_map(|target| {
        let lun = target.luns.iter().find(|lun| is_it(lun))?;
        Some((target.name.as_str(), lun))
    })
}

/// What helps beside taking a LUN out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    Nothing,
    Force,
}

/// That something is a LUN, so that it cannot be done.
pub(super) fn is_lun(of: &str, target: &str, lun: &IscsiLun, besides: Besides) -> AdminError {
    AdminError::IsLun {
        what: if of.contains('@') { "snapshot" } else { "volume" },
        name: of.to_owned(),
        target: target.to_owned(),
        lun: lun.number,
        besides: match besides {
            Besides::Nothing => "",
            Besides::Force => ", or use --force",
        },
    }
}

/// Is the volume, or the snapshot of it, no LUN? `of`: as it was named.
pub(super) fn not_a_lun(meta: &dyn Transact, of: &str, volume: VolumeId, snapshot: SnapshotId) -> Result<()> {
    match lun_use(&all_targets(meta)?, of, volume, snapshot)? {
        None => Ok(()),
        Some((target, lun)) => Err(is_lun(of, target, lun, Besides::Nothing)),
    }
}

/// Which LUN a volume is, or a snapshot `VOLUME@SNAPSHOT`, if it is one.
///
/// # Errors
/// No such volume or snapshot; the metadata is away.
pub fn lun_of(meta: &dyn Transact, name: &str) -> Result<(Volume, Option<LunStatus>)> {
    let Disk {
        volume, data, snapshot, ..
    } = find_disk(meta, name)?;
    let number = snapshot.map_or(SnapshotId::HEAD, |snapshot| snapshot.number);
    let status = match lun_use(&all_targets(meta)?, name, data, number)? {
        Some((target, lun)) => Some(lun_status(meta, target, lun, Some(&volume))?),
        None => None,
    };
    Ok((volume, status))
}

/// Takes a LUN out of a target. Its volume stays; initiators that are logged in lose the disk. Whoever was to see this number and not all
/// sees it no more: the next LUN that gets it is another disk.
///
/// # Errors
/// No such target or LUN; the metadata is away or refuses.
pub fn remove_lun(meta: &dyn Transact, target: &str, number: u16) -> Result<IscsiLun> {
    take_out(meta, target, number, |_| true)
}

/// The same, if its number is still this very disk's.
///
/// # Errors
/// As [`remove_lun`]; others have given the number to another disk since it was looked at.
pub fn remove_disk(meta: &dyn Transact, target: &str, lun: &IscsiLun) -> Result<IscsiLun> {
    take_out(meta, target, lun.number, |known| known.uuid == lun.uuid)
}

fn take_out(meta: &dyn Transact, target: &str, number: u16, is_meant: impl Fn(&IscsiLun) -> bool) -> Result<IscsiLun> {
    let guard_key = map::counter_key("namespaces");
    for _ in tries(meta) {
        let (guard, guard_revision) = uses_guard(meta)?;
        let (mut found, revision) = find_target(meta, target)?;
        let Some(at) = found.luns.iter().position(|known| known.number == number) else {
            return Err(no_lun(&found, number));
        };
        let lun = found.luns.remove(at);
        if !is_meant(&lun) {
            return Err(AdminError::Changed);
        }
        for luns in found.initiators.iter_mut().filter_map(|access| access.luns.as_mut()) {
            luns.retain(|known| *known != number);
        }
        let key = map::iscsi_target_key(target);
        let call = Call {
            compares: vec![unchanged(&guard_key, guard_revision), unchanged(&key, revision)],
            then: vec![put(key, &found), put(guard_key.clone(), &(guard + 1))],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(lun);
        }
    }
    Err(AdminError::TooManyRaces { key: guard_key })
}

pub(super) fn no_lun(target: &IscsiTarget, number: u16) -> AdminError {
    AdminError::NoSuch {
        what: "LUN",
        name: number.to_string(),
        there: target.luns.iter().map(|known| known.number.to_string()).collect(),
    }
}
