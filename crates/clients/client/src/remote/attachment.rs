//! One volume that is used through nodes: the connection that serves it, its requests, and where to go when the connection breaks.
//!
//! Requests live here and not with a connection. What was sent and not answered is sent again by the next connection: reads at
//! once, what changes something only when nothing of it can be carried out any more that went by the old one ([`LATE`]). Until
//! then nothing that changes something goes out at all, or a late write could undo a newer one (rule R9).

use super::Faults;
use super::link::{Link, is_write};
use amita_frontend::{Event, OpenError, VolumeInfo};
use amita_nbd::client::{Dial, Word};
use amita_nbd::wire::Errno;
use amita_reactor::driver::{Driver, Time};
use amita_reactor::{Pool, Slice};
use amita_types::io::{IoError, Op, Payload};
use amita_types::{SnapshotId, VolumeId};
use rustls::pki_types::CertificateDer;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// So long after a connection was given up, nothing is carried out any more that went by it: a node's core that stands still for a
/// second drops what it has not read, and half of one is for what stands in between (a proxy, a balancer), which sends on what it
/// has though this end has gone.
pub(super) const LATE: Duration = Duration::from_millis(1500);
/// How long a node may take until it has shown who it is.
const SETUP: Duration = Duration::from_secs(3);
/// And to open the volume after that: it may have to take it over from a node that has died.
const OPENING: Duration = Duration::from_secs(20);
/// The pause after all nodes were tried in vain: it doubles, from the first to the last.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// A second connection that could not be made, for a newer certificate, is tried again after this.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);
/// How soon a receive is tried again for which there was no memory.
const STARVED: Duration = Duration::from_millis(1);
/// The next pass, as soon as time has moved.
const SOON: Duration = Duration::from_millis(1);
/// What is said of a node whose certificate does not count any more.
const REVOKED: &str = "its certificate was revoked";
/// How long a good-bye may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// Requests are cut at so many bytes where a server does not say where it cuts.
const UNTOLD_CHUNK_BYTES: u32 = 4 << 20;
/// Rounds in which nodes know of no such volume, and the others are not to be reached, until a volume that is being opened is taken to be
/// unknown.
const UNKNOWN_ROUNDS: u32 = 3;

/// What a step may use.
pub(super) struct Step<'a> {
    pub driver: &'a mut dyn Driver,
    pub pool: &'a Pool,
    pub nodes: &'a [SocketAddr],
    /// How a connection for a volume begins.
    pub dial: &'a dyn Fn(&str) -> Dial,
    /// The certificate that is shown now, by a number that grows.
    pub certificate: u64,
    /// Is a node that has shown these certificates still believed?
    pub trusts: &'a dyn Fn(&[CertificateDer<'static>]) -> bool,
    /// How long a volume may be without a node.
    pub patience: Duration,
    /// The number of the last connection.
    pub links: &'a mut u64,
    pub events: &'a mut VecDeque<Event>,
    /// Why a node was of no use, for a log.
    pub complaints: &'a mut Vec<String>,
    /// The tags of what changes something and is sent again.
    pub repeated: &'a mut Vec<u64>,
    /// Rules that are switched off, by the simulator only.
    pub faults: Faults,
}

impl Step<'_> {
    fn now(&self) -> Time {
        self.driver.now()
    }
}

struct Request {
    tag: u64,
    op: Op,
    /// Of a write: kept until it is answered.
    data: Slice,
}

/// A connection that is being made.
struct Making {
    link: Link,
    by: Time,
    /// The node has shown who it is, and has more time.
    is_shown: bool,
}

/// Without a node since then.
struct Away {
    since: Time,
    /// When to dial next.
    next: Time,
    pause: Duration,
    /// Nodes that were tried in this round; how many of them have said that there is no such volume, and how many have said
    /// anything.
    tried: usize,
    unknown: usize,
    answered: usize,
    /// Rounds in a row in which all that answered have said that there is no such volume.
    unknown_rounds: u32,
    /// What the last one was of no use for.
    why: String,
}

impl Away {
    fn new(now: Time) -> Away {
        Away {
            since: now,
            next: now,
            pause: PAUSES[0],
            tried: 0,
            unknown: 0,
            answered: 0,
            unknown_rounds: 0,
            why: "no node was asked yet".to_owned(),
        }
    }
}

/// What was known of the volume when it was opened first.
struct Known {
    size_bytes: u64,
    description: String,
}

/// One volume.
pub(super) struct Attachment {
    id: VolumeId,
    name: String,
    /// The opening that is to be answered.
    opening: Option<u64>,
    known: Option<Known>,
    /// Which node to go to.
    node: usize,
    away: Option<Away>,
    /// How it was sought before the connection that serves it, until that has been of use.
    before: Option<Away>,
    making: Option<Making>,
    serving: Option<Link>,
    /// Those that were replaced, until what is under way on them has ended.
    draining: Vec<Link>,
    renew_at: Time,
    requests: BTreeMap<u64, Request>,
    cookie: u64,
    reads: VecDeque<u64>,
    writes: VecDeque<u64>,
    /// Nothing that changes something is sent before.
    writes_from: Time,
    /// Connections with such under way that were given up, and how many operations the kernel still has for them.
    held: BTreeMap<u64, usize>,
    starved: bool,
    /// It is not used any more: since then.
    closing: Option<Time>,
    /// And nothing is under way any more, since then.
    idle_since: Option<Time>,
    over: bool,
}

impl Attachment {
    pub fn new(now: Time, id: VolumeId, name: &str, tag: u64, node: usize, writes_from: Time) -> Attachment {
        Attachment {
            id,
            name: name.to_owned(),
            opening: Some(tag),
            known: None,
            node,
            away: Some(Away::new(now)),
            before: None,
            making: None,
            serving: None,
            draining: Vec::new(),
            renew_at: Time::default(),
            requests: BTreeMap::new(),
            cookie: 0,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            writes_from,
            held: BTreeMap::new(),
            starved: false,
            closing: None,
            idle_since: None,
            over: false,
        }
    }

    /// Has it ended, and can be forgotten?
    pub fn is_over(&self) -> bool {
        self.over
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Before that nothing of its name is to be written.
    pub fn writes_from(&self) -> Time {
        self.writes_from
    }

    /// The node that serves it, or is asked to.
    pub fn node(&self) -> usize {
        self.node
    }

    /// Why nobody serves it; `None`: somebody does.
    pub fn trouble(&self) -> Option<&str> {
        self.away.as_ref().map(|away| away.why.as_str())
    }

    /// Nobody uses it any more; what is under way still ends.
    pub fn close(&mut self, now: Time) {
        self.closing.get_or_insert(now);
    }

    /// Takes a request.
    pub fn submit(&mut self, tag: u64, op: Op, data: Slice) {
        self.cookie += 1;
        let queue = if is_write(&op) {
            &mut self.writes
        } else {
            &mut self.reads
        };
        queue.push_back(self.cookie);
        self.requests.insert(self.cookie, Request { tag, op, data });
    }

    /// Is it one of its connections, or was it one that the kernel still has?
    pub fn has_link(&self, number: u64) -> bool {
        let making = self.making.as_ref().map(|making| &making.link);
        let mut all = making.into_iter().chain(&self.serving).chain(&self.draining);
        all.any(|link| link.number == number) || self.held.contains_key(&number)
    }

    fn link_mut(&mut self, number: u64) -> Option<&mut Link> {
        let making = self.making.as_mut().map(|making| &mut making.link);
        let mut all = making.into_iter().chain(&mut self.serving).chain(&mut self.draining);
        all.find(|link| link.number == number)
    }

    /// Runs a step of one of its connections.
    pub fn with_link(
        &mut self,
        step: &mut Step<'_>,
        number: u64,
        act: impl FnOnce(&mut Link, &mut Vec<Word>) -> Result<(), String>,
    ) {
        let mut words = Vec::new();
        let Some(link) = self.link_mut(number) else {
            return self.let_go(step, number);
        };
        let result = act(link, &mut words);
        for word in words {
            self.hear(step, number, word);
        }
        if let Err(why) = result {
            self.broken(step, number, &why, Answered::Nothing);
        }
    }

    fn hear(&mut self, step: &mut Step<'_>, number: u64, word: Word) {
        match word {
            Word::Open {
                size_bytes,
                read_only,
                description,
                chunk_bytes,
            } => {
                let known = Known {
                    size_bytes,
                    description,
                };
                let chunk_bytes = chunk_bytes.unwrap_or(UNTOLD_CHUNK_BYTES);
                self.opened(step, number, known, read_only, chunk_bytes);
            }
            Word::Refused { unknown, why } => {
                let answered = if unknown {
                    Answered::Unknown
                } else {
                    Answered::Something
                };
                self.broken(step, number, &why, answered);
            }
            Word::Answer { cookie, error, data } => self.answered(step, number, cookie, error, data),
        }
    }

    fn opened(&mut self, step: &mut Step<'_>, number: u64, said: Known, read_only: bool, chunk_bytes: u32) {
        if self.making.as_ref().is_none_or(|making| making.link.number != number) {
            return;
        }
        let is_trusted = |link: &Link| link.chain().is_none_or(|chain| (step.trusts)(chain));
        if !self.making.as_ref().is_some_and(|making| is_trusted(&making.link)) {
            // It was believed when it showed its certificate, and is not any more.
            return self.broken(step, number, REVOKED, Answered::Nothing);
        }
        let Some(Making { mut link, .. }) = self.making.take() else {
            return;
        };
        if let Some(known) = &self.known
            && (known.description != said.description || said.size_bytes < known.size_bytes)
        {
            link.end(step.driver);
            return self.lose(step, "another volume has its name now");
        }
        link.opened(step.now());
        self.node = link.node;
        if let Some(old) = self.serving.replace(link) {
            self.draining.push(old);
        }
        self.before = self.away.take();
        let size_bytes = said.size_bytes;
        self.known.get_or_insert(said);
        if let Some(tag) = self.opening.take() {
            let result = Ok(VolumeInfo {
                id: self.id,
                // Which snapshot it is, if it is one, its name tells to the nodes.
                snapshot: SnapshotId::HEAD,
                name: self.name.clone(),
                size_bytes,
                chunk_bytes,
                read_only,
            });
            step.events.push_back(Event::Opened { tag, result });
        }
    }

    fn answered(&mut self, step: &mut Step<'_>, number: u64, cookie: u64, error: u32, data: Slice) {
        if error == Errno::Shutdown as u32 {
            // It has lost the volume: nobody knows what became of what is under way.
            return self.broken(step, number, "it does not serve the volume any more", Answered::Nothing);
        }
        let now = step.now();
        let op = self.requests.get(&cookie).map(|request| request.op);
        if !self
            .link_mut(number)
            .is_some_and(|link| link.answered(now, cookie, op.as_ref()))
        {
            return;
        }
        let Some(request) = self.requests.remove(&cookie) else {
            return;
        };
        let result = io_error(error).map_or(Ok(()), Err);
        let payload = match request.op {
            Op::Read { .. } if result.is_ok() => Payload::Data(data),
            _ => Payload::None,
        };
        let tag = request.tag;
        step.events.push_back(Event::Done { tag, result, payload });
    }

    /// A connection is of no more use.
    fn broken(&mut self, step: &mut Step<'_>, number: u64, why: &str, answered: Answered) {
        let now = step.now();
        let place = |node: usize| step.nodes.get(node).map_or_else(String::new, SocketAddr::to_string);
        if let Some(Making { link, .. }) = self.making.take_if(|making| making.link.number == number) {
            let node = link.node;
            let why = format!("{}: {why}", place(node));
            link.end(step.driver);
            if let Some(away) = &mut self.away {
                away.tried += 1;
                away.unknown += usize::from(answered == Answered::Unknown);
                away.answered += usize::from(answered != Answered::Nothing);
                away.why.clone_from(&why);
                self.node = (node + 1) % step.nodes.len();
                if away.tried >= step.nodes.len() {
                    self.round_ended(step);
                }
            } else {
                self.renew_at = now.plus(RENEWAL_PAUSE);
            }
            step.complaints.push(why);
            return;
        }
        let mut round_ends = false;
        let link = match self.serving.take_if(|link| link.number == number) {
            Some(link) => {
                // One that is being made beside it comes in its place.
                let before = self.before.take().filter(|_| !link.has_served(now));
                match before {
                    // A node that opens a volume and is of no use then is as one that does not open it.
                    Some(before) => {
                        self.node = (link.node + 1) % step.nodes.len();
                        let tried = before.tried + 1;
                        round_ends = tried >= step.nodes.len();
                        let why = format!("{}: {why}", place(link.node));
                        self.away = Some(Away { tried, why, ..before });
                    }
                    None => self.away = Some(Away::new(now)),
                }
                link
            }
            None => match self.draining.iter().position(|link| link.number == number) {
                Some(at) => self.draining.swap_remove(at),
                None => return,
            },
        };
        step.complaints.push(format!("{}: {why}", place(link.node)));
        self.send_again(step, link);
        if round_ends && self.making.is_none() {
            self.round_ended(step);
        }
    }

    /// The kernel has let go of a connection that was given up: from now on nothing goes out by it.
    fn let_go(&mut self, step: &Step<'_>, number: u64) {
        if let Some(under_way) = self.held.get_mut(&number) {
            *under_way -= 1;
            if *under_way == 0 {
                self.held.remove(&number);
            }
            self.hold_writes(step.now(), step.faults);
        }
    }

    fn hold_writes(&mut self, now: Time, faults: Faults) {
        if !faults.resend_at_once {
            self.writes_from = self.writes_from.max(now.plus(LATE));
        }
    }

    /// What was under way on a connection waits for the next one.
    fn send_again(&mut self, step: &mut Step<'_>, link: Link) {
        for &cookie in link.asked.iter().rev() {
            let Some(request) = self.requests.get(&cookie) else {
                continue;
            };
            if is_write(&request.op) {
                self.writes.push_front(cookie);
                step.repeated.push(request.tag);
            } else {
                self.reads.push_front(cookie);
            }
        }
        self.end_link(step, link);
    }

    fn end_link(&mut self, step: &mut Step<'_>, link: Link) {
        if link.has_writes() {
            self.hold_writes(step.now(), step.faults);
            if link.under_way() > 0 {
                self.held.insert(link.number, link.under_way());
            }
        }
        link.end(step.driver);
    }

    /// All nodes were tried in vain.
    fn round_ended(&mut self, step: &mut Step<'_>) {
        let now = step.now();
        let Some(away) = &mut self.away else { return };
        let nodes = step.nodes.len();
        let unknown = away.unknown == nodes;
        let is_unknown = away.unknown > 0 && away.unknown == away.answered;
        away.unknown_rounds = if is_unknown { away.unknown_rounds + 1 } else { 0 };
        // Where one node is away for long, the others' word is enough for a volume that was never open here.
        let is_unknown = unknown || away.unknown_rounds >= UNKNOWN_ROUNDS;
        let answered = is_unknown || away.answered == nodes;
        (away.tried, away.unknown, away.answered) = (0, 0, 0);
        away.next = now.plus(away.pause);
        away.pause = (away.pause * 2).min(PAUSES[1]);
        let why = away.why.clone();
        let is_out_of_patience = now.since(away.since) >= step.patience;
        match self.opening {
            Some(tag) if answered || is_out_of_patience => {
                let why = if is_unknown {
                    OpenError::NotFound
                } else {
                    OpenError::Unavailable(why)
                };
                self.opening = None;
                self.over = true;
                step.events.push_back(Event::Opened { tag, result: Err(why) });
            }
            Some(_) => {}
            None if unknown => self.lose(step, "it was deleted, or the right to it has ended"),
            None if is_out_of_patience => self.lose(step, &format!("no node serves it: {why}")),
            None => {}
        }
    }

    /// It is not to be had any more.
    fn lose(&mut self, step: &mut Step<'_>, why: &str) {
        self.over = true;
        let links = self.serving.take().into_iter().chain(self.draining.drain(..));
        for link in links.collect::<Vec<_>>() {
            self.end_link(step, link);
        }
        self.end_links(step.driver);
        for request in std::mem::take(&mut self.requests).into_values() {
            let (tag, result, payload) = (request.tag, Err(IoError::Lost), Payload::None);
            step.events.push_back(Event::Done { tag, result, payload });
        }
        let (source, why) = (self.id.into(), why.to_owned());
        step.events.push_back(Event::Lost { source, why });
    }

    /// Ends all connections.
    pub fn end_links(&mut self, driver: &mut dyn Driver) {
        let making = self.making.take().map(|making| making.link);
        for link in making
            .into_iter()
            .chain(self.serving.take())
            .chain(self.draining.drain(..))
        {
            link.end(driver);
        }
    }

    /// Ends connections to nodes that are not believed any more.
    pub fn judge(&mut self, step: &mut Step<'_>) {
        let making = self.making.as_ref().map(|making| &making.link);
        let links = making.into_iter().chain(&self.serving).chain(&self.draining);
        let is_trusted = |link: &&Link| link.chain().is_none_or(|chain| (step.trusts)(chain));
        let untrusted = links.filter(|link| !is_trusted(link));
        let untrusted: Vec<u64> = untrusted.map(|link| link.number).collect();
        for number in untrusted {
            self.broken(step, number, REVOKED, Answered::Nothing);
        }
    }

    /// What came while there was no memory for it.
    fn read_on(&mut self, step: &mut Step<'_>) {
        let making = self.making.as_ref().map(|making| &making.link);
        let links = making.into_iter().chain(&self.serving).chain(&self.draining);
        let starved = links.filter(|link| link.can_read_on());
        let starved: Vec<u64> = starved.map(|link| link.number).collect();
        let pool = step.pool;
        for number in starved {
            self.with_link(step, number, |link, words| link.read_on(pool, words));
        }
    }

    /// Does what is due.
    pub fn run(&mut self, step: &mut Step<'_>) {
        self.starved = false;
        match self.closing {
            // What follows from an answer, a further part of a long discard, say, comes at the time of the answer.
            Some(_) if !self.requests.is_empty() => self.idle_since = None,
            Some(_) => match *self.idle_since.get_or_insert(step.now()) {
                since if step.now() > since => return self.leave(step, since),
                _ => {}
            },
            None => {}
        }
        self.read_on(step);
        self.watch(step);
        self.dial(step);
        self.send(step);
        let making = self.making.as_mut().map(|making| &mut making.link);
        for link in making.into_iter().chain(&mut self.serving).chain(&mut self.draining) {
            link.run(step.driver, step.pool);
            self.starved |= link.is_starved();
        }
        while let Some(at) = self.draining.iter().position(|link| link.asked.is_empty()) {
            self.draining.swap_remove(at).end(step.driver);
        }
    }

    fn leave(&mut self, step: &mut Step<'_>, since: Time) {
        let is_said = self
            .serving
            .as_mut()
            .is_none_or(|link| link.leave(step.driver, step.pool));
        if is_said || step.now() >= since.plus(GOODBYE) {
            self.over = true;
            self.end_links(step.driver);
        }
    }

    fn watch(&mut self, step: &mut Step<'_>) {
        let (now, pool) = (step.now(), step.pool);
        let mut broken = Vec::new();
        for link in self.serving.iter_mut().chain(&mut self.draining) {
            if let Err(why) = link.watch(now, pool) {
                broken.push((link.number, why));
            }
        }
        if let Some(making) = &mut self.making
            && now >= making.by
        {
            broken.push((making.link.number, "it does not answer".to_owned()));
        }
        for (number, why) in broken {
            let silent = self.serving.as_ref().filter(|link| link.number == number);
            let next = silent.map(|link| (link.node + 1) % step.nodes.len());
            self.broken(step, number, &why, Answered::Nothing);
            // It would be silent again.
            self.node = next.unwrap_or(self.node);
        }
    }

    /// Begins a connection, where one is wanted.
    fn dial(&mut self, step: &mut Step<'_>) {
        let now = step.now();
        if let Some(making) = &mut self.making {
            if !making.is_shown && making.link.waits_for_export() {
                (making.is_shown, making.by) = (true, now.plus(OPENING));
            }
            return;
        }
        let wanted = match (&self.away, &self.serving) {
            (Some(away), _) => now >= away.next,
            (None, Some(link)) => link.certificate != step.certificate && now >= self.renew_at,
            (None, None) => false,
        };
        if !wanted || self.over || step.nodes.is_empty() {
            return;
        }
        *step.links += 1;
        let node = self.node % step.nodes.len();
        let dial = (step.dial)(&self.name);
        let link = Link::dial(step.driver, *step.links, node, step.nodes[node], dial, step.certificate);
        let (by, is_shown) = (now.plus(SETUP), false);
        self.making = Some(Making { link, by, is_shown });
    }

    fn send(&mut self, step: &mut Step<'_>) {
        let now = step.now();
        let Some(link) = &mut self.serving else { return };
        let may_write = now >= self.writes_from;
        let queues = [Some(&mut self.reads), may_write.then_some(&mut self.writes)];
        for queue in queues.into_iter().flatten() {
            while let Some(cookie) = queue.front() {
                let Some(request) = self.requests.get(cookie) else {
                    queue.pop_front();
                    continue;
                };
                if !link.takes(&request.op) {
                    break;
                }
                link.ask(now, *cookie, &request.op, request.data.clone(), step.pool);
                queue.pop_front();
            }
        }
    }

    /// When [`Attachment::run`] is wanted; `now`: as soon as can be.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        let links = self.serving.iter().chain(&self.draining);
        let watched = links.filter_map(Link::deadline).min();
        let away = self
            .away
            .as_ref()
            .filter(|_| self.making.is_none())
            .map(|away| away.next);
        let making = self.making.as_ref().map(|making| making.by);
        let held =
            (!self.writes.is_empty() && self.writes_from > now && self.serving.is_some()).then_some(self.writes_from);
        let starved = self.starved.then(|| now.plus(STARVED));
        // Once to say good-bye, and once to have said it.
        let closing = self.idle_since.filter(|_| self.requests.is_empty());
        let closing = closing.map(|since| since.plus(if now < since.plus(SOON) { SOON } else { GOODBYE }));
        if self.closing.is_some() && self.requests.is_empty() {
            // Nothing else is done any more.
            return closing.or(Some(now)).into_iter().chain(starved).min();
        }
        [watched, away, making, held, starved].into_iter().flatten().min()
    }
}

/// What a node has said of a volume that it does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Nothing,
    /// There is none of that name, for this client.
    Unknown,
    Something,
}

/// What an error of NBD is to a program ("Error values").
fn io_error(errno: u32) -> Option<IoError> {
    let is = |known: Errno| errno == known as u32;
    Some(match errno {
        0 => return None,
        _ if is(Errno::Perm) => IoError::ReadOnly,
        _ if is(Errno::NoSpc) => IoError::NoSpace,
        _ if is(Errno::Inval) => IoError::OutOfRange,
        // Whoever serves it ends the session behind that.
        _ if is(Errno::Shutdown) => IoError::Closed,
        _ if is(Errno::Overflow) || is(Errno::NotSup) => IoError::Invalid,
        _ => IoError::Unavailable,
    })
}
