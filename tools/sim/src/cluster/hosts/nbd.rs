//! What an NBD client of Linux does that connects again wherever it can (`nbd-client -persist`, by a name that moves): one
//! connection at a time, and what was not answered is sent again by the next one. Pure.

use super::linux::{End, HostEffect};
use crate::history::{Kind, OperationId};
use amita_nbd::wire::{
    OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, handshake_flag, option, reply,
};
use amita_reactor::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A connection that has not come to its volume after this is given up.
const SETUP: Duration = Duration::from_secs(4);
/// Bytes of the server's greeting, of an option's reply, and of a simple reply.
const GREETING_BYTES: usize = 18;
const OPTION_REPLY_BYTES: usize = 20;
const REPLY_BYTES: usize = 16;
/// Types of requests, as the protocol numbers them.
const READ: u16 = 0;
const WRITE: u16 = 1;
const TRIM: u16 = 4;

/// How a client is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The export's name.
    pub export: String,
    /// Gateways.
    pub paths: usize,
    /// The gateway that it begins with.
    pub first: usize,
    /// A request that waits for longer ends the connection.
    pub io_timeout: Duration,
    /// The pause before the next connection.
    pub reconnect: Duration,
}

/// A request of the application.
#[derive(Clone, Debug)]
pub struct Order {
    pub id: OperationId,
    pub kind: Kind,
    /// The first byte.
    pub offset: u64,
    pub length: u32,
    /// What a write writes.
    pub data: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Away(Time),
    Greeting(Time),
    Option(Time),
    Serving,
}

/// One client.
#[derive(Debug)]
pub struct Nbd {
    settings: Settings,
    state: State,
    at: usize,
    conn: u64,
    /// Since when it is made: the export is as large as it was then.
    since: Time,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    sent: BTreeMap<u64, (Order, Time)>,
    waiting: VecDeque<Order>,
    handle: u64,
    /// In order.
    pub acts: VecDeque<HostEffect>,
    /// What a gateway may not do.
    pub violation: Option<String>,
}

impl Nbd {
    /// A client that begins to connect at once.
    pub fn new(settings: Settings) -> Nbd {
        Nbd {
            at: settings.first % settings.paths,
            settings,
            state: State::Away(Time::default()),
            conn: 0,
            since: Time::default(),
            inbox: Vec::new(),
            outbox: Vec::new(),
            sent: BTreeMap::new(),
            waiting: VecDeque::new(),
            handle: 0,
            acts: VecDeque::new(),
            violation: None,
        }
    }

    /// Requests that have not ended.
    pub fn pending(&self) -> Vec<OperationId> {
        let sent = self.sent.values().map(|(order, _)| order.id);
        sent.chain(self.waiting.iter().map(|order| order.id)).collect()
    }

    /// When [`Nbd::tick`] is wanted.
    pub fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Away(at) | State::Greeting(at) | State::Option(at) => Some(at),
            State::Serving => self
                .sent
                .values()
                .map(|(_, at)| at.plus(self.settings.io_timeout))
                .min(),
        }
    }

    /// What the connection has to send.
    pub fn outbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outbox)
    }

    /// The application asks.
    pub fn submit(&mut self, now: Time, order: Order) {
        self.waiting.push_back(order);
        self.send_waiting(now);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        match self.state {
            State::Away(at) if now >= at => {
                self.conn += 1;
                self.since = now;
                self.state = State::Greeting(now.plus(SETUP));
                let (conn, path, queue) = (self.conn, self.at, 0);
                self.acts.push_back(HostEffect::Connect { conn, path, queue });
            }
            State::Greeting(by) | State::Option(by) if now >= by => self.fail(now),
            State::Serving if self.deadline().is_some_and(|at| now >= at) => self.fail(now),
            _ => {}
        }
    }

    /// A connection has ended, or could not be made.
    pub fn closed(&mut self, now: Time, conn: u64) {
        if conn == self.conn && !matches!(self.state, State::Away(_)) {
            self.fail(now);
        }
    }

    fn fail(&mut self, now: Time) {
        self.state = State::Away(now.plus(self.settings.reconnect));
        let path = self.at;
        self.at = (path + 1) % self.settings.paths;
        self.acts.push_back(HostEffect::Close { conn: self.conn });
        (self.inbox, self.outbox) = (Vec::new(), Vec::new());
        for (_, (order, _)) in std::mem::take(&mut self.sent).into_iter().rev() {
            let id = order.id;
            if order.kind == Kind::Clear {
                self.acts.push_back(HostEffect::Ended {
                    id,
                    path,
                    end: End::Unknown,
                    data: Vec::new(),
                });
                continue;
            }
            self.acts.push_back(HostEffect::Again { id, lost: true });
            self.waiting.push_front(order);
        }
    }

    /// Bytes have come. Gives what was read with each request that ended well.
    pub fn received(&mut self, now: Time, conn: u64, bytes: &[u8]) -> Vec<(OperationId, Vec<u8>)> {
        let mut done = Vec::new();
        if conn != self.conn {
            return done;
        }
        self.inbox.extend_from_slice(bytes);
        loop {
            match self.state {
                State::Greeting(by) if self.inbox.len() >= GREETING_BYTES => {
                    self.inbox.drain(..GREETING_BYTES);
                    self.state = State::Option(by);
                    let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
                    let name = self.settings.export.as_bytes();
                    self.outbox.extend(u32::from(flags).to_be_bytes());
                    self.outbox.extend(OPTION_MAGIC.to_be_bytes());
                    self.outbox.extend(option::GO.to_be_bytes());
                    self.outbox.extend((name.len() as u32 + 6).to_be_bytes());
                    self.outbox.extend((name.len() as u32).to_be_bytes());
                    self.outbox.extend(name);
                    self.outbox.extend([0, 0]);
                }
                State::Option(_) if self.inbox.len() >= OPTION_REPLY_BYTES => {
                    let length = u32_at(&self.inbox, 16) as usize;
                    if self.inbox.len() < OPTION_REPLY_BYTES + length {
                        return done;
                    }
                    let magic = u64::from(u32_at(&self.inbox, 0)) << 32 | u64::from(u32_at(&self.inbox, 4));
                    let kind = u32_at(&self.inbox, 12);
                    self.inbox.drain(..OPTION_REPLY_BYTES + length);
                    if magic != OPTION_REPLY_MAGIC {
                        self.violation
                            .get_or_insert("an NBD gateway's option reply is none".into());
                    }
                    if kind == reply::ACK {
                        self.state = State::Serving;
                        self.send_waiting(now);
                    } else if kind != reply::INFO {
                        // Another gateway's, or unknown here as yet.
                        self.fail(now);
                        return done;
                    }
                }
                State::Serving if self.inbox.len() >= REPLY_BYTES => {
                    let (magic, error) = (u32_at(&self.inbox, 0), u32_at(&self.inbox, 4));
                    let handle = u64::from(u32_at(&self.inbox, 8)) << 32 | u64::from(u32_at(&self.inbox, 12));
                    let known = self.sent.get(&handle);
                    let (true, Some((order, _))) = (magic == SIMPLE_REPLY_MAGIC, known) else {
                        self.violation
                            .get_or_insert(format!("an NBD gateway answered {handle}, which was not asked"));
                        return done;
                    };
                    let data = match order.kind == Kind::Read && error == 0 {
                        true => order.length as usize,
                        false => 0,
                    };
                    if self.inbox.len() < REPLY_BYTES + data {
                        return done;
                    }
                    let rest = self.inbox.split_off(REPLY_BYTES + data);
                    let whole = std::mem::replace(&mut self.inbox, rest);
                    let id = order.id;
                    self.sent.remove(&handle);
                    if error == 0 {
                        done.push((id, whole[REPLY_BYTES..].to_vec()));
                    } else {
                        self.acts.push_back(HostEffect::Ended {
                            id,
                            path: self.at,
                            end: End::Errno(error, self.since),
                            data: Vec::new(),
                        });
                    }
                }
                _ => return done,
            }
        }
    }

    fn send_waiting(&mut self, now: Time) {
        if self.state != State::Serving {
            return;
        }
        while let Some(order) = self.waiting.pop_front() {
            self.handle += 1;
            let kind = match order.kind {
                Kind::Read => READ,
                Kind::Clear => TRIM,
                Kind::Write | Kind::Compare => WRITE,
            };
            self.outbox.extend(REQUEST_MAGIC.to_be_bytes());
            self.outbox.extend(0u16.to_be_bytes());
            self.outbox.extend(kind.to_be_bytes());
            self.outbox.extend(self.handle.to_be_bytes());
            self.outbox.extend(order.offset.to_be_bytes());
            self.outbox.extend(order.length.to_be_bytes());
            self.outbox.extend(&order.data);
            self.sent.insert(self.handle, (order, now));
        }
    }

    /// What is under way, for a person.
    pub fn describe(&self) -> String {
        format!(
            "NBD at {} {:?}, {} sent, {} wait",
            self.at,
            self.state,
            self.sent.len(),
            self.waiting.len()
        )
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
