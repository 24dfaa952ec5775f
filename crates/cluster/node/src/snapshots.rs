//! Snapshots of the volumes that this node owns (S1, S2, S7): on core 0 only.
//!
//! Whoever wants one puts a wish into the metadata ([`SnapshotWish`]). The owner
//!
//! 1. has every store in sync adopt its generation, so that no older owner writes anything more;
//! 2. puts the next number into the volume's record (S1), as one that is being taken;
//! 3. has every core adopt it, and, when all have, release it: only then what carries it is acknowledged, and shown by reads (S2);
//! 4. waits until no write with a smaller number is without its acknowledgement, and seals it (S7): the wish goes.
//!
//! Each step of the metadata is one transaction that compares the volume's record: an owner that was deposed changes nothing, and
//! the raise that has deposed it has made the number void. What is not known to be done is read back. A volume that is lost in
//! between is of no more concern here: its next owner finds the wish, and takes the snapshot with another number.
//!
//! A snapshot of a set (S4) is wished by the set's record. Its owner goes the same way up to the number in the record; what then comes
//! is in [`joined`].

mod hold;
mod joined;

use crate::faults::{Fault, Faults};
use crate::view::View;
use amita_fabric::CutOutcome;
use amita_metadata::{self as meta, Call, Compare, Op};
use amita_reactor::driver::Time;
use amita_sequencer::CallId;
use amita_types::map::{self, SNAPSHOTS_SINCE, SetState, Snapshot, SnapshotName, SnapshotState, SnapshotWish};
use amita_types::{Generation, NodeId, SetId, SnapshotId, StoreId, VolumeId};
use joined::Joined;
pub use joined::{Asker, HOLD};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long stores may take to adopt a generation. One that does not answer is evicted long before, where it may be.
const PATIENCE: Duration = Duration::from_secs(20);
/// After a call that failed, and after one that found the record changed.
const PAUSE: Duration = Duration::from_millis(100);
/// Before a wish is looked at anew that could neither be carried out nor answered.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// A metadata call.
    Call(CallId, Call),
    /// Every core does this with the volume, if it is open there under this generation.
    Order(VolumeId, Generation, Order),
    /// An answer to whoever leads a set.
    Answer(Asker, CutOutcome),
}

/// What a core's sequencer is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Has all stores in sync adopt the generation. (One core does it for all.)
    Require,
    /// Its writes carry the number from now on.
    Adopt(SnapshotId),
    /// All cores have adopted it: what carries it may be acknowledged.
    Release(SnapshotId),
    /// It begins nothing more of hosts, but reads of snapshots (M2).
    Hold,
    /// It goes on.
    LetGo,
}

/// What a core's sequencer has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// All stores in sync have adopted the generation.
    Required,
    /// Its writes carry the number.
    Adopted(SnapshotId),
    /// None of its writes with a smaller one is without its acknowledgement.
    Settled(SnapshotId),
    /// Nothing of hosts is under way, and it holds.
    Drained,
}

#[derive(Debug)]
enum Step {
    /// Until all stores in sync have adopted the generation, or this time.
    Requiring { until: Time },
    /// The volume's record is read, and what may speak against the snapshot.
    Reading,
    /// The number of before was taken for this set, and the record does not say how that ended.
    Resolving(SetId),
    /// The name is one of another snapshot's: is that one void?
    Doubting(Box<Plan>),
    /// The number is put into the record.
    Beginning(SnapshotId),
    /// Of a set: the number is in the record, until whoever leads has it adopted, or this time.
    Prepared { number: SnapshotId, until: Time },
    /// For the last pass of a move: until nothing of hosts is under way on these cores, which hold.
    Draining(SnapshotId, BTreeSet<usize>),
    /// The same: it is sealed, and the record says that we hold.
    Held(SnapshotId),
    /// The record is read before it says so no longer.
    Returning(SnapshotId),
    /// It says so no longer.
    LettingGo(SnapshotId),
    /// Until these cores have adopted the number.
    Adopting(SnapshotId, BTreeSet<usize>),
    /// Of a set: all cores carry the number, and hold, until they are told to let go.
    Holding(SnapshotId),
    /// Until these have acknowledged what is older.
    Settling(SnapshotId, BTreeSet<usize>),
    /// Of a set: nothing that is older is left, and the set is not decided.
    Settled(SnapshotId),
    /// The record is read before the number is sealed in it.
    Looking(SnapshotId),
    /// The number is sealed.
    Sealing(SnapshotId),
    /// Of a set that is void: the records are read, and the number is withdrawn.
    Withdrawing(SnapshotId),
    /// It is withdrawn.
    Withdrawn(SnapshotId),
    /// Of a set: whoever should lead is silent, and it is made void.
    Voiding(SnapshotId),
    /// How an earlier set has ended is put into the record.
    Ending,
    /// The wish is answered: it cannot be taken.
    Refusing,
}

/// What the next transaction is made of.
#[derive(Debug)]
struct Plan {
    volume: map::Volume,
    revision: u64,
    /// Of the name's record; 0: there is none.
    name_revision: u64,
    /// The snapshot that has the name and is void: it goes.
    void: Option<(VolumeId, SnapshotId)>,
}

/// A snapshot on its way.
#[derive(Debug)]
struct Taking {
    name: String,
    /// The number under which the names of the volume's snapshots stand.
    host: VolumeId,
    generation: Generation,
    wish: SnapshotWish,
    wish_revision: u64,
    step: Step,
    call: Option<CallId>,
    /// The step's call is made at this time.
    retry: Option<Time>,
    /// The number that we may have put into the record.
    tried: Option<SnapshotId>,
    /// It is one of a set.
    joined: Option<Joined>,
    /// We hold, until then if it goes by us.
    hold: Option<hold::Hold>,
}

impl Taking {
    /// The key of what is wished.
    fn wish_key(&self, volume: VolumeId) -> String {
        match &self.joined {
            Some(joined) => map::set_key(joined.set.id),
            None => map::snapshot_wish_key(volume),
        }
    }

    /// The key of the name that it is to have.
    fn name_key(&self) -> String {
        map::snapshot_name_key(self.host, &self.wish.name)
    }
}

/// All snapshots that are being taken here.
pub struct Snapshots {
    node: NodeId,
    cores: usize,
    base: u64,
    count: u64,
    /// When something was last heard.
    now: Time,
    volumes: BTreeMap<VolumeId, Taking>,
    /// Wishes that were answered, by their revision: the watch may tell of them for a while.
    answered: BTreeMap<VolumeId, u64>,
    /// Wishes that came to nothing, and when they are looked at anew.
    put_off: BTreeMap<VolumeId, Time>,
    effects: VecDeque<Effect>,
    /// Rules that are switched off to show that tests notice.
    pub faults: Faults,
}

impl Snapshots {
    /// None; `base` stands above the low 20 bits of every call's id.
    #[must_use]
    pub fn new(node: NodeId, cores: usize, base: u64) -> Snapshots {
        Snapshots {
            node,
            cores,
            base,
            count: 0,
            now: Time(0),
            volumes: BTreeMap::new(),
            answered: BTreeMap::new(),
            put_off: BTreeMap::new(),
            effects: VecDeque::new(),
            faults: Faults::NONE,
        }
    }

    /// The next thing to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Snapshots::tick`] is wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let due = |taking: &Taking| match taking.step {
            Step::Requiring { until } => Some(until),
            Step::Prepared { until, .. } => Some(until),
            Step::Holding(_) => taking.joined.as_ref().and_then(|joined| joined.lapses),
            Step::Settling(..) | Step::Settled(_) => {
                let joined = taking.joined.as_ref().filter(|_| taking.call.is_none());
                joined.and_then(|joined| joined.patience)
            }
            _ => taking.retry,
        };
        let takings = self.volumes.values().filter_map(due);
        let takings = takings.chain(self.volumes.values().filter_map(Taking::lets_go_at));
        takings.chain(self.put_off.values().copied()).min()
    }

    /// Begins with what is wished of the volumes that are open here. `open`: under which generation.
    pub fn look(
        &mut self,
        now: Time,
        view: &View,
        open: impl Fn(VolumeId) -> Option<Generation>,
        has_keys: impl Fn(&map::Volume) -> Result<bool, String>,
    ) {
        self.put_off.retain(|_, until| now < *until);
        self.answered
            .retain(|volume, _| view.snapshot_wishes().any(|(wished, ..)| wished == *volume));
        self.look_at_sets(now, view, &open);
        for (volume, wish, revision) in view.snapshot_wishes() {
            let answered = wish.refused.is_some() || self.answered.get(&volume).is_some_and(|done| *done >= revision);
            if answered || self.volumes.contains_key(&volume) || self.put_off.contains_key(&volume) {
                continue;
            }
            let (Some(generation), Some(record)) = (open(volume), view.volume_of(volume)) else {
                continue;
            };
            // What it moves to is opened here at once behind the switch: without its keys hosts would wait, and there is no way back.
            let target = wish.hold_ms.and(record.lineage.moving);
            let has_keys = target
                .and_then(|target| view.volume_of(target))
                .map_or(Ok(true), &has_keys);
            if has_keys == Ok(false) {
                continue;
            }
            self.take(now, record, generation, (wish.clone(), revision), None);
            if let Err(why) = has_keys {
                self.refuse(
                    volume,
                    format!("the node that has it open cannot open what it is to be: {why}"),
                );
            }
        }
    }

    /// Begins.
    fn take(
        &mut self,
        now: Time,
        record: &map::Volume,
        generation: Generation,
        (wish, wish_revision): (SnapshotWish, u64),
        joined: Option<Joined>,
    ) {
        let volume = record.id;
        let taking = Taking {
            name: record.name.clone(),
            host: record.host(),
            generation,
            wish,
            wish_revision,
            step: Step::Requiring {
                until: now.plus(PATIENCE),
            },
            call: None,
            retry: None,
            tried: None,
            joined,
            hold: None,
        };
        self.volumes.insert(volume, taking);
        self.effects
            .push_back(Effect::Order(volume, generation, Order::Require));
    }

    /// The volume is not ours any more under this generation.
    pub fn lost(&mut self, volume: VolumeId, generation: Generation) {
        if self
            .volumes
            .get(&volume)
            .is_some_and(|taking| taking.generation <= generation)
        {
            self.remove(volume);
        }
    }

    /// It is of no more concern: whoever leads its set and waits for an answer is told.
    fn remove(&mut self, volume: VolumeId) -> Option<Taking> {
        let mut taking = self.volumes.remove(&volume)?;
        if taking.hold.is_some() {
            let order = Order::LetGo;
            self.effects.push_back(Effect::Order(volume, taking.generation, order));
        }
        let asker = taking.joined.as_mut().and_then(|joined| joined.asker.take());
        if let Some((asker, _)) = asker {
            self.effects.push_back(Effect::Answer(asker, CutOutcome::NotOwner));
        }
        Some(taking)
    }

    /// Time has passed. `lacking`: the stores in sync that have not adopted a volume's generation.
    pub fn tick(&mut self, now: Time, lacking: impl Fn(VolumeId) -> Vec<StoreId>) {
        self.now = now;
        let due: Vec<VolumeId> = self.volumes.keys().copied().collect();
        for volume in due {
            self.end_hold_in_time(now, volume);
            let Some(taking) = self.volumes.get_mut(&volume) else {
                continue;
            };
            match taking.step {
                Step::Requiring { until } if now >= until => {
                    let stores = lacking(volume);
                    let named: Vec<String> = stores.iter().map(ToString::to_string).collect();
                    let why = format!(
                        "stores in sync have not answered within {} s, and cannot be evicted: {}; `amita status` shows them",
                        PATIENCE.as_secs(),
                        named.join(", ")
                    );
                    self.refuse(volume, why);
                }
                Step::Prepared { number, until } if now >= until => self.void_without_leader(volume, number),
                Step::Holding(number) => self.lapse(now, volume, number),
                Step::Settling(..) | Step::Settled(_) if taking.call.is_none() => self.void_when_let_go(now, volume),
                _ if taking.retry.is_some_and(|at| now >= at) => {
                    taking.retry = None;
                    self.go_on(volume);
                }
                _ => {}
            }
        }
    }

    /// A core's sequencer has done something.
    pub fn said(&mut self, volume: VolumeId, generation: Generation, core: usize, word: Word) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        if taking.generation != generation {
            return;
        }
        let early = self.faults.has(Fault::ReleaseEarly);
        match (&mut taking.step, word) {
            (Step::Requiring { .. }, Word::Required) => {
                taking.step = Step::Reading;
                self.go_on(volume);
            }
            (Step::Draining(number, missing), Word::Drained) => {
                missing.remove(&core);
                if missing.is_empty() {
                    let number = *number;
                    self.adopt(volume, number);
                }
            }
            (Step::Adopting(number, missing), Word::Adopted(adopted)) if *number == adopted => {
                missing.remove(&core);
                if missing.is_empty() && taking.joined.is_some() {
                    taking.step = Step::Holding(adopted);
                    self.adopted(volume, adopted);
                } else if missing.is_empty() || early {
                    taking.step = Step::Settling(adopted, (0..self.cores).collect());
                    let order = Order::Release(adopted);
                    self.effects.push_back(Effect::Order(volume, generation, order));
                }
            }
            (Step::Settling(number, missing), Word::Settled(settled)) if *number == settled => {
                missing.remove(&core);
                if missing.is_empty() && taking.joined.is_some() {
                    taking.step = Step::Settled(settled);
                    self.settled(volume, settled);
                } else if missing.is_empty() {
                    taking.step = Step::Looking(settled);
                    self.go_on(volume);
                }
            }
            _ => {}
        }
    }

    /// Makes the call of the present step, where it reads.
    fn go_on(&mut self, volume: VolumeId) {
        let Some(taking) = self.volumes.get(&volume) else {
            return;
        };
        let get = |key: String| Op::Get { key };
        let call = match &taking.step {
            Step::Reading => {
                let mut call = Call::get(map::volume_key(&taking.name));
                call.then.push(get(taking.wish_key(volume)));
                call.then.push(get(map::cluster_key()));
                call.then.push(get(taking.name_key()));
                call
            }
            Step::Looking(number) => {
                let mut call = Call::get(map::volume_key(&taking.name));
                call.then.push(get(taking.wish_key(volume)));
                call.then.push(get(map::snapshot_key(volume, *number)));
                call
            }
            Step::Returning(_) => Call::get(map::volume_key(&taking.name)),
            Step::Withdrawing(number) => {
                let mut call = Call::get(map::volume_key(&taking.name));
                call.then.push(get(map::snapshot_key(volume, *number)));
                call.then.push(get(taking.name_key()));
                call
            }
            _ => return,
        };
        self.call(volume, call);
    }

    fn call(&mut self, volume: VolumeId, request: Call) {
        self.count += 1;
        let call = CallId(self.base | self.count & 0xf_ffff);
        if let Some(taking) = self.volumes.get_mut(&volume) {
            taking.call = Some(call);
            self.effects.push_back(Effect::Call(call, request));
        }
    }

    /// The end of a call; false where it is none of these.
    pub fn answered(&mut self, now: Time, call: CallId, result: &Result<meta::Reply, meta::Error>) -> bool {
        if call.0 >> 20 != self.base >> 20 {
            return false;
        }
        let found = self.volumes.iter_mut().find(|(_, taking)| taking.call == Some(call));
        let Some((&volume, taking)) = found else { return true };
        taking.call = None;
        self.now = now;
        if matches!(taking.step, Step::Settling(..) | Step::Settled(_)) {
            // Its set was to be made void, and the watch tells whether it is.
            return true;
        }
        let Ok(reply) = result else {
            // What may have been done is read back (R6).
            taking.step = match std::mem::replace(&mut taking.step, Step::Reading) {
                Step::Sealing(number) | Step::Looking(number) => Step::Looking(number),
                Step::Returning(number) | Step::LettingGo(number) => Step::Returning(number),
                Step::Withdrawing(number) | Step::Withdrawn(number) => Step::Withdrawing(number),
                Step::Voiding(number) => {
                    self.back_to_waiting(now, volume, number);
                    return true;
                }
                // Nobody knows whether it is answered.
                Step::Refusing => return self.put_off(now, volume),
                _ => Step::Reading,
            };
            taking.retry = Some(now.plus(PAUSE));
            return true;
        };
        match std::mem::replace(&mut taking.step, Step::Reading) {
            Step::Reading => self.read(now, volume, reply),
            Step::Resolving(set) => self.resolved(now, volume, set, reply),
            Step::Doubting(plan) => self.doubted(volume, *plan, reply),
            Step::Withdrawing(number) => self.withdraw(now, volume, number, reply),
            Step::Ending if reply.succeeded => {
                taking.step = Step::Reading;
                self.go_on(volume);
            }
            Step::Voiding(number) => self.back_to_waiting(now, volume, number),
            Step::Withdrawn(_) if reply.succeeded => return self.end(volume),
            Step::Withdrawn(number) => {
                taking.step = Step::Withdrawing(number);
                taking.retry = Some(now.plus(PAUSE));
            }
            Step::Beginning(number) if reply.succeeded => self.begun(volume, number),
            Step::Looking(number) => self.seal(now, volume, number, reply),
            Step::Sealing(number) if reply.succeeded => return self.sealed(now, volume, number),
            Step::Returning(number) => self.give_back(now, volume, number, reply),
            Step::LettingGo(_) if reply.succeeded => return self.end(volume),
            Step::LettingGo(number) => {
                taking.step = Step::Returning(number);
                taking.retry = Some(now);
            }
            // Somebody has changed the record in between.
            Step::Sealing(number) => {
                taking.step = Step::Looking(number);
                taking.retry = Some(now.plus(PAUSE));
            }
            Step::Refusing if reply.succeeded => return self.end(volume),
            // It is another wish by now.
            Step::Refusing => return self.put_off(now, volume),
            _ => taking.retry = Some(now.plus(PAUSE)),
        }
        true
    }

    /// It is taken, or refused, or cannot be any more.
    fn end(&mut self, volume: VolumeId) -> bool {
        if let Some(taking) = self.remove(volume)
            && taking.joined.is_none()
        {
            self.answered.insert(volume, taking.wish_revision);
        }
        true
    }

    /// It is looked at anew, from the first step, if the volume is still ours then.
    fn put_off(&mut self, now: Time, volume: VolumeId) -> bool {
        self.remove(volume);
        self.put_off.insert(volume, now.plus(LONG_PAUSE));
        true
    }

    /// The volume's record, if it is ours under our generation.
    fn ours(&self, volume: VolumeId, value: Option<&meta::KeyValue>) -> Option<(map::Volume, u64)> {
        let taking = self.volumes.get(&volume)?;
        let value = value?;
        let record = value.json::<map::Volume>().ok()?;
        let ours = record.id == volume && record.owner == Some(self.node) && record.generation == taking.generation;
        ours.then_some((record, value.mod_revision))
    }

    /// May it be taken?
    fn read(&mut self, now: Time, volume: VolumeId, reply: &meta::Reply) {
        let Some((record, revision)) = self.ours(volume, reply.value(0)) else {
            // It is lost, and the cores will say so; or its record cannot be read.
            self.put_off(now, volume);
            return;
        };
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let number = record.lineage.number;
        let tried = taking.tried == Some(number) || self.faults.has(Fault::SealAnothers);
        if record.lineage.taking && tried {
            // It was done, though nobody said so.
            return self.begun(volume, number);
        }
        if record.lineage.taking
            && let Some(set) = record.lineage.set
        {
            // How that one has ended is to be in the record before another number is.
            taking.step = Step::Resolving(set);
            let mut call = Call::get(map::volume_key(&taking.name));
            for key in [map::set_key(set), map::snapshot_key(volume, number)] {
                call.then.push(Op::Get { key });
            }
            return self.call(volume, call);
        }
        let wish = match &mut taking.joined {
            Some(joined) => joined.wish(&taking.name, reply.value(1)),
            None => reply
                .value(1)
                .and_then(|found| Some((found.json::<SnapshotWish>().ok()?, found.mod_revision))),
        };
        let Some((wish, wish_revision)) = wish.filter(|(wish, _)| wish.refused.is_none()) else {
            // Nobody wants it any more.
            self.end(volume);
            return;
        };
        let read_for = std::mem::replace(&mut taking.wish, wish);
        taking.wish_revision = wish_revision;
        if read_for.name != taking.wish.name {
            // The watch was late: what was read is about the name that another one had.
            return self.go_on(volume);
        }
        let version = reply
            .value(2)
            .and_then(|found| found.json::<map::Cluster>().ok())
            .map_or(0, |cluster| cluster.version);
        if version < SNAPSHOTS_SINCE {
            let why = format!(
                "the cluster's version is {version}, and snapshots need {SNAPSHOTS_SINCE}: all programs must know of them first"
            );
            return self.refuse(volume, why);
        }
        if record.is_former() {
            // A set was put there at the moment of a revert.
            let why = "it was reverted meanwhile, and this would be what it was before".to_owned();
            return self.refuse_now(volume, why, true);
        }
        if taking.wish.volume != taking.name {
            let why = format!(
                "it is about volume {:?}, and its record is volume {}'s",
                taking.wish.volume, taking.name
            );
            return self.refuse(volume, why);
        }
        if let Err(why) = taking.wish.check() {
            return self.refuse(volume, why);
        }
        let plan = Plan {
            volume: record,
            revision,
            name_revision: reply.value(3).map_or(0, |found| found.mod_revision),
            void: None,
        };
        match reply.value(3).map(|found| found.json::<SnapshotName>()) {
            None => self.begin(volume, plan),
            Some(Err(error)) => {
                let key = taking.name_key();
                self.refuse(volume, format!("the record {key} cannot be read: {error}"));
            }
            Some(Ok(name)) => {
                let data = plan.volume.data_of(&name);
                taking.step = Step::Doubting(Box::new(Plan {
                    void: Some((data, name.number)),
                    ..plan
                }));
                self.call(volume, Call::get(map::snapshot_key(data, name.number)));
            }
        }
    }

    /// There was a snapshot of that name. Is it one still?
    fn doubted(&mut self, volume: VolumeId, plan: Plan, reply: &meta::Reply) {
        let Some(taking) = self.volumes.get(&volume) else {
            return;
        };
        let name = &taking.wish.name;
        let held = reply.value(0).map(|found| found.json::<Snapshot>());
        match held {
            // Its owner was deposed before it was sealed (S2); or it is being deleted.
            None => self.begin(volume, plan),
            Some(Ok(snapshot)) if matches!(snapshot.state, SnapshotState::Taking(_)) => self.begin(volume, plan),
            Some(Ok(_)) => {
                let why = format!(
                    "volume {} has a snapshot {name:?} already; choose another name",
                    taking.name
                );
                self.refuse(volume, why);
            }
            Some(Err(error)) => {
                let why = format!("the record of snapshot {name:?} cannot be read: {error}");
                self.refuse(volume, why);
            }
        }
    }

    /// Puts the next number into the volume's record (S1).
    fn begin(&mut self, volume: VolumeId, plan: Plan) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let Some(number) = plan.volume.lineage.number.0.checked_add(1).map(SnapshotId) else {
            let why = "all numbers of snapshots are used up; copy the volume to a new one".to_owned();
            return self.refuse(volume, why);
        };
        let mut record = plan.volume;
        record.lineage.number = number;
        record.lineage.taking = true;
        record.lineage.set = taking.joined.as_ref().map(|joined| joined.set.id);
        let snapshot = Snapshot {
            volume,
            number,
            name: taking.wish.name.clone(),
            size_bytes: record.size_bytes,
            taken_at: taking.wish.asked_at,
            labels: taking.wish.labels.clone(),
            protected: false,
            clones: 0,
            set: record.lineage.set,
            mark: false,
            hidden: false,
            state: SnapshotState::Taking(taking.generation),
        };
        let (volume_key, wish_key) = (map::volume_key(&taking.name), taking.wish_key(volume));
        let name_key = taking.name_key();
        let compare = |key: &str, equals| Compare::ModRevision {
            key: key.to_owned(),
            equals,
        };
        let mut call = Call {
            compares: vec![
                compare(&volume_key, plan.revision),
                compare(&wish_key, taking.wish_revision),
                compare(&name_key, plan.name_revision),
            ],
            then: vec![
                put(volume_key, &record),
                put(map::snapshot_key(volume, number), &snapshot),
                put(name_key, &SnapshotName::new(taking.host, volume, number)),
            ],
            otherwise: Vec::new(),
        };
        if let Some((data, void)) = plan.void {
            call.then.push(Op::Delete {
                key: map::snapshot_key(data, void),
            });
        }
        taking.tried = Some(number);
        taking.step = Step::Beginning(number);
        self.call(volume, call);
    }

    /// The number is in the record: the cores adopt it.
    fn begun(&mut self, volume: VolumeId, number: SnapshotId) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        if taking.joined.is_some() {
            return self.prepared(volume, number);
        }
        if taking.wish.hold_ms.is_some() && taking.hold.is_none() {
            return self.hold(volume, number);
        }
        self.adopt(volume, number);
    }

    /// The cores adopt the number.
    fn adopt(&mut self, volume: VolumeId, number: SnapshotId) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        taking.step = Step::Adopting(number, (0..self.cores).collect());
        let order = Order::Adopt(number);
        self.effects.push_back(Effect::Order(volume, taking.generation, order));
    }

    /// All that is older is acknowledged: it never changes any more (S7).
    fn seal(&mut self, now: Time, volume: VolumeId, number: SnapshotId, reply: &meta::Reply) {
        let Some((mut record, revision)) = self.ours(volume, reply.value(0)) else {
            if self.volumes.get(&volume).is_some_and(Taking::may_be_said_to_hold) {
                // It was sealed, though nobody said so, and may have moved since.
                return self.give_back(now, volume, number, reply);
            }
            self.put_off(now, volume);
            return;
        };
        if record.lineage.sealed >= number {
            self.found_sealed(now, volume, number, record.lineage.held);
            return;
        }
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let snapshot = reply.value(2).and_then(|found| found.json::<Snapshot>().ok());
        let Some(mut snapshot) = snapshot.filter(|_| record.lineage.taking && record.lineage.number == number) else {
            // Somebody has taken it away.
            self.put_off(now, volume);
            return;
        };
        record.lineage.end(true);
        record.lineage.held = taking.seals_on_hold(now);
        snapshot.state = SnapshotState::Sealed(taking.generation);
        let volume_key = map::volume_key(&taking.name);
        let mut call = Call::put_if(volume_key, revision, json(&record));
        call.then.push(put(map::snapshot_key(volume, number), &snapshot));
        // The wish goes, unless it is another one by now; a set's record stays, as long as it has others.
        let same = reply
            .value(1)
            .filter(|found| found.mod_revision == taking.wish_revision && taking.joined.is_none());
        if same.is_some() {
            let key = map::snapshot_wish_key(volume);
            call.compares.push(Compare::ModRevision {
                key: key.clone(),
                equals: taking.wish_revision,
            });
            call.then.push(Op::Delete { key });
        }
        taking.step = Step::Sealing(number);
        self.call(volume, call);
    }

    /// The wish is answered: whoever waits is told why not.
    fn refuse(&mut self, volume: VolumeId, why: String) {
        self.refuse_now(volume, why, false);
    }

    /// `again`: it may well be taken when it is asked for anew.
    fn refuse_now(&mut self, volume: VolumeId, why: String, again: bool) {
        let Some(taking) = self.volumes.get_mut(&volume) else {
            return;
        };
        let answer = match &taking.joined {
            // What is decided stays.
            Some(joined) if joined.set.state != SetState::Taking => return drop(self.remove(volume)),
            Some(joined) => {
                // What a volume was has no name of its own.
                let mut members = joined.set.volumes.iter();
                let name = members.find(|member| member.id == volume);
                let name = name.map_or(&taking.name, |member| &member.name);
                json(&joined.set.voided(format!("volume {name}: {why}"), again))
            }
            None => json(&SnapshotWish {
                refused: Some(why),
                ..taking.wish.clone()
            }),
        };
        taking.step = Step::Refusing;
        let call = Call::put_if(taking.wish_key(volume), taking.wish_revision, answer);
        self.call(volume, call);
    }
}

fn json(record: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record of numbers and texts")
}

fn put(key: String, record: &impl serde::Serialize) -> Op {
    Op::Put {
        key,
        value: json(record),
        lease: None,
    }
}

#[cfg(test)]
mod tests;
