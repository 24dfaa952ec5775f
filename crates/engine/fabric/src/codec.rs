//! Frames: the bytes of messages. Pure; the layout is specified in `docs/protocol-wire.md`.
//!
//! A frame is a *head* and a *payload*. The head begins with a prefix of 16 bytes, goes on with the fields of its kind
//! and ends with what varies in length (checksums, members, entries); one CRC-32C covers all of it, the lengths of both
//! parts included.
//!
//! ```text
//!  0        4       6   7   8        10      12           16
//! ┌────────┬───────┬───┬───┬────────┬───────┬────────────┬───────────────────────┬──────────────┐
//! │ CRC of │ magic │ver│kin│ head   │ flags │ payload    │ fields of the kind,   │ payload      │
//! │ 4..head│ "Am"  │   │ d │ bytes  │  0    │ bytes      │ then sums, members, … │              │
//! └────────┴───────┴───┴───┴────────┴───────┴────────────┴───────────────────────┴──────────────┘
//!  ◄──────────────── 16 ────────────────────────────────► ◄──── head bytes - 16 ─► ◄─ payload ──►
//! ```
//!
//! # Why the payload is not summed here
//! Only data messages have a payload: `Write`, `Roll`, `Mend`, `Put` and the answer `Data`. Each carries, in its head, the CRC-32C of
//! every piece of the payload, made by whoever had the data first (the sequencer for a write, the store that wrote the
//! block for a read) and checked by whoever uses it (the store before it applies a write, the sequencer before it
//! hands data to a host). The codec checks that these sums and the payload's length belong together, so that no byte of a
//! payload is without a sum; the sums themselves stand under the head's CRC. A payload that was changed on the way is
//! therefore found, at the place that knows best what to do (a store refuses with `Checksum` and the sequencer sends
//! again; a sequencer reads from another member), and a second pass over the data at the connection would find nothing
//! that the first does not. A later kind whose payload has no such sums must carry its CRC in its head.

mod answer;
mod aside;
mod control;
mod error;
mod forward;
mod request;
mod trace;
mod wire;

pub use control::{Hello, Refuse, RefuseCode};
pub use error::{DecodeError, EncodeError};
pub use trace::FLAG_TRACED;

use crate::limits::{MAX_HANDSHAKE_HEAD_BYTES, MAX_HEAD_BYTES, MAX_PAYLOAD_BYTES, MAX_REASON_BYTES};
use crate::message::Message;
use crate::secure::{Role, Roles};
use wire::{Reader, Wire, wire};

/// "Am", little-endian: where a frame begins.
pub const MAGIC: u16 = u16::from_le_bytes(*b"Am");

/// The protocol version that this build speaks best.
pub const PROTOCOL_VERSION: u8 = 1;
/// The oldest protocol version that this build speaks.
pub const PROTOCOL_VERSION_MIN: u8 = 1;
/// The version in the prefix of the frames that come before one is agreed on (`Hello`, `Welcome`, `Refuse`): their
/// layout never changes, it only grows at its end.
pub const HANDSHAKE_VERSION: u8 = 0;

wire! {
    /// Where every frame begins; the diagram stands at the top of this module.
    RawPrefix: 16 {
        /// CRC-32C of the head from the magic to its end.
        crc: u32,
        /// [`MAGIC`].
        magic: u16,
        /// The version agreed on, or [`HANDSHAKE_VERSION`].
        version: u8,
        /// A [`Kind`].
        kind: u8,
        /// Of the head, this prefix included.
        head_bytes: u16,
        /// [`FLAG_TRACED`], and what is said beside a request or an answer.
        flags: u16,
        payload_bytes: u32,
    }
}

/// Bytes of a frame's prefix.
pub const PREFIX_BYTES: usize = RawPrefix::BYTES;
/// The CRC covers the head from here on.
const CRC_FROM: usize = 4;

/// Whoever may own volumes, and ask stores and owners: nobody else has a link.
const OWNERS: Roles = Roles::of(&[Role::Node, Role::Gateway]);
/// Whoever serves stores.
const STORES: Roles = Roles::of(&[Role::Node]);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $senders:expr, $head:expr, $payload:expr;)*) => {
        /// The kinds of frames.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $name = $value,)*
        }

        impl Kind {
            /// All kinds, in order.
            pub const ALL: &[Kind] = &[$(Kind::$name),*];

            fn from_wire(value: u8) -> Result<Kind, DecodeError> {
                match value {
                    $($value => Ok(Kind::$name),)*
                    other => Err(DecodeError::Kind(other)),
                }
            }

            /// Who may send it on a link whose ends have proven who they are. (The direction is the protocol's matter.)
            #[must_use]
            pub const fn senders(self) -> Roles {
                match self {
                    $(Kind::$name => $senders,)*
                }
            }

            /// The shortest and the longest head, without the prefix.
            const fn body_bytes(self) -> (usize, usize) {
                match self {
                    $(Kind::$name => $head,)*
                }
            }

            /// The longest payload.
            const fn payload_bytes_max(self) -> usize {
                match self {
                    $(Kind::$name => $payload,)*
                }
            }
        }

        $(const _: () = {
            let (least, most): (usize, usize) = $head;
            assert!(least <= most && PREFIX_BYTES + most + trace::MAX_TRACE_BYTES <= MAX_HEAD_BYTES);
        };)*
    };
}

kinds! {
    /// The first frame of whoever connected.
    Hello = 0x01, OWNERS, (control::HELLO_BYTES, MAX_HANDSHAKE_HEAD_BYTES - PREFIX_BYTES), 0;
    /// The first frame of whoever accepted: the link is up.
    Welcome = 0x02, OWNERS, (control::HELLO_BYTES, MAX_HANDSHAKE_HEAD_BYTES - PREFIX_BYTES), 0;
    /// The last frame before the sender closes, and why.
    Refuse = 0x03, OWNERS, (control::REFUSE_BYTES, control::REFUSE_BYTES + MAX_REASON_BYTES), 0;
    /// Are you there?
    Ping = 0x04, OWNERS, (control::PING_BYTES, control::PING_BYTES), 0;
    /// I am.
    Pong = 0x05, OWNERS, (control::PING_BYTES, control::PING_BYTES), 0;
    /// A gateway asks for a volume.
    Release = 0x06, OWNERS, (control::RELEASE_BYTES, control::RELEASE_BYTES), 0;
    /// The answer to `Release`.
    Released = 0x07, OWNERS, (control::RELEASED_BYTES, control::RELEASED_BYTES), 0;

    /// A host's request, to the owner of the volume.
    Forward = 0x08, OWNERS, forward::FORWARD_BYTES, MAX_PAYLOAD_BYTES;
    /// The answer to `Forward`.
    Forwarded = 0x09, OWNERS, (forward::FORWARDED_BYTES, forward::FORWARDED_BYTES), MAX_PAYLOAD_BYTES;
    /// A gateway asks for a volume that the operator moves to it.
    HandOver = 0x0a, OWNERS, (control::RELEASE_BYTES, control::RELEASE_BYTES), 0;
    /// A step of a set of snapshots, to the owner of a volume.
    Cut = 0x0b, OWNERS, (control::CUT_BYTES, control::CUT_BYTES), 0;
    /// The answer to `Cut`.
    CutDone = 0x0c, OWNERS, (control::CUT_DONE_BYTES, control::CUT_DONE_BYTES), 0;

    /// Request: adopt an epoch and a generation.
    Fence = 0x10, OWNERS, request::FENCE_BYTES, 0;
    /// Request: what version of a chunk do you hold?
    Open = 0x11, OWNERS, request::OPEN_BYTES, 0;
    /// Request: write the payload.
    Write = 0x12, OWNERS, request::WRITE_BYTES, MAX_PAYLOAD_BYTES;
    /// Request: unmap blocks.
    Clear = 0x13, OWNERS, request::CLEAR_BYTES, 0;
    /// Request: read blocks.
    Read = 0x14, OWNERS, request::READ_BYTES, 0;
    /// Request: list entries.
    Changes = 0x15, OWNERS, request::CHANGES_BYTES, 0;
    /// Request: a part of a roll-forward.
    Roll = 0x16, OWNERS, request::ROLL_BYTES, MAX_PAYLOAD_BYTES;
    /// Request: a lease.
    RenewLease = 0x17, OWNERS, request::RENEW_LEASE_BYTES, 0;
    /// Request: which blocks are allocated?
    Allocation = 0x18, OWNERS, request::ALLOCATION_BYTES, 0;
    /// Request: of a chunk's snapshots keep these.
    RetainSnapshots = 0x19, OWNERS, request::RETAIN_SNAPSHOTS_BYTES, 0;
    /// Request: make a chunk what another one was at a snapshot.
    Clone = 0x1a, OWNERS, request::CLONE_BYTES, 0;
    /// Request: list chunks.
    Chunks = 0x1b, OWNERS, request::CHUNKS_BYTES, 0;
    /// Request: a chunk's history goes on at a version.
    Join = 0x1c, OWNERS, request::JOIN_BYTES, 0;
    /// Request: replace entries.
    Mend = 0x1d, OWNERS, request::MEND_BYTES, MAX_PAYLOAD_BYTES;
    /// Request: a chunk is whole.
    Whole = 0x1e, OWNERS, request::WHOLE_BYTES, 0;
    /// Request: read blocks and check them.
    Verify = 0x1f, OWNERS, request::VERIFY_BYTES, 0;
    /// Request: as `Fence`, of a volume that was handed over.
    Succeed = 0x20, OWNERS, request::SUCCEED_BYTES, 0;
    /// Request: credits are given back, or wanted.
    Settle = 0x21, OWNERS, request::SETTLE_BYTES, 0;
    /// Request: what was a chunk for its snapshots?
    States = 0x22, OWNERS, request::STATES_BYTES, 0;
    /// Request: a chunk gets a state that it lacks.
    Frame = 0x23, OWNERS, request::FRAME_BYTES, 0;
    /// Request: a state gets entries.
    Put = 0x24, OWNERS, request::PUT_BYTES, MAX_PAYLOAD_BYTES;
    /// Request: a state is what it should be.
    Close = 0x25, OWNERS, request::CLOSE_BYTES, 0;
    /// Request: a chunk gets the mark of a snapshot that is deleted.
    Mark = 0x2e, OWNERS, request::MARK_BYTES, 0;
    /// Request: what has a clone's chunk from its parents? Or: make it so.
    Inherit = 0x26, OWNERS, request::INHERIT_BYTES, 0;
    /// Request: which blocks were changed since a snapshot?
    Differ = 0x28, OWNERS, request::DIFFER_BYTES, 0;
    /// Request: what has rotted is replaced where it lies.
    Restore = 0x2d, OWNERS, request::RESTORE_BYTES, amita_types::BLOCK_BYTES as usize;

    /// Answer to `Fence`.
    Fenced = 0x40, STORES, answer::PLAIN_BYTES, 0;
    /// Answer to `Open`, and to `Inherit` where that only asks.
    Opened = 0x41, STORES, answer::OPENED_BYTES, 0;
    /// Answer to `Write`, `Clear`, `Roll`, `RetainSnapshots`, `Clone`, `Inherit`, `Whole`, `Frame`, `Close` and `Mark`.
    Done = 0x42, STORES, answer::PLAIN_BYTES, 0;
    /// Answer to `Read`: the payload.
    Data = 0x43, STORES, answer::DATA_BYTES, MAX_PAYLOAD_BYTES;
    /// Answer to `Changes`.
    Listed = 0x44, STORES, answer::LISTED_BYTES, 0;
    /// Answer to `RenewLease`.
    LeaseRenewed = 0x45, STORES, answer::PLAIN_BYTES, 0;
    /// Answer to `Allocation`.
    Allocated = 0x46, STORES, answer::ALLOCATED_BYTES, 0;
    /// Answer to any request: it was not done.
    Refused = 0x47, OWNERS, answer::REFUSED_BYTES, 0;
    /// Answer to `Chunks`.
    Held = 0x48, STORES, answer::HELD_BYTES, 0;
    /// Answer to `Join`.
    Joined = 0x49, STORES, answer::JOINED_BYTES, 0;
    /// Answer to `Mend`, `Put` and `Restore`.
    Mended = 0x4a, STORES, answer::MENDED_BYTES, 0;
    /// Answer to `Verify`.
    Verified = 0x4b, STORES, answer::VERIFIED_BYTES, 0;
    /// Answer to `Settle`.
    Settled = 0x4c, STORES, answer::SETTLED_BYTES, 0;
    /// Answer to `States`.
    Stated = 0x4d, STORES, answer::STATED_BYTES, 0;
    /// Answer to `Differ`.
    Differs = 0x50, STORES, answer::DIFFERS_BYTES, 0;
}

impl Kind {
    /// Does the frame belong to the handshake, whose layout no version changes?
    fn is_handshake(self) -> bool {
        matches!(self, Kind::Hello | Kind::Welcome | Kind::Refuse)
    }
}

// The common frames, whole: what a 4 KiB write and its answer cost beside the data. (An answer fits a cache line.)
const _: () = assert!(PREFIX_BYTES + request::WRITE_BYTES.0 + 4 == 104);
const _: () = assert!(PREFIX_BYTES + request::READ_BYTES.0 == 92);
const _: () = assert!(PREFIX_BYTES + answer::PLAIN_BYTES.1 == 46);
const _: () = assert!(PREFIX_BYTES + answer::DATA_BYTES.0 + 4 == 58);
const _: () = assert!(PREFIX_BYTES + answer::REFUSED_BYTES.1 <= 64);

/// A frame's prefix, checked as far as it can be without the rest of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The frame's kind.
    pub kind: Kind,
    /// Bytes of the head, this prefix included.
    pub head_bytes: usize,
    /// Does the head end in a trace?
    pub traced: bool,
    /// What is said beside a request or an answer: a number of three bits.
    pub aside: u8,
    /// Bytes of the payload. Under the head's CRC, so not to be acted upon before [`decode`].
    pub payload_bytes: usize,
}

/// Any frame, decoded; the payload of a message comes beside it.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The dialler's first.
    Hello(Hello),
    /// The acceptor's first.
    Welcome(Hello),
    /// The last.
    Refuse(Refuse),
    /// Asks for a [`Frame::Pong`] with the same number.
    Ping(u64),
    /// Answers a [`Frame::Ping`]; zero if none was asked.
    Pong(u64),
    /// Everything else.
    Message(Message),
}

/// Reads the prefix at the front of `data`: `None` when it is not whole yet. `agreed` is the connection's version, or
/// `None` before the hello, when only frames of the handshake may come.
pub fn prefix(data: &[u8], agreed: Option<u8>) -> Result<Option<Prefix>, DecodeError> {
    let Some(bytes) = data.first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let raw = RawPrefix::get(&mut Reader::new(bytes))?;
    if raw.magic != MAGIC {
        return Err(DecodeError::Magic { found: raw.magic });
    }
    let kind = Kind::from_wire(raw.kind)?;
    let expected = if kind.is_handshake() {
        HANDSHAKE_VERSION
    } else {
        agreed.unwrap_or(HANDSHAKE_VERSION)
    };
    if raw.version != expected || (agreed.is_none() && !kind.is_handshake()) {
        return Err(DecodeError::Version {
            found: raw.version,
            agreed: expected,
        });
    }
    let traced = raw.flags & FLAG_TRACED != 0;
    let aside = aside::number(kind, raw.flags & !FLAG_TRACED).ok_or(DecodeError::Flags(raw.flags))?;
    if traced && kind.trace_bytes() == 0 {
        return Err(DecodeError::Flags(raw.flags));
    }
    let (least, most) = kind.body_bytes();
    let front_bytes = PREFIX_BYTES + if traced { kind.trace_bytes() } else { 0 };
    let head_bytes = usize::from(raw.head_bytes);
    if head_bytes < front_bytes + least || head_bytes > front_bytes + most {
        return Err(DecodeError::HeadBytes {
            kind,
            bytes: raw.head_bytes,
        });
    }
    if raw.payload_bytes as usize > kind.payload_bytes_max() {
        return Err(DecodeError::PayloadBytes {
            kind,
            bytes: raw.payload_bytes as usize,
        });
    }
    Ok(Some(Prefix {
        kind,
        head_bytes,
        traced,
        aside,
        payload_bytes: raw.payload_bytes as usize,
    }))
}

/// The lengths of the head and of the payload of the frame at the front of `data`, within what any frame may have: all that
/// is believed of a protected frame before its tag is checked. `None` when the prefix is not whole yet. Arguments as in
/// [`prefix`].
///
/// # Errors
/// It does not begin as a frame ([`DecodeError::Magic`]), or has lengths that no frame has ([`DecodeError::Forged`]).
pub(crate) fn lengths(data: &[u8], agreed: Option<u8>) -> Result<Option<(usize, usize)>, DecodeError> {
    let Some(bytes) = data.first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let raw = RawPrefix::get(&mut Reader::new(bytes))?;
    if raw.magic != MAGIC {
        return Err(DecodeError::Magic { found: raw.magic });
    }
    let (head_most, payload_most) = match agreed {
        Some(_) => (MAX_HEAD_BYTES, MAX_PAYLOAD_BYTES),
        None => (MAX_HANDSHAKE_HEAD_BYTES, 0),
    };
    let (head_bytes, payload_bytes) = (usize::from(raw.head_bytes), raw.payload_bytes as usize);
    if !(PREFIX_BYTES..=head_most).contains(&head_bytes) || payload_bytes > payload_most {
        return Err(DecodeError::Forged);
    }
    Ok(Some((head_bytes, payload_bytes)))
}

/// The kind of a frame, by its prefix.
pub(crate) fn kind(head: &[u8]) -> Result<Kind, DecodeError> {
    RawPrefix::get(&mut Reader::new(head)).and_then(|raw| Kind::from_wire(raw.kind))
}

/// Is the CRC of a whole head right?
pub fn check(head: &[u8]) -> Result<(), DecodeError> {
    let found = u32::from_le_bytes(*head.first_chunk().ok_or(DecodeError::HeadShort)?);
    let computed = amita_types::crc32c(&head[CRC_FROM..]);
    if found == computed {
        Ok(())
    } else {
        Err(DecodeError::HeadChecksum { found, computed })
    }
}

/// Decodes a whole head whose [`check`] passed.
pub fn decode(prefix: Prefix, head: &[u8]) -> Result<Frame, DecodeError> {
    let mut frame = decode_traced(prefix, head)?;
    if let Frame::Message(message) = &mut frame {
        aside::set(message, prefix.aside);
    }
    Ok(frame)
}

fn decode_traced(prefix: Prefix, head: &[u8]) -> Result<Frame, DecodeError> {
    if !prefix.traced {
        return decode_untraced(prefix, head);
    }
    let at = head.len().checked_sub(prefix.kind.trace_bytes());
    let (head, trace) = at
        .and_then(|at| head.split_at_checked(at))
        .ok_or(DecodeError::HeadShort)?;
    let mut frame = decode_untraced(prefix, head)?;
    if let Frame::Message(message) = &mut frame {
        trace::get(message, trace)?;
    }
    Ok(frame)
}

fn decode_untraced(prefix: Prefix, head: &[u8]) -> Result<Frame, DecodeError> {
    let mut reader = Reader::new(head);
    reader.array::<PREFIX_BYTES>()?;
    match prefix.kind {
        Kind::Hello => Hello::get(reader).map(Frame::Hello),
        Kind::Welcome => Hello::get(reader).map(Frame::Welcome),
        Kind::Refuse => Refuse::get(reader).map(Frame::Refuse),
        Kind::Ping => control::get_ping(reader).map(Frame::Ping),
        Kind::Pong => control::get_ping(reader).map(Frame::Pong),
        Kind::Release => control::get_release(reader, false).map(Frame::Message),
        Kind::HandOver => control::get_release(reader, true).map(Frame::Message),
        Kind::Forward => forward::get_forward(reader, prefix.payload_bytes).map(Frame::Message),
        Kind::Forwarded => forward::get_forwarded(reader).map(Frame::Message),
        Kind::Released => control::get_released(reader).map(Frame::Message),
        Kind::Cut => control::get_cut(reader).map(Frame::Message),
        Kind::CutDone => control::get_cut_done(reader).map(Frame::Message),
        Kind::Fence
        | Kind::Open
        | Kind::Write
        | Kind::Clear
        | Kind::Read
        | Kind::Changes
        | Kind::Roll
        | Kind::RenewLease
        | Kind::Allocation
        | Kind::RetainSnapshots
        | Kind::Clone
        | Kind::Inherit
        | Kind::Chunks
        | Kind::Join
        | Kind::Mend
        | Kind::Whole
        | Kind::Verify
        | Kind::Succeed
        | Kind::States
        | Kind::Frame
        | Kind::Put
        | Kind::Close
        | Kind::Mark
        | Kind::Differ
        | Kind::Restore
        | Kind::Settle => request::get(prefix, reader).map(|request| Frame::Message(Message::Request(request))),
        Kind::Fenced
        | Kind::Opened
        | Kind::Done
        | Kind::Data
        | Kind::Listed
        | Kind::LeaseRenewed
        | Kind::Allocated
        | Kind::Refused
        | Kind::Held
        | Kind::Joined
        | Kind::Mended
        | Kind::Verified
        | Kind::Stated
        | Kind::Differs
        | Kind::Settled => answer::get(prefix, reader).map(|answer| Frame::Message(Message::Answer(answer))),
    }
}

/// Appends the head of a message to `out`; its payload, of `payload_bytes`, is to follow it. Leaves `out` as it was
/// when the message cannot be sent.
pub fn encode(out: &mut Vec<u8>, version: u8, message: &Message, payload_bytes: usize) -> Result<(), EncodeError> {
    let from = begin(out);
    let put = match message {
        Message::Request(request) => request::put(out, request, payload_bytes),
        Message::Answer(answer) => answer::put(out, answer, payload_bytes),
        Message::Release {
            tag,
            volume,
            generation,
            hand_over,
        } => control::put_release(out, *tag, *volume, *generation, *hand_over, payload_bytes),
        Message::Forward(forward) => forward::put_forward(out, forward, payload_bytes),
        Message::Forwarded(forwarded) => forward::put_forwarded(out, forwarded, payload_bytes),
        Message::Released { tag, outcome } => control::put_released(out, *tag, *outcome, payload_bytes),
        Message::Cut(cut) => control::put_cut(out, cut, payload_bytes),
        Message::CutDone { tag, outcome } => control::put_cut_done(out, *tag, *outcome, payload_bytes),
    };
    match put {
        Ok(kind) => {
            let traced = trace::put(out, message);
            let traced = if traced { FLAG_TRACED } else { 0 };
            finish_flagged(out, from, version, kind, payload_bytes, traced | aside::put(message));
        }
        Err(_) => out.truncate(from),
    }
    put.map(|_| ())
}

/// Appends a `Ping` or `Pong`.
pub fn encode_ping(out: &mut Vec<u8>, version: u8, number: u64, answer: bool) {
    let from = begin(out);
    control::put_ping(out, number);
    finish(out, from, version, if answer { Kind::Pong } else { Kind::Ping }, 0);
}

/// Appends a `Hello`, or the `Welcome` that answers it.
pub fn encode_hello(out: &mut Vec<u8>, hello: &Hello, answer: bool) {
    let from = begin(out);
    hello.put(out);
    finish(
        out,
        from,
        HANDSHAKE_VERSION,
        if answer { Kind::Welcome } else { Kind::Hello },
        0,
    );
}

/// Appends a `Refuse`. A reason that is too long is cut.
pub fn encode_refuse(out: &mut Vec<u8>, refuse: &Refuse) {
    let from = begin(out);
    refuse.put(out);
    finish(out, from, HANDSHAKE_VERSION, Kind::Refuse, 0);
}

/// Leaves room for the prefix; where it is.
fn begin(out: &mut Vec<u8>) -> usize {
    let from = out.len();
    RawPrefix {
        crc: 0,
        magic: MAGIC,
        version: 0,
        kind: 0,
        head_bytes: 0,
        flags: 0,
        payload_bytes: 0,
    }
    .put(out);
    from
}

/// Completes the prefix in front of the fields.
fn finish(out: &mut [u8], from: usize, version: u8, kind: Kind, payload_bytes: usize) {
    finish_flagged(out, from, version, kind, payload_bytes, 0);
}

/// The same with flags: the head may end in a trace.
fn finish_flagged(out: &mut [u8], from: usize, version: u8, kind: Kind, payload_bytes: usize, flags: u16) {
    let traced = flags & FLAG_TRACED != 0;
    let head_bytes = out.len() - from;
    let (least, most) = kind.body_bytes();
    let front_bytes = PREFIX_BYTES + if traced { kind.trace_bytes() } else { 0 };
    // What leaves this node is what its peer accepts: a wrong length here would cost the connection there.
    assert!(
        (front_bytes + least..=front_bytes + most).contains(&head_bytes),
        "{kind:?} of {head_bytes} bytes"
    );
    assert!(
        payload_bytes <= kind.payload_bytes_max(),
        "{kind:?} with a payload of {payload_bytes} bytes"
    );
    let head = &mut out[from..];
    head[6] = version;
    head[7] = kind as u8;
    head[8..10].copy_from_slice(&u16::try_from(head_bytes).expect("asserted").to_le_bytes());
    head[10..12].copy_from_slice(&flags.to_le_bytes());
    head[12..16].copy_from_slice(&u32::try_from(payload_bytes).expect("asserted").to_le_bytes());
    let crc = amita_types::crc32c(&head[CRC_FROM..]);
    head[..4].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests;
