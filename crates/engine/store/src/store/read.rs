//! Reads, and what else asks and changes nothing. None of it ever sees what is not durable.

use super::join::Say;
use super::leaf::{LostLeaf, Waiter};
use super::op::Change as OpChange;
use super::trace::Course;
use super::verify::Verifying;
use super::{Asker, Store, io::Io};
use crate::State;
use crate::faults::Fault;
use crate::format::PAGE_BYTES;
use crate::format::Place;
use crate::index::{ChunkKey, Entry, Location, OpSlot, Seen, View};
use amita_reactor::{BufMut, Slice, Time};
use amita_types::message::{
    AllocationAnswer, AnswerBody, Change, ChangesAnswer, DataAnswer, MAX_CHANGES, OpenedAnswer, Problem, Refusal, Sums,
    VerifiedAnswer,
};
use amita_types::{BlockIndex, BlockRange, ChunkId, MAX_BLOCKS_PER_CHUNK, MAX_IO_BLOCKS, SnapshotId, Version};
use std::io;

/// What a reader wants to know once the chunk is new enough.
#[derive(Clone, Copy, Debug)]
pub(super) enum Want {
    Data(BlockRange),
    /// So many blocks has the chunk.
    Verify(BlockRange, u32),
    Allocation,
    Version,
    Changes {
        since: Version,
        from: BlockIndex,
    },
}

impl Want {
    /// The blocks whose entries it looks at.
    fn blocks(self) -> BlockRange {
        match self {
            Want::Data(range) | Want::Verify(range, _) => range,
            Want::Version => BlockRange::default(),
            Want::Allocation | Want::Changes { .. } => BlockRange::new(0, MAX_BLOCKS_PER_CHUNK as u16),
        }
    }

    /// Is what it gets handed on as what the volume holds?
    fn is_served(self) -> bool {
        matches!(self, Want::Data(_) | Want::Allocation)
    }
}

/// A read that waits for a leaf; then it begins anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParkedRead {
    pub asker: Asker,
    chunk: ChunkId,
    snapshot: SnapshotId,
    least: Version,
    want: Want,
}

/// A read that waits for a version to become durable.
#[derive(Clone, Copy, Debug)]
struct WaitingRead {
    asker: Asker,
    chunk: ChunkKey,
    snapshot: SnapshotId,
    least: Version,
    want: Want,
}

/// A read that is under way on the device. Its vectors are used again by later ones.
#[derive(Debug, Default)]
pub(super) struct ReadOp {
    asker: Option<Asker>,
    pub place: Option<Place>,
    pub first: BlockIndex,
    pub entries: Vec<Entry>,
    /// One after the other they are the answer's payload; (first block, buffer). The buffer is away while it is read.
    parts: Vec<(u16, Option<BufMut>)>,
    left: u32,
    damaged: Option<BlockIndex>,
    /// When the device was asked.
    issued: Time,
    /// Nothing but this is wanted.
    verifying: Option<Verifying>,
    window: u64,
}

/// All reads under way.
#[derive(Debug, Default)]
pub(super) struct Reads {
    places: Vec<ReadOp>,
    free: Vec<u32>,
    waiting: Vec<WaitingRead>,
}

impl Reads {
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len() + self.waiting.len()
    }

    /// The chunks of which a version is waited for, once for each who waits.
    #[cfg(any(test, feature = "planted"))]
    pub fn waiting_for(&self) -> impl Iterator<Item = ChunkKey> + '_ {
        self.waiting.iter().map(|read| read.chunk)
    }

    /// Forgets all of them; returns who asked.
    pub fn drain(&mut self) -> Vec<Asker> {
        self.free.clear();
        let under_way = self.places.drain(..).filter_map(|read| read.asker);
        under_way.chain(self.waiting.drain(..).map(|read| read.asker)).collect()
    }
}

impl Store {
    pub(super) fn read(
        &mut self,
        asker: Asker,
        blocks: u32,
        chunk: ChunkId,
        snapshot: SnapshotId,
        range: BlockRange,
        least: Version,
    ) {
        if !range.is_inside(blocks) || u32::from(range.count) > MAX_IO_BLOCKS {
            return self.invalid(asker, Problem::Range);
        }
        self.look(asker, chunk, snapshot, least, Want::Data(range));
    }

    pub(super) fn allocation(&mut self, asker: Asker, chunk: ChunkId, snapshot: SnapshotId, least: Version) {
        self.look(asker, chunk, snapshot, least, Want::Allocation);
    }

    /// The chunk's version: what is accepted counts, and is answered when it is durable.
    pub(super) fn open_chunk(&mut self, asker: Asker, chunk: ChunkId, snapshot: SnapshotId) {
        // A join may make it an older one.
        let joins = |key| self.pending_is(key, |change| matches!(change, OpChange::Join(_) | OpChange::Whole));
        if snapshot == SnapshotId::HEAD && self.index.find(chunk).is_some_and(joins) {
            return self.say(asker, chunk, Say::Opened);
        }
        let least = self.accepted_version(chunk, snapshot);
        self.look(asker, chunk, snapshot, least, Want::Version);
    }

    fn pending_is(&self, key: ChunkKey, is: impl Fn(&OpChange) -> bool) -> bool {
        let mut pending = self.index.chunk(key).first_pending;
        while pending != OpSlot::NONE {
            let op = self.ops.get(pending);
            if is(&op.change) {
                return true;
            }
            pending = op.next;
        }
        false
    }

    pub(super) fn changes(
        &mut self,
        asker: Asker,
        chunk: ChunkId,
        snapshot: SnapshotId,
        since: Version,
        from: BlockIndex,
    ) {
        if u32::from(from.0) >= MAX_BLOCKS_PER_CHUNK {
            return self.invalid(asker, Problem::Range);
        }
        let least = self.accepted_version(chunk, snapshot);
        self.look(asker, chunk, snapshot, least, Want::Changes { since, from });
    }

    fn accepted_version(&self, chunk: ChunkId, snapshot: SnapshotId) -> Version {
        // With rule R6 switched off, what is under way is not waited for.
        let drained = !self.config.faults.has(Fault::NoDrain);
        let accepted = |key| self.index.chunk(key).accepted;
        self.index
            .find(chunk)
            .filter(|_| drained && snapshot == SnapshotId::HEAD)
            .map_or(Version::NONE, accepted)
    }

    /// Rule R8: a read names the least version that it must include; one that is under way is waited for.
    pub(super) fn look(&mut self, asker: Asker, id: ChunkId, snapshot: SnapshotId, least: Version, want: Want) {
        let found = self
            .index
            .find(id)
            .map(|key| (key, self.index.chunk(key).seen(snapshot)));
        // Rule R5: what is not the volume's is not served.
        if let Some((key, seen)) = found {
            let unsure = snapshot > SnapshotId::HEAD && snapshot <= self.index.unsure(key);
            let unfit = want.is_served() && (self.index.chunk(key).incomplete || unsure);
            let none = seen == Seen::NotKept && unsure;
            if none || (unfit && !self.config.faults.has(Fault::ServesSyncing)) {
                return self.refuse(asker, Refusal::Incomplete);
            }
        }
        let (key, view) = match found {
            None | Some((_, Seen::Unborn)) => {
                if least > Version::NONE {
                    let current = Version::NONE;
                    return self.refuse(asker, Refusal::Behind { current });
                }
                return self.answer_unknown(asker, want);
            }
            Some((_, Seen::NotKept)) => return self.invalid(asker, Problem::Snapshot),
            Some((key, Seen::As(view))) => (key, view),
        };
        let chunk = self.index.chunk_mut(key);
        let newest = match view {
            View::Head => chunk.accepted,
            View::State(_) => chunk.version(view),
        };
        if least > newest {
            return self.refuse(asker, Refusal::Behind { current: newest });
        }
        if least > chunk.version(view) {
            chunk.waiting_reads += 1;
            self.reads.waiting.push(WaitingRead {
                asker,
                chunk: key,
                snapshot,
                least,
                want,
            });
            return;
        }
        let mut missing = self.index.missing(key, view, want.blocks()).peekable();
        if missing.peek().is_some() {
            let missing: Vec<Location> = missing.collect();
            let parked = ParkedRead {
                asker,
                chunk: id,
                snapshot,
                least,
                want,
            };
            match self.want_leaves(&missing) {
                Ok(at) => self.wait_for_leaf(at, Waiter::Read(parked)),
                Err(lost) => self.unpark(parked, Some(lost)),
            }
            return;
        }
        drop(missing);
        self.serve(asker, key, view, want);
    }

    /// The leaf that a read waited for is there, or cannot be read.
    pub(super) fn unpark(&mut self, read: ParkedRead, lost: Option<LostLeaf>) {
        match lost {
            Some(_) if matches!(read.want, Want::Verify(..)) => {
                if let Want::Verify(range, end) = read.want {
                    self.verified_lost(read.asker, range, end);
                }
            }
            None => self.look(read.asker, read.chunk, read.snapshot, read.least, read.want),
            Some(LostLeaf(block)) => {
                let first = read.want.blocks().first;
                let block = block.max(first);
                self.refuse(read.asker, Refusal::Damaged { block });
            }
        }
    }

    /// The durable or the accepted version of a chunk has changed: reads that waited for it go on.
    pub(super) fn wake_reads(&mut self, key: ChunkKey) {
        if self.index.chunk(key).waiting_reads == 0 {
            return;
        }
        let mut at = 0;
        while at < self.reads.waiting.len() {
            let read = self.reads.waiting[at];
            let chunk = self.index.chunk(key);
            let (durable, accepted) = (chunk.durable, chunk.accepted);
            if read.chunk != key || (read.least > durable && read.least <= accepted) {
                at += 1;
                continue;
            }
            self.reads.waiting.swap_remove(at);
            self.index.chunk_mut(key).waiting_reads -= 1;
            if read.least <= durable {
                let id = self.index.chunk(key).id;
                self.look(read.asker, id, read.snapshot, read.least, read.want);
            } else {
                self.refuse(read.asker, Refusal::Behind { current: accepted });
            }
        }
    }

    /// A chunk that was never written.
    fn answer_unknown(&mut self, asker: Asker, want: Want) {
        let version = Version::NONE;
        let body = match want {
            Want::Data(_) => AnswerBody::Data(DataAnswer {
                version,
                sums: Sums::new(),
            }),
            Want::Allocation => AnswerBody::Allocation(AllocationAnswer {
                allocated: Box::new([0; 16]),
            }),
            Want::Version => AnswerBody::Opened(OpenedAnswer {
                version,
                incomplete: None,
            }),
            Want::Changes { .. } => AnswerBody::Changes(ChangesAnswer {
                entries: Vec::new(),
                more: None,
            }),
            Want::Verify(..) => AnswerBody::Verified(VerifiedAnswer {
                entries: Vec::new(),
                damaged: Vec::new(),
                more: None,
            }),
        };
        self.answer(asker, body, Slice::default());
    }

    /// All leaves that it needs are in memory.
    fn serve(&mut self, asker: Asker, key: ChunkKey, view: View, want: Want) {
        let body = match want {
            Want::Data(range) => return self.read_blocks(asker, key, view, range, None),
            Want::Verify(range, end) => return self.verify_blocks(asker, key, view, range, end),
            Want::Version => AnswerBody::Opened(OpenedAnswer {
                version: self.index.chunk(key).version(view),
                incomplete: self.index.incomplete(key),
            }),
            Want::Allocation => {
                let mut allocated = Box::new([0u64; 16]);
                for block in 0..MAX_BLOCKS_PER_CHUNK as u16 {
                    if self.index.entry(key, view, BlockIndex(block)).has_data() {
                        allocated[usize::from(block) / 64] |= 1 << (block % 64);
                    }
                }
                AnswerBody::Allocation(AllocationAnswer { allocated })
            }
            Want::Changes { since, from } => self.list_changes(key, view, since, from),
        };
        self.answer(asker, body, Slice::default());
    }

    fn list_changes(&self, key: ChunkKey, view: View, since: Version, from: BlockIndex) -> AnswerBody {
        let place = self.index.place(key);
        let mut entries = Vec::new();
        for block in (from.0..MAX_BLOCKS_PER_CHUNK as u16).map(BlockIndex) {
            let entry = self.index.entry(key, view, block);
            if entry.version <= since {
                continue;
            }
            if entries.len() == MAX_CHANGES {
                return AnswerBody::Changes(ChangesAnswer {
                    entries,
                    more: Some(block),
                });
            }
            entries.push(Change {
                block,
                version: entry.version,
                sum: entry.has_data().then(|| place.bind(block, entry.sum)),
            });
        }
        AnswerBody::Changes(ChangesAnswer { entries, more: None })
    }

    pub(super) fn read_blocks(
        &mut self,
        asker: Asker,
        key: ChunkKey,
        view: View,
        range: BlockRange,
        verifying: Option<Verifying>,
    ) {
        let bound_to = self.index.place(key);
        let reads = &mut self.reads;
        let place = reads.free.pop().unwrap_or_else(|| {
            reads.places.push(ReadOp {
                entries: Vec::with_capacity(MAX_IO_BLOCKS as usize),
                parts: Vec::with_capacity(MAX_IO_BLOCKS as usize),
                ..ReadOp::default()
            });
            reads.places.len() as u32 - 1
        });
        let read = &mut reads.places[place as usize];
        read.place = Some(bound_to);
        read.first = range.first;
        read.entries.clear();
        read.entries
            .extend(range.iter().map(|block| self.index.entry(key, view, block)));
        let version = read.entries.iter().map(|entry| entry.version).max().unwrap_or_default();
        if !read.entries.iter().any(|entry| entry.has_data()) {
            if let Some(verifying) = verifying {
                let body = verifying.body(read);
                reads.free.push(place);
                return self.answer(asker, body, Slice::default());
            }
            reads.free.push(place);
            self.env.counters.reads += 1;
            let sums = Sums::new();
            return self.answer(asker, AnswerBody::Data(DataAnswer { version, sums }), Slice::default());
        }
        let Some(mut buffer) = self.env.pool.take(read.entries.len() * PAGE_BYTES) else {
            reads.free.push(place);
            return self.refuse(asker, Refusal::Busy);
        };
        // The slots stay as they are until the read has ended (rule D6).
        read.window = self.space.window.begin();
        read.asker = Some(asker);
        read.damaged = None;
        read.issued = self.env.now;
        read.verifying = verifying;
        read.parts.clear();
        let mut at = 0;
        while at < read.entries.len() {
            let count = run_length(&read.entries[at..]);
            let rest = buffer.split_off(count * PAGE_BYTES);
            read.parts.push((at as u16, Some(std::mem::replace(&mut buffer, rest))));
            at += count;
        }
        // Counted before the first one starts, so that none can be the last too early.
        read.left = read
            .parts
            .iter()
            .filter(|(at, _)| read.entries[usize::from(*at)].has_data())
            .count() as u32;
        for part in 0..read.parts.len() {
            let read = &mut self.reads.places[place as usize];
            let (at, buffer) = &mut read.parts[part];
            let entry = read.entries[usize::from(*at)];
            if entry.has_data() {
                let buffer = buffer.take().expect("it was put there above");
                let offset = self.superblock.geometry.slot_offset(entry.slot);
                let part = part as u32;
                self.env.start_read(Io::Read { read: place, part }, offset, buffer);
            } else if let Some(buffer) = buffer {
                buffer.fill(0);
            }
        }
    }

    pub(super) fn read_part_done(&mut self, place: u32, part: u32, buffer: BufMut, result: io::Result<()>) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        let read = &mut self.reads.places[place as usize];
        let first = usize::from(read.parts[part as usize].0);
        let blocks = buffer.len() / PAGE_BYTES;
        read.parts[part as usize].1 = Some(buffer);
        match result {
            Ok(()) => self.check_blocks(place, part, first, blocks),
            // Which of them? They are read one by one.
            Err(_) if blocks > 1 => return self.probe(place, part, 0),
            Err(_) => self.block_damaged(place, first),
        }
        self.part_ended(place);
    }

    /// An error on a read changed nothing on the disk: the block is as good as rotten, the store is not.
    fn block_damaged(&mut self, place: u32, at: usize) {
        let read = &mut self.reads.places[place as usize];
        let block = BlockIndex(read.first.0 + at as u16);
        read.damaged.get_or_insert(block);
        if let Some(verifying) = &mut read.verifying {
            verifying.damaged.push(block);
        }
        self.env.counters.damaged += 1;
    }

    /// Compares blocks of a part with what the index says of them.
    fn check_blocks(&mut self, place: u32, part: u32, first: usize, blocks: usize) {
        if self.config.faults.has(Fault::SumUnchecked) {
            return;
        }
        let read = &self.reads.places[place as usize];
        let (start, buffer) = &read.parts[part as usize];
        let buffer = buffer.as_ref().expect("the part has ended");
        let skip = (first - usize::from(*start)) * PAGE_BYTES;
        let bound_to = read.place.expect("a read under way has a place");
        let wrong = |(n, bytes): (usize, &[u8])| {
            let block = BlockIndex(read.first.0 + (first + n) as u16);
            bound_to.bind(block, amita_types::crc32c(bytes)) != read.entries[first + n].sum
        };
        let mut blocks = buffer[skip..skip + blocks * PAGE_BYTES]
            .chunks_exact(PAGE_BYTES)
            .enumerate();
        if read.verifying.is_some() {
            let bad: Vec<usize> = blocks.filter(|&block| wrong(block)).map(|(n, _)| n).collect();
            for n in bad {
                self.block_damaged(place, first + n);
            }
        } else if let Some(n) = blocks.position(wrong) {
            self.block_damaged(place, first + n);
        }
    }

    fn part_ended(&mut self, place: u32) {
        let read = &mut self.reads.places[place as usize];
        read.left -= 1;
        if read.left == 0 {
            self.read_finished(place);
        }
    }

    /// Reads block `n` of a part alone, because the whole part could not be read.
    fn probe(&mut self, place: u32, part: u32, n: u32) {
        let read = &self.reads.places[place as usize];
        let entry = read.entries[usize::from(read.parts[part as usize].0) + n as usize];
        let buffer = self.env.take_surely(PAGE_BYTES);
        let offset = self.superblock.geometry.slot_offset(entry.slot);
        self.env.start_read(Io::Probe { read: place, part, n }, offset, buffer);
    }

    pub(super) fn probe_done(&mut self, place: u32, part: u32, n: u32, block: &[u8], result: io::Result<()>) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        let read = &mut self.reads.places[place as usize];
        let (start, buffer) = &mut read.parts[part as usize];
        let at = usize::from(*start) + n as usize;
        let buffer = buffer.as_mut().expect("the part came back");
        let blocks = (buffer.len() / PAGE_BYTES) as u32;
        if result.is_ok() {
            buffer[n as usize * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(block);
            self.check_blocks(place, part, at, 1);
        } else {
            self.block_damaged(place, at);
        }
        // The first damaged block is the answer.
        let read = &self.reads.places[place as usize];
        if (read.damaged.is_some() && read.verifying.is_none()) || n + 1 == blocks {
            self.part_ended(place);
        } else {
            self.probe(place, part, n + 1);
        }
    }

    fn read_finished(&mut self, place: u32) {
        let read = &mut self.reads.places[place as usize];
        let asker = read.asker.take().expect("a read under way has an asker");
        self.space.window.end(read.window);
        if let Some(verifying) = read.verifying.take() {
            let body = verifying.body(read);
            read.parts.clear();
            self.reads.free.push(place);
            self.answer(asker, body, Slice::default());
            return self.reclaim();
        }
        let version = read.entries.iter().map(|entry| entry.version).max().unwrap_or_default();
        let damaged = read.damaged;
        self.env.course = Course {
            issued: read.issued,
            data: self.env.now,
            ..Course::default()
        };
        let bound_to = read.place.expect("a read under way has a place");
        let blocks = (read.first.0..).map(BlockIndex);
        let sums = read
            .entries
            .iter()
            .zip(blocks)
            .map(|(entry, block)| match entry.has_data() {
                true => bound_to.bind(block, entry.sum),
                false => ZERO_BLOCK_SUM,
            })
            .collect();
        let mut payload = BufMut::empty();
        for (_, buffer) in read.parts.drain(..) {
            let buffer = buffer.expect("all parts have ended");
            if payload.is_empty() {
                payload = buffer;
            } else {
                payload.join(buffer).expect("the parts were cut from one buffer");
            }
        }
        self.reads.free.push(place);
        match damaged {
            Some(block) => self.refuse(asker, Refusal::Damaged { block }),
            None => {
                self.env.counters.reads += 1;
                self.answer(asker, AnswerBody::Data(DataAnswer { version, sums }), payload.freeze());
            }
        }
        self.env.course = Course::default();
        self.reclaim();
    }
}

/// How many entries from the first on lie in slots that follow one another, or all have no data.
fn run_length(entries: &[Entry]) -> usize {
    let follows = |pair: &[Entry]| match (pair[0].has_data(), pair[1].has_data()) {
        (true, true) => pair[1].slot.0 == pair[0].slot.0 + 1,
        (false, false) => true,
        _ => false,
    };
    1 + entries.windows(2).take_while(|pair| follows(pair)).count()
}

/// CRC-32C of a block of zeros.
pub(crate) const ZERO_BLOCK_SUM: u32 = 0x98f9_4189;
