//! Pruning: what no point needs goes, in two phases, beside running backups. Why that is safe is told in `state.rs`.
//!
//! ```text
//! forget    points are given up                                            one entry
//! condemn   packs that no point needs; nobody builds on them from now on   one entry, after a walk over all points
//! sweep     sessions from before are over; what is needed nevertheless is kept, the rest is no part of the vault any more
//! collect   objects are deleted: what was swept, and what dead sessions have put and told nobody of
//! ```
//!
//! Each step may be left at any place and begun again by anybody. A vault of which something is missing or damaged is not pruned: what would
//! have to stay cannot be known.

use crate::entry::Entry;
use crate::error::{Error, of};
use crate::pack::PackName;
use crate::piece::{Class, PieceId};
use crate::session::Session;
use crate::state::{Refusal, SessionId, State};
use crate::store::{Retention, StoreError, list_all};
use crate::vault::Vault;
use crate::walk::Walk;
use std::collections::BTreeSet;

/// A pack of which less than so many percent are needed is written anew, with what is needed, by [`run`].
const WORTH_PERCENT: u64 = 50;

/// What the session of a pruning is called where whoever prunes has no name of their own.
const LABEL: &str = "pruning: packs are written anew";

/// What a sweep came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Packs that are no part of the vault any more.
    pub swept: usize,
    /// Packs that were condemned, and are needed again.
    pub kept: usize,
}

/// What was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Packs that were swept.
    pub deleted: usize,
    /// Packs that nobody knew of.
    pub orphans: usize,
    /// Packs that are locked, and until when; they are tried again next time.
    pub locked: Vec<(PackName, Retention)>,
    /// What puts have left that were cut off.
    pub left: usize,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Packs whose rest was written anew.
    pub rewritten: usize,
    /// Packs that are condemned now.
    pub condemned: usize,
    /// What was swept.
    pub swept: Swept,
    /// What was deleted.
    pub collected: Collected,
    /// The sessions that the sweep waits for. Another run sweeps when they are over.
    pub waiting: Vec<SessionId>,
}

impl Vault {
    /// Gives points up.
    ///
    /// # Errors
    /// When one is not there, or the journal cannot be written.
    pub fn forget(&mut self, points: &[u64]) -> Result<(), Error> {
        self.append(&Entry::Forget(points.to_vec())).map(drop)
    }

    /// The same, as long as `guard` allows it: it is asked of the state that this goes behind, just before it is put, and once more for each that
    /// another one's entry was quicker.
    ///
    /// # Errors
    /// As [`Vault::forget`]; and what `guard` says.
    pub fn forget_if(&mut self, points: &[u64], guard: &dyn Fn(&State) -> Result<(), Error>) -> Result<(), Error> {
        self.append_if(&Entry::Forget(points.to_vec()), guard).map(drop)
    }

    /// Takes a session for dead. Nothing that it says from now on counts, and no sweep waits for it.
    ///
    /// # Errors
    /// When it is over already, or the journal cannot be written.
    pub fn fence(&mut self, session: SessionId) -> Result<(), Error> {
        self.append(&Entry::Fence(session)).map(drop)
    }

    /// Says that packs were found damaged or missing: sessions put their pieces again, and copies elsewhere are read first.
    ///
    /// # Errors
    /// When one is not there, or the journal cannot be written.
    pub fn give_up(&mut self, packs: &[PackName]) -> Result<(), Error> {
        self.append(&Entry::Lost(packs.to_vec())).map(drop)
    }
}

/// Condemns the packs that no point and no open session's journal entries need, `evacuated` ones also when their pieces have copies elsewhere.
/// Returns how many.
///
/// # Errors
/// When others are condemned already; when a point's tree cannot be read.
pub fn condemn(vault: &mut Vault, evacuated: &BTreeSet<PackName>) -> Result<usize, Error> {
    condemn_until(vault, evacuated, &never)
}

fn never() -> bool {
    false
}

fn goes_on(ends: &dyn Fn() -> bool) -> Result<(), Error> {
    if ends() { Err(Error::Ended) } else { Ok(()) }
}

fn condemn_until(vault: &mut Vault, evacuated: &BTreeSet<PackName>, ends: &dyn Fn() -> bool) -> Result<usize, Error> {
    let mut walk = Walk::until(ends);
    loop {
        goes_on(ends)?;
        vault.refresh()?;
        walk.all(vault)?;
        let needed = walk.needed(&vault.state, evacuated)?;
        // What an open session has put is on its way into a point.
        let dead = |pack: &&PackName| !needed.contains(*pack) && !vault.state.sessions.contains_key(&pack.session);
        let dead: Vec<PackName> = vault.state.packs.keys().filter(dead).copied().collect();
        if dead.is_empty() && vault.state.condemned.is_none() {
            return Ok(0);
        }
        let count = dead.len();
        // Whatever came in between is looked at first: a point may need them now.
        if vault.try_append(&Entry::Condemn(dead))?.is_some() {
            return Ok(count);
        }
    }
}

/// Takes what was condemned out of the vault, unless it is needed again.
///
/// # Errors
/// [`Error::Waiting`] while sessions are open that began before; when a point's tree cannot be read.
pub fn sweep(vault: &mut Vault) -> Result<Swept, Error> {
    sweep_until(vault, &never)
}

fn sweep_until(vault: &mut Vault, ends: &dyn Fn() -> bool) -> Result<Swept, Error> {
    let mut walk = Walk::until(ends);
    loop {
        goes_on(ends)?;
        vault.refresh()?;
        let waiting = vault.state.held_up_by();
        if !waiting.is_empty() {
            return Err(Error::Waiting(waiting));
        }
        let Some(condemned) = vault.state.condemned.clone() else {
            return Err(Refusal::NothingPending.into());
        };
        walk.all(vault)?;
        let needed = walk.needed(&vault.state, &BTreeSet::new())?;
        let kept: Vec<PackName> = condemned.packs.intersection(&needed).copied().collect();
        #[cfg(test)]
        let kept = if vault.state.switches.sweeps_blindly {
            Vec::new()
        } else {
            kept
        };
        let swept = Swept {
            swept: condemned.packs.len() - kept.len(),
            kept: kept.len(),
        };
        if vault.try_append(&Entry::Sweep { kept })?.is_some() {
            return Ok(swept);
        }
    }
}

/// Deletes the objects of packs that were swept, and of packs that dead sessions have put and told nobody of; old checkpoints, and what puts have
/// left that were cut off.
///
/// # Errors
/// When something cannot be listed or deleted for another reason than a lock.
pub fn collect(vault: &mut Vault) -> Result<Collected, Error> {
    collect_until(vault, &never)
}

fn collect_until(vault: &mut Vault, ends: &dyn Fn() -> bool) -> Result<Collected, Error> {
    vault.refresh()?;
    let mut collected = Collected::default();
    let mut deleted = Vec::new();
    let mut is_ended = false;
    for pack in vault.state.garbage.clone() {
        is_ended = ends();
        if is_ended {
            break;
        }
        if delete(vault, pack, &mut collected)? {
            deleted.push(pack);
        }
    }
    collected.deleted = deleted.len();
    // An old list cannot do harm: what a session that is over has not told of by now, it never will.
    let prefix = vault.id.packs();
    let listed = match is_ended {
        false => list_all(&*vault.store, &prefix).map_err(of(&prefix, "list it"))?,
        true => Vec::new(),
    };
    for object in listed {
        is_ended = ends();
        if is_ended {
            break;
        }
        let Some(pack) = object.name.strip_prefix(&prefix).and_then(PackName::parse) else {
            continue;
        };
        let state = &vault.state;
        let is_over = pack.session.0 <= state.number && !state.sessions.contains_key(&pack.session);
        let is_known = state.packs.contains_key(&pack) || state.garbage.contains(&pack);
        if is_over && !is_known && delete(vault, pack, &mut collected)? {
            collected.orphans += 1;
        }
    }
    vault.refresh()?;
    deleted.retain(|pack| vault.state.garbage.contains(pack));
    if !deleted.is_empty() {
        // Another run may have been quicker to say so.
        match vault.append(&Entry::Deleted(deleted)) {
            Ok(_) | Err(Error::Refused(Refusal::NoPack(_))) => {}
            Err(error) => return Err(error),
        }
    }
    // What was deleted until then is said all the same.
    if is_ended {
        return Err(Error::Ended);
    }
    vault.drop_checkpoints()?;
    collected.left = vault
        .store
        .tidy()
        .map_err(of("what cut off puts have left", "remove it"))?;
    Ok(collected)
}

fn delete(vault: &Vault, pack: PackName, collected: &mut Collected) -> Result<bool, Error> {
    let object = vault.id.pack(pack);
    match vault.store.delete(&object) {
        Ok(()) => Ok(true),
        Err(StoreError::Locked { until }) => {
            collected.locked.push((pack, until));
            Ok(false)
        }
        Err(error) => Err(of(&object, "delete it")(error)),
    }
}

/// Packs of which less than `percent` of their bytes are needed, and something.
fn sparse(vault: &Vault, walk: &Walk, percent: u64) -> Result<Vec<(PackName, BTreeSet<PieceId>)>, Error> {
    let needed = walk.needed(&vault.state, &BTreeSet::new())?;
    let mut found = Vec::new();
    for name in needed {
        let Some(pack) = vault.state.packs.get(&name) else {
            continue;
        };
        if vault.state.sessions.contains_key(&name.session) || vault.state.lost.contains(&name) {
            continue;
        }
        let here = |id: &PieceId| vault.state.places(id).first().is_some_and(|place| place.pack == name);
        let records = pack.directory.records.iter();
        let used = records.filter(|record| walk.live.contains(&record.id) && here(&record.id));
        let (mut bytes, mut pieces) = (0, BTreeSet::new());
        for record in used {
            bytes += u64::from(record.stored);
            pieces.insert(record.id);
        }
        if bytes * 100 < pack.bytes * percent {
            found.push((name, pieces));
        }
    }
    Ok(found)
}

/// Writes anew what is needed of packs of which less than `percent` is, and condemns them with all that is needed by nobody. Returns how many
/// were written anew, and how many are condemned. `label`: what the session is called by which they are written.
///
/// # Errors
/// As for [`condemn`]; when one of these packs is damaged; [`Error::Ended`] where `ends` says so.
pub fn rewrite(vault: &mut Vault, percent: u64, label: &str, ends: &dyn Fn() -> bool) -> Result<(usize, usize), Error> {
    vault.refresh()?;
    let mut walk = Walk::until(ends);
    walk.all(vault)?;
    let sparse = sparse(vault, &walk, percent)?;
    // One alone would only become another one alone.
    if sparse.len() < 2 {
        return Ok((0, condemn_until(vault, &BTreeSet::new(), ends)?));
    }
    let evacuated: BTreeSet<PackName> = sparse.iter().map(|(name, _)| *name).collect();
    let mut session = vault.begin(label)?;
    // While the session is open nobody takes the copies for the ones that are too many.
    let condemned = copy(&mut session, &sparse, ends).and_then(|()| condemn_until(session.vault, &evacuated, ends));
    let ended = session.end();
    let condemned = condemned?;
    ended?;
    Ok((evacuated.len(), condemned))
}

fn copy(session: &mut Session, sparse: &[(PackName, BTreeSet<PieceId>)], ends: &dyn Fn() -> bool) -> Result<(), Error> {
    for (name, pieces) in sparse {
        goes_on(ends)?;
        let object = session.vault.id.pack(*name);
        let read = session.vault.store.get(&object).map_err(of(&object, "read it"))?;
        let bytes = read.ok_or_else(|| Error::Missing { object: object.clone() })?;
        // Somebody else may have swept it since.
        let Some(pack) = session.vault.state.packs.get(name).cloned() else {
            continue;
        };
        let mut copies: Vec<(PieceId, Class, Vec<u8>)> = Vec::new();
        pack.check(&session.vault.keys, &object, &bytes, &mut |record, raw| {
            if pieces.contains(&record.id) {
                copies.push((record.id, record.class, raw));
            }
        })?;
        for (id, class, raw) in copies {
            session.copy(id, class, &raw)?;
        }
    }
    session.flush()
}

/// Sweeps what an earlier run has condemned, condemns what is needed by nobody now, sweeps that too where no session stands in the way, deletes
/// objects, and puts a checkpoint.
///
/// # Errors
/// When something cannot be read, put or deleted.
pub fn run(vault: &mut Vault) -> Result<Pruned, Error> {
    run_as(vault, LABEL, &never)
}

/// The same. `label`: what the session is called by which packs are written anew, so that whoever may take that for dead finds it. `ends` is asked
/// before each object whether it is to end: another one goes on from there.
///
/// # Errors
/// As [`run`]; [`Error::Ended`].
pub fn run_as(vault: &mut Vault, label: &str, ends: &dyn Fn() -> bool) -> Result<Pruned, Error> {
    let mut pruned = Pruned::default();
    vault.refresh()?;
    let sweep_now = |vault: &mut Vault, pruned: &mut Pruned| match sweep_until(vault, ends) {
        Ok(swept) => {
            pruned.swept.swept += swept.swept;
            pruned.swept.kept += swept.kept;
            Ok(true)
        }
        Err(Error::Waiting(sessions)) => {
            pruned.waiting = sessions;
            Ok(false)
        }
        Err(error) => Err(error),
    };
    if vault.state.condemned.is_none() || sweep_now(vault, &mut pruned)? {
        (pruned.rewritten, pruned.condemned) = rewrite(vault, WORTH_PERCENT, label, ends)?;
        if pruned.condemned > 0 {
            sweep_now(vault, &mut pruned)?;
        }
    }
    pruned.collected = collect_until(vault, ends)?;
    vault.checkpoint()?;
    Ok(pruned)
}
