//! The path of a write: settled (R7), given its version (R1), sent to every in-sync member at once, acknowledged when
//! all have answered, in the order of versions. Until then its payload is kept and sent again where a link broke (R8).

use super::Sequencer;
use crate::config::{MAX_REFUSALS, MAX_SHARD_BYTES, MAX_STORE_BYTES, MAX_WRITES_PER_CHUNK};
use crate::faults::Fault;
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, Key, ListPlace, StoreSlot, TaskSlot};
use crate::task::{Kind, Write};
use amita_reactor::Time;
use amita_reactor::buggify::{Point, narrow};
use amita_types::io::{IoError, Payload};
use amita_types::message::{Refusal, RequestBody, Sums};
use amita_types::{BLOCK_BYTES, ChunkIndex, RequestId, Version};

/// May a write be given its version?
enum Gate {
    Open,
    Wait,
    NoSpace,
}

impl Sequencer {
    /// Sequences the first write of its queue, or fails it; false when it must wait.
    pub(super) fn try_write(&mut self, now: Time, slot: TaskSlot) -> bool {
        let chunk = self.tasks[slot].chunk();
        match self.gate(now, slot, chunk) {
            Gate::Wait => return false,
            Gate::Open => {
                // R1: a pair of generation and counter, naming the one before.
                let issued = self.chunks[chunk].issued;
                match issued.next(self.generation).filter(|version| *version > issued) {
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

    /// Space and limits, before a version is given out (R7).
    fn gate(&mut self, now: Time, slot: TaskSlot, chunk: ChunkSlot) -> Gate {
        let number = self.chunks[chunk].group;
        let group = &self.groups[number];
        let write = self.tasks[slot].write();
        let bytes = write.payload.len() as u64;
        let blocks = if write.clear { 0 } else { u64::from(write.range.count) };
        let current = group.current;
        if current.count() < self.min_copies && !self.config.faults.has(Fault::IgnoreMinCopies) {
            return Gate::Wait;
        }
        let state = &self.chunks[chunk];
        if state.held_back || state.comparing.is_some_and(|comparing| comparing != slot) {
            return Gate::Wait;
        }
        let most = if narrow(Point::OneWrite) {
            1
        } else {
            MAX_WRITES_PER_CHUNK
        };
        if self.chunks[chunk].write_count >= most || self.bytes + bytes > MAX_SHARD_BYTES {
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

    /// Gives the write its version and sends it.
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
        self.bytes += bytes;
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

    fn mark_busy(&mut self, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        if state.busy_at.is_none() {
            let busy = &mut self.groups[state.group].busy;
            state.busy_at = Some(ListPlace::new(busy.len()));
            busy.push(chunk);
        }
    }

    fn mark_quiet(&mut self, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        let at = state.busy_at.take().expect("a chunk with writes is in the list");
        let busy = &mut self.groups[state.group].busy;
        assert_eq!(busy.swap_remove(at.at()), chunk);
        if let Some(&moved) = busy.get(at.at()) {
            self.chunks[moved].busy_at = Some(at);
        }
    }

    fn send_write(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let index = self.chunks[self.tasks[slot].chunk()].index;
        let write = self.tasks[slot].write();
        let body = body(write, index);
        let payload = write.payload.clone();
        self.send(now, slot, position, body, payload);
    }

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

    /// A member has the write durable. An answer under an older epoch of ours counts as well.
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

    /// Acknowledges what every in-sync member has, in the order of versions.
    pub(super) fn commit(&mut self, chunk: ChunkSlot) {
        let group = self.chunks[chunk].group;
        let mut any = false;
        if self.config.faults.has(Fault::ForgetClaimed) {
            self.forget_claimed(chunk);
        }
        while let Some(slot) = self.chunks[chunk].writes.head() {
            if self.config.faults.has(Fault::IgnoreLost) {
                self.forget_lost(slot);
            }
            if self.config.faults.has(Fault::SkipSyncing) {
                self.forget_syncing(slot);
            }
            if !self.tasks[slot].waiting.is_empty() {
                break;
            }
            let current = self.groups[group].current.count();
            if current < self.min_copies && !self.config.faults.has(Fault::IgnoreMinCopies) {
                break;
            }
            any = true;
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
            self.bytes -= write.payload.len() as u64;
            self.counters.writes += 1;
            if !write.told {
                self.done(write.io, Ok(()), Payload::None, course);
            }
        }
        if !any {
            return;
        }
        self.retry_blocked = true;
        if self.chunks[chunk].writes.is_empty() {
            self.mark_quiet(chunk);
        }
        self.release_held(chunk);
    }

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

    /// An answer to what the store was sent while it was a member.
    pub(super) fn answered_late(&mut self, id: RequestId, store: StoreSlot, refused: bool) {
        let number = store;
        let store = &mut self.stores[number];
        if let Some(at) = store.in_doubt.iter().position(|&(of, _)| of == id) {
            let (_, blocks) = store.in_doubt.swap_remove(at);
            if refused {
                store.credit += blocks;
                self.note_credits(number);
            }
        }
    }

    /// Takes a write's blocks from what a member has granted, as far as there are so many.
    fn charge_to(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let number = self.groups[self.tasks[slot].group].members[position];
        let write = self.tasks[slot].write();
        let store = &mut self.stores[number];
        let blocks = charge(write).min(store.credit);
        write.charged.add(position);
        write.taken[position] = blocks as u16;
        store.credit -= blocks;
        store.charged_at = now;
    }

    /// A store takes nothing from the account for what it refuses.
    pub(super) fn uncharge(&mut self, slot: TaskSlot, position: Position) {
        let number = self.groups[self.tasks[slot].group].members[position];
        let write = self.tasks[slot].write();
        if write.charged.has(position) {
            write.charged.remove(position);
            self.stores[number].credit += u64::from(write.taken[position]);
            self.note_credits(number);
        }
    }

    /// The oldest write of the chunk that the member has not answered.
    fn first_awaited(&self, chunk: ChunkSlot, position: Position) -> Option<TaskSlot> {
        self.awaited_writes(chunk)
            .find(|&slot| self.tasks[slot].waiting.has(position))
    }

    pub(super) fn awaited_writes(&self, chunk: ChunkSlot) -> impl Iterator<Item = TaskSlot> + '_ {
        let mut cursor = self.chunks[chunk].writes.head();
        std::iter::from_fn(move || {
            let slot = cursor?;
            cursor = self.tasks.next(slot);
            Some(slot)
        })
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
}

/// Blocks of credit that a write takes.
pub(super) fn charge(write: &Write) -> u64 {
    if write.clear { 0 } else { u64::from(write.range.count) }
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

fn body(write: &Write, chunk: ChunkIndex) -> RequestBody {
    if write.clear {
        RequestBody::Clear {
            chunk,
            range: write.range,
            version: write.version,
            previous: write.previous,
        }
    } else {
        RequestBody::Write {
            chunk,
            offset_bytes: write.offset_bytes,
            length_bytes: write.length_bytes,
            version: write.version,
            previous: write.previous,
            sums: write.sums.clone(),
        }
    }
}
