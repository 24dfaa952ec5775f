//! Encryption at rest (S14, S15): a write of an encrypted volume is encrypted when it has its version, and what a read has found is
//! decrypted when its checksums are right. `docs/decisions/078-blocks-are-encrypted-by-place-and-version.md` tells why it is so.
//!
//! A store merges what is not whole with what it has, which for ciphertext is noise. So a write that begins or ends inside a block goes
//! the way of a compare-and-write (`compare.rs`), which compares nothing: from its turn on no other write of the chunk gets a version,
//! what is around it is read, decrypted and put to it, and it is sequenced as one of whole blocks.

use super::answer::Misbehaved;
use super::context::Context;
use super::faults;
use super::owned::Owned;
use crate::faults::Fault;
use crate::table::{ChunkSlot, TaskSlot};
use crate::task::Write;
use amita_crypt::Keychain;
use amita_reactor::{BufMut, Pool, Slice};
use amita_types::message::Run;
use amita_types::{BLOCK_BYTES, BlockRange, Version};

/// Must what surrounds a write of this range be read before it has a version?
pub(super) fn needs_surroundings(cx: &Context, offset_bytes: u32, length_bytes: u32) -> bool {
    let faulty = cx.config.faults.has(Fault::MergeCiphertext);
    cx.owned.keys.is_some() && !is_whole(offset_bytes, length_bytes) && !faulty
}

fn is_whole(offset_bytes: u32, length_bytes: u32) -> bool {
    (offset_bytes | length_bytes).is_multiple_of(BLOCK_BYTES)
}

/// What is to be read next to make a write whole: both ends at once where nothing lies between them, else one that is not whole.
pub(super) fn surroundings(offset_bytes: u32, length_bytes: u32) -> BlockRange {
    let all = BlockRange::of_bytes(offset_bytes, length_bytes);
    if all.count <= 2 {
        return all;
    }
    match offset_bytes.is_multiple_of(BLOCK_BYTES) {
        true => BlockRange::of_bytes(offset_bytes + length_bytes - 1, 1),
        false => BlockRange::of_bytes(offset_bytes, 1),
    }
}

/// Puts to a write what it lacks of the blocks that were read, which lie at its ends; empty: they are zeros. Is it whole now?
pub(super) fn surround(pool: &Pool, write: &mut Write, range: BlockRange, blocks: &Slice) -> bool {
    let first = u32::from(range.first.0) * BLOCK_BYTES;
    let start = first.min(write.offset_bytes);
    let end = (range.end() * BLOCK_BYTES).max(write.offset_bytes + write.length_bytes);
    let mut whole = room(pool, (end - start) as usize);
    let (at, inside) = (
        (first - start) as usize,
        usize::from(range.count) * BLOCK_BYTES as usize,
    );
    match blocks.is_empty() {
        true => whole[at..at + inside].fill(0),
        false => whole[at..at + inside].copy_from_slice(blocks),
    }
    let at = (write.offset_bytes - start) as usize;
    whole[at..at + write.payload.len()].copy_from_slice(&write.payload);
    (write.offset_bytes, write.length_bytes) = (start, end - start);
    write.range = BlockRange::of_bytes(start, end - start);
    write.payload = whole.freeze();
    is_whole(write.offset_bytes, write.length_bytes)
}

/// S14: encrypts a write that has its version, for good: what is sent again is this ciphertext.
pub(super) fn seal(cx: &mut Context, slot: TaskSlot) {
    let Some(keys) = &cx.owned.keys else {
        return;
    };
    let index = cx.chunks[cx.tasks[slot].chunk()].index;
    let write = cx.tasks[slot].write();
    if write.clear {
        return;
    }
    if cx.config.faults.has(Fault::MergeCiphertext) && !is_whole(write.offset_bytes, write.length_bytes) {
        return faults::seal_part(keys, index, write);
    }
    assert!(
        is_whole(write.offset_bytes, write.length_bytes),
        "S15: what is not whole is no ciphertext"
    );
    let mut sealed = room(&cx.config.pool, write.payload.len());
    keys.seal((index, write.range), write.version, &write.payload, &mut sealed)
        .expect("whole blocks, under a generation of the newest key's");
    write.payload = sealed.freeze();
}

/// Decrypts what a member has read of these blocks, whose checksums are right; of a volume that is not encrypted it stays as it is.
///
/// # Errors
/// The versions are not such as a store can say.
pub(super) fn open(
    cx: &Context,
    chunk: ChunkSlot,
    range: BlockRange,
    (version, runs): (Version, &[Run]),
    payload: Slice,
) -> Result<Slice, Misbehaved> {
    let Some(keys) = cx.owned.keys.as_ref().filter(|_| !payload.is_empty()) else {
        return match runs.is_empty() {
            true => Ok(payload),
            false => Err(Misbehaved("versions of blocks that nobody has asked for".to_owned())),
        };
    };
    if let Some(run) = runs.iter().find(|run| run.version > version) {
        let newest = run.version;
        return Err(Misbehaved(format!("version {version}, and {newest} for some of it")));
    }
    let place = (cx.chunks[chunk].index, range);
    let mut plain = room(&cx.config.pool, payload.len());
    let opened = match cx.config.faults.has(Fault::DecryptHoles) {
        true => keys.open(place, &faults::fill_holes(runs, version), &payload, &mut plain),
        false => keys.open(place, runs, &payload, &mut plain),
    };
    opened.map_err(|error| Misbehaved(error.to_string()))?;
    Ok(plain.freeze())
}

/// Are these the volume's keys, and can it be written with them?
pub(super) fn check(owned: &Owned) {
    let keys = owned.keys.as_deref().map(Keychain::ring);
    assert_eq!(keys, owned.volume.keys.as_ref(), "the keys that the record names");
    assert!(
        keys.is_none_or(|ring| ring.newest().from <= owned.generation),
        "S14: the newest key is older than the generation"
    );
}

/// From the pool; what it has not is the allocator's. There is no more of it than of what comes in, which is bounded.
fn room(pool: &Pool, bytes: usize) -> BufMut {
    let taken = pool.take(bytes);
    taken.unwrap_or_else(|| Pool::heap().take(bytes).expect("the heap has no bound"))
}
