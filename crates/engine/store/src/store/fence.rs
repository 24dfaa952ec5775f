//! Fences: they wait for leases, for older writes, and for the log.

use super::change::Change;
use super::op::{Op, Ops};
use super::space::Space;
use super::{LinkId, Requester, Store, answer, space};
use crate::credits::AccountId;
use crate::faults::Fault;
use crate::fences::{Fences, Verdict};
use crate::format::record::Fence;
use crate::index::{ChunkKey, OpSlot};
use amita_reactor::Time;
use amita_types::message::{AnswerBody, FenceRequest, MAX_MEMBERS, Problem, Refusal, Scope};
use amita_types::{Generation, MAX_BLOCKS_PER_CHUNK, NodeId};

/// A fence that is not logged yet.
#[derive(Debug)]
pub(super) struct PendingFence {
    /// Whom to answer; nobody, where the link has closed.
    pub asker: Option<Requester>,
    fence: Fence,
    /// The leases to this generation were given back.
    given_back: Option<Generation>,
    /// When the leases that it waits for have run out; then it is counted in its volume.
    waits_until: Option<Time>,
}

pub(super) fn accept(store: &mut Store, from: Option<NodeId>, asker: Requester, scope: &Scope, request: FenceRequest) {
    if request.in_sync.len() + request.syncing.len() > MAX_MEMBERS {
        return store.env.invalid(asker, Problem::Members);
    }
    if from.is_some_and(|node| !may_own(store, node, scope, request.owner)) {
        return store.env.invalid(asker, Problem::Members);
    }
    let fence = Fence {
        volume: scope.volume,
        generation: scope.generation,
        owner: request.owner,
        group: scope.group,
        epoch: scope.epoch,
        blocks_per_chunk: request.blocks_per_chunk,
        in_sync: request.in_sync.into_iter().collect(),
        syncing: request.syncing.into_iter().collect(),
    };
    let named = fence.in_sync.contains(&store.env.id) || fence.syncing.contains(&store.env.id);
    if !named {
        return store.env.invalid(asker, Problem::Members);
    }
    if !fence.blocks_per_chunk.is_power_of_two() || u32::from(fence.blocks_per_chunk) > MAX_BLOCKS_PER_CHUNK {
        return store.env.invalid(asker, Problem::Range);
    }
    if fence.generation >= Generation::DELETED {
        return store.env.invalid(asker, Problem::Version);
    }
    if !space::fence_fits(store, fence.volume, fence.group) {
        return store.env.refuse(asker, Refusal::NoSpace);
    }
    store.ops.fences.push(PendingFence {
        asker: Some(asker),
        fence,
        given_back: request.given_back,
        waits_until: None,
    });
    advance(store);
}

/// Rule R14: a node fences for itself, and a generation has one owner.
fn may_own(store: &Store, node: NodeId, scope: &Scope, owner: NodeId) -> bool {
    let known = store.fences.find(scope.volume).map(|key| store.fences.volume(key));
    let anothers = known.is_some_and(|known| known.generation == scope.generation && known.owner != node);
    (owner == node && !anothers) || store.config.faults.has(Fault::AnyAsker)
}

/// Looks at each fence that is not logged yet: can it go on?
pub(super) fn advance(store: &mut Store) {
    let mut at = 0;
    while at < store.ops.fences.len() {
        let leases = !store.config.faults.has(Fault::NoLeaseWait);
        let pending = &store.ops.fences[at];
        let verdict = store
            .fences
            .judge(&pending.fence, pending.given_back, store.env.now, leases);
        let waits = match verdict {
            Verdict::Wait(until) => Some(until),
            _ => None,
        };
        count_waiting(&mut store.ops, &mut store.fences, at, waits);
        let early = store.config.faults.has(Fault::NoDrain);
        match verdict {
            Verdict::Drain if early => {}
            Verdict::Wait(_) | Verdict::Drain => {
                at += 1;
                continue;
            }
            Verdict::Equal | Verdict::Refuse(_) | Verdict::Log => {}
        }
        let pending = store.ops.fences.remove(at);
        match verdict {
            Verdict::Equal => acknowledge(store, pending.asker, &pending.fence),
            Verdict::Refuse(refusal) => {
                if let Some(asker) = pending.asker {
                    store.env.refuse(asker, refusal);
                }
            }
            _ if early => {
                store.fences.adopt(&pending.fence);
                acknowledge(store, pending.asker, &pending.fence);
                log(&mut store.ops, &mut store.space, None, pending.fence);
            }
            _ if store.config.faults.has(Fault::FenceNotPersisted) => {
                adopt(store, &pending.fence);
                acknowledge(store, pending.asker, &pending.fence);
            }
            _ => log(&mut store.ops, &mut store.space, pending.asker, pending.fence),
        }
    }
}

/// While a newer generation waits, the old owner is granted no further lease (rule R4).
fn count_waiting(ops: &mut Ops, fences: &mut Fences, at: usize, until: Option<Time>) {
    let pending = &mut ops.fences[at];
    let was = pending.waits_until.is_some();
    pending.waits_until = until;
    let volume = fences.find(pending.fence.volume);
    let Some(volume) = volume.map(|key| fences.volume_mut(key)) else {
        return;
    };
    match (was, until.is_some()) {
        (false, true) => volume.newer_waiting += 1,
        (true, false) => volume.newer_waiting -= 1,
        _ => {}
    }
}

pub(super) fn log(ops: &mut Ops, space: &mut Space, asker: Option<Requester>, fence: Fence) {
    space.claims.fences_logged += 1;
    let op = Op::new(Change::Fence(Box::new(fence)), asker, ChunkKey(u32::MAX));
    let key = ops.insert(op);
    ops.ready.push_back(key);
}

/// The fence is durable, and in log order everything that was accepted under an older generation is (rule R6).
pub(super) fn apply(store: &mut Store, key: OpSlot) {
    store.space.claims.fences_logged -= 1;
    let op = store.ops.get_mut(key);
    let asker = op.asker.take();
    let Change::Fence(fence) = op.change.take() else {
        unreachable!("the caller has looked");
    };
    store.ops.remove(key);
    adopt(store, &fence);
    acknowledge(store, asker, &fence);
}

fn adopt(store: &mut Store, fence: &Fence) {
    store.fences.adopt(fence);
    let volumes = fence.deleted().unwrap_or(fence.volume..=fence.volume);
    let in_flight = store.space.credits.supersede(&volumes, fence.generation);
    space::linger(store, in_flight);
    store.ops.rolls.drop_of(&volumes, fence.generation);
    store.ops.rolls.drop_before(fence.group, fence.epoch);
}

/// Answers a fence that is adopted, if somebody waits for that.
fn acknowledge(store: &mut Store, asker: Option<Requester>, fence: &Fence) {
    let Some(mut asker) = asker else { return };
    store.env.counters.fences += 1;
    asker.volume = store.fences.find(fence.volume);
    // One that a newer generation has overtaken gets nothing any more.
    if asker
        .volume
        .is_some_and(|volume| store.fences.volume(volume).generation <= fence.generation)
    {
        let account = AccountId::new(asker.link, asker.id);
        let ended = store.space.credits.open(account, fence.volume, fence.generation);
        space::linger(store, ended);
    }
    answer::give(store, asker, AnswerBody::Fenced);
}

impl Ops {
    pub fn fence_deadline(&self) -> Option<Time> {
        self.fences.iter().filter_map(|pending| pending.waits_until).min()
    }

    /// Fences of a closed link go on, but nobody is granted anything for them: it would never be given back (rule R7).
    pub fn forget_fence_askers(&mut self, link: LinkId) {
        for asker in self.fence_askers() {
            asker.take_if(|asker| asker.link == link);
        }
    }
}
