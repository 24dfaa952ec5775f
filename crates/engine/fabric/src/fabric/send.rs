//! What goes out.

use super::{Fabric, Operation, Slot, token};
use crate::codec::{encode, encode_ping};
use crate::connection::{Connection, Phase, Waiting};
use crate::event::{DownReason, Link, SendError};
use crate::faults;
use crate::limits::{RECEIVE_CLASSES, STARVED_RETRY};
use crate::message::Message;
use crate::window::{charge, forward_charge};
use amita_reactor::{Driver, Inbox, Segments, Slice};
use std::io;

impl Fabric {
    /// Queues a message with its payload; it goes out at [`Fabric::flush`], or, a request beyond the window, when
    /// answers have made room. The order of a link's messages is kept.
    pub fn send(&mut self, link: Link, mut message: Message, mut payload: Slice) -> Result<(), SendError> {
        faults::speak(&self.config, &mut message, &mut payload);
        let limits = (self.config.limits.queue_requests, self.config.limits.queue_bytes);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let sent = self.put(link, message, payload, &mut scratch, limits);
        self.scratch = scratch;
        sent
    }

    fn put(
        &mut self,
        link: Link,
        message: Message,
        payload: Slice,
        scratch: &mut Vec<u8>,
        limits: (usize, usize),
    ) -> Result<(), SendError> {
        let connection = self
            .connection_mut(link)
            .filter(|found| found.phase == Phase::Up)
            .ok_or(SendError::Closed)?;
        encode(scratch, connection.version, &message, payload.len())?;
        match &message {
            Message::Request(request) => {
                let (id, charge) = (request.id.0, charge(request, payload.len()));
                if !connection.take_request(id, charge)? {
                    let waiting = Waiting {
                        message,
                        payload,
                        id,
                        charge,
                    };
                    connection.enqueue(waiting, limits)?;
                    self.touch(link);
                    return Ok(());
                }
            }
            Message::Answer(answer) => {
                let charge = connection.settle_request(answer.id.0)?;
                self.unanswered -= u64::from(charge);
                self.resume();
            }
            Message::Forward(forward) => {
                connection.take_forward(forward.tag, forward_charge(forward, payload.len()))?;
            }
            Message::Forwarded(forwarded) => connection.settle_forward(forwarded.tag)?,
            Message::Release { .. } | Message::Cut(_) => connection.take_release()?,
            Message::Released { .. } | Message::CutDone { .. } => connection.settle_release()?,
        }
        self.append(link, scratch, payload);
        Ok(())
    }

    /// Sends the requests for which answers have made room.
    pub(super) fn send_waiting(&mut self, link: Link) {
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(connection) = self.connection_mut(link) {
            let Some(front) = connection.queue.front() else { break };
            if !connection.window.admits(front.charge) {
                break;
            }
            let Some(Waiting {
                message,
                payload,
                id,
                charge,
            }) = connection.queue.pop_front()
            else {
                break;
            };
            connection.queue_bytes -= charge as usize;
            scratch.clear();
            let encoded = encode(&mut scratch, connection.version, &message, payload.len());
            debug_assert_eq!(encoded, Ok(()), "it was encoded once before it was queued");
            let taken = connection.window.take(id, charge);
            debug_assert!(taken, "request {id} is in flight with another content");
            if encoded.is_ok() && taken {
                self.append(link, &mut scratch, payload);
            }
        }
        self.scratch = scratch;
    }

    fn append(&mut self, link: Link, head: &mut Vec<u8>, payload: Slice) {
        self.counters.bytes_sent += (head.len() + payload.len()) as u64;
        let Fabric { slots, config, .. } = self;
        if let Some(connection) = slots
            .get_mut(Slot::of(link.0).index())
            .and_then(|slot| slot.as_deref_mut())
        {
            connection.put(&config.pool, head, payload);
        }
        self.counters.messages_sent += 1;
        self.touch(link);
    }

    /// Queues what is in the scratch buffer: frames of the connection's own.
    pub(super) fn append_scratch(&mut self, link: Link) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let Fabric { slots, config, .. } = self;
        let found = slots
            .get_mut(Slot::of(link.0).index())
            .and_then(|slot| slot.as_deref_mut())
            .filter(|found| found.link == link);
        if let Some(connection) = found {
            connection.put(&config.pool, &mut scratch, Slice::default());
        }
        self.scratch = scratch;
        self.touch(link);
    }

    /// A send has ended.
    pub(super) fn sent(&mut self, driver: &mut dyn Driver, number: u64, data: Segments, result: io::Result<()>) {
        let Some(link) = self.link_of(number) else { return };
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        connection.outbox.sent(data);
        match result {
            Ok(()) => self.touch(link),
            Err(error) => self.end(driver, link, DownReason::Broken(error.kind()), None),
        }
    }

    /// The end of a pass: one send for each connection that has something to say, one receive for each that may hear.
    pub fn flush(&mut self, driver: &mut dyn Driver) {
        self.now = driver.now();
        if self.next <= self.now || !self.doomed.is_empty() {
            self.tick(driver);
        }
        self.tell_callers(driver);
        let mut links = std::mem::replace(&mut self.dirty, std::mem::take(&mut self.spare));
        for link in links.drain(..) {
            self.see_to(driver, link);
        }
        self.spare = links;
    }

    fn see_to(&mut self, driver: &mut dyn Driver, link: Link) {
        let (now, paused) = (self.now, self.paused);
        let mut next = self.next;
        let mut scratch = std::mem::take(&mut self.scratch);
        let Fabric {
            slots,
            config,
            counters,
            ..
        } = self;
        let slot = Slot::of(link.0).index();
        let found = slots
            .get_mut(slot)
            .and_then(|slot| slot.as_deref_mut())
            .filter(|found| found.link == link);
        let mut is_said = false;
        if let Some(connection) = found {
            connection.dirty = false;
            if let Some(number) = connection.pong.take() {
                scratch.clear();
                encode_ping(&mut scratch, connection.version, number, true);
                connection.put(&config.pool, &mut scratch, Slice::default());
            }
            let busy = connection.is_outstanding();
            if busy && !connection.busy {
                connection.asked = now;
                next = next.min(now.plus(config.timeouts.quiet));
            }
            connection.busy = busy;
            if let Some(segments) = connection.outbox.next_send() {
                connection.sending_since = now;
                counters.sends += 1;
                driver.send(connection.socket, segments, token(Operation::Send, link.0));
            }
            is_said = connection.phase == Phase::Closing && !connection.outbox.is_sending();
            if !is_said {
                arm(driver, connection, config, paused);
                if connection.starved {
                    next = next.min(now.plus(STARVED_RETRY));
                }
            }
        }
        self.scratch = scratch;
        self.next = next;
        if is_said {
            self.remove(driver, link);
        }
    }

    /// Reads incoming links again, once enough is answered. (A quarter below the bound, so that it does not flutter.)
    pub(super) fn resume(&mut self) {
        let bound = self.config.limits.unanswered_bytes;
        if !self.paused || self.unanswered > bound - bound / 4 {
            return;
        }
        self.paused = false;
        for at in 0..self.slots.len() {
            if let Some(link) = self.slots[at]
                .as_deref()
                .filter(|found| !found.outgoing)
                .map(|found| found.link)
            {
                self.touch(link);
            }
        }
    }
}

/// Starts a receive, if there is none and there may be one.
fn arm(driver: &mut dyn Driver, connection: &mut Connection, config: &crate::Config, paused: bool) {
    if connection.receiving || !connection.may_read(paused) {
        return;
    }
    if connection.large && connection.class == 0 && connection.inbox.is_empty() {
        // It was quiet: the large block goes back to the pool, a small one will do.
        connection.inbox = Inbox::new();
        connection.large = false;
    }
    connection.large |= connection.class > 0;
    match connection
        .inbox
        .start_receive(&config.pool, RECEIVE_CLASSES[connection.class])
    {
        Some(buffer) => {
            connection.receiving = true;
            connection.starved = false;
            driver.receive(connection.socket, buffer, token(Operation::Receive, connection.link.0));
        }
        // Something gives its buffers back sooner or later; smaller blocks may be left.
        None => {
            connection.starved = true;
            connection.class = 0;
        }
    }
}
