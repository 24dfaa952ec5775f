//! The changes of a chunk form a queue, from accepted to durable.
//!
//! A change is made ready when all before it are: log order is chunk order, because replay would otherwise find a
//! version before its predecessor. One that needs something from the disk makes those behind it wait. What cannot be
//! made ready is taken back with all that follow it; none of them was logged.

use super::change::Change;
use super::leaves::{LostLeaf, Waiter};
use super::op::Op;
use super::sweep::Trim;
use super::{Requester, Store, answer, join, leaves, mend, merge, read, snapshot, states};
use crate::credits::AccountId;
use crate::faults::Fault;
use crate::index::{ChunkKey, Location, OpSlot, View};
use amita_types::Version;
use amita_types::message::{AnswerBody, Refusal};

/// From here on the change is part of the chunk's history, unless what it needs from the disk is damaged.
pub(super) fn accept(store: &mut Store, mut op: Op) {
    let any = store.config.faults.has(Fault::AnyPredecessor);
    let chunk = store.index.chunk_mut(op.chunk);
    // The pair of this is looked at when the change is durable (`durable::check_applied`).
    assert!(
        any || (chunk.accepted.version == op.previous && op.version > op.previous),
        "a change from version {} to {} was accepted by a chunk that is at {}",
        op.previous,
        op.version,
        chunk.accepted.version
    );
    op.before = (chunk.accepted.snapshot, chunk.accepted.state);
    if op.snapshot > chunk.accepted.snapshot {
        if chunk.accepted.version > Version::NONE {
            chunk.accepted.state = chunk.accepted.version;
        }
        chunk.accepted.snapshot = op.snapshot;
    }
    chunk.accepted.version = op.version;
    chunk.accepted.set_last(Some((op.previous, op.length_bytes)));
    push(store, op);
}

/// Puts a change behind the others of its chunk.
pub(super) fn push(store: &mut Store, mut op: Op) {
    store.space.claims.accepted(&op.claim);
    if let Some(volume) = op.asker.and_then(|asker| asker.volume) {
        store.fences.volume_mut(volume).unlogged += 1;
    }
    let early = op.asker.take_if(|_| store.config.faults.has(Fault::AnswerAtOnce));
    if let Some(asker) = early {
        store.fences.logged(asker.volume);
    }
    let chunk = op.chunk;
    let key = store.ops.insert(op);
    if store.ops.enqueue(&mut store.index, key) {
        advance(store, chunk);
    }
    if let Some(asker) = early {
        answer::done(store, asker);
    }
}

/// A change that came to nothing, or cannot be made, ends; those behind it go on.
pub(super) fn end(store: &mut Store, key: OpSlot, result: Result<AnswerBody, Refusal>) {
    store.ops.unlink(&mut store.index, key);
    let op = store.ops.get_mut(key);
    let (chunk, asker) = (op.chunk, op.asker.take());
    let keep = matches!(op.change, Change::RetainSnapshots(_));
    let swept = swept(&op.change);
    let failed = result.is_err();
    store.space.claims.dropped(&op.claim);
    if keep && (result.is_err() || !store.index.chunk(chunk).is_there()) {
        store.index.chunk_mut(chunk).deleting = false;
    }
    store.fences.logged(asker.and_then(|asker| asker.volume));
    if let Some(asker) = asker {
        match result {
            Ok(body) => answer::give(store, asker, body),
            Err(refusal) => store.env.refuse(asker, refusal),
        }
    }
    store.ops.remove(key);
    read::wake(store, chunk);
    let stays = store.index.chunk(chunk).is_there() && !store.index.chunk(chunk).deleted;
    snapshot::forget_if_nothing(&mut store.checkpoint, &mut store.index, chunk, store.log.applied.page);
    match swept {
        Some(Swept::Chunk) => store.sweep.ended(!stays, &mut store.env.counters),
        Some(Swept::State) if failed => store.sweep.trimmed(chunk, Trim::Failed, &mut store.env.counters),
        Some(Swept::State) => store.sweep.trimmed(chunk, Trim::Nothing, &mut store.env.counters),
        None => {}
    }
}

/// What nobody has asked to be dropped.
#[derive(Clone, Copy)]
enum Swept {
    Chunk,
    State,
}

fn swept(change: &Change) -> Option<Swept> {
    match change {
        Change::RetainSnapshots(keep) if keep.is_swept() && keep.keeps_head() => Some(Swept::State),
        Change::RetainSnapshots(keep) if keep.is_swept() => Some(Swept::Chunk),
        _ => None,
    }
}

/// Lets the changes of a chunk go on, up to the first one that needs something from the disk.
pub(super) fn advance(store: &mut Store, chunk: ChunkKey) {
    loop {
        let key = store.index.chunk(chunk).queue.waiting;
        if key == OpSlot::NONE {
            return;
        }
        match prepare(store, key) {
            None => return,
            Some(false) => {}
            Some(true) => {
                store.index.chunk_mut(chunk).queue.waiting = store.ops.get(key).next;
                store.ops.ready.push_back(key);
            }
        }
    }
}

/// Makes a change ready to be logged: the leaves that it changes are in memory, and what it is merged with is.
/// `None`: not yet; `Some(false)`: it has ended, for good or ill.
fn prepare(store: &mut Store, key: OpSlot) -> Option<bool> {
    match &store.ops.get(key).change {
        Change::RetainSnapshots(_) => return snapshot::prepare_retain(store, key),
        Change::Clone(_) => return snapshot::prepare_clone(store, key),
        Change::Mend(_) => return mend::prepare(store, key),
        Change::Say(say) => return join::prepare_say(store, key, *say),
        Change::Join(_) => return Some(true),
        Change::Whole(ended) => return join::prepare_whole(store, key, *ended),
        Change::Frame(above, to, version) => return states::prepare_frame(store, key, (*above, *to), *version),
        Change::Put(_) => return states::prepare_put(store, key),
        Change::Close(to, version) => return states::prepare_close(store, key, *to, *version),
        Change::Mark(mark) => return states::prepare_mark(store, key, *mark),
        Change::Write(_) | Change::Clear(_) | Change::Roll(_) | Change::Fence(_) => {}
    }
    match have_changed_leaves(store, key) {
        Ok(true) => merge::merge(store, key).then_some(true),
        Ok(false) => None,
        Err(lost) => {
            drop_from(store, key, Refusal::Damaged { block: lost.0 });
            Some(false)
        }
    }
}

/// Are the leaves here that a change needs? Else they are read, and it waits.
pub(super) fn have_changed_leaves(store: &mut Store, key: OpSlot) -> Result<bool, LostLeaf> {
    let op = store.ops.get(key);
    let (chunk, range) = (op.chunk, op.change.range());
    let mut missing = store.index.missing(chunk, View::Head, range).peekable();
    let of_states = store.index.missing_of_states(chunk, range);
    if missing.peek().is_none() && of_states.is_empty() {
        return Ok(true);
    }
    let missing: Vec<Location> = missing.chain(of_states).collect();
    let at = leaves::want(&mut store.env, &mut store.index, &store.superblock, &missing)?;
    store.leaf_waits.push(&store.index, at, Waiter::Chunk(chunk));
    Ok(false)
}

/// A leaf that the first change of a chunk waits for cannot be read: the change cannot be made.
pub(super) fn leaf_failed(store: &mut Store, chunk: ChunkKey, lost: LostLeaf) {
    let key = store.index.chunk(chunk).queue.waiting;
    if key == OpSlot::NONE {
        return;
    }
    let refusal = Refusal::Damaged { block: lost.0 };
    if store.ops.get(key).change.is_aside() {
        end(store, key, Err(refusal));
        advance(store, chunk);
    } else {
        drop_from(store, key, refusal);
    }
}

/// Takes a change back that cannot be applied, and all that follow it: none of them has been logged.
pub(super) fn drop_from(store: &mut Store, key: OpSlot, refusal: Refusal) {
    let op = store.ops.get(key);
    let (chunk_key, previous, before) = (op.chunk, op.previous, op.before);
    let chunk = store.index.chunk_mut(chunk_key);
    assert_eq!(
        chunk.queue.waiting, key,
        "only the first that waits is being made ready"
    );
    chunk.accepted.version = previous;
    (chunk.accepted.snapshot, chunk.accepted.state) = before;
    chunk.accepted.set_last(None);
    chunk.queue.waiting = OpSlot::NONE;
    if chunk.queue.first == key {
        chunk.queue.first = OpSlot::NONE;
        chunk.queue.last = OpSlot::NONE;
    } else {
        let mut before = chunk.queue.first;
        while store.ops.get(before).next != key {
            before = store.ops.get(before).next;
        }
        store.ops.get_mut(before).next = OpSlot::NONE;
        store.index.chunk_mut(chunk_key).queue.last = before;
    }
    let mut refusal = Some(refusal);
    let mut next = key;
    while next != OpSlot::NONE {
        let dropped = next;
        let op = store.ops.get(dropped);
        let (asker, claim, resent) = (op.asker, op.claim, op.resent);
        let keep = matches!(op.change, Change::RetainSnapshots(_));
        let swept = swept(&op.change);
        let paid = matches!(op.change, Change::Write(_));
        let aside = op.change.is_aside() || matches!(op.change, Change::Join(_));
        next = op.next;
        store.space.claims.dropped(&claim);
        store.fences.logged(asker.and_then(|asker| asker.volume));
        let why = match refusal.take() {
            Some(why) => why,
            None if aside => Refusal::Busy,
            None => Refusal::WrongPredecessor { current: previous },
        };
        if keep {
            store.index.chunk_mut(chunk_key).deleting = false;
        }
        match swept {
            Some(Swept::Chunk) => store.sweep.ended(false, &mut store.env.counters),
            Some(Swept::State) => store.sweep.trimmed(chunk_key, Trim::Failed, &mut store.env.counters),
            None => {}
        }
        // What was kept for the change goes to whoever asked first and has an account still. Who sent it again counts
        // it as unused, too: he gets at least what he paid.
        let mut kept = if paid { claim.blocks } else { 0 };
        let mut refuse = |store: &mut Store, asker: Requester, back: u32| {
            if store
                .space
                .credits
                .refund(AccountId::new(asker.link, asker.id), back.max(kept))
            {
                kept = 0;
            }
            store.env.refuse(asker, why.clone());
        };
        if let Some(asker) = asker {
            refuse(store, asker, 0);
        }
        if resent {
            let mut from = 0;
            while let Some(resend) = store.ops.take_resend(dropped, &mut from) {
                refuse(store, resend.asker, resend.paid);
            }
        }
        store.ops.remove(dropped);
    }
    read::wake(store, chunk_key);
}
