//! What operators want of volumes: who is to own them, snapshots and sets of them, clones flattened, copies looked at, volumes closed.

use super::{Change, View, number, parse};
use crate::control::Record;
use amita_types::map;
use amita_types::{SetId, VolumeId};

impl View {
    pub(super) fn apply_move(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::move_key) else {
            return Change::Nothing;
        };
        match record
            .value
            .as_ref()
            .map(|value| parse::<map::Move>(&record.key, value))
        {
            Some(Ok(wish)) => drop(self.moves.insert(volume, (wish, record.revision))),
            Some(Err(why)) => return Change::Unreadable(why),
            None => drop(self.moves.remove(&volume)),
        }
        Change::Move(volume)
    }

    pub(super) fn apply_snapshot_wish(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::snapshot_wish_key) else {
            return Change::Nothing;
        };
        let wish = record
            .value
            .as_ref()
            .map(|value| parse::<map::SnapshotWish>(&record.key, value));
        match wish {
            Some(Ok(wish)) => drop(self.snapshot_wishes.insert(volume, (wish, record.revision))),
            Some(Err(why)) => return Change::Unreadable(why),
            None => drop(self.snapshot_wishes.remove(&volume)),
        }
        Change::SnapshotWish
    }

    pub(super) fn apply_set(&mut self, set: &str, record: &Record) -> Change {
        let Some(set) = number(set, record, map::set_key) else {
            return Change::Nothing;
        };
        let found = record.value.as_ref().map(|value| {
            let set = parse::<map::SnapshotSet>(&record.key, value)?;
            set.check().map_err(|why| format!("{}: {why}", record.key))?;
            Ok::<_, String>(set)
        });
        match found {
            Some(Ok(found)) => drop(self.sets.insert(set, (found, record.revision))),
            Some(Err(why)) => return Change::Unreadable(why),
            None => drop(self.sets.remove(&set)),
        }
        Change::SnapshotWish
    }

    pub(super) fn apply_flatten(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::flatten_key) else {
            return Change::Nothing;
        };
        let wish = record
            .value
            .as_ref()
            .map(|value| parse::<map::Flatten>(&record.key, value));
        match wish {
            Some(Ok(wish)) => drop(self.flattens.insert(volume, (wish, record.revision))),
            Some(Err(why)) => return Change::Unreadable(why),
            None => drop(self.flattens.remove(&volume)),
        }
        Change::Flatten
    }

    pub(super) fn apply_closing(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::closing_key) else {
            return Change::Nothing;
        };
        let wish = record
            .value
            .as_ref()
            .map(|value| parse::<map::Closing>(&record.key, value));
        match wish {
            Some(Ok(wish)) => drop(self.closings.insert(volume, (wish, record.revision))),
            Some(Err(why)) => return Change::Unreadable(why),
            None => drop(self.closings.remove(&volume)),
        }
        Change::Closing
    }

    pub(super) fn apply_scrub(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::scrub_key) else {
            return Change::Nothing;
        };
        let scrub = record
            .value
            .as_ref()
            .map(|value| parse::<map::Scrub>(&record.key, value));
        match scrub {
            Some(Ok(scrub)) => drop(self.scrubs.insert(volume, (scrub, record.revision))),
            Some(Err(why)) => return Change::Unreadable(why),
            None => drop(self.scrubs.remove(&volume)),
        }
        Change::Scrub
    }

    /// The operator's wishes for owners, with their record's modification revision.
    pub fn moves(&self) -> impl Iterator<Item = (VolumeId, &map::Move, u64)> {
        self.moves
            .iter()
            .map(|(volume, (wish, revision))| (*volume, wish, *revision))
    }

    /// The operator's wishes for snapshots, with their record's modification revision.
    pub fn snapshot_wishes(&self) -> impl Iterator<Item = (VolumeId, &map::SnapshotWish, u64)> {
        self.snapshot_wishes
            .iter()
            .map(|(volume, (wish, revision))| (*volume, wish, *revision))
    }

    /// Is a snapshot of the volume wished, and was that not answered? Or is one of a set to be sealed?
    #[must_use]
    pub fn is_snapshot_wished(&self, volume: VolumeId) -> bool {
        let wish = self.snapshot_wishes.get(&volume);
        wish.is_some_and(|(wish, _)| wish.refused.is_none()) || self.is_of_an_open_set(volume)
    }

    /// Is it a volume of a set that is being taken, or whose snapshots are being sealed?
    #[must_use]
    pub fn is_of_an_open_set(&self, volume: VolumeId) -> bool {
        let mut sets = self.sets.values().filter(|(set, _)| set.has(volume));
        sets.any(|(set, _)| match set.state {
            map::SetState::Taking => true,
            map::SetState::Ready => self
                .volume_of(volume)
                .is_some_and(|record| record.lineage.set == Some(set.id)),
            map::SetState::Void(_) => false,
        })
    }

    /// Sets of snapshots, with their record's modification revision.
    pub fn sets(&self) -> impl Iterator<Item = (&map::SnapshotSet, u64)> {
        self.sets.values().map(|(set, revision)| (set, *revision))
    }

    /// A set of snapshots, with its record's modification revision.
    #[must_use]
    pub fn set(&self, set: SetId) -> Option<(&map::SnapshotSet, u64)> {
        self.sets.get(&set).map(|(set, revision)| (set, *revision))
    }

    /// The clones that are to be flattened and whose chunks are not all made, with their record's modification revision; those that stand
    /// still left out.
    pub fn flattens(&self) -> impl Iterator<Item = (VolumeId, &map::Flatten, u64)> {
        let open = self.flattens.iter().filter(|(_, (wish, _))| wish.is_due());
        open.map(|(volume, (wish, revision))| (*volume, wish, *revision))
    }

    /// Is the volume to be flattened now, and are its chunks not all made?
    #[must_use]
    pub fn is_to_be_flattened(&self, volume: VolumeId) -> bool {
        self.flattens.get(&volume).is_some_and(|(wish, _)| wish.is_due())
    }

    /// The operator's wishes that owners close volumes, with their record's modification revision.
    pub fn closings(&self) -> impl Iterator<Item = (VolumeId, &map::Closing, u64)> {
        self.closings
            .iter()
            .map(|(volume, (wish, revision))| (*volume, wish, *revision))
    }

    /// The wish that a volume be closed.
    #[must_use]
    pub fn closing(&self, volume: VolumeId) -> Option<&map::Closing> {
        self.closings.get(&volume).map(|(wish, _)| wish)
    }

    /// The looks at a volume's copies, and their record's modification revision.
    #[must_use]
    pub fn scrub(&self, volume: VolumeId) -> Option<(&map::Scrub, u64)> {
        self.scrubs.get(&volume).map(|(scrub, revision)| (scrub, *revision))
    }
}
