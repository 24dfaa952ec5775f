//! The map of a cluster and the words of its data path: pure types and pure functions.
//!
//! Nothing here does I/O, reads a clock or draws a random number. Every other crate speaks in these types, so that no
//! bare integer crosses a module's border.
#![deny(unsafe_code, clippy::cast_possible_truncation)]
#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod capability;
mod changed;
pub mod condition;
pub mod holdings;
pub mod id;
pub mod io;
pub mod iscsi_name;
pub mod layout;
pub mod link;
pub mod map;
pub mod message;
pub mod name;
pub mod placement;
pub mod recovery;
pub mod sum;
pub mod trace;
pub mod version;

pub use id::{
    ClusterId, Epoch, Generation, GroupId, GroupIndex, MirrorEpoch, MirrorId, NodeId, PoolId, RequestId, SetId,
    SnapshotId, StoreId, VolumeId,
};
pub use layout::{
    BLOCK_BYTES, BlockIndex, BlockRange, ChunkId, ChunkIndex, MAX_BLOCKS_PER_CHUNK, MAX_IO_BLOCKS, MAX_IO_BYTES,
};
pub use sum::crc32c;
pub use trace::TraceId;
pub use version::{MAX_AHEAD, Version};
