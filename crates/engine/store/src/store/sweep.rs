//! Space is given back: chunks that nothing needs any more are dropped (rule R13).
//!
//! **The story.** A volume is deleted, or a group moves to other stores; nobody asks for the chunks any more, and nobody would
//! ever tell the store to drop them: their owner is gone, or does not know this store. So the store's own node tells it now and
//! then what the metadata says ([`Holdings`]), and the store compares.
//!
//! **Mechanism.** First what the store *knows* is made durable: that the volume is deleted, so that no owner of old is let in again;
//! or the group's epoch that does not name this store, so that whoever asks by an older one is refused. Only then chunks go, by
//! that durable knowledge, each by one record, whole or not at all. A chunk that is on its way out is not there for anybody: it is
//! not listed, and what asks for it is told to come again. So a group that names the store again finds each chunk as it was, or
//! not at all, and both are sound to begin a resync from (rule R5).
//!
//! **Pace.** A step looks at a bounded number of volumes, groups and chunks, and few chunks are on their way at one time. After a
//! step the next one waits.

use super::op::{Change, Op};
use super::snapshot::Keep;
use super::{State, Store};
use crate::faults::Fault;
use crate::fences::VolumeKey;
use crate::format::record::Fence;
use crate::index::{ChunkKey, OpSlot};
use crate::memo;
use amita_reactor::Time;
use amita_types::holdings::{HeldGroup, Holdings};
use amita_types::message::{
    AllocationRequest, ChangesRequest, ClearRequest, CloneRequest, JoinRequest, MendRequest, OpenRequest, ReadRequest,
    RequestBody, RetainRequest, RollRequest, VerifyRequest, WholeRequest, WriteRequest,
};
use amita_types::{ChunkId, Generation, MAX_BLOCKS_PER_CHUNK, NodeId, VolumeId};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two steps: with [`AT_ONCE`] it bounds what is freed to some 1.6 GiB a second and store.
const PAUSE: Duration = Duration::from_millis(5);
/// What could not be dropped is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Chunks that are on their way out at one time: each may read up to eight leaves of the index.
pub(super) const AT_ONCE: u32 = 2;
/// Volumes, groups or chunks that one step looks at.
pub(super) const LOOKS: u32 = 256;
/// Fences that one step logs.
const FENCES: u32 = 16;
/// Deleted volumes that one record names at most: as many have their grants taken back at one time.
const MOST_IN_RANGE: u64 = 256;

/// Not before something happens.
const NEVER: Time = Time(u64::MAX);

/// Where it has got to.
#[derive(Debug)]
pub(super) struct Sweep {
    holdings: Option<Arc<Holdings>>,
    /// When the next step is due.
    due: Time,
    /// How many volumes, groups and chunks are still to be looked at, and where it goes on. They are looked at in circles, so that
    /// news do not make it begin again and again.
    volumes: Round,
    groups: Round,
    chunks: Round,
    /// Chunks on their way out.
    going: u32,
    /// Something new is durable, so that all chunks are to be judged by it.
    news: bool,
    /// Something could not be decided, or dropped: it is looked at again, with newer holdings or later.
    undecided: bool,
    failed: bool,
    /// Everything was as these holdings want it.
    done: Option<u64>,
    /// Looks, counted.
    looks: u64,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep {
            holdings: None,
            due: NEVER,
            volumes: Round::default(),
            groups: Round::default(),
            chunks: Round::default(),
            going: 0,
            news: false,
            undecided: true,
            failed: false,
            done: None,
            looks: 0,
        }
    }
}

/// A look at everything of a kind, wherever it begins.
#[derive(Debug, Default)]
struct Round {
    at: u32,
    left: u32,
}

impl Round {
    fn begin(&mut self, all: u32) {
        self.left = all;
    }

    /// The next place, of `all` that there are now.
    fn next(&mut self, all: u32) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        if all == 0 {
            return None;
        }
        let at = self.at % all;
        self.at = at + 1;
        Some(at)
    }
}

impl Store {
    /// What the metadata says that stores may hold: what nothing needs any more is dropped from now on. `None`: the metadata is not
    /// to be believed at present, and nothing is dropped on its word.
    pub fn sweep(&mut self, now: Time, holdings: Option<Arc<Holdings>>) {
        self.env.now = now;
        let sweep = &mut self.sweep;
        sweep.done = None;
        let Some(holdings) = holdings else {
            (sweep.holdings, sweep.due) = (None, NEVER);
            return;
        };
        sweep.volumes.begin(self.fences.volumes().len() as u32);
        sweep.groups.begin(self.fences.groups().len() as u32);
        if std::mem::take(&mut sweep.undecided) {
            sweep.chunks.begin(self.index.end());
        }
        sweep.holdings = Some(holdings);
        sweep.due = sweep.due.min(now);
    }

    /// The revision of the newest holdings that the store has nothing beyond; `None`: it is at work, or was told nothing yet.
    #[must_use]
    pub fn swept(&self) -> Option<u64> {
        self.sweep.done
    }

    /// How many volumes, groups and chunks it has looked at since the store was opened.
    #[must_use]
    pub fn sweep_looks(&self) -> u64 {
        self.sweep.looks
    }

    pub(super) fn sweep_deadline(&self) -> Option<Time> {
        let serving = matches!(self.state, State::Serving);
        (serving && self.sweep.due < NEVER).then_some(self.sweep.due)
    }

    pub(super) fn sweep_step(&mut self) {
        if self.env.now < self.sweep.due {
            return;
        }
        let Some(holdings) = self.sweep.holdings.clone() else {
            self.sweep.due = NEVER;
            return;
        };
        self.sweep.due = self.env.now.plus(PAUSE);
        // What was found is durable before chunks are judged by it.
        if self.space.claims.fences_logged > 0 {
            return;
        }
        let early = self.config.faults.has(Fault::DropUnfenced);
        if self.sweep_fences(&holdings) && !early {
            return;
        }
        // Only now: what was accepted by an older epoch, until this one was durable, has its place among them.
        if std::mem::take(&mut self.sweep.news) {
            self.sweep.chunks.begin(self.index.end());
        }
        if !self.sweep_chunks(&holdings) || self.sweep.going > 0 {
            return;
        }
        self.sweep.due = match std::mem::take(&mut self.sweep.failed) {
            true => {
                self.sweep.chunks.begin(self.index.end());
                self.env.now.plus(AGAIN)
            }
            false => {
                self.sweep.done = Some(holdings.revision);
                NEVER
            }
        };
    }

    /// Looks at volumes and groups; whether something is to be waited for.
    fn sweep_fences(&mut self, holdings: &Holdings) -> bool {
        let (mut looks, mut logged) = (0, 0);
        while looks < LOOKS && logged < FENCES {
            let Some(at) = self.sweep.volumes.next(self.fences.volumes().len() as u32) else {
                break;
            };
            looks += 1;
            logged += u32::from(self.sweep_volume(holdings, at));
        }
        while looks < LOOKS && logged < FENCES {
            let Some(at) = self.sweep.groups.next(self.fences.groups().len() as u32) else {
                break;
            };
            looks += 1;
            logged += u32::from(self.sweep_group(holdings, at));
        }
        self.sweep.looks += u64::from(looks);
        self.sweep.news |= logged > 0;
        logged > 0 || self.sweep.volumes.left > 0 || self.sweep.groups.left > 0
    }

    /// Is a volume deleted that the store knows? Then that is made durable.
    fn sweep_volume(&mut self, holdings: &Holdings, at: u32) -> bool {
        let key = VolumeKey(at);
        let known = self.fences.volume(key);
        if known.closing == Generation::DELETED {
            return false;
        }
        let Some((first, last)) = holdings.deleted(known.id, MOST_IN_RANGE) else {
            return false;
        };
        for id in first.0..=last.0 {
            if let Some(key) = self.fences.find(VolumeId(id)) {
                self.fences.close_deleted(key);
            }
        }
        self.sweep_log(Fence {
            volume: first,
            generation: Generation::DELETED,
            owner: NodeId((last.0 - first.0) as u32),
            group: memo::GROUP,
            epoch: memo::EPOCH,
            blocks_per_chunk: MAX_BLOCKS_PER_CHUNK as u16,
            in_sync: [self.env.id].into_iter().collect(),
            syncing: Default::default(),
        });
        true
    }

    /// Has a group that the store knows moved on without it? Then its epoch is made durable.
    fn sweep_group(&mut self, holdings: &Holdings, at: u32) -> bool {
        let known = &self.fences.groups()[at as usize];
        let Some(now) = holdings.group(known.id).filter(|now| !now.names(self.env.id)) else {
            return false;
        };
        if now.epoch <= known.epoch {
            // Chunks may be left of it since before the store was mounted.
            return false;
        }
        let fence = Fence {
            volume: memo::VOLUME,
            generation: memo::GENERATION,
            owner: NodeId(0),
            group: now.id,
            epoch: now.epoch,
            blocks_per_chunk: known.blocks_per_chunk,
            in_sync: now.in_sync.clone(),
            syncing: now.syncing.clone(),
        };
        self.sweep_log(fence);
        true
    }

    fn sweep_log(&mut self, fence: Fence) {
        if !self.config.faults.has(Fault::DropUnfenced) {
            self.log_fence(None, fence);
        }
    }

    /// Drops chunks; `true`: all of them were looked at.
    fn sweep_chunks(&mut self, holdings: &Holdings) -> bool {
        let mut looks = 0;
        while looks < LOOKS && self.sweep.going < AT_ONCE {
            let Some(at) = self.sweep.chunks.next(self.index.end()) else {
                return true;
            };
            looks += 1;
            self.sweep.looks += 1;
            let key = ChunkKey(at);
            let chunk = self.index.chunk(key);
            // What is only accepted will be there.
            let there = chunk.is_there() || chunk.first_pending != OpSlot::NONE;
            if there && !chunk.deleting && self.is_left(holdings, chunk.id) {
                self.sweep_chunk(key);
            }
        }
        self.sweep.chunks.left == 0
    }

    /// Does nothing need this chunk, by what is durably known?
    fn is_left(&mut self, holdings: &Holdings, chunk: ChunkId) -> bool {
        let early = self.config.faults.has(Fault::DropUnfenced);
        if self.fences.is_deleted(chunk.volume) || (early && holdings.deleted(chunk.volume, 1).is_some()) {
            return true;
        }
        let Some(group) = holdings.group_of(chunk.volume, chunk.index) else {
            // A volume that is newer than what was said.
            self.sweep.undecided |= chunk.volume != memo::VOLUME;
            return false;
        };
        let Some(now) = holdings.group(group).filter(|now| !now.names(self.env.id)) else {
            return false;
        };
        early || self.has_adopted(now)
    }

    /// Does the store durably know the group as it is now, and without itself?
    fn has_adopted(&self, now: &HeldGroup) -> bool {
        let known = self.fences.group(now.id);
        let stale = self.config.faults.has(Fault::DropRelisted);
        known.is_some_and(|known| (known.epoch == now.epoch && !known.holds) || stale)
    }

    fn sweep_chunk(&mut self, key: ChunkKey) {
        self.sweep.going += 1;
        self.index.chunk_mut(key).deleting = true;
        self.sweep_next(key);
    }

    /// The next of its states is dropped, or at last the chunk itself.
    pub(super) fn sweep_next(&mut self, key: ChunkKey) {
        let version = self.index.chunk(key).accepted;
        self.queue(Op {
            version,
            previous: version,
            ..Op::new(Change::Keep(Box::new(Keep::nothing())), None, key)
        });
    }

    /// A chunk is gone, or stays for now.
    pub(super) fn sweep_ended(&mut self, gone: bool) {
        self.sweep.going -= 1;
        self.sweep.failed |= !gone;
        self.env.counters.swept += u64::from(gone);
    }

    /// Is the chunk that a request names on its way out? Then whoever asks comes again, and finds nothing.
    pub(super) fn is_going(&self, volume: VolumeId, body: &RequestBody) -> bool {
        if self.sweep.going == 0 || self.config.faults.has(Fault::GoingIsThere) {
            return false;
        }
        let index = match *body {
            RequestBody::Open(OpenRequest { chunk })
            | RequestBody::Write(WriteRequest { chunk, .. })
            | RequestBody::Clear(ClearRequest { chunk, .. })
            | RequestBody::Read(ReadRequest { chunk, .. })
            | RequestBody::Changes(ChangesRequest { chunk, .. })
            | RequestBody::Roll(RollRequest { chunk, .. })
            | RequestBody::Keep(RetainRequest { chunk, .. })
            | RequestBody::Clone(CloneRequest { chunk, .. })
            | RequestBody::Join(JoinRequest { chunk, .. })
            | RequestBody::Mend(MendRequest { chunk, .. })
            | RequestBody::Whole(WholeRequest { chunk, .. })
            | RequestBody::Verify(VerifyRequest { chunk, .. })
            | RequestBody::Allocation(AllocationRequest { chunk, .. }) => chunk,
            RequestBody::Fence(_) | RequestBody::Confirm | RequestBody::Settle(_) | RequestBody::Chunks(_) => {
                return false;
            }
        };
        self.is_chunk_going(ChunkId { volume, index })
    }

    fn is_chunk_going(&self, chunk: ChunkId) -> bool {
        self.index.find(chunk).is_some_and(|key| self.index.chunk(key).deleting)
    }
}
