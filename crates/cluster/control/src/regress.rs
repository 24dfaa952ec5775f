//! Is the metadata older than what a store knows? It may have been restored from a backup.
//!
//! A fence reaches a store only after its epoch and its generation were written to the metadata, so metadata that is read
//! *after* a store was asked can never be behind it. Where it is, somebody has put an older copy in its place: what it
//! says of who is in sync may be wrong, and nothing may be served by it. The stores know better
//! ([`crate::recover`]).

use crate::records::Records;
use crate::recover::Source;
use amita_types::map::{self, Group, Pool, Volume};
use amita_types::{GroupId, PoolId, StoreId, VolumeId};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// What comparing metadata with a store came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The metadata knows all that the store knows.
    Fine,
    /// The store was not there when the metadata was rebuilt: what it knows is of an earlier life, and does not count.
    EarlierLife {
        /// The store's.
        life: u64,
    },
    /// The metadata is older. What shows it, for a person; at most [`MAX_FINDINGS`] of them.
    Older(Vec<String>),
}

/// The most findings that are said.
pub const MAX_FINDINGS: usize = 8;

/// Compares. `now` was read after the store was asked.
#[must_use]
pub fn compare(now: &Records, source: &Source) -> Verdict {
    let life = now.said_life();
    let mut found = Vec::new();
    if let Some(copy) = &source.copy {
        if copy.life < life {
            return Verdict::EarlierLife { life: copy.life };
        }
        if copy.life > life {
            found.push(format!(
                "the store's copy of the metadata was made after it had been rebuilt {} times; this one was rebuilt {life} times",
                copy.life
            ));
        } else if copy.revision > now.revision {
            found.push(format!(
                "the store has a copy of the metadata of revision {}; it is at revision {} now",
                copy.revision, now.revision
            ));
        }
    }
    let groups = groups(now);
    let given = |counter: &str| read::<u64>(now, &map::counter_key(counter)).unwrap_or(0);
    let pools: Vec<PoolId> = all::<Pool>(now, "pools/").into_iter().map(|pool| pool.id).collect();
    let pools_given = given("pools");
    for known in &source.groups {
        let id = known.id();
        let more = match groups.get(&id) {
            Some(group) if known.epoch > group.epoch => {
                format!(
                    "group {id}: the store knows epoch {}, the metadata says {}",
                    known.epoch, group.epoch
                )
            }
            Some(group) if known.epoch == group.epoch && !same(&known.in_sync, &group.in_sync) => format!(
                "group {id}: the store knows epoch {} with other in-sync stores than the metadata says",
                known.epoch
            ),
            None if !pools.contains(&id.pool) && u64::from(id.pool.0) > pools_given => {
                format!("group {id}: the metadata has never known a pool of that number")
            }
            _ => continue,
        };
        found.push(more);
    }
    let volumes: BTreeMap<VolumeId, Volume> = all::<Volume>(now, "volumes/")
        .into_iter()
        .map(|volume| (volume.id, volume))
        .collect();
    let volumes_given = given("volumes");
    for volume in volumes.values().filter(|volume| source.knows_deleted(volume.id)) {
        found.push(format!("volume {}: the store knows that it was deleted", volume.name));
    }
    let last_deleted = source.deleted.iter().map(|(_, last)| last.0).max();
    if let Some(last) = last_deleted.filter(|last| *last > volumes_given) {
        found.push(format!(
            "the store knows that volume {last} was deleted, and the metadata has never known a volume of that number"
        ));
    }
    for known in &source.volumes {
        let more = match volumes.get(&known.volume) {
            Some(volume) if known.generation > volume.generation => format!(
                "volume {}: the store knows generation {}, the metadata says {}",
                volume.name, known.generation, volume.generation
            ),
            None if known.volume.0 > volumes_given => {
                format!(
                    "volume {}: the metadata has never known a volume of that number",
                    known.volume
                )
            }
            _ => continue,
        };
        found.push(more);
    }
    if found.is_empty() {
        return Verdict::Fine;
    }
    let more = found.len().saturating_sub(MAX_FINDINGS);
    found.truncate(MAX_FINDINGS);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    Verdict::Older(found)
}

/// What an operator is told.
#[must_use]
pub fn advice(store: StoreId, path: &str, findings: &[String]) -> String {
    format!(
        "the metadata is older than what store {store} ({path}) knows: {}. Was it restored from an older copy? No volume is \
         opened. Put the newer metadata back, or stop all nodes and run `amita recover --from-stores` with --replace",
        findings.join("; ")
    )
}

pub(crate) fn same(a: &[StoreId], b: &[StoreId]) -> bool {
    let sorted = |list: &[StoreId]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    sorted(a) == sorted(b)
}

pub(crate) fn read<T: DeserializeOwned>(records: &Records, key: &str) -> Option<T> {
    let value = records.values.get(key)?;
    serde_json::from_slice(value).ok()
}

/// All records of a kind that can be read.
pub(crate) fn all<T: DeserializeOwned>(records: &Records, kind: &str) -> Vec<T> {
    let prefix = format!("{}{kind}", map::PREFIX);
    let found = records.values.range(prefix.clone()..);
    found
        .take_while(|(key, _)| key.starts_with(&prefix))
        .filter_map(|(_, value)| serde_json::from_slice(value).ok())
        .collect()
}

pub(crate) fn groups(records: &Records) -> BTreeMap<GroupId, Group> {
    let mut groups = BTreeMap::new();
    for pool in all::<Pool>(records, "pools/").into_iter().map(|pool| pool.id) {
        let prefix = map::groups_prefix(pool);
        let kind = prefix.strip_prefix(map::PREFIX).unwrap_or_default();
        for group in all::<Group>(records, kind) {
            let index = group.index;
            groups.insert(GroupId { pool, index }, group);
        }
    }
    groups
}
