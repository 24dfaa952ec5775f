//! Fences: they wait for promises, for older writes, and for the log.

use super::op::{Change, Op};
use super::{Asker, LinkId, Store};
use crate::credits::AccountId;
use crate::faults::Fault;
use crate::fences::Verdict;
use crate::format::record::Fence;
use crate::index::{ChunkKey, OpSlot};
use amita_reactor::{Slice, Time};
use amita_types::message::{AnswerBody, MAX_MEMBERS, Problem, Refusal};
use amita_types::{Generation, MAX_BLOCKS_PER_CHUNK};

/// A fence that is not logged yet.
#[derive(Debug)]
pub(super) struct PendingFence {
    /// Whom to answer; nobody, where the link has closed.
    pub asker: Option<Asker>,
    fence: Fence,
    /// The promises to this generation were given back.
    given_back: Option<Generation>,
    /// When the promises that it waits for have run out; then it is counted in its volume.
    waits_until: Option<Time>,
}

impl Store {
    /// `given_back`: the generation whose promises need not be waited for.
    pub(super) fn fence(&mut self, asker: Asker, fence: Fence, given_back: Option<Generation>) {
        let named = fence.in_sync.contains(&self.env.id) || fence.syncing.contains(&self.env.id);
        if !named || fence.in_sync.len() + fence.syncing.len() > MAX_MEMBERS {
            return self.invalid(asker, Problem::Members);
        }
        if !fence.blocks_per_chunk.is_power_of_two() || u32::from(fence.blocks_per_chunk) > MAX_BLOCKS_PER_CHUNK {
            return self.invalid(asker, Problem::Range);
        }
        if fence.generation >= Generation::DELETED {
            return self.invalid(asker, Problem::Version);
        }
        if !self.fence_fits(fence.volume, fence.group) {
            return self.refuse(asker, Refusal::NoSpace);
        }
        self.ops.fences.push(PendingFence {
            asker: Some(asker),
            fence,
            given_back,
            waits_until: None,
        });
        self.advance_fences();
    }

    /// Looks at each fence that is not logged yet: can it go on?
    pub(super) fn advance_fences(&mut self) {
        let mut at = 0;
        while at < self.ops.fences.len() {
            let promises = !self.config.faults.has(Fault::NoPromiseWait);
            let pending = &self.ops.fences[at];
            let verdict = self
                .fences
                .judge(&pending.fence, pending.given_back, self.env.now, promises);
            let waits = match verdict {
                Verdict::Wait(until) => Some(until),
                _ => None,
            };
            self.count_waiting(at, waits);
            let early = self.config.faults.has(Fault::NoDrain);
            match verdict {
                Verdict::Drain if early => {}
                Verdict::Wait(_) | Verdict::Drain => {
                    at += 1;
                    continue;
                }
                Verdict::Equal | Verdict::Refuse(_) | Verdict::Log => {}
            }
            let pending = self.ops.fences.remove(at);
            match verdict {
                Verdict::Equal => self.answer_fence(pending.asker, &pending.fence),
                Verdict::Refuse(refusal) => {
                    if let Some(asker) = pending.asker {
                        self.refuse(asker, refusal);
                    }
                }
                _ if early => {
                    self.fences.adopt(&pending.fence);
                    self.answer_fence(pending.asker, &pending.fence);
                    self.log_fence(None, pending.fence);
                }
                _ if self.config.faults.has(Fault::FenceNotPersisted) => {
                    self.adopt_fence(&pending.fence);
                    self.answer_fence(pending.asker, &pending.fence);
                }
                _ => self.log_fence(pending.asker, pending.fence),
            }
        }
    }

    /// While a newer generation waits, the old owner is given no further promise (rule R4).
    fn count_waiting(&mut self, at: usize, until: Option<Time>) {
        let pending = &mut self.ops.fences[at];
        let was = pending.waits_until.is_some();
        pending.waits_until = until;
        let volume = self.fences.find(pending.fence.volume);
        let Some(volume) = volume.map(|key| self.fences.volume_mut(key)) else {
            return;
        };
        match (was, until.is_some()) {
            (false, true) => volume.newer_waiting += 1,
            (true, false) => volume.newer_waiting -= 1,
            _ => {}
        }
    }

    pub(super) fn fence_deadline(&self) -> Option<Time> {
        self.ops.fences.iter().filter_map(|pending| pending.waits_until).min()
    }

    pub(super) fn log_fence(&mut self, asker: Option<Asker>, fence: Fence) {
        self.space.claims.fences_logged += 1;
        let op = Op::new(Change::Fence(Box::new(fence)), asker, ChunkKey(u32::MAX));
        let key = self.ops.insert(op);
        self.ops.ready.push_back(key);
    }

    /// The fence is durable, and in log order everything that was accepted under an older generation is (rule R6).
    pub(super) fn apply_fence(&mut self, key: OpSlot) {
        self.space.claims.fences_logged -= 1;
        let op = self.ops.get_mut(key);
        let asker = op.asker.take();
        let Change::Fence(fence) = std::mem::replace(&mut op.change, Change::Clear) else {
            unreachable!("the caller has looked");
        };
        self.ops.remove(key);
        self.adopt_fence(&fence);
        self.answer_fence(asker, &fence);
    }

    /// Fences of a closed link go on, but nobody is granted anything for them: it would never be given back (rule R7).
    pub(super) fn forget_fence_askers(&mut self, link: LinkId) {
        for asker in self.ops.fence_askers() {
            asker.take_if(|asker| asker.link == link);
        }
    }

    fn adopt_fence(&mut self, fence: &Fence) {
        self.fences.adopt(fence);
        let volumes = fence.deleted().unwrap_or(fence.volume..=fence.volume);
        let in_flight = self.space.credits.supersede(&volumes, fence.generation);
        self.linger(in_flight);
        self.drop_staged(&volumes, fence.generation);
        self.drop_staged_before(fence.group, fence.epoch);
    }

    /// Answers a fence that is adopted, if somebody waits for that.
    fn answer_fence(&mut self, asker: Option<Asker>, fence: &Fence) {
        let Some(mut asker) = asker else { return };
        self.env.counters.fences += 1;
        asker.volume = self.fences.find(fence.volume);
        // One that a newer generation has overtaken gets nothing any more.
        if asker
            .volume
            .is_some_and(|volume| self.fences.volume(volume).generation <= fence.generation)
        {
            let account = AccountId::new(asker.link, asker.id);
            let ended = self.space.credits.open(account, fence.volume, fence.generation);
            self.linger(ended);
        }
        self.answer(asker, AnswerBody::Fenced, Slice::default());
    }
}
