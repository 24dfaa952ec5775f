//! Is a node ready: may the next one be taken down?
//!
//! What an orchestrator asks that updates one node after the other. It is answered by the cluster's own records, and reads no volumes: it is asked every few
//! seconds, at each node.

use super::topology::Topology;
use super::{AdminError, Result, list};
use amita_metadata::Transact;
use amita_types::StoreId;
use amita_types::map::{self, Group, Store};
use serde::Serialize;
use std::collections::BTreeMap;

/// How ready a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Its name.
    pub node: String,
    /// It serves, and each of its stores has every block that it should have.
    pub ready: bool,
    /// It holds its lease, and serves each of its stores.
    pub serving: bool,
    pub stores: Vec<StoreReadiness>,
}

/// How ready a store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreReadiness {
    /// Where its node has it.
    pub path: String,
    /// Null: the cluster knows none there.
    pub store: Option<StoreId>,
    /// Its node serves it.
    pub serves: bool,
    /// Groups that name it a member.
    pub groups: usize,
    /// Of them, those of which it lacks something: it was away, or is new to them.
    pub lacks: usize,
}

/// How ready a node is, by the stores at these paths; by none: by all that are served, or that groups need.
///
/// A store that another one has replaced, and that is not forgotten yet, has a record of that node as well: it is waited for only where it is named.
///
/// # Errors
/// There is no such node; the metadata is away.
pub fn node_ready(meta: &dyn Transact, name: &str, paths: &[String]) -> Result<Readiness> {
    let Topology {
        nodes,
        stores,
        pools,
        lives,
    } = Topology::read(meta)?;
    let Some(node) = nodes.iter().find(|node| node.name == name) else {
        return Err(AdminError::NoSuch {
            what: "node",
            name: name.to_owned(),
            there: nodes.into_iter().map(|node| node.name).collect(),
        });
    };
    // Of how many groups a store is a member, and of how many of them it lacks something.
    let mut counts: BTreeMap<StoreId, (usize, usize)> = BTreeMap::new();
    for pool in &pools {
        for group in list::<Group>(meta, &map::groups_prefix(pool.id))? {
            for member in &group.members {
                let (groups, lacks) = counts.entry(*member).or_default();
                *groups += 1;
                *lacks += usize::from(!group.in_sync.contains(member));
            }
        }
    }
    let readiness = |store: &Store| {
        let (groups, lacks) = counts.get(&store.id).copied().unwrap_or_default();
        StoreReadiness {
            path: store.path.clone(),
            store: Some(store.id),
            serves: lives.serve(store),
            groups,
            lacks,
        }
    };
    let own: Vec<StoreReadiness> = stores
        .iter()
        .filter(|store| store.node == node.id)
        .map(readiness)
        .collect();
    let at = |path: &String| {
        let there = own.iter().filter(|store| store.path == *path);
        let found = there.max_by_key(|store| store.serves).cloned();
        found.unwrap_or_else(|| StoreReadiness {
            path: path.clone(),
            store: None,
            serves: false,
            groups: 0,
            lacks: 0,
        })
    };
    let stores: Vec<StoreReadiness> = match paths {
        [] => own
            .into_iter()
            .filter(|store| store.serves || store.groups > 0)
            .collect(),
        paths => paths.iter().map(at).collect(),
    };
    let serving = lives.alive(node.id) && stores.iter().all(|store| store.serves);
    Ok(Readiness {
        node: name.to_owned(),
        ready: serving && stores.iter().all(|store| store.lacks == 0),
        serving,
        stores,
    })
}
