//! What an initiator does that has several paths, as Linux does it with open-iscsi and dm-multipath: pure, bytes and moments in, bytes
//! and wishes out.
//!
//! * Discovery asks one gateway (SendTargets) for all portals; each is a path with a session of its own, and an ISID of its own.
//! * A session whose connection breaks, or that leaves a NOP unanswered, is logged in again under the same ISID. What was with it
//!   waits for that, and goes to another path when it takes too long (`replacement_timeout`).
//! * The connection of a session that is given up is closed, and what it had queued is still sent when the network lets it pass. (open-iscsi
//!   resets it; others do not.)
//! * Path checkers ask TEST UNIT READY and REPORT TARGET PORT GROUPS now and then. Paths are grouped by the state of their
//!   access, the best group is used, and gone back to at once; without any path I/O waits (`group_by_prio`, `queue_if_no_path`).
//! * Some reads go by a copy to another volume ([`copies`]).
//! * A command that meets a unit attention, BUSY or TASK SET FULL has done nothing, and is sent again; so is one that was aborted
//!   because it took too long, or whose session was reinstated: the target has promised that it comes to nothing any more.

mod commands;
mod copies;
mod paths;
mod registrations;
pub mod wire;

use super::linux::HostEffect;
use crate::history::OperationId;
use amita_reactor::Time;
use commands::Sent;
use copies::ByCopy;
pub use copies::{Scratch, scratch_blocks};
use paths::{Path, State};
use registrations::Registrations;
pub use registrations::key;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use wire::{Command, Heard, Verdict, Wire, access_of};

/// A login that has not ended after this is given up, and a function that is not answered ends its session.
const SETUP: Duration = Duration::from_secs(3);

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
    /// Some of its reads go by a copy to there.
    pub scratch: Option<Scratch>,
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
    by_copy: Option<Box<ByCopy>>,
}

impl Bio {
    /// One that is to be sent.
    pub fn new(id: OperationId, command: Command, repeatable: bool) -> Bio {
        Bio {
            id,
            command,
            repeatable,
            tries: 0,
            by_copy: None,
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
    /// Where it copies to next.
    places: Vec<u64>,
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
            places: copies::places(),
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
            // Of what it has copied before something may be under way.
            places: Vec::new(),
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

    /// What a connection has to send.
    pub fn outbox(&mut self, conn: u64) -> Vec<u8> {
        let conn = self.conns.get_mut(&conn);
        conn.map(|conn| std::mem::take(&mut conn.wire.outbox))
            .unwrap_or_default()
    }

    /// The application asks.
    pub fn submit(&mut self, now: Time, bio: Bio) {
        let bio = self.copy_perhaps(bio);
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
