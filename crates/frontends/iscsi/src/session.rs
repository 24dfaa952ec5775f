//! A session in its full feature phase: PDUs in, tasks on the engine, answers and data out (RFC 7143, 4.2 to 4.6).
//!
//! It has one connection (MaxConnections=1), and recovers nothing within it (ErrorRecoveryLevel=0): what is damaged on its way ends
//! the task or the session, and the initiator does it again. So a session is an I_T nexus, and lives as long as its connection.
//!
//! The [request engine](amita_frontend::engine) holds the tasks and their limits. What is iSCSI's own:
//!
//! * How many *commands* may come is said by MaxCmdSN: never more than there is room for.
//! * Data of a write that comes *with its command* is taken as long as there is room; else the command is left lying in the inbox. It is
//!   written whatever else the initiator does, as far as it has whole blocks of the volume, so that the room comes back without any further
//!   input: nothing can wait for what lies behind such a command. While some command still waits for data that its initiator sends
//!   *unasked* that would not be so: then a command without room is answered TASK SET FULL. So it is where a volume stands still, and room
//!   does not come back: what lies behind the command may be for others, may end what takes the room, or show that the host is there.
//! * The rest is *asked for* (R2T) piece by piece, each a range that the volume takes at once, within a count of its own. Data comes
//!   in order (DataPDUInOrder, DataSequenceInOrder).
//! * What needs its data *as a whole* has a third count; a command for which there is no room is answered TASK SET FULL.
//! * *Reads* are submitted in order and leave in order, by reference to the volume's memory; the last PDU has the status.

mod answer;
mod command;
mod events;
mod functions;
mod held;
mod locks;
mod logout;
mod numbers;
mod order;
mod ping;
mod protocol;
pub(crate) mod report;
mod resets;
mod task;
mod text;
mod transfer;
mod work;

use crate::Cx;
use crate::catalog::{Catalog, Common, Initiator};
use crate::connection::End;
use crate::login::{Login, Names};
use crate::negotiation::{Agreed, Negotiation};
use crate::port::{MAX_IMMEDIATE, Port};
use crate::wire::{Header, Incoming, Link, NO_TAG, Taken, flag, opcode, reject};
use amita_frontend::engine::{Engine, Limits, Protocol as _};
use amita_frontend::front::CloseReason;
use amita_frontend::service::FrontId;
use amita_frontend::slots::SlotId;
use amita_reactor::{Inbox, Time};
use amita_scsi::{InitiatorPort, Nexus, Target};
use functions::Functions;
use held::Held;
use locks::Locks;
use logout::Leaving;
use numbers::{Numbers, Turn};
use order::Order;
use ping::Watch;
use resets::Resets;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use task::{Fault, Task};
use work::copy::{MAX_COPIES, MAX_PIECES};

/// How many pieces of one task are under way at once, for tasks that move no data over the network.
const WINDOW: u32 = 8;
/// How long a command is left lying until there is room for its data: less than a host may be [silent](ping).
const ROOM_PATIENCE: Duration = Duration::from_secs(1);
/// Answers that a host has not fetched beside the data of its reads, in bytes: with more it is not listened to.
const ANSWER_BYTES: usize = 64 << 10;
/// The same of one that is there to discover.
const GUESTS_ANSWER_BYTES: usize = 32 << 10;

/// What a session begins with.
pub(crate) struct Start {
    pub front: FrontId,
    pub cid: u16,
    /// The CmdSN of the first command.
    pub cmd_sn: u32,
    /// The StatSN of the next response.
    pub stat_sn: u32,
    pub isid: [u8; 6],
    /// The session's handle.
    pub tsih: u16,
    pub names: Names,
    /// None: to discover.
    pub target: Option<Arc<Target>>,
}

/// A session.
pub(crate) struct Session {
    port: Rc<Port>,
    catalog: Arc<Catalog>,
    common: Common,
    link: Link,
    agreed: Agreed,
    negotiation: Negotiation,
    names: Names,
    /// What the settings said of the initiator when it proved itself, if it had to.
    rests_on: Option<Arc<Initiator>>,
    target: Option<Arc<Target>>,
    nexus: Nexus,
    isid: [u8; 6],
    tsih: u16,
    /// When its login was over.
    since: Time,
    cid: u16,
    numbers: Numbers,
    engine: Engine<Session>,
    /// The tasks under way, by their tags.
    tags: Vec<(u32, SlotId)>,
    /// How many tasks and R2Ts there have been.
    task_serial: u64,
    transfer_serial: u32,
    /// Tasks that do not count against the window.
    immediate: usize,
    /// Tasks for which data is to come that was not asked for.
    awaiting_unasked: usize,
    /// Bytes of tasks that need their data as a whole.
    gathering: usize,
    /// Copies under way.
    copies: usize,
    functions: Functions,
    locks: Locks,
    resets: Resets,
    order: Order,
    text: text::Exchange,
    /// How often all targets were asked for.
    listings: u32,
    watch: Watch,
    held: Held,
    leaving: Leaving,
    /// Is input left lying because of the limits?
    blocked: bool,
    /// Since when there is no room for data that comes with a command; and until when one lies there for that.
    full_since: Option<Time>,
    lies_until: Option<Time>,
}

impl Session {
    /// A session whose login is over.
    pub fn new(port: Rc<Port>, start: Start, login: Login, cx: &mut Cx<'_>) -> Session {
        let config = port.config();
        let rests_on = login.rests_on().cloned();
        let negotiation = login.into_negotiation();
        let agreed = negotiation.agreed().clone();
        let link = Link {
            header_digest: agreed.header_digest,
            data_digest: agreed.data_digest,
            max_receive: negotiation.max_receive(),
            max_send: agreed.max_send as usize,
        };
        let commands = usize::from(config.commands);
        let limits = Limits {
            // A write has a second slot for the data that came with it, and pieces of copies have their own.
            requests: 2 * (commands + MAX_IMMEDIATE) + MAX_COPIES * MAX_PIECES,
            read_bytes: config.read_bytes,
            write_bytes: config.write_bytes,
            pieces: config.pieces,
            window: WINDOW,
        };
        let (catalog, common) = (port.catalog(), port.common());
        let initiator = InitiatorPort {
            name: start.names.initiator.as_str().into(),
            isid: start.isid,
        };
        let mut nexus = Nexus::new(initiator, catalog.tag().unwrap_or_default());
        nexus.functions = functions::offered(agreed.protocol_level);
        if rests_on.is_none() {
            nexus.barred = common.barring.names(&start.names.initiator);
        }
        let is_guest = start.target.is_none();
        if !is_guest {
            cx.service.identify(start.front, nexus.key());
        }
        Session {
            link,
            negotiation,
            names: start.names,
            rests_on,
            target: start.target,
            nexus,
            isid: start.isid,
            tsih: start.tsih,
            since: cx.now,
            cid: start.cid,
            numbers: Numbers::new(start.cmd_sn, start.stat_sn, config.commands),
            engine: Engine::new(start.front, cx.pool.clone(), limits),
            tags: Vec::new(),
            task_serial: 0,
            transfer_serial: 0,
            immediate: 0,
            awaiting_unasked: 0,
            gathering: 0,
            copies: 0,
            functions: Functions::default(),
            locks: Locks::default(),
            resets: match is_guest {
                true => Resets::default(),
                false => Resets::new(&common.resets),
            },
            order: Order::default(),
            text: text::Exchange::default(),
            listings: 0,
            watch: Watch::new(cx.now),
            held: Held::default(),
            leaving: Leaving::No,
            blocked: false,
            full_since: None,
            lies_until: None,
            agreed,
            catalog,
            common,
            port,
        }
    }

    pub fn wants_input(&self) -> bool {
        !self.blocked
    }

    /// Does data come soon that deserves a large receive block?
    pub fn is_busy(&self) -> bool {
        self.engine.usage().writing > 0 || self.tags.len() > 1
    }

    /// Is no task under way?
    pub fn is_idle(&self) -> bool {
        self.tags.is_empty()
    }

    /// Is nothing of it under way at volumes, or waits for that?
    pub fn is_settled(&self) -> bool {
        self.engine.is_empty()
    }

    /// Is its host there only to discover? Anybody may.
    pub fn is_guest(&self) -> bool {
        self.target.is_none()
    }

    /// Something has come.
    pub fn heard(&mut self, now: Time) {
        self.watch.heard(now, self.port.config());
    }

    /// May its host have gone before it sent what comes? Who is there only to discover changes nothing.
    fn is_doubted(&self) -> bool {
        self.watch.is_doubted() && !self.is_guest()
    }

    /// Handles what is in the inbox, as far as the limits allow.
    pub fn parse(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Result<(), End> {
        self.blocked = false;
        self.lies_until = None;
        let fetched = match self.is_guest() {
            true => GUESTS_ANSWER_BYTES,
            false => self.engine.limits().read_bytes + ANSWER_BYTES,
        };
        loop {
            if self.leaving.is_deaf() {
                let all = inbox.len();
                inbox.skip(all);
                self.held.clear();
                return Ok(());
            }
            // A host that does not fetch its answers is not listened to.
            if cx.queued_bytes() > fetched {
                self.blocked = true;
                return Ok(());
            }
            if self.is_doubted() {
                ping::make_sure(self, cx);
            } else if let Some(waiting) = self.held.next() {
                // It came before what is in the inbox.
                if let Some(bytes) = waiting.command_bytes()
                    && self.has_to_wait(bytes, cx.now)
                {
                    self.blocked = true;
                    return Ok(());
                }
                held::release(self, cx)?;
                continue;
            }
            match self.link.frame(inbox) {
                Ok(Incoming::Nothing) => return Ok(()),
                Ok(Incoming::Whole(frame)) => {
                    let is_command = frame.header.opcode() == opcode::SCSI_COMMAND;
                    if is_command && ping::finds_ignored(self, &frame.header) {
                        // What is held came before it, and waits no more.
                        continue;
                    }
                    if is_command && !self.is_doubted() && self.has_to_wait(frame.data_bytes, cx.now) {
                        self.blocked = true;
                        return Ok(());
                    }
                    let taken = Link::take(&frame, inbox);
                    self.take(taken, cx)?;
                }
                Ok(Incoming::TooLong(header)) => {
                    return Err(self.broken(&header, "more data in a PDU than was agreed", cx));
                }
                Err(fatal) => return Err(End::Now(CloseReason::Protocol(fatal.0))),
            }
        }
    }

    /// Is there no room for the data of a command, which comes back by itself, and soon?
    fn has_to_wait(&mut self, bytes: usize, now: Time) -> bool {
        if bytes == 0 || self.awaiting_unasked > 0 {
            return false;
        }
        if self.engine.may_take_unasked(bytes) {
            self.full_since = None;
            return false;
        }
        let until = self.full_since.get_or_insert(now).plus(ROOM_PATIENCE);
        self.lies_until = Some(until).filter(|until| now < *until);
        self.lies_until.is_some()
    }

    fn take(&mut self, taken: Taken, cx: &mut Cx<'_>) -> Result<(), End> {
        let header = taken.header;
        let kind = header.opcode();
        match kind {
            opcode::DATA_OUT if self.is_doubted() => return held::keep_data(self, taken),
            opcode::DATA_OUT => return transfer::incoming(self, &header, taken.data, cx),
            // Nothing is sent again at ErrorRecoveryLevel 0 (11.16, 11.17.1).
            opcode::SNACK => {
                self.reject(&header, reject::SNACK, cx);
                return Ok(());
            }
            opcode::NOP_OUT | opcode::SCSI_COMMAND | opcode::TASK_MANAGEMENT | opcode::TEXT | opcode::LOGOUT => {}
            opcode::LOGIN => return Err(self.broken(&header, "a login request behind the login", cx)),
            _ => {
                self.reject(&header, reject::NOT_SUPPORTED, cx);
                return Ok(());
            }
        }
        if taken.data.is_none() {
            // It is discarded, and the initiator is told (7.8). A command that was discarded leaves a gap in the numbers, which only a
            // recovery that is not offered here could fill.
            self.reject(&header, reject::DATA_DIGEST, cx);
            return match header.is_immediate() {
                true => Ok(()),
                false => Err(End::After(CloseReason::Protocol(
                    "the data digest of a command is wrong",
                ))),
            };
        }
        if header.is_immediate() {
            return self.dispatch(taken, cx);
        }
        match self.numbers.arrive(taken) {
            Turn::Now(taken) => {
                self.dispatch(taken, cx)?;
                self.go_on(cx)
            }
            Turn::No => Ok(()),
            Turn::TooMuch => Err(self.broken(&header, "commands out of their order", cx)),
        }
    }

    /// Takes what has waited for its turn.
    fn go_on(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        while !self.leaving.is_deaf()
            && let Some(taken) = self.numbers.next_held()
        {
            self.dispatch(taken, cx)?;
        }
        Ok(())
    }

    /// Takes a PDU to where it belongs. Its data is right.
    fn dispatch(&mut self, taken: Taken, cx: &mut Cx<'_>) -> Result<(), End> {
        let may_harm = matches!(taken.header.opcode(), opcode::SCSI_COMMAND | opcode::TASK_MANAGEMENT);
        if may_harm && self.is_doubted() {
            held::keep(self, taken, cx);
            return Ok(());
        }
        let Taken { header, ahs, data } = taken;
        let data = data.unwrap_or_default();
        match header.opcode() {
            opcode::NOP_OUT => ping::answer(self, &header, data, cx),
            opcode::TEXT => text::request(self, &header, &data, cx),
            opcode::LOGOUT => return logout::request(self, &header, cx),
            // A discovery session has no other requests (4.3).
            _ if self.is_guest() => self.reject(&header, reject::NOT_SUPPORTED, cx),
            opcode::SCSI_COMMAND => return command::take(self, &header, &ahs, data, cx),
            _ => return functions::request(self, &header, cx),
        }
        Ok(())
    }

    /// Starts what waited for room, and answers what waited for tasks to end. Called once at the end of a pass.
    pub fn end_pass(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        self.pump(cx)?;
        order::release(self, cx)?;
        functions::finish(self, cx)?;
        logout::finish(self, cx)
    }

    /// When [`Session::tick`] wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        let config = self.port.config();
        [
            self.engine.retry_at(),
            self.leaving.deadline(),
            self.functions.deadline(),
            self.lies_until,
            self.watch.deadline(config),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Time has passed.
    pub fn tick(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        self.retry(cx);
        logout::tick(self, cx)?;
        ping::tick(self, cx)
    }

    /// Sends a PDU that has a status, or counts as one.
    fn send(&mut self, header: Header, data: &[u8], cx: &mut Cx<'_>) {
        let header = self.numbers.stamp(header);
        self.link.send_bytes(header, data, cx.outbox, cx.pool);
    }

    /// Refuses a PDU (11.17): the initiator sees its header.
    fn reject(&mut self, header: &Header, reason: u8, cx: &mut Cx<'_>) {
        let answer = Header::new(opcode::REJECT, flag::FINAL)
            .with_byte(2, reason)
            .with_task_tag(NO_TAG);
        self.send(answer, &header.0, cx);
    }

    /// The initiator has broken the protocol: it is told by which PDU, and the session ends (7.7, 7.13).
    fn broken(&mut self, header: &Header, what: &'static str, cx: &mut Cx<'_>) -> End {
        self.reject(header, reject::PROTOCOL, cx);
        End::After(CloseReason::Protocol(what))
    }

    /// The task of that tag.
    fn task_of(&self, tag: u32) -> Option<SlotId> {
        let found = self.tags.iter().find(|(known, _)| *known == tag);
        found.map(|(_, slot)| *slot)
    }

    /// Ends such tasks: nothing more of them is begun, and what is under way lands first. Those that are aborted are not answered.
    /// Returns the serials of those that have not ended yet.
    fn end_tasks(&mut self, is_meant: impl Fn(&Task) -> bool, fault: Fault, cx: &mut Cx<'_>) -> Result<Vec<u64>, End> {
        let slots = self.engine.withdraw(|request| is_meant(&request.own), fault);
        let mut tasks = Vec::with_capacity(slots.len());
        for &slot in &slots {
            let own = &self.engine.request(slot).own;
            if own.parent.is_none() {
                tasks.push((slot, own.serial));
            }
        }
        for slot in slots {
            transfer::give_up(self, slot, cx)?;
        }
        // Those with nothing under way are over.
        tasks.retain(|(slot, serial)| {
            self.engine
                .busy(*slot)
                .is_some_and(|request| request.own.serial == *serial)
        });
        Ok(tasks.into_iter().map(|(_, serial)| serial).collect())
    }
}
