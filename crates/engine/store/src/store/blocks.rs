//! Blocks are read from the device, and checked against what the index says of them (rule D7).

use super::io::Io;
use super::trace::Course;
use super::verify::Verifying;
use super::{Requester, Store, answer, space};
use crate::State;
use crate::faults::Fault;
use crate::format::{PAGE_BYTES, Place};
use crate::index::{ChunkKey, Entry, View};
use amita_reactor::{BufMut, Time};
use amita_types::message::{AnswerBody, DataAnswer, Refusal, Run, Sums};
use amita_types::{BlockIndex, BlockRange, MAX_IO_BLOCKS, Version};
use std::io;

/// A read that is under way on the device. Its vectors are used again by later ones.
#[derive(Debug, Default)]
pub(super) struct BlockRead {
    asker: Option<Requester>,
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
    /// The answer says the versions of the blocks.
    versions: bool,
    window: u64,
}

/// What blocks are read for.
#[derive(Debug)]
pub(super) enum Purpose {
    Read { versions: bool },
    Verify(Verifying),
}

impl BlockRead {
    /// The newest version among the blocks.
    fn version(&self) -> Version {
        self.entries.iter().map(|entry| entry.version).max().unwrap_or_default()
    }

    /// Divides the buffer into parts, each for blocks that can be read at once, or that have no data.
    fn divide(&mut self, mut buffer: BufMut) {
        self.parts.clear();
        let mut at = 0;
        while at < self.entries.len() {
            let count = run_length(&self.entries[at..]);
            let rest = buffer.split_off(count * PAGE_BYTES);
            self.parts.push((at as u16, Some(std::mem::replace(&mut buffer, rest))));
            at += count;
        }
        // Counted before the first one starts, so that none can be the last too early.
        let with_data = self.parts.iter().map(|(at, _)| self.entries[usize::from(*at)]);
        self.left = with_data.filter(|entry| entry.has_data()).count() as u32;
    }

    /// An error on a read changed nothing on the disk: the block is as good as rotten, the store is not. Counts one.
    fn damage(&mut self, at: usize) -> u64 {
        let block = BlockIndex(self.first.0 + at as u16);
        self.damaged.get_or_insert(block);
        if let Some(verifying) = &mut self.verifying {
            verifying.damaged.push(block);
        }
        1
    }

    /// Compares blocks of a part with what the index says of them; returns how many are damaged.
    fn check(&mut self, part: u32, first: usize, blocks: usize) -> u64 {
        let (start, buffer) = &self.parts[part as usize];
        let buffer = buffer.as_ref().expect("the part has ended");
        let skip = (first - usize::from(*start)) * PAGE_BYTES;
        let bound_to = self.place.expect("a read under way has a place");
        let wrong = |(n, bytes): (usize, &[u8])| {
            let block = BlockIndex(self.first.0 + (first + n) as u16);
            bound_to.bind(block, amita_types::crc32c(bytes)) != self.entries[first + n].sum
        };
        let mut blocks = buffer[skip..skip + blocks * PAGE_BYTES]
            .chunks_exact(PAGE_BYTES)
            .enumerate();
        if self.verifying.is_some() {
            let bad: Vec<usize> = blocks.filter(|&block| wrong(block)).map(|(n, _)| n).collect();
            bad.into_iter().map(|n| self.damage(first + n)).sum()
        } else {
            blocks.position(wrong).map_or(0, |n| self.damage(first + n))
        }
    }

    /// The blocks' plain checksums.
    fn sums(&self) -> Sums {
        let bound_to = self.place.expect("a read under way has a place");
        let blocks = (self.first.0..).map(BlockIndex);
        let sums = self.entries.iter().zip(blocks);
        sums.map(|(entry, block)| match entry.has_data() {
            true => bound_to.bind(block, entry.sum),
            false => ZERO_BLOCK_SUM,
        })
        .collect()
    }

    /// The versions of the blocks, where they are asked for; of those without data none (rule S15).
    fn runs(&self) -> Box<[Run]> {
        if !self.versions {
            return Box::default();
        }
        let mut runs: Vec<Run> = Vec::new();
        for entry in &self.entries {
            let version = if entry.has_data() { entry.version } else { Version::NONE };
            match runs.last_mut() {
                Some(run) if run.version == version => run.blocks += 1,
                _ => runs.push(Run { blocks: 1, version }),
            }
        }
        runs.into()
    }

    /// What was read, in one piece.
    fn take_payload(&mut self) -> BufMut {
        let mut payload = BufMut::empty();
        for (_, buffer) in self.parts.drain(..) {
            let buffer = buffer.expect("all parts have ended");
            if payload.is_empty() {
                payload = buffer;
            } else {
                payload.join(buffer).expect("the parts were cut from one buffer");
            }
        }
        payload
    }
}

#[derive(Debug, Default)]
pub(super) struct BlockReads {
    places: Vec<BlockRead>,
    free: Vec<u32>,
}

impl BlockReads {
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// A place for another one; memory of an earlier one is used again.
    fn begin(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(BlockRead {
                entries: Vec::with_capacity(MAX_IO_BLOCKS as usize),
                parts: Vec::with_capacity(MAX_IO_BLOCKS as usize),
                ..BlockRead::default()
            });
            self.places.len() as u32 - 1
        })
    }

    fn end(&mut self, place: u32) {
        self.free.push(place);
    }

    fn get(&self, place: u32) -> &BlockRead {
        &self.places[place as usize]
    }

    fn get_mut(&mut self, place: u32) -> &mut BlockRead {
        &mut self.places[place as usize]
    }

    /// Forgets all of them; returns who asked.
    pub fn drain(&mut self) -> impl Iterator<Item = Requester> + '_ {
        self.free.clear();
        self.places.drain(..).filter_map(|read| read.asker)
    }
}

pub(super) fn start(
    store: &mut Store,
    asker: Requester,
    key: ChunkKey,
    view: View,
    range: BlockRange,
    purpose: Purpose,
) {
    let (verifying, versions) = match purpose {
        Purpose::Read { versions } => (None, versions),
        Purpose::Verify(verifying) => (Some(verifying), false),
    };
    let reads = &mut store.reads.blocks;
    let place = reads.begin();
    let read = reads.get_mut(place);
    read.place = Some(store.index.place(key));
    read.first = range.first;
    read.entries.clear();
    read.entries
        .extend(range.iter().map(|block| store.index.entry(key, view, block)));
    if let Some(verifying) = &verifying {
        verifying.sift(&store.index, key, range.first, &mut read.entries);
    }
    if !read.entries.iter().any(|entry| entry.has_data()) {
        let body = match verifying {
            Some(verifying) => verifying.body(read),
            None => {
                store.env.counters.reads += 1;
                AnswerBody::Data(DataAnswer {
                    version: read.version(),
                    sums: Sums::new(),
                    runs: Box::default(),
                })
            }
        };
        reads.end(place);
        return answer::give(store, asker, body);
    }
    let Some(buffer) = store.env.pool.take(read.entries.len() * PAGE_BYTES) else {
        reads.end(place);
        return store.env.refuse(asker, Refusal::Busy);
    };
    // The slots stay as they are until the read has ended (rule D6).
    read.window = store.space.window.begin();
    read.asker = Some(asker);
    read.damaged = None;
    read.issued = store.env.now;
    read.verifying = verifying;
    read.versions = versions;
    read.divide(buffer);
    for part in 0..read.parts.len() {
        let (at, buffer) = &mut read.parts[part];
        let entry = read.entries[usize::from(*at)];
        if entry.has_data() {
            let buffer = buffer.take().expect("it was put there above");
            let offset = store.superblock.geometry.slot_offset(entry.slot);
            let part = part as u32;
            store.env.start_read(Io::Read { read: place, part }, offset, buffer);
        } else if let Some(buffer) = buffer {
            buffer.fill(0);
        }
    }
}

pub(super) fn part_done(store: &mut Store, place: u32, part: u32, buffer: BufMut, result: io::Result<()>) {
    if !matches!(store.state, State::Serving) {
        return;
    }
    let read = store.reads.blocks.get_mut(place);
    let first = usize::from(read.parts[part as usize].0);
    let blocks = buffer.len() / PAGE_BYTES;
    read.parts[part as usize].1 = Some(buffer);
    store.env.counters.damaged += match result {
        Ok(()) if store.config.faults.has(Fault::SumUnchecked) => 0,
        Ok(()) => read.check(part, first, blocks),
        // Which of them? They are read one by one.
        Err(_) if blocks > 1 => return probe(store, place, part, 0),
        Err(_) => read.damage(first),
    };
    part_ended(store, place);
}

fn part_ended(store: &mut Store, place: u32) {
    let read = store.reads.blocks.get_mut(place);
    read.left -= 1;
    if read.left == 0 {
        finish(store, place);
    }
}

/// Reads block `n` of a part alone, because the whole part could not be read.
fn probe(store: &mut Store, place: u32, part: u32, n: u32) {
    let read = store.reads.blocks.get(place);
    let entry = read.entries[usize::from(read.parts[part as usize].0) + n as usize];
    let buffer = store.env.take_surely(PAGE_BYTES);
    let offset = store.superblock.geometry.slot_offset(entry.slot);
    store.env.start_read(Io::Probe { read: place, part, n }, offset, buffer);
}

pub(super) fn probe_done(store: &mut Store, place: u32, part: u32, n: u32, block: &[u8], result: io::Result<()>) {
    if !matches!(store.state, State::Serving) {
        return;
    }
    let read = store.reads.blocks.get_mut(place);
    let (start, buffer) = &mut read.parts[part as usize];
    let at = usize::from(*start) + n as usize;
    let buffer = buffer.as_mut().expect("the part came back");
    let blocks = (buffer.len() / PAGE_BYTES) as u32;
    store.env.counters.damaged += if result.is_ok() {
        buffer[n as usize * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(block);
        match store.config.faults.has(Fault::SumUnchecked) {
            true => 0,
            false => read.check(part, at, 1),
        }
    } else {
        read.damage(at)
    };
    // The first damaged block is the answer.
    if (read.damaged.is_some() && read.verifying.is_none()) || n + 1 == blocks {
        part_ended(store, place);
    } else {
        probe(store, place, part, n + 1);
    }
}

fn finish(store: &mut Store, place: u32) {
    let read = store.reads.blocks.get_mut(place);
    let asker = read.asker.take().expect("a read under way has an asker");
    store.space.window.end(read.window);
    if let Some(verifying) = read.verifying.take() {
        let body = verifying.body(read);
        read.parts.clear();
        store.reads.blocks.end(place);
        answer::give(store, asker, body);
        return space::reclaim(store);
    }
    let damaged = read.damaged;
    let data = DataAnswer {
        version: read.version(),
        sums: read.sums(),
        runs: read.runs(),
    };
    store.env.course = Course {
        issued: read.issued,
        data: store.env.now,
        ..Course::default()
    };
    let payload = read.take_payload();
    store.reads.blocks.end(place);
    match damaged {
        Some(block) => store.env.refuse(asker, Refusal::Damaged { block }),
        None => {
            store.env.counters.reads += 1;
            answer::give_data(store, asker, data, payload.freeze());
        }
    }
    store.env.course = Course::default();
    space::reclaim(store);
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
