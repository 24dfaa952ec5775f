//! The PDUs of NVMe/TCP, as bytes (NVMe over PCIe/Fabrics: TCP Transport Specification 1.1, section 3.6; cited as "TCP").
//!
//! ```text
//! | type | flags | HLEN | PDO | PLEN (4) | the kind's own header | HDGST | PAD | DATA | DDGST |
//! |<----- common header, 8 ----------->|
//! |<----- HLEN -------------------------------------------->|
//! |<----- PDO ---------------------------------------------------------->|
//! |<----- PLEN ------------------------------------------------------------------------->|
//! ```
//! All numbers are little-endian; digests are CRC-32C.

mod link;
mod sgl;
pub(super) mod status;

pub(super) use link::Link;
pub(super) use sgl::{Carrier, Sgl};

/// Types of PDU ("TCP", 3.6.1).
pub mod kind {
    pub const IC_REQUEST: u8 = 0x00;
    pub const IC_RESPONSE: u8 = 0x01;
    pub const H2C_TERMINATE: u8 = 0x02;
    pub const C2H_TERMINATE: u8 = 0x03;
    pub const COMMAND: u8 = 0x04;
    pub const RESPONSE: u8 = 0x05;
    pub const H2C_DATA: u8 = 0x06;
    pub const C2H_DATA: u8 = 0x07;
    pub const R2T: u8 = 0x09;
}

/// Flags of a PDU.
pub mod flag {
    /// There is a header digest.
    pub const HEADER_DIGEST: u8 = 1 << 0;
    /// There is a data digest.
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// The last data PDU: of an R2T, or of a command.
    pub const LAST: u8 = 1 << 2;
    /// The command has succeeded, and no response follows.
    pub const SUCCESS: u8 = 1 << 3;
}

/// Fatal error statuses (FES; "TCP", C2HTermReq).
pub mod fatal {
    pub const INVALID_HEADER: u16 = 1;
    pub const SEQUENCE: u16 = 2;
    pub const HEADER_DIGEST: u16 = 3;
    pub const OUT_OF_RANGE: u16 = 4;
    pub const LIMIT_EXCEEDED: u16 = 5;
    pub const UNSUPPORTED: u16 = 6;
}

/// Bytes of the common header.
pub const COMMON_BYTES: usize = 8;
/// Bytes of an ICReq and of an ICResp.
pub const IC_BYTES: usize = 128;
/// Bytes of the header of a command capsule.
pub const COMMAND_HEADER_BYTES: usize = COMMON_BYTES + super::command::COMMAND_BYTES;
/// Bytes of the headers of response capsules, data, R2Ts and termination requests.
pub const SHORT_HEADER_BYTES: usize = 24;
/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;
/// A termination request shows at most this much of the header in error.
pub const MAX_TERMINATE_DATA_BYTES: usize = 128;
/// The largest HPDA or CPDA, a count of dwords less one.
pub const MAX_ALIGNMENT: u8 = 31;

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    pub kind: u8,
    pub flags: u8,
    pub header_bytes: u8,
    pub data_offset: u8,
    pub pdu_bytes: u32,
}

impl Common {
    pub fn parse(bytes: &[u8; COMMON_BYTES]) -> Common {
        let [kind, flags, header_bytes, data_offset, length @ ..] = *bytes;
        Common {
            kind,
            flags,
            header_bytes,
            data_offset,
            pdu_bytes: u32::from_le_bytes(length),
        }
    }

    pub fn write(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&[self.kind, self.flags, self.header_bytes, self.data_offset]);
        bytes[4..8].copy_from_slice(&self.pdu_bytes.to_le_bytes());
    }
}

/// A 16-bit number of a header.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A 32-bit number of a header.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A 64-bit number of a structure.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// What ends a connection: told to the host with a C2HTermReq ("TCP", 3.5 and C2HTermReq).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The fatal error status.
    pub status: u16,
    /// The fatal error information.
    pub info: u32,
    /// For the log.
    pub what: &'static str,
}

impl Fatal {
    pub const fn new(status: u16, info: u32, what: &'static str) -> Fatal {
        Fatal { status, info, what }
    }

    /// A field of the header is wrong: which one, by its offset.
    pub const fn field(offset: u32, what: &'static str) -> Fatal {
        Fatal::new(fatal::INVALID_HEADER, offset, what)
    }
}

/// An initialization request ("TCP", ICReq).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitRequest {
    /// Where the host wants data in a PDU to begin: dwords, less one.
    pub alignment: u8,
    pub header_digest: bool,
    pub data_digest: bool,
    /// R2Ts of one command that may be outstanding.
    pub max_r2t: u32,
}

impl InitRequest {
    /// Parses a whole one.
    pub fn parse(bytes: &[u8; IC_BYTES]) -> Result<InitRequest, Fatal> {
        let head = Common::parse(bytes.first_chunk().expect("a PDU begins with 8 bytes"));
        if head.kind != kind::IC_REQUEST {
            return Err(Fatal::new(fatal::SEQUENCE, 0, "the first PDU is not an ICReq"));
        }
        if usize::from(head.header_bytes) != IC_BYTES {
            return Err(Fatal::field(2, "an ICReq has a header of 128 bytes"));
        }
        if head.pdu_bytes as usize != IC_BYTES {
            return Err(Fatal::field(4, "an ICReq has 128 bytes"));
        }
        if u16_at(bytes, 8) != 0 {
            return Err(Fatal::new(
                fatal::UNSUPPORTED,
                8,
                "a version of PDU format other than 0",
            ));
        }
        if bytes[10] > MAX_ALIGNMENT {
            return Err(Fatal::field(10, "an alignment of data of more than 128 bytes"));
        }
        if bytes[11] & !3 != 0 {
            return Err(Fatal::field(11, "reserved bits of DGST are set"));
        }
        Ok(InitRequest {
            alignment: bytes[10],
            header_digest: bytes[11] & 1 != 0,
            data_digest: bytes[11] & 2 != 0,
            max_r2t: u32_at(bytes, 12).saturating_add(1),
        })
    }
}

/// The answer to an ICReq.
pub fn init_response(header_digest: bool, data_digest: bool, max_data_bytes: u32) -> [u8; IC_BYTES] {
    let mut bytes = [0; IC_BYTES];
    let head = Common {
        kind: kind::IC_RESPONSE,
        flags: 0,
        header_bytes: IC_BYTES as u8,
        data_offset: 0,
        pdu_bytes: IC_BYTES as u32,
    };
    head.write(&mut bytes);
    // CPDA (byte 10) stays 0: data may begin at any dword.
    bytes[11] = u8::from(header_digest) | u8::from(data_digest) << 1;
    bytes[12..16].copy_from_slice(&max_data_bytes.to_le_bytes());
    bytes
}

/// A C2HTermReq that shows the header in error.
pub fn terminate(fatal: &Fatal, header: &[u8]) -> Vec<u8> {
    let shown = &header[..header.len().min(MAX_TERMINATE_DATA_BYTES)];
    let mut bytes = vec![0; SHORT_HEADER_BYTES];
    let head = Common {
        kind: kind::C2H_TERMINATE,
        flags: 0,
        header_bytes: SHORT_HEADER_BYTES as u8,
        data_offset: 0,
        pdu_bytes: (SHORT_HEADER_BYTES + shown.len()) as u32,
    };
    head.write(&mut bytes);
    bytes[8..10].copy_from_slice(&fatal.status.to_le_bytes());
    bytes[10..14].copy_from_slice(&fatal.info.to_le_bytes());
    bytes.extend(shown);
    bytes
}
