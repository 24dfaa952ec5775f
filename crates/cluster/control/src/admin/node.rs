//! Nodes: their numbers, and how one is forgotten.

use super::subsystem::unchanged;
use super::{
    AdminError, Result, Served, check_name, get, list, next_number, nodes, number, pools, put_if, stores, tries,
};
use crate::agent::STOPPED;
use crate::records::inventory_prefix;
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::condition::condition_prefix;
use amita_types::link::links_prefix;
use amita_types::map::{self, Group, Live, Node, Store};
use amita_types::recovery::{health_prefix, progress_prefix};
use amita_types::{NodeId, StoreId};

/// Records that one transaction deletes.
const AT_ONCE: usize = 60;

/// The number of a node; a fresh one if there is no node of that name. Nothing is registered: a start that fails leaves no
/// node behind.
///
/// # Errors
/// A bad name; the metadata is away or refuses.
pub fn reserve_node(meta: &dyn Transact, name: &str) -> Result<NodeId> {
    check_name("node", name)?;
    match get::<Node>(meta, &map::node_key(name))? {
        Some((node, _)) => Ok(node.id),
        None => Ok(NodeId(number(next_number(meta, "nodes")?, "nodes")?)),
    }
}

/// Registers a node under its name and the number that it has, or renews its record.
///
/// # Errors
/// The name has another number: somebody else has registered it a moment ago. The metadata is away or refuses.
pub fn register_as(meta: &dyn Transact, name: &str, id: NodeId, served: &Served<'_>) -> Result<Node> {
    check_name("node", name)?;
    let key = map::node_key(name);
    for _ in tries(meta) {
        let found = get::<Node>(meta, &key)?;
        let revision = found.as_ref().map_or(0, |(_, revision)| *revision);
        let old = found.as_ref().map(|(node, _)| node);
        if old.is_some_and(|old| old.id != id) {
            return Err(AdminError::NodeTaken { name: name.to_owned() });
        }
        // Where it stands, and whether it is in maintenance, is the operator's.
        let node = Node {
            site: old.map(|node| node.site.clone()).unwrap_or_default(),
            rack: old.map(|node| node.rack.clone()).unwrap_or_default(),
            maintenance: old.is_some_and(|node| node.maintenance),
            client: false,
            id,
            name: name.to_owned(),
            fabric: served.fabric.to_owned(),
            fabric2: served.fabric2.map(str::to_owned),
            nbd: served.nbd.map(str::to_owned),
            nbd_socket: served.nbd_socket.map(str::to_owned),
            nvme: served.nvme.map(str::to_owned),
            metrics: served.metrics.map(str::to_owned),
            api: served.api.map(str::to_owned),
            cores: served.cores,
            gateway: served.gateway,
            unprotected: served.unprotected,
        };
        if old == Some(&node) || put_if(meta, &key, revision, &node)? {
            return Ok(node);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Takes a node out of the metadata, with the records of its stores: it is not coming back.
///
/// # Errors
/// It lives, or groups still name its stores; there is none of that name; the metadata is away or refuses.
pub fn remove_node(meta: &dyn Transact, name: &str) -> Result<Node> {
    let key = map::node_key(name);
    for _ in tries(meta) {
        let Some((node, revision)) = get::<Node>(meta, &key)? else {
            let there = nodes(meta)?.into_iter().map(|node| node.name).collect();
            return Err(AdminError::NoSuch {
                what: "node",
                name: name.to_owned(),
                there,
            });
        };
        let live_key = map::live_key(node.id);
        let live = get::<Live>(meta, &live_key)?;
        if live.as_ref().is_some_and(|(live, _)| live.pid != STOPPED) {
            return Err(AdminError::NodeLives { name: name.to_owned() });
        }
        let own: Vec<StoreId> = stores(meta)?
            .into_iter()
            .filter(|store| store.node == node.id)
            .map(|store| store.id)
            .collect();
        let needed = needed(meta, &own)?;
        if !needed.is_empty() {
            return Err(AdminError::NodeNeeded {
                name: name.to_owned(),
                stores: needed,
            });
        }
        let guard = [
            unchanged(&key, revision),
            unchanged(&live_key, live.map_or(0, |(_, revision)| revision)),
        ];
        if !forget_stores(meta, node.id, &own, &guard)? {
            continue;
        }
        let said = [
            condition_prefix(),
            health_prefix(),
            progress_prefix(),
            links_prefix(),
            inventory_prefix(),
        ];
        let mut gone = vec![map::suspect_key(node.id), map::iscsi_gateway_key(name)];
        for prefix in said {
            let reply = meta.txn(&Call::prefix(format!("{prefix}{}/", node.id)))?;
            gone.extend(reply.values(0).iter().map(|found| found.key.clone()));
        }
        // Its own record goes last: until then the same command does the rest.
        gone.push(key.clone());
        let mut done = true;
        for batch in gone.chunks(AT_ONCE) {
            done = done && delete(meta, guard.to_vec(), batch.to_vec())?;
        }
        if done {
            return Ok(node);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Forgets the stores of a node that is not there; `false`: something has changed meanwhile.
fn forget_stores(meta: &dyn Transact, node: NodeId, own: &[StoreId], guard: &[Compare]) -> Result<bool> {
    for batch in own.chunks(AT_ONCE / 2) {
        let mut compares = guard.to_vec();
        let mut gone = Vec::new();
        for &store in batch {
            let key = map::store_key(store);
            // One that has gone to another node meanwhile is not ours to forget.
            let found = get::<Store>(meta, &key)?.filter(|(record, _)| record.node == node);
            let Some((_, revision)) = found else { continue };
            compares.push(unchanged(&key, revision));
            gone.extend([key, map::mount_key(store)]);
        }
        if !gone.is_empty() && !delete(meta, compares, gone)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn delete(meta: &dyn Transact, compares: Vec<Compare>, keys: Vec<String>) -> Result<bool> {
    let call = Call {
        compares,
        then: keys.into_iter().map(|key| Op::Delete { key }).collect(),
        otherwise: Vec::new(),
    };
    Ok(meta.txn(&call)?.succeeded)
}

/// Which of these stores do groups name, and how many do?
fn needed(meta: &dyn Transact, own: &[StoreId]) -> Result<Vec<(StoreId, usize)>> {
    let mut counts: Vec<(StoreId, usize)> = own.iter().map(|store| (*store, 0)).collect();
    for pool in pools(meta)? {
        for group in list::<Group>(meta, &map::groups_prefix(pool.id))? {
            for (store, count) in &mut counts {
                let syncing = group.syncing.iter().any(|member| member.store == *store);
                let named = syncing || group.members.contains(store) || group.in_sync.contains(store);
                *count += usize::from(named);
            }
        }
    }
    counts.retain(|(_, count)| *count > 0);
    Ok(counts)
}
