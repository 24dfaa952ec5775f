//! A queue: capsules in, responses out, and the data between.
//!
//! The [request engine](amita_frontend::engine) holds the commands and their limits. What is NVMe's own:
//!
//! * Data of a *write* in a *capsule* is taken as long as there is room; else the capsule is left lying in the inbox. That
//!   room comes back without any further input, so that nothing can wait for what lies behind such a capsule.
//! * Data of a *write* by *R2T* is asked for piece by piece, each a range that the volume takes at once, within a count of
//!   its own. What arrives for an R2T in one PDU goes to the volume as a slice of the receive buffer; a host that cuts it
//!   into more PDUs costs a copy, and is as atomic.
//! * *Reads* are submitted in order and leave in order (Linux takes data as it comes), each piece as a PDU that refers to
//!   the volume's memory. What the host does not fetch counts.
//! * The rest moves a bounded number of pieces at a time.

mod access;
pub(super) mod admin;
mod capsules;
mod events;
mod fabrics;
mod failed;
mod request;
mod role;
mod silence;
mod target;
pub(super) mod transfer;

pub(super) use request::{Gathering, Request, Work};
pub(super) use role::{Login, Role};
pub(super) use target::{Target, atom_bytes};

use super::admin::Counters;
use super::command::{Command, MORE, Status};
use super::io::{copy, dataset, fused, reserve};
use super::port::Port;
use super::wire::{Carrier, Fatal, Link, Sgl, fatal, flag, kind, status, u16_at, u32_at};
use super::{Cx, io};
use access::Access;
use amita_frontend::engine::{Charge, Delivery, Engine, Limits, Plan, Protocol as _, Submission};
use amita_frontend::front::CloseReason;
use amita_frontend::pieces::Piece;
use amita_frontend::service::FrontId;
use amita_frontend::slots::SlotId;
use amita_reactor::{Inbox, Pool, Slice, Time};
use amita_types::VolumeId;
use amita_types::io::Op;
use capsules::Capsules;
use silence::Watch;
use std::rc::Rc;
use transfer::Transfers;

/// How many pieces of one command are under way at once, for commands that move no data over the network.
const WINDOW: u32 = 8;

/// Answers that a host has not fetched which is not connected yet, in bytes: with so many it is not listened to.
const STRANGERS_ANSWER_BYTES: usize = 16 << 10;
/// The same of one who is connected to ask what there is, and has proven nothing: with one answer of the longest kind behind that it is
/// 64 KiB.
const GUESTS_ANSWER_BYTES: usize = 32 << 10;
/// The longest transfer of such a host (MDTS): hosts read what there is by 4 KiB.
const GUESTS_TRANSFER_BYTES: u32 = 32 << 10;

/// Why a queue's connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The host gets a C2HTermReq, which shows the header in error.
    Fatal(Fatal, Vec<u8>),
    /// Answers that are under way are still sent.
    After(CloseReason),
    /// It is closed at once.
    Now(CloseReason),
}

pub(super) struct Queue {
    pub(super) port: Rc<Port>,
    pub(super) capsules: Capsules,
    pub(super) role: Role,
    access: Access,
    pub(super) engine: Engine<Queue>,
    transfers: Transfers,
    /// The first of a fused pair, whose second has not come.
    pub(super) fused: Option<SlotId>,
    /// Whether the host is there while a command of it grows old.
    watch: Watch,
    /// What has been done since then.
    pub(super) counts: Counters,
    /// With so many bytes of answers that it has not fetched the host is not listened to.
    answer_bytes: usize,
    /// Is input left lying because of the limits?
    pub(super) blocked: bool,
}

impl Queue {
    pub fn new(front: FrontId, pool: Pool, port: Rc<Port>, link: Link, login: Login) -> Queue {
        let config = port.config();
        let limits = Limits {
            requests: usize::from(config.entries),
            read_bytes: config.read_bytes,
            write_bytes: config.write_bytes,
            pieces: config.pieces,
            window: WINDOW,
        };
        Queue {
            capsules: Capsules::new(link),
            role: Role::New,
            access: Access::new(login),
            engine: Engine::new(front, pool, limits),
            transfers: Transfers::default(),
            fused: None,
            watch: Watch::default(),
            counts: Counters::default(),
            answer_bytes: STRANGERS_ANSWER_BYTES,
            blocked: false,
            port,
        }
    }

    pub fn wants_input(&self) -> bool {
        !self.blocked
    }

    /// Does data come soon that deserves a large receive block?
    pub fn is_busy(&self) -> bool {
        self.engine.usage().writing > 0 || self.capsules.ids.len() > 1
    }

    /// Is no command under way?
    pub fn is_idle(&self) -> bool {
        self.capsules.ids.len() == 0
    }

    /// Is the host through with connecting, and has it authenticated itself if it has to?
    pub fn is_connected(&self) -> bool {
        matches!(self.role, Role::Admin(_) | Role::Io(_)) && self.access.is_authenticated()
    }

    /// Is its host through with connecting, only to ask what there is, and has it proven nothing? Anybody may.
    pub fn is_guest(&self) -> bool {
        matches!(&self.role, Role::Admin(role) if role.admin.session().is_guest())
    }

    /// Does it carry I/O, for a host that may? (Anybody may ask what there is.)
    pub fn is_io(&self) -> bool {
        matches!(self.role, Role::Io(_)) && self.access.is_authenticated()
    }

    /// When [`Queue::tick`] wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        [self.engine.retry_at(), self.role.deadline(&self.watch)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles what is in the inbox, as far as the limits allow.
    pub fn parse(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<(), End> {
        self.blocked = false;
        self.role.check_gate()?;
        loop {
            let frame = match self.capsules.link.frame(inbox) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(fatal) => return Err(end(fatal, inbox)),
            };
            match frame.kind {
                kind::COMMAND => {
                    // A host that does not fetch its answers is not listened to.
                    let room = self.engine.may_take_unasked(frame.data_bytes);
                    if cx.queued_bytes() > self.answer_bytes || !room {
                        self.blocked = true;
                        return Ok(());
                    }
                    let command = Link::command(inbox);
                    if !self.capsules.receive() {
                        let what = "more commands than the queue has entries";
                        return Err(end(Fatal::new(fatal::SEQUENCE, 0, what), inbox));
                    }
                    let data = Link::take(frame, inbox);
                    self.command(command, data, cx)?;
                }
                kind::H2C_DATA => {
                    let bytes = inbox.data();
                    let header = transfer::Header {
                        id: u16_at(bytes, 8),
                        tag: u16_at(bytes, 10),
                        offset: u32_at(bytes, 12),
                        length: u32_at(bytes, 16),
                        last: frame.flags & flag::LAST != 0,
                    };
                    if header.length as usize != frame.data_bytes {
                        let wrong = Fatal::field(16, "DATAL is not the length of the data");
                        return Err(end(wrong, inbox));
                    }
                    if let Err(fatal) = self.transfers.check(&header) {
                        return Err(end(fatal, inbox));
                    }
                    if self.watch.look_at.is_some_and(|at| cx.now >= at) {
                        // Before the data of a command is taken that is to end.
                        self.look(cx.now)?;
                    }
                    let data = Link::take(frame, inbox);
                    transfer::incoming(self, &header, data, cx)?;
                }
                _ => {
                    // H2CTermReq: "the controller shall [...] close the connection" ("TCP", 3.5).
                    return Err(End::Now(CloseReason::Protocol("the host has sent an H2CTermReq")));
                }
            }
        }
    }

    /// Takes a command; `data` is that of its capsule, `None` when its digest was wrong.
    fn command(&mut self, command: Command, data: Option<Slice>, cx: &mut Cx<'_>) -> Result<(), End> {
        let id = command.id();
        if self.watch.is_to_be_told(cx.now) {
            self.still_there(cx.now)?;
        }
        self.watch.command(cx.now, self.port.config().stale_after);
        if !self.capsules.ids.insert(id) {
            // The other command of that number goes on.
            self.respond_failed(&command, status::ID_CONFLICT, None, 0, cx);
            return Ok(());
        }
        let Some(data) = data else {
            // "[The command] is aborted with Transient Transport Error" when its data was damaged on its way.
            return self.refuse(&command, status::TRANSIENT_TRANSPORT, cx);
        };
        match self.dispatch(&command, data, cx) {
            Ok(()) => Ok(()),
            Err(Refusal::Status(status)) => self.refuse(&command, status, cx),
            Err(Refusal::End(end)) => Err(end),
        }
    }

    /// The host is heard again, after a moment at least: may it have gone meanwhile?
    #[cold]
    fn still_there(&mut self, now: Time) -> Result<(), End> {
        if let Role::Io(role) = &self.role
            && !role.shared.controller.beat_io(now, self.watch.heard_at)
        {
            // What was held up on its other connections is not carried out either.
            role.shared.gate.shut();
            return Err(End::Now(CloseReason::Timeout));
        }
        self.watch.told_at = now;
        Ok(())
    }

    /// Ends the queue when a command has grown old and the host was not heard.
    fn look(&mut self, now: Time) -> Result<(), End> {
        let Role::Io(role) = &self.role else { return Ok(()) };
        let stale_after = self.port.config().stale_after;
        self.watch
            .look(&role.shared.controller, &mut self.engine, stale_after, now)
    }

    /// Answers a command that was given no slot.
    fn refuse(&mut self, command: &Command, status: Status, cx: &mut Cx<'_>) -> Result<(), End> {
        fused::break_off(self, cx)?;
        self.capsules.ids.remove(command.id());
        self.respond_failed(command, status, None, 0, cx);
        Ok(())
    }

    /// Takes a command to where it belongs.
    fn dispatch(&mut self, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if command.opcode() == fabrics::FABRICS {
            return fabrics::command(self, command, data, cx);
        }
        let authenticated = self.access.is_authenticated();
        // "SGLs shall be used for all commands" of Fabrics, whether they move data or not (Base 2.1, 4.3.1).
        if !matches!(command.psdt(), 1 | 2) {
            return Err(status::INVALID_FIELD.into());
        }
        match &mut self.role {
            // "[...] a command other than Connect [...] Command Sequence Error" (Base 2.1, 3.3.2.2).
            Role::New | Role::Connecting { .. } => Err(status::SEQUENCE.into()),
            // "[...] Authentication Required" until it has succeeded (Base 2.1, 8.3.4.1).
            Role::Proving(_) => Err(status::AUTH_REQUIRED.into()),
            _ if !authenticated => Err(status::AUTH_REQUIRED.into()),
            Role::Admin(_) => admin::command(self, command, data, cx),
            Role::Io(_) => io::command(self, command, data, cx),
        }
    }

    /// Gives a command a slot.
    pub(super) fn begin(&mut self, command: &Command, work: Work) -> Result<SlotId, Status> {
        // The queue has as many slots as entries.
        let begun = self
            .engine
            .begin(VolumeId::default(), 0, Plan::Steps, Delivery::Verdict);
        let (slot, request) = begun.ok_or(status::INTERNAL)?;
        request.own.begin(command, work, self.watch.heard_at);
        Ok(slot)
    }

    /// Says what a command is about.
    pub(super) fn aim(&mut self, slot: SlotId, target: Target, length: u32) {
        let request = self.engine.request(slot);
        request.source = target.source;
        request.offset = target.offset;
        request.own.target = target;
        request.own.length = length;
    }

    /// Starts the transfer of `length` bytes of data from the host: those of the capsule are here, others are asked for.
    pub(super) fn bring(
        &mut self,
        command: &Command,
        work: Work,
        target: Target,
        length: u32,
        mut data: Slice,
        cx: &mut Cx<'_>,
    ) -> Result<SlotId, Refusal> {
        let sgl = Sgl::parse(command)?;
        // Lists and the like may come in a buffer that is longer than they are (Linux: ranges to deallocate); what is
        // longer than a range of blocks is a mistake.
        let exact = matches!(work, Work::Write { .. } | Work::Compare { .. }) || command.fuse() != 0;
        if sgl.length < length || exact && sgl.length != length {
            return Err(status::SGL_LENGTH.into());
        }
        let carrier = sgl.carrier;
        if let Carrier::Capsule { offset } = carrier {
            // "If the offset is beyond the capsule's data [...] SGL Offset Invalid" (Base 2.1, 4.3.2.2).
            let end = offset.checked_add(u64::from(sgl.length));
            if end.is_none_or(|end| end > data.len() as u64) {
                return Err(status::SGL_OFFSET.into());
            }
            data.skip(offset as usize);
            data = data.split_to(length as usize);
        }
        let slot = self.begin(command, work)?;
        self.aim(slot, target, length);
        if matches!(carrier, Carrier::Capsule { .. }) {
            self.engine.request(slot).unasked = true;
            self.engine.charge(slot, length as usize);
            match self.engine.request(slot).own.work {
                Work::Gather { .. } => self.arrived(slot, 0, data, cx)?,
                Work::Write { cursor } | Work::Compare { cursor } => {
                    for Piece { offset, length } in cursor {
                        let piece = data.split_to(length as usize);
                        self.arrived(slot, (offset - target.offset) as u32, piece, cx)?;
                    }
                    self.engine.request(slot).issued = true;
                }
                _ => {}
            }
            self.finish_if_complete(slot, cx)?;
        } else {
            self.start(slot, cx)?;
        }
        Ok(slot)
    }

    /// Starts what waited for room. Called once at the end of a pass.
    pub fn end_pass(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        self.role.check_gate()?;
        self.pump(cx)?;
        self.tell_counters();
        Ok(())
    }

    /// Data of a command has come: `offset` bytes into it.
    pub(super) fn arrived(&mut self, slot: SlotId, offset: u32, data: Slice, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        let at = request.own.target.offset + u64::from(offset);
        let length = data.len() as u32;
        match request.own.work {
            Work::Write { .. } => {
                let op = Op::Write { offset: at, length };
                self.submit(slot, Submission::with_data(op, data), cx);
            }
            Work::Compare { .. } => {
                // The host's data stays with the piece until the volume's has come.
                let submission = Submission {
                    data,
                    charge: Charge::Write,
                    ..Submission::of(Op::Read { offset: at, length })
                };
                self.submit(slot, submission, cx);
            }
            Work::Gather { .. } => {
                request.own.buffer = data;
                return self.gathered(slot, cx);
            }
            _ => {}
        }
        Ok(())
    }

    /// All data of a command that needs it as a whole has come.
    fn gathered(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        let Work::Gather { what, .. } = request.own.work else {
            return Ok(());
        };
        request.own.gathered = true;
        if request.failure.is_some() {
            request.issued = true;
            return self.finish_if_complete(slot, cx);
        }
        match what {
            Gathering::Admin => admin::execute(self, slot, cx),
            Gathering::Compare => fused::compare_gathered(self, slot, cx),
            Gathering::Write { first } => fused::write_gathered(self, slot, first, cx),
            Gathering::Dataset => dataset::gathered(self, slot, cx),
            Gathering::Copy => copy::gathered(self, slot, cx),
            Gathering::Reserve => reserve::execute(self, slot, cx),
            Gathering::Connect => fabrics::connect_gathered(self, slot, cx),
            Gathering::Authentication => access::gathered(self, slot, cx),
        }
    }

    /// Ends a command: answers it and frees its slot.
    pub(super) fn complete(&mut self, slot: SlotId, status: Status, result: u64, cx: &mut Cx<'_>) {
        let request = self.engine.request(slot);
        if status == Status::SUCCESS {
            let id = request.own.id;
            self.capsules.respond(id, status, result, cx);
        } else {
            let (command, at) = (request.own.command, request.failed_at);
            self.respond_failed(&command, status, at, result, cx);
        }
        self.forget(slot);
    }

    /// Frees a command's slot.
    pub(super) fn forget(&mut self, slot: SlotId) {
        if self.fused == Some(slot) {
            self.fused = None;
        }
        let request = self.engine.request(slot);
        let id = request.own.id;
        request.own.clear();
        self.capsules.ids.remove(id);
        self.engine.free(slot);
    }

    /// Answers a command that is done when it comes.
    pub(super) fn nothing_to_do(&mut self, command: &Command, cx: &mut Cx<'_>) {
        self.capsules.ids.remove(command.id());
        self.capsules.respond(command.id(), Status::SUCCESS, 0, cx);
    }

    /// Answers a command that failed, and keeps it for the log.
    pub(super) fn respond_failed(
        &mut self,
        command: &Command,
        status: Status,
        at: Option<u64>,
        result: u64,
        cx: &mut Cx<'_>,
    ) {
        let more = match self.role.note_failure(&self.engine, command, status, at, cx) {
            true => MORE,
            false => 0,
        };
        self.capsules
            .respond_with(command.id(), status.to_field() | more, result, cx);
    }
}

/// Why a command is not carried out.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is answered so.
    Status(Status),
    /// The connection ends.
    End(End),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal::Status(status)
    }
}

impl From<End> for Refusal {
    fn from(end: End) -> Refusal {
        Refusal::End(end)
    }
}

fn end(fatal: Fatal, inbox: &Inbox) -> End {
    let bytes = inbox.data();
    // The header is as long as it says, if that makes sense.
    let length = bytes.get(2).map_or(0, |length| usize::from(*length));
    End::Fatal(fatal, bytes[..length.min(bytes.len())].to_vec())
}
