//! Accepted changes: from request to durable.

use super::Requester;
use super::change::{Change, Merge};
use super::fence::PendingFence;
use super::roll::Rolls;
use super::space::Claim;
use crate::fences::VolumeKey;
use crate::format::record::Run;
use crate::index::{Chunk, ChunkKey, Index, OpSlot, View};
use amita_reactor::Slice;
use amita_types::message::MAX_PIECES;
use amita_types::{BlockIndex, SnapshotId, Version};
use std::collections::VecDeque;

/// An accepted change.
#[derive(Debug)]
pub(super) struct Op {
    pub change: Change,
    /// Whom to answer; nobody, where that was done already.
    pub asker: Option<Requester>,
    pub chunk: ChunkKey,
    pub version: Version,
    pub previous: Version,
    /// The volume's newest snapshot.
    pub snapshot: SnapshotId,
    /// What the chunk's accepted changes had come to before it: newest snapshot, and newest state's version.
    pub before: (SnapshotId, Version),
    /// What is changed in bytes: a change that comes again has the same.
    pub length_bytes: u32,
    pub claim: Claim,
    /// Where its slots are, once it is logged.
    pub runs: Vec<Run>,
    /// The next accepted change of the same chunk.
    pub next: OpSlot,
    /// Somebody else waits for it too (rule R8).
    pub resent: bool,
}

/// Who waits for a change that somebody else asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resend {
    pub op: OpSlot,
    pub asker: Requester,
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
    pub fn fence_askers(&mut self) -> impl Iterator<Item = &mut Option<Requester>> {
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
        op.asker = None;
        if let Change::Write(write) = op.change.take()
            && let Some(mut merge) = write.merge
        {
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

    /// The accepted changes of a chunk that are not durable, oldest first.
    pub fn pending(&self, chunk: &Chunk) -> impl Iterator<Item = &Op> {
        self.pending_before(chunk, OpSlot::NONE)
    }

    /// Those before `before`.
    pub fn pending_before(&self, chunk: &Chunk, before: OpSlot) -> impl Iterator<Item = &Op> {
        let mut next = chunk.queue.first;
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
            Change::Whole(_) => None,
            _ => found,
        })
    }

    /// Binds the checksums of a change's blocks to their place (rule D8).
    pub fn bind_sums(&mut self, index: &Index, key: OpSlot) {
        let op = self.get_mut(key);
        op.change.bind_sums(index.place(op.chunk));
    }

    /// What the youngest accepted change before `before` that is not durable made of a block; empty: cleared.
    pub fn pending_block(&self, chunk: &Chunk, before: OpSlot, block: BlockIndex) -> Option<Slice> {
        let pending = self.pending_before(chunk, before);
        pending.fold(None, |found, op| op.change.block(block).or(found))
    }

    /// Is the chunk still being made, by a change before `before`?
    pub fn waits_for_clone(&self, chunk: &Chunk, before: OpSlot) -> bool {
        let first = chunk.queue.first;
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
        let found = pending.fold(None, |found, op| op.change.entry(op.version, block).or(found));
        let (version, bound) = found.unwrap_or_else(|| {
            let entry = index.entry(chunk, View::Head, block);
            (entry.version, entry.has_data().then_some(entry.sum))
        });
        (version, bound.map(|sum| place.bind(block, sum)))
    }

    /// Takes one that waits for this change; the change has ended.
    pub fn take_resend(&mut self, key: OpSlot, from: &mut usize) -> Option<Resend> {
        *from += self.resends[*from..].iter().position(|resend| resend.op == key)?;
        Some(self.resends.swap_remove(*from))
    }

    /// Puts a change behind the others of its chunk; `true`: it is the first that waits to be made ready.
    pub fn enqueue(&mut self, index: &mut Index, key: OpSlot) -> bool {
        let chunk = index.chunk_mut(self.get(key).chunk);
        let last = std::mem::replace(&mut chunk.queue.last, key);
        if last == OpSlot::NONE {
            chunk.queue.first = key;
        } else {
            self.get_mut(last).next = key;
        }
        if chunk.queue.waiting != OpSlot::NONE {
            return false;
        }
        chunk.queue.waiting = key;
        true
    }

    /// Takes a change out of its chunk's queue that cannot be made; those behind it go on.
    pub fn unlink(&mut self, index: &mut Index, key: OpSlot) {
        let op = self.get(key);
        let (chunk_key, next) = (op.chunk, op.next);
        let chunk = index.chunk(chunk_key);
        let mut before = OpSlot::NONE;
        let mut at = chunk.queue.first;
        while at != key {
            before = at;
            at = self.get(at).next;
        }
        let chunk = index.chunk_mut(chunk_key);
        if chunk.queue.waiting == key {
            chunk.queue.waiting = next;
        }
        if chunk.queue.last == key {
            chunk.queue.last = before;
        }
        if before == OpSlot::NONE {
            chunk.queue.first = next;
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
            chunk.queue.first, key,
            "a chunk's changes become durable in their order"
        );
        assert_ne!(chunk.queue.waiting, key, "a change that was logged waits for nothing");
        chunk.queue.first = op.next;
        if op.next == OpSlot::NONE {
            chunk.queue.last = OpSlot::NONE;
        }
    }
}

impl Op {
    /// A change of no chunk yet, to be filled in.
    pub fn new(change: Change, asker: Option<Requester>, chunk: ChunkKey) -> Op {
        Op {
            change,
            asker,
            chunk,
            version: Version::NONE,
            previous: Version::NONE,
            snapshot: SnapshotId::HEAD,
            before: (SnapshotId::HEAD, Version::NONE),
            length_bytes: 0,
            claim: Claim::default(),
            runs: Vec::new(),
            next: OpSlot::NONE,
            resent: false,
        }
    }

    /// The volume as whose owner it was asked for.
    pub fn volume(&self) -> Option<VolumeKey> {
        self.asker.and_then(|asker| asker.volume)
    }
}
