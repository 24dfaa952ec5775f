//! Where the I/O of limited volumes waits: on the core of its host's connection. Pure: told the time, and what was lent.
//!
//! What waits of a volume is in its lanes (`gate/lanes.rs`); tokens, and what is asked, are in banks (`gate/bank.rs`), one of each volume that is
//! limited and one of each tenant and pool (`gate/joint.rs`). What is limited, by what, is in `gate/settings.rs`.

mod bank;
mod joint;
mod lanes;
mod settings;
mod shown;
mod spread;

pub use joint::JointCounts;
pub use lanes::{Counts, Passage};

use super::{Answer, Asks};
use crate::faults::{Fault, Faults};
use crate::forwarder;
use crate::mail::Origin;
use amita_frontend::FrontId;
use amita_qos::limits::BUCKETS;
use amita_qos::{Cost, Limits};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::{IoError, Op};
use amita_types::{Generation, VolumeId};
use arrayvec::ArrayVec;
use bank::{Bank, Lack, Names, is_of_both};
use joint::{Joint, JointNumber, JointNumbers, MAX_JOINTS, needs, work};
use lanes::{Lanes, Want, cost};
use rustc_hash::FxHashMap;
use std::array;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// An ask that has not ended after this was lost with what it waited in: longer than anything waits for an owner.
const LOST: Duration = Duration::from_secs(10);

/// A seat whose owner cannot be reached for so long is given to another volume. Half of what I/O waits for an owner: who lends next can lend when the
/// mandate of before has ended, and what came first waits still.
const SEAT_PATIENCE: Duration = Duration::from_secs(4);
/// Limited volumes of which a node tells at most: each has four figures in its metrics.
pub const MOST_TOLD_OF: usize = 1_000;
/// Nothing is kept for another one.
const NOTHING: [u64; BUCKETS] = [0; BUCKETS];

/// Whose limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// A volume's own.
    Volume(VolumeId),
    /// A tenant's or a pool's, by the number that it has at this gate.
    Joint(u32),
}

impl From<VolumeId> for Whose {
    fn from(volume: VolumeId) -> Whose {
        Whose::Volume(volume)
    }
}

/// What is known of a limited volume.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// Its own.
    limits: Option<Box<Limits>>,
    /// Under which it was owned when that was told.
    generation: Generation,
    joints: JointNumbers,
}

struct Held {
    bank: Bank,
    lanes: Lanes,
    joints: JointNumbers,
    /// By how much has passed, for turns among the volumes of a tenant or pool.
    tag: u128,
    /// The tag under which it is in line there.
    lined_up: Option<u128>,
    /// When to look at it again.
    due: Option<Time>,
    /// When a host last wanted something.
    used: Time,
}

/// Where tokens are lacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Volume,
    Joint(JointNumber),
}

/// What waits on one core for tokens, by volume.
pub struct Gate {
    names: Names,
    /// The limited volumes.
    known: FxHashMap<VolumeId, Known>,
    /// Those of them that hosts of this core have used.
    volumes: FxHashMap<VolumeId, Held>,
    /// Tenants and pools that are limited.
    joints: FxHashMap<JointNumber, Joint>,
    numbers_of_joints: BTreeMap<Arc<str>, JointNumber>,
    joints_made: JointNumber,
    due: BTreeSet<(Time, Whose)>,
    passed: VecDeque<Passage>,
    ended: VecDeque<(Origin, IoError)>,
    asks: VecDeque<(Whose, Asks)>,
    numbers: u64,
    faults: Faults,
    /// Of leases.
    pub lease_faults: amita_qos::Faults,
}

impl Gate {
    /// Of the core `place` of the process `session`.
    #[must_use]
    pub fn new(place: u64, session: u64, faults: Faults) -> Gate {
        Gate {
            names: Names {
                place,
                session,
                lives: 0,
            },
            known: FxHashMap::default(),
            volumes: FxHashMap::default(),
            joints: FxHashMap::default(),
            numbers_of_joints: BTreeMap::new(),
            joints_made: 0,
            due: BTreeSet::new(),
            passed: VecDeque::new(),
            ended: VecDeque::new(),
            asks: VecDeque::new(),
            numbers: 0,
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

    /// A piece of I/O of a limited volume: it waits, or passes at once.
    pub fn hold(&mut self, now: Time, origin: Origin, volume: VolumeId, op: Op, payload: Slice) {
        self.numbers += 1;
        let cost = cost(&op);
        let number = self.numbers;
        self.wait(
            now,
            Passage {
                origin,
                volume,
                op,
                payload,
                since: now,
                cost,
                number,
            },
        );
    }

    fn wait(&mut self, now: Time, passage: Passage) {
        let volume = passage.volume;
        if !self.volumes.contains_key(&volume) {
            self.hold_by(now, volume);
        }
        let Some(held) = self.volumes.get_mut(&volume) else {
            return self.passed.push_back(passage);
        };
        held.lanes.push(passage);
        held.used = now;
        self.go_on(now, volume);
    }

    /// The volume has moved, and its limits are known by its new number: what waits of it waits by that, in the same order.
    pub fn moved(&mut self, now: Time, old: VolumeId, new: VolumeId) {
        self.known.remove(&old);
        self.rest(Whose::Volume(old));
        let joints = self.leave_lines(old);
        if let Some(held) = self.volumes.remove(&old) {
            for passage in held.lanes.into_order() {
                self.wait(now, Passage { volume: new, ..passage });
            }
        }
        self.serve(now, joints.to_vec());
    }

    /// Hosts have gone, in order of their fronts, and what waits of them goes with them (R9).
    pub fn cancel(&mut self, gone: &[FrontId]) {
        if self.faults.has(Fault::HoldForGoneHosts) {
            return;
        }
        let keeps = |passage: &Passage| gone.binary_search(&passage.origin.front).is_err();
        let mut changed = Vec::new();
        for (id, held) in &mut self.volumes {
            if !held.lanes.is_empty() {
                held.lanes.retain(keeps);
                if held.lined_up.is_some() {
                    changed.push(*id);
                }
            }
        }
        // What was kept for them others may have: at once.
        for volume in changed {
            self.look_again(Whose::Volume(volume), Time(0));
        }
        self.passed.retain(keeps);
        self.ended
            .retain(|(origin, _)| gone.binary_search(&origin.front).is_err());
    }

    /// Who lends has answered, or nobody could be asked.
    pub fn answered(&mut self, now: Time, whose: impl Into<Whose>, result: Result<Answer, IoError>) {
        let whose = whose.into();
        let Some(bank) = self.bank_mut(whose) else {
            return;
        };
        match result {
            Ok(answer) => {
                let changes = bank.answered(now, &answer);
                match whose {
                    Whose::Volume(volume) if changes => self.hold_by(now, volume),
                    Whose::Volume(volume) => self.go_on(now, volume),
                    Whose::Joint(number) => {
                        let joint = self.joints.get_mut(&number).expect("it has the bank");
                        joint.failing = None;
                        if changes {
                            let limits = &joint.limits;
                            joint.bank.hold_by(now, limits, &mut self.names, self.lease_faults);
                        }
                        self.serve(now, vec![number]);
                    }
                }
            }
            Err(IoError::Unavailable) => {
                let asked = bank.asked.take().unwrap_or(now);
                bank.leave_alone(now);
                // As I/O ends that finds no owner for as long: what came later has its own time. Of a tenant's or pool's volumes another one is
                // out of reach, and their own may well be served: each waits as long as it would for its owner.
                let (since, waiting): (Time, Vec<VolumeId>) = match whose {
                    Whose::Volume(volume) => (asked, vec![volume]),
                    Whose::Joint(number) => {
                        let joint = self.joints.get_mut(&number).expect("it has the bank");
                        let gives_up = joint.failing.get_or_insert(asked).plus(SEAT_PATIENCE);
                        if now < gives_up {
                            // It is known then whether it is out of reach still.
                            joint.bank.rests_until = joint.bank.rests_until.min(gives_up);
                        }
                        let patience = forwarder::PATIENCE.as_nanos() as u64;
                        let since = Time(now.0.saturating_sub(patience));
                        (since, joint.line.iter().map(|(_, id)| *id).collect())
                    }
                };
                for volume in waiting {
                    if let Some(held) = self.volumes.get_mut(&volume) {
                        let ended = &mut self.ended;
                        let end = |passage: Passage| ended.push_back((passage.origin, IoError::Unavailable));
                        held.lanes.end_until(since, end);
                    }
                    self.line_up(now, volume);
                }
                self.ask(now, whose);
            }
            Err(_) => {
                bank.pause(now);
                self.ask(now, whose);
            }
        }
    }

    /// Has nobody who lends a tenant's or pool's tokens been reached for so long that somebody else is to lend them? It begins anew with that.
    pub fn gives_up(&mut self, now: Time, number: u32) -> bool {
        let Some(joint) = self.joints.get_mut(&number) else {
            return false;
        };
        let gives_up = joint.failing.is_some_and(|since| now.since(since) >= SEAT_PATIENCE);
        if gives_up {
            joint.failing = Some(now);
            joint.bank.hurry();
            joint.bank.pause(now);
            self.ask(now, Whose::Joint(number));
        }
        gives_up
    }

    fn bank_mut(&mut self, whose: Whose) -> Option<&mut Bank> {
        match whose {
            Whose::Volume(volume) => self.volumes.get_mut(&volume).map(|held| &mut held.bank),
            Whose::Joint(number) => self.joints.get_mut(&number).map(|joint| &mut joint.bank),
        }
    }

    /// What was asked is not under way any more.
    pub fn forget_asks(&mut self, now: Time) {
        let volumes = self.volumes.iter_mut();
        let volumes = volumes.map(|(id, held)| (Whose::Volume(*id), &mut held.bank));
        let joints = self.joints.iter_mut();
        let joints = joints.map(|(number, joint)| (Whose::Joint(*number), &mut joint.bank));
        let asked = volumes.chain(joints);
        let mut asked: Vec<Whose> = asked
            .filter_map(|(whose, bank)| bank.asked.take().map(|_| whose))
            .collect();
        asked.sort_unstable();
        for whose in asked {
            if let Some(bank) = self.bank_mut(whose) {
                bank.pause(now);
            }
            self.ask(now, whose);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        while let Some(&(due, whose)) = self.due.first()
            && due <= now
        {
            self.rest(whose);
            match whose {
                Whose::Volume(volume) => self.go_on(now, volume),
                Whose::Joint(number) => self.serve(now, vec![number]),
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

    /// Lets pass what may, and asks for what is lacking.
    fn go_on(&mut self, now: Time, volume: VolumeId) {
        let mut has_passed = false;
        while let Some(passage) = self.pass(now, volume) {
            has_passed = true;
            self.passed.push_back(passage);
        }
        let Some(held) = self.volumes.get(&volume) else {
            return;
        };
        let (joints, before) = (held.joints.clone(), held.lined_up);
        if joints.is_empty() {
            return self.ask(now, Whose::Volume(volume));
        }
        let after = self.line_up(now, volume);
        self.ask(now, Whose::Volume(volume));
        // What is not kept for it any more others may have.
        match has_passed || before.is_some() && after != before {
            true => self.serve(now, joints.to_vec()),
            false => joints
                .into_iter()
                .for_each(|number| self.ask(now, Whose::Joint(number))),
        }
    }

    /// Lets those pass that are in line for these, as far as there are tokens, and asks for more.
    fn serve(&mut self, now: Time, mut joints: Vec<JointNumber>) {
        let mut served: BTreeSet<JointNumber> = joints.iter().copied().collect();
        let mut volumes: BTreeSet<VolumeId> = BTreeSet::new();
        while let Some(number) = joints.pop() {
            while let Some(volume) = self.serve_one(now, number) {
                volumes.insert(volume);
                let others = self.volumes.get(&volume).map(|held| held.joints.clone());
                for other in others.into_iter().flatten().filter(|other| *other != number) {
                    served.insert(other);
                    if !joints.contains(&other) {
                        joints.push(other);
                    }
                }
            }
        }
        for volume in volumes {
            self.ask(now, Whose::Volume(volume));
        }
        for number in served {
            self.ask(now, Whose::Joint(number));
        }
    }

    /// The first in line that lacks nothing passes: whose it was.
    fn serve_one(&mut self, now: Time, number: JointNumber) -> Option<VolumeId> {
        for volume in self.joints.get(&number)?.looked_at() {
            let passage = self.pass(now, volume);
            self.line_up(now, volume);
            if let Some(passage) = passage {
                self.passed.push_back(passage);
                return Some(volume);
            }
        }
        self.joints.get_mut(&number)?.look_on();
        None
    }

    /// What goes now of a volume: the older of the two heads, or the other one if a limit holds the older that is not the other's.
    fn pass(&mut self, now: Time, volume: VolumeId) -> Option<Passage> {
        let newest = self.faults.has(Fault::OvertakeAtGate);
        let kept = self.kept(volume);
        let held = self.volumes.get_mut(&volume)?;
        let first = held.lanes.older();
        for lane in [first, 1 - first] {
            let Some(cost) = held.lanes.head(lane) else { continue };
            match lack(&mut self.joints, held, &kept, now, cost) {
                Some((_, Lack::Own)) => {}
                // What would overtake takes the tokens for which the older one waits, for ever if it is small and that large.
                Some((_, Lack::Both)) => return None,
                None => {
                    let passage = held.lanes.let_go(now, lane, newest)?;
                    held.bank.spend(now, passage.cost);
                    for number in &held.joints {
                        if let Some(joint) = self.joints.get_mut(number) {
                            joint.pass(now, passage.cost, held.tag);
                        }
                    }
                    held.tag += work(passage.cost);
                    return Some(passage);
                }
            }
        }
        None
    }

    /// What is kept in the lines in which a volume stands, or would, for who is the first there.
    fn kept(&self, volume: VolumeId) -> ArrayVec<[u64; BUCKETS], MAX_JOINTS> {
        let Some(held) = self.volumes.get(&volume) else {
            return ArrayVec::new();
        };
        let of = |number: &JointNumber| {
            let first = self.joints.get(number)?.before((held.tag, volume))?;
            self.volumes.get(&first).map(|first| needs(&first.lanes))
        };
        let kept = held.joints.iter().map(|number| of(number).unwrap_or(NOTHING));
        kept.collect()
    }

    /// A volume is in line where something of it waits that its own limits do not hold. Where it is now.
    fn line_up(&mut self, now: Time, volume: VolumeId) -> Option<u128> {
        let held = self.volumes.get_mut(&volume)?;
        if held.joints.is_empty() {
            return None;
        }
        let heads = [0, 1].map(|lane| held.lanes.head(lane));
        let is_free = |cost: Cost| held.bank.lack(now, cost, &NOTHING).is_none();
        let is_in_line = heads.into_iter().flatten().any(is_free);
        if is_in_line && held.lined_up == Some(held.tag) {
            return held.lined_up;
        }
        let before = held.lined_up.take();
        if is_in_line && before.is_none() {
            // It saves up no turns.
            let turns = held.joints.iter().filter_map(|number| self.joints.get(number));
            held.tag = turns.map(|joint| joint.turn).fold(held.tag, u128::max);
        }
        if is_in_line {
            held.lined_up = Some(held.tag);
        }
        for number in &held.joints {
            let Some(joint) = self.joints.get_mut(number) else {
                continue;
            };
            if let Some(tag) = before {
                joint.line.remove(&(tag, volume));
            }
            if is_in_line {
                joint.line.insert((held.tag, volume));
            }
        }
        held.lined_up
    }

    /// A volume is in line nowhere any more: where it might have been.
    fn leave_lines(&mut self, volume: VolumeId) -> JointNumbers {
        let Some(held) = self.volumes.get_mut(&volume) else {
            return JointNumbers::new();
        };
        if let Some(tag) = held.lined_up.take() {
            for number in &held.joints {
                if let Some(joint) = self.joints.get_mut(number) {
                    joint.line.remove(&(tag, volume));
                }
            }
        }
        held.joints.clone()
    }

    /// Asks for what is lacking, if it is time to.
    fn ask(&mut self, now: Time, whose: Whose) {
        let Some(bank) = self.bank_mut(whose) else {
            return;
        };
        if bank.asked.is_some_and(|asked| now >= asked.plus(LOST)) {
            bank.asked = None;
        }
        let waits_until = match bank.asked {
            Some(asked) => Some(asked.plus(LOST)),
            None => Some(bank.rests_until).filter(|at| now < *at),
        };
        if let Some(at) = waits_until {
            if !bank.is_spread(now) {
                return self.look_again(whose, at);
            }
            // What comes meanwhile is looked at when it is time to: to see what all wait for takes a walk over all of a tenant's volumes.
            if self
                .due_mut(whose)
                .and_then(|due| *due)
                .is_some_and(|due| now < due && due <= now.plus(spread::STEP))
            {
                return;
            }
        }
        let wanted = match whose {
            Whose::Volume(volume) => self.wanted(now, volume),
            Whose::Joint(number) => self.wanted_in_line(now, number),
        };
        let Some(bank) = self.bank_mut(whose) else {
            return;
        };
        let next = match waits_until {
            Some(at) => Some(at),
            None => {
                let (asks, next) = bank.wish(now, &wanted);
                if asks.is_empty() {
                    next
                } else {
                    bank.asked = Some(now);
                    self.asks.push_back((whose, asks));
                    Some(now.plus(LOST))
                }
            }
        };
        let more_at = self.bank_mut(whose).and_then(|bank| bank.more_at(now, &wanted));
        match next.into_iter().chain(more_at).min() {
            Some(at) => self.look_again(whose, at),
            None => self.rest(whose),
        }
    }

    /// What lacks where, of each lane of a volume.
    fn lacks(&mut self, now: Time, volume: VolumeId) -> [Option<(At, Lack)>; 2] {
        let kept = self.kept(volume);
        let Some(held) = self.volumes.get_mut(&volume) else {
            return [None; 2];
        };
        [0, 1].map(|lane| {
            let cost = held.lanes.head(lane)?;
            lack(&mut self.joints, held, &kept, now, cost)
        })
    }

    /// What waits for a volume's own limits, by their places, and what the next one costs. Of a lane that another limit holds only the head counts: more
    /// would be lent for nothing.
    fn wanted(&mut self, now: Time, volume: VolumeId) -> [(u64, u64); BUCKETS] {
        let lacks = self.lacks(now, volume);
        let Some(held) = self.volumes.get(&volume) else {
            return [(0, 0); BUCKETS];
        };
        array::from_fn(|place| {
            let wants = lacks.map(|lack| match lack {
                Some((At::Volume, Lack::Own)) if is_of_both(place) => Want::Head,
                Some((At::Joint(_), _)) => Want::Head,
                _ => Want::All,
            });
            held.lanes.wanted(place, wants)
        })
    }

    /// The same for those of a tenant or pool, of the volumes that are in line.
    fn wanted_in_line(&mut self, now: Time, number: JointNumber) -> [(u64, u64); BUCKETS] {
        let mut all = [(0, 0); BUCKETS];
        let Some(joint) = self.joints.get(&number) else {
            return all;
        };
        for volume in joint.looked_at() {
            let lacks = self.lacks(now, volume);
            let Some(held) = self.volumes.get(&volume) else {
                continue;
            };
            for (place, (waiting, next)) in all.iter_mut().enumerate() {
                let wants = lacks.map(|lack| match lack {
                    Some((At::Volume, _)) => Want::Nothing,
                    Some((At::Joint(at), _)) if at != number => Want::Head,
                    Some((_, Lack::Own)) if is_of_both(place) => Want::Head,
                    _ => Want::All,
                });
                let (of_volume, head) = held.lanes.wanted(place, wants);
                *waiting += of_volume;
                if *next == 0 {
                    *next = head;
                }
            }
        }
        all
    }

    fn due_mut(&mut self, whose: Whose) -> Option<&mut Option<Time>> {
        match whose {
            Whose::Volume(volume) => self.volumes.get_mut(&volume).map(|held| &mut held.due),
            Whose::Joint(number) => self.joints.get_mut(&number).map(|joint| &mut joint.due),
        }
    }

    fn rest(&mut self, whose: Whose) {
        if let Some(due) = self.due_mut(whose).and_then(Option::take) {
            self.due.remove(&(due, whose));
        }
    }

    fn look_again(&mut self, whose: Whose, at: Time) {
        self.rest(whose);
        if let Some(due) = self.due_mut(whose) {
            *due = Some(at);
            self.due.insert((at, whose));
        }
    }
}

/// What keeps a piece of I/O of a volume from passing: its own limits first, and then those that it is under besides, of which so much is kept for others.
fn lack(
    joints: &mut FxHashMap<JointNumber, Joint>,
    held: &mut Held,
    kept: &[[u64; BUCKETS]],
    now: Time,
    cost: Cost,
) -> Option<(At, Lack)> {
    if let Some(lack) = held.bank.lack(now, cost, &NOTHING) {
        return Some((At::Volume, lack));
    }
    let mut found = None;
    for (number, kept) in held.joints.iter().zip(kept) {
        let joint = joints.get_mut(number);
        match joint.and_then(|joint| joint.bank.lack(now, cost, kept)) {
            Some(Lack::Own) => return Some((At::Joint(*number), Lack::Own)),
            Some(Lack::Both) => found = Some((At::Joint(*number), Lack::Both)),
            None => {}
        }
    }
    found
}
