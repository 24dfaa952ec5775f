//! RECEIVE COPY RESULTS (SPC-4): what became of copies, and what can be copied.

use super::{Known, ListId, MAX_DESCRIPTOR_BYTES, MAX_SEGMENT_BYTES, MAX_SEGMENTS, MAX_TARGETS, Outcome};
use crate::device::Scope;
use crate::nexus::Nexus;
use crate::opcodes::action;
use crate::plan::Answer;
use crate::sense::{Format, Sense};
use crate::token;

pub(crate) fn results(scope: &Scope<'_>, nexus: &Nexus) -> Result<Answer, Sense> {
    let cdb = &scope.cdb;
    // "[...] a list identifier of no copy: INVALID FIELD IN CDB".
    let unknown = Sense::in_cdb(2, None);
    let of_short = || nexus.copies.find(ListId(cdb.u8(2).into())).ok_or(unknown);
    let ended = || match of_short()? {
        Known::Ended(outcome) => Ok(outcome),
        Known::UnderWay(_) => Err(unknown),
    };
    let data = match cdb.service_action() {
        action::COPY_STATUS => match of_short()? {
            Known::Ended(outcome) => copy_status(outcome),
            // How far it has come is not told.
            Known::UnderWay(_) => with_length(vec![0; 12]),
        },
        // No copy here holds data back.
        action::RECEIVE_DATA => {
            ended()?;
            vec![0; 4]
        }
        action::FAILED_SEGMENT_DETAILS => failed_segment(ended()?),
        action::ROD_TOKEN_INFORMATION => {
            let found = nexus.copies.find(ListId(cdb.u32(2)));
            token::information(found.ok_or(unknown)?)
        }
        _ => operating_parameters(),
    };
    Ok(Answer::with_data(data, u64::from(cdb.u32(10))))
}

fn with_length(mut data: Vec<u8>) -> Vec<u8> {
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

/// COPY STATUS of a copy that has ended, as it has when it is answered.
fn copy_status(outcome: &Outcome) -> Vec<u8> {
    const COMPLETED: u8 = 0x01;
    const COMPLETED_WITH_ERRORS: u8 = 0x02;
    // TRANSFER COUNT UNITS: bytes, KiB, MiB, GiB: the first in which it has room.
    const UNITS: [u8; 4] = [0x00, 0x01, 0x02, 0x03];
    let unit = UNITS
        .into_iter()
        .find(|unit| outcome.bytes >> (10 * *unit) <= u64::from(u32::MAX))
        .unwrap_or(UNITS[3]);
    let count = u32::try_from(outcome.bytes >> (10 * unit)).unwrap_or(u32::MAX);
    let status = if outcome.failure.is_some() {
        COMPLETED_WITH_ERRORS
    } else {
        COMPLETED
    };
    let [high, low] = outcome.segments.to_be_bytes();
    let mut data = vec![0, 0, 0, 0, status, high, low, unit];
    data.extend(count.to_be_bytes());
    with_length(data)
}

/// FAILED SEGMENT DETAILS: nothing, of a copy that has not failed.
fn failed_segment(outcome: &Outcome) -> Vec<u8> {
    const CHECK_CONDITION: u8 = 0x02;
    let Some(sense) = outcome.failure else {
        return vec![0; 4];
    };
    let sense = sense.encode(Format::Fixed);
    let mut data = vec![0; 60];
    data[56] = CHECK_CONDITION;
    data[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
    data.extend(sense);
    with_length(data)
}

/// OPERATING PARAMETERS.
fn operating_parameters() -> Vec<u8> {
    // SNLID: lists without an identifier are taken.
    const SNLID: u8 = 0x01;
    const COPIES: u16 = 256;
    // In powers of two, in bytes: no count of blocks is too odd.
    const GRANULARITY: u8 = 9;
    const DESCRIPTORS: [u8; 2] = [0x02, 0xe4];
    let mut data = vec![0; 44];
    data[4] = SNLID;
    data[8..10].copy_from_slice(&MAX_TARGETS.to_be_bytes());
    data[10..12].copy_from_slice(&MAX_SEGMENTS.to_be_bytes());
    data[12..16].copy_from_slice(&MAX_DESCRIPTOR_BYTES.to_be_bytes());
    data[16..20].copy_from_slice(&MAX_SEGMENT_BYTES.to_be_bytes());
    // Neither inline nor held data; TOTAL CONCURRENT COPIES, MAXIMUM CONCURRENT COPIES.
    data[34..36].copy_from_slice(&COPIES.to_be_bytes());
    data[36] = u8::MAX;
    data[37] = GRANULARITY;
    data[43] = DESCRIPTORS.len() as u8;
    data.extend(DESCRIPTORS);
    with_length(data)
}
