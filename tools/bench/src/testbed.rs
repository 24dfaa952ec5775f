//! What is measured on: three nodes, one pool with three copies, and what lies beneath the stores.

use crate::case::Placement;
use crate::usage::Watched;
use amita::cli::Endpoints;
use amita::nodes::Nodes;
use amita_harness::affinity;
use amita_harness::cluster::{Cluster, Config, Links, Metadata};
use amita_harness::scratch::Scratch;
use amita_node::observe::{NodePage, StorePage};
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::interrupt;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Nodes with a copy each.
pub const NODES: usize = 3;
/// The pool of the volumes that are made here.
pub const POOL: &str = "bench";
/// How long the cluster may take until it knows a store.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// The binary `amita`.
    pub binary: PathBuf,
    /// Further arguments for its `serve`.
    pub serve_arguments: Vec<String>,
    /// How its nodes' links are protected.
    pub links: Links,
    /// Further arguments for its `volume create`.
    pub volume_arguments: Vec<String>,
}

impl Product {
    /// The one that is named, or the one beside this program.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(named: Option<&Path>, serve_arguments: &[String], links: Links) -> Result<Product> {
        let binary = match named {
            // The commands run in other folders.
            Some(named) => std::path::absolute(named).context(|| format!("cannot find {}", named.display()))?,
            None => amita::own_binary()?.with_file_name("amita"),
        };
        if !binary.is_file() {
            return Err(Failure::new(format!("there is no binary {}", binary.display()))
                .kind(Kind::NotFound)
                .advice("Build it (`scripts/build-release`), or name another one with --amita."));
        }
        Ok(Product {
            binary,
            serve_arguments: serve_arguments.to_vec(),
            links,
            volume_arguments: Vec::new(),
        })
    }

    /// The same, with links that are protected in any case.
    #[must_use]
    pub fn closed(&self) -> Product {
        Product {
            links: match self.links {
                Links::Insecure => Links::Auth,
                closed => closed,
            },
            ..self.clone()
        }
    }
}

/// A cluster of three nodes on files, one core each, whose processes end with this thread.
#[must_use]
pub fn three_nodes(scratch: &Scratch, store_bytes: u64, metadata: Metadata, product: &Product) -> Config {
    Config {
        binary: product.binary.clone(),
        folder: scratch.folder().to_owned(),
        store_folder: scratch.stores().to_owned(),
        nodes: NODES,
        store_bytes,
        metadata,
        bound: true,
        links: product.links,
        serve_arguments: product.serve_arguments.clone(),
    }
}

/// What lies beneath the stores. Figures on one kind say nothing of another, so a run has one.
#[derive(Clone, Debug, Default)]
pub struct Backing {
    /// Devices, one for each node; without them, files.
    pub devices: Vec<PathBuf>,
}

impl Backing {
    /// What is on devices is lost, so that must have been said; and there must be one for each node.
    ///
    /// # Errors
    /// When it was not, or there are not.
    pub fn check(&self, may_destroy: bool) -> Result<()> {
        if self.devices.is_empty() {
            return Ok(());
        }
        if !may_destroy {
            return Err(Failure::new("what is on the devices would be lost")
                .kind(Kind::Usage)
                .advice("Say --yes-destroy if it may be."));
        }
        if self.devices.len() != NODES {
            return Err(Failure::new(format!(
                "{} devices are given, and each of {NODES} nodes needs one",
                self.devices.len()
            ))
            .kind(Kind::Usage)
            .advice("Give --device three times; partitions of one disk will do, and share it."));
        }
        Ok(())
    }
}

/// The running cluster with its volumes.
#[derive(Debug)]
pub struct Testbed {
    /// The cluster. It goes before the folders do.
    pub cluster: Cluster,
    /// Its folders.
    pub scratch: Scratch,
    /// The volumes, all of the same size.
    pub volumes: Vec<String>,
    devices: bool,
    cpus: Vec<usize>,
}

impl Testbed {
    /// Starts it: `volumes` of `volume_bytes`, on stores that hold two times as much as is written.
    ///
    /// # Errors
    /// When something does not start.
    pub fn start(scratch: Scratch, backing: &Backing, bytes: u64, volumes: u32, product: &Product) -> Result<Testbed> {
        let config = three_nodes(&scratch, store_bytes(bytes), Metadata::Embedded, product);
        let mut cluster = Cluster::without_nodes(config)?;
        for node in 0..NODES {
            match backing.devices.get(node) {
                Some(device) => {
                    cluster.set_stores(node, vec![device.clone()]);
                    format(&cluster, device, None)?;
                }
                None => cluster.format_store(node)?,
            }
        }
        cluster.start_nodes()?;
        let mut testbed = Testbed {
            cluster,
            scratch,
            volumes: Vec::new(),
            devices: !backing.devices.is_empty(),
            cpus: amita_reactor::core::allowed_cpus(),
        };
        testbed.make_volumes(volumes, bytes, product)?;
        Ok(testbed)
    }

    /// Starts it with one volume, on files of so many bytes, whatever is written.
    ///
    /// # Errors
    /// When something does not start.
    pub fn with_room(scratch: Scratch, store_bytes: u64, volume_bytes: u64, product: &Product) -> Result<Testbed> {
        let cluster = Cluster::start(three_nodes(&scratch, store_bytes, Metadata::Embedded, product))?;
        let mut testbed = Testbed {
            cluster,
            scratch,
            volumes: Vec::new(),
            devices: false,
            cpus: amita_reactor::core::allowed_cpus(),
        };
        testbed.make_volumes(1, volume_bytes, product)?;
        Ok(testbed)
    }

    fn make_volumes(&mut self, count: u32, bytes: u64, product: &Product) -> Result<()> {
        self.make_pool(POOL)?;
        for number in 0..count {
            self.make_volume(&format!("bench-{number}"), bytes, product)?;
        }
        Ok(())
    }

    /// Makes a pool with three copies.
    ///
    /// # Errors
    /// What the command says.
    pub fn make_pool(&self, name: &str) -> Result<()> {
        let copies = NODES.to_string();
        let arguments = ["pool", "create", name, "--copies", &copies, "--min-copies", "2"];
        self.cluster.amita(arguments)?.success().map(drop)
    }

    fn make_volume(&mut self, name: &str, bytes: u64, product: &Product) -> Result<()> {
        let bytes = bytes.to_string();
        let mut arguments = vec!["volume", "create", name, "--pool", POOL, "--size", &bytes];
        arguments.extend(product.volume_arguments.iter().map(String::as_str));
        self.cluster.amita(arguments)?.success()?;
        self.cluster.offer_by_nbd(name)?;
        self.volumes.push(name.to_owned());
        Ok(())
    }

    /// Starts two nodes, and leaves the third's place to `join`, which is given the endpoint and a formatted store and
    /// starts a process that serves it; then makes one volume.
    ///
    /// # Errors
    /// When something does not start.
    pub fn with_copy_elsewhere<T>(
        scratch: Scratch,
        bytes: u64,
        product: &Product,
        join: impl FnOnce(&Cluster, &Path) -> Result<T>,
    ) -> Result<(Testbed, T)> {
        let mut config = three_nodes(&scratch, store_bytes(bytes), Metadata::Embedded, product);
        config.nodes = NODES - 1;
        let cluster = Cluster::start(config)?;
        let store = scratch.stores().join("client.store");
        format(&cluster, &store, Some(store_bytes(bytes)))?;
        let joined = join(&cluster, &store)?;
        await_stores(&cluster)?;
        let mut testbed = Testbed {
            cluster,
            scratch,
            volumes: Vec::new(),
            devices: false,
            cpus: amita_reactor::core::allowed_cpus(),
        };
        testbed.make_volumes(1, bytes, product)?;
        Ok((testbed, joined))
    }

    /// The processes of the cluster, by the names that tables call them.
    #[must_use]
    pub fn watched(&self) -> Vec<Watched> {
        let nodes = self.cluster.nodes().iter().filter_map(|node| {
            let process = node.process.as_ref()?;
            Some(Watched {
                name: node.name.clone(),
                pid: process.pid(),
            })
        });
        let metadata = self.cluster.metadata_pid().map(|pid| Watched {
            name: "metadata".to_owned(),
            pid,
        });
        nodes.chain(metadata).collect()
    }

    /// Puts the cluster on its cores.
    ///
    /// # Errors
    /// When a process has ended.
    pub fn place(&self, placement: Placement) -> Result<()> {
        place(&self.watched(), &self.cpus, placement)
    }

    /// Whoever can ask the nodes for what their stores have written.
    ///
    /// # Errors
    /// When there is no identity to ask them with.
    pub fn stores(&self) -> Result<Stores> {
        Ok(Stores {
            metadata: Endpoints::of(self.cluster.endpoint()).with_identity(self.cluster.operator()?),
            nodes: self.cluster.nodes().iter().map(|node| node.name.clone()).collect(),
        })
    }

    /// The processors that may be used.
    #[must_use]
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// In words, for a table.
    #[must_use]
    pub fn backing(&self) -> &'static str {
        if self.devices { "devices" } else { self.scratch.kind() }
    }
}

/// The stores of a cluster, as their nodes tell of them.
#[derive(Clone, Debug)]
pub struct Stores {
    metadata: Endpoints,
    nodes: Vec<String>,
}

impl Stores {
    /// Bytes that they have written so far, by their own count; `None` where a node does not tell.
    #[must_use]
    pub fn wrote(&self) -> Option<u64> {
        self.sum(|store| store.written_bytes)
    }

    /// Bytes that are free in them, by their own count; `None` where a node does not tell.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        self.sum(|store| store.free_bytes)
    }

    fn sum(&self, of: impl Fn(&StorePage) -> u64) -> Option<u64> {
        let asked = Nodes::find(&self.metadata).ok()?.ask::<NodePage>("/top");
        // Clients are nodes as well, and tell nothing.
        let told: BTreeMap<String, NodePage> = asked
            .into_iter()
            .filter_map(|asked| Some((asked.node, asked.answer.ok()?)))
            .collect();
        let each = |page: &NodePage| page.stores.iter().map(&of).sum::<u64>();
        self.nodes.iter().map(|name| told.get(name).map(each)).sum()
    }
}

/// Room for what is written, for what replaces it, and for the store's own.
#[must_use]
pub fn store_bytes(bytes: u64) -> u64 {
    2 * bytes + (256 << 20)
}

/// Puts processes that serve on their cores.
///
/// # Errors
/// When one has ended.
pub fn place(servers: &[Watched], cpus: &[usize], placement: Placement) -> Result<()> {
    if placement == Placement::Spread {
        // Each core of a node has a processor of its own already.
        return Ok(());
    }
    let cpus = server_cpus(cpus, placement);
    servers.iter().try_for_each(|one| affinity::keep_on(one.pid, &cpus))
}

fn server_cpus(cpus: &[usize], placement: Placement) -> Vec<usize> {
    match placement {
        Placement::TwoCores | Placement::OneCore => cpus.iter().copied().take(1).collect(),
        Placement::Free | Placement::Spread => cpus.to_vec(),
    }
}

fn format(cluster: &Cluster, path: &Path, bytes: Option<u64>) -> Result<()> {
    let path = path.display().to_string();
    let bytes = bytes.map(|bytes| bytes.to_string());
    let mut arguments = vec!["disk", "format"];
    match &bytes {
        Some(bytes) => arguments.extend(["--size", bytes]),
        // A device, whose owner has said that what is on it may go.
        None => arguments.push("--force"),
    }
    arguments.push(&path);
    cluster.amita(arguments)?.success().map(drop)
}

fn await_stores(cluster: &Cluster) -> Result<()> {
    let known = interrupt::poll(PATIENCE, Duration::from_millis(50), || {
        let output = cluster.amita(["disk", "list", "--json"])?;
        let stores: Vec<serde_json::Value> =
            serde_json::from_str(&output.text).context(|| format!("not a list of stores: {}", output.text))?;
        let alive = stores.iter().filter(|store| store["alive"] == true).count();
        Ok((alive == NODES).then_some(()))
    })?;
    known.ok_or_else(|| {
        Failure::new(format!(
            "not all of {NODES} stores serve after {} s",
            PATIENCE.as_secs()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::{Backing, server_cpus};
    use crate::case::Placement;
    use crate::client::client_cpus;

    #[test]
    fn clients_have_the_second_core_where_there_is_one() {
        let all = [Placement::TwoCores, Placement::OneCore, Placement::Free];
        let of = |cpus: &[usize]| all.map(|placement| (client_cpus(cpus, placement), server_cpus(cpus, placement)));
        assert_eq!(
            of(&[4, 6, 7]),
            [(vec![6], vec![4]), (vec![4], vec![4]), (vec![4, 6, 7], vec![4, 6, 7])]
        );
        assert_eq!(of(&[0]), [(vec![0], vec![0]), (vec![0], vec![0]), (vec![0], vec![0])]);
    }

    #[test]
    fn devices_are_taken_only_by_leave_and_one_for_each_node() {
        let devices = |count| Backing {
            devices: vec!["/dev/null".into(); count],
        };
        assert!(devices(3).check(true).is_ok() && Backing::default().check(false).is_ok());
        assert!(
            devices(3)
                .check(false)
                .expect_err("not allowed")
                .advice
                .contains("--yes-destroy")
        );
        assert!(devices(1).check(true).is_err());
    }
}
