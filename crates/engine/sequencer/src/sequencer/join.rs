//! A syncing member joins a chunk's history (R5): before the first of our writes that it gets, it is told after which version
//! that one comes. From then on it takes the chunk's writes like all others, each onto exactly its predecessor; what it has
//! missed before is brought by `mend`.
//!
//! A member that was asked and has not answered is asked again on its next link: where it has our history already, joining
//! changes nothing.

use super::Sequencer;
use crate::faults::Fault;
use crate::members::Position;
use crate::table::{ChunkSlot, TaskSlot};
use crate::task::Kind;
use amita_reactor::{Slice, Time};
use amita_types::Version;
use amita_types::message::{JoinRequest, Refusal, RequestBody};

impl Sequencer {
    /// Does the member not go on with the chunk's history yet?
    pub(super) fn must_join(&self, chunk: ChunkSlot, position: Position) -> bool {
        if self.config.faults.has(Fault::NoJoin) {
            return false;
        }
        let state = &self.chunks[chunk];
        self.groups[state.group].syncing.has(position) && !state.joined.has(position)
    }

    /// Asks a syncing member to join the chunk's history at `at`, the version before what it is sent next.
    pub(super) fn join_first(&mut self, now: Time, chunk: ChunkSlot, position: Position, at: Version) {
        if !self.must_join(chunk, position) || self.chunks[chunk].joining.has(position) {
            return;
        }
        let state = &mut self.chunks[chunk];
        state.joining.add(position);
        let (group, index) = (state.group, state.index);
        let slot = self.tasks.add(Kind::Join, group, Some(chunk));
        self.expect(now, slot, position);
        self.send(
            now,
            slot,
            position,
            RequestBody::Join(JoinRequest { chunk: index, at }),
            Slice::default(),
        );
    }

    /// The member goes on with the chunk's history.
    pub(super) fn joined(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let chunk = self.tasks[slot].chunk();
        self.settle_and_drop(slot, position);
        self.chunks[chunk].joining.remove(position);
        self.chunks[chunk].joined.add(position);
        self.counters.joined += 1;
        self.unstall(now, chunk, position);
    }

    /// The answer will not come: it is asked again before the next write.
    pub(super) fn join_lost(&mut self, slot: TaskSlot, position: Position) {
        let chunk = self.tasks[slot].chunk();
        self.settle_and_drop(slot, position);
        self.chunks[chunk].joining.remove(position);
    }

    pub(super) fn join_refused(&mut self, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
        let (chunk, group) = (self.tasks[slot].chunk(), self.tasks[slot].group);
        self.join_lost(slot, position);
        // What was sent behind it is refused as well; all of it is sent again.
        self.chunks[chunk].stalled.add(position);
        if !passes_by_itself(refusal) {
            self.warn_refused(group, self.groups[group].members[position], refusal);
            self.evict_soon(group, position);
            self.pause(now, group, position, self.config.busy_pause * super::UNFIT_PAUSES);
        }
        self.unstall(now, chunk, position);
    }
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
