//! The record of this cluster's end, and how it is changed.

use super::super::subsystem::{put, unchanged};
use super::super::{AdminError, Result, names_under, parse, tries};
use crate::mirror::Refused;
use amita_metadata::{Call, Op, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, MAX_AILS_BYTES, Mirror, Seen};

/// What was seen of the other end is noted where that is another than before, and else so often: nobody watches it, and what is counted from it
/// goes by both clocks.
const SEEN_EVERY_S: u64 = 30;

/// The mirrors of this cluster, in order of their names.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn mirrors(meta: &dyn Transact) -> Result<Vec<Mirror>> {
    let then = [map::mirrors_prefix(), map::mirrors_seen_prefix()];
    let reply = meta.txn(&Call {
        then: then.into_iter().map(|key| Op::Prefix { key }).collect(),
        ..Call::default()
    })?;
    let mut all: Vec<Mirror> = reply.values(0).iter().map(parse).collect::<Result<_>>()?;
    for found in reply.values(1) {
        let name = found.key.strip_prefix(&map::mirrors_seen_prefix()).unwrap_or_default();
        if let Some(mirror) = all.iter_mut().find(|mirror| mirror.name == name) {
            mirror.seen = Some(parse(found)?);
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The mirror of this name.
///
/// # Errors
/// There is none; the metadata is away, or the record is not readable.
pub fn mirror(meta: &dyn Transact, name: &str) -> Result<Mirror> {
    find_mirror(meta, name).map(|(found, _)| found)
}

pub(super) fn find_mirror(meta: &dyn Transact, name: &str) -> Result<(Mirror, u64)> {
    find_with_seen(meta, name).map(|found| (found.record, found.revision))
}

/// A mirror's record, with what was seen of the other end.
struct Found {
    record: Mirror,
    revision: u64,
    /// None: the record is one of before, in which it stands; or nothing was seen.
    seen_revision: Option<u64>,
}

fn find_with_seen(meta: &dyn Transact, name: &str) -> Result<Found> {
    let keys = [map::mirror_key(name), map::mirror_seen_key(name)];
    let reply = meta.txn(&Call {
        then: keys.into_iter().map(|key| Op::Get { key }).collect(),
        ..Call::default()
    })?;
    match reply.value(0) {
        Some(found) => {
            let mut record: Mirror = parse(found)?;
            let seen = reply.value(1);
            if let Some(seen) = seen {
                record.seen = Some(parse(seen)?);
            }
            Ok(Found {
                record,
                revision: found.mod_revision,
                seen_revision: seen.map(|seen| seen.mod_revision),
            })
        }
        None => Err(AdminError::NoSuch {
            what: "mirror",
            name: name.to_owned(),
            there: names_under(meta, &map::mirrors_prefix())?,
        }),
    }
}

/// The mirror that has the volume that hosts know by this number.
///
/// # Errors
/// As [`mirrors`].
pub fn mirror_of(meta: &dyn Transact, host: VolumeId) -> Result<Option<Mirror>> {
    let has = |mirror: &Mirror| mirror.volumes.iter().any(|volume| volume.id == host);
    Ok(mirrors(meta)?.into_iter().find(has))
}

/// The mirror's record as it is kept: what was seen is under a key of its own.
pub(super) fn put_record(record: &Mirror) -> Op {
    let kept = Mirror {
        seen: None,
        ..record.clone()
    };
    put(map::mirror_key(&record.name), &kept)
}

/// Is what was seen now to be noted?
fn is_news(before: Option<&Seen>, now: &Seen) -> bool {
    before.is_none_or(|before| {
        let is_old = now.at >= before.at.saturating_add(SEEN_EVERY_S) || now.at < before.at;
        is_old || now.standing != before.standing
    })
}

/// What a step makes of the record.
pub(super) type Step<'a, T> = &'a dyn Fn(&mut Mirror) -> std::result::Result<T, Refused>;

/// Takes a step: what it says, and the record as it is then. None: the claim, by whose revision it was to be taken, is lost.
///
/// # Errors
/// There is no such mirror, or the step is refused; the metadata is away or refuses.
pub(super) fn change<T>(
    meta: &dyn Transact,
    name: &str,
    claim: Option<u64>,
    step: Step<'_, T>,
) -> Result<Option<(Mirror, T)>> {
    for _ in tries(meta) {
        let found = find_with_seen(meta, name)?;
        match attempt(meta, &found, claim, step)? {
            Attempt::Done(done) => return Ok(Some(*done)),
            Attempt::Lost => return Ok(None),
            Attempt::Raced => {}
        }
    }
    Err(races(name))
}

fn races(name: &str) -> AdminError {
    AdminError::TooManyRaces {
        key: map::mirror_key(name),
    }
}

/// What a step has come to.
enum Attempt<T> {
    /// The record as it is then, and what the step says.
    Done(Box<(Mirror, T)>),
    /// The claim is lost.
    Lost,
    /// Others have changed the record, or what was seen, since it was found.
    Raced,
}

/// Takes a step from the record as it was found.
fn attempt<T>(meta: &dyn Transact, found: &Found, claim: Option<u64>, step: Step<'_, T>) -> Result<Attempt<T>> {
    let before = &found.record;
    let name = &before.name;
    let runner = map::mirror_runner_key(name);
    let mut record = before.clone();
    let said = step(&mut record).map_err(|why| AdminError::Mirror {
        mirror: name.clone(),
        why,
    })?;
    // The step is taken by what was seen, too.
    let seen_key = map::mirror_seen_key(name);
    let mut call = Call {
        compares: vec![
            unchanged(&map::mirror_key(name), found.revision),
            unchanged(&seen_key, found.seen_revision.unwrap_or_default()),
        ],
        then: Vec::new(),
        otherwise: vec![Op::Get { key: runner.clone() }],
    };
    let kept = |of: &Mirror| Mirror {
        seen: None,
        ..of.clone()
    };
    let is_written = kept(&record) != kept(before);
    if is_written {
        call.then.push(put_record(&record));
    }
    if let Some(seen) = &record.seen
        && (is_news(before.seen.as_ref(), seen) || is_written && found.seen_revision.is_none())
    {
        call.then.push(put(seen_key, seen));
    }
    call.compares.extend(claim.map(|claim| unchanged(&runner, claim)));
    let reply = meta.txn(&call)?;
    if reply.succeeded {
        return Ok(Attempt::Done(Box::new((record, said))));
    }
    let holds = reply.value(0).map(|found| found.mod_revision);
    match claim.is_some() && claim != holds {
        true => Ok(Attempt::Lost),
        false => Ok(Attempt::Raced),
    }
}

/// Takes a step, by whoever needs no claim, from a record whose volumes were looked at: what `look` says goes into the step, and is of the very record that
/// the step compares.
///
/// # Errors
/// As [`change`]; what `look` says.
pub(super) fn change_looked_at<L, T>(
    meta: &dyn Transact,
    name: &str,
    look: &dyn Fn(&Mirror) -> Result<L>,
    step: &dyn Fn(&mut Mirror, &L) -> std::result::Result<T, Refused>,
) -> Result<(Mirror, T)> {
    for _ in tries(meta) {
        let found = find_with_seen(meta, name)?;
        let seen = look(&found.record)?;
        if let Attempt::Done(done) = attempt(meta, &found, None, &|record| step(record, &seen))? {
            return Ok(*done);
        }
    }
    Err(races(name))
}

/// The same, by whoever needs no claim.
pub(super) fn change_free<T>(meta: &dyn Transact, name: &str, step: Step<'_, T>) -> Result<(Mirror, T)> {
    change(meta, name, None, step)?.ok_or_else(|| races(name))
}

/// Notes something that is no step of a role: how far a pass is, or what ails it. None: the claim is lost.
///
/// # Errors
/// There is no such mirror; the metadata is away or refuses.
pub fn note_mirror(meta: &dyn Transact, name: &str, claim: u64, by: &dyn Fn(&mut Mirror)) -> Result<Option<Mirror>> {
    let noted = change(meta, name, Some(claim), &|record| {
        let (standing, seen) = (record.standing.clone(), record.seen.clone());
        by(record);
        // What it is changes by its steps alone.
        (record.standing, record.seen) = (standing, seen);
        // What the other end says is a part of it, and the record has to be written still.
        if let Some(why) = record.ails.as_mut().filter(|why| why.len() > MAX_AILS_BYTES) {
            let end = (0..=MAX_AILS_BYTES).rev().find(|at| why.is_char_boundary(*at));
            why.truncate(end.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(noted.map(|(record, ())| record))
}
