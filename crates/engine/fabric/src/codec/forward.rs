//! The frames by which a gateway has a volume's owner carry out what a host asked it for.

use super::control::get_generation;
use super::wire::{Reader, Wire, wire};
use super::{DecodeError, EncodeError, Kind};
use crate::message::{Forward, ForwardOp, Forwarded, Message};
use amita_types::layout::MAX_IO_BYTES;
use amita_types::{SnapshotId, VolumeId};

wire! {
    RawForward: 73 {
        tag: u64,
        session: u64,
        host: u128,
        volume: u64,
        offset: u64,
        length: u64,
        as_of: u64,
        crc: u32,
        generation: u32,
        op: u8,
    }
}
wire! {
    /// Behind [`RawForward`], where it is not zero: a build that knows no snapshots meets none.
    RawSnapshot: 4 { snapshot: u32, }
}
wire! { RawForwarded: 26 { tag: u64, clock: u64, value: u32, crc: u32, code: u8, form: u8, } }

pub(super) const FORWARD_BYTES: (usize, usize) = (RawForward::BYTES, RawForward::BYTES + RawSnapshot::BYTES);
pub(super) const FORWARDED_BYTES: usize = RawForwarded::BYTES;

impl ForwardOp {
    const ALL: [ForwardOp; 8] = [
        ForwardOp::Read,
        ForwardOp::Write,
        ForwardOp::Clear,
        ForwardOp::Allocation,
        ForwardOp::CompareAndWrite,
        ForwardOp::Reserve,
        ForwardOp::Differ,
        ForwardOp::Lend,
    ];

    /// The payload's length that goes with it, if that is fixed.
    fn payload_bytes(self, length: u64) -> Option<u64> {
        match self {
            ForwardOp::Read | ForwardOp::Clear | ForwardOp::Allocation | ForwardOp::Differ => Some(0),
            ForwardOp::Write => Some(length),
            ForwardOp::CompareAndWrite => Some(length.saturating_mul(2)),
            ForwardOp::Reserve | ForwardOp::Lend => None,
        }
    }
}

pub(super) fn put_forward(out: &mut Vec<u8>, forward: &Forward, payload_bytes: usize) -> Result<Kind, EncodeError> {
    if let Some(expected) = forward.op.payload_bytes(forward.length)
        && expected != payload_bytes as u64
    {
        return Err(EncodeError::Payload {
            expected: usize::try_from(expected).unwrap_or(usize::MAX),
            found: payload_bytes,
        });
    }
    if payload_bytes > MAX_IO_BYTES as usize || (forward.op == ForwardOp::Read && forward.length > MAX_IO_BYTES.into())
    {
        return Err(EncodeError::Field {
            field: "bytes of a forwarded request",
            value: forward.length,
        });
    }
    RawForward {
        tag: forward.tag,
        session: forward.session,
        host: u128::from_le_bytes(forward.host),
        volume: forward.volume.0,
        offset: forward.offset,
        length: forward.length,
        as_of: forward.as_of,
        crc: forward.crc,
        generation: forward.generation.0,
        op: forward.op as u8,
    }
    .put(out);
    if forward.snapshot != SnapshotId::HEAD {
        RawSnapshot {
            snapshot: forward.snapshot.0,
        }
        .put(out);
    }
    Ok(Kind::Forward)
}

/// A number that goes behind a head only where it says something: said in one way, so zero is not written out.
pub(super) fn written(number: SnapshotId) -> Result<SnapshotId, DecodeError> {
    match number {
        SnapshotId::HEAD => Err(DecodeError::Field {
            field: "number of a snapshot",
            value: 0,
        }),
        number => Ok(number),
    }
}

pub(super) fn get_forward(mut reader: Reader<'_>, payload_bytes: usize) -> Result<Message, DecodeError> {
    let raw = RawForward::get(&mut reader)?;
    let snapshot = match reader.is_empty() {
        true => SnapshotId::HEAD,
        false => written(SnapshotId(RawSnapshot::get(&mut reader)?.snapshot))?,
    };
    reader.end()?;
    let op = ForwardOp::ALL
        .into_iter()
        .find(|op| *op as u8 == raw.op)
        .ok_or(DecodeError::Field {
            field: "forwarded operation",
            value: raw.op.into(),
        })?;
    let fits = op
        .payload_bytes(raw.length)
        .is_none_or(|expected| expected == payload_bytes as u64);
    if !fits {
        return Err(DecodeError::Field {
            field: "bytes of a forwarded payload",
            value: payload_bytes as u64,
        });
    }
    if op == ForwardOp::Read && raw.length > MAX_IO_BYTES.into() {
        return Err(DecodeError::Field {
            field: "bytes of a forwarded read",
            value: raw.length,
        });
    }
    Ok(Message::Forward(Forward {
        tag: raw.tag,
        session: raw.session,
        host: raw.host.to_le_bytes(),
        snapshot,
        volume: VolumeId(raw.volume),
        op,
        offset: raw.offset,
        length: raw.length,
        as_of: raw.as_of,
        crc: raw.crc,
        generation: get_generation(raw.generation)?,
    }))
}

pub(super) fn put_forwarded(
    out: &mut Vec<u8>,
    forwarded: &Forwarded,
    payload_bytes: usize,
) -> Result<Kind, EncodeError> {
    if payload_bytes > MAX_IO_BYTES as usize {
        return Err(EncodeError::Field {
            field: "bytes of an answer to a forwarded request",
            value: payload_bytes as u64,
        });
    }
    RawForwarded {
        tag: forwarded.tag,
        clock: forwarded.clock,
        value: forwarded.value,
        crc: forwarded.crc,
        code: forwarded.code,
        form: forwarded.form,
    }
    .put(out);
    Ok(Kind::Forwarded)
}

pub(super) fn get_forwarded(mut reader: Reader<'_>) -> Result<Message, DecodeError> {
    let raw = RawForwarded::get(&mut reader)?;
    reader.end()?;
    Ok(Message::Forwarded(Forwarded {
        tag: raw.tag,
        clock: raw.clock,
        code: raw.code,
        form: raw.form,
        value: raw.value,
        crc: raw.crc,
    }))
}
