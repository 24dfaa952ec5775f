//! What a traced request or answer carries behind everything else in its head: the prefix's flag says that it is there.

use super::wire::{Reader, Wire, wire};
use super::{DecodeError, Kind};
use crate::message::Message;
use amita_types::TraceId;
use amita_types::trace::StoreTrace;

/// The prefix's flag: the head ends in a trace.
pub const FLAG_TRACED: u16 = 1;

wire! {
    /// Behind a request.
    RawAsked: 4 { id: u32, }
}
wire! {
    /// Behind an answer: nanoseconds since the store received the request.
    RawAnswered: 24 { id: u32, issued_ns: u32, data_ns: u32, log_ns: u32, durable_ns: u32, answered_ns: u32, }
}

impl Kind {
    /// Bytes of the trace that a frame of this kind can end in; 0: it cannot be traced.
    pub(super) fn trace_bytes(self) -> usize {
        match self as u8 {
            0x10..=0x3f => RawAsked::BYTES,
            0x40..=0x7f => RawAnswered::BYTES,
            _ => 0,
        }
    }
}

/// The longest trace.
pub(super) const MAX_TRACE_BYTES: usize = RawAnswered::BYTES;

/// Appends a message's trace, if it has one; was there one?
pub(super) fn put(out: &mut Vec<u8>, message: &Message) -> bool {
    match message {
        Message::Request(request) if request.trace.is_some() => {
            RawAsked { id: request.trace.0 }.put(out);
            true
        }
        Message::Answer(answer) => match &answer.trace {
            Some(trace) if trace.id.is_some() => {
                RawAnswered {
                    id: trace.id.0,
                    issued_ns: trace.issued_ns,
                    data_ns: trace.data_ns,
                    log_ns: trace.log_ns,
                    durable_ns: trace.durable_ns,
                    answered_ns: trace.answered_ns,
                }
                .put(out);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// Sets the trace of a message whose other fields were read.
pub(super) fn get(message: &mut Message, bytes: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    match message {
        Message::Request(request) => request.trace = named(RawAsked::get(&mut reader)?.id)?,
        Message::Answer(answer) => {
            let raw = RawAnswered::get(&mut reader)?;
            answer.trace = Some(Box::new(StoreTrace {
                id: named(raw.id)?,
                issued_ns: raw.issued_ns,
                data_ns: raw.data_ns,
                log_ns: raw.log_ns,
                durable_ns: raw.durable_ns,
                answered_ns: raw.answered_ns,
            }));
        }
        _ => {}
    }
    reader.end()
}

/// Whoever sets the flag names a trace: there is one form of each message.
fn named(id: u32) -> Result<TraceId, DecodeError> {
    let id = TraceId(id);
    id.is_some().then_some(id).ok_or(DecodeError::Field {
        field: "the number of a trace",
        value: 0,
    })
}
