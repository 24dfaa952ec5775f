//! Sub-block writes are merged with what was there.
//!
//! What is merged with a change that is not durable yet takes it from memory; else the block is read (rule D7: what is rotten
//! never gets a fresh checksum).

use super::change::Change;
use super::io::Io;
use super::{Store, queue, space};
use crate::State;
use crate::faults::Fault;
use crate::format::PAGE_BYTES;
use crate::index::{OpSlot, View};
use amita_reactor::{BufMut, Slice};
use amita_types::BlockIndex;
use amita_types::message::Refusal;
use std::io;

/// Merges the first and the last block of a write where they are not whole. `false`: not possible yet.
pub(super) fn merge(store: &mut Store, key: OpSlot) -> bool {
    let op = store.ops.get(key);
    let partial = match &op.change {
        Change::Write(write) => [write.partial(0), write.partial(1)],
        _ => [None, None],
    };
    if partial == [None, None] {
        store.ops.bind_sums(&store.index, key);
        return true;
    }
    if matches!(&op.change, Change::Write(write) if write.merge.is_none()) {
        find_bases(store, key, partial.map(|part| part.map(|(at, ..)| at)));
    }
    let write = store.ops.get_mut(key).change.write_mut();
    let merge = write.merge.as_mut().expect("its bases were looked for");
    if merge.reading > 0 {
        return false;
    }
    for (which, part) in partial.into_iter().enumerate() {
        let Some((at, first, bytes, from)) = part else { continue };
        let mut block = merge.base[which].take().expect("every base was found");
        block[first..first + bytes].copy_from_slice(&write.payload[from..from + bytes]);
        write.sums[usize::from(at)] = amita_types::crc32c(&block);
        merge.merged[which] = block.freeze();
    }
    store.ops.bind_sums(&store.index, key);
    true
}

/// Finds what a sub-block write is merged with: a change of the chunk that is not durable yet, the disk, or zeros.
/// All changes before it are prepared, so that their blocks are whole.
fn find_bases(store: &mut Store, key: OpSlot, partial: [Option<u16>; 2]) {
    store.env.counters.merges += 1;
    let mut merge = store.ops.merge();
    for (which, at) in partial.into_iter().enumerate() {
        let Some(at) = at else { continue };
        let op = store.ops.get(key);
        let chunk = op.chunk;
        let block = BlockIndex(op.change.range().first.0 + at);
        let mut buffer = store.env.take_surely(PAGE_BYTES);
        if let Some(slice) = store.ops.pending_block(store.index.chunk(chunk), key, block) {
            fill(&mut buffer, &slice);
        } else {
            let entry = store.index.entry(chunk, View::Head, block);
            if entry.has_data() {
                let window = store.space.window.begin();
                let sum = store.index.place(chunk).bind(block, entry.sum);
                merge.reading += 1;
                merge.base_sum[which] = sum;
                let offset = store.superblock.geometry.slot_offset(entry.slot);
                store
                    .env
                    .start_read(Io::Base { op: key, which, window }, offset, buffer);
                continue;
            }
            buffer.fill(0);
        }
        merge.base[which] = Some(buffer);
    }
    store.ops.get_mut(key).change.write_mut().merge = Some(merge);
}

/// A block that a write is merged with has been read.
pub(super) fn base_done(
    store: &mut Store,
    key: OpSlot,
    which: usize,
    window: u64,
    buffer: BufMut,
    result: io::Result<()>,
) {
    if !matches!(store.state, State::Serving) {
        return;
    }
    store.space.window.end(window);
    let unchecked = store.config.faults.has(Fault::SumUnchecked) || store.config.faults.has(Fault::FreshSum);
    let op = store.ops.get_mut(key);
    let chunk = op.chunk;
    let write = op.change.write_mut();
    let merge = write.merge.as_mut().expect("it waits for its bases");
    let whole = result.is_ok() && (amita_types::crc32c(&buffer) == merge.base_sum[which] || unchecked);
    merge.reading -= 1;
    merge.base[which] = Some(buffer);
    if !whole {
        // Rule D7: a rotten block never gets a fresh checksum.
        let last = if which == 0 { 0 } else { write.range.count - 1 };
        merge.damaged = Some(BlockIndex(write.range.first.0 + last));
        store.env.counters.damaged += 1;
    }
    if merge.reading > 0 {
        return;
    }
    match merge.damaged {
        Some(block) => queue::drop_from(store, key, Refusal::Damaged { block }),
        None => queue::advance(store, chunk),
    }
    space::reclaim(store);
}

fn fill(buffer: &mut BufMut, slice: &Slice) {
    if slice.is_empty() {
        buffer.fill(0);
    } else {
        buffer.copy_from_slice(slice);
    }
}
