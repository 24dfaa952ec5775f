//! Volumes that nobody has open and that must be: a store is being brought up to date in their pool, a look at all their
//! copies or a snapshot was asked for, they are clones that are to be flattened, or they are deleted and others were cloned from them; and only an owner can do that (R11). On core 0 only.
//!
//! The node that the volume's record names as its owner opens it, if it lives; else one of the living nodes that are no
//! clients, the same for all who ask: a hash of volume and node decides. One that says that it lacks the keys of an encrypted volume is passed
//! over, as long as there is any that does not say so. A host that comes elsewhere gets the volume as soon as it asks, since
//! nobody uses it here.

use crate::view::View;
use amita_reactor::driver::Time;
use amita_types::layout::mix;
use amita_types::{Generation, NodeId, VolumeId, map};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Volumes that are opened for this at one time.
const MAX_AT_ONCE: usize = 16;
/// After a look, and after an opening that failed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Has this node a volume?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// No.
    No,
    /// It is being opened or given away, or was given away a moment ago, and nobody knows how that ends.
    Perhaps,
    /// It is open.
    Open,
}

/// When to look.
#[derive(Debug, Default)]
pub struct OrphanedVolumes {
    /// What was seen may call for it.
    wanted: Option<Time>,
    /// Volumes whose opening was begun, and when to try again.
    tried: BTreeMap<VolumeId, Time>,
}

impl OrphanedVolumes {
    /// Something has changed that may call for a look.
    pub fn stir(&mut self, now: Time) {
        self.wanted.get_or_insert(now);
    }

    /// When a look is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.wanted
    }

    /// A volume is open here no more.
    pub fn lost(&mut self, now: Time) {
        self.wanted.get_or_insert(now.plus(LOOK_AGAIN));
    }

    /// The names of the volumes to open now.
    pub fn look(&mut self, now: Time, me: NodeId, view: &View, held: impl Fn(&map::Volume) -> Held) -> Vec<String> {
        if self.wanted.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.wanted = None;
        let mut due = Vec::new();
        let mut more = false;
        let needed = deleted_parents(view);
        for volume in view.volumes() {
            let has_data = volume.generation > Generation(0);
            let wanted = view.is_snapshot_wished(volume.id)
                || view.is_to_be_flattened(volume.id)
                || has_data
                    && (view.is_syncing(&volume.pool)
                        || is_to_be_scrubbed(view, volume.id)
                        || needed.contains(&volume.id));
            let ours = wanted && responsible(view, volume) == Some(me);
            let held = if ours { held(volume) } else { Held::Open };
            more |= held != Held::Open;
            if held != Held::No {
                self.tried.remove(&volume.id);
                continue;
            }
            let tried = self.tried.get(&volume.id).copied();
            if tried.is_none_or(|at| at <= now) {
                due.push((tried, volume));
            }
        }
        // Those that were not tried yet, and then by turns: many that do not open keep nobody else from it.
        due.sort_by_key(|(tried, _)| *tried);
        let mut names = Vec::new();
        for (_, volume) in due.into_iter().take(MAX_AT_ONCE) {
            self.tried.insert(volume.id, now.plus(LOOK_AGAIN * 2));
            names.push(volume.name.clone());
        }
        if more {
            self.wanted = Some(now.plus(LOOK_AGAIN));
        }
        names
    }
}

/// Deleted volumes that others were cloned from: nobody opens them to use them, and their clones' owners may need one that opens
/// chunks there (S7).
fn deleted_parents(view: &View) -> BTreeSet<VolumeId> {
    if !view.volumes().any(|volume| map::is_hidden(&volume.name)) {
        return BTreeSet::new();
    }
    let parents = view.volumes().filter_map(|volume| volume.parents.first());
    let parents: BTreeSet<VolumeId> = parents.map(|parent| parent.volume).collect();
    let deleted = view.volumes().filter(|volume| map::is_hidden(&volume.name));
    deleted
        .map(|volume| volume.id)
        .filter(|volume| parents.contains(volume))
        .collect()
}

/// Was a look at all its copies asked for, that has not ended and does not stand still?
fn is_to_be_scrubbed(view: &View, volume: VolumeId) -> bool {
    view.scrub(volume).is_some_and(|(scrub, _)| scrub.is_due())
}

/// The node that sees to a volume that nobody uses.
fn responsible(view: &View, volume: &map::Volume) -> Option<NodeId> {
    let has_keys = |node: &NodeId| volume.keys.is_none() || !view.is_locked_at(*node, volume.id);
    let nodes = || view.living().filter(move |node| !view.is_client(*node));
    let place = |node: &NodeId| mix(mix(volume.id.0) ^ u64::from(node.0));
    let owner = volume.owner.filter(|owner| view.lives(*owner));
    owner
        .filter(has_keys)
        .or_else(|| nodes().filter(has_keys).max_by_key(place))
        // Where nobody has them, it is tried as ever: they may come.
        .or(owner)
        .or_else(|| nodes().max_by_key(place))
}

#[cfg(test)]
mod tests;
