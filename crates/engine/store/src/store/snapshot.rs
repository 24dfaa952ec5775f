//! Snapshots are dropped, chunks deleted and cloned.

use super::op::{Change, Op};
use super::{Asker, Store};
use crate::format::record::RollEntry;
use crate::index::{ChunkKey, Leaf, Location, OpSlot, PARTS, Seen, WORST_BYTES_PER_CLEAR};
use amita_reactor::Slice;
use amita_types::message::{AnswerBody, MAX_SNAPSHOTS, Problem, Refusal};
use amita_types::{BlockRange, ChunkId, MAX_BLOCKS_PER_CHUNK, SnapshotId, Version};

/// What is to be left of a chunk.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    head: bool,
    above: SnapshotId,
    to: SnapshotId,
    live: Vec<SnapshotId>,
    /// What is dropped next: the state for the snapshots up to this one; [`SnapshotId::HEAD`]: the chunk itself.
    pub dropping: Option<SnapshotId>,
    /// The chunk itself is dropped, and snapshots up to this one have it as it is.
    pub kept_for: SnapshotId,
    /// Nobody has asked: nothing needs the chunk any more (rule R13).
    swept: bool,
    /// Leaves that were read and were wrong, once for each time.
    wrong: Vec<Location>,
}

impl Keep {
    /// Nothing of it.
    pub fn nothing() -> Keep {
        Keep {
            swept: true,
            ..Keep::new(false, SnapshotId::HEAD, SnapshotId(u32::MAX), Vec::new())
        }
    }

    pub fn new(head: bool, above: SnapshotId, to: SnapshotId, live: Vec<SnapshotId>) -> Keep {
        Keep {
            head,
            above,
            to,
            live,
            dropping: None,
            kept_for: SnapshotId::HEAD,
            swept: false,
            wrong: Vec::new(),
        }
    }

    /// Is it not known any more what this leaf held? What is read and is wrong may be the way's fault, once.
    fn has_lost(&self, at: Location) -> bool {
        self.wrong.iter().filter(|&&wrong| wrong == at).count() > 1
    }

    /// Did nobody ask for it?
    pub fn is_swept(&self) -> bool {
        self.swept
    }
}

/// A chunk that becomes what another one was.
#[derive(Clone, Debug)]
pub(super) struct CloneChange {
    /// The chunk that it is made from.
    from: ChunkId,
    at: SnapshotId,
    /// Where its blocks were first written.
    pub origin: ChunkId,
    /// All its entries; something else uses their slots too.
    pub entries: Vec<RollEntry>,
}

impl Store {
    pub(super) fn keep(&mut self, asker: Asker, chunk: ChunkId, keep: Keep) {
        let sorted = keep.live.windows(2).all(|pair| pair[0] < pair[1]);
        if keep.live.len() > MAX_SNAPSHOTS || !sorted || keep.to < keep.above {
            return self.invalid(asker, Problem::Snapshot);
        }
        let Some(key) = self.index.find(chunk) else {
            return self.answer(asker, AnswerBody::Done, Slice::default());
        };
        self.queue_keep(asker, key, keep);
    }

    fn queue_keep(&mut self, asker: Asker, key: ChunkKey, keep: Keep) {
        let chunk = self.index.chunk_mut(key);
        // From now on nobody changes it any more.
        chunk.deleting |= !keep.head;
        let op = Op {
            version: chunk.accepted,
            previous: chunk.accepted,
            ..Op::new(Change::Keep(Box::new(keep)), Some(asker), key)
        };
        self.queue(op);
    }

    /// Finds what is to be dropped next. `None`: not yet; `Some(false)`: the change has ended without.
    pub(super) fn prepare_keep(&mut self, key: OpSlot) -> Option<bool> {
        let op = self.ops.get(key);
        let chunk_key = op.chunk;
        let chunk = self.index.chunk(chunk_key);
        // What is accepted before it may make states, and its leaves change: wait until it is durable.
        if chunk.first_pending != key {
            return None;
        }
        let Change::Keep(keep) = &op.change else {
            unreachable!("the caller has looked");
        };
        let dead = chunk.dead_state(keep.above, keep.to, &keep.live);
        let dropping = match dead {
            Some(state) => state,
            // What would have made the chunk has come to nothing.
            None if !keep.head && !chunk.deleted && chunk.is_there() => SnapshotId::HEAD,
            None => {
                self.end_unlogged(key, Ok(AnswerBody::Done));
                return Some(false);
            }
        };
        // A snapshot since which the chunk was not changed has it as it is.
        let newest = keep.live.last();
        let newest = newest.filter(|&&newest| newest > chunk.snapshot && !chunk.incomplete);
        let kept_for = match dropping {
            SnapshotId::HEAD => newest.copied().unwrap_or_default(),
            _ => SnapshotId::HEAD,
        };
        let place = match dropping {
            SnapshotId::HEAD => None,
            to => self.index.state_to(chunk_key, to),
        };
        // A state that is made of the chunk takes its leaves as they are.
        if kept_for == SnapshotId::HEAD {
            let lost = |at: &Location| keep.has_lost(*at) && matches!(self.index.leaf(*at), Leaf::Away(_));
            let mut needed = self.index.needed_to_drop(chunk_key, place);
            needed.retain(|at| !lost(at));
            if !self.have_leaves(key, &needed) {
                return None;
            }
        }
        if let Change::Keep(keep) = &mut self.ops.get_mut(key).change {
            keep.dropping = Some(dropping);
            keep.kept_for = kept_for;
        }
        Some(true)
    }

    /// Does the chunk go, although one of its leaves is wrong? If somebody asks for it, he is told; if nobody does, nobody will
    /// ever mend it. What the leaf named is not known, and stays in use.
    pub(super) fn drops_wrong_leaf(&mut self, chunk: ChunkKey, at: Location) -> bool {
        let key = self.index.chunk(chunk).first_waiting;
        if key == OpSlot::NONE || at.chunk != chunk {
            return false;
        }
        match &mut self.ops.get_mut(key).change {
            Change::Keep(keep) if keep.swept => {
                keep.wrong.push(at);
                true
            }
            _ => false,
        }
    }

    /// Are these leaves here? Else they are read, and the change waits.
    pub(super) fn have_leaves(&mut self, key: OpSlot, needed: &[Location]) -> bool {
        let away = |at: &&Location| !matches!(self.index.leaf(**at), Leaf::Here | Leaf::Lost);
        let missing: Vec<Location> = needed.iter().filter(away).copied().collect();
        if missing.is_empty() {
            return true;
        }
        let chunk = self.ops.get(key).chunk;
        if let Ok(at) = self.want_leaves(&missing) {
            self.wait_for_leaf(at, super::leaf::Waiter::Chunk(chunk));
        }
        false
    }

    /// A state, or the chunk itself, is durably dropped.
    pub(super) fn apply_keep(&mut self, key: OpSlot, position: u64) {
        let op = self.ops.get_mut(key);
        let (chunk, asker) = (op.chunk, op.asker.take());
        let Change::Keep(keep) = std::mem::replace(&mut op.change, Change::Clear) else {
            unreachable!("the caller has looked");
        };
        self.ops.remove(key);
        self.unlogged_less(asker);
        let reads = self.space.window.next();
        let (held, freed) = (&mut self.space.map, &mut self.space.freed);
        let mut free = |slot| {
            if held.release(slot) {
                freed.push(slot, position, reads);
            }
        };
        self.env.counters.drops += 1;
        // Only now, as replay of the record does: until then the checkpoint's map and directory agree on its page.
        for &at in keep.wrong.iter().filter(|&&at| keep.has_lost(at)) {
            if matches!(self.index.leaf(at), Leaf::Away(_)) {
                self.index.lose(at);
            }
        }
        self.index.keep_for(chunk, keep.kept_for);
        self.index.drop_of(chunk, keep.dropping.unwrap_or_default(), &mut free);
        self.retire_pages();
        match asker {
            // There may be more of it.
            Some(asker) => self.queue_keep(
                asker,
                chunk,
                Keep {
                    dropping: None,
                    kept_for: SnapshotId::HEAD,
                    ..*keep
                },
            ),
            None if keep.swept => self.sweep_next(chunk),
            None => self.forget_if_nothing(chunk, position),
        }
    }

    /// A chunk of which nothing is left, and on which nothing is under way.
    pub(super) fn forget_if_nothing(&mut self, key: ChunkKey, position: u64) {
        let chunk = self.index.chunk(key);
        if chunk.deleted && chunk.state_count() == 0 && chunk.is_idle() {
            self.checkpoint.forgotten.push((chunk.id, position));
            self.index.forget(key);
        }
    }

    /// A change that came to nothing, or cannot be made, ends; those behind it go on.
    pub(super) fn end_unlogged(&mut self, key: OpSlot, result: Result<AnswerBody, Refusal>) {
        self.unlink(key);
        let op = self.ops.get_mut(key);
        let (chunk, asker, index_bytes, leaves) = (op.chunk, op.asker.take(), op.index_bytes, op.leaves);
        let keep = matches!(op.change, Change::Keep(_));
        let swept = matches!(&op.change, Change::Keep(keep) if keep.is_swept());
        self.space.claims.reserved -= u64::from(op.blocks);
        if keep && (result.is_err() || !self.index.chunk(chunk).is_there()) {
            self.index.chunk_mut(chunk).deleting = false;
        }
        self.space.claims.unapplied_bytes -= index_bytes;
        self.space.claims.unapplied_leaves -= u64::from(leaves);
        self.unlogged_less(asker);
        if let Some(asker) = asker {
            match result {
                Ok(body) => self.answer(asker, body, Slice::default()),
                Err(refusal) => self.refuse(asker, refusal),
            }
        }
        self.ops.remove(key);
        self.wake_reads(chunk);
        let stays = self.index.chunk(chunk).is_there() && !self.index.chunk(chunk).deleted;
        self.forget_if_nothing(chunk, self.log.applied);
        if swept {
            self.sweep_ended(!stays);
        }
    }

    pub(super) fn clone_chunk(&mut self, asker: Asker, chunk: ChunkId, from: ChunkId, at: SnapshotId) {
        if at == SnapshotId::HEAD || from.volume == chunk.volume {
            return self.invalid(asker, Problem::Snapshot);
        }
        if let Some(key) = self.index.find(chunk) {
            let known = self.index.chunk(key);
            if known.deleted {
                return self.invalid(asker, Problem::Snapshot);
            }
            if known.durable > Version::NONE {
                return self.answer(asker, AnswerBody::Done, Slice::default());
            }
            if known.first_pending != OpSlot::NONE {
                // It is being made.
                return self.refuse(asker, Refusal::Busy);
            }
        }
        let Some(origin) = self.index.find(from) else {
            return self.answer(asker, AnswerBody::Done, Slice::default());
        };
        let origin_chunk = self.index.chunk(origin);
        if origin_chunk.first_pending != OpSlot::NONE {
            return self.refuse(asker, Refusal::Busy);
        }
        if origin_chunk.incomplete || at <= self.index.unsure(origin) {
            return self.refuse(asker, Refusal::Incomplete);
        }
        let view = match origin_chunk.seen(at) {
            Seen::As(view) if origin_chunk.version(view) > Version::NONE => view,
            Seen::As(_) | Seen::Unborn => return self.answer(asker, AnswerBody::Done, Slice::default()),
            Seen::NotKept => return self.invalid(asker, Problem::Snapshot),
        };
        let version = origin_chunk.version(view);
        if version.generation() > asker.generation {
            return self.invalid(asker, Problem::Version);
        }
        if !self.clear_fits(PARTS as u32) {
            return self.refuse(asker, Refusal::NoSpace);
        }
        let key = self.index.touch(chunk);
        let change = CloneChange {
            from,
            at,
            origin: from,
            entries: Vec::new(),
        };
        let op = Op {
            version,
            previous: Version::NONE,
            index_bytes: WORST_BYTES_PER_CLEAR,
            leaves: PARTS as u32,
            ..Op::new(Change::Clone(Box::new(change)), Some(asker), key)
        };
        self.accept(op);
    }

    /// Takes over the entries of what is cloned. `None`: not yet; `Some(false)`: it cannot be made.
    pub(super) fn prepare_clone(&mut self, key: OpSlot) -> Option<bool> {
        let Change::Clone(change) = &self.ops.get(key).change else {
            unreachable!("the caller has looked");
        };
        let (from, at, version) = (change.from, change.at, self.ops.get(key).version);
        // What is under way on the origin would come before or after in the log without anybody knowing: the asker
        // comes again.
        let found = self.index.find(from).filter(|&origin| {
            let chunk = self.index.chunk(origin);
            chunk.first_pending == OpSlot::NONE
        });
        let seen = found.map(|origin| (origin, self.index.chunk(origin).seen(at)));
        let Some((origin, Seen::As(view))) = seen else {
            self.drop_from(key, Refusal::Busy);
            return Some(false);
        };
        if self.index.chunk(origin).version(view) != version {
            self.drop_from(key, Refusal::Busy);
            return Some(false);
        }
        let whole = BlockRange::new(0, MAX_BLOCKS_PER_CHUNK as u16);
        let missing: Vec<Location> = self.index.missing(origin, view, whole).collect();
        if !missing.is_empty() {
            let chunk = self.ops.get(key).chunk;
            match self.want_leaves(&missing) {
                Ok(at) => self.wait_for_leaf(at, super::leaf::Waiter::Chunk(chunk)),
                Err(lost) => {
                    self.drop_from(key, Refusal::Damaged { block: lost.0 });
                    return Some(false);
                }
            }
            return None;
        }
        let entries = self.index.entries_for_clone(origin, view);
        let first = self.index.origin(origin);
        if let Change::Clone(change) = &mut self.ops.get_mut(key).change {
            change.entries = entries;
            change.origin = first;
        }
        Some(true)
    }
}
