//! What an operator, or a node that starts, changes in the metadata.
//!
//! Every change is a compare-and-set that says what it was based on, so that two operators at once cannot undo each
//! other; a lost race is read anew and tried again a few times.

mod error;
mod status;

pub use error::AdminError;
pub use status::{GroupCounts, NodeStatus, PoolStatus, Status, StoreStatus, VolumeStatus, status};

use amita_cluster::map::{self, Cluster, Group, Node, Pool, PoolKind, Store, Volume};
use amita_cluster::placement::{self, Candidate, Level};
use amita_cluster::{
    BLOCK_BYTES, ClusterId, Epoch, Generation, GroupIndex, MAX_BLOCKS_PER_CHUNK, NodeId, PoolId, StoreId, VolumeId,
};
use amita_meta::{Call, Compare, KeyValue, MAX_OPS, Op, Transact};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// How often a lost race is tried again.
const RACES: u32 = 16;
/// The longest name of a node, pool or volume: what every protocol's export name and file name can hold.
pub const MAX_NAME_BYTES: usize = 200;
/// The most groups of a pool: one range read of all of them stays within etcd's usual limits.
pub const MAX_GROUPS: u32 = 1 << 16;
/// The largest volume.
pub const MAX_VOLUME_BYTES: u64 = 1 << 56;
/// Bytes of a chunk where nothing else is asked for.
pub const DEFAULT_CHUNK_BYTES: u32 = BLOCK_BYTES * MAX_BLOCKS_PER_CHUNK;

type Result<T> = std::result::Result<T, AdminError>;

/// What a new pool is to be.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// Copies of each block.
    pub copies: u8,
    /// Writes wait while fewer are in sync.
    pub min_copies: u8,
    /// How many groups: a power of two.
    pub groups: u32,
    /// Bytes of a chunk: a power of two.
    pub chunk_bytes: u32,
    /// What may fail as one.
    pub level: Level,
}

/// Is this a name? Letters, digits, `.`, `_` and `-`, not at the start for the last two.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_name(what: &'static str, name: &str) -> Result<()> {
    let bad = |why: String| {
        Err(AdminError::BadName {
            what,
            name: name.to_owned(),
            why,
        })
    };
    if name.is_empty() {
        return bad("it is empty".to_owned());
    }
    if name.len() > MAX_NAME_BYTES {
        return bad(format!("it has {} bytes, more than {MAX_NAME_BYTES}", name.len()));
    }
    if name.starts_with(['-', '.']) {
        return bad("it starts with '-' or '.'".to_owned());
    }
    match name
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
    {
        Some(c) => bad(format!(
            "it contains {c:?}; letters, digits, '.', '_' and '-' are allowed"
        )),
        None => Ok(()),
    }
}

/// The cluster's record.
///
/// # Errors
/// None there yet, or the metadata is away.
pub fn cluster(meta: &dyn Transact) -> Result<Cluster> {
    get(meta, &map::cluster_key())?
        .map(|(record, _)| record)
        .ok_or(AdminError::NoCluster)
}

/// The cluster's record, made with `id` where there is none.
///
/// # Errors
/// The metadata is away or refuses.
pub fn init_cluster(meta: &dyn Transact, id: ClusterId) -> Result<Cluster> {
    let record = Cluster {
        id,
        version: map::METADATA_VERSION,
    };
    let reply = meta.txn(&Call::put_if(map::cluster_key(), 0, json(&record)))?;
    if reply.succeeded {
        return Ok(record);
    }
    let found = reply.value(0).ok_or(AdminError::NoCluster)?;
    parse(found)
}

/// Registers a node under its name, or renews its record: the number stays with the name.
///
/// # Errors
/// A bad name; the metadata is away or refuses.
pub fn register_node(meta: &dyn Transact, name: &str, fabric: &str, nbd: Option<&str>, cores: u32) -> Result<Node> {
    check_name("node", name)?;
    let key = map::node_key(name);
    for _ in 0..RACES {
        let found = get::<Node>(meta, &key)?;
        let (id, revision) = match &found {
            Some((node, revision)) => (node.id, *revision),
            None => (NodeId(number(next_number(meta, "nodes")?, "nodes")?), 0),
        };
        let node = Node {
            id,
            name: name.to_owned(),
            fabric: fabric.to_owned(),
            nbd: nbd.map(str::to_owned),
            cores,
        };
        if found.as_ref().is_some_and(|(old, _)| *old == node) || put_if(meta, &key, revision, &node)? {
            return Ok(node);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// The number of a node, given now if it has none: its addresses are registered once they are known.
///
/// # Errors
/// As [`register_node`].
pub fn node_number(meta: &dyn Transact, name: &str) -> Result<NodeId> {
    check_name("node", name)?;
    match get::<Node>(meta, &map::node_key(name))? {
        Some((node, _)) => Ok(node.id),
        None => Ok(register_node(meta, name, "", None, 0)?.id),
    }
}

/// Registers a store, or renews its record.
///
/// # Errors
/// The metadata is away or refuses.
pub fn register_store(meta: &dyn Transact, store: &Store) -> Result<()> {
    let key = map::store_key(store.id);
    for _ in 0..RACES {
        let found = get::<Store>(meta, &key)?;
        let (old, revision) = found.map_or((None, 0), |(old, revision)| (Some(old), revision));
        // The weight is the operator's once it is set.
        let mut store = store.clone();
        if let Some(old) = &old {
            store.weight = old.weight;
        }
        if old.as_ref() == Some(&store) || put_if(meta, &key, revision, &store)? {
            return Ok(());
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// All nodes by name.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn nodes(meta: &dyn Transact) -> Result<Vec<Node>> {
    list(meta, &map::node_key(""))
}

/// All stores.
///
/// # Errors
/// As [`nodes`].
pub fn stores(meta: &dyn Transact) -> Result<Vec<Store>> {
    list(meta, &format!("{}stores/", map::PREFIX))
}

/// All pools by name.
///
/// # Errors
/// As [`nodes`].
pub fn pools(meta: &dyn Transact) -> Result<Vec<Pool>> {
    list(meta, &map::pool_key(""))
}

/// All volumes by name.
///
/// # Errors
/// As [`nodes`].
pub fn volumes(meta: &dyn Transact) -> Result<Vec<Volume>> {
    list(meta, &map::volume_key(""))
}

/// The groups of a pool in their order.
///
/// # Errors
/// As [`nodes`].
pub fn groups(meta: &dyn Transact, pool: PoolId) -> Result<Vec<Group>> {
    list(meta, &map::groups_prefix(pool))
}

/// Makes a pool: places its groups on the stores that are registered, then makes it known.
///
/// The groups are written first and the pool's record last, so that a pool that can be seen has all of its groups; an
/// attempt that was broken off leaves groups of a number that is never used again.
///
/// # Errors
/// Settings that make no sense, too few stores or nodes, a name that is taken; the metadata is away or refuses.
pub fn create_pool(meta: &dyn Transact, spec: &PoolSpec) -> Result<Pool> {
    check_pool(spec)?;
    let key = map::pool_key(&spec.name);
    if get::<Pool>(meta, &key)?.is_some() {
        return Err(AdminError::Exists {
            what: "pool",
            name: spec.name.clone(),
        });
    }
    let id = PoolId(number(next_number(meta, "pools")?, "pools")?);
    let plan = plan(meta, id, spec)?;
    let records: Vec<(String, Vec<u8>)> = plan
        .into_iter()
        .enumerate()
        .map(|(index, members)| {
            let index = GroupIndex(index as u32);
            let group = Group {
                index,
                epoch: Epoch(1),
                in_sync: members.clone(),
                members,
            };
            (map::group_key(id, index), json(&group))
        })
        .collect();
    for batch in records.chunks(MAX_OPS) {
        let absent = |(key, _): &(String, Vec<u8>)| Compare::ModRevision {
            key: key.clone(),
            equals: 0,
        };
        let put = |(key, value): &(String, Vec<u8>)| Op::Put {
            key: key.clone(),
            value: value.clone(),
            lease: None,
        };
        let call = Call {
            compares: batch.iter().map(absent).collect(),
            then: batch.iter().map(put).collect(),
            otherwise: Vec::new(),
        };
        if !meta.txn(&call)?.succeeded {
            // The number was drawn for this pool alone: the counter was set back, or somebody writes by hand.
            return Err(AdminError::Damaged {
                key: map::groups_prefix(id),
                what: "a new pool has groups already",
            });
        }
    }
    let pool = Pool {
        id,
        name: spec.name.clone(),
        kind: PoolKind::Replicated {
            copies: spec.copies,
            min_copies: spec.min_copies,
        },
        groups: spec.groups,
        chunk_bytes: spec.chunk_bytes,
    };
    if put_if(meta, &key, 0, &pool)? {
        Ok(pool)
    } else {
        Err(AdminError::Exists {
            what: "pool",
            name: spec.name.clone(),
        })
    }
}

fn check_pool(spec: &PoolSpec) -> Result<()> {
    check_name("pool", &spec.name)?;
    let bad = |why: String| {
        Err(AdminError::BadSetting {
            what: "pool",
            name: spec.name.clone(),
            why,
        })
    };
    if spec.copies == 0 || usize::from(spec.copies) > amita_cluster::message::MAX_MEMBERS {
        return bad(format!(
            "{} copies; choose 1 to {}",
            spec.copies,
            amita_cluster::message::MAX_MEMBERS
        ));
    }
    if spec.min_copies == 0 || spec.min_copies > spec.copies {
        return bad(format!(
            "at least {} copies for a write; choose 1 to the number of copies, {}",
            spec.min_copies, spec.copies
        ));
    }
    if !spec.groups.is_power_of_two() || spec.groups > MAX_GROUPS {
        return bad(format!(
            "{} groups; choose a power of two up to {MAX_GROUPS}",
            spec.groups
        ));
    }
    let chunks = spec.chunk_bytes.is_power_of_two()
        && (amita_cluster::MAX_IO_BYTES..=DEFAULT_CHUNK_BYTES).contains(&spec.chunk_bytes);
    if !chunks {
        return bad(format!(
            "chunks of {} bytes; choose a power of two from {} to {DEFAULT_CHUNK_BYTES}",
            spec.chunk_bytes,
            amita_cluster::MAX_IO_BYTES
        ));
    }
    Ok(())
}

/// Places the groups on the stores of nodes that are alive: a member that is not there would hold up every write.
fn plan(meta: &dyn Transact, id: PoolId, spec: &PoolSpec) -> Result<Vec<Vec<StoreId>>> {
    let alive = status::alive(meta)?;
    let (there, away): (Vec<Store>, Vec<Store>) =
        stores(meta)?.into_iter().partition(|store| alive.contains(&store.node));
    let place = |stores: &mut dyn Iterator<Item = &Store>| {
        let candidates: Vec<Candidate> = stores.map(Candidate::from).collect();
        placement::plan_pool(id, spec.groups, &candidates, usize::from(spec.copies), spec.level)
    };
    let why = match place(&mut there.iter()) {
        Ok(plan) => return Ok(plan),
        Err(why) => why,
    };
    if place(&mut there.iter().chain(&away)).is_err() {
        return Err(AdminError::Placement {
            pool: spec.name.clone(),
            why,
        });
    }
    let away: BTreeSet<NodeId> = away.iter().map(|store| store.node).collect();
    let away = nodes(meta)?
        .into_iter()
        .filter(|node| away.contains(&node.id))
        .map(|node| node.name)
        .collect();
    Err(AdminError::NodesAway {
        pool: spec.name.clone(),
        why,
        away,
    })
}

/// Makes a volume. It is thin: no space is taken before it is written.
///
/// # Errors
/// A bad name or size, no such pool, a name that is taken; the metadata is away or refuses.
pub fn create_volume(meta: &dyn Transact, name: &str, pool: &str, size_bytes: u64) -> Result<Volume> {
    check_name("volume", name)?;
    check_size(name, size_bytes)?;
    if get::<Pool>(meta, &map::pool_key(pool))?.is_none() {
        let there = pools(meta)?.into_iter().map(|pool| pool.name).collect();
        return Err(AdminError::NoSuch {
            what: "pool",
            name: pool.to_owned(),
            there,
        });
    }
    let key = map::volume_key(name);
    if get::<Volume>(meta, &key)?.is_some() {
        return Err(AdminError::Exists {
            what: "volume",
            name: name.to_owned(),
        });
    }
    let volume = Volume {
        id: VolumeId(next_number(meta, "volumes")?),
        name: name.to_owned(),
        pool: pool.to_owned(),
        size_bytes,
        generation: Generation(0),
        owner: None,
    };
    if put_if(meta, &key, 0, &volume)? {
        Ok(volume)
    } else {
        Err(AdminError::Exists {
            what: "volume",
            name: name.to_owned(),
        })
    }
}

fn check_size(name: &str, size_bytes: u64) -> Result<()> {
    let bad = |why: String| {
        Err(AdminError::BadSetting {
            what: "volume",
            name: name.to_owned(),
            why,
        })
    };
    let block = u64::from(BLOCK_BYTES);
    if size_bytes == 0 || size_bytes > MAX_VOLUME_BYTES {
        return bad(format!(
            "a size of {size_bytes} bytes; choose {block} to {MAX_VOLUME_BYTES}"
        ));
    }
    if !size_bytes.is_multiple_of(block) {
        let down = size_bytes / block * block;
        return bad(format!(
            "a size of {size_bytes} bytes is no multiple of {block}; the nearest are {down} and {}",
            down + block
        ));
    }
    Ok(())
}

/// A volume by name.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn volume(meta: &dyn Transact, name: &str) -> Result<Volume> {
    find_volume(meta, name).map(|(volume, _)| volume)
}

fn find_volume(meta: &dyn Transact, name: &str) -> Result<(Volume, u64)> {
    match get::<Volume>(meta, &map::volume_key(name))? {
        Some(found) => Ok(found),
        None => {
            let there = volumes(meta)?.into_iter().map(|volume| volume.name).collect();
            Err(AdminError::NoSuch {
                what: "volume",
                name: name.to_owned(),
                there,
            })
        }
    }
}

/// Deletes a volume's record. A gateway that has it open finds out with its next change of membership; its chunks on
/// the stores stay until space reclamation knows of deleted volumes.
///
/// # Errors
/// There is none of that name, or it is owned by a node that lives (and `force` is not given); the metadata is away.
pub fn delete_volume(meta: &dyn Transact, name: &str, force: bool) -> Result<Volume> {
    for _ in 0..RACES {
        let (volume, revision) = find_volume(meta, name)?;
        if let Some(owner) = volume.owner.filter(|_| !force)
            && status::alive(meta)?.contains(&owner)
        {
            return Err(AdminError::InUse {
                name: name.to_owned(),
                owner,
            });
        }
        let key = map::volume_key(name);
        let call = Call {
            compares: vec![Compare::ModRevision {
                key: key.clone(),
                equals: revision,
            }],
            then: vec![Op::Delete { key }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(volume);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::volume_key(name),
    })
}

/// The next number of a counter: never given twice.
fn next_number(meta: &dyn Transact, counter: &str) -> Result<u64> {
    let key = map::counter_key(counter);
    for _ in 0..RACES {
        let found = get::<u64>(meta, &key)?;
        let (last, revision) = found.unwrap_or((0, 0));
        let next = last + 1;
        if put_if(meta, &key, revision, &next)? {
            return Ok(next);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Nodes and pools have numbers of 32 bits.
fn number(next: u64, counter: &str) -> Result<u32> {
    u32::try_from(next).map_err(|_| AdminError::Damaged {
        key: map::counter_key(counter),
        what: "no number is left",
    })
}

pub(crate) fn get<T: DeserializeOwned>(meta: &dyn Transact, key: &str) -> Result<Option<(T, u64)>> {
    let reply = meta.txn(&Call::get(key))?;
    reply
        .value(0)
        .map(|found| Ok((parse(found)?, found.mod_revision)))
        .transpose()
}

pub(crate) fn list<T: DeserializeOwned>(meta: &dyn Transact, prefix: &str) -> Result<Vec<T>> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    reply.values(0).iter().map(parse).collect()
}

fn put_if<T: Serialize>(meta: &dyn Transact, key: &str, revision: u64, record: &T) -> Result<bool> {
    Ok(meta.txn(&Call::put_if(key, revision, json(record)))?.succeeded)
}

fn parse<T: DeserializeOwned>(found: &KeyValue) -> Result<T> {
    Ok(found.json().map_err(amita_meta::Error::from)?)
}

fn json<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("records of the metadata are plain data")
}

/// A store's record as a node registers it.
#[must_use]
pub fn store_record(id: StoreId, node: NodeId, path: &str, size_bytes: u64) -> Store {
    // Weight in MiB: proportional to capacity unless an operator says otherwise.
    let weight = (size_bytes >> 20).clamp(1, u64::from(u32::MAX)) as u32;
    Store {
        id,
        node,
        path: path.to_owned(),
        size_bytes,
        weight,
    }
}

#[cfg(test)]
mod tests;
