//! Is the host there? (NOP-Out and NOP-In; RFC 7143, 11.18 and 11.19.)
//!
//! A host that hears nothing of a path gives it up after some seconds, and goes on by another. What this gateway has of it then must
//! not be carried out any more: it would come behind what the host has done since (open-iscsi gives a path up when it has not been answered
//! for five seconds, and asks every five; others are more patient). It can be in two places:
//!
//! * *Here*: a task that has grown old is kept only while its host is known to be there. A host that is silent is asked, and answers if it is.
//! * *In the host's kernel*, which may go on to send what a connection had queued that was closed, when a broken network is whole again. So
//!   what comes behind a silence says nothing of whether the host is there still. It [waits](super::held) until the host has answered a
//!   question: one that has closed the connection does not, and one that lives does so within a round trip. A silence ends nothing by
//!   itself: many hosts say nothing when they have nothing to do.
//!
//! An answer counts when it comes within [`Config::stale_after`](crate::Config) of the question: the host was there at some time between the two, and what
//! is carried out then is no older, as far as the host may have gone on, than what comes without a silence. An answer that a broken network
//! has held up for longer does not, and the question is put again.
//!
//! A host with nothing under way is asked, too, so that sessions of dead hosts do not stay.
//!
//! Some hosts answer no question at all, as firmware that boots from a LUN (iPXE, EDK2): nothing waits for them, as their sessions would end with every
//! pause. So each host is asked when its first command has come, before that is answered. Whose commands tell by their ExpStatSN that it has seen
//! what was sent behind the question, and who has not answered, is [taken for one](Watch::finds_ignored) of these until it does. That says the order in which
//! things were sent, and no clock: what a kernel sends late is of a host that had answered before, or it names no status behind the question. Silences of such
//! a host are noted all the same: an answer that comes behind one, and too late to count, leaves it doubted.

use super::Session;
use crate::Cx;
use crate::connection::End;
use crate::faults::Fault as Planted;
use crate::port::Config;
use crate::wire::{Header, NO_TAG, flag, is_before, opcode};
use amita_frontend::front::CloseReason;
use amita_reactor::{Slice, Time};
use std::time::Duration;

/// What comes behind so long a silence may be of a host that has gone meanwhile. No host gives a path up that soon whose times leave room for a
/// lost segment; and it is longer than input is [left lying](super::ROOM_PATIENCE) here.
const SILENCE: Duration = Duration::from_millis(1500);
/// A host with an old task that is silent for so long is asked.
const ASK: Duration = Duration::from_secs(1);
/// And one that is silent for so long has lost the session: before it could have given the path up. So has one that does not answer for so
/// long while something waits for that.
const GIVE_UP: Duration = Duration::from_secs(3);
/// All sessions of a core look at the same moments, so far apart.
const LOOK: Duration = Duration::from_millis(250);

/// A question to the host.
#[derive(Clone, Copy, Debug)]
struct Question {
    at: Time,
    /// What the answer names it by.
    tag: u32,
    /// The StatSN of the first status behind it.
    stat_sn: u32,
}

/// When the host was heard, and when to look for that.
#[derive(Debug)]
pub(super) struct Watch {
    heard_at: Time,
    /// Something has come behind a silence, which began then: what has come since may be of a host that is gone.
    doubted_since: Option<Time>,
    /// The last question that was not answered.
    asked: Option<Question>,
    /// The first question of all, and whether the host answers any, as far as that is known. Who has answered once is of those who do.
    first: Option<Question>,
    answers: Option<bool>,
    /// Something waits for the answer, and no longer than until then.
    answer_by: Option<Time>,
    /// When to look for old tasks; none while there is none.
    look_at: Option<Time>,
}

impl Watch {
    pub fn new(now: Time) -> Watch {
        Watch {
            heard_at: now,
            doubted_since: None,
            asked: None,
            first: None,
            answers: None,
            answer_by: None,
            look_at: None,
        }
    }

    /// Something has come.
    pub fn heard(&mut self, now: Time, config: &Config) {
        let before = std::mem::replace(&mut self.heard_at, now);
        // Also of who answers none: an answer that comes late makes the doubt count.
        if now.since(before) >= SILENCE && !config.faults.has(Planted::BelieveSilentHosts) {
            self.doubted_since.get_or_insert(before);
        }
    }

    /// When something came last.
    pub fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// May the host have gone before it came?
    pub fn is_doubted(&self) -> bool {
        self.doubt().is_some()
    }

    /// Since when the host may have gone. Of who answers no question nobody can know.
    fn doubt(&self) -> Option<Time> {
        self.doubted_since.filter(|_| self.answers != Some(false))
    }

    /// When the host was surely there.
    fn known_at(&self) -> Time {
        self.doubt().unwrap_or(self.heard_at)
    }

    /// A question that was put, while nothing has come since.
    fn unanswered(&self) -> Option<Question> {
        self.asked.filter(|asked| asked.at >= self.heard_at)
    }

    /// Is there a question whose answer may still count, or that nothing has come behind?
    fn is_asked(&self, now: Time, config: &Config) -> bool {
        let may_count = |asked: Question| now.since(asked.at) < config.stale_after;
        self.unanswered().is_some() || self.asked.is_some_and(may_count)
    }

    /// The host answers the question of that tag.
    fn answered(&mut self, tag: u32, now: Time, config: &Config) {
        let asked = self.asked.take_if(|asked| asked.tag == tag);
        let Some(asked) = asked.or(self.first.filter(|first| first.tag == tag)) else {
            return;
        };
        self.answers = Some(true);
        if now.since(asked.at) < config.stale_after {
            (self.doubted_since, self.answer_by) = (None, None);
        }
    }

    /// A command of that ExpStatSN has come, and `next` is the StatSN that nothing has had yet. Does it show that the host answers no questions?
    /// An answer that is only a little slower than the next command takes that back, and what was doubted before is doubted again.
    ///
    /// iPXE takes the StatSN of a NOP-In for one that was used up: where one has named `next`, it acknowledges that as well.
    fn finds_ignored(&mut self, exp_stat_sn: u32, next: u32) -> bool {
        let names_next = self.asked.is_some_and(|asked| asked.stat_sn == next);
        let most = if names_next { next.wrapping_add(1) } else { next };
        let has_seen = |asked: Question| is_before(asked.stat_sn, exp_stat_sn) && !is_before(most, exp_stat_sn);
        let finds = self.answers.is_none() && self.first.is_some_and(has_seen);
        if finds {
            (self.answers, self.answer_by) = (Some(false), None);
        }
        finds
    }

    /// A command is begun.
    fn begin(&mut self, now: Time, config: &Config) {
        if self.look_at.is_none() {
            self.look_at = Some(next_look(now.plus(config.stale_after)));
        }
    }

    pub fn deadline(&self, config: &Config) -> Option<Time> {
        let silent = self.silent_since().plus(config.ping_after);
        [Some(silent), self.look_at, self.answer_by].into_iter().flatten().min()
    }

    /// Since when nothing has come, or since it was asked.
    fn silent_since(&self) -> Time {
        self.unanswered().map_or(self.heard_at, |asked| asked.at)
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
        session
            .watch
            .answered(header.target_tag(), cx.now, session.port.config());
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
    let tag = session.next_transfer_tag();
    let (at, stat_sn) = (cx.now, session.numbers.next_status());
    let question = Question { at, tag, stat_sn };
    session.watch.first.get_or_insert(question);
    session.watch.asked = Some(question);
    let header = Header::new(opcode::NOP_IN, flag::FINAL)
        .with_task_tag(NO_TAG)
        .with_target_tag(tag);
    // Its StatSN is that of the next status (11.19.2).
    let header = session.numbers.stamp_quietly(header, true);
    session.link.send(header, cx.outbox, cx.pool);
}

/// A command is begun. With the first one the host is asked, before that is answered.
pub(super) fn begin(session: &mut Session, cx: &mut Cx<'_>) {
    session.watch.begin(cx.now, session.port.config());
    if session.watch.first.is_none() {
        ask(session, cx);
    }
}

/// Does this command, which has come, show that nothing needs to wait for its host's answers any more?
pub(super) fn finds_ignored(session: &mut Session, header: &Header) -> bool {
    let next = session.numbers.next_status();
    session.watch.finds_ignored(header.exp_stat_sn(), next)
}

/// What has come may be of a host that is gone: it is asked, where anything depends on it.
pub(super) fn make_sure(session: &mut Session, cx: &mut Cx<'_>) {
    if !session.held.is_empty() {
        session.watch.answer_by.get_or_insert(cx.now.plus(GIVE_UP));
    } else if session.tags.is_empty() {
        return;
    }
    if !session.watch.is_asked(cx.now, session.port.config()) {
        ask(session, cx);
    }
}

/// Time has passed.
pub(super) fn tick(session: &mut Session, cx: &mut Cx<'_>) -> Result<(), End> {
    let (ping_after, stale_after) = {
        let config = session.port.config();
        (config.ping_after, config.stale_after)
    };
    let gone = || Err(End::Now(CloseReason::Timeout));
    let watch = &session.watch;
    if watch.answer_by.is_some_and(|by| cx.now >= by) {
        return gone();
    }
    if cx.now >= watch.silent_since().plus(ping_after) {
        // A question that was put when something had just come is not one of this silence. Hosts that are there to discover go by themselves.
        let was_asked = watch.asked.is_some_and(|asked| asked.at > watch.heard_at);
        if was_asked || session.is_guest() {
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
    let silence = cx.now.since(session.watch.known_at());
    if silence >= GIVE_UP {
        return gone();
    }
    if silence >= ASK && !session.watch.is_asked(cx.now, session.port.config()) {
        ask(session, cx);
    }
    session.watch.look_at = Some(next_look(Time(cx.now.0 + 1)));
    Ok(())
}
