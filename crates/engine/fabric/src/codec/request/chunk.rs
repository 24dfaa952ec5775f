//! Reads and changes of one chunk.

use super::super::wire::{Reader, Wire, wire};
use super::super::{DecodeError, EncodeError, Kind, Prefix};
use super::{Body, SUM_BYTES, exactly, from_to, get_sums, put_sums};
use amita_types::map::MAX_LEVELS;
use amita_types::message::{
    AllocationRequest, ClearRequest, CloneRequest, DifferRequest, InheritRequest, MAX_PIECES, MAX_SNAPSHOTS,
    OpenRequest, ReadRequest, RetainSnapshotsRequest, WriteRequest,
};
use amita_types::{BLOCK_BYTES, BlockRange, ChunkIndex, MAX_IO_BLOCKS, SnapshotId, Version, VolumeId};

wire! { RawOpen: 8 { chunk: u64, } }
wire! {
    /// The length is the payload's.
    RawWrite: 28 { chunk: u64, version: u64, previous: u64, offset_bytes: u32, }
}
wire! { RawClear: 28 { chunk: u64, version: u64, previous: u64, first: u16, count: u16, } }
wire! { RawRead: 20 { chunk: u64, least: u64, first: u16, count: u16, } }
wire! {
    /// Behind [`RawRead`], where versions are asked for: 1. A build that knows no encrypted volumes meets none.
    RawVersions: 1 { versions: u8, }
}
wire! {
    /// Behind a [`RawRead`] of a snapshot, a [`RawAllocation`] or a [`RawDiffer`]. A build that knows none meets none: the cluster's version says so.
    RawNewest: 8 { newest: u64, }
}
wire! { RawAllocation: 16 { chunk: u64, least: u64, } }
wire! { RawDiffer: 20 { chunk: u64, least: u64, since: u32, } }
wire! {
    /// Goes on with the live snapshots, four bytes each.
    RawKeep: 17 { chunk: u64, above: u32, to: u32, head: u8, }
}
wire! { RawClone: 20 { chunk: u64, origin: u64, at: u32, } }
wire! {
    /// Goes on with the parents.
    RawInherit: 16 { chunk: u64, version: u64, }
}
wire! { RawParent: 12 { volume: u64, at: u32, } }

const SNAPSHOT_BYTES: usize = size_of::<u32>();
pub(in super::super) const OPEN_BYTES: (usize, usize) = exactly(RawOpen::BYTES);
pub(in super::super) const WRITE_BYTES: (usize, usize) = from_to(RawWrite::BYTES, MAX_PIECES * SUM_BYTES);
pub(in super::super) const CLEAR_BYTES: (usize, usize) = exactly(RawClear::BYTES);
pub(in super::super) const READ_BYTES: (usize, usize) = from_to(RawRead::BYTES, RawVersions::BYTES + RawNewest::BYTES);
pub(in super::super) const ALLOCATION_BYTES: (usize, usize) = from_to(RawAllocation::BYTES, RawNewest::BYTES);
pub(in super::super) const DIFFER_BYTES: (usize, usize) = from_to(RawDiffer::BYTES, RawNewest::BYTES);
pub(in super::super) const RETAIN_SNAPSHOTS_BYTES: (usize, usize) =
    from_to(RawKeep::BYTES, MAX_SNAPSHOTS * SNAPSHOT_BYTES);
pub(in super::super) const CLONE_BYTES: (usize, usize) = exactly(RawClone::BYTES);
pub(in super::super) const INHERIT_BYTES: (usize, usize) = from_to(RawInherit::BYTES, MAX_LEVELS * RawParent::BYTES);

fn put_newest(out: &mut Vec<u8>, newest: Option<Version>) {
    if let Some(Version(newest)) = newest {
        RawNewest { newest }.put(out);
    }
}

/// The rest of the head.
fn get_newest(mut reader: Reader<'_>) -> Result<Option<Version>, DecodeError> {
    if reader.is_empty() {
        return Ok(None);
    }
    let RawNewest { newest } = RawNewest::get(&mut reader)?;
    reader.end()?;
    Ok(Some(Version(newest)))
}

/// The pieces of `length` bytes from `offset`: what lies inside one block is one piece.
fn pieces(offset: u32, length: usize) -> usize {
    if length == 0 {
        return 0;
    }
    let (block, offset) = (BLOCK_BYTES as usize, offset as usize);
    (offset + length).div_ceil(block) - offset / block
}

impl Body for OpenRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let OpenRequest { chunk } = self;
        RawOpen { chunk: chunk.0 }.put(out);
        Ok(Kind::Open)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<OpenRequest, DecodeError> {
        let raw = RawOpen::get(&mut reader)?;
        reader.end()?;
        Ok(OpenRequest {
            chunk: ChunkIndex(raw.chunk),
        })
    }
}

impl Body for WriteRequest {
    fn put(&self, out: &mut Vec<u8>, payload_bytes: usize) -> Result<Kind, EncodeError> {
        let WriteRequest {
            chunk,
            offset_bytes,
            length_bytes,
            version,
            previous,
            sums,
        } = self;
        if *length_bytes as usize != payload_bytes || payload_bytes > Kind::Write.payload_bytes_max() {
            return Err(EncodeError::Payload {
                expected: *length_bytes as usize,
                found: payload_bytes,
            });
        }
        let expected = pieces(*offset_bytes, payload_bytes);
        if sums.len() != expected {
            return Err(EncodeError::Sums {
                expected,
                found: sums.len(),
            });
        }
        RawWrite {
            chunk: chunk.0,
            version: version.0,
            previous: previous.0,
            offset_bytes: *offset_bytes,
        }
        .put(out);
        put_sums(out, sums);
        Ok(Kind::Write)
    }

    fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<WriteRequest, DecodeError> {
        let raw = RawWrite::get(&mut reader)?;
        let sums = get_sums(reader, pieces(raw.offset_bytes, prefix.payload_bytes))?;
        Ok(WriteRequest {
            chunk: ChunkIndex(raw.chunk),
            offset_bytes: raw.offset_bytes,
            length_bytes: u32::try_from(prefix.payload_bytes).expect("the prefix bounds it"),
            version: Version(raw.version),
            previous: Version(raw.previous),
            sums,
        })
    }
}

impl Body for ClearRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let ClearRequest {
            chunk,
            range,
            version,
            previous,
        } = self;
        let BlockRange { first, count } = *range;
        RawClear {
            chunk: chunk.0,
            version: version.0,
            previous: previous.0,
            first: first.0,
            count,
        }
        .put(out);
        Ok(Kind::Clear)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<ClearRequest, DecodeError> {
        let raw = RawClear::get(&mut reader)?;
        reader.end()?;
        Ok(ClearRequest {
            chunk: ChunkIndex(raw.chunk),
            range: BlockRange::new(raw.first, raw.count),
            version: Version(raw.version),
            previous: Version(raw.previous),
        })
    }
}

impl Body for ReadRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let ReadRequest {
            chunk,
            range,
            least,
            versions,
            newest,
        } = self;
        let BlockRange { first, count } = *range;
        if u32::from(count) > MAX_IO_BLOCKS {
            return Err(EncodeError::Field {
                field: "blocks to read",
                value: count.into(),
            });
        }
        RawRead {
            chunk: chunk.0,
            least: least.0,
            first: first.0,
            count,
        }
        .put(out);
        if *versions {
            RawVersions { versions: 1 }.put(out);
        }
        put_newest(out, *newest);
        Ok(Kind::Read)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<ReadRequest, DecodeError> {
        let raw = RawRead::get(&mut reader)?;
        let versions = !matches!(reader.rest().len(), 0 | RawNewest::BYTES);
        if versions {
            let RawVersions { versions } = RawVersions::get(&mut reader)?;
            if versions != 1 {
                return Err(DecodeError::Field {
                    field: "are versions asked for",
                    value: versions.into(),
                });
            }
        }
        let newest = get_newest(reader)?;
        if u32::from(raw.count) > MAX_IO_BLOCKS {
            return Err(DecodeError::Field {
                field: "blocks to read",
                value: raw.count.into(),
            });
        }
        let range = BlockRange::new(raw.first, raw.count);
        Ok(ReadRequest {
            chunk: ChunkIndex(raw.chunk),
            range,
            least: Version(raw.least),
            versions,
            newest,
        })
    }
}

impl Body for AllocationRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let AllocationRequest { chunk, least, newest } = self;
        RawAllocation {
            chunk: chunk.0,
            least: least.0,
        }
        .put(out);
        put_newest(out, *newest);
        Ok(Kind::Allocation)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<AllocationRequest, DecodeError> {
        let raw = RawAllocation::get(&mut reader)?;
        Ok(AllocationRequest {
            chunk: ChunkIndex(raw.chunk),
            least: Version(raw.least),
            newest: get_newest(reader)?,
        })
    }
}

impl Body for DifferRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let DifferRequest {
            chunk,
            since,
            least,
            newest,
        } = self;
        RawDiffer {
            chunk: chunk.0,
            least: least.0,
            since: since.0,
        }
        .put(out);
        put_newest(out, *newest);
        Ok(Kind::Differ)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<DifferRequest, DecodeError> {
        let raw = RawDiffer::get(&mut reader)?;
        Ok(DifferRequest {
            chunk: ChunkIndex(raw.chunk),
            since: SnapshotId(raw.since),
            least: Version(raw.least),
            newest: get_newest(reader)?,
        })
    }
}

impl Body for RetainSnapshotsRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let RetainSnapshotsRequest {
            chunk,
            head,
            above,
            to,
            live,
        } = self;
        if live.len() > MAX_SNAPSHOTS {
            return Err(EncodeError::Field {
                field: "number of snapshots",
                value: live.len() as u64,
            });
        }
        RawKeep {
            chunk: chunk.0,
            above: above.0,
            to: to.0,
            head: u8::from(*head),
        }
        .put(out);
        for snapshot in live {
            out.extend_from_slice(&snapshot.0.to_le_bytes());
        }
        Ok(Kind::RetainSnapshots)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<RetainSnapshotsRequest, DecodeError> {
        let raw = RawKeep::get(&mut reader)?;
        let (live, rest) = reader.rest().as_chunks::<SNAPSHOT_BYTES>();
        Reader::new(rest).end()?;
        if raw.head > 1 {
            return Err(DecodeError::Field {
                field: "does the volume live on",
                value: raw.head.into(),
            });
        }
        Ok(RetainSnapshotsRequest {
            chunk: ChunkIndex(raw.chunk),
            head: raw.head == 1,
            above: SnapshotId(raw.above),
            to: SnapshotId(raw.to),
            live: live.iter().map(|raw| SnapshotId(u32::from_le_bytes(*raw))).collect(),
        })
    }
}

impl Body for CloneRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let CloneRequest { chunk, origin, at } = self;
        RawClone {
            chunk: chunk.0,
            origin: origin.0,
            at: at.0,
        }
        .put(out);
        Ok(Kind::Clone)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<CloneRequest, DecodeError> {
        let raw = RawClone::get(&mut reader)?;
        reader.end()?;
        Ok(CloneRequest {
            chunk: ChunkIndex(raw.chunk),
            origin: VolumeId(raw.origin),
            at: SnapshotId(raw.at),
        })
    }
}

impl Body for InheritRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let InheritRequest {
            chunk,
            version,
            parents,
        } = self;
        if parents.len() > MAX_LEVELS {
            return Err(EncodeError::Field {
                field: "number of parents",
                value: parents.len() as u64,
            });
        }
        RawInherit {
            chunk: chunk.0,
            version: version.0,
        }
        .put(out);
        for (volume, at) in parents {
            RawParent {
                volume: volume.0,
                at: at.0,
            }
            .put(out);
        }
        Ok(Kind::Inherit)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<InheritRequest, DecodeError> {
        let raw = RawInherit::get(&mut reader)?;
        let mut parents = Vec::new();
        // The kind bounds how many.
        while !reader.rest().is_empty() {
            let parent = RawParent::get(&mut reader)?;
            parents.push((VolumeId(parent.volume), SnapshotId(parent.at)));
        }
        reader.end()?;
        Ok(InheritRequest {
            chunk: ChunkIndex(raw.chunk),
            version: Version(raw.version),
            parents,
        })
    }
}
