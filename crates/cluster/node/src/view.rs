//! What a core knows of the cluster: nodes, stores and volumes, as last seen in the metadata.
//!
//! For routing and listing it is a hint. What peers say of owners, generations and members is compared with it
//! ([`crate::authority`]); this node's own sequencers read what they go by themselves.

use crate::control::Record;
use amita_fabric::Addresses;
use amita_frontend::reservation;
use amita_types::map::{self, PREFIX};
use amita_types::recovery::{HealthReport, Recovery};
use amita_types::{Epoch, GroupId, NodeId, PoolId, SetId, StoreId, VolumeId};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

mod copies;
mod groups;
mod iscsi;
mod joints;
mod locked;
mod members;
mod moved;
mod readers;
mod wishes;

pub use readers::Reader;
#[cfg(test)]
pub(crate) use readers::tests::labelled;

/// The cluster as last seen.
#[derive(Default)]
pub struct View {
    nodes: map::Holders<NodeId, map::Node>,
    stores: FxHashMap<StoreId, NodeId>,
    /// The same by node: a core asks for a node's stores for each volume that it opens and each link that breaks.
    stores_by_node: BTreeMap<NodeId, BTreeSet<StoreId>>,
    volumes: map::Holders<VolumeId, map::Volume>,
    /// Volumes that were reverted, by the number by which hosts know them; one that is gone may stand here still.
    reverted: BTreeMap<VolumeId, VolumeId>,
    /// What has moved to another pool.
    moved: moved::Moved,
    pools: BTreeMap<String, KnownPool>,
    subsystems: BTreeMap<String, map::Subsystem>,
    /// How many namespaces show a volume.
    namespaces: FxHashMap<VolumeId, u32>,
    hosts: BTreeMap<String, map::Host>,
    /// Those whose records cannot be read, and never could: what they have to show nobody knows.
    unreadable_hosts: BTreeSet<String>,
    /// What initiators see.
    iscsi: iscsi::Iscsi,
    exports: FxHashMap<VolumeId, map::Export>,
    reservations: FxHashMap<VolumeId, Arc<reservation::State>>,
    /// Those of them that are locks: few, if any.
    locks: BTreeMap<VolumeId, reservation::Lock>,
    groups: BTreeMap<GroupId, Membership>,
    /// How many groups of each pool have syncing members.
    syncing: BTreeMap<PoolId, usize>,
    /// With the session of the process, as far as it can be read.
    living: BTreeMap<NodeId, u64>,
    /// The operator's wishes for owners, with their modification revision.
    moves: BTreeMap<VolumeId, (map::Move, u64)>,
    /// The operator's wishes for snapshots, with their modification revision.
    snapshot_wishes: BTreeMap<VolumeId, (map::SnapshotWish, u64)>,
    /// Sets of snapshots that are being taken, or whose snapshots are being sealed, with their modification revision.
    sets: BTreeMap<SetId, (map::SnapshotSet, u64)>,
    /// Clones that are to be flattened, with their modification revision.
    flattens: BTreeMap<VolumeId, (map::Flatten, u64)>,
    /// Volumes that are to be copies, and are not whole.
    copies: copies::Copies,
    /// Snapshots that backups and mirrors read.
    readers: readers::Readers,
    /// With their modification revision.
    scrubs: BTreeMap<VolumeId, (map::Scrub, u64)>,
    /// The operator's wishes that owners close volumes, with their modification revision.
    closings: BTreeMap<VolumeId, (map::Closing, u64)>,
    /// Volumes that are gone since somebody looked.
    deleted: Vec<(VolumeId, String)>,
    /// Stores that a core of a node finds slow.
    accused: BTreeMap<String, (NodeId, Vec<StoreId>)>,
    /// Limits of tenants and pools.
    joints: joints::Joints,
    /// Encrypted volumes whose keys a core of a node lacks.
    locked: BTreeMap<String, (NodeId, BTreeSet<VolumeId>)>,
}

/// What matters of a pool here.
#[derive(Clone, Copy, Debug)]
struct KnownPool {
    id: PoolId,
    chunk_bytes: u32,
    /// The revision of its key's creation.
    created: u64,
}

/// What matters of a group here.
#[derive(Debug, Default)]
pub struct Membership {
    pub epoch: Epoch,
    pub in_sync: Vec<StoreId>,
    /// Who is being brought up to date.
    pub syncing: Vec<map::Syncing>,
    /// Who should hold it and is not in sync.
    pub absent: Vec<StoreId>,
}

/// What a record changed that somebody must be told of.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing of interest to a core.
    Nothing,
    /// Nodes came, moved or went: dial them at these addresses, or no longer.
    Nodes {
        now: Vec<(NodeId, Option<Addresses>)>,
        /// The record that said so is not heard.
        refused: Option<String>,
    },
    /// A store's record was written.
    Store {
        store: StoreId,
        /// Who serves it.
        node: NodeId,
        /// Another node than before, or nobody was known.
        moved: bool,
    },
    /// A node came or went.
    Life,
    /// A look at a volume's copies was asked for, or has ended.
    Scrub,
    /// A group changed: a hint for the sequencers.
    Group(map::Group, PoolId),
    /// A volume's record changed: a hint for its sequencers.
    Volume(VolumeId, amita_types::Generation),
    /// Something that NVMe hosts see.
    Hosts,
    /// Something that initiators of iSCSI see.
    Initiators,
    /// How full a core's stores are, and perhaps whose keys it lacks.
    Space {
        /// Of these it says something else than before.
        keys: bool,
    },
    /// Who may use a volume by NBD.
    Export,
    /// What is reserved of a volume, by this revision of its record.
    Reservation(VolumeId, u64),
    /// The operator wants a volume to be owned by another gateway, or no longer.
    Move(VolumeId),
    /// The operator wants a snapshot of a volume, or a set of them, or no longer; or a set is decided.
    SnapshotWish,
    /// The operator wants a clone flattened, or no longer.
    Flatten,
    /// The operator wants owners to close volumes, or no longer.
    Closing,
    /// The limits of a tenant or pool.
    Joint(String),
    /// Whose a volume is.
    Tenancy(VolumeId),
    /// A node finds a store slow, or no longer.
    Health,
    /// How hard background work may press.
    Recovery(Box<Recovery>),
    /// The record is not readable; it was ignored.
    Unreadable(String),
}

impl Change {
    /// May it change what NVMe hosts see?
    #[must_use]
    pub fn concerns_hosts(&self) -> bool {
        // A record that cannot be read may be a host's, which is let in no more.
        matches!(
            self,
            Change::Hosts
                | Change::Unreadable(_)
                | Change::Reservation(..)
                | Change::Nodes { .. }
                | Change::Life
                | Change::Volume(..)
                | Change::Nothing
        )
    }

    /// May it change what initiators of iSCSI see?
    #[must_use]
    pub fn concerns_initiators(&self) -> bool {
        // A record that cannot be read may be an initiator's, which is let in no more.
        matches!(
            self,
            Change::Initiators
                | Change::Unreadable(_)
                | Change::Reservation(..)
                | Change::Nodes { .. }
                | Change::Life
                | Change::Volume(..)
                | Change::Nothing
        )
    }

    /// May it change who may use which volume by NBD?
    #[must_use]
    pub fn concerns_exports(&self) -> bool {
        // A record that cannot be read may have been an export's.
        matches!(
            self,
            Change::Export | Change::Hosts | Change::Initiators | Change::Volume(..) | Change::Unreadable(_)
        )
    }
}

impl View {
    /// Takes a record in.
    pub fn apply(&mut self, record: &Record) -> Change {
        let Some(path) = record.key.strip_prefix(PREFIX) else {
            return Change::Nothing;
        };
        let Some((kind, rest)) = path.split_once('/') else {
            return match path {
                "cluster" => self.apply_cluster(record),
                "recovery" => recovery(record),
                "thresholds" => self.apply_thresholds(record),
                _ => Change::Nothing,
            };
        };
        match kind {
            "nodes" => self.node(rest, record),
            "stores" => self.store(rest, record),
            "volumes" => self.volume(rest, record),
            "groups" => self.apply_group(rest, record),
            "pools" => self.pool(rest, record),
            "health" => self.health(rest, record),
            "scrub" => self.apply_scrub(rest, record),
            "live" => self.live(rest, record),
            "moves" => self.apply_move(rest, record),
            "taking" => self.apply_snapshot_wish(rest, record),
            "snapshots" => self.apply_snapshot(rest, record),
            "sets" => self.apply_set(rest, record),
            "flattening" => self.apply_flatten(rest, record),
            "closing" => self.apply_closing(rest, record),
            "copies" => self.apply_copying(rest, record),
            "nvme" => self.apply_nvme(rest, record),
            "iscsi" => self.apply_iscsi(rest, record),
            "condition" => self.apply_space(rest, record),
            "exports" => self.apply_export(rest, record),
            "reservations" => self.apply_reservation(rest, record),
            "limits" => self.apply_joint(rest, record),
            "tenancies" => self.apply_tenancy(rest, record),
            _ => Change::Nothing,
        }
    }

    fn volume(&mut self, name: &str, record: &Record) -> Change {
        let key = &record.key;
        let Some(value) = &record.value else {
            let Some(id) = self.volumes.remove(key) else {
                return Change::Nothing;
            };
            return match self.volumes.get(id) {
                // It has another name now.
                Some(volume) => Change::Volume(id, volume.generation),
                None => {
                    self.deleted.push((id, name.to_owned()));
                    Change::Nothing
                }
            };
        };
        match parse::<map::Volume>(key, value) {
            Ok(volume) if volume.name != name => {
                Change::Unreadable(format!("{key}: it is of volume {:?}", volume.name))
            }
            Ok(volume) => {
                let change = Change::Volume(volume.id, volume.generation);
                let chain: Vec<VolumeId> = self.volumes.of(key).into_iter().flat_map(map::Volume::chain).collect();
                let before = chain.first().copied();
                self.note_moved(&volume, &chain);
                // The switch of a move writes it while the volume's name says that number still, which counts, and says another one at once.
                let is_left = volume.is_former();
                let put = self.volumes.put(key, record.created, volume.id, volume);
                if let Some(before) = before.filter(|before| self.volumes.get(*before).is_none()) {
                    // Deleted and made anew while nobody watched.
                    self.deleted.push((before, name.to_owned()));
                }
                match put {
                    Ok(()) => change,
                    Err(_) if is_left => Change::Nothing,
                    Err(why) => Change::Unreadable(format!("{key} is left alone: {why}")),
                }
            }
            Err(why) => Change::Unreadable(why),
        }
    }

    /// A record that cannot be a pool's changes nothing: hosts use its volumes, and how those are cut into chunks never changes.
    fn pool(&mut self, name: &str, record: &Record) -> Change {
        let Some(value) = &record.value else {
            self.pools.remove(name);
            return Change::Nothing;
        };
        match read_pool(name, &record.key, value, record.created, self.pools.get(name)) {
            Ok(pool) => drop(self.pools.insert(name.to_owned(), pool)),
            Err(why) => return Change::Unreadable(why),
        }
        Change::Nothing
    }

    fn health(&mut self, rest: &str, record: &Record) -> Change {
        let node = rest.split('/').next().and_then(|node| node.parse().ok());
        let report = record
            .value
            .as_ref()
            .map(|value| parse::<HealthReport>(&record.key, value));
        match (node, report) {
            (Some(node), Some(Ok(report))) => {
                let slow = report.stores.iter().filter(|found| found.slow);
                let slow: Vec<StoreId> = slow.map(|found| found.store).collect();
                let known = self.accused.insert(rest.to_owned(), (node, slow.clone()));
                if known.is_some_and(|(_, known)| known == slow) {
                    return Change::Nothing;
                }
            }
            (_, Some(Err(why))) => return Change::Unreadable(why),
            _ => drop(self.accused.remove(rest)),
        }
        Change::Health
    }

    /// The stores that living nodes find slow, in order.
    #[must_use]
    pub fn accused(&self) -> Vec<StoreId> {
        let living = self.accused.values().filter(|(node, _)| self.living.contains_key(node));
        let mut stores: Vec<StoreId> = living.flat_map(|(_, stores)| stores).copied().collect();
        stores.sort_unstable();
        stores.dedup();
        stores
    }

    fn live(&mut self, node: &str, record: &Record) -> Change {
        let Some(node) = number(node, record, map::live_key) else {
            return Change::Nothing;
        };
        match &record.value {
            Some(value) => {
                // A record that cannot be read shows that the node lives all the same.
                let session = parse::<map::Live>(&record.key, value).map_or(0, |live| live.session);
                self.living.insert(node, session);
            }
            None => drop(self.living.remove(&node)),
        }
        Change::Life
    }

    fn subsystem(&mut self, name: &str, record: &Record) -> Result<(), String> {
        let volumes = |subsystems: &BTreeMap<String, map::Subsystem>| -> Vec<VolumeId> {
            let namespaces = subsystems.get(name).map(|subsystem| &subsystem.namespaces);
            namespaces
                .into_iter()
                .flatten()
                .filter(|namespace| namespace.snapshot.is_none())
                .map(|namespace| namespace.volume)
                .collect()
        };
        let before = volumes(&self.subsystems);
        take(&mut self.subsystems, name, record)?;
        for volume in volumes(&self.subsystems) {
            *self.namespaces.entry(volume).or_default() += 1;
        }
        for volume in before {
            if let Entry::Occupied(mut count) = self.namespaces.entry(volume) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Ok(())
    }

    fn apply_nvme(&mut self, rest: &str, record: &Record) -> Change {
        let taken = match rest.split_once('/') {
            Some(("subsystems", name)) => self.subsystem(name, record),
            Some(("hosts", nqn)) => take_or_note(&mut self.hosts, &mut self.unreadable_hosts, nqn, record),
            _ => Ok(()),
        };
        match taken {
            Ok(()) => Change::Hosts,
            Err(why) => Change::Unreadable(why),
        }
    }

    fn apply_export(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::export_key) else {
            return Change::Nothing;
        };
        // Whoever may use a volume by a record that cannot be read is not known: nobody.
        let before = self.exports.remove(&volume);
        match record.value.as_ref().map(|value| parse(&record.key, value)) {
            Some(Ok(export)) => drop(self.exports.insert(volume, export)),
            Some(Err(why)) => return Change::Unreadable(why),
            None if before.is_none() => return Change::Nothing,
            None => {}
        }
        Change::Export
    }

    fn apply_reservation(&mut self, volume: &str, record: &Record) -> Change {
        let Some(volume) = number(volume, record, map::reservation_key) else {
            return Change::Nothing;
        };
        match record
            .value
            .as_ref()
            .map(|value| parse::<reservation::State>(&record.key, value))
        {
            Some(Ok(state)) => {
                match state.locked {
                    Some(lock) => self.locks.insert(volume, lock),
                    None => self.locks.remove(&volume),
                };
                self.reservations.insert(volume, Arc::new(state));
            }
            Some(Err(why)) => return Change::Unreadable(why),
            None => {
                self.locks.remove(&volume);
                self.reservations.remove(&volume);
            }
        }
        Change::Reservation(volume, record.revision)
    }

    /// The node that serves a store.
    #[must_use]
    pub fn node_of(&self, store: StoreId) -> Option<NodeId> {
        self.stores.get(&store).copied()
    }

    /// The stores that a node serves, in order: what is told to sequencers must not hang on a table's order.
    pub fn stores_of(&self, node: NodeId) -> impl Iterator<Item = StoreId> {
        let stores = self.stores_by_node.get(&node).into_iter().flatten();
        stores.inspect(|_| look()).copied()
    }

    #[must_use]
    pub fn node_record(&self, node: NodeId) -> Option<&map::Node> {
        self.nodes.get(node)
    }

    /// Is it a client's process?
    #[must_use]
    pub fn is_client(&self, node: NodeId) -> bool {
        self.nodes.get(node).is_some_and(|record| record.client)
    }

    /// Does the node hold its key?
    #[must_use]
    pub fn lives(&self, node: NodeId) -> bool {
        self.living.contains_key(&node)
    }

    /// The nodes that hold their keys.
    pub fn living(&self) -> impl Iterator<Item = NodeId> {
        self.living.keys().copied()
    }

    /// The session of a living node's process.
    #[must_use]
    pub fn session(&self, node: NodeId) -> Option<u64> {
        self.living.get(&node).copied()
    }

    /// The volume of that number.
    #[must_use]
    pub fn volume_of(&self, volume: VolumeId) -> Option<&map::Volume> {
        self.volumes.get(volume)
    }

    /// The volume that has this data: the data's own, or, where it is former data, the volume that it was of.
    #[must_use]
    pub fn volume_with(&self, data: VolumeId) -> Option<&map::Volume> {
        let record = self.volume_of(data)?;
        if !record.is_former() {
            return Some(record);
        }
        let volume = self.volume_of(*self.reverted.get(&record.host())?)?;
        Some(volume).filter(|volume| volume.has_data(data))
    }

    /// The gateway that owns a volume, as last heard.
    #[must_use]
    pub fn owner(&self, volume: VolumeId) -> Option<NodeId> {
        self.volume_of(volume)?.owner
    }

    /// The volumes that are gone since this was last asked, and the names that they had.
    pub fn take_deleted(&mut self) -> Vec<(VolumeId, String)> {
        std::mem::take(&mut self.deleted)
    }

    /// The pool of that name.
    #[must_use]
    pub fn pool_of(&self, name: &str) -> Option<PoolId> {
        self.pools.get(name).map(|pool| pool.id)
    }

    /// Bytes of a chunk of a pool's volumes.
    #[must_use]
    pub fn chunk_bytes(&self, pool: &str) -> Option<u32> {
        self.pools.get(pool).map(|pool| pool.chunk_bytes)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &map::Node> {
        self.nodes.iter().map(|(_, node)| node)
    }

    /// The subsystems that NVMe hosts connect to, by name.
    pub fn subsystems(&self) -> impl Iterator<Item = &map::Subsystem> {
        self.subsystems.values()
    }

    /// As what a volume is served by NBD, if it is.
    #[must_use]
    pub fn export(&self, volume: VolumeId) -> Option<&map::Export> {
        self.exports.get(&volume)
    }

    /// Is a volume itself a namespace of a subsystem?
    #[must_use]
    pub fn is_namespace(&self, volume: VolumeId) -> bool {
        self.namespaces.contains_key(&volume)
    }

    /// The volume of that name.
    #[must_use]
    pub fn volume_named(&self, name: &str) -> Option<&map::Volume> {
        self.volumes.held(&map::volume_key(name))
    }

    /// The volumes that are locked, and by whom, as last heard.
    pub fn locks(&self) -> impl Iterator<Item = (VolumeId, reservation::Lock)> {
        self.locks.iter().map(|(volume, lock)| (*volume, *lock))
    }

    /// What is reserved of a volume, as last heard: for notifications only. What I/O is held against is the owner's.
    #[must_use]
    pub fn reservation(&self, volume: VolumeId) -> Option<&Arc<reservation::State>> {
        self.reservations.get(&volume)
    }

    /// The NVMe hosts that have to show something.
    pub fn hosts_with_secrets(&self) -> impl Iterator<Item = &str> {
        let with = self
            .hosts
            .values()
            .filter(|host| host.dhchap.is_some() || host.tls.is_some());
        with.map(|host| host.nqn.as_str())
    }

    /// The NVMe hosts of which there is a record that nobody can read: nobody knows what they have to show.
    pub fn unreadable_hosts(&self) -> impl Iterator<Item = &str> {
        self.unreadable_hosts.iter().map(String::as_str)
    }

    /// An NVMe host.
    #[must_use]
    pub fn host(&self, nqn: &str) -> Option<&map::Host> {
        self.hosts.get(nqn)
    }

    /// The volumes by name.
    pub fn volumes(&self) -> impl Iterator<Item = &map::Volume> {
        self.volumes.by_key()
    }
}

/// What a pool's record says, if it can be: of the pool of this name, of which this is known.
fn read_pool(
    name: &str,
    key: &str,
    value: &[u8],
    created: u64,
    known: Option<&KnownPool>,
) -> Result<KnownPool, String> {
    let pool = parse::<map::Pool>(key, value)?;
    if pool.name != name {
        return Err(format!("{key}: it is of pool {:?}", pool.name));
    }
    pool.check().map_err(|why| format!("{key}: {why}"))?;
    let now = KnownPool {
        id: pool.id,
        chunk_bytes: pool.chunk_bytes,
        created,
    };
    match known.filter(|known| known.created == created) {
        Some(known) if (known.id, known.chunk_bytes) != (now.id, now.chunk_bytes) => Err(format!(
            "{key}: it says number {} and chunks of {} bytes, and the pool has number {} and chunks of {}: these never change",
            now.id, now.chunk_bytes, known.id, known.chunk_bytes
        )),
        _ => Ok(now),
    }
}

/// The number that a key names. A number can be written in several ways, and a record has one key.
fn number<N: Copy + FromStr>(text: &str, record: &Record, key: impl Fn(N) -> String) -> Option<N> {
    text.parse().ok().filter(|number| record.key == key(*number))
}

/// Takes a record into a table, or out of it.
fn take<T: DeserializeOwned>(table: &mut BTreeMap<String, T>, name: &str, record: &Record) -> Result<(), String> {
    match &record.value {
        Some(value) => drop(table.insert(name.to_owned(), parse(&record.key, value)?)),
        None => drop(table.remove(name)),
    }
    Ok(())
}

/// The same, where one that cannot be read is remembered, unless something was known of it: that goes on to hold.
fn take_or_note<T: DeserializeOwned>(
    table: &mut BTreeMap<String, T>,
    unreadable: &mut BTreeSet<String>,
    name: &str,
    record: &Record,
) -> Result<(), String> {
    let taken = take(table, name, record);
    if taken.is_err() && !table.contains_key(name) {
        unreadable.insert(name.to_owned());
    } else {
        unreadable.remove(name);
    }
    taken
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|e| format!("{key}: not a record that this build can read: {e}"))
}

fn recovery(record: &Record) -> Change {
    match record.value.as_ref().map(|value| parse(&record.key, value)) {
        Some(Ok(settings)) => Change::Recovery(Box::new(settings)),
        Some(Err(why)) => Change::Unreadable(why),
        None => Change::Recovery(Box::default()),
    }
}

/// Counts looks at stores, in tests: the same number on every machine.
#[cfg(not(test))]
#[inline(always)]
fn look() {}

#[cfg(test)]
use tests::look;

#[cfg(test)]
mod tests;
