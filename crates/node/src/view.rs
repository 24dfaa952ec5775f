//! What a core knows of the cluster: nodes, stores and volumes, as last seen in the metadata.
//!
//! A hint for routing and listing. Ownership and membership are never decided from it.

use crate::control::Record;
use amita_cluster::map::{self, PREFIX};
use amita_cluster::{NodeId, StoreId};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};

/// The cluster as last seen.
#[derive(Default)]
pub struct View {
    nodes: BTreeMap<NodeId, map::Node>,
    names: BTreeMap<String, NodeId>,
    stores: FxHashMap<StoreId, NodeId>,
    volumes: BTreeMap<String, map::Volume>,
}

/// What a record changed that somebody must be told of.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing of interest to a core.
    Nothing,
    /// A node came, moved or went: dial it at this address, or no longer.
    Node(NodeId, Option<SocketAddr>),
    /// A store is served by this node.
    Store(StoreId, NodeId),
    /// A group changed: a hint for the sequencers.
    Group(map::Group, amita_cluster::PoolId),
    /// A volume's record changed: a hint for its sequencers.
    Volume(amita_cluster::VolumeId, amita_cluster::Generation),
    /// The record is not readable; it was ignored.
    Unreadable(String),
}

impl View {
    /// Takes a record in.
    pub fn apply(&mut self, record: &Record) -> Change {
        let Some(path) = record.key.strip_prefix(PREFIX) else {
            return Change::Nothing;
        };
        let Some((kind, rest)) = path.split_once('/') else {
            return Change::Nothing;
        };
        match kind {
            "nodes" => self.node(rest, record),
            "stores" => self.store(rest, record),
            "volumes" => self.volume(rest, record),
            "groups" => Self::group(rest, record),
            _ => Change::Nothing,
        }
    }

    fn node(&mut self, name: &str, record: &Record) -> Change {
        let Some(value) = &record.value else {
            let Some(id) = self.names.remove(name) else {
                return Change::Nothing;
            };
            self.nodes.remove(&id);
            return Change::Node(id, None);
        };
        match parse::<map::Node>(&record.key, value) {
            Ok(node) => {
                let id = node.id;
                let address = resolve(&node.fabric);
                self.names.insert(name.to_owned(), id);
                self.nodes.insert(id, node);
                Change::Node(id, address)
            }
            Err(why) => Change::Unreadable(why),
        }
    }

    fn store(&mut self, id: &str, record: &Record) -> Change {
        let Some(value) = &record.value else {
            if let Ok(id) = id.parse() {
                self.stores.remove(&id);
            }
            return Change::Nothing;
        };
        match parse::<map::Store>(&record.key, value) {
            Ok(store) => {
                self.stores.insert(store.id, store.node);
                Change::Store(store.id, store.node)
            }
            Err(why) => Change::Unreadable(why),
        }
    }

    fn volume(&mut self, name: &str, record: &Record) -> Change {
        let Some(value) = &record.value else {
            self.volumes.remove(name);
            return Change::Nothing;
        };
        match parse::<map::Volume>(&record.key, value) {
            Ok(volume) => {
                let change = Change::Volume(volume.id, volume.generation);
                self.volumes.insert(name.to_owned(), volume);
                change
            }
            Err(why) => Change::Unreadable(why),
        }
    }

    fn group(rest: &str, record: &Record) -> Change {
        let (Some(value), Some((pool, _))) = (&record.value, rest.split_once('/')) else {
            return Change::Nothing;
        };
        match (parse::<map::Group>(&record.key, value), pool.parse()) {
            (Ok(group), Ok(pool)) => Change::Group(group, pool),
            (Err(why), _) => Change::Unreadable(why),
            (_, Err(_)) => Change::Unreadable(format!("{}: no pool number in the key", record.key)),
        }
    }

    /// The node that serves a store.
    #[must_use]
    pub fn node_of(&self, store: StoreId) -> Option<NodeId> {
        self.stores.get(&store).copied()
    }

    /// The stores that a node serves.
    pub fn stores_of(&self, node: NodeId) -> impl Iterator<Item = StoreId> {
        self.stores.iter().filter(move |(_, n)| **n == node).map(|(s, _)| *s)
    }

    /// A node's record.
    #[must_use]
    pub fn node_record(&self, node: NodeId) -> Option<&map::Node> {
        self.nodes.get(&node)
    }

    /// The volumes by name.
    pub fn volumes(&self) -> impl Iterator<Item = &map::Volume> {
        self.volumes.values()
    }
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|e| format!("{key}: not a record that this build can read: {e}"))
}

/// An address may be a name; the control thread has resolved it before (this is a look-up in the hosts file at most).
fn resolve(address: &str) -> Option<SocketAddr> {
    address.parse().ok().or_else(|| address.to_socket_addrs().ok()?.next())
}
