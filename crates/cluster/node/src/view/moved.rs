//! Volumes that have moved to another pool while they were used (decision 080): what hosts have open by an older number is what the volume is by
//! its present one.
//!
//! A session has the number of the data that there was when it began, and may last for years. What a node has once heard of it remembers
//! for as long as its process lives, which no session outlives.

use super::View;
use amita_frontend::Source;
use amita_types::VolumeId;
use amita_types::map::Volume;
use rustc_hash::FxHashMap;

/// What has moved.
#[derive(Default)]
pub(super) struct Moved {
    /// The number by which hosts know the volume, by the number of data that it had before it moved.
    hosts: FxHashMap<VolumeId, VolumeId>,
    /// By such a number, the data that the volume had when it was reverted: nobody goes on with that.
    left: FxHashMap<VolumeId, VolumeId>,
    /// What it was and what it is, of those that have moved since somebody looked.
    switched: Vec<(VolumeId, VolumeId)>,
}

impl View {
    /// A record is put in: is it of a volume that was another one's data before? `under`: what its name stood for, and what that had been before
    /// it was reverted.
    pub(super) fn note_moved(&mut self, record: &Volume, under: &[VolumeId]) {
        if record.lineage.host.is_none() {
            return;
        }
        let host = record.host();
        let before = self.reverted.insert(host, record.id).unwrap_or(host);
        if before == record.id {
            return;
        }
        if record.has_data(before) {
            // It was reverted: nobody goes on with what it was.
            let Moved { hosts, left, .. } = &mut self.moved;
            left.extend(hosts.extract_if(|_, of| *of == host).map(|(known, _)| (known, before)));
            return;
        }
        self.moved.hosts.insert(before, host);
        if under.first() == Some(&before) {
            // Who reads a snapshot from before a revert reads that of the same number now.
            self.moved.hosts.extend(under.iter().map(|data| (*data, host)));
            self.moved.switched.push((before, record.id));
        }
    }

    /// Volumes that have moved since this was last asked: what each was, and what it is.
    pub fn take_switched(&mut self) -> Vec<(VolumeId, VolumeId)> {
        std::mem::take(&mut self.moved.switched)
    }

    /// By which number the volume is found now that a session knows by this one.
    #[must_use]
    pub fn present(&self, volume: VolumeId) -> VolumeId {
        if self.moved.hosts.is_empty() {
            return volume;
        }
        let host = self.moved.hosts.get(&volume);
        let now = host.and_then(|host| self.reverted.get(host)).copied();
        now.filter(|now| self.volume_of(*now).is_some()).unwrap_or(volume)
    }

    /// The same of what is read or written: snapshots have the same numbers.
    #[must_use]
    pub fn present_source(&self, source: Source) -> Source {
        Source {
            volume: self.present(source.volume),
            ..source
        }
    }

    /// The numbers by which sessions may know what is open, or was, by this one, in order. What has moved is known by its present number and by
    /// all that it had before; and by its former one nothing any more, for who knows it by that goes on with what it is.
    #[must_use]
    pub fn known_by(&self, volume: VolumeId) -> Vec<VolumeId> {
        let Moved { hosts, left, .. } = &self.moved;
        let is_it = |(_, host): &(&VolumeId, &VolumeId)| self.reverted.get(host) == Some(&volume);
        let moved = hosts.iter().filter(is_it).map(|(known, _)| *known);
        let left = left
            .iter()
            .filter(|(_, data)| **data == volume)
            .map(|(known, _)| *known);
        let own = (!hosts.contains_key(&volume)).then_some(volume);
        let mut all: Vec<VolumeId> = moved.chain(left).chain(own).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Has it moved, so that sessions may know it by another number?
    #[must_use]
    pub fn has_moved(&self, volume: VolumeId) -> bool {
        let record = self.volume_of(volume).filter(|record| !record.is_former());
        let host = record.map(Volume::host);
        host.is_some_and(|host| self.moved.hosts.values().any(|of| *of == host))
    }
}

#[cfg(test)]
mod tests;
