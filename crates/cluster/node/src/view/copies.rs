//! Volumes that are to be copies: until they are whole, nobody uses them (decision 080, P5). What is read for them is known by their records, and
//! whether hosts of what is copied are slowed.

use super::{Change, View, number, parse};
use crate::control::Record;
use amita_types::map::{self, Copying, Slowed};
use amita_types::{SnapshotId, VolumeId};
use std::collections::BTreeMap;

/// What is known of one that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// The number by which hosts know what is copied.
    source: VolumeId,
    /// Of it, the snapshot of the pass that is under way.
    pass: SnapshotId,
    /// The volume itself moves, and that does not stand still: else nobody reads the snapshot for it.
    moves: bool,
    /// Its data, and how fast hosts may write to it.
    slowed: Option<(VolumeId, Slowed)>,
}

impl Known {
    fn of(record: &Copying) -> Known {
        let goes_on = !record.cancelled && record.paused.is_none();
        let moving = record.moving.filter(|_| goes_on);
        Known {
            source: record.source,
            pass: record.place.pass,
            moves: moving.is_some(),
            slowed: moving.and_then(|moving| Some((moving.data, moving.slowed?))),
        }
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Copies {
    /// By the target. None: the record cannot be read.
    known: BTreeMap<VolumeId, Option<Known>>,
    /// The revision of the key of who is at one.
    runners: BTreeMap<VolumeId, u64>,
    /// Data whose hosts are slowed, if he who has set that is at it still: by which target.
    slowed: BTreeMap<VolumeId, VolumeId>,
    /// Data of which something was heard that may slow its hosts, or no longer, since somebody looked.
    heard: Vec<VolumeId>,
}

impl Copies {
    /// Returns whether that is news to whoever asks what is copied.
    fn put(&mut self, target: VolumeId, known: Option<Option<Known>>) -> bool {
        let of = |known: Option<Known>| known.and_then(|known| known.slowed).map(|(data, _)| data);
        let before = match known {
            Some(known) => self.known.insert(target, known),
            None => self.known.remove(&target),
        };
        for data in [before.and_then(of), known.and_then(of)].into_iter().flatten() {
            self.slowed.remove(&data);
            self.heard.push(data);
        }
        if let Some(data) = known.and_then(of) {
            self.slowed.insert(data, target);
        }
        before.is_some() != known.is_some()
    }

    /// Is whoever has said this at it still?
    fn holds(&self, target: VolumeId, slowed: &Slowed) -> bool {
        self.runners.get(&target) == Some(&slowed.by)
    }

    fn runner(&mut self, target: VolumeId, revision: Option<u64>) {
        match revision {
            Some(revision) => self.runners.insert(target, revision),
            None => self.runners.remove(&target),
        };
        let of_it = self.slowed.iter().filter(|(_, of)| **of == target);
        self.heard.extend(of_it.map(|(data, _)| *data));
    }
}

impl View {
    pub(super) fn apply_copying(&mut self, rest: &str, record: &Record) -> Change {
        let by = rest.strip_prefix("by/");
        if let Some(target) = by.and_then(|target| number(target, record, map::copier_key)) {
            let is_there = record.value.is_some();
            self.copies.runner(target, is_there.then_some(record.revision));
            return Change::Nothing;
        }
        let volume = rest.strip_prefix("to/");
        let Some(volume) = volume.and_then(|volume| number(volume, record, map::copying_key)) else {
            return Change::Nothing;
        };
        let found = record.value.as_ref().map(|value| parse::<Copying>(&record.key, value));
        // What cannot be read says that it is no copy yet.
        let known = match &found {
            None => None,
            Some(Err(_)) => Some(None),
            Some(Ok(found)) => (!found.whole).then(|| Some(Known::of(found))),
        };
        let has_changed = self.copies.put(volume, known);
        match (found, has_changed) {
            (Some(Err(why)), _) => Change::Unreadable(why),
            (_, true) => Change::Export,
            (_, false) => Change::Nothing,
        }
    }

    /// Is a volume to be a copy, and is none yet?
    #[must_use]
    pub fn is_copying(&self, volume: VolumeId) -> bool {
        self.copies.known.contains_key(&volume)
    }

    /// Is this snapshot of a volume read for a pass, and does that give way to hosts? One for which they are slowed does not: it would take longer,
    /// and so would that. `is_slowed`: are hosts of this data slowed still, as what is said here has not lapsed?
    #[must_use]
    pub fn pass(&self, volume: VolumeId, snapshot: SnapshotId, is_slowed: impl Fn(VolumeId) -> bool) -> Option<bool> {
        if self.copies.known.is_empty() {
            return None;
        }
        let host = self.volume_of(volume).map_or(volume, map::Volume::host);
        let all = self.copies.known.iter();
        let all = all.filter_map(|(target, known)| Some((*target, known.as_ref()?)));
        let of = all.filter(|(_, known)| (known.source, known.pass) == (host, snapshot));
        let gives_way = |(target, known): (VolumeId, &Known)| {
            let slowed = known.slowed.filter(|(_, slowed)| self.copies.holds(target, slowed));
            !slowed.is_some_and(|(data, _)| is_slowed(data))
        };
        of.map(gives_way).min()
    }

    /// Is this snapshot of a volume read because the volume moves? The limits are its hosts', and those do not read it. Were they to hold for that
    /// too, a host that does as much as it may would change as much as half of its limit brings, and passes would never get shorter; and a last pass,
    /// for which hosts wait, would take as long as its limit has it take. The snapshot of a last pass is in no record of the move (nothing of it is
    /// noted): it is the one of which the volume's record says that its owner holds behind it.
    #[must_use]
    pub fn is_read_for_move(&self, volume: VolumeId, snapshot: SnapshotId) -> bool {
        if snapshot == SnapshotId::HEAD || self.copies.known.is_empty() {
            return false;
        }
        let record = self.volume_of(volume);
        let lineage = record.map(|record| &record.lineage);
        if lineage.is_some_and(|lineage| lineage.moving.is_some() && lineage.held && lineage.sealed == snapshot) {
            return true;
        }
        let host = record.map_or(volume, map::Volume::host);
        let mut known = self.copies.known.values().flatten();
        known.any(|known| known.moves && (known.source, known.pass) == (host, snapshot))
    }

    /// How many bytes a second hosts may write to a volume that moves, where they are slowed.
    #[must_use]
    pub fn slowed(&self, volume: VolumeId) -> Option<u64> {
        let target = self.copies.slowed.get(&volume)?;
        let (_, slowed) = self.copies.known.get(target).copied().flatten()?.slowed?;
        self.copies.holds(*target, &slowed).then_some(slowed.bytes_per_s)
    }

    /// Has [`View::take_slowed`] anything?
    #[inline]
    #[must_use]
    pub fn has_slowed(&self) -> bool {
        !self.copies.heard.is_empty()
    }

    /// Volumes whose hosts may be slowed, or not any more, since this was last asked.
    pub fn take_slowed(&mut self) -> Vec<VolumeId> {
        std::mem::take(&mut self.copies.heard)
    }
}
