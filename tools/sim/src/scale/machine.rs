//! What is simulated: how many nodes of how many cores, their disks and network, and who holds what.

use amita_node::peer_links::{PeerLinks, links};
use amita_node::serve::MAX_LINKS_PER_PEER;
use amita_types::placement::{Candidate, Level, Location, PlacementError, plan_pool};
use amita_types::{ChunkId, NodeId, PoolId, StoreId};

/// Nanoseconds of virtual time.
pub type Nanos = u64;

/// The copies of a write, at most.
pub const MAX_COPIES: usize = 3;

/// Which cores hold the links to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holders {
    /// The node's first cores, for every peer: the rule before [`PeerLinks`].
    First,
    /// Other cores for each peer ([`PeerLinks`]): the rule that serves.
    Spread,
}

/// Which cores the sessions of hosts are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fronts {
    /// All on core 0: who listens, serves.
    First,
    /// In turn on all cores.
    Spread,
}

/// What stores are on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backing {
    /// A file in memory: read and written by the core itself.
    Memory,
    /// A disk beside it.
    Disk(Disk),
}

/// A disk: commands queue for its rate, then take their time, many at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disk {
    /// Of a read of 4 KiB.
    pub read_ns: Nanos,
    /// Of a write, into a cache that survives a power cut.
    pub write_ns: Nanos,
    /// 4 KiB reads in a second.
    pub reads: f64,
    /// 4 KiB pages written in a second, lastingly.
    pub pages: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Of each node, in each direction.
    pub bits_per_ns: f64,
    /// From one node's card to another's.
    pub delay_ns: Nanos,
}

/// Where processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// Each core of a node has one to itself; hosts are elsewhere and cost nothing here.
    Own,
    /// The bench: all nodes share one, the host has another.
    Two,
    /// The bench: all nodes and the host share one.
    One,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Of these, how many are simulated; each of them stands for `nodes / slice` others, too: what is sent to node `n` goes
    /// over a connection of its own and arrives at node `n % slice`.
    pub slice: usize,
    /// Cores of a node.
    pub cores: usize,
    /// Disks of a node; store `d` is served by core `d % cores`.
    pub stores: usize,
    pub copies: usize,
    /// Groups of the pool.
    pub groups: u32,
    /// Connections that a node keeps to each peer.
    pub links: usize,
    /// Which cores hold them.
    pub holders: Holders,
    /// Which cores serve hosts.
    pub fronts: Fronts,
    /// The disks.
    pub backing: Backing,
    /// The network; none: loopback.
    pub network: Option<Network>,
    pub processors: Processors,
}

/// A disk of the field: a PCIe 4 drive for mixed use with a cache that survives power cuts (3.84 TB or more). From vendors'
/// data sheets, rounded down; not measured here.
pub const NVME: Disk = Disk {
    read_ns: 75_000,
    write_ns: 15_000,
    reads: 1_000_000.0,
    pages: 300_000.0,
};

/// Two ports of 100 Gbit/s, and a rack's and a spine's switch between.
pub const TWO_100G: Network = Network {
    bits_per_ns: 200.0,
    delay_ns: 6_000,
};

impl Machine {
    /// A cluster of servers with so many cores, 24 disks and two ports of 100 Gbit/s.
    #[must_use]
    pub fn servers(nodes: usize, cores: usize) -> Machine {
        Machine {
            nodes,
            slice: nodes,
            cores,
            stores: 24,
            copies: 3,
            groups: groups_for(nodes * 24),
            links: links(MAX_LINKS_PER_PEER, cores, nodes.saturating_sub(1)),
            holders: Holders::Spread,
            fronts: Fronts::Spread,
            backing: Backing::Disk(NVME),
            network: Some(TWO_100G),
            processors: Processors::Own,
        }
    }

    /// The cluster of `amita-bench`: three nodes of one core on one machine, stores in memory.
    #[must_use]
    pub fn bench(processors: Processors) -> Machine {
        Machine {
            nodes: 3,
            slice: 3,
            cores: 1,
            stores: 1,
            copies: 3,
            groups: 64,
            links: 1,
            holders: Holders::Spread,
            fronts: Fronts::First,
            backing: Backing::Memory,
            network: None,
            processors,
        }
    }

    /// The core of `node` that holds the link to `peer` which `core` uses.
    #[must_use]
    pub fn holder(&self, node: usize, peer: usize, core: usize) -> usize {
        match self.holders {
            Holders::First => core % self.links.clamp(1, self.cores),
            Holders::Spread => {
                PeerLinks::new(NodeId(node as u32), NodeId(peer as u32), self.cores, self.links).holder(core)
            }
        }
    }

    /// The core of its node that serves a disk.
    #[must_use]
    pub fn core_of_store(&self, disk: usize) -> usize {
        disk % self.cores
    }
}

/// The groups of a pool: a hundred copies on each store where the limit of a pool allows.
#[must_use]
pub fn groups_for(stores: usize) -> u32 {
    let wanted = (stores * 100 / 3).next_power_of_two() as u32;
    wanted.min(amita_sequencer::MAX_GROUPS)
}

/// Where one copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The node, of all of the cluster.
    pub node: u32,
    /// The disk in it.
    pub disk: u16,
}

/// Who holds which group: planned by the coordinator's own code.
#[derive(Clone, Debug)]
pub struct Placement {
    groups: Vec<[Place; MAX_COPIES]>,
    copies: usize,
}

impl Placement {
    /// Plans a pool over all stores of the cluster, with a node as the failure domain.
    ///
    /// # Errors
    /// Fewer nodes than copies.
    pub fn plan(machine: &Machine) -> Result<Placement, PlacementError> {
        let store = |node: usize, disk: usize| StoreId((node as u128 + 1) << 64 | disk as u128);
        let candidates: Vec<Candidate> = (0..machine.nodes)
            .flat_map(|node| (0..machine.stores).map(move |disk| (node, disk)))
            .map(|(node, disk)| Candidate {
                store: store(node, disk),
                weight: 1000,
                location: Location {
                    node: NodeId(node as u32),
                    ..Location::default()
                },
                keeps_only: false,
            })
            .collect();
        let plan = plan_pool(PoolId(1), machine.groups, &candidates, machine.copies, Level::Node)?;
        let place = |id: &StoreId| Place {
            node: (id.0 >> 64) as u32 - 1,
            disk: id.0 as u16,
        };
        let groups = plan.iter().map(|members| {
            let mut places = [Place::default(); MAX_COPIES];
            for (into, id) in places.iter_mut().zip(members) {
                *into = place(id);
            }
            places
        });
        Ok(Placement {
            groups: groups.collect(),
            copies: machine.copies,
        })
    }

    /// The members of a chunk's group.
    #[must_use]
    pub fn of(&self, chunk: ChunkId) -> &[Place] {
        let group = chunk.group(self.groups.len() as u32);
        &self.groups[group.0 as usize][..self.copies]
    }

    /// Copies of groups on the store that has most and on the node that has most, over the mean.
    #[must_use]
    pub fn imbalance(&self, machine: &Machine) -> (f64, f64) {
        let mut stores = vec![0_u32; machine.nodes * machine.stores];
        let mut nodes = vec![0_u32; machine.nodes];
        for places in &self.groups {
            for place in &places[..self.copies] {
                stores[place.node as usize * machine.stores + usize::from(place.disk)] += 1;
                nodes[place.node as usize] += 1;
            }
        }
        let over = |counts: &[u32]| {
            let most = counts.iter().max().copied().unwrap_or_default();
            f64::from(most) * counts.len() as f64 / (self.groups.len() * self.copies) as f64
        };
        (over(&stores), over(&nodes))
    }
}
