//! A syncing member joins a chunk's history (R5): before the first of our writes that it gets, it is told after which version
//! that one comes. From then on it takes the chunk's writes like all others, each onto exactly its predecessor; what it has
//! missed before is brought by `mend`.
//!
//! A member that was asked and has not answered is asked again on its next link: where it has our history already, joining
//! changes nothing.

use super::context::Context;
use super::{group, parents, resend};
use crate::faults::Fault;
use crate::members::Position;
use crate::table::{ChunkSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::{Slice, Time};
use amita_types::message::{JoinRequest, Refusal, RequestBody};
use amita_types::{SnapshotId, Version};

/// Does the member not go on with the chunk's history yet?
pub(super) fn is_needed(cx: &Context, chunk: ChunkSlot, position: Position) -> bool {
    if cx.config.faults.has(Fault::NoJoin) {
        return false;
    }
    let state = &cx.chunks[chunk];
    cx.groups[state.group].members.syncing.has(position) && !state.history.joined.has(position)
}

/// Asks a syncing member to join the chunk's history at `at`, the version before what it is sent next.
pub(super) fn first(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position, at: (Version, SnapshotId)) {
    if !is_needed(cx, chunk, position) || cx.chunks[chunk].history.joining.has(position) {
        return;
    }
    parents::make_before_join(cx, now, chunk, position);
    let state = &mut cx.chunks[chunk];
    state.history.joining.add(position);
    let (group, index) = (state.group, state.index);
    let slot = cx.tasks.add(Kind::Join, group, Some(chunk));
    cx.expect(now, slot, position);
    let (at, number) = at;
    // The number is that version's, whatever was adopted since (S3).
    let number = match cx.config.faults.has(Fault::JoinWithNewest) {
        true => cx.cut.number,
        false => number,
    };
    let body = RequestBody::Join(JoinRequest { chunk: index, at });
    cx.send_at(now, slot, position, number, body, Slice::default());
}

/// The member goes on with the chunk's history.
pub(super) fn joined(cx: &mut Context, now: Time, slot: TaskSlot, position: Position) {
    let chunk = cx.tasks[slot].chunk();
    cx.settle_and_drop(slot, position);
    cx.chunks[chunk].history.joining.remove(position);
    cx.chunks[chunk].history.joined.add(position);
    cx.counters.joined += 1;
    resend::unstall(cx, now, chunk, position);
}

/// The answer will not come: it is asked again before the next write.
pub(super) fn lost(cx: &mut Context, slot: TaskSlot, position: Position) {
    let chunk = cx.tasks[slot].chunk();
    cx.settle_and_drop(slot, position);
    cx.chunks[chunk].history.joining.remove(position);
}

pub(super) fn refused(cx: &mut Context, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
    let (chunk, group) = (cx.tasks[slot].chunk(), cx.tasks[slot].group);
    lost(cx, slot, position);
    // What was sent behind it is refused as well; all of it is sent again.
    cx.chunks[chunk].lag.stalled.add(position);
    if !passes_by_itself(refusal) {
        cx.warn_refused(group, cx.groups[group].members[position], refusal);
        group::evict_soon(cx, group, position);
        cx.pause(now, group, position, cx.config.unfit_pause());
    }
    resend::unstall(cx, now, chunk, position);
}

/// Is it dealt with by whoever looks at refusals first, so that the same may be asked again?
pub(super) fn passes_by_itself(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::StaleEpoch { .. }
            | Refusal::NotFenced
            | Refusal::Fenced { .. }
            | Refusal::Busy
            | Refusal::Poisoned
            | Refusal::NoSuchStore
    )
}
