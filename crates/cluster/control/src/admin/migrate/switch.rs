//! The switch (M1): the name stands for the target, in the other pool or written anew in the same one, from one transaction on.
//!
//! It is made while the volume's owner holds: that began before it took the last snapshot, and only a transaction that takes
//! [`Lineage::held`](map::Lineage::held) back ends it (M2 to M4). Both write the volume's record, and compare it: so either the owner lets go, and
//! there is no switch, or the switch is made, and what the owner holds goes to the target unanswered. Whoever raises the volume's generation
//! takes it back as well.
//!
//! # Order
//! Those who are told one by one must hear of no volume twice under two names, and of none without what is known of it. First come the records
//! of what is known, by the target's number; then what the volume was gets its hidden name (it has the volume's still, which counts, for that is
//! older); the target loses its own name, and is no copy any more; then the volume's name gets the target.

use super::super::carry::carry;
use super::super::copy::points as points_of;
use super::super::lun::any_lun_use;
use super::super::namespace::any_use_of;
use super::super::snapshot::of_chain;
use super::super::subsystem::{all_subsystems, put, unchanged, uses_guard};
use super::super::target::all_targets;
use super::super::trash::find_pool;
use super::super::unreadable::Known;
use super::super::volume::{believable, find_volume};
use super::super::{AdminError, Result, get, list, tries};
use super::points::{Lacking, lacking};
use super::{fits, source_of};
use amita_metadata::{Call, Op, Transact};
use amita_types::SnapshotId;
use amita_types::map::{
    self, About, Copying, IscsiTarget, Lineage, Raised, SetState, Snapshot, SnapshotSet, SnapshotState, SnapshotWish,
    Subsystem, Volume,
};

/// What became of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switched {
    /// The volume is the target.
    Made,
    /// Its owner does not hold any more, or another one has it: another last pass is needed.
    LetGo,
    /// Something has changed, or speaks against it: why. Another pass is needed.
    Anew(String),
    /// The claim is lost.
    Lost,
}

/// What was read for it.
struct Both {
    old: Volume,
    old_revision: u64,
    target: Volume,
    target_revision: u64,
    /// The last snapshot's record.
    last_revision: u64,
    lacking: Lacking,
    /// The target's newest snapshot: by the generation under which it was sealed.
    newest: Snapshot,
}

/// Puts the target in the place of the volume, whose last snapshot is `last`, and whose last pass is done.
///
/// # Errors
/// The volume or the target is gone; the metadata is suspected, away or refuses. Where the outcome is not known, the move's record says it
/// ([`Copying::whole`]).
pub fn switch_volume(meta: &dyn Transact, copying: &Copying, claim: u64, last: SnapshotId) -> Result<Switched> {
    let key = map::copying_key(copying.volume);
    let copier = map::copier_key(copying.volume);
    for _ in tries(meta) {
        believable(meta)?;
        // Whoever makes a namespace, a LUN, an export or a clone raises it.
        let guard = uses_guard(meta)?;
        // Whoever puts a set of snapshots there raises that.
        let sets = map::counter_key("sets");
        let sets_revision = get::<u64>(meta, &sets)?.map_or(0, |(_, revision)| revision);
        let Some((mut record, revision)) = get::<Copying>(meta, &key)? else {
            return Ok(Switched::Lost);
        };
        if record.whole {
            return Ok(Switched::Made);
        }
        if record.cancelled || record.paused.is_some() {
            return Ok(Switched::Anew("it was taken back, or stands still".to_owned()));
        }
        let both = match read(meta, &record, last)? {
            Ok(both) => both,
            Err(other) => return Ok(other),
        };
        let guard_key = map::counter_key("namespaces");
        let mut call = Call {
            compares: vec![
                unchanged(&copier, claim),
                unchanged(&key, revision),
                unchanged(&map::volume_key(&both.old.name), both.old_revision),
                unchanged(&map::volume_key(&both.target.name), both.target_revision),
                unchanged(&map::snapshot_key(both.old.id, last), both.last_revision),
                unchanged(&guard_key, guard.1),
                unchanged(&sets, sets_revision),
            ],
            then: Vec::new(),
            otherwise: vec![Op::Get { key: copier.clone() }],
        };
        let new = switched(&both.old, &both.target);
        map::check_parents(&new)
            .and_then(|()| map::check_chain(&new))
            .map_err(|why| super::bad(&new.name, why))?;
        let needless = carry_over(meta, &mut call, &both.old, &new)?;
        (record.whole, record.ails) = (true, None);
        call.then.extend([
            put(map::volume_key(&map::hidden_name(both.old.id)), &left_behind(&both.old)),
            Op::Delete {
                key: map::volume_key(&both.target.name),
            },
            put(key.clone(), &record),
            put(map::volume_key(&new.name), &new),
        ]);
        uses(meta, &mut call, &both.old, &new)?;
        if both.lacking.newest.is_some() {
            // It was taken to know that all stores had heard; the volume never had it.
            let newest = &both.newest;
            call.then.extend([
                Op::Delete {
                    key: map::snapshot_key(newest.volume, newest.number),
                },
                Op::Delete {
                    key: map::snapshot_name_key(both.target.host(), &newest.name),
                },
            ]);
        }
        call.then.extend(needless);
        call.then.push(put(guard_key, &(guard.0 + 1)));
        let reply = meta.txn(&call)?;
        if reply.succeeded {
            return Ok(Switched::Made);
        }
        if reply.value(0).map(|found| found.mod_revision) != Some(claim) {
            return Ok(Switched::Lost);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Fails where something lasting speaks against a switch: it is asked before anybody holds for one.
///
/// # Errors
/// The volume is gone, or cannot move for as long as it is as it is; the metadata is away.
pub fn may_switch(meta: &dyn Transact, copying: &Copying) -> Result<()> {
    let source = source_of(meta, copying)?;
    fits(meta, &source)?;
    any_use_of(&all_subsystems(meta)?, &source)?;
    any_lun_use(&all_targets(meta)?, &source)?;
    Ok(())
}

/// Reads both, and what speaks against it.
fn read(meta: &dyn Transact, record: &Copying, last: SnapshotId) -> Result<std::result::Result<Both, Switched>> {
    let anew = |why: &str| Ok(Err(Switched::Anew(why.to_owned())));
    let name = source_of(meta, record)?.name;
    let (old, old_revision) = find_volume(meta, &name)?;
    if record.moving.is_none_or(|moving| moving.data != old.id) || old.lineage.moving != Some(record.volume) {
        return anew("the volume is another one by now");
    }
    let lineage = &old.lineage;
    let key = map::snapshot_key(old.id, last);
    let Some((sealed, last_revision)) = get::<Snapshot>(meta, &key)? else {
        return Ok(Err(Switched::LetGo));
    };
    let is_held = lineage.held && !lineage.taking && (lineage.number, lineage.sealed) == (last, last);
    if !is_held || sealed.state != SnapshotState::Sealed(old.generation) {
        return Ok(Err(Switched::LetGo));
    }
    let (target, target_revision) = find_volume(meta, &record.name)?;
    if target.id != record.volume || target.generation != record.place.generation || target.lineage.taking {
        return anew("others have had the target");
    }
    if target.size_bytes != old.size_bytes || sealed.size_bytes != old.size_bytes {
        return anew("it has another size by now");
    }
    let all = of_chain(meta, &old)?;
    if points_of(&all, record, record.place.base, last).any(|point| point.number != last) {
        return anew("a snapshot was taken of it meanwhile");
    }
    let points = of_chain(meta, &target)?;
    let lacking = lacking(record, &all, &points);
    if lacking.is_missing || !lacking.anew.is_empty() || !lacking.needless.is_empty() {
        return anew("its snapshots were changed meanwhile");
    }
    // All stores in sync of the target have adopted this opening's generation (M5).
    let newest = points.into_iter().max_by_key(|point| point.number);
    let Some(newest) = newest.filter(|newest| newest.state == SnapshotState::Sealed(target.generation)) else {
        return anew("not all stores of the target have heard of who writes to it");
    };
    if is_being_taken(meta, &old)? || is_being_taken(meta, &target)? {
        return anew("a snapshot of it is being taken");
    }
    if let Err(why) = fits(meta, &old) {
        return match why {
            AdminError::Metadata(_) => Err(why),
            why => anew(&why.to_string()),
        };
    }
    Ok(Ok(Both {
        old,
        old_revision,
        target,
        target_revision,
        last_revision,
        lacking,
        newest,
    }))
}

/// Is a snapshot wished, alone or with a set?
fn is_being_taken(meta: &dyn Transact, volume: &Volume) -> Result<bool> {
    let wish = get::<SnapshotWish>(meta, &map::snapshot_wish_key(volume.id))?;
    let sets: Vec<SnapshotSet> = list(meta, &map::sets_prefix())?;
    let is_of_a_set = |set: &SnapshotSet| set.state == SetState::Taking && set.has(volume.id);
    Ok(wish.is_some_and(|(wish, _)| wish.refused.is_none()) || sets.iter().any(is_of_a_set))
}

/// The volume as it is afterwards. Whoever owned it owns it still, by its record: nobody else goes before, and nothing is asked of whoever
/// made the target, who reads nothing of it, and has ended what was under way.
fn switched(old: &Volume, target: &Volume) -> Volume {
    Volume {
        id: target.id,
        name: old.name.clone(),
        pool: target.pool.clone(),
        size_bytes: target.size_bytes,
        generation: target.generation,
        owner: old.owner,
        lineage: Lineage {
            // As if it had taken and deleted those that were taken for the move.
            number: old.lineage.number.max(target.lineage.number),
            sealed: old.lineage.number.max(target.lineage.number),
            root: target.lineage.root,
            host: Some(old.host()),
            given_back: true,
            ..Lineage::default()
        },
        parents: Vec::new(),
        former: Vec::new(),
        keys: target.keys.clone(),
        limits: old.limits.clone(),
        priority: old.priority.clone(),
        closed: None,
    }
}

/// What the volume was: of no volume's chain, so that it goes as soon as nothing that was cloned from it needs it (M7).
fn left_behind(old: &Volume) -> Volume {
    Volume {
        name: map::hidden_name(old.id),
        lineage: Lineage {
            host: None,
            former_of: Some(old.host()),
            moving: None,
            held: false,
            ..old.lineage
        },
        former: Vec::new(),
        limits: None,
        priority: None,
        ..old.clone()
    }
}

/// What is known of the volume, and to whom it is served, goes by its new number. What is to go afterwards is returned.
fn carry_over(meta: &dyn Transact, call: &mut Call, old: &Volume, new: &Volume) -> Result<Vec<Op>> {
    // When it was made: its key was made with it.
    let made_at = get::<About>(meta, &map::about_key(new.id))?.and_then(|(about, _)| about.created_at);
    let keyed_at = made_at.filter(|_| new.keys.is_some());
    let mut needless = carry(meta, call, old.id, new.id, |about| About { keyed_at, ..about })?;
    // As it is: what hosts have registered, and who holds it, is the same by the other number.
    let key = map::reservation_key(old.id);
    let reply = meta.txn(&Call::get(key.clone()))?;
    let reservation = reply.value(0);
    call.compares
        .push(unchanged(&key, reservation.map_or(0, |found| found.mod_revision)));
    if let Some(found) = reservation {
        call.then.push(Op::Put {
            key: map::reservation_key(new.id),
            value: found.value.clone(),
            lease: None,
        });
        needless.push(Op::Delete { key });
    }
    // What was refused, nobody waits for any more; what is wished keeps it from being switched, also what has come since that was looked at.
    let key = map::snapshot_wish_key(old.id);
    let refused = get::<SnapshotWish>(meta, &key)?.filter(|(wish, _)| wish.refused.is_some());
    call.compares
        .push(unchanged(&key, refused.map_or(0, |(_, revision)| revision)));
    needless.push(Op::Delete { key });
    // What is to be flattened has no parents there.
    needless.push(Op::Delete {
        key: map::flatten_key(old.id),
    });
    // No promotion goes through that has not heard of it (S6). One key is written once: that of one pool tells of both.
    let others = (old.pool != new.pool).then_some(old);
    for volume in std::iter::once(new).chain(others) {
        let pool = find_pool(meta, &volume.pool)?;
        let raised = Raised {
            volume: volume.id,
            generation: volume.generation,
        };
        call.then.push(put(map::raised_key(pool.id), &raised));
    }
    Ok(needless)
}

/// Namespaces and LUNs that are the volume are it by its new number. Whoever changes them raises the counter that is compared.
fn uses(meta: &dyn Transact, call: &mut Call, old: &Volume, new: &Volume) -> Result<()> {
    let subsystems: Known<Subsystem> = all_subsystems(meta)?;
    any_use_of(&subsystems, old)?;
    let shows = |found: &&Subsystem| found.namespaces.iter().any(|namespace| namespace.volume == old.id);
    for found in subsystems.readable.iter().filter(shows) {
        let key = map::subsystem_key(&found.name);
        // Hosts and gateways of it change without that counter.
        let Some((mut subsystem, revision)) = get::<Subsystem>(meta, &key)? else {
            continue;
        };
        for namespace in &mut subsystem.namespaces {
            if namespace.volume == old.id && namespace.snapshot.is_none() {
                namespace.volume = new.id;
            }
        }
        call.compares.push(unchanged(&key, revision));
        call.then.push(put(key, &subsystem));
    }
    let targets: Known<IscsiTarget> = all_targets(meta)?;
    any_lun_use(&targets, old)?;
    let shows = |found: &&IscsiTarget| found.luns.iter().any(|lun| lun.volume == old.id);
    for found in targets.readable.iter().filter(shows) {
        let key = map::iscsi_target_key(&found.name);
        let Some((mut target, revision)) = get::<IscsiTarget>(meta, &key)? else {
            continue;
        };
        for lun in &mut target.luns {
            if lun.volume == old.id && lun.snapshot.is_none() {
                lun.volume = new.id;
            }
        }
        call.compares.push(unchanged(&key, revision));
        call.then.push(put(key, &target));
    }
    Ok(())
}

/// Hosts know a snapshot by its data's number: a volume does not move while one is served.
pub(super) fn no_snapshot_is_used(meta: &dyn Transact, volume: &Volume) -> Result<()> {
    let refuse = |what: String| {
        Err(super::bad(
            &volume.name,
            format!(
                "a snapshot of it is {what}, and hosts know that by the number of its data, which will be another one: take it out first"
            ),
        ))
    };
    for subsystem in all_subsystems(meta)?.readable {
        let mut namespaces = subsystem.namespaces.iter();
        if let Some(found) = namespaces.find(|found| found.snapshot.is_some() && volume.has_data(found.volume)) {
            return refuse(format!("namespace {} of subsystem {}", found.nsid, subsystem.name));
        }
    }
    for target in all_targets(meta)?.readable {
        let mut luns = target.luns.iter();
        if let Some(found) = luns.find(|found| found.snapshot.is_some() && volume.has_data(found.volume)) {
            return refuse(format!("LUN {} of target {}", found.number, target.name));
        }
    }
    Ok(())
}
