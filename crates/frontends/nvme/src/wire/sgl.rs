//! Where a command's data is (NVM Express Base 2.1, 4.3.2; "TCP", 3.3.3).

use super::status;
use crate::command::{Command, Status};

/// How data travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In the command's capsule, from this offset on.
    Capsule {
        /// In bytes of the capsule's data.
        offset: u64,
    },
    /// In data PDUs.
    Transport,
}

/// A command's one data pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgl {
    pub carrier: Carrier,
    /// In bytes.
    pub length: u32,
}

impl Sgl {
    /// The data pointer of a command that has data.
    pub fn parse(command: &Command) -> Result<Sgl, Status> {
        // "SGLs shall be used for all commands" of Fabrics: PRPs are refused (Base 2.1, 4.3.1).
        if !matches!(command.psdt(), 1 | 2) {
            return Err(status::INVALID_FIELD);
        }
        let length = command.dword(8);
        let carrier = match command.0[39] {
            // An SGL data block with an offset into the capsule.
            0x01 => Carrier::Capsule {
                offset: command.qword(6),
            },
            // A transport SGL data block.
            0x5a => Carrier::Transport,
            _ => return Err(status::SGL_TYPE),
        };
        Ok(Sgl { carrier, length })
    }
}
