//! A volume is made what a snapshot of it is: a clone of that takes its place, in one transaction (S13).
//! `docs/decisions/056-a-revert-is-a-clone-in-the-place-of-the-head.md` tells why it is so.
//!
//! The clone gets the volume's name, and all that is known of the volume. What the volume was until then stays under a hidden name as its
//! former data, with its snapshots, and the clone's record says so ([`Volume::chain`]). Nothing of before may be acknowledged any more
//! by then: so whoever reverts has owned the volume alone, all its stores have adopted that generation, which a snapshot that was taken
//! under it says (S2), and it has let go of the volume.

use super::carry::carry;
use super::clone::{MAX_CLONES, comes_from, data_of};
use super::copy::none_copies;
use super::flatten;
use super::keys::{DataKeys, NewKey, Whose, can_go};
use super::lun::{lun_use, not_a_lun};
use super::migrate::none_moves_still;
use super::mirror::{goes_back, none_closed_to};
use super::namespace::use_of;
use super::snapshot::{snapshot, taken};
use super::subsystem::{all_subsystems, put, unchanged, uses_guard};
use super::target::all_targets;
use super::trash::find_pool;
use super::volume::{believable, find_volume, has_room};
use super::{AdminError, Result, cluster, get, list, tries};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{
    self, About, Export, Flatten, Lineage, MAX_FORMER, MAX_LEVELS, Raised, SNAPSHOTS_SINCE, SetState, Snapshot,
    SnapshotSet, SnapshotState, SnapshotWish, Volume,
};
use amita_types::{Generation, MirrorId, SnapshotId, VolumeId};
use std::time::Duration;

/// From so many levels on a volume that is reverted is flattened as well, in the background.
pub const FLATTENED_FROM: usize = 32;

/// A revert that may come to its end.
#[derive(Clone, Copy, Debug)]
pub struct Revert<'a> {
    /// The volume as its owner has it, who has let go of it.
    pub volume: &'a Volume,
    /// What it is to be again.
    pub to: &'a Snapshot,
    /// What that owner has taken of it: all stores have adopted its generation since.
    pub before: &'a Snapshot,
    /// Does that stay?
    pub keep: bool,
    /// Since 1970.
    pub now: Duration,
    /// What makes the key that an encrypted volume has for what is written from then on (S14).
    pub keys: Option<&'a dyn DataKeys>,
    /// The mirror that it is done for: what is closed for that is reverted by it alone.
    pub mirror: Option<MirrorId>,
}

fn bad(volume: &str, why: impl Into<String>) -> AdminError {
    AdminError::BadSetting {
        what: "volume",
        name: volume.to_owned(),
        why: why.into(),
    }
}

/// May the volume be made what its snapshot is? That nobody uses it is not asked here.
///
/// # Errors
/// There is no such snapshot any more, or it is larger than the volume; hosts may use the volume by NVMe, or have reserved it; its clients
/// may only read it; it comes from too many levels of clones, or was reverted too often; the cluster's version does not know of it; the
/// metadata is away.
pub fn may_revert(meta: &dyn Transact, volume: &Volume, to: &Snapshot, mirror: Option<MirrorId>) -> Result<()> {
    let name = &volume.name;
    none_closed_to(volume, mirror)?;
    let version = cluster(meta)?.version;
    if version < SNAPSHOTS_SINCE {
        return Err(bad(
            name,
            format!(
                "the cluster's version is {version}, and reverts need {SNAPSHOTS_SINCE} (`amita cluster finalize`)"
            ),
        ));
    }
    let found = snapshot(meta, name, &to.name)?;
    if (found.volume, found.number) != (to.volume, to.number) {
        let why = format!("snapshot {} is another one by now; look at it again", to.name);
        return Err(bad(name, why));
    }
    if to.size_bytes > volume.size_bytes {
        let (has, had) = (volume.size_bytes, to.size_bytes);
        let why = format!(
            "it has {has} bytes, and had {had} at snapshot {}: make it as large first (`amita volume resize {name} --size {had}`)",
            to.name
        );
        return Err(bad(name, why));
    }
    not_served(meta, volume)?;
    none_copies(meta, volume)?;
    none_moves_still(meta, volume)?;
    let Some((origin, _)) = data_of(meta, (volume, 0), to.volume)? else {
        return Err(bad(name, format!("the data of snapshot {} is not there", to.name)));
    };
    check_levels(name, &origin)?;
    if volume.former.len() >= MAX_FORMER {
        return Err(bad(
            name,
            format!(
                "it was reverted {MAX_FORMER} times, each time from something that has snapshots still, which is the most: delete the \
                 oldest of its snapshots (`amita volume snapshot list {name}`), or copy it to a new volume"
            ),
        ));
    }
    if found.clones >= MAX_CLONES {
        let why = format!("snapshot {} has {MAX_CLONES} clones, which are the most", to.name);
        return Err(bad(name, why));
    }
    Ok(())
}

fn check_levels(name: &str, origin: &Volume) -> Result<()> {
    if origin.parents.len() < MAX_LEVELS {
        return Ok(());
    }
    let why = format!(
        "this snapshot comes from {MAX_LEVELS} levels of clones and reverts, which is the most: copy it to a new volume (`amita volume export`, \
         `amita volume import`). `amita volume flatten {name}` makes room for reverts to snapshots that are taken from then on"
    );
    Err(bad(name, why))
}

/// Nobody has the volume in a way that a revert does not see.
fn not_served(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    if let Some((subsystem, namespace)) = use_of(&all_subsystems(meta)?, &volume.name, volume.id, SnapshotId::HEAD)? {
        return Err(AdminError::AttachedStill {
            volume: volume.name.clone(),
            subsystem,
            nsid: namespace.nsid,
        });
    }
    not_a_lun(meta, &volume.name, volume.id, SnapshotId::HEAD)?;
    if !meta
        .txn(&Call::get(map::reservation_key(volume.id)))?
        .values(0)
        .is_empty()
    {
        let name = &volume.name;
        let why = format!(
            "hosts have reserved it, or have registered for that; take that away first (`amita volume reservation {name} --clear`)"
        );
        return Err(bad(name, why));
    }
    match get::<Export>(meta, &map::export_key(volume.id))? {
        Some((export, _)) if export.read_only => Err(AdminError::ReadOnlyExport {
            volume: volume.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// Makes the volume what its snapshot is; the volume as it is then, with another number.
///
/// # Errors
/// As [`may_revert`]; others have had the volume since it was let go of, or a snapshot of it is being taken; the snapshot was deleted
/// meanwhile; the metadata is suspected, away or refuses. Nothing is changed then.
pub fn revert_volume(meta: &dyn Transact, revert: &Revert<'_>) -> Result<Volume> {
    let Revert { volume, to, .. } = *revert;
    let key = map::volume_key(&volume.name);
    for _ in tries(meta) {
        believable(meta)?;
        let mirror = revert.mirror.map(|mirror| goes_back(meta, mirror)).transpose()?;
        // Whoever makes a namespace, an export or a clone raises it.
        let guard = uses_guard(meta)?;
        // Whoever puts a set of snapshots there raises that.
        let sets = map::counter_key("sets");
        let sets_revision = get::<u64>(meta, &sets)?.map_or(0, |(_, revision)| revision);
        let (old, revision) = find_volume(meta, &volume.name)?;
        is_ours(meta, revert, &old)?;
        may_revert(meta, &old, to, revert.mirror)?;
        let Some((origin, origin_revision)) = data_of(meta, (&old, revision), to.volume)? else {
            continue;
        };
        let Some((target, target_revision)) = get::<Snapshot>(meta, &map::snapshot_key(to.volume, to.number))? else {
            continue;
        };
        let counter = map::counter_key("volumes");
        let (last, counter_revision) = get::<u64>(meta, &counter)?.unwrap_or((0, 0));
        has_room(meta, last)?;
        let Some((mut new, sealed)) = reverted(&old, &origin, &target, VolumeId(last + 1)) else {
            continue;
        };
        if revert.mirror.is_some() {
            // It is what the point is, its size as well: a snapshot has nothing behind its end.
            new.size_bytes = target.size_bytes;
        }
        let mut own = None;
        if let Some(ring) = &origin.keys {
            let refuse = |why: String| bad(&old.name, why);
            let version = cluster(meta)?.version;
            let key = NewKey::make(
                meta,
                revert.keys,
                (new.host(), new.id),
                version,
                &Whose::of(meta, old.id)?,
            );
            let key = key.map_err(|why| why.of(&old.name))?;
            new.keys = Some(key.ring_of(ring, sealed, new.generation).map_err(refuse)?);
            own = Some(key);
        }
        map::check_parents(&new)
            .and_then(|()| map::check_chain(&new))
            .and_then(|()| can_go(&new))
            .map_err(|why| bad(&old.name, why))?;
        let guard_key = map::counter_key("namespaces");
        let mut call = Call {
            compares: vec![
                unchanged(&key, revision),
                unchanged(&guard_key, guard.1),
                unchanged(&counter, counter_revision),
                unchanged(&sets, sets_revision),
            ],
            then: Vec::new(),
            otherwise: Vec::new(),
        };
        call.compares
            .extend(mirror.map(|(record, revision)| unchanged(&map::mirror_key(&record.name), revision)));
        let needless = carry_over(meta, &mut call, &old, &new)?;
        // At no moment two records speak of one volume: first the name gets the new one.
        call.then.extend([
            put(key.clone(), &new),
            put(map::volume_key(&map::hidden_name(old.id)), &former(&old)),
            put(guard_key.clone(), &(guard.0 + 1)),
        ]);
        call.then.extend(needless);
        if origin.id != old.id {
            let origin_key = map::volume_key(&origin.name);
            call.compares.push(unchanged(&origin_key, origin_revision));
        }
        if let Some(key) = own {
            key.into_call(&mut call);
        }
        pin(&mut call, &target, target_revision);
        detach_in_background(meta, &mut call, &old, &new, revert.now)?;
        let done = match revert.keep {
            true => is_kept(meta, &mut call, revert.before)?,
            false => forget(meta, &mut call, &old, revert.before)?,
        };
        if !done {
            continue;
        }
        // Last: whoever is told one by one sees no number before its volume (R13).
        call.then.push(put(counter, &new.id.0));
        if meta.txn(&call)?.succeeded {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Has nobody had the volume since all its stores adopted the generation of who reverts it?
fn is_ours(meta: &dyn Transact, revert: &Revert<'_>, now: &Volume) -> Result<()> {
    let Revert { volume, before, .. } = *revert;
    let same = (now.id, now.generation, now.size_bytes) == (volume.id, volume.generation, volume.size_bytes);
    let adopted = before.volume == now.id && before.state == SnapshotState::Sealed(now.generation);
    let is_there = taken(meta, now, &before.name)?.is_some_and(|found| found.number == before.number);
    if !(same && adopted && is_there) {
        let why =
            "others have had it meanwhile, and may have written: it is what it was; do it again when nobody uses it";
        return Err(bad(&now.name, why));
    }
    let beside = |what: &'static str, other: String| {
        Err(AdminError::TakenBeside {
            volume: now.name.clone(),
            what,
            other,
        })
    };
    let wish = get::<SnapshotWish>(meta, &map::snapshot_wish_key(now.id))?;
    if let Some((wish, _)) = wish.filter(|(wish, _)| wish.refused.is_none()) {
        return beside("snapshot of it", wish.name);
    }
    let sets: Vec<SnapshotSet> = list(meta, &map::sets_prefix())?;
    let is_of_it = |set: &SnapshotSet| set.state == SetState::Taking && set.has(now.id);
    if let Some(set) = sets.into_iter().find(is_of_it) {
        return beside("set with it", set.name);
    }
    // Its owner takes it to its end though nobody wishes it any more.
    if now.lineage.taking {
        let taking = get::<Snapshot>(meta, &map::snapshot_key(now.id, now.lineage.number))?;
        let number = now.lineage.number.to_string();
        return beside("snapshot of it", taking.map_or(number, |(snapshot, _)| snapshot.name));
    }
    Ok(())
}

/// The volume as it is afterwards, but for its keys, and the generation that sealed the snapshot; none: that is no more what it was.
fn reverted(old: &Volume, origin: &Volume, target: &Snapshot, id: VolumeId) -> Option<(Volume, Generation)> {
    let SnapshotState::Sealed(generation) = target.state else {
        return None;
    };
    if target.mark {
        return None;
    }
    let (root, parents) = comes_from(origin, target.number, generation);
    let new = Volume {
        id,
        name: old.name.clone(),
        pool: old.pool.clone(),
        size_bytes: old.size_bytes,
        // Whoever opens it raises that, and is above all that it inherits (S8).
        generation: old.generation.max(origin.generation),
        owner: None,
        lineage: Lineage {
            // It counts on: no number is of two snapshots of the volume.
            number: old.lineage.number,
            sealed: old.lineage.sealed,
            root,
            host: Some(old.host()),
            ..Lineage::default()
        },
        parents,
        former: old.chain().collect(),
        keys: None,
        limits: old.limits.clone(),
        priority: old.priority.clone(),
        closed: old.closed.clone(),
    };
    Some((new, generation))
}

/// What the volume was.
fn former(old: &Volume) -> Volume {
    Volume {
        name: map::hidden_name(old.id),
        lineage: Lineage {
            host: None,
            former_of: Some(old.host()),
            ..old.lineage
        },
        former: Vec::new(),
        limits: None,
        priority: None,
        closed: None,
        ..old.clone()
    }
}

/// The snapshot is held by one more (S9).
fn pin(call: &mut Call, target: &Snapshot, revision: u64) {
    let key = map::snapshot_key(target.volume, target.number);
    let pinned = Snapshot {
        clones: target.clones + 1,
        ..target.clone()
    };
    call.compares.push(unchanged(&key, revision));
    call.then.push(put(key, &pinned));
}

/// What is known of the volume, and to whom it is served, goes by its new number, before anything says that this is the volume's. What is to go
/// afterwards is returned. An import or a shrinking that was not at its end has none any more.
fn carry_over(meta: &dyn Transact, call: &mut Call, old: &Volume, new: &Volume) -> Result<Vec<Op>> {
    let settled = |about: About| About {
        import: None,
        shrink: None,
        ..about
    };
    let mut needless = carry(meta, call, old.id, new.id, settled)?;
    // What was refused, nobody waits for any more; what is wished keeps it from being reverted.
    let key = map::snapshot_wish_key(old.id);
    let refused = get::<SnapshotWish>(meta, &key)?.filter(|(wish, _)| wish.refused.is_some());
    call.compares
        .push(unchanged(&key, refused.as_ref().map_or(0, |(_, revision)| *revision)));
    needless.extend(refused.map(|_| Op::Delete { key }));
    call.compares.push(absent(&map::reservation_key(old.id)));
    let pool = find_pool(meta, &new.pool)?;
    let raised = Raised {
        volume: new.id,
        generation: new.generation,
    };
    // No promotion goes through that has not heard of it (S6).
    call.then.push(put(map::raised_key(pool.id), &raised));
    Ok(needless)
}

fn absent(key: &str) -> Compare {
    unchanged(key, 0)
}

/// What has many levels needs fewer soon; and what was to need none goes on to.
fn detach_in_background(meta: &dyn Transact, call: &mut Call, old: &Volume, new: &Volume, now: Duration) -> Result<()> {
    let key = map::flatten_key(old.id);
    let before = get::<Flatten>(meta, &key)?;
    if let Some((_, revision)) = &before {
        call.compares.push(unchanged(&key, *revision));
        call.then.push(Op::Delete { key });
    } else {
        call.compares.push(absent(&key));
    }
    if before.is_none() && new.parents.len() < FLATTENED_FROM {
        return Ok(());
    }
    let pool = find_pool(meta, &new.pool)?;
    call.then
        .push(put(map::flatten_key(new.id), &flatten::begun(new, &pool, now)));
    Ok(())
}

/// What was taken before is there still when the volume is reverted. `false`: it has changed meanwhile.
fn is_kept(meta: &dyn Transact, call: &mut Call, before: &Snapshot) -> Result<bool> {
    let key = map::snapshot_key(before.volume, before.number);
    let found = get::<Snapshot>(meta, &key)?;
    // Where it is the one that the volume is made, that is compared already.
    let is_compared = call.compares.iter().any(|compare| match compare {
        Compare::ModRevision { key: compared, .. } => *compared == key,
        _ => false,
    });
    if let Some((_, revision)) = found.as_ref().filter(|_| !is_compared) {
        call.compares.push(unchanged(&key, *revision));
    }
    Ok(found.is_some())
}

/// What was taken before does not stay. `false`: it has changed meanwhile.
fn forget(meta: &dyn Transact, call: &mut Call, old: &Volume, before: &Snapshot) -> Result<bool> {
    let key = map::snapshot_key(before.volume, before.number);
    let name_key = map::snapshot_name_key(old.host(), &before.name);
    let (Some((found, revision)), Some((_, name_revision))) =
        (get::<Snapshot>(meta, &key)?, get::<map::SnapshotName>(meta, &name_key)?)
    else {
        return Ok(false);
    };
    // Somebody wants it, or what is left of it: it stays.
    if found.clones > 0
        || found.protected
        || found.mark
        || use_of(&all_subsystems(meta)?, &old.name, before.volume, before.number)?.is_some()
        || lun_use(&all_targets(meta)?, &old.name, before.volume, before.number)?.is_some()
    {
        return Ok(true);
    }
    call.compares
        .extend([unchanged(&key, revision), unchanged(&name_key, name_revision)]);
    call.then.extend([Op::Delete { key }, Op::Delete { key: name_key }]);
    Ok(true)
}
