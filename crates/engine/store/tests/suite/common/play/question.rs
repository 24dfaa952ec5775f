//! What a reader asks, and which answers a chunk gives to it.

use super::super::BLOCK;
use super::super::model::Blocks;
use super::truth::{Held, View};
use amita_types::message::{
    self, AllocationAnswer, AllocationRequest, AnswerBody, ChangesAnswer, ChangesRequest, DataAnswer, MAX_CHANGES,
    OpenRequest, OpenedAnswer, Problem, ReadRequest, Refusal, RequestBody,
};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Version};
use std::rc::Rc;

/// A question about a chunk, as it is for one of its snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub snapshot: u32,
    pub least: Version,
    pub ask: Ask,
}

#[derive(Clone, Copy, Debug)]
pub enum Ask {
    Read { first: u16, count: u16 },
    Open,
    Changes { since: Version, from: u16 },
    Allocation,
}

/// What a store said.
pub struct Said<'a> {
    pub result: &'a Result<AnswerBody, Refusal>,
    pub payload: &'a [u8],
}

impl Question {
    pub fn body(&self, chunk: u64) -> RequestBody {
        let chunk = ChunkIndex(chunk);
        match self.ask {
            Ask::Read { first, count } => RequestBody::Read(ReadRequest {
                chunk,
                range: BlockRange::new(first, count),
                least: self.least,
                versions: false,
                newest: None,
            }),
            Ask::Open => RequestBody::Open(OpenRequest { chunk }),
            Ask::Changes { since, from } => RequestBody::Changes(ChangesRequest {
                chunk,
                since,
                from: BlockIndex(from),
            }),
            Ask::Allocation => RequestBody::Allocation(AllocationRequest {
                chunk,
                least: self.least,
                newest: None,
            }),
        }
    }

    /// Is this the answer of a chunk that is in this state?
    pub fn fits(&self, held: &Held, said: &Said) -> bool {
        held.views(self.snapshot)
            .into_iter()
            .any(|view| self.fits_view(view, said))
    }

    fn fits_view(&self, view: View, said: &Said) -> bool {
        let blocks = match view {
            View::Content(blocks) => blocks,
            View::Unwritten => Rc::new(Blocks::new(0)),
            View::Gone => {
                let what = Problem::Snapshot;
                return *said.result == Err(Refusal::Invalid { what });
            }
        };
        let has_least = matches!(self.ask, Ask::Read { .. } | Ask::Allocation);
        if has_least && blocks.version < self.least {
            return matches!(said.result, Err(Refusal::Behind { .. }));
        }
        let Ok(body) = said.result else { return false };
        match (self.ask, body) {
            (
                Ask::Open,
                AnswerBody::Opened(OpenedAnswer {
                    version,
                    incomplete: None,
                    ..
                }),
            ) => *version == blocks.version,
            (Ask::Read { first, count }, AnswerBody::Data(DataAnswer { version, sums, .. })) => {
                *version == newest(&blocks, first, count) && shows(&blocks, first, count, said.payload, sums)
            }
            (Ask::Changes { since, from }, AnswerBody::Changes(ChangesAnswer { entries, more })) => {
                let expected = changes(&blocks, since, from);
                (entries, more) == (&expected.0, &expected.1)
            }
            (Ask::Allocation, AnswerBody::Allocation(AllocationAnswer { allocated, .. })) => {
                let mut expected = Box::new([0u64; 16]);
                for (at, (data, _)) in blocks.blocks.iter().enumerate() {
                    expected[at / 64] |= u64::from(data.is_some()) << (at % 64);
                }
                *allocated == expected
            }
            _ => false,
        }
    }
}

fn newest(blocks: &Blocks, first: u16, count: u16) -> Version {
    if blocks.blocks.is_empty() {
        Version::NONE
    } else {
        blocks.newest(first, count)
    }
}

/// Are these the bytes of the blocks, with the right sums beside them?
fn shows(blocks: &Blocks, first: u16, count: u16, payload: &[u8], sums: &[u32]) -> bool {
    let range = usize::from(first)..usize::from(first) + usize::from(count);
    let wanted = blocks.blocks.get(range).unwrap_or(&[]);
    if wanted.iter().all(|(data, _)| data.is_none()) {
        return payload.is_empty() && sums.is_empty();
    }
    if (payload.len(), sums.len()) != (usize::from(count) * BLOCK, usize::from(count)) {
        return false;
    }
    let shown = payload.chunks(BLOCK).zip(sums);
    wanted.iter().zip(shown).all(|((data, _), (block, sum))| {
        let same = match data {
            Some(data) => data[..] == *block,
            None => block.iter().all(|&byte| byte == 0),
        };
        same && amita_types::crc32c(block) == *sum
    })
}

fn changes(blocks: &Blocks, since: Version, from: u16) -> (Vec<message::Change>, Option<BlockIndex>) {
    let mut entries = Vec::new();
    for (block, (data, version)) in blocks.blocks.iter().enumerate().skip(usize::from(from)) {
        let block = BlockIndex(block as u16);
        if *version <= since {
            continue;
        }
        if entries.len() == MAX_CHANGES {
            return (entries, Some(block));
        }
        entries.push(message::Change {
            block,
            version: *version,
            sum: data.as_ref().map(|data| amita_types::crc32c(data)),
        });
    }
    (entries, None)
}
