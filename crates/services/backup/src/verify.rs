//! Verifying: is everything there, and is it what was put?
//!
//! A check reads the trees of points, and packs: all of them, or a part that the caller draws. Every pack's object is asked for in any case. A
//! whole one reads the journal from its first entry on, also where a checkpoint stands for it.

use crate::error::{Error, of};
use crate::pack::PackName;
use crate::piece::PieceId;
use crate::vault::Vault;
use crate::walk::Walk;
use std::collections::{BTreeMap, BTreeSet};

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The journal, all points' trees, and all packs.
    Whole,
    /// All points' trees, and so many of a thousand packs, another part for another seed.
    Sampled {
        /// Of a thousand.
        per_mille: u32,
        /// Which.
        seed: u64,
    },
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// Packs that were read whole.
    pub packs: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Points whose trees were read.
    pub points: usize,
    /// What is wrong: each object is named.
    pub damage: Vec<Error>,
    /// Packs that are damaged or missing, for [`Vault::give_up`].
    pub packs_lost: BTreeSet<PackName>,
    /// Points that are not whole, with one reason each.
    pub points_lost: BTreeMap<u64, Error>,
}

impl Report {
    /// Was nothing found wrong?
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.points_lost.is_empty()
    }
}

fn draw(seed: u64, pack: PackName) -> u64 {
    let mut bits = seed
        ^ pack.session.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(pack.count).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) % 1000
}

/// Checks a vault. To keep what is checked from being pruned meanwhile, hold a session.
///
/// # Errors
/// When the store does not answer: that is no damage. What is damaged is in the report.
pub fn verify(vault: &Vault, scope: Scope) -> Result<Report, Error> {
    let mut report = Report::default();
    let (keys, damaged) = vault.damaged_keys()?;
    report.damage.extend(damaged);
    if keys == 0 {
        report.damage.push(Error::NoVault { vault: vault.id });
    }
    if scope == Scope::Whole {
        report.damage.extend(vault.damaged_entries()?);
    }
    for (name, pack) in &vault.state.packs {
        let whole = match scope {
            Scope::Whole => true,
            Scope::Sampled { per_mille, seed } => draw(seed, *name) < per_mille.into(),
        };
        let object = vault.id.pack(*name);
        let wrong = if whole {
            report.packs += 1;
            report.bytes += pack.bytes;
            match vault.store.get(&object).map_err(of(&object, "read it"))? {
                Some(bytes) => pack.check(&vault.keys, &object, &bytes, &mut |_, _| {}),
                None => Err(Error::Missing { object }),
            }
        } else {
            // Its last byte, and none behind it.
            let read = vault.store.get_range(&object, pack.bytes - 1, 2);
            match read.map_err(of(&object, "read it"))? {
                Some(bytes) if bytes.len() == 1 => Ok(()),
                Some(_) => Err(Error::Damaged {
                    object,
                    why: "it has another length than it had",
                }),
                None => Err(Error::Missing { object }),
            }
        };
        match wrong {
            Ok(()) => {}
            Err(error) if error.is_damage() || matches!(error, Error::NewerFormat { .. }) => {
                report.packs_lost.insert(*name);
                report.damage.push(error);
            }
            Err(error) => return Err(error),
        }
    }
    points(vault, &mut report)?;
    Ok(report)
}

/// The pack of the vault that an error is about.
fn pack_of(vault: &Vault, error: &Error) -> Option<PackName> {
    let (Error::Damaged { object, .. } | Error::Missing { object }) = error else {
        return None;
    };
    let name = PackName::parse(object.strip_prefix(&vault.id.packs())?)?;
    vault.state.packs.contains_key(&name).then_some(name)
}

/// Every point's tree is walked, and each piece has a copy that was not found damaged.
fn points(vault: &Vault, report: &mut Report) -> Result<(), Error> {
    let is_lost = |id: &PieceId| {
        let places = vault.state.places(id);
        places.iter().all(|place| report.packs_lost.contains(&place.pack))
    };
    let records = report.packs_lost.iter().filter_map(|name| vault.state.packs.get(name));
    let records = records.flat_map(|pack| &pack.directory.records);
    let lost: Vec<PieceId> = records.map(|record| record.id).filter(is_lost).collect();
    // Only of points that are whole: another one that shares a part with one that is not must not pass that over.
    let mut whole = Walk::default();
    for (number, point) in &vault.state.points {
        report.points += 1;
        let mut own = std::mem::take(&mut whole);
        let walked = point.volumes.iter().try_for_each(|volume| own.volume(vault, volume));
        let found = walked.and_then(|()| {
            let Some(id) = lost.iter().find(|id| own.live.contains(*id)) else {
                return Ok(());
            };
            let place = vault.state.places(id).first().copied();
            Err(place.map_or(Error::NoPiece(*id), |place| Error::Damaged {
                object: vault.id.pack(place.pack),
                why: "it is damaged or missing, and the point needs it",
            }))
        });
        match found {
            Ok(()) => whole = own,
            Err(error) if error.is_damage() => {
                // Where a sample is read only this tells of a pack of trees.
                report.packs_lost.extend(pack_of(vault, &error));
                report.points_lost.insert(*number, error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
