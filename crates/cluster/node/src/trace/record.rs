//! What is known of one traced, or slow, I/O.

use super::Ended;
use super::stages::Stage;
use amita_reactor::Time;
use amita_types::io::{IoError, Op};
use amita_types::message::MAX_MEMBERS;
use amita_types::trace::StoreTrace;
use amita_types::{StoreId, TraceId, VolumeId};
use arrayvec::ArrayVec;
use std::time::Duration;

/// One I/O: when it passed which step. The beginning of time stands for a step that is not known: a slow I/O that was not
/// traced lacks some. Moments are of the process's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// [`TraceId::NONE`]: it was not traced, and is here because it was slow.
    pub id: TraceId,
    /// Its place among those that its core has kept, from 1 on; 0 while it is under way.
    pub number: u64,
    /// It took longer than the limit of its time.
    pub is_slow: bool,
    pub volume: VolumeId,
    pub op: Op,
    /// Why it failed, if it did.
    pub error: Option<IoError>,
    /// Its last byte had come in from the host.
    pub arrived: Time,
    /// The front had parsed it.
    pub parsed: Time,
    /// The core that sequences it had it.
    pub queued: Time,
    /// The sequencer had given it its version, and handed its requests out.
    pub sequenced: Time,
    /// The last answer that it needed came.
    pub answered: Time,
    /// The sequencer ended it: all that had to come before it had ended.
    pub done: Time,
    /// Its host was told.
    pub acknowledged: Time,
    /// Who gave the last answer.
    pub last: Option<StoreId>,
    /// Who never answered, and was evicted.
    pub missed: Option<StoreId>,
    /// What was sent to which store.
    pub legs: ArrayVec<Leg, MAX_MEMBERS>,
}

/// A request of a traced I/O to one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    pub store: StoreId,
    /// The request left the sequencer.
    pub sent: Time,
    /// It was handed over to be sent; or was with the store, where that is in this process.
    pub left: Time,
    /// The answer had come in.
    pub answered: Time,
    /// What the store says.
    pub stages: Option<StoreTrace>,
}

impl Leg {
    /// How long it took from here to there and back, the store's own share taken off: on the network, in sockets and in
    /// other cores' queues.
    #[must_use]
    pub fn way(&self) -> Duration {
        let store = self.stages.map_or(0, |stages| stages.answered_ns);
        self.answered
            .since(self.left)
            .saturating_sub(Duration::from_nanos(store.into()))
    }
}

impl Trace {
    pub(super) fn new(volume: VolumeId, op: Op) -> Trace {
        Trace {
            id: TraceId::NONE,
            number: 0,
            is_slow: false,
            volume,
            op,
            error: None,
            arrived: Time(0),
            parsed: Time(0),
            queued: Time(0),
            sequenced: Time(0),
            answered: Time(0),
            done: Time(0),
            acknowledged: Time(0),
            last: None,
            missed: None,
            legs: ArrayVec::new(),
        }
    }

    pub(super) fn send(&mut self, now: Time, store: StoreId, local: bool) {
        if self.sequenced == Time(0) {
            self.sequenced = now;
        }
        // A request that is sent again goes on where the first one was.
        if self.legs.iter().any(|leg| leg.store == store) {
            return;
        }
        let leg = Leg {
            store,
            sent: now,
            left: if local { now } else { Time(0) },
            answered: Time(0),
            stages: None,
        };
        // A group has no more members than there is room; one that has changed meanwhile may, and the rest is not told.
        let _ = self.legs.try_push(leg);
    }

    pub(super) fn left(&mut self, now: Time) {
        for leg in &mut self.legs {
            if leg.left == Time(0) {
                leg.left = now;
            }
        }
    }

    pub(super) fn answer(&mut self, now: Time, store: StoreId, stages: &StoreTrace) {
        let leg = self.legs.iter_mut().find(|leg| leg.store == store);
        if let Some(leg) = leg.filter(|leg| leg.answered == Time(0)) {
            leg.answered = now;
            leg.stages = Some(*stages);
        }
    }

    pub(super) fn end(&mut self, now: Time, io: &Ended<'_>) {
        if self.sequenced == Time(0) {
            self.sequenced = io.course.sent;
        }
        self.answered = io.course.answered;
        self.last = io.course.last;
        self.missed = io.course.missed;
        self.error = io.error;
        self.done = now;
    }

    /// From the last byte that came in to the answer.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.acknowledged.since(self.arrived)
    }

    /// The stages, one after the other, with how long each took: together the total. A stage whose end is not known is part
    /// of the next one.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, Duration)> {
        let left = match self.last_leg() {
            Some(leg) => leg.left,
            None => self.sequenced,
        };
        let ends = [
            (Stage::Parse, self.parsed),
            (Stage::Hop, self.queued),
            (Stage::Sequence, self.sequenced),
            (Stage::Send, left),
            (Stage::Stores, self.answered),
            (Stage::Order, self.done),
            (Stage::Acknowledge, self.acknowledged),
        ];
        let mut from = self.arrived;
        let most = self.acknowledged;
        ends.into_iter().map(move |(stage, end)| {
            let end = end.min(most);
            let took = end.since(from);
            from = from.max(end);
            (stage, took)
        })
    }

    /// The request whose answer came last.
    #[must_use]
    pub fn last_leg(&self) -> Option<&Leg> {
        self.legs.iter().find(|leg| Some(leg.store) == self.last)
    }
}
