//! `cluster.json`: what scripts rely on. Names and shapes stay as they are; what does not exist yet is left out.

use amita_harness::cluster::Cluster;
use amita_terminal::error::{Context, Failure, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file's name.
pub const FILE: &str = "cluster.json";

/// A cluster that was left running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its nodes, the volume's owner first.
    pub nodes: Vec<NodeFacts>,
    pub metadata: MetadataFacts,
    pub volume: VolumeFacts,
    /// The URL of the REST API at the first node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The variables with which `amita` commands work on the cluster.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    pub name: String,
    pub pid: u32,
    /// Its stores' files.
    pub disks: Vec<PathBuf>,
    /// `HOST:PORT` of its NBD server.
    pub nbd: String,
    /// `HOST:PORT` where hosts connect by NVMe/TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<String>,
}

/// The metadata server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataFacts {
    pub pid: u32,
    /// Its URL.
    pub endpoint: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFacts {
    pub name: String,
    pub size_bytes: u64,
    /// A URI for each gateway, the owner's first.
    pub nbd: Vec<String>,
    /// The same by their Unix sockets, for this user alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nbd_unix: Vec<String>,
    /// The NVMe qualified name of its subsystem, to which any host may connect; its namespace is number 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nqn: Option<String>,
}

impl Facts {
    /// Those of a running cluster, all of whose nodes run; `nqn`: the name of the volume's subsystem.
    ///
    /// # Errors
    /// When a process is missing.
    pub fn of(cluster: &Cluster, volume: &str, size_bytes: u64, nqn: &str) -> Result<Facts> {
        let portals = cluster.nvme_portals()?;
        let missing = |name: &str| Failure::new(format!("{name} is not running"));
        let nodes = cluster
            .nodes()
            .iter()
            .map(|node| {
                let process = node.process.as_ref().ok_or_else(|| missing(&node.name))?;
                Ok(NodeFacts {
                    name: node.name.clone(),
                    pid: process.pid(),
                    disks: node.stores.clone(),
                    nbd: node.nbd.to_string(),
                    nvme: portals.get(&node.name).cloned(),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let metadata = MetadataFacts {
            pid: cluster.metadata_pid().ok_or_else(|| missing("the metadata server"))?,
            endpoint: cluster.endpoint().to_owned(),
        };
        let mut env = BTreeMap::from([("AMITA_METADATA".to_owned(), metadata.endpoint.clone())]);
        let mut scheme = "http";
        if let Some(operator) = cluster.operator()? {
            env.insert("AMITA_IDENTITY".to_owned(), operator.display().to_string());
            env.insert("AMITA_TOKEN".to_owned(), token(cluster)?);
            scheme = "https";
        }
        let apis = cluster.apis()?;
        let first = nodes.first().and_then(|node| apis.get(&node.name));
        let api = first.map(|address| format!("{scheme}://{address}"));
        let local = (0..cluster.nodes().len()).filter_map(|index| cluster.socket_uri(index, volume));
        let uris = (0..cluster.nodes().len())
            .map(|index| cluster.uri(index, volume))
            .collect();
        Ok(Facts {
            nodes,
            metadata,
            volume: VolumeFacts {
                name: volume.to_owned(),
                size_bytes,
                nbd: uris,
                nbd_unix: local.collect(),
                nqn: (!portals.is_empty()).then(|| nqn.to_owned()),
            },
            api,
            env,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).context(|| "cannot write JSON".to_owned())?;
        // Whoever waits for the file to appear must find it whole.
        let fresh = folder.join(format!("{FILE}.new"));
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh);
        let written = file.and_then(|mut file| file.write_all((text + "\n").as_bytes()));
        written.context(|| format!("cannot write {}", fresh.display()))?;
        std::fs::rename(&fresh, &path).context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When there is none, or it is not one of these.
    pub fn read(folder: &Path) -> Result<Facts> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", path.display()))
                .kind(Kind::NotFound)
                .advice("DIR is the folder that `amita demo --keep --dir DIR` was given.")
        })?;
        serde_json::from_str(&text).context(|| format!("{} does not describe a cluster", path.display()))
    }
}

/// A token of the API, for whoever plays with the cluster.
fn token(cluster: &Cluster) -> Result<String> {
    let made = cluster.amita(["token", "create", "demo", "--role", "admin", "--json"])?;
    let made: serde_json::Value =
        serde_json::from_str(&made.success()?.text).context(|| "`amita token create` says no JSON".to_owned())?;
    let secret = made["secret"].as_str().map(str::to_owned);
    secret.ok_or_else(|| Failure::new("`amita token create` says no token"))
}

#[cfg(test)]
mod tests;
