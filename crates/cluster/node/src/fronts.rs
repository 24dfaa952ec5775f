//! Front ends: the sessions of hosts, their sockets, and what they ask of the node.

mod deadlines;
mod hosts;
mod requests;
mod strangers;
mod watch;

pub use hosts::ACCEPTS;
pub use requests::{FrontRequest, FrontRequests};
pub use strangers::{MAX_STRANGERS, MAX_STRANGERS_OF_SOURCE};

use crate::exports::Usage;
use crate::faults::{Fault, Faults};
use crate::token;
use amita_frontend::{CloseReason, Event, Flow, Front, FrontId, StorageService, Who};
use amita_iscsi as iscsi;
use amita_reactor::driver::{Completion, Driver, ListenerId, LocalPeer, Outcome, SocketId, Time};
use amita_reactor::{Inbox, Outbox, Pool};
use amita_types::VolumeId;
use deadlines::Deadlines;
use hosts::Hosts;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use strangers::{Memory, Peer, STRANGERS_PATIENCE, Source, Strangers};
use watch::Watch;

/// Sessions that one core takes. When one more comes a stranger makes room, if there is one; else it is closed.
pub const MAX_SESSIONS: usize = 8192;
/// And of one client that has proven its name: what is left is for others.
const MAX_SESSIONS_OF_CLIENT: usize = MAX_SESSIONS / 8;
/// That hosts were refused is said so often, at most.
const REFUSALS_PAUSE: Duration = Duration::from_secs(5);

const ACCEPT: u8 = 1;
const RECEIVE: u8 = 2;
const SEND: u8 = 3;

/// Makes the front of an accepted connection.
pub type MakeFront = Box<dyn FnMut(FrontId, Time, SocketAddr, &mut Outbox) -> Box<dyn Front>>;

/// The same for a connection by a Unix socket.
pub type MakeLocalFront = Box<dyn FnMut(FrontId, Time, LocalPeer, &mut Outbox) -> Box<dyn Front>>;

/// What makes the fronts of a listener.
enum Make {
    Remote(MakeFront),
    Local(MakeLocalFront),
}

struct Session {
    front: Box<dyn Front>,
    /// None for a session inside the process.
    socket: Option<SocketId>,
    /// Who is at its other end.
    peer: Option<Peer>,
    /// It is counted among the strangers from there.
    stranger: Option<Source>,
    /// And among the sessions of the client that it has proven to be.
    client: Option<Arc<str>>,
    /// Its host has shown that it may be here, and is known by its address.
    is_known: bool,
    inbox: Inbox,
    outbox: Outbox,
    receiving: bool,
    dirty: bool,
    /// Which of [`RECEIVE_CLASSES`] the next block has.
    class: usize,
    /// When something came in last.
    heard: Time,
    /// It may hold more than the smallest block.
    warm: bool,
    /// Whether its host's machine is still there.
    watch: Option<Watch>,
    /// A stranger that has not taken by then what it is being sent is closed.
    stalls_at: Option<Time>,
    /// When it wants to be told the time.
    due: Option<Time>,
    /// What it uses by the right of an export.
    usage: Option<Usage>,
}

/// What is received into, in bytes: the first for a session that is new or was quiet, then one more step each time that a
/// receive filled what it was given; never more than its front asks for.
const RECEIVE_CLASSES: [usize; 3] = [4 << 10, 64 << 10, 256 << 10];

/// A session that was quiet for so long gives its memory back but for the smallest block.
const RECEIVE_QUIET: Duration = Duration::from_secs(1);

/// That hosts are turned away is said so often, at most.
const TURNED_AWAY_PAUSE: Duration = Duration::from_secs(60);

/// A connection of an iSCSI initiator: its number, where it comes from, and what it is.
pub type Initiated<'a> = (FrontId, Option<SocketAddr>, &'a iscsi::IscsiFront);

/// The sessions of one core.
pub struct Fronts {
    sessions: FxHashMap<u64, Session>,
    next: u64,
    dirty: Vec<u64>,
    starved: Vec<u64>,
    /// What makes the fronts of connections, for each listener.
    makes: Vec<Make>,
    deadlines: Deadlines,
    /// How many sessions there may be.
    most_sessions: usize,
    /// And of one client that has proven its name.
    most_of_client: usize,
    strangers_patience: Duration,
    /// What the fronts asked for.
    pub requests: FrontRequests,
    /// Fronts that are gone, of hosts that may go on by another connection: what waits of them for an owner goes with them.
    gone: Vec<FrontId>,
    /// Fronts that are gone, of whatever hosts: what waits for a limit goes with them.
    left: Vec<FrontId>,
    /// How many fronts have ended that had said whose I/O theirs is.
    ended: u64,
    /// Hosts whose connection ended by what they are, or showed, since that was last said: where the last one came from, why, and
    /// how many others.
    refused: Option<(Peer, String, u64)>,
    /// That is not said again before.
    refusals_quiet_until: Time,
    /// A connection could not be accepted: why.
    turned_away: Option<String>,
    /// That is not said again before.
    quiet_until: Time,
    hosts: Hosts,
    memory: Memory,
    strangers: Strangers,
    /// How many sessions there are of each client that has proven its name.
    clients: FxHashMap<Arc<str>, usize>,
    pub faults: Faults,
}

impl Default for Fronts {
    fn default() -> Fronts {
        Fronts {
            sessions: FxHashMap::default(),
            next: 1,
            dirty: Vec::new(),
            starved: Vec::new(),
            makes: Vec::new(),
            deadlines: Deadlines::default(),
            most_sessions: MAX_SESSIONS,
            most_of_client: MAX_SESSIONS_OF_CLIENT,
            strangers_patience: STRANGERS_PATIENCE,
            requests: FrontRequests::default(),
            gone: Vec::new(),
            left: Vec::new(),
            ended: 0,
            refused: None,
            refusals_quiet_until: Time(0),
            turned_away: None,
            quiet_until: Time(0),
            hosts: Hosts::default(),
            memory: Memory::default(),
            strangers: Strangers::default(),
            clients: FxHashMap::default(),
            faults: Faults::NONE,
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
        self.hosts.listens(driver, bound.0);
        self.makes.push(Make::Remote(make));
        Ok(bound)
    }

    /// Accepts hosts at a Unix socket; `make` makes the front of each connection.
    ///
    /// # Errors
    /// The driver has no Unix sockets.
    pub fn listen_local(
        &mut self,
        driver: &mut dyn Driver,
        listener: UnixListener,
        make: MakeLocalFront,
    ) -> io::Result<ListenerId> {
        let number = self.makes.len() as u64;
        let listening = driver.listen_local(listener, token::token(token::FRONTS, ACCEPT, number))?;
        self.makes.push(Make::Local(make));
        Ok(listening)
    }

    /// From now on sessions receive into this memory and answer from it, and hold little of it while they are quiet.
    pub fn hold_apart(&mut self, pool: Pool) {
        self.memory.hosts = Some(pool);
    }

    /// Are there hosts that may go on by another connection: of NVMe another path, of NBD one here or at another gateway?
    #[must_use]
    pub fn has_hosts(&self) -> bool {
        self.hosts.sockets > 0 || !self.requests.hosts.is_empty()
    }

    /// Addresses of hosts that have shown since this was last asked that they may be here: other cores are to be told.
    pub fn take_learned(&mut self) -> Vec<std::net::IpAddr> {
        self.hosts.take_learned()
    }

    /// A host at that address has shown at another core that it may be here.
    pub fn has_shown_elsewhere(&mut self, driver: &mut dyn Driver, address: std::net::IpAddr) {
        self.hosts.has_shown_elsewhere(driver, address);
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
        self.requests.queue.retain(|ask| {
            let front = ask.front_of_host();
            front.is_none_or(|front| fronts.binary_search(&front).is_err())
        });
        fronts.len()
    }

    /// Is the front there?
    #[must_use]
    pub fn has(&self, front: FrontId) -> bool {
        self.sessions.contains_key(&front.0)
    }

    /// Has the front ended, and does whoever asks [`Fronts::take_left`] know?
    #[must_use]
    pub fn has_ended(&self, front: FrontId) -> bool {
        !self.has(front) && !self.left.contains(&front)
    }

    /// How many fronts have ended that had said whose I/O theirs is.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Fronts that have ended since this was last asked, in order.
    #[inline]
    pub fn take_left(&mut self) -> Vec<FrontId> {
        // Asked several times a pass.
        if self.left.is_empty() {
            return Vec::new();
        }
        let mut left = std::mem::take(&mut self.left);
        left.sort_unstable();
        left
    }

    /// Fronts that have ended since this was last asked, in order, of hosts that may go on by another connection: of NVMe another path, of NBD one
    /// here or at another gateway. What they have asked for and was not looked at yet is dropped.
    #[inline]
    pub fn take_gone(&mut self) -> Vec<FrontId> {
        if self.gone.is_empty() {
            return Vec::new();
        }
        let mut gone = std::mem::take(&mut self.gone);
        gone.sort_unstable();
        self.requests.queue.retain(|request| {
            let front = request.front_of_host();
            front.is_none_or(|front| gone.binary_search(&front).is_err())
        });
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

    /// What a session uses by the right of an export.
    pub fn usage(&mut self, id: FrontId) -> Option<&mut Option<Usage>> {
        self.sessions.get_mut(&id.0).map(|session| &mut session.usage)
    }

    /// Has a part of this program asked for volumes by it, and no host?
    #[must_use]
    pub fn is_programs(&self, id: FrontId) -> bool {
        let session = self.sessions.get(&id.0);
        let usage = session.and_then(|session| session.usage.as_ref());
        usage.is_some_and(|usage| usage.who == Who::Program)
    }

    /// What all sessions use by the right of exports, in order.
    #[must_use]
    pub fn usages(&self) -> Vec<(FrontId, Usage)> {
        let used = |(id, session): (&u64, &Session)| Some((FrontId(*id), session.usage.clone()?));
        let mut usages: Vec<_> = self.sessions.iter().filter_map(used).collect();
        usages.sort_unstable_by_key(|(id, _)| *id);
        usages
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

    /// Were hosts refused? What is to be said of it: now and then, however many try.
    pub fn take_refused(&mut self, now: Time) -> Option<String> {
        if now < self.refusals_quiet_until {
            return None;
        }
        let (peer, why, others) = self.refused.take()?;
        self.refusals_quiet_until = now.plus(REFUSALS_PAUSE);
        let more = match others {
            0 => String::new(),
            count => format!("; and {count} connections before it"),
        };
        Some(format!("the connection of a host at {peer} was ended: {why}{more}"))
    }

    /// The connections of iSCSI initiators whose numbers are above `after` and of which `is_meant` holds: so many at most, the lowest numbers
    /// first, with where they come from; and whether there are more.
    pub fn initiators(
        &self,
        after: u64,
        most: usize,
        is_meant: impl Fn(&iscsi::IscsiFront) -> bool,
    ) -> (Vec<Initiated<'_>>, bool) {
        let behind = self.sessions.iter().filter(|(id, _)| **id > after);
        let meant = behind.filter_map(|(id, session)| {
            let front = session.front.as_any()?.downcast_ref::<iscsi::IscsiFront>()?;
            let peer = match session.peer {
                Some(Peer::Remote(address)) => Some(address),
                _ => None,
            };
            is_meant(front).then_some((FrontId(*id), peer, front))
        });
        let mut meant: Vec<_> = meant.collect();
        meant.sort_unstable_by_key(|(id, ..)| *id);
        let is_cut = meant.len() > most;
        meant.truncate(most);
        (meant, is_cut)
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
            (ACCEPT, Outcome::Accepted { socket, peer }) => self.accepted(driver, now, id, socket, Peer::Remote(peer)),
            (ACCEPT, Outcome::AcceptedLocal { socket, peer }) => {
                self.accepted(driver, now, id, socket, Peer::Local(peer));
            }
            (ACCEPT, Outcome::AcceptFailed { error }) => self.turned_away = Some(error.to_string()),
            (ACCEPT, _) => {}
            (RECEIVE, Outcome::Received { buffer, result }) => {
                let Some(session) = self.sessions.get_mut(&id) else {
                    return;
                };
                session.receiving = false;
                match result {
                    // It was quiet, and gives back what it held: the next receive has a small block.
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => {
                        session.inbox.received(buffer, 0);
                        session.rest();
                        self.mark(id);
                    }
                    Ok(0) | Err(_) => self.end(driver, id),
                    Ok(bytes) => {
                        session.heard = now;
                        if !session.warm && self.memory.hosts.is_some() {
                            session.warm = true;
                            self.deadlines.want(&mut session.due, id, now.plus(RECEIVE_QUIET));
                        }
                        if bytes == buffer.len() {
                            session.class = (session.class + 1).min(RECEIVE_CLASSES.len() - 1);
                        }
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
                session.stalls_at = None;
                if result.is_err() {
                    self.end(driver, id);
                } else {
                    self.mark(id);
                }
            }
            (kind, other) => unreachable!("a front's socket completes no {kind} {other:?}"),
        }
    }

    fn accepted(&mut self, driver: &mut dyn Driver, now: Time, listener: u64, socket: SocketId, peer: Peer) {
        if self.sessions.len() >= self.most_sessions
            && let Some(oldest) = self.strangers.next_to_go()
        {
            self.make_room(driver, oldest);
        }
        let full = self.sessions.len() >= self.most_sessions;
        let id = self.next;
        let mut outbox = Outbox::new();
        let make = self.makes.get_mut(listener as usize).filter(|_| !full);
        let front = match (make, peer) {
            (Some(Make::Remote(make)), Peer::Remote(peer)) => make(FrontId(id), now, peer, &mut outbox),
            (Some(Make::Local(make)), Peer::Local(peer)) => make(FrontId(id), now, peer, &mut outbox),
            _ => return driver.close(socket),
        };
        self.next += 1;
        let stranger = front.is_stranger().then(|| peer.source());
        if let Some(source) = stranger {
            let Some(makes_room) = self.strangers.admit(source) else {
                driver.close(socket);
                let why = "too many connections from there have not shown yet that they may be here";
                return self.refuse(peer, why);
            };
            if let Some(oldest) = makes_room {
                self.make_room(driver, oldest);
            }
            self.strangers.add(source, id);
        }
        let session = Session {
            peer: Some(peer),
            stranger,
            outbox,
            ..Session::new(front, Some(socket))
        };
        self.sessions.insert(id, session);
        self.hosts.sockets += 1;
        // The front may have spoken first (NBD does), and wants input in any case.
        self.mark(id);
    }

    /// A stranger leaves for somebody who has come.
    fn make_room(&mut self, driver: &mut dyn Driver, stranger: u64) {
        if let Some(peer) = self.sessions.get(&stranger).and_then(|session| session.peer) {
            let why = "it has not shown yet that it may be here, and made room for others";
            self.refuse(peer, why);
        }
        self.end(driver, stranger);
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
            self.memory.of(session.stranger.is_some(), driver),
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
        let pool = self.memory.of(session.stranger.is_some(), driver);
        let flow = session
            .front
            .event(now, event, &mut session.outbox, pool, &mut self.requests);
        self.after(driver, id.0, flow);
        true
    }

    /// Tells every session that it is served here no longer: those that have the volume itself open heed it, and count no more as using it.
    pub fn lost(&mut self, driver: &mut dyn Driver, volume: VolumeId, why: &str) {
        let mut ids: Vec<u64> = self.sessions.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let (source, why) = (amita_frontend::Source::from(volume), why.to_owned());
            while self.requests.take_opening(FrontId(id), volume).is_some() {}
            self.event(driver, FrontId(id), Event::Lost { source, why });
        }
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
            Flow::Close { reason } => self.close(driver, id, &reason),
        }
    }

    /// Ends a session that its front wants to be ended.
    fn close(&mut self, driver: &mut dyn Driver, id: u64, reason: &CloseReason) {
        if let (CloseReason::Refused(_) | CloseReason::Tls(_), Some(peer)) =
            (reason, self.sessions.get(&id).and_then(|session| session.peer))
        {
            self.refuse(peer, &reason.to_string());
        }
        self.end(driver, id);
    }

    /// Keeps that a host was refused, for the log.
    fn refuse(&mut self, peer: Peer, why: &str) {
        let others = self.refused.take().map_or(0, |(.., others)| others + 1);
        self.refused = Some((peer, why.to_owned(), others));
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
        if let Some(source) = session.stranger {
            self.strangers.remove(source, id);
        }
        if let (true, Some(Peer::Remote(address))) = (session.is_known, session.peer) {
            self.hosts.has_left(address.ip());
        }
        if let Some(client) = &session.client
            && let Some(of_client) = self.clients.get_mut(client)
        {
            *of_client -= 1;
            if *of_client == 0 {
                self.clients.remove(client);
            }
        }
        self.deadlines.forget(&mut session.due, id);
        session.front.closed(&mut self.requests);
        self.requests.close_all(FrontId(id));
        self.left.push(FrontId(id));
        let is_identified = self.requests.hosts.remove(&FrontId(id)).is_some();
        self.ended += u64::from(is_identified);
        // Of strangers nothing waits, and they come in floods.
        if is_identified || !session.front.is_stranger() {
            self.gone.push(FrontId(id));
        }
        if let Some(socket) = session.socket {
            self.hosts.sockets -= 1;
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
            let pool = self.memory.of(session.stranger.is_some(), driver);
            let flow = session.front.end_pass(now, inbox, outbox, pool, &mut self.requests);
            if let Flow::Close { reason } = flow {
                self.close(driver, id, &reason);
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
        if let Some(source) = session.stranger
            && !session.front.is_stranger()
        {
            session.stranger = None;
            self.strangers.remove(source, id);
            // From now on it has its memory where hosts have theirs.
            session.inbox.trim(0);
            session.outbox.trim();
        }
        if !session.is_known
            && session.client.is_none()
            && let Some(client) = session.front.client()
        {
            let of_client = self.clients.entry(client.clone()).or_default();
            if *of_client >= self.most_of_client {
                let why = CloseReason::Refused(format!("{client:?} has {of_client} connections here already"));
                return self.close(driver, id, &why);
            }
            *of_client += 1;
            session.client = Some(client);
        }
        if !session.is_known
            && let Some(Peer::Remote(address)) = session.peer
            && session.front.is_known()
        {
            session.is_known = true;
            self.hosts.has_shown(driver, address.ip());
            if let (Some(socket), Some(patience)) = (session.socket, session.front.peer_patience())
                && !self.faults.has(Fault::UnwatchedHosts)
            {
                driver.watch_peer(socket, patience);
                let watch = session.watch.insert(Watch::new(driver.now(), patience));
                self.deadlines.want(&mut session.due, id, watch.deadline());
            }
        }
        let Some(socket) = session.socket else { return };
        if let Some(data) = session.outbox.next_send() {
            driver.send(socket, data, token::token(token::FRONTS, SEND, id));
            if session.stranger.is_some() {
                let at = driver.now().plus(self.strangers_patience);
                session.stalls_at = Some(at);
                self.deadlines.want(&mut session.due, id, at);
            }
        }
        if let Some(at) = session.front.deadline() {
            self.deadlines.want(&mut session.due, id, at);
        }
        if !session.receiving && session.front.wants_input() {
            let wanted = session.front.receive_bytes();
            let is_stranger = session.stranger.is_some();
            let class = match self.memory.hosts {
                _ if is_stranger => wanted.min(RECEIVE_CLASSES[0]),
                None => wanted,
                Some(_) => wanted.min(RECEIVE_CLASSES[session.class]),
            };
            let pool = self.memory.of(is_stranger, driver);
            match session.inbox.start_receive(pool, class) {
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
        while let Some(id) = self.deadlines.first(now) {
            let session = self.sessions.get_mut(&id).expect("one that ends is forgotten here");
            self.deadlines.forget(&mut session.due, id);
            if session.warm {
                let at = session.heard.plus(RECEIVE_QUIET);
                if at > now {
                    self.deadlines.want(&mut session.due, id, at);
                } else {
                    session.warm = false;
                    let holds_much = std::mem::take(&mut session.class) > 0;
                    match session.socket.filter(|_| session.receiving && holds_much) {
                        Some(socket) => driver.cancel_receive(socket),
                        None => session.rest(),
                    }
                }
            }
            if let (Some(watch), Some(socket)) = (&mut session.watch, session.socket) {
                if watch.deadline() <= now && watch.is_gone(now, driver.unheard(socket)) {
                    self.close(driver, id, &CloseReason::Unheard);
                    continue;
                }
                self.deadlines.want(&mut session.due, id, watch.deadline());
            }
            if let (Some(_), Some(at)) = (session.stranger, session.stalls_at) {
                if at <= now {
                    self.close(driver, id, &CloseReason::Timeout);
                    continue;
                }
                self.deadlines.want(&mut session.due, id, at);
            }
            let Some(at) = session.front.deadline() else { continue };
            if at > now {
                self.deadlines.want(&mut session.due, id, at);
                continue;
            }
            let pool = self.memory.of(session.stranger.is_some(), driver);
            let flow = session.front.tick(now, &mut session.outbox, pool, &mut self.requests);
            self.after(driver, id, flow);
        }
    }

    /// When [`Fronts::tick`] is next wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.deadlines.next()
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
    /// Gives back what is held for speed alone.
    fn rest(&mut self) {
        self.inbox.trim(RECEIVE_CLASSES[0]);
        self.outbox.trim();
    }

    fn new(front: Box<dyn Front>, socket: Option<SocketId>) -> Session {
        Session {
            front,
            socket,
            peer: None,
            stranger: None,
            client: None,
            is_known: false,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            receiving: false,
            dirty: false,
            class: 0,
            heard: Time(0),
            warm: false,
            watch: None,
            stalls_at: None,
            due: None,
            usage: None,
        }
    }
}

#[cfg(test)]
mod tests;
