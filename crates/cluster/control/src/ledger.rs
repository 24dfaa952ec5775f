//! What stores may hold, by the metadata as a watch tells it: kept up record by record, so that it costs little, and said only
//! where it can be relied on (rule R13).
//!
//! Chunks are dropped by what is said here, so doubt keeps them. Nothing is said before all records were told; between the
//! records of one change; while a record cannot be read, or anybody suspects the metadata; for another cluster; and never again
//! once something went back that only ever goes forward: an epoch, a counter, a volume that had been deleted.

use amita_types::holdings::{HeldGroup, HeldSnapshots, HeldVolume, Holdings};
use amita_types::map::{self, Cluster, Group, Lineage, Pool, Snapshot, SnapshotState, Volume};
use amita_types::{ClusterId, GroupId, PoolId, SnapshotId, VolumeId};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How soon stores should be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// A group has changed.
    Group,
    /// A volume is deleted, or a snapshot.
    Deleted,
}

/// The records that say who may hold what.
#[derive(Debug, Default)]
pub struct Ledger {
    cluster: ClusterId,
    /// Is the metadata that of this cluster?
    ours: bool,
    revision: u64,
    given: u64,
    /// By name; the pool by its name; and by which volume's number the chunks are hashed to groups.
    volumes: BTreeMap<String, (VolumeId, String, VolumeId)>,
    ids: BTreeSet<VolumeId>,
    /// Of volumes that ever had a snapshot.
    lineages: BTreeMap<VolumeId, Lineage>,
    /// The records of each volume's snapshots.
    snapshots: BTreeMap<VolumeId, BTreeMap<SnapshotId, Kept>>,
    pools: BTreeMap<String, (PoolId, u32)>,
    groups: BTreeMap<GroupId, Arc<HeldGroup>>,
    unreadable: BTreeSet<String>,
    suspects: BTreeSet<String>,
    /// All records were told, and all of each change.
    told: bool,
    went_back: Option<String>,
    news: Option<News>,
    /// Made when it is asked for.
    list: Option<Arc<[HeldVolume]>>,
    /// The same, of one volume each.
    kept: BTreeMap<VolumeId, Arc<HeldSnapshots>>,
}

/// What a snapshot's record says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// It is being taken.
    Taking,
    /// It is there, or its record cannot be read.
    Whole,
    /// Only its mark is kept.
    Mark,
}

impl Ledger {
    /// Of this cluster; nothing is known yet.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Ledger {
        Ledger {
            cluster,
            ..Ledger::default()
        }
    }

    /// A record is there, changed, or is gone. After those of one change, [`Ledger::seen`] is to be called.
    pub fn note(&mut self, key: &str, value: Option<&[u8]>, revision: u64) {
        self.told = false;
        self.revision = self.revision.max(revision);
        let Some(path) = key.strip_prefix(map::PREFIX) else {
            return;
        };
        let read = match path.split_once('/') {
            None if path == "cluster" => self.cluster(value),
            Some(("next", "volumes")) => self.counter(value),
            Some(("volumes", name)) => self.volume(name, value),
            Some(("pools", name)) => self.pool(name, value),
            Some(("groups", rest)) => self.group(rest, value),
            Some(("snapshots", rest)) => self.snapshot(rest, value),
            Some(("suspect", _)) => {
                match value {
                    Some(_) => self.suspects.insert(key.to_owned()),
                    None => self.suspects.remove(key),
                };
                true
            }
            _ => true,
        };
        match read {
            true => self.unreadable.remove(key),
            false => self.unreadable.insert(key.to_owned()),
        };
    }

    /// All of a change was told; or, at the start, all records were.
    pub fn seen(&mut self) {
        self.told = true;
    }

    /// What has changed since this was last asked that stores should be told of.
    pub fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// Something went back that only ever goes forward: the metadata was restored from an older copy.
    #[must_use]
    pub fn went_back(&self) -> Option<&str> {
        self.went_back.as_deref()
    }

    /// What stores may hold; `None`: that cannot be relied on now.
    pub fn holdings(&mut self) -> Option<Holdings> {
        let doubt = !self.told
            || !self.ours
            || !self.unreadable.is_empty()
            || !self.suspects.is_empty()
            || self.went_back.is_some()
            || self.ids.len() != self.volumes.len();
        if doubt {
            return None;
        }
        let list = self.list.get_or_insert_with(|| {
            let pools = &self.pools;
            let held = |(id, pool, place): &(VolumeId, String, VolumeId)| HeldVolume {
                id: *id,
                place: *place,
                pool: pools.get(pool).copied(),
            };
            let mut list: Vec<HeldVolume> = self.volumes.values().map(held).collect();
            list.sort_unstable_by_key(|held| held.id);
            list.into()
        });
        let volumes = list.clone();
        for (volume, lineage) in &self.lineages {
            // One that is not sealed is void, unless it is being taken still (S2).
            let is_live = |number: SnapshotId, kept: Kept| match kept {
                Kept::Taking => lineage.taking && number == lineage.number,
                Kept::Whole => true,
                Kept::Mark => false,
            };
            let records = || self.snapshots.get(volume).into_iter().flatten();
            let live = records().filter(|(number, kept)| is_live(**number, **kept));
            let marked = records().filter(|(_, kept)| **kept == Kept::Mark);
            self.kept.entry(*volume).or_insert_with(|| {
                Arc::new(HeldSnapshots {
                    volume: *volume,
                    given: lineage.number,
                    live: live.map(|(number, _)| *number).collect(),
                    marked: marked.map(|(number, _)| *number).collect(),
                })
            });
        }
        Some(Holdings {
            revision: self.revision,
            given: VolumeId(self.given),
            volumes,
            snapshots: self.kept.values().cloned().collect(),
            groups: self.groups.values().cloned().collect(),
        })
    }

    fn back(&mut self, what: impl FnOnce() -> String) {
        self.went_back.get_or_insert_with(what);
    }

    fn cluster(&mut self, value: Option<&[u8]>) -> bool {
        let cluster: Option<Cluster> = value.and_then(parse);
        self.ours = cluster.is_some_and(|cluster| cluster.id == self.cluster);
        true
    }

    fn counter(&mut self, value: Option<&[u8]>) -> bool {
        let before = self.given;
        let Some(value) = value else {
            // Where no volume was ever made there is none.
            if before > 0 {
                self.back(|| format!("the counter of volumes is gone; it was at {before}"));
            }
            return true;
        };
        let Some(given) = parse::<u64>(value) else {
            return false;
        };
        if given < before {
            self.back(|| format!("the counter of volumes went back from {before} to {given}"));
        }
        self.given = self.given.max(given);
        true
    }

    fn volume(&mut self, name: &str, value: Option<&[u8]>) -> bool {
        let volume = match value.map(parse::<Volume>) {
            Some(None) => return false,
            Some(Some(volume)) => {
                self.lineage(volume.id, volume.lineage);
                let place = volume.place();
                Some((volume.id, volume.pool, place))
            }
            None => None,
        };
        let before = self.volumes.get(name);
        if before == volume.as_ref() {
            return true;
        }
        self.list = None;
        if let Some((id, ..)) = self.volumes.remove(name) {
            // A record that only says otherwise where it lies is the same volume, and so is one that stands under another name.
            let is_there = |id: VolumeId| self.volumes.values().any(|(other, ..)| *other == id);
            if volume.as_ref().is_none_or(|(now, ..)| *now != id) && !is_there(id) {
                self.ids.remove(&id);
                self.lineages.remove(&id);
                self.kept.remove(&id);
                self.news = self.news.max(Some(News::Deleted));
            }
        }
        if let Some((id, pool, place)) = volume {
            self.ids.insert(id);
            self.volumes.insert(name.to_owned(), (id, pool, place));
        }
        true
    }

    /// What a volume's record says of its snapshots.
    fn lineage(&mut self, volume: VolumeId, lineage: Lineage) {
        let before = self.lineages.get(&volume).copied().unwrap_or_default();
        if lineage.number < before.number {
            let (before, now) = (before.number, lineage.number);
            self.back(|| format!("the number of snapshots of volume {volume} went back from {before} to {now}"));
        } else if lineage != before {
            if before.taking && lineage.sealed < before.number {
                // It is void.
                self.news = self.news.max(Some(News::Deleted));
            }
            self.lineages.insert(volume, lineage);
            self.kept.remove(&volume);
        }
    }

    fn snapshot(&mut self, rest: &str, value: Option<&[u8]>) -> bool {
        let place = rest.split_once('/');
        let place = place.and_then(|(volume, number)| Some((volume.parse().ok()?, number.parse().ok()?)));
        let Some((volume, number)) = place else {
            return value.is_none();
        };
        self.kept.remove(&volume);
        let records = self.snapshots.entry(volume).or_default();
        match value {
            Some(value) => {
                let kept = match parse::<Snapshot>(value) {
                    Some(snapshot) if matches!(snapshot.state, SnapshotState::Taking(_)) => Kept::Taking,
                    Some(snapshot) if snapshot.is_only_marked() => Kept::Mark,
                    _ => Kept::Whole,
                };
                let before = records.insert(number, kept);
                if kept == Kept::Mark && before.is_some_and(|before| before != kept) {
                    self.news = self.news.max(Some(News::Deleted));
                }
            }
            None => {
                if records.remove(&number).is_some() {
                    self.news = self.news.max(Some(News::Deleted));
                }
                if records.is_empty() {
                    self.snapshots.remove(&volume);
                }
            }
        }
        true
    }

    fn pool(&mut self, name: &str, value: Option<&[u8]>) -> bool {
        self.list = None;
        match value.map(parse::<Pool>) {
            Some(Some(pool)) if pool.groups.is_power_of_two() => {
                self.pools.insert(name.to_owned(), (pool.id, pool.groups));
                true
            }
            Some(_) => false,
            None => {
                self.pools.remove(name);
                true
            }
        }
    }

    fn group(&mut self, rest: &str, value: Option<&[u8]>) -> bool {
        let place = rest.split_once('/');
        let place = place.and_then(|(pool, index)| Some((pool.parse().ok()?, index.parse().ok()?)));
        let Some((pool, index)) = place else {
            return value.is_none();
        };
        let id = GroupId { pool, index };
        let Some(value) = value else {
            self.groups.remove(&id);
            return true;
        };
        let Some(group) = parse::<Group>(value).filter(|group| group.index == index) else {
            return false;
        };
        let known = self.groups.get(&id).map(|known| known.epoch);
        if let Some(known) = known.filter(|known| group.epoch < *known) {
            self.back(|| format!("group {id} went back from epoch {known} to {}", group.epoch));
            return true;
        }
        let mut held = HeldGroup {
            id,
            epoch: group.epoch,
            members: group.members,
            in_sync: Default::default(),
            syncing: Default::default(),
        };
        let syncing = group.syncing.iter().map(|syncing| syncing.store);
        let fits = held.in_sync.try_extend_from_slice(&group.in_sync).is_ok()
            && syncing.into_iter().all(|store| held.syncing.try_push(store).is_ok());
        if fits {
            self.groups.insert(id, Arc::new(held));
            self.news = self.news.max(Some(News::Group));
        }
        fits
    }
}

fn parse<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}

#[cfg(test)]
mod tests;
