//! Volumes that move to another pool, or are written anew in their own (decision 080, M1 to M8): what operators ask for, and what whoever is at a
//! move notes.
//!
//! A move is a copy of all snapshots, and of what is newer, into a volume of the other pool that has no name yet; and then the switch
//! ([`switch`]), one transaction by which that volume is the one that the name stands for. The record is a copy's
//! ([`Copying::moving`]), its target is held against all use as a copy's is (P5), and whoever is at it holds the same key. The volume's own record says that
//! it moves ([`Lineage::moving`](map::Lineage::moving)): what would not fit with that is refused by it, and compares it.
//!
//! The target has data keys of its own. So a move within a pool is how all of a volume, its snapshots included, gets a new data key, is encrypted, or
//! is so no more. It is the same volume, which is there twice for a time: quotas count it once ([`is_second`]).

mod converge;
mod points;
mod switch;

pub use converge::{Converging, Lap, Next};
pub(super) use points::count_on;
pub use points::{Dressed, dress_move, end_move, forget_move_snapshots, is_number_free};
pub use switch::{Switched, may_switch, switch_volume};

use super::copy::{COPY_LABEL, LEAST_LIMIT, none_copies, points as points_of};
use super::keys::{DataKeys, Whose, maker};
use super::mirror::{mirror_of, none_closed};
use super::quota::Wanted;
use super::snapshot::{has_room, of_chain};
use super::subsystem::{put, unchanged};
use super::volume::{find_volume, make_target};
use super::{AdminError, JobKind, Result, cluster, copy_of, copy_source, get, note_copy, tries};
use crate::access::Action;
use amita_metadata::{Call, Transact};
use amita_types::map::{self, About, CopyPlace, Copying, Moving, Pool, SNAPSHOTS_SINCE, Slowed, Snapshot, Volume};
use amita_types::{SnapshotId, VolumeId};
use std::time::Duration;

/// What is to move, and where to.
#[derive(Clone, Debug)]
pub struct MigrateWish<'a> {
    /// The volume's name.
    pub volume: &'a str,
    /// The pool that is to hold it; none: its own, in which it is written anew.
    pub pool: Option<&'a str>,
    /// What it is to be then.
    pub at_rest: AtRest,
    /// At most so many bytes a second are read.
    pub limit_bytes_per_s: Option<u64>,
    /// What makes the data key of what is to be encrypted.
    pub keys: Option<&'a dyn DataKeys>,
    /// Since 1970.
    pub now: Duration,
}

/// What a volume that moves is to be at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtRest {
    /// Encrypted if it is: by a data key of its own.
    #[default]
    AsItIs,
    /// Encrypted, whatever it is.
    Encrypted,
    /// In the clear, whatever it is.
    Plain,
}

impl From<Option<bool>> for AtRest {
    /// Is it said, and to be encrypted?
    fn from(encrypted: Option<bool>) -> AtRest {
        match encrypted {
            None => AtRest::AsItIs,
            Some(true) => AtRest::Encrypted,
            Some(false) => AtRest::Plain,
        }
    }
}

impl AtRest {
    fn is_encrypted(self, source: &Volume) -> bool {
        match self {
            AtRest::AsItIs => source.keys.is_some(),
            AtRest::Encrypted => true,
            AtRest::Plain => false,
        }
    }
}

/// As what it stands in the audit log. What is encrypted is never had in the clear by whoever may only move it.
#[must_use]
pub fn migrate_action(pool: Option<&str>, at_rest: AtRest) -> Action {
    match (at_rest, pool) {
        (AtRest::Plain, _) => Action::VolumeDecrypt,
        (_, None) => Action::VolumeRekey,
        (_, Some(_)) => Action::VolumeMigrate,
    }
}

/// For so long the owner holds at first. Where two last passes in a row were not made in time, for twice as long; and at once for as long as one
/// needs that was measured.
const HOLD: Duration = Duration::from_millis(30);
/// And so often.
const MOST_DOUBLINGS: u32 = 5;
/// Never for longer: hosts must not wait for as long as a core may stand still unnoticed (R9: 1 s, `stale_after`). What one core of a gateway has
/// taken in, and another one has under its hand, is carried out no later than that, for its host may have gone on by another path; an older one ends
/// as a path's error, and whoever has one path alone, by NBD, would see an error of I/O. The rest of the second is for the two calls of the metadata
/// by which an owner whose time is up lets go.
pub const LONGEST_HOLD: Duration = Duration::from_millis(720);

/// How long its owner is to hold for a last pass (M4), which is expected to take so long with the switch.
#[must_use]
pub fn move_hold(moving: Moving, expected: Duration) -> Duration {
    let hold = HOLD * (1 << (moving.late / 2).max(doublings(expected)).min(MOST_DOUBLINGS));
    hold.min(LONGEST_HOLD)
}

/// So often 30 ms are doubled to be as long.
fn doublings(needed: Duration) -> u32 {
    (0..MOST_DOUBLINGS)
        .find(|doublings| HOLD * (1 << doublings) >= needed)
        .unwrap_or(MOST_DOUBLINGS)
}

pub(super) fn bad(volume: &str, why: impl Into<String>) -> AdminError {
    AdminError::BadSetting {
        what: "volume",
        name: volume.to_owned(),
        why: why.into(),
    }
}

/// The id of the job of a copy, or of a move.
#[must_use]
pub fn copy_job_id(copying: &Copying) -> String {
    format!("{}-{}", copy_job_kind(copying).name(), copying.volume)
}

/// What is done.
pub(super) fn copy_job_kind(copying: &Copying) -> JobKind {
    match copying.moving {
        None => JobKind::Copy,
        Some(Moving { same_pool: false, .. }) => JobKind::Migrate,
        Some(Moving { same_pool: true, .. }) => JobKind::Rekey,
    }
}

/// Is the volume what another one of its pool is to be by another data key? Then it is there twice for a time, and is asked for once.
pub(super) fn is_second(meta: &dyn Transact, volume: &Volume) -> Result<bool> {
    let record = match map::is_moving_name(&volume.name) {
        true => copy_of(meta, volume.id)?,
        false => None,
    };
    Ok(record.is_some_and(|record| copy_job_kind(&record) == JobKind::Rekey))
}

fn refused(volume: &Volume, record: &Copying) -> AdminError {
    AdminError::Moving {
        volume: volume.name.clone(),
        what: match copy_job_kind(record) {
            JobKind::Rekey => "is being written anew",
            _ => "is being moved to another pool",
        },
        job: copy_job_id(record),
    }
}

/// Fails where the volume moves: what is about to be done would not fit with that.
///
/// # Errors
/// It moves; the metadata is away.
pub fn none_moves(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    let Some(target) = volume.lineage.moving else {
        return Ok(());
    };
    Err(match copy_of(meta, target)? {
        Some(record) => refused(volume, &record),
        // It was taken back, and what the volume says is left over, or it came to its end this moment.
        None => AdminError::Moving {
            volume: volume.name.clone(),
            what: "was being moved this moment",
            job: format!("{}-{target}", JobKind::Migrate.name()),
        },
    })
}

/// Fails also where it has moved, and what is left of that is being tidied up: the names of its snapshots are written anew.
///
/// # Errors
/// It moves, or has moved this moment; the metadata is away.
pub fn none_moves_still(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    none_moves(meta, volume)?;
    match copy_of(meta, volume.id)?.filter(|record| record.moving.is_some()) {
        None => Ok(()),
        Some(record) => Err(refused(volume, &record)),
    }
}

/// One that moves is not deleted, and gets no other name, before that is taken back or at its end. What goes by being taken back is the target.
pub(super) fn end_is_allowed(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    match volume.lineage.moving {
        None => Ok(()),
        // The record goes last: where it is gone, what the volume says is left over.
        Some(target) => match copy_of(meta, target)? {
            None => Ok(()),
            Some(record) => Err(refused(volume, &record)),
        },
    }
}

/// Makes the volume that it is to be there, and says that it moves: a node moves it.
///
/// # Errors
/// No such volume or pool, or it is in that pool, or that has smaller chunks; it is to be written anew in its pool as the plain volume that it is; it is
/// to be a copy and is none yet, moves already, or is mirrored; an image is copied into it, or it is made
/// smaller; a snapshot of it is a namespace or a LUN; it became smaller between its snapshots; a limit that cannot be; more than the quotas
/// have left; a cluster whose version does not know snapshots; no key can be made; the metadata is suspected, away or refuses.
pub fn migrate_volume(meta: &dyn Transact, wish: &MigrateWish<'_>) -> Result<Copying> {
    let name = wish.volume;
    can_be(meta, wish)?;
    for _ in tries(meta) {
        let (source, revision) = find_volume(meta, name)?;
        let pool = wish.pool.unwrap_or(&source.pool);
        // Whoever makes it smaller marks that there, and looks behind the mark whether it moves.
        let about_key = map::about_key(source.id);
        let about_revision = get::<About>(meta, &about_key)?.map_or(0, |(_, revision)| revision);
        may_move(meta, &source, wish)?;
        let total_bytes = sizes(meta, &source)?;
        let keys = keys_for(wish, &source)?;
        let record = |target: VolumeId| begun(&source, target, total_bytes, wish);
        let about = About {
            created_at: Some(wish.now.as_secs()),
            ..About::of(VolumeId(0))
        };
        // It says which it becomes from when that is there on: whoever does something else with it has read, and compares, what it was.
        let with = |target: &Volume| {
            let mut moving = source.clone();
            moving.lineage.moving = Some(target.id);
            Call {
                compares: vec![
                    unchanged(&map::volume_key(name), revision),
                    unchanged(&about_key, about_revision),
                ],
                then: vec![
                    put(map::copying_key(target.id), &record(target.id)),
                    put(map::volume_key(name), &moving),
                ],
                otherwise: Vec::new(),
            }
        };
        let counted = match wish.pool {
            Some(_) => Wanted::volume(source.size_bytes, 0),
            None => Wanted::default(),
        };
        let keys = (keys, &(|| Whose::of(meta, source.id)) as &dyn Fn() -> Result<Whose>);
        if let Some(target) = make_target(meta, (pool, counted), source.size_bytes, &about, keys, &with)? {
            return Ok(record(target.id));
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

/// Could it be begun now? The volume.
///
/// # Errors
/// As [`migrate_volume`], but for what is only known when the target is made: quotas, and whether its key can be.
pub fn may_migrate(meta: &dyn Transact, wish: &MigrateWish<'_>) -> Result<Volume> {
    can_be(meta, wish)?;
    let (source, _) = find_volume(meta, wish.volume)?;
    may_move(meta, &source, wish)?;
    sizes(meta, &source)?;
    keys_for(wish, &source)?;
    Ok(source)
}

/// What makes its key; none: it needs none.
fn keys_for<'a>(wish: &MigrateWish<'a>, source: &Volume) -> Result<Option<&'a dyn DataKeys>> {
    match wish.at_rest.is_encrypted(source) {
        true => maker(wish.keys).map(Some).map_err(|why| why.of(wish.volume)),
        false => Ok(None),
    }
}

/// Can it be wished, whatever the volume?
fn can_be(meta: &dyn Transact, wish: &MigrateWish<'_>) -> Result<()> {
    let name = wish.volume;
    if let Some(limit) = wish.limit_bytes_per_s.filter(|limit| *limit < LEAST_LIMIT) {
        return Err(bad(
            name,
            format!(
                "a limit of {limit} bytes a second; {LEAST_LIMIT} are the fewest (`amita job pause` has a move stand still)"
            ),
        ));
    }
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(
            name,
            format!(
                "the cluster's version is {version}, and moves need {SNAPSHOTS_SINCE}: all its programs must know of snapshots first \
                 (`amita cluster finalize`)"
            ),
        ));
    }
    Ok(())
}

fn may_move(meta: &dyn Transact, source: &Volume, wish: &MigrateWish<'_>) -> Result<()> {
    let name = &source.name;
    none_copies(meta, source)?;
    none_moves_still(meta, source)?;
    none_closed(source)?;
    if let Some(mirror) = mirror_of(meta, source.host())? {
        return Err(AdminError::Mirrored {
            volume: name.clone(),
            mirror: mirror.name,
        });
    }
    match wish.pool {
        None => is_anew(source, wish.at_rest)?,
        Some(pool) if pool == source.pool => {
            let why = format!(
                "it is in pool {pool} already (`amita volume rekey {name}` writes it anew there, by a new data key)"
            );
            return Err(bad(name, why));
        }
        Some(pool) => has_large_chunks(meta, source, pool)?,
    }
    fits(meta, source)?;
    has_room(meta, source, "")
}

/// Would it be another one, if it were written anew?
fn is_anew(source: &Volume, at_rest: AtRest) -> Result<()> {
    match (&source.keys, at_rest) {
        (None, AtRest::AsItIs) => Err(bad(
            &source.name,
            "it is not encrypted, and has no data key: `--encrypted` encrypts it",
        )),
        (None, AtRest::Plain) => Err(bad(&source.name, "it is not encrypted")),
        (Some(_), _) | (None, AtRest::Encrypted) => Ok(()),
    }
}

fn has_large_chunks(meta: &dyn Transact, source: &Volume, pool: &str) -> Result<()> {
    let name = &source.name;
    let chunk_bytes = |pool: &str| -> Result<Option<u32>> {
        Ok(get::<Pool>(meta, &map::pool_key(pool))?.map(|(pool, _)| pool.chunk_bytes))
    };
    // What hosts have under way, and will have by what they have open, is cut at the borders of its chunks as they are.
    if let (Some(now), Some(then)) = (chunk_bytes(&source.pool)?, chunk_bytes(pool)?)
        && then < now
    {
        return Err(bad(
            name,
            format!(
                "its pool has chunks of {now} bytes, and pool {pool} has smaller ones, of {then}: what hosts have open would be cut at other \
                 borders. Copy it there (`amita volume copy`), and have hosts open the copy"
            ),
        ));
    }
    Ok(())
}

/// What speaks against a move for as long as it is so; none: nothing does.
pub(super) fn fits(meta: &dyn Transact, source: &Volume) -> Result<()> {
    let name = &source.name;
    let about = get::<About>(meta, &map::about_key(source.id))?.map(|(about, _)| about);
    if about.as_ref().is_some_and(|about| about.import.is_some()) {
        return Err(bad(name, "an image is being copied into it, or was not to its end"));
    }
    if about.is_some_and(|about| about.shrink.is_some()) {
        return Err(bad(name, "it is being made smaller, and that is not at its end"));
    }
    switch::no_snapshot_is_used(meta, source)
}

/// All bytes that passes will go through at least.
fn sizes(meta: &dyn Transact, source: &Volume) -> Result<u64> {
    let all = of_chain(meta, source)?;
    let points = all.iter().filter(|found| is_point(found, None));
    let sizes: Vec<u64> = points
        .map(|found| found.size_bytes)
        .chain([source.size_bytes])
        .collect();
    match sizes.is_sorted() {
        true => Ok(sizes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))),
        false => Err(bad(
            &source.name,
            format!(
                "it was made smaller since one of its snapshots, and a move cannot follow that: delete the larger ones (`amita volume snapshot \
                 list {}`)",
                source.name
            ),
        )),
    }
}

/// Is it a snapshot that moves with its volume, and not one that is taken for this move?
pub(super) fn is_point(found: &Snapshot, target: Option<VolumeId>) -> bool {
    let own = target.map(|target| target.to_string());
    super::snapshot::is_sealed(found)
        && !found.hidden
        && !found.mark
        && (own.is_none() || found.labels.get(COPY_LABEL) != own.as_ref())
}

fn begun(source: &Volume, target: VolumeId, total_bytes: u64, wish: &MigrateWish<'_>) -> Copying {
    Copying {
        volume: target,
        name: map::moving_name(target),
        source: source.host(),
        of: source.name.clone(),
        snapshot: snapshot_name(target, 1),
        takes: true,
        snapshots: true,
        limit_bytes_per_s: wish.limit_bytes_per_s,
        asked_at: wish.now.as_secs(),
        cancelled: false,
        whole: false,
        paused: None,
        ails: None,
        moving: Some(Moving {
            data: source.id,
            taken: 1,
            late: 0,
            same_pool: wish.pool.is_none(),
            slowed: None,
        }),
        place: CopyPlace {
            total_bytes,
            ..CopyPlace::default()
        },
    }
}

/// The name of the snapshots that are taken for a move, in turn.
fn snapshot_name(target: VolumeId, turn: u32) -> String {
    format!("migrate-{target}-{turn}")
}

/// There is to be another pass: its snapshot is to be taken next, under a name of its own. `late`: the last pass was not made in time, and took so
/// long with what came before and behind it; the next one is held for half as long again. `slow`: until it is said otherwise hosts write no more than
/// so many bytes a second; none: they are not slowed. None: the claim is lost, or there is no such move.
///
/// # Errors
/// The metadata is away or refuses.
pub fn next_move_pass(
    meta: &dyn Transact,
    volume: VolumeId,
    claim: u64,
    late: Option<Duration>,
    slow: Option<u64>,
) -> Result<Option<Copying>> {
    note_copy(meta, volume, claim, &|record| {
        let Some(moving) = &mut record.moving else { return };
        moving.slowed = slow.map(|bytes_per_s| Slowed { bytes_per_s, by: claim });
        moving.taken = moving.taken.saturating_add(1);
        if let Some(took) = late {
            // As many as it takes until the hold is that long.
            moving.late = moving.late.saturating_add(1).max(2 * doublings(took + took / 2));
        }
        record.snapshot = snapshot_name(volume, moving.taken);
        record.place.last = None;
    })
}

/// The snapshots that the target has to become before it is what a later one is, in order; the one that it is to be at last included.
///
/// # Errors
/// The source is gone; the metadata is away.
pub fn points_ahead(meta: &dyn Transact, copying: &Copying, until: SnapshotId) -> Result<Vec<Snapshot>> {
    let source = source_of(meta, copying)?;
    let all = of_chain(meta, &source)?;
    Ok(points_of(&all, copying, copying.place.base, until).cloned().collect())
}

pub(super) fn source_of(meta: &dyn Transact, copying: &Copying) -> Result<Volume> {
    copy_source(meta, copying)?.ok_or_else(|| AdminError::NoSuch {
        what: "volume",
        name: copying.of.clone(),
        there: Vec::new(),
    })
}

/// The move is taken back: its volume's record does not say any more that it moves. `false`: the claim is lost.
///
/// # Errors
/// The metadata is away or refuses.
pub fn stay_in_pool(meta: &dyn Transact, copying: &Copying, claim: u64) -> Result<bool> {
    let copier = map::copier_key(copying.volume);
    for _ in tries(meta) {
        let moves = |found: &Volume| found.lineage.moving == Some(copying.volume);
        let Some(source) = super::volume::with_deleted(meta)?.into_iter().find(moves) else {
            return Ok(true);
        };
        let key = map::volume_key(&source.name);
        let Some((mut source, revision)) = get::<Volume>(meta, &key)?.filter(|(found, _)| moves(found)) else {
            continue;
        };
        source.lineage.moving = None;
        let call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&copier, claim)],
            then: vec![put(key, &source)],
            otherwise: vec![amita_metadata::Op::Get { key: copier.clone() }],
        };
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(true);
        }
        if reply.value(0).map(|found| found.mod_revision) != Some(claim) {
            return Ok(false);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::copying_key(copying.volume),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving(taken: u32, late: u32) -> Moving {
        Moving {
            data: VolumeId(1),
            taken,
            late,
            same_pool: false,
            slowed: None,
        }
    }

    #[test]
    fn who_comes_late_holds_for_longer_but_never_for_long() {
        let of = |late| move_hold(moving(1, late), Duration::ZERO).as_millis();
        assert_eq!([0, 1, 2, 3, 4].map(of), [30, 30, 60, 60, 120]);
        assert_eq!(of(u32::MAX), LONGEST_HOLD.as_millis());
        assert_eq!(LONGEST_HOLD.as_millis(), 720);
    }

    /// None that is known to be too short.
    #[test]
    fn a_hold_is_as_long_as_is_expected() {
        let of = |late, ms| move_hold(moving(1, late), Duration::from_millis(ms)).as_millis();
        assert_eq!(
            [0, 30, 31, 200, 480, 481, 5_000].map(|ms| of(0, ms)),
            [30, 30, 60, 240, 480, 720, 720]
        );
        assert_eq!(of(6, 31), 240);
    }
}
