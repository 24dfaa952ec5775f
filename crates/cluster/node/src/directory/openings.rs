//! Who uses an open volume, and is counted for that.
//!
//! A front end's opening has a number, by which alone it is closed. A volume may be lost, and be opened anew, while the word of a front end that it uses
//! the volume no more is on its way from another core: the number says which opening is meant, and that one is counted no more by then.

use super::{Directory, State};
use std::collections::BTreeSet;

/// One opening of a volume by a front end: never given twice by one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpeningId(pub u64);

/// The openings that count, of one volume.
pub(super) type Users = BTreeSet<OpeningId>;

/// The openings that there were.
#[derive(Default)]
pub(super) struct Openings {
    count: u64,
}

impl Openings {
    /// One more of those who use a volume.
    pub fn add_to(&mut self, users: &mut Users) -> OpeningId {
        self.count += 1;
        let opening = OpeningId(self.count);
        users.insert(opening);
        opening
    }
}

impl Directory {
    /// That opening has ended. One of a volume that was lost since is counted no more, whoever has the volume open by now.
    pub fn close(&mut self, opening: OpeningId) {
        let mut open = self.volumes.values_mut().filter_map(|state| match state {
            State::Open { users, .. } => Some(users),
            _ => None,
        });
        if !open.any(|users| users.remove(&opening)) {
            self.migrations.leave(opening);
        }
    }
}
