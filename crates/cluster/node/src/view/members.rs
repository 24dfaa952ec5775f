//! Which nodes there are, and which stores they serve.

use super::{Change, View, number, parse};
use crate::control::Record;
use amita_fabric::Addresses;
use amita_types::{NodeId, StoreId, map};
use std::collections::BTreeSet;

impl View {
    pub(super) fn node(&mut self, name: &str, record: &Record) -> Change {
        let key = &record.key;
        let Some(value) = &record.value else {
            let gone = self.nodes.remove(key);
            return self.nodes_changed(gone, None);
        };
        match parse::<map::Node>(key, value) {
            Ok(node) if node.name != name => Change::Unreadable(format!("{key}: it is of node {:?}", node.name)),
            Ok(node) => {
                let before = self.nodes.of(key).map(|node| node.id);
                let id = node.id;
                let put = self.nodes.put(key, record.created, id, node);
                let refused = put.err().map(|why| format!("{key} is left alone: {why}"));
                self.nodes_changed(before.into_iter().chain([id]), refused)
            }
            Err(why) => Change::Unreadable(why),
        }
    }

    fn nodes_changed(&self, nodes: impl IntoIterator<Item = NodeId>, refused: Option<String>) -> Change {
        let nodes: BTreeSet<NodeId> = nodes.into_iter().collect();
        // Nodes record addresses, and a look-up of a name would have this core stand still.
        let addresses = |node: NodeId| {
            let record = self.nodes.get(node)?;
            let second = record.fabric2.as_ref().and_then(|address| address.parse().ok());
            let first = record.fabric.parse().ok()?;
            Some(Addresses { first, second })
        };
        let now = nodes.into_iter().map(|node| (node, addresses(node))).collect();
        Change::Nodes { now, refused }
    }

    pub(super) fn store(&mut self, id: &str, record: &Record) -> Change {
        let Some(value) = &record.value else {
            if let Some(id) = number(id, record, map::store_key) {
                let was = self.stores.remove(&id);
                self.take_from(was, id);
            }
            return Change::Nothing;
        };
        match parse::<map::Store>(&record.key, value) {
            Ok(store) if record.key != map::store_key(store.id) => {
                Change::Unreadable(format!("{}: it is of store {}", record.key, store.id))
            }
            Ok(store) => {
                let before = self.stores.insert(store.id, store.node);
                let moved = before != Some(store.node);
                self.take_from(before.filter(|before| *before != store.node), store.id);
                self.stores_by_node.entry(store.node).or_default().insert(store.id);
                Change::Store {
                    store: store.id,
                    node: store.node,
                    moved,
                }
            }
            Err(why) => Change::Unreadable(why),
        }
    }

    /// A store is not that node's any more.
    fn take_from(&mut self, node: Option<NodeId>, store: StoreId) {
        if let Some(node) = node
            && let Some(stores) = self.stores_by_node.get_mut(&node)
        {
            stores.remove(&store);
            if stores.is_empty() {
                self.stores_by_node.remove(&node);
            }
        }
    }
}
