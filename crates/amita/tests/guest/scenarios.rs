//! What a host does with a target. Each scenario leaves no connection behind when it succeeds.

pub mod absence;
pub mod access;
pub mod chap;
pub mod commands;
pub mod database;
pub mod disk;
pub mod fencing;
pub mod initiator;
pub mod moves;
pub mod paths;
pub mod postgres;
pub mod reservations;
pub mod snapshot;
