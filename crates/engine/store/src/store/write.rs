//! Requests of a volume's owner: what changes a chunk is checked, and handed to `queue` in its order (rules R1, R8).

use super::change::{Change, WriteChange};
use super::op::{Op, Ops, Resend};
use super::request::Caller;
use super::space::Claim;
use super::{Requester, Store, answer, queue, space};
use crate::config::Config;
use crate::credits::AccountId;
use crate::faults::Fault;
use crate::format::PAGE_BYTES;
use crate::index::{Index, LEAF_ENTRIES, OpSlot, PARTS, WORST_BYTES_PER_BLOCK, WORST_BYTES_PER_CLEAR};
use amita_reactor::Slice;
use amita_types::message::{ClearRequest, Problem, Refusal, WriteRequest};
use amita_types::{BLOCK_BYTES, BlockRange, ChunkId, ChunkIndex, Generation, MAX_IO_BYTES, SnapshotId, Version};

/// What is asked to change, and from what to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub chunk: ChunkId,
    pub version: Version,
    pub previous: Version,
    pub snapshot: SnapshotId,
}

impl Asked {
    /// A change that names the volume's newest snapshot.
    pub fn by(caller: &Caller, chunk: ChunkIndex, version: Version, previous: Version) -> Asked {
        Asked {
            chunk: caller.chunk(chunk),
            version,
            previous,
            snapshot: caller.snapshot(),
        }
    }

    /// Is the version the next one of the asker's generation?
    fn is_next(&self, generation: Generation) -> bool {
        self.previous.next(generation) == Some(self.version) && self.version > self.previous
    }
}

/// What a change is to its chunk's history.
enum Admission {
    /// It follows the last one.
    Next,
    /// It was applied, and is durable.
    Durable,
    /// It was accepted and is not durable yet.
    Pending(OpSlot),
    /// It is neither.
    Wrong(Version),
    /// It names an older snapshot than the chunk's last change, or the volume is deleted.
    OldSnapshot,
    /// It was accepted, with another snapshot number (S3).
    OtherNumber,
}

/// Rules R1 and R8: apply only onto exactly the predecessor; a resend is answered once the original is durable.
fn judge(config: &Config, index: &Index, ops: &Ops, asked: &Asked, length: u32) -> Admission {
    let &Asked {
        chunk,
        version,
        previous,
        snapshot,
    } = asked;
    let Some(key) = index.find(chunk) else {
        return match previous {
            Version::NONE => Admission::Next,
            _ if config.faults.has(Fault::AnyPredecessor) => Admission::Next,
            _ => Admission::Wrong(Version::NONE),
        };
    };
    let chunk = index.chunk(key);
    if version == chunk.accepted.version && chunk.accepted.last().is_some_and(|last| last != (previous, length)) {
        return Admission::Wrong(chunk.accepted.version);
    }
    if version == chunk.accepted.version && chunk.accepted.last().is_some() && snapshot != chunk.accepted.snapshot {
        return Admission::OtherNumber;
    }
    // Within one generation a chunk's versions follow one another without gaps, and each was applied onto its
    // predecessor: an older one of the same generation is part of what is here.
    if version <= chunk.durable && version.generation() == chunk.durable.generation() {
        return Admission::Durable;
    }
    if version <= chunk.accepted.version {
        let mut pending = chunk.queue.first;
        while pending != OpSlot::NONE {
            let op = ops.get(pending);
            if (op.version, op.previous, op.length_bytes) == (version, previous, length) {
                return match op.snapshot == snapshot {
                    true => Admission::Pending(pending),
                    false => Admission::OtherNumber,
                };
            }
            pending = op.next;
        }
    }
    if chunk.deleted || chunk.deleting {
        return Admission::OldSnapshot;
    }
    if previous == chunk.accepted.version || config.faults.has(Fault::AnyPredecessor) {
        if snapshot < chunk.accepted.snapshot {
            return Admission::OldSnapshot;
        }
        return Admission::Next;
    }
    Admission::Wrong(chunk.accepted.version)
}

/// Answers what is no news; `true`: it follows the last change and is to be accepted. What comes again is paid for again,
/// as its sender counts it: `blocks` of credits.
pub(super) fn admit(store: &mut Store, asker: Requester, asked: &Asked, length: u32, blocks: u32) -> bool {
    let admission = judge(&store.config, &store.index, &store.ops, asked, length);
    let mut paid = 0;
    if matches!(admission, Admission::Durable | Admission::Pending(_)) && blocks > 0 {
        paid = store
            .space
            .credits
            .give_back(AccountId::new(asker.link, asker.id), blocks);
    }
    match admission {
        Admission::Next => return true,
        Admission::Wrong(current) => store.env.refuse(asker, Refusal::WrongPredecessor { current }),
        Admission::OldSnapshot => store.env.invalid(asker, Problem::Snapshot),
        Admission::OtherNumber => store.env.invalid(asker, Problem::Number),
        Admission::Durable => {
            store.env.counters.resends += 1;
            answer::done(store, asker);
        }
        Admission::Pending(op) => {
            store.env.counters.resends += 1;
            if store.config.faults.has(Fault::ResendAtOnce) {
                answer::done(store, asker);
            } else {
                store.ops.get_mut(op).resent = true;
                store.ops.resends.push(Resend { op, asker, paid });
            }
        }
    }
    false
}

pub(super) fn write(store: &mut Store, caller: &Caller, request: WriteRequest, payload: Slice) {
    let asker = caller.asker;
    let asked = Asked::by(caller, request.chunk, request.version, request.previous);
    let (offset_bytes, length_bytes) = (request.offset_bytes, request.length_bytes);
    let end = offset_bytes.checked_add(length_bytes);
    let inside = end.is_some_and(|end| end <= caller.blocks() * BLOCK_BYTES);
    if !inside || length_bytes == 0 || length_bytes > MAX_IO_BYTES {
        return store.env.invalid(asker, Problem::Range);
    }
    let range = BlockRange::of_bytes(offset_bytes, length_bytes);
    if payload.len() != length_bytes as usize || request.sums.len() != usize::from(range.count) {
        return store.env.invalid(asker, Problem::Length);
    }
    if !asked.is_next(asker.generation) {
        return store.env.invalid(asker, Problem::Version);
    }
    let count = u32::from(range.count);
    if !admit(store, asker, &asked, length_bytes, count) {
        return;
    }
    if !sums_match(&payload, offset_bytes, &request.sums) {
        return store.env.invalid(asker, Problem::Checksum);
    }
    if !space::charge(store, asker, count) {
        return store.env.refuse(asker, Refusal::NoSpace);
    }
    let change = Change::Write(WriteChange {
        range,
        offset_bytes,
        payload,
        sums: request.sums,
        merge: None,
    });
    let key = store.index.touch(asked.chunk);
    let op = Op {
        version: asked.version,
        previous: asked.previous,
        snapshot: asked.snapshot,
        length_bytes,
        claim: Claim {
            blocks: count,
            index_bytes: u64::from(count) * WORST_BYTES_PER_BLOCK,
            leaves: parts_of(range),
            shared: 0,
        },
        ..Op::new(change, Some(asker), key)
    };
    queue::accept(store, op);
}

pub(super) fn clear(store: &mut Store, caller: &Caller, request: ClearRequest) {
    let asker = caller.asker;
    let asked = Asked::by(caller, request.chunk, request.version, request.previous);
    let range = request.range;
    if !range.is_inside(caller.blocks()) {
        return store.env.invalid(asker, Problem::Range);
    }
    if !asked.is_next(asker.generation) {
        return store.env.invalid(asker, Problem::Version);
    }
    let length_bytes = u32::from(range.count) * BLOCK_BYTES;
    if !admit(store, asker, &asked, length_bytes, 0) {
        return;
    }
    if !space::clear_fits(store, parts_of(range)) {
        return space::refuse(store, asker);
    }
    let key = store.index.touch(asked.chunk);
    let op = Op {
        version: asked.version,
        previous: asked.previous,
        snapshot: asked.snapshot,
        length_bytes,
        claim: Claim {
            blocks: 0,
            index_bytes: WORST_BYTES_PER_CLEAR,
            leaves: parts_of(range),
            shared: 0,
        },
        ..Op::new(Change::Clear(range), Some(asker), key)
    };
    queue::accept(store, op);
}

/// How many leaves the blocks belong to.
pub(super) fn parts_of(range: BlockRange) -> u32 {
    let first = u32::from(range.first.0) / LEAF_ENTRIES as u32;
    let end = range.end().div_ceil(LEAF_ENTRIES as u32);
    (end - first).min(PARTS as u32)
}

/// Has every piece of the payload (what lies inside one block) the checksum that came with it?
fn sums_match(payload: &[u8], offset_bytes: u32, sums: &[u32]) -> bool {
    let head = PAGE_BYTES - offset_bytes as usize % PAGE_BYTES;
    let (head, rest) = payload.split_at(head.min(payload.len()));
    let pieces = std::iter::once(head).chain(rest.chunks(PAGE_BYTES));
    pieces.zip(sums).all(|(piece, &sum)| amita_types::crc32c(piece) == sum)
}
