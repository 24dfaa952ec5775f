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

pub mod admin;
mod catalog;
pub mod command;
mod hub;
mod port;
pub mod reservations;

pub use catalog::{Ana, Catalog, Gateway, HostAccess, Namespace, Secret, Subsystem};
pub use hub::{Call, Hub, Mouth, Word};
pub use port::{Config, Port};
