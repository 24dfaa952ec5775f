//! What an NVMe host does that has several paths, as Linux 6 does it: pure, bytes and moments in, bytes and wishes out.
//!
//! * A controller at each gateway: an admin queue and I/O queues, each a connection. A controller whose connections break, or
//!   that lets a Keep Alive or a command wait for too long, is torn down whole and connected again after a pause.
//! * A Keep Alive command twice in the keep alive time (`nvme_keep_alive_work_period`). One that is not answered within the keep
//!   alive time ends the controller.
//! * Paths by ANA state: an optimized one, or all optimized ones in turn; else a non-optimized one.
//! * A command that ends with a path's error, or whose controller is torn down, goes to another path **at once**. Linux does not
//!   wait for the first gateway to have forgotten it: that is what makes ghost writes possible.
//! * The connections of a controller that is given up are reset (`sock_no_linger`): what they have queued and a broken network holds is
//!   lost. Other hosts just close them, and their kernels send it when the network heals; some runs have such.

use super::initiator::wire::Verdict;
use super::wire::{Heard, Wire};
use crate::history::OperationId;
use amita_nvme_host::commands::{self, Connect, FLOW_CONTROL_OFF};
use amita_nvme_host::controller::{CC_ENABLED, property};
use amita_nvme_host::structures::AnaLog;
use amita_nvme_host::wire::{Status, log, status};
use amita_nvme_host::{Host, Request};
use amita_reactor::Time;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// A controller that is not there after this is given up, until the next attempt.
const SETUP: Duration = Duration::from_secs(3);
/// What has failed on all paths is tried again after a pause that doubles up to this. (Linux has none; a run has to end.)
const MAX_PAUSE: Duration = Duration::from_millis(64);
/// Before a registration that was not made is asked for again.
const AGAIN: Duration = Duration::from_millis(50);
/// So long after one was lost nothing of it is carried out any more.
const SETTLED: Duration = Duration::from_secs(3);
/// Bytes of the ANA log that are read: a header and some groups of one namespace.
const ANA_BYTES: usize = 16 + 16 * 36;

/// The subsystem of a run.
pub const NQN: &str = "nqn.2014-08.org.example:simulated";

/// How a host is set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The host's number.
    pub number: u32,
    /// The namespace that it uses.
    pub nsid: u32,
    /// Gateways.
    pub paths: usize,
    /// I/O queues of a controller.
    pub queues: u16,
    /// The keep alive time.
    pub keep_alive: Duration,
    /// Gateways are told the keep alive time.
    pub tells: bool,
    /// A command that waits for longer ends its controller (`nvme_core.io_timeout`).
    pub io_timeout: Duration,
    /// The pause before a controller is connected again.
    pub reconnect: Duration,
    /// All optimized paths in turn, instead of one until it fails.
    pub round_robin: bool,
    /// The key that it registers before it uses its namespace, which hosts reserve.
    pub registers: Option<u64>,
}

/// A request of the application.
#[derive(Clone, Debug)]
pub struct Bio {
    pub id: OperationId,
    /// One command, or the two of a fused pair.
    pub requests: Vec<Request>,
    /// It may be sent again when nobody knows what became of it.
    pub repeatable: bool,
    /// How often it was sent.
    pub sends: u32,
    /// Not by this path, if there is another.
    but: Option<usize>,
}

impl Bio {
    /// One that is to be sent.
    pub fn new(id: OperationId, requests: Vec<Request>, repeatable: bool) -> Bio {
        Bio {
            id,
            requests,
            repeatable,
            sends: 0,
            but: None,
        }
    }
}

/// What the host wants done, or has to tell.
#[derive(Debug)]
pub enum HostEffect {
    /// Connect to a gateway: its queue of that number.
    Connect { conn: u64, path: usize, queue: u16 },
    /// Connect to a portal.
    Dial { conn: u64, address: SocketAddr },
    /// Close a connection.
    Close { conn: u64 },
    /// A request is sent once more, though an earlier one may have been carried out. `lost`: because its connection was.
    Again { id: OperationId, lost: bool },
    /// The target has said that nothing of a request takes effect any more, which has not been answered.
    Over { id: OperationId },
    /// Such a request is to be asked for anew.
    Anew { id: OperationId },
    /// The host has reserved its volume.
    Reserved,
    /// Another host was to be fenced off.
    Fenced { victim: u32, is_done: bool },
    /// A request has ended, by this path.
    Ended {
        id: OperationId,
        path: usize,
        end: End,
        data: Vec<u8>,
    },
}

/// How a request has ended, as far as the application can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Status(Status),
    Scsi(Verdict),
    /// With this error of NBD, on a connection that was made then.
    Errno(u32, Time),
    /// Nobody knows how.
    Unknown,
    /// Nor is it known how this one has, which the host itself has brought to an end.
    Over,
}

/// What a command is.
#[derive(Clone, Debug)]
enum What {
    Connect,
    Enable,
    Ready,
    Queues,
    Event,
    Ana,
    KeepAlive,
    Register,
    Io { slot: u64, last: bool },
}

#[derive(Debug)]
struct Conn {
    path: usize,
    queue: u16,
    connected: bool,
    wire: Wire<What>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be connected then.
    Away(Time),
    /// Being connected, until then at the latest.
    Setup(Time),
    Live,
}

/// How it stands with the host's registration, which is of all its paths together (NVMe Base 2.1, 8.1.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registration {
    /// There is to be none.
    None,
    /// It is asked for from then on.
    Missing(Time),
    Asked {
        path: usize,
    },
    There,
}

#[derive(Debug)]
struct Path {
    state: State,
    controller: u16,
    admin: u64,
    queues: Vec<u64>,
    missing: u16,
    /// When the next Keep Alive goes out, and when the last one must have been answered.
    keep_alive_at: Time,
    keep_alive_by: Option<Time>,
    /// The ANA state of the namespace.
    ana: u8,
}

#[derive(Debug)]
struct Sent {
    bio: Bio,
    path: usize,
    conn: u64,
    at: Time,
    failed: Option<Status>,
}

/// One host.
#[derive(Debug)]
pub struct Linux {
    settings: Settings,
    host: Host,
    paths: Vec<Path>,
    conns: BTreeMap<u64, Conn>,
    next: u64,
    sent: BTreeMap<u64, Sent>,
    /// To be sent as soon as there is a path.
    waiting: VecDeque<Bio>,
    later: Vec<(Time, Bio)>,
    turn: usize,
    usual: usize,
    registration: Registration,
    /// When a registration was lost that may have been carried out since.
    lost_at: Option<Time>,
    /// Nothing is registered meanwhile.
    holds_still: bool,
    /// In order.
    pub acts: VecDeque<HostEffect>,
    /// What a gateway may not do.
    pub violation: Option<String>,
    /// Paths that were taken, for the coverage.
    pub taken: Vec<&'static str>,
}

impl Linux {
    /// A host that begins to connect at once.
    pub fn new(settings: Settings) -> Linux {
        let path = || Path {
            state: State::Away(Time::default()),
            controller: 0,
            admin: 0,
            queues: Vec::new(),
            missing: 0,
            keep_alive_at: Time::default(),
            keep_alive_by: None,
            ana: 2,
        };
        Linux {
            host: Host::named(&format!("nqn.2014-08.org.example:host-{}", settings.number)),
            paths: std::iter::repeat_with(path).take(settings.paths).collect(),
            conns: BTreeMap::new(),
            next: 0,
            sent: BTreeMap::new(),
            waiting: VecDeque::new(),
            later: Vec::new(),
            turn: settings.number as usize,
            usual: settings.number as usize % settings.paths,
            registration: match settings.registers {
                Some(_) => Registration::Missing(Time::default()),
                None => Registration::None,
            },
            lost_at: None,
            holds_still: false,
            acts: VecDeque::new(),
            violation: None,
            taken: Vec::new(),
            settings,
        }
    }

    /// The same host after its machine has started again.
    pub fn anew(&self) -> Linux {
        Linux {
            // Connections are never mistaken for those before.
            next: self.next,
            ..Linux::new(self.settings)
        }
    }

    /// Is it one that may be fenced off now? Nothing of it that would register it may be under way.
    pub fn can_be_fenced(&self, now: Time) -> bool {
        let is_settled = self.lost_at.is_none_or(|at| now >= at.plus(SETTLED));
        self.registration == Registration::There && is_settled
    }

    /// It registers nothing meanwhile; or may again.
    pub fn hold_still(&mut self, still: bool) {
        self.holds_still = still;
    }

    /// By which queue the registration is asked for, if it is to be.
    fn registers_by(&self) -> Option<(Time, usize, u64)> {
        let Registration::Missing(at) = self.registration else {
            return None;
        };
        let mut live = self
            .paths
            .iter()
            .enumerate()
            .filter(|(_, path)| path.state == State::Live);
        let (index, path) = live.next().filter(|_| !self.holds_still)?;
        Some((at, index, *path.queues.first()?))
    }

    fn register(&mut self, now: Time) {
        if let Some((at, path, conn)) = self.registers_by()
            && let Some(key) = self.settings.registers
            && now >= at
        {
            self.registration = Registration::Asked { path };
            let request = commands::reservation_register(self.settings.nsid, 0, true, 0, 0, key);
            self.command(conn, What::Register, &request);
        }
    }

    /// It is not known whether it is registered.
    fn registration_lost(&mut self, now: Time) {
        self.lost_at = Some(now);
        self.registration = Registration::Missing(now.plus(AGAIN));
    }

    /// Requests that have not ended.
    pub fn pending(&self) -> Vec<OperationId> {
        let sent = self.sent.values().map(|sent| sent.bio.id);
        let later = self.later.iter().map(|(_, bio)| bio.id);
        sent.chain(self.waiting.iter().map(|bio| bio.id)).chain(later).collect()
    }

    /// When [`Linux::tick`] is wanted.
    pub fn deadline(&self) -> Option<Time> {
        let paths = self.paths.iter().map(|path| match path.state {
            State::Away(until) | State::Setup(until) => until,
            State::Live => path.keep_alive_by.unwrap_or(path.keep_alive_at),
        });
        let late = self
            .sent
            .values()
            .map(|sent| sent.at.plus(self.settings.io_timeout))
            .min();
        let later = self.later.iter().map(|(at, _)| *at).min();
        let registers = self.registers_by().map(|(at, ..)| at);
        paths.chain(late).chain(later).chain(registers).min()
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
        let late = self
            .sent
            .values()
            .filter(|sent| now >= sent.at.plus(self.settings.io_timeout));
        let mut failed: Vec<usize> = late.map(|sent| sent.path).collect();
        for (index, path) in self.paths.iter().enumerate() {
            match path.state {
                State::Setup(until) if now >= until => failed.push(index),
                State::Live if path.keep_alive_by.is_some_and(|by| now >= by) => failed.push(index),
                _ => {}
            }
        }
        failed.sort_unstable();
        failed.dedup();
        failed.into_iter().for_each(|path| self.fail(now, path));
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            match path.state {
                State::Away(until) if now >= until => {
                    path.state = State::Setup(now.plus(SETUP));
                    let admin = self.connect(index, 0);
                    self.paths[index].admin = admin;
                }
                State::Live if path.keep_alive_by.is_none() && now >= path.keep_alive_at => {
                    path.keep_alive_by = Some(now.plus(self.settings.keep_alive));
                    let admin = path.admin;
                    self.command(admin, What::KeepAlive, &commands::keep_alive());
                }
                _ => {}
            }
        }
        let (due, later) = std::mem::take(&mut self.later)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.later = later;
        let due: Vec<(Time, Bio)> = due;
        self.waiting.extend(due.into_iter().map(|(_, bio)| bio));
        self.send_waiting(now);
    }

    fn connect(&mut self, path: usize, queue: u16) -> u64 {
        self.next += 1;
        let conn = self.next;
        self.conns.insert(
            conn,
            Conn {
                path,
                queue,
                connected: false,
                wire: Wire::new(),
            },
        );
        self.acts.push_back(HostEffect::Connect { conn, path, queue });
        conn
    }

    fn command(&mut self, conn: u64, what: What, request: &Request) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.wire.submit(what, request);
        }
    }

    /// A connection has ended, or could not be made.
    pub fn closed(&mut self, now: Time, conn: u64) {
        if let Some(path) = self.conns.get(&conn).map(|conn| conn.path) {
            self.fail(now, path);
        }
    }

    /// A controller is torn down. What was with it goes to other paths, at once.
    fn fail(&mut self, now: Time, index: usize) {
        let path = &mut self.paths[index];
        path.state = State::Away(now.plus(self.settings.reconnect));
        path.keep_alive_by = None;
        if self.registration == (Registration::Asked { path: index }) {
            self.registration_lost(now);
        }
        let gone: Vec<u64> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.path == index)
            .map(|(id, _)| *id)
            .collect();
        for conn in gone {
            self.conns.remove(&conn);
            self.acts.push_back(HostEffect::Close { conn });
        }
        let lost: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, sent)| sent.path == index)
            .map(|(slot, _)| *slot)
            .collect();
        for slot in lost.into_iter().rev() {
            let Some(Sent { mut bio, .. }) = self.sent.remove(&slot) else {
                continue;
            };
            let id = bio.id;
            if bio.repeatable {
                bio.but = Some(index);
                self.acts.push_back(HostEffect::Again { id, lost: true });
                self.waiting.push_front(bio);
            } else {
                self.acts.push_back(HostEffect::Ended {
                    id,
                    path: index,
                    end: End::Unknown,
                    data: Vec::new(),
                });
            }
        }
        self.send_waiting(now);
    }

    /// Bytes have come.
    pub fn received(&mut self, now: Time, conn: u64, bytes: &[u8]) {
        let mut heard = Vec::new();
        let Some(known) = self.conns.get_mut(&conn) else { return };
        let taken = known.wire.receive(bytes, &mut heard);
        for heard in heard {
            self.heard(now, conn, heard);
        }
        if let Err(why) = taken {
            self.violation
                .get_or_insert(format!("a gateway broke the protocol: {why}"));
        }
    }

    fn heard(&mut self, now: Time, id: u64, heard: Heard<What>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (index, queue) = (conn.path, conn.queue);
        let (what, status, result, data) = match heard {
            Heard::Ready => {
                let connect = Connect {
                    queue,
                    size: 31,
                    attributes: FLOW_CONTROL_OFF,
                    keep_alive_ms: match queue == 0 && self.settings.tells {
                        true => self.settings.keep_alive.as_millis() as u32,
                        false => 0,
                    },
                    controller: if queue == 0 {
                        0xffff
                    } else {
                        self.paths[index].controller
                    },
                    host_id: self.host.id,
                    subsystem: NQN.into(),
                    host: self.host.nqn.clone(),
                };
                return self.command(id, What::Connect, &connect.request());
            }
            Heard::Done {
                what,
                status,
                result,
                data,
            } => (what, status, result, data),
        };
        if !status.is_success() && !matches!(what, What::Io { .. } | What::Event | What::Ana | What::Register) {
            return self.fail(now, index);
        }
        match what {
            What::Connect if queue == 0 => {
                self.paths[index].controller = result as u16;
                let enable = commands::property_set(property::CC, CC_ENABLED);
                self.command(id, What::Enable, &enable);
            }
            What::Connect => {
                conn.connected = true;
                let path = &mut self.paths[index];
                path.missing -= 1;
                if path.missing == 0 {
                    path.state = State::Live;
                    path.keep_alive_at = now.plus(self.settings.keep_alive / 2);
                    self.send_waiting(now);
                }
            }
            What::Enable => self.command(id, What::Ready, &commands::property_get(property::CSTS, false)),
            What::Ready if result & 1 == 0 => self.fail(now, index),
            What::Ready => self.command(id, What::Queues, &commands::queues(self.settings.queues)),
            What::Queues => {
                self.command(id, What::Event, &commands::async_event());
                self.command(id, What::Ana, &commands::log_page(log::ANA, 0, 0, ANA_BYTES));
                let count = self.settings.queues;
                self.paths[index].missing = count;
                let queues = (1..=count).map(|queue| self.connect(index, queue)).collect();
                self.paths[index].queues = queues;
            }
            What::Event => {
                if status.is_success() {
                    self.command(id, What::Event, &commands::async_event());
                    self.command(id, What::Ana, &commands::log_page(log::ANA, 0, 0, ANA_BYTES));
                }
            }
            What::Ana => {
                let group = AnaLog::read(&data).ok().and_then(|log| {
                    let ours =
                        |group: &&amita_nvme_host::structures::AnaGroup| group.namespaces.contains(&self.settings.nsid);
                    log.groups.iter().find(ours).map(|group| group.state)
                });
                self.paths[index].ana = group.unwrap_or(self.paths[index].ana);
                self.send_waiting(now);
            }
            What::KeepAlive => {
                self.paths[index].keep_alive_by = None;
                self.paths[index].keep_alive_at = now.plus(self.settings.keep_alive / 2);
            }
            What::Register if status.is_success() => {
                self.registration = Registration::There;
                self.taken.push("iscsi.registered_by_nvme");
                self.send_waiting(now);
            }
            What::Register => self.registration_lost(now),
            What::Io { slot, last } => self.ended(now, slot, last, status, data),
        }
    }

    fn ended(&mut self, now: Time, slot: u64, last: bool, status: Status, data: Vec<u8>) {
        let Some(sent) = self.sent.get_mut(&slot) else { return };
        // Of a pair the one says why, and the other only that its partner has failed.
        let of_partner = matches!(status.number(), status::FAILED_FUSED | status::MISSING_FUSED);
        if !status.is_success() && (sent.failed.is_none() || !of_partner) {
            sent.failed = Some(status);
        }
        if !last {
            return;
        }
        let Some(Sent {
            mut bio, path, failed, ..
        }) = self.sent.remove(&slot)
        else {
            return;
        };
        let status = failed.unwrap_or(status);
        // "Path related status", and what Linux tries again by itself (`nvme_decide_disposition`).
        let again = status.kind == 3 || status.number() == status::INTERNAL;
        if !again || !bio.repeatable {
            let end = if again { End::Unknown } else { End::Status(status) };
            let id = bio.id;
            return self.acts.push_back(HostEffect::Ended { id, path, end, data });
        }
        self.acts.push_back(HostEffect::Again {
            id: bio.id,
            lost: false,
        });
        if self.usual == path {
            self.usual = usize::MAX;
        }
        bio.but = Some(path);
        if bio.sends <= 1 {
            self.waiting.push_front(bio);
            return self.send_waiting(now);
        }
        let pause = Duration::from_millis(1 << bio.sends.min(6)).min(MAX_PAUSE);
        self.later.push((now.plus(pause), bio));
    }

    /// A path for a request.
    fn choose(&mut self, but: Option<usize>) -> Option<usize> {
        let usable = |state: u8| {
            let live = self.paths.iter().enumerate();
            live.filter(move |(_, path)| path.state == State::Live && path.ana == state)
                .map(|(index, _)| index)
        };
        let mut best: Vec<usize> = usable(1).collect();
        let others: Vec<usize> = usable(2).collect();
        if best.is_empty() || best == [but.unwrap_or(usize::MAX)] && !others.is_empty() {
            best = others;
        }
        if best.len() > 1 {
            best.retain(|path| Some(*path) != but);
        }
        if !self.settings.round_robin && best.contains(&self.usual) {
            return Some(self.usual);
        }
        if best.is_empty() {
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        self.usual = best[self.turn % best.len()];
        Some(self.usual)
    }

    fn send_waiting(&mut self, now: Time) {
        self.register(now);
        if !matches!(self.registration, Registration::None | Registration::There) {
            return;
        }
        while let Some(bio) = self.waiting.front() {
            let but = bio.but;
            let Some(index) = self.choose(but) else { return };
            let Some(mut bio) = self.waiting.pop_front() else {
                return;
            };
            bio.sends += 1;
            self.next += 1;
            let slot = self.next;
            let queues = &self.paths[index].queues;
            let conn = queues[slot as usize % queues.len()];
            let count = bio.requests.len();
            for (place, request) in bio.requests.clone().iter().enumerate() {
                let last = place + 1 == count;
                self.command(conn, What::Io { slot, last }, request);
            }
            let sent = Sent {
                bio,
                path: index,
                conn,
                at: now,
                failed: None,
            };
            self.sent.insert(slot, sent);
        }
    }

    /// What is under way, for a person.
    pub fn describe(&self) -> String {
        let states: Vec<String> = self
            .paths
            .iter()
            .map(|path| format!("{:?} ana {}", path.state, path.ana))
            .collect();
        let sent: Vec<String> = self
            .sent
            .values()
            .map(|sent| {
                format!(
                    "{} by {} ({}) since {} us",
                    sent.bio.id.0,
                    sent.path,
                    sent.conn,
                    sent.at.0 / 1000
                )
            })
            .collect();
        format!(
            "{states:?}, {:?}, sent {sent:?}, {} wait",
            self.registration,
            self.waiting.len() + self.later.len()
        )
    }
}
