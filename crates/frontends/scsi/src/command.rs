//! What a transport hands in.

use std::fmt;

/// A logical unit number as it travels (SAM-5, "Logical unit numbers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lun(pub [u8; 8]);

/// The highest number of a logical unit: what the flat space addressing method has room for (SAM-5, 4.7.7.3).
pub const MAX_LUN: u16 = 0x3fff;
/// Up to this number the peripheral device addressing method is used, above it the flat one.
const MAX_PERIPHERAL_LUN: u16 = 0xff;

impl Lun {
    /// The well known logical unit of REPORT LUNS (SPC-4, "REPORT LUNS well known logical unit").
    pub const REPORT_LUNS: Lun = Lun([0xc1, 0x01, 0, 0, 0, 0, 0, 0]);

    /// The logical unit of that number, of at most [`MAX_LUN`], as it is written in answers: up to 255 by the peripheral device
    /// addressing method, beyond by the flat space one.
    #[must_use]
    pub fn of(number: u16) -> Lun {
        let [high, low] = (number & MAX_LUN).to_be_bytes();
        let method = if number > MAX_PERIPHERAL_LUN { 0x40 } else { 0 };
        Lun([method | high, low, 0, 0, 0, 0, 0, 0])
    }

    /// Its number, if it is of a single level, by either of the two methods.
    #[must_use]
    pub fn number(self) -> Option<u16> {
        let [first, second, rest @ ..] = self.0;
        let is_single = rest == [0; 6];
        match first >> 6 {
            // Peripheral device addressing: bus 0.
            0 if is_single && first == 0 => Some(u16::from(second)),
            1 if is_single => Some(u16::from_be_bytes([first & 0x3f, second])),
            _ => None,
        }
    }
}

impl fmt::Display for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "{:016x}", u64::from_be_bytes(self.0)),
        }
    }
}

/// In which order with others a task is carried out (SAM-5, "Task attributes"). Amita carries tasks out as they come, each by itself: all
/// of them are [simple](Attribute::Simple) to it, but that an ordered one is the transport's to hold back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attribute {
    /// None was said.
    #[default]
    Untagged,
    Simple,
    Ordered,
    HeadOfQueue,
    /// Auto contingent allegiance: there is none (NORMACA is refused), so neither are tasks of it.
    Aca,
}

/// Bytes in the two directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// From the host (data-out).
    pub out: u64,
    /// To the host (data-in).
    pub into: u64,
}

/// A command of a host.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The logical unit that it is for.
    pub lun: Lun,
    /// The command descriptor block as it came: 6 to 260 bytes, with whatever the transport padded it with.
    pub cdb: &'a [u8],
    pub attribute: Attribute,
    /// What the transport will move at the most: its expected data transfer lengths.
    pub expected: Lengths,
}

/// A command descriptor block, of which every byte can be read: what is not there is 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cdb {
    bytes: [u8; Cdb::MAX_BYTES],
    length: usize,
}

impl Cdb {
    /// The longest that any command here has.
    pub const MAX_BYTES: usize = 32;

    /// Takes what came. Bytes beyond [`Cdb::MAX_BYTES`] mean nothing to any command here.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Cdb {
        let length = bytes.len().min(Cdb::MAX_BYTES);
        let mut cdb = Cdb {
            bytes: [0; Cdb::MAX_BYTES],
            length,
        };
        cdb.bytes[..length].copy_from_slice(&bytes[..length]);
        cdb
    }

    /// How many bytes came, of those that can be read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Did nothing come?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The operation code.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    /// The service action where it stands in byte 1.
    #[must_use]
    pub fn service_action(&self) -> u8 {
        self.bytes[1] & 0x1f
    }

    /// Byte `at`, below [`Cdb::MAX_BYTES`].
    #[must_use]
    pub fn u8(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    /// The big-endian number at `at`.
    #[must_use]
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// The big-endian number at `at`.
    #[must_use]
    pub fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    /// The big-endian number at `at`.
    #[must_use]
    pub fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    /// Bit `bit` of byte `at`.
    #[must_use]
    pub fn bit(&self, at: usize, bit: u8) -> bool {
        self.bytes[at] >> bit & 1 == 1
    }
}

impl fmt::Debug for Cdb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.bytes[..self.length] {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
