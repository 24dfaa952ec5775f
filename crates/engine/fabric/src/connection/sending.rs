//! May a message leave by a connection, and what does it take of what the peer has granted?

use super::{Connection, Waiting};
use crate::codec::EncodeError;
use crate::event::SendError;
use crate::limits::MAX_RELEASES;

impl Connection {
    /// A request: may it leave now? If not, it is to wait ([`Connection::enqueue`]).
    pub(crate) fn take_request(&mut self, id: u64, charge: u32) -> Result<bool, SendError> {
        if !self.outgoing {
            return Err(SendError::WrongWay);
        }
        if self.window.charge_of(id).is_some_and(|of_first| of_first != charge) {
            return Err(EncodeError::Field {
                field: "the id of a different request in flight",
                value: id,
            }
            .into());
        }
        if !self.window.could_admit(charge) {
            return Err(EncodeError::Field {
                field: "bytes of a request",
                value: charge.into(),
            }
            .into());
        }
        if !self.queue.is_empty() || !self.window.admits(charge) {
            return Ok(false);
        }
        let taken = self.window.take(id, charge);
        debug_assert!(taken, "compared above");
        Ok(true)
    }

    /// A request waits for the window, if there is room for so many, and for so many bytes.
    pub(crate) fn enqueue(&mut self, waiting: Waiting, (requests, bytes): (usize, usize)) -> Result<(), SendError> {
        let queue_bytes = self.queue_bytes + waiting.charge as usize;
        if self.queue.len() >= requests || queue_bytes > bytes {
            return Err(SendError::Full);
        }
        self.queue_bytes = queue_bytes;
        self.queue.push_back(waiting);
        Ok(())
    }

    /// An answer: the charge of the request that it ends.
    pub(crate) fn settle_request(&mut self, id: u64) -> Result<u32, SendError> {
        if self.outgoing {
            return Err(SendError::WrongWay);
        }
        self.window.settle(id).ok_or(SendError::NotAsked)
    }

    /// A forwarded request. Whoever forwards keeps what does not fit: it may have to go another way later.
    pub(crate) fn take_forward(&mut self, tag: u64, charge: u32) -> Result<(), SendError> {
        if !self.outgoing {
            return Err(SendError::WrongWay);
        }
        if !self.forwards.admits(charge) {
            return Err(SendError::Full);
        }
        if !self.forwards.take(tag, charge) {
            return Err(EncodeError::Field {
                field: "the tag of a different forwarded request in flight",
                value: tag,
            }
            .into());
        }
        Ok(())
    }

    /// The answer to a forwarded request.
    pub(crate) fn settle_forward(&mut self, tag: u64) -> Result<(), SendError> {
        if self.outgoing {
            return Err(SendError::WrongWay);
        }
        self.forwards.settle(tag).ok_or(SendError::NotAsked)?;
        Ok(())
    }

    /// A request for release.
    pub(crate) fn take_release(&mut self) -> Result<(), SendError> {
        if self.releases_sent >= MAX_RELEASES {
            return Err(SendError::Full);
        }
        self.releases_sent += 1;
        Ok(())
    }

    /// The answer to one.
    pub(crate) fn settle_release(&mut self) -> Result<(), SendError> {
        self.releases_received = self.releases_received.checked_sub(1).ok_or(SendError::NotAsked)?;
        Ok(())
    }
}
