//! The request engine: the requests of one connection, from the moment they are parsed until they are answered.
//!
//! A request takes a slot. It is cut into pieces that the volume takes at once; each carries its slot in its tag. What is
//! read, what is written and how many pieces are under way is counted, so that a connection never holds more memory than
//! its [`Limits`] say, whatever the host asks for and however slowly it takes the answers. What there is no room for
//! waits; what the volume was too busy for is tried again after a pause. When the last piece has ended, the request does.
//!
//! None of this knows a protocol. A front end is three things on top of it:
//!
//! 1. **It parses.** A frame that is a request becomes [`Engine::begin`], with a [`Plan`] (what is to be submitted) and a
//!    [`Delivery`] (what becomes of what was read), and [`Protocol::start`]. Data that comes in goes to the volume by
//!    [`Protocol::submit`]; a parser asks [`Engine::may_write`] or [`Engine::is_full`] first, and leaves its input lying
//!    when the answer is no.
//! 2. **It answers.** [`Protocol::deliver`] is given what was read, [`Protocol::finish`] requests that have ended.
//! 3. **It names its [`Capabilities`]**, and implements those hooks of [`Protocol`] of which it needs more than the default.
//!
//! What is peculiar to a protocol stays with it, in hooks: NVMe's R2Ts and copies and NBD's block status are
//! [`Plan::Steps`] whose pieces [`Protocol::step`] makes up; of a fused pair the one waits for the other, its steps are
//! through until then; a compare is a read whose data is judged ([`Protocol::judge`]).
//!
//! For the protocols to come that gives:
//!
//! * **iSCSI**: SCSI READ is [`Plan::Read`] by [`Delivery::InOrder`], a Data-In PDU a piece; WRITE is [`Plan::Steps`], where
//!   a step sends an R2T and adds to [`Request::owed`]; one whose data is all immediate or unsolicited is charged as
//!   [unasked](Engine::may_take_unasked) (one that has both would need a charge for each: a request has one); UNMAP is
//!   [`Plan::Clear`], with its further ranges by [`Protocol::step`]; WRITE SAME of zeros [`Plan::Zero`]; ABORT TASK is
//!   [`Request::fail`]: what is under way lands first, and nothing is answered. `Context` is the connection's
//!   [`Cx`](crate::Cx).
//! * **vhost-user**: a descriptor chain is a request with its data at hand: [`Plan::Write`] and [`Plan::ReadWhole`] by
//!   [`Delivery::Whole`], which `finish` copies into the guest's buffers before it puts the chain on the used ring. No
//!   outbox: its context says that nothing is queued.
//! * **ublk**: the same with the driver's tags in the request's own part; `finish` commits the result. The kernel never
//!   has more under way than the queue has tags, so that `begin` always finds a slot.

mod protocol;
mod request;
#[cfg(test)]
mod tests;

pub use protocol::{Capabilities, Protocol, Step, Turns, Verdict, fits};
pub use request::{Charge, Delivery, Part, PieceState, Plan, Request, Submission};

use crate::context::Context;
use crate::pieces::{Piece, ZeroStep, Zeroes};
use crate::service::{FrontId, Source, StorageService};
use crate::slots::{SlotId, Slots};
use amita_reactor::{Pool, Slice, Time};
use amita_types::io::{Op, Payload};
use std::collections::VecDeque;

/// What one connection may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests: at most [`MAX_SLOTS`](crate::slots::MAX_SLOTS).
    pub requests: usize,
    /// Bytes read from the volume, or being read, that the host has not fetched.
    pub read_bytes: usize,
    /// Bytes being written; and as much again of what came unasked, where that is counted apart.
    pub write_bytes: usize,
    /// Pieces under way, of those that [are counted](Capabilities::counts_all_pieces). They hold up requests that move by
    /// a window, and the beginning of what needs room for [several](Protocol::room_to_begin); reads and writes are held up
    /// by their bytes.
    pub pieces: usize,
    /// Pieces of one request that clears, writes zeros, or steps.
    pub window: u32,
}

/// What is under way, against the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of reads under way or held.
    pub reading: usize,
    /// Bytes of writes under way, or asked for.
    pub writing: usize,
    /// The same of what came unasked.
    pub unasked: usize,
    /// Pieces under way, of those that are limited in number.
    pub pieces: usize,
}

/// The requests of one connection.
pub struct Engine<P: Protocol> {
    front: FrontId,
    /// What zeros are made of.
    pool: Pool,
    limits: Limits,
    usage: Usage,
    slots: Slots<Request<P>>,
    /// Requests that wait for room.
    waiting: VecDeque<SlotId>,
    /// Pieces that the volume was too busy for.
    retries: VecDeque<u64>,
    /// When to try them again.
    retry_at: Option<Time>,
}

impl<P: Protocol> Engine<P> {
    /// No request is under way.
    ///
    /// # Panics
    /// When more requests are allowed than there are slots: settings are checked when they are read.
    #[must_use]
    pub fn new(front: FrontId, pool: Pool, limits: Limits) -> Engine<P> {
        Engine {
            front,
            pool,
            limits,
            usage: Usage::default(),
            slots: Slots::new(limits.requests),
            waiting: VecDeque::new(),
            retries: VecDeque::new(),
            retry_at: None,
        }
    }

    /// The connection.
    #[must_use]
    pub fn front(&self) -> FrontId {
        self.front
    }

    /// What zeros are made of.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What it may hold.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What it holds.
    #[must_use]
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Requests under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Is none under way?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Can no further one begin?
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    /// When [`Protocol::retry`] wants to be called.
    #[must_use]
    pub fn retry_at(&self) -> Option<Time> {
        self.retry_at
    }

    /// Gives a request a slot. Its own part is what the last request there has left. `None`: all slots are taken.
    pub fn begin(
        &mut self,
        source: impl Into<Source>,
        offset: u64,
        plan: Plan,
        delivery: Delivery,
    ) -> Option<(SlotId, &mut Request<P>)> {
        let (slot, request) = self.slots.take()?;
        request.begin(source.into(), offset, plan, delivery);
        Some((slot, request))
    }

    /// A request under way.
    ///
    /// # Panics
    /// When the slot is free.
    pub fn request(&mut self, slot: SlotId) -> &mut Request<P> {
        self.slots.get_mut(slot)
    }

    /// All slots' requests, also those that have ended: for what they hold of memory.
    pub fn requests(&self) -> impl Iterator<Item = &Request<P>> {
        self.slots.values()
    }

    /// A request that may have ended.
    pub fn busy(&mut self, slot: SlotId) -> Option<&mut Request<P>> {
        self.slots.busy_mut(slot)
    }

    /// A name for a request by which its answer is found, beside those of its pieces.
    #[must_use]
    pub fn tag(&self, slot: SlotId) -> u64 {
        self.slots.tag(slot, 0)
    }

    /// The request that a tag names, if it is under way.
    #[must_use]
    pub fn find(&self, tag: u64) -> Option<SlotId> {
        self.slots.find(tag).map(|(slot, _)| slot)
    }

    /// The first request of such a kind.
    pub fn position(&self, is_meant: impl Fn(&Request<P>) -> bool) -> Option<SlotId> {
        self.slots.position(is_meant)
    }

    /// The least of what `key` gives for the requests under way.
    pub fn oldest<K: Ord>(&self, key: impl Fn(&Request<P>) -> K) -> Option<K> {
        self.slots.oldest(key)
    }

    /// Ends a request: gives back all that it was charged for. Answers to pieces that are still under way find nothing;
    /// but they are still carried out and hold their memory, which nobody counts from then on. So it is for requests with
    /// nothing under way, or whose connection ends.
    pub fn free(&mut self, slot: SlotId) {
        self.stop_waiting(slot);
        let request = self.slots.get_mut(slot);
        request.data = Slice::default();
        let mut pieces = std::mem::take(&mut request.pieces);
        for mut piece in pieces.drain(..) {
            self.settle(slot, &mut piece);
            self.usage.pieces -= usize::from(!piece.done && piece.counted);
        }
        self.usage.reading -= std::mem::take(&mut self.slots.get_mut(slot).answer);
        let all = self.slots.get_mut(slot).charged;
        self.release(slot, all);
        self.slots.get_mut(slot).pieces = pieces;
        self.slots.free(slot);
    }

    /// Fails such requests: nothing more of them is submitted, not again either, and nothing more of what was read is handed out. What
    /// is under way lands first. They are returned, to be [finished](Protocol::finish_if_complete). Not for what is delivered
    /// [in any order](Delivery::AnyOrder).
    pub fn withdraw(&mut self, is_meant: impl Fn(&Request<P>) -> bool, failure: P::Failure) -> Vec<SlotId> {
        let found = self.slots.all(is_meant);
        for &slot in &found {
            self.slots.get_mut(slot).fail(failure, None);
        }
        for tag in std::mem::take(&mut self.retries) {
            match self.slots.find(tag) {
                Some((slot, number)) if found.contains(&slot) => {
                    let offset = self.slots.get_mut(slot).offset;
                    self.land(slot, number, &Err((failure, offset)), Payload::None);
                }
                Some(_) => self.retries.push_back(tag),
                None => {}
            }
        }
        found
    }

    /// Has a request wait for room, behind all others.
    ///
    /// # Panics
    /// When it waits already.
    pub fn wait(&mut self, slot: SlotId) {
        let waits = &mut self.slots.get_mut(slot).waits;
        assert!(!std::mem::replace(waits, true), "a request waits once");
        self.waiting.push_back(slot);
    }

    pub fn is_waiting(&mut self, slot: SlotId) -> bool {
        self.slots.get_mut(slot).waits
    }

    /// Requests that wait for room.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The request that has waited longest, which waits no more.
    fn next_waiting(&mut self) -> Option<SlotId> {
        let slot = self.waiting.pop_front()?;
        self.slots.get_mut(slot).waits = false;
        Some(slot)
    }

    fn stop_waiting(&mut self, slot: SlotId) {
        if std::mem::take(&mut self.slots.get_mut(slot).waits) {
            self.waiting.retain(|waiting| *waiting != slot);
        }
    }

    /// May that many bytes more be read? What the host does not fetch counts.
    pub fn may_read(&self, bytes: usize, cx: &P::Context<'_>) -> bool {
        let used = self.usage.reading + cx.queued_bytes();
        used == 0 || used + bytes <= self.limits.read_bytes
    }

    /// May that many bytes more be written, or be asked for?
    pub fn may_write(&self, bytes: usize, cx: &P::Context<'_>) -> bool {
        let fits = self.usage.writing == 0 || self.usage.writing + bytes <= self.limits.write_bytes;
        fits && (!P::CAPABILITIES.writes_wait_for_fetch || cx.queued_bytes() <= self.limits.read_bytes)
    }

    /// May that many bytes be taken that came with their request? They have a budget of their own where a host may send
    /// them whenever it likes: what was asked for must find the room that it was promised.
    #[must_use]
    pub fn may_take_unasked(&self, bytes: usize) -> bool {
        self.usage.unasked == 0 || bytes == 0 || self.usage.unasked + bytes <= self.limits.write_bytes
    }

    /// What keeps a request that moves by a window from submitting another piece; `None`: it may.
    pub fn lacks_room_to_step(&mut self, slot: SlotId) -> Option<Step> {
        if !self.may_add_piece(slot) {
            return Some(Step::Full);
        }
        (self.slots.get_mut(slot).under_way >= self.limits.window).then_some(Step::Window)
    }

    fn may_add_piece(&mut self, slot: SlotId) -> bool {
        // What needs room to begin has it from then on.
        P::room_to_begin(self.slots.get_mut(slot)) > 0 || self.usage.pieces < self.limits.pieces
    }

    fn may_begin(&mut self, slot: SlotId) -> bool {
        let request = self.slots.get_mut(slot);
        if request.begun {
            return true;
        }
        let room = P::room_to_begin(request);
        room == 0 || self.usage.pieces + room <= self.limits.pieces
    }

    /// Charges a request for bytes that it writes, or that are asked for.
    pub fn charge(&mut self, slot: SlotId, bytes: usize) {
        let request = self.slots.get_mut(slot);
        request.charged += bytes;
        match request.unasked {
            true => self.usage.unasked += bytes,
            false => self.usage.writing += bytes,
        }
    }

    /// Charges a request, until it ends, for an answer of so many bytes that is not made of pieces that were read.
    pub fn charge_answer(&mut self, slot: SlotId, bytes: usize) {
        self.slots.get_mut(slot).answer += bytes;
        self.usage.reading += bytes;
    }

    /// Gives back bytes that a request was charged for.
    pub fn release(&mut self, slot: SlotId, bytes: usize) {
        let request = self.slots.get_mut(slot);
        let bytes = bytes.min(request.charged);
        request.charged -= bytes;
        match request.unasked {
            true => self.usage.unasked -= bytes,
            false => self.usage.writing -= bytes,
        }
    }

    /// Gives back what a piece is charged for.
    fn settle(&mut self, slot: SlotId, piece: &mut PieceState) {
        self.settle_charge(slot, std::mem::take(&mut piece.charge), piece.op.length() as usize);
    }

    fn settle_charge(&mut self, slot: SlotId, charge: Charge, bytes: usize) {
        match charge {
            Charge::None => {}
            Charge::Read => self.usage.reading -= bytes,
            Charge::Write => self.release(slot, bytes),
        }
    }

    /// Submits a piece. What it writes was [charged](Engine::charge) before; what it reads is from now on.
    pub fn submit(&mut self, slot: SlotId, submission: Submission, service: &mut dyn StorageService) {
        if submission.charge == Charge::Read {
            self.usage.reading += submission.op.length() as usize;
        }
        let request = self.slots.get_mut(slot);
        let counted = P::CAPABILITIES.counts_all_pieces || request.plan.is_windowed();
        self.usage.pieces += usize::from(counted);
        let mut piece = PieceState::new(submission, counted);
        let data = match P::CAPABILITIES.retry_after {
            None if piece.op.is_write() => std::mem::take(&mut piece.data),
            _ => piece.sent(),
        };
        let (op, source) = (piece.op, request.source);
        let number = request.add(piece);
        let tag = self.slots.tag(slot, number);
        service.submit(self.front, tag, source, op, data);
    }

    fn submit_read(&mut self, slot: SlotId, Piece { offset, length }: Piece, cx: &mut P::Context<'_>) {
        let submission = Submission {
            charge: Charge::Read,
            ..Submission::of(Op::Read { offset, length })
        };
        self.submit(slot, submission, cx.service());
    }

    fn submit_clear(&mut self, slot: SlotId, Piece { offset, length }: Piece, cx: &mut P::Context<'_>) {
        let length = u64::from(length);
        self.submit(slot, Submission::of(Op::Clear { offset, length }), cx.service());
    }

    /// Takes the next step of a request's plan; `None`: [`Protocol::step`] has to say what it is.
    fn advance(&mut self, slot: SlotId, cx: &mut P::Context<'_>) -> Option<Step> {
        let request = self.slots.get_mut(slot);
        if request.failure.is_some() || request.issued {
            request.issued = true;
            return Some(Step::Through);
        }
        match request.plan {
            Plan::Hold => Some(Step::Through),
            Plan::Steps => None,
            Plan::Read(mut cursor) => {
                let piece = cursor.next()?;
                if !self.may_read(piece.length as usize, cx) {
                    return Some(Step::Full);
                }
                self.slots.get_mut(slot).plan = Plan::Read(cursor);
                self.submit_read(slot, piece, cx);
                Some(Step::Again)
            }
            Plan::ReadWhole(mut cursor) => {
                if cursor.is_empty() {
                    return None;
                }
                if !self.may_read(cursor.left_bytes() as usize, cx) {
                    return Some(Step::Full);
                }
                for piece in cursor.by_ref() {
                    self.submit_read(slot, piece, cx);
                }
                self.slots.get_mut(slot).plan = Plan::ReadWhole(cursor);
                Some(Step::Again)
            }
            Plan::Write(mut cursor) => {
                let Piece { offset, length } = cursor.next()?;
                request.plan = Plan::Write(cursor);
                let data = request.data_of(offset, length);
                let submission = Submission::with_data(Op::Write { offset, length }, data);
                self.submit(slot, submission, cx.service());
                Some(Step::Again)
            }
            Plan::Zero(mut cursor) => {
                let step = cursor.next()?;
                Some(self.advance_zero(slot, step, cursor, cx))
            }
            Plan::Clear(mut cursor) => {
                let piece = cursor.next()?;
                if let Some(lack) = self.lacks_room_to_step(slot) {
                    return Some(lack);
                }
                self.slots.get_mut(slot).plan = Plan::Clear(cursor);
                self.submit_clear(slot, piece, cx);
                Some(Step::Again)
            }
        }
    }

    /// Writes zeros or clears blocks; `rest` is what is left to do after that.
    fn advance_zero(&mut self, slot: SlotId, step: ZeroStep, rest: Zeroes, cx: &mut P::Context<'_>) -> Step {
        if let Some(lack) = self.lacks_room_to_step(slot) {
            return lack;
        }
        // Zeros are shared and take no memory here, but they load the stores like any write.
        let bytes = match step {
            ZeroStep::Clear(_) => 0,
            ZeroStep::Write(piece) => piece.length as usize,
        };
        let asks = bytes > 0 || P::CAPABILITIES.writes_wait_for_fetch;
        if asks && !self.may_write(bytes, cx) {
            return Step::Full;
        }
        self.slots.get_mut(slot).plan = Plan::Zero(rest);
        match step {
            ZeroStep::Clear(piece) => self.submit_clear(slot, piece, cx),
            ZeroStep::Write(Piece { offset, length }) => {
                self.charge(slot, bytes);
                let zeros = self.pool.zeros(bytes);
                let submission = Submission::with_data(Op::Write { offset, length }, zeros);
                self.submit(slot, submission, cx.service());
            }
        }
        Step::Again
    }

    /// Notes how a piece has ended; what of it is to be delivered at once.
    fn land(
        &mut self,
        slot: SlotId,
        number: u32,
        verdict: &Verdict<P::Failure>,
        payload: Payload,
    ) -> Option<Part<P::Failure>> {
        let request = self.slots.get_mut(slot);
        let delivery = request.delivery;
        let (_, piece) = request.piece(number)?;
        piece.done = true;
        piece.data = Slice::default();
        let (op, bytes) = (piece.op, piece.op.length() as usize);
        self.usage.pieces -= usize::from(piece.counted);
        // What is kept stays charged as long as it is.
        let keeps = matches!(delivery, Delivery::Whole | Delivery::InOrder);
        let charge = match keeps && piece.charge == Charge::Read {
            true => Charge::None,
            false => std::mem::take(&mut piece.charge),
        };
        let mut handed = None;
        match (delivery, verdict) {
            (Delivery::Whole | Delivery::InOrder, Ok(())) => piece.payload = payload,
            (Delivery::AnyOrder, Ok(())) => handed = Some((Ok(()), payload)),
            (Delivery::AnyOrder, Err((failure, _))) => handed = Some((Err(*failure), Payload::None)),
            _ => {}
        }
        request.under_way -= 1;
        if let Err((failure, at)) = *verdict {
            request.fail(failure, Some(at));
        }
        if !keeps {
            while request.pop_done().is_some() {}
        }
        // After a failure what is not submitted yet never will be.
        request.issued |= request.failure.is_some() && delivery == Delivery::AnyOrder;
        let last = request.is_complete();
        self.settle_charge(slot, charge, bytes);
        let (verdict, payload) = handed?;
        Some(Part {
            op,
            verdict,
            payload,
            last,
        })
    }

    /// The next part of a request whose parts leave in order.
    fn next_in_order(&mut self, slot: SlotId) -> Option<Part<P::Failure>> {
        loop {
            let request = self.slots.get_mut(slot);
            let mut piece = request.pop_done()?;
            let failed = request.failure.is_some();
            let last = request.is_complete() && request.pieces.is_empty();
            self.settle(slot, &mut piece);
            if !failed {
                return Some(Part {
                    op: piece.op,
                    verdict: Ok(()),
                    payload: piece.payload,
                    last,
                });
            }
        }
    }

    /// Takes the next part of a request whose parts are kept, in order; `None`: there is none left.
    pub fn take_part(&mut self, slot: SlotId) -> Option<Payload> {
        let mut piece = self.slots.get_mut(slot).pop_done()?;
        self.settle(slot, &mut piece);
        Some(piece.payload)
    }

    /// How many parts are kept of a request.
    pub fn parts(&mut self, slot: SlotId) -> usize {
        self.slots.get_mut(slot).pieces.len()
    }
}
