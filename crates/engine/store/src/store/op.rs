//! Accepted changes: from request to durable.

use super::Asker;
use super::fence::PendingFence;
use super::join::Say;
use super::mend::MendChange;
use super::roll::Rolls;
use super::snapshot::{CloneChange, Keep};
use crate::fences::VolumeKey;
use crate::format::record::{Fence, RollEntry, Run};
use crate::index::{Chunk, ChunkKey, Index, OpSlot, View};
use amita_reactor::{BufMut, Slice};
use amita_types::message::{MAX_PIECES, Sums};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, SnapshotId, Version};
use std::collections::VecDeque;

const BLOCK: usize = BLOCK_BYTES as usize;

/// What is changed.
#[derive(Debug)]
pub(super) enum Change {
    Write,
    Clear,
    Roll(Box<RollChange>),
    Fence(Box<Fence>),
    /// States of the chunk, or the chunk itself, are dropped, one after the other.
    Keep(Box<Keep>),
    /// The chunk becomes what another one was.
    Clone(Box<CloneChange>),
    /// The chunk's history goes on at another version; it was last whole at this one.
    Join(Version),
    /// Entries are replaced one by one.
    Mend(Box<MendChange>),
    /// The chunk is whole.
    Whole,
    /// Nothing is changed; something is said when all before it is durable.
    Say(Say),
}

impl Change {
    /// Entries with their data, where there are any.
    pub fn entries(&self) -> Option<&RollChange> {
        match self {
            Change::Roll(roll) => Some(roll),
            Change::Mend(mend) => Some(&mend.change),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn entries_mut(&mut self) -> Option<&mut RollChange> {
        match self {
            Change::Roll(roll) => Some(roll),
            Change::Mend(mend) => Some(&mut mend.change),
            _ => None,
        }
    }

    /// Is it no part of the chain of versions, so that it can end without those behind it?
    pub fn is_aside(&self) -> bool {
        match self {
            Change::Keep(_) | Change::Mend(_) | Change::Whole | Change::Say(_) => true,
            Change::Write | Change::Clear | Change::Roll(_) | Change::Fence(_) | Change::Clone(_) | Change::Join(_) => {
                false
            }
        }
    }
}

/// A roll-forward, whole.
#[derive(Debug, Default)]
pub(super) struct RollChange {
    /// In order of their block; those that have data get their slots when they are logged.
    pub entries: Vec<RollEntry>,
    /// One bit each: has it data?
    pub with_data: Vec<bool>,
    /// The data, in order of the entries.
    pub payload: Vec<Slice>,
}

/// A sub-block write on its way to whole blocks. Apart from the others' fields, because few writes need it and each
/// change is moved about.
#[derive(Debug, Default)]
pub(super) struct Merge {
    /// The first and the last block, where they are not whole in the payload, merged with what was there.
    pub merged: [Slice; 2],
    /// Memory for them while they are being merged.
    pub base: [Option<BufMut>; 2],
    /// The checksum that a base read from the disk must have.
    pub base_sum: [u32; 2],
    /// Bases being read.
    pub reading: u32,
    /// A base is damaged.
    pub damaged: Option<BlockIndex>,
}

/// An accepted change.
#[derive(Debug)]
pub(super) struct Op {
    pub change: Change,
    /// Whom to answer; nobody, where that was done already.
    pub asker: Option<Asker>,
    pub chunk: ChunkKey,
    pub version: Version,
    pub previous: Version,
    /// The volume's newest snapshot.
    pub snapshot: SnapshotId,
    /// What the chunk's accepted changes had come to before it: newest snapshot, and newest state's version.
    pub before: (SnapshotId, Version),
    pub range: BlockRange,
    pub offset_bytes: u32,
    pub length_bytes: u32,
    pub payload: Slice,
    /// What a write needs whose first or last block is not whole.
    pub merge: Option<Box<Merge>>,
    /// CRC-32C of each block (of each piece, until it is merged).
    pub sums: Sums,
    /// Slots that it takes.
    pub blocks: u32,
    /// Where they are, once it is logged.
    pub runs: Vec<Run>,
    /// What it can add to a checkpoint.
    pub index_bytes: u64,
    /// Leaves that it can change: each needs a slot in the next checkpoint.
    pub leaves: u32,
    /// The next accepted change of the same chunk.
    pub next: OpSlot,
    /// Somebody else waits for it too (rule R8).
    pub resent: bool,
}

/// Who waits for a change that somebody else asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resend {
    pub op: OpSlot,
    pub asker: Asker,
    /// What was taken from its account (rule R7).
    pub paid: u32,
}

/// All accepted changes that are not durable.
#[derive(Debug, Default)]
pub(super) struct Ops {
    places: Vec<Op>,
    free: Vec<OpSlot>,
    /// Used ones, for the next write that needs one.
    #[expect(clippy::vec_box, reason = "an operation takes the box as it is")]
    spare_merges: Vec<Box<Merge>>,
    /// Those that can be logged, in the order in which they must be.
    pub ready: VecDeque<OpSlot>,
    /// Fences that are not logged yet.
    pub fences: Vec<PendingFence>,
    pub rolls: Rolls,
    /// Who waits for a change that another one asked for.
    pub resends: Vec<Resend>,
}

impl Ops {
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// All of them, by their keys.
    #[cfg(any(test, feature = "planted"))]
    pub fn each(&self) -> impl Iterator<Item = (OpSlot, &Op)> {
        let mut live = vec![true; self.places.len()];
        self.free.iter().for_each(|key| live[key.0 as usize] = false);
        (0..)
            .map(OpSlot)
            .zip(&self.places)
            .filter(move |(key, _)| live[key.0 as usize])
    }

    /// A change like `op`; memory of an earlier one is used again.
    pub fn insert(&mut self, mut op: Op) -> OpSlot {
        match self.free.pop() {
            Some(key) => {
                let place = &mut self.places[key.0 as usize];
                std::mem::swap(&mut op.runs, &mut place.runs);
                *place = op;
                place.runs.clear();
                key
            }
            None => {
                // Room for the runs of a write on a disk that is in pieces.
                op.runs.reserve(MAX_PIECES);
                self.places.push(op);
                OpSlot(self.places.len() as u32 - 1)
            }
        }
    }

    /// Whom to answer fences.
    pub fn fence_askers(&mut self) -> impl Iterator<Item = &mut Option<Asker>> {
        let logged = self.places.iter_mut();
        let logged = logged.filter(|op| matches!(op.change, Change::Fence(_)));
        let queued = self.fences.iter_mut().map(|pending| &mut pending.asker);
        queued.chain(logged.map(|op| &mut op.asker))
    }

    /// A blank [`Merge`].
    pub fn merge(&mut self) -> Box<Merge> {
        self.spare_merges.pop().unwrap_or_default()
    }

    pub fn get(&self, key: OpSlot) -> &Op {
        &self.places[key.0 as usize]
    }

    pub fn get_mut(&mut self, key: OpSlot) -> &mut Op {
        &mut self.places[key.0 as usize]
    }

    /// Forgets a change and what it holds.
    pub fn remove(&mut self, key: OpSlot) {
        let op = self.get_mut(key);
        op.change = Change::Clear;
        op.asker = None;
        op.payload = Slice::default();
        if let Some(mut merge) = op.merge.take() {
            *merge = Merge::default();
            self.spare_merges.push(merge);
        }
        self.free.push(key);
    }

    /// Forgets all of them.
    pub fn drain(&mut self) -> impl Iterator<Item = Op> + '_ {
        self.free.clear();
        self.ready.clear();
        self.places.drain(..)
    }
}

impl Op {
    /// A change of no chunk yet, to be filled in.
    pub fn new(change: Change, asker: Option<Asker>, chunk: ChunkKey) -> Op {
        Op {
            change,
            asker,
            chunk,
            version: Version::NONE,
            previous: Version::NONE,
            snapshot: SnapshotId::HEAD,
            before: (SnapshotId::HEAD, Version::NONE),
            range: BlockRange::default(),
            offset_bytes: 0,
            length_bytes: 0,
            payload: Slice::default(),
            merge: None,
            sums: Sums::new(),
            blocks: 0,
            runs: Vec::new(),
            index_bytes: 0,
            leaves: 0,
            next: OpSlot::NONE,
            resent: false,
        }
    }

    /// The volume as whose owner it was asked for.
    pub fn volume(&self) -> Option<VolumeKey> {
        self.asker.and_then(|asker| asker.volume)
    }

    /// The part of block `which` (0: the first, 1: the last) that the payload covers, if not all of it:
    /// (the block's place in the range, first byte in the block, bytes, first byte in the payload).
    pub fn partial(&self, which: usize) -> Option<(u16, usize, usize, usize)> {
        if !matches!(self.change, Change::Write) {
            return None;
        }
        let head = self.offset_bytes as usize % BLOCK;
        let length = self.length_bytes as usize;
        let last = self.range.count - 1;
        match which {
            0 => {
                let bytes = length.min(BLOCK - head);
                (bytes < BLOCK).then_some((0, head, bytes, 0))
            }
            _ if last == 0 => None,
            _ => {
                let bytes = (head + length) - usize::from(last) * BLOCK;
                (bytes < BLOCK).then_some((last, 0, bytes, length - bytes))
            }
        }
    }

    /// The blocks whose entries it changes lie in here.
    pub fn changed(&self) -> BlockRange {
        match &self.change {
            Change::Write | Change::Clear => self.range,
            change => match change.entries().map(|roll| (roll.entries.first(), roll.entries.last())) {
                Some((Some(first), Some(last))) => BlockRange::new(first.block.0, last.block.0 - first.block.0 + 1),
                _ => BlockRange::default(),
            },
        }
    }

    /// What this change makes of a block: `None`: it does not touch it; an empty slice: cleared.
    pub fn block(&self, block: BlockIndex) -> Option<Slice> {
        let inside = |range: BlockRange| (u32::from(range.first.0)..range.end()).contains(&u32::from(block.0));
        match &self.change {
            Change::Clear => inside(self.range).then(Slice::default),
            Change::Write => inside(self.range).then(|| self.block_of_write(block.0 - self.range.first.0)),
            change => {
                let roll = change.entries()?;
                let at = roll.entries.iter().position(|entry| entry.block == block)?;
                if !roll.with_data[at] {
                    return Some(Slice::default());
                }
                let mut skip = roll.with_data[..at].iter().filter(|&&data| data).count() * BLOCK;
                for slice in &roll.payload {
                    if skip < slice.len() {
                        return Some(slice.slice(skip..skip + BLOCK));
                    }
                    skip -= slice.len();
                }
                unreachable!("the payload was measured when the roll-forward was accepted")
            }
        }
    }

    fn block_of_write(&self, at: u16) -> Slice {
        if let Some(Merge {
            merged: [first, last], ..
        }) = self.merge.as_deref()
        {
            if at == 0 && !first.is_empty() {
                return first.clone();
            }
            if at == self.range.count - 1 && !last.is_empty() {
                return last.clone();
            }
        }
        let start = usize::from(at) * BLOCK - self.offset_bytes as usize % BLOCK;
        self.payload.slice(start..start + BLOCK)
    }

    /// Piece `at` of the change's data, in the order of its slots; it may be empty. `None` behind the last one.
    pub fn slice(&self, at: usize) -> Option<Slice> {
        match &self.change {
            Change::Write => match (self.merge.as_deref(), at) {
                (None, 0) => Some(self.payload.clone()),
                (None, _) => None,
                (Some(merge), 1) => {
                    let head = self.offset_bytes as usize % BLOCK;
                    let start = if merge.merged[0].is_empty() {
                        0
                    } else {
                        (BLOCK - head).min(self.payload.len())
                    };
                    let tail = if merge.merged[1].is_empty() {
                        0
                    } else {
                        (head + self.payload.len()) % BLOCK
                    };
                    Some(self.payload.slice(start..self.payload.len() - tail))
                }
                (Some(merge), 0) => Some(merge.merged[0].clone()),
                (Some(merge), 2) => Some(merge.merged[1].clone()),
                _ => None,
            },
            change => change.entries()?.payload.get(at).cloned(),
        }
    }

    /// All pieces.
    pub fn slices(&self) -> impl Iterator<Item = Slice> + '_ {
        (0..).map_while(|at| self.slice(at))
    }
}

impl Ops {
    /// The accepted changes of a chunk that are not durable, oldest first.
    pub fn pending(&self, chunk: &Chunk) -> impl Iterator<Item = &Op> {
        self.pending_before(chunk, OpSlot::NONE)
    }

    /// Those before `before`.
    pub fn pending_before(&self, chunk: &Chunk, before: OpSlot) -> impl Iterator<Item = &Op> {
        let mut next = chunk.first_pending;
        std::iter::from_fn(move || {
            if next == before {
                return None;
            }
            let op = self.get(next);
            next = op.next;
            Some(op)
        })
    }

    /// Where the chunk will be incomplete when what was accepted is durable: the version at which it was last whole.
    pub fn incomplete(&self, index: &Index, key: ChunkKey) -> Option<Version> {
        let now = index.incomplete(key);
        self.pending(index.chunk(key)).fold(now, |found, op| match op.change {
            Change::Join(base) => Some(base),
            Change::Whole => None,
            _ => found,
        })
    }

    /// Binds the checksums of a change's blocks to their place (rule D8).
    pub fn bind_sums(&mut self, index: &Index, key: OpSlot) {
        let op = self.get_mut(key);
        let place = index.place(op.chunk);
        for (block, sum) in op.range.iter().zip(&mut op.sums) {
            *sum = place.bind(block, *sum);
        }
        if let Some(roll) = op.change.entries_mut() {
            for (entry, &with_data) in roll.entries.iter_mut().zip(&roll.with_data) {
                if with_data {
                    entry.sum = place.bind(entry.block, entry.sum);
                }
            }
        }
    }

    /// What the youngest accepted change before `before` that is not durable made of a block; empty: cleared.
    pub fn pending_block(&self, chunk: &Chunk, before: OpSlot, block: BlockIndex) -> Option<Slice> {
        let pending = self.pending_before(chunk, before);
        pending.fold(None, |found, op| op.block(block).or(found))
    }

    /// Is the chunk still being made, by a change before `before`?
    pub fn waits_for_clone(&self, chunk: &Chunk, before: OpSlot) -> bool {
        let first = chunk.first_pending;
        first != before && matches!(self.get(first).change, Change::Clone(_))
    }

    /// What the changes before `before` make of a block: its version, and its plain checksum if it has data. All of them are
    /// ready, and the block's leaf is in memory.
    pub fn accepted_entry(
        &self,
        index: &Index,
        chunk: ChunkKey,
        before: OpSlot,
        block: BlockIndex,
    ) -> (Version, Option<u32>) {
        let place = index.place(chunk);
        let pending = self.pending_before(index.chunk(chunk), before);
        let found = pending.fold(None, |found, op| op.entry(block).or(found));
        let (version, bound) = found.unwrap_or_else(|| {
            let entry = index.entry(chunk, View::Head, block);
            (entry.version, entry.has_data().then_some(entry.sum))
        });
        (version, bound.map(|sum| place.bind(block, sum)))
    }

    /// Takes one that waits for this change; the change has ended.
    pub fn take_resend(&mut self, key: OpSlot) -> Option<Resend> {
        let at = self.resends.iter().position(|resend| resend.op == key)?;
        Some(self.resends.swap_remove(at))
    }

    /// Puts a change behind the others of its chunk; `true`: it is the first that waits to be made ready.
    pub fn enqueue(&mut self, index: &mut Index, key: OpSlot) -> bool {
        let chunk = index.chunk_mut(self.get(key).chunk);
        let last = std::mem::replace(&mut chunk.last_pending, key);
        if last == OpSlot::NONE {
            chunk.first_pending = key;
        } else {
            self.get_mut(last).next = key;
        }
        if chunk.first_waiting != OpSlot::NONE {
            return false;
        }
        chunk.first_waiting = key;
        true
    }

    /// Takes a change out of its chunk's queue that cannot be made; those behind it go on.
    pub fn unlink(&mut self, index: &mut Index, key: OpSlot) {
        let op = self.get(key);
        let (chunk_key, next) = (op.chunk, op.next);
        let chunk = index.chunk(chunk_key);
        let mut before = OpSlot::NONE;
        let mut at = chunk.first_pending;
        while at != key {
            before = at;
            at = self.get(at).next;
        }
        let chunk = index.chunk_mut(chunk_key);
        if chunk.first_waiting == key {
            chunk.first_waiting = next;
        }
        if chunk.last_pending == key {
            chunk.last_pending = before;
        }
        if before == OpSlot::NONE {
            chunk.first_pending = next;
        } else {
            self.get_mut(before).next = next;
        }
        self.get_mut(key).next = OpSlot::NONE;
    }

    /// Takes the first change of a chunk out of its queue: it is durable.
    pub fn dequeue(&mut self, index: &mut Index, key: OpSlot) {
        let op = self.get(key);
        let chunk = index.chunk_mut(op.chunk);
        assert_eq!(
            chunk.first_pending, key,
            "a chunk's changes become durable in their order"
        );
        assert_ne!(chunk.first_waiting, key, "a change that was logged waits for nothing");
        chunk.first_pending = op.next;
        if op.next == OpSlot::NONE {
            chunk.last_pending = OpSlot::NONE;
        }
    }
}
