//! What tests and tools share.
//!
//! * [`allocations`]: an allocator that counts.
//! * [`folder`]: temporary folders in memory.
//! * [`fuzz`]: fuzz targets on stable, bounded.
//! * [`histogram`]: latencies, for measuring.
//! * [`linear`]: whether one order explains what the clients of a block saw: the only checker of histories.
//! * [`loopback`]: addresses that nobody else takes.
//! * [`random`]: the same numbers from the same seed everywhere.
//! * [`spoil`]: records that are nearly right.

pub mod allocations;
pub mod folder;
pub mod fuzz;
pub mod histogram;
pub mod linear;
pub mod loopback;
pub mod random;
pub mod spoil;

pub use random::Random;
