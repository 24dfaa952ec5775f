//! What a sequencer knows of stores, groups and chunks.

mod chunk;
mod group;
mod store;

pub(super) use chunk::{Chunk, ChunkState};
pub(super) use group::{Group, GroupState};
pub(super) use store::{Ask, IDLE, Store};
