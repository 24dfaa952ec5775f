//! What a volume is cut into, and how it is named.

use crate::codec::Malformed;
use std::fmt;

/// The unit of volumes and changes.
pub const BLOCK_BYTES: usize = 4096;
/// The longest piece of data: what is written at once is found again as one; a random read opens no more than this.
pub const MAX_PIECE_BYTES: usize = 64 * BLOCK_BYTES;
/// The longest piece of any class: a leaf of a volume of which every block was changed at another time, with room.
pub(crate) const MAX_RAW_BYTES: usize = 1 << 20;
/// zstd's level: what a backup's core does at some hundred MB/s.
const LEVEL: i32 = 3;

/// Length of a piece's name.
pub(crate) const ID_BYTES: usize = 24;

/// The name of a piece: the first 24 bytes of HMAC-SHA-256 over its class and its bytes, by a key of the vault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId(pub [u8; ID_BYTES]);

impl fmt::Display for PieceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PieceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Bytes of a volume.
    Data = 0,
    /// Where the bytes of 64 MiB of a volume are.
    Leaf = 1,
    /// Where the leaves of 64 GiB of a volume are.
    Branch = 2,
}

impl Class {
    pub(crate) fn parse(byte: u8) -> Result<Class, Malformed> {
        match byte {
            0 => Ok(Class::Data),
            1 => Ok(Class::Leaf),
            2 => Ok(Class::Branch),
            _ => Err(Malformed("a piece is of no class that there is")),
        }
    }
}

/// Compressed where that makes it shorter by an eighth; less is not worth the time of every read.
pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let packed = zstd::bulk::compress(bytes, LEVEL).ok()?;
    (packed.len() <= bytes.len() / 8 * 7).then_some(packed)
}

/// The `length` bytes that were compressed.
pub(crate) fn expand(packed: &[u8], length: usize) -> Result<Vec<u8>, Malformed> {
    let bytes = zstd::bulk::decompress(packed, length).map_err(|_| Malformed("it does not decompress"))?;
    let whole = bytes.len() == length;
    whole
        .then_some(bytes)
        .ok_or(Malformed("it decompresses to another length"))
}
