//! Which nodes lack the keys of which encrypted volumes, as they say themselves: another one sees to these.

use super::View;
use crate::control::Record;
use amita_types::condition::{Condition, Failing};
use amita_types::{NodeId, VolumeId};
use std::collections::BTreeSet;

/// What stands in a record that speaks of any.
const LOCKED: &[u8] = b"\"locked\"";

impl View {
    /// What a core of a node says of keys that it lacks; `true`: it says something else than before.
    pub(super) fn apply_locked(&mut self, rest: &str, record: &Record) -> bool {
        let node: Option<NodeId> = rest.split('/').next().and_then(|node| node.parse().ok());
        // Most speak of none, and are not read for that.
        let speaks = |value: &&Vec<u8>| value.windows(LOCKED.len()).any(|part| part == LOCKED);
        let value = record.value.as_ref().filter(speaks);
        let said: Option<Condition> = value.and_then(|value| serde_json::from_slice(value).ok());
        let troubles = said.into_iter().flat_map(|said| said.troubles);
        let locked: BTreeSet<VolumeId> = troubles
            .filter(|found| found.what == Failing::Locked)
            .map(|found| found.volume)
            .collect();
        let before = self.locked.get(rest).map(|(_, before)| before);
        let has_changed = before.map_or(!locked.is_empty(), |before| *before != locked);
        match node.filter(|_| !locked.is_empty()) {
            Some(node) => drop(self.locked.insert(rest.to_owned(), (node, locked))),
            None => drop(self.locked.remove(rest)),
        }
        has_changed
    }

    /// Does a node say that it lacks keys of the volume?
    #[must_use]
    pub fn is_locked_at(&self, node: NodeId, volume: VolumeId) -> bool {
        let mut said = self.locked.values();
        said.any(|(of, locked)| *of == node && locked.contains(&volume))
    }
}
