//! A token as it travels (SPC-4, "ROD token format").
//!
//! ```text
//! | type (4) | reserved (2) | length (2) | identifier (8) | logical unit (32) | bytes represented (16) | reserved (16) | ... |
//! | 0        | 4            | 6          | 8              | 16                | 48                     | 64             96   |
//! | specific to disks (32) | body (384) |
//! | 96                     | 128        |
//! ```
//! All numbers are big-endian (SPC-4 5.17.6.4, table 111). What is behind byte 128 is the maker's own: here
//! it is what the token stands for, sealed.

use crate::sense::{Key, Sense, code};
use amita_types::BLOCK_BYTES;

/// Bytes of a token.
pub const TOKEN_BYTES: usize = 512;
/// The type "block device zero".
const ZEROS: u32 = 0xffff_0001;
/// The type "point in time copy, change vulnerable": the blocks as they were, or the token is worth nothing any more.
pub(super) const POINT_IN_TIME: u32 = 0x0080_0001;
/// ROD TOKEN LENGTH: what follows it.
const LENGTH: u16 = (TOKEN_BYTES - 8) as u16;
/// What comes before the body.
const HEAD_BYTES: usize = 128;
/// What the maker of a token keeps in it.
pub(super) const BODY_BYTES: usize = TOKEN_BYTES - HEAD_BYTES;

/// A token of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Unique among those of the cluster, and never used again.
    pub identifier: u64,
    /// The logical unit by whose blocks it was made.
    pub unit: [u8; 16],
    /// How many bytes it represents.
    pub bytes: u64,
    /// Bytes of a logical block of that logical unit: 512 or 4096.
    pub block_bytes: u32,
    /// What it stands for, sealed.
    pub body: [u8; BODY_BYTES],
}

impl Token {
    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; TOKEN_BYTES] {
        const IDENTIFICATION: u8 = 0xe4;
        const BINARY: u8 = 1;
        const UUID: u8 = 0xa;
        let mut bytes = [0; TOKEN_BYTES];
        bytes[..4].copy_from_slice(&POINT_IN_TIME.to_be_bytes());
        bytes[6..8].copy_from_slice(&LENGTH.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.identifier.to_be_bytes());
        // An identification descriptor, with the UUID's designator: its kind, a reserved byte, the UUID.
        bytes[16..26].copy_from_slice(&[IDENTIFICATION, 0, 0, 0, BINARY, UUID, 0, 18, 0x10, 0]);
        bytes[26..42].copy_from_slice(&self.unit);
        bytes[56..64].copy_from_slice(&self.bytes.to_be_bytes());
        // Of the data of READ CAPACITY (16): the length of a block, how many a physical one has, LBPME and LBPRZ (SBC-4 4.28.5).
        bytes[96..100].copy_from_slice(&self.block_bytes.to_be_bytes());
        bytes[101] = (BLOCK_BYTES / self.block_bytes.clamp(1, BLOCK_BYTES)).ilog2() as u8;
        bytes[102] = 0xc0;
        bytes[HEAD_BYTES..].copy_from_slice(&self.body);
        bytes
    }

    /// What comes before the body.
    pub(super) fn head(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&self.encode()[..HEAD_BYTES]);
        head
    }

    /// Of what a host hands in. It is not known yet whether there is such a one.
    ///
    /// # Errors
    /// INVALID TOKEN OPERATION: it is none of this cluster's.
    pub fn parse(bytes: &[u8; TOKEN_BYTES]) -> Result<Token, Sense> {
        check(bytes)?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(number)
        };
        let (mut unit, mut body) = ([0; 16], [0; BODY_BYTES]);
        unit.copy_from_slice(&bytes[26..42]);
        body.copy_from_slice(&bytes[HEAD_BYTES..]);
        let token = Token {
            identifier: number(8),
            unit,
            bytes: number(56),
            block_bytes: (number(96) >> 32) as u32,
            body,
        };
        // It is taken only as it was made.
        match token.encode() == *bytes {
            true => Ok(token),
            false => Err(invalid(code::TOKEN_UNKNOWN)),
        }
    }
}

pub(super) fn invalid(code: crate::sense::Code) -> Sense {
    Sense::new(Key::IllegalRequest, code).at(false, 16, None)
}

/// The type and the length.
fn check(bytes: &[u8; TOKEN_BYTES]) -> Result<u32, Sense> {
    let kind = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if u16::from_be_bytes([bytes[6], bytes[7]]) != LENGTH {
        return Err(invalid(code::INVALID_TOKEN_LENGTH));
    }
    match kind {
        ZEROS | POINT_IN_TIME => Ok(kind),
        _ => Err(invalid(code::UNSUPPORTED_TOKEN_TYPE)),
    }
}

/// Does it represent zeros?
///
/// # Errors
/// It is of no type that is known.
pub(super) fn is_zeros(bytes: &[u8; TOKEN_BYTES]) -> Result<bool, Sense> {
    Ok(check(bytes)? == ZEROS)
}
