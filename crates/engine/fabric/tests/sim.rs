//! Fabrics over the simulated network: what a network and hostile peers can do to them.

mod common;
#[path = "sim/world.rs"]
mod world;

#[path = "sim/fuzz.rs"]
mod fuzz;
#[path = "sim/handshake.rs"]
mod handshake;
#[path = "sim/hostile.rs"]
mod hostile;
#[path = "sim/links.rs"]
mod links;
#[cfg(feature = "planted")]
#[path = "sim/planted.rs"]
mod planted;
#[path = "sim/traffic.rs"]
mod traffic;
