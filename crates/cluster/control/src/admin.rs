//! What an operator, or a node that starts, changes in the metadata.
//!
//! Every change is a compare-and-set that says what it was based on, so that two operators at once cannot undo each
//! other; a lost race is read anew and tried again a few times.

mod about;
mod backup;
mod carry;
mod claim;
mod client;
mod clone;
mod code;
mod copy;
mod deletion;
mod error;
mod export;
mod figures;
mod finalize;
mod flatten;
mod former;
mod host;
mod initiator;
mod iscsi_gateway;
mod job;
mod keys;
mod limit;
mod links;
mod lun;
mod migrate;
mod mirror;
mod moves;
mod namespace;
mod node;
mod nqn;
mod policy;
mod pool;
mod precondition;
mod priority;
mod quota;
mod ready;
mod recovery;
mod reservation;
mod resize;
mod revert;
mod scrub;
mod set;
mod shrink;
mod snapshot;
mod status;
mod subsystem;
mod target;
mod thresholds;
mod token;
mod topology;
mod trash;
mod unreadable;
mod volume;

pub use about::{about, begin_import, end_import, label_volume, may_import, note_import, protect_volume, take_import};
pub use backup::{
    BackupChange, BackupTaskWish, BackupVolumes, RepositoryChange, UnreadableTask, VerifyChange, WishedWork,
    add_backup_repository, backup_policies, backup_policy, backup_repositories, backup_repository, backup_task,
    backup_tasks, backup_volumes, cancel_backup_task, create_backup_policy, create_backup_task, delete_backup_policy,
    note_backup, note_backup_by_rules, note_backup_task, note_backup_task_place, note_backup_verified,
    remove_backup_repository, remove_backup_task, run_backup_policy, set_backup_policy, set_backup_repository,
    verify_backup_policy,
};
pub use claim::{adopt_store, check_claim, claim_store, release_store};
pub use client::{client_number, forget_client, forget_dead_clients, register_client};
pub use clone::{MAX_CLONES, clone_volume, clone_volume_with, clones};
pub use code::Code;
pub use copy::{
    COPY_LABEL, Completion, CopyWish, LEAST_LIMIT, POINT_LABEL, Pass, cancel_copy, complete_copy, copies, copy_of,
    copy_source, copy_target, copy_volume, drop_point_wish, drop_points, end_copy, fit_copy, has_point, next_pass,
    none_copies, note_copy, pause_copy, remove_copy_snapshot, take_copy_snapshot, take_last_snapshot, take_point,
};
pub use deletion::{Deleted, Deletion, Fate, carry_out, delete_volume};
pub use error::AdminError;
pub use export::{ExportSpec, MAX_CLIENT_NAME_BYTES, MAX_EXPORT_CLIENTS, export_volume, exports, unexport_volume};
pub use figures::{
    BackupFigures, BackupTaskFigures, DiskFigures, Figures, MirrorFigures, PoolFigures, StoreFigures, VerifiedFigures,
    figures,
};
pub use finalize::{Versions, finalize, versions};
pub use flatten::{Ended, FlattenState, cancel_flatten, end_flatten, end_flattens, flatten_progress, flatten_volume};
pub use former::{FormerSweep, Swept};
pub use host::{
    HostKeys, MAX_HOSTS, Secret, add_host, allow_host, deny_host, field, host, hosts, remove_host, reseal_host,
    set_host_keys,
};
pub use initiator::{
    ChapUser, InitiatorKeys, MAX_CHAP_USER_BYTES, MAX_INITIATORS, MAX_MASKED, MAX_TARGET_INITIATORS, Mask,
    add_initiator, allow_initiator, chap_field, deny_initiator, hide_disk, initiator, initiators, remove_initiator,
    reseal_initiator, set_initiator_keys,
};
pub use iscsi_gateway::{MAX_PORTALS, iscsi_gateways, register_iscsi_gateway, target_portals};
pub use job::{
    Job, JobAction, JobKind, JobState, JobUnit, cancel_job, copy_job, job, jobs, pause_drain, pause_flatten, pause_job,
    pause_scrub, resume_job,
};
pub use keys::{
    DataKeys, KeyStatus, KeyTrouble, Misplaced, Rewrap, Rewrapped, TenantKey, clear_tenant_key, misplaced_keys,
    opens_by, rewrap_keys, set_tenant_key, tenant_key, tenant_keys, volume_keys, volumes_from, volumes_read_by,
    wrapping_key,
};
pub use limit::{Jointly, joint_limits, limits, set_joint_limits, set_limits, set_tenant, tenancies};
pub use links::{LeftLinks, Links, MAX_BAD_LINKS, links};
pub use lun::{
    LunSpec, LunStatus, MAX_LUNS, add_lun, lun_of, luns, luns_of, remove_disk, remove_lun, usual_block_bytes,
};
pub use migrate::{
    AtRest, Converging, Dressed, LONGEST_HOLD, Lap, MigrateWish, Next, Switched, copy_job_id, dress_move, end_move,
    forget_move_snapshots, is_number_free, may_migrate, may_switch, migrate_action, migrate_volume, move_hold,
    next_move_pass, none_moves, points_ahead, stay_in_pool, switch_volume,
};
pub use mirror::{
    Cutting, Joined, MirrorChange, MirrorWish, TargetWish, USUAL_KEEP, add_mirror, add_mirror_to_join, add_mirrored,
    arrive, begin_pass, begin_return, close_mirrored, complete_mirrored, cut_point, decline_demotion, delete_mirrored,
    demote_mirror, demote_unused, depose_mirror, depose_seen, follow_mirror, force_mirror, gone_back, join_mirror,
    join_mirror_again, joined, leave_mirror, let_points_go, mirror, mirror_by_id, mirror_of, mirrored_volume, mirrors,
    none_closed, note_mirror, open_mirrored, pause_mirror, promote_mirror, ready_mirror, remove_mirror, returned,
    see_mirror, set_mirror, sweep_points, take_back_mirror, tell_mirror_peer,
};
pub use moves::{MoveState, drop_move, move_state, move_volume};
pub use namespace::{
    BLOCK_SIZES, MAX_NAMESPACES, NamespaceStatus, add_namespace, namespace_of, namespaces, namespaces_of,
    remove_namespace,
};
pub use node::{register_as, remove_node, reserve_node};
pub use nqn::{MAX_NQN_BYTES, check_nqn};
pub use policy::{
    KeepChange, PolicyChange, PolicyTarget, Pruning, Retained, changed_policy, create_policy, delete_policy,
    delete_retained, policies, policy, policy_volumes, retained, set_policy,
};
pub use pool::{DEFAULT_CHUNK_BYTES, MAX_GROUPS, MAX_POOLS, PoolSpec, create_pool, delete_pool, groups, pools};
pub use precondition::Precondition;
pub use priority::{LATENCY_TARGETS_US, RESERVATIONS, WEIGHTS, check_priority, priority, set_priority};
pub(crate) use quota::Tally;
pub use quota::{Asked, asked, quota, set_quota};
pub use ready::{Readiness, StoreReadiness, node_ready};
pub use recovery::{RecoveryStatus, SlowStatus, recovery, set_recovery};
pub use reservation::{clear_reservation, reservation};
pub use resize::{resize_mirrored, resize_volume};
pub use revert::{FLATTENED_FROM, Revert, may_revert, revert_volume};
pub use scrub::{cancel_scrub, scrub_state, scrub_volume, scrub_what_is_due};
pub(crate) use set::place_set;
pub use set::{SetSweep, SetTaking, TakenSet, ask_set, drop_set, every_snapshot, set_state, taken_sets};
pub use shrink::{begin_shrink, end_shrink, give_up_shrink, may_shrink, shrink_mirrored};
pub(crate) use snapshot::{Held, Left, delete_snapshot_that, place_wish};
pub use snapshot::{
    LiveSnapshot, MAX_VOLUME_SNAPSHOTS, TakingState, all_snapshots, ask_mirrors_snapshot, ask_own_snapshot,
    ask_snapshot, delete_snapshot, drop_snapshot_wish, live_snapshots, live_snapshots_of, mark_snapshot,
    may_take_snapshot, protect_snapshot, snapshot, snapshot_or_mark, snapshot_state, snapshots, split,
};
pub use status::{
    GroupCounts, IscsiCounts, Members, NodeStatus, NvmeCounts, PoolStatus, Status, StoreStatus, VolumeStatus, members,
    status, volume_statuses,
};
pub(crate) use subsystem::unchanged;
pub use subsystem::{
    MAX_SUBSYSTEM_NAME_BYTES, MAX_SUBSYSTEMS, SubsystemChange, SubsystemSpec, create_subsystem, default_nqn,
    delete_subsystem, set_subsystem, subsystem, subsystems,
};
pub use target::{
    MAX_TARGET_NAME_BYTES, MAX_TARGETS, SpaceWarning, TargetChange, TargetSpec, check_iscsi_name, create_target,
    default_iqn, delete_target, set_target, target, target_names, targets,
};
pub use thresholds::{set_thresholds, thresholds};
pub use token::{
    DEFAULT_TOKEN_LIFE, MAX_TOKEN_LIFE, MAX_TOKENS, MIRROR_TOKEN_RENEWAL, NewToken, check_token, create_mirror_token,
    create_token, end_tokens, is_token_good, revoke_mirror_tokens, revoke_token, tokens,
};
pub use topology::{
    DrainOutlook, Outlook, PoolChange, Replacement, change_pool, classify_store, drain_outlook, drain_store,
    find_store, forget_store, maintain_node, place_node, replace_store, weigh_store,
};
pub use trash::{
    Bin, Purged, PurgedVolume, TrashStatus, purge_volume, purge_what_is_due, recycle_time, set_recycle_time, trash,
    undelete_volume,
};
pub use unreadable::Listed;
pub use volume::{
    MAX_VOLUME_BYTES, MAX_VOLUMES, create_volume, make_encrypted_volume, make_volume, make_volume_of, volume, volumes,
    with_deleted, with_former,
};

use amita_metadata::{Call, KeyValue, Op, Transact};
use amita_types::map::{self, Cluster, Node, Store};
pub use amita_types::name::MAX_NAME_BYTES;
use amita_types::{ClusterId, NodeId, StoreId};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How often a change is tried that others are faster at.
const RACES: u32 = 16;

/// Each try of a change; before each but the first the others are left some time ([`Transact::after_lost`]).
fn tries(meta: &dyn Transact) -> impl Iterator<Item = u32> {
    (0..RACES).inspect(|lost| {
        if *lost > 0 {
            meta.after_lost(*lost);
        }
    })
}

type Result<T> = std::result::Result<T, AdminError>;

/// Is this a name? Letters, digits, `.`, `_` and `-`, not at the start for the last two.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_name(what: &'static str, name: &str) -> Result<()> {
    match amita_types::name::fault(name) {
        None => Ok(()),
        Some(why) => Err(AdminError::BadName {
            what,
            name: name.to_owned(),
            why,
        }),
    }
}

/// The cluster's record.
///
/// # Errors
/// None there yet, or the metadata is away.
pub fn cluster(meta: &dyn Transact) -> Result<Cluster> {
    get(meta, &map::cluster_key())?
        .map(|(record, _)| record)
        .ok_or(AdminError::NoCluster)
}

/// The cluster's record, made with `id` where there is none.
///
/// # Errors
/// The metadata is away or refuses.
pub fn init_cluster(meta: &dyn Transact, id: ClusterId) -> Result<Cluster> {
    let record = Cluster {
        id,
        version: map::NEW_CLUSTER_VERSION,
    };
    let reply = meta.txn(&Call::put_if(map::cluster_key(), 0, json(&record)))?;
    if reply.succeeded {
        return Ok(record);
    }
    let found = reply.value(0).ok_or(AdminError::NoCluster)?;
    parse(found)
}

/// Registers a node under its name, or renews its record: the number stays with the name.
///
/// # Errors
/// A bad name; the metadata is away or refuses.
pub fn register_node(meta: &dyn Transact, name: &str, fabric: &str, nbd: Option<&str>, cores: u32) -> Result<Node> {
    let served = Served {
        fabric,
        fabric2: None,
        nbd,
        nbd_socket: None,
        nvme: None,
        metrics: None,
        api: None,
        cores,
        gateway: false,
        unprotected: false,
    };
    register(meta, name, &served)
}

/// What a node serves, and where.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// Where its fabric is.
    pub fabric: &'a str,
    /// Where its fabric is by its second network.
    pub fabric2: Option<&'a str>,
    /// Where its NBD server is.
    pub nbd: Option<&'a str>,
    /// The path of its NBD server's Unix socket.
    pub nbd_socket: Option<&'a str>,
    /// Where hosts connect by NVMe/TCP.
    pub nvme: Option<&'a str>,
    /// Where its metrics and traces are.
    pub metrics: Option<&'a str>,
    /// Where its REST API is.
    pub api: Option<&'a str>,
    /// How many cores serve.
    pub cores: u32,
    /// Is its certificate that of a gateway?
    pub gateway: bool,
    /// Does its fabric believe whoever reaches it, from other machines too?
    pub unprotected: bool,
}

/// As [`register_node`], with all that a node can serve.
///
/// # Errors
/// As [`register_node`].
pub fn register(meta: &dyn Transact, name: &str, served: &Served<'_>) -> Result<Node> {
    for _ in tries(meta) {
        match register_as(meta, name, reserve_node(meta, name)?, served) {
            // Somebody was faster: the number stays with the name.
            Err(AdminError::NodeTaken { .. }) => {}
            other => return other,
        }
    }
    Err(AdminError::TooManyRaces {
        key: map::node_key(name),
    })
}

/// The number of a node, given now if it has none: its addresses are registered once they are known.
///
/// # Errors
/// As [`register_node`].
pub fn node_number(meta: &dyn Transact, name: &str) -> Result<NodeId> {
    check_name("node", name)?;
    match get::<Node>(meta, &map::node_key(name))? {
        Some((node, _)) => Ok(node.id),
        None => Ok(register_node(meta, name, "", None, 0)?.id),
    }
}

/// Registers a store, or renews its record.
///
/// # Errors
/// The metadata is away or refuses.
pub fn register_store(meta: &dyn Transact, store: &Store) -> Result<()> {
    let key = map::store_key(store.id);
    for _ in tries(meta) {
        let found = get::<Store>(meta, &key)?;
        let (old, revision) = found.map_or((None, 0), |(old, revision)| (Some(old), revision));
        let store = settled_store(store, old.as_ref());
        if old.as_ref() == Some(&store) || put_if(meta, &key, revision, &store)? {
            return Ok(());
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// A store's record as it is to be written: the weight, the class and the duty are the operator's once they are set.
fn settled_store(store: &Store, old: Option<&Store>) -> Store {
    let mut store = store.clone();
    if let Some(old) = old {
        store.weight = old.weight;
        store.duty = old.duty;
        store.paused.clone_from(&old.paused);
        if !old.class.is_empty() {
            store.class.clone_from(&old.class);
        }
    }
    store
}

/// All nodes by name.
///
/// # Errors
/// The metadata is away, or a record is not readable.
pub fn nodes(meta: &dyn Transact) -> Result<Vec<Node>> {
    list(meta, &map::node_key(""))
}

/// All stores.
///
/// # Errors
/// As [`nodes`].
pub fn stores(meta: &dyn Transact) -> Result<Vec<Store>> {
    list(meta, &format!("{}stores/", map::PREFIX))
}

/// A node's name; where there is none, its number.
fn node_name(meta: &dyn Transact, node: NodeId) -> Result<String> {
    let found = nodes(meta)?.into_iter().find(|known| known.id == node);
    Ok(found.map_or_else(|| format!("number {node}"), |known| known.name))
}

/// The next number of a counter: never given twice.
fn next_number(meta: &dyn Transact, counter: &str) -> Result<u64> {
    let key = map::counter_key(counter);
    for _ in tries(meta) {
        let found = get::<u64>(meta, &key)?;
        let (last, revision) = found.unwrap_or((0, 0));
        let next = last.checked_add(1).ok_or_else(|| AdminError::Damaged {
            key: key.clone(),
            what: "no number is left",
        })?;
        if put_if(meta, &key, revision, &next)? {
            return Ok(next);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Nodes and pools have numbers of 32 bits.
fn number(next: u64, counter: &str) -> Result<u32> {
    u32::try_from(next).map_err(|_| AdminError::Damaged {
        key: map::counter_key(counter),
        what: "no number is left",
    })
}

/// Removes a record, whatever it says: one that nobody can read goes by this, too. `false`: there is none.
///
/// # Errors
/// Others change it all the time; the metadata is away or refuses.
pub(crate) fn remove(meta: &dyn Transact, key: &str) -> Result<bool> {
    for _ in tries(meta) {
        let Some(revision) = meta.txn(&Call::get(key))?.value(0).map(|found| found.mod_revision) else {
            return Ok(false);
        };
        let call = Call {
            compares: vec![unchanged(key, revision)],
            then: vec![Op::Delete { key: key.to_owned() }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(true);
        }
    }
    Err(AdminError::TooManyRaces { key: key.to_owned() })
}

pub(crate) fn get<T: DeserializeOwned>(meta: &dyn Transact, key: &str) -> Result<Option<(T, u64)>> {
    let reply = meta.txn(&Call::get(key))?;
    reply
        .value(0)
        .map(|found| Ok((parse(found)?, found.mod_revision)))
        .transpose()
}

pub(crate) fn list<T: DeserializeOwned>(meta: &dyn Transact, prefix: &str) -> Result<Vec<T>> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    reply.values(0).iter().map(parse).collect()
}

/// The names that stand in keys with a prefix, for whoever has named none of them: one whose record nobody can read has a name, too.
fn names_under(meta: &dyn Transact, prefix: &str) -> Result<Vec<String>> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    let names = reply
        .values(0)
        .iter()
        .filter_map(|found| found.key.strip_prefix(prefix));
    Ok(names.filter(|name| !map::is_hidden(name)).map(str::to_owned).collect())
}

fn put_if<T: Serialize>(meta: &dyn Transact, key: &str, revision: u64, record: &T) -> Result<bool> {
    Ok(meta.txn(&Call::put_if(key, revision, json(record)))?.succeeded)
}

fn parse<T: DeserializeOwned>(found: &KeyValue) -> Result<T> {
    Ok(found.json().map_err(amita_metadata::Error::from)?)
}

fn json<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("records of the metadata are plain data")
}

/// A store's record as a node registers it.
#[must_use]
pub fn store_record(id: StoreId, node: NodeId, path: &str, size_bytes: u64) -> Store {
    Store {
        class: String::new(),
        duty: amita_types::map::StoreDuty::Normal,
        paused: None,
        id,
        node,
        path: path.to_owned(),
        size_bytes,
        weight: weight_of(size_bytes),
    }
}

/// A store's weight in MiB: proportional to its capacity unless an operator says otherwise.
fn weight_of(size_bytes: u64) -> u32 {
    (size_bytes >> 20).clamp(1, u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests;
