//! Pools: their settings, where their groups are placed, and how one goes.

mod delete;

use super::{AdminError, Result, check_name, get, json, list, next_number, nodes, number, put_if, stores};
use crate::candidates::{Standing, candidates};
use amita_metadata::{Call, Compare, MAX_OPS, Op, Transact};
use amita_types::map::{self, Group, Node, Pool, PoolKind, Store};
use amita_types::message::MAX_MEMBERS;
use amita_types::placement::{self, Level};
use amita_types::{BLOCK_BYTES, Epoch, GroupIndex, MAX_BLOCKS_PER_CHUNK, MAX_IO_BYTES, NodeId, PoolId, StoreId};
use std::collections::{BTreeMap, BTreeSet};

pub use amita_types::map::MAX_GROUPS;
pub use delete::delete_pool;

/// The most pools of a cluster; a few more where several are made at once.
pub const MAX_POOLS: usize = 256;

/// Bytes of a chunk where nothing else is asked for.
pub const DEFAULT_CHUNK_BYTES: u32 = BLOCK_BYTES * MAX_BLOCKS_PER_CHUNK;

/// What a new pool is to be.
#[derive(Clone, Debug)]
pub struct PoolSpec {
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
    /// Only stores of this class; `None`: any.
    pub class: Option<String>,
}

/// All pools by name.
///
/// # Errors
/// As [`nodes`].
pub fn pools(meta: &dyn Transact) -> Result<Vec<Pool>> {
    list(meta, &map::pool_key(""))
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
    if pools(meta)?.len() >= MAX_POOLS {
        return Err(AdminError::Full {
            what: "cluster",
            name: super::cluster(meta)?.id.to_string(),
            of: "pools",
            most: MAX_POOLS,
        });
    }
    let id = PoolId(number(next_number(meta, "pools")?, "pools")?);
    let pool = pool_of(id, spec);
    let plan = plan(meta, &pool, spec)?;
    let records: Vec<(String, Vec<u8>)> = plan
        .into_iter()
        .enumerate()
        .map(|(index, members)| {
            let index = GroupIndex(index as u32);
            let group = Group {
                syncing: Vec::new(),
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
    if put_if(meta, &key, 0, &pool)? {
        Ok(pool)
    } else {
        Err(AdminError::Exists {
            what: "pool",
            name: spec.name.clone(),
        })
    }
}

/// Can a pool have so many copies, and need so many?
pub(super) fn check_copies(name: &str, copies: u8, min_copies: u8) -> Result<()> {
    let bad = |why: String| {
        Err(AdminError::BadSetting {
            what: "pool",
            name: name.to_owned(),
            why,
        })
    };
    if copies == 0 || usize::from(copies) > MAX_MEMBERS {
        return bad(format!("{copies} copies; choose 1 to {MAX_MEMBERS}"));
    }
    if min_copies == 0 || min_copies > copies {
        return bad(format!(
            "at least {min_copies} copies for a write; choose 1 to the number of copies, {copies}"
        ));
    }
    Ok(())
}

fn pool_of(id: PoolId, spec: &PoolSpec) -> Pool {
    Pool {
        id,
        name: spec.name.clone(),
        kind: PoolKind::Replicated {
            copies: spec.copies,
            min_copies: spec.min_copies,
        },
        groups: spec.groups,
        chunk_bytes: spec.chunk_bytes,
        failure_domain: spec.level,
        class: spec.class.clone(),
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
    check_copies(&spec.name, spec.copies, spec.min_copies)?;
    if !spec.groups.is_power_of_two() || spec.groups > MAX_GROUPS {
        return bad(format!(
            "{} groups; choose a power of two up to {MAX_GROUPS}",
            spec.groups
        ));
    }
    let chunks = spec.chunk_bytes.is_power_of_two() && (MAX_IO_BYTES..=DEFAULT_CHUNK_BYTES).contains(&spec.chunk_bytes);
    if !chunks {
        return bad(format!(
            "chunks of {} bytes; choose a power of two from {} to {DEFAULT_CHUNK_BYTES}",
            spec.chunk_bytes, MAX_IO_BYTES
        ));
    }
    Ok(())
}

/// Is there a store of the class that is wanted, if one is?
fn known_class(meta: &dyn Transact, pool: &Pool) -> Result<()> {
    let Some(wanted) = &pool.class else {
        return Ok(());
    };
    let classes: BTreeSet<String> = stores(meta)?.into_iter().map(|store| store.class).collect();
    if classes.contains(wanted) {
        return Ok(());
    }
    let named: Vec<String> = classes.into_iter().filter(|class| !class.is_empty()).collect();
    let there = match named.as_slice() {
        [] => "no store has any: `amita disk class` sets it".to_owned(),
        some => format!("there are {}", some.join(", ")),
    };
    Err(AdminError::BadSetting {
        what: "pool",
        name: pool.name.clone(),
        why: format!("no store is of class {wanted}; {there}"),
    })
}

/// Places the groups on stores that serve: a member that is not there would hold up every write.
fn plan(meta: &dyn Transact, pool: &Pool, spec: &PoolSpec) -> Result<Vec<Vec<StoreId>>> {
    known_class(meta, pool)?;
    let lives = super::status::lives(meta)?;
    let (there, away): (Vec<Store>, Vec<Store>) = stores(meta)?.into_iter().partition(|store| lives.serve(store));
    let hosts = nodes(meta)?;
    let by_id: BTreeMap<NodeId, &Node> = hosts.iter().map(|node| (node.id, node)).collect();
    let place = |stores: &mut dyn Iterator<Item = &Store>| {
        let candidates = candidates(pool, stores, &by_id, |_| Standing::Serving);
        placement::plan_pool(pool.id, spec.groups, &candidates, usize::from(spec.copies), spec.level)
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
    let away = hosts
        .iter()
        .filter(|node| away.contains(&node.id))
        .map(|node| node.name.clone())
        .collect();
    Err(AdminError::NodesAway {
        pool: spec.name.clone(),
        why,
        away,
    })
}
