//! The coordinator: liveness, eviction, placement of pools.
