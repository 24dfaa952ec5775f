//! Rolling forward: what the longest member has, the shorter ones get, by one from-to record each (R6).
//!
//! Page by page: the longest lists the entries that are newer than what the shortest has; blocks with data are read
//! from it, exactly as listed; the shorter member gets those of them that it lacks. It keeps the parts in memory and
//! applies them all with the last one, or none.
//!
//! One member after the other: stores keep the parts of a few roll-forwards only, and who held a place at one store while he
//! waited for one at another could wait for somebody who holds that one, for ever.

use super::context::Context;
use super::open::Phase;
use super::{cut, metadata, open};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::ChunkSlot;
use crate::task::Step;
use amita_reactor::{Slice, Time};
use amita_types::io::IoError;
use amita_types::message::{Change, ChangesRequest, MAX_CHANGES, ReadRequest, RequestBody, RollRequest, Sums};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, Version};

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

pub(super) fn start(cx: &mut Context, now: Time, chunk: ChunkSlot, members: Members, shorter: Members) {
    let bad = cx.chunks[chunk].bad_sources;
    let Some(source) = members.without(shorter).without(bad).iter().next() else {
        return open::fail(cx, now, chunk, IoError::Damaged);
    };
    let target = shorter.iter().next().expect("some are shorter");
    let (catching, committed) = (cx.chunks[chunk].lag.catching, cx.chunks[chunk].log.committed);
    let opening = cx.chunks.opening(chunk);
    let since = opening.versions[target];
    let (from, to) = (opening.numbers[target], opening.number);
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
    cx.chunks[chunk].lag.unproven.add(target);
    if catching && since < committed {
        // It lacks what was acknowledged, of whatever numbers that is, and gets all of it by one record (S5). Its answer may be lost.
        cut::rolled_across(cx, from, to);
    }
    list(cx, now, chunk, BlockIndex(0));
}

fn list(cx: &mut Context, now: Time, chunk: ChunkSlot, from: BlockIndex) {
    let index = cx.chunks[chunk].index;
    let roll = cx.chunks.opening(chunk).roll();
    let (source, since) = (roll.source, roll.since);
    let body = RequestBody::Changes(ChangesRequest {
        chunk: index,
        since,
        from,
    });
    open::send(cx, now, chunk, source, Step::List, body, Slice::default());
}

pub(super) fn listed(
    cx: &mut Context,
    now: Time,
    chunk: ChunkSlot,
    position: Position,
    entries: Vec<Change>,
    more: Option<BlockIndex>,
) {
    let blocks_per_chunk = cx.owned.blocks_per_chunk;
    let opening = cx.chunks.opening(chunk);
    let (since, longest) = (opening.roll().since, opening.longest);
    let ordered = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
    let inside = entries
        .iter()
        .all(|change| change.block.0 < blocks_per_chunk && change.version > since && change.version <= longest);
    let last = entries.last().map(|change| change.block);
    let onwards = more.is_none_or(|more| more.0 < blocks_per_chunk && last.is_some_and(|last| last < more));
    if !ordered || !inside || !onwards || entries.len() > MAX_CHANGES {
        return source_failed(cx, now, chunk, position);
    }
    let roll = opening.roll();
    roll.blocks = vec![None; entries.len()];
    roll.page = entries;
    roll.more = more;
    fetch(cx, now, chunk);
}

/// Reads the page's blocks that have data: one request for each run of neighbours.
fn fetch(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let index = cx.chunks[chunk].index;
    let opening = cx.chunks.opening(chunk);
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
        return send_page(cx, now, chunk);
    }
    for range in runs {
        let body = RequestBody::Read(ReadRequest {
            chunk: index,
            range,
            least: longest,
            versions: false,
        });
        open::send(cx, now, chunk, source, Step::Fetch(range), body, Slice::default());
    }
}

pub(super) fn fetched(
    cx: &mut Context,
    now: Time,
    chunk: ChunkSlot,
    position: Position,
    range: BlockRange,
    sums: &Sums,
    payload: &Slice,
) {
    let opening = cx.chunks.opening(chunk);
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
        let group = cx.chunks[chunk].group;
        cx.found_damage(group, position, chunk, block);
        return source_failed(cx, now, chunk, position);
    }
    opening.roll().awaited -= 1;
    if opening.roll().awaited == 0 {
        send_page(cx, now, chunk);
    }
}

/// Another member with the same history is tried.
fn source_failed(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position) {
    cx.chunks[chunk].bad_sources.add(position);
    open::restart(cx, now, chunk);
}

/// Sends the page to the member that is shorter.
fn send_page(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let index = cx.chunks[chunk].index;
    let in_parts = cx.config.faults.has(Fault::RollInParts);
    let opening = cx.chunks.opening(chunk);
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
    open::send(cx, now, chunk, target, Step::Roll, body, Slice::copy_from(&payload));
}

/// The member has the page.
pub(super) fn rolled(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    if let Some(more) = cx.chunks.opening(chunk).roll().more {
        return list(cx, now, chunk, more);
    }
    cx.counters.rolled += 1;
    if cx.chunks.opening(chunk).roll().others {
        return open::restart(cx, now, chunk);
    }
    cx.chunks.opening(chunk).phase = Phase::Checking;
    metadata::want_check(cx, chunk);
}
