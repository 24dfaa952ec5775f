//! Snapshots are dropped, chunks deleted and cloned.

use super::change::Change;
use super::checkpoint::Writer;
use super::op::{Op, Ops};
use super::request::Caller;
use super::space::Claim;
use super::sweep::Trim;
use super::{Requester, Store, answer, inherit, leaves, queue, space, sweep};
use crate::faults::{self, Fault};
use crate::format::record::{Mark, RollEntry};
use crate::index::{ChunkKey, Index, Leaf, Location, OpSlot, PARTS, Seen, worst_bytes_per_clone};
use amita_types::message::{AnswerBody, CloneRequest, MAX_SNAPSHOTS, Problem, Refusal, RetainSnapshotsRequest};
use amita_types::{BlockRange, ChunkId, MAX_BLOCKS_PER_CHUNK, SnapshotId, Version, VolumeId};
use std::sync::Arc;

/// What is to be left of a chunk.
#[derive(Clone, Debug)]
pub(super) struct Retained {
    head: bool,
    above: SnapshotId,
    to: SnapshotId,
    live: Arc<[SnapshotId]>,
    /// States that stand for one of these leave a mark.
    marked: Arc<[SnapshotId]>,
    /// What is dropped next: the state for the snapshots up to this one, or the mark; [`SnapshotId::HEAD`]: the chunk itself.
    pub dropping: Option<SnapshotId>,
    /// What is left of it.
    pub mark: Option<Mark>,
    /// The chunk itself is dropped, and snapshots up to this one have it as it is.
    pub kept_for: SnapshotId,
    /// Nobody has asked: nothing needs the chunk, or some of its states, any more (rules R13 and S9).
    swept: bool,
    /// Leaves that were read and were wrong, once for each time.
    wrong: Vec<Location>,
}

impl Retained {
    pub fn nothing() -> Retained {
        Retained {
            head: false,
            above: SnapshotId::HEAD,
            to: SnapshotId(u32::MAX),
            live: Arc::default(),
            marked: Arc::default(),
            dropping: None,
            mark: None,
            kept_for: SnapshotId::HEAD,
            swept: true,
            wrong: Vec::new(),
        }
    }

    /// The chunk, and of its snapshots up to the one given out last those that live, and those up to `above`; and of others
    /// their marks.
    pub fn held(above: SnapshotId, given: SnapshotId, live: Arc<[SnapshotId]>, marked: Arc<[SnapshotId]>) -> Retained {
        Retained {
            head: true,
            above,
            to: given,
            live,
            marked,
            ..Retained::nothing()
        }
    }

    pub fn asked(request: RetainSnapshotsRequest) -> Retained {
        Retained {
            head: request.head,
            above: request.above,
            to: request.to,
            live: request.live.into(),
            swept: false,
            ..Retained::nothing()
        }
    }

    /// Is it not known any more what this leaf held? What is read and is wrong may be the way's fault, once.
    fn has_lost(&self, at: Location) -> bool {
        self.wrong.iter().filter(|&&wrong| wrong == at).count() > 1
    }

    /// Did nobody ask for it?
    pub fn is_swept(&self) -> bool {
        self.swept
    }

    /// Does the chunk itself stay?
    pub fn keeps_head(&self) -> bool {
        self.head
    }
}

/// A chunk that becomes what another one was.
#[derive(Clone, Debug)]
pub(super) struct CloneChange {
    /// The chunk that it is made from.
    from: ChunkId,
    at: SnapshotId,
    /// Where its blocks were first written.
    pub origin: ChunkId,
    /// All its entries; something else uses their slots too.
    pub entries: Vec<RollEntry>,
}

pub(super) fn keep(store: &mut Store, asker: Requester, chunk: ChunkId, keep: Retained) {
    let sorted = keep.live.windows(2).all(|pair| pair[0] < pair[1]);
    if keep.live.len() > MAX_SNAPSHOTS || !sorted || keep.to < keep.above {
        return store.env.invalid(asker, Problem::Snapshot);
    }
    let Some(key) = store.index.find(chunk) else {
        return answer::done(store, asker);
    };
    queue_retain(store, asker, key, keep);
}

fn queue_retain(store: &mut Store, asker: Requester, key: ChunkKey, keep: Retained) {
    let chunk = store.index.chunk_mut(key);
    // From now on nobody changes it any more.
    chunk.deleting |= !keep.head;
    let op = Op {
        version: chunk.accepted.version,
        previous: chunk.accepted.version,
        ..Op::new(Change::RetainSnapshots(Box::new(keep)), Some(asker), key)
    };
    queue::push(store, op);
}

/// Finds what is to be dropped next. `None`: not yet; `Some(false)`: the change has ended without.
pub(super) fn prepare_retain(store: &mut Store, key: OpSlot) -> Option<bool> {
    let op = store.ops.get(key);
    let chunk_key = op.chunk;
    let chunk = store.index.chunk(chunk_key);
    // What is accepted before it may make states, and its leaves change: wait until it is durable.
    if chunk.queue.first != key {
        return None;
    }
    let Change::RetainSnapshots(keep) = &op.change else {
        unreachable!("the caller has looked");
    };
    let dead = chunk.dead_state(keep.above, keep.to, &keep.live);
    // Meanwhile its owner brings it up to date: until that is done its states are the owner's.
    let is_owners = keep.swept && keep.head && chunk.incomplete;
    let dead = dead.filter(|_| !is_owners);
    let mark = dead.and_then(|to| store.index.mark_of_state(chunk_key, to, &keep.marked));
    let mark = faults::marked(store.config.faults, mark, chunk.durable);
    // A trim has come by all of them before it comes to what is above a state.
    let marks_above = if keep.swept { SnapshotId::HEAD } else { keep.above };
    let dead_mark = || {
        store
            .index
            .dead_mark(chunk_key, (marks_above, keep.to), [&keep.live, &keep.marked])
    };
    let keeps_marks = store.config.faults.has(Fault::KeepsMarks);
    let dead = dead.or_else(|| dead_mark().filter(|_| keep.head && !is_owners && !keeps_marks));
    let dropping = match dead {
        Some(state) => state,
        // What would have made the chunk has come to nothing.
        None if !keep.head && !chunk.deleted && chunk.is_there() => SnapshotId::HEAD,
        None => {
            queue::end(store, key, Ok(AnswerBody::Done));
            return Some(false);
        }
    };
    // A snapshot since which the chunk was not changed has it as it is.
    let newest = keep.live.last();
    let newest = newest.filter(|&&newest| newest > chunk.snapshot && !chunk.incomplete);
    let kept_for = match dropping {
        SnapshotId::HEAD => newest.copied().unwrap_or_default(),
        _ => SnapshotId::HEAD,
    };
    let place = match dropping {
        SnapshotId::HEAD => None,
        to => store.index.state_to(chunk_key, to),
    };
    let is_mark = dropping > SnapshotId::HEAD && place.is_none();
    // A state that is made of the chunk takes its leaves as they are.
    if kept_for == SnapshotId::HEAD && !is_mark {
        let lost = |at: &Location| keep.has_lost(*at) && matches!(store.index.leaf(*at), Leaf::Away(_));
        let mut needed = store.index.needed_to_drop(chunk_key, place);
        needed.retain(|at| !lost(at));
        if !have_leaves(store, key, &needed) {
            return None;
        }
    }
    if let Change::RetainSnapshots(keep) = &mut store.ops.get_mut(key).change {
        keep.dropping = Some(dropping);
        keep.mark = mark;
        keep.kept_for = kept_for;
    }
    Some(true)
}

/// Does the chunk go, although one of its leaves is wrong? If somebody asks for it, he is told; if nobody does, nobody
/// will ever mend it. What the leaf named is not known, and stays in use.
pub(super) fn drops_wrong_leaf(index: &Index, ops: &mut Ops, chunk: ChunkKey, at: Location) -> bool {
    let key = index.chunk(chunk).queue.waiting;
    if key == OpSlot::NONE || at.chunk != chunk {
        return false;
    }
    match &mut ops.get_mut(key).change {
        // Where the chunk stays, its leaves are others' as well, and may be mended.
        Change::RetainSnapshots(keep) if keep.swept && !keep.head => {
            keep.wrong.push(at);
            true
        }
        _ => false,
    }
}

/// Are these leaves here? Else they are read, and the change waits.
pub(super) fn have_leaves(store: &mut Store, key: OpSlot, needed: &[Location]) -> bool {
    let away = |at: &&Location| !matches!(store.index.leaf(**at), Leaf::Here | Leaf::Lost);
    let missing: Vec<Location> = needed.iter().filter(away).copied().collect();
    if missing.is_empty() {
        return true;
    }
    let chunk = store.ops.get(key).chunk;
    if let Ok(at) = leaves::want(&mut store.env, &mut store.index, &store.superblock, &missing) {
        store
            .leaf_waits
            .push(&store.index, at, super::leaves::Waiter::Chunk(chunk));
    }
    false
}

/// A state, or the chunk itself, is durably dropped.
pub(super) fn apply_keep(store: &mut Store, key: OpSlot, position: u64) {
    let op = store.ops.get_mut(key);
    let (chunk, asker) = (op.chunk, op.asker.take());
    let Change::RetainSnapshots(keep) = op.change.take() else {
        unreachable!("the caller has looked");
    };
    store.ops.remove(key);
    store.fences.logged(asker.and_then(|asker| asker.volume));
    let reads = store.space.window.next();
    let (held, freed) = (&mut store.space.map, &mut store.space.freed);
    let mut free = |slot| {
        if held.release(slot) {
            freed.push(slot, position, reads);
        }
    };
    store.env.counters.drops += 1;
    // Only now, as replay of the record does: until then the checkpoint's map and directory agree on its page.
    for &at in keep.wrong.iter().filter(|&&at| keep.has_lost(at)) {
        if matches!(store.index.leaf(at), Leaf::Away(_)) {
            store.index.lose(at);
        }
    }
    store.index.keep_for(chunk, keep.kept_for);
    if let Some(mark) = keep.mark {
        store.index.set_mark(chunk, mark);
    }
    store.index.drop_of(chunk, keep.dropping.unwrap_or_default(), &mut free);
    store.checkpoint.retire_released(&mut store.index, &mut store.space);
    match asker {
        // There may be more of it.
        Some(asker) => queue_retain(
            store,
            asker,
            chunk,
            Retained {
                dropping: None,
                mark: None,
                kept_for: SnapshotId::HEAD,
                ..*keep
            },
        ),
        // One state at a time: the next one has its turn.
        None if keep.swept && keep.head => {
            let above = keep.dropping.unwrap_or_default();
            let end = Trim::Dropped { above };
            store.sweep.trimmed(chunk, end, &mut store.env.counters);
        }
        None if keep.swept => sweep::next(store, chunk),
        None => forget_if_nothing(&mut store.checkpoint, &mut store.index, chunk, position),
    }
}

/// A chunk of which nothing is left, and on which nothing is under way.
pub(super) fn forget_if_nothing(checkpoint: &mut Writer, index: &mut Index, key: ChunkKey, position: u64) {
    let chunk = index.chunk(key);
    if chunk.deleted && chunk.state_count() == 0 && chunk.is_idle() {
        checkpoint.forgotten.push((chunk.id, position));
        index.forget(key);
    }
}

/// Rule R14: what a chunk is cloned from is read by it. So whoever asks owns both volumes, as the store was told by their fences.
fn owns_origin(store: &Store, caller: &Caller, origin: VolumeId) -> bool {
    let owner_of = |volume| Some(store.fences.volume(store.fences.find(volume)?).owner);
    let Some(node) = caller.node else { return true };
    owner_of(origin) == Some(node) || store.config.faults.has(Fault::AnyAsker)
}

/// Is there something already of a chunk that is to be made of another one's state? Then the asker is answered.
pub(super) fn is_made(store: &mut Store, asker: Requester, chunk: ChunkId) -> bool {
    let Some(key) = store.index.find(chunk) else {
        return false;
    };
    let known = store.index.chunk(key);
    if known.deleted {
        store.env.invalid(asker, Problem::Snapshot);
    } else if known.durable > Version::NONE {
        answer::done(store, asker);
    } else if known.queue.first != OpSlot::NONE {
        // It is being made.
        store.env.refuse(asker, Refusal::Busy);
    } else {
        return false;
    }
    true
}

pub(super) fn clone_chunk(store: &mut Store, caller: &Caller, request: &CloneRequest) {
    let (asker, chunk, at) = (caller.asker, caller.chunk(request.chunk), request.at);
    let from = ChunkId {
        volume: request.origin,
        index: request.chunk,
    };
    if at == SnapshotId::HEAD || from.volume == chunk.volume {
        return store.env.invalid(asker, Problem::Snapshot);
    }
    if !owns_origin(store, caller, from.volume) {
        return store.env.refuse(asker, Refusal::NotFenced);
    }
    if is_made(store, asker, chunk) {
        return;
    }
    let Some(origin) = store.index.find(from) else {
        return answer::done(store, asker);
    };
    let origin_chunk = store.index.chunk(origin);
    // Nobody says here that the snapshot is sealed, as it is where a chunk is inherited: whatever is under way is waited for.
    if origin_chunk.queue.first != OpSlot::NONE {
        return store.env.refuse(asker, Refusal::Busy);
    }
    if origin_chunk.incomplete {
        return store.env.refuse(asker, Refusal::Incomplete);
    }
    let view = match origin_chunk.seen(at) {
        Seen::As(view) if origin_chunk.version(view) > Version::NONE => view,
        Seen::As(_) | Seen::Unborn => return answer::done(store, asker),
        Seen::NotKept => return store.env.invalid(asker, Problem::Snapshot),
    };
    let version = origin_chunk.version(view);
    if version.generation() > asker.generation {
        return store.env.invalid(asker, Problem::Version);
    }
    if !space::clone_fits(store, caller.blocks()) {
        return store.env.refuse(asker, Refusal::NoSpace);
    }
    queue_clone(store, caller, chunk, (from, at), version);
}

/// Makes a chunk what another one was, at the version that it had then.
pub(super) fn queue_clone(
    store: &mut Store,
    caller: &Caller,
    chunk: ChunkId,
    (from, at): (ChunkId, SnapshotId),
    version: Version,
) {
    let key = store.index.touch(chunk);
    let change = CloneChange {
        from,
        at,
        origin: from,
        entries: Vec::new(),
    };
    let op = Op {
        version,
        previous: Version::NONE,
        claim: Claim {
            blocks: 0,
            index_bytes: worst_bytes_per_clone(caller.blocks()),
            leaves: PARTS as u32,
            shared: caller.blocks(),
        },
        ..Op::new(Change::Clone(Box::new(change)), Some(caller.asker), key)
    };
    queue::accept(store, op);
}

/// Takes over the entries of what is cloned. `None`: not yet; `Some(false)`: it cannot be made.
pub(super) fn prepare_clone(store: &mut Store, key: OpSlot) -> Option<bool> {
    let Change::Clone(change) = &store.ops.get(key).change else {
        unreachable!("the caller has looked");
    };
    let (from, at, version) = (change.from, change.at, store.ops.get(key).version);
    let found = store.index.find(from);
    let seen = found.map(|origin| (origin, store.index.chunk(origin).seen(at)));
    let Some((origin, Seen::As(view))) = seen else {
        queue::drop_from(store, key, Refusal::Busy);
        return Some(false);
    };
    // Else the asker comes again.
    let is_it = store.index.chunk(origin).version(view) == version && !store.index.chunk(origin).incomplete;
    if !is_it || inherit::is_unsettled(store, origin, view, at) {
        queue::drop_from(store, key, Refusal::Busy);
        return Some(false);
    }
    let whole = BlockRange::new(0, MAX_BLOCKS_PER_CHUNK as u16);
    let missing: Vec<Location> = store.index.missing(origin, view, whole).collect();
    if !missing.is_empty() {
        let chunk = store.ops.get(key).chunk;
        match leaves::want(&mut store.env, &mut store.index, &store.superblock, &missing) {
            Ok(at) => store
                .leaf_waits
                .push(&store.index, at, super::leaves::Waiter::Chunk(chunk)),
            Err(lost) => {
                queue::drop_from(store, key, Refusal::Damaged { block: lost.0 });
                return Some(false);
            }
        }
        return None;
    }
    let mut entries = store.index.entries_for_clone(origin, view);
    if store.config.faults.has(Fault::ClonesNothing) {
        entries.clear();
    }
    let first = store.index.origin(origin);
    if let Change::Clone(change) = &mut store.ops.get_mut(key).change {
        change.entries = entries;
        change.origin = first;
    }
    Some(true)
}
