//! Random play against the model: one sequencer writes, clears, reads, rolls forward, resends, loses its link, is taken
//! over; the device ends its operations in any order; the power fails at any moment.

use super::model::{Change, Model};
use super::{Asker, BLOCK, Disk, Flight, Rig, Rng, data, image, params};
use amita_cluster::message::{self, AnswerBody, Refusal, RequestBody};
use amita_cluster::{BlockIndex, BlockRange, ChunkIndex, Generation, RequestId, Version};
use amita_reactor::{Pool, Slice, Time};
use amita_store::{Config, LinkId, State};
use std::collections::HashMap;
use std::time::Duration;

/// How a game goes.
#[derive(Clone, Debug)]
pub struct Rules {
    pub seed: u64,
    pub steps: usize,
    pub size_bytes: u64,
    pub chunks: u64,
    pub volatile: bool,
    pub alignment: u32,
    /// One crash in so many steps.
    pub crash_one_in: usize,
    /// One flipped bit of data in so many steps; 0: none.
    pub rot_one_in: usize,
    pub pool: Pool,
    pub config: Config,
}

impl Rules {
    pub fn new(seed: u64, steps: usize) -> Rules {
        Rules {
            seed,
            steps,
            size_bytes: 1 << 20,
            chunks: 10,
            volatile: seed % 2 == 1,
            alignment: if seed.is_multiple_of(3) { 512 } else { 1 },
            crash_one_in: 200,
            rot_one_in: 0,
            pool: Pool::heap(),
            config: Config::default(),
        }
    }
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    pub steps: usize,
    pub crashes: usize,
    pub ended_short: usize,
    pub batches_dropped: u64,
    pub takeovers: usize,
    pub no_space: usize,
    pub reads_checked: usize,
    pub writes_acknowledged: usize,
    pub resends: u64,
    pub merges: u64,
    pub rolls: u64,
    pub checkpoints: u64,
    pub marks: u64,
    pub log_waits: u64,
    pub damaged: u64,
}

impl std::ops::AddAssign for Score {
    fn add_assign(&mut self, other: Score) {
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.ended_short += other.ended_short;
        self.batches_dropped += other.batches_dropped;
        self.takeovers += other.takeovers;
        self.no_space += other.no_space;
        self.reads_checked += other.reads_checked;
        self.writes_acknowledged += other.writes_acknowledged;
        self.resends += other.resends;
        self.merges += other.merges;
        self.rolls += other.rolls;
        self.checkpoints += other.checkpoints;
        self.marks += other.marks;
        self.log_waits += other.log_waits;
        self.damaged += other.damaged;
    }
}

const BLOCKS: u16 = 16;

enum Asked {
    Change {
        chunk: u64,
        version: Version,
    },
    Read {
        chunk: u64,
        first: u16,
        count: u16,
        least: Version,
        acknowledgements: usize,
    },
    Other,
}

struct Game {
    rules: Rules,
    rng: Rng,
    rig: Rig,
    asker: Asker,
    model: Model,
    asked: HashMap<(LinkId, RequestId), Asked>,
    score: Score,
    links: u64,
    /// The present owner was promised that no newer one is accepted before.
    promised_until: Time,
}

/// Plays; panics where the store does what it must not.
pub fn play(rules: Rules) -> Score {
    let disk = Disk::new(image(&params(rules.size_bytes)), rules.volatile);
    let mut rig = Rig::open(disk, rules.config.clone(), Time(1), rules.alignment, rules.pool.clone());
    rig.run();
    let mut asker = Asker::new(1);
    asker.blocks_per_chunk = BLOCKS;
    asker.fence(&mut rig).expect("a fresh store takes any owner");
    let mut game = Game {
        rng: Rng(rules.seed),
        model: Model::new(usize::from(BLOCKS)),
        rig,
        asker,
        asked: HashMap::new(),
        score: Score::default(),
        links: 1,
        promised_until: Time(0),
        rules,
    };
    for _ in 0..game.rules.steps {
        game.step();
        game.listen();
        game.score.steps += 1;
    }
    game.settle();
    game.count();
    game.score
}

impl Game {
    fn step(&mut self) {
        if self.rng.chance(self.rules.crash_one_in) {
            return self.crash();
        }
        if self.rots() && self.rng.chance(self.rules.rot_one_in) {
            self.rot();
        }
        match self.rng.below(1000) {
            0..300 => self.write(),
            300..380 => self.clear(),
            380..500 => self.read(),
            500..525 => self.resend(),
            525..535 => self.wrong(),
            535..550 => self.roll(),
            550..850 => self.complete(),
            850..960 => {
                self.rig.store.end_pass(self.rig.now);
                self.rig.pump();
            }
            960..980 => {
                let by = self.rng.below(300) as u64;
                self.rig.advance(Duration::from_millis(by));
            }
            980..984 => self.take_over(),
            984..990 => self.new_link(),
            990..994 => self.settle(),
            _ => self.odd_questions(),
        }
    }

    fn rots(&self) -> bool {
        self.rules.rot_one_in > 0
    }

    /// One bit of some slot is not what it was.
    fn rot(&mut self) {
        let geometry = amita_store::format::Geometry::divide(self.rules.size_bytes, None).expect("it was formatted");
        let slot = self.rng.below(geometry.slots as usize);
        let at = geometry.slots_offset as usize + slot * BLOCK + self.rng.below(BLOCK);
        self.rig.disk.view[at] ^= 1 << self.rng.below(8);
        self.rig.disk.durable[at] = self.rig.disk.view[at];
    }

    fn complete(&mut self) {
        for _ in 0..1 + self.rng.below(3) {
            if !self.rig.flights.is_empty() {
                let at = self.rng.below(self.rig.flights.len());
                self.rig.complete(at);
            }
        }
    }

    fn send(&mut self, request: message::Request, payload: &[u8], asked: Asked) {
        self.asked.insert((self.asker.link, request.id), asked);
        self.rig.send(self.asker.link, request, Slice::copy_from(payload));
        self.listen();
    }

    fn pick(&mut self) -> (u64, Version, Version) {
        let chunk = self.rng.below(self.rules.chunks as usize) as u64;
        let previous = self.model.chunk(chunk).last();
        (
            chunk,
            previous.next(self.asker.generation).expect("few writes"),
            previous,
        )
    }

    fn write(&mut self) {
        let (chunk, version, previous) = self.pick();
        let limit = usize::from(BLOCKS) * BLOCK;
        let (offset, length) = match self.rng.below(4) {
            0 | 1 => (self.rng.below(usize::from(BLOCKS)) * BLOCK, BLOCK),
            2 => {
                let first = self.rng.below(usize::from(BLOCKS));
                (first * BLOCK, (1 + self.rng.below(usize::from(BLOCKS) - first)) * BLOCK)
            }
            _ => {
                let first = self.rng.below(limit);
                (first, 1 + self.rng.below((limit - first).min(3 * BLOCK)))
            }
        };
        let bytes = self.rng.bytes(length);
        let request = self
            .asker
            .write_request(chunk, offset as u32, &bytes, version, previous);
        let change = Change::Write {
            offset: offset as u32,
            bytes: bytes.clone(),
        };
        self.model.chunk(chunk).send(version, previous, change);
        self.send(request, &bytes, Asked::Change { chunk, version });
    }

    fn clear(&mut self) {
        let (chunk, version, previous) = self.pick();
        let first = self.rng.below(usize::from(BLOCKS)) as u16;
        let count = 1 + self.rng.below(usize::from(BLOCKS - first)) as u16;
        let request = self.asker.request(RequestBody::Clear {
            chunk: ChunkIndex(chunk),
            range: BlockRange::new(first, count),
            version,
            previous,
        });
        self.model
            .chunk(chunk)
            .send(version, previous, Change::Clear { first, count });
        self.send(request, &[], Asked::Change { chunk, version });
    }

    fn roll(&mut self) {
        let (chunk, next, previous) = self.pick();
        let version = Version(next.0 + self.rng.below(5) as u64);
        let mut entries = Vec::new();
        for block in 0..BLOCKS {
            if self.rng.chance(3) {
                let data = (!self.rng.chance(4)).then(|| self.rng.bytes(BLOCK));
                entries.push((block, data, Version(version.0 - self.rng.below(2) as u64)));
            }
        }
        let half = self.rng.below(entries.len() + 1);
        let parts = [&entries[..half], &entries[half..]];
        let mut last_id = None;
        self.model
            .chunk(chunk)
            .send(version, previous, Change::Roll(entries.clone()));
        for (at, part) in parts.iter().enumerate() {
            let changes = part.iter().map(|(block, data, version)| message::Change {
                block: BlockIndex(*block),
                version: *version,
                sum: data.as_ref().map(|data| amita_cluster::crc32c(data)),
            });
            let request = self.asker.request(RequestBody::Roll {
                chunk: ChunkIndex(chunk),
                version,
                previous,
                entries: changes.collect(),
                first: at == 0,
                last: at == 1,
            });
            let payload: Vec<u8> = part.iter().filter_map(|(_, data, _)| data.clone()).flatten().collect();
            let id = request.id;
            let asked = if at == 1 {
                Asked::Change { chunk, version }
            } else {
                Asked::Other
            };
            self.send(request, &payload, asked);
            last_id = Some(id);
        }
        assert!(last_id.is_some());
    }

    fn read(&mut self) {
        let chunk = self.rng.below(self.rules.chunks as usize) as u64;
        let first = self.rng.below(usize::from(BLOCKS)) as u16;
        let count = 1 + self.rng.below(usize::from(BLOCKS - first)) as u16;
        let model = self.model.chunk(chunk);
        let least = match self.rng.below(3) {
            0 => Version::NONE,
            1 => model.acknowledged.version,
            _ => model.last(),
        };
        let acknowledgements = model.acknowledgements;
        let request = self.asker.read_request(chunk, first, count, least);
        let asked = Asked::Read {
            chunk,
            first,
            count,
            least,
            acknowledgements,
        };
        self.send(request, &[], asked);
    }

    /// The request of a change that is pending.
    fn request_of(&mut self, chunk: u64, at: usize) -> Option<(message::Request, Vec<u8>, Version)> {
        let (version, previous, change) = self.model.chunk(chunk).pending.get(at).cloned()?;
        match change {
            Change::Write { offset, bytes } => {
                let request = self.asker.write_request(chunk, offset, &bytes, version, previous);
                Some((request, bytes, version))
            }
            Change::Clear { first, count } => {
                let request = self.asker.request(RequestBody::Clear {
                    chunk: ChunkIndex(chunk),
                    range: BlockRange::new(first, count),
                    version,
                    previous,
                });
                Some((request, Vec::new(), version))
            }
            Change::Roll(_) => None,
        }
    }

    fn resend(&mut self) {
        let chunk = self.rng.below(self.rules.chunks as usize) as u64;
        if let Some((request, bytes, version)) = self.request_of(chunk, 0)
            && version.generation() == self.asker.generation
        {
            self.send(request, &bytes, Asked::Change { chunk, version });
        }
    }

    /// Writes that must not be applied.
    fn wrong(&mut self) {
        let (chunk, version, _) = self.pick();
        let bytes = vec![0xbb; BLOCK];
        let skipped = version.next(self.asker.generation).expect("few writes");
        let request = self.asker.write_request(chunk, 0, &bytes, skipped, version);
        let id = request.id;
        self.rig.send(self.asker.link, request, Slice::copy_from(&bytes));
        let told = self.rig.take(self.asker.link, id).expect("refused at once");
        let refused = matches!(
            told.answer.result,
            Err(Refusal::WrongPredecessor { .. } | Refusal::Busy)
        );
        assert!(
            refused,
            "a write without its predecessor was answered with {:?}",
            told.answer.result
        );
    }

    fn odd_questions(&mut self) {
        let chunk = ChunkIndex(self.rng.below(self.rules.chunks as usize) as u64);
        let request = match self.rng.below(3) {
            0 => self.asker.request(RequestBody::Confirm),
            1 => self.asker.request(RequestBody::Open { chunk }),
            _ => self.asker.fence_request(),
        };
        self.send(request, &[], Asked::Other);
    }

    /// Compares what the store says with what it may say.
    fn listen(&mut self) {
        for told in std::mem::take(&mut self.rig.told) {
            let promise = Duration::from_millis(u64::from(told.answer.promise_ms));
            if !promise.is_zero() {
                self.promised_until = self.promised_until.max(self.rig.now.plus(promise));
            }
            let Some(asked) = self.asked.remove(&(told.link, told.answer.id)) else {
                continue;
            };
            match (asked, told.answer.result) {
                (Asked::Change { chunk, version }, Ok(AnswerBody::Done)) => {
                    let model = self.model.chunk(chunk);
                    if version > model.acknowledged.version {
                        model.acknowledge(version);
                        self.score.writes_acknowledged += 1;
                    }
                }
                (Asked::Change { chunk, version }, Err(Refusal::Damaged { .. } | Refusal::WrongPredecessor { .. }))
                    if self.rots() =>
                {
                    self.model.chunk(chunk).drop_from(version)
                }
                (Asked::Change { chunk, version }, Err(refusal)) => {
                    assert!(
                        matches!(refusal, Refusal::NoSpace | Refusal::Busy),
                        "{version}: {refusal:?}"
                    );
                    self.score.no_space += usize::from(refusal == Refusal::NoSpace);
                    assert_eq!(self.model.chunk(chunk).last(), version, "refused at once");
                    self.model.chunk(chunk).take_back();
                }
                (
                    Asked::Read {
                        chunk,
                        first,
                        count,
                        least,
                        acknowledgements,
                    },
                    Ok(AnswerBody::Data { version, sums }),
                ) => {
                    let bytes = data(count, &told.payload, &sums);
                    self.check_read(chunk, (first, count), least, acknowledgements, &bytes, version);
                }
                (Asked::Read { .. }, Err(Refusal::Damaged { .. })) if self.rots() => {}
                (Asked::Read { least, .. }, Err(refusal)) => {
                    let fair = matches!(refusal, Refusal::Busy | Refusal::Behind { .. });
                    assert!(fair, "a read of at least {least} was answered with {refusal:?}");
                }
                (Asked::Other, Ok(_) | Err(Refusal::Busy | Refusal::NoSpace | Refusal::WrongPredecessor { .. })) => {}
                (_, result) => panic!("an unexpected answer: {result:?}"),
            }
        }
    }

    fn check_read(
        &mut self,
        chunk: u64,
        (first, count): (u16, u16),
        least: Version,
        acknowledgements: usize,
        bytes: &[u8],
        version: Version,
    ) {
        let model = self.model.chunk(chunk);
        let Some(mut states) = model.since(acknowledgements) else {
            return;
        };
        let fits = |state: &super::model::Blocks| {
            state.version >= least && state.newest(first, count) == version && state.bytes(first, count) == bytes
        };
        assert!(
            states.any(fits),
            "a read of chunk {chunk} shows what was never there, or is older than it may be"
        );
        self.score.reads_checked += 1;
    }

    /// Everything ends; nothing may be missing, and no slot lost.
    fn settle(&mut self) {
        self.rig.run();
        self.listen();
        for (index, chunk) in &self.model.chunks {
            assert!(
                chunk.pending.is_empty(),
                "chunk {index} has {} changes that never end",
                chunk.pending.len()
            );
        }
        let status = self.rig.store.status();
        let blocks = (status.capacity_bytes - status.free_bytes) / BLOCK as u64;
        assert_eq!(
            blocks,
            status.blocks + status.leaf_pages,
            "slots are lost, or used twice"
        );
    }

    fn new_link(&mut self) {
        self.rig.store.link_closed(self.rig.now, self.asker.link);
        self.links += 1;
        self.asker.link = LinkId(self.links);
        // What is not answered is sent again, in order.
        for chunk in 0..self.rules.chunks {
            for at in 0..self.model.chunk(chunk).pending.len() {
                if let Some((request, bytes, version)) = self.request_of(chunk, at) {
                    let key = (self.asker.link, request.id);
                    self.asked.insert(key, Asked::Change { chunk, version });
                    self.rig.send(self.asker.link, request, Slice::copy_from(&bytes));
                }
            }
        }
        self.listen();
    }

    fn take_over(&mut self) {
        self.score.takeovers += 1;
        self.links += 1;
        let mut new = Asker::new(self.links);
        new.blocks_per_chunk = BLOCKS;
        new.generation = self.asker.generation.next().expect("few takeovers");
        let fence = new.fence_request();
        self.rig.send(new.link, fence.clone(), Slice::default());
        let told = loop {
            self.listen_but(&fence);
            if let Some(told) = self.rig.take(new.link, fence.id) {
                break told;
            }
            self.complete();
            self.rig.store.end_pass(self.rig.now);
            self.rig.pump();
            let answered = self.rig.told.iter().any(|told| told.answer.id == fence.id);
            if self.rig.flights.is_empty()
                && !answered
                && let Some(at) = self.rig.store.deadline()
            {
                self.rig.now = self.rig.now.max(at);
                self.rig.store.tick(self.rig.now);
                self.rig.pump();
            }
        };
        assert_eq!(told.answer.result, Ok(AnswerBody::Fenced));
        assert!(
            self.rig.now >= self.promised_until,
            "the old owner was promised more time (rule R4)"
        );
        self.promised_until = Time(0);
        // Rule R6: all that was accepted earlier is durable, and was answered before.
        for (index, chunk) in &self.model.chunks {
            assert!(
                chunk.pending.is_empty(),
                "chunk {index} was not drained before the fence was answered"
            );
        }
        self.asker = new;
        self.check_all(false);
    }

    fn listen_but(&mut self, fence: &message::Request) {
        let kept = self
            .rig
            .told
            .iter()
            .position(|told| told.answer.id == fence.id)
            .map(|at| self.rig.told.remove(at));
        self.listen();
        self.rig.told.extend(kept);
    }

    fn crash(&mut self) {
        self.listen();
        self.count();
        self.score.crashes += 1;
        self.asked.clear();
        let fail = |rig: &Rig, rng: &mut Rng| {
            if rng.chance(3) {
                return rig.killed(rng);
            }
            Disk::new(rig.cut(rng), rig.disk.volatile)
        };
        let mut disk = fail(&self.rig, &mut self.rng);
        // Now and then it fails again while the store is being mounted.
        loop {
            let mut rig = self.rig.reopened_on(disk);
            rig.pump();
            if self.rng.chance(4) {
                for _ in 0..self.rng.below(12) {
                    if !rig.flights.is_empty() {
                        rig.complete(0);
                    }
                }
                disk = fail(&rig, &mut self.rng);
                continue;
            }
            rig.run();
            assert_eq!(*rig.store.state(), State::Serving);
            self.rig = rig;
            break;
        }
        let report = self.rig.store.status().mount;
        self.score.ended_short += usize::from(report.ended_short);
        self.score.batches_dropped += report.batches_dropped;
        self.links += 1;
        let generation = self.asker.generation;
        self.asker = Asker::new(self.links);
        self.asker.blocks_per_chunk = BLOCKS;
        self.asker.generation = generation;
        if self.rng.chance(2) {
            self.asker.generation = generation.next().expect("few takeovers");
        }
        if generation > Generation(1) {
            // Rule R2: what the store has seen of ownership, it has seen for ever.
            let mut old = Asker::new(0);
            old.blocks_per_chunk = BLOCKS;
            old.generation = Generation(generation.0 - 1);
            assert_eq!(old.fence(&mut self.rig), Err(Refusal::Fenced { generation }));
        }
        let mounted = self.rig.now;
        self.asker
            .fence(&mut self.rig)
            .expect("the store knows this owner or an older one");
        let waited = self.rig.now.since(mounted);
        assert!(
            self.asker.generation == generation || waited >= Duration::from_millis(250),
            "rule R4 after a start"
        );
        self.promised_until = Time(0);
        self.check_all(true);
    }

    /// Compares every chunk, block for block.
    fn check_all(&mut self, settle: bool) {
        for index in 0..self.rules.chunks {
            let at = self.asker.open(&mut self.rig, index);
            if settle {
                self.model.chunk(index).settle(at);
            }
            let expected = self.model.chunk(index).acknowledged.clone();
            assert_eq!(at, expected.version, "chunk {index}");
            for (first, count) in [(0, BLOCKS)].into_iter().chain((0..BLOCKS).map(|block| (block, 1))) {
                match self.asker.read(&mut self.rig, index, first, count) {
                    Ok((bytes, newest)) => {
                        let right = bytes == expected.bytes(first, count);
                        assert!(right, "chunk {index} is not what was acknowledged");
                        assert_eq!(newest, expected.newest(first, count), "chunk {index}");
                        if count == BLOCKS {
                            break;
                        }
                    }
                    Err(refusal) => assert!(self.rots() && matches!(refusal, Refusal::Damaged { .. }), "{refusal:?}"),
                }
            }
            let request = self.asker.request(RequestBody::Changes {
                chunk: ChunkIndex(index),
                since: Version::NONE,
                from: BlockIndex(0),
            });
            let told = self.asker.ask(&mut self.rig, request, Slice::default());
            let Ok(AnswerBody::Changes { entries, .. }) = told.answer.result else {
                panic!("{told:?}")
            };
            for (block, (data, version)) in expected.blocks.iter().enumerate() {
                let entry = entries.iter().find(|entry| usize::from(entry.block.0) == block);
                assert_eq!(
                    entry.map_or(Version::NONE, |entry| entry.version),
                    *version,
                    "{index}/{block}"
                );
                let sum = data.as_ref().map(|data| amita_cluster::crc32c(data));
                assert_eq!(entry.and_then(|entry| entry.sum), sum, "{index}/{block}");
            }
        }
        let at_rest = self
            .rig
            .flights
            .iter()
            .all(|flight| matches!(flight, Flight::Read { .. }));
        assert!(at_rest || !settle);
    }

    fn count(&mut self) {
        let counters = self.rig.store.status().counters;
        self.score.resends += counters.resends;
        self.score.merges += counters.merges;
        self.score.rolls += counters.rolls;
        self.score.checkpoints += counters.checkpoints;
        self.score.marks += counters.mark_pages;
        self.score.log_waits += counters.log_waits;
        self.score.damaged += counters.damaged;
    }
}
