//! What tests and tools share.
//!
//! * [`allocations`]: an allocator that counts.
//! * [`folder`]: temporary folders in memory.
//! * [`histogram`]: latencies, for measuring.
//! * [`loopback`]: addresses that nobody else takes.
//! * [`random`]: the same numbers from the same seed everywhere.

pub mod allocations;
pub mod folder;
pub mod histogram;
pub mod loopback;
pub mod random;

pub use random::Random;
