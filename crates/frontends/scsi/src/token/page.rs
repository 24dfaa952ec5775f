//! The third-party copy page (SPC-4, "Third-party Copy VPD page"): what copies there are. Windows looks for it before it copies by token.

use super::form::POINT_IN_TIME;
use super::{DEFAULT_INACTIVITY_SECONDS, MAX_INACTIVITY_SECONDS, MAX_RANGES, MAX_TOKEN_BYTES};
use crate::copy::{MAX_DESCRIPTOR_BYTES, MAX_SEGMENT_BYTES, MAX_SEGMENTS, MAX_TARGETS};
use crate::opcodes::{THIRD_PARTY_COPY_IN, THIRD_PARTY_COPY_OUT, action};
use crate::unit::Unit;

/// Third-party copy descriptors, in order of their type.
mod kind {
    pub const TOKEN_LIMITS: u16 = 0x0000;
    pub const COMMANDS: u16 = 0x0001;
    pub const PARAMETERS: u16 = 0x0004;
    pub const DESCRIPTORS: u16 = 0x0008;
    pub const TOKEN_FEATURES: u16 = 0x0106;
    pub const TOKEN_TYPES: u16 = 0x0108;
    pub const GENERAL: u16 = 0x8001;
}

pub(crate) fn third_party_copy_page(unit: &Unit) -> Vec<u8> {
    let bodies = [
        (kind::TOKEN_LIMITS, token_limits(unit)),
        (kind::COMMANDS, commands()),
        (kind::PARAMETERS, parameters()),
        (kind::DESCRIPTORS, vec![2, 0x02, 0xe4]),
        (kind::TOKEN_FEATURES, token_features()),
        (kind::TOKEN_TYPES, token_types()),
        (kind::GENERAL, general()),
    ];
    let mut page = Vec::new();
    for (kind, mut body) in bodies {
        // A descriptor is a multiple of four long.
        body.resize(body.len().next_multiple_of(4), 0);
        page.extend(kind.to_be_bytes());
        page.extend((body.len() as u16).to_be_bytes());
        page.extend(body);
    }
    page
}

/// SBC-3, "Block Device ROD Token Limits descriptor".
fn token_limits(unit: &Unit) -> Vec<u8> {
    let blocks = MAX_TOKEN_BYTES / u64::from(unit.block_bytes);
    let mut body = vec![0; 6];
    body.extend(MAX_RANGES.to_be_bytes());
    body.extend(MAX_INACTIVITY_SECONDS.to_be_bytes());
    body.extend(DEFAULT_INACTIVITY_SECONDS.to_be_bytes());
    // MAXIMUM TOKEN TRANSFER SIZE, OPTIMAL TRANSFER COUNT.
    body.extend(blocks.to_be_bytes());
    body.extend((blocks / 16).to_be_bytes());
    body
}

/// Each operation code with its service actions.
fn commands() -> Vec<u8> {
    let out = [action::EXTENDED_COPY, action::POPULATE_TOKEN, action::WRITE_USING_TOKEN];
    let into = [
        action::COPY_STATUS,
        action::RECEIVE_DATA,
        action::OPERATING_PARAMETERS,
        action::FAILED_SEGMENT_DETAILS,
        action::ROD_TOKEN_INFORMATION,
    ];
    let mut body = vec![0, THIRD_PARTY_COPY_OUT, out.len() as u8];
    body.extend(out);
    body.extend([THIRD_PARTY_COPY_IN, into.len() as u8]);
    body.extend(into);
    body[0] = (body.len() - 1) as u8;
    body
}

fn parameters() -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(MAX_TARGETS.to_be_bytes());
    body.extend(MAX_SEGMENTS.to_be_bytes());
    body.extend(MAX_DESCRIPTOR_BYTES.to_be_bytes());
    // No inline data.
    body.extend([0; 16]);
    body
}

fn token_features() -> Vec<u8> {
    let mut body = vec![0; 44];
    // MINIMUM TOKEN LIFETIME stays 0; MAXIMUM TOKEN LIFETIME, MAXIMUM TOKEN INACTIVITY TIMEOUT.
    body[16..20].copy_from_slice(&MAX_INACTIVITY_SECONDS.to_be_bytes());
    body[20..24].copy_from_slice(&MAX_INACTIVITY_SECONDS.to_be_bytes());
    body
}

fn token_types() -> Vec<u8> {
    // TOKEN_IN, TOKEN_OUT.
    const BOTH_WAYS: u8 = 0x03;
    let mut descriptor = vec![0; 64];
    descriptor[..4].copy_from_slice(&POINT_IN_TIME.to_be_bytes());
    descriptor[4] = BOTH_WAYS;
    let mut body = vec![0, 0];
    body.extend((descriptor.len() as u16).to_be_bytes());
    body.extend(descriptor);
    body
}

fn general() -> Vec<u8> {
    const COPIES: u32 = 256;
    const GRANULARITY: u8 = 9;
    let mut body = vec![0; 32];
    body[..4].copy_from_slice(&COPIES.to_be_bytes());
    body[4..8].copy_from_slice(&COPIES.to_be_bytes());
    body[8..12].copy_from_slice(&MAX_SEGMENT_BYTES.to_be_bytes());
    body[12] = GRANULARITY;
    body
}
