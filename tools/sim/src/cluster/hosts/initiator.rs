//! What an initiator does that has several paths, as Linux does it with open-iscsi and dm-multipath: pure, bytes and moments in, bytes
//! and wishes out.
//!
//! * Discovery asks one gateway (SendTargets) for all portals; each is a path with a session of its own, and an ISID of its own.
//! * A session whose connection breaks, or that leaves a NOP unanswered, is logged in again under the same ISID. What was with it
//!   waits for that, and goes to another path when it takes too long (`replacement_timeout`).
//! * Path checkers ask TEST UNIT READY and REPORT TARGET PORT GROUPS now and then. Paths are grouped by the state of their
//!   access, the best group is used, and gone back to at once; without any path I/O waits (`group_by_prio`, `queue_if_no_path`).
//! * A command that meets a unit attention, BUSY or TASK SET FULL has done nothing, and is sent again; so is one that was aborted
//!   because it took too long, or whose session was reinstated: the target has promised that it comes to nothing any more.

mod registrations;
pub mod wire;

use super::linux::{End, HostEffect};
use crate::history::OperationId;
use amita_reactor::Time;
use registrations::Registrations;
pub use registrations::key;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use wire::{Command, Heard, Identity, Verdict, Wire, access_of};

/// A login that has not ended after this is given up, and a function that is not answered ends its session.
const SETUP: Duration = Duration::from_secs(3);
/// Before what has met an error that may pass is tried again.
const PAUSE: Duration = Duration::from_millis(20);
/// So often at most, with longer pauses, until the path is given up until its next check.
const TRIES: u32 = 5;
/// A session that was heard so shortly ago is there, whoever doubts it.
const FRESH: Duration = Duration::from_millis(500);
/// Bytes of REPORT TARGET PORT GROUPS: a few groups of one port each.
const GROUPS_BYTES: usize = 256;

/// Task management functions (RFC 7143, 11.5.1).
const ABORT: u8 = 1;
const RESET: u8 = 5;

/// By which of them a command is brought to an end that takes too long.
fn function_of(slot: u64) -> u8 {
    if slot.is_multiple_of(5) { RESET } else { ABORT }
}

/// Of which commands were carried out, for the coverage.
fn path_of(cdb: &[u8; 16], verdict: Verdict) -> Option<&'static str> {
    const UNMAP: u8 = 0x08;
    match (cdb[0], verdict.status) {
        (0x88, 0) => Some("iscsi.read"),
        (0x8a, 0) => Some("iscsi.wrote"),
        (0x93, 0) if cdb[1] & UNMAP == 0 => Some("iscsi.wrote_same"),
        (0x42 | 0x93, 0) => Some("iscsi.unmapped"),
        (0x83, 0) => Some("iscsi.copied"),
        (0x89, 0) => Some("iscsi.compared"),
        (0x89, 2) if verdict.sense[0] == 0xe => Some("iscsi.miscompared"),
        _ => None,
    }
}

/// The target of a run.
pub const IQN: &str = "iqn.2014-08.org.example:simulated";
/// The secrets that initiators and targets prove to have.
pub const SECRETS: (&str, &str) = ("what hosts know, and nobody else", "what targets know, all of them");

/// An initiator's name.
#[must_use]
pub fn name(number: u32) -> String {
    format!("iqn.2014-08.org.example:host-{number}")
}

/// How an initiator is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host's number.
    pub number: u32,
    pub lun: u16,
    /// Where it may ask for portals.
    pub gateways: Vec<SocketAddr>,
    /// The pause between NOPs, and how long one may stay unanswered.
    pub nop: Duration,
    /// A command that waits for longer is aborted.
    pub io_timeout: Duration,
    /// The pause before a session is logged in again.
    pub reconnect: Duration,
    /// How long commands wait for that.
    pub replacement: Duration,
    /// Between two checks of a path.
    pub polling: Duration,
    /// Paths of one group in turn, instead of one until it fails.
    pub round_robin: bool,
    pub digests: bool,
    pub initial_r2t: bool,
    pub proves: bool,
    /// Between two reinstatements for no reason, with the old connection open; none: never.
    pub reinstates: Option<Duration>,
    /// The type of the reservation that it keeps with the others; none: there is none.
    pub reserves: Option<u8>,
    /// All paths are one group, as hosts have it that know nothing of ALUA.
    pub multibus: bool,
    /// It tells what it does.
    pub tells: bool,
}

/// A request of the application.
#[derive(Clone, Debug)]
pub struct Bio {
    pub id: OperationId,
    pub command: Command,
    /// It may be sent again when nobody knows what became of it.
    pub repeatable: bool,
    /// How often it has met an error that may pass.
    tries: u32,
}

impl Bio {
    /// One that is to be sent.
    pub fn new(id: OperationId, command: Command, repeatable: bool) -> Bio {
        Bio {
            id,
            command,
            repeatable,
            tries: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Groups,
    Ready,
    Io(u64),
    Reserve,
}

#[derive(Debug)]
struct Conn {
    /// None: it asks for portals.
    path: Option<usize>,
    wire: Wire<What>,
    heard_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be logged in then.
    Away(Time),
    /// Being logged in, until then at the latest.
    Login(Time),
    Live,
}

/// A session in whose place another one logs in.
#[derive(Clone, Copy, Debug)]
struct Old {
    conn: u64,
    since: Time,
    /// Its connection has broken, which the target may have noticed before the login: then it has waited for nothing.
    is_broken: bool,
}

#[derive(Debug)]
struct Path {
    address: SocketAddr,
    /// The portal group's tag, and the target port group's.
    tag: u16,
    state: State,
    conn: u64,
    /// The session that is being reinstated.
    old: Option<Old>,
    /// Since when its session is lost, while commands wait for it.
    lost_at: Option<Time>,
    held: Vec<Bio>,
    /// dm-multipath uses it.
    usable: bool,
    access: u8,
    nop_at: Time,
    nop_by: Option<Time>,
    check_at: Time,
    reinstate_at: Option<Time>,
}

#[derive(Debug)]
struct Sent {
    bio: Bio,
    path: usize,
    at: Time,
    /// It is being aborted, until then.
    abort_by: Option<Time>,
}

/// One host.
#[derive(Debug)]
pub struct Initiator {
    settings: Settings,
    paths: Vec<Path>,
    conns: BTreeMap<u64, Conn>,
    next: u64,
    /// The discovery: its connection, and when it is given up or tried again.
    discovery: Option<(u64, Time)>,
    asked: usize,
    sent: BTreeMap<u64, Sent>,
    waiting: VecDeque<Bio>,
    later: Vec<(Time, Bio)>,
    usual: usize,
    registrations: Registrations,
    /// In order.
    pub acts: VecDeque<HostEffect>,
    /// What a target may not do.
    pub violation: Option<String>,
    /// Paths that were taken, for the coverage.
    pub taken: Vec<&'static str>,
    /// What it has done, for a person.
    pub told: Vec<String>,
}

impl Initiator {
    /// A host that begins to ask for portals at once.
    pub fn new(settings: Settings) -> Initiator {
        Initiator {
            paths: Vec::new(),
            conns: BTreeMap::new(),
            next: 0,
            discovery: Some((0, Time::default())),
            asked: settings.number as usize,
            sent: BTreeMap::new(),
            waiting: VecDeque::new(),
            later: Vec::new(),
            usual: usize::MAX,
            registrations: Registrations::new(settings.number, settings.reserves),
            acts: VecDeque::new(),
            violation: None,
            taken: Vec::new(),
            told: Vec::new(),
            settings,
        }
    }

    /// The same host after its machine has started again.
    pub fn anew(&self) -> Initiator {
        Initiator {
            // Connections are never mistaken for those before.
            next: self.next,
            ..Initiator::new(self.settings.clone())
        }
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.settings.tells {
            self.told.push(what());
        }
    }

    /// Requests that have not ended.
    pub fn pending(&self) -> Vec<OperationId> {
        let sent = self.sent.values().map(|sent| sent.bio.id);
        let held = self.paths.iter().flat_map(|path| path.held.iter().map(|bio| bio.id));
        let later = self.later.iter().map(|(_, bio)| bio.id);
        let waiting = self.waiting.iter().map(|bio| bio.id);
        sent.chain(held).chain(later).chain(waiting).collect()
    }

    /// When [`Initiator::tick`] is wanted.
    pub fn deadline(&self) -> Option<Time> {
        let paths = self.paths.iter().flat_map(|path| {
            let lost = path.lost_at.filter(|_| path.usable || !path.held.is_empty());
            let lost = lost.map(|at| at.plus(self.settings.replacement));
            let live = path.state == State::Live;
            let state = match path.state {
                State::Away(until) | State::Login(until) => until,
                State::Live => path.nop_by.unwrap_or(path.nop_at),
            };
            let check = live.then_some(path.check_at);
            let reinstate = path.reinstate_at.filter(|_| live);
            [Some(state), lost, check, reinstate]
        });
        let late = self.sent.values().map(|sent| Some(self.late_at(sent)));
        let later = self.later.iter().map(|(at, _)| Some(*at));
        let discovery = self.discovery.map(|(_, at)| at);
        let registrations = self.registrations.deadline();
        paths
            .chain(late)
            .chain(later)
            .flatten()
            .chain(discovery)
            .chain(registrations)
            .min()
    }

    fn late_at(&self, sent: &Sent) -> Time {
        sent.abort_by.unwrap_or_else(|| sent.at.plus(self.settings.io_timeout))
    }

    /// What a connection has to send.
    pub fn outbox(&mut self, conn: u64) -> Vec<u8> {
        let conn = self.conns.get_mut(&conn);
        conn.map(|conn| std::mem::take(&mut conn.wire.outbox))
            .unwrap_or_default()
    }

    /// The application asks.
    pub fn submit(&mut self, now: Time, bio: Bio) {
        self.waiting.push_back(bio);
        self.send_waiting(now);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        if let Some((conn, at)) = self.discovery
            && now >= at
        {
            self.hang_up(conn);
            let address = self.settings.gateways[self.asked % self.settings.gateways.len()];
            self.asked += 1;
            let conn = self.connect(now, None, address);
            self.discovery = Some((conn, now.plus(SETUP)));
        }
        for index in 0..self.paths.len() {
            self.tick_path(now, index);
        }
        let late = self.sent.iter().filter(|(_, sent)| now >= self.late_at(sent));
        let late: Vec<(u64, usize, bool)> = late
            .map(|(slot, sent)| (*slot, sent.path, sent.abort_by.is_some()))
            .collect();
        for (slot, path, is_aborting) in late {
            match is_aborting {
                true => self.lose(now, path),
                false => self.abort(now, slot),
            }
        }
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.later)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.later = later;
        self.waiting.extend(due.into_iter().map(|(_, bio)| bio));
        if let Some(path) = self.registrations.late(now) {
            // A reset of another host has ended it, and nobody says so.
            self.lose(now, path);
        }
        self.send_waiting(now);
        self.keep_registered(now);
    }

    fn tick_path(&mut self, now: Time, index: usize) {
        let (polling, nop) = (self.settings.polling, self.settings.nop);
        let path = &mut self.paths[index];
        match path.state {
            State::Away(until) if now >= until => self.login(now, index),
            State::Login(until) if now >= until => self.lose(now, index),
            State::Live if path.nop_by.is_some_and(|by| now >= by) => {
                self.taken.push("iscsi.nop_unanswered");
                self.lose(now, index);
            }
            State::Live => {
                let conn = path.conn;
                if path.nop_by.is_none() && now >= path.nop_at {
                    path.nop_by = Some(now.plus(nop));
                    if let Some(conn) = self.conns.get_mut(&conn) {
                        conn.wire.ping();
                    }
                }
                let path = &mut self.paths[index];
                if now >= path.check_at {
                    path.check_at = now.plus(polling);
                    self.check(index);
                }
                self.reinstate(now, index);
            }
            _ => {}
        }
        let path = &mut self.paths[index];
        if path.lost_at.is_some_and(|at| now >= at.plus(self.settings.replacement))
            && (path.usable || !path.held.is_empty())
        {
            path.usable = false;
            self.taken.push("iscsi.replaced");
            let held = std::mem::take(&mut path.held);
            self.waiting.extend(held);
            self.send_waiting(now);
        }
    }

    /// The host logs in anew, though nothing is wrong with the session: it is told to end, and the new one takes its place.
    fn reinstate(&mut self, now: Time, index: usize) {
        let path = &mut self.paths[index];
        let (Some(at), Some(pause)) = (path.reinstate_at, self.settings.reinstates) else {
            return;
        };
        let heard_at = self.conns.get(&path.conn).map(|conn| conn.heard_at);
        if now < at {
            return;
        }
        path.reinstate_at = Some(now.plus(pause));
        if path.old.is_some() || heard_at.is_none_or(|at| now >= at.plus(FRESH)) {
            return;
        }
        path.old = Some(Old {
            conn: path.conn,
            since: now,
            is_broken: false,
        });
        self.taken.push("iscsi.reinstates");
        self.login(now, index);
    }

    fn login(&mut self, now: Time, index: usize) {
        let path = &mut self.paths[index];
        path.state = State::Login(now.plus(SETUP));
        path.nop_by = None;
        let address = path.address;
        let conn = self.connect(now, Some(index), address);
        self.paths[index].conn = conn;
    }

    fn connect(&mut self, now: Time, path: Option<usize>, address: SocketAddr) -> u64 {
        self.next += 1;
        let conn = self.next;
        let settings = &self.settings;
        let (own, targets) = SECRETS;
        let wire = Wire::new(Identity {
            initiator: name(settings.number),
            target: path.map(|_| IQN.to_owned()),
            secrets: settings.proves.then(|| (own.to_owned(), targets.to_owned())),
            isid: path.map_or(0, |path| path as u8 + 1),
            digests: settings.digests,
            initial_r2t: settings.initial_r2t,
            first_burst: [4096, 8192, 65536][settings.number as usize % 3],
        });
        let heard_at = now;
        self.conns.insert(conn, Conn { path, wire, heard_at });
        self.acts.push_back(HostEffect::Dial { conn, address });
        conn
    }

    fn hang_up(&mut self, conn: u64) {
        if self.conns.remove(&conn).is_some() {
            self.acts.push_back(HostEffect::Close { conn });
        }
    }

    /// A connection has ended, or broken (`is_broken`), or could not be made.
    pub fn closed(&mut self, now: Time, conn: u64, is_broken: bool) {
        let Some(known) = self.conns.get(&conn) else { return };
        let Some(index) = known.path else {
            self.hang_up(conn);
            self.discovery = self.discovery.map(|_| (0, now.plus(self.settings.reconnect)));
            return;
        };
        match &mut self.paths[index].old {
            // The target has ended the old session: the new one is let in now.
            Some(old) if old.conn == conn => {
                old.is_broken |= is_broken;
                self.hang_up(conn);
            }
            _ => self.lose(now, index),
        }
    }

    /// A session is lost. What was with it waits for it to be there again.
    fn lose(&mut self, now: Time, index: usize) {
        let again = now.plus(self.settings.reconnect);
        let path = &mut self.paths[index];
        path.state = State::Away(again);
        path.nop_by = None;
        path.lost_at.get_or_insert(now);
        let (conn, old) = (path.conn, path.old.take());
        self.tell(|| format!("path {index} is lost, of {old:?}"));
        // Nobody but this host is the cause, where it has logged in for no reason.
        let end = if old.is_some() { End::Over } else { End::Unknown };
        self.hang_up(conn);
        if let Some(old) = old {
            self.hang_up(old.conn);
        }
        for mut bio in self.take_sent(index) {
            let id = bio.id;
            if bio.repeatable {
                bio.tries = 0;
                self.acts.push_back(HostEffect::Again { id, lost: true });
                self.paths[index].held.push(bio);
            } else {
                self.end(id, index, end, Vec::new());
            }
        }
        self.registrations.lost(now, index);
    }

    fn take_sent(&mut self, index: usize) -> Vec<Bio> {
        let of_path = self.sent.iter().filter(|(_, sent)| sent.path == index);
        let slots: Vec<u64> = of_path.map(|(slot, _)| *slot).collect();
        let taken = slots.iter().filter_map(|slot| self.sent.remove(slot));
        taken.map(|sent| sent.bio).collect()
    }

    fn end(&mut self, id: OperationId, path: usize, end: End, data: Vec<u8>) {
        let path = usize::from(self.paths[path].tag) - 1;
        self.acts.push_back(HostEffect::Ended { id, path, end, data });
    }

    /// The target has said of these commands, which it has not answered, that they are over: they never take effect any more.
    fn over(&mut self, index: usize, bios: Vec<Bio>) {
        for bio in bios {
            let id = bio.id;
            self.tell(|| format!("operation {} is over by path {index}", id.0));
            self.acts.push_back(HostEffect::Over { id });
            if bio.repeatable {
                self.acts.push_back(HostEffect::Anew { id });
            } else {
                self.end(id, index, End::Over, Vec::new());
            }
        }
    }

    /// A command takes too long: it is aborted, or its logical unit is reset.
    fn abort(&mut self, now: Time, slot: u64) {
        let Some(sent) = self.sent.get_mut(&slot) else { return };
        let (index, lun) = (sent.path, self.settings.lun);
        sent.abort_by = Some(now.plus(SETUP));
        let function = function_of(slot);
        let conn = self.paths[index].conn;
        let conn = self.conns.get_mut(&conn);
        let asked = conn.is_some_and(|conn| conn.wire.manage(function, |what| *what == What::Io(slot), lun));
        self.tell(|| format!("function {function} of path {index} for {slot}, sent: {asked}"));
        if !asked {
            // It waits in this host for its place in the target's window.
            self.lose(now, index);
        }
    }

    /// Asks how it stands with a path.
    fn check(&mut self, index: usize) {
        let lun = self.settings.lun;
        let mut groups = [0; 16];
        (groups[0], groups[1], groups[8]) = (0xa3, 0x0a, 1);
        let command = |cdb, read| Command {
            lun,
            cdb,
            write: Vec::new(),
            read,
        };
        let conn = self.paths[index].conn;
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.wire.submit(What::Groups, command(groups, GROUPS_BYTES));
            conn.wire.submit(What::Ready, command([0; 16], 0));
        }
    }

    /// Bytes have come.
    pub fn received(&mut self, now: Time, conn: u64, bytes: &[u8]) {
        let mut heard = Vec::new();
        let Some(known) = self.conns.get_mut(&conn) else { return };
        known.heard_at = now;
        let taken = known.wire.receive(bytes, &mut heard);
        for heard in heard {
            self.heard(now, conn, heard);
        }
        if let Err(why) = taken {
            let why = format!("a target broke the protocol: {why}");
            self.violation.get_or_insert(why);
        }
    }

    fn heard(&mut self, now: Time, conn: u64, heard: Heard<What>) {
        let Some(known) = self.conns.get_mut(&conn) else { return };
        let Some(index) = known.path else {
            match heard {
                Heard::In => known.wire.discover(),
                Heard::Portals(portals) => self.found(conn, &portals),
                _ => self.closed(now, conn, false),
            }
            return;
        };
        match heard {
            Heard::In => self.entered(now, index, conn),
            // It is known that it exists, but not to a gateway that has just started.
            Heard::Refused(class, detail) => {
                // It has proven itself, and may use the target (11.13.5).
                if class == 2 && (1..=2).contains(&detail) {
                    let why = format!("an initiator is refused: {class:02x}{detail:02x}h");
                    self.violation.get_or_insert(why);
                }
                self.lose(now, index);
            }
            Heard::Portals(_) => {}
            Heard::Pong => {
                let path = &mut self.paths[index];
                (path.nop_by, path.nop_at) = (None, now.plus(self.settings.nop));
            }
            Heard::Leave if self.paths[index].conn == conn => self.lose(now, index),
            Heard::Leave => {}
            Heard::Function { about, response, over } => self.managed(now, index, about, response, &over),
            Heard::Done { what, verdict, data } => self.done(now, index, conn, what, verdict, data),
        }
    }

    fn found(&mut self, conn: u64, portals: &[(String, u16)]) {
        if portals.is_empty() {
            // The gateway knows of no target yet.
            return;
        }
        self.hang_up(conn);
        self.discovery = None;
        self.taken.push("iscsi.discovered");
        let reinstates = self.settings.reinstates;
        let number = u64::from(self.settings.number);
        for (place, (address, tag)) in portals.iter().enumerate() {
            let Ok(address) = address.parse() else {
                self.violation.get_or_insert(format!("a portal at {address}"));
                continue;
            };
            let spread = Time((number * 7 + place as u64 * 13) * 10_000_000);
            self.paths.push(Path {
                address,
                tag: *tag,
                state: State::Away(Time::default()),
                conn: 0,
                old: None,
                lost_at: None,
                held: Vec::new(),
                usable: false,
                access: 0,
                nop_at: Time::default(),
                nop_by: None,
                check_at: Time::default(),
                reinstate_at: reinstates.map(|pause| spread.plus(pause)),
            });
        }
    }

    /// A login is over: the session is there, and the one before it is not any more.
    fn entered(&mut self, now: Time, index: usize, conn: u64) {
        let nop = self.settings.nop;
        if self.settings.proves {
            self.taken.push("iscsi.proven");
        }
        self.tell(|| format!("path {index} is there, by connection {conn}"));
        let path = &mut self.paths[index];
        path.state = State::Live;
        (path.nop_by, path.nop_at, path.check_at) = (None, now.plus(nop), now);
        path.lost_at = None;
        debug_assert_eq!(path.conn, conn, "of the newest connection");
        let held = std::mem::take(&mut path.held);
        if let Some(old) = path.old.take() {
            let of_old = self.take_sent(index);
            // Who has not said for so long that it is over may have found the old session gone for another reason.
            if !old.is_broken && now < old.since.plus(FRESH * 2) {
                self.taken.push("iscsi.reinstated");
                self.over(index, of_old);
            } else {
                for bio in of_old {
                    let id = bio.id;
                    match bio.repeatable {
                        true => {
                            self.acts.push_back(HostEffect::Again { id, lost: true });
                            self.waiting.push_front(bio);
                        }
                        false => self.end(id, index, End::Over, Vec::new()),
                    }
                }
            }
            self.hang_up(old.conn);
        }
        self.registrations.lost(now, index);
        for bio in held {
            self.send(now, index, bio);
        }
        self.tick_path(now, index);
        self.keep_registered(now);
    }

    /// A function has ended. What it has ended is not answered any more; a reset ends what the host itself wants to know, too.
    fn managed(&mut self, now: Time, index: usize, about: What, response: u8, over: &[What]) {
        let What::Io(slot) = about else { return };
        if response > 1 {
            return self.lose(now, index);
        }
        self.taken.push(match (function_of(slot), response) {
            (RESET, _) => "iscsi.unit_reset",
            (_, 1) if over.contains(&about) => "iscsi.reset_by_another",
            _ => "iscsi.aborted",
        });
        if over.contains(&What::Reserve) {
            self.registrations.lost(now, index);
        }
        let slots = over.iter().filter_map(|what| match what {
            What::Io(slot) => Some(*slot),
            _ => None,
        });
        let sent: Vec<Sent> = slots.filter_map(|slot| self.sent.remove(&slot)).collect();
        self.over(index, sent.into_iter().map(|sent| sent.bio).collect());
    }

    fn done(&mut self, now: Time, index: usize, conn: u64, what: What, verdict: Verdict, data: Vec<u8>) {
        let is_attention = verdict.status == 2 && verdict.sense[0] == 6;
        if is_attention {
            self.taken.push("iscsi.attention");
        }
        match what {
            What::Groups if verdict.status == 0 => {
                let tag = self.paths[index].tag;
                if let Some(access) = access_of(&data, tag) {
                    self.paths[index].access = access;
                }
                self.send_waiting(now);
            }
            What::Groups | What::Ready if is_attention => {
                if self.paths[index].conn == conn {
                    self.check(index);
                }
            }
            What::Groups => {}
            What::Ready => {
                let path = &mut self.paths[index];
                path.usable = verdict.status == 0 && path.state == State::Live;
                self.send_waiting(now);
                self.keep_registered(now);
            }
            What::Reserve => self.reserved(now, index, verdict),
            What::Io(slot) => self.answered(now, slot, verdict, data),
        }
    }

    fn answered(&mut self, now: Time, slot: u64, verdict: Verdict, data: Vec<u8>) {
        let Some(Sent { mut bio, path, .. }) = self.sent.remove(&slot) else {
            return;
        };
        let id = bio.id;
        self.tell(|| format!("operation {} as {slot} by path {path}: {verdict:?}", id.0));
        match (verdict.status, verdict.sense) {
            // It has not been begun.
            (2, [6, ..]) => return self.send(now, path, bio),
            // Nor has this, and by this path it will not be (standby, unavailable).
            (2, [2, 0x04, 0x0b | 0x0c]) => {
                self.taken.push("iscsi.no_access");
                self.paths[path].usable = false;
                return self.later.push((now.plus(PAUSE), bio));
            }
            (0x08 | 0x28, _) => {
                self.taken.push("iscsi.busy");
                if bio.repeatable {
                    self.acts.push_back(HostEffect::Again { id, lost: false });
                }
                bio.tries += 1;
                if bio.tries > TRIES {
                    bio.tries = 0;
                    self.paths[path].usable = false;
                }
                return self.later.push((now.plus(PAUSE), bio));
            }
            // TASK ABORTED: a reset that another initiator has asked for has ended it.
            (0x40, _) => {
                self.taken.push("iscsi.reset_by_another");
                return self.over(path, vec![bio]);
            }
            // The access by this path is changing, or it is none; or the command was aborted by somebody.
            (2, [2, 0x04, _] | [0xb, ..]) if bio.repeatable => {
                self.taken.push("iscsi.not_ready");
                self.acts.push_back(HostEffect::Again { id, lost: false });
                bio.tries += 1;
                let passes = verdict.sense[0] == 0xb || verdict.sense[2] == 0x0a;
                self.paths[path].usable &= passes && bio.tries <= TRIES;
                return self.later.push((now.plus(PAUSE), bio));
            }
            (2, [2, 0x04, _] | [0xb, ..]) => return self.end(id, path, End::Unknown, data),
            _ => {}
        }
        self.taken.extend(path_of(&bio.command.cdb, verdict));
        self.end(id, path, End::Scsi(verdict), data);
    }

    /// A path for a request: of the best group of those that are used.
    fn choose(&mut self) -> Option<usize> {
        let multibus = self.settings.multibus;
        let rank = |access: u8| match access {
            0 if !multibus => 2,
            0 | 1 => 1,
            _ => 0,
        };
        let used = self.paths.iter().enumerate();
        let used = used.filter(|(index, path)| path.usable && self.is_admitted(*index));
        let best = used.clone().map(|(_, path)| rank(path.access)).max()?;
        let group: Vec<usize> = used
            .filter(|(_, path)| rank(path.access) == best)
            .map(|(index, _)| index)
            .collect();
        if !self.settings.round_robin && group.contains(&self.usual) {
            return Some(self.usual);
        }
        let next = group
            .iter()
            .find(|index| self.usual == usize::MAX || **index > self.usual);
        self.usual = *next.unwrap_or(&group[0]);
        Some(self.usual)
    }

    fn send_waiting(&mut self, now: Time) {
        while !self.waiting.is_empty() {
            let Some(index) = self.choose() else { return };
            let Some(bio) = self.waiting.pop_front() else { return };
            self.send(now, index, bio);
        }
    }

    fn send(&mut self, now: Time, index: usize, bio: Bio) {
        let path = &mut self.paths[index];
        if path.state != State::Live {
            path.held.push(bio);
            return;
        }
        let Some(conn) = self.conns.get_mut(&path.conn) else {
            return;
        };
        self.next += 1;
        let slot = self.next;
        conn.wire.submit(What::Io(slot), bio.command.clone());
        let (id, operation) = (bio.id.0, bio.command.cdb[0]);
        self.tell(|| format!("operation {id} ({operation:02x}h) goes by path {index} as {slot}"));
        let sent = Sent {
            bio,
            path: index,
            at: now,
            abort_by: None,
        };
        self.sent.insert(slot, sent);
    }

    /// What is under way, for a person.
    pub fn describe(&self) -> String {
        let paths: Vec<String> = self
            .paths
            .iter()
            .map(|path| {
                format!(
                    "{:?} access {} usable {} held {}",
                    path.state,
                    path.access,
                    path.usable,
                    path.held.len()
                )
            })
            .collect();
        let sent: Vec<String> = self
            .sent
            .values()
            .map(|sent| format!("{} by {} since {} us", sent.bio.id.0, sent.path, sent.at.0 / 1000))
            .collect();
        let wait = self.waiting.len() + self.later.len();
        format!(
            "{paths:?}, discovery {:?}, sent {sent:?}, {wait} wait, {:?}",
            self.discovery, self.registrations
        )
    }
}
