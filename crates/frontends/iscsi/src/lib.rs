//! iSCSI: hosts that have no NVMe/TCP get disks over any network: VMware, Windows, every Linux.
//!
//! Written from the specifications: RFC 7143 (the protocol) and RFC 7144 (what it adds for SAM-4 and SAM-5).
//!
//! * [`Catalog`] is what the cluster's settings say: immutable, made anew when they change. Any gateway can serve any target.
//! * [`Port`] is one core's side of the target: it has the catalog of the moment and the settings.
//! * [`IscsiFront`] is one connection: a [login](login), and then a session, which has that connection only.
//! * [`Hub`] is the node's register of sessions: it numbers them, and lets one end before it is reinstated.
//!
//! What a command means and what it answers is `amita-scsi`'s: here its data moves.
#![allow(missing_docs)]
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod catalog;
pub mod chap;
mod connection;
mod faults;
mod hub;
pub mod login;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod negotiation;
mod port;
mod session;
pub mod text;
mod wire;

pub use catalog::{Catalog, Initiator, Moved, Secret, TargetDetail, target_address};
pub use connection::IscsiFront;
pub use faults::{Fault, Faults};
pub use hub::{Call, Counts, Holder, Hub, MAX_SESSIONS, Party, Reply, Scope};
pub use negotiation::{Digests, Wishes};
pub use port::{Config, MAX_COMMANDS, Port};
pub use session::report::SessionReport;

use amita_frontend::Cx;

#[cfg(test)]
mod tests;
