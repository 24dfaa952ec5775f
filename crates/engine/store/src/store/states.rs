//! A chunk is brought the states that it lacks (rule S6; decision 041).
//!
//! Only an incomplete chunk is: nobody reads it, so a state may stand open between two requests. Each of them waits until all
//! changes before it are durable, because what it finds decides which slots it uses.

use super::change::{Change, PutChange, RollChange};
use super::op::Op;
use super::request::Caller;
use super::snapshot::have_leaves;
use super::space::Claim;
use super::{Store, queue, roll, space};
use crate::format::record::{Mark, RollEntry};
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{ChunkKey, Entry, Framed, Index, LEAF_ENTRIES, Leaf, OpSlot, WORST_BYTES_PER_BLOCK};
use amita_reactor::Slice;
use amita_types::message::{
    AnswerBody, Change as Sent, CloseRequest, FrameRequest, MAX_CHANGES, MAX_SNAPSHOTS, MarkRequest, MendedAnswer,
    Problem, PutRequest, Refusal, StateInfo, StatesAnswer,
};
use amita_types::{BLOCK_BYTES, BlockIndex, ChunkIndex, SnapshotId, Version};

/// What a chunk was for its snapshots above `from`.
pub(super) fn list(index: &Index, key: ChunkKey, from: SnapshotId) -> StatesAnswer {
    let chunk = index.chunk(key);
    let mut states: Vec<StateInfo> = chunk
        .states_above(from)
        .take(MAX_SNAPSHOTS + 1)
        .map(|state| StateInfo {
            above: state.above,
            to: state.to,
            version: state.version,
            open: state.open,
            mark: false,
        })
        .collect();
    let marks = index.marks(key).filter(|mark| mark.to > from);
    states.extend(marks.map(|Mark { above, to, version }| StateInfo {
        above,
        to,
        version,
        open: false,
        mark: true,
    }));
    states.sort_by_key(|state| state.to);
    let more = states.len() > MAX_SNAPSHOTS;
    states.truncate(MAX_SNAPSHOTS);
    StatesAnswer {
        number: chunk.snapshot,
        born: chunk.born,
        more: states.last().filter(|_| more).map(|last| last.to),
        states,
    }
}

/// The chunk, where it is incomplete: no other one is brought anything.
fn incomplete(store: &mut Store, caller: &Caller, chunk: ChunkIndex) -> Option<ChunkKey> {
    let found = store.index.find(caller.chunk(chunk));
    let found = found.filter(|&key| store.ops.incomplete(&store.index, key).is_some());
    if found.is_none() {
        store.env.invalid(caller.asker, Problem::Snapshot);
    }
    found
}

fn push(store: &mut Store, key: ChunkKey, op: Op) {
    let accepted = store.index.chunk(key).accepted.version;
    let op = Op {
        version: accepted,
        previous: accepted,
        ..op
    };
    queue::push(store, op);
}

pub(super) fn frame(store: &mut Store, caller: &Caller, request: &FrameRequest) {
    let &FrameRequest {
        chunk,
        above,
        to,
        version,
    } = request;
    if above >= to || version.generation() > caller.asker.generation {
        return store.env.invalid(caller.asker, Problem::Snapshot);
    }
    let Some(key) = incomplete(store, caller, chunk) else {
        return;
    };
    if !space::join_fits(store) {
        return space::refuse(store, caller.asker);
    }
    let op = Op {
        claim: Claim {
            index_bytes: WORST_BYTES_PER_BLOCK,
            ..Claim::default()
        },
        ..Op::new(Change::Frame(above, to, version), Some(caller.asker), key)
    };
    push(store, key, op);
}

/// May the state be made? `None`: not yet; `Some(false)`: it has ended without.
pub(super) fn prepare_frame(
    store: &mut Store,
    key: OpSlot,
    (above, to): (SnapshotId, SnapshotId),
    version: Version,
) -> Option<bool> {
    let chunk = store.index.chunk(store.ops.get(key).chunk);
    if chunk.queue.first != key {
        return None;
    }
    let result = match chunk.framed(above, to, version) {
        // Changes that carry a smaller number are on their way: the state would miss them.
        Framed::Fits if chunk.snapshot < to => Err(Refusal::Busy),
        Framed::Fits => return Some(true),
        Framed::There => Ok(AnswerBody::Done),
        Framed::Taken => Err(wrong_snapshot()),
    };
    queue::end(store, key, result);
    Some(false)
}

fn wrong_snapshot() -> Refusal {
    Refusal::Invalid {
        what: Problem::Snapshot,
    }
}

pub(super) fn put(store: &mut Store, caller: &Caller, request: &PutRequest, payload: &Slice) {
    let asker = caller.asker;
    if let Err(what) = check(caller, request, payload) {
        return store.env.invalid(asker, what);
    }
    let Some(key) = incomplete(store, caller, request.chunk) else {
        return;
    };
    let blocks = request.with_data.count_ones();
    if !space::join_fits(store) {
        return space::refuse(store, asker);
    }
    if !space::charge_mend(store, blocks) {
        return store.env.refuse(asker, Refusal::NoSpace);
    }
    let mut change = RollChange::default();
    let mut has_sum = 0;
    for (at, &Sent { block, version, sum }) in request.entries.iter().enumerate() {
        has_sum |= u32::from(sum.is_some()) << at;
        let with_data = request.with_data >> at & 1 == 1;
        if with_data {
            let data = change.payload.len();
            change
                .payload
                .push(payload.slice(data * PAGE_BYTES..(data + 1) * PAGE_BYTES));
        }
        change.with_data.push(with_data);
        change.entries.push(RollEntry {
            block,
            version,
            slot: Slot::NONE,
            sum: sum.unwrap_or(0),
        });
    }
    let parts = change.entries.chunk_by(|one, next| part(one) == part(next)).count() as u32;
    let put = PutChange {
        to: request.to,
        version: request.version,
        change,
        has_sum,
    };
    let op = Op {
        length_bytes: blocks * BLOCK_BYTES,
        // Of each part the state's leaf, and that of the older state, which keeps what it saw.
        claim: Claim {
            blocks,
            index_bytes: u64::from(2 * parts) * WORST_BYTES_PER_BLOCK,
            leaves: 2 * parts,
            shared: 0,
        },
        ..Op::new(Change::Put(Box::new(put)), Some(asker), key)
    };
    push(store, key, op);
}

fn part(entry: &RollEntry) -> usize {
    usize::from(entry.block.0) / LEAF_ENTRIES
}

/// Is it what entries of a state can be?
fn check(caller: &Caller, request: &PutRequest, payload: &Slice) -> Result<(), Problem> {
    let (entries, with_data) = (&request.entries, request.with_data);
    if entries.len() > MAX_CHANGES || payload.len() != with_data.count_ones() as usize * PAGE_BYTES {
        return Err(Problem::Length);
    }
    let sorted = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
    let inside = |entry: &Sent| u32::from(entry.block.0) < caller.blocks();
    if !sorted || !entries.iter().all(inside) {
        return Err(Problem::Range);
    }
    let wrong = |entry: &Sent| {
        let never_with_data = entry.version == Version::NONE && entry.sum.is_some();
        never_with_data || entry.version.generation() > caller.asker.generation
    };
    if entries.iter().any(wrong) {
        return Err(Problem::Version);
    }
    let mut sums = Vec::new();
    for at in (0..u32::BITS as usize).filter(|at| with_data >> at & 1 == 1) {
        let sum = entries.get(at).and_then(|entry| entry.sum);
        sums.push(sum.ok_or(Problem::Length)?);
    }
    match roll::sums_match(payload, sums.into_iter()) {
        true => Ok(()),
        false => Err(Problem::Checksum),
    }
}

/// Finds the slots that the entries share with the state's neighbours. `None`: not yet; `Some(false)`: it has ended without.
pub(super) fn prepare_put(store: &mut Store, key: OpSlot) -> Option<bool> {
    let op = store.ops.get(key);
    let chunk_key = op.chunk;
    if store.index.chunk(chunk_key).queue.first != key {
        return None;
    }
    let Change::Put(put) = &op.change else {
        unreachable!("the caller has looked");
    };
    let blocks = || put.change.entries.iter().map(|entry| entry.block);
    let Some(place) = open_state(&store.index, chunk_key, put.to, put.version) else {
        queue::end(store, key, Err(wrong_snapshot()));
        return Some(false);
    };
    let needed = store.index.needed_to_put(chunk_key, place, blocks());
    if needed.iter().any(|&at| store.index.leaf(at) == Leaf::Lost) {
        let block = blocks().next().unwrap_or_default();
        queue::end(store, key, Err(Refusal::Damaged { block }));
        return Some(false);
    }
    if !have_leaves(store, key, &needed) {
        return None;
    }
    let Change::Put(mut put) = store.ops.get_mut(key).change.take() else {
        unreachable!("looked at above");
    };
    let skipped = share(&store.index, chunk_key, place, &mut put);
    if !skipped.is_empty() || put.change.entries.is_empty() {
        queue::end(store, key, Ok(AnswerBody::Mended(MendedAnswer { skipped })));
        return Some(false);
    }
    let blocks = put.change.blocks();
    let op = store.ops.get_mut(key);
    store.space.claims.reserved -= u64::from(op.claim.blocks - blocks);
    op.claim.blocks = blocks;
    op.change = Change::Put(put);
    store.ops.bind_sums(&store.index, key);
    Some(true)
}

/// The place of a state, if it is open.
fn open_state(index: &Index, key: ChunkKey, to: SnapshotId, version: Version) -> Option<usize> {
    let state = index.chunk(key).state_look(to)?;
    let is_it = state.open && state.version == version;
    index.state_to(key, to).filter(|_| is_it)
}

/// Entries that a neighbour has get its slot; returns the blocks whose data is missing.
fn share(index: &Index, chunk: ChunkKey, place: usize, put: &mut PutChange) -> Vec<BlockIndex> {
    let bound = index.place(chunk);
    let mut lacking = Vec::new();
    let mut payload = std::mem::take(&mut put.change.payload).into_iter();
    let RollChange {
        entries,
        with_data,
        payload: left,
    } = &mut put.change;
    for (at, (entry, with_data)) in entries.iter_mut().zip(with_data).enumerate() {
        let data = if *with_data { payload.next() } else { None };
        *with_data = false;
        if put.has_sum >> at & 1 == 0 {
            continue;
        }
        let sum = bound.bind(entry.block, entry.sum);
        let same = |has: &Entry| has.has_data() && (has.version, has.sum) == (entry.version, sum);
        match (index.neighbours(chunk, place, entry.block).find(same), data) {
            (Some(shared), _) => (entry.slot, entry.sum) = (shared.slot, shared.sum),
            (None, Some(data)) => {
                *with_data = true;
                left.push(data);
            }
            (None, None) => lacking.push(entry.block),
        }
    }
    lacking
}

pub(super) fn mark(store: &mut Store, caller: &Caller, request: &MarkRequest) {
    let &MarkRequest {
        chunk,
        above,
        to,
        version,
    } = request;
    if above >= to || version == Version::NONE || version.generation() > caller.asker.generation {
        return store.env.invalid(caller.asker, Problem::Snapshot);
    }
    let Some(key) = incomplete(store, caller, chunk) else {
        return;
    };
    if !space::join_fits(store) {
        return space::refuse(store, caller.asker);
    }
    let op = Op {
        claim: Claim {
            index_bytes: WORST_BYTES_PER_BLOCK,
            ..Claim::default()
        },
        ..Op::new(Change::Mark(Mark { above, to, version }), Some(caller.asker), key)
    };
    push(store, key, op);
}

/// Is the mark's place free? `None`: not yet; `Some(false)`: it has ended without.
pub(super) fn prepare_mark(store: &mut Store, key: OpSlot, mark: Mark) -> Option<bool> {
    let chunk_key = store.ops.get(key).chunk;
    let chunk = store.index.chunk(chunk_key);
    if chunk.queue.first != key {
        return None;
    }
    let known = || store.index.marks(chunk_key);
    let is_taken = {
        let mut taken = chunk.kept_for().chain(known().map(|known| (known.above, known.to)));
        taken.any(|(above, to)| above < mark.to && mark.above < to)
    };
    let result = match is_taken {
        false => return Some(true),
        true if known().any(|known| known == mark) => Ok(AnswerBody::Done),
        true => Err(wrong_snapshot()),
    };
    queue::end(store, key, result);
    Some(false)
}

pub(super) fn close(store: &mut Store, caller: &Caller, request: &CloseRequest) {
    let Some(key) = incomplete(store, caller, request.chunk) else {
        return;
    };
    let change = Change::Close(request.to, request.version);
    push(store, key, Op::new(change, Some(caller.asker), key));
}

/// Is the state there? `None`: not yet; `Some(false)`: it has ended without.
pub(super) fn prepare_close(store: &mut Store, key: OpSlot, to: SnapshotId, version: Version) -> Option<bool> {
    let chunk_key = store.ops.get(key).chunk;
    if store.index.chunk(chunk_key).queue.first != key {
        return None;
    }
    let state = store.index.chunk(chunk_key).state_look(to);
    let result = match state.filter(|state| state.version == version) {
        Some(state) if state.open => return Some(true),
        Some(_) => Ok(AnswerBody::Done),
        None => Err(wrong_snapshot()),
    };
    queue::end(store, key, result);
    Some(false)
}
