//! The admin side of a controller, without a connection: what an admin queue's commands ask for, and what is answered.
//!
//! One [`Admin`] is the state of one controller; the front of its admin queue holds it, moves the data, and calls:
//!
//! * [`Admin::property_get`] and [`Admin::property_set`] for the Fabrics commands of those names;
//! * for every other admin command [`Admin::data_bytes`], which tells how much data travels and in which direction, then
//!   [`Admin::execute`];
//! * [`Admin::answer`] with what the register says, when a command ends in [`Turn::Ask`];
//! * [`Admin::note`] with each command that it has answered with an error;
//! * [`Admin::settings`] when the cluster's settings have changed; then, and after each command, [`Admin::take_event`] until there is none: these are Asynchronous Event Requests that end;
//! * [`Admin::tick`] when [`Admin::deadline`] has come.
//!
//! Connect, Disconnect and the authentication commands are the connection's. What the I/O queues and the admin queue of
//! a controller share is its [`ControllerShared`].

mod event;
mod feature;
mod identify;
mod log;
mod page;
mod presence;
mod property;
mod scope;
mod shared;
pub(crate) mod status;
#[cfg(test)]
mod tests;

pub use shared::{ControllerShared, Counters};

use super::catalog::{Catalog, Subsystem};
use super::command::{Command, Reply, Status};
use super::failure::Failure;
use super::hub::{Answer, Question};
use amita_frontend::reservation;
use amita_reactor::Time;
use amita_types::VolumeId;
use event::Events;
use feature::Features;
use log::Logs;
use page::{plain, told};
use property::{Change, Properties};
use scope::Scope;
use status::{ABORT_REQUESTED, COMMAND_SEQUENCE, DATA_SGL_LENGTH, INVALID_FIELD, INVALID_OPCODE};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Namespaces of a subsystem, and the highest number that one can have: ANA groups are numbered like namespaces, and the
/// host makes room for all of them.
pub const MAX_NAMESPACES: u32 = 1024;
/// I/O queues of a controller, at most.
pub const MAX_IO_QUEUES: u16 = 128;
/// Asynchronous Event Requests that a host may have waiting.
pub const MAX_EVENT_REQUESTS: usize = 4;
/// The opcode of Keep Alive.
pub(super) const KEEP_ALIVE: u8 = 0x18;
/// "KAS": keep alive times are whole seconds, in units of 100 ms.
const KEEP_ALIVE_UNITS: u16 = 10;
/// How long a controller that is not in use keeps its admin queue: after a reset or a shutdown its properties can still be
/// read (NVM Express Base 2.1, 3.6.2), and discovery controllers without a keep alive time are closed after as much
/// silence (3.1.3.3).
const IDLE_TIME: Duration = Duration::from_secs(120);

/// The name by which every discovery subsystem is reached.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// What a controller is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It tells what there is.
    Discovery,
    /// It serves namespaces.
    Io,
}

/// What the transport can do; Identify says so to the host.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Entries of an I/O queue (MQES + 1, and MAXCMD).
    pub queue_entries: u16,
    /// Entries of an admin queue, as the discovery log tells them (ASQSZ).
    pub admin_queue_entries: u16,
    /// I/O queues of a controller.
    pub io_queues: u16,
    /// Bytes of one command's data, a power of two of at least 4 KiB (MDTS).
    pub transfer_bytes: u32,
    /// Bytes of data inside an I/O command's capsule (IOCCSZ).
    pub capsule_data_bytes: u32,
    /// Bytes of one source range of a Copy (MSSRL).
    pub copy_range_bytes: u32,
    /// Bytes of a Copy in all (MCL).
    pub copy_bytes: u32,
    /// Source ranges of a Copy (MSRC + 1).
    pub copy_ranges: u8,
    /// Is the Disconnect command carried out (OFCS)?
    pub disconnect: bool,
    /// May a host connect without submission queue flow control (TREQ)?
    pub without_flow_control: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queue_entries: 1024,
            admin_queue_entries: 32,
            io_queues: MAX_IO_QUEUES,
            transfer_bytes: 1 << 20,
            capsule_data_bytes: 16 << 10,
            copy_range_bytes: 1 << 20,
            copy_bytes: 1 << 20,
            copy_ranges: 128,
            disconnect: false,
            without_flow_control: true,
        }
    }
}

/// Who has connected, to what, and how.
#[derive(Clone, Debug)]
pub struct Session {
    /// What the controller is for.
    pub kind: Kind,
    /// Its number in its subsystem.
    pub controller: u16,
    /// The subsystem, by the name that the host has given.
    pub subsystem: String,
    /// The host's NQN.
    pub host: String,
    /// The host's identifier.
    pub host_id: [u8; 16],
    /// Has it proven to be that host?
    pub proven: bool,
    /// The keep alive time that the Connect command asked for.
    pub kato_ms: u32,
    /// The address that the host has connected to.
    pub portal: SocketAddr,
    /// What the transport can do.
    pub limits: Limits,
    /// What the controller's queues share.
    pub shared: Arc<ControllerShared>,
}

impl Session {
    /// Does anybody ask what there is, who has proven nothing? He is held to little.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.kind == Kind::Discovery && !self.proven
    }
}

/// How much data a command moves, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    None,
    /// So many bytes from the host, which are to be there before it is executed.
    FromHost(u32),
    /// So many bytes to the host: what the command's SGL must have room for.
    ToHost(u32),
}

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has ended.
    Reply(Reply),
    /// It waits for something to happen: [`Admin::take_event`] ends it.
    Later,
    /// It ends with what the volume's reservation is after this command: ask the storage service with the session's host,
    /// then [`Admin::reservation_reply`] has the reply.
    Reserve {
        volume: VolumeId,
        /// What to ask.
        command: reservation::Command,
    },
    /// It ends with what the node's register of controllers says: [`Admin::answer`] has the reply then.
    Ask(Question),
}

/// Is a controller to be kept?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Life {
    /// Yes.
    Alive,
    /// The host was not heard of for as long as it said it would at most be silent.
    KeepAliveLost,
    /// It is not in use: shut down, reset, or never enabled, for two minutes.
    Idle,
}

/// The admin side of one controller.
#[derive(Debug)]
pub struct Admin {
    scope: Scope,
    properties: Properties,
    features: Features,
    events: Events,
    logs: Logs,
    /// Since when the keep alive time, or the time of not being used, runs.
    since: Time,
}

mod opcode {
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
    pub const KEEP_ALIVE: u8 = super::KEEP_ALIVE;
}

/// The number for all namespaces.
const ALL_NAMESPACES: u32 = u32::MAX;

impl Admin {
    /// The controller that a Connect command has made.
    #[must_use]
    pub fn new(session: Session, now: Time, catalog: &Arc<Catalog>) -> Admin {
        let subsystem = match session.kind {
            Kind::Discovery => None,
            Kind::Io => catalog.subsystem(&session.subsystem).cloned(),
        };
        let mut admin = Admin {
            properties: Properties::new(session.kind, &session.limits),
            features: Features::new(&session),
            events: Events::new(session.kind),
            logs: Logs::default(),
            since: now,
            scope: Scope {
                catalog: catalog.clone(),
                subsystem,
                session,
            },
        };
        admin.logs.begin(&admin.scope);
        admin.scope.session.shared.set_kato_ms(admin.features.kato_ms());
        // What was so before the host came is no news for it.
        admin
            .logs
            .reservations_changed(&admin.scope, &admin.features, &mut admin.events);
        admin
    }

    /// Who has connected, to what.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.scope.session
    }

    /// The controller's subsystem as the settings have it now; none when it was removed, or of a discovery controller.
    #[must_use]
    pub fn subsystem(&self) -> Option<&Arc<Subsystem>> {
        self.scope.subsystem.as_ref()
    }

    /// Does it take commands: is it enabled, and not shut down?
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.properties.is_ready()
    }

    /// The value of a property; `size` is 4 or 8 bytes.
    pub fn property_get(&self, offset: u32, size: usize) -> Result<u64, Status> {
        self.properties.get(offset, size)
    }

    /// Sets a property. Look at [`Admin::is_ready`] before and after: a controller that ceases to be ready drops its I/O
    /// queues.
    pub fn property_set(&mut self, now: Time, offset: u32, size: usize, value: u64) -> Result<(), Status> {
        self.scope.session.shared.beat(now);
        match self.properties.set(offset, size, value)? {
            Change::Nothing => {}
            Change::Enabled => self.since = now,
            Change::ShutDown => {
                self.since = now;
                self.events.abort_all();
            }
            Change::Reset => {
                self.since = now;
                self.features = Features::new(&self.scope.session);
                self.scope.session.shared.set_kato_ms(self.features.kato_ms());
                self.events.reset();
                self.logs.begin(&self.scope);
            }
        }
        Ok(())
    }

    /// How much data the command moves. The status, if it is not even worth that.
    pub fn data_bytes(&self, command: &Command) -> Result<Transfer, Status> {
        match self.check(command) {
            Ok(()) => match command.opcode() {
                opcode::IDENTIFY => Ok(Transfer::ToHost(identify::PAGE_BYTES)),
                opcode::GET_LOG_PAGE => log::Request::decode(command, &self.scope.session.limits)
                    .map(|request| Transfer::ToHost(request.length_bytes)),
                opcode::SET_FEATURES => Ok(feature::bytes_from_host(command)),
                opcode::GET_FEATURES => Ok(feature::bytes_to_host(command)),
                _ => Ok(Transfer::None),
            },
            Err(status) => Err(status),
        }
    }

    /// Carries out a command; `data` is what [`Admin::data_bytes`] has asked for.
    pub fn execute(&mut self, now: Time, command: &Command, data: &[u8]) -> Turn {
        self.scope.session.shared.beat(now);
        if self.features.kato_ms() == 0 {
            // A discovery controller without a keep alive time is closed when it is not used.
            self.since = now;
        }
        match self.check(command) {
            Ok(()) => self.dispatch(now, command, data),
            Err(status) => Turn::Reply(plain(status, 0)),
        }
    }

    /// Keeps a command of the admin queue for the log that has ended with an error.
    pub fn note(&mut self, failure: &Failure) {
        self.logs.note(failure);
    }

    fn check(&self, command: &Command) -> Result<(), Status> {
        let known = match self.scope.session.kind {
            Kind::Io => log::ADMIN_OPCODES,
            // Abort is not for discovery controllers (NVM Express Base 2.1, 3.1.3.4).
            Kind::Discovery => log::DISCOVERY_OPCODES,
        };
        if !self.is_ready() {
            return Err(COMMAND_SEQUENCE);
        }
        if !known.contains(&command.opcode()) {
            return Err(INVALID_OPCODE);
        }
        // No admin command can be fused.
        if command.fuse() != 0 {
            return Err(INVALID_FIELD);
        }
        Ok(())
    }

    fn dispatch(&mut self, now: Time, command: &Command, data: &[u8]) -> Turn {
        let expected = match command.opcode() {
            opcode::SET_FEATURES => feature::bytes_from_host(command),
            _ => Transfer::None,
        };
        if let Transfer::FromHost(length) = expected
            && data.len() != length as usize
        {
            return Turn::Reply(plain(DATA_SGL_LENGTH, 0));
        }
        let refused = |status| Turn::Reply(plain(status, 0));
        let result = match command.opcode() {
            opcode::IDENTIFY if identify::lists_controllers(&self.scope, command) => {
                return Turn::Ask(Question::Controllers);
            }
            opcode::IDENTIFY => identify::page(&self.scope, command),
            opcode::GET_LOG_PAGE if log::tells_errors(&self.scope, command) => return Turn::Ask(Question::Failures),
            opcode::GET_LOG_PAGE => self.logs.page(&self.scope, &mut self.events, command),
            opcode::SET_FEATURES => return feature::set(self, now, command, data).unwrap_or_else(refused),
            opcode::GET_FEATURES => return feature::get(self, command).unwrap_or_else(refused),
            opcode::KEEP_ALIVE => {
                self.since = now;
                Ok(told(0))
            }
            opcode::ABORT => Ok(self.abort(command)),
            opcode::ASYNC_EVENT_REQUEST => match self.events.request(command.id()) {
                Ok(()) => return Turn::Later,
                Err(status) => Err(status),
            },
            _ => Err(INVALID_OPCODE),
        };
        Turn::Reply(result.unwrap_or_else(|status| plain(status, 0)))
    }

    /// Ends what [`Turn::Reserve`] has begun.
    #[must_use]
    pub fn reservation_reply(
        &self,
        command: &Command,
        result: Result<&reservation::State, reservation::Refusal>,
    ) -> Reply {
        feature::persistence_reply(command, result)
    }

    /// Ends what [`Turn::Ask`] has begun.
    #[must_use]
    pub fn answer(&mut self, command: &Command, answer: Answer) -> Reply {
        if let Answer::Failures(failures) = &answer {
            self.logs.take(failures);
        }
        // It may have been reset since it asked.
        let result = self.check(command).and_then(|()| match answer {
            Answer::Grant(granted) => self.features.queues_answered(&self.scope, command, granted).map(told),
            Answer::Controllers(numbers) => identify::controllers(&self.scope, command, &numbers),
            Answer::Failures(_) => self.logs.page(&self.scope, &mut self.events, command),
        });
        result.unwrap_or_else(|status| plain(status, 0))
    }

    /// Bit 0 of the answer is set when the command was not aborted (NVM Express Base 2.1, 5.1.1). Only Asynchronous Event
    /// Requests wait long enough to be worth it: all else ends soon by itself.
    fn abort(&mut self, command: &Command) -> Reply {
        let (queue, id) = (command.dword(10) as u16, (command.dword(10) >> 16) as u16);
        let aborted = queue == 0 && self.events.abort(id, ABORT_REQUESTED);
        told(u32::from(!aborted))
    }

    /// The settings have changed.
    pub fn settings(&mut self, catalog: &Arc<Catalog>) {
        let before = std::mem::replace(&mut self.scope.catalog, catalog.clone());
        match self.scope.session.kind {
            Kind::Discovery => self.logs.discovery_changed(&self.scope, &mut self.events),
            Kind::Io => {
                let old = self.scope.subsystem.take();
                self.scope.subsystem = catalog.subsystem(&self.scope.session.subsystem).cloned();
                self.logs
                    .namespaces_changed(&self.scope, &mut self.events, old.as_deref());
                self.logs
                    .reservations_changed(&self.scope, &self.features, &mut self.events);
            }
        }
        drop(before);
    }

    /// An Asynchronous Event Request that ends now: its command identifier, and how.
    pub fn take_event(&mut self) -> Option<(u16, Reply)> {
        self.events.take()
    }

    /// Looks at the clock.
    pub fn tick(&mut self, now: Time) -> Life {
        let Some(deadline) = self.deadline() else {
            return Life::Alive;
        };
        if now < deadline {
            return Life::Alive;
        }
        if !self.is_ready() {
            return Life::Idle;
        }
        // Command based keep alive (NVM Express Base 2.1, 3.9.3): only Keep Alive starts the time again, and it runs once. A host that
        // has given this path up at the end of its own time has gone on by another.
        Life::KeepAliveLost
    }

    /// When [`Admin::tick`] wants to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let limit = if self.is_ready() {
            match (self.features.kato_ms(), self.scope.session.kind) {
                (0, Kind::Io) => return None,
                (0, Kind::Discovery) => IDLE_TIME,
                (kato_ms, _) => Duration::from_millis(kato_ms.into()),
            }
        } else {
            IDLE_TIME
        };
        Some(self.since.plus(limit))
    }
}
