//! The records of the metadata, change by change: who may move an epoch, from what to what, and on what grounds.
//!
//! * Generations and epochs only rise. The in-sync and syncing sets change only with a new epoch.
//! * An owner of one of the pool's volumes takes members out: in-sync ones never below `min_copies`, syncing ones always.
//! * The elected coordinator takes out stores that no living node serves at that moment, and stores that are no
//!   longer wanted, once enough of the wanted ones are in sync; it lists stores that are to be brought up to date, since
//!   the very epoch that lists them; and it promotes those that every volume's present owner has called whole.
//! * A store is never in sync without having been syncing, and never both.

mod isolation;

use crate::cluster::Cluster;
use crate::cluster::coordinator::{Caller, holder};
use crate::cluster::node::{home, node_id};
use amita_control::coordinator::election_key;
use amita_metadata::{Event, KeyValue};
use amita_reactor::Time;
use amita_types::map::{self, Group};
use amita_types::message::MAX_MEMBERS;
use amita_types::recovery::{HealthReport, SlowPolicy, health_prefix};
use amita_types::{GroupIndex, NodeId, PoolId, StoreId, VolumeId};
use isolation::Isolations;
use std::collections::{BTreeMap, BTreeSet};

/// The metadata as it was at some revision.
#[derive(Default)]
struct Then {
    groups: BTreeMap<String, Group>,
    volumes: BTreeMap<VolumeId, map::Volume>,
    whole: BTreeMap<String, map::Whole>,
    live: BTreeMap<String, map::Live>,
    elected: Option<NodeId>,
    raised: BTreeSet<VolumeId>,
    /// Stores that a node has called slow, where those may leave.
    accused: BTreeSet<StoreId>,
    evicts_slow: bool,
    /// When it was so, or a little before.
    at: Time,
    isolations: Isolations,
}

/// How often what was changed.
#[derive(Default)]
struct Counts {
    moved: u64,
    evicted_by_coordinator: u64,
    evicted_slow: u64,
    isolated: u64,
    back_early: u64,
    /// Those that may not leave.
    in_sync_lost: u64,
    evicted: bool,
    listed: u64,
    dropped: u64,
    promoted: u64,
    volumes: u64,
    taken_over: bool,
}

/// A change of a group's record.
struct Move<'a> {
    pool: PoolId,
    before: &'a Group,
    now: &'a Group,
    min_copies: usize,
    copies: usize,
}

/// Members that the coordinator has taken out, and that somebody wants.
struct Left {
    dead: u64,
    slow: u64,
    /// One that is neither: its node is isolated, or nothing is right about it.
    isolated: Option<StoreId>,
}

impl Cluster {
    /// Goes through the history of the records.
    pub(in crate::cluster) fn judge_metadata(&mut self) -> Result<(), String> {
        let slow = self.setup.coordinator.map(|config| config.slow_stores.policy);
        let mut counts = Counts::default();
        let mut then = Then {
            evicts_slow: slow == Some(SlowPolicy::Evict),
            ..Then::default()
        };
        let state = self.metadata.state();
        for batch in state.history_after(state.compacted()) {
            then.at = then.at.max(self.metadata.made_at(batch.revision));
            // What one transaction writes stands side by side.
            for event in &batch.events {
                match event {
                    Event::Put(kv) => then.note(kv, &mut counts)?,
                    Event::Delete { key, .. } => then.forget(key),
                }
            }
            for event in &batch.events {
                if let Event::Put(kv) = event
                    && kv.key.contains("/groups/")
                {
                    self.judge_group_put(&mut then, kv, &mut counts)?;
                }
            }
        }
        for (path, times) in [
            ("coordinator.evicted", counts.evicted_by_coordinator),
            ("coordinator.evicted_slow", counts.evicted_slow),
            ("network.judged_isolated", counts.isolated),
            ("network.back_early", counts.back_early),
            ("resync.listed", counts.listed),
            ("resync.dropped", counts.dropped),
            ("resync.promoted", counts.promoted),
            ("metadata.groups_changed", counts.moved),
            ("metadata.volume_changed", counts.volumes),
            ("run.taken_over", u64::from(counts.taken_over)),
            ("run.evicted", u64::from(counts.evicted)),
        ] {
            self.coverage.add(path, times);
        }
        if counts.in_sync_lost > 0 && self.setup.expect_no_eviction {
            return Err("a member lost its place though nothing failed".to_owned());
        }
        Ok(())
    }

    fn judge_group_put(&self, then: &mut Then, kv: &KeyValue, counts: &mut Counts) -> Result<(), String> {
        let now: Group = kv.json().map_err(|error| error.to_string())?;
        let Some(before) = then.groups.insert(kv.key.clone(), now.clone()) else {
            return Ok(());
        };
        let pool = (1..=self.setup.pools)
            .map(PoolId)
            .find(|pool| kv.key.starts_with(&map::groups_prefix(*pool)));
        let changed = Move {
            pool: pool.ok_or_else(|| format!("{} is of no pool", kv.key))?,
            before: &before,
            now: &now,
            min_copies: usize::from(self.setup.min_copies),
            copies: usize::from(self.setup.copies),
        };
        let wrong = |why| format!("{}: {why}: from {before:?} to {now:?}", kv.key);
        changed.judge().map_err(wrong)?;
        let name = super::super::pool_name(changed.pool);
        let is_owner = |node| {
            let mut owners = then.volumes.values().filter(|volume| volume.pool == name);
            owners.any(|volume| volume.owner == Some(node))
        };
        match self.metadata.author(kv.mod_revision) {
            // R2, R12: an owner takes members out.
            Some((node, Caller::Core(..))) if is_owner(*node) => {
                changed.judge_owner().map_err(wrong)?;
                if self.are_reached_by_second(then.at) && changed.left().any(|store| then.is_live(store)) {
                    return Err(wrong(
                        "a node that lives was taken for dead, and is reached by its second network",
                    ));
                }
            }
            Some((node, Caller::Coordinator)) if Some(*node) == then.elected => {
                let left = changed.judge_coordinator(then).map_err(wrong)?;
                counts.evicted_by_coordinator += left.dead;
                counts.evicted_slow += left.slow;
                if let Some(store) = left.isolated {
                    let judged = self.judge_isolation(then, &changed, store, counts);
                    judged.map_err(|why| format!("{}: {why}: from {before:?} to {now:?}", kv.key))?;
                }
                self.count_back(then, &changed, counts);
            }
            _ => return Err(wrong("neither an owner nor the coordinator moved the epoch")),
        }
        counts.moved += 1;
        let may_leave = |store: StoreId| self.setup.may_be_evicted == Some(home(store).0);
        counts.in_sync_lost += changed.left().filter(|store| !may_leave(*store)).count() as u64;
        counts.evicted |= changed.left().next().is_some();
        counts.promoted += changed.promoted().count() as u64;
        counts.listed += changed.listed().count() as u64;
        counts.dropped += changed.dropped().count() as u64;
        Ok(())
    }
}

impl Then {
    fn note(&mut self, kv: &KeyValue, counts: &mut Counts) -> Result<(), String> {
        if kv.key.starts_with(&format!("{}live/", map::PREFIX)) {
            let live = kv.json().map_err(|error| format!("{}: {error}", kv.key))?;
            self.live.insert(kv.key.clone(), live);
            self.isolations.lives(&kv.key);
        } else if kv.key.starts_with(&health_prefix()) && self.evicts_slow {
            let report: HealthReport = kv.json().map_err(|error| format!("{}: {error}", kv.key))?;
            let slow = report.stores.iter().filter(|found| found.slow);
            self.accused.extend(slow.map(|found| found.store));
        } else if kv.key == election_key() {
            self.elected = holder(kv);
            self.isolations.forget();
        } else if kv.key.starts_with(&format!("{}whole/", map::PREFIX)) {
            let whole = kv.json().map_err(|error| format!("{}: {error}", kv.key))?;
            self.whole.insert(kv.key.clone(), whole);
        } else if kv.key.starts_with(&map::volume_key("")) {
            let now: map::Volume = kv.json().map_err(|error| error.to_string())?;
            if let Some(before) = self.volumes.insert(now.id, now.clone()) {
                let taken = now.owner != before.owner;
                // A volume that has moved is owned by who owned it, by the switch (M4).
                let taken = taken && !now.lineage.given_back;
                if now.generation < before.generation || (taken && now.generation == before.generation) {
                    return Err(format!("the volume's ownership went from {before:?} to {now:?}"));
                }
                counts.volumes += 1;
                counts.taken_over |= !self.raised.insert(now.id);
            }
        }
        Ok(())
    }

    fn forget(&mut self, key: &str) {
        if self.live.remove(key).is_some() {
            self.isolations.dies(key, self.at);
        }
        self.whole.remove(key);
        let name = key.strip_prefix(&map::volume_key(""));
        self.volumes.retain(|_, volume| Some(volume.name.as_str()) != name);
        self.elected = self.elected.filter(|_| key != election_key());
    }

    /// Does the store's node live and serve it?
    fn is_live(&self, store: StoreId) -> bool {
        let live = self.live.get(&map::live_key(node_id(home(store).0)));
        live.is_some_and(|live| live.stores.as_ref().is_none_or(|serves| serves.contains(&store)))
    }

    /// Does every volume's present owner call the member whole?
    fn is_whole(&self, pool: PoolId, group: GroupIndex, member: map::Syncing) -> bool {
        let name = super::super::pool_name(pool);
        let mut owned = self.volumes.values().filter(|volume| volume.pool == name);
        owned.all(|volume| {
            let whole = self.whole.get(&map::whole_key(pool, volume.id));
            let says = whole.is_some_and(|whole| {
                let listed = map::WholeMember {
                    group,
                    store: member.store,
                    since: member.since,
                };
                whole.generation == volume.generation && whole.members.contains(&listed)
            });
            volume.generation == amita_types::Generation(0) || says
        })
    }
}

impl Move<'_> {
    /// In sync before, and no longer.
    fn left(&self) -> impl Iterator<Item = StoreId> + '_ {
        let stays = |store: &StoreId| self.now.in_sync.contains(store);
        self.before.in_sync.iter().copied().filter(move |store| !stays(store))
    }

    /// In sync now, and not before.
    fn promoted(&self) -> impl Iterator<Item = StoreId> + '_ {
        let was = |store: &StoreId| self.before.in_sync.contains(store);
        self.now.in_sync.iter().copied().filter(move |store| !was(store))
    }

    fn listed(&self) -> impl Iterator<Item = &map::Syncing> {
        let was = |syncing: &&map::Syncing| self.before.syncing.contains(syncing);
        self.now.syncing.iter().filter(move |syncing| !was(syncing))
    }

    /// Syncing before, and now neither that nor in sync.
    fn dropped(&self) -> impl Iterator<Item = &map::Syncing> {
        let stays =
            |syncing: &&map::Syncing| self.now.syncing.contains(syncing) || self.now.in_sync.contains(&syncing.store);
        self.before.syncing.iter().filter(move |syncing| !stays(syncing))
    }

    /// What holds whoever did it.
    fn judge(&self) -> Result<(), &'static str> {
        let (before, now) = (self.before, self.now);
        if now.epoch < before.epoch {
            return Err("the epoch went back");
        }
        if now.epoch == before.epoch && (&now.in_sync, &now.syncing) != (&before.in_sync, &before.syncing) {
            return Err("the in-sync set changed without a new epoch");
        }
        if now.in_sync.len() < self.min_copies {
            return Err("fewer are in sync than the pool allows");
        }
        if now.in_sync.len() + now.syncing.len() > MAX_MEMBERS {
            return Err("a group has more members than it can have");
        }
        let syncing = |store: &StoreId| now.syncing.iter().any(|other| other.store == *store);
        if now.in_sync.iter().any(syncing) {
            return Err("a store is in sync and syncing");
        }
        if let Some(store) = self.promoted().next()
            && !before.syncing.iter().any(|syncing| syncing.store == store)
        {
            return Err("a store came back that nobody brought up to date");
        }
        if self.listed().any(|syncing| syncing.since != now.epoch) {
            return Err("a store is brought up to date since another epoch than the one that lists it");
        }
        Ok(())
    }

    fn judge_owner(&self) -> Result<(), &'static str> {
        if self.promoted().next().is_some() || self.listed().next().is_some() {
            return Err("an owner took a store in");
        }
        if self.now.members != self.before.members {
            return Err("an owner changed who should hold the group");
        }
        Ok(())
    }

    /// Says whom it has taken out.
    fn judge_coordinator(&self, then: &Then) -> Result<Left, &'static str> {
        let (mut evicted, mut slow, mut isolated) = (0, 0, None);
        let wanted = |store: &StoreId| self.now.members.contains(store);
        let enough = self.now.in_sync.iter().filter(|store| wanted(store)).count() >= self.copies;
        for store in self.left() {
            if !then.is_live(store) {
                evicted += 1;
            } else if then.accused.contains(&store) && self.before.in_sync.len() >= self.copies {
                slow += 1;
            } else if (wanted(&store) || !enough) && isolated.replace(store).is_some() {
                return Err("the coordinator evicted two stores that living nodes serve");
            }
        }
        for store in self.promoted() {
            let member = self.before.syncing.iter().find(|syncing| syncing.store == store);
            let member = member.ok_or("looked at before")?;
            if !then.is_whole(self.pool, self.now.index, *member) {
                return Err("the coordinator promoted a store that not every owner has called whole");
            }
        }
        let same = (&self.now.in_sync, &self.now.syncing) == (&self.before.in_sync, &self.before.syncing);
        if same && self.now.members == self.before.members {
            return Err("the coordinator moved an epoch and changed nothing");
        }
        let alone = slow + u64::from(isolated.is_some());
        if alone > 1 || (alone > 0 && evicted > 0) {
            return Err("the coordinator evicted a slow store, or an isolated one, together with another");
        }
        Ok(Left {
            dead: evicted,
            slow,
            isolated,
        })
    }
}
