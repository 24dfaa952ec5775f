//! A request comes in: is the store there for it, is there room, has the asker the right? Then each kind goes its way.

use super::snapshot::Retained;
use super::{
    LinkId, Requester, Store, answer, differ, fence, inherit, join, list, mend, read, restore, roll, snapshot, space,
    states, sweep, verify, write,
};
use crate::credits::AccountId;
use crate::faults::Fault;
use crate::fences::Right;
use crate::{State, faults};
use amita_reactor::Slice;
use amita_reactor::buggify::{Point, buggify};
use amita_types::message::{AnswerBody, Refusal, Request, RequestBody, Scope};
use amita_types::{ChunkId, ChunkIndex, NodeId, SnapshotId};

/// Who asks, and of what: the right to it was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub asker: Requester,
    /// The node that the link leads to, where it is not vouched for otherwise.
    pub node: Option<NodeId>,
    pub scope: Scope,
    pub right: Right,
}

impl Caller {
    pub fn chunk(&self, index: ChunkIndex) -> ChunkId {
        let volume = self.scope.volume;
        ChunkId { volume, index }
    }

    /// The volume's newest snapshot, for what changes a chunk; the one to be read, for what reads.
    pub fn snapshot(&self) -> SnapshotId {
        self.scope.snapshot
    }

    /// How many blocks a chunk of the volume has.
    pub fn blocks(&self) -> u32 {
        self.right.blocks
    }
}

/// `from`: the node that the link leads to, where it is not vouched for otherwise.
pub(super) fn take(store: &mut Store, from: Option<NodeId>, link: LinkId, request: Request, payload: Slice) {
    let mut asker = Requester {
        link,
        id: request.id,
        volume: None,
        generation: request.scope.generation,
        received: store.env.now,
        trace: request.trace,
    };
    let refusal = match store.state {
        State::Serving if request.store == store.env.id => None,
        State::Serving | State::Refused(_) => Some(Refusal::NoSuchStore),
        State::Mounting => Some(Refusal::Busy),
        State::Poisoned(_) => Some(Refusal::Poisoned),
    };
    if let Some(refusal) = refusal {
        return store.env.refuse(asker, refusal);
    }
    if !has_room(store, &request.body) || buggify(Point::StoreBusy) {
        return store.env.refuse(asker, Refusal::Busy);
    }
    let body = match request.body {
        RequestBody::Fence(body) => return fence::accept(store, from, asker, &request.scope, body),
        body => body,
    };
    let scope = faults::let_in(store.config.faults, &store.fences, request.scope);
    let right = match store.fences.check(&scope) {
        Ok(right) => right,
        Err(refusal) => return store.env.refuse(asker, refusal),
    };
    // Rule R14: who knows the generation and the epoch is not the owner for that.
    let is_owner = from.is_none_or(|node| store.fences.volume(right.volume).owner == node);
    if !is_owner && !store.config.faults.has(Fault::AnyAsker) {
        return store.env.refuse(asker, Refusal::NotFenced);
    }
    asker.volume = Some(right.volume);
    let account = AccountId::new(link, request.id);
    let ended = store.space.credits.open(account, scope.volume, scope.generation);
    space::linger(store, ended);
    let caller = Caller {
        asker,
        node: from,
        scope,
        right,
    };
    dispatch(store, &caller, body, payload);
}

fn has_room(store: &Store, body: &RequestBody) -> bool {
    let most = store.config.max_requests;
    if matches!(body, RequestBody::Fence(_)) && !store.config.faults.has(Fault::FenceWaitsForRoom) {
        // Whoever takes over is let in whatever the old owners ask for: fences have room of their own.
        store.ops.fences.len() < most
    } else {
        store.waiting_requests() < most
    }
}

/// Everything but fences.
fn dispatch(store: &mut Store, caller: &Caller, body: RequestBody, payload: Slice) {
    let asker = caller.asker;
    let serves = caller.right.serves || store.config.faults.has(Fault::ServesSyncing);
    let serving = matches!(
        body,
        RequestBody::Read(_)
            | RequestBody::Allocation(_)
            | RequestBody::Differ(_)
            | RequestBody::Roll(_)
            | RequestBody::Clone(_)
    );
    if !serves && serving {
        return store.env.refuse(asker, Refusal::Incomplete);
    }
    if sweep::is_going(store, caller.scope.volume, &body) {
        return store.env.refuse(asker, Refusal::Busy);
    }
    match body {
        RequestBody::Write(request) => write::write(store, caller, request, payload),
        RequestBody::Clear(request) => write::clear(store, caller, request),
        RequestBody::Roll(request) => roll::part(store, caller, &request, payload),
        RequestBody::Read(request) => read::read(store, caller, &request),
        RequestBody::Open(request) => read::open(store, caller, &request),
        RequestBody::Changes(request) => read::changes(store, caller, &request),
        RequestBody::Allocation(request) => read::allocation(store, caller, &request),
        RequestBody::Differ(request) => differ::differ(store, caller, &request),
        RequestBody::RetainSnapshots(request) => {
            let chunk = caller.chunk(request.chunk);
            snapshot::keep(store, asker, chunk, Retained::asked(request));
        }
        RequestBody::Clone(request) => snapshot::clone_chunk(store, caller, &request),
        RequestBody::Inherit(request) => inherit::inherit(store, caller, &request),
        RequestBody::Join(request) => join::join(store, caller, &request),
        RequestBody::Mend(request) => mend::mend(store, caller, &request, &payload),
        RequestBody::Whole(request) => join::whole(store, caller, &request),
        RequestBody::Verify(request) => verify::verify(store, caller, &request),
        RequestBody::Chunks(request) => list::chunks(store, caller, &request),
        RequestBody::States(request) => {
            let chunk = caller.chunk(request.chunk);
            join::say(store, asker, chunk, join::Say::States(request.from));
        }
        RequestBody::Frame(request) => states::frame(store, caller, &request),
        RequestBody::Put(request) => states::put(store, caller, &request, &payload),
        RequestBody::Close(request) => states::close(store, caller, &request),
        RequestBody::Mark(request) => states::mark(store, caller, &request),
        RequestBody::Restore(request) => restore::restore(store, caller, &request, &payload),
        RequestBody::RenewLease => answer::give(store, asker, AnswerBody::LeaseRenewed),
        RequestBody::Settle(request) => space::settle(store, asker, request.want, request.back),
        RequestBody::Fence(_) => unreachable!("fences were taken before"),
    }
}
