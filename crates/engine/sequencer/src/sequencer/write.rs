//! The whole life of a write, or of a clear, from submitted to acknowledged. The rules are those of `docs/protocol.md`.
//!
//! * *Submitted* (`submit.rs` checks it) and *queued* at its chunk: [`Sequencer::queue_write`]. The chunk is opened first where
//!   it is not (R6, `open.rs`).
//! * *Ready*: its turn comes by the chunk's pipeline (`pipeline.rs`), [`Sequencer::try_write`]. Limits are kept and space is
//!   settled before it has a version, because a version that was given out must be applied (R7, `credits.rs`).
//! * *Sequenced*: it gets the version after the last one, and names that one (R1).
//! * *Sent* to every member at once, behind everything that the member was sent before. Its payload is kept until the end
//!   and sent again where a link broke, or where it was refused (R8, `resend.rs`).
//! * *Answered*: [`Sequencer::written`], member by member. Who never answers is evicted (R12, `store.rs`, `metadata.rs`).
//! * *Committed* when all have answered (R2), in the order of versions, and *acknowledged*: [`Sequencer::commit`].

use super::Sequencer;
use super::credits::charge;
use crate::config::{MAX_SHARD_BYTES, MAX_STORE_BYTES, MAX_WRITES_PER_CHUNK};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, Write};
use amita_reactor::Time;
use amita_reactor::buggify::{Point, narrow};
use amita_types::io::{IoError, Payload};
use amita_types::message::Sums;
use amita_types::{BLOCK_BYTES, TraceId, Version};

/// May a write be given its version?
enum Gate {
    Open,
    Wait,
    NoSpace,
}

impl Sequencer {
    /// Submitted, and found valid: queued at its chunk.
    pub(super) fn queue_write(&mut self, now: Time, chunk: ChunkSlot, write: Write, trace: TraceId) {
        let clear = write.clear;
        let slot = self
            .tasks
            .add(Kind::Write(write), self.chunks[chunk].group, Some(chunk));
        self.tasks[slot].trace = trace;
        self.tasks[slot].asked_at = now;
        let state = &mut self.chunks[chunk];
        let queue = match clear {
            true => &mut state.queued_clears,
            false => &mut state.queued_writes,
        };
        self.tasks.push(queue, slot);
    }

    /// Sequences the first write of its queue, or fails it; false when it must wait.
    pub(super) fn try_write(&mut self, now: Time, slot: TaskSlot) -> bool {
        let chunk = self.tasks[slot].chunk();
        match self.gate(now, slot, chunk) {
            Gate::Wait => return false,
            Gate::Open => {
                // R1: a pair of generation and counter, naming the one before.
                let issued = self.chunks[chunk].issued;
                match issued.next(self.owned.generation).filter(|version| *version > issued) {
                    Some(version) => {
                        self.dequeue(slot, chunk);
                        self.sequence(now, slot, chunk, version);
                        self.end_compare(chunk, slot);
                    }
                    None => self.counter_ended(slot, chunk),
                }
            }
            Gate::NoSpace => self.fail_write(slot, chunk, IoError::NoSpace),
        }
        true
    }

    /// Space and limits, before a version is given out (R7).
    fn gate(&mut self, now: Time, slot: TaskSlot, chunk: ChunkSlot) -> Gate {
        let number = self.chunks[chunk].group;
        let group = &self.groups[number];
        let write = self.tasks[slot].write();
        let bytes = write.payload.len() as u64;
        let blocks = charge(write);
        let current = group.current;
        if current.count() < self.owned.min_copies && !self.config.faults.has(Fault::IgnoreMinCopies) {
            return Gate::Wait;
        }
        let state = &self.chunks[chunk];
        if state.held_back || state.comparing.is_some_and(|comparing| comparing != slot) {
            return Gate::Wait;
        }
        if state.write_count >= most_writes() || self.intake.bytes + bytes > MAX_SHARD_BYTES {
            return Gate::Wait;
        }
        let mut short = Members::NONE;
        for position in group.writers().iter() {
            let store = &self.stores[group.members[position]];
            if store.bytes > 0 && store.bytes + bytes > MAX_STORE_BYTES {
                return Gate::Wait;
            }
            if store.credit < blocks {
                short.add(position);
            }
        }
        if short.is_empty() || self.config.faults.has(Fault::NoCredits) {
            return Gate::Open;
        }
        if self.ask_for_credits(now, slot, number, short) {
            Gate::NoSpace
        } else {
            Gate::Wait
        }
    }

    fn dequeue(&mut self, slot: TaskSlot, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        let clear = self.tasks[slot].write().clear;
        let queue = if state.comparing == Some(slot) {
            &mut state.compared
        } else if clear {
            &mut state.queued_clears
        } else {
            &mut state.queued_writes
        };
        self.tasks.unlink(queue, slot);
    }

    /// Gives the write its version and sends it to all who must have it: the in-sync members, and the syncing ones that were
    /// fenced (R2). One that cannot be sent anything now gets it when it can (R8).
    fn sequence(&mut self, now: Time, slot: TaskSlot, chunk: ChunkSlot, version: Version) {
        let group = self.chunks[chunk].group;
        let state = &mut self.chunks[chunk];
        let previous = state.issued;
        assert!(version > previous, "versions only grow");
        state.issued = version;
        state.write_count += 1;
        self.tasks.push(&mut state.writes, slot);
        let write = self.tasks[slot].write();
        write.version = version;
        write.previous = previous;
        write.sums = sums(write);
        let bytes = write.payload.len() as u64;
        self.intake.bytes += bytes;
        let mut members = self.groups[group].writers();
        if self.config.faults.has(Fault::ServeHalfFenced) {
            members = members.and(self.groups[group].ready);
        }
        self.mark_busy(chunk);
        for position in members.iter() {
            self.charge_to(now, slot, position);
            self.expect(now, slot, position);
            if self.can_send(group, position) && !self.chunks[chunk].stalled.has(position) {
                self.join_first(now, chunk, position, previous);
                self.send_write(now, slot, position);
            }
        }
    }

    pub(super) fn send_write(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let index = self.chunks[self.tasks[slot].chunk()].index;
        let write = self.tasks[slot].write();
        let (body, payload) = (write.request(index), write.payload.clone());
        self.send(now, slot, position, body, payload);
    }

    /// Answered: a member has the write durable. An answer under an older epoch of ours counts as well.
    pub(super) fn written(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let chunk = self.tasks[slot].chunk();
        self.settle(slot, position);
        if self.tasks[slot].write().clear {
            // It may have made room.
            let number = self.groups[self.tasks[slot].group].members[position];
            self.stores[number].forget_words();
        }
        self.note_answer(now, slot, position);
        self.unstall(now, chunk, position);
        if self.config.faults.has(Fault::AcknowledgeEarly) {
            self.tell_early(slot);
        }
        if self.config.faults.has(Fault::AcknowledgeByMajority) {
            self.tell_by_majority(slot);
        }
        self.commit(chunk);
    }

    /// Acknowledges what every in-sync member has, in the order of versions.
    pub(super) fn commit(&mut self, chunk: ChunkSlot) {
        if self.config.faults.has(Fault::ForgetClaimed) {
            self.forget_claimed(chunk);
        }
        let mut any = false;
        while let Some(slot) = self.chunks[chunk].writes.head()
            && self.is_everywhere(slot)
        {
            self.acknowledge(chunk, slot);
            any = true;
        }
        if !any {
            return;
        }
        self.intake.is_due = true;
        if self.chunks[chunk].writes.is_empty() {
            self.mark_quiet(chunk);
        }
        // R3: what reads have found up to here may be given out.
        self.release_held(chunk);
    }

    /// Has every member answered that is in sync, or syncing and gets all writes (R2)? Are they enough (R10)?
    fn is_everywhere(&mut self, slot: TaskSlot) -> bool {
        if self.config.faults.has(Fault::IgnoreLost) {
            self.forget_lost(slot);
        }
        if self.config.faults.has(Fault::SkipSyncing) {
            self.forget_syncing(slot);
        }
        let task = &self.tasks[slot];
        let current = self.groups[task.group].current.count();
        task.waiting.is_empty() && (current >= self.owned.min_copies || self.config.faults.has(Fault::IgnoreMinCopies))
    }

    /// The client is told. The payload is kept no longer.
    fn acknowledge(&mut self, chunk: ChunkSlot, slot: TaskSlot) {
        let state = &mut self.chunks[chunk];
        self.tasks.unlink(&mut state.writes, slot);
        let course = self.course(slot);
        let Kind::Write(write) = self.tasks.remove(slot) else {
            unreachable!("a chunk's writes are writes")
        };
        let state = &mut self.chunks[chunk];
        assert_eq!(write.previous, state.committed, "acknowledged in the order of versions");
        state.committed = write.version;
        assert!(state.committed <= state.issued);
        state.write_count -= 1;
        self.intake.bytes -= write.payload.len() as u64;
        self.counters.writes += 1;
        if !write.told {
            self.done(write.io, Ok(()), Payload::None, course);
        }
    }

    /// Members have left the group: writes may have nobody to wait for any more.
    pub(super) fn commit_group(&mut self, group: GroupSlot) {
        let mut index = 0;
        while let Some(&chunk) = self.groups[group].busy.get(index) {
            self.commit(chunk);
            // A chunk that has nothing more under way leaves the list, and another stands in its place.
            if self.groups[group].busy.get(index) == Some(&chunk) {
                index += 1;
            }
        }
    }

    fn fail_write(&mut self, slot: TaskSlot, chunk: ChunkSlot, error: IoError) {
        self.dequeue(slot, chunk);
        let io = self.tasks[slot].write().io;
        let course = self.course(slot);
        self.tasks.remove(slot);
        self.end_compare(chunk, slot);
        self.done(io, Err(error), Payload::None, course);
    }

    /// The chunk has no further version. No client writes a chunk 2^40 times; a member that lies claims it in one message.
    /// The chunk can be read, and the process has nothing to do with it.
    fn counter_ended(&mut self, slot: TaskSlot, chunk: ChunkSlot) {
        let issued = self.chunks[chunk].issued;
        let why = format!("its version {issued} is the last that there is, so that it cannot be written any more");
        self.warn_implausible(chunk, why);
        self.fail_write(slot, chunk, IoError::Damaged);
    }
}

/// Writes of one chunk with a version and without an acknowledgement, at most.
fn most_writes() -> u32 {
    if narrow(Point::OneWrite) {
        1
    } else {
        MAX_WRITES_PER_CHUNK
    }
}

/// CRC-32C of each piece of the payload: computed once, when the write is sequenced, and checked at every step on.
fn sums(write: &Write) -> Sums {
    let mut sums = Sums::with_capacity(usize::from(write.range.count));
    let mut rest: &[u8] = &write.payload;
    let mut room = (BLOCK_BYTES - write.offset_bytes % BLOCK_BYTES) as usize;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(room.min(rest.len()));
        sums.push(amita_types::crc32c(piece));
        rest = after;
        room = BLOCK_BYTES as usize;
    }
    sums
}
