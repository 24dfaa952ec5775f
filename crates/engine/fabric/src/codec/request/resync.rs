//! Requests by which a sequencer brings a store up to date, and checks it (R5).

use super::super::wire::{Reader, Wire, wire};
use super::super::{DecodeError, EncodeError, Kind, Prefix};
use super::{Body, exactly, from_to};
use amita_types::message::{
    ChunksRequest, Expect, JoinRequest, MAX_CHANGES, Mend, MendRequest, RestoreRequest, VerifyRequest, WholeRequest,
};
use amita_types::{BLOCK_BYTES, BlockIndex, ChunkIndex, SnapshotId, Version, VolumeId};

wire! { RawChunks: 16 { from: u64, groups: u32, core: u16, cores: u16, } }
wire! {
    /// Behind [`RawChunks`], where it is not the volume itself: a build that knows no clones meets none.
    RawPlace: 8 { place: u64, }
}
wire! { RawJoin: 16 { chunk: u64, at: u64, } }
wire! {
    /// Goes on with the entries.
    RawMend: 8 { chunk: u64, }
}
wire! {
    /// An entry of a `Mend`. What is not there is zero.
    RawMendEntry: 28 {
        version: u64,
        expect_version: u64,
        sum: u32,
        expect_sum: u32,
        block: u16,
        has_sum: u8,
        /// One of `EXPECT_…`.
        expect: u8,
    }
}
wire! { RawWhole: 16 { chunk: u64, version: u64, } }
wire! {
    /// Behind [`RawWhole`], where one of them is not zero: a build that knows no snapshots meets none.
    RawNumbers: 8 { number: u32, born: u32, }
}
wire! { RawVerify: 18 { chunk: u64, least: u64, from: u16, } }
wire! { RawRestore: 22 { chunk: u64, version: u64, sum: u32, block: u16, } }

/// The store has lost the entry.
const EXPECT_LOST: u8 = 0;
/// An entry without a checksum: unmapped, or never written.
const EXPECT_EMPTY: u8 = 1;
/// An entry with a checksum.
const EXPECT_DATA: u8 = 2;
/// Any entry up to a version, or none.
const EXPECT_UPTO: u8 = 3;

pub(in super::super) const CHUNKS_BYTES: (usize, usize) = from_to(RawChunks::BYTES, RawPlace::BYTES);
pub(in super::super) const JOIN_BYTES: (usize, usize) = exactly(RawJoin::BYTES);
pub(in super::super) const MEND_BYTES: (usize, usize) = from_to(RawMend::BYTES, MAX_CHANGES * RawMendEntry::BYTES);
pub(in super::super) const WHOLE_BYTES: (usize, usize) = from_to(RawWhole::BYTES, RawNumbers::BYTES);
pub(in super::super) const VERIFY_BYTES: (usize, usize) = exactly(RawVerify::BYTES);
pub(in super::super) const RESTORE_BYTES: (usize, usize) = exactly(RawRestore::BYTES);

impl Body for ChunksRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let &ChunksRequest {
            from,
            core,
            cores,
            groups,
            place,
        } = self;
        RawChunks {
            from: from.0,
            groups,
            core,
            cores,
        }
        .put(out);
        if let Some(place) = place {
            RawPlace { place: place.0 }.put(out);
        }
        Ok(Kind::Chunks)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<ChunksRequest, DecodeError> {
        let raw = RawChunks::get(&mut reader)?;
        let place = match reader.rest().is_empty() {
            true => None,
            false => Some(VolumeId(RawPlace::get(&mut reader)?.place)),
        };
        reader.end()?;
        Ok(ChunksRequest {
            from: ChunkIndex(raw.from),
            core: raw.core,
            cores: raw.cores,
            groups: raw.groups,
            place,
        })
    }
}

impl Body for JoinRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let JoinRequest { chunk, at } = self;
        RawJoin {
            chunk: chunk.0,
            at: at.0,
        }
        .put(out);
        Ok(Kind::Join)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<JoinRequest, DecodeError> {
        let raw = RawJoin::get(&mut reader)?;
        reader.end()?;
        Ok(JoinRequest {
            chunk: ChunkIndex(raw.chunk),
            at: Version(raw.at),
        })
    }
}

impl Body for MendRequest {
    fn put(&self, out: &mut Vec<u8>, payload_bytes: usize) -> Result<Kind, EncodeError> {
        let MendRequest { chunk, entries } = self;
        if entries.len() > MAX_CHANGES {
            return Err(EncodeError::Field {
                field: "number of entries",
                value: entries.len() as u64,
            });
        }
        let expected = data_bytes(entries);
        if expected != payload_bytes {
            return Err(EncodeError::Payload {
                expected,
                found: payload_bytes,
            });
        }
        RawMend { chunk: chunk.0 }.put(out);
        for entry in entries {
            put_mend(out, entry);
        }
        Ok(Kind::Mend)
    }

    fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<MendRequest, DecodeError> {
        let raw = RawMend::get(&mut reader)?;
        let entries = get_mends(&mut reader)?;
        if data_bytes(&entries) != prefix.payload_bytes {
            return Err(DecodeError::PayloadBytes {
                kind: prefix.kind,
                bytes: prefix.payload_bytes,
            });
        }
        reader.end()?;
        Ok(MendRequest {
            chunk: ChunkIndex(raw.chunk),
            entries,
        })
    }
}

impl Body for WholeRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let &WholeRequest {
            chunk,
            version,
            number,
            born,
        } = self;
        RawWhole {
            chunk: chunk.0,
            version: version.0,
        }
        .put(out);
        if (number, born) != (SnapshotId::HEAD, SnapshotId::HEAD) {
            RawNumbers {
                number: number.0,
                born: born.0,
            }
            .put(out);
        }
        Ok(Kind::Whole)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<WholeRequest, DecodeError> {
        let raw = RawWhole::get(&mut reader)?;
        let numbers = match reader.is_empty() {
            true => RawNumbers { number: 0, born: 0 },
            false => match RawNumbers::get(&mut reader)? {
                RawNumbers { number: 0, born: 0 } => {
                    return Err(DecodeError::Field {
                        field: "number of a snapshot",
                        value: 0,
                    });
                }
                numbers => numbers,
            },
        };
        reader.end()?;
        Ok(WholeRequest {
            chunk: ChunkIndex(raw.chunk),
            version: Version(raw.version),
            number: SnapshotId(numbers.number),
            born: SnapshotId(numbers.born),
        })
    }
}

impl Body for VerifyRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let VerifyRequest { chunk, from, least } = self;
        RawVerify {
            chunk: chunk.0,
            least: least.0,
            from: from.0,
        }
        .put(out);
        Ok(Kind::Verify)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<VerifyRequest, DecodeError> {
        let raw = RawVerify::get(&mut reader)?;
        reader.end()?;
        Ok(VerifyRequest {
            chunk: ChunkIndex(raw.chunk),
            from: BlockIndex(raw.from),
            least: Version(raw.least),
        })
    }
}

/// The payload that goes with entries: a block for each that puts data.
fn data_bytes(entries: &[Mend]) -> usize {
    entries.iter().filter(|entry| entry.sum.is_some()).count() * BLOCK_BYTES as usize
}

fn put_mend(out: &mut Vec<u8>, entry: &Mend) {
    let (expect, expect_version, expect_sum) = match entry.expect {
        Expect::Lost => (EXPECT_LOST, 0, 0),
        Expect::Entry { version, sum: None } => (EXPECT_EMPTY, version.0, 0),
        Expect::Entry {
            version,
            sum: Some(sum),
        } => (EXPECT_DATA, version.0, sum),
        Expect::Upto { version } => (EXPECT_UPTO, version.0, 0),
    };
    RawMendEntry {
        version: entry.version.0,
        expect_version,
        sum: entry.sum.unwrap_or(0),
        expect_sum,
        block: entry.block.0,
        has_sum: entry.sum.is_some().into(),
        expect,
    }
    .put(out);
}

/// Entries up to the end of the head, which bounds them.
fn get_mends(reader: &mut Reader<'_>) -> Result<Vec<Mend>, DecodeError> {
    let bytes = reader.rest().len();
    if !bytes.is_multiple_of(RawMendEntry::BYTES) || bytes > MAX_CHANGES * RawMendEntry::BYTES {
        return Err(DecodeError::Field {
            field: "bytes of entries",
            value: bytes as u64,
        });
    }
    let mut entries = Vec::with_capacity(bytes / RawMendEntry::BYTES);
    for _ in 0..bytes / RawMendEntry::BYTES {
        let raw = RawMendEntry::get(reader)?;
        let sum = match (raw.has_sum, raw.sum) {
            (1, sum) => Some(sum),
            (0, 0) => None,
            (other, _) => {
                return Err(DecodeError::Field {
                    field: "presence of a checksum",
                    value: other.into(),
                });
            }
        };
        let version = Version(raw.expect_version);
        let expect = match (raw.expect, raw.expect_version, raw.expect_sum) {
            (EXPECT_LOST, 0, 0) => Expect::Lost,
            (EXPECT_EMPTY, _, 0) => Expect::Entry { version, sum: None },
            (EXPECT_DATA, _, sum) => Expect::Entry {
                version,
                sum: Some(sum),
            },
            (EXPECT_UPTO, _, 0) => Expect::Upto { version },
            (other, _, _) => {
                return Err(DecodeError::Field {
                    field: "what is expected of an entry",
                    value: other.into(),
                });
            }
        };
        entries.push(Mend {
            block: BlockIndex(raw.block),
            expect,
            version: Version(raw.version),
            sum,
        });
    }
    Ok(entries)
}

impl Body for RestoreRequest {
    fn put(&self, out: &mut Vec<u8>, payload_bytes: usize) -> Result<Kind, EncodeError> {
        let expected = BLOCK_BYTES as usize;
        if expected != payload_bytes {
            return Err(EncodeError::Payload {
                expected,
                found: payload_bytes,
            });
        }
        let RestoreRequest {
            chunk,
            block,
            version,
            sum,
        } = self;
        RawRestore {
            chunk: chunk.0,
            version: version.0,
            sum: *sum,
            block: block.0,
        }
        .put(out);
        Ok(Kind::Restore)
    }

    fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<RestoreRequest, DecodeError> {
        let raw = RawRestore::get(&mut reader)?;
        reader.end()?;
        if prefix.payload_bytes != BLOCK_BYTES as usize {
            return Err(DecodeError::PayloadBytes {
                kind: prefix.kind,
                bytes: prefix.payload_bytes,
            });
        }
        Ok(RestoreRequest {
            chunk: ChunkIndex(raw.chunk),
            block: BlockIndex(raw.block),
            version: Version(raw.version),
            sum: raw.sum,
        })
    }
}
