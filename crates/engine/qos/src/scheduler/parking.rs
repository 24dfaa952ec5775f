//! Who is held by which limit, and whom it wakes: one lane at a time for each direction, by its turn there.
//!
//! Woken one at a time, lanes that stand under one limit cost it one wake-up an I/O however many they are. The next one is woken when
//! the first has gone, or turns out to be held by another limit. Each limit has an order of its own, as the scheduler has: who
//! has a reservation that is due is woken first, then who has the least tag; so what it lets pass is shared by weight.

use super::MAX_LIMITERS;
use super::flow::{Turn, fixed};
use crate::faults::{Fault, Faults};
use crate::heap::Heap;
use crate::limits::{Cost, Direction, Limiter, Limits};
use amita_reactor::Time;
use arrayvec::ArrayVec;

/// A limit of one scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimiterId(u32);

/// A flow among those of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) limiter: LimiterId,
    number: u32,
}

/// The limits that a flow stands under.
pub(super) type Members = ArrayVec<Member, MAX_LIMITERS>;

/// Who waits for one direction of a limit, by members' numbers.
#[derive(Debug, Default)]
struct Side {
    /// All, by their tags.
    turns: Heap,
    /// Those with a reservation, by when it is due.
    dues: Heap,
    is_waking: bool,
    /// Where who comes new begins.
    tag: u128,
}

#[derive(Debug)]
struct Place {
    limiter: Limiter,
    /// Flows by their numbers here.
    flows: Vec<u32>,
    free: Vec<u32>,
    sides: [Side; 2],
}

#[derive(Debug)]
pub(super) struct Parking {
    places: Vec<Option<Place>>,
    free: Vec<u32>,
    /// Sides that somebody waits at and nobody was woken of, by when they let the next one go.
    timers: Heap,
    arrivals: u128,
    faults: Faults,
}

fn side_of(limiter: LimiterId, lane: usize) -> u32 {
    limiter.0 * 2 + lane as u32
}

impl Parking {
    pub(super) fn new(faults: Faults) -> Parking {
        Parking {
            places: Vec::new(),
            free: Vec::new(),
            timers: Heap::default(),
            arrivals: 0,
            faults,
        }
    }

    pub(super) fn add(&mut self, now: Time, limits: &Limits) -> LimiterId {
        let place = Place {
            limiter: Limiter::new(now, limits, self.faults),
            flows: Vec::new(),
            free: Vec::new(),
            sides: Default::default(),
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[index as usize] = Some(place);
        self.timers.reserve(2 * self.places.len());
        LimiterId(index)
    }

    pub(super) fn remove(&mut self, limiter: LimiterId) {
        let place = self.places[limiter.0 as usize].take();
        let place = place.expect("a limit is used until it is removed");
        assert!(place.flows.len() == place.free.len(), "a limit goes after its flows");
        self.free.push(limiter.0);
    }

    /// A flow stands under these limits from now on; what they need to hold it is taken.
    pub(super) fn join(&mut self, flow: u32, limiters: &[LimiterId]) -> Members {
        let member = |&limiter: &LimiterId| {
            let place = self.place(limiter);
            let number = place.free.pop().unwrap_or_else(|| {
                place.flows.push(flow);
                place.flows.len() as u32 - 1
            });
            place.flows[number as usize] = flow;
            for side in &mut place.sides {
                side.turns.reserve(place.flows.len());
                side.dues.reserve(place.flows.len());
            }
            Member { limiter, number }
        };
        limiters.iter().map(member).collect()
    }

    pub(super) fn leave(&mut self, members: &[Member]) {
        for member in members {
            self.place(member.limiter).free.push(member.number);
        }
    }

    #[inline]
    fn place(&mut self, limiter: LimiterId) -> &mut Place {
        let place = self.places[limiter.0 as usize].as_mut();
        place.expect("a limit is used until it is removed")
    }

    pub(super) fn set(&mut self, now: Time, limiter: LimiterId, limits: &Limits) {
        self.place(limiter).limiter.set(now, limits);
        for lane in 0..2 {
            self.arm(now, limiter, lane);
        }
    }

    #[inline]
    pub(super) fn admits(&mut self, now: Time, limiter: LimiterId, lane: usize) -> bool {
        self.place(limiter).limiter.admits(now, Direction::ALL[lane])
    }

    #[inline]
    pub(super) fn charge(&mut self, now: Time, limiter: LimiterId, cost: Cost) {
        self.place(limiter).limiter.charge(now, cost);
    }

    /// A lane is held by a limit, as that has just said; its reservation, if it has one, is due then.
    pub(super) fn park(&mut self, member: Member, lane: usize, turn: &mut Turn, due: Option<u128>) {
        self.arrivals += 1;
        let (arrivals, by_arrival) = (self.arrivals, self.faults.has(Fault::WakeByArrival));
        let limiter = member.limiter;
        let side = &mut self.place(limiter).sides[lane];
        let tag = if turn.at == Some(limiter) {
            turn.tag.max(side.tag)
        } else {
            side.tag
        };
        *turn = Turn { at: Some(limiter), tag };
        side.turns.set(member.number, if by_arrival { arrivals } else { tag });
        if let Some(due) = due {
            side.dues.set(member.number, due);
        }
        self.arm_at_ready(limiter, lane);
    }

    /// Takes out a lane that is parked.
    pub(super) fn take(&mut self, member: Member, lane: usize) {
        let side = &mut self.place(member.limiter).sides[lane];
        side.turns.remove(member.number);
        side.dues.remove(member.number);
        if side.turns.is_empty() {
            self.timers.remove(side_of(member.limiter, lane));
        }
    }

    /// The lane that was woken has gone, or is held elsewhere.
    #[inline]
    pub(super) fn release(&mut self, now: Time, limiter: LimiterId, lane: usize) {
        self.place(limiter).sides[lane].is_waking = false;
        self.arm(now, limiter, lane);
    }

    fn arm(&mut self, now: Time, limiter: LimiterId, lane: usize) {
        // The buckets are brought up to date by being asked.
        let _ = self.admits(now, limiter, lane);
        self.arm_at_ready(limiter, lane);
    }

    fn arm_at_ready(&mut self, limiter: LimiterId, lane: usize) {
        let place = self.place(limiter);
        let side = &place.sides[lane];
        if side.turns.is_empty() || side.is_waking {
            return self.timers.remove(side_of(limiter, lane));
        }
        let at = place.limiter.ready_at(Direction::ALL[lane]);
        self.timers.set(side_of(limiter, lane), u128::from(at.0));
    }

    /// The next lane that a limit lets go: its flow, itself, and the limit.
    #[inline]
    pub(super) fn wake(&mut self, now: Time) -> Option<(u32, usize, LimiterId)> {
        loop {
            let (at, number) = self.timers.peek()?;
            if at > u128::from(now.0) {
                return None;
            }
            let (limiter, lane) = (LimiterId(number / 2), number as usize % 2);
            if !self.admits(now, limiter, lane) {
                // Others have spent meanwhile what was to come.
                self.arm_at_ready(limiter, lane);
                continue;
            }
            self.timers.remove(number);
            let by_arrival = self.faults.has(Fault::WakeByArrival);
            let place = self.place(limiter);
            let side = &mut place.sides[lane];
            let Some((least, first)) = side.turns.peek() else {
                continue;
            };
            let due = side.dues.peek().filter(|&(due, _)| due <= fixed(now) && !by_arrival);
            let woken = due.map_or(first, |(_, member)| member);
            if !by_arrival {
                side.tag = side.tag.max(least);
            }
            side.turns.remove(woken);
            side.dues.remove(woken);
            side.is_waking = true;
            return Some((place.flows[woken as usize], lane, limiter));
        }
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        let (at, _) = self.timers.peek()?;
        Some(Time(u64::try_from(at).unwrap_or(u64::MAX)))
    }
}
