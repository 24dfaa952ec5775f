//! What can be wrong with a frame.

use super::Kind;
use thiserror::Error;

/// Bytes that are no frame of the agreed version. The connection they came on cannot be trusted any more: where the next
/// frame begins is unknown, so it is closed with this as its reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Whatever speaks there does not speak this protocol.
    #[error(
        "the bytes {found:#06x} stand where a frame begins with {:#06x}: the peer is no Amita node, or bytes were lost",
        super::MAGIC
    )]
    Magic {
        /// What stands there.
        found: u16,
    },
    /// A frame of another version than the hello agreed on.
    #[error("a frame of protocol version {found}, but version {agreed} was agreed on")]
    Version {
        /// The frame's.
        found: u8,
        /// The connection's.
        agreed: u8,
    },
    /// A kind that the version does not have.
    #[error("unknown kind of frame {0:#04x}")]
    Kind(u8),
    /// Flags that the version does not have.
    #[error("unknown flags {0:#06x}")]
    Flags(u16),
    /// A head that this kind cannot have.
    #[error("a head of {bytes} bytes in a frame of kind {kind:?}")]
    HeadBytes {
        /// The frame's kind.
        kind: Kind,
        /// What it announces.
        bytes: u16,
    },
    /// A payload that this kind cannot have.
    #[error("a payload of {bytes} bytes in a frame of kind {kind:?}")]
    PayloadBytes {
        /// The frame's kind.
        kind: Kind,
        /// What it announces.
        bytes: usize,
    },
    /// The head's CRC-32C is wrong.
    #[error("the head's checksum is {found:#010x}, computed {computed:#010x}: bytes were changed on the way")]
    HeadChecksum {
        /// What the frame says.
        found: u32,
        /// What its bytes make.
        computed: u32,
    },
    /// A frame of a protected link that is not the next one that the peer has sent.
    #[error("a frame's tag is wrong: it was changed, repeated, left out or added on the way")]
    Forged,
    /// A frame that whoever is at the other end may not send.
    #[error("a {role} may not send frames of kind {kind:?}")]
    Sender {
        kind: Kind,
        /// What the other end may be.
        role: &'static str,
    },
    /// The head ends before its fields do.
    #[error("the head is shorter than its fields")]
    HeadShort,
    /// The head goes on after its fields.
    #[error("the head has {extra} bytes more than its fields")]
    HeadLong { extra: usize },
    /// A field has a value that it cannot have.
    #[error("{field} cannot be {value}")]
    Field {
        field: &'static str,
        /// What it says.
        value: u64,
    },
}

/// A message that cannot be sent, because no receiver would accept it. It is the caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The payload's length is not what the message says.
    #[error("the message goes with a payload of {expected} bytes, not {found}")]
    Payload {
        /// What the message says.
        expected: usize,
        /// What came beside it.
        found: usize,
    },
    /// The number of checksums is not the payload's number of pieces.
    #[error("the payload has {expected} pieces, but the message has {found} checksums")]
    Sums {
        /// The payload's pieces.
        expected: usize,
        /// The message's sums.
        found: usize,
    },
    /// A field is out of the range that a receiver accepts.
    #[error("{field} cannot be {value}")]
    Field {
        field: &'static str,
        /// What it says.
        value: u64,
    },
    /// No version of the protocol has a form for this message.
    #[error("the protocol cannot carry this message: {what}")]
    Unsupported { what: &'static str },
}
