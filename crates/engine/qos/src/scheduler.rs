//! In which order a core takes what waits: reservation, limit and weight, clients beside recovery, scrub, trim, backup and moves.
//!
//! # The story
//! A rebuild, a backup and three noisy volumes want the same core. Each *flow* (a volume at a gateway, a volume's requests at a
//! store, the rebuild) has a queue. Whenever there is room below, the scheduler says whose head goes.
//!
//! **Order**, after mClock and dmClock (Gulati, Merchant, Varman, OSDI 2010):
//! 1. *By reservation.* A flow has a due time that advances by work / reservation with each request that goes for that reason. Who
//!    is due goes first, the longest due before others. What goes by weight does not move the due time, so that what others left
//!    over takes nothing from what was promised.
//! 2. *By weight.* Otherwise the class with the least start tag, and in it the flow with the least: start-time fair queueing (Goyal,
//!    Vin, Cheng, SIGCOMM 1996) on two levels, where mClock has one. So a rebuild's part does not hang on the number of volumes. Tags
//!    advance by work / weight with each request, for whichever reason it went. Who comes back begins at the present tag:
//!    idle flows do not save up.
//!
//! **Limits** are buckets with bursts ([`crate::limits`]) where mClock has a third tag; a flow may stand under several (its own, its
//! tenant's, the pool's) and passes when all of them do. A flow that is held up leaves the order and is parked at the limit that
//! holds it, by its turn there, and each limit wakes one at a time: a tenant's thousand volumes cost its limit one wake-up an I/O,
//! and share it by their weights.
//!
//! **Work** is what is shared: bytes, and for each operation as many again as its fixed cost is worth. It is counted in integers.
//!
//! # Where a request may wait
//! S16: what has a version, and every fence, opening, join and adoption, waits for no tokens, and a request waits at the gateway of its
//! host's connection. So there are two kinds of flows ([`Standing`]):
//! * *Free*: a host's requests at its own gateway, before `submit` gives out a version (a cancelled connection takes its
//!   requests with it: [`Scheduler::cancel`], R9); reads by recovery, scrub, trim, backup and moves at their source. They may be limited. Reads
//!   and writes have a lane each, so that a limit of writes does not hold reads: each lane is in the order of coming, and hosts
//!   are promised no order between commands that are outstanding together.
//! * *Versioned*: at a store. They cannot be given a limit. Only the order among volumes is decided, something always goes while there is
//!   room, and a flow's requests go strictly in the order of their link, as a chunk's history needs it (R1).
//!
//! Everything is taken at the start or while flows are added; an I/O allocates nothing.

mod flow;
mod parking;
mod queue;

pub use flow::{Class, Flow, FlowId, Standing};
pub use parking::LimiterId;

use crate::depth::{Depth, DepthLimits};
use crate::faults::{Fault, Faults};
use crate::heap::Heap;
use crate::limits::{Cost, Limits};
use crate::tracker::Elsewhere;
use amita_reactor::Time;
use arrayvec::ArrayVec;
use flow::{ClassState, FlowState, LaneState, fixed};
use parking::{Member, Parking};
use queue::Pool;
use std::num::NonZeroU16;
use std::time::Duration;

/// Limits that one flow stands under: its own, its tenant's, its pool's, its class's.
pub const MAX_LIMITERS: usize = 4;
/// Flows of one core.
pub const MAX_FLOWS: usize = 1 << 20;
/// A flow that comes back so soon was not idle: one that sends the next when it has the answer keeps its reservation.
const GRACE: Duration = Duration::from_millis(1);
/// What a flow was not given of its reservation (it was held by a limit, or more was promised than there is) is owed so long.
const OWED: Duration = Duration::from_secs(1);

/// How a scheduler is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// Requests that may wait, of all flows together: their places are taken at the start.
    pub waiting: usize,
    /// What may be under way below.
    pub depth: DepthLimits,
    /// What an operation costs beside its bytes, in bytes.
    pub operation_bytes: u32,
    /// Weights of classes, in the order of [`Class::ALL`].
    pub weights: [NonZeroU16; Class::ALL.len()],
    /// Rules that are switched off.
    pub faults: Faults,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            waiting: 4096,
            depth: DepthLimits::NONE,
            operation_bytes: 16 << 10,
            weights: Class::ALL.map(Class::weight),
            faults: Faults::NONE,
        }
    }
}

/// Why a flow is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// [`MAX_FLOWS`].
    #[error("{MAX_FLOWS} flows are the most of a core")]
    TooMany,
    /// [`MAX_LIMITERS`].
    #[error("a flow stands under {MAX_LIMITERS} limits at most")]
    TooManyLimiters,
    /// S16: what has a version does not wait for tokens.
    #[error("what has a version may not be limited (S16)")]
    LimitedVersion,
}

/// What goes now.
#[derive(Debug)]
pub struct Dispatch<T> {
    /// What was put in.
    pub item: T,
    /// To be given back when it has ended.
    pub ticket: Ticket,
}

/// One request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Whose it is.
    pub flow: FlowId,
    /// From then on it waited for others only.
    pub since: Time,
    /// It went because its flow has a reservation: the answer tells the client's [`crate::tracker`].
    pub reserved: bool,
    /// What it counts as.
    pub work: u64,
}

/// The scheduler of one core, of items `T`.
#[derive(Debug)]
pub struct Scheduler<T> {
    config: Config,
    flows: Vec<FlowState>,
    free: Vec<u32>,
    classes: [ClassState; Class::ALL.len()],
    /// The start tag of the class whose turn it was last.
    turn: u128,
    /// Flows that have something ready, by when their reservation is due.
    due: Heap,
    parking: Parking,
    pool: Pool<T>,
    depth: Depth,
}

impl<T> Scheduler<T> {
    /// Without flows.
    #[must_use]
    pub fn new(config: Config) -> Scheduler<T> {
        Scheduler {
            flows: Vec::new(),
            free: Vec::new(),
            classes: config.weights.map(ClassState::new),
            turn: 0,
            due: Heap::default(),
            parking: Parking::new(config.faults),
            pool: Pool::new(config.waiting, config.faults),
            depth: Depth::new(config.depth),
            config,
        }
    }

    /// A limit that flows may stand under, with full buckets.
    pub fn add_limiter(&mut self, now: Time, limits: &Limits) -> LimiterId {
        self.parking.add(now, limits)
    }

    /// Other limits, from now on; nothing jumps ([`crate::bucket`]). Whoever waits for them waits by the new ones.
    pub fn set_limits(&mut self, now: Time, limiter: LimiterId, limits: &Limits) {
        self.parking.set(now, limiter, limits);
    }

    /// A limit goes. No flow may stand under it.
    pub fn remove_limiter(&mut self, limiter: LimiterId) {
        self.parking.remove(limiter);
    }

    /// A flow that stands under these limits.
    ///
    /// # Errors
    /// There are too many, or it may not be limited.
    pub fn add(&mut self, flow: Flow, limiters: &[LimiterId]) -> Result<FlowId, FlowError> {
        let limiters = chain(&flow, limiters)?;
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.flows.len() >= MAX_FLOWS => return Err(FlowError::TooMany),
            None => {
                self.flows.push(FlowState::unused());
                self.reserve();
                self.flows.len() as u32 - 1
            }
        };
        let members = self.parking.join(index, &limiters);
        let state = &mut self.flows[index as usize];
        let generation = state.generation.wrapping_add(1);
        *state = FlowState::new(flow, members, generation);
        Ok(FlowId { index, generation })
    }

    /// Room for the flows that there are, so that none is needed when they are at work.
    fn reserve(&mut self) {
        let flows = self.flows.len();
        self.due.reserve(flows);
        for class in &mut self.classes {
            class.ready.reserve(flows);
        }
        self.free.reserve(flows.saturating_sub(self.free.len()));
    }

    /// Other settings and limits of a flow, whose queue stays. Its class and standing stay too.
    ///
    /// # Errors
    /// It may not be limited, or by so many.
    pub fn set(&mut self, now: Time, id: FlowId, flow: Flow, limiters: &[LimiterId]) -> Result<(), FlowError> {
        let limiters = chain(&flow, limiters)?;
        let index = self.index(id);
        let state = &mut self.flows[index as usize];
        assert!(
            state.flow.class == flow.class && state.flow.standing == flow.standing,
            "a flow stays what it is"
        );
        for lane in 0..2 {
            self.unpark(now, index, lane);
            self.release(now, index, lane);
        }
        let members = self.parking.join(index, &limiters);
        let state = &mut self.flows[index as usize];
        self.parking.leave(&state.members);
        state.set(flow, members);
        if state.is_ready() {
            self.due.remove(index);
            self.make_ready(now, index, GRACE);
        }
        Ok(())
    }

    /// A flow goes, with what waits of it; what is under way ends as ever.
    pub fn remove(&mut self, now: Time, id: FlowId) {
        self.cancel(now, id, |_| true);
        let index = self.index(id);
        let state = &mut self.flows[index as usize];
        state.is_used = false;
        self.parking.leave(&state.members);
        self.free.push(index);
    }

    /// Something waits from now on. `elsewhere` is what its sender told ([`crate::tracker`]).
    ///
    /// # Errors
    /// There is no place: it stays with the caller, who takes no more in.
    pub fn enqueue(&mut self, now: Time, id: FlowId, item: T, cost: Cost, elsewhere: Elsewhere) -> Result<(), T> {
        let index = self.index(id);
        let state = &mut self.flows[index as usize];
        let lane = match state.flow.standing {
            Standing::Free => cost.direction as usize,
            Standing::Versioned => 0,
        };
        let was_empty = state.lanes[lane].queue.is_empty();
        self.pool.push(&mut state.lanes[lane].queue, item, cost, now)?;
        state.hear(elsewhere);
        if was_empty {
            self.settle(now, index, lane, GRACE);
        }
        Ok(())
    }

    /// What goes now; none when nothing may, or nothing more may be under way. To be asked again after each [`Scheduler::done`],
    /// and at [`Scheduler::wake_at`].
    pub fn next(&mut self, now: Time) -> Option<Dispatch<T>> {
        if !self.depth.has_room() {
            return None;
        }
        loop {
            self.wake(now);
            let due = self.due.peek().filter(|&(due, _)| due <= fixed(now));
            let is_reserved = due.is_some();
            let index = match due {
                Some((_, index)) => index,
                None => self.lightest()?,
            };
            if let Some(lane) = self.admitted(now, index) {
                return Some(self.dispatch(now, index, lane, is_reserved));
            }
            // What of it was ready is parked now: another one.
        }
    }

    /// What is first in a flow of what has a version goes now, out of its turn and whatever is under way: something must not go before it.
    /// The flow `payer` is charged, as if it had been its turn by weight.
    pub fn pull(&mut self, now: Time, id: FlowId, payer: FlowId) -> Option<Dispatch<T>> {
        let (index, payer) = (self.index(id), self.index(payer));
        let state = &mut self.flows[index as usize];
        let standing = state.flow.standing;
        assert_eq!(standing, Standing::Versioned, "nothing is taken past its limits");
        if state.lanes[0].queue.is_empty() {
            return None;
        }
        if index == payer {
            // Else it was the payer's turn. Where all goes out of its turn, no turn would move this on.
            self.turn_to(self.flows[index as usize].flow.class);
        }
        let state = &mut self.flows[index as usize];
        let (item, cost, came) = self.pool.pop(&mut state.lanes[0].queue);
        let since = came.max(std::mem::replace(&mut state.alone, now));
        if state.lanes[0].queue.is_empty() {
            state.lanes[0].state = LaneState::Idle;
        }
        self.stand(index);
        self.depth.begin();
        let work = self.work(cost);
        let state = &mut self.flows[payer as usize];
        self.classes[state.flow.class as usize].advance(work);
        state.advance(now, 0, work, false);
        self.stand(payer);
        let ticket = Ticket {
            flow: id,
            since,
            reserved: false,
            work,
        };
        Some(Dispatch { item, ticket })
    }

    /// What an operation counts as.
    #[inline]
    fn work(&self, cost: Cost) -> u64 {
        u64::from(cost.operations) * u64::from(self.config.operation_bytes) + u64::from(cost.bytes)
    }

    /// One of that class goes, for whichever reason: who comes later begins where the least of those stands who are there.
    #[inline]
    fn turn_to(&mut self, class: Class) {
        let ready = self.classes.iter().filter(|class| !class.ready.is_empty());
        let least = ready.map(|class| class.start).min();
        self.turn = self.turn.max(least.unwrap_or(0));
        let class = &mut self.classes[class as usize];
        class.turn = class.turn.max(class.ready.peek().map_or(0, |(start, _)| start));
    }

    /// A flow stands in the order where its tags say, or leaves it.
    #[inline]
    fn stand(&mut self, index: u32) {
        let state = &self.flows[index as usize];
        if state.is_ready() {
            self.classes[state.flow.class as usize].ready.set(index, state.start);
            if state.due_step > 0 {
                self.due.set(index, state.due);
            }
        } else {
            self.leave_if_idle(index);
        }
    }

    /// May more be under way below?
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.depth.has_room()
    }

    /// One has ended.
    pub fn done(&mut self, now: Time, ticket: Ticket) {
        let state = self.flows.get(ticket.flow.index as usize);
        let state = state.filter(|state| state.is_used && state.generation == ticket.flow.generation);
        let target = state.and_then(|state| state.flow.latency_target);
        self.depth.end(now, now.since(ticket.since), target);
    }

    /// Takes out of a flow's queue what `is_gone` says: its host has gone. Returns how many.
    pub fn cancel(&mut self, now: Time, id: FlowId, mut is_gone: impl FnMut(&T) -> bool) -> usize {
        let index = self.index(id);
        let mut gone = 0;
        for lane in 0..2 {
            let queue = &mut self.flows[index as usize].lanes[lane].queue;
            let taken = self.pool.retain(queue, |item| !is_gone(item));
            gone += taken;
            if taken > 0 && queue.is_empty() {
                self.unpark(now, index, lane);
                self.release(now, index, lane);
                self.flows[index as usize].lanes[lane].state = LaneState::Idle;
            }
        }
        self.leave_if_idle(index);
        gone
    }

    /// When something may go that is held by a limit now; to be asked when [`Scheduler::next`] had nothing.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        self.parking.wake_at()
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    /// Requests under way, and how many may be.
    #[must_use]
    pub fn depth(&self) -> (u32, u32) {
        (self.depth.under_way(), self.depth.width())
    }

    fn index(&self, id: FlowId) -> u32 {
        let state = &self.flows[id.index as usize];
        assert!(
            state.is_used && state.generation == id.generation,
            "a flow is used until it is removed"
        );
        id.index
    }

    /// The flow whose turn it is by weight.
    #[inline]
    fn lightest(&self) -> Option<u32> {
        let ready = self.classes.iter().filter(|class| !class.ready.is_empty());
        let class = ready.min_by_key(|class| class.start)?;
        class.ready.peek().map(|(_, index)| index)
    }

    /// The lane of a flow that may go, the older head first. Those that may not are parked.
    #[inline]
    fn admitted(&mut self, now: Time, index: u32) -> Option<usize> {
        let state = &self.flows[index as usize];
        let age = |lane: usize| match state.lanes[lane].state {
            LaneState::Ready => self.pool.sequence(&state.lanes[lane].queue),
            _ => u64::MAX,
        };
        let first = usize::from(age(1) < age(0));
        for lane in [first, 1 - first] {
            if self.flows[index as usize].lanes[lane].state != LaneState::Ready {
                continue;
            }
            match self.hindrance(now, index, lane) {
                None => return Some(lane),
                Some(member) => self.park(now, index, lane, member),
            }
        }
        None
    }

    /// The limit that holds a lane.
    #[inline]
    fn hindrance(&mut self, now: Time, index: u32, lane: usize) -> Option<Member> {
        let mut members = self.flows[index as usize].members.iter().copied();
        members.find(|member| !self.parking.admits(now, member.limiter, lane))
    }

    fn dispatch(&mut self, now: Time, index: u32, lane: usize, is_reserved: bool) -> Dispatch<T> {
        self.release(now, index, lane);
        let (item, cost, came) = self.pool.pop(&mut self.flows[index as usize].lanes[lane].queue);
        let work = self.work(cost);
        let state = &mut self.flows[index as usize];
        let ticket = Ticket {
            flow: FlowId {
                index,
                generation: state.generation,
            },
            since: came.max(state.alone),
            reserved: is_reserved,
            work,
        };
        state.alone = now;
        for (place, member) in state.members.iter().enumerate() {
            if place == 0 || !self.config.faults.has(Fault::ForgetShared) {
                self.parking.charge(now, member.limiter, cost);
            }
        }
        let class = state.flow.class;
        self.turn_to(class);
        self.classes[class as usize].advance(work);
        let state = &mut self.flows[index as usize];
        let counts = is_reserved || self.config.faults.has(Fault::ReserveByWeight);
        state.advance(now, lane, work, counts);
        self.depth.begin();
        if state.lanes[lane].queue.is_empty() {
            state.lanes[lane].state = LaneState::Idle;
        } else if let Some(member) = self.hindrance(now, index, lane) {
            self.park(now, index, lane, member);
        }
        self.stand(index);
        Dispatch { item, ticket }
    }

    /// A lane has something that was not there, or is not held as it was: it is ready, or parked.
    fn settle(&mut self, now: Time, index: u32, lane: usize, owed: Duration) {
        match self.hindrance(now, index, lane) {
            Some(member) => self.park(now, index, lane, member),
            None => {
                self.flows[index as usize].lanes[lane].state = LaneState::Ready;
                self.make_ready(now, index, owed);
            }
        }
    }

    /// A flow has something ready. Whatever of its reservation it was not given is owed so long.
    fn make_ready(&mut self, now: Time, index: u32, owed: Duration) {
        let saves = self.config.faults.has(Fault::IdleSaves);
        let state = &mut self.flows[index as usize];
        let class = &mut self.classes[state.flow.class as usize];
        if !class.ready.contains(index) {
            if !saves {
                state.start = state.start.max(class.turn);
                if class.ready.is_empty() {
                    class.start = class.start.max(self.turn);
                }
            }
            class.ready.set(index, state.start);
        }
        if state.due_step > 0 && !self.due.contains(index) {
            if !saves {
                state.due = state.due.max(fixed(Time(now.0.saturating_sub(owed.as_nanos() as u64))));
            }
            self.due.set(index, state.due);
        }
    }

    /// A flow without anything ready leaves the order.
    fn leave_if_idle(&mut self, index: u32) {
        let state = &self.flows[index as usize];
        if !state.is_ready() {
            self.classes[state.flow.class as usize].ready.remove(index);
            self.due.remove(index);
        }
    }

    fn park(&mut self, now: Time, index: u32, lane: usize, member: Member) {
        self.release(now, index, lane);
        let state = &mut self.flows[index as usize];
        let due = (state.due_step > 0).then_some(state.due);
        state.lanes[lane].state = LaneState::Parked(member);
        self.parking.park(member, lane, &mut state.lanes[lane].turn, due);
        self.leave_if_idle(index);
    }

    /// Takes a parked lane back into the order.
    fn unpark(&mut self, now: Time, index: u32, lane: usize) {
        if let LaneState::Parked(member) = self.flows[index as usize].lanes[lane].state {
            self.parking.take(member, lane);
            self.flows[index as usize].lanes[lane].state = LaneState::Ready;
            self.make_ready(now, index, OWED);
        }
    }

    /// A lane that a limit woke has gone, or cannot go: the limit may wake the next one.
    #[inline]
    fn release(&mut self, now: Time, index: u32, lane: usize) {
        if let Some(limiter) = self.flows[index as usize].lanes[lane].woken_by.take() {
            self.parking.release(now, limiter, lane);
        }
    }

    /// Whoever a limit lets go now.
    #[inline]
    fn wake(&mut self, now: Time) {
        while let Some((index, lane, limiter)) = self.parking.wake(now) {
            let state = &mut self.flows[index as usize];
            state.lanes[lane].state = LaneState::Ready;
            state.lanes[lane].woken_by = Some(limiter);
            state.alone = now;
            self.make_ready(now, index, OWED);
        }
    }
}

fn chain(flow: &Flow, limiters: &[LimiterId]) -> Result<ArrayVec<LimiterId, MAX_LIMITERS>, FlowError> {
    if flow.standing == Standing::Versioned && !limiters.is_empty() {
        return Err(FlowError::LimitedVersion);
    }
    let mut chain = ArrayVec::new();
    for &limiter in limiters {
        if !chain.contains(&limiter) {
            chain.try_push(limiter).map_err(|_| FlowError::TooManyLimiters)?;
        }
    }
    Ok(chain)
}

#[cfg(test)]
mod tests;
