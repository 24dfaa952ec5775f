//! Numbers and layouts of the protocol, by "Values" of the specification (`doc/proto.md` of NetworkBlockDevice/nbd).
//! Everything is in network byte order.

/// `NBDMAGIC`, the first 8 bytes of a server ("Newstyle negotiation").
pub const INIT_PASSWD: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, which follows it and begins each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option ("Fixed newstyle negotiation").
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins each request ("Request message").
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins each simple reply ("Simple reply message").
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins each structured reply chunk ("Structured reply chunk message").
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// "Handshake flags" and "Client flags" have the same two bits.
pub mod handshake_flag {
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// No 124 zeros after `NBD_OPT_EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

pub mod transmission_flag {
    #![allow(missing_docs)]
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// "Option types".
pub mod option {
    #![allow(missing_docs)]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// "Option reply types".
pub mod reply {
    #![allow(missing_docs)]
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Information types of `NBD_REP_INFO`.
pub mod info {
    #![allow(missing_docs)]
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// "Request types".
pub mod command {
    #![allow(missing_docs)]
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

pub mod command_flag {
    #![allow(missing_docs)]
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// "Structured reply types", and the one flag of a chunk.
pub mod chunk {
    #![allow(missing_docs)]
    pub const FLAG_DONE: u16 = 1 << 0;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = (1 << 15) + 1;
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// Flags of an extent.
pub mod state {
    #![allow(missing_docs)]
    pub const HOLE: u32 = 1 << 0;
    pub const ZERO: u32 = 1 << 1;
    /// Of an extent of `qemu:dirty-bitmap:`: it was changed.
    pub const DIRTY: u32 = 1 << 0;
}

/// "Error values".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Operation not permitted.
    Perm = 1,
    /// Input/output error.
    Io = 5,
    /// Invalid argument.
    Inval = 22,
    /// No space left on device.
    NoSpc = 28,
    /// Value too large.
    Overflow = 75,
    /// Operation not supported.
    NotSup = 95,
    /// Server is in the process of being shut down.
    Shutdown = 108,
}

/// The metadata context for what is allocated.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number on the wire; any number would do.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// The beginning of the metadata contexts for what was changed since a snapshot, whose name follows. As QEMU's server names them
/// (its `docs/interop/nbd.rst`), so that whatever makes incremental copies of its images makes them of volumes.
pub const DIRTY_BITMAP: &str = "qemu:dirty-bitmap:";

/// The longest string that is accepted ("Conventions": 4096 bytes).
pub const MAX_STRING_BYTES: usize = 4096;

/// Bytes of a request's header.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an option's header.
pub const OPTION_BYTES: usize = 16;

/// A request's header, its magic checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// "Command flags".
    pub flags: u16,
    /// "Request types".
    pub command: u16,
    /// The client's name for it; comes back in the reply.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl RequestHeader {
    /// Reads a header; `None` where the magic is wrong: then nothing that follows can be understood.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<RequestHeader> {
        let mut reader = Reader(bytes);
        if reader.u32() != Some(REQUEST_MAGIC) {
            return None;
        }
        Some(RequestHeader {
            flags: reader.u16()?,
            command: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        })
    }
}

/// Reads big-endian fields from the front of some bytes; `None` where they end too soon.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    /// 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    /// Is nothing left?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A small message in the making.
#[derive(Clone, Copy, Debug)]
pub struct Writer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Writer<N> {
    /// Nothing yet; there is room for `N` bytes.
    #[must_use]
    pub fn new() -> Self {
        Writer { bytes: [0; N], len: 0 }
    }

    fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.len..self.len + field.len()].copy_from_slice(field);
        self.len += field.len();
        self
    }

    /// Appends 16 bits.
    #[must_use]
    pub fn u16(self, value: u16) -> Self {
        self.put(&value.to_be_bytes())
    }

    /// Appends 32 bits.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.put(&value.to_be_bytes())
    }

    /// Appends 64 bits.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.put(&value.to_be_bytes())
    }

    /// What was appended.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Default for Writer<N> {
    fn default() -> Self {
        Self::new()
    }
}
