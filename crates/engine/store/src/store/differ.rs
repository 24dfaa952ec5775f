//! What was changed in a chunk since a snapshot.

use super::read::{self, Query, Want};
use super::request::Caller;
use super::{Store, answer};
use crate::faults::Fault;
use crate::index::{ChunkKey, Leaf, Location, Seen, Since, View};
use amita_types::SnapshotId;
use amita_types::message::{AnswerBody, DifferRequest, DiffersAnswer, Problem, Refusal};

pub(super) fn differ(store: &mut Store, caller: &Caller, request: &DifferRequest) {
    let (since, at) = (request.since, caller.snapshot());
    if since == SnapshotId::HEAD || (at != SnapshotId::HEAD && since >= at) {
        return store.env.invalid(caller.asker, Problem::Snapshot);
    }
    let versioned = request.newest.is_some();
    let want = Want::Differ { since, versioned };
    let query = Query::by(caller, request.chunk, request.least, want);
    read::look(store, query.newest(request.newest));
}

/// The chunk can be served as `newer`.
pub(super) fn look(
    store: &mut Store,
    query: Query,
    key: ChunkKey,
    newer: View,
    (since, versioned): (SnapshotId, bool),
) {
    let mark = || store.index.mark_for(key, since);
    let older = match store.index.chunk(key).seen(since) {
        Seen::As(view) => Since::As(view),
        Seen::Unborn => Since::Unborn,
        Seen::NotKept => match mark() {
            Some(mark) => Since::Mark(mark.version),
            None => {
                let what = Problem::Snapshot;
                return store.env.refuse(query.asker, Refusal::Invalid { what });
            }
        },
    };
    let leaves = store.index.apart(key, newer, older);
    let leaves = leaves.flat_map(|(newer, older)| std::iter::once(newer).chain(older));
    let missing: Vec<Location> = leaves.filter(|&at| store.index.leaf(at) != Leaf::Here).collect();
    if !missing.is_empty() {
        return read::wait_for(store, query, &missing);
    }
    let mut differs = Box::new(store.index.differs(key, newer, older));
    if store.config.faults.has(Fault::ForgetsCleared) {
        differs.changed = differs.allocated;
    }
    let version = versioned.then(|| store.index.chunk(key).version(newer));
    answer::give(
        store,
        query.asker,
        AnswerBody::Differs(DiffersAnswer { differs, version }),
    );
}
