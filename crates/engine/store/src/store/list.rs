//! Which chunks there are.

use super::{Asker, Store};
use crate::faults::Fault;
use crate::index::ChunkFilter;
use amita_reactor::Slice;
use amita_types::message::{AnswerBody, ChunkState, ChunksAnswer, MAX_LISTED_CHUNKS, Problem};
use amita_types::{ChunkId, ChunkIndex, GroupIndex};

impl Store {
    /// Lists the chunks of a group and a core that are durable, and neither deleted nor about to be (rule R13).
    pub(super) fn list_chunks(
        &mut self,
        asker: Asker,
        filter: ChunkFilter,
        group: GroupIndex,
        core: u16,
        from: ChunkIndex,
    ) {
        if !filter.groups.is_power_of_two() || group.0 >= filter.groups || core >= filter.cores {
            return self.invalid(asker, Problem::Range);
        }
        let mut listed: Vec<ChunkIndex> = Vec::with_capacity(MAX_LISTED_CHUNKS + 1);
        let mut chunks = Vec::new();
        let mut next = Some(from);
        // Some of those that are listed may not be there.
        while let Some(from) = next.take() {
            listed.clear();
            listed.extend(
                self.index
                    .list(self.env.now, filter, group, core, from)
                    .take(MAX_LISTED_CHUNKS + 1),
            );
            for (at, &index) in listed.iter().enumerate() {
                if at == MAX_LISTED_CHUNKS || chunks.len() == MAX_LISTED_CHUNKS {
                    next = Some(index);
                    break;
                }
                let volume = filter.volume;
                let Some(key) = self.index.find(ChunkId { volume, index }) else {
                    continue;
                };
                let chunk = self.index.chunk(key);
                let going = chunk.deleting && !self.config.faults.has(Fault::GoingIsThere);
                if chunk.is_there() && !chunk.deleted && !going {
                    chunks.push(ChunkState {
                        chunk: index,
                        version: chunk.durable,
                        incomplete: self.index.incomplete(key),
                    });
                }
            }
            if chunks.len() == MAX_LISTED_CHUNKS {
                break;
            }
        }
        self.answer(
            asker,
            AnswerBody::Chunks(ChunksAnswer { chunks, more: next }),
            Slice::default(),
        );
    }
}
