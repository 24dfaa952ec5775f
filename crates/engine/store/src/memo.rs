//! The memo: a copy of the cluster's metadata on every store, so that the metadata can be rebuilt from the disks alone.
//!
//! **The story.** The metadata is small, and lies elsewhere: in etcd, or in a file of its own. Where it is lost, the data
//! of every volume is whole and nobody can say whose it is. So each node writes what it knows of the metadata to each of
//! its stores, shortly after it changes; `amita recover --from-stores` reads it back. What is newer than the last copy (an
//! epoch, a generation) the store knows from its fences.
//!
//! **Mechanism.** The copy lies in chunks of a volume that no metadata names, [`VOLUME`], in two *places* that take turns:
//! while one is overwritten the other is whole. Each place begins with a page that says how long the content is, its
//! checksum, and its number; that page is written last. All of it goes through the store's ordinary requests, so it is
//! logged, checkpointed, checked and safe against power cuts as data is. The owner of the chunks is this state machine,
//! [`Writer`]: it asks the store that it belongs to, one request at a time, under [`GENERATION`].
//!
//! **Limits.** A place has [`PLACE_CHUNKS`] chunks. On a store without free space the copy grows old, and the writer tries
//! again; the fences do not.

mod page;
mod writer;

pub use page::{Head, PAGE_VERSION};
pub use writer::{Content, Found, MemoEvent, Writer};

use amita_types::{
    BlockIndex, ChunkIndex, Epoch, Generation, GroupId, GroupIndex, MAX_BLOCKS_PER_CHUNK, PoolId, VolumeId,
};

/// The volume whose chunks hold the memo. Numbers of volumes are given out from 1 on.
pub const VOLUME: VolumeId = VolumeId(u64::MAX);
/// The group that its chunks lie in.
pub const GROUP: GroupId = GroupId {
    pool: PoolId(u32::MAX),
    index: GroupIndex(0),
};
/// The generation under which it is written: whoever serves the store is its only owner.
pub const GENERATION: Generation = Generation(1);
/// The epoch of its group, whose only member is the store.
pub const EPOCH: Epoch = Epoch(1);
/// How many places take turns.
pub const PLACES: u64 = 2;
/// Chunks of a place: 64 MiB. Ten thousand volumes and 8,192 groups take 4.2 MiB of it.
pub const PLACE_CHUNKS: u64 = 16;
/// The longest content, in bytes: what is left of a place behind its first page.
pub const MAX_CONTENT_BYTES: u64 = (PLACE_CHUNKS * MAX_BLOCKS_PER_CHUNK as u64 - 1) * amita_types::BLOCK_BYTES as u64;

/// Is this group the memo's own?
#[must_use]
pub fn is_memo(group: GroupId) -> bool {
    group == GROUP
}

/// Where block `block` of a place is, its first page being block 0.
fn position(place: u64, block: u64) -> (ChunkIndex, BlockIndex) {
    let per_chunk = u64::from(MAX_BLOCKS_PER_CHUNK);
    (
        ChunkIndex(place * PLACE_CHUNKS + block / per_chunk),
        BlockIndex((block % per_chunk) as u16),
    )
}

/// Where block `block` of the content is.
pub(crate) fn content_position(place: u64, block: u64) -> (ChunkIndex, BlockIndex) {
    position(place, block + 1)
}

/// Where the first page of a place is.
pub(crate) fn head_position(place: u64) -> (ChunkIndex, BlockIndex) {
    position(place, 0)
}

#[cfg(test)]
mod tests;
