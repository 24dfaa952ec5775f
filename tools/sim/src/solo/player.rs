//! The sequencer's part against one store, and everything that is checked of its answers.
//!
//! For each chunk the player keeps what it sent, in the order of the versions: its *line*. The store may hold any
//! prefix of the line that is not shorter than what it acknowledged; which one, it says when the chunk is opened.
//! Checked are:
//!
//! * after a start, and after a fence: the version is one of the line's, not below what was acknowledged, and every
//!   block holds what that prefix leaves in it (D1, D2, D4, D5, R6, R8);
//! * every read: all of its blocks as *one* prefix leaves them, not shorter than what was acknowledged when it was
//!   asked, with the right version and checksums (R3, D6); never an error;
//! * a fence by a newer generation is not answered before every lease granted to the older one has run out, across
//!   restarts too (R4), and an older generation is never let in again (R6);
//! * after a fence nothing of the older generation is answered as done that was not counted then (R6).

use super::Profile;
use super::line::{Entry, Line, piece_sums};
use super::service::StoreService;
use crate::coverage::Coverage;
use crate::random::Random;
use crate::stamp::{self, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector, Stamp};
use amita_reactor::{Slice, Time};
use amita_store::LinkId;
use amita_types::message::{
    ClearRequest, FenceRequest, OpenRequest, ReadRequest, Request, RequestBody, Scope, SettleRequest, WriteRequest,
};
use amita_types::{
    BlockRange, ChunkIndex, Epoch, Generation, GroupId, GroupIndex, NodeId, PoolId, RequestId, SnapshotId, Version,
    VolumeId,
};
use std::collections::BTreeMap;
use std::time::Duration;

mod answers;

const VOLUME: VolumeId = VolumeId(7);
const GROUP: GroupId = GroupId {
    pool: PoolId(1),
    index: GroupIndex(0),
};

/// Clears that are under way at once. They need no credits, and a store as small as these has room for few of them in
/// its index until a checkpoint has followed.
const MAX_CLEARS: usize = 4;

/// What the player does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing before an answer comes.
    Wait,
    /// Nothing for so long.
    Pause(Duration),
    /// The life is over.
    Ended,
}

#[derive(Clone, Debug)]
enum Asked {
    Fence {
        generation: Generation,
    },
    OldFence,
    Open {
        chunk: u64,
    },
    Write {
        chunk: u64,
        version: Version,
    },
    Read {
        chunk: u64,
        range: BlockRange,
        least: usize,
        after_open: Option<usize>,
    },
    /// A clear that does not follow what the store holds.
    Gap {
        chunk: u64,
    },
    Settle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// IoRequest for a fence.
    Fence,
    /// Wait for it.
    Fencing,
    /// IoRequest for the versions of all chunks.
    Open,
    /// Wait for them, and ask for all contents.
    Opening,
    /// Wait for these.
    Verifying,
    /// Write, clear, read.
    Working,
}

/// The sequencer's part.
pub struct Player {
    profile: Profile,
    random: Random,
    lines: Vec<Line>,
    generation: Generation,
    /// The newest generation whose fence was answered.
    fenced: Generation,
    phase: Phase,
    next_id: u64,
    next_stamp: u32,
    asked: BTreeMap<u64, (Time, Asked)>,
    /// Writes that were under way when a newer generation was fenced.
    ghosts: BTreeMap<u64, (u64, Version)>,
    credit: u64,
    /// No newer generation may be accepted before.
    leased_until: Time,
    requests: u32,
    rotted: bool,
    /// The line's unsent rest is to be sent again after a start under the same generation.
    keep: bool,
    now: Time,
    counts: BTreeMap<&'static str, u64>,
}

impl Player {
    /// Nothing was sent.
    pub fn new(profile: Profile, random: Random) -> Player {
        let blocks = usize::from(profile.blocks_per_chunk);
        let line = Line {
            base_values: vec![Stamp::ZERO; blocks * SECTORS_PER_BLOCK],
            base_versions: vec![Version::NONE; blocks],
            base: Version::NONE,
            entries: Vec::new(),
            acknowledged: 0,
            sent: 0,
        };
        Player {
            lines: vec![line; profile.chunks as usize],
            profile,
            random,
            generation: Generation(0),
            fenced: Generation(0),
            phase: Phase::Fence,
            next_id: 1,
            next_stamp: 1,
            asked: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            credit: 0,
            leased_until: Time::default(),
            requests: 0,
            rotted: false,
            keep: false,
            now: Time::default(),
            counts: BTreeMap::new(),
        }
    }

    /// The store serves, after a start.
    pub fn started(&mut self, now: Time) {
        self.now = now;
        self.phase = Phase::Fence;
        self.keep = self.generation > Generation(0) && self.random.percent(40);
        self.credit = 0;
    }

    /// So many requests in this life.
    pub fn plan(&mut self, requests: u32) {
        self.requests = requests;
    }

    /// The process is gone: nothing that was asked is answered any more.
    pub fn ended(&mut self) {
        self.asked.clear();
        self.ghosts.clear();
        self.lines.iter_mut().for_each(|line| line.sent = 0);
    }

    /// Bits of the disk have flipped: from now on it may be refused.
    pub fn rotted(&mut self) {
        self.rotted = true;
    }

    /// As above.
    pub fn has_rot(&self) -> bool {
        self.rotted
    }

    /// For a message.
    pub fn waiting_for(&self) -> String {
        format!(
            "{:?}: {:?}",
            self.phase,
            self.asked.values().map(|(_, asked)| asked).take(3).collect::<Vec<_>>()
        )
    }

    /// What was played, as paths.
    pub fn count(&mut self, coverage: &mut Coverage) {
        for (path, times) in std::mem::take(&mut self.counts) {
            coverage.add(path, times);
        }
    }

    fn hit(&mut self, path: &'static str) {
        *self.counts.entry(path).or_default() += 1;
    }

    fn ask(&mut self, service: &mut StoreService, asked: Asked, body: RequestBody, payload: Slice) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let generation = if matches!(asked, Asked::OldFence) {
            Generation(self.fenced.0 - 1)
        } else {
            self.generation
        };
        let scope = Scope {
            volume: VOLUME,
            generation,
            group: GROUP,
            epoch: Epoch(1),
            snapshot: SnapshotId::HEAD,
        };
        let request = Request {
            id: RequestId(id),
            store: super::STORE,
            scope,
            trace: amita_types::TraceId::NONE,
            purpose: Default::default(),
            body,
        };
        self.asked.insert(id, (self.now, asked));
        service.ask(LinkId(1), request, payload);
        id
    }

    fn fence_body(&self) -> RequestBody {
        RequestBody::Fence(FenceRequest {
            syncing: Vec::new(),
            owner: NodeId(1),
            in_sync: [super::STORE].into_iter().collect(),
            blocks_per_chunk: self.profile.blocks_per_chunk,
            given_back: None,
        })
    }

    /// Does the next thing. To be called after every step of the world.
    pub fn act(&mut self, now: Time, service: &mut StoreService) -> Result<Next, String> {
        self.now = now;
        match self.phase {
            Phase::Fence => {
                if self.fenced > Generation(1) && self.random.percent(20) {
                    // A sequencer of old wakes up: it must find the door shut.
                    let body = self.fence_body();
                    self.ask(service, Asked::OldFence, body, Slice::default());
                    self.hit("solo.old_fence");
                }
                if self.keep {
                    self.hit("solo.kept_generation");
                } else {
                    self.generation = Generation(self.generation.0 + 1);
                }
                let body = self.fence_body();
                self.ask(
                    service,
                    Asked::Fence {
                        generation: self.generation,
                    },
                    body,
                    Slice::default(),
                );
                self.phase = Phase::Fencing;
                Ok(Next::Wait)
            }
            Phase::Fencing => Ok(Next::Wait),
            Phase::Open => {
                self.open_chunks(service);
                self.phase = Phase::Opening;
                Ok(Next::Wait)
            }
            Phase::Opening => {
                if self.asked.is_empty() {
                    self.verify_chunks(service);
                    self.phase = Phase::Verifying;
                }
                Ok(Next::Wait)
            }
            Phase::Verifying => {
                if self.asked.is_empty() {
                    self.phase = Phase::Working;
                    (0..self.profile.chunks).for_each(|chunk| {
                        self.send_line(service, chunk);
                    });
                    return Ok(Next::Pause(Duration::ZERO));
                }
                Ok(Next::Wait)
            }
            Phase::Working => self.work(service),
        }
    }

    fn work(&mut self, service: &mut StoreService) -> Result<Next, String> {
        if self.requests == 0 {
            return Ok(Next::Ended);
        }
        if self.asked.len() >= self.profile.depth {
            return Ok(Next::Wait);
        }
        self.requests -= 1;
        if self.random.percent(self.profile.pause_percent) {
            self.hit("solo.pause");
            return Ok(Next::Pause(Duration::from_millis(self.random.within(1, 900))));
        }
        if self.random.percent(self.profile.fence_percent) {
            // A takeover in the middle of everything.
            self.hit("solo.takeover");
            self.keep = false;
            self.phase = Phase::Fence;
            return Ok(Next::Pause(Duration::ZERO));
        }
        if self.random.percent(self.profile.resend_percent) && self.resend(service) {
            return Ok(Next::Pause(Duration::ZERO));
        }
        let chunk = self.random.below(self.profile.chunks);
        if self.fenced > Generation(1) && self.fenced == self.generation && self.random.percent(1) {
            // A sequencer of old goes on as if nothing had happened.
            let last = self.lines[chunk as usize].last();
            let version = last.next(Generation(self.fenced.0 - 1));
            let range = BlockRange::new(0, 1);
            let body = match version {
                Some(version) if self.random.percent(50) => RequestBody::Clear(ClearRequest {
                    chunk: ChunkIndex(chunk),
                    range,
                    version,
                    previous: last,
                }),
                _ => RequestBody::Read(ReadRequest {
                    chunk: ChunkIndex(chunk),
                    range,
                    least: Version::NONE,
                    versions: false,
                    newest: None,
                }),
            };
            self.ask(service, Asked::OldFence, body, Slice::default());
            self.hit("solo.old_owner");
            return Ok(Next::Pause(Duration::ZERO));
        }
        if self.random.percent(self.profile.gap_percent) {
            self.gap(service, chunk);
            return Ok(Next::Pause(Duration::ZERO));
        }
        let share = self.random.below(100);
        if share < self.profile.read_percent {
            self.read(service, chunk);
        } else {
            let clear =
                share < self.profile.read_percent + self.profile.clear_percent && self.clears_under_way() < MAX_CLEARS;
            self.extend(chunk, clear);
            if !self.send_line(service, chunk) {
                return Ok(Next::Wait);
            }
        }
        // Several requests come in one pass, or each in its own.
        Ok(if self.random.percent(60) {
            Next::Pause(Duration::ZERO)
        } else {
            Next::Pause(Duration::from_micros(30))
        })
    }

    fn clears_under_way(&self) -> usize {
        let unsent = |line: &Line| {
            line.entries[line.acknowledged..]
                .iter()
                .filter(|e| e.stamp == Stamp::ZERO)
                .count()
        };
        self.lines.iter().map(unsent).sum()
    }

    /// What a sequencer never does, and a link that lost a message would: the write after the next one (R1).
    fn gap(&mut self, service: &mut StoreService, chunk: u64) {
        let next = |version: Version| version.next(self.generation).expect("a run is short");
        let previous = next(self.lines[chunk as usize].last());
        let (version, range) = (next(previous), BlockRange::new(0, 1));
        let body = RequestBody::Clear(ClearRequest {
            chunk: ChunkIndex(chunk),
            range,
            version,
            previous,
        });
        self.ask(service, Asked::Gap { chunk }, body, Slice::default());
        self.hit("solo.gap");
    }

    fn read(&mut self, service: &mut StoreService, chunk: u64) {
        let blocks = self.profile.blocks_per_chunk;
        let first = self.random.below(u64::from(blocks)) as u16;
        let count = self
            .random
            .within(1, u64::from((blocks - first).min(self.profile.max_blocks.max(4)))) as u16;
        self.read_range(service, chunk, BlockRange::new(first, count), None);
    }

    fn read_range(&mut self, service: &mut StoreService, chunk: u64, range: BlockRange, after_open: Option<usize>) {
        let line = &self.lines[chunk as usize];
        let least = line.acknowledged;
        let body = RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(chunk),
            range,
            least: line.version_at(least),
            versions: false,
            newest: None,
        });
        self.ask(
            service,
            Asked::Read {
                chunk,
                range,
                least,
                after_open,
            },
            body,
            Slice::default(),
        );
    }

    /// A new write at the end of a line.
    fn extend(&mut self, chunk: u64, clear: bool) {
        let per_block = SECTORS_PER_BLOCK as u64;
        let blocks = u64::from(self.profile.blocks_per_chunk);
        let first = self.random.below(blocks);
        let count = self
            .random
            .within(1, (blocks - first).min(u64::from(self.profile.max_blocks)));
        let (mut first, mut sectors) = (first * per_block, count * per_block);
        if !clear && self.random.percent(self.profile.part_percent) {
            let (skip, drop) = (self.random.below(per_block), self.random.below(per_block));
            if skip + drop < sectors {
                first += skip;
                sectors -= skip + drop;
            }
        }
        let stamp = if clear {
            Stamp::ZERO
        } else {
            self.next_stamp += 1;
            Stamp(self.next_stamp)
        };
        let line = &mut self.lines[chunk as usize];
        let version = line.last().next(self.generation).expect("a run is short");
        line.entries.push(Entry {
            version,
            first: first as u32,
            sectors: sectors as u32,
            stamp,
        });
    }

    /// Sends what the line has and was not sent; false when credits are missing.
    fn send_line(&mut self, service: &mut StoreService, chunk: u64) -> bool {
        while let Some(entry) = self.lines[chunk as usize].entries.get(self.lines[chunk as usize].sent) {
            let cost = if entry.stamp == Stamp::ZERO {
                0
            } else {
                u64::from(entry.blocks().count)
            };
            if self.credit < cost {
                if !self.asked.values().any(|(_, asked)| matches!(asked, Asked::Settle)) {
                    let (want, back) = (cost as u32, 0);
                    self.ask(
                        service,
                        Asked::Settle,
                        RequestBody::Settle(SettleRequest { want, back }),
                        Slice::default(),
                    );
                    self.hit("solo.credit_wait");
                }
                return false;
            }
            self.credit -= cost;
            let at = self.lines[chunk as usize].sent;
            let (body, payload, version) = self.write_body(chunk, at);
            self.ask(service, Asked::Write { chunk, version }, body, payload);
            self.lines[chunk as usize].sent += 1;
        }
        true
    }

    fn write_body(&self, chunk: u64, at: usize) -> (RequestBody, Slice, Version) {
        let line = &self.lines[chunk as usize];
        let entry = &line.entries[at];
        let (version, previous) = (entry.version, line.version_at(at));
        let chunk = ChunkIndex(chunk);
        if entry.stamp == Stamp::ZERO {
            return (
                RequestBody::Clear(ClearRequest {
                    chunk,
                    range: entry.blocks(),
                    version,
                    previous,
                }),
                Slice::default(),
                version,
            );
        }
        let offset_bytes = entry.first * SECTOR_BYTES as u32;
        let mut bytes = vec![0; entry.sectors as usize * SECTOR_BYTES];
        stamp::fill(&mut bytes, chunk.0 as u32, Sector(u64::from(entry.first)), entry.stamp);
        let sums = piece_sums(offset_bytes, &bytes);
        let length_bytes = bytes.len() as u32;
        let body = RequestBody::Write(WriteRequest {
            chunk,
            offset_bytes,
            length_bytes,
            version,
            previous,
            sums,
        });
        (body, Slice::copy_from(&bytes), version)
    }

    /// Sends a write that is under way once more, as after a broken connection.
    fn resend(&mut self, service: &mut StoreService) -> bool {
        let writes: Vec<(u64, u64, Version)> = self
            .asked
            .iter()
            .filter_map(|(id, (_, asked))| match asked {
                Asked::Write { chunk, version } => Some((*id, *chunk, *version)),
                _ => None,
            })
            .collect();
        if writes.is_empty() {
            return false;
        }
        let (id, chunk, version) = *self.random.pick(&writes);
        let line = &self.lines[chunk as usize];
        let Some(length) = line.length_of(version).filter(|length| *length > 0) else {
            return false;
        };
        let entry = &line.entries[length - 1];
        if entry.stamp != Stamp::ZERO {
            // What comes again is paid for again (R7).
            self.credit = self.credit.saturating_sub(u64::from(entry.blocks().count));
        }
        let (body, payload, _) = self.write_body(chunk, length - 1);
        let scope = Scope {
            volume: VOLUME,
            generation: self.generation,
            group: GROUP,
            epoch: Epoch(1),
            snapshot: SnapshotId::HEAD,
        };
        service.ask(
            LinkId(1),
            Request {
                id: RequestId(id),
                store: super::STORE,
                scope,
                trace: amita_types::TraceId::NONE,
                purpose: Default::default(),
                body,
            },
            payload,
        );
        self.hit("solo.resend");
        true
    }

    fn open_chunks(&mut self, service: &mut StoreService) {
        for chunk in 0..self.profile.chunks {
            let body = RequestBody::Open(OpenRequest {
                chunk: ChunkIndex(chunk),
            });
            self.ask(service, Asked::Open { chunk }, body, Slice::default());
        }
    }

    /// Everything is read once, and must be exactly as the version says.
    fn verify_chunks(&mut self, service: &mut StoreService) {
        let blocks = self.profile.blocks_per_chunk;
        for chunk in 0..self.profile.chunks {
            let length = self.lines[chunk as usize].acknowledged;
            let mut first = 0;
            while first < blocks {
                let count = (blocks - first).min(amita_types::MAX_IO_BLOCKS as u16);
                self.read_range(service, chunk, BlockRange::new(first, count), Some(length));
                first += count;
            }
        }
    }
}
