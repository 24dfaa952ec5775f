//! Answers of a store. The common ones fit in 64 bytes and go out back to back.

mod resync;

pub(super) use resync::{HELD_BYTES, JOINED_BYTES, MENDED_BYTES, STATED_BYTES, VERIFIED_BYTES};

use super::control::{get_generation, no_payload};
use super::request::{CHANGE_BYTES, SUM_BYTES, get_changes, get_sums, put_changes, put_sums};
use super::wire::{Reader, Wire, wire};
use super::{DecodeError, EncodeError, Kind, Prefix};
use amita_types::io::Differs;
use amita_types::message::{
    AllocationAnswer, Answer, AnswerBody, ChangesAnswer, DataAnswer, DiffersAnswer, MAX_CHANGES, OpenedAnswer, Problem,
    Refusal, Run, SettledAnswer,
};
use amita_types::{
    BLOCK_BYTES, BlockIndex, Epoch, Generation, MAX_BLOCKS_PER_CHUNK, MAX_IO_BLOCKS, RequestId, SnapshotId, StoreId,
    Version,
};

wire! {
    /// What every answer begins with.
    RawAnswer: 30 { id: u64, store: u128, credit_blocks: u32, lease_ms: u16, }
}
wire! {
    /// `incomplete` is zero where the chunk is whole.
    RawOpened: 17 { version: u64, incomplete: u64, is_incomplete: u8, }
}
wire! {
    /// Behind [`RawOpened`], where it is not zero: a build that knows no snapshots meets none.
    RawNumber: 4 { number: u32, }
}
wire! {
    /// `full` is 0 or 1.
    RawSettled: 1 { full: u8, }
}
wire! { RawData: 8 { version: u64, } }
wire! {
    /// Behind the sums of a [`RawData`], where versions were asked for.
    RawRun: 10 { version: u64, blocks: u16, }
}
wire! {
    /// Behind the bitmaps, where it was asked for.
    RawVersion: 8 { version: u64, }
}
wire! {
    /// `more` is [`NO_MORE`] at the end.
    RawListed: 2 { more: u16, }
}
wire! {
    /// `detail` is what the refusal says: an epoch, a generation, a version, a block, a problem; else zero.
    RawRefused: 9 { detail: u64, code: u8, }
}

/// No block has this index.
const NO_MORE: u16 = u16::MAX;
const _: () = assert!(MAX_BLOCKS_PER_CHUNK <= NO_MORE as u32);

/// Words of the bitmap of a chunk's blocks.
const BITMAP_WORDS: usize = MAX_BLOCKS_PER_CHUNK as usize / 64;

const fn exactly(bytes: usize) -> (usize, usize) {
    (RawAnswer::BYTES + bytes, RawAnswer::BYTES + bytes)
}
const fn from_to(least: usize, more: usize) -> (usize, usize) {
    (RawAnswer::BYTES + least, RawAnswer::BYTES + least + more)
}

pub(super) const SETTLED_BYTES: (usize, usize) = exactly(RawSettled::BYTES);
pub(super) const PLAIN_BYTES: (usize, usize) = exactly(0);
pub(super) const OPENED_BYTES: (usize, usize) = from_to(RawOpened::BYTES, RawNumber::BYTES);
pub(super) const DATA_BYTES: (usize, usize) =
    from_to(RawData::BYTES, MAX_IO_BLOCKS as usize * (SUM_BYTES + RawRun::BYTES));
pub(super) const LISTED_BYTES: (usize, usize) = from_to(RawListed::BYTES, MAX_CHANGES * CHANGE_BYTES);
pub(super) const ALLOCATED_BYTES: (usize, usize) = from_to(BITMAP_WORDS * size_of::<u64>(), RawVersion::BYTES);
pub(super) const DIFFERS_BYTES: (usize, usize) = from_to(2 * BITMAP_WORDS * size_of::<u64>(), RawVersion::BYTES);
pub(super) const REFUSED_BYTES: (usize, usize) = exactly(RawRefused::BYTES);

pub(super) fn put(out: &mut Vec<u8>, answer: &Answer, payload_bytes: usize) -> Result<Kind, EncodeError> {
    let &Answer {
        id,
        store,
        lease_ms,
        credit_blocks,
        ..
    } = answer;
    RawAnswer {
        id: id.0,
        store: store.0,
        credit_blocks,
        lease_ms,
    }
    .put(out);
    if !matches!(answer.result, Ok(AnswerBody::Data(_))) {
        no_payload(payload_bytes)?;
    }
    let body = match &answer.result {
        Ok(body) => body,
        Err(refusal) => {
            put_refusal(out, refusal)?;
            return Ok(Kind::Refused);
        }
    };
    Ok(match body {
        AnswerBody::Fenced => Kind::Fenced,
        AnswerBody::Opened(OpenedAnswer {
            version,
            incomplete,
            number,
        }) => {
            let (incomplete, is_incomplete) = put_incomplete(*incomplete);
            RawOpened {
                version: version.0,
                incomplete,
                is_incomplete,
            }
            .put(out);
            if *number != SnapshotId::HEAD {
                RawNumber { number: number.0 }.put(out);
            }
            Kind::Opened
        }
        AnswerBody::Done => Kind::Done,
        AnswerBody::Data(DataAnswer { version, sums, runs }) => {
            let expected = sums.len() * BLOCK_BYTES as usize;
            if payload_bytes != expected || sums.len() > MAX_IO_BLOCKS as usize {
                return Err(EncodeError::Payload {
                    expected,
                    found: payload_bytes,
                });
            }
            RawData { version: version.0 }.put(out);
            put_sums(out, sums);
            put_runs(out, runs, sums.len())?;
            Kind::Data
        }
        AnswerBody::Changes(ChangesAnswer { entries, more }) => {
            let more = put_more(*more)?;
            RawListed { more }.put(out);
            put_changes(out, entries)?;
            Kind::Listed
        }
        AnswerBody::LeaseRenewed => Kind::LeaseRenewed,
        &AnswerBody::Settled(SettledAnswer { full }) => {
            RawSettled { full: u8::from(full) }.put(out);
            Kind::Settled
        }
        AnswerBody::Allocation(AllocationAnswer { allocated, version }) => {
            for word in allocated.iter() {
                out.extend_from_slice(&word.to_le_bytes());
            }
            put_version(out, *version);
            Kind::Allocated
        }
        AnswerBody::Differs(DiffersAnswer { differs, version }) => {
            for word in differs.changed.iter().chain(&differs.allocated) {
                out.extend_from_slice(&word.to_le_bytes());
            }
            put_version(out, *version);
            Kind::Differs
        }
        AnswerBody::Chunks(_)
        | AnswerBody::Joined(_)
        | AnswerBody::Mended(_)
        | AnswerBody::Verified(_)
        | AnswerBody::States(_) => resync::put(out, body)?,
    })
}

fn put_runs(out: &mut Vec<u8>, runs: &[Run], blocks: usize) -> Result<(), EncodeError> {
    if runs.len() > blocks {
        return Err(EncodeError::Field {
            field: "number of versions",
            value: runs.len() as u64,
        });
    }
    for &Run { blocks, version } in runs {
        let version = version.0;
        RawRun { version, blocks }.put(out);
    }
    Ok(())
}

/// Up to the end of the head; none where nobody has asked for them. Whether they fit the blocks is for who has asked to judge.
fn get_runs(mut reader: Reader<'_>, blocks: usize) -> Result<Box<[Run]>, DecodeError> {
    let bytes = reader.rest().len();
    if !bytes.is_multiple_of(RawRun::BYTES) || bytes > blocks * RawRun::BYTES {
        return Err(DecodeError::Field {
            field: "bytes of versions",
            value: bytes as u64,
        });
    }
    let mut runs = Vec::with_capacity(bytes / RawRun::BYTES);
    while !reader.is_empty() {
        let RawRun { version, blocks } = RawRun::get(&mut reader)?;
        let version = Version(version);
        runs.push(Run { blocks, version });
    }
    Ok(runs.into())
}

fn put_version(out: &mut Vec<u8>, version: Option<Version>) {
    if let Some(Version(version)) = version {
        RawVersion { version }.put(out);
    }
}

/// The rest of the head.
fn get_version(mut reader: Reader<'_>) -> Result<Option<Version>, DecodeError> {
    if reader.is_empty() {
        return Ok(None);
    }
    let RawVersion { version } = RawVersion::get(&mut reader)?;
    reader.end()?;
    Ok(Some(Version(version)))
}

/// Where to go on listing blocks.
fn put_more(more: Option<BlockIndex>) -> Result<u16, EncodeError> {
    match more {
        None => Ok(NO_MORE),
        Some(BlockIndex(NO_MORE)) => Err(EncodeError::Field {
            field: "next block",
            value: NO_MORE.into(),
        }),
        Some(block) => Ok(block.0),
    }
}

/// The version at which an incomplete chunk was last whole, and whether it is incomplete.
fn put_incomplete(incomplete: Option<Version>) -> (u64, u8) {
    (incomplete.map_or(0, |at| at.0), incomplete.is_some().into())
}

/// See [`put_incomplete`].
fn get_incomplete(at: u64, is_incomplete: u8) -> Result<Option<Version>, DecodeError> {
    match (is_incomplete, at) {
        (1, at) => Ok(Some(Version(at))),
        (0, 0) => Ok(None),
        (other, _) => Err(DecodeError::Field {
            field: "is the chunk incomplete",
            value: other.into(),
        }),
    }
}

fn put_refusal(out: &mut Vec<u8>, refusal: &Refusal) -> Result<(), EncodeError> {
    let (code, detail) = match *refusal {
        Refusal::StaleEpoch { epoch } => (1, epoch.0),
        Refusal::NotFenced => (2, 0),
        Refusal::Fenced { generation } if generation > Generation::MAX => {
            return Err(EncodeError::Field {
                field: "generation",
                value: generation.0.into(),
            });
        }
        Refusal::Fenced { generation } => (3, generation.0.into()),
        Refusal::WrongPredecessor { current } => (4, current.0),
        Refusal::Behind { current } => (5, current.0),
        Refusal::Damaged { block } => (6, block.0.into()),
        Refusal::NoSpace => (7, 0),
        Refusal::Invalid { what } => (8, what as u64),
        Refusal::Poisoned => (9, 0),
        Refusal::NoSuchStore => (10, 0),
        Refusal::Busy => (11, 0),
        Refusal::Incomplete => (12, 0),
        _ => {
            return Err(EncodeError::Unsupported {
                what: "a refusal that is newer than the codec",
            });
        }
    };
    RawRefused { detail, code }.put(out);
    Ok(())
}

pub(super) fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<Answer, DecodeError> {
    let raw = RawAnswer::get(&mut reader)?;
    let result = match prefix.kind {
        Kind::Refused => Err(get_refusal(reader)?),
        _ => Ok(get_body(prefix, reader)?),
    };
    Ok(Answer {
        id: RequestId(raw.id),
        store: StoreId(raw.store),
        lease_ms: raw.lease_ms,
        credit_blocks: raw.credit_blocks,
        waited: Default::default(),
        trace: None,
        result,
    })
}

fn get_body(prefix: Prefix, mut reader: Reader<'_>) -> Result<AnswerBody, DecodeError> {
    Ok(match prefix.kind {
        Kind::Fenced => {
            reader.end()?;
            AnswerBody::Fenced
        }
        Kind::Opened => {
            let raw = RawOpened::get(&mut reader)?;
            let number = match reader.is_empty() {
                true => SnapshotId::HEAD,
                false => super::forward::written(SnapshotId(RawNumber::get(&mut reader)?.number))?,
            };
            reader.end()?;
            AnswerBody::Opened(OpenedAnswer {
                version: Version(raw.version),
                incomplete: get_incomplete(raw.incomplete, raw.is_incomplete)?,
                number,
            })
        }
        Kind::Done => {
            reader.end()?;
            AnswerBody::Done
        }
        Kind::Data => {
            let raw = RawData::get(&mut reader)?;
            let bytes = prefix.payload_bytes;
            if !bytes.is_multiple_of(BLOCK_BYTES as usize) {
                return Err(DecodeError::PayloadBytes {
                    kind: prefix.kind,
                    bytes,
                });
            }
            let blocks = bytes / BLOCK_BYTES as usize;
            let (sums, behind) = reader
                .rest()
                .split_at_checked(blocks * SUM_BYTES)
                .ok_or(DecodeError::HeadShort)?;
            AnswerBody::Data(DataAnswer {
                version: Version(raw.version),
                sums: get_sums(Reader::new(sums), blocks)?,
                runs: get_runs(Reader::new(behind), blocks)?,
            })
        }
        Kind::Listed => {
            let raw = RawListed::get(&mut reader)?;
            let more = (raw.more != NO_MORE).then_some(BlockIndex(raw.more));
            AnswerBody::Changes(ChangesAnswer {
                entries: get_changes(reader)?,
                more,
            })
        }
        Kind::LeaseRenewed => {
            reader.end()?;
            AnswerBody::LeaseRenewed
        }
        Kind::Settled => {
            let RawSettled { full } = RawSettled::get(&mut reader)?;
            reader.end()?;
            match full {
                0 | 1 => AnswerBody::Settled(SettledAnswer { full: full == 1 }),
                other => {
                    return Err(DecodeError::Field {
                        field: "is the store full",
                        value: other.into(),
                    });
                }
            }
        }
        Kind::Allocated => {
            let mut allocated = Box::new([0; BITMAP_WORDS]);
            for word in allocated.iter_mut() {
                *word = u64::from_le_bytes(*reader.array()?);
            }
            let version = get_version(reader)?;
            AnswerBody::Allocation(AllocationAnswer { allocated, version })
        }
        Kind::Differs => {
            let mut differs = Box::new(Differs::default());
            let Differs { changed, allocated } = &mut *differs;
            for word in changed.iter_mut().chain(allocated) {
                *word = u64::from_le_bytes(*reader.array()?);
            }
            let version = get_version(reader)?;
            AnswerBody::Differs(DiffersAnswer { differs, version })
        }
        _ => resync::get(prefix, reader)?,
    })
}

fn get_refusal(mut reader: Reader<'_>) -> Result<Refusal, DecodeError> {
    let RawRefused { detail, code } = RawRefused::get(&mut reader)?;
    reader.end()?;
    let out_of_range = DecodeError::Field {
        field: "detail of a refusal",
        value: detail,
    };
    let plain = |refusal| {
        if detail == 0 {
            Ok(refusal)
        } else {
            Err(out_of_range.clone())
        }
    };
    match code {
        1 => Ok(Refusal::StaleEpoch { epoch: Epoch(detail) }),
        2 => plain(Refusal::NotFenced),
        3 => {
            let value = u32::try_from(detail).map_err(|_| out_of_range)?;
            Ok(Refusal::Fenced {
                generation: get_generation(value)?,
            })
        }
        4 => Ok(Refusal::WrongPredecessor {
            current: Version(detail),
        }),
        5 => Ok(Refusal::Behind {
            current: Version(detail),
        }),
        6 => {
            let block = u16::try_from(detail).map_err(|_| out_of_range)?;
            Ok(Refusal::Damaged {
                block: BlockIndex(block),
            })
        }
        7 => plain(Refusal::NoSpace),
        8 => {
            let what = match detail {
                1 => Problem::Range,
                2 => Problem::Length,
                3 => Problem::Checksum,
                4 => Problem::Version,
                5 => Problem::Members,
                6 => Problem::Snapshot,
                7 => Problem::Number,
                _ => return Err(out_of_range),
            };
            Ok(Refusal::Invalid { what })
        }
        9 => plain(Refusal::Poisoned),
        10 => plain(Refusal::NoSuchStore),
        11 => plain(Refusal::Busy),
        12 => plain(Refusal::Incomplete),
        _ => Err(DecodeError::Field {
            field: "code of a refusal",
            value: code.into(),
        }),
    }
}
