//! What volumes and snapshots hold, counted by this node's stores: `POST /space`, for `amita volume show` and its like.
//!
//! Whoever asks says for which groups each store is to speak, so that together the stores speak for each group once; and asks again
//! with the same question until all have counted ([`amita_store::Store::count`]).

use super::report::NodeReport;
use amita_store::{AskedVolume, Count, Question, VolumeFigures};
use amita_types::map::MAX_LEVELS;
use amita_types::{BLOCK_BYTES, GroupIndex, SnapshotId, StoreId, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest question.
pub const MAX_QUESTION_BYTES: usize = 4 << 20;
/// Volumes of a question, and stores: what a core does about one at a time takes no longer than a large I/O.
pub const MAX_QUESTION_VOLUMES: usize = 4096;
const MAX_QUESTION_STORES: usize = 256;

/// What is to be counted: the body of the request, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceQuestion {
    /// Names it: it is asked again by it.
    pub number: u64,
    /// How many groups the volumes' pool has: a power of two.
    pub groups: u32,
    /// For which groups each store speaks, by its UUID.
    pub stores: BTreeMap<String, Vec<u32>>,
    /// The volumes, all of that pool.
    pub volumes: Vec<SpaceVolume>,
}

/// A volume that is to be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceVolume {
    /// Its number.
    pub id: u64,
    /// The number of the volume by which its chunks are hashed to groups, if that is another one: it is a clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u64>,
    /// The numbers of its snapshots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<u32>,
    /// Those of them that clones need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<u32>,
    /// What it was cloned from, the nearest first: numbers of volumes, and of their snapshots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<(u64, u32)>,
}

/// What the stores of a node say.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpacePage {
    /// Its number.
    pub node: u32,
    pub name: String,
    pub cluster: String,
    /// Those that were asked and are served here.
    pub stores: Vec<SpaceStore>,
}

/// What a store says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpaceStore {
    /// Its UUID.
    pub id: String,
    /// Bytes for data, of all pools.
    pub capacity_bytes: u64,
    /// Of them, free.
    pub free_bytes: u64,
    #[serde(flatten)]
    pub count: SpaceCount,
}

/// How far a store has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SpaceCount {
    /// Ask again.
    Counting {
        /// So much of a hundred.
        percent: u8,
    },
    /// It is being mounted, or counts for others: ask again.
    Busy,
    /// It cannot be known from this store.
    Unknown { why: String },
    Done {
        /// What each of the volumes has in the groups that the store speaks for.
        volumes: Vec<SpaceFigures>,
    },
}

/// What a volume has in some groups, in bytes: one copy of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceFigures {
    /// The volume's number.
    pub volume: u64,
    /// What its head holds, with what it has from its parents.
    pub used_bytes: u64,
    /// What its head and its snapshots hold, with what they have from its parents.
    pub held_bytes: u64,
    /// What its deletion with all its snapshots would free; nothing, if it has clones.
    pub own_bytes: u64,
    /// What was of deleted snapshots, and is not given back yet.
    pub freeing_bytes: u64,
    /// Numbers of snapshots, and what the deletion of each alone would free.
    pub unique: Vec<(u32, u64)>,
    /// How many volumes use what its own chunks refer to, itself included, and how many bytes of it.
    pub users: Vec<(u32, u64)>,
}

/// The same, for each store.
pub type StoreQuestions = BTreeMap<StoreId, Arc<Question>>;

impl SpaceQuestion {
    /// # Errors
    /// Says what is wrong with it.
    pub fn for_stores(&self) -> Result<StoreQuestions, String> {
        if !self.groups.is_power_of_two() {
            return Err(format!("{} groups are no power of two\n", self.groups));
        }
        let mut volumes: Vec<AskedVolume> = Vec::new();
        for asked in &self.volumes {
            if asked.parents.len() > MAX_LEVELS {
                return Err(format!("{} parents; {MAX_LEVELS} are the most\n", asked.parents.len()));
            }
            let from: BTreeSet<u64> = asked.parents.iter().map(|(volume, _)| *volume).collect();
            let head = SnapshotId::HEAD.0;
            if from.len() < asked.parents.len()
                || from.contains(&asked.id)
                || asked.parents.iter().any(|(_, at)| *at == head)
            {
                return Err(format!("volume {} comes from a volume twice, or from none\n", asked.id));
            }
            let parents = asked.parents.iter();
            volumes.push(AskedVolume {
                volume: VolumeId(asked.id),
                place: asked.place.map(VolumeId),
                live: ascending(&asked.snapshots),
                pinned: ascending(&asked.pinned),
                parents: parents
                    .map(|&(volume, at)| (VolumeId(volume), SnapshotId(at)))
                    .collect(),
            });
        }
        volumes.sort_unstable_by_key(|asked| asked.volume);
        if volumes.windows(2).any(|pair| pair[0].volume == pair[1].volume) {
            return Err("a volume is named twice\n".to_owned());
        }
        if volumes.len() > MAX_QUESTION_VOLUMES || self.stores.len() > MAX_QUESTION_STORES {
            return Err(format!(
                "{} volumes and {} stores; {MAX_QUESTION_VOLUMES} and {MAX_QUESTION_STORES} are the most\n",
                volumes.len(),
                self.stores.len()
            ));
        }
        let volumes: Arc<[AskedVolume]> = volumes.into();
        let store = |(id, groups): (&String, &Vec<u32>)| {
            let store: StoreId = id.parse().map_err(|_| format!("{id:?} is no store's UUID\n"))?;
            let question = Question {
                number: self.number,
                groups: self.groups,
                speaks_for: groups.iter().copied().map(GroupIndex).collect(),
                volumes: Arc::clone(&volumes),
            };
            Ok((store, Arc::new(question)))
        };
        self.stores.iter().map(store).collect()
    }
}

fn ascending(numbers: &[u32]) -> Vec<SnapshotId> {
    let mut snapshots: Vec<SnapshotId> = numbers.iter().copied().map(SnapshotId).collect();
    snapshots.sort_unstable();
    snapshots.dedup();
    snapshots
}

impl SpacePage {
    #[must_use]
    pub fn new(report: &NodeReport) -> SpacePage {
        let counted = report.cores.iter().flat_map(|core| &core.counted);
        let stores = counted.filter_map(|(store, count)| {
            let status = report
                .stores()
                .into_iter()
                .find(|known| known.id == *store)?
                .status
                .clone();
            Some(SpaceStore {
                id: store.to_string(),
                capacity_bytes: status.capacity_bytes,
                free_bytes: status.free_bytes,
                count: count.clone().into(),
            })
        });
        SpacePage {
            node: report.node.0,
            name: report.name.clone(),
            cluster: report.cluster.to_string(),
            stores: stores.collect(),
        }
    }
}

impl From<Count> for SpaceCount {
    fn from(count: Count) -> SpaceCount {
        match count {
            Count::Counting { percent } => SpaceCount::Counting { percent },
            Count::Busy => SpaceCount::Busy,
            Count::Unknown(why) => SpaceCount::Unknown { why },
            Count::Done(volumes) => SpaceCount::Done {
                volumes: volumes.iter().map(SpaceFigures::from).collect(),
            },
        }
    }
}

impl From<&VolumeFigures> for SpaceFigures {
    fn from(figures: &VolumeFigures) -> SpaceFigures {
        let bytes = |blocks: u64| blocks * u64::from(BLOCK_BYTES);
        let unique = figures.unique.iter();
        SpaceFigures {
            volume: figures.volume.0,
            used_bytes: bytes(figures.used),
            held_bytes: bytes(figures.held),
            own_bytes: bytes(figures.own),
            freeing_bytes: bytes(figures.freeing),
            unique: unique.map(|&(number, blocks)| (number.0, bytes(blocks))).collect(),
            users: (figures.users.iter().map(|&(users, blocks)| (users, bytes(blocks)))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_who_speaks_for_what() {
        let store = StoreId(7).to_string();
        let volume = |id| SpaceVolume {
            id,
            place: (id == 9).then_some(2),
            snapshots: vec![3, 1, 3],
            pinned: vec![3],
            parents: if id == 9 { vec![(2, 3)] } else { Vec::new() },
        };
        let question = SpaceQuestion {
            number: 1,
            groups: 4,
            stores: BTreeMap::from([(store.clone(), vec![2, 0])]),
            volumes: vec![volume(9), volume(2)],
        };
        let made = question.for_stores().expect("it makes sense");
        let asked = &made[&StoreId(7)];
        let numbers: Vec<VolumeId> = asked.volumes.iter().map(|asked| asked.volume).collect();
        assert_eq!(numbers, [VolumeId(2), VolumeId(9)]);
        assert_eq!(
            (asked.volumes[0].place, asked.volumes[1].place),
            (None, Some(VolumeId(2)))
        );
        assert_eq!(asked.volumes[0].live, [SnapshotId(1), SnapshotId(3)]);
        assert_eq!(asked.volumes[0].pinned, [SnapshotId(3)]);
        assert_eq!(asked.volumes[1].parents, [(VolumeId(2), SnapshotId(3))]);
        assert!(asked.speaks_for.contains(&GroupIndex(2)) && !asked.speaks_for.contains(&GroupIndex(1)));
        let wrong = |change: fn(&mut SpaceQuestion)| {
            let mut wrong = question.clone();
            change(&mut wrong);
            assert!(wrong.for_stores().is_err(), "{wrong:?}");
        };
        wrong(|question| question.groups = 3);
        wrong(|question| question.volumes[0].id = 2);
        wrong(|question| question.volumes[0].parents = (10..=10 + MAX_LEVELS as u64).map(|from| (from, 3)).collect());
        wrong(|question| question.volumes[0].parents = vec![(2, 3), (2, 4)]);
        wrong(|question| question.volumes[0].parents = vec![(9, 3)]);
        wrong(|question| question.volumes[0].parents = vec![(2, 0)]);
        wrong(|question| drop(question.stores.insert("no store".to_owned(), Vec::new())));
    }
}
