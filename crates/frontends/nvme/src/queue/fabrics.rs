//! What a queue is, and the commands by which it becomes that (NVM Express Base 2.1, section 6).

use super::*;
use crate::admin::{self, Admin, ControllerShared};
use crate::catalog::{Catalog, Subsystem};
use crate::connection::connect::{self, Connect};
use crate::failure::Failures;
use crate::hub::{Call, Gate, Party, Reply, Shared, invalid};
use crate::tls::PskIdentity;
use amita_frontend::service::{Event, HostKey};
use std::net::SocketAddr;
use std::sync::Arc;

/// The opcode of all Fabrics commands; byte 4 is their type.
const FABRICS: u8 = 0x7f;

mod kind_of {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
    pub const DISCONNECT: u8 = 0x08;
}

/// What is known of a connection beside what it says.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// Where it has come in.
    pub local: SocketAddr,
    /// Who has shown by TLS to be there.
    pub tls: Option<PskIdentity>,
}

/// What the queue is.
pub(super) enum Role {
    /// Not connected.
    New,
    /// The register is being asked.
    Connecting { slot: SlotId, connect: Box<Connect> },
    /// The admin queue of a controller.
    Admin(Box<AdminRole>),
    /// An I/O queue.
    Io(Box<IoRole>),
}

/// The admin queue.
pub(super) struct AdminRole {
    pub admin: Admin,
    pub shared: Arc<ControllerShared>,
    /// That of the I/O queues, while the controller is enabled.
    pub gate: Option<Arc<Gate>>,
    pub host: HostKey,
}

/// An I/O queue.
pub(super) struct IoRole {
    /// The subsystem of the moment; none when it was removed.
    pub subsystem: Option<Arc<Subsystem>>,
    pub connect: Box<Connect>,
    pub shared: Shared,
    pub host: HostKey,
    /// What has failed and the register has not been told.
    pub failures: Failures,
    /// Is the register being told of others?
    pub telling: bool,
}

impl Queue {
    /// Takes a command to where it belongs.
    pub(super) fn dispatch(&mut self, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if command.opcode() == FABRICS {
            return self.fabrics(command, data, cx);
        }
        let authenticated = self.is_authenticated();
        // "SGLs shall be used for all commands" of Fabrics, whether they move data or not (Base 2.1, 4.3.1).
        if !matches!(command.psdt(), 1 | 2) {
            return Err(status::INVALID_FIELD.into());
        }
        match &mut self.role {
            // "[...] a command other than Connect [...] Command Sequence Error" (Base 2.1, 3.3.2.2).
            Role::New | Role::Connecting { .. } => Err(status::SEQUENCE.into()),
            // "[...] Authentication Required" until it has succeeded (Base 2.1, 8.3.4.1).
            _ if !authenticated => Err(status::AUTH_REQUIRED.into()),
            Role::Admin(_) => self.admin_command(command, data, cx),
            Role::Io(_) => self.io_command(command, data, cx),
        }
    }

    fn fabrics(&mut self, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let kind = command.0[4];
        let authenticated = self.is_authenticated();
        match (&mut self.role, kind) {
            (Role::New, kind_of::CONNECT) => {
                let what = Gathering::Connect;
                let work = Work::Gather { what, asked: false };
                self.bring(command, work, Target::NONE, connect::DATA_BYTES as u32, data, cx)?;
                Ok(())
            }
            (_, kind_of::CONNECT) | (Role::New | Role::Connecting { .. }, _) => Err(status::SEQUENCE.into()),
            (_, kind_of::AUTHENTICATION_SEND | kind_of::AUTHENTICATION_RECEIVE) => {
                self.authentication(command, data, cx)
            }
            _ if !authenticated => Err(status::AUTH_REQUIRED.into()),
            (Role::Admin(role), kind_of::PROPERTY_GET) => {
                let (size, offset) = (property_bytes(command)?, command.dword(11));
                role.shared.beat();
                let value = role.admin.property_get(offset, size)?;
                self.ids.remove(command.id());
                self.respond(command.id(), Status::SUCCESS, value, cx);
                Ok(())
            }
            (Role::Admin(_), kind_of::PROPERTY_SET) => self.property_set(command, cx),
            (Role::Io(_), kind_of::DISCONNECT) => self.disconnect(command, cx),
            _ => Err(status::INVALID_OPCODE.into()),
        }
    }

    /// Sets a property. When that enables the controller, or the contrary, the register hears of it before the host does.
    fn property_set(&mut self, command: &Command, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let (size, offset) = (property_bytes(command)?, command.dword(11));
        let slot = self.begin(command, Work::Wait)?;
        let tag = self.engine.tag(slot);
        let Role::Admin(role) = &mut self.role else {
            return Ok(());
        };
        let was_ready = role.admin.is_ready();
        let result = role.admin.property_set(cx.now, offset, size, command.qword(12));
        let call = match (was_ready, role.admin.is_ready()) {
            (false, true) => {
                let gate = Arc::<Gate>::default();
                role.gate = Some(gate.clone());
                let controller = role.shared.clone();
                let queues = self.port.config().queues;
                Some(Call::Enable {
                    queues,
                    shared: Shared { controller, gate },
                })
            }
            (true, false) => {
                if let Some(gate) = role.gate.take() {
                    gate.shut();
                }
                Some(Call::Disable)
            }
            _ => None,
        };
        let status = result.err().unwrap_or(Status::SUCCESS);
        match call {
            Some(call) => {
                self.engine.request(slot).failure = (status != Status::SUCCESS).then_some(status);
                cx.service.register(self.engine.front(), tag, Box::new(call));
            }
            None => self.complete(slot, status, 0, cx),
        }
        self.admin_events(cx);
        Ok(())
    }

    /// The data of a Connect command is here.
    pub(super) fn connect(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        if !matches!(self.role, Role::New) {
            // The data of two Connect commands was asked for: the first that came counts.
            self.complete(slot, status::SEQUENCE, 0, cx);
            return Ok(());
        }
        let catalog = self.port.catalog();
        let tag = self.engine.tag(slot);
        let request = self.engine.request(slot);
        let data = std::mem::take(&mut request.own.buffer);
        let command = request.own.command;
        request.own.work = Work::Wait;
        let connect = match connect::check(&command, &data, &catalog, self.port.config()) {
            Ok(connect) => Box::new(connect),
            Err((status, result)) => return self.connect_refused(slot, status, result, cx),
        };
        if let Err(why) = self.is_secure(&catalog, &connect.party) {
            let result = invalid(connect::HOST_AT, true);
            return self.connect_denied(slot, status::CONNECT_HOST, result, why.into(), cx);
        }
        let authreq = match self.demand_authentication(&catalog, &connect.party) {
            Ok(authreq) => authreq,
            Err(why) => {
                let result = invalid(connect::HOST_AT, true);
                return self.connect_denied(slot, status::CONNECT_HOST, result, why.into(), cx);
            }
        };
        self.engine.request(slot).own.result = authreq.into();
        let party = Box::new(connect.party.clone());
        let call = match connect.queue {
            0 => Call::Create {
                party,
                discovery: connect.discovery,
            },
            queue => Call::Join {
                party,
                controller: connect.controller,
                queue,
            },
        };
        self.role = Role::Connecting { slot, connect };
        cx.service.register(self.engine.front(), tag, Box::new(call));
        Ok(())
    }

    /// The host may not connect so. It may try again on another connection; this one ends.
    fn connect_refused(&mut self, slot: SlotId, status: Status, result: u32, cx: &mut Cx<'_>) -> Result<(), End> {
        let why = format!("Connect ended with status {}h/{:02x}h", status.kind, status.code);
        self.connect_denied(slot, status, result, why, cx)
    }

    /// The same, with a reason for the log.
    fn connect_denied(
        &mut self,
        slot: SlotId,
        status: Status,
        result: u32,
        why: String,
        cx: &mut Cx<'_>,
    ) -> Result<(), End> {
        self.role = Role::New;
        self.complete(slot, status, result.into(), cx);
        Err(End::After(CloseReason::Refused(why)))
    }

    /// The register speaks.
    pub fn word(&mut self, tag: u64, word: Reply, cx: &mut Cx<'_>) -> Result<(), End> {
        match word {
            Reply::Gone => Err(End::Now(CloseReason::Refused("the controller is gone".into()))),
            Reply::Noted => {
                self.failures_noted(cx);
                Ok(())
            }
            Reply::Answer(answer) => {
                self.admin_answer(tag, answer, cx);
                Ok(())
            }
            Reply::Enabled | Reply::Disabled => {
                if let Some(slot) = self.engine.find(tag) {
                    self.engine.request(slot).issued = true;
                    self.finish_if_complete(slot, cx)?;
                }
                Ok(())
            }
            Reply::Created { .. } | Reply::Joined { .. } | Reply::Refused { .. } => self.connected(word, cx),
        }
    }

    /// The register has answered a Connect command.
    fn connected(&mut self, word: Reply, cx: &mut Cx<'_>) -> Result<(), End> {
        let (slot, connect) = match std::mem::replace(&mut self.role, Role::New) {
            Role::Connecting { slot, connect } => (slot, connect),
            other => {
                self.role = other;
                return Ok(());
            }
        };
        let catalog = self.port.catalog();
        let host = amita_frontend::reservation::host_key(&connect.party.host_id);
        let (entries, flow_control) = (connect.entries, connect.flow_control);
        let controller = match word {
            Reply::Created { controller } => {
                let shared = Arc::new(ControllerShared::default());
                let session = admin::Session {
                    kind: match connect.discovery {
                        true => admin::Kind::Discovery,
                        false => admin::Kind::Io,
                    },
                    controller,
                    subsystem: connect.party.subsystem.clone(),
                    host: connect.party.host.clone(),
                    host_id: connect.party.host_id,
                    kato_ms: connect.kato_ms,
                    portal: self.login.local,
                    limits: connect::limits(self.port.config()),
                    shared: shared.clone(),
                };
                let admin = Admin::new(session, cx.now, &catalog);
                self.role = Role::Admin(Box::new(AdminRole {
                    admin,
                    shared,
                    gate: None,
                    host,
                }));
                controller
            }
            Reply::Joined { shared } => {
                cx.service.identify(self.engine.front(), host);
                let controller = connect.controller;
                self.link.max_capsule_bytes = crate::port::IO_CAPSULE_BYTES as usize;
                self.role = Role::Io(Box::new(IoRole {
                    subsystem: catalog.subsystem(&connect.party.subsystem).cloned(),
                    connect,
                    shared,
                    host,
                    failures: Failures::default(),
                    telling: false,
                }));
                controller
            }
            Reply::Refused { status, result } => return self.connect_refused(slot, status, result, cx),
            _ => return Ok(()),
        };
        self.sq.resize(entries, flow_control);
        // The number, and whether the host has to authenticate itself.
        let authreq = self.engine.request(slot).own.result;
        self.complete(slot, Status::SUCCESS, u64::from(controller) | authreq, cx);
        Ok(())
    }

    /// The subsystem of an I/O queue.
    pub(crate) fn subsystem(&self) -> Option<&Arc<Subsystem>> {
        match &self.role {
            Role::Io(role) => role.subsystem.as_ref(),
            _ => None,
        }
    }

    /// The identifier of an I/O queue's host.
    pub(crate) fn host_id(&self) -> [u8; 16] {
        match &self.role {
            Role::Io(role) => role.connect.party.host_id,
            _ => [0; 16],
        }
    }

    /// The host, as reservations know it.
    pub(crate) fn host(&self) -> HostKey {
        match &self.role {
            Role::Io(role) => role.host,
            Role::Admin(role) => role.host,
            _ => HostKey::NONE,
        }
    }

    pub(crate) fn is_admin(&self) -> bool {
        matches!(self.role, Role::Admin(_))
    }

    /// Is the host through with connecting, and has it authenticated itself if it has to?
    pub fn is_connected(&self) -> bool {
        matches!(self.role, Role::Admin(_) | Role::Io(_)) && self.is_authenticated()
    }

    /// Ends the queue (Base 2.1, 6.4): what is under way is answered as aborted, then the connection is closed.
    fn disconnect(&mut self, command: &Command, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if command.0[40..42] != [0, 0] {
            return Err(status::INVALID_FIELD.into());
        }
        for id in self.ids.take() {
            let status = match id == command.id() {
                true => Status::SUCCESS,
                false => status::QUEUE_DELETED,
            };
            self.respond(id, status, 0, cx);
        }
        Err(Refusal::End(End::After(CloseReason::Goodbye)))
    }

    /// What came back from the service.
    pub fn event(&mut self, event: Event, cx: &mut Cx<'_>) -> Result<(), End> {
        match event {
            Event::Done { tag, result, payload } => self.done(tag, result, payload, cx),
            Event::Register { tag, reply } => match reply.downcast::<Reply>() {
                Ok(word) => self.word(tag, *word, cx),
                Err(_) => unreachable!("the register of NVMe controllers speaks its own words"),
            },
            Event::Reserved { tag, result } => self.reserved(tag, result, cx),
            Event::Settings => self.settings(cx),
            _ => Ok(()),
        }
    }

    /// The settings have changed: who may not connect any more is not served any more.
    fn settings(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        let catalog: Arc<Catalog> = self.port.catalog();
        let allowed = match &mut self.role {
            Role::New | Role::Connecting { .. } => true,
            Role::Admin(role) => {
                let session = role.admin.session();
                let allowed = session.kind == admin::Kind::Discovery
                    || connect::may_connect(&catalog, &session.subsystem, &session.host);
                role.admin.settings(&catalog);
                allowed
            }
            Role::Io(role) => {
                role.subsystem = catalog.subsystem(&role.connect.party.subsystem).cloned();
                connect::may_connect(&catalog, &role.connect.party.subsystem, &role.connect.party.host)
            }
        };
        if !allowed {
            let why = "the host may not connect to this subsystem any more".into();
            return Err(End::Now(CloseReason::Refused(why)));
        }
        self.authentication_settings(&catalog);
        self.admin_events(cx);
        Ok(())
    }

    /// Who has connected, and to what.
    pub(super) fn party(&self) -> Option<Party> {
        match &self.role {
            Role::New | Role::Connecting { .. } => None,
            Role::Admin(role) => {
                let session = role.admin.session();
                Some(Party {
                    subsystem: session.subsystem.clone(),
                    host: session.host.clone(),
                    host_id: session.host_id,
                })
            }
            Role::Io(role) => Some(role.connect.party.clone()),
        }
    }

    /// An I/O queue whose controller is gone does nothing any more.
    pub(super) fn check_gate(&self) -> Result<(), End> {
        match &self.role {
            Role::Io(role) if role.shared.gate.is_shut() => {
                Err(End::Now(CloseReason::Refused("the controller is gone".into())))
            }
            _ => Ok(()),
        }
    }

    /// Adds what was counted to the controller's counters. Once a pass.
    pub(super) fn tell_counters(&mut self) {
        let Role::Io(role) = &self.role else { return };
        if self.counts != Counters::default() {
            role.shared.controller.count(std::mem::take(&mut self.counts));
        }
    }

    pub(super) fn role_deadline(&self) -> Option<Time> {
        match &self.role {
            Role::Admin(role) => role.admin.deadline(),
            Role::Io(_) => self.watch.look_at,
            _ => None,
        }
    }

    pub(super) fn tick_role(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        if matches!(self.role, Role::Io(_)) {
            return self.look_for_silence(cx.now);
        }
        let Role::Admin(role) = &mut self.role else {
            return Ok(());
        };
        match role.admin.tick(cx.now) {
            admin::Life::Alive => {
                self.admin_events(cx);
                Ok(())
            }
            admin::Life::KeepAliveLost => Err(End::Now(CloseReason::Timeout)),
            admin::Life::Idle => Err(End::After(CloseReason::Timeout)),
        }
    }

    /// The connection is gone.
    pub fn closed(&mut self, cx_service: &mut dyn amita_frontend::service::StorageService) {
        match &mut self.role {
            Role::New => return,
            Role::Admin(role) => {
                if let Some(gate) = role.gate.take() {
                    gate.shut();
                }
                role.shared.kill();
            }
            Role::Io(role) => {
                // Nobody waits for this one's answer.
                let failures = std::mem::take(&mut role.failures);
                if !failures.is_empty() {
                    cx_service.register(self.engine.front(), 0, Box::new(Call::Failed(failures)));
                }
                self.tell_counters();
            }
            Role::Connecting { .. } => {}
        }
        cx_service.register(self.engine.front(), 0, Box::new(Call::Leave));
    }
}

/// How many bytes a Property Get or Set is about.
fn property_bytes(command: &Command) -> Result<usize, Status> {
    match command.0[40] & 7 {
        0 => Ok(4),
        1 => Ok(8),
        _ => Err(status::INVALID_FIELD),
    }
}
