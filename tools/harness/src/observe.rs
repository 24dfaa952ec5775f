//! A look into the metadata of a running cluster: who holds what, and who decides.

use crate::cluster::Cluster;
use amita_control::admin;
use amita_control::coordinator::election_key;
use amita_metadata::{Call, Client, KeyValue};
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_types::NodeId;
use amita_types::map::{self, Group, Pool, PoolKind, Store};
use std::time::Duration;

/// Reads records. It outlives restarts of the metadata.
pub struct Observer {
    client: Client,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

impl Observer {
    /// Of a cluster's metadata, as its operator.
    ///
    /// # Errors
    /// When the endpoint is none, or there is no identity for it.
    pub fn of(cluster: &Cluster) -> Result<Observer> {
        let client = cluster.metadata_client()?;
        Ok(Observer { client })
    }

    fn records(&self, prefix: String) -> Result<Vec<KeyValue>> {
        let reply = self.client.txn(&Call::prefix(prefix)).map_err(failed)?;
        Ok(reply.values(0).to_vec())
    }

    /// The number of the node of that name.
    ///
    /// # Errors
    /// When the metadata is away, or knows no such node.
    pub fn node(&self, name: &str) -> Result<NodeId> {
        let nodes = admin::nodes(&self.client).map_err(failed)?;
        let node = nodes.into_iter().find(|node| node.name == name);
        node.map(|node| node.id)
            .ok_or_else(|| Failure::new(format!("the metadata knows no node {name}")))
    }

    /// The node that was elected coordinator, if one is.
    ///
    /// # Errors
    /// When the metadata is away.
    pub fn coordinator(&self) -> Result<Option<NodeId>> {
        let holder = self.records(election_key())?.into_iter().next();
        let holder = holder.and_then(|record| record.json::<serde_json::Value>().ok());
        let number = holder.and_then(|holder| holder["node"].as_u64());
        Ok(number.map(|number| NodeId(number as u32)))
    }

    /// All groups of all pools, with the copies that each shall have.
    ///
    /// # Errors
    /// When the metadata is away, or a record is not readable.
    pub fn groups(&self) -> Result<Vec<(Group, usize)>> {
        let mut groups = Vec::new();
        for pool in self.records(map::pool_key(""))? {
            let pool: Pool = pool.json().map_err(failed)?;
            let PoolKind::Replicated { copies, .. } = pool.kind else {
                return Err(Failure::new(format!(
                    "pool {} is of a kind that is not known",
                    pool.name
                )));
            };
            for group in self.records(map::groups_prefix(pool.id))? {
                groups.push((group.json().map_err(failed)?, usize::from(copies)));
            }
        }
        Ok(groups)
    }

    /// The node that serves a store, by the store's record.
    ///
    /// # Errors
    /// When the metadata is away, or a record is not readable.
    pub fn stores(&self) -> Result<Vec<Store>> {
        admin::stores(&self.client).map_err(failed)
    }

    /// How far the stores have come that are being brought up to date, or were until a moment ago.
    ///
    /// # Errors
    /// When the metadata is away, or a record is not readable.
    pub fn recovery(&self) -> Result<Vec<admin::RecoveryStatus>> {
        Ok(admin::status(&self.client).map_err(failed)?.recovery)
    }

    /// Has every group all of its copies, and none that is being brought up to date?
    ///
    /// # Errors
    /// When the metadata is away, or a record is not readable.
    pub fn is_whole(&self) -> Result<bool> {
        let groups = self.groups()?;
        Ok(groups
            .iter()
            .all(|(group, copies)| group.in_sync.len() >= *copies && group.syncing.is_empty()))
    }

    /// Waits until every group has all of its copies; false when it did not come to that within `limit`. A metadata
    /// service that is away is waited for as well.
    ///
    /// # Errors
    /// When this process was told to end.
    pub fn await_whole(&self, limit: Duration) -> Result<bool> {
        let whole = interrupt::poll(limit, Duration::from_millis(50), || {
            Ok(self.is_whole().unwrap_or(false).then_some(()))
        })?;
        Ok(whole.is_some())
    }
}
