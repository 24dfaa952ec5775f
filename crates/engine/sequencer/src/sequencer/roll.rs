//! Rolling forward: what the longest member has, the shorter ones get, by one from-to record each (R6).
//!
//! Page by page: the longest lists the entries that are newer than what the shortest has; blocks with data are read
//! from it, exactly as listed; the shorter member gets those of them that it lacks. It keeps the parts in memory and
//! applies them all with the last one, or none.
//!
//! From state to state (S5): where the longest version carries a larger snapshot number than the shorter one, the longest has *states*
//! of what lies between, each the chunk at some version. The shorter one may lack acknowledged writes that such a snapshot has (R8). So it
//! gets what the oldest of them has more, at that state's version and number; then all are asked again, and it gets the next. So its own
//! state of each snapshot is made as the longest's was, by the first write with a larger number, and whatever disturbs leaves it at a version
//! of the one history.
//!
//! One member after the other: stores keep the parts of a few roll-forwards only, and who held a place at one store while he
//! waited for one at another could wait for somebody who holds that one, for ever.

use super::context::Context;
use super::open::Phase;
use super::{group, metadata, open};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::ChunkSlot;
use crate::task::Step;
use amita_reactor::{Slice, Time};
use amita_types::io::IoError;
use amita_types::message::{
    Change, ChangesRequest, MAX_CHANGES, ReadRequest, RequestBody, RollRequest, StateInfo, StatesAnswer, StatesRequest,
    Sums,
};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, SnapshotId, Version};

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
    pub(super) to: Goal,
    /// The source's states for snapshots above this one were asked for.
    above: SnapshotId,
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

/// What the target is rolled forward to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    version: Version,
    /// The snapshot number that this version carries (S3).
    pub(super) number: SnapshotId,
    /// As what the source has it: its state for this snapshot, or the chunk itself.
    pub(super) at: SnapshotId,
}

pub(super) fn start(cx: &mut Context, now: Time, chunk: ChunkSlot, members: Members, shorter: Members) {
    let bad = cx.chunks[chunk].bad_sources;
    let rolls_across = cx.config.faults.has(Fault::RollAcross);
    let target = shorter.iter().next().expect("some are shorter");
    let opening = cx.chunks.opening(chunk);
    let by_states = opening.numbers[target] < opening.number && !rolls_across;
    let state = &cx.groups[cx.chunks[chunk].group];
    let intact = members.without(shorter).without(bad);
    // One that is to go, or may be of another history, only where there is no other (R8).
    let sure = intact.without(state.to_evict.or(state.doubted));
    let Some(source) = sure.iter().chain(intact.iter()).next() else {
        return nobody_gives(cx, now, chunk, target, by_states);
    };
    let opening = cx.chunks.opening(chunk);
    let since = opening.versions[target];
    let above = opening.numbers[target];
    let to = Goal {
        version: opening.longest,
        number: opening.number,
        at: SnapshotId::HEAD,
    };
    opening.phase = Phase::Rolling(Roll {
        source,
        target,
        others: shorter.count() > 1,
        since,
        to,
        above,
        first: true,
        page: Vec::new(),
        blocks: Vec::new(),
        more: None,
        awaited: 0,
    });
    cx.chunks[chunk].lag.unproven.add(target);
    match by_states {
        true => list_states(cx, now, chunk, above),
        false => list(cx, now, chunk, BlockIndex(0)),
    }
}

/// No member that is long enough has an intact copy of what the target lacks. Where that is for a snapshot only, the target goes if it can
/// be spared, and the chunk is opened without it; to leave the snapshot out would make of it there what it never was.
fn nobody_gives(cx: &mut Context, now: Time, chunk: ChunkSlot, target: Position, by_states: bool) {
    let group = cx.chunks[chunk].group;
    let is_spared = cx.groups[group].members.current.count() > cx.owned.min_copies;
    if !by_states || !is_spared {
        return open::fail(cx, now, chunk, IoError::Damaged);
    }
    group::evict_soon(cx, group, target);
    cx.pause(now, group, target, cx.config.busy_pause * 10);
    open::restart(cx, now, chunk);
}

/// Asks the source what it has for the snapshots above this one.
fn list_states(cx: &mut Context, now: Time, chunk: ChunkSlot, above: SnapshotId) {
    let index = cx.chunks[chunk].index;
    let roll = cx.chunks.opening(chunk).roll();
    roll.above = above;
    let source = roll.source;
    let body = RequestBody::States(StatesRequest {
        chunk: index,
        from: above,
    });
    open::send(cx, now, chunk, source, Step::States, body, Slice::default());
}

/// The oldest state that is newer than what the target has is what it gets first; where there is none, the chunk itself.
pub(super) fn states_listed(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position, page: StatesAnswer) {
    let opening = cx.chunks.opening(chunk);
    let (longest, number) = (opening.longest, opening.number);
    let target = opening.roll().target;
    let from = opening.numbers[target];
    let roll = opening.roll();
    let newer = |version: Version| version > roll.since && version < longest;
    let next = page.states.iter().find(|state| !state.mark && newer(state.version));
    // A member in sync is brought no states, and versions carry numbers that only grow.
    let sound = |state: &StateInfo| !state.open && from <= state.above && state.above < state.to && state.to <= number;
    let ordered = page.states.is_sorted_by(|one, next| one.to < next.to);
    let first = page.states.first().is_none_or(|first| first.to > roll.above);
    let goes_on = page
        .more
        .is_none_or(|more| page.states.last().is_some_and(|last| last.to == more));
    if !next.is_none_or(sound) || !ordered || !first || !goes_on {
        return source_failed(cx, now, chunk, position);
    }
    match (next, page.more) {
        (Some(state), _) => {
            roll.to = Goal {
                version: state.version,
                number: state.above,
                at: state.to,
            };
        }
        (None, Some(more)) => return list_states(cx, now, chunk, more),
        (None, None) => {}
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
    let (since, newest) = (opening.roll().since, opening.roll().to.version);
    let ordered = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
    let inside = entries
        .iter()
        .all(|change| change.block.0 < blocks_per_chunk && change.version > since && change.version <= newest);
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
    let (source, least) = (opening.roll().source, opening.roll().to.version);
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
            least,
            versions: false,
            newest: None,
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
    let roll = opening.roll();
    let version = roll.to.version;
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
    let roll = cx.chunks.opening(chunk).roll();
    if roll.others || roll.to.at > SnapshotId::HEAD {
        return open::restart(cx, now, chunk);
    }
    cx.chunks.opening(chunk).phase = Phase::Checking;
    metadata::want_check(cx, chunk);
}
