//! The snapshots of a volume that moves (M8): the target's get all that is said of the volume's, and its names when it has moved.

use super::super::copy::{POINT_LABEL, by_claim};
use super::super::snapshot::{Find, delete_of, delete_snapshot_that, is_sealed, of_chain, protect_of};
use super::super::subsystem::{put, unchanged};
use super::super::volume::{find_kept, find_volume};
use super::super::{AdminError, Left, Result, copy_source, end_copy, get, tries};
use super::{copy_job_id, is_point, source_of};
use crate::admin::copy::COPY_LABEL;
use amita_metadata::{Call, Op, Transact};
use amita_types::SnapshotId;
use amita_types::map::{self, Copying, Snapshot, SnapshotName, Volume};

/// So many snapshots' records and names are written by one transaction: each takes three operations, and a transaction has 128.
const AT_ONCE: usize = 24;

/// So often it is looked whether a name is left: those that go are removed some at a time, and a volume has 16,384 snapshots at most.
const TURNS: usize = 512;

/// What the target's snapshots lack.
#[derive(Debug, Default)]
pub(super) struct Lacking {
    /// The source has one that the target has not.
    pub is_missing: bool,
    /// One of those, which the target has by another number: no pass brings it any more.
    pub misnumbered: Option<SnapshotId>,
    /// Records of the target that are to say what the source's do.
    pub anew: Vec<Snapshot>,
    /// The target's that the source has not, or not any more, but for the newest.
    pub needless: Vec<Snapshot>,
    /// The target's newest, where it is of none that the source keeps: it tells under which generation all stores were.
    pub newest: Option<Snapshot>,
}

/// Of which of the source's snapshots it is a copy.
fn of(point: &Snapshot) -> Option<SnapshotId> {
    point.labels.get(POINT_LABEL)?.parse().ok().map(SnapshotId)
}

/// Is it the copy of that one, by its number (M8)? Backups know snapshots by that.
fn stands_for(point: &Snapshot, original: &Snapshot) -> bool {
    of(point) == Some(original.number) && point.number == original.number
}

/// Compares the records of both.
pub(super) fn lacking(copying: &Copying, source: &[Snapshot], target: &[Snapshot]) -> Lacking {
    let mut lacking = Lacking::default();
    let target: Vec<&Snapshot> = target.iter().filter(|found| is_sealed(found)).collect();
    // One that has become a mark since is one still.
    let is_kept = |found: &&Snapshot| {
        let as_before = Snapshot {
            mark: false,
            ..(*found).clone()
        };
        is_point(&as_before, Some(copying.volume))
    };
    let kept: Vec<&Snapshot> = source.iter().filter(is_kept).collect();
    for original in &kept {
        let Some(point) = target.iter().find(|point| stands_for(point, original)) else {
            // Of what was a mark already nothing can be made.
            lacking.is_missing |= !original.mark;
            let is_there = target.iter().any(|point| of(point) == Some(original.number));
            if is_there && !original.mark {
                lacking.misnumbered = Some(original.number);
            }
            continue;
        };
        let mut labels = original.labels.clone();
        labels.insert(POINT_LABEL.to_owned(), original.number.0.to_string());
        let wanted = Snapshot {
            name: original.name.clone(),
            taken_at: original.taken_at,
            labels,
            protected: original.protected,
            set: original.set,
            mark: original.mark,
            ..(*point).clone()
        };
        if wanted != **point {
            lacking.anew.push(wanted);
        }
    }
    let is_kept = |point: &Snapshot| kept.iter().any(|original| stands_for(point, original));
    let newest = target.iter().map(|point| point.number).max();
    for point in target.iter().filter(|point| !is_kept(point)) {
        match Some(point.number) == newest {
            true => lacking.newest = Some((*point).clone()),
            false => lacking.needless.push((*point).clone()),
        }
    }
    lacking
}

/// How it stands with the target's snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dressed {
    /// They are what the volume's are.
    Done,
    /// The volume has one that the target has not: another pass brings it.
    Lacks,
    /// The claim is lost.
    Lost,
}

/// Has the target's snapshots say what the volume's say, and deletes those that the volume has not any more.
///
/// # Errors
/// The target has one by another number than the volume has; the source or the target is gone; the metadata is suspected, away or refuses.
pub fn dress_move(meta: &dyn Transact, copying: &Copying, claim: u64) -> Result<Dressed> {
    let source = source_of(meta, copying)?;
    let (target, _) = find_volume(meta, &copying.name)?;
    let lacking = lacking(copying, &of_chain(meta, &source)?, &of_chain(meta, &target)?);
    if let Some(number) = lacking.misnumbered {
        return Err(used_up(copying, number));
    }
    if lacking.is_missing {
        return Ok(Dressed::Lacks);
    }
    let held = by_claim(copying, claim);
    for needless in &lacking.needless {
        let is_it = |other: &Snapshot| other.number == needless.number;
        if needless.protected {
            protect_of(meta, (&target.name, find_volume), &needless.name, false, &[])?;
        }
        match delete_snapshot_that(meta, &target.name, &needless.name, &is_it, &held, Left::Nothing) {
            Ok(None) => return Ok(Dressed::Lost),
            Ok(Some(_)) | Err(AdminError::NoSuch { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    for some in lacking.anew.chunks(AT_ONCE) {
        let call = Call {
            compares: held.iter().map(|(key, revision)| unchanged(key, *revision)).collect(),
            then: some
                .iter()
                .map(|wanted| put(map::snapshot_key(target.id, wanted.number), wanted))
                .collect(),
            otherwise: Vec::new(),
        };
        // Nobody else writes them: nobody uses the target.
        if !meta.txn(&call)?.succeeded {
            return Ok(Dressed::Lost);
        }
    }
    Ok(Dressed::Done)
}

/// The snapshots of the volume that were taken for a move go, but for these.
///
/// # Errors
/// One is used by others; the metadata is suspected, away or refuses.
pub fn forget_move_snapshots(meta: &dyn Transact, copying: &Copying, keep: &[SnapshotId]) -> Result<()> {
    let Some(source) = copy_source(meta, copying)? else {
        return Ok(());
    };
    let own = copying.volume.to_string();
    let is_own = |found: &Snapshot| found.labels.get(COPY_LABEL) == Some(&own) && !keep.contains(&found.number);
    for found in of_chain(meta, &source)?
        .iter()
        .filter(|found| is_sealed(found) && is_own(found))
    {
        let at: (&str, Find) = (&source.name, find_kept);
        let unprotected = match found.protected {
            true => protect_of(meta, at, &found.name, false, &[]).map(drop),
            false => Ok(()),
        };
        let gone = unprotected.and_then(|()| delete_of(meta, at, &found.name, &is_own, &[], Left::Nothing).map(drop));
        match gone {
            Ok(()) | Err(AdminError::NoSuch { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// The volume has moved: the names of its snapshots stand for what it is now, those that stood for anything else go, and so does the
/// record of the move. `false`: the claim is lost.
///
/// # Errors
/// The metadata is away or refuses.
pub fn end_move(meta: &dyn Transact, copying: &Copying, claim: u64) -> Result<bool> {
    let now = copy_source(meta, copying)?.filter(|found| found.id == copying.volume);
    // Where it is deleted by now its names went with it.
    if let Some(volume) = &now {
        let mut is_done = false;
        for _ in 0..TURNS {
            match name_points(meta, copying, volume, claim)? {
                Some(done) => is_done = done,
                None => return Ok(false),
            }
            if is_done {
                break;
            }
        }
        if !is_done {
            let key = map::snapshot_names_prefix(volume.host());
            return Err(AdminError::TooManyRaces { key });
        }
    }
    end_copy(meta, copying.volume, claim)
}

/// `Some(true)`: nothing was left to be written; none: the claim is lost.
fn name_points(meta: &dyn Transact, copying: &Copying, volume: &Volume, claim: u64) -> Result<Option<bool>> {
    let host = volume.host();
    let held = by_claim(copying, claim);
    let is_held = |call: &mut Call| {
        call.compares
            .extend(held.iter().map(|(key, revision)| unchanged(key, *revision)));
        call.otherwise.push(Op::Get {
            key: map::copier_key(copying.volume),
        });
    };
    let found = meta.txn(&Call::prefix(map::snapshots_prefix(volume.id)))?;
    let mut changes: Vec<Call> = Vec::new();
    for record in found.values(0) {
        let point: Snapshot = super::super::parse(record)?;
        if !is_sealed(&point) {
            continue;
        }
        let key = map::snapshot_name_key(host, &point.name);
        let named = get::<SnapshotName>(meta, &key)?;
        let wanted = SnapshotName::new(host, volume.id, point.number);
        let is_named = named.as_ref().is_some_and(|(named, _)| *named == wanted);
        // Its name went, or is another one's that was taken since: it was deleted this moment, or is about to be.
        let is_its = named
            .as_ref()
            .is_some_and(|(named, _)| !volume.has_data(named.data(host)));
        let mut call = Call::default();
        if !is_named && !point.hidden && is_its {
            let revision = named.map_or(0, |(_, revision)| revision);
            call.compares.push(unchanged(&key, revision));
            call.then.push(put(key, &wanted));
        }
        if point.labels.contains_key(POINT_LABEL) {
            let mut plain = point.clone();
            plain.labels.remove(POINT_LABEL);
            call.compares.push(unchanged(&record.key, record.mod_revision));
            call.then.push(put(record.key.clone(), &plain));
        }
        if !call.then.is_empty() {
            changes.push(call);
        }
    }
    let mut is_done = changes.is_empty();
    for some in changes.chunks(AT_ONCE) {
        let mut call = Call::default();
        for change in some {
            call.compares.extend(change.compares.iter().cloned());
            call.then.extend(change.then.iter().cloned());
        }
        is_held(&mut call);
        let reply = meta.txn(&call)?;
        if !reply.succeeded && !is_ours(&reply, claim) {
            return Ok(None);
        }
    }
    if is_done {
        // Only now: until then they tell which of the new ones is meant.
        is_done = drop_names(meta, copying, volume, &is_held)?;
    }
    Ok(Some(is_done))
}

fn is_ours(reply: &amita_metadata::Reply, claim: u64) -> bool {
    reply.value(0).map(|found| found.mod_revision) == Some(claim)
}

/// Names of what the volume was, of which it has nothing any more, and those that the target's snapshots had before it was the volume.
fn drop_names(meta: &dyn Transact, copying: &Copying, volume: &Volume, is_held: &dyn Fn(&mut Call)) -> Result<bool> {
    let host = volume.host();
    let mut call = Call::default();
    let of_target = map::snapshot_names_prefix(copying.volume);
    if copying.volume != host && !meta.txn(&Call::prefix(of_target.clone()))?.values(0).is_empty() {
        call.then.push(Op::DeletePrefix { key: of_target });
    }
    let names = meta.txn(&Call::prefix(map::snapshot_names_prefix(host)))?;
    for found in names.values(0) {
        let named: SnapshotName = super::super::parse(found)?;
        if !volume.has_data(named.data(host)) && call.then.len() < 2 * AT_ONCE {
            call.compares.push(unchanged(&found.key, found.mod_revision));
            call.then.push(Op::Delete { key: found.key.clone() });
        }
    }
    if call.then.is_empty() {
        return Ok(true);
    }
    is_held(&mut call);
    meta.txn(&call)?;
    Ok(false)
}

/// May the target's next snapshot have the source's number, or has it? One that it has given to another snapshot, or to one that came to nothing,
/// stays given (S1): also where the record of that is left, as it is until its name is taken again; and where it was sealed, and has gone since,
/// because nobody knew whether it is what was copied.
fn is_free(meta: &dyn Transact, target: &Volume, number: SnapshotId) -> Result<bool> {
    let lineage = &target.lineage;
    if lineage.number != number {
        return Ok(lineage.number < number);
    }
    let found = get::<Snapshot>(meta, &map::snapshot_key(target.id, number))?;
    Ok(found.is_some_and(|(found, _)| of(&found) == Some(number) && (lineage.taking || is_sealed(&found))))
}

/// A snapshot of the volume cannot have its number where it is to be.
fn used_up(copying: &Copying, number: SnapshotId) -> AdminError {
    let why = format!(
        "its number, {number}, is used up where it is to be by a snapshot that came to nothing when a node died: take the move back (`amita job cancel {}`), and begin it anew",
        copy_job_id(copying)
    );
    super::bad(&copying.of, why)
}

/// The same of a move's target.
///
/// # Errors
/// The target is gone; the metadata is away.
pub fn is_number_free(meta: &dyn Transact, copying: &Copying, number: SnapshotId) -> Result<bool> {
    let (target, _) = find_volume(meta, &copying.name)?;
    is_free(meta, &target, number)
}

/// The number that the target's next snapshot is to have is the source's: it counts on as if it had taken and deleted those between.
/// `false`: the claim is lost.
///
/// # Errors
/// The number is used up; the target is gone; the metadata is away or refuses.
pub(in crate::admin) fn count_on(
    meta: &dyn Transact,
    copying: &Copying,
    claim: u64,
    number: SnapshotId,
) -> Result<bool> {
    let key = map::volume_key(&copying.name);
    let copier = map::copier_key(copying.volume);
    let before = SnapshotId(number.0.saturating_sub(1));
    for _ in tries(meta) {
        let (mut target, revision) = find_volume(meta, &copying.name)?;
        if !is_free(meta, &target, number)? {
            return Err(used_up(copying, number));
        }
        if target.lineage.number >= before {
            return Ok(true);
        }
        (target.lineage.number, target.lineage.sealed) = (before, before);
        let call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&copier, claim)],
            then: vec![put(key.clone(), &target)],
            otherwise: vec![Op::Get { key: copier.clone() }],
        };
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(true);
        }
        if !is_ours(&reply, claim) {
            return Ok(false);
        }
    }
    Err(AdminError::TooManyRaces { key })
}
