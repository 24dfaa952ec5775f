//! Login requests and responses, as bytes (11.12, 11.13).

use super::Status;
use crate::text::Text;
use crate::wire::{Header, flag, opcode};

/// The stages before the full feature phase (11.12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Security = 0,
    Operational = 1,
}

/// The number of the full feature phase, where stages are meant.
const FULL_FEATURE: u8 = 3;

/// A login request, but for its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// On to the next stage.
    pub transits: bool,
    /// Its text goes on in the next request.
    pub continues: bool,
    pub stage: Stage,
    /// The next stage; none: the full feature phase.
    pub next: Option<Stage>,
    pub version_min: u8,
    pub isid: [u8; 6],
    /// The session that the connection is for; 0: a new one.
    pub tsih: u16,
    pub task_tag: u32,
    pub cid: u16,
    pub cmd_sn: u32,
}

impl Request {
    /// Reads a header; none: its stages are none.
    #[must_use]
    pub fn parse(header: &Header) -> Option<Request> {
        let stage = |bits: u8| match bits & 3 {
            0 => Some(Some(Stage::Security)),
            1 => Some(Some(Stage::Operational)),
            FULL_FEATURE => Some(None),
            _ => None,
        };
        let flags = header.flags();
        let transits = header.has(flag::TRANSIT);
        // The next stage means nothing where there is no transit.
        let next = match transits {
            true => stage(flags)?,
            false => Some(Stage::Security),
        };
        let isid = header.0[8..14].first_chunk().copied().unwrap_or_default();
        Some(Request {
            transits,
            continues: header.has(flag::CONTINUE),
            stage: stage(flags >> 2)??,
            next,
            version_min: header.0[3],
            isid,
            tsih: header.u16_at(14),
            task_tag: header.task_tag(),
            cid: header.u16_at(20),
            cmd_sn: header.cmd_sn(),
        })
    }
}

/// A login response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub transits: bool,
    pub stage: Stage,
    /// The next stage; none: the full feature phase.
    pub next: Option<Stage>,
    pub text: Text,
}

impl Response {
    /// Its header, but for the sequence numbers.
    #[must_use]
    pub fn header(&self, request: &Request, tsih: u16) -> Header {
        let mut flags = (self.stage as u8) << 2;
        if self.transits {
            flags |= flag::TRANSIT | self.next.map_or(FULL_FEATURE, |next| next as u8);
        }
        answer_to(request, flags, tsih)
    }
}

/// The header of a response that ends the login (11.13.5), but for the sequence numbers.
#[must_use]
pub fn refused(header: &Header, status: Status) -> Header {
    // There is no transit, and the stage is the initiator's.
    let mut answer = Header::new(opcode::LOGIN_RESPONSE, header.flags() & 0x0c);
    answer.0[8..16].copy_from_slice(&header.0[8..16]);
    answer
        .with_task_tag(header.task_tag())
        .with_byte(36, status.0)
        .with_byte(37, status.1)
}

/// Version 0 is the highest, and the active one: bytes 2 and 3 stay 0.
fn answer_to(request: &Request, flags: u8, tsih: u16) -> Header {
    let mut header = Header::new(opcode::LOGIN_RESPONSE, flags);
    header.0[8..14].copy_from_slice(&request.isid);
    header.with_u16(14, tsih).with_task_tag(request.task_tag)
}
