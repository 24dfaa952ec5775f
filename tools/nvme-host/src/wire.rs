//! Bytes: PDUs, commands, completions. All numbers are little-endian.

mod command;
mod completion;
mod pdu;

pub use command::{COMMAND_BYTES, COMPLETION_BYTES, Command, Descriptor, admin, fabrics, feature, io, log};
pub use completion::{Status, status};
pub use pdu::{Digests, Header, Pdu, Spoil, flag, icreq, kind, padded};

/// A little-endian number of 16 bits at that byte.
///
/// # Panics
/// When the bytes end before.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A little-endian number of 32 bits at that byte.
///
/// # Panics
/// When the bytes end before.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// A little-endian number of 64 bits at that byte.
///
/// # Panics
/// When the bytes end before.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests;
