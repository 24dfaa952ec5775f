//! PDUs: the frames of the transport (TCP Transport 1.1, 3.6).

use super::{u16_at, u32_at};
use crate::Error;

/// Types of PDU.
pub mod kind {
    /// Host: initialize connection request.
    pub const IC_REQ: u8 = 0x00;
    /// Target: its answer.
    pub const IC_RESP: u8 = 0x01;
    /// Host: the connection is ended for a fatal error.
    pub const H2C_TERM_REQ: u8 = 0x02;
    /// Target: the same.
    pub const C2H_TERM_REQ: u8 = 0x03;
    /// Host: a command, and perhaps its data.
    pub const CAPSULE_CMD: u8 = 0x04;
    /// Target: a completion.
    pub const CAPSULE_RESP: u8 = 0x05;
    /// Host: data that was asked for.
    pub const H2C_DATA: u8 = 0x06;
    /// Target: data.
    pub const C2H_DATA: u8 = 0x07;
    /// Target: ready to transfer.
    pub const R2T: u8 = 0x09;
}

/// Flags of a PDU.
pub mod flag {
    /// The header is followed by its digest.
    pub const HEADER_DIGEST: u8 = 1;
    /// The data are followed by their digest.
    pub const DATA_DIGEST: u8 = 2;
    /// Of data: the last PDU of the transfer.
    pub const LAST: u8 = 4;
    /// Of the target's data: the command succeeded, no capsule follows.
    pub const SUCCESS: u8 = 8;
}

/// Bytes of the common header.
pub const COMMON_BYTES: usize = 8;
/// No PDU that a target may send is larger: its data are bounded by what was asked for.
const MAX_PDU_BYTES: u32 = 64 << 20;

/// Which digests a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    pub header: bool,
    pub data: bool,
}

impl Digests {
    pub const BOTH: Digests = Digests {
        header: true,
        data: true,
    };
    pub const NONE: Digests = Digests {
        header: false,
        data: false,
    };
}

/// CRC-32C, as both digests are (TCP Transport 1.1, 3.3.1.1).
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).expect("a CRC of 32 bits")
}

/// Rounded up to that alignment.
#[must_use]
pub fn padded(length: usize, alignment: usize) -> usize {
    length.div_ceil(alignment) * alignment
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type.
    pub kind: u8,
    pub flags: u8,
    /// Bytes of the header, its common part included.
    pub header_bytes: u8,
    /// Where the data begin; 0 without data.
    pub data_offset: u8,
    /// Bytes of the whole PDU.
    pub bytes: u32,
}

impl Header {
    /// The header in those bytes, if there are enough.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..COMMON_BYTES)?;
        Some(Header {
            kind: bytes[0],
            flags: bytes[1],
            header_bytes: bytes[2],
            data_offset: bytes[3],
            bytes: u32_at(bytes, 4),
        })
    }

    fn encode(self, into: &mut Vec<u8>) {
        into.extend_from_slice(&[self.kind, self.flags, self.header_bytes, self.data_offset]);
        into.extend_from_slice(&self.bytes.to_le_bytes());
    }
}

/// What is made wrong in a PDU on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spoil {
    pub header_digest: bool,
    pub data_digest: bool,
}

/// A PDU: the header behind its common part, and the data.
#[derive(Clone, PartialEq, Eq)]
pub struct Pdu {
    /// The type.
    pub kind: u8,
    /// The flags but those of digests.
    pub flags: u8,
    /// What follows the common header, without digest.
    pub specific: Vec<u8>,
    pub data: Vec<u8>,
}

impl std::fmt::Debug for Pdu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} with flags {:#x} and {} bytes",
            name(self.kind),
            self.flags,
            self.data.len()
        )
    }
}

/// The name of a type of PDU.
fn name(kind: u8) -> String {
    match kind {
        kind::IC_REQ => "ICReq".into(),
        kind::IC_RESP => "ICResp".into(),
        kind::H2C_TERM_REQ => "H2CTermReq".into(),
        kind::C2H_TERM_REQ => "C2HTermReq".into(),
        kind::CAPSULE_CMD => "CapsuleCmd".into(),
        kind::CAPSULE_RESP => "CapsuleResp".into(),
        kind::H2C_DATA => "H2CData".into(),
        kind::C2H_DATA => "C2HData".into(),
        kind::R2T => "R2T".into(),
        other => format!("PDU of type {other:#x}"),
    }
}

impl Pdu {
    /// A PDU without data.
    #[must_use]
    pub fn new(kind: u8, specific: Vec<u8>) -> Pdu {
        Pdu {
            kind,
            flags: 0,
            specific,
            data: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_data(mut self, data: &[u8]) -> Pdu {
        self.data = data.to_vec();
        self
    }

    #[must_use]
    pub fn with_flags(mut self, flags: u8) -> Pdu {
        self.flags = flags;
        self
    }

    /// A command's capsule.
    #[must_use]
    pub fn command(command: &super::Command) -> Pdu {
        Pdu::new(kind::CAPSULE_CMD, command.0.to_vec())
    }

    /// Data of a host: for command `id`, by transfer tag `tag`, at byte `offset` of the command's data.
    #[must_use]
    pub fn host_data(id: u16, tag: u16, offset: u32, data: &[u8]) -> Pdu {
        let mut specific = Vec::with_capacity(16);
        specific.extend_from_slice(&id.to_le_bytes());
        specific.extend_from_slice(&tag.to_le_bytes());
        specific.extend_from_slice(&offset.to_le_bytes());
        specific.extend_from_slice(&u32::try_from(data.len()).expect("a transfer of 32 bits").to_le_bytes());
        specific.extend_from_slice(&[0; 4]);
        Pdu::new(kind::H2C_DATA, specific).with_data(data)
    }

    /// Its bytes, with digests as the connection uses them and data aligned as the target wishes.
    #[must_use]
    pub fn encode(&self, digests: Digests, alignment: usize) -> Vec<u8> {
        self.encode_spoilt(digests, alignment, Spoil::default())
    }

    /// The same, with something made wrong.
    ///
    /// # Panics
    /// When the header is longer than a PDU's header can be.
    #[must_use]
    pub fn encode_spoilt(&self, digests: Digests, alignment: usize, spoil: Spoil) -> Vec<u8> {
        let header_bytes = COMMON_BYTES + self.specific.len();
        // Neither of initialization nor of termination has digests (TCP Transport 1.1, 3.3.1.1).
        let plain = matches!(
            self.kind,
            kind::IC_REQ | kind::IC_RESP | kind::H2C_TERM_REQ | kind::C2H_TERM_REQ
        );
        let header_digest = digests.header && !plain;
        let data_digest = digests.data && !plain && !self.data.is_empty();
        let end_of_header = header_bytes + if header_digest { 4 } else { 0 };
        // A termination's data follow its header at once and have no offset.
        let (data_offset, start) = match (self.data.is_empty(), plain) {
            (true, _) => (0, end_of_header),
            (false, true) => (0, header_bytes),
            (false, false) => {
                let start = padded(end_of_header, alignment);
                (u8::try_from(start).expect("data within 255 bytes"), start)
            }
        };
        let end = start + self.data.len() + if data_digest { 4 } else { 0 };
        let mut flags = self.flags;
        if header_digest {
            flags |= flag::HEADER_DIGEST;
        }
        if data_digest {
            flags |= flag::DATA_DIGEST;
        }
        let header = Header {
            kind: self.kind,
            flags,
            header_bytes: u8::try_from(header_bytes).expect("a header of at most 255 bytes"),
            data_offset,
            bytes: u32::try_from(end).expect("a PDU of 32 bits"),
        };
        let mut bytes = Vec::with_capacity(end);
        header.encode(&mut bytes);
        bytes.extend_from_slice(&self.specific);
        if header_digest {
            let digest = crc32c(&bytes) ^ u32::from(spoil.header_digest);
            bytes.extend_from_slice(&digest.to_le_bytes());
        }
        bytes.resize(start, 0);
        bytes.extend_from_slice(&self.data);
        if data_digest {
            let digest = crc32c(&self.data) ^ u32::from(spoil.data_digest);
            bytes.extend_from_slice(&digest.to_le_bytes());
        }
        bytes
    }

    /// How long the PDU is that begins with those bytes, once enough are there to know. What a target may not send is
    /// an error: each rule is checked for every PDU of every case.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
        let Some(header) = Header::decode(bytes) else {
            return Ok(None);
        };
        let expected = match header.kind {
            kind::IC_RESP => 128,
            kind::C2H_TERM_REQ | kind::CAPSULE_RESP | kind::C2H_DATA | kind::R2T => 24,
            other => {
                return Err(Error::Malformed(format!(
                    "it sent a {}, which only a host may",
                    name(other)
                )));
            }
        };
        if header.header_bytes != expected {
            return Err(Error::Malformed(format!(
                "HLEN of its {} is {}, not {expected}",
                name(header.kind),
                header.header_bytes
            )));
        }
        if header.bytes < u32::from(expected) || header.bytes > MAX_PDU_BYTES {
            return Err(Error::Malformed(format!(
                "PLEN of its {} is {}",
                name(header.kind),
                header.bytes
            )));
        }
        Ok(Some(header.bytes as usize))
    }

    /// The whole PDU in those bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] for what the specification forbids: digests that are wrong, missing or not agreed on, data
    /// where none belong or not aligned as `alignment` demands, reserved flags.
    pub fn decode(bytes: &[u8], digests: Digests, alignment: usize) -> Result<Pdu, Error> {
        let malformed = |what: String| Err(Error::Malformed(what));
        let header = Header::decode(bytes).ok_or_else(|| Error::Malformed("a PDU of less than eight bytes".into()))?;
        let name = name(header.kind);
        let header_bytes = usize::from(header.header_bytes);
        let plain = matches!(header.kind, kind::IC_RESP | kind::C2H_TERM_REQ);
        let has_header_digest = header.flags & flag::HEADER_DIGEST != 0;
        let has_data_digest = header.flags & flag::DATA_DIGEST != 0;
        if has_header_digest != (digests.header && !plain) {
            return malformed(format!("the header digest flag of its {name} is {has_header_digest}"));
        }
        let mut end_of_header = header_bytes;
        if has_header_digest {
            end_of_header += 4;
            if bytes.len() < end_of_header || u32_at(bytes, header_bytes) != crc32c(&bytes[..header_bytes]) {
                return malformed(format!("the header digest of its {name} is wrong"));
            }
        }
        let known = if header.kind == kind::C2H_DATA { 0xf } else { 3 };
        if header.flags & !known != 0 {
            return malformed(format!("its {name} has reserved flags: {:#x}", header.flags));
        }
        let mut data = Vec::new();
        match header.kind {
            kind::C2H_TERM_REQ => data.extend_from_slice(&bytes[header_bytes..]),
            kind::C2H_DATA => {
                let start = usize::from(header.data_offset);
                let length = u32_at(bytes, 16) as usize;
                let digest_bytes = if has_data_digest { 4 } else { 0 };
                if has_data_digest != digests.data {
                    return malformed(format!("the data digest flag of its {name} is {has_data_digest}"));
                }
                if start < end_of_header || start % alignment != 0 {
                    return malformed(format!("PDO of its {name} is {start}: not a multiple of {alignment}"));
                }
                if start + length + digest_bytes != bytes.len() {
                    return malformed(format!(
                        "PLEN of its {name} is {}, with {length} bytes of data at {start}",
                        bytes.len()
                    ));
                }
                data.extend_from_slice(&bytes[start..start + length]);
                if has_data_digest && u32_at(bytes, start + length) != crc32c(&data) {
                    return malformed(format!("the data digest of its {name} is wrong"));
                }
            }
            _ => {
                if bytes.len() != end_of_header || header.data_offset != 0 || has_data_digest {
                    return malformed(format!(
                        "its {name} has {} bytes, a header of {end_of_header}",
                        bytes.len()
                    ));
                }
            }
        }
        Ok(Pdu {
            kind: header.kind,
            flags: header.flags & !(flag::HEADER_DIGEST | flag::DATA_DIGEST),
            specific: bytes[COMMON_BYTES..header_bytes].to_vec(),
            data,
        })
    }

    /// A number of 16 bits at that byte of the whole header.
    #[must_use]
    pub fn u16_at(&self, at: usize) -> u16 {
        u16_at(&self.specific, at - COMMON_BYTES)
    }

    /// A number of 32 bits at that byte of the whole header.
    #[must_use]
    pub fn u32_at(&self, at: usize) -> u32 {
        u32_at(&self.specific, at - COMMON_BYTES)
    }
}

/// An ICReq (TCP Transport 1.1, 3.6.2.2): the format of PDUs, the alignment of the target's data as its field has it
/// (dwords, less one), digests, and the R2Ts that may be outstanding for one command, less one.
#[must_use]
pub fn icreq(format: u16, alignment: u8, digests: u8, max_r2t: u32) -> Pdu {
    let mut specific = vec![0; 120];
    specific[0..2].copy_from_slice(&format.to_le_bytes());
    specific[2] = alignment;
    specific[3] = digests;
    specific[4..8].copy_from_slice(&max_r2t.to_le_bytes());
    Pdu::new(kind::IC_REQ, specific)
}
