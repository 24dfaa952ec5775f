//! One file a command.

pub mod disk;
pub mod meta;
pub mod node;
pub mod pool;
pub mod serve;

pub mod status;
pub mod store;
pub mod volume;
