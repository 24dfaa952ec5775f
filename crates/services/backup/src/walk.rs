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
    /// What cannot be read is passed over; none: the walk ends there.
    unread: Option<Unread>,
}

/// When packs that are needed cannot be read by so many, it is the store that does not answer.
const UNREAD_PACKS: usize = 8;

/// What a walk has passed over.
#[derive(Default)]
struct Unread {
    /// Why the first of it could not be read, but for what was given up as lost before: that is known.
    first: Option<Error>,
    /// Packs of which the store has not answered what was asked: to wait for that once is enough.
    packs: BTreeSet<PackName>,
}

impl<'a> Walk<'a> {
    /// One that ends where `ends` says so: asked before each part of a tree that is read.
    pub fn until(ends: &'a dyn Fn() -> bool) -> Walk<'a> {
        Walk {
            ends: Some(ends),
            ..Walk::default()
        }
    }

    /// The same, which passes over what cannot be read with all that lies below it ([`Walk::passed_over`]): for whoever does what can be done.
    pub fn over_what_is_unread(ends: &'a dyn Fn() -> bool) -> Walk<'a> {
        Walk {
            unread: Some(Unread::default()),
            ..Walk::until(ends)
        }
    }

    /// Why the first that was passed over could not be read. What no pack has is not among the pieces any more.
    pub fn passed_over(&mut self, state: &State) -> Option<Error> {
        self.live.retain(|id| state.index.contains_key(id));
        self.unread.as_mut().and_then(|unread| unread.first.take())
    }

    /// A part of a tree; none: it cannot be read, and is passed over.
    fn read<T>(
        &mut self,
        vault: &Vault,
        id: PieceId,
        read: impl FnOnce(&Vault, PieceId) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if let Some(unread) = self.unread.as_ref().filter(|unread| !unread.packs.is_empty()) {
            let places = vault.state.places(&id);
            if !places.is_empty() && places.iter().all(|place| unread.packs.contains(&place.pack)) {
                return Ok(None);
            }
        }
        self.goes_on()?;
        match read(vault, id) {
            Ok(found) => Ok(Some(found)),
            Err(error) => self.pass_over(&vault.state, id, error).map(|()| None),
        }
    }

    fn pass_over(&mut self, state: &State, id: PieceId, error: Error) -> Result<(), Error> {
        let Some(unread) = self.unread.as_mut() else {
            return Err(error);
        };
        let places = state.places(&id);
        if !error.is_damage() {
            unread.packs.extend(places.iter().map(|place| place.pack));
            if matches!(error, Error::Ended) || unread.packs.len() >= UNREAD_PACKS {
                return Err(error);
            }
        }
        if places.is_empty() || places.iter().any(|place| !state.lost.contains(&place.pack)) {
            unread.first.get_or_insert(error);
        }
        Ok(())
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
            let branch = self.read(vault, *id, Vault::branch)?;
            for leaf in branch.iter().flat_map(|branch| branch.leaves().iter().flatten()) {
                if self.live.contains(leaf) {
                    continue;
                }
                let extents = self.read(vault, *leaf, Vault::leaf)?;
                for extent in extents.iter().flat_map(|extents| extents.extents()) {
                    let new = self.live.insert(extent.piece);
                    if new && !vault.state.index.contains_key(&extent.piece) {
                        self.pass_over(&vault.state, extent.piece, Error::NoPiece(extent.piece))?;
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
