//! Parts of a status, for who needs no more: what the cluster is made of, and its volumes.

use super::{
    Lives, Named, NodeStatus, PoolStatus, Reader, Result, StoreStatus, Topology, VolumeStatus, any, conditions, count,
    lives, total,
};
use amita_metadata::Transact;
use amita_types::condition::{Failing, StoreSpace, Trouble};
use amita_types::map::{
    self, About, Export, Flatten, Group, IscsiGateway, Node, Parent, Pool, Snapshot, Store, Tenancy, Trashed, Volume,
};
use amita_types::{NodeId, SnapshotId, StoreId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Members {
    /// Nodes by name.
    pub nodes: Vec<NodeStatus>,
    pub stores: Vec<StoreStatus>,
    /// Pools by name.
    pub pools: Vec<PoolStatus>,
}

/// What else was found on the way.
pub(super) struct Seen {
    pub(super) lives: Lives,
    pub(super) names: BTreeMap<NodeId, String>,
    pub(super) living: BTreeSet<NodeId>,
    pub(super) troubles: Vec<(NodeId, Trouble)>,
}

/// What the cluster is made of, and how that is: a [`super::status()`] without its volumes and all that rests on them.
///
/// # Errors
/// The metadata is away.
pub fn members(meta: &dyn Transact) -> Result<Members> {
    members_of(&mut Reader::new(meta)).map(|(members, _)| members)
}

pub(super) fn members_of(reader: &mut Reader<'_>) -> Result<(Members, Seen)> {
    let meta = reader.meta;
    let topology = Topology {
        nodes: reader.list(&map::node_key(""), any)?,
        stores: reader.list(&format!("{}stores/", map::PREFIX), any)?,
        pools: reader.list(&map::pool_key(""), Pool::check)?,
        lives: lives(meta)?,
    };
    let lives = &topology.lives;
    let names: BTreeMap<NodeId, String> = topology.nodes.iter().map(|node| (node.id, node.name.clone())).collect();
    let homes: BTreeMap<StoreId, &Store> = topology.stores.iter().map(|store| (store.id, store)).collect();
    let is_alive = |store: &StoreId| homes.get(store).is_some_and(|store| lives.serve(store));

    let living: BTreeSet<NodeId> = names.keys().copied().filter(|node| lives.alive(*node)).collect();
    let (spaces, troubles) = conditions(meta, &living)?;

    let mut counts: BTreeMap<StoreId, Named> = BTreeMap::new();
    let mut pools = Vec::new();
    for pool in &topology.pools {
        let groups: Vec<Group> = reader.list(&map::groups_prefix(pool.id), Group::check)?;
        let mut stores: BTreeSet<StoreId> = BTreeSet::new();
        for group in &groups {
            let syncing: Vec<StoreId> = group.syncing.iter().map(|member| member.store).collect();
            let everybody: BTreeSet<StoreId> = group
                .members
                .iter()
                .chain(&group.in_sync)
                .chain(&syncing)
                .copied()
                .collect();
            for &store in &everybody {
                let own = counts.entry(store).or_default();
                own.all += 1;
                own.member += usize::from(group.members.contains(&store));
                own.in_sync += usize::from(group.in_sync.contains(&store));
                own.syncing += usize::from(syncing.contains(&store));
            }
            stores.extend(everybody);
        }
        let known = || stores.iter().filter_map(|store| spaces.get(store));
        pools.push(PoolStatus {
            group_counts: count(pool, &groups, is_alive),
            outlook: topology.outlook_of(pool, &groups),
            pool: pool.clone(),
            raw_bytes: total(known().map(|space| space.capacity_bytes)),
            used_bytes: total(known().map(StoreSpace::used_bytes)),
            fullest_percent: known().map(StoreSpace::used_percent).max(),
            stores: stores.into_iter().collect(),
        });
    }
    let stores = topology
        .stores
        .iter()
        .map(|store| {
            let own = counts.get(&store.id).copied().unwrap_or_default();
            StoreStatus {
                node_name: names.get(&store.node).cloned().unwrap_or_default(),
                alive: lives.serve(store),
                groups: own.member,
                in_sync: own.in_sync,
                syncing: own.syncing,
                named: own.all,
                space: spaces.get(&store.id).copied(),
                store: store.clone(),
            }
        })
        .collect();
    let speak_iscsi: Vec<IscsiGateway> = reader.list(&map::iscsi_gateways_prefix(), any)?;
    // A record of another node of that name is one that is gone; that of a node that is away says where it will be again.
    let mut gateways: BTreeMap<(NodeId, String), IscsiGateway> = speak_iscsi
        .into_iter()
        .filter(|gateway| lives.speaks(gateway) || !lives.alive(gateway.node))
        .filter(|gateway| !gateway.portals.is_empty())
        .map(|gateway| ((gateway.node, gateway.name.clone()), gateway))
        .collect();
    let nodes = topology
        .nodes
        .iter()
        .map(|node| {
            let gateway = gateways.remove(&(node.id, node.name.clone()));
            NodeStatus {
                alive: lives.alive(node.id),
                iscsi_tag: gateway.as_ref().map(|gateway| gateway.tag),
                iscsi: gateway.map(|gateway| gateway.portals).unwrap_or_default(),
                node: node.clone(),
            }
        })
        // A client that is gone is nobody's loss; its record goes when the next one comes.
        .filter(|found| found.alive || !found.node.client)
        .collect();
    let members = Members { nodes, stores, pools };
    let seen = Seen {
        lives: topology.lives,
        names,
        living,
        troubles,
    };
    Ok((members, seen))
}

/// The volumes by name, but for those that are deleted.
///
/// # Errors
/// The metadata is away.
pub fn volume_statuses(meta: &dyn Transact) -> Result<Vec<VolumeStatus>> {
    let mut reader = Reader::new(meta);
    let nodes: Vec<Node> = reader.list(&map::node_key(""), any)?;
    let names: BTreeMap<NodeId, String> = nodes.into_iter().map(|node| (node.id, node.name)).collect();
    let lives = lives(meta)?;
    let living = names.keys().copied().filter(|node| lives.alive(*node)).collect();
    let (_, troubles) = conditions(meta, &living)?;
    volumes_of(&mut reader, &names, &lives, &troubles).map(|(volumes, _)| volumes)
}

/// The volumes, and how many deleted ones there are.
pub(super) fn volumes_of(
    reader: &mut Reader<'_>,
    names: &BTreeMap<NodeId, String>,
    lives: &Lives,
    troubles: &[(NodeId, Trouble)],
) -> Result<(Vec<VolumeStatus>, usize)> {
    let exports: Vec<Export> = reader.list(&map::exports_prefix(), any)?;
    let mut exported: BTreeMap<VolumeId, Export> = exports.into_iter().map(|export| (export.volume, export)).collect();
    let abouts: Vec<About> = reader.list(&map::about_prefix(), About::check)?;
    let abouts: BTreeMap<VolumeId, About> = abouts.into_iter().map(|about| (about.volume, about)).collect();
    let flattens: Vec<Flatten> = reader.list(&map::flattens_prefix(), any)?;
    let mut flattens: BTreeMap<VolumeId, Flatten> = flattens.into_iter().map(|found| (found.volume, found)).collect();
    let tenancies: Vec<Tenancy> = reader.list(&map::tenancies_prefix(), any)?;
    let mut tenants: BTreeMap<VolumeId, String> = tenancies
        .into_iter()
        .map(|found| (found.volume, found.tenant))
        .collect();
    let volumes: Vec<Volume> = reader.list(&map::volume_key(""), any)?;
    let deleted_volumes = volumes.iter().filter(|volume| volume.is_deleted()).count();
    let (mut parents, mut children) = families(reader, &volumes)?;
    let locked = |volume: VolumeId| {
        let mut troubles = troubles.iter().map(|(_, trouble)| trouble);
        let found = troubles.find(|found| (found.volume, found.what) == (volume, Failing::Locked));
        found.map(|found| found.why.clone())
    };
    let volumes = volumes
        .into_iter()
        .filter(|volume| !map::is_hidden(&volume.name))
        .map(|volume| {
            let data_key_since = oldest_key(&volume, &abouts);
            let about = abouts.get(&volume.id).cloned().unwrap_or_else(|| About::of(volume.id));
            VolumeStatus {
                stable_id: volume.host(),
                owner_name: volume.owner.and_then(|owner| names.get(&owner).cloned()),
                owner_alive: volume.owner.is_some_and(|owner| lives.alive(owner)),
                export: exported.remove(&volume.id),
                created_at: about.created_at,
                labels: about.labels,
                protected: about.protected,
                import: about.import,
                tenant: tenants.remove(&volume.id),
                encrypted: volume.keys.is_some(),
                data_key_since,
                locked: locked(volume.id),
                shrink: about.shrink,
                flatten: flattens.remove(&volume.id),
                parent: parents.remove(&volume.id),
                clones: children.remove(&volume.host()).unwrap_or_default(),
                volume,
            }
        })
        .collect();
    Ok((volumes, deleted_volumes))
}

/// Since when there is the oldest data key that the volume is read by. What it was itself is known by what is known of it; of what a clone came from
/// nobody knows it when that is gone, or is another image by now.
fn oldest_key(volume: &Volume, abouts: &BTreeMap<VolumeId, About>) -> Option<u64> {
    let oldest = volume.keys.as_ref()?.eras().first()?.key.image;
    let of = if volume.has_data(oldest) { volume.id } else { oldest };
    let about = abouts.get(&of)?;
    about.keyed_at.or(about.created_at)
}

/// What each clone comes from, as VOLUME@SNAPSHOT; and how many clones volumes have, by the numbers by which hosts know them.
type Families = (BTreeMap<VolumeId, String>, BTreeMap<VolumeId, usize>);

/// Where the record of a deleted volume, or of a snapshot, cannot be read, a clone's parent has no name but its numbers. What a volume was
/// itself is none.
fn families(reader: &mut Reader<'_>, volumes: &[Volume]) -> Result<Families> {
    let trash: Vec<Trashed> = reader.list(&map::trash_prefix(), any)?;
    let trash: BTreeMap<VolumeId, String> = trash.into_iter().map(|found| (found.volume, found.name)).collect();
    let hosts: BTreeMap<VolumeId, VolumeId> = volumes.iter().map(|volume| (volume.id, volume.host())).collect();
    let host_of = |data: VolumeId| hosts.get(&data).copied().unwrap_or(data);
    let foreign = |volume: &Volume| {
        let mut parents = volume.parents.iter();
        parents.find(|parent| host_of(parent.volume) != volume.host()).copied()
    };
    let parents: BTreeMap<VolumeId, Parent> = volumes
        .iter()
        .filter_map(|volume| Some((volume.id, foreign(volume)?)))
        .collect();
    let called = |volume: &Volume| match map::is_hidden(&volume.name) {
        false => Some(volume.name.clone()),
        true => trash.get(&volume.id).map(|name| format!("{name} (deleted)")),
    };
    let origins: BTreeSet<VolumeId> = parents.values().map(|parent| host_of(parent.volume)).collect();
    let origins = volumes
        .iter()
        .filter(|volume| origins.contains(&volume.host()) && !volume.is_former());
    let origins: BTreeMap<VolumeId, String> = origins
        .filter_map(|volume| Some((volume.host(), called(volume)?)))
        .collect();
    let keys: BTreeSet<String> = parents
        .values()
        .map(|parent| map::snapshot_key(parent.volume, parent.number))
        .collect();
    let snapshots: Vec<Snapshot> = reader.get_all(keys.into_iter().collect())?;
    let snapshots: BTreeMap<(VolumeId, SnapshotId), Snapshot> = snapshots
        .into_iter()
        .map(|snapshot| ((snapshot.volume, snapshot.number), snapshot))
        .collect();
    let name_of = |parent: &Parent| {
        let origin = origins
            .get(&host_of(parent.volume))
            .or_else(|| trash.get(&parent.volume))?;
        let snapshot = snapshots.get(&(parent.volume, parent.number))?;
        Some(match snapshot.hidden {
            false => format!("{origin}@{}", snapshot.name),
            true => format!("{origin}@{} (deleted)", snapshot.name),
        })
    };
    let named = parents.iter().map(|(clone, parent)| {
        let number = || format!("{}@{}", parent.volume, parent.number.0);
        (*clone, name_of(parent).unwrap_or_else(number))
    });
    Ok((named.collect(), crate::admin::clone::counts(volumes)))
}
