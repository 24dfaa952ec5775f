//! Commands and their statuses, as they travel in capsules.

use std::fmt;

/// Bytes of a submission queue entry.
pub const COMMAND_BYTES: usize = 64;
/// Bytes of a completion queue entry.
pub const COMPLETION_BYTES: usize = 16;

/// A submission queue entry (NVM Express Base 2.1, 3.3.3.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Command(pub [u8; COMMAND_BYTES]);

impl Command {
    /// The opcode (byte 0).
    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// The fused operation: 0 none, 1 first, 2 second.
    #[must_use]
    pub fn fuse(&self) -> u8 {
        self.0[1] & 3
    }

    /// PRP or SGL for data transfer.
    #[must_use]
    pub fn psdt(&self) -> u8 {
        self.0[1] >> 6
    }

    /// The command identifier.
    #[must_use]
    pub fn id(&self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }

    /// The namespace identifier; of a Fabrics command byte 4 is its type.
    #[must_use]
    pub fn nsid(&self) -> u32 {
        self.dword(1)
    }

    /// Command dword `n`, 0 to 15.
    ///
    /// # Panics
    /// When there is no such dword.
    #[must_use]
    pub fn dword(&self, n: usize) -> u32 {
        let bytes = self.0[4 * n..4 * n + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes)
    }

    /// Command dwords `n` and `n + 1` as one number.
    #[must_use]
    pub fn qword(&self, n: usize) -> u64 {
        u64::from(self.dword(n)) | u64::from(self.dword(n + 1)) << 32
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("opcode", &format_args!("{:#04x}", self.opcode()))
            .field("id", &self.id())
            .field("nsid", &self.nsid())
            .finish_non_exhaustive()
    }
}

/// A completion's status (NVM Express Base 2.1, 4.2.3): the 15 bits above the phase tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The type of the status code.
    pub kind: u8,
    pub code: u8,
    /// Do not retry.
    pub final_: bool,
}

impl Status {
    /// It worked.
    pub const SUCCESS: Status = Status::new(0, 0, false);

    /// A status of that type and code.
    #[must_use]
    pub const fn new(kind: u8, code: u8, final_: bool) -> Status {
        Status { kind, code, final_ }
    }

    /// The status field of a completion queue entry, phase tag 0.
    #[must_use]
    pub fn to_field(self) -> u16 {
        u16::from(self.code) << 1 | u16::from(self.kind & 7) << 9 | u16::from(self.final_) << 15
    }
}

/// In a status field: the Error Information log page has an entry of the command ("More", NVM Express Base 2.1, 4.2.3).
pub const MORE: u16 = 1 << 14;

/// How a command ended, and what goes back with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: Status,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
    /// What is sent to the host before the completion; empty where nothing is.
    pub data: Vec<u8>,
}
