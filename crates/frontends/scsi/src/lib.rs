//! SCSI without a transport: what a command of a host means, and what is answered.
//!
//! Written from the specifications: SAM-5 (nexuses, unit attentions), SPC-4 (commands and pages of every device, persistent
//! reservations, asymmetric access, third-party copies), SBC-3 (disks), and SBC-4 for WRITE ATOMIC. Rules are cited by the titles
//! of their clauses where they are obeyed.
//!
//! A transport hands in a [`Task`] by [`plan()`] and is told a [`Plan`]: an answer, or what is to be done before there is one. Nothing in
//! here does I/O, waits or reads a clock. What it knows is the [`Catalog`] of the moment, immutable and shared, and what is kept
//! of one host's session in a [`Nexus`].
//!
//! * [`command`]: logical unit numbers, tasks, command descriptor blocks.
//! * [`mod@plan`]: what is to be done, and the residual of what was moved.
//! * [`sense`]: statuses and sense data.
//! * [`unit`]: targets, target port groups, logical units, who may see them.
//! * [`nexus`]: what is kept of an initiator port and a target port.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod command;
pub mod nexus;
pub mod plan;
pub mod sense;
pub mod unit;

pub use command::{Attribute, Cdb, Lengths, Lun, Task};
pub use nexus::{InitiatorPort, Nexus};
pub use plan::{Answer, Extent, Plan, Residual};
pub use sense::{Sense, Status};
pub use unit::{Access, Catalog, Group, Target, Unit};
