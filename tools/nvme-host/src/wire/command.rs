//! Submission queue entries (NVM Express Base 2.1, 4.1), and the numbers of commands.

use std::fmt;

/// Bytes of a submission queue entry.
pub const COMMAND_BYTES: usize = 64;
/// Bytes of a completion queue entry.
pub const COMPLETION_BYTES: usize = 16;

/// A data descriptor of a command (NVM Express Base 2.1, 4.3.2; over TCP only these two are used).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The address, or the offset in the capsule.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Type and subtype.
    pub kind: u8,
}

impl Descriptor {
    /// Data that follow the command in its capsule, from that byte on.
    #[must_use]
    pub fn in_capsule(offset: u64, length: u32) -> Descriptor {
        Descriptor {
            address: offset,
            length,
            kind: 0x01,
        }
    }

    /// Data that the transport moves.
    #[must_use]
    pub fn transport(length: u32) -> Descriptor {
        Descriptor {
            address: 0,
            length,
            kind: 0x5a,
        }
    }
}

/// A command: the entry's 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Command(pub [u8; COMMAND_BYTES]);

impl Command {
    /// A command of that opcode, with data by SGL, as fabrics demand (Base 2.1, 3.3.3.1: PSDT 01b).
    #[must_use]
    pub fn new(opcode: u8) -> Command {
        let mut bytes = [0; COMMAND_BYTES];
        bytes[0] = opcode;
        bytes[1] = 0x40;
        Command(bytes).described(Descriptor::transport(0))
    }

    /// A command of the fabrics set, of that type.
    #[must_use]
    pub fn fabrics(kind: u8) -> Command {
        Command::new(fabrics::OPCODE).byte(4, kind)
    }

    #[must_use]
    pub fn namespace(self, nsid: u32) -> Command {
        self.dword(1, nsid)
    }

    /// With dword `n` set.
    #[must_use]
    pub fn dword(mut self, n: usize, value: u32) -> Command {
        self.0[4 * n..4 * n + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// With dwords `n` and `n + 1` set.
    #[must_use]
    pub fn qword(self, n: usize, value: u64) -> Command {
        self.dword(n, value as u32).dword(n + 1, (value >> 32) as u32)
    }

    /// With byte `at` set.
    #[must_use]
    pub fn byte(mut self, at: usize, value: u8) -> Command {
        self.0[at] = value;
        self
    }

    /// With the 16 bits at byte `at` set.
    #[must_use]
    pub fn word(mut self, at: usize, value: u16) -> Command {
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// With that command identifier.
    #[must_use]
    pub fn id(self, id: u16) -> Command {
        self.word(2, id)
    }

    /// With that data descriptor.
    #[must_use]
    pub fn described(self, descriptor: Descriptor) -> Command {
        self.qword(6, descriptor.address)
            .dword(8, descriptor.length)
            .dword(9, u32::from(descriptor.kind) << 24)
    }

    /// As the first or second of a fused pair (Base 2.1, 3.4.2): 1 or 2.
    #[must_use]
    pub fn fused(self, place: u8) -> Command {
        let flags = self.0[1] & !3 | place;
        self.byte(1, flags)
    }

    /// The data descriptor's length.
    #[must_use]
    pub fn length(&self) -> u32 {
        super::u32_at(&self.0, 32)
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {:#04x}, id {:#06x}", self.0[0], super::u16_at(&self.0, 2))
    }
}

/// Opcodes of the admin queue.
#[allow(missing_docs)]
pub mod admin {
    pub const DELETE_SQ: u8 = 0x00;
    pub const CREATE_SQ: u8 = 0x01;
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const CREATE_CQ: u8 = 0x05;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNC_EVENT: u8 = 0x0c;
    pub const FIRMWARE_COMMIT: u8 = 0x10;
    pub const KEEP_ALIVE: u8 = 0x18;
    pub const FORMAT_NVM: u8 = 0x80;
}

/// Opcodes of an I/O queue.
#[allow(missing_docs)]
pub mod io {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const WRITE_UNCORRECTABLE: u8 = 0x04;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    pub const VERIFY: u8 = 0x0c;
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    pub const RESERVATION_REPORT: u8 = 0x0e;
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    pub const RESERVATION_RELEASE: u8 = 0x15;
    pub const COPY: u8 = 0x19;
}

/// Types of the fabrics command set (Base 2.1, 6).
#[allow(missing_docs)]
pub mod fabrics {
    pub const OPCODE: u8 = 0x7f;
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    pub const DISCONNECT: u8 = 0x08;
}

/// Log pages.
#[allow(missing_docs)]
pub mod log {
    pub const SUPPORTED: u8 = 0x00;
    pub const ERROR: u8 = 0x01;
    pub const HEALTH: u8 = 0x02;
    pub const FIRMWARE: u8 = 0x03;
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    pub const EFFECTS: u8 = 0x05;
    pub const ANA: u8 = 0x0c;
    pub const DISCOVERY: u8 = 0x70;
    pub const RESERVATION: u8 = 0x80;
}

#[allow(missing_docs)]
pub mod feature {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER: u8 = 0x02;
    pub const TEMPERATURE: u8 = 0x04;
    pub const WRITE_CACHE: u8 = 0x06;
    pub const QUEUES: u8 = 0x07;
    pub const ASYNC_EVENTS: u8 = 0x0b;
    pub const KEEP_ALIVE: u8 = 0x0f;
    pub const HOST_BEHAVIOUR: u8 = 0x16;
    pub const HOST_IDENTIFIER: u8 = 0x81;
    pub const RESERVATION_NOTICES: u8 = 0x82;
    pub const RESERVATION_PERSISTENCE: u8 = 0x83;
}
