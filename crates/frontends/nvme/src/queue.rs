//! A queue: capsules in, responses out, and the data between.
//!
//! A command takes a slot; its pieces carry the slot in their tags. What is read and what is written is counted, so that
//! one connection can never hold more memory than the [`Config`](super::Config) says:
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
mod admin;
mod fabrics;
mod failed;
mod request;
mod silence;
mod submission;
mod target;
mod transfer;

pub(super) use fabrics::Login;
pub(super) use request::{Gathering, PieceState, Request, Work};
pub(super) use target::{Target, atom_bytes};

use super::admin::Counters;
use super::auth::Authenticator;
use super::command::{COMPLETION_BYTES, Command, MORE, Status};
use super::port::Port;
use super::wire::{Carrier, Fatal, Link, Sgl, fatal, flag, kind, status, u16_at, u32_at};
use super::{Config, Cx};
use amita_frontend::front::CloseReason;
use amita_frontend::pieces::Piece;
use amita_frontend::service::FrontId;
use amita_frontend::slots::{SlotId, Slots};
use amita_reactor::{Inbox, Slice, Time};
use amita_types::io::Op;
use fabrics::Role;
use std::collections::VecDeque;
use std::rc::Rc;
use submission::{Ids, Submission};
use transfer::Transfers;

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

/// One queue.
pub(super) struct Queue {
    pub(super) front: FrontId,
    pub(super) port: Rc<Port>,
    pub(super) link: Link,
    role: Role,
    login: Login,
    /// What the host has to go through, if it has to.
    auth: Option<Box<Authenticator>>,
    sq: Submission,
    ids: Ids,
    pub(super) slots: Slots<Request>,
    transfers: Transfers,
    /// The first of a fused pair, whose second has not come.
    pub(super) fused: Option<SlotId>,
    /// Commands with pieces that are not submitted, or data that is not asked for, for want of room.
    pub(super) waiting: VecDeque<SlotId>,
    /// Pieces that the volume was too busy for.
    pub(super) retries: VecDeque<u64>,
    pub(super) retry_at: Option<Time>,
    /// Bytes of reads under way or held.
    pub(super) reading_bytes: usize,
    /// Bytes asked for, or being written after they were.
    pub(super) asked_bytes: usize,
    /// Bytes of capsules being written.
    pub(super) capsule_bytes: usize,
    /// Pieces without data under way.
    pub(super) pieces_under_way: usize,
    /// Whether the host is there while a command of it grows old.
    watch: silence::Watch,
    /// What has been done since then.
    pub(super) counts: Counters,
    /// Is input left lying because of the limits?
    pub(super) blocked: bool,
}

impl Queue {
    pub fn new(front: FrontId, port: Rc<Port>, link: Link, login: Login) -> Queue {
        Queue {
            front,
            link,
            role: Role::New,
            login,
            auth: None,
            // Until it is connected there is the one command that connects it.
            sq: Submission::new(2, true),
            ids: Ids::default(),
            slots: Slots::new(usize::from(port.config().entries)),
            transfers: Transfers::default(),
            fused: None,
            waiting: VecDeque::new(),
            retries: VecDeque::new(),
            retry_at: None,
            reading_bytes: 0,
            asked_bytes: 0,
            capsule_bytes: 0,
            pieces_under_way: 0,
            watch: silence::Watch::default(),
            counts: Counters::default(),
            blocked: false,
            port,
        }
    }

    pub(super) fn config(&self) -> &Config {
        self.port.config()
    }

    pub fn wants_input(&self) -> bool {
        !self.blocked
    }

    /// Does data come soon that deserves a large receive block?
    pub fn is_busy(&self) -> bool {
        self.asked_bytes > 0 || self.ids.len() > 1
    }

    /// Is no command under way?
    pub fn is_idle(&self) -> bool {
        self.ids.len() == 0
    }

    /// When [`Queue::tick`] wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        [self.retry_at, self.role_deadline()].into_iter().flatten().min()
    }

    /// Handles what is in the inbox, as far as the limits allow.
    pub fn parse(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<(), End> {
        self.blocked = false;
        self.check_heart()?;
        loop {
            let frame = match self.link.frame(inbox) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(fatal) => return Err(end(fatal, inbox)),
            };
            match frame.kind {
                kind::COMMAND => {
                    // A host that does not fetch its answers is not listened to.
                    let room = self.capsule_bytes == 0
                        || self.capsule_bytes + frame.data_bytes <= self.config().write_bytes
                        || frame.data_bytes == 0;
                    if cx.queued_bytes() > self.config().read_bytes || !room {
                        self.blocked = true;
                        return Ok(());
                    }
                    let command = Link::command(inbox);
                    if !self.sq.receive(self.ids.len()) {
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
                    let data = Link::take(frame, inbox);
                    self.incoming(&header, data, cx)?;
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
        self.watch.command(cx.now, self.port.config().stale_after);
        if !self.ids.insert(id) {
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

    /// Answers a command that was given no slot.
    fn refuse(&mut self, command: &Command, status: Status, cx: &mut Cx<'_>) -> Result<(), End> {
        self.break_fused(cx)?;
        self.ids.remove(command.id());
        self.respond_failed(command, status, None, 0, cx);
        Ok(())
    }

    /// Gives a command a slot.
    pub(super) fn begin(&mut self, command: &Command, work: Work) -> Result<SlotId, Status> {
        // The queue has as many slots as entries.
        let (slot, request) = self.slots.take().ok_or(status::INTERNAL)?;
        request.begin(command, work);
        request.since = self.watch.heard_at;
        Ok(slot)
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
        let request = self.slots.get_mut(slot);
        request.target = target;
        request.length = length;
        request.in_capsule = matches!(carrier, Carrier::Capsule { .. });
        if request.in_capsule {
            self.charge(slot, length as usize);
            match self.slots.get_mut(slot).work {
                Work::Gather { .. } => self.arrived(slot, 0, data, cx)?,
                Work::Write { cursor } | Work::Compare { cursor } => {
                    for Piece { offset, length } in cursor {
                        let piece = data.split_to(length as usize);
                        self.arrived(slot, (offset - target.offset) as u32, piece, cx)?;
                    }
                    self.slots.get_mut(slot).issued = true;
                }
                _ => {}
            }
            self.finish_if_complete(slot, cx)?;
        } else {
            self.start(slot, cx)?;
        }
        Ok(slot)
    }

    /// Starts a command's work, unless others have waited for longer.
    pub(super) fn start(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        if !self.waiting.is_empty() || !self.issue(slot, cx) {
            self.waiting.push_back(slot);
        }
        self.finish_if_complete(slot, cx)
    }

    /// Starts what waited for room. Called once at the end of a pass.
    pub fn pump(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        self.check_heart()?;
        for _ in 0..self.waiting.len() {
            let Some(slot) = self.waiting.pop_front() else { break };
            if !self.issue(slot, cx) {
                self.waiting.push_back(slot);
            }
            self.finish_if_complete(slot, cx)?;
        }
        self.tell_heart();
        Ok(())
    }

    /// Counts memory that a command holds.
    pub(super) fn charge(&mut self, slot: SlotId, bytes: usize) {
        let request = self.slots.get_mut(slot);
        request.charged += bytes;
        match request.in_capsule {
            true => self.capsule_bytes += bytes,
            false => self.asked_bytes += bytes,
        }
    }

    /// A command gives memory back.
    pub(super) fn release(&mut self, slot: SlotId, bytes: usize) {
        let request = self.slots.get_mut(slot);
        let bytes = bytes.min(request.charged);
        request.charged -= bytes;
        match request.in_capsule {
            true => self.capsule_bytes -= bytes,
            false => self.asked_bytes -= bytes,
        }
    }

    /// Data of a command has come: `offset` bytes into it.
    pub(super) fn arrived(&mut self, slot: SlotId, offset: u32, data: Slice, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.slots.get_mut(slot);
        let at = request.target.offset + u64::from(offset);
        let length = data.len() as u32;
        match request.work {
            Work::Write { .. } => {
                self.submit(slot, offset, Op::Write { offset: at, length }, data, cx);
            }
            Work::Compare { .. } => {
                // The host's data stays with the piece until the volume's has come.
                self.submit_compare(slot, offset, Op::Read { offset: at, length }, data, cx);
            }
            Work::Gather { .. } => {
                request.buffer = data;
                return self.gathered(slot, cx);
            }
            _ => {}
        }
        Ok(())
    }

    /// All data of a command that needs it as a whole has come.
    fn gathered(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.slots.get_mut(slot);
        let Work::Gather { what, .. } = request.work else {
            return Ok(());
        };
        request.gathered = true;
        if request.failure.is_some() {
            request.issued = true;
            return self.finish_if_complete(slot, cx);
        }
        match what {
            Gathering::Admin => self.execute_admin(slot, cx),
            Gathering::Compare => self.compare_gathered(slot, cx),
            Gathering::Write { first } => self.write_gathered(slot, first, cx),
            Gathering::Dataset => self.dataset(slot, cx),
            Gathering::Copy => self.copy(slot, cx),
            Gathering::Reserve => self.reserve(slot, cx),
            Gathering::Connect => self.connect(slot, cx),
            Gathering::Authentication => self.authentication_gathered(slot, cx),
        }
    }

    /// Ends a command that is complete.
    pub(super) fn finish_if_complete(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let Some(request) = self.slots.busy_mut(slot) else {
            return Ok(());
        };
        // What has failed starts nothing more; but data that was asked for must come before its command may end.
        request.issued |= request.failure.is_some();
        if !request.is_complete() {
            return Ok(());
        }
        let (work, partner) = (request.work, request.partner.take());
        if let Work::Pair { first } = work {
            self.finish_pair(slot, first, cx);
            return Ok(());
        }
        self.count_command(slot);
        let request = self.slots.get_mut(slot);
        let status = request.failure.unwrap_or(Status::SUCCESS);
        let result = request.result;
        match request.told {
            true => self.forget(slot),
            false => self.finish(slot, status, result, cx),
        }
        if let Some(partner) = partner {
            // One of a pair has failed before the two could be done.
            self.fail_partner(partner, cx)?;
        }
        Ok(())
    }

    /// Ends a command: answers it and frees its slot.
    pub(super) fn finish(&mut self, slot: SlotId, status: Status, result: u64, cx: &mut Cx<'_>) {
        let request = self.slots.get_mut(slot);
        if status == Status::SUCCESS {
            let id = request.id;
            self.respond(id, status, result, cx);
        } else {
            let (command, at) = (request.command, request.failed_at);
            self.respond_failed(&command, status, at, result, cx);
        }
        self.forget(slot);
    }

    /// Frees a command's slot.
    pub(super) fn forget(&mut self, slot: SlotId) {
        let all = self.slots.get_mut(slot).charged;
        self.release(slot, all);
        self.waiting.retain(|waiting| *waiting != slot);
        if self.fused == Some(slot) {
            self.fused = None;
        }
        let request = self.slots.get_mut(slot);
        let id = request.id;
        request.clear();
        self.ids.remove(id);
        self.slots.free(slot);
    }

    /// Answers a command that is done when it comes.
    pub(super) fn nothing_to_do(&mut self, command: &Command, cx: &mut Cx<'_>) {
        self.ids.remove(command.id());
        self.respond(command.id(), Status::SUCCESS, 0, cx);
    }

    /// Does the host get every completion, for the head of the queue that it tells?
    pub(super) fn has_flow_control(&self) -> bool {
        self.sq.has_flow_control()
    }

    /// Sends a completion (NVM Express Base 2.1, 4.2.1).
    pub(super) fn respond(&mut self, id: u16, status: Status, result: u64, cx: &mut Cx<'_>) {
        self.respond_with(id, status.to_field(), result, cx);
    }

    fn respond_with(&mut self, id: u16, status_field: u16, result: u64, cx: &mut Cx<'_>) {
        let mut completion = [0; COMPLETION_BYTES];
        completion[..8].copy_from_slice(&result.to_le_bytes());
        completion[8..10].copy_from_slice(&self.sq.report().to_le_bytes());
        completion[12..14].copy_from_slice(&id.to_le_bytes());
        completion[14..].copy_from_slice(&status_field.to_le_bytes());
        self.link.respond(&completion, cx.outbox, cx.pool);
    }

    /// Time has passed.
    pub fn tick(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        self.retry(cx);
        self.tick_role(cx)
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
