//! The transmission phase: requests in, replies out ("Transmission").
//!
//! The [request engine](amita_frontend::engine) holds the requests and their limits. What is NBD's own:
//!
//! * A *write* is cut into pieces while it arrives, and each goes to the volume as a slice of the receive buffer. When
//!   too much is under way, parsing stops, and so does receiving.
//! * With structured replies, a *read* is answered by one chunk for each piece, in the order in which they come; errors
//!   have chunks of their own.
//! * A simple reply begins with the verdict for the whole of a read. So a read of up to [`GATHER_BYTES`] is gathered
//!   before its reply begins, and an error can always be told. A longer one *streams*: its header leaves with its first
//!   piece, the rest follows in order through a bounded window, and an error in the middle can only end the connection
//!   ("Simple replies": "the server MUST immediately initiate a hard disconnect"). While a stream has the connection,
//!   all other replies wait.
//! * Zeroing, trimming and asking for allocation are cut as well and submitted a few at a time.

mod answer;
mod request;
mod status;
mod stream;

use super::reply::Failure;
use super::wire::{Errno, REQUEST_BYTES, RequestHeader, command, command_flag as flag};
use super::{Cx, Limits, MAX_BLOCK_BYTES};
use crate::handshake::{Agreed, Context};
use amita_frontend::engine::{self, Delivery, Engine, Plan, Protocol, Submission};
use amita_frontend::front::CloseReason;
use amita_frontend::pieces::{Piece, Pieces, clears, has_partial_blocks, pieces, zeroes};
use amita_frontend::service::{FrontId, VolumeInfo};
use amita_frontend::slots::SlotId;
use amita_reactor::{Inbox, Pool, Time};
use amita_types::io::Op;
use request::Kind;
use stream::Streams;

/// The longest read that is gathered before its reply begins, in bytes.
pub const GATHER_BYTES: u32 = 1 << 20;
/// How many clears, writes of zeros or allocation queries of one request are under way at once.
const WINDOW: u32 = 8;

/// What the parser is in the middle of.
enum Input {
    /// A request's header comes next.
    Header,
    /// The payload of a write comes next.
    Payload { slot: SlotId, cursor: Pieces },
    /// The payload of a write that was refused.
    Skip { left: u32 },
    /// Nothing is read any more.
    Ended,
}

/// One connection in the transmission phase.
pub(super) struct Session {
    volume: VolumeInfo,
    structured: bool,
    /// What a request for the status of blocks tells.
    contexts: Vec<Context>,
    input: Input,
    engine: Engine<Session>,
    streams: Streams,
    /// Is input left lying because of the limits?
    blocked: bool,
    /// The volume was closed to hosts: nothing more is begun.
    is_closed: bool,
}

impl Session {
    pub fn new(front: FrontId, pool: Pool, agreed: Agreed, limits: Limits) -> Session {
        let engine_limits = engine::Limits {
            requests: limits.requests,
            read_bytes: limits.read_bytes,
            write_bytes: limits.write_bytes,
            pieces: limits.pieces,
            window: WINDOW,
        };
        Session {
            volume: agreed.volume,
            structured: agreed.structured,
            contexts: agreed.contexts,
            input: Input::Header,
            engine: Engine::new(front, pool, engine_limits),
            streams: Streams::new(limits.stream_bytes),
            blocked: false,
            is_closed: false,
        }
    }

    pub fn volume(&self) -> &VolumeInfo {
        &self.volume
    }

    #[cfg(test)]
    pub fn extent_bytes(&self) -> usize {
        let kept = self.engine.requests().flat_map(|request| &request.own.extents);
        kept.map(|extents| extents.capacity() * size_of::<(u32, u32)>()).sum()
    }

    pub fn wants_input(&self) -> bool {
        !self.blocked && !self.is_closed && !matches!(self.input, Input::Ended)
    }

    /// Has the client said good-bye?
    pub fn has_ended(&self) -> bool {
        matches!(self.input, Input::Ended)
    }

    /// Was the volume closed to hosts?
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Is nothing under way?
    pub fn is_idle(&self) -> bool {
        self.engine.is_empty()
    }

    pub fn deadline(&self) -> Option<Time> {
        self.engine.retry_at()
    }

    /// Starts what waited for room. Called once at the end of a pass.
    pub fn end_pass(&mut self, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        stream::issue(self, cx);
        self.pump(cx)
    }

    /// Handles what is in the inbox, as far as the limits allow.
    pub fn parse(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        self.blocked = false;
        if self.is_closed {
            // Whoever opens it anew is told.
            inbox.skip(inbox.len());
            return self.end_half(cx);
        }
        loop {
            match self.input {
                Input::Ended => {
                    let all = inbox.len();
                    inbox.skip(all);
                    return Ok(());
                }
                Input::Skip { left } => {
                    let now = inbox.len().min(left as usize);
                    inbox.skip(now);
                    let left = left - now as u32;
                    if left > 0 {
                        self.input = Input::Skip { left };
                        return Ok(());
                    }
                    self.input = Input::Header;
                }
                Input::Payload { slot, ref mut cursor } => {
                    let Some(piece) = cursor.peek() else {
                        self.input = Input::Header;
                        continue;
                    };
                    let length = piece.length as usize;
                    let request = self.engine.request(slot);
                    if request.failure.is_some() {
                        // The write has failed already: what follows of it is not wanted.
                        let left = (request.offset + u64::from(request.own.length) - piece.offset) as u32;
                        self.input = Input::Skip { left };
                        self.write_is_in(slot, cx)?;
                        continue;
                    }
                    if !self.engine.may_write(length, cx) {
                        self.blocked = true;
                        return Ok(());
                    }
                    if inbox.len() < length {
                        inbox.need(length);
                        return Ok(());
                    }
                    cursor.next();
                    let last = cursor.is_empty();
                    if last {
                        self.input = Input::Header;
                    }
                    let Piece { offset, length } = piece;
                    let data = inbox.take(length as usize);
                    self.engine.charge(slot, length as usize);
                    self.submit(slot, Submission::with_data(Op::Write { offset, length }, data), cx);
                    if last {
                        self.write_is_in(slot, cx)?;
                    }
                }
                Input::Header => {
                    if self.is_full(cx) {
                        self.blocked = true;
                        return Ok(());
                    }
                    let Some(bytes) = inbox.data().first_chunk::<REQUEST_BYTES>() else {
                        inbox.need(REQUEST_BYTES);
                        return Ok(());
                    };
                    let Some(header) = RequestHeader::parse(bytes) else {
                        return Err(CloseReason::Protocol("a request does not begin with its magic number"));
                    };
                    inbox.skip(REQUEST_BYTES);
                    self.request(header, cx)?;
                }
            }
        }
    }

    /// May no further request be taken? (Replies that the client does not fetch count as well: a client that only
    /// sends would otherwise fill our memory with them.)
    fn is_full(&self, cx: &Cx<'_>) -> bool {
        self.engine.is_full() || cx.queued_bytes() > self.engine.limits().read_bytes
    }

    /// Takes a request ("Request types").
    fn request(&mut self, header: RequestHeader, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        let RequestHeader {
            cookie, offset, length, ..
        } = header;
        if header.command == command::DISC {
            // "The server MUST handle all outstanding requests [...]. There is no reply."
            self.input = Input::Ended;
            return Ok(());
        }
        if let Err(failure) = self.check(&header) {
            if header.command == command::WRITE {
                self.input = Input::Skip { left: length };
            }
            return self.answer(cookie, header.command, Some(failure), cx);
        }
        let chunk_bytes = self.volume.chunk_bytes;
        let cut = || pieces(offset, length.into(), chunk_bytes);
        let (kind, plan, delivery) = match header.command {
            // All that was answered is durable: a flush has nothing to do. Caching is left to those below.
            command::FLUSH | command::CACHE => return self.answer(cookie, header.command, None, cx),
            // "The client SHOULD NOT request a length of 0": nothing is what it gets.
            _ if length == 0 => return self.answer(cookie, header.command, None, cx),
            command::READ if self.structured && header.flags & flag::DF == 0 => {
                (Kind::Chunks, Plan::Read(cut()), Delivery::AnyOrder)
            }
            command::READ if length <= GATHER_BYTES => (Kind::Gather, Plan::ReadWhole(cut()), Delivery::Whole),
            command::READ => (Kind::Stream { cursor: cut() }, Plan::Hold, Delivery::InOrder),
            command::WRITE => (Kind::Verdict, Plan::Hold, Delivery::Verdict),
            command::TRIM => {
                let cursor = clears(offset, length.into(), chunk_bytes);
                (Kind::Verdict, Plan::Clear(cursor), Delivery::Verdict)
            }
            command::WRITE_ZEROES => {
                let holes = header.flags & flag::NO_HOLE == 0;
                let cursor = zeroes(offset, length.into(), chunk_bytes, holes);
                (Kind::Verdict, Plan::Zero(cursor), Delivery::Verdict)
            }
            _ => {
                let status = Kind::Status {
                    one: header.flags & flag::REQ_ONE != 0,
                    next: offset,
                    asks: 0,
                    known: offset,
                    tells: 0,
                    end: status::end(&self.volume, offset, length),
                };
                (status, Plan::Steps, Delivery::InOrder)
            }
        };
        let Some((slot, request)) = self.engine.begin(self.volume.source(), offset, plan, delivery) else {
            // `is_full` was asked before.
            let failure = Failure::new(Errno::Io, "too many requests");
            return self.answer(cookie, header.command, Some(failure), cx);
        };
        request.own.begin(kind, cookie, length);
        match header.command {
            command::WRITE => {
                // It does not end before its payload is in.
                request.owed = 1;
                self.input = Input::Payload { slot, cursor: cut() };
                Ok(())
            }
            _ if matches!(kind, Kind::Stream { .. }) => {
                self.streams.push(slot);
                stream::issue(self, cx);
                Ok(())
            }
            _ => self.start(slot, cx),
        }
    }

    /// Is the request one that may be carried out? ("Request types", "Command flags", "Error values", "Block size
    /// constraints".)
    fn check(&self, header: &RequestHeader) -> Result<(), Failure> {
        let RequestHeader {
            flags, offset, length, ..
        } = *header;
        // "The server MUST accept all commands with [FUA] set."
        let allowed = flag::FUA
            | match header.command {
                command::READ if self.structured => flag::DF,
                command::READ | command::WRITE | command::FLUSH | command::TRIM | command::CACHE => 0,
                command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
                command::BLOCK_STATUS => flag::REQ_ONE,
                _ => return Err(Failure::new(Errno::Inval, "unknown command")),
            };
        if flags & !allowed != 0 {
            return Err(Failure::new(Errno::Inval, "a flag that this command does not have"));
        }
        if header.command == command::FLUSH {
            let reserved = offset == 0 && length == 0;
            return reserved
                .then_some(())
                .ok_or(Failure::new(Errno::Inval, "a flush has no offset and no length"));
        }
        let writes = matches!(header.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        if writes && self.volume.read_only {
            return Err(Failure::new(Errno::Perm, "the export is read-only"));
        }
        // The largest block size bounds what has a payload.
        if matches!(header.command, command::READ | command::WRITE) && length > MAX_BLOCK_BYTES {
            return Err(Failure::new(Errno::Inval, "longer than the maximum block size"));
        }
        if offset
            .checked_add(length.into())
            .is_none_or(|end| end > self.volume.size_bytes)
        {
            let errno = match header.command {
                command::WRITE | command::WRITE_ZEROES => Errno::NoSpc,
                _ => Errno::Inval,
            };
            return Err(Failure::new(errno, "beyond the end of the export"));
        }
        match header.command {
            command::READ if flags & flag::DF != 0 && length > GATHER_BYTES => {
                Err(Failure::new(Errno::Overflow, "too long to be sent unfragmented"))
            }
            command::WRITE_ZEROES if flags & flag::FAST_ZERO != 0 => {
                // Zeros that have to be written, whether all or at an edge, are no faster than a write.
                let slow = flags & flag::NO_HOLE != 0 || has_partial_blocks(offset, length.into());
                (!slow)
                    .then_some(())
                    .ok_or(Failure::new(Errno::NotSup, "zeros would have to be written"))
            }
            command::BLOCK_STATUS if self.contexts.is_empty() => Err(Failure::new(
                Errno::Inval,
                "no metadata context was negotiated for this export",
            )),
            command::BLOCK_STATUS if length == 0 => Err(Failure::new(Errno::Inval, "the status of nothing")),
            _ => Ok(()),
        }
    }

    /// Answers a request that needs no I/O.
    fn answer(
        &mut self,
        cookie: u64,
        command: u16,
        failure: Option<Failure>,
        cx: &mut Cx<'_>,
    ) -> Result<(), CloseReason> {
        if self.streams.is_wire_free() {
            self.verdict(cookie, command == command::READ, failure, cx);
            return Ok(());
        }
        // A stream has the wire. There is a slot: `is_full` was asked before.
        let begun = self
            .engine
            .begin(self.volume.source(), 0, Plan::Hold, Delivery::Verdict);
        let Some((slot, request)) = begun else {
            return Err(CloseReason::Storage("no slot for a reply"));
        };
        request.own.begin(Kind::Verdict, cookie, 0);
        request.failure = failure;
        self.streams.wait(slot);
        Ok(())
    }

    /// Of a write the rest is not waited for.
    fn end_half(&mut self, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        if let Input::Payload { slot, .. } = std::mem::replace(&mut self.input, Input::Ended) {
            let failure = &mut self.engine.request(slot).failure;
            *failure = failure.or(Some(request::CLOSED));
            self.write_is_in(slot, cx)?;
        }
        Ok(())
    }

    /// The last piece of a write is in, or what follows of it is not wanted.
    fn write_is_in(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        let request = self.engine.request(slot);
        request.issued = true;
        request.owed = 0;
        self.finish_if_complete(slot, cx)
    }
}
