//! What comes in.

use super::Fabric;
use crate::codec::{self, DecodeError, Frame, Prefix};
use crate::connection::{Connection, Phase};
use crate::event::{DownReason, Event, Link, Violation};
use crate::faults::{self, Fault};
use crate::limits::{MAX_CHARGE_BYTES, MAX_RELEASES};
use crate::message::Message;
use crate::window::{charge, forward_charge};
use amita_reactor::{BufMut, Driver, Slice};
use std::io;

impl Fabric {
    /// A receive has ended.
    pub(super) fn received(&mut self, driver: &mut dyn Driver, number: u64, buffer: BufMut, result: io::Result<usize>) {
        let now = self.now;
        let Some(link) = self.link_of(number) else { return };
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        connection.receiving = false;
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                connection.inbox.received(buffer, 0);
                return self.end(driver, link, DownReason::Broken(error.kind()), None);
            }
        };
        let capacity = buffer.len();
        connection.inbox.received(buffer, bytes);
        if connection.phase == Phase::Closing {
            return;
        }
        if bytes == 0 {
            return self.end(driver, link, DownReason::Closed, None);
        }
        connection.heard(now, bytes, capacity);
        self.counters.bytes_received += bytes as u64;
        self.touch(link);
        let first = self.events.len();
        self.parse(driver, link);
        if self.config.faults.has(Fault::Reorder) {
            faults::reorder(&mut self.events, first, &mut self.jitter);
        }
    }

    /// Takes every whole frame out of the inbox.
    fn parse(&mut self, driver: &mut dyn Driver, link: Link) {
        while let Some(connection) = self.connection_mut(link) {
            if connection.phase == Phase::Closing {
                return;
            }
            let check_head = !self.config.faults.has(Fault::SkipHeadCrc);
            let Some(connection) = self.connection_mut(link) else {
                return;
            };
            match next_frame(connection, check_head) {
                Ok(None) => return,
                Ok(Some((frame, payload))) => self.frame(driver, link, frame, payload),
                Err(error @ DecodeError::Magic { .. }) if connection.phase == Phase::AwaitHello => {
                    // Whoever that is does not speak the protocol: a reason in it would be lost on him.
                    return self.end(driver, link, DownReason::Violation(error.into()), None);
                }
                Err(error) => return self.violation(driver, link, error.into()),
            }
        }
    }

    fn frame(&mut self, driver: &mut dyn Driver, link: Link, frame: Frame, payload: Slice) {
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        match (connection.phase, frame) {
            (Phase::Up, Frame::Message(message)) => self.message(driver, link, message, payload),
            (Phase::Up, Frame::Ping(number)) => connection.pong = Some(number),
            (Phase::Up, Frame::Pong(_)) => {
                connection.pinged = None;
                // The deadline that stands is that of the verdict; the next ping is due before.
                if connection.is_outstanding() {
                    self.due_by(self.now.plus(self.config.timeouts.quiet));
                }
            }
            (Phase::Up, Frame::Refuse(refuse)) => {
                self.end(driver, link, DownReason::PeerSaid(refuse.reason), None);
            }
            (Phase::AwaitHello, Frame::Hello(hello)) => self.greeted(driver, link, &hello),
            (Phase::AwaitWelcome, Frame::Welcome(hello)) => self.welcomed(driver, link, &hello),
            (Phase::AwaitWelcome, Frame::Refuse(refuse)) => self.refused(driver, link, &refuse),
            (Phase::AwaitHello, _) => {
                self.violation(driver, link, Violation::Unexpected("the first frame is not a hello"));
            }
            (Phase::AwaitWelcome, _) => {
                self.violation(
                    driver,
                    link,
                    Violation::Unexpected("the answer to a hello is neither welcome nor refuse"),
                );
            }
            (Phase::Up, Frame::Hello(_) | Frame::Welcome(_)) => {
                self.violation(driver, link, Violation::Unexpected("a second hello"));
            }
            (Phase::Closing, _) => {}
        }
    }

    fn message(&mut self, driver: &mut dyn Driver, link: Link, message: Message, payload: Slice) {
        let verdict = match &message {
            Message::Request(request) => self.admit(link, request.id.0, charge(request, payload.len())),
            Message::Answer(answer) => self.settle(link, answer.id.0, payload.len()),
            Message::Forward(forward) => self.admit_forward(link, forward.tag, forward_charge(forward, payload.len())),
            Message::Forwarded(forwarded) => self.settle_forward(link, forwarded.tag, payload.len()),
            Message::Release { .. } => self.count_release(link),
            Message::Released { .. } => self.count_released(link),
        };
        if let Err(what) = verdict {
            return self.violation(driver, link, what);
        }
        self.counters.messages_received += 1;
        self.events.push_back(Event::Message { link, message, payload });
    }

    /// A request came: does the window that this end has granted allow it?
    fn admit(&mut self, link: Link, id: u64, charge: u32) -> Result<(), Violation> {
        let Some(connection) = self.connection_mut(link) else {
            return Ok(());
        };
        if connection.outgoing {
            return Err(Violation::Unexpected("a request from the end that accepted the link"));
        }
        if !connection.window.admits(charge) {
            let (requests, bytes) = connection.window.limits();
            return Err(Violation::Window { requests, bytes });
        }
        if !connection.window.take(id, charge) {
            return Err(Violation::Unexpected("two different requests under one id"));
        }
        self.unanswered += u64::from(charge);
        if !self.paused && self.unanswered > self.config.limits.unanswered_bytes {
            self.paused = true;
            self.counters.pauses += 1;
            // Whoever is not read is told now and then that this end lives.
            self.due_by(self.now.plus(self.config.timeouts.quiet));
        }
        Ok(())
    }

    /// An answer came: was it asked for?
    fn settle(&mut self, link: Link, id: u64, payload_bytes: usize) -> Result<(), Violation> {
        let Some(connection) = self.connection_mut(link) else {
            return Ok(());
        };
        if !connection.outgoing {
            return Err(Violation::Unexpected("an answer from the end that made the link"));
        }
        match connection.window.charge_of(id) {
            Some(charge) if payload_bytes <= charge as usize => {
                connection.window.settle(id);
                self.send_waiting(link);
                Ok(())
            }
            _ => Err(Violation::Answer { id, payload_bytes }),
        }
    }

    /// A forwarded request came. It does not count among what is unanswered: it is answered only when requests are that
    /// come by other links, which must be read.
    fn admit_forward(&mut self, link: Link, tag: u64, charge: u32) -> Result<(), Violation> {
        let Some(connection) = self.connection_mut(link) else {
            return Ok(());
        };
        if connection.outgoing {
            return Err(Violation::Unexpected(
                "a forwarded request from the end that accepted the link",
            ));
        }
        if !connection.forwards.admits(charge) {
            let (requests, bytes) = connection.forwards.limits();
            return Err(Violation::Window { requests, bytes });
        }
        if connection.forwards.charge_of(tag).is_some() || !connection.forwards.take(tag, charge) {
            return Err(Violation::Unexpected("two forwarded requests under one tag"));
        }
        Ok(())
    }

    fn settle_forward(&mut self, link: Link, tag: u64, payload_bytes: usize) -> Result<(), Violation> {
        let Some(connection) = self.connection_mut(link) else {
            return Ok(());
        };
        if !connection.outgoing {
            return Err(Violation::Unexpected(
                "an answer to a forwarded request from the end that made the link",
            ));
        }
        match connection.forwards.charge_of(tag) {
            Some(charge) if payload_bytes <= charge as usize => {
                connection.forwards.settle(tag);
                Ok(())
            }
            _ => Err(Violation::Answer { id: tag, payload_bytes }),
        }
    }

    fn count_release(&mut self, link: Link) -> Result<(), Violation> {
        let Some(connection) = self.connection_mut(link) else {
            return Ok(());
        };
        if connection.releases_received >= MAX_RELEASES {
            return Err(Violation::Unexpected("too many requests for release"));
        }
        connection.releases_received += 1;
        Ok(())
    }

    fn count_released(&mut self, link: Link) -> Result<(), Violation> {
        let Some(connection) = self.connection_mut(link) else {
            return Ok(());
        };
        match connection.releases_sent.checked_sub(1) {
            Some(left) => connection.releases_sent = left,
            None => {
                return Err(Violation::Unexpected(
                    "an answer to a request for release that was not made",
                ));
            }
        }
        Ok(())
    }
}

/// The frame at the front of the inbox, taken out; `None` when it is not whole yet.
fn next_frame(connection: &mut Connection, check_head: bool) -> Result<Option<(Frame, Slice)>, DecodeError> {
    let inbox = &mut connection.inbox;
    if inbox.len() < connection.wanted {
        return Ok(None);
    }
    let agreed = (connection.phase == Phase::Up).then_some(connection.version);
    let data = inbox.data();
    let Some(prefix) = codec::prefix(data, agreed)? else {
        return Ok(None);
    };
    let Prefix {
        head_bytes,
        payload_bytes,
        ..
    } = prefix;
    let Some(head) = data.get(..head_bytes) else {
        connection.wanted = head_bytes;
        inbox.need(head_bytes);
        return Ok(None);
    };
    if check_head {
        codec::check(head)?;
    }
    let whole = head_bytes + payload_bytes;
    if data.len() < whole {
        connection.wanted = whole;
        inbox.need(whole);
        return Ok(None);
    }
    let frame = codec::decode(prefix, head)?;
    connection.wanted = 0;
    inbox.skip(head_bytes);
    let payload = if payload_bytes == 0 {
        Slice::default()
    } else {
        inbox.take(payload_bytes)
    };
    Ok(Some((frame, payload)))
}

// A request that the codec lets through fits every window that a hello may grant.
const _: () = assert!(
    MAX_CHARGE_BYTES as usize >= crate::limits::MAX_PAYLOAD_BYTES + crate::limits::REQUEST_CHARGE_BYTES as usize
);
