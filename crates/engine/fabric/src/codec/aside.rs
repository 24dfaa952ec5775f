//! What is said beside a message, in three bits of its prefix's flags above that of the trace: of a request what it is for, of an answer how long the request
//! waited for its turn. Zero where nothing is said, so that a build that knows neither meets none: they are told only where something is said of how volumes
//! stand among others.

use super::Kind;
use crate::message::Message;
use amita_types::message::{Purpose, Waited};

/// The lowest of the bits.
const SHIFT: u32 = 1;

/// The flags of a message.
pub(super) fn put(message: &Message) -> u16 {
    let number = match message {
        Message::Request(request) => request.purpose as u8,
        Message::Answer(answer) => answer.waited.number(),
        _ => 0,
    };
    u16::from(number) << SHIFT
}

/// What these flags say of a frame of that kind; `None`: nothing that they may.
pub(super) fn number(kind: Kind, flags: u16) -> Option<u8> {
    let number = u8::try_from(flags >> SHIFT).ok()?;
    let is_known = match kind as u8 {
        0x10..=0x3f => usize::from(number) < Purpose::ALL.len(),
        0x40..=0x7f => number <= Waited::MOST,
        _ => number == 0,
    };
    is_known.then_some(number)
}

/// Sets what was said beside a message whose other fields were read.
pub(super) fn set(message: &mut Message, number: u8) {
    match message {
        Message::Request(request) => {
            request.purpose = Purpose::ALL.get(usize::from(number)).copied().unwrap_or_default();
        }
        Message::Answer(answer) => answer.waited = Waited::numbered(number).unwrap_or_default(),
        _ => {}
    }
}
