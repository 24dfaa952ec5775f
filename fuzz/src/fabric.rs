//! The fabric's targets, with the nodes and the simulated network that its tests have.

#[path = "../../crates/engine/fabric/tests/common/mod.rs"]
pub mod common;
#[path = "../../crates/engine/fabric/tests/fuzz/mod.rs"]
pub mod fuzz;
#[path = "../../crates/engine/fabric/tests/sim/world.rs"]
pub mod world;
