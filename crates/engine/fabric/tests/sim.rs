//! Fabrics over the simulated network: what a network and hostile peers can do to them.

mod common;
#[path = "sim/world.rs"]
mod world;

#[cfg(feature = "planted")]
#[path = "sim/faults.rs"]
mod faults;
#[path = "sim/flood.rs"]
mod flood;
#[path = "sim/handshake.rs"]
mod handshake;
#[path = "sim/hostile.rs"]
mod hostile;
#[path = "sim/links.rs"]
mod links;
#[path = "sim/networks.rs"]
mod networks;
#[path = "sim/secure.rs"]
mod secure;
#[path = "sim/tampering.rs"]
mod tampering;
#[path = "sim/traffic.rs"]
mod traffic;
