//! One connection of a client: its phases, and TLS beneath them.

use super::certificate::client_name;
use super::handshake::{self, Handshake, Step};
use super::session::Session;
use super::tls::{self, TlsStream};
use super::{Config, Cx, PEER_PATIENCE, TlsAcceptor, TlsMode};
use amita_frontend::Protocol as _;
use amita_frontend::front::{CloseReason, Flow, Front};
use amita_frontend::service::{Client, Event, FrontId, StorageService, Who};
use amita_reactor::{Inbox, Outbox, Pool, Slice, Time};
use std::sync::Arc;
use std::time::Duration;

/// How long a client may take to fetch what it should still get before its connection is closed.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the service needs to answer is not the client's time; of a client that has proved nothing no more than this, for all that it
/// asks: a node that starts takes so long to know whether there is an export.
const STRANGERS_PATIENCE: Duration = Duration::from_secs(10);
/// And of others: a volume that is taken over from a gateway that has died is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Want of memory for what was decrypted is looked at again after so long, if nothing else happens before.
const MEMORY_RETRY: Duration = Duration::from_millis(1);

/// The blocks that a client's handshake is received into, in bytes: a thousand half-open connections hold 4 MiB.
const HANDSHAKE_RECEIVE_BYTES: usize = 4 << 10;
/// Answers of the handshake that the client has not fetched, in bytes: with so many it is not listened to.
const HANDSHAKE_ANSWER_BYTES: usize = 16 << 10;
/// The blocks that requests are received into, in bytes: two pieces of the longest kind.
const SESSION_RECEIVE_BYTES: usize = 256 << 10;

/// Why a session of a volume ends that is closed.
const CLOSED: &str = "the volume is closed to hosts: the other end of its mirror is written";

enum Phase {
    Handshake(Handshake),
    Transmission(Box<Session>),
}

/// One connection of an NBD client.
pub struct NbdFront {
    id: FrontId,
    config: Arc<Config>,
    phase: Phase,
    /// Options are left lying until the client has fetched its answers.
    is_behind: bool,
    tls: Option<Box<TlsStream>>,
    /// There was no memory for what was decrypted: it is tried again then.
    short_until: Option<Time>,
    /// Who has shown a certificate.
    client: Option<Arc<str>>,
    /// The cluster's authority vouches for it: until it does not.
    is_vouched_for: bool,
    /// What its certificate grants ends with that.
    granted_until: Option<Time>,
    /// The handshake must be over by then.
    handshake_by: Time,
    /// Since when the service is being asked.
    asking_since: Option<Time>,
    /// For how long it was asked, as far as that counts for nobody.
    asked: Duration,
    /// When everything is sent: close, for this reason; at the latest at this time.
    closing: Option<(CloseReason, Time)>,
    /// [`Flow::Close`] was said: nothing is done any more.
    closed: Option<CloseReason>,
}

impl NbdFront {
    /// A new connection of `who`, as long as it has proved nothing else: the greeting goes into the outbox.
    ///
    /// # Panics
    /// When the limits make no sense: they are settings of this program.
    pub fn accept(config: Arc<Config>, id: FrontId, who: Who, now: Time, outbox: &mut Outbox) -> NbdFront {
        config.limits.assert_sound();
        // No memory of the pool for clients that have shown nothing yet.
        outbox.push(Slice::from_static(&handshake::GREETING));
        let mode = config.tls.as_ref().map_or(TlsMode::Off, TlsAcceptor::mode);
        NbdFront {
            id,
            phase: Phase::Handshake(Handshake::new(id, who, mode)),
            is_behind: false,
            tls: None,
            short_until: None,
            client: None,
            is_vouched_for: false,
            granted_until: None,
            handshake_by: now.plus(config.handshake_timeout),
            asking_since: None,
            asked: Duration::ZERO,
            closing: None,
            closed: None,
            config,
        }
    }

    /// The open volume, once there is one.
    #[must_use]
    pub fn volume(&self) -> Option<&amita_frontend::service::VolumeInfo> {
        match &self.phase {
            Phase::Transmission(session) => Some(session.volume()),
            Phase::Handshake(_) => None,
        }
    }

    /// What is known of allocation, and the memory that is kept for that.
    #[cfg(test)]
    pub(crate) fn extent_bytes(&self) -> usize {
        match &self.phase {
            Phase::Transmission(session) => session.extent_bytes(),
            Phase::Handshake(_) => 0,
        }
    }

    /// Parses what the inbox (plain text) holds.
    fn parse(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        self.is_behind = false;
        loop {
            if self.closing.is_some() {
                let all = inbox.len();
                inbox.skip(all);
                return Ok(());
            }
            match &mut self.phase {
                Phase::Transmission(session) => return session.parse(inbox, cx),
                Phase::Handshake(_) if cx.queued_bytes() > HANDSHAKE_ANSWER_BYTES => {
                    self.is_behind = true;
                    return Ok(());
                }
                Phase::Handshake(handshake) => {
                    let step = handshake.step(inbox, cx);
                    if handshake.is_asking() {
                        self.asking_since.get_or_insert(cx.now);
                    }
                    if !self.stepped(step, cx)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Carries out what a step of the handshake has come to; true when there may be more to parse.
    fn stepped(&mut self, step: Step, cx: &mut Cx<'_>) -> Result<bool, CloseReason> {
        match step {
            Step::Again => Ok(true),
            Step::Wait => Ok(false),
            Step::Close(reason) => Err(reason),
            Step::End(reason) => {
                self.closing = Some((reason, cx.now.plus(GOODBYE_TIMEOUT)));
                Ok(true)
            }
            Step::Transmit(agreed) => {
                self.phase = Phase::Transmission(Box::new(Session::new(
                    self.id,
                    cx.pool.clone(),
                    agreed,
                    self.config.limits,
                )));
                Ok(true)
            }
            Step::StartTls => {
                let Some(acceptor) = &self.config.tls else {
                    return Err(CloseReason::Tls("it is not set up".into()));
                };
                self.tls = Some(Box::new(acceptor.accept().map_err(CloseReason::Tls)?));
                // Whatever the client has sent already, it is TLS from here on.
                Ok(false)
            }
        }
    }

    /// Parses what came in, through TLS where that is on.
    fn input(
        &mut self,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Result<(), CloseReason> {
        if self.tls.is_none() {
            let mut cx = Cx {
                now,
                outbox,
                pool,
                service,
                backlog: 0,
            };
            self.parse(inbox, &mut cx)?;
            if self.tls.is_none() {
                return Ok(());
            }
            if let Phase::Handshake(handshake) = &mut self.phase {
                handshake.encrypted();
            }
        }
        let Some(mut tls) = self.tls.take() else { return Ok(()) };
        let result = self.input_tls(&mut tls, now, inbox, outbox, pool, service);
        tls.encrypt(outbox, pool);
        tls.rest();
        // Who takes no input looks for no memory: what has him take some again comes here by itself.
        self.short_until = (tls.is_short() && self.takes_input()).then(|| now.plus(MEMORY_RETRY));
        self.tls = Some(tls);
        result
    }

    fn input_tls(
        &mut self,
        tls: &mut TlsStream,
        now: Time,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
    ) -> Result<(), CloseReason> {
        loop {
            self.name_client(now, tls)?;
            {
                let backlog = outbox.queued_bytes();
                let mut cx = Cx {
                    now,
                    outbox: &mut tls.outbox,
                    pool,
                    service: &mut *service,
                    backlog,
                };
                self.parse(&mut tls.inbox, &mut cx)?;
            }
            tls.encrypt(outbox, pool);
            // What the limits leave lying stays encrypted.
            if !self.takes_input() {
                return Ok(());
            }
            match tls.decrypt(inbox, pool, self.receive_bytes().min(tls::RECEIVE_BYTES)) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // NBD says so by a command; who only ends TLS has left as well.
                Err(_) if tls.has_ended() => return Err(CloseReason::Goodbye),
                Err(why) => return Err(CloseReason::Tls(why)),
            }
        }
    }

    /// Who has shown a certificate is the client that it names. What the client says comes after its certificate, so that
    /// nothing is asked for in its name before.
    fn name_client(&mut self, now: Time, tls: &TlsStream) -> Result<(), CloseReason> {
        if let Phase::Handshake(handshake) = &mut self.phase
            && !handshake.is_proved()
            && let Some(chain) = tls.chain()
            && let Some(certificate) = chain.first()
        {
            let named = client_name(certificate, self.config.cluster).map_err(|why| CloseReason::Tls(why.into()))?;
            let mut grant = None;
            if named.by_cluster
                && let Some(judge) = &self.config.judge
            {
                let admitted = judge.admits(chain).map_err(CloseReason::Tls)?;
                self.is_vouched_for = true;
                self.granted_until = admitted.grant.is_some().then(|| now.plus(admitted.left));
                grant = admitted.grant;
            }
            let name: Arc<str> = named.name.into();
            self.client = Some(name.clone());
            handshake.proved(Who::Client(Client { name, grant }));
        }
        Ok(())
    }

    /// Is the client still who may be here?
    fn judge_again(&self) -> Result<(), CloseReason> {
        let chain = self.tls.as_ref().and_then(|tls| tls.chain());
        match (&self.config.judge, chain) {
            (Some(judge), Some(chain)) if self.is_vouched_for => judge.keeps(chain).map_err(CloseReason::Tls),
            _ => Ok(()),
        }
    }

    fn takes_input(&self) -> bool {
        let open = self.closing.is_none() && self.closed.is_none();
        open && match &self.phase {
            Phase::Handshake(handshake) => !handshake.is_asking() && !self.is_behind,
            Phase::Transmission(session) => session.wants_input(),
        }
    }

    /// Handles an event of the service; `outbox` is for plain text.
    fn plain_event(&mut self, event: Event, cx: &mut Cx<'_>) -> Result<(), CloseReason> {
        match (&mut self.phase, event) {
            (Phase::Transmission(session), Event::Done { tag, result, payload }) => {
                session.done(tag, result, payload, cx)
            }
            // It ends when all that was under way is answered.
            (Phase::Transmission(session), Event::Lost { .. }) if session.is_closed() => Ok(()),
            (Phase::Transmission(session), Event::Lost { source, .. }) if session.volume().source() == source => {
                Err(CloseReason::Storage("the volume is no longer served here"))
            }
            (Phase::Transmission(_), _) => Ok(()),
            (Phase::Handshake(handshake), event) => {
                let step = handshake.event(event, cx);
                if !handshake.is_asking()
                    && let Some(since) = self.asking_since.take()
                {
                    let patience = match handshake.is_of_stranger() {
                        true => STRANGERS_PATIENCE,
                        false => PATIENCE,
                    };
                    let waited = cx.now.since(since).min(patience.saturating_sub(self.asked));
                    self.asked += waited;
                    self.handshake_by = self.handshake_by.plus(waited);
                }
                self.stepped(step, cx).map(|_| ())
            }
        }
    }

    /// Runs a step whose output is plain text, and encrypts that where TLS is on.
    fn with_plain_outbox(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        pool: &Pool,
        service: &mut dyn StorageService,
        step: impl FnOnce(&mut Self, &mut Cx<'_>) -> Result<(), CloseReason>,
    ) -> Result<(), CloseReason> {
        let Some(mut tls) = self.tls.take() else {
            return step(
                self,
                &mut Cx {
                    now,
                    outbox,
                    pool,
                    service,
                    backlog: 0,
                },
            );
        };
        let backlog = outbox.queued_bytes();
        let result = step(
            self,
            &mut Cx {
                now,
                outbox: &mut tls.outbox,
                pool,
                service,
                backlog,
            },
        );
        tls.encrypt(outbox, pool);
        self.tls = Some(tls);
        result
    }

    /// Turns the result of a step into what the caller does with the connection.
    fn flow(&mut self, now: Time, result: Result<(), CloseReason>) -> Flow {
        match result {
            Ok(()) => Flow::Go,
            // The client should get the alert that says why.
            Err(reason @ CloseReason::Tls(_)) if self.tls.is_some() && self.closing.is_none() => {
                self.closing = Some((reason, now.plus(GOODBYE_TIMEOUT)));
                Flow::Go
            }
            Err(reason) => self.close(reason),
        }
    }

    fn close(&mut self, reason: CloseReason) -> Flow {
        let reason = self.closed.get_or_insert(reason).clone();
        Flow::Close { reason }
    }
}

impl Front for NbdFront {
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
        let result = self.input(now, inbox, outbox, pool, service);
        self.flow(now, result)
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
        if matches!(event, Event::Trust) {
            return match self.judge_again() {
                Ok(()) => Flow::Go,
                Err(reason) => self.close(reason),
            };
        }
        let result = match &mut self.tls {
            // The common case: what a pass answers is encrypted together, by `end_pass`.
            Some(tls) => {
                let backlog = outbox.queued_bytes();
                let mut plain = std::mem::take(&mut tls.outbox);
                let mut cx = Cx {
                    now,
                    outbox: &mut plain,
                    pool,
                    service,
                    backlog,
                };
                let result = self.plain_event(event, &mut cx);
                if let Some(tls) = &mut self.tls {
                    tls.outbox = plain;
                }
                result
            }
            None => self.plain_event(
                event,
                &mut Cx {
                    now,
                    outbox,
                    pool,
                    service,
                    backlog: 0,
                },
            ),
        };
        self.flow(now, result)
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
        if self.granted_until.is_some_and(|until| now >= until) {
            return self.close(CloseReason::Tls(
                "the client's certificate, and what it grants, has ended".into(),
            ));
        }
        let result = self.with_plain_outbox(now, outbox, pool, service, |front, cx| match &mut front.phase {
            Phase::Handshake(handshake) if !handshake.is_asking() && now >= front.handshake_by => {
                Err(CloseReason::Timeout)
            }
            Phase::Handshake(_) => Ok(()),
            Phase::Transmission(session) => {
                session.retry(cx);
                Ok(())
            }
        });
        self.flow(now, result)
    }

    fn deadline(&self) -> Option<Time> {
        if self.closed.is_some() {
            return None;
        }
        let phase = match &self.phase {
            Phase::Handshake(handshake) => (!handshake.is_asking()).then_some(self.handshake_by),
            Phase::Transmission(session) => session.deadline(),
        };
        let closing = self.closing.as_ref().map(|(_, by)| *by);
        [phase, closing, self.granted_until, self.short_until]
            .into_iter()
            .flatten()
            .min()
    }

    fn wants_input(&self) -> bool {
        // What has come goes first: more of it would take the memory that it waits for.
        self.takes_input() && self.short_until.is_none()
    }

    fn is_stranger(&self) -> bool {
        matches!(&self.phase, Phase::Handshake(handshake) if handshake.is_of_stranger())
    }

    fn is_known(&self) -> bool {
        matches!(self.phase, Phase::Transmission(_))
    }

    fn client(&self) -> Option<Arc<str>> {
        self.client.clone()
    }

    fn peer_patience(&self) -> Option<Duration> {
        Some(PEER_PATIENCE)
    }

    fn receive_bytes(&self) -> usize {
        match self.phase {
            Phase::Handshake(_) => HANDSHAKE_RECEIVE_BYTES,
            Phase::Transmission(_) => SESSION_RECEIVE_BYTES,
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
        let mut result = self.with_plain_outbox(now, outbox, pool, service, |front, cx| match &mut front.phase {
            Phase::Handshake(_) => Ok(()),
            Phase::Transmission(session) => session.end_pass(cx),
        });
        // Input that was left lying, or that came behind an option which has been answered since.
        if result.is_ok() {
            result = self.input(now, inbox, outbox, pool, service);
        }
        if let Flow::Close { reason } = self.flow(now, result) {
            return Flow::Close { reason };
        }
        if let Phase::Transmission(session) = &self.phase
            && session.is_idle()
            && self.closing.is_none()
        {
            // What was under way was answered, with an error: a client that asked again by another connection would do so until it is let in.
            let closed = session.is_closed().then_some(CloseReason::Storage(CLOSED));
            if let Some(reason) = closed.or(session.has_ended().then_some(CloseReason::Goodbye)) {
                self.closing = Some((reason, now.plus(GOODBYE_TIMEOUT)));
            }
        }
        if self.closing.is_some()
            && let Some(tls) = &mut self.tls
        {
            // "The server MUST close down the TLS session and then close the TCP connection."
            tls.close();
            tls.encrypt(outbox, pool);
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
        if let Phase::Transmission(session) = &self.phase {
            service.close(self.id, session.volume().source());
        }
    }
}
