//! Writes, clears and roll-forwards: checked, put in the order of their chunk, merged where they cover half a block.
//!
//! A chunk's changes form a queue from accepted to durable. A change that must be merged with a block on the disk makes
//! those behind it wait, because log order is chunk order: replay would otherwise find a version before its
//! predecessor. What is merged with a change that is not durable yet takes it from memory.

use super::op::{Change as OpChange, Op, Resend, RollChange};
use super::{Asker, Store, io::Io};
use crate::config::Plant;
use crate::credits::AccountId;
use crate::format::record::RollEntry;
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{ChunkKey, NO_OP, WORST_BYTES_PER_BLOCK, WORST_BYTES_PER_CLEAR};
use amita_cluster::message::{AnswerBody, Change, MAX_CHANGES, Problem, Refusal, RequestBody, Sums};
use amita_cluster::{
    BLOCK_BYTES, BlockIndex, BlockRange, ChunkId, Generation, MAX_BLOCKS_PER_CHUNK, MAX_IO_BYTES, Version, VolumeId,
};
use amita_reactor::{BufMut, Slice};
use std::io;

/// Roll-forwards that are kept in parts at once; they are rare, and their payload holds memory.
const MAX_STAGED_ROLLS: usize = 16;

/// The parts of a roll-forward that have come so far.
#[derive(Debug)]
pub(super) struct StagedRoll {
    chunk: ChunkId,
    generation: Generation,
    version: Version,
    previous: Version,
    change: RollChange,
}

/// A write's place in its chunk and in time.
struct Write {
    chunk: ChunkId,
    offset_bytes: u32,
    length_bytes: u32,
    version: Version,
    previous: Version,
    sums: Sums,
}

/// What a change is to its chunk's history.
enum Admission {
    /// It follows the last one.
    Next,
    /// It was applied, and is durable.
    Durable,
    /// It was accepted and is not durable yet.
    Pending(u32),
    /// It is neither.
    Wrong(Version),
}

impl Store {
    /// Everything but fences.
    pub(super) fn dispatch(&mut self, asker: Asker, volume: VolumeId, blocks: u32, body: RequestBody, payload: Slice) {
        let id = |index| ChunkId { volume, index };
        match body {
            RequestBody::Write {
                chunk,
                offset_bytes,
                length_bytes,
                version,
                previous,
                sums,
            } => {
                let write = Write {
                    chunk: id(chunk),
                    offset_bytes,
                    length_bytes,
                    version,
                    previous,
                    sums,
                };
                self.write(asker, blocks, write, payload);
            }
            RequestBody::Clear {
                chunk,
                range,
                version,
                previous,
            } => self.clear(asker, blocks, id(chunk), range, version, previous),
            RequestBody::Roll {
                chunk,
                version,
                previous,
                entries,
                first,
                last,
            } => {
                let staged = StagedRoll {
                    chunk: id(chunk),
                    generation: asker.generation,
                    version,
                    previous,
                    change: RollChange::default(),
                };
                self.roll_part(asker, blocks, staged, &entries, first, last, payload);
            }
            RequestBody::Read { chunk, range, least } => self.read(asker, blocks, id(chunk), range, least),
            RequestBody::Open { chunk } => self.open_chunk(asker, id(chunk)),
            RequestBody::Changes { chunk, since, from } => self.changes(asker, id(chunk), since, from),
            RequestBody::Allocation { chunk, least } => self.allocation(asker, id(chunk), least),
            RequestBody::Confirm => self.answer(asker, AnswerBody::Confirmed, Slice::default()),
            RequestBody::Fence { .. } => unreachable!("fences were taken before"),
        }
    }

    pub(super) fn invalid(&mut self, asker: Asker, what: Problem) {
        self.refuse(asker, Refusal::Invalid { what });
    }

    /// Rules R1 and R8: apply only onto exactly the predecessor; a resend is answered once the original is durable.
    fn admit(&self, chunk: ChunkId, version: Version, previous: Version, length: u32) -> Admission {
        let Some(key) = self.index.find(chunk) else {
            return match previous {
                Version::NONE => Admission::Next,
                _ if self.config.planted.has(Plant::AnyPredecessor) => Admission::Next,
                _ => Admission::Wrong(Version::NONE),
            };
        };
        let chunk = self.index.chunk(key);
        if version == chunk.accepted && chunk.last.is_some_and(|last| last != (previous, length)) {
            return Admission::Wrong(chunk.accepted);
        }
        // Within one generation a chunk's versions follow one another without gaps, and each was applied onto its
        // predecessor: an older one of the same generation is part of what is here.
        if version <= chunk.durable && version.generation() == chunk.durable.generation() {
            return Admission::Durable;
        }
        if version <= chunk.accepted {
            let mut pending = chunk.first_pending;
            while pending != NO_OP {
                let op = self.ops.get(pending);
                if (op.version, op.previous, op.length_bytes) == (version, previous, length) {
                    return Admission::Pending(pending);
                }
                pending = op.next;
            }
        }
        if previous == chunk.accepted || self.config.planted.has(Plant::AnyPredecessor) {
            return Admission::Next;
        }
        Admission::Wrong(chunk.accepted)
    }

    /// Answers what is no news; `true`: it follows the last change and is to be accepted.
    fn admitted(&mut self, asker: Asker, chunk: ChunkId, version: Version, previous: Version, length: u32) -> bool {
        match self.admit(chunk, version, previous, length) {
            Admission::Next => return true,
            Admission::Wrong(current) => self.refuse(asker, Refusal::WrongPredecessor { current }),
            Admission::Durable => {
                self.counters.resends += 1;
                self.answer(asker, AnswerBody::Done, Slice::default());
            }
            Admission::Pending(op) => {
                self.counters.resends += 1;
                if self.config.planted.has(Plant::ResendAtOnce) {
                    self.answer(asker, AnswerBody::Done, Slice::default());
                } else {
                    self.ops.get_mut(op).resent = true;
                    self.resends.push(Resend { op, asker });
                }
            }
        }
        false
    }

    fn write(&mut self, asker: Asker, blocks: u32, write: Write, payload: Slice) {
        let Write {
            chunk,
            offset_bytes,
            length_bytes,
            version,
            previous,
            sums,
        } = write;
        let end = offset_bytes.checked_add(length_bytes);
        let inside = end.is_some_and(|end| end <= blocks * BLOCK_BYTES);
        if !inside || length_bytes == 0 || length_bytes > MAX_IO_BYTES {
            return self.invalid(asker, Problem::Range);
        }
        let range = BlockRange::of_bytes(offset_bytes, length_bytes);
        if payload.len() != length_bytes as usize || sums.len() != usize::from(range.count) {
            return self.invalid(asker, Problem::Length);
        }
        if previous.next(asker.generation) != Some(version) {
            return self.invalid(asker, Problem::Version);
        }
        if !self.admitted(asker, chunk, version, previous, length_bytes) {
            return;
        }
        if !sums_match(&payload, offset_bytes, &sums) {
            return self.invalid(asker, Problem::Checksum);
        }
        let count = u32::from(range.count);
        if !self.charge(asker, count) {
            return self.refuse(asker, Refusal::NoSpace);
        }
        let key = self.index.touch(chunk);
        let op = Op {
            version,
            previous,
            range,
            offset_bytes,
            length_bytes,
            payload,
            sums,
            blocks: count,
            index_bytes: u64::from(count) * WORST_BYTES_PER_BLOCK,
            ..Op::new(OpChange::Write, Some(asker), key)
        };
        self.accept(op);
    }

    fn clear(
        &mut self,
        asker: Asker,
        blocks: u32,
        chunk: ChunkId,
        range: BlockRange,
        version: Version,
        previous: Version,
    ) {
        if !range.is_inside(blocks) {
            return self.invalid(asker, Problem::Range);
        }
        if previous.next(asker.generation) != Some(version) {
            return self.invalid(asker, Problem::Version);
        }
        let length_bytes = u32::from(range.count) * BLOCK_BYTES;
        if !self.admitted(asker, chunk, version, previous, length_bytes) {
            return;
        }
        if !self.clear_fits() {
            return self.refuse(asker, Refusal::NoSpace);
        }
        let key = self.index.touch(chunk);
        let op = Op {
            version,
            previous,
            range,
            length_bytes,
            index_bytes: WORST_BYTES_PER_CLEAR,
            ..Op::new(OpChange::Clear, Some(asker), key)
        };
        self.accept(op);
    }

    /// Takes slots from the asker's account, or from the reserve (rule R7).
    fn charge(&mut self, asker: Asker, blocks: u32) -> bool {
        let account = AccountId::new(asker.link, asker.id);
        let beyond = self.beyond_blocks();
        let taken = self.credits.take(account, blocks, beyond);
        if taken {
            self.space.reserved += u64::from(blocks);
        }
        taken
    }

    /// From here on the change is part of the chunk's history, unless what it is merged with is damaged.
    fn accept(&mut self, op: Op) {
        let chunk = self.index.chunk_mut(op.chunk);
        chunk.accepted = op.version;
        chunk.last = Some((op.previous, op.length_bytes));
        self.space.unapplied_bytes += op.index_bytes;
        if let Some(volume) = op.asker.and_then(|asker| asker.volume) {
            self.fences.volume_mut(volume).unlogged += 1;
        }
        let key = self.ops.insert(op);
        self.enqueue(key);
    }

    /// The change is in the log, or dropped: a fence need not wait for it any more (rule R6).
    pub(super) fn unlogged_less(&mut self, asker: Option<Asker>) {
        if let Some(volume) = asker.and_then(|asker| asker.volume) {
            let volume = self.fences.volume_mut(volume);
            assert!(volume.unlogged > 0, "each accepted change is counted once");
            volume.unlogged -= 1;
        }
    }

    /// Lets the changes of a chunk go on, up to the first one that needs a block from the disk.
    pub(super) fn advance_chunk(&mut self, chunk: ChunkKey) {
        loop {
            let key = self.index.chunk(chunk).first_waiting;
            if key == NO_OP || !self.prepare(key) {
                return;
            }
            self.index.chunk_mut(chunk).first_waiting = self.ops.get(key).next;
            self.ops.ready.push_back(key);
        }
    }

    /// Merges the first and the last block of a write where they are not whole. `false`: not possible yet.
    fn prepare(&mut self, key: u32) -> bool {
        let op = self.ops.get(key);
        let partial = [op.partial(0), op.partial(1)];
        if partial == [None, None] {
            return true;
        }
        if !op.bases_found && !self.find_bases(key, partial.map(|part| part.map(|(at, ..)| at))) {
            return false;
        }
        let op = self.ops.get_mut(key);
        if op.bases_reading > 0 {
            return false;
        }
        for (which, part) in partial.into_iter().enumerate() {
            let Some((at, first, bytes, from)) = part else { continue };
            let mut block = op.base[which].take().expect("every base was found");
            block[first..first + bytes].copy_from_slice(&op.payload[from..from + bytes]);
            op.sums[usize::from(at)] = crc32c::crc32c(&block);
            op.merged[which] = block.freeze();
        }
        true
    }

    /// Finds what a sub-block write is merged with: a change of the chunk that is not durable yet, the disk, or zeros.
    /// All changes before it are prepared, so that their blocks are whole. `false`: no memory now.
    fn find_bases(&mut self, key: u32, partial: [Option<u16>; 2]) -> bool {
        self.counters.merges += u64::from(self.ops.get(key).base.iter().all(Option::is_none));
        for (which, at) in partial.into_iter().enumerate() {
            let Some(at) = at else { continue };
            let op = self.ops.get(key);
            if op.base[which].is_some() {
                continue;
            }
            let chunk = op.chunk;
            let block = BlockIndex(op.range.first.0 + at);
            let Some(mut buffer) = self.pool.take(PAGE_BYTES) else {
                self.stall(chunk);
                return false;
            };
            if let Some(slice) = self.pending_block(chunk, key, block) {
                fill(&mut buffer, &slice);
            } else {
                let entry = self.index.entry(chunk, block);
                if entry.has_data() {
                    let window = self.window.begin();
                    let op = self.ops.get_mut(key);
                    op.bases_reading += 1;
                    op.base_sum[which] = entry.sum;
                    // An empty buffer stands for the one that is with the device.
                    op.base[which] = Some(BufMut::empty());
                    let offset = self.superblock.geometry.slot_offset(entry.slot);
                    self.start_read(Io::Base { op: key, which, window }, offset, buffer);
                    continue;
                }
                buffer.fill(0);
            }
            self.ops.get_mut(key).base[which] = Some(buffer);
        }
        self.ops.get_mut(key).bases_found = true;
        true
    }

    fn stall(&mut self, chunk: ChunkKey) {
        if !self.stalled.contains(&chunk) {
            self.stalled.push(chunk);
        }
    }

    /// Tries again where memory was missing.
    pub(super) fn retry_stalled(&mut self) {
        for _ in 0..self.stalled.len() {
            let chunk = self.stalled.swap_remove(0);
            self.advance_chunk(chunk);
        }
    }

    /// What the youngest accepted change before `before` that is not durable made of a block; empty: cleared.
    fn pending_block(&self, chunk: ChunkKey, before: u32, block: BlockIndex) -> Option<Slice> {
        let mut found = None;
        let mut pending = self.index.chunk(chunk).first_pending;
        while pending != before {
            let op = self.ops.get(pending);
            found = op.block(block).or(found);
            pending = op.next;
        }
        found
    }

    /// A block that a write is merged with has been read.
    pub(super) fn base_done(&mut self, key: u32, which: usize, window: u64, buffer: BufMut, result: io::Result<()>) {
        if !matches!(self.state, crate::State::Serving) {
            return;
        }
        self.window.end(window);
        let unchecked = self.config.planted.has(Plant::SumUnchecked);
        let op = self.ops.get_mut(key);
        let whole = result.is_ok() && (crc32c::crc32c(&buffer) == op.base_sum[which] || unchecked);
        op.bases_reading -= 1;
        op.base[which] = Some(buffer);
        if !whole {
            // Rule D7: a rotten block never gets a fresh checksum.
            let last = if which == 0 { 0 } else { op.range.count - 1 };
            op.base_damaged = Some(BlockIndex(op.range.first.0 + last));
            self.counters.damaged += 1;
        }
        let op = self.ops.get(key);
        if op.bases_reading > 0 {
            return;
        }
        match op.base_damaged {
            Some(block) => self.drop_from(key, Refusal::Damaged { block }),
            None => self.advance_chunk(op.chunk),
        }
        self.reclaim();
    }

    /// Takes a change back that cannot be applied, and all that follow it: none of them has been logged.
    fn drop_from(&mut self, key: u32, refusal: Refusal) {
        let op = self.ops.get(key);
        let (chunk_key, previous) = (op.chunk, op.previous);
        let chunk = self.index.chunk_mut(chunk_key);
        assert_eq!(chunk.first_waiting, key, "only the first that waits is being merged");
        chunk.accepted = previous;
        chunk.last = None;
        chunk.first_waiting = NO_OP;
        if chunk.first_pending == key {
            chunk.first_pending = NO_OP;
            chunk.last_pending = NO_OP;
        } else {
            let mut before = chunk.first_pending;
            while self.ops.get(before).next != key {
                before = self.ops.get(before).next;
            }
            self.ops.get_mut(before).next = NO_OP;
            self.index.chunk_mut(chunk_key).last_pending = before;
        }
        let mut refusal = Some(refusal);
        let mut next = key;
        while next != NO_OP {
            let dropped = next;
            let op = self.ops.get(dropped);
            let (asker, blocks, index_bytes, resent) = (op.asker, op.blocks, op.index_bytes, op.resent);
            next = op.next;
            self.space.reserved -= u64::from(blocks);
            self.space.unapplied_bytes -= index_bytes;
            self.unlogged_less(asker);
            let why = refusal
                .take()
                .unwrap_or(Refusal::WrongPredecessor { current: previous });
            if let Some(asker) = asker {
                self.refuse(asker, why.clone());
            }
            if resent {
                self.answer_resends(dropped, |store, asker| store.refuse(asker, why.clone()));
            }
            self.ops.remove(dropped);
        }
        self.wake_reads(chunk_key);
    }

    /// Answers all who wait for a change that somebody else asked for.
    pub(super) fn answer_resends(&mut self, key: u32, mut answer: impl FnMut(&mut Store, Asker)) {
        let mut at = 0;
        while at < self.resends.len() {
            if self.resends[at].op == key {
                let resend = self.resends.swap_remove(at);
                answer(self, resend.asker);
            } else {
                at += 1;
            }
        }
    }

    /// Roll-forwards of a volume's older owners will never be whole.
    pub(super) fn drop_staged(&mut self, volume: VolumeId, below: Generation) {
        self.rolls
            .retain(|staged| staged.chunk.volume != volume || staged.generation >= below);
    }

    /// One part of a roll-forward. Parts are kept until the last; then all are applied by one record, or none (R6).
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    fn roll_part(
        &mut self,
        asker: Asker,
        blocks: u32,
        staged: StagedRoll,
        entries: &[Change],
        first: bool,
        last: bool,
        payload: Slice,
    ) {
        let (chunk, version, previous) = (staged.chunk, staged.version, staged.previous);
        if version <= previous || version.generation() > asker.generation {
            return self.invalid(asker, Problem::Version);
        }
        let with_data = entries.iter().filter(|entry| entry.sum.is_some()).count();
        if entries.len() > MAX_CHANGES || payload.len() != with_data * PAGE_BYTES {
            return self.invalid(asker, Problem::Length);
        }
        let inside = |entry: &Change| {
            u32::from(entry.block.0) < blocks && entry.version <= version && entry.version != Version::NONE
        };
        let sorted = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
        if !sorted || !entries.iter().all(inside) {
            return self.invalid(asker, Problem::Range);
        }
        let mut sums = entries.iter().filter_map(|entry| entry.sum);
        if !payload
            .chunks_exact(PAGE_BYTES)
            .all(|block| Some(crc32c::crc32c(block)) == sums.next())
        {
            return self.invalid(asker, Problem::Checksum);
        }
        // A resend of a roll-forward that is done already; its earlier parts are answered too.
        if let Some(key) = self.index.find(chunk)
            && self.index.chunk(key).durable == version
        {
            self.counters.resends += 1;
            return self.answer(asker, AnswerBody::Done, Slice::default());
        }
        let place = self.rolls.iter().position(|roll| roll.chunk == chunk);
        let place = match place {
            Some(place) if first => {
                self.rolls[place] = staged;
                place
            }
            Some(place) => place,
            None if first && self.rolls.len() < MAX_STAGED_ROLLS => {
                self.rolls.push(staged);
                self.rolls.len() - 1
            }
            None if first => return self.refuse(asker, Refusal::Busy),
            // The first part was lost with a restart: the sequencer begins again when it sees what is here.
            None => return self.wrong_roll(asker, chunk),
        };
        let roll = &mut self.rolls[place];
        let follows = match (roll.change.entries.last(), entries.first()) {
            (Some(before), Some(next)) => before.block < next.block,
            _ => true,
        };
        let same = (roll.version, roll.previous, roll.generation) == (version, previous, asker.generation);
        if !same || !follows || roll.change.entries.len() + entries.len() > MAX_BLOCKS_PER_CHUNK as usize {
            self.rolls.swap_remove(place);
            return self.wrong_roll(asker, chunk);
        }
        for entry in entries {
            roll.change.with_data.push(entry.sum.is_some());
            roll.change.entries.push(RollEntry {
                block: entry.block,
                version: entry.version,
                slot: Slot::NONE,
                sum: entry.sum.unwrap_or(0),
            });
        }
        if !payload.is_empty() {
            roll.change.payload.push(payload);
        }
        if !last {
            return self.answer(asker, AnswerBody::Done, Slice::default());
        }
        let roll = self.rolls.swap_remove(place);
        self.roll(asker, chunk, version, previous, roll.change);
    }

    fn wrong_roll(&mut self, asker: Asker, chunk: ChunkId) {
        let current = self
            .index
            .find(chunk)
            .map_or(Version::NONE, |key| self.index.chunk(key).accepted);
        self.refuse(asker, Refusal::WrongPredecessor { current });
    }

    fn roll(&mut self, asker: Asker, chunk: ChunkId, version: Version, previous: Version, change: RollChange) {
        let with_data = change.with_data.iter().filter(|&&data| data).count() as u32;
        if !self.admitted(asker, chunk, version, previous, with_data * BLOCK_BYTES) {
            return;
        }
        let index_bytes = change.entries.len() as u64 * WORST_BYTES_PER_BLOCK;
        if !self.charge(asker, with_data) {
            return self.refuse(asker, Refusal::NoSpace);
        }
        let key = self.index.touch(chunk);
        let op = Op {
            version,
            previous,
            length_bytes: with_data * BLOCK_BYTES,
            blocks: with_data,
            index_bytes,
            ..Op::new(OpChange::Roll(Box::new(change)), Some(asker), key)
        };
        self.accept(op);
    }
}

fn fill(buffer: &mut BufMut, slice: &Slice) {
    if slice.is_empty() {
        buffer.fill(0);
    } else {
        buffer.copy_from_slice(slice);
    }
}

/// Has every piece of the payload (what lies inside one block) the checksum that came with it?
fn sums_match(payload: &[u8], offset_bytes: u32, sums: &[u32]) -> bool {
    let head = PAGE_BYTES - offset_bytes as usize % PAGE_BYTES;
    let (head, rest) = payload.split_at(head.min(payload.len()));
    let pieces = std::iter::once(head).chain(rest.chunks(PAGE_BYTES));
    pieces.zip(sums).all(|(piece, &sum)| crc32c::crc32c(piece) == sum)
}
