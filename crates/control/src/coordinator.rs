//! The coordinator: takes the stores of dead nodes out of the in-sync sets of their groups.
//!
//! **The story.** A node says that it lives by a key under its lease (`/amita/live/ID`). When it dies the lease expires,
//! the key goes, and writes to its groups would wait for answers that never come. Any sequencer that notices moves the
//! groups that it writes to by itself (R12); the coordinator moves all the others, so that the next takeover does not
//! have to wait, and says what cannot be helped.
//!
//! **Mechanism.** Every node runs this state machine and feeds it the records of the metadata, first all of them and then
//! each change; only the elected one acts. An eviction is a batched transaction over many groups. It is carried out only
//! if each group's record is the one that the decision was made on, the node's key is still gone, and this coordinator
//! is still elected: what a watch told is a hint, and the compare decides. A batch that fails reads what is there, and
//! the decision is made anew.
//!
//! **Limits.** An in-sync set never shrinks below the pool's `min_copies` (R10). Where too few living members would be
//! left nobody is evicted, not even a part: whoever of the dead comes back first then serves again.
//!
//! **Patience.** A node whose lease is gone may be starting again: it gets a moment. One that this machine has not seen
//! alive at all is not dead, it may be about to start with the rest of the cluster: it gets a longer one.

mod evict;
mod warning;

pub use warning::Warning;

use amita_cluster::map::{self, Group, Pool, PoolKind, Store};
use amita_cluster::{GroupId, NodeId, PoolId, StoreId};
use amita_meta::{Call, Error, KeyValue, Reply};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The key that the coordinator holds under its lease.
#[must_use]
pub fn election_key() -> String {
    format!("{}coordinator", map::PREFIX)
}

/// The coordinator's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long after its lease is gone a node may come back before its stores are evicted. Sequencers that wait for
    /// one of its stores do not wait so long (R12).
    pub patience: Duration,
    /// How long a node that was not seen alive yet may take to start.
    pub start_patience: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            patience: Duration::from_secs(2),
            start_patience: Duration::from_secs(60),
        }
    }
}

/// A transaction of unknown outcome is read back after this.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A moment: the time since any fixed zero of a monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Moment {
    fn plus(self, after: Duration) -> Moment {
        Moment(self.0 + after)
    }
}

/// Names a call of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallNumber(pub u64);

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A record of the metadata as it is now: each one at the start, and each one that was written since.
    Record(KeyValue),
    /// A record was deleted.
    Gone {
        /// Its key.
        key: String,
        /// The revision of the deletion.
        revision: u64,
    },
    /// All records have been handed over: decisions can be made.
    Settled,
    /// This node was elected: it created the election key at that revision.
    Elected {
        /// The key's `create_revision`.
        revision: u64,
    },
    /// This node is not (any longer) the coordinator.
    Deposed,
    /// A call has ended.
    Ended {
        /// Which.
        call: CallNumber,
        /// How.
        result: Result<Reply, Error>,
    },
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Carry out a transaction and hand its result to [`Event::Ended`].
    Call {
        /// Which.
        number: CallNumber,
        /// What.
        call: Call,
    },
    /// Tell the operator.
    Warn(Warning),
}

/// A node's liveness as this machine has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Its key is there.
    Alive,
    /// Its key was there and is gone: it may be evicted from this moment on.
    Gone(Moment),
    /// Its key was not there yet: it may be evicted from this moment on.
    Unseen(Moment),
}

#[derive(Clone, Debug)]
struct KnownGroup {
    group: Group,
    mod_revision: u64,
    /// The call that is moving it, or reading it back.
    pending: Option<CallNumber>,
}

#[derive(Clone, Debug)]
struct KnownPool {
    name: String,
    min_copies: usize,
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Coordinator {
    now: Moment,
    config: Config,
    settled: bool,
    elected: Option<u64>,
    stores: BTreeMap<StoreId, NodeId>,
    pools: BTreeMap<PoolId, KnownPool>,
    /// The pools' names and numbers: a deletion tells only the key.
    pool_keys: BTreeMap<String, PoolId>,
    groups: BTreeMap<GroupId, KnownGroup>,
    nodes: BTreeMap<NodeId, Life>,
    /// The newest revision at which each node's key was seen to change.
    life_revisions: BTreeMap<NodeId, u64>,
    next_call: u64,
    pending: BTreeMap<CallNumber, evict::Batch>,
    /// Groups to be read back at this moment: what became of them is not known.
    unsure: Option<(Moment, BTreeSet<GroupId>)>,
    /// What was warned of and still is so.
    standing: BTreeSet<Warning>,
    /// Something has changed that decisions rest on.
    dirty: bool,
    actions: Vec<Action>,
}

impl Coordinator {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Coordinator {
        Coordinator {
            config,
            ..Coordinator::default()
        }
    }

    /// Takes an event in; returns what to do about it, in order.
    pub fn apply(&mut self, now: Moment, event: Event) -> Vec<Action> {
        self.now = self.now.max(now);
        // Of the many changes of records few matter here: they say so themselves.
        self.dirty |= !matches!(event, Event::Record(_) | Event::Gone { .. });
        match event {
            Event::Record(record) => self.record(&record),
            Event::Gone { key, revision } => self.gone(&key, revision),
            Event::Settled => self.settle(),
            Event::Elected { revision } => self.elected = Some(revision),
            Event::Deposed => {
                self.elected = None;
                self.standing.clear();
            }
            Event::Ended { call, result } => self.ended(call, result),
            Event::Tick => {}
        }
        if std::mem::take(&mut self.dirty) {
            self.decide();
        }
        self.check();
        std::mem::take(&mut self.actions)
    }

    /// When [`Event::Tick`] is wanted next.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        if !self.settled || self.elected.is_none() {
            return None;
        }
        let unsure = self.unsure.as_ref().map(|(at, _)| *at);
        let lives = self.nodes.values().filter_map(|life| match life {
            Life::Gone(until) | Life::Unseen(until) => Some(*until).filter(|until| *until > self.now),
            Life::Alive => None,
        });
        lives.chain(unsure).min()
    }

    /// The nodes whose keys are there.
    pub fn alive(&self) -> impl Iterator<Item = NodeId> {
        self.nodes
            .iter()
            .filter(|(_, life)| **life == Life::Alive)
            .map(|(node, _)| *node)
    }

    fn record(&mut self, record: &KeyValue) {
        let Some(kind) = Kind::of(&record.key) else { return };
        match kind {
            Kind::Live(node) => {
                let newer = self.newer_life(node, record.mod_revision);
                self.dirty |= newer;
                if newer && matches!(self.nodes.insert(node, Life::Alive), Some(Life::Gone(_))) {
                    self.actions.push(Action::Warn(Warning::NodeBack { node }));
                }
            }
            Kind::Store => {
                self.dirty = true;
                if let Some(store) = self.parse::<Store>(record) {
                    self.stores.insert(store.id, store.node);
                    let until = self.now.plus(self.config.start_patience);
                    self.nodes.entry(store.node).or_insert(Life::Unseen(until));
                }
            }
            Kind::Pool => {
                self.dirty = true;
                if let Some(pool) = self.parse::<Pool>(record) {
                    let PoolKind::Replicated { min_copies, .. } = pool.kind else {
                        return;
                    };
                    self.pool_keys.insert(record.key.clone(), pool.id);
                    self.pools.insert(
                        pool.id,
                        KnownPool {
                            name: pool.name,
                            min_copies: usize::from(min_copies),
                        },
                    );
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
                    self.groups.remove(&id);
                    return;
                };
                self.learn(id, group, record.mod_revision);
            }
        }
    }

    /// Takes a group's record in, unless a newer one is known.
    fn learn(&mut self, id: GroupId, group: Group, mod_revision: u64) {
        let old = self
            .groups
            .get(&id)
            .map(|known| known.group.in_sync.as_slice())
            .unwrap_or_default();
        self.dirty |= old
            .iter()
            .chain(&group.in_sync)
            .any(|store| self.dead_home(*store).is_some());
        match self.groups.get_mut(&id) {
            Some(known) if known.mod_revision >= mod_revision => {}
            Some(known) => {
                known.group = group;
                known.mod_revision = mod_revision;
            }
            None => {
                self.groups.insert(
                    id,
                    KnownGroup {
                        group,
                        mod_revision,
                        pending: None,
                    },
                );
            }
        }
    }

    fn gone(&mut self, key: &str, revision: u64) {
        match Kind::of(key) {
            Some(Kind::Live(node)) => {
                self.dirty = true;
                let until = self.now.plus(self.config.patience);
                if self.newer_life(node, revision) && self.nodes.insert(node, Life::Gone(until)) == Some(Life::Alive) {
                    self.actions.push(Action::Warn(Warning::NodeGone { node }));
                }
            }
            Some(Kind::Store) => {
                let id = key.rsplit('/').next().and_then(|text| text.parse::<StoreId>().ok());
                if let Some(id) = id {
                    self.stores.remove(&id);
                }
            }
            Some(Kind::Pool) => {
                if let Some(pool) = self.pool_keys.remove(key) {
                    self.pools.remove(&pool);
                }
            }
            Some(Kind::Group(id)) => {
                let known = self.groups.get(&id);
                if known.is_some_and(|known| known.mod_revision < revision) {
                    self.groups.remove(&id);
                }
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

    fn settle(&mut self) {
        self.settled = true;
        // Patience counts from the moment when all is known.
        let until = self.now.plus(self.config.start_patience);
        for life in self.nodes.values_mut() {
            if let Life::Unseen(own) = life {
                *own = until;
            }
        }
    }

    fn parse<T: DeserializeOwned>(&mut self, record: &KeyValue) -> Option<T> {
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

    /// Warns, once for as long as it is so.
    fn warn(&mut self, warning: Warning) {
        if self.standing.insert(warning.clone()) {
            self.actions.push(Action::Warn(warning));
        }
    }

    /// May the stores of this node be evicted?
    fn is_dead(&self, node: NodeId) -> bool {
        match self.nodes.get(&node) {
            Some(Life::Gone(until) | Life::Unseen(until)) => *until <= self.now,
            Some(Life::Alive) | None => false,
        }
    }

    /// Does the store's node hold its key? One of an unknown node does not.
    fn is_alive(&self, store: StoreId) -> bool {
        self.stores
            .get(&store)
            .is_some_and(|node| self.nodes.get(node) == Some(&Life::Alive))
    }

    fn call(&mut self, call: Call) -> CallNumber {
        let number = CallNumber(self.next_call);
        self.next_call += 1;
        self.actions.push(Action::Call { number, call });
        number
    }

    /// What must hold after each event.
    fn check(&self) {
        for (id, known) in &self.groups {
            if let Some(number) = known.pending {
                assert!(
                    self.pending.contains_key(&number),
                    "group {id} waits for a call that is not under way"
                );
            }
        }
    }
}

/// What a key is about, as far as it matters here.
enum Kind {
    Live(NodeId),
    Store,
    Pool,
    Group(GroupId),
}

impl Kind {
    fn of(key: &str) -> Option<Kind> {
        let (kind, rest) = key.strip_prefix(map::PREFIX)?.split_once('/')?;
        match kind {
            "live" => rest.parse().ok().map(Kind::Live),
            "stores" => Some(Kind::Store),
            "pools" => Some(Kind::Pool),
            "groups" => {
                let (pool, index) = rest.split_once('/')?;
                Some(Kind::Group(GroupId {
                    pool: pool.parse().ok()?,
                    index: index.parse().ok()?,
                }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
