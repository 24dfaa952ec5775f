//! One connection of a host: its login, its session, and how it ends.

mod entry;

use crate::Cx;
use crate::hub::{Call, Reply};
use crate::login::Request;
use crate::port::Port;
use crate::session::Session;
use crate::session::report::SessionReport;
use crate::wire::{Incoming, Link, Taken, opcode};
use amita_frontend::front::{CloseReason, Flow, Front};
use amita_frontend::service::{Event, FrontId, StorageService};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use entry::Entry;
use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How long a host may take to fetch what it should still get before its connection is closed.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);
/// The blocks that a host that has shown nothing is received into, in bytes: a thousand of them hold 4 MiB.
const HELLO_RECEIVE_BYTES: usize = 4 << 10;
/// The same for a session that has little to do.
const QUIET_RECEIVE_BYTES: usize = 16 << 10;
/// And for one that is busy: two pieces of the longest kind.
const BUSY_RECEIVE_BYTES: usize = 256 << 10;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// Answers that are under way are still sent.
    After(CloseReason),
    /// It is closed at once.
    Now(CloseReason),
}

enum Phase {
    /// Login requests.
    Login(Box<Entry>),
    /// A session.
    Session(Box<Session>),
    /// Nothing more is taken.
    Over,
}

/// One connection of an iSCSI host.
pub struct IscsiFront {
    id: FrontId,
    port: Rc<Port>,
    /// The portal that the host has come to, as far as it was said.
    portal: Option<SocketAddr>,
    phase: Phase,
    /// The login must be over by then.
    login_by: Option<Time>,
    /// When everything is sent: close, for this reason; at the latest at this time.
    closing: Option<(CloseReason, Time)>,
    /// [`Flow::Close`] was said: nothing is done any more.
    closed: Option<CloseReason>,
    /// Its session is over, and something of it was still under way: its place is kept until the connection is gone.
    keeps_place: bool,
}

impl IscsiFront {
    /// A new connection; `peer` is where it comes from.
    pub fn accept(port: Rc<Port>, id: FrontId, now: Time, peer: SocketAddr) -> IscsiFront {
        let entry = Entry::new(peer.ip(), port.config());
        IscsiFront {
            id,
            phase: Phase::Login(Box::new(entry)),
            login_by: Some(now.plus(port.config().login_timeout)),
            closing: None,
            closed: None,
            keeps_place: false,
            portal: None,
            port,
        }
    }

    /// By this portal.
    #[must_use]
    pub fn at(self, portal: SocketAddr) -> IscsiFront {
        let portal = Some(portal);
        IscsiFront { portal, ..self }
    }

    /// The names of its session's two ends, the initiator's and the target's (none: it is there to discover); none before a login is over.
    #[must_use]
    pub fn ends(&self) -> Option<(&str, Option<&str>)> {
        match &self.phase {
            Phase::Session(session) => Some(session.ends()),
            Phase::Login(_) | Phase::Over => None,
        }
    }

    /// What its session is, for a person who looks; none before a login is over.
    #[must_use]
    pub fn report(&self) -> Option<SessionReport> {
        match &self.phase {
            Phase::Session(session) => Some(session.report(self.portal)),
            Phase::Login(_) | Phase::Over => None,
        }
    }

    /// Parses what the inbox holds.
    fn parse(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<(), End> {
        match &mut self.phase {
            Phase::Over => {
                let all = inbox.len();
                inbox.skip(all);
                Ok(())
            }
            Phase::Session(session) => session.parse(inbox, cx),
            Phase::Login(entry) => {
                // What comes behind the last request of a login is the session's.
                while !entry.is_asking() {
                    let Some((request, taken)) = login_request(inbox)? else {
                        return Ok(());
                    };
                    entry.take(&self.port, self.id, request.as_ref(), &taken, cx)?;
                }
                Ok(())
            }
        }
    }

    /// The register has answered a login.
    fn entered(&mut self, reply: &Reply, cx: &mut Cx<'_>) -> Result<(), End> {
        let Phase::Login(mut entry) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return Ok(());
        };
        match *reply {
            Reply::Entered { tsih } => match entry.enter(&self.port, self.id, tsih, cx) {
                Ok(session) => {
                    self.phase = Phase::Session(Box::new(session));
                    self.login_by = None;
                    Ok(())
                }
                Err(end) => {
                    cx.service.register(self.id, 0, Box::new(Call::Leave));
                    Err(end)
                }
            },
            Reply::Refused(status) => Err(entry.refuse(status, cx)),
            _ => {
                self.phase = Phase::Login(entry);
                Ok(())
            }
        }
    }

    /// What came back from the service.
    fn handle(&mut self, event: Event, cx: &mut Cx<'_>) -> Result<(), End> {
        match &mut self.phase {
            Phase::Session(session) => return session.event(event, cx),
            Phase::Over => return Ok(()),
            Phase::Login(_) => {}
        }
        let Event::Register { reply, .. } = event else {
            return Ok(());
        };
        match reply.downcast::<Reply>() {
            Ok(reply) => self.entered(&reply, cx),
            Err(_) => unreachable!("the register of iSCSI sessions speaks its own words"),
        }
    }

    /// Turns the result of a step into what the caller does with the connection.
    fn flow(&mut self, result: Result<(), End>, now: Time, service: &mut dyn StorageService) -> Flow {
        match result {
            Ok(()) => Flow::Go,
            Err(End::Now(reason)) => self.close(reason),
            Err(End::After(reason)) => {
                if self.closing.is_none() {
                    self.closing = Some((reason, now.plus(GOODBYE_TIMEOUT)));
                }
                self.leave(service, false);
                Flow::Go
            }
        }
    }

    /// What the register and the service hold for it is given back; the place of a session of which something is under way, only when its
    /// connection is gone. What waits in the service goes with that, and the next session of the same initiator port, which does again what this
    /// one has not answered, begins behind it: else the old I/O could come behind the new.
    fn leave(&mut self, service: &mut dyn StorageService, is_gone: bool) {
        let leaves = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Session(session) => {
                self.keeps_place = !session.is_settled() && !is_gone;
                !self.keeps_place
            }
            Phase::Login(entry) => entry.is_asking(),
            Phase::Over => is_gone && std::mem::take(&mut self.keeps_place),
        };
        if leaves {
            service.register(self.id, 0, Box::new(Call::Leave));
        }
    }

    fn close(&mut self, reason: CloseReason) -> Flow {
        let reason = self.closed.get_or_insert(reason).clone();
        Flow::Close { reason }
    }
}

/// The login request at the front of the inbox, when all of it has come.
fn login_request(inbox: &mut Inbox) -> Result<Option<(Option<Request>, Taken)>, End> {
    // Whatever else comes first ends the connection at once (6.3): that can be seen in its first byte, so that hosts of other
    // protocols are not kept waiting either.
    let wrong = |what| End::Now(CloseReason::Protocol(what));
    if inbox.data().first().is_some_and(|first| first & 0x3f != opcode::LOGIN) {
        return Err(wrong("the first PDU is not a login request"));
    }
    match Link::LOGIN.frame(inbox) {
        Ok(Incoming::Nothing) => Ok(None),
        Ok(Incoming::Whole(frame)) => {
            let taken = Link::take(&frame, inbox);
            Ok(Some((Request::parse(&taken.header), taken)))
        }
        Ok(Incoming::TooLong(_)) => Err(wrong("a login request with more than 8 KiB of text")),
        Err(fatal) => Err(wrong(fatal.0)),
    }
}

impl Front for IscsiFront {
    fn received(
        &mut self,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow {
        if let Some(reason) = self.closed.clone() {
            return Flow::Close { reason };
        }
        if let Phase::Session(session) = &mut self.phase {
            session.heard(now);
        }
        let result = self.parse(inbox, &mut Cx::new(now, outbox, pool, &mut *service));
        self.flow(result, now, service)
    }

    fn event(
        &mut self,
        now: Time,
        event: Event,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow {
        if let Some(reason) = self.closed.clone() {
            return Flow::Close { reason };
        }
        let result = self.handle(event, &mut Cx::new(now, outbox, pool, &mut *service));
        self.flow(result, now, service)
    }

    fn tick(&mut self, now: Time, outbox: &mut Outbox, pool: &Pool, service: &mut dyn StorageService) -> Flow {
        if let Some(reason) = self.closed.clone() {
            return Flow::Close { reason };
        }
        if let Some((reason, by)) = &self.closing {
            let reason = reason.clone();
            return match now >= *by {
                true => self.close(reason),
                false => Flow::Go,
            };
        }
        if self.login_by.is_some_and(|by| now >= by) {
            return self.close(CloseReason::Timeout);
        }
        let result = match &mut self.phase {
            Phase::Session(session) => session.tick(&mut Cx::new(now, outbox, pool, &mut *service)),
            Phase::Login(_) | Phase::Over => Ok(()),
        };
        self.flow(result, now, service)
    }

    fn deadline(&self) -> Option<Time> {
        if self.closed.is_some() {
            return None;
        }
        if let Some((_, by)) = &self.closing {
            return Some(*by);
        }
        match &self.phase {
            Phase::Session(session) => session.deadline(),
            Phase::Login(_) | Phase::Over => self.login_by,
        }
    }

    fn wants_input(&self) -> bool {
        let open = self.closing.is_none() && self.closed.is_none();
        open && match &self.phase {
            Phase::Session(session) => session.wants_input(),
            Phase::Login(entry) => !entry.is_asking(),
            Phase::Over => true,
        }
    }

    fn is_stranger(&self) -> bool {
        !matches!(&self.phase, Phase::Session(session) if !session.is_guest())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn receive_bytes(&self) -> usize {
        match &self.phase {
            Phase::Session(session) if session.is_busy() => BUSY_RECEIVE_BYTES,
            Phase::Session(session) if !session.is_guest() => QUIET_RECEIVE_BYTES,
            _ => HELLO_RECEIVE_BYTES,
        }
    }

    fn end_pass(
        &mut self,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow {
        if let Some(reason) = self.closed.clone() {
            return Flow::Close { reason };
        }
        let mut cx = Cx::new(now, outbox, pool, &mut *service);
        let mut result = match &mut self.phase {
            Phase::Session(session) => session.end_pass(&mut cx),
            Phase::Login(_) | Phase::Over => Ok(()),
        };
        if result.is_ok() {
            // Input that was left lying.
            result = self.parse(inbox, &mut cx);
        }
        if let Flow::Close { reason } = self.flow(result, now, service) {
            return Flow::Close { reason };
        }
        if let Phase::Session(session) = &self.phase
            && session.is_idle()
        {
            // Thousands of sessions that have been busy once must not hold the memory that this took.
            inbox.trim(QUIET_RECEIVE_BYTES);
        }
        match &self.closing {
            Some((reason, _)) if outbox.queued_bytes() == 0 && !outbox.is_sending() => {
                let reason = reason.clone();
                self.close(reason)
            }
            _ => Flow::Go,
        }
    }

    fn closed(&mut self, service: &mut dyn StorageService) {
        self.leave(service, true);
    }
}
