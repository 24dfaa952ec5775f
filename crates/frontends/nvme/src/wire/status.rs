//! The statuses that the transport and the I/O commands answer with (NVM Express Base 2.1, 4.2.3; NVM Command Set 1.1,
//! 2.1).

use crate::command::Status;

/// The same command would fail again.
const fn lasting(kind: u8, code: u8) -> Status {
    Status::new(kind, code, true)
}

/// It may work another time, or on another path.
const fn passing(kind: u8, code: u8) -> Status {
    Status::new(kind, code, false)
}

pub const INVALID_OPCODE: Status = lasting(0, 0x01);
pub const INVALID_FIELD: Status = lasting(0, 0x02);
pub const ID_CONFLICT: Status = lasting(0, 0x03);
pub const INTERNAL: Status = passing(0, 0x06);
pub const QUEUE_DELETED: Status = passing(0, 0x08);
pub const FAILED_FUSED: Status = passing(0, 0x09);
pub const MISSING_FUSED: Status = passing(0, 0x0a);
pub const INVALID_NAMESPACE: Status = lasting(0, 0x0b);
pub const SEQUENCE: Status = lasting(0, 0x0c);
pub const SGL_LENGTH: Status = lasting(0, 0x0f);
pub const SGL_TYPE: Status = lasting(0, 0x11);
pub const ATOMIC_UNIT: Status = lasting(0, 0x14);
pub const SGL_OFFSET: Status = lasting(0, 0x16);
pub const WRITE_PROTECTED: Status = lasting(0, 0x20);
pub const TRANSIENT_TRANSPORT: Status = passing(0, 0x22);
pub const LBA_RANGE: Status = lasting(0, 0x80);
pub const CAPACITY: Status = lasting(0, 0x81);
pub const NAMESPACE_NOT_READY: Status = lasting(0, 0x82);
pub const RESERVATION_CONFLICT: Status = lasting(0, 0x83);

/// Of Connect (Base 2.1, 6.3).
pub const CONNECT_FORMAT: Status = lasting(1, 0x80);
pub const CONNECT_BUSY: Status = passing(1, 0x81);
pub const CONNECT_PARAMETERS: Status = lasting(1, 0x82);
pub const CONNECT_HOST: Status = lasting(1, 0x84);
pub const AUTH_REQUIRED: Status = lasting(1, 0x91);

/// Of the NVM command set.
pub const READ_ONLY: Status = lasting(1, 0x82);
pub const SIZE_LIMIT: Status = lasting(1, 0x83);
pub const OVERLAP: Status = lasting(1, 0x87);

pub const UNRECOVERED_READ: Status = lasting(2, 0x81);
pub const COMPARE_FAILURE: Status = lasting(2, 0x85);

/// Of the path: a host with another one goes there.
pub const INTERNAL_PATH: Status = passing(3, 0x00);
pub const ANA_INACCESSIBLE: Status = passing(3, 0x02);
pub const ANA_TRANSITION: Status = passing(3, 0x03);
