//! The two commands that carry the messages (NVM Express Base 2.1, 6.1 and 6.2).

use super::message::MAX_MESSAGE_BYTES;
use crate::command::{Command, Status};

/// In the result of Connect: "authentication required; in-band authentication is supported" (Base 2.1, figure of AUTHREQ:
/// bit 1 of the upper half).
pub const CONNECT_AUTHREQ_ATR: u32 = 1 << 17;

const FABRICS: u8 = 0x7f;
const TYPE_SEND: u8 = 0x05;
const TYPE_RECEIVE: u8 = 0x06;
/// The security protocol of NVMe authentication messages.
const SECURITY_PROTOCOL: u8 = 0xe9;
/// The only value that both bytes of SPSP may have.
const SECURITY_PROTOCOL_SPECIFIC: u8 = 0x01;
const INVALID_FIELD: Status = Status::new(0, 0x02, true);

/// One of the two commands, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthCommand {
    /// The host sends a message of that many bytes.
    Send { bytes: usize },
    /// The host wants one, of at most that many bytes.
    Receive { max_bytes: usize },
}

impl AuthCommand {
    /// Reads a command: `None` if it is another one, and the status to complete it with if its fields are wrong.
    #[must_use]
    pub fn parse(command: &Command) -> Option<Result<AuthCommand, Status>> {
        if command.opcode() != FABRICS {
            return None;
        }
        let sends = match command.0[4] {
            TYPE_SEND => true,
            TYPE_RECEIVE => false,
            _ => return None,
        };
        // Bytes 41, 42: SPSP0 and SPSP1; byte 43: SECP; bytes 44 to 47: the length.
        let fields = &command.0[41..44];
        if fields
            != [
                SECURITY_PROTOCOL_SPECIFIC,
                SECURITY_PROTOCOL_SPECIFIC,
                SECURITY_PROTOCOL,
            ]
        {
            return Some(Err(INVALID_FIELD));
        }
        let bytes = command.dword(11) as usize;
        // What is received may be asked for with any buffer; what is sent may not be longer than a message.
        if bytes == 0 || (sends && bytes > MAX_MESSAGE_BYTES) {
            return Some(Err(INVALID_FIELD));
        }
        Some(Ok(if sends {
            AuthCommand::Send { bytes }
        } else {
            AuthCommand::Receive { max_bytes: bytes }
        }))
    }
}
