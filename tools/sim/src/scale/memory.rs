//! What a node of a large cluster holds, and what the cluster asks of the metadata: counted from the constants and
//! types of the product, and for its larger structures by making them and looking how much memory the process grew by.

use super::machine::Machine;
use amita_fabric::limits;
use amita_node::mail::{CoreMessage, ring_messages};
use amita_reactor::Time;
use amita_sequencer::{Care, Config, Opened, Sequencer};
use amita_types::map::{self, PREFIX, PoolKind};
use amita_types::placement::Level;
use amita_types::recovery::Recovery;
use amita_types::{Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, VolumeId};

/// Bytes of a block of the pool that an outgoing or incoming connection keeps for what it sends (`stream.rs`).
const OUTBOX_BYTES: usize = 16 << 10;
/// What the kernel keeps of a connection that is idle: socket, protocol and file structures, in bytes (`slabtop`: TCP
/// 2,368, sock_inode_cache 832, filp 192, dentry 192; Linux 6.18).
const KERNEL_BYTES: usize = 3584;
/// The lease of a node, in seconds; it is renewed three times in it.
const LEASE_S: f64 = 5.0;
/// A lease of a store lasts so long (`amita_store::Config`), in seconds; an owner that reads renews it before.
const READ_LEASE_S: f64 = 0.25;

/// Structures as they are in memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// A sequencer of one volume on one core, in a pool of so many groups and stores.
    pub sequencer: f64,
    /// What a core keeps of how long each store takes.
    pub watch: f64,
}

/// Memory of this process, in bytes; 0 where the system does not tell.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0);
    pages * 4096.0
}

fn store_id(node: usize, disk: usize) -> StoreId {
    StoreId((node as u128 + 1) << 64 | disk as u128)
}

fn group(machine: &Machine, index: u32) -> map::Group {
    let node = |copy: usize| (index as usize * machine.copies + copy) % machine.nodes;
    let members: Vec<StoreId> = (0..machine.copies)
        .map(|copy| store_id(node(copy), index as usize % machine.stores))
        .collect();
    map::Group {
        index: GroupIndex(index),
        epoch: Epoch(1),
        in_sync: members.clone(),
        members,
        syncing: Vec::new(),
    }
}

fn pool(machine: &Machine) -> map::Pool {
    map::Pool {
        id: PoolId(1),
        name: "pool".to_owned(),
        kind: PoolKind::Replicated {
            copies: machine.copies as u8,
            min_copies: 2,
        },
        groups: machine.groups,
        chunk_bytes: 4 << 20,
        failure_domain: Level::Node,
        class: None,
    }
}

/// Makes a few of each and looks how much the process grows. They are never given back.
#[must_use]
pub fn measure(machine: &Machine) -> Sizes {
    const COUNT: usize = 6;
    let opened = Opened {
        reservation: None,
        given_back: None,
        keys: None,
        volume: map::Volume {
            generation: Generation(1),
            owner: Some(NodeId(1)),
            ..map::Volume::new(VolumeId(1), "volume", "pool", 1 << 40)
        },
        volume_revision: 1,
        pool: pool(machine),
        generation: Generation(1),
        owner: NodeId(1),
        groups: (0..machine.groups).map(|index| (group(machine, index), 1)).collect(),
    };
    let care = Care::new(&Recovery::default(), machine.cores as u16);
    let make = || {
        let mut sequencer = Sequencer::new(Config::default(), opened.clone(), 1 << 40, Time(1));
        // The sequencers of a core watch the stores together.
        sequencer.share_care(&care);
        sequencer
    };
    let before = resident();
    let first = make();
    let with_watch = resident() - before;
    let before = resident();
    let sequencers: Vec<Sequencer> = (0..COUNT).map(|_| make()).collect();
    let sequencer = (resident() - before) / COUNT as f64;
    // They are kept: what comes after must not find their memory free, or it would seem to need none.
    std::mem::forget((first, sequencers, care));
    Sizes {
        sequencer,
        watch: (with_watch - sequencer).max(0.0) / 2.0,
    }
}

/// All records of a cluster that is at rest, as they are in the metadata.
pub fn records(machine: &Machine) -> impl Iterator<Item = (String, Vec<u8>)> {
    let json = |value: Result<Vec<u8>, serde_json::Error>| value.expect("plain data");
    let nodes = (0..machine.nodes).map(move |node| {
        let record = map::Node {
            id: NodeId(node as u32 + 1),
            name: format!("node-{node}"),
            fabric: format!("10.{}.{}.{}:7400", node >> 16, node >> 8 & 255, node & 255),
            fabric2: None,
            nbd: None,
            nbd_socket: None,
            nvme: None,
            cores: machine.cores as u32,
            site: String::new(),
            rack: format!("rack-{}", node / 20),
            maintenance: false,
            client: false,
            gateway: false,
            unprotected: false,
            metrics: None,
            api: None,
        };
        (map::node_key(&record.name), json(serde_json::to_vec(&record)))
    });
    let stores = (0..machine.nodes).flat_map(move |node| {
        (0..machine.stores).map(move |disk| {
            let record = map::Store {
                id: store_id(node, disk),
                node: NodeId(node as u32 + 1),
                path: format!("/dev/nvme{disk}n1"),
                size_bytes: 3_840_755_982_336,
                weight: 1000,
                class: "nvme".to_owned(),
                duty: map::StoreDuty::default(),
                paused: None,
            };
            (map::store_key(record.id), json(serde_json::to_vec(&record)))
        })
    });
    let pools = std::iter::once_with(move || (map::pool_key("pool"), json(serde_json::to_vec(&pool(machine)))));
    let groups = (0..machine.groups).map(move |index| {
        let record = group(machine, index);
        (
            map::group_key(PoolId(1), record.index),
            json(serde_json::to_vec(&record)),
        )
    });
    debug_assert!(PREFIX.ends_with('/'));
    nodes.chain(stores).chain(pools).chain(groups)
}

/// What a node holds for its peers and its cores, and what the cluster asks of the metadata at rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Connections of a node, those that it makes and those that come in.
    pub connections: f64,
    /// Of the busiest core.
    pub connections_of_core: f64,
    /// If each core kept one to each core of each peer: cores squared for a pair.
    pub connections_squared: f64,
    /// Memory of connections that are idle: the program's, in bytes.
    pub idle_bytes: f64,
    pub kernel_bytes: f64,
    /// What peers may have in flight towards a node by their windows, in bytes.
    pub window_bytes: f64,
    /// What a node takes in of it, whatever the windows say, in bytes.
    pub unanswered_bytes: f64,
    /// Rings between the cores of a node, in bytes.
    pub rings_bytes: f64,
    /// Pings of a node in a second, when nothing else is sent, and as many answers.
    pub pings: f64,
    /// Records and their bytes.
    pub records: f64,
    /// Their keys and values, in bytes.
    pub record_bytes: f64,
    /// Renewals of leases in a second, of all nodes.
    pub renewals: f64,
    /// Events that one change of a record becomes: one for each node's watch.
    pub watchers: f64,
    /// Groups of a node that fails: so many records change.
    pub groups_of_node: f64,
    /// Leases that an owner which reads everywhere must renew in a second, each core with each store.
    pub leases: f64,
}

/// Counts it.
#[must_use]
pub fn budget(machine: &Machine) -> Budget {
    let (nodes, cores) = (machine.nodes as f64, machine.cores as f64);
    let peers = nodes - 1.0;
    let connections = 2.0 * peers * machine.links as f64;
    let per_connection = std::mem::size_of::<amita_fabric::Link>() + amita_fabric::CONNECTION_BYTES;
    let idle = (per_connection + limits::RECEIVE_CLASSES[0] + OUTBOX_BYTES) as f64;
    let (records, record_bytes) = records(machine).fold((0.0, 0.0), |(count, bytes), (key, value)| {
        (count + 1.0, bytes + (key.len() + value.len()) as f64)
    });
    Budget {
        connections,
        connections_of_core: (connections / cores).ceil(),
        connections_squared: 2.0 * peers * cores * cores,
        idle_bytes: connections * idle,
        kernel_bytes: connections * KERNEL_BYTES as f64,
        window_bytes: connections / 2.0 * f64::from(limits::WINDOW_BYTES),
        unanswered_bytes: cores * limits::UNANSWERED_BYTES as f64,
        rings_bytes: cores * (cores - 1.0) * (ring_messages(machine.cores) * size_of::<CoreMessage>()) as f64,
        pings: connections / 2.0 / limits::IDLE_PING.as_secs_f64(),
        records,
        record_bytes,
        renewals: nodes * 3.0 / LEASE_S,
        watchers: nodes,
        groups_of_node: f64::from(machine.groups) * machine.copies as f64 / nodes,
        leases: cores * nodes * machine.stores as f64 / READ_LEASE_S,
    }
}
