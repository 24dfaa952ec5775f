//! What follows from the settings for many sessions alike. A core finds it when they change, and a session looks only where it is another one:
//! of thousands of sessions each would look through all reservations and targets, as often as any of them changes.

use super::Catalog;
use amita_scsi::{Access, Target};
use amita_types::VolumeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often volumes were reset, of those that were at all.
pub(crate) type ResetCounts = BTreeMap<VolumeId, u64>;

/// It. What is as it was stays the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub resets: Arc<ResetCounts>,
    pub barring: Arc<Barring>,
}

impl Common {
    /// That of these settings; `before`: that of those before.
    pub fn of(catalog: &Catalog, before: &Common) -> Common {
        let reservations = catalog.scsi.reservations.iter();
        let reset = reservations.map(|(volume, state)| (*volume, state.resets));
        let reset = reset.filter(|(_, count)| *count > 0);
        let known = before.resets.iter().map(|(volume, count)| (*volume, *count));
        let resets = match reset.clone().eq(known) {
            true => before.resets.clone(),
            false => Arc::new(reset.collect()),
        };
        let details = catalog.details.iter().filter(|(_, detail)| detail.chap_required);
        let strict: Vec<&Target> = details
            .filter_map(|(name, _)| catalog.scsi.target(name).map(AsRef::as_ref))
            .collect();
        let barring = match before.barring.is_of(&strict) {
            true => before.barring.clone(),
            false => Arc::new(Barring(strict.into_iter().map(Strict::from).collect())),
        };
        Common { resets, barring }
    }
}

/// Targets that let in nobody without a proof, in order of their names.
#[derive(Debug, Default)]
pub(crate) struct Barring(Vec<Strict>);

impl Barring {
    fn is_of(&self, targets: &[&Target]) -> bool {
        let mut pairs = self.0.iter().zip(targets);
        self.0.len() == targets.len() && pairs.all(|(strict, target)| strict.is_of(target))
    }

    /// Those to which that initiator cannot log in without one, though they admit its name.
    pub fn names(&self, initiator: &str) -> Vec<String> {
        let admitting = self.0.iter().filter(|strict| strict.admits(initiator));
        admitting.map(|strict| strict.name.clone()).collect()
    }
}

/// What of such a target says whom it admits.
#[derive(Debug)]
struct Strict {
    name: String,
    any_initiator: bool,
    initiators: Vec<Arc<Access>>,
}

impl From<&Target> for Strict {
    fn from(target: &Target) -> Strict {
        Strict {
            name: target.name.clone(),
            any_initiator: target.any_initiator,
            initiators: target.initiators.clone(),
        }
    }
}

impl Strict {
    fn is_of(&self, target: &Target) -> bool {
        let own = (&self.name, self.any_initiator, &self.initiators);
        own == (&target.name, target.any_initiator, &target.initiators)
    }

    fn admits(&self, initiator: &str) -> bool {
        let found = self
            .initiators
            .binary_search_by(|known| known.name.as_str().cmp(initiator));
        self.any_initiator || found.is_ok()
    }
}
