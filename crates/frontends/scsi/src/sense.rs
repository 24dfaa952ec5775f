//! Statuses and sense data (SAM-5, "Status"; SPC-4, "Sense data").

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Good = 0x00,
    CheckCondition = 0x02,
    /// PRE-FETCH: all that was meant is in the cache.
    ConditionMet = 0x04,
    Busy = 0x08,
    ReservationConflict = 0x18,
    TaskSetFull = 0x28,
    TaskAborted = 0x40,
}

/// Sense keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Miscompare = 0xe,
    Completed = 0xf,
}

/// An additional sense code and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u8, pub u8);

/// The codes that are used, by their names in SPC-4's table of them.
pub mod code {
    use super::Code;

    pub const NO_ADDITIONAL_SENSE: Code = Code(0x00, 0x00);
    pub const OPERATION_IN_PROGRESS: Code = Code(0x00, 0x16);
    pub const ASYMMETRIC_ACCESS_TRANSITION: Code = Code(0x04, 0x0a);
    pub const TARGET_PORT_STANDBY: Code = Code(0x04, 0x0b);
    pub const TARGET_PORT_UNAVAILABLE: Code = Code(0x04, 0x0c);
    pub const SPACE_ALLOCATION_IN_PROGRESS: Code = Code(0x04, 0x14);
    pub const THIRD_PARTY_DEVICE_FAILURE: Code = Code(0x0d, 0x01);
    pub const COPY_TARGET_NOT_REACHABLE: Code = Code(0x0d, 0x02);
    pub const INCORRECT_COPY_TARGET_TYPE: Code = Code(0x0d, 0x03);
    pub const INVALID_INFORMATION_UNIT: Code = Code(0x0e, 0x00);
    /// The transport expects to move less than the command does.
    pub const INVALID_FIELD_IN_INFORMATION_UNIT: Code = Code(0x0e, 0x03);
    pub const UNRECOVERED_READ_ERROR: Code = Code(0x11, 0x00);
    pub const PARAMETER_LIST_LENGTH: Code = Code(0x1a, 0x00);
    pub const MISCOMPARE_DURING_VERIFY: Code = Code(0x1d, 0x00);
    pub const INVALID_OPCODE: Code = Code(0x20, 0x00);
    pub const ACCESS_DENIED_NO_RIGHTS: Code = Code(0x20, 0x02);
    pub const LBA_OUT_OF_RANGE: Code = Code(0x21, 0x00);
    pub const INVALID_TOKEN_OPERATION: Code = Code(0x23, 0x00);
    pub const UNSUPPORTED_TOKEN_TYPE: Code = Code(0x23, 0x01);
    pub const TOKEN_UNKNOWN: Code = Code(0x23, 0x04);
    pub const TOKEN_CORRUPT: Code = Code(0x23, 0x05);
    pub const TOKEN_REVOKED: Code = Code(0x23, 0x06);
    pub const TOKEN_EXPIRED: Code = Code(0x23, 0x07);
    pub const TOKEN_CANCELLED: Code = Code(0x23, 0x08);
    pub const TOKEN_DELETED: Code = Code(0x23, 0x09);
    pub const INVALID_TOKEN_LENGTH: Code = Code(0x23, 0x0a);
    pub const INVALID_FIELD_IN_CDB: Code = Code(0x24, 0x00);
    pub const UNIT_NOT_SUPPORTED: Code = Code(0x25, 0x00);
    pub const INVALID_FIELD_IN_LIST: Code = Code(0x26, 0x00);
    pub const VALUE_INVALID_IN_LIST: Code = Code(0x26, 0x02);
    pub const INVALID_RELEASE: Code = Code(0x26, 0x04);
    pub const TOO_MANY_TARGET_DESCRIPTORS: Code = Code(0x26, 0x06);
    pub const UNSUPPORTED_TARGET_DESCRIPTOR: Code = Code(0x26, 0x07);
    pub const TOO_MANY_SEGMENT_DESCRIPTORS: Code = Code(0x26, 0x08);
    pub const UNSUPPORTED_SEGMENT_DESCRIPTOR: Code = Code(0x26, 0x09);
    pub const INLINE_DATA_LENGTH_EXCEEDED: Code = Code(0x26, 0x0b);
    pub const COPY_GRANULARITY: Code = Code(0x26, 0x0d);
    pub const WRITE_PROTECTED: Code = Code(0x27, 0x00);
    pub const SOFTWARE_WRITE_PROTECTED: Code = Code(0x27, 0x02);
    pub const SPACE_ALLOCATION_FAILED: Code = Code(0x27, 0x07);
    pub const POWER_ON_OR_RESET: Code = Code(0x29, 0x00);
    pub const POWER_ON: Code = Code(0x29, 0x01);
    pub const DEVICE_RESET: Code = Code(0x29, 0x03);
    pub const NEXUS_LOSS: Code = Code(0x29, 0x07);
    pub const MODE_PARAMETERS_CHANGED: Code = Code(0x2a, 0x01);
    pub const RESERVATIONS_PREEMPTED: Code = Code(0x2a, 0x03);
    pub const RESERVATIONS_RELEASED: Code = Code(0x2a, 0x04);
    pub const REGISTRATIONS_PREEMPTED: Code = Code(0x2a, 0x05);
    pub const ASYMMETRIC_ACCESS_CHANGED: Code = Code(0x2a, 0x06);
    pub const CAPACITY_CHANGED: Code = Code(0x2a, 0x09);
    pub const COMMAND_SEQUENCE_ERROR: Code = Code(0x2c, 0x00);
    pub const PREVIOUS_CONFLICT: Code = Code(0x2c, 0x09);
    pub const COMMANDS_CLEARED: Code = Code(0x2f, 0x00);
    pub const THIN_SOFT_THRESHOLD: Code = Code(0x38, 0x07);
    pub const SAVING_NOT_SUPPORTED: Code = Code(0x39, 0x00);
    pub const MEDIUM_NOT_PRESENT: Code = Code(0x3a, 0x00);
    pub const INQUIRY_DATA_CHANGED: Code = Code(0x3f, 0x03);
    pub const REPORTED_LUNS_CHANGED: Code = Code(0x3f, 0x0e);
    pub const INTERNAL_TARGET_FAILURE: Code = Code(0x44, 0x00);
    pub const INSUFFICIENT_RESOURCES: Code = Code(0x55, 0x03);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Code = Code(0x55, 0x04);
    pub const INSUFFICIENT_TOKEN_RESOURCES: Code = Code(0x55, 0x0d);
    pub const SET_TARGET_PORT_GROUPS_FAILED: Code = Code(0x67, 0x0a);
}

/// Which field is wrong (SPC-4, "Field pointer sense key specific data").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// Of the command descriptor block; else of its parameter list.
    pub in_cdb: bool,
    /// The byte where the field begins.
    pub byte: u16,
    /// The most significant bit of the field, where it is less than a byte.
    pub bit: Option<u8>,
}

/// Which part of an EXTENDED COPY is wrong (SPC-4, "Segment pointer sense key specific data").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentPointer {
    /// The byte is counted from the begin of the segment descriptor; else from that of the parameter list.
    pub in_segment: bool,
    pub byte: u16,
    pub bit: Option<u8>,
}

/// What the sense key says more of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Specific {
    #[default]
    None,
    Field(FieldPointer),
    Segment(SegmentPointer),
    /// How far something has come, of 65,536.
    Progress(u16),
}

/// Why a command has not done what it was to do, or what else the host should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sense {
    pub key: Key,
    pub code: Code,
    pub specific: Specific,
    /// The INFORMATION field: most often the block concerned.
    pub information: Option<u64>,
    /// The COMMAND-SPECIFIC INFORMATION field.
    pub command_specific: Option<u64>,
}

/// The two forms in which sense data travel: what D_SENSE of the control mode page chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    #[default]
    Fixed,
    Descriptor,
}

/// Bytes of sense data in fixed format, as they are sent.
pub const FIXED_BYTES: usize = 18;
/// The most bytes of sense data in either format (of descriptors: information, command specific, sense key specific).
pub const MAX_SENSE_BYTES: usize = 8 + 12 + 12 + 8;

const CURRENT_FIXED: u8 = 0x70;
const CURRENT_DESCRIPTOR: u8 = 0x72;

impl Sense {
    /// With nothing but key and code.
    #[must_use]
    pub const fn new(key: Key, code: Code) -> Sense {
        Sense {
            key,
            code,
            specific: Specific::None,
            information: None,
            command_specific: None,
        }
    }

    /// Nothing is to be said.
    pub const NONE: Sense = Sense::new(Key::NoSense, code::NO_ADDITIONAL_SENSE);

    /// A field of the command is wrong: from byte `byte` on; `bit` is the most significant bit of it, if it is less than a byte.
    #[must_use]
    pub const fn in_cdb(byte: u16, bit: Option<u8>) -> Sense {
        Sense::new(Key::IllegalRequest, code::INVALID_FIELD_IN_CDB).at(true, byte, bit)
    }

    /// A field of the parameter list is wrong.
    #[must_use]
    pub const fn in_list(byte: u16, bit: Option<u8>) -> Sense {
        Sense::new(Key::IllegalRequest, code::INVALID_FIELD_IN_LIST).at(false, byte, bit)
    }

    /// The same, with a pointer to a field.
    #[must_use]
    pub const fn at(mut self, in_cdb: bool, byte: u16, bit: Option<u8>) -> Sense {
        self.specific = Specific::Field(FieldPointer { in_cdb, byte, bit });
        self
    }

    /// The same, of that block.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Sense {
        self.information = Some(information);
        self
    }

    /// As it travels, without the length that iSCSI puts before it.
    #[must_use]
    pub fn encode(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Fixed => self.encode_fixed(),
            Format::Descriptor => self.encode_descriptors(),
        }
    }

    /// SPC-4, "Fixed format sense data". What has no room in 32 bits is left out: VALID says whether INFORMATION is there.
    fn encode_fixed(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_BYTES];
        bytes[0] = CURRENT_FIXED;
        bytes[2] = self.key as u8;
        bytes[7] = (FIXED_BYTES - 8) as u8;
        if let Some(Ok(information)) = self.information.map(u32::try_from) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        if let Some(Ok(specific)) = self.command_specific.map(u32::try_from) {
            bytes[8..12].copy_from_slice(&specific.to_be_bytes());
        }
        bytes[12..14].copy_from_slice(&[self.code.0, self.code.1]);
        if let Some(specific) = self.specific.encode() {
            bytes[15..18].copy_from_slice(&specific);
        }
        bytes
    }

    /// SPC-4, "Descriptor format sense data".
    fn encode_descriptors(&self) -> Vec<u8> {
        const INFORMATION: u8 = 0;
        const COMMAND_SPECIFIC: u8 = 1;
        const KEY_SPECIFIC: u8 = 2;
        let mut bytes = Vec::with_capacity(MAX_SENSE_BYTES);
        bytes.extend([CURRENT_DESCRIPTOR, self.key as u8, self.code.0, self.code.1, 0, 0, 0, 0]);
        if let Some(information) = self.information {
            bytes.extend([INFORMATION, 0x0a, 0x80, 0]);
            bytes.extend(information.to_be_bytes());
        }
        if let Some(specific) = self.command_specific {
            bytes.extend([COMMAND_SPECIFIC, 0x0a, 0, 0]);
            bytes.extend(specific.to_be_bytes());
        }
        if let Some([first, second, third]) = self.specific.encode() {
            bytes.extend([KEY_SPECIFIC, 0x06, 0, 0, first, second, third, 0]);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }
}

impl Specific {
    /// The three bytes of sense key specific data, with SKSV set.
    fn encode(self) -> Option<[u8; 3]> {
        const VALID: u8 = 0x80;
        let bits = |bit: Option<u8>| bit.map_or(0, |bit| 0x08 | bit & 7);
        let (first, number) = match self {
            Specific::None => return None,
            Specific::Field(field) => (u8::from(field.in_cdb) << 6 | bits(field.bit), field.byte),
            Specific::Segment(segment) => (u8::from(segment.in_segment) << 5 | bits(segment.bit), segment.byte),
            Specific::Progress(progress) => (0, progress),
        };
        let [high, low] = number.to_be_bytes();
        Some([VALID | first, high, low])
    }
}

#[cfg(test)]
mod tests;
