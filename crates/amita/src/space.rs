//! What volumes hold, asked of the stores.
//!
//! In each group one store that is in sync speaks for all: it is said which. A store that does not answer, or cannot tell, is
//! replaced by another one of its group. What nobody can tell is not known, and is not guessed.

use crate::nodes::Nodes;
use amita_api::panics::{Unwinding, may_unwind};
use amita_control::admin::{self, AdminError, LiveSnapshot, Status};
use amita_metadata::Transact;
use amita_node::observe::{MAX_QUESTION_VOLUMES, SpaceCount, SpacePage, SpaceQuestion, SpaceStore, SpaceVolume};
use amita_types::map::{Group, Pool, Volume};
use amita_types::{SnapshotId, StoreId, VolumeId};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// Between two questions how far a count is: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// Numbers of snapshots and parents that one question names.
const MOST_NUMBERS: usize = 200_000;
/// Volumes whose snapshots are read by one call.
const READ_AT_ONCE: usize = 32;
/// So often it is begun anew, because a store did not tell or is in sync no more.
const ATTEMPTS: u32 = 4;

/// What a volume holds, in bytes: one copy of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeSpace {
    /// What its head holds, with what it has from its parents.
    pub used_bytes: u64,
    /// What its head and its snapshots hold, with what they have from its parents.
    pub held_bytes: u64,
    /// What the deletion of the volume with its snapshots would free: what no other volume uses; nothing, if clones need it.
    pub unique_bytes: u64,
    /// What was of deleted snapshots, and is not given back yet.
    pub freeing_bytes: u64,
    /// What the deletion of each snapshot alone would free; of those that are not here nothing.
    unique: BTreeMap<SnapshotId, u64>,
    /// By how many volumes, itself included, what is its own or shared is used.
    users: BTreeMap<u32, u64>,
}

impl VolumeSpace {
    /// What the deletion of a snapshot alone would free. One that clones need frees nothing.
    #[must_use]
    pub fn unique_of(&self, snapshot: SnapshotId) -> u64 {
        self.unique.get(&snapshot).copied().unwrap_or(0)
    }

    fn add(&mut self, other: &amita_node::observe::SpaceFigures) {
        self.used_bytes += other.used_bytes;
        self.held_bytes += other.held_bytes;
        self.unique_bytes += other.own_bytes;
        self.freeing_bytes += other.freeing_bytes;
        for &(number, bytes) in &other.unique {
            *self.unique.entry(SnapshotId(number)).or_default() += bytes;
        }
        for &(users, bytes) in &other.users {
            *self.users.entry(users).or_default() += bytes;
        }
    }
}

/// What all volumes of a pool and their snapshots hold together: what several share counts once.
#[must_use]
pub fn held_together<'a>(all: impl Iterator<Item = &'a VolumeSpace>) -> u64 {
    let (mut users, mut freeing) = (BTreeMap::<u32, u64>::new(), 0);
    for space in all {
        freeing += space.freeing_bytes;
        for (&number, bytes) in &space.users {
            *users.entry(number).or_default() += bytes;
        }
    }
    let shares = users
        .into_iter()
        .map(|(number, bytes)| bytes / u64::from(number.max(1)));
    shares.sum::<u64>().saturating_sub(freeing)
}

/// Why nothing is known of a volume.
pub const OF_RECORDS: &str = "the record of one of its snapshots cannot be read, so that nobody can say what they hold";

/// What volumes of a pool hold, but for those of whose snapshots a record cannot be read ([`OF_RECORDS`]); or, in a sentence, why that is not known.
pub type Counted = Result<BTreeMap<VolumeId, VolumeSpace>, String>;

/// Has the stores count what these volumes of one pool hold. Waits for it so long at most.
///
/// # Errors
/// The metadata is away.
pub fn count(
    meta: &dyn Transact,
    status: &Status,
    pool: &Pool,
    volumes: &[Volume],
    patience: Duration,
) -> Result<Counted, AdminError> {
    let held_by_itself = held_by_itself(volumes);
    let volumes: Vec<&Volume> = volumes.iter().collect();
    if volumes.is_empty() {
        return Ok(Ok(BTreeMap::new()));
    }
    let until = amita_terminal::interrupt::deadline(patience);
    let mut all = BTreeMap::new();
    let mut batch: Vec<SpaceVolume> = Vec::new();
    let mut named = 0;
    let mut each = Vec::with_capacity(volumes.len());
    for some in volumes.chunks(READ_AT_ONCE) {
        if !each.is_empty() && Instant::now() >= until {
            return Ok(Err(format!(
                "of {} volumes it takes longer to read which snapshots there are than is waited for; ask for one (`amita volume show`)",
                volumes.len()
            )));
        }
        each.extend(some.iter().zip(admin::live_snapshots_of(meta, some)?));
    }
    for (volume, live) in each {
        // Of that one nothing is known.
        let Ok(live) = live else { continue };
        // A parent is two numbers, and one that clones need is named twice.
        let numbers = 2 * (live.len() + volume.parents.len());
        if batch.len() >= MAX_QUESTION_VOLUMES || (!batch.is_empty() && named + numbers > MOST_NUMBERS) {
            match count_batch(meta, status, pool, &std::mem::take(&mut batch), until)? {
                Ok(found) => all.extend(found),
                Err(why) => return Ok(Err(why)),
            }
            named = 0;
        }
        named += numbers;
        // What a volume was goes with it: that it comes from there itself holds nothing.
        let pins = |snapshot: &&LiveSnapshot| {
            let own = held_by_itself.get(&(volume.id, snapshot.number));
            snapshot.clones > own.copied().unwrap_or_default()
        };
        let pinned = live.iter().filter(pins);
        let parents = volume.parents.iter();
        let asked = SpaceVolume {
            id: volume.id.0,
            place: Some(volume.place().0).filter(|place| *place != volume.id.0),
            snapshots: live.iter().map(|snapshot| snapshot.number.0).collect(),
            pinned: pinned.map(|snapshot| snapshot.number.0).collect(),
            parents: parents.map(|parent| (parent.volume.0, parent.number.0)).collect(),
        };
        batch.push(asked);
    }
    let rest = match batch.is_empty() {
        true => Ok(BTreeMap::new()),
        false => count_batch(meta, status, pool, &batch, until)?,
    };
    Ok(rest.map(|found| {
        all.extend(found);
        for (data, number) in held_by_itself.keys() {
            // Deleted, it would be hidden, for the volume needs it.
            if let Some(space) = all.get_mut(data) {
                space.unique.remove(number);
            }
        }
        all
    }))
}

/// The snapshots that reverted volumes come from, and how many times: those of what these volumes were themselves.
fn held_by_itself(volumes: &[Volume]) -> BTreeMap<(VolumeId, SnapshotId), u64> {
    let hosts: BTreeMap<VolumeId, VolumeId> = volumes.iter().map(|volume| (volume.id, volume.host())).collect();
    let mut held = BTreeMap::new();
    for volume in volumes {
        let parent = volume.parents.first();
        if let Some(parent) = parent.filter(|parent| hosts.get(&parent.volume) == Some(&volume.host())) {
            *held.entry((parent.volume, parent.number)).or_default() += 1;
        }
    }
    held
}

/// What a volume holds with all that it was before it was reverted; none: that is not known of all of it.
#[must_use]
pub fn of_chain(counted: &BTreeMap<VolumeId, VolumeSpace>, volume: &Volume) -> Option<VolumeSpace> {
    let mut all = counted.get(&volume.id)?.clone();
    if volume.former.is_empty() {
        return Some(all);
    }
    let former: Vec<&VolumeSpace> = volume
        .former
        .iter()
        .map(|data| counted.get(data))
        .collect::<Option<_>>()?;
    let together = held_together(former.iter().copied().chain([&all]));
    all.held_bytes = all.held_bytes.max(together);
    for space in former {
        all.unique_bytes += space.unique_bytes;
        all.freeing_bytes += space.freeing_bytes;
        // No number is of two snapshots of the volume.
        all.unique.extend(&space.unique);
        for (users, bytes) in &space.users {
            *all.users.entry(*users).or_default() += bytes;
        }
    }
    Some(all)
}

/// The same of a few volumes.
fn count_batch(
    meta: &dyn Transact,
    status: &Status,
    pool: &Pool,
    volumes: &[SpaceVolume],
    until: Instant,
) -> Result<Counted, AdminError> {
    let nodes = Nodes::of(status.clone());
    let mut silent: BTreeMap<StoreId, String> = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        let groups = admin::groups(meta, pool.id)?;
        let speakers = match speakers(status, pool, &groups, &silent) {
            Ok(speakers) => speakers,
            Err(why) => return Ok(Err(why)),
        };
        let question = SpaceQuestion {
            number: RandomState::new().hash_one(pool.id),
            groups: pool.groups,
            stores: BTreeMap::new(),
            volumes: volumes.to_vec(),
        };
        let begun = volumes.iter().map(|asked| (VolumeId(asked.id), VolumeSpace::default()));
        let mut found: BTreeMap<VolumeId, VolumeSpace> = begun.collect();
        let mut failed = false;
        for (store, answer) in ask(&nodes, status, &question, &speakers, until) {
            match answer {
                Ok(figures) => {
                    for figures in figures {
                        found.entry(VolumeId(figures.volume)).or_default().add(&figures);
                    }
                }
                Err(why) => {
                    failed = true;
                    silent.insert(store, why);
                }
            }
        }
        if failed {
            continue;
        }
        // Who was evicted meanwhile may have missed something.
        let now = admin::groups(meta, pool.id)?;
        let stays = |(store, groups): (&StoreId, &Vec<u32>)| {
            let mut own = now.iter().filter(|group| groups.contains(&group.index.0));
            own.all(|group| group.in_sync.contains(store))
        };
        if speakers.iter().all(stays) {
            return Ok(Ok(found));
        }
    }
    let why = silent.into_iter().map(|(store, why)| format!("store {store}: {why}"));
    let why: Vec<String> = why.collect();
    Ok(Err(match why.is_empty() {
        true => "stores leave their groups while they count; ask again".to_owned(),
        false => why.join("; "),
    }))
}

/// Which store speaks for which groups. They are spread, so that all count at the same time.
fn speakers(
    status: &Status,
    pool: &Pool,
    groups: &[Group],
    silent: &BTreeMap<StoreId, String>,
) -> Result<BTreeMap<StoreId, Vec<u32>>, String> {
    let alive: BTreeSet<StoreId> = status
        .stores
        .iter()
        .filter(|found| found.alive && !silent.contains_key(&found.store.id))
        .map(|found| found.store.id)
        .collect();
    let mut speakers: BTreeMap<StoreId, Vec<u32>> = BTreeMap::new();
    for group in groups {
        let able: Vec<StoreId> = group
            .in_sync
            .iter()
            .copied()
            .filter(|store| alive.contains(store))
            .collect();
        let Some(speaker) = able.get(group.index.0 as usize % able.len().max(1)) else {
            let why = group.in_sync.iter().map(|store| {
                let why = silent.get(store).map_or("its node does not serve it", String::as_str);
                format!("store {store}: {why}")
            });
            return Err(format!(
                "no store in sync tells what it holds of group {} of pool {}: {}",
                group.index.0,
                pool.name,
                why.collect::<Vec<_>>().join("; ")
            ));
        };
        speakers.entry(*speaker).or_default().push(group.index.0);
    }
    Ok(speakers)
}

type Answer = Result<Vec<amita_node::observe::SpaceFigures>, String>;

/// Asks every store that speaks, all at the same time, until it has counted.
fn ask(
    nodes: &Nodes,
    status: &Status,
    question: &SpaceQuestion,
    speakers: &BTreeMap<StoreId, Vec<u32>>,
    until: Instant,
) -> Vec<(StoreId, Answer)> {
    let node_of = |store: &StoreId| {
        let found = status.stores.iter().find(|found| found.store.id == *store);
        found.map(|found| found.node_name.clone()).unwrap_or_default()
    };
    let may_unwind = may_unwind();
    std::thread::scope(|scope| {
        let asking: Vec<_> = speakers
            .iter()
            .map(|(store, groups)| {
                let question = SpaceQuestion {
                    stores: BTreeMap::from([(store.to_string(), groups.clone())]),
                    ..question.clone()
                };
                let node = node_of(store);
                let asked = scope.spawn(move || {
                    let _unwinding = Unwinding::begin_where(may_unwind);
                    ask_one(nodes, &node, &question, until)
                });
                (*store, asked)
            })
            .collect();
        let ended = asking.into_iter().map(|(store, asked)| {
            let answer = asked.join().unwrap_or_else(|_| Err("asking it failed".to_owned()));
            (store, answer)
        });
        ended.collect()
    })
}

fn ask_one(nodes: &Nodes, node: &str, question: &SpaceQuestion, until: Instant) -> Answer {
    let body = serde_json::to_string(question).map_err(|why| why.to_string())?;
    let mut pause = LOOKS.0;
    loop {
        let page: SpacePage = nodes.post(node, "/space", &body)?;
        let Some(SpaceStore { count, .. }) = page.stores.into_iter().next() else {
            return Err(format!("node {node} does not serve it"));
        };
        let far = match count {
            SpaceCount::Done { volumes } => return Ok(volumes),
            SpaceCount::Unknown { why } => return Err(why),
            SpaceCount::Busy => "it is busy".to_owned(),
            SpaceCount::Counting { percent } => format!("it counts, and is at {percent} %"),
        };
        if Instant::now() >= until {
            return Err(format!("{far}; ask again later"));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LOOKS.1);
    }
}
