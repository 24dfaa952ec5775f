//! A client by hand against a front over volumes in memory: bytes in, bytes out.

mod changes;
mod commands;
mod handshake;
mod hostile;
mod limits;
mod ranges;
mod tls;

use super::wire::{OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, Reader, command, option as opt, reply};
use super::{Config, NbdFront};
use amita_frontend::front::{CloseReason, Flow, Front};
use amita_frontend::memory::{MemoryService, Volumes};
use amita_frontend::service::{FrontId, Who};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use amita_types::VolumeId;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const FRONT: FrontId = FrontId(7);

/// A client, the front that serves it, and the storage beneath.
struct Client {
    front: NbdFront,
    inbox: Inbox,
    outbox: Outbox,
    pool: Pool,
    service: MemoryService,
    volumes: Volumes,
    volume: VolumeId,
    now: Time,
    /// What the server sent and the client has not looked at.
    output: Vec<u8>,
    closed: Option<CloseReason>,
    /// Does the client fetch what it is sent?
    fetches: bool,
    /// Is I/O carried out as soon as it is submitted?
    runs: bool,
}

/// A reply to an option.
#[derive(Debug, PartialEq, Eq)]
struct OptionReply {
    option: u32,
    kind: u32,
    data: Vec<u8>,
}

/// A chunk of a structured reply.
#[derive(Debug, PartialEq, Eq)]
struct Chunk {
    flags: u16,
    kind: u16,
    cookie: u64,
    payload: Vec<u8>,
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn info(name: &str, items: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((items.len() as u16).to_be_bytes());
    items.iter().for_each(|item| data.extend(item.to_be_bytes()));
    data
}

fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn write(cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut bytes = request(0, command::WRITE, cookie, offset, data.len() as u32);
    bytes.extend(data);
    bytes
}

/// Bytes that differ from place to place.
fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

impl Client {
    fn with(config: Config, size_bytes: u64, chunk_bytes: u32) -> Client {
        Client::of(Who::Stranger, config, size_bytes, chunk_bytes)
    }

    fn of(who: Who, config: Config, size_bytes: u64, chunk_bytes: u32) -> Client {
        let pool = Pool::heap();
        let volumes = Volumes::new();
        let volume = volumes.add("vol", size_bytes, chunk_bytes, false);
        let mut outbox = Outbox::new();
        let front = NbdFront::accept(Arc::new(config), FRONT, who, Time(0), &mut outbox);
        Client {
            front,
            inbox: Inbox::new(),
            outbox,
            service: MemoryService::new(volumes.clone(), pool.clone()),
            pool,
            volumes,
            volume,
            now: Time(0),
            output: Vec::new(),
            closed: None,
            fetches: true,
            runs: true,
        }
    }

    fn new() -> Client {
        Client::with(Config::default(), 16 * MIB, 1 << 20)
    }

    /// Behind the greeting and the client's flags.
    fn greeted() -> Client {
        Client::greeted_as(Who::Stranger)
    }

    fn greeted_as(who: Who) -> Client {
        let mut client = Client::of(who, Config::default(), 16 * MIB, 1 << 20);
        client.settle();
        assert_eq!(
            client.take(18),
            *b"NBDMAGICIHAVEOPT\x00\x03",
            "the greeting of fixed newstyle without zeroes"
        );
        client.send(&3u32.to_be_bytes());
        client
    }

    /// In the transmission phase.
    fn started(structured: bool) -> Client {
        let mut client = Client::greeted();
        client.start(structured);
        client
    }

    fn start(&mut self, structured: bool) {
        if structured {
            self.send(&option(opt::STRUCTURED_REPLY, &[]));
            self.send(&option(opt::SET_META_CONTEXT, &meta("vol", &["base:allocation"])));
        }
        self.send(&option(opt::GO, &info("vol", &[])));
        let last = self.option_replies().pop().expect("a reply to GO");
        assert_eq!((last.option, last.kind), (opt::GO, reply::ACK));
    }

    /// Notes how a call ended.
    fn note(&mut self, flow: Flow) {
        if let Flow::Close { reason } = flow {
            self.closed.get_or_insert(reason);
        }
    }

    /// Sends bytes to the server, as one receive would bring them, and lets everything happen that follows.
    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.closed.is_none() {
            assert!(self.front.wants_input(), "the server wants no more");
            let now = self.receive(rest);
            rest = &rest[now..];
            self.settle();
        }
        self.settle();
    }

    fn receive(&mut self, bytes: &[u8]) -> usize {
        let class = self.front.receive_bytes();
        let mut buffer = self.inbox.start_receive(&self.pool, class).expect("memory");
        let count = buffer.len().min(bytes.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.inbox.received(buffer, count);
        let flow = self.front.received(
            self.now,
            &mut self.inbox,
            &mut self.outbox,
            &self.pool,
            &mut self.service,
        );
        self.note(flow);
        count
    }

    /// One end of a pass, and the sends that follow.
    fn end_pass(&mut self) {
        let flow = self.front.end_pass(
            self.now,
            &mut self.inbox,
            &mut self.outbox,
            &self.pool,
            &mut self.service,
        );
        self.note(flow);
    }

    fn deliver(&mut self) -> bool {
        let mut any = false;
        while self.closed.is_none()
            && let Some((front, event)) = self.service.events.pop_front()
        {
            assert_eq!(front, FRONT);
            let flow = self
                .front
                .event(self.now, event, &mut self.outbox, &self.pool, &mut self.service);
            self.note(flow);
            any = true;
        }
        any
    }

    /// The client fetches one send.
    fn fetch(&mut self) -> bool {
        let Some(segments) = self.outbox.next_send() else {
            return false;
        };
        segments
            .iter()
            .for_each(|segment| self.output.extend_from_slice(segment));
        self.outbox.sent(segments);
        true
    }

    /// Everything happens until nothing does.
    fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if self.closed.is_some() {
                return;
            }
            let mut any = false;
            if self.runs {
                self.service.run();
            }
            any |= self.deliver();
            self.end_pass();
            any |= self.fetches && self.fetch();
            any |= self.runs && !self.service.queue.is_empty() || !self.service.events.is_empty();
            if !any {
                self.end_pass();
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        assert!(
            self.output.len() >= count,
            "{} bytes were sent, not {count}",
            self.output.len()
        );
        self.output.drain(..count).collect()
    }

    /// All replies to options that were sent.
    fn option_replies(&mut self) -> Vec<OptionReply> {
        let mut replies = Vec::new();
        while !self.output.is_empty() {
            let header = self.take(20);
            let mut reader = Reader(&header);
            assert_eq!(reader.u64(), Some(OPTION_REPLY_MAGIC));
            let (option, kind) = (reader.u32().unwrap(), reader.u32().unwrap());
            let data = self.take(reader.u32().unwrap() as usize);
            replies.push(OptionReply { option, kind, data });
        }
        replies
    }

    /// The one reply to an option that was sent.
    fn option_reply(&mut self) -> OptionReply {
        let mut replies = self.option_replies();
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies.remove(0)
    }

    /// A simple reply: its cookie and its error.
    fn simple(&mut self) -> (u64, u32) {
        let bytes = self.take(16);
        let mut reader = Reader(&bytes);
        assert_eq!(reader.u32(), Some(super::wire::SIMPLE_REPLY_MAGIC));
        let error = reader.u32().unwrap();
        (reader.u64().unwrap(), error)
    }

    /// All chunks that were sent.
    fn chunks(&mut self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        while !self.output.is_empty() {
            let header = self.take(20);
            let mut reader = Reader(&header);
            assert_eq!(reader.u32(), Some(super::wire::STRUCTURED_REPLY_MAGIC));
            let (flags, kind, cookie) = (reader.u16().unwrap(), reader.u16().unwrap(), reader.u64().unwrap());
            let payload = self.take(reader.u32().unwrap() as usize);
            chunks.push(Chunk {
                flags,
                kind,
                cookie,
                payload,
            });
        }
        chunks
    }

    /// What a structured read brought, checked to be whole and without overlap; or the first error.
    fn structured_read(&mut self, cookie: u64, offset: u64, length: usize) -> Result<Vec<u8>, u32> {
        use super::wire::chunk;
        let chunks = self.chunks();
        let mut data = vec![None; length];
        let mut error = None;
        let (last, others) = chunks.split_last().expect("a reply has a chunk");
        assert_eq!(last.flags, chunk::FLAG_DONE);
        assert!(
            others.iter().all(|chunk| chunk.flags == 0),
            "only the last chunk is the last"
        );
        for chunk in &chunks {
            assert_eq!(chunk.cookie, cookie);
            let mut reader = Reader(&chunk.payload);
            match chunk.kind {
                chunk::OFFSET_DATA | chunk::OFFSET_HOLE => {
                    let at = (reader.u64().unwrap() - offset) as usize;
                    let bytes = match chunk.kind {
                        chunk::OFFSET_DATA => reader.0.to_vec(),
                        _ => vec![0; reader.u32().unwrap() as usize],
                    };
                    assert!(!bytes.is_empty());
                    for (place, byte) in data[at..at + bytes.len()].iter_mut().zip(bytes) {
                        assert!(place.replace(byte).is_none(), "chunks overlap");
                    }
                }
                chunk::NONE => {}
                chunk::ERROR | chunk::ERROR_OFFSET => error = error.or(reader.u32()),
                other => panic!("chunk of kind {other}"),
            }
        }
        match error {
            Some(error) => Err(error),
            None => Ok(data
                .into_iter()
                .map(|byte| byte.expect("chunks leave no gap"))
                .collect()),
        }
    }

    /// Bytes that this connection holds: queued to be sent, under way in the volume, known of its allocation, and not parsed.
    fn held_bytes(&self) -> usize {
        let under_way: usize = self
            .service
            .queue
            .iter()
            .map(|submitted| match submitted.op {
                amita_types::io::Op::Clear { .. } => 0,
                op => op.length() as usize,
            })
            .sum();
        self.outbox.queued_bytes() + under_way + self.front.extent_bytes() + self.inbox.len()
    }
}
