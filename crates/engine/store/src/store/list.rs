//! Which chunks there are.

use super::request::Caller;
use super::{Store, answer};
use crate::faults::Fault;
use crate::index::ChunkFilter;
use amita_types::message::{AnswerBody, ChunkState, ChunksAnswer, ChunksRequest, MAX_LISTED_CHUNKS, Problem};
use amita_types::{ChunkId, ChunkIndex};

/// Lists the chunks of a group and a core that are durable, and neither deleted nor about to be (rule R13).
pub(super) fn chunks(store: &mut Store, caller: &Caller, request: &ChunksRequest) {
    let (asker, volume) = (caller.asker, caller.scope.volume);
    let (group, core) = (caller.scope.group.index, request.core);
    let filter = ChunkFilter {
        volume,
        place: request.place.unwrap_or(volume),
        groups: request.groups,
        cores: request.cores,
    };
    if !filter.groups.is_power_of_two() || group.0 >= filter.groups || core >= filter.cores {
        return store.env.invalid(asker, Problem::Range);
    }
    let mut listed: Vec<ChunkIndex> = Vec::with_capacity(MAX_LISTED_CHUNKS + 1);
    let mut chunks = Vec::new();
    let mut next = Some(request.from);
    // Some of those that are listed may not be there.
    while let Some(from) = next.take() {
        listed.clear();
        listed.extend(
            store
                .index
                .list(store.env.now, filter, (group, core, from))
                .take(MAX_LISTED_CHUNKS + 1),
        );
        for (at, &index) in listed.iter().enumerate() {
            if at == MAX_LISTED_CHUNKS || chunks.len() == MAX_LISTED_CHUNKS {
                next = Some(index);
                break;
            }
            let Some(key) = store.index.find(ChunkId { volume, index }) else {
                continue;
            };
            let chunk = store.index.chunk(key);
            let going = chunk.deleting && !store.config.faults.has(Fault::GoingIsThere);
            if chunk.is_there() && !chunk.deleted && !going {
                chunks.push(ChunkState {
                    chunk: index,
                    version: chunk.durable,
                    incomplete: store.index.incomplete(key),
                });
            }
        }
        if chunks.len() == MAX_LISTED_CHUNKS {
            break;
        }
    }
    answer::give(store, asker, AnswerBody::Chunks(ChunksAnswer { chunks, more: next }));
}
