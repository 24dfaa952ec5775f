//! What points need.

use crate::entry::{Point, VolumePoint};
use crate::error::Error;
use crate::pack::PackName;
use crate::piece::PieceId;
use crate::state::State;
use crate::vault::Vault;
use std::collections::{BTreeSet, HashSet};

/// The pieces that the points need that were walked so far. A part of a tree that several share is walked once.
#[derive(Default)]
pub(crate) struct Walk {
    walked: BTreeSet<u64>,
    pub live: HashSet<PieceId>,
}

impl Walk {
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
            for leaf in vault.branch(*id)?.leaves().iter().flatten() {
                if self.live.contains(leaf) {
                    continue;
                }
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
