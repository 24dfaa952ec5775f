//! Roll-forwards: parts are kept in memory until the last one, then all are applied by one record, or none (rule R6).

use super::change::{Change as OpChange, RollChange};
use super::env::Env;
use super::op::Op;
use super::request::Caller;
use super::space::Claim;
use super::write::Asked;
use super::{LinkId, Requester, Store, answer, queue, space, write};
use crate::faults::Fault;
use crate::format::record::RollEntry;
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{Index, PARTS, WORST_BYTES_PER_BLOCK};
use amita_reactor::{Slice, Time};
use amita_types::message::{Change, MAX_CHANGES, Problem, Refusal, RollRequest};
use amita_types::{BLOCK_BYTES, ChunkId, Epoch, Generation, GroupId, MAX_BLOCKS_PER_CHUNK, Version, VolumeId};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Roll-forwards that are kept in parts at once; they are rare, and their payload holds memory.
const MAX_STAGED_ROLLS: usize = 16;
/// One that has got no further for so long makes way for others, where there are so many: its opening has ended, or begins again.
const STAGED_LONG: Duration = Duration::from_secs(60);

/// The parts of a roll-forward that have come so far.
#[derive(Debug)]
struct StagedRoll {
    link: LinkId,
    group: GroupId,
    epoch: Epoch,
    generation: Generation,
    asked: Asked,
    change: RollChange,
    /// When its newest part came.
    at: Time,
}

/// Roll-forwards that are not whole yet.
#[derive(Debug, Default)]
pub(super) struct Rolls {
    staged: Vec<StagedRoll>,
}

/// Why a part cannot be kept.
enum NoPlace {
    /// So many others are under way.
    Full,
    /// Its first part is not here.
    Unknown,
}

impl Rolls {
    /// Roll-forwards of these volumes' older owners will never be whole.
    pub fn drop_of(&mut self, volumes: &RangeInclusive<VolumeId>, below: Generation) {
        self.staged
            .retain(|staged| !volumes.contains(&staged.asked.chunk.volume) || staged.generation >= below);
    }

    /// The group has moved on: parts of before are refused, and those that came will never be whole.
    pub fn drop_before(&mut self, group: GroupId, epoch: Epoch) {
        self.staged
            .retain(|staged| staged.group != group || staged.epoch >= epoch);
    }

    /// The link is gone: the parts that are missing will never come by it.
    pub fn drop_of_link(&mut self, link: LinkId) {
        self.staged.retain(|staged| staged.link != link);
    }

    pub fn clear(&mut self) {
        self.staged.clear();
    }

    /// Where a part belongs: the first one makes its place, or takes that of an earlier attempt.
    fn place(&mut self, part: StagedRoll, first: bool, last: bool, any_link: bool) -> Result<usize, NoPlace> {
        let now = part.at;
        // What an older link still brings is not mixed with what the present one does.
        let one = |roll: &StagedRoll| roll.asked.chunk == part.asked.chunk && (any_link || roll.link == part.link);
        if first && !last && self.staged.len() >= MAX_STAGED_ROLLS {
            self.staged.retain(|roll| now.since(roll.at) < STAGED_LONG);
        }
        let place = match self.staged.iter().position(one) {
            Some(place) if first => {
                self.staged[place] = part;
                place
            }
            Some(place) => place,
            // What is whole already takes no place.
            None if first && (last || self.staged.len() < MAX_STAGED_ROLLS) => {
                self.staged.push(part);
                self.staged.len() - 1
            }
            None if first => return Err(NoPlace::Full),
            None => return Err(NoPlace::Unknown),
        };
        self.staged[place].at = now;
        Ok(place)
    }

    /// Takes out what has come.
    fn take(&mut self, place: usize) -> StagedRoll {
        self.staged.swap_remove(place)
    }
}

impl StagedRoll {
    /// The part continues what has come so far.
    fn continues(&self, caller: &Caller, asked: &Asked, entries: &[Change]) -> bool {
        let follows = match (self.change.entries.last(), entries.first()) {
            (Some(before), Some(next)) => before.block < next.block,
            _ => true,
        };
        let same = self.asked == *asked && (self.generation, self.link) == (caller.asker.generation, caller.asker.link);
        same && follows && self.change.entries.len() + entries.len() <= MAX_BLOCKS_PER_CHUNK as usize
    }

    fn add(&mut self, entries: &[Change], payload: Slice) {
        for entry in entries {
            self.change.with_data.push(entry.sum.is_some());
            self.change.entries.push(RollEntry {
                block: entry.block,
                version: entry.version,
                slot: Slot::NONE,
                sum: entry.sum.unwrap_or(0),
            });
        }
        if !payload.is_empty() {
            self.change.payload.push(payload);
        }
    }
}

/// One part of a roll-forward. Parts are kept until the last; then all are applied by one record, or none (R6).
pub(super) fn part(store: &mut Store, caller: &Caller, request: &RollRequest, payload: Slice) {
    let asker = caller.asker;
    if let Err(what) = check(caller, request, &payload) {
        return store.env.invalid(asker, what);
    }
    let asked = Asked::by(caller, request.chunk, request.version, request.previous);
    // A resend of a roll-forward that is done already; its earlier parts are answered too.
    if let Some(key) = store.index.find(asked.chunk)
        && store.index.chunk(key).durable == asked.version
    {
        store.env.counters.resends += 1;
        return answer::done(store, asker);
    }
    let part = StagedRoll {
        link: asker.link,
        group: caller.scope.group,
        epoch: caller.scope.epoch,
        generation: asker.generation,
        asked,
        change: RollChange::default(),
        at: store.env.now,
    };
    let any_link = store.config.faults.has(Fault::RollsOfAnyLink);
    let rolls = &mut store.ops.rolls;
    let place = match rolls.place(part, request.first, request.last, any_link) {
        Ok(place) => place,
        Err(NoPlace::Full) => return store.env.refuse(asker, Refusal::Busy),
        // The first part was lost with a restart: the sequencer begins again when it sees what is here.
        Err(NoPlace::Unknown) => return refuse(&mut store.env, &store.index, asker, asked.chunk),
    };
    if !rolls.staged[place].continues(caller, &asked, &request.entries) {
        rolls.take(place);
        return refuse(&mut store.env, &store.index, asker, asked.chunk);
    }
    rolls.staged[place].add(&request.entries, payload);
    if !request.last {
        return answer::done(store, asker);
    }
    let roll = rolls.take(place);
    accept(store, asker, asked, roll.change);
}

/// Is the part what a part can be?
fn check(caller: &Caller, request: &RollRequest, payload: &Slice) -> Result<(), Problem> {
    let (version, entries) = (request.version, &request.entries);
    if version <= request.previous || version.generation() > caller.asker.generation {
        return Err(Problem::Version);
    }
    if !version.may_follow(request.previous) {
        // What no honest history has: with it the chunk's counter could be used up by a single message.
        return Err(Problem::Version);
    }
    let with_data = entries.iter().filter(|entry| entry.sum.is_some()).count();
    if entries.len() > MAX_CHANGES || payload.len() != with_data * PAGE_BYTES {
        return Err(Problem::Length);
    }
    let inside = |entry: &Change| {
        u32::from(entry.block.0) < caller.blocks() && entry.version <= version && entry.version != Version::NONE
    };
    let sorted = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
    if !sorted || !entries.iter().all(inside) {
        return Err(Problem::Range);
    }
    if !sums_match(payload, entries.iter().filter_map(|entry| entry.sum)) {
        return Err(Problem::Checksum);
    }
    Ok(())
}

/// Has each block of the payload the checksum that came with it?
pub(super) fn sums_match(payload: &[u8], mut sums: impl Iterator<Item = u32>) -> bool {
    payload
        .chunks_exact(PAGE_BYTES)
        .all(|block| Some(amita_types::crc32c(block)) == sums.next())
}

fn refuse(env: &mut Env, index: &Index, asker: Requester, chunk: ChunkId) {
    let current = index
        .find(chunk)
        .map_or(Version::NONE, |key| index.chunk(key).accepted.version);
    env.refuse(asker, Refusal::WrongPredecessor { current });
}

fn accept(store: &mut Store, asker: Requester, asked: Asked, change: RollChange) {
    let with_data = change.blocks();
    if !write::admit(store, asker, &asked, with_data * BLOCK_BYTES, 0) {
        return;
    }
    if let Some(key) = store.index.find(asked.chunk) {
        // What is not newer than a state of the chunk belongs to that state: entries tell by their version whose they
        // are.
        let chunk = store.index.chunk(key);
        let frozen = if asked.snapshot > chunk.accepted.snapshot {
            chunk.accepted.version
        } else {
            chunk.accepted.state
        };
        if change.entries.iter().any(|entry| entry.version <= frozen) {
            return store.env.invalid(asker, Problem::Version);
        }
    }
    let index_bytes = change.entries.len() as u64 * WORST_BYTES_PER_BLOCK;
    if !space::charge_roll(store, with_data) {
        return store.env.refuse(asker, Refusal::NoSpace);
    }
    let key = store.index.touch(asked.chunk);
    let op = Op {
        version: asked.version,
        previous: asked.previous,
        snapshot: asked.snapshot,
        length_bytes: with_data * BLOCK_BYTES,
        claim: Claim {
            blocks: with_data,
            index_bytes,
            leaves: PARTS as u32,
            shared: 0,
        },
        ..Op::new(OpChange::Roll(Box::new(change)), Some(asker), key)
    };
    queue::accept(store, op);
}
