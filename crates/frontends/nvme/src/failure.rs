//! Commands that failed, on their way to the Error Information log page (NVM Express Base 2.1, 5.1.12.1.2).
//!
//! The page is the admin queue's, and the queues of a controller may be on different cores. A queue tells the register
//! of what failed, one message at a time, and keeps the newest of what fails until that was taken; the register keeps the
//! newest of all of a controller's queues until the host reads the page. So each place holds a page full at the most, a
//! host that does nothing but wrong makes no more messages than one that does not, and an I/O that ends well has no part
//! in any of it. What is forgotten for want of room is counted.
//!
//! A completion whose command is in the log, or was for a while, says "more" (4.2.3). The entry may be there a moment later
//! than the completion: a queue that has told of one failure waits until that was taken before it tells of the next. It gets
//! its number when the admin queue asks, which is when a host reads the page or the health page: the order between queues
//! is that, the order in a queue is as it was.

use super::command::{Command, Status};
use super::wire::status;
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Failures that are kept: entries of the page (ELPE + 1).
pub const MAX_FAILURES: usize = 64;

/// The error is of no byte of the command.
const NO_LOCATION: u16 = 0xffff;
/// The opcode of Fabrics commands, which have no namespace.
const FABRICS: u8 = 0x7f;
const COPY: u8 = 0x19;
const DATASET: u8 = 0x09;

/// A command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of its queue.
    pub queue: u16,
    /// Its identifier.
    pub command: u16,
    pub status: Status,
    /// The byte of the command that is wrong in bits 7 to 0, its bit in bits 10 to 8; FFFFh: none of them.
    pub location: u16,
    /// The first logical block that the error is of; 0 where it is of none.
    pub lba: u64,
    /// The namespace.
    pub nsid: u32,
    pub opcode: u8,
}

impl Failure {
    /// The failure of a command; `lba`: where, if it is known.
    #[must_use]
    pub fn of(queue: u16, command: &Command, status: Status, lba: Option<u64>) -> Failure {
        let is_fabrics = command.opcode() == FABRICS;
        let first = match status {
            // Of Copy it is the destination's or a source's, and Dataset Management has its ranges in its data.
            status::LBA_RANGE | status::COMPARE_FAILURE if !has_ranges(command) => command.qword(10),
            _ => 0,
        };
        Failure {
            queue,
            command: command.id(),
            status,
            location: location(command, status),
            lba: lba.unwrap_or(first),
            nsid: if is_fabrics { 0 } else { command.nsid() },
            opcode: command.opcode(),
        }
    }

    /// Did the transport fail, and not the command? Only then does the log name the transport ("TRTYPE: if the error is not
    /// transport related, then this field should be cleared to 0h").
    #[must_use]
    pub fn is_of_transport(&self) -> bool {
        self.status == status::TRANSIENT_TRANSPORT
    }
}

fn has_ranges(command: &Command) -> bool {
    matches!(command.opcode(), COPY | DATASET | FABRICS)
}

/// Which field of the command a status is about, as far as it tells by itself.
fn location(command: &Command, status: Status) -> u16 {
    let field = |byte: u16, bit: u16| byte | bit << 8;
    match status {
        // The type of a Fabrics command is its opcode.
        status::INVALID_OPCODE if command.opcode() == FABRICS => field(4, 0),
        status::INVALID_OPCODE => field(0, 0),
        status::ID_CONFLICT => field(2, 0),
        status::INVALID_NAMESPACE => field(4, 0),
        // Over fabrics every command has an SGL (Base 2.1, 4.3.1).
        status::INVALID_FIELD if !matches!(command.psdt(), 1 | 2) => field(1, 6),
        status::SGL_OFFSET => field(24, 0),
        status::SGL_LENGTH => field(32, 0),
        status::SGL_TYPE => field(39, 4),
        status::LBA_RANGE if !has_ranges(command) => field(40, 0),
        _ => NO_LOCATION,
    }
}

/// The newest failures, and how many more there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Oldest first.
    kept: VecDeque<Failure>,
    forgotten: u64,
}

impl Failures {
    /// One more: when there is no room for it, the oldest is forgotten.
    pub fn push(&mut self, failure: Failure) {
        if self.kept.len() == MAX_FAILURES {
            self.kept.pop_front();
            self.forgotten += 1;
        }
        self.kept.push_back(failure);
    }

    /// Adds what came later.
    pub fn append(&mut self, later: Failures) {
        self.forgotten = self.forgotten.saturating_add(later.forgotten);
        later.kept.into_iter().for_each(|failure| self.push(failure));
    }

    /// Were there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.forgotten == 0
    }

    /// How many were forgotten.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Those that were not, oldest first.
    pub fn kept(&self) -> impl DoubleEndedIterator<Item = &Failure> {
        self.kept.iter()
    }
}
