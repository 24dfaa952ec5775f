//! What the metadata says of a pool and its groups, looked at before anything is built on it.

use super::OpenError;
use crate::config::MAX_GROUPS;
use amita_metadata::KeyValue;
use amita_types::map::{self, PoolKind};
use amita_types::message::MAX_MEMBERS;
use amita_types::{BLOCK_BYTES, MAX_BLOCKS_PER_CHUNK};

/// A pool that this version can serve, or what is wrong with it.
pub(super) fn pool(pool: &map::Pool) -> Result<(), String> {
    if !pool.groups.is_power_of_two() || pool.groups > MAX_GROUPS {
        return Err(format!(
            "{} groups; a power of two up to {MAX_GROUPS} is needed",
            pool.groups
        ));
    }
    let most = MAX_BLOCKS_PER_CHUNK * BLOCK_BYTES;
    if !pool.chunk_bytes.is_power_of_two() || !(BLOCK_BYTES..=most).contains(&pool.chunk_bytes) {
        return Err(format!(
            "chunks of {} bytes; a power of two from {BLOCK_BYTES} to {most} is needed",
            pool.chunk_bytes
        ));
    }
    match pool.kind {
        PoolKind::Replicated { copies, min_copies } if min_copies == 0 || min_copies > copies => Err(format!(
            "at least {min_copies} of {copies} copies; one is the least, all of them the most"
        )),
        PoolKind::Replicated { .. } => Ok(()),
        other => Err(format!("pools of kind {other:?} are not known to this version")),
    }
}

/// The records of all groups of the pool, each with its revision.
pub(super) fn groups(pool: &map::Pool, values: &[KeyValue]) -> Result<Vec<(map::Group, u64)>, OpenError> {
    let mut groups = Vec::with_capacity(values.len());
    for value in values {
        let bad = |why: String| OpenError::BadRecord {
            key: value.key.clone(),
            why,
        };
        let group: map::Group = value.json().map_err(|error| bad(error.to_string()))?;
        if group.index.0 as usize != groups.len() {
            return Err(bad(format!("group {} was expected here", groups.len())));
        }
        if group.in_sync.is_empty() || group.in_sync.len() > MAX_MEMBERS {
            return Err(bad(format!(
                "{} stores in sync; 1 to {MAX_MEMBERS} are possible",
                group.in_sync.len()
            )));
        }
        let twice = (1..group.in_sync.len()).any(|at| group.in_sync[..at].contains(&group.in_sync[at]));
        if twice {
            return Err(bad("a store is listed twice".to_owned()));
        }
        groups.push((group, value.mod_revision));
    }
    if groups.len() != pool.groups as usize {
        return Err(OpenError::BadRecord {
            key: map::groups_prefix(pool.id),
            why: format!(
                "{} groups are there, and pool {:?} has {}",
                groups.len(),
                pool.name,
                pool.groups
            ),
        });
    }
    Ok(groups)
}
