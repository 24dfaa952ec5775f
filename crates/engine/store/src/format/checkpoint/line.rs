//! A state as one of several, which says what is not as in the one before.
//!
//! `form` (u8), `leaves` (u8), then what `form` says is there, then a [`RawLeaf`] for each bit of `leaves`; in a page of states
//! (`format::states`) then the parts that were cleared whole, where `form` says so. States follow one another from the
//! oldest to the newest; what one does not have is in the next one, or in the chunk.

use super::{Cleared, RawLeaf, StateItem, get_leaves, mask, put_leaves};
use crate::format::narrow;
use crate::index::PARTS;
use amita_types::{SnapshotId, Version};

/// `above` (u32) is there; else it is `to` of the line before.
const ABOVE: u8 = 1;
/// `to` (u32) is there; else it stands for one snapshot.
const TO: u8 = 2;
/// The version (u64) is there; else how much it is above that of the line before (u32).
const VERSION: u8 = 4;
/// It is being brought (S6), and serves nothing.
const OPEN: u8 = 8;
/// A mask (u8) and a version (u64) for each bit follow the leaves: parts of which every block was cleared by one write.
const CLEARED: u8 = 16;
/// All that an item of a checkpoint may have: what was cleared is an item of its own there.
pub const IN_ITEM: u8 = ABOVE | TO | VERSION | OPEN;
/// All that a page of states may have: what is open changes, and is in none.
pub const IN_PAGE: u8 = ABOVE | TO | VERSION | CLEARED;
/// Bytes of a line at most, without its parts.
pub const MOST_BYTES: usize = 2 + 4 + 4 + 8;
/// The same with them; of each it has a leaf, or it was cleared, or neither.
pub const LONGEST_BYTES: usize = MOST_BYTES + 1 + PARTS * RawLeaf::BYTES;
const _: () = assert!(RawLeaf::BYTES == size_of::<u64>());

/// Of the line before: up to which snapshot, and its version.
pub type Before = Option<(SnapshotId, Version)>;

/// Puts a state's line, which follows one like `before`, or none; returns its bytes.
pub fn put(item: &StateItem, cleared: &Cleared, before: Before, out: &mut [u8; LONGEST_BYTES]) -> usize {
    let (mut form, mut used) = (0, 2);
    let mut put = |bytes: &[u8]| {
        out[used..used + bytes.len()].copy_from_slice(bytes);
        used += bytes.len();
    };
    if before.is_none_or(|(to, _)| to != item.above) {
        form |= ABOVE;
        put(&item.above.0.to_le_bytes());
    }
    if item.above.0.checked_add(1) != Some(item.to.0) {
        form |= TO;
        put(&item.to.0.to_le_bytes());
    }
    let more = before.and_then(|(_, version)| item.version.0.checked_sub(version.0));
    match more.and_then(|more| u32::try_from(more).ok()) {
        Some(more) => put(&more.to_le_bytes()),
        None => {
            form |= VERSION;
            put(&item.version.0.to_le_bytes());
        }
    }
    if item.open {
        form |= OPEN;
    }
    put_leaves(&item.leaves, &mut out[used..]);
    used += item.leaves.len() * RawLeaf::BYTES;
    if !cleared.is_empty() {
        form |= CLEARED;
        out[used] = cleared.iter().fold(0, |mask, (part, _)| mask | 1 << part);
        used += 1;
        for (_, version) in cleared {
            out[used..used + 8].copy_from_slice(&version.0.to_le_bytes());
            used += 8;
        }
    }
    (out[0], out[1]) = (form, narrow(mask(&item.leaves) as usize));
    used
}

/// Takes the first line of a state off `rest`; `known` are the forms that may be there.
pub fn get(rest: &mut &[u8], before: Before, known: u8) -> Result<(StateItem, Cleared), &'static str> {
    const NO_FIRST: &str = "a state follows none";
    let [form, leaves] = take(rest)?;
    if form & !known != 0 {
        return Err("a state is of an unknown form");
    }
    let above = match form & ABOVE {
        0 => before.ok_or(NO_FIRST)?.0,
        _ => SnapshotId(u32::from_le_bytes(take(rest)?)),
    };
    let to = match form & TO {
        0 => above.0.checked_add(1).ok_or("a state stands for no snapshot")?,
        _ => u32::from_le_bytes(take(rest)?),
    };
    let version = match form & VERSION {
        0 => {
            let more = u64::from(u32::from_le_bytes(take(rest)?));
            let (_, version) = before.ok_or(NO_FIRST)?;
            version.0.checked_add(more).ok_or("a version is impossible")?
        }
        _ => u64::from_le_bytes(take(rest)?),
    };
    let bytes = leaves.count_ones() as usize * RawLeaf::BYTES;
    let (places, tail) = rest.split_at_checked(bytes).ok_or(CUT)?;
    *rest = tail;
    let mut cleared = Cleared::new();
    if form & CLEARED != 0 {
        let [parts] = take(rest)?;
        if parts & leaves != 0 || parts == 0 {
            return Err("a part of a state is there twice");
        }
        for part in (0..narrow::<u8>(PARTS)).filter(|part| parts >> part & 1 == 1) {
            cleared.push((part, Version(u64::from_le_bytes(take(rest)?))));
        }
    }
    let item = StateItem {
        version: Version(version),
        above,
        to: SnapshotId(to),
        open: form & OPEN != 0,
        leaves: get_leaves(u32::from(leaves), places)?,
    };
    Ok((item, cleared))
}

const CUT: &str = "a state is cut off";

fn take<const BYTES: usize>(rest: &mut &[u8]) -> Result<[u8; BYTES], &'static str> {
    let (bytes, tail) = rest.split_first_chunk().ok_or(CUT)?;
    *rest = tail;
    Ok(*bytes)
}
