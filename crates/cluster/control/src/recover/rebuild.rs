//! Merging what the stores know. Pure.

use super::{KnownGroup, Source, Word, copies};
use crate::records::{Records, is_kept};
use crate::regress::{all, groups, read, same};
use amita_types::map::{self, Cluster, ENCRYPTION_SINCE, Group, Life, Node, Pool, Store, Volume};
use amita_types::{
    BLOCK_BYTES, ClusterId, Epoch, Generation, GroupId, GroupIndex, MAX_BLOCKS_PER_CHUNK, PoolId, SnapshotId, StoreId,
    VolumeId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// Where a loss is accepted, epochs go on so much higher: a store that was given up may know newer ones than were found.
const EPOCHS_AFTER_LOSS: u64 = 1 << 20;
/// The same for generations, of which there are fewer.
const GENERATIONS_AFTER_LOSS: u32 = 1 << 10;

/// The pool of a volume of which nobody knows it. No pool can have this name.
const NO_POOL: &str = "?";

/// Why nothing can be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// Nothing to rebuild from.
    #[error("no store was looked at")]
    NoStores,
    /// The same store twice.
    #[error(
        "store {store} was found twice, at {first} and at {second}: one of them is a copy of the other's disk; leave the \
         older one out"
    )]
    Twice {
        store: StoreId,
        /// Where.
        first: String,
        /// And where.
        second: String,
    },
    /// Stores of several clusters.
    #[error("store {store} at {path} belongs to cluster {found}, the others to {expected}; leave it out")]
    OtherCluster {
        store: StoreId,
        path: String,
        found: ClusterId,
        /// That of the first one.
        expected: ClusterId,
    },
    /// No store has a copy of the records.
    #[error(
        "none of the stores has a copy of the metadata: they were last served by a program that did not keep one, or had \
         no space for it"
    )]
    NoCopy,
    /// The newest copy lacks something.
    #[error("the newest copy of the metadata, of store {store}, cannot be used: {why}")]
    BadCopy {
        /// Whose.
        store: StoreId,
        why: String,
    },
    /// Two stores disagree on who was in sync.
    #[error(
        "stores disagree on who is in sync in group {group} since epoch {epoch}: one of them has lived by other metadata. \
         Leave the stores out that were not in use last"
    )]
    Split { group: GroupId, epoch: Epoch },
    /// Two copies are each ahead of the other.
    #[error(
        "the copies of the metadata on the stores {first} and {second} are of two histories: it was restored from an older \
         copy, and went on from there. Leave the stores out that were served by the one that is not wanted, and accept \
         what they alone hold as lost"
    )]
    TwoHistories {
        /// Whose copy.
        first: StoreId,
        /// And whose.
        second: StoreId,
    },
    /// In-sync members that nobody looked at.
    #[error("{}", missing_text(.stores))]
    Missing {
        /// Which, and what they hold.
        stores: Vec<MissingStore>,
    },
    /// A loss that is none.
    #[error("store {store} is not lost, it was looked at ({path}); accept only the loss of stores that are gone")]
    NotLost { store: StoreId, path: String },
    /// A loss that nobody needs to accept.
    #[error("the loss of store {store} need not be accepted: no group needs it; leave --accept-loss out")]
    NotNeeded { store: StoreId },
    /// Volumes without a record that may have been encrypted.
    #[error(
        "volumes were made after the newest copy of the metadata, and nothing that was found of them tells whether they were encrypted (numbers \
         {}): if one was, its key is lost with its record, and opened as it lies it would read as noise, and be written over", super::word::numbers(.volumes))]
    MayBeEncrypted {
        /// Which.
        volumes: Vec<VolumeId>,
    },
    /// A word on a volume that nobody asks for.
    #[error(
        "nobody asks whether volume {volume} was encrypted: it has a record, or none is made for it, or a store tells; leave --plain-volume and \
         --closed-volume out for it"
    )]
    NotUndecided { volume: VolumeId },
    /// Both words on a volume.
    #[error(
        "volume {volume} is to be opened as plain (--plain-volume) and to stay closed (--closed-volume): say one of them"
    )]
    BothWords { volume: VolumeId },
    /// Copies that were made of volumes, and may have been used since.
    #[error(
        "by the newest copy of the metadata these volumes were to be copies and were none yet (numbers {}), and stores know that somebody has \
         opened them since: a copy that was done, and has been in use, would be copied anew, and what was written to it lost", super::word::numbers(.volumes))]
    MayBeWhole {
        /// Which.
        volumes: Vec<VolumeId>,
    },
    /// A word on a copy that nobody asks for.
    #[error(
        "nobody asks whether volume {volume} was a whole copy; leave --whole-copy and --unfinished-copy out for it"
    )]
    NoUndecidedCopy { volume: VolumeId },
    /// Both words on a copy.
    #[error("volume {volume} is to be a whole copy (--whole-copy) and none (--unfinished-copy): say one of them")]
    BothWordsOfCopy { volume: VolumeId },
    /// A volume would count as deleted.
    #[error("volume {volume} is known to a store and would be left without a record: it would count as deleted")]
    Unrecorded { volume: VolumeId },
    /// Numbers are used up.
    #[error("volume {name} has used all its generations")]
    GenerationsUsedUp {
        /// The volume.
        name: String,
    },
}

/// An in-sync store that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingStore {
    pub store: StoreId,
    /// The node that served it, and the path there, as far as known.
    pub place: String,
    /// How many groups name it as in sync.
    pub groups: usize,
    /// How many of them have no other in-sync store that was looked at: all of their data would be lost.
    pub only_copy_of: usize,
    /// Some of those groups.
    pub examples: Vec<GroupId>,
}

fn missing_text(stores: &[MissingStore]) -> String {
    let mut text = "in-sync stores were not looked at; what was written last may be on them alone:".to_owned();
    for missing in stores {
        let groups: Vec<String> = missing.examples.iter().map(ToString::to_string).collect();
        let more = if missing.groups > groups.len() { ", …" } else { "" };
        text += &format!(
            "\n  store {} ({}): in sync in {} groups ({}{more}), the only copy of {}",
            missing.store,
            missing.place,
            missing.groups,
            groups.join(", "),
            missing.only_copy_of
        );
    }
    text
}

/// What was rebuilt, for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub cluster: ClusterId,
    /// The store whose copy of the records was the newest.
    pub copy_of: StoreId,
    /// Of which life of the metadata it is.
    pub life: u64,
    /// And of which revision.
    pub revision: u64,
    /// How many stores were looked at.
    pub stores: usize,
    pub groups: usize,
    /// Groups of which a store knew a newer epoch than the copy.
    pub groups_ahead: usize,
    /// The volumes: name and generation.
    pub volumes: Vec<(String, Generation)>,
    /// Volumes that no copy names, which stores know: they got these names.
    pub found_volumes: Vec<String>,
    /// Stores whose loss was accepted.
    pub lost: Vec<StoreId>,
    /// Groups that have lost a member so.
    pub groups_with_loss: usize,
    /// Groups of which no in-sync copy is left: they stay as they were, and wait for their stores.
    pub groups_without_copy: Vec<GroupId>,
    /// What else a person should know.
    pub notes: Vec<String>,
}

/// The records of the new metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// All of them, the cluster's included.
    pub records: BTreeMap<String, Vec<u8>>,
    /// What was done.
    pub report: Report,
}

fn json<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("records of the metadata are plain data")
}

/// Merges what stores know.
///
/// # Errors
/// See [`RecoverError`]; nothing was changed anywhere.
pub fn rebuild(sources: &[Source], accept_loss: &[StoreId], word: &Word) -> Result<Rebuilt, RecoverError> {
    let first = sources.first().ok_or(RecoverError::NoStores)?;
    let mut present: BTreeMap<StoreId, &Source> = BTreeMap::new();
    for source in sources {
        if source.cluster != first.cluster {
            return Err(RecoverError::OtherCluster {
                store: source.store,
                path: source.path.clone(),
                found: source.cluster,
                expected: first.cluster,
            });
        }
        if let Some(other) = present.insert(source.store, source) {
            return Err(RecoverError::Twice {
                store: source.store,
                first: other.path.clone(),
                second: source.path.clone(),
            });
        }
    }
    if let Some(&store) = accept_loss.iter().find(|store| present.contains_key(store)) {
        let path = present[&store].path.clone();
        return Err(RecoverError::NotLost { store, path });
    }
    let (from, copy, strays) = newest_copy(sources)?;
    let lost: BTreeSet<StoreId> = accept_loss.iter().copied().collect();
    let mut work = Work {
        from: from.store,
        copy,
        // A store that was not there when the metadata was rebuilt the last time has numbers of an earlier life.
        sources: sources
            .iter()
            .filter(|source| source.copy.as_ref().is_none_or(|of| of.life == copy.life))
            .collect(),
        present,
        lost,
        records: copy.values.clone(),
        newer_pools: false,
        report: Report {
            cluster: first.cluster,
            copy_of: from.store,
            life: copy.life,
            revision: copy.revision,
            stores: sources.len(),
            ..Report::default()
        },
    };
    work.records.retain(|key, _| is_kept(key));
    work.report.notes.extend(strays.into_iter().map(|source| {
        format!(
            "the copy on store {} ({}) is left out: it was made of metadata that had been restored from an older copy",
            source.store, source.path
        )
    }));
    work.cluster()?;
    work.groups()?;
    work.volumes(word)?;
    work.notes();
    let life = Life {
        number: copy.life + 1,
        lost: work.report.lost.clone(),
    };
    work.records.insert(map::life_key(), json(&life));
    Ok(Rebuilt {
        records: work.records,
        report: work.report,
    })
}

/// The newest copy; and those that are newer by their revision, but of metadata that had been restored from an older copy.
///
/// Along one history epochs, generations and counters never go back. So a copy of a later revision that is behind an
/// earlier one in any of them is of another history, which began where the older copy was restored.
fn newest_copy(sources: &[Source]) -> Result<(&Source, &Records, Vec<&Source>), RecoverError> {
    let mut copies: Vec<(&Source, &Records, BTreeMap<String, u64>)> = sources
        .iter()
        .filter_map(|source| {
            let copy = source.copy.as_ref()?;
            Some((source, copy, never_back(copy)))
        })
        .collect();
    let life = copies
        .iter()
        .map(|(_, copy, _)| copy.life)
        .max()
        .ok_or(RecoverError::NoCopy)?;
    copies.retain(|(_, copy, _)| copy.life == life);
    copies.sort_by_key(|(_, copy, _)| std::cmp::Reverse(copy.revision));
    let mut strays = Vec::new();
    for (at, (source, copy, marks)) in copies.iter().enumerate() {
        let ahead = |(_, _, earlier): &(&Source, &Records, BTreeMap<String, u64>)| {
            earlier
                .iter()
                .any(|(key, value)| marks.get(key).is_some_and(|ours| value > ours))
        };
        if copies[at + 1..].iter().any(ahead) {
            strays.push(*source);
        } else if let Some(stray) = strays.iter().find(|stray| ahead_of(stray, &copies, marks)) {
            return Err(RecoverError::TwoHistories {
                first: source.store,
                second: stray.store,
            });
        } else {
            return Ok((source, copy, strays));
        }
    }
    Err(RecoverError::NoCopy)
}

/// Is this store's copy ahead in anything?
fn ahead_of(
    stray: &Source,
    copies: &[(&Source, &Records, BTreeMap<String, u64>)],
    marks: &BTreeMap<String, u64>,
) -> bool {
    let theirs = copies.iter().find(|(source, ..)| source.store == stray.store);
    theirs.is_some_and(|(.., theirs)| {
        theirs
            .iter()
            .any(|(key, value)| marks.get(key).is_some_and(|ours| value > ours))
    })
}

/// What never goes back along one history: epochs, generations, counters.
fn never_back(copy: &Records) -> BTreeMap<String, u64> {
    let mut marks: BTreeMap<String, u64> = BTreeMap::new();
    for (id, group) in groups(copy) {
        marks.insert(format!("group {id}"), group.epoch.0);
    }
    for volume in all::<Volume>(copy, "volumes/") {
        marks.insert(format!("volume {}", volume.id), volume.generation.0.into());
    }
    for counter in ["nodes", "pools", "volumes"] {
        let key = map::counter_key(counter);
        marks.insert(key.clone(), read(copy, &key).unwrap_or(0));
    }
    marks
}

/// The prefix of all data keys.
fn secrets() -> String {
    format!("{}secrets/", map::PREFIX)
}

struct Work<'a> {
    from: StoreId,
    copy: &'a Records,
    /// Whose fences count.
    sources: Vec<&'a Source>,
    present: BTreeMap<StoreId, &'a Source>,
    lost: BTreeSet<StoreId>,
    records: BTreeMap<String, Vec<u8>>,
    /// Stores know of pools that the copy does not know.
    newer_pools: bool,
    report: Report,
}

/// What the stores know of a volume.
#[derive(Default)]
struct Met {
    generation: Generation,
    last_chunk: Option<u64>,
    number: SnapshotId,
    cloned: bool,
    plain: bool,
}

impl<'a> Work<'a> {
    fn bad(&self, why: String) -> RecoverError {
        RecoverError::BadCopy { store: self.from, why }
    }

    fn cluster(&self) -> Result<(), RecoverError> {
        let cluster: Option<Cluster> = read(self.copy, &map::cluster_key());
        match cluster {
            Some(cluster) if cluster.id == self.report.cluster => Ok(()),
            Some(cluster) => Err(self.bad(format!("it is of cluster {}", cluster.id))),
            None => Err(self.bad("the cluster's record is missing".to_owned())),
        }
    }

    /// The newest that any store knows of each group.
    fn known_groups(&self) -> Result<BTreeMap<GroupId, &'a KnownGroup>, RecoverError> {
        let mut newest: BTreeMap<GroupId, &'a KnownGroup> = BTreeMap::new();
        for known in self.sources.iter().copied().flat_map(|source| &source.groups) {
            let best = newest.entry(known.id()).or_insert(known);
            if known.epoch > best.epoch {
                *best = known;
            } else if known.epoch == best.epoch && !same(&known.in_sync, &best.in_sync) {
                return Err(RecoverError::Split {
                    group: known.id(),
                    epoch: known.epoch,
                });
            }
        }
        Ok(newest)
    }

    fn groups(&mut self) -> Result<(), RecoverError> {
        let known = self.known_groups()?;
        let recorded = groups(self.copy);
        let mut missing: BTreeMap<StoreId, (Vec<GroupId>, usize)> = BTreeMap::new();
        let mut used: BTreeSet<StoreId> = BTreeSet::new();
        for pool in all::<Pool>(self.copy, "pools/") {
            for index in (0..pool.groups).map(GroupIndex) {
                let id = GroupId { pool: pool.id, index };
                let mut group = self.newest(id, recorded.get(&id), known.get(&id).copied())?;
                let gone: Vec<StoreId> = group
                    .in_sync
                    .iter()
                    .copied()
                    .filter(|store| !self.present.contains_key(store))
                    .collect();
                let none_left = gone.len() == group.in_sync.len();
                for store in &gone {
                    let (groups, only) = missing.entry(*store).or_default();
                    groups.push(id);
                    *only += usize::from(none_left);
                }
                used.extend(gone.iter().copied().filter(|store| self.lost.contains(store)));
                if none_left {
                    self.report.groups_without_copy.push(id);
                } else if gone.iter().any(|store| self.lost.contains(store)) {
                    self.report.groups_with_loss += 1;
                    group.in_sync.retain(|store| !self.lost.contains(store));
                }
                let after_loss = if self.lost.is_empty() { 0 } else { EPOCHS_AFTER_LOSS };
                group.epoch = Epoch(group.epoch.0 + after_loss).next();
                group.syncing.clear();
                self.report.groups += 1;
                self.records.insert(map::group_key(pool.id, index), json(&group));
            }
        }
        let stores: Vec<MissingStore> = missing
            .into_iter()
            .filter(|(store, _)| !self.lost.contains(store))
            .map(|(store, (groups, only_copy_of))| MissingStore {
                store,
                place: self.place(store),
                groups: groups.len(),
                only_copy_of,
                examples: groups.into_iter().take(4).collect(),
            })
            .collect();
        if !stores.is_empty() {
            return Err(RecoverError::Missing { stores });
        }
        if let Some(&store) = self.lost.iter().find(|store| !used.contains(store)) {
            return Err(RecoverError::NotNeeded { store });
        }
        self.report.lost = self.lost.iter().copied().collect();
        let key = map::counter_key("pools");
        let given: u64 = read(self.copy, &key).unwrap_or(0);
        let newer: BTreeSet<PoolId> = known
            .keys()
            .map(|id| id.pool)
            .filter(|pool| u64::from(pool.0) > given)
            .collect();
        for pool in &newer {
            self.report.notes.push(format!(
                "pool {pool} was made after the newest copy of the metadata, and is not rebuilt; its number is not given again"
            ));
        }
        if let Some(last) = newer.last() {
            self.newer_pools = true;
            self.records.insert(key, json(&u64::from(last.0)));
        }
        Ok(())
    }

    /// The newest that the copy or a store knows of a group.
    fn newest(
        &mut self,
        id: GroupId,
        recorded: Option<&Group>,
        known: Option<&KnownGroup>,
    ) -> Result<Group, RecoverError> {
        match (recorded, known) {
            (None, None) => Err(self.bad(format!("group {id} is missing, and no store knows it"))),
            (None, Some(known)) => Ok(Group {
                index: id.index,
                epoch: known.epoch,
                members: known.in_sync.clone(),
                in_sync: known.in_sync.clone(),
                syncing: Vec::new(),
            }),
            (Some(group), Some(known)) if known.epoch > group.epoch => {
                self.report.groups_ahead += 1;
                Ok(Group {
                    epoch: known.epoch,
                    in_sync: known.in_sync.clone(),
                    ..group.clone()
                })
            }
            (Some(group), Some(known)) if known.epoch == group.epoch && !same(&known.in_sync, &group.in_sync) => {
                let epoch = known.epoch;
                Err(RecoverError::Split { group: id, epoch })
            }
            (Some(group), _) => Ok(group.clone()),
        }
    }

    fn volumes(&mut self, word: &Word) -> Result<(), RecoverError> {
        let mut known: BTreeMap<VolumeId, Met> = BTreeMap::new();
        for volume in self.sources.iter().flat_map(|source| &source.volumes) {
            let met = known.entry(volume.volume).or_default();
            met.generation = volume.generation.max(met.generation);
            met.last_chunk = volume.last_chunk.max(met.last_chunk);
            met.number = volume.number.max(met.number);
            met.cloned |= volume.cloned;
            met.plain |= volume.plain;
        }
        // The newest generation of each that has a record, as it was.
        let mut opened: BTreeMap<VolumeId, Generation> = BTreeMap::new();
        let sources = self.sources.clone();
        let is_deleted = |id| sources.iter().any(|source| source.knows_deleted(id));
        for mut volume in all::<Volume>(self.copy, "volumes/") {
            if is_deleted(volume.id) {
                self.report.notes.push(format!(
                    "volume {} was deleted after the newest copy of the metadata was made: it stays deleted",
                    volume.name
                ));
                self.records.remove(&map::volume_key(&volume.name));
                self.forget_snapshots(&volume);
                continue;
            }
            volume.former.retain(|data| !is_deleted(*data));
            let met = known.remove(&volume.id).unwrap_or_default();
            let had = volume.generation.max(met.generation);
            opened.insert(volume.id, had);
            // A parent goes for good only when its clones need it no more: this one was flattened since.
            if let Some(level) = volume.parents.iter().position(|parent| is_deleted(parent.volume)) {
                volume.lineage.root = Some(volume.place());
                volume.parents.truncate(level);
                self.report.notes.push(format!(
                    "volume {} was flattened after the newest copy of the metadata was made: what it was cloned from is gone, and it has all of it",
                    volume.name
                ));
            }
            volume.generation = had;
            self.grow(&mut volume, met.last_chunk);
            self.number(&mut volume, met.number);
            self.insert_volume(volume)?;
        }
        let may_be_newer = !self.lost.is_empty();
        let notes = copies::decide(&mut self.records, &opened, may_be_newer, word)?;
        self.report.notes.extend(notes);
        // What is left was deleted, or made after the copy: the copy's numbers tell.
        let key = map::counter_key("volumes");
        let given: u64 = read(self.copy, &key).unwrap_or(0);
        known.retain(|id, _| id.0 > given && !is_deleted(*id));
        self.decide(&known, word)?;
        for (&id, met) in &known {
            self.found_volume(id, met, word)?;
        }
        self.count_clones();
        self.forget_keys();
        // No number is given again that a store knows, be it a deleted volume's. Who counts as given and has no record is deleted (R13).
        let recorded: BTreeSet<VolumeId> = self.records_of::<Volume>("volumes/").map(|volume| volume.id).collect();
        if let Some(&volume) = known.keys().find(|id| !recorded.contains(id)) {
            return Err(RecoverError::Unrecorded { volume });
        }
        let deleted = sources
            .iter()
            .flat_map(|source| &source.deleted)
            .map(|(_, last)| last.0);
        let last = known.keys().map(|id| id.0).chain(deleted).max().unwrap_or(0);
        if last > given {
            self.records.insert(key, json(&last));
        }
        Ok(())
    }

    /// A deleted volume has no snapshots. The names of what it was of, if it is former data, stand among those of the volume, which stays.
    fn forget_snapshots(&mut self, volume: &Volume) {
        let (host, own) = (volume.host(), map::snapshots_prefix(volume.id));
        let names = map::snapshot_names_prefix(host);
        let is_its = |value: &[u8]| {
            let name = serde_json::from_slice::<map::SnapshotName>(value);
            name.is_ok_and(|name| name.data(host) == volume.id)
        };
        self.records.retain(|key, value| {
            let named = key.starts_with(&names) && (!volume.is_former() || is_its(value));
            !(named || key.starts_with(&own))
        });
    }

    /// A clone that was deleted after the copy was made holds nothing any more.
    fn count_clones(&mut self) {
        let volumes = self.records_of::<Volume>("volumes/");
        let mut clones: BTreeMap<(VolumeId, SnapshotId), u64> = BTreeMap::new();
        for parent in volumes.filter_map(|volume| volume.parents.first().copied()) {
            *clones.entry((parent.volume, parent.number)).or_default() += 1;
        }
        let prefix = format!("{}snapshots/", map::PREFIX);
        let is_one = |key: &String| key.starts_with(&prefix);
        let mut needless = Vec::new();
        for (key, value) in self.records.iter_mut().filter(|(key, _)| is_one(key)) {
            let Ok(mut snapshot) = serde_json::from_slice::<map::Snapshot>(value) else {
                continue;
            };
            let own = clones.get(&(snapshot.volume, snapshot.number));
            let clones = own.copied().unwrap_or_default();
            if std::mem::replace(&mut snapshot.clones, clones) != clones {
                *value = json(&snapshot);
            }
            // Deleted, and held by clones that have gone since.
            if snapshot.hidden && clones == 0 {
                needless.push(key.clone());
            }
        }
        for key in needless {
            self.records.remove(&key);
        }
    }

    /// A key went with the last who could read by it (S14): of what was deleted after the copy was made none comes back. A volume whose record
    /// nobody can read may need any of them.
    fn forget_keys(&mut self) {
        let prefix = format!("{}volumes/", map::PREFIX);
        let mut needed: BTreeSet<String> = BTreeSet::new();
        for (_, value) in self.records.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            let Ok(volume) = serde_json::from_slice::<Volume>(value) else {
                return;
            };
            let eras = volume.keys.iter().flat_map(map::KeyRing::eras);
            needed.extend(eras.map(|era| map::secret_key(era.key)));
        }
        let prefix = secrets();
        self.records
            .retain(|key, _| !key.starts_with(&prefix) || needed.contains(key));
    }

    fn records_of<T: DeserializeOwned>(&self, kind: &str) -> impl Iterator<Item = T> {
        let prefix = format!("{}{kind}", map::PREFIX);
        self.records
            .iter()
            .filter(move |(key, _)| key.starts_with(&prefix))
            .filter_map(|(_, value)| serde_json::from_slice(value).ok())
    }

    /// Is the pool known that a volume without a record lies in, and all that it has?
    fn is_known(&self, met: &Met) -> bool {
        let pools = all::<Pool>(self.copy, "pools/").len();
        pools == 1 && !self.newer_pools && !met.cloned && met.last_chunk.is_some()
    }

    /// No volume that may have been encrypted is opened as plain, but by somebody's word; and none that was not is kept closed.
    fn decide(&self, known: &BTreeMap<VolumeId, Met>, word: &Word) -> Result<(), RecoverError> {
        let cluster: Option<Cluster> = read(self.copy, &map::cluster_key());
        let encrypts = cluster.is_none_or(|cluster| cluster.version >= ENCRYPTION_SINCE);
        let asked = known
            .iter()
            .filter(|(_, met)| encrypts && !met.plain && self.is_known(met));
        let asked: BTreeSet<VolumeId> = asked.map(|(id, _)| *id).collect();
        word.decides(&asked)
    }

    /// A volume that was made after the copy. Where it is not known which pool it lies in, its record names none: that keeps its
    /// number and its chunks.
    fn found_volume(&mut self, id: VolumeId, met: &Met, word: &Word) -> Result<(), RecoverError> {
        let mut name = format!("recovered-{id}");
        while self.records.contains_key(&map::volume_key(&name)) {
            name.push('x');
        }
        let pools = all::<Pool>(self.copy, "pools/");
        let (pool, chunk_bytes) = match &pools[..] {
            // What no store has a chunk of may be a clone that has inherited nothing yet, which an empty volume is not.
            _ if met.last_chunk.is_none() && !met.cloned => {
                self.report.notes.push(format!(
                    "volume {id} was made after the newest copy of the metadata, and no store holds a chunk of it: either nothing was \
                     written to it, or it is a clone that has all that it has from a snapshot. So it cannot be opened; it stands as {name} \
                     in pool {NO_POOL}, which keeps its number; delete it, and make it anew, or clone the snapshot that it came from anew"
                ));
                (NO_POOL.to_owned(), u64::from(MAX_BLOCKS_PER_CHUNK) * BLOCK_BYTES as u64)
            }
            _ if word.closed.contains(&id) => {
                self.report.notes.push(format!(
                    "volume {id} was made after the newest copy of the metadata, and may have been encrypted: so it stays closed, as was said; it \
                     stands as {name} in pool {NO_POOL}, which keeps its number and its chunks on the stores until it is deleted"
                ));
                (NO_POOL.to_owned(), u64::from(MAX_BLOCKS_PER_CHUNK) * BLOCK_BYTES as u64)
            }
            [pool] if !self.newer_pools && !met.cloned => (pool.name.clone(), u64::from(pool.chunk_bytes)),
            // Where its chunks lie, and what it has from others, only its record knew.
            _ if met.cloned => {
                self.report.notes.push(format!(
                    "volume {id} was cloned from another one after the newest copy of the metadata was made: what it comes from is not \
                     known, so it cannot be opened; it stands as {name} in pool {NO_POOL}, which keeps its number and its chunks on the \
                     stores until it is deleted; clone the snapshot that it came from anew"
                ));
                (NO_POOL.to_owned(), u64::from(MAX_BLOCKS_PER_CHUNK) * BLOCK_BYTES as u64)
            }
            _ => {
                self.report.notes.push(format!(
                    "volume {id} was made after the newest copy of the metadata: its name, its size and the pool that it lies in \
                     are not known, so it cannot be opened; it stands as {name} in pool {NO_POOL}, which keeps its number and \
                     its chunks on the stores until it is deleted"
                ));
                (NO_POOL.to_owned(), u64::from(MAX_BLOCKS_PER_CHUNK) * BLOCK_BYTES as u64)
            }
        };
        // Whoever has a clone has snapshots.
        let has_snapshots = self
            .records
            .keys()
            .any(|key| key.starts_with(&format!("{}snapshots/", map::PREFIX)));
        if pool != NO_POOL && has_snapshots {
            self.report.notes.push(format!(
                "volume {id} stands as {name}: if it was cloned from a snapshot, what it had from there and nobody has used since is missing in \
                 it, and reads as zeros; look at it before it is used, and clone the snapshot anew where it is so"
            ));
        }
        if word.plain.contains(&id) {
            self.report.notes.push(format!(
                "volume {id} stands as {name}, and is opened as plain, as was said: if it was encrypted nevertheless, what it reads is noise; look \
                 at it before it is used"
            ));
        }
        self.report.found_volumes.push(name.clone());
        let last = met.last_chunk.unwrap_or(0);
        let mut volume = Volume {
            generation: met.generation,
            ..Volume::new(id, &name, &pool, last.saturating_add(1).saturating_mul(chunk_bytes))
        };
        self.number(&mut volume, met.number);
        self.insert_volume(volume)
    }

    /// A volume may have grown, and been written there, after the copy was made: a chunk that begins behind the end that the
    /// copy knows says so. A volume that was made smaller keeps cleared chunks there, and gets its old size, with zeros: nothing is lost by that.
    fn grow(&mut self, volume: &mut Volume, last_chunk: Option<u64>) {
        let pools = all::<Pool>(self.copy, "pools/");
        let Some(pool) = pools.iter().find(|pool| pool.name == volume.pool) else {
            return;
        };
        let chunk_bytes = u64::from(pool.chunk_bytes);
        let Some(last) = last_chunk.filter(|last| last.saturating_mul(chunk_bytes) >= volume.size_bytes) else {
            return;
        };
        let grown = last.saturating_add(1).saturating_mul(chunk_bytes);
        self.report.notes.push(format!(
            "volume {} had {} bytes in the newest copy of the metadata, and has chunks behind that: it has {grown} now; \
             if it was made larger than that, or smaller before, do so again (`amita volume resize`)",
            volume.name, volume.size_bytes
        ));
        volume.size_bytes = grown;
    }

    /// Snapshots may have been taken after the copy was made. No number is given again, also none that no store has met yet (S1); and
    /// what was being taken is void, as it is at each raise of the generation (S2).
    fn number(&mut self, volume: &mut Volume, met: SnapshotId) {
        let lineage = &mut volume.lineage;
        let before = lineage.number;
        lineage.end(false);
        let newest = before.max(met);
        if newest == SnapshotId::HEAD {
            return;
        }
        lineage.number = SnapshotId(newest.0.saturating_add(1));
        if met > before {
            self.report.notes.push(format!(
                "volume {} had {} snapshots in the newest copy of the metadata, counted from its beginning, and the stores have met {}: \
                 later ones have no names any more, and what was kept for them is given back",
                volume.name, before.0, met.0
            ));
        }
    }

    fn insert_volume(&mut self, mut volume: Volume) -> Result<(), RecoverError> {
        let steps = if self.lost.is_empty() {
            1
        } else {
            GENERATIONS_AFTER_LOSS
        };
        volume.generation = Generation(volume.generation.0.saturating_add(steps));
        volume.owner = None;
        if volume.generation >= Generation::MAX {
            return Err(RecoverError::GenerationsUsedUp { name: volume.name });
        }
        self.report.volumes.push((volume.name.clone(), volume.generation));
        self.records.insert(map::volume_key(&volume.name), json(&volume));
        Ok(())
    }

    /// Where a store was served.
    fn place(&self, store: StoreId) -> String {
        let Some(record) = read::<Store>(self.copy, &map::store_key(store)) else {
            return "never registered".to_owned();
        };
        let nodes = all::<Node>(self.copy, "nodes/");
        let node = nodes.into_iter().find(|node| node.id == record.node);
        let node = node.map_or_else(|| format!("node {}", record.node), |node| format!("node {}", node.name));
        format!("{node}, {}", record.path)
    }

    fn notes(&mut self) {
        for store in all::<Store>(self.copy, "stores/") {
            if !self.present.contains_key(&store.id) && !self.lost.contains(&store.id) {
                let place = self.place(store.id);
                self.report.notes.push(format!(
                    "store {} ({place}) was not looked at; no group needs it, as far as the others know",
                    store.id
                ));
            }
        }
        let earlier = self.present.values().filter(|source| {
            let copy = source.copy.as_ref();
            copy.is_some_and(|of| of.life < self.copy.life)
        });
        for source in earlier {
            self.report.notes.push(format!(
                "store {} ({}) was away when the metadata was rebuilt the last time: it is not believed",
                source.store, source.path
            ));
        }
    }
}
