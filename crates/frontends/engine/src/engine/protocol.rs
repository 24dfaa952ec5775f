//! What a protocol says, and what the engine does with it.

use super::{Delivery, Engine, Part, PieceState, Request, Submission};
use crate::context::Context;
use crate::slots::SlotId;
use amita_reactor::Pool;
use amita_types::io::{CHANGED_CHUNKS_BYTES, IoError, Op, Payload};
use std::time::Duration;

/// When what waits for room is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// At the end of each pass, each in its turn: one whose window is full waits as well.
    EachPass,
    /// When a piece has ended: its own request goes on, then those that have not begun, the first that does not fit
    /// holding up the others.
    AtOnce,
}

/// What a protocol can do and wants.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// When what waits goes on.
    pub turns: Turns,
    /// How long to wait when the volume was busy; `None`: that is an error like others.
    pub retry_after: Option<Duration>,
    /// Do all pieces count against [`Limits::pieces`](super::Limits::pieces), or only those that move by a window?
    pub counts_all_pieces: bool,
    /// Is nothing written or asked for, while the host leaves more than its reads may hold unfetched?
    pub writes_wait_for_fetch: bool,
}

impl Capabilities {
    /// Those of a connection to a host.
    pub const CONNECTION: Capabilities = Capabilities {
        turns: Turns::EachPass,
        // The volume holds thousands of requests: to wait for some to end is enough.
        retry_after: Some(Duration::from_millis(2)),
        counts_all_pieces: true,
        writes_wait_for_fetch: false,
    };
}

/// How a piece has ended: well, or how not and at which byte of the volume.
pub type Verdict<F> = Result<(), (F, u64)>;

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was submitted, or the plan has changed: go on.
    Again,
    /// There is nothing more to submit, or something else carries the request on.
    Through,
    /// There is no room for the next piece.
    Full,
    /// As many pieces are under way as may be of one request.
    Window,
}

/// Did a piece bring what was asked for? What is shorter or longer would shift all that follows.
#[must_use]
pub fn fits(op: &Op, payload: &Payload) -> bool {
    match (op, payload) {
        (Op::Read { length, .. }, Payload::Data(data)) => data.len() == *length as usize,
        (Op::Read { length, .. }, Payload::Zeros(zeros)) => zeros == length,
        (Op::ChangedChunks { .. }, Payload::Data(data)) => data.len() == CHANGED_CHUNKS_BYTES,
        (Op::Allocation { .. }, Payload::Allocation(_)) | (Op::Differ { .. }, Payload::Differs(_)) => true,
        (Op::Read { .. } | Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. }, _) => false,
        (Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. }, _) => true,
    }
}

/// A protocol on the engine: hooks that it implements, and what it calls (the provided methods, from
/// [`Protocol::submit`] on). See [the module](super).
pub trait Protocol: Sized {
    /// What it can do.
    const CAPABILITIES: Capabilities;

    /// What it keeps with a request.
    type Request: Default;
    /// How a request fails.
    type Failure: Copy;
    /// Why the connection ends.
    type End;
    /// What a step may use.
    type Context<'a>: Context;

    /// The engine that it stands on.
    fn engine(&mut self) -> &mut Engine<Self>;

    /// Judges how a piece has ended; or ends the connection.
    ///
    /// # Errors
    /// The connection is over.
    fn judge(
        own: &Self::Request,
        piece: &PieceState,
        result: Result<(), IoError>,
        payload: &Payload,
    ) -> Result<Verdict<Self::Failure>, Self::End>;

    /// Takes one piece of what was read, or fails to: as [`Delivery`] says.
    ///
    /// # Errors
    /// The connection is over.
    fn deliver(
        &mut self,
        slot: SlotId,
        part: Part<Self::Failure>,
        cx: &mut Self::Context<'_>,
    ) -> Result<(), Self::End> {
        let _ = (slot, part, cx);
        Ok(())
    }

    /// A request has ended: answers it, and [frees](Engine::free) it now or later. Called once for each.
    ///
    /// # Errors
    /// The connection is over.
    fn finish(&mut self, slot: SlotId, cx: &mut Self::Context<'_>) -> Result<(), Self::End>;

    /// The next step of [`Plan::Steps`](super::Plan::Steps), or of a plan of which all is submitted: most have no more.
    fn step(&mut self, slot: SlotId, cx: &mut Self::Context<'_>) -> Step {
        let _ = cx;
        self.engine().request(slot).issued = true;
        Step::Through
    }

    /// A piece has ended well and its request has not failed: true when it goes on as another, which stands in `piece` now.
    fn goes_on(own: &Self::Request, piece: &mut PieceState, payload: &mut Payload, pool: &Pool) -> bool {
        let _ = (own, piece, payload, pool);
        false
    }

    /// A piece has ended, and was delivered if it is to be.
    ///
    /// # Errors
    /// The connection is over.
    fn landed(
        &mut self,
        slot: SlotId,
        verdict: &Verdict<Self::Failure>,
        cx: &mut Self::Context<'_>,
    ) -> Result<(), Self::End> {
        let _ = (slot, verdict, cx);
        Ok(())
    }

    /// Does this failure count, though that one came first?
    fn is_graver(failure: Self::Failure, first: Self::Failure) -> bool {
        let _ = (failure, first);
        false
    }

    /// Pieces that there must be room for before a request begins; it may have them under way then, whatever others have.
    /// 0: it begins when there is room for one.
    fn room_to_begin(request: &Request<Self>) -> usize {
        let _ = request;
        0
    }

    /// Submits a piece.
    fn submit(&mut self, slot: SlotId, submission: Submission, cx: &mut Self::Context<'_>) {
        self.engine().submit(slot, submission, cx.service());
    }

    /// Starts a request, unless others have waited for longer.
    ///
    /// # Errors
    /// The connection is over.
    fn start(&mut self, slot: SlotId, cx: &mut Self::Context<'_>) -> Result<(), Self::End> {
        if !self.engine().waiting.is_empty() || !self.issue(slot, cx) {
            self.engine().wait(slot);
        }
        self.finish_if_complete(slot, cx)
    }

    /// Submits of a request what the limits allow; false when it has to wait for room.
    fn issue(&mut self, slot: SlotId, cx: &mut Self::Context<'_>) -> bool {
        if !self.engine().may_begin(slot) {
            return false;
        }
        loop {
            let step = match self.engine().advance(slot, cx) {
                Some(step) => step,
                None => self.step(slot, cx),
            };
            match step {
                Step::Again => {}
                Step::Through => return true,
                Step::Full => return false,
                // Where requests go on when their pieces end, one with a full window need not wait.
                Step::Window => return Self::CAPABILITIES.turns == Turns::AtOnce,
            }
        }
    }

    /// Starts what waits for room, each in its turn. Called once at the end of a pass.
    ///
    /// # Errors
    /// The connection is over.
    fn pump(&mut self, cx: &mut Self::Context<'_>) -> Result<(), Self::End> {
        for _ in 0..self.engine().waiting.len() {
            let Some(slot) = self.engine().next_waiting() else {
                break;
            };
            if !self.issue(slot, cx) {
                self.engine().wait(slot);
            }
            self.finish_if_complete(slot, cx)?;
        }
        Ok(())
    }

    /// A piece has ended.
    ///
    /// # Errors
    /// The connection is over.
    fn done(
        &mut self,
        tag: u64,
        result: Result<(), IoError>,
        mut payload: Payload,
        cx: &mut Self::Context<'_>,
    ) -> Result<(), Self::End> {
        let engine = self.engine();
        let Some((slot, number)) = engine.slots.find(tag) else {
            return Ok(());
        };
        let request = engine.slots.get_mut(slot);
        let (source, delivery, failed) = (request.source, request.delivery, request.failure.is_some());
        let Some((own, piece)) = request.piece(number) else {
            return Ok(());
        };
        // Of a request that has failed nothing is submitted again: a volume that stays busy would keep it from ever ending.
        if let (Err(IoError::Busy), Some(pause), false) = (result, Self::CAPABILITIES.retry_after, failed) {
            engine.retries.push_back(tag);
            engine.retry_at.get_or_insert(cx.now().plus(pause));
            return Ok(());
        }
        let verdict = Self::judge(own, piece, result, &payload)?;
        if verdict.is_ok() && !failed && Self::goes_on(own, piece, &mut payload, &engine.pool) {
            let (op, data) = (piece.op, piece.sent());
            cx.service().submit(engine.front, tag, source, op, data);
            return Ok(());
        }
        let part = engine.land(slot, number, &verdict, payload);
        if let Some(part) = part {
            self.deliver(slot, part, cx)?;
        }
        if delivery == Delivery::InOrder {
            while let Some(part) = self.engine().next_in_order(slot) {
                self.deliver(slot, part, cx)?;
            }
        }
        self.landed(slot, &verdict, cx)?;
        match Self::CAPABILITIES.turns {
            Turns::EachPass => self.finish_if_complete(slot, cx),
            Turns::AtOnce => self.go_on(slot, cx),
        }
    }

    /// Goes on with a request of which a piece has ended, and then with those that have not begun.
    ///
    /// # Errors
    /// The connection is over.
    fn go_on(&mut self, slot: SlotId, cx: &mut Self::Context<'_>) -> Result<(), Self::End> {
        // What finds no room though nothing of it is under way would be woken by nobody.
        if !self.engine().request(slot).issued && !self.issue(slot, cx) && !self.engine().is_waiting(slot) {
            self.engine().wait(slot);
        }
        self.finish_if_complete(slot, cx)?;
        while let Some(&first) = self.engine().waiting.front() {
            if !self.issue(first, cx) {
                break;
            }
            self.engine().next_waiting();
            self.finish_if_complete(first, cx)?;
        }
        Ok(())
    }

    /// Submits again what the volume was too busy for, if it is time.
    fn retry(&mut self, cx: &mut Self::Context<'_>) {
        let engine = self.engine();
        if engine.retry_at.is_none_or(|at| cx.now() < at) {
            return;
        }
        engine.retry_at = None;
        for _ in 0..engine.retries.len() {
            let Some(tag) = engine.retries.pop_front() else { break };
            let Some((slot, number)) = engine.slots.find(tag) else {
                continue;
            };
            let request = engine.slots.get_mut(slot);
            let source = request.source;
            let Some((_, piece)) = request.piece(number) else {
                continue;
            };
            let (op, data) = (piece.op, piece.sent());
            cx.service().submit(engine.front, tag, source, op, data);
        }
    }

    /// Ends a request of which nothing is missing.
    ///
    /// # Errors
    /// The connection is over.
    fn finish_if_complete(&mut self, slot: SlotId, cx: &mut Self::Context<'_>) -> Result<(), Self::End> {
        let engine = self.engine();
        let Some(request) = engine.slots.busy_mut(slot) else {
            return Ok(());
        };
        // What has failed starts nothing more; but what the host owes must come before its request may end.
        request.issued |= request.failure.is_some();
        if !request.is_complete() {
            return Ok(());
        }
        engine.stop_waiting(slot);
        self.finish(slot, cx)
    }
}
