//! Snapshots of volumes: the operator wishes one, the volume's owner takes it.

use super::copy::none_copies;
use super::lun::not_a_lun;
use super::migrate::is_second;
use super::mirror::{none_closed, none_closed_to, unmirrored};
use super::namespace::use_of;
use super::quota::{Tally, Wanted, charge_by, snapshots_of};
use super::subsystem::{all_subsystems, put, unchanged, uses_guard};
use super::volume::{believable, find_volume};
use super::{AdminError, Result, cluster, get, names_under, parse, tries};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, MAX_MARKS, SNAPSHOTS_SINCE, Snapshot, SnapshotName, SnapshotState, SnapshotWish, Volume};
use amita_types::{MirrorId, SnapshotId};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is left of a snapshot that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing: or, where volumes were cloned from it, it is hidden for as long as they need it.
    Nothing,
    /// Its name, and a mark: what was changed since can be told still.
    Mark,
}

/// The most snapshots of a volume.
pub const MAX_VOLUME_SNAPSHOTS: u64 = 16_384;

/// What has become of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakingState {
    /// It is taken, and never changes any more.
    Taken(Snapshot),
    /// Not yet.
    Waiting,
    /// The owner says why it cannot be.
    Refused(String),
    /// The wish is gone, and there is no such snapshot.
    Dropped,
}

/// Wishes a snapshot of a volume. One at a time may be wished of each volume.
///
/// # Errors
/// No such volume, or one that is to be a copy and is none yet, a name or a label that cannot be, a name that is taken, another snapshot that
/// is being taken, a cluster whose version does not know snapshots; the metadata is away or refuses.
pub fn ask_snapshot(
    meta: &dyn Transact,
    volume: &str,
    name: &str,
    labels: BTreeMap<String, String>,
    now: Duration,
) -> Result<SnapshotWish> {
    if let Some(own) = labels.keys().find(|key| key.starts_with(map::OWN_LABELS)) {
        return Err(AdminError::BadSetting {
            what: "snapshot",
            name: format!("{volume}@{name}"),
            why: format!(
                "only Amita itself gives labels that begin with {}, as {own:?} does",
                map::OWN_LABELS
            ),
        });
    }
    ask_own_snapshot(meta, volume, name, labels, now)
}

/// The same for Amita itself, which may give it any labels.
///
/// # Errors
/// As [`ask_snapshot`].
pub fn ask_own_snapshot(
    meta: &dyn Transact,
    volume: &str,
    name: &str,
    labels: BTreeMap<String, String>,
    now: Duration,
) -> Result<SnapshotWish> {
    ask(meta, volume, name, (labels, None), now, By::Anybody)?.ok_or_else(|| AdminError::TooManyRaces {
        key: map::volume_key(volume),
    })
}

/// The same by a runner of this mirror, of what may be closed for it.
///
/// # Errors
/// As [`ask_snapshot`].
pub fn ask_mirrors_snapshot(
    meta: &dyn Transact,
    volume: &str,
    name: &str,
    labels: BTreeMap<String, String>,
    now: Duration,
    mirror: MirrorId,
) -> Result<SnapshotWish> {
    ask(meta, volume, name, (labels, None), now, By::Mirror(mirror))?.ok_or_else(|| AdminError::TooManyRaces {
        key: map::volume_key(volume),
    })
}

/// The same by whoever makes the volume a copy, for as long as these are `held`; none: they are not. With the labels goes for how many
/// milliseconds its owner is to hold, where it is.
///
/// # Errors
/// As [`ask_snapshot`].
pub(super) fn ask_copys_snapshot(
    meta: &dyn Transact,
    volume: &str,
    name: &str,
    labels: (BTreeMap<String, String>, Option<u32>),
    now: Duration,
    held: &Held,
) -> Result<Option<SnapshotWish>> {
    ask(meta, volume, name, labels, now, By::Copier(held))
}

/// Who wishes a snapshot.
#[derive(Clone, Copy)]
enum By<'a> {
    Anybody,
    /// Who makes the volume a copy, for as long as these are held.
    Copier(&'a Held),
    /// A runner of this mirror.
    Mirror(MirrorId),
}

fn ask(
    meta: &dyn Transact,
    volume: &str,
    name: &str,
    (labels, hold_ms): (BTreeMap<String, String>, Option<u32>),
    now: Duration,
    by: By<'_>,
) -> Result<Option<SnapshotWish>> {
    let wish = SnapshotWish {
        volume: volume.to_owned(),
        name: name.to_owned(),
        asked_at: now.as_secs(),
        labels,
        refused: None,
        hold_ms,
    };
    let bad = |why: String| AdminError::BadSetting {
        what: "snapshot",
        name: format!("{volume}@{name}"),
        why,
    };
    wish.check().map_err(bad)?;
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(format!(
            "the cluster's version is {version}, and snapshots need {SNAPSHOTS_SINCE}: all its programs must know of them first"
        )));
    }
    for _ in tries(meta) {
        let (found, revision) = find_volume(meta, volume)?;
        if taken(meta, &found, name)?.is_some() {
            return Err(AdminError::Exists {
                what: "snapshot",
                name: format!("{volume}@{name}"),
            });
        }
        let key = map::snapshot_wish_key(found.id);
        let before = get::<SnapshotWish>(meta, &key)?;
        if let Some((other, _)) = before.as_ref().filter(|(other, _)| other.refused.is_none()) {
            return Err(AdminError::BeingTaken {
                of: format!("{volume}@{name}"),
                what: "snapshot of the volume",
                other: other.name.clone(),
            });
        }
        let before = before.map_or(0, |(_, revision)| revision);
        let (found, tally) = ((&found, revision), &mut Tally::default());
        let is_placed = match by {
            By::Anybody => place_wish(meta, &wish, found, before, &[], tally)?,
            By::Copier(held) => put_wish(meta, &wish, found, before, (held, None), tally)?,
            By::Mirror(mirror) => {
                none_copies(meta, found.0)?;
                put_wish(meta, &wish, found, before, (&[], Some(mirror)), tally)?
            }
        };
        if is_placed {
            return Ok(Some(wish));
        }
        let By::Copier(held) = by else { continue };
        for (key, revision) in held {
            if meta
                .txn(&Call::get(key.clone()))?
                .value(0)
                .map_or(0, |now| now.mod_revision)
                != *revision
            {
                return Ok(None);
            }
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(volume),
    })
}

/// Keys, and the revisions that they must have still for something to be done; 0: there is none. What is done by them compares them in the
/// transaction that does it.
pub(crate) type Held = [(String, u64)];

/// How a volume is found: those by name leave out what is deleted and kept for a time.
pub(super) type Find = fn(&dyn Transact, &str) -> Result<(Volume, u64)>;

/// Puts a wish there, if the volume's record, the wish that was there before and what is `held` are still of these revisions; false: they
/// are not.
///
/// # Errors
/// The volume is to be a copy, and is none yet; it has as many snapshots as it can, or its pool's quota allows no more; the metadata is away or
/// refuses.
pub(crate) fn place_wish(
    meta: &dyn Transact,
    wish: &SnapshotWish,
    (volume, revision): (&Volume, u64),
    before: u64,
    held: &Held,
    tally: &mut Tally,
) -> Result<bool> {
    none_copies(meta, volume)?;
    put_wish(meta, wish, (volume, revision), before, (held, None), tally)
}

fn put_wish(
    meta: &dyn Transact,
    wish: &SnapshotWish,
    (volume, revision): (&Volume, u64),
    before: u64,
    (held, runs): (&Held, Option<MirrorId>),
    tally: &mut Tally,
) -> Result<bool> {
    none_closed_to(volume, runs)?;
    has_room(meta, volume, &wish.name)?;
    let key = map::snapshot_wish_key(volume.id);
    let mut call = Call {
        compares: vec![
            unchanged(&map::volume_key(&volume.name), revision),
            unchanged(&key, before),
        ],
        then: vec![put(key, wish)],
        otherwise: Vec::new(),
    };
    call.compares.extend(compares(held));
    let wanted = match is_second(meta, volume)? {
        true => Wanted::default(),
        false => ONE,
    };
    let charge = charge_by(meta, &volume.pool, wanted, tally)?;
    let counted = charge.counted;
    charge.into_call(&mut call);
    let reply = meta.txn(&call)?;
    if reply.succeeded {
        tally.done(counted, reply.revision);
    }
    Ok(reply.succeeded)
}

/// May it have another snapshot?
pub(super) fn has_room(meta: &dyn Transact, volume: &Volume, name: &str) -> Result<()> {
    has_room_for(meta, volume, name, 1)
}

/// May it have so many more?
pub(super) fn has_room_for(meta: &dyn Transact, volume: &Volume, name: &str, more: u64) -> Result<()> {
    // It has no more than were ever taken: mostly nothing need be counted.
    let there = match u64::from(volume.lineage.number.0) {
        ever if ever.saturating_add(more) <= MAX_VOLUME_SNAPSHOTS => ever,
        _ => {
            let found = snapshots_of(meta, volume)?;
            found.asked + found.hidden
        }
    };
    let name = match name {
        "" => volume.name.clone(),
        name => format!("{}@{name}", volume.name),
    };
    match there.saturating_add(more) > MAX_VOLUME_SNAPSHOTS {
        true => Err(AdminError::BadSetting {
            what: "snapshot",
            name,
            why: format!(
                "the volume has {there} snapshots, and {MAX_VOLUME_SNAPSHOTS} are the most, with those that were deleted and clones \
                 hold; delete some (`amita volume snapshot delete`)"
            ),
        }),
        false => Ok(()),
    }
}

/// What one more snapshot asks for.
const ONE: Wanted = Wanted {
    snapshots: 1,
    volumes: 0,
    provisioned_bytes: 0,
};

/// Is there room for one more snapshot of the volume, and may it be taken?
///
/// # Errors
/// The volume is to be a copy, and is none yet; it has as many as it can, or its pool's quota allows no more; the metadata is away.
pub fn may_take_snapshot(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    none_copies(meta, volume)?;
    none_closed(volume)?;
    has_room(meta, volume, "")?;
    charge_by(meta, &volume.pool, ONE, &mut Tally::default()).map(drop)
}

/// What has become of a wish. A refusal is told once: the record goes.
///
/// # Errors
/// The volume is gone; the metadata is away or refuses.
pub fn snapshot_state(meta: &dyn Transact, wish: &SnapshotWish) -> Result<TakingState> {
    let (found, _) = find_volume(meta, &wish.volume)?;
    let key = map::snapshot_wish_key(found.id);
    let record = get::<SnapshotWish>(meta, &key)?;
    if let Some((record, revision)) = record.filter(|(record, _)| record.name == wish.name) {
        let Some(why) = record.refused else {
            return Ok(TakingState::Waiting);
        };
        remove(meta, &key, revision)?;
        return Ok(TakingState::Refused(why));
    }
    // The owner removes the wish in the transaction that seals the snapshot.
    Ok(match taken(meta, &found, &wish.name)? {
        Some(snapshot) => TakingState::Taken(snapshot),
        None => TakingState::Dropped,
    })
}

/// Takes a wish back, unless another has come in its place. One that its owner is about to seal may be taken all the same.
///
/// # Errors
/// The volume is gone; the metadata is away or refuses.
pub fn drop_snapshot_wish(meta: &dyn Transact, wish: &SnapshotWish) -> Result<()> {
    let (found, _) = find_volume(meta, &wish.volume)?;
    let key = map::snapshot_wish_key(found.id);
    if let Some((_, revision)) = get::<SnapshotWish>(meta, &key)?.filter(|(record, _)| record.name == wish.name) {
        remove(meta, &key, revision)?;
    }
    Ok(())
}

fn remove(meta: &dyn Transact, key: &str, revision: u64) -> Result<()> {
    let call = Call {
        compares: vec![unchanged(key, revision)],
        then: vec![Op::Delete { key: key.to_owned() }],
        otherwise: Vec::new(),
    };
    meta.txn(&call)?;
    Ok(())
}

/// A volume's snapshots that are taken, in order of their number.
///
/// # Errors
/// There is no volume of that name; the metadata is away.
pub fn snapshots(meta: &dyn Transact, volume: &str) -> Result<Vec<Snapshot>> {
    let mut all = all_snapshots(meta, volume)?;
    all.retain(|snapshot| !snapshot.hidden);
    Ok(all)
}

/// The same, with those that were deleted and stay for as long as volumes that were cloned from them.
///
/// # Errors
/// As [`snapshots`].
pub fn all_snapshots(meta: &dyn Transact, volume: &str) -> Result<Vec<Snapshot>> {
    let (found, _) = find_volume(meta, volume)?;
    let mut all = of_chain(meta, &found)?;
    all.retain(is_sealed);
    Ok(all)
}

/// The records of the snapshots of all that a volume is and was, in order of their number.
pub(super) fn of_chain(meta: &dyn Transact, volume: &Volume) -> Result<Vec<Snapshot>> {
    let then = volume.chain().map(|data| Op::Prefix {
        key: map::snapshots_prefix(data),
    });
    let reply = meta.txn(&Call {
        then: then.collect(),
        ..Call::default()
    })?;
    let found = (0..=volume.former.len()).flat_map(|index| reply.values(index));
    let mut all: Vec<Snapshot> = found.map(parse).collect::<Result<_>>()?;
    all.sort_by_key(|snapshot| snapshot.number);
    Ok(all)
}

/// The names of a volume and, where it is `VOLUME@SNAPSHOT`, of its snapshot.
///
/// # Errors
/// It is none of the two.
pub fn split(name: &str) -> Result<(&str, Option<&str>)> {
    match name.split_once('@') {
        None => Ok((name, None)),
        Some((volume, snapshot)) if !volume.is_empty() && !snapshot.is_empty() && !snapshot.contains('@') => {
            Ok((volume, Some(snapshot)))
        }
        Some(_) => Err(AdminError::BadName {
            what: "volume or snapshot",
            name: name.to_owned(),
            why: "a snapshot is named VOLUME@SNAPSHOT, and neither name has an @".to_owned(),
        }),
    }
}

/// A snapshot for which the stores of its volume keep something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveSnapshot {
    pub number: SnapshotId,
    /// So many clones share with it what it holds.
    pub clones: u64,
}

/// A volume's snapshots for which its stores keep something, in order of their number: those that are taken, and the one that is being
/// taken. The volume may be a deleted one that is kept.
///
/// # Errors
/// The metadata is away.
pub fn live_snapshots(meta: &dyn Transact, volume: &Volume) -> Result<Vec<LiveSnapshot>> {
    live_snapshots_of(meta, &[volume])?.pop().unwrap_or(Ok(Vec::new()))
}

/// The same of some volumes, in their order, by one call; of each what is wrong with it, if a record of its snapshots cannot be read.
///
/// # Errors
/// The metadata is away.
pub fn live_snapshots_of(meta: &dyn Transact, volumes: &[&Volume]) -> Result<Vec<Result<Vec<LiveSnapshot>>>> {
    let prefixes = volumes.iter().map(|volume| map::snapshots_prefix(volume.id));
    let reply = meta.txn(&Call {
        then: prefixes.map(|key| Op::Prefix { key }).collect(),
        ..Call::default()
    })?;
    let each = volumes.iter().enumerate().map(|(index, volume)| {
        let all: Vec<Snapshot> = reply.values(index).iter().map(parse).collect::<Result<_>>()?;
        Ok(live(volume, &all))
    });
    Ok(each.collect())
}

fn live(volume: &Volume, all: &[Snapshot]) -> Vec<LiveSnapshot> {
    let lineage = &volume.lineage;
    let lives = |snapshot: &&Snapshot| is_sealed(snapshot) || (lineage.taking && snapshot.number == lineage.number);
    let mut live: Vec<LiveSnapshot> = all
        .iter()
        .filter(|snapshot| !snapshot.is_only_marked())
        .filter(lives)
        .map(|found| LiveSnapshot {
            number: found.number,
            clones: found.clones,
        })
        .collect();
    live.sort_unstable();
    live
}

/// Deletes a volume's snapshot: its records. The stores drop what nothing else needs by and by (S9), and who reads it is told that
/// it is gone. One that volumes were cloned from becomes hidden: it has no name any more, stays for as long as they do, and goes in the
/// transaction by which the last of them lets go of it.
///
/// # Errors
/// There is no such volume, or it has no such snapshot; the snapshot is a namespace, or protected; the metadata is away, suspected,
/// or refuses.
pub fn delete_snapshot(meta: &dyn Transact, volume: &str, name: &str) -> Result<Snapshot> {
    delete_all_but(meta, volume, name, Left::Nothing)
}

/// Deletes a volume's snapshot but for its name and its mark, by which what was changed since can be told still. Deleted once more, by
/// [`delete_snapshot`], these go too.
///
/// # Errors
/// As [`delete_snapshot`]; it is a mark already, or the volume has as many as it can.
pub fn mark_snapshot(meta: &dyn Transact, volume: &str, name: &str) -> Result<Snapshot> {
    delete_all_but(meta, volume, name, Left::Mark)
}

fn delete_all_but(meta: &dyn Transact, volume: &str, name: &str, left: Left) -> Result<Snapshot> {
    let (found, _) = find_volume(meta, volume)?;
    unmirrored(meta, &found, &named(meta, &found, name)?)?;
    let deleted = delete_snapshot_that(meta, volume, name, &|_| true, &[], left)?;
    deleted.ok_or_else(|| AdminError::TooManyRaces {
        key: map::volume_key(volume),
    })
}

/// May the snapshot become a mark? Who marks one writes the volume's record, which the transaction compares.
fn may_be_marked(meta: &dyn Transact, volume: &Volume, snapshot: &Snapshot) -> Result<()> {
    let bad = |why: String| AdminError::BadSetting {
        what: "snapshot",
        name: format!("{}@{}", volume.name, snapshot.name),
        why,
    };
    let all = of_chain(meta, volume)?;
    let marks = all.iter().filter(|other| other.mark).count();
    if marks >= MAX_MARKS {
        return Err(bad(format!(
            "the volume has {marks} marks, and {MAX_MARKS} are the most; delete those that no backup goes on from (`amita volume \
             snapshot delete`)"
        )));
    }
    let is_later = |other: &&Snapshot| other.volume == snapshot.volume && other.number > snapshot.number;
    let mut later = all.iter().filter(is_later).filter(|other| is_sealed(other));
    let is_compared = snapshot.volume == volume.id || later.any(|other| !other.mark && !other.hidden);
    match is_compared {
        true => Ok(()),
        false => Err(bad(
            "the volume was reverted since, and no later snapshot of what it was then is left: nothing could be compared with its mark; \
             delete it without --keep-mark"
                .to_owned(),
        )),
    }
}

pub(super) fn compares(held: &Held) -> impl Iterator<Item = Compare> {
    held.iter().map(|(key, revision)| unchanged(key, *revision))
}

/// The same, if it is the one that is meant, since its name may be another one's by now; and if what is `held` is so still. None: it is not,
/// and nothing is deleted.
///
/// # Errors
/// As [`delete_snapshot`] and [`mark_snapshot`]; one that is not meant is as good as none.
pub(crate) fn delete_snapshot_that(
    meta: &dyn Transact,
    volume: &str,
    name: &str,
    is_meant: &dyn Fn(&Snapshot) -> bool,
    held: &Held,
    left: Left,
) -> Result<Option<Snapshot>> {
    delete_of(meta, (volume, find_volume), name, is_meant, held, left)
}

/// The same of a volume that is found so.
///
/// # Errors
/// As [`delete_snapshot_that`].
pub(super) fn delete_of(
    meta: &dyn Transact,
    (volume, find): (&str, Find),
    name: &str,
    is_meant: &dyn Fn(&Snapshot) -> bool,
    held: &Held,
    left: Left,
) -> Result<Option<Snapshot>> {
    for _ in tries(meta) {
        believable(meta)?;
        let (_, guard) = uses_guard(meta)?;
        let (found, revision) = find(meta, volume)?;
        let Snapshot {
            volume: data, number, ..
        } = named(meta, &found, name)?;
        let key = map::snapshot_key(data, number);
        let name_key = map::snapshot_name_key(found.host(), name);
        let record = get::<Snapshot>(meta, &key)?;
        let named = get::<SnapshotName>(meta, &name_key)?;
        let (Some((mut snapshot, snapshot_revision)), Some((named, name_revision))) = (record, named) else {
            continue;
        };
        if (found.data_of(&named), named.number) != (data, number) || !is_sealed(&snapshot) {
            continue;
        }
        if !is_meant(&snapshot) {
            return Err(AdminError::NoSuch {
                what: "snapshot",
                name: format!("{volume}@{name}"),
                there: Vec::new(),
            });
        }
        if snapshot.protected {
            return Err(AdminError::Protected {
                what: "snapshot",
                name: format!("{volume}@{name}"),
                command: format!("amita volume snapshot protect {volume} {name} --off"),
            });
        }
        let of = format!("{volume}@{name}");
        if let Some((subsystem, namespace)) = use_of(&all_subsystems(meta)?, &of, data, number)? {
            return Err(AdminError::SnapshotAttached {
                name: of,
                subsystem,
                nsid: namespace.nsid,
            });
        }
        not_a_lun(meta, &of, data, number)?;
        if left == Left::Mark {
            if snapshot.mark {
                return Err(AdminError::OnlyMark {
                    name: format!("{volume}@{name}"),
                });
            }
            may_be_marked(meta, &found, &snapshot)?;
        }
        snapshot.mark = left == Left::Mark;
        snapshot.hidden = snapshot.clones > 0 && !snapshot.mark;
        let of_record = match snapshot.hidden || snapshot.mark {
            true => put(key.clone(), &snapshot),
            false => Op::Delete { key: key.clone() },
        };
        let of_name = (!snapshot.mark).then_some(Op::Delete { key: name_key.clone() });
        // The volume's record is written by marks, as it is: so their limit is exact, and a revert to the snapshot sees it. So it is where the
        // volume moves: the switch compares it.
        let volume_key = map::volume_key(volume);
        let is_seen = snapshot.mark || found.lineage.moving.is_some();
        let counted = is_seen.then(|| put(volume_key.clone(), &found));
        let mut call = Call {
            compares: vec![
                unchanged(&map::counter_key("namespaces"), guard),
                unchanged(&volume_key, revision),
                unchanged(&key, snapshot_revision),
                unchanged(&name_key, name_revision),
            ],
            then: std::iter::once(of_record).chain(of_name).chain(counted).collect(),
            otherwise: held.iter().map(|(key, _)| Op::Get { key: key.clone() }).collect(),
        };
        call.compares.extend(compares(held));
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Some(snapshot));
        }
        let mut now = (0..held.len()).map(|index| reply.value(index).map_or(0, |found| found.mod_revision));
        if held.iter().any(|(_, revision)| now.next() != Some(*revision)) {
            return Ok(None);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(volume),
    })
}

/// Protects a snapshot from being deleted, or no longer.
///
/// # Errors
/// There is no such volume, or it has no such snapshot; the metadata is away or refuses.
pub fn protect_snapshot(meta: &dyn Transact, volume: &str, name: &str, protected: bool) -> Result<Snapshot> {
    if !protected {
        let (found, _) = find_volume(meta, volume)?;
        unmirrored(meta, &found, &named(meta, &found, name)?)?;
    }
    let done = protect_of(meta, (volume, find_volume), name, protected, &[])?;
    done.ok_or_else(|| AdminError::TooManyRaces {
        key: map::volume_key(volume),
    })
}

/// The same of a volume that is found so, if what is `held` is so still. None: it is not, and nothing is changed.
///
/// # Errors
/// As [`protect_snapshot`].
pub(super) fn protect_of(
    meta: &dyn Transact,
    (volume, find): (&str, Find),
    name: &str,
    protected: bool,
    held: &Held,
) -> Result<Option<Snapshot>> {
    for _ in tries(meta) {
        let (of, revision) = find(meta, volume)?;
        let Snapshot {
            volume: data, number, ..
        } = named(meta, &of, name).and_then(|found| unmarked(found, volume))?;
        let key = map::snapshot_key(data, number);
        // It may have become a mark meanwhile.
        let found = get::<Snapshot>(meta, &key)?.filter(|(found, _)| !found.mark);
        let Some((mut snapshot, snapshot_revision)) = found else {
            continue;
        };
        snapshot.protected = protected;
        let volume_key = map::volume_key(volume);
        let mut call = Call {
            compares: vec![unchanged(&volume_key, revision), unchanged(&key, snapshot_revision)],
            then: vec![put(key, &snapshot)],
            otherwise: held.iter().map(|(key, _)| Op::Get { key: key.clone() }).collect(),
        };
        call.compares.extend(compares(held));
        // The switch of a move compares it.
        call.then
            .extend(of.lineage.moving.is_some().then(|| put(volume_key, &of)));
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Some(snapshot));
        }
        let mut now = (0..held.len()).map(|index| reply.value(index).map_or(0, |found| found.mod_revision));
        if held.iter().any(|(_, revision)| now.next() != Some(*revision)) {
            return Ok(None);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(volume),
    })
}

/// A volume's snapshot that is taken; its record says of which of the volume's data it is.
///
/// # Errors
/// There is no such volume, or it has no such snapshot, or only a mark of it is left; the metadata is away.
pub fn snapshot(meta: &dyn Transact, volume: &str, name: &str) -> Result<Snapshot> {
    unmarked(snapshot_or_mark(meta, volume, name)?, volume)
}

fn unmarked(found: Snapshot, volume: &str) -> Result<Snapshot> {
    match found.mark {
        true => Err(AdminError::OnlyMark {
            name: format!("{volume}@{}", found.name),
        }),
        false => Ok(found),
    }
}

/// The same; or what is left of it.
///
/// # Errors
/// There is no such volume, or it has no such snapshot; the metadata is away.
pub fn snapshot_or_mark(meta: &dyn Transact, volume: &str, name: &str) -> Result<Snapshot> {
    let (found, _) = find_volume(meta, volume)?;
    named(meta, &found, name)
}

fn named(meta: &dyn Transact, found: &Volume, name: &str) -> Result<Snapshot> {
    match taken(meta, found, name)? {
        Some(snapshot) => Ok(snapshot),
        None => Err(AdminError::NoSuch {
            what: "snapshot",
            name: format!("{}@{name}", found.name),
            there: names_under(meta, &map::snapshot_names_prefix(found.host()))?,
        }),
    }
}

/// The volume's snapshot of that name, if it is taken. One that was begun and is not sealed is none: it may be void.
pub(super) fn taken(meta: &dyn Transact, volume: &Volume, name: &str) -> Result<Option<Snapshot>> {
    let host = volume.host();
    let Some((named, _)) = get::<SnapshotName>(meta, &map::snapshot_name_key(host, name))? else {
        return Ok(None);
    };
    let data = volume.data_of(&named);
    let found = get::<Snapshot>(meta, &map::snapshot_key(data, named.number))?.map(|(snapshot, _)| snapshot);
    // Where the volume has moved and the name is not written anew yet, that is the snapshot's own word.
    let is_it = |found: &Snapshot| data == named.data(host) || found.name == name;
    Ok(found.filter(is_sealed).filter(is_it))
}

pub(super) fn is_sealed(snapshot: &Snapshot) -> bool {
    matches!(snapshot.state, SnapshotState::Sealed(_))
}
