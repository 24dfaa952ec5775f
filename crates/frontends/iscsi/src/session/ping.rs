//! Is the host there? (NOP-Out and NOP-In; RFC 7143, 11.18 and 11.19.)
//!
//! A host that hears nothing of a path gives it up after some seconds, and goes on by another. What this gateway has of it then must
//! not be carried out any more: it would come behind what the host has done since. So a task that has grown old is kept only while its
//! host is heard; a host that is silent is asked, and answers if it is there (open-iscsi gives a path up when it has not been answered
//! for five seconds, and asks every five; others are more patient). A host with nothing under way is asked, too, so that sessions of
//! dead hosts do not stay.

use super::Session;
use crate::Cx;
use crate::connection::End;
use crate::port::Config;
use crate::wire::{Header, NO_TAG, flag, opcode};
use amita_frontend::front::CloseReason;
use amita_reactor::{Slice, Time};
use std::time::Duration;

/// A host with an old task that is silent for so long is asked.
const ASK: Duration = Duration::from_secs(1);
/// And one that is silent for so long has lost the session: before it could have given the path up.
const GIVE_UP: Duration = Duration::from_secs(3);
/// All sessions of a core look at the same moments, so far apart.
const LOOK: Duration = Duration::from_millis(250);

/// When the host was heard, and when to look for that.
#[derive(Debug)]
pub(super) struct Watch {
    heard_at: Time,
    /// When it was asked, and has not been heard since.
    asked_at: Option<Time>,
    /// When to look for old tasks; none while there is none.
    look_at: Option<Time>,
}

impl Watch {
    pub fn new(now: Time) -> Watch {
        Watch {
            heard_at: now,
            asked_at: None,
            look_at: None,
        }
    }

    /// Something has come.
    pub fn heard(&mut self, now: Time) {
        self.heard_at = now;
        self.asked_at = None;
    }

    /// When something came last.
    pub fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// A command has come.
    pub fn command(&mut self, now: Time, config: &Config) {
        if self.look_at.is_none() {
            self.look_at = Some(next_look(now.plus(config.stale_after)));
        }
    }

    pub fn deadline(&self, config: &Config) -> Option<Time> {
        let silent = self.asked_at.unwrap_or(self.heard_at).plus(config.ping_after);
        Some(self.look_at.map_or(silent, |at| at.min(silent)))
    }
}

/// The first moment to look that is not before this one.
fn next_look(at: Time) -> Time {
    Time(at.0.next_multiple_of(LOOK.as_nanos() as u64))
}

/// Answers a NOP-Out: with what it has, if it wants an answer.
pub(super) fn answer(session: &mut Session, header: &Header, mut data: Slice, cx: &mut Cx<'_>) {
    // One without a tag is an answer itself, or says nothing but its numbers (11.18).
    if header.task_tag() == NO_TAG {
        return;
    }
    data = data.split_to(data.len().min(session.link.max_send));
    let answer = Header::new(opcode::NOP_IN, flag::FINAL)
        .with_lun(header.lun())
        .with_task_tag(header.task_tag())
        .with_target_tag(NO_TAG);
    let answer = session.numbers.stamp(answer);
    session.link.send_slice(answer, data, cx.outbox, cx.pool);
}

/// Asks whether the host is there.
fn ask(session: &mut Session, cx: &mut Cx<'_>) {
    session.watch.asked_at = Some(cx.now);
    let tag = session.next_transfer_tag();
    let header = Header::new(opcode::NOP_IN, flag::FINAL)
        .with_task_tag(NO_TAG)
        .with_target_tag(tag);
    // Its StatSN is that of the next status (11.19.2).
    let header = session.numbers.stamp_quietly(header, true);
    session.link.send(header, cx.outbox, cx.pool);
}

/// Time has passed.
pub(super) fn tick(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    let (ping_after, stale_after) = {
        let config = session.port.config();
        (config.ping_after, config.stale_after)
    };
    let gone = || Err(End::Now(CloseReason::Timeout));
    let watch = &session.watch;
    let silent_since = watch.asked_at.unwrap_or(watch.heard_at);
    if cx.now >= silent_since.plus(ping_after) {
        // Hosts that are there to discover go by themselves.
        if watch.asked_at.is_some() || session.is_guest() {
            return gone();
        }
        ask(session, cx);
    }
    if session.watch.look_at.is_none_or(|at| cx.now < at) {
        return Ok(());
    }
    let Some(oldest) = session.engine.oldest(|request| request.own.since) else {
        session.watch.look_at = None;
        return Ok(());
    };
    let old_at = oldest.plus(stale_after);
    if cx.now < old_at {
        session.watch.look_at = Some(next_look(old_at));
        return Ok(());
    }
    let silence = cx.now.since(session.watch.heard_at);
    if silence >= GIVE_UP {
        return gone();
    }
    if silence >= ASK && session.watch.asked_at.is_none() {
        ask(session, cx);
    }
    session.watch.look_at = Some(next_look(Time(cx.now.0 + 1)));
    Ok(())
}
