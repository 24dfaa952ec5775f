//! Which chunks were written since a snapshot, by what is in memory: a chunk that was never touched since the volume was opened was not.
//!
//! Stores tell exactly which blocks were changed, chunk by chunk ([`super::read`]). Where few chunks of many were, who asks is spared the others. What
//! is said here may be too much, and never too little: of a chunk that is said to be unchanged this sequencer has given out no version that carries
//! `since` or a larger number (S3). That is all that lies between two snapshots which it has itself let its writes carry: what an older owner has
//! written carries no larger number than the one that the volume had when it was opened here, and the newer snapshot was sealed under this generation.

use super::context::Context;
use super::state::ChunkState;
use crate::faults::Fault;
use amita_types::io::ChangedChunks;
use amita_types::{ChunkId, ChunkIndex, SnapshotId};

/// Of the chunks of a window that are sequenced here: which may have been written since `since` was taken. None is answered for where that was
/// before the volume was opened.
pub(super) fn list(cx: &Context, chunk: ChunkIndex, since: SnapshotId) -> ChangedChunks {
    let mut changed = ChangedChunks::default();
    if since <= cx.cut.opened_at() && !cx.config.faults.has(Fault::UnchangedBefore) {
        return changed;
    }
    let volume = cx.owned.volume.id;
    let cores = usize::from(cx.config.cores.max(1));
    for index in ChangedChunks::window_of(chunk.0).map(ChunkIndex) {
        if (ChunkId { volume, index }).core(cores) == usize::from(cx.config.core) {
            changed.answer(index.0, may_be(cx, index, since));
        }
    }
    changed
}

fn may_be(cx: &Context, index: ChunkIndex, since: SnapshotId) -> bool {
    let Some(slot) = cx.chunks.slot_of(index) else {
        return false;
    };
    let chunk = &cx.chunks[slot];
    let is_written = match cx.config.faults.has(Fault::UnchangedAtNumber) {
        true => chunk.log.number > since,
        false => chunk.log.number >= since,
    };
    // What is being opened is not known yet.
    is_written || !matches!(chunk.state, ChunkState::Open)
}
