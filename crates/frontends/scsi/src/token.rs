//! Copies by token (SPC-4, "ROD tokens"; SBC-3, "POPULATE TOKEN command" and "WRITE USING TOKEN command"): a host has the blocks of a logical unit
//! represented by a token, and hands that in where they are to be written: at any other logical unit of the cluster, by any gateway.
//!
//! A token is a point in time copy that changes make worthless: the blocks as they were when it was made, or nothing. No register of tokens is kept. What a
//! token stands for is [sealed](sealed) into it: where the blocks are, until when it holds, and [sums](sum) of them. The blocks are read once
//! when it is made, and summed again as they are copied: where a sum is another one, they have changed, and the copy fails as of a token that is
//! revoked. A token of zeros is the same everywhere and stands for itself.

mod form;
mod page;
mod rest;
mod sealed;
mod sum;
#[cfg(test)]
mod tests;

pub use form::{TOKEN_BYTES, Token};
pub(crate) use page::third_party_copy_page;
pub(crate) use rest::TokenRest;
pub use rest::begun;
pub(crate) use sealed::SECTION_BYTES;
pub use sealed::{KEY_BYTES, TokenKeys};
pub use sum::{Sum, Summer};

use crate::block::{be_u32, be_u64, check_writable, extent, out_of_range};
use crate::copy::{Known, ListId, Outcome};
use crate::device::Scope;
use crate::nexus::Nexus;
use crate::opcodes::action;
use crate::plan::{Answer, Extent, Place, Plan};
use crate::sense::{Format, Key, Sense, code};

/// The most ranges of one command: MAXIMUM RANGE DESCRIPTORS. So many have room in a token.
pub const MAX_RANGES: u16 = 8;
/// The most bytes that one token represents: MAXIMUM TOKEN TRANSFER SIZE. Hosts wait some seconds for a token, and for what is written by one.
pub const MAX_TOKEN_BYTES: u64 = 64 << 20;
/// Sections of one token that are summed by themselves, at the most.
pub const MAX_SECTIONS: usize = sealed::MAX_SECTIONS;
/// How long a token holds, in seconds, at the most and if nothing else is asked for.
pub const MAX_INACTIVITY_SECONDS: u32 = 600;
pub const DEFAULT_INACTIVITY_SECONDS: u32 = 60;

const RANGE_BYTES: usize = 16;
/// What comes before the ranges, in the list of POPULATE TOKEN and in that of WRITE USING TOKEN.
const POPULATE_BYTES: usize = 16;
const WRITE_BYTES: usize = 536;

/// Something to be done with a token; [`begun`] says what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenWork {
    /// One is made for these bytes, in order.
    Create {
        /// By which the host asks for it.
        list: u32,
        /// The logical unit that is asked.
        unit: [u8; 16],
        place: Place,
        extents: Vec<Extent>,
        /// How long it holds.
        inactivity_seconds: u32,
    },
    /// It is opened, and what it stands for is written.
    Redeem {
        list: u32,
        token: Box<[u8; TOKEN_BYTES]>,
        /// Where it is written, in order.
        place: Place,
        extents: Vec<Extent>,
        /// So many bytes of what it represents come before what is written.
        skip_bytes: u64,
    },
}

/// LIST IDENTIFIER: bytes 6 to 9 of both commands.
fn list_id(scope: &Scope<'_>) -> u32 {
    scope.cdb.u32(6)
}

fn too_short() -> Sense {
    Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH)
}

/// POPULATE TOKEN. Nothing is left for later: IMMED changes nothing.
pub(crate) fn populate(scope: &Scope<'_>, list: &[u8], nexus: &mut Nexus) -> Result<Plan, Answer> {
    const TYPE_IS_VALID: u8 = 0x02;
    let ranges = ranges(scope, list, POPULATE_BYTES)?;
    let inactivity_seconds = match be_u32(&list[4..]) {
        0 => DEFAULT_INACTIVITY_SECONDS,
        seconds if seconds <= MAX_INACTIVITY_SECONDS => seconds,
        _ => return Err(Sense::in_list(4, None).into()),
    };
    if list[2] & TYPE_IS_VALID != 0 && be_u32(&list[8..]) != form::POINT_IN_TIME {
        return Err(Sense::new(Key::IllegalRequest, code::UNSUPPORTED_TOKEN_TYPE)
            .at(false, 8, None)
            .into());
    }
    let bytes: u64 = ranges.iter().map(|range| range.length).sum();
    if bytes > MAX_TOKEN_BYTES {
        return Err(Sense::in_list(POPULATE_BYTES as u16, None).into());
    }
    let list = list_id(scope);
    nexus.copies.check_free(ListId(list))?;
    if ranges.is_empty() {
        // Nothing is represented, and nothing would be read by it.
        let outcome = Outcome::of(action::POPULATE_TOKEN, 0, 0, scope.unit.block_bytes);
        nexus.copies.keep(ListId(list), outcome);
        return Ok(Answer::good().into());
    }
    Ok(Plan::Token(Box::new(TokenWork::Create {
        list,
        unit: scope.unit.uuid,
        place: Place::of(scope.unit),
        extents: ranges,
        inactivity_seconds,
    })))
}

/// WRITE USING TOKEN. DEL_TKN is not looked at: nothing is kept of a token that could be given up, and it ends by itself.
pub(crate) fn write(scope: &Scope<'_>, list: &[u8], nexus: &mut Nexus) -> Result<Plan, Answer> {
    check_writable(scope.unit, nexus)?;
    let extents = ranges(scope, list, WRITE_BYTES)?;
    let token: [u8; TOKEN_BYTES] = *list[16..].first_chunk().ok_or(too_short())?;
    let skip_blocks = be_u64(&list[8..]);
    let bytes: u64 = extents.iter().map(|extent| extent.length).sum();
    if bytes > MAX_TOKEN_BYTES {
        return Err(Sense::in_list(WRITE_BYTES as u16, None).into());
    }
    let list_id = list_id(scope);
    nexus.copies.check_free(ListId(list_id))?;
    let place = Place::of(scope.unit);
    if form::is_zeros(&token)? {
        return Ok(rest::zeros(ListId(list_id), place, &extents, nexus));
    }
    let skip_bytes = skip_blocks
        .checked_mul(u64::from(scope.unit.block_bytes))
        .ok_or(Sense::in_list(8, None))?;
    Ok(Plan::Token(Box::new(TokenWork::Redeem {
        list: list_id,
        token: Box::new(token),
        place,
        extents,
        skip_bytes,
    })))
}

/// The block device range descriptors behind a header, as bytes of the logical unit; those of nothing are left out.
fn ranges(scope: &Scope<'_>, list: &[u8], header_bytes: usize) -> Result<Vec<Extent>, Sense> {
    let (header, descriptors) = list.split_at_checked(header_bytes).ok_or(too_short())?;
    let length = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let told = length(header_bytes - 2);
    // The first length counts all that follows it.
    let all = length(0) + 2;
    if all < header_bytes || told > descriptors.len() || all - header_bytes < told {
        return Err(Sense::in_list((header_bytes - 2) as u16, None));
    }
    if !told.is_multiple_of(RANGE_BYTES) {
        return Err(Sense::in_list((header_bytes - 2) as u16, None));
    }
    if told / RANGE_BYTES > usize::from(MAX_RANGES) {
        return Err(Sense::new(Key::IllegalRequest, code::TOO_MANY_SEGMENT_DESCRIPTORS));
    }
    let mut found: Vec<Extent> = Vec::with_capacity(told / RANGE_BYTES);
    for (index, bytes) in descriptors[..told].chunks_exact(RANGE_BYTES).enumerate() {
        let (lba, count) = (be_u64(bytes), u64::from(be_u32(&bytes[8..])));
        let range = extent(scope.unit, lba, count).ok_or_else(|| out_of_range(scope.unit, lba))?;
        // "[...] a logical block in more than one range: INVALID FIELD IN PARAMETER LIST".
        if range.length > 0 && found.iter().any(|known| known.overlaps(&range)) {
            return Err(Sense::in_list((header_bytes + index * RANGE_BYTES) as u16, None));
        }
        if range.length > 0 {
            found.push(range);
        }
    }
    Ok(found)
}

impl Outcome {
    /// Of a command that has gone well.
    fn of(action: u8, segments: u16, bytes: u64, block_bytes: u32) -> Outcome {
        Outcome {
            action,
            segments,
            bytes,
            failure: None,
            block_bytes,
            token: None,
        }
    }

    /// Of one that has done nothing, and why.
    fn failed(action: u8, block_bytes: u32, why: Sense) -> Outcome {
        let failure = Some(why);
        Outcome {
            failure,
            ..Outcome::of(action, 0, 0, block_bytes)
        }
    }
}

/// RECEIVE ROD TOKEN INFORMATION (SPC-4, table 249: COPY OPERATION STATUS).
pub(crate) fn information(known: Known<'_>) -> Vec<u8> {
    const COMPLETED: u8 = 0x01;
    const COMPLETED_WITH_ERRORS: u8 = 0x02;
    const IN_FOREGROUND: u8 = 0x11;
    // TRANSFER COUNT UNITS: logical blocks.
    const BLOCKS: u8 = 0xf1;
    const CHECK_CONDITION: u8 = 0x02;
    let outcome = match known {
        Known::Ended(outcome) => outcome,
        Known::UnderWay(action) => {
            // Neither sense data nor a token; how far it has come is not told.
            let mut data = vec![0; 36];
            (data[3], data[4], data[5], data[15]) = (32, action, IN_FOREGROUND, BLOCKS);
            return data;
        }
    };
    let sense = outcome
        .failure
        .map(|sense| sense.encode(Format::Fixed))
        .unwrap_or_default();
    let mut data = vec![0; 32];
    data[4] = outcome.action;
    data[5] = if outcome.failure.is_some() {
        COMPLETED_WITH_ERRORS
    } else {
        COMPLETED
    };
    // OPERATION COUNTER: it was one.
    data[7] = 1;
    data[12] = if outcome.failure.is_some() { CHECK_CONDITION } else { 0 };
    data[13] = sense.len() as u8;
    data[14] = sense.len() as u8;
    data[15] = BLOCKS;
    let blocks = outcome.bytes / u64::from(outcome.block_bytes.max(1));
    data[16..24].copy_from_slice(&blocks.to_be_bytes());
    // SEGMENTS PROCESSED is 0: a copy by token has none.
    data.extend(sense);
    match &outcome.token {
        // ROD TOKEN DESCRIPTORS LENGTH, two reserved bytes, the token.
        Some(token) => {
            data.extend((TOKEN_BYTES as u32 + 2).to_be_bytes());
            data.extend([0, 0]);
            data.extend(&token[..]);
        }
        None => data.extend([0; 4]),
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}
