//! The coordinator: takes stores that are gone out of the in-sync sets of their groups, and brings them back.
//!
//! **The story.** A node says that it lives, and which stores it serves, by a key under its lease (`/amita/live/ID`). When
//! it dies the lease expires, the key goes, and writes to its groups would wait for answers that never come. Any
//! sequencer that notices moves the groups that it writes to by itself (R12); the coordinator moves all the others, so
//! that the next takeover does not have to wait, and says what cannot be helped. When the store is there again, or
//! another is to hold the group in its place, the coordinator lists it as syncing; the owners of the volumes bring it up
//! to date and say when it is whole; the coordinator takes it into the in-sync set.
//!
//! **Mechanism.** Every node runs this state machine and feeds it the records of the metadata, first all of them and then
//! each change; only the elected one acts. What it does is a batched transaction over many groups. It is carried out only
//! if each group's record is the one that the decision was made on, the nodes that it rests on are still gone, or still
//! there, and this coordinator is still elected: what a watch told is a hint, and the compare decides. A batch that fails
//! reads what is there, and the decision is made anew.
//!
//! * [`learn`]: what is known, and how records change it.
//! * [`evict`]: who must leave because it is gone.
//! * [`health`]: who must leave because it is slow.
//! * [`space`]: which stores are nearly full, and which no longer.
//! * [`reconcile`]: who may join, who is up to date, who is no longer wanted.
//! * [`claims`]: whether all owners say that a syncing store is whole.
//! * [`plan`]: which stores should hold the groups.
//! * [`batch`]: the transactions, and what became of them.
//!
//! **Limits.** An in-sync set never shrinks below the pool's `min_copies` (R10). Where too few living members would be
//! left nobody is evicted, not even a part: whoever of the dead comes back first then serves again.
//!
//! **Patience.** A node whose lease is gone may be starting again: it gets a moment. One that this machine has not seen
//! alive at all is not dead, it may be about to start with the rest of the cluster: it gets a longer one. So does a store
//! that its living node does not serve (yet).

mod batch;
mod claims;
mod evict;
mod health;
mod learn;
mod plan;
mod reconcile;
mod space;
mod warning;

pub use reconcile::{Concurrency, Recovery};
pub use warning::Warning;

use amita_metadata::{Call, Error, KeyValue, Reply};
use amita_types::map::{self, Group, Node, Pool, Store};
use amita_types::recovery::SlowStores;
use amita_types::{GroupId, NodeId, PoolId, StoreId};
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
    /// How long a node that was not seen alive yet may take to start, and a store of a living node to be mounted.
    pub start_patience: Duration,
    /// How long a store rests that began to serve, or that has left an in-sync set, before it is brought up to date.
    pub rejoin_pause: Duration,
    /// The pause after a store was dropped while it was being brought up to date: the first, doubled with each more, and
    /// the longest.
    pub backoff: (Duration, Duration),
    /// How many groups are brought up to date at once.
    pub recovery: Recovery,
    /// Does the coordinator change which stores should hold a group? Else that is done by hand.
    pub planning: bool,
    /// How long changes of stores, nodes and pools are gathered before groups are placed anew.
    pub plan_pause: Duration,
    /// How long after it could be evicted a store is still waited for, before others take its place.
    pub out_after: Duration,
    /// What becomes of slow stores, where the metadata has no settings.
    pub slow_stores: SlowStores,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            patience: Duration::from_secs(2),
            start_patience: Duration::from_secs(60),
            rejoin_pause: Duration::from_secs(1),
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            recovery: Recovery::default(),
            planning: true,
            plan_pause: Duration::from_secs(5),
            out_after: Duration::from_secs(600),
            slow_stores: SlowStores::default(),
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

#[derive(Clone, Debug)]
pub enum Event {
    /// A record of the metadata as it is now: each one at the start, and each one that was written since.
    Record(KeyValue),
    /// A record was deleted.
    Gone {
        key: String,
        /// The revision of the deletion.
        revision: u64,
    },
    /// All records have been handed over: decisions can be made.
    Settled,
    /// All changes up to the newest one that was told have been told: a batch of the watch ends. Promotions are decided
    /// only then: half a transaction must not be taken for all of it.
    Seen,
    /// This node was elected: it created the election key at that revision.
    Elected {
        /// The key's `create_revision`.
        revision: u64,
    },
    /// This node is not (any longer) the coordinator.
    Deposed,
    /// A call has ended.
    Ended {
        call: CallNumber,
        result: Result<Reply, Error>,
    },
    /// Time has passed.
    Tick,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Carry out a transaction and hand its result to [`Event::Ended`].
    Call { number: CallNumber, call: Call },
    /// Tell the operator.
    Warn(Warning),
}

/// A node's liveness as this machine has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Life {
    /// Its key is there.
    Alive {
        /// Made anew at each start of its process.
        session: u64,
        /// It says that its process has stopped in good order.
        stopped: bool,
        /// The stores that it serves; `None`: all of its own.
        stores: Option<BTreeSet<StoreId>>,
    },
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
    pool: Pool,
    copies: usize,
    min_copies: usize,
}

/// A store was dropped from a group while it was being brought up to date.
#[derive(Clone, Copy, Debug)]
struct Setback {
    /// How often.
    count: u32,
    /// It is not tried again before.
    until: Moment,
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Coordinator {
    now: Moment,
    config: Config,
    settled: bool,
    elected: Option<u64>,
    stores: BTreeMap<StoreId, Store>,
    /// The nodes' records by their keys.
    hosts: BTreeMap<String, Node>,
    pools: BTreeMap<PoolId, KnownPool>,
    /// The pools' names and numbers: a deletion tells only the key.
    pool_keys: BTreeMap<String, PoolId>,
    groups: BTreeMap<GroupId, KnownGroup>,
    /// The groups whose in-sync set is not just their members, or that have syncing ones.
    open: BTreeSet<GroupId>,
    nodes: BTreeMap<NodeId, Life>,
    /// The newest revision at which each node's key was seen to change.
    life_revisions: BTreeMap<NodeId, u64>,
    /// Stores that their living nodes serve.
    serving: BTreeSet<StoreId>,
    /// Stores that their living nodes do not serve: they may be evicted from this moment on.
    unserved: BTreeMap<StoreId, Moment>,
    /// Stores that are not taken in again before this moment.
    rest: BTreeMap<StoreId, Moment>,
    setbacks: BTreeMap<(GroupId, StoreId), Setback>,
    claims: claims::Claims,
    /// How many groups name a store, in whatever set.
    named: BTreeMap<StoreId, usize>,
    /// When groups are placed anew: something has changed that placement rests on.
    plan_at: Option<Moment>,
    /// When that was done last.
    planned: Moment,
    /// The members that groups are to get.
    desired: BTreeMap<GroupId, Vec<StoreId>>,
    /// The newest revision that was told, and the newest up to which all was told.
    told: u64,
    complete: u64,
    next_call: u64,
    pending: BTreeMap<CallNumber, batch::Batch>,
    /// Groups to be read back at this moment: what became of them is not known.
    unsure: Option<(Moment, BTreeSet<GroupId>)>,
    /// What others have done to groups, to be told at this moment.
    others: Option<(Moment, batch::Change)>,
    /// Nothing is deleted before this moment.
    tidy_at: Moment,
    health: health::Health,
    spaces: space::Spaces,
    /// What was warned of and still is so.
    standing: BTreeSet<Warning>,
    /// Something has changed that evictions rest on.
    dirty: bool,
    /// Something has changed that other moves rest on.
    stirred: bool,
    /// When something that has to wait can be done.
    wake: Option<Moment>,
    actions: Vec<Action>,
}

impl Coordinator {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Coordinator {
        Coordinator {
            health: health::Health::new(config.slow_stores),
            config,
            ..Coordinator::default()
        }
    }

    /// Takes an event in; returns what to do about it, in order.
    pub fn apply(&mut self, now: Moment, event: Event) -> Vec<Action> {
        // Where something has become due since the last event, this may be all that comes: the tick for it would find that its
        // moment has passed.
        self.dirty |= self.deadline().is_some_and(|at| at <= now);
        self.now = self.now.max(now);
        // Of the many changes of records few matter here: they say so themselves.
        self.dirty |= !matches!(event, Event::Record(_) | Event::Gone { .. } | Event::Seen);
        match event {
            Event::Record(record) => {
                self.told = self.told.max(record.mod_revision);
                self.record(&record);
            }
            Event::Gone { key, revision } => {
                self.told = self.told.max(revision);
                self.gone(&key, revision);
            }
            Event::Settled => self.settle(),
            Event::Seen => {
                self.stirred |= std::mem::take(&mut self.claims.changed);
                self.complete = self.told;
            }
            Event::Elected { revision } => {
                self.elected = Some(revision);
                self.others = None;
                self.plan_soon();
            }
            Event::Deposed => {
                self.elected = None;
                self.desired.clear();
                self.others = None;
                self.standing.clear();
            }
            Event::Ended { call, result } => self.ended(call, result),
            Event::Tick => {}
        }
        let (dirty, stirred) = (std::mem::take(&mut self.dirty), std::mem::take(&mut self.stirred));
        if dirty || stirred {
            self.decide(dirty);
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
            Life::Gone(until) | Life::Unseen(until) => Some(*until),
            Life::Alive { .. } => None,
        });
        let later = lives
            .chain(self.unserved.values().copied())
            .chain(self.wake)
            .chain(self.health_due())
            .filter(|until| *until > self.now);
        later.chain(unsure).min()
    }

    /// Decides what to do next, from all that is known. Whom to evict only if `evictions`: that looks at all groups.
    fn decide(&mut self, evictions: bool) {
        if !self.settled || self.elected.is_none() {
            return;
        }
        self.wake = None;
        self.read_back();
        if evictions {
            self.judge_health();
            self.evict();
        }
        self.reconcile();
        self.plan();
        self.report_others();
        self.tidy();
    }

    /// The nodes whose keys are there.
    pub fn alive(&self) -> impl Iterator<Item = NodeId> {
        self.nodes
            .iter()
            .filter(|(_, life)| matches!(life, Life::Alive { .. }))
            .map(|(node, _)| *node)
    }

    fn settle(&mut self) {
        self.settled = true;
        self.complete = self.told;
        // Patience counts from the moment when all is known.
        let until = self.now.plus(self.config.start_patience);
        for life in self.nodes.values_mut() {
            if let Life::Unseen(own) = life {
                *own = until;
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
            Some(Life::Alive { .. }) | None => false,
        }
    }

    /// The node that serves the store.
    fn home(&self, store: StoreId) -> Option<NodeId> {
        self.stores.get(&store).map(|store| store.node)
    }

    /// Does the store's node hold its key, and serve the store? One of an unknown node does not.
    fn is_serving(&self, store: StoreId) -> bool {
        match self.home(store).and_then(|node| self.nodes.get(&node)) {
            Some(Life::Alive { stopped, stores, .. }) => {
                !stopped && stores.as_ref().is_none_or(|stores| stores.contains(&store))
            }
            _ => false,
        }
    }

    fn wake_at(&mut self, moment: Moment) {
        self.wake = Some(self.wake.map_or(moment, |own| own.min(moment)));
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

#[cfg(test)]
mod tests;
