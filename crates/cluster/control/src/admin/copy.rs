//! Volumes that are made copies of others (decision 080): what operators ask for, and what whoever is at a copy reads and notes.
//!
//! What is noted is noted by who holds the copier's key alone: each such transaction compares the revision by which it was made, here
//! called the *claim*.

mod target;

pub use target::{drop_point_wish, drop_points, fit_copy, has_point, take_point};

use super::deletion::Fate;
use super::keys::{DataKeys, Whose, maker};
use super::migrate::{copy_job_id, end_is_allowed, is_point, none_moves_still};
use super::snapshot::{Find, Held, ask_copys_snapshot, compares, delete_of, is_sealed, of_chain, protect_of, taken};
use super::subsystem::{put, unchanged};
use super::volume::{find_kept, find_volume, make_volume_and, volumes, with_deleted};
use super::{
    AdminError, Left, Result, check_name, cluster, get, may_take_snapshot, protect_snapshot, snapshot, split, tries,
};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, About, CopyPlace, Copying, Paused, SNAPSHOTS_SINCE, Snapshot, SnapshotWish, Volume};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The label of the snapshot that is taken for a copy: the target's number.
pub const COPY_LABEL: &str = "amita:copy";
/// The label of a copy's snapshots: the number of the one that each is a copy of.
pub const POINT_LABEL: &str = "amita:copied";
/// The least limit: a block of 4 KiB each second would hold a copy's gateways for no use.
pub const LEAST_LIMIT: u64 = 64 << 10;

/// What is to be copied, and to what.
#[derive(Clone, Debug)]
pub struct CopyWish<'a> {
    /// VOLUME: as it is now; or VOLUME@SNAPSHOT.
    pub of: &'a str,
    /// The new volume's name.
    pub name: &'a str,
    /// Its pool.
    pub pool: &'a str,
    /// The older snapshots, too.
    pub snapshots: bool,
    /// At most so many bytes a second are read.
    pub limit_bytes_per_s: Option<u64>,
    /// It is to be encrypted. A copy of an encrypted volume is, in any case: it holds the same.
    pub encrypted: bool,
    /// What makes its key.
    pub keys: Option<&'a dyn DataKeys>,
    /// Since 1970.
    pub now: Duration,
}

/// Makes the new volume, and says that it is to be a copy: a node makes it one.
///
/// # Errors
/// No such volume, snapshot or pool, a name that cannot be or is taken, a limit that cannot be, a source that became smaller between its
/// snapshots or is no whole copy itself, more than the quotas have left, a cluster whose version does not know snapshots; the metadata is
/// suspected, away or refuses; or it is to be encrypted, and no key can be made.
pub fn copy_volume(meta: &dyn Transact, wish: &CopyWish<'_>) -> Result<Copying> {
    check_name("volume", wish.name)?;
    let bad = |why: String| AdminError::BadSetting {
        what: "volume",
        name: wish.name.to_owned(),
        why,
    };
    if let Some(limit) = wish.limit_bytes_per_s.filter(|limit| *limit < LEAST_LIMIT) {
        return Err(bad(format!(
            "a limit of {limit} bytes a second; {LEAST_LIMIT} are the fewest (`amita job pause` has a copy stand still)"
        )));
    }
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(format!(
            "the cluster's version is {version}, and copies need {SNAPSHOTS_SINCE}: all its programs must know of snapshots first \
             (`amita cluster finalize`)"
        )));
    }
    let (volume_name, snapshot_name) = split(wish.of)?;
    let (source, _) = find_volume(meta, volume_name)?;
    none_copies(meta, &source)?;
    none_moves_still(meta, &source)?;
    let named = match snapshot_name {
        Some(name) => Some(snapshot(meta, volume_name, name)?),
        None => {
            may_take_snapshot(meta, &source)?;
            None
        }
    };
    let last = named.as_ref().map(|named| named.number);
    let end_bytes = named.as_ref().map_or(source.size_bytes, |named| named.size_bytes);
    let mut sizes: Vec<u64> = Vec::new();
    if wish.snapshots {
        let all = of_chain(meta, &source)?;
        let until = last.unwrap_or(SnapshotId(u32::MAX));
        let points = plain_points(&all, SnapshotId::HEAD, until).filter(|found| Some(found.number) != last);
        sizes.extend(points.map(|found| found.size_bytes));
    }
    sizes.push(end_bytes);
    if !sizes.is_sorted() {
        return Err(bad(format!(
            "volume {volume_name} was made smaller between its snapshots, and a copy cannot follow that: leave --snapshots out"
        )));
    }
    let place = CopyPlace {
        last,
        total_bytes: sizes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)),
        ..CopyPlace::default()
    };
    let copying = |volume: VolumeId| Copying {
        volume,
        name: wish.name.to_owned(),
        source: source.host(),
        of: wish.of.to_owned(),
        snapshot: snapshot_name.map_or_else(|| format!("copy-{volume}"), str::to_owned),
        takes: snapshot_name.is_none(),
        snapshots: wish.snapshots,
        limit_bytes_per_s: wish.limit_bytes_per_s,
        asked_at: wish.now.as_secs(),
        cancelled: false,
        whole: false,
        paused: None,
        ails: None,
        moving: None,
        place,
    };
    let about = About {
        created_at: Some(wish.now.as_secs()),
        ..About::of(VolumeId(0))
    };
    let keys = match wish.encrypted || source.keys.is_some() {
        true => Some(maker(wish.keys).map_err(|why| why.of(wish.name))?),
        false => None,
    };
    // It holds the same, and is the same tenant's. By another number what is copied may be another one's.
    let whose = || {
        let (found, revision) = find_volume(meta, volume_name)?;
        // Another one may be called so by now.
        if found.host() != source.host() {
            return Err(AdminError::Changed);
        }
        let held = unchanged(&map::volume_key(volume_name), revision);
        Ok(Whose::of(meta, found.id)?.held_by(held))
    };
    let made = make_volume_and(
        meta,
        wish.name,
        wish.pool,
        sizes[0],
        Some(&about),
        (keys, &whose),
        &|volume| vec![put(map::copying_key(volume.id), &copying(volume.id))],
    )?;
    Ok(copying(made.id))
}

/// The copies that are to be made; what nobody can read is told of by whoever recovers it.
///
/// # Errors
/// The metadata is away.
pub fn copies(meta: &dyn Transact) -> Result<Vec<Copying>> {
    let reply = meta.txn(&Call::prefix(map::copying_prefix()))?;
    Ok(reply.values(0).iter().filter_map(|found| found.json().ok()).collect())
}

/// The copy that the volume of this number is to be; none: it is whole, or was taken back.
///
/// # Errors
/// The metadata is away, or the record is not readable.
pub fn copy_of(meta: &dyn Transact, volume: VolumeId) -> Result<Option<Copying>> {
    Ok(get::<Copying>(meta, &map::copying_key(volume))?.map(|(found, _)| found))
}

/// Fails where the volume is to be a copy, and is none yet. The record comes with the volume, so that what finds none here finds none later.
///
/// # Errors
/// It is none yet; the metadata is away, or the record is not readable.
pub fn none_copies(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    match copy_of(meta, volume.id)?.filter(|found| !found.whole) {
        None => Ok(()),
        Some(found) => Err(refused(&found)),
    }
}

fn refused(copying: &Copying) -> AdminError {
    AdminError::Copying {
        volume: copying.name.clone(),
        of: copying.of.clone(),
        job: copy_job_id(copying),
    }
}

/// A volume that is to be a copy goes only by that being taken back, and one that moves not before that.
pub(super) fn may_end(meta: &dyn Transact, fate: &Fate, volume: &Volume) -> Result<()> {
    end_is_allowed(meta, volume)?;
    match copy_of(meta, volume.id)?.filter(|found| !found.whole) {
        Some(found) if !(found.cancelled && matches!(fate, Fate::Purge { snapshots: true, .. })) => {
            Err(refused(&found))
        }
        _ => Ok(()),
    }
}

/// Takes a copy back: `false`: there is none, or it is whole, and stays. Whoever is at it removes the target.
///
/// # Errors
/// The metadata is away or refuses.
pub fn cancel_copy(meta: &dyn Transact, volume: VolumeId) -> Result<bool> {
    let changed = change(meta, volume, None, &|record| record.cancelled = !record.whole)?;
    Ok(changed.is_some_and(|found| found.cancelled))
}

/// Has a copy stand still, or go on; `false`: there is none that can.
///
/// # Errors
/// The metadata is away or refuses.
pub fn pause_copy(meta: &dyn Transact, volume: VolumeId, paused: Option<&Paused>) -> Result<bool> {
    let changed = change(meta, volume, None, &|record| record.paused = paused.cloned())?;
    Ok(changed.is_some_and(|found| !found.cancelled && !found.whole))
}

/// Notes something by a claim; none: the claim is lost, or there is no such copy any more.
///
/// # Errors
/// The metadata is away or refuses.
pub fn note_copy(
    meta: &dyn Transact,
    volume: VolumeId,
    claim: u64,
    by: &dyn Fn(&mut Copying),
) -> Result<Option<Copying>> {
    change(meta, volume, Some(claim), by)
}

fn change(
    meta: &dyn Transact,
    volume: VolumeId,
    claim: Option<u64>,
    by: &dyn Fn(&mut Copying),
) -> Result<Option<Copying>> {
    let key = map::copying_key(volume);
    for _ in tries(meta) {
        let Some((mut record, revision)) = get::<Copying>(meta, &key)? else {
            return Ok(None);
        };
        by(&mut record);
        let mut compares = vec![unchanged(&key, revision)];
        let copier = map::copier_key(volume);
        compares.extend(claim.map(|claim| unchanged(&copier, claim)));
        let call = Call {
            compares,
            then: vec![put(key.clone(), &record)],
            otherwise: vec![Op::Get { key: copier }],
        };
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Some(record));
        }
        let holds = reply.value(0).map(|found| found.mod_revision);
        if claim.is_some() && claim != holds {
            return Ok(None);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// What became of a copy whose passes are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is whole, and used as any volume from now on.
    Whole,
    /// Something of it has changed: what is next is asked anew.
    Anew,
    /// The claim is lost.
    Lost,
}

/// The passes are done: the target is whole, if nobody but who made it has had it, and the record says nothing else.
///
/// It is said in one transaction that compares the claim, the record and the target's: so nothing that somebody has written into the target
/// passes for the source's, and what is taken back in this moment is taken back. Where others have had the target, that is noted, and its
/// next pass writes all of it.
///
/// # Errors
/// It is of another size than what it is a copy of; the metadata is away or refuses.
pub fn complete_copy(meta: &dyn Transact, volume: VolumeId, claim: u64) -> Result<Completion> {
    let key = map::copying_key(volume);
    for _ in tries(meta) {
        let Some((mut record, revision)) = get::<Copying>(meta, &key)? else {
            return Ok(Completion::Lost);
        };
        if record.whole {
            return Ok(Completion::Whole);
        }
        let target_key = map::volume_key(&record.name);
        let target = get::<Volume>(meta, &target_key)?.filter(|(found, _)| found.id == volume);
        let (Some((target, target_revision)), Pass::Done, true) = (
            target,
            next_pass(meta, &record)?,
            !record.cancelled && record.paused.is_none(),
        ) else {
            return Ok(Completion::Anew);
        };
        let is_ours = target.generation <= record.place.generation;
        match is_ours {
            true => {
                is_of_its_size(meta, &record, &target)?;
                (record.whole, record.ails) = (true, None);
            }
            false => (record.place.mixed, record.place.pass_bytes) = (true, 0),
        }
        let copier = map::copier_key(volume);
        let call = Call {
            compares: vec![
                unchanged(&copier, claim),
                unchanged(&key, revision),
                unchanged(&target_key, target_revision),
            ],
            then: vec![put(key.clone(), &record)],
            otherwise: vec![Op::Get { key: copier }],
        };
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(if is_ours { Completion::Whole } else { Completion::Anew });
        }
        if reply.value(0).map(|found| found.mod_revision) != Some(claim) {
            return Ok(Completion::Lost);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Is the target as large as what it is a copy of? Where that is gone by now, nobody can tell.
fn is_of_its_size(meta: &dyn Transact, copying: &Copying, target: &Volume) -> Result<()> {
    let Some(source) = copy_source(meta, copying)? else {
        return Ok(());
    };
    let all = of_chain(meta, &source)?;
    let last = all.iter().find(|found| Some(found.number) == copying.place.last);
    match last.filter(|last| last.size_bytes != target.size_bytes) {
        None => Ok(()),
        Some(last) => Err(AdminError::BadSetting {
            what: "volume",
            name: target.name.clone(),
            why: format!(
                "it has {} bytes, and {}, of which it is to be a copy, has {}: take the copy back (`amita job cancel copy-{}`), and make \
                 another one",
                target.size_bytes, copying.of, last.size_bytes, copying.volume
            ),
        }),
    }
}

/// The copy is whole, and nothing was left of what was taken for it; or all of it is removed: its record goes. `false`: the claim is lost.
///
/// # Errors
/// The metadata is away or refuses.
pub fn end_copy(meta: &dyn Transact, volume: VolumeId, claim: u64) -> Result<bool> {
    let key = map::copying_key(volume);
    let call = Call {
        compares: vec![unchanged(&map::copier_key(volume), claim)],
        then: vec![Op::Delete { key }],
        otherwise: Vec::new(),
    };
    Ok(meta.txn(&call)?.succeeded)
}

/// The source, whatever it is called now; none: it is deleted.
///
/// # Errors
/// The metadata is away.
pub fn copy_source(meta: &dyn Transact, copying: &Copying) -> Result<Option<Volume>> {
    // Mostly it is called what it was.
    let (name, _) = split(&copying.of)?;
    let is_it = |found: &Volume| found.host() == copying.source;
    if let Some((found, _)) = get::<Volume>(meta, &map::volume_key(name))?.filter(|(found, _)| is_it(found)) {
        return Ok(Some(found));
    }
    Ok(volumes(meta)?.into_iter().find(is_it))
}

fn source(meta: &dyn Transact, copying: &Copying) -> Result<Volume> {
    copy_source(meta, copying)?.ok_or_else(|| AdminError::NoSuch {
        what: "volume",
        name: split(&copying.of)
            .map_or(copying.of.as_str(), |(name, _)| name)
            .to_owned(),
        there: Vec::new(),
    })
}

/// The target; none: it is gone.
///
/// # Errors
/// The metadata is away.
pub fn copy_target(meta: &dyn Transact, copying: &Copying) -> Result<Option<Volume>> {
    let found = get::<Volume>(meta, &map::volume_key(&copying.name))?;
    Ok(found.map(|(found, _)| found).filter(|found| found.id == copying.volume))
}

/// Is it the snapshot that was taken for this copy?
fn is_taken_for(copying: &Copying, found: &Snapshot) -> bool {
    found.labels.get(COPY_LABEL) == Some(&copying.volume.to_string())
}

/// Gets on with the snapshot that is taken for a copy: the snapshot, when it is taken, and protected. It is asked again until then.
///
/// # Errors
/// It cannot be taken, or another one has its name; the source is deleted; the claim is lost; the metadata is away or refuses.
pub fn take_copy_snapshot(
    meta: &dyn Transact,
    copying: &Copying,
    claim: u64,
    now: Duration,
) -> Result<Option<Snapshot>> {
    let source = source(meta, copying)?;
    let name = &copying.snapshot;
    if let Some(found) = taken(meta, &source, name)? {
        if !is_taken_for(copying, &found) {
            return Err(AdminError::Exists {
                what: "snapshot",
                name: format!("{}@{name}", source.name),
            });
        }
        return match found.protected {
            true => Ok(Some(found)),
            false => protect_snapshot(meta, &source.name, name, true).map(Some),
        };
    }
    let labels = || BTreeMap::from([(COPY_LABEL.to_owned(), copying.volume.to_string())]);
    ask_for(meta, &source, name, &labels, (&by_claim(copying, claim), None), now).map(|()| None)
}

/// The same for the last pass of a move: the owner holds from before it takes it, for so long at most.
///
/// # Errors
/// As [`take_copy_snapshot`].
pub fn take_last_snapshot(
    meta: &dyn Transact,
    copying: &Copying,
    claim: u64,
    hold: Duration,
    now: Duration,
) -> Result<Option<Snapshot>> {
    let source = source(meta, copying)?;
    if let Some(found) = taken(meta, &source, &copying.snapshot)?.filter(|found| is_taken_for(copying, found)) {
        return Ok(Some(found));
    }
    let labels = || BTreeMap::from([(COPY_LABEL.to_owned(), copying.volume.to_string())]);
    let hold_ms = u32::try_from(hold.as_millis()).unwrap_or(u32::MAX);
    let held = by_claim(copying, claim);
    ask_for(meta, &source, &copying.snapshot, &labels, (&held, Some(hold_ms)), now).map(|()| None)
}

/// What is done by a claim compares it.
pub(super) fn by_claim(copying: &Copying, claim: u64) -> [(String, u64); 1] {
    [(map::copier_key(copying.volume), claim)]
}

/// A snapshot is wished, if it is not yet. Where its owner has refused it, that is told once.
fn ask_for(
    meta: &dyn Transact,
    volume: &Volume,
    name: &str,
    labels: &dyn Fn() -> BTreeMap<String, String>,
    (held, hold_ms): (&Held, Option<u32>),
    now: Duration,
) -> Result<()> {
    // By the volume's number: it may have another name by now.
    let key = map::snapshot_wish_key(volume.id);
    let of = || format!("{}@{name}", volume.name);
    match get::<SnapshotWish>(meta, &key)?.filter(|(wish, _)| wish.name == name) {
        Some((SnapshotWish { refused: None, .. }, _)) => Ok(()),
        Some((SnapshotWish { refused: Some(why), .. }, revision)) => {
            remove_held(meta, &key, revision, held)?;
            Err(AdminError::BadSetting {
                what: "snapshot",
                name: of(),
                why,
            })
        }
        None => match ask_copys_snapshot(meta, &volume.name, name, (labels(), hold_ms), now, held) {
            // It was taken since it was looked for: who asks looks again, and finds whose it is.
            Ok(Some(_)) | Err(AdminError::Exists { .. }) => Ok(()),
            Ok(None) => Err(AdminError::BadSetting {
                what: "snapshot",
                name: of(),
                why: "another node is at the copy by now".to_owned(),
            }),
            Err(why) => Err(why),
        },
    }
}

/// Removes what is of this revision, if what is `held` is so still: was it?
fn remove_held(meta: &dyn Transact, key: &str, revision: u64, held: &Held) -> Result<bool> {
    let mut call = Call {
        compares: vec![unchanged(key, revision)],
        then: vec![Op::Delete { key: key.to_owned() }],
        otherwise: Vec::new(),
    };
    call.compares.extend(compares(held));
    Ok(meta.txn(&call)?.succeeded)
}

/// The source, whatever it is called now, also where it is deleted and kept for a time: what was taken of it is there still.
fn kept_source(meta: &dyn Transact, copying: &Copying) -> Result<Option<Volume>> {
    match copy_source(meta, copying)? {
        Some(found) => Ok(Some(found)),
        // What it was before it was reverted has its number for hosts as well.
        None => Ok(with_deleted(meta)?
            .into_iter()
            .find(|found| found.host() == copying.source && !found.is_former())),
    }
}

/// The snapshot that was taken for a copy goes, or is not taken any more.
///
/// # Errors
/// It is used by others; the metadata is suspected, away or refuses.
pub fn remove_copy_snapshot(meta: &dyn Transact, copying: &Copying) -> Result<()> {
    for _ in tries(meta) {
        let Some(source) = kept_source(meta, copying)?.filter(|_| copying.takes) else {
            return Ok(());
        };
        let key = map::snapshot_wish_key(source.id);
        let standing = get::<SnapshotWish>(meta, &key)?;
        let is_ours = |wish: &SnapshotWish| {
            wish.name == copying.snapshot && wish.labels.get(COPY_LABEL) == Some(&copying.volume.to_string())
        };
        if let Some((_, revision)) = standing.filter(|(wish, _)| is_ours(wish))
            && !remove_held(meta, &key, revision, &[])?
        {
            continue;
        }
        is_not_being_taken(meta, copying)?;
        let found = taken(meta, &source, &copying.snapshot)?;
        let Some(found) = found.filter(|found| is_taken_for(copying, found)) else {
            return Ok(());
        };
        let of: (&str, Find) = (&source.name, find_kept);
        let gone = match found.protected {
            true => protect_of(meta, of, &found.name, false, &[]).map(drop),
            false => Ok(()),
        };
        let is_it = |other: &Snapshot| is_taken_for(copying, other);
        let gone = gone.and_then(|()| delete_of(meta, of, &found.name, &is_it, &[], Left::Nothing).map(drop));
        match gone {
            Ok(()) => return Ok(()),
            // Somebody has protected it anew meanwhile, or has removed it; or the source has another name by now.
            Err(AdminError::Protected { .. } | AdminError::NoSuch { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::copying_key(copying.volume),
    })
}

/// What its owner has begun may be taken though nobody wishes it any more: that is waited for, or until the owner is deposed.
fn is_not_being_taken(meta: &dyn Transact, copying: &Copying) -> Result<()> {
    let Some(source) = copy_source(meta, copying)?.filter(|source| source.lineage.taking) else {
        return Ok(());
    };
    let key = map::snapshot_key(source.id, source.lineage.number);
    match get::<Snapshot>(meta, &key)?.filter(|(found, _)| found.name == copying.snapshot) {
        None => Ok(()),
        Some(_) => Err(AdminError::BadSetting {
            what: "snapshot",
            name: format!("{}@{}", source.name, copying.snapshot),
            why: "it is being taken at this moment".to_owned(),
        }),
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The target is made what this snapshot is.
    To {
        /// VOLUME@SNAPSHOT.
        of: String,
        snapshot: Snapshot,
        /// The name of the snapshot that the target is, where what was changed since can be told.
        base: Option<String>,
    },
    /// The target is what it is to be.
    Done,
}

/// The snapshots that a copy, or a move, has, but for those that were taken for copies (for a move: for this one): behind one, and up to one.
pub(super) fn points<'a>(
    all: &'a [Snapshot],
    copying: &Copying,
    behind: SnapshotId,
    until: SnapshotId,
) -> Box<dyn Iterator<Item = &'a Snapshot> + 'a> {
    if copying.moving.is_none() {
        return Box::new(plain_points(all, behind, until));
    }
    let target = copying.volume;
    let is_one = move |found: &&Snapshot| {
        found.number > behind
            && (found.number < until && is_point(found, Some(target)) || found.number == until && is_point(found, None))
    };
    Box::new(all.iter().filter(is_one))
}

fn plain_points(all: &[Snapshot], behind: SnapshotId, until: SnapshotId) -> impl Iterator<Item = &Snapshot> {
    let lives = |found: &&Snapshot| is_sealed(found) && !found.hidden && !found.mark;
    let is_one = move |found: &&Snapshot| {
        found.number > behind
            && (found.number == until || found.number < until && !found.labels.contains_key(COPY_LABEL))
    };
    all.iter().filter(lives).filter(is_one)
}

/// What is to be done next, when it is known what the copy is to be in the end.
///
/// # Errors
/// The source, or the snapshot that the copy is to be in the end, is deleted, or is not taken yet; the metadata is away.
pub fn next_pass(meta: &dyn Transact, copying: &Copying) -> Result<Pass> {
    let place = &copying.place;
    let gone = |volume: &str| AdminError::NoSuch {
        what: "snapshot",
        name: format!("{volume}@{}", copying.snapshot),
        there: Vec::new(),
    };
    let Some(last) = place.last else {
        return Err(gone(&copying.of));
    };
    if place.base == last && !place.mixed {
        return Ok(Pass::Done);
    }
    let source = source(meta, copying)?;
    let all = of_chain(meta, &source)?;
    // What the target holds may have to be written anew, also where it was the last one already.
    let behind = if place.base == last {
        SnapshotId::HEAD
    } else {
        place.base
    };
    let mut ahead = points(&all, copying, behind, last).filter(|found| copying.snapshots || found.number == last);
    if !points(&all, copying, behind, last).any(|found| found.number == last) {
        return Err(gone(&source.name));
    }
    let next = match place.base == last {
        true => ahead.find(|found| found.number == last),
        false => ahead.next(),
    };
    let Some(next) = next else {
        return Err(gone(&source.name));
    };
    // A mark is good enough to compare with.
    let base = all.iter().find(|found| {
        found.number == place.base
            && is_sealed(found)
            && !found.hidden
            && found.volume == next.volume
            && found.size_bytes <= next.size_bytes
    });
    Ok(Pass::To {
        of: format!("{}@{}", source.name, next.name),
        snapshot: next.clone(),
        base: base.filter(|_| !place.mixed).map(|found| found.name.clone()),
    })
}
