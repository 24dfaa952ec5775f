//! The finalized cluster version: what all programs of the cluster know, and may write.

use super::subsystem::{put, unchanged};
use super::{AdminError, Result, get, nodes, tries};
use crate::agent::STOPPED;
use amita_metadata::{Call, Transact};
use amita_types::NodeId;
use amita_types::map::{self, Cluster, Live, METADATA_VERSION};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the cluster's version is, and what its programs know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// The finalized version.
    pub cluster: u32,
    /// The newest that this program knows.
    pub known: u32,
    /// What each node that runs knows, by its name.
    pub nodes: BTreeMap<String, u32>,
    /// Nodes that do not run.
    pub away: Vec<String>,
}

/// The cluster's version, and what its programs know.
///
/// # Errors
/// There is no cluster yet; the metadata is away.
pub fn versions(meta: &dyn Transact) -> Result<Versions> {
    let cluster = super::cluster(meta)?.version;
    let lives = lives(meta)?;
    let mut versions = Versions {
        cluster,
        known: METADATA_VERSION,
        nodes: BTreeMap::new(),
        away: Vec::new(),
    };
    for node in nodes(meta)? {
        match lives.get(&node.id) {
            Some(&version) => drop(versions.nodes.insert(node.name, version)),
            // A client's record goes by itself.
            None if node.client => {}
            None => versions.away.push(node.name),
        }
    }
    Ok(versions)
}

/// Raises the cluster's version to what this program knows; `Ok(false)`: it is that already. It is never lowered. A program that does
/// not know it does not start any more, because it would write records back without the fields that it does not know (S17).
///
/// # Errors
/// A node runs a program that does not know it; a node does not run, so that nobody can say, and `without_away` is not given; the
/// cluster's is newer than this program; the metadata is away or refuses.
pub fn finalize(meta: &dyn Transact, without_away: bool) -> Result<bool> {
    let bad = |why: String| AdminError::BadSetting {
        what: "version",
        name: METADATA_VERSION.to_string(),
        why,
    };
    for _ in tries(meta) {
        let key = map::cluster_key();
        let Some((cluster, revision)) = get::<Cluster>(meta, &key)? else {
            return Err(AdminError::NoCluster);
        };
        if cluster.version > METADATA_VERSION {
            let why = format!(
                "the cluster's version is {} already; use the newer program",
                cluster.version
            );
            return Err(bad(why));
        }
        if cluster.version == METADATA_VERSION {
            return Ok(false);
        }
        let versions = versions(meta)?;
        let older = versions
            .nodes
            .iter()
            .filter(|(_, version)| **version < METADATA_VERSION);
        let older: Vec<String> = older.map(|(name, version)| format!("{name} ({version})")).collect();
        if !older.is_empty() {
            let why = format!(
                "these nodes run programs that do not know it: {}; upgrade them first",
                older.join(", ")
            );
            return Err(bad(why));
        }
        if !versions.away.is_empty() && !without_away {
            let why = format!(
                "these nodes do not run, and an older program of theirs will not start any more: {}; start them, remove them \
                 (`amita node remove`), or use --force",
                versions.away.join(", ")
            );
            return Err(bad(why));
        }
        let raised = Cluster {
            version: METADATA_VERSION,
            ..cluster
        };
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key, &raised)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(true);
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::cluster_key(),
    })
}

/// What the programs of nodes that run know.
fn lives(meta: &dyn Transact) -> Result<BTreeMap<NodeId, u32>> {
    let prefix = format!("{}live/", map::PREFIX);
    let reply = meta.txn(&Call::prefix(prefix.as_str()))?;
    let mut lives = BTreeMap::new();
    for found in reply.values(0) {
        let node = found.key.strip_prefix(&prefix).and_then(|node| node.parse().ok());
        let live = found.json::<Live>().ok();
        if let (Some(node), false) = (node, live.as_ref().is_some_and(|live| live.pid == STOPPED)) {
            // One whose record cannot be read runs something else.
            lives.insert(node, live.map_or(0, |live| live.version));
        }
    }
    Ok(lives)
}

#[cfg(test)]
mod tests;
