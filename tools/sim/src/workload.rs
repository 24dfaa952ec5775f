//! Seeded clients: what they ask, how much at once, and where.
//!
//! Many clients hammer few hot blocks, because what goes wrong in replication goes wrong where operations on one block
//! overlap; others spread over the volume, so that all groups and all chunks are touched. An operation stays inside one
//! chunk, as the pieces do that a protocol front cuts.

use crate::history::{History, Kind, OperationId, Outcome};
use crate::random::Random;
use crate::stamp::{SECTORS_PER_BLOCK, Sector, Stamp};
use amita_reactor::Time;
use std::collections::BTreeMap;

/// What the clients of one run do. Percentages are of all operations.
#[derive(Clone, Debug)]
pub struct Profile {
    pub clients: u32,
    /// So many of them, the first ones, only read.
    pub readers: u32,
    /// How many operations each keeps under way at most.
    pub depth: u32,
    /// How many operations all of them together ask for.
    pub operations: u32,
    /// Volumes; client number c uses number c modulo this. The blocks of each follow those of the one before.
    pub volumes: u64,
    /// Blocks of a volume.
    pub blocks: u64,
    /// Blocks of a chunk.
    pub blocks_per_chunk: u64,
    /// So many blocks are hot.
    pub hot_blocks: u64,
    /// So often a hot one is taken.
    pub hot_percent: u64,
    pub read_percent: u64,
    pub clear_percent: u64,
    /// Compare-and-writes, of one block or a part of it.
    pub compare_percent: u64,
    /// Writes and reads of a part of a block.
    pub part_percent: u64,
    /// The longest operation, in blocks.
    pub max_blocks: u64,
    /// The pause of a client between two operations, at most.
    pub pause_ns: u64,
}

impl Profile {
    /// A profile of its own for each seed. The small ones find most, and are cheap: more seeds in the same time.
    #[must_use]
    pub fn draw(random: &mut Random, volumes: u64, blocks: u64, blocks_per_chunk: u64) -> Profile {
        let read_percent = *random.pick(&[20, 40, 50, 70]);
        Profile {
            clients: random.within(volumes, 6) as u32,
            readers: if random.percent(20) { 1 } else { 0 },
            depth: *random.pick(&[1, 1, 2, 4, 8]),
            operations: *random.pick(&[80, 150, 300, 300, 700]),
            volumes,
            blocks,
            blocks_per_chunk,
            hot_blocks: random.within(1, 6),
            hot_percent: *random.pick(&[30, 60, 80, 95]),
            read_percent,
            clear_percent: *random.pick(&[0, 3, 10]),
            compare_percent: 0,
            part_percent: *random.pick(&[0, 5, 20]),
            max_blocks: *random.pick(&[1, 2, 4, 8]),
            pause_ns: *random.pick(&[100_000, 1_000_000, 5_000_000, 20_000_000, 100_000_000]),
        }
    }

    /// Large chunks, sparsely written: many leaves of the index with little in each, and many pages of the log.
    pub fn widen(&mut self, random: &mut Random, blocks: u64, blocks_per_chunk: u64) {
        (self.blocks, self.blocks_per_chunk) = (blocks, blocks_per_chunk);
        self.hot_blocks = random.within(4, 40);
        self.hot_percent = *random.pick(&[20, 50, 80]);
        self.read_percent = self.read_percent.min(40);
        self.operations = self.operations.max(500);
        self.max_blocks = *random.pick(&[1, 2, 8, 32]);
    }

    /// Few operations with long pauses between them: hours of virtual time.
    pub fn live_long(&mut self, random: &mut Random) {
        self.operations = self.operations.min(300);
        self.pause_ns = random.within(10, 240) * 1_000_000_000;
    }
}

/// An operation to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoRequest {
    /// Its place in the history.
    pub id: OperationId,
    pub kind: Kind,
    /// From where.
    pub first: Sector,
    pub sectors: u32,
}

#[derive(Clone, Debug)]
pub struct Client {
    number: u32,
    random: Random,
    under_way: u32,
    next_at: Time,
}

impl Client {
    /// The volume that it uses.
    fn volume(&self, profile: &Profile) -> usize {
        (u64::from(self.number) % profile.volumes) as usize
    }
}

#[derive(Clone, Debug)]
pub struct Workload {
    profile: Profile,
    hot: Vec<u64>,
    clients: Vec<Client>,
    asked: u32,
    /// Blocks of each volume now.
    sizes: Vec<u64>,
    /// Volumes whose clients ask for nothing for a while.
    resting: Vec<bool>,
    /// What the sectors were last heard to hold: what compare-and-writes expect.
    heard: BTreeMap<Sector, Stamp>,
}

impl Workload {
    /// The clients of a seed.
    #[must_use]
    pub fn new(profile: Profile, random: &Random) -> Workload {
        let mut places = random.fork(1);
        let hot = (0..profile.hot_blocks).map(|_| places.below(profile.blocks)).collect();
        let clients = (0..profile.clients)
            .map(|number| Client {
                number,
                random: random.fork(100 + u64::from(number)),
                under_way: 0,
                next_at: Time::default(),
            })
            .collect();
        Workload {
            sizes: vec![profile.blocks; profile.volumes as usize],
            resting: vec![false; profile.volumes as usize],
            profile,
            hot,
            clients,
            asked: 0,
            heard: BTreeMap::new(),
        }
    }

    /// What the clients do.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Has everything been asked for?
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.asked >= self.profile.operations
    }

    /// A volume has so many blocks from now on.
    pub fn resize(&mut self, volume: u64, blocks: u64) {
        self.sizes[volume as usize] = blocks;
    }

    /// The clients of a volume ask for nothing; or may again.
    pub fn rest(&mut self, volume: u64, rests: bool) {
        self.resting[volume as usize] = rests;
    }

    /// Nothing more is asked for.
    pub fn stop(&mut self) {
        self.profile.operations = self.asked;
    }

    /// So many operations more.
    pub fn go_on(&mut self, operations: u32) {
        self.profile.operations = self.asked + operations;
    }

    /// How many operations have been asked for.
    #[must_use]
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// When some client next wants to ask; none while all wait for answers or are done.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        if self.is_done() {
            return None;
        }
        self.clients
            .iter()
            .filter(|c| c.under_way < self.profile.depth && !self.resting[c.volume(&self.profile)])
            .map(|c| c.next_at)
            .min()
    }

    /// The next operation of a client whose time has come.
    pub fn ask(&mut self, now: Time, history: &mut History) -> Option<IoRequest> {
        if self.is_done() {
            return None;
        }
        let (profile, hot, resting) = (&self.profile, &self.hot, &self.resting);
        let client = self
            .clients
            .iter_mut()
            .find(|c| c.under_way < profile.depth && c.next_at <= now && !resting[c.volume(profile)])?;
        let random = &mut client.random;
        let volume = u64::from(client.number) % profile.volumes;
        let size = self.sizes[volume as usize];
        let block = if random.percent(profile.hot_percent) {
            *random.pick(hot) % size
        } else {
            random.below(size)
        };
        let left = profile.blocks_per_chunk - block % profile.blocks_per_chunk;
        let blocks = random.within(1, profile.max_blocks).min(left).min(size - block);
        let block = volume * profile.blocks + block;
        let kind = match random.below(100) {
            _ if client.number < profile.readers => Kind::Read,
            share if share < profile.read_percent => Kind::Read,
            share if share < profile.read_percent + profile.clear_percent => Kind::Clear,
            _ => Kind::Write,
        };
        let per_block = SECTORS_PER_BLOCK as u64;
        let (mut first, mut sectors) = (block * per_block, blocks * per_block);
        if kind != Kind::Clear && random.percent(profile.part_percent) {
            // Starts or ends inside a block, or both.
            let skip = random.below(per_block);
            let drop = random.below(per_block);
            if skip + drop < sectors {
                first += skip;
                sectors -= skip + drop;
            }
        }
        let is_compare = kind != Kind::Read && profile.compare_percent > 0 && random.percent(profile.compare_percent);
        client.under_way += 1;
        client.next_at = Time(now.0 + random.within(1, profile.pause_ns));
        self.asked += 1;
        if is_compare {
            // In one block: blocks are judged one by one.
            let sectors = sectors.min(per_block - first % per_block);
            let held = |at| self.heard.get(&Sector(at)).copied().unwrap_or_default();
            let expected = (first..first + sectors).map(held).collect();
            let first = Sector(first);
            return Some(IoRequest {
                id: history.invoke_compare(now, client.number, first, expected),
                kind: Kind::Compare,
                first,
                sectors: sectors as u32,
            });
        }
        let (first, sectors) = (Sector(first), sectors as u32);
        let id = history.invoke(now, client.number, kind, first, sectors);
        Some(IoRequest {
            id,
            kind,
            first,
            sectors,
        })
    }

    /// The host has heard what an operation left or found.
    pub fn learn(&mut self, history: &History, id: OperationId) {
        if self.profile.compare_percent == 0 {
            return;
        }
        let operation = history.get(id);
        let Outcome::Done(read) = &operation.outcome else {
            return;
        };
        for at in 0..operation.sectors {
            let stamp = match operation.kind {
                Kind::Read => read[at as usize],
                Kind::Clear => Stamp::ZERO,
                Kind::Write | Kind::Compare => id.stamp(),
            };
            self.heard.insert(Sector(operation.first.0 + u64::from(at)), stamp);
        }
    }

    /// An operation has ended, one way or another: its client goes on.
    pub fn ended(&mut self, client: u32) {
        let client = &mut self.clients[client as usize];
        assert!(client.under_way > 0, "client {} has nothing under way", client.number);
        client.under_way -= 1;
    }
}

#[cfg(test)]
mod tests;
