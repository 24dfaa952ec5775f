//! Front ends: the sessions of hosts, their sockets, and what they ask of the node.

use crate::token;
use amita_frontend::{Event, Flow, Front, FrontId, HostKey, RegisterMessage, StorageService, reservation};
use amita_nvme as nvme;
use amita_reactor::driver::{Completion, Driver, ListenerId, Outcome, SocketId, Time};
use amita_reactor::{Inbox, Outbox, Slice};
use amita_types::VolumeId;
use amita_types::io::Op;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Sessions that one core takes; more are closed as they come.
pub const MAX_SESSIONS: usize = 8192;

const ACCEPT: u8 = 1;
const RECEIVE: u8 = 2;
const SEND: u8 = 3;

/// Makes the front of an accepted connection.
pub type MakeFront = Box<dyn FnMut(FrontId, Time, SocketAddr, &mut Outbox) -> Box<dyn Front>>;

/// What a front asks of the node: the calls of [`StorageService`], kept until the core routes them.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum FrontRequest {
    /// The exports.
    List { front: FrontId, tag: u64 },
    /// Open a volume.
    Open { front: FrontId, tag: u64, name: String },
    /// Use it no longer.
    Close { volume: VolumeId },
    /// A piece of I/O.
    Submit {
        front: FrontId,
        tag: u64,
        volume: VolumeId,
        op: Op,
        payload: Slice,
        /// Whose, if the front has said so: then it may be forwarded.
        host: HostKey,
    },
    /// Look at or change a volume's reservation.
    Reserve {
        front: FrontId,
        tag: u64,
        volume: VolumeId,
        host: HostKey,
        command: reservation::Command,
    },
    /// Something for the node's register of NVMe controllers.
    Nvme { front: FrontId, tag: u64, call: nvme::Call },
}

/// The requests of one pass, in order.
#[derive(Default)]
pub struct FrontRequests {
    /// In order.
    pub queue: VecDeque<FrontRequest>,
    /// Fronts that have said whose I/O theirs is.
    hosts: FxHashMap<FrontId, HostKey>,
}

impl StorageService for FrontRequests {
    fn list(&mut self, front: FrontId, tag: u64) {
        self.queue.push_back(FrontRequest::List { front, tag });
    }
    fn open(&mut self, front: FrontId, tag: u64, name: &str) {
        self.queue.push_back(FrontRequest::Open {
            front,
            tag,
            name: name.to_owned(),
        });
    }
    fn close(&mut self, _front: FrontId, volume: VolumeId) {
        self.queue.push_back(FrontRequest::Close { volume });
    }
    fn submit(&mut self, front: FrontId, tag: u64, volume: VolumeId, op: Op, payload: Slice) {
        let host = match self.hosts.is_empty() {
            true => HostKey::NONE,
            false => self.hosts.get(&front).copied().unwrap_or_default(),
        };
        self.queue.push_back(FrontRequest::Submit {
            front,
            tag,
            volume,
            op,
            payload,
            host,
        });
    }
    fn identify(&mut self, front: FrontId, host: HostKey) {
        self.hosts.insert(front, host);
    }
    fn reserve(&mut self, front: FrontId, tag: u64, volume: VolumeId, host: HostKey, command: reservation::Command) {
        self.queue.push_back(FrontRequest::Reserve {
            front,
            tag,
            volume,
            host,
            command,
        });
    }
    fn register(&mut self, front: FrontId, tag: u64, call: RegisterMessage) {
        // NVMe's is the only one.
        let call = *call.downcast().expect("a call of the register of NVMe controllers");
        self.queue.push_back(FrontRequest::Nvme { front, tag, call });
    }
}

struct Session {
    front: Box<dyn Front>,
    /// None for a session inside the process.
    socket: Option<SocketId>,
    inbox: Inbox,
    outbox: Outbox,
    receiving: bool,
    dirty: bool,
}

/// That hosts are turned away is said so often, at most.
const TURNED_AWAY_PAUSE: Duration = Duration::from_secs(60);

/// The sessions of one core.
pub struct Fronts {
    sessions: FxHashMap<u64, Session>,
    next: u64,
    dirty: Vec<u64>,
    starved: Vec<u64>,
    /// What makes the fronts of connections, for each listener.
    makes: Vec<MakeFront>,
    /// When some session next wants to be told the time.
    next_tick: Option<Time>,
    /// What the fronts asked for.
    pub requests: FrontRequests,
    /// Fronts that are gone, of hosts that other gateways serve as well.
    gone: Vec<FrontId>,
    /// A connection could not be accepted: why.
    turned_away: Option<String>,
    /// That is not said again before.
    quiet_until: Time,
    /// Sessions with a socket.
    sockets: usize,
}

impl Default for Fronts {
    fn default() -> Fronts {
        Fronts {
            sessions: FxHashMap::default(),
            next: 1,
            dirty: Vec::new(),
            starved: Vec::new(),
            makes: Vec::new(),
            next_tick: None,
            requests: FrontRequests::default(),
            gone: Vec::new(),
            turned_away: None,
            quiet_until: Time(0),
            sockets: 0,
        }
    }
}

impl Fronts {
    /// Listens for hosts; `make` makes the front of each connection.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen(
        &mut self,
        driver: &mut dyn Driver,
        address: SocketAddr,
        make: MakeFront,
    ) -> io::Result<(ListenerId, SocketAddr)> {
        let listener = self.makes.len() as u64;
        let bound = driver.listen(address, token::token(token::FRONTS, ACCEPT, listener))?;
        self.makes.push(make);
        Ok(bound)
    }

    /// Are there hosts that may go on by another connection: of NVMe another path, of NBD one here or at another gateway?
    #[must_use]
    pub fn has_hosts(&self) -> bool {
        self.sockets > 0 || !self.requests.hosts.is_empty()
    }

    /// Ends the sessions of all hosts but those inside this process, and all that was read from them; how many.
    pub fn drop_hosts(&mut self, driver: &mut dyn Driver) -> usize {
        let with_socket = self.sessions.iter().filter(|(_, session)| session.socket.is_some());
        let mut fronts: Vec<FrontId> = with_socket.map(|(id, _)| FrontId(*id)).collect();
        fronts.extend(self.requests.hosts.keys());
        fronts.sort_unstable();
        fronts.dedup();
        for front in &fronts {
            self.end(driver, front.0);
        }
        self.requests.queue.retain(|ask| match ask {
            FrontRequest::Submit { front, .. } => fronts.binary_search(front).is_err(),
            _ => true,
        });
        fronts.len()
    }

    /// Fronts that have ended since this was last asked, of hosts that other gateways serve as well.
    pub fn take_gone(&mut self) -> Vec<FrontId> {
        let gone = std::mem::take(&mut self.gone);
        if !gone.is_empty() {
            self.requests
                .queue
                .retain(|request| !matches!(request, FrontRequest::Submit { front, .. } if gone.contains(front)));
        }
        gone
    }

    /// Adds a session without a socket (a client inside the process).
    pub fn attach(&mut self, make: impl FnOnce(FrontId) -> Box<dyn Front>) -> FrontId {
        let id = self.next;
        self.next += 1;
        self.sessions.insert(id, Session::new(make(FrontId(id)), None));
        FrontId(id)
    }

    /// Ends a session without a socket: its client has gone.
    pub fn detach(&mut self, driver: &mut dyn Driver, id: FrontId) {
        self.end(driver, id.0);
    }

    /// Runs `act` with a session's front, so that a client inside the process can ask for something.
    pub fn with<R>(
        &mut self,
        id: FrontId,
        act: impl FnOnce(&mut dyn Front, &mut dyn StorageService) -> R,
    ) -> Option<R> {
        let session = self.sessions.get_mut(&id.0)?;
        Some(act(session.front.as_mut(), &mut self.requests))
    }

    /// Were hosts turned away? What is to be said of it: now and then, as long as it goes on.
    pub fn take_turned_away(&mut self, now: Time) -> Option<String> {
        let why = self.turned_away.take().filter(|_| now >= self.quiet_until)?;
        self.quiet_until = now.plus(TURNED_AWAY_PAUSE);
        Some(format!(
            "new hosts are turned away ({why}); {} are served here and go on: let the process open more files (`ulimit -n`, \
             LimitNOFILE= of its unit) and start it anew, or disconnect hosts",
            self.sessions.len()
        ))
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// A socket's operation ended.
    pub fn completion(&mut self, driver: &mut dyn Driver, completion: Completion) {
        let now = driver.now();
        let id = token::low(completion.token);
        match (token::kind(completion.token), completion.outcome) {
            (ACCEPT, Outcome::Accepted { socket, peer }) => self.accepted(driver, now, id, socket, peer),
            (ACCEPT, Outcome::AcceptFailed { error }) => self.turned_away = Some(error.to_string()),
            (ACCEPT, _) => {}
            (RECEIVE, Outcome::Received { buffer, result }) => {
                let Some(session) = self.sessions.get_mut(&id) else {
                    return;
                };
                session.receiving = false;
                match result {
                    Ok(0) | Err(_) => self.end(driver, id),
                    Ok(bytes) => {
                        session.inbox.received(buffer, bytes);
                        self.feed(driver, now, id);
                    }
                }
            }
            (SEND, Outcome::Sent { data, result }) => {
                let Some(session) = self.sessions.get_mut(&id) else {
                    return;
                };
                session.outbox.sent(data);
                if result.is_err() {
                    self.end(driver, id);
                } else {
                    self.mark(id);
                }
            }
            (kind, other) => unreachable!("a front's socket completes no {kind} {other:?}"),
        }
    }

    fn accepted(&mut self, driver: &mut dyn Driver, now: Time, listener: u64, socket: SocketId, peer: SocketAddr) {
        let full = self.sessions.len() >= MAX_SESSIONS;
        let Some(make) = self.makes.get_mut(listener as usize).filter(|_| !full) else {
            driver.close(socket);
            return;
        };
        let id = self.next;
        self.next += 1;
        let mut outbox = Outbox::new();
        let front = make(FrontId(id), now, peer, &mut outbox);
        let session = Session {
            outbox,
            ..Session::new(front, Some(socket))
        };
        self.sessions.insert(id, session);
        self.sockets += 1;
        // The front may have spoken first (NBD does), and wants input in any case.
        self.mark(id);
    }

    /// Lets the front handle what is in its inbox.
    fn feed(&mut self, driver: &mut dyn Driver, now: Time, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let flow = session.front.received(
            now,
            &mut session.inbox,
            &mut session.outbox,
            driver.pool(),
            &mut self.requests,
        );
        self.after(driver, id, flow);
    }

    /// Hands an event to a session's front; false where it is gone and nobody was told.
    pub fn event(&mut self, driver: &mut dyn Driver, id: FrontId, event: Event) -> bool {
        let now = driver.now();
        let Some(session) = self.sessions.get_mut(&id.0) else {
            return false;
        };
        let flow = session
            .front
            .event(now, event, &mut session.outbox, driver.pool(), &mut self.requests);
        self.after(driver, id.0, flow);
        true
    }

    /// Hands an event to every session.
    pub fn event_to_all(&mut self, driver: &mut dyn Driver, mut make: impl FnMut() -> Event) {
        let mut ids: Vec<u64> = self.sessions.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.event(driver, FrontId(id), make());
        }
    }

    /// A front that wants to close has sent what it had to say, or has waited long enough for that.
    fn after(&mut self, driver: &mut dyn Driver, id: u64, flow: Flow) {
        match flow {
            Flow::Go => self.mark(id),
            Flow::Close { .. } => self.end(driver, id),
        }
    }

    fn mark(&mut self, id: u64) {
        if let Some(session) = self.sessions.get_mut(&id)
            && !session.dirty
        {
            session.dirty = true;
            self.dirty.push(id);
        }
    }

    fn end(&mut self, driver: &mut dyn Driver, id: u64) {
        let Some(mut session) = self.sessions.remove(&id) else {
            return;
        };
        session.front.closed(&mut self.requests);
        if self.requests.hosts.remove(&FrontId(id)).is_some() {
            self.gone.push(FrontId(id));
        }
        if let Some(socket) = session.socket {
            self.sockets -= 1;
            driver.close(socket);
        }
    }

    /// Lets each session that did something in this pass round it off; it may ask for more.
    pub fn end_pass(&mut self, driver: &mut dyn Driver) {
        let now = driver.now();
        let mut index = 0;
        while let Some(&id) = self.dirty.get(index) {
            index += 1;
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            let (inbox, outbox) = (&mut session.inbox, &mut session.outbox);
            let flow = session
                .front
                .end_pass(now, inbox, outbox, driver.pool(), &mut self.requests);
            if let Flow::Close { .. } = flow {
                self.end(driver, id);
            }
        }
    }

    /// The end of a pass: one send per session that has something, and a receive where one is wanted.
    pub fn flush(&mut self, driver: &mut dyn Driver) {
        self.dirty.append(&mut self.starved);
        let mut index = 0;
        while index < self.dirty.len() {
            let id = self.dirty[index];
            index += 1;
            self.flush_one(driver, id);
        }
        self.dirty.clear();
    }

    fn flush_one(&mut self, driver: &mut dyn Driver, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.dirty = false;
        let Some(socket) = session.socket else { return };
        if let Some(data) = session.outbox.next_send() {
            driver.send(socket, data, token::token(token::FRONTS, SEND, id));
        }
        if let Some(at) = session.front.deadline() {
            self.next_tick = Some(self.next_tick.map_or(at, |t| t.min(at)));
        }
        if !session.receiving && session.front.wants_input() {
            match session
                .inbox
                .start_receive(driver.pool(), session.front.receive_bytes())
            {
                Some(buffer) => {
                    session.receiving = true;
                    driver.receive(socket, buffer, token::token(token::FRONTS, RECEIVE, id));
                }
                // No buffer is free now: others hold them, and each pass tries again.
                None => self.starved.push(id),
            }
        }
    }

    /// Lets time pass for sessions that wait for something (a handshake, say).
    pub fn tick(&mut self, driver: &mut dyn Driver) {
        let now = driver.now();
        if self.next_tick.is_none_or(|at| at > now) {
            return;
        }
        self.next_tick = None;
        let mut ids: Vec<u64> = self.sessions.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            let Some(at) = session.front.deadline() else { continue };
            if at > now {
                self.next_tick = Some(self.next_tick.map_or(at, |t| t.min(at)));
                continue;
            }
            let flow = session
                .front
                .tick(now, &mut session.outbox, driver.pool(), &mut self.requests);
            self.after(driver, id, flow);
        }
    }

    /// When [`Fronts::tick`] is next wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.next_tick
    }

    /// Describes the sessions, for a person who looks for a fault.
    pub fn describe(&self, text: &mut String) {
        let mut ids: Vec<u64> = self.sessions.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let session = &self.sessions[&id];
            let _ = write!(
                text,
                "\n  session {id}: receiving {}, wants input {}, {} bytes in, sending {}, {} bytes out",
                session.receiving,
                session.front.wants_input(),
                session.inbox.len(),
                session.outbox.is_sending(),
                session.outbox.queued_bytes()
            );
        }
    }

    /// Sessions wait for a free buffer.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        !self.starved.is_empty()
    }
}

impl Session {
    fn new(front: Box<dyn Front>, socket: Option<SocketId>) -> Session {
        Session {
            front,
            socket,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            receiving: false,
            dirty: false,
        }
    }
}
