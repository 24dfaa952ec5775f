//! Roll-forwards: parts are kept in memory until the last one, then all are applied by one record, or none (rule R6).

use super::op::{Change as OpChange, Op, RollChange};
use super::write::Asked;
use super::{Asker, LinkId, Store};
use crate::faults::Fault;
use crate::format::record::RollEntry;
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{PARTS, WORST_BYTES_PER_BLOCK};
use amita_reactor::{Slice, Time};
use amita_types::message::{AnswerBody, Change, MAX_CHANGES, Problem, Refusal};
use amita_types::{
    BLOCK_BYTES, ChunkId, Epoch, Generation, GroupId, MAX_BLOCKS_PER_CHUNK, SnapshotId, Version, VolumeId,
};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Roll-forwards that are kept in parts at once; they are rare, and their payload holds memory.
const MAX_STAGED_ROLLS: usize = 16;
/// One that has got no further for so long makes way for others, where there are so many: its opening has ended, or begins again.
const STAGED_LONG: Duration = Duration::from_secs(60);

/// The parts of a roll-forward that have come so far.
#[derive(Debug)]
pub(super) struct StagedRoll {
    pub link: LinkId,
    pub chunk: ChunkId,
    pub group: GroupId,
    pub epoch: Epoch,
    pub generation: Generation,
    pub version: Version,
    pub previous: Version,
    pub snapshot: SnapshotId,
    pub change: RollChange,
    /// When its newest part came.
    pub at: Time,
}

impl Store {
    /// Roll-forwards of these volumes' older owners will never be whole.
    pub(super) fn drop_staged(&mut self, volumes: &RangeInclusive<VolumeId>, below: Generation) {
        self.ops
            .rolls
            .retain(|staged| !volumes.contains(&staged.chunk.volume) || staged.generation >= below);
    }

    /// The group has moved on: parts of before are refused, and those that came will never be whole.
    pub(super) fn drop_staged_before(&mut self, group: GroupId, epoch: Epoch) {
        self.ops
            .rolls
            .retain(|staged| staged.group != group || staged.epoch >= epoch);
    }

    /// The link is gone: the parts that are missing will never come by it.
    pub(super) fn drop_staged_of(&mut self, link: LinkId) {
        self.ops.rolls.retain(|staged| staged.link != link);
    }

    /// One part of a roll-forward. Parts are kept until the last; then all are applied by one record, or none (R6).
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn roll_part(
        &mut self,
        asker: Asker,
        blocks: u32,
        staged: StagedRoll,
        entries: &[Change],
        first: bool,
        last: bool,
        payload: Slice,
    ) {
        let (chunk, version, previous, snapshot) = (staged.chunk, staged.version, staged.previous, staged.snapshot);
        if version <= previous || version.generation() > asker.generation {
            return self.invalid(asker, Problem::Version);
        }
        if !version.may_follow(previous) {
            // What no honest history has: with it the chunk's counter could be used up by a single message.
            return self.invalid(asker, Problem::Version);
        }
        let with_data = entries.iter().filter(|entry| entry.sum.is_some()).count();
        if entries.len() > MAX_CHANGES || payload.len() != with_data * PAGE_BYTES {
            return self.invalid(asker, Problem::Length);
        }
        let inside = |entry: &Change| {
            u32::from(entry.block.0) < blocks && entry.version <= version && entry.version != Version::NONE
        };
        let sorted = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
        if !sorted || !entries.iter().all(inside) {
            return self.invalid(asker, Problem::Range);
        }
        let mut sums = entries.iter().filter_map(|entry| entry.sum);
        if !payload
            .chunks_exact(PAGE_BYTES)
            .all(|block| Some(amita_types::crc32c(block)) == sums.next())
        {
            return self.invalid(asker, Problem::Checksum);
        }
        // A resend of a roll-forward that is done already; its earlier parts are answered too.
        if let Some(key) = self.index.find(chunk)
            && self.index.chunk(key).durable == version
        {
            self.env.counters.resends += 1;
            return self.answer(asker, AnswerBody::Done, Slice::default());
        }
        // What an older link still brings is not mixed with what the present one does.
        let any_link = self.config.faults.has(Fault::RollsOfAnyLink);
        let one = |roll: &StagedRoll| roll.chunk == chunk && (any_link || roll.link == asker.link);
        if first && !last && self.ops.rolls.len() >= MAX_STAGED_ROLLS {
            let now = self.env.now;
            self.ops.rolls.retain(|roll| now.since(roll.at) < STAGED_LONG);
        }
        let place = self.ops.rolls.iter().position(one);
        let place = match place {
            Some(place) if first => {
                self.ops.rolls[place] = staged;
                place
            }
            Some(place) => place,
            // What is whole already takes no place.
            None if first && (last || self.ops.rolls.len() < MAX_STAGED_ROLLS) => {
                self.ops.rolls.push(staged);
                self.ops.rolls.len() - 1
            }
            None if first => return self.refuse(asker, Refusal::Busy),
            // The first part was lost with a restart: the sequencer begins again when it sees what is here.
            None => return self.wrong_roll(asker, chunk),
        };
        let roll = &mut self.ops.rolls[place];
        roll.at = self.env.now;
        let follows = match (roll.change.entries.last(), entries.first()) {
            (Some(before), Some(next)) => before.block < next.block,
            _ => true,
        };
        let same = (roll.version, roll.previous, roll.snapshot, roll.generation, roll.link)
            == (version, previous, snapshot, asker.generation, asker.link);
        if !same || !follows || roll.change.entries.len() + entries.len() > MAX_BLOCKS_PER_CHUNK as usize {
            self.ops.rolls.swap_remove(place);
            return self.wrong_roll(asker, chunk);
        }
        for entry in entries {
            roll.change.with_data.push(entry.sum.is_some());
            roll.change.entries.push(RollEntry {
                block: entry.block,
                version: entry.version,
                slot: Slot::NONE,
                sum: entry.sum.unwrap_or(0),
            });
        }
        if !payload.is_empty() {
            roll.change.payload.push(payload);
        }
        if !last {
            return self.answer(asker, AnswerBody::Done, Slice::default());
        }
        let roll = self.ops.rolls.swap_remove(place);
        let asked = Asked {
            chunk,
            version,
            previous,
            snapshot,
        };
        self.roll(asker, asked, roll.change);
    }

    fn wrong_roll(&mut self, asker: Asker, chunk: ChunkId) {
        let current = self
            .index
            .find(chunk)
            .map_or(Version::NONE, |key| self.index.chunk(key).accepted);
        self.refuse(asker, Refusal::WrongPredecessor { current });
    }

    fn roll(&mut self, asker: Asker, asked: Asked, change: RollChange) {
        let with_data = change.with_data.iter().filter(|&&data| data).count() as u32;
        if !self.admitted(asker, &asked, with_data * BLOCK_BYTES, 0) {
            return;
        }
        if let Some(key) = self.index.find(asked.chunk) {
            // What is not newer than a state of the chunk belongs to that state: entries tell by their version whose they
            // are.
            let chunk = self.index.chunk(key);
            let frozen = if asked.snapshot > chunk.accepted_snapshot {
                chunk.accepted
            } else {
                chunk.accepted_state
            };
            if change.entries.iter().any(|entry| entry.version <= frozen) {
                return self.invalid(asker, Problem::Version);
            }
        }
        let index_bytes = change.entries.len() as u64 * WORST_BYTES_PER_BLOCK;
        if !self.charge_roll(with_data) {
            return self.refuse(asker, Refusal::NoSpace);
        }
        let key = self.index.touch(asked.chunk);
        let op = Op {
            version: asked.version,
            previous: asked.previous,
            snapshot: asked.snapshot,
            length_bytes: with_data * BLOCK_BYTES,
            blocks: with_data,
            index_bytes,
            leaves: PARTS as u32,
            ..Op::new(OpChange::Roll(Box::new(change)), Some(asker), key)
        };
        self.accept(op);
    }
}
