//! Requests by which a sequencer brings a store the states of a chunk that it lacks (S6).

use super::super::wire::{Reader, Wire, wire};
use super::super::{DecodeError, EncodeError, Kind, Prefix};
use super::{Body, CHANGE_BYTES, exactly, from_to, get_changes, put_changes};
use amita_types::message::{CloseRequest, FrameRequest, MAX_CHANGES, MarkRequest, PutRequest, StatesRequest};
use amita_types::{BLOCK_BYTES, ChunkIndex, SnapshotId, Version};

wire! { RawStates: 12 { chunk: u64, from: u32, } }
wire! { RawFrame: 24 { chunk: u64, version: u64, above: u32, to: u32, } }
wire! {
    /// Goes on with the entries.
    RawPut: 24 { chunk: u64, version: u64, to: u32, with_data: u32, }
}
wire! { RawClose: 20 { chunk: u64, version: u64, to: u32, } }
wire! { RawMark: 24 { chunk: u64, version: u64, above: u32, to: u32, } }

pub(in super::super) const STATES_BYTES: (usize, usize) = exactly(RawStates::BYTES);
pub(in super::super) const FRAME_BYTES: (usize, usize) = exactly(RawFrame::BYTES);
pub(in super::super) const PUT_BYTES: (usize, usize) = from_to(RawPut::BYTES, MAX_CHANGES * CHANGE_BYTES);
pub(in super::super) const CLOSE_BYTES: (usize, usize) = exactly(RawClose::BYTES);
pub(in super::super) const MARK_BYTES: (usize, usize) = exactly(RawMark::BYTES);

impl Body for StatesRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let StatesRequest { chunk, from } = self;
        RawStates {
            chunk: chunk.0,
            from: from.0,
        }
        .put(out);
        Ok(Kind::States)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<StatesRequest, DecodeError> {
        let raw = RawStates::get(&mut reader)?;
        reader.end()?;
        Ok(StatesRequest {
            chunk: ChunkIndex(raw.chunk),
            from: SnapshotId(raw.from),
        })
    }
}

impl Body for FrameRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let FrameRequest {
            chunk,
            above,
            to,
            version,
        } = self;
        RawFrame {
            chunk: chunk.0,
            version: version.0,
            above: above.0,
            to: to.0,
        }
        .put(out);
        Ok(Kind::Frame)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<FrameRequest, DecodeError> {
        let raw = RawFrame::get(&mut reader)?;
        reader.end()?;
        Ok(FrameRequest {
            chunk: ChunkIndex(raw.chunk),
            above: SnapshotId(raw.above),
            to: SnapshotId(raw.to),
            version: Version(raw.version),
        })
    }
}

/// The payload that goes with entries.
fn data_bytes(with_data: u32) -> usize {
    with_data.count_ones() as usize * BLOCK_BYTES as usize
}

impl Body for PutRequest {
    fn put(&self, out: &mut Vec<u8>, payload_bytes: usize) -> Result<Kind, EncodeError> {
        let PutRequest {
            chunk,
            to,
            with_data,
            version,
            entries,
        } = self;
        let expected = data_bytes(*with_data);
        if expected != payload_bytes {
            return Err(EncodeError::Payload {
                expected,
                found: payload_bytes,
            });
        }
        RawPut {
            chunk: chunk.0,
            version: version.0,
            to: to.0,
            with_data: *with_data,
        }
        .put(out);
        put_changes(out, entries)?;
        Ok(Kind::Put)
    }

    fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<PutRequest, DecodeError> {
        let raw = RawPut::get(&mut reader)?;
        if data_bytes(raw.with_data) != prefix.payload_bytes {
            return Err(DecodeError::PayloadBytes {
                kind: prefix.kind,
                bytes: prefix.payload_bytes,
            });
        }
        Ok(PutRequest {
            chunk: ChunkIndex(raw.chunk),
            to: SnapshotId(raw.to),
            with_data: raw.with_data,
            version: Version(raw.version),
            entries: get_changes(reader)?,
        })
    }
}

impl Body for CloseRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let CloseRequest { chunk, to, version } = self;
        RawClose {
            chunk: chunk.0,
            version: version.0,
            to: to.0,
        }
        .put(out);
        Ok(Kind::Close)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<CloseRequest, DecodeError> {
        let raw = RawClose::get(&mut reader)?;
        reader.end()?;
        Ok(CloseRequest {
            chunk: ChunkIndex(raw.chunk),
            to: SnapshotId(raw.to),
            version: Version(raw.version),
        })
    }
}

impl Body for MarkRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let MarkRequest {
            chunk,
            above,
            to,
            version,
        } = self;
        RawMark {
            chunk: chunk.0,
            version: version.0,
            above: above.0,
            to: to.0,
        }
        .put(out);
        Ok(Kind::Mark)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<MarkRequest, DecodeError> {
        let raw = RawMark::get(&mut reader)?;
        reader.end()?;
        Ok(MarkRequest {
            chunk: ChunkIndex(raw.chunk),
            above: SnapshotId(raw.above),
            to: SnapshotId(raw.to),
            version: Version(raw.version),
        })
    }
}
