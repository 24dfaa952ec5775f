//! Where stores and nodes stand, and what an operator wants of them.
//!
//! These change records only; the coordinator places groups anew and carries it out, never below the copies there are.
//! What a change will do is worked out beforehand, by the same functions.

use super::status::{Lives, lives};
use super::subsystem::put;
use super::{AdminError, Result, check_name, get, list, nodes, pools, put_if, stores, tries, unchanged};
use crate::candidates::{Standing, candidates};
use amita_metadata::{Call, Compare, Op, Transact};
use amita_types::map::{self, Group, Node, Pool, PoolKind, Store, StoreDuty};
use amita_types::placement::{Level, PlacementError, Plan, is_lawful, replan_pool};
use amita_types::{NodeId, StoreId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Groups that one transaction of a replacement changes.
const GROUPS_AT_ONCE: usize = 60;
/// The fewest characters that name a store by the beginning of its UUID.
const SHORTEST_NAME: usize = 4;

/// What a change of the topology leads to, all pools together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outlook {
    /// Copies of groups that move.
    pub moves: usize,
    /// Groups for which the pool's rule cannot be met: they stay as they are.
    pub unmet: usize,
}

/// Everything that placement rests on.
pub(super) struct Topology {
    pub(super) nodes: Vec<Node>,
    pub(super) stores: Vec<Store>,
    pub(super) pools: Vec<Pool>,
    pub(super) lives: Lives,
}

impl Topology {
    pub(super) fn read(meta: &dyn Transact) -> Result<Topology> {
        Ok(Topology {
            nodes: nodes(meta)?,
            stores: stores(meta)?,
            pools: pools(meta)?,
            lives: lives(meta)?,
        })
    }

    /// What the coordinator would do with a pool's groups. Where nobody can plan them nothing is done.
    pub(super) fn outlook_of(&self, pool: &Pool, groups: &[Group]) -> Outlook {
        let plan = self.plan_of(pool, groups);
        plan.map(|plan| outlook_of_plan(groups, &plan)).unwrap_or_default()
    }

    fn plan_of(&self, pool: &Pool, groups: &[Group]) -> std::result::Result<Plan, PlacementError> {
        let by_id: BTreeMap<NodeId, &Node> = self.nodes.iter().map(|node| (node.id, node)).collect();
        let served: BTreeSet<StoreId> = self
            .stores
            .iter()
            .filter(|store| self.lives.serve(store))
            .map(|store| store.id)
            .collect();
        let standing = |store: StoreId| match served.contains(&store) {
            true => Standing::Serving,
            // How long it has been away is the coordinator's to know.
            false => Standing::Away,
        };
        let candidates = candidates(pool, self.stores.iter(), &by_id, standing);
        let PoolKind::Replicated { copies, .. } = pool.kind else {
            // One of a newer kind, of which nobody here knows the rule.
            return Err(PlacementError::BadCopies { copies: 0 });
        };
        let present: Vec<Vec<StoreId>> = groups.iter().map(|group| group.members.clone()).collect();
        replan_pool(pool.id, &candidates, usize::from(copies), pool.failure_domain, &present)
    }

    fn outlook(&self, meta: &dyn Transact) -> Result<Outlook> {
        let mut all = Outlook::default();
        for pool in &self.pools {
            let groups: Vec<Group> = list(meta, &map::groups_prefix(pool.id))?;
            let one = self.outlook_of(pool, &groups);
            all.moves += one.moves;
            all.unmet += one.unmet;
        }
        Ok(all)
    }
}

fn outlook_of_plan(groups: &[Group], plan: &Plan) -> Outlook {
    let new = |(old, new): (&Group, &Vec<StoreId>)| new.iter().filter(|store| !old.members.contains(store)).count();
    Outlook {
        moves: groups.iter().zip(&plan.members).map(new).sum(),
        unmet: plan.unmet.len(),
    }
}

/// The store of that UUID, or of the only UUID that begins so.
///
/// # Errors
/// There is none, or there are several; the metadata is away.
pub fn find_store(meta: &dyn Transact, name: &str) -> Result<Store> {
    let all = stores(meta)?;
    let name = name.to_ascii_lowercase();
    let begins = |store: &&Store| name.len() >= SHORTEST_NAME && store.id.to_string().starts_with(&name);
    let mut found = all.iter().filter(begins);
    let begins_so = |store: &&Store| store.id.to_string().starts_with(&name);
    match (found.next(), found.next()) {
        (Some(store), None) => Ok(store.clone()),
        _ if !name.is_empty() && all.iter().any(|store| begins_so(&store)) => Err(several(
            &name,
            all.iter().filter(begins_so).map(|store| store.id.to_string()).collect(),
        )),
        _ => Err(AdminError::NoSuch {
            what: "store",
            name,
            there: all.iter().map(|store| store.id.to_string()).collect(),
        }),
    }
}

/// More of the name is needed.
fn several(name: &str, mut stores: Vec<String>) -> AdminError {
    let count = stores.len();
    stores.truncate(crate::nearest::MOST);
    let why = match count {
        1 => format!(
            "write at least {SHORTEST_NAME} characters of it; one begins so: {}",
            stores[0]
        ),
        _ => format!(
            "{count} UUIDs begin so, among them {}; write more of it",
            stores.join(", ")
        ),
    };
    AdminError::BadSetting {
        what: "store",
        name: name.to_owned(),
        why,
    }
}

/// Changes a store's record, and says what follows from it.
fn change_store(meta: &dyn Transact, store: StoreId, change: impl Fn(&mut Store)) -> Result<(Store, Outlook)> {
    let key = map::store_key(store);
    for _ in tries(meta) {
        let Some((old, revision)) = get::<Store>(meta, &key)? else {
            return Err(AdminError::NoSuch {
                what: "store",
                name: store.to_string(),
                there: stores(meta)?.iter().map(|store| store.id.to_string()).collect(),
            });
        };
        let mut new = old.clone();
        change(&mut new);
        let mut topology = Topology::read(meta)?;
        for own in topology.stores.iter_mut().filter(|own| own.id == store) {
            *own = new.clone();
        }
        let outlook = topology.outlook(meta)?;
        if new == old || put_if(meta, &key, revision, &new)? {
            return Ok((new, outlook));
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Has a store's data moved to others, or ends that; a drain that was paused goes on. What cannot go anywhere stays ([`Outlook::unmet`]) until it can.
///
/// # Errors
/// There is no such store; the metadata is away.
pub fn drain_store(meta: &dyn Transact, store: StoreId, undo: bool) -> Result<(Store, Outlook)> {
    let duty = if undo { StoreDuty::Normal } else { StoreDuty::Draining };
    change_store(meta, store, |own| {
        own.duty = duty;
        own.paused = None;
    })
}

/// What a drain would lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainOutlook {
    /// All pools together.
    pub all: Outlook,
    /// The stores that would get copies, and how much each of them at most: millionths of what the drained store holds. Copies that are
    /// on their way already count, since no store has told of them as used.
    pub gains: BTreeMap<StoreId, u64>,
}

/// What [`drain_store`] would lead to; it changes nothing.
///
/// # Errors
/// As [`drain_store`]; nobody can plan the groups of a pool.
pub fn drain_outlook(meta: &dyn Transact, store: StoreId) -> Result<DrainOutlook> {
    let mut topology = Topology::read(meta)?;
    let Some(own) = topology.stores.iter_mut().find(|own| own.id == store) else {
        return Err(AdminError::NoSuch {
            what: "store",
            name: store.to_string(),
            there: topology.stores.iter().map(|store| store.id.to_string()).collect(),
        });
    };
    own.duty = StoreDuty::Draining;
    let mut found = DrainOutlook::default();
    for pool in &topology.pools {
        let groups: Vec<Group> = list(meta, &map::groups_prefix(pool.id))?;
        let plan = topology.plan_of(pool, &groups).map_err(|why| AdminError::Placement {
            pool: pool.name.clone(),
            why,
        })?;
        let one = outlook_of_plan(&groups, &plan);
        found.all.moves += one.moves;
        found.all.unmet += one.unmet;
        for (other, millionths) in gains(store, &groups, &plan) {
            // What of the store's data is of which pool nobody knows: all of it may be of the one that is worst.
            let most = found.gains.entry(other).or_default();
            *most = millionths.max(*most);
        }
    }
    Ok(found)
}

/// What each store gets of a pool: copies that are not whole there yet, in millionths of those that the drained store holds of it.
fn gains(drained: StoreId, groups: &[Group], plan: &Plan) -> BTreeMap<StoreId, u64> {
    let holds = |group: &&Group| group.members.contains(&drained) || group.in_sync.contains(&drained);
    let held = groups.iter().filter(holds).count() as u64;
    let mut copies: BTreeMap<StoreId, u64> = BTreeMap::new();
    for (group, members) in groups.iter().zip(&plan.members).filter(|_| held > 0) {
        for store in members.iter().filter(|store| !group.in_sync.contains(store)) {
            *copies.entry(*store).or_default() += 1;
        }
    }
    copies.remove(&drained);
    copies
        .into_iter()
        .map(|(store, copies)| (store, (copies * 1_000_000).div_ceil(held)))
        .collect()
}

/// Sets a store's weight: how many groups it gets, relative to the others. Without any the store's size counts.
///
/// # Errors
/// As [`drain_store`].
pub fn weigh_store(meta: &dyn Transact, store: StoreId, weight: Option<u32>) -> Result<(Store, Outlook)> {
    change_store(meta, store, |own| {
        own.weight = weight.unwrap_or_else(|| super::weight_of(own.size_bytes));
    })
}

/// Sets a store's device class; the empty one is none.
///
/// # Errors
/// As [`drain_store`]; a bad name.
pub fn classify_store(meta: &dyn Transact, store: StoreId, class: &str) -> Result<(Store, Outlook)> {
    if !class.is_empty() {
        check_name("device class", class)?;
    }
    change_store(meta, store, |own| own.class = class.to_owned())
}

/// What a replacement does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// Groups that the new store takes over.
    pub groups: usize,
    /// Groups that it cannot take over, because it would break the pool's rule: they are drained to others.
    pub others: usize,
}

/// Has a new store take over the groups of an old one, which is drained. The old one serves until the new one is up to
/// date; where it is gone already, the others bring the new one up to date.
///
/// # Errors
/// The new store does not serve, is drained itself, or is of another class; the metadata is away.
pub fn replace_store(meta: &dyn Transact, old: StoreId, new: StoreId) -> Result<Replacement> {
    let topology = Topology::read(meta)?;
    let find = |id: StoreId| topology.stores.iter().find(|store| store.id == id);
    let (Some(from), Some(to)) = (find(old), find(new)) else {
        let name = if find(old).is_none() { old } else { new }.to_string();
        let there = topology.stores.iter().map(|store| store.id.to_string()).collect();
        return Err(AdminError::NoSuch {
            what: "store",
            name,
            there,
        });
    };
    let refuse = |why: String| {
        Err(AdminError::BadSetting {
            what: "store",
            name: new.to_string(),
            why,
        })
    };
    if old == new {
        return refuse("it cannot take its own place".to_owned());
    }
    if to.duty == StoreDuty::Draining {
        return refuse(format!(
            "it is being drained; end that with `amita disk drain --undo {new}`"
        ));
    }
    if !topology.lives.serve(to) {
        return refuse("no living node serves it; start its node first".to_owned());
    }
    if from.class != to.class {
        return refuse(format!(
            "its class is {:?}, that of {old} is {:?}; set it with `amita disk class`",
            to.class, from.class
        ));
    }
    let by_id: BTreeMap<NodeId, &Node> = topology.nodes.iter().map(|node| (node.id, node)).collect();
    let mut result = Replacement::default();
    for pool in &topology.pools {
        let PoolKind::Replicated { copies, .. } = pool.kind else {
            continue;
        };
        // The old store is no candidate any more; whoever else is drained or away does not matter here.
        let others = topology.stores.iter().filter(|store| store.id != old);
        let candidates = candidates(pool, others, &by_id, |_| Standing::Serving);
        let reply = meta.txn(&Call::prefix(map::groups_prefix(pool.id)))?;
        let mut moves: Vec<(String, u64, Group)> = Vec::new();
        for found in reply.values(0) {
            let mut group: Group = super::parse(found)?;
            if !group.members.contains(&old) {
                continue;
            }
            for member in group.members.iter_mut().filter(|member| **member == old) {
                *member = new;
            }
            let twice = group.members.iter().filter(|member| **member == new).count() > 1;
            if !twice && is_lawful(&group.members, &candidates, usize::from(copies), pool.failure_domain) {
                moves.push((found.key.clone(), found.mod_revision, group));
            } else {
                result.others += 1;
            }
        }
        for batch in moves.chunks(GROUPS_AT_ONCE) {
            let call = Call {
                compares: batch
                    .iter()
                    .map(|(key, revision, _)| Compare::ModRevision {
                        key: key.clone(),
                        equals: *revision,
                    })
                    .collect(),
                then: batch
                    .iter()
                    .map(|(key, _, group)| Op::Put {
                        key: key.clone(),
                        value: super::json(group),
                        lease: None,
                    })
                    .collect(),
                otherwise: Vec::new(),
            };
            if meta.txn(&call)?.succeeded {
                result.groups += batch.len();
            } else {
                // Somebody changed one of them meanwhile: the drain sees to these.
                result.others += batch.len();
            }
        }
    }
    drain_store(meta, old, false)?;
    Ok(result)
}

fn change_node(meta: &dyn Transact, name: &str, change: impl Fn(&mut Node)) -> Result<Node> {
    let key = map::node_key(name);
    for _ in tries(meta) {
        let Some((old, revision)) = get::<Node>(meta, &key)? else {
            let there = nodes(meta)?.into_iter().map(|node| node.name).collect();
            return Err(AdminError::NoSuch {
                what: "node",
                name: name.to_owned(),
                there,
            });
        };
        let mut new = old.clone();
        change(&mut new);
        if new == old || put_if(meta, &key, revision, &new)? {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Says where a node stands; `None` leaves it as it is.
///
/// # Errors
/// There is no such node, a bad name; the metadata is away.
pub fn place_node(meta: &dyn Transact, name: &str, site: Option<&str>, rack: Option<&str>) -> Result<(Node, Outlook)> {
    for (what, name) in [("site", site), ("rack", rack)] {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            check_name(what, name)?;
        }
    }
    let node = change_node(meta, name, |own| {
        if let Some(site) = site {
            own.site = site.to_owned();
        }
        if let Some(rack) = rack {
            own.rack = rack.to_owned();
        }
    })?;
    Ok((node, Topology::read(meta)?.outlook(meta)?))
}

/// Begins or ends a node's maintenance: its absence is expected, and its stores are not replaced meanwhile.
///
/// Of several nodes that ask at one time each one is judged by those that were let go before: whoever is let go raises a
/// counter, which the others compare. (A store that fails at that moment is no other than one that fails right after it.)
///
/// # Errors
/// Without the node, writes of some groups would wait (and `force` is not given); there is no such node; the metadata is
/// away.
pub fn maintain_node(meta: &dyn Transact, name: &str, on: bool, force: bool) -> Result<Node> {
    if !on {
        return change_node(meta, name, |own| own.maintenance = false);
    }
    let (key, guard_key) = (map::node_key(name), map::counter_key("maintenance"));
    for _ in tries(meta) {
        // First: what is read after it is at least as new.
        let (let_go, guard) = get::<u64>(meta, &guard_key)?.unwrap_or((0, 0));
        let Some((old, revision)) = get::<Node>(meta, &key)? else {
            return change_node(meta, name, |_| {});
        };
        if !force {
            may_rest(meta, &old)?;
        }
        if old.maintenance {
            return Ok(old);
        }
        let new = Node {
            maintenance: true,
            ..old
        };
        let call = Call {
            compares: vec![unchanged(&key, revision), unchanged(&guard_key, guard)],
            then: vec![put(key.clone(), &new), put(guard_key.clone(), &(let_go + 1))],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(new);
        }
    }
    Err(AdminError::TooManyRaces { key: guard_key })
}

/// Do writes of all groups go on without a node, and without those that are in maintenance?
fn may_rest(meta: &dyn Transact, node: &Node) -> Result<()> {
    let topology = Topology::read(meta)?;
    let rests = |id: NodeId| {
        let found = topology.nodes.iter().find(|node| node.id == id);
        id == node.id || found.is_some_and(|node| node.maintenance)
    };
    let stays: BTreeSet<StoreId> = topology
        .stores
        .iter()
        .filter(|store| topology.lives.serve(store) && !rests(store.node))
        .map(|store| store.id)
        .collect();
    let own: BTreeSet<StoreId> = topology
        .stores
        .iter()
        .filter(|store| store.node == node.id)
        .map(|store| store.id)
        .collect();
    for pool in &topology.pools {
        let PoolKind::Replicated { min_copies, .. } = pool.kind else {
            continue;
        };
        let groups: Vec<Group> = list(meta, &map::groups_prefix(pool.id))?;
        let waits = |group: &&Group| {
            let left = group.in_sync.iter().filter(|store| stays.contains(store)).count();
            left < usize::from(min_copies) && group.in_sync.iter().any(|store| own.contains(store))
        };
        let count = groups.iter().filter(waits).count();
        if count > 0 {
            return Err(AdminError::WouldWait {
                node: node.name.clone(),
                pool: pool.name.clone(),
                groups: count,
                min_copies: usize::from(min_copies),
            });
        }
    }
    Ok(())
}

/// Changes of a pool; `None` leaves what it is.
#[derive(Clone, Debug, Default)]
pub struct PoolChange {
    /// Copies of each block.
    pub copies: Option<u8>,
    /// What may fail as one.
    pub level: Option<Level>,
    /// Only stores of this class; the inner `None`: any.
    pub class: Option<Option<String>>,
}

/// Changes a pool's rule; its groups are placed anew.
///
/// # Errors
/// A setting that makes no sense; the rule could not be met with the stores that there are (and `force` is not given);
/// there is no such pool; the metadata is away.
pub fn change_pool(meta: &dyn Transact, name: &str, change: &PoolChange, force: bool) -> Result<(Pool, Outlook)> {
    let key = map::pool_key(name);
    for _ in tries(meta) {
        let Some((old, revision)) = get::<Pool>(meta, &key)? else {
            let there = pools(meta)?.into_iter().map(|pool| pool.name).collect();
            return Err(AdminError::NoSuch {
                what: "pool",
                name: name.to_owned(),
                there,
            });
        };
        let mut new = old.clone();
        if let (Some(wanted), PoolKind::Replicated { copies, min_copies }) = (change.copies, &mut new.kind) {
            super::pool::check_copies(name, wanted, *min_copies)?;
            *copies = wanted;
        }
        if let Some(level) = change.level {
            new.failure_domain = level;
        }
        if let Some(class) = &change.class {
            if let Some(class) = class {
                check_name("device class", class)?;
            }
            new.class.clone_from(class);
        }
        let groups: Vec<Group> = list(meta, &map::groups_prefix(new.id))?;
        let outlook = Topology::read(meta)?.outlook_of(&new, &groups);
        if outlook.unmet > 0 && !force {
            return Err(AdminError::RuleUnmet {
                pool: name.to_owned(),
                groups: outlook.unmet,
            });
        }
        if new == old || put_if(meta, &key, revision, &new)? {
            return Ok((new, outlook));
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Takes a store's record out of the metadata: it is not coming back.
///
/// # Errors
/// A group still names it; there is none of that UUID; the metadata is away.
pub fn forget_store(meta: &dyn Transact, store: StoreId) -> Result<()> {
    let names = |group: &Group| {
        let syncing = group.syncing.iter().any(|member| member.store == store);
        syncing || group.members.contains(&store) || group.in_sync.contains(&store)
    };
    let mut left = 0;
    for pool in pools(meta)? {
        let groups: Vec<Group> = list(meta, &map::groups_prefix(pool.id))?;
        left += groups.iter().filter(|group| names(group)).count();
    }
    let key = map::store_key(store);
    let Some((_, revision)) = get::<Store>(meta, &key)? else {
        return find_store(meta, &store.to_string()).map(drop);
    };
    if left > 0 {
        return Err(AdminError::StillNeeded { store, groups: left });
    }
    let call = Call {
        compares: vec![Compare::ModRevision {
            key: key.clone(),
            equals: revision,
        }],
        then: vec![
            Op::Delete { key: key.clone() },
            Op::Delete {
                key: map::mount_key(store),
            },
        ],
        otherwise: Vec::new(),
    };
    match meta.txn(&call)?.succeeded {
        true => Ok(()),
        false => Err(AdminError::TooManyRaces { key }),
    }
}
