//! Nodes asked for what they count and keep: by HTTP, where the metadata says that they can be.

use crate::admin::Admin;
use crate::cli::Endpoints;
use amita_api::panics::{Unwinding, may_unwind};
use amita_control::admin::Status;
use amita_terminal::error::{Failure, Kind, Result};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer: traces of 256 cores.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// A node that was asked, and what it said, or why it said nothing.
#[derive(Clone, Debug)]
pub struct Asked<T> {
    /// The node's name.
    pub node: String,
    pub answer: std::result::Result<T, String>,
}

/// All nodes of a cluster, and the names of what is in it.
#[derive(Clone, Debug)]
pub struct Nodes {
    status: Status,
}

impl Nodes {
    /// As the metadata knows them.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn find(metadata: &Endpoints) -> Result<Nodes> {
        let status = Admin::connect(metadata)?.status()?;
        Ok(Nodes { status })
    }

    /// As a status knows them.
    #[must_use]
    pub fn of(status: Status) -> Nodes {
        Nodes { status }
    }

    /// Each store's node, by the store's UUID.
    #[must_use]
    pub fn stores(&self) -> BTreeMap<String, String> {
        let stores = self.status.stores.iter();
        stores
            .map(|found| (found.store.id.to_string(), found.node_name.clone()))
            .collect()
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster(&self) -> String {
        self.status.cluster.to_string()
    }

    /// # Errors
    /// When there is no volume of that name.
    pub fn check_volume(&self, name: &str) -> Result<()> {
        if self.status.volumes.iter().any(|found| found.volume.name == name) {
            return Ok(());
        }
        Err(Failure::new(format!("there is no volume {name:?}")).kind(Kind::NotFound))
    }

    /// Asks every node for a page, at the same time.
    #[must_use]
    pub fn ask<T: DeserializeOwned + Send + Paged>(&self, path: &str) -> Vec<Asked<T>> {
        let may_unwind = may_unwind();
        std::thread::scope(|scope| {
            let asking: Vec<_> = self
                .status
                .nodes
                .iter()
                .map(|found| {
                    let (name, metrics, alive) = (&found.node.name, found.node.metrics.as_deref(), found.alive);
                    let asked = scope.spawn(move || {
                        let _unwinding = Unwinding::begin_where(may_unwind);
                        match metrics {
                            _ if !alive => Err("it is not alive".to_owned()),
                            None => Err("it tells nothing; start it with --metrics".to_owned()),
                            Some(address) => self.page(address, path, name, None),
                        }
                    });
                    (name, asked)
                })
                .collect();
            asking
                .into_iter()
                .map(|(node, asked)| Asked {
                    node: node.clone(),
                    answer: asked.join().unwrap_or_else(|_| Err("asking it failed".to_owned())),
                })
                .collect()
        })
    }

    /// Asks one node something that has a body.
    ///
    /// # Errors
    /// In words: it does not live, tells nothing, or does not answer.
    pub fn post<T: DeserializeOwned + Paged>(
        &self,
        name: &str,
        path: &str,
        body: &str,
    ) -> std::result::Result<T, String> {
        let found = self.status.nodes.iter().find(|found| found.node.name == name);
        let found = found.filter(|found| found.alive).ok_or("its node is not alive")?;
        let metrics = found.node.metrics.as_deref();
        let address = metrics.ok_or_else(|| format!("node {name} tells nothing; start it with --metrics"))?;
        self.page(address, path, name, Some(body))
    }

    fn page<T: DeserializeOwned + Paged>(
        &self,
        address: &str,
        path: &str,
        name: &str,
        body: Option<&str>,
    ) -> std::result::Result<T, String> {
        let text = exchange(address, path, body).map_err(|why| {
            format!("{address} does not answer ({why}); a node tells only its own host unless --metrics says otherwise")
        })?;
        let page: T = serde_json::from_str(&text).map_err(|why| format!("{address} answers with no page: {why}"))?;
        // Another host's loopback is not ours.
        if page.cluster() != self.cluster() || page.node_name() != name {
            return Err(format!(
                "{address} is node {} here; ask on the node's own host, or start it with --metrics on an address of the network",
                page.node_name()
            ));
        }
        Ok(page)
    }
}

/// A page says whose it is.
pub trait Paged {
    /// The node's cluster.
    fn cluster(&self) -> &str;
    fn node_name(&self) -> &str;
}

impl Paged for amita_node::observe::NodePage {
    fn cluster(&self) -> &str {
        &self.cluster
    }
    fn node_name(&self) -> &str {
        &self.name
    }
}

impl Paged for amita_node::observe::SpacePage {
    fn cluster(&self) -> &str {
        &self.cluster
    }
    fn node_name(&self) -> &str {
        &self.name
    }
}

impl Paged for amita_node::observe::TracesPage {
    fn cluster(&self) -> &str {
        &self.cluster
    }
    fn node_name(&self) -> &str {
        &self.name
    }
}

/// So much is shown of why a page is refused.
const MAX_REFUSAL_CHARS: usize = 200;

/// The body of a page. (The server is ours: it says the length, and closes when it is asked to.)
///
/// # Errors
/// In words: no connection, no answer, or one that is not "200".
pub fn get(address: &str, path: &str) -> std::result::Result<String, String> {
    exchange(address, path, None)
}

fn exchange(address: &str, path: &str, body: Option<&str>) -> std::result::Result<String, String> {
    let text = fetch(address, path, body).map_err(|error| error.to_string())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("the answer is cut off")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        // Whoever answers there may say much.
        let says: String = body.trim().chars().take(MAX_REFUSAL_CHARS).collect();
        return Err(format!("it says {status}: {says}"));
    }
    Ok(body.to_owned())
}

fn fetch(address: &str, path: &str, body: Option<&str>) -> std::io::Result<String> {
    let resolved = address.to_socket_addrs()?.next();
    let resolved = resolved.ok_or_else(|| std::io::Error::other("the name is not known"))?;
    let mut stream = TcpStream::connect_timeout(&resolved, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = match body {
        None => format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"),
        Some(body) => format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: \
             {}\r\n\r\n{body}",
            body.len()
        ),
    };
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
