//! Keeps a copy of the metadata on each of the node's stores, and looks first whether the metadata is what it was.
//!
//! **The copy.** Shortly after a record changes, but at most every few seconds, all records go to every store
//! ([`amita_store::memo`]); before the node stops, what is not there yet. `amita recover --from-stores` reads them.
//!
//! **The look.** A store that begins to serve is asked what it knows; then the metadata is read; then both are compared
//! ([`regress`]). Metadata that is older than a store was restored from an older copy: no copy is written any more (it
//! would cost the newer one), by no node, and a record says to all nodes that no volume is to be opened. The same where what
//! answers is an older copy of what the node knows ([`amita_control::past`]), until it does not any more.
//!
//! **Space.** Stores that may be written are told what they may hold, and drop the rest (R13): soon after a volume was deleted, and
//! some time after groups have moved. Nobody is told anything while anybody suspects the metadata.

mod doubt;

use super::core_thread::ToCores;
use super::{Level, Log};
use crate::control::ToCore;
use amita_control::agent::Journal;
use amita_control::ledger::{Ledger, News};
use amita_control::records::{Records, is_kept};
use amita_control::recover::{KnownGroup, KnownVolume, Source};
use amita_control::regress::{self, Verdict};
use amita_metadata::{Call, Client, Op};
use amita_store::memo::{Content, Head};
use amita_store::offline::{GroupLook, VolumeLook};
use amita_types::map;
use amita_types::{ClusterId, NodeId, SnapshotId, StoreId, VolumeId};
use doubt::Doubt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// After a change, so long for the others that come with it.
const AFTER_CHANGE: Duration = Duration::from_millis(200);
/// At most one copy in so long.
const BETWEEN: Duration = Duration::from_secs(2);
/// The pause between attempts to read the metadata, or to say what was found.
const AGAIN: Duration = Duration::from_secs(1);
/// After a volume was deleted, for the others that are deleted with it, until stores are told.
const AFTER_DELETION: Duration = Duration::from_millis(50);
/// After a group has changed: where one moves, many do, and nobody waits for the space of the copies that they leave.
const AFTER_MOVE: Duration = Duration::from_secs(1);
/// How long a node that stops waits for the last copy.
const LAST_COPY_PATIENCE: Duration = Duration::from_secs(3);

/// What the keeper hears.
pub(super) enum Input {
    /// A record is there, changed, or is gone.
    Record {
        key: String,
        value: Option<Vec<u8>>,
        /// Its modification revision.
        revision: u64,
    },
    /// All records were told.
    Settled {
        /// As of this revision.
        revision: u64,
    },
    /// All that has changed together was told.
    Seen,
    /// What the metadata says now is not believed, and no record of it is told.
    Doubted {
        why: String,
        /// It is an older copy: other nodes may not know.
        is_older: bool,
    },
    /// It is again.
    Believed,
    /// A store serves.
    Serves { store: StoreId, path: String },
    /// What a store knows.
    Recalled {
        store: StoreId,
        /// Its newest copy.
        newest: Option<Head>,
        groups: Vec<GroupLook>,
        volumes: Vec<VolumeLook>,
        /// Those that it knows to be deleted, as ranges.
        deleted: Vec<(VolumeId, VolumeId)>,
    },
    /// A store has kept a copy.
    Kept { store: StoreId, revision: u64 },
    /// Write what is not written yet, say so, and end.
    Stop(Sender<()>),
}

/// Runs until it is stopped.
pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) cluster: ClusterId,
    pub(super) node: NodeId,
    /// How many stores the node was told to serve.
    pub(super) stores: usize,
    /// Does it know by an earlier process what the metadata was?
    pub(super) remembers: bool,
    pub(super) cores: ToCores,
    pub(super) journal: Journal,
    /// Whether this node has found the metadata to be older, for who watches it.
    pub(super) older: Arc<AtomicBool>,
    pub(super) log: Log,
}

#[derive(Default)]
struct State {
    records: Records,
    /// What stores may hold; made with the first record.
    ledger: Option<Ledger>,
    /// When stores are to be told, and whether they are at work by what they were told.
    hold: Option<Instant>,
    holding: bool,
    /// Have all records been told?
    settled: bool,
    paths: BTreeMap<StoreId, String>,
    /// What stores said that the metadata was not compared with yet.
    unchecked: Vec<Source>,
    /// Stores that may be written.
    checked: BTreeSet<StoreId>,
    /// The revision that a store has, or is being given.
    given: BTreeMap<StoreId, u64>,
    kept: BTreeMap<StoreId, u64>,
    doubt: Doubt,
    /// When a copy is due, and when the last one was made.
    due: Option<Instant>,
    last: Option<Instant>,
    /// When the metadata is asked again.
    again: Option<Instant>,
}

impl Keeper {
    pub(super) fn run(&self, inputs: &Receiver<Input>) {
        let mut state = State::default();
        loop {
            let next = [state.due, state.again, state.hold].into_iter().flatten().min();
            let input = match next {
                Some(at) => inputs.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match input {
                Ok(Input::Stop(done)) => {
                    self.last_copy(&mut state, inputs);
                    let _ = done.send(());
                    return;
                }
                Ok(input) => self.hear(&mut state, input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if state.again.is_some_and(|at| at <= now) {
                state.again = None;
                self.check(&mut state);
                self.say(&mut state);
            }
            if state.due.is_some_and(|at| at <= now) {
                self.copy(&mut state);
            }
            if state.hold.is_some_and(|at| at <= now) {
                self.hold(&mut state);
            }
            self.older.store(state.doubt.is_older(), Ordering::Relaxed);
        }
    }

    fn hear(&self, state: &mut State, input: Input) {
        match input {
            Input::Record { key, value, revision } => {
                state.records.revision = state.records.revision.max(revision);
                let ledger = state.ledger.get_or_insert_with(|| Ledger::new(self.cluster));
                ledger.note(&key, value.as_deref(), revision);
                if key.starts_with(&map::suspect_prefix()) {
                    match value {
                        Some(_) => drop(state.doubt.keys.insert(key)),
                        None => drop(state.doubt.keys.remove(&key)),
                    }
                } else if is_kept(&key) {
                    let before = match value {
                        Some(value) => state.records.values.insert(key.clone(), value),
                        None => state.records.values.remove(&key),
                    };
                    if before.as_ref() != state.records.values.get(&key) {
                        state.changed();
                    }
                }
            }
            Input::Settled { revision } => {
                let is_first = !std::mem::replace(&mut state.settled, true);
                // With stores, what they know is compared first.
                if is_first && self.stores == 0 && self.remembers && state.doubt.disown(&map::suspect_key(self.node)) {
                    state.again = Some(Instant::now());
                }
                state.records.revision = state.records.revision.max(revision);
                state.changed();
                self.seen(state);
            }
            Input::Doubted { why, is_older } => self.doubt(state, why, is_older),
            Input::Believed => self.believe(state),
            Input::Seen => self.seen(state),
            Input::Serves { store, path } => {
                state.paths.insert(store, path);
                self.everywhere(|| ToCore::Recall(store));
            }
            Input::Recalled {
                store,
                newest,
                groups,
                volumes,
                deleted,
            } => {
                let mut source = self.source(state, store, newest, &groups, &volumes);
                source.deleted = deleted;
                state.unchecked.push(source);
                self.check(state);
            }
            Input::Kept { store, revision } => {
                state.kept.insert(store, revision);
            }
            Input::Stop(_) => {}
        }
    }

    fn everywhere(&self, message: impl Fn() -> ToCore) {
        for core in 0..self.cores.len() {
            self.cores.send(core, message());
        }
    }

    fn source(
        &self,
        state: &State,
        store: StoreId,
        newest: Option<Head>,
        groups: &[GroupLook],
        volumes: &[VolumeLook],
    ) -> Source {
        let groups = groups.iter().map(|look| KnownGroup {
            pool: look.group.pool,
            index: look.group.index,
            epoch: look.epoch,
            in_sync: look.in_sync.clone(),
        });
        let volumes = volumes.iter().map(|look| KnownVolume {
            volume: look.volume,
            generation: look.generation,
            last_chunk: None,
            number: SnapshotId::HEAD,
            cloned: false,
            plain: false,
        });
        Source {
            store,
            cluster: self.cluster,
            path: state.paths.get(&store).cloned().unwrap_or_default(),
            copy: newest.map(|head| Records {
                life: head.life,
                revision: head.revision,
                values: BTreeMap::new(),
            }),
            groups: groups.collect(),
            volumes: volumes.collect(),
            deleted: Vec::new(),
        }
    }

    /// Compares what stores said with the metadata, read now.
    fn check(&self, state: &mut State) {
        // What answers while it is not believed says nothing of what is held against the stores.
        if state.unchecked.is_empty() || state.doubt.away {
            return;
        }
        let Ok(reply) = self.client.txn(&Call::prefix(map::PREFIX)) else {
            state.again = Some(Instant::now() + AGAIN);
            return;
        };
        let values = reply.values(0).iter();
        let now = Records {
            life: 0,
            revision: reply.revision,
            values: values.map(|found| (found.key.clone(), found.value.clone())).collect(),
        };
        for source in std::mem::take(&mut state.unchecked) {
            match regress::compare(&now, &source) {
                Verdict::Fine => {}
                Verdict::EarlierLife { life } => (self.log)(
                    Level::Info,
                    &format!(
                        "store {} was last served before the metadata was rebuilt (life {life} of {})",
                        source.store,
                        now.said_life()
                    ),
                ),
                Verdict::Older(findings) => {
                    self.suspect(state, regress::advice(source.store, &source.path, &findings));
                    continue;
                }
            }
            state.checked.insert(source.store);
            state.changed();
            state.hold_after(AFTER_DELETION);
        }
        // What an earlier start of this node found stands no more, when all of its stores say so.
        let ours = map::suspect_key(self.node);
        let all_fine = state.doubt.own.is_none() && state.checked.len() >= self.stores;
        if all_fine && now.values.contains_key(&ours) {
            let call = Call {
                then: vec![Op::Delete { key: ours }],
                ..Call::default()
            };
            let _ = self.client.txn(&call);
        }
    }

    /// All that has changed together was told: is there something for the stores?
    fn seen(&self, state: &mut State) {
        let Some(ledger) = &mut state.ledger else { return };
        ledger.seen();
        let news = ledger.take_news();
        let went_back = ledger.went_back().map(str::to_owned);
        match news {
            Some(News::Deleted) => state.hold_after(AFTER_DELETION),
            Some(News::Group) => state.hold_after(AFTER_MOVE),
            None => {}
        }
        if let Some(what) = went_back.filter(|_| state.doubt.own.is_none()) {
            self.suspect(
                state,
                format!(
                    "{what}. Was the metadata restored from an older copy? No volume is opened. Put the newer metadata back, or \
                     stop all nodes and run `amita recover --from-stores` with --replace"
                ),
            );
        }
        self.stop_holding(state);
    }

    fn stop_holding(&self, state: &mut State) {
        if state.holding && state.is_suspected() {
            // At once: nothing more goes.
            state.holding = false;
            state.hold_after(AGAIN);
            let stores: Arc<[StoreId]> = state.checked.iter().copied().collect();
            self.everywhere(|| ToCore::Hold {
                holdings: None,
                stores: Arc::clone(&stores),
            });
        }
    }

    /// Tells the stores that may be written what they may hold.
    fn hold(&self, state: &mut State) {
        state.hold = None;
        let Some(ledger) = state.ledger.as_mut().filter(|_| !state.checked.is_empty()) else {
            return;
        };
        let Some(holdings) = ledger
            .holdings()
            .filter(|_| state.settled && !state.doubt.away && state.doubt.own.is_none())
        else {
            // While all is not told, or something cannot be read, they keep what they have.
            return state.hold_after(AGAIN);
        };
        let (holdings, stores) = (
            Arc::new(holdings),
            state.checked.iter().copied().collect::<Arc<[StoreId]>>(),
        );
        state.holding = true;
        self.everywhere(|| ToCore::Hold {
            holdings: Some(Arc::clone(&holdings)),
            stores: Arc::clone(&stores),
        });
    }

    /// Gives every store that may be written the records as they are.
    fn copy(&self, state: &mut State) {
        state.due = None;
        if !state.settled || state.is_suspected() || state.checked.is_empty() {
            return;
        }
        state.records.life = state.records.said_life();
        let (life, revision) = (state.records.life, state.records.revision);
        let Some(content) = Content::new(life, revision, &state.records.encode()) else {
            let text = "the metadata is too large to keep a copy of it on the stores";
            return (self.log)(Level::Error, text);
        };
        let stores: Arc<[StoreId]> = state.checked.iter().copied().collect();
        for &store in &*stores {
            state.given.insert(store, revision);
        }
        self.everywhere(|| ToCore::Keep {
            content: content.clone(),
            stores: Arc::clone(&stores),
        });
        state.last = Some(Instant::now());
    }

    /// What is not on the stores yet goes there; waits for it, but not for long.
    fn last_copy(&self, state: &mut State, inputs: &Receiver<Input>) {
        if state.due.is_some() {
            self.copy(state);
        }
        let until = Instant::now() + LAST_COPY_PATIENCE;
        while state
            .given
            .iter()
            .any(|(store, given)| state.kept.get(store) < Some(given))
        {
            match inputs.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(input) => self.hear(state, input),
                Err(_) => return,
            }
        }
    }
}

impl State {
    fn is_suspected(&self) -> bool {
        self.doubt.stands()
    }

    /// Stores are to be told what they may hold, so much later at the latest.
    fn hold_after(&mut self, pause: Duration) {
        let at = Instant::now() + pause;
        self.hold = Some(self.hold.map_or(at, |due| due.min(at)));
    }

    /// A copy is due, not at once and not too often.
    fn changed(&mut self) {
        let soon = Instant::now() + AFTER_CHANGE;
        let at = self.last.map_or(soon, |last| soon.max(last + BETWEEN));
        self.due.get_or_insert(at);
    }
}
