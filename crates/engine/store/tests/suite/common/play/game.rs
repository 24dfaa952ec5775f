//! The steps of a game.

use super::super::{Disk, Requester, Rig, Rng, image, params};
use super::chunk::Chunk;
use super::question::{Ask, Question};
use super::volume::Volume;
use super::{Rules, Score};
use amita_reactor::{Slice, Time};
use amita_store::{LinkId, State};
use amita_types::layout::mix;
use amita_types::message::{Problem, Request, RollRequest, WriteRequest};
use amita_types::{Generation, RequestId, Version, VolumeId};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

/// What can be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Write,
    Clear,
    Roll,
    Read,
    /// `Open`, `Changes`, `Allocation`, `RenewLease`.
    Ask,
    Resend,
    /// What must be refused.
    Wrong,
    /// The device ends something.
    Complete,
    Pass,
    Wait,
    TakeOver,
    NewLink,
    /// Everything ends, and some of it is compared.
    Settle,
    Crash,
    Snapshot,
    RetainSnapshots,
    /// A new volume, empty or of a snapshot.
    Clone,
    Delete,
    Rot,
    /// What has rotted is replaced where it lies.
    Restore,
}

/// A chunk of a volume.
pub type Key = (VolumeId, u64);

/// What the store was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub volume: VolumeId,
    pub generation: Generation,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// Something was done to a chunk.
    Deed {
        key: Key,
        number: u64,
        again: bool,
        /// How many it takes, and how many of them the owner had been granted.
        blocks: u64,
        covered: u64,
    },
    Question {
        key: Key,
        question: Question,
        /// The chunk's turn then, and what was accepted.
        turns: usize,
        accepted: Version,
    },
    RetainSnapshots(Key),
    /// A clone of which nothing is to be made.
    NothingToMake(Key),
    /// It must be refused as invalid.
    Invalid(Problem, Option<Key>),
    WrongPredecessor,
    /// The origin changes: only `Busy` is right.
    Busy,
    Fence,
    RenewLease,
    Restore,
    /// A part of a roll-forward that is not the last.
    Part,
}

pub struct Game {
    pub rules: Rules,
    pub rng: Rng,
    pub rig: Rig,
    pub volumes: Vec<Volume>,
    pub chunks: BTreeMap<Key, Chunk>,
    pub asked: HashMap<(LinkId, RequestId), Asked>,
    pub score: Score,
    pub links: u64,
    pub next_volume: u64,
    /// What lies where something else belongs, if nothing was written there since.
    pub misplaced: HashMap<usize, Vec<u8>>,
    /// What has rotted, as it should be.
    pub rotted: Vec<Rc<Vec<u8>>>,
    /// Numbers the questions for figures.
    pub figures_asked: u64,
}

impl Game {
    pub fn new(rules: Rules) -> Game {
        let disk = Disk::new(image(&params(rules.size_bytes)), rules.volatile);
        let mut rig = Rig::open(disk, rules.config.clone(), Time(1), rules.alignment, rules.pool.clone());
        rig.run();
        assert_eq!(*rig.store.state(), State::Serving);
        let mut game = Game {
            rng: Rng(rules.seed),
            rig,
            volumes: Vec::new(),
            chunks: BTreeMap::new(),
            asked: HashMap::new(),
            score: Score::default(),
            links: 0,
            next_volume: 7,
            misplaced: HashMap::new(),
            rotted: Vec::new(),
            figures_asked: 0,
            rules,
        };
        game.new_volume(None);
        game.settle();
        assert!(game.volumes[0].fenced, "a fresh store takes any owner");
        game
    }

    /// The step of this number; whatever was left out before, it draws the same random numbers.
    pub fn step(&mut self, number: u32) {
        self.rng = Rng(mix(self.rules.seed ^ mix(u64::from(number) + 1)));
        let total: u32 = self.rules.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = self.rng.below(total as usize) as u32;
        let chosen = self.rules.weights.iter().find(|(_, weight)| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let step = chosen.expect("it is below the sum of all weights").0;
        self.say(|| format!("step {number}: {step:?}"));
        match step {
            Step::Write => self.write(),
            Step::Clear => self.clear(),
            Step::Roll => self.roll(),
            Step::Read => self.read(),
            Step::Ask => self.question(),
            Step::Resend => self.resend(),
            Step::Wrong => self.wrong(),
            Step::Complete => self.complete(),
            Step::Pass => {
                self.rig.store.end_pass(self.rig.now);
                self.rig.pump();
            }
            Step::Wait => {
                let by = self.rng.below(300) as u64;
                self.rig.advance(Duration::from_millis(by));
            }
            Step::TakeOver => self.take_over(),
            Step::NewLink => self.new_link(),
            Step::Settle => self.settle_and_compare(),
            Step::Crash => self.crash(),
            Step::Snapshot => self.snapshot(),
            Step::RetainSnapshots => self.keep(),
            Step::Clone => self.clone_volume(),
            Step::Delete => self.delete_volume(),
            Step::Rot => self.rot(),
            Step::Restore => self.restore(),
        }
        self.listen();
        #[cfg(feature = "planted")]
        match self.score.steps.is_multiple_of(8) {
            true => self.rig.store.check(),
            false => self.rig.store.check_sums(),
        }
        self.say(|| {
            let status = self.rig.store.status();
            let checkpoints = status.counters.checkpoints;
            format!(
                "    {} chunks, {} blocks, {} leaves, {checkpoints} checkpoints since the mount",
                status.chunks, status.blocks, status.leaf_pages
            )
        });
        self.score.steps += 1;
    }

    pub fn say(&self, what: impl FnOnce() -> String) {
        if self.rules.trace {
            println!("{}", what());
        }
    }

    pub fn chunk(&mut self, key: Key) -> &mut Chunk {
        let blocks = usize::from(self.rules.blocks_per_chunk);
        self.chunks.entry(key).or_insert_with(|| Chunk::new(blocks))
    }

    pub fn volume(&mut self, id: VolumeId) -> &mut Volume {
        let found = self.volumes.iter_mut().find(|volume| volume.id == id);
        found.expect("what is spoken of is known")
    }

    /// Any volume that fits.
    pub fn pick_volume(&mut self, fits: impl Fn(&Volume) -> bool) -> Option<VolumeId> {
        let found: Vec<VolumeId> = self.volumes.iter().filter(|v| fits(v)).map(|v| v.id).collect();
        (!found.is_empty()).then(|| found[self.rng.below(found.len())])
    }

    pub fn pick_chunk(&mut self) -> u64 {
        self.rng.below(self.rules.chunks as usize) as u64
    }

    /// A part of a chunk. Wide chunks are mostly written in a few places, so that what is written there meets.
    pub fn pick_blocks(&mut self, most: u16) -> (u16, u16) {
        let blocks = self.rules.blocks_per_chunk;
        let first = if blocks <= 16 || self.rng.chance(8) {
            self.rng.below(usize::from(blocks)) as u16
        } else {
            // Around the borders of leaves.
            (self.rng.below(usize::from(blocks) / 64) * 64 + 60 + self.rng.below(8)) as u16 % blocks
        };
        let count = 1 + self.rng.below(usize::from((blocks - first).min(most))) as u16;
        (first, count)
    }

    /// A new owner's link, and the owner.
    pub fn asker(&mut self, volume: VolumeId, generation: Generation) -> Requester {
        self.links += 1;
        let mut asker = Requester::new(self.links);
        asker.volume = volume;
        asker.generation = generation;
        asker.blocks_per_chunk = self.rules.blocks_per_chunk;
        asker
    }

    pub fn send(&mut self, request: Request, payload: Slice, what: What) {
        let id = request.scope.volume;
        let (link, generation) = (self.volume(id).owner.link, request.scope.generation);
        self.say(|| {
            format!(
                "    {link:?} asks {}: {:?} under {:?}",
                request.id,
                brief(&request),
                request.scope.snapshot
            )
        });
        let asked = Asked {
            volume: id,
            generation,
            what,
        };
        self.asked.insert((link, request.id), asked);
        self.score.requests += 1;
        self.rig.send(link, request, payload);
        self.listen();
    }

    fn complete(&mut self) {
        for _ in 0..1 + self.rng.below(3) {
            if !self.rig.flights.is_empty() {
                let at = self.rng.below(self.rig.flights.len());
                self.rig.complete(at);
            }
        }
    }

    fn read(&mut self) {
        let (first, count) = self.pick_blocks(32);
        self.ask(Ask::Read { first, count });
    }

    fn question(&mut self) {
        let ask = match self.rng.below(4) {
            0 => {
                if let Some(id) = self.pick_volume(|volume| volume.fenced) {
                    let request = self.volume(id).change(amita_types::message::RequestBody::RenewLease);
                    self.send(request, Slice::default(), What::RenewLease);
                }
                return;
            }
            1 => Ask::Open,
            2 => Ask::Allocation,
            _ => {
                let from = self.rng.below(usize::from(self.rules.blocks_per_chunk)) as u16;
                let back = self.rng.below(20) as u64;
                Ask::Changes {
                    since: Version(back),
                    from,
                }
            }
        };
        self.ask(ask);
    }

    fn ask(&mut self, ask: Ask) {
        let Some(id) = self.pick_volume(|volume| volume.fenced) else {
            return;
        };
        let key = (id, self.pick_chunk());
        let newest = self.volume(id).newest as usize;
        let snapshot = if self.rng.chance(2) {
            0
        } else {
            self.rng.below(newest + 2) as u32
        };
        let least = self.rng.below(3);
        let chunk = self.chunk(key);
        let accepted = chunk.last();
        let least = match least {
            0 => Version::NONE,
            1 => chunk.held.version(),
            _ => accepted,
        };
        let ask = match ask {
            Ask::Changes { since, from } => Ask::Changes {
                since: Version(accepted.0.saturating_sub(since.0)),
                from,
            },
            other => other,
        };
        let question = Question { snapshot, least, ask };
        let turns = chunk.turns;
        let request = self.volume(id).ask(snapshot, question.body(key.1));
        let what = What::Question {
            key,
            question,
            turns,
            accepted,
        };
        self.send(request, Slice::default(), what);
    }

    /// What the store counted since it was opened.
    pub fn count(&mut self) {
        let counters = self.rig.store.status().counters;
        self.score.resends += counters.resends;
        self.score.merges += counters.merges;
        self.score.rolls += counters.rolls;
        self.score.checkpoints += counters.checkpoints;
        self.score.marks += counters.mark_pages;
        self.score.log_waits += counters.log_waits;
        self.score.leaf_reads += counters.leaf_reads;
        self.score.state_pages += counters.state_pages;
    }
}

/// A request as people read it.
fn brief(request: &Request) -> String {
    use amita_types::message::RequestBody as Body;
    let chunk = |chunk: &amita_types::ChunkIndex| format!("{}/{}", request.scope.volume, chunk.0);
    match &request.body {
        Body::Write(WriteRequest {
            chunk: at,
            offset_bytes,
            length_bytes,
            version,
            previous,
            ..
        }) => format!(
            "write {} {offset_bytes}+{length_bytes} {previous} -> {version}",
            chunk(at)
        ),
        Body::Roll(RollRequest {
            chunk: at,
            version,
            previous,
            entries,
            ..
        }) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|e| (e.block.0, e.version, e.sum.is_some()))
                .collect();
            format!("roll {} {previous} -> {version} {entries:?}", chunk(at))
        }
        other => format!("{} {other:?}", request.scope.volume),
    }
}
