//! Which volumes are certainly not encrypted: no store knows it of any, and their blocks tell.

use amita_store::offline::{ChunkLook, Offline, ReadAt};
use amita_types::{SnapshotId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

/// So many blocks of a volume are read at most, 4 MiB.
const BLOCKS: usize = 1024;
/// A block is not ciphertext if one value is this often among its 4,096 bytes. In ciphertext a value is there 16 times on average, and 80 times
/// or more in less than one of 2^93 blocks (Chernoff: e^-64.8); one of the 256 in less than one of 2^85.
const TOO_OFTEN: u16 = 80;

/// Those of these volumes that have a block in this store that no cipher has made.
pub(super) fn volumes<R: ReadAt>(offline: &Offline<R>, is_asked: impl Fn(VolumeId) -> bool) -> BTreeSet<VolumeId> {
    let mut chunks: BTreeMap<VolumeId, Vec<ChunkLook>> = BTreeMap::new();
    for look in offline.chunks() {
        // What is not its own is another volume's.
        if look.origin == look.chunk && is_asked(look.chunk.volume) {
            chunks.entry(look.chunk.volume).or_default().push(look);
        }
    }
    let mut plain = BTreeSet::new();
    for (volume, mut chunks) in chunks {
        chunks.sort_unstable_by_key(|look| look.chunk.index);
        if is_volume_plain(offline, &chunks) {
            plain.insert(volume);
        }
    }
    plain
}

fn is_volume_plain<R: ReadAt>(offline: &Offline<R>, chunks: &[ChunkLook]) -> bool {
    let parts = chunks.iter().flat_map(|look| {
        let parts = offline.entries(look.chunk, SnapshotId::HEAD).unwrap_or_default();
        // A part that cannot be read tells nothing.
        let blocks = parts.into_iter().filter_map(Result::ok).flatten();
        blocks.map(move |(block, entry)| (look.origin, block, entry))
    });
    parts
        .filter(|(.., entry)| entry.has_data())
        .take(BLOCKS)
        .filter_map(|(origin, block, entry)| offline.content(origin, block, entry))
        .any(|content| is_plain(&content))
}

fn is_plain(block: &[u8]) -> bool {
    let mut counts = [0_u16; 256];
    for &byte in block {
        counts[usize::from(byte)] += 1;
    }
    counts.iter().any(|&count| count >= TOO_OFTEN)
}

#[cfg(test)]
mod tests;
