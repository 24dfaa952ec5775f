//! What comes in.

use super::{Fabric, Slot};
use crate::codec::{self, DecodeError, Frame, PREFIX_BYTES, RefuseCode};
use crate::connection::{Connection, Guard, Phase, Proven};
use crate::event::{DownReason, Event, Link, Violation};
use crate::faults::{self, Fault};
use crate::limits::{MAX_CHARGE_BYTES, MAX_RELEASES};
use crate::message::Message;
use crate::records::{Records, TAG_BYTES};
use crate::secure::{Peer, Protection};
use crate::window::{charge, forward_charge};
use amita_reactor::{BufMut, Driver, Inbox, Pool, Slice};
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
            match connection.phase {
                Phase::Closing => return,
                Phase::Proving => {
                    self.prove(driver, link);
                    // What follows the handshake in the same bytes are frames.
                    if self.connection(link).is_none_or(|found| found.phase == Phase::Proving) {
                        return;
                    }
                    continue;
                }
                Phase::AwaitHello | Phase::AwaitWelcome | Phase::Up => {}
            }
            let check_head = !self.config.faults.has(Fault::SkipHeadCrc);
            let Fabric { slots, config, .. } = self;
            let Some(connection) = slots[Slot::of(link.0).index()].as_deref_mut() else {
                return;
            };
            let (phase, peer) = (connection.phase, connection.peer);
            let is_proven = connection.guard.peer().is_some();
            match next_frame(connection, &config.pool, check_head) {
                Ok(None) => return,
                Ok(Some((frame, payload))) => self.frame(driver, link, frame, payload),
                Err(DecodeError::Magic { .. }) if is_proven && phase == Phase::AwaitWelcome => {
                    // The other end of the handshake is the last to judge, and says so in the handshake's own words.
                    let reason = "it does not accept this node's certificate; its log says why";
                    self.tell_refused(peer, link, reason.to_owned());
                    return self.end(driver, link, DownReason::PeerSaid(reason.to_owned()), None);
                }
                // Nobody is told: whoever did it is not the peer.
                Err(DecodeError::Forged | DecodeError::Magic { .. }) if is_proven => {
                    self.counters.forged += 1;
                    let what = Violation::Frame(DecodeError::Forged);
                    return self.end(driver, link, DownReason::Violation(what), None);
                }
                Err(error @ DecodeError::Magic { .. }) if phase == Phase::AwaitHello => {
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
                connection.may_doubt = connection.has_other;
                // The deadline that stands is that of the verdict; the next ping is due before.
                if connection.is_outstanding() {
                    self.due_by(self.now.plus(self.config.timeouts.quiet));
                }
            }
            (Phase::Up, Frame::Refuse(refuse)) => {
                if refuse.code == RefuseCode::Replaced {
                    self.replaced(link);
                }
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
            (Phase::Proving | Phase::Closing, _) => {}
        }
    }

    fn message(&mut self, driver: &mut dyn Driver, link: Link, message: Message, payload: Slice) {
        let Some(from) = self.connection(link).map(|connection| connection.peer) else {
            return;
        };
        let verdict = match &message {
            Message::Request(request) => self.admit(link, request.id.0, charge(request, payload.len())),
            Message::Answer(answer) => self.settle(link, answer.id.0, payload.len()),
            Message::Forward(forward) => self.admit_forward(link, forward.tag, forward_charge(forward, payload.len())),
            Message::Forwarded(forwarded) => self.settle_forward(link, forwarded.tag, payload.len()),
            Message::Release { .. } | Message::Cut(_) => self.count_release(link),
            Message::Released { .. } | Message::CutDone { .. } => self.count_released(link),
        };
        if let Err(what) = verdict {
            return self.violation(driver, link, what);
        }
        self.counters.messages_received += 1;
        self.events.push_back(Event::Message {
            link,
            from,
            message,
            payload,
        });
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
fn next_frame(
    connection: &mut Connection,
    pool: &Pool,
    check_head: bool,
) -> Result<Option<(Frame, Slice)>, DecodeError> {
    if connection.inbox.len() < connection.wanted {
        return Ok(None);
    }
    let agreed = (connection.phase == Phase::Up).then_some(connection.version);
    let Connection {
        inbox, guard, wanted, ..
    } = connection;
    let taken = match guard {
        Guard::Proven(proven) => protected_frame(proven, inbox, wanted, agreed, pool),
        Guard::Open | Guard::Proving(..) => plain_frame(inbox, wanted, agreed, check_head),
    }?;
    if taken.is_some() {
        *wanted = 0;
    }
    Ok(taken)
}

/// Are so many bytes there? If not, the inbox is not looked at before they are.
fn has(inbox: &mut Inbox, wanted: &mut usize, bytes: usize) -> bool {
    let is_there = inbox.len() >= bytes;
    if !is_there {
        *wanted = bytes;
        inbox.need(bytes);
    }
    is_there
}

fn take_payload(inbox: &mut Inbox, bytes: usize) -> Slice {
    match bytes {
        0 => Slice::default(),
        bytes => inbox.take(bytes),
    }
}

/// The next frame of a link that nothing protects.
fn plain_frame(
    inbox: &mut Inbox,
    wanted: &mut usize,
    agreed: Option<u8>,
    check_head: bool,
) -> Result<Option<(Frame, Slice)>, DecodeError> {
    let Some(prefix) = codec::prefix(inbox.data(), agreed)? else {
        return Ok(None);
    };
    if !has(inbox, wanted, prefix.head_bytes) {
        return Ok(None);
    }
    if check_head {
        codec::check(&inbox.data()[..prefix.head_bytes])?;
    }
    if !has(inbox, wanted, prefix.head_bytes + prefix.payload_bytes) {
        return Ok(None);
    }
    let frame = codec::decode(prefix, &inbox.data()[..prefix.head_bytes])?;
    inbox.skip(prefix.head_bytes);
    Ok(Some((frame, take_payload(inbox, prefix.payload_bytes))))
}

/// The next frame of a protected link. Of one that is not the peer's next nothing is looked at but its lengths.
fn protected_frame(
    proven: &mut Proven,
    inbox: &mut Inbox,
    wanted: &mut usize,
    agreed: Option<u8>,
    pool: &Pool,
) -> Result<Option<(Frame, Slice)>, DecodeError> {
    let Some((head_bytes, payload_bytes)) = codec::lengths(inbox.data(), agreed)? else {
        return Ok(None);
    };
    let whole = head_bytes + TAG_BYTES + payload_bytes;
    if !has(inbox, wanted, whole) {
        return Ok(None);
    }
    let Proven { peer, records } = proven;
    let (head, rest) = inbox.data()[..whole].split_at(head_bytes);
    let (tag, payload) = rest.split_first_chunk::<TAG_BYTES>().ok_or(DecodeError::HeadShort)?;
    match records.protection() {
        Protection::Auth => {
            records.verify(head, tag, payload).map_err(|_| DecodeError::Forged)?;
            let frame = authentic(peer, head, agreed)?;
            inbox.skip(head_bytes + TAG_BYTES);
            Ok(Some((frame, take_payload(inbox, payload_bytes))))
        }
        Protection::Secret => {
            let mut opened = decrypted(records, head, tag, payload, pool)?;
            let frame = authentic(peer, &opened[..head_bytes], agreed)?;
            inbox.skip(whole);
            opened.skip(head_bytes);
            // What has no payload is to hold no memory.
            let payload = if payload_bytes == 0 { Slice::default() } else { opened };
            Ok(Some((frame, payload)))
        }
    }
}

/// A frame's head that is the peer's: may he send it, and what does it say?
fn authentic(peer: &Peer, head: &[u8], agreed: Option<u8>) -> Result<Frame, DecodeError> {
    let kind = codec::kind(head)?;
    if !kind.senders().has(peer.role) {
        return Err(DecodeError::Sender {
            kind,
            role: peer.role.as_str(),
        });
    }
    let prefix = codec::prefix(head, agreed)?.ok_or(DecodeError::HeadShort)?;
    codec::decode(prefix, head)
}

/// The head and the payload of a frame that was encrypted, one after the other.
fn decrypted(
    records: &mut Records,
    head: &[u8],
    tag: &[u8; TAG_BYTES],
    payload: &[u8],
    pool: &Pool,
) -> Result<Slice, DecodeError> {
    let bytes = head.len() + payload.len();
    let mut decrypt = |block: &mut [u8]| {
        block[..PREFIX_BYTES].copy_from_slice(&head[..PREFIX_BYTES]);
        let out = &mut block[PREFIX_BYTES..bytes];
        records
            .decrypt(head, tag, payload, out)
            .map_err(|_| DecodeError::Forged)
    };
    if let Some(mut block) = pool.take(bytes) {
        decrypt(&mut block)?;
        return Ok(block.split_to(bytes));
    }
    // What has come in is to be answered even when the pool is exhausted.
    let mut block = vec![0; bytes];
    decrypt(&mut block)?;
    Ok(Slice::copy_from(&block))
}

// A request that the codec lets through fits every window that a hello may grant.
const _: () = assert!(
    MAX_CHARGE_BYTES as usize >= crate::limits::MAX_PAYLOAD_BYTES + crate::limits::REQUEST_CHARGE_BYTES as usize
);
