//! A client on the request engine: there is no host to be answered, but a caller who takes what has ended.

use super::{MOST_AT_ONCE, Session, WINDOW};
use crate::payload::{Done, Payload};
use amita_frontend::engine::{Capabilities, Delivery, Engine, PieceState, Protocol, Request, Turns, Verdict, fits};
use amita_frontend::slots::SlotId;
use amita_frontend::{Context, StorageService};
use amita_reactor::{Slice, Time};
use amita_types::io::{Differs, IoError, Payload as Found};
use std::convert::Infallible;

/// What a step of the session may use.
pub(crate) struct Asks<'a>(pub &'a mut dyn StorageService);

impl Context for Asks<'_> {
    fn now(&self) -> Time {
        // Nothing waits for a time: pieces are not tried again.
        Time::default()
    }

    fn service(&mut self) -> &mut dyn StorageService {
        &mut *self.0
    }

    fn queued_bytes(&self) -> usize {
        0
    }
}

impl Protocol for Session {
    const CAPABILITIES: Capabilities = Capabilities {
        turns: Turns::AtOnce,
        retry_after: None,
        counts_all_pieces: true,
        writes_wait_for_fetch: false,
    };

    /// The caller's tag.
    type Request = u64;
    type Failure = IoError;
    type End = Infallible;
    type Context<'a> = Asks<'a>;

    fn engine(&mut self) -> &mut Engine<Session> {
        &mut self.engine
    }

    fn judge(
        _tag: &u64,
        piece: &PieceState,
        result: Result<(), IoError>,
        payload: &Found,
    ) -> Result<Verdict<IoError>, Infallible> {
        let result = match fits(&piece.op, payload) {
            true => result,
            false => result.and(Err(IoError::Damaged)),
        };
        Ok(result.map_err(|why| (why, piece.op.offset())))
    }

    /// Of a write that may have been done in part nobody knows more than of one that was lost.
    fn is_graver(failure: IoError, _first: IoError) -> bool {
        matches!(failure, IoError::Lost | IoError::Closed)
    }

    /// All that it has under way at one time.
    fn room_to_begin(request: &Request<Session>) -> usize {
        match request.plan.is_windowed() {
            true => WINDOW as usize,
            false => MOST_AT_ONCE,
        }
    }

    fn finish(&mut self, slot: SlotId, _: &mut Asks<'_>) -> Result<(), Infallible> {
        let request = self.engine.request(slot);
        let (tag, failure) = (request.own, request.failure);
        let mut payload = Payload::default();
        if failure.is_none() && request.delivery == Delivery::Whole {
            payload.first = self.take_part(slot).unwrap_or_default();
            let more = self.engine.parts(slot);
            if more > 0 {
                payload.rest = self.spare.pop().unwrap_or_default();
                payload.rest.reserve(more);
                while let Some(part) = self.take_part(slot) {
                    payload.rest.push(part);
                }
            }
        }
        // What was read in vain lets its memory go.
        self.engine.free(slot);
        self.ended.push(Done {
            tag,
            result: failure.map_or(Ok(()), Err),
            payload,
        });
        Ok(())
    }
}

impl Session {
    fn take_part(&mut self, slot: SlotId) -> Option<Slice> {
        Some(match self.engine.take_part(slot)? {
            Found::Data(data) => data,
            Found::Zeros(length) => self.engine.pool().zeros(length as usize),
            Found::Differs(differs) => Payload::of_differs(&differs),
            // Each block that has data is told as one that was changed since there were none.
            Found::Allocation(words) => Payload::of_differs(&Differs {
                changed: *words,
                allocated: *words,
            }),
            Found::None => Slice::default(),
        })
    }
}
