//! A run in which one operation of the device goes wrong, and what may be served after it.

use super::model::Model;
use super::owner::{BLOCKS, CHUNKS, Owner};
use super::probe::asker;
use super::trace::{Held, Right};
use super::{BLOCK, Disk, Flight, Host, Outcome, Requester, Rig, Told, data, image, joined, params};
use amita_reactor::{Pool, Slice, Time};
use amita_store::format::page::{self, Header};
use amita_store::format::superblock::{self, OFFSETS};
use amita_store::{Config, LinkId, State};
use amita_types::message::{
    AnswerBody, ChangesAnswer, ChangesRequest, DataAnswer, OpenRequest, OpenedAnswer, Refusal, Request, RequestBody,
};
use amita_types::{BlockIndex, ChunkIndex, Version};
use std::time::Duration;

pub const SIZE: u64 = 1 << 20;

/// What a page of the disk is, as far as its first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Superblock,
    Log,
    Checkpoint,
    /// A leaf of the index, in a slot.
    Leaf,
    /// A block, or nothing.
    Data,
}

pub fn kind(page: &[u8]) -> Kind {
    match page {
        _ if page.starts_with(&superblock::MAGIC.to_le_bytes()) => Kind::Superblock,
        _ if page.starts_with(&page::MAGIC.to_le_bytes()) => Kind::Log,
        _ if page.starts_with(b"ACKP") => Kind::Checkpoint,
        _ if page.starts_with(b"ALEF") => Kind::Leaf,
        _ => Kind::Data,
    }
}

/// Where pages of this kind lie; those of the log by their numbers, oldest first.
pub fn places(disk: &[u8], wanted: Kind) -> Vec<u64> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (at, page) in disk.chunks(BLOCK).enumerate() {
        if kind(page) == wanted {
            let number = match wanted {
                Kind::Log => Header::get(page).map_or(0, |header| header.sequence),
                _ => 0,
            };
            found.push((number, (at * BLOCK) as u64));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, offset)| offset).collect()
}

/// Which operation goes wrong, counted from the opening of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Write(usize),
    Flush(usize),
    Read(usize),
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    As(Outcome),
    /// The device says that all is well, but the bytes go elsewhere, or come from there.
    Lands(Elsewhere),
}

/// Where a misdirected operation lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    NextPage,
    /// Over a block that is in use.
    OtherBlock,
    NewestLogPage,
    /// The one before it.
    OlderLogPage,
    OldestLogPage,
    Superblock(usize),
    FirstCheckpointPage,
    LastCheckpointPage,
    FirstLeaf,
    LastLeaf,
}

pub const ELSEWHERE: [Elsewhere; 11] = [
    Elsewhere::NextPage,
    Elsewhere::OtherBlock,
    Elsewhere::NewestLogPage,
    Elsewhere::OlderLogPage,
    Elsewhere::OldestLogPage,
    Elsewhere::Superblock(0),
    Elsewhere::Superblock(1),
    Elsewhere::FirstCheckpointPage,
    Elsewhere::LastCheckpointPage,
    Elsewhere::FirstLeaf,
    Elsewhere::LastLeaf,
];

/// What was hit.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub kind: Option<Kind>,
    pub bytes: usize,
    pub outcome: Outcome,
    /// Was the store still being mounted?
    pub mounting: bool,
    /// Changes that were acknowledged before.
    pub acknowledged: usize,
}

/// A store with its owner, on a device that goes wrong once.
pub struct FaultyRun {
    pub rig: Rig,
    pub owner: Owner,
    pub fault: Option<(Target, Fault)>,
    pub hit: Option<Hit>,
    pub writes: usize,
    pub flushes: usize,
    pub reads: usize,
}

impl FaultyRun {
    /// Opens the store; nothing has happened yet.
    pub fn open(disk: Disk, seed: u64, fault: Option<(Target, Fault)>) -> FaultyRun {
        let mut owner = Owner::new(seed);
        owner.refused = Some(Vec::new());
        FaultyRun {
            rig: Rig::open(disk, Config::default(), Time(1), 1, Pool::heap()),
            owner,
            fault,
            hit: None,
            writes: 0,
            flushes: 0,
            reads: 0,
        }
    }

    pub fn fresh(seed: u64, volatile: bool, fault: Option<(Target, Fault)>) -> FaultyRun {
        FaultyRun::open(Disk::new(image(&params(SIZE)), volatile), seed, fault)
    }

    pub fn acknowledged(&self) -> usize {
        let chunks = self.owner.model.chunks.values();
        chunks.map(|chunk| chunk.acknowledgements).sum()
    }

    pub fn held(&self) -> Held {
        Held {
            model: self.owner.model.clone(),
            known: self.owner.known,
            asked: self.owner.right(),
            acknowledgements: 0,
        }
    }

    /// Passes until nothing is under way.
    pub fn settle(&mut self) {
        self.rig.pump();
        for _ in 0..100_000 {
            self.end_pass();
            if self.rig.flights.is_empty() {
                if self.rig.waits_to_read_again() {
                    continue;
                }
                return;
            }
            self.complete();
        }
        panic!("the store never comes to rest");
    }

    pub fn end_pass(&mut self) {
        self.owner.end_pass(&mut self.rig);
    }

    /// Ends the oldest operation, well or badly.
    pub fn complete(&mut self) {
        let target = match &self.rig.flights[0] {
            Flight::Read { .. } => {
                self.reads += 1;
                Target::Read(self.reads - 1)
            }
            Flight::Write { .. } => {
                self.writes += 1;
                Target::Write(self.writes - 1)
            }
            Flight::Flush { .. } => {
                self.flushes += 1;
                Target::Flush(self.flushes - 1)
            }
            Flight::Discard { .. } => unreachable!("its disk takes none"),
        };
        let mut outcome = Outcome::Good;
        if let Some((at, fault)) = self.fault
            && at == target
        {
            outcome = self.outcome(fault);
            let written = match &self.rig.flights[0] {
                Flight::Write { data, .. } => Some(joined(data)),
                _ => None,
            };
            self.hit = Some(Hit {
                kind: written.as_ref().map(|bytes| kind(bytes)),
                bytes: written.map_or(0, |bytes| bytes.len()),
                outcome,
                mounting: *self.rig.store.state() == State::Mounting,
                acknowledged: self.acknowledged(),
            });
        }
        self.rig.complete_as(0, outcome);
        self.owner.listen(&mut self.rig);
    }

    fn outcome(&self, fault: Fault) -> Outcome {
        let elsewhere = match fault {
            Fault::As(outcome) => return outcome,
            Fault::Lands(elsewhere) => elsewhere,
        };
        let (offset, bytes) = match &self.rig.flights[0] {
            Flight::Write { offset, data, .. } => (*offset, joined(data).len() as u64),
            Flight::Read { offset, buffer, .. } => (*offset, buffer.len() as u64),
            Flight::Discard { .. } | Flight::Flush { .. } => panic!("only data has a place"),
        };
        let view = &self.rig.disk.view;
        let log = places(view, Kind::Log);
        let checkpoint = places(view, Kind::Checkpoint);
        let leaves = places(view, Kind::Leaf);
        let landing = match elsewhere {
            Elsewhere::NextPage => Some(offset + BLOCK as u64),
            Elsewhere::OtherBlock => self.some_block(offset),
            Elsewhere::NewestLogPage => log.last().copied(),
            Elsewhere::OlderLogPage => log.iter().rev().nth(1).copied(),
            Elsewhere::OldestLogPage => log.first().copied(),
            Elsewhere::Superblock(which) => Some(OFFSETS[which]),
            Elsewhere::FirstCheckpointPage => checkpoint.first().copied(),
            Elsewhere::LastCheckpointPage => checkpoint.last().copied(),
            Elsewhere::FirstLeaf => leaves.first().copied(),
            Elsewhere::LastLeaf => leaves.last().copied(),
        };
        match landing {
            Some(landing) if landing != offset && landing + bytes <= SIZE => Outcome::Misdirected(landing),
            // There is no such place yet: it is lost.
            _ => Outcome::Lost,
        }
    }

    /// Where a block lies that is in use.
    fn some_block(&self, but: u64) -> Option<u64> {
        let mut blocks = self
            .owner
            .model
            .chunks
            .values()
            .flat_map(|chunk| &chunk.acknowledged.blocks);
        blocks.find_map(|(data, _)| {
            let data = data.as_ref()?;
            let at = self.rig.disk.view.chunks(BLOCK).position(|page| page == &data[..])?;
            let offset = (at * BLOCK) as u64;
            (offset != but).then_some(offset)
        })
    }

    /// Mounts, has its owner fenced in, and lets it work: so many acts, so many of them at once. Ends early where the
    /// store does.
    pub fn live(&mut self, acts: usize, at_once: usize) {
        self.settle();
        if !self.serves() {
            return;
        }
        self.fence(self.owner.right());
        for n in 0..acts {
            for _ in 0..at_once {
                let act = self.owner.any_act();
                self.owner.act(&mut self.rig, act);
            }
            if at_once == 1 {
                self.settle();
            } else {
                self.end_pass();
                for _ in 0..self.owner.rng.below(6) {
                    if !self.rig.flights.is_empty() {
                        self.complete();
                    }
                }
            }
            if n == acts / 2 {
                self.settle();
                let mut right = self.owner.right();
                right.generation = right.generation.next().expect("few takeovers");
                self.fence(right);
            }
            if !self.serves() {
                break;
            }
        }
        self.settle();
    }

    pub fn serves(&self) -> bool {
        *self.rig.store.state() == State::Serving
    }

    fn fence(&mut self, right: Right) {
        let mut asker = self.owner.asker.clone();
        asker.generation = right.generation;
        asker.epoch = right.epoch;
        let result = asker.fence(self);
        self.owner.asker = asker;
        match result {
            Ok(_) => self.owner.known = Some(right),
            Err(refusal) => assert_eq!(refusal, Refusal::Poisoned),
        }
    }

    /// The store says how far its log is verified.
    pub fn idle(&mut self) {
        self.settle();
        self.rig.advance(Duration::from_millis(600));
        self.settle();
    }
}

impl Host for FaultyRun {
    fn ask(&mut self, link: LinkId, request: Request, payload: Slice) -> Told {
        let id = request.id;
        self.rig.send(link, request, payload);
        for _ in 0..1000 {
            self.settle();
            if let Some(told) = self.rig.take(link, id) {
                return told;
            }
            let at = self
                .rig
                .store
                .deadline()
                .expect("what is not answered waits for something");
            self.rig.now = self.rig.now.max(at);
            self.rig.store.tick(self.rig.now);
            self.rig.pump();
        }
        panic!("request {id} is never answered");
    }
}

/// What a store serves of what it should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Blocks that are right.
    pub right: usize,
    /// Blocks that are refused as damaged: (chunk, block).
    pub damaged: Vec<(u64, u16)>,
    /// Chunks that are at an older version than was acknowledged.
    pub behind: usize,
}

/// Asks for everything, block for block. Panics where something is served that was never so.
pub fn inspect(host: &mut impl Host, model: &Model, right: Right) -> Served {
    let mut served = Served::default();
    let mut owner = asker(1 << 30, BLOCKS, right);
    assert_eq!(owner.fence(host), Ok(AnswerBody::Fenced));
    for index in 0..CHUNKS {
        let Some(chunk) = model.chunks.get(&index) else {
            continue;
        };
        let request = owner.request(RequestBody::Open(OpenRequest {
            chunk: ChunkIndex(index),
        }));
        let at = match owner.ask(host, request, Slice::default()).answer.result {
            Ok(AnswerBody::Opened(OpenedAnswer {
                version,
                incomplete: None,
                ..
            })) => version,
            // What the store knows of the chunk is damaged: it says so.
            Err(Refusal::Damaged { .. }) => {
                served.damaged.extend((0..BLOCKS).map(|block| (index, block)));
                continue;
            }
            other => panic!("an open was answered with {other:?}"),
        };
        let pending = chunk.state(at);
        let state = pending.as_ref().or_else(|| chunk.was(at));
        let state = state.unwrap_or_else(|| panic!("chunk {index} is at {at}, where it never was"));
        let acknowledged = chunk.acknowledged.version;
        if at < acknowledged {
            served.behind += 1;
            // Rule R8: who knows what was acknowledged gets nothing older.
            let (least, current) = (acknowledged, at);
            let refusal = read(host, &mut owner, index, 0, 1, least).map(|_| ());
            assert_eq!(refusal, Err(Refusal::Behind { current }));
        }
        let before = served.damaged.len();
        for block in 0..BLOCKS {
            match read(host, &mut owner, index, block, 1, Version::NONE) {
                Ok((bytes, version)) => {
                    assert!(
                        bytes == state.bytes(block, 1),
                        "block {block} of chunk {index} at {at} is served, and is not what was written"
                    );
                    assert_eq!(
                        version,
                        state.newest(block, 1),
                        "block {block} of chunk {index} at {at}"
                    );
                    served.right += 1;
                }
                Err(Refusal::Damaged { block: named }) => {
                    assert_eq!(named, BlockIndex(block));
                    served.damaged.push((index, block));
                }
                Err(refusal) => panic!("a read was refused: {refusal:?}"),
            }
        }
        // All at once: the same.
        let damaged = &served.damaged[before..];
        match read(host, &mut owner, index, 0, BLOCKS, Version::NONE) {
            Ok((bytes, _)) => assert!(damaged.is_empty() && bytes == state.bytes(0, BLOCKS)),
            Err(Refusal::Damaged { block }) => assert!(damaged.contains(&(index, block.0))),
            Err(refusal) => panic!("a read was refused: {refusal:?}"),
        }
        let request = owner.request(RequestBody::Changes(ChangesRequest {
            chunk: ChunkIndex(index),
            since: Version::NONE,
            from: BlockIndex(0),
        }));
        match owner.ask(host, request, Slice::default()).answer.result {
            Ok(AnswerBody::Changes(ChangesAnswer { entries, .. })) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|entry| (entry.block, entry.version, entry.sum))
                    .collect();
                assert_eq!(entries, state.entries(), "chunk {index} at {at}");
            }
            Err(Refusal::Damaged { .. }) => {}
            other => panic!("a question for changes was answered with {other:?}"),
        }
    }
    served
}

fn read(
    host: &mut impl Host,
    owner: &mut Requester,
    chunk: u64,
    first: u16,
    count: u16,
    least: Version,
) -> Result<(Vec<u8>, Version), Refusal> {
    let request = owner.read_request(chunk, first, count, least);
    let told = owner.ask(host, request, Slice::default());
    match told.answer.result? {
        AnswerBody::Data(DataAnswer { version, sums, .. }) => Ok((data(count, &told.payload, &sums), version)),
        other => panic!("a read was answered with {other:?}"),
    }
}
