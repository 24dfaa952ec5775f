//! `NBD_CMD_BLOCK_STATUS` for `base:allocation`: bitmaps of chunks become extents.

use super::request::{Kind, Request};
use super::{Cx, Session};
use crate::wire::state;
use amita_frontend::engine::{self, Protocol, Step, Submission};
use amita_frontend::service::VolumeInfo;
use amita_frontend::slots::SlotId;
use amita_types::BLOCK_BYTES;
use amita_types::io::{Op, Payload};

/// The most extents of one reply. ("The server MAY return fewer descriptors": the client goes on where they end.)
const MAX_EXTENTS: usize = 4096;
/// The most chunks that one request asks for: 1 GiB of 4 MiB chunks.
const MAX_CHUNKS: u64 = 256;

/// One past the last byte that a request for the status of a range is told about.
pub(super) fn end(volume: &VolumeInfo, offset: u64, length: u32) -> u64 {
    let chunk = u64::from(volume.chunk_bytes);
    let most = (offset / chunk).saturating_add(MAX_CHUNKS).saturating_mul(chunk);
    (offset + u64::from(length)).min(most)
}

/// How many extents can become known of `length` bytes: as many as there are blocks, one of them begun and one not ended.
fn most_extents(length: u64) -> usize {
    (length / u64::from(BLOCK_BYTES) + 2).min(MAX_EXTENTS as u64 + 1) as usize
}

/// Asks for the allocation of the next chunk. The first has the answer charged, as it is kept until all of it is known: an answer of
/// tens of thousands of bytes comes of a request of 28.
pub(super) fn step(session: &mut Session, slot: SlotId, cx: &mut Cx<'_>) -> Step {
    let chunk = u64::from(session.volume.chunk_bytes);
    let lack = session.engine.lacks_room_to_step(slot);
    let request = session.engine.request(slot);
    let is_charged = request.own.extents.capacity() > 0;
    if let (Kind::Status { next, end, .. }, false, None) = (request.own.kind, is_charged, &lack) {
        let extents = most_extents(end - next);
        let bytes = extents * size_of::<(u32, u32)>();
        if !session.engine.may_read(bytes, cx) {
            return Step::Full;
        }
        session.engine.charge_answer(slot, bytes);
        session.engine.request(slot).own.extents.reserve_exact(extents);
    }
    let request = session.engine.request(slot);
    let offset = match &mut request.own.kind {
        Kind::Status { next, end, .. } if *next < *end => {
            if let Some(lack) = lack {
                return lack;
            }
            let offset = *next;
            *next = (offset / chunk + 1) * chunk;
            offset
        }
        _ => {
            request.issued = true;
            return Step::Through;
        }
    };
    session.submit(slot, Submission::of(Op::Allocation { offset }), cx);
    Step::Again
}

/// Turns what has come, in order, into extents.
pub(super) fn add(request: &mut engine::Request<Session>, chunk_bytes: u32, payload: &Payload) {
    let Payload::Allocation(allocated) = payload else {
        return;
    };
    if !is_enough(&request.own) {
        add_chunk(&mut request.own, allocated, chunk_bytes.into());
    }
    request.issued |= is_enough(&request.own);
}

/// Do the extents answer the request, whatever follows?
fn is_enough(request: &Request) -> bool {
    match request.kind {
        Kind::Status { one: true, .. } => request.extents.len() > 1,
        _ => request.extents.len() >= MAX_EXTENTS,
    }
}

/// Adds the extents of the chunk in which those that are known end.
fn add_chunk(request: &mut Request, allocated: &[u64; 16], chunk_bytes: u64) {
    let Kind::Status { known, end, .. } = &mut request.kind else {
        return;
    };
    let block = u64::from(BLOCK_BYTES);
    let chunk_start = *known / chunk_bytes * chunk_bytes;
    let stop = (*end).min(chunk_start + chunk_bytes);
    while *known < stop && request.extents.len() <= MAX_EXTENTS {
        let index = ((*known - chunk_start) / block) as usize;
        let next = (chunk_start + (index as u64 + 1) * block).min(stop);
        let has_data = allocated[index / 64] >> (index % 64) & 1 == 1;
        let flags = if has_data { 0 } else { state::HOLE | state::ZERO };
        let length = (next - *known) as u32;
        match request.extents.last_mut() {
            // "The server SHOULD use different status values between consecutive descriptors."
            Some((sum, last)) if *last == flags => *sum += length,
            _ => request.extents.push((length, flags)),
        }
        *known = next;
    }
}
