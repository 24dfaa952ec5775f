//! The PDUs of iSCSI, as bytes (RFC 7143, section 11; cited by the number of its sections).
//!
//! ```text
//! | basic header segment, 48 | additional header segments | header digest | data, padded to 4 | data digest |
//! |                          |<- TotalAHSLength x 4 ----->|<-- 0 or 4 --->|<- DataSegment- -->|<- 0 or 4 -->|
//! |                                                                       |   Length, padded  |
//! ```
//! All numbers are big-endian, but for the digests: a CRC-32C stands with its lowest byte first.

mod ahs;
mod link;
#[cfg(test)]
mod tests;

pub use ahs::Ahs;
#[cfg(test)]
pub(crate) use link::split;
pub use link::{Incoming, Link, Taken};

/// Bytes of the basic header segment.
pub const BHS_BYTES: usize = 48;
/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;
/// A tag that names nothing (11.2.1.8).
pub const NO_TAG: u32 = u32::MAX;
/// The additional headers that an initiator may send: the longest CDB, and the length of what a bidirectional command reads, each with
/// its own head.
pub const MAX_AHS_BYTES: usize = 4 + 260 - 16 + 8;

/// Opcodes (11.2.1.2).
pub mod opcode {
    pub const NOP_OUT: u8 = 0x00;
    pub const SCSI_COMMAND: u8 = 0x01;
    pub const TASK_MANAGEMENT: u8 = 0x02;
    pub const LOGIN: u8 = 0x03;
    pub const TEXT: u8 = 0x04;
    pub const DATA_OUT: u8 = 0x05;
    pub const LOGOUT: u8 = 0x06;
    pub const SNACK: u8 = 0x10;
    pub const NOP_IN: u8 = 0x20;
    pub const SCSI_RESPONSE: u8 = 0x21;
    pub const TASK_MANAGEMENT_RESPONSE: u8 = 0x22;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const TEXT_RESPONSE: u8 = 0x24;
    pub const DATA_IN: u8 = 0x25;
    pub const LOGOUT_RESPONSE: u8 = 0x26;
    pub const R2T: u8 = 0x31;
    pub const ASYNC: u8 = 0x32;
    pub const REJECT: u8 = 0x3f;
}

/// Flags of byte 1, where several PDUs have them.
pub mod flag {
    /// The last PDU of a sequence.
    pub const FINAL: u8 = 0x80;
    /// Text goes on in the next PDU.
    pub const CONTINUE: u8 = 0x40;
    /// A login request or response: on to the next stage.
    pub const TRANSIT: u8 = 0x80;
    /// A SCSI command that reads.
    pub const READ: u8 = 0x40;
    /// A SCSI command that writes.
    pub const WRITE: u8 = 0x20;
    /// Data-In: the status is in this PDU.
    pub const STATUS: u8 = 0x01;
    /// Less was moved than the initiator has expected.
    pub const UNDERFLOW: u8 = 0x02;
    /// More could have been moved than the initiator has expected.
    pub const OVERFLOW: u8 = 0x04;
}

/// Reasons of a Reject (11.17.1).
pub mod reject {
    pub const DATA_DIGEST: u8 = 0x02;
    pub const SNACK: u8 = 0x03;
    pub const PROTOCOL: u8 = 0x04;
    pub const NOT_SUPPORTED: u8 = 0x05;
    pub const IMMEDIATE: u8 = 0x06;
    pub const IN_PROGRESS: u8 = 0x07;
    pub const INVALID_FIELD: u8 = 0x09;
}

/// A 16-bit number of a header.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A 32-bit number of a header.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// So many bytes, filled up to words.
#[must_use]
pub fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

/// A basic header segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header(pub [u8; BHS_BYTES]);

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.0)
    }
}

impl Default for Header {
    fn default() -> Header {
        Header([0; BHS_BYTES])
    }
}

impl Header {
    /// One with an opcode, and all else zero.
    #[must_use]
    pub fn new(opcode: u8, flags: u8) -> Header {
        let mut header = Header::default();
        header.0[0] = opcode;
        header.0[1] = flags;
        header
    }

    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// Is it to be delivered at once (the I bit, 11.2.1.1)?
    #[must_use]
    pub fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Byte 1.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.0[1]
    }

    #[must_use]
    pub fn has(&self, flag: u8) -> bool {
        self.0[1] & flag != 0
    }

    /// Bytes of the additional header segments.
    #[must_use]
    pub fn ahs_bytes(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    /// Bytes of data, without padding.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        (self.u32_at(4) & 0x00ff_ffff) as usize
    }

    /// The logical unit number, as SAM has it.
    #[must_use]
    pub fn lun(&self) -> [u8; 8] {
        self.0[8..16].first_chunk().copied().unwrap_or_default()
    }

    /// The initiator task tag.
    #[must_use]
    pub fn task_tag(&self) -> u32 {
        self.u32_at(16)
    }

    /// The target transfer tag; the referenced task tag of a task management request; the expected length of a SCSI command.
    #[must_use]
    pub fn target_tag(&self) -> u32 {
        self.u32_at(20)
    }

    #[must_use]
    pub fn cmd_sn(&self) -> u32 {
        self.u32_at(24)
    }

    #[must_use]
    pub fn exp_stat_sn(&self) -> u32 {
        self.u32_at(28)
    }

    #[must_use]
    pub fn u16_at(&self, at: usize) -> u16 {
        u16_at(&self.0, at)
    }

    #[must_use]
    pub fn u32_at(&self, at: usize) -> u32 {
        u32_at(&self.0, at)
    }

    #[must_use]
    pub fn with_u16(mut self, at: usize, value: u16) -> Header {
        self.0[at..at + 2].copy_from_slice(&value.to_be_bytes());
        self
    }

    #[must_use]
    pub fn with_u32(mut self, at: usize, value: u32) -> Header {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    #[must_use]
    pub fn with_byte(mut self, at: usize, value: u8) -> Header {
        self.0[at] = value;
        self
    }

    #[must_use]
    pub fn with_lun(mut self, lun: [u8; 8]) -> Header {
        self.0[8..16].copy_from_slice(&lun);
        self
    }

    #[must_use]
    pub fn with_task_tag(self, tag: u32) -> Header {
        self.with_u32(16, tag)
    }

    #[must_use]
    pub fn with_target_tag(self, tag: u32) -> Header {
        self.with_u32(20, tag)
    }

    /// Says how much data follows: at most what 24 bits hold.
    #[must_use]
    pub fn with_data_bytes(self, bytes: usize) -> Header {
        assert!(bytes < 1 << 24, "a data segment of {bytes} bytes");
        let ahs = u32::from(self.0[4]) << 24;
        self.with_u32(4, ahs | bytes as u32)
    }
}

/// Is `a` before `b`, as serial numbers go (RFC 1982; 4.2.2)?
#[must_use]
pub fn is_before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

/// What of a PDU cannot be understood, so that nothing behind it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal(pub &'static str);
