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
//! * [`fleet`], [`groups`], [`rests`]: what is known.
//! * [`learn`]: how records change it.
//! * [`evict`]: who must leave because it is gone.
//! * [`health`]: who must leave because it is slow.
//! * [`networks`]: who gets no more, and who must leave, because its network is sick.
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
mod fleet;
mod groups;
mod health;
mod learn;
mod networks;
mod plan;
mod reconcile;
mod rests;
mod space;
mod warning;

pub use reconcile::{Concurrency, Recovery};
pub use warning::{Sentence, Warning};

use crate::Faults;
use amita_metadata::{Call, Error, KeyValue, Reply};
use amita_types::map;
use amita_types::recovery::{SickNetworks, SlowStores};
use amita_types::{NodeId, StoreId};
use batch::Calls;
use claims::Claims;
use fleet::{Fleet, Life};
use groups::{Groups, Pools};
use health::Health;
use networks::Networks;
use plan::Plan;
use rests::Rests;
use serde::de::DeserializeOwned;
use space::Spaces;
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
    /// What becomes of nodes whose network is sick, likewise.
    pub sick_networks: SickNetworks,
    /// Rules that are switched off.
    pub faults: Faults,
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
            sick_networks: SickNetworks::default(),
            faults: Faults::NONE,
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

/// How far the records of the metadata have been told.
#[derive(Debug, Default)]
struct Heard {
    /// All records were handed over, as they were at the start.
    settled: bool,
    /// The newest revision that was told, and the newest up to which all was told.
    told: u64,
    complete: u64,
}

/// What is to be looked at after an event, and when something that has to wait can be done.
#[derive(Debug, Default)]
struct Due {
    /// Something has changed that evictions rest on.
    dirty: bool,
    /// Something has changed that other moves rest on.
    stirred: bool,
    wake: Option<Moment>,
}

impl Due {
    fn wake_at(&mut self, moment: Moment) {
        self.wake = Some(self.wake.map_or(moment, |own| own.min(moment)));
    }
}

/// What is to be done and said, and what was said.
#[derive(Debug, Default)]
struct Out {
    /// What was warned of and still is so.
    standing: BTreeSet<Warning>,
    /// The same of records that are left alone: by the key, and why. Who may write keys makes as many as he likes.
    unreadable: BTreeMap<String, String>,
    /// What owners of volumes have done to groups, to be told at this moment.
    by_owners: Option<(Moment, batch::Change)>,
    actions: Vec<Action>,
}

/// Most records that are told of as left alone, and so many bytes of their keys and of the reasons.
const MOST_UNREADABLE: usize = 256;
const TOLD_BYTES: usize = 512;

/// As much of a text as is told.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOLD_BYTES)]
}

impl Out {
    /// Warns, once for as long as it is so.
    fn warn(&mut self, warning: Warning) {
        if self.standing.insert(warning.clone()) {
            self.actions.push(Action::Warn(warning));
        }
    }

    /// The record is not heard. Of more than [`MOST_UNREADABLE`] nothing is said: `amita status` has them all.
    fn leave_alone(&mut self, key: &str, what: &str) {
        let (key, what) = (beginning(key), beginning(what));
        let known = self.unreadable.get(key);
        if known.is_some_and(|known| known == what) || known.is_none() && self.unreadable.len() >= MOST_UNREADABLE {
            return;
        }
        let (key, what) = (key.to_owned(), what.to_owned());
        self.unreadable.insert(key.clone(), what.clone());
        self.actions.push(Action::Warn(Warning::Unreadable { key, what }));
    }

    /// The record can be read now, or is gone.
    fn not_left_alone(&mut self, key: &str) {
        self.unreadable.remove(beginning(key));
    }

    /// Reads a record; that one cannot be read stands as a warning until it can.
    fn parse<T: DeserializeOwned>(&mut self, record: &KeyValue) -> Option<T> {
        self.parse_and(record, |_| Ok(()))
    }

    /// The same of a record that can be read and yet not be believed, as `check` says.
    fn parse_and<T: DeserializeOwned>(
        &mut self,
        record: &KeyValue,
        check: impl FnOnce(&T) -> Result<(), String>,
    ) -> Option<T> {
        let read = record.json().map_err(|refusal| refusal.to_string());
        match read.and_then(|value| check(&value).map(|()| value)) {
            Ok(value) => {
                self.not_left_alone(&record.key);
                Some(value)
            }
            Err(what) => {
                self.leave_alone(&record.key, &what);
                None
            }
        }
    }
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Coordinator {
    now: Moment,
    config: Config,
    /// The revision of the election key while this node is elected.
    elected: Option<u64>,
    heard: Heard,
    fleet: Fleet,
    pools: Pools,
    groups: Groups,
    rests: Rests,
    claims: Claims,
    plan: Plan,
    calls: Calls,
    health: Health,
    networks: Networks,
    spaces: Spaces,
    out: Out,
    due: Due,
}

impl Coordinator {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Coordinator {
        Coordinator {
            health: Health::new(config.slow_stores),
            networks: Networks::new(config.sick_networks, config.faults),
            config,
            ..Coordinator::default()
        }
    }

    /// Takes an event in; returns what to do about it, in order.
    pub fn apply(&mut self, now: Moment, event: Event) -> Vec<Action> {
        // Where something has become due since the last event, this may be all that comes: the tick for it would find that its
        // moment has passed.
        self.due.dirty |= self.deadline().is_some_and(|at| at <= now);
        self.now = self.now.max(now);
        // Of the many changes of records few matter here: they say so themselves.
        self.due.dirty |= !matches!(event, Event::Record(_) | Event::Gone { .. } | Event::Seen);
        match event {
            Event::Record(record) => {
                self.heard.told = self.heard.told.max(record.mod_revision);
                learn::record(self, &record);
            }
            Event::Gone { key, revision } => {
                self.heard.told = self.heard.told.max(revision);
                learn::gone(self, &key, revision);
            }
            Event::Settled => self.settle(),
            Event::Seen => {
                self.due.stirred |= std::mem::take(&mut self.claims.changed);
                self.heard.complete = self.heard.told;
            }
            Event::Elected { revision } => {
                self.elected = Some(revision);
                self.out.by_owners = None;
                plan::soon(self);
            }
            Event::Deposed => {
                self.elected = None;
                self.plan.desired.clear();
                self.out.by_owners = None;
                self.networks.depose();
                self.out.standing.clear();
                self.out.unreadable.clear();
            }
            Event::Ended { call, result } => batch::ended(self, call, result),
            Event::Tick => {}
        }
        let (dirty, stirred) = (
            std::mem::take(&mut self.due.dirty),
            std::mem::take(&mut self.due.stirred),
        );
        if dirty || stirred {
            self.decide(dirty);
        }
        self.check();
        std::mem::take(&mut self.out.actions)
    }

    /// When [`Event::Tick`] is wanted next.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        if !self.heard.settled || self.elected.is_none() {
            return None;
        }
        let unsure = self.calls.unsure.as_ref().map(|(at, _)| *at);
        let lives = self.fleet.lives.values().filter_map(|life| match life {
            Life::Gone(until) | Life::Unseen(until) => Some(*until),
            Life::Alive { .. } => None,
        });
        let later = lives
            .chain(self.fleet.unserved.values().copied())
            .chain(self.due.wake)
            .chain(self.health.due(self.now))
            .chain(self.networks.due(self.now))
            .filter(|until| *until > self.now);
        later.chain(unsure).min()
    }

    /// The nodes whose keys are there.
    pub fn alive(&self) -> impl Iterator<Item = NodeId> {
        self.fleet
            .lives
            .iter()
            .filter(|(_, life)| matches!(life, Life::Alive { .. }))
            .map(|(node, _)| *node)
    }

    /// Is the store to leave, or to stay away: is it slow, or is its node isolated?
    fn must_leave(&self, store: StoreId) -> bool {
        self.health.is_condemned(self.now, store) || self.networks.is_isolated(&self.fleet, self.now, store)
    }

    /// Decides what to do next, from all that is known. Whom to evict only if `evictions`: that looks at all groups.
    fn decide(&mut self, evictions: bool) {
        if !self.heard.settled || self.elected.is_none() {
            return;
        }
        self.due.wake = None;
        batch::read_back(self);
        if evictions {
            health::judge(self);
            networks::run(self);
            evict::run(self);
        }
        reconcile::run(self);
        plan::run(self);
        learn::report_others(self);
        batch::tidy(self);
    }

    fn settle(&mut self) {
        self.heard.settled = true;
        learn::look_at_pools(self);
        self.heard.complete = self.heard.told;
        // Patience counts from the moment when all is known.
        let until = self.now.plus(self.config.start_patience);
        for life in self.fleet.lives.values_mut() {
            if let Life::Unseen(own) = life {
                *own = until;
            }
        }
    }

    /// What must hold after each event.
    fn check(&self) {
        for (id, known) in &self.groups.all {
            if let Some(number) = known.pending {
                assert!(
                    self.calls.pending.contains_key(&number),
                    "group {id} waits for a call that is not under way"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
