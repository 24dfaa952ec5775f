//! Answers of a store that is brought up to date, or checked (R5).

use super::super::request::{CHANGE_BYTES, get_changes, put_changes};
use super::super::wire::{Reader, Wire, wire};
use super::super::{DecodeError, EncodeError, Kind, Prefix};
use super::{NO_MORE, exactly, from_to, get_incomplete, put_incomplete, put_more};
use amita_types::message::{
    AnswerBody, ChunkState, ChunksAnswer, JoinedAnswer, MAX_CHANGES, MAX_LISTED_CHUNKS, MAX_SNAPSHOTS, MendedAnswer,
    StateInfo, StatesAnswer, VerifiedAnswer,
};
use amita_types::{BlockIndex, ChunkIndex, SnapshotId, Version};

wire! {
    /// Goes on with the chunks. `more` is [`NO_MORE_CHUNKS`] at the end.
    RawHeld: 8 { more: u64, }
}
wire! {
    /// `incomplete` is zero where the chunk is whole.
    RawChunkState: 25 { chunk: u64, version: u64, incomplete: u64, is_incomplete: u8, }
}
wire! {
    /// `incomplete` is zero where the chunk is whole.
    RawJoined: 9 { incomplete: u64, is_incomplete: u8, }
}
wire! {
    /// Goes on with `damaged` blocks of two bytes each, then with the entries. `more` is [`NO_MORE`] at the end.
    RawVerified: 3 { more: u16, damaged: u8, }
}

wire! {
    /// Goes on with the states. `more` is zero at the end.
    RawStated: 12 { number: u32, born: u32, more: u32, }
}
wire! {
    /// `form` is 0: closed, 1: open, or 2: a mark.
    RawState: 17 { version: u64, above: u32, to: u32, form: u8, }
}

/// No chunk has this index.
const NO_MORE_CHUNKS: u64 = u64::MAX;
const BLOCK_INDEX_BYTES: usize = size_of::<u16>();

pub(in super::super) const HELD_BYTES: (usize, usize) =
    from_to(RawHeld::BYTES, MAX_LISTED_CHUNKS * RawChunkState::BYTES);
pub(in super::super) const JOINED_BYTES: (usize, usize) = exactly(RawJoined::BYTES);
pub(in super::super) const MENDED_BYTES: (usize, usize) = from_to(0, MAX_CHANGES * BLOCK_INDEX_BYTES);
pub(in super::super) const VERIFIED_BYTES: (usize, usize) =
    from_to(RawVerified::BYTES, MAX_CHANGES * (BLOCK_INDEX_BYTES + CHANGE_BYTES));

pub(in super::super) const STATED_BYTES: (usize, usize) = from_to(RawStated::BYTES, MAX_SNAPSHOTS * RawState::BYTES);

/// Appends a body of this room; its kind.
pub(super) fn put(out: &mut Vec<u8>, body: &AnswerBody) -> Result<Kind, EncodeError> {
    Ok(match body {
        AnswerBody::Chunks(ChunksAnswer { chunks, more }) => {
            if chunks.len() > MAX_LISTED_CHUNKS {
                return Err(EncodeError::Field {
                    field: "number of chunks",
                    value: chunks.len() as u64,
                });
            }
            let more = match more {
                None => NO_MORE_CHUNKS,
                Some(ChunkIndex(NO_MORE_CHUNKS)) => {
                    return Err(EncodeError::Field {
                        field: "next chunk",
                        value: NO_MORE_CHUNKS,
                    });
                }
                Some(chunk) => chunk.0,
            };
            RawHeld { more }.put(out);
            for state in chunks {
                let (incomplete, is_incomplete) = put_incomplete(state.incomplete);
                RawChunkState {
                    chunk: state.chunk.0,
                    version: state.version.0,
                    incomplete,
                    is_incomplete,
                }
                .put(out);
            }
            Kind::Held
        }
        AnswerBody::Joined(JoinedAnswer { incomplete }) => {
            let (incomplete, is_incomplete) = put_incomplete(*incomplete);
            RawJoined {
                incomplete,
                is_incomplete,
            }
            .put(out);
            Kind::Joined
        }
        AnswerBody::Mended(MendedAnswer { skipped }) => {
            put_blocks(out, skipped)?;
            Kind::Mended
        }
        AnswerBody::Verified(VerifiedAnswer { entries, damaged, more }) => {
            RawVerified {
                more: put_more(*more)?,
                damaged: u8::try_from(damaged.len()).unwrap_or(u8::MAX), // `put_blocks` refuses more than there may be
            }
            .put(out);
            put_blocks(out, damaged)?;
            put_changes(out, entries)?;
            Kind::Verified
        }
        AnswerBody::States(answer) => {
            put_states(out, answer)?;
            Kind::Stated
        }
        _ => {
            return Err(EncodeError::Unsupported {
                what: "an answer that is newer than the codec",
            });
        }
    })
}

/// Reads a body of this room.
pub(super) fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<AnswerBody, DecodeError> {
    Ok(match prefix.kind {
        Kind::Held => {
            let raw = RawHeld::get(&mut reader)?;
            let more = (raw.more != NO_MORE_CHUNKS).then_some(ChunkIndex(raw.more));
            AnswerBody::Chunks(ChunksAnswer {
                chunks: get_chunks(reader)?,
                more,
            })
        }
        Kind::Joined => {
            let raw = RawJoined::get(&mut reader)?;
            reader.end()?;
            AnswerBody::Joined(JoinedAnswer {
                incomplete: get_incomplete(raw.incomplete, raw.is_incomplete)?,
            })
        }
        Kind::Mended => {
            let (skipped, rest) = reader.rest().as_chunks::<BLOCK_INDEX_BYTES>();
            Reader::new(rest).end()?;
            AnswerBody::Mended(MendedAnswer {
                skipped: skipped.iter().map(|raw| BlockIndex(u16::from_le_bytes(*raw))).collect(),
            })
        }
        Kind::Verified => {
            let raw = RawVerified::get(&mut reader)?;
            let damaged = usize::from(raw.damaged);
            if damaged > MAX_CHANGES {
                return Err(DecodeError::Field {
                    field: "number of damaged blocks",
                    value: damaged as u64,
                });
            }
            let mut blocks = Vec::with_capacity(damaged);
            for _ in 0..damaged {
                blocks.push(BlockIndex(u16::from_le_bytes(*reader.array()?)));
            }
            AnswerBody::Verified(VerifiedAnswer {
                entries: get_changes(reader)?,
                damaged: blocks,
                more: (raw.more != NO_MORE).then_some(BlockIndex(raw.more)),
            })
        }
        Kind::Stated => AnswerBody::States(get_states(reader)?),
        other => return Err(DecodeError::Kind(other as u8)),
    })
}

fn put_states(out: &mut Vec<u8>, answer: &StatesAnswer) -> Result<(), EncodeError> {
    let StatesAnswer {
        number,
        born,
        states,
        more,
    } = answer;
    if states.len() > MAX_SNAPSHOTS {
        return Err(EncodeError::Field {
            field: "number of states",
            value: states.len() as u64,
        });
    }
    RawStated {
        number: number.0,
        born: born.0,
        more: more.unwrap_or(SnapshotId::HEAD).0,
    }
    .put(out);
    for state in states {
        RawState {
            version: state.version.0,
            above: state.above.0,
            to: state.to.0,
            form: match (state.open, state.mark) {
                (_, true) => 2,
                (open, false) => open.into(),
            },
        }
        .put(out);
    }
    Ok(())
}

/// States up to the end of the head, which bounds them.
fn get_states(mut reader: Reader<'_>) -> Result<StatesAnswer, DecodeError> {
    let raw = RawStated::get(&mut reader)?;
    let bytes = reader.rest().len();
    if !bytes.is_multiple_of(RawState::BYTES) {
        return Err(DecodeError::Field {
            field: "bytes of states",
            value: bytes as u64,
        });
    }
    let mut states = Vec::with_capacity(bytes / RawState::BYTES);
    for _ in 0..bytes / RawState::BYTES {
        let raw = RawState::get(&mut reader)?;
        if raw.form > 2 {
            return Err(DecodeError::Field {
                field: "the form of a state",
                value: raw.form.into(),
            });
        }
        states.push(StateInfo {
            above: SnapshotId(raw.above),
            to: SnapshotId(raw.to),
            version: Version(raw.version),
            open: raw.form == 1,
            mark: raw.form == 2,
        });
    }
    Ok(StatesAnswer {
        number: SnapshotId(raw.number),
        born: SnapshotId(raw.born),
        states,
        more: (raw.more != SnapshotId::HEAD.0).then_some(SnapshotId(raw.more)),
    })
}

fn put_blocks(out: &mut Vec<u8>, blocks: &[BlockIndex]) -> Result<(), EncodeError> {
    if blocks.len() > MAX_CHANGES {
        return Err(EncodeError::Field {
            field: "number of blocks",
            value: blocks.len() as u64,
        });
    }
    for block in blocks {
        out.extend_from_slice(&block.0.to_le_bytes());
    }
    Ok(())
}

/// Chunks up to the end of the head, which bounds them.
fn get_chunks(mut reader: Reader<'_>) -> Result<Vec<ChunkState>, DecodeError> {
    let bytes = reader.rest().len();
    if !bytes.is_multiple_of(RawChunkState::BYTES) {
        return Err(DecodeError::Field {
            field: "bytes of chunks",
            value: bytes as u64,
        });
    }
    let mut chunks = Vec::with_capacity(bytes / RawChunkState::BYTES);
    for _ in 0..bytes / RawChunkState::BYTES {
        let raw = RawChunkState::get(&mut reader)?;
        chunks.push(ChunkState {
            chunk: ChunkIndex(raw.chunk),
            version: Version(raw.version),
            incomplete: get_incomplete(raw.incomplete, raw.is_incomplete)?,
        });
    }
    Ok(chunks)
}
