//! What a clone's chunk has from the volumes that it was cloned from, where it has none of its own (S8).
//!
//! The chunk's owner asks all members in sync before it uses the chunk. Where they say the same version, the snapshot's chunk is settled
//! on all of them, and never changes any more (S7); then each of them makes the clone's chunk: it gets that version and all the entries,
//! and shares their slots. From there on it is a chunk like any other. Which parent counts each store finds out by itself: the nearest
//! one that has the chunk. A parent that has none has inherited it from the next one, whether or not another store has made it already:
//! that is the same version, with the same entries.
//!
//! A parent that is busy delays nobody. A snapshot that is sealed has all its writes, so what is under way on the parent's chunk carries
//! newer numbers, and leaves the slots of before to the state that it makes first. And whatever is made ready earlier is logged
//! earlier ([`super::queue`]), so that a replay finds the slots in use.

use super::change::Change;
use super::request::Caller;
use super::{Store, answer, snapshot, space};
use crate::index::{ChunkKey, Index, OpSlot, Seen, View};
use amita_types::map::MAX_LEVELS;
use amita_types::message::{AnswerBody, InheritRequest, OpenedAnswer, Problem, Refusal};
use amita_types::{ChunkId, ChunkIndex, SnapshotId, Version, VolumeId};

pub(super) fn inherit(store: &mut Store, caller: &Caller, request: &InheritRequest) {
    let (asker, chunk) = (caller.asker, caller.chunk(request.chunk));
    let is_bad = |&(volume, at): &(VolumeId, SnapshotId)| volume == chunk.volume || at == SnapshotId::HEAD;
    if request.parents.len() > MAX_LEVELS || request.parents.iter().any(is_bad) {
        return store.env.invalid(asker, Problem::Snapshot);
    }
    let makes = request.version > Version::NONE;
    if !makes && !caller.right.serves {
        return store.env.refuse(asker, Refusal::Incomplete);
    }
    if makes && snapshot::is_made(store, asker, chunk) {
        return;
    }
    let found = match nearest(store, request.chunk, &request.parents) {
        Ok(found) => found,
        Err(refusal) => return store.env.refuse(asker, refusal),
    };
    let version = found.map_or(Version::NONE, |(.., version)| version);
    if !makes {
        let opened = OpenedAnswer {
            version,
            ..OpenedAnswer::NOTHING
        };
        return answer::give(store, asker, AnswerBody::Opened(opened));
    }
    let any = request.version == InheritRequest::ANY;
    // The clone's generation is above those of all that it comes from.
    let is_older = version.generation() < asker.generation;
    let Some((from, at, _)) = found.filter(|_| is_older && (any || version == request.version)) else {
        return match any && found.is_none() {
            true => answer::done(store, asker),
            false => store.env.invalid(asker, Problem::Version),
        };
    };
    if !space::clone_fits(store, caller.blocks()) {
        return space::refuse_clone(store, asker);
    }
    snapshot::queue_clone(store, caller, chunk, (from, at), version);
}

/// The nearest parent that has the chunk: its chunk, as of which snapshot, and at which version.
fn nearest(
    store: &Store,
    index: ChunkIndex,
    parents: &[(VolumeId, SnapshotId)],
) -> Result<Option<(ChunkId, SnapshotId, Version)>, Refusal> {
    let found = nearest_of(&store.index, index, parents, |key, at| {
        let chunk = store.index.chunk(key);
        if chunk.incomplete {
            return Err(Refusal::Incomplete);
        }
        match chunk.seen(at) {
            Seen::As(view) if is_unsettled(store, key, view, at) => Err(Refusal::Busy),
            Seen::As(_) | Seen::Unborn => Ok(()),
            Seen::NotKept => {
                let what = Problem::Snapshot;
                Err(Refusal::Invalid { what })
            }
        }
    })?;
    Ok(found.map(|(key, at, version)| (store.index.chunk(key).id, at, version)))
}

/// The same, in the index alone; `check` is asked about each parent's chunk on the way there.
pub(super) fn nearest_of<E>(
    index: &Index,
    at_index: ChunkIndex,
    parents: &[(VolumeId, SnapshotId)],
    check: impl Fn(ChunkKey, SnapshotId) -> Result<(), E>,
) -> Result<Option<(ChunkKey, SnapshotId, Version)>, E> {
    for &(volume, at) in parents {
        let id = ChunkId {
            volume,
            index: at_index,
        };
        let Some(key) = index.find(id) else {
            continue;
        };
        check(key, at)?;
        let chunk = index.chunk(key);
        if let Seen::As(view) = chunk.seen(at)
            && chunk.version(view) > Version::NONE
        {
            return Ok(Some((key, at, chunk.version(view))));
        }
    }
    Ok(None)
}

/// Is something under way that may change what a snapshot has of the chunk, or which slots it has it in? That ends soon, and no more of
/// it comes: the snapshot is sealed, so that all new writes carry its number or a newer one.
pub(super) fn is_unsettled(store: &Store, key: ChunkKey, view: View, at: SnapshotId) -> bool {
    let chunk = store.index.chunk(key);
    if chunk.queue.first == OpSlot::NONE {
        return false;
    }
    let drops = |change: &Change| matches!(change, Change::RetainSnapshots(_));
    if store.ops.pending(chunk).any(|op| drops(&op.change)) {
        return true;
    }
    // From the first change that carries the number on, what was there is a state's.
    let mut older = store.ops.pending(chunk).take_while(|op| op.snapshot < at);
    view == View::Head && older.any(|op| !matches!(op.change, Change::Say(_)))
}
