//! Space is given back: chunks that nothing needs any more are dropped (rule R13).
//!
//! **The story.** A volume is deleted, or a group moves to other stores; nobody asks for the chunks any more, and
//! nobody would ever tell the store to drop them: their owner is gone, or does not know this store. So the store's own
//! node tells it now and then what the metadata says ([`Holdings`]), and the store compares.
//!
//! **Mechanism.** First what the store *knows* is made durable: that the volume is deleted, so that no owner of old is
//! let in again; or the group's epoch that does not name this store, so that whoever asks by an older one is refused.
//! Only then chunks go, by that durable knowledge, each by one record, whole or not at all. A chunk that is on its way
//! out is not there for anybody: it is not listed, and what asks for it is told to come again. So a group that names
//! the store again finds each chunk as it was, or not at all, and both are sound to begin a resync from (rule R5).
//!
//! **Snapshots** (rule S9). What a chunk was for snapshots that are deleted goes in the same way, state by state: a state goes if no
//! snapshot that it stands for is there any more, and none of them is newer than what was said. Nothing need be durable for that: a
//! number is never given twice. While a chunk is being brought up to date its states are its owner's (S6).
//!
//! **Pace.** A step looks at a bounded number of volumes, groups and chunks, and few chunks are on their way at one
//! time. After a step the next one waits.

use super::change::Change;
use super::op::{Op, Ops};
use super::snapshot::Retained;
use super::space::Space;
use super::{Store, fence, queue};
use crate::config::Config;
use crate::faults::Fault;
use crate::fences::{Fences, VolumeKey};
use crate::format::record::Fence;
use crate::index::{ChunkKey, Index, OpSlot};
use crate::memo;
use crate::status::Counters;
use amita_reactor::Time;
use amita_types::holdings::{HeldGroup, Holdings};
use amita_types::message::RequestBody;
use amita_types::{ChunkId, Generation, MAX_BLOCKS_PER_CHUNK, NodeId, SnapshotId, VolumeId};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two steps: with [`AT_ONCE`] it bounds what is freed to some 1.6 GiB a second and store.
const PAUSE: Duration = Duration::from_millis(5);
/// What could not be dropped is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause before a leaf that could not be read is read again.
const LATER: Duration = Duration::from_secs(10);
/// Chunks that are on their way out at one time: each may read up to eight leaves of the index.
pub(super) const AT_ONCE: u32 = 2;
/// Volumes, groups or chunks that one step looks at.
pub(super) const LOOKS: u32 = 256;
/// To look over so many states of a chunk is one look.
const STATES_PER_LOOK: u32 = 32;
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
    /// How many volumes, groups and chunks are still to be looked at, and where it goes on. They are looked at in
    /// circles, so that news do not make it begin again and again.
    volumes: Round,
    groups: Round,
    chunks: Round,
    /// Chunks on their way out, and states.
    going: u32,
    /// Chunks that may have more states to be dropped, above these snapshots.
    more: Vec<(ChunkKey, SnapshotId)>,
    /// Those of which a leaf could not be read: they are tried again.
    later: Vec<ChunkKey>,
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
            more: Vec::new(),
            later: Vec::new(),
            news: false,
            undecided: true,
            failed: false,
            done: None,
            looks: 0,
        }
    }
}

/// How it ended to drop a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trim {
    /// The state before it was for snapshots up to this one.
    Dropped {
        above: SnapshotId,
    },
    Nothing,
    Failed,
}

/// A look at everything of a kind, wherever it begins.
#[derive(Debug, Default)]
struct Round {
    at: u32,
    left: u32,
    /// How many there were when it was last looked.
    all: u32,
}

impl Sweep {
    /// When the next step is due.
    pub fn deadline(&self) -> Option<Time> {
        (self.due < NEVER).then_some(self.due)
    }

    /// The revision of the newest holdings that the store has nothing beyond.
    pub fn done(&self) -> Option<u64> {
        self.done
    }

    /// How many volumes, groups and chunks it has looked at.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// A chunk is gone, or stays for now.
    pub fn ended(&mut self, gone: bool, counters: &mut Counters) {
        self.going -= 1;
        self.failed |= !gone;
        counters.swept += u64::from(gone);
    }
}

impl Sweep {
    /// A state of a chunk has been dropped, and it may have more of them, newer ones; nothing was to be dropped any more; or it could
    /// not be.
    pub fn trimmed(&mut self, chunk: ChunkKey, end: Trim, counters: &mut Counters) {
        self.going -= 1;
        match end {
            Trim::Dropped { above } => {
                counters.trimmed += 1;
                self.more.push((chunk, above));
            }
            Trim::Nothing => {}
            Trim::Failed if self.later.contains(&chunk) => {}
            Trim::Failed => self.later.push(chunk),
        }
    }
}

impl Round {
    fn begin(&mut self, all: u32) {
        (self.left, self.all) = (all, all);
    }

    /// The next place, of `all` that there are now.
    fn next(&mut self, all: u32) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        // Those that have come meanwhile stand before the ones that it began with, and do not take their turns.
        self.left += all.saturating_sub(self.all);
        self.all = self.all.max(all);
        if all == 0 {
            return None;
        }
        let at = self.at % all;
        self.at = at + 1;
        Some(at)
    }
}

/// What the metadata says that stores may hold has come; `None`: it is not to be believed at present.
pub(super) fn begin(store: &mut Store, holdings: Option<Arc<Holdings>>) {
    let sweep = &mut store.sweep;
    sweep.done = None;
    let Some(holdings) = holdings else {
        (sweep.holdings, sweep.due) = (None, NEVER);
        return;
    };
    sweep.volumes.begin(store.fences.volumes().len() as u32);
    sweep.groups.begin(store.fences.groups().len() as u32);
    let trims = match &sweep.holdings {
        Some(before) => holdings.has_lost_snapshots(before),
        None => true,
    };
    if std::mem::take(&mut sweep.undecided) || trims {
        sweep.chunks.begin(store.index.end());
    }
    sweep.holdings = Some(holdings);
    sweep.due = sweep.due.min(store.env.now);
}

pub(super) fn step(store: &mut Store) {
    if store.env.now < store.sweep.due {
        return;
    }
    let Some(holdings) = store.sweep.holdings.clone() else {
        store.sweep.due = NEVER;
        return;
    };
    store.sweep.due = store.env.now.plus(PAUSE);
    // What was found is durable before chunks are judged by it.
    if store.space.claims.fences_logged > 0 {
        return;
    }
    let early = store.config.faults.has(Fault::DropUnfenced);
    if look_at_fences(store, &holdings) && !early {
        return;
    }
    // Only now: what was accepted by an older epoch, until this one was durable, has its place among them.
    if std::mem::take(&mut store.sweep.news) {
        store.sweep.chunks.begin(store.index.end());
    }
    if !look_at_chunks(store, &holdings) || store.sweep.going > 0 {
        return;
    }
    if !store.sweep.later.is_empty() && !store.sweep.failed {
        let later = std::mem::take(&mut store.sweep.later).into_iter();
        store.sweep.more = later.map(|key| (key, SnapshotId::HEAD)).collect();
        store.sweep.due = store.env.now.plus(LATER);
        return;
    }
    store.sweep.due = match std::mem::take(&mut store.sweep.failed) {
        true => {
            // All are looked at again, and these too.
            store.sweep.later.clear();
            store.sweep.chunks.begin(store.index.end());
            store.env.now.plus(AGAIN)
        }
        false => {
            store.sweep.done = Some(holdings.revision);
            NEVER
        }
    };
}

/// Looks at volumes and groups; whether something is to be waited for.
fn look_at_fences(store: &mut Store, holdings: &Holdings) -> bool {
    let (mut looks, mut logged) = (0, 0);
    while looks < LOOKS && logged < FENCES {
        let Some(at) = store.sweep.volumes.next(store.fences.volumes().len() as u32) else {
            break;
        };
        looks += 1;
        logged += u32::from(look_at_volume(store, holdings, at));
    }
    while looks < LOOKS && logged < FENCES {
        let Some(at) = store.sweep.groups.next(store.fences.groups().len() as u32) else {
            break;
        };
        looks += 1;
        logged += u32::from(look_at_group(store, holdings, at));
    }
    store.sweep.looks += u64::from(looks);
    store.sweep.news |= logged > 0;
    logged > 0 || store.sweep.volumes.left > 0 || store.sweep.groups.left > 0
}

/// Is a volume deleted that the store knows? Then that is made durable.
fn look_at_volume(store: &mut Store, holdings: &Holdings, at: u32) -> bool {
    let key = VolumeKey(at);
    let known = store.fences.volume(key);
    if known.closing == Generation::DELETED {
        return false;
    }
    let Some((first, last)) = holdings.deleted(known.id, MOST_IN_RANGE) else {
        return false;
    };
    for id in first.0..=last.0 {
        if let Some(key) = store.fences.find(VolumeId(id)) {
            store.fences.close_deleted(key);
        }
    }
    log(
        &store.config,
        &mut store.ops,
        &mut store.space,
        Fence {
            volume: first,
            generation: Generation::DELETED,
            owner: NodeId((last.0 - first.0) as u32),
            group: memo::GROUP,
            epoch: memo::EPOCH,
            blocks_per_chunk: MAX_BLOCKS_PER_CHUNK as u16,
            in_sync: [store.env.id].into_iter().collect(),
            syncing: Default::default(),
        },
    );
    true
}

/// Has a group that the store knows moved on without it? Then its epoch is made durable.
fn look_at_group(store: &mut Store, holdings: &Holdings, at: u32) -> bool {
    let known = &store.fences.groups()[at as usize];
    let Some(now) = holdings.group(known.id).filter(|now| !now.names(store.env.id)) else {
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
    log(&store.config, &mut store.ops, &mut store.space, fence);
    true
}

fn log(config: &Config, ops: &mut Ops, space: &mut Space, fence: Fence) {
    if !config.faults.has(Fault::DropUnfenced) {
        fence::log(ops, space, None, fence);
    }
}

/// Drops chunks; `true`: all of them were looked at.
fn look_at_chunks(store: &mut Store, holdings: &Holdings) -> bool {
    let mut looks = 0;
    while store.sweep.going < AT_ONCE
        && let Some((key, above)) = store.sweep.more.pop()
    {
        trim(store, holdings, key, above);
    }
    while looks < LOOKS && store.sweep.going < AT_ONCE {
        let Some(at) = store.sweep.chunks.next(store.index.end()) else {
            return true;
        };
        let key = ChunkKey(at);
        let chunk = store.index.chunk(key);
        looks += 1 + chunk.state_count() as u32 / STATES_PER_LOOK;
        store.sweep.looks += 1;
        // What is only accepted will be there.
        let there = chunk.is_there() || chunk.queue.first != OpSlot::NONE;
        if there && !chunk.deleting && is_left(store, holdings, chunk.id) {
            drop_chunk(store, key);
        } else if there {
            trim(store, holdings, key, SnapshotId::HEAD);
        }
    }
    store.sweep.chunks.left == 0 && store.sweep.more.is_empty()
}

/// What may have been kept of a chunk for snapshots that are gone already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Its newest state, which was just made.
    Newest,
    /// Any: it is whole again.
    Any,
}

/// A chunk was kept as it was, or is whole again: perhaps for snapshots that are gone already.
pub(super) fn look_again(sweep: &mut Sweep, index: &Index, key: ChunkKey, kept: Kept, now: Time) {
    let chunk = index.chunk(key);
    let holdings = sweep.holdings.as_deref();
    let Some(held) = holdings.and_then(|holdings| holdings.snapshots(chunk.id.volume)) else {
        return;
    };
    let is_dead = match kept {
        Kept::Newest => chunk.is_newest_dead(held.given, &held.live),
        Kept::Any => {
            let marks = (SnapshotId::HEAD, held.given);
            let is_state_dead = chunk.dead_state(SnapshotId::HEAD, held.given, &held.live).is_some();
            is_state_dead || index.dead_mark(key, marks, [&held.live, &held.marked]).is_some()
        }
    };
    if is_dead {
        sweep.more.push((key, SnapshotId::HEAD));
        sweep.done = None;
        sweep.due = sweep.due.min(now);
    }
}

/// Drops a state that no snapshot needs, if the chunk has one above `above`; or a mark.
fn trim(store: &mut Store, holdings: &Holdings, key: ChunkKey, above: SnapshotId) {
    let chunk = store.index.chunk(key);
    let has_any = chunk.state_count() > 0 || store.index.marks(key).len() > 0;
    let Some(held) = holdings.snapshots(chunk.id.volume).filter(|_| has_any) else {
        return;
    };
    let faults = store.config.faults;
    let given = match faults.has(Fault::TrimUnlisted) {
        true => SnapshotId(u32::MAX),
        false => held.given,
    };
    let live = match faults.has(Fault::TrimOfMany) {
        true => chunk.newest_of(&held.live).collect(),
        false => Arc::clone(&held.live),
    };
    let marks = (SnapshotId::HEAD, given);
    let dead_mark = || store.index.dead_mark(key, marks, [&live, &held.marked]);
    let dead_mark = || dead_mark().filter(|_| !faults.has(Fault::KeepsMarks));
    if chunk.deleting || (chunk.dead_state(above, given, &live).is_none() && dead_mark().is_none()) {
        return;
    }
    if chunk.incomplete {
        // Its owner brings it what others have, and they have these too for now.
        store.sweep.failed = true;
        return;
    }
    store.sweep.going += 1;
    retain(store, key, Retained::held(above, given, live, Arc::clone(&held.marked)));
}

/// Does nothing need this chunk, by what is durably known?
fn is_left(store: &mut Store, holdings: &Holdings, chunk: ChunkId) -> bool {
    let early = store.config.faults.has(Fault::DropUnfenced);
    if store.fences.is_deleted(chunk.volume) || (early && holdings.deleted(chunk.volume, 1).is_some()) {
        return true;
    }
    let Some(group) = holdings.group_of(chunk.volume, chunk.index) else {
        // A volume that is newer than what was said.
        store.sweep.undecided |= chunk.volume != memo::VOLUME;
        return false;
    };
    let Some(now) = holdings.group(group).filter(|now| !now.names(store.env.id)) else {
        return false;
    };
    early || has_adopted(&store.config, &store.fences, now)
}

/// Does the store durably know the group as it is now, and without itself?
fn has_adopted(config: &Config, fences: &Fences, now: &HeldGroup) -> bool {
    let known = fences.group(now.id);
    let stale = config.faults.has(Fault::DropRelisted);
    known.is_some_and(|known| (known.epoch == now.epoch && !known.holds) || stale)
}

fn drop_chunk(store: &mut Store, key: ChunkKey) {
    store.sweep.going += 1;
    store.index.chunk_mut(key).deleting = true;
    next(store, key);
}

/// The next of its states is dropped, or at last the chunk itself.
pub(super) fn next(store: &mut Store, key: ChunkKey) {
    retain(store, key, Retained::nothing());
}

fn retain(store: &mut Store, key: ChunkKey, retained: Retained) {
    let version = store.index.chunk(key).accepted.version;
    queue::push(
        store,
        Op {
            version,
            previous: version,
            ..Op::new(Change::RetainSnapshots(Box::new(retained)), None, key)
        },
    );
}

/// Is the chunk that a request names on its way out? Then whoever asks comes again, and finds nothing.
pub(super) fn is_going(store: &Store, volume: VolumeId, body: &RequestBody) -> bool {
    if store.sweep.going == 0 || store.config.faults.has(Fault::GoingIsThere) {
        return false;
    }
    let chunk = body.chunk();
    chunk.is_some_and(|index| is_chunk_going(&store.index, ChunkId { volume, index }))
}

fn is_chunk_going(index: &Index, chunk: ChunkId) -> bool {
    index.find(chunk).is_some_and(|key| index.chunk(key).deleting)
}

#[cfg(test)]
mod tests {
    use super::Round;

    /// News come in the midst of a round, and then more chunks: those that were looked at just before the news have their turn again.
    #[test]
    fn a_round_looks_at_all_however_many_come_meanwhile() {
        let mut round = Round::default();
        round.begin(4);
        assert_eq!([round.next(4), round.next(4)], [Some(0), Some(1)]);
        round.begin(4);
        let mut seen: Vec<u32> = std::iter::from_fn(|| round.next(6)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
        assert_eq!((round.next(6), round.left), (None, 0));
        // What comes when it has ended begins none.
        assert_eq!(round.next(7), None);
    }
}
