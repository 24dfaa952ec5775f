//! What points need.

use crate::entry::{Identity, Point, VolumePoint};
use crate::error::Error;
use crate::pack::PackName;
use crate::piece::PieceId;
use crate::state::State;
use crate::vault::Vault;
use std::collections::{BTreeSet, HashSet};

/// The pieces that the points need that were walked so far. A part of a tree that several share is walked once.
#[derive(Default)]
pub(crate) struct Walk<'a> {
    walked: BTreeSet<u64>,
    pub live: HashSet<PieceId>,
    /// Whoever has asked for it may want it to end.
    ends: Option<&'a dyn Fn() -> bool>,
}

impl<'a> Walk<'a> {
    /// One that ends where `ends` says so: asked before each part of a tree that is read.
    pub fn until(ends: &'a dyn Fn() -> bool) -> Walk<'a> {
        Walk {
            ends: Some(ends),
            ..Walk::default()
        }
    }

    fn goes_on(&self) -> Result<(), Error> {
        match self.ends {
            Some(ends) if ends() => Err(Error::Ended),
            _ => Ok(()),
        }
    }

    /// All points, ghosts too, that were not walked before. What was forgotten since stays in.
    pub fn all(&mut self, vault: &Vault) -> Result<(), Error> {
        let State { points, ghosts, .. } = &vault.state;
        for (number, point) in points.iter().chain(ghosts) {
            if self.walked.insert(*number)
                && let Err(error) = self.point(vault, point)
            {
                self.walked.remove(number);
                return Err(error);
            }
        }
        Ok(())
    }

    fn point(&mut self, vault: &Vault, point: &Point) -> Result<(), Error> {
        point.volumes.iter().try_for_each(|volume| self.volume(vault, volume))
    }

    pub fn volume(&mut self, vault: &Vault, volume: &VolumePoint) -> Result<(), Error> {
        for id in volume.branches.iter().flatten() {
            if self.live.contains(id) {
                continue;
            }
            self.goes_on()?;
            for leaf in vault.branch(*id)?.leaves().iter().flatten() {
                if self.live.contains(leaf) {
                    continue;
                }
                self.goes_on()?;
                let extents = vault.leaf(*leaf)?;
                for extent in extents.extents() {
                    let new = self.live.insert(extent.piece);
                    if new && !vault.state.index.contains_key(&extent.piece) {
                        return Err(Error::NoPiece(extent.piece));
                    }
                }
                // Only when all below it is in.
                self.live.insert(*leaf);
            }
            self.live.insert(*id);
        }
        Ok(())
    }

    /// Is something of it lost: are all copies of a piece in packs that were found damaged or missing?
    fn is_lost(&self, state: &State) -> bool {
        let is_lost = |id: &PieceId| state.places(id).iter().all(|place| state.lost.contains(&place.pack));
        self.live.iter().any(is_lost)
    }

    /// The packs that have a copy of each piece: of several that one that stays, and is not to be evacuated.
    pub fn needed(&self, state: &State, evacuated: &BTreeSet<PackName>) -> Result<BTreeSet<PackName>, Error> {
        let mut needed = BTreeSet::new();
        for id in &self.live {
            let places = state.places(id);
            let copy = places
                .iter()
                .find(|place| !evacuated.contains(&place.pack) && !state.lost.contains(&place.pack));
            let copy = copy.or(places.first()).ok_or(Error::NoPiece(*id))?;
            needed.insert(copy.pack);
        }
        Ok(needed)
    }
}

impl Vault {
    /// Does a volume of a point need something that is lost ([`Vault::give_up`])? Then no other point is to be counted from it: it would need
    /// that, too. `ends`: asked again and again whether it is to end.
    ///
    /// # Errors
    /// When there is no such point or volume; when the store does not answer; [`Error::Ended`].
    pub fn is_lost(&self, point: u64, identity: &Identity, ends: &dyn Fn() -> bool) -> Result<bool, Error> {
        let volume = self.volume(point, identity)?;
        if self.state.lost.is_empty() {
            return Ok(false);
        }
        let mut walk = Walk::until(ends);
        match walk.volume(self, volume) {
            Ok(()) => Ok(walk.is_lost(&self.state)),
            Err(error) if error.is_damage() => Ok(true),
            Err(error) => Err(error),
        }
    }
}
