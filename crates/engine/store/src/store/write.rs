//! Requests of a volume's owner: what changes a chunk is checked and put in the order of its chunk (rules R1, R8).

use super::op::{Change as OpChange, Op, Resend, RollChange};
use super::roll::StagedRoll;
use super::snapshot::Keep;
use super::{Asker, Store};
use crate::credits::AccountId;
use crate::faults::Fault;
use crate::fences::Right;
use crate::format::PAGE_BYTES;
use crate::index::{ChunkFilter, LEAF_ENTRIES, OpSlot, PARTS, WORST_BYTES_PER_BLOCK, WORST_BYTES_PER_CLEAR};
use amita_reactor::Slice;
use amita_types::message::{
    AllocationRequest, AnswerBody, ChangesRequest, ChunksRequest, ClearRequest, CloneRequest, JoinRequest, MendRequest,
    OpenRequest, Problem, ReadRequest, Refusal, RequestBody, RetainRequest, RollRequest, Scope, SettleRequest, Sums,
    VerifyRequest, WholeRequest, WriteRequest,
};
use amita_types::{BLOCK_BYTES, BlockRange, ChunkId, MAX_IO_BYTES, SnapshotId, Version};

/// A write's place in its chunk and in time.
struct Write {
    chunk: ChunkId,
    offset_bytes: u32,
    length_bytes: u32,
    version: Version,
    previous: Version,
    snapshot: SnapshotId,
    sums: Sums,
}

/// What is asked to change, and from what to what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub chunk: ChunkId,
    pub version: Version,
    pub previous: Version,
    pub snapshot: SnapshotId,
}

/// What a change is to its chunk's history.
enum Admission {
    /// It follows the last one.
    Next,
    /// It was applied, and is durable.
    Durable,
    /// It was accepted and is not durable yet.
    Pending(OpSlot),
    /// It is neither.
    Wrong(Version),
    /// It names an older snapshot than the chunk's last change, or the volume is deleted.
    OldSnapshot,
}

impl Store {
    /// Everything but fences.
    pub(super) fn dispatch(&mut self, asker: Asker, scope: &Scope, right: Right, body: RequestBody, payload: Slice) {
        let serves = right.serves || self.config.faults.has(Fault::ServesSyncing);
        let serving = matches!(
            body,
            RequestBody::Read(_) | RequestBody::Allocation(_) | RequestBody::Roll(_) | RequestBody::Clone(_)
        );
        if !serves && serving {
            return self.refuse(asker, Refusal::Incomplete);
        }
        let blocks = right.blocks;
        let volume = scope.volume;
        let snapshot = scope.snapshot;
        let id = |index| ChunkId { volume, index };
        if self.is_going(volume, &body) {
            return self.refuse(asker, Refusal::Busy);
        }
        match body {
            RequestBody::Write(WriteRequest {
                chunk,
                offset_bytes,
                length_bytes,
                version,
                previous,
                sums,
            }) => {
                let write = Write {
                    chunk: id(chunk),
                    offset_bytes,
                    length_bytes,
                    version,
                    previous,
                    snapshot,
                    sums,
                };
                self.write(asker, blocks, write, payload);
            }
            RequestBody::Clear(ClearRequest {
                chunk,
                range,
                version,
                previous,
            }) => {
                let change = Asked {
                    chunk: id(chunk),
                    version,
                    previous,
                    snapshot,
                };
                self.clear(asker, blocks, change, range);
            }
            RequestBody::Roll(RollRequest {
                chunk,
                version,
                previous,
                entries,
                first,
                last,
            }) => {
                let staged = StagedRoll {
                    link: asker.link,
                    chunk: id(chunk),
                    group: scope.group,
                    epoch: scope.epoch,
                    generation: asker.generation,
                    version,
                    previous,
                    snapshot,
                    change: RollChange::default(),
                    at: self.env.now,
                };
                self.roll_part(asker, blocks, staged, &entries, first, last, payload);
            }
            RequestBody::Read(ReadRequest { chunk, range, least }) => {
                self.read(asker, blocks, id(chunk), snapshot, range, least)
            }
            RequestBody::Open(OpenRequest { chunk }) => self.open_chunk(asker, id(chunk), snapshot),
            RequestBody::Changes(ChangesRequest { chunk, since, from }) => {
                self.changes(asker, id(chunk), snapshot, since, from)
            }
            RequestBody::Allocation(AllocationRequest { chunk, least }) => {
                self.allocation(asker, id(chunk), snapshot, least)
            }
            RequestBody::Keep(RetainRequest {
                chunk,
                head,
                above,
                to,
                live,
            }) => self.keep(asker, id(chunk), Keep::new(head, above, to, live)),
            RequestBody::Clone(CloneRequest { chunk, origin, at }) => {
                let from = ChunkId {
                    volume: origin,
                    index: chunk,
                };
                self.clone_chunk(asker, id(chunk), from, at);
            }
            RequestBody::Join(JoinRequest { chunk, at }) => self.join(asker, right, id(chunk), at, snapshot),
            RequestBody::Mend(MendRequest { chunk, entries }) => self.mend(asker, blocks, id(chunk), entries, payload),
            RequestBody::Whole(WholeRequest { chunk, version }) => self.whole(asker, id(chunk), version),
            RequestBody::Verify(VerifyRequest { chunk, from, least }) => {
                self.verify(asker, blocks, id(chunk), snapshot, from, least);
            }
            RequestBody::Chunks(ChunksRequest {
                from,
                core,
                cores,
                groups,
            }) => {
                let filter = ChunkFilter { volume, groups, cores };
                self.list_chunks(asker, filter, scope.group.index, core, from);
            }
            RequestBody::Confirm => self.answer(asker, AnswerBody::Confirmed, Slice::default()),
            RequestBody::Settle(SettleRequest { want, back }) => self.settle(asker, want, back),
            RequestBody::Fence(_) => unreachable!("fences were taken before"),
        }
    }

    pub(super) fn invalid(&mut self, asker: Asker, what: Problem) {
        self.refuse(asker, Refusal::Invalid { what });
    }

    /// Rules R1 and R8: apply only onto exactly the predecessor; a resend is answered once the original is durable.
    fn admit(&self, asked: &Asked, length: u32) -> Admission {
        let &Asked {
            chunk,
            version,
            previous,
            snapshot,
        } = asked;
        let Some(key) = self.index.find(chunk) else {
            return match previous {
                Version::NONE => Admission::Next,
                _ if self.config.faults.has(Fault::AnyPredecessor) => Admission::Next,
                _ => Admission::Wrong(Version::NONE),
            };
        };
        let chunk = self.index.chunk(key);
        if version == chunk.accepted && chunk.last().is_some_and(|last| last != (previous, length)) {
            return Admission::Wrong(chunk.accepted);
        }
        // Within one generation a chunk's versions follow one another without gaps, and each was applied onto its
        // predecessor: an older one of the same generation is part of what is here.
        if version <= chunk.durable && version.generation() == chunk.durable.generation() {
            return Admission::Durable;
        }
        if version <= chunk.accepted {
            let mut pending = chunk.first_pending;
            while pending != OpSlot::NONE {
                let op = self.ops.get(pending);
                if (op.version, op.previous, op.length_bytes) == (version, previous, length) {
                    return Admission::Pending(pending);
                }
                pending = op.next;
            }
        }
        if chunk.deleted || chunk.deleting {
            return Admission::OldSnapshot;
        }
        if previous == chunk.accepted || self.config.faults.has(Fault::AnyPredecessor) {
            if snapshot < chunk.accepted_snapshot {
                return Admission::OldSnapshot;
            }
            return Admission::Next;
        }
        Admission::Wrong(chunk.accepted)
    }

    /// Answers what is no news; `true`: it follows the last change and is to be accepted. What comes again is paid for again,
    /// as its sender counts it: `blocks` of credits.
    pub(super) fn admitted(&mut self, asker: Asker, asked: &Asked, length: u32, blocks: u32) -> bool {
        let admission = self.admit(asked, length);
        let mut paid = 0;
        if matches!(admission, Admission::Durable | Admission::Pending(_)) && blocks > 0 {
            paid = self
                .space
                .credits
                .give_back(AccountId::new(asker.link, asker.id), blocks);
        }
        match admission {
            Admission::Next => return true,
            Admission::Wrong(current) => self.refuse(asker, Refusal::WrongPredecessor { current }),
            Admission::OldSnapshot => self.invalid(asker, Problem::Snapshot),
            Admission::Durable => {
                self.env.counters.resends += 1;
                self.answer(asker, AnswerBody::Done, Slice::default());
            }
            Admission::Pending(op) => {
                self.env.counters.resends += 1;
                if self.config.faults.has(Fault::ResendAtOnce) {
                    self.answer(asker, AnswerBody::Done, Slice::default());
                } else {
                    self.ops.get_mut(op).resent = true;
                    self.ops.resends.push(Resend { op, asker, paid });
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
            snapshot,
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
        if previous.next(asker.generation) != Some(version) || version <= previous {
            return self.invalid(asker, Problem::Version);
        }
        let asked = Asked {
            chunk,
            version,
            previous,
            snapshot,
        };
        let count = u32::from(range.count);
        if !self.admitted(asker, &asked, length_bytes, count) {
            return;
        }
        if !sums_match(&payload, offset_bytes, &sums) {
            return self.invalid(asker, Problem::Checksum);
        }
        if !self.charge(asker, count) {
            return self.refuse(asker, Refusal::NoSpace);
        }
        let key = self.index.touch(chunk);
        let op = Op {
            version,
            previous,
            snapshot,
            leaves: parts_of(range),
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

    fn clear(&mut self, asker: Asker, blocks: u32, asked: Asked, range: BlockRange) {
        let Asked {
            chunk,
            version,
            previous,
            snapshot,
        } = asked;
        if !range.is_inside(blocks) {
            return self.invalid(asker, Problem::Range);
        }
        if previous.next(asker.generation) != Some(version) || version <= previous {
            return self.invalid(asker, Problem::Version);
        }
        let length_bytes = u32::from(range.count) * BLOCK_BYTES;
        if !self.admitted(asker, &asked, length_bytes, 0) {
            return;
        }
        if !self.clear_fits(parts_of(range)) {
            // What is under way is counted at its worst, and takes less once it is in the index: the sequencer asks again.
            // To say that there is no space would cost a good store its place (R7).
            let passing = self.space.claims.unapplied_bytes > 0 || self.space_will_return();
            return self.refuse(asker, if passing { Refusal::Busy } else { Refusal::NoSpace });
        }
        let key = self.index.touch(chunk);
        let op = Op {
            version,
            previous,
            snapshot,
            range,
            length_bytes,
            index_bytes: WORST_BYTES_PER_CLEAR,
            leaves: parts_of(range),
            ..Op::new(OpChange::Clear, Some(asker), key)
        };
        self.accept(op);
    }

    /// From here on the change is part of the chunk's history, unless what it needs from the disk is damaged.
    pub(super) fn accept(&mut self, mut op: Op) {
        let any = self.config.faults.has(Fault::AnyPredecessor);
        let chunk = self.index.chunk_mut(op.chunk);
        // The pair of this is looked at when the change is durable (`check_applied`).
        assert!(
            any || (chunk.accepted == op.previous && op.version > op.previous),
            "a change from version {} to {} was accepted by a chunk that is at {}",
            op.previous,
            op.version,
            chunk.accepted
        );
        op.before = (chunk.accepted_snapshot, chunk.accepted_state);
        if op.snapshot > chunk.accepted_snapshot {
            if chunk.accepted > Version::NONE {
                chunk.accepted_state = chunk.accepted;
            }
            chunk.accepted_snapshot = op.snapshot;
        }
        chunk.accepted = op.version;
        chunk.set_last(Some((op.previous, op.length_bytes)));
        self.queue(op);
    }

    /// Puts a change behind the others of its chunk.
    pub(super) fn queue(&mut self, mut op: Op) {
        self.space.claims.unapplied_bytes += op.index_bytes;
        self.space.claims.unapplied_leaves += u64::from(op.leaves);
        if let Some(volume) = op.asker.and_then(|asker| asker.volume) {
            self.fences.volume_mut(volume).unlogged += 1;
        }
        let early = op.asker.take_if(|_| self.config.faults.has(Fault::AnswerAtOnce));
        if let Some(asker) = early {
            self.unlogged_less(Some(asker));
        }
        let key = self.ops.insert(op);
        self.enqueue(key);
        if let Some(asker) = early {
            self.answer(asker, AnswerBody::Done, Slice::default());
        }
    }

    /// The change is in the log, or dropped: a fence need not wait for it any more (rule R6).
    pub(super) fn unlogged_less(&mut self, asker: Option<Asker>) {
        self.fences.logged(asker.and_then(|asker| asker.volume));
    }

    /// Answers all who wait for a change that somebody else asked for.
    pub(super) fn answer_resends(&mut self, key: OpSlot, mut answer: impl FnMut(&mut Store, Resend)) {
        let mut at = 0;
        while at < self.ops.resends.len() {
            if self.ops.resends[at].op == key {
                let resend = self.ops.resends.swap_remove(at);
                answer(self, resend);
            } else {
                at += 1;
            }
        }
    }
}

/// How many leaves the blocks belong to.
pub(super) fn parts_of(range: BlockRange) -> u32 {
    let first = u32::from(range.first.0) / LEAF_ENTRIES as u32;
    let end = range.end().div_ceil(LEAF_ENTRIES as u32);
    (end - first).min(PARTS as u32)
}

/// Has every piece of the payload (what lies inside one block) the checksum that came with it?
fn sums_match(payload: &[u8], offset_bytes: u32, sums: &[u32]) -> bool {
    let head = PAGE_BYTES - offset_bytes as usize % PAGE_BYTES;
    let (head, rest) = payload.split_at(head.min(payload.len()));
    let pieces = std::iter::once(head).chain(rest.chunks(PAGE_BYTES));
    pieces.zip(sums).all(|(piece, &sum)| amita_types::crc32c(piece) == sum)
}
