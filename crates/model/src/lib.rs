//! The rules of replication as a model, checked exhaustively at small sizes.
#![deny(unsafe_code)]
#![allow(missing_docs)]

pub mod config;
pub mod history;
pub mod metadata;
pub mod model;
pub mod pack;
pub mod read;
pub mod resync;
pub mod sequencer;
pub mod state;
pub mod store;
