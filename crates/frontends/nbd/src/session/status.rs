//! `NBD_CMD_BLOCK_STATUS`: bitmaps of chunks become extents, of what is allocated (`base:allocation`) and of what was changed since a
//! snapshot (`qemu:dirty-bitmap:`).

use super::request::{Kind, Request};
use super::{Cx, Session};
use crate::wire::state;
use amita_frontend::engine::{self, Protocol, Step, Submission};
use amita_frontend::service::VolumeInfo;
use amita_frontend::slots::SlotId;
use amita_types::BLOCK_BYTES;
use amita_types::io::{Op, Payload};

/// The most extents of one reply, of all contexts together. ("The server MAY return fewer descriptors": the client goes on where they end.)
const MAX_EXTENTS: usize = 4096;
/// The most chunks that one request asks for: 1 GiB of 4 MiB chunks.
const MAX_CHUNKS: u64 = 256;

/// One past the last byte that a request for the status of a range is told about.
pub(super) fn end(volume: &VolumeInfo, offset: u64, length: u32) -> u64 {
    let chunk = u64::from(volume.chunk_bytes);
    let most = (offset / chunk).saturating_add(MAX_CHUNKS).saturating_mul(chunk);
    (offset + u64::from(length)).min(most)
}

/// How many extents of one context can become known of `length` bytes: as many as there are blocks, one of them begun and one not ended.
fn most_extents(length: u64, contexts: usize) -> usize {
    let blocks = length / u64::from(BLOCK_BYTES) + 2;
    blocks.min(enough(contexts) as u64 + 1) as usize
}

/// So many extents of a context answer any request.
fn enough(contexts: usize) -> usize {
    MAX_EXTENTS / contexts.max(1)
}

/// Asks for what a context says of the next chunk. The first has the answer charged, as it is kept until all of it is known: an answer
/// of tens of thousands of bytes comes of a request of 28.
pub(super) fn step(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Step {
    let chunk = u64::from(session.volume.chunk_bytes);
    let contexts = session.contexts.len();
    let lack = session.engine.lacks_room_to_step(slot);
    let request = session.engine.request(slot);
    let is_charged = !request.own.extents.is_empty();
    if let (Kind::Status { next, end, .. }, false, None) = (request.own.kind, is_charged, &lack) {
        let extents = most_extents(end - next, contexts);
        let bytes = contexts * extents * size_of::<(u32, u32)>();
        if !session.engine.may_read(bytes, cx) {
            return Step::Full;
        }
        session.engine.charge_answer(slot, bytes);
        let request = session.engine.request(slot);
        request.own.extents = (0..contexts).map(|_| Vec::with_capacity(extents)).collect();
    }
    let request = session.engine.request(slot);
    let (offset, context) = match &mut request.own.kind {
        Kind::Status { next, asks, end, .. } if *next < *end => {
            if let Some(lack) = lack {
                return lack;
            }
            let asked = (*next, session.contexts[usize::from(*asks)]);
            *asks += 1;
            if usize::from(*asks) == contexts {
                (*asks, *next) = (0, (*next / chunk + 1) * chunk);
            }
            asked
        }
        _ => {
            request.issued = true;
            return Step::Through;
        }
    };
    let op = match context.since {
        None => Op::Allocation { offset },
        Some(since) => Op::Differ { offset, since },
    };
    session.submit(slot, Submission::of(op), cx);
    Step::Again
}

/// Turns what has come, in order, into extents.
pub(super) fn add(request: &mut engine::Request<Session>, chunk_bytes: u32, payload: Payload) {
    let (words, set, unset) = match payload {
        Payload::Allocation(allocated) => (*allocated, 0, state::HOLE | state::ZERO),
        Payload::Differs(differs) => (differs.changed, state::DIRTY, 0),
        _ => return,
    };
    if !is_enough(&request.own) {
        let flags_of = |block: usize| match words[block / 64] >> (block % 64) & 1 {
            1 => set,
            _ => unset,
        };
        add_chunk(&mut request.own, flags_of, chunk_bytes.into());
    }
    request.issued |= is_enough(&request.own);
}

/// Do the extents answer the request, whatever follows?
fn is_enough(request: &Request) -> bool {
    let contexts = request.extents.len();
    let whole = matches!(request.kind, Kind::Status { tells: 0, .. });
    match request.kind {
        Kind::Status { one: true, .. } => whole && request.extents.iter().all(|extents| extents.len() > 1),
        _ => whole && request.extents.iter().any(|extents| extents.len() >= enough(contexts)),
    }
}

/// Adds the extents of a context in the chunk in which those that are known end.
fn add_chunk(request: &mut Request, flags_of: impl Fn(usize) -> u32, chunk_bytes: u64) {
    let contexts = request.extents.len();
    let Kind::Status { known, tells, end, .. } = &mut request.kind else {
        return;
    };
    let block = u64::from(BLOCK_BYTES);
    let chunk_start = *known / chunk_bytes * chunk_bytes;
    let stop = (*end).min(chunk_start + chunk_bytes);
    let extents = &mut request.extents[usize::from(*tells)];
    let most = enough(contexts) + 1;
    let mut at = *known;
    while at < stop {
        let index = ((at - chunk_start) / block) as usize;
        let next = (chunk_start + (index as u64 + 1) * block).min(stop);
        let flags = flags_of(index);
        let length = (next - at) as u32;
        let is_full = extents.len() == most;
        match extents.last_mut() {
            // "The server SHOULD use different status values between consecutive descriptors."
            Some((sum, last)) if *last == flags => *sum += length,
            // What has no room is not told: "the server MAY return fewer descriptors".
            _ if is_full => break,
            _ => extents.push((length, flags)),
        }
        at = next;
    }
    *tells += 1;
    if usize::from(*tells) == contexts {
        (*tells, *known) = (0, stop);
    }
}
