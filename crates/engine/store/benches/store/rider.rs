//! A store on the real driver, ridden as a core of a node rides it: pass by pass, with a sequencer of one volume in
//! place of the node. All that the benchmark knows of the store's interface is in this room.

use crate::measure::{Meter, Window};
use crate::shape::{Places, Shape};
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Completion, Driver, FileId, FileInfo, Outcome, Pool, PoolConfig, Segments, Slice, Token, Wait};
use amita_store::format::superblock;
use amita_store::{Config, Counters, Effect, Format, FormatParams, IoId, LinkId, State, Status, Store};
use amita_types::message::{
    AnswerBody, DataAnswer, FenceRequest, OpenRequest, OpenedAnswer, ReadRequest, Request, RequestBody, Scope, Sums,
    WriteRequest,
};
use amita_types::{
    BLOCK_BYTES, BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, MAX_BLOCKS_PER_CHUNK, MAX_IO_BYTES,
    NodeId, RequestId, SnapshotId, StoreId, Version, VolumeId,
};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = MAX_BLOCKS_PER_CHUNK as u64 * BLOCK_BYTES as u64;
const STORE: StoreId = StoreId(1);
const VOLUME: VolumeId = VolumeId(1);
const LINK: LinkId = LinkId(1);
/// Requests under way while the volume is filled: their payload takes half of its class of the pool.
const FILL_DEPTH: usize = 64;
/// Tokens that are none of the store's: of the driver alone, of the timer.
const ALONE: u64 = 1 << 62;
const TIMER: u64 = ALONE + 1;

/// Makes a store's file, every byte written; returns when all of it is on the disk.
pub fn make(path: &Path, store_bytes: u64, log_bytes: Option<u64>) -> io::Result<()> {
    let mut file = File::create(path)?;
    for (offset, bytes) in format(store_bytes, log_bytes)? {
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(&bytes)?;
    }
    file.sync_all()
}

/// Makes a store's file that is larger than its disk: the log and the superblocks are written, all other zeros are left
/// to be holes.
pub fn make_sparse(path: &Path, store_bytes: u64, log_bytes: Option<u64>) -> io::Result<()> {
    const STEP: usize = 1 << 20;
    let mut file = File::create(path)?;
    file.set_len(store_bytes)?;
    let format = format(store_bytes, log_bytes)?;
    let geometry = format.superblock().geometry;
    file.seek(SeekFrom::Start(geometry.log_offset))?;
    let zeros = vec![0; STEP];
    let mut left = geometry.log_pages * u64::from(BLOCK_BYTES);
    while left > 0 {
        let bytes = left.min(STEP as u64);
        file.write_all(&zeros[..bytes as usize])?;
        left -= bytes;
    }
    for offset in superblock::OFFSETS {
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(&format.superblock().encode())?;
    }
    file.sync_all()
}

fn format(size_bytes: u64, log_bytes: Option<u64>) -> io::Result<Format> {
    let params = FormatParams {
        store: STORE,
        cluster: ClusterId(1),
        size_bytes,
        log_bytes,
    };
    amita_store::format(&params).map_err(io::Error::other)
}

/// How what is in a disk's volatile cache becomes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durable {
    /// As a node has it: the driver writes through the cache.
    #[default]
    ByWrite,
    /// By flushes that the store asks for.
    ByFlush,
    /// Not at all: the disk is taken for one that keeps what it has acknowledged.
    Kept,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// How what a volatile cache holds becomes durable.
    pub durable: Durable,
    /// The budget of memory for the index, in bytes.
    pub index_bytes: Option<u64>,
    /// Do not write payload: only what the store itself must find again. (For stores larger than their disk.)
    pub payload_is_dropped: bool,
}

/// A store, its driver, and whoever asks it.
pub struct Rider {
    driver: UringDriver,
    file: FileId,
    info: FileInfo,
    store: Store,
    completions: Vec<Completion>,
    versions: Vec<Version>,
    /// The newest snapshot, which writes carry, and the one that is read.
    snapshot: SnapshotId,
    read_at: SnapshotId,
    next: u64,
    under_way: usize,
    /// Operations of the store on its device that have not ended.
    device_ops: usize,
    payloads: Vec<(Slice, Sums)>,
    opening: Opening,
    /// Writes that are looked at first, and those that are done without having been written.
    held: Vec<(IoId, u64, Segments)>,
    dropped: Vec<(IoId, Segments)>,
}

impl Rider {
    /// Mounts the store of a file; says how long that took, or why it is not served.
    pub fn open(path: &Path, chunks: u64, opening: Opening) -> Result<(Rider, Duration), String> {
        let pool = Pool::new(PoolConfig::default()).map_err(|error| format!("no memory for buffers: {error}"))?;
        let settings = UringConfig {
            write_through: opening.durable == Durable::ByWrite,
            ..UringConfig::default()
        };
        let mut driver = UringDriver::new(settings, pool).map_err(|error| error.to_string())?;
        let (file, mut info) = driver.open(path).map_err(|error| error.to_string())?;
        info.volatile_cache &= opening.durable != Durable::Kept;
        let mut config = Config::default();
        config.index_bytes = opening.index_bytes.unwrap_or(config.index_bytes);
        let started = Instant::now();
        let store = Store::open(config, info.clone(), driver.pool().clone());
        let mut rider = Rider {
            driver,
            file,
            info,
            store,
            completions: Vec::new(),
            versions: vec![Version::NONE; chunks as usize],
            snapshot: SnapshotId::HEAD,
            read_at: SnapshotId::HEAD,
            next: 0,
            under_way: 0,
            device_ops: 0,
            payloads: Vec::new(),
            opening,
            held: Vec::new(),
            dropped: Vec::new(),
        };
        while *rider.store.state() == State::Mounting {
            rider.pass();
        }
        if *rider.store.state() != State::Serving {
            return Err(format!("the store is not served: {:?}", rider.store.state()));
        }
        let mounted = started.elapsed();
        rider.fence();
        rider.learn_versions();
        Ok((rider, mounted))
    }

    /// What was found out of the file.
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    pub fn status(&self) -> Status {
        self.store.status()
    }

    pub fn counters(&self) -> Counters {
        self.store.status().counters
    }

    /// Chunks of the volume.
    pub fn chunks(&self) -> u64 {
        self.versions.len() as u64
    }

    fn ask(&mut self, body: RequestBody, payload: Slice) {
        self.next += 1;
        self.under_way += 1;
        let snapshot = match body {
            RequestBody::Write(_) => self.snapshot,
            RequestBody::Read(_) => self.read_at,
            _ => SnapshotId::HEAD,
        };
        let request = Request {
            id: RequestId(self.next),
            store: STORE,
            scope: Scope {
                volume: VOLUME,
                generation: Generation(1),
                group: GroupId::default(),
                epoch: Epoch(1),
                snapshot,
            },
            trace: amita_types::TraceId::NONE,
            purpose: Default::default(),
            body,
        };
        let now = self.driver.now();
        self.store.request(now, LINK, request, payload);
    }

    fn fence(&mut self) {
        let body = RequestBody::Fence(FenceRequest {
            syncing: Vec::new(),
            owner: NodeId(1),
            in_sync: vec![STORE],
            blocks_per_chunk: MAX_BLOCKS_PER_CHUNK as u16,
            given_back: None,
        });
        self.ask(body, Slice::default());
        self.drain();
    }

    /// Opens every chunk, as an owner does on its first touch.
    fn learn_versions(&mut self) {
        for chunk in 0..self.chunks() {
            // The answers come in the order of the questions: nothing is under way that an opening waits for.
            let body = RequestBody::Open(OpenRequest {
                chunk: ChunkIndex(chunk),
            });
            self.ask(body, Slice::default());
            for effect in self.store.effects() {
                match effect {
                    Effect::Answer { answer, .. } => match answer.result {
                        Ok(AnswerBody::Opened(OpenedAnswer {
                            version,
                            incomplete: None,
                            ..
                        })) => self.versions[chunk as usize] = version,
                        other => panic!("a chunk was opened and the answer is {other:?}"),
                    },
                    other => panic!("a chunk was opened and the store wants {other:?}"),
                }
                self.under_way -= 1;
            }
        }
        self.drain();
    }

    fn write(&mut self, place: u64, bytes: u32) {
        let (chunk, offset) = (place / CHUNK_BYTES, (place % CHUNK_BYTES) as u32);
        let previous = self.versions[chunk as usize];
        let version = previous.next(Generation(1)).expect("few writes");
        self.versions[chunk as usize] = version;
        let (payload, sums) = self.payloads[self.next as usize % self.payloads.len()].clone();
        let body = RequestBody::Write(WriteRequest {
            chunk: ChunkIndex(chunk),
            offset_bytes: offset,
            length_bytes: bytes,
            version,
            previous,
            sums,
        });
        self.ask(body, payload);
    }

    fn read(&mut self, place: u64, bytes: u32) {
        let (chunk, offset) = (place / CHUNK_BYTES, (place % CHUNK_BYTES) as u32);
        let body = RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(chunk),
            range: BlockRange::of_bytes(offset, bytes),
            least: Version::NONE,
            versions: false,
            newest: None,
        });
        self.ask(body, Slice::default());
    }

    /// Different data for each request under way.
    fn prepare(&mut self, shape: Shape) {
        let fits = self.payloads.len() == shape.depth
            && self
                .payloads
                .first()
                .is_some_and(|(payload, _)| payload.len() == shape.block_bytes as usize);
        if fits || !shape.write {
            return;
        }
        self.payloads.clear();
        for seed in 0..shape.depth {
            let mut data = self
                .driver
                .pool()
                .take(shape.block_bytes as usize)
                .expect("few buffers");
            let mut word = seed as u64;
            for bytes in data.chunks_exact_mut(8) {
                word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
                bytes.copy_from_slice(&amita_types::layout::mix(word).to_le_bytes());
            }
            let sums = data.chunks(BLOCK_BYTES as usize).map(amita_types::crc32c).collect();
            self.payloads.push((data.freeze(), sums));
        }
    }

    /// Carries out what the store wants; returns how many answers there were.
    fn carry_out(&mut self) -> usize {
        let mut answered = 0;
        for effect in self.store.effects() {
            self.device_ops += usize::from(!matches!(effect, Effect::Answer { .. }));
            match effect {
                Effect::Read { io, offset, buffer } => self.driver.read(self.file, offset, buffer, Token(io.0)),
                Effect::Write { io, offset, data } if self.opening.payload_is_dropped => {
                    self.held.push((io, offset, data));
                }
                Effect::Write { io, offset, data } => self.driver.write(self.file, offset, data, Token(io.0)),
                Effect::Flush { io } => self.driver.flush(self.file, Token(io.0)),
                Effect::Discard { io, offset, bytes } => self.driver.discard(self.file, offset, bytes, Token(io.0)),
                Effect::Answer { answer, payload, .. } => {
                    match answer.result {
                        Ok(AnswerBody::Data(DataAnswer { sums, .. })) => {
                            assert_eq!(payload.len(), sums.len() * BLOCK_BYTES as usize, "a block without data");
                        }
                        Ok(_) => {}
                        Err(refusal) => panic!("the store refused: {refusal:?}"),
                    }
                    answered += 1;
                }
            }
        }
        for (io, offset, data) in self.held.drain(..) {
            if data.iter().all(|piece| is_one_of(&self.payloads, piece)) {
                self.dropped.push((io, data));
            } else {
                self.driver.write(self.file, offset, data, Token(io.0));
            }
        }
        self.under_way -= answered;
        answered
    }

    /// One pass, as a core of a node makes it; returns how many requests were answered.
    pub fn pass(&mut self) -> usize {
        self.store.end_pass(self.driver.now());
        let mut answered = self.carry_out();
        let idle = answered == 0 && self.dropped.is_empty();
        let wait = if idle { Wait::UntilEvent } else { Wait::No };
        self.driver.poll(wait, &mut self.completions);
        let now = self.driver.now();
        for (io, data) in self.dropped.drain(..) {
            self.device_ops -= 1;
            self.store.write_done(now, io, data, Ok(()));
        }
        for completion in self.completions.drain(..) {
            let io = IoId(completion.token.0);
            match completion.outcome {
                Outcome::Read { buffer, result } => self.store.read_done(now, io, buffer, result),
                Outcome::Written { data, result } => self.store.write_done(now, io, data, result),
                Outcome::Discarded { result } => self.store.discard_done(now, io, &result),
                Outcome::Flushed { result } => self.store.flush_done(now, io, result),
                _ => continue,
            }
            self.device_ops -= 1;
        }
        answered += self.carry_out();
        answered
    }

    /// Waits for all answers, and until the store leaves its device alone: a checkpoint goes on after the last answer.
    pub fn drain(&mut self) {
        while self.under_way > 0 || self.device_ops > 0 {
            self.pass();
        }
    }

    /// Lets the store do what it does when nobody asks anything.
    pub fn idle(&mut self, time: Duration) {
        let until = self.driver.now().plus(time);
        while self.driver.now() < until {
            let next = self.store.deadline().map_or(until, |at| at.min(until));
            self.driver.timer(next, Token(TIMER));
            self.pass();
            self.store.tick(self.driver.now());
        }
    }

    /// Writes every block of the volume once, or the first `blocks` of each chunk, with large writes.
    pub fn fill(&mut self, blocks: u32) {
        let block_bytes = MAX_IO_BYTES.min(blocks * BLOCK_BYTES);
        self.prepare(Shape::write(block_bytes, FILL_DEPTH));
        for chunk in 0..self.chunks() {
            for offset in (0..blocks * BLOCK_BYTES).step_by(block_bytes as usize) {
                self.write(chunk * CHUNK_BYTES + u64::from(offset), block_bytes);
                while self.under_way >= FILL_DEPTH {
                    self.pass();
                }
            }
        }
        self.drain();
    }

    /// Writes from now on carry the next number.
    pub fn take_snapshot(&mut self) {
        self.snapshot.0 += 1;
    }

    /// Writes one block, and waits for it where many are under way.
    pub fn write_one(&mut self, place: u64) {
        self.prepare(Shape::write(BLOCK_BYTES, FILL_DEPTH));
        self.write(place, BLOCK_BYTES);
        while self.under_way >= FILL_DEPTH {
            self.pass();
        }
    }

    /// What random reads of single blocks of a snapshot do in `time`.
    pub fn read_snapshot(&mut self, at: u32, time: Duration) -> Window {
        self.drain();
        self.read_at = SnapshotId(at);
        let window = self.window(Shape::read(BLOCK_BYTES, 1), &mut Places::new(8), time);
        self.read_at = SnapshotId::HEAD;
        window
    }

    /// Keeps as many requests under way as the shape says, until `go_on` says no (it is told how many were answered in
    /// all); what is under way then goes on.
    pub fn load(&mut self, shape: Shape, places: &mut Places, mut go_on: impl FnMut(&Rider, u64) -> bool) {
        self.prepare(shape);
        let span = self.chunks() * CHUNK_BYTES;
        let mut done = 0;
        while go_on(self, done) {
            while self.under_way < shape.depth {
                let place = places.next(span, shape);
                if shape.write {
                    self.write(place, shape.block_bytes);
                } else {
                    self.read(place, shape.block_bytes);
                }
            }
            done += self.pass() as u64;
        }
    }

    /// What a load does in `time`.
    pub fn window(&mut self, shape: Shape, places: &mut Places, time: Duration) -> Window {
        self.prepare(shape);
        let meter = Meter::start();
        let mut ios = 0;
        self.load(shape, places, |_, done| {
            ios = done;
            meter.elapsed() < time
        });
        let window = meter.end(ios, shape);
        self.drain();
        window
    }

    /// What the same driver does on a region of the same file without a store.
    pub fn alone(&mut self, shape: Shape, region: (u64, u64), places: &mut Places, time: Duration) -> Window {
        self.prepare(shape);
        assert_eq!(self.device_ops, 0, "the store is at rest");
        let (start, span) = region;
        let (mut under_way, mut ios) = (0, 0);
        let mut spare: Vec<Segments> = Vec::new();
        let meter = Meter::start();
        let mut window = None;
        while window.is_none() || under_way > 0 {
            while window.is_none() && under_way < shape.depth {
                let offset = start + places.next(span, shape);
                if shape.write {
                    let mut data = spare.pop().unwrap_or_default();
                    data.push(self.payloads[ios as usize % self.payloads.len()].0.clone());
                    self.driver.write(self.file, offset, data, Token(ALONE));
                } else {
                    let buffer = self.driver.pool().take(shape.block_bytes as usize);
                    let buffer = buffer.expect("as many buffers as requests");
                    self.driver.read(self.file, offset, buffer, Token(ALONE));
                }
                under_way += 1;
            }
            self.driver.poll(Wait::UntilEvent, &mut self.completions);
            for completion in self.completions.drain(..) {
                if completion.token != Token(ALONE) {
                    continue;
                }
                match completion.outcome {
                    Outcome::Read { result, .. } => result.expect("a read"),
                    Outcome::Written { mut data, result } => {
                        result.expect("a write");
                        data.clear();
                        spare.push(data);
                    }
                    other => panic!("a read or a write ended as {other:?}"),
                }
                under_way -= 1;
                ios += 1;
            }
            if window.is_none() && meter.elapsed() >= time {
                window = Some(meter.end(ios, shape));
            }
        }
        window.expect("the loop ends with one")
    }
}

fn is_one_of(payloads: &[(Slice, Sums)], piece: &Slice) -> bool {
    let at = piece.as_ptr_range();
    payloads.iter().any(|(payload, _)| {
        let range = payload.as_ptr_range();
        range.start <= at.start && at.end <= range.end
    })
}
