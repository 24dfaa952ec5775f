//! Roll-forwards (R6): what a member has above a version, and what another one gets of it.

use super::super::wire::{Reader, Wire, wire};
use super::super::{DecodeError, EncodeError, Kind, Prefix};
use super::{Body, CHANGE_BYTES, exactly, from_to, get_changes, put_changes};
use amita_types::message::{Change, ChangesRequest, MAX_CHANGES, RollRequest};
use amita_types::{BLOCK_BYTES, BlockIndex, ChunkIndex, Version};

wire! { RawChanges: 18 { chunk: u64, since: u64, from: u16, } }
wire! { RawRoll: 25 { chunk: u64, version: u64, previous: u64, flags: u8, } }

/// The first part of a roll-forward.
const ROLL_FIRST: u8 = 1;
/// The last part of a roll-forward.
const ROLL_LAST: u8 = 2;
pub(in super::super) const CHANGES_BYTES: (usize, usize) = exactly(RawChanges::BYTES);
pub(in super::super) const ROLL_BYTES: (usize, usize) = from_to(RawRoll::BYTES, MAX_CHANGES * CHANGE_BYTES);

/// The payload that goes with entries: a block for each that has data.
fn data_bytes(entries: &[Change]) -> usize {
    entries.iter().filter(|entry| entry.sum.is_some()).count() * BLOCK_BYTES as usize
}

impl Body for ChangesRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let ChangesRequest { chunk, since, from } = self;
        RawChanges {
            chunk: chunk.0,
            since: since.0,
            from: from.0,
        }
        .put(out);
        Ok(Kind::Changes)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<ChangesRequest, DecodeError> {
        let raw = RawChanges::get(&mut reader)?;
        reader.end()?;
        let from = BlockIndex(raw.from);
        Ok(ChangesRequest {
            chunk: ChunkIndex(raw.chunk),
            since: Version(raw.since),
            from,
        })
    }
}

impl Body for RollRequest {
    fn put(&self, out: &mut Vec<u8>, payload_bytes: usize) -> Result<Kind, EncodeError> {
        let RollRequest {
            chunk,
            version,
            previous,
            entries,
            first,
            last,
        } = self;
        let expected = data_bytes(entries);
        if expected != payload_bytes {
            return Err(EncodeError::Payload {
                expected,
                found: payload_bytes,
            });
        }
        let flags = if *first { ROLL_FIRST } else { 0 } | if *last { ROLL_LAST } else { 0 };
        RawRoll {
            chunk: chunk.0,
            version: version.0,
            previous: previous.0,
            flags,
        }
        .put(out);
        put_changes(out, entries)?;
        Ok(Kind::Roll)
    }

    fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<RollRequest, DecodeError> {
        let raw = RawRoll::get(&mut reader)?;
        let entries = get_changes(reader)?;
        if raw.flags & !(ROLL_FIRST | ROLL_LAST) != 0 {
            return Err(DecodeError::Field {
                field: "flags of a roll-forward",
                value: raw.flags.into(),
            });
        }
        if data_bytes(&entries) != prefix.payload_bytes {
            return Err(DecodeError::PayloadBytes {
                kind: prefix.kind,
                bytes: prefix.payload_bytes,
            });
        }
        Ok(RollRequest {
            chunk: ChunkIndex(raw.chunk),
            version: Version(raw.version),
            previous: Version(raw.previous),
            entries,
            first: raw.flags & ROLL_FIRST != 0,
            last: raw.flags & ROLL_LAST != 0,
        })
    }
}
