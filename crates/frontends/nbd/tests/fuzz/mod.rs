//! Connections of NBD clients out of any bytes: valid ones that go wrong at some point, in the handshake or behind it. Used by
//! `tests/fuzz.rs` on stable, and under libFuzzer by the target in `fuzz/`.
//!
//! What must hold: nothing panics (the storage in memory checks what the front asks of it), a connection holds no more than its
//! limits, what the server sends is whole replies, every request of a client that keeps to the rules is answered exactly
//! once, and what was opened is closed.

use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::{Flow, Front, FrontId, Who};
use amita_nbd::wire::{
    OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, Reader, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, command,
    option as opt, reply,
};
use amita_nbd::{Config, GATHER_BYTES, Limits, NbdFront};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use amita_testkit::fuzz::Input;
use amita_types::io::{IoError, Op};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const VOLUME_BYTES: u64 = 4 << 20;
const NAMES: [&str; 5] = ["vol", "read-only", "", "none", "base:allocation"];
/// The greeting: two magic numbers and the flags.
const GREETING_BYTES: usize = 18;
/// Bytes that are under way between the counters: receive blocks, a piece or two.
const SLACK: usize = 1 << 20;
/// I/O that found the volume busy is tried again after some such time.
const RETRY: Duration = Duration::from_millis(2);
const MAX_RETRIES: usize = 2000;
/// Decisions of one connection.
const MAX_STEPS: usize = 200;

/// Low, so that short connections reach them.
fn config() -> Config {
    Config {
        limits: Limits {
            requests: 16,
            read_bytes: GATHER_BYTES as usize,
            write_bytes: 512 << 10,
            stream_bytes: 256 << 10,
            pieces: 16,
        },
        ..Config::default()
    }
}

/// What the client knows of where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Transmission { structured: bool },
}

struct Client {
    front: NbdFront,
    inbox: Inbox,
    outbox: Outbox,
    pool: Pool,
    service: MemoryService,
    now: Time,
    phase: Phase,
    structured: bool,
    /// Sent by the server and not looked at.
    output: Vec<u8>,
    greeted: bool,
    /// Requests that are not answered, and the bytes that come behind a good simple reply.
    open: BTreeMap<u64, u32>,
    next: u64,
    /// The client has broken a rule: what it gets is not looked at.
    is_dirty: bool,
    is_closed: bool,
    answered: usize,
}

impl Client {
    fn new() -> Client {
        let (pool, volumes) = (Pool::heap(), Volumes::new());
        volumes.add("vol", VOLUME_BYTES, 1 << 20, false);
        volumes.add("read-only", VOLUME_BYTES, 1 << 20, true);
        let mut outbox = Outbox::new();
        let front = NbdFront::accept(Arc::new(config()), FrontId(1), Who::Local, Time(0), &mut outbox);
        Client {
            front,
            inbox: Inbox::new(),
            outbox,
            service: MemoryService::new(volumes, pool.clone()),
            pool,
            now: Time(0),
            phase: Phase::Handshake,
            structured: false,
            output: Vec::new(),
            greeted: false,
            open: BTreeMap::new(),
            next: 0,
            is_dirty: false,
            is_closed: false,
            answered: 0,
        }
    }

    fn judge(&mut self, flow: Flow) {
        self.is_closed |= flow != Flow::Go;
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut waits = 0;
        while !rest.is_empty() && !self.is_closed {
            if !self.front.wants_input() {
                // It waits for what it has under way, some of it to be tried again later.
                waits += 1;
                assert!(waits < 1000, "it never reads on");
                self.service.fault = self.service.fault.filter(|_| waits < 10);
                self.tick(RETRY);
                self.settle();
                continue;
            }
            let wanted = self.front.receive_bytes();
            let mut buffer = self.inbox.start_receive(&self.pool, wanted).expect("memory");
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.inbox.received(buffer, count);
            let (inbox, outbox) = (&mut self.inbox, &mut self.outbox);
            let flow = self
                .front
                .received(self.now, inbox, outbox, &self.pool, &mut self.service);
            self.judge(flow);
            self.end_pass();
        }
    }

    fn end_pass(&mut self) {
        if !self.is_closed {
            let (inbox, outbox) = (&mut self.inbox, &mut self.outbox);
            let flow = self
                .front
                .end_pass(self.now, inbox, outbox, &self.pool, &mut self.service);
            self.judge(flow);
        }
    }

    fn deliver(&mut self) {
        while let Some((_, event)) = self.service.events.pop_front() {
            if self.is_closed {
                continue;
            }
            let flow = self
                .front
                .event(self.now, event, &mut self.outbox, &self.pool, &mut self.service);
            self.judge(flow);
        }
        self.end_pass();
    }

    fn tick(&mut self, length: Duration) {
        self.now = self.now.plus(length);
        if !self.is_closed && self.front.deadline().is_some_and(|at| at <= self.now) {
            let flow = self
                .front
                .tick(self.now, &mut self.outbox, &self.pool, &mut self.service);
            self.judge(flow);
        }
    }

    /// Everything that was asked for is done, and fetched, but for what is to be tried again later.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.service.run();
            self.deliver();
            let fetched = self.fetch_one();
            self.end_pass();
            if self.is_closed || !fetched && self.service.queue.is_empty() && self.service.events.is_empty() {
                break;
            }
        }
        self.look();
    }

    fn fetch_one(&mut self) -> bool {
        let Some(segments) = self.outbox.next_send() else {
            return false;
        };
        segments
            .iter()
            .for_each(|segment| self.output.extend_from_slice(segment));
        self.outbox.sent(segments);
        true
    }

    /// Looks at the replies that are whole.
    fn look(&mut self) {
        if !self.greeted && self.output.len() >= GREETING_BYTES {
            self.output.drain(..GREETING_BYTES);
            self.greeted = true;
        }
        while let Some(bytes) = self.look_at_one() {
            self.output.drain(..bytes);
        }
        if self.is_dirty {
            self.output.clear();
        }
    }

    /// The length of the first reply, where it is whole; none of a client that has broken the rules.
    fn look_at_one(&mut self) -> Option<usize> {
        if self.is_dirty || !self.greeted {
            return None;
        }
        match self.phase {
            Phase::Handshake => {
                let header = self.output.get(..20)?;
                let mut reader = Reader(header);
                assert_eq!(reader.u64(), Some(OPTION_REPLY_MAGIC));
                let (option, kind, length) = (reader.u32()?, reader.u32()?, reader.u32()?);
                let whole = 20 + length as usize;
                self.output.get(..whole)?;
                if (option, kind) == (opt::STRUCTURED_REPLY, reply::ACK) {
                    self.structured = true;
                }
                if (option, kind) == (opt::GO, reply::ACK) {
                    let structured = self.structured;
                    self.phase = Phase::Transmission { structured };
                }
                Some(whole)
            }
            Phase::Transmission { structured } => {
                let mut reader = Reader(&self.output);
                match reader.u32()? {
                    SIMPLE_REPLY_MAGIC => {
                        let (error, cookie) = (reader.u32()?, reader.u64()?);
                        let data = self.open.get(&cookie).filter(|_| error == 0 && !structured);
                        let whole = 16 + data.map_or(0, |length| *length as usize);
                        self.output.get(..whole)?;
                        self.ended(cookie);
                        Some(whole)
                    }
                    STRUCTURED_REPLY_MAGIC => {
                        assert!(structured, "nobody asked for structured replies");
                        let (flags, _) = (reader.u16()?, reader.u16()?);
                        let (cookie, length) = (reader.u64()?, reader.u32()?);
                        let whole = 20 + length as usize;
                        self.output.get(..whole)?;
                        if flags & 1 == 1 {
                            self.ended(cookie);
                        } else {
                            assert!(
                                self.open.contains_key(&cookie),
                                "a chunk for {cookie}, which was answered"
                            );
                        }
                        Some(whole)
                    }
                    other => panic!("a reply with the magic {other:#x}"),
                }
            }
        }
    }

    fn ended(&mut self, cookie: u64) {
        assert!(self.open.remove(&cookie).is_some(), "request {cookie} is answered once");
        self.answered += 1;
    }

    /// Is what the connection holds within its limits?
    fn check_memory(&self) {
        let limits = config().limits;
        let limit = limits.read_bytes + limits.write_bytes + limits.stream_bytes + SLACK;
        let under_way = self.service.queue.iter().map(|submitted| match submitted.op {
            Op::Clear { .. } => 0,
            op => op.length() as usize,
        });
        let held = under_way.sum::<usize>() + self.outbox.queued_bytes() + self.inbox.len();
        assert!(held <= limit, "{held} bytes are held");
    }

    /// One option of the handshake, mostly sound.
    fn option(&mut self, input: &mut Input<'_>) {
        let numbers = [
            opt::GO,
            opt::GO,
            opt::INFO,
            opt::LIST,
            opt::STRUCTURED_REPLY,
            opt::LIST_META_CONTEXT,
            opt::SET_META_CONTEXT,
            opt::STARTTLS,
            opt::EXPORT_NAME,
            opt::ABORT,
            4,
            99,
        ];
        let number = numbers[input.below(numbers.len())];
        let name = NAMES[input.below(NAMES.len())].as_bytes();
        let sized = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
        let mut data = match number {
            opt::GO | opt::INFO => {
                let items: Vec<u16> = (0..input.below(4)).map(|_| u16::from(input.byte() & 7)).collect();
                let mut data = sized(name);
                data.extend((items.len() as u16).to_be_bytes());
                items.iter().for_each(|item| data.extend(item.to_be_bytes()));
                data
            }
            opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => {
                let queries: Vec<&str> = (0..input.below(3)).map(|_| NAMES[input.below(NAMES.len())]).collect();
                let mut data = sized(name);
                data.extend((queries.len() as u32).to_be_bytes());
                queries.iter().for_each(|query| data.extend(sized(query.as_bytes())));
                data
            }
            opt::EXPORT_NAME => name.to_vec(),
            _ => Vec::new(),
        };
        // What follows is not looked at by this client: another form of reply, or none.
        self.is_dirty |= matches!(number, opt::EXPORT_NAME | opt::ABORT | opt::STARTTLS);
        if input.below(6) == 0 {
            self.is_dirty = true;
            let at = input.place(data.len() + 1);
            match input.below(3) {
                0 => data.truncate(at),
                1 => drop(data.splice(at..at, input.take(8).iter().copied())),
                _ => {
                    let edge = input.edge().to_be_bytes();
                    data.iter_mut().skip(at).zip(edge).for_each(|(byte, new)| *byte = new);
                }
            }
        }
        let mut length = data.len() as u32;
        if input.below(24) == 0 {
            self.is_dirty = true;
            length = input.edge() as u32;
        }
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.send(&bytes);
        self.settle();
    }

    /// One request, mostly sound.
    fn request(&mut self, input: &mut Input<'_>) {
        let commands = [
            command::READ,
            command::WRITE,
            command::READ,
            command::WRITE,
            command::FLUSH,
            command::TRIM,
            command::CACHE,
            command::WRITE_ZEROES,
            command::BLOCK_STATUS,
            9,
        ];
        let number = match input.below(200) {
            0 => command::DISC,
            at => commands[at % commands.len()],
        };
        self.is_dirty |= number == command::DISC;
        let flags = if input.below(4) == 0 { input.u16() & 31 } else { 0 };
        let (offset, length) = match input.below(8) {
            0 => (input.edge(), input.edge() as u32),
            _ => (u64::from(input.u32()) % VOLUME_BYTES, input.u32() % (96 << 10)),
        };
        // Names are the client's own: one that is in use again is its affair.
        let cookie = match input.below(100) {
            0 => 0,
            _ => self.next + 1,
        };
        self.next = self.next.max(cookie);
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        if number == command::WRITE {
            // More than fits is refused, and its payload skipped: a short one of it is enough to see that.
            self.is_dirty |= length > 1 << 20;
            bytes.extend(std::iter::repeat_n(input.byte(), length.min(1 << 20) as usize));
        }
        // Replies to two of one name cannot be told apart.
        let data = if number == command::READ { length } else { 0 };
        self.is_dirty |= self.open.insert(cookie, data).is_some();
        self.send(&bytes);
    }

    fn finish(&mut self) {
        self.service.fault = None;
        self.service.refusal = None;
        for _ in 0..MAX_RETRIES {
            self.tick(RETRY);
            self.settle();
            if self.open.is_empty() || self.is_closed {
                break;
            }
        }
        if !self.is_closed && !self.is_dirty {
            assert!(self.open.is_empty(), "not answered: {:?}", self.open);
            assert!(self.output.is_empty(), "{} bytes of no reply", self.output.len());
        }
        self.front.closed(&mut self.service);
        assert_eq!(self.service.open_count, 0, "what was opened is closed");
    }
}

/// One connection.
pub fn nbd(input: &[u8]) {
    connection(input);
}

/// One connection; how many requests were answered.
pub fn connection(input: &[u8]) -> usize {
    let mut client = Client::new();
    let mut input = Input(input);
    // Most connections begin well.
    let begin = input.byte();
    client.settle();
    if begin & 7 != 0 {
        client.send(&3_u32.to_be_bytes());
        if begin & 8 != 0 {
            client.option(&mut Input(&[4]));
        }
        if begin & 0x30 != 0 {
            client.option(&mut Input(&[0, 0, 0, 1, 1]));
        }
    } else {
        client.is_dirty = true;
    }
    for _ in 0..MAX_STEPS {
        if input.is_empty() || client.is_closed {
            break;
        }
        match input.byte() {
            0..160 => match client.phase {
                Phase::Handshake => client.option(&mut input),
                Phase::Transmission { .. } => client.request(&mut input),
            },
            160..190 => {
                let queued = client.service.queue.len();
                if queued > 0 {
                    client.service.run_one(input.below(queued));
                }
                client.deliver();
            }
            190..205 => {
                client.fetch_one();
                client.end_pass();
            }
            205..220 => client.settle(),
            220..230 => {
                let errors = [IoError::Busy, IoError::Lost, IoError::NoSpace, IoError::Damaged];
                let error = errors[input.below(errors.len())];
                let place = u64::from(input.byte()) << 14;
                client.service.fault = Some((place, error)).filter(|_| input.byte() & 1 == 0);
            }
            230..251 => {
                let length = Duration::from_millis(u64::from(input.byte()));
                client.tick(length);
            }
            _ => {
                client.is_dirty = true;
                let count = input.below(40);
                let noise = input.take(count);
                client.send(noise);
            }
        }
        client.check_memory();
    }
    client.finish();
    client.answered
}
