//! How a command ended.

use std::fmt;

/// A status: its type and its code (NVM Express Base 2.1, 4.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status {
    /// The status code type: 0 generic, 1 of the command, 2 media, 3 path.
    pub kind: u8,
    pub code: u8,
    /// "Do not retry".
    pub final_: bool,
    /// "More": the error log says more.
    pub more: bool,
}

impl Status {
    /// The status in the upper 15 bits of a completion's last word.
    #[must_use]
    pub fn of_field(field: u16) -> Status {
        Status {
            kind: (field >> 9 & 7) as u8,
            code: (field >> 1 & 0xff) as u8,
            final_: field >> 15 == 1,
            more: field >> 14 & 1 == 1,
        }
    }

    /// The type and the code as one number, as `status::*` has them.
    #[must_use]
    pub fn number(self) -> u16 {
        u16::from(self.kind) << 8 | u16::from(self.code)
    }

    /// Did it work?
    #[must_use]
    pub fn is_success(self) -> bool {
        self.number() == status::SUCCESS
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", status::name(self.number()))?;
        if self.final_ {
            f.write_str(", do not retry")?;
        }
        Ok(())
    }
}

macro_rules! statuses {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// The statuses that the suite knows: type times 256, and code.
        pub mod status {
            $(#[doc = $text] pub const $name: u16 = $number;)*

            /// The name of a status.
            #[must_use]
            pub fn name(number: u16) -> String {
                match number {
                    $($number => format!(concat!($text, " ({:x}h/{:02x}h)"), number >> 8, number & 0xff),)*
                    _ => format!("status {:x}h/{:02x}h", number >> 8, number & 0xff),
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0x000, "Successful Completion";
    INVALID_OPCODE = 0x001, "Invalid Command Opcode";
    INVALID_FIELD = 0x002, "Invalid Field in Command";
    ID_CONFLICT = 0x003, "Command ID Conflict";
    TRANSFER_ERROR = 0x004, "Data Transfer Error";
    INTERNAL = 0x006, "Internal Error";
    ABORTED = 0x007, "Command Abort Requested";
    FAILED_FUSED = 0x009, "Command Aborted due to Failed Fused Command";
    MISSING_FUSED = 0x00a, "Command Aborted due to Missing Fused Command";
    INVALID_NAMESPACE = 0x00b, "Invalid Namespace or Format";
    SEQUENCE_ERROR = 0x00c, "Command Sequence Error";
    INVALID_SEGMENT = 0x00d, "Invalid SGL Segment Descriptor";
    INVALID_COUNT = 0x00e, "Invalid Number of SGL Descriptors";
    SGL_LENGTH = 0x00f, "Data SGL Length Invalid";
    SGL_TYPE = 0x011, "SGL Descriptor Type Invalid";
    SGL_OFFSET = 0x016, "SGL Offset Invalid";
    HOST_ID_INCONSISTENT = 0x018, "Host Identifier Inconsistent Format";
    KEEP_ALIVE_EXPIRED = 0x019, "Keep Alive Timer Expired";
    KEEP_ALIVE_INVALID = 0x01a, "Keep Alive Timeout Invalid";
    TRANSIENT_TRANSPORT = 0x022, "Transient Transport Error";
    LBA_OUT_OF_RANGE = 0x080, "LBA Out of Range";
    CAPACITY_EXCEEDED = 0x081, "Capacity Exceeded";
    NOT_READY = 0x082, "Namespace Not Ready";
    RESERVATION_CONFLICT = 0x083, "Reservation Conflict";
    ABORT_LIMIT = 0x103, "Abort Command Limit Exceeded";
    EVENT_LIMIT = 0x105, "Asynchronous Event Request Limit Exceeded";
    INVALID_LOG = 0x109, "Invalid Log Page";
    NOT_SAVEABLE = 0x10d, "Feature Identifier Not Saveable";
    NOT_CHANGEABLE = 0x10e, "Feature Not Changeable";
    NOT_NAMESPACE_SPECIFIC = 0x10f, "Feature Not Namespace Specific";
    SET_NOT_SUPPORTED = 0x129, "I/O Command Set Not Supported";
    INVALID_CONTROLLER = 0x11f, "Invalid Controller Identifier";
    INCOMPATIBLE_FORMAT = 0x180, "Incompatible Format (Connect), Conflicting Attributes (I/O)";
    CONTROLLER_BUSY = 0x181, "Controller Busy (Connect), Invalid Protection Information (I/O)";
    INVALID_PARAMETERS = 0x182, "Connect Invalid Parameters (Connect), Attempted Write to Read Only Range (I/O)";
    SIZE_LIMIT = 0x183, "Connect Restart Discovery (Connect), Command Size Limit Exceeded (I/O)";
    INVALID_HOST = 0x184, "Connect Invalid Host";
    INVALID_QUEUE_TYPE = 0x185, "Invalid Queue Type";
    AUTHENTICATION_REQUIRED = 0x191, "Authentication Required";
    WRITE_FAULT = 0x280, "Write Fault";
    READ_ERROR = 0x281, "Unrecovered Read Error";
    COMPARE_FAILURE = 0x285, "Compare Failure";
    PATH_INTERNAL = 0x300, "Internal Path Error";
    ANA_INACCESSIBLE = 0x302, "Asymmetric Access Inaccessible";
    ANA_TRANSITION = 0x303, "Asymmetric Access Transition";
}
