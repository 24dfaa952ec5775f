//! What a scheduler knows of a flow and of a class.

use super::OWED;
use super::parking::{LimiterId, Member, Members};
use super::queue::Queue;
use crate::heap::Heap;
use crate::tracker::Elsewhere;
use amita_reactor::Time;
use std::num::NonZeroU16;
use std::time::Duration;

/// Tags have so many bits behind the point: with weights and rates of 16 and 50 bits a step is off by a millionth.
const FRACTION: u32 = 32;
/// What another server did since the last request cannot be more; a count from outside is not believed beyond it.
const MOST_ELSEWHERE: u64 = 1 << 40;

/// A moment as a tag: nanoseconds, with a fraction.
pub(super) fn fixed(now: Time) -> u128 {
    u128::from(now.0) << FRACTION
}

/// Why something is done. The weights of classes are among themselves, whatever the number of their flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Hosts.
    Client,
    /// Copies that are lacking.
    Recovery,
    /// Moves of volumes and of data between stores and pools.
    Move,
    /// Backup, and replication to another cluster.
    Backup,
    /// Copies are compared.
    Scrub,
    /// What snapshots and volumes left behind.
    Trim,
}

impl Class {
    /// All, as the settings have them.
    pub const ALL: [Class; 6] = [
        Class::Client,
        Class::Recovery,
        Class::Move,
        Class::Backup,
        Class::Scrub,
        Class::Trim,
    ];

    /// What it is called in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Client => "client",
            Class::Recovery => "recovery",
            Class::Move => "move",
            Class::Backup => "backup",
            Class::Scrub => "scrub",
            Class::Trim => "trim",
        }
    }

    /// The default: with everything at work at once clients have 64 of 85, a rebuild 12.
    #[must_use]
    pub const fn weight(self) -> NonZeroU16 {
        let weight = match self {
            Class::Client => 64,
            Class::Recovery => 12,
            Class::Move | Class::Backup => 3,
            Class::Scrub => 2,
            Class::Trim => 1,
        };
        NonZeroU16::MIN.saturating_add(weight - 1)
    }
}

/// May what a flow brings wait for tokens?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has no version yet, and waits where its host is, or at its source.
    Free,
    /// It has a version, or others wait for it who have: it is only put in an order (S16).
    Versioned,
}

/// The settings of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Why.
    pub class: Class,
    /// Among the flows of its class.
    pub weight: NonZeroU16,
    /// Work a second that it gets whatever others want; zero: none.
    pub reservation: u64,
    /// What others may cost 99 of 100 of its requests; see [`crate::DepthLimits`].
    pub latency_target: Option<Duration>,
    /// May it wait for tokens?
    pub standing: Standing,
}

impl Flow {
    /// Without reservation and target, of weight 1.
    #[must_use]
    pub fn new(class: Class, standing: Standing) -> Flow {
        Flow {
            class,
            weight: NonZeroU16::MIN,
            reservation: 0,
            latency_target: None,
            standing,
        }
    }
}

/// A flow of one scheduler; never another's, until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneState {
    /// It is empty.
    Idle,
    /// In the order.
    Ready,
    /// Held by that limit.
    Parked(Member),
}

/// A lane's turn at the limit where it was parked last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    pub(super) at: Option<LimiterId>,
    pub(super) tag: u128,
}

/// The reads, or the writes, of a flow.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) queue: Queue,
    pub(super) state: LaneState,
    /// The limit that woke it, and wakes nobody else before it has gone.
    pub(super) woken_by: Option<LimiterId>,
    pub(super) turn: Turn,
}

impl Lane {
    fn new() -> Lane {
        Lane {
            queue: Queue::default(),
            state: LaneState::Idle,
            woken_by: None,
            turn: Turn::default(),
        }
    }
}

#[derive(Debug)]
pub(super) struct FlowState {
    pub(super) flow: Flow,
    pub(super) is_used: bool,
    pub(super) generation: u32,
    pub(super) members: Members,
    pub(super) lanes: [Lane; 2],
    /// The start tag of what goes next, and what a unit of work adds.
    pub(super) start: u128,
    step: u64,
    /// When what is reserved is due next, and what a unit of work adds; zero: nothing is reserved.
    pub(super) due: u128,
    pub(super) due_step: u64,
    /// What others have done and is not counted yet.
    elsewhere: Elsewhere,
    /// From then on nothing of its own was before the next one.
    pub(super) alone: Time,
}

impl FlowState {
    pub(super) fn unused() -> FlowState {
        let mut state = FlowState::new(Flow::new(Class::Client, Standing::Free), Members::new(), 0);
        state.is_used = false;
        state
    }

    pub(super) fn new(flow: Flow, members: Members, generation: u32) -> FlowState {
        let mut state = FlowState {
            flow,
            is_used: true,
            generation,
            members: Members::new(),
            lanes: [Lane::new(), Lane::new()],
            start: 0,
            step: 0,
            due: 0,
            due_step: 0,
            elsewhere: Elsewhere::default(),
            alone: Time(0),
        };
        state.set(flow, members);
        state
    }

    pub(super) fn set(&mut self, flow: Flow, members: Members) {
        self.flow = flow;
        self.members = members;
        self.step = step(flow.weight);
        let second = 1_000_000_000_u64 << FRACTION;
        // A reservation too large for its step is as good as the largest.
        self.due_step = second.checked_div(flow.reservation).map_or(0, |step| step.max(1));
    }

    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.lanes.iter().any(|lane| lane.state == LaneState::Ready)
    }

    #[inline]
    pub(super) fn hear(&mut self, elsewhere: Elsewhere) {
        let add = |sum: u64, more: u64| sum.saturating_add(more).min(MOST_ELSEWHERE);
        self.elsewhere.served = add(self.elsewhere.served, elsewhere.served);
        self.elsewhere.reserved = add(self.elsewhere.reserved, elsewhere.reserved);
    }

    /// So much work of it goes; it `counts` as reserved or not.
    #[inline]
    pub(super) fn advance(&mut self, now: Time, lane: usize, work: u64, counts: bool) {
        let Elsewhere { served, reserved } = std::mem::take(&mut self.elsewhere);
        let all = u128::from(work) + u128::from(served);
        self.start += all * u128::from(self.step);
        self.lanes[lane].turn.tag += u128::from(work) * u128::from(self.step);
        if self.due_step > 0 {
            let own = if counts { u128::from(work) } else { 0 };
            let due = self.due + (own + u128::from(reserved)) * u128::from(self.due_step);
            let owed = Time(now.0.saturating_sub(OWED.as_nanos() as u64));
            self.due = due.max(fixed(owed));
        }
    }
}

/// A class: its flows that have something ready, by their start tags.
#[derive(Debug)]
pub(super) struct ClassState {
    pub(super) ready: Heap,
    pub(super) start: u128,
    step: u64,
    /// The start tag of the flow whose turn it was last.
    pub(super) turn: u128,
}

impl ClassState {
    pub(super) fn new(weight: NonZeroU16) -> ClassState {
        ClassState {
            ready: Heap::default(),
            start: 0,
            step: step(weight),
            turn: 0,
        }
    }

    /// So much work of it goes.
    #[inline]
    pub(super) fn advance(&mut self, work: u64) {
        self.start += u128::from(work) * u128::from(self.step);
    }
}

fn step(weight: NonZeroU16) -> u64 {
    (1 << FRACTION) / u64::from(weight.get())
}
