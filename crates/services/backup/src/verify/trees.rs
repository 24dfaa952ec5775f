//! The trees of points, as a check walks them.
//!
//! A part that several points share is read once, and also where it leads to something that is lost: what points have in common is most of what they are, and one damaged
//! pack may be of all of them.

use super::{How, Judged, Reading, Report, judge};
use crate::entry::Point;
use crate::error::Error;
use crate::pack::PackName;
use crate::piece::PieceId;
use crate::vault::Vault;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What lacks first of a tree, or a part of one; none: it is whole.
type Lack = Option<Arc<Error>>;

/// What is known of the trees that were walked so far.
pub(super) struct Trees<'a> {
    vault: &'a Vault,
    reading: Reading<'a>,
    /// The pieces of which all copies are in packs that were found damaged or missing before.
    lost: HashSet<PieceId>,
    /// Branches and leaves.
    walked: HashMap<PieceId, Lack>,
}

impl<'a> Trees<'a> {
    /// None was walked. Lost is what is in packs that the report knows to be.
    pub fn of(vault: &'a Vault, reading: Reading<'a>, report: &Report) -> Trees<'a> {
        let is_lost = |id: &PieceId| {
            let places = vault.state.places(id);
            places.iter().all(|place| report.packs_lost.contains(&place.pack))
        };
        let records = report.packs_lost.iter().filter_map(|name| vault.state.packs.get(name));
        let records = records.flat_map(|pack| &pack.directory.records);
        Trees {
            vault,
            reading,
            lost: records.map(|record| record.id).filter(is_lost).collect(),
            walked: HashMap::new(),
        }
    }

    /// What a point lacks first.
    ///
    /// # Errors
    /// When the store does not answer; [`Error::Ended`].
    pub fn lack(&mut self, point: &Point, report: &mut Report) -> Result<Lack, Error> {
        for id in point.volumes.iter().flat_map(|volume| volume.branches.iter().flatten()) {
            let lack = self.branch(*id, report)?;
            if lack.is_some() {
                return Ok(lack);
            }
        }
        Ok(None)
    }

    fn branch(&mut self, id: PieceId, report: &mut Report) -> Result<Lack, Error> {
        if let Some(known) = self.known(id)? {
            return Ok(known);
        }
        let read = match self.vault.branch(id) {
            Err(error) => self.judged(id, error, report, || self.vault.branch(id))?,
            Ok(branch) => Judged::Read(branch),
        };
        let mut lack = None;
        match read {
            Judged::Damage(error) => lack = Some(Arc::new(error)),
            Judged::Read(branch) => {
                report.in_row = false;
                for leaf in branch.leaves().iter().flatten() {
                    lack = self.leaf(*leaf, report)?;
                    if lack.is_some() {
                        break;
                    }
                }
            }
        }
        self.walked.insert(id, lack.clone());
        Ok(lack)
    }

    fn leaf(&mut self, id: PieceId, report: &mut Report) -> Result<Lack, Error> {
        if let Some(known) = self.known(id)? {
            return Ok(known);
        }
        let read = match self.vault.leaf(id) {
            Err(error) => self.judged(id, error, report, || self.vault.leaf(id))?,
            Ok(leaf) => Judged::Read(leaf),
        };
        let lack = match read {
            Judged::Damage(error) => Some(Arc::new(error)),
            Judged::Read(leaf) => {
                report.in_row = false;
                leaf.extents().iter().find_map(|extent| self.gone(extent.piece))
            }
        };
        self.walked.insert(id, lack.clone());
        Ok(lack)
    }

    /// What is known of a branch or a leaf; none: it is to be read.
    fn known(&self, id: PieceId) -> Result<Option<Lack>, Error> {
        if let Some(walked) = self.walked.get(&id) {
            return Ok(Some(walked.clone()));
        }
        let gone = self.gone(id);
        match gone.is_none() && (self.reading.ends)() {
            true => Err(Error::Ended),
            false => Ok(gone.map(Some)),
        }
    }

    /// Is no copy of a piece left, as far as is known without reading it?
    fn gone(&self, id: PieceId) -> Lack {
        let state = &self.vault.state;
        if !state.index.contains_key(&id) {
            return Some(Arc::new(Error::NoPiece(id)));
        }
        if !self.lost.contains(&id) {
            return None;
        }
        let place = state.places(&id).first().copied();
        Some(Arc::new(place.map_or(Error::NoPiece(id), |place| Error::Damaged {
            object: self.vault.id.pack(place.pack),
            why: "it is damaged or missing, and the point needs it",
        })))
    }

    /// Why a part of a tree cannot be read, as what it lacks; or that part, where it can be read after all.
    fn judged<T>(
        &self,
        id: PieceId,
        error: Error,
        report: &mut Report,
        again: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Judged<T>, Error> {
        let places = self.vault.state.places(&id);
        let is_known = |pack: &PackName| report.packs_lost.contains(pack);
        let all_known = places.iter().all(|place| is_known(&place.pack));
        if error.is_damage() || all_known || matches!(error, Error::NewerFormat { .. }) {
            return Ok(Judged::Damage(error));
        }
        // Of several copies it hangs on one of which nothing is known yet.
        let is_suspect = |pack: &PackName| is_known(pack) || self.reading.suspects.contains(&self.vault.id.pack(*pack));
        let other = places.iter().find(|place| !is_suspect(&place.pack));
        let error = match (error, other) {
            (Error::Store { what, source, .. }, Some(other)) => Error::Store {
                object: self.vault.id.pack(other.pack),
                what,
                source,
            },
            (error, _) => error,
        };
        judge(self.vault, error, How::Part, self.reading, report, again)
    }
}
