//! The real store on a device that keeps its structures and forgets its data: whatever it costs is the store's own.

use amita_reactor::{FileInfo, Pool, PoolConfig, Segments, Slice, Time};
use amita_store::format::Geometry;
use amita_store::{Config, Effect, FormatParams, IoId, LinkId, State, Store};
use amita_types::message::{AnswerBody, FenceRequest, ReadRequest, Request, RequestBody, Scope, WriteRequest};
use amita_types::{
    BLOCK_BYTES, BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, NodeId, RequestId, SnapshotId, StoreId,
    Version, VolumeId,
};

const BLOCKS: u64 = 1024;

enum Flight {
    Read(IoId, u64, amita_reactor::BufMut),
    Write(IoId, u64, Segments),
    Flush(IoId),
}

/// A store, what it has written, and who asks.
pub struct Hollow {
    pub store: Store,
    pub geometry: Geometry,
    /// Everything before the slots.
    head: Vec<u8>,
    flights: Vec<Flight>,
    versions: Vec<Version>,
    payload: Slice,
    sum: u32,
    next: u64,
    /// Device writes of data.
    pub data_writes: u64,
}

impl Hollow {
    /// A store of `size_bytes`, with a volume of `chunks` chunks of 4 MiB.
    pub fn new(size_bytes: u64, chunks: u64) -> Hollow {
        let params = FormatParams {
            store: StoreId(1),
            cluster: ClusterId(1),
            size_bytes,
            log_bytes: None,
        };
        let geometry = Geometry::divide(size_bytes, None).expect("the size is possible");
        let mut head = vec![0; geometry.slots_offset as usize];
        for (offset, bytes) in amita_store::format(&params).expect("the size is possible") {
            let at = offset as usize;
            if at < head.len() {
                let count = bytes.len().min(head.len() - at);
                head[at..at + count].copy_from_slice(&bytes[..count]);
            }
        }
        let pool = Pool::new(PoolConfig::default()).expect("128 MiB of address space");
        let payload = pool.take(BLOCK_BYTES as usize).expect("a fresh pool").freeze();
        let file = FileInfo {
            size_bytes,
            alignment: 4096,
            volatile_cache: false,
            inline: false,
            discard: false,
            discard_makes_holes: false,
            holes: false,
        };
        let config = Config {
            max_requests: 1 << 16,
            ..Config::default()
        };
        let mut hollow = Hollow {
            store: Store::open(config, file, pool),
            geometry,
            head,
            flights: Vec::new(),
            versions: vec![Version::NONE; chunks as usize],
            sum: amita_types::crc32c(&payload),
            payload,
            next: 0,
            data_writes: 0,
        };
        while *hollow.store.state() == State::Mounting {
            hollow.pass();
        }
        assert_eq!(*hollow.store.state(), State::Serving);
        hollow.fence();
        hollow
    }

    fn ask(&mut self, body: RequestBody, payload: Slice) {
        self.next += 1;
        let request = Request {
            id: RequestId(self.next),
            store: StoreId(1),
            scope: Scope {
                volume: VolumeId(1),
                generation: Generation(1),
                group: GroupId::default(),
                epoch: Epoch(1),
                snapshot: SnapshotId::HEAD,
            },
            trace: amita_types::TraceId::NONE,
            purpose: Default::default(),
            body,
        };
        self.store.request(Time(1), LinkId(1), request, payload);
    }

    fn fence(&mut self) {
        let body = RequestBody::Fence(FenceRequest {
            syncing: Vec::new(),
            owner: NodeId(1),
            in_sync: vec![StoreId(1)],
            blocks_per_chunk: BLOCKS as u16,
            given_back: None,
        });
        self.ask(body, Slice::default());
        while self.pass() == 0 {}
    }

    /// Writes a block of the volume; its answer comes with a later pass.
    pub fn write(&mut self, block: u64) {
        let (chunk, block) = (block / BLOCKS, block % BLOCKS);
        let previous = self.versions[chunk as usize];
        let version = previous.next(Generation(1)).expect("few writes");
        self.versions[chunk as usize] = version;
        let body = RequestBody::Write(WriteRequest {
            chunk: ChunkIndex(chunk),
            offset_bytes: block as u32 * BLOCK_BYTES,
            length_bytes: BLOCK_BYTES,
            version,
            previous,
            sums: [self.sum].into_iter().collect(),
        });
        self.ask(body, self.payload.clone());
    }

    /// Reads a block of the volume.
    pub fn read(&mut self, block: u64) {
        let body = RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(block / BLOCKS),
            range: BlockRange::new((block % BLOCKS) as u16, 1),
            least: Version::NONE,
            versions: false,
            newest: None,
        });
        self.ask(body, Slice::default());
    }

    /// One pass: what was asked goes out, and all of it ends. Returns how many answers came.
    pub fn pass(&mut self) -> usize {
        self.store.end_pass(Time(1));
        let mut answers = 0;
        for effect in self.store.effects() {
            match effect {
                Effect::Read { io, offset, buffer } => self.flights.push(Flight::Read(io, offset, buffer)),
                Effect::Write { io, offset, data } => self.flights.push(Flight::Write(io, offset, data)),
                Effect::Flush { io } => self.flights.push(Flight::Flush(io)),
                Effect::Discard { .. } => unreachable!("its file takes none"),
                Effect::Answer { answer, .. } => {
                    answers += 1;
                    match answer.result {
                        Ok(AnswerBody::Done | AnswerBody::Fenced | AnswerBody::Data(_)) => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        for flight in self.flights.drain(..) {
            match flight {
                Flight::Read(io, offset, mut buffer) => {
                    let at = offset as usize;
                    match self.head.get(at..at + buffer.len()) {
                        Some(bytes) => buffer.copy_from_slice(bytes),
                        // Every block holds the payload.
                        None => buffer.chunks_mut(self.payload.len()).for_each(|block| {
                            block.copy_from_slice(&self.payload[..block.len()]);
                        }),
                    }
                    self.store.read_done(Time(1), io, buffer, Ok(()));
                }
                Flight::Write(io, offset, data) => {
                    let mut at = offset as usize;
                    if offset >= self.geometry.slots_offset {
                        self.data_writes += 1;
                    } else {
                        for slice in &data {
                            self.head[at..at + slice.len()].copy_from_slice(slice);
                            at += slice.len();
                        }
                    }
                    self.store.write_done(Time(1), io, data, Ok(()));
                }
                Flight::Flush(io) => self.store.flush_done(Time(1), io, Ok(())),
            }
        }
        answers
    }

    /// Passes until `count` answers have come.
    pub fn answers(&mut self, count: usize) {
        let mut got = 0;
        while got < count {
            got += self.pass();
        }
    }
}
