//! A store is brought up to date (rule R5): a chunk joins the owner's history, and at last it is whole again.

use super::change::{Change, Ended};
use super::op::Op;
use super::request::Caller;
use super::space::Claim;
use super::{Requester, Store, answer, queue, space, states};
use crate::faults::Fault;
use crate::index::{ChunkKey, OpSlot, WORST_BYTES_PER_JOIN};
use amita_types::message::{
    AnswerBody, JoinRequest, JoinedAnswer, OpenedAnswer, Problem, Refusal, StatesAnswer, WholeRequest,
};
use amita_types::{ChunkId, SnapshotId, Version};

/// What is said when all changes before it are durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Say {
    /// Whether the chunk is incomplete, and since when.
    Joined,
    /// The same, and its version.
    Opened,
    /// What it was for its snapshots above this one.
    States(SnapshotId),
    /// That it is done.
    Done,
}

/// The chunk's history goes on at version `at`.
pub(super) fn join(store: &mut Store, caller: &Caller, request: &JoinRequest) {
    let (asker, chunk, at) = (caller.asker, caller.chunk(request.chunk), request.at);
    if at.generation() > asker.generation {
        return store.env.invalid(asker, Problem::Version);
    }
    let (accepted, base) = match store.index.find(chunk) {
        None => (Version::NONE, None),
        Some(key) => {
            let known = store.index.chunk(key);
            if known.deleted || known.deleting {
                return store.env.invalid(asker, Problem::Snapshot);
            }
            (known.accepted.version, store.ops.incomplete(&store.index, key))
        }
    };
    // A chunk that goes on where it is, whole or not, and one that has gone on in the asker's own history.
    let own = accepted > Version::NONE && accepted.generation() == asker.generation && at <= accepted;
    if accepted == at || own {
        return say(store, asker, chunk, Say::Joined);
    }
    if caller.right.serves && base.is_none() {
        // Nobody may take from those in sync what they have.
        return store.env.invalid(asker, Problem::Members);
    }
    if !space::join_fits(store) {
        return space::refuse(store, asker);
    }
    let key = store.index.touch(chunk);
    let op = Op {
        version: at,
        previous: accepted,
        snapshot: caller.snapshot(),
        before: (
            store.index.chunk(key).accepted.snapshot,
            store.index.chunk(key).accepted.state,
        ),
        // Like no write's.
        length_bytes: u32::MAX,
        claim: Claim {
            index_bytes: WORST_BYTES_PER_JOIN,
            ..Claim::default()
        },
        ..Op::new(Change::Join(base.unwrap_or(accepted)), Some(asker), key)
    };
    let known = store.index.chunk_mut(key);
    known.accepted.version = at;
    // Also down: a larger one belongs to a history that is given up (S3, S5).
    known.accepted.snapshot = caller.snapshot();
    known.accepted.state = Version::NONE;
    known.loose_soon = true;
    known.accepted.set_last(None);
    queue::push(store, op);
}

/// The chunk holds everything up to its version.
pub(super) fn whole(store: &mut Store, caller: &Caller, request: &WholeRequest) {
    let (asker, chunk, version) = (caller.asker, caller.chunk(request.chunk), request.version);
    let found = store.index.find(chunk);
    let accepted = found.map_or(Version::NONE, |key| store.index.chunk(key).accepted.version);
    if accepted != version {
        return store.env.refuse(asker, Refusal::WrongPredecessor { current: accepted });
    }
    let Some(key) = found.filter(|&key| store.ops.incomplete(&store.index, key).is_some()) else {
        return say(store, asker, chunk, Say::Done);
    };
    let op = Op {
        version,
        previous: version,
        ..Op::new(
            Change::Whole(Ended {
                number: request.number,
                born: request.born,
            }),
            Some(asker),
            key,
        )
    };
    queue::push(store, op);
}

/// Has it all that it should have for snapshots (S6)? Looked at when all before it are durable.
pub(super) fn prepare_whole(store: &mut Store, key: OpSlot, ended: Ended) -> Option<bool> {
    let chunk = store.index.chunk(store.ops.get(key).chunk);
    let never = chunk.state_count() == 0 && ended.number == SnapshotId::HEAD && ended.born == SnapshotId::HEAD;
    if never && chunk.snapshot == SnapshotId::HEAD && chunk.accepted.snapshot == SnapshotId::HEAD {
        return Some(true);
    }
    if chunk.queue.first != key {
        return None;
    }
    let lacking = chunk.is_ajar() || chunk.snapshot != ended.number;
    if lacking && !store.config.faults.has(Fault::WholeWithoutStates) {
        queue::end(store, key, Err(Refusal::Busy));
        return Some(false);
    }
    Some(true)
}

/// Says something of a chunk when all that was accepted of it is durable.
pub(super) fn say(store: &mut Store, asker: Requester, chunk: ChunkId, say: Say) {
    let Some(key) = store.index.find(chunk) else {
        return answer::give(store, asker, say.of(OpenedAnswer::NOTHING));
    };
    let known = store.index.chunk(key);
    if known.queue.first == OpSlot::NONE {
        let body = say.of_chunk(store, key);
        return answer::give(store, asker, body);
    }
    let op = Op {
        version: known.accepted.version,
        previous: known.accepted.version,
        ..Op::new(Change::Say(say), Some(asker), key)
    };
    queue::push(store, op);
}

/// What is durable of the chunk.
fn opened(store: &Store, key: ChunkKey) -> OpenedAnswer {
    let known = store.index.chunk(key);
    OpenedAnswer {
        version: known.durable,
        incomplete: store.index.incomplete(key),
        number: known.snapshot,
    }
}

/// Is all before it durable? Then it is said.
pub(super) fn prepare_say(store: &mut Store, key: OpSlot, say: Say) -> Option<bool> {
    let chunk = store.ops.get(key).chunk;
    let known = store.index.chunk(chunk);
    if known.queue.first != key {
        return None;
    }
    let body = say.of_chunk(store, chunk);
    queue::end(store, key, Ok(body));
    Some(false)
}

impl Say {
    fn of_chunk(self, store: &Store, key: ChunkKey) -> AnswerBody {
        match self {
            Say::States(from) => AnswerBody::States(states::list(&store.index, key, from)),
            other => other.of(opened(store, key)),
        }
    }

    fn of(self, opened: OpenedAnswer) -> AnswerBody {
        match self {
            Say::States(_) => AnswerBody::States(StatesAnswer {
                number: SnapshotId::HEAD,
                born: SnapshotId::HEAD,
                states: Vec::new(),
                more: None,
            }),
            Say::Joined => AnswerBody::Joined(JoinedAnswer {
                incomplete: opened.incomplete,
            }),
            Say::Opened => AnswerBody::Opened(opened),
            Say::Done => AnswerBody::Done,
        }
    }
}
