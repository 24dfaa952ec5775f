//! One connection to a node: its socket, what waits to be sent and parsed, and what is under way on it.

use amita_nbd::client::{Ask, Connection, Dial, Word};
use amita_nbd::wire::command;
use amita_reactor::driver::{Driver, SocketId, Time, Token};
use amita_reactor::{BufMut, Inbox, Outbox, Pool, Segments, Slice};
use amita_types::io::Op;
use std::collections::BTreeSet;
use std::time::Duration;

/// What is received into, in bytes: while nothing is under way, and otherwise.
const QUIET_RECEIVE_BYTES: usize = 16 << 10;
const RECEIVE_BYTES: usize = 256 << 10;
/// Requests under way on a connection: fewer than a server takes ([`amita_nbd::Limits`]), so that it always reads on.
const MAX_ASKED: usize = 200;
/// Bytes of writes, and of what reads bring, under way on a connection: half of what a server takes.
const MAX_ASKED_BYTES: u64 = 1 << 20;
/// With requests under way: after so much silence the node is asked whether it is there.
pub(super) const QUIET: Duration = Duration::from_secs(1);
/// And after so much more it is not. A core of a node that stood still for a second has closed its connections by itself.
pub(super) const SILENCE: Duration = Duration::from_secs(4);
/// A connection that has answered for so long has served, and one that was open for so long without being asked for anything.
const PROVEN: Duration = Duration::from_secs(5);
/// The cookie of the question whether a node is there; requests have others.
const PROBE: u64 = u64::MAX;

/// What a completion is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Ended {
    Connect = 1,
    Receive = 2,
    Send = 3,
}

/// The token of an operation of a link.
pub(super) fn token(number: u64, ended: Ended) -> Token {
    Token(number << 8 | ended as u64)
}

/// One connection.
pub(super) struct Link {
    pub number: u64,
    /// Of which node, by its place in the settings.
    pub node: usize,
    /// Which certificate of this program's was shown.
    pub certificate: u64,
    socket: Option<SocketId>,
    connection: Connection,
    inbox: Inbox,
    outbox: Outbox,
    receiving: bool,
    /// There is no memory to receive into.
    starved: bool,
    /// Since when it is open, and when a request was answered last.
    open_since: Option<Time>,
    answered_at: Option<Time>,
    /// When something came last, and when something was asked for while nothing else was.
    heard: Time,
    busy_since: Time,
    probed: Option<Time>,
    /// What is under way here.
    pub asked: BTreeSet<u64>,
    /// How many of them change something.
    writes: usize,
    read_bytes: u64,
    write_bytes: u64,
}

impl Link {
    /// Begins to connect.
    pub fn dial(
        driver: &mut dyn Driver,
        number: u64,
        node: usize,
        address: std::net::SocketAddr,
        dial: Dial,
        certificate: u64,
    ) -> Link {
        driver.connect(address, token(number, Ended::Connect));
        Link {
            number,
            node,
            certificate,
            socket: None,
            connection: Connection::new(dial),
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            receiving: false,
            starved: false,
            open_since: None,
            answered_at: None,
            heard: driver.now(),
            busy_since: driver.now(),
            probed: None,
            asked: BTreeSet::new(),
            writes: 0,
            read_bytes: 0,
            write_bytes: 0,
        }
    }

    pub fn connected(&mut self, socket: SocketId) {
        self.socket = Some(socket);
    }

    /// A receive has ended.
    pub fn received(
        &mut self,
        now: Time,
        buffer: BufMut,
        result: std::io::Result<usize>,
        pool: &Pool,
        words: &mut Vec<Word>,
    ) -> Result<(), String> {
        self.receiving = false;
        let bytes = *result.as_ref().unwrap_or(&0);
        self.inbox.received(buffer, bytes);
        match result {
            Err(why) => Err(why.to_string()),
            Ok(0) => Err("it has closed the connection".to_owned()),
            Ok(_) => {
                self.heard = now;
                self.read_on(pool, words)
            }
        }
    }

    /// Takes in what has come.
    pub fn read_on(&mut self, pool: &Pool, words: &mut Vec<Word>) -> Result<(), String> {
        self.connection.received(&mut self.inbox, &mut self.outbox, pool, words)
    }

    /// Is there no memory, to receive into or for what was received?
    pub fn is_starved(&self) -> bool {
        self.starved || self.connection.is_short()
    }

    /// Has come already what there was no memory for?
    pub fn can_read_on(&self) -> bool {
        self.connection.is_short()
    }

    /// The export is open.
    pub fn opened(&mut self, now: Time) {
        self.open_since = Some(now);
    }

    /// Has it been of use for a while?
    pub fn has_served(&self, now: Time) -> bool {
        // While something is under way, until its last answer.
        let until = if self.asked.is_empty() {
            Some(now)
        } else {
            self.answered_at
        };
        let since = self.open_since.map(|since| since.plus(PROVEN));
        until.zip(since).is_some_and(|(until, since)| until >= since)
    }

    pub fn sent(&mut self, data: Segments, result: std::io::Result<()>) -> Result<(), String> {
        self.outbox.sent(data);
        result.map_err(|why| why.to_string())
    }

    /// Is it the export alone that is waited for?
    pub fn waits_for_export(&self) -> bool {
        self.connection.waits_for_export()
    }

    /// The node's certificates.
    pub fn chain(&self) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        self.connection.chain()
    }

    /// Is there room for it?
    pub fn takes(&self, op: &Op) -> bool {
        let (reads, writes) = bytes_of(op);
        // One that alone is more than all goes by itself.
        let fits = |used: u64, more: u64| used == 0 || used + more <= MAX_ASKED_BYTES;
        self.connection.is_open()
            && self.asked.len() < MAX_ASKED
            && fits(self.read_bytes, reads)
            && fits(self.write_bytes, writes)
    }

    /// Sends a request.
    pub fn ask(&mut self, now: Time, cookie: u64, op: &Op, data: Slice, pool: &Pool) {
        if self.asked.is_empty() {
            self.busy_since = now;
        }
        self.asked.insert(cookie);
        let (reads, writes) = bytes_of(op);
        self.writes += usize::from(is_write(op));
        self.read_bytes += reads;
        self.write_bytes += writes;
        let command = match op {
            Op::Read { .. } => command::READ,
            Op::Write { .. } => command::WRITE,
            // Without the flag that forbids holes: zeros that take no space.
            _ => command::WRITE_ZEROES,
        };
        let ask = Ask {
            command,
            cookie,
            offset: op.offset(),
            length: u32::try_from(op.length()).expect("a piece lies in one chunk"),
        };
        self.connection.ask(ask, data, &mut self.outbox, pool);
    }

    /// A request was answered; `false`: it was the question whether the node is there.
    pub fn answered(&mut self, now: Time, cookie: u64, op: Option<&Op>) -> bool {
        if cookie == PROBE {
            self.probed = None;
            return false;
        }
        self.answered_at = Some(now);
        self.asked.remove(&cookie);
        if let Some(op) = op {
            let (reads, writes) = bytes_of(op);
            self.writes -= usize::from(is_write(op));
            self.read_bytes -= reads;
            self.write_bytes -= writes;
        }
        true
    }

    /// Looks whether the node is there, and asks it.
    ///
    /// # Errors
    /// It is not; in words.
    pub fn watch(&mut self, now: Time, pool: &Pool) -> Result<(), String> {
        if self.is_starved() {
            // Who does not listen hears nothing.
            self.heard = now;
        }
        let since = self.heard.max(self.busy_since);
        match self.probed {
            Some(at) if now >= at.max(self.heard).plus(SILENCE) => {
                Err(format!("it has said nothing for {:?}", now.since(self.heard)))
            }
            None if !self.asked.is_empty() && now >= since.plus(QUIET) => {
                self.probed = Some(now);
                let ask = Ask {
                    command: command::FLUSH,
                    cookie: PROBE,
                    offset: 0,
                    length: 0,
                };
                self.connection.ask(ask, Slice::default(), &mut self.outbox, pool);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// When [`Link::watch`] is wanted.
    pub fn deadline(&self) -> Option<Time> {
        match self.probed {
            Some(at) => Some(at.max(self.heard).plus(SILENCE)),
            None if self.asked.is_empty() => None,
            None => Some(self.heard.max(self.busy_since).plus(QUIET)),
        }
    }

    /// Hands over what is to be sent, and receives on.
    pub fn run(&mut self, driver: &mut dyn Driver, pool: &Pool) {
        let Some(socket) = self.socket else { return };
        self.connection.flush(&mut self.outbox, pool);
        if let Some(data) = self.outbox.next_send() {
            driver.send(socket, data, token(self.number, Ended::Send));
        }
        // What has come goes first: more of it would take the memory that it waits for.
        if self.receiving || self.connection.is_short() {
            return;
        }
        let bytes = if self.asked.is_empty() {
            self.inbox.trim(QUIET_RECEIVE_BYTES);
            QUIET_RECEIVE_BYTES
        } else {
            RECEIVE_BYTES
        };
        let buffer = self.inbox.start_receive(pool, bytes);
        self.starved = buffer.is_none();
        if let Some(buffer) = buffer {
            self.receiving = true;
            driver.receive(socket, buffer, token(self.number, Ended::Receive));
        }
    }

    /// Says good-bye; true once it is said.
    pub fn leave(&mut self, driver: &mut dyn Driver, pool: &Pool) -> bool {
        self.connection.leave(&mut self.outbox, pool);
        self.run(driver, pool);
        self.socket.is_none() || (self.outbox.queued_bytes() == 0 && !self.outbox.is_sending())
    }

    /// Is something under way that changes something?
    pub fn has_writes(&self) -> bool {
        self.writes > 0
    }

    /// How many operations the kernel has for it: it goes only when they have ended.
    pub fn under_way(&self) -> usize {
        usize::from(self.receiving) + usize::from(self.outbox.is_sending())
    }

    /// Ends it. Nothing of what the kernel has not sent yet is sent any more.
    pub fn end(self, driver: &mut dyn Driver) {
        if let Some(socket) = self.socket {
            driver.abort(socket);
        }
    }
}

/// Does it change anything?
pub(super) fn is_write(op: &Op) -> bool {
    !matches!(
        op,
        Op::Read { .. } | Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. }
    )
}

/// What it brings, and what it takes along.
fn bytes_of(op: &Op) -> (u64, u64) {
    match op {
        Op::Read { .. } => (op.length(), 0),
        Op::Write { .. } => (0, op.length()),
        _ => (0, 0),
    }
}
