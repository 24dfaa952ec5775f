//! How records change what the coordinator knows.

use super::batch::Change;
use super::fleet::Life;
use super::groups::{KnownPool, Pools};
use super::warning::Warning;
use super::{Action, Config, Coordinator, plan};
use amita_metadata::KeyValue;
use amita_types::map::{self, Group, Live, Node, Pool, PoolKind, Store, StoreDuty, Volume, Whole};
use amita_types::recovery::{Recovery, SickNetworks, SlowStores, recovery_key};
use amita_types::{GroupId, NodeId, PoolId, StoreId, VolumeId};
use std::time::Duration;

/// What owners of volumes do to groups is told together for so long: each group is a change of its own.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// A record is there, or has changed.
pub(super) fn record(coordinator: &mut Coordinator, record: &KeyValue) {
    if record.key == recovery_key() {
        if let Some(settings) = coordinator.out.parse::<Recovery>(record) {
            set(coordinator, settings.slow_stores, settings.sick_networks);
        }
        return look_at_pools(coordinator);
    }
    if coordinator
        .health
        .hear(&mut coordinator.out, &mut coordinator.due, coordinator.now, record)
        || coordinator
            .networks
            .hear(&mut coordinator.out, &mut coordinator.due, coordinator.now, record)
        || coordinator
            .spaces
            .hear(&mut coordinator.out, coordinator.heard.settled, record)
    {
        return look_at_pools(coordinator);
    }
    let Some(kind) = Kind::of(&record.key) else { return };
    match kind {
        Kind::Live(node) => node_lives(coordinator, node, record),
        Kind::Store => store_record(coordinator, record),
        Kind::Node => node_record(coordinator, record),
        Kind::Pool => pool_record(coordinator, record),
        Kind::Group(id) => group_record(coordinator, id, record),
        Kind::Volume => volume_record(coordinator, record),
        Kind::Whole(pool, volume) => {
            coordinator.due.stirred = true;
            let whole = coordinator.out.parse::<Whole>(record);
            coordinator.claims.whole(pool, volume, record.mod_revision, whole);
        }
        Kind::Raised(pool) => {
            (coordinator.due.stirred, coordinator.claims.changed) = (true, true);
            coordinator.claims.raised.insert(pool, record.mod_revision);
        }
    }
}

/// The operator has set what becomes of what is slow and sick.
fn set(coordinator: &mut Coordinator, slow: SlowStores, sick: SickNetworks) {
    coordinator.health.set(slow);
    coordinator.networks.set(coordinator.now, sick);
    coordinator.due.dirty = true;
    plan::soon(coordinator);
}

/// How full the pools are, if stores have said something new.
pub(super) fn look_at_pools(coordinator: &mut Coordinator) {
    let Coordinator {
        spaces,
        out,
        heard,
        pools,
        groups,
        ..
    } = coordinator;
    spaces.look_at_pools(out, heard.settled, pools, groups);
}

fn node_record(coordinator: &mut Coordinator, record: &KeyValue) {
    let Coordinator { out, fleet, .. } = coordinator;
    let before = fleet.hosts.of(&record.key).cloned();
    out.parse_and::<Node>(record, |node| {
        is_of(record, &map::node_key(&node.name))?;
        fleet
            .hosts
            .put(&record.key, record.create_revision, node.id, node.clone())
    });
    if coordinator.fleet.hosts.of(&record.key) != before.as_ref() {
        plan::soon(coordinator);
    }
}

/// A record stands under the key of what it says to be about.
fn is_of(record: &KeyValue, key: &str) -> Result<(), String> {
    let what = || format!("it says what belongs to {key}");
    (record.key == key).then_some(()).ok_or_else(what)
}

fn store_record(coordinator: &mut Coordinator, record: &KeyValue) {
    coordinator.due.dirty = true;
    let check = |store: &Store| is_of(record, &map::store_key(store.id));
    if let Some(store) = coordinator.out.parse_and(record, check) {
        let node = store.node;
        let old = coordinator.fleet.stores.get(&store.id);
        let begins = old.is_some_and(|old| old.duty == StoreDuty::Normal);
        if begins && store.duty == StoreDuty::Draining {
            let store = store.id;
            coordinator
                .out
                .actions
                .push(Action::Warn(Warning::DrainBegun { store }));
        }
        if old != Some(&store) {
            plan::soon(coordinator);
        }
        coordinator.fleet.stores.insert(store.id, store);
        let until = coordinator.now.plus(coordinator.config.start_patience);
        coordinator.fleet.lives.entry(node).or_insert(Life::Unseen(until));
        look_at_service(coordinator, node);
    }
}

fn pool_record(coordinator: &mut Coordinator, record: &KeyValue) {
    coordinator.due.dirty = true;
    let Coordinator { out, pools, .. } = coordinator;
    let said = |pools: &Pools| pools.of(&record.key).map(|known| known.pool.clone());
    let before = said(pools);
    let mut is_one = false;
    out.parse_and::<Pool>(record, |pool| {
        is_of(record, &map::pool_key(&pool.name))?;
        pool.check()?;
        let PoolKind::Replicated { copies, min_copies } = pool.kind else {
            return Err("a pool of this kind is not known to this version".to_owned());
        };
        is_one = true;
        let known = KnownPool {
            pool: pool.clone(),
            copies: usize::from(copies),
            min_copies: usize::from(min_copies),
        };
        pools.put(&record.key, record.create_revision, pool.id, known)
    });
    if !is_one {
        // How many copies its groups need is not known (any more): they are left alone.
        pools.remove(&record.key);
    }
    if said(pools) != before {
        plan::soon(coordinator);
    }
}

fn group_record(coordinator: &mut Coordinator, id: GroupId, record: &KeyValue) {
    let group = coordinator.out.parse_and(record, |group: &Group| {
        is_of(record, &map::group_key(id.pool, group.index))?;
        group.check()
    });
    let Some(group) = group else {
        // What was known of it is no longer so; a move of it would only fail.
        forget(coordinator, id);
        return;
    };
    learn_group(coordinator, id, group, record.mod_revision);
}

fn volume_record(coordinator: &mut Coordinator, record: &KeyValue) {
    coordinator.due.stirred = true;
    let volume = coordinator.out.parse::<Volume>(record);
    if let Some(volume) = &volume
        && let Some(to) = volume.owner
        && let Some(from) = coordinator.claims.owner_of(&record.key)
        && from != Some(to)
    {
        coordinator.out.actions.push(Action::Warn(Warning::VolumeTaken {
            volume: volume.name.clone(),
            from,
            to,
        }));
    }
    coordinator.claims.volume(&record.key, volume);
}

fn node_lives(coordinator: &mut Coordinator, node: NodeId, record: &KeyValue) {
    if !coordinator.fleet.newer_life(node, record.mod_revision) {
        return;
    }
    coordinator.due.dirty = true;
    // A record that is not understood still says that the node lives.
    let live = record.json::<Live>().ok();
    let session = live.as_ref().map_or(0, |live| live.session);
    let stopped = live.as_ref().is_some_and(|live| live.pid == crate::agent::STOPPED);
    let stores = live
        .and_then(|live| live.stores)
        .map(|stores| stores.into_iter().collect());
    let life = Life::Alive {
        session,
        stopped,
        stores,
    };
    // A process that was started anew mounts its stores: that takes longer than a moment.
    if matches!(coordinator.fleet.lives.get(&node), Some(Life::Alive { session: old, .. }) if *old != session) {
        coordinator.fleet.serves_nothing(node);
    }
    if matches!(coordinator.fleet.lives.insert(node, life), Some(Life::Gone(_))) {
        coordinator.out.actions.push(Action::Warn(Warning::NodeBack { node }));
    }
    look_at_service(coordinator, node);
}

/// Its stores that have begun to be served are brought up to date, after a rest.
fn look_at_service(coordinator: &mut Coordinator, node: NodeId) {
    let begun = coordinator
        .fleet
        .look_at_service(coordinator.now, &coordinator.config, node);
    let until = coordinator.now.plus(coordinator.config.rejoin_pause);
    for store in begun {
        plan::soon(coordinator);
        coordinator.rests.stores.insert(store, until);
    }
}

/// Takes a group's record in, unless a newer one is known.
pub(super) fn learn_group(coordinator: &mut Coordinator, id: GroupId, group: Group, mod_revision: u64) {
    let old = coordinator.groups.all.get(&id);
    if old.is_some_and(|known| known.mod_revision >= mod_revision) {
        // A move of it may wait for its end all the same.
        coordinator.due.stirred = true;
        return;
    }
    let named = |group: &Group| {
        let syncing = group.syncing.iter().map(|own| own.store).collect::<Vec<_>>();
        group.in_sync.iter().copied().chain(syncing).collect::<Vec<_>>()
    };
    let old_group = old.map(|known| known.group.clone());
    let before = old_group.as_ref().map(named).unwrap_or_default();
    coordinator.due.dirty |= before
        .into_iter()
        .chain(named(&group))
        .any(|store| coordinator.fleet.dead_home(coordinator.now, store).is_some());
    coordinator.due.stirred = true;
    if let Some(old) = &old_group {
        coordinator
            .rests
            .note_setbacks(&coordinator.config, coordinator.now, id, old, &group);
        let at = coordinator.now.plus(REPORT_PAUSE);
        coordinator
            .out
            .by_owners
            .get_or_insert_with(|| (at, Change::default()))
            .1
            .add(old, &group);
    }
    coordinator.groups.put(id, group, mod_revision);
}

/// Says what volumes' owners have done to groups, a moment's doings at once.
pub(super) fn report_others(coordinator: &mut Coordinator) {
    match coordinator.out.by_owners.take_if(|(at, _)| *at <= coordinator.now) {
        Some((_, change)) => {
            let warnings = change.of_owners();
            coordinator.out.actions.extend(warnings.into_iter().map(Action::Warn));
        }
        None => {
            if let Some((at, _)) = &coordinator.out.by_owners {
                coordinator.due.wake_at(*at);
            }
        }
    }
}

pub(super) fn forget(coordinator: &mut Coordinator, id: GroupId) {
    coordinator.groups.remove(id);
    coordinator.plan.desired.remove(&id);
}

pub(super) fn gone(coordinator: &mut Coordinator, key: &str, revision: u64) {
    coordinator.out.not_left_alone(key);
    if key == recovery_key() {
        let Config {
            slow_stores,
            sick_networks,
            ..
        } = coordinator.config;
        set(coordinator, slow_stores, sick_networks);
        return look_at_pools(coordinator);
    }
    if coordinator.health.gone(key)
        || coordinator.networks.gone(key)
        || coordinator
            .spaces
            .gone(&mut coordinator.out, coordinator.heard.settled, key)
    {
        return look_at_pools(coordinator);
    }
    match Kind::of(key) {
        Some(Kind::Live(node)) => {
            coordinator.due.dirty = true;
            let until = coordinator.now.plus(coordinator.config.patience);
            if !coordinator.fleet.newer_life(node, revision) {
                return;
            }
            // A client comes and goes, and holds nothing.
            if coordinator.fleet.hosts.get(node).is_some_and(|host| host.client) {
                coordinator.fleet.lives.remove(&node);
                return;
            }
            if matches!(
                coordinator.fleet.lives.insert(node, Life::Gone(until)),
                Some(Life::Alive { .. })
            ) {
                coordinator.out.actions.push(Action::Warn(Warning::NodeGone { node }));
            }
            coordinator.fleet.serves_nothing(node);
            coordinator.fleet.is_asked_for_nothing(node);
            plan::soon(coordinator);
        }
        Some(Kind::Store) => {
            let id = key.rsplit('/').next().and_then(|text| text.parse::<StoreId>().ok());
            if let Some(id) = id.filter(|id| key == map::store_key(*id)) {
                coordinator.fleet.forget(id);
                plan::soon(coordinator);
                coordinator.rests.stores.remove(&id);
            }
        }
        Some(Kind::Node) => {
            coordinator.fleet.hosts.remove(key);
            plan::soon(coordinator);
        }
        Some(Kind::Pool) => {
            coordinator.pools.remove(key);
            plan::soon(coordinator);
        }
        Some(Kind::Group(id)) => {
            let known = coordinator.groups.all.get(&id);
            if known.is_some_and(|known| known.mod_revision < revision) {
                forget(coordinator, id);
            }
        }
        Some(Kind::Volume) => {
            coordinator.due.stirred = true;
            coordinator.claims.volume_gone(key);
        }
        Some(Kind::Whole(pool, volume)) => coordinator.claims.whole_gone(pool, volume, revision),
        Some(Kind::Raised(pool)) => {
            (coordinator.due.stirred, coordinator.claims.changed) = (true, true);
            coordinator.claims.raised.remove(&pool);
        }
        None => {}
    }
}

/// What a key is about, as far as it matters here.
enum Kind {
    Live(NodeId),
    Node,
    Store,
    Pool,
    Group(GroupId),
    Volume,
    Whole(PoolId, VolumeId),
    Raised(PoolId),
}

impl Kind {
    fn of(key: &str) -> Option<Kind> {
        let (kind, rest) = key.strip_prefix(map::PREFIX)?.split_once('/')?;
        // A number can be written in several ways, and a record has one key.
        let (kind, own) = match kind {
            "live" => {
                let node = rest.parse().ok()?;
                (Kind::Live(node), map::live_key(node))
            }
            "groups" => {
                let (pool, index) = rest.split_once('/')?;
                let (pool, index) = (pool.parse().ok()?, index.parse().ok()?);
                (Kind::Group(GroupId { pool, index }), map::group_key(pool, index))
            }
            "whole" => {
                let (pool, volume) = rest.split_once('/')?;
                let (pool, volume) = (pool.parse().ok()?, volume.parse().ok()?);
                (Kind::Whole(pool, volume), map::whole_key(pool, volume))
            }
            "raised" => {
                let pool = rest.parse().ok()?;
                (Kind::Raised(pool), map::raised_key(pool))
            }
            "nodes" => return Some(Kind::Node),
            "stores" => return Some(Kind::Store),
            "pools" => return Some(Kind::Pool),
            "volumes" => return Some(Kind::Volume),
            _ => return None,
        };
        (key == own).then_some(kind)
    }
}
