//! Once warm, the path of an I/O allocates nothing: an allocator that counts watches writes, sub-block writes, clears,
//! reads, whole and scattered, and the batches that they go in. (The checksums of what is longer than 16 KiB lie on the
//! heap: there an allocation is nothing beside the data.)

#[path = "suite/common/mod.rs"]
mod common;

use amita_reactor::{FileInfo, Pool, PoolConfig, Segments, Slice, Time};
use amita_store::{Config, Effect, LinkId, State, Store};
use amita_testkit::allocations::{self, Counting};
use amita_types::message::{AnswerBody, ClearRequest, Request, RequestBody};
use amita_types::{BlockRange, ChunkIndex, Version};
use common::{BLOCK, Requester, Rng, image, params, version};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CHUNKS: u64 = 8;
const BLOCKS: u64 = 256;

/// A store and its disk, without the books that other tests keep.
struct Bench {
    store: Store,
    disk: Vec<u8>,
    effects: Vec<Effect>,
    done: u64,
    asker: Requester,
    versions: Vec<Version>,
    pool: Pool,
    now: Time,
    alignment: usize,
}

impl Bench {
    fn new(alignment: u32) -> Bench {
        let mut params = params(64 << 20);
        // No checkpoint falls into the measured part.
        params.log_bytes = Some(32 << 20);
        let pool = Pool::new(PoolConfig::with_total(32 << 20)).unwrap();
        let file = FileInfo {
            size_bytes: params.size_bytes,
            alignment,
            volatile_cache: false,
            inline: true,
            discard: false,
            discard_makes_holes: false,
            holes: false,
        };
        let mut bench = Bench {
            store: Store::open(Config::default(), file, pool.clone()),
            disk: image(&params),
            effects: Vec::new(),
            done: 0,
            asker: Requester::new(1),
            versions: vec![Version::NONE; CHUNKS as usize],
            pool,
            now: Time(1),
            alignment: alignment as usize,
        };
        while *bench.store.state() == State::Mounting {
            bench.pass();
        }
        let fence = bench.asker.fence_request();
        bench.request(fence, Slice::default());
        while bench.done == 0 {
            bench.pass();
        }
        bench
    }

    fn pass(&mut self) {
        self.store.end_pass(self.now);
        let mut effects = std::mem::take(&mut self.effects);
        effects.extend(self.store.effects());
        for effect in effects.drain(..) {
            match effect {
                Effect::Read { io, offset, mut buffer } => {
                    let at = offset as usize;
                    let length = buffer.len();
                    buffer.copy_from_slice(&self.disk[at..at + length]);
                    self.store.read_done(self.now, io, buffer, Ok(()));
                }
                Effect::Write { io, offset, data } => self.write(io, offset, data),
                Effect::Flush { io } => self.store.flush_done(self.now, io, Ok(())),
                Effect::Discard { .. } => unreachable!("its file takes none"),
                Effect::Answer { answer, .. } => {
                    assert!(
                        matches!(
                            answer.result,
                            Ok(AnswerBody::Done | AnswerBody::Data(_) | AnswerBody::Fenced)
                        ),
                        "{answer:?}"
                    );
                    self.done += 1;
                }
            }
        }
        self.effects = effects;
    }

    fn write(&mut self, io: amita_store::IoId, offset: u64, data: Segments) {
        let mut at = offset as usize;
        for slice in &data {
            assert!(
                slice.as_ptr().addr().is_multiple_of(self.alignment),
                "the device wants it aligned"
            );
            self.disk[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        self.store.write_done(self.now, io, data, Ok(()));
    }

    fn request(&mut self, request: Request, payload: Slice) {
        self.store.request(self.now, LinkId(1), request, payload);
    }

    fn round(&mut self, rng: &mut Rng, depth: u64) {
        let before = self.done;
        for _ in 0..depth {
            let chunk = rng.below(CHUNKS as usize) as u64;
            let previous = self.versions[chunk as usize];
            let next = version(1, previous.counter() + 1);
            let first = rng.below(BLOCKS as usize) as u16;
            let request = match rng.below(8) {
                0..4 => {
                    let count = (1 + rng.below(4)).min((BLOCKS - u64::from(first)) as usize);
                    let mut payload = self.pool.take(count * BLOCK).expect("a pool that is large enough");
                    payload.fill(rng.next() as u8);
                    self.send_write(chunk, u32::from(first) * BLOCK as u32, payload.freeze(), next, previous);
                    continue;
                }
                4 => {
                    let mut payload = self.pool.take(700).expect("a pool that is large enough");
                    payload.fill(rng.next() as u8);
                    self.send_write(
                        chunk,
                        u32::from(first) * BLOCK as u32 + 90,
                        payload.freeze(),
                        next,
                        previous,
                    );
                    continue;
                }
                5 => {
                    self.versions[chunk as usize] = next;
                    self.asker.request(RequestBody::Clear(ClearRequest {
                        chunk: ChunkIndex(chunk),
                        range: BlockRange::new(first, 1),
                        version: next,
                        previous,
                    }))
                }
                _ => {
                    let count = (1 + rng.below(4)).min((BLOCKS - u64::from(first)) as usize);
                    self.asker.read_request(chunk, first, count as u16, Version::NONE)
                }
            };
            self.request(request, Slice::default());
        }
        while self.done < before + depth {
            self.pass();
        }
    }

    fn send_write(&mut self, chunk: u64, offset: u32, payload: Slice, next: Version, previous: Version) {
        self.versions[chunk as usize] = next;
        let request = self.asker.write_request(chunk, offset, &payload, next, previous);
        self.request(request, payload);
    }
}

#[test]
fn a_warm_store_allocates_nothing() {
    for alignment in [1, 4096] {
        let mut bench = Bench::new(alignment);
        let mut rng = Rng(1);
        for depth in 1..=40 {
            for _ in 0..20 {
                bench.round(&mut rng, depth);
            }
        }
        let checkpoints = bench.store.status().counters.checkpoints;
        let before = allocations::count();
        for _ in 0..2_000 {
            bench.round(&mut rng, 1);
        }
        for _ in 0..200 {
            bench.round(&mut rng, 32);
        }
        let after = allocations::count();
        let counters = bench.store.status().counters;
        assert_eq!(counters.checkpoints, checkpoints);
        assert!(counters.merges > 500 && counters.reads > 1_000 && counters.clears > 500);
        assert_eq!(
            after - before,
            0,
            "allocations in 8,400 operations, alignment {alignment}"
        );
    }
}
