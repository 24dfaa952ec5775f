//! One connection of a host: its beginning, its queue, and how it ends.

pub(super) mod connect;

use super::port::{self, Port};
use super::queue::{End, Login, Queue};
use super::tls::{TlsStream, begins_with_tls};
use super::wire::{self, COMMON_BYTES, Common, Fatal, IC_BYTES, InitRequest, Link};
use super::{Cx, fatal_reason};
use amita_frontend::compute::source_of;
use amita_frontend::front::{CloseReason, Flow, Front};
use amita_frontend::service::{Event, FrontId, StorageService};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How long a host may take to fetch what it should still get before its connection is closed.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that has been silent for so long gives back the memory of TLS records, until the next one.
const QUIET: Duration = Duration::from_secs(1);

/// The blocks that a host that has shown nothing is received into, in bytes: a thousand of them hold 4 MiB.
const HELLO_RECEIVE_BYTES: usize = 4 << 10;
/// The same for a queue that has little to do.
const QUIET_RECEIVE_BYTES: usize = 16 << 10;
/// And for one that is busy: two pieces of the longest kind.
const BUSY_RECEIVE_BYTES: usize = 256 << 10;

enum Phase {
    /// The ICReq is to come.
    Hello(Login),
    /// PDUs of a queue.
    Queue(Box<Queue>),
    /// Nothing more is taken.
    Over,
}

/// One connection of an NVMe/TCP host.
pub struct NvmeFront {
    id: FrontId,
    port: Rc<Port>,
    phase: Phase,
    /// What lies between the host and the queue; none: plain text, or nothing has come yet.
    tls: Option<Box<TlsStream>>,
    /// When TLS was last heard, and when to look whether that is long ago.
    heard: Time,
    quiet_by: Option<Time>,
    /// Has the first byte told which of the two it is?
    begun: bool,
    /// The queue must be connected by then.
    connect_by: Option<Time>,
    /// When everything is sent: close, for this reason; at the latest at this time.
    closing: Option<(CloseReason, Time)>,
    /// [`Flow::Close`] was said: nothing is done any more.
    closed: Option<CloseReason>,
}

impl NvmeFront {
    /// A new connection; `local` is where it has come in, `peer` where it comes from.
    pub fn accept(
        port: Rc<Port>,
        id: FrontId,
        _core: u16,
        now: Time,
        local: SocketAddr,
        peer: SocketAddr,
        _outbox: &mut Outbox,
    ) -> NvmeFront {
        NvmeFront {
            id,
            phase: Phase::Hello(Login {
                local,
                peer: source_of(peer.ip()),
                tls: None,
                access: None,
            }),
            tls: None,
            heard: now,
            quiet_by: None,
            begun: false,
            connect_by: Some(now.plus(port.config().handshake_timeout)),
            closing: None,
            closed: None,
            port,
        }
    }

    /// Parses what the inbox (plain text) holds.
    fn parse(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<(), End> {
        loop {
            match &mut self.phase {
                Phase::Over => {
                    let all = inbox.len();
                    inbox.skip(all);
                    return Ok(());
                }
                Phase::Queue(queue) => {
                    queue.parse(inbox, cx)?;
                    if queue.is_connected() {
                        self.connect_by = None;
                    }
                    return Ok(());
                }
                Phase::Hello(login) => {
                    let Some(link) = hello(inbox, cx)? else { return Ok(()) };
                    let queue = Queue::new(self.id, cx.pool.clone(), self.port.clone(), link, login.clone());
                    self.phase = Phase::Queue(Box::new(queue));
                }
            }
        }
    }

    /// Handles what came in, through TLS where that is on.
    fn input(
        &mut self,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow {
        if !self.begun
            && let Some(first) = inbox.data().first()
        {
            self.begun = true;
            self.tls = begins_with_tls(*first).then(Box::default);
        }
        let Some(mut tls) = self.tls.take() else {
            let mut cx = Cx::new(now, outbox, pool, service);
            let result = self.parse(inbox, &mut cx);
            return self.flow(result, &mut cx);
        };
        if !inbox.is_empty() {
            self.heard = now;
            self.quiet_by.get_or_insert(now.plus(QUIET));
        }
        let flow = self.input_tls(&mut tls, now, inbox, outbox, pool, service);
        self.tls = Some(tls);
        flow
    }

    fn input_tls(
        &mut self,
        tls: &mut TlsStream,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Flow {
        let catalog = self.port.catalog();
        loop {
            let mut cx = Cx {
                backlog: outbox.queued_bytes(),
                ..Cx::new(now, &mut tls.outbox, pool, &mut *service)
            };
            let result = self.parse(&mut tls.inbox, &mut cx);
            let flow = self.flow(result, &mut cx);
            let result = tls.encrypt(outbox, pool);
            if flow != Flow::Go {
                return flow;
            }
            // What the limits leave lying stays encrypted.
            let result = match result {
                Ok(()) if !self.wants_input() => return Flow::Go,
                Ok(()) => tls.decrypt(inbox, outbox, pool, self.receive_bytes(), &|host, subsystem| {
                    catalog.tls_key(host, subsystem)
                }),
                Err(failure) => Err(failure),
            };
            if let Phase::Hello(login) = &mut self.phase
                && login.access.is_none()
                && let Some(chosen) = tls.chosen()
            {
                login.access = catalog.access(&chosen.subnqn, &chosen.hostnqn).cloned();
            }
            let mut cx = Cx::new(now, &mut *outbox, pool, &mut *service);
            match result {
                Ok(true) => {
                    if let Phase::Hello(login) = &mut self.phase
                        && login.tls.is_none()
                    {
                        login.tls = tls.identity().cloned().map(Box::new);
                    }
                }
                Ok(false) if tls.is_ended() => return self.end_after(CloseReason::Goodbye, &mut cx),
                Ok(false) => return Flow::Go,
                // The host should get the alert that says why.
                Err(failure) => return self.end_after(CloseReason::Tls(failure.to_string()), &mut cx),
            }
        }
    }

    /// Runs a step whose output is plain text, into what TLS encrypts where that is on.
    fn step(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
        step: impl FnOnce(&mut Self, &mut Cx<'_>) -> Result<(), End>,
    ) -> Flow {
        let Some(mut tls) = self.tls.take() else {
            let mut cx = Cx::new(now, outbox, pool, service);
            let result = step(self, &mut cx);
            return self.flow(result, &mut cx);
        };
        // It is encrypted together with what else the pass says, at its end.
        let mut cx = Cx {
            backlog: outbox.queued_bytes(),
            ..Cx::new(now, &mut tls.outbox, pool, service)
        };
        let result = step(self, &mut cx);
        let flow = self.flow(result, &mut cx);
        self.tls = Some(tls);
        flow
    }

    fn with_queue(&mut self, step: impl FnOnce(&mut Queue) -> Result<(), End>) -> Result<(), End> {
        match &mut self.phase {
            Phase::Queue(queue) => {
                let result = step(queue);
                if queue.is_connected() {
                    self.connect_by = None;
                }
                result
            }
            _ => Ok(()),
        }
    }

    /// Turns the result of a step into what the caller does with the connection.
    fn flow(&mut self, result: Result<(), End>, cx: &mut Cx<'_>) -> Flow {
        match result {
            Ok(()) => Flow::Go,
            Err(End::Now(reason)) => self.close(reason),
            Err(End::After(reason)) => self.end_after(reason, cx),
            Err(End::Fatal(fatal, header)) => {
                // "[...] the controller shall send a C2HTermReq PDU" and close ("TCP", 3.5).
                cx.outbox.append(cx.pool, &wire::terminate(&fatal, &header));
                self.end_after(fatal_reason(&fatal), cx)
            }
        }
    }

    /// Closes when everything is sent. The queue is over: what it has under way is not answered.
    fn end_after(&mut self, reason: CloseReason, cx: &mut Cx<'_>) -> Flow {
        if self.closing.is_none() {
            self.closing = Some((reason, cx.now.plus(GOODBYE_TIMEOUT)));
        }
        if let Phase::Queue(mut queue) = std::mem::replace(&mut self.phase, Phase::Over) {
            queue.closed(cx.service);
        }
        Flow::Go
    }

    fn close(&mut self, reason: CloseReason) -> Flow {
        let reason = self.closed.get_or_insert(reason).clone();
        Flow::Close { reason }
    }
}

/// Takes the ICReq and answers it ("TCP", 3.3.1).
fn hello(inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<Option<Link>, End> {
    let bytes = inbox.data();
    let show = |fatal: Fatal, bytes: &[u8]| End::Fatal(fatal, bytes[..bytes.len().min(IC_BYTES)].to_vec());
    // What is wrong is said as soon as it can be seen.
    let Some(common) = bytes.first_chunk::<COMMON_BYTES>() else {
        return Ok(None);
    };
    let common = Common::parse(common);
    if common.kind != wire::kind::IC_REQUEST || common.pdu_bytes as usize != IC_BYTES {
        let mut whole = [0; IC_BYTES];
        whole[..COMMON_BYTES].copy_from_slice(&bytes[..COMMON_BYTES]);
        let fatal = InitRequest::parse(&whole).err();
        let fatal = fatal.unwrap_or(Fatal::field(4, "an ICReq has 128 bytes"));
        return Err(show(fatal, &bytes[..COMMON_BYTES]));
    }
    let Some(whole) = bytes.first_chunk::<IC_BYTES>() else {
        return Ok(None);
    };
    let request = InitRequest::parse(whole).map_err(|fatal| show(fatal, bytes))?;
    inbox.skip(IC_BYTES);
    let response = wire::init_response(request.header_digest, request.data_digest, port::MAX_DATA_BYTES);
    cx.outbox.append(cx.pool, &response);
    Ok(Some(Link::new(
        &request,
        port::MAX_DATA_BYTES,
        port::ADMIN_CAPSULE_BYTES as usize,
    )))
}

impl Front for NvmeFront {
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
        if self.port.catalog().revision == 0 {
            // The settings are not known yet. A host whose connection is closed tries again; one that is told that its
            // subsystem does not exist (Connect Invalid Parameters, do not retry) gives the path up for good.
            let reason = CloseReason::Refused("this gateway does not know the cluster's settings yet".into());
            self.closed = Some(reason.clone());
            return Flow::Close { reason };
        }
        self.input(now, inbox, outbox, pool, service)
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
        self.step(now, outbox, pool, service, |front, cx| {
            front.with_queue(|queue| queue.event(event, cx))
        })
    }

    fn tick(&mut self, now: Time, outbox: &mut Outbox, pool: &Pool, service: &mut dyn StorageService) -> Flow {
        if let Some(reason) = self.closed.clone() {
            return Flow::Close { reason };
        }
        if let Some((reason, by)) = &self.closing
            && now >= *by
        {
            let reason = reason.clone();
            return self.close(reason);
        }
        if self.connect_by.is_some_and(|by| now >= by) && self.closing.is_none() {
            return self.close(CloseReason::Timeout);
        }
        if self.quiet_by.is_some_and(|by| now >= by) {
            let by = self.heard.plus(QUIET);
            self.quiet_by = (now < by).then_some(by);
            if let (None, Some(tls)) = (self.quiet_by, &mut self.tls) {
                tls.release();
            }
        }
        self.step(now, outbox, pool, service, |front, cx| {
            front.with_queue(|queue| queue.tick(cx))
        })
    }

    fn deadline(&self) -> Option<Time> {
        if self.closed.is_some() {
            return None;
        }
        let queue = match &self.phase {
            Phase::Queue(queue) => queue.deadline(),
            _ => None,
        };
        let closing = self.closing.as_ref().map(|(_, by)| *by);
        let connect = self.connect_by.filter(|_| closing.is_none());
        [queue, closing, connect, self.quiet_by].into_iter().flatten().min()
    }

    fn wants_input(&self) -> bool {
        let open = self.closing.is_none() && self.closed.is_none();
        open && match &self.phase {
            Phase::Queue(queue) => queue.wants_input(),
            _ => true,
        }
    }

    fn is_stranger(&self) -> bool {
        !matches!(&self.phase, Phase::Queue(queue) if queue.is_connected() && !queue.is_guest())
    }

    fn is_known(&self) -> bool {
        matches!(&self.phase, Phase::Queue(queue) if queue.is_io())
    }

    fn receive_bytes(&self) -> usize {
        match &self.phase {
            Phase::Queue(queue) if queue.is_busy() => BUSY_RECEIVE_BYTES,
            Phase::Queue(queue) if queue.is_connected() => QUIET_RECEIVE_BYTES,
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
        let mut flow = self.step(now, outbox, pool, &mut *service, |front, cx| {
            front.with_queue(|queue| queue.end_pass(cx))
        });
        if flow == Flow::Go {
            // Input that was left lying.
            flow = self.input(now, inbox, outbox, pool, service);
        }
        if let Some(tls) = &mut self.tls {
            if let Err(failure) = tls.encrypt(outbox, pool) {
                return self.close(CloseReason::Tls(failure.to_string()));
            }
            if self.closing.is_some() {
                tls.close(outbox, pool);
            }
        }
        if let Flow::Close { reason } = flow {
            return Flow::Close { reason };
        }
        if let Phase::Queue(queue) = &self.phase
            && queue.is_idle()
        {
            // Thousands of queues that have been busy once must not hold the memory that this took.
            inbox.trim(QUIET_RECEIVE_BYTES);
            if let Some(tls) = &mut self.tls {
                tls.inbox.trim(QUIET_RECEIVE_BYTES);
            }
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
        if let Phase::Queue(mut queue) = std::mem::replace(&mut self.phase, Phase::Over) {
            queue.closed(service);
        }
    }
}
