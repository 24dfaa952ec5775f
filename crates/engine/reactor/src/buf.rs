//! Payload memory: taken at start, aligned to pages, counted by reference, never copied between socket and disk.
//!
//! A [`Pool`] is one mapping cut into blocks of a few size classes. [`Pool::take`] hands out a block as a [`BufMut`],
//! which has its bytes to itself; its front becomes immutable [`Slice`]s, of which many may look at one block, from
//! any thread. The block returns to its pool with the last of them. Free blocks stand in one lock-free stack per
//! class, so that a slice may be dropped on another core than the one that took it; the stack is last in, first out,
//! so that a quiet pool touches little memory.
//!
//! A pool never grows: when it has nothing left, [`Pool::take`] says so and the caller waits (R7: what can run out is
//! settled before a write begins). [`Pool::heap`] has no bound and is for tests and the simulation, where a block is
//! given back to the allocator at once, so that its tools see a late access.

mod arena;
mod block;

pub use arena::{Pool, PoolConfig};
pub use block::{BufMut, Segments, Slice};

/// Every block starts at a multiple of this, in bytes: the strictest alignment that `O_DIRECT` asks for.
pub const BLOCK_ALIGNMENT: usize = 4096;

/// The largest run of [`Pool::zeros`], in bytes: the largest payload of one message.
pub const MAX_ZEROS_BYTES: usize = 128 << 10;

#[cfg(all(test, loom))]
mod interleavings;
#[cfg(all(test, not(loom)))]
mod tests;
