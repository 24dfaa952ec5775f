//! All facts of a cluster that an inspection judges, as the metadata has them.

use crate::inventory::{Inventory, Known, of_key};
use amita_control::admin::{self, AdminError, Status, Versions};
use amita_control::records::inventory_prefix;
use amita_metadata::{Call, Transact};
use amita_types::NodeId;
use amita_types::condition::Thresholds;
use amita_types::map::{self, IscsiTarget, Subsystem};
use amita_types::recovery::Recovery;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// A node's facts that are older than this many seconds are those of another time: nodes write them once an hour.
pub const STALE_S: u64 = 3 * 3600;

/// What is judged.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When they were gathered, in seconds since 1970.
    pub at: u64,
    /// What the records say.
    pub status: Status,
    /// What programs know.
    pub versions: Versions,
    /// How hard recovery may work.
    pub recovery: Recovery,
    /// What counts as full.
    pub thresholds: Thresholds,
    /// What hosts connect to.
    pub subsystems: Vec<Subsystem>,
    /// What initiators log in to.
    pub targets: Vec<IscsiTarget>,
    /// What nodes tell of their machines, by the nodes' numbers.
    pub inventories: BTreeMap<NodeId, Known<Inventory>>,
}

impl Facts {
    /// What a node tells of its machine, if it lives and has told it lately.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn inventory(&self, node: NodeId) -> Result<&Inventory, String> {
        let found = self.status.nodes.iter().find(|found| found.node.id == node);
        if found.is_none_or(|found| !found.alive) {
            return Err("the node does not live".to_owned());
        }
        let told = self.inventories.get(&node);
        let told = told.ok_or("the node has not told about its machine yet, or its program is older than that")?;
        let inventory = told.get()?;
        match self.at.saturating_sub(inventory.taken_at) {
            age if age > STALE_S => Err(format!("what the node tells is {} h old", age / 3600)),
            _ => Ok(inventory),
        }
    }
}

/// Reads them; `at`: the time now, in seconds since 1970. It changes nothing.
///
/// # Errors
/// There is no cluster yet; the metadata is away.
pub fn gather(meta: &dyn Transact, at: u64) -> Result<Facts, AdminError> {
    let status = admin::status(meta)?;
    let inventories = meta.txn(&Call::prefix(inventory_prefix()))?;
    let inventories = inventories.values(0).iter().filter_map(|record| {
        let (node, what) = of_key(&record.key)?;
        (what == "facts").then(|| (node, Inventory::decode(&record.value).into()))
    });
    Ok(Facts {
        at,
        versions: admin::versions(meta)?,
        recovery: admin::recovery(meta)?,
        thresholds: admin::thresholds(meta)?,
        subsystems: all(meta, &map::subsystems_prefix())?,
        targets: all(meta, &map::iscsi_targets_prefix())?,
        inventories: inventories.collect(),
        status,
    })
}

/// Records that cannot be read are a fact of the status.
fn all<T: DeserializeOwned>(meta: &dyn Transact, prefix: &str) -> Result<Vec<T>, AdminError> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    Ok(reply.values(0).iter().filter_map(|record| record.json().ok()).collect())
}
