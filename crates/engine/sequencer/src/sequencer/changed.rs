//! Which chunks were written since a snapshot, by what is in memory: a chunk that was never touched since the volume was opened was not.
//!
//! Stores tell exactly which blocks were changed, chunk by chunk ([`super::read`]). Where few chunks of many were, who asks is spared the others. What
//! is said here may be too much, and never too little, of two *sealed* snapshots: whoever has sealed the newer one was the volume's only owner since
//! it took the older one itself, so every version in between was given out here, and a chunk's log has the number that the last one carries (S3).

use super::context::Context;
use super::state::ChunkState;
use crate::faults::Fault;
use amita_types::io::{CHANGED_CHUNKS, ChangedChunks};
use amita_types::{ChunkId, ChunkIndex, SnapshotId};

/// Of the chunks from `first` on that are sequenced here: which may have been written since `since` was taken. None is answered for where that was
/// before the volume was opened.
pub(super) fn list(cx: &Context, first: ChunkIndex, since: SnapshotId) -> ChangedChunks {
    let mut changed = ChangedChunks::default();
    if since <= cx.cut.opened_at() && !cx.config.faults.has(Fault::UnchangedBefore) {
        return changed;
    }
    let volume = cx.owned.volume.id;
    let cores = usize::from(cx.config.cores.max(1));
    for at in 0..CHANGED_CHUNKS {
        let Some(index) = first.0.checked_add(at as u64).map(ChunkIndex) else {
            break;
        };
        if (ChunkId { volume, index }).core(cores) == usize::from(cx.config.core) {
            changed.answer(at, may_be(cx, index, since));
        }
    }
    changed
}

fn may_be(cx: &Context, index: ChunkIndex, since: SnapshotId) -> bool {
    let Some(slot) = cx.chunks.slot_of(index) else {
        return false;
    };
    let chunk = &cx.chunks[slot];
    if cx.config.faults.has(Fault::UnchangedAtNumber) {
        return chunk.log.number > since;
    }
    // What is being opened is not known yet.
    chunk.log.number >= since || !matches!(chunk.state, ChunkState::Open)
}
