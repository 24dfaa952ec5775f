//! What a store in miniature does while it is brought up to date (R5), word by word as the messages say.

use super::store::{Entry, Key, Record, Store};
use amita_reactor::Slice;
use amita_types::message::{
    AnswerBody, Change, ChunkState, ChunksAnswer, ChunksRequest, Expect, JoinRequest, JoinedAnswer, MendRequest,
    MendedAnswer, Refusal, Request, RequestBody, VerifiedAnswer, VerifyRequest, WholeRequest,
};
use amita_types::{BLOCK_BYTES, BlockIndex, ChunkId, ChunkIndex, Version};
use std::collections::BTreeMap;

/// Chunks that one answer lists: few, so that lists have pages.
const LISTED: usize = 1;

/// One entry that is replaced; `None`: as if it had never been written.
#[derive(Clone, Debug)]
pub struct Fix {
    block: u16,
    entry: Option<Entry>,
}

impl Fix {
    pub fn has_data(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.data.is_some())
    }

    pub fn carry_out(&self, blocks: &mut BTreeMap<u16, Entry>) {
        match &self.entry {
            Some(entry) => drop(blocks.insert(self.block, entry.clone())),
            None => drop(blocks.remove(&self.block)),
        }
    }
}

impl Store {
    pub(super) fn list_chunks(&mut self, now: u64, link: u64, request: &Request) {
        let RequestBody::Chunks(ChunksRequest {
            from,
            core,
            cores,
            groups,
            ..
        }) = request.body
        else {
            unreachable!()
        };
        let scope = request.scope;
        let all = self.durable.iter().filter(|((volume, index), _)| {
            let id = ChunkId {
                volume: *volume,
                index: ChunkIndex(*index),
            };
            let asked = *volume == scope.volume && *index >= from.0 && id.core(usize::from(cores)) == usize::from(core);
            asked && id.group(groups) == scope.group.index
        });
        let mut chunks: Vec<ChunkState> = all
            .map(|((_, index), held)| ChunkState {
                chunk: ChunkIndex(*index),
                version: held.version,
                incomplete: held.incomplete,
            })
            .collect();
        let more = chunks.get(LISTED).map(|state| state.chunk);
        chunks.truncate(LISTED);
        let body = AnswerBody::Chunks(ChunksAnswer { chunks, more });
        self.answer(now, link, request, Ok(body), Slice::default());
    }

    pub(super) fn join(&mut self, now: u64, link: u64, request: Request) {
        let RequestBody::Join(JoinRequest { chunk, at }) = request.body else {
            unreachable!()
        };
        let key: Key = (request.scope.volume, chunk.0);
        let generation = request.scope.generation;
        let held = self.accepted.get(&key).cloned().unwrap_or_default();
        let (of, since) = held.follows;
        let own = of == generation && since <= at && at <= held.version;
        let own = own || (at.generation() == generation && held.applied.contains(&at));
        let whole = held.incomplete.is_none() && held.version == at;
        if own || whole {
            // Where that rests on what is not durable yet, the answer stands behind it in the log.
            let incomplete = held.incomplete;
            let body = AnswerBody::Joined(JoinedAnswer { incomplete });
            return self.answer_behind(now, link, request, body);
        }
        let incomplete = Some(held.incomplete.unwrap_or(held.version));
        let record = Record::Join {
            chunk: key,
            generation,
            at,
        };
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Joined(JoinedAnswer { incomplete }));
    }

    pub(super) fn mend(&mut self, now: u64, link: u64, request: Request, payload: &Slice) {
        let RequestBody::Mend(MendRequest { chunk, entries }) = &request.body else {
            unreachable!()
        };
        let key: Key = (request.scope.volume, chunk.0);
        let held = self.accepted.get(&key).cloned().unwrap_or_default();
        let (mut fixes, mut skipped, mut at, mut needs) = (Vec::new(), Vec::new(), 0, 0);
        for mend in entries {
            let data = mend.sum.map(|sum| {
                let data = payload.slice(at..at + BLOCK_BYTES as usize);
                at += BLOCK_BYTES as usize;
                assert_eq!(amita_types::crc32c(&data), sum);
                (data, sum)
            });
            let old = held.blocks.get(&mend.block.0);
            let (version, sum) = old.map_or((Version::NONE, None), |old| {
                (old.version, old.data.as_ref().map(|data| data.1))
            });
            let expected = match mend.expect {
                Expect::Entry {
                    version: expected,
                    sum: of,
                } => (expected, of) == (version, sum),
                Expect::Upto { version: most } => version <= most,
                Expect::Lost => false,
            };
            if !expected {
                skipped.push(mend.block);
                continue;
            }
            self.useless += u64::from((mend.version, mend.sum) == (version, sum));
            needs += u64::from(data.is_some() && sum.is_none());
            let entry = (mend.version != Version::NONE).then_some(Entry {
                version: mend.version,
                data,
            });
            fixes.push(Fix {
                block: mend.block.0,
                entry,
            });
        }
        assert_eq!(at, payload.len());
        if needs > self.free() {
            return self.refuse(now, link, &request, Refusal::NoSpace);
        }
        let record = Record::Mend { chunk: key, fixes };
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Mended(MendedAnswer { skipped }));
    }

    pub(super) fn whole(&mut self, now: u64, link: u64, request: Request) {
        let RequestBody::Whole(WholeRequest { chunk, version, .. }) = request.body else {
            unreachable!()
        };
        let key: Key = (request.scope.volume, chunk.0);
        let current = self.accepted.get(&key).map_or(Version::NONE, |held| held.version);
        if current != version {
            return self.refuse(now, link, &request, Refusal::WrongPredecessor { current });
        }
        let record = Record::Whole { chunk: key };
        self.accept_record(&record);
        self.push(record, link, request, AnswerBody::Done);
    }

    pub(super) fn verify(&mut self, now: u64, link: u64, request: &Request) {
        let RequestBody::Verify(VerifyRequest { chunk, from, least }) = request.body else {
            unreachable!()
        };
        let held = self
            .durable
            .get(&(request.scope.volume, chunk.0))
            .cloned()
            .unwrap_or_default();
        if held.version < least {
            let current = held.version;
            return self.refuse(now, link, request, Refusal::Behind { current });
        }
        let entries = held.blocks.range(from.0..);
        let entries = entries.map(|(&block, entry)| Change {
            block: BlockIndex(block),
            version: entry.version,
            sum: entry.data.as_ref().map(|data| data.1),
        });
        let body = AnswerBody::Verified(VerifiedAnswer {
            entries: entries.collect(),
            damaged: Vec::new(),
            more: None,
        });
        self.answer(now, link, request, Ok(body), Slice::default());
    }
}
