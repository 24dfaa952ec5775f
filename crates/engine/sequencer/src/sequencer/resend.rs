//! What a member has not got of a chunk's writes: it refused them, or its link has ended (R8). Everything is sent again in the
//! order of versions, and only when nothing that it was sent of the chunk is unanswered: else what is sent again would overtake
//! what is under way. Who cannot apply the next valid version is evicted (R7).

use super::Sequencer;
use crate::config::MAX_REFUSALS;
use crate::faults::Fault;
use crate::members::Position;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use amita_reactor::Time;
use amita_types::message::Refusal;

impl Sequencer {
    /// Sends a member, in the order of versions, what it has not been sent on its present link, of all chunks.
    pub(super) fn resend(&mut self, now: Time, group: GroupSlot, position: Position) {
        if !self.can_send(group, position) {
            return;
        }
        for index in 0..self.groups[group].busy.len() {
            let chunk = self.groups[group].busy[index];
            self.resend_chunk(now, chunk, position);
        }
    }

    /// The same, of one chunk.
    pub(super) fn resend_chunk(&mut self, now: Time, chunk: ChunkSlot, position: Position) {
        let state = &self.chunks[chunk];
        let group = state.group;
        if !self.can_send(group, position) || state.stalled.has(position) {
            return;
        }
        let backwards = self.config.faults.has(Fault::ResendOutOfOrder);
        let writes = state.writes;
        let mut cursor = if backwards { writes.tail() } else { writes.head() };
        while let Some(slot) = cursor {
            cursor = if backwards {
                self.tasks.previous(slot)
            } else {
                self.tasks.next(slot)
            };
            let task = &mut self.tasks[slot];
            if !task.waiting.has(position) || task.sent.has(position) {
                continue;
            }
            let again = task.sent_at[position] != Time(0);
            let write = task.write();
            let previous = write.previous;
            if !write.charged.has(position) {
                // A new link counts anew. Whether there is space was settled before the version was given out.
                self.charge_to(now, slot, position);
            }
            self.counters.resent += u64::from(again);
            self.join_first(now, chunk, position, previous);
            self.send_write(now, slot, position);
        }
    }

    /// A member has refused a write.
    pub(super) fn write_refused(&mut self, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
        let chunk = self.tasks[slot].chunk();
        let group = self.tasks[slot].group;
        let store = self.groups[group].members[position];
        self.tasks[slot].sent.remove(position);
        self.uncharge(slot, position);
        // What was sent behind it is refused as well: once all of that is in, everything is sent again in order.
        self.chunks[chunk].stalled.add(position);
        let unfit = match refusal {
            Refusal::StaleEpoch { .. }
            | Refusal::NotFenced
            | Refusal::Fenced { .. }
            | Refusal::Busy
            | Refusal::Poisoned
            | Refusal::NoSuchStore => false,
            // It has not joined the chunk's history: that is asked again before the write.
            Refusal::WrongPredecessor { .. } if self.must_join(chunk, position) => false,
            Refusal::WrongPredecessor { .. } => self.first_awaited(chunk, position) == Some(slot),
            Refusal::Invalid { .. } => {
                let write = self.tasks[slot].write();
                write.refusals += 1;
                let unfit = write.refusals > MAX_REFUSALS;
                self.pause(now, group, position, self.config.busy_pause);
                unfit
            }
            // D7: one that cannot be spared is brought up to date without the write.
            Refusal::Damaged { .. } if self.must_catch_up(group, position) => {
                self.warn_rotten(slot, position, refusal);
                self.chunks[chunk].behind.add(position);
                false
            }
            // R7: who cannot apply the next valid version is evicted.
            _ => true,
        };
        if unfit {
            self.warn_refused(group, store, refusal);
            self.evict_soon(group, position);
            self.pause(now, group, position, self.config.busy_pause * super::UNFIT_PAUSES);
        }
        self.unstall(now, chunk, position);
    }

    /// Says that a block under a write has rotted, where that is where the refusal says.
    fn warn_rotten(&mut self, slot: TaskSlot, position: Position, refusal: &Refusal) {
        let task = &self.tasks[slot];
        if let &Refusal::Damaged { block } = refusal {
            self.found_damage(task.group, position, task.chunk(), block);
        }
    }

    /// Sends again what a member refused, once everything that it was sent of the chunk is answered.
    pub(super) fn unstall(&mut self, now: Time, chunk: ChunkSlot, position: Position) {
        if !self.chunks[chunk].stalled.has(position) {
            return;
        }
        let outstanding = self.awaited_writes(chunk).any(|slot| {
            let task = &self.tasks[slot];
            task.waiting.has(position) && task.sent.has(position)
        });
        if !outstanding && self.chunks[chunk].behind.has(position) {
            self.catch_up(now, chunk);
        } else if !outstanding {
            self.chunks[chunk].stalled.remove(position);
            self.resend_chunk(now, chunk, position);
        }
    }

    /// A member that leaves owes no answer any more. What it was not sent it does not count; of what it was sent, its
    /// answer tells.
    pub(super) fn forget_write(&mut self, slot: TaskSlot, position: Position) {
        if self.tasks[slot].sent.has(position) {
            let id = self.tasks.id(slot);
            let write = self.tasks[slot].write();
            let blocks = u64::from(write.taken[position]);
            if write.charged.has(position) && blocks > 0 {
                let number = self.groups[self.tasks[slot].group].members[position];
                self.stores[number].in_doubt.push((id, blocks));
            }
        } else {
            self.uncharge(slot, position);
        }
        self.tasks[slot].missed = Some(self.groups[self.tasks[slot].group].members[position]);
        self.settle(slot, position);
    }

    /// The oldest write of the chunk that the member has not answered.
    fn first_awaited(&self, chunk: ChunkSlot, position: Position) -> Option<TaskSlot> {
        self.awaited_writes(chunk)
            .find(|&slot| self.tasks[slot].waiting.has(position))
    }

    /// The chunk's writes that have a version, in its order.
    pub(super) fn awaited_writes(&self, chunk: ChunkSlot) -> impl Iterator<Item = TaskSlot> + '_ {
        let mut cursor = self.chunks[chunk].writes.head();
        std::iter::from_fn(move || {
            let slot = cursor?;
            cursor = self.tasks.next(slot);
            Some(slot)
        })
    }
}
