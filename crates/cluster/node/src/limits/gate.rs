//! Where the I/O of limited volumes waits: on the core of its host's connection. Pure: told the time, and what the owner has lent.

use super::{Answer, Asks};
use crate::faults::{Fault, Faults};
use crate::mail::Origin;
use amita_frontend::FrontId;
use amita_qos::lease::{HolderConfig, HolderId, LEASE, LONG_LEASE, LeaseEpoch};
use amita_qos::limits::{BUCKETS, largest, own};
use amita_qos::{Cost, Direction, Holder, Limits};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::{IoError, Op};
use amita_types::{Generation, VolumeId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::array;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// An owner that lends nothing now is asked again after this.
const PAUSE: Duration = Duration::from_millis(12);
/// An ask that has not ended after this was lost with what it waited in: longer than anything waits for an owner.
const LOST: Duration = Duration::from_secs(10);

/// Answers that take longer than that are slow: by clocks that are off, two fifths of a lease are left of what they bring.
const SLOW: Duration = Duration::from_millis(20);
/// And those that take less are not.
const FAST: Duration = Duration::from_millis(10);
/// So many slow answers, one after the other, and long leases are asked for.
const SLOW_ANSWERS: u32 = 2;
/// So many fast ones, and they are not any more.
const FAST_ANSWERS: u32 = 16;

/// Whose hosts have used it within this time is told of.
const RECENTLY: Duration = Duration::from_secs(600);
/// Limited volumes of which a node tells at most: each has four figures in its metrics.
pub const MOST_TOLD_OF: usize = 1_000;

/// A piece of I/O that waits for tokens, or waits no more.
#[derive(Debug)]
pub struct Passage {
    pub origin: Origin,
    pub volume: VolumeId,
    pub op: Op,
    pub payload: Slice,
    /// When it came.
    pub since: Time,
    cost: Cost,
    /// Counts what comes to the gate.
    number: u64,
}

/// What has passed a volume's limits on this core, and what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that have passed: reads, writes.
    pub operations: [u64; 2],
    /// And their bytes.
    pub bytes: [u64; 2],
    /// Operations that had to wait.
    pub held: u64,
    /// For so long, together.
    pub held_ns: u64,
    /// Operations that wait.
    pub waiting: u64,
    /// Bytes of those.
    pub waiting_bytes: u64,
}

impl Counts {
    /// What another core counts of the same volume.
    pub fn add(&mut self, other: &Counts) {
        for way in 0..2 {
            self.operations[way] += other.operations[way];
            self.bytes[way] += other.bytes[way];
        }
        self.held += other.held;
        self.held_ns += other.held_ns;
        self.waiting += other.waiting;
        self.waiting_bytes += other.waiting_bytes;
    }
}

#[derive(Default)]
struct Lane {
    queue: VecDeque<Passage>,
    operations: u64,
    bytes: u64,
    /// What has passed: operations, bytes, and the number of the last one.
    passed: (u64, u64, u64),
}

impl Lane {
    fn push(&mut self, passage: Passage) {
        self.operations += u64::from(passage.cost.operations);
        self.bytes += u64::from(passage.cost.bytes);
        self.queue.push_back(passage);
    }

    fn pop(&mut self, newest: bool) -> Option<Passage> {
        let passage = match newest {
            true => self.queue.pop_back()?,
            false => self.queue.pop_front()?,
        };
        self.operations -= u64::from(passage.cost.operations);
        self.bytes -= u64::from(passage.cost.bytes);
        Some(passage)
    }

    fn retain(&mut self, keeps: impl Fn(&Passage) -> bool) {
        let all = std::mem::take(&mut self.queue);
        (self.operations, self.bytes) = (0, 0);
        for passage in all {
            if keeps(&passage) {
                self.push(passage);
            }
        }
    }
}

struct Held {
    holders: [Option<Holder>; BUCKETS],
    /// Until then the owner knows nothing of the limit, and it holds nothing.
    open: [Time; BUCKETS],
    /// Reads, writes: each in the order of coming.
    lanes: [Lane; 2],
    /// The newest that was heard of.
    epoch: LeaseEpoch,
    /// Asks are under way since then.
    asked: Option<Time>,
    /// Are long leases asked for? And so many answers, one after the other, have said that they should not be, or should.
    is_long: bool,
    contrary: u32,
    /// The last asks of holders that are not needed any more.
    farewells: Asks,
    /// When to look at it again.
    due: Option<Time>,
    /// When a host last wanted something.
    used: Time,
    held: u64,
    held_ns: u64,
}

/// What waits on one core for tokens, by volume.
pub struct Gate {
    /// Which node and core.
    place: u64,
    session: u64,
    /// The limited volumes, and under which generation each was owned when its limits were told.
    known: FxHashMap<VolumeId, (Box<Limits>, Generation)>,
    /// Those of them that hosts of this core have used.
    volumes: FxHashMap<VolumeId, Held>,
    due: BTreeSet<(Time, VolumeId)>,
    passed: VecDeque<Passage>,
    ended: VecDeque<(Origin, IoError)>,
    asks: VecDeque<(VolumeId, Asks)>,
    numbers: u64,
    /// Counts holders: each has a name of its own.
    lives: u64,
    faults: Faults,
    /// Of leases.
    pub lease_faults: amita_qos::Faults,
}

impl Gate {
    /// Of the core `place` of the process `session`.
    #[must_use]
    pub fn new(place: u64, session: u64, faults: Faults) -> Gate {
        Gate {
            place,
            session,
            known: FxHashMap::default(),
            volumes: FxHashMap::default(),
            due: BTreeSet::new(),
            passed: VecDeque::new(),
            ended: VecDeque::new(),
            asks: VecDeque::new(),
            numbers: 0,
            lives: 0,
            faults,
            lease_faults: amita_qos::Faults::NONE,
        }
    }

    /// Is the volume limited?
    #[inline]
    #[must_use]
    pub fn holds(&self, volume: VolumeId) -> bool {
        !self.known.is_empty() && self.known.contains_key(&volume)
    }

    /// Other limits of a volume, from now on, which its owner of that generation keeps; none: what waits goes on.
    pub fn set(&mut self, now: Time, volume: VolumeId, limits: Option<&Limits>, generation: Generation) {
        let Some(limits) = limits else {
            self.known.remove(&volume);
            if let Some(held) = self.volumes.remove(&volume) {
                if let Some(due) = held.due {
                    self.due.remove(&(due, volume));
                }
                // In the order in which they came.
                let mut all: Vec<Passage> = held.lanes.into_iter().flat_map(|lane| lane.queue).collect();
                all.sort_unstable_by_key(|passage| passage.number);
                self.passed.extend(all);
            }
            return;
        };
        let known = self.known.get(&volume);
        let is_newer = known.is_some_and(|(_, known)| *known < generation);
        if !is_newer && known.is_some_and(|(known, _)| **known == *limits) {
            return;
        }
        self.known.insert(volume, (Box::new(*limits), generation));
        if self.volumes.contains_key(&volume) {
            self.hold_by(now, volume);
        }
    }

    /// What waits of a volume is held by what is known of its limits.
    fn hold_by(&mut self, now: Time, volume: VolumeId) {
        let Some((limits, generation)) = self.known.get(&volume) else {
            return;
        };
        let held = self.volumes.entry(volume).or_insert_with(Held::new);
        held.adopt(LeaseEpoch(generation.0.into()));
        for (place, (holder, limit)) in held.holders.iter_mut().zip(limits.in_order()).enumerate() {
            match (&*holder, limit) {
                (None, Some(_)) => {
                    self.lives += 1;
                    let id = HolderId {
                        place: self.place,
                        session: self.session.rotate_left(32) ^ self.lives,
                    };
                    let config = HolderConfig {
                        lease: if held.is_long { LONG_LEASE } else { LEASE },
                        is_long: held.is_long,
                        largest: largest(place),
                        standing_rate: 0,
                        faults: self.lease_faults,
                    };
                    let made = Holder::new(now, id, held.epoch, config);
                    *holder = Some(made.expect("without a standing share there is no limit"));
                }
                (Some(_), None) => *holder = None,
                _ => {}
            }
        }
        self.go_on(now, volume);
    }

    /// A piece of I/O of a limited volume: it waits, or passes at once.
    pub fn hold(&mut self, now: Time, origin: Origin, volume: VolumeId, op: Op, payload: Slice) {
        self.numbers += 1;
        let cost = cost(&op);
        let passage = Passage {
            origin,
            volume,
            op,
            payload,
            since: now,
            cost,
            number: self.numbers,
        };
        if !self.volumes.contains_key(&volume) {
            self.hold_by(now, volume);
        }
        let Some(held) = self.volumes.get_mut(&volume) else {
            return self.passed.push_back(passage);
        };
        held.lanes[cost.direction as usize].push(passage);
        held.used = now;
        self.go_on(now, volume);
    }

    /// Hosts have gone, in order of their fronts, and what waits of them goes with them (R9).
    pub fn cancel(&mut self, gone: &[FrontId]) {
        if self.faults.has(Fault::HoldForGoneHosts) {
            return;
        }
        let keeps = |passage: &Passage| gone.binary_search(&passage.origin.front).is_err();
        for held in self.volumes.values_mut() {
            held.lanes.iter_mut().for_each(|lane| lane.retain(keeps));
        }
        self.passed.retain(keeps);
        self.ended
            .retain(|(origin, _)| gone.binary_search(&origin.front).is_err());
    }

    /// The volume's owner has answered, or nobody could be asked.
    pub fn answered(&mut self, now: Time, volume: VolumeId, result: Result<Answer, IoError>) {
        let Some(held) = self.volumes.get_mut(&volume) else {
            return;
        };
        match result {
            Ok(answer) => {
                held.adopt(answer.epoch);
                for holder in held.holders.iter_mut().flatten() {
                    holder.answered(answer.sent);
                }
                for (place, grant) in &answer.grants {
                    if let Some(holder) = &mut held.holders[*place] {
                        holder.grant(now, grant);
                    }
                }
                // Like tokens: from the ask on, and no longer than a short lease, so that a late answer says nothing: when the owner has heard of
                // the limit it lends the first token a lease later.
                // Nor does one that is the owner no more.
                let is_owner = answer.epoch == held.epoch;
                for place in answer.open.iter().filter(|_| is_owner) {
                    held.open[*place] = held.open[*place].max(answer.sent.min(now).plus(LEASE * 4 / 5));
                }
                // Of one that was given up it says nothing, nor that the newest has ended.
                let took = held
                    .asked
                    .take_if(|asked| *asked == answer.sent)
                    .map(|asked| now.since(asked));
                let says_something = held.is_long || !answer.grants.is_empty();
                match took.is_some_and(|took| says_something && held.is_out_of_step(took)) {
                    true => {
                        held.change_leases(now);
                        self.hold_by(now, volume);
                    }
                    false => self.go_on(now, volume),
                }
            }
            Err(IoError::Unavailable) => {
                let asked = held.asked.take();
                // As I/O ends that finds no owner for as long: what came later has its own time.
                let since = asked.unwrap_or(now);
                for lane in &mut held.lanes {
                    while lane.queue.front().is_some_and(|first| first.since <= since) {
                        let ended = lane.pop(false).map(|passage| (passage.origin, IoError::Unavailable));
                        self.ended.extend(ended);
                    }
                }
                self.look_again(volume, now.plus(PAUSE));
            }
            Err(_) => {
                held.asked = None;
                self.look_again(volume, now.plus(PAUSE));
            }
        }
    }

    /// What was asked is not under way any more.
    pub fn forget_asks(&mut self, now: Time) {
        let mut asked: Vec<VolumeId> = self
            .volumes
            .iter()
            .filter(|(_, held)| held.asked.is_some())
            .map(|(id, _)| *id)
            .collect();
        asked.sort_unstable();
        for volume in asked {
            if let Some(held) = self.volumes.get_mut(&volume) {
                held.asked = None;
            }
            self.look_again(volume, now.plus(PAUSE));
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        while let Some(&(due, volume)) = self.due.first()
            && due <= now
        {
            self.due.pop_first();
            if let Some(held) = self.volumes.get_mut(&volume) {
                held.due = None;
                self.go_on(now, volume);
            }
        }
    }

    /// When time matters next.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// What goes on now, in order.
    pub fn next_passed(&mut self) -> Option<Passage> {
        self.passed.pop_front()
    }

    /// What ends without having been begun, and how.
    pub fn next_ended(&mut self) -> Option<(Origin, IoError)> {
        self.ended.pop_front()
    }

    /// Does anything of a volume wait?
    #[must_use]
    pub fn waits(&self, volume: VolumeId) -> bool {
        self.volumes.get(&volume).is_some_and(|held| !held.is_empty())
    }

    /// Whose I/O waits.
    pub fn fronts(&self) -> impl Iterator<Item = FrontId> {
        let lanes = self.volumes.values().flat_map(|held| &held.lanes);
        lanes.flat_map(|lane| lane.queue.iter().map(|passage| passage.origin.front))
    }

    /// What a volume's owner is to be asked.
    pub fn next_asks(&mut self) -> Option<(VolumeId, Asks)> {
        self.asks.pop_front()
    }

    /// What is known here of a volume's limits, and the owner by whose tokens its I/O passes.
    #[must_use]
    pub fn limits(&self, volume: VolumeId) -> Option<(&Limits, LeaseEpoch)> {
        let (limits, _) = self.known.get(&volume)?;
        let holders = self.volumes.get(&volume).map(|held| held.holders.iter().flatten());
        let epoch = holders.into_iter().flatten().map(Holder::epoch).max();
        Some((limits, epoch.unwrap_or_default()))
    }

    /// Are long leases asked for?
    #[must_use]
    pub fn is_long(&self, volume: VolumeId) -> bool {
        self.volumes.get(&volume).is_some_and(|held| held.is_long)
    }

    /// The limited volumes, in order, and what became of their I/O here.
    pub fn counts(&self) -> impl Iterator<Item = (VolumeId, Counts)> {
        let counts = |id: &VolumeId| self.volumes.get(id).map_or_else(Counts::default, Held::counts);
        let mut all: Vec<(VolumeId, Counts)> = self.known.keys().map(|id| (*id, counts(id))).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter()
    }

    /// Volumes whose limits are known here, whether or not hosts of this core use them.
    #[must_use]
    pub fn limited(&self) -> usize {
        self.known.len()
    }

    /// Those of them that are to be told of, [`MOST_TOLD_OF`] at most: what hosts of this core wait for, or have used lately, the last ones first, and
    /// then what is open here.
    pub fn told_of(&self, now: Time, open: impl Iterator<Item = VolumeId>) -> Vec<VolumeId> {
        let is_recent = |held: &Held| now.since(held.used) < RECENTLY || !held.is_empty();
        let used = self.volumes.iter().filter(|(_, held)| is_recent(held));
        let mut used: Vec<(bool, Time, VolumeId)> =
            used.map(|(id, held)| (!held.is_empty(), held.used, *id)).collect();
        used.sort_unstable_by(|one, other| other.cmp(one));
        let mut told: Vec<VolumeId> = used.into_iter().map(|(_, _, id)| id).collect();
        let is_told: FxHashSet<VolumeId> = told.iter().copied().collect();
        let is_due = |id: &VolumeId| self.known.contains_key(id) && !is_told.contains(id);
        let room = MOST_TOLD_OF.saturating_sub(told.len());
        told.extend(open.filter(is_due).take(room));
        told.truncate(MOST_TOLD_OF);
        told
    }

    /// What became of a volume's I/O here; none: it is not limited.
    #[must_use]
    pub fn counts_of(&self, volume: VolumeId) -> Option<Counts> {
        let held = self.known.contains_key(&volume).then(|| self.volumes.get(&volume))?;
        Some(held.map_or_else(Counts::default, Held::counts))
    }

    /// Lets pass what may, and asks for what is lacking.
    fn go_on(&mut self, now: Time, volume: VolumeId) {
        let Some(held) = self.volumes.get_mut(&volume) else {
            return;
        };
        let newest = self.faults.has(Fault::OvertakeAtGate);
        while let Some(passage) = held.pass(now, newest) {
            self.passed.push_back(passage);
        }
        if let Some(asked) = held.asked
            && now < asked.plus(LOST)
        {
            return self.look_again(volume, asked.plus(LOST));
        }
        held.asked = None;
        let (asks, next) = held.wish(now);
        if !asks.is_empty() {
            held.asked = Some(now);
            self.asks.push_back((volume, asks));
            return self.look_again(volume, now.plus(LOST));
        }
        match next {
            Some(next) => self.look_again(volume, next),
            None => self.rest(volume),
        }
    }

    fn rest(&mut self, volume: VolumeId) {
        if let Some(due) = self.volumes.get_mut(&volume).and_then(|held| held.due.take()) {
            self.due.remove(&(due, volume));
        }
    }

    fn look_again(&mut self, volume: VolumeId, at: Time) {
        self.rest(volume);
        if let Some(held) = self.volumes.get_mut(&volume) {
            held.due = Some(at);
            self.due.insert((at, volume));
        }
    }
}

impl Held {
    fn new() -> Held {
        Held {
            holders: array::from_fn(|_| None),
            open: [Time(0); BUCKETS],
            lanes: Default::default(),
            epoch: LeaseEpoch::default(),
            asked: None,
            is_long: false,
            contrary: 0,
            farewells: Asks::new(),
            due: None,
            used: Time(0),
            held: 0,
            held_ns: 0,
        }
    }

    /// An owner of that generation is heard of. What older ones have lent or said is void.
    fn adopt(&mut self, epoch: LeaseEpoch) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        self.open = [Time(0); BUCKETS];
        for holder in self.holders.iter_mut().flatten() {
            holder.adopt(epoch);
        }
    }

    fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.queue.is_empty())
    }

    fn counts(&self) -> Counts {
        let [reads, writes] = &self.lanes;
        Counts {
            operations: [reads.passed.0, writes.passed.0],
            bytes: [reads.passed.1, writes.passed.1],
            held: self.held,
            held_ns: self.held_ns,
            waiting: self.lanes.iter().map(|lane| lane.operations).sum(),
            waiting_bytes: self.lanes.iter().map(|lane| lane.bytes).sum(),
        }
    }

    /// An answer took so long: are the leases that are asked for the wrong ones?
    fn is_out_of_step(&mut self, took: Duration) -> bool {
        let (is_contrary, most) = match self.is_long {
            true => (took < FAST, FAST_ANSWERS),
            false => (took > SLOW, SLOW_ANSWERS),
        };
        self.contrary = if is_contrary { self.contrary + 1 } else { 0 };
        self.contrary >= most
    }

    /// A holder is for leases of one kind: others take the places of these, which give back what they have.
    fn change_leases(&mut self, now: Time) {
        (self.is_long, self.contrary) = (!self.is_long, 0);
        for (place, holder) in self.holders.iter_mut().enumerate() {
            let last = holder.take().and_then(|holder| holder.give_back(now));
            self.farewells.extend(last.map(|ask| (place, ask)));
        }
    }

    /// The lane whose head is older.
    fn older(&self) -> usize {
        let number = |lane: usize| self.lanes[lane].queue.front().map_or(u64::MAX, |head| head.number);
        usize::from(number(1) < number(0))
    }

    /// What goes now: the older of the two heads, or the other one if a limit holds the older that is not the other's.
    fn pass(&mut self, now: Time, newest: bool) -> Option<Passage> {
        let first = self.older();
        for lane in [first, 1 - first] {
            match self.hindrance(now, lane) {
                Some(Hindrance::Empty | Hindrance::Own) => {}
                // What would overtake takes the tokens for which the older one waits, for ever if it is small and that large.
                Some(Hindrance::Shared) => return None,
                None => return self.let_go(now, lane, newest),
            }
        }
        None
    }

    fn hindrance(&mut self, now: Time, lane: usize) -> Option<Hindrance> {
        let Some(head) = self.lanes[lane].queue.front() else {
            return Some(Hindrance::Empty);
        };
        let cost = head.cost;
        let mut found = None;
        for (place, counts_bytes) in own(cost.direction) {
            let Some(holder) = &mut self.holders[place] else {
                continue;
            };
            if now >= self.open[place] && holder.tokens(now) < tokens(cost, counts_bytes).min(largest(place)) {
                if !is_shared(place) {
                    return Some(Hindrance::Own);
                }
                found = Some(Hindrance::Shared);
            }
        }
        found
    }

    fn let_go(&mut self, now: Time, lane: usize, newest: bool) -> Option<Passage> {
        let passage = self.lanes[lane].pop(newest)?;
        let (operations, bytes, last) = &mut self.lanes[lane].passed;
        assert!(
            passage.number > *last,
            "reads, and writes, pass in the order in which they came"
        );
        *operations += u64::from(passage.cost.operations);
        *bytes += u64::from(passage.cost.bytes);
        *last = passage.number;
        for (place, counts_bytes) in own(passage.cost.direction) {
            let tokens = tokens(passage.cost, counts_bytes);
            if let Some(holder) = &mut self.holders[place]
                && now >= self.open[place]
            {
                let passes = holder.spend(now, tokens);
                debug_assert!(passes, "it was asked just now");
            }
        }
        let waited = now.since(passage.since).as_nanos() as u64;
        self.held += u64::from(waited > 0);
        self.held_ns += waited;
        Some(passage)
    }

    /// What to ask the owner now; else when to look again, if that is known.
    fn wish(&mut self, now: Time) -> (Asks, Option<Time>) {
        let mut asks = std::mem::take(&mut self.farewells);
        let mut next: Option<Time> = None;
        let blocked = [0, 1].map(|lane| self.hindrance(now, lane) == Some(Hindrance::Own));
        for place in 0..BUCKETS {
            let (waiting, head) = self.wanted(place, blocked);
            let Some(holder) = &mut self.holders[place] else {
                continue;
            };
            if let Some(ask) = holder.ask(now, waiting, head) {
                asks.push((place, ask));
            } else if waiting > 0 || holder.tokens(now) > 0 {
                let at = match holder.ask_at(head) {
                    at if at > now => at,
                    _ => now.plus(PAUSE),
                };
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        // By that the answer is known to be one to these.
        asks.iter_mut().for_each(|(_, ask)| ask.sent = now);
        (asks, next)
    }

    /// What waits for the limit at a place, and what the next one of it costs. Of a lane that a limit of its own holds only the head counts
    /// for those that are shared: more would be lent for nothing. And the other lane's head goes first then: by the cost of one that does not go
    /// several gates would each be lent a part of what a large one needs, for ever.
    fn wanted(&self, place: usize, blocked: [bool; 2]) -> (u64, u64) {
        let counts_bytes = place >= BUCKETS / 2;
        let older = self.older();
        let first = match blocked[older] && !blocked[1 - older] {
            true => 1 - older,
            false => older,
        };
        let lanes = match place % 3 {
            BOTH => [Some(first), Some(1 - first)],
            lane => [Some(lane), None],
        };
        let (mut waiting, mut next) = (0, 0);
        for lane in lanes.into_iter().flatten() {
            let Some(head) = self.lanes[lane].queue.front() else {
                continue;
            };
            let of_head = tokens(head.cost, counts_bytes);
            waiting += match (is_shared(place) && blocked[lane], counts_bytes) {
                (true, _) => of_head,
                (false, true) => self.lanes[lane].bytes,
                (false, false) => self.lanes[lane].operations,
            };
            if next == 0 {
                next = of_head;
            }
        }
        (waiting, next)
    }
}

/// What holds the head of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hindrance {
    /// There is none.
    Empty,
    /// A limit of its direction.
    Own,
    /// One of both directions.
    Shared,
}

/// The third of each measure's places.
const BOTH: usize = 2;

fn is_shared(place: usize) -> bool {
    place % 3 == BOTH
}

fn tokens(cost: Cost, counts_bytes: bool) -> u64 {
    u64::from(if counts_bytes { cost.bytes } else { cost.operations })
}

/// What is asked of the record of what is stored moves no bytes of the volume; nor does a clear.
fn cost(op: &Op) -> Cost {
    match *op {
        Op::Read { length, .. } => Cost::piece(Direction::Read, length),
        Op::Allocation { .. } | Op::Differ { .. } => Cost::piece(Direction::Read, 0),
        Op::Write { length, .. } | Op::CompareAndWrite { length, .. } => Cost::piece(Direction::Write, length),
        Op::Clear { .. } => Cost::piece(Direction::Write, 0),
    }
}
