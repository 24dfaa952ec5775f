//! What the coordinator knows, and how records change it.

use super::batch::Change;
use super::{Action, Coordinator, KnownGroup, KnownPool, Life, Setback, Warning};
use amita_metadata::KeyValue;
use amita_types::map::{self, Group, Live, Node, Pool, PoolKind, Store, StoreDuty, Volume, Whole};
use amita_types::{GroupId, NodeId, PoolId, StoreId, VolumeId};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::time::Duration;

/// What owners of volumes do to groups is told together for so long: each group is a change of its own.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

impl Coordinator {
    pub(super) fn record(&mut self, record: &KeyValue) {
        if self.hear_of_health(record) || self.hear_of_space(record) {
            return;
        }
        let Some(kind) = Kind::of(&record.key) else { return };
        match kind {
            Kind::Live(node) => self.node_lives(node, record),
            Kind::Store => {
                self.dirty = true;
                if let Some(store) = self.parse::<Store>(record) {
                    let node = store.node;
                    let old = self.stores.get(&store.id);
                    let begins = old.is_some_and(|old| old.duty == StoreDuty::Normal);
                    if begins && store.duty == StoreDuty::Draining {
                        let store = store.id;
                        self.actions.push(Action::Warn(Warning::DrainBegun { store }));
                    }
                    if old != Some(&store) {
                        self.plan_soon();
                    }
                    self.stores.insert(store.id, store);
                    let until = self.now.plus(self.config.start_patience);
                    self.nodes.entry(node).or_insert(Life::Unseen(until));
                    self.look_at_service(node);
                }
            }
            Kind::Node => {
                if let Some(node) = self.parse::<Node>(record)
                    && self.hosts.get(&record.key) != Some(&node)
                {
                    self.stirred = true;
                    self.hosts.insert(record.key.clone(), node);
                    self.plan_soon();
                }
            }
            Kind::Pool => {
                self.dirty = true;
                if let Some(pool) = self.parse::<Pool>(record) {
                    let PoolKind::Replicated { copies, min_copies } = pool.kind else {
                        return;
                    };
                    self.pool_keys.insert(record.key.clone(), pool.id);
                    if self.pools.get(&pool.id).is_none_or(|known| known.pool != pool) {
                        self.plan_soon();
                    }
                    let id = pool.id;
                    let known = KnownPool {
                        pool,
                        copies: usize::from(copies),
                        min_copies: usize::from(min_copies),
                    };
                    self.pools.insert(id, known);
                }
            }
            Kind::Group(id) => {
                let group = self.parse::<Group>(record);
                if let Some(group) = group.as_ref().filter(|group| group.index != id.index) {
                    let what = format!("it is of group {}", group.index);
                    self.warn(Warning::Unreadable {
                        key: record.key.clone(),
                        what,
                    });
                }
                let Some(group) = group.filter(|group| group.index == id.index) else {
                    // What was known of it is no longer so; a move of it would only fail.
                    self.forget(id);
                    return;
                };
                self.learn(id, group, record.mod_revision);
            }
            Kind::Volume => {
                self.stirred = true;
                let volume = self.parse::<Volume>(record);
                if let Some(volume) = &volume
                    && let Some(to) = volume.owner
                    && let Some(from) = self.claims.owner_of(&record.key)
                    && from != Some(to)
                {
                    self.actions.push(Action::Warn(Warning::VolumeTaken {
                        volume: volume.name.clone(),
                        from,
                        to,
                    }));
                }
                self.claims.volume(&record.key, volume);
            }
            Kind::Whole(pool, volume) => {
                self.stirred = true;
                let whole = self.parse::<Whole>(record);
                self.claims.whole(pool, volume, record.mod_revision, whole);
            }
            Kind::Raised(pool) => {
                (self.stirred, self.claims.changed) = (true, true);
                self.claims.raised.insert(pool, record.mod_revision);
            }
        }
    }

    fn node_lives(&mut self, node: NodeId, record: &KeyValue) {
        if !self.newer_life(node, record.mod_revision) {
            return;
        }
        self.dirty = true;
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
        if matches!(self.nodes.get(&node), Some(Life::Alive { session: old, .. }) if *old != session) {
            let stores = &self.stores;
            self.serving
                .retain(|store| stores.get(store).is_none_or(|store| store.node != node));
        }
        if matches!(self.nodes.insert(node, life), Some(Life::Gone(_))) {
            self.actions.push(Action::Warn(Warning::NodeBack { node }));
        }
        self.look_at_service(node);
    }

    /// Which of the stores of a living node does it serve? One that it does not is given a moment: longer where it may
    /// be mounting.
    fn look_at_service(&mut self, node: NodeId) {
        let Some(Life::Alive { stopped: false, .. }) = self.nodes.get(&node) else {
            return;
        };
        let own: Vec<StoreId> = self
            .stores
            .iter()
            .filter(|(_, store)| store.node == node)
            .map(|(store, _)| *store)
            .collect();
        for store in own {
            if self.is_serving(store) {
                self.unserved.remove(&store);
                if self.serving.insert(store) {
                    self.plan_soon();
                    self.rest.insert(store, self.now.plus(self.config.rejoin_pause));
                }
            } else {
                let patience = if self.serving.remove(&store) {
                    self.config.patience
                } else {
                    self.config.start_patience
                };
                let until = self.now.plus(patience);
                self.unserved.entry(store).or_insert(until);
            }
        }
    }

    /// Takes a group's record in, unless a newer one is known.
    pub(super) fn learn(&mut self, id: GroupId, group: Group, mod_revision: u64) {
        let old = self.groups.get(&id);
        if old.is_some_and(|known| known.mod_revision >= mod_revision) {
            // A move of it may wait for its end all the same.
            self.stirred = true;
            return;
        }
        let named = |group: &Group| {
            let syncing = group.syncing.iter().map(|own| own.store).collect::<Vec<_>>();
            group.in_sync.iter().copied().chain(syncing).collect::<Vec<_>>()
        };
        let old_group = old.map(|known| known.group.clone());
        let before = old_group.as_ref().map(named).unwrap_or_default();
        self.dirty |= before
            .into_iter()
            .chain(named(&group))
            .any(|store| self.dead_home(store).is_some());
        self.stirred = true;
        if let Some(old) = &old_group {
            self.note_setbacks(id, old, &group);
            let at = self.now.plus(REPORT_PAUSE);
            self.others
                .get_or_insert_with(|| (at, Change::default()))
                .1
                .add(old, &group);
        }
        let settled = group.syncing.is_empty()
            && group.in_sync.len() == group.members.len()
            && group.members.iter().all(|store| group.in_sync.contains(store));
        if settled {
            self.open.remove(&id);
        } else {
            self.open.insert(id);
        }
        self.count_named(old_group.as_ref(), Some(&group));
        match self.groups.get_mut(&id) {
            Some(known) => {
                known.group = group;
                known.mod_revision = mod_revision;
            }
            None => {
                let known = KnownGroup {
                    group,
                    mod_revision,
                    pending: None,
                };
                self.groups.insert(id, known);
            }
        }
    }

    /// Who fell out of a set rests before it is taken in again; who falls out of syncing again and again rests longer
    /// and longer.
    fn note_setbacks(&mut self, id: GroupId, old: &Group, new: &Group) {
        for store in old.in_sync.iter().filter(|store| !new.in_sync.contains(store)) {
            self.rest.insert(*store, self.now.plus(self.config.rejoin_pause));
        }
        for member in old.syncing.iter().filter(|member| !new.syncing.contains(member)) {
            let key = (id, member.store);
            if new.in_sync.contains(&member.store) || !new.members.contains(&member.store) {
                self.setbacks.remove(&key);
                continue;
            }
            let count = self.setbacks.get(&key).map_or(0, |setback| setback.count);
            let factor = 1_u32 << count.min(16);
            let pause = self.config.backoff.0.saturating_mul(factor).min(self.config.backoff.1);
            let setback = Setback {
                count: count + 1,
                until: self.now.plus(pause),
            };
            self.setbacks.insert(key, setback);
        }
    }

    /// Says what volumes' owners have done to groups, a moment's doings at once.
    pub(super) fn report_others(&mut self) {
        match self.others.take_if(|(at, _)| *at <= self.now) {
            Some((_, change)) => {
                let warnings = change.of_owners();
                self.actions.extend(warnings.into_iter().map(Action::Warn));
            }
            None => {
                if let Some((at, _)) = &self.others {
                    self.wake_at(*at);
                }
            }
        }
    }

    pub(super) fn forget(&mut self, id: GroupId) {
        let old = self.groups.remove(&id);
        self.count_named(old.as_ref().map(|known| &known.group), None);
        self.open.remove(&id);
        self.desired.remove(&id);
    }

    fn count_named(&mut self, old: Option<&Group>, new: Option<&Group>) {
        for store in new.map(everybody).unwrap_or_default() {
            *self.named.entry(store).or_default() += 1;
        }
        for store in old.map(everybody).unwrap_or_default() {
            if let Some(count) = self.named.get_mut(&store) {
                *count -= 1;
            }
        }
    }

    pub(super) fn gone(&mut self, key: &str, revision: u64) {
        if self.health_gone(key) || self.space_gone(key) {
            return;
        }
        match Kind::of(key) {
            Some(Kind::Live(node)) => {
                self.dirty = true;
                let until = self.now.plus(self.config.patience);
                if !self.newer_life(node, revision) {
                    return;
                }
                // A client comes and goes, and holds nothing.
                if self.hosts.values().any(|host| host.id == node && host.client) {
                    self.nodes.remove(&node);
                    return;
                }
                if matches!(self.nodes.insert(node, Life::Gone(until)), Some(Life::Alive { .. })) {
                    self.actions.push(Action::Warn(Warning::NodeGone { node }));
                }
                let stores = &self.stores;
                let elsewhere = |store: &StoreId| stores.get(store).is_none_or(|store| store.node != node);
                self.unserved.retain(|store, _| elsewhere(store));
                self.serving.retain(elsewhere);
                self.plan_soon();
            }
            Some(Kind::Store) => {
                let id = key.rsplit('/').next().and_then(|text| text.parse::<StoreId>().ok());
                if let Some(id) = id {
                    self.stores.remove(&id);
                    self.plan_soon();
                    self.unserved.remove(&id);
                    self.serving.remove(&id);
                    self.rest.remove(&id);
                }
            }
            Some(Kind::Node) => {
                self.hosts.remove(key);
                self.plan_soon();
            }
            Some(Kind::Pool) => {
                if let Some(pool) = self.pool_keys.remove(key) {
                    self.pools.remove(&pool);
                }
            }
            Some(Kind::Group(id)) => {
                let known = self.groups.get(&id);
                if known.is_some_and(|known| known.mod_revision < revision) {
                    self.forget(id);
                }
            }
            Some(Kind::Volume) => {
                self.stirred = true;
                self.claims.volume_gone(key);
            }
            Some(Kind::Whole(pool, volume)) => self.claims.whole_gone(pool, volume, revision),
            Some(Kind::Raised(pool)) => {
                (self.stirred, self.claims.changed) = (true, true);
                self.claims.raised.remove(&pool);
            }
            None => {}
        }
    }

    /// Is this change of a node's key newer than what is known? Replies and the watch overtake each other.
    fn newer_life(&mut self, node: NodeId, revision: u64) -> bool {
        let known = self.life_revisions.entry(node).or_default();
        let newer = revision > *known;
        *known = revision.max(*known);
        newer
    }

    pub(super) fn parse<T: DeserializeOwned>(&mut self, record: &KeyValue) -> Option<T> {
        match record.json() {
            Ok(value) => {
                self.standing
                    .retain(|warning| !matches!(warning, Warning::Unreadable { key, .. } if *key == record.key));
                Some(value)
            }
            Err(refusal) => {
                self.warn(Warning::Unreadable {
                    key: record.key.clone(),
                    what: refusal.to_string(),
                });
                None
            }
        }
    }
}

/// Whoever a group names, in whatever set.
fn everybody(group: &Group) -> BTreeSet<StoreId> {
    let syncing = group.syncing.iter().map(|member| member.store);
    let sets = group.members.iter().chain(&group.in_sync).copied();
    sets.chain(syncing).collect()
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
        match kind {
            "live" => rest.parse().ok().map(Kind::Live),
            "nodes" => Some(Kind::Node),
            "stores" => Some(Kind::Store),
            "pools" => Some(Kind::Pool),
            "groups" => {
                let (pool, index) = rest.split_once('/')?;
                Some(Kind::Group(GroupId {
                    pool: pool.parse().ok()?,
                    index: index.parse().ok()?,
                }))
            }
            "volumes" => Some(Kind::Volume),
            "whole" => {
                let (pool, volume) = rest.split_once('/')?;
                Some(Kind::Whole(pool.parse().ok()?, volume.parse().ok()?))
            }
            "raised" => rest.parse().ok().map(Kind::Raised),
            _ => None,
        }
    }
}
