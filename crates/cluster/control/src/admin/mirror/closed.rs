//! Volumes are closed to hosts, and opened to them again (decision 081).
//!
//! Both take the volume from whoever has it, in the transaction that says so: its generation is raised, as by an opening, but nobody owns it by
//! the new one. So whoever has found it open, or closed, in its record, has that generation only for as long as it is so.

use super::super::snapshot::{Held, compares};
use super::super::subsystem::{put, unchanged};
use super::super::volume::find_volume;
use super::super::{AdminError, Result, get, tries};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, Closed, Raised, SetState, Snapshot, SnapshotSet, SnapshotState, SnapshotWish, Volume};
use amita_types::{Generation, MirrorId, PoolId};

/// Fails where the volume is closed. Whoever changes it then compares its record, or what is raised when one is closed.
///
/// # Errors
/// It is.
pub fn none_closed(volume: &Volume) -> Result<()> {
    none_closed_to(volume, None)
}

/// The same, by a runner of this mirror.
pub(crate) fn none_closed_to(volume: &Volume, runs: Option<MirrorId>) -> Result<()> {
    match volume.closed_to(runs) {
        None => Ok(()),
        Some(closed) => Err(AdminError::Closed {
            volume: volume.name.clone(),
            mirror: closed.name.clone(),
        }),
    }
}

/// What a volume is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door<'a> {
    /// Closed, for the mirror of this number and name.
    Closed(MirrorId, &'a str),
    /// Open, where it was closed for this mirror.
    Open(MirrorId),
}

/// Closes the volume of this name and number to hosts, or opens it to them, for as long as what is `held` is so; the volume as it is then. None:
/// what is held is so no more. What is so already is not done again.
///
/// A snapshot of it that is wished, or is being taken, comes to nothing, and so does a set that it is in; one that is decided is taken.
///
/// # Errors
/// No such volume; it is closed for another mirror; it was taken over as often as can be; the metadata is away or refuses.
pub(crate) fn set_door(meta: &dyn Transact, name: &str, door: Door<'_>, held: &Held) -> Result<Option<Volume>> {
    let key = map::volume_key(name);
    for _ in tries(meta) {
        let (old, revision) = find_volume(meta, name)?;
        let (mirror, is_to_close) = match door {
            Door::Closed(mirror, _) => (mirror, true),
            Door::Open(mirror) => (mirror, false),
        };
        none_closed_to(&old, Some(mirror))?;
        let mut call = Call {
            compares: vec![unchanged(&key, revision)],
            then: Vec::new(),
            otherwise: held.iter().map(|(key, _)| Op::Get { key: key.clone() }).collect(),
        };
        call.compares.extend(compares(held));
        let mut new = old.clone();
        if old.closed.is_some() != is_to_close {
            let generation = next_generation(&old)?;
            (new.generation, new.owner) = (generation, None);
            new.closed = match door {
                Door::Closed(mirror, name) => Some(Box::new(Closed {
                    mirror,
                    name: name.to_owned(),
                    since: generation,
                })),
                Door::Open(_) => None,
            };
            end_what_is_taken(meta, &mut call, &mut new)?;
            let raised = Raised {
                volume: new.id,
                generation,
            };
            // No promotion of a store rests on what an owner of before has said (R2, S6).
            call.then.push(put(map::raised_key(pool_of(meta, &new)?), &raised));
            call.then.push(put(key.clone(), &new));
        }
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Some(new));
        }
        let mut now = (0..held.len()).map(|index| reply.value(index).map_or(0, |found| found.mod_revision));
        if held.iter().any(|(_, revision)| now.next() != Some(*revision)) {
            return Ok(None);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// A volume that was hidden while it was closed, and whose mirror is gone, as it is to be when it is there again: open to hosts, by a generation that
/// nobody has had. What that needs beside the volume's own record, and what is raised, goes into the call.
///
/// # Errors
/// It was taken over as often as can be; the metadata is away.
pub(crate) fn opened_again(meta: &dyn Transact, call: &mut Call, old: &Volume) -> Result<Volume> {
    let mut new = Volume {
        generation: next_generation(old)?,
        owner: None,
        closed: None,
        ..old.clone()
    };
    end_what_is_taken(meta, call, &mut new)?;
    Ok(new)
}

fn next_generation(volume: &Volume) -> Result<Generation> {
    volume.generation.next().ok_or_else(|| AdminError::BadSetting {
        what: "volume",
        name: volume.name.clone(),
        why: "it was taken over as often as its versions can count; copy it to a new one".to_owned(),
    })
}

fn pool_of(meta: &dyn Transact, volume: &Volume) -> Result<PoolId> {
    let found = get::<map::Pool>(meta, &map::pool_key(&volume.pool))?;
    found.map(|(pool, _)| pool.id).ok_or_else(|| AdminError::NoSuch {
        what: "pool",
        name: volume.pool.clone(),
        there: Vec::new(),
    })
}

/// What the owner of before was about to seal ends as it would by an opening (S2, S4), and nobody who comes after takes what was wished of the
/// volume before.
fn end_what_is_taken(meta: &dyn Transact, call: &mut Call, new: &mut Volume) -> Result<()> {
    // Whoever puts a set there raises it, and has looked at the volumes' records behind it.
    let counter = map::counter_key("sets");
    let (sets_made, counter_revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
    call.compares.push(unchanged(&counter, counter_revision));
    call.then.push(put(counter, &sets_made));
    // Nobody hands it over, by a wish of before, from who is at it.
    call.then.push(Op::Delete {
        key: map::move_key(new.id),
    });
    let wish_key = map::snapshot_wish_key(new.id);
    if let Some((_, revision)) = get::<SnapshotWish>(meta, &wish_key)? {
        call.compares.push(unchanged(&wish_key, revision));
        call.then.push(Op::Delete { key: wish_key });
    }
    let mut is_decided = false;
    let sets = meta.txn(&Call::prefix(map::sets_prefix()))?;
    for found in sets.values(0) {
        let Ok(set) = found.json::<SnapshotSet>() else { continue };
        let is_own = new.lineage.set == Some(set.id);
        match set.state {
            SetState::Taking if is_own || set.has(new.id) => {
                let why = format!(
                    "volume {} was closed, or opened again, for a mirror meanwhile",
                    new.name
                );
                call.compares.push(unchanged(&found.key, found.mod_revision));
                call.then.push(put(found.key.clone(), &set.voided(why, true)));
            }
            SetState::Ready if is_own => {
                call.compares.push(unchanged(&found.key, found.mod_revision));
                is_decided = true;
            }
            _ => {}
        }
    }
    if !new.lineage.taking {
        return Ok(());
    }
    let key = map::snapshot_key(new.id, new.lineage.number);
    let found = get::<Snapshot>(meta, &key)?;
    let is_ready = is_decided && found.is_some();
    if let Some((snapshot, revision)) = found.filter(|_| is_ready)
        && let SnapshotState::Taking(generation) = snapshot.state
    {
        let sealed = Snapshot {
            state: SnapshotState::Sealed(generation),
            ..snapshot
        };
        call.compares.push(unchanged(&key, revision));
        call.then.push(put(key, &sealed));
    }
    new.lineage.end(is_ready);
    Ok(())
}
