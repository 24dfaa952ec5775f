//! Where the I/O of a volume goes that is not open here: to the gateway that owns it, one hop, or to this one once it has
//! opened it. Pure; the core carries out what is decided.
//!
//! # The story
//! A host may send a write W1 by one gateway, lose patience with it, repeat W1 by another and go on with W2 to the same
//! place. If the first gateway, or the owner, then still carried out the first W1, W2 would be gone. So (R9):
//!
//! * whoever forwards names its session, and the owner refuses one that has ended;
//! * a host that has gone takes with it what waits for it here, and nothing is sent for it again;
//! * whatever is forwarded says how old it is, by the owner's own clock ([`Ways::clock`]): the owner carries out nothing that was
//!   on the way for longer than a freeze may last, be it held up by a broken network, and the link still stand;
//! * a core that was not running for a while drops its hosts, all that it has read from them and the links by which it
//!   forwards, before it does anything else ([`crate::core`]);
//! * a forwarded request whose link broke is neither answered nor given up before the owner can have no copy of it left
//!   that it has not carried out: it is sent again on the next link, which replaces the old one and what lay unread on it,
//!   or to the next owner, whose generation fences the old one. (It names the generation that it is meant for: what waits at
//!   the old owner is not carried out should that become owner again.) Done twice it does no harm: the host has not been told yet,
//!   and so cannot have gone on by the answer. (A compare-and-write is not repeated, nor a command about the reservation. Its
//!   host is told that the outcome is unknown.)

use crate::mail::Origin;
use crate::planted::Planted;
use amita_cluster::{NodeId, VolumeId};
use amita_fabric::Link;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_uss::FrontId;
use amita_uss::reservation::Command;
use amita_volume::Op;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The number in ids that no sequencer gets: forwarded requests carry it.
pub const FORWARDS: u16 = u16::MAX - 2;
/// The front of a request that came from another gateway.
pub const FORWARDED: amita_uss::FrontId = amita_uss::FrontId(u64::MAX);

/// Is the front one of a host, and not of another gateway?
#[must_use]
pub fn is_host(front: FrontId) -> bool {
    front != FORWARDED
}

/// How long an I/O waits for its volume to find an owner. Hosts have patience for longer (Linux: 30 s), and another path.
pub const PATIENCE: Duration = Duration::from_secs(8);
/// An owner's clock is asked for again after this: two clocks run apart by less than a part in a thousand.
const CLOCK_LASTS: Duration = Duration::from_secs(60);
/// How soon an answer that helps nobody is asked for again, if nothing is heard meanwhile.
const PAUSE: Duration = Duration::from_millis(5);

/// A piece of I/O that waits, or is with the owner.
#[derive(Debug)]
pub struct Pending {
    /// Where it came in.
    pub origin: Origin,
    /// What to do.
    pub work: Work,
    /// What a write writes; the command of a [`Work::Reserve`].
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
}

impl Pending {
    /// Must it not be carried out twice? Applied to its own outcome it may do something else: what it compares has changed,
    /// or another host has taken away in between what it would bring back.
    #[must_use]
    pub fn is_for_once(&self) -> bool {
        match self.work {
            Work::Io(op) => matches!(op, Op::CompareAndWrite { .. }),
            Work::Reserve => !matches!(serde_json::from_slice(&self.payload), Ok(Command::Report)),
        }
    }
}

impl Work {
    /// The first byte and how many.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        match self {
            Work::Io(op) => (op.offset(), op.length()),
            Work::Reserve => (0, 0),
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
    /// To the gateway that owns it.
    There(NodeId),
}

#[derive(Debug)]
struct Way {
    state: State,
    waiting: VecDeque<Pending>,
}

/// A request that an owner has.
#[derive(Debug)]
struct Flight {
    node: NodeId,
    volume: VolumeId,
    pending: Pending,
}

/// The ways of one core.
#[derive(Debug, Default)]
pub struct Ways {
    base: u64,
    count: u64,
    ways: BTreeMap<VolumeId, Way>,
    /// Volumes with I/O that waits.
    stalled: BTreeSet<VolumeId>,
    /// In the order in which they were sent.
    flights: BTreeMap<u64, Flight>,
    /// What is given up: its host is told that the outcome is unknown.
    given_up: Vec<Pending>,
    /// What the owners' clocks said by each link, and when that came.
    clocks: BTreeMap<Link, (u64, Time)>,
    /// Rules that are switched off to show that the simulator notices.
    pub planted: Planted,
}

impl Ways {
    /// None yet. `base` stands above the tags.
    #[must_use]
    pub fn new(base: u64) -> Ways {
        Ways {
            base,
            ..Ways::default()
        }
    }

    /// Takes in a piece of I/O; it waits until [`Ways::next`] hands it out.
    pub fn push(&mut self, volume: VolumeId, pending: Pending) {
        self.way(volume).waiting.push_back(pending);
        self.stalled.insert(volume);
    }

    fn way(&mut self, volume: VolumeId) -> &mut Way {
        self.ways.entry(volume).or_insert_with(|| Way {
            state: State::Unknown,
            waiting: VecDeque::new(),
        })
    }

    /// Where a volume's I/O goes.
    #[must_use]
    pub fn state(&self, volume: VolumeId) -> State {
        self.ways.get(&volume).map_or(State::Unknown, |way| way.state)
    }

    /// Notes where it goes.
    pub fn set(&mut self, volume: VolumeId, state: State) {
        self.way(volume).state = state;
    }

    /// Notes that it is to be found out a little later.
    pub fn pause(&mut self, now: Time, volume: VolumeId) {
        self.set(volume, State::Pausing(now.plus(PAUSE)));
    }

    /// What waits first for this volume.
    #[must_use]
    pub fn front(&self, volume: VolumeId) -> Option<&Pending> {
        self.ways.get(&volume)?.waiting.front()
    }

    /// Takes out what waits first for this volume.
    pub fn next_pending(&mut self, volume: VolumeId) -> Option<Pending> {
        let way = self.ways.get_mut(&volume)?;
        let next = way.waiting.pop_front();
        if way.waiting.is_empty() {
            self.stalled.remove(&volume);
        }
        next
    }

    /// The tag of the next request to be sent.
    #[must_use]
    pub fn next_tag(&self) -> u64 {
        self.base | (self.count + 1) & ((1 << 40) - 1)
    }

    /// What waits first for this volume was sent to the node, under [`Ways::next_tag`].
    pub fn sent(&mut self, volume: VolumeId, node: NodeId) {
        let tag = self.next_tag();
        self.count += 1;
        if let Some(pending) = self.next_pending(volume) {
            self.flights.insert(tag, Flight { node, volume, pending });
        }
    }

    /// An answer came: what it answers; nothing where that has been sent another way meanwhile.
    pub fn answered(&mut self, tag: u64) -> Option<(VolumeId, Pending)> {
        self.flights.remove(&tag).map(|flight| (flight.volume, flight.pending))
    }

    /// Puts back what a node has and may never answer, to be sent again.
    pub fn take_back(&mut self, node: NodeId, of: Option<VolumeId>) {
        let taken: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.node == node && of.is_none_or(|volume| flight.volume == volume))
            .map(|(tag, _)| *tag)
            .collect();
        for tag in taken.into_iter().rev() {
            let Some(Flight { volume, pending, .. }) = self.flights.remove(&tag) else {
                continue;
            };
            self.put_back(volume, pending);
        }
    }

    /// As [`Ways::take_back`], of a volume that has another owner now while this one can be reached: it will say what became
    /// of compare-and-writes and commands about the reservation, which are not sent again otherwise.
    pub fn take_back_from_deposed(&mut self, node: NodeId, volume: VolumeId) {
        let is_for_once = |flight: &Flight| flight.pending.is_for_once();
        let stay: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| is_for_once(flight))
            .map(|(tag, _)| *tag)
            .collect();
        let stay: Vec<(u64, Flight)> = stay
            .into_iter()
            .filter_map(|tag| Some((tag, self.flights.remove(&tag)?)))
            .collect();
        self.take_back(node, Some(volume));
        self.flights.extend(stay);
    }

    /// Puts a piece of I/O back in front of what waits, unless it must not be done twice.
    pub fn put_back(&mut self, volume: VolumeId, pending: Pending) {
        if (pending.is_for_once() && !self.planted.repeat_compare()) || self.planted.fail_at_once() {
            self.given_up.push(pending);
            return;
        }
        self.put_again(volume, pending);
    }

    /// Puts a piece of I/O back that was not carried out, or may be carried out twice.
    pub fn put_again(&mut self, volume: VolumeId, pending: Pending) {
        self.way(volume).waiting.push_front(pending);
        self.stalled.insert(volume);
    }

    /// What was given up since the last call, and what has waited for too long.
    pub fn take_given_up(&mut self, now: Time) -> Vec<(Pending, bool)> {
        let mut ended: Vec<(Pending, bool)> = self.given_up.drain(..).map(|pending| (pending, true)).collect();
        for volume in self.stalled.clone() {
            while let Some(front) = self.front(volume)
                && now >= front.since.plus(PATIENCE)
            {
                ended.extend(self.next_pending(volume).map(|pending| (pending, false)));
            }
        }
        ended
    }

    /// Has [`Ways::take_given_up`] something that cannot wait?
    #[must_use]
    pub fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// The volumes with I/O that waits, in order.
    #[must_use]
    pub fn stalled(&self) -> Vec<VolumeId> {
        self.stalled.iter().copied().collect()
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
            let way = self.way(volume);
            way.waiting.retain(|pending| !is_gone(&pending.origin));
            if way.waiting.is_empty() {
                self.stalled.remove(&volume);
            }
        }
        self.flights.retain(|_, flight| !is_gone(&flight.pending.origin));
        self.given_up.retain(|pending| !is_gone(&pending.origin));
    }

    /// The owner at the end of this link has said what its clock is.
    pub fn heard_clock(&mut self, link: Link, now: Time, clock: u64) {
        self.clocks.insert(link, (clock, now));
    }

    /// A link is gone, and with it what was known of the clock at its end.
    pub fn link_closed(&mut self, link: Link) {
        self.clocks.remove(&link);
    }

    /// What the clock at the end of a link shows, at the least; 0: unknown.
    #[must_use]
    pub fn clock(&self, link: Link, now: Time) -> u64 {
        let Some((clock, at)) = self.clocks.get(&link) else {
            return 0;
        };
        let since = now.since(*at);
        // Two clocks run apart.
        if since > CLOCK_LASTS {
            0
        } else {
            clock + since.as_nanos() as u64
        }
    }

    /// How many requests owners have, and how many wait.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (
            self.flights.len(),
            self.ways.values().map(|way| way.waiting.len()).sum(),
        )
    }

    /// When time matters next.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let of = |volume: &VolumeId| {
            let way = self.ways.get(volume)?;
            let patience = way.waiting.front().map(|front| front.since.plus(PATIENCE));
            match way.state {
                State::Pausing(until) => Some(patience.map_or(until, |at| at.min(until))),
                _ => patience,
            }
        };
        self.stalled.iter().filter_map(of).min()
    }
}

#[cfg(test)]
mod tests;
