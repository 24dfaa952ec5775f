//! A store mounted on an image only to see what it holds: cheap, because tens of thousands of images are tried.

use super::image::Image;
use super::trace::{Held, Right, Trace};
use super::{Flight, Host, Requester, Told, joined, take};
use amita_reactor::{FileInfo, Pool, Slice, Time};
use amita_store::{Config, Effect, LinkId, State, Store};
use amita_types::message::{AnswerBody, ChangesAnswer, ChangesRequest, Refusal, Request, RequestBody};
use amita_types::{BlockIndex, ChunkIndex, Epoch, Generation, Version};
use std::collections::VecDeque;

/// A store on an image, on a device that does what it is told at once.
pub struct Probe {
    pub store: Store,
    pub image: Image,
    pub now: Time,
    pub trace: Option<Box<Trace>>,
    told: Vec<Told>,
    flights: VecDeque<Flight>,
}

impl Probe {
    pub fn mount(image: Image, volatile: bool) -> Probe {
        Probe::mount_with(image, volatile, Config::default(), None)
    }

    pub fn mount_with(image: Image, volatile: bool, config: Config, trace: Option<Box<Trace>>) -> Probe {
        let file = FileInfo {
            size_bytes: image.len() as u64,
            alignment: 1,
            volatile_cache: volatile,
            inline: false,
            discard: false,
            discard_makes_holes: false,
            holes: false,
        };
        let mut probe = Probe {
            store: Store::open(config, file, Pool::heap()),
            image,
            now: Time(1),
            trace,
            told: Vec::new(),
            flights: VecDeque::new(),
        };
        probe.pump();
        probe.run();
        probe
    }

    fn pump(&mut self) {
        for effect in self.store.effects() {
            let flight = match effect {
                Effect::Read { io, offset, buffer } => Flight::Read { io, offset, buffer },
                Effect::Write { io, offset, data } => {
                    if let Some(trace) = &mut self.trace {
                        trace.write(io, offset, joined(&data));
                    }
                    Flight::Write { io, offset, data }
                }
                Effect::Flush { io } => {
                    if let Some(trace) = &mut self.trace {
                        trace.flush(io);
                    }
                    Flight::Flush { io, up_to: 0 }
                }
                Effect::Discard { .. } => unreachable!("its file takes none"),
                Effect::Answer { link, answer, payload } => {
                    self.told.push(Told { link, answer, payload });
                    continue;
                }
            };
            self.flights.push_back(flight);
        }
    }

    /// Passes until nothing is under way.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            let Some(flight) = self.flights.pop_front() else {
                self.store.end_pass(self.now);
                self.pump();
                if self.flights.is_empty() {
                    return;
                }
                continue;
            };
            let io = match flight {
                Flight::Read { io, offset, mut buffer } => {
                    self.image.read(offset, &mut buffer);
                    self.store.read_done(self.now, io, buffer, Ok(()));
                    None
                }
                Flight::Write { io, mut offset, data } => {
                    for slice in &data {
                        self.image.write(offset, slice);
                        offset += slice.len() as u64;
                    }
                    self.end(io);
                    self.store.write_done(self.now, io, data, Ok(()));
                    None
                }
                Flight::Flush { io, .. } => Some(io),
                Flight::Discard { .. } => unreachable!("its file takes none"),
            };
            if let Some(io) = io {
                self.end(io);
                self.store.flush_done(self.now, io, Ok(()));
            }
            self.pump();
        }
        panic!("the store never comes to rest");
    }

    fn end(&mut self, io: amita_store::IoId) {
        if let Some(trace) = &mut self.trace {
            trace.ended(io, super::Outcome::Good);
        }
    }
}

impl Host for Probe {
    fn ask(&mut self, link: LinkId, request: Request, payload: Slice) -> Told {
        let id = request.id;
        self.store.request(self.now, link, request, payload);
        self.pump();
        for _ in 0..1000 {
            self.run();
            if let Some(told) = take(&mut self.told, link, id) {
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

/// One who may own the volume.
pub fn asker(link: u64, blocks: u16, right: Right) -> Requester {
    let mut asker = Requester::new(link);
    asker.blocks_per_chunk = blocks;
    asker.generation = right.generation;
    asker.epoch = right.epoch;
    asker
}

/// What a chunk is: its version, and of each block that was ever written its version, its checksum and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkContent {
    pub version: Version,
    pub entries: Vec<(BlockIndex, Version, Option<u32>)>,
    pub newest: Version,
    pub bytes: Vec<u8>,
}

/// Reads a chunk whole, as an owner that has been fenced in.
pub fn read_chunk(host: &mut impl Host, asker: &mut Requester, chunk: u64) -> ChunkContent {
    let version = asker.open(host, chunk);
    let blocks = asker.blocks_per_chunk;
    let (bytes, newest) = asker.read(host, chunk, 0, blocks).expect("nothing is damaged");
    let mut entries = Vec::new();
    let mut from = Some(BlockIndex(0));
    while let Some(block) = from {
        let request = asker.request(RequestBody::Changes(ChangesRequest {
            chunk: ChunkIndex(chunk),
            since: Version::NONE,
            from: block,
        }));
        match asker.ask(host, request, Slice::default()).answer.result {
            Ok(AnswerBody::Changes(ChangesAnswer {
                entries: more_entries,
                more,
            })) => {
                entries.extend(more_entries.iter().map(|entry| (entry.block, entry.version, entry.sum)));
                from = more;
            }
            other => panic!("a question for changes was answered with {other:?}"),
        }
    }
    ChunkContent {
        version,
        entries,
        newest,
        bytes,
    }
}

/// Does the store hold everything that was acknowledged, block for block and version for version, and nothing that was
/// never sent? Says where each chunk is.
pub fn holds(probe: &mut Probe, held: &Held, blocks: u16, chunks: u64) -> Vec<Version> {
    assert_eq!(*probe.store.state(), State::Serving);
    remembers(probe, held, blocks);
    let mut asker = asker(1 << 20, blocks, held.asked);
    asker.fence(probe).expect("nobody newer was ever heard of");
    (0..chunks)
        .map(|index| {
            let content = read_chunk(probe, &mut asker, index);
            let Some(chunk) = held.model.chunks.get(&index) else {
                assert_eq!(content.version, Version::NONE, "chunk {index} was never written");
                return Version::NONE;
            };
            let at = content.version;
            let state = chunk.state(at).unwrap_or_else(|| {
                panic!(
                    "chunk {index} is at {at}; {} is acknowledged, {} was sent",
                    chunk.acknowledged.version,
                    chunk.last()
                )
            });
            assert!(
                content.bytes == state.bytes(0, blocks),
                "the data of chunk {index} at {at}"
            );
            assert_eq!(content.newest, state.newest(0, blocks), "chunk {index} at {at}");
            assert_eq!(content.entries, state.entries(), "chunk {index} at {at}");
            at
        })
        .collect()
}

/// Rule R2: what the store has acknowledged of ownership, it knows for ever.
fn remembers(probe: &mut Probe, held: &Held, blocks: u16) {
    let Some(known) = held.known else { return };
    let mut older = held.asked;
    if known.generation > Generation(1) {
        older.generation = Generation(known.generation.0 - 1);
        match asker(1 << 21, blocks, older).fence(probe) {
            Err(Refusal::Fenced { generation }) => assert!(generation >= known.generation),
            other => panic!("an owner of before {} was answered with {other:?}", known.generation),
        }
    }
    older = held.asked;
    if known.epoch > Epoch(1) {
        older.epoch = Epoch(known.epoch.0 - 1);
        match asker(1 << 22, blocks, older).fence(probe) {
            Err(Refusal::StaleEpoch { epoch }) => assert!(epoch >= known.epoch),
            other => panic!("an owner of before epoch {} was answered with {other:?}", known.epoch),
        }
    }
}
