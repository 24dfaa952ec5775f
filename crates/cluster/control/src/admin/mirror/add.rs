//! A mirror comes to be, at each end by a record of its own, and ends.

use super::super::copy::{LEAST_LIMIT, none_copies};
use super::super::keys::{DataKeys, maker};
use super::super::migrate::none_moves_still;
use super::super::subsystem::{put, unchanged};
use super::super::volume::{believable, find_volume, make_volume_held};
use super::super::{AdminError, Result, check_name, cluster, get, tries};
use super::none_closed;
use super::point::mirrored_volume;
use super::record::{change_looked_at, find_mirror, mirror_of, mirrors, put_record};
use crate::mirror::{DEFAULT_INTERVAL_S, LEAST_INTERVAL_S, MAX_NAME_BYTES, MOST_KEPT, Refused};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{
    self, About, Closed, MAX_MIRROR_VOLUMES, MAX_MIRRORS, MIRRORS_SINCE, Mirror, MirrorPeer, MirrorRole, MirrorVolume,
    Paused, Standing, Volume,
};
use amita_types::{Generation, MirrorEpoch, MirrorId, VolumeId};
use std::time::Duration;

/// What a mirror is to be like, at either end.
#[derive(Clone, Debug)]
pub struct MirrorWish<'a> {
    /// Its name in this cluster.
    pub name: &'a str,
    /// Its number, the same at both ends.
    pub id: MirrorId,
    /// This end takes odd epochs.
    pub odd: bool,
    /// Points follow each other after so long; none: the usual.
    pub interval: Option<Duration>,
    /// A secondary keeps so many points beside the one that it is at.
    pub keep: u32,
    /// At most so many bytes a second.
    pub limit_bytes_per_s: Option<u64>,
    /// It is late from this lag on.
    pub alert_after: Option<Duration>,
    /// See [`Mirror::never_deposed`].
    pub never_deposed: bool,
    /// The other end, as far as it is known.
    pub peer: MirrorPeer,
}

/// A volume that the far end makes for one of the near end's.
#[derive(Clone, Debug)]
pub struct TargetWish<'a> {
    /// What both ends call it, and its name here.
    pub name: &'a str,
    /// Its pool.
    pub pool: &'a str,
    /// The near volume's size.
    pub size_bytes: u64,
    /// It is encrypted, with a key that these make.
    pub keys: Option<&'a dyn DataKeys>,
}

fn bad(name: &str, why: impl Into<String>) -> AdminError {
    AdminError::BadSetting {
        what: "mirror",
        name: name.to_owned(),
        why: why.into(),
    }
}

fn record(meta: &dyn Transact, wish: &MirrorWish<'_>, role: MirrorRole, epoch: MirrorEpoch) -> Result<Mirror> {
    check_name("mirror", wish.name)?;
    if wish.name.len() > MAX_NAME_BYTES {
        return Err(AdminError::BadName {
            what: "mirror",
            name: wish.name.to_owned(),
            why: format!(
                "it has {} bytes, more than {MAX_NAME_BYTES}: its snapshots have it in their names",
                wish.name.len()
            ),
        });
    }
    let version = cluster(meta)?.version;
    if version < MIRRORS_SINCE {
        return Err(bad(
            wish.name,
            format!(
                "the cluster's version is {version}, and mirrors need {MIRRORS_SINCE}: programs from before would let hosts use what is \
                 closed (`amita cluster finalize`)"
            ),
        ));
    }
    let interval_s = wish.interval.map_or(DEFAULT_INTERVAL_S, |interval| interval.as_secs());
    if interval_s < LEAST_INTERVAL_S {
        return Err(bad(
            wish.name,
            format!("an interval of {interval_s} s; {LEAST_INTERVAL_S} s are the least"),
        ));
    }
    let all = mirrors(meta)?;
    // Before its volumes are looked at, which are that one's where it is made again.
    if all.iter().any(|mirror| mirror.name == wish.name) {
        return Err(exists(wish.name));
    }
    if all.len() >= MAX_MIRRORS {
        return Err(AdminError::Full {
            what: "this",
            name: "cluster".to_owned(),
            of: "mirrors",
            most: MAX_MIRRORS,
        });
    }
    if let Some(same) = all.iter().find(|mirror| mirror.id == wish.id) {
        return Err(bad(
            wish.name,
            format!(
                "its number, {}, is mirror {}'s: one cluster is no two ends",
                wish.id, same.name
            ),
        ));
    }
    if wish.keep as usize > MOST_KEPT {
        return Err(bad(
            wish.name,
            format!("{} points are to be kept; {MOST_KEPT} are the most", wish.keep),
        ));
    }
    if let Some(limit) = wish.limit_bytes_per_s.filter(|limit| *limit < LEAST_LIMIT) {
        return Err(bad(
            wish.name,
            format!("a limit of {limit} bytes a second; {LEAST_LIMIT} are the fewest"),
        ));
    }
    Ok(Mirror {
        id: wish.id,
        name: wish.name.to_owned(),
        odd: wish.odd,
        standing: Standing {
            role,
            epoch,
            ..Standing::default()
        },
        number: 0,
        cutting: None,
        begun: None,
        pass: None,
        returning: None,
        fresh: role == MirrorRole::Secondary,
        joining: role == MirrorRole::Secondary,
        leaving: false,
        split: false,
        volumes: Vec::new(),
        peer: wish.peer.clone(),
        token_ends_at: None,
        seen: None,
        interval_s,
        keep: wish.keep,
        limit_bytes_per_s: wish.limit_bytes_per_s,
        alert_after_s: wish.alert_after.map(|after| after.as_secs()),
        never_deposed: wish.never_deposed,
        paused: None,
        ails: None,
    })
}

fn how_many(name: &str, volumes: usize) -> Result<()> {
    match volumes {
        1..=MAX_MIRROR_VOLUMES => Ok(()),
        _ => Err(bad(
            name,
            format!("{volumes} volumes; 1 to {MAX_MIRROR_VOLUMES} can be mirrored together"),
        )),
    }
}

/// This cluster's volumes are mirrored to another one: its end is the primary.
///
/// # Errors
/// A name, a number or an interval that cannot be; a volume that is not there, is named twice, is to be a copy and is none yet, moves to another pool, or is another mirror's; a cluster
/// whose version does not know mirrors; the metadata is suspected, away or refuses.
pub fn add_mirror(meta: &dyn Transact, wish: &MirrorWish<'_>, volumes: &[String]) -> Result<Mirror> {
    how_many(wish.name, volumes.len())?;
    let key = map::mirror_key(wish.name);
    for _ in tries(meta) {
        believable(meta)?;
        let mut record = record(meta, wish, MirrorRole::Primary, MirrorEpoch(u64::from(wish.odd)))?;
        let id_key = map::mirror_id_key(wish.id);
        let mut call = Call {
            compares: vec![unchanged(&key, 0), unchanged(&id_key, 0)],
            then: Vec::new(),
            otherwise: vec![Op::Get { key: key.clone() }],
        };
        for name in volumes {
            let (found, revision) = find_volume(meta, name)?;
            none_copies(meta, &found)?;
            none_moves_still(meta, &found)?;
            none_closed(&found)?;
            if let Some(other) = mirror_of(meta, found.host())? {
                return Err(bad(wish.name, format!("volume {name} is in mirror {}", other.name)));
            }
            if record.volumes.iter().any(|volume| volume.id == found.host()) {
                return Err(bad(wish.name, format!("volume {name} is named twice")));
            }
            record.volumes.push(MirrorVolume {
                name: name.clone(),
                id: found.host(),
            });
            let volume_key = map::volume_key(name);
            call.compares.push(unchanged(&volume_key, revision));
            // As it is: whoever deletes it, or adds it to another mirror, and has not seen this one, compares its record.
            call.then.push(put(volume_key, &found));
        }
        call.then.push(put(id_key, &wish.name));
        call.then.push(put(key.clone(), &record));
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(record);
        }
        if reply.value(0).is_some() {
            return Err(exists(wish.name));
        }
    }
    Err(AdminError::TooManyRaces { key })
}

fn exists(name: &str) -> AdminError {
    AdminError::Exists {
        what: "mirror",
        name: name.to_owned(),
    }
}

/// Another cluster's volumes are mirrored to this one: its end is a secondary, of this epoch, in which its volumes are made, closed from their first moment
/// on. It is joining, and stands still, until all of them are there ([`complete_mirrored`]); where making them was cut short it is done again.
///
/// # Errors
/// As [`add_mirror`]; a volume's name is taken, or cannot be; a quota; its removal was begun.
pub fn add_mirrored(
    meta: &dyn Transact,
    wish: &MirrorWish<'_>,
    epoch: MirrorEpoch,
    targets: &[TargetWish<'_>],
    (by, now): (&str, Duration),
) -> Result<Mirror> {
    how_many(wish.name, targets.len())?;
    let key = map::mirror_key(wish.name);
    let standing = get::<Mirror>(meta, &key)?.map(|(found, _)| found);
    match standing {
        // It was cut short.
        Some(found) if found.id == wish.id && found.joining => {}
        // So was one of before there was that field.
        Some(found) if found.id == wish.id && found.volumes.len() < targets.len() && found.paused.is_some() => {}
        Some(_) => return Err(exists(wish.name)),
        None => {
            believable(meta)?;
            let mut record = record(meta, wish, MirrorRole::Secondary, epoch)?;
            record.paused = Some(Paused {
                by: by.to_owned(),
                at: now.as_secs(),
            });
            let id_key = map::mirror_id_key(wish.id);
            let call = Call {
                compares: vec![unchanged(&key, 0), unchanged(&id_key, 0)],
                then: vec![put(id_key, &wish.name), put(key.clone(), &record)],
                otherwise: Vec::new(),
            };
            if !meta.txn(&call)?.succeeded {
                return Err(exists(wish.name));
            }
        }
    }
    let about = About {
        created_at: Some(now.as_secs()),
        ..About::of(VolumeId(0))
    };
    for target in targets {
        make_mirrored(meta, wish, target, &about)?;
    }
    super::record::mirror(meta, wish.name)
}

/// A volume of another cluster's gets one here, closed; nothing, where it has one.
fn make_mirrored(meta: &dyn Transact, wish: &MirrorWish<'_>, target: &TargetWish<'_>, about: &About) -> Result<()> {
    let key = map::mirror_key(wish.name);
    for _ in tries(meta) {
        let (record, revision) = find_mirror(meta, wish.name)?;
        is_to_stay(&record)?;
        if record.volumes.iter().any(|volume| volume.name == target.name) {
            return Ok(());
        }
        let keys = match target.keys {
            Some(keys) => Some(maker(Some(keys)).map_err(|why| why.of(target.name))?),
            None => None,
        };
        let held = [unchanged(&key, revision)];
        let more = |volume: &mut Volume| {
            volume.closed = Some(Box::new(Closed {
                mirror: wish.id,
                name: wish.name.to_owned(),
                since: Generation(0),
            }));
            let mut record = record.clone();
            record.volumes.push(MirrorVolume {
                name: target.name.to_owned(),
                id: volume.id,
            });
            vec![put_record(&record)]
        };
        let made = make_volume_held(
            meta,
            target.name,
            target.pool,
            target.size_bytes,
            Some(about),
            keys,
            &held,
            &more,
        );
        match made {
            // The mirror's record is another one meanwhile: its runner took it up, or noted something.
            Err(AdminError::Changed) => {}
            made => return made.map(|_| ()),
        }
    }
    Err(AdminError::TooManyRaces { key })
}

fn is_to_stay(record: &Mirror) -> Result<()> {
    match record.leaving {
        true => Err(AdminError::Mirror {
            mirror: record.name.clone(),
            why: Refused::Leaving,
        }),
        false => Ok(()),
    }
}

/// All volumes of the far end are there, and the other end was told of it: it goes on. Nothing else says that it is joined.
///
/// # Errors
/// There is no such mirror, or its removal was begun; a volume of it is gone, or open to hosts; the metadata is away or refuses.
pub fn complete_mirrored(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    // A removal notes that before it opens anything, and what was looked at is compared: no volume is opened between the look and the note.
    let look = |record: &Mirror| {
        is_to_stay(record)?;
        for volume in record
            .volumes
            .iter()
            .filter(|_| record.standing.role == MirrorRole::Secondary)
        {
            let found = mirrored_volume(meta, record, volume.id)?;
            if found.closed.as_ref().is_none_or(|closed| closed.mirror != record.id) {
                let why = format!(
                    "its removal was begun, and volume {} is open to hosts: remove it again",
                    found.name
                );
                return Err(bad(name, why));
            }
        }
        Ok(())
    };
    let joined = change_looked_at(meta, name, &look, &|record, ()| {
        (record.joining, record.paused) = (false, None);
        Ok(())
    });
    joined.map(|(record, ())| record)
}
