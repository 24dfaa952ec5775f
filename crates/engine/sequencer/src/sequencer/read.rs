//! The path of a read: one member is asked; its answer is checked, held until its version is everywhere (R3), and given
//! out when promises prove that nobody can have taken over meanwhile (R4).

use super::Sequencer;
use crate::faults::Fault;
use crate::io::{Course, StopReason};
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, Key, TaskSlot};
use crate::task::{Found, Kind, Read, Write};
use amita_reactor::buggify::{Point, buggify};
use amita_reactor::{Slice, Time};
use amita_types::io::{IoError, Op, Payload};
use amita_types::message::{AllocationRequest, ReadRequest, Refusal, RequestBody, Sums};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, TraceId, Version};

impl Sequencer {
    /// Submitted, and found valid: queued at its chunk.
    pub(super) fn queue_read(&mut self, chunk: ChunkSlot, read: Read, trace: TraceId) {
        let compares = matches!(read.op, Op::CompareAndWrite { .. });
        let slot = self.tasks.add(Kind::Read(read), self.chunks[chunk].group, Some(chunk));
        self.tasks[slot].trace = trace;
        let state = &mut self.chunks[chunk];
        let queue = match compares {
            true => &mut state.queued_compares,
            false => &mut state.queued_reads,
        };
        self.tasks.push(queue, slot);
    }

    /// Sends a read that stands in no list to a member; false when none can be asked now.
    pub(super) fn try_read(&mut self, now: Time, slot: TaskSlot) -> bool {
        let group = self.tasks[slot].group;
        let current = self.groups[group].current;
        let read = self.tasks[slot].read();
        if !current.is_empty() && current.without(read.damaged).is_empty() {
            let io = read.io;
            let course = self.course(slot);
            let chunk = self.tasks[slot].chunk();
            self.tasks.remove(slot);
            self.end_compare(chunk, slot);
            self.done(io, Err(IoError::Damaged), Payload::None, course);
            return true;
        }
        let mut chosen = self.choose(now, slot);
        if chosen.is_none() {
            // Everyone was asked: those with intact copies once more.
            let read = self.tasks[slot].read();
            read.tried = read.damaged;
            chosen = self.choose(now, slot);
        }
        if let Some(position) = chosen {
            self.ask_member(now, slot, position);
        }
        chosen.is_some()
    }

    /// The member to read from: one in this process if it answers, else the one that owes the fewest answers.
    fn choose(&mut self, now: Time, slot: TaskSlot) -> Option<Position> {
        let number = self.tasks[slot].group;
        let waiting = self.tasks[slot].waiting;
        let read = self.tasks[slot].read();
        let out = read.tried.or(read.damaged).or(waiting);
        let group = &self.groups[number];
        let mut best: Option<((bool, u32, u32), Position)> = None;
        let mut readable = group.current;
        if self.config.faults.has(Fault::ReadFromSyncing) {
            readable = readable.or(group.syncing);
        }
        for position in readable.without(out).without(group.to_evict).iter() {
            let store = &self.stores[group.members[position]];
            if !self.can_send(number, position) {
                continue;
            }
            let hangs = store.awaited > 0 && now.since(store.heard) >= self.silent_after();
            let hangs = hangs || self.care.health().avoids(store.watch);
            // Equals take turns.
            let turn = ((slot.at() + position.at()) % group.members.len()) as u32;
            // One that is silent, or where an operation hangs, is asked last, where it may not be evicted.
            let rank = if store.lost {
                (true, u32::MAX, turn)
            } else if store.local && !hangs && !buggify(Point::ReadAnywhere) {
                (false, 0, 0)
            } else {
                (hangs, store.awaited + 1, turn)
            };
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, position));
            }
        }
        best.map(|(_, position)| position)
    }

    fn ask_member(&mut self, now: Time, slot: TaskSlot, position: Position) {
        let group = self.tasks[slot].group;
        let chunk = &self.chunks[self.tasks[slot].chunk()];
        let index = chunk.index;
        // R8: everything acknowledged, and with it (R3) everything that a read has returned.
        let least = if self.config.faults.has(Fault::NoLeast) {
            Version::NONE
        } else {
            chunk.committed
        };
        let read = self.tasks[slot].read();
        read.tried.add(position);
        let body = match read.op {
            Op::Allocation { .. } | Op::Clear { .. } => {
                RequestBody::Allocation(AllocationRequest { chunk: index, least })
            }
            _ => RequestBody::Read(ReadRequest {
                chunk: index,
                range: read.range,
                least,
            }),
        };
        self.tasks.age(slot, now);
        self.arm(now.plus(self.hedge_after()));
        self.expect(now, slot, position);
        self.send(now, slot, position, body, Slice::default());
        // Beside the read, so that its answer need not wait for promises (R4); its own member promises by the answer.
        self.renew_promises(now, group, Members::one(position), now);
    }

    /// A member does not answer a read, or not well: it stays with the others.
    pub(super) fn give_up_on(&mut self, now: Time, slot: TaskSlot, position: Position) {
        self.settle(slot, position);
        self.go_elsewhere(now, slot);
    }

    fn go_elsewhere(&mut self, now: Time, slot: TaskSlot) {
        let task = &mut self.tasks[slot];
        let chunk = task.chunk();
        if !task.waiting.is_empty() || task.read().found.is_some() {
            return;
        }
        self.tasks.rest(slot);
        if !self.try_read(now, slot) {
            self.tasks.push(&mut self.chunks[chunk].queued_reads, slot);
            self.block(chunk);
        }
    }

    pub(super) fn read_refused(&mut self, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) {
        let group = self.tasks[slot].group;
        let chunk = self.tasks[slot].chunk();
        match refusal {
            Refusal::StaleEpoch { .. }
            | Refusal::NotFenced
            | Refusal::Fenced { .. }
            | Refusal::Busy
            | Refusal::Poisoned
            | Refusal::NoSuchStore => {}
            Refusal::Damaged { block } => {
                self.found_damage(group, position, chunk, *block);
                self.want_repair(chunk, position, *block);
                self.tasks[slot].read().damaged.add(position);
            }
            other => {
                // R8: a member that is behind what it has answered has lost something. Others are as unfit.
                self.warn_refused(group, self.groups[group].members[position], other);
                self.evict_soon(group, position);
            }
        }
        self.give_up_on(now, slot, position);
    }

    pub(super) fn data_arrived(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        version: Version,
        sums: &Sums,
        payload: Slice,
    ) {
        let group = self.tasks[slot].group;
        let chunk = self.tasks[slot].chunk();
        let read = self.tasks[slot].read();
        if read.found.is_some() {
            // The other member was quicker.
            return self.settle(slot, position);
        }
        let range = read.range;
        if version.generation() > self.owned.generation {
            let generation = version.generation();
            return self.stop(StopReason::Deposed { generation });
        }
        if version > self.chunks[chunk].issued {
            return self.misbehaved(
                now,
                slot,
                position,
                format!("version {version}, which was never given out"),
            );
        }
        match damage(range, sums, &payload) {
            Intact::Yes => {
                self.settle(slot, position);
                self.note_answer(now, slot, position);
                self.found(now, slot, Found::Data { version, payload });
            }
            Intact::No(block) => {
                // End to end: whatever spoiled it, it is not served.
                self.found_damage(group, position, chunk, block);
                self.want_repair(chunk, position, block);
                self.tasks[slot].read().damaged.add(position);
                self.give_up_on(now, slot, position);
            }
            Intact::Shape => {
                let what = format!(
                    "{} bytes and {} sums for {} blocks",
                    payload.len(),
                    sums.len(),
                    range.count
                );
                self.misbehaved(now, slot, position, what);
            }
        }
    }

    pub(super) fn allocation_arrived(
        &mut self,
        now: Time,
        slot: TaskSlot,
        position: Position,
        allocated: Box<[u64; 16]>,
    ) {
        self.settle(slot, position);
        self.note_answer(now, slot, position);
        if self.tasks[slot].read().found.is_none() {
            // The answer names no version: it may show anything that was given out.
            let version = self.chunks[self.tasks[slot].chunk()].issued;
            self.found(now, slot, Found::Allocation { version, allocated });
        }
    }

    fn found(&mut self, now: Time, slot: TaskSlot, found: Found) {
        let group = self.tasks[slot].group;
        let chunk = self.tasks[slot].chunk();
        self.tasks.rest(slot);
        let since = self.tasks[slot].first_sent;
        let promised = self.is_promised(now, group, since);
        let version = found.version();
        let read = self.tasks[slot].read();
        read.found = Some(found);
        read.promised = promised;
        self.tasks.push(&mut self.chunks[chunk].held, slot);
        if !promised {
            self.counters.unpromised += 1;
            self.intake.unpromised.push(slot);
        }
        self.counters.held += u64::from(version > self.chunks[chunk].committed);
        if !promised || !self.config.confirm_reads {
            self.renew_promises(now, group, Members::NONE, since);
        }
        self.give_out(slot);
    }

    /// Ends a read whose answer is here, if it may be given out.
    fn give_out(&mut self, slot: TaskSlot) {
        let chunk = self.tasks[slot].chunk();
        let committed = self.chunks[chunk].committed;
        let read = self.tasks[slot].read();
        let version = read.found.as_ref().expect("a held read has its answer").version();
        if !read.promised || (version > committed && !self.config.faults.has(Fault::NoHold)) {
            return;
        }
        self.tasks.unlink(&mut self.chunks[chunk].held, slot);
        let course = self.course(slot);
        let (group, trace) = (self.tasks[slot].group, self.tasks[slot].trace);
        let asked_at = self.tasks[slot].asked_at;
        // A second member that was asked still owes its answer.
        let kind = std::mem::replace(&mut self.tasks[slot].kind, Kind::Orphan);
        if self.tasks[slot].waiting.is_empty() {
            self.tasks.remove(slot);
        }
        let Kind::Read(mut read) = kind else {
            unreachable!("held tasks are reads")
        };
        self.counters.reads += 1;
        if let Op::CompareAndWrite { .. } = read.op {
            let payload = payload_of(&mut read);
            return self.compare_found(slot, chunk, group, (trace, asked_at), read, &payload, course);
        }
        let payload = payload_of(&mut read);
        if let (Op::Clear { .. }, Payload::Allocation(allocated)) = (read.op, &payload) {
            return self.looked_instead(chunk, group, trace, &read, allocated, course);
        }
        self.done(read.io, Ok(()), payload, course);
    }

    // ---- clears of what was never written ----

    /// Was nothing of the chunk ever written, and is nothing being written?
    pub(super) fn is_never_written(&self, chunk: ChunkSlot) -> bool {
        let state = &self.chunks[chunk];
        state.issued == Version::NONE
            && state.comparing.is_none()
            && !self.config.faults.has(Fault::ClearWhatIsNotThere)
    }

    /// A clear of a chunk of which nothing is written only looks, as a read does, whether there is still nothing. A version
    /// would have every store keep a chunk of which there is nothing: who discards a large volume fills the index of its
    /// stores with them, and a store that cannot take a clear, which has its version already, must be evicted (R7).
    pub(super) fn look_instead(&mut self, now: Time, slot: TaskSlot, chunk: ChunkSlot) {
        let state = &mut self.chunks[chunk];
        self.tasks.unlink(&mut state.queued_clears, slot);
        let offset = state.index.0 * u64::from(self.owned.chunk_bytes);
        let write = self.tasks[slot].write();
        let (io, range) = (write.io, write.range);
        let op = Op::Clear {
            offset: offset + u64::from(write.offset_bytes),
            length: u64::from(write.length_bytes),
        };
        self.tasks[slot].kind = Kind::Read(Read::new(io, op, range, Slice::default()));
        if !self.try_read(now, slot) {
            self.tasks.push(&mut self.chunks[chunk].queued_reads, slot);
        }
    }

    /// There is nothing of the range: it is as if it had been cleared at that moment. Else it is cleared now.
    fn looked_instead(
        &mut self,
        chunk: ChunkSlot,
        group: GroupSlot,
        trace: TraceId,
        read: &Read,
        allocated: &[u64; 16],
        course: Course,
    ) {
        let is_there = |block: BlockIndex| allocated[usize::from(block.0) / 64] & 1 << (block.0 % 64) != 0;
        if !read.range.iter().any(is_there) {
            return self.done(read.io, Ok(()), Payload::None, course);
        }
        let offset_bytes = (read.op.offset() % u64::from(self.owned.chunk_bytes)) as u32;
        let length_bytes = read.op.length() as u32;
        let write = Write::new(
            read.io,
            true,
            (offset_bytes, length_bytes),
            read.range,
            Slice::default(),
        );
        let slot = self.tasks.add(Kind::Write(write), group, Some(chunk));
        self.tasks[slot].trace = trace;
        self.tasks.push(&mut self.chunks[chunk].queued_clears, slot);
        self.block(chunk);
        self.intake.is_due = true;
    }

    /// The chunk's committed version has moved.
    pub(super) fn release_held(&mut self, chunk: ChunkSlot) {
        let mut cursor = self.chunks[chunk].held.head();
        while let Some(slot) = cursor {
            cursor = self.tasks.next(slot);
            self.give_out(slot);
        }
    }

    /// Promises have come: reads that waited for them go out.
    pub(super) fn recheck_promises(&mut self, now: Time) {
        let mut index = 0;
        while let Some(&slot) = self.intake.unpromised.get(index) {
            let (group, since) = (self.tasks[slot].group, self.tasks[slot].first_sent);
            if self.is_promised(now, group, since) {
                self.intake.unpromised.swap_remove(index);
                self.tasks[slot].read().promised = true;
                self.give_out(slot);
            } else {
                index += 1;
                self.ask_for_promises(now, group, since);
            }
        }
    }

    /// Asks again where a request for a promise came to nothing, but not without end: a store that lets a new owner in
    /// promises nothing any more (R4).
    fn ask_for_promises(&mut self, now: Time, group: GroupSlot, since: Time) {
        let mut besides = Members::NONE;
        for position in self.promisers(group).iter() {
            let number = self.groups[group].members[position];
            let store = &self.stores[number];
            let again = store.confirm_at.plus(self.config.busy_pause);
            // One that went well, and was sent before this read was, is followed by the next at once.
            let went_well = self.config.confirm_reads && store.confirmed >= store.confirm_at;
            if now < again && !went_well {
                besides.add(position);
                self.arm(again);
            }
        }
        self.renew_promises(now, group, besides, since);
    }

    /// Reads that have waited long are sent to a second member as well.
    pub(super) fn hedge(&mut self, now: Time) {
        while let Some(slot) = self.tasks.oldest() {
            if now.since(self.tasks[slot].asked_at) < self.hedge_after() {
                break;
            }
            match self.choose(now, slot) {
                Some(position) => {
                    self.counters.hedged += 1;
                    self.care.health().hedged();
                    self.ask_member(now, slot, position);
                }
                None => self.tasks.age(slot, now),
            }
        }
    }
}

enum Intact {
    Yes,
    No(amita_types::BlockIndex),
    /// Not what was asked for.
    Shape,
}

fn damage(range: BlockRange, sums: &Sums, payload: &[u8]) -> Intact {
    if payload.is_empty() && sums.is_empty() {
        return Intact::Yes;
    }
    let block_bytes = BLOCK_BYTES as usize;
    if sums.len() != usize::from(range.count) || payload.len() != sums.len() * block_bytes {
        return Intact::Shape;
    }
    let mut blocks = range.iter().zip(sums).zip(payload.chunks_exact(block_bytes));
    match blocks.find(|((_, sum), bytes)| amita_types::crc32c(bytes) != **sum) {
        Some(((block, _), _)) => Intact::No(block),
        None => Intact::Yes,
    }
}

/// Cuts what was asked for out of the whole blocks that came.
fn payload_of(read: &mut Read) -> Payload {
    match (read.found.take(), read.op) {
        (Some(Found::Data { payload, .. }), Op::Read { offset, length } | Op::CompareAndWrite { offset, length }) => {
            if payload.is_empty() {
                return Payload::Zeros(length);
            }
            let skip = (offset % u64::from(BLOCK_BYTES)) as usize;
            Payload::Data(payload.slice(skip..skip + length as usize))
        }
        (Some(Found::Allocation { allocated, .. }), _) => Payload::Allocation(allocated),
        _ => unreachable!("a read that is given out has its answer"),
    }
}
