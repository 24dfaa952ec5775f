//! Opening a volume: how a node becomes its owner.
//!
//! 1. The volume's record is read; then its pool's, and whether its owner is alive. Where a node has found that the
//!    metadata is older than its stores, nothing is opened.
//! 2. A living owner is asked to release it (R10: a takeover needs its consent, or its silence). It may answer that it
//!    is in use; one that does not answer in time is passed over: its leases protect it until they run out (R4). (Where
//!    nothing calls for haste it is not: it is asked again until the metadata says that it is dead.)
//!    One that hands it over (the operator moves it) gives its leases back: it serves nothing any more.
//! 3. The generation is raised by compare-and-set. A lost race starts again from the top. An unknown outcome is read
//!    back (R6), and the generation raised once more: whoever made the last raise is not asked, because a skipped
//!    generation costs nothing.
//! 4. Only then are the groups read (R6: raise the generation, then read the epochs), with the volume's record in the
//!    same transaction.
//!
//! A snapshot that the owner before was about to seal is void by the raise (S2). Where it is one of a set, the set is void with it, or
//! was decided before, and then the snapshot is sealed (S4): the raise compares the set's record.
//!
//! Nothing is fenced here: each core's [`Sequencer`](crate::Sequencer) fences a group when it first touches it.

mod check;
mod set;

use crate::faults::{Fault, Faults};
use crate::io::{CallId, Opened};
use amita_crypt::{Keychain, Keys, NotNow};
use amita_metadata::{Call, Error, KeyValue, Op, Reply};
use amita_reactor::Time;
use amita_types::map;
use amita_types::{BLOCK_BYTES, Generation, MirrorId, NodeId, SetId, SnapshotId, VolumeId};
use set::OpenSet;
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use std::sync::Arc;
use std::time::Duration;

/// Races that are lost to other gateways before one gives up: two that take turns would go on for ever.
const MAX_ROUNDS: u32 = 8;
/// Keys that are being fetched are asked for this often at least, and each time the record is read: by as many openers as there are volumes.
const KEYS_PAUSE: Duration = Duration::from_millis(250);

/// Why a program that has no keys for volumes opens no encrypted one.
pub const NO_KEYS: &str = "this program was given no keys for volumes (`--volume-keys FILE`)";

/// How a living owner is dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// It is asked, and may refuse: hosts use the volume there.
    #[default]
    Asked,
    /// It is left alone, and the opening ends as [`OpenError::Busy`], unless it is this one, which was found to be
    /// lost: hosts' I/O can be forwarded to any other.
    Over(Option<NodeId>),
    /// It is asked to hand the volume over though hosts use it: the operator wants that.
    HandOver,
}

/// Settings of an opening.
#[derive(Clone, Debug)]
pub struct OpenerConfig {
    /// We.
    pub node: NodeId,
    /// The volume's name.
    pub volume: String,
    /// How a living owner is dealt with.
    pub consent: Consent,
    /// How long the present owner may take to answer.
    pub release_timeout: Duration,
    /// How long it may take where it hands the volume over: it ends what it has under way first.
    pub hand_over_timeout: Duration,
    /// Where set, an owner that lives is never passed over for its silence: it is asked again, every `hand_over_timeout`, until
    /// it answers or its lease has ended, for so long. ([`Consent::Asked`] only.)
    pub owner_patience: Option<Duration>,
    /// For how long the metadata may be away.
    pub meta_timeout: Duration,
    /// The pause between calls to the metadata that fail.
    pub meta_pause: Duration,
    /// Who has the keys of encrypted volumes; none: they stay closed.
    pub keys: Option<Arc<dyn Keys>>,
    /// How long keys may be fetched.
    pub keys_timeout: Duration,
    /// The mirror that this program is a runner of: what is closed for that is open to it.
    pub mirror: Option<MirrorId>,
    /// It is opened for a host, who is to use the volume itself: not where that is closed. (A snapshot of it is read, and a store is brought up
    /// to date, whether it is closed or not.)
    pub for_host: bool,
    /// Rules that are switched off to show that tests notice.
    pub faults: Faults,
}

impl OpenerConfig {
    /// The usual settings.
    #[must_use]
    pub fn new(node: NodeId, volume: impl Into<String>) -> OpenerConfig {
        OpenerConfig {
            node,
            volume: volume.into(),
            consent: Consent::default(),
            release_timeout: Duration::from_millis(300),
            hand_over_timeout: Duration::from_secs(2),
            owner_patience: None,
            meta_timeout: Duration::from_secs(3),
            meta_pause: Duration::from_millis(20),
            keys: None,
            keys_timeout: Duration::from_secs(10),
            mirror: None,
            for_host: false,
            faults: Faults::NONE,
        }
    }
}

/// What the present owner said to the wish that it release the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerReply {
    /// It has stopped, and its clients know.
    Released,
    /// Clients use it there.
    Busy,
    /// It does not own it (any more).
    NotOwner,
    /// It cannot be reached.
    Unreachable,
    /// Nobody is there: its port refuses connections, for long enough.
    Gone,
}

/// What an opening wants done.
#[derive(Clone, Debug)]
pub enum OpenerEffect {
    /// Ask the metadata.
    Meta {
        /// The reply carries it.
        call: CallId,
        request: Call,
    },
    /// Ask the owner to release the volume; answered by [`Opener::owner`].
    AskOwner {
        /// Whom.
        node: NodeId,
        volume: VolumeId,
        /// Its generation of it.
        generation: Generation,
        /// Though hosts use it there.
        hand_over: bool,
    },
    /// The end. Said once.
    Opened(Box<Result<Opened, OpenError>>),
}

/// Why a volume could not be opened. Nothing that its owner has under way was lost by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such volume.
    #[error("there is no volume {name:?}; `amita volume list` shows those there are")]
    NoSuchVolume { name: String },
    /// The volume's pool is gone.
    #[error("volume {volume:?} lies in pool {pool:?}, which does not exist; restore the pool's record")]
    NoSuchPool { volume: String, pool: String },
    /// Another gateway has it, and clients use it there.
    #[error("the volume is in use through node {owner}; disconnect its clients, or connect to that node")]
    Busy {
        /// That gateway.
        owner: NodeId,
    },
    /// Another gateway has it, lives, and has not answered for as long as was to be waited
    /// ([`OpenerConfig::owner_patience`]).
    #[error("node {owner} has the volume, lives and does not answer; try again, or see what is wrong with that node")]
    Silent {
        /// That gateway.
        owner: NodeId,
    },
    /// Every generation was used.
    #[error("volume {name:?} was taken over as often as its versions can count; copy it to a new one")]
    GenerationsUsedUp {
        /// The volume.
        name: String,
    },
    /// The metadata was away for too long.
    #[error("the volume cannot be opened: {error}")]
    Metadata {
        /// What it said last.
        error: Error,
    },
    /// A record that makes no sense.
    #[error("the record {key} cannot be used: {why}")]
    BadRecord { key: String, why: String },
    /// It is encrypted, and its keys are not here; nobody was asked to let go of it.
    #[error("volume {volume:?} is encrypted, and stays closed: {why}")]
    Locked {
        volume: String,
        /// What is missing.
        why: String,
    },
    /// It is closed to hosts: it is an end of a mirror, and not the one that is written.
    #[error(
        "volume {volume:?} is closed to hosts: this cluster is not the primary of mirror {mirror:?}; `amita mirror show {mirror}` says what it is"
    )]
    Closed {
        volume: String,
        /// The mirror's name.
        mirror: String,
    },
    /// Somebody has found that the metadata is not to be believed.
    #[error("volume {volume:?} is not opened: {why}")]
    Suspect {
        volume: String,
        /// What was found, and what to do.
        why: String,
    },
    /// Other gateways kept taking it.
    #[error("other gateways keep opening the volume at the same time; try again")]
    Contended,
}

/// Where an opening stands.
#[derive(Debug)]
enum Step {
    /// The volume's record is being read.
    Volume,
    /// Its pool's, and its owner's liveness.
    Pool,
    /// Its owner was asked.
    Owner {
        until: Time,
    },
    /// The generation is being raised.
    Raise,
    /// The groups are being read.
    Groups,
    Done,
}

/// One opening of one volume. See the module.
#[derive(Debug)]
pub struct Opener {
    config: OpenerConfig,
    id_base: u64,
    count: u64,
    step: Step,
    call: Option<CallId>,
    /// The step's call is made again at this time, because it failed.
    retry: Option<Time>,
    give_up: Time,
    /// The time of what is being handled.
    now: Time,
    /// Keys that are being fetched are waited for until then.
    keys_until: Option<Time>,
    /// Those of this ring, when they were asked for last.
    awaited: Option<map::KeyRing>,
    /// An owner that lives is waited for until then.
    owner_until: Option<Time>,
    rounds: u32,
    /// How many owners were asked, each at each of its generations.
    questions: u32,
    /// Who was asked last.
    last_asked: Option<(NodeId, Generation)>,
    volume: Option<(map::Volume, u64)>,
    /// Those that its record names.
    keys: Option<Arc<Keychain>>,
    /// What is known of the set that the volume's newest snapshot is taken for, as long as the volume's record does not say how it ended.
    set: Option<OpenSet>,
    pool: Option<map::Pool>,
    /// The generation that we have raised the volume to.
    raised: Option<Generation>,
    /// The generation whose owner has handed the volume over, by the record that was last read.
    given_back: Option<Generation>,
    /// Groups that were read too early ([`Fault::ReadGroupsBeforeRaise`]).
    early_groups: Option<Reply>,
    effects: VecDeque<OpenerEffect>,
}

impl Opener {
    /// Starts. `id_base` stands above the low 40 bits of the ids of its calls.
    #[must_use]
    pub fn new(config: OpenerConfig, id_base: u64, now: Time) -> Opener {
        let mut opener = Opener {
            give_up: now.plus(config.meta_timeout),
            now,
            keys_until: None,
            awaited: None,
            owner_until: (config.consent == Consent::Asked)
                .then_some(config.owner_patience)
                .flatten()
                .map(|patience| now.plus(patience)),
            config,
            id_base,
            count: 0,
            step: Step::Volume,
            call: None,
            retry: None,
            rounds: 0,
            questions: 0,
            last_asked: None,
            volume: None,
            keys: None,
            set: None,
            pool: None,
            raised: None,
            given_back: None,
            early_groups: None,
            effects: VecDeque::new(),
        };
        opener.make_call();
        opener
    }

    /// What is to be done, in order.
    pub fn effects(&mut self) -> Drain<'_, OpenerEffect> {
        self.effects.drain(..)
    }

    /// Has it ended?
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// Does it wait for the volume's keys, and has nothing else under way?
    #[must_use]
    pub fn awaits_keys(&self) -> bool {
        self.awaited.is_some() && self.call.is_none() && !self.is_done()
    }

    /// Ends it, if it waits for keys: too many others do.
    pub fn give_up_keys(&mut self) {
        if self.awaits_keys() {
            let volume = self.config.volume.clone();
            let why = "the keys of many volumes are being fetched; try again".to_owned();
            self.retry = None;
            self.end(Err(OpenError::Locked { volume, why }));
        }
    }

    /// When [`Opener::tick`] is wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match self.step {
            Step::Owner { until } => Some(until),
            Step::Done => None,
            _ => self.retry,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        match self.step {
            // A move is no reason to take a volume by force.
            Step::Owner { until } if now >= until && self.config.consent == Consent::HandOver => {
                let owner = self.record().owner.expect("only an owner is asked");
                self.end(Err(OpenError::Busy { owner }));
            }
            Step::Owner { until } if now >= until => self.pass_over(now),
            Step::Owner { .. } | Step::Done => {}
            _ if self.retry.is_some_and(|at| now >= at) => match self.keys_are_coming() {
                true => self.retry = Some(now.plus(self.keys_pause())),
                false => {
                    self.retry = None;
                    if self.awaited.take().is_some() {
                        self.give_up = now.plus(self.config.meta_timeout);
                    }
                    self.make_call();
                }
            },
            _ => {}
        }
    }

    /// The owner has not answered in time.
    fn pass_over(&mut self, now: Time) {
        match self.owner_until {
            None => self.raise(),
            Some(until) if now >= until => {
                let owner = self.record().owner.expect("only an owner is asked");
                self.end(Err(OpenError::Silent { owner }));
            }
            // By now it may be dead, or another's.
            Some(_) => {
                self.rounds = 0;
                self.give_up = now.plus(self.config.meta_timeout);
                self.go(Step::Volume);
            }
        }
    }

    /// The owner whose answer is awaited, and which of this opening's questions it is: an answer to one about an earlier owner or
    /// generation says nothing of what is asked for now.
    #[must_use]
    pub fn asked(&self) -> Option<(NodeId, u32)> {
        match self.step {
            Step::Owner { .. } => Some((self.record().owner?, self.questions)),
            _ => None,
        }
    }

    /// Which volume the name stands for, once the record has been read.
    #[must_use]
    pub fn volume(&self) -> Option<VolumeId> {
        self.volume.as_ref().map(|(record, _)| record.id)
    }

    /// The present owner has answered, or cannot.
    pub fn owner(&mut self, reply: OwnerReply) {
        let Step::Owner { .. } = self.step else {
            return;
        };
        match reply {
            OwnerReply::Busy => {
                let owner = self.record().owner.expect("only an owner is asked");
                self.end(Err(OpenError::Busy { owner }));
            }
            OwnerReply::Released => {
                // Where nobody used the volume, it is dropped at once: reads may be under way there still.
                if self.config.consent == Consent::HandOver {
                    self.given_back = Some(self.record().generation);
                }
                self.raise();
            }
            // The question's time runs on: its lease may end meanwhile, or a connection come back.
            OwnerReply::Unreachable if self.owner_until.is_some() => {}
            OwnerReply::NotOwner | OwnerReply::Unreachable | OwnerReply::Gone => self.raise(),
        }
    }

    /// The metadata has answered.
    pub fn meta(&mut self, now: Time, call: CallId, result: Result<Reply, Error>) {
        if self.call != Some(call) {
            return;
        }
        self.call = None;
        self.now = now;
        match result {
            Ok(reply) => {
                self.give_up = now.plus(self.config.meta_timeout);
                self.replied(now, reply);
            }
            Err(error) => self.failed(now, error),
        }
    }

    fn failed(&mut self, now: Time, error: Error) {
        let refused = matches!(error, Error::Refused { .. });
        if refused || now >= self.give_up {
            return self.end(Err(OpenError::Metadata { error }));
        }
        if matches!(self.step, Step::Raise) && matches!(error, Error::Unknown { .. }) {
            // R6: it may have been raised. What is there now is read, and raised again.
            self.step = Step::Volume;
        }
        self.retry = Some(now.plus(self.config.meta_pause));
    }

    fn replied(&mut self, now: Time, reply: Reply) {
        match self.step {
            Step::Volume => self.volume_read(reply.value(0)),
            Step::Pool => self.pool_read(now, &reply),
            Step::Raise => self.raise_answered(&reply),
            Step::Groups => {
                if self.config.faults.has(Fault::ReadGroupsBeforeRaise) && self.early_groups.is_none() {
                    self.early_groups = Some(reply);
                    return self.raise();
                }
                self.groups_read(&reply);
            }
            Step::Owner { .. } | Step::Done => {}
        }
    }

    fn record(&self) -> &map::Volume {
        &self.volume.as_ref().expect("the volume's record was read first").0
    }

    fn volume_key(&self) -> String {
        map::volume_key(&self.config.volume)
    }

    /// Makes the call of the present step.
    fn make_call(&mut self) {
        let request = match self.step {
            Step::Volume => Call::get(self.volume_key()),
            Step::Pool => {
                let mut call = Call::get(map::pool_key(&self.record().pool));
                call.then.push(Op::Prefix {
                    key: map::suspect_prefix(),
                });
                if let Some(owner) = self.record().owner {
                    call.then.push(Op::Get {
                        key: map::live_key(owner),
                    });
                }
                if let Some((set, number)) = self.open_set() {
                    call.then.push(Op::Get { key: map::set_key(set) });
                    call.then.push(Op::Get {
                        key: map::snapshot_key(self.record().id, number),
                    });
                }
                call
            }
            Step::Raise => {
                let (record, revision) = self.volume.as_ref().expect("the volume's record was read first");
                let mut record = record.clone();
                self.take_over(&mut record);
                let raised = map::Raised {
                    volume: record.id,
                    generation: record.generation,
                };
                let json = "a record of numbers and texts";
                let value = serde_json::to_vec(&record).expect(json);
                let mut call = Call::put_if(self.volume_key(), *revision, value);
                if let Some(set) = &self.set {
                    set.decide(&mut call, &record.name);
                }
                if !self.config.faults.has(Fault::RaiseSilently) {
                    // A promotion that rests on what an older owner has said fails by this (R2).
                    call.then.push(Op::Put {
                        key: map::raised_key(self.pool.as_ref().expect("the pool's record was read").id),
                        value: serde_json::to_vec(&raised).expect(json),
                        lease: None,
                    });
                }
                call
            }
            Step::Groups => {
                let pool = self.pool.as_ref().expect("the pool's record was read").id;
                let mut call = Call::get(self.volume_key());
                call.then.push(Op::Prefix {
                    key: map::groups_prefix(pool),
                });
                call.then.push(Op::Get {
                    key: map::reservation_key(self.record().id),
                });
                call
            }
            Step::Owner { .. } | Step::Done => return,
        };
        self.count += 1;
        let call = CallId(self.id_base | self.count);
        self.call = Some(call);
        self.effects.push_back(OpenerEffect::Meta { call, request });
    }

    fn go(&mut self, step: Step) {
        self.step = step;
        self.make_call();
    }

    fn end(&mut self, result: Result<Opened, OpenError>) {
        self.step = Step::Done;
        self.call = None;
        self.effects.push_back(OpenerEffect::Opened(Box::new(result)));
    }

    /// Takes over what was read of the volume, if it can be used.
    fn keep_volume(&mut self, value: Option<&KeyValue>) -> bool {
        let Some(value) = value else {
            let name = self.config.volume.clone();
            self.end(Err(OpenError::NoSuchVolume { name }));
            return false;
        };
        let checked = value
            .json::<map::Volume>()
            .map_err(|error| error.to_string())
            .and_then(|volume| {
                if volume.name != self.config.volume {
                    return Err(format!("it is of volume {:?}", volume.name));
                }
                if volume.size_bytes == 0 || volume.size_bytes % u64::from(BLOCK_BYTES) != 0 {
                    return Err(format!(
                        "its size, {} bytes, is no multiple of {BLOCK_BYTES}",
                        volume.size_bytes
                    ));
                }
                volume.lineage.check()?;
                let newest = volume.keys.as_ref().map(|ring| ring.newest().from);
                if let Some(from) = newest.filter(|from| *from > Generation(volume.generation.0.saturating_add(1))) {
                    return Err(format!(
                        "its newest key begins with generation {from}, which no owner has"
                    ));
                }
                map::check_parents(&volume)?;
                Ok(volume)
            });
        match checked {
            Ok(volume) if volume.generation.next().is_none() => {
                self.end(Err(OpenError::GenerationsUsedUp { name: volume.name }));
                false
            }
            // The raise compares the record that is looked at here: who has found it open has raised it before it was closed.
            Ok(volume) if self.is_closed(&volume) => {
                let mirror = volume.closed.map_or_else(String::new, |closed| closed.name);
                let volume = volume.name;
                self.end(Err(OpenError::Closed { volume, mirror }));
                false
            }
            Ok(volume) => match self.keys_of(&volume) {
                Ok(keys) => {
                    self.keys = keys;
                    self.volume = Some((volume, value.mod_revision));
                    true
                }
                Err(NotNow::Coming) => {
                    self.await_keys(volume);
                    false
                }
                Err(NotNow::Missing(why)) => {
                    let volume = volume.name;
                    self.end(Err(OpenError::Locked { volume, why }));
                    false
                }
            },
            Err(why) => {
                let key = self.volume_key();
                self.end(Err(OpenError::BadRecord { key, why }));
                false
            }
        }
    }

    /// Is the volume closed to whoever it is opened for?
    fn is_closed(&self, volume: &map::Volume) -> bool {
        self.config.for_host && volume.closed_to(self.config.mirror).is_some()
    }

    /// The keys of the volume, if it is encrypted. Before anybody is asked to let go of it: who cannot read it does not take it from one
    /// who can.
    fn keys_of(&self, volume: &map::Volume) -> Result<Option<Arc<Keychain>>, NotNow> {
        let Some(ring) = &volume.keys else {
            return Ok(None);
        };
        if let Some(held) = self.keys.as_ref().filter(|held| held.ring() == ring) {
            return Ok(Some(held.clone()));
        }
        match &self.config.keys {
            Some(keys) => keys.keychain(ring).map(Some),
            None => Err(NotNow::Missing(NO_KEYS.to_owned())),
        }
    }

    /// The record is read again when the keys have come: what was read of it may be old by then.
    fn await_keys(&mut self, volume: map::Volume) {
        let until = *self.keys_until.get_or_insert(self.now.plus(self.config.keys_timeout));
        if self.now >= until {
            let (volume, why) = (volume.name, "its keys are still being fetched; try again".to_owned());
            return self.end(Err(OpenError::Locked { volume, why }));
        }
        self.awaited = volume.keys;
        self.rounds = 0;
        self.step = Step::Volume;
        self.retry = Some(self.now.plus(self.keys_pause()));
    }

    /// What has taken long takes longer.
    fn keys_pause(&self) -> Duration {
        let left = self
            .keys_until
            .map_or(self.config.keys_timeout, |until| until.since(self.now));
        let waited = self.config.keys_timeout.saturating_sub(left);
        (waited / 4).min(KEYS_PAUSE).max(self.config.meta_pause)
    }

    /// Are keys that are waited for still being fetched? The metadata is not asked until they are not: of a thousand volumes that are opened at
    /// once each would read its record at every pause, and whoever fetches keys reads there, too.
    fn keys_are_coming(&self) -> bool {
        let is_time = self.keys_until.is_some_and(|until| self.now < until);
        let awaited = self.awaited.as_ref().filter(|_| is_time).zip(self.config.keys.as_ref());
        awaited.is_some_and(|(ring, keys)| matches!(keys.keychain(ring), Err(NotNow::Coming)))
    }

    fn volume_read(&mut self, value: Option<&KeyValue>) {
        // It was this record's owner that was asked; the raise proves that nobody has changed it since.
        self.given_back = None;
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return self.end(Err(OpenError::Contended));
        }
        if self.keep_volume(value) {
            self.go(Step::Pool);
        }
    }

    fn pool_read(&mut self, now: Time, reply: &Reply) {
        let name = self.record().pool.clone();
        let Some(value) = reply.value(0) else {
            let volume = self.config.volume.clone();
            return self.end(Err(OpenError::NoSuchPool { volume, pool: name }));
        };
        let checked = value.json::<map::Pool>().map_err(|error| error.to_string());
        match checked.and_then(|pool| pool.check().map(|()| pool)) {
            Ok(pool) => self.pool = Some(pool),
            Err(why) => {
                let key = map::pool_key(&name);
                return self.end(Err(OpenError::BadRecord { key, why }));
            }
        }
        if let Some(found) = reply.value(1) {
            // Metadata that is older than the stores may name the wrong ones as in sync.
            let volume = self.config.volume.clone();
            let why = match found.json::<map::Suspect>() {
                Ok(suspect) => suspect.why,
                Err(error) => error.to_string(),
            };
            return self.end(Err(OpenError::Suspect { volume, why }));
        }
        let has_owner = self.record().owner.is_some();
        let lives = has_owner && reply.value(2).is_some();
        let behind = 2 + usize::from(has_owner);
        match self.open_set() {
            None => self.set = None,
            Some((set, _)) => match OpenSet::read(set, reply.value(behind), reply.value(behind + 1)) {
                Ok(read) => self.set = Some(read),
                Err((key, why)) => return self.end(Err(OpenError::BadRecord { key, why })),
            },
        }
        match self.record().owner {
            Some(owner) if owner != self.config.node && lives => {
                let hand_over = self.config.consent == Consent::HandOver;
                if let Consent::Over(lost) = self.config.consent
                    && lost != Some(owner)
                {
                    return self.end(Err(OpenError::Busy { owner }));
                }
                let patience = match hand_over || self.owner_until.is_some() {
                    true => self.config.hand_over_timeout,
                    false => self.config.release_timeout,
                };
                let until = now.plus(patience);
                self.step = Step::Owner { until };
                let generation = self.record().generation;
                // One that is slow answers the question before: it says the same of this one.
                if self.last_asked.replace((owner, generation)) != Some((owner, generation)) {
                    self.questions += 1;
                }
                self.effects.push_back(OpenerEffect::AskOwner {
                    node: owner,
                    volume: self.record().id,
                    generation,
                    hand_over,
                });
            }
            _ => self.raise(),
        }
    }

    fn raise(&mut self) {
        let record = self.record();
        // The raise compares the record that says so.
        if record.lineage.given_back || self.config.faults.has(Fault::GiveBackUnasked) {
            self.given_back = Some(record.generation);
        }
        if self.config.faults.has(Fault::ReadGroupsBeforeRaise) && self.early_groups.is_none() {
            return self.go(Step::Groups);
        }
        self.go(Step::Raise);
    }

    /// The record of before becomes that of our ownership. A snapshot that was not sealed is void from then on: what its owner
    /// gave out with its number may be on some members only, and what it gave out without may be on others (S2).
    fn take_over(&self, record: &mut map::Volume) {
        record.generation = record.generation.next().expect("looked at before");
        record.owner = Some(self.config.node);
        record.lineage.raise();
        let is_left = match record.lineage.set {
            Some(_) => self.config.faults.has(Fault::LeaveSets),
            None => self.config.faults.has(Fault::KeepUnsealed),
        };
        if record.lineage.taking && !is_left {
            record.lineage.end(self.set.as_ref().is_some_and(OpenSet::is_ready));
        }
    }

    /// The set whose end the volume's record does not tell yet, and the number that was taken for it.
    fn open_set(&self) -> Option<(SetId, SnapshotId)> {
        let lineage = &self.record().lineage;
        let set = lineage.set.filter(|_| !self.config.faults.has(Fault::LeaveSets))?;
        Some((set, lineage.number))
    }

    fn raise_answered(&mut self, reply: &Reply) {
        if !reply.succeeded {
            // Somebody else was quicker; its record is here. It may have to be asked first.
            return self.volume_read(reply.value(0));
        }
        let mut record = self.record().clone();
        self.take_over(&mut record);
        self.raised = Some(record.generation);
        self.volume = Some((record, reply.revision));
        match self.early_groups.take() {
            Some(reply) => self.finish_with_groups(&reply),
            None => self.go(Step::Groups),
        }
    }

    fn groups_read(&mut self, reply: &Reply) {
        // In the same transaction: is the generation still ours?
        if !self.keep_volume(reply.value(0)) {
            return;
        }
        if Some(self.record().generation) != self.raised {
            return self.volume_read(reply.value(0));
        }
        self.finish_with_groups(reply);
    }

    fn finish_with_groups(&mut self, reply: &Reply) {
        let (volume, volume_revision) = self.volume.take().expect("the volume's record was read first");
        let pool = self.pool.take().expect("the pool's record was read");
        let keys = self.keys.take();
        if let Some(era) = volume.keys.as_ref().map(map::KeyRing::newest)
            && era.from > volume.generation
        {
            let (key, why) = (
                self.volume_key(),
                format!("its newest key begins with generation {}", era.from),
            );
            return self.end(Err(OpenError::BadRecord { key, why }));
        }
        let reservation = reply.value(2).map(|found| (found.value.clone(), found.mod_revision));
        let result = check::groups(&pool, reply.values(1)).map(|groups| Opened {
            reservation,
            given_back: self.given_back,
            generation: volume.generation,
            owner: self.config.node,
            volume,
            volume_revision,
            pool,
            groups,
            keys,
        });
        self.end(result);
    }
}

#[cfg(test)]
mod tests;
