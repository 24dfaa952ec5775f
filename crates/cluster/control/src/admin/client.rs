//! The records of clients: nodes without stores that come and go.
//!
//! A client takes a number, then its lease, and only then writes its record: so a client's record without a lease is
//! that of a process which has ended, or was cut off for longer than its lease. Whoever comes next takes it out. The
//! numbers are not given again: there are four thousand million.

use super::{AdminError, Result, check_name, get, json, next_number, nodes, number};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::NodeId;
use amita_types::map::{self, Node};

/// Records of dead clients that one client takes out when it comes.
const MOST_FORGOTTEN: usize = 32;

/// A number for a client of that name, which no other node may have.
///
/// # Errors
/// A bad name, or one that is taken; the metadata is away or refuses.
pub fn client_number(meta: &dyn Transact, name: &str) -> Result<NodeId> {
    check_name("node", name)?;
    if get::<Node>(meta, &map::node_key(name))?.is_some() {
        return Err(taken(name));
    }
    Ok(NodeId(number(next_number(meta, "nodes")?, "nodes")?))
}

/// Writes the record of a client, whose lease is held.
///
/// # Errors
/// The name was taken meanwhile; the metadata is away or refuses.
pub fn register_client(
    meta: &dyn Transact,
    name: &str,
    id: NodeId,
    fabric: &str,
    metrics: Option<&str>,
    unprotected: bool,
) -> Result<Node> {
    let node = Node {
        id,
        name: name.to_owned(),
        fabric: fabric.to_owned(),
        // A process that comes and goes is called by few, and calls others by both of theirs.
        fabric2: None,
        nbd: None,
        nbd_socket: None,
        nvme: None,
        metrics: metrics.map(str::to_owned),
        api: None,
        cores: 1,
        site: String::new(),
        rack: String::new(),
        maintenance: false,
        client: true,
        gateway: false,
        unprotected,
    };
    let reply = meta.txn(&Call::put_if(map::node_key(name), 0, json(&node)))?;
    if reply.succeeded {
        return Ok(node);
    }
    match get::<Node>(meta, &map::node_key(name))? {
        Some((found, _)) if found == node => Ok(node),
        _ => Err(taken(name)),
    }
}

fn taken(name: &str) -> AdminError {
    AdminError::Exists {
        what: "node",
        name: name.to_owned(),
    }
}

/// Takes a client's record out, unless the name is another's by now.
///
/// # Errors
/// The metadata is away or refuses.
pub fn forget_client(meta: &dyn Transact, client: &Node) -> Result<()> {
    let key = map::node_key(&client.name);
    match get::<Node>(meta, &key)? {
        Some((found, revision)) if found.client && found.id == client.id => {
            meta.txn(&delete_if(key, revision, None))?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Takes the records of clients out that hold no lease any more, a few at a time. Returns how many.
///
/// # Errors
/// The metadata is away or refuses.
pub fn forget_dead_clients(meta: &dyn Transact) -> Result<usize> {
    let clients: Vec<Node> = nodes(meta)?.into_iter().filter(|node| node.client).collect();
    if clients.is_empty() {
        return Ok(0);
    }
    let lives = super::status::lives(meta)?;
    let mut forgotten = 0;
    for client in clients
        .iter()
        .filter(|client| !lives.alive(client.id))
        .take(MOST_FORGOTTEN)
    {
        let key = map::node_key(&client.name);
        let Some((found, revision)) = get::<Node>(meta, &key)? else {
            continue;
        };
        if found.id == client.id && meta.txn(&delete_if(key, revision, Some(client.id)))?.succeeded {
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

/// Deletes a record as it was seen; `dead`: and only while that node holds no lease.
fn delete_if(key: String, revision: u64, dead: Option<NodeId>) -> Call {
    let mut compares = vec![Compare::ModRevision {
        key: key.clone(),
        equals: revision,
    }];
    compares.extend(dead.map(|node| Compare::ModRevision {
        key: map::live_key(node),
        equals: 0,
    }));
    Call {
        compares,
        then: vec![Op::Delete { key }],
        otherwise: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
