//! What volumes were cloned from: a chunk of which the stores do not have the same copies is opened there by its owner first (S7).
//!
//! A read of one block of the snapshot does that, on the way that any read of a snapshot takes: to the volume's owner, wherever that
//! is, who is made if there is none; of a deleted volume too, of which nothing else is served. What it brings is of no interest.

use super::Core;
use super::route;
use crate::forwarder::PATIENCE;
use amita_frontend::FrontId;
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::{IoError, Op};
use amita_types::{BLOCK_BYTES, ChunkIndex, Generation, SnapshotId, VolumeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The front of these reads.
pub(super) const PARENTS: FrontId = FrontId(u64::MAX - 1);
/// A read that has not ended by then was forgotten, with those of hosts, when this core had stood still.
const LONGEST: Duration = PATIENCE.saturating_mul(2);

/// Which clone has asked for what.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The clone, and its owner's generation.
    pub clone: (VolumeId, Generation),
    /// Whose snapshot is to be read.
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub chunk: ChunkIndex,
    pub chunk_bytes: u32,
}

/// The reads that are under way.
#[derive(Default)]
pub(super) struct ParentReads {
    count: u64,
    /// In the order in which they began.
    asked: BTreeMap<u64, (Time, Asked)>,
}

impl ParentReads {
    /// When [`look`] is wanted.
    pub(super) fn deadline(&self) -> Option<Time> {
        let (_, (began, _)) = self.asked.first_key_value()?;
        Some(began.plus(LONGEST))
    }
}

/// A sequencer of this core needs the chunk opened.
pub(super) fn read(core: &mut Core, now: Time, asked: Asked) {
    core.parents.count += 1;
    let tag = core.parents.count;
    core.parents.asked.insert(tag, (now, asked));
    let mut origin = core.cx.origin(now, PARENTS, tag);
    origin.snapshot = asked.snapshot;
    let offset = asked.chunk.0 * u64::from(asked.chunk_bytes);
    let parent = core.cx.view.volume_of(asked.volume);
    let op = match parent.is_some_and(|record| record.keys.is_some()) {
        // Nothing of what an encrypted one holds is brought here for nothing.
        true => Op::Allocation { offset },
        false => Op::Read {
            offset,
            length: BLOCK_BYTES,
        },
    };
    let (cx, forwarding) = (&mut core.cx, &mut core.forwarding);
    route::route(cx, forwarding, now, origin, asked.volume, op, Slice::default());
}

/// A read has ended.
pub(super) fn ended(core: &mut Core, now: Time, tag: u64, result: Result<(), IoError>) {
    if let Some((_, asked)) = core.parents.asked.remove(&tag) {
        core.cx.shards.parent_opened(now, asked.clone, asked.chunk, result);
    }
}

/// Reads that nobody will answer any more.
pub(super) fn look(core: &mut Core, now: Time) {
    while core.parents.deadline().is_some_and(|at| at <= now)
        && let Some((tag, _)) = core.parents.asked.first_key_value()
    {
        let tag = *tag;
        ended(core, now, tag, Err(IoError::Unavailable));
    }
}
