//! NVMe over TCP: a host with nothing but its distribution's kernel connects, and gets a disk with several paths.
//!
//! Written from the specifications: NVM Express Base 2.1, NVM Command Set 1.1, NVMe over PCIe/Fabrics TCP Transport 1.1.
//!
//! * [`Catalog`] is what the cluster's settings say of subsystems, namespaces, hosts and gateways: immutable, made anew
//!   when they change. Any gateway can serve any of them.
//! * [`Port`] is one core's side of the target: it has the catalog of the moment and the settings.
//! * [`NvmeFront`] is one connection: a queue.
//! * [`Hub`] is the node's register of controllers: it numbers them, and tells their queues, which may be on different
//!   cores, when one is gone.
#![allow(missing_docs)]
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod admin;
pub mod auth;
mod catalog;
pub mod command;
mod connection;
pub mod failure;
mod hub;
mod io;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
mod port;
mod queue;
pub mod reservations;
pub mod tls;
mod wire;

pub use catalog::{Ana, Catalog, Gateway, HostAccess, Namespace, Secret, Subsystem};
pub use connection::NvmeFront;
pub use hub::{Answer, Call, Gate, Holder, Hub, MAX_CONTROLLERS, Party, Question, Reply, Shared};
pub use port::{Config, MAX_ENTRIES, MAX_QUEUES, MAX_TRANSFER_BYTES, Port};

use amita_frontend::Cx;
use amita_frontend::front::CloseReason;

#[cfg(test)]
mod tests;

/// A fatal error, as the log tells it.
fn fatal_reason(fatal: &wire::Fatal) -> CloseReason {
    CloseReason::Protocol(fatal.what)
}
