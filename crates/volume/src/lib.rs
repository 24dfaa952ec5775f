//! The sequencer: opens, orders, fences, reads, takes over.
