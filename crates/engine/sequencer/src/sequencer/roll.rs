//! Rolling forward: what the longest member has, the shorter ones get, by one from-to record each (R6).
//!
//! Page by page: the longest lists the entries that are newer than what the shortest has; blocks with data are read
//! from it, exactly as listed; the shorter member gets those of them that it lacks. It keeps the parts in memory and
//! applies them all with the last one, or none.
//!
//! One member after the other: stores keep the parts of a few roll-forwards only, and who held a place at one store while he
//! waited for one at another could wait for somebody who holds that one, for ever.

use super::Sequencer;
use super::open::Phase;
use crate::faults::Fault;
use crate::io::{Effect, Warning};
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot};
use crate::task::Step;
use amita_reactor::{Slice, Time};
use amita_types::io::IoError;
use amita_types::message::{Change, ChangesRequest, MAX_CHANGES, ReadRequest, RequestBody, RollRequest, Sums};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, ChunkId, Version};

/// A roll-forward under way.
#[derive(Debug)]
pub(super) struct Roll {
    /// The member that has the longest history.
    source: Position,
    /// The one that gets what it lacks.
    target: Position,
    /// Others are shorter, too: their turn comes when all have been asked again.
    others: bool,
    /// Entries above this one are listed: the target's version.
    since: Version,
    /// The present page is the first.
    first: bool,
    page: Vec<Change>,
    /// The blocks of the page, as far as they have come.
    blocks: Vec<Option<Slice>>,
    /// Where the next page begins.
    more: Option<BlockIndex>,
    /// Reads of this page that are under way.
    awaited: usize,
}

impl Sequencer {
    pub(super) fn start_roll(&mut self, now: Time, chunk: ChunkSlot, members: Members, shorter: Members) {
        let bad = self.chunks[chunk].bad_sources;
        let Some(source) = members.without(shorter).without(bad).iter().next() else {
            return self.opening_failed(now, chunk, IoError::Damaged);
        };
        let target = shorter.iter().next().expect("some are shorter");
        let opening = self.opening(chunk);
        let since = opening.versions[target];
        opening.phase = Phase::Rolling(Roll {
            source,
            target,
            others: shorter.count() > 1,
            since,
            first: true,
            page: Vec::new(),
            blocks: Vec::new(),
            more: None,
            awaited: 0,
        });
        self.list(now, chunk, BlockIndex(0));
    }

    fn list(&mut self, now: Time, chunk: ChunkSlot, from: BlockIndex) {
        let index = self.chunks[chunk].index;
        let roll = self.opening(chunk).roll();
        let (source, since) = (roll.source, roll.since);
        let body = RequestBody::Changes(ChangesRequest {
            chunk: index,
            since,
            from,
        });
        self.opening_send(now, chunk, source, Step::List, body, Slice::default());
    }

    pub(super) fn listed(
        &mut self,
        now: Time,
        chunk: ChunkSlot,
        position: Position,
        entries: Vec<Change>,
        more: Option<BlockIndex>,
    ) {
        let blocks_per_chunk = self.owned.blocks_per_chunk;
        let opening = self.opening(chunk);
        let (since, longest) = (opening.roll().since, opening.longest);
        let ordered = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
        let inside = entries
            .iter()
            .all(|change| change.block.0 < blocks_per_chunk && change.version > since && change.version <= longest);
        let last = entries.last().map(|change| change.block);
        let onwards = more.is_none_or(|more| more.0 < blocks_per_chunk && last.is_some_and(|last| last < more));
        if !ordered || !inside || !onwards || entries.len() > MAX_CHANGES {
            return self.source_failed(now, chunk, position);
        }
        let roll = opening.roll();
        roll.blocks = vec![None; entries.len()];
        roll.page = entries;
        roll.more = more;
        self.fetch(now, chunk);
    }

    /// Reads the page's blocks that have data: one request for each run of neighbours.
    fn fetch(&mut self, now: Time, chunk: ChunkSlot) {
        let index = self.chunks[chunk].index;
        let opening = self.opening(chunk);
        let (source, longest) = (opening.roll().source, opening.longest);
        let mut runs: Vec<BlockRange> = Vec::new();
        for change in opening.roll().page.iter().filter(|change| change.sum.is_some()) {
            match runs.last_mut() {
                Some(run) if run.end() == u32::from(change.block.0) => run.count += 1,
                _ => runs.push(BlockRange::new(change.block.0, 1)),
            }
        }
        opening.roll().awaited = runs.len();
        if runs.is_empty() {
            return self.roll_page(now, chunk);
        }
        for range in runs {
            let body = RequestBody::Read(ReadRequest {
                chunk: index,
                range,
                least: longest,
            });
            self.opening_send(now, chunk, source, Step::Fetch(range), body, Slice::default());
        }
    }

    pub(super) fn fetched(
        &mut self,
        now: Time,
        chunk: ChunkSlot,
        position: Position,
        range: BlockRange,
        sums: &Sums,
        payload: &Slice,
    ) {
        let opening = self.opening(chunk);
        let block_bytes = BLOCK_BYTES as usize;
        let whole = payload.len() == usize::from(range.count) * block_bytes && sums.len() == usize::from(range.count);
        let mut bad = (!whole).then_some(range.first);
        if whole {
            for (place, block) in range.iter().enumerate() {
                let bytes = payload.slice(place * block_bytes..(place + 1) * block_bytes);
                let at = opening
                    .roll()
                    .page
                    .iter()
                    .position(|change| change.block == block)
                    .expect("it was asked for");
                // As of exactly the listed version, and intact from the disk to here.
                if opening.roll().page[at].sum != Some(sums[place]) || amita_types::crc32c(&bytes) != sums[place] {
                    bad = Some(block);
                }
                opening.roll().blocks[at] = Some(bytes);
            }
        }
        if let Some(block) = bad {
            let group = self.chunks[chunk].group;
            self.found_damage(group, position, chunk, block);
            return self.source_failed(now, chunk, position);
        }
        opening.roll().awaited -= 1;
        if opening.roll().awaited == 0 {
            self.roll_page(now, chunk);
        }
    }

    /// Another member with the same history is tried.
    fn source_failed(&mut self, now: Time, chunk: ChunkSlot, position: Position) {
        self.chunks[chunk].bad_sources.add(position);
        self.restart_opening(now, chunk);
    }

    pub(super) fn found_damage(&mut self, group: GroupSlot, position: Position, chunk: ChunkSlot, block: BlockIndex) {
        self.counters.damaged += 1;
        let store = self.groups[group].members[position];
        self.effects.push_back(Effect::Warn(Warning::Damaged {
            store: self.stores[store].id,
            chunk: ChunkId {
                volume: self.owned.volume.id,
                index: self.chunks[chunk].index,
            },
            block,
        }));
    }

    /// Sends the page to the member that is shorter.
    fn roll_page(&mut self, now: Time, chunk: ChunkSlot) {
        let index = self.chunks[chunk].index;
        let in_parts = self.config.faults.has(Fault::RollInParts);
        let opening = self.opening(chunk);
        let version = opening.longest;
        let roll = opening.roll();
        let (target, since) = (roll.target, roll.since);
        let (first, last) = (roll.first, roll.more.is_none());
        let entries = std::mem::take(&mut roll.page);
        let blocks = std::mem::take(&mut roll.blocks);
        roll.first = false;
        let payload = blocks
            .iter()
            .flatten()
            .map(|block| &block[..])
            .collect::<Vec<_>>()
            .concat();
        let body = RequestBody::Roll(RollRequest {
            chunk: index,
            version,
            previous: if in_parts && !first { version } else { since },
            entries,
            first: first || in_parts,
            last: last || in_parts,
        });
        self.opening_send(now, chunk, target, Step::Roll, body, Slice::copy_from(&payload));
    }

    /// The member has the page.
    pub(super) fn rolled(&mut self, now: Time, chunk: ChunkSlot) {
        if let Some(more) = self.opening(chunk).roll().more {
            return self.list(now, chunk, more);
        }
        self.counters.rolled += 1;
        if self.opening(chunk).roll().others {
            return self.restart_opening(now, chunk);
        }
        self.opening(chunk).phase = Phase::Checking;
        self.want_check(chunk);
    }
}
