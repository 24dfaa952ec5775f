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
        let strict: Vec<&Arc<Target>> = details.filter_map(|(name, _)| catalog.scsi.target(name)).collect();
        let barring = match before.barring.is_of(&strict) {
            true => before.barring.clone(),
            false => Arc::new(Barring(strict.into_iter().cloned().collect())),
        };
        Common { resets, barring }
    }
}

/// Targets that let in nobody without a proof, in order of their names.
#[derive(Debug, Default)]
pub(crate) struct Barring(Vec<Arc<Target>>);

impl Barring {
    /// Do these admit the same? What else a target has does not matter here.
    fn is_of(&self, targets: &[&Arc<Target>]) -> bool {
        fn admission(target: &Target) -> (&str, bool, &[Arc<Access>]) {
            (&target.name, target.any_initiator, &target.initiators)
        }
        let own = self.0.iter().map(|target| admission(target));
        own.eq(targets.iter().map(|target| admission(target)))
    }

    /// Those to which that initiator cannot log in without one, though they admit its name.
    pub fn names(&self, initiator: &str) -> Vec<String> {
        let admitting = self.0.iter().filter(|target| target.admits(initiator));
        admitting.map(|target| target.name.clone()).collect()
    }
}
