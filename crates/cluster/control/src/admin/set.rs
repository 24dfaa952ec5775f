//! Sets of snapshots: of several volumes at one moment (S4). The operator puts the set's record there, the volumes' owners take it.

mod sweep;

pub use sweep::SetSweep;

use super::copy::none_copies;
use super::mirror::none_closed_to;
use super::quota::{Tally, Wanted, charge_by};
use super::snapshot::{Held, compares, has_room, is_sealed, taken};
use super::subsystem::{put, unchanged};
use super::volume::find_volume;
use super::{AdminError, Result, cluster, get, list, parse, tries};
use amita_metadata::{Call, MAX_OPS, Op, Transact};
use amita_types::map::{
    self, SNAPSHOTS_SINCE, SetState, SetVolume, Snapshot, SnapshotSet, SnapshotWish, Voided, Volume,
};
use amita_types::{MirrorId, SetId, VolumeId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What has become of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetTaking {
    /// It is taken: the snapshots, in the order of the set's volumes.
    Taken(Vec<Snapshot>),
    /// Nothing is decided yet.
    Waiting,
    /// It is taken for good, and this many of its volumes' owners have not yet noted theirs: each does when it looks next.
    Decided {
        /// How many.
        open: usize,
    },
    /// It has come to nothing, and why; it may be asked for anew.
    Void(Voided),
}

/// A set that was taken, and what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakenSet {
    pub id: SetId,
    /// What each of its snapshots is called.
    pub name: String,
    /// In seconds since 1970.
    pub taken_at: u64,
    /// The volumes whose snapshots of it are there, in order of their numbers.
    pub volumes: Vec<String>,
}

/// Wishes snapshots of several volumes at one moment, all of this name.
///
/// # Errors
/// No volume, more than [`map::MAX_SET_VOLUMES`], one that is named twice or does not exist, a name or a label that cannot be, a name
/// that is taken in one of the volumes, another snapshot of one that is being taken, a pool's quota, a cluster whose version does not
/// know snapshots; the metadata is away or refuses.
pub fn ask_set(
    meta: &dyn Transact,
    volumes: &[String],
    name: &str,
    labels: BTreeMap<String, String>,
    now: Duration,
) -> Result<SnapshotSet> {
    let bad = |why: String| AdminError::BadSetting {
        what: "set of snapshots",
        name: name.to_owned(),
        why,
    };
    if let Some(own) = labels.keys().find(|key| key.starts_with(map::OWN_LABELS)) {
        return Err(bad(format!(
            "only Amita itself gives labels that begin with {}, as {own:?} does",
            map::OWN_LABELS
        )));
    }
    let mut set = SnapshotSet {
        id: SetId(0),
        name: name.to_owned(),
        asked_at: now.as_secs(),
        labels,
        volumes: Vec::new(),
        state: SetState::Taking,
    };
    if let Some(twice) = (1..volumes.len()).find(|at| volumes[..*at].contains(&volumes[*at])) {
        return Err(bad(format!("volume {:?} is named twice", volumes[twice])));
    }
    set.volumes = volumes
        .iter()
        .zip(1..)
        .map(|(name, number)| SetVolume {
            id: VolumeId(number),
            name: name.clone(),
        })
        .collect();
    set.check().map_err(bad)?;
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(format!(
            "the cluster's version is {version}, and snapshots need {SNAPSHOTS_SINCE}: all its programs must know of them first"
        )));
    }
    let counter = map::counter_key("sets");
    for _ in tries(meta) {
        let mut found: Vec<Volume> = Vec::new();
        let open: Vec<SnapshotSet> = list(meta, &map::sets_prefix())?;
        for volume in volumes {
            let (volume, _) = find_volume(meta, volume)?;
            may_be_taken(meta, &volume, name, &open)?;
            found.push(volume);
        }
        if let Some(set) = place_set(meta, &found, &set, &[], &mut Tally::default())? {
            return Ok(set);
        }
    }
    Err(AdminError::TooManyRaces { key: counter })
}

/// Puts the record of a set there, with the next number, of these volumes; if what is `held` is still of these revisions, and nobody else
/// puts one there just then. None: it is not so.
///
/// # Errors
/// A volume is closed, or is to be a copy, and is none yet, or has as many snapshots as it can, or its pool's quota allows no more; the set cannot be; the metadata is away or refuses.
pub(crate) fn place_set(
    meta: &dyn Transact,
    volumes: &[Volume],
    wanted: &SnapshotSet,
    held: &Held,
    tally: &mut Tally,
) -> Result<Option<SnapshotSet>> {
    place_set_for(meta, volumes, wanted, held, tally, None)
}

/// The same for a mirror, which takes snapshots of what is closed for it.
///
/// # Errors
/// As [`place_set`].
pub(super) fn place_set_for(
    meta: &dyn Transact,
    volumes: &[Volume],
    wanted: &SnapshotSet,
    held: &Held,
    tally: &mut Tally,
    mirror: Option<MirrorId>,
) -> Result<Option<SnapshotSet>> {
    let counter = map::counter_key("sets");
    let (last, revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
    // Whoever closes a volume raises the counter: what is found open behind a look at that is open when the set is put there.
    if !are_open_to(meta, volumes, mirror)? {
        return Ok(None);
    }
    for volume in volumes {
        none_copies(meta, volume)?;
        has_room(meta, volume, &wanted.name)?;
    }
    let mut set = SnapshotSet {
        id: SetId(last + 1),
        volumes: volumes
            .iter()
            .map(|volume| SetVolume {
                id: volume.id,
                name: volume.name.clone(),
            })
            .collect(),
        ..wanted.clone()
    };
    set.volumes.sort_unstable_by_key(|volume| volume.id);
    set.check().map_err(|why| AdminError::BadSetting {
        what: "set of snapshots",
        name: wanted.name.clone(),
        why,
    })?;
    // One that is asked for at the same time raises the counter as well.
    let mut call = Call {
        compares: vec![unchanged(&counter, revision)],
        then: vec![put(map::set_key(set.id), &set), put(counter, &set.id.0)],
        otherwise: Vec::new(),
    };
    call.compares.extend(compares(held));
    let mut by_pool: BTreeMap<&str, u64> = BTreeMap::new();
    for volume in volumes {
        *by_pool.entry(&volume.pool).or_default() += 1;
    }
    let mut counted = Vec::new();
    for (pool, snapshots) in by_pool {
        let wanted = Wanted {
            snapshots,
            ..Wanted::default()
        };
        let charge = charge_by(meta, pool, wanted, tally)?;
        counted.push(charge.counted);
        charge.into_call(&mut call);
    }
    let reply = meta.txn(&call)?;
    if !reply.succeeded {
        return Ok(None);
    }
    for counted in counted {
        tally.done(counted, reply.revision);
    }
    Ok(Some(set))
}

/// Are they there still under these names? Fails where one is closed to whoever is no runner of this mirror.
fn are_open_to(meta: &dyn Transact, volumes: &[Volume], mirror: Option<MirrorId>) -> Result<bool> {
    for some in volumes.chunks(MAX_OPS) {
        let records = some.iter().map(|volume| Op::Get {
            key: map::volume_key(&volume.name),
        });
        let reply = meta.txn(&Call {
            then: records.collect(),
            ..Call::default()
        })?;
        for (at, volume) in some.iter().enumerate() {
            let now: Option<Volume> = reply.value(at).map(parse).transpose()?;
            match now.filter(|now| now.id == volume.id) {
                Some(now) => none_closed_to(&now, mirror)?,
                None => return Ok(false),
            }
        }
    }
    Ok(true)
}

/// Can a snapshot of this name be taken of the volume?
fn may_be_taken(meta: &dyn Transact, volume: &Volume, name: &str, open: &[SnapshotSet]) -> Result<()> {
    let of = || format!("{}@{name}", volume.name);
    if taken(meta, volume, name)?.is_some() {
        return Err(AdminError::Exists {
            what: "snapshot",
            name: of(),
        });
    }
    let busy = |what: &'static str, other: &str| AdminError::BeingTaken {
        of: of(),
        what,
        other: other.to_owned(),
    };
    let wish = get::<SnapshotWish>(meta, &map::snapshot_wish_key(volume.id))?;
    if let Some((other, _)) = wish.filter(|(other, _)| other.refused.is_none()) {
        return Err(busy("snapshot of the volume", &other.name));
    }
    let is_in = |set: &&SnapshotSet| set.state == SetState::Taking && set.has(volume.id);
    if let Some(other) = open.iter().find(is_in) {
        return Err(busy("set with the volume", &other.name));
    }
    Ok(())
}

/// What has become of a set that was asked for.
///
/// # Errors
/// The metadata is away or refuses.
pub fn set_state(meta: &dyn Transact, set: &SnapshotSet) -> Result<SetTaking> {
    let key = map::set_key(set.id);
    match get::<SnapshotSet>(meta, &key)?.map(|(record, _)| record.state) {
        Some(SetState::Taking) => return Ok(SetTaking::Waiting),
        Some(SetState::Void(voided)) => return Ok(SetTaking::Void(voided)),
        Some(SetState::Ready) | None => {}
    }
    // Its record goes when all have sealed theirs: so both are read at one moment. Where the set has more volumes than a transaction
    // has questions, all snapshots are read.
    let mut call = Call::get(key);
    let of_all = set.volumes.len() >= MAX_OPS;
    let prefixes: Vec<String> = match of_all {
        true => vec![format!("{}snapshots/", map::PREFIX)],
        false => (set.volumes.iter().map(|volume| map::snapshots_prefix(volume.id))).collect(),
    };
    let questions = prefixes.len();
    call.then.extend(prefixes.into_iter().map(|key| Op::Prefix { key }));
    let reply = meta.txn(&call)?;
    let record = reply.value(0).map(parse::<SnapshotSet>).transpose()?;
    let found = (1..=questions).flat_map(|at| reply.values(at));
    let own = found.filter_map(|found| found.json::<Snapshot>().ok());
    let own = own.filter(|found| found.set == Some(set.id) && set.has(found.volume) && is_sealed(found));
    let mut all: Vec<Snapshot> = own.collect();
    if all.len() == set.volumes.len() {
        all.sort_unstable_by_key(|snapshot| snapshot.volume);
        return Ok(SetTaking::Taken(all));
    }
    Ok(match record {
        Some(_) => SetTaking::Decided {
            open: set.volumes.len() - all.len(),
        },
        None => SetTaking::Void(Voided {
            why: "its record has gone, and not all of its snapshots are there".to_owned(),
            again: false,
        }),
    })
}

/// Gives a set up, for this reason. One that is decided stays as it is.
///
/// # Errors
/// The metadata is away or refuses.
pub fn drop_set(meta: &dyn Transact, set: &SnapshotSet, why: &str) -> Result<()> {
    let key = map::set_key(set.id);
    if let Some((record, revision)) = get::<SnapshotSet>(meta, &key)?
        && record.state == SetState::Taking
    {
        let void = record.voided(why, false);
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key, &void)],
            otherwise: Vec::new(),
        };
        meta.txn(&call)?;
    }
    Ok(())
}

/// The sets of which snapshots are there, in order of their numbers.
///
/// # Errors
/// The metadata is away.
pub fn taken_sets(meta: &dyn Transact) -> Result<Vec<TakenSet>> {
    let (names, snapshots) = of_all_volumes(meta)?;
    let mut sets: BTreeMap<SetId, (TakenSet, BTreeSet<VolumeId>)> = BTreeMap::new();
    for snapshot in snapshots {
        let Some(id) = snapshot.set.filter(|_| is_sealed(&snapshot)) else {
            continue;
        };
        let new = || TakenSet {
            id,
            name: snapshot.name.clone(),
            taken_at: snapshot.taken_at,
            volumes: Vec::new(),
        };
        let (_, volumes) = sets.entry(id).or_insert_with(|| (new(), BTreeSet::new()));
        volumes.insert(snapshot.volume);
    }
    let named = sets.into_values().map(|(set, volumes)| TakenSet {
        volumes: volumes.iter().filter_map(|volume| names.get(volume).cloned()).collect(),
        ..set
    });
    Ok(named.filter(|set| !set.volumes.is_empty()).collect())
}

/// The snapshots of all volumes, each with its volume's name, in the order of these names and of their numbers. Those that are hidden are not
/// among them.
///
/// # Errors
/// The metadata is away.
pub fn every_snapshot(meta: &dyn Transact) -> Result<Vec<(String, Snapshot)>> {
    let (names, snapshots) = of_all_volumes(meta)?;
    let shown = snapshots.filter(|snapshot| is_sealed(snapshot) && !snapshot.hidden);
    let mut named: Vec<(String, Snapshot)> = shown
        .filter_map(|snapshot| Some((names.get(&snapshot.volume)?.clone(), snapshot)))
        .collect();
    named.sort_by(|(one, first), (other, second)| (one, first.number).cmp(&(other, second.number)));
    Ok(named)
}

/// What volumes are called, by each number of data that they have or had; and the snapshots of all of them, as of one moment. Records that
/// nobody can read are passed over.
fn of_all_volumes(meta: &dyn Transact) -> Result<(BTreeMap<VolumeId, String>, impl Iterator<Item = Snapshot>)> {
    let reply = meta.txn(&Call {
        then: vec![
            Op::Prefix {
                key: map::volume_key(""),
            },
            Op::Prefix {
                key: format!("{}snapshots/", map::PREFIX),
            },
        ],
        ..Call::default()
    })?;
    let volumes = reply.values(0).iter().filter_map(|found| found.json::<Volume>().ok());
    let volumes = volumes.filter(|volume| !volume.is_former());
    // A reverted volume has the snapshots of what it was.
    let named = |volume: Volume| {
        let chain: Vec<VolumeId> = volume.chain().collect();
        chain.into_iter().map(move |data| (data, volume.name.clone()))
    };
    let names = volumes.flat_map(named).collect();
    let snapshots: Vec<Snapshot> = reply.values(1).iter().filter_map(|found| found.json().ok()).collect();
    Ok((names, snapshots.into_iter()))
}
