//! A storage service in memory, for tests and examples: volumes that any number of connections share, and a host loop
//! over blocking sockets. It is honest about what the trait asks for (lengths, chunks, blocks) and panics where a front
//! breaks that; it can hold I/O back, reorder it, and fail it.

mod serve;

use crate::compute::Computation;
use crate::register::RegisterMessage;
use crate::reservation;
use crate::service::{
    Bases, Event, Export, FrontId, HostKey, OpenError, Source, StorageService, VolumeInfo, Who, snapshot_named,
};
use amita_reactor::{Pool, Slice};
use amita_types::io::{ChangedChunks, Differs, IoError, Op, Payload};
use amita_types::{BLOCK_BYTES, BlockRange, MAX_IO_BLOCKS, MAX_IO_BYTES, SnapshotId, VolumeId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use serve::{Accept, Accepted, Connection, Server, serve};

/// The blocks of a chunk at the most: what an allocation bitmap has room for.
const MAX_CHUNK_BYTES: u32 = 1024 * BLOCK_BYTES;

#[derive(Debug)]
struct Volume {
    info: VolumeInfo,
    chunks: BTreeMap<u64, Chunk>,
    /// The names of its snapshots: the first has number 1. What they hold is not kept, only what was changed since.
    snapshots: Vec<String>,
    reservation: Arc<reservation::State>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    allocated: [u64; 16],
    /// How many snapshots there were when a block was changed last; none: it never was.
    changed: Vec<Option<usize>>,
}

/// Volumes in memory, shared by all connections.
#[derive(Clone, Debug, Default)]
pub struct Volumes(Arc<Mutex<Vec<Volume>>>);

impl Volumes {
    /// None yet.
    #[must_use]
    pub fn new() -> Volumes {
        Volumes::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Volume>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an empty volume.
    ///
    /// # Panics
    /// When the chunk size is not one of a pool's.
    pub fn add(&self, name: &str, size_bytes: u64, chunk_bytes: u32, read_only: bool) -> VolumeId {
        assert!(crate::pieces::is_chunk_size(chunk_bytes) && chunk_bytes <= MAX_CHUNK_BYTES);
        assert!(
            size_bytes.is_multiple_of(BLOCK_BYTES.into()),
            "a volume is whole blocks"
        );
        let mut volumes = self.lock();
        let id = VolumeId(volumes.len() as u64 + 1);
        let info = VolumeInfo {
            id,
            snapshot: SnapshotId::HEAD,
            name: name.into(),
            size_bytes,
            chunk_bytes,
            read_only,
        };
        volumes.push(Volume {
            info,
            chunks: BTreeMap::new(),
            snapshots: Vec::new(),
            reservation: Arc::default(),
        });
        id
    }

    /// Reads any range, for comparison.
    ///
    /// # Panics
    /// When there is no such volume.
    #[must_use]
    pub fn read(&self, id: VolumeId, offset: u64, length: usize) -> Vec<u8> {
        let volumes = self.lock();
        let volume = volumes
            .iter()
            .find(|volume| volume.info.id == id)
            .expect("the volume exists");
        let chunk_bytes = u64::from(volume.info.chunk_bytes);
        (offset..offset + length as u64)
            .map(|at| {
                volume
                    .chunks
                    .get(&(at / chunk_bytes))
                    .map_or(0, |chunk| chunk.bytes[(at % chunk_bytes) as usize])
            })
            .collect()
    }

    /// Fills all chunks that anything was written to, as another user of the volume may.
    ///
    /// # Panics
    /// When there is no such volume.
    pub fn fill(&self, id: VolumeId, value: u8) {
        let mut volumes = self.lock();
        let volume = volumes.iter_mut().find(|volume| volume.info.id == id);
        for chunk in volume.expect("the volume exists").chunks.values_mut() {
            chunk.bytes.fill(value);
            chunk.allocated = [u64::MAX; 16];
        }
    }

    /// Takes a snapshot of which nothing is kept: it says what was changed since.
    ///
    /// # Panics
    /// When there is no such volume.
    pub fn take_snapshot(&self, id: VolumeId, name: &str) {
        let mut volumes = self.lock();
        let volume = volumes.iter_mut().find(|volume| volume.info.id == id);
        volume.expect("the volume exists").snapshots.push(name.to_owned());
    }

    /// How each volume is reserved; another one whenever that has changed.
    #[must_use]
    pub fn reservations(&self) -> Vec<(VolumeId, Arc<reservation::State>)> {
        let volumes = self.lock();
        let reserved = volumes
            .iter()
            .map(|volume| (volume.info.id, volume.reservation.clone()));
        reserved.collect()
    }

    /// A front is gone: the volumes that it has locked are so no more.
    pub fn gone(&self, front: FrontId) {
        for volume in self.lock().iter_mut() {
            if let Some(lock) = volume.reservation.locked.filter(|lock| lock.by.front == front.0) {
                let ended = reserve(volume, lock.host, &reservation::Command::Expire(lock));
                ended.expect("a lock ends");
            }
        }
    }

    /// Bytes that are allocated in a volume.
    ///
    /// # Panics
    /// When there is no such volume.
    #[must_use]
    pub fn allocated_bytes(&self, id: VolumeId) -> u64 {
        let volumes = self.lock();
        let volume = volumes
            .iter()
            .find(|volume| volume.info.id == id)
            .expect("the volume exists");
        let blocks = volume
            .chunks
            .values()
            .flat_map(|chunk| chunk.allocated)
            .map(u64::count_ones)
            .sum::<u32>();
        u64::from(blocks) * u64::from(BLOCK_BYTES)
    }
}

impl Volume {
    /// As it is opened by that name, itself or a snapshot of it; `None`: the name is not of this one.
    fn named(&self, name: &str) -> Option<VolumeInfo> {
        let (own, snapshot) = snapshot_named(name).map_or((name, None), |(own, snapshot)| (own, Some(snapshot)));
        let mut info = Some(&self.info).filter(|info| info.name == own)?.clone();
        if let Some(snapshot) = snapshot {
            let place = self.snapshots.iter().position(|taken| taken == snapshot)?;
            info.snapshot = SnapshotId(place as u32 + 1);
            info.read_only = true;
            info.name = name.to_owned();
        }
        Some(info)
    }

    fn apply(&mut self, op: Op, data: &Slice, pool: &Pool) -> Result<Payload, IoError> {
        if matches!(op, Op::Clear { length: 0, .. }) {
            return Ok(Payload::None);
        }
        let chunk_bytes = u64::from(self.info.chunk_bytes);
        let taken = self.snapshots.len();
        let (offset, length) = (op.offset(), op.length());
        assert!(
            offset + length <= self.info.size_bytes,
            "{op:?} is beyond the end of the volume"
        );
        let (index, start) = (offset / chunk_bytes, (offset % chunk_bytes) as usize);
        let end = start + length as usize;
        assert!(end as u64 <= chunk_bytes, "{op:?} crosses a chunk's border");
        if let Op::Read { length, .. } | Op::Write { length, .. } = op {
            assert!((1..=MAX_IO_BYTES).contains(&length), "{op:?} is empty or too long");
            assert!(
                u32::from(BlockRange::of_bytes(start as u32, length).count) <= MAX_IO_BLOCKS,
                "{op:?}: blocks"
            );
        }
        let blocks = start / BLOCK_BYTES as usize..end.div_ceil(BLOCK_BYTES as usize);
        Ok(match op {
            Op::Read { length, .. } => match self.chunks.get(&index) {
                Some(chunk) if blocks.clone().any(|block| chunk.has(block)) => {
                    let bytes = &chunk.bytes[start..end];
                    Payload::Data(match pool.take(bytes.len()) {
                        Some(mut buffer) => {
                            buffer.copy_from_slice(bytes);
                            buffer.freeze()
                        }
                        None => Slice::copy_from(bytes),
                    })
                }
                _ => Payload::Zeros(length),
            },
            Op::Write { length, .. } => {
                assert_eq!(data.len(), length as usize, "{op:?} has a payload of its length");
                let empty = || Chunk {
                    bytes: vec![0; chunk_bytes as usize],
                    allocated: [0; 16],
                    changed: vec![None; (chunk_bytes / u64::from(BLOCK_BYTES)) as usize],
                };
                let chunk = self.chunks.entry(index).or_insert_with(empty);
                chunk.bytes[start..end].copy_from_slice(data);
                chunk.changed[blocks.clone()].fill(Some(taken));
                blocks.for_each(|block| chunk.allocated[block / 64] |= 1 << (block % 64));
                Payload::None
            }
            Op::CompareAndWrite { length, .. } => {
                let (expected, new) = data.split_at(length as usize);
                let held = self.chunks.get(&index).map(|chunk| &chunk.bytes[start..end]);
                if held.map_or(expected.iter().any(|byte| *byte != 0), |held| held != expected) {
                    return Err(IoError::Miscompare);
                }
                let new = Slice::copy_from(new);
                return self.apply(Op::Write { offset, length }, &new, pool);
            }
            Op::Clear { .. } => {
                assert!(
                    !crate::pieces::has_partial_blocks(offset, length) && length > 0,
                    "{op:?} is of whole blocks"
                );
                if let Some(chunk) = self.chunks.get_mut(&index) {
                    chunk.bytes[start..end].fill(0);
                    chunk.changed[blocks.clone()].fill(Some(taken));
                    blocks.for_each(|block| chunk.allocated[block / 64] &= !(1 << (block % 64)));
                }
                Payload::None
            }
            Op::Allocation { .. } => {
                let allocated = self.chunks.get(&index).map_or([0; 16], |chunk| chunk.allocated);
                Payload::Allocation(Box::new(allocated))
            }
            Op::Differ { since, .. } => {
                let mut differs = Box::new(Differs::default());
                let chunk = self.chunks.get(&index);
                let blocks = chunk.map_or(&[][..], |chunk| &chunk.changed).iter().enumerate();
                for (block, _) in blocks.filter(|(_, changed)| changed.is_some_and(|taken| taken >= since.0 as usize)) {
                    let (word, bit) = (block / 64, 1 << (block % 64));
                    differs.changed[word] |= bit;
                    differs.allocated[word] |= chunk.map_or(0, |chunk| chunk.allocated[word] & bit);
                }
                Payload::Differs(differs)
            }
            Op::ChangedChunks { since, .. } => {
                let mut changed = ChangedChunks::default();
                for index in ChangedChunks::window_of(index) {
                    let chunk = self.chunks.get(&index);
                    let mut blocks = chunk.map_or(&[][..], |chunk| &chunk.changed).iter().flatten();
                    changed.answer(index, blocks.any(|taken| *taken >= since.0 as usize));
                }
                changed.to_payload()
            }
        })
    }
}

impl Chunk {
    fn has(&self, block: usize) -> bool {
        self.allocated[block / 64] >> (block % 64) & 1 == 1
    }
}

/// A piece of I/O that was submitted and has not been carried out.
#[derive(Debug)]
pub struct Submitted {
    front: FrontId,
    tag: u64,
    source: Source,
    pub op: Op,
    data: Slice,
    host: HostKey,
}

impl Submitted {
    /// Who has submitted it.
    #[must_use]
    pub fn front(&self) -> FrontId {
        self.front
    }

    /// What it is of.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }
}

/// A protocol's register, shared by all connections, which may be on different threads.
pub trait Register: std::fmt::Debug + Send + Sync {
    /// A front asks.
    fn call(&self, front: FrontId, tag: u64, call: RegisterMessage);

    /// What was said to a front, each with the tag of its call.
    fn take(&self, front: FrontId) -> Vec<(u64, RegisterMessage)>;
}

/// A storage service over [`Volumes`]: I/O waits until it is [run](MemoryService::run).
#[derive(Debug)]
pub struct MemoryService {
    volumes: Volumes,
    pool: Pool,
    /// What was submitted, in order.
    pub queue: VecDeque<Submitted>,
    /// What came of it, for whom.
    pub events: VecDeque<(FrontId, Event)>,
    /// I/O that touches this byte fails so.
    pub fault: Option<(u64, IoError)>,
    /// Opens and lists fail so.
    pub refusal: Option<OpenError>,
    /// Opens less closes.
    pub open_count: usize,
    /// Who asked for volumes last. Everybody may use all of them.
    pub asked_by: Option<Who>,
    /// The protocol's register, where it has one.
    pub register: Option<Arc<dyn Register>>,
    /// What is to be computed: `None`, it is done at once.
    pub computations: Option<VecDeque<(FrontId, u64, Computation)>>,
    /// Whose I/O that of a front is.
    hosts: BTreeMap<FrontId, HostKey>,
}

impl MemoryService {
    /// A service over these volumes.
    #[must_use]
    pub fn new(volumes: Volumes, pool: Pool) -> MemoryService {
        MemoryService {
            volumes,
            pool,
            queue: VecDeque::new(),
            events: VecDeque::new(),
            fault: None,
            refusal: None,
            open_count: 0,
            asked_by: None,
            register: None,
            computations: None,
            hosts: BTreeMap::new(),
        }
    }

    /// How each volume is reserved: [`Volumes::reservations`].
    #[must_use]
    pub fn reservations(&self) -> Vec<(VolumeId, Arc<reservation::State>)> {
        self.volumes.reservations()
    }

    /// Carries out the submitted piece at that place of the queue.
    ///
    /// # Panics
    /// When there is none, or it breaks the rules of the trait.
    pub fn run_one(&mut self, index: usize) {
        let Submitted {
            front,
            tag,
            source,
            op,
            data,
            host,
        } = self.queue.remove(index).expect("a piece at that place");
        let touched = op.offset()..op.offset() + op.length().max(1);
        let (result, payload) = match self.fault {
            Some((at, error)) if touched.contains(&at) => (Err(error), Payload::None),
            _ => {
                let mut volumes = self.volumes.lock();
                let volume = volumes
                    .iter_mut()
                    .find(|candidate| candidate.info.id == source.volume)
                    .expect("an open volume");
                let access = match op {
                    Op::Read { .. } | Op::Allocation { .. } | Op::Differ { .. } | Op::ChangedChunks { .. } => {
                        reservation::Access::Read
                    }
                    _ => reservation::Access::Write,
                };
                // What is read of a snapshot is what the volume has: nothing here keeps what it had.
                let allowed = !source.is_head() || volume.reservation.allows(host, access);
                let outcome = match allowed {
                    true if !source.is_head() && op.is_write() => Err(IoError::ReadOnly),
                    true => volume.apply(op, &data, &self.pool),
                    false => Err(IoError::Reserved),
                };
                match outcome {
                    Ok(payload) => (Ok(()), payload),
                    Err(why) => (Err(why), Payload::None),
                }
            }
        };
        self.events.push_back((front, Event::Done { tag, result, payload }));
    }

    /// Takes what the register has to say to a front.
    pub fn collect(&mut self, front: FrontId) {
        let said = self.register.as_ref().map(|register| register.take(front));
        for (tag, reply) in said.into_iter().flatten() {
            self.events.push_back((front, Event::Register { tag, reply }));
        }
    }

    /// Carries out all that was submitted, in order.
    pub fn run(&mut self) {
        while !self.queue.is_empty() {
            self.run_one(0);
        }
    }
}

impl StorageService for MemoryService {
    fn list(&mut self, front: FrontId, tag: u64, who: &Who) {
        self.asked_by = Some(who.clone());
        let result = match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => {
                let volumes = self.volumes.lock();
                let mut exports: Vec<_> = volumes.iter().map(|volume| export(&volume.info)).collect();
                exports.sort_by(|a, b| a.name.cmp(&b.name));
                Ok(exports)
            }
        };
        self.events.push_back((front, Event::Listed { tag, result }));
    }

    fn open(&mut self, front: FrontId, tag: u64, name: &str, who: &Who) {
        self.asked_by = Some(who.clone());
        let result = match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => {
                let volumes = self.volumes.lock();
                let found = volumes.iter().find_map(|volume| volume.named(name));
                found.ok_or(OpenError::NotFound)
            }
        };
        self.open_count += usize::from(result.is_ok());
        self.events.push_back((front, Event::Opened { tag, result }));
    }

    fn bases(&mut self, front: FrontId, tag: u64, export: &str, only: Vec<String>, who: &Who) {
        self.asked_by = Some(who.clone());
        let volumes = self.volumes.lock();
        let found = volumes.iter().find_map(|volume| Some((volume, volume.named(export)?)));
        let result = match (&self.refusal, found) {
            (Some(refusal), _) => Err(refusal.clone()),
            (None, None) => Err(OpenError::NotFound),
            (None, Some((volume, opened))) => {
                let snapshots = volume.snapshots.iter().zip((1..).map(SnapshotId));
                let is_older = |number| opened.source().is_head() || number < opened.snapshot;
                let snapshots =
                    snapshots.filter(|(name, number)| is_older(*number) && (only.is_empty() || only.contains(name)));
                let mut snapshots: Vec<_> = snapshots.map(|(name, number)| (name.clone(), number)).collect();
                snapshots.sort();
                let volume = volume.info.id;
                Ok(Bases { volume, snapshots })
            }
        };
        drop(volumes);
        self.events.push_back((front, Event::Bases { tag, result }));
    }

    fn close(&mut self, _: FrontId, _: Source) {
        self.open_count = self.open_count.checked_sub(1).expect("what is closed was open");
    }

    fn submit(&mut self, front: FrontId, tag: u64, source: Source, op: Op, data: Slice) {
        self.queue.push_back(Submitted {
            front,
            tag,
            source,
            op,
            data,
            host: self.hosts.get(&front).copied().unwrap_or_default(),
        });
    }

    fn identify(&mut self, front: FrontId, host: HostKey) {
        self.hosts.insert(front, host);
    }

    fn reserve(&mut self, front: FrontId, tag: u64, volume: VolumeId, host: HostKey, command: reservation::Command) {
        let mut volumes = self.volumes.lock();
        let found = volumes.iter_mut().find(|candidate| candidate.info.id == volume);
        let result = match found {
            Some(volume) => reserve(volume, host, &command.by(0, 0, front)),
            None => Err(reservation::Refusal::Unavailable),
        };
        drop(volumes);
        self.events.push_back((front, Event::Reserved { tag, result }));
    }

    fn register(&mut self, front: FrontId, tag: u64, call: RegisterMessage) {
        let register = self
            .register
            .as_ref()
            .expect("a protocol that has a register brings it");
        register.call(front, tag, call);
        self.collect(front);
    }

    fn compute(&mut self, front: FrontId, tag: u64, computation: Computation) {
        match &mut self.computations {
            Some(waiting) => waiting.push_back((front, tag, computation)),
            None => {
                let result = Some(computation.run());
                self.events.push_back((front, Event::Computed { tag, result }));
            }
        }
    }
}

fn reserve(
    volume: &mut Volume,
    host: HostKey,
    command: &reservation::Command,
) -> Result<reservation::State, reservation::Refusal> {
    let mut state = reservation::State::clone(&volume.reservation);
    state.apply(host, command)?;
    if state != *volume.reservation {
        volume.reservation = Arc::new(state.clone());
    }
    Ok(state)
}

fn export(info: &VolumeInfo) -> Export {
    Export {
        name: info.name.clone(),
        size_bytes: info.size_bytes,
        read_only: info.read_only,
        description: format!("{} MiB in memory", info.size_bytes >> 20),
    }
}
