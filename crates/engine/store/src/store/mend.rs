//! Entries are replaced one by one, each only where it is exactly as the asker expects (rule R5): what brings a store up to
//! date, and what repairs a block that has rotted (rule D7).
//!
//! A mend stands among the changes of its chunk in their order, and gives the chunk no version. What it meets is decided
//! when all before it are made ready: then it is known what each of them makes of a block, though they may not be durable.

use super::change::{Change, RollChange};
use super::op::Op;
use super::request::Caller;
use super::space::Claim;
use super::{Store, answer, queue, roll, space};
use crate::faults::Fault;
use crate::format::record::RollEntry;
use crate::format::{PAGE_BYTES, Slot};
use crate::index::{OpSlot, WORST_BYTES_PER_BLOCK};
use crate::store::write::parts_of;
use amita_reactor::Slice;
use amita_types::message::{AnswerBody, Expect, MAX_CHANGES, Mend, MendRequest, MendedAnswer, Problem, Refusal};
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, Version};

/// Entries that are to be replaced, with what is expected of those that are there.
#[derive(Debug, Default)]
pub(super) struct MendChange {
    /// All that was asked for; once it is ready, those only that are replaced.
    pub change: RollChange,
    expect: Vec<Expect>,
    /// Blocks that were not as expected.
    pub skipped: Vec<BlockIndex>,
}

pub(super) fn mend(store: &mut Store, caller: &Caller, request: &MendRequest, payload: &Slice) {
    let (asker, entries) = (caller.asker, &request.entries);
    let with_data = entries.iter().filter(|entry| entry.sum.is_some()).count();
    if entries.len() > MAX_CHANGES || payload.len() != with_data * PAGE_BYTES {
        return store.env.invalid(asker, Problem::Length);
    }
    let sorted = entries.windows(2).all(|pair| pair[0].block < pair[1].block);
    if !sorted || entries.iter().any(|entry| u32::from(entry.block.0) >= caller.blocks()) {
        return store.env.invalid(asker, Problem::Range);
    }
    let found = store.index.find(caller.chunk(request.chunk));
    // What a whole chunk holds is not above its version: only one that is incomplete may hold what comes later.
    let limit = match found {
        None => Some(Version::NONE),
        Some(key) if store.ops.incomplete(&store.index, key).is_none() => Some(store.index.chunk(key).accepted.version),
        Some(_) => None,
    };
    let wrong = |entry: &Mend| {
        let never_with_data = entry.version == Version::NONE && entry.sum.is_some();
        let above = limit.is_some_and(|limit| entry.version > limit);
        never_with_data || above || entry.version.generation() > asker.generation
    };
    if entries.iter().any(wrong) {
        return store.env.invalid(asker, Problem::Version);
    }
    if !roll::sums_match(payload, entries.iter().filter_map(|entry| entry.sum)) {
        return store.env.invalid(asker, Problem::Checksum);
    }
    let (Some(key), Some(first), Some(last)) = (found, entries.first(), entries.last()) else {
        // There is no such chunk, and nothing is what is wanted of it; or nothing is asked for.
        let skipped = Vec::new();
        return answer::give(store, asker, AnswerBody::Mended(MendedAnswer { skipped }));
    };
    let known = store.index.chunk(key);
    if known.deleted || known.deleting {
        return store.env.invalid(asker, Problem::Snapshot);
    }
    // A lost leaf cannot be put together from pieces: which slots it held is not known, so that they would be in use for
    // good, and half of a leaf is not known either. Such a chunk is made anew from its other copies.
    if let Some(lost) = entries.iter().find(|entry| entry.expect == Expect::Lost) {
        return store.env.refuse(asker, Refusal::Damaged { block: lost.block });
    }
    let accepted = known.accepted.version;
    let range = BlockRange::new(first.block.0, last.block.0 - first.block.0 + 1);
    if !space::charge_mend(store, with_data as u32) {
        return store.env.refuse(asker, Refusal::NoSpace);
    }
    let mut change = MendChange::default();
    let mut data = 0;
    for entry in entries {
        change.expect.push(entry.expect);
        change.change.with_data.push(entry.sum.is_some());
        change.change.entries.push(RollEntry {
            block: entry.block,
            version: entry.version,
            slot: Slot::NONE,
            sum: entry.sum.unwrap_or(0),
        });
        if entry.sum.is_some() {
            change
                .change
                .payload
                .push(payload.slice(data * PAGE_BYTES..(data + 1) * PAGE_BYTES));
            data += 1;
        }
    }
    store.index.chunk_mut(key).loose_soon = true;
    let op = Op {
        version: accepted,
        previous: accepted,
        length_bytes: with_data as u32 * BLOCK_BYTES,
        claim: Claim {
            blocks: with_data as u32,
            index_bytes: entries.len() as u64 * WORST_BYTES_PER_BLOCK,
            leaves: parts_of(range),
            shared: 0,
        },
        ..Op::new(Change::Mend(Box::new(change)), Some(asker), key)
    };
    queue::push(store, op);
}

/// Decides which entries are replaced. `None`: not yet; `Some(false)`: none is.
pub(super) fn prepare(store: &mut Store, key: OpSlot) -> Option<bool> {
    match queue::have_changed_leaves(store, key) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(lost) => {
            let block = store.ops.get(key).change.range().first.max(lost.0);
            queue::end(store, key, Err(Refusal::Damaged { block }));
            return Some(false);
        }
    }
    let chunk = store.ops.get(key).chunk;
    if store.ops.waits_for_clone(store.index.chunk(chunk), key) {
        return None;
    }
    let Change::Mend(mend) = store.ops.get_mut(key).change.take() else {
        unreachable!("the caller has looked");
    };
    let anything = store.config.faults.has(Fault::MendsAnything);
    let (mut kept, mut skipped) = (MendChange::default(), Vec::new());
    let mut payload = mend.change.payload.iter();
    for ((entry, expect), &with_data) in mend.change.entries.iter().zip(&mend.expect).zip(&mend.change.with_data) {
        let data = with_data.then(|| payload.next().expect("a block for each entry that has data"));
        let (version, sum) = store.ops.accepted_entry(&store.index, chunk, key, entry.block);
        if as_expected(*expect, version, sum) || anything {
            kept.change.entries.push(*entry);
            kept.change.with_data.push(with_data);
            kept.change.payload.extend(data.cloned());
            kept.expect.push(*expect);
        } else if (version, sum) != (entry.version, with_data.then_some(entry.sum)) {
            skipped.push(entry.block);
        }
    }
    let data = kept.change.payload.len() as u32;
    if kept.change.entries.is_empty() {
        // Said when what it was decided by is durable.
        if store.index.chunk(chunk).queue.first != key {
            store.ops.get_mut(key).change = Change::Mend(mend);
            return None;
        }
        queue::end(store, key, Ok(AnswerBody::Mended(MendedAnswer { skipped })));
        return Some(false);
    }
    kept.skipped = skipped;
    let op = store.ops.get_mut(key);
    store.space.claims.reserved -= u64::from(op.claim.blocks - data);
    op.claim.blocks = data;
    op.change = Change::Mend(Box::new(kept));
    store.ops.bind_sums(&store.index, key);
    Some(true)
}

/// Is an entry what the asker expects?
fn as_expected(expect: Expect, version: Version, sum: Option<u32>) -> bool {
    match expect {
        Expect::Entry {
            version: expected,
            sum: expected_sum,
        } => (version, sum) == (expected, expected_sum),
        Expect::Upto { version: newest } => version <= newest,
        Expect::Lost => false,
    }
}
