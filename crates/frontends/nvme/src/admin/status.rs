//! The statuses with which the admin side answers (NVM Express Base 2.1, 4.2.3). All but the aborts are final: the same
//! command would fail again.

use crate::command::Status;

const fn generic(code: u8) -> Status {
    Status::new(0, code, true)
}

const fn specific(code: u8) -> Status {
    Status::new(1, code, true)
}

pub(crate) const INVALID_OPCODE: Status = generic(0x01);
pub(crate) const INVALID_FIELD: Status = generic(0x02);
pub(crate) const ABORT_REQUESTED: Status = Status::new(0, 0x07, false);
pub(crate) const ABORTED_QUEUE_DELETED: Status = Status::new(0, 0x08, false);
pub(crate) const INVALID_NAMESPACE: Status = generic(0x0b);
pub(crate) const COMMAND_SEQUENCE: Status = generic(0x0c);
pub(crate) const DATA_SGL_LENGTH: Status = generic(0x0f);

pub(crate) const TOO_MANY_EVENT_REQUESTS: Status = specific(0x05);
pub(crate) const INVALID_LOG_PAGE: Status = specific(0x09);
pub(crate) const FEATURE_NOT_SAVEABLE: Status = specific(0x0d);
pub(crate) const FEATURE_NOT_CHANGEABLE: Status = specific(0x0e);
pub(crate) const FEATURE_NOT_OF_NAMESPACE: Status = specific(0x0f);
pub(crate) const INVALID_IO_COMMAND_SET: Status = specific(0x2c);
