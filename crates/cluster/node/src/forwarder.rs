//! Where the I/O of a volume goes that is not open here: to the gateway that owns it, one hop, or to this one once it has
//! opened it. Pure; the core carries out what is decided.
//!
//! # The story
//! A host may send a write W1 by one gateway, lose patience with it, repeat W1 by another and go on with W2 to the same
//! place. If the first gateway, or the owner, then still carried out the first W1, W2 would be gone. So (R9):
//!
//! * whoever forwards names its session, and the owner refuses one that has ended;
//! * a host that has gone takes with it what waits for it here, and nothing is sent for it again;
//! * whatever is forwarded says how old it is, by the owner's own clock ([`Forwarder::clock`]): the owner carries out nothing that was
//!   on the way for longer than a freeze may last, be it held up by a broken network, and the link still stand. What is refused so
//!   ends as a path's error: by the owner's clock more time has passed than here, so this machine may have stood still, and its hosts
//!   may have gone on;
//! * a core that was not running for a while drops its hosts, all that it has read from them and the links by which it
//!   forwards, before it does anything else ([`crate::core`]); so does a node whose lease has lapsed, before it takes another;
//! * a host that is silent while a request of it grows old is dropped (`amita_nvme`), and what waits here with it;
//! * a write is carried out at most once for what is forwarded. One whose link broke is asked for again by the link that replaces
//!   it, under the tag that it had: the owner knows by that what it has carried out, or is about to, and has nothing of the old link to
//!   read any more. Where another generation owns the volume by then, or the owner cannot be reached, nobody knows: it ends as a
//!   path's error. (Meanwhile another host may have read what it wrote, and gone on by that: to write it again would undo what that
//!   host has had acknowledged.) The next owner's fences keep the old one from carrying it out after that; it names the generation that
//!   it is meant for, so that it is not carried out at the old one either, should that become owner again.
//!   (A command about the reservation whose link broke is not repeated: its host is told that the outcome is unknown.)

use crate::faults::{Fault, Faults};
use crate::mail::Origin;
use amita_fabric::Link;
use amita_frontend::FrontId;
use amita_frontend::reservation::Command;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::Op;
use amita_types::{Generation, NodeId, VolumeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The number in ids that no sequencer gets: forwarded requests carry it.
pub const FORWARDS: u16 = u16::MAX - 2;
/// The front of a request that came from another gateway.
pub const FORWARDED: amita_frontend::FrontId = amita_frontend::FrontId(u64::MAX);

/// Is the front one of a host, and not of another gateway?
#[must_use]
pub fn is_host(front: FrontId) -> bool {
    front != FORWARDED
}

/// How long an I/O waits for its volume to find an owner. Hosts have patience for longer (Linux: 30 s), and another path.
pub const PATIENCE: Duration = Duration::from_secs(8);
/// An owner's clock is asked for again after this. Two clocks may run apart by a fifth of the time (a tenth each), so that what is
/// known of the owner's is wrong by less than half of what a request may take (`stale_after`, 1 s).
const CLOCK_LASTS: Duration = Duration::from_secs(2);
/// How soon an answer that helps nobody is asked for again, if nothing is heard meanwhile.
const PAUSE: Duration = Duration::from_millis(5);
/// The same where a volume waits for its keys: for a person, mostly.
const KEYS_PAUSE: Duration = Duration::from_millis(250);
/// Where a volume was closed to hosts, its record is not read anew for those that come before that is over.
const CLOSED_PAUSE: Duration = Duration::from_millis(250);

/// What an owner's clock said, and when that came. What came late says less than is: the best is kept.
#[derive(Clone, Copy, Debug)]
struct Reading {
    clock: u64,
    at: Time,
}

impl Reading {
    /// Takes in one that came later, unless it was on its way for longer than this one. That is known for a while only: the owner's
    /// clock may have stood still, or been set back.
    fn improve(&mut self, other: Reading, lasts: Duration) {
        let since = other.at.since(self.at);
        // Two clocks run apart.
        // The other end may say anything.
        let least = self.clock.saturating_add((since - since / 4).as_nanos() as u64);
        if other.clock >= least || since > lasts {
            *self = other;
        }
    }
}

/// A piece of I/O that waits, or is with the owner.
#[derive(Debug)]
pub struct Pending {
    /// Where it came in.
    pub origin: Origin,
    pub work: Work,
    /// What a write writes; the command of a [`Work::Reserve`]; the asks of a [`Work::Lend`] or [`Work::GiveBack`].
    pub payload: Slice,
    /// When it came.
    pub since: Time,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A piece of I/O.
    Io(Op),
    /// A command about the volume's reservation.
    Reserve,
    /// A gate asks for tokens of the volume's limits.
    Lend,
    /// Nothing waits for them: it gives some back, or asks ahead. For that nobody is looked for, and no volume opened.
    GiveBack,
}

impl Pending {
    /// Must it not be carried out twice? Applied to its own outcome it may do something else: what it compares has changed,
    /// or another host has taken away in between what it would bring back.
    #[must_use]
    pub fn is_for_once(&self) -> bool {
        match self.work {
            Work::Io(op) => matches!(op, Op::CompareAndWrite { .. }),
            // Asks are numbered.
            Work::Lend | Work::GiveBack => false,
            Work::Reserve => !matches!(serde_json::from_slice(&self.payload), Ok(Command::Report)),
        }
    }
}

impl Work {
    /// Does what the volume holds go with it, or with its answer?
    #[must_use]
    pub fn carries_data(&self) -> bool {
        matches!(
            self,
            Work::Io(Op::Read { .. } | Op::Write { .. } | Op::CompareAndWrite { .. })
        )
    }

    /// Does it change what the volume holds?
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Work::Io(Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. })
        )
    }

    /// The first byte and how many.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        match self {
            Work::Io(op) => (op.offset(), op.length()),
            Work::Reserve | Work::Lend | Work::GiveBack => (0, 0),
        }
    }
}

/// Where a volume's I/O goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// To be found out.
    Unknown,
    /// The directory was asked.
    Asking,
    /// To be found out again then, or when something is heard of the volume.
    Pausing(Time),
    /// Only hosts wait, and it was closed to them a moment ago: to be found out again then, or when something else is wanted of it.
    Resting(Time),
    /// To the gateway that owns it.
    There(NodeId),
}

#[derive(Debug)]
struct Route {
    state: State,
    waiting: VecDeque<Pending>,
    /// It was closed to hosts when its record was read last: until then that is believed.
    closed_until: Time,
}

impl Route {
    /// Which of what waits is the first that has waited for too long, and when: an ask in front may have come long after what is behind it.
    fn first_to_end(&self) -> Option<(Time, usize)> {
        let others = asks_in_front(&self.waiting);
        let looked_at = self.waiting.iter().take(others + 1).enumerate();
        looked_at
            .map(|(place, pending)| (pending.since.plus(PATIENCE), place))
            .min()
    }
}

fn asks_in_front(waiting: &VecDeque<Pending>) -> usize {
    let is_ask = |pending: &&Pending| matches!(pending.work, Work::Lend | Work::GiveBack);
    waiting.iter().take_while(is_ask).count()
}

/// A request that an owner has.
#[derive(Debug)]
struct Flight {
    node: NodeId,
    volume: VolumeId,
    /// The generation that it names.
    generation: Generation,
    pending: Pending,
    /// Where the owner's copy of it stands, as far as is known.
    copy: Copy,
    /// The owner's clock was known when it was sent: it said how old it was.
    dated: bool,
}

/// Where the copy stands that an owner has, or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    /// On the link by which it was sent first, or with the owner.
    First,
    /// The link broke, and nobody knows whether it was carried out. It is to be asked for again, under its own tag.
    Lost,
    /// It was asked for again.
    Again,
}

/// What an answer answers.
#[derive(Debug)]
pub struct Answered {
    pub volume: VolumeId,
    /// Who was asked.
    pub node: NodeId,
    /// What was asked.
    pub pending: Pending,
    /// It had been sent before, by a link that broke: an answer that says only that it is not carried out now says nothing of
    /// the first one.
    pub again: bool,
    /// It had said how old it was.
    pub dated: bool,
}

/// How one core reaches the owners of volumes that others own.
#[derive(Debug, Default)]
pub struct Forwarder {
    base: u64,
    count: u64,
    routes: BTreeMap<VolumeId, Route>,
    /// Volumes with I/O that waits.
    stalled: BTreeSet<VolumeId>,
    /// Whose I/O was sent last.
    last_turn: Option<VolumeId>,
    /// In the order in which they were sent.
    flights: BTreeMap<u64, Flight>,
    /// Of those: how many are to be asked for again.
    lost_copies: usize,
    /// What is given up: its host is told that the outcome is unknown.
    given_up: Vec<Pending>,
    /// The best that was heard of the owners' clocks by each link.
    clocks: BTreeMap<Link, Reading>,
    /// The same, whatever the link.
    owner_clocks: BTreeMap<NodeId, Reading>,
    /// Links by which an owner has said that it knows this process as living.
    known_by: BTreeSet<Link>,
    /// An owner does not know this process as living: nothing is sent before all hosts are dropped, on all cores.
    halted: bool,
    /// Rules that are switched off to show that the simulator notices.
    pub faults: Faults,
}

impl Forwarder {
    /// None yet. `base` stands above the tags.
    #[must_use]
    pub fn new(base: u64) -> Forwarder {
        Forwarder {
            base,
            ..Forwarder::default()
        }
    }

    /// Nothing is sent any more before all hosts were dropped, on all cores.
    pub fn halt(&mut self) {
        self.halted = true;
    }

    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.halted
    }

    /// Was it so? From now on it is not.
    pub fn go_on(&mut self) -> bool {
        std::mem::take(&mut self.halted)
    }

    /// Takes in a piece of I/O; it waits until [`Forwarder::next_pending`] hands it out. Asks for tokens go before what waits: behind that, which
    /// passed by older ones, they would come back with tokens that have lapsed.
    pub fn push(&mut self, volume: VolumeId, pending: Pending) {
        let waiting = &mut self.entry(volume).waiting;
        match pending.work {
            Work::Lend | Work::GiveBack => {
                let place = asks_in_front(waiting);
                waiting.insert(place, pending);
            }
            Work::Io(_) | Work::Reserve => waiting.push_back(pending),
        }
        self.stalled.insert(volume);
    }

    fn entry(&mut self, volume: VolumeId) -> &mut Route {
        self.routes.entry(volume).or_insert_with(|| Route {
            state: State::Unknown,
            waiting: VecDeque::new(),
            closed_until: Time(0),
        })
    }

    /// Where a volume's I/O goes.
    #[must_use]
    pub fn state(&self, volume: VolumeId) -> State {
        self.routes.get(&volume).map_or(State::Unknown, |route| route.state)
    }

    /// Notes where it goes.
    pub fn set(&mut self, volume: VolumeId, state: State) {
        self.entry(volume).state = state;
    }

    /// Notes that it is to be found out a little later.
    pub fn pause(&mut self, now: Time, volume: VolumeId) {
        self.set(volume, State::Pausing(now.plus(PAUSE)));
    }

    /// Notes that it is to be found out later: its keys are not here.
    pub fn pause_for_keys(&mut self, now: Time, volume: VolumeId) {
        self.set(volume, State::Pausing(now.plus(KEYS_PAUSE)));
    }

    /// Notes that it is closed to hosts, and to be found out a little later for what else waits.
    pub fn close(&mut self, now: Time, volume: VolumeId) {
        self.pause(now, volume);
        self.entry(volume).closed_until = now.plus(CLOSED_PAUSE);
    }

    /// Until when it is believed that the volume is closed to hosts, if it is now.
    #[must_use]
    pub fn closed_until(&self, now: Time, volume: VolumeId) -> Option<Time> {
        let route = self.routes.get(&volume)?;
        Some(route.closed_until).filter(|until| now < *until)
    }

    /// Its record has changed: what was found out before may be so no more.
    pub fn look_anew(&mut self, volume: VolumeId) {
        if let Some(route) = self.routes.get_mut(&volume) {
            route.state = State::Unknown;
            route.closed_until = Time(0);
        }
    }

    /// What waits first for this volume.
    #[must_use]
    pub fn front(&self, volume: VolumeId) -> Option<&Pending> {
        self.routes.get(&volume)?.waiting.front()
    }

    /// Takes out what waits first for this volume.
    pub fn next_pending(&mut self, volume: VolumeId) -> Option<Pending> {
        self.take(volume, 0)
    }

    fn take(&mut self, volume: VolumeId, place: usize) -> Option<Pending> {
        let route = self.routes.get_mut(&volume)?;
        let next = route.waiting.remove(place);
        if route.waiting.is_empty() {
            self.stalled.remove(&volume);
        }
        next
    }

    /// Takes out what waits for this volume and is not to stay, in order.
    pub fn take_others(&mut self, volume: VolumeId, stays: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        let Some(route) = self.routes.get_mut(&volume) else {
            return Vec::new();
        };
        let (kept, taken): (VecDeque<Pending>, VecDeque<Pending>) =
            std::mem::take(&mut route.waiting).into_iter().partition(stays);
        route.waiting = kept;
        if route.waiting.is_empty() {
            self.stalled.remove(&volume);
        }
        taken.into()
    }

    /// Does anything of that kind wait for the volume?
    #[must_use]
    pub fn has_waiting(&self, volume: VolumeId, is_of_it: impl Fn(&Pending) -> bool) -> bool {
        let route = self.routes.get(&volume);
        route.is_some_and(|route| route.waiting.iter().any(is_of_it))
    }

    /// The tag of the next request to be sent.
    #[must_use]
    pub fn next_tag(&self) -> u64 {
        self.base | (self.count + 1) & ((1 << 40) - 1)
    }

    /// What waits first for this volume was sent to the node, under [`Forwarder::next_tag`].
    pub fn sent(&mut self, volume: VolumeId, node: NodeId, generation: Generation, dated: bool) {
        let tag = self.next_tag();
        self.count += 1;
        self.last_turn = Some(volume);
        if let Some(pending) = self.next_pending(volume) {
            let flight = Flight {
                node,
                volume,
                generation,
                pending,
                copy: Copy::First,
                dated,
            };
            self.flights.insert(tag, flight);
        }
    }

    /// An answer came from a node: what it answers; nothing where that has been sent another way meanwhile, or another node was
    /// asked (R14).
    pub fn answered(&mut self, from: NodeId, tag: u64) -> Option<Answered> {
        self.flights.get(&tag).filter(|flight| flight.node == from)?;
        self.land(tag)
    }

    /// A request is with its owner no longer.
    fn land(&mut self, tag: u64) -> Option<Answered> {
        let flight = self.flights.remove(&tag)?;
        self.lost_copies -= usize::from(flight.copy == Copy::Lost);
        Some(Answered {
            volume: flight.volume,
            node: flight.node,
            pending: flight.pending,
            again: flight.copy != Copy::First,
            dated: flight.dated,
        })
    }

    /// The first request after `tag` of a node's that is to be asked for again, in the order in which they were sent first: its tag,
    /// its volume, the generation that it names, and itself.
    #[must_use]
    pub fn to_ask_again(&self, node: NodeId, after: u64) -> Option<(u64, VolumeId, Generation, &Pending)> {
        if self.lost_copies == 0 {
            return None;
        }
        let mut later = self.flights.range(after + 1..);
        let found = later.find(|(_, flight)| flight.node == node && flight.copy == Copy::Lost);
        found.map(|(tag, flight)| (*tag, flight.volume, flight.generation, &flight.pending))
    }

    /// It was; `dated`: and said how old it is.
    pub fn asked_again(&mut self, tag: u64, dated: bool) {
        if let Some(flight) = self.flights.get_mut(&tag)
            && flight.copy == Copy::Lost
        {
            flight.copy = Copy::Again;
            flight.dated = dated;
            self.lost_copies -= 1;
        }
    }

    /// Nobody will say any more what became of it: its host is told so.
    pub fn give_up(&mut self, tag: u64) {
        if let Some(answered) = self.land(tag) {
            self.given_up.push(answered.pending);
        }
    }

    /// The nodes whose links broke with requests that nobody knows the end of.
    #[must_use]
    pub fn with_lost_copies(&self) -> BTreeSet<NodeId> {
        if self.lost_copies == 0 {
            return BTreeSet::new();
        }
        let lost = self.flights.values().filter(|flight| flight.copy == Copy::Lost);
        lost.map(|flight| flight.node).collect()
    }

    /// The link to a node broke. What changes nothing is sent again, wherever the owner is by then. What writes stays with the
    /// node: it is asked for again under its own tag, by which the owner knows what it has carried out.
    pub fn link_broke(&mut self, node: NodeId) {
        let of = |flight: &Flight| flight.node == node;
        self.put_reads_back(of);
        // A command about the reservation has no tag that the owner knows it by: its host is told that nobody knows.
        let commands: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| of(flight) && flight.pending.work == Work::Reserve)
            .map(|(tag, _)| *tag)
            .collect();
        commands.into_iter().for_each(|tag| self.give_up(tag));
        if self.faults.has(Fault::FailAtOnce) {
            return self.owner_lost(node);
        }
        if self.faults.has(Fault::CarryOutAgain) {
            return self.put_all_back(of);
        }
        for flight in self
            .flights
            .values_mut()
            .filter(|flight| flight.node == node && flight.copy != Copy::Lost)
        {
            flight.copy = Copy::Lost;
            self.lost_copies += 1;
        }
    }

    /// The node owns the volume no longer. What changes nothing is sent to the next owner. Of what writes, the node will say what
    /// became of it if its link stands; else nobody will.
    pub fn deposed(&mut self, node: NodeId, volume: VolumeId) {
        let of = |flight: &Flight| flight.node == node && flight.volume == volume;
        self.put_reads_back(of);
        if self.faults.has(Fault::CarryOutAgain) {
            return self.put_all_back(of);
        }
        let lost: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| of(flight) && flight.copy == Copy::Lost)
            .map(|(tag, _)| *tag)
            .collect();
        lost.into_iter().for_each(|tag| self.give_up(tag));
    }

    /// The node is dead, or cannot be reached: nobody will say what became of what it has.
    pub fn owner_lost(&mut self, node: NodeId) {
        let of = |flight: &Flight| flight.node == node;
        self.put_reads_back(of);
        if self.faults.has(Fault::CarryOutAgain) {
            return self.put_all_back(of);
        }
        let lost: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| of(flight))
            .map(|(tag, _)| *tag)
            .collect();
        lost.into_iter().for_each(|tag| self.give_up(tag));
    }

    fn put_reads_back(&mut self, of: impl Fn(&Flight) -> bool) {
        let is_harmless = |pending: &Pending| match pending.work {
            Work::Reserve | Work::Lend | Work::GiveBack => !pending.is_for_once(),
            Work::Io(op) => matches!(
                op,
                Op::Read { .. } | Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. }
            ),
        };
        self.put_those_back(|flight| of(flight) && is_harmless(&flight.pending));
    }

    fn put_all_back(&mut self, of: impl Fn(&Flight) -> bool) {
        self.put_those_back(of);
    }

    /// In front of what waits, in order.
    fn put_those_back(&mut self, of: impl Fn(&Flight) -> bool) {
        let taken: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| of(flight))
            .map(|(tag, _)| *tag)
            .collect();
        for tag in taken.into_iter().rev() {
            if let Some(Answered { volume, pending, .. }) = self.land(tag) {
                self.put_back(volume, pending);
            }
        }
    }

    /// Puts a piece of I/O back in front of what waits, unless it must not be done twice.
    fn put_back(&mut self, volume: VolumeId, pending: Pending) {
        if pending.is_for_once() && !self.faults.has(Fault::RepeatCompare) {
            self.given_up.push(pending);
            return;
        }
        self.put_again(volume, pending);
    }

    /// Puts a piece of I/O back in front of what waits: it was not carried out, or changes nothing.
    pub fn put_again(&mut self, volume: VolumeId, pending: Pending) {
        self.entry(volume).waiting.push_front(pending);
        self.stalled.insert(volume);
    }

    /// What was given up since the last call, and what has waited for too long.
    pub fn take_given_up(&mut self, now: Time) -> Vec<(Pending, bool)> {
        if self.lost_copies > 0 {
            let is_late = |flight: &Flight| flight.copy == Copy::Lost && now >= flight.pending.since.plus(PATIENCE);
            let late: Vec<u64> = self
                .flights
                .iter()
                .filter(|(_, flight)| is_late(flight))
                .map(|(tag, _)| *tag)
                .collect();
            late.into_iter().for_each(|tag| self.give_up(tag));
        }
        let mut ended: Vec<(Pending, bool)> = self.given_up.drain(..).map(|pending| (pending, true)).collect();
        for volume in self.stalled.clone() {
            while let Some((until, place)) = self.routes.get(&volume).and_then(Route::first_to_end)
                && now >= until
            {
                ended.extend(self.take(volume, place).map(|pending| (pending, false)));
            }
        }
        ended
    }

    /// Has [`Forwarder::take_given_up`] something that cannot wait?
    #[must_use]
    pub fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// The volumes with I/O that waits, in order.
    #[must_use]
    pub fn stalled(&self) -> Vec<VolumeId> {
        self.stalled.iter().copied().collect()
    }

    /// The same, beginning behind the one whose I/O was sent last.
    #[must_use]
    pub fn round(&self) -> Vec<VolumeId> {
        let (before, behind): (Vec<VolumeId>, Vec<VolumeId>) = self
            .stalled
            .iter()
            .partition(|volume| self.last_turn.is_some_and(|last| **volume <= last));
        behind.into_iter().chain(before).collect()
    }

    /// Does anything wait?
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// The nodes that have requests of ours.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<NodeId> {
        self.flights.values().map(|flight| flight.node).collect()
    }

    /// Forgets all that fronts of `core` have asked for, or only this one: their hosts are gone, and may have gone on by
    /// another gateway. What an owner has of it already is too old for it soon.
    pub fn forget(&mut self, core: u16, front: Option<FrontId>) {
        let is_gone = |origin: &Origin| {
            is_host(origin.front) && origin.core == core && front.is_none_or(|front| front == origin.front)
        };
        for volume in self.stalled() {
            let route = self.entry(volume);
            route.waiting.retain(|pending| !is_gone(&pending.origin));
            if route.waiting.is_empty() {
                self.stalled.remove(&volume);
            }
        }
        let lost_copies = &mut self.lost_copies;
        self.flights.retain(|_, flight| {
            let is_gone = is_gone(&flight.pending.origin);
            *lost_copies -= usize::from(is_gone && flight.copy == Copy::Lost);
            !is_gone
        });
        self.given_up.retain(|pending| !is_gone(&pending.origin));
    }

    /// The owner at the end of this link has said what its clock is.
    pub fn heard_clock(&mut self, link: Link, now: Time, clock: u64) {
        let reading = Reading { clock, at: now };
        self.clocks.entry(link).or_insert(reading).improve(reading, CLOCK_LASTS);
    }

    /// An owner has said what its clock is. True when so much more time has passed there than here that this machine has stood still,
    /// clock and all, or its clock was set back: nothing that hosts have sent before can be dated by it. Judged by the best that was
    /// heard before: an answer that came late says nothing of this machine, nor does the next one that does not.
    pub fn stood_still(&mut self, node: NodeId, now: Time, clock: u64, stale_after: Duration) -> bool {
        let reading = Reading { clock, at: now };
        let best = self.owner_clocks.entry(node).or_insert(reading);
        let (here, there) = (
            now.since(best.at),
            Duration::from_nanos(clock.saturating_sub(best.clock)),
        );
        best.improve(reading, PATIENCE);
        // Two clocks run apart; and a process that was started anew begins at zero.
        there > here + here / 4 + stale_after
    }

    /// The owner at the end of this link knows this process as living.
    pub fn known_by(&mut self, link: Link) {
        self.known_by.insert(link);
    }

    #[must_use]
    pub fn is_known_by(&self, link: Link) -> bool {
        self.known_by.contains(&link)
    }

    /// A link is gone, and with it what was known of the clock at its end.
    pub fn link_closed(&mut self, link: Link) {
        self.known_by.remove(&link);
        self.clocks.remove(&link);
    }

    /// What the clock at the end of a link shows, at the least; 0: unknown.
    #[must_use]
    pub fn clock(&self, link: Link, now: Time) -> u64 {
        let Some(Reading { clock, at }) = self.clocks.get(&link) else {
            return 0;
        };
        let since = now.since(*at);
        // Two clocks run apart.
        if since > CLOCK_LASTS {
            0
        } else {
            clock.saturating_add(since.as_nanos() as u64)
        }
    }

    /// How many requests owners have, and how many wait.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (
            self.flights.len(),
            self.routes.values().map(|route| route.waiting.len()).sum(),
        )
    }

    /// When time matters next.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let of = |volume: &VolumeId| {
            let route = self.routes.get(volume)?;
            let patience = route.first_to_end().map(|(until, _)| until);
            match route.state {
                State::Pausing(until) | State::Resting(until) => Some(patience.map_or(until, |at| at.min(until))),
                _ => patience,
            }
        };
        let stalled = self.stalled.iter().filter_map(of).min();
        if self.lost_copies == 0 {
            return stalled;
        }
        let lost = self.flights.values().filter(|flight| flight.copy == Copy::Lost);
        lost.map(|flight| flight.pending.since.plus(PATIENCE))
            .chain(stalled)
            .min()
    }
}

#[cfg(test)]
mod tests;
