//! A simple driver for tests: a store on a disk in memory that records what is under way, so that a test may complete
//! it in any order, cut the power at any moment, and tear what was not flushed.
#![allow(dead_code, reason = "each test uses its part of it")]

pub mod check;
pub mod cuts;
mod disk;
pub mod faults;
pub mod fixture;
pub mod image;
pub mod model;
pub mod owner;
pub mod play;
pub mod probe;
pub mod trace;

pub use disk::{Disk, Fate, Outcome};

use amita_reactor::{BufMut, FileInfo, Pool, Segments, Slice, Time};
use amita_store::{Config, Effect, FormatParams, IoId, LinkId, State, Store};
use amita_types::message::{
    Answer, AnswerBody, DataAnswer, FenceRequest, OpenRequest, OpenedAnswer, ReadRequest, Refusal, Request,
    RequestBody, Scope, Sums, WriteRequest,
};
use amita_types::{
    BLOCK_BYTES, BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, GroupIndex, NodeId, PoolId, RequestId,
    SnapshotId, StoreId, Version, VolumeId,
};
use std::io;
use std::time::Duration;
use trace::Trace;

pub const BLOCK: usize = BLOCK_BYTES as usize;
pub const SECTOR: usize = 512;
pub const STORE: StoreId = StoreId(0xabcd_0001);
pub const CLUSTER: ClusterId = ClusterId(0xc105_7e12);
pub const VOLUME: VolumeId = VolumeId(7);

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        amita_types::layout::mix(self.0)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(count + 8);
        while out.len() < count {
            out.extend_from_slice(&self.next().to_le_bytes());
        }
        out.truncate(count);
        out
    }
}

/// What is under way on the device.
#[derive(Debug)]
pub enum Flight {
    Read { io: IoId, offset: u64, buffer: BufMut },
    Write { io: IoId, offset: u64, data: Segments },
    Flush { io: IoId, up_to: u64 },
    Discard { io: IoId, offset: u64, bytes: u64 },
}

/// An answer that came out of the store.
#[derive(Debug)]
pub struct Told {
    pub link: LinkId,
    pub answer: Answer,
    pub payload: Slice,
}

/// A store with its disk, its clock and what is under way.
#[derive(Debug)]
pub struct Rig {
    pub store: Store,
    pub disk: Disk,
    pub now: Time,
    pub flights: Vec<Flight>,
    pub told: Vec<Told>,
    pub config: Config,
    pub pool: Pool,
    pub alignment: u32,
    /// Reads of these bytes fail.
    pub broken: Option<std::ops::Range<u64>>,
    /// It can be read again from then on; `None`: never.
    pub broken_until: Option<Time>,
    /// Check that nothing is written where a read is under way (rule D6).
    pub watch_pins: bool,
    /// What was sent to restore blocks: it may be written where it is read.
    pub restored: std::collections::HashSet<Vec<u8>>,
    /// What the device is told is written down here.
    pub trace: Option<Box<Trace>>,
}

pub fn params(size_bytes: u64) -> FormatParams {
    FormatParams {
        store: STORE,
        cluster: CLUSTER,
        size_bytes,
        log_bytes: None,
    }
}

/// The bytes of a fresh store.
pub fn image(params: &FormatParams) -> Vec<u8> {
    let mut image = vec![0xee; params.size_bytes as usize];
    for (offset, bytes) in amita_store::format(params).expect("the size is possible") {
        image[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
    }
    image
}

impl Rig {
    pub fn open(disk: Disk, config: Config, now: Time, alignment: u32, pool: Pool) -> Rig {
        let file = FileInfo {
            size_bytes: disk.view.len() as u64,
            alignment,
            volatile_cache: disk.volatile,
            inline: false,
            discard: disk.discards,
            discard_makes_holes: disk.punches,
            holes: false,
        };
        Rig {
            store: Store::open(config.clone(), file, pool.clone()),
            disk,
            now,
            flights: Vec::new(),
            told: Vec::new(),
            config,
            pool,
            alignment,
            broken: None,
            broken_until: None,
            watch_pins: true,
            restored: std::collections::HashSet::new(),
            trace: None,
        }
    }

    /// A fresh store, mounted.
    pub fn fresh(size_bytes: u64, volatile: bool) -> Rig {
        let disk = Disk::new(image(&params(size_bytes)), volatile);
        let mut rig = Rig::open(disk, Config::default(), Time(1), 1, Pool::heap());
        rig.run();
        assert_eq!(*rig.store.state(), State::Serving);
        rig
    }

    /// Takes what the store wants done.
    pub fn pump(&mut self) {
        for effect in self.store.effects() {
            match effect {
                Effect::Read { io, offset, buffer } => self.flights.push(Flight::Read { io, offset, buffer }),
                Effect::Write { io, offset, data } => {
                    if let Some(trace) = &mut self.trace {
                        trace.write(io, offset, joined(&data));
                    }
                    self.flights.push(Flight::Write { io, offset, data });
                }
                Effect::Flush { io } => {
                    if let Some(trace) = &mut self.trace {
                        trace.flush(io);
                    }
                    let up_to = self.disk.sequence();
                    self.flights.push(Flight::Flush { io, up_to });
                }
                Effect::Discard { io, offset, bytes } => {
                    if let Some(trace) = &mut self.trace {
                        trace.discard(io, offset, bytes);
                    }
                    // It may take effect at any moment from now on to its end.
                    self.disk.discard(offset, bytes);
                    self.flights.push(Flight::Discard { io, offset, bytes });
                }
                Effect::Answer { link, answer, payload } => self.told.push(Told { link, answer, payload }),
            }
        }
    }

    /// Ends one operation well.
    pub fn complete(&mut self, at: usize) {
        self.complete_with(at, Ok(()));
    }

    pub fn complete_with(&mut self, at: usize, result: io::Result<()>) {
        let outcome = if result.is_ok() {
            Outcome::Good
        } else {
            Outcome::Error(libc::EIO)
        };
        self.end(at, outcome, result);
    }

    /// Ends one operation well or badly.
    pub fn complete_as(&mut self, at: usize, outcome: Outcome) {
        self.end(at, outcome, outcome.result());
    }

    fn end(&mut self, at: usize, outcome: Outcome, result: io::Result<()>) {
        match self.flights.remove(at) {
            Flight::Read { io, offset, mut buffer } => {
                let range = offset..offset + buffer.len() as u64;
                let broken = self
                    .broken
                    .as_ref()
                    .is_some_and(|b| b.start < range.end && range.start < b.end)
                    && self.broken_until.is_none_or(|until| self.now < until);
                match outcome {
                    Outcome::Lost => buffer.fill(0),
                    Outcome::Misdirected(from) => {
                        let from = from as usize;
                        let bytes = buffer.len();
                        buffer.copy_from_slice(&self.disk.view[from..from + bytes]);
                    }
                    Outcome::Good | Outcome::Error(_) | Outcome::Short(_) => {
                        buffer.copy_from_slice(&self.disk.view[range.start as usize..range.end as usize]);
                    }
                }
                let result = if broken {
                    Err(io::Error::other("unreadable sector"))
                } else {
                    result
                };
                self.store.read_done(self.now, io, buffer, result);
            }
            Flight::Write { io, offset, data } => {
                let bytes = joined(&data);
                if outcome == Outcome::Good && self.watch_pins {
                    self.check_pins(offset, &bytes);
                }
                match outcome {
                    Outcome::Good => self.disk.write(offset, &bytes),
                    Outcome::Short(_) => self.disk.write(offset, &bytes[..bytes.len() / 2]),
                    Outcome::Misdirected(elsewhere) => self.disk.write(elsewhere, &bytes),
                    Outcome::Lost | Outcome::Error(_) => {}
                }
                if let Some(trace) = &mut self.trace {
                    trace.ended(io, outcome);
                }
                self.store.write_done(self.now, io, data, result);
            }
            Flight::Discard { io, offset, bytes } => {
                if outcome == Outcome::Good {
                    self.disk.discard(offset, bytes);
                }
                if let Some(trace) = &mut self.trace {
                    trace.ended(io, outcome);
                }
                self.store.discard_done(self.now, io, &result);
            }
            Flight::Flush { io, up_to } => {
                if outcome == Outcome::Good {
                    self.disk.flush(up_to);
                }
                if let Some(trace) = &mut self.trace {
                    trace.ended(io, outcome);
                }
                self.store.flush_done(self.now, io, result);
            }
        }
        self.pump();
    }

    /// Nothing is written where something else is under way, but for what restores a block: over whoever reads it.
    fn check_pins(&self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let restores = self.restored.contains(bytes);
        for flight in &self.flights {
            match flight {
                Flight::Read {
                    offset: from, buffer, ..
                } => {
                    let overlaps = *from < end && offset < from + buffer.len() as u64;
                    assert!(
                        !overlaps || restores,
                        "{} bytes written at {offset}, where a read is under way",
                        bytes.len()
                    );
                }
                Flight::Write { offset: from, data, .. } => {
                    let other = joined(data);
                    let overlaps = *from < end && offset < from + other.len() as u64;
                    assert!(
                        !overlaps || other == bytes,
                        "{} bytes written at {offset}, where others are being written",
                        bytes.len()
                    );
                }
                Flight::Flush { .. } | Flight::Discard { .. } => {}
            }
        }
    }

    /// Passes until nothing is under way.
    pub fn run(&mut self) {
        self.pump();
        for _ in 0..1_000_000 {
            self.store.end_pass(self.now);
            self.pump();
            if self.flights.is_empty() {
                if self.waits_to_read_again() {
                    continue;
                }
                return;
            }
            self.complete(0);
        }
        panic!("the store never comes to rest");
    }

    /// A mount that could not read something waits before it tries again: the time passes.
    pub fn waits_to_read_again(&mut self) -> bool {
        let again = self.store.deadline().filter(|_| *self.store.state() == State::Mounting);
        self.now = self.now.max(again.unwrap_or_default());
        again.is_some()
    }

    pub fn advance(&mut self, by: Duration) {
        self.now = self.now.plus(by);
        self.store.tick(self.now);
        self.pump();
    }

    /// What a power cut leaves: for each write that is not surely durable, all of it, nothing, or some of its sectors.
    pub fn cut(&self, rng: &mut Rng) -> Vec<u8> {
        let choices: Vec<u64> = (0..self.loose_count()).map(|_| rng.next()).collect();
        self.cut_as(|at| match choices[at] % 4 {
            0 => Fate::Lost,
            1 => Fate::Torn(choices[at]),
            _ => Fate::Kept,
        })
    }

    fn loose_count(&self) -> usize {
        let writes = self
            .flights
            .iter()
            .filter(|flight| matches!(flight, Flight::Write { .. }))
            .count();
        self.disk.cached.len() + writes
    }

    /// How many writes a power cut may lose.
    pub fn loose(&self) -> usize {
        self.loose_count()
    }

    /// What a power cut leaves, when each write that is not surely durable meets its fate.
    pub fn cut_as(&self, fate: impl Fn(usize) -> Fate) -> Vec<u8> {
        let mut image = self.disk.durable.clone();
        let cached = self.disk.cached.iter().map(|write| (write.offset, write.bytes.clone()));
        let flying = self.flights.iter().filter_map(|flight| match flight {
            Flight::Write { offset, data, .. } => Some((*offset, joined(data))),
            _ => None,
        });
        for (at, (offset, bytes)) in cached.chain(flying).enumerate() {
            let start = offset as usize;
            fate(at).strike(&mut image[start..start + bytes.len()], &bytes);
        }
        image
    }

    /// What a killed process leaves: the device keeps what it has in its cache, and some of what was under way
    /// arrives.
    pub fn killed(&self, rng: &mut Rng) -> Disk {
        let mut disk = self.disk.clone();
        for flight in &self.flights {
            if let Flight::Write { offset, data, .. } = flight
                && rng.chance(2)
            {
                disk.write(*offset, &joined(data));
            }
        }
        disk
    }

    /// The same store after a power cut.
    pub fn reopened(&self, image: Vec<u8>) -> Rig {
        self.reopened_on(Disk::new(image, self.disk.volatile))
    }

    /// The same store after its process was killed.
    pub fn reopened_on(&self, disk: Disk) -> Rig {
        let mut rig = Rig::open(disk, self.config.clone(), self.now, self.alignment, self.pool.clone());
        rig.watch_pins = self.watch_pins;
        rig.restored.clone_from(&self.restored);
        rig
    }

    pub fn send(&mut self, link: LinkId, request: Request, payload: Slice) {
        self.store.request(self.now, link, request, payload);
        self.pump();
    }

    /// The answer to a request, if it has come.
    pub fn take(&mut self, link: LinkId, id: RequestId) -> Option<Told> {
        take(&mut self.told, link, id)
    }
}

/// The answer to a request, if it is among what was told.
pub fn take(told: &mut Vec<Told>, link: LinkId, id: RequestId) -> Option<Told> {
    let at = told.iter().position(|told| told.link == link && told.answer.id == id)?;
    Some(told.remove(at))
}

/// What a store runs on, so that a [`Requester`] can ask it.
pub trait Host {
    /// Sends, runs to the end, time included, and returns the answer.
    fn ask(&mut self, link: LinkId, request: Request, payload: Slice) -> Told;
}

impl Host for Rig {
    fn ask(&mut self, link: LinkId, request: Request, payload: Slice) -> Told {
        let id = request.id;
        self.send(link, request, payload);
        for _ in 0..1000 {
            self.run();
            if let Some(told) = self.take(link, id) {
                return told;
            }
            let at = self.store.deadline().expect("what is not answered waits for something");
            self.now = self.now.max(at);
            self.store.tick(self.now);
            self.pump();
        }
        panic!("request {id} is never answered");
    }
}

/// Makes requests as one sequencer would.
#[derive(Clone, Debug)]
pub struct Requester {
    pub link: LinkId,
    pub volume: VolumeId,
    pub generation: Generation,
    pub epoch: Epoch,
    pub blocks_per_chunk: u16,
    /// The store is being brought up to date.
    pub syncing: bool,
    next: u64,
}

impl Requester {
    pub fn new(link: u64) -> Requester {
        Requester {
            link: LinkId(link),
            volume: VOLUME,
            generation: Generation(1),
            epoch: Epoch(1),
            blocks_per_chunk: 1024,
            syncing: false,
            next: link << 40,
        }
    }

    pub fn scope(&self) -> Scope {
        Scope {
            volume: self.volume,
            generation: self.generation,
            group: GroupId {
                pool: PoolId(1),
                index: GroupIndex(0),
            },
            epoch: self.epoch,
            snapshot: SnapshotId::HEAD,
        }
    }

    pub fn request(&mut self, body: RequestBody) -> Request {
        self.next += 1;
        Request {
            id: RequestId(self.next),
            store: STORE,
            scope: self.scope(),
            trace: amita_types::TraceId::NONE,
            purpose: Default::default(),
            body,
        }
    }

    pub fn fence_request(&mut self) -> Request {
        let mut in_sync = Vec::new();
        let mut syncing = Vec::new();
        if self.syncing {
            syncing.push(STORE);
        } else {
            in_sync.push(STORE);
        }
        in_sync.push(StoreId(0xabcd_0002));
        self.request(RequestBody::Fence(FenceRequest {
            syncing,
            owner: NodeId(self.link.0 as u32),
            in_sync,
            blocks_per_chunk: self.blocks_per_chunk,
            given_back: None,
        }))
    }

    pub fn write_request(
        &mut self,
        chunk: u64,
        offset: u32,
        bytes: &[u8],
        version: Version,
        previous: Version,
    ) -> Request {
        self.request(RequestBody::Write(WriteRequest {
            chunk: ChunkIndex(chunk),
            offset_bytes: offset,
            length_bytes: bytes.len() as u32,
            version,
            previous,
            sums: sums(offset, bytes),
        }))
    }

    pub fn read_request(&mut self, chunk: u64, first: u16, count: u16, least: Version) -> Request {
        self.request(RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(chunk),
            range: BlockRange::new(first, count),
            least,
            versions: false,
            newest: None,
        }))
    }

    /// Sends, runs to the end, and returns the answer.
    pub fn ask(&mut self, rig: &mut impl Host, request: Request, payload: Slice) -> Told {
        rig.ask(self.link, request, payload)
    }

    pub fn fence(&mut self, rig: &mut impl Host) -> Result<AnswerBody, Refusal> {
        let request = self.fence_request();
        self.ask(rig, request, Slice::default()).answer.result
    }

    pub fn write(
        &mut self,
        rig: &mut impl Host,
        chunk: u64,
        offset: u32,
        bytes: &[u8],
        version: Version,
        previous: Version,
    ) -> Result<AnswerBody, Refusal> {
        let request = self.write_request(chunk, offset, bytes, version, previous);
        self.ask(rig, request, Slice::copy_from(bytes)).answer.result
    }

    /// The bytes of some blocks, and the version of the answer.
    pub fn read(
        &mut self,
        rig: &mut impl Host,
        chunk: u64,
        first: u16,
        count: u16,
    ) -> Result<(Vec<u8>, Version), Refusal> {
        let request = self.read_request(chunk, first, count, Version::NONE);
        let told = self.ask(rig, request, Slice::default());
        match told.answer.result? {
            AnswerBody::Data(DataAnswer { version, sums, .. }) => Ok((data(count, &told.payload, &sums), version)),
            other => panic!("a read was answered with {other:?}"),
        }
    }

    pub fn open(&mut self, rig: &mut impl Host, chunk: u64) -> Version {
        let request = self.request(RequestBody::Open(OpenRequest {
            chunk: ChunkIndex(chunk),
        }));
        match self.ask(rig, request, Slice::default()).answer.result {
            Ok(AnswerBody::Opened(OpenedAnswer {
                version,
                incomplete: None,
                ..
            })) => version,
            other => panic!("an open was answered with {other:?}"),
        }
    }
}

/// The bytes of a read's answer, checked against the sums that came with it.
pub fn data(count: u16, payload: &[u8], sums: &[u32]) -> Vec<u8> {
    if payload.is_empty() {
        assert!(sums.is_empty());
        return vec![0; usize::from(count) * BLOCK];
    }
    assert_eq!(payload.len(), usize::from(count) * BLOCK);
    assert_eq!(sums.len(), usize::from(count));
    for (block, sum) in payload.chunks(BLOCK).zip(sums) {
        assert_eq!(
            amita_types::crc32c(block),
            *sum,
            "a block is not what its checksum says"
        );
    }
    payload.to_vec()
}

/// The checksums of a payload's pieces.
pub fn sums(offset: u32, bytes: &[u8]) -> Sums {
    let head = (BLOCK - offset as usize % BLOCK).min(bytes.len());
    let (head, rest) = bytes.split_at(head);
    std::iter::once(head)
        .chain(rest.chunks(BLOCK))
        .map(amita_types::crc32c)
        .collect()
}

pub fn version(generation: u32, counter: u64) -> Version {
    Version::new(Generation(generation), counter).expect("a small version")
}

pub fn joined(data: &Segments) -> Vec<u8> {
    data.iter().flat_map(|slice| slice.iter().copied()).collect()
}
